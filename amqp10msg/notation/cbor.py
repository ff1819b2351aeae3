# cython: boundscheck=True, wraparound=False, annotation_typing=False, infer_types=True
"""The CBOR notation (RFC 8949): lossless, deterministic, compact. Requires ``amqp10msg[cbor]``.

=========================== =====================================================================
AMQP                        CBOR
=========================== =====================================================================
null, boolean, string       null, true and false, text string
long                        integer
double                      floating-point number
binary                      byte string
list                        array
uuid                        tag 37: byte string (as registered)
ubyte ushort uint ulong     tags 41216 41217 41218 41219: integer
byte short int              tags 41220 41221 41222: integer
timestamp                   tag 41223: integer, milliseconds since the Unix epoch
float                       tag 41224: floating-point number
NaN with a payload          tag 41225 (double), tag 41224 (float): byte string of the 8 or 4 bytes
                            of the IEEE 754 bits
decimal32 64 128            tag 41226: byte string of the 4, 8 or 16 bytes of the IEEE 754 bits
char                        tag 41227: integer, the code point
symbol                      tag 41228: text string
map                         tag 41229: array of key, value, key, value …, because the entries of an
                            AMQP map are ordered, unlike the entries of a CBOR map
array                       tag 41230: array of the element constructor's format code and the
                            elements, without tags; if the elements are described, an array of the
                            descriptors precedes the code
described                   tag 41231: array of the descriptor and the described value
message                     tag 41232: array of the message-format and the sections. A section is an
                            array of the descriptor's code (112 to 120) and the value; for a value
                            that is not a section of Part 3, an array of null and the whole value;
                            for bytes that are not exactly one value, an array of the bytes
=========================== =====================================================================

The tags from 41216 on are in the first-come-first-served range (RFC 8949, 9.2). The standard tags 1
for timestamps and 4 for decimals are not used, because they cannot represent the full range, the
milliseconds, NaNs and the exact bits.

cbor2 reads and writes CBOR. The writer uses the core deterministic encoding (RFC 8949, 4.2.1):
equal values give equal bytes. As in typed JSON, only the constructor of an array is kept of the
AMQP encoding. The reader also accepts longer forms of numbers and lengths, and rejects indefinite
lengths.
"""

from __future__ import annotations

import importlib
import math
import sys
import uuid
from typing import Any

from amqp10msg.message import Message
from amqp10msg.notation._common import (
    STACK_EXCEEDED_TEXT,
    NotationError,
    describe,
    item_step,
    message_of,
)
from amqp10msg.notation.cbor_heads import (
    DETAIL,
    EIGHT_BYTES,
    INDEFINITE_LENGTH,
    ITEM_DOUBLE,
    ITEM_FALSE,
    ITEM_HALF,
    ITEM_NULL,
    ITEM_SINGLE,
    ITEM_TRUE,
    MAJOR,
    MAJOR_ARRAY,
    MAJOR_BYTES,
    MAJOR_MAP,
    MAJOR_NEGATIVE,
    MAJOR_TAG,
    MAJOR_TEXT,
    MAJOR_UNSIGNED,
    ONE_BYTE,
)
from amqp10msg.notation.type_names import (
    BIT_PATTERN_WIDTHS,
    TYPE_NAME_BY_CLASS,
    bits_of,
    integer_range,
    of_bits,
)
from amqp10msg.sections import KINDS
from amqp10msg.sections.parts import parts_of
from amqp10msg.wire.errors import DecodeError, EncodeError, as_bytes
from amqp10msg.wire.kernel import decode_value, encode_value
from amqp10msg.wire.kernel.codes import KIND_OF_FORMAT_CODE, TYPE_NAME_OF_KIND
from amqp10msg.wire.limits import UNLIMITED
from amqp10msg.wire.primitives import (
    DECIMALS,
    INTEGERS,
    AmqpMap,
    Array,
    Char,
    Described,
    Float,
    Symbol,
)

#: The first of the tags of the integer types, which are in the order of `INTEGERS`.
UBYTE_TAG = 41216  # 0xA100
(
    FLOAT_TAG,
    DOUBLE_TAG,
    DECIMAL_TAG,
    CHAR_TAG,
    SYMBOL_TAG,
    MAP_TAG,
    ARRAY_TAG,
    DESCRIBED_TAG,
    MESSAGE_TAG,
) = range(UBYTE_TAG + len(INTEGERS), UBYTE_TAG + len(INTEGERS) + 9)
UUID_TAG = 37

