"""Messages are synced to disk before they are settled, so a power failure loses no message."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pika")
pytest.importorskip("pyarrow")

from amqp10msg.net.ends.parquet import Landing
from amqp10msg.net.spool import Batches, spool
from tests.basic_broker import BasicBroker, _Peer, running
from tests.bridging import bridged, numbered, quarantined
from tests.disk import Disk

pytestmark = [
    pytest.mark.once,
    pytest.mark.usefixtures("in_a_folder"),
    pytest.mark.skipif(os.name != "posix", reason="folders are synced on POSIX systems"),
]

MESSAGES = numbered(13)[10:]


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


def settled_after(
    monkeypatch: pytest.MonkeyPatch, disk: Disk, target: str, *patterns: str, **options: Any
) -> list[list[str]]:
    """Bridge three messages; return what was not on disk at each settlement at the source."""
    folder = Path.cwd()
    missing: list[list[str]] = []
    settle = _Peer.settle

    def checked(peer: _Peer, index: int, arguments: bytes) -> None:
        missing.append(disk.missing(*(path for one in patterns for path in folder.glob(one))))
        settle(peer, index, arguments)

    monkeypatch.setattr(_Peer, "settle", checked)

    async def run() -> None:
        async with BasicBroker("from", "to") as broker:
            broker.queues["from"].extend(MESSAGES)
            broker.refuses = lambda _: "nack"
            urls = (broker.url("queue=from"), target or broker.url("queue=to"))
            counts = await bridged(*urls, patience=0, **options)
            assert 3 == counts.settled
            assert not broker.queues["from"]

    asyncio.run(run())
    return missing


def test_quarantined_messages_are_on_disk(monkeypatch: pytest.MonkeyPatch, disk: Disk) -> None:
    missing = settled_after(monkeypatch, disk, "", "quarantine.jsonl")

    assert [one.body for one in MESSAGES] == quarantined()
    assert missing
    assert not any(missing)


def test_large_messages_are_on_disk(monkeypatch: pytest.MonkeyPatch, disk: Disk) -> None:
    patterns = ("quarantine.jsonl", "quarantine.jsonl.large/*.bin")
    missing = settled_after(monkeypatch, disk, "", *patterns, max_message=1)

    assert 3 == len([*Path("quarantine.jsonl.large").glob("*.bin")])
    assert missing
    assert not any(missing)


def test_messages_in_a_file_are_on_disk(monkeypatch: pytest.MonkeyPatch, disk: Disk) -> None:
    missing = settled_after(monkeypatch, disk, "file:out.jsonl", "out.jsonl")

    assert 3 == len(Path("out.jsonl").read_text().splitlines())
    assert missing
    assert not any(missing)


def test_spooled_messages_are_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, disk: Disk
) -> None:
    """Together with the number of the next file: a reader would skip a reused name."""
    missing: list[list[str]] = []
    folder = tmp_path / "landing"
    settle = _Peer.settle

    def checked(peer: _Peer, index: int, arguments: bytes) -> None:
        missing.append(disk.missing(folder / ".lock", *folder.glob("*.parquet")))
        settle(peer, index, arguments)

    monkeypatch.setattr(_Peer, "settle", checked)

    with running(BasicBroker("q")) as broker, Landing(folder) as landing:
        broker.queues["q"].extend(MESSAGES)
        url = f"amqp://guest:guest@127.0.0.1:{broker.port}/%2f"
        batches = Batches(rows=2, seconds=0.1, idle=0.3)
        assert 3 == spool(url, "q", landing, batches, protocol="0-9-1")

    assert missing
    assert not any(missing)
