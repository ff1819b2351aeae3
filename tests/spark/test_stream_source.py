"""Streams of a broker as DataFrames: each message once, whatever is repeated."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10msg import Message

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark", reason="pyspark is not installed: make setup")

from pyspark.sql.datasource import CaseInsensitiveDict  # noqa: E402
from pyspark.sql.types import StructType  # noqa: E402

from amqp10msg import spark  # noqa: E402
from amqp10msg.net.stored_ranges import StoredProbe  # noqa: E402
from amqp10msg.net.stream_ranges import Bounds  # noqa: E402
from amqp10msg.spark import _workers, lag, stream_source  # noqa: E402
from amqp10msg.spark._offsets import limit_batch, without_start  # noqa: E402
from tests.spark.stream_reads import FORMAT, every, message  # noqa: E402
from tests.spark.stream_reads import rows_of as read_rows  # noqa: E402
from tests.stored_streams import ChunkServer, Stored, serving  # noqa: E402
from tests.stream_broker import Stream, StreamBroker, running  # noqa: E402

pytestmark = [pytest.mark.once, pytest.mark.xdist_group("spark")]


@pytest.fixture
def broker() -> Iterator[StreamBroker]:
    streams = {f"s-{number}": Stream() for number in range(2)}
    for stream in streams.values():
        stream.publish(*(message(n) for n in range(200)))
    with running(StreamBroker(**streams)) as made:
        yield made


def rows_of(broker: StreamBroker, **options: Any) -> list[dict[str, Any]]:
    return read_rows(broker, **{"stream": "s-0", **options})


def reader(session: Any, broker: StreamBroker, **options: Any) -> Any:
    given = {"url": broker.url, "readTimeout": 60, **options}
    return session.read.format(FORMAT).options(**given)


def numbers(rows: Any) -> list[tuple[str, int]]:
    """Where each row stands; its message says the same."""
    found = sorted((row["stream"], row["offset"], row["wire"]) for row in rows)
    said = [(stream, int(Message.decode(octets).value)) for stream, _, octets in found]
    assert said == [(stream, offset) for stream, offset, _ in found]
    return said


def test_batch_reads_super_stream(spark_session: Any, broker: StreamBroker) -> None:
    options = {"superStream": "s", "maxRecordsPerPartition": 150, "columns": "message_id"}
    df = reader(spark_session, broker, **options).load()

    assert 4 == df.rdd.getNumPartitions()
    rows = df.collect()
    assert every() == numbers(rows)
    assert all(f"m-{row['offset']}" == row["message_id"] for row in rows)
    assert all(row["error"] is row["lost"] is row["arrival_time"] is None for row in rows)
    names = ["stream", "offset", "arrival_time", "wire", "lost", "message_id", "error"]
    assert names == df.columns


def test_batch_reads_range_with_filter(broker: StreamBroker) -> None:
    options = {
        "stream": "s-0,s-1",
        "startingOffsets": json.dumps({"s-0": 40, "s-1": "latest"}),
        "endingOffsets": json.dumps({"s-0": 160, "s-1": "latest"}),
        "filterValues": "a",
    }

    rows = rows_of(broker, **options)

    wanted = [n for n in range(40, 160) if n // 50 % 2 == 0]
    assert [("s-0", n) for n in wanted] == numbers(rows)


@pytest.mark.parametrize(
    "wrong, said",
    [
        ({"url": ""}, "the option url is required"),
        ({"url": "amqp091://h"}, "url must name a broker only"),
        ({"url": "amqp://me:topsecret@h/q"}, "url must name a broker only.*, got amqp://h:5672/q"),
        ({"stream": ""}, "exactly one of the options stream"),
        ({"superStream": "s"}, "exactly one of the options stream"),
        ({"startingOffsets": "-1"}, "startingOffsets must be earliest, latest, an offset"),
        ({"startingOffsets": '{"s-9": 1}'}, "startingOffsets names s-9"),
        *(
            ({"startingOffsets": text}, "startingOffsets must be earliest, latest, an offset")
            for text in ('{"s-0": [1]}', '{"s-0": {}}', "[" * 10_000, "[[1]]", "null", "1e400")
        ),
        *(
            ({"stream": text}, "stream must be names separated by commas")
            for text in ("[" * 10_000, "[1]", '["a", ["b"]]', '["a"')
        ),
        *(
            ({name: text}, f"{name} must be milliseconds since the Unix epoch, .*, got")
            for name in ("startingTimestamp", "endingTimestamp")
            for text in ("noon", "", "-1", "1.5", "2026-07-01T12:00:00Z", "9" * 19, "9" * 10_000)
        ),
        (
            {"startingTimestamp": "1", "startingOffsets": "1"},
            "only one of the options startingOffsets and startingTimestamp",
        ),
        (
            {"endingTimestamp": "1", "endingOffsets": "latest"},
            "only one of the options endingOffsets and endingTimestamp",
        ),
        ({"endingOffsets": "201"}, "the stream s-0 ends at offset 200, before .* 201"),
        ({"stream": "nothing"}, "no queue 'nothing'"),
        ({"columns": "wire"}, "wire: every row has this column"),
        ({"columns": "colour"}, "colour"),
        ({"failOnDataLoss": "no"}, "failOnDataLoss must be true or false"),
        ({"sqlFilter": "k ="}, "line 1, column 4: expected a value"),
        ({"readTimeout": "0"}, "readTimeout must be a number of seconds"),
        ({"window": "1"}, "window"),
    ],
)
def test_invalid_arguments_are_errors(
    broker: StreamBroker, wrong: dict[str, str], said: str
) -> None:
    with pytest.raises((ValueError, OSError), match=said) as caught:
        rows_of(broker, **wrong)
    assert "topsecret" not in str(caught.value)


def stream_reader(broker: StreamBroker, **options: Any) -> Any:
    """Return the reader of a streaming query, as Spark's driver has it."""
    given = {"url": broker.url, "stream": "s-0", **options}
    source = spark.Amqp10Stream(CaseInsensitiveDict({k: str(v) for k, v in given.items()}))
    return source.streamReader(StructType())


