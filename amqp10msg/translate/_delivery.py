"""Removes the values that RabbitMQ adds to a message when it delivers it.

As observed: RabbitMQ 3.10 sends consumers of 1.0 a header section with all fields. In 4.0 and 4.3,
a stream adds the offset, and for consumers of 0-9-1 also delivery mode 1 if the message had no
delivery mode; a quorum queue adds the number of earlier deliveries; a dead-letter exchange adds the
record of the message's deaths.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from amqp10msg.basic.message import BasicMessage
from amqp10msg.basic.tables import FieldArray, FieldTable
from amqp10msg.brokers import ACQUIRED_COUNT, DEATHS, DELIVERY_COUNT, STREAM_OFFSET
from amqp10msg.message import Message
from amqp10msg.sections import Data, Header, Properties
from amqp10msg.sections.parts import parts_of
from amqp10msg.translate.losses import TO_BASIC_LOSSES
from amqp10msg.translate.report import RABBITMQ_3_10_BODY_REASON, Notes
from amqp10msg.translate.table import DEFAULT_PRIORITY, is_text
from amqp10msg.wire import kernel
from amqp10msg.wire.kernel.codes import DATA_CODE, PROPERTIES_CODE
from amqp10msg.wire.limits import UNLIMITED
from amqp10msg.wire.primitives import Array, Symbol, UInt

#: Names of the stream offset and the delivery counts, which RabbitMQ sets for each delivery. They
#: are headers in 0-9-1 and annotations in 1.0.
PER_DELIVERY_HEADER_NAMES = frozenset({STREAM_OFFSET, DELIVERY_COUNT, ACQUIRED_COUNT})
#: The loss rule for a value that is dropped because RabbitMQ added it at delivery.
_DELIVERY_METADATA_LOSS_RULE = TO_BASIC_LOSSES["fact"]
#: Names of the headers and annotations about the first and the last death.
DEATH_SUMMARY_HEADER_NAMES = [
    f"x-{which}-death-{attribute}"
    for which in ("first", "last")
    for attribute in ("exchange", "queue", "reason")
]
#: The value type of each message annotation that RabbitMQ adds, by key.
ADDED_ANNOTATION_TYPES: dict[str, type] = {
    **dict.fromkeys(PER_DELIVERY_HEADER_NAMES, int),
    **dict.fromkeys(DEATH_SUMMARY_HEADER_NAMES, str),
    DEATHS: Array,
}
#: The type letter of each header that RabbitMQ adds, by name.
ADDED_HEADER_LETTERS: dict[str, str] = {
    **dict.fromkeys(PER_DELIVERY_HEADER_NAMES, "l"),
    **dict.fromkeys(DEATH_SUMMARY_HEADER_NAMES, "S"),
    "x-death": "A",
}


_RABBITMQ_3_HEADER_PATTERN = re.compile(
    rb"\0\x53\x70\xc0.\x05[\x41\x42](?:\x40|\x50.)"
    rb"(?:[\x40\x43]|\x52.|\x70.{4})[\x41\x42]\x40",
    re.DOTALL,
)


def encode_full_header(header: Header) -> bytes:
    """Encode a header section with all five fields, as RabbitMQ 4 does at delivery."""
    out = b"\x41" if header.durable else b"\x42"
    out += b"\x40" if header.priority == DEFAULT_PRIORITY else b"\x50" + bytes([header.priority])
    out += b"\x40" if header.ttl is None else kernel.encode_value(UInt(header.ttl))
    out += (b"\x41" if header.first_acquirer else b"\x42") + b"\x43"
    return b"\x00\x53\x70\xc0" + bytes([len(out) + 1, 5]) + out


def is_header_of_3(octets: bytes) -> bool:
    """Whether a message begins with a header section as RabbitMQ 3.10 encodes it.

    Such a header has all fields: durable, priority or null, ttl or null, first-acquirer, and null
    as the delivery-count. Of all brokers and clients that were recorded, only RabbitMQ 3.10 encodes
    headers like this.
    """
    return _RABBITMQ_3_HEADER_PATTERN.match(octets) is not None


def without_rabbitmq_3_additions(message: Message, notes: Notes) -> Message:
    """Remove the values that RabbitMQ 3.10 has added to a message at delivery.

    RabbitMQ 3.10 replaces the header section (see `is_header_of_3`): only durable, priority and ttl
    are the sender's. To a message without properties it adds a properties section of thirteen
    fields, of which only the subject is set, to the routing key. It encodes 255 bytes of data in
    the long form.

    Args:
        message: a message with a header that RabbitMQ 3.10 encoded.
        notes: receives the losses.
    """
    header: Any = message.header
    notes.add_defined(TO_BASIC_LOSSES["header-of-3"], "header", header)
    changes: dict[str, Any] = {"header": None}
    parts = dict(_sections(message.encode()))
    if _is_properties_section_added(message.properties, parts.get(PROPERTIES_CODE, b"")):
        subject = message.properties.subject  # type: ignore[union-attr]  # there is one
        notes.add_defined(TO_BASIC_LOSSES["subject-of-3"], "properties.subject", subject)
        changes["properties"] = None
    annotations = message.message_annotations
    remaining_octets = message.evolve(**changes).encode()
    data = parts.get(DATA_CODE, b"")
    if isinstance(message.body, Data) and data.startswith(_RABBITMQ_3_DATA_HEAD):
        notes.add("body", "retyped", "long form", "short form", RABBITMQ_3_10_BODY_REASON)
        short_form = Message(message.body).encode()
        remaining_octets = b"".join(
            short_form if code == DATA_CODE else part for code, part in _sections(remaining_octets)
        )
    if annotations is not None and "x-exchange" in annotations:
        header_octets = encode_full_header(header)  # RabbitMQ 4 had delivered the message before
    else:
        sender_header = Header(durable=header.durable, priority=header.priority, ttl=header.ttl)
        header_octets = b"" if sender_header == Header() else kernel.encode_value(sender_header)
    return Message.decode(
        header_octets + remaining_octets, limits=UNLIMITED, message_format=message.message_format
    )


# The bytes before the content of a data section that has 255 bytes and the long form.
_RABBITMQ_3_DATA_HEAD = bytes.fromhex("005375b0000000ff")


def _sections(wire: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the code and the bytes of each section."""
    for code, start, _, end in parts_of(wire):
        yield code, wire[start:end]


