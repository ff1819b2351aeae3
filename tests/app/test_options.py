"""Options are declared once: Python, config files, commands and Spark accept the same ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10msg import Message, Properties
from amqp10msg.app.cli import main
from amqp10msg.delivery.filters import LANGUAGES
from amqp10msg.net.bridge.options import RouteOptions
from amqp10msg.net.server_options import ServerOptions
from amqp10msg.options import (
    JobOptions,
    Option,
    from_spark,
    names_in_spark,
    options_of,
    shown_default,
    to_spark,
)

pytest.importorskip("pika", reason="routes need the extra net")

from amqp10msg.net.bridge.routes import read_routes

pytestmark = pytest.mark.once

CLASSES = {"bridge": RouteOptions, "serve": ServerOptions}
NUMBERS = [
    (cls, field, how)
    for cls in CLASSES.values()
    for field, how in options_of(cls)
    if how.kind in {int, float}
]


def params_of(name: str) -> dict[str | None, click.Parameter]:
    return {param.name: param for param in main.commands[name].params}


@pytest.mark.parametrize("name, cls", CLASSES.items())
def test_the_command_has_each_option_with_its_help(name: str, cls: type) -> None:
    params = params_of(name)
    for field, how in options_of(cls):
        assert (how.flag is not None) == (field.name in params), field.name
        if how.flag is not None:
            param: Any = params[field.name]
            shown = shown_default(field, how)
            assert how.help in param.help
            assert (f"[default: {shown}]" in param.help) == bool(shown)


@pytest.mark.parametrize("cls, field, how", NUMBERS)
def test_numbers_out_of_bounds_are_refused_by_name(
    cls: type, field: attrs.Attribute[Any], how: Option
) -> None:
    wrong: list[Any] = [(-1 << 63, ValueError), (1 << 63, ValueError), ("5", TypeError)]
    if how.kind is int:
        wrong += [(2.5, TypeError), (2.0, TypeError)]
    else:
        wrong.append((float("nan"), ValueError))
    for value, error in [*wrong, (True, TypeError)]:
        with pytest.raises(error, match=f"^{field.name} must be "):
            cls(**{field.name: value})
    for value in (how.low, how.high):
        if value is not None:
            assert value == getattr(cls(**{field.name: value}), field.name)


def test_none_is_allowed_only_if_it_is_the_default() -> None:
    assert RouteOptions(idle=None).idle is None
    nothing: Any = None
    with pytest.raises(TypeError, match=r"^window must be a whole number, not None$"):
        RouteOptions(window=nothing)


def test_config_file_accepts_the_same_option_names(tmp_path: Path) -> None:
    path = tmp_path / "routes.toml"
    path.write_text('[[route]]\nfrom = "amqp091://a/?queue=q"\nto = "amqp://b/q"\nhook = 1\n')
    with pytest.raises(ValueError, match="'hook' is not an option") as raised:
        read_routes(path)

    known = str(raised.value).partition("use one of ")[2].split(", ")
    own = {field.name for field, _ in options_of(RouteOptions)}
    assert own == {*known}
    others = {field.name for field in attrs.fields(RouteOptions) if field.init} - own
    assert {"change", "match", "waits"} == others


ROUTE = '[[route]]\nfrom = "amqp091://a/?queue=q"\nto = "amqp://b/q"\n'
#: TOML values of other types than options of each kind have.
WRONG_TYPES = {
    bool: ['"false"', "0", "[]"],
    str: ["5", "true", '["a"]'],
    Path: ["5", "true", '["a"]'],
    dict: ["5", '"full=requeue"', '["full"]'],
    int: ['"5"', "true", "[5]", "2.5"],
    float: ['"5"', "true", "[5]"],
}


@pytest.mark.parametrize(
    "name, kind", [(field.name, how.kind) for field, how in options_of(RouteOptions)]
)
def test_wrong_types_in_a_file_of_routes_are_refused_by_name(
    tmp_path: Path, name: str, kind: type
) -> None:
    path = tmp_path / "routes.toml"
    for value in WRONG_TYPES[kind]:
        path.write_text(f"{ROUTE}{name} = {value}\n")
        with pytest.raises(ValueError, match=rf"route 1: {name} must be "):
            read_routes(path)


@pytest.mark.parametrize(
    "line, text",
    [
        ('unmatched = "drop"', "unmatched must be one of accept, requeue, reject, not 'drop'"),
        ('filter-language = "xpath"', "filter_language must be one of selector, sql, oasis, topic"),
        ('filter = "a ="', "route 1: filter: "),
        ("name = 5", "name must be text, not int"),
    ],
)
def test_invalid_texts_in_a_file_of_routes(tmp_path: Path, line: str, text: str) -> None:
    path = tmp_path / "routes.toml"
    path.write_text(f"{ROUTE}{line}\n")
    with pytest.raises(ValueError, match=text):
        read_routes(path)


@pytest.mark.parametrize("value", ["5", "[5]", "true"])
def test_source_and_target_of_a_route_are_urls(tmp_path: Path, value: str) -> None:
    path = tmp_path / "routes.toml"
    path.write_text(f'[[route]]\nfrom = {value}\nto = "amqp://b/q"\n')
    with pytest.raises(ValueError, match="route 1: the source or target of a route must be a URL"):
        read_routes(path)


@pytest.mark.parametrize(
    "given", [{"until_length": "no"}, {"profile": 5}, {"on": "full"}, {"quarantine_queue": 5}]
)
def test_wrong_types_in_python_are_refused_by_name(given: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match=f"^{next(iter(given))} must be "):
        RouteOptions(**given)


def test_a_password_of_the_wrong_type_is_not_shown() -> None:
    url: Any = ["http://user:s3cr3t@h"]
    for name in ("management", "target_management", "quarantine_queue"):
        with pytest.raises(TypeError) as raised:
            RouteOptions(**{name: url})
        assert "s3cr3t" not in str(raised.value)


@pytest.mark.parametrize("language", LANGUAGES)
def test_filter_of_a_route_decides_which_messages_pass(language: str) -> None:
    texts = {
        "selector": "JMSType = 'orders.new'",
        "sql": "properties.subject = 'orders.new'",
        "oasis": "properties.subject = 'orders.new'",
        "topic": "orders.#",
        "direct": "orders.new",
    }
    predicate = RouteOptions(filter=texts[language], filter_language=language).predicate
    assert predicate is not None
    for subject, passes in (("orders.new", True), ("bills.new", False)):
        assert passes == predicate(Message(b"x", properties=Properties(subject=subject)))


def test_route_cannot_have_both_filter_and_function() -> None:
    assert RouteOptions().predicate is None
    assert RouteOptions(match=bool).predicate is bool
    assert RouteOptions(filter="a = 1") == attrs.evolve(RouteOptions(filter="a = 1"), window=1_000)
    assert RouteOptions(filter="a = 1") != RouteOptions(filter="a = 2")
    with pytest.raises(ValueError, match="filter and match are both given"):
        RouteOptions(filter="a = 1", match=bool)


@given(
    st.builds(
        JobOptions,
        column=st.text(),
        columns=st.none() | st.lists(st.text("ab", min_size=1), min_size=1).map(tuple),
        rules=st.none() | st.text(),
        rules_text=st.none() | st.text(),
        user=st.text(),
        stream_offset=st.none() | st.integers(0),
        lenient=st.booleans(),
    )
)
def test_job_options_round_trip_through_spark(options: JobOptions) -> None:
    assert options == from_spark(JobOptions, {**to_spark(options), "path": "/p"})


def test_spark_options_use_camel_case() -> None:
    names = ["column", "columns", "profile", "rules", "rulesText", "to", "user", "streamOffset"]
    assert [*names, "lenient"] == list(names_in_spark(JobOptions))


@pytest.mark.parametrize("text", ["True", "TRUE", "true", "False", "false", "1", "yes", ""])
def test_flags_in_spark_are_true_or_false(text: str) -> None:
    if text.lower() in {"true", "false"}:
        assert (text.lower() == "true") == from_spark(JobOptions, {"lenient": text}).lenient
        return
    with pytest.raises(ValueError, match=f"lenient must be true or false, got {text!r}"):
        from_spark(JobOptions, {"lenient": text})
