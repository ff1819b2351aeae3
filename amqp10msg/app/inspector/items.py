"""A message that was given in some notation, and how one is made of a document."""

from __future__ import annotations

import contextlib
from typing import Any

import attrs

from amqp10msg import files, notation
from amqp10msg.files.containers import RECORD_KEYS, octets_of_record
from amqp10msg.files.recognition import advice
from amqp10msg.files.text import parse_json
from amqp10msg.message import Message
from amqp10msg.wire.errors import AmqpError
from amqp10msg.wire.kernel import encode_value


@attrs.frozen
class Item:
    """One message, or what kept it from being read.

    Attributes:
        source: where it came from: a file's name, with a line's number where it has lines.
        data: its bytes; of a message of AMQP 0-9-1 the content header and the body after it.
        fault: why there are none; empty where all is well.
        number: of its line, or of the message in its file, from 1.
        offset: where it begins in its file, in bytes; None where that is not known.
        record: what its file says of it besides.
    """

    source: str
    data: bytes = b""
    fault: str = ""
    number: int = attrs.field(default=1, eq=False)
    offset: int | None = attrs.field(default=None, eq=False)
    record: files.Record | None = attrs.field(default=None, eq=False)

    def explained(self, fault: str) -> str:
        """Return why it cannot be decoded, and what its bytes are instead where that shows."""
        hint = advice(self.data, "raw")
        return f"{fault}; {hint}" if hint else fault


def has_lines(octets: bytes) -> bool:
    """Return whether a line after a bad first one is a document, so that this is JSON lines."""
    for line in octets.splitlines()[:10]:
        with contextlib.suppress(ValueError):
            if isinstance(parse_json(line), (dict, list)):
                return True
    return False


def item_of_document(item: Item, form: str, document: Any) -> Item:
    """Return an item with the bytes that a JSON document holds or means, or with its fault.

    Args:
        item: where the document came from.
        form: ``jsonl``, ``json``, ``written``, ``typed`` or ``plain``.
        document: what `parse_json` returned.
    """
    if form in ("jsonl", "json") and isinstance(document, dict):
        label = document.get("id", document.get("name"))
        if isinstance(label, str) and label:
            item = attrs.evolve(item, source=f"{item.source} ({label})")
        try:
            octets = octets_of_record(document)
        except ValueError as error:
            return attrs.evolve(item, fault=str(error))
        if octets is not None:
            return attrs.evolve(item, data=octets)
    if form == "jsonl":
        return attrs.evolve(item, fault=f"no object with one of the keys {', '.join(RECORD_KEYS)}")
    if form in ("json", "written"):
        form = "typed" if isinstance(document, list) else "plain"
    return encoded(item, form, document)


def encoded(item: Item, form: str, document: Any) -> Item:
    """Return an item with the encoding of what a notation says, or with its fault.

    Args:
        item: where the document came from.
        form: ``typed``, ``plain`` or ``cbor``.
        document: of JSON, or the bytes of CBOR.

    Raises:
        ImportError: what reads CBOR is not installed.
    """
    made: Any
    try:
        match form:
            case "typed":
                made = notation.from_typed(document)
            case "plain":
                is_value = not isinstance(document, dict) or any(key[:1] == "$" for key in document)
                made = (notation.value_from_plain if is_value else notation.from_plain)(document)
            case _:
                made = notation.from_cbor(document)
        octets = made.encode() if isinstance(made, Message) else encode_value(made)
        return attrs.evolve(item, data=octets)
    except (AmqpError, ValueError) as error:
        return attrs.evolve(item, fault=str(error))
