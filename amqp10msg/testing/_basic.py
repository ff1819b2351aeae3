"""Strategies for AMQP 0-9-1 messages of class basic."""

from __future__ import annotations

import functools
import struct
from typing import Any

import attrs
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from amqp10msg.basic import (
    PROPERTIES,
    BasicMessage,
    BasicProperties,
    FieldArray,
    FieldTable,
    OddTrue,
    ScaledDecimal,
)
from amqp10msg.sections import KINDS
from amqp10msg.testing._encodings import encodings
from amqp10msg.testing._sections import bodies as section_bodies
from amqp10msg.testing._sections import messages
from amqp10msg.testing._values import built, with_repr
from amqp10msg.wire.primitives import Float

# The range of each integer type of a field table, by type letter.
_INTEGER_RANGES = {
    "b": (-(2**7), 2**7 - 1),
    "B": (0, 2**8 - 1),
    "s": (-(2**15), 2**15 - 1),
    "u": (0, 2**16 - 1),
    "U": (-(2**15), 2**15 - 1),
    "I": (-(2**31), 2**31 - 1),
    "i": (0, 2**32 - 1),
    "l": (-(2**63), 2**63 - 1),
    "L": (-(2**63), 2**63 - 1),
    "T": (0, 2**64 - 1),
}


