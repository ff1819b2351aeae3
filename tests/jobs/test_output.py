"""Where jobs put what they make: few files, beside what is there, and whole at every instant."""

from __future__ import annotations

import contextlib
import errno
import io
import itertools
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10msg import atomic_files, files

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed: make setup")

import pyarrow.parquet as pq  # noqa: E402

from amqp10msg import jobs  # noqa: E402
from amqp10msg.jobs import Job, output_of  # noqa: E402
from amqp10msg.jobs.inputs import pack_ranges  # noqa: E402
from amqp10msg.jobs.writing import ParquetFile  # noqa: E402
from tests.disk import Disk  # noqa: E402
from tests.jobs.job_inputs import SOUND, names_in, read, write  # noqa: E402
from tests.waiting import TIMEOUT, wait_until  # noqa: E402


@given(st.lists(st.integers(0, 400 << 10), max_size=30), st.sampled_from([1, 200 << 10, 1 << 20]))
def test_ranges_are_packed_in_order(sizes: list[int], most: int) -> None:
    ranges = [(files.Range(str(i), "jsonl", 0, size), size) for i, size in enumerate(sizes)]

    parts = pack_ranges(ranges, most)

    assert [one for one, _ in ranges] == [one for part in parts for one in part]
    for part in parts:
        assert len(part) == 1 or most >= sum(one.stop for one in part)
    # No two neighbours would go together.
    for part, behind in itertools.pairwise(parts):
        assert most < sum(one.stop + (64 << 10) for one in (*part, behind[0]))


@pytest.mark.once
@pytest.mark.parametrize("form", ["bin", "parquet"])
def test_small_files_share_tasks(tmp_path: Path, form: str) -> None:
    (tmp_path / "in").mkdir()
    for number in range(120):
        wires = SOUND[number * 3 : number * 3 + 3]
        if form == "bin":
            write(tmp_path / "in" / f"{number:03d}.bin", wires)
        else:
            pq.write_table(pa.table({"wire": wires}), tmp_path / "in" / f"{number:03d}.parquet")
    seen: list[int] = []

    stats = jobs.run(
        tmp_path / "in",
        tmp_path / "out",
        Job("decode"),
        progress=lambda _, parts: seen.append(parts),
    )

    assert (360, 0) == (stats.rows, stats.errors)
    assert {2} == {*seen}
    assert 2 == len(names_in(output_of(tmp_path / "out")[0]))
    assert [f"m-{i}" for i in range(360)] == [
        row["message_id"] for row in read(output_of(tmp_path / "out")[0])
    ]


# What is there already, and what a killed job left.


@pytest.mark.once
def test_append_and_overwrite_modes(tmp_path: Path) -> None:
    source, out = write(tmp_path / "in.bin", SOUND[:10]), tmp_path / "out"
    jobs.run(source, out, Job("decode"))
    for how in ({}, {"mode": "error"}):
        again: Any = how
        with pytest.raises(FileExistsError, match="append or overwrite"):
            jobs.run(source, out, Job("decode"), **again)
        assert 10 == len(read(output_of(out)[0]))
        assert ["in.bin", "out"] == names_in(tmp_path)

    jobs.run(source, out, Job("decode"), mode="append")
    assert 20 == len(read(output_of(out)[0]))

    jobs.run(source, out, Job("decode"), mode="overwrite")

    assert 10 == len(read(output_of(out)[0]))
    assert ["in.bin", "out"] == names_in(tmp_path)


@pytest.mark.once
def test_folder_without_output_is_an_error(tmp_path: Path) -> None:
    """A misspelt folder is not a job without quarantined messages."""
    for folder in (tmp_path / "nofolder", tmp_path):
        for read_rows in (jobs.made_files, lambda path: list(jobs.quarantined(path))):
            with pytest.raises(FileNotFoundError, match=f"no job has written.*{folder}"):
                read_rows(folder)


def test_output_of_a_file_url_is_found(tmp_path: Path) -> None:
    source = write(tmp_path / "in.bin", [*SOUND[:3], b"broken"])
    url = f"file://{tmp_path}/out"

    jobs.run(source, url, Job("decode"), workers=1)

    assert jobs.made_files(tmp_path / "out") == jobs.made_files(url)
    assert [b"broken"] == [row["wire"] for row in jobs.quarantined(url)]
    assert 4 == jobs.read_stats(url).rows


