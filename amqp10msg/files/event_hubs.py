"""Files of Event Hubs Capture: Avro with a record for each event, and events as messages.

The fields and their types are those of Microsoft's page "Capture streaming events through Azure
Event Hubs" and of files that people published, whose ``Properties`` may also be null. Names in
``SystemProperties`` are those that the service's clients show: of a field of the properties section
the specification's, and of an annotation its key.

Capture writes what it knows of an event, not the message that was sent: the body, the application
properties, and in ``SystemProperties`` the fields of the properties section and the message
annotations. `message_of` puts them where the service puts them when it delivers over AMQP. Avro has
four types for values, so an int is a long there and a symbol a string.
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

#: The fields of a record, as Capture writes them.
FIELDS = (
    *("SequenceNumber", "Offset", "EnqueuedTimeUtc"),
    *("SystemProperties", "Properties", "Body"),
)
# The names of fields of the properties section, as SystemProperties have them.
_PROPERTIES = {field.name.replace("_", "-"): field for field in rows(Properties)}
#: Fields of an event, at most; those of Capture are six.
_MOST_FIELDS = 64
_TIMES = ("%m/%d/%Y %I:%M:%S %p", "%m/%d/%Y %H:%M:%S")


def time_of(text: Any) -> int | None:
    """Return an ``EnqueuedTimeUtc`` in ms since the Unix epoch; None for what is not a time.

    Capture writes ``7/25/2017 5:22:18 PM``; ISO 8601 is read, too.
    """
    for form in (None, *_TIMES):
        try:
            if form is None:
                return to_milliseconds(moment_of(text))
            moment = datetime.datetime.strptime(text, form).replace(tzinfo=datetime.UTC)
            return to_milliseconds(moment)
        except (TypeError, ValueError):
            continue
    return None


def message_of(event: Mapping[str, Any]) -> Message:
    """Return the message of a record of Capture.

    Args:
        event: the fields of the record, by name; those that are missing are null. Values of the
            two maps are str, int, float, bytes, bool or None.

    Raises:
        EncodeError: a field is of another type than Capture writes.
    """
    body = event.get("Body")
    if not isinstance(body, (bytes, bytearray, type(None))):
        raise EncodeError(f"Body is {type(body).__name__}, and must be bytes")
    fields: dict[str, Any] = {}
    annotations: dict[Any, Any] = {}
    for name, value in _entries(event, "SystemProperties"):
        read = _field(name, value)
        if read is None:
            annotations[Symbol(name)] = value
        else:
            fields[name.replace("-", "_")] = read
    # As the service says it when it delivers; what the record says of itself goes first.
    number, enqueued = event.get("SequenceNumber"), time_of(event.get("EnqueuedTimeUtc"))
    said = {
        "x-opt-sequence-number": number,
        "x-opt-offset": event.get("Offset"),
        # A text that is not a time stays one, so that nothing is lost.
        "x-opt-enqueued-time": event.get("EnqueuedTimeUtc")
        if enqueued is None
        else Timestamp(enqueued),
    }
    annotations |= {Symbol(name): value for name, value in said.items() if value is not None}
    properties = dict(_entries(event, "Properties"))
    return Message(
        Data(bytes(body or b"")),
        message_annotations=annotations or None,
        properties=Properties(**fields) if fields else None,
        application_properties=properties or None,
    )


def _entries(event: Mapping[str, Any], name: str) -> Iterator[tuple[str, Any]]:
    found = event.get(name) or {}
    pairs = found.items() if isinstance(found, Mapping) else found
    try:
        yield from pairs
    except (TypeError, ValueError):
        raise EncodeError(f"{name} is {type(found).__name__}, and must be a map") from None


def _field(name: str, value: Any) -> Any:
    """Return a value of SystemProperties as that of a field; None where it is not one's.

    What a field cannot hold stays an annotation, so that nothing is lost.
    """
    field = _PROPERTIES.get(name)
    if field is None or value is None:
        return None
    if field.requires == "message-id":
        return value if isinstance(value, (str, bytes)) else None
    if field.type == "binary":
        return value.encode() if isinstance(value, str) else value if type(value) is bytes else None
    if field.type == "timestamp":
        moment = value if type(value) is int else time_of(value)
        return None if moment is None else Timestamp(moment)
    if field.type == "uint":
        return UInt(value) if type(value) is int and 0 <= value < 1 << 32 else None
    if not isinstance(value, str) or (field.type == "symbol" and not value.isascii()):
        return None
    return value


def read_avro(stream: IO[bytes], max_size: int, limits: Limits) -> Iterator[Record]:
    """Read a file of Capture record by record.

    Args:
        stream: the file.
        max_size: bytes that one message may take.
        limits: of them, `expansion` bounds what blocks make, and `zero_width` the records without a
            byte; what is beyond is a fault, and not read.

    Raises:
        ValueError: this is not Avro, or not of Capture.
        ImportError: fastavro is not installed.
    """
    avro = Avro.of(stream)
    if not {"Body", "SystemProperties"} <= avro.names.keys():
        raise ValueError(
            f"this Avro is not of Event Hubs Capture: it has no Body and SystemProperties, but "
            f"{', '.join(sorted(avro.names)[:8])}"
        )
    odd = [name for name, kind in avro.names.items() if not is_simple(kind)]
    if odd:
        raise ValueError(
            f"this Avro is not of Event Hubs Capture: {odd[0]} is neither a value nor a map of them"
        )
    if len(avro.names) > _MOST_FIELDS:  # of which each may be null, and take no byte
        raise ValueError(f"this Avro is not of Event Hubs Capture: it has {len(avro.names)} fields")
    number = 0
    try:
        for event in avro.records(stream, limits):
            yield _record(number, event, max_size)
            number += 1
    except AvroError as error:
        fault = f"the Avro is cut off or damaged from here on: {error}"
        yield Record(number, fault=fault, ends=True)


def _record(number: int, event: Mapping[str, Any], max_size: int) -> Record:
    enqueued = time_of(event.get("EnqueuedTimeUtc"))
    try:
        wire = message_of(event).encode()
    except EncodeError as error:
        return Record(number, fault=f"not an event of Capture: {error}")
    if len(wire) > max_size:
        return Record(number, wire[:1024], f"larger than {max_size:,} bytes")
    return Record(number, wire, time=None if enqueued is None else enqueued * 1000)
