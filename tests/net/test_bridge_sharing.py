"""Routes share a connection to a place: how many there are, turns, and what one does to others."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pika")

from amqp10msg import Message
from amqp10msg.net.bridge import (
    Bridge,
    LinkError,
    Route,
    RouteSpec,
    Statistics,
    parse_url,
    target_end,
)
from amqp10msg.net.ends import links
from amqp10msg.net.ends.basic import open_target
from amqp10msg.net.ends.terms import Outgoing, SourceDelivery, TargetRequest
from amqp10msg.net.ends.urls import Endpoint
from amqp10msg.net.ends.wire import _MAX_BYTES_PER_TURN, AttachedLink, ConnectionPool, Wire
from amqp10msg.net.serve import Server
from tests.basic_broker import BasicBroker, Stored
from tests.bridging import Refusing, bodies, numbered, options, quarantined, short_waits
from tests.net import odd_broker
from tests.waiting import holds, until


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


ROUTES = 12
NUMBERS = itertools.count()


def names(side: str) -> list[str]:
    return [f"{side}-{number}" for number in range(ROUTES)]


def specs_of(source: Callable[[str], str], target: Callable[[str], str], **given: Any) -> Any:
    made = options(**given)
    pairs = zip(names("from"), names("to"), strict=True)
    return [RouteSpec(source(one), target(two), made, one) for one, two in pairs]


async def run(
    specs: list[RouteSpec], then: Callable[[Bridge], Awaitable[Any]] | None = None
) -> Any:
    async with asyncio.timeout(30), Bridge(specs) as bridge:
        if then is not None:
            await then(bridge)
            bridge.stop()
        return await bridge.run()


# How many connections there are, as the peers count them.


class Connections(logging.Handler):
    """Counts the connections of a server, now and in all."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: Counter[str] = Counter()

    def emit(self, record: logging.LogRecord) -> None:
        self.seen[getattr(record, "event", "")] += 1


def serving() -> tuple[Server, Connections]:
    counting = Connections()
    logger = logging.getLogger(f"counted-{next(NUMBERS)}")
    logger.setLevel(logging.INFO)
    logger.propagate = False
    logger.addHandler(counting)
    return Server(accept_durable=True, logger=logger), counting


@pytest.mark.parametrize("way", ["0-9-1 -> 0-9-1", "0-9-1 -> 1.0", "1.0 -> 0-9-1", "1.0 -> 1.0"])
def test_routes_share_one_connection_per_side(way: str) -> None:
    source, _, target = way.partition(" -> ")
    (old, olds), (new, news) = serving(), serving()

    async def made() -> tuple[int, int, Any]:
        async with BasicBroker(*names("from")) as first, BasicBroker(*names("to")) as second:
            for name in names("from"):
                first.queues[name].extend(numbered(30))
            basic = [lambda name, at=at: at.url(f"queue={name}") for at in (first, second)]
            counts = await run(
                specs_of(
                    basic[0] if source == "0-9-1" else lambda name: f"{old.url}/{name}",
                    basic[1] if target == "0-9-1" else lambda name: f"{new.url}/{name}",
                )
            )
            came = [len(second.queues[name]) for name in names("to")]
            return first.opened, second.opened, (counts, came)

    with old, new:
        for name in names("from") if source == "1.0" else []:
            for number in range(30):
                old.publish(name, Message(b"%d" % number))
        first, second, (counts, came) = asyncio.run(made())
        if target == "1.0":
            came = [new.counts(name).available for name in names("to")]
        left = [old.counts(name).available for name in names("from")]
    opened = (
        first if source == "0-9-1" else olds.seen["connected"],
        second if target == "0-9-1" else news.seen["connected"],
    )
    assert (1, 1) == opened
    assert [30] * ROUTES == came == [one.accepted for one in counts.values()]
    assert [0] * ROUTES == left


@pytest.mark.parametrize("protocol", ["0-9-1", "1.0"])
def test_routes_count_over_one_connection(protocol: str) -> None:
    server, seen = serving()

    async def made() -> tuple[int, set[Any]]:
        async with BasicBroker(*names("from"), *names("to")) as broker:
            for name in names("from"):
                broker.queues[name].extend(numbered(3))
            at = lambda name: broker.url(f"queue={name}")  # noqa: E731
            source = at if protocol == "0-9-1" else lambda name: f"{server.url}/{name}"
            counts = await run(specs_of(source, at, until_length=True))
            ends = {(one.ending, one.accepted) for one in counts.values()}
            return broker.opened, ends

    with server:
        for name in names("from") * 3:
            server.publish(name, Message(b"x"))
        opened, ends = asyncio.run(made())

    assert {("length", 3)} == ends
    # One to count by, one for sources, one for targets.
    assert ((3, 0) if protocol == "0-9-1" else (1, 2)) == (opened, seen.seen["connected"])


