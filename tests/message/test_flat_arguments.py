"""Fields and bodies as arguments of `Message` and `evolve`, in place of a section."""

from __future__ import annotations

import json
from typing import Any, get_type_hints

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10msg import (
    AmqpMap,
    Data,
    EncodeError,
    Header,
    Message,
    Properties,
)
from amqp10msg.message import MessageChanges
from amqp10msg.testing import messages

TEXT = st.text(st.characters(codec="utf-8"))
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8")),
    lambda values: (
        st.lists(values) | st.dictionaries(st.text(st.characters(codec="utf-8")), values)
    ),
    max_leaves=5,
)


def fields_of(section: Any) -> dict[str, Any]:
    """Return the fields of a section that differ from their defaults."""
    return {
        field.name: value
        for field in attrs.fields(type(section))
        if (value := getattr(section, field.name)) != field.default
    }


def fields_of_both(message: Message) -> dict[str, Any]:
    return fields_of(message.header or Header()) | fields_of(message.properties or Properties())


@given(messages())
def test_fields_equal_sections(message: Message) -> None:
    flat = Message(message.body, **fields_of_both(message))

    has_properties = message.properties is not None and fields_of(message.properties)
    has_header = message.header is not None and fields_of(message.header)
    explicit = Message(
        message.body,
        header=message.header if has_header else None,
        properties=message.properties if has_properties else None,
    )
    assert explicit == flat
    assert explicit.encode() == flat.encode()


@given(messages(), messages())
def test_evolve_keeps_the_other_fields(message: Message, other: Message) -> None:
    changes = fields_of_both(other)
    evolved = message.evolve(**changes)

    for section in ("header", "properties"):
        before, after = getattr(message, section), getattr(evolved, section)
        if after is None:
            assert before is None
            continue
        for field in attrs.fields(type(after)):
            kept = field.default if before is None else getattr(before, field.name)
            assert changes.get(field.name, kept) == getattr(after, field.name)
    unchanged = Message(message.body, footer=message.footer)
    assert unchanged == Message(evolved.body, footer=evolved.footer)


def test_every_field_is_an_argument_and_an_attribute() -> None:
    names = {field.name for cls in (Header, Properties) for field in attrs.fields(cls)}
    bodies = {"json", "text", "data"}

    assert names | bodies | {*Message.__match_args__} == get_type_hints(MessageChanges).keys()
    assert all(hasattr(Message, name) for name in names)
    init = {field.alias for field in attrs.fields(Message) if not str(field.alias).startswith("_")}
    assert init == {*Message.__match_args__}


def test_none_is_the_default_of_a_field() -> None:
    assert Message(b"x") == Message(b"x", subject=None, durable=None)
    message = Message(b"x", subject="s", ttl=5, durable=True)

    evolved = message.evolve(subject=None, durable=None)
    assert (Properties(), Header(ttl=5)) == (evolved.properties, evolved.header)
    assert Message(b"x") == Message(b"x").evolve(subject=None, durable=None)


@given(JSON)
def test_json_is_compact_utf_8(value: Any) -> None:
    message = Message(json=value, subject="s")

    assert "application/json" == message.content_type
    assert value == message.json()
    assert (
        json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode() == message.content()
    )


@pytest.mark.parametrize(
    "arguments, octets, content_type",
    [
        ({"json": None}, b"null", "application/json"),
        ({"json": 1, "content_type": "application/x+json"}, b"1", "application/x+json"),
        ({"text": "é"}, b"\xc3\xa9", "text/plain; charset=utf-8"),
        ({"text": "é", "content_type": None}, b"\xc3\xa9", "text/plain; charset=utf-8"),
        ({"text": "é", "content_type": "text/html"}, b"\xc3\xa9", "text/html"),
        (
            {"text": "é", "content_type": 'text/html; charset="latin-1"'},
            b"\xe9",
            'text/html; charset="latin-1"',
        ),
        ({"data": b"\xff"}, b"\xff", None),
        ({"data": bytearray(b"x"), "content_type": "image/png"}, b"x", "image/png"),
        ({"data": b"x", "properties": Properties(content_type="a/b")}, b"x", "a/b"),
    ],
)
def test_bodies(arguments: dict[str, Any], octets: bytes, content_type: str | None) -> None:
    message = Message(**arguments)

    assert (Data(octets), content_type) == (message.body, message.content_type)
    assert message == Message("y").evolve(**arguments)


