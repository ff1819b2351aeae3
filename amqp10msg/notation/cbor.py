"""CBOR (RFC 8949): lossless, deterministic, compact; needs ``amqp10msg[cbor]``.

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
map                         tag 41229: array of key, value, key, value …: the order of an AMQP map
                            counts, which that of a CBOR map does not
array                       tag 41230: array of the element constructor's format code and the
                            elements, these without tags; where the elements are described, an
                            array of the descriptors precedes the code
described                   tag 41231: array of the descriptor and what is described
message                     tag 41232: array of the message-format and the sections, each an array
                            of the descriptor's code (112 to 120) and the section's value; for
                            what is not a section of Part 3, null and the whole value; where that
                            is no value to the letter, the section's bytes alone
=========================== =====================================================================

The tags from 41216 on lie in the range for first come, first served (RFC 8949, 9.2). Tag 1 for
timestamps and tag 4 for decimals would lose the far ends, the milliseconds, the NaNs and the
exact bits.

The encoding is the core deterministic one (RFC 8949, 4.2.1): the same values give the same bytes.
As in typed JSON, nothing tells which of several AMQP encodings a value had, but for an array's
constructor. Reading takes longer forms of numbers and lengths too, but no indefinite lengths.
"""

from __future__ import annotations

import io
import itertools
import math
import uuid
from typing import Any

from amqp10msg.message import Message
from amqp10msg.notation._cbor_check import MAX_DEPTH, check
from amqp10msg.notation._cbor_items import octets_of_cbor
from amqp10msg.notation._cbor_octets import cbor_message, cbor_octets
from amqp10msg.notation._cbor_tags import (
    ARRAY,
    CHAR,
    DECIMAL,
    DESCRIBED,
    DOUBLE,
    FIRST,
    FLOAT,
    MAP,
    MESSAGE,
    SYMBOL,
    UUID,
)
from amqp10msg.notation._common import TOO_DEEP, NotationError
from amqp10msg.notation._error import Reader, Step
from amqp10msg.notation._sections import message_of, sections_of, written
from amqp10msg.notation.type_names import (
    DECIMALS,
    INTEGERS,
    TYPES,
    WIDTHS,
    bits_of,
    integer_range,
    of_bits,
)
from amqp10msg.sections import KINDS
from amqp10msg.sections.parts import Malformed
from amqp10msg.wire.errors import DecodeError, EncodeError
from amqp10msg.wire.kernel import decode_value, encode_value
from amqp10msg.wire.limits import UNLIMITED
from amqp10msg.wire.primitives import FORMAT_CODES, AmqpMap, Array, Char, Described, Float, Symbol

_DECIMALS = {cls.width: name for name, cls in DECIMALS.items()}
#: The tag of each type; what has none is CBOR's own.
_TAGS: dict[str, int] = {
    **{name: FIRST + i for i, name in enumerate(INTEGERS)},
    **dict.fromkeys(DECIMALS, DECIMAL),
    "float": FLOAT,
    "char": CHAR,
    "symbol": SYMBOL,
    "uuid": UUID,
    "map": MAP,
    "array": ARRAY,
}
# Those of integers, and what is CBOR's own as it is.
_NUMBER_TAGS: dict[type, int] = {cls: _TAGS[name] for name, cls in INTEGERS.items()}
_AS_THEY_ARE = frozenset((type(None), bool, int, str, bytes))
_BY_CODE = {kind.code: kind for kind in KINDS}
_NAN = {"float": b"\x7f\xc0", "double": b"\x7f\xf8"}


def _cbor2() -> Any:
    try:
        import cbor2  # noqa: PLC0415  (an extra, and notation is imported without it)
    except ImportError:
        raise ImportError("CBOR needs cbor2: pip install 'amqp10msg[cbor]'") from None
    return cbor2


def to_cbor(value: Any) -> bytes:
    """Write a message or a value in CBOR.

    Args:
        value: a `Message`, or whatever `encode_value` takes.

    Raises:
        EncodeError: the value has no AMQP type, or is out of its range.
        ImportError: cbor2 is not installed.
    """
    cbor2 = _cbor2()
    writer = _CborWriter(cbor2.CBORTag)
    try:
        if isinstance(value, Message):
            octets = value.encode()
            # What was decoded leniently may have a key twice.
            quick = None if value._lenient else cbor_message(octets, value.message_format)
            made = writer.message(octets, value.message_format) if quick is None else None
        else:
            octets = encode_value(value)
            quick = cbor_octets(octets)
            made = writer.item(decode_value(octets, limits=UNLIMITED)) if quick is None else None
        return bytes(cbor2.dumps(made, canonical=True)) if quick is None else quick
    except RecursionError:
        raise EncodeError(TOO_DEEP) from None


