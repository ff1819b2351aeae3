"""``amqp10msg translate`` and ``diff-profiles``: messages of AMQP 0-9-1 as 1.0 messages, and back.

A message of 0-9-1 is the payload of its content header frame with the body behind it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import click
from rich.text import Text

from amqp10msg.basic import BasicMessage, decode_content_header, encode_content_header
from amqp10msg.cli._input import Inputs, Item, complain, messages_argument
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
from amqp10msg.limits import Limits
from amqp10msg.message import Message
from amqp10msg.translate import PROFILES, Circumstances, Loss, TranslationError, to_amqp10, to_basic
from amqp10msg.translate.account import parts_of

_ACTIONS = {"carried": "green", "renamed": "yellow", "retyped": "yellow"}
_REFUSED = "refused"


target_option = click.option(
    "--to",
    "target",
    type=click.Choice(["amqp10", "basic"]),
    required=True,
    help="The protocol to translate to: AMQP 1.0, or class basic of 0-9-1.",
)


def _circumstances_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add what a translation depends on besides the message."""
    for option in (
        click.option(
            "--user",
            default="guest",
            show_default=True,
            help="The user that the broker knows as sender.",
        ),
        click.option("--routing-key", default="", help="The routing key of 0-9-1 messages."),
        click.option("--exchange", default="", help="The exchange of 0-9-1 messages."),
    ):
        command = option(command)
    return command


@click.command(
    epilog="""
\b
Examples:
  amqp10msg translate --to amqp10 header-and-body.bin
  amqp10msg translate --to basic message.bin -o translated.jsonl
  amqp10msg translate --to amqp10 --json header-and-body.bin | jq .losses
"""
)
@target_option
@click.option(
    "--profile",
    type=click.Choice(list(PROFILES)),
    metavar="PROFILE",
    default="lossless",
    show_default=True,
    help=f"Exactly reversible, or as a broker does it: {', '.join(PROFILES)}.",
)
@click.option("--strict", is_flag=True, help="Refuse messages that lose something for good.")
@_circumstances_options
@click.option(
    "--json", "as_json", is_flag=True, help="Write a JSON object a line, losses included."
)
@output_option
@messages_argument
@color_option
def translate(
    inputs: Inputs,
    target: str,
    profile: str,
    strict: bool,
    exchange: str,
    routing_key: str,
    user: str,
    as_json: bool,
    output: Path | None,
    color: bool | None,
) -> int:
    """Translate messages between AMQP 0-9-1 and 1.0, and say what is lost.

    SOURCES are files, directories, hex, base64, or - for standard input, as for validate. A message
    of 0-9-1 is the payload of its content header frame followed by the body.

    A table shows the losses. With -o, the translated messages go into that file, a JSON object a
    line with the bytes in hex under raw; with --json, such objects with the losses are all that is
    written. The exit status is 1 where something was lost for good, or a message was refused or
    cannot be read.
    """
    given = Circumstances(user=user)
    colored = use_color(color)
    failed = False
    with Sink(output) as sink:
        for item in inputs.some():
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
            basic = _read_basic(item.data, exchange, routing_key)
            made = to_amqp10(basic, profile, strict=strict, circumstances=given)
            record = {"raw": made.message.encode().hex()}
            losses = made.losses
        else:
            back = to_basic(_read_message(item.data), profile, strict=strict, circumstances=given)
            basic = back.message
            header = encode_content_header(basic.properties, len(basic.body))
            record = {"raw": (header + basic.body).hex()}
            if basic.exchange or basic.routing_key:
                record |= {"exchange": basic.exchange, "routing_key": basic.routing_key}
            losses = back.losses
    except (DecodeError, TranslationError) as error:
        return {"error": str(error)}, (), str(error)
    record["losses"] = [_loss_json(loss) for loss in losses]
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
    line = f"{safe(item.source)}: {plural(size, 'byte')}, {says}"
    screen.print(Text(line, style="yellow" if lost else "green"))
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


