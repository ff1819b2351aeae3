"""``amqp10msg convert`` and ``encode``: the same messages in another notation."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from amqp10msg.app.cli._options import TARGETS, messages_argument, output_option
from amqp10msg.app.cli._output import Sink, json_text
from amqp10msg.wire.errors import AmqpError

if TYPE_CHECKING:
    from amqp10msg.app.cli._input import Inputs
    from amqp10msg.app.inspector.reading import Item


@click.command(
    epilog="""
\b
Examples:
  amqp10msg convert --out typed message.bin
  amqp10msg convert --format base64 --out hex AFN3oQJoaQ==
  amqp10msg convert --out prefixed captured/ -o all.bin
  xxd message.bin | amqp10msg convert --out plain | jq .properties
"""
)
@messages_argument("-f", "--format")
@click.option(
    "--out", "target", type=click.Choice(TARGETS), required=True, help="The format of the output."
)
@output_option
def convert(inputs: Inputs, target: str, output: Path | None) -> None:
    """Write messages in another notation.

    SOURCES are files, directories, hex, base64, JSON, or - for standard input, which is also read
    if none are given; FILE:LINE and FILE@OFFSET are one message of a file.

    \b
    raw       the bytes of one message
    hex       digits; spaces, colons, 0x and dumps of xxd or hexdump are
              understood
    base64    of either alphabet
    jsonl     one object per line, the message in hex or base64 under
              raw, hex, base64 or data_base64
    prefixed  each message after its length, four bytes in network byte order
    cborseq   a CBOR sequence of byte strings (read alone, as the next two)
    pcap      a capture of a network, pcap or pcapng
    parquet   a table with a column wire or raw, such as a quarantine
    avro      what Event Hubs Capture writes
    typed     JSON with every value beside its type: lossless
    plain     JSON as people write it, with types where they matter
    cbor      lossless and compact

    Typed, plain and CBOR keep every value and type, but not which of several encodings was used:
    hex to typed and back gives the smallest encoding. A value by itself is converted in the same
    way.

    The output is all of the messages or an error: if one cannot be read or written, the exit
    status is 1, and with -o no file is written.
    """
    with Sink(output) as sink:
        _write_all(inputs.some(), target, sink)


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
    help="The format of the output; raw takes one message, the others any number.",
)
@output_option
def encode(inputs: Inputs, target: str, output: Path | None) -> None:
    """Encode messages from JSON.

    SOURCES are JSON itself, files of it, or - for standard input, which is also read if none are
    given; one document, or one per line. An object is the plain notation, a list the typed
    one, and a text, a number or a constant a value by itself.

    The output is all of the messages or an error: if one cannot be read, the exit status is 1,
    and with -o no file is written.
    """
    with Sink(output) as sink:
        _write_all(inputs.some(), target, sink)


def _write_all(items: Iterable[Item], target: str, sink: Sink) -> None:
    """Write every item in the target form, or end the command where one cannot be."""
    for number, item in enumerate(items, 1):
        if number > 1 and target == "raw":
            raise click.ClickException(
                "there is more than one message, and raw bytes do not say where one ends: "
                "use prefixed, jsonl or hex"
            )
        data = octets_of(item)
        try:
            sink.write(written(data, target))
        except AmqpError as error:
            raise click.ClickException(f"{item.source}: {item.explained(str(error))}") from None


def octets_of(item: Item) -> bytes:
    """Return the bytes of an item, or end the command with its fault."""
    if item.fault:
        raise click.ClickException(f"{item.source}: {item.fault}")
    return item.data


def written(data: bytes, target: str) -> str | bytes:
    """Return bytes in one of `TARGETS`.

    Raises:
        AmqpError: they are neither a message nor values, and the target is a notation.
    """
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
            return json.dumps({"raw": data.hex()}) + "\n"
    from amqp10msg import notation
    from amqp10msg.app.inspector.judging import read

    values = read(data)
    if target == "cbor":
        try:
            return b"".join(map(notation.to_cbor, values))
        except ImportError as error:  # says itself what to install
            raise click.ClickException(str(error)) from None
    write = notation.to_typed if target == "typed" else notation.to_plain
    return "".join(json_text(write(value)) + "\n" for value in values)
