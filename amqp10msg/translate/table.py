"""The correspondence of the lossless profile: a row per property, for both directions.

Each row maps a 0-9-1 property to a field of a 1.0 message, or to an annotation for values that no
field can express. `forward` and `backward` translate a value and report whether the reverse
translation restores it. The residual keeps the values that it would not restore.
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

#: Prefix of annotations for 0-9-1 properties.
PREFIX = "x-opt-basic-"
#: The fields of the properties section, in their order.
PROPERTY_FIELDS = [field.name for field in attrs.fields(Properties)]
#: The integer types of 1.0 by type letter of 0-9-1. The letter ``l`` is a long, a plain int.
INTEGERS: dict[str, Any] = {"b": Byte, "B": UByte, "s": Short, "u": UShort, "I": Int, "i": UInt}
#: The type letters of 0-9-1 by name of a primitive type of 1.0.
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
#: The priority of a 1.0 message without one (Part 3, 3.2.1).
DEFAULT_PRIORITY: Any = attrs.fields(Header).priority.default
_MAX_PRIORITY = 9  # highest priority in 0-9-1
_MAX_TTL = 2**32 - 1
_MAX_MS = 2**63 - 1


class TranslatedProperty(NamedTuple):
    """The translation of a property.

    Attributes:
        target: the part of the 1.0 message: ``field``, ``annotation`` or ``residual``.
        value: the value in that part; None for ``residual``.
        exact: whether the reverse translation restores the original.
        loss: for a value that is not exact, the `Action` and the reason of the loss.
    """

    target: str
    value: Any
    exact: bool = True
    loss: tuple[Action, str] = ("carried", "1.0 cannot express it")


def _residual_only(reason: str) -> TranslatedProperty:
    return TranslatedProperty("residual", None, False, ("carried", reason))


def shortstr(text: str) -> bool:
    """Whether a text is a valid short string of 0-9-1: UTF-8 without NUL, at most 255 bytes."""
    return "\0" not in text and is_text(text) and len(text.encode("utf-8")) <= 255


def is_text(text: str) -> bool:
    """Whether a text can be encoded as UTF-8: it has no surrogates, which represent other bytes."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _no_field(_: Any) -> tuple[Any, bool]:
    return None, False


# Strings.


def _string_forward(text: str, _: bool) -> TranslatedProperty:
    if not is_text(text):
        return _residual_only("the bytes are not valid UTF-8")
    return TranslatedProperty("field", text, "\0" not in text)


def _string_backward(text: Any) -> tuple[Any, bool]:
    if type(text) is str and shortstr(text):
        return text, True
    return None, False


def _annotated(text: str, _: bool = True) -> TranslatedProperty:
    if not is_text(text):
        return _residual_only("the bytes are not valid UTF-8")
    return TranslatedProperty("annotation", text, "\0" not in text)


#: The value of the property type that marks a payload of encoded body sections.
MARKER = "amqp-1.0"


def _type_forward(text: str, _: bool) -> TranslatedProperty:
    # If the payload is not encoded sections, this type ends the connections of 1.0 consumers.
    if text == MARKER:
        return _residual_only("the payload is not encoded body sections")
    return _annotated(text)


def _symbol(text: str) -> TranslatedProperty:
    if not text.isascii():  # RabbitMQ 4 converts it to an invalid symbol
        return _residual_only("a symbol is ASCII")
    return _annotated(text)


def _content_type_forward(text: str, is_data: bool) -> TranslatedProperty:
    if is_data and text.isascii() and MIME_TYPE.fullmatch(text):
        return TranslatedProperty("field", Symbol(text), "\0" not in text)
    return _symbol(text)


def _content_type_backward(text: Any) -> tuple[Any, bool]:
    if isinstance(text, str) and shortstr(text):
        return str(text), _content_type_forward(str(text), True).target == "field"
    return None, False


def _coding(text: str) -> bool:
    lowered = text.lower()
    return lowered in CODINGS and lowered not in _NO_CODING


def _content_encoding_forward(text: str, is_data: bool) -> TranslatedProperty:
    if is_data and text.isascii() and _coding(text):
        return TranslatedProperty("field", Symbol(text))
    return _symbol(text)


def _content_encoding_backward(text: Any) -> tuple[Any, bool]:
    if isinstance(text, str) and shortstr(text):
        return str(text), _coding(text)
    return None, False


_DURABLE = TranslatedProperty("field", True)


