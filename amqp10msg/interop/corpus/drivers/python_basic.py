"""A driver for the AMQP 0-9-1 codecs of pika, pamqp, and aiormq, which uses pamqp."""

from __future__ import annotations

import datetime
import decimal
import importlib
import struct
from importlib import metadata
from typing import Any, ClassVar

#: The properties of class basic, in the order of their flags.
PROPERTY_NAMES = (
    *("content_type", "content_encoding", "headers", "delivery_mode", "priority"),
    *("correlation_id", "reply_to", "expiration", "message_id", "timestamp"),
    *("type", "user_id", "app_id", "cluster_id"),
)


class Driver:
    """Decodes and encodes properties and field tables with pika or pamqp.

    Args:
        library: ``pika`` or ``pamqp``.
        through: a library that re-exports the classes of pamqp, such as ``aiormq``.
    """

    def __init__(self, library: str, through: str = "") -> None:
        self._codec: _Pika | _Pamqp = _Pika() if library == "pika" else _Pamqp(through)
        self.name = f"{library} {metadata.version(library)}"
        if through:
            self.name = f"{through} {metadata.version(through)} ({self.name})"
        # The libraries raise built-in exceptions for truncated bytes.
        self.refusals = (
            *(*self._codec.errors, struct.error, ValueError, LookupError, TypeError),
            OverflowError,
        )

    def decode(self, kind: str, data: bytes) -> Any:
        """Decode properties or a table to typed JSON; if a type is lost, with the type's family."""
        decoded = self._decode_bytes(kind, data)
        if kind == "basic-properties":
            return ["properties", properties(decoded, self._codec.names, self._codec.absent)]
        return ["F", table(decoded)]

    def again(self, kind: str, data: bytes) -> Any:
        """Decode bytes and encode the result."""
        decoded = self._decode_bytes(kind, data)
        if kind == "basic-properties":
            return self._codec.encode_properties(decoded)
        return self._codec.encode_table(decoded)

    def _decode_bytes(self, kind: str, data: bytes) -> Any:
        if kind == "basic-properties":
            return self._codec.decode_properties(data)
        if kind != "field-table":
            raise NotImplementedError(f"{self._codec.name} supports AMQP 0-9-1 only, not {kind}")
        decoded, used = self._codec.decode_table(data)
        if used != len(data):
            raise ValueError(f"{len(data) - used} trailing bytes after the table")
        return decoded


class _Pika:
    """The codec of pika."""

    name = "pika"
    # The library's names of properties, where they differ from the specification's.
    names: ClassVar[dict[str, str]] = {}
    # The values, other than None, that mean that a property is absent.
    absent: ClassVar[dict[str, Any]] = {}

    def __init__(self) -> None:
        self._data = importlib.import_module("pika.data")
        self._class = importlib.import_module("pika.spec").BasicProperties
        self.errors = (importlib.import_module("pika.exceptions").AMQPError,)

    def decode_properties(self, data: bytes) -> Any:
        return self._class().decode(data)

    def encode_properties(self, decoded: Any) -> bytes:
        return b"".join(decoded.encode())

    def decode_table(self, data: bytes) -> tuple[Any, int]:
        decoded, used = self._data.decode_table(data, 0)
        return decoded, used

    def encode_table(self, decoded: Any) -> bytes:
        pieces: list[bytes] = []
        self._data.encode_table(pieces, decoded)
        return b"".join(pieces)


class _Pamqp:
    """The codec of pamqp, with the attributes and methods of `_Pika`."""

    name = "pamqp"
    names: ClassVar[dict[str, str]] = {"type": "message_type"}
    # pamqp decodes an absent cluster-id to an empty text.
    absent: ClassVar[dict[str, Any]] = {"cluster_id": ""}

    def __init__(self, through: str) -> None:
        self._decode = importlib.import_module("pamqp.decode")
        self._encode = importlib.import_module("pamqp.encode")
        self._header = importlib.import_module("pamqp.header").ContentHeader
        reexported = importlib.import_module(through).spec if through else None
        commands = reexported or importlib.import_module("pamqp.commands")
        self._class = commands.Basic.Properties
        self.errors = (importlib.import_module("pamqp.exceptions").PAMQPException, OSError)

    def decode_properties(self, data: bytes) -> Any:
        used, flags = self._header._get_flags(data)
        decoded = self._class()
        decoded.unmarshal(flags, data[used:])
        return decoded

    def encode_properties(self, decoded: Any) -> Any:
        return decoded.marshal()

    def decode_table(self, data: bytes) -> tuple[Any, int]:
        used, decoded = self._decode.field_table(data)
        return decoded, used

    def encode_table(self, decoded: Any) -> Any:
        return self._encode.field_table(decoded)


def field(value: Any) -> list[Any]:
    """Return a table field in typed JSON: [type letter or family, value]."""
    if value is None:
        return ["V"]
    if isinstance(value, bool):
        return ["t", value]
    if isinstance(value, int):
        return ["integer", value]
    if isinstance(value, float):
        return ["number", value]
    if isinstance(value, str):
        return ["S", value]
    if isinstance(value, (bytes, bytearray)):
        return ["octets", bytes(value).hex()]
    if isinstance(value, decimal.Decimal):
        sign, digits, exponent = value.as_tuple()
        number = int("".join(map(str, digits)))
        return ["D", [-int(exponent), -number if sign else number]]
    if isinstance(value, datetime.datetime):
        return ["T", seconds(value)]
    if isinstance(value, dict):
        return ["F", table(value)]
    if isinstance(value, (list, tuple)):
        return ["A", [field(item) for item in value]]
    raise NotImplementedError(f"this driver does not support {type(value).__name__}")


def table(values: dict[Any, Any]) -> list[Any]:
    """Return a field table in typed JSON: [name, field] pairs in the order of `values`."""
    return [[key, field(value)] for key, value in values.items()]


def seconds(time: datetime.datetime) -> int:
    """Return the seconds since the Unix epoch. A datetime without a time zone is in UTC."""
    if time.tzinfo is None:
        time = time.replace(tzinfo=datetime.UTC)
    return int(time.timestamp())


def properties(decoded: Any, names: dict[str, str], absent: dict[str, Any]) -> list[Any]:
    """Return the present properties in typed JSON, with the specification's names.

    For `names` and `absent`, see `_Pika`.
    """
    entries: list[Any] = []
    for name in PROPERTY_NAMES:
        value = getattr(decoded, names.get(name, name))
        if value is None or value == absent.get(name):
            continue
        if name == "headers":
            value = table(value)
        elif isinstance(value, datetime.datetime):
            value = seconds(value)
        elif isinstance(value, bytes):
            value = {"hex": value.hex()}
        entries.append([name.replace("_", "-"), value])
    return entries
