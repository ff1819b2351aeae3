"""AMQP 0-9-1 messages of class basic: properties, field tables and content headers."""

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
    decode_field,
    decode_properties,
    decode_table,
    encode_field,
    encode_properties,
    encode_table,
)
from amqp10msg.basic.rules import Finding, check_content_header, check_properties
from amqp10msg.basic.tables import (
    Dialect,
    FieldArray,
    FieldTable,
    OddTrue,
    ScaledDecimal,
    letter_of,
)

__all__ = [
    "BASIC_CLASS",
    "PROPERTIES",
    "BasicMessage",
    "BasicProperties",
    "ContentHeader",
    "Dialect",
    "FieldArray",
    "FieldTable",
    "Finding",
    "OddTrue",
    "PropertyRow",
    "ScaledDecimal",
    "check_content_header",
    "check_properties",
    "decode_content_header",
    "decode_field",
    "decode_properties",
    "decode_table",
    "encode_content_header",
    "encode_field",
    "encode_properties",
    "encode_table",
    "letter_of",
]
