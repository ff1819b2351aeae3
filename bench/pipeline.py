"""``python -m bench.pipeline``: what the PySpark pipeline costs, beside Spark alone.

A program of its own, since a session and its data take minutes. Figures are seconds of CPU time of
the JVM and of all its workers: the clock on the wall says more about who else uses the machine.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from amqp10msg import Message, Properties


def _ticks() -> float:
    """CPU seconds of all processes below this one, those that ended among them."""
    parents: dict[int, int] = {}
    spent: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(entry.name)] = int(fields[1])
        spent[int(entry.name)] = sum(map(int, fields[11:15]))

    def is_below(pid: int) -> bool:
        while pid > 1:
            pid = parents.get(pid, 0)
            if pid == os.getpid():
                return True
        return False

    return sum(ticks for pid, ticks in spent.items() if is_below(pid)) / os.sysconf("SC_CLK_TCK")


def _messages(count: int, size: int) -> list[bytes]:
    """Messages with what most have: properties, three application properties, a body."""
    return [
        Message(
            bytes(size),
            properties=Properties(
                message_id=f"id-{i:08d}", to="orders", subject="created", creation_time=i
            ),
            application_properties={"tenant": f"t{i % 97}", "attempt": i % 5, "n": float(i)},
        ).encode()
        for i in range(count)
    ]


def _generate(folder: Path, rows: int, size: int, files: int) -> None:
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    folder.mkdir()
    some = pa.table({"wire": pa.array(_messages(10_000, size), pa.binary())})
    for number in range(files):
        with pq.ParquetWriter(folder / f"{number}.parquet", some.schema) as writer:
            for _ in range(max(1, rows // files // 10_000)):
                writer.write_table(some)


def _measure(name: str, call: Callable[[], object], rows: int, runs: int) -> float:
    best = float("inf")
    wall = 0.0
    for _ in range(runs):
        cpu, clock = _ticks(), time.monotonic()
        call()
        spent = _ticks() - cpu
        if spent < best:
            best, wall = spent, time.monotonic() - clock
    print(f"{name:44} {best:8.2f} s CPU {best / rows * 1e6:8.2f} µs a message {wall:8.2f} s wall")
    return best


def main() -> None:
    """Generate messages, run the cases, print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--size", type=int, default=180, help="octets of a body")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--master", default="local[2]")
    options = parser.parse_args()

    from amqp10msg import spark  # noqa: PLC0415  (an extra)

    session = spark.session(options.master, config={"spark.log.level": "ERROR"})
    folder = Path(tempfile.mkdtemp(prefix="amqp10msg-bench-"))
    try:
        _generate(folder / "in", options.rows, options.size, 8)
        rows = session.read.parquet(str(folder / "in")).count()
        print(f"{rows:,} messages of {len(_messages(1, options.size)[0])} octets, best of runs")
        raw = session.read.parquet(str(folder / "in"))

        def noop(df: Any) -> None:
            df.write.format("noop").mode("overwrite").save()

        def case(name: str, call: Callable[[], object]) -> float:
            return _measure(name, call, rows, options.runs)

        identity = raw.mapInArrow(lambda batches: batches, raw.schema)
        noop(spark.decode(raw))  # warms up JVM and workers
        plain = case("mapInArrow identity", lambda: noop(identity))
        all_columns = case("spark.decode, all columns", lambda: noop(spark.decode(raw)))
        two = case(
            "spark.decode, two columns",
            lambda: noop(
                spark.decode(raw, columns=["message_id", "application_properties.tenant"])
            ),
        )
        copy = case(
            "copy to Parquet, Spark alone",
            lambda: raw.write.mode("overwrite").parquet(str(folder / "copy")),
        )
        job = case(
            "job decode in the sink, all columns",
            lambda: spark.write(raw, folder / "out", spark.Job("decode"), overwrite=True),
        )
        print(f"decode / identity: {all_columns / plain:.2f}")
        print(f"two columns / identity: {two / plain:.2f}")
        print(f"rate of the job / rate of the copy: {copy / job:.0%}")
    finally:
        session.stop()
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
