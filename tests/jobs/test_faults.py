"""What fails while a job runs: it ends with a reason, leaves what was there, and goes on later."""

from __future__ import annotations

import multiprocessing
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed: make setup")

import pyarrow.parquet as pq  # noqa: E402

from amqp10msg import Message, jobs  # noqa: E402
from amqp10msg.jobs import Job, JobError, output_of  # noqa: E402
from amqp10msg.jobs.inputs import Reading  # noqa: E402
from amqp10msg.jobs.output import Output  # noqa: E402
from tests.jobs.job_inputs import SOUND, names_in, read  # noqa: E402


@pytest.fixture
def parquet(tmp_path: Path) -> Path:
    """A file of many parts."""
    path = tmp_path / "in.parquet"
    pq.write_table(pa.table({"wire": SOUND}), path, row_group_size=10)
    return path


PARTS = {"rangeBytes": "1"}


@pytest.fixture(params=[False, True], ids=["new", "overwrite"])
def there(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[bool]:
    """Whether there is output to overwrite; a job that fails leaves what was there."""
    if request.param:
        (tmp_path / "out").mkdir()
        (tmp_path / "out" / "before").write_text("what was there")
    yield request.param
    expected = ["in.parquet", "out"] if request.param else ["in.parquet"]
    assert expected == [name for name in names_in(tmp_path) if name != ".out.unfinished"]
    if request.param:
        assert ["before"] == names_in(tmp_path / "out")


@pytest.mark.once
def test_killed_worker_ends_the_job(parquet: Path, tmp_path: Path, there: bool) -> None:
    def kill(done: int, _total: int) -> None:
        if done == 3:
            victim = multiprocessing.active_children()[0].pid
            assert victim is not None
            os.kill(victim, signal.SIGKILL)

    with pytest.raises(JobError, match="a worker was killed, by a signal or because memory ran"):
        jobs.run(
            parquet,
            tmp_path / "out",
            Job("validate"),
            mode="overwrite" if there else "append",
            workers=2,
            options=PARTS,
            progress=kill,
        )

    assert [] == multiprocessing.active_children()
    assert (tmp_path / ".out.unfinished" / "done").exists()


def interrupted(parquet: Path, out: Path, after: int) -> int:
    """Run a job up to an interrupt; return how many parts there are."""
    totals: list[int] = []

    def interrupt(done: int, total: int) -> None:
        totals.append(total)
        if done == after:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        jobs.run(parquet, out, Job("decode"), workers=1, options=PARTS, progress=interrupt)
    return totals[0]


@pytest.mark.once
def test_interrupted_job_resumes_from_finished_parts(
    parquet: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    total = interrupted(parquet, out, 7)
    (_, lost, *_), batches = (
        sorted((tmp_path / ".out.unfinished" / "done").iterdir()),
        Reading.batches,
    )
    lost.write_text("{")  # as after a loss of power
    read_again: list[Any] = []

    def counted(self: Reading, part: Any, *others: Any) -> Iterator[Any]:
        read_again.append(part)
        return batches(self, part, *others)

    monkeypatch.setattr(Reading, "batches", counted)
    # As many workers as there are now: the parts are those of before.
    stats = jobs.run(parquet, out, Job("decode"), workers=1, options=PARTS)

    assert total - 6 == len(read_again)
    assert len(SOUND) == stats.rows
    assert [f"m-{i}" for i in range(len(SOUND))] == [
        row["message_id"] for row in read(output_of(out)[0])
    ]
    assert ["in.parquet", "out"] == names_in(tmp_path)


@pytest.mark.once
@pytest.mark.parametrize("what", ["input", "job", "options"])
def test_different_job_starts_from_scratch(parquet: Path, tmp_path: Path, what: str) -> None:
    out = tmp_path / "out"
    interrupted(parquet, out, 7)
    if what == "input":
        pq.write_table(pa.table({"wire": SOUND[:20]}), parquet, row_group_size=10)
    options = {**PARTS, "compression": "zstd"} if what == "options" else PARTS
    job = Job("validate" if what == "job" else "decode")

    stats = jobs.run(parquet, out, job, workers=1, options=options)

    assert (20 if what == "input" else len(SOUND)) == stats.rows
    assert stats.rows == len(read(output_of(out)[0]))
    assert ["in.parquet", "out"] == names_in(tmp_path)


@pytest.mark.once
def test_concurrent_jobs_do_not_share_an_output_folder(parquet: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with Output(out).guarded():
        with pytest.raises(BlockingIOError, match="another job is writing"):
            jobs.run(parquet, out, Job("decode"))
        assert (tmp_path / ".out.unfinished").exists()

    assert len(SOUND) == jobs.run(parquet, out, Job("decode")).rows


@pytest.mark.once
@pytest.mark.parametrize("overwrite", [False, True])
def test_dangling_link_is_an_error(parquet: Path, tmp_path: Path, overwrite: bool) -> None:
    out = tmp_path / "out"
    out.symlink_to(tmp_path / "nowhere")

    with pytest.raises(FileNotFoundError, match=r"link points to .*nowhere, which does not exist"):
        jobs.run(parquet, out, Job("decode"), mode="overwrite" if overwrite else "append")

    assert ["in.parquet", "out"] == names_in(tmp_path)


@pytest.mark.once
@pytest.mark.parametrize("overwrite", [False, True])
def test_link_to_output_folder_is_followed_and_kept(
    parquet: Path, tmp_path: Path, overwrite: bool
) -> None:
    """What stands beside the link may be a disk without room."""
    (tmp_path / "disk" / "there").mkdir(parents=True)
    (tmp_path / "out").symlink_to("disk/there")
    seen: list[list[str]] = []

    def look(*_: int) -> None:
        seen.append(names_in(tmp_path / "disk"))

    jobs.run(
        parquet,
        tmp_path / "out",
        Job("decode"),
        mode="overwrite" if overwrite else "append",
        progress=look,
    )

    assert [".there.unfinished", "there"] == seen[0]
    assert (tmp_path / "out").is_symlink()
    assert ["disk", "in.parquet", "out"] == names_in(tmp_path)
    assert ["there"] == names_in(tmp_path / "disk")
    assert len(SOUND) == len(read(tmp_path / "disk" / "there" / "messages"))


@pytest.mark.once
@pytest.mark.parametrize("overwrite", [False, True])
def test_existing_file_is_not_replaced_by_output_folder(
    parquet: Path, tmp_path: Path, overwrite: bool
) -> None:
    other = tmp_path / "other.parquet"
    other.write_text("what was there")

    with pytest.raises(NotADirectoryError, match=r"and this is a file: .*other.parquet'"):
        jobs.run(parquet, other, Job("decode"), mode="overwrite" if overwrite else "append")

    assert "what was there" == other.read_text()
    assert ["in.parquet", "other.parquet"] == names_in(tmp_path)


@pytest.mark.once
@pytest.mark.parametrize("name", [".", "..", "/"])
def test_path_without_folder_name_is_rejected(parquet: Path, name: str) -> None:
    with pytest.raises(ValueError, match="does not name a folder that can be replaced"):
        jobs.run(parquet, name, Job("decode"), mode="overwrite")


@pytest.mark.once
@pytest.mark.parametrize(
    "error, text",
    [
        (MemoryError(), "in.parquet: memory ran out. Run the same job again"),
        (OSError(28, "No space left on device"), "OSError: .*No space left on device"),
        (KeyboardInterrupt(), None),
    ],
    ids=lambda value: type(value).__name__,
)
def test_memory_error_full_disk_and_ctrl_c_end_the_job(
    parquet: Path,
    tmp_path: Path,
    there: bool,
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
    text: str | None,
) -> None:
    honest = Reading.batches
    done = 0

    def fails(self: Reading, part: Any, *others: Any) -> Iterator[Any]:
        nonlocal done
        done += 1
        if done == 4:
            raise error
        return honest(self, part, *others)

    monkeypatch.setattr(Reading, "batches", fails)

    with pytest.raises(KeyboardInterrupt if text is None else JobError, match=text):
        jobs.run(
            parquet,
            tmp_path / "out",
            Job("decode"),
            mode="overwrite" if there else "append",
            workers=1,
            options=PARTS,
        )

    assert 4 == done


@pytest.mark.once
def test_exception_in_caller_stops_workers(parquet: Path, tmp_path: Path, there: bool) -> None:
    def fail(done: int, _total: int) -> None:
        if done == 3:
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        jobs.run(
            parquet,
            tmp_path / "out",
            Job("validate"),
            mode="overwrite" if there else "append",
            workers=2,
            options=PARTS,
            progress=fail,
        )

    assert [] == multiprocessing.active_children()


def test_input_replaced_between_parts_ends_the_job(
    parquet: Path, tmp_path: Path, there: bool
) -> None:
    other = parquet.read_bytes()

    def replace(done: int, _parts: int) -> None:
        if done == 1:
            (tmp_path / "other").write_bytes(other)
            (tmp_path / "other").replace(parquet)

    how: Any = {
        "workers": 1,
        "options": PARTS,
        "progress": replace,
        "mode": "overwrite" if there else "append",
    }
    with pytest.raises(JobError, match=r"in\.parquet: another file replaced it since the job"):
        jobs.run(parquet, tmp_path / "out", Job("decode"), **how)


def test_input_that_grows_is_not_an_error(tmp_path: Path) -> None:
    lines = b"".join(b'{"raw": "%b"}\n' % wire.hex().encode() for wire in SOUND[:10])
    path = tmp_path / "in.jsonl"
    path.write_bytes(lines)

    def append(done: int, _parts: int) -> None:
        if done == 1:
            with path.open("ab") as file:
                file.write(lines)

    how: Any = {"workers": 1, "options": {"rangeBytes": "100"}, "progress": append}
    assert 20 == jobs.run(path, tmp_path / "out", Job("validate"), **how).good


LINES = b"".join(b'{"raw": "%b"}\n' % wire.hex().encode() for wire in SOUND[:10])


def test_input_truncated_between_parts_ends_the_job(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_bytes(LINES)

    def cut(done: int, _parts: int) -> None:
        if done == 1:
            os.truncate(path, len(LINES) // 2)

    how: Any = {"workers": 1, "options": {"rangeBytes": "100"}, "progress": cut}
    half = f"it had {len(LINES)} bytes when the job started, and now has {len(LINES) // 2}: run"
    with pytest.raises(JobError, match=rf"in\.jsonl: {half}"):
        jobs.run(path, tmp_path / "out", Job("validate"), **how)

    assert ["in.jsonl"] == names_in(tmp_path)


def test_input_truncated_while_reading_is_a_fault(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_bytes(LINES * 2_000)

    rows = jobs.read(path)
    rows.read_next_batch()
    os.truncate(path, len(LINES) * 1_500)

    with pytest.raises(OSError, match=r"in\.jsonl: it had [0-9,]+ bytes when the job started"):
        rows.read_all()


def test_input_replaced_during_streaming_read_is_read_completely(
    tmp_path: Path,
) -> None:
    path = tmp_path / "in.jsonl"
    path.write_bytes(LINES * 2_000)

    rows = jobs.read(path)
    first = rows.read_next_batch()
    (tmp_path / "other").write_bytes(b"")
    (tmp_path / "other").replace(path)

    assert 20_000 == len(first) + len(rows.read_all())


def test_parquet_rewritten_in_place_ends_the_job(
    parquet: Path, tmp_path: Path, there: bool
) -> None:
    def write(done: int, _parts: int) -> None:
        if done == 1:
            pq.write_table(pa.table({"wire": SOUND[::-1]}), parquet, row_group_size=5)

    how: Any = {
        "workers": 1,
        "options": PARTS,
        "progress": write,
        "mode": "overwrite" if there else "append",
    }
    with pytest.raises(
        JobError, match=r"in\.parquet: it was written to since the job started: run"
    ):
        jobs.run(parquet, tmp_path / "out", Job("decode"), **how)


_FULL = """
import resource, sys
from amqp10msg.__main__ import main

resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
sys.argv[1:] = ["pipeline", "decode", "--workers", "1", "in.parquet", "out"]
sys.exit(main())
"""


@pytest.mark.once
@pytest.mark.parametrize("rows", [2_000, 70_000], ids=["at its end", "before its end"])
def test_full_disk_is_a_one_line_error_with_the_file(rows: int, tmp_path: Path) -> None:
    pytest.importorskip("resource")
    random = Random(1)
    few = [Message(random.randbytes(200)).encode() for _ in range(2_000)]
    pq.write_table(pa.table({"wire": few * (rows // 2_000)}), tmp_path / "in.parquet")

    done = subprocess.run(
        [sys.executable, "-c", _FULL], cwd=tmp_path, capture_output=True, text=True, check=False
    )

    said = r"amqp10msg: \.out\.unfinished/parts/messages/part-\S+\.parquet: File too large\n"
    assert re.fullmatch(said, done.stderr), done.stderr
    assert 1 == done.returncode
    assert ["in.parquet"] == names_in(tmp_path)
