"""A message of class basic, and its content header frame (0-9-1, 4.2.6.1)."""

from __future__ import annotations

import struct
from typing import Any

import attrs

from amqp10msg.basic._reader import BasicReader
from amqp10msg.basic._writer import is_unchanged, write_shortstr
from amqp10msg.basic.properties import (
    BASIC,
    BasicProperties,
    decode_properties,
    encode_properties,
    input_octets,
)
from amqp10msg.basic.tables import Dialect
from amqp10msg.wire import kernel
from amqp10msg.wire.errors import EncodeError, as_bytes, expect, wrong_type
from amqp10msg.wire.kernel.twin import FieldOutput, Slots
from amqp10msg.wire.limits import UNLIMITED, Limits
from amqp10msg.wire.reprs import shown

# By library, what makes a message of its properties.
_MAKERS = {"pika": "from_pika", "pamqp": "from_pamqp"}
#: The number of class basic.
BASIC_CLASS = 60


def how_to_make_of(properties: object) -> str:
    """Return the code that makes a message of another library's properties; "" if unknown."""
    maker = _MAKERS.get(type(properties).__module__.partition(".")[0])
    return f"write BasicMessage.{maker}(properties, body)" if maker else ""


@shown
@attrs.define(repr=False)
class BasicMessage(kernel.Record):
    """A message of class basic: properties, body, and the exchange and routing key it was sent to.

    Attributes:
        properties: what the content header says.
        body: the payload.
        exchange: the exchange that it was published to; "" is the default exchange.
        routing_key: the key that it was published with.
        redelivered: it may have been delivered before.
    """

    properties: BasicProperties = attrs.Factory(BasicProperties)
    body: bytes = b""
    exchange: str = ""
    routing_key: str = ""
    redelivered: bool = False

    def __attrs_post_init__(self) -> None:
        how = {str: "encode it, body.encode()"}
        expect(self.body, (bytes, bytearray), "the body of a BasicMessage", "bytes", how)
        properties: Any = self.properties
        if not isinstance(properties, BasicProperties):
            instead = how_to_make_of(properties)
            raise wrong_type("a BasicMessage", "BasicProperties", properties, instead)

    @classmethod
    def from_pika(cls, properties: Any, body: bytes = b"", method: Any = None) -> BasicMessage:
        """Make a message of what pika passes to a consumer.

        Args:
            properties: a ``pika.BasicProperties``.
            body: the payload.
            method: the ``Basic.Deliver`` or ``Basic.GetOk``, for exchange and routing key.

        Raises:
            TypeError: an argument is of another type, or a header has a value of a type that no
                field holds. pika passes the method first, `from_pika` takes it last.
            ValueError: an integer in the headers needs more than 64 bits.
        """
        from amqp10msg.basic.adapters import from_pika  # noqa: PLC0415  (most need no adapter)

        return cls(
            from_pika(properties),
            as_bytes(body, "the body of a BasicMessage"),
            *_origin(method, "pika"),
        )

    def to_pika(self) -> Any:
        """Return a ``pika.BasicProperties``; `adapters.lost_in_pika` names what it cannot hold."""
        from amqp10msg.basic.adapters import to_pika  # noqa: PLC0415  (as above)

        return to_pika(self.properties)

    @classmethod
    def from_pamqp(cls, properties: Any, body: bytes = b"", method: Any = None) -> BasicMessage:
        """Make a message of what pamqp and aio-pika pass on: a ``pamqp.commands.Basic.Properties``.

        Args:
            properties: the properties.
            body: the payload.
            method: the ``Basic.Deliver`` or ``Basic.GetOk``, for exchange and routing key.

        Raises:
            TypeError: an argument is of another type, or a header has a value of a type that no
                field holds.
            ValueError: an integer in the headers needs more than 64 bits.
        """
        from amqp10msg.basic.adapters import from_pamqp  # noqa: PLC0415  (as above)

        return cls(
            from_pamqp(properties),
            as_bytes(body, "the body of a BasicMessage"),
            *_origin(method, "pamqp"),
        )

    def to_pamqp(self) -> Any:
        """Return properties for pamqp; `adapters.lost_in_pamqp` names what they cannot hold."""
        from amqp10msg.basic.adapters import to_pamqp  # noqa: PLC0415  (as above)

        return to_pamqp(self.properties)