#: Tags by name of the AMQP type; the other types have a native CBOR type.
TAG_BY_TYPE = {
    **{name: UBYTE_TAG + index for index, name in enumerate(INTEGERS)},
    **dict.fromkeys(DECIMALS, DECIMAL_TAG),
    "float": FLOAT_TAG,
    "char": CHAR_TAG,
    "symbol": SYMBOL_TAG,
    "map": MAP_TAG,
    "array": ARRAY_TAG,
    "described": DESCRIBED_TAG,
}
#: Names of the AMQP types by tag.
TYPE_BY_TAG = {
    **{tag: name for name, tag in TAG_BY_TYPE.items() if tag != DECIMAL_TAG},
    DOUBLE_TAG: "double",
}
#: Names of the decimal types by width in bytes.
DECIMAL_TYPE_BY_WIDTH = {BIT_PATTERN_WIDTHS[name]: name for name in DECIMALS}
#: The encoded quiet NaN without a payload, which CBOR represents as a number.
QUIET_NAN_BY_TYPE = {
    "float": bytes.fromhex("7fc00000"),
    "double": bytes.fromhex("7ff8000000000000"),
}
#: The minimum, the maximum and the class of each integer type.
INTEGER_RANGES = {name: integer_range(name) for name in (*INTEGERS, "long")}
#: The types that are written as arrays.
COMPOUND_TYPES = ("list", "map", "described", "array")
#: Classes of AMQP values that need no tag: cbor2 itself writes and reads them as the notation does.
UNTAGGED_CLASSES = {type(None), bool, int, bytes, str, uuid.UUID}
#: The classes in which cbor2 returns arrays, which are tuples if they are inside tags.
ARRAY_CLASSES = {list, tuple}
#: The encoded descriptors of the sections, by descriptor code.
SECTION_DESCRIPTORS = {kind.code: b"\x00\x53" + bytes((kind.code,)) for kind in KINDS}
#: The maximum nesting of CBOR items, which is two per level of AMQP, three for a message, and a
#: margin.
MAX_ITEM_DEPTH = 2 * 256 + 8
#: The allowed initial bytes of major type 7.
MAJOR_7_INITIAL_BYTES = bytes(
    (ITEM_FALSE, ITEM_TRUE, ITEM_NULL, ITEM_HALF, ITEM_SINGLE, ITEM_DOUBLE)
)


def _cbor2() -> Any:
    """Return the module cbor2, an optional dependency that is imported on first use."""
    try:
        return sys.modules.get("cbor2") or importlib.import_module("cbor2")
    except ImportError:
        raise ImportError("CBOR needs cbor2: pip install 'amqp10msg[cbor]'") from None


# Writing.


def to_cbor(value: Any) -> bytes:
    """Return a message or a value as CBOR.

    Args:
        value: a `Message`, or a value that `encode_value` accepts.

    Raises:
        EncodeError: the value has no AMQP type, or is out of its range.
        ImportError: cbor2 is not installed.
    """
    cbor2 = _cbor2()
    try:
        if isinstance(value, Message):
            items = [int(value.message_format), *_section_items(value.encode(), cbor2.CBORTag)]
            item: Any = cbor2.CBORTag(MESSAGE_TAG, items)
        else:
            item = _item_of(decode_value(encode_value(value), limits=UNLIMITED), cbor2.CBORTag)
        encoded: bytes = cbor2.dumps(item, canonical=True)
    except RecursionError:
        raise EncodeError(STACK_EXCEEDED_TEXT) from None
    return encoded


def _section_items(octets: bytes, tag_class: Any) -> list[Any]:
    """Return the sections of an encoded message as CBOR items."""
    items: list[Any] = []
    for code, start, content, end in parts_of(octets):
        try:
            value = decode_value(octets[start if code < 0 else content : end], limits=UNLIMITED)
        except DecodeError:  # in a leniently decoded message
            items.append([octets[start:end]])
        else:
            items.append([None if code < 0 else code, _item_of(value, tag_class)])
    return items


