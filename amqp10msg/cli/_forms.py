"""Output formats: the notations, hex, base64, and containers of bytes."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable
from typing import Any

import click

from amqp10msg import notation
from amqp10msg._core import decode_value, decode_values, skip_value
from amqp10msg.cli._items import Item
from amqp10msg.cli._output import Sink
from amqp10msg.errors import AmqpError, DecodeError
from amqp10msg.limits import DEFAULT_LIMITS
from amqp10msg.message import Message
from amqp10msg.sections import CODES


def is_message(data: bytes) -> bool:
    """Return whether bytes are a message: they begin with a section's descriptor, or are empty.

    What is too damaged to tell counts as a message.
    """
    if data[:1] not in (b"", b"\0"):
        return False
    try:
        descriptor = decode_value(data[1 : skip_value(data, 1)])
    except DecodeError:
        return True
    return isinstance(descriptor, (int, str)) and descriptor in CODES


def read(data: bytes, *, as_values: bool = False) -> list[Any]:
    """Decode a message, or a sequence of values.

    A message that breaks rules is read leniently.

    Raises:
        DecodeError: the bytes do not parse.
    """
    if not as_values and is_message(data):
        return [Message.decode(data, limits=DEFAULT_LIMITS, strict=False)]
    return list(decode_values(data, limits=DEFAULT_LIMITS))


def _json_lines(write: Callable[[Any], Any]) -> Callable[[bytes], str]:
    def lines(data: bytes) -> str:
        return "".join(json.dumps(write(value), ensure_ascii=False) + "\n" for value in read(data))

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
        AmqpError: they are no message or values, and the target is a notation.
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
        data = item.octets()
        try:
            sink.write(written(data, target))
        except AmqpError as error:
            raise click.ClickException(f"{item.source}: {item.explained(str(error))}") from None
