"""``amqp10msg convert`` and ``encode``: convert messages between formats, and encode JSON."""

from __future__ import annotations

import base64
import json
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from amqp10msg.app.cli._options import (
    TARGETS,
    LateHelpCommand,
    format_descriptions,
    messages_argument,
    output_option,
)
from amqp10msg.app.cli._output import Sink, json_text
from amqp10msg.wire.errors import AmqpError

if TYPE_CHECKING:
    from amqp10msg.app.cli._input import Inputs
    from amqp10msg.app.inspector.reading import Item


def _format_table() -> str:
    """Return the names and descriptions of the formats and notations, for the help."""
    lines: list[str] = []
    for name, text in format_descriptions().items():
        shown = text if name in TARGETS else f"{text} (input only)"
        lines += textwrap.wrap(
            shown,
            70,
            break_on_hyphens=False,
            initial_indent=f"{name:<10}",
            subsequent_indent=" " * 10,
        )
    return "\n".join(lines)


def _convert_help() -> str:
    return f"""Convert messages to another format.

SOURCES are files, directories, hex, base64 or JSON, or - for standard input, which is the
default. FILE:LINE and FILE@OFFSET select one message of a file.

\b
{_format_table()}

Typed, plain and CBOR keep every value and type, but not the encoding: converting hex to typed
and back produces the smallest encoding. AMQP values that are not messages can be converted too.

If a message cannot be read or written, the command stops with exit status 1, and with -o
writes no file.
"""


@click.command(
    cls=LateHelpCommand,
    help_of=_convert_help,
    epilog="""
\b
Examples:
  amqp10msg convert --out typed message.bin
  amqp10msg convert --format base64 --out hex AFN3oQJoaQ==
  amqp10msg convert --out prefixed captured/ -o all.bin
  xxd message.bin | amqp10msg convert --out plain | jq .properties
""",
)
@messages_argument("-f", "--format")
@click.option(
    "--out", "target", type=click.Choice(TARGETS), required=True, help="The format of the output."
)
@output_option
def convert(inputs: Inputs, target: str, output: Path | None) -> None:
    """Convert messages to another format."""
    with Sink(output) as sink:
        _write_all(inputs.messages(), target, sink)


@click.command(
    epilog="""
\b
Examples:
  amqp10msg encode '{"body": "hello"}'
  amqp10msg encode order.json --out raw -o order.bin
  echo '[["amqp-value", ["uint", 5]]]' | amqp10msg encode | amqp10msg inspect
"""
)
@messages_argument(form="written")
@click.option(
    "--out",
    "target",
    type=click.Choice(["hex", "base64", "raw", "jsonl", "prefixed"]),
    default="hex",
    show_default=True,
    help="The format of the output. raw allows a single message, the other formats any number.",
)
@output_option
def encode(inputs: Inputs, target: str, output: Path | None) -> None:
    """Encode JSON as AMQP 1.0 messages.

    SOURCES are JSON texts or files, or - for standard input, which is the default. An input holds
    one JSON document, or one per line. An object is a message in the plain notation, a list one in
    the typed notation; a string, a number or a constant is a single AMQP value.

    If a message cannot be read, the command stops with exit status 1, and with -o writes no file.
    """
    with Sink(output) as sink:
        _write_all(inputs.messages(), target, sink)


def _write_all(items: Iterable[Item], target: str, sink: Sink) -> None:
    """Write all items in the format `target`.

    Raises:
        click.ClickException: an item has a fault or cannot be written in this format.
    """
    for number, item in enumerate(items, 1):
        if number > 1 and target == "raw":
            raise click.ClickException(
                "--out raw allows a single message, because raw bytes do not delimit messages: "
                "use prefixed, jsonl or hex"
            )
        try:
            sink.write(format_item(item, target))
        except AmqpError as error:
            raise click.ClickException(f"{item.source}: {item.explained(str(error))}") from None


def require_bytes(item: Item) -> bytes:
    """Return the bytes of an item.

    Raises:
        click.ClickException: the item has a fault.
    """
    if item.fault:
        raise click.ClickException(f"{item.source}: {item.fault}")
    return item.data


def format_item(item: Item, target: str) -> str | bytes:
    """Convert an encoded message, or encoded values, to the format `target` (one of `TARGETS`).

    JSON lines keep what the item's file states about the message, such as its routing key. The
    other formats contain the message only.

    Raises:
        AmqpError: `target` is a notation, and the item is neither a message nor AMQP values.
        click.ClickException: the item has a fault.
    """
    data = require_bytes(item)
    match target:
        case "raw":
            return data
        case "prefixed":
            return len(data).to_bytes(4, "big") + data
        case "hex":
            return data.hex() + "\n"
        case "base64":
            return base64.b64encode(data).decode() + "\n"
        case "jsonl":
            from amqp10msg.files.containers import record_to_document

            return json.dumps(record_to_document(data, item.record)) + "\n"
    from amqp10msg import notation
    from amqp10msg.app.inspector.judging import read

    values = read(data)
    if target == "cbor":
        try:
            return b"".join(map(notation.to_cbor, values))
        except ImportError as error:  # cbor2 is not installed, as the error says
            raise click.ClickException(str(error)) from None
    write = notation.to_typed if target == "typed" else notation.to_plain
    return "".join(json_text(write(value)) + "\n" for value in values)
