"""Jobs from and to object stores: a local server of S3, and a store in memory."""

from __future__ import annotations

import itertools
import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed: make setup")

import pyarrow.parquet as pq  # noqa: E402

from amqp10msg import Message, files, jobs  # noqa: E402
from amqp10msg.files import stores  # noqa: E402
from amqp10msg.files.fetching import Fetched  # noqa: E402
from amqp10msg.files.stores import StoreError, StoreLocation  # noqa: E402
from amqp10msg.jobs import (  # noqa: E402
    DAMAGED,
    InterruptedJobError,
    Job,
    JobError,
    made_files,
    quarantined,
    read_stats,
)
from amqp10msg.jobs.running import Work  # noqa: E402
from tests.jobs.job_inputs import SOUND  # noqa: E402
from tests.jobs.local_store import SECRET, s3_server  # noqa: E402
from tests.waiting import TIMEOUT  # noqa: E402

pytestmark = pytest.mark.once

WIRES = [*SOUND[:50], SOUND[0][:-1]]


@pytest.fixture(scope="module")
def server() -> Iterator[Any]:
    with s3_server() as running:
        yield running


@pytest.fixture(params=["s3", "memory"])
def lake(request: pytest.FixtureRequest) -> str:
    """The URL of an empty folder in a store."""
    if request.param == "memory":
        pytest.importorskip("fsspec")
        return f"memory://lake/{uuid.uuid4().hex}"
    request.getfixturevalue("server")
    return f"s3://lake/{uuid.uuid4().hex}"


@pytest.fixture
def s3(server: Any) -> str:  # noqa: ARG001  (it is there)
    return f"s3://lake/{uuid.uuid4().hex}"


def put(url: str, content: bytes) -> str:
    StoreLocation.of(url).write(content)
    return url


def parquet(url: str, wires: list[bytes] = WIRES, **columns: Any) -> str:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"wire": wires, **columns}), sink, row_group_size=10)
    return put(url, sink.getvalue().to_pybytes())


def rows(url: str, folder: str = "messages") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for name in made_files(url, folder):
        with stores.opened(name) as file:
            found += pq.ParquetFile(file).read().to_pylist()
    return found


def names(url: str) -> list[str]:
    """What is below a folder, whatever a manifest says."""
    place = StoreLocation.of(url)
    return [one.key.removeprefix(place.key).strip("/") for one, _ in place.files()]


def test_job_reads_and_writes_stores(lake: str) -> None:
    parquet(f"{lake}/in/day=1/a b?.parquet")
    parquet(f"{lake}/in/day=2/c.parquet")
    put(f"{lake}/in/day=2/d.parquet", b"cut off")
    put(f"{lake}/in/_hidden/e.parquet", b"never seen")

    stats = jobs.run(f"{lake}/in", f"{lake}/out", Job("decode"), workers=1)

    assert (100, 3) == (stats.good, stats.errors)
    assert stats == jobs.read_stats(f"{lake}/out")
    assert {f"m-{i}" for i in range(50)} == {row["message_id"] for row in rows(f"{lake}/out")}
    assert {1, 2} == {row["day"] for row in rows(f"{lake}/out")}
    bad = sorted(jobs.quarantined(f"{lake}/out"), key=lambda row: str(row["source"]))
    assert [
        (f"{lake}/in/day=1/a b?.parquet", 50, "truncated"),
        (f"{lake}/in/day=2/c.parquet", 50, "truncated"),
        (f"{lake}/in/day=2/d.parquet", 0, DAMAGED),
    ] == [(row["source"], row["offset"], row["error_code"]) for row in bad]
    assert [] == [name for name in names(f"{lake}/out") if name.startswith("_unfinished")]


