"""A stream of files that arrive in any order: each is read once, and none is left out."""

from __future__ import annotations

import json
import logging
import os
import re
import uuid
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyarrow")
pytest.importorskip("pyspark", reason="pyspark is not installed: pip install '.[spark]'")

from pyspark.sql.types import StructType

from amqp10msg import Message, spark
from amqp10msg.files.stores import State, StoreLocation
from amqp10msg.spark import _ledger, source
from amqp10msg.spark._ledger import START_OFFSET, compare, files_between, make_offset
from amqp10msg.spark.source import Amqp10

pytestmark = [pytest.mark.once, pytest.mark.xdist_group("spark")]

IS_LIMITED = find_spec("pyspark.sql.streaming.datasource") is not None
#: For tests of options that need the start of a batch.
LIMITED = pytest.mark.skipif(not IS_LIMITED, reason="this option needs PySpark 4.2")
SECOND = 10**9

PATHS = st.integers(0, 30).map("f{}.bin".format)
STEPS = st.lists(
    st.tuples(st.just("add"), PATHS, st.integers(0, 20))
    | st.tuples(st.just("remove"), PATHS, st.none())
    | st.tuples(st.just("batch"), st.none(), st.integers(1, 5)),
    max_size=40,
)


@given(STEPS)
def test_each_file_is_read_once_whatever_its_name_and_time(steps: list[Any]) -> None:
    states: dict[str, State] = {}
    offset = START_OFFSET
    read: list[str] = []
    added: set[str] = set()

    def read_batch(limit: int) -> list[str]:
        nonlocal offset
        listing = compare(states, offset, "in")
        batch = listing.new[:limit]
        end = json.loads(json.dumps(make_offset(states, offset, listing, batch, None)))
        assert [*batch] == files_between(states, offset, end, "in")
        read.extend(batch)
        offset = end
        return [*batch]

    for kind, path, number in steps:
        if kind == "add" and path not in added:
            states[path] = State(1, number * SECOND)
            added.add(path)
        elif kind == "remove" and path in read:
            states.pop(path, None)
        elif kind == "batch":
            read_batch(number)
    read_batch(100)

    assert [] == read_batch(100)
    assert sorted(added) == sorted(read)
    assert len(added) == offset["count"]


@given(st.lists(st.integers(0, 100), min_size=1, max_size=30), st.integers(1, 50))
def test_age_bounds_the_ledger_and_repeats_no_file(times: list[int], age: int) -> None:
    states: dict[str, State] = {}
    offset = START_OFFSET
    read: list[str] = []
    for number, time in enumerate(times):
        states[f"{number}"] = State(1, time)
        listing = compare(states, offset, "in")
        read += listing.new
        end = make_offset(states, offset, listing, listing.new, age)
        assert [*listing.new] == files_between(states, offset, end, "in")
        offset = end
        within_age = [path for path in read if states[path].changed >= offset["oldest"]]
        assert len(within_age) <= len(_ledger._parse_ledger(offset)) <= len(within_age) + 1

    listing = compare(states, offset, "in")
    assert () == listing.new
    assert sorted(read) == sorted({*read})
    # A file that was not read was older than the newest file by more than the age.
    newest_before = [max(times[:number], default=0) for number in range(len(times))]
    for number, time in enumerate(times):
        assert (str(number) in read) == (time >= newest_before[number] - age)


def test_too_many_files_for_a_checkpoint_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_ledger, "MAX_ENTRIES", 3)
    states = {f"{number}": State(1, number) for number in range(4)}
    listing = compare(states, START_OFFSET, "in")

    with pytest.raises(ValueError, match=r"4 files .* at most 3: .*cleanSource.*maxFileAge"):
        make_offset(states, START_OFFSET, listing, listing.new, None)

    end = make_offset(states, START_OFFSET, listing, listing.new[:3], None)
    assert 100 > len(json.dumps(end))
    assert 3 == len(compare(states, end, "in").read)


# The reader.


def reader_of(folder: Path | str, **options: str) -> Any:
    return Amqp10({"path": str(folder), **options}).streamReader(StructType())


def latest(reader: Any, start: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the offset after the next batch, as Spark keeps it in a checkpoint."""
    given_ = (start or reader.initialOffset(), reader.getDefaultReadLimit()) if IS_LIMITED else ()
    return dict(json.loads(json.dumps(reader.latestOffset(*given_))))


def names_of(partitions: list[Any]) -> list[str]:
    return [Path(found.path).name for part in partitions for found in part.value]


def write(path: Path, size: int = 1, at: int = 1_000) -> None:
    """Write a file of empty messages with a modification time in seconds."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\0\0\0\0" * size)
    os.utime(path, (at, at))


