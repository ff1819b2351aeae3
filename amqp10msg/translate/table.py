"""The correspondence of the lossless profile: one row a property, read in both directions.

Each row says where a property of class basic stands in a 1.0 message: in a field, or in an
annotation where no field holds its value. `forward` and `backward` are the two readings of a row;
both say whether the other one gives the same value back. What is not exact goes into the residual.
"""

from __future__ import annotations

import urllib.parse
import uuid
from collections.abc import Callable
from typing import Any, NamedTuple

import attrs

from amqp10msg.basic.properties import PROPERTIES
from amqp10msg.basic.tables import seconds_of
from amqp10msg.sections import Header, Properties
from amqp10msg.translate.losses import TO_BASIC_LOSSES, LossRule
from amqp10msg.translate.report import Action
from amqp10msg.validation.suspicion import CODINGS, MIME_TYPE
from amqp10msg.wire.primitives import (
    Byte,
    Int,
    Short,
    Symbol,
    UByte,
    UInt,
    ULong,
    UShort,
)

#: What the annotations begin with that hold properties of class basic.
PREFIX = "x-opt-basic-"
#: The fields of the properties section, in their order.
PROPERTY_FIELDS = [field.name for field in attrs.fields(Properties)]
#: The integer types of 1.0 by the letters of the fields that hold them exactly; a long is an ``l``.
INTEGERS: dict[str, Any] = {"b": Byte, "B": UByte, "s": Short, "u": UShort, "I": Int, "i": UInt}
#: By the name of a simple type of 1.0, the letter of the field that a value of it becomes.
LETTERS: dict[str, str] = {
    **{cls.__name__.lower(): letter for letter, cls in INTEGERS.items()},
    "null": "V",
    "boolean": "t",
    "long": "l",
    "float": "f",
    "double": "d",
    "timestamp": "T",
    "uuid": "S",
    "binary": "x",
    "string": "S",
    "symbol": "S",
}
_NO_CODING = {"identity", "compress", "x-compress"}
#: That of a 1.0 message whose header says none.
DEFAULT_PRIORITY: Any = attrs.fields(Header).priority.default
_MAX_PRIORITY = 9  # of 0-9-1
_MAX_TTL = 2**32 - 1
_MAX_MS = 2**63 - 1


class Place(NamedTuple):
    """Where a value goes, and whether reading it there gives it back.

    Attributes:
        where: ``field``, ``annotation`` or ``residual``.
        value: what stands there, None in the residual.
        exact: the way back gives the same value.
        how: what happened to a value that is not exact, an `Action`, and why.
    """

    where: str
    value: Any
    exact: bool = True
    how: tuple[Action, str] = ("carried", "1.0 cannot express it")


def _nowhere(reason: str) -> Place:
    return Place("residual", None, False, ("carried", reason))


def shortstr(text: str) -> bool:
    """Whether a text is a short string as 0-9-1 says: UTF-8, no NUL, at most 255 bytes."""
    return "\0" not in text and is_text(text) and len(text.encode("utf-8")) <= 255


