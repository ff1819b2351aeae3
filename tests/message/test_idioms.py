"""What Python does with a message: patterns, copies with changes, what is shown of it."""

from __future__ import annotations

import copy
import html
import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from html.parser import HTMLParser
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import amqp10msg
from amqp10msg import (
    AmqpMap,
    AmqpSequence,
    AmqpValue,
    Array,
    Data,
    Described,
    Header,
    Message,
    Properties,
    Symbol,
    UInt,
    scan,
    validate,
)
from amqp10msg.basic import BasicMessage, BasicProperties
from amqp10msg.delivery import Error, Rejected
from amqp10msg.testing import bodies, encodings, malformed, messages, sections, values
from amqp10msg.translate import to_amqp10, to_basic
from amqp10msg.wire.reprs import html_table, short_repr
from tests.effort import calls

any_octets = messages(body=st.none() | bodies()).flatmap(encodings)
SECTIONS = ("header", "properties", "application_properties", "footer")
LARGE = 100_000


# Patterns and copies.


def test_match_statement_on_a_message() -> None:
    match Message("x", properties=Properties(to="q"), application_properties={"a": 1}):
        case Message(AmqpValue(str(text)), Properties(to=to), {"a": number}):
            assert ("x", "q", 1) == (text, to, number)
        case _:
            pytest.fail("no match")


def test_match_args_are_all_public_fields() -> None:
    public = {field.name for field in attrs.fields(Message) if not field.name.startswith("_")}

    assert public == set(Message.__match_args__)
    assert ("body", "properties", "application_properties") == Message.__match_args__[:3]


@given(any_octets | malformed(), st.data())
def test_copy_replace_equals_evolve(octets: bytes, data: st.DataObject) -> None:
    try:
        message = Message.decode(octets, strict=False, message_format=7)
    except amqp10msg.DecodeError:
        return
    name = data.draw(st.sampled_from(SECTIONS))
    changes: dict[str, Any] = {name: data.draw(st.none() | sections(name))}
    expected = message.evolve(**changes)

    ways = [attrs.evolve(message, **changes), message.__replace__(**changes)]
    if sys.version_info >= (3, 13):
        ways.append(copy.replace(message, **changes))
    for made in ways:
        assert expected == made
        assert (7, message.violations) == (made.message_format, made.violations)
        assert expected.encode() == made.encode()
        assert octets == attrs.evolve(message).encode()


def test_a_misspelled_change_is_refused() -> None:
    with pytest.raises(TypeError, match=r"takes no propertys: did you mean properties\?"):
        Message().evolve(propertys=None)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="propertys"):
        attrs.evolve(Message(), propertys=None)  # type: ignore[call-arg]


# What is shown.


@given(values(max_leaves=10))
def test_repr_of_a_short_value_is_complete(value: Any) -> None:
    whole = repr(value)
    if len(whole) < 150:
        assert whole == short_repr(value)


@given(messages(body=st.none() | bodies()))
def test_a_repr_is_bounded_and_names_the_sections(message: Message) -> None:
    shown = repr(message)

    assert len(shown) <= 4_010
    if len(shown) < 4_000:
        named = [name for name in Message.__match_args__[:-1] if getattr(message, name) is not None]
        assert all(f"{name}=" in shown for name in named)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Data(b"x" * LARGE),
        lambda: Data(memoryview(bytearray(LARGE))),
        lambda: AmqpValue("x" * LARGE),
        lambda: AmqpValue(Symbol("x" * LARGE)),
        lambda: AmqpValue([1] * LARGE),
        lambda: AmqpValue(AmqpMap((UInt(number), b"") for number in range(LARGE))),
        lambda: AmqpValue(dict.fromkeys(range(LARGE), "x")),
        lambda: AmqpValue(Array("int", [1] * LARGE)),
        lambda: AmqpValue(Described(Symbol("x"), "x" * LARGE)),
        lambda: AmqpSequence([[b"x" * LARGE] * 1_000]),
        lambda: Properties(subject="x" * LARGE, user_id=b"x" * LARGE),
    ],
)
def test_repr_of_a_large_value_is_fast(make: Callable[[], Any]) -> None:
    large = make()  # here, and not by every process that only collects
    body = large if not isinstance(large, Properties) else None
    properties = large if body is None else None
    message = Message(body, properties=properties)

    for thing in (large, message):
        assert len(repr(thing)) <= 4_010
        assert calls(partial(repr, thing)) < 50_000