@pytest.mark.parametrize("name", ["endingOffsets", "endingTimestamp"])
def test_streaming_query_has_no_end(broker: StreamBroker, name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} applies only to batch queries"):
        stream_reader(broker, **{name: 10}).initialOffset()


@pytest.mark.parametrize(
    "options, first",
    [({"startingOffsets": "latest"}, 200), ({"startingTimestamp": 5_000}, 100)],
)
def test_messages_between_two_calls_of_initial_offset_are_read(
    broker: StreamBroker, options: dict[str, Any], first: int
) -> None:
    """Spark may call it again after it asked for the end of the first batch."""
    stream = broker.streams["s-0"]
    stream.times = {number: number // 100 * 5_000 for number in range(200)}
    reader = stream_reader(broker, **options)
    assert {"s-0": first} == reader.initialOffset()
    stream.publish(message(200))

    assert {"s-0": 201} == without_start(reader.latestOffset())
    assert {"s-0": first} == reader.initialOffset()
    reader.stop()


@pytest.mark.parametrize(
    "names, described",
    [
        ({}, "stream s-0"),
        ({"stream": "", "superStream": "s"}, "partition s-0 of the super stream s"),
    ],
)
def test_lost_offsets_are_an_error_or_a_row(
    broker: StreamBroker, caplog: pytest.LogCaptureFixture, names: dict[str, str], described: str
) -> None:
    broker.streams["s-0"].retain(30)
    options = {**names, "startingOffsets": 10, "endingOffsets": 200}
    reason = (
        f"{described}: 20 messages from offset 10 on are lost: retention removed them before they "
        "were read, and the first available offset is 30"
    )
    with pytest.raises(ValueError, match=f"{reason}. To continue there, .* failOnDataLoss=false"):
        rows_of(broker, **options)

    rows = rows_of(broker, failOnDataLoss="false", **options)

    (record,) = caplog.records
    assert ("WARNING", True) == (record.levelname, record.getMessage().endswith(reason))
    gone = [row for row in rows if row["lost"] is not None]
    columns = ("stream", "offset", "wire", "lost")
    assert [("s-0", 10, None, 20)] == [tuple(row[name] for name in columns) for row in gone]
    read = [place for place in every() if place[1] >= (30 if place[0] == "s-0" else 10)]
    read = [place for place in read if place[0] == "s-0" or names]
    assert read == numbers(row for row in rows if row["lost"] is None)


@pytest.mark.parametrize("start", [30, 31, 200])
def test_query_at_the_first_offset_loses_nothing(
    broker: StreamBroker, caplog: pytest.LogCaptureFixture, start: int
) -> None:
    broker.streams["s-0"].retain(30)
    for fails in ("true", "false"):
        reader = stream_reader(broker, failOnDataLoss=fails)
        assert [] == reader.partitions({"s-0": start}, {"s-0": start})
        parts = reader.partitions({"s-0": start}, reader.latestOffset())
        rows = [row for part in parts for batch in reader.read(part) for row in batch.to_pylist()]
        assert every(streams=1)[start:] == numbers(rows)
        reader.stop()
    assert not caplog.records


def test_offsets_removed_while_reading_are_an_error_or_a_row(
    broker: StreamBroker, caplog: pytest.LogCaptureFixture
) -> None:
    """The driver found it there, and the task did not."""
    options = {"url": broker.url, "stream": "s-0", "maxRecordsPerPartition": "100"}
    batches: Any = spark.Amqp10Stream(CaseInsensitiveDict(options)).reader(StructType())
    _, part = batches.partitions()
    broker.streams["s-0"].retain(150)

    reason = "stream s-0: 50 messages from offset 100 on are lost.* offset is 150 or later"
    with pytest.raises(ValueError, match=reason):
        list(batches.read(part))

    options["failOnDataLoss"] = "false"
    batches = spark.Amqp10Stream(CaseInsensitiveDict(options)).reader(StructType())
    rows = [row for batch in batches.read(part) for row in batch.to_pylist()]
    assert [(100, 50)] == [(row["offset"], row["lost"]) for row in rows if row["lost"]]
    assert every(streams=1)[150:] == numbers(row for row in rows if row["lost"] is None)
    assert re.search(reason, caplog.records[-1].getMessage())


def test_query_continues_after_lost_offsets(
    spark_session: Any, broker: StreamBroker, tmp_path: Path
) -> None:
    query = Query(spark_session, broker, tmp_path, stream="s-0")
    assert [200] == query.run()
    stream = broker.streams["s-0"]
    stream.publish(*(message(n) for n in range(200, 400)))
    stream.retain(250)
    with pytest.raises(Exception, match="50 messages from offset 200 on are lost"):
        query.run()

    query = Query(spark_session, broker, tmp_path, stream="s-0", failOnDataLoss="false")
    assert [151] == query.run()
    stream.publish(*(message(n) for n in range(400, 500)))
    stream.retain(400)  # exactly the next offset of the query
    assert [100] == query.run()[-1:]

    rows = query.rows()
    assert [(200, 50)] == [(row["offset"], row["lost"]) for row in rows if row["lost"]]
    expected = [*every(200, 1), *every(500, 1)[250:]]
    assert expected == numbers(row for row in rows if row["lost"] is None)


def test_first_batch_is_repeated_from_its_start(
    spark_session: Any, broker: StreamBroker, tmp_path: Path
) -> None:
    """Spark stores only its end: the first available offset is another one now."""
    query = Query(spark_session, broker, tmp_path, stream="s-0")
    assert [200] == query.run()
    query.forget_last()
    shutil.rmtree(tmp_path / "out")  # the sink skips batches that it has
    broker.streams["s-0"].retain(50)

    with pytest.raises(Exception, match="50 messages from offset 0 on are lost"):
        query.run()


def test_stream_that_was_removed_from_a_query(broker: StreamBroker) -> None:
    """Its offset stays in the checkpoint; a batch that contains it cannot be repeated."""
    reader = stream_reader(broker)
    position = {"s-0": 100, "s-1": 100}
    assert [] == reader.partitions(position, position)
    end = reader.latestOffset()
    assert {"s-0": 200, "s-1": 100} == end
    (part,) = reader.partitions(position, end)
    assert ("s-0", 100, 200) == (part.value.stream, part.value.start, part.value.stop)
    with pytest.raises(ValueError, match=r"contains the stream s-1 up to offset 150, .* add it"):
        reader.partitions(position, {"s-0": 200, "s-1": 150})
    reader.stop()


def test_missing_messages_are_a_timeout_error(broker: StreamBroker) -> None:
    options = {"url": broker.url, "stream": "s-0", "readTimeout": "1"}
    batches = spark.Amqp10Stream(CaseInsensitiveDict(options)).reader(StructType())
    (part,) = batches.partitions()
    broker.streams["s-0"].stalls = 120

    with pytest.raises(
        TimeoutError, match="offsets 120 to 199 of the stream s-0 were not received within 1 s"
    ):
        list(batches.read(part))


class Query:
    """A streaming query to Parquet that takes what is there."""

    def __init__(self, session: Any, broker: StreamBroker, folder: Path, **options: Any) -> None:
        self.folder = folder
        self._session = session
        self._options = {"url": broker.url, "readTimeout": 60, **options}

    def run(self) -> list[int]:
        """Return how many rows each batch had."""
        source = self._session.readStream.format(FORMAT).options(**self._options).load()
        query = (
            source.writeStream.format("parquet")
            .option("checkpointLocation", str(self.folder / "state"))
            .trigger(availableNow=True)
            .start(str(self.folder / "out"))
        )
        assert query.awaitTermination(300)
        assert query.exception() is None
        return [one["numInputRows"] for one in query.recentProgress if one["numInputRows"]]

    def run_continuously(self) -> list[int]:
        """Process what is there as a query that does not end; return the rows of each batch."""
        source = self._session.readStream.format(FORMAT).options(**self._options).load()
        query = (
            source.writeStream.format("parquet")
            .option("checkpointLocation", str(self.folder / "state"))
            .start(str(self.folder / "out"))
        )
        try:
            query.processAllAvailable()
        finally:
            query.stop()
        self.progress = [one for one in query.recentProgress if one["numInputRows"]]
        return [one["numInputRows"] for one in self.progress]

    def rows(self) -> list[Any]:
        found: list[Any] = self._session.read.parquet(str(self.folder / "out")).collect()
        return found

    def forget_last(self) -> None:
        """Leave the checkpoint as where everything was killed before the end of a batch."""
        commits = self.folder / "state" / "commits"
        last = max(int(one.name) for one in commits.iterdir() if one.name.isdigit())
        (commits / str(last)).unlink()
        (commits / f".{last}.crc").unlink()


def test_stream_delivers_each_message_once(
    spark_session: Any, broker: StreamBroker, tmp_path: Path
) -> None:
    pytest.importorskip("pyspark.sql.streaming.datasource", reason="PySpark 4.2")
    query = Query(spark_session, broker, tmp_path, superStream="s", maxOffsetsPerTrigger=150)
    assert [150, 150, 100] == query.run()
    broker.streams["s-1"].publish(*(message(n) for n in range(200, 210)))
    # What came after the end of a batch that is repeated is not part of it.
    query.forget_last()
    broker.cut()
    assert [10] == query.run()[-1:]

    wanted = sorted([*every(), *(("s-1", n) for n in range(200, 210))])
    assert wanted == numbers(query.rows())

    broker.streams["s-0"].messages.clear()
    broker.streams["s-0"].publish(message(0))
    with pytest.raises(Exception, match=r"s-0 ends at offset 1, before .* 200: .* was deleted"):
        query.run()


def test_batch_without_limit_has_all_messages(
    spark_session: Any, broker: StreamBroker, tmp_path: Path
) -> None:
    query = Query(spark_session, broker, tmp_path, stream="s-0", startingOffsets=50)
    assert [150] == query.run()
    assert every(streams=1)[50:] == numbers(query.rows())


@contextlib.contextmanager
def logged(session: Any, path: Path) -> Iterator[None]:
    """Have Spark write its log to a file, too."""
    log4j = session.sparkContext._jvm.org.apache.logging.log4j
    builder = log4j.core.appender.FileAppender.newBuilder()
    builder.setName("test")
    builder.withFileName(str(path))
    builder.setLayout(log4j.core.layout.PatternLayout.createDefaultLayout())
    appender = builder.build()
    appender.start()
    context = log4j.LogManager.getContext(False)
    root = context.getConfiguration().getRootLogger()
    root.addAppender(appender, None, None)
    session.sparkContext.setLogLevel("INFO")
    try:
        yield
    finally:
        session.sparkContext.setLogLevel("ERROR")
        root.removeAppender("test")
        appender.stop()


def test_credentials_do_not_leak(spark_session: Any, broker: StreamBroker, tmp_path: Path) -> None:
    """Not in plans, logs or checkpoints, whichever way they are given."""
    secret = tmp_path / "password"
    secret.write_text("secret\n")
    place = broker.url.rpartition("@")[2]
    named = f"amqp://me:${{file:{secret}}}@{place}"
    log = tmp_path / "spark.log"
    stored = Stored()
    stored.publish([message(n).encode() for n in range(200)])
    with logged(spark_session, log), serving(ChunkServer(**{"s-0": stored})) as by_chunks:
        for number, url in enumerate((broker.url, named, by_chunks.url)):
            folder = tmp_path / f"query-{number}"
            options = {"url": url, "stream": "s-0"}
            query = Query(spark_session, broker, folder, **options)
            assert [200] == query.run()
            df = reader(spark_session, broker, **options).load()
            plan = df._jdf.queryExecution().toString()
            assert "amqp10-stream" in plan
            assert "me:secret" not in plan
            written = [path for path in (folder / "state").rglob("*") if path.is_file()]
            assert any(b'"s-0": 200' in path.read_bytes() for path in written)
            assert not any(b"secret" in path.read_bytes() for path in written)
        for url in (broker.url, by_chunks.url):
            wrong = {"url": url.replace("secret", "wrong-secret"), "stream": "s-0"}
            refused = reader(spark_session, broker, **wrong).load()
            with pytest.raises(Exception, match="wrong user or password") as caught:
                refused.collect()
            assert "wrong-secret" not in str(caught.value)
    said = log.read_text()
    assert "Committed offsets for batch" in said
    assert "me:secret" not in said
    assert "wrong-secret" not in said


def test_batches_are_limited_from_the_first_one_on(
    spark_session: Any, broker: StreamBroker, tmp_path: Path
) -> None:
    """With each PySpark, also after a restart."""
    query = Query(spark_session, broker, tmp_path, superStream="s", maxOffsetsPerTrigger=150)
    assert [150, 150, 100] == query.run_continuously()
    query.forget_last()
    broker.streams["s-1"].publish(*(message(n) for n in range(200, 400)))
    assert [150, 50] == query.run_continuously()[-2:]
    wanted = sorted([*every(), *(("s-1", n) for n in range(200, 400))])
    assert wanted == numbers(query.rows())


def test_progress_has_the_lag_of_each_stream(
    spark_session: Any, broker: StreamBroker, tmp_path: Path
) -> None:
    query = Query(spark_session, broker, tmp_path, superStream="s", maxOffsetsPerTrigger=150)
    assert [150, 150, 100] == query.run_continuously()
    sources = [one.sources[0] for one in query.progress]
    lags = [{"s-0": 125, "s-1": 125}, {"s-0": 50, "s-1": 50}, {"s-0": 0, "s-1": 0}]

    options = {"url": broker.url, "superStream": "s"}
    assert lags == [spark.offsets_behind_latest(one, options) for one in sources]
    broker.streams["s-1"].publish(message(200))
    assert {"s-0": 0, "s-1": 1} == spark.offsets_behind_latest(sources[-1], options)
    pytest.importorskip("pyspark.sql.streaming.datasource", reason="PySpark 4.2")
    assert lags == [spark.offsets_behind_latest(one) for one in sources]


@given(
    st.dictionaries(st.text(min_size=1), st.integers(0, 10**12), min_size=1),
    st.integers(0, 10**12),
    st.sampled_from([dict, json.dumps, repr]),
)
def test_lag_is_read_from_each_form_of_an_offset(
    end: dict[str, int], behind: int, form: Callable[[dict[str, int]], Any]
) -> None:
    """PySpark reports offsets as JSON or as a repr, depending on the version."""
    latest = {name: offset + behind for name, offset in end.items()}
    progress = {"endOffset": form(end), "latestOffset": form(latest)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lag, "streaming_datasource", object())
        assert dict.fromkeys(end, behind) == spark.offsets_behind_latest(progress)


@pytest.mark.parametrize(
    "progress",
    [
        None,
        {},
        *(
            {"endOffset": offset, "latestOffset": '{"s": 1}'}
            for offset in ("", "None", "null", "[" * 10_000, "[1]", '{"s": "1"}', {"s": None}, 1)
        ),
        {"endOffset": '{"s": 1}', "latestOffset": "None"},
    ],
)
def test_lag_of_other_progress_is_an_error(monkeypatch: pytest.MonkeyPatch, progress: Any) -> None:
    monkeypatch.setattr(lag, "streaming_datasource", object())
    with pytest.raises(ValueError, match="progress must be an item of `sources` of a query"):
        spark.offsets_behind_latest(progress)


def test_lag_without_latest_offsets_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lag, "streaming_datasource", None)
    with pytest.raises(ValueError, match=r"PySpark before 4\.2 .*: pass the options"):
        spark.offsets_behind_latest({"endOffset": '{"s": 1}', "latestOffset": '{"s": 1}'})


