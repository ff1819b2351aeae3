"""Options are declared once: what Python, files of routes, commands and Spark know are the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10msg.app.cli import main
from amqp10msg.net.options import RouteOptions, ServerOptions
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
    for value, error in [*wrong, (True, TypeError), (float("nan"), ValueError)]:
        with pytest.raises(error, match=f"^{field.name} must be "):
            cls(**{field.name: value})
    for value in (how.low, how.high):
        if value is not None:
            assert value == getattr(cls(**{field.name: value}), field.name)


def test_only_an_option_that_is_none_by_default_may_be_none() -> None:
    assert RouteOptions(idle=None).idle is None
    nothing: Any = None
    with pytest.raises(TypeError, match=r"^window must be a number, not None$"):
        RouteOptions(window=nothing)


def test_a_file_of_routes_knows_the_same_names(tmp_path: Path) -> None:
    path = tmp_path / "routes.toml"
    path.write_text('[[route]]\nfrom = "amqp091://a/?queue=q"\nto = "amqp://b/q"\nhook = 1\n')
    with pytest.raises(ValueError, match="'hook' is not an option") as raised:
        read_routes(path)

    known = str(raised.value).partition("use one of ")[2].split(", ")
    own = {field.name for field, _ in options_of(RouteOptions)}
    assert {*own, "filter", "filter_language"} == {*known}
    assert {"change", "match"} == {one.name for one in attrs.fields(RouteOptions)} - own


@given(
    st.builds(
        JobOptions,
        column=st.text(),
        columns=st.none() | st.lists(st.text("ab", min_size=1), min_size=1).map(tuple),
        user=st.text(),
        stream_offset=st.none() | st.integers(0),
    )
)
def test_options_of_a_job_come_back_from_spark(options: JobOptions) -> None:
    assert options == from_spark(JobOptions, {**to_spark(options), "path": "/p"})


def test_options_in_spark_have_its_way_of_names() -> None:
    names = ["column", "columns", "profile", "to", "user", "streamOffset"]
    assert names == list(names_in_spark(JobOptions))
