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
import itertools
import zlib
from collections.abc import Callable
from typing import Any, TypeAlias

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
from amqp10msg.sections import BODY_CODES, KIND_OF, SPEC_OF, Properties
from amqp10msg.translate.table import ROWS
from amqp10msg.wire import kernel
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
_MAX_DEPTH = 8
_Check: TypeAlias = Callable[[Any], bool]

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
        content = _decoded(data, 0, 0)[0][1]
        # One content has one encoding: of these bytes all else is right, too, or none is.
        return content if isinstance(content, dict) and pack(content) == data else None
    except (ValueError, LookupError, TypeError):
        return None


def unpack_text(text: str) -> dict[int, Any] | None:
    """Decode a residual from a header's value; return None where it is not one, or is damaged."""
    try:
        content = unpack(binascii.a2b_base64(text.encode("ascii"), strict_mode=True))
    except (UnicodeEncodeError, binascii.Error):
        return None
    return content if content is not None and pack_text(content) == text else None


# The encoding.


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
    raise ValueError(f"{number} does not fit 64 bits")


def _decoded(data: bytes, pos: int, depth: int) -> tuple[Any, int]:
    """Decode the value that begins there, in any encoding, and return where it ends.

    Raises:
        ValueError, IndexError, TypeError: the bytes are not what `_encoded` writes.
    """
    head = data[pos]
    kind, number = head & MAJOR, head & DETAIL
    pos += 1
    if head == ITEM_NULL:
        return None, pos
    if number > EIGHT_BYTES:  # of wider numbers, as keys, any many have one hash
        raise ValueError("a head that is not of the subset")
    if number >= ONE_BYTE:
        start, pos = pos, pos + (1 << number - ONE_BYTE)
        number = int.from_bytes(data[start:pos], "big")
    if kind == MAJOR_UNSIGNED:
        return number, pos
    if number > len(data) - pos:
        raise ValueError("more bytes or items than there are bytes left")
    if kind in {MAJOR_BYTES, MAJOR_TEXT}:
        octets = data[pos : pos + number]
        return octets if kind == MAJOR_BYTES else octets.decode("utf-8"), pos + number
    if kind not in {MAJOR_ARRAY, MAJOR_MAP} or depth == _MAX_DEPTH:
        raise ValueError("a value that is not of the subset, or too deep")
    items = []
    for _ in range(number if kind == MAJOR_ARRAY else 2 * number):
        item, pos = _decoded(data, pos, depth + 1)
        items.append(item)
    if kind == MAJOR_ARRAY:
        return items, pos
    keys = items[::2]
    if not all(isinstance(key, (int, str)) for key in keys):
        raise ValueError("a key that is neither a number nor a text")
    return dict(zip(keys, items[1::2], strict=True)), pos


# The content, by its keys: whether a value has the right form.


def _are_places(places: Any) -> bool:
    """Whether each of the numbers from 0 on stands there once."""
    return (
        isinstance(places, list)
        and all(type(place) is int for place in places)
        and (sorted(places) == list(range(len(places))))
    )


def _do_ascend(places: Any) -> bool:
    """Whether these are numbers, each larger than the one before."""
    return (
        isinstance(places, list)
        and all(type(place) is int for place in places)
        and all(one < other for one, other in itertools.pairwise(places))
    )


def _is_octets(value: Any) -> bool:
    return isinstance(value, bytes)


def _is_set(value: Any) -> bool:
    return bool(value == 1)


def _up_to(most: int) -> _Check:
    return lambda value: isinstance(value, int) and value <= most


def _list_of(is_right: _Check) -> _Check:
    return lambda value: isinstance(value, list) and all(map(is_right, value))


def _map_of(is_key: _Check, is_right: _Check = _is_octets) -> _Check:
    return lambda found: (
        isinstance(found, dict) and (all(map(is_right, found.values())) and all(map(is_key, found)))
    )


_OF_MESSAGE: dict[Any, _Check] = {
    **dict.fromkeys({*KIND_OF.keys() - BODY_CODES, WHOLE}, _is_octets),
    **dict.fromkeys((UNMARKED, PAYLOAD, FORM), _is_set),
    FORMAT: _up_to(2**32 - 1),
    PLACES: _are_places,
    SHAPE: _list_of(_is_octets),
    SPARSE_PROPERTIES: _map_of(_up_to(len(attrs.fields(Properties)) - 1)),
    SPARSE_APPLICATION: _map_of(lambda name: isinstance(name, str)),
}
_NUMBERS = {"delivery_mode": 255, "priority": 255, "timestamp": 2**64 - 1}


def _is_shortstr(value: Any) -> bool:
    return isinstance(value, bytes) and len(value) <= 255


_OF_BASIC: dict[Any, _Check] = {
    **{
        row.number: _up_to(_NUMBERS[row.name]) if row.name in _NUMBERS else _is_shortstr
        for row in ROWS
    },
    **dict.fromkeys((EXCHANGE, ROUTING_KEY), _is_octets),
    **dict.fromkeys((BODY, EMPTY), _is_set),
    ORDER: _do_ascend,
    TABLE: lambda value: isinstance(value, bytes) and bool(decode_table(value).entries),
    FIELDS: _map_of(
        lambda name: isinstance(name, str) and len(name.encode("utf-8")) <= 255,
        lambda octets: isinstance(octets, bytes) and bool(decode_field(octets)),
    ),
}


def _is_of(content: dict[Any, Any], checks: dict[Any, _Check]) -> bool:
    try:
        return bool(content) and all(
            key in checks and checks[key](value) for key, value in content.items()
        )
    except (DecodeError, IndexError):
        return False


def is_of_message(content: dict[Any, Any]) -> bool:
    """Whether a residual has the form of one from a 1.0 message."""
    return _is_of(content, _OF_MESSAGE)


def is_of_basic(content: dict[Any, Any]) -> bool:
    """Whether a residual has the form of one from a 0-9-1 message."""
    return _is_of(content, _OF_BASIC)


def section_octets(code: int, section: Any) -> bytes:
    """Encode a section, whose values may nest as deeply as those of a message."""
    writer = kernel.Writer(False)
    writer.section(SPEC_OF[code], section)
    octets: bytes = writer.finish()
    return octets


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
