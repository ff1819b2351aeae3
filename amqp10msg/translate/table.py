"""The correspondence of the lossless profile: a row per property, for both directions.

Each row maps a 0-9-1 property to a field of a 1.0 message, or to an annotation for values that no
field can express. `Row.forward` translates a value from 0-9-1 to 1.0, `Row.backward` from 1.0 to
0-9-1. Both report whether the opposite direction restores the value; the residual keeps values that
it does not restore.
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
from amqp10msg.validation.suspicion import MIME_TYPE_PATTERN, REGISTERED_CODINGS
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

#: Prefix of the keys of annotations that hold 0-9-1 properties.
ANNOTATION_PREFIX = "x-opt-basic-"
#: The fields of the properties section, in their order.
PROPERTY_FIELDS = [field.name for field in attrs.fields(Properties)]
#: The 1.0 integer type for each 0-9-1 type letter, except ``l`` (a 64-bit integer), which becomes
#: a plain int.
INTEGER_TYPE_BY_LETTER: dict[str, Any] = {
    "b": Byte,
    "B": UByte,
    "s": Short,
    "u": UShort,
    "I": Int,
    "i": UInt,
}
#: The 0-9-1 type letter for each primitive type of 1.0, by the name of the type.
LETTER_BY_TYPE_NAME: dict[str, str] = {
    **{cls.__name__.lower(): letter for letter, cls in INTEGER_TYPE_BY_LETTER.items()},
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
# Registered codings that Part 3, 3.2.4 forbids (identity) or advises against.
_UNUSABLE_CONTENT_ENCODINGS = {"identity", "compress", "x-compress"}
#: The priority of a 1.0 message whose header does not set it (Part 3, 3.2.1).
DEFAULT_PRIORITY: Any = attrs.fields(Header).priority.default
_MAX_PRIORITY = 9  # highest priority in 0-9-1
_MAX_TTL_MS = 2**32 - 1  # in ms; a ttl is a uint
_MAX_TIMESTAMP_MS = 2**63 - 1  # the highest timestamp in 1.0


class TranslatedProperty(NamedTuple):
    """A 0-9-1 property, translated to 1.0.

    Attributes:
        target: the part of the 1.0 message that holds it: ``field``, ``annotation`` or
            ``residual``.
        value: the 1.0 value in that part; None for ``residual``.
        exact: whether the reverse translation restores the 0-9-1 value.
        loss: if `exact` is False, the `Action` and the reason of the loss.
    """

    target: str
    value: Any
    exact: bool = True
    loss: tuple[Action, str] = ("carried", "1.0 cannot express it")


def _residual_only(reason: str) -> TranslatedProperty:
    """Return the result for a property that only the residual can hold, with the reason."""
    return TranslatedProperty("residual", None, False, ("carried", reason))


def shortstr(text: str) -> bool:
    """Whether a text is a valid short string of 0-9-1: UTF-8 without NUL, at most 255 bytes."""
    return "\0" not in text and is_text(text) and len(text.encode("utf-8")) <= 255


def is_text(text: str) -> bool:
    """Whether a text can be encoded as UTF-8: it has no lone surrogates (they stand for bytes)."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _no_field_to_basic(_: Any) -> tuple[Any, bool]:
    """Return no value, as the `Row.backward` of a property without a field in 1.0."""
    return None, False


# Strings.


def _string_to_amqp10(text: str, _: bool) -> TranslatedProperty:
    if not is_text(text):
        return _residual_only("the bytes are not valid UTF-8")
    return TranslatedProperty("field", text, "\0" not in text)


def _string_to_basic(text: Any) -> tuple[Any, bool]:
    if type(text) is str and shortstr(text):
        return text, True
    return None, False


def _annotation_to_amqp10(text: str, _: bool = True) -> TranslatedProperty:
    """Translate a property that has no field in 1.0 to an annotation."""
    if not is_text(text):
        return _residual_only("the bytes are not valid UTF-8")
    return TranslatedProperty("annotation", text, "\0" not in text)


#: The value of the property type that marks a payload of encoded body sections.
ENCODED_SECTIONS_TYPE_PROPERTY = "amqp-1.0"


