"""Rows sent to a broker: each has an outcome, and what is sent again has the same message-id."""

from __future__ import annotations

import stat
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from amqp10msg import Message, Properties

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark", reason="pyspark is not installed: make setup")
pytest.importorskip("pika", reason="pika is not installed: make setup")

import pyarrow.parquet as pq  # noqa: E402
from pyspark.sql.datasource import CaseInsensitiveDict  # noqa: E402
from pyspark.sql.types import BinaryType, StructType  # noqa: E402

from amqp10msg import spark  # noqa: E402
from amqp10msg.spark import broker_sink  # noqa: E402
from amqp10msg.spark.sink import CAN_SINK_STREAMS  # noqa: E402
from tests.basic_broker import BasicBroker  # noqa: E402
from tests.basic_broker import running as running_basic  # noqa: E402
from tests.net import odd_broker  # noqa: E402

pytestmark = [pytest.mark.once, pytest.mark.xdist_group("spark")]

FORMAT = spark.Amqp10Broker.name()
ROWS = StructType().add("wire", BinaryType())


def message(number: int, subject: str = "") -> bytes:
    return Message(b"%d" % number, properties=Properties(subject=subject)).encode()


@pytest.fixture
def broker() -> Iterator[tuple[str, Any]]:
    with odd_broker.running() as (url, made):
        yield f"{url}/q", made


