"""Whatever is killed, whenever: a job leaves what was there, or all that it made.

``AMQP10MSG_KILLS=30`` (``make kills``) kills the job and its workers so often in place of once.
"""

from __future__ import annotations

import functools
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from amqp10msg import Message, Properties

pa = pytest.importorskip("pyarrow")
pytest.importorskip("click")

import pyarrow.parquet as pq  # noqa: E402

from amqp10msg import jobs  # noqa: E402
from tests.waiting import wait_until  # noqa: E402

pytestmark = [
    pytest.mark.kills,
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds processes in /proc"),
]

ROOT = Path(__file__).parents[2]
KILLS = int(os.environ.get("AMQP10MSG_KILLS", "1"))
# So often, for each kill that was asked for, a process is started to be killed.
ATTEMPTS = 20
COUNT = 20_000
CUT = 7


@functools.cache
def wires() -> list[bytes]:
    """Return encoded messages; each `CUT`th lacks its last byte."""
    return [
        wire if number % CUT else wire[:-1]
        for number in range(COUNT)
        for wire in [Message(b"x" * 99, properties=Properties(message_id=f"m-{number}")).encode()]
    ]


def workers_of(pid: int) -> list[int]:
    """The workers that a process has started; not what else multiprocessing starts."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                command = (entry / "cmdline").read_text()
            except OSError:
                continue
            if int(fields[1]) == pid and "spawn_main" in command:
                found.append(int(entry.name))
    return found


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def start(folder: Path, *options: str) -> subprocess.Popen[str]:
    """Start a command with two workers, in a group of processes of its own."""
    # What a shell runs in the background ignores Ctrl-C, and so would all that it starts.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return subprocess.Popen(
            [
                *(sys.executable, "-m", "amqp10msg", "pipeline", "validate"),
                *("in.parquet", "out", "--workers", "2", *options),
            ],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A file of many parts: some seconds of work."""
    path = tmp_path / "in.parquet"
    # Whatever the size of a part, each of these row groups is one.
    pq.write_table(
        pa.table({"wire": wires(), "pad": [os.urandom(800)] * COUNT}),
        path,
        row_group_size=500,
        use_dictionary=False,
        compression="none",
    )
    return path


@pytest.fixture
def job(source: Path) -> Iterator[subprocess.Popen[str]]:
    """A job that has begun to write."""
    process = start(source.parent)
    try:
        wait_until((source.parent / ".out.unfinished").exists)
        wait_until(lambda: bool(workers_of(process.pid)))
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=60)


def test_ctrl_c_keeps_finished_parts(job: subprocess.Popen[str], tmp_path: Path) -> None:
    workers = workers_of(job.pid)

    os.killpg(job.pid, signal.SIGINT)  # as a terminal does

    assert ("", "\namqp10msg: interrupted\n") == job.communicate(timeout=60)
    assert 130 == job.returncode
    assert ["in.parquet"] == [name for name in names_in(tmp_path) if name != ".out.unfinished"]
    assert workers
    wait_until(lambda: not any(map(is_running, workers)))


def test_workers_do_not_outlive_the_job(job: subprocess.Popen[str], tmp_path: Path) -> None:
    workers = workers_of(job.pid)

    job.kill()

    assert workers
    wait_until(lambda: not any(map(is_running, workers)))
    assert [".out.unfinished", "in.parquet"] == names_in(tmp_path)
    check(tmp_path)


def test_output_is_old_or_new_after_a_kill(source: Path, tmp_path: Path) -> None:
    order = Random(KILLS)
    out = tmp_path / "out"
    out.mkdir()
    begun = time.monotonic()
    finish(source.parent)
    took = time.monotonic() - begun
    killed: Counter[str] = Counter()
    done = 0
    # A job may be done before it is killed, and its workers come after its beginning.
    for _ in range(ATTEMPTS * KILLS):
        if killed == {"job": KILLS, "worker": KILLS}:
            break
        victim = "job" if killed["job"] <= killed["worker"] else "worker"
        (out / "before").write_text("what was there")
        process = start(tmp_path, "--overwrite")
        time.sleep(order.uniform(0.2, 1) * took)
        pids = [process.pid] if victim == "job" else workers_of(process.pid)
        if process.poll() is None and pids:
            os.kill(order.choice(pids), signal.SIGKILL)
            killed[victim] += 1
        said = process.communicate(timeout=120)[1]
        if (out / "before").exists():
            if victim == "worker":
                assert 1 == process.returncode, said
                assert ["in.parquet", "out"] == names_in(tmp_path)
        else:
            done += 1
            check_whole(out)
    assert {"job": KILLS, "worker": KILLS} == killed
    finish(source.parent)
    check_whole(out)
    wait_until(lambda: ["in.parquet", "out"] == names_in(tmp_path))
    print(f"{dict(killed)} killed, {done} jobs were done by then")  # noqa: T201


def finish(folder: Path) -> None:
    process = start(folder, "--overwrite")

    said = process.communicate(timeout=120)[1]
    assert re.fullmatch(r"amqp10msg: exit status 1: [\d,]+ of 20,000 messages in .*\n", said), said
    assert 1 == process.returncode


def check(folder: Path) -> None:
    """The next job takes away what is left of the one before."""
    jobs.run(folder / "in.parquet", folder / "out", jobs.Job("validate"), mode="append")

    assert ["in.parquet", "out"] == names_in(folder)
    check_whole(folder / "out")


def check_whole(out: Path) -> None:
    good, bad = (
        sorted(wire for path in folder.iterdir() for wire in wires_in(path))
        for folder in jobs.output_of(out)
    )
    assert sorted(wire for number, wire in enumerate(wires()) if number % CUT) == good
    assert sorted(wire for number, wire in enumerate(wires()) if not number % CUT) == bad
    stats = jobs.read_stats(out)
    assert (len(wires()), len(bad)) == (stats.rows, stats.errors)


def wires_in(path: Path) -> list[bytes]:
    found = pq.ParquetFile(path).read(columns=["wire"]).column("wire").to_pylist()
    assert isinstance(found, list)
    return found