def _mode_forward(mode: int, _: bool) -> TranslatedProperty:
    if mode == 2:
        return _DURABLE
    if mode == 1:
        return TranslatedProperty("annotation", UByte(1))
    return _residual_only("the delivery mode is 1 or 2")


def _mode_backward(durable: Any) -> tuple[Any, bool]:
    return (2 if durable else None), True


def _priority_forward(priority: int, _: bool) -> TranslatedProperty:
    if priority == DEFAULT_PRIORITY:  # the default is not encoded
        return TranslatedProperty("annotation", UByte(priority))
    return TranslatedProperty(
        "field", priority, priority <= _MAX_PRIORITY, ("carried", "a priority of 0-9-1 is 0 to 9")
    )


def _priority_backward(priority: Any) -> tuple[Any, bool]:
    if priority == DEFAULT_PRIORITY:
        return None, True
    return (priority, True) if priority <= _MAX_PRIORITY else (_MAX_PRIORITY, False)


def _expiration_forward(text: str, _: bool) -> TranslatedProperty:
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not digits.isascii() or not digits.isdigit() or text[0] == "-" or len(text) > 40:
        return _residual_only("the expiration is not a number")
    ttl = int(text)
    if ttl > _MAX_TTL:
        return TranslatedProperty(
            "field", _MAX_TTL, False, ("clamped", "a ttl is 2^32 - 1 at most: the rest is carried")
        )
    if str(ttl) == text:
        return TranslatedProperty("field", ttl)
    return TranslatedProperty("field", ttl, False, ("carried", "the digits are not the usual ones"))


def _expiration_backward(ttl: Any) -> tuple[Any, bool]:
    return str(int(ttl)), True


def _timestamp_forward(seconds: Any, _: bool) -> TranslatedProperty:
    seconds = seconds_of(seconds)
    if not 0 <= seconds * 1000 <= _MAX_MS:
        return _residual_only("milliseconds of it exceed 63 bits")
    return TranslatedProperty("field", seconds * 1000)


def _timestamp_backward(milliseconds: Any) -> tuple[Any, bool]:
    if milliseconds < 0:
        return None, False
    return milliseconds // 1000, milliseconds % 1000 == 0


# Longer names can crash the broker: it truncates the error that quotes a refused user-id to 252
# bytes, and crashes if that splits a character.
_MAX_USER = 128


def _can_crash_broker(octets: bytes) -> bool:
    return len(octets) > _MAX_USER and not octets.isascii()


def _user_forward(text: str, _: bool) -> TranslatedProperty:
    octets = text.encode("utf-8", "surrogateescape")
    if _can_crash_broker(octets):
        return TranslatedProperty(
            "field", octets, False, ("carried", "a broker could die of refusing it")
        )
    exact = is_text(text) and "\0" not in text
    return TranslatedProperty("field", octets, exact)


def _user_backward(octets: Any) -> tuple[Any, bool]:
    try:
        text = bytes(octets).decode("utf-8")
    except UnicodeDecodeError:
        return None, False
    return (text, True) if shortstr(text) and not _can_crash_broker(octets) else (None, False)


_URN = "urn:uuid:"
_URN_SIZE = 45  # bytes of the prefix and a UUID
#: Prefixes of the text form of an id that is a binary, or a ulong.
BINARY_ID = "ID:AMQP_BINARY:"
ULONG_ID = "ID:AMQP_ULONG:"


def is_poison(text: str) -> bool:
    """Whether RabbitMQ 4 mistakes a text id for a uuid.

    Version 4.0 ends the connections of consumers that read such an id over 1.0; for a stream, it
    ends the publisher's connection.
    """
    if not text.startswith(_URN) or isinstance(_id_of(text), uuid.UUID):
        return False
    return len(text.encode("utf-8", "surrogateescape")) == _URN_SIZE


def _id_of(text: str) -> Any:
    """Parse the text form of an id: a uuid, binary or ulong, otherwise the text itself."""
    if text.startswith(_URN):
        try:
            value = uuid.UUID(text[len(_URN) :])
        except ValueError:
            return text
        return value if f"{_URN}{value}" == text else text
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


def _id_forward(text: str, _: bool) -> TranslatedProperty:
    if not is_text(text):
        octets = text.encode("utf-8", "surrogateescape")
        return TranslatedProperty(
            "field", octets, False, ("retyped", "the bytes are not valid UTF-8: a binary id")
        )
    if is_poison(text):
        return TranslatedProperty("field", text, False, ("carried", "brokers take it for a uuid"))
    # An id with a NUL, or a too long id, is not restored.
    return TranslatedProperty("field", _id_of(text), "\0" not in text)


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


