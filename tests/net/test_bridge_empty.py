"""Whether a bridge ends when its source is empty, and how it reports remaining messages."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

pytest.importorskip("pika")

from amqp10msg import Message
from amqp10msg.app.cli._live import show_counts
from amqp10msg.delivery.node import Capacity
from amqp10msg.net.bridge import (
    Bridge,
    LinkError,
    RouteSpec,
    Statistics,
    counting,
    parse_url,
)
from amqp10msg.net.bridge.context import RouteContext
from amqp10msg.net.bridge.ending import Ending
from amqp10msg.net.bridge.process import status_of
from amqp10msg.net.bridge.report import as_html, as_json
from amqp10msg.net.ends.counts import basic_endpoint_of
from amqp10msg.net.ends.links import open_source
from amqp10msg.net.ends.terms import Depth, SourceRequest
from amqp10msg.net.serve import Server
from tests.basic_broker import BasicBroker, Stored, frame
from tests.bridging import bodies, bridged, numbered, options, short_waits
from tests.management_api import management
from tests.waiting import holds, until

pytestmark = pytest.mark.once


@pytest.fixture(autouse=True)
def _quick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    short_waits(monkeypatch, query_interval=0.1, query_timeout=1.0)


@pytest.fixture(params=["amqp10msg", "Broker"])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A broker of 1.0 that reports available messages, and one that is not known to report them."""
    with Server(accept_durable=True, properties={"product": request.param}) as made:
        yield made


def ending_of(source: str, counts: Statistics) -> Ending:
    endpoint, logger = parse_url(source), logging.getLogger("amqp10msg.test")
    context = RouteContext("r", endpoint, endpoint, options(), logger, statistics=counts)
    return Ending(context)


def run(
    made: Callable[[BasicBroker], Awaitable[Any]], *names: str, **streams: Any
) -> tuple[BasicBroker, Any]:
    async def run() -> tuple[BasicBroker, Any]:
        async with BasicBroker("from", "to", *names) as broker:
            broker.streams.update(streams)
            return broker, await made(broker)

    return asyncio.run(run())


class Gate:
    """A proxy to a server that forwards the server's answers only while it is open."""

    def __init__(self, server: Server) -> None:
        self._port = server.port
        self.is_open = True
        self._writers: list[asyncio.StreamWriter] = []
        self._tasks: list[asyncio.Future[Any]] = []

    async def __aenter__(self) -> str:
        self._listener = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return f"amqp://127.0.0.1:{self._listener.sockets[0].getsockname()[1]}/a"

    async def __aexit__(self, *_: object) -> None:
        self._listener.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for writer in self._writers:
            writer.transport.abort()
        await asyncio.sleep(0)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._port)
        self._writers += [writer, far_writer]
        for one, other in ((reader, far_writer), (far_reader, writer)):
            self._tasks.append(asyncio.ensure_future(self._copy(one, other, other is writer)))

    async def _copy(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, back: bool
    ) -> None:
        while data := await reader.read(1 << 16):
            await until(lambda: self.is_open or not back)
            writer.write(data)
        writer.close()


# The source is silent.


def test_temporarily_silent_source_is_emptied() -> None:
    async def made(broker: BasicBroker) -> Statistics:
        broker.queues["from"].extend(numbered(200))

        def refuses(stored: Any) -> str:
            broker.silent = broker.silent or stored.body == b"60"
            return ""

        broker.refuses = refuses
        moved = asyncio.ensure_future(
            bridged(broker.url("queue=from"), broker.url("queue=to"), idle=0.1)
        )
        await until(lambda: broker.silent)
        await holds(lambda: not moved.done(), 0.4)
        assert broker.queues["from"]
        broker.refuses = lambda _: ""
        broker.silent = False
        broker.serve()
        return await moved

    broker, counts = run(made)

    assert {one.body for one in numbered(200)} == set(bodies(broker.queues["to"]))
    assert ("empty", 0, True) == (counts.ending, counts.remaining, counts.is_empty)
    assert 0 == status_of([counts])


def test_stalled_route_reports_the_remaining_messages() -> None:
    async def made(broker: BasicBroker) -> Statistics:
        broker.queues["from"].extend(numbered(30))
        broker.silent = True
        return await bridged(broker.url("queue=from"), broker.url("queue=to"), idle=0.1, stall=0.5)

    _, counts = run(made)

    assert ("stalled", 30) == (counts.ending, counts.remaining)
    assert 3 == status_of([counts])