kernel.make_fast(BasicMessage, properties=(BasicProperties,), body=(bytes, bytearray))


def as_encoded(basic: BasicMessage, dialect: Dialect = "rabbitmq") -> BasicMessage:
    """Return a message whose values have the types that decoding returns.

    AMQP 0-9-1 can hold some values of other types, such as a datetime as timestamp or bytes as
    message-id: they are converted. It cannot hold any other value that was built wrongly.

    Args:
        basic: the message, which is not changed.
        dialect: how the letters of field tables are written.

    Raises:
        EncodeError: a value does not fit; the error's path says which.
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
    if not is_unchanged(BASIC, properties, dialect):
        octets = encode_properties(properties, dialect=dialect)
        properties = decode_properties(octets, dialect=dialect, limits=UNLIMITED)
    return attrs.evolve(basic, properties=properties, body=bytes(basic.body))


def _origin(method: Any, library: str) -> tuple[str, str, bool]:
    """Return exchange, routing key and redelivered of a method; the defaults if it is None."""
    if method is None:
        return "", "", False
    try:
        return method.exchange, method.routing_key, bool(method.redelivered)
    except AttributeError:
        wanted = f"a Basic.Deliver or Basic.GetOk of {library}"
        how = "its arguments are properties, body, method"
        raise wrong_type(f"the method of from_{library}", wanted, method, how) from None


@attrs.define
class ContentHeader:
    """The payload of a content header frame (0-9-1, 4.2.6.1).

    Attributes:
        properties: the properties.
        body_size: bytes of the body that follows, 0 to 2^64 - 1.
        class_id: the content class, 60 for basic.
        weight: unused, must be 0.
    """

    properties: BasicProperties = attrs.Factory(BasicProperties)
    body_size: int = 0
    class_id: int = BASIC_CLASS
    weight: int = 0


_HEAD = struct.Struct(">HHQ")
_CONTENT_HEADER = Slots(ContentHeader, [field.name for field in attrs.fields(ContentHeader)])


def decode_content_header(
    data: bytes | bytearray | memoryview,
    *,
    dialect: Dialect = "rabbitmq",
    limits: Limits | None = None,
) -> ContentHeader:
    """Decode the payload of a content header frame of class basic, which fills the input.

    A weight other than 0 is read: `check_content_header` reports it.

    Raises:
        DecodeError: cut off, of another class, or its properties cannot be read.
    """
    octets = data if type(data) is bytes else input_octets(data)
    reader = BasicReader(octets, dialect, limits)
    if len(octets) < _HEAD.size:
        raise reader.fault(
            f"a content header has at least 14 bytes, and this has {len(octets)}", 0, "truncated"
        )
    class_id, weight, size = _HEAD.unpack_from(octets)
    if class_id != BASIC_CLASS:
        raise reader.fault(
            f"the content is of class {class_id}, and basic is 60: see amqp10msg.basic.classes",
            0,
            "content-class",
        )
    reader.pos = _HEAD.size
    made: ContentHeader = reader.into(
        _CONTENT_HEADER, [reader.properties(BASIC), size, class_id, weight]
    )
    reader.finish()
    return made


def encode_content_header(
    header: ContentHeader | BasicProperties,
    body_size: int | None = None,
    *,
    dialect: Dialect = "rabbitmq",
) -> bytes:
    """Encode the payload of a content header frame.

    Args:
        header: a content header, or the properties alone.
        body_size: bytes of the body; that of the header, or 0, where None.
        dialect: how the letters of field tables are written.

    Raises:
        EncodeError: a value does not fit; the error's path says which.
    """
    expect(header, (ContentHeader, BasicProperties), "encode_content_header", "a content header")
    if isinstance(header, BasicProperties):
        properties, class_id, weight, size = header, BASIC_CLASS, 0, body_size or 0
    else:
        properties, class_id, weight = header.properties, header.class_id, header.weight
        size = header.body_size if body_size is None else body_size
    try:
        head = _HEAD.pack(class_id, weight, size)
    except struct.error as error:
        raise EncodeError(
            f"class {class_id!r}, weight {weight!r} or body size {size!r} does not fit: {error}",
            "content-header",
        ) from None
    return head + encode_properties(properties, dialect=dialect)
