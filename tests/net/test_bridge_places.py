"""Alternative addresses of a source or target, such as cluster nodes."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pika")

from amqp10msg import Message
from amqp10msg.net.bridge import Bridge, LinkError, RouteSpec, counting
from amqp10msg.net.bridge.routes import read_routes
from amqp10msg.net.ends.counts import basic_endpoint_of
from amqp10msg.net.ends.links import first_reachable
from amqp10msg.net.ends.urls import Endpoint, parse_urls
from amqp10msg.net.serve import Server
from tests.basic_broker import BasicBroker
from tests.bridging import bodies, numbered, options
from tests.waiting import until

pytestmark = [pytest.mark.once, pytest.mark.usefixtures("in_a_folder")]


@pytest.fixture
def closed() -> int:
    """A port on which no process listens."""
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        port: int = made.getsockname()[1]
    return port


@given(
    st.lists(st.sampled_from(["", "away", "refused"]), min_size=1, max_size=4),
)
def test_first_reachable_address_is_used(answers: list[str]) -> None:
    end = parse_urls([f"amqp://u:p{n}word@h{n}/q" for n in range(len(answers))])
    tried: list[str] = []

    async def ask(place: Endpoint) -> str:
        tried.append(place.host)
        assert () == place.others
        answer = answers[int(place.host[1:])]
        if answer:
            raise LinkError(f"{answer} {place.password}", permanent=answer == "refused")
        return place.host

    if "" in answers:
        first = answers.index("")
        assert f"h{first}" == asyncio.run(first_reachable(end, ask))
        assert [f"h{n}" for n in range(first + 1)] == tried
        return
    with pytest.raises(LinkError) as caught:
        asyncio.run(first_reachable(end, ask))
    assert [f"h{n}" for n in range(len(answers))] == tried
    assert (set(answers) == {"refused"}) == caught.value.permanent
    assert "word" not in str(caught.value)
    assert len(answers) == 1 or all(f"h{n}:5672" in str(caught.value) for n in range(len(answers)))


def test_alternative_urls_must_name_the_same_queue() -> None:
    made = parse_urls(["amqp091://a/?queue=q", "amqp091s://b:1/?queue=q&verify=verify_none"])

    assert [("a", 5672), ("b", 1)] == [(one.host, one.port) for one in made.places]
    assert "amqp091://a:5672/?queue=q" == str(made)
    for other in ("amqp091://b/?queue=r", "amqp://b/q", "amqp091://b/v?queue=q"):
        with pytest.raises(ValueError, match="is not an alternative address of amqp091://a"):
            parse_urls(["amqp091://a/?queue=q", other])
    with pytest.raises(ValueError, match="no URL"):
        parse_urls([])
    with pytest.raises(ValueError, match="a file has no alternative"):
        parse_urls(["file:x.jsonl"] * 2)


def test_alternatives_keep_queue_and_offset() -> None:
    made = parse_urls(["amqp://a//queues/q", "amqp://b//queues/q"])

    basic = basic_endpoint_of(made)
    assert basic is not None
    assert [("a", "q"), ("b", "q")] == [(one.host, one.queue) for one in basic.places]
    assert {"0-9-1"} == {one.protocol for one in basic.places}
    assert ["7", "7"] == [one.offset for one in made.read_from("7").places]


def test_routes_file_with_alternative_urls() -> None:
    Path("r.toml").write_text(
        "[[route]]\nfrom = ['amqp://a/q', 'amqp://b/q']\nto = 'amqp091://c/?queue=q'\n"
    )
    (spec,) = read_routes(Path("r.toml"))

    assert (2, 1) == (len(spec.source.places), len(spec.target.places))
    assert "q -> q" == spec.name


def test_bridge_fails_over_to_another_node(caplog: pytest.LogCaptureFixture) -> None:
    """At both ends. When the first node is back, the next connection uses it again."""
    caplog.set_level("INFO", "amqp10msg.bridge")

    async def made() -> tuple[list[bytes], list[bytes]]:
        async with BasicBroker("a", "b") as first, BasicBroker("a", "b") as second:
            first.queues["a"].extend(numbered(5))
            nodes = (first, second)
            source = [one.url("queue=a") for one in nodes]
            target = [one.url("queue=b") for one in nodes]
            spec = RouteSpec(source, target, options(idle=None), "r")
            async with Bridge([spec]):
                # What is not settled before the cut comes again.
                await until(lambda: len(first.queues["b"]) == 5 and not first.unacked)
                second.queues["a"].extend(numbered(9)[5:])
                await first.down()
                await until(lambda: len(second.queues["b"]) == 4 and not second.unacked)
                await first.listen()
                first.queues["a"].extend(numbered(12)[9:])
                second.cut()
                await until(lambda: len(first.queues["b"]) == 8)
            return bodies(first.queues["b"]), bodies(second.queues["b"])

    one, other = asyncio.run(made())

    assert [b"%d" % n for n in (0, 1, 2, 3, 4, 9, 10, 11)] == one
    assert [b"5", b"6", b"7", b"8"] == other
    opened = [line for line in caplog.messages if line.startswith("source-open")]
    assert 3 == len(opened)
    assert opened[0].split("at=")[1].split()[0] == opened[2].split("at=")[1].split()[0]
    assert opened[0] != opened[1]


def test_source_is_counted_at_a_reachable_node(closed: int) -> None:
    async def made() -> list[int | None]:
        async with BasicBroker("a", "b") as broker:
            broker.queues["a"].extend(numbered(3))
            broker.streams["s"] = numbered(4)
            away = f"amqp091://guest:guest@127.0.0.1:{closed}/?queue="
            queue = parse_urls([f"{away}a", broker.url("queue=a")])
            stream = parse_urls([f"{away}s&offset=first", broker.url("queue=s&offset=first")])
            counts = [counting.Counting(end, None) for end in (queue, stream)]
            found = [(await one.count_before_reading(one._source)).ready for one in counts]
            found.append((await counts[1].count_now(None, 1, 0)).ready)
            return found

    assert [3, 4, 3] == asyncio.run(made())


def test_1_0_endpoints_have_alternatives(closed: int) -> None:
    with Server(accept_durable=True) as server:
        server.publish("a", Message(b"1"))
        source = [f"amqp://127.0.0.1:{closed}/a", f"{server.url}/a"]
        target = [f"amqp://127.0.0.1:{closed}/b", f"{server.url}/b"]
        spec = RouteSpec(source, target, options(max_messages=1), "r")

        async def made() -> int:
            async with asyncio.timeout(60), Bridge([spec]) as bridge:
                return (await bridge.run())["r"].accepted

        assert 1 == asyncio.run(made())


@pytest.mark.parametrize("first_is_away", [True, False])
def test_empty_queue_at_one_node_does_not_mean_empty_everywhere(first_is_away: bool) -> None:
    """The addresses may belong to independent brokers."""

    async def made() -> Any:
        async with BasicBroker("a") as first, BasicBroker("a", "b") as second:
            source = [one.url("queue=a") for one in (first, second)]
            spec = RouteSpec(source, second.url("queue=b"), options(idle=0.2, deadline=1), "r")
            if first_is_away:
                first.queues["a"].extend(numbered(3))
                await first.down()
            else:
                second.queues["a"].extend(numbered(3))
            async with asyncio.timeout(60), Bridge([spec]) as bridge:
                return (await bridge.run())["r"]

    found = asyncio.run(made())

    assert not found.is_empty
    assert ("cannot be counted" if first_is_away else "another address has none") in found.uncounted


def test_unusable_address_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Otherwise a wrong password at the first node would show only when the second fails."""

    async def made() -> Any:
        async with BasicBroker("a", "b") as first, BasicBroker("a", "b") as second:
            second.queues["a"].extend(numbered(3))
            wrong = "guest:wr0ng"
            source = [first.url("queue=a", wrong), second.url("queue=a")]
            target = [first.url("queue=b", wrong), second.url("queue=b")]
            spec = RouteSpec(source, target, options(max_messages=3), "r")
            async with asyncio.timeout(60), Bridge([spec]) as bridge:
                return first.port, (await bridge.run())["r"]

    port, found = asyncio.run(made())

    for end in ("source", "target"):
        (said,) = (one for one in caplog.messages if one.startswith(f"{end}-place-unreachable"))
        assert f":{port}/" in said
        assert "403" in said
    assert {"source": 1, "target": 1} == dict(found.unreachable)
    assert "wr0ng" not in caplog.text


@pytest.mark.parametrize("other", [0, 3, 4, 5])
def test_different_streams_at_two_nodes_are_not_empty(other: int) -> None:
    """The position in one broker's stream is meaningless for another broker."""

    async def made() -> Any:
        async with BasicBroker("b") as first, BasicBroker() as second:
            first.streams["s"] = numbered(4)
            second.streams["s"] = numbered(other) if other != 3 else numbered(5)[1:]
            source = [one.url("queue=s&offset=first") for one in (first, second)]
            given = options(idle=0.2, deadline=1.5)
            spec = RouteSpec(source, first.url("queue=b"), given, "r")
            async with asyncio.timeout(60), Bridge([spec]) as bridge:
                return (await bridge.run())["r"]

    found = asyncio.run(made())

    assert (other == 4) == found.is_empty
    assert other == 4 or "its addresses are different streams" == found.uncounted
