"""Parquet files as the target of a bridge: on disk before a message is accepted, each byte kept."""

from __future__ import annotations

import asyncio
import errno
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqp10msg import Message, Properties
from amqp10msg.files import read as read_messages

pytest.importorskip("pyarrow")
pytest.importorskip("pika")
click_testing = pytest.importorskip("click.testing")

import pyarrow  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402

from amqp10msg.app.cli import main  # noqa: E402
from amqp10msg.net.bridge import (  # noqa: E402
    Bridge,
    LinkError,
    RouteOptions,
    RouteSpec,
    Statistics,
    parse_url,
    read_quarantine,
)
from amqp10msg.net.ends import links, parquet  # noqa: E402
from amqp10msg.net.ends.parquet import Landing, ParquetTarget, Spooled  # noqa: E402
from amqp10msg.net.ends.terms import (  # noqa: E402
    ACCEPTED,
    Outcome,
    Outgoing,
    SourceDelivery,
    SourceRequest,
    TargetRequest,
)
from amqp10msg.net.ends.urls import FileLimits  # noqa: E402
from amqp10msg.net.serve import Server  # noqa: E402
from tests.basic_broker import BasicBroker  # noqa: E402
from tests.bridging import bridged, numbered, options  # noqa: E402
from tests.net import odd_broker  # noqa: E402
from tests.waiting import until, wait_until  # noqa: E402

pytestmark = [pytest.mark.once, pytest.mark.usefixtures("in_a_folder")]

ROOT = Path(__file__).parents[2]
KILLS = int(os.environ.get("AMQP10MSG_KILLS", "3"))


def files(folder: str | Path = "out") -> list[list[dict[str, Any]]]:
    """Return the rows of each file."""
    return [pq.read_table(path).to_pylist() for path in sorted(Path(folder).glob("*.parquet"))]


def rows(folder: str | Path = "out") -> list[dict[str, Any]]:
    return [row for file in files(folder) for row in file]


def message(number: int) -> Message:
    return Message(b"%d" % number, properties=Properties(message_id=f"m-{number}"))


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as made:
        yield made


def publish(server: Server, count: int, queue: str = "q") -> None:
    for number in range(count):
        server.publish(queue, message(number))


# The target.


@st.composite
def batches(draw: st.DrawFn) -> list[list[bytes]]:
    return draw(st.lists(st.lists(st.binary(max_size=9), min_size=1, max_size=9), max_size=9))


@settings(max_examples=25)
@given(batches(), st.integers(1, 9), st.integers(1, 40), st.integers(1, 9))
def test_a_file_is_written_at_the_first_limit(
    sent: list[list[bytes]], max_rows: int, octets: int, window: int
) -> None:
    outcomes: list[tuple[SourceDelivery, Outcome]] = []
    on_disk: list[int] = []

    def report(reported: Sequence[tuple[SourceDelivery, Outcome]]) -> None:
        outcomes.extend(reported)
        on_disk.append(len(list(Path(folder).glob("*.parquet"))))

    async def run() -> None:
        limits = FileLimits(max_rows, octets, 1_000.0)
        request = TargetRequest(
            endpoint=attrs.evolve(parse_url(f"parquet:{folder}"), parquet=limits),
            on_outcomes=report,
            on_room=lambda: None,
            on_lost=lambda _: None,
            window=window,
        )
        target = ParquetTarget(request, landing)
        for bodies in sent:
            waiting = [(Outgoing(body), delivery(body)) for body in bodies]
            while waiting:
                room = target.room
                target.send(waiting[:room])
                waiting = waiting[room:]
        target.flush()
        await target.close(1.0)

    def delivery(body: bytes) -> SourceDelivery:
        link = SimpleNamespace(endpoint=parse_url("amqp://h/q"))
        return SourceDelivery(body, tag=SimpleNamespace(tag=b"t"), link=link)

    with tempfile.TemporaryDirectory() as folder, Landing(folder) as landing:
        asyncio.run(run())
        written = [[row["wire"] for row in file] for file in files(folder)]

    stored = [body for file in written for body in file]
    assert [body for bodies in sent for body in bodies] == stored
    assert stored == [each.octets for each, _ in outcomes]
    assert {ACCEPTED} >= {outcome for _, outcome in outcomes}
    # The outcomes of a file come after the file.
    assert [*range(1, len(written) + 1)] == on_disk
    most = min(max_rows, window)
    assert all(len(file) <= most for file in written)
    for file in written[:-1]:
        assert len(file) == most or sum(map(len, file)) >= octets
        assert sum(map(len, file[:-1])) < octets