def test_full_connection_is_supplemented_by_another() -> None:
    async def made() -> int:
        async with BasicBroker(*names("from"), *names("to")) as broker:
            broker.channel_max = 5
            for name in names("from"):
                broker.queues[name].extend(numbered(3))
            at = lambda name: broker.url(f"queue={name}")  # noqa: E731
            await run(specs_of(at, at))
            assert [3] * ROUTES == [len(broker.queues[name]) for name in names("to")]
            return broker.opened

    assert 6 == asyncio.run(made())  # three a side


def test_different_endpoints_have_separate_connections() -> None:
    async def made() -> list[int]:
        async with BasicBroker("a", "b", "c", "d") as one, BasicBroker("x", "y", "z") as two:
            made = options(idle=0.1)
            at = [f"queue={name}" for name in "abcd"]
            specs = [
                RouteSpec(one.url(at[0]), one.url(at[1]), made),
                RouteSpec(one.url(at[2]), one.url(at[3]), made),
            ]
            specs.append(RouteSpec(two.url("queue=x"), two.url("queue=y"), made))
            # In all but the queue: another heartbeat is another connection.
            specs.append(RouteSpec(two.url("queue=z&heartbeat=9"), one.url("queue=b"), made, "z"))
            await run(specs)
            return [one.opened, two.opened]

    assert [2, 3] == asyncio.run(made())


# One that cannot go on, and a connection that is cut.


def test_stuck_route_does_not_block_other_routes() -> None:
    """Its target never answers, so that it has a window of messages and takes no more."""

    async def made() -> None:
        async with BasicBroker(*names("from"), *names("to")) as broker:
            broker.deaf = {"to-0", "to-7"}
            for name in names("from"):
                broker.queues[name].extend(numbered(200))
            at = lambda name: broker.url(f"queue={name}")  # noqa: E731

            async def then(bridge: Bridge) -> None:
                going = [n for n in names("from") if n not in {"from-0", "from-7"}]
                await until(lambda: all(bridge.statistics[n].accepted == 200 for n in going))
                for stuck in ("from-0", "from-7"):
                    assert 0 == bridge.statistics[stuck].accepted
                    assert 20 == bridge.statistics[stuck].received
                assert 2 == broker.opened

            await run(specs_of(at, at, idle=None, drain=0), then)
            # What was not confirmed is at the source still.
            assert [200, 200] == [len(broker.queues[name]) for name in ("from-0", "from-7")]

    asyncio.run(made())


def test_1_0_target_without_credit_does_not_block_other_routes() -> None:
    old, _ = serving()

    with old, odd_broker.running() as (url, odd):
        odd.scant = {"to-3"}
        for name in names("from"):
            for number in range(100):
                old.publish(name, Message(b"%d" % number))

        async def then(bridge: Bridge) -> None:
            going = [name for name in names("from") if name != "from-3"]
            await until(lambda: all(bridge.statistics[n].accepted == 100 for n in going))
            assert 5 == bridge.statistics["from-3"].accepted
            assert 1 == len(odd.peers)

        made = specs_of(lambda n: f"{old.url}/{n}", lambda n: f"{url}/{n}", idle=None, drain=0)
        asyncio.run(run(made, then))
        assert 95 == old.counts("from-3").available


@pytest.mark.parametrize("how", ["source", "target", "both"])
def test_cut_connection_is_reopened_once_without_loss(how: str) -> None:
    async def made() -> tuple[int, int]:
        async with BasicBroker(*names("from")) as first, BasicBroker(*names("to")) as second:
            for name in names("from"):
                first.queues[name].extend(numbered(100))
            seen = 0

            def refuses(_: Stored) -> str:
                nonlocal seen
                seen += 1
                if seen == 400:
                    for broker in (first, second):
                        if how in {"both", "source" if broker is first else "target"}:
                            asyncio.get_running_loop().call_soon(broker.cut)
                return ""

            second.refuses = refuses
            made = specs_of(
                lambda name: first.url(f"queue={name}"), lambda name: second.url(f"queue={name}")
            )
            await run(made)
            for name in names("to"):
                assert {b"%d" % n for n in range(100)} == set(bodies(second.queues[name]))
            assert not any(first.queues.values())
            assert [] == quarantined()
            return first.opened, second.opened

    expected = {"source": (2, 1), "target": (1, 2), "both": (2, 2)}[how]
    assert expected == asyncio.run(made())


