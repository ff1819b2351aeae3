"""The spooler stores messages on disk before it acknowledges them, so no message is lost."""

from __future__ import annotations

import datetime
import errno
import gc
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10msg import Header, Message, Properties, ULong
from amqp10msg.testing import messages

pa = pytest.importorskip("pyarrow")
click_testing = pytest.importorskip("click.testing")

import pyarrow.parquet as pq  # noqa: E402

from amqp10msg.app.cli import main  # noqa: E402
from amqp10msg.net import spool as spooling  # noqa: E402
from amqp10msg.net.bridge import read_quarantine, source_end  # noqa: E402
from amqp10msg.net.ends import parquet  # noqa: E402
from amqp10msg.net.ends.parquet import LANDED_SCHEMA, Landing, Spooled, file_name  # noqa: E402
from amqp10msg.net.ends.terms import LinkError, Settle, SourceDelivery, SourceRequest  # noqa: E402
from amqp10msg.net.ends.urls import parse_url  # noqa: E402
from amqp10msg.net.serve import Server  # noqa: E402
from amqp10msg.net.spool import Batches, spool, spool_from  # noqa: E402
from tests.net.odd_broker import OddBroker, running  # noqa: E402
from tests.waiting import wait_until  # noqa: E402

pytestmark = pytest.mark.once

ROOT = Path(__file__).parents[2]
KILLS = int(os.environ.get("AMQP10MSG_KILLS", "3"))