class Task:
    """A task of Spark, without it: partition 3."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **properties: str) -> None:
        context = SimpleNamespace(partitionId=lambda: 3, getLocalProperty=properties.get)
        monkeypatch.setattr(broker_sink, "TaskContext", SimpleNamespace(get=lambda: context))

    def writer(self, url: str, **options: Any) -> Any:
        given = {"url": url, "outcomeTimeout": 5, **options}
        source = spark.Amqp10Broker(CaseInsensitiveDict({k: str(v) for k, v in given.items()}))
        return source.writer(ROWS, overwrite=False)

    def write(self, writer: Any, *batches: Sequence[bytes | None]) -> Any:
        schema = pa.schema([("wire", pa.binary())])
        made = (pa.record_batch([pa.array(one, pa.binary())], schema=schema) for one in batches)
        return writer.write(made)


def ids(broker: Any) -> list[Any]:
    return [Message.decode(octets).message_id for octets in broker.queues["q"]]


def test_message_ids_identify_rows(
    broker: tuple[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, made = broker
    task = Task(monkeypatch)
    own = Message(b"own", properties=Properties(message_id="own")).encode()
    batches = ([message(0), own], [message(2)])

    for _ in range(2):  # the second time is what a killed task would do
        done = task.write(task.writer(url, run="load-7"), *batches)
    assert (3, 0, None) == (done.accepted, done.refused, done.file)
    assert ["load-7-00003-0", "own", "load-7-00003-2"] * 2 == ids(made)

    made.queues["q"].clear()
    task.write(task.writer(url, run="load-7", messageId="always"), *batches)
    assert [f"load-7-00003-{row}" for row in range(3)] == ids(made)

    made.queues["q"].clear()
    task.write(task.writer(url, messageId="never"), *batches)
    assert [message(0), own, message(2)] == list(made.queues["q"])

    made.queues["q"].clear()
    first, second = (task.writer(url) for _ in range(2))  # of two jobs
    for writer in (first, first, second):
        task.write(writer, [message(0)])
    assert [1, 2] == sorted(Counter(ids(made)).values())


def test_stream_message_ids_have_query_and_batch(
    broker: tuple[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, made = broker
    task = Task(monkeypatch, **{"sql.streaming.queryId": "query", "streaming.sql.batchId": "12"})

    task.write(task.writer(url), [message(0)])

    assert ["query-000000012-00003-0"] == ids(made)


def test_two_writes_of_one_batch_do_not_collide(
    broker: tuple[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """In a function of foreachBatch: to two places, or as two runs to one."""
    url, made = broker
    task = Task(monkeypatch, **{"sql.streaming.queryId": "query", "streaming.sql.batchId": "12"})
    other = url.removesuffix("/q") + "/other"
    ways = [(url, {}), (other, {}), (url, {"run": "a"}), (url, {"run": "b"})]

    for _ in range(2):  # repeated, each takes its own place
        for place, given in ways:
            writer = task.writer(place, quarantine=tmp_path, messageId="always", **given)
            writer.commit([task.write(writer, [message(0), message(1, "reject")])])

    assert len(ways) == len(list(tmp_path.glob("*.parquet")))
    assert [
        "query-000000012-00003-0",
        "query-a-000000012-00003-0",
        "query-b-000000012-00003-0",
    ] == [*dict.fromkeys(ids(made))]


def test_refused_messages_are_quarantined(
    broker: tuple[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    url, made = broker
    task, folder = Task(monkeypatch), tmp_path / "refused"
    writer = task.writer(url, run="r", quarantine=folder)

    for before in range(2):
        done = task.write(writer, [message(0), message(1, "reject"), None], [message(3)])
        # Nothing new before all tasks are done.
        assert before == len(list(folder.glob("*.parquet")))
        writer.commit([done])

    (file,) = folder.iterdir()  # repeated, it takes its own place
    assert 0o600 == stat.S_IMODE(file.stat().st_mode)
    found = pq.read_table(file).to_pylist()
    names = ("row", "message_id", "reason", "condition", "description", "partition", "target")
    place = url.replace("me:secret@", "")
    said = "it says so itself"
    assert [
        (1, "r-00003-1", "rejected", "amqp:not-allowed", said, 3, place),
        (2, "r-00003-2", "no-message", None, "the column is null", 3, place),
    ] == [tuple(row[name] for name in names) for row in found]
    assert [True, False] == [row["wire"] is not None for row in found]
    assert 4 == len(made.queues["q"])

    done = task.write(writer, [message(1, "reject")])
    writer.abort([done, None])
    assert [file] == list(folder.iterdir())


def test_refused_message_without_quarantine_is_an_error(
    broker: tuple[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    task = Task(monkeypatch)
    said = (
        r"q refused 1 of 3 messages; the first is row 1 of partition 3 \(rejected: "
        r"amqp:not-allowed: it says so itself\)\. Set the option quarantine to a folder"
    )
    with pytest.raises(ValueError, match=said) as caught:
        task.write(task.writer(broker[0]), [message(0), message(1, "reject"), message(2)])
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "wrong, said",
    [
        ({"url": ""}, "the option url is required"),
        ({"url": "file:x"}, "url must name a broker"),
        ({"column": "body"}, "no column 'body' in the DataFrame: it has wire"),
        ({"messageId": "no"}, "messageId must be one of missing, always, never"),
        ({"run": "a b"}, "run must be 1 to 80 letters"),
        ({"profile": "x"}, "profile"),
        ({"colour": "x"}, "colour"),
    ],
)
def test_invalid_arguments_are_errors(
    monkeypatch: pytest.MonkeyPatch, wrong: dict[str, str], said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        Task(monkeypatch).writer(**{"url": "amqp://h/q", **wrong})


def test_batch_is_written_to_0_9_1_queue(spark_session: Any) -> None:
    with running_basic(BasicBroker("q")) as made:
        df = spark_session.createDataFrame(pa.table({"wire": [message(n) for n in range(100)]}))
        given = {"url": made.url("queue=q"), "run": "load"}
        df.write.format(FORMAT).mode("append").options(**given).save()

        assert {b"%d" % n for n in range(100)} == {one.body for one in made.queues["q"]}
        assert all(b"load-0000" in one.header for one in made.queues["q"])
        with pytest.raises(Exception, match="cannot be overwritten"):
            df.write.format(FORMAT).mode("overwrite").options(**given).save()


@pytest.mark.skipif(not CAN_SINK_STREAMS, reason="sinks of streams need PySpark 4.1")
def test_repeated_stream_batch_has_same_message_ids(
    spark_session: Any, broker: tuple[str, Any], tmp_path: Path
) -> None:
    url, made = broker
    source, state, refused = (tmp_path / name for name in ("source", "state", "refused"))
    source.mkdir()
    wires = [message(n, "reject" if n == 5 else "") for n in range(10)]
    pq.write_table(pa.table({"wire": wires}), source / "0.parquet")

    def run() -> None:
        rows = spark_session.readStream.schema(ROWS).parquet(str(source))
        query = (
            rows.writeStream.format(FORMAT)
            .options(url=url, quarantine=str(refused), checkpointLocation=str(state))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(300)
        assert query.exception() is None

    run()
    assert 9 == len(set(ids(made)))
    (state / "commits" / "0").unlink()
    (state / "commits" / ".0.crc").unlink()
    run()

    assert [2] * 9 == list(Counter(ids(made)).values())
    (file,) = refused.iterdir()
    assert [(5, 0)] == [(row["row"], row["batch"]) for row in pq.read_table(file).to_pylist()]