def test_file_with_a_smaller_name_is_read_later(tmp_path: Path) -> None:
    write(tmp_path / "b.bin")
    first = latest(reader_of(tmp_path))
    write(tmp_path / "a.bin")
    (tmp_path / "b.bin").unlink()
    reader = reader_of(tmp_path)

    second = latest(reader, first)

    assert ["a.bin"] == names_of(reader.partitions(first, second))
    assert [] == reader.partitions(second, second)


@pytest.mark.parametrize("change", ["size", "time"])
def test_file_written_to_after_reading_is_an_error(tmp_path: Path, change: str) -> None:
    write(tmp_path / "a.bin")
    write(tmp_path / "b.bin")
    reader = reader_of(tmp_path)
    end = latest(reader)

    write(tmp_path / "a.bin", size=2 if change == "size" else 1, at=1_001)

    with pytest.raises(ValueError, match=r"1 file was written to after being read: .*a\.bin"):
        reader.partitions(reader.initialOffset(), end)
    if IS_LIMITED:
        with pytest.raises(ValueError, match=r"written to after being read: .*a\.bin"):
            latest(reader, end)


@LIMITED
def test_new_file_with_the_name_of_a_deleted_file_is_read(tmp_path: Path) -> None:
    write(tmp_path / "a.bin")
    reader = reader_of(tmp_path, cleanSource="delete")
    first = latest(reader)
    write(tmp_path / "a.bin", size=2)  # before the reader deletes the first

    second = latest(reader, first)

    assert ["a.bin"] == names_of(reader.partitions(first, second))


def test_file_removed_before_reading_is_an_error(tmp_path: Path) -> None:
    for name in ("a.bin", "b.bin"):
        write(tmp_path / name)
    reader = reader_of(tmp_path)
    end = latest(reader)
    (tmp_path / "b.bin").unlink()

    assert [] == reader.partitions(end, end)
    with pytest.raises(ValueError, match=r"1 of the 2 files of a batch were removed before"):
        reader.partitions(reader.initialOffset(), end)


@LIMITED
@pytest.mark.parametrize(
    "options, batches",
    [
        ({}, [["c", "a", "b", "d"]]),
        ({"maxFilesPerTrigger": "3"}, [["c", "a", "b"], ["d"]]),
        ({"maxBytesPerTrigger": "8"}, [["c", "a"], ["b"], ["d"]]),
        ({"maxBytesPerTrigger": "1"}, [["c"], ["a"], ["b"], ["d"]]),
        ({"maxBytesPerTrigger": "1000", "maxFilesPerTrigger": "1"}, [["c"], ["a"], ["b"], ["d"]]),
    ],
)
def test_limits_of_a_batch(
    tmp_path: Path, options: dict[str, str], batches: list[list[str]]
) -> None:
    for name, size, at in (("a", 1, 2_000), ("b", 3, 2_001), ("c", 1, 1_999), ("d", 1, 2_002)):
        write(tmp_path / name, size, at)
    reader = reader_of(tmp_path, form="prefixed", **options)
    found = []
    offset = reader.initialOffset()
    while (end := latest(reader, offset)) != offset:
        found.append(names_of(reader.partitions(offset, end)))
        offset = end

    assert batches == found


@LIMITED
def test_available_now_reads_the_files_of_its_start(tmp_path: Path) -> None:
    write(tmp_path / "b.bin")
    reader = reader_of(tmp_path)
    reader.prepareForTriggerAvailableNow()
    write(tmp_path / "a.bin")

    end = latest(reader)

    assert ["b.bin"] == names_of(reader.partitions(reader.initialOffset(), end))
    assert end == latest(reader, end)


@LIMITED
def test_files_beyond_the_age_are_ignored_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    day = 24 * 60 * 60
    write(tmp_path / "new.bin", at=10 * day)
    reader = reader_of(tmp_path, maxFileAge="7d")
    first = latest(reader)
    write(tmp_path / "old.bin", at=2 * day)
    write(tmp_path / "late.bin", at=4 * day)

    with caplog.at_level(logging.WARNING):
        second = latest(reader, first)
        assert second == latest(reader, second)

    assert ["late.bin"] == names_of(reader.partitions(first, second))
    (record,) = caplog.records
    assert "1 files are ignored" in record.getMessage()
    assert "maxFileAge" in record.getMessage()
    assert "old.bin" in record.getMessage()