def _type_to_amqp10(text: str, _: bool) -> TranslatedProperty:
    # The caller handles payloads of encoded sections. With any other payload, this type ends the
    # connections of 1.0 consumers.
    if text == ENCODED_SECTIONS_TYPE_PROPERTY:
        return _residual_only("the payload is not encoded body sections")
    return _annotation_to_amqp10(text)


def _ascii_annotation_to_amqp10(text: str) -> TranslatedProperty:
    """Translate a content-type or content-encoding that its field cannot hold."""
    if not text.isascii():  # RabbitMQ 4 converts it to an invalid symbol
        return _residual_only("a symbol is ASCII")
    return _annotation_to_amqp10(text)


def _content_type_to_amqp10(text: str, is_data: bool) -> TranslatedProperty:
    if is_data and text.isascii() and MIME_TYPE_PATTERN.fullmatch(text):
        return TranslatedProperty("field", Symbol(text), "\0" not in text)
    return _ascii_annotation_to_amqp10(text)


def _content_type_to_basic(text: Any) -> tuple[Any, bool]:
    if isinstance(text, str) and shortstr(text):
        return str(text), _content_type_to_amqp10(str(text), True).target == "field"
    return None, False


def _is_usable_coding(text: str) -> bool:
    """Whether Part 3, 3.2.4 allows a content-encoding, in any case."""
    lowered = text.lower()
    return lowered in REGISTERED_CODINGS and lowered not in _UNUSABLE_CONTENT_ENCODINGS


def _content_encoding_to_amqp10(text: str, is_data: bool) -> TranslatedProperty:
    if is_data and text.isascii() and _is_usable_coding(text):
        return TranslatedProperty("field", Symbol(text))
    return _ascii_annotation_to_amqp10(text)


def _content_encoding_to_basic(text: Any) -> tuple[Any, bool]:
    if isinstance(text, str) and shortstr(text):
        return str(text), _is_usable_coding(text)
    return None, False


_TRANSLATED_PERSISTENT = TranslatedProperty("field", True)


def _delivery_mode_to_amqp10(mode: int, _: bool) -> TranslatedProperty:
    if mode == 2:
        return _TRANSLATED_PERSISTENT
    if mode == 1:
        return TranslatedProperty("annotation", UByte(1))
    return _residual_only("the delivery mode is 1 or 2")


def _delivery_mode_to_basic(durable: Any) -> tuple[Any, bool]:
    return (2 if durable else None), True


def _priority_to_amqp10(priority: int, _: bool) -> TranslatedProperty:
    if priority == DEFAULT_PRIORITY:  # the default is not encoded
        return TranslatedProperty("annotation", UByte(priority))
    return TranslatedProperty(
        "field", priority, priority <= _MAX_PRIORITY, ("carried", "a priority of 0-9-1 is 0 to 9")
    )


def _priority_to_basic(priority: Any) -> tuple[Any, bool]:
    if priority == DEFAULT_PRIORITY:
        return None, True
    return (priority, True) if priority <= _MAX_PRIORITY else (_MAX_PRIORITY, False)


def _expiration_to_amqp10(text: str, _: bool) -> TranslatedProperty:
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not digits.isascii() or not digits.isdigit() or text[0] == "-" or len(text) > 40:
        return _residual_only("the expiration is not a number")
    ttl = int(text)
    if ttl > _MAX_TTL_MS:
        return TranslatedProperty(
            "field",
            _MAX_TTL_MS,
            False,
            ("clamped", "a ttl is 2^32 - 1 at most: the rest is carried"),
        )
    if str(ttl) == text:
        return TranslatedProperty("field", ttl)
    return TranslatedProperty("field", ttl, False, ("carried", "the digits are not the usual ones"))


def _expiration_to_basic(ttl: Any) -> tuple[Any, bool]:
    return str(int(ttl)), True


def _timestamp_to_amqp10(seconds: Any, _: bool) -> TranslatedProperty:
    seconds = seconds_of(seconds)
    if not 0 <= seconds * 1000 <= _MAX_TIMESTAMP_MS:
        return _residual_only("milliseconds of it exceed 63 bits")
    return TranslatedProperty("field", seconds * 1000)