def test_unanswered_query_does_not_count_as_zero(server: Server) -> None:
    server.publish("a", Message("one"))

    async def made(broker: BasicBroker) -> Statistics:
        gate = Gate(server)
        async with gate as source:
            moved = asyncio.ensure_future(
                bridged(source, broker.url("queue=to"), idle=0.1, stall=0.7, drain=0.1)
            )
            await until(lambda: len(broker.queues["to"]) == 1)
            gate.is_open = False
            server.publish("a", Message("two"))
            return await moved

    _, counts = run(made)

    assert ("stalled", None) == (counts.ending, counts.remaining)
    assert "no answer" in counts.uncounted
    assert 4 == status_of([counts])


def test_temporarily_silent_1_0_source_is_emptied(server: Server) -> None:
    for number in range(100):
        server.publish("a", Message(b"%d" % number))

    async def made(broker: BasicBroker) -> Statistics:
        gate = Gate(server)
        async with gate as source:
            moved = asyncio.ensure_future(
                bridged(source, broker.url("queue=to"), idle=0.1, sole_consumer=True)
            )
            await until(lambda: len(broker.queues["to"]) >= 30)
            gate.is_open = False
            await holds(lambda: not moved.done(), 0.4)
            gate.is_open = True
            return await moved

    broker, counts = run(made)

    assert 100 == len(broker.queues["to"])
    assert ("empty", 0, 0) == (counts.ending, counts.remaining, status_of([counts]))


def test_failed_route_reports_the_remaining_messages() -> None:
    async def made(broker: BasicBroker) -> Statistics:
        broker.queues["from"].extend(numbered(30))
        broker.chokes = lambda stored: stored.body == b"12"
        urls = (broker.url("queue=from"), broker.url("queue=to"))
        async with asyncio.timeout(60):
            bridge = Bridge(*urls, options(idle=0.1))
            with pytest.raises(LinkError, match="3 times in a row"):
                async with bridge:
                    await bridge.run()
        return bridge.routes[0].statistics

    _, counts = run(made)

    assert ("failed", 18) == (counts.ending, counts.remaining)


def test_deadline_ends_a_route_with_a_full_target() -> None:
    async def made(broker: BasicBroker) -> Statistics:
        broker.queues["from"].extend(numbered(50))
        broker.refuses = lambda _: "nack"
        urls = (broker.url("queue=from"), broker.url("queue=to"))
        return await bridged(*urls, idle=0.1, deadline=0.5, drain=0)

    broker, counts = run(made)

    assert ("deadline", 50, 3) == (counts.ending, counts.remaining, status_of([counts]))
    assert 50 == len(broker.queues["from"])
    assert 0 < counts.received == counts.returned == counts.as_dict()["returned"]


def test_stopped_route_returns_unsettled_messages_and_counts_them() -> None:
    async def made(broker: BasicBroker) -> Statistics:
        broker.queues["from"].extend(numbered(50))
        broker.refuses = lambda _: "nack" if len(broker.queues["to"]) >= 20 else ""
        return await bridged(
            broker.url("queue=from"), broker.url("queue=to"), idle=0.1, deadline=0.5, drain=0
        )

    broker, counts = run(made)

    assert 20 == counts.accepted == len(broker.queues["to"])
    assert 0 < counts.returned == counts.received - counts.accepted
    assert 30 == counts.remaining == len(broker.queues["from"])


def test_full_target_of_amqp10_is_waited_for() -> None:
    """The target accepts three messages; the others are neither rejected nor quarantined."""

    async def made(broker: BasicBroker) -> Statistics:
        broker.queues["from"].extend(numbered(10))
        with Server(capacity=Capacity(messages=3)) as server:
            target = f"{server.url}/to"
            counts = await bridged(
                broker.url("queue=from"), target, idle=0.1, deadline=0.5, drain=0
            )
            assert 3 == len(server.messages("to"))
        return counts

    _, counts = run(made)

    assert (3, 7, 7) == (counts.accepted, counts.remaining, counts.returned)
    assert ["full"] == list(counts.refused)
    assert not counts.quarantined


