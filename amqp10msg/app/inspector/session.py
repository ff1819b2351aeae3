"""The inspector: an HTML page that runs this library in the browser, in a worker.

A `Session` renders the messages in the user's input for the page: annotated, checked and
translated. The page loads ``worker.mjs``, the files of Pyodide and ``amqp10msg.zip`` from its own
folder; ``make inspector`` writes them.
"""

from __future__ import annotations

import base64
import datetime
import io
from importlib import resources
from typing import Any

import attrs

from amqp10msg import pages
from amqp10msg.app.inspector.judging import Judged
from amqp10msg.app.inspector.protocols import (
    encode_message,
    is_basic,
    published_names,
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
from amqp10msg.translate.account import format_value, parts_of
from amqp10msg.validation import PROFILES, RULES, Violation
from amqp10msg.wire.errors import AmqpError
from amqp10msg.wire.primitives import Symbol, Timestamp, UInt, ULong

#: The default translation profile.
DEFAULT_TRANSLATION_PROFILE = "rabbitmq-4.3"
#: The maximum number of messages that are listed for one input.
MAX_MESSAGES = 500
# The maximum size, in bytes, of a message in a link, and of a translated message that is shown in
# hex.
_MAX_LINKED_BYTES = 8_192
# The maximum number of bytes, and of fields, that the page annotates per message.
_MAX_ANNOTATED_BYTES = 16_384
_MAX_FIELDS = 5_000
# The maximum length of a value on the page, in characters.
_MAX_VALUE_LENGTH = 400


@attrs.frozen
class Shown:
    """One message, rendered for the page.

    Attributes:
        html: an HTML fragment.
        link: the message in URL-safe base64 without padding, for a link to the page; empty if there
            is no message, or if it is too large for a URL.
        exchange: the exchange of a 0-9-1 message, or "".
        routing_key: the routing key of a 0-9-1 message, or "".
    """

    html: str
    link: str = ""
    exchange: str = ""
    routing_key: str = ""


class Session:
    """The messages in the user's input, and their rendering.

    Args:
        data: text in any notation, a file of messages, or a capture; may be compressed with gzip.
        name: the name of the file, or another name for the input.
        exchange: the exchange of 0-9-1 messages, unless the input contains it.
        routing_key: the routing key of 0-9-1 messages, unless the input contains it.
    """

    def __init__(
        self, data: bytes, name: str = "", *, exchange: str = "", routing_key: str = ""
    ) -> None:
        self.exchange = exchange
        self.routing_key = routing_key
        self.items, self.has_more = _read(data, name or "message")

    def show(
        self,
        number: int = 1,
        *,
        profile: str = "oasis",
        translation: str = DEFAULT_TRANSLATION_PROFILE,
    ) -> Shown:
        """Render one message for the page.

        Args:
            number: the number of the message, from 1; a number out of range is clamped.
            profile: the name of the validation profile.
            translation: the name of the translation profile.

        Raises:
            KeyError: a profile does not exist.
            ImportError: Jinja2 is not installed.
        """
        if not self.items:
            return Shown(pages.render("inspection.html", **_empty_values()))
        number = min(max(number, 1), len(self.items))
        item = self.items[number - 1]
        values = {
            **_empty_values(),
            "found": [] if len(self.items) == 1 else list(map(_list_entry, self.items)),
            "chosen": number,
            "left_out": self.has_more,
        }
        if item.fault:
            values["fault"] = item.fault
            return Shown(pages.render("inspection.html", **values))
        basic = is_basic(item)
        values |= _basic_values(self, item) if basic else _message_values(item, profile)
        # Single values, such as an outcome, cannot be translated.
        if basic or values["kind"] == "message":
            values["translation"] = _translation(self, item, translation)
        octets = item.data if len(item.data) <= _MAX_LINKED_BYTES else b""
        return Shown(
            pages.render("inspection.html", **values),
            base64.urlsafe_b64encode(octets).decode().rstrip("="),
            *published_names(item, self.exchange, self.routing_key),
        )


def _empty_values() -> dict[str, Any]:
    """Return the template variables of a page without a message."""
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
        "shown": _format_value,
        "rows": [],
        "translation": None,
    }


def _read(data: bytes, name: str) -> tuple[list[Item], bool]:
    """Return the first `MAX_MESSAGES` messages in `data`, and whether there are more."""
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
    return items or [Item(name, fault="the input contains no messages")], False


def _list_entry(item: Item) -> dict[str, str]:
    """Return the template variables of an entry in the list of messages."""
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


