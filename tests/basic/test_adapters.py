"""Properties of other libraries where this one's belong."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from amqp10msg.basic import (
    BasicMessage,
    BasicProperties,
    FieldTable,
    decode_properties,
    encode_properties,
)
from amqp10msg.basic.adapters import (
    from_pamqp,
    from_pika,
    lost_in_pamqp,
    lost_in_pika,
    plain_headers,
    to_pamqp,
    to_pika,
)
from amqp10msg.translate import to_amqp10
from tests.basic.test_basic import plain_fields

pika = pytest.importorskip("pika")
commands = pytest.importorskip("pamqp.commands")


@pytest.mark.parametrize(
    "properties, expected",
    [
        (
            pika.BasicProperties(),
            r"not pika\.spec\.BasicProperties: write BasicMessage\.from_pika\(",
        ),
        (commands.Basic.Properties(), r"write BasicMessage\.from_pamqp\("),
        ({"message_id": "m"}, "takes BasicProperties, not dict$"),
    ],
)
def test_error_for_foreign_properties_names_the_converter(properties: Any, expected: str) -> None:
    with pytest.raises(TypeError, match=expected):
        BasicMessage(properties, b"x")


def test_foreign_properties_cannot_be_translated() -> None:
    wanted = r"a BasicMessage, not pika\.spec\.BasicProperties: write BasicMessage\.from_pika\("
    with pytest.raises(TypeError, match=wanted):
        to_amqp10(pika.BasicProperties())


@given(plain_fields())
def test_adapters_write_plain_values_like_the_wire(fields: dict[str, Any]) -> None:
    """Also tuples and times, which pika itself does not write."""
    moment = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
    plain = BasicProperties(headers={**fields, "pair": (1, ("a", bytearray(b"b")))})
    plain.timestamp = moment
    came = decode_properties(encode_properties(plain))

    assert vars(to_pika(came)) == vars(to_pika(plain))
    assert dict(to_pamqp(came)) == dict(to_pamqp(plain))
    assert to_pika(plain).headers == plain_headers(plain) == plain_headers(came)
    assert lost_in_pika(came) == lost_in_pika(plain)
    assert lost_in_pamqp(came) == lost_in_pamqp(plain)


#: Integers near the ends of the ranges of all field types.
BOUNDARIES = st.builds(
    lambda bits, sign, delta: max(min(sign * 2**bits + delta, 2**63 - 1), -(2**63)),
    st.sampled_from([0, 7, 8, 15, 16, 31, 32, 63]),
    st.sampled_from([-1, 1]),
    st.integers(-1, 1),
)
#: Values that both libraries can write.
FOREIGN_VALUES = st.recursive(
    BOUNDARIES | st.booleans() | st.none() | st.text(max_size=3),
    lambda values: st.lists(values, max_size=2) | st.dictionaries(st.just("k"), values),
    max_leaves=4,
)


@given(FOREIGN_VALUES)
@example(2**15)
@example(2**16 - 1)
@example(2**31)
def test_properties_of_other_libraries_encode_like_those_libraries(value: Any) -> None:
    headers = {"k": value}
    of_pika = pika.BasicProperties(headers=headers)
    of_pamqp = commands.Basic.Properties(headers=headers)

    assert b"".join(of_pika.encode()) == encode_properties(from_pika(of_pika))
    assert of_pamqp.marshal() == encode_properties(from_pamqp(of_pamqp))


@pytest.mark.parametrize("size", [1, 127, 128, 129, 255])
def test_name_that_pamqp_cuts_is_a_loss(size: int) -> None:
    properties = BasicProperties(headers={"n" * size: "v"})
    (name,) = decode_properties(to_pamqp(properties).marshal()).headers or {}

    assert ("n" * size == name) == (not lost_in_pamqp(properties))


def test_first_of_several_fields_with_one_name_is_kept() -> None:
    headers = FieldTable.of([("k", "S", "first"), ("k", "S", "second")])
    properties = BasicProperties(headers=headers)

    assert {"k": "first"} == plain_headers(properties) == to_pika(properties).headers
    for losses in (lost_in_pika(properties), lost_in_pamqp(properties)):
        assert ["headers['k']: only the first field with this name is kept"] == losses


def test_message_without_headers_has_no_plain_headers() -> None:
    assert plain_headers(BasicProperties()) is None


@pytest.mark.parametrize("library, publish", [("pika", pika.spec), ("pamqp", commands)])
def test_method_of_a_publisher_has_exchange_and_routing_key(library: str, publish: Any) -> None:
    properties = pika.BasicProperties() if library == "pika" else commands.Basic.Properties()
    method = publish.Basic.Publish(exchange="e", routing_key="k")
    basic = getattr(BasicMessage, f"from_{library}")(properties, b"x", method)

    assert ("e", "k", False) == (basic.exchange, basic.routing_key, basic.redelivered)


def test_pika_writes_tuples_and_datetimes() -> None:
    moment = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
    given_ = BasicProperties(headers={"pair": (1, 2)}, timestamp=moment)

    octets = b"".join(to_pika(given_).encode())
    assert [1, 2] == list((decode_properties(octets).headers or {})["pair"])
    assert 1704067200 == decode_properties(octets).timestamp