def _is_properties_section_added(properties: Properties | None, octets: bytes) -> bool:
    """Whether RabbitMQ 3.10 has added the properties section `octets` to the message."""
    fields = [field.name for field in attrs.fields(Properties)]
    if properties is None or octets[3:4] != b"\xc0" or octets[5:6] != bytes([len(fields)]):
        return False
    return [name for name in fields if getattr(properties, name) is not None] == ["subject"]


def without_rabbitmq_4_additions(message: Message, notes: Notes) -> Message:
    """Remove the annotations and the delivery-count that RabbitMQ 4 has added at delivery.

    Args:
        message: a message with the annotation ``x-exchange``.
        notes: receives the losses.
    """
    annotations: Any = message.message_annotations
    added = [
        key
        for key, value in annotations.items()
        if isinstance(key, str) and ADDED_ANNOTATION_TYPES.get(key) is type(value)
    ]
    if not added:
        return message
    for key in added:
        notes.add_defined(
            _DELIVERY_METADATA_LOSS_RULE, f"message-annotations[{str(key)!r}]", annotations[key]
        )
    sender_annotations = {key: value for key, value in annotations.items() if key not in added}
    header = message.header
    if header is None:
        return message.evolve(message_annotations=sender_annotations)
    if DEATHS in added and header.ttl is None:
        report_former_ttl(annotations[DEATHS], notes)
    if header.delivery_count:
        notes.add_defined(
            _DELIVERY_METADATA_LOSS_RULE, "header.delivery-count", header.delivery_count
        )
        header = attrs.evolve(header, delivery_count=0)
    octets = (
        encode_full_header(header)
        + message.evolve(header=None, message_annotations=sender_annotations).encode()
    )
    return Message.decode(octets, limits=UNLIMITED, message_format=message.message_format)


