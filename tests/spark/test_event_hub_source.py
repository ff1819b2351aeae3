"""Event hubs as DataFrames: each event once. Against a double; the service was not asked."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from amqp10msg import Message

pytest.importorskip("pyarrow")
pytest.importorskip("pyspark", reason="pyspark is not installed: make setup")


from tests.event_hub import Namespace, Partition, enqueued
from tests.spark.stream_reads import FORMAT
from tests.spark.stream_reads import rows_of as read_rows
from tests.spark.test_stream_source import Query, reader
from tests.stream_broker import running

pytestmark = [pytest.mark.once, pytest.mark.xdist_group("spark")]

OFFSET = "message_annotations.x-opt-offset string"


def event(number: int) -> Message:
    return Message(b"%d" % number)


@pytest.fixture
def namespace() -> Iterator[Namespace]:
    made = Namespace(Partition(), Partition())
    for partition in made.streams.values():
        partition.publish(*(event(number) for number in range(100)))
    with running(made):
        yield made


def rows_of(namespace: Namespace, **options: Any) -> list[dict[str, Any]]:
    return read_rows(namespace, **{"eventHub": "orders", **options})


def numbers(rows: Any) -> list[tuple[str, int]]:
    found = sorted((row["stream"], row["offset"], row["wire"]) for row in rows)
    assert all(int(Message.decode(octets).value) == offset for _, offset, octets in found)
    return [(stream, offset) for stream, offset, _ in found]


def every(start: int = 0, stop: int = 100, partitions: int = 2) -> list[tuple[str, int]]:
    return [
        (f"orders/Partitions/{partition}", number)
        for partition in range(partitions)
        for number in range(start, stop)
    ]


def test_batch_reads_event_hub(spark_session: Any, namespace: Namespace) -> None:
    options = {"eventHub": "orders", "maxRecordsPerPartition": 60, "columns": OFFSET}
    df = reader(spark_session, namespace, **options).load()

    assert 4 == df.rdd.getNumPartitions()
    rows = df.collect()
    assert every() == numbers(rows)
    first = min(rows, key=lambda row: (row["stream"], row["offset"]))
    moment = datetime.datetime.fromtimestamp(enqueued(0) / 1000)  # noqa: DTZ006  (as Spark has it)
    names = ("stream", "offset", "arrival_time", "x-opt-offset", "lost", "error")
    wanted = ("orders/Partitions/0", 0, moment, "0", None, None)
    assert wanted == tuple(first[name] for name in names)


def test_batch_reads_interval_of_timestamps(namespace: Namespace) -> None:
    options = {"startingTimestamp": enqueued(90), "consumerGroup": "lake"}
    assert every(90) == numbers(rows_of(namespace, **options))
    assert every(90, 95) == numbers(rows_of(namespace, endingTimestamp=enqueued(94) + 1, **options))
    assert every() == numbers(rows_of(namespace, endingTimestamp=enqueued(200)))


@pytest.mark.parametrize(
    "wrong, said",
    [
        ({"stream": "s"}, "exactly one of the options stream, superStream"),
        ({"sqlFilter": "true"}, "the option sqlFilter applies only to RabbitMQ streams"),
        (
            {"eventHub": "", "stream": "s", "consumerGroup": "g"},
            "applies only to event hubs",
        ),
        ({"startingTime": "2026-07-01"}, "startingtime"),
        ({"startingOffsets": '{"orders/Partitions/7": 1}'}, "names orders/Partitions/7, which"),
        ({"eventHub": "other"}, "404 for the event hub other"),
        ({"consumerGroup": "none"}, "amqp:not-found"),
    ],
)
def test_invalid_arguments_are_errors(
    namespace: Namespace, wrong: dict[str, str], said: str
) -> None:
    with pytest.raises((ValueError, OSError), match=said):
        rows_of(namespace, **wrong)


def test_stream_delivers_each_event_once(
    spark_session: Any, namespace: Namespace, tmp_path: Path
) -> None:
    pytest.importorskip("pyspark.sql.streaming.datasource", reason="PySpark 4.2")
    query = Query(spark_session, namespace, tmp_path, eventHub="orders")
    assert [200] == query.run()
    for partition in namespace.streams.values():
        partition.publish(*(event(number) for number in range(100, 110)))
    # A batch that was not committed is read again, by its sequence numbers, and after a cut.
    query.forget_last()
    namespace.cut()
    assert [20] == query.run()[-1:]

    assert every(0, 110) == numbers(query.rows())
    assert FORMAT == "amqp10-stream"


def test_offsets_removed_by_retention_are_an_error_or_a_row(
    namespace: Namespace, caplog: pytest.LogCaptureFixture
) -> None:
    namespace.streams["0"].retain(30)
    options = {"startingOffsets": 10, "endingOffsets": 40}
    with pytest.raises(ValueError, match="partition 0 of the event hub orders: 20 messages"):
        rows_of(namespace, **options)

    rows = rows_of(namespace, failOnDataLoss="false", **options)

    (record,) = caplog.records
    assert "20 messages from offset 10 on are lost" in record.getMessage()
    assert [("orders/Partitions/0", 10, 20)] == [
        (row["stream"], row["offset"], row["lost"]) for row in rows if row["lost"]
    ]
    assert [*every(30, 40, 1), *every(10, 40)[30:]] == numbers(
        row for row in rows if not row["lost"]
    )
