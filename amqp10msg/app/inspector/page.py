"""The inspector as a page: a file for a browser, which runs this library in a worker.

The page needs ``worker.mjs``, the files of Pyodide and ``amqp10msg.zip`` beside it;
``make inspector`` puts them there.
"""

from __future__ import annotations

import datetime
from importlib import resources

from amqp10msg.app import pages
from amqp10msg.app.inspector.session import TRANSLATION, Session
from amqp10msg.basic import BasicProperties, encode_content_header
from amqp10msg.message import Message
from amqp10msg.sections import Header, Properties
from amqp10msg.translate import PROFILES as TRANSLATIONS
from amqp10msg.validation import PROFILES
from amqp10msg.wire.primitives import Symbol, Timestamp, UInt, ULong


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
