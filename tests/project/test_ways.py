"""The way of a message, as the page about the design has it: the files that a tracer counts."""

from __future__ import annotations

import os
import socket
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import pytest

import amqp10msg
from amqp10msg import COMPILED, Header, Message, Properties
from amqp10msg.basic import (
    BasicMessage,
    BasicProperties,
    FieldTable,
    decode_content_header,
    encode_content_header,
)
from amqp10msg.delivery import Accepted, Source, Target
from amqp10msg.net import transport
from amqp10msg.net.serve import Server, ServerWaits
from amqp10msg.translate import to_amqp10, to_basic

ROOT = Path(amqp10msg.__file__).parent
PAGE = ROOT.parent / "docs/explanation/design.md"
WIRE = Message(
    b"x",
    header=Header(durable=True),
    properties=Properties(message_id="1", content_type="text/plain"),
    application_properties={"a": 1},
).encode()
MESSAGE = Message.decode(WIRE)
GIVEN = BasicProperties(message_id="1", headers=FieldTable.of([("a", "I", 1)]))
# As it comes from a broker, too.
HEADER = decode_content_header(encode_content_header(GIVEN, 1))
BASIC = BasicMessage(HEADER.properties, b"x", "e", "k")
WAYS: dict[str, Callable[[], object]] = {
    "Message.decode": lambda: Message.decode(WIRE),
    "to_basic": lambda: to_basic(MESSAGE),
    "to_amqp10": lambda: to_amqp10(BASIC),
}


def listed() -> dict[tuple[str, bool], set[str]]:
    """The files of each way and build in the table of the page."""
    rows = PAGE.read_text(encoding="utf-8").partition("<!-- ways -->\n\n")[2].partition("\n\n")[0]
    cells = [[cell.strip() for cell in row.split("|")[1:-1]] for row in rows.splitlines()[2:]]
    return {
        (way.strip("`"), compiled == "yes"): {name.strip("`") for name in files.split()}
        for way, compiled, files in cells
    }


class Calls(Counter[str]):
    """How often a function was called, by the file of the package that it is in."""

    def look(self, frame: FrameType, event: str, _: object) -> None:
        """What `sys.setprofile` takes."""
        name = frame.f_code.co_filename
        if event == "call" and name.startswith(f"{ROOT}{os.sep}"):
            self[Path(name).relative_to(ROOT).as_posix()] += 1

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Count the calls of this thread."""
        before = sys.getprofile()
        sys.setprofile(self.look)
        try:
            yield
        finally:
            sys.setprofile(before)


def entered(work: Callable[[], object]) -> set[str]:
    """The files in which a function was called, after what is done once."""
    work()
    calls = Calls()
    with calls.counted():
        work()
    return set(calls)


def grown(calls_of: Callable[[int], Calls]) -> set[str]:
    """The files in which a function was called once for each of some messages, or batches."""
    count = 20
    calls_of(1)  # what is done once per process must not count for the few
    few, many = calls_of(count), calls_of(2 * count)
    return {file for file in many if many[file] - few[file] >= count}


@pytest.mark.parametrize("way", WAYS)
def test_design_page_lists_files_a_call_runs_through(way: str) -> None:
    files = listed().get((way, COMPILED))
    if files is None:
        pytest.skip("the page lists this way compiled")

    assert files == entered(WAYS[way])


@pytest.mark.skipif(not COMPILED, reason="the page lists this way compiled")
def test_design_page_lists_files_a_batch_runs_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyarrow", reason="pyarrow is not installed: make setup")
    from amqp10msg.jobs import Job, inputs, run  # noqa: PLC0415  (they need pyarrow)

    monkeypatch.setattr(inputs, "_BATCH_ROWS", 10)
    sized = len(WIRE).to_bytes(4, "big") + WIRE

    def calls_of(batches: int) -> Calls:
        messages, calls = tmp_path / f"{batches}.bin", Calls()
        messages.write_bytes(sized * 10 * batches)
        with calls.counted():
            run(messages, tmp_path / f"{batches}", Job("decode"), workers=1)
        return calls

    assert listed()["pipeline decode", True] == grown(calls_of)


class Client(transport.Handler):
    """Sends messages to a node and takes them back, each once it knows of the last.

    Args:
        server: runs, and has seen nothing of this client.
    """

    def __init__(self, server: Server) -> None:
        self.engine = transport.Connection(self, transport.Open(container_id="client"))
        self.came = self.confirmed = 0
        self.socket = socket.create_connection((server.host, server.port), timeout=20)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.engine.open()
        session = self.engine.begin()
        self.sender = session.link("out", sends=True)
        self.sender.attach(source=Source(), target=Target(address="q"))
        receiver = session.link("in", sends=False)
        receiver.attach(source=Source(address="q"), target=Target())
        receiver.grant(1_000)
        self.talk(lambda: bool(self.sender.credit))

    def on_transfer(self, delivery: transport.LinkDelivery) -> None:
        self.came += 1
        delivery.update(Accepted())

    def on_disposition(self, delivery: transport.LinkDelivery) -> None:  # noqa: ARG002
        self.confirmed += 1

    def talk(self, done: Callable[[], bool]) -> None:
        while True:
            self.socket.sendall(self.engine.take())
            if done():
                return
            octets = self.socket.recv(65_536)
            assert octets, "the server closed the connection"
            self.engine.feed(octets)
            while self.engine.step():
                pass

    def exchange(self) -> None:
        count = self.came + 1
        self.sender.send(b"tag", WIRE)
        self.talk(lambda: self.came == self.confirmed == count)


@pytest.mark.skipif(not COMPILED, reason="the page lists this way compiled")
def test_design_page_lists_files_a_served_message_runs_through() -> None:
    # The periodic work of the server is not part of the way.
    with Server(accept_durable=True, waits=ServerWaits(expiry=60)) as server:
        client = Client(server)
        client.exchange()  # what is done once

        def calls_of(messages: int) -> Calls:
            calls = Calls()
            server.call(lambda _: sys.setprofile(calls.look))
            for _ in range(messages):
                client.exchange()
            server.call(lambda _: sys.setprofile(None))
            return calls

        try:
            found = grown(calls_of)
        finally:
            client.socket.close()

    assert listed()["serve", True] == found


def test_tracer_records_files() -> None:
    assert {"message/__init__.py"} <= entered(lambda: Message(b"x").encode())
    assert {way for way, _ in listed()} == {*WAYS, "pipeline decode", "serve"}
