"""Inputs that are large in one way: that nothing is lost, and how much memory a worker takes.

    python tools/large_inputs.py --files 100000 --file 2000 --message 200

Four inputs are made in a temporary folder, and decoded by ``amqp10msg pipeline`` on its own
processes, or with ``--master local[2]`` on Spark:

- ``files``: so many files of JSON lines, a message each;
- ``file``: one file of Parquet of about so many MB;
- ``message``: a message of so many MB among 1,000 small ones;
- ``page``: a file of Parquet whose footer is good and one of whose pages is not, among good ones.

For each, the messages that came in are compared by number with those in the output; of ``page``,
all of the other files have to be there, and the job has to say what is damaged. Prints a line for
each with seconds, and the most memory that one process of the job had. The exit status is 1 where
anything is missing.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from amqp10msg import Message, Properties

ROOT = Path(__file__).parents[1]
_MB = 1_000_000
_ROWS = 50_000
_BODY = 300
_SMALL = 1_000


def message(number: int, body: bytes = b"x") -> bytes:
    """Return a message that says its number."""
    return Message(body, properties=Properties(message_id=f"m-{number}")).encode()


def tiny_files(folder: Path, count: int) -> int:
    """Make files of a message each; return how many messages there are."""
    for number in range(count):
        line = f'{{"raw": "{message(number).hex()}"}}\n'
        (folder / f"{number}.jsonl").write_text(line)
    return count


def one_file(folder: Path, size: int) -> int:
    """Make one file of so many MB, whose bodies do not compress."""
    schema = pa.schema([("wire", pa.binary())])
    number = 0
    path = folder / "in.parquet"
    with pq.ParquetWriter(path, schema, compression="none") as writer:
        while path.stat().st_size < size * _MB:
            rows = [message(number + one, os.urandom(_BODY)) for one in range(_ROWS)]
            writer.write_table(pa.table({"wire": rows}, schema=schema))
            number += _ROWS
    return number


def large_message(folder: Path, size: int) -> int:
    """Put a message of so many MB among small ones."""
    rows = [message(number) for number in range(_SMALL)]
    rows[_SMALL // 2] = message(_SMALL // 2, os.urandom(size * _MB))
    pq.write_table(pa.table({"wire": rows}), folder / "in.parquet")
    return _SMALL


def damaged_page(folder: Path, _: int) -> int:
    """Make three files, and damage a page of one; return the messages of the others."""
    for name in "abc":
        rows = [message(number, os.urandom(_BODY)) for number in range(_SMALL)]
        path = folder / f"{name}.parquet"
        pq.write_table(pa.table({"wire": rows}), path, use_dictionary=False, compression="none")
    chunk = pq.ParquetFile(folder / "b.parquet").metadata.row_group(0).column(0)
    octets = bytearray((folder / "b.parquet").read_bytes())
    place = chunk.data_page_offset
    octets[place : place + 16] = b"\xff" * 16
    (folder / "b.parquet").write_bytes(octets)
    return 2 * _SMALL


CASES: dict[str, Callable[[Path, int], int]] = {
    "files": tiny_files,
    "file": one_file,
    "message": large_message,
    "page": damaged_page,
}


def below(pid: int) -> list[int]:
    """Return a process and all that it started."""
    found = [pid]
    for one in found:
        for task in Path(f"/proc/{one}/task").glob("*/children"):
            try:
                found += map(int, task.read_text().split())
            except OSError:
                continue
    return found


def memory_of(pid: int) -> int:
    """Return the most memory of a process so far, in kB; 0 for Spark's JVM."""
    try:
        if "java" in Path(f"/proc/{pid}/comm").read_text():
            return 0
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("VmHWM")), 0)


def run(name: str, size: int, work: Path, options: list[str]) -> bool:
    """Do a job on one kind of input; return whether nothing is lost."""
    source, out = work / "in", work / "out"
    source.mkdir()
    count = CASES[name](source, size)
    command = [sys.executable, "-m", "amqp10msg", "pipeline", "decode", str(source), str(out)]
    command += ["--json", *options]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    most = 0
    start = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True) as process:
        over = threading.Event()

        def watch() -> None:
            nonlocal most
            while not over.wait(0.2):
                most = max([most, *(memory_of(one) for one in below(process.pid))])

        watcher = threading.Thread(target=watch)
        watcher.start()
        said, _ = process.communicate()
        over.set()
        watcher.join()
    seconds = time.monotonic() - start
    good = ds.dataset(out / "messages").to_table(columns=["message_id"]).column(0).to_pylist()
    counts = json.loads(said.splitlines()[-1]) if said else {}
    is_whole = len(good) == count
    if name == "page":
        # Of a file that stops at its page, what was read before it may be there, too.
        is_whole = len(good) >= count and process.returncode == 1
        is_whole &= all(good.count(f"m-{number}") >= 2 for number in (0, _SMALL - 1))
    else:
        is_whole &= set(good) == {f"m-{number}" for number in range(count)}
        is_whole &= process.returncode == 0
    print(
        f"{name:8} {count:>10,} messages, {len(good):,} in the output, "
        f"{counts.get('quarantined', 0)} in quarantine, {seconds:.0f} s, "
        f"{most / 1_000:.0f} MB in one process: {'right' if is_whole else 'WRONG'}",
        flush=True,
    )
    return is_whole


def main() -> int:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--files", type=int, default=100_000, help="how many tiny files")
    parser.add_argument("--file", type=int, default=2_000, help="MB of the one file")
    parser.add_argument("--message", type=int, default=200, help="MB of the one message")
    parser.add_argument("--master", help="that of Spark; processes of the pipeline where not given")
    parser.add_argument("--only", choices=list(CASES), help="one of them")
    given = parser.parse_args()
    options = ["--master", given.master] if given.master else []
    sizes = {"files": given.files, "file": given.file, "message": given.message, "page": 0}
    names = [given.only] if given.only else list(CASES)
    found = []
    for name in names:
        with tempfile.TemporaryDirectory(prefix="amqp10msg-large-") as work:
            found.append(run(name, sizes[name], Path(work), options))
    return int(not all(found))


if __name__ == "__main__":
    sys.exit(main())
