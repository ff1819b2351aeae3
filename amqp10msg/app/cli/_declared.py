"""Options of a command, made of the fields that declare them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import click

from amqp10msg.net.options import on_command_line


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
    """Add to a command the options that a class of `amqp10msg.net.options` declares.

    Those that are not given are None, or an empty map.

    Args:
        options: the class.
        before: other options, which stand before one of that name.
        only: the names of those that the command takes; all where empty.
    """
    made: list[Callable[..., Any]] = []
    for name, how in on_command_line(options):
        if only and name not in only:
            continue
        made += before.get(name, ())
        given: dict[str, Any] = {"metavar": how.metavar, "help": how.help}
        if how.default is not None:
            given |= {"default": how.default, "show_default": True}
        if how.kind is bool:
            given |= {"is_flag": True, "default": None}
        elif how.kind is dict:
            given |= {"multiple": True, "callback": _pairs}
        elif how.kind is Path:
            given["type"] = click.Path(dir_okay=False, path_type=Path)
        elif how.choices:
            given["type"] = click.Choice(how.choices)
        elif how.kind is not str:
            of_numbers: Any = click.IntRange if how.kind is int else click.FloatRange
            given["type"] = of_numbers(how.low, how.high)
        made.append(click.option(f"--{name.replace('_', '-')}", **given))

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        return functools.reduce(lambda found, add: add(found), reversed(made), command)

    return decorate