def test_invalid_mode_is_an_error(tmp_path: Path) -> None:
    source: Any = write(tmp_path / "in.bin", SOUND[:1])
    with pytest.raises(ValueError, match="must be one of error, append, overwrite, got 'ignore'"):
        jobs.run(source, tmp_path / "out", Job("decode"), mode="ignore")  # type: ignore[arg-type]


@pytest.mark.once
def test_next_job_cleans_up_and_restores_after_a_kill(tmp_path: Path) -> None:
    source, out = write(tmp_path / "in.bin", [SOUND[0]]), tmp_path / "out"
    unfinished = tmp_path / ".out.unfinished"
    (unfinished / "parts" / "messages").mkdir(parents=True)
    (unfinished / "parts" / "messages" / "part.parquet").write_text("half")
    (unfinished / "before").mkdir()
    (unfinished / "before" / "old").write_text("")

    with pytest.raises(FileExistsError):
        jobs.run(source, out, Job("decode"))
    assert ["old"] == names_in(out)
    jobs.run(source, out, Job("decode"), mode="append")

    assert {"old", "messages"} <= set(names_in(out))
    assert 1 == len(read(output_of(out)[0]))
    assert ["in.bin", "out"] == names_in(tmp_path)


# Adds to a folder, and is killed as it is to give a file, the counts or nothing their place.
ADDING = """
import os, sys
from pathlib import Path
from amqp10msg import jobs
from amqp10msg.jobs import output

source, out, at = sys.argv[1:]
moves, left = [Path.rename, Path.replace], int(at)

def killed(move):
    def moving(self, target):
        global left
        if Path(target).is_relative_to(out):
            left -= 1
            if left < 0:
                os._exit(9)
        return move(self, target)
    return moving

Path.rename, Path.replace = map(killed, moves)
output.Output.delete_unfinished = lambda self: os._exit(9)
jobs.run(source, out, jobs.Job("decode"), options={"rangeBytes": "2000"}, workers=1,
         mode="append")
"""


@pytest.mark.once
@pytest.mark.parametrize("at", [0, 1, 2, -1], ids=["first", "second", "third", "end"])
@pytest.mark.parametrize("there", [True, False], ids=["added to", "new"])
@pytest.mark.parametrize("again", ["again", "another", "overwrite"])
def test_job_killed_while_appending_appends_once(
    tmp_path: Path, at: int, there: bool, again: str
) -> None:
    source, out = write(tmp_path / "in.bin", [*SOUND[:100], b"\0"]), tmp_path / "out"
    before = 10 if there else 0
    if there:
        jobs.run(write(tmp_path / "before.bin", SOUND[500:510]), out, Job("decode"))
    command = [sys.executable, "-c", ADDING, str(source), str(out), str(at % 1_000)]
    assert 9 == subprocess.run(command, check=False, timeout=60).returncode

    if again != "another":
        replaces, options = again == "overwrite", {"rangeBytes": "2000"}
        made = jobs.run(
            source, out, Job("decode"), options=options, mode="overwrite" if replaces else "append"
        )
        assert (101, 1) == (made.rows, made.errors)
        rows, bad = 100 + before * (not replaces), 1
    else:
        other = write(tmp_path / "other.bin", SOUND[600:605])
        jobs.run(other, out, Job("decode"), mode="append")
        is_done = at < 0 or (not there and at > 0)
        rows, bad = 5 + before + 100 * is_done, int(is_done)
    found = [[*map(str, read(folder))] for folder in output_of(out)]
    assert [rows, bad] == [len(one) for one in found]
    assert rows == len({row["message_id"] for row in read(output_of(out)[0])})
    assert ".out.unfinished" not in names_in(tmp_path)


@pytest.mark.once
def test_failed_append_adds_no_file(tmp_path: Path) -> None:
    """Half of it without its quarantine would look like all, and come twice with the next run."""
    source, out = write(tmp_path / "in.bin", [*SOUND[:100], b"\0"]), tmp_path / "out"
    jobs.run(write(tmp_path / "before.bin", SOUND[500:510]), out, Job("decode"))
    shutil.rmtree(output_of(out)[1])
    output_of(out)[1].write_text("in the way")

    with pytest.raises(OSError, match="quarantine"):
        jobs.run(source, out, Job("decode"), mode="append")

    assert 10 == len(read(output_of(out)[0]))
    assert ".out.unfinished" not in names_in(tmp_path)