def test_cut_repr_contains_the_length() -> None:
    assert repr(Data(b"x" * LARGE)) == f"Data(data={b'x' * 200!r}... (100,000 bytes))"
    assert repr(AmqpValue("x" * 1_001)).endswith("xxx'... (1,001 characters))")


def test_recursive_value_has_a_repr() -> None:
    endless: list[Any] = []
    endless.append(endless)
    table: dict[str, Any] = {}
    table["k"] = [Described(Symbol("d"), AmqpMap([(1, table)])), (endless,)]

    assert "..." in repr(AmqpValue(endless))
    assert "..." in repr(Message(table))


def packed(text: str) -> str:
    return re.sub(r",(?=[)\]}])", "", re.sub(r"\s", "", text))


def test_rich_output_matches_repr() -> None:
    pretty = pytest.importorskip("rich.pretty")
    message = Message(
        b"x" * LARGE, header=Header(ttl=5), properties=Properties(to="q"), message_format=16
    )
    (violation,) = validate(Message("x", message_annotations={"a": 1}))
    translation = to_amqp10(BasicMessage(BasicProperties(app_id="a"), b"x" * LARGE))
    back = to_basic(Message(b"", properties=Properties(subject="s" * LARGE)), "rabbitmq-4.3")

    for thing in (
        message,
        violation,
        translation,
        back.losses[0],
        Properties(to="q"),
        Data(b"x" * LARGE),
    ):
        assert packed(repr(thing)) == packed(pretty.pretty_repr(thing))
        assert len(repr(thing)) < 2_000
    assert "header=Header(ttl=5)" in repr(message)
    assert "rule='annotation-key-reserved'" in repr(violation)