def test_store_job_reads_other_file_formats(lake: str) -> None:
    import gzip  # noqa: PLC0415

    lines = "".join(f'{{"raw": "{wire.hex()}"}}\n' for wire in WIRES).encode()
    put(f"{lake}/in/a.jsonl", lines)
    put(f"{lake}/in/b.jsonl.gz", gzip.compress(lines)[:-20])
    sizes = b"".join(len(wire).to_bytes(4, "big") + wire for wire in WIRES)
    put(f"{lake}/in/c.prefixed", sizes)

    assert WIRES == [record.wire for record in files.read(f"{lake}/in/a.jsonl")]
    assert [*map(len, WIRES)] == [len(r.wire or b"") for r in files.read(f"{lake}/in/c.prefixed")]
    stats = jobs.run(f"{lake}/in/*.*", f"{lake}/out", Job("validate"), workers=1)

    assert 1 == stats.rules[DAMAGED].messages
    assert f"{lake}/in/b.jsonl.gz@" in stats.rules[DAMAGED].first
    assert 2 * len(WIRES) < stats.rows


def test_job_output_is_read_by_its_manifest(lake: str) -> None:
    parquet(f"{lake}/in.parquet")
    jobs.run(f"{lake}/in.parquet", f"{lake}/out", Job("validate"), workers=1)
    # As of a job that is not done, or was killed.
    parquet(f"{lake}/out/messages/part-of-another.parquet")

    stats = jobs.run(f"{lake}/out/messages", f"{lake}/again", Job("decode"), workers=1)

    assert (50, 0) == (stats.rows, stats.errors)
    assert 1 == jobs.run(f"{lake}/out/quarantine", f"{lake}/bad", Job("decode"), workers=1).errors


def test_second_job_appends_or_overwrites(lake: str) -> None:
    parquet(f"{lake}/in.parquet")
    job = Job("decode", columns=("message_id",))
    for overwrite, times in ((False, 1), (False, 2), (True, 1)):
        jobs.run(
            f"{lake}/in.parquet",
            f"{lake}/out",
            job,
            workers=1,
            mode="overwrite" if overwrite else "append",
        )
        assert 50 * times == len(rows(f"{lake}/out"))
    # What was replaced is gone.
    assert 3 == len(names(f"{lake}/out"))


def test_folder_with_foreign_files_is_rejected(lake: str) -> None:
    parquet(f"{lake}/in.parquet")
    parquet(f"{lake}/out/messages/mine.parquet")

    with pytest.raises(FileExistsError, match=r"messages/mine\.parquet was not written by a job"):
        jobs.run(f"{lake}/in.parquet", f"{lake}/out", Job("decode"), workers=1)
    assert ["messages/mine.parquet"] == names(f"{lake}/out")
    jobs.run(f"{lake}/in.parquet", f"{lake}/out", Job("decode"), workers=1, mode="overwrite")
    assert 50 == len(rows(f"{lake}/out"))
    assert "messages/mine.parquet" not in names(f"{lake}/out")


@pytest.mark.parametrize("is_first", [True, False])
def test_interrupted_job_publishes_nothing_and_resumes(lake: str, is_first: bool) -> None:
    parquet(f"{lake}/in.parquet")
    how: dict[str, Any] = {"workers": 1, "options": {"rangeBytes": "1"}, "mode": "append"}
    if not is_first:
        jobs.run(f"{lake}/in.parquet", f"{lake}/out", Job("profile"), **how)
    there = [] if is_first else made_files(f"{lake}/out")
    totals: list[int] = []

    def interrupt(done: int, _total: int) -> None:
        totals.append(done)
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        jobs.run(f"{lake}/in.parquet", f"{lake}/out", Job("decode"), progress=interrupt, **how)
    assert there == made_files(f"{lake}/out")
    assert 3 == len([name for name in names(f"{lake}/out") if name.startswith("messages/")])

    jobs.run(
        f"{lake}/in.parquet",
        f"{lake}/out",
        Job("decode"),
        progress=lambda done, _: totals.append(done),
        **how,
    )
    assert [1, 2, 3, 4, 5, 6] == totals
    assert [f"m-{i}" for i in range(50)] == [row["message_id"] for row in rows(f"{lake}/out")]
    assert [] == [name for name in names(f"{lake}/out") if name.startswith("_unfinished")]