def test_new_body_is_not_encoded() -> None:
    compressed = Message(text="x" * 99, subject="s").compressed("gzip")
    assert "gzip" == compressed.content_encoding

    assert Message(text="y", subject="s") == compressed.evolve(text="y")
    assert "gzip" == compressed.evolve(data=b"y").content_encoding


def test_other_sections_keep_their_bytes() -> None:
    # The subject is a str32, which is not the smallest encoding.
    wire = bytes.fromhex("00 53 73 c0 0a 04 40 40 40 b1 00 00 00 01 73 00 53 75 a0 01 78")
    message = Message.decode(wire)

    assert wire == message.evolve(subject="s").encode()
    assert wire in message.evolve(durable=True).encode()


@pytest.mark.parametrize(
    "arguments, text",
    [
        (
            {"subject": "s", "properties": Properties()},
            r"a field of the properties, .*: write properties=Properties\(subject='s'\)",
        ),
        ({"ttl": 1, "header": Header()}, r"write header=Header\(ttl=1\)"),
        ({"json": 1, "text": "1"}, "one body: pass json or text, not both"),
        ({"data": b"1", "body": b"1"}, "one body: pass data or body, not both"),
        ({"json": 1, "properties": Properties()}, "json sets the content-type, and the properties"),
        (
            {"text": "1", "content_encoding": "gzip"},
            r"not compressed, .*: use Message\(text=\.\.\.\)\.compressed\('gzip'\)",
        ),
        ({"text": b"1"}, "text must be a str, not bytes"),
        ({"data": "1"}, "data must be bytes, not str"),
        ({"json": {1, 2}}, "not JSON serializable"),
        ({"subjct": "s"}, r"a Message takes no subjct: did you mean subject\?"),
        ({"jsn": 1}, r"a Message takes no jsn: did you mean json\?"),
        ({"zzz": 1}, "takes no zzz: it takes body, properties, .*, json, text, data"),
    ],
)
def test_invalid_combinations_are_errors(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(TypeError, match=text):
        Message(**arguments)
    with pytest.raises(TypeError, match=text):
        Message().evolve(**arguments)


@pytest.mark.parametrize(
    "arguments, text",
    [
        ({"ttl": "5"}, "header.ttl: must be uint, not '5'"),
        ({"subject": 5}, "properties.subject"),
        (
            {"text": "é", "content_type": "text/plain; charset=ascii"},
            "body: character 0 cannot be encoded in ascii",
        ),
        (
            {"text": "é", "content_type": "text/plain; charset=none"},
            "properties.content-type: unknown charset 'none'",
        ),
        (
            {"text": "é", "content_type": "text/plain; charset=undefined"},
            "body: the text cannot be encoded in undefined",
        ),
        ({"json": "\ud800"}, "body: character 1 cannot be encoded in utf-8"),
    ],
)
def test_invalid_values_are_errors(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(EncodeError, match=text):
        Message(**arguments)


def test_not_a_number_is_not_json() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        Message(json=float("nan"))


def test_section_of_another_class_has_no_fields() -> None:
    message = Message("v", subject="s")
    message.properties = AmqpMap([("subject", "s")])  # type: ignore[assignment]

    with pytest.raises(TypeError, match=r"AmqpMap: pass properties=Properties\(\.\.\.\)"):
        message.evolve(subject="t")
    assert Message("v", subject="t") == message.evolve(properties=Properties(subject="t"))
