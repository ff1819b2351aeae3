"""Hostile peers of a bridge, on sockets of loopback: it neither ends nor grows, others go on."""

from __future__ import annotations

import asyncio
import itertools
import random
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("pika")

from pika import spec

from amqp10msg import Described, UInt, ULong, encode_value
from amqp10msg.basic import BasicProperties, encode_content_header
from amqp10msg.delivery import Source, Target
from amqp10msg.net import transport
from amqp10msg.net.bridge import Bridge, LinkError, RouteOptions, RouteSpec, parse_url
from amqp10msg.net.bridge.basic import method
from amqp10msg.net.bridge.links import open_source, open_target
from amqp10msg.net.bridge.terms import Oversized, SourceRequest, TargetRequest
from amqp10msg.net.transport import SaslServer
from tests.basic_broker import BasicBroker, Stored

pytestmark = pytest.mark.once


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def frame(code: int, *fields: Any, payload: bytes = b"") -> bytes:
    body = encode_value(Described(ULong(code), list(fields))) + payload
    return (len(body) + 8).to_bytes(4, "big") + b"\2\0\0\0" + body


def transfer(number: int | None, more: bool, payload: bytes) -> bytes:
    tag = None if number is None else number.to_bytes(4, "big")
    identity = None if number is None else UInt(number)
    return frame(0x14, UInt(0), identity, tag, UInt(0), False, more, payload=payload)


def floods() -> Iterator[bytes]:
    """Yield for ever what a peer may send, a piece at a time."""
    drawn = random.Random(5)
    while True:
        yield drawn.randbytes(4_096)


def tiny_transfers() -> Iterator[bytes]:
    """Yield one message for ever, a byte or none at a time."""
    yield transfer(0, True, b"")
    while True:
        yield transfer(None, True, b"") * 50 + transfer(None, True, b"x")


def many_transfers() -> Iterator[bytes]:
    """Yield messages beyond the credit."""
    for number in range(1 << 30):
        yield transfer(number, False, b"\0\x53\x75\xa0\1x")


def echoes() -> Iterator[bytes]:
    """Yield flows that ask for an answer each, which the peer does not read."""
    fields = [UInt(0), UInt(99), UInt(0), UInt(99), UInt(0), UInt(0), UInt(9), None, False, True]
    while True:
        yield frame(0x13, *fields) * 50


def attaches() -> Iterator[bytes]:
    """Yield links that nobody asked for."""
    for number in range(1 << 30):
        yield frame(0x12, f"l{number}", UInt(1), True) + frame(0x16, UInt(1), True)


def dispositions() -> Iterator[bytes]:
    """Yield outcomes of what was never sent, in the longest ranges."""
    accepted = Described(ULong(0x24), [])
    while True:
        yield frame(0x15, True, UInt(0), UInt(2**32 - 1), True, accepted) * 50


def drops() -> Iterator[bytes]:
    """Yield a frame that is never complete, a byte at a time."""
    yield b"\0\0\xff\xff\2\0\0\0"
    while True:
        yield b"x"


def oversize() -> Iterator[bytes]:
    """Yield a frame of 4 GiB."""
    yield b"\xff\xff\xff\xff\2\0\0\0"
    while True:
        yield b"x" * 4_096


class Hostile(asyncio.Protocol, transport.Handler):
    """Opens and attaches as a server does, then floods for as long as the bridge stays."""

    def __init__(self, flood: Iterator[bytes]) -> None:
        self.flood = flood
        self.sasl = SaslServer(anonymous=True, users={})
        self.engine = transport.Connection(self, transport.Open(container_id="hostile"))
        self.stream: Any = None
        self.sent = 0
        self.flooding = self.paused = False

    def connection_made(self, transport: Any) -> None:
        self.stream = transport
        self.loop = asyncio.get_running_loop()

    def data_received(self, data: bytes) -> None:
        if not self.sasl.done:
            reply, data = self.sasl.receive(data)
            self.stream.write(reply)
        self.engine.feed(data)
        while self.engine.step():
            pass
        self.stream.write(self.engine.take())
        if self.flooding:
            self.stream.pause_reading()
            self.go_on()

    def on_open(self) -> None:
        self.engine.open()

    def on_begin(self, session: transport.Session) -> None:
        session.begin()

    def on_attach(self, link: transport.Link) -> None:
        link.attach(source=Source(address="q"), target=Target(address="q"))
        if not link.sends:
            link.grant(3)
        self.flooding = True

    def pause_writing(self) -> None:
        self.paused = True

    def resume_writing(self) -> None:
        self.paused = False
        self.go_on()

    def go_on(self) -> None:
        if self.paused or self.stream.is_closing():
            return
        piece = b"".join(itertools.islice(self.flood, 20))
        self.sent += len(piece)
        self.stream.write(piece)
        self.loop.call_soon(self.go_on)