class Tags(HTMLParser):
    """The tags of a piece of HTML, with their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, given: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(given)))

    def handle_data(self, data: str) -> None:
        self.text += data


@settings(max_examples=20)
@given(
    st.sampled_from(["</table><script>alert(1)</script>", "\"' onload=alert(1) x='", "&quot;>"])
    | st.text(max_size=15),
    messages(),
)
def test_a_notebook_shows_a_message_as_a_small_table(text: str, message: Message) -> None:
    hostile = Message(
        text, properties=Properties(subject=text), application_properties={text: text}
    )
    for shown in (hostile, message):
        found = Tags(shown._repr_html_())

        assert {"table", "caption", "tr", "th", "td", "p"} >= {tag for tag, _ in found.tags}
        assert {"style"} >= {name for _, attributes in found.tags for name in attributes}
        assert found.text.isprintable()
    assert Tags(hostile._repr_html_()).text.count(repr(text)) == 4


def test_the_table_of_a_message_names_sections_fields_and_values() -> None:
    message = Message(
        [Data(b"a"), Data(b"b")],
        header=Header(priority=3),
        delivery_annotations={},
        properties=Properties(to="queue"),
        footer={"x-sum": 1},
        message_format=7,
    )
    cells = [text.strip() for text in re.findall(r"<t[hd][^>]*>([^<]*)", message._repr_html_())]

    assert "Message, message-format 0x7" in message._repr_html_()
    assert [html.unescape(cell) for cell in cells] == [
        *("section", "field", "value"),
        *("header", "priority", "3"),
        *("delivery-annotations", "", ""),
        *("properties", "to", "'queue'"),
        *("data", "", "b'a'"),
        *("data", "", "b'b'"),
        *("footer", "'x-sum'", "1"),
    ]


def test_the_table_of_a_message_needs_neither_the_notation_nor_pages() -> None:
    program = (
        "import sys\n"
        "from amqp10msg import Message\n"
        "assert '<table>' in Message(object())._repr_html_()\n"
        "print(*sorted(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, text=True
    )

    assert not {"amqp10msg.notation", "amqp10msg.pages", "jinja2"} & {*done.stdout.split()}


@settings(max_examples=20)
@given(
    st.sampled_from(["</td><script>alert(1)</script>", "<img src=x onerror=alert(1)>", "&quot;>"])
    | st.text()
)
def test_notebook_table_of_translation_losses(text: str) -> None:
    made = to_basic(Message(b"", footer={Symbol("x-"): text, Symbol("x-b"): 1}), "rabbitmq-4.3")
    found = Tags(made._repr_html_())

    assert {"table", "caption", "tr", "th", "td", "pre"} == {tag for tag, _ in found.tags}
    assert {"style"} >= {name for _, given_ in found.tags for name in given_}
    for loss in made.losses:
        assert all(words in found.text for words in (loss.path, loss.action, loss.reason))
    assert repr(made.message) in found.text


HOSTILE = st.sampled_from(
    ["</td><script>alert(1)</script>", "<img src=x onerror=alert(1)>", "&quot;>", "\u202e"]
)


@settings(max_examples=20)
@given(HOSTILE | st.text(max_size=150), st.integers(0, 9))
def test_a_notebook_shows_parts_as_small_tables(text: str, octet: int) -> None:
    properties = Properties(subject=text, to="queue")
    message = Message(b"x", properties=properties, application_properties={text: 1})
    data = message.encode()
    broken = validate(data + bytes([octet]))
    empty: Any = Properties()
    shown: Any
    for shown, cells in (
        (scan(data), ["properties", "application-properties", "data"]),
        (properties, ["subject", "to", "'queue'"]),
        (Rejected(Error("amqp:not-found", text)), ["error"]),
        (broken, [one.text[:100] for one in broken]),
    ):
        made = shown._repr_html_()
        found = Tags(made)
        assert {"table", "caption", "tr", "th", "td"} == {tag for tag, _ in found.tags}
        assert {"style"} >= {name for _, given_ in found.tags for name in given_}
        assert len(made) < 6_000
        assert [] == [cell for cell in cells if cell not in found.text]
        assert found.text.isprintable()
    assert broken == list(broken)
    assert "<p>Properties: no field is set</p>" == empty._repr_html_()


def test_notebook_text_without_violations() -> None:
    found: Any = validate(Message("x"))

    assert [] == found
    assert "<p>No rule is broken.</p>" == found._repr_html_()


def test_long_html_table_counts_omitted_rows() -> None:
    rows = [(str(number), "x" * 300) for number in range(1_102)]
    found = Tags(html_table("Rows", ("number", "text"), rows))

    assert found.text.startswith("Rows; 1,002 more rows are not shown")
    assert 101 == [tag for tag, _ in found.tags].count("tr")
    assert f"0{'x' * 200}…1" in found.text


def test_a_notebook_shows_the_table_of_a_translated_message() -> None:
    made = to_amqp10(BasicMessage(BasicProperties(), b"x"))
    found = Tags(made._repr_html_())

    assert ["p", "table", "caption"] == [tag for tag, _ in found.tags][:3]
    assert found.text.startswith("Nothing was lost.Message")


def public_exceptions() -> Iterator[type[BaseException]]:
    for found in pkgutil.walk_packages(amqp10msg.__path__, "amqp10msg."):
        if any(part.startswith("_") for part in found.name.split(".")):
            continue
        try:
            module = importlib.import_module(found.name)
        except ImportError:
            continue  # an extra that is not installed
        for name in getattr(module, "__all__", ()):
            value = getattr(module, name)
            if inspect.isclass(value) and issubclass(value, BaseException):
                yield value


def test_exceptions_have_their_public_module() -> None:
    found = set(public_exceptions())

    assert {amqp10msg.DecodeError, amqp10msg.EncodeError} <= found
    for exception in found:
        assert "._" not in exception.__module__, exception
        module = importlib.import_module(exception.__module__)
        assert exception is getattr(module, exception.__name__)