@click.command(
    "diff-profiles",
    epilog="""
\b
Examples:
  amqp10msg diff-profiles message.bin
  amqp10msg diff-profiles -p rabbitmq-3.10 -p rabbitmq-4.3 header-and-body.bin
""",
)
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
@_circumstances_options
@click.option("--json", "as_json", is_flag=True, help="Write a JSON object a line.")
@messages_argument
@color_option
def diff_profiles(
    inputs: Inputs,
    profiles: tuple[str, ...],
    everything: bool,
    exchange: str,
    routing_key: str,
    user: str,
    as_json: bool,
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
    for item in inputs.some():
        try:
            if item.fault:
                raise DecodeError(item.fault)
            message = _read_either(item.data, exchange, routing_key)
        except DecodeError as error:
            failed += 1
            complain(item, item.fault or str(error))
            continue
        found = {name: _made(message, name, given) for name in chosen}
        if as_json:
            click.echo(
                json.dumps({"source": safe(item.source), "profiles": found}, ensure_ascii=False)
            )
        else:
            _show_differences(safe(item.source), found, everything, colored)
    return int(failed > 0)


def _made(message: BasicMessage | Message, profile: str, given: Circumstances) -> dict[str, str]:
    """Return what a profile makes of a message: path -> value, as text."""
    made: BasicMessage | Message
    try:
        if isinstance(message, BasicMessage):
            made = to_amqp10(message, profile, circumstances=given).message
        else:
            made = to_basic(message, profile, circumstances=given).message
    except TranslationError as error:
        return {_REFUSED: safe(str(error))}
    return {path: safe(repr(value)) for path, value in parts_of(made)}


def _show_differences(
    source: str, found: dict[str, dict[str, str]], everything: bool, colored: bool
) -> None:
    screen = console(colored)
    places = dict.fromkeys(path for made in found.values() for path in made)
    rows = table("", *found)
    for path in places:
        values = [made.get(path, "") for made in found.values()]
        if everything or len(set(values)) > 1:
            style = "red" if path == _REFUSED else "cyan"
            rows.add_row(Text(path, style=style), *(Text(value) for value in values))
    screen.print(Text(source, style="bold"))
    if not rows.row_count:
        screen.print("  all agree")
        return
    screen.print(rows)
    screen.print()


def _read_basic(data: bytes, exchange: str, routing_key: str) -> BasicMessage:
    """Read the payload of a content header frame with the body behind it.

    Raises:
        DecodeError: there is no content header, or the body does not have the size that it says.
    """
    # The header ends where its properties end; the rest is the body.
    size = int.from_bytes(data[4:12], "big") if len(data) >= 14 else 0
    if size > len(data) - 14:
        raise DecodeError(
            f"the header says a body of {size:,} bytes, and there are {len(data):,} bytes in all",
            4,
            rule="truncated",
        )
    header = decode_content_header(data[: len(data) - size], limits=Limits())
    return BasicMessage(header.properties, data[len(data) - size :], exchange, routing_key)


def _read_message(data: bytes) -> Message:
    """Read a 1.0 message, also one that breaks rules of Part 3."""
    try:
        return Message.decode(data)
    except DecodeError:
        return Message.decode(data, strict=False)


def _read_either(data: bytes, exchange: str, routing_key: str) -> BasicMessage | Message:
    """Read a message of either protocol: a 1.0 message begins with a zero byte and a descriptor.

    Raises:
        DecodeError: it is neither.
    """
    if data[:2] == b"\0\x3c":
        return _read_basic(data, exchange, routing_key)
    return _read_message(data)


def _loss_json(loss: Loss) -> dict[str, Any]:
    """Return a loss for JSON; values without a JSON type appear as their `repr`."""
    made = attrs.asdict(loss, recurse=False)
    for name in ("before", "after"):
        try:
            json.dumps(made[name])
        except (TypeError, ValueError):
            made[name] = safe(repr(made[name]))
    return made
