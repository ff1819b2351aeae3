"""The residual: a compact encoding of the values that the target protocol cannot express.

It is an array of three items in deterministic CBOR: the version 1, the content (a map), and the
CRC-32 (ISO-HDLC) of the encoded content. A 1.0 message has it as a binary in the message annotation
`NAME`, a 0-9-1 message as base64 text in the header `NAME`, a long string.

The subset of CBOR (RFC 8949) has unsigned integers, byte strings, text strings, arrays, maps with
integer or text keys, and null. The encoding is deterministic (4.2.1): definite lengths, shortest
heads, keys sorted by their encoding. Anything else is refused, so that a content has exactly one
encoding. `is_of_message` and `is_of_basic` check the structure of the content, because a residual
with a correct checksum may still have another origin or be damaged: it is then ignored.
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

#: The name of the annotation and header with the residual.
NAME = "x-opt-amqp10msg-residual"
#: Maximum size in bytes of a message whose translation is within all decoding limits when it is
#: translated back. Larger messages need a trial.
CERTAIN = 65_536
#: Maximum size of the properties, in bytes, in a content header of RabbitMQ's default frame-max.
MAX_PROPERTIES = 131_072 - 8 - 12
#: Maximum size in bytes of the sections without the body. Up to this size, the properties of the
#: translation always fit into a frame, unless a header is an array or a table.
ALWAYS_FITS = 32_768
_MAX_DEPTH = 8
_Check: TypeAlias = Callable[[Any], bool]

# Keys of the residual of a 0-9-1 message, in addition to the numbers of its properties.
TABLE = 3  # the encoded table of headers
BODY = 15  # 1: the payload consists of encoded body sections, marked by the property type
FIELDS = 16  # name -> encoded field of a header
ORDER = 17  # indexes of the x- headers in the table
EMPTY = 18  # 1: there is an empty table of headers
EXCHANGE = 19  # exchange and routing key, if annotations cannot express them
ROUTING_KEY = 20
# Keys of the residual of a 1.0 message, in addition to the codes of its sections.
WHOLE = 0  # the encoded message, if its parts cannot restore it
FORMAT = 1  # the message-format
PLACES = 2  # the original index of each header, in the order of their names
PAYLOAD = 3  # 1: the payload is the encoded message, whose headers would not fit in a frame
FORM = 4  # 1: exchange and routing key were the first annotations, as from RabbitMQ 4.3
SPARSE = 0x100  # added to the code of a section: index or name -> encoded value
SPARSE_PROPERTIES = SPARSE + PROPERTIES_CODE
SPARSE_APPLICATION = SPARSE + APPLICATION_PROPERTIES_CODE
SHAPE = DATA_CODE  # the bytes before the content of each data section
UNMARKED = AMQP_VALUE_CODE  # 1: the payload is encoded body sections, but the type does not mark it


def pack(content: dict[int, Any]) -> bytes:
    """Encode a residual."""
    inner = _encoded(content)
    return b"\x83\x01" + inner + _encoded(zlib.crc32(inner))


def pack_text(content: dict[int, Any]) -> str:
    """Encode a residual as the base64 text of a header."""
    return binascii.b2a_base64(pack(content), newline=False).decode("ascii")


def unpack(data: bytes) -> dict[int, Any] | None:
    """Decode a residual. Return None if the bytes are not a residual, or are damaged."""
    try:
        content = _decoded(data, 0, 0)[0][1]
        # Each content has exactly one encoding: comparing it checks the version and checksum, too.
        return content if isinstance(content, dict) and pack(content) == data else None
    except (ValueError, LookupError, TypeError):
        return None


def unpack_text(text: str) -> dict[int, Any] | None:
    """Decode a residual from a header's value. Return None if it is invalid or damaged."""
    try:
        content = unpack(binascii.a2b_base64(text.encode("ascii"), strict_mode=True))
    except (UnicodeEncodeError, binascii.Error):
        return None
    return content if content is not None and pack_text(content) == text else None


# The CBOR encoding.


def _encoded(value: Any) -> bytes:
    """Encode a value of the CBOR subset."""
    if value is None:
        return bytes([ITEM_NULL])
    if isinstance(value, int):
        return _encode_head(MAJOR_UNSIGNED, value)
    if isinstance(value, bytes):
        return _encode_head(MAJOR_BYTES, len(value)) + value
    if isinstance(value, str):
        octets = value.encode("utf-8")
        return _encode_head(MAJOR_TEXT, len(octets)) + octets
    if isinstance(value, list):
        return _encode_head(MAJOR_ARRAY, len(value)) + b"".join(map(_encoded, value))
    pairs = sorted((_encoded(key), _encoded(item)) for key, item in value.items())
    return _encode_head(MAJOR_MAP, len(pairs)) + b"".join(key + item for key, item in pairs)


def _encode_head(kind: int, number: int) -> bytes:
    """Encode a CBOR head: the major type `kind` with its argument, in the shortest form."""
    if number < ONE_BYTE:
        return bytes([kind | number])
    for low, width in ((ONE_BYTE, 1), (TWO_BYTES, 2), (FOUR_BYTES, 4), (EIGHT_BYTES, 8)):
        if number < 1 << 8 * width:
            return bytes([kind | low]) + number.to_bytes(width, "big")
    raise ValueError(f"{number} does not fit 64 bits")


