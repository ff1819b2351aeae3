# cython: language_level=3, boundscheck=True, wraparound=False, annotation_typing=False
"""What stands in the residuals, by its keys, and whether a residual has that form.

One that was made elsewhere, or damaged with a right checksum, is not merged with the message.
"""

from __future__ import annotations

from typing import Any

import attrs

from amqp10msg.basic.properties import decode_field, decode_table
from amqp10msg.sections import BODY_CODES, KIND_OF, Properties
from amqp10msg.translate.table import ROWS
from amqp10msg.wire.errors import DecodeError
from amqp10msg.wire.kernel.codes import (
    AMQP_VALUE_CODE,
    APPLICATION_PROPERTIES_CODE,
    DATA_CODE,
    PROPERTIES_CODE,
)

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
SHAPE = DATA_CODE  # of the body: the octets in front of each data section's content
UNMARKED = AMQP_VALUE_CODE  # 1: the payload is encoded body sections, and the type does not say so

_SECTIONS = {*KIND_OF.keys() - BODY_CODES, WHOLE}
_FORMAT, _PLACES, _SHAPE, _FLAGS = FORMAT, PLACES, SHAPE, {UNMARKED, PAYLOAD, FORM}
_SPARSE_PROPERTIES, _SPARSE_APPLICATION = SPARSE_PROPERTIES, SPARSE_APPLICATION
_MOST_FIELDS = len(attrs.fields(Properties))


def is_of_message(content: dict[Any, Any]) -> bool:
    """Whether a residual has the form of one from a 1.0 message."""
    for key, value in content.items():
        if key in _SECTIONS:
            right = isinstance(value, bytes)
        elif key == _FORMAT:
            right = isinstance(value, int) and value < 2**32
        elif key == _PLACES:
            right = isinstance(value, list) and _are_places(value)
        elif key == _SHAPE:
            right = isinstance(value, list) and _are_bytes(value)
        elif key in _FLAGS:
            right = value == 1
        elif key == _SPARSE_PROPERTIES:
            right = isinstance(value, dict) and _are_bytes(value.values()) and _are_indexes(value)
        elif key == _SPARSE_APPLICATION:
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
        return isinstance(value, list) and all(isinstance(place, int) for place in value)
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