class SparkCalls:
    """Calls the reader of two streams as Spark does.

    PySpark 4.0 and 4.1 do not pass the start of the next batch, but start a query from a checkpoint
    with a call of `partitions`. Both are recorded from them.
    """

    def __init__(
        self, firsts: dict[str, int], most: int, starts: str, *, passes_start: bool
    ) -> None:
        self.firsts, self.ends, self.most = dict(firsts), dict(firsts), most
        self.starts, self.passes_start = starts, passes_start
        self.log: list[dict[str, Any]] = []
        self.batches: list[list[tuple[str, int, int, bool]]] = []
        self.reader: Any = None

    def bounds(self, names: Any) -> dict[str, Bounds]:
        return {name: Bounds(self.firsts[name], self.ends[name]) for name in names}

    def start(self, *, repeat: bool) -> None:
        """Start the query, which may repeat its last batch."""
        options = {"url": "rabbitmq-stream://h", "stream": ",".join(self.ends)}
        options |= {"maxOffsetsPerTrigger": str(self.most), "failOnDataLoss": "false"}
        options |= {"startingOffsets": self.starts}
        self.reader = spark.Amqp10Stream(CaseInsensitiveDict(options)).streamReader(StructType())
        if self.log:
            if not self.passes_start:
                assert [] == self.reader.partitions(self.log[-1], self.log[-1])
            if repeat:
                self.batches[-1] = self._tasks()

    def _start_of_batch(self, number: int) -> dict[str, Any]:
        offset: dict[str, Any] = self.log[number - 1] if number else self.reader.initialOffset()
        return offset

    def _tasks(self) -> list[tuple[str, int, int, bool]]:
        """Return the stream, the start and the stop of each task, and whether it is lost."""
        start = self._start_of_batch(len(self.log) - 1)
        parts = [part.value for part in self.reader.partitions(start, self.log[-1])]
        return [
            (part.stream, part.start, part.start + part.count, True)
            if hasattr(part, "count")
            else (part.stream, part.start, part.stop, False)
            for part in parts
        ]

    def trigger(self) -> bool:
        """Plan and read the next batch as Spark does; do nothing if no message is new."""
        if self.passes_start:
            limit = self.reader.getDefaultReadLimit()
            latest = self.reader.latestOffset(self._start_of_batch(len(self.log)), limit)
        else:
            latest = self.reader.latestOffset()
        if self.log and latest == self.log[-1]:
            return False
        self.log.append(latest)
        self.batches.append(self._tasks())
        assert self.batches[-1] or len(self.log) == 1
        read = sum(stop - start for _, start, stop, lost in self.batches[-1] if not lost)
        assert read == self.most or without_start(latest) == self.ends
        return True