@LIMITED
@pytest.mark.parametrize("cleaning", ["delete", "archive"])
def test_complete_batches_are_cleaned(tmp_path: Path, cleaning: str) -> None:
    landing, archive = tmp_path / "landing", tmp_path / "archive"
    write(landing / "a.bin")
    write(landing / "day" / "b.bin")
    options = {"sourceArchiveDir": str(archive)} if cleaning == "archive" else {}
    reader = reader_of(landing, cleanSource=cleaning, **options)
    end = latest(reader)
    assert {"a.bin", "b.bin"} == {*names_of(reader.partitions(reader.initialOffset(), end))}
    write(landing / "c.bin")

    # With another process, as after a restart: the batch up to `end` is complete.
    later = latest(reader_of(landing, cleanSource=cleaning, **options), end)

    assert ["c.bin"] == names_of(reader_of(landing).partitions(end, later))
    assert ["c.bin"] == [path.name for path in landing.rglob("*.bin")]
    kept = {"a.bin", "day/b.bin"} if cleaning == "archive" else set()
    assert kept == {path.relative_to(archive).as_posix() for path in archive.rglob("*.bin")}


@LIMITED
def test_archive_keeps_earlier_files_of_the_same_name(tmp_path: Path) -> None:
    landing, archive = tmp_path / "landing", tmp_path / "archive"
    options = {"cleanSource": "archive", "sourceArchiveDir": str(archive)}
    landing.mkdir()
    reader = reader_of(landing, **options)
    end = None
    for content in (b"first", b"second", b"third"):
        (landing / "a.bin").write_bytes(content)
        end = latest(reader, end)
        latest(reader, end)

    assert [] == list(landing.iterdir())
    assert {b"first", b"second", b"third"} == {path.read_bytes() for path in archive.iterdir()}
    assert {".bin"} == {path.suffix for path in archive.iterdir()}


@LIMITED
def test_idle_stream_pauses_between_listings(tmp_path: Path) -> None:
    now = [100.0]
    sleeps: list[float] = []

    def sleep(seconds: float) -> None:
        sleeps.append(seconds)
        now[0] += seconds

    reader = source._StreamReader(
        source._Options.from_options({"path": str(tmp_path), "pollInterval": "5"}),
        clock=lambda: now[0],
        sleep=sleep,
    )
    start = reader.initialOffset()
    limit = reader.getDefaultReadLimit()

    assert start == reader.latestOffset(start, limit)
    now[0] += 2
    assert start == reader.latestOffset(start, limit)
    write(tmp_path / "a.bin")
    end = reader.latestOffset(start, limit)
    reader.latestOffset(end, limit)

    # There is a pause after a listing without new files, but not after the batch.
    assert [0.0, 3.0, 5.0, 0.0] == sleeps


@LIMITED
def test_pause_is_longer_if_listing_is_slow(tmp_path: Path) -> None:
    times = iter([100.0, 100.0, 102.0, 103.0, 120.0, 121.0])
    sleeps: list[float] = []
    reader = source._StreamReader(
        source._Options.from_options({"path": str(tmp_path)}),
        clock=lambda: next(times),
        sleep=sleeps.append,
    )
    start = reader.initialOffset()
    for _ in range(2):
        reader.latestOffset(start, reader.getDefaultReadLimit())

    # The first listing ended at 102, after 2 seconds.
    assert [0.0, 102 + 9 * 2 - 103] == sleeps


