"""The spooler over 0-9-1: content headers as they came, and what makes two deliveries one.

The tests with a broker run against the RabbitMQ that AMQP10MSG_RABBITMQ names,
``127.0.0.1:26672`` for example, which knows guest.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import signal
import struct
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10msg.basic import (
    BasicProperties,
    FieldTable,
    decode_content_header,
    encode_content_header,
    encode_properties,
)
from amqp10msg.testing import basic_properties

pika = pytest.importorskip("pika")
pytest.importorskip("pyarrow")

import pyarrow.parquet as pq  # noqa: E402

from amqp10msg.net.ends.basic_frames import BODY, HEADER, Content, FrameError, FrameReader  # noqa: E402
from amqp10msg.net.ends.parquet import Landing, Spooled  # noqa: E402
from amqp10msg.net.spool import Batches, endpoint_of, spool  # noqa: E402
from tests.basic_broker import BasicBroker, Stored, _Peer, running  # noqa: E402
from tests.rabbitmq import BROKER, HEADERS, channels  # noqa: E402
from tests.waiting import wait_until  # noqa: E402

pytestmark = pytest.mark.once

ROOT = Path(__file__).parents[2]
KILLS = int(os.environ.get("AMQP10MSG_KILLS", "3"))
with_broker = pytest.mark.skipif(BROKER is None, reason="AMQP10MSG_RABBITMQ names no RabbitMQ")

FULL = BasicProperties(
    "text/plain",
    headers=HEADERS,
    delivery_mode=1,
    timestamp=2**40,
    type="order",
)


# Frames.


def frames(octets: bytes) -> list[tuple[int, int, bytes]]:
    """Feed bytes to a reader, and return its frames."""
    return list(FrameReader(131_072).feed(octets))


def framed(kind: int, payload: bytes) -> bytes:
    return struct.pack(">BHL", kind, 3, len(payload)) + payload + b"\xce"


@given(basic_properties(), st.integers(0, 2**64 - 1), st.data())
def test_content_header_bytes_are_kept(
    properties: BasicProperties, size: int, data: st.DataObject
) -> None:
    octets = encode_content_header(properties, size)
    both = framed(2, octets) + framed(3, b"body")
    cut = data.draw(st.integers(0, len(both)))

    header, body = frames(both)

    assert ((HEADER, 3, octets), (BODY, 3, b"body")) == (header, body)
    content = Content(0, b"")
    assert (size == 0) is content.add(HEADER, octets, 2**64)
    assert (octets, size) == (content.header, content._missing_size)
    whole = (cut >= len(framed(2, octets))) + (cut == len(both))
    assert whole == len(frames(both[:cut]))


def test_frame_without_frame_end_raises_frame_error() -> None:
    with pytest.raises(FrameError):
        frames(framed(2, encode_content_header(BasicProperties(), 5))[:-1] + b"!")


# A queue of a stand-in.


def landed(sent: list[Stored], folder: Path, query: str = "") -> int:
    """Spool the queue q of a stand-in."""
    broker = BasicBroker("q")
    broker.queues["q"].extend(sent)
    with running(broker), Landing(folder) as landing:
        url = f"amqp://guest:guest@127.0.0.1:{broker.port}/%2f{query}"
        batches = Batches(rows=2, seconds=0.1, idle=0.5)
        total = spool(url, "q", landing, batches, protocol="0-9-1")
        assert not broker.queues["q"]
    return total


def test_headers_that_pika_cannot_decode_are_stored(tmp_path: Path) -> None:
    odd = encode_content_header(BasicProperties(), 5)[:-2] + b"\x20\x00" + b"\0\0\0\x04\1a?\0"
    with pytest.raises(pika.exceptions.InvalidFieldTypeException):
        pika.frame.decode_frame(framed(2, odd))
    sent = [Stored(odd, b"hello"), Stored(encode_content_header(FULL, 0), b"", redelivered=True)]
    sent += [Stored(encode_content_header(BasicProperties(), 9_000), b"x" * 9_000)]

    before = datetime.datetime.now(datetime.UTC)
    assert len(sent) == landed(sent, tmp_path)

    found = rows(tmp_path)
    assert sent == [
        Stored(row["content_header"], row["payload"], row["redelivered"]) for row in found
    ]
    assert {("q", "0-9-1", None, "", "q")} == {
        tuple(row[n] for n in ("address", "protocol", "wire", "exchange", "routing_key"))
        for row in found
    }
    after = datetime.datetime.now(datetime.UTC)
    assert all(before <= row["received"] <= after for row in found)
    assert [b"1", b"2", b"3"] == [row["delivery_tag"] for row in found]
    assert 2 == len(list(tmp_path.glob("*.parquet")))


def test_short_string_that_is_not_utf_8(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deliver = _Peer.deliver_one
    monkeypatch.setattr(_Peer, "deliver_one", lambda self, one, _: deliver(self, one, "n\udcff"))

    landed([Stored(encode_content_header(BasicProperties(), 1), b"b")], tmp_path)

    assert ["n\\xff"] == [row["routing_key"] for row in rows(tmp_path)]


def test_parameters_of_the_bridge_are_accepted(tmp_path: Path) -> None:
    sent = [Stored(encode_content_header(BasicProperties(), 1), b"b")]

    assert 1 == landed(sent, tmp_path, "?heartbeat=9&connection_timeout=5000")


@pytest.mark.parametrize(
    "parameter, instead",
    [
        ("socket_timeout=5", "connection_timeout, in milliseconds"),
        ("stack_timeout=5", "connection_timeout, in milliseconds"),
        ("ssl_options={'ca_certs': 'ca.pem'}", "cacertfile"),
        ("frame_max=9000", "is not a parameter of a URL"),
        ("hartbeat=1", "heartbeat"),
        ("queue=other", "separately"),
    ],
)
def test_other_parameters_are_refused_with_what_to_use(parameter: str, instead: str) -> None:
    """Those of pika have the names that RabbitMQ's URIs use."""
    with pytest.raises(ValueError, match=instead) as caught:
        endpoint_of(f"amqp://127.0.0.1/%2f?{parameter}", "q", "0-9-1")

    assert parameter.partition("=")[0] in str(caught.value)


