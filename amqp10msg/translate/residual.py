"""The residual: what the other protocol cannot express, in a few bytes.

An array of three, deterministic CBOR: the version 1, the content (a map), and the CRC-32 (ISO-HDLC)
of the encoded content. On the 1.0 side it is the message annotation `NAME`, a binary; on the 0-9-1
side the header `NAME`, a long string that is the base64 text of the same bytes.

The subset of CBOR (RFC 8949) is unsigned integers, byte strings, text, arrays, maps with integers
or texts as keys, and null, deterministic (4.2.1): all lengths definite, every head in its shortest
form, keys sorted by their encodings. Anything else is refused, so that one content has one
encoding. A residual that was made elsewhere, or damaged with a right checksum, is not merged with
the message: `is_of_message` and `is_of_basic` say whether it has the form of one.
"""

from __future__ import annotations

import binascii
import zlib
from typing import Any

import attrs

from amqp10msg.basic.properties import decode_field, decode_table
from amqp10msg.notation.cbor_heads import (
    DETAIL,
    EIGHT_BYTES,
    FOUR_BYTES,
    ITEM_NULL,
    MAJOR,
    MAJOR_ARRAY,
    MAJOR_BYTES,
    MAJOR_MAP,
    MAJOR_TEXT,
    MAJOR_UNSIGNED,
    ONE_BYTE,
    TWO_BYTES,
)
from amqp10msg.sections import BODY_CODES, KIND_OF, Properties
from amqp10msg.translate.table import ROWS
from amqp10msg.wire.errors import DecodeError
from amqp10msg.wire.kernel.codes import (
    AMQP_VALUE_CODE,
    APPLICATION_PROPERTIES_CODE,
    DATA_CODE,
    PROPERTIES_CODE,
)

#: The annotation and header that holds the residual.
NAME = "x-opt-amqp10msg-residual"
#: In a message of at most so many bytes no limit of decoding matters on the way back.
CERTAIN = 65_536
#: A content header of RabbitMQ's usual frames, 128 KiB, has room for so many bytes of properties.
MOST_PROPERTIES = 131_072 - 8 - 12
#: That is enough for the sections of a message without its body that have so many bytes.
ROOMY = 32_768
_VERSION = 1
_MAX_DEPTH = 8

# Keys of the residual on the 1.0 side, besides the numbers of the properties.
TABLE = 3  # the whole table of headers, encoded
BODY = 15  # 1: the payload is encoded body sections, as the type says, of any kind
FIELDS = 16  # name -> letter and value of headers, encoded
ORDER = 17  # positions of the x- headers in the table
EMPTY = 18  # the table of headers is there, and empty
EXCHANGE = 19  # exchange and routing key, where annotations cannot hold them
ROUTING_KEY = 20
# Keys of the residual on the 0-9-1 side, besides the codes of sections.
WHOLE = 0  # the encoded message, where it is not of the usual form
FORMAT = 1  # the message-format
PLACES = 2  # where each header stood, in the order of their names
PAYLOAD = 3  # 1: the payload is the whole encoded message, whose headers would not fit in a frame
FORM = 4  # 1: exchange and routing key stood in front, as RabbitMQ 4.3 delivers a message
SPARSE = 0x100  # added to a section's code: number or name -> encoded value
SPARSE_PROPERTIES = SPARSE + PROPERTIES_CODE
SPARSE_APPLICATION = SPARSE + APPLICATION_PROPERTIES_CODE
SHAPE = DATA_CODE  # of the body: the bytes before each data section's content
UNMARKED = AMQP_VALUE_CODE  # 1: the payload is encoded body sections, and the type does not say so


def pack(content: dict[int, Any]) -> bytes:
    """Encode a residual."""
    inner = _encoded(content)
    return b"\x83\x01" + inner + _encoded(zlib.crc32(inner))


def pack_text(content: dict[int, Any]) -> str:
    """Encode a residual as the text of a header."""
    return binascii.b2a_base64(pack(content), newline=False).decode("ascii")


def unpack(data: bytes) -> dict[int, Any] | None:
    """Decode a residual; return None where the bytes are not one, or are damaged."""
    try:
        found = _decoded(data)
    except _CborError:
        return None
    if not (isinstance(found, list) and len(found) == 3 and found[0] == _VERSION):
        return None
    content = found[1]
    # The content stands between the head and the checksum; no value has two encodings.
    inner = data[2 : len(data) - len(_encoded(found[2]))]
    if not isinstance(content, dict) or found[2] != zlib.crc32(inner):
        return None
    return content


def unpack_text(text: str) -> dict[int, Any] | None:
    """Decode a residual from a header's value; return None where it is not one, or is damaged."""
    try:
        data = binascii.a2b_base64(text.encode("ascii"), strict_mode=True)
    except (UnicodeEncodeError, binascii.Error):
        return None
    # One content has one text.
    return (
        unpack(data) if binascii.b2a_base64(data, newline=False).decode("ascii") == text else None
    )