def test_cut_1_0_connection_is_reopened_once() -> None:
    (old, olds), (new, news) = serving(), serving()

    def cut(server: Server) -> None:
        def drop(_: object) -> None:
            for one in list(server.broker.connections):
                one.abort()

        server.call(drop)

    async def then(bridge: Bridge) -> None:
        await until(lambda: sum(one.accepted for one in bridge.statistics.values()) > 300)
        cut(old)
        cut(new)
        await bridge.run()

    with old, new:
        for name in names("from"):
            for number in range(100):
                old.publish(name, Message(b"%d" % number))
        made = specs_of(lambda n: f"{old.url}/{n}", lambda n: f"{new.url}/{n}")
        asyncio.run(run(made, then))
        for name in names("to"):
            came = {one.value for one in new.messages(name)}
            assert {b"%d" % number for number in range(100)} == came
            assert 0 == old.counts(f"from{name[2:]}").available
    assert (2, 2) == (olds.seen["connected"], news.seen["connected"])


# Messages that end connections.


@pytest.mark.parametrize("how", ["fail", "cut"])
def test_a_message_that_ends_a_connection_is_not_blamed_on_another_route(how: str) -> None:
    """Routes that have one message in flight each, when that of another one is the cause."""
    poison = Refusing(how, lambda number: number == 1_005)

    async def made() -> tuple[dict[str, Statistics], int]:
        async with BasicBroker(*names("from"), *names("to")) as broker:
            for number, name in enumerate(names("from")):
                first = 1_000 if number == 4 else 0
                broker.queues[name].extend(numbered(first + 40)[first:])
            broker.refuses = poison
            at = lambda name: broker.url(f"queue={name}")  # noqa: E731
            counts = await run(specs_of(at, at, window=1, idle=0.5))
            for number, name in enumerate(names("to")):
                first = 1_000 if number == 4 else 0
                wanted = {b"%d" % n for n in range(first, first + 40)} - {b"1005"}
                assert wanted == set(bodies(broker.queues[name]))
            return counts, broker.opened

    counts, _ = asyncio.run(made())

    assert [b"1005"] == quarantined()
    fatal = {name: one.quarantined["fatal"] for name, one in counts.items()}
    assert {**dict.fromkeys(names("from"), 0), "from-4": 1} == fatal


def test_poison_message_ends_only_its_channel() -> None:
    """As RabbitMQ closes the channel for a foreign user-id: the connection goes on."""
    poison = Refusing("close", lambda number: number == 1_005)

    async def made() -> tuple[dict[str, Statistics], int]:
        async with BasicBroker(*names("from"), *names("to")) as broker:
            for number, name in enumerate(names("from")):
                first = 1_000 if number == 4 else 0
                broker.queues[name].extend(numbered(first + 40)[first:])
            broker.refuses = poison
            at = lambda name: broker.url(f"queue={name}")  # noqa: E731
            return await run(specs_of(at, at)), broker.opened

    counts, opened = asyncio.run(made())

    assert ([b"1005"], 2) == (quarantined(), opened)
    lost = {name for name, one in counts.items() if one.target_lost}
    assert {"from-4"} == lost


def test_first_cut_does_not_separate_routes() -> None:
    """Though each route had one message in flight: the first cut is not blamed on it."""

    async def made() -> tuple[int, int, list[int]]:
        async with BasicBroker(*names("from")) as first, BasicBroker(*names("to")) as second:
            second.deaf.update(names("to"))
            for name in names("from"):
                first.queues[name].extend(numbered(5))

            async def then(_: Bridge) -> None:
                await until(lambda: all(second.queues[name] for name in names("to")))
                second.cut()
                second.deaf.clear()
                await until(lambda: all(len(second.queues[name]) >= 6 for name in names("to")))

            at = [lambda name, at=at: at.url(f"queue={name}") for at in (first, second)]
            await run(specs_of(*at, window=1), then)
            came = [len(set(bodies(second.queues[name]))) for name in names("to")]
            return first.opened, second.opened, came

    assert (1, 2, [5] * ROUTES) == asyncio.run(made())