def _timestamp_to_basic(milliseconds: Any) -> tuple[Any, bool]:
    if milliseconds < 0:
        return None, False
    return milliseconds // 1000, milliseconds % 1000 == 0


# Size in bytes. A longer user-id that is not ASCII can crash the broker: it truncates the error
# that quotes a refused user-id to 252 bytes, and crashes if that splits a character.
_MAX_SAFE_USER_ID_BYTES = 128


def _can_crash_broker(octets: bytes) -> bool:
    """Whether RabbitMQ can crash when it refuses this user-id."""
    return len(octets) > _MAX_SAFE_USER_ID_BYTES and not octets.isascii()


def _user_to_amqp10(text: str, _: bool) -> TranslatedProperty:
    octets = text.encode("utf-8", "surrogateescape")
    if _can_crash_broker(octets):
        return TranslatedProperty(
            "field", octets, False, ("carried", "refusing it could crash a broker")
        )
    exact = is_text(text) and "\0" not in text
    return TranslatedProperty("field", octets, exact)


def _user_to_basic(octets: Any) -> tuple[Any, bool]:
    try:
        text = bytes(octets).decode("utf-8")
    except UnicodeDecodeError:
        return None, False
    return (text, True) if shortstr(text) and not _can_crash_broker(octets) else (None, False)


_UUID_PREFIX = "urn:uuid:"
_PREFIXED_UUID_SIZE = 45  # bytes of the prefix and a UUID
#: Prefixes of the text that represents a binary id or a ulong id in 0-9-1.
BINARY_ID_PREFIX = "ID:AMQP_BINARY:"
ULONG_ID_PREFIX = "ID:AMQP_ULONG:"


def is_mistaken_for_uuid(text: str) -> bool:
    """Whether RabbitMQ 4 mistakes an id that is text for a uuid, because of its prefix and length.

    RabbitMQ 4.0 ends the connections of consumers that read such an id over 1.0; if the message is
    published to a stream, it ends the publisher's connection.
    """
    if not text.startswith(_UUID_PREFIX) or isinstance(_parse_id(text), uuid.UUID):
        return False
    return len(text.encode("utf-8", "surrogateescape")) == _PREFIXED_UUID_SIZE


def _parse_id(text: str) -> Any:
    """Return the uuid, binary or ulong that an id's text represents; otherwise the text itself."""
    if text.startswith(_UUID_PREFIX):
        try:
            value = uuid.UUID(text[len(_UUID_PREFIX) :])
        except ValueError:
            return text
        return value if f"{_UUID_PREFIX}{value}" == text else text
    if text.startswith(BINARY_ID_PREFIX):
        try:
            octets = bytes.fromhex(text[len(BINARY_ID_PREFIX) :])
        except ValueError:
            return text
        return octets if BINARY_ID_PREFIX + octets.hex().upper() == text else text
    if text.startswith(ULONG_ID_PREFIX):
        digits = text[len(ULONG_ID_PREFIX) :]
        if digits.isascii() and digits.isdigit() and len(digits) < 21:
            number = int(digits)
            if str(number) == digits and number < 2**64:
                return ULong(number)
    return text


def _id_to_amqp10(text: str, _: bool) -> TranslatedProperty:
    if not is_text(text):
        octets = text.encode("utf-8", "surrogateescape")
        return TranslatedProperty(
            "field", octets, False, ("retyped", "the bytes are not valid UTF-8: a binary id")
        )
    if is_mistaken_for_uuid(text):
        return TranslatedProperty("field", text, False, ("carried", "brokers take it for a uuid"))
    # The reverse translation does not restore a text that contains NUL.
    return TranslatedProperty("field", _parse_id(text), "\0" not in text)


def _id_to_basic(value: Any) -> tuple[Any, bool]:
    if isinstance(value, str):
        if not shortstr(value) or is_mistaken_for_uuid(value):
            return None, False
        return str(value), _parse_id(value) is value
    if isinstance(value, uuid.UUID):
        return f"{_UUID_PREFIX}{value}", True
    if isinstance(value, (bytes, bytearray)):
        text = BINARY_ID_PREFIX + value.hex().upper()
        return (text, True) if len(text) <= 255 else (None, False)
    return f"{ULONG_ID_PREFIX}{int(value)}", True