@pytest.mark.parametrize("at", [0, 3])
@pytest.mark.parametrize("overwrite", [False, True])
def test_job_interrupted_while_cleaning_up_is_not_published_twice(
    lake: str, monkeypatch: pytest.MonkeyPatch, at: int, overwrite: bool
) -> None:
    parquet(f"{lake}/in.parquet")
    how: dict[str, Any] = {"workers": 1, "options": {"rangeBytes": "1"}}
    left, delete = [at], StoreLocation.delete

    def interrupted(place: StoreLocation) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        delete(place)

    with monkeypatch.context() as patch:
        patch.setattr(StoreLocation, "delete", interrupted)
        with pytest.raises(KeyboardInterrupt):
            jobs.run(f"{lake}/in.parquet", f"{lake}/out", Job("decode"), **how)
    assert 50 == len(rows(f"{lake}/out"))

    stats = jobs.run(
        f"{lake}/in.parquet",
        f"{lake}/out",
        Job("decode"),
        mode="overwrite" if overwrite else "append",
        **how,
    )
    assert 50 == stats.good
    assert [f"m-{i}" for i in range(50)] == [row["message_id"] for row in rows(f"{lake}/out")]
    assert [] == [name for name in names(f"{lake}/out") if name.startswith("_unfinished")]


def test_different_job_deletes_interrupted_output(lake: str) -> None:
    parquet(f"{lake}/in.parquet")

    def interrupt(done: int, _total: int) -> None:
        if done == 3:
            raise KeyboardInterrupt

    how: dict[str, Any] = {"workers": 1, "options": {"rangeBytes": "1"}}
    with pytest.raises(KeyboardInterrupt):
        jobs.run(f"{lake}/in.parquet", f"{lake}/out", Job("decode"), progress=interrupt, **how)
    jobs.run(f"{lake}/in.parquet", f"{lake}/out", Job("validate"), workers=1)

    expected = {*made_files(f"{lake}/out"), *made_files(f"{lake}/out", "quarantine")}
    assert {f"{lake}/out/{name}" for name in names(f"{lake}/out")} == {
        *expected,
        f"{lake}/out/_amqp10msg.json",
    }


def test_failed_job_keeps_existing_output(lake: str) -> None:
    parquet(f"{lake}/in.parquet")
    jobs.run(f"{lake}/in.parquet", f"{lake}/out", Job("decode"), workers=1)
    before = names(f"{lake}/out")

    def fail(_done: int, _total: int) -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        jobs.run(
            f"{lake}/in.parquet",
            f"{lake}/out",
            Job("validate"),
            workers=1,
            mode="overwrite",
            progress=fail,
        )
    assert before == names(f"{lake}/out")


def test_second_of_two_concurrent_jobs_fails(lake: str) -> None:
    parquet(f"{lake}/in.parquet")

    def other(_done: int, _total: int) -> None:
        jobs.run(f"{lake}/in.parquet", f"{lake}/out", Job("validate"), workers=1)

    with pytest.raises(BlockingIOError, match="another job wrote to this folder meanwhile"):
        jobs.run(f"{lake}/in.parquet", f"{lake}/out", Job("decode"), workers=1, progress=other)

    assert 50 == len(rows(f"{lake}/out"))
    assert "valid" in rows(f"{lake}/out")[0]
    assert 3 == len(names(f"{lake}/out"))


