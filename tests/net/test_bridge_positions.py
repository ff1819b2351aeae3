"""Positions in streams: a bridge continues after reconnects and restarts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

pytest.importorskip("pika")

from amqp10msg.basic import BasicProperties, FieldTable, encode_content_header
from amqp10msg.message import Message
from amqp10msg.net.bridge import Bridge, RouteOptions, RouteSpec, read_quarantine
from amqp10msg.net.bridge.records import Positions, Records
from amqp10msg.net.ends.contents import position_of
from amqp10msg.net.ends.terms import LinkError, SourceDelivery
from amqp10msg.net.ends.urls import parse_url
from amqp10msg.net.serve import Server
from amqp10msg.wire.primitives import Symbol, ULong
from tests import bridging
from tests.basic_broker import BasicBroker, Stored
from tests.stream_broker import Stream, StreamBroker, running

pytestmark = pytest.mark.usefixtures("in_a_folder")


@given(st.lists(st.integers(0, 30), unique=True, max_size=20), st.randoms())
def test_position_is_after_the_settled_prefix(offsets: list[int], order: Any) -> None:
    offsets.sort()
    deliveries = [SourceDelivery(b"", position=offset) for offset in offsets]
    positions = Positions(None, "r", active=True)
    for delivery in deliveries:
        positions.receive(delivery)
    finished: set[int] = set()
    for delivery in order.sample(deliveries, len(deliveries)):
        positions.finish(delivery)
        positions.save()
        finished.add(delivery.position or 0)
        open_ = [offset for offset in offsets if offset not in finished]
        before = [offset for offset in offsets if not open_ or offset < open_[0]]
        assert (before[-1] + 1 if before else None) == positions.next


@given(
    st.sets(st.integers(0, 30), min_size=1),
    st.lists(st.tuples(st.integers(0, 30), st.integers(1, 30)), max_size=4),
)
@example({0, 5}, [(0, 2), (0, 2)])
def test_positions_without_a_message_are_counted_once_over_connections(
    offsets: set[int], connections: list[tuple[int, int]]
) -> None:
    """Each connection begins with a message that was delivered before."""
    stream = sorted(offsets)
    positions = Positions(None, "r", active=True, stream=True)
    furthest, skipped = 0, set[int]()
    for start, count in connections:
        first = start % (furthest + 1)
        delivered = stream[first : first + count]
        positions.reset()
        for offset in delivered:
            positions.receive(SourceDelivery(b"", position=offset))
        skipped |= {*range(delivered[0], delivered[-1])} - offsets
        furthest = max(furthest, stream.index(delivered[-1]))

    assert len(skipped) == positions.skipped


def test_position_of_a_message_in_both_protocols() -> None:
    headers = FieldTable.of([("x-stream-offset", "l", 7)])
    header = encode_content_header(BasicProperties(headers=headers), 0)
    octets = Message(b"", message_annotations={Symbol("x-stream-offset"): ULong(8)}).encode()

    assert 7 == position_of(SourceDelivery(b"", header))
    assert 8 == position_of(SourceDelivery(octets))
    assert position_of(SourceDelivery(Message(b"").encode())) is None
    assert position_of(SourceDelivery(b"", encode_content_header(BasicProperties(), 0))) is None
    assert position_of(SourceDelivery(b"no message")) is None


def test_queue_message_with_a_stream_offset_has_no_position() -> None:
    positions = Positions(None, "r", active=False)
    headers = FieldTable.of([("x-stream-offset", "l", 7)])
    positions.receive(
        SourceDelivery(b"", encode_content_header(BasicProperties(headers=headers), 0))
    )
    positions.save()

    assert positions.next is None


def test_state_file_separates_routes(tmp_path: Path) -> None:
    for route, position in (("a", 3), ("b", 5), ("a", 4)):
        state = Positions(tmp_path / "s.db", route, active=True)
        delivery = SourceDelivery(b"", position=position - 1)
        state.receive(delivery)
        state.finish(delivery)
        state.save()
        state.close()
    found = []
    for route in "abc":
        state = Positions(tmp_path / "s.db", route, active=True)
        found.append(state.next)
        state.close()

    assert [4, 5, None] == found
    with pytest.raises(OSError, match="nowhere"):
        Positions(tmp_path / "nowhere" / "s.db", "a", active=True)


def test_unusable_second_file_closes_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed, close = [], Positions.close

    def noted(state: Positions) -> None:
        closed.append(state)
        close(state)

    monkeypatch.setattr(Positions, "close", noted)
    options = RouteOptions(
        state=tmp_path / "s.db",
        deduplicate=tmp_path / "nowhere" / "d.db",
        quarantine=tmp_path / "q",
    )
    end = parse_url("amqp://127.0.0.1/q")

    with pytest.raises(OSError, match="nowhere"):
        Records("a", end, end, options)

    assert 1 == len(closed)


def stored(number: int) -> Stored:
    body = b"%d" % number
    return Stored(encode_content_header(BasicProperties(delivery_mode=2), len(body)), body)


async def bridged(broker: BasicBroker, count: int | None = None, **given: Any) -> Any:
    usual = {"idle": 0.2, "window": 10, "backoff": 0.001, "max_backoff": 0.01}
    options = RouteOptions(**{**usual, "max_messages": count, **given})
    urls = (broker.url("queue=stream&offset=first"), broker.url("queue=to"))
    async with asyncio.timeout(60), Bridge(*urls, options) as bridge:
        (counts,) = (await bridge.run()).values()
    return counts


def bodies(broker: BasicBroker) -> list[bytes]:
    return [one.body for one in broker.queues["to"]]


def run(do: Callable[[BasicBroker], Any]) -> BasicBroker:
    async def whole() -> BasicBroker:
        async with BasicBroker("to") as broker:
            broker.streams["stream"] = [stored(number) for number in range(100)]
            await do(broker)
        return broker

    return asyncio.run(whole())


def test_next_run_continues_after_the_last_position() -> None:
    async def do(broker: BasicBroker) -> None:
        for count in (33, 7, None):
            await bridged(broker, count, state="state.db")
        broker.streams["stream"] += [stored(number) for number in range(100, 120)]
        await bridged(broker, state="state.db")

    assert [b"%d" % number for number in range(120)] == bodies(run(do))


def test_reconnect_continues_without_a_state_file() -> None:
    async def do(broker: BasicBroker) -> None:
        def cut(stored: Stored) -> str:
            if stored.body == b"50":
                broker.refuses = lambda _: ""
                broker.cut()
                return "cut"
            return ""

        broker.refuses = cut
        counts = await bridged(broker)
        assert counts.source_lost == 1

    came = bodies(run(do))
    assert {b"%d" % number for number in range(100)} == set(came)
    assert len(came) <= 100 + 10  # the window


def test_stream_message_is_quarantined_instead_of_requeued() -> None:
    async def do(broker: BasicBroker) -> None:
        broker.refuses = lambda stored: "close" if stored.body == b"5" else ""
        await bridged(broker, on={"fatal": "requeue"}, state="state.db")

    came = bodies(run(do))
    (entry,) = read_quarantine(Path("quarantine.jsonl"))
    assert (b"5", 99) == (entry.octets, len(set(came)))


@pytest.mark.parametrize("offset, read", [("first", ["0", "1"]), ("3", ["3", "4"])])
@pytest.mark.parametrize("agrees", [True, False])
def test_source_that_ignores_the_start_position_is_refused(
    agrees: bool, offset: str, read: list[str]
) -> None:
    """Part 3, 3.5.3: the receiver checks the filter in place. A queue would lose its messages."""
    stream = Stream()
    stream.publish(*(Message(str(number)) for number in range(5)))
    with running(StreamBroker(s=stream)) as broker, Server() as server:
        broker.agrees = agrees
        source = f"{broker.url}//queues/s?offset={offset}"
        run = bridging.bridged(source, f"{server.url}/to", idle=None, max_messages=2)
        if agrees:
            asyncio.run(run)
        else:
            refusal = r"/queues/s is not a stream: RabbitMQ 4.* leave out offset="
            with pytest.raises(LinkError, match=refusal):
                asyncio.run(run)

        assert (read if agrees else []) == [one.text() for one in server.messages("to")]


@pytest.mark.parametrize("given", [{}, {"until_length": True, "idle": None}, {"idle": None}])
@pytest.mark.parametrize("left", [0, 40])
def test_stream_shorter_than_its_position_is_refused(given: dict[str, Any], left: int) -> None:
    """A new stream delivers no message before the stored position."""

    async def do(broker: BasicBroker) -> None:
        await bridged(broker, state="state.db")
        del broker.streams["stream"][left:]
        with pytest.raises(LinkError, match=f"ends at position {left}, and was read up to 100: .*"):
            await bridged(broker, state="state.db", **given)

    assert 100 == len(bodies(run(do)))


@pytest.mark.parametrize("given", [{}, {"until_length": True, "idle": None}, {"idle": None}])
def test_unread_messages_removed_by_retention_are_logged(
    caplog: pytest.LogCaptureFixture, given: dict[str, Any]
) -> None:
    async def do(broker: BasicBroker) -> None:
        await bridged(broker, 50, state="state.db")
        broker.streams["stream"][:70] = [None] * 70
        count = 30 if given == {"idle": None} else None
        assert 30 == (await bridged(broker, count, state="state.db", **given)).accepted

    run(do)
    (gap,) = [one for one in caplog.records if getattr(one, "event", "") == "stream-gap"]
    assert 20 == gap.fields["positions"]  # type: ignore[attr-defined]


def test_positions_without_a_message_are_counted_once(caplog: pytest.LogCaptureFixture) -> None:
    """Even if a lost connection delivers the following messages again."""

    async def do(broker: BasicBroker) -> None:
        broker.streams["stream"][30:35] = [None] * 5
        broker.streams["stream"][50] = None

        def cut(stored: Stored) -> str:
            if stored.body == b"40":
                broker.refuses = lambda _: ""
                broker.cut()
                return "cut"
            return ""

        broker.refuses = cut
        counts = await bridged(broker)
        assert (1, 6, 0) == (counts.source_lost, counts.skipped, counts.missed)
        assert 6 == counts.as_dict()["skipped"]

    assert {b"%d" % number for number in range(100)} - {
        b"%d" % number for number in (*range(30, 35), 50)
    } == set(bodies(run(do)))
    assert 1 == sum(getattr(one, "event", "") == "stream-skipped" for one in caplog.records)


def test_stream_declared_again_during_a_run_is_refused() -> None:
    async def do(broker: BasicBroker) -> None:
        def declare_again(stored: Stored) -> str:
            if stored.body == b"50":
                broker.refuses = lambda _: ""
                del broker.streams["stream"][10:]
                broker.cut()
                return "cut"
            return ""

        broker.refuses = declare_again
        with pytest.raises(LinkError, match="deleted and declared again"):
            await bridged(broker, connect_timeout=0.5)

    run(do)


def test_state_file_is_refused_for_a_queue() -> None:
    with pytest.raises(ValueError, match="a state file is for a stream"):
        RouteSpec("amqp091://h/?queue=q", "amqp://h/q", RouteOptions(state="s.db"))