@pytest.mark.parametrize(
    "passes_start",
    [
        False,
        pytest.param(
            True,
            marks=pytest.mark.skipif(_workers.streaming_datasource is None, reason="PySpark 4.2"),
        ),
    ],
)
@given(
    st.fixed_dictionaries({name: st.integers(0, 500) for name in ("a", "b")}),
    st.fixed_dictionaries({name: st.integers(0, 300) for name in ("a", "b")}),
    st.integers(1, 400),
    st.sampled_from(["earliest", "latest"]),
    st.lists(
        st.one_of(
            st.sampled_from(["trigger", "restart", "repeat"]),
            st.tuples(
                st.sampled_from(["publish", "remove"]), st.sampled_from("ab"), st.integers(1, 300)
            ),
        ),
        max_size=20,
    ),
)
def test_batches_are_limited_and_have_each_offset_once(
    passes_start: bool,
    firsts: dict[str, int],
    counts: dict[str, int],
    most: int,
    starts: str,
    steps: list[Any],
) -> None:
    """Each offset is read once, or is lost if retention removed it; lost offsets do not count."""
    query = SparkCalls(firsts, most, starts, passes_start=passes_start)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StoredProbe, "bounds", lambda _, names: query.bounds(names))
        patch.setattr(stream_source, "_POLL_SECONDS", 0)
        query.start(repeat=False)
        query.reader.initialOffset()
        query.ends = {name: first + counts[name] for name, first in firsts.items()}
        query.trigger()
        for step in steps:
            if step == "trigger":
                query.trigger()
            elif step in {"restart", "repeat"}:
                query.start(repeat=step == "repeat")
            elif step[0] == "publish":
                query.ends[step[1]] += step[2]
            else:
                name = step[1]
                query.firsts[name] = min(query.firsts[name] + step[2], query.ends[name])
        # The rest, in several batches, each after a restart.
        for name, first in query.ends.items():
            query.firsts[name] = min(query.firsts[name] + first % 7, first)
            query.ends[name] += 2 * most
        query.start(repeat=True)
        while query.trigger():
            query.start(repeat=False)

    for batch in query.batches:
        assert sum(stop - start for _, start, stop, lost in batch if not lost) <= most
    for name, first in firsts.items():
        mine = [part for batch in query.batches for part in batch if part[0] == name]
        borders = [first, *(stop for *_, stop, _ in mine)]
        assert borders == [*(start for _, start, *_ in mine), query.ends[name]]
        assert all(stop <= query.firsts[name] for _, _, stop, lost in mine if lost)