# The encoding.


class _CborError(ValueError):
    """The input is not the deterministic encoding of a value of the subset."""


def _encoded(value: Any) -> bytes:
    """Encode a value of the subset."""
    if value is None:
        return bytes([ITEM_NULL])
    if isinstance(value, int):
        return _number(MAJOR_UNSIGNED, value)
    if isinstance(value, bytes):
        return _number(MAJOR_BYTES, len(value)) + value
    if isinstance(value, str):
        octets = value.encode("utf-8")
        return _number(MAJOR_TEXT, len(octets)) + octets
    if isinstance(value, list):
        return _number(MAJOR_ARRAY, len(value)) + b"".join(map(_encoded, value))
    pairs = sorted((_encoded(key), _encoded(item)) for key, item in value.items())
    return _number(MAJOR_MAP, len(pairs)) + b"".join(key + item for key, item in pairs)


def _number(kind: int, number: int) -> bytes:
    """Return a kind and its number, in the shortest form."""
    if number < ONE_BYTE:
        return bytes([kind | number])
    for low, width in ((ONE_BYTE, 1), (TWO_BYTES, 2), (FOUR_BYTES, 4), (EIGHT_BYTES, 8)):
        if number < 1 << 8 * width:
            return bytes([kind | low]) + number.to_bytes(width, "big")
    raise _CborError(f"{number} does not fit 64 bits")


def _decoded(data: bytes) -> Any:
    """Decode one value that fills the input.

    Raises:
        _CborError: the bytes are not what `_encoded` writes.
    """
    reader = _Reader(data)
    value = reader.value(0)
    if reader.pos != reader.end:
        raise _CborError(f"{reader.end - reader.pos} trailing bytes after the value")
    return value