# Identities.


def delivery(properties: BasicProperties, body: bytes = b"b") -> Spooled:
    header = encode_content_header(properties, len(body))
    return Spooled("q", 0, b"1", False, None, header, body)


@given(basic_properties(), st.integers(0, 9))
def test_redelivery_keeps_the_identity(properties: BasicProperties, count: int) -> None:
    counted = attrs.evolve(properties)
    entries = FieldTable(properties.headers or {}).entries
    counted.headers = FieldTable.of([*entries, ("x-delivery-count", "l", count)])

    assert delivery(properties).identity == delivery(counted).identity


def test_identities_of_different_messages_differ() -> None:
    made = [
        delivery(BasicProperties(message_id="m")),
        delivery(BasicProperties(message_id="m\udcff")),
        delivery(BasicProperties(message_id="m\\udcff")),
        delivery(BasicProperties()),
        delivery(BasicProperties(type="t")),
        delivery(BasicProperties(), b"c"),
        Spooled("q", 0, b"1", False, None, b"no content header", b"b"),
    ]

    found = [one.identity for one in made]

    assert ["string:m", "octets:6dff", "string:m\\udcff"] == found[:3]
    assert len(made) == len(set(found))


# A queue of a broker.


class Exact(Any if TYPE_CHECKING else pika.BasicProperties):  # type: ignore[misc]
    """Properties that are sent with exactly the given bytes."""

    def __init__(self, properties: BasicProperties) -> None:
        super().__init__()
        self._octets = encode_properties(properties)

    def encode(self) -> list[bytes]:
        return [self._octets]


@attrs.frozen
class Queue:
    """A queue, and a channel to publish to it."""

    name: str
    channel: Any

    @property
    def url(self) -> str:
        return f"amqp://guest:guest@{BROKER}/%2f"

    def publish(self, properties: BasicProperties, body: bytes) -> None:
        self.channel.basic_publish("", self.name, body, Exact(properties))