# The forms of values that the engine translates without the plain rules, exactly in both
# directions. A test compares the engine's translations with `forward` and `backward`.
#: ASCII text without NUL, to the same text.
TEXT = 1
#: ASCII text without NUL that begins with neither ``urn:`` nor ``ID:``, to the same text.
ID = 2
#: ASCII text without NUL, to its bytes.
BYTES = 3
#: A decimal number of at most nine digits without leading zeros, to the number.
DIGITS = 4
#: Seconds of at most twelve digits, to milliseconds.
SECONDS = 5
#: The delivery mode 2, to true.
PERSISTENT = 6
#: A registered symbol of a message with a data body, to the same text.
KNOWN = 7


# Losses that streams of RabbitMQ cause to values that 0-9-1 can express exactly.


def _no_stream_loss(_: Any) -> LossRule | None:
    return None


#: Maximum size in bytes of a name that fits into the address of a queue with all bytes escaped.
SHORT_REPLY = (255 - len("/queues/")) // 3


_LONG_ADDRESS = LossRule(
    "dropped",
    "unchanged, but a stream of RabbitMQ 4.3 drops it: its address has more than 255 bytes",
    True,
)


def _reply_to_stream_loss(text: str) -> LossRule | None:
    is_short = len("/queues/" + urllib.parse.quote(text, safe="-._~")) <= 255
    return None if is_short else _LONG_ADDRESS


def _mode_stream_loss(mode: int) -> LossRule | None:
    return TO_BASIC_LOSSES["mode"] if mode == 1 else None


def _cluster_id_stream_loss(_: str) -> LossRule | None:
    return TO_BASIC_LOSSES["cluster-id"]


@attrs.frozen
class Row:
    """A 0-9-1 property and its counterpart in a 1.0 message.

    Attributes:
        number: its number in the residual, 1 to 14, in the order of the property flags.
        name: the attribute of `BasicProperties`.
        section: ``header`` or ``properties`` if a field can express it, otherwise empty.
        field: the attribute of the section that holds the field.
        annotation: the annotation for values that the field cannot express.
        form: the form of values that the engine translates (see `TEXT` and the constants after it);
            0 if the engine leaves all values to the plain rules.
        forward: translates a value of 0-9-1; the second argument is whether the body is data.
        backward: translates the value of the field.
        note: the row's description in the documentation.
        fragile: returns the loss of an exact value in a broker, or None.
    """

    number: int
    name: str
    section: str
    field: str
    annotation: Symbol
    form: int
    forward: Callable[[Any, bool], TranslatedProperty]
    backward: Callable[[Any], tuple[Any, bool]]
    note: str
    stream_loss: Callable[[Any], LossRule | None] = attrs.field(default=_no_stream_loss, repr=False)

    @property
    def default(self) -> Any:
        """The value of the field if it is not set."""
        return {"durable": False, "priority": 4}.get(self.field)

    def value_of_annotation(self, value: Any, is_data: bool) -> Any:
        """Translate the annotation; None if `forward` would not have written this value."""
        if not self.section and type(value) is str and value != MARKER:
            return value if shortstr(value) else None
        if type(value) is UByte:
            value = int(value)
        elif type(value) is not str or not shortstr(value):
            return None
        if (type(value) is int) != (self.name in {"delivery_mode", "priority"}):
            return None
        translated = self.forward(value, is_data)
        return value if translated.target == "annotation" and translated.exact else None


# The form, forward and backward attributes of the rows.
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


def _row(
    name: str, field_path: str, kind: Any, note: str, stream_loss: Any = _no_stream_loss
) -> Row:
    section, _, field = field_path.partition(".")
    number, row = next(
        numbered for numbered in enumerate(PROPERTIES, 1) if numbered[1].name == name
    )
    form, forward, backward = kind
    field = field or (name if section else "")
    annotation = Symbol(PREFIX + row.wire_name)
    return Row(number, name, section, field, annotation, form, forward, backward, note, stream_loss)


#: The rows, in the order of the property flags. Separate rules translate the headers.
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
        _mode_stream_loss,
    ),
    _row(
        "priority",
        "header",
        _PRIORITY,
        "4, the default of 1.0, stands in the annotation; towards 0-9-1, 9 at most",
    ),
    _row("correlation_id", "properties", _ID, "as the message-id"),
    _row("reply_to", "properties", _STRING, "as it is", _reply_to_stream_loss),
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
    _row("cluster_id", "", _ANNOTATION, "reserved in 0-9-1", _cluster_id_stream_loss),
)