# Values of `Row.form`: which values of a property the compiled engine translates itself, and to
# what. It leaves other values to the functions in this module. Its translations are exact in both
# directions; a test compares them with `forward` and `backward`.
#: ASCII text without NUL becomes the same text.
TEXT_FORM = 1
#: ASCII text without NUL that begins with neither ``urn:`` nor ``ID:`` becomes the same text.
ID_FORM = 2
#: ASCII text without NUL becomes a binary of the same bytes.
BYTES_FORM = 3
#: Decimal text of at most nine digits without leading zeros becomes the number.
DIGITS_FORM = 4
#: A number of seconds of at most twelve digits becomes a number of milliseconds.
SECONDS_FORM = 5
#: Delivery mode 2 becomes true.
PERSISTENT_TO_DURABLE_FORM = 6
#: If the body is data, a MIME type or a registered coding becomes a symbol of the same text.
KNOWN_SYMBOL_FORM = 7


# Losses that occur if RabbitMQ stores the 0-9-1 message in a stream, although 0-9-1 itself
# expresses the values exactly.


def _no_stream_loss(_: Any) -> LossRule | None:
    """Return None: a stream does not change the property."""
    return None


#: A reply-to of at most this size in bytes, the name of a queue, becomes an address of at most 255
#: bytes even if every byte is percent-encoded.
ALWAYS_SHORT_REPLY_TO = (255 - len("/queues/")) // 3


_LONG_REPLY_TO_STREAM_LOSS = LossRule(
    "dropped",
    "unchanged, but a stream of RabbitMQ 4.3 drops it: its address has more than 255 bytes",
    True,
)


def _reply_to_stream_loss(text: str) -> LossRule | None:
    """Return the loss of a reply-to in a stream: a long name is dropped."""
    is_short = len("/queues/" + urllib.parse.quote(text, safe="-._~")) <= 255
    return None if is_short else _LONG_REPLY_TO_STREAM_LOSS


def _delivery_mode_stream_loss(mode: int) -> LossRule | None:
    """Return the loss of a delivery mode in a stream: 1 becomes unset."""
    return TO_BASIC_LOSSES["mode"] if mode == 1 else None


def _cluster_id_stream_loss(_: str) -> LossRule | None:
    """Return the loss of a cluster-id in a stream, which drops it."""
    return TO_BASIC_LOSSES["cluster-id"]


