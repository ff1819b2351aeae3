"""Options of a command, made of the fields that declare them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import click

from amqp10msg.options import Option, options_of, shown_default


def _pairs(_: click.Context, option: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals:
            raise click.BadParameter(f"{text!r} is not {option.metavar}.")
        found[name] = value
    return found


def declared_options(
    options: type,
    before: Mapping[str, Iterable[Callable[..., Any]]] = MappingProxyType({}),
    only: Collection[str] = (),
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add to a command the options that a class declares by `amqp10msg.options`.

    Those that are not given are left out of `given_of`.

    Args:
        options: the class.
        before: other options, which stand before one of that name.
        only: the names of those that the command takes; all where empty.
    """
    made: list[Callable[..., Any]] = []
    for field, how in options_of(options):
        if how.flag is not None and (not only or field.name in only):
            made += (*before.get(field.name, ()), _option(field, how))

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        return functools.reduce(lambda found, add: add(found), reversed(made), command)

    return decorate


def _option(field: Any, how: Option) -> Callable[..., Any]:
    shown = shown_default(field, how)
    given: dict[str, Any] = {
        "metavar": how.metavar,
        "help": f"{how.help}  [default: {shown}]" if shown else how.help,
        "default": how.default,
    }
    name = field.name.replace("_", "-")
    if how.kind is bool:
        is_set = field.default is True  # then it is unset by --no-…
        name = f"no-{name}" if is_set else name
        given |= {"is_flag": True, "flag_value": not is_set}
    elif how.kind is dict:
        given |= {"multiple": True, "callback": _pairs}
    elif how.kind is tuple:
        given["multiple"] = True
    elif how.kind is Path:
        given["type"] = click.Path(dir_okay=False, path_type=Path)
    elif how.choices:
        given["type"] = click.Choice(how.choices)
    elif how.low is None:
        given["type"] = how.kind
    elif how.kind is not str:
        of_numbers: Any = click.IntRange if how.kind is int else click.FloatRange
        given["type"] = of_numbers(how.low, how.high)
    return click.option(how.flag or f"--{name}", field.name, **given)


def given_of(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that are given: without None, and what may be repeated and is not."""
    return {name: value for name, value in values.items() if value not in (None, {}, ())}