# Others hold messages.


async def hold(broker: BasicBroker, count: int) -> Any:
    """Consume messages without settling them."""
    from amqp10msg.net.ends.basic import open_source  # noqa: PLC0415
    from amqp10msg.net.ends.terms import SourceRequest  # noqa: PLC0415

    held: list[Any] = []
    link = await open_source(
        SourceRequest(
            endpoint=parse_url(broker.url("queue=from")),
            receive=held.extend,
            on_lost=lambda _: None,
            window=count,
            max_message=1_000,
            overflow=lambda: None,  # type: ignore[arg-type,return-value]
        )
    )
    await until(lambda: len(held) == count)
    return link


@pytest.mark.parametrize("known", [None, 0, 3])
def test_other_consumers_may_hold_messages(known: int | None, monkeypatch: Any) -> None:
    """Only RabbitMQ's management API reports how many."""
    short_waits(monkeypatch, query_interval=0.1, query_timeout=1.0, management_lag=0.1)

    async def made(broker: BasicBroker, api: str | None = None) -> Statistics:
        broker.queues["from"].extend(numbered(23))
        other = await hold(broker, 3)
        counts = await bridged(
            broker.url("queue=from"),
            broker.url("queue=to"),
            idle=0.1,
            stall=30.0 if known == 0 else 0.6,  # which a busy machine reaches
            management=api,
        )
        other.abort()
        return counts

    if known is None:
        _, counts = run(made)
        assert ("stalled", 0, 1, None) == (
            *(counts.ending, counts.remaining, counts.others),
            counts.unacknowledged,
        )
        assert 4 == status_of([counts])
        return
    with management([{"name": "from", "messages_unacknowledged": known}]) as api:
        _, counts = run(lambda broker: made(broker, api))
    ending = "stalled" if known else "empty"
    assert (ending, 0, known) == (counts.ending, counts.remaining, counts.unacknowledged)
    assert (3 if known else 0) == status_of([counts])


@pytest.mark.parametrize("server", ["Broker"], indirect=True)
@pytest.mark.parametrize("sole", [False, True])
def test_zero_count_is_inconclusive_with_unknown_consumers(server: Server, sole: bool) -> None:
    server.publish("a", Message(b"1"))

    async def made(broker: BasicBroker) -> Statistics:
        urls = (f"{server.url}/a", broker.url("queue=to"))
        return await bridged(*urls, idle=0.1, stall=0.6, sole_consumer=sole)

    _, counts = run(made)

    assert 1 == counts.accepted
    expected = ("empty", 0, 0, 0) if sole else ("stalled", 0, None, 4)
    assert expected == (counts.ending, counts.remaining, counts.others, status_of([counts]))
    assert sole == counts.is_empty


@pytest.mark.parametrize("sole", [False, True])
def test_zero_count_is_inconclusive_if_rabbitmq_hides_consumers(sole: bool) -> None:
    """Over 1.0, RabbitMQ reports ready messages only, and it may refuse 0-9-1 connections."""

    @attrs.define
    class Link:
        peer_product: str = "RabbitMQ 4.0.5"
        incomplete: bool = False

        async def count(self) -> Depth:
            return Depth(ready=0)

    async def asked() -> Depth:
        closed = "amqp://127.0.0.1:1/queues/from"
        asks = counting.Counting(parse_url(closed), None, sole=sole)
        return await asks.count_now(Link(), None, 0)

    depth = asyncio.run(asked())
    counts = Statistics(asked=True, remaining=depth.ready, others=depth.other_consumers)

    assert (0, 0 if sole else None) == (depth.ready, depth.other_consumers)
    assert (0 if sole else 4) == status_of([counts])
    assert bool(depth.reason) != sole


