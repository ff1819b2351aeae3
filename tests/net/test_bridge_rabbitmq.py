"""A bridge between queues of a real RabbitMQ: the same bytes, poison alone aside, kills.

Runs against the broker that AMQP10MSG_RABBITMQ names, ``127.0.0.1:26672`` for example, which
speaks 0-9-1 and 1.0 and knows guest.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from amqp10msg.basic import (
    BasicMessage,
    BasicProperties,
    FieldTable,
    ScaledDecimal,
    encode_properties,
)

pika = pytest.importorskip("pika")

from bridge_faults import Place, Proxy  # noqa: E402

from amqp10msg.net.bridge import (  # noqa: E402
    Bridge,
    LinkError,
    RouteOptions,
    RouteSpec,
    parse_url,
    read_quarantine,
)
from amqp10msg.net.bridge.dry import check_queue  # noqa: E402
from amqp10msg.net.bridge.management import Queue  # noqa: E402
from tests.rabbitmq import BROKER, HEADERS, channels  # noqa: E402
from tests.waiting import until  # noqa: E402

ROOT = Path(__file__).parents[2]
KILLS = int(os.environ.get("AMQP10MSG_KILLS", "3"))
if BROKER is None:
    pytest.skip("AMQP10MSG_RABBITMQ names no RabbitMQ", allow_module_level=True)

BASIC = f"amqp091://{BROKER}/?queue="
MESSAGING = f"amqp://guest:guest@{BROKER}/?queue="


class Queues:
    """Three queues of a broker, and a channel."""

    def __init__(self, channel: Any) -> None:
        self.channel = channel
        self.names = [f"amqp10msg-{uuid.uuid4()}" for _ in range(3)]
        for name in self.names:
            channel.queue_declare(name, durable=True)

    def publish(self, basic: BasicMessage) -> None:
        properties = pika.BasicProperties()
        octets = encode_properties(basic.properties)
        properties.encode = lambda: [octets]
        self.channel.basic_publish("", self.names[0], basic.body, properties)

    def count(self, name: str) -> int:
        found: int = self.channel.queue_declare(name, passive=True).method.message_count
        return found


@pytest.fixture
def queues(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Queues]:
    monkeypatch.chdir(tmp_path)
    with channels() as channel:
        made = Queues(channel)
        yield made
        for name in made.names:
            channel.queue_delete(name)


async def bridged(source: str, target: str, count: int | None, **given: Any) -> Any:
    options = RouteOptions(max_messages=count, **given)
    async with asyncio.timeout(120), Bridge(source, target, options) as bridge:
        (counts,) = (await bridge.run()).values()
    return counts


def test_basic_queue_to_queue_keeps_the_bytes(queues: Queues) -> None:
    first, _, last = queues.names
    sent = [
        BasicMessage(BasicProperties(headers=HEADERS, timestamp=2**40, priority=200), b"x" * size)
        for size in (0, 1, 131_064, 131_065, 1_000_000)
    ]
    for basic in sent:
        queues.publish(basic)

    asyncio.run(bridged(BASIC + first, BASIC + last, len(sent)))

    came: list[tuple[bytes, bytes]] = []

    def note(basic: BasicMessage, _: Any) -> None:
        came.append((encode_properties(basic.properties), basic.body))

    asyncio.run(bridged(BASIC + last, BASIC + first, len(sent), change=note))
    assert [(encode_properties(one.properties), one.body) for one in sent] == came


def test_basic_to_1_0_and_back_is_lossless(queues: Queues) -> None:
    first, middle, last = queues.names
    for number in range(500):
        headers = FieldTable.of([("n", "l", number), ("f", "f", 1.5), ("s", "s", -2)])
        properties = BasicProperties(message_id=f"m-{number}", headers=headers, delivery_mode=2)
        queues.publish(BasicMessage(properties, b"x" * number))

    asyncio.run(bridged(BASIC + first, MESSAGING + middle, 500))
    asyncio.run(bridged(MESSAGING + middle, BASIC + last, 500))
    seen: dict[str | None, tuple[Any, bytes]] = {}

    def note(basic: BasicMessage, _: Any) -> None:
        headers = FieldTable(basic.properties.headers or {}).entries
        # RabbitMQ sorts them.
        seen[basic.properties.message_id] = (sorted(headers), basic.body)

    asyncio.run(bridged(BASIC + last, BASIC + first, 500, change=note))
    assert {
        f"m-{i}": ([("f", "f", 1.5), ("n", "l", i), ("s", "s", -2)], b"x" * i) for i in range(500)
    } == seen


@pytest.mark.parametrize("target", [BASIC, MESSAGING])
def test_only_foreign_user_ids_are_quarantined(queues: Queues, target: str) -> None:
    """RabbitMQ ends the channel or session that sends a foreign user-id."""
    first, _, last = queues.names
    for number in range(300):
        queues.publish(BasicMessage(BasicProperties(delivery_mode=2), b"%d" % number))

    def change(message: Any, delivery: Any) -> Any:
        if int(delivery.octets) % 100 == 50:
            if isinstance(message, BasicMessage):
                message.properties.user_id = "somebody"
                return message
            from amqp10msg import Properties  # noqa: PLC0415

            return message.evolve(properties=Properties(user_id=b"somebody"))
        return message

    counts = asyncio.run(bridged(BASIC + first, target + last, 300, change=change))

    aside = [entry.octets for entry in read_quarantine(Path("quarantine.jsonl"))]
    assert [b"50", b"150", b"250"] == sorted(aside, key=int)
    assert (297, {"fatal": 3}) == (counts.accepted, counts.quarantined)
    assert 0 == queues.count(first)
    # What the broker had taken and not confirmed when it ended the session comes twice.
    assert 297 <= queues.count(last) <= 297 + 500 * counts.target_lost


def test_message_that_rabbitmq_cannot_deliver_ends_the_route(queues: Queues) -> None:
    """RabbitMQ 4.0 cannot encode a decimal number for 1.0: every session ends on it."""
    first, _, last = queues.names
    for number in range(10):
        headers = FieldTable.of([("k", "D", ScaledDecimal(2, 314))]) if number == 5 else None
        queues.publish(BasicMessage(BasicProperties(headers=headers), b"%d" % number))

    with pytest.raises(LinkError, match="3 times in a row"):
        asyncio.run(bridged(MESSAGING + first, BASIC + last, 1_000))

    assert 5 == queues.count(first)
    # It ended twice with all that was there in flight.
    assert 5 <= queues.count(last) <= 15
    asyncio.run(bridged(BASIC + first, BASIC + last, 5))
    assert 0 == queues.count(first)


@pytest.mark.parametrize("source", [BASIC, MESSAGING])
def test_stream_is_continued_from_the_state_file(queues: Queues, source: str) -> None:
    name = f"{queues.names[0]}-stream"
    arguments = {"x-queue-type": "stream"}
    queues.channel.queue_declare(name, durable=True, arguments=arguments)
    queues.names.append(name)

    def publish(first: int, last: int) -> None:
        for number in range(first, last):
            properties = pika.BasicProperties(delivery_mode=2)
            queues.channel.basic_publish("", name, b"%d" % number, properties)

    publish(0, 60)
    url = f"{source}{name}&offset=first"
    target = BASIC + queues.names[1]
    for count in (25, 35):
        asyncio.run(bridged(url, target, count, state=Path("state.db"), window=10))
    publish(60, 70)
    asyncio.run(bridged(url, target, 10, state=Path("state.db")))

    came: list[int] = []
    asyncio.run(
        bridged(target, BASIC + queues.names[2], 70, change=lambda m, _: came.append(int(m.body)))
    )
    assert list(range(70)) == came


def test_migration_check_consumes_no_message(queues: Queues) -> None:
    classic = queues.names[0]
    names = {"classic": classic}
    for kind in ("quorum", "stream"):
        names[kind] = f"{classic}-{kind}"
        arguments = {"x-queue-type": kind}
        queues.channel.queue_declare(names[kind], durable=True, arguments=arguments)
        queues.names.append(names[kind])
    headers = {"plain": "x", "table": {"a": 1}}
    for name in names.values():
        for number in range(5):
            properties = pika.BasicProperties(headers=headers, delivery_mode=2)
            queues.channel.basic_publish("", name, b"%d" % number, properties)

    options = RouteOptions(profile="rabbitmq-4.3", keep_names=True)
    listed = [Queue(name, messages=5) for name in names.values()]
    ends = (parse_url(BASIC + "x"), parse_url("amqp://nowhere/q"))
    found = [asyncio.run(check_queue(*ends, one, options, 100, 1.0)) for one in listed]

    assert [("", 5), ("", 5), ("", 5)] == [(one.fault, one.run and one.run.read) for one in found]
    run = found[0].run
    assert run is not None
    assert {"headers['table']": 5} == {path: count for (path, *_), count in run.losses.items()}
    for kind in ("classic", "quorum"):
        came: list[bytes] = []
        asyncio.run(
            bridged(
                BASIC + names[kind],
                BASIC + queues.names[1],
                5,
                change=lambda message, _, came=came: came.append(message.body),
            )
        )
        assert [b"%d" % number for number in range(5)] == came


@pytest.mark.kills
def test_killed_bridge_loses_no_message(queues: Queues) -> None:
    """AMQP10MSG_KILLS sets the number of kills."""
    first, middle, _ = queues.names
    count, window = 4_000 + 1_000 * KILLS, 100
    for number in range(count):
        properties = BasicProperties(message_id=f"m-{number}", delivery_mode=2)
        queues.publish(BasicMessage(properties, b"%d" % number))
    order = Random(KILLS)
    command = [sys.executable, "-m", "amqp10msg", "bridge", "--window", str(window)]
    command += ["--from", BASIC + first, "--to", MESSAGING + middle, "--log", "text"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    killed = 0
    for _ in range(KILLS):
        with subprocess.Popen(
            command, env=environment, stderr=subprocess.PIPE, text=True
        ) as process:
            assert process.stderr is not None
            for line in process.stderr:
                if "source-open" in line:
                    break
            try:
                process.wait(order.uniform(0.05, 0.5))
            except subprocess.TimeoutExpired:
                killed += queues.count(first) > 0
            process.send_signal(signal.SIGKILL)
    done = subprocess.run([*command, "--until-empty"], env=environment, check=False, timeout=300)

    assert 0 == done.returncode
    came: list[bytes] = []
    total = queues.count(middle)

    def note(basic: BasicMessage, _: Any) -> None:
        came.append(basic.body)

    asyncio.run(bridged(BASIC + middle, BASIC + first, total, change=note))
    assert killed > 0
    assert {b"%d" % number for number in range(count)} == set(came)
    assert total - count <= window * KILLS


@pytest.mark.parametrize("source", [BASIC, MESSAGING])
@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_rabbitmq_confirms_an_empty_queue(queues: Queues, source: str, kind: str) -> None:
    name = f"{queues.names[0]}-{kind}"
    queues.channel.queue_declare(name, durable=True, arguments={"x-queue-type": kind})
    queues.names.append(name)
    for number in range(300):
        queues.channel.basic_publish("", name, b"%d" % number)
    given: dict[str, Any] = {"idle": 0.3, "stall": 1.5}
    urls = (source + name, BASIC + queues.names[2])

    # Another consumer holds messages, of which RabbitMQ says over AMQP that it is there.
    queues.channel.basic_qos(prefetch_count=30)
    tag = queues.channel.basic_consume(name, lambda *_: None)
    queues.channel.connection.process_data_events(1)
    counts = asyncio.run(bridged(*urls, None, **given))
    assert ("stalled", 0, 1) == (counts.ending, counts.remaining, counts.others)
    assert not counts.is_empty
    queues.channel.basic_cancel(tag)
    queues.channel.basic_recover(requeue=True)

    counts = asyncio.run(bridged(*urls, None, **given))

    assert ("empty", 0, 0, True) == (
        *(counts.ending, counts.remaining, counts.others),
        counts.is_empty,
    )
    assert (0, 300) == (queues.count(name), queues.count(queues.names[2]))


@pytest.mark.parametrize("source", [BASIC, MESSAGING])
@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_two_bridges_on_one_queue_of_rabbitmq_both_end(
    queues: Queues, source: str, kind: str
) -> None:
    name = f"{queues.names[0]}-{kind}"
    queues.channel.queue_declare(name, durable=True, arguments={"x-queue-type": kind})
    queues.names.append(name)
    for number in range(300):
        queues.channel.basic_publish("", name, b"%d" % number)
    urls = (source + name, BASIC + queues.names[2])

    async def both() -> list[Any]:
        runs = [
            bridged(*urls, None, idle=0.3, stall=100.0, quarantine=Path(f"{number}.jsonl"))
            for number in range(2)
        ]
        return await asyncio.gather(*runs)

    found = asyncio.run(both())

    assert [("empty", 0)] * 2 == [(counts.ending, counts.remaining) for counts in found]
    assert 300 == sum(counts.accepted for counts in found)
    assert (0, 300) == (queues.count(name), queues.count(queues.names[2]))


@pytest.mark.parametrize("source", [BASIC, MESSAGING])
def test_until_length_moves_the_initial_messages(queues: Queues, source: str) -> None:
    first, _, last = queues.names
    for number in range(200):
        queues.publish(BasicMessage(BasicProperties(delivery_mode=2), b"%d" % number))

    counts = asyncio.run(bridged(source + first, BASIC + last, None, until_length=True))

    assert ("length", 200) == (counts.ending, counts.accepted)
    assert (0, 200) == (queues.count(first), queues.count(last))


@pytest.mark.parametrize("source", [BASIC, MESSAGING])
@pytest.mark.parametrize("given", [{"idle": 0.3}, {"until_length": True}])
def test_a_stream_of_rabbitmq_is_read_to_its_end(
    queues: Queues, source: str, given: dict[str, Any]
) -> None:
    name = f"{queues.names[0]}-stream"
    queues.channel.queue_declare(name, durable=True, arguments={"x-queue-type": "stream"})
    queues.names.append(name)
    queues.channel.confirm_delivery()
    for number in range(200):
        queues.channel.basic_publish("", name, b"%d" % number)

    for offset, count in (("first", 200), ("150", 50)):
        url = f"{source}{name}&offset={offset}"
        counts = asyncio.run(bridged(url, BASIC + queues.names[2], None, **given))
        assert count == counts.accepted
        assert (0 if "idle" in given else None) == counts.remaining


@pytest.mark.parametrize("source", ["0-9-1", "1.0"])
@pytest.mark.parametrize("target", ["0-9-1", "1.0"])
def test_thirty_routes_share_one_connection_per_side(
    queues: Queues, source: str, target: str
) -> None:
    """After a cut, each side reconnects once, and no message is lost."""
    place = Place.at(BROKER or "", "4")
    ends = [[f"{name}-{number}" for number in range(30)] for name in queues.names[:2]]
    for name in (*ends[0], *ends[1]):
        queues.channel.queue_declare(name, durable=True)
    try:
        for name in ends[0]:
            for number in range(50):
                properties = pika.BasicProperties(message_id=f"m-{number}")
                queues.channel.basic_publish("", name, b"x", properties)
        with Proxy(place) as old, Proxy(place) as new:

            async def run() -> None:
                specs = [
                    RouteSpec(
                        place.url(one, source, old.port),
                        place.url(two, target, new.port),
                        RouteOptions(window=10),
                    )
                    for one, two in zip(*ends, strict=True)
                ]
                async with asyncio.timeout(60), Bridge(specs) as bridge:
                    # A route that just opens would be given its own.
                    await until(lambda: all(one.accepted for one in bridge.statistics.values()))
                    assert (1, 1) == (old.accepted, new.accepted)
                    old.cut()
                    new.cut()
                    await until(lambda: not any(queues.count(name) for name in ends[0]))

            asyncio.run(run())
            assert (2, 2) == (old.accepted, new.accepted)
        for pair in zip(*ends, strict=True):  # the last ones may be on their way, and went back
            seen = set()
            for name in pair:
                while (found := queues.channel.basic_get(name, auto_ack=True))[0] is not None:
                    seen.add(found[1].message_id)
            assert {f"m-{number}" for number in range(50)} == seen
    finally:
        for name in (*ends[0], *ends[1]):
            queues.channel.queue_delete(name)


def test_thirty_routes_count_over_shared_connections(queues: Queues) -> None:
    """Regression: every route with a 1.0 source opened its own 0-9-1 connection for counting."""
    place = Place.at(BROKER or "", "4")
    names = [f"{queues.names[0]}-{number}" for number in range(30)]
    for name in names:
        queues.channel.queue_declare(name, durable=True)
        queues.channel.basic_publish("", name, b"x")
    try:
        with Proxy(place) as old:

            async def run() -> Any:
                options = RouteOptions(idle=1.0)
                target = place.url(queues.names[1], "1.0", place.port)
                specs = [
                    RouteSpec(place.url(name, "1.0", old.port), target, options) for name in names
                ]
                async with asyncio.timeout(60), Bridge(specs) as bridge:
                    return await bridge.run()

            counts = asyncio.run(run())
        assert {("empty", 0, 1)} == {
            (one.ending, one.remaining, one.accepted) for one in counts.values()
        }
        assert old.accepted < 10  # 31 without
    finally:
        for name in names:
            queues.channel.queue_delete(name)