@pytest.mark.once
@pytest.mark.skipif(os.name != "posix", reason="folders are synced on POSIX systems")
@pytest.mark.parametrize("mode", ["append", "overwrite"])
@pytest.mark.parametrize("there", [True, False], ids=["added to", "new"])
def test_output_is_on_disk_when_a_job_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: Any, there: bool
) -> None:
    source, out = write(tmp_path / "in.bin", [*SOUND[:100], b"\0"]), tmp_path / "out"
    disk = Disk(monkeypatch)
    if there:
        jobs.run(write(tmp_path / "before.bin", SOUND[500:510]), out, Job("decode"), workers=1)
    missing: list[str] = []
    rename = os.rename

    def recorded(source: Any, target: Any) -> None:
        # The notes say which files to take back if the job is killed while it adds them.
        missing.extend(disk.missing(*tmp_path.glob(".out.unfinished/moving.json")))
        rename(source, target)

    monkeypatch.setattr(os, "rename", recorded)
    jobs.run(source, out, Job("decode"), options={"rangeBytes": "2000"}, workers=1, mode=mode)

    files = [*out.glob("*/*.parquet"), out / "_amqp10msg.json"]
    assert len(files) > 3
    assert [] == missing + disk.missing(*files)


@pytest.mark.once
@pytest.mark.skipif(os.name != "posix", reason="a folder is locked by a file beside it")
@pytest.mark.parametrize("is_new", [True, False])
def test_removed_folder_is_not_locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_new: bool
) -> None:
    """As it was opened before the other job removed it, and locked after that."""
    folder, lock = tmp_path / "held", atomic_files.lock

    def remove(handle: int, *, wait: bool) -> None:
        folder.rmdir()
        if is_new:
            folder.mkdir()  # of a third one
        lock(handle, wait=wait)

    monkeypatch.setattr(atomic_files, "lock", remove)
    with pytest.raises(BlockingIOError, match="held"), atomic_files.locked_folder(folder):
        pass


@pytest.mark.once
@pytest.mark.parametrize("at_once", [True, False])
def test_published_folder_replaces_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: bool
) -> None:
    if not at_once:
        monkeypatch.setattr(atomic_files, "_exchange", lambda *_: False)
    made, target = tmp_path / "made", tmp_path / "out"
    for text in ("old", "new"):
        made.mkdir()
        (made / text).write_text(text)
        atomic_files.publish(made, target, tmp_path / "aside")
        # Where two names can be exchanged, the old folder is where the new one was.
        assert [text] == names_in(target)
        shutil.rmtree(made, ignore_errors=True)


@pytest.mark.once
def test_output_folder_is_complete_at_every_instant(tmp_path: Path) -> None:
    """Replaced again and again; whoever looks finds one of them."""
    target = tmp_path / "out"
    ends = threading.Event()
    put: list[int] = []

    def replace() -> None:
        while not ends.is_set():
            made = tmp_path / "made"
            made.mkdir()
            for name in ("a", "b"):
                (made / name).write_text(str(len(put)))
            atomic_files.publish(made, target, tmp_path / "aside")
            shutil.rmtree(made, ignore_errors=True)
            put.append(len(put))

    thread = threading.Thread(target=replace)
    thread.start()
    try:
        wait_until(target.exists)
        # Until enough was replaced, not a number of looks: 2,000 of them can take less time
        # than one replacement waits for its turn.
        deadline = time.monotonic() + TIMEOUT
        while len(put) < 50 and thread.is_alive() and time.monotonic() < deadline:
            handle = os.open(target, os.O_RDONLY)  # raises where there is none
            try:
                whole = ["a", "b"] == sorted(entry.name for entry in os.scandir(handle))
                # What is not whole has been replaced, and is being removed.
                assert whole or not os.path.samestat(os.fstat(handle), target.stat())
            finally:
                os.close(handle)
    finally:
        ends.set()
        thread.join(10)

    assert 50 <= len(put)


@pytest.mark.parametrize("rows", [10, 70_000], ids=["at its end", "before its end"])
def test_partial_write_is_never_published(rows: int) -> None:
    """Who makes the file is told of the failure, and not that all has been written."""
    ends: list[str] = []

    class Full(io.BytesIO):
        def write(self, data: Any, /) -> int:
            if self.tell() + len(data) > 100:
                raise OSError(errno.ENOSPC, "No space left on device")
            return super().write(data)

    @contextlib.contextmanager
    def make() -> Iterator[Any]:
        try:
            yield Full()
            ends.append("published")
        except OSError:
            ends.append("failed")
            raise

    file = ParquetFile(make, "none")
    with pytest.raises(OSError, match="No space left on device"), contextlib.closing(file):
        file.write(pa.record_batch({"n": pa.array(range(rows))}))

    assert ["failed"] == ends
