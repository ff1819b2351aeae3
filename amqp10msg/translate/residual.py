"""The residual: a compact encoding of the values that the target protocol cannot express.

A residual is an array of three items in deterministic CBOR: the version 1, the content (a map), and
the CRC-32 (ISO-HDLC) of the encoded content. A 1.0 message has its residual as a binary in the
message annotation `RESIDUAL_NAME`, a 0-9-1 message as base64 text (a long string) in the header
`RESIDUAL_NAME`.

The subset of CBOR (RFC 8949) has unsigned integers, byte strings, text strings, arrays, maps with
integer or text keys, and null. The encoding is deterministic (4.2.1): definite lengths, shortest
heads, keys sorted by their encoding. Other encodings are rejected, so that a content has exactly
one encoding. `is_of_message` and `is_of_basic` check the structure of the content: a residual with
a correct checksum may still be from another program, or damaged, and is then ignored.
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
from amqp10msg.sections import BODY_CODES, KIND_BY_CODE, SPEC_BY_CODE, Properties
from amqp10msg.translate.table import ROWS
from amqp10msg.wire import kernel
from amqp10msg.wire.errors import DecodeError
from amqp10msg.wire.kernel.codes import (
    AMQP_VALUE_CODE,
    APPLICATION_PROPERTIES_CODE,
    DATA_CODE,
    PROPERTIES_CODE,
)

#: The name of the header, and the key of the annotation, that holds the residual.
RESIDUAL_NAME = "x-opt-amqp10msg-residual"
#: Maximum size in bytes of a 1.0 message whose translation can surely be translated back within all
#: decoding limits. Larger messages must be translated back to be sure.
MAX_UNTRIED_MESSAGE_SIZE = 65_536
#: Maximum size in bytes of the 0-9-1 properties in a frame of RabbitMQ's default frame-max.
MAX_PROPERTIES_SIZE = 131_072 - 8 - 12
#: Maximum size in bytes of a 1.0 message without its body. Up to this size, the 0-9-1 properties
#: fit into a frame, unless a header is an array or a table.
MAX_SIZE_FITTING_FRAME = 32_768
_MAX_CBOR_DEPTH = 8  # nesting of CBOR arrays and maps
_ValueCheck: TypeAlias = Callable[[Any], bool]

# Keys in the residual of an original 0-9-1 message, in addition to the numbers of its properties.
HEADER_TABLE_KEY = 3  # the encoded table of headers
MARKED_SECTIONS_KEY = 15  # 1 if the payload is encoded body sections, and the property type says so
HEADER_FIELDS_KEY = 16  # a map from the name of a header to its encoded field
INDEXES_OF_X_HEADERS_KEY = 17  # the indexes of the x- headers in the table of headers, ascending
EMPTY_TABLE_KEY = 18  # 1 if the message has an empty table of headers
EXCHANGE_KEY = 19  # EXCHANGE_KEY and ROUTING_KEY_KEY: only if annotations cannot express them
ROUTING_KEY_KEY = 20
# Keys in the residual of an original 1.0 message, in addition to the codes of its sections.
WHOLE_MESSAGE_KEY = 0  # the encoded message, if other keys cannot restore it
MESSAGE_FORMAT_KEY = 1  # the message-format
HEADER_INDEXES_KEY = 2  # the original index of each header; the headers are sorted by name
MESSAGE_IN_PAYLOAD_KEY = 3  # 1 if the payload is the whole message, because of too many headers
# 1 if the annotations x-exchange and x-routing-key came first (RabbitMQ 4.3).
ROUTING_ANNOTATIONS_FIRST_KEY = 4
SPARSE_KEY_OFFSET = 0x100  # plus a section's code: some encoded values by index or name
SPARSE_PROPERTIES_KEY = SPARSE_KEY_OFFSET + PROPERTIES_CODE
SPARSE_APPLICATION_KEY = SPARSE_KEY_OFFSET + APPLICATION_PROPERTIES_CODE
DATA_HEADS_KEY = DATA_CODE  # a list of the bytes before the content of each data section
UNMARKED_SECTIONS_KEY = (
    AMQP_VALUE_CODE  # 1 if the payload is body sections, and the type is not set
)


def pack(content: dict[int, Any]) -> bytes:
    """Encode a residual with this content."""
    inner = _encode(content)
    return b"\x83\x01" + inner + _encode(zlib.crc32(inner))


def pack_text(content: dict[int, Any]) -> str:
    """Encode a residual with this content as base64 text, for a header."""
    return binascii.b2a_base64(pack(content), newline=False).decode("ascii")


def unpack(data: bytes) -> dict[int, Any] | None:
    """Decode a residual and return its content; None if the bytes are no valid residual."""
    try:
        content = _decode(data, 0, 0)[0][1]
        # A content has exactly one encoding, so this also checks the version and checksum.
        return content if isinstance(content, dict) and pack(content) == data else None
    except (ValueError, LookupError, TypeError):
        return None


def unpack_text(text: str) -> dict[int, Any] | None:
    """Decode a residual from base64 text and return its content; None if it is not valid."""
    try:
        content = unpack(binascii.a2b_base64(text.encode("ascii"), strict_mode=True))
    except (UnicodeEncodeError, binascii.Error):
        return None
    return content if content is not None and pack_text(content) == text else None


# The CBOR encoding.


def _encode(value: Any) -> bytes:
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
        return _encode_head(MAJOR_ARRAY, len(value)) + b"".join(map(_encode, value))
    pairs = sorted((_encode(key), _encode(item)) for key, item in value.items())
    return _encode_head(MAJOR_MAP, len(pairs)) + b"".join(key + item for key, item in pairs)


def _encode_head(major: int, number: int) -> bytes:
    """Encode a CBOR head (a major type and its argument) in the shortest form."""
    if number < ONE_BYTE:
        return bytes([major | number])
    for low, width in ((ONE_BYTE, 1), (TWO_BYTES, 2), (FOUR_BYTES, 4), (EIGHT_BYTES, 8)):
        if number < 1 << 8 * width:
            return bytes([major | low]) + number.to_bytes(width, "big")
    raise ValueError(f"{number} does not fit 64 bits")


def _decode(data: bytes, pos: int, depth: int) -> tuple[Any, int]:
    """Decode the CBOR value at `pos`. Return the value and the position after it.

    Heads that are longer than necessary are accepted; `unpack` rejects them later.

    Raises:
        ValueError, IndexError, TypeError: the bytes are not of the CBOR subset, or are truncated.
    """
    head = data[pos]
    major, number = head & MAJOR, head & DETAIL
    pos += 1
    if head == ITEM_NULL:
        return None, pos
    if number > EIGHT_BYTES:  # a sender could choose wider keys that share a hash
        raise ValueError(f"unsupported CBOR head 0x{head:02X} at byte {pos - 1}")
    if number >= ONE_BYTE:
        start, pos = pos, pos + (1 << number - ONE_BYTE)
        number = int.from_bytes(data[start:pos], "big")
    if major == MAJOR_UNSIGNED:
        return number, pos
    if number > len(data) - pos:
        raise ValueError(f"truncated CBOR value at byte {pos}")
    if major in {MAJOR_BYTES, MAJOR_TEXT}:
        octets = data[pos : pos + number]
        return octets if major == MAJOR_BYTES else octets.decode("utf-8"), pos + number
    if major not in {MAJOR_ARRAY, MAJOR_MAP} or depth == _MAX_CBOR_DEPTH:
        raise ValueError(f"unsupported or too deeply nested CBOR value at byte {pos}")
    items = []
    for _ in range(number if major == MAJOR_ARRAY else 2 * number):
        item, pos = _decode(data, pos, depth + 1)
        items.append(item)
    if major == MAJOR_ARRAY:
        return items, pos
    keys = items[::2]
    if not all(isinstance(key, (int, str)) for key in keys):
        raise ValueError(f"a map key before byte {pos} is neither an integer nor a text")
    return dict(zip(keys, items[1::2], strict=True)), pos


# The structure of a content, as a check of the value for each key.


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


def _is_bytes(value: Any) -> bool:
    return isinstance(value, bytes)


def _is_one(value: Any) -> bool:
    """Whether a value is 1, which stands for true."""
    return bool(value == 1)


def _is_at_most(limit: int) -> _ValueCheck:
    """Return a check for integers that are at most `limit`."""
    return lambda value: isinstance(value, int) and value <= limit


def _is_list_of(is_item: _ValueCheck) -> _ValueCheck:
    """Return a check for lists whose items pass a check."""
    return lambda value: isinstance(value, list) and all(map(is_item, value))


def _is_map_of(is_key: _ValueCheck, is_value: _ValueCheck = _is_bytes) -> _ValueCheck:
    """Return a check for maps whose keys and values pass checks."""
    return lambda value: (
        isinstance(value, dict) and (all(map(is_value, value.values())) and all(map(is_key, value)))
    )


_MESSAGE_CHECK_BY_KEY: dict[Any, _ValueCheck] = {
    **dict.fromkeys({*KIND_BY_CODE.keys() - BODY_CODES, WHOLE_MESSAGE_KEY}, _is_bytes),
    **dict.fromkeys(
        (UNMARKED_SECTIONS_KEY, MESSAGE_IN_PAYLOAD_KEY, ROUTING_ANNOTATIONS_FIRST_KEY), _is_one
    ),
    MESSAGE_FORMAT_KEY: _is_at_most(2**32 - 1),
    HEADER_INDEXES_KEY: _is_permutation,
    DATA_HEADS_KEY: _is_list_of(_is_bytes),
    SPARSE_PROPERTIES_KEY: _is_map_of(_is_at_most(len(attrs.fields(Properties)) - 1)),
    SPARSE_APPLICATION_KEY: _is_map_of(lambda name: isinstance(name, str)),
}
_MAX_NUMBER_BY_PROPERTY = {"delivery_mode": 255, "priority": 255, "timestamp": 2**64 - 1}


def _is_shortstr(value: Any) -> bool:
    return isinstance(value, bytes) and len(value) <= 255


_BASIC_CHECK_BY_KEY: dict[Any, _ValueCheck] = {
    **{
        row.number: _is_at_most(_MAX_NUMBER_BY_PROPERTY[row.name])
        if row.name in _MAX_NUMBER_BY_PROPERTY
        else _is_shortstr
        for row in ROWS
    },
    **dict.fromkeys((EXCHANGE_KEY, ROUTING_KEY_KEY), _is_bytes),
    **dict.fromkeys((MARKED_SECTIONS_KEY, EMPTY_TABLE_KEY), _is_one),
    INDEXES_OF_X_HEADERS_KEY: _is_ascending,
    HEADER_TABLE_KEY: lambda value: isinstance(value, bytes) and bool(decode_table(value).entries),
    HEADER_FIELDS_KEY: _is_map_of(
        lambda name: isinstance(name, str) and len(name.encode("utf-8")) <= 255,
        lambda octets: isinstance(octets, bytes) and bool(decode_field(octets)),
    ),
}


def _passes(content: dict[Any, Any], checks: dict[Any, _ValueCheck]) -> bool:
    """Whether a content is not empty, and has only keys of `checks`, with values that pass them."""
    try:
        return bool(content) and all(
            key in checks and checks[key](value) for key, value in content.items()
        )
    except (DecodeError, IndexError):
        return False


def is_of_message(content: dict[Any, Any]) -> bool:
    """Whether a content has the structure of a residual that restores a 1.0 message."""
    return _passes(content, _MESSAGE_CHECK_BY_KEY)


def is_of_basic(content: dict[Any, Any]) -> bool:
    """Whether a content has the structure of a residual that restores a 0-9-1 message."""
    return _passes(content, _BASIC_CHECK_BY_KEY)


def section_octets(code: int, section: Any) -> bytes:
    """Encode a section, without a limit on the depth of nesting."""
    writer = kernel.Writer(False)
    writer.section(SPEC_BY_CODE[code], section)
    octets: bytes = writer.finish()
    return octets


# Trailing nulls of a properties section are optional; RabbitMQ 4 writes all thirteen fields. To
# stay small, the residual then records only the number of fields.

ENCODED_NULL = b"\x40"
_DESCRIPTOR_SIZE = 3  # size of the smallest encoding of the descriptor
_LIST0, _LIST8, _LIST32 = 0x45, 0xC0, 0xD0


def count_padded_fields(octets: bytes, canonical: bytes) -> int:
    """Return how many fields a section has that differs from `canonical` only by trailing nulls.

    Return 0 if the section differs in another way.

    Args:
        octets: the encoded section.
        canonical: the same section as this library encodes it, without trailing nulls.
    """
    count = _list_fields(octets)[0]
    return count if pad_with_nulls(canonical, count) == octets else 0


def pad_with_nulls(canonical: bytes, fields: int) -> bytes:
    """Append nulls to an encoded section until it has `fields` fields, at most 255."""
    count, content = _list_fields(canonical)
    if count >= fields:
        return canonical
    content += ENCODED_NULL * (fields - count)
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


def _list_fields(octets: bytes) -> tuple[int, bytes]:
    """Return the number of fields in a section and their bytes; (0, b"") for an empty list."""
    code = octets[_DESCRIPTOR_SIZE]
    if code == _LIST8:
        return octets[_DESCRIPTOR_SIZE + 2], octets[_DESCRIPTOR_SIZE + 3 :]
    if code == _LIST32:
        return int.from_bytes(octets[_DESCRIPTOR_SIZE + 5 : _DESCRIPTOR_SIZE + 9], "big"), octets[
            _DESCRIPTOR_SIZE + 9 :
        ]
    return 0, b""