def _decoded_strings(max_size: int) -> SearchStrategy[str]:
    """Strings as decoding returns them, with surrogate escapes for bytes that are not UTF-8."""
    return (st.text(max_size=max_size // 4) | st.binary(max_size=max_size)).map(
        lambda drawn: drawn if isinstance(drawn, str) else drawn.decode("utf-8", "surrogateescape")
    )


def _double_from_bits(bits: int) -> float:
    return struct.unpack(">d", bits.to_bytes(8, "big"))[0]  # type: ignore[no-any-return]  # what the kernel gives is Any


def _with_letter(letter: str, drawn: SearchStrategy[Any]) -> SearchStrategy[tuple[str, Any]]:
    """Fields of one type: pairs of its letter and a drawn value."""
    return drawn.map(lambda value: (letter, value))


def _scalar_fields() -> SearchStrategy[tuple[str, Any]]:
    integers = [
        _with_letter(letter, st.integers(low, high) | st.sampled_from([low, high]))
        for letter, (low, high) in _INTEGER_RANGES.items()
    ]
    octet = st.integers(2, 255).map(OddTrue)
    return st.one_of(
        *integers,
        _with_letter("T", st.integers(0, 2**33)),
        _with_letter("t", st.booleans() | octet),
        _with_letter("S", _decoded_strings(40)),
        _with_letter("x", st.binary(max_size=40)),
        _with_letter("f", st.integers(0, 2**32 - 1).map(Float.from_bits)),
        _with_letter("d", st.floats() | st.integers(0, 2**64 - 1).map(_double_from_bits)),
        _with_letter(
            "D", st.builds(ScaledDecimal, st.integers(0, 255), st.integers(-(2**31), 2**31 - 1))
        ),
        st.just(("V", None)),
    )


def _field_names() -> SearchStrategy[str]:
    usual = st.sampled_from(
        ["tenant", "x-death", "x-opt-to", "x-opt-x-a", "CC", "BCC", "x-exchange", "x-", "", "ü"]
    )
    return usual | _decoded_strings(20) | st.text(max_size=10).map(lambda text: "x-" + text)


def _field_values() -> SearchStrategy[tuple[str, Any]]:
    def nested(inner: SearchStrategy[tuple[str, Any]]) -> SearchStrategy[tuple[str, Any]]:
        arrays = st.lists(inner, max_size=4).map(FieldArray.of)
        tables = st.lists(st.tuples(_field_names(), inner), max_size=4).map(
            lambda pairs: FieldTable.of([(name, *field) for name, field in pairs])
        )
        return _with_letter("A", arrays) | _with_letter("F", tables)

    return st.recursive(_scalar_fields(), nested, max_leaves=6)


def field_tables() -> SearchStrategy[FieldTable]:
    """Field tables of the dialect ``rabbitmq``: every type of field; any names, also repeated.

    Example:
        >>> from hypothesis import given
        >>> from amqp10msg.basic import decode_table, encode_table
        >>> @given(field_tables())
        ... def test_round_trip(table):
        ...     assert decode_table(encode_table(table)) == table
        >>> test_round_trip()
    """
    return with_repr("field_tables()", _field_tables())


@functools.cache
def _field_tables() -> SearchStrategy[FieldTable]:
    entries = st.lists(st.tuples(_field_names(), _field_values()), max_size=6)
    return entries.map(lambda drawn: FieldTable.of([(name, *field) for name, field in drawn]))


# Values of properties that translations treat specially, or that publishers often send.
_TYPICAL_VALUES: dict[str, list[Any]] = {
    "content_type": ["text/plain", "application/json", "no mime", ""],
    "content_encoding": ["gzip", "utf-8", "identity", "GZIP"],
    "delivery_mode": [1, 2],
    "priority": [0, 4, 9, 10],
    "correlation_id": ["urn:uuid:58b867b0-8151-1f56-1bd4-73229807fd60", "ID:AMQP_ULONG:5"],
    "message_id": [
        "urn:uuid:58b867b0-8151-1f56-1bd4-73229807fd60",
        "urn:uuid:58B867B0-8151-1F56-1BD4-73229807FD60",
        "ID:AMQP_BINARY:00FF",
        "ID:AMQP_BINARY:00ff",
        "42",
    ],
    "expiration": ["60000", "007", "+5", "4294967296", "abc", "", "-1", "0"],
    "timestamp": [0, 1_700_000_000, 2**63 // 1000, 2**63 // 1000 + 1, 2**64 - 1],
    "type": ["amqp-1.0", "order"],
    "reply_to": ["amq.rabbitmq.reply-to", "a/b c"],
}


def _property_values(name: str, domain: str) -> SearchStrategy[Any]:
    if domain == "table":
        return _field_tables()
    if domain == "shortstr":
        drawn: SearchStrategy[Any] = _decoded_strings(60) | st.integers(200, 255).map(
            lambda n: "k" * n
        )
    elif domain == "octet":
        drawn = st.integers(0, 255)
    else:
        drawn = st.integers(0, 2**64 - 1)
    return st.sampled_from(_TYPICAL_VALUES[name]) | drawn if name in _TYPICAL_VALUES else drawn


def basic_properties() -> SearchStrategy[BasicProperties]:
    """Properties of class basic. Each is absent, or has any value that can be encoded.

    Example:
        >>> from hypothesis import given
        >>> from amqp10msg.basic import decode_properties, encode_properties
        >>> @given(basic_properties())
        ... def test_round_trip(properties):
        ...     assert decode_properties(encode_properties(properties)) == properties
        >>> test_round_trip()
    """
    return with_repr("basic_properties()", _basic_properties())


@functools.cache
def _basic_properties() -> SearchStrategy[BasicProperties]:
    return built(
        BasicProperties,
        {},
        {row.name: _property_values(row.name, row.domain) for row in PROPERTIES},
    )


def basic_messages() -> SearchStrategy[BasicMessage]:
    """Messages of class basic, with any body, exchange and routing key.

    Example:
        >>> from hypothesis import given
        >>> from amqp10msg.translate import to_amqp10, to_basic
        >>> @given(basic_messages())
        ... def test_nothing_is_lost(basic):
        ...     assert to_basic(to_amqp10(basic).message).message == basic
        >>> test_nothing_is_lost()
    """
    bodies = st.binary(max_size=30) | st.sampled_from(
        [
            b"\x00\x53\x77\x52\x05",
            b"\x00\x53\x77\x70\x00\x00\x00\x05",
            b"\x00\x53\x75\xa0\x01a",
            b"\x00\x53\x75\xa0\x01a\x00\x53\x75\xb0\x00\x00\x00\x01b",
            b"\x00\x53\x76\x45\x00\x53\x76\xc0\x02\x01\x41",
            b"\x00\x53\x77\x52\x05\x00\x53\x78\xc1\x01\x00",
        ]
    )
    names = st.just("") | _decoded_strings(20)

    def messages_of(
        properties: SearchStrategy[BasicProperties], body: SearchStrategy[bytes]
    ) -> SearchStrategy[BasicMessage]:
        return st.builds(
            BasicMessage,
            properties=properties,
            body=body,
            exchange=names,
            routing_key=names,
            redelivered=st.booleans(),
        )

    return with_repr(
        "basic_messages()",
        messages_of(_basic_properties(), bodies)
        | messages_of(_basic_properties().map(_with_type_amqp10), _body_sections()),
    )


def _with_type_amqp10(properties: BasicProperties) -> BasicProperties:
    return attrs.evolve(properties, type="amqp-1.0")


def _body_sections() -> SearchStrategy[bytes]:
    """The encoded body sections of AMQP 1.0 messages: any kind of body, in any encoding."""
    attributes = dict.fromkeys(kind.attribute for kind in KINDS if kind.attribute != "body")
    return messages(**attributes, body=section_bodies()).flatmap(encodings)
