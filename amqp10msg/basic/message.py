"""A message of class basic, and its content header frame (0-9-1, 4.2.6.1)."""

from __future__ import annotations

import struct
from typing import Any

import attrs

from amqp10msg.basic._reader import BasicReader
from amqp10msg.basic._writer import is_unchanged, write_shortstr
from amqp10msg.basic.properties import (
    BASIC_LAYOUT,
    BasicProperties,
    decode_properties,
    encode_properties,
    input_octets,
)
from amqp10msg.basic.tables import Dialect
from amqp10msg.wire import kernel
from amqp10msg.wire.errors import DecodeError, EncodeError, as_bytes, expect, wrong_type
from amqp10msg.wire.kernel.twin import AttributeSlots, FieldOutput
from amqp10msg.wire.limits import UNLIMITED, Limits
from amqp10msg.wire.reprs import with_bounded_repr
from amqp10msg.wire.text import plural

# The name of the constructor of BasicMessage that converts the properties of a library.
_CONSTRUCTOR_BY_LIBRARY = {"pika": "from_pika", "pamqp": "from_pamqp"}
#: The number of class basic.
BASIC_CLASS = 60


def conversion_hint(properties: object) -> str:
    """Return how to convert properties of pika or pamqp, for an error; empty for other objects."""
    constructor = _CONSTRUCTOR_BY_LIBRARY.get(type(properties).__module__.partition(".")[0])
    return f"write BasicMessage.{constructor}(properties, body)" if constructor else ""


@with_bounded_repr
@attrs.define(repr=False)
class BasicMessage(kernel.Record):
    """A message of class basic with the exchange and routing key of its method.

    Attributes:
        properties: the properties in the content header.
        body: the payload.
        exchange: the exchange that the message was published to; "" is the default exchange.
        routing_key: the routing key that the message was published with.
        redelivered: whether the message may have been delivered before.
    """

    properties: BasicProperties = attrs.Factory(BasicProperties)
    body: bytes = b""
    exchange: str = ""
    routing_key: str = ""
    redelivered: bool = False

    def __attrs_post_init__(self) -> None:
        hints = {str: "encode it, body.encode()"}
        expect(self.body, (bytes, bytearray), "the body of a BasicMessage", "bytes", hints)
        properties: Any = self.properties
        if not isinstance(properties, BasicProperties):
            hint = conversion_hint(properties)
            subject = "a BasicMessage"
            raise wrong_type(subject, "BasicProperties", properties, hint)

    @classmethod
    def from_pika(cls, properties: Any, body: bytes = b"", method: Any = None) -> BasicMessage:
        """Convert the arguments of a pika consumer callback.

        Args:
            properties: a ``pika.BasicProperties``.
            body: the payload.
            method: the ``Basic.Deliver``, ``Basic.GetOk`` or ``Basic.Publish`` with exchange and
                routing key, or None. pika passes the method first, and `from_pika` expects it last.

        Raises:
            TypeError: an argument has a wrong type, or a header value has a type without a field
                type in 0-9-1.
            ValueError: an integer in the headers needs more than 64 bits.
        """
        from amqp10msg.basic.adapters import from_pika  # noqa: PLC0415  (only for users of pika)

        return cls(
            from_pika(properties),
            as_bytes(body, "the body of a BasicMessage"),
            *_route_of_method(method, "pika"),
        )

    def to_pika(self) -> Any:
        """Convert the properties to ``pika.BasicProperties``.

        `adapters.lost_in_pika` lists the values that pika cannot represent.
        """
        from amqp10msg.basic.adapters import to_pika  # noqa: PLC0415  (as above)

        return to_pika(self.properties)

    @classmethod
    def from_pamqp(cls, properties: Any, body: bytes = b"", method: Any = None) -> BasicMessage:
        """Convert the properties of pamqp, which aio-pika uses.

        Args:
            properties: a ``pamqp.commands.Basic.Properties``.
            body: the payload.
            method: the ``Basic.Deliver``, ``Basic.GetOk`` or ``Basic.Publish`` with exchange and
                routing key, or None.

        Raises:
            TypeError: an argument has a wrong type, or a header value has a type without a field
                type in 0-9-1.
            ValueError: an integer in the headers needs more than 64 bits.
        """
        from amqp10msg.basic.adapters import from_pamqp  # noqa: PLC0415  (as above)

        return cls(
            from_pamqp(properties),
            as_bytes(body, "the body of a BasicMessage"),
            *_route_of_method(method, "pamqp"),
        )

    def to_pamqp(self) -> Any:
        """Convert the properties to ``pamqp.commands.Basic.Properties``.

        `adapters.lost_in_pamqp` lists the values that pamqp cannot represent.
        """
        from amqp10msg.basic.adapters import to_pamqp  # noqa: PLC0415  (as above)

        return to_pamqp(self.properties)


kernel.make_fast(BasicMessage, properties=(BasicProperties,), body=(bytes, bytearray))