def _item_of(value: Any, tag_class: Any) -> Any:
    """Return a decoded AMQP value as an item for cbor2; `tag_class` is cbor2's `CBORTag`."""
    cls = type(value)
    if cls in UNTAGGED_CLASSES:
        return value
    name = TYPE_NAME_BY_CLASS[cls]
    content = _content_of(value, name, tag_class)
    if name == "double":
        return tag_class(DOUBLE_TAG, content) if type(content) is bytes else content
    return content if name == "list" else tag_class(TAG_BY_TYPE[name], content)


def _content_of(value: Any, name: str, tag_class: Any) -> Any:
    """Return the CBOR content of a value of the type `name`: its item without the type's tag."""
    content: Any
    if name in INTEGERS:
        content = int(value)
    elif name == "symbol":
        content = str(value)
    elif name == "list":
        content = []
        for element in value:
            content.append(_item_of(element, tag_class))
    elif name == "map":
        content = []
        for key, element in value.items():
            content.append(_item_of(key, tag_class))
            content.append(_item_of(element, tag_class))
    elif name in QUIET_NAN_BY_TYPE:
        if not math.isnan(value):
            return float(value)
        octets = bits_of(value)
        content = math.nan if octets == QUIET_NAN_BY_TYPE[name] else octets
    elif name == "char":
        content = ord(value)
    elif name == "described":
        content = [_item_of(value.descriptor, tag_class), _item_of(value.value, tag_class)]
    elif name == "array":
        content = [value.code]
        if value.descriptors:
            content.insert(0, [_item_of(each, tag_class) for each in value.descriptors])
        for element in value.values:
            content.append(_content_of(element, value.type, tag_class))
    elif name in BIT_PATTERN_WIDTHS:
        content = bits_of(value)
    else:
        content = value
    return content


# Reading.


def from_cbor(data: bytes | bytearray | memoryview) -> Any:
    """Read CBOR as written by `to_cbor`: a `Message`, or a value as `decode_value` returns it.

    A message that `Message.decode` rejects is decoded with ``strict=False``. Untrusted input is
    safe: cbor2 never gets tags that `to_cbor` does not write, such as shared references.

    Raises:
        NotationError: the bytes are not CBOR as `to_cbor` writes it. The error contains the byte
            offset, or the path in the value.
        ImportError: cbor2 is not installed.
    """
    cbor2 = _cbor2()
    octets = as_bytes(data, "from_cbor")
    check(octets)
    try:
        item = cbor2.loads(octets, max_depth=MAX_ITEM_DEPTH)
    except (cbor2.CBORError, UnicodeDecodeError) as error:
        raise NotationError(f"the bytes are not CBOR: {error}") from None
    try:
        if type(item) is cbor2.CBORTag and item.tag == MESSAGE_TAG:
            return _message_of_item(item.value, cbor2.CBORTag)
        return decode_value(_encode_item(item, "", cbor2.CBORTag), limits=UNLIMITED)
    except RecursionError:
        raise NotationError(STACK_EXCEEDED_TEXT) from None


def _message_of_item(item: Any, tag_class: Any) -> Message:
    """Return the message that the item inside a message tag represents."""
    if type(item) not in ARRAY_CLASSES or not item:
        raise _mismatch("expected an array of the message-format and the sections", item)
    message_format = item[0]
    if type(message_format) is not int or not 0 <= message_format < 2**32:
        raise _mismatch("expected a message-format, 0 to 2^32 - 1", message_format).within("[0]")
    octets = b""
    index = 0
    try:
        for index in range(1, len(item)):
            octets += _encode_section(item[index], tag_class)
    except NotationError as error:
        raise error.within(item_step(index)) from None
    return message_of(octets, message_format=message_format)


def _encode_section(item: Any, tag_class: Any) -> bytes:
    """Encode the section that an item represents."""
    if type(item) in ARRAY_CLASSES and len(item) == 1 and type(item[0]) is bytes:
        return item[0]
    if type(item) not in ARRAY_CLASSES or len(item) != 2:
        raise _mismatch("expected a section: an array of its code and its value", item)
    code, value = item
    descriptor = SECTION_DESCRIPTORS.get(code) if type(code) is int else None
    if descriptor is None and code is not None:
        raise _mismatch("expected a section's code, 112 to 120, or null", code).within("[0]")
    return (descriptor or b"") + _encode_item(value, "[1]", tag_class)


