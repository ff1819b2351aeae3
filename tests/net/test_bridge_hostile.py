"""Hostile peers of a bridge on loopback: memory is bounded, and other routes go on."""

from __future__ import annotations

import asyncio
import socket
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("pika")

from bridge_hostile import (
    BASIC_FLOODS,
    BOUND,
    FLOODS,
    BasicHostile,
    Hostile,
    basic_frame,
    deliver,
    measure,
    once,
)
from pika import spec

from amqp10msg.basic import BasicProperties, encode_content_header
from amqp10msg.net.bridge import (
    Bridge,
    LinkError,
    RouteOptions,
    RouteSpec,
    parse_url,
)
from amqp10msg.net.bridge.options import Waits
from amqp10msg.net.ends.basic_frames import method
from amqp10msg.net.ends.links import open_source, open_target
from amqp10msg.net.ends.terms import Oversized, SourceRequest, TargetRequest
from tests.basic_broker import BasicBroker, Stored
from tests.waiting import TIMEOUT, holds, until

pytestmark = [pytest.mark.once, pytest.mark.usefixtures("in_a_folder")]


#: Of the kinds of the tool: it runs all, with the command.
KINDS = [
    *(("1.0", name) for name in ("random", "tiny transfers", "too many", "echoes")),
    *(("1.0", name) for name in ("attaches", "dispositions", "drops", "oversize")),
    *(("0-9-1", name) for name in ("random", "tiny bodies", "empty bodies", "too many")),
    *(("0-9-1", name) for name in ("returns", "blocked", "drops", "oversize")),
]


def leave(peers: list[Any]) -> None:
    for peer in peers:
        if peer.stream is not None:
            peer.stream.abort()


@pytest.mark.parametrize("end", ["source", "target"])
@pytest.mark.parametrize("protocol, name", KINDS)
def test_flooding_peer_does_not_affect_other_routes(protocol: str, name: str, end: str) -> None:
    """Another route of the process moves its messages in the meantime."""
    count = 30
    sent = [
        Stored(encode_content_header(BasicProperties(message_id=f"m-{i}"), 2), b"xy")
        for i in range(count)
    ]
    peers: list[Any] = []

    def hostile() -> Any:
        made = Hostile(FLOODS[name]()) if protocol == "1.0" else BasicHostile(BASIC_FLOODS[name]())
        peers.append(made)
        return made

    found: list[int] = []

    async def run() -> None:
        loop = asyncio.get_running_loop()
        listener = await loop.create_server(hostile, "127.0.0.1", 0)
        port = listener.sockets[0].getsockname()[1]
        scheme = "amqp" if protocol == "1.0" else "amqp091"
        bad = f"{scheme}://127.0.0.1:{port}/?queue=q"
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
                    await until(
                        lambda: counts.accepted >= count and any(one.flooding for one in peers)
                    )
                    # Far less than came: what is read at a time, the buffers of both sides and
                    # the choke.
                    await holds(lambda: tracemalloc.get_traced_memory()[1] < 12 << 20, 0.3)
                    listener.close()
                    leave(peers)
                    found.append(counts.accepted)
            except LinkError:
                assert found  # the bad route was given up, which is said at the end
            finally:
                tracemalloc.stop()
                listener.close()
                leave(peers)  # those that came since, too

    asyncio.run(run())

    assert [count] == found


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="Linux shows its memory")
def test_memory_of_the_command_is_bounded(tmp_path: Path) -> None:
    """A short form of tools/bridge_hostile.py, which tests all floods at both ends."""
    most, *_ = asyncio.run(measure(FLOODS["too many"], "1.0", "source", 0.1, tmp_path))

    assert 0 < most < BOUND


def test_broker_that_ignores_the_prefetch_count_is_disconnected() -> None:
    """Its unacknowledged messages would fill the memory."""
    came: list[Any] = []

    async def run() -> LinkError:
        loop = asyncio.get_running_loop()
        lost: asyncio.Future[LinkError] = loop.create_future()
        peers: list[BasicHostile] = []

        def hostile() -> BasicHostile:
            peers.append(BasicHostile(BASIC_FLOODS["too many"]()))
            return peers[-1]

        listener = await loop.create_server(hostile, "127.0.0.1", 0)
        port = listener.sockets[0].getsockname()[1]
        request = SourceRequest(
            endpoint=parse_url(f"amqp091://127.0.0.1:{port}/?queue=q"),
            receive=came.append,
            on_lost=lost.set_result,
            window=5,
            max_message=1_000,
            overflow=lambda: Oversized(Path("x"), 1_000),
        )
        async with asyncio.timeout(60):
            await open_source(request)
            error = await lost
        listener.close()
        leave(peers)
        return error

    error = asyncio.run(run())

    assert "1021 unacknowledged messages exceed the prefetch-count of 5" in str(error)
    assert 1_020 == len(came)