def test_messages_for_the_next_file_are_dropped_when_the_target_closes(tmp_path: Path) -> None:
    """The source delivers them again."""
    outcomes: list[Any] = []

    async def run() -> None:
        request = TargetRequest(
            endpoint=parse_url(f"parquet:{tmp_path}"),
            on_outcomes=outcomes.extend,
            on_room=lambda: None,
            on_lost=lambda _: None,
            window=9,
        )
        target = await links.open_target(request)
        link = SimpleNamespace(endpoint=parse_url("amqp091://h/?queue=q"))
        target.send([(Outgoing(b"x", b"h"), SourceDelivery(b"x", b"h", tag=1, link=link))])
        await target.close(1.0)
        target.flush()

    asyncio.run(run())

    assert ([], []) == (outcomes, rows(tmp_path))
    Landing(tmp_path).close()  # it is not locked


def test_parquet_files_are_not_a_source() -> None:
    source = parse_url("parquet:out")
    request = SourceRequest(
        endpoint=source,
        receive=lambda _: None,
        on_lost=lambda _: None,
        window=1,
        max_message=1,
        overflow=lambda: pytest.fail("there is no message"),
    )

    with pytest.raises(LinkError, match="can be a target only"):
        asyncio.run(links.open_source(request))
    with pytest.raises(ValueError, match="can be a target only"):
        RouteSpec(source, "amqp://h/q")


def test_refused_parquet_source_names_the_command_that_reads_it(tmp_path: Path) -> None:
    wires = [Message(b"%d" % n).encode() for n in range(3)]
    folder, lines = tmp_path / "a folder", tmp_path / "FILE.jsonl"
    folder.mkdir()
    pq.write_table(
        pyarrow.table({"wire": pyarrow.array(wires, pyarrow.binary())}), folder / "1.parquet"
    )
    with pytest.raises(ValueError, match="target only") as refused:
        RouteSpec(f"parquet:{quote(str(folder))}", "amqp://h/q")

    command = re.search(r"amqp10msg (convert .*) \(", str(refused.value))
    assert command is not None
    arguments = shlex.split(command[1].replace("FILE.jsonl", str(lines)))
    assert 0 == click_testing.CliRunner().invoke(main, arguments).exit_code

    RouteSpec(f"file:{quote(str(lines))}", "amqp://h/q")
    assert wires == [record.wire for record in read_messages(lines)]


# URLs.


@pytest.mark.parametrize(
    "url, path, limits",
    [
        ("parquet:out", "out", FileLimits()),
        ("parquet:///var/out", "/var/out", FileLimits()),
        ("parquet:a%20b@c?rows=7&octets=9&seconds=0.5", "a b@c", FileLimits(7, 9, 0.5)),
    ],
)
def test_url_of_parquet_files(url: str, path: str, limits: FileLimits) -> None:
    endpoint = parse_url(url)

    assert (path, limits) == (endpoint.file, endpoint.parquet)
    assert attrs.evolve(endpoint, parquet=FileLimits()) == parse_url(str(endpoint))