def test_query_that_stops_at_available_messages_starts_before_their_end(
    broker: StreamBroker,
) -> None:
    """Messages that arrive between Spark's calls are read by the next query."""
    pytest.importorskip("pyspark.sql.streaming.datasource", reason="PySpark 4.2")
    stream = broker.streams["s-0"]
    stream.times = dict.fromkeys(range(202), 0)
    for options in ({"startingOffsets": "latest"}, {"startingTimestamp": 5_000}):
        reader = stream_reader(broker, **options)
        reader.prepareForTriggerAvailableNow()
        end = max(stream.messages) + 1
        stream.publish(message(end), at=end)
        start = reader.initialOffset()
        assert {"s-0": end} == start
        assert start == without_start(reader.latestOffset(start, reader.getDefaultReadLimit()))
        reader.stop()


def test_limited_query_goes_on_if_spark_reads_no_partition(broker: StreamBroker) -> None:
    """Before PySpark 4.2, if Spark's optimizer removed the source from the plan of the batches."""
    reader = stream_reader(broker, maxOffsetsPerTrigger=150)
    ends = [without_start(reader.latestOffset())["s-0"] for _ in range(3)]
    assert [150, 200, 200] == ends
    reader.stop()


def test_limit_of_a_stream_that_is_added_to_a_query(broker: StreamBroker) -> None:
    """Its first batch begins at its first message, which is not offset 0."""
    broker.streams["s-1"].retain(120)
    options = {"stream": "s-0,s-1", "maxOffsetsPerTrigger": 50}
    reader = stream_reader(broker, **options)
    assert [] == reader.partitions({"s-0": 200}, {"s-0": 200})

    end = reader.latestOffset()

    assert {"s-0": 200, "s-1": 170} == end
    (part,) = reader.partitions({"s-0": 200}, end)
    assert (120, 170) == (part.value.start, part.value.stop)
    reader.stop()


@given(
    st.dictionaries(st.sampled_from("abcd"), st.integers(0, 50), max_size=4),
    st.dictionaries(st.sampled_from("abcd"), st.integers(0, 90), min_size=1, max_size=4),
    st.integers(1, 200),
)
def test_batch_uses_up_its_limit_exactly(
    start: dict[str, int], growth: dict[str, int], most: int
) -> None:
    end = {name: start.get(name, 0) + by for name, by in growth.items()}

    made = limit_batch(start, end, most)

    taken = {name: made[name] - start.get(name, 0) for name in made}
    assert min(most, sum(growth.values())) == sum(taken.values())
    assert all(0 <= taken[name] <= growth[name] for name in end)
    # Those that have more than their share left do without no more than one more than others.
    short = [taken[name] for name in end if taken[name] < growth[name]]
    assert all(
        by >= max(short) - 1 or by == growth[name] for name, by in taken.items() for _ in short
    )
