"""A bridge with a full disk: correct counts, errors that name the file, no duplicates."""

from __future__ import annotations

import asyncio
import errno
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pika")

from amqp10msg import Message
from amqp10msg.basic import BasicMessage
from amqp10msg.net.bridge import Bridge, LinkError, Statistics, read_quarantine, records
from amqp10msg.net.ends import files
from amqp10msg.net.ends.terms import Oversized
from amqp10msg.net.serve import Server
from tests.basic_broker import BasicBroker, running
from tests.bridging import bodies, bridged, numbered, options, quarantined, stored

resource: Any = pytest.importorskip("resource")
pytestmark = [pytest.mark.once, pytest.mark.usefixtures("in_a_folder")]

ROOT = Path(__file__).parents[2]


def test_full_disk_of_the_quarantine_leaves_messages_at_the_source() -> None:
    """A limit on the file size simulates the full disk."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))

    broker = BasicBroker("from", "to")
    broker.queues["from"].extend(
        stored(BasicMessage(body=b"%d" % number * 100)) for number in range(500)
    )
    broker.refuses = lambda _: "nack"
    with running(broker):
        command = [sys.executable, "-m", "amqp10msg", "bridge", "--patience", "0"]
        command += ["--from", broker.url("queue=from"), "--to", broker.url("queue=to")]
        command += ["--window", "20", "--until-empty", "--idle", "0.3"]
        done = subprocess.run(
            command,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=60,
            preexec_fn=limit,
            check=False,
        )

    lines = Path("quarantine.jsonl").read_bytes().splitlines()
    aside = len(list(read_quarantine(Path("quarantine.jsonl"))))
    assert len(lines) == aside  # and no piece of one that did not fit
    assert 0 < aside < 500
    assert 1 == done.returncode
    assert f"from -> to: {aside} messages in quarantine: nacked" in done.stdout
    assert aside == done.stderr.count("message-quarantine")
    assert f"from -> to: {500 - aside} messages left at the source" in done.stdout
    assert 500 - aside == len(broker.queues["from"])
    assert re.search(r"amqp10msg: .*quarantine\.jsonl", done.stderr)


@pytest.mark.parametrize("refused", [0, 7])
def test_full_disk_of_the_ledger_duplicates_no_message(
    refused: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    add = records.Ledger.add
    room = 100

    def adds(self: Any, identities: list[str]) -> None:
        nonlocal room
        room -= len(identities)
        if room < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "seen.db")
        add(self, identities)

    monkeypatch.setattr(records.Ledger, "add", adds)

    async def run() -> tuple[BasicBroker, Statistics, Statistics]:
        nonlocal room
        async with BasicBroker("from", "to") as broker:
            broker.queues["from"].extend(numbered(400))
            broker.refuses = lambda one: "nack" if refused and int(one.body) % refused == 3 else ""
            given: dict[str, Any] = {"deduplicate": "seen.db", "patience": 0}
            urls = (broker.url("queue=from"), broker.url("queue=to"))
            bridge = Bridge(*urls, options(**given))
            with pytest.raises(OSError, match=r"seen\.db"):
                async with asyncio.timeout(60), bridge:
                    await bridge.run()
            room = 1 << 20
            return broker, bridge.routes[0].statistics, await bridged(*urls, **given)

    broker, first, second = asyncio.run(run())

    came = Counter(bodies(broker.queues["to"]))
    came.update(quarantined())
    assert {one.body: 1 for one in numbered(400)} == came
    assert "failed" == first.ending
    assert 400 == first.settled + second.settled
    assert first.remaining == 400 - first.settled


def test_error_names_the_folder_of_large_messages(tmp_path: Path) -> None:
    made = Oversized(tmp_path / "large", 1 << 30)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, limits[1]))
    try:
        with pytest.raises(OSError, match=f"'{tmp_path}/large'"):
            made.extend(b"x" * 100_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        made.discard()


def test_large_message_removed_by_another_bridge_during_the_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other.part"
    other.write_bytes(b"x" * 100)
    (tmp_path / "kept.bin").write_bytes(b"x" * 50)

    def scanned(folder: Path) -> list[Any]:
        with scan(folder) as entries:
            found = [*entries]
        other.unlink()
        return found

    scan = os.scandir
    monkeypatch.setattr(os, "scandir", scanned)
    made = Oversized(tmp_path, 100)
    whole = []
    for octets in (b"y" * 50, b"y"):
        made.extend(octets)
        whole.append(made.is_whole)
    assert [True, False] == whole
    made.discard()


def run_with_file_limit(bound: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a process whose files cannot grow beyond `bound` bytes."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (bound, bound))

    return subprocess.run(
        [sys.executable, "-m", "amqp10msg", *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        preexec_fn=limit,
        check=False,
    )


@pytest.mark.parametrize("window", ["1", "20", "500"])
def test_full_disk_of_a_target_file_ends_the_route_and_blames_no_message(window: str) -> None:
    broker = BasicBroker("from")
    broker.queues["from"].extend(numbered(500))
    with running(broker):
        done = run_with_file_limit(
            *(20_000, "bridge", "--from", broker.url("queue=from")),
            *("--to", "file:kept.jsonl?protocol=0-9-1", "--window", window),
            *("--until-empty", "--idle", "0.3"),
        )

    kept = [one.octets for one in read_quarantine(Path("kept.jsonl"))]
    assert 1 == done.returncode
    # All 500 messages may be in one write, which is undone as a whole.
    assert len(kept) < 500
    assert kept or window == "500"
    assert not Path("quarantine.jsonl").exists()
    assert "message-quarantine" not in done.stderr
    assert re.search(r"cannot write the target file: .*'kept\.jsonl'", done.stderr)
    assert "make room for the file" in done.stderr
    assert f"from -> kept.jsonl: {500 - len(kept)} messages left at the source" in done.stdout
    assert {one.body: 1 for one in numbered(500)} == Counter(kept + bodies(broker.queues["from"]))


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EACCES, errno.EIO, errno.EDQUOT])
def test_local_error_of_a_target_file_ends_an_endless_route(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    append = files.append_lines
    room = 100

    def appends(path: Path, lines: list[str]) -> None:
        nonlocal room
        room -= len(lines)
        if room < 0:
            raise OSError(number, os.strerror(number), str(path))
        append(path, lines)

    monkeypatch.setattr(files, "append_lines", appends)

    async def run() -> tuple[BasicBroker, Statistics]:
        async with BasicBroker("from") as broker:
            broker.queues["from"].extend(numbered(400))
            urls = (broker.url("queue=from"), "file:kept.jsonl?protocol=0-9-1")
            bridge = Bridge(*urls, options(idle=None))
            with pytest.raises(LinkError, match=r"cannot write the target file: .*kept\.jsonl"):
                async with asyncio.timeout(60), bridge:
                    await bridge.run()
            return broker, bridge.routes[0].statistics

    broker, counts = asyncio.run(run())

    kept = [one.octets for one in read_quarantine(Path("kept.jsonl"))]
    assert {one.body: 1 for one in numbered(400)} == Counter(kept + bodies(broker.queues["from"]))
    assert ("failed", len(kept)) == (counts.ending, counts.settled)


@pytest.mark.parametrize("protocol", ["0-9-1", "1.0"])
def test_full_disk_for_a_large_message_ends_the_route(protocol: str) -> None:
    large = b"x" * 100_000
    broker = BasicBroker("from", "to")
    broker.queues["from"].append(stored(BasicMessage(body=large)))
    with running(broker), Server(accept_durable=True) as server:
        server.publish("from", Message(large))
        source = broker.url("queue=from") if protocol == "0-9-1" else f"{server.url}/from"
        done = run_with_file_limit(
            *(20_000, "bridge", "--from", source, "--to", broker.url("queue=to")),
            *("--max-message", "10000", "--until-empty", "--idle", "0.3"),
        )

    assert 1 == done.returncode
    assert re.search(r"too large for memory to a file: .*quarantine\.jsonl\.large", done.stderr)
    assert 1 == done.stderr.count("source-lost")
    assert not Path("quarantine.jsonl").exists()
    assert not broker.queues["to"]
    if protocol == "0-9-1":
        assert [large] == bodies(broker.queues["from"])