@pytest.mark.parametrize(
    "url, said",
    [
        ("parquet:", "must be parquet:PATH"),
        ("parquet://host/out", "must be parquet:PATH"),
        ("parquet:out?rows=0", "rows must be from 1"),
        ("parquet:out?rows=x", "rows must be a number, not 'x'"),
        ("parquet:out?rows=1.5", "rows must be a number"),
        ("parquet:out?seconds=nan", "seconds must be from 0.01"),
        ("parquet:out?octets=-1", "octets must be from 1"),
        ("parquet:out?row=1", "'row' is not a parameter of Parquet files: use rows, octets"),
        ("parquet:out?protocol=1.0", "'protocol' is not a parameter of Parquet files"),
        ("parquet:out?rows=1&rows=2", "occurs twice"),
    ],
)
def test_invalid_url_of_parquet_files(url: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        parse_url(url)


@pytest.mark.parametrize(
    "query, given, said",
    [
        ("octets=2000", {"max_bytes": 1_000}, "lower octets"),
        ("seconds=30", {}, "must be less than outcome-timeout, 30"),
        ("seconds=5", {"outcome_timeout": 5.0}, "must be less than outcome-timeout, 5"),
    ],
)
def test_route_that_would_wait_for_a_file_is_refused(
    query: str, given: dict[str, Any], said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        RouteSpec("amqp://h/q", f"parquet:out?{query}", RouteOptions(**given))


@pytest.mark.parametrize("source", ["amqp://h/q", "amqp091://h/?queue=q"])
def test_messages_are_not_translated(source: str) -> None:
    spec = RouteSpec(source, "parquet:out")

    assert spec.source.protocol == spec.target.protocol


# The bridge.


def test_command_moves_a_queue_to_files(server: Server) -> None:
    publish(server, 7)

    done = click_testing.CliRunner().invoke(
        main,
        [
            *("bridge", "--from", f"{server.url}/q", "--to", "parquet:out?rows=3&seconds=0.1"),
            *("--until-empty", "--idle", "0.2", "--sole-consumer", "--log", "none"),
        ],
    )

    assert 0 == done.exit_code, done.output
    assert "q -> out" in done.output
    assert [3, 3, 1] == [len(file) for file in files()]
    assert [b"%d" % n for n in range(7)] == [Message.decode(row["wire"]).value for row in rows()]
    assert {("q", "1.0", 0, None)} == {
        tuple(row[name] for name in ("address", "protocol", "message_format", "payload"))
        for row in rows()
    }
    assert 0 == server.counts("q").available


def test_received_bytes_are_stored_as_they_are() -> None:
    """Also of malformed messages, which are not quarantined."""
    octets = [b"no message", b"\0\x53\x75\xa0\x01x", b""]

    async def run(url: str) -> Statistics:
        return await bridged(f"{url}/q", "parquet:out?seconds=0.05", max_messages=3)

    with odd_broker.running() as (url, broker):
        broker.publish("q", octets)
        counts = asyncio.run(run(url))

    assert octets == [row["wire"] for row in rows()]
    assert (3, 0) == (counts.accepted, counts.quarantined.total())


def test_content_headers_are_stored_as_they_are() -> None:
    sent = numbered(5)

    async def run() -> Statistics:
        async with BasicBroker("from") as broker:
            broker.queues["from"].extend(sent)
            return await bridged(broker.url("queue=from"), "parquet:out?seconds=0.05")

    counts = asyncio.run(run())

    assert [(one.header, one.body) for one in sent] == [
        (row["content_header"], row["payload"]) for row in rows()
    ]
    assert {("from", "0-9-1", None, "", "from")} == {
        tuple(row[n] for n in ("address", "protocol", "wire", "exchange", "routing_key"))
        for row in rows()
    }
    assert not counts.losses


def test_large_messages_are_quarantined_with_the_reason(server: Server) -> None:
    publish(server, 2)
    server.publish("q", Message(b"x" * 5_000))

    async def run() -> Statistics:
        target = "parquet:out?seconds=0.05"
        return await bridged(f"{server.url}/q", target, max_messages=3, max_message=1_000)

    counts = asyncio.run(run())

    (entry,) = read_quarantine(Path("quarantine.jsonl"))
    assert ("too-large", 2) == (entry.reason, counts.accepted)
    assert b"x" * 5_000 == Message.decode(entry.raw).value
    assert 2 == len(rows())


def test_message_that_no_parquet_value_can_have_is_quarantined(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "_MAX_VALUE_SIZE", 1_000)
    publish(server, 2)
    server.publish("q", Message(b"x" * 5_000))

    async def run() -> Statistics:
        target = "parquet:out?seconds=0.05"
        return await bridged(f"{server.url}/q", target, max_messages=3)

    counts = asyncio.run(run())

    (entry,) = read_quarantine(Path("quarantine.jsonl"))
    assert ("too-large", "exceed the maximum in a Parquet file" in entry.description) == (
        entry.reason,
        True,
    )
    assert (2, 2) == (counts.accepted, len(rows()))


def test_stopped_route_writes_the_messages_that_it_has(server: Server) -> None:
    """It must not wait for `seconds`: the drain would end before."""
    publish(server, 5)

    async def run() -> Statistics:
        given = options(idle=None)
        async with Bridge(f"{server.url}/q", "parquet:out?seconds=29", given) as bridge:
            (route,) = bridge.routes
            await until(lambda: route.statistics.received == 5)
            await asyncio.sleep(0)
            bridge.stop()
            await bridge.run()
        return route.statistics

    counts = asyncio.run(run())

    assert (5, 5) == (counts.accepted, len(rows()))
    assert 0 == server.counts("q").available


def test_routes_of_a_bridge_share_a_folder(server: Server) -> None:
    for queue in ("a", "b"):
        publish(server, 10, queue)

    async def run() -> None:
        specs = [
            RouteSpec(f"{server.url}/{queue}", target, options(idle=None, max_messages=10))
            for queue, target in (
                ("a", "parquet:out?rows=4&seconds=0.05"),
                ("b", "parquet:./out?rows=3&seconds=0.05"),
            )
        ]
        async with asyncio.timeout(60), Bridge(specs) as bridge:
            await bridge.run()

    asyncio.run(run())

    assert all(len({row["address"] for row in file}) == 1 for file in files())
    wanted = sorted((queue, f"string:m-{n}") for queue in "ab" for n in range(10))
    assert wanted == sorted((row["address"], row["identity"]) for row in rows())
    Landing("out").close()  # the last route has closed it


def test_folder_of_another_process_is_refused(server: Server) -> None:
    publish(server, 1)

    with Landing("out"), pytest.raises(LinkError, match="another process writes to this folder"):
        asyncio.run(bridged(f"{server.url}/q", "parquet:out"))

    assert 1 == server.counts("q").available


def test_full_disk_ends_the_route_and_loses_nothing(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(server, 3)

    def write(_: Landing, __: Sequence[Spooled]) -> Path:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Landing, "write", write)

    with pytest.raises(LinkError, match=r"No space left.*make room for the files") as caught:
        asyncio.run(bridged(f"{server.url}/q", "parquet:out?seconds=0.05"))

    assert caught.value.local
    assert 3 == server.counts("q").available


def test_unexpected_error_ends_the_route(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise its messages would wait for an outcome."""
    publish(server, 3)

    def write(_: Landing, __: Sequence[Spooled]) -> Path:
        raise pyarrow.ArrowCapacityError("too large")

    monkeypatch.setattr(Landing, "write", write)

    with pytest.raises(LinkError, match=r"cannot write to .*too large"):
        asyncio.run(bridged(f"{server.url}/q", "parquet:out?seconds=0.05"))

    assert 3 == server.counts("q").available


def test_name_of_a_source_file_that_is_not_utf_8(tmp_path: Path) -> None:
    async def run() -> None:
        request = TargetRequest(
            endpoint=parse_url(f"parquet:{tmp_path}"),
            on_outcomes=lambda _: None,
            on_room=lambda: None,
            on_lost=lambda error: pytest.fail(str(error)),
            window=1,
        )
        link = SimpleNamespace(endpoint=parse_url("file:n%FF"))
        delivery = SourceDelivery(b"x", tag=SimpleNamespace(tag=b"t"), link=link)
        target = await links.open_target(request)
        target.send([(Outgoing(b"x"), delivery)])
        target.abort()

    asyncio.run(run())

    assert ["n\\xff"] == [row["address"] for row in rows(tmp_path)]


def check_complete(count: int) -> None:
    """Check that each message is in a file, and that repeated rows are marked."""
    found: dict[str, bytes] = {}
    for row in rows():
        bare = Message.decode(row["wire"]).bare
        assert row["redelivered"] or row["identity"] not in found
        assert bare == found.setdefault(row["identity"], bare)
    wanted = {f"string:m-{n}": Message.decode(message(n).encode()).bare for n in range(count)}
    assert wanted == found


def test_crash_between_file_and_settlement_loses_nothing(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The messages of the file are delivered and stored again, with the same identities."""
    publish(server, 10)
    write = Landing.write

    def crash(landing: Landing, some: Sequence[Spooled]) -> Path:
        path = write(landing, some)
        if landing.next == 2:
            raise OSError("killed")
        return path

    url, target = f"{server.url}/q", "parquet:out?rows=3&seconds=0.05"
    with monkeypatch.context() as patch:
        patch.setattr(Landing, "write", crash)
        with pytest.raises(LinkError, match="killed"):
            asyncio.run(bridged(url, target, idle=None, max_messages=10))
    asyncio.run(bridged(url, target, idle=None, max_messages=7))

    assert 13 == len(rows())
    assert [f"string:m-{n}" for n in (0, 1, 2, 3, 4, 5, 3, 4, 5, 6, 7, 8, 9)] == [
        row["identity"] for row in rows()
    ]
    check_complete(10)


@pytest.mark.kills
def test_killed_bridge_loses_no_message(server: Server) -> None:
    """AMQP10MSG_KILLS sets the number of kills."""
    count = 2_000 * KILLS
    publish(server, count)
    order = Random(KILLS)
    command = [
        *(sys.executable, "-m", "amqp10msg", "bridge", "--log", "none", "--window", "200"),
        *("--from", f"{server.url}/q", "--to", "parquet:out?rows=50&seconds=0.05"),
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    for _ in range(KILLS):
        wanted = len(list(Path("out").glob("*.parquet"))) + order.randint(1, 12)
        with subprocess.Popen(command, env=environment) as process:
            wait_until(
                lambda: (
                    len(list(Path("out").glob("*.parquet"))) >= wanted  # noqa: B023  (called here)
                    or not server.counts("q").available
                )
            )
            process.send_signal(signal.SIGKILL)
    last = subprocess.run(
        [*command, "--until-empty", "--idle", "0.5", "--sole-consumer"],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert 0 == last.returncode, last.stderr
    check_complete(count)
    assert [] == list(Path("out").glob(".*.tmp"))