class _CborWriter:
    """Makes what cbor2 writes; two frames of Python for each level of nesting."""

    def __init__(self, tag: Any) -> None:
        self.tag = tag

    def message(self, octets: bytes, message_format: int) -> Any:
        made: list[Any] = [int(message_format)]
        for kind, value in sections_of(octets):
            if type(value) is Malformed:
                made.append([value.data])
            else:
                made.append([None if kind is None else kind.code, self.item(value)])
        return self.tag(MESSAGE, made)

    def item(self, value: Any) -> Any:
        kind = type(value)
        if kind in _AS_THEY_ARE:
            return value
        if kind is Symbol:
            return self.tag(SYMBOL, str(value))
        if kind in _NUMBER_TAGS:
            return self.tag(_NUMBER_TAGS[kind], int(value))
        if kind is Described:
            return self.tag(DESCRIBED, [self.item(value.descriptor), self.item(value.value)])
        name = TYPES[kind]
        content = self.content(name, value)
        tag = _TAGS.get(name)
        if name == "double" and type(content) is bytes:
            tag = DOUBLE
        return content if tag is None else self.tag(tag, content)

    def content(self, name: str, value: Any) -> Any:
        """Return what follows the tag of a type."""
        if name == "list":
            return list(map(self.item, value))
        if name == "map":
            pairs = value.pairs if type(value) is AmqpMap else value.items()
            return list(map(self.item, itertools.chain.from_iterable(pairs)))
        if name == "array":
            head: list[Any] = [value.code]
            if value.descriptors:
                head.insert(0, list(map(self.item, value.descriptors)))
            return head + list(map(self.content, itertools.repeat(value.type), value.values))
        if name in INTEGERS:
            return int(value)
        if name in ("float", "double"):
            # CBOR's one NaN is the one without a payload.
            octets = bits_of(value)
            payload = math.isnan(value) and octets.rstrip(b"\x00") != _NAN[name]
            return octets if payload else float(value)
        if name in WIDTHS:
            return bits_of(value)
        if name == "char":
            return ord(value)
        if name == "symbol":
            return str(value)
        return value


def from_cbor(data: bytes | bytearray | memoryview) -> Any:
    """Read CBOR that `to_cbor` wrote: a `Message`, or a value as `decode_value` returns it.

    A message that breaks a rule which `Message.decode` enforces comes as its ``strict=False`` does.
    Input from anywhere is safe to read: only the tags of this form are passed on to cbor2, and no
    shared references.

    Raises:
        NotationError: the bytes are not CBOR of this form; the error names the byte, or the place
            in the value.
        ImportError: cbor2 is not installed.
    """
    cbor2 = _cbor2()
    octets = bytes(data)
    quick = octets_of_cbor(octets)
    if quick is not None:
        made, message_format = quick
        try:
            if message_format is None:
                return decode_value(made, limits=UNLIMITED)
            return Message.decode(made, limits=UNLIMITED, message_format=message_format)
        except DecodeError:
            pass  # what is wrong is said below, with its place in the CBOR
    check(octets)
    try:
        try:
            decoder = cbor2.CBORDecoder(io.BytesIO(octets), max_depth=MAX_DEPTH)
        except TypeError:  # before cbor2 6, where the interpreter's stack is the bound
            decoder = cbor2.CBORDecoder(io.BytesIO(octets))
        made = decoder.decode()
        reader = _CborReader(cbor2.CBORTag)
        if type(made) is cbor2.CBORTag and made.tag == MESSAGE:
            return reader.message(made.value)
        value = reader.item(made)
        try:
            return decode_value(encode_value(value), limits=UNLIMITED)
        except EncodeError as error:
            raise NotationError(error.reason) from None
    except (cbor2.CBORError, UnicodeDecodeError) as error:
        raise NotationError(f"the bytes are not CBOR: {error}") from None
    except RecursionError:
        raise NotationError(TOO_DEEP) from None