FLOODS = {
    "random": floods,
    "tiny transfers": tiny_transfers,
    "too many": many_transfers,
    "echoes": echoes,
    "attaches": attaches,
    "dispositions": dispositions,
    "drops": drops,
    "oversize": oversize,
}


def leave(peers: list[Hostile]) -> None:
    for peer in peers:
        if peer.stream is not None:
            peer.stream.abort()


@pytest.mark.parametrize("end", ["source", "target"])
@pytest.mark.parametrize("name", sorted(FLOODS))
def test_a_flood_ends_nothing_and_grows_nothing(name: str, end: str) -> None:
    """Another route of the same process moves its messages meanwhile."""
    count = 30
    sent = [
        Stored(encode_content_header(BasicProperties(message_id=f"m-{i}"), 2), b"xy")
        for i in range(count)
    ]
    peers: list[Hostile] = []

    def hostile() -> Hostile:
        peers.append(Hostile(FLOODS[name]()))
        return peers[-1]

    async def run() -> tuple[int, int]:
        loop = asyncio.get_running_loop()
        listener = await loop.create_server(hostile, "127.0.0.1", 0)
        port = listener.sockets[0].getsockname()[1]
        bad = f"amqp://127.0.0.1:{port}/q"
        given = RouteOptions(window=30, backoff=0.01, max_backoff=0.02, max_message=10_000)
        async with BasicBroker("from", "to", "bad") as broker:
            # A message of its own each, so that the target is sent something, too.
            broker.queues["bad"].extend(sent[:5])
            broker.queues["from"].extend(sent)
            ends = (bad, broker.url("queue=to"))
            if end == "target":
                ends = (broker.url("queue=bad"), bad)
            routes = [
                RouteSpec(*ends, given, name="bad"),
                RouteSpec(broker.url("queue=from"), broker.url("queue=to"), given, name="good"),
            ]
            tracemalloc.start()
            try:
                async with asyncio.timeout(30), Bridge(routes) as bridge:
                    counts = bridge.statistics["good"]
                    while counts.accepted < count or not peers or peers[0].sent < 2_000:
                        await asyncio.sleep(0.01)
                    while sum(peer.sent for peer in peers) < 100_000 and name != "drops":
                        await asyncio.sleep(0.01)
                    most = tracemalloc.get_traced_memory()[1]
                    listener.close()
                    leave(peers)
                    return counts.accepted, most
            finally:
                tracemalloc.stop()
                listener.close()
                leave(peers)  # those that came since, too

    accepted, most = asyncio.run(run())

    assert count == accepted
    # Far less than came: what is read at a time, the buffers of both sides and the choke.
    assert most < 12 << 20


# Hostile peers.


class Babbling(asyncio.Protocol):
    """Sends some bytes to whoever connects, a few at a time, and waits."""

    def __init__(self, octets: bytes) -> None:
        self.octets = octets

    def connection_made(self, transport: Any) -> None:
        for at in range(0, len(self.octets), 7):
            transport.write(self.octets[at : at + 7])


HEADERS = {
    "amqp091": method(0, spec.Connection.Start(0, 9, {}, "PLAIN", "en_US")),
    "amqp": b"AMQP\x03\x01\x00\x00"
    + bytes.fromhex("0000001c02010000005340c00f01e00c01a309414e4f4e594d4f5553"),
}


@settings(max_examples=15)
@given(st.sampled_from(sorted(HEADERS)), st.booleans(), st.binary(max_size=200))
def test_whatever_a_peer_says_is_an_error_and_no_more(
    scheme: str, begins_well: bool, octets: bytes
) -> None:
    sent = HEADERS[scheme] * begins_well + octets

    async def run() -> None:
        loop = asyncio.get_running_loop()
        peer = await loop.create_server(lambda: Babbling(sent), "127.0.0.1", 0)
        port = peer.sockets[0].getsockname()[1]
        url = f"{scheme}://127.0.0.1:{port}/?queue=q&connection_timeout=50"
        end = parse_url(url)
        with pytest.raises(LinkError):
            await open_source(
                SourceRequest(
                    endpoint=end,
                    receive=print,
                    on_lost=print,
                    window=1,
                    max_message=1_000,
                    overflow=lambda: Oversized(Path("x"), 1_000),
                )
            )
        with pytest.raises(LinkError):
            await open_target(
                TargetRequest(
                    endpoint=end, on_outcome=print, on_room=print, on_lost=print, window=1
                )
            )
        peer.close()

    asyncio.run(run())
