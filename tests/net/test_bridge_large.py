"""Messages that are too large for memory are written to files, within a limit."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("pika")

from amqp10msg import Message
from amqp10msg.basic import BasicMessage
from amqp10msg.net.bridge import Bridge, Statistics, read_quarantine
from amqp10msg.net.bridge.process import status_of
from amqp10msg.net.serve import Server
from tests.basic_broker import BasicBroker, Stored, running
from tests.bridging import bridged, options, quarantined, stored
from tests.waiting import until

ROOT = Path(__file__).parents[2]


pytestmark = pytest.mark.usefixtures("in_a_folder")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(accept_durable=True) as made:
        yield made


SIZES = st.lists(st.sampled_from([0, 1, 3_000, 5_000, 9_000]), min_size=1, max_size=8)


@settings(max_examples=10)
@given(SIZES, st.sampled_from(["0-9-1", "1.0"]))
def test_large_messages_are_written_to_files(
    server: Server, sizes: list[int], protocol: str
) -> None:
    most = 4_000
    sent = [stored(BasicMessage(body=random.randbytes(size))) for size in sizes]

    async def run() -> tuple[BasicBroker, Statistics]:
        async with BasicBroker("from", "to") as broker:
            broker.queues["from"].extend(sent)
            source = broker.url("queue=from")
            if protocol == "1.0":
                await bridged(source, f"{server.url}/large", max_messages=len(sent))
                source = f"{server.url}/large"
            given = {"max_message": most, "max_messages": len(sent)}
            return broker, await bridged(source, broker.url("queue=to"), **given)

    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        broker, counts = asyncio.run(run())
        path = Path("quarantine.jsonl")
        aside = [one.raw for one in read_quarantine(path)] if path.exists() else []
        left = {one.suffix for one in Path("quarantine.jsonl.large").glob("*")}

    large = [one for one in sent if len(one.body) > most]
    if protocol == "0-9-1":
        assert [one.header + one.body for one in large] == aside
    else:
        assert len(large) == len(aside)
        assert all(one.body in raw for one, raw in zip(large, aside, strict=True))
    assert {".bin"} >= left
    assert [one for one in sent if not len(one.body) > most] == list(broker.queues["to"])
    assert counts.quarantined.total() == len(large)
    assert [] == list(broker.queues["from"])


def test_endless_message_uses_no_memory(tmp_path: Path) -> None:
    """The source announces a tebibyte. The partial file is removed when the connection ends."""
    header = b"\0\x3c\0\0" + (1 << 40).to_bytes(8, "big") + b"\0\0"

    async def run() -> int:
        async with BasicBroker("from", "to") as broker:
            broker.queues["from"].append(Stored(header, b"x" * 100_000))
            urls = (broker.url("queue=from"), broker.url("queue=to"))
            async with asyncio.timeout(60), Bridge(*urls, options(idle=None)):
                await until(lambda: any(tmp_path.glob("*.large/*.part")))
                broker.cut()
                await until(lambda: broker.opened >= 4)
            return len(broker.queues["from"])

    assert 1 == asyncio.run(run())
    assert [] == list(tmp_path.glob("*.large/*"))


@pytest.mark.parametrize("protocol", ["0-9-1", "1.0"])
def test_large_message_without_room_returns_to_the_source(server: Server, protocol: str) -> None:
    """It is not lost, not redelivered in a loop, and does not block other messages."""
    sizes = [100, 30_000, 200, 30_000, 30_000, 300]
    sent = [stored(BasicMessage(body=random.randbytes(size))) for size in sizes]

    async def run() -> tuple[list[Any], BasicBroker, Statistics]:
        async with BasicBroker("from", "to") as broker:
            broker.queues["from"].extend(sent)
            source = broker.url("queue=from")
            if protocol == "1.0":
                await bridged(source, f"{server.url}/room", max_messages=len(sent))
                source = f"{server.url}/room"
            given = {"max_message": 4_000, "max_large": 40_000}
            counts = await bridged(source, broker.url("queue=to"), **given)
            left = broker.queues["from"] if protocol == "0-9-1" else server.messages("room")
            return [one.body for one in left], broker, counts

    left, broker, counts = asyncio.run(run())

    assert [sent[0], sent[2], sent[5]] == list(broker.queues["to"])
    assert (6, 2, {"too-large": 1}) == (counts.received, counts.left, counts.quarantined)
    assert 1 == len(quarantined())
    bodies = sorted(getattr(one, "data", one) for one in left)
    assert sorted([sent[3].body, sent[4].body]) == bodies
    assert ["bin"] == [one.suffix[1:] for one in Path("quarantine.jsonl.large").iterdir()]


def test_message_without_room_on_disk_has_an_exit_status() -> None:
    """Status 3 precedes 5, even if the remaining messages were not counted."""

    async def run() -> tuple[int, Statistics]:
        async with BasicBroker("from", "to") as broker:
            sent = [stored(BasicMessage(body=bytes(size))) for size in (100, 15)]
            broker.queues["from"].extend(sent)
            urls = (broker.url("queue=from"), broker.url("queue=to"))
            given = options(max_message=10, max_large=60, idle=None)
            async with asyncio.timeout(60), Bridge(*urls, given) as bridge:
                (route,) = bridge.routes
                running = asyncio.ensure_future(bridge.run())
                await until(lambda: route.statistics.left and route.statistics.quarantined)
                bridge.stop()
                (counts,) = (await running).values()
            return len(broker.queues["from"]), counts

    back, counts = asyncio.run(run())

    assert (1, 1, None) == (back, counts.left, counts.remaining)
    assert {"too-large": 1} == counts.quarantined
    assert 3 == status_of([counts])
    assert 5 == status_of([attrs.evolve(counts, left=0)])


#: The command, which says at its end how much memory it had, in KiB.
_MEASURED = """
import sys
from pathlib import Path
from amqp10msg.app.cli import main
try:
    main()
finally:
    status = Path("/proc/self/status").read_text()
    print(status.partition("VmHWM:")[2].split()[0], file=sys.stderr)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="Linux counts the memory")
def test_a_container_of_256_mib_is_enough(tmp_path: Path) -> None:
    """From 1.0 to 0-9-1, where bodies are copied most often."""
    body = random.randbytes(23 << 20)
    broker = BasicBroker("to")
    broker.frame_max = 131_072
    with Server(accept_durable=True, max_message_size=1 << 30) as large, running(broker):
        for number in range(6):
            large.publish("big", Message(body * 3 if number % 3 == 1 else body))
        command = [sys.executable, "-c", _MEASURED, "bridge", "--max-messages", "6"]
        command += ["--accept-quarantine"]
        command += ["--from", f"{large.url}/big", "--to", broker.url("queue=to"), "--log", "none"]
        done = subprocess.run(
            command,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        )

    assert [body] * 4 == [one.body for one in broker.queues["to"]]
    aside = [one.file for one in read_quarantine(tmp_path / "quarantine.jsonl")]
    assert 2 == len([one for one in aside if one and one.stat().st_size > len(body) * 3])
    assert int(done.stderr.splitlines()[-1]) < 256 << 10
