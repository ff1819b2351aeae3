"""Output formats: the notations, hex, base64, and containers of bytes."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable
from typing import Any

import click

from amqp10msg import notation
from amqp10msg.app.cli._output import Sink, json_text
from amqp10msg.app.inspector.items import Item
from amqp10msg.app.inspector.judging import read
from amqp10msg.wire.errors import AmqpError


def octets_of(item: Item) -> bytes:
    """Return the bytes of an item, or end the command with its fault."""
    if item.fault:
        raise click.ClickException(f"{item.source}: {item.fault}")
    return item.data


def _json_lines(write: Callable[[Any], Any]) -> Callable[[bytes], str]:
    def lines(data: bytes) -> str:
        return "".join(json_text(write(value)) + "\n" for value in read(data))

    return lines


def _cbor(data: bytes) -> bytes:
    try:
        return b"".join(notation.to_cbor(value) for value in read(data))
    except ImportError as error:  # says itself what to install
        raise click.ClickException(str(error)) from None


_WRITERS: dict[str, Callable[[bytes], str | bytes]] = {
    "typed": _json_lines(notation.to_typed),
    "plain": _json_lines(notation.to_plain),
    "cbor": _cbor,
    "hex": lambda data: data.hex() + "\n",
    "base64": lambda data: base64.b64encode(data).decode() + "\n",
    "jsonl": lambda data: json.dumps({"raw": data.hex()}) + "\n",
    "raw": lambda data: data,
    "prefixed": lambda data: len(data).to_bytes(4, "big") + data,
}


def written(data: bytes, target: str) -> str | bytes:
    """Return bytes in one of `TARGETS`.

    Raises:
        AmqpError: they are neither a message nor values, and the target is a notation.
    """
    return _WRITERS[target](data)


def write_all(items: Iterable[Item], target: str, sink: Sink) -> None:
    """Write every item in the target form.

    Raises:
        click.ClickException: an item cannot be read or written so, or there are several where only
            one can be.
    """
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
