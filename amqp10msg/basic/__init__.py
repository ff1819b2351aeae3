"""AMQP 0-9-1 messages of class basic: field tables, properties, content headers. No sockets."""

from __future__ import annotations

from amqp10msg.basic.message import (
    BASIC_CLASS,
    BasicMessage,
    ContentHeader,
    decode_content_header,
    encode_content_header,
)
from amqp10msg.basic.properties import (
    PROPERTIES,
    BasicProperties,
    PropertyRow,
    decode_properties,
    decode_table,
    encode_properties,
    encode_table,
)
from amqp10msg.basic.tables import Dialect, FieldArray, FieldTable, ScaledDecimal, letter_of

__all__ = [
    "BASIC_CLASS",
    "PROPERTIES",
    "BasicMessage",
    "BasicProperties",
    "ContentHeader",
    "Dialect",
    "FieldArray",
    "FieldTable",
    "PropertyRow",
    "ScaledDecimal",
    "decode_content_header",
    "decode_properties",
    "decode_table",
    "encode_content_header",
    "encode_properties",
    "encode_table",
    "letter_of",
]
