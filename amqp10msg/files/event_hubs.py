"""Read Avro files of Event Hubs Capture, and convert their events to messages.

The fields and types are documented by Microsoft's page "Capture streaming events through Azure
Event Hubs"; in published files, ``Properties`` may be null. Names in ``SystemProperties`` are
the names of properties in the specification, or the keys of annotations.

Capture does not write the original message. It writes the body, the application properties, and in
``SystemProperties`` the properties and the message annotations. `message_of` builds the message
that the service would deliver over AMQP. Avro has fewer types than AMQP, so Capture has converted
an int to a long, and a symbol to a string.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping
from typing import IO, Any

from amqp10msg.composite import rows
from amqp10msg.files._avro import Avro, AvroError, is_simple
from amqp10msg.files._record import Record
from amqp10msg.message import Message
from amqp10msg.sections import Data, Properties, moment_of, to_milliseconds
from amqp10msg.wire.errors import EncodeError
from amqp10msg.wire.limits import Limits
from amqp10msg.wire.primitives import Symbol, Timestamp, UInt

#: The names of the fields of a record of Capture.
CAPTURE_FIELDS = (
    *("SequenceNumber", "Offset", "EnqueuedTimeUtc"),
    *("SystemProperties", "Properties", "Body"),
)
# The fields of the AMQP properties section, by their names in SystemProperties.
_PROPERTIES_FIELDS = {field.name.replace("_", "-"): field for field in rows(Properties)}
#: Maximum number of fields of a record; Capture writes six.
_MAX_RECORD_FIELDS = 64
#: The formats of ``EnqueuedTimeUtc`` for `strptime`, with and without AM and PM.
_ENQUEUED_TIME_FORMATS = ("%m/%d/%Y %I:%M:%S %p", "%m/%d/%Y %H:%M:%S")


def time_of(text: Any) -> int | None:
    """Parse an ``EnqueuedTimeUtc``; return ms since the Unix epoch, or None if it is invalid.

    Capture writes ``7/25/2017 5:22:18 PM``. ISO 8601 is also accepted.
    """
    for form in (None, *_ENQUEUED_TIME_FORMATS):
        try:
            if form is None:
                return to_milliseconds(moment_of(text))
            time = datetime.datetime.strptime(text, form).replace(tzinfo=datetime.UTC)
            return to_milliseconds(time)
        except (TypeError, ValueError):
            continue
    return None


def message_of(event: Mapping[str, Any]) -> Message:
    """Convert a record of Capture to a message.

    Args:
        event: the fields of the record by name. A missing field is null. Values in the two maps are
            str, int, float, bytes, bool or None.

    Raises:
        EncodeError: a field has a type that Capture does not write.
    """
    body = event.get("Body")
    if not isinstance(body, (bytes, bytearray, type(None))):
        raise EncodeError(f"Body must be bytes, not {type(body).__name__}")
    fields: dict[str, Any] = {}
    annotations: dict[Any, Any] = {}
    for name, value in _map_entries(event, "SystemProperties"):
        converted = _property_value(name, value)
        if converted is None:
            annotations[Symbol(name)] = value
        else:
            fields[name.replace("-", "_")] = converted
    # Event Hubs delivers the following fields as message annotations. They replace entries of
    # SystemProperties that have the same keys.
    number, enqueued = event.get("SequenceNumber"), time_of(event.get("EnqueuedTimeUtc"))
    delivered = {
        "x-opt-sequence-number": number,
        "x-opt-offset": event.get("Offset"),
        # Keep a string that is not a time, so that no data is lost.
        "x-opt-enqueued-time": event.get("EnqueuedTimeUtc")
        if enqueued is None
        else Timestamp(enqueued),
    }
    annotations |= {Symbol(name): value for name, value in delivered.items() if value is not None}
    properties = dict(_map_entries(event, "Properties"))
    return Message(
        Data(bytes(body or b"")),
        message_annotations=annotations or None,
        properties=Properties(**fields) if fields else None,
        application_properties=properties or None,
    )


def _map_entries(event: Mapping[str, Any], name: str) -> Iterator[tuple[str, Any]]:
    """Yield the entries of the map in the field `name`; EncodeError if it is not a map."""
    entries = event.get(name) or {}
    pairs = entries.items() if isinstance(entries, Mapping) else entries
    try:
        yield from pairs
    except (TypeError, ValueError):
        raise EncodeError(f"{name} must be a map, not {type(entries).__name__}") from None


def _property_value(name: str, value: Any) -> Any:
    """Convert a value of SystemProperties to the type of the property `name`.

    Return None if the property does not exist or cannot hold the value: the value is then kept as
    an annotation, so that no data is lost.
    """
    field = _PROPERTIES_FIELDS.get(name)
    if field is None or value is None:
        return None
    if field.requires == "message-id":
        return value if isinstance(value, (str, bytes)) else None
    if field.type == "binary":
        return value.encode() if isinstance(value, str) else value if type(value) is bytes else None
    if field.type == "timestamp":
        milliseconds = value if type(value) is int else time_of(value)
        return None if milliseconds is None else Timestamp(milliseconds)
    if field.type == "uint":
        return UInt(value) if type(value) is int and 0 <= value < 1 << 32 else None
    if not isinstance(value, str) or (field.type == "symbol" and not value.isascii()):
        return None
    return value


def read_avro(stream: IO[bytes], max_size: int, limits: Limits) -> Iterator[Record]:
    """Read the records of a file of Capture.

    Args:
        stream: the file.
        max_size: maximum size of a message in bytes.
        limits: `expansion_ratio` limits the decompressed size, and `zero_width` the number of
            records that have no bytes. The part of the file beyond a limit is not read, and
            reported as a fault.

    Raises:
        ValueError: the file is not an Avro file of Capture.
        ImportError: fastavro is not installed.
    """
    avro = Avro.of(stream)
    if not {"Body", "SystemProperties"} <= avro.field_types.keys():
        raise ValueError(
            f"this Avro is not of Event Hubs Capture: it has no Body and SystemProperties, but "
            f"{', '.join(sorted(avro.field_types)[:8])}"
        )
    odd = [name for name, kind in avro.field_types.items() if not is_simple(kind)]
    if odd:
        raise ValueError(
            f"this Avro is not of Event Hubs Capture: {odd[0]} is neither a value nor a map of "
            "values"
        )
    if (
        len(avro.field_types) > _MAX_RECORD_FIELDS
    ):  # null fields have no bytes, so they would be unlimited
        raise ValueError(
            f"this Avro is not of Event Hubs Capture: it has {len(avro.field_types)} fields"
        )
    number = 0
    try:
        for event in avro.records(stream, limits):
            yield _record_of_event(number, event, max_size)
            number += 1
    except AvroError as error:
        fault = f"the Avro file is truncated or damaged here: {error}"
        yield Record(number, fault=fault, ends=True)


def _record_of_event(number: int, event: Mapping[str, Any], max_size: int) -> Record:
    """Return the record of an event; `number` is its index in the file."""
    enqueued = time_of(event.get("EnqueuedTimeUtc"))
    try:
        wire = message_of(event).encode()
    except EncodeError as error:
        return Record(number, fault=f"not an event of Capture: {error}")
    if len(wire) > max_size:
        return Record(number, wire[:1024], f"larger than {max_size:,} bytes")
    return Record(number, wire, time=None if enqueued is None else enqueued * 1000)
