"""The PySpark pipeline beside Spark alone: the time of its processes, its scaling, its memory.

Figures are for a message. Where it says processor time, that is of the JVM and of all workers; the
clock on the wall also tells who else uses the machine.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Literal

import attrs
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.pandas.types import from_arrow_schema

from amqp10msg import Message, Properties, spark
from amqp10msg.jobs.job import decode_column, schema_for_spark
from amqp10msg.spark._frames import add_error_column
from bench.harness import SMOKE, Effort, Timing, Timings
from bench.report import Figure, Floor

MASTER = "local[2]"
FILES = 8
DISTINCT = 20_000
JOB = "job decode, Parquet to Parquet"
COPY = "the same Parquet copied by Spark alone"
LEAN = "spark.decode"
ALL = "spark.decode, all columns"
MAPS = "spark.decode, all columns, maps of structs"
TWO = "spark.decode, two columns"
SQL = "amqp10_decode of SQL"
IDENTITY = "mapInArrow that does nothing"
READY = "mapInArrow that gives the lean columns, made before"
READY_ALL = "mapInArrow that gives all columns, made before"
READY_SQL = "a function of SQL that gives the lean columns, made before"
#: The bytes of a message.
SIZE = 300


def messages(count: int) -> list[bytes]:
    """Messages with what most have: properties, three application properties, a body of text."""
    random = Random(count)
    made = []
    for number in range(count):
        body = random.randbytes(120).hex().encode()
        message = Message(
            body,
            properties=Properties(
                message_id=f"id-{number:08d}",
                to="orders",
                subject="created",
                creation_time=1_700_000_000_000 + number,
            ),
            application_properties={
                "tenant": f"t{number % 97}",
                "attempt": number % 5,
                "n": float(number),
            },
        )
        short = len(message.encode()) - SIZE
        made.append(message.evolve(body=body[: len(body) - short]).encode())
    return made


def generate(folder: Path, rows: int) -> int:
    """Write about `rows` messages to Parquet files; return how many were written.

    Each is one row group of 36 MB for a million messages of 300 bytes: as Spark and pyarrow write
    them, unless they are told otherwise.
    """
    folder.mkdir()
    some = pa.table({"wire": pa.array(messages(min(DISTINCT, rows)), pa.binary())})
    each = max(1, rows // FILES // len(some))
    whole = pa.concat_tables([some] * each)
    for number in range(FILES):
        pq.write_table(whole, folder / f"{number}.parquet")
    return FILES * each * len(some)


@attrs.frozen
class Place:
    """A session, and input for it."""

    session: Any
    folder: Path
    rows: int

    @property
    def raw(self) -> Any:
        """The messages, as Spark reads them."""
        return self.session.read.parquet(str(self.folder / "in"))

    def in_sql(self) -> Any:
        """Return the lean columns, decoded by the SQL function."""
        return self.session.sql("select m.* from (select amqp10_decode(wire) m from raw)")

    def ready(self, names: Literal["lean", "all"]) -> Any:
        """Return columns that were made before, by mapInArrow."""
        made = spark.decode(self.raw, columns=names)
        return self.raw.mapInArrow(partial(_made_before, names), made.schema)

    def ready_in_sql(self) -> Any:
        """Return the lean columns by a function of SQL that gives what was made before."""
        kind = from_arrow_schema(_made("lean", pa.array([], pa.binary())).schema)
        made: dict[int, pa.Array] = {}

        def give(wires: Any) -> Any:
            if len(wires) not in made:
                made[len(wires)] = _made("lean", wires).to_struct_array()
            return made[len(wires)]

        give.__annotations__ = {"wires": pa.Array, "return": pa.Array}
        function: Any = arrow_udf  # its overloads know no types of structs
        self.session.udf.register("ready", function(give, kind))
        return self.session.sql("select m.* from (select ready(wire) m from raw)")

    def read(self, df: Any) -> None:
        """Have all rows made, and throw them away."""
        df.write.format("noop").mode("overwrite").save()

    def job(self, source: str = "in") -> None:
        """Decode the input to Parquet."""
        folder, job = self.folder, spark.Job("decode")
        spark.run(self.session, str(folder / source), folder / "out", job, mode="overwrite")

    def copy(self) -> None:
        """Have Spark write what it reads."""
        self.raw.write.mode("overwrite").parquet(str(self.folder / "copy"))


@contextlib.contextmanager
def place(rows: int, master: str = MASTER) -> Iterator[Place]:
    """Start a session; it and its input are gone in the end."""
    folder = Path(tempfile.mkdtemp(prefix="amqp10msg-bench-"))
    config = {
        "spark.log.level": "ERROR",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        # A heap that neither grows nor shrinks, for the sake of the figure of memory.
        "spark.driver.extraJavaOptions": "-Xms1g",
    }
    session = spark.session(master, config=config)
    try:
        yield Place(session, folder, generate(folder / "in", rows))
    finally:
        session.stop()
        shutil.rmtree(folder)


@attrs.frozen
class Spent:
    """What calls took, in nanoseconds for a message."""

    wall: tuple[float, ...]
    cpu: tuple[float, ...]


def measure(
    calls: Mapping[str, Callable[[], object]], rows: int, rounds: int, first: int = 1
) -> dict[str, Spent]:
    """Run all calls in every round, after `first` rounds that do not count."""
    found: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in calls}
    for number in range(first + rounds):
        for name, call in calls.items():
            cpu, wall = cpu_seconds(), time.perf_counter()
            call()
            if number >= first:
                found[name][0].append((time.perf_counter() - wall) / rows * 1e9)
                found[name][1].append((cpu_seconds() - cpu) / rows * 1e9)
    return {name: Spent(tuple(wall), tuple(cpu)) for name, (wall, cpu) in found.items()}


def processes() -> dict[int, list[str]]:
    """The fields of stat (proc(5), from the third on) of this process and of all below it."""
    found: dict[int, list[str]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                found[int(entry.name)] = (entry / "stat").read_text().rpartition(")")[2].split()

    def is_below(pid: int) -> bool:
        while pid > 1 and pid != os.getpid():
            pid = int(found[pid][1]) if pid in found else 0
        return pid == os.getpid()

    return {pid: fields for pid, fields in found.items() if is_below(pid)}


def cpu_seconds() -> float:
    """Processor time of this process and of all below it, those that ended among them."""
    ticks = sum(int(tick) for fields in processes().values() for tick in fields[11:15])
    return ticks / os.sysconf("SC_CLK_TCK")


def resident() -> int:
    """Bytes of memory that the processes below this one have, shared ones divided."""
    octets = 0
    for pid in processes():
        if pid != os.getpid():
            with contextlib.suppress(OSError, ValueError):
                text = Path(f"/proc/{pid}/smaps_rollup").read_text()
                octets += int(text.partition("\nPss:")[2].split()[0]) * 1024
    return octets


def peak(call: Callable[[], object]) -> int:
    """The most memory that the processes below this one had while something ran."""
    seen = [resident()]
    done = threading.Event()

    def watch() -> None:
        while not done.wait(0.2):
            seen.append(resident())

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        call()
        seen.append(resident())  # it may have ended before the first look
    finally:
        done.set()
        watcher.join()
    return max(seen)


def _rounds(effort: Effort) -> int:
    return 1 if effort is SMOKE else min(effort.rounds, 3)


def _warm_up_rounds(effort: Effort) -> int:
    """Return how many rounds to run before those that count: each takes seconds of a JVM."""
    return 0 if effort is SMOKE else 1


def _over(spent: Mapping[str, Spent], name: str, other: str = IDENTITY) -> float:
    """How many times the processor time of something else it takes."""
    return statistics.median(spent[name].cpu) / statistics.median(spent[other].cpu)


def _made(names: Literal["lean", "all"], wires: Any) -> pa.RecordBatch:
    """Return columns as Spark takes them."""
    found = decode_column(wires, add_error_column(names, "variant"), maps="variant")
    return found.cast(schema_for_spark(found.schema))


def _made_before(
    names: Literal["lean", "all"], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Give the columns of the first batch of a size for each that follows."""
    made: dict[int, pa.RecordBatch] = {}
    for batch in batches:
        if batch.num_rows not in made:
            made[batch.num_rows] = _made(names, batch.column(0))
        yield made[batch.num_rows]


