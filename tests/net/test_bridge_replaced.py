"""A route continues only in the stream or the file that it has read, not in a replacement."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

click_testing = pytest.importorskip("click.testing")
pytest.importorskip("pika")

from amqp10msg import Message, Properties, Symbol  # noqa: E402
from amqp10msg.app.cli import main  # noqa: E402
from amqp10msg.basic import BasicProperties, FieldTable, encode_content_header  # noqa: E402
from amqp10msg.net.bridge import Bridge, RouteOptions  # noqa: E402
from amqp10msg.net.bridge.fingerprints import fingerprint_of  # noqa: E402
from amqp10msg.net.bridge.records import Positions  # noqa: E402
from amqp10msg.net.ends.terms import LinkError, SourceDelivery  # noqa: E402
from amqp10msg.net.serve import Server  # noqa: E402
from tests import amqp10_broker  # noqa: E402
from tests.basic_broker import BasicBroker, Stored, running  # noqa: E402
from tests.stream_broker import Stream, StreamBroker  # noqa: E402

pytestmark = pytest.mark.usefixtures("in_a_folder")


class Source:
    """A source that keeps its messages: how many it has, and what the bridge calls it."""

    def __init__(self, url: str, write: Callable[[range, str], None]) -> None:
        self.url = url
        #: Replaces the contents by messages of these numbers; the text tells the versions apart.
        self.write = write


def basic(number: int, version: str) -> Stored:
    body = f"{version}{number}".encode()
    return Stored(encode_content_header(BasicProperties(), len(body)), body)


@pytest.fixture(params=["0-9-1", "1.0", "file", "file of 0-9-1"])
def source(request: pytest.FixtureRequest) -> Iterator[Source]:
    kind = request.param
    if kind == "0-9-1":
        with running(BasicBroker()) as old:

            def declare(numbers: range, version: str) -> None:
                old.streams["s"] = [basic(number, version) for number in numbers]

            yield Source(old.url("queue=s&offset=first"), declare)
    elif kind == "1.0":
        stream = Stream()
        with amqp10_broker.running(StreamBroker(s=stream)) as broker:

            def refill(numbers: range, version: str) -> None:
                stream.messages.clear()
                stream.publish(*(Message(f"{version}{number}") for number in numbers))

            yield Source(f"{broker.url}//queues/s?offset=first", refill)
    else:

        def rotate(numbers: range, version: str) -> None:
            lines = []
            for number in numbers:
                row: dict[str, Any] = {"raw": Message(f"{version}{number}").encode().hex()}
                if kind != "file":
                    stored = basic(number, version)
                    row = {"protocol": "0-9-1", "content_header": len(stored.header)}
                    row["raw"] = (stored.header + stored.body).hex()
                lines.append(json.dumps(row) + "\n")
            Path("in.jsonl").write_text("".join(lines))

        protocol = "1.0" if kind == "file" else "0-9-1"
        yield Source(f"file:in.jsonl?protocol={protocol}", rotate)


@pytest.fixture
def target() -> Iterator[Server]:
    with Server(anonymous=True, accept_durable=True) as server:
        yield server


def bridge(source: Source, target: Server, count: int, status: int = 0) -> str:
    command = ["bridge", "--from", source.url, "--to", f"{target.url}/to", "--state", "state.db"]
    command += ["--max-messages", f"{count}", "--connect-timeout", "5"]
    done = click_testing.CliRunner().invoke(main, command)
    assert status == done.exit_code, done.output
    return str(done.output)


def test_a_source_replaced_and_grown_past_the_state_is_refused(
    source: Source, target: Server
) -> None:
    source.write(range(20), "old")
    bridge(source, target, 10)
    source.write(range(40), "new")
    output = bridge(source, target, 30, status=1)

    assert 10 == len(target.messages("to"))
    assert "is not the one that was read there" in output
    assert "Give another --state to read everything" in output


def test_a_source_that_only_grew_is_continued(source: Source, target: Server) -> None:
    source.write(range(20), "old")
    bridge(source, target, 10)
    source.write(range(40), "old")
    output = bridge(source, target, 30)

    assert 40 == len(target.messages("to"))
    assert "source-unchecked" not in output


def test_a_state_file_without_a_fingerprint_is_continued_with_a_warning(
    source: Source, target: Server
) -> None:
    source.write(range(20), "old")
    bridge(source, target, 10)
    with closing(sqlite3.connect("state.db")) as base:  # as earlier versions wrote it
        base.execute("DROP TABLE fingerprint")
    output = bridge(source, target, 5)
    source.write(range(40), "new")
    bridge(source, target, 5, status=1)

    assert 15 == len(target.messages("to"))
    assert "source-unchecked" in output
    assert "has no fingerprint, as an earlier version wrote it" in output


@pytest.mark.parametrize("idle", [0.2, None])
def test_a_stream_redeclared_while_the_bridge_runs_is_refused(idle: float | None) -> None:
    """Also without a state file, and when the new stream is longer than the old one."""

    async def run() -> BasicBroker:
        async with BasicBroker("to") as broker:
            broker.streams["s"] = [basic(number, "old") for number in range(100)]

            def redeclare(stored: Stored) -> str:
                if stored.body == b"old50":
                    broker.refuses = lambda _: ""
                    broker.streams["s"] = [basic(number, "new") for number in range(200)]
                    broker.cut()
                    return "cut"
                return ""

            broker.refuses = redeclare
            options = RouteOptions(idle=idle, window=10, backoff=0.001, max_backoff=0.01)
            urls = (broker.url("queue=s&offset=first"), broker.url("queue=to"))
            with pytest.raises(LinkError, match="is not the one that was read there"):
                async with asyncio.timeout(60), Bridge(*urls, options) as made:
                    await made.run()
        return broker

    bodies = [one.body for one in asyncio.run(run()).queues["to"]]
    assert not [body for body in bodies if body.startswith(b"new")]


def test_a_source_whose_last_message_is_gone_is_continued_with_a_warning() -> None:
    with running(BasicBroker("to")) as broker:
        broker.streams["s"] = [basic(number, "") for number in range(30)]
        command = ["bridge", "--from", broker.url("queue=s&offset=first"), "--to"]
        command += [broker.url("queue=to"), "--state", "state.db", "--max-messages", "10"]
        runner = click_testing.CliRunner()
        assert 0 == runner.invoke(main, command).exit_code
        broker.streams["s"][:20] = [None] * 20
        done = runner.invoke(main, command)

    assert "retention removed the last message that was read" in done.output
    assert 20 == len(broker.queues["to"])


def test_replaced_stream_whose_oldest_message_is_at_the_last_position_is_refused() -> None:
    with running(BasicBroker("to")) as broker:
        broker.streams["s"] = [basic(number, "old") for number in range(30)]
        command = ["bridge", "--from", broker.url("queue=s&offset=first"), "--to"]
        command += [broker.url("queue=to"), "--state", "state.db", "--max-messages", "10"]
        runner = click_testing.CliRunner()
        assert 0 == runner.invoke(main, command).exit_code
        broker.streams["s"] = [*[None] * 9, *(basic(number, "new") for number in range(9, 30))]
        done = runner.invoke(main, command)

    assert 1 == done.exit_code, done.output
    assert "is not the one that was read there" in done.output
    assert 10 == len(broker.queues["to"])


@pytest.mark.parametrize("until_empty", [True, False])
def test_messages_removed_by_retention_have_their_own_exit_status(until_empty: bool) -> None:
    with running(BasicBroker("to")) as broker:
        broker.streams["s"] = [basic(number, "") for number in range(30)]
        command = ["bridge", "--from", broker.url("queue=s&offset=first"), "--to"]
        command += [broker.url("queue=to"), "--state", "state.db", "--report", "report.json"]
        runner = click_testing.CliRunner()
        assert 0 == runner.invoke(main, [*command, "--max-messages", "10"]).exit_code
        broker.streams["s"][:15] = [None] * 15
        ending = ["--until-empty", "--idle", "0.1"] if until_empty else ["--max-messages", "15"]
        done = runner.invoke(main, [*command, *ending])

    assert 6 == done.exit_code, done.output
    (text,) = [line for line in done.output.splitlines() if "retention of the stream" in line]
    assert "s -> to: 5 messages removed by the retention of the stream" in text
    assert 5 == json.loads(Path("report.json").read_text())["routes"][0]["missed"]
    assert 25 == len(broker.queues["to"])


def test_position_passes_over_messages_that_were_removed_while_unsettled() -> None:
    """They never come again: a position that waited for them would never advance."""
    with running(BasicBroker("to")) as broker:
        broker.streams["s"] = [basic(number, "") for number in range(30)]
        command = ["bridge", "--from", broker.url("queue=s&offset=first"), "--to"]
        command += [broker.url("queue=to"), "--state", "state.db", "--max-messages"]

        def cut_and_remove(_: Stored) -> str:
            broker.refuses = lambda _: ""
            broker.streams["s"][:15] = [None] * 15
            broker.cut()
            return "cut"

        broker.refuses = cut_and_remove
        runner = click_testing.CliRunner()
        statuses = [runner.invoke(main, [*command, count]).exit_code for count in ("10", "5")]

    assert [0, 0] == statuses
    expected = [basic(number, "").body for number in range(15, 30)]
    assert expected == [one.body for one in broker.queues["to"]]


def test_messages_removed_by_retention_are_counted_once_over_reconnects() -> None:
    with running(BasicBroker("to")) as broker:
        broker.streams["s"] = [basic(number, "") for number in range(30)]
        command = ["bridge", "--from", broker.url("queue=s&offset=first"), "--to"]
        command += [broker.url("queue=to"), "--state", "state.db", "--report", "report.json"]
        command += ["--max-messages"]
        runner = click_testing.CliRunner()
        assert 0 == runner.invoke(main, [*command, "10"]).exit_code
        broker.streams["s"][:15] = [None] * 15

        def cut_before_anything_is_read(_: Stored) -> str:
            broker.refuses = lambda _: ""
            broker.cut()
            return "cut"

        broker.refuses = cut_before_anything_is_read
        done = runner.invoke(main, [*command, "15"])

    assert 6 == done.exit_code, done.output
    (route,) = json.loads(Path("report.json").read_text())["routes"]
    assert 1 <= route["source_lost"]
    assert 5 == route["missed"]


@given(
    st.lists(st.integers(0, 30), unique=True, min_size=1, max_size=20),
    st.randoms(),
)
def test_the_fingerprint_is_of_a_message_before_the_position(
    offsets: list[int], order: Any
) -> None:
    """Whatever the order in which messages are settled."""
    offsets.sort()
    deliveries = [
        SourceDelivery(Message(f"{offset}").encode(), position=offset) for offset in offsets
    ]
    positions = Positions(None, "r", active=True, stream=True)
    for delivery in deliveries:
        positions.receive(delivery)
    for delivery in order.sample(deliveries, len(deliveries)):
        positions.finish(delivery)
        positions.save()
        found = positions.fingerprint
        assert (found is None) == (positions.next is None)
        if found is not None and positions.next is not None:
            assert found.position < positions.next
            same = next(one for one in deliveries if one.position == found.position)
            assert fingerprint_of(same, stream=True) == found


@given(st.text(), st.integers(0, 9), st.integers(0, 9))
def test_a_fingerprint_does_not_depend_on_the_delivery(
    text: str, offset: int, received: int
) -> None:
    def digest(text: str, offset: int, received: int) -> bytes:
        properties = Properties(message_id="m")
        annotations = {
            Symbol("x-stream-offset"): offset,
            Symbol("x-opt-rabbitmq-received-time"): received,
        }
        message = Message(text, properties=properties, message_annotations=annotations)
        found = fingerprint_of(SourceDelivery(message.encode(), position=0), stream=True)
        assert found is not None
        return found.digest

    same = digest(text, 0, received)
    assert same == digest(text, offset, received)
    assert same != digest(text + "x", offset, received)
    assert same != digest(text, offset, received + 1)


def test_a_fingerprint_of_0_9_1_leaves_out_the_offset() -> None:
    def digest(*headers: Any) -> bytes:
        table = FieldTable.of(list(headers))
        header = encode_content_header(BasicProperties(headers=table), 1)
        found = fingerprint_of(SourceDelivery(b"x", header, position=0), stream=True)
        assert found is not None
        return found.digest

    first = digest(("a", "S", "b"), ("x-stream-offset", "l", 1))
    assert first == digest(("x-stream-offset", "l", 2), ("a", "S", "b"))
    assert first != digest(("x-stream-offset", "l", 1))


@pytest.mark.parametrize("option", ["--state", "--deduplicate"])
@pytest.mark.parametrize("damage", ["text", "other tables", "torn"])
def test_damaged_state_or_ledger_file_is_named(option: str, damage: str, target: Server) -> None:
    Path("in.jsonl").write_text(
        "".join(
            json.dumps(
                {
                    "raw": Message("x", properties=Properties(message_id=f"{number:0200}"))
                    .encode()
                    .hex()
                }
            )
            + "\n"
            for number in range(300)
        )
    )
    command = ["bridge", "--from", "file:in.jsonl", "--to", f"{target.url}/to", option, "it.db"]
    command += ["--max-messages", "300"]
    runner = click_testing.CliRunner()
    if damage == "text":
        Path("it.db").write_text("no database" * 1_000)
    elif damage == "other tables":
        with closing(sqlite3.connect("it.db")) as base:
            table = {"--state": "position", "--deduplicate": "accepted"}[option]
            base.execute(f"CREATE TABLE {table} (other TEXT)")
    else:
        assert 0 == runner.invoke(main, command).exit_code
        octets = bytearray(Path("it.db").read_bytes())
        octets[4096:] = b"\xff" * (len(octets) - 4096)
        Path("it.db").write_bytes(octets)
    done = runner.invoke(main, command)

    assert 1 == done.exit_code, done.output
    assert done.exception is None or isinstance(done.exception, SystemExit)
    assert "it.db" in done.output.splitlines()[-1]
