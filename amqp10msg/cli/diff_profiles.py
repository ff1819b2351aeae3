"""``amqp10msg diff-profiles``: what each bridge would make of the same message, side by side."""

from __future__ import annotations

import json
from typing import Any

import click
from rich.text import Text

from amqp10msg.basic import BasicMessage
from amqp10msg.cli._basic import read_either
from amqp10msg.cli._input import Inputs, format_option, max_size_option, sources_argument
from amqp10msg.cli._output import color_option, console, safe, table, use_color
from amqp10msg.errors import DecodeError
from amqp10msg.message import Message
from amqp10msg.translate import PROFILES, Circumstances, TranslationError, to_amqp10, to_basic
from amqp10msg.translate.account import parts_of

_REFUSED = "refused"


@click.command(
    "diff-profiles",
    epilog="""
\b
Examples:
  amqp10msg diff-profiles message.bin
  amqp10msg diff-profiles -p rabbitmq-3.10 -p rabbitmq-4.3 header-and-body.bin
""",
)
@sources_argument
@click.option(
    "-p",
    "--profile",
    "profiles",
    type=click.Choice(list(PROFILES)),
    metavar="PROFILE",
    multiple=True,
    help="Compare these profiles; all by default.",
)
@click.option("--all", "everything", is_flag=True, help="Also show what all profiles agree on.")
@click.option("--exchange", default="", help="The exchange of 0-9-1 messages.")
@click.option("--routing-key", default="", help="The routing key of 0-9-1 messages.")
@click.option(
    "--user", default="guest", show_default=True, help="The user that the broker knows as sender."
)
@click.option("--json", "as_json", is_flag=True, help="Write a JSON object a line.")
@format_option
@max_size_option
@color_option
def diff_profiles(
    sources: tuple[str, ...],
    profiles: tuple[str, ...],
    everything: bool,
    exchange: str,
    routing_key: str,
    user: str,
    as_json: bool,
    form: str,
    max_size: int,
    color: bool | None,
) -> int:
    """Show what each bridge between 0-9-1 and 1.0 would make of the same message.

    SOURCES and profiles are as for translate. The protocol of a message is recognised, and it is
    translated to the other one. A row is a place in the result, a column a profile. The exit
    status is 1 where a message cannot be read.
    """
    chosen = profiles or tuple(PROFILES)
    colored = use_color(color)
    given = Circumstances(user=user)
    failed = 0
    for item in Inputs(sources, form, max_size).some():
        try:
            if item.fault:
                raise DecodeError(item.fault)
            message = read_either(item.data, exchange, routing_key)
        except DecodeError as error:
            failed += 1
            click.echo(
                f"amqp10msg: {safe(item.source)}: {safe(item.fault or str(error))}", err=True
            )
            continue
        found = {name: _made(message, name, given) for name in chosen}
        if as_json:
            click.echo(
                json.dumps({"source": safe(item.source), "profiles": found}, ensure_ascii=False)
            )
        else:
            _show(safe(item.source), found, everything, colored)
    return int(failed > 0)


def _made(message: BasicMessage | Message, profile: str, given: Circumstances) -> dict[str, str]:
    """Return what a profile makes of a message: path -> value, as text."""
    try:
        made: Any = (
            to_amqp10(message, profile, circumstances=given).message
            if isinstance(message, BasicMessage)
            else to_basic(message, profile, circumstances=given).message
        )
    except TranslationError as error:
        return {_REFUSED: safe(str(error))}
    return {path: safe(repr(value)) for path, value in parts_of(made)}


def _show(source: str, found: dict[str, dict[str, str]], everything: bool, colored: bool) -> None:
    screen = console(colored)
    places = dict.fromkeys(path for made in found.values() for path in made)
    rows = []
    for path in places:
        values = [made.get(path, "") for made in found.values()]
        if everything or len(set(values)) > 1:
            rows.append((path, values))
    screen.print(Text(source, style="bold"))
    if not rows:
        screen.print("  all agree")
        return
    made = table("", *found)
    for path, values in rows:
        style = "red" if path == _REFUSED else "cyan"
        made.add_row(Text(path, style=style), *(Text(value) for value in values))
    screen.print(made)
    screen.print()
