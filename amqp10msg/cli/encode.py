"""``amqp10msg encode``: messages from JSON."""

from __future__ import annotations

from pathlib import Path

import click

from amqp10msg.cli._forms import write_all
from amqp10msg.cli._input import Inputs, max_size_option, sources_argument
from amqp10msg.cli._output import Sink, output_option


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