@pytest.mark.parametrize("answers", [False, True])
def test_drain_waits_while_outcomes_arrive(answers: bool) -> None:
    async def run() -> int:
        loop = asyncio.get_running_loop()
        async with BasicBroker("from", "to") as broker:
            broker.queues["from"].extend(
                Stored(encode_content_header(BasicProperties(), 1), b"x") for _ in range(6)
            )
            targets = await loop.create_server(lambda: Slow(0.15 if answers else 1e9), "127.0.0.1")
            port = targets.sockets[0].getsockname()[1]
            ends = (broker.url("queue=from"), f"amqp091://127.0.0.1:{port}/?queue=q")
            bridge = Bridge(*ends, RouteOptions(drain=3600.0, waits=Waits(drain_idle=0.4)))
            async with asyncio.timeout(60), bridge:
                (counts,) = bridge.statistics.values()
                await until(lambda: counts.in_flight >= 1)
                bridge.stop()
                await bridge.run()
            targets.close()
            return counts.accepted

    accepted = asyncio.run(run())

    assert (6 if answers else 0) == accepted


@pytest.mark.parametrize("asks", [False, True])
def test_shutdown_timeout_bounds_all_waits(asks: bool) -> None:
    """`end` limits the sum of the waits for outcomes, the length of the source, and closing.

    No peer answers. The last two waits alone would exceed the timeout of the test.
    """
    message = deliver(1, 1) + basic_frame(3, b"x")
    peers: list[Any] = []

    def source() -> BasicHostile:
        made = BasicHostile(once(message))
        peers.append(made)
        return made

    async def run() -> None:
        loop = asyncio.get_running_loop()
        listeners = [
            await loop.create_server(made, "127.0.0.1") for made in (source, lambda: Slow(1e9))
        ]
        ports = [one.sockets[0].getsockname()[1] for one in listeners]
        first, second = (f"amqp091://127.0.0.1:{port}/?queue=q" for port in ports)
        waits = Waits(
            drain_idle=0.3, query_timeout=3600.0, close_timeout=3600.0, shutdown_timeout=0.8
        )
        options = RouteOptions(idle=1.0 if asks else None, waits=waits)
        async with asyncio.timeout(TIMEOUT), Bridge(first, second, options) as bridge:
            (counts,) = bridge.statistics.values()
            await until(lambda: counts.in_flight >= 1)
            bridge.stop()
            await bridge.run()
        leave(peers)
        for one in listeners:
            one.close()

    asyncio.run(run())


def test_silent_management_api_does_not_delay_the_stop() -> None:
    waits = Waits(management_lag=0.0, management_timeout=3600.0, shutdown_timeout=0.8)
    taken: list[socket.socket] = []

    async def run(place: str) -> None:
        async with BasicBroker("from", "to") as broker:
            urls = (broker.url("queue=from"), broker.url("queue=to"))
            options = RouteOptions(idle=0.1, management=place, waits=waits)
            async with asyncio.timeout(TIMEOUT), Bridge(*urls, options):
                taken.append((await asyncio.to_thread(asked.accept))[0])

    with socket.create_server(("127.0.0.1", 0)) as asked:
        asyncio.run(run(f"http://127.0.0.1:{asked.getsockname()[1]}"))
        taken.pop().close()


class Slow(BasicHostile):
    """A broker that confirms a message once per interval."""

    def __init__(self, pause: float) -> None:
        super().__init__(iter(()))
        self.pause = pause

    def go_on(self) -> None:
        self.stream.resume_reading()
        for tag in range(1, 7):
            confirm = method(1, spec.Basic.Ack(tag, False))
            self.loop.call_later(self.pause * tag, self.stream.write, confirm)


# Hostile peers.


class Babbling(asyncio.Protocol):
    """A peer that sends given bytes in small pieces, and then waits."""

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
def test_any_bytes_of_a_peer_raise_link_error(
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
                    endpoint=end, on_outcomes=print, on_room=print, on_lost=print, window=1
                )
            )
        peer.close()

    asyncio.run(run())