@pytest.fixture
def queue() -> Iterator[Queue]:
    with channels() as channel:
        name = f"amqp10msg-{uuid.uuid4()}"
        channel.queue_declare(name)
        yield Queue(name, channel)
        channel.queue_delete(name)


def rows(folder: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for path in sorted(folder.glob("*.parquet")):
        found += pq.read_table(path).to_pylist()
    return found


@with_broker
def test_all_properties_are_stored(queue: Queue, tmp_path: Path) -> None:
    sent = [(FULL, b"one"), (BasicProperties(), b""), (BasicProperties(message_id="m"), b"x" * 9)]
    for properties, body in sent:
        queue.publish(properties, body)

    with Landing(tmp_path) as landing:
        batches = Batches(rows=2, seconds=0.1, idle=0.5)
        warned: list[str] = []
        total = spool(
            queue.url,
            queue.name,
            landing,
            batches,
            protocol="0-9-1",
            warn=warned.append,
        )

    assert ["delivery-limit" in text for text in warned] == [True]
    found = rows(tmp_path)
    assert len(sent) == total == len(found)
    read = [decode_content_header(row["content_header"]) for row in found]
    assert [encode_properties(properties) for properties, _ in sent] == [
        encode_properties(header.properties) for header in read
    ]
    assert [len(body) for _, body in sent] == [header.body_size for header in read]
    assert [body for _, body in sent] == [row["payload"] for row in found]
    assert {(queue.name, "0-9-1", False, "", queue.name)} == {
        tuple(row[n] for n in ("address", "protocol", "redelivered", "exchange", "routing_key"))
        for row in found
    }
    assert 0 == queue.channel.queue_declare(queue.name, passive=True).method.message_count


def test_unreachable_broker_raises_connection_error(tmp_path: Path) -> None:
    expected = pytest.raises(ConnectionError, match=r"q at 127\.0\.0\.1:1: ")
    with Landing(tmp_path) as landing, expected:
        spool("amqp://127.0.0.1:1/%2f", "q", landing, protocol="0-9-1")


@with_broker
def test_missing_queue_raises_connection_error(queue: Queue, tmp_path: Path) -> None:
    with Landing(tmp_path) as landing, pytest.raises(ConnectionError, match="no queue"):
        spool(queue.url, f"{queue.name}-not", landing, protocol="0-9-1", warn=lambda _: None)


@pytest.mark.kills
@with_broker
def test_killed_spooler_loses_no_message(queue: Queue, tmp_path: Path) -> None:
    """AMQP10MSG_KILLS sets the number of kills."""
    count = 1_000 * KILLS
    for number in range(count):
        queue.publish(BasicProperties(message_id=f"m-{number}"), b"x" * (number % 300))
    order = Random(KILLS)
    command = [
        *(sys.executable, "-m", "amqp10msg", "spool", "--protocol", "0-9-1"),
        *(queue.url, queue.name, str(tmp_path), "--rows", "50", "--seconds", "0.05"),
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    for _ in range(KILLS):
        wanted = len(list(tmp_path.glob("*.parquet"))) + order.randint(1, 12)
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as process:
            with contextlib.suppress(TimeoutError):  # few messages may be left
                wait_until(lambda: len(list(tmp_path.glob("*.parquet"))) >= wanted, 30)  # noqa: B023  (called here)
            time.sleep(order.uniform(0, 0.02))  # to kill it at different places of its work
            process.send_signal(signal.SIGKILL)
    last = subprocess.run(
        [*command, "--idle", "1"], env=environment, capture_output=True, text=True, check=False
    )

    assert 0 == last.returncode
    # It says nothing but the warning of the start.
    assert ["delivery-limit" in line for line in last.stderr.splitlines()] == [True]
    found = {row["identity"]: row["payload"] for row in rows(tmp_path)}
    assert {f"string:m-{i}": b"x" * (i % 300) for i in range(count)} == found
