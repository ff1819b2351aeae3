"""Whatever is killed, at any instant, each published message is in the output, once.

``AMQP10MSG_KILLS=30`` (``make kills``) kills each of the processes so often in place of once.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import attrs
import pytest

from amqp10msg import Message, Properties

pa = pytest.importorskip("pyarrow")
pytest.importorskip("click")
pytest.importorskip("pyspark", reason="pyspark is not installed: make setup")

import pyarrow.parquet as pq  # noqa: E402

from amqp10msg.jobs import output_of  # noqa: E402
from amqp10msg.spark import java_home, read_stats  # noqa: E402
from tests.net import odd_broker  # noqa: E402
from tests.waiting import wait_until  # noqa: E402

pytestmark = [
    pytest.mark.kills,
    pytest.mark.xdist_group("spark"),
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds processes in /proc"),
]

ROOT = Path(__file__).parents[2]
# A JVM that lives for seconds starts sooner so.
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
KILLS = int(os.environ.get("AMQP10MSG_KILLS", "1"))
# So often, for each kill that was asked for, a process is started or looked for to be killed.
ATTEMPTS = 20
LOOKS = 300


@pytest.fixture(autouse=True)
def _java(monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        home = java_home()
    except RuntimeError as error:
        pytest.skip(str(error))
    if home is not None:
        monkeypatch.setenv("JAVA_HOME", home)


def start(log: Path, *arguments: object) -> subprocess.Popen[bytes]:
    with log.open("wb") as said:
        return subprocess.Popen(
            [sys.executable, "-m", *map(str, arguments)],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT), "JDK_JAVA_OPTIONS": QUICK},
            stdout=said,
            stderr=said,
        )


def below(ancestor: int) -> dict[int, str]:
    """The processes that a process has started, and those have, with their command lines."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                text = (entry / "stat").read_text()
            except OSError:
                continue
            parents[int(entry.name)] = int(text.rpartition(")")[2].split()[1])
    found: dict[int, str] = {}
    for pid in parents:
        parent = parents.get(pid, 0)
        while parent > 1 and parent != ancestor:
            parent = parents.get(parent, 0)
        if parent == ancestor:
            try:
                found[pid] = Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
            except OSError:
                continue
    return found


def jvm_of(pid: int) -> list[int]:
    return [found for found, command in below(pid).items() if "org.apache.spark" in command]


def workers_of(pid: int) -> list[int]:
    return [
        found for found, command in below(pid).items() if "pyspark" in command.split(" -m ")[-1]
    ]