def _message_values(item: Item, profile: str) -> dict[str, Any]:
    """Return the template variables of a 1.0 message, or of other AMQP values."""
    judged = {
        name: Judged(item, name, max_fields=_MAX_FIELDS)
        for name in dict.fromkeys((profile, *PROFILES))
    }
    chosen = judged[profile]
    return {
        "kind": "message" if chosen.is_message else "values",
        "fault": chosen.fault,
        "verdict": chosen.summary,
        "messages": annotated([chosen.tree()], [item.source], max_octets=_MAX_ANNOTATED_BYTES),
        "profiles": [
            {
                "name": name,
                "about": PROFILES[name].description,
                **_severity_counts(result.violations),
            }
            for name, result in judged.items()
        ]
        if chosen.is_message
        else [],
        "violations": chosen.violations,
        "size": len(item.data),
    }


def _severity_counts(violations: list[Violation]) -> dict[str, Any]:
    errors = sum(violation.severity == "error" for violation in violations)
    return {"errors": errors, "warnings": len(violations) - errors}


def _basic_values(session: Session, item: Item) -> dict[str, Any]:
    """Return the template variables of a 0-9-1 message: its properties, or the decode error."""
    try:
        message = read_basic(item, session.exchange, session.routing_key)
    except AmqpError as error:
        return {"kind": "basic", "fault": str(error)}
    return {"kind": "basic", "rows": _part_rows(message)}


def _part_rows(message: BasicMessage | Message) -> list[tuple[str, str]]:
    """Return (path, shortened text) of each value in a message."""
    return [(path, _format_value(value)) for path, value in parts_of(message)]


def _format_value(value: Any) -> str:
    return format_value(value, _MAX_VALUE_LENGTH)


def _translation(session: Session, item: Item, name: str) -> dict[str, Any]:
    """Return the template variables of a translation: the translated message and the losses."""
    basic = is_basic(item)
    values: dict[str, Any] = {
        "name": name,
        "about": TRANSLATIONS[name].description,
        "target": "1.0" if basic else "0-9-1",
        "refused": "",
        "rows": [],
        "messages": [],
    }
    try:
        translated = translate(
            read_basic(item, session.exchange, session.routing_key)
            if basic
            else read_message(item),
            name,
        )
        octets = encode_message(translated.message)
    except AmqpError as error:
        return {**values, "refused": str(error)}
    if basic:
        tree = parse_tree(octets, limit=_MAX_FIELDS)
        values["messages"] = annotated([tree], max_octets=_MAX_ANNOTATED_BYTES)
        values["messages"][0]["number"] = 1
    else:
        values["rows"] = _part_rows(translated.message)
    hexes = octets.hex() if len(octets) <= _MAX_LINKED_BYTES else ""
    return {**values, "losses": translated.losses, "hex": hexes, "size": len(octets)}


# The page.


def page() -> str:
    """Return the HTML page of the inspector, on which the first example is already rendered.

    Raises:
        ImportError: Jinja2 is not installed.
    """
    example_options = [(name, octets.hex(" ")) for name, octets in examples()]
    example_html = Session(examples()[0][1]).show().html
    return pages.render(
        "inspector.html",
        title="AMQP message inspector",
        script=True,
        examples=example_options,
        profiles=list(PROFILES),
        translations=list(TRANSLATIONS),
        translation=DEFAULT_TRANSLATION_PROFILE,
        shown=example_html,
    )


def worker() -> str:
    """Return the script of the page's worker, which the page loads as ``worker.mjs``."""
    data = resources.files("amqp10msg.pages") / "data" / "inspector_worker.mjs"
    return data.read_text(encoding="utf-8")


def examples() -> list[tuple[str, bytes]]:
    """Return the examples of the page: (name, encoded message)."""
    created = datetime.datetime(2026, 3, 1, 9, 30, tzinfo=datetime.UTC)
    order = Message(
        b'{"id": 4711, "total": "19.90"}',
        header=Header(durable=True, ttl=UInt(60_000)),
        message_annotations={"x-opt-partition-key": "customer-7"},
        properties=Properties(
            message_id=ULong(4711),
            to="orders",
            subject="order.created",
            content_type=Symbol("application/json"),
            creation_time=Timestamp.from_datetime(created),
        ),
        application_properties={"priority": "high", "attempt": 1, "ratio": 0.5},
    ).encode()
    broken = order[:-1]
    repeated_section = Message("hello", properties=Properties(message_id="m-1")).encode()
    repeated_section = repeated_section[: -len(Message("hello").encode())] + repeated_section
    body = b'{"id": 4711}'
    header = encode_content_header(
        BasicProperties(
            content_type="application/json",
            delivery_mode=2,
            priority=5,
            message_id="m-1",
            timestamp=int(created.timestamp()),
            headers={"x-attempt": 1, "origin": "shop"},
        ),
        len(body),
    )
    return [
        ("an order", order),
        ("a truncated order", broken),
        ("a duplicate section", repeated_section),
        ("a message of AMQP 0-9-1", header + body),
    ]