def _encode_item(item: Any, step: str, tag_class: Any) -> bytes:
    """Encode the AMQP value that an item at the path `step` represents."""
    try:
        return encode_value(_value_of(item, tag_class))
    except EncodeError as error:
        raise NotationError(error.reason, "$" + step) from None
    except NotationError as error:
        raise error.within(step) from None


def _value_of(item: Any, tag_class: Any) -> Any:
    """Return the AMQP value that an item represents."""
    cls = type(item)
    if cls is tag_class:
        tag = item.tag
        if tag == DECIMAL_TAG:
            octets = item.value
            name = DECIMAL_TYPE_BY_WIDTH.get(len(octets)) if type(octets) is bytes else None
            if name is None:
                raise _mismatch("expected a byte string of 4, 8 or 16 bytes", octets)
            return of_bits(name, octets)
        name = TYPE_BY_TAG.get(tag)
        if name is None:
            raise _mismatch("expected a value", item)
        return _value_of_type(name, item.value, tag_class)
    if cls is int:
        return _value_of_type("long", item, tag_class)
    if cls in ARRAY_CLASSES:
        return _value_of_type("list", item, tag_class)
    if cls in UNTAGGED_CLASSES or cls is float:
        return item
    raise _mismatch("expected a value", item)


def _value_of_type(name: str, content: Any, tag_class: Any) -> Any:
    """Return the AMQP value of the type `name` from its CBOR content, which has no tag."""
    cls = type(content)
    if cls is int:
        if name in INTEGER_RANGES:
            low, high, integer_class = INTEGER_RANGES[name]
            if low <= content <= high:
                return integer_class(content)
        elif name == "char" and 0 <= content <= 0x10FFFF and content >> 11 != 0x1B:
            return Char(chr(content))
    elif cls in ARRAY_CLASSES:
        if name in COMPOUND_TYPES:
            return _compound_of(name, content, tag_class)
    elif cls is bytes:
        if name == "binary":
            return content
        if name in BIT_PATTERN_WIDTHS and len(content) == BIT_PATTERN_WIDTHS[name]:
            return of_bits(name, content)
    elif cls is str:
        if name == "string":
            return content
        if name == "symbol" and content.isascii():
            return Symbol(content)
    elif cls is float:
        if name == "double":
            return content
        if name == "float":
            return _float_of(content)
    elif (name, cls) in {("null", type(None)), ("boolean", bool), ("uuid", uuid.UUID)}:
        return content
    raise _mismatch(f"expected {_expected_items(name)}", content)


def _float_of(number: float) -> Float:
    """Return a number as an AMQP float, which must represent it exactly."""
    if math.isnan(number):
        return Float.from_bits(int.from_bytes(QUIET_NAN_BY_TYPE["float"], "big"))
    value: Float | None
    try:
        value = Float(number)
    except OverflowError:
        value = None
    if value is None or value != number:
        raise _mismatch("expected a number that 32 bits can represent exactly", number)
    return value


def _compound_of(name: str, items: list[Any], tag_class: Any) -> Any:
    """Return the list, map, described value or array that the items of a CBOR array represent."""
    if name == "array":
        return _array_of(items, tag_class)
    values = []
    try:
        for item in items:
            values.append(_value_of(item, tag_class))  # noqa: PERF401  (its length is the index)
    except NotationError as error:
        raise error.within(item_step(len(values))) from None
    if name == "list":
        return values
    if name == "map":
        if len(values) % 2:
            raise _mismatch("expected an array of keys and values in turn", items)
        return AmqpMap(zip(values[::2], values[1::2], strict=True))
    if len(values) != 2:
        raise _mismatch("expected an array of a descriptor and a value", items)
    return Described(*values)


def _array_of(items: list[Any], tag_class: Any) -> Array:
    """Return the array that descriptors (optional), a format code and elements represent."""
    start = 1 if items and type(items[0]) in ARRAY_CLASSES else 0
    code = items[start] if len(items) > start else None
    if type(code) is not int or not 0 <= code <= 255 or KIND_OF_FORMAT_CODE[code] == 0:
        raise _mismatch("expected an array that begins with a format code of Part 1, 1.6", items)
    descriptors: list[Any] = []
    try:
        for item in items[0] if start else ():
            descriptors.append(_value_of(item, tag_class))  # noqa: PERF401  (its length is the index)
    except NotationError as error:
        raise error.within("[0]" + item_step(len(descriptors))) from None
    name = TYPE_NAME_OF_KIND[KIND_OF_FORMAT_CODE[code]]
    elements: list[Any] = []
    try:
        for item in items[start + 1 :]:
            elements.append(_value_of_type(name, item, tag_class))  # noqa: PERF401  (its length is the index)
    except NotationError as error:
        raise error.within(item_step(start + 1 + len(elements))) from None
    return Array(code, elements, descriptors=descriptors)