class _CborReader(Reader):
    """Makes AMQP values of what cbor2 returns; two frames of Python for each level of nesting."""

    def __init__(self, tag: Any) -> None:
        super().__init__()
        self.tag = tag

    def wrong(self, wanted: str, found: Any, *steps: Step) -> NotationError:
        if type(found) is self.tag:
            return self.fault(f"expected {wanted}, not tag {found.tag}", *steps)
        return super().wrong(wanted, found, *steps)

    def message(self, content: Any) -> Message:
        if not isinstance(content, _ARRAYS) or not content:
            raise self.wrong("an array of the message-format and the sections", content)
        message_format = content[0]
        if type(message_format) is not int or not 0 <= message_format < 2**32:
            raise self.wrong("a message-format, 0 to 2^32 - 1", message_format, 0)
        octets = []
        for index, section in enumerate(content[1:], 1):
            self.path = [index]
            if isinstance(section, _ARRAYS) and len(section) == 1 and type(section[0]) is bytes:
                octets.append(section[0])
                continue
            if not isinstance(section, _ARRAYS) or len(section) != 2:
                raise self.wrong("a section: an array of its code and its value", section)
            code = section[0]
            if code is not None and (type(code) is not int or code not in _BY_CODE):
                raise self.wrong("a section's code, 112 to 120, or null", code, 0)
            self.path.append(1)
            value = self.item(section[1])
            try:
                octets.append(written(None if code is None else _BY_CODE[code], value))
            except EncodeError as error:
                raise self.fault(error.reason) from None
        return message_of(b"".join(octets), message_format=message_format)

    def item(self, item: Any) -> Any:
        """Read an item with its tag, or without one."""
        kind = type(item)
        if kind is self.tag:
            if item.tag == DECIMAL:
                width = len(item.value) if isinstance(item.value, bytes) else 0
                if width not in _DECIMALS:
                    raise self.wrong("a byte string of 4, 8 or 16 bytes", item.value)
                return of_bits(_DECIMALS[width], item.value)
            name = _BY_TAG.get(item.tag)
            if name is None:
                raise self.wrong("a value", item)
            return self.content(name, item.value)
        if kind is uuid.UUID:
            return item
        if kind not in _UNTAGGED:
            raise self.wrong("a value", item)
        return self.content(_UNTAGGED[kind], item)

    def content(self, name: str, content: Any) -> Any:
        """Make a value of a type from what follows its tag."""
        if name not in _COMPOUND:
            return self.scalar(name, content)
        if not isinstance(content, _ARRAYS):
            raise self.wrong(f"an array, for a {name}", content)
        made = []
        if name != "array":
            for index, item in enumerate(content):
                self.path.append(index)
                made.append(self.item(item))
                self.path.pop()
            if name == "list":
                return made
            if name == "map" and len(made) % 2 == 0:
                return AmqpMap(zip(made[::2], made[1::2], strict=True))
            if name == "described" and len(made) == 2:
                return Described(*made)
            raise self.wrong(_COMPOUND[name], content)
        described = bool(content) and isinstance(content[0], _ARRAYS)
        code = content[described] if len(content) > described else None
        if type(code) is not int or code not in FORMAT_CODES:
            raise self.wrong(_COMPOUND[name], content)
        descriptors = []
        for index, item in enumerate(content[0] if described else ()):
            self.path += (0, index)
            descriptors.append(self.item(item))
            del self.path[-2:]
        name = FORMAT_CODES[code].type
        for index, item in enumerate(content[described + 1 :], described + 1):
            self.path.append(index)
            made.append(self.content(name, item))
            self.path.pop()
        return Array(code, made, descriptors=descriptors)

    def scalar(self, name: str, content: Any) -> Any:
        kind = type(content)
        if name in INTEGERS or name == "long":
            low, high, cls = integer_range(name)
            if kind is not int or not low <= content <= high:
                raise self.wrong(f"an integer from {low} to {high}, for {name}", content)
            return cls(content)
        if name in ("float", "double"):
            return self.real(name, content)
        if name == "char":
            if kind is not int or not 0 <= content <= 0x10FFFF or content >> 11 == 0x1B:
                raise self.wrong("a Unicode code point that is not a surrogate", content)
            return Char(chr(content))
        if name == "symbol":
            if kind is not str or not content.isascii():
                raise self.wrong("a text string in ASCII, for a symbol", content)
            return Symbol(content)
        if name in WIDTHS:
            if kind is not bytes or len(content) != WIDTHS[name]:
                raise self.wrong(f"a byte string of {WIDTHS[name]} bytes, for {name}", content)
            return of_bits(name, content)
        if kind is not _PLAIN[name]:
            raise self.wrong(f"a {name}", content)
        return content

    def real(self, name: str, content: Any) -> Any:
        if isinstance(content, float):
            if name == "double":
                return content
            if math.isnan(content):
                return Float.from_bits(0x7FC00000)
            try:
                made = Float(content)
            except OverflowError:
                made = Float(math.inf)
            if made == content:
                return made
            raise self.wrong("a number that 32 bits hold exactly", content)
        width = WIDTHS[name]
        if not isinstance(content, bytes) or len(content) != width:
            raise self.wrong(f"a number or a byte string of {width} bytes, for {name}", content)
        return of_bits(name, content)


_BY_TAG = {tag: name for name, tag in _TAGS.items()} | {DOUBLE: "double", DESCRIBED: "described"}
_UNTAGGED: dict[type, str] = {
    cls: name for cls, name in TYPES.items() if name not in _TAGS and name != "described"
}
_UNTAGGED[tuple] = "list"
_ARRAYS = (list, tuple)  # inside of a tag, cbor2 may give tuples
_COMPOUND = {
    "list": "an array",
    "map": "an array of keys and values in turn",
    "described": "an array of a descriptor and a value",
    "array": "an array that begins with a format code of Part 1, 1.6",
}
_PLAIN: dict[str, type] = {"null": type(None), "boolean": bool, "binary": bytes, "string": str}
