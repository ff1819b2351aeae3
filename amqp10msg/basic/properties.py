"""The properties of class basic (0-9-1, class 60): `BasicProperties` and its encoding."""

from __future__ import annotations

import datetime
import struct
from collections.abc import Mapping
from operator import attrgetter
from typing import Any

import attrs

from amqp10msg.basic._codec import Reader, write_shortstr, write_table
from amqp10msg.basic.tables import Dialect, FieldTable
from amqp10msg.errors import DecodeError, EncodeError
from amqp10msg.limits import Limits
from amqp10msg.primitives import Timestamp

__all__ = [
    "PROPERTIES",
    "BasicProperties",
    "PropertyRow",
    "decode_properties",
    "decode_table",
    "encode_properties",
    "encode_table",
]


@attrs.frozen
class PropertyRow:
    """One property of a content class.

    Attributes:
        name: the attribute, such as ``content_type``.
        wire_name: the specification's name, such as ``content-type``.
        domain: its type: shortstr, table, octet or timestamp.
        bit: its bit in the property flags, 15 for the first.
    """

    name: str
    wire_name: str
    domain: str
    bit: int


def _rows(*pairs: tuple[str, str]) -> tuple[PropertyRow, ...]:
    return tuple(
        PropertyRow(name.replace("-", "_"), name, domain, 15 - i)
        for i, (name, domain) in enumerate(pairs)
    )


#: The 14 properties in the order of their flags (0-9-1, class basic).
PROPERTIES: tuple[PropertyRow, ...] = _rows(
    ("content-type", "shortstr"),
    ("content-encoding", "shortstr"),
    ("headers", "table"),
    ("delivery-mode", "octet"),
    ("priority", "octet"),
    ("correlation-id", "shortstr"),
    ("reply-to", "shortstr"),
    ("expiration", "shortstr"),
    ("message-id", "shortstr"),
    ("timestamp", "timestamp"),
    ("type", "shortstr"),
    ("user-id", "shortstr"),
    ("app-id", "shortstr"),
    ("cluster-id", "shortstr"),
)


@attrs.define(weakref_slot=False)
class BasicProperties:
    """The properties of one message of class basic; None where a property is not present.

    Text is str; octets of a peer that are no UTF-8 stand in it as lone surrogates (PEP 383) and
    are encoded as they came.

    Attributes:
        content_type: MIME type of the body.
        content_encoding: MIME content encoding of the body.
        headers: the application's fields; a dict is taken too. An empty table is not None.
        delivery_mode: 1 for non-persistent, 2 for persistent; 0 to 255 on the wire.
        priority: 0 to 9; 0 to 255 on the wire.
        correlation_id: the application's correlation identifier.
        reply_to: address to reply to, usually a queue's name.
        expiration: how long the message lives, as decimal text in milliseconds where RabbitMQ
            reads it; the specification leaves it open.
        message_id: the application's message identifier.
        timestamp: when the message was made, in seconds since the Unix epoch, 0 to 2^64 - 1; an
            aware datetime is taken too.
        type: the application's name of the kind of message.
        user_id: who made it; RabbitMQ checks it against the connection's user.
        app_id: which application made it.
        cluster_id: reserved in 0-9-1 and must be empty there; the cluster id of 0-9 and 0-8.
    """

    content_type: str | None = None
    content_encoding: str | None = None
    headers: FieldTable | Mapping[str, Any] | None = None
    delivery_mode: int | None = None
    priority: int | None = None
    correlation_id: str | None = None
    reply_to: str | None = None
    expiration: str | None = None
    message_id: str | None = None
    timestamp: int | datetime.datetime | None = None
    type: str | None = None
    user_id: str | None = None
    app_id: str | None = None
    cluster_id: str | None = None

    def __repr__(self) -> str:
        shown = ", ".join(
            f"{row.name}={value!r}"
            for row in PROPERTIES
            if (value := getattr(self, row.name)) is not None
        )
        return f"BasicProperties({shown})"


_U16 = struct.Struct(">H")
_U64 = struct.Struct(">Q")
_OCTET = struct.Struct(">B")


class Layout:
    """The properties of one class, as reading and writing want them.

    Attributes:
        rows: the properties in the order of their flags.
        known: the flags of them, as bits.
        values_of: gives the attributes of an object all at once.
    """

    __slots__ = ("_plans", "known", "rows", "values_of")
    _domains = ("shortstr", "table", "octet", "timestamp")
    # Peers use few combinations of properties; the bound keeps one that tries them all from
    # growing this.
    _max_plans = 1024

    def __init__(self, rows: tuple[PropertyRow, ...]) -> None:
        self.rows = rows
        self.known = sum(1 << row.bit for row in rows)
        self.values_of: Any = attrgetter(*(row.name for row in rows))
        self._plans: dict[int, tuple[tuple[int, int], ...]] = {}

    def plan(self, flags: int) -> tuple[tuple[int, int], ...]:
        """Tell what is to be read for these flags: index and domain of each property."""
        found = self._plans.get(flags)
        if found is None:
            found = tuple(
                (index, self._domains.index(row.domain))
                for index, row in enumerate(self.rows)
                if flags >> row.bit & 1
            )
            if len(self._plans) < self._max_plans:
                self._plans[flags] = found
        return found