def _expected_items(name: str) -> str:
    """Describe the items that represent values of the type `name`."""
    if name in INTEGER_RANGES:
        low, high, _ = INTEGER_RANGES[name]
        return f"an integer from {low} to {high}, for {name}"
    if name in QUIET_NAN_BY_TYPE:
        return f"a number or a byte string of {BIT_PATTERN_WIDTHS[name]} bytes, for {name}"
    if name == "char":
        return "a Unicode code point that is not a surrogate"
    if name == "symbol":
        return "a text string in ASCII, for a symbol"
    if name in BIT_PATTERN_WIDTHS:
        return f"a byte string of {BIT_PATTERN_WIDTHS[name]} bytes, for {name}"
    return f"an array, for a {name}" if name in COMPOUND_TYPES else f"a {name}"


def _mismatch(expectation: str, item: Any) -> NotationError:
    """Return an error with the text `expectation`, and then "not" and a description of `item`."""
    tag = getattr(item, "tag", None)
    text = describe(item) if tag is None else f"tag {tag}"
    return NotationError(f"{expectation}, not {text}")


def check(data: bytes) -> None:
    """Check that the bytes are one well-formed CBOR item with only features that the notation uses.

    After this check, cbor2 can safely decode the bytes, since it can only create plain values. Tags
    for shared references, regular expressions and the like are rejected.

    Raises:
        NotationError: the bytes are malformed, or use a feature that the notation does not use.
    """
    end = len(data)
    pos = start = 0
    remaining = 1  # items remaining in the current array or tag
    outer_remaining: list[int] = []  # items remaining in each enclosing array or tag
    while True:
        if remaining == 0:
            if not outer_remaining:
                break
            remaining = outer_remaining.pop()
            continue
        remaining -= 1
        start = pos
        if pos >= end:
            raise _malformed(start, "the input ends in the middle of an item")
        major = data[pos] & MAJOR
        detail = data[pos] & DETAIL
        pos += 1
        number = detail
        if detail >= ONE_BYTE:
            if detail == INDEFINITE_LENGTH:
                raise _malformed(start, "indefinite lengths are not part of this notation")
            if detail > EIGHT_BYTES:
                raise _malformed(start, f"no item begins with 0x{data[start]:02X}")
            width = 1 << (detail - ONE_BYTE)
            if width > end - pos:
                raise _malformed(start, "the input ends in the middle of an item")
            number = 0
            for i in range(width):
                number = number << 8 | data[pos + i]
            pos += width
        if major in {MAJOR_UNSIGNED, MAJOR_NEGATIVE}:
            continue
        if major in {MAJOR_BYTES, MAJOR_TEXT}:
            if number > end - pos:
                raise _malformed(start, f"a string of {number} bytes does not fit the input")
            pos += number
        elif major in {MAJOR_ARRAY, MAJOR_TAG}:
            if major == MAJOR_TAG and number != UUID_TAG and not UBYTE_TAG <= number <= MESSAGE_TAG:
                raise _malformed(start, f"tag {number} is not part of this notation")
            if major == MAJOR_ARRAY and number > end - pos:
                raise _malformed(start, f"an array of {number} items does not fit the input")
            if len(outer_remaining) >= MAX_ITEM_DEPTH:
                raise _malformed(start, "items are nested too deeply")
            outer_remaining.append(remaining)
            remaining = 1 if major == MAJOR_TAG else number
        elif major == MAJOR_MAP:
            raise _malformed(
                start, f"a CBOR map is not part of this notation: AMQP maps have tag {MAP_TAG}"
            )
        elif data[start] not in MAJOR_7_INITIAL_BYTES:
            raise _malformed(start, f"simple value {number} is not part of this notation")
    if pos != end:
        raise _malformed(pos, f"{end - pos} bytes follow the item")


def _malformed(offset: int, reason: str) -> NotationError:
    """Return the error for the bytes at an offset."""
    return NotationError(f"at byte {offset}: {reason}")