def run_decode(effort: Effort) -> Figure:
    """Measure decoding in a DataFrame against sending the rows to Python and back.

    What gives columns made before shows how much of it is Spark's, whoever decodes: that is as near
    as decoding in Python can come.
    """
    with place(effort.rows) as at:
        two = ("message_id", "application_properties.tenant string")
        raw = at.raw
        # All are planned before: reading the schema of the files alone takes 50 ms and more.
        frames = {
            LEAN: spark.decode(raw),
            ALL: spark.decode(raw, columns="all"),
            MAPS: spark.decode(raw, columns="all", maps="map"),
            TWO: spark.decode(raw, columns=two),
            READY: at.ready("lean"),
            READY_ALL: at.ready("all"),
            IDENTITY: raw.mapInArrow(lambda batches: batches, raw.schema),
        }
        raw.createOrReplaceTempView("raw")
        frames[SQL] = at.in_sql()
        frames[READY_SQL] = at.ready_in_sql()
        calls = {name: partial(at.read, frame) for name, frame in frames.items()}
        spent = measure(calls, at.rows, _rounds(effort), _warm_up_rounds(effort))
        rows = at.rows
    timings = Timings(tuple(Timing(name, one.cpu) for name, one in spent.items()))

    def floor(name: str, what: str, most: float) -> Floor:
        text = f"{what} in at most {most}x of the processor time of rows sent there and back"
        return Floor(text, _over(spent, name), at_most=most)

    def beside(name: str, what: str, most: float) -> Floor:
        text = f"{what} in at most {most}x of that of the same columns, made before"
        return Floor(text, _over(spent, name, ready[name]), at_most=most)

    ready = {LEAN: READY, ALL: READY_ALL, SQL: READY_SQL}
    remarks = [
        f"{name}: {_over(spent, name):.2f}x of rows sent there and back, of which "
        f"{_over(spent, other):.2f}x is Spark's, whoever decodes."
        for name, other in ready.items()
    ]
    return Figure(
        key="pipeline-decode",
        title=f"Decode {rows:,} messages of {SIZE} bytes in PySpark, {MASTER}: processor time",
        timings=timings,
        floors=(
            # Of rows sent there and back, Spark's own share alone is too much: docs, benchmarks.md.
            beside(LEAN, "lean columns", 1.2),
            beside(ALL, "all columns", 1.15),
            floor(TWO, "two columns", 1.15),
            beside(SQL, "amqp10_decode of SQL", 1.15),
        ),
        remarks=tuple(remarks),
    )