# What is ready, what others hold, how many others there are; the status, and what is said of it.
_KNOWN = [
    (0, 0, None, 0, None, "0"),
    (0, 0, 0, 0, None, "0"),
    (0, 0, 2, 0, None, "0"),
    (0, None, 0, 0, None, "0"),
    (0, 3, None, 3, "3 messages held by other", "0, and 3 held by other consumers"),
    (0, 3, 0, 3, "3 messages held by other", "0, and 3 held by other consumers"),
    (0, 3, 2, 3, "3 messages held by other", "0, and 3 held by other consumers"),
    (0, None, 2, 4, "2 other consumers of", "0, and an unknown number held by other consumers"),
    (0, None, None, 4, "the source: WHY", "0, and an unknown number held by other consumers"),
    (7, 0, 0, 3, "7 messages left", "7"),
    (7, None, 0, 3, "7 messages left", "7"),
    (7, None, 2, 3, "7 messages left", "7, and an unknown number held by other consumers"),
    (7, None, None, 3, "7 messages left", "7, and an unknown number held by other consumers"),
    (7, 3, None, 3, "7 messages left", "7, and 3 held by other consumers"),
    (None, 0, 0, 4, "could not be counted: WHY", "could not be counted"),
    (None, None, 0, 4, "could not be counted: WHY", "could not be counted"),
    (None, None, 2, 4, "could not be counted: WHY", "could not be counted"),
    (None, None, None, 4, "could not be counted: WHY", "could not be counted"),
    (None, 3, None, 3, "could not be counted: WHY", "could not be counted"),
]


@pytest.mark.parametrize("ready, held, others, status, said, shown", _KNOWN)
def test_status_is_empty_only_if_all_counts_are_known(
    ready: int | None,
    held: int | None,
    others: int | None,
    status: int,
    said: str | None,
    shown: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    counts = Statistics()
    until = ending_of("amqp://h/a", counts)
    until.store_counts(
        Depth(ready=ready, other_consumers=others, unacknowledged=held, reason="WHY"), 0
    )

    assert status == status_of([counts])
    assert (status == 0) == counts.is_empty
    show_counts({"r": counts})
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("r: ")]
    assert (said is None) == (not lines)
    assert said is None or said in " ".join(lines)
    spec = RouteSpec("amqp://h/a", "amqp://h/b", name="r")
    assert f">{shown}<" in as_html([spec], {"r": counts})
    assert [counts.is_empty] == [
        one["empty"] for one in json.loads(as_json([spec], {"r": counts}))["routes"]
    ]


@attrs.define
class _Answering:
    """A source that reports a given depth."""

    peer_product: str
    depth: Depth
    incomplete: bool = False

    async def count(self) -> Depth:
        return self.depth