@pytest.mark.parametrize(
    "options, text",
    [
        ({"maxFileAge": "7"}, "a positive number and a unit, such as 7d"),
        ({"maxFileAge": "0d"}, "a positive number and a unit"),
        ({"maxFileAge": "-1h"}, "a positive number and a unit"),
        ({"maxFileAge": ""}, "a positive number and a unit"),
        ({"maxBytesPerTrigger": "0"}, "maxBytesPerTrigger"),
        ({"cleanSource": "move"}, "must be one of off, delete, archive, not 'move'"),
        ({"cleanSource": "archive"}, "only valid together"),
        ({"sourceArchiveDir": "/archive"}, "only valid together"),
        ({"cleanSource": "archive", "sourceArchiveDir": "/in/old"}, "outside of the input"),
        ({"cleanSource": "archive", "sourceArchiveDir": "/in"}, "outside of the input"),
        ({"cleanSource": "archive", "sourceArchiveDir": "s3://lake/old"}, "file system or bucket"),
        ({"pollInterval": "-1"}, "0 to 3600 seconds, not '-1'"),
        ({"pollInterval": "nan"}, "0 to 3600 seconds, not 'nan'"),
        ({"pollInterval": "soon"}, "0 to 3600 seconds, not 'soon'"),
        ({"maxFileAges": "7d"}, "maxFileAges"),
    ],
)
def test_invalid_option_is_an_error(options: dict[str, str], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        reader_of("/in", **options).initialOffset()


@LIMITED
@pytest.mark.parametrize("cleaning", ["off", "delete", "archive"])
def test_files_in_a_store(cleaning: str) -> None:
    pytest.importorskip("moto", reason="moto, a local server of S3, is not installed: make setup")
    from tests.jobs import local_store  # noqa: PLC0415  (it needs moto)

    with local_store.s3_server() as server:
        host, port = server.get_host_and_port()
        query = f"?scheme=http&region=us-east-1&endpoint_override={host}:{port}"
        base = uuid.uuid4().hex  # other tests of this process use the same bucket

        def url(key: str) -> str:
            return f"s3://lake/{base}/{key}{query}"

        options = {"cleanSource": cleaning}
        if cleaning == "archive":
            options["sourceArchiveDir"] = url("old")
        for name in ("b.bin", "day/c.bin", "a.bin"):
            StoreLocation.of(url(f"in/{name}")).write(b"\0\0\0\0")
        reader = reader_of(url("in"), form="prefixed", **options)
        first = latest(reader)
        StoreLocation.of(url("in/0.bin")).write(b"\0\0\0\0")
        second = latest(reader, first)

        def keys(folder: str) -> list[str]:
            files = StoreLocation.of(url(folder)).files()
            return [location.key.removeprefix(f"{base}/{folder}/") for location, _ in files]

        assert ["0.bin"] == [
            StoreLocation.of(found.path).key.removeprefix(f"{base}/in/")
            for part in reader.partitions(first, second)
            for found in part.value
        ]
        read = ["a.bin", "b.bin", "day/c.bin"]
        assert (["0.bin", *read] if cleaning == "off" else ["0.bin"]) == keys("in")
        assert (read if cleaning == "archive" else []) == keys("old")


@LIMITED
@pytest.mark.parametrize(
    "path, options, text",
    [
        ("in", {"maxFilePerTrigger": "1"}, "did you mean maxFilesPerTrigger"),
        ("in", {"cleanSource": "move"}, "must be one of off, delete, archive, not 'move'"),
        ("inn", {}, "inn: no such file or folder"),
    ],
)
def test_query_with_an_invalid_option_fails_with_the_reason(
    spark_session: Any, tmp_path: Path, path: str, options: dict[str, str], text: str
) -> None:
    """PySpark hides an exception of `streamReader` behind one of its own."""
    (tmp_path / "in").mkdir()
    reader = spark_session.readStream.format("amqp10").options(**options)

    def run() -> None:
        writer = reader.load(str(tmp_path / path)).writeStream.format("noop")
        writer.trigger(availableNow=True).start().awaitTermination()

    with pytest.raises(Exception, match=re.escape(text)):
        run()


def test_query_of_the_documentation(spark_session: Any, tmp_path: Path) -> None:
    """The function `follow_files` of the page about Spark runs as it stands there."""
    page = Path(__file__).parents[2] / "docs" / "how-to" / "spark.md"
    code = re.search(r"```python\n(def follow_files.*?)```", page.read_text("utf-8"), re.DOTALL)
    assert code is not None
    namespace: dict[str, Any] = {"spark": spark}
    exec(code[1], namespace)
    landing, archive, out = (tmp_path / name for name in ("landing", "archive", "out"))

    def deliver(name: str, rest: bytes = b"") -> None:
        octets = Message("x", message_id=name).encode()
        (landing / name).parent.mkdir(parents=True, exist_ok=True)
        (landing / name).write_bytes(len(octets).to_bytes(4, "big") + octets + rest)

    for name in ("b.bin", "day/c.bin"):
        deliver(name)
    state = str(tmp_path / "state")
    query = namespace["follow_files"](spark_session, *map(str, (landing, archive, out)), state)
    try:
        query.processAllAvailable()
        deliver("a.bin", rest=b"\0\0")  # ends inside the next length
        query.processAllAvailable()
    finally:
        query.stop()

    rows = spark_session.read.parquet(str(out)).collect()
    assert [None, "a.bin", "b.bin", "day/c.bin"] == sorted(
        (row.message_id for row in rows), key=lambda found: found or ""
    )
    archived = {path.relative_to(archive).as_posix() for path in archive.rglob("*.bin")}
    assert {"b.bin", "day/c.bin"} <= archived
