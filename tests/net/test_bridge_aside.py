"""The quarantine queue: exact bytes and the reason, with the file as fallback."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pika")

from hypothesis import HealthCheck, given, settings

from amqp10msg import Message
from amqp10msg.basic import BasicMessage
from amqp10msg.net.bridge import (
    Bridge,
    Entry,
    LinkError,
    RouteOptions,
    Statistics,
    read_quarantine,
)
from amqp10msg.net.bridge.options import Waits
from amqp10msg.net.serve import Server
from amqp10msg.testing import basic_messages
from tests.basic_broker import BasicBroker, Stored
from tests.bridging import bridged, numbered, options, quarantined, stored
from tests.waiting import until

pytestmark = [pytest.mark.once, pytest.mark.usefixtures("in_a_folder")]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(accept_durable=True) as made:
        yield made


def set_aside(
    sent: list[Stored],
    refuses: Callable[[Stored], str],
    queue_refuses: Callable[[Stored], str] = lambda _: "",
    url: str = "",
    **options_: Any,
) -> tuple[BasicBroker, BasicBroker, Statistics]:
    """Bridge between two queues of a stand-in; quarantine to a queue of a second stand-in."""

    async def run() -> tuple[BasicBroker, BasicBroker, Statistics]:
        async with BasicBroker("from", "to") as broker, BasicBroker("aside") as other:
            broker.queues["from"].extend(sent)
            broker.refuses, other.refuses = refuses, queue_refuses
            there = url or other.url("queue=aside")
            ends = (broker.url("queue=from"), broker.url("queue=to"))
            counts = await bridged(*ends, quarantine_queue=there, attempts=1, **options_)
        return broker, other, counts

    return asyncio.run(run())


def odd(one: Stored) -> str:
    return "close" if one.body.isdigit() and int(one.body) % 2 else ""


async def restored(broker: BasicBroker, url: str, protocol: str) -> list[Entry]:
    """Move the quarantine queue into a file, and return its entries."""
    path = Path("restored.jsonl")
    async with broker:
        source = url or broker.url("queue=aside")
        await bridged(source, f"file:{path}?protocol={protocol}&entries=true")
    return list(read_quarantine(path))


@pytest.mark.parametrize("protocol", ["0-9-1", "1.0"])
def test_quarantine_queue_gets_exact_bytes_and_the_reason(server: Server, protocol: str) -> None:
    sent = numbered(20)

    url = f"{server.url}/aside" if protocol == "1.0" else ""
    broker, other, counts = set_aside(sent, odd, url=url, max_messages=20)

    assert {"fatal": 10} == dict(counts.quarantined)
    assert (10, 10, 0) == (
        counts.accepted,
        len(broker.queues["to"]),
        len(broker.queues["from"]),
    )
    assert not Path("quarantine.jsonl").exists()
    found = asyncio.run(restored(other, url, protocol))
    assert {("fatal", "0-9-1", "from")} == {
        (entry.reason, entry.protocol, entry.routing_key) for entry in found
    }
    expected = sorted(one.header + one.body for one in sent if odd(one))
    assert expected == sorted(entry.raw for entry in found)


@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(message=basic_messages())
def test_any_message_can_be_restored_from_the_quarantine_queue(
    server: Server, message: BasicMessage
) -> None:
    sent = stored(message)

    set_aside([sent], lambda _: "close", url=f"{server.url}/any", max_messages=1)
    asyncio.run(bridged(f"{server.url}/any", "file:any.jsonl?entries=true", max_messages=1))

    (entry,) = read_quarantine(Path("any.jsonl"))
    Path("any.jsonl").unlink()
    assert (sent.header, sent.body) == (entry.content_header, entry.octets)


@pytest.mark.parametrize("how", ["nack", "close", "cut", "silent"])
def test_file_gets_messages_that_the_quarantine_queue_refuses(how: str) -> None:
    seen: list[Stored] = []

    def queue_refuses(one: Stored) -> str:
        seen.append(one)
        return how if len(seen) % 3 == 2 else ""

    sent = numbered(30)
    broker, other, counts = set_aside(
        sent, odd, queue_refuses, max_messages=30, outcome_timeout=0.2
    )

    there, filed = len(other.queues["aside"]), quarantined()
    assert 15 == len(broker.queues["to"]) == counts.quarantined.total()
    assert filed
    # Where the connection ended, what it had taken may be in both.
    assert there + len(filed) >= 15
    if how == "nack":
        assert there + len(filed) == 15
    assert not broker.queues["from"]


def test_missing_quarantine_queue_is_raised_immediately() -> None:
    with Server(create=False) as closed, pytest.raises(LinkError, match="amqp:not-found"):
        set_aside(numbered(1), odd, url=f"{closed.url}/nowhere")


def test_lost_source_redelivers_messages_in_flight_to_the_quarantine_queue() -> None:
    seen: list[Stored] = []

    def silent(one: Stored) -> str:
        seen.append(one)
        return "silent"

    async def run() -> BasicBroker:
        async with BasicBroker("from", "to") as broker, BasicBroker("aside") as other:
            broker.queues["from"].extend(numbered(6))
            broker.refuses, other.refuses = odd, silent
            there = other.url("queue=aside")
            usual = options(quarantine_queue=there, outcome_timeout=0.7, idle=None, drain=0)
            ends = (broker.url("queue=from"), broker.url("queue=to"))
            async with asyncio.timeout(30), Bridge(*ends, usual) as bridge:
                (route,) = bridge.routes
                await until(lambda: seen)
                for peer in list(broker.channels):
                    peer.stream.abort()
                await until(lambda: route.statistics.quarantined.total() >= 3)
            return broker

    broker = asyncio.run(run())
    assert {b"0", b"2", b"4"} == {one.body for one in broker.queues["to"]}
    assert [b"1", b"3", b"5"] == sorted(quarantined())
    assert not broker.queues["from"]


def test_stop_waits_for_the_answer_of_the_quarantine_queue() -> None:
    """A quarantined message must not be requeued at the source as well."""
    waits = Waits(check_interval=0.05, drain_idle=60.0, shutdown_timeout=61.0)

    async def run() -> tuple[BasicBroker, BasicBroker, Statistics]:
        async with BasicBroker("from", "to") as broker, BasicBroker("aside") as other:
            broker.queues["from"].extend(numbered(1))
            broker.refuses = lambda _: "nack"
            other.deaf.add("aside")
            there = other.url("queue=aside")
            usual = options(quarantine_queue=there, patience=0, idle=None, drain=60, waits=waits)
            ends = (broker.url("queue=from"), broker.url("queue=to"))
            async with asyncio.timeout(60), Bridge(*ends, usual) as bridge:
                running = asyncio.ensure_future(bridge.run())
                await until(lambda: other.queues["aside"])
                bridge.stop()
                await asyncio.wait([running], timeout=0.5)
                other.hear()
                (counts,) = (await running).values()
            return broker, other, counts

    broker, other, counts = asyncio.run(run())

    assert (0, 1) == (len(broker.queues["from"]), len(other.queues["aside"]))
    assert {"nacked": 1} == counts.quarantined
    assert [] == quarantined()


@pytest.mark.parametrize(
    "url, said",
    [
        ("file:q.jsonl", "must be a queue"),
        ("amqp091://h/?queue=q&offset=first", "must be a queue"),
        ("amqp://h", "must name a queue"),
        ("amqp091://h/", "must name a queue"),
        ("http://h", "must begin with"),
    ],
)
def test_invalid_quarantine_queue_url(url: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        RouteOptions(quarantine_queue=url)


@pytest.mark.parametrize("body", [b"", b"{}", b"[1]", b'{"raw": "zz"}', b"\xff"])
def test_message_that_is_not_a_quarantine_entry_is_rejected(server: Server, body: bytes) -> None:
    server.publish("others", Message(body))

    counts = asyncio.run(
        bridged(f"{server.url}/others", "file:entries.jsonl?entries=true", max_messages=1)
    )

    assert {"rejected": 1} == dict(counts.quarantined)
    assert "" == Path("entries.jsonl").read_text()