def report_former_ttl(deaths: Array, notes: Notes) -> None:
    """Report the loss of the ttl that the message had before it was dead-lettered."""
    for death in deaths.values:
        ttl = death.get(Symbol("ttl")) if isinstance(death, Mapping) else None
        if ttl is not None:
            notes.add_dropped("header.ttl", int(ttl), "RabbitMQ removed it from the dead letter")
            return


def without_broker_headers(
    basic: BasicMessage, entries: list[Any], notes: Notes, sender_names: set[str] | None = None
) -> tuple[BasicMessage, list[Any] | None]:
    """Remove the headers that RabbitMQ has added to a delivered 0-9-1 message.

    Args:
        basic: the message, with an exchange or a routing key.
        entries: the entries of its headers.
        notes: receives the losses.
        sender_names: names of the headers that the message had when it was published; None if they
            are unknown: the headers about its deaths are then kept.

    Returns:
        The message and its entries; the unchanged arguments if RabbitMQ added no headers.
    """
    added = {
        name: value
        for name, letter, value in entries
        if ADDED_HEADER_LETTERS.get(name) == letter
        and (
            name in PER_DELIVERY_HEADER_NAMES if sender_names is None else name not in sender_names
        )
    }
    if not added:
        return basic, entries
    for name, value in added.items():
        notes.add_defined(_DELIVERY_METADATA_LOSS_RULE, f"headers[{name!r}]", value)
    remaining = [entry for entry in entries if entry[0] not in added]
    properties = basic.properties
    if STREAM_OFFSET in added:
        remaining = [_restore_binary(entry) for entry in remaining]
        if properties.delivery_mode == 1:
            properties = attrs.evolve(properties, delivery_mode=None)
            notes.add_defined(_DELIVERY_METADATA_LOSS_RULE, "properties.delivery-mode", 1)
    headers = FieldTable.of(remaining) if remaining else None
    properties = attrs.evolve(properties, headers=headers)
    return attrs.evolve(basic, properties=properties), remaining or None


def _restore_binary(entry: Any) -> Any:
    """Convert long strings that are not valid UTF-8 back to binaries.

    A stream had converted these binaries to long strings. `entry` is a header, or an entry of a
    nested array or table.
    """
    *name, letter, value = entry
    if letter == "A":
        return *name, "A", FieldArray.of([_restore_binary(item) for item in value.entries])
    if letter == "F":
        return *name, "F", FieldTable.of([_restore_binary(item) for item in value.entries])
    if letter == "S" and isinstance(value, str) and not is_text(value):
        return *name, "x", value.encode("utf-8", "surrogateescape")
    return entry


def becomes_text(letter: str, value: Any) -> bool:
    """Whether a field is or contains a binary of valid UTF-8, which a stream converts to text."""
    if letter == "x":
        try:
            bytes(value).decode("utf-8")
        except UnicodeDecodeError:
            return False
        return True
    if letter == "A":
        return any(becomes_text(*entry) for entry in value.entries)
    return letter == "F" and any(becomes_text(*entry[1:]) for entry in value.entries)


def _name_bytes(entry: Any) -> bytes:
    octets: bytes = entry[0].encode("utf-8", "surrogateescape")
    return octets


def name_order(entries: list[Any]) -> list[int]:
    """Return the indexes of entries, sorted by the bytes of their names.

    RabbitMQ sorts the headers like this when it adds a header.
    """
    return sorted(range(len(entries)), key=lambda index: _name_bytes(entries[index]))


def in_name_order(entries: list[Any]) -> list[Any]:
    """Return entries sorted by name, as RabbitMQ sorts headers when it adds a header."""
    return sorted(entries, key=_name_bytes)


def is_in_name_order(entries: list[Any]) -> bool:
    """Whether entries are sorted by name, as RabbitMQ sorts headers."""
    return all(_name_bytes(a) <= _name_bytes(b) for a, b in itertools.pairwise(entries))