@pytest.mark.parametrize("form", ["parquet", "prefixed"])
def test_many_files_are_inspected_concurrently(
    lake: str, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    octets = b"".join(len(wire).to_bytes(4, "big") + wire for wire in WIRES)
    for number in range(12):
        if form == "parquet":
            parquet(f"{lake}/in/{number:02}.parquet")
        else:
            put(f"{lake}/in/{number:02}.prefixed", octets)
    put(f"{lake}/in/05.{form}", b"\xff" * 20)
    together, calls = threading.Barrier(7, timeout=TIMEOUT), itertools.count(1)

    def meeting(honest: Any) -> Any:
        """Let the first seven calls in other threads wait for each other."""

        def asked(*given: Any) -> Any:
            if threading.current_thread() is not threading.main_thread() and next(calls) <= 7:
                together.wait()
            return honest(*given)

        return asked

    found = []
    for meets in (False, True):
        if meets:
            monkeypatch.setattr(StoreLocation, "state", meeting(StoreLocation.state))
            monkeypatch.setattr(
                StoreLocation,
                "open_for_random_access",
                meeting(StoreLocation.open_for_random_access),
            )
        out = f"{lake}/out-{meets}"
        stats = jobs.run(f"{lake}/in", out, Job("decode"), workers=1)
        found.append((stats, [{**row, "source": ""} for row in rows(out)]))

    assert next(calls) > 7
    assert 11 * 50 == len(found[0][1])
    assert found[0] == found[1]


def test_workers_open_the_store_by_themselves(s3: str) -> None:
    parquet(f"{s3}/in.parquet")

    stats = jobs.run(
        f"{s3}/in.parquet", f"{s3}/out", Job("decode"), workers=2, options={"rangeBytes": "1"}
    )

    assert (50, 1) == (stats.good, stats.errors)
    assert 50 == len(rows(f"{s3}/out"))


@pytest.mark.kills
def test_job_killed_during_upload_publishes_nothing(s3: str) -> None:
    parquet(f"{s3}/in.parquet", SOUND[:100])
    program = (
        "import os, signal, sys; from amqp10msg import jobs\n"
        "def kill(done, _):\n"
        "    if done == 5: os.kill(os.getpid(), signal.SIGKILL)\n"
        "jobs.run(sys.argv[1] + '/in.parquet', sys.argv[1] + '/out', jobs.Job('decode'),"
        " workers=1, options={'rangeBytes': '1'}, progress=kill)"
    )
    done = subprocess.run([sys.executable, "-c", program, s3], check=False, env=dict(os.environ))

    assert -signal.SIGKILL == done.returncode
    assert [] == made_files(f"{s3}/out")
    stats = jobs.run(
        f"{s3}/in.parquet", f"{s3}/out", Job("decode"), workers=1, options={"rangeBytes": "1"}
    )
    assert (100, 100) == (stats.rows, len(rows(f"{s3}/out")))


@pytest.mark.parametrize("after", [1, 2, 3])
def test_store_error_is_not_reported_as_damage(
    s3: str, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    parquet(f"{s3}/in.parquet", SOUND[:500], note=[os.urandom(100) for _ in range(500)])
    requests = 0

    def fetched(fetch: Any, *rest: Any) -> Fetched:
        def fails(start: int, stop: int) -> bytes:
            nonlocal requests
            requests += 1
            if requests > after:
                raise StoreError("s3://lake: no connection")
            found: bytes = fetch(start, stop)
            return found

        return Fetched(fails, *rest)

    monkeypatch.setattr(stores, "Fetched", fetched)
    with pytest.raises(InterruptedJobError, match="no connection: run the same job again"):
        jobs.run(f"{s3}/in.parquet", f"{s3}/out", Job("decode"), workers=1)
    monkeypatch.undo()

    with pytest.raises(FileNotFoundError, match="no job has written"):
        made_files(f"{s3}/out")


def test_short_read_of_store_is_not_reported_as_damage(
    lake: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(f"{lake}/in.prefixed", b"\0\0\0\1x" * 100_000)

    def fetched(fetch: Any, *rest: Any) -> Fetched:
        return Fetched(lambda start, stop: fetch(start, stop + 1), *rest)

    monkeypatch.setattr(stores, "Fetched", fetched)
    with pytest.raises(InterruptedJobError, match=r"ends at byte 500,000 of 500,000: it was repl"):
        jobs.run(f"{lake}/in.prefixed", f"{lake}/out", Job("decode"), form="prefixed", workers=1)


def test_missing_bucket_is_a_one_line_error(server: Any, tmp_path: Path) -> None:  # noqa: ARG001
    parquet_file = tmp_path / "in.parquet"
    pq.write_table(pa.table({"wire": WIRES}), parquet_file)

    with pytest.raises(OSError, match="s3://none/out/"):
        jobs.run(parquet_file, "s3://none/out", Job("decode"), workers=1)


# Credentials.


@pytest.mark.parametrize(
    "url",
    [
        f"s3://key:{SECRET}@lake/in",
        f"s3://{SECRET}@lake/in",
        f"gs://{SECRET}@lake/in",
        f"abfss://lake:{SECRET}@account.dfs.core.windows.net/in",
        f"s3://lake/in?secret_key={SECRET}",
        f"abfss://lake@account.dfs.core.windows.net/in?sig={SECRET}&region=x",
    ],
)
def test_url_with_credentials_is_an_error_without_them(url: str) -> None:
    with pytest.raises(
        ValueError, match=r"must not contain credentials|cannot have the parameters"
    ) as caught:
        jobs.run(url, "out", Job("decode"))
    assert SECRET not in str(caught.value)
    with pytest.raises(
        ValueError, match=r"must not contain credentials|cannot have the parameters"
    ):
        StoreLocation.of(url)


def test_credentials_do_not_leak_into_plans_output_or_errors(s3: str) -> None:
    parquet(f"{s3}/in.parquet")
    seen: list[bytes] = []

    def look(done: int, _total: int) -> None:
        seen.extend(place.read() or b"" for place, _ in StoreLocation.of(f"{s3}/out").files())
        if done == 2:
            raise JobError("enough")

    with pytest.raises(JobError):
        jobs.run(
            f"{s3}/in.parquet",
            f"{s3}/out",
            Job("decode"),
            workers=1,
            options={"rangeBytes": "1"},
            progress=look,
        )
    jobs.run(f"{s3}/in.parquet", f"{s3}/out", Job("decode"), workers=1)
    seen += [place.read() or b"" for place, _ in StoreLocation.of(f"{s3}/out").files()]
    seen.append(
        pickle.dumps(Work(jobs.output.open_output(f"{s3}/out", {}), Job("decode"), {}, None))
    )

    assert len(seen) > 5
    assert [] == [
        content for content in seen if SECRET.encode() in content or b"testing" in content
    ]
    assert "files" in json.loads(StoreLocation.of(f"{s3}/out/_amqp10msg.json").read() or b"")


def test_store_options_in_url_apply_to_its_files(server: Any) -> None:
    host, port = server.get_host_and_port()
    said = f"?scheme=http&endpoint_override={host}:{port}"
    folder = f"s3://lake/{uuid.uuid4().hex}"
    parquet(f"{folder}/in/n=1/a.parquet{said}")
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("AWS_ENDPOINT_URL")
        jobs.run(f"{folder}/in{said}", f"{folder}/out{said}", Job("decode"), workers=1)
        found = rows(f"{folder}/out{said}")

    assert [1] * 50 == [row["n"] for row in found]


def test_input_inside_overwritten_folder_is_kept(lake: str) -> None:
    given = parquet(f"{lake}/in/a.parquet")

    for folder in (lake, f"{lake}/in"):
        with pytest.raises(ValueError, match=f"{given} is an input file in the folder"):
            jobs.run(f"{lake}/in", folder, Job("decode"), mode="overwrite", workers=1)
    jobs.run(f"{lake}/in", f"{lake}/i", Job("decode"), mode="overwrite", workers=1)

    assert stores.opened(given).read()
    assert 50 == len(rows(f"{lake}/i"))


def test_ctrl_c_during_write_leaves_small_file_complete(
    lake: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = StoreLocation.of(f"{lake}/manifest.json")
    place.write(b"before")
    create = StoreLocation.create

    @contextmanager
    def interrupted(self: StoreLocation) -> Iterator[Any]:
        with create(self) as file:
            signal.raise_signal(signal.SIGINT)  # its handler has run when this returns
            yield file

    monkeypatch.setattr(StoreLocation, "create", interrupted)
    with pytest.raises(KeyboardInterrupt):
        place.write(b"after")

    assert b"after" == place.read()


def test_folder_without_output_is_an_error(lake: str) -> None:
    for read_rows in (made_files, lambda url: list(quarantined(url)), read_stats):
        with pytest.raises(FileNotFoundError, match=f"no job has written.*{lake}/nofolder"):
            read_rows(f"{lake}/nofolder")


def test_damaged_manifest_is_an_error(lake: str) -> None:
    parquet(f"{lake}/in/a.parquet")
    jobs.run(f"{lake}/in", f"{lake}/out", Job("decode"), workers=1)
    put(f"{lake}/out/_amqp10msg.json", b"{")

    with pytest.raises(ValueError, match=f"{lake}/out/_amqp10msg.json: the manifest is damaged"):
        made_files(f"{lake}/out")


@pytest.mark.parametrize("form", ["parquet", "prefixed"])
def test_input_replaced_by_same_size_ends_the_job(lake: str, form: str) -> None:
    wires = [Message(Random(number).randbytes(10_000)).encode() for number in range(40)]

    def fill(order: list[bytes]) -> None:
        if form == "parquet":
            parquet(f"{lake}/in.{form}", order)
        else:
            put(f"{lake}/in.{form}", b"".join(len(w).to_bytes(4, "big") + w for w in order))

    fill(wires)
    size = StoreLocation.of(f"{lake}/in.{form}").state_with_identity().size
    read = Fetched.readinto if form == "prefixed" else Fetched.read_buffer
    replaced = 0

    def read_and_replace(self: Fetched, *args: Any) -> Any:
        nonlocal replaced
        found: Any = read(self, *args)
        if self.tell() > 200_000 and not replaced:
            replaced += 1
            fill(wires[::-1])
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Fetched, read.__name__, read_and_replace)
        with pytest.raises(JobError, match=rf"^{lake}/in.{form}: another file replaced") as raised:
            jobs.run(f"{lake}/in.{form}", f"{lake}/out", Job("validate"), workers=1)

    assert JobError is raised.type  # not one that another run goes on from
    assert (size, 1) == (StoreLocation.of(f"{lake}/in.{form}").state_with_identity().size, replaced)
    assert [] == names(f"{lake}/out")
    assert 40 == jobs.run(f"{lake}/in.{form}", f"{lake}/out", Job("validate"), workers=1).good


def test_input_replaced_between_parts_ends_the_job(lake: str) -> None:
    parquet(f"{lake}/in.parquet")

    def replace(done: int, parts: int) -> None:
        assert parts > 1
        if done == 1:
            parquet(f"{lake}/in.parquet", WIRES[::-1])

    how: Any = {"workers": 1, "options": {"rangeBytes": "1"}, "progress": replace}
    with pytest.raises(JobError, match="another file replaced it since the job started: run"):
        jobs.run(f"{lake}/in.parquet", f"{lake}/out", Job("validate"), **how)

    assert [] == names(f"{lake}/out")


def test_file_removed_after_reading_is_not_a_fault(lake: str) -> None:
    parquet(f"{lake}/in.parquet")

    found = jobs.read(f"{lake}/in.parquet")
    first = found.read_next_batch()
    StoreLocation.of(f"{lake}/in.parquet").delete()

    assert len(WIRES) == len(first) + sum(map(len, found))
