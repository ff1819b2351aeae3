"""Fields of header and properties, and the body, as attributes of the message."""

from __future__ import annotations

import datetime
import types
import uuid
from collections.abc import Callable
from typing import Any, get_args, get_origin, get_type_hints

import attrs
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10msg import (
    AmqpSequence,
    AmqpValue,
    ContentError,
    Data,
    Header,
    Message,
    Properties,
    UInt,
    encode_value,
)
from amqp10msg.message import Shortcut
from amqp10msg.testing import bodies, messages, values

FIELDS = [(cls, field.name) for cls in (Header, Properties) for field in attrs.fields(cls)]


@given(messages())
def test_field_shortcut_equals_the_sections_field(message: Message) -> None:
    for cls, name in FIELDS:
        section = getattr(message, cls.__name__.lower())
        expected = None if section is None else getattr(section, name)

        assert expected is getattr(message, name)


@given(messages(), st.sampled_from([None, "none", 0]))
def test_entry_shortcuts_with_missing_sections(message: Message, default: Any) -> None:
    before = message.encode()
    for read, entries in (
        (message.application_property, message.application_properties),
        (message.message_annotation, message.message_annotations),
        (message.delivery_annotation, message.delivery_annotations),
        (message.footer_entry, message.footer),
    ):
        for key, value in (entries or {}).items():
            assert value is read(key, default)
        assert default is read("x-opt-no-such-entry-at-all", default)

    # Reading adds no section, and what is absent stays something else than what is empty.
    assert before == message.encode() == Message.decode(before).encode()


@pytest.mark.parametrize(
    "section", ["application_properties", "message_annotations", "delivery_annotations", "footer"]
)
@pytest.mark.parametrize("entries", [None, {}, {"x-opt-a": 1}])
def test_absent_and_empty_sections_differ(section: str, entries: dict[str, int] | None) -> None:
    given_: Any = {section: entries}
    message = Message.decode(Message("x", **given_).encode())
    names = {
        "application_properties": "application_property",
        "footer": "footer_entry",
    }
    read = getattr(message, names.get(section, section.removesuffix("s")))

    assert (entries or {}).get("x-opt-a") == read("x-opt-a")
    assert entries == getattr(message, section)
    assert (entries is not None) == (section.replace("_", "-") in dict(message.sections()))


def plain_types(hint: Any) -> set[Any]:
    """The classes of a type without its annotations and None."""
    origin = get_origin(hint)
    if origin is types.UnionType or str(origin) == "typing.Union":
        return set().union(*map(plain_types, get_args(hint))) - {type(None)}
    return {hint}


@pytest.mark.parametrize("cls, name", FIELDS)
def test_a_shortcut_has_the_type_of_the_declaration(cls: Any, name: str) -> None:
    shortcut = getattr(Message, name)
    own: Any = shortcut
    declared = plain_types(get_type_hints(cls)[name])

    assert isinstance(shortcut, Shortcut)
    assert declared == plain_types(get_args(own.__orig_class__)[0])


def test_shortcuts_work_on_lenient_messages() -> None:
    message = Message.decode(bytes.fromhex("0053734100537740"), strict=False)

    assert message.message_id is None
    assert message.value is None


@pytest.mark.parametrize(
    "body, expected",
    [
        (None, None),
        (b"x", b"x"),
        (Data(bytearray(b"x")), b"x"),
        ("text", "text"),
        (AmqpValue(None), None),
        (AmqpValue(UInt(5)), UInt(5)),
        ({"count": 1}, {"count": 1}),
        (AmqpSequence([1, "a"]), [1, "a"]),
        ([Data(b"a")], None),
    ],
)
def test_the_body_is_a_value(body: Any, expected: Any) -> None:
    message = Message(body)
    if isinstance(message.body, list):
        with pytest.raises(ContentError, match=r"1 sections: message\.body lists them, body_bytes"):
            _ = message.value
    else:
        assert (type(expected), expected) == (type(message.value), message.value)


@given(
    values(max_leaves=5)
    | st.text()
    | st.binary()
    | st.just("[1]")
    | st.binary().map(bytearray)
    | bodies(),
    st.sampled_from([None, "gzip"]),
)
def test_assigned_body_reads_like_a_constructed_body(body: Any, coding: str | None) -> None:
    properties = Properties(content_encoding=coding)
    built, assigned = Message(body, properties=properties), Message(properties=properties)
    assigned.body = body

    def said(read: Callable[[Message], Any], message: Message) -> Any:
        try:
            return encode_value(read(message))
        except (ContentError, msgspec.ValidationError, msgspec.DecodeError, ValueError) as error:
            return type(error)

    reads: list[Callable[[Message], Any]] = [
        *(lambda m: m.value, Message.text, Message.json, Message.content),
        lambda m: m.decoded(list),
    ]
    for read in reads:
        assert said(read, built) == said(read, assigned)


@pytest.mark.parametrize("value", [b"x", "text", [1], None])
def test_setting_value_suggests_setting_body(value: Any) -> None:
    message = Message("x")
    with pytest.raises(AttributeError, match=r"^message\.value is read-only: set message\.body"):
        message.value = value  # type: ignore[misc]

    assert "x" == message.value


def test_several_sections_are_named() -> None:
    with pytest.raises(ContentError, match=r"the body has 2 sections: message\.body lists them$"):
        _ = Message([AmqpSequence([1]), AmqpSequence([2])]).value


def test_id_and_time_shortcuts_of_every_type() -> None:
    moment = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    own = Properties(message_id=uuid.UUID(int=1), correlation_id=b"c", creation_time=moment)
    message = Message(properties=own)

    assert (uuid.UUID(int=1), b"c") == (message.message_id, message.correlation_id)
    assert own.creation_time == message.creation_time
