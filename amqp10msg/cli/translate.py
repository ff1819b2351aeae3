"""``amqp10msg translate``: messages of AMQP 0-9-1 as 1.0 messages, and back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
from rich.text import Text

from amqp10msg.cli._basic import basic_octets, loss_json, read_basic, read_message
from amqp10msg.cli._input import Inputs, Item, format_option, max_size_option, sources_argument
from amqp10msg.cli._output import (
    Sink,
    color_option,
    console,
    output_option,
    plural,
    safe,
    table,
    use_color,
)
from amqp10msg.errors import DecodeError
from amqp10msg.translate import PROFILES, Circumstances, Loss, TranslationError, to_amqp10, to_basic

_ACTIONS = {"carried": "green", "renamed": "yellow", "retyped": "yellow"}


@click.command(
    epilog="""
\b
Examples:
  amqp10msg translate --to amqp10 header-and-body.bin
  amqp10msg translate --to basic message.bin -o translated.jsonl
  amqp10msg translate --to amqp10 --json header-and-body.bin | jq .losses
"""
)
@sources_argument
@click.option(
    "--to",
    "target",
    type=click.Choice(["amqp10", "basic"]),
    required=True,
    help="The protocol to translate to: AMQP 1.0, or class basic of 0-9-1.",
)
@click.option(
    "--profile",
    type=click.Choice(list(PROFILES)),
    metavar="PROFILE",
    default="lossless",
    show_default=True,
    help=f"Exactly reversible, or as a broker does it: {', '.join(PROFILES)}.",
)
@click.option("--strict", is_flag=True, help="Refuse messages that lose something for good.")
@click.option("--exchange", default="", help="The exchange of 0-9-1 messages.")
@click.option("--routing-key", default="", help="The routing key of 0-9-1 messages.")
@click.option(
    "--user", default="guest", show_default=True, help="The user that the broker knows as sender."
)
@click.option(
    "--json", "as_json", is_flag=True, help="Write a JSON object a line, losses included."
)
@output_option
@format_option
@max_size_option
@color_option
def translate(
    sources: tuple[str, ...],
    target: str,
    profile: str,
    strict: bool,
    exchange: str,
    routing_key: str,
    user: str,
    as_json: bool,
    output: Path | None,
    form: str,
    max_size: int,
    color: bool | None,
) -> int:
    """Translate messages between AMQP 0-9-1 and 1.0, and say what is lost.

    SOURCES are files, directories, hex, base64, or - for standard input, as for validate. A message
    of 0-9-1 is the payload of its content header frame followed by the body.

    A table shows the losses. With -o, the translated messages go into that file, a JSON object a
    line with the octets in hex under raw; with --json, such objects with the losses are all that is
    written. The exit status is 1 where something was lost for good, or a message was refused or
    cannot be read.
    """
    given = Circumstances(user=user)
    colored = use_color(color)
    failed = False
    with Sink(output) as sink:
        for item in Inputs(sources, form, max_size).some():
            record, losses, fault = _translated(
                item, target, profile, strict, exchange, routing_key, given
            )
            failed = failed or bool(fault) or any(not loss.recoverable for loss in losses)
            if as_json:
                sink.write(
                    json.dumps({"source": safe(item.source), **record}, ensure_ascii=False) + "\n"
                )
                continue
            if output is not None and not fault:
                sink.write(json.dumps({"raw": record["raw"]}) + "\n")
            _show(item, record, losses, fault, colored)
    return int(failed)


def _translated(
    item: Item,
    target: str,
    profile: str,
    strict: bool,
    exchange: str,
    routing_key: str,
    given: Circumstances,
) -> tuple[dict[str, Any], tuple[Loss, ...], str]:
    """Return the record of one message, its losses, and why it could not be translated."""
    if item.fault:
        return {"error": item.fault}, (), item.fault
    record: dict[str, Any]
    try:
        if target == "amqp10":
            basic = read_basic(item.data, exchange, routing_key)
            made = to_amqp10(basic, profile, strict=strict, circumstances=given)
            record = {"raw": made.message.encode().hex()}
            losses = made.losses
        else:
            back = to_basic(read_message(item.data), profile, strict=strict, circumstances=given)
            record = {"raw": basic_octets(back.message).hex()}
            if back.message.exchange or back.message.routing_key:
                record["exchange"] = back.message.exchange
                record["routing_key"] = back.message.routing_key
            losses = back.losses
    except (DecodeError, TranslationError) as error:
        return {"error": str(error)}, (), str(error)
    record["losses"] = [loss_json(loss) for loss in losses]
    return record, losses, ""


def _show(
    item: Item, record: dict[str, Any], losses: tuple[Loss, ...], fault: str, colored: bool
) -> None:
    screen = console(colored)
    if fault:
        screen.print(Text(f"{safe(item.source)}: refused: {safe(fault)}", style="red"))
        return
    lost = sum(not loss.recoverable for loss in losses)
    size = len(record["raw"]) // 2
    says = f"{plural(lost, 'value')} lost" if lost else "nothing lost"
    screen.print(
        Text(
            f"{safe(item.source)}: {plural(size, 'octet')}, {says}",
            style="yellow" if lost else "green",
        )
    )
    if not losses:
        return
    made = table("Path", "Action", "Before", "After", "Why")
    for loss in losses:
        action = loss.action + ("" if loss.recoverable else ", for good")
        made.add_row(
            Text(safe(loss.path) or "message"),
            Text(action, style=_ACTIONS.get(loss.action, "red")),
            Text(_short(loss.before)),
            Text("" if loss.after is None else _short(loss.after)),
            Text(loss.reason),
        )
    screen.print(made)
    screen.print()


def _short(value: Any) -> str:
    text = safe(repr(value))
    return text if len(text) <= 60 else f"{text[:59]}…"