def rows(folder: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for path in sorted(folder.glob("*.parquet")):
        found += pq.read_table(path).to_pylist()
    return found


# The landing.


def delivery(number: int, wire: bytes = b"") -> Spooled:
    return Spooled("q", number, b"%d" % number, False, wire)


def test_files_have_rising_names(tmp_path: Path) -> None:
    with Landing(tmp_path) as landing:
        with pytest.raises(ValueError, match="at least one row"):
            landing.write([])
        written = landing.write([delivery(1, b"a"), delivery(2, b"bb")])
        assert tmp_path / "000000000000.parquet" == written
    with Landing(tmp_path) as landing:
        assert tmp_path / "000000000001.parquet" == landing.write([delivery(3, b"c")])

    assert [b"a", b"bb", b"c"] == [row["wire"] for row in rows(tmp_path)]
    assert LANDED_SCHEMA == pq.read_schema(tmp_path / "000000000000.parquet").remove_metadata()


def test_file_names_are_never_reused(tmp_path: Path) -> None:
    """A reader such as Spark's streams would skip a new file with a known name."""
    names = []
    for number in range(3):
        with Landing(tmp_path) as landing:
            for again in (1, 2):
                path = landing.write([delivery(number, b"%d" % again)])
                names.append(path.name)
                if number != 1:
                    path.unlink()
    with Landing(tmp_path) as landing:
        assert 6 == landing.next

    assert [file_name(number) for number in range(6)] == names


def test_foreign_files_are_kept(tmp_path: Path) -> None:
    (tmp_path / "mine.parquet").write_text("")

    with Landing(tmp_path) as landing:
        assert 0 == landing.next


def test_one_process_writes_to_a_folder(tmp_path: Path) -> None:
    with Landing(tmp_path), pytest.raises(BlockingIOError, match="another process"):
        Landing(tmp_path)


def test_unfinished_files_are_removed(tmp_path: Path) -> None:
    (tmp_path / ".000000000000.parquet.tmp").write_bytes(b"half")

    with Landing(tmp_path):
        assert [".lock"] == [path.name for path in tmp_path.iterdir()]


@given(messages(), st.integers(0, 9))
def test_redelivery_keeps_the_identity(message: Message, count: int) -> None:
    octets = message.encode()
    moved = Message.decode(octets).evolve(header=Header(delivery_count=count), footer=None)

    assert delivery(1, octets).identity == delivery(2, moved.encode()).identity


def test_identities_of_different_messages_differ() -> None:
    made = [
        Message("a"),
        Message("b"),
        *(Message("a", properties=Properties(message_id=i)) for i in ("1", ULong(1), b"1")),
    ]

    found = [delivery(0, message.encode()).identity for message in made]

    assert [
        f"{kind}:{text}" for kind, text in (("string", "1"), ("ulong", "1"), ("binary", "31"))
    ] == [i for i in found if not i.startswith("sha256:")]
    assert len(made) == len(set(found))


def test_malformed_message_has_an_identity() -> None:
    assert delivery(0, b"\x00\x53\x75").identity.startswith("sha256:")


class Tagged:
    """A source with one delivery that has a given delivery-tag."""

    peer_product = ""
    alive, incomplete = True, False

    def __init__(self, request: SourceRequest, tag: bytes) -> None:
        self.endpoint = request.endpoint
        transfer = SimpleNamespace(tag=tag)
        request.receive([SourceDelivery(numbered(1)[0], tag=transfer, link=self)])

    def settle(self, deliveries: Sequence[SourceDelivery], _: object) -> None:
        for delivery in deliveries:
            delivery.link = None

    def stop(self) -> None:
        pass

    async def close(self, wait: float) -> None:
        pass

    def abort(self) -> None:
        pass


@pytest.mark.parametrize("tag", [b"t1", b"\x00\x80\xff", "é".encode()])
def test_a_delivery_tag_is_bytes(
    tag: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The delivery-tags of RabbitMQ 3.10 are counters in binary."""

    async def open_source(request: SourceRequest) -> Tagged:
        return Tagged(request, tag)

    monkeypatch.setattr(source_end, "open_source", open_source)
    with Landing(tmp_path) as landing:
        assert 1 == spool("amqp://nowhere", "q", landing, Batches(seconds=0.01, idle=0.01))

    assert [tag] == [row["delivery_tag"] for row in rows(tmp_path)]


class FullDisk(Landing):
    """A landing on a full disk."""

    def write(self, _: Sequence[Spooled]) -> Path:
        raise OSError(errno.ENOSPC, "No space left on device")


def test_nothing_is_accepted_before_it_is_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []

    class Recording(Tagged):
        def settle(self, deliveries: Sequence[SourceDelivery], how: object) -> None:
            calls.append(f"{how} of {len(deliveries)}")

        async def close(self, _: float) -> None:
            calls.append("close")

    async def open_source(request: SourceRequest) -> Recording:
        return Recording(request, b"t1")

    monkeypatch.setattr(source_end, "open_source", open_source)
    expected = pytest.raises(OSError, match="No space left")
    with FullDisk(tmp_path) as landing, expected as caught:
        spool("amqp://nowhere", "q", landing, Batches(seconds=0.01, idle=0.01))

    assert not isinstance(caught.value, ConnectionError)  # the broker is not the cause
    assert [f"{Settle.RELEASE} of 1", "close"] == calls


def test_messages_of_a_lost_connection_land_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The peer redelivers the unaccepted messages."""
    connections = 0

    async def open_source(request: SourceRequest) -> Tagged:
        nonlocal connections
        connections += 1
        source = Tagged(request, b"t%d" % connections)
        if connections == 1:
            source.alive = False
            request.on_lost(LinkError("the connection was cut"))
        return source

    monkeypatch.setattr(source_end, "open_source", open_source)
    endpoint, batches = parse_url("amqp://nowhere/q"), Batches(seconds=0.01, idle=0.01)
    with Landing(tmp_path) as landing:
        with pytest.raises(LinkError, match="was cut"):
            spool_from(endpoint, landing, batches)
        assert 1 == spool_from(endpoint, landing, batches)

    assert [b"t2"] == [row["delivery_tag"] for row in rows(tmp_path)]


# A queue over AMQP 1.0.


@pytest.fixture
def broker() -> Iterator[OddBroker]:
    with running() as (_, made):
        yield made


def numbered(count: int) -> list[bytes]:
    return [
        Message(b"x" * (i % 300), properties=Properties(message_id=f"m-{i}")).encode()
        for i in range(count)
    ]


def test_spooled_bytes_are_exact(broker: OddBroker, tmp_path: Path) -> None:
    sent = [*numbered(25), b"no message at all"]
    broker.publish("q", sent)

    with Landing(tmp_path) as landing:
        batches = Batches(rows=10, seconds=0.1, idle=0.5)
        before = datetime.datetime.now(datetime.UTC)
        total = spool(broker.url, "q", landing, batches)
        after = datetime.datetime.now(datetime.UTC)

    found = rows(tmp_path)
    assert len(sent) == total == len(found)
    assert sent == [row["wire"] for row in found]
    assert sorted(sent) == sorted(broker.accepted)
    assert {("q", "1.0", False)} == {
        (row["address"], row["protocol"], row["redelivered"]) for row in found
    }
    assert all(before <= row["received"] <= after for row in found)
    assert 3 <= len(list(tmp_path.glob("*.parquet")))


def test_redelivered_messages_are_marked(broker: OddBroker, tmp_path: Path) -> None:
    first, second = numbered(2)
    again = Message.decode(second).evolve(header=Header(delivery_count=1)).encode()
    broker.publish("q", [first, again])

    with Landing(tmp_path) as landing:
        assert 2 == spool(broker.url, "q", landing, Batches(seconds=0.05, idle=0.5))

    marked = {row["identity"]: row["redelivered"] for row in rows(tmp_path)}
    assert {"string:m-0": False, "string:m-1": True} == marked


@pytest.mark.parametrize(
    "properties, warned",
    [
        ({"product": "RabbitMQ", "version": "4.0.5"}, True),
        ({"product": "RabbitMQ", "version": "10.1"}, True),
        ({"product": "RabbitMQ", "version": "3.13.7"}, False),
        ({"product": "RabbitMQ"}, False),
        ({"product": "other", "version": "4.0.5"}, False),
        ({}, False),
    ],
)
def test_delivery_limit_warning(tmp_path: Path, properties: dict[str, str], warned: bool) -> None:
    said: list[str] = []
    with running(OddBroker(properties)) as (url, _), Landing(tmp_path) as landing:
        spool(url, "q", landing, Batches(seconds=0.05, idle=0.1), warn=said.append)

    assert [warned] * warned == ["delivery-limit" in text for text in said]


def test_message_format_is_stored(tmp_path: Path) -> None:
    """Without it, a batch of Azure would be read as one message."""
    kinds = [0x80013700, 0, 5]
    octets = Message("x").encode()
    with Server() as server:

        def publish(nodes: Any) -> None:
            for kind in kinds:
                nodes.make("q").publish(octets, message_format=kind)

        server.call(publish)
        command = ["spool", server.url, "q", str(tmp_path), "--idle", "0.2"]
        done = click_testing.CliRunner().invoke(main, command)

    assert 0 == done.exit_code, done.output
    landed = rows(tmp_path)
    assert kinds == [row["message_format"] for row in landed]
    assert all(row["wire"].endswith(octets) for row in landed)  # the server adds a header


def test_message_that_no_parquet_value_can_have_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "_MAX_VALUE_SIZE", 1_000)
    texts: list[str] = []
    with Server() as server, Landing(tmp_path) as landing:
        for size in (1, 5_000):
            server.publish("q", Message(b"x" * size))
        batches = Batches(seconds=0.05, idle=0.2)
        assert 1 == spool(server.url, "q", landing, batches, warn=texts.append)

    (text,) = texts
    (entry,) = read_quarantine(tmp_path / ".too-large.jsonl")
    assert str(tmp_path / ".too-large.jsonl") in text
    assert b"x" * 5_000 == Message.decode(entry.raw).value
    assert 1 == len(rows(tmp_path))


@pytest.mark.parametrize("protocol", ["1.0", "0-9-1"])
def test_credentials_are_read_from_variables_and_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, protocol: Any
) -> None:
    secret = tmp_path / "password"
    secret.write_text("s3:cr/et\n", encoding="utf-8")
    monkeypatch.setenv("SPOOL_USER", "a@b")

    endpoint = spooling.endpoint_of(
        f"amqp://${{SPOOL_USER}}:${{file:{secret}}}@broker.example", "q", protocol
    )

    assert ("a@b", "s3:cr/et") == (endpoint.user, endpoint.password)


