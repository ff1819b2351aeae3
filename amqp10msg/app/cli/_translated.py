"""Messages translated, and what many of them lose: what ``translate`` shows."""

from __future__ import annotations

import json
from typing import Any

import attrs

from amqp10msg.app.cli._output import json_text, plural, safe
from amqp10msg.app.inspector.items import Item
from amqp10msg.app.inspector.protocols import is_basic, read_basic, read_message
from amqp10msg.basic import BasicMessage, encode_content_header
from amqp10msg.files.recognition import SECTION
from amqp10msg.message import Message
from amqp10msg.translate import (
    PROFILES,
    Circumstances,
    Loss,
    TranslationError,
    TranslationProfile,
    to_amqp10,
    to_basic,
)
from amqp10msg.translate.account import parts_of
from amqp10msg.wire.errors import DecodeError

#: The place of the reason where a profile refuses a message.
REFUSED = "refused"


@attrs.frozen
class Request:
    """What is to be made of a message.

    Attributes:
        target: ``amqp10`` or ``basic``; empty where the other protocol is meant.
        profile: the profile of the translator.
        strict: refuse what loses something for good.
        exchange: of messages of 0-9-1 that do not say theirs.
        routing_key: the same.
        user: the user that the broker knows as sender.
    """

    target: str
    profile: str
    strict: bool
    exchange: str
    routing_key: str
    user: str


@attrs.frozen
class Translated:
    """What became of a message.

    Attributes:
        source: where it came from.
        record: its JSON: the bytes in hex under ``raw``, or ``error``.
        losses: what it lost.
        fault: why it could not be read or translated; empty where it could.
    """

    source: str
    record: dict[str, Any]
    losses: tuple[Loss, ...] = ()
    fault: str = ""

    def json(self) -> str:
        """Return everything as one line of JSON."""
        record = dict(self.record)
        if not self.fault:
            record["losses"] = [_loss_json(loss) for loss in self.losses]
        return json_text({"source": safe(self.source), **record}) + "\n"


@attrs.define
class Losses:
    """What many messages lose together; its size depends on the kinds of losses.

    Attributes:
        messages: how many there were.
        refused: those that could not be read or translated.
        lossy: those that lost something for good.
        rows: by path, action, whether it can be recovered, and reason: messages, and the first.
    """

    messages: int = 0
    refused: int = 0
    lossy: int = 0
    rows: dict[tuple[str, str, bool, str], tuple[int, str]] = attrs.field(factory=dict)

    def add(self, made: Translated) -> None:
        """Count a message."""
        self.messages += 1
        self.refused += bool(made.fault)
        self.lossy += any(not loss.recoverable for loss in made.losses)
        for key in {(x.path, x.action, x.recoverable, x.reason) for x in made.losses}:
            number, first = self.rows.get(key, (0, made.source))
            self.rows[key] = number + 1, first

    @property
    def failed(self) -> bool:
        """Whether anything was refused or lost for good."""
        return self.refused + self.lossy > 0

    def most_common(self) -> list[tuple[tuple[str, str, bool, str], tuple[int, str]]]:
        """List the losses: those for good first, and what is most frequent before the rest."""
        return sorted(self.rows.items(), key=lambda row: (row[0][2], -row[1][0], row[0]))

    def sentence(self) -> str:
        """Return the sum in words."""
        whole = self.messages - self.lossy - self.refused
        parts = [f"{whole:,} without permanent loss"]
        if self.lossy:
            parts.append(f"{self.lossy:,} with it")
        if self.refused:
            parts.append(f"{self.refused:,} refused")
        return f"{plural(self.messages, 'message')}: {', '.join(parts)}"


def translated(item: Item, request: Request) -> Translated:
    """Translate one message."""
    if item.fault:
        return Translated(item.source, {"error": item.fault}, fault=item.fault)
    try:
        if request.target == "amqp10":
            record, losses = _to_amqp10(item, request)
        else:
            record, losses = _to_basic(item, request)
    except (DecodeError, TranslationError) as error:
        return Translated(item.source, {"error": str(error)}, fault=str(error))
    return Translated(item.source, record, losses)


def _to_amqp10(item: Item, request: Request) -> tuple[dict[str, Any], tuple[Loss, ...]]:
    if not is_basic(item) and SECTION.match(item.data):
        raise DecodeError("this is a message of AMQP 1.0 already: --to basic translates it", 0)
    made = to_amqp10(
        read_basic(item, request.exchange, request.routing_key),
        PROFILES[request.profile],
        strict=request.strict,
        circumstances=Circumstances(user=request.user),
    )
    return {"raw": made.message.encode().hex()}, made.losses


def _to_basic(item: Item, request: Request) -> tuple[dict[str, Any], tuple[Loss, ...]]:
    if is_basic(item):
        raise DecodeError("this is a message of AMQP 0-9-1 already: --to amqp10 translates it", 0)
    made = to_basic(
        read_message(item),
        PROFILES[request.profile],
        strict=request.strict,
        circumstances=Circumstances(user=request.user),
    )
    basic = made.message
    header = encode_content_header(basic.properties, len(basic.body))
    record = {"raw": (header + basic.body).hex()}
    if basic.exchange or basic.routing_key:
        record |= {"exchange": basic.exchange, "routing_key": basic.routing_key}
    return record, made.losses


def results(
    item: Item, profiles: tuple[str, ...], request: Request
) -> tuple[dict[str, dict[str, str]], str]:
    """Return what each profile makes of a message: path -> value as text, or why it fails.

    Args:
        item: a message of either protocol.
        profiles: the profiles to try.
        request: the exchange, routing key and user.
    """
    if item.fault:
        return {}, item.fault
    try:
        message = (
            read_basic(item, request.exchange, request.routing_key)
            if is_basic(item)
            else read_message(item)
        )
    except DecodeError as error:
        return {}, str(error)
    given = Circumstances(user=request.user)
    return {name: _made(message, PROFILES[name], given) for name in profiles}, ""


def alike(found: dict[str, dict[str, str]]) -> list[tuple[list[str], dict[str, str]]]:
    """Put profiles with the same result together: their names, and the result."""
    groups: list[tuple[list[str], dict[str, str]]] = []
    for name, made in found.items():
        names = next((names for names, other in groups if other == made), None)
        if names is None:
            groups.append(([name], made))
        else:
            names.append(name)
    return groups


def _made(
    message: BasicMessage | Message, profile: TranslationProfile, given: Circumstances
) -> dict[str, str]:
    made: BasicMessage | Message
    try:
        if isinstance(message, BasicMessage):
            made = to_amqp10(message, profile, circumstances=given).message
        else:
            made = to_basic(message, profile, circumstances=given).message
    except TranslationError as error:
        return {REFUSED: safe(str(error))}
    return {path: safe(repr(value)) for path, value in parts_of(made)}


def _loss_json(loss: Loss) -> dict[str, Any]:
    """Return a loss as JSON; values without a JSON type appear as their `repr`."""
    made = attrs.asdict(loss, recurse=False)
    for name in ("before", "after"):
        try:
            json.dumps(made[name])
        except (TypeError, ValueError):
            made[name] = safe(repr(made[name]))
    return made