def _decoded(data: bytes, pos: int, depth: int) -> tuple[Any, int]:
    """Decode the value at `pos`, and return it with the position after it.

    Heads that are longer than necessary are accepted.

    Raises:
        ValueError, IndexError, TypeError: the bytes are not of the CBOR subset, or are truncated.
    """
    head = data[pos]
    kind, number = head & MAJOR, head & DETAIL
    pos += 1
    if head == ITEM_NULL:
        return None, pos
    if number > EIGHT_BYTES:  # a sender could choose wider keys that share a hash
        raise ValueError(f"unsupported CBOR head 0x{head:02X} at byte {pos - 1}")
    if number >= ONE_BYTE:
        start, pos = pos, pos + (1 << number - ONE_BYTE)
        number = int.from_bytes(data[start:pos], "big")
    if kind == MAJOR_UNSIGNED:
        return number, pos
    if number > len(data) - pos:
        raise ValueError(f"truncated CBOR value at byte {pos}")
    if kind in {MAJOR_BYTES, MAJOR_TEXT}:
        octets = data[pos : pos + number]
        return octets if kind == MAJOR_BYTES else octets.decode("utf-8"), pos + number
    if kind not in {MAJOR_ARRAY, MAJOR_MAP} or depth == _MAX_DEPTH:
        raise ValueError(f"unsupported or too deeply nested CBOR value at byte {pos}")
    items = []
    for _ in range(number if kind == MAJOR_ARRAY else 2 * number):
        item, pos = _decoded(data, pos, depth + 1)
        items.append(item)
    if kind == MAJOR_ARRAY:
        return items, pos
    keys = items[::2]
    if not all(isinstance(key, (int, str)) for key in keys):
        raise ValueError(f"a map key before byte {pos} is neither an integer nor a text")
    return dict(zip(keys, items[1::2], strict=True)), pos


# The structure of the content: checks of the values by key.


def _is_permutation(value: Any) -> bool:
    """Whether a value is a list that contains every number from 0 to its length minus 1."""
    return (
        isinstance(value, list)
        and all(type(index) is int for index in value)
        and (sorted(value) == list(range(len(value))))
    )


def _is_ascending(value: Any) -> bool:
    """Whether a value is a list of strictly ascending integers."""
    return (
        isinstance(value, list)
        and all(type(index) is int for index in value)
        and all(a < b for a, b in itertools.pairwise(value))
    )


def _is_octets(value: Any) -> bool:
    return isinstance(value, bytes)


def _is_set(value: Any) -> bool:
    return bool(value == 1)


def _up_to(limit: int) -> _Check:
    return lambda value: isinstance(value, int) and value <= limit


def _list_of(is_item: _Check) -> _Check:
    return lambda value: isinstance(value, list) and all(map(is_item, value))


def _map_of(is_key: _Check, is_value: _Check = _is_octets) -> _Check:
    return lambda value: (
        isinstance(value, dict) and (all(map(is_value, value.values())) and all(map(is_key, value)))
    )


_OF_MESSAGE: dict[Any, _Check] = {
    **dict.fromkeys({*KIND_OF.keys() - BODY_CODES, WHOLE}, _is_octets),
    **dict.fromkeys((UNMARKED, PAYLOAD, FORM), _is_set),
    FORMAT: _up_to(2**32 - 1),
    PLACES: _is_permutation,
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
    ORDER: _is_ascending,
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
    """Whether a content has the structure of a 1.0 message's residual."""
    return _is_of(content, _OF_MESSAGE)


def is_of_basic(content: dict[Any, Any]) -> bool:
    """Whether a content has the structure of a 0-9-1 message's residual."""
    return _is_of(content, _OF_BASIC)


def section_octets(code: int, section: Any) -> bytes:
    """Encode a section without a limit of nesting."""
    writer = kernel.Writer(False)
    writer.section(SPEC_OF[code], section)
    octets: bytes = writer.finish()
    return octets


# Trailing nulls of a properties section are optional; RabbitMQ 4 writes all thirteen fields. The
# residual records only the number of fields, so that it stays small.

NULL = b"\x40"
_DESCRIPTOR_SIZE = 3  # size of the smallest encoding of the descriptor
_EMPTY, _LIST8, _LIST32 = 0x45, 0xC0, 0xD0


def nulls_behind(octets: bytes, canonical: bytes) -> int:
    """Return the number of fields of a section that differs only by trailing nulls, otherwise 0.

    Args:
        octets: the encoded section.
        canonical: the section as this library encodes it.
    """
    count = _content_of(octets)[0]
    return count if padded(canonical, count) == octets else 0


def padded(canonical: bytes, fields: int) -> bytes:
    """Append nulls to an encoded section up to a number of fields, at most 255."""
    count, content = _content_of(canonical)
    if count >= fields:
        return canonical
    content += NULL * (fields - count)
    if len(content) < 255:
        return b"%b%c%c%c%b" % (
            canonical[:_DESCRIPTOR_SIZE],
            _LIST8,
            len(content) + 1,
            fields,
            content,
        )
    size = (len(content) + 4).to_bytes(4, "big")
    return b"%b%c%b%b%b" % (
        canonical[:_DESCRIPTOR_SIZE],
        _LIST32,
        size,
        fields.to_bytes(4, "big"),
        content,
    )


def _content_of(octets: bytes) -> tuple[int, bytes]:
    """Return the number of fields of a list8 or list32 and their bytes, otherwise (0, b"")."""
    code = octets[_DESCRIPTOR_SIZE]
    if code == _LIST8:
        return octets[_DESCRIPTOR_SIZE + 2], octets[_DESCRIPTOR_SIZE + 3 :]
    if code == _LIST32:
        return int.from_bytes(octets[_DESCRIPTOR_SIZE + 5 : _DESCRIPTOR_SIZE + 9], "big"), octets[
            _DESCRIPTOR_SIZE + 9 :
        ]
    return 0, b""
