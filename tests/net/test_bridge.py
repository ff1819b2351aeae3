"""A bridge loses no message: refused messages, interruptions, lost connections.

These tests use a stand-in for a 0-9-1 broker and this library's server of 1.0;
`test_bridge_rabbitmq` tests real brokers.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("pika")


from amqp10msg import Data, Message
from amqp10msg.basic import BasicMessage, decode_content_header
from amqp10msg.net.bridge import (
    Bridge,
    LinkError,
    RouteOptions,
    RouteSpec,
    Statistics,
    read_quarantine,
)
from amqp10msg.net.ends import files
from amqp10msg.net.ends.terms import Outcome, SourceDelivery
from amqp10msg.net.serve import Server
from amqp10msg.testing import basic_messages, messages
from tests.basic_broker import BasicBroker, Stored
from tests.bridging import (
    Refusing,
    between,
    bodies,
    bridged,
    numbered,
    options,
    quarantined,
    stored,
)
from tests.waiting import holds, until, until_answered

pytestmark = pytest.mark.usefixtures("in_a_folder")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(accept_durable=True) as made:
        yield made


# Bytes.


@settings(max_examples=10)
@given(st.lists(basic_messages(), min_size=1, max_size=30))
def test_basic_to_basic_keeps_header_and_body_bytes(given: list[BasicMessage]) -> None:
    sent = [stored(basic) for basic in given]

    broker, counts = between(sent, max_messages=len(sent))

    assert sent == list(broker.queues["to"])
    assert (len(sent), len(sent), 0) == (counts.received, counts.accepted, counts.losses.total())


@settings(max_examples=5)
@given(st.lists(basic_messages(), min_size=1, max_size=30))
def test_translation_to_1_0_and_back_is_lossless(server: Server, given: list[BasicMessage]) -> None:
    """Without expirations: expired messages are dropped. The server adds missing headers."""
    for basic in given:
        basic.properties.expiration = basic.properties.priority = None
        basic.properties.delivery_mode = 2
    sent = [stored(basic) for basic in given]

    async def run() -> BasicBroker:
        async with BasicBroker("from", "to") as broker:
            broker.queues["from"].extend(sent)
            middle = f"{server.url}/middle"
            for source, target in (
                (broker.url("queue=from"), middle),
                (middle, f"{server.url}/second"),
                (f"{server.url}/second", broker.url("queue=to")),
            ):
                await bridged(source, target, max_messages=len(sent))
            return broker

    came = list(asyncio.run(run()).queues["to"])
    assert sent == came


@settings(max_examples=10)
@given(st.lists(messages(), min_size=1, max_size=30))
def test_1_0_to_1_0_keeps_the_bare_message(server: Server, given: list[Message]) -> None:
    sent = [
        # What has expired, the server drops.
        message.evolve(header=None, delivery_annotations=None, properties=None)
        for message in given
    ]
    for message in sent:
        server.publish("a", message)

    asyncio.run(bridged(f"{server.url}/a", f"{server.url}/b", max_messages=len(sent)))
    found = [one.bare for one in server.messages("b")]
    server.broker.delete("b")

    assert [one.bare for one in sent] == found


# What the target does not take.


@pytest.mark.parametrize("how", ["nack", "cut", "close"])
def test_temporarily_refused_messages_are_retried(how: str) -> None:
    sent = numbered(200)
    times = 1 if how == "cut" else 0 if how == "close" else 5

    broker, counts = between(sent, Refusing(how, lambda number: number % 40 == 7, times))

    assert {one.body for one in sent} == set(bodies(broker.queues["to"]))
    assert [] == quarantined()
    assert 200 == counts.accepted
    assert (25 if how == "nack" else 0) == counts.refused["nacked"]


def test_unroutable_messages_are_quarantined() -> None:
    async def run() -> tuple[BasicBroker, Statistics]:
        async with BasicBroker("from", "even") as broker:
            broker.queues["from"].extend(numbered(40))

            def name(basic: BasicMessage, _: Any) -> BasicMessage:
                basic.routing_key = "odd" if int(basic.body) % 2 else "even"
                return basic

            target = broker.url("exchange=")
            counts = await bridged(broker.url("queue=from"), target, attempts=2, change=name)
        return broker, counts

    broker, counts = asyncio.run(run())

    odd = [b"%d" % i for i in range(1, 40, 2)]
    assert [b"%d" % i for i in range(0, 40, 2)] == bodies(broker.queues["even"])
    assert odd == sorted(quarantined(), key=int)
    assert ({"returned": 20}, 40) == (counts.quarantined, counts.refused["returned"])


def test_folder_of_a_new_quarantine_is_synced(monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[Path] = []
    monkeypatch.setattr(files, "sync_folder", synced.append)
    made = files.Quarantine(Path("aside/messages.jsonl"))
    made.path.parent.mkdir()
    entry = (SourceDelivery(b"hello"), Outcome("fatal"))

    made.add([entry], route="a", source="b", target="c")
    made.add([entry, entry], route="a", source="b", target="c")

    assert [Path("aside")] == synced
    assert [b"hello"] * 3 == [one.octets for one in read_quarantine(made.path)]


def test_untranslatable_message_is_quarantined(server: Server) -> None:
    async def run() -> Statistics:
        async with BasicBroker("from") as broker:
            broker.queues["from"] += [*numbered(2), Stored(b"\0\x3c" + bytes(12) + b"?", b"")]
            return await bridged(broker.url("queue=from"), f"{server.url}/translated")

    counts = asyncio.run(run())

    assert ({"untranslatable": 1}, 2) == (counts.quarantined, counts.accepted)


def test_message_above_the_targets_limit_is_quarantined() -> None:
    with Server(accept_durable=True, max_message_size=1000) as small:
        small.publish("big", Message(b"x" * 10))

        async def run() -> Statistics:
            async with BasicBroker("from") as broker:
                bodies = (b"x" * 10, b"x" * 2000, b"y")
                broker.queues["from"] += [stored(BasicMessage(body=body)) for body in bodies]
                return await bridged(broker.url("queue=from"), f"{small.url}/to")

        counts = asyncio.run(run())

        assert ({"too-large": 1}, 2) == (counts.quarantined, counts.accepted)
        assert [b"x" * 2000] == quarantined()


# Connections that end.


@pytest.mark.parametrize("seed", range(3))
def test_no_message_is_lost_when_connections_are_cut(
    server: Server, seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Only unsettled messages may be duplicated."""
    count, window = 600, 20
    sent = numbered(count)
    address = f"cut-{seed}"

    async def run() -> tuple[Statistics, Statistics, BasicBroker]:
        async with BasicBroker("from", "to") as broker:
            broker.queues["from"].extend(sent)
            cuts = asyncio.ensure_future(cut(broker))
            middle = f"{server.url}/{address}"
            there = await bridged(broker.url("queue=from"), middle, window=window, idle=0.4)
            back = await bridged(middle, broker.url("queue=to"), window=window, idle=0.4)
            cuts.cancel()
            return there, back, broker

    async def cut(broker: BasicBroker) -> None:
        for _ in range(20):
            await broker.after(25 * (1 + seed))
            if seed == 2:
                caplog.clear()
                await broker.down()
                await until(lambda: "-unreachable" in caplog.text)
                await broker.listen()
            else:
                broker.cut()

    there, back, broker = asyncio.run(run())

    came = bodies(broker.queues["to"])
    assert {one.body for one in sent} == set(came)
    assert there.source_lost + back.target_lost > 1
    assert len(came) - count <= window * (there.source_lost + back.target_lost)
    assert [] == quarantined()