def as_encoded(basic: BasicMessage, dialect: Dialect = "rabbitmq") -> BasicMessage:
    """Return the message that a receiver would decode, with the types that decoding returns.

    For example, a datetime as timestamp becomes a number, and bytes as message-id become a str.

    Args:
        basic: the message, which is not changed.
        dialect: the dialect of field tables.

    Raises:
        EncodeError: a value cannot be encoded; the error's path names it.
    """
    for name in ("exchange", "routing_key"):
        text = getattr(basic, name)
        path = name.replace("_", "-")
        if not isinstance(text, str):
            raise EncodeError(f"must be str, not {type(text).__name__}: {text!r:.60}", path)
        write_shortstr(FieldOutput(), text, path)
    if not isinstance(basic.redelivered, bool):
        raise EncodeError(f"must be True or False, not {basic.redelivered!r:.60}", "redelivered")
    if not isinstance(basic.body, (bytes, bytearray, memoryview)):
        raise EncodeError(f"must be bytes, not {type(basic.body).__name__}", "body")
    properties = basic.properties
    if not isinstance(properties, BasicProperties):
        raise EncodeError(f"must be BasicProperties, not {type(properties).__name__}", "properties")
    if not is_unchanged(BASIC_LAYOUT, properties, dialect):
        octets = encode_properties(properties, dialect=dialect)
        properties = decode_properties(octets, dialect=dialect, limits=UNLIMITED)
    return attrs.evolve(basic, properties=properties, body=bytes(basic.body))


def _route_of_method(method: Any, library: str) -> tuple[str, str, bool]:
    """Return the exchange, the routing key and the redelivered flag of a library's method.

    Returns the defaults if `method` is None.
    """
    if method is None:
        return "", "", False
    try:
        redelivered = bool(getattr(method, "redelivered", False))
        return method.exchange, method.routing_key, redelivered
    except AttributeError:
        expected = f"a Basic.Deliver or Basic.GetOk of {library}"
        hint = "its arguments are properties, body, method"
        subject = f"the method of from_{library}"
        raise wrong_type(subject, expected, method, hint) from None


@attrs.define
class ContentHeader:
    """The payload of a content header frame (0-9-1, 4.2.6.1).

    Attributes:
        properties: the properties.
        body_size: size of the body in bytes, 0 to 2^64 - 1.
        class_id: the content class; 60 for basic.
        weight: unused; must be 0.
    """

    properties: BasicProperties = attrs.Factory(BasicProperties)
    body_size: int = 0
    class_id: int = BASIC_CLASS
    weight: int = 0


#: The first fields of a content header: class, weight and body size.
_CLASS_WEIGHT_SIZE_FORMAT = struct.Struct(">HHQ")
# The parts of a content header that always exist, with their offsets and ends.
_HEADER_PARTS = (
    ("class-id", 0, 2),
    ("weight", 2, 4),
    ("body-size", 4, 12),
    ("property-flags", 12, 14),
)
_MIN_HEADER_SIZE = 14
_CONTENT_HEADER_SLOTS = AttributeSlots(
    ContentHeader, [field.name for field in attrs.fields(ContentHeader)]
)


def _cut_header(reader: BasicReader, size: int) -> DecodeError:
    """Return the error for a content header of `size` bytes, which names its incomplete part."""
    name, start = next((name, start) for name, start, end in _HEADER_PARTS if size < end)
    error: DecodeError = reader.fault(
        f"the content header is cut off after {plural(size, 'byte')}, in its "
        f"{name.replace('-', ' ')}: it has at least {_MIN_HEADER_SIZE} bytes",
        start,
        "truncated",
    )
    error.path = name
    return error


def decode_content_header(
    data: bytes | bytearray | memoryview,
    *,
    dialect: Dialect = "rabbitmq",
    limits: Limits | None = None,
) -> ContentHeader:
    """Decode the payload of a content header frame of class basic.

    A weight other than 0 is accepted; `check_content_header` reports it.

    Args:
        data: the payload.
        dialect: the dialect of field tables.
        limits: the limits of decoding; None for the defaults of `Limits`.

    Raises:
        DecodeError: the payload is truncated or has another class, or the properties are invalid.
    """
    octets = data if type(data) is bytes else input_octets(data)
    reader = BasicReader(octets, dialect, limits)
    if len(octets) < _MIN_HEADER_SIZE:
        raise _cut_header(reader, len(octets))
    class_id, weight, size = _CLASS_WEIGHT_SIZE_FORMAT.unpack_from(octets)
    if class_id != BASIC_CLASS:
        error = reader.fault(
            f"the class is {class_id}, not basic (60): see amqp10msg.basic.classes",
            0,
            "content-class",
        )
        error.path = "class-id"
        raise error
    reader.pos = _CLASS_WEIGHT_SIZE_FORMAT.size
    header: ContentHeader = reader.into(
        _CONTENT_HEADER_SLOTS, [reader.properties(BASIC_LAYOUT), size, class_id, weight]
    )
    reader.finish()
    return header


def encode_content_header(
    header: ContentHeader | BasicProperties,
    body_size: int | None = None,
    *,
    dialect: Dialect = "rabbitmq",
) -> bytes:
    """Encode the payload of a content header frame.

    Args:
        header: a content header or properties.
        body_size: size of the body in bytes; None for the size in `header`, or 0 for properties.
        dialect: the dialect of field tables.

    Raises:
        EncodeError: a value cannot be encoded; the error's path names it.
    """
    expect(header, (ContentHeader, BasicProperties), "encode_content_header", "a content header")
    if isinstance(header, BasicProperties):
        properties, class_id, weight, size = header, BASIC_CLASS, 0, body_size or 0
    else:
        properties, class_id, weight = header.properties, header.class_id, header.weight
        size = header.body_size if body_size is None else body_size
    try:
        head = _CLASS_WEIGHT_SIZE_FORMAT.pack(class_id, weight, size)
    except struct.error as error:
        raise EncodeError(
            f"class {class_id!r}, weight {weight!r} or body size {size!r} does not fit: {error}",
            "content-header",
        ) from None
    return head + encode_properties(properties, dialect=dialect)