def kill(pids: list[int], order: Random) -> bool:
    """Kill one of them at random; tell whether there was one."""
    if not pids:
        return False
    try:
        os.kill(order.choice(pids), signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill a process with all that it has started."""
    for pid in [process.pid, *below(process.pid)]:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    process.wait(30)


# From a queue by way of the spooler and a stream.


def published(first: int, count: int) -> dict[str, bytes]:
    """Messages by their name, which stands in each; every twelfth is cut off."""
    made = {}
    for number in range(first, first + count):
        name = f"m-{number}"
        octets = Message(
            name.encode() + bytes(number % 200), properties=Properties(message_id=name)
        ).encode()
        made[name] = octets if number % 12 else octets[: len(octets) - 1 - number % 7]
    return made


@attrs.define
class Chain:
    """A spooler that consumes the broker, and a stream that decodes what it lands."""

    url: str
    folder: Path
    order: Random
    processes: dict[str, subprocess.Popen[bytes]] = attrs.Factory(dict)
    killed: Counter[str] = attrs.Factory(Counter)
    starts: Counter[str] = attrs.Factory(Counter)

    @property
    def landing(self) -> Path:
        return self.folder / "landing"

    @property
    def out(self) -> Path:
        return self.folder / "out"

    def spooler(self, *options: object) -> subprocess.Popen[bytes]:
        arguments = ("amqp10msg", "spool", self.url, "q", self.landing)
        return start(
            self.folder / "spooler.log", *arguments, "--rows", 60, "--seconds", 0.05, *options
        )

    def stream(self, *options: object) -> subprocess.Popen[bytes]:
        program = ("tests.spark.stream_to_kill", self.landing, self.out, self.folder)
        return start(self.folder / "stream.log", *program, *options)

    def keep_running(self) -> None:
        for name, again in (("spooler", self.spooler), ("stream", self.stream)):
            process = self.processes.get(name)
            if process is None or process.poll() is not None:
                self.starts[name] += 1
                # Beside those that were killed, those whose tasks failed too often.
                log = self.folder / f"{name}.log"
                assert self.starts[name] <= 3 * KILLS + 3, log.read_text()
                self.processes[name] = again()

    def kill(self, victim: str) -> bool:
        stream, spooler = self.processes["stream"], self.processes["spooler"]
        found = {
            "jvm": lambda: jvm_of(stream.pid),
            "worker": lambda: workers_of(stream.pid),
            "spooler": lambda: [spooler.pid] if spooler.poll() is None else [],
        }[victim]()
        time.sleep(self.order.uniform(0, 0.3))
        done = kill(found, self.order)
        self.killed[victim] += done
        if done and victim == "jvm":
            with contextlib.suppress(subprocess.TimeoutExpired):
                stream.wait(20)  # the driver in Python ends without it
            end(stream)  # or it waits for ever for a JVM that was killed while it started
        return done

    def batches(self) -> int:
        return len(list((self.out / "messages").glob("batch=*")))

    def files(self) -> int:
        return len(list(self.landing.glob("*.parquet")))


@pytest.fixture
def chain(tmp_path: Path) -> Iterator[tuple[Any, Chain]]:
    with odd_broker.running() as (_, broker):
        made = Chain(broker.url, tmp_path, Random(KILLS))
        yield broker, made
        for process in made.processes.values():
            end(process)


def test_each_published_message_is_in_the_output(chain: tuple[Any, Chain]) -> None:
    broker, run = chain
    victims = ["jvm", "worker", "spooler"] * KILLS
    run.order.shuffle(victims)
    sent: dict[str, bytes] = {}
    for victim in victims:
        run.keep_running()
        more = published(len(sent), 150)
        sent.update(more)
        progress = run.files if victim == "spooler" else run.batches
        before = progress() + run.order.randint(1, 2)
        broker.publish("q", more.values())
        # Somewhere in its work, or now and then wherever it is, such as in its beginning.
        if run.order.random() < 0.75:
            with contextlib.suppress(TimeoutError):
                wait_until(lambda: progress() >= before, 45)  # noqa: B023  (called here)
        for _ in range(LOOKS):
            if run.kill(victim):
                break
            run.keep_running()
            time.sleep(run.order.uniform(0, 0.7))
        else:
            pytest.fail(f"there was no {victim} to kill: {below(os.getpid())}")
        print(dict(run.killed), f"{run.batches()} batches", flush=True)  # noqa: T201
    for process in run.processes.values():
        end(process)

    assert 0 == run.spooler("--idle", 1.5).wait(120)
    assert 0 == run.stream("finish").wait(300)

    landed, good, bad = (rows(f) for f in (run.landing, *output_of(run.out)))
    # The stream loses none and doubles none of the rows that it was given.
    assert Counter(map(delivery, landed)) == Counter(map(delivery, [*good, *bad]))
    # What came twice to the spooler has one identity.
    assert {f"string:{name}" for name in sent if whole(name)} == {r["identity"] for r in good}
    for row in good:
        assert row["body"].startswith(row["message_id"].encode())
        assert row["identity"] == f"string:{row['message_id']}"
    once = {row["identity"]: row["wire"] for row in bad}
    assert sorted(octets for name, octets in sent.items() if not whole(name)) == sorted(
        once.values()
    )
    assert {"truncated"} == {row["error_code"] for row in bad}
    stats = read_stats(run.out)
    assert (len(landed), len(bad)) == (stats.rows, stats.errors)
    assert dict.fromkeys(("jvm", "worker", "spooler"), KILLS) == run.killed
    print(  # noqa: T201  (the figures, with -s)
        f"{dict(run.killed)} killed, {len(sent)} messages published, {len(landed)} landed, "
        f"{len({row['identity'] for row in landed})} of them different, {run.batches()} batches"
    )


def whole(name: str) -> bool:
    return bool(int(name.removeprefix("m-")) % 12)


def delivery(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["identity"], row["delivery_tag"], row["received"], row["redelivered"]


def rows(folder: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for path in sorted(folder.rglob("*.parquet")):
        if not path.name.startswith("."):
            found += pq.ParquetFile(path).read().to_pylist()
    return found


# From a folder to a folder, by a job.


def test_output_is_old_or_new_after_a_kill(tmp_path: Path) -> None:
    source, out, log = tmp_path / "in", tmp_path / "out", tmp_path / "log"
    source.mkdir()
    order = Random(KILLS)
    sent = published(0, 40_000)
    names = list(sent)
    for number in range(4):
        wires = [sent[name] for name in names[number::4]]
        pq.write_table(pa.table({"wire": wires}), source / f"{number}.parquet")

    def run() -> subprocess.Popen[bytes]:
        options = ("--master", "local[2]", "--columns", "message_id,body", "--overwrite")
        return start(log, "amqp10msg", "pipeline", "decode", source, out, *options)

    begun = time.monotonic()
    assert 1 == run().wait(300), log.read_text()  # messages are in quarantine
    took = time.monotonic() - begun
    killed: Counter[str] = Counter()
    done = 0
    for _ in range(ATTEMPTS * KILLS):
        if killed == {"jvm": KILLS, "worker": KILLS}:
            break
        victim = "jvm" if killed["jvm"] <= killed["worker"] else "worker"
        shutil.rmtree(out)
        put_marker(out)
        process = run()
        # Workers live only for the second half of it.
        time.sleep(order.uniform(0.2 if victim == "jvm" else 0.4, 0.95) * took)
        find = jvm_of if victim == "jvm" else workers_of
        killed[victim] += kill(find(process.pid), order)
        process.wait(300)
        assert ["in", "log", "out"] == sorted(p.name for p in tmp_path.iterdir() if not hidden(p))
        if (out / "before").exists():
            assert ["before"] == [path.name for path in out.iterdir()]
            continue
        done += 1
        check_job(sent, out)
    assert {"jvm": KILLS, "worker": KILLS} == killed
    assert 1 == run().wait(300), log.read_text()
    check_job(sent, out)
    assert ["in", "log", "out"] == sorted(path.name for path in tmp_path.iterdir())
    print(f"{dict(killed)} killed, {done} jobs were done by then")  # noqa: T201


def check_job(sent: dict[str, bytes], out: Path) -> None:
    good, bad = (rows(folder) for folder in output_of(out))
    assert sorted(n for n in sent if whole(n)) == sorted(row["message_id"] for row in good)
    assert sorted(o for n, o in sent.items() if not whole(n)) == sorted(r["wire"] for r in bad)


def hidden(path: Path) -> bool:
    return path.name.startswith(".")


def put_marker(out: Path) -> None:
    out.mkdir()
    (out / "before").write_text("what was there")