@pytest.mark.parametrize("queue", [True, False], ids=["queue", "file"])
def test_quarantined_message_is_not_a_duplicate(queue: bool) -> None:
    """The ledger does not contain its id: once the message or target is repaired, it is sent."""
    (one,) = numbered(1)

    async def run() -> None:
        async with BasicBroker("from", "to", "aside") as broker:
            ends = broker.url("queue=from"), broker.url("queue=to")
            more = {"quarantine_queue": broker.url("queue=aside")} if queue else {}
            broker.refuses = lambda stored: "close" if stored.body == one.body else ""
            broker.queues["from"].append(one)
            first = await bridged(*ends, deduplicate="seen.db", **more)
            broker.refuses = lambda _: ""
            for accepted, duplicates in ((1, 0), (0, 1)):
                broker.queues["from"].append(one)
                counts = await bridged(*ends, deduplicate="seen.db", **more)
                assert (accepted, duplicates) == (counts.accepted, counts.duplicates)
            assert 1 == first.quarantined.total() == len(broker.queues["to"])

    asyncio.run(run())


def test_message_ids_of_one_target_are_no_duplicates_at_another() -> None:
    """A route back to the first source moves the messages, which their source has lost by then."""

    async def run() -> None:
        async with BasicBroker("a", "b") as broker:
            broker.queues["a"].extend(numbered(20))
            urls = broker.url("queue=a"), broker.url("queue=b")
            for source, target in (urls, urls[::-1]):
                spec = RouteSpec(source, target, options(deduplicate="seen.db"), "r")
                async with asyncio.timeout(30), Bridge([spec]) as bridge:
                    await bridge.run()
                counts = bridge.statistics["r"]
                assert (20, 0) == (counts.accepted, counts.duplicates)
            assert (20, 0) == (len(broker.queues["a"]), len(broker.queues["b"]))

    asyncio.run(run())


