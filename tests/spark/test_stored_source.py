"""RabbitMQ's streams by its stream protocol as DataFrames: each message once, as it is stored."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyarrow")
pytest.importorskip("pyspark", reason="pyspark is not installed: make setup")

from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.types import StructType

from amqp10msg import spark
from amqp10msg.net.stored_ranges import StoredProbe
from amqp10msg.net.stream_ranges import Bounds, StreamRange
from amqp10msg.spark._offsets import split_ranges
from tests.spark.stream_reads import FORMAT, every, message
from tests.spark.stream_reads import rows_of as read_rows
from tests.stored_streams import ChunkServer, Stored, serving

pytestmark = [pytest.mark.once, pytest.mark.xdist_group("spark")]

STORED = datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)


@pytest.fixture
def server() -> Iterator[ChunkServer]:
    made = ChunkServer(**{"s-0": Stored(), "s-1": Stored()})
    made.super_streams["s"] = ["s-0", "s-1"]
    for stream in made.streams.values():
        stream.publish([message(n).encode() for n in range(200)], 50)
    with serving(made):
        yield made


def rows_of(server: ChunkServer, **options: Any) -> list[dict[str, Any]]:
    return read_rows(server, **{"stream": "s-0", **options})


def numbers(rows: Any) -> list[tuple[str, int]]:
    """Where each row stands; its bytes are those that are stored."""
    found = sorted((row["stream"], row["offset"], bytes(row["wire"])) for row in rows)
    assert all(message(offset).encode() == octets for _, offset, octets in found)
    return [(stream, offset) for stream, offset, _ in found]


def test_batch_reads_super_stream(spark_session: Any, server: ChunkServer) -> None:
    options = {"superStream": "s", "maxRecordsPerPartition": 150, "columns": "message_id"}
    df = spark_session.read.format(FORMAT).options(url=server.url, **options).load()

    assert 4 == df.rdd.getNumPartitions()
    rows = df.collect()
    assert every() == numbers(rows)
    assert all(f"m-{row['offset']}" == row["message_id"] for row in rows)
    assert all(row["error"] is row["lost"] is None for row in rows)
    local = STORED.astimezone().replace(tzinfo=None)
    assert all(abs(row["arrival_time"] - local) < timedelta(days=1) for row in rows)


def test_batch_reads_range_with_filters(server: ChunkServer) -> None:
    server.streams["s-0"].skips = {50, 150}
    options = {
        "stream": "s-0,s-1",
        "startingOffsets": json.dumps({"s-0": 40, "s-1": "latest"}),
        "endingOffsets": json.dumps({"s-0": 160, "s-1": "latest"}),
        "filterValues": "a",
    }

    rows = rows_of(server, **options)

    wanted = [n for n in range(40, 160) if n // 50 % 2 == 0]
    assert [("s-0", n) for n in wanted] == numbers(rows)
    assert {STORED} == {row["arrival_time"] for row in rows}
    some = rows_of(server, sqlFilter="properties.message_id = 'm-7'")
    assert [("s-0", 7)] == numbers(some)


def test_batch_reads_interval_of_timestamps(server: ChunkServer) -> None:
    """A message has the time of its chunk: the rows are those whose arrival time matches."""
    stream = server.streams["s-0"]
    first = round(STORED.timestamp() * 1000)
    for number in range(1, 4):
        start = 150 + 50 * number
        messages = [message(n).encode() for n in range(start, start + 50)]
        stream.publish(messages, 50, timestamp=first + 100 * number)

    def offsets(**options: int) -> tuple[int, int]:
        rows = rows_of(server, **options)
        found = [offset for _, offset in numbers(rows)]
        assert [*range(found[0], found[0] + len(found))] == found if found else not rows
        return (found[0], found[-1] + 1) if found else (0, 0)

    assert (0, 350) == offsets(startingTimestamp=0)
    assert (200, 350) == offsets(startingTimestamp=first + 1)
    assert (250, 350) == offsets(startingTimestamp=first + 200)
    assert (0, 0) == offsets(startingTimestamp=first + 301)
    assert (0, 250) == offsets(endingTimestamp=first + 200)
    assert (200, 250) == offsets(startingTimestamp=first + 100, endingTimestamp=first + 101)
    assert (0, 350) == offsets(endingTimestamp=first + 301)


def tasks_of(streams: list[Bounds], **options: str) -> list[StreamRange]:
    """What the tasks of a batch read, of streams that begin and end there."""
    names = [f"s-{number}" for number in range(len(streams))]
    given = {"url": "rabbitmq-stream://h", "stream": ",".join(names), **options}
    source = spark.Amqp10Stream(CaseInsensitiveDict(given))
    with pytest.MonkeyPatch.context() as patch:
        found = dict(zip(names, streams, strict=True))
        patch.setattr(StoredProbe, "bounds", lambda _, names: {one: found[one] for one in names})
        reader: Any = source.reader(StructType())
        return [one.value for one in reader.partitions()]


@given(
    st.lists(
        st.builds(
            lambda first, count: Bounds(first, first + count),
            st.integers(0, 10**12),
            st.integers(0, 10**8),
        ),
        min_size=1,
        max_size=5,
    ),
    st.none() | st.integers(10**6, 10**9),
    st.none() | st.integers(1, 500),
)
def test_each_offset_belongs_to_one_task(
    streams: list[Bounds], rows: int | None, least: int | None
) -> None:
    limits = {"maxRecordsPerPartition": rows, "minPartitions": least}
    options = {name: str(limit) for name, limit in limits.items() if limit is not None}
    tasks = tasks_of(streams, **options)

    for number, bounds in enumerate(streams):
        mine = [one for one in tasks if one.stream == f"s-{number}"]
        borders = [bounds.first, *(one.stop for one in mine)]
        assert borders == [*(one.start for one in mine), bounds.next]
        assert borders == sorted(set(borders))
        sizes = {one.stop - one.start for one in mine}
        assert not sizes or max(sizes) - min(sizes) <= 1
    assert all(one.stop - one.start <= (rows or 10**6) for one in tasks)
    assert len(tasks) >= min(least or 1, sum(bounds.next - bounds.first for bounds in streams))


@given(
    st.lists(st.tuples(st.integers(0, 1_000), st.integers(0, 60)), max_size=5),
    st.integers(1, 20),
    st.integers(1, 100),
)
def test_ranges_are_divided_completely(
    places: list[tuple[int, int]], most: int, least: int
) -> None:
    ranges = [
        StreamRange(f"s-{number}", start, start + count)
        for number, (start, count) in enumerate(places)
    ]

    parts = split_ranges(ranges, most, least)

    offsets = [(part.stream, offset) for part in parts for offset in range(part.start, part.stop)]
    assert offsets == [
        (part.stream, offset) for part in ranges for offset in range(part.start, part.stop)
    ]
    assert all(0 < part.stop - part.start <= most for part in parts)
    assert len(parts) >= min(least, len(offsets))
    fewest = sum(-(-count // most) for _, count in places)
    assert len(parts) == fewest or fewest < least
    assert len(parts) <= fewest + least + len(places)


@pytest.mark.parametrize(
    "counts, wanted",
    [
        ([99_999], [99_999]),
        ([250_000], [83_333, 83_333, 83_334]),
        ([2_000_000], [500_000] * 4),
        ([9_500_000], [950_000] * 10),
        ([1_000_000, 200_001], [250_000] * 4 + [200_001]),
    ],
)
def test_read_is_split_into_four_tasks_within_limits(counts: list[int], wanted: list[int]) -> None:
    tasks = tasks_of([Bounds(7, 7 + count) for count in counts])

    assert wanted == [one.stop - one.start for one in tasks]


@pytest.mark.parametrize(
    "wrong, said",
    [
        ({"url": "rabbitmq-stream://h/?queue=q"}, "must not name a queue"),
        ({"stream": "", "eventHub": "h"}, "eventHub needs a URL of AMQP 1.0"),
        ({"endingOffsets": "201"}, "the stream s-0 ends at offset 200, before .* 201"),
        ({"stream": "nothing"}, "'nothing': the stream does not exist"),
        ({"stream": "", "superStream": "none"}, "the super stream 'none': the stream does not"),
        ({"sqlFilter": "k ="}, "line 1, column 4: expected a value"),
    ],
)
def test_invalid_arguments_are_errors(
    server: ChunkServer, wrong: dict[str, str], said: str
) -> None:
    with pytest.raises((ValueError, OSError), match=said):
        rows_of(server, **wrong)


READ = """
import sys
from pyspark.sql.datasource import CaseInsensitiveDict
from amqp10msg import spark
source = spark.Amqp10Stream(CaseInsensitiveDict({"url": sys.argv[1], "stream": "s-0"}))
reader = source.reader(source.schema())
print(sum(len(batch) for part in reader.partitions() for batch in reader.read(part)))
print("pandas" in sys.modules)
"""


def test_worker_does_not_import_pandas(server: ChunkServer) -> None:
    """Each worker of a read would spend a third of a second on it, for nothing."""
    made = subprocess.run(
        [sys.executable, "-c", READ, server.url],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
    )

    assert ["200", "False"] == made.stdout.split()


def test_lost_offsets_are_an_error_or_a_row(
    server: ChunkServer, caplog: pytest.LogCaptureFixture
) -> None:
    del server.streams["s-0"].chunks[:1]
    said = "stream s-0: 40 messages from offset 10 on are lost: .* available offset is 50"
    with pytest.raises(ValueError, match=said):
        rows_of(server, startingOffsets=10)

    rows = rows_of(server, startingOffsets=10, failOnDataLoss="false")

    (record,) = caplog.records
    assert re.search(said, record.getMessage())
    gone = [row for row in rows if row["lost"] is not None]
    names = ("stream", "offset", "wire", "lost")
    assert [("s-0", 10, None, 40)] == [tuple(row[name] for name in names) for row in gone]
    assert every(streams=1)[50:] == numbers(row for row in rows if row["lost"] is None)


def test_offsets_removed_while_reading_are_an_error(server: ChunkServer) -> None:
    """The driver found it there, and the task did not."""
    options = {"url": server.url, "stream": "s-0", "maxRecordsPerPartition": "100"}
    batches = spark.Amqp10Stream(CaseInsensitiveDict(options)).reader(StructType())
    _, part = batches.partitions()
    del server.streams["s-0"].chunks[:3]

    with pytest.raises(ValueError, match="stream s-0: 50 messages from offset 100 on are lost"):
        list(batches.read(part))


def test_query_delivers_each_message_once(
    spark_session: Any, server: ChunkServer, tmp_path: Any
) -> None:
    """Also those that come between its runs, and where it is cut."""
    server.streams["s-0"].cuts = [700]
    for stop in (200, 230):
        rows = spark_session.readStream.format(FORMAT)
        rows = rows.options(url=server.url, readTimeout=60, superStream="s").load()
        query = (
            rows.writeStream.format("parquet")
            .option("checkpointLocation", str(tmp_path / "state"))
            .trigger(availableNow=True)
            .start(str(tmp_path / "out"))
        )
        assert query.awaitTermination(300)
        assert query.exception() is None
        found = spark_session.read.parquet(str(tmp_path / "out")).collect()
        assert every(stop) == numbers(found)
        for stream in server.streams.values():
            stream.publish([message(n).encode() for n in range(200, 230)])