def test_address_stands_beside_the_url_and_not_in_it() -> None:
    with pytest.raises(ValueError, match="give the address separately"):
        spooling.endpoint_of("amqp://localhost/orders", "orders")
    with pytest.raises(ValueError, match="for AMQP 0-9-1 likewise"):
        spooling.endpoint_of("amqp091://localhost", "orders", "0-9-1")

    endpoint = spooling.endpoint_of("amqps://localhost/?cacertfile=ca.pem", "/queues/orders")

    assert ("/queues/orders", "ca.pem") == (endpoint.address, endpoint.cacertfile)


def test_command_reads_the_password_from_a_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    click_testing = pytest.importorskip("click.testing")
    monkeypatch.setenv("SPOOL_PASSWORD", "secret")
    with Server(users={"me": "secret"}) as server:
        server.publish("q", Message("x"))
        url = server.url.replace("amqp://", "amqp://me:${SPOOL_PASSWORD}@")
        command = ["spool", url, "q", str(tmp_path / "landing"), "--idle", "0.2"]
        done = click_testing.CliRunner().invoke(main, command)
        monkeypatch.setenv("SPOOL_PASSWORD", "wrong")
        refused = click_testing.CliRunner().invoke(main, command)
        monkeypatch.delenv("SPOOL_PASSWORD")
        missing = click_testing.CliRunner().invoke(main, command)

    assert (0, "1 message in") == (done.exit_code, done.output[:12])
    assert 1 == refused.exit_code
    assert 2 == missing.exit_code
    assert "no variable SPOOL_PASSWORD" in missing.output


