"""Arguments of wrong types raise an error that names the argument, not a traceback from inside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from amqp10msg import (
    Array,
    ContentError,
    Message,
    basic,
    decode_value,
    decode_values,
    delivery,
    notation,
    scan,
    validate,
)
from amqp10msg.basic import BasicProperties, adapters
from amqp10msg.composite import decode_composite
from amqp10msg.delivery import filters

Call = Callable[[Any], object]
WRONG = (7, "text", [1], {"k": 1}, 1.5)

PROPERTIES: dict[str, Call] = {
    "to_pika": adapters.to_pika,
    "to_pamqp": adapters.to_pamqp,
    "from_pika": adapters.from_pika,
    "from_pamqp": adapters.from_pamqp,
    "lost_in_pika": adapters.lost_in_pika,
    "lost_in_pamqp": adapters.lost_in_pamqp,
    "encode_properties": basic.encode_properties,
    "check_properties": basic.check_properties,
}


@pytest.mark.parametrize("wrong", WRONG, ids=repr)
@pytest.mark.parametrize("name", PROPERTIES)
def test_properties(name: str, wrong: Any) -> None:
    if "pika" in name or "pamqp" in name:
        pytest.importorskip(name.rpartition("_")[2])
    with pytest.raises(TypeError, match=rf"the argument properties of {name} takes"):
        PROPERTIES[name](wrong)


LIMITED: dict[str, Call] = {
    "Message.decode": lambda limits: Message.decode(b"", limits=limits),
    "Message.decode, lenient": lambda limits: Message.decode(b"", limits=limits, strict=False),
    "decode_value": lambda limits: decode_value(b"\x40", limits=limits),
    "decode_values": lambda limits: list(decode_values(b"\x40", limits=limits)),
    "scan": lambda limits: list(scan(b"", limits=limits)),
    "validate": lambda limits: validate(b"", limits=limits),
    "decode_composite": lambda limits: decode_composite(b"\0\x53\x24\x45", limits=limits),
    "delivery.decode": lambda limits: delivery.decode(b"\0\x53\x24\x45", limits=limits),
    "decode_properties": lambda limits: basic.decode_properties(b"\0\0", limits=limits),
    "decode_table": lambda limits: basic.decode_table(b"\0\0\0\0", limits=limits),
}


@pytest.mark.parametrize("wrong", WRONG, ids=repr)
@pytest.mark.parametrize("name", LIMITED)
def test_limits(name: str, wrong: Any) -> None:
    with pytest.raises(TypeError, match="limits must be a Limits or None, not "):
        LIMITED[name](wrong)


DIALECTS: dict[str, Call] = {
    "decode_properties": lambda dialect: basic.decode_properties(b"\0\0", dialect=dialect),
    "decode_table": lambda dialect: basic.decode_table(b"\0\0\0\0", dialect=dialect),
    "encode_properties": lambda dialect: basic.encode_properties(
        BasicProperties(), dialect=dialect
    ),
    "encode_table": lambda dialect: basic.encode_table({}, dialect=dialect),
    "encode_field": lambda dialect: basic.encode_field("t", True, dialect=dialect),
}


@pytest.mark.parametrize("wrong", [7, "amqp", None, ()], ids=repr)
@pytest.mark.parametrize("name", DIALECTS)
def test_dialect(name: str, wrong: Any) -> None:
    with pytest.raises(ValueError, match=r"dialect .*: use (one of )?rabbitmq, spec, qpid"):
        DIALECTS[name](wrong)


@pytest.mark.parametrize("wrong", [7, [1], {"k": 1}, 1.5], ids=repr)
def test_profile(wrong: Any) -> None:
    with pytest.raises(TypeError, match="profile must be a name or a Profile, not "):
        validate(b"", wrong)


@pytest.mark.parametrize("wrong", [["a"], {"k": 1}, None, 1.0, b"int"], ids=repr)
def test_constructor_of_an_array(wrong: Any) -> None:
    with pytest.raises(TypeError, match="the constructor of an Array must be the name of a type"):
        Array(wrong)


@pytest.mark.parametrize("wrong", [7, "text", [1], None], ids=repr)
def test_data_of_a_tree(wrong: Any) -> None:
    with pytest.raises(TypeError, match="parse_tree takes a Message or bytes, not "):
        notation.parse_tree(wrong)


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity", '{"a": [NaN]}'])
def test_json_has_no_special_numbers(text: str) -> None:
    with pytest.raises(ContentError, match="is not a JSON number"):
        Message(text.encode()).json()


@pytest.mark.parametrize("library", ["pika", "pamqp"])
@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 2**70])
def test_header_integer_beyond_64_bits_is_refused(library: str, number: int) -> None:
    module = pytest.importorskip("pika" if library == "pika" else "pamqp.commands")
    cls = module.BasicProperties if library == "pika" else module.Basic.Properties
    with pytest.raises(ValueError, match="needs more than 64 bits"):
        getattr(adapters, f"from_{library}")(cls(headers={"k": [number]}))


def test_decoding_with_the_abstract_class_of_filters() -> None:
    with pytest.raises(TypeError, match="Filter is abstract"):
        filters.Filter.decode(b"\x40")


@pytest.mark.parametrize("separator", ["-", "", None, "::"])
def test_separator_of_cloudevents(separator: Any) -> None:
    cloudevents = pytest.importorskip("cloudevents.core.v1.event")
    from amqp10msg.interop.systems.cloudevents import to_message  # noqa: PLC0415

    event = cloudevents.CloudEvent(
        {"id": "1", "source": "/s", "type": "t", "specversion": "1.0"}, b"data"
    )
    with pytest.raises(ValueError, match=r"the separator must be '_' or ':', not "):
        to_message(event, separator=separator)