@attrs.frozen
class Row:
    """A 0-9-1 property and its counterpart in a 1.0 message.

    Attributes:
        number: the property's key in the residual, 1 to 14, in the order of the property flags.
        name: the property's attribute of `BasicProperties`.
        section: the 1.0 section, ``header`` or ``properties``, that has a field for the property;
            "" if there is none.
        field: the field's attribute of that section; "" if there is none.
        annotation: the key of the annotation for values that the field cannot express.
        form: the values that the compiled engine translates itself, a constant ``…_FORM``; 0 if it
            leaves all values to `forward` and `backward`.
        forward: translates a 0-9-1 value to 1.0; the second argument is whether the body is data.
        backward: translates the field's value to 0-9-1; returns the value (None if it cannot), and
            whether it is exact.
        note: the row's description in the documentation.
        stream_loss: returns the loss of the 0-9-1 value in a stream of RabbitMQ, or None.
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
        """The value that an unset field has by default."""
        return {"durable": False, "priority": 4}.get(self.field)

    def value_of_annotation(self, value: Any, is_data: bool) -> Any:
        """Return the 0-9-1 value of an annotation; None if `forward` would not write `value`."""
        if not self.section and type(value) is str and value != ENCODED_SECTIONS_TYPE_PROPERTY:
            return value if shortstr(value) else None
        if type(value) is UByte:
            value = int(value)
        elif type(value) is not str or not shortstr(value):
            return None
        if (type(value) is int) != (self.name in {"delivery_mode", "priority"}):
            return None
        translated = self.forward(value, is_data)
        return value if translated.target == "annotation" and translated.exact else None


# For each kind of property, the attributes `form`, `forward` and `backward` of its row.
_CONTENT_TYPE_CONVERSION = KNOWN_SYMBOL_FORM, _content_type_to_amqp10, _content_type_to_basic
_CONTENT_ENCODING_CONVERSION = (
    KNOWN_SYMBOL_FORM,
    _content_encoding_to_amqp10,
    _content_encoding_to_basic,
)
_DELIVERY_MODE_CONVERSION = (
    PERSISTENT_TO_DURABLE_FORM,
    _delivery_mode_to_amqp10,
    _delivery_mode_to_basic,
)
_PRIORITY_CONVERSION = 0, _priority_to_amqp10, _priority_to_basic
_ID_CONVERSION = ID_FORM, _id_to_amqp10, _id_to_basic
_STRING_CONVERSION = TEXT_FORM, _string_to_amqp10, _string_to_basic
_EXPIRATION_CONVERSION = DIGITS_FORM, _expiration_to_amqp10, _expiration_to_basic
_TIMESTAMP_CONVERSION = SECONDS_FORM, _timestamp_to_amqp10, _timestamp_to_basic
_TYPE_CONVERSION = TEXT_FORM, _type_to_amqp10, _no_field_to_basic
_USER_ID_CONVERSION = BYTES_FORM, _user_to_amqp10, _user_to_basic
_ANNOTATION_ONLY_CONVERSION = TEXT_FORM, _annotation_to_amqp10, _no_field_to_basic


def _row(
    name: str, field_path: str, conversion: Any, note: str, stream_loss: Any = _no_stream_loss
) -> Row:
    """Return the row for a property; `field_path` is a section, or a section and a field."""
    section, _, field = field_path.partition(".")
    number, row = next(
        numbered for numbered in enumerate(PROPERTIES, 1) if numbered[1].name == name
    )
    form, forward, backward = conversion
    field = field or (name if section else "")
    annotation = Symbol(ANNOTATION_PREFIX + row.wire_name)
    return Row(number, name, section, field, annotation, form, forward, backward, note, stream_loss)


#: A row for each property except ``headers``, in the order of the property flags.
ROWS: tuple[Row, ...] = (
    _row(
        "content_type",
        "properties",
        _CONTENT_TYPE_CONVERSION,
        "in the field if it is a MIME type and the body is data",
    ),
    _row(
        "content_encoding",
        "properties",
        _CONTENT_ENCODING_CONVERSION,
        "in the field if it is a registered coding and the body is data",
    ),
    _row(
        "delivery_mode",
        "header.durable",
        _DELIVERY_MODE_CONVERSION,
        "2 is true; 1 goes into the annotation, to tell it from an unset delivery mode",
        _delivery_mode_stream_loss,
    ),
    _row(
        "priority",
        "header",
        _PRIORITY_CONVERSION,
        "4, the default of 1.0, goes into the annotation; at most 9 in 0-9-1",
    ),
    _row("correlation_id", "properties", _ID_CONVERSION, "like the message-id"),
    _row("reply_to", "properties", _STRING_CONVERSION, "unchanged", _reply_to_stream_loss),
    _row(
        "expiration",
        "header.ttl",
        _EXPIRATION_CONVERSION,
        "decimal text, milliseconds; a ttl is clamped to 2^32 - 1",
    ),
    _row(
        "message_id",
        "properties",
        _ID_CONVERSION,
        "`urn:uuid:` is a uuid, `ID:AMQP_ULONG:` a ulong, `ID:AMQP_BINARY:` a binary, else string",
    ),
    _row(
        "timestamp",
        "properties.creation_time",
        _TIMESTAMP_CONVERSION,
        "seconds become milliseconds",
    ),
    _row(
        "type",
        "",
        _TYPE_CONVERSION,
        "`amqp-1.0` means that the payload is encoded amqp-sequence or amqp-value sections",
    ),
    _row("user_id", "properties", _USER_ID_CONVERSION, "byte for byte"),
    _row("app_id", "", _ANNOTATION_ONLY_CONVERSION, "not the group-id, which has another meaning"),
    _row(
        "cluster_id", "", _ANNOTATION_ONLY_CONVERSION, "reserved in 0-9-1", _cluster_id_stream_loss
    ),
)