def test_undeliverable_message_fails_only_its_route() -> None:
    async def made() -> dict[str, int]:
        async with BasicBroker(*names("from"), *names("to")) as broker:
            for name in names("from"):
                broker.queues[name].extend(numbered(60))
            broker.queues["from-2"].extend(numbered(1_008)[1_000:])
            broker.chokes = lambda one: one.body == b"1003"
            at = lambda name: broker.url(f"queue={name}")  # noqa: E731
            others = [name for name in names("from") if name != "from-2"]

            async def then(bridge: Bridge) -> None:
                await until(lambda: bridge.statistics["from-2"].failed)
                for name in others:  # which go on
                    broker.queues[name].extend(numbered(70)[60:])
                broker.serve()
                await until(lambda: all(bridge.statistics[name].accepted >= 70 for name in others))
                assert not any(bridge.statistics[name].failed for name in others)

            with pytest.raises(LinkError, match="3 times in a row instead of delivering"):
                await run(specs_of(at, at, idle=None), then)
            assert b"1003" == broker.queues["from-2"][0].body
            return {name: len(set(bodies(broker.queues[name]))) for name in names("to")}

    assert {**dict.fromkeys(names("to"), 70), "to-2": 63} == asyncio.run(made())


def test_connections_are_shared_again_after_a_delay(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level("INFO", "amqp10msg.bridge")
    poison = Refusing("fail", lambda number: number == 1_005)

    async def made() -> None:
        async with BasicBroker(*names("from")) as first, BasicBroker(*names("to")) as second:
            second.refuses = poison
            for number, name in enumerate(names("from")):
                start = 1_000 if number == 4 else 0
                first.queues[name].extend(numbered(start + 40)[start:])

            async def then(bridge: Bridge) -> None:
                await until(lambda: second.opened > 2)
                await until(lambda: len(second.connections) == 1)
                await until(lambda: sum(s.accepted for s in bridge.statistics.values()) >= 479)
                for name in names("from"):
                    first.queues[name].extend(numbered(70)[40:])
                first.serve()
                await until(lambda: sum(s.accepted for s in bridge.statistics.values()) >= 839)

            made = specs_of(
                *(lambda n, at=at: at.url(f"queue={n}") for at in (first, second)), idle=None
            )
            await run(made, then)
            for number, name in enumerate(names("to")):
                assert (70 if number != 4 else 69) <= len(set(bodies(second.queues[name])))

    short_waits(monkeypatch, rejoin_delay=0.3)
    asyncio.run(made())
    assert [b"1005"] == quarantined()
    assert "target-apart" in {getattr(record, "event", "") for record in caplog.records}


def test_a_shared_connection_that_ends_while_a_link_is_opened_is_shared_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The link has a connection of its own at first, as it may have been the cause."""
    opened = links.open_target
    given: list[bool] = []

    async def open_target_(request: TargetRequest) -> Any:
        if request.endpoint.queue == "to-4":
            given.append(request.alone)
            if len(given) == 1:
                raise LinkError("it was cut", shared=True)
        return await opened(request)

    async def made() -> None:
        async with BasicBroker(*names("from")) as first, BasicBroker(*names("to")) as second:
            specs = specs_of(
                *(lambda n, at=at: at.url(f"queue={n}") for at in (first, second)), idle=None
            )
            await run(specs, lambda _: until(lambda: len(given) > 2))

    short_waits(monkeypatch, rejoin_delay=0.1)
    with mock.patch.object(target_end, "open_target", open_target_):
        asyncio.run(made())
    assert [False, True, False] == given[:3]


# Memory.


def size_in_memory(route: Route) -> int:
    """Return the bytes of the unsettled deliveries of a route; 0 before it is connected."""
    return 0 if route._coupling is None else route._coupling._source.memory.size


@pytest.mark.parametrize("protocol", ["0-9-1", "1.0"])
def test_route_over_memory_limit_gets_its_own_connection(protocol: str) -> None:
    """It cannot stop reading from one that others have; nothing comes twice, or is lost."""
    old, olds = serving()
    sent = [bytes((65 + number,)) * 30_000 for number in range(26)]

    async def made() -> tuple[int, int]:
        async with BasicBroker("big", "small") as first, BasicBroker("big", "small") as second:
            header = numbered(1)[0].header[:4] + (30_000).to_bytes(8, "big") + b"\0\0"
            first.queues["big"].extend(Stored(header, body) for body in sent)

            def source(name: str) -> str:
                return first.url(f"queue={name}") if protocol == "0-9-1" else f"{old.url}/{name}"

            given = options(max_bytes=100_000, window=20, idle=0.5)
            specs = [
                RouteSpec(source(name), second.url(f"queue={name}"), given, name)
                for name in ("small", "big")
            ]
            second.deaf = {"big"}
            async with asyncio.timeout(30), Bridge(specs) as bridge:
                big = bridge.routes[1]
                await until(lambda: size_in_memory(big) > 100_000)
                # Of 780,000, 600,000 of them in the window.
                await holds(lambda: size_in_memory(big) < 300_000, 0.2)
                second.hear()
                await bridge.run()
            assert dict.fromkeys(sent, 1) == Counter(bodies(second.queues["big"]))
            return first.opened, olds.seen["connected"]

    with old:
        for body in sent if protocol == "1.0" else []:
            old.publish("big", Message(body))
        opened = asyncio.run(made())
    assert opened == ((2, 0) if protocol == "0-9-1" else (0, 2))


# DeferredWork.


def test_link_sends_a_bounded_number_of_bytes_per_turn() -> None:
    async def made() -> None:
        async with BasicBroker("a", "b") as broker:
            rooms: list[str] = []
            pool = ConnectionPool()

            async def target(queue: str) -> Any:
                return await open_target(
                    TargetRequest(
                        endpoint=parse_url(broker.url(f"queue={queue}")),
                        on_outcomes=lambda *_: None,
                        on_room=lambda: rooms.append(queue),
                        on_lost=lambda _: None,
                        window=1_000,
                        pool=pool,
                    )
                )

            one, other = await target("a"), await target("b")
            message = numbered(1)[0]
            sent = 0
            while one.room:
                one.send([(Outgoing(b"x" * 1_000, message.header, "", "a"), SourceDelivery(b""))])
                sent += 1_000 + len(message.header)
            assert _MAX_BYTES_PER_TURN <= sent < _MAX_BYTES_PER_TURN + 2_000
            assert 1_000 == other.room
            await until(lambda: one.room and {"a", "b"} <= set(rooms))
            await one.close(1)
            alone = other.room
            while other.room:  # without others, there is no turn to wait for
                other.send([(Outgoing(b"x" * 1_000, message.header, "", "b"), SourceDelivery(b""))])
            assert 1_000 == alone
            await other.close(1)

    asyncio.run(made())


# Finding a connection.


class Plain(Wire):
    """A connection to nobody."""


STEPS = st.lists(st.sampled_from(["join", "leave", "cut", "cancel", "wait", "refuse"]), max_size=25)


@given(STEPS)
def test_connection_pool_reuses_open_connections(steps: list[str]) -> None:
    async def made() -> None:
        pool, at = ConnectionPool(), Endpoint("1.0", "h", 1)
        wires: list[Plain] = []
        answers: list[asyncio.Future[None]] = []
        joining: list[asyncio.Task[AttachedLink]] = []
        lost: list[LinkError] = []

        async def call(_: Endpoint) -> Plain:
            answers.append(asyncio.get_running_loop().create_future())
            await answers[-1]
            made = Plain(at)
            made.max_links = 3
            wires.append(made)
            return made

        def make(wire: Wire) -> AttachedLink:
            return AttachedLink(wire, lost.append)

        async def turn() -> None:
            for _ in range(6):
                await asyncio.sleep(0)

        for step in steps:
            pending = [one for one in answers if not one.done()]
            alive = [one for one in wires if one.alive]
            if step == "join":
                joining.append(asyncio.ensure_future(pool.join(at, call, make)))
            elif step == "leave" and alive:
                next(iter(alive[0].links)).abort()
            elif step == "cut" and alive:
                alive[0].fail(LinkError("cut"))
            elif step == "cancel" and joining:
                joining.append(joining.pop(0))  # it may have its link already
                joining[-1].cancel()
            elif step == "refuse" and pending:
                pending[0].set_exception(LinkError("no"))
            elif step == "wait" and pending:
                pending[0].set_result(None)
            await turn()
            assert len([one for one in answers if not one.done()]) <= 1
            for wire in wires:  # one that nobody has is not kept
                assert wire.alive == bool(wire.links)
                assert len(wire.links) <= 3
        for one in joining:
            one.cancel()
        await turn()
        for one in joining:
            if one.done() and not one.cancelled() and one.exception() is None:
                one.result().abort()
        assert not any(one.alive for one in wires)
        await asyncio.gather(*joining, return_exceptions=True)

    asyncio.run(made())
