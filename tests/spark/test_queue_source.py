"""Queues as streams: on disk before they are accepted, and each file in one batch."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from amqp10msg import Message, Properties

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark", reason="pyspark is not installed: make setup")

import pyarrow.parquet as pq  # noqa: E402
from pyspark.sql.datasource import CaseInsensitiveDict  # noqa: E402
from pyspark.sql.types import StructType  # noqa: E402

from amqp10msg import spark  # noqa: E402
from amqp10msg.net.ends.parquet import LANDED_SCHEMA  # noqa: E402
from amqp10msg.spark.queue_source import Consumer, _Options  # noqa: E402
from tests.basic_broker import BasicBroker, running  # noqa: E402
from tests.bridging import numbered as basic_numbered  # noqa: E402
from tests.net import odd_broker  # noqa: E402
from tests.waiting import wait_until  # noqa: E402

pytestmark = [pytest.mark.once, pytest.mark.xdist_group("spark")]

FORMAT = spark.Amqp10Queue.name()


def message(number: int) -> bytes:
    return Message(b"%d" % number, properties=Properties(message_id=f"m-{number}")).encode()


@pytest.fixture
def broker() -> Iterator[tuple[str, Any]]:
    with odd_broker.running() as (url, made):
        made.queues["q"].extend(message(n) for n in range(100))
        yield f"{url}/q", made


def reader(url: str, landing: Path, **options: Any) -> Any:
    given = {"url": url, "landing": landing, "rowsPerFile": 30, **options}
    source = spark.Amqp10Queue(CaseInsensitiveDict({k: str(v) for k, v in given.items()}))
    return source.streamReader(StructType())


def latest(made: Any, start: int = 0) -> int:
    """Ask as Spark of any version does."""
    if hasattr(made, "prepareForTriggerAvailableNow"):
        found = made.latestOffset({"next": start}, made.getDefaultReadLimit())
    else:
        found = made.latestOffset()
    return int(found["next"])


def until(made: Any, number: int) -> None:
    """Wait until so many files have landed."""
    wait_until(lambda: latest(made) >= number)


def rows(made: Any, start: int, stop: int) -> list[dict[str, Any]]:
    return [
        row
        for part in made.partitions({"next": start}, {"next": stop})
        for batch in made.read(part)
        for row in batch.to_pylist()
    ]


def numbers(found: list[dict[str, Any]]) -> list[int]:
    assert all(
        f"m-{Message.decode(row['wire']).value.decode()}" in row["identity"] for row in found
    )
    return [int(Message.decode(row["wire"]).value) for row in found]


def test_queue_is_landed_on_disk_before_reading(broker: tuple[str, Any], tmp_path: Path) -> None:
    url, made = broker
    first = reader(url, tmp_path)
    assert {"next": 0} == first.initialOffset()
    until(first, 4)
    first.stop()

    assert [30, 30, 30, 10] == [len(rows(first, n, n + 1)) for n in range(4)]
    assert list(range(100)) == numbers(rows(first, 0, 4))
    assert not made.queues["q"]
    assert LANDED_SCHEMA.names == list(rows(first, 0, 1)[0])

    # Another run goes on with the next file; a batch that is repeated reads its own.
    made.queues["q"].extend(message(n) for n in range(100, 110))
    second = reader(url, tmp_path)
    assert 4 <= latest(second)
    until(second, 5)
    second.stop()
    assert list(range(60, 110)) == numbers(rows(second, 2, 5))


def test_lost_connection_loses_no_message(broker: tuple[str, Any], tmp_path: Path) -> None:
    url, made = broker
    consumer = reader(url, tmp_path, rowsPerFile=7)
    until(consumer, 3)
    for peer in list(made.peers):
        peer._stream._loop.call_soon_threadsafe(peer.cut)
    made.queues["q"].extend(message(n) for n in range(100, 130))
    wait_until(lambda: set(range(130)) <= set(numbers(rows(consumer, 0, latest(consumer)))))
    consumer.stop()

    # The broker delivers unsettled messages again: only these may be there twice.
    found = rows(consumer, 0, latest_of(tmp_path))
    counts = Counter(numbers(found))
    assert set(range(130)) == set(counts)
    again = set(numbers([row for row in found if row["redelivered"]]))
    assert {number for number, count in counts.items() if count > 1} <= again


def latest_of(folder: Path) -> int:
    return 1 + max(int(path.stem) for path in folder.glob("*.parquet"))


def test_committed_files_may_be_deleted(broker: tuple[str, Any], tmp_path: Path) -> None:
    made = reader(broker[0], tmp_path, keep="false")
    until(made, 4)
    made.stop()

    made.commit({"next": 2})
    made.commit({"next": 4})

    assert ["000000000003.parquet"] == [path.name for path in tmp_path.glob("*.parquet")]
    assert {"next": 3} == made.initialOffset()
    with pytest.raises(
        FileNotFoundError, match=r"000000000001.parquet: the file was removed before"
    ):
        made.partitions({"next": 1}, {"next": 4})


def test_landing_file_of_earlier_version_has_all_columns(
    broker: tuple[str, Any], tmp_path: Path
) -> None:
    """It was written without the column message_format, and read only after an update."""
    first = reader(broker[0], tmp_path)
    until(first, 4)
    first.stop()
    for path in sorted(tmp_path.glob("*.parquet")):
        pq.write_table(pq.read_table(path).drop_columns(["message_format"]), path)

    found = rows(first, 0, 4)
    assert list(range(100)) == numbers(found)
    assert LANDED_SCHEMA.names == list(found[0])
    assert {None} == {row["message_format"] for row in found}


def test_landing_folder_belongs_to_one_query(broker: tuple[str, Any], tmp_path: Path) -> None:
    first = reader(broker[0], tmp_path)
    latest(first)
    with pytest.raises(BlockingIOError, match="another process writes to this folder"):
        latest(reader(broker[0], tmp_path))
    first.stop()


def test_unusable_queue_is_an_error(broker: tuple[str, Any], tmp_path: Path) -> None:
    made = reader(broker[0].replace("secret", "wrong-one"), tmp_path)
    with pytest.raises(ConnectionError, match="unauthorized") as caught:
        until(made, 1)
    assert "wrong-one" not in str(caught.value)
    made.stop()


@pytest.mark.parametrize(
    "wrong, said",
    [
        ({"url": ""}, "the option url is required"),
        ({"landing": ""}, "the option landing is required"),
        ({"landing": "s3://b/x"}, "landing must be a local or mounted folder"),
        ({"url": "file:x"}, "url must name a queue"),
        ({"keep": "no"}, "keep must be true or false"),
        ({"colour": "x"}, "colour"),
    ],
)
def test_invalid_arguments_are_errors(wrong: dict[str, str], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        reader(**{"url": "amqp://h/q", "landing": "x", **wrong}).initialOffset()  # type: ignore[arg-type]


def test_spark_output_has_each_message_once(
    spark_session: Any, broker: tuple[str, Any], tmp_path: Path
) -> None:
    pytest.importorskip("pyspark.sql.streaming.datasource", reason="PySpark 4.2")
    url, made = broker
    landing, state, out = (str(tmp_path / name) for name in ("landing", "state", "out"))

    def run() -> list[int]:
        given = {"url": url, "landing": landing, "rowsPerFile": 30, "maxFilesPerTrigger": 3}
        query = (
            spark_session.readStream.format(FORMAT)
            .options(**given, idle=1)
            .load()
            .writeStream.format("parquet")
            .option("checkpointLocation", state)
            .trigger(availableNow=True)
            .start(out)
        )
        assert query.awaitTermination(300)
        assert query.exception() is None
        return [one["numInputRows"] for one in query.recentProgress if one["numInputRows"]]

    assert [90, 10] == run()
    made.queues["q"].extend(message(n) for n in range(100, 105))
    commits = tmp_path / "state" / "commits"
    (commits / "1").unlink()
    (commits / ".1.crc").unlink()
    run()

    found = [row.asDict() for row in spark_session.read.parquet(out).collect()]
    assert list(range(105)) == sorted(numbers(found))
    assert "secret" not in "".join(
        path.read_text()
        for path in Path(state).rglob("*")
        if path.suffix != ".crc" and path.is_file()
    )


def test_idle_queue_is_not_assumed_empty(tmp_path: Path) -> None:
    pytest.importorskip("pamqp")
    with running(BasicBroker("q")) as broker:
        broker.queues["q"].extend(basic_numbered(10))
        broker.silent = True
        given = {"url": broker.url("queue=q"), "landing": str(tmp_path)}
        consumer = Consumer(attrs.evolve(_Options.from_options(given), idle=0.1))

        def speak() -> None:
            broker.silent = False

        later = threading.Timer(1.0, speak)
        later.start()
        consumer.drain()
        consumer.stop()
        later.join()

        assert not broker.queues["q"]
    assert [b"%d" % n for n in range(10)] == pq.read_table(tmp_path)["payload"].to_pylist()


def test_unknown_queue_depth_is_a_warning(broker: tuple[str, Any], tmp_path: Path) -> None:
    url, _ = broker
    given = {"url": url, "landing": str(tmp_path)}
    consumer = Consumer(attrs.evolve(_Options.from_options(given), idle=0.2))

    with pytest.warns(UserWarning, match="its depth is unknown"):
        consumer.drain()
    consumer.stop()

    assert 100 == pq.read_table(tmp_path).num_rows
