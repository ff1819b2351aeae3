"""The inspector: a page for a browser, which runs this library in a worker.

A `Session` is what the page shows of given bytes: the messages in them, annotated, judged and
translated. The page needs ``worker.mjs``, the files of Pyodide and ``amqp10msg.zip`` beside it;
``make inspector`` puts them there.
"""

from __future__ import annotations

import base64
import datetime
import io
from importlib import resources
from typing import Any

import attrs

from amqp10msg.app import pages
from amqp10msg.app.inspector.judging import Judged
from amqp10msg.app.inspector.protocols import (
    is_basic,
    octets_of,
    read_basic,
    read_message,
    translate,
)
from amqp10msg.app.inspector.reading import InputReader, Item
from amqp10msg.basic import BasicMessage, BasicProperties, encode_content_header
from amqp10msg.files.containers import DamagedGzipError
from amqp10msg.message import Message
from amqp10msg.notation import parse_tree
from amqp10msg.notation.html import annotated
from amqp10msg.sections import Header, Properties
from amqp10msg.translate import PROFILES as TRANSLATIONS
from amqp10msg.translate.account import parts_of, shown
from amqp10msg.validation import PROFILES, RULES, Violation
from amqp10msg.wire.errors import AmqpError
from amqp10msg.wire.primitives import Symbol, Timestamp, UInt, ULong

#: The profile that translates where none is chosen.
TRANSLATION = "rabbitmq-4.3"
#: Messages of one input that are listed.
MAX_MESSAGES = 500
# Bytes of a message that an address holds, and that are annotated; fields; characters of values.
_MAX_LINKED = 8_192
_MAX_OCTETS = 16_384
_MAX_FIELDS = 5_000
_MAX_SHOWN = 400


@attrs.frozen
class Shown:
    """One message of what was given, as a page shows it.

    Attributes:
        html: a fragment of a page.
        link: the message in URL-safe base64 without padding; empty where it is too large for an
            address, or there is none.
        exchange: of a message of 0-9-1, where its capture says it.
        routing_key: likewise.
    """

    html: str
    link: str = ""
    exchange: str = ""
    routing_key: str = ""


class Session:
    """Bytes that were given, and the messages in them.

    Args:
        data: text in any notation, a container of messages, or a capture; gzip or not.
        name: of the file, or what else to call it.
        exchange: that messages of 0-9-1 were published to, where nothing else says it.
        routing_key: likewise.
    """

    def __init__(
        self, data: bytes, name: str = "", *, exchange: str = "", routing_key: str = ""
    ) -> None:
        self.exchange = exchange
        self.routing_key = routing_key
        self.items, self.more = _read(data, name or "message")

    def show(
        self, number: int = 1, *, profile: str = "oasis", translation: str = TRANSLATION
    ) -> Shown:
        """Return one message as a page shows it.

        Args:
            number: of the message, from 1.
            profile: the name of the set of rules that it is held to.
            translation: the name of the profile by which it is translated to the other protocol.

        Raises:
            KeyError: there is no profile of that name.
            ImportError: Jinja2 is not installed.
        """
        if not self.items:
            return Shown(pages.render("inspection.html", **_nothing()))
        number = min(max(number, 1), len(self.items))
        item = self.items[number - 1]
        found = {
            **_nothing(),
            "found": [] if len(self.items) == 1 else list(map(_entry, self.items)),
            "chosen": number,
            "left_out": self.more,
        }
        if item.fault:
            found["fault"] = item.fault
            return Shown(pages.render("inspection.html", **found))
        basic = is_basic(item)
        found |= _of_basic(self, item) if basic else _of_message(item, profile)
        # Values by themselves, such as an outcome, have nothing to be translated to.
        if basic or found["kind"] == "message":
            found["translation"] = _translation(self, item, translation)
        octets = item.data if len(item.data) <= _MAX_LINKED else b""
        return Shown(
            pages.render("inspection.html", **found),
            base64.urlsafe_b64encode(octets).decode().rstrip("="),
            (item.record and item.record.exchange) or self.exchange,
            (item.record and item.record.routing_key) or self.routing_key,
        )


def _nothing() -> dict[str, Any]:
    return {
        "found": [],
        "chosen": 1,
        "left_out": False,
        "fault": "",
        "kind": "",
        "verdict": "",
        "messages": [],
        "profiles": [],
        "violations": [],
        "size": 0,
        "rules": RULES,
        "shown": _shown,
        "rows": [],
        "translation": None,
    }


def _read(data: bytes, name: str) -> tuple[list[Item], bool]:
    """Return the messages in bytes, and whether there are more of them."""
    if not data.strip():
        return [], False
    items: list[Item] = []
    try:
        for item in InputReader(basic=True).read(io.BytesIO(data), name):
            if len(items) == MAX_MESSAGES:
                return items, True
            items.append(item)
    except (ValueError, DamagedGzipError, ImportError, OSError) as error:
        items.append(Item(name, fault=str(error)))
    return items or [Item(name, fault="there are no messages in it")], False