class _Reader:
    """A cursor over encoded values."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.pos = 0
        self.end = len(data)

    def value(self, depth: int) -> Any:
        """Read one value."""
        data = self.data
        pos = self.pos
        if pos >= self.end:
            raise _CborError("the input ends")
        head = data[pos]
        kind, number = head & MAJOR, head & DETAIL
        self.pos = pos + 1
        if head == ITEM_NULL:
            return None
        if number >= ONE_BYTE:
            number = self.wide(number)
        if kind == MAJOR_UNSIGNED:
            return number
        if kind in {MAJOR_BYTES, MAJOR_TEXT}:
            return self.string(kind, number)
        if (
            kind not in {MAJOR_ARRAY, MAJOR_MAP}
            or number > self.end - self.pos
            or depth >= _MAX_DEPTH
        ):
            raise _CborError(
                "a value that is not of the subset, too deep, or of more items than bytes"
            )
        if kind == MAJOR_ARRAY:
            return [self.value(depth + 1) for _ in range(number)]
        return self.pairs(number, depth + 1)

    def wide(self, low: int) -> int:
        """Read the number after a head that does not hold it."""
        start = self.pos
        width = 1 << low - ONE_BYTE if low <= EIGHT_BYTES else 0
        if width == 0 or width > self.end - start:
            raise _CborError(
                f"the head {self.data[start - 1]:#04x} is not of the subset, or is cut off"
            )
        number = 0
        for place in range(start, start + width):
            number = number << 8 | self.data[place]
        self.pos = start + width
        if number < ONE_BYTE or (width > 1 and number >> 4 * width == 0):
            raise _CborError("a head is longer than it must be")
        return number

    def string(self, kind: int, size: int) -> Any:
        """Read bytes or a text of this size."""
        if size > self.end - self.pos:
            raise _CborError("the input ends within a string")
        start = self.pos
        self.pos = start + size
        octets = self.data[start : self.pos]
        if kind == MAJOR_BYTES:
            return octets
        try:
            return octets.decode("utf-8")
        except UnicodeDecodeError:
            raise _CborError("a text is not valid UTF-8") from None

    def pairs(self, count: int, depth: int) -> dict[Any, Any]:
        """Read the pairs of a map."""
        found: dict[Any, Any] = {}
        last = b""
        for _ in range(count):
            start = self.pos
            key = self.value(depth)
            octets = self.data[start : self.pos]
            if not isinstance(key, (int, str)) or octets <= last:
                raise _CborError("the keys of a map are not numbers or texts, or not in order")
            last = octets
            found[key] = self.value(depth)
        return found


# The content.

_SECTIONS = {*KIND_OF.keys() - BODY_CODES, WHOLE}
_FLAGS = {UNMARKED, PAYLOAD, FORM}
_MOST_FIELDS = len(attrs.fields(Properties))


def is_of_message(content: dict[Any, Any]) -> bool:
    """Whether a residual has the form of one from a 1.0 message."""
    for key, value in content.items():
        if key in _SECTIONS:
            right = isinstance(value, bytes)
        elif key == FORMAT:
            right = isinstance(value, int) and value < 2**32
        elif key == PLACES:
            right = isinstance(value, list) and _are_places(value)
        elif key == SHAPE:
            right = isinstance(value, list) and _are_bytes(value)
        elif key in _FLAGS:
            right = value == 1
        elif key == SPARSE_PROPERTIES:
            right = isinstance(value, dict) and _are_bytes(value.values()) and _are_indexes(value)
        elif key == SPARSE_APPLICATION:
            right = isinstance(value, dict) and _are_bytes(value.values()) and _are_names(value)
        else:
            right = False
        if not right:
            return False
    return bool(content)


def _are_places(places: list[Any]) -> bool:
    """Whether each of the numbers from 0 on stands there once."""
    met = bytearray(len(places))
    for place in places:
        if type(place) is not int or place >= len(places) or met[place]:
            return False
        met[place] = 1
    return True


def _are_bytes(values: Any) -> bool:
    return all(isinstance(value, bytes) for value in values)


def _are_indexes(found: dict[Any, Any]) -> bool:
    return all(isinstance(index, int) and index < _MOST_FIELDS for index in found)


def _are_names(found: dict[Any, Any]) -> bool:
    return all(isinstance(name, str) for name in found)


_NUMBERS = {"delivery_mode": 255, "priority": 255, "timestamp": 2**64 - 1}
_BY_NUMBER = {row.number: row for row in ROWS}


def is_of_basic(content: dict[Any, Any]) -> bool:
    """Whether a residual has the form of one from a 0-9-1 message."""
    try:
        for key, value in content.items():
            if not _is_original(key, value):
                return False
    except (DecodeError, IndexError):
        return False
    return bool(content)


def _is_original(key: Any, value: Any) -> bool:
    row = _BY_NUMBER.get(key)
    if row is not None:
        most = _NUMBERS.get(row.name)
        if most is not None:
            return isinstance(value, int) and value <= most
        return isinstance(value, bytes) and len(value) <= 255
    if key in (EXCHANGE, ROUTING_KEY):
        return isinstance(value, bytes)
    if key in (BODY, EMPTY):
        return bool(value == 1)
    if key == ORDER:
        return isinstance(value, list) and _do_ascend(value)
    if key == TABLE:
        return isinstance(value, bytes) and bool(decode_table(value).entries)
    return (
        key == FIELDS
        and isinstance(value, dict)
        and all(
            isinstance(name, str)
            and len(name.encode("utf-8")) <= 255
            and isinstance(octets, bytes)
            and bool(decode_field(octets))
            for name, octets in value.items()
        )
    )


def _do_ascend(places: list[Any]) -> bool:
    """Whether these are numbers, each larger than the one before."""
    last = -1
    for place in places:
        if type(place) is not int or place <= last:
            return False
        last = place
    return True


# Fields of a properties section that are null and still written, after all that have a value.
# RabbitMQ 4 writes all thirteen. The residual keeps the last one of them, so that it is small.

NULL = b"\x40"
_HEAD = 3  # bytes of the descriptor in its usual form
_EMPTY, _LIST8, _LIST32 = 0x45, 0xC0, 0xD0


def nulls_behind(octets: bytes, canonical: bytes) -> int:
    """Return how many fields an encoded section has, if it only says more nulls than it must; or 0.

    Args:
        octets: the section as it stands.
        canonical: the section as this library writes it.
    """
    count = _content_of(octets)[0]
    return count if padded(canonical, count) == octets else 0


def padded(canonical: bytes, fields: int) -> bytes:
    """Return an encoded section with nulls up to so many fields, at most 255."""
    count, content = _content_of(canonical)
    if count >= fields:
        return canonical
    content += NULL * (fields - count)
    if len(content) < 255:
        return b"%b%c%c%c%b" % (canonical[:_HEAD], _LIST8, len(content) + 1, fields, content)
    size = (len(content) + 4).to_bytes(4, "big")
    return b"%b%c%b%b%b" % (
        canonical[:_HEAD],
        _LIST32,
        size,
        fields.to_bytes(4, "big"),
        content,
    )


def _content_of(octets: bytes) -> tuple[int, bytes]:
    """Return the number of the fields, and their bytes; nothing of another form."""
    code = octets[_HEAD]
    if code == _LIST8:
        return octets[_HEAD + 2], octets[_HEAD + 3 :]
    if code == _LIST32:
        return int.from_bytes(octets[_HEAD + 5 : _HEAD + 9], "big"), octets[_HEAD + 9 :]
    return 0, b""