def read_rows(reader: Reader, layout: Layout) -> list[Any]:
    """Read property flags and the list behind them, None for what is not present.

    Args:
        reader: stands at the flags; behind the list afterwards.
        layout: the properties of the class.

    Raises:
        DecodeError: cut off, a flag of no property, or a value that cannot be read.
    """
    start = reader.pos
    data = reader.data
    flags: int = reader.fixed(_U16, "the property flags")
    if flags & ~layout.known:
        what = (
            "the property flags continue, and the class has no more properties"
            if flags & 1
            else f"the property flags {flags:04x} name a property that the class has not"
        )
        raise reader.fault(what, start, "property-flags")
    found: list[Any] = [None] * len(layout.rows)
    index = 0
    end = reader.end
    try:
        for index, domain in layout.plan(flags):
            pos = reader.pos
            if domain == 0:
                if pos < end:
                    stop = pos + 1 + data[pos]
                    if stop <= end:
                        reader.pos = stop
                        found[index] = data[pos + 1 : stop].decode("utf-8", "surrogateescape")
                        continue
                reader.shortstr()  # says what is wrong
            elif domain == 1:
                found[index] = reader.table()
            elif domain == 2:
                found[index] = reader.fixed(_OCTET, "an octet")
            else:
                found[index] = reader.fixed(_U64, "a timestamp")
    except DecodeError as error:
        error.path = layout.rows[index].wire_name + error.path
        raise
    return found


def write_rows(out: bytearray, layout: Layout, source: Any, dialect: Dialect) -> None:
    """Append the flags and list of what an object has under the names of the rows."""
    start = len(out)
    out += b"\0\0"
    flags = 0
    for row, value in zip(layout.rows, layout.values_of(source), strict=True):
        if value is None:
            continue
        flags |= 1 << row.bit
        domain = row.domain
        if domain == "shortstr":
            if type(value) is str and value.isascii() and len(value) < 256:
                out.append(len(value))
                out += value.encode("ascii")
            else:
                write_shortstr(out, value, row.wire_name)
        elif domain == "table":
            write_table(out, value, dialect, row.wire_name)
        else:
            write_number(out, value, row)
    out[start] = flags >> 8
    out[start + 1] = flags & 0xFF


def write_number(out: bytearray, value: Any, row: PropertyRow) -> None:
    """Append an octet or a timestamp; EncodeError if it does not fit."""
    if isinstance(value, datetime.datetime):
        try:
            value = int(Timestamp.from_datetime(value)) // 1000
        except ValueError as error:
            raise EncodeError(str(error), row.wire_name) from None
    try:
        out += (_OCTET if row.domain == "octet" else _U64).pack(value)
    except struct.error:
        most = "255" if row.domain == "octet" else "2^64 - 1"
        raise EncodeError(
            f"must be an int from 0 to {most}, not {value!r:.60}", row.wire_name
        ) from None


#: The layout of class basic.
BASIC = Layout(PROPERTIES)


def finished(reader: Reader) -> None:
    """Refuse octets behind what was read."""
    if reader.pos != reader.end:
        raise reader.fault(
            f"{reader.end - reader.pos} octets follow where nothing may", reader.pos, "trailing"
        )


def input_octets(data: bytes | bytearray | memoryview) -> bytes:
    """Give the input as bytes; TypeError if it is none."""
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise TypeError(f"expected bytes, bytearray or memoryview, not {type(data).__name__}")
    return bytes(data)


def decode_properties(
    data: bytes | bytearray | memoryview,
    *,
    dialect: Dialect = "rabbitmq",
    limits: Limits | None = None,
) -> BasicProperties:
    """Decode the property flags and property list of class basic, which fill the input.

    What a server would refuse for its meaning is read: `check_properties` reports it.

    Args:
        data: the flags and the list, without class, weight and body size.
        dialect: how the letters of field tables are read, see `Dialect`.
        limits: what reading may cost; the defaults of `Limits` where None.

    Raises:
        DecodeError: cut off, more octets than it says, a flag of no property, a field of no type.
    """
    reader = Reader(input_octets(data), dialect, limits)
    made = BasicProperties(*read_rows(reader, BASIC))
    finished(reader)
    return made


def encode_properties(properties: BasicProperties, *, dialect: Dialect = "rabbitmq") -> bytes:
    """Encode property flags and property list.

    Raises:
        EncodeError: a value does not fit its property; the error's path says which.
    """
    out = bytearray()
    write_rows(out, BASIC, properties, dialect)
    return bytes(out)


def decode_table(
    data: bytes | bytearray | memoryview,
    *,
    dialect: Dialect = "rabbitmq",
    limits: Limits | None = None,
) -> FieldTable:
    """Decode a field table that fills the input, its four octets of length included.

    Raises:
        DecodeError: cut off, more octets than it says, or a field of no type.
    """
    reader = Reader(input_octets(data), dialect, limits)
    made = reader.table()
    finished(reader)
    return made


def encode_table(table: FieldTable | Mapping[str, Any], *, dialect: Dialect = "rabbitmq") -> bytes:
    """Encode a field table with its four octets of length.

    Raises:
        EncodeError: a name or value does not fit; the error's path says which.
    """
    out = bytearray()
    write_table(out, table, dialect)
    return bytes(out)