def test_unreachable_peer_raises_connection_error(tmp_path: Path) -> None:
    expected = pytest.raises(ConnectionError, match=r"^q at 127\.0\.0\.1:1: Connection refused")
    with Landing(tmp_path) as landing, expected:
        spool("amqp://me:s3cr3t@127.0.0.1:1", "q", landing)


def test_end_during_opening_is_raised_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """asyncio would log an exception that is never retrieved."""

    async def open_source(request: SourceRequest) -> Tagged:
        error = LinkError("no such queue")
        request.on_lost(error)
        raise error

    monkeypatch.setattr(source_end, "open_source", open_source)
    expected = pytest.raises(ConnectionError, match=r"^q at nowhere:5672: no such queue$")
    with Landing(tmp_path) as landing, expected:
        spool("amqp://nowhere", "q", landing)
    gc.collect()

    assert [] == [record.getMessage() for record in caplog.records if record.name == "asyncio"]


def described_list(code: int, *fields: bytes) -> bytes:
    """Encode a described list of encoded fields, which need not be valid."""
    octets = b"".join(fields)
    return b"\0\x53%c\xc0%c%c%b" % (code, len(octets) + 1, len(fields), octets)


def closing_frame(code: int, *fields: bytes) -> bytes:
    """Encode a frame of channel 0."""
    octets = described_list(code, *fields)
    return (len(octets) + 8).to_bytes(4, "big") + b"\2\0\0\0" + octets


#: Codes of the frames that close something, and the encoded fields before the error.
CLOSES = {"link": (0x16, [b"\x43", b"\x41"]), "session": (0x17, []), "connection": (0x18, [])}


@pytest.mark.parametrize("what", CLOSES)
@pytest.mark.parametrize(
    "name, description, shown",
    [
        (b"amqp:internal-error", b"caf\xe9", "error.description): a string is not UTF-8"),
        (b"caf\xe9", None, "error.condition): a symbol holds byte 0xE9, which is not ASCII"),
        (b"amqp:connection:forced", b"it stops", "amqp:connection:forced: it stops"),
        (b"", None, "the peer closed the "),
    ],
)
def test_any_close_of_the_peer_raises_connection_error(
    tmp_path: Path, what: str, name: bytes, description: bytes | None, shown: str
) -> None:
    text = b"\x40" if description is None else b"\xa1%c%b" % (len(description), description)
    error = described_list(0x1D, b"\xa3%c%b" % (len(name), name), text) if name else b"\x40"
    odd = OddBroker()
    code, fields = CLOSES[what]
    odd.closing = closing_frame(code, *fields, error)
    with (
        running(odd) as (url, _),
        Landing(tmp_path) as landing,
        pytest.raises(ConnectionError) as caught,
    ):
        # It must not end because nothing comes.
        spool(url, "q", landing, Batches(seconds=0.1, idle=20))

    assert re.match(r"q at 127\.0\.0\.1:\d+: ", str(caught.value))
    assert shown in str(caught.value)


def spooler(url: str, folder: Path, *options: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "amqp10msg", "spool", url, "q", str(folder)),
            *("--rows", "50", "--seconds", "0.05", *options),
        ],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.kills
def test_killed_spooler_loses_no_message(broker: OddBroker, tmp_path: Path) -> None:
    """AMQP10MSG_KILLS sets the number of kills."""
    sent = numbered(2_000 * KILLS)
    broker.publish("q", sent)
    order = Random(KILLS)
    for _ in range(KILLS):
        before = len(list(tmp_path.glob("*.parquet")))
        process = spooler(broker.url, tmp_path)
        wanted = before + order.randint(1, 12)
        wait_until(
            lambda: len(list(tmp_path.glob("*.parquet"))) >= wanted or not broker.queues["q"]  # noqa: B023  (called here)
        )
        time.sleep(order.uniform(0, 0.02))  # to kill it at different places of its work
        process.send_signal(signal.SIGKILL)
        process.communicate()
    last = spooler(broker.url, tmp_path, "--idle", "1")
    output, errors = last.communicate(timeout=120)

    assert 0 == last.returncode, errors
    assert "messages in" in output
    found = rows(tmp_path)
    first: dict[str, bytes] = {}
    for row in found:
        first.setdefault(row["identity"], Message.decode(row["wire"]).bare)
    assert {f"string:m-{i}": Message.decode(octets).bare for i, octets in enumerate(sent)} == first
    # What stands there twice was on disk and not yet accepted, and says so.
    assert len(found) - len(first) <= sum(row["redelivered"] for row in found)
    assert [] == list(tmp_path.glob(".*.tmp"))
