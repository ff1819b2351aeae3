"""``amqp10msg convert`` and ``encode``: the same messages in another notation."""

from __future__ import annotations

from pathlib import Path

import click

from amqp10msg.cli._forms import TARGETS, write_all
from amqp10msg.cli._input import FORMATS, Inputs, max_size_option, sources_argument
from amqp10msg.cli._output import Sink, output_option


@click.command(
    epilog="""
\b
Examples:
  amqp10msg convert --to typed message.bin
  amqp10msg convert --from base64 --to hex AFN3oQJoaQ==
  amqp10msg convert --to prefixed captured/ -o all.bin
  xxd message.bin | amqp10msg convert --to plain | jq .properties
"""
)
@sources_argument
@click.option(
    "--from",
    "form",
    type=click.Choice(FORMATS),
    default="auto",
    show_default=True,
    help="The format of the input, where it should not be guessed.",
)
@click.option(
    "--to", "target", type=click.Choice(TARGETS), required=True, help="The format of the output."
)
@output_option
@max_size_option
def convert(
    sources: tuple[str, ...], form: str, target: str, output: Path | None, max_size: int
) -> None:
    """Write messages in another notation.

    SOURCES are files, directories, hex, base64, JSON, or - for standard input, which is also what
    is read where none are given.

    \b
    raw       the bytes of one message
    hex       digits; spaces, colons, 0x and dumps of xxd or hexdump are
              understood
    base64    of either alphabet
    jsonl     an object a line, the message in hex or base64 under
              raw, hex, base64 or data_base64
    prefixed  each message after its length, four bytes in network byte order
    typed     JSON with every value beside its type: lossless
    plain     JSON as people write it, with types where they matter
    cbor      lossless and compact

    Typed, plain and CBOR keep every value and type, and not which of several encodings of it was
    used: hex to typed and back gives the smallest encoding. A value by itself is converted
    likewise.
    """
    with Sink(output) as sink:
        write_all(Inputs(sources, form, max_size).some(), target, sink)


@click.command(
    epilog="""
\b
Examples:
  amqp10msg encode '{"body": "hello"}'
  amqp10msg encode order.json --out raw -o order.bin
  echo '[["amqp-value", ["uint", 5]]]' | amqp10msg encode | amqp10msg inspect
"""
)
@sources_argument
@click.option(
    "--out",
    "target",
    type=click.Choice(["hex", "base64", "raw", "jsonl", "prefixed"]),
    default="hex",
    show_default=True,
    help="The format of the output; raw takes one message, the others any number.",
)
@output_option
@max_size_option
def encode(sources: tuple[str, ...], target: str, output: Path | None, max_size: int) -> None:
    """Encode messages from JSON.

    SOURCES are JSON itself, files of it, or - for standard input, which is also read where none are
    given; one document, or one a line. An object is the plain notation, a list the typed
    one.
    """
    with Sink(output) as sink:
        write_all(Inputs(sources, "written", max_size).some(), target, sink)
