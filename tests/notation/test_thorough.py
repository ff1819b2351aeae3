"""Plain JSON at once, each value visited once, says what the thorough way says."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10msg import DecodeError, Message, decode_value, encode_value
from amqp10msg.notation import (
    NotationError,
    from_plain,
    to_plain,
    value_from_plain,
)
from amqp10msg.testing import encodings, messages, mutated, values
from amqp10msg.wire.limits import UNLIMITED

# Not as attributes of the package: its functions have some of their names.
plain = importlib.import_module("amqp10msg.notation.plain")
plain_writer = importlib.import_module("amqp10msg.notation._plain_writer")


def thoroughly(call: Callable[[Any], Any], given: Any) -> Any:
    """Return the outcome of a call that has nothing done at once."""

    def none(*_: Any) -> None:
        return None

    def written(octets: bytes) -> Any:
        return plain_writer.generic(decode_value(octets, limits=UNLIMITED))

    with (
        mock.patch.object(plain, "plain_message", none),
        mock.patch.object(plain, "plain_octets", written),
        mock.patch.object(plain, "octets_of_message", none),
        mock.patch.object(plain, "octets_of_value", none),
    ):
        return outcome(call, given)


def outcome(call: Callable[[Any], Any], given: Any) -> Any:
    """Return what a call gives, down to the bytes, the types and their order; or its error."""
    try:
        made = call(given)
    except (NotationError, DecodeError) as error:
        return type(error), str(error)
    if isinstance(made, Message):
        return made.encode(), type(made.message_format), made.message_format, made.violations
    return json.dumps(made) if call is to_plain else encode_value(made)


@given(values())
def test_values_are_written_in_plain_json_as_thoroughly(value: Any) -> None:
    assert thoroughly(to_plain, value) == outcome(to_plain, value)


@given(st.data())
def test_messages_are_written_in_plain_json_as_thoroughly(data: st.DataObject) -> None:
    message = Message.decode(
        data.draw(messages().flatmap(encodings)), message_format=data.draw(st.integers(0, 3))
    )
    assert thoroughly(to_plain, message) == outcome(to_plain, message)


@given(messages().flatmap(encodings).flatmap(mutated))
def test_messages_that_break_rules_are_written_in_plain_json_as_thoroughly(octets: bytes) -> None:
    try:
        message = Message.decode(octets, strict=False)
    except DecodeError:
        return
    assert thoroughly(to_plain, message) == outcome(to_plain, message)


def compound(code: int, *items: str) -> str:
    """A list, map or array of up to 255 bytes, in hex."""
    octets = "".join(items).replace(" ", "")
    return bytes((code, 1 + len(octets) // 2, len(items))).hex() + octets


@pytest.mark.parametrize(
    "octets",
    [
        "005377" + compound(0xC1, "54 00", "40", "54 01", "40"),  # keys that are no strings
        "005377" + compound(0xC1, "a3 01 61", "41"),
        "005377" + compound(0xC1, "a1 02 24 61", "41", "a1 01 62", "41"),  # $a
        "005377" + compound(0xC1, "b1 00 00 00 02 24 61", "41"),
        "005377" + compound(0xC1, "a1 01 62", "41", "a1 02 24 61", "41"),
        "005377" + compound(0xC1, "a1 01 62", "41", "a3 01 62", "41"),
        "005377" + compound(0xC1, "a1 00", "a1 00"),
        "005377" + compound(0xC1, "a1 01 61", "41", "a1 01 61", "42"),  # one key twice
        "005377" + compound(0xC0, compound(0xC1, "a1 01 61", "41", "44", "42")),
        "005377" + compound(0xE0, "a1 01 61"),
        "005377 72 7fc00001",
        "005377 82 7ff0000000000000",
        "005377 82 7ff8000000000001",
        "005377 83 7fffffffffffffff",
        "005377 83 8000000000000000",
        "005377 00 53 24 45",
        "005377 00 a3 01 61 45",
        "005374" + compound(0xC1, "a1 01 61", "41", "a3 01 61", "41"),
        "005374" + compound(0xC1, "a1 01 61", "41", "a1 01 61", "41"),
        "005374" + compound(0xC1, "a1 01 61", "45"),
        "005374" + compound(0xC1, "a1 01 61", compound(0xC0, "41")),
        "005374" + compound(0xC1, "a1 01 61", "00 a3 01 61 41"),
        "005374" + compound(0xC1, "a1 02 24 61", "41"),
        "005372" + compound(0xC1, "44", "41", "53 05", "41"),
        "005372" + compound(0xC1, "a3 01 61", "41", "53 05", "41"),
        "005372" + compound(0xC1, "a1 01 61", "41"),
        "005370" + compound(0xC0, "55 01"),
        "005370" + compound(0xC0, "41", "40", "40", "40", "40", "40"),
        "005370" + compound(0xC0, "40", "40"),
        "005373" + compound(0xC0, "40", "40", "45"),
        "005373" + compound(0xC0, "98" + 16 * "0f", "a0 01 00"),
        "005373" + compound(0xC0, "a0 01 61", "40", "40", "40", "40", "80 00000001 00000000"),
        "005375 a3 01 61",
        "005375 a0 01 41 005370 45",
        "005375 a0 01 41 005375 a0 01 41",
        "005375 a0 01 41 005377 40",
        "005376 45 005378" + compound(0xC1),
        "00 a3 11" + b"amqp:header:list\0"[:17].hex() + "45",
        "00 a3 10" + b"amqp:header:list".hex() + "45",
        "00 53 79 45",
        "41",
    ],
)
def test_odd_messages_are_written_in_plain_json_as_thoroughly(octets: str) -> None:
    message = Message.decode(bytes.fromhex(octets), strict=False)
    assert thoroughly(to_plain, message) == outcome(to_plain, message)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(2**33), 2**33)
    | st.floats()
    | st.floats(width=32)
    | st.text(max_size=4)
    | st.text("$/=AZaz09é\ud800", max_size=4)
    | st.datetimes().map(lambda moment: moment.isoformat() + "Z"),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text("a$", max_size=2), inner, max_size=3)
        | st.tuples(
            st.sampled_from(
                [
                    *("$null", "$boolean", "$ubyte", "$ushort", "$uint", "$ulong", "$byte"),
                    *("$short", "$int", "$long", "$float", "$double", "$decimal64", "$char"),
                    *("$timestamp", "$uuid", "$binary", "$string", "$symbol", "$list", "$map"),
                    *("$array", "$described", "$base64", "$hex", "$accepted", "$error", "$other"),
                ]
            ),
            inner,
        ).map(lambda pair: {pair[0]: pair[1]})
    ),
    max_leaves=8,
)
FIELDS = st.dictionaries(
    st.sampled_from(
        [
            *("durable", "priority", "ttl", "delivery_count", "delivery-count", "message_id"),
            *("user_id", "to", "correlation_id", "content_type", "creation-time", "other"),
        ]
    ),
    JSON,
    max_size=4,
)


@given(JSON)
def test_values_are_read_from_plain_json_as_thoroughly(given: Any) -> None:
    assert thoroughly(value_from_plain, given) == outcome(value_from_plain, given)


@given(
    st.dictionaries(
        st.sampled_from(
            [
                *("header", "delivery_annotations", "message_annotations", "message-annotations"),
                *("properties", "application_properties", "data", "amqp_sequence", "amqp_value"),
                *("footer", "body", "message_format", "sections", "other"),
            ]
        ),
        JSON | FIELDS | st.dictionaries(st.text(max_size=3), JSON, max_size=3),
        max_size=4,
    )
)
def test_messages_are_read_from_plain_json_as_thoroughly(given: Any) -> None:
    assert thoroughly(from_plain, given) == outcome(from_plain, given)


@given(st.data())
def test_changed_messages_are_read_from_plain_json_as_thoroughly(data: st.DataObject) -> None:
    made = to_plain(data.draw(messages()))
    place = made
    # One value at any depth becomes another.
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        if not keys:
            break
        key = data.draw(st.sampled_from(keys))
        if not isinstance(place[key], (dict, list)) or data.draw(st.booleans()):
            place[key] = data.draw(JSON)
            break
        place = place[key]
    assert thoroughly(from_plain, made) == outcome(from_plain, made)


@pytest.mark.parametrize("levels", [120, 126, 127, 128, 129, 254, 255, 256, 257, 258])
@pytest.mark.parametrize("inner", [1, [], {}, {"$uint": 1}, {"$map": []}])
def test_as_deep_as_thoroughly(levels: int, inner: Any) -> None:
    lists, markers = inner, inner
    for _ in range(levels):
        lists, markers = [lists], {"$list": [markers]}
    for deep in (lists, markers):
        thorough = thoroughly(value_from_plain, deep)
        # At once it may need less of the interpreter's stack.
        if "interpreter" not in str(thorough):
            assert thorough == outcome(value_from_plain, deep)