def test_deduplication_sends_each_message_once(server: Server) -> None:
    count = 400
    sent = numbered(count)

    async def run() -> tuple[BasicBroker, Statistics]:
        async with BasicBroker("from") as broker:
            broker.queues["from"].extend(sent)

            async def cut() -> None:
                for _ in range(10):
                    await broker.after(30)
                    broker.cut()

            cuts = asyncio.ensure_future(cut())
            target = f"{server.url}/once"
            counts = await bridged(
                broker.url("queue=from"), target, deduplicate="seen.db", idle=0.3
            )
            cuts.cancel()
            broker.queues["from"].extend(sent[:50])  # another run knows them, too
            again = await bridged(broker.url("queue=from"), target, deduplicate="seen.db")
            assert 50 == again.duplicates
            return broker, counts

    broker, counts = asyncio.run(run())

    found = [message.body for message in server.messages("once")]
    assert len(sent) == len(found)
    assert all(Data(one.body) in found for one in sent)
    assert counts.source_lost > 0
    assert [] == list(broker.queues["from"])


def test_bridge_waits_for_an_unreachable_target(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def run() -> list[bytes]:
        async with BasicBroker("from", "to") as broker:
            broker.queues["from"].extend(numbered(5))
            second = BasicBroker("to")
            async with second:
                pass  # its port is free again
            running = asyncio.ensure_future(
                bridged(broker.url("queue=from"), second.url("queue=to"), idle=0.2)
            )
            await until(lambda: "target-unreachable" in caplog.text)
            await second.listen()
            await running
            await second.down()
            return bodies(second.queues["to"])

    assert [b"0", b"1", b"2", b"3", b"4"] == asyncio.run(run())


@pytest.mark.parametrize(
    "query, user, said",
    [("queue=nowhere", "guest:guest", "no queue"), ("queue=to", "u:secret", "403 ACCESS_REFUSED")],
)
def test_permanent_errors_are_raised_immediately(query: str, user: str, said: str) -> None:
    async def run() -> None:
        async with BasicBroker("from", "to") as broker:
            await bridged(broker.url("queue=from"), broker.url(query, user))

    with pytest.raises(LinkError, match=said) as error:
        asyncio.run(run())
    assert "secret" not in str(error.value)


def test_refused_address_is_raised_immediately() -> None:
    with Server(create=False) as closed, pytest.raises(LinkError, match="amqp:not-found"):
        asyncio.run(bridged(f"{closed.url}/x", f"{closed.url}/y"))


# The end.


def test_stop_releases_unsent_messages() -> None:
    sent = numbered(50)

    async def run() -> tuple[BasicBroker, Statistics]:
        async with BasicBroker("from", "to") as broker:
            broker.queues["from"].extend(sent)
            broker.refuses = Refusing("nack", lambda number: number >= 10)
            urls = (broker.url("queue=from"), broker.url("queue=to"))
            async with asyncio.timeout(30), Bridge(*urls, options(idle=None)) as bridge:
                await until(lambda: bridge.routes[0].statistics.accepted >= 10)
            return broker, bridge.routes[0].statistics

    broker, counts = asyncio.run(run())

    assert bodies(sent[:10]) == bodies(broker.queues["to"])
    assert set(bodies(sent[10:])) == set(bodies(broker.queues["from"]))
    assert "ended" == counts.state


@pytest.mark.parametrize("protocol", ["0-9-1", "1.0"])
def test_max_messages(server: Server, protocol: str) -> None:
    async def run() -> list[Any]:
        async with BasicBroker("from", "to") as broker:
            broker.queues["from"].extend(numbered(50))
            source = broker.url("queue=from")
            if protocol == "1.0":
                await bridged(source, f"{server.url}/many")
                source = f"{server.url}/many"
            counts = await bridged(source, broker.url("queue=to"), max_messages=33, idle=None)
            assert 33 == counts.accepted
            return bodies(broker.queues["to"])

    assert [b"%d" % i for i in range(33)] == asyncio.run(run())


def test_max_bytes() -> None:
    body = b"x" * 100_000

    async def run() -> BasicBroker:
        async with BasicBroker("from", "to") as broker:
            broker.queues["from"].extend(stored(BasicMessage(body=body)) for _ in range(100))
            broker.refuses = lambda _: "silent"
            urls = (broker.url("queue=from"), broker.url("queue=to"))
            given = options(window=100, max_bytes=1_000_000, idle=None)
            async with Bridge(*urls, given) as bridge:
                statistics = bridge.routes[0].statistics
                await until(lambda: statistics.received)
                # The message that passes the bound, and what one read of the socket holds.
                await holds(lambda: statistics.received <= 10 + 1 + 4, 0.3)
                broker.refuses = lambda _: ""
                broker.cut()
                await until(lambda: bridge.routes[0].statistics.accepted >= 100)
            return broker

    broker = asyncio.run(run())

    assert len(broker.queues["to"]) >= 100


@pytest.mark.parametrize("protocol", ["0-9-1", "1.0"])
def test_depth_of_the_source(server: Server, protocol: str) -> None:
    async def run() -> int | None:
        async with BasicBroker("from", "to") as broker:
            broker.queues["from"].extend(numbered(50))
            source = broker.url("queue=from")
            if protocol == "1.0":
                await bridged(source, f"{server.url}/lag", max_messages=50)
                source = f"{server.url}/lag"
            broker.refuses = lambda _: "silent"
            given = options(window=20, idle=None, drain=0)
            async with Bridge(source, broker.url("queue=to"), given) as bridge:
                (route,) = bridge.routes
                await until(lambda: route.statistics.in_flight >= 20)
                found = await until_answered(route.depth)  # None until the source is open
                broker.cut()  # it does not answer a close either, which would be waited for
                return found

    assert 30 == asyncio.run(run())
    server.broker.delete("lag")


def test_hooks_and_filters() -> None:
    async def run() -> tuple[BasicBroker, Statistics]:
        async with BasicBroker("from", "to") as broker:
            broker.queues["from"].extend(numbered(10))

            def change(basic: BasicMessage, _: Any) -> BasicMessage | None:
                if basic.body == b"4":
                    raise RuntimeError("no")
                basic.properties.type = "changed"
                return None if basic.body == b"2" else basic

            counts = await bridged(
                broker.url("queue=from"),
                broker.url("queue=to"),
                change=change,
                match=lambda basic: int(basic.body) % 2 == 0,
                unmatched="reject",
            )
            return broker, counts

    broker, counts = asyncio.run(run())

    assert [b"0", b"6", b"8"] == bodies(broker.queues["to"])
    assert {"changed"} == {
        decode_content_header(one.header).properties.type for one in broker.queues["to"]
    }
    assert (1, 5, 5) == (counts.dropped, counts.unmatched, len(broker.dead))
    assert [b"4"] == quarantined()


def test_several_routes_and_their_names() -> None:
    async def run() -> list[list[bytes]]:
        async with BasicBroker("a", "b", "c", "d") as broker:
            broker.queues["a"].extend(numbered(5))
            broker.queues["c"].extend(numbered(3))
            specs = [
                RouteSpec(broker.url(f"queue={one}"), broker.url(f"queue={two}"), options())
                for one, two in ("ab", "cd")
            ]
            async with Bridge(specs) as bridge:
                found = await bridge.run()
            assert {"a -> b": 5, "c -> d": 3} == {k: v.accepted for k, v in found.items()}
            with pytest.raises(ValueError, match="two routes"):
                Bridge([specs[0], specs[0]])
            return [bodies(queue) for queue in broker.queues.values()]

    assert [[], [b"0", b"1", b"2", b"3", b"4"], [], [b"0", b"1", b"2"]] == asyncio.run(run())


@pytest.mark.parametrize(
    "source, target, said",
    [
        ("amqp091://h", "amqp://h/q", "needs a queue"),
        ("amqp://h", "amqp://h/q", "needs an address"),
        ("amqp://h/q", "amqp://h/q?offset=first", "is for sources only"),
    ],
)
def test_invalid_routes(source: str, target: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        RouteSpec(source, target)


@pytest.mark.parametrize(
    "given",
    [{"window": 0}, {"on": {"x": "requeue"}}, {"on": {"full": "x"}}, {"profile": "x"}],
)
def test_invalid_options(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"."):
        RouteOptions(**given)


def test_deleted_target_queue_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """RabbitMQ confirms messages that it had routed to the queue before its deletion."""

    async def run() -> BasicBroker:
        async with BasicBroker("from", "to") as broker:
            broker.queues["from"].extend(numbered(200))

            left = [50]  # until it is deleted

            def refuses(_: Stored) -> str:
                left[0] -= 1
                if left[0] == 0:
                    gone = broker.queues.pop("to")
                    loop = asyncio.get_running_loop()
                    loop.call_later(0.1, broker.queues.__setitem__, "to", gone)
                return ""

            broker.refuses = refuses
            urls = (broker.url("queue=from"), broker.url("queue=to"))
            given = options(attempts=1_000)
            async with asyncio.timeout(60), Bridge(*urls, given) as bridge:
                await bridge.run()
            return broker

    broker = asyncio.run(run())

    assert {one.body for one in numbered(200)} == set(bodies(broker.queues["to"]))
    (said,) = (one for one in caplog.records if one.levelno == logging.ERROR)
    assert said.getMessage().startswith("target-queue-deleted route=from -> to ")