def _entry(item: Item) -> dict[str, str]:
    """Return the line of a message in the list of all."""
    record = item.record
    about = [
        *([record.connection] if record and record.connection else []),
        *([record.address] if record and record.address else []),
        "AMQP 0-9-1" if not item.fault and is_basic(item) else "",
        item.fault or f"{len(item.data):,} bytes",
    ]
    return {
        "name": item.source,
        "about": " · ".join(filter(None, about)),
        "kind": "error" if item.fault else "",
    }


def _of_message(item: Item, profile: str) -> dict[str, Any]:
    """Show a message of 1.0, or values."""
    judged = {
        name: Judged(item, name, max_fields=_MAX_FIELDS)
        for name in dict.fromkeys((profile, *PROFILES))
    }
    chosen = judged[profile]
    return {
        "kind": "message" if chosen.is_message else "values",
        "fault": chosen.fault,
        "verdict": chosen.what,
        "messages": annotated([chosen.tree()], [item.source], max_octets=_MAX_OCTETS),
        "profiles": [
            {"name": name, "about": PROFILES[name].description, **_count(one.violations)}
            for name, one in judged.items()
        ]
        if chosen.is_message
        else [],
        "violations": chosen.violations,
        "size": len(item.data),
    }


def _count(violations: list[Violation]) -> dict[str, Any]:
    errors = sum(violation.severity == "error" for violation in violations)
    return {"errors": errors, "warnings": len(violations) - errors}


def _of_basic(session: Session, item: Item) -> dict[str, Any]:
    """Show a message of 0-9-1: its properties, or why it has none."""
    try:
        message = read_basic(item, session.exchange, session.routing_key)
    except AmqpError as error:
        return {"kind": "basic", "fault": str(error)}
    return {"kind": "basic", "rows": _parts(message)}


def _parts(message: BasicMessage | Message) -> list[tuple[str, str]]:
    return [(path, _shown(value)) for path, value in parts_of(message)]


def _shown(value: Any) -> str:
    return shown(value, _MAX_SHOWN)


def _translation(session: Session, item: Item, name: str) -> dict[str, Any]:
    """Show the translation of a message by a profile, and its losses."""
    basic = is_basic(item)
    found: dict[str, Any] = {
        "name": name,
        "about": TRANSLATIONS[name].description,
        "target": "1.0" if basic else "0-9-1",
        "refused": "",
        "rows": [],
        "messages": [],
    }
    try:
        made = translate(
            read_basic(item, session.exchange, session.routing_key)
            if basic
            else read_message(item),
            name,
        )
        octets = octets_of(made.message)
    except AmqpError as error:
        return {**found, "refused": str(error)}
    if basic:
        tree = parse_tree(octets, limit=_MAX_FIELDS)
        found["messages"] = annotated([tree], max_octets=_MAX_OCTETS)
        found["messages"][0]["number"] = 1
    else:
        found["rows"] = _parts(made.message)
    hexes = octets.hex() if len(octets) <= _MAX_LINKED else ""
    return {**found, "losses": made.losses, "hex": hexes, "size": len(octets)}


# The page.


def page() -> str:
    """Return the page, with the first example already shown, so that there is something to read.

    Raises:
        ImportError: Jinja2 is not installed.
    """
    given = [(name, octets.hex(" ")) for name, octets in examples()]
    shown = Session(examples()[0][1]).show().html
    return pages.render(
        "inspector.html",
        title="AMQP message inspector",
        script=True,
        examples=given,
        profiles=list(PROFILES),
        translations=list(TRANSLATIONS),
        translation=TRANSLATION,
        shown=shown,
    )


def worker() -> str:
    """Return the script of the page's worker, which stands beside it as ``worker.mjs``."""
    data = resources.files("amqp10msg.app.pages") / "data" / "inspector_worker.mjs"
    return data.read_text(encoding="utf-8")


def examples() -> list[tuple[str, bytes]]:
    """Return the page's examples: a name, and bytes that the page reads."""
    moment = datetime.datetime(2026, 3, 1, 9, 30, tzinfo=datetime.UTC)
    order = Message(
        b'{"id": 4711, "total": "19.90"}',
        header=Header(durable=True, ttl=UInt(60_000)),
        message_annotations={"x-opt-partition-key": "customer-7"},
        properties=Properties(
            message_id=ULong(4711),
            to="orders",
            subject="order.created",
            content_type=Symbol("application/json"),
            creation_time=Timestamp.from_datetime(moment),
        ),
        application_properties={"priority": "high", "attempt": 1, "ratio": 0.5},
    ).encode()
    broken = order[:-1]
    twice = Message("hello", properties=Properties(message_id="m-1")).encode()
    twice = twice[: -len(Message("hello").encode())] + twice
    body = b'{"id": 4711}'
    header = encode_content_header(
        BasicProperties(
            content_type="application/json",
            delivery_mode=2,
            priority=5,
            message_id="m-1",
            timestamp=int(moment.timestamp()),
            headers={"x-attempt": 1, "origin": "shop"},
        ),
        len(body),
    )
    return [
        ("an order", order),
        ("the same, cut off", broken),
        ("a section twice", twice),
        ("a message of AMQP 0-9-1", header + body),
    ]