def run_parquet(effort: Effort) -> Figure:
    """Measure a job from Parquet to Parquet against copying the Parquet."""
    with place(effort.rows) as at:
        # For some rounds the JVM compiles what the copy runs, and does so while the job runs.
        rounds = _rounds(effort)
        calls = {JOB: at.job, COPY: at.copy}
        spent = measure(
            calls, at.rows, 2 * rounds - 1, first=(rounds + 1) * _warm_up_rounds(effort)
        )
        rows = at.rows
    timings = Timings(tuple(Timing(name, one.wall) for name, one in spent.items()))
    cpu = statistics.median(spent[COPY].cpu) / statistics.median(spent[JOB].cpu)
    rates = ", ".join(f"{one.name} {1e9 / one.median:,.0f}" for one in timings.entries)
    return Figure(
        key="pipeline-parquet",
        title=f"{rows:,} messages of {SIZE} bytes, Parquet to typed Parquet, {MASTER}: the clock",
        timings=timings,
        floors=(
            Floor(
                "at least 95 % of the rate of a copy by Spark alone",
                timings.times(COPY),
                at_least=0.95,
            ),
        ),
        remarks=(f"Messages a second: {rates}.", f"By processor time {cpu:.0%} of the rate."),
    )


@contextlib.contextmanager
def _cores(count: int) -> Iterator[None]:
    """Start processes on so many cores: the JVM of local[1] and its worker would use two.

    A system without `os.sched_setaffinity` goes by Spark's count alone.
    """
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(before)[:count])
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def run_cores(effort: Effort) -> Figure:
    """Measure the job on two cores against one, beside what a copy gains by the second."""
    spent: dict[str, Spent] = {}
    for cores in (2, 1):
        with _cores(cores), place(effort.rows, f"local[{cores}]") as at:
            calls = {JOB: at.job, COPY: at.copy}
            named = {f"{name}, local[{cores}]": call for name, call in calls.items()}
            spent |= measure(named, at.rows, _rounds(effort), _warm_up_rounds(effort))
            rows = at.rows
    timings = Timings(tuple(Timing(name, one.wall) for name, one in spent.items()))
    gains = {
        name: statistics.median(spent[f"{name}, local[1]"].wall)
        / statistics.median(spent[f"{name}, local[2]"].wall)
        for name in (JOB, COPY)
    }
    return Figure(
        key="pipeline-cores",
        title=f"{rows:,} messages of {SIZE} bytes on two cores and on one: the clock",
        timings=timings,
        floors=(
            Floor("at least 1.6x the rate on two", gains[JOB], at_least=1.6),
            Floor("the job gains more by the second core", gains[JOB] / gains[COPY], at_least=1),
        ),
        remarks=tuple(f"{name}: {gain:.2f}x the rate on two." for name, gain in gains.items()),
    )


def run_memory(effort: Effort) -> Figure:
    """Measure what memory many times as many messages take."""
    spent: dict[str, Spent] = {}
    peaks: dict[str, int] = {}
    with place(max(1, effort.rows // 5)) as at:
        at.job()
        for times in (1, *effort.repeats):
            name = f"{at.rows * times:,} messages"
            source = at.folder / f"in-{times}"
            source.mkdir()
            for number in range(times):
                for file in (at.folder / "in").iterdir():
                    os.link(file, source / f"{number}-{file.name}")
            began = time.perf_counter(), cpu_seconds()
            peaks[name] = peak(lambda: at.job(source.name))  # noqa: B023  (called here)
            rows = at.rows * times
            spent[name] = Spent(
                ((time.perf_counter() - began[0]) / rows * 1e9,),
                ((cpu_seconds() - began[1]) / rows * 1e9,),
            )
    first, *_, last = peaks.values()
    timings = Timings(tuple(Timing(name, one.cpu) for name, one in spent.items()))
    shown = ", ".join(f"{name} {octets / 1e6:,.0f} MB" for name, octets in peaks.items())
    return Figure(
        key="pipeline-memory",
        title=f"{JOB}, {MASTER}: memory and processor time by how many messages there are",
        timings=timings,
        floors=(Floor("the most messages in at most 1.2x the memory", last / first, at_most=1.2),),
        remarks=(f"Most memory of the JVM and its workers: {shown}.",),
    )