def is_text(text: str) -> bool:
    """Whether a text is UTF-8, so that no lone surrogate stands in it for a byte."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _no_field(_: Any) -> tuple[Any, bool]:
    return None, False


# What 0-9-1 text becomes as a string, and back.


def _string_forward(text: str, _: bool) -> Place:
    if not is_text(text):
        return _nowhere("the bytes are not valid UTF-8")
    return Place("field", text, "\0" not in text)


def _string_backward(text: Any) -> tuple[Any, bool]:
    if type(text) is str and shortstr(text):
        return text, True
    return None, False


def _annotated(text: str, _: bool = True) -> Place:
    if not is_text(text):
        return _nowhere("the bytes are not valid UTF-8")
    return Place("annotation", text, "\0" not in text)


#: The type that says that the payload is encoded body sections.
MARKER = "amqp-1.0"


def _type_forward(text: str, _: bool) -> Place:
    # Before other bytes it ends the connections of consumers of 1.0.
    return _nowhere("the payload is no such sections") if text == MARKER else _annotated(text)


def _symbol(text: str) -> Place:
    if not text.isascii():  # which RabbitMQ 4 makes a symbol of all the same
        return _nowhere("a symbol is ASCII")
    return _annotated(text)


def _content_type_forward(text: str, is_data: bool) -> Place:
    if is_data and text.isascii() and MIME_TYPE.fullmatch(text):
        return Place("field", Symbol(text), "\0" not in text)
    return _symbol(text)


def _content_type_backward(text: Any) -> tuple[Any, bool]:
    if isinstance(text, str) and shortstr(text):
        return str(text), _content_type_forward(str(text), True).where == "field"
    return None, False


def _coding(text: str) -> bool:
    lowered = text.lower()
    return lowered in CODINGS and lowered not in _NO_CODING


def _content_encoding_forward(text: str, is_data: bool) -> Place:
    if is_data and text.isascii() and _coding(text):
        return Place("field", Symbol(text))
    return _symbol(text)


def _content_encoding_backward(text: Any) -> tuple[Any, bool]:
    if isinstance(text, str) and shortstr(text):
        return str(text), _coding(text)
    return None, False


_DURABLE = Place("field", True)


def _mode_forward(mode: int, _: bool) -> Place:
    if mode == 2:
        return _DURABLE
    if mode == 1:
        return Place("annotation", UByte(1))
    return _nowhere("the delivery mode is 1 or 2")


def _mode_backward(durable: Any) -> tuple[Any, bool]:
    return (2 if durable else None), True


def _priority_forward(priority: int, _: bool) -> Place:
    if priority == DEFAULT_PRIORITY:  # which is not written
        return Place("annotation", UByte(priority))
    return Place(
        "field", priority, priority <= _MAX_PRIORITY, ("carried", "a priority of 0-9-1 is 0 to 9")
    )


def _priority_backward(priority: Any) -> tuple[Any, bool]:
    if priority == DEFAULT_PRIORITY:
        return None, True
    return (priority, True) if priority <= _MAX_PRIORITY else (_MAX_PRIORITY, False)


def _expiration_forward(text: str, _: bool) -> Place:
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not digits.isascii() or not digits.isdigit() or text[0] == "-" or len(text) > 40:
        return _nowhere("the expiration is not a number")
    ttl = int(text)
    if ttl > _MAX_TTL:
        return Place(
            "field", _MAX_TTL, False, ("clamped", "a ttl is 2^32 - 1 at most: the rest is carried")
        )
    if str(ttl) == text:
        return Place("field", ttl)
    return Place("field", ttl, False, ("carried", "the digits are not the usual ones"))


def _expiration_backward(ttl: Any) -> tuple[Any, bool]:
    return str(int(ttl)), True


def _timestamp_forward(seconds: Any, _: bool) -> Place:
    seconds = seconds_of(seconds)
    if not 0 <= seconds * 1000 <= _MAX_MS:
        return _nowhere("milliseconds of it exceed 63 bits")
    return Place("field", seconds * 1000)


def _timestamp_backward(moment: Any) -> tuple[Any, bool]:
    if moment < 0:
        return None, False
    return moment // 1000, moment % 1000 == 0


# RabbitMQ cuts the text of its refusal at 252 bytes, and dies where that is within a character.
_MAX_USER = 128


def _is_cut(octets: bytes) -> bool:
    return len(octets) > _MAX_USER and not octets.isascii()


def _user_forward(text: str, _: bool) -> Place:
    octets = text.encode("utf-8", "surrogateescape")
    if _is_cut(octets):
        return Place("field", octets, False, ("carried", "a broker could die of refusing it"))
    exact = is_text(text) and "\0" not in text
    return Place("field", octets, exact)


def _user_backward(octets: Any) -> tuple[Any, bool]:
    try:
        text = bytes(octets).decode("utf-8")
    except UnicodeDecodeError:
        return None, False
    return (text, True) if shortstr(text) and not _is_cut(octets) else (None, False)


_URN = "urn:uuid:"
_URN_SIZE = 45  # bytes
#: What the text of an id begins with that is a binary, or a ulong.
BINARY_ID = "ID:AMQP_BINARY:"
ULONG_ID = "ID:AMQP_ULONG:"


def is_poison(text: str) -> bool:
    """Whether RabbitMQ 4 takes an id for a uuid that is another text, or no uuid at all.

    4.0 ends the connections of those that read such a one over 1.0, and that of its publisher where
    the queue is a stream.
    """
    if not text.startswith(_URN) or isinstance(_id_of(text), uuid.UUID):
        return False
    return len(text.encode("utf-8", "surrogateescape")) == _URN_SIZE


def _id_of(text: str) -> Any:
    """Return the id that a text stands for by its form, or the text."""
    if text.startswith(_URN):
        try:
            found = uuid.UUID(text[len(_URN) :])
        except ValueError:
            return text
        return found if f"{_URN}{found}" == text else text
    if text.startswith(BINARY_ID):
        try:
            octets = bytes.fromhex(text[len(BINARY_ID) :])
        except ValueError:
            return text
        return octets if BINARY_ID + octets.hex().upper() == text else text
    if text.startswith(ULONG_ID):
        digits = text[len(ULONG_ID) :]
        if digits.isascii() and digits.isdigit() and len(digits) < 21:
            number = int(digits)
            if str(number) == digits and number < 2**64:
                return ULong(number)
    return text


def _id_forward(text: str, _: bool) -> Place:
    if not is_text(text):
        octets = text.encode("utf-8", "surrogateescape")
        return Place(
            "field", octets, False, ("retyped", "the bytes are not valid UTF-8: a binary id")
        )
    if is_poison(text):
        return Place("field", text, False, ("carried", "brokers take it for a uuid"))
    # Longer ids come back as none.
    return Place("field", _id_of(text), "\0" not in text)


def _id_backward(value: Any) -> tuple[Any, bool]:
    if isinstance(value, str):
        if not shortstr(value) or is_poison(value):
            return None, False
        return str(value), _id_of(value) is value
    if isinstance(value, uuid.UUID):
        return f"{_URN}{value}", True
    if isinstance(value, (bytes, bytearray)):
        text = BINARY_ID + value.hex().upper()
        return (text, True) if len(text) <= 255 else (None, False)
    return f"{ULONG_ID}{int(value)}", True


# The usual forms of values: what the engine translates by itself. A value of that form is exact in
# both directions. A test holds them to `forward` and `backward`.
#: ASCII text without NUL: the same text.
TEXT = 1
#: Such a text that begins with neither ``urn:`` nor ``ID:``: the same text.
ID = 2
#: ASCII text without NUL: its bytes.
BYTES = 3
#: A decimal number of at most nine digits, without leading zeros: the number.
DIGITS = 4
#: Seconds of at most twelve digits: the milliseconds.
SECONDS = 5
#: 2: true.
PERSISTENT = 6
#: A registered symbol, before a body of data: the same text.
KNOWN = 7


# What streams of RabbitMQ do to values that 0-9-1 says exactly.


def _not_fragile(_: Any) -> LossRule | None:
    return None


#: A name of so many bytes fits the address of a queue, however many of them are escaped.
SHORT_REPLY = (255 - len("/queues/")) // 3


_LONG_ADDRESS = LossRule(
    "dropped",
    "unchanged, but a stream of RabbitMQ 4.3 drops it: its address has more than 255 bytes",
    True,
)


def _reply_to_fragile(text: str) -> LossRule | None:
    is_short = len("/queues/" + urllib.parse.quote(text, safe="-._~")) <= 255
    return None if is_short else _LONG_ADDRESS


def _mode_fragile(mode: int) -> LossRule | None:
    return TO_BASIC_LOSSES["mode"] if mode == 1 else None


def _cluster_id_fragile(_: str) -> LossRule | None:
    return TO_BASIC_LOSSES["cluster-id"]


@attrs.frozen
class Row:
    """One property of class basic and its place in a 1.0 message.

    Attributes:
        number: its number in the residual, 1 to 14 in the order of the property flags.
        name: the attribute of `BasicProperties`.
        section: ``header`` or ``properties`` where a field can hold it, else empty.
        field: that field's attribute.
        annotation: the annotation that holds what the field cannot.
        form: the usual form of its values, of those above; 0 where there is none.
        forward: from the value in 0-9-1, and whether the body is data.
        backward: from the value in the field.
        note: what becomes of it, for the documentation.
        fragile: what brokers do to a value in 0-9-1 though it is exact; None where nothing.
    """

    number: int
    name: str
    section: str
    field: str
    annotation: Symbol
    form: int
    forward: Callable[[Any, bool], Place]
    backward: Callable[[Any], tuple[Any, bool]]
    note: str
    fragile: Callable[[Any], LossRule | None] = attrs.field(default=_not_fragile, repr=False)

    @property
    def default(self) -> Any:
        """What the field holds where it is not set."""
        return {"durable": False, "priority": 4}.get(self.field)

    def annotated(self, value: Any, is_data: bool) -> Any:
        """Read the annotation; None where it is not what `forward` would write there."""
        if not self.section and type(value) is str and value != MARKER:
            return value if shortstr(value) else None
        if type(value) is UByte:
            value = int(value)
        elif type(value) is not str or not shortstr(value):
            return None
        if (type(value) is int) != (self.name in {"delivery_mode", "priority"}):
            return None
        place = self.forward(value, is_data)
        return value if place.where == "annotation" and place.exact else None


# How values are read: their usual form, and the two directions.
_CONTENT_TYPE = KNOWN, _content_type_forward, _content_type_backward
_CONTENT_ENCODING = KNOWN, _content_encoding_forward, _content_encoding_backward
_MODE = PERSISTENT, _mode_forward, _mode_backward
_PRIORITY = 0, _priority_forward, _priority_backward
_ID = ID, _id_forward, _id_backward
_STRING = TEXT, _string_forward, _string_backward
_EXPIRATION = DIGITS, _expiration_forward, _expiration_backward
_TIMESTAMP = SECONDS, _timestamp_forward, _timestamp_backward
_TYPE = TEXT, _type_forward, _no_field
_USER = BYTES, _user_forward, _user_backward
_ANNOTATION = TEXT, _annotated, _no_field


def _row(name: str, place: str, kind: Any, note: str, fragile: Any = _not_fragile) -> Row:
    section, _, field = place.partition(".")
    number, row = next(found for found in enumerate(PROPERTIES, 1) if found[1].name == name)
    form, forward, backward = kind
    field = field or (name if section else "")
    annotation = Symbol(PREFIX + row.wire_name)
    return Row(number, name, section, field, annotation, form, forward, backward, note, fragile)


#: The rows, in the order of the property flags; `headers` has rules of its own.
ROWS: tuple[Row, ...] = (
    _row(
        "content_type",
        "properties",
        _CONTENT_TYPE,
        "in the field where it is a MIME type and the body is data",
    ),
    _row(
        "content_encoding",
        "properties",
        _CONTENT_ENCODING,
        "in the field where it is a registered coding and the body is data",
    ),
    _row(
        "delivery_mode",
        "header.durable",
        _MODE,
        "2 is true; 1 stands in the annotation, so that absent stays absent",
        _mode_fragile,
    ),
    _row(
        "priority",
        "header",
        _PRIORITY,
        "4, the default of 1.0, stands in the annotation; towards 0-9-1, 9 at most",
    ),
    _row("correlation_id", "properties", _ID, "as the message-id"),
    _row("reply_to", "properties", _STRING, "as it is", _reply_to_fragile),
    _row(
        "expiration",
        "header.ttl",
        _EXPIRATION,
        "decimal text, milliseconds; a ttl is clamped to 2^32 - 1",
    ),
    _row(
        "message_id",
        "properties",
        _ID,
        "`urn:uuid:` is a uuid, `ID:AMQP_ULONG:` a ulong, `ID:AMQP_BINARY:` a binary, else string",
    ),
    _row("timestamp", "properties.creation_time", _TIMESTAMP, "seconds are milliseconds by 1,000"),
    _row(
        "type",
        "",
        _TYPE,
        "`amqp-1.0` says that the payload is encoded amqp-sequence or amqp-value sections",
    ),
    _row("user_id", "properties", _USER, "byte for byte"),
    _row("app_id", "", _ANNOTATION, "no group-id: that has a meaning of its own"),
    _row("cluster_id", "", _ANNOTATION, "reserved in 0-9-1", _cluster_id_fragile),
)
