"""Translate a 0-9-1 content header with eight headers to a 1.0 message, and back."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from amqp10msg import Message
from amqp10msg.basic import (
    BasicMessage,
    BasicProperties,
    FieldTable,
    decode_content_header,
    encode_content_header,
)
from amqp10msg.translate import to_amqp10, to_basic
from bench import ours
from bench.harness import Contender, Effort, measure
from bench.report import Figure, Floor

BODY = b"hello"
HEADER = encode_content_header(
    BasicProperties(
        content_type="application/json",
        headers=FieldTable.of(
            [
                ("tenant", "S", "acme"),
                ("retries", "I", 3),
                ("trace", "S", "0af7651916cd43dd8448eb211c80319c"),
                ("urgent", "t", True),
                ("price", "d", 12.5),
                ("big", "l", 2**40),
                ("region", "S", "eu-west-1"),
                ("x-delay", "I", 5000),
            ]
        ),
        delivery_mode=2,
        correlation_id="c-1",
        reply_to="reply-q",
        expiration="60000",
        message_id="m-1",
        timestamp=1_700_000_000,
        user_id="guest",
        app_id="app",
    ),
    len(BODY),
)
PEER = "pamqp + python-qpid-proton"
LEFT_OUT = f"{PEER}: not installed; pip install pamqp python-qpid-proton"


def forth() -> bytes:
    """Decode the content header, translate, encode the 1.0 message."""
    properties = decode_content_header(HEADER).properties
    return to_amqp10(BasicMessage(properties, BODY)).message.encode()


def back(data: bytes) -> bytes:
    """Decode the 1.0 message, translate, encode the content header."""
    basic = to_basic(Message.decode(data)).message
    return encode_content_header(basic.properties, len(basic.body))


def peers() -> tuple[Callable[[], bytes], Callable[[bytes], bytes]] | None:
    """Return both directions written with pamqp and proton; None if one is missing."""
    if find_spec("pamqp") is None or find_spec("proton") is None:
        return None
    header: Any = import_module("pamqp.header")
    commands: Any = import_module("pamqp.commands")
    proton: Any = import_module("proton")
    app_id = proton.symbol("x-opt-app-id")

    def peer_forth() -> bytes:
        frame = header.ContentHeader()
        frame.unmarshal(HEADER)
        given = frame.properties
        made = proton.Message(body=BODY)
        made.content_type = given.content_type
        made.durable = given.delivery_mode == 2
        made.correlation_id = given.correlation_id
        made.reply_to = given.reply_to
        made.ttl = int(given.expiration) / 1000
        made.id = given.message_id
        made.creation_time = given.timestamp.timestamp()
        made.user_id = given.user_id.encode()
        fields = given.headers.items()
        made.properties = {name: value for name, value in fields if not name.startswith("x-")}
        made.annotations = {
            proton.symbol(f"x-opt-{name}"): value for name, value in fields if name.startswith("x-")
        } | {app_id: given.app_id}
        octets: bytes = made.encode()
        return octets

    def peer_back(data: bytes) -> bytes:
        made = proton.Message()
        made.decode(data)
        headers = dict(made.properties)
        annotations = made.annotations
        headers |= {str(name)[6:]: annotations[name] for name in annotations if name != app_id}
        properties = commands.Basic.Properties(
            content_type=str(made.content_type),
            headers=headers,
            delivery_mode=2 if made.durable else 1,
            correlation_id=made.correlation_id,
            reply_to=made.reply_to,
            expiration=str(int(made.ttl * 1000)),
            message_id=made.id,
            timestamp=datetime.datetime.fromtimestamp(made.creation_time, datetime.UTC),
            user_id=made.user_id.decode(),
            app_id=annotations[app_id],
        )
        octets: bytes = header.ContentHeader(0, len(bytes(made.body)), properties).marshal()
        return octets

    return peer_forth, peer_back


def run(effort: Effort) -> Figure:
    """Measure the round trip of each library by its own 1.0 message."""
    ours_10 = forth()
    contenders = [Contender(ours.NAME, lambda: (forth(), back(ours_10)))]
    found = peers()
    if found is not None:
        peer_forth, peer_back = found
        theirs_10 = peer_forth()
        contenders.append(Contender(PEER, lambda: (peer_forth(), peer_back(theirs_10))))
    timings = measure(contenders, effort)
    return Figure(
        key="translate",
        title=f"0-9-1 to 1.0 and back, a content header of {len(HEADER)} bytes with 8 headers",
        timings=timings,
        floors=(Floor("at least 8x faster than pamqp + proton", timings.times(PEER), at_least=8),),
        left_out=() if found is not None else (LEFT_OUT,),
        remarks=("The peers lose types on the way; amqp10msg comes back byte for byte.",),
    )