@pytest.mark.parametrize("source", ["amqp://127.0.0.1:1/a", "amqp://127.0.0.1:1//exchanges/e"])
@pytest.mark.parametrize("product", ["RabbitMQ 4.0.5", "RabbitMQ 3.10.25", "Broker", ""])
@pytest.mark.parametrize("over_0_9_1", [None, 0, 1, 3])
def test_source_is_empty_only_if_broker_or_user_confirms_it(
    source: str, product: str, over_0_9_1: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For every count of other consumers over 1.0, and every answer or error over 0-9-1."""

    async def declared(*_: Any) -> Depth:
        if over_0_9_1 is None:
            raise LinkError("refused")
        return Depth(ready=0, other_consumers=over_0_9_1)

    monkeypatch.setattr(counting, "count_queue", declared)

    async def asked(depth: Depth, sole: bool) -> Depth:
        asks = counting.Counting(parse_url(source), None, sole=sole)
        return await asks.count_now(_Answering(product, depth), None, 0)

    for held, others, sole in itertools.product((None, 0, 2), (None, 0, 2), (False, True)):
        depth = asyncio.run(
            asked(Depth(ready=0, unacknowledged=held, other_consumers=others), sole)
        )
        counts = Statistics()
        until = ending_of(source, counts)
        until.store_counts(depth, 0)
        # The route itself is one of the consumers that RabbitMQ counts.
        asks = others is None and product.startswith("RabbitMQ") and source.endswith("/a")
        known = max(over_0_9_1 - 1, 0) if asks and over_0_9_1 is not None else others
        expected = 0 if held == 0 else 3
        if held is None:
            expected = 0 if known == 0 or (known is None and sole) else 4
        assert expected == status_of([counts]), (held, others, sole, depth)
        if expected == 4 and not known:
            assert depth.reason


@pytest.mark.parametrize("source", ["amqp://127.0.0.1:1/a", "amqp://127.0.0.1:1//exchanges/e"])
@pytest.mark.parametrize("following", [None, 0, 7])
def test_uncountable_stream_is_not_empty(source: str, following: int | None) -> None:
    async def asked() -> Depth:
        asks = counting.Counting(parse_url(f"{source}?offset=first"), None, sole=True)
        link = _Answering("Broker", Depth(ready=0))
        return await asks.count_now(link, following, 0)

    depth = asyncio.run(asked())
    counts = Statistics(asked=True, remaining=depth.ready, others=depth.other_consumers)

    assert (None, 4) == (depth.ready, status_of([counts]))
    assert depth.reason


@pytest.mark.parametrize("server", ["amqp10msg"], indirect=True)
def test_own_server_reports_messages_of_other_consumers(server: Server) -> None:
    for number in range(5):
        server.publish("a", Message(b"%d" % number))

    async def made(broker: BasicBroker) -> Statistics:
        held: list[Any] = []
        other = await open_source(
            SourceRequest(
                endpoint=parse_url(f"{server.url}/a"),
                receive=held.extend,
                on_lost=lambda _: None,
                window=2,
                max_message=1_000,
                overflow=lambda: None,  # type: ignore[arg-type,return-value]
            )
        )
        await until(lambda: len(held) == 2)
        counts = await bridged(
            f"{server.url}/a", broker.url("queue=to"), idle=0.1, stall=0.6, window=10
        )
        other.abort()
        return counts

    _, counts = run(made)

    assert ("stalled", 3, 0, 2) == (
        *(counts.ending, counts.accepted, counts.remaining, counts.unacknowledged),
    )
    assert 3 == status_of([counts])


def test_silent_management_api_is_inconclusive(monkeypatch: Any) -> None:
    short_waits(monkeypatch, query_interval=0.1, query_timeout=1.0, management_lag=0.1)

    async def made(broker: BasicBroker) -> Statistics:
        return await bridged(
            broker.url("queue=from"),
            broker.url("queue=to"),
            idle=0.1,
            stall=3.0,
            management="http://127.0.0.1:1",
        )

    _, counts = run(made)

    assert ("stalled", None, 4) == (counts.ending, counts.remaining, status_of([counts]))
    assert "http://127.0.0.1:1/api/queues/%2F/from" in counts.uncounted


def test_messages_requeued_by_the_filter_remain() -> None:
    async def made(broker: BasicBroker) -> Statistics:
        broker.queues["from"].extend(numbered(10))
        return await bridged(
            broker.url("queue=from"),
            broker.url("queue=to"),
            idle=0.2,
            match=lambda basic: int(basic.body) % 2 == 0,
            max_backoff=60,
        )

    broker, counts = run(made)

    assert ("empty", 5, 3) == (counts.ending, counts.remaining, status_of([counts]))
    assert 5 == len(broker.queues["from"])


# What stood there at the start.


async def growing(broker: BasicBroker, source: str, add: Callable[[], object]) -> Statistics:
    """Bridge the present messages while more are added."""

    async def more() -> None:
        while True:
            add()
            await broker.after(1)

    adding = asyncio.ensure_future(more())
    counts = await bridged(source, broker.url("queue=to"), idle=None, until_length=True)
    adding.cancel()
    return counts


def test_until_length_moves_the_initial_messages_of_a_queue() -> None:
    async def made(broker: BasicBroker) -> Statistics:
        broker.queues["from"].extend(numbered(50))

        def add() -> None:
            broker.queues["from"].extend(numbered(1))
            broker.serve()

        return await growing(broker, broker.url("queue=from"), add)

    broker, counts = run(made)

    assert 50 <= counts.accepted < 100  # what is added before it is asked counts
    assert counts.accepted == len(broker.queues["to"])
    assert ("length", 0) == (counts.ending, status_of([counts]))


@pytest.mark.parametrize("server", ["amqp10msg"], indirect=True)
def test_until_length_moves_the_initial_messages_of_an_address(server: Server) -> None:
    for number in range(50):
        server.publish("a", Message(b"%d" % number))

    async def made(broker: BasicBroker) -> Statistics:
        return await growing(
            broker, f"{server.url}/a", lambda: server.publish("a", Message(b"more"))
        )

    broker, counts = run(made)

    assert counts.accepted == len(broker.queues["to"])
    assert 50 <= counts.accepted <= 100
    assert "length" == counts.ending


@pytest.mark.parametrize("server", ["Broker"], indirect=True)
def test_until_length_needs_a_countable_source(server: Server) -> None:
    async def made(broker: BasicBroker) -> Statistics:
        source = f"{server.url}/a"
        return await bridged(source, broker.url("queue=to"), until_length=True)

    with pytest.raises(LinkError, match="does not report the number"):
        run(made)


@pytest.mark.parametrize("source", ["queue=from", "queue=stream&offset=first"])
def test_until_length_of_an_empty_source_ends_immediately(source: str) -> None:
    async def made(broker: BasicBroker) -> Statistics:
        return await bridged(
            broker.url(source), broker.url("queue=to"), idle=None, until_length=True
        )

    _, counts = run(made, stream=[])

    assert ("length", 0) == (counts.ending, counts.received)


def test_until_length_ends_if_others_consume_messages() -> None:
    async def made(broker: BasicBroker) -> Statistics:
        broker.queues["from"].extend(numbered(50))
        broker.silent = True
        moved = asyncio.ensure_future(
            bridged(broker.url("queue=from"), broker.url("queue=to"), idle=0.1, until_length=True)
        )
        await until(lambda: any(one.queue == "from" for one in broker.channels))
        for _ in range(20):
            broker.queues["from"].pop()
        broker.silent = False
        broker.serve()
        return await moved

    _, counts = run(made)

    assert ("empty", 30, 0) == (counts.ending, counts.accepted, counts.remaining)


def test_until_length_empties_the_source_after_redeliveries() -> None:
    """Messages sent before the cut are delivered again."""

    async def made(broker: BasicBroker) -> Statistics:
        broker.queues["from"].extend(numbered(100))
        seen = 0

        def refuses(_: Stored) -> str:
            nonlocal seen
            seen += 1
            if seen == 15:
                asyncio.get_running_loop().call_soon(cut)
            return ""

        def cut() -> None:
            for peer in list(broker.channels):
                if peer.queue == "from":
                    peer.stream.abort()
                    peer.back()

        broker.refuses = refuses
        urls = (broker.url("queue=from"), broker.url("queue=to"))
        return await bridged(*urls, idle=0.1, until_length=True)

    broker, counts = run(made)

    assert counts.source_lost == 1
    assert {one.body for one in numbered(100)} == set(bodies(broker.queues["to"]))
    assert [] == list(broker.queues["from"])
    assert ("empty", 0, 0) == (counts.ending, counts.remaining, status_of([counts]))


# Streams and files.


@pytest.mark.parametrize("offset, taken", [("first", 40), ("30", 10), ("last", 1), ("next", 0)])
@pytest.mark.parametrize("given", [{"idle": 0.1}, {"idle": None, "until_length": True}])
def test_a_stream_is_read_to_its_end(offset: str, taken: int, given: dict[str, Any]) -> None:
    async def made(broker: BasicBroker) -> Statistics:
        source = broker.url(f"queue=stream&offset={offset}")
        return await bridged(source, broker.url("queue=to"), **given)

    _, counts = run(made, stream=numbered(40))

    assert taken == counts.accepted
    assert (("empty", 0) if given["idle"] else ("length", None)) == (
        counts.ending,
        counts.remaining,
    )
    assert 0 == status_of([counts])


def test_remaining_stream_messages_are_counted_from_the_position() -> None:
    async def made(broker: BasicBroker) -> Statistics:
        source = broker.url("queue=stream&offset=first")
        target = broker.url("queue=to")
        await bridged(source, target, idle=None, max_messages=12, state="s.db")
        # What is read meanwhile is not given out.
        broker.refuses = lambda _: "silent"
        async with Bridge(source, target, options(state="s.db", drain=0)) as bridge:
            await until(lambda: bridge.routes[0].statistics.in_flight > 0)
            bridge.stop()
            async with asyncio.timeout(60):
                (counts,) = (await bridge.run()).values()
        broker.cut()
        return counts

    _, counts = run(made, stream=numbered(40))

    assert "stopped" == counts.ending
    assert counts.remaining is not None
    assert counts.remaining >= 28
    assert 3 == status_of([counts])


def test_a_file_is_read_to_its_end() -> None:
    async def made(broker: BasicBroker) -> tuple[Statistics, Statistics]:
        broker.queues["from"].extend(numbered(20))
        there = await bridged(broker.url("queue=from"), "file:kept.jsonl?protocol=0-9-1", idle=0.1)
        source = "file:kept.jsonl?protocol=0-9-1"
        target = broker.url("queue=to")
        return there, await bridged(source, target, idle=None, until_length=True, window=3)

    broker, (there, back) = run(made)

    assert ("empty", 20) == (there.ending, there.accepted)
    assert ("length", 20, 20) == (back.ending, back.accepted, len(broker.queues["to"]))


# What is said.


def test_stopped_bridge_reports_the_remaining_messages() -> None:
    async def made(broker: BasicBroker) -> Statistics:
        broker.queues["from"].extend(numbered(50))
        broker.refuses = lambda stored: "" if int(stored.body) < 10 else "nack"
        urls = (broker.url("queue=from"), broker.url("queue=to"))
        async with Bridge(*urls, options(idle=5, drain=0)) as bridge:
            await until(lambda: bridge.routes[0].statistics.accepted == 10)
        return bridge.routes[0].statistics

    broker, counts = run(made)

    assert 40 == len(broker.queues["from"])
    assert ("stopped", 40, 3) == (counts.ending, counts.remaining, status_of([counts]))


def test_reports_show_the_remaining_messages() -> None:
    async def made(broker: BasicBroker) -> Any:
        broker.queues["from"].extend(numbered(1_030))
        broker.silent = True
        urls = (broker.url("queue=from"), broker.url("queue=to"))
        async with Bridge(*urls, options(idle=0.1, stall=0.3)) as bridge:
            await bridge.run()
        return bridge

    _, bridge = run(made)

    specs, counts = bridge.specs, bridge.statistics
    (found,) = json.loads(as_json(specs, counts))["routes"]
    assert (1_030, "stalled", False) == (found["remaining"], found["ending"], found["empty"])
    page = as_html(specs, counts)
    assert ">1,030<" in page
    assert "no message came for too long" in page


@pytest.mark.parametrize(
    "url, queue, host",
    [
        ("amqp://u:p@h/?queue=a%2Fb", "a/b", "/"),
        ("amqp://h/?queue=a%2Fb&address_version=1&vhost=x", "a/b", "x"),
        ("amqp://h/orders", "orders", "/"),
        ("amqp://h//exchanges/e", None, None),
    ],
)
def test_queue_of_a_rabbitmq_address(url: str, queue: str | None, host: str) -> None:
    found = basic_endpoint_of(parse_url(url))

    if queue is None:
        assert found is None
    else:
        assert found is not None
        assert (queue, host, "0-9-1") == (found.queue, found.virtual_host, found.protocol)
        assert found.user == ("u" if "u:p" in url else "guest")


@pytest.mark.parametrize("given", [{"idle": None}, {"idle": 0.1, "stall": 1.0}])
def test_incomplete_message_is_logged(
    given: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    """The source sends one byte at a time."""
    header = b"\0\x3c\0\0" + (1 << 20).to_bytes(8, "big") + b"\0\0"

    async def made(broker: BasicBroker) -> tuple[str, Statistics]:
        broker.queues["from"].append(Stored(header, b"x"))

        async def trickle() -> None:
            while True:
                for peer in broker.channels:
                    if peer.queue == "from" and peer.unacked:
                        peer.stream.write(frame(3, b"x"))
                await asyncio.sleep(0.02)

        trickling = asyncio.ensure_future(trickle())
        urls = (broker.url("queue=from"), broker.url("queue=to"))
        set_ = options(outcome_timeout=0.3, drain=0, **given)
        async with asyncio.timeout(60), Bridge(*urls, set_) as bridge:
            counts = bridge.routes[0].statistics
            await until(lambda: counts.state.startswith("the source stopped"))
            state = counts.state
            if given["idle"] is not None:
                await bridge.run()
            broker.cut()
        trickling.cancel()
        return state, counts

    _, (state, counts) = run(made)

    assert "the source stopped partway through a message" == state
    assert any(one.startswith("source-slow") for one in caplog.messages)
    if given["idle"] is not None:
        assert ("stalled", 4) == (counts.ending, status_of([counts]))
