"""Structured Streaming: what a spooler lands, decoded batch by batch, each row once."""

from __future__ import annotations

import stat
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import attrs
import pytest

from amqp10msg import Message, Properties

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark", reason="pyspark is not installed: make setup")

import pyarrow.parquet as pq  # noqa: E402

from amqp10msg import spark  # noqa: E402
from amqp10msg.jobs import output_of  # noqa: E402
from amqp10msg.net.ends.parquet import LANDED_SCHEMA, Landing, Spooled  # noqa: E402
from amqp10msg.spark.sink import CAN_SINK_STREAMS  # noqa: E402

pytestmark = [pytest.mark.once, pytest.mark.xdist_group("spark")]

SINKS = pytest.mark.skipif(
    not CAN_SINK_STREAMS, reason="amqp10 as a sink of streams needs PySpark 4.1"
)

COLUMNS = ("message_id", "application_properties")


def land(folder: Path, *numbers: int) -> None:
    """Land a file; of ten messages one is cut off."""
    rows = []
    with Landing(folder) as landing:
        for number in numbers:
            octets = Message(
                b"body",
                properties=Properties(message_id=f"m-{number}"),
                application_properties={"n": number},
            ).encode()
            wire = octets if number % 10 else octets[:-1]
            rows.append(Spooled("q", number, b"%d" % number, False, wire))
        landing.write(rows)


@attrs.frozen
class Stream:
    """A query over a landing, which takes what is there and ends."""

    session: Any
    folder: Path

    @property
    def landing(self) -> Path:
        return self.folder / "landing"

    @property
    def out(self) -> Path:
        return self.folder / "out"

    def rows(self) -> Any:
        schema = self.session.createDataFrame(LANDED_SCHEMA.empty_table()).schema
        reader = self.session.readStream.schema(schema).option("maxFilesPerTrigger", 1)
        return reader.parquet(str(self.landing))

    def run(self, writer: Any, state: str = "state", out: Path | None = None) -> None:
        query = (
            writer.option("checkpointLocation", str(self.folder / state))
            .trigger(availableNow=True)
            .start(*([] if out is None else [str(out)]))
        )
        query.awaitTermination(120)
        assert query.exception() is None

    def to_sink(self, state: str = "state") -> None:
        job = spark.Job("decode", columns=COLUMNS)
        writer = self.rows().writeStream.format("amqp10").options(**job.as_options())
        self.run(writer, state, self.out)

    def to_delta(self, quarantine: Path | None = None) -> None:
        decoded = spark.decode(self.rows(), columns=COLUMNS, keep=["identity", "wire"], maps="map")
        write = spark.to_delta(self.out, "orders", quarantine=quarantine)
        self.run(decoded.writeStream.foreachBatch(write))

    def forget(self, batch: int) -> None:
        """Leave the checkpoint as it is where everything is killed before the end of a batch."""
        commits = self.folder / "state" / "commits"
        (commits / str(batch)).unlink()
        (commits / f".{batch}.crc").unlink()


@pytest.fixture
def stream(spark_session: Any, tmp_path: Path) -> Stream:
    return Stream(spark_session, tmp_path)


def numbers_of(rows: list[dict[str, Any]]) -> list[int]:
    return sorted(int(row["message_id"].removeprefix("m-")) for row in rows)


def sound(*numbers: int) -> list[int]:
    return [number for number in numbers if number % 10]


def read(folder: Path) -> list[dict[str, Any]]:
    found = pq.ParquetDataset(folder).read().to_pylist()
    assert isinstance(found, list)
    return found


@SINKS
def test_query_resumes_from_checkpoint(stream: Stream) -> None:
    land(stream.landing, *range(20))
    land(stream.landing, *range(20, 40))
    stream.to_sink()
    good, bad = output_of(stream.out)
    assert sound(*range(40)) == numbers_of(read(good))

    land(stream.landing, *range(40, 50))
    stream.to_sink()

    assert sound(*range(50)) == numbers_of(read(good))
    assert [b"0", b"10", b"20", b"30", b"40"] == sorted(row["delivery_tag"] for row in read(bad))
    assert {"truncated"} == {row["error_code"] for row in read(bad)}
    batches = [f"batch={number:09d}" for number in range(3)]
    assert batches == sorted(path.name for path in good.iterdir())
    stats = spark.read_stats(stream.out)
    assert (50, 5) == (stats.rows, stats.errors)
    assert {"n": {"long": 45}} == stats.types["application_properties"]
    assert ["landing", "out", "state"] == sorted(path.name for path in stream.folder.iterdir())
    assert {0o600} == {stat.S_IMODE(path.stat().st_mode) for path in bad.rglob("*.parquet")}


@SINKS
def test_repeated_batch_replaces_itself(stream: Stream) -> None:
    land(stream.landing, *range(20))
    land(stream.landing, *range(20, 30))
    stream.to_sink()
    good, bad = output_of(stream.out)
    before = {path for path in stream.out.rglob("*.parquet") if "batch=000000001" in str(path)}

    stream.forget(1)
    stream.to_sink()

    after = {path for path in stream.out.rglob("*.parquet") if "batch=000000001" in str(path)}
    assert not before & after  # it was written anew
    assert sound(*range(30)) == numbers_of(read(good))
    assert 3 == len(read(bad))
    assert 30 == spark.read_stats(stream.out).rows


@SINKS
def test_another_query_does_not_overwrite_it(stream: Stream) -> None:
    land(stream.landing, *range(20))
    stream.to_sink()

    with pytest.raises(Exception, match="the output of a job or of another query"):
        stream.to_sink("another")

    assert sound(*range(20)) == numbers_of(read(output_of(stream.out)[0]))


@SINKS
def test_file_stream_is_written_to_sink(stream: Stream) -> None:
    stream.landing.mkdir()
    for number in range(3):
        wire = Message(b"x", properties=Properties(message_id=f"m-{number}")).encode()
        (stream.landing / f"{number}.bin").write_bytes(len(wire).to_bytes(4, "big") + wire)
    (stream.landing / "9.bin").write_bytes(b"\x00\x00\x00\x09cut off")
    rows = stream.session.readStream.format("amqp10")
    if find_spec("pyspark.sql.streaming.datasource") is not None:  # from PySpark 4.2 on
        rows = rows.option("maxFilesPerTrigger", 1)

    writer = rows.load(str(stream.landing)).writeStream.format("amqp10")
    stream.run(writer.option("columns", "message_id"), out=stream.out)

    good, bad = (read(folder) for folder in output_of(stream.out))
    assert [0, 1, 2] == numbers_of(good)
    assert [(b"cut off", "damaged-file")] == [(r["wire"], r["error_code"]) for r in bad]


def test_stream_sink_rejects_complete_mode(stream: Stream) -> None:
    land(stream.landing, 1)
    counted = stream.rows().groupBy("identity").count().writeStream.format("amqp10")

    with pytest.raises(Exception, match="can only append"):
        stream.run(counted.outputMode("complete"), out=stream.out)


# Delta.


def delta(path: Path) -> Any:
    return pytest.importorskip("deltalake").DeltaTable(str(path))


def test_delta_has_each_row_once(stream: Stream) -> None:
    pytest.importorskip("deltalake", reason="deltalake is not installed: make setup")
    quarantine = stream.folder / "bad"
    land(stream.landing, *range(20))
    land(stream.landing, *range(20, 30))
    stream.to_delta(quarantine)
    versions = delta(stream.out).version(), delta(quarantine).version()

    stream.forget(1)
    stream.to_delta(quarantine)
    assert versions == (delta(stream.out).version(), delta(quarantine).version())
    land(stream.landing, *range(30, 40))
    stream.to_delta(quarantine)

    good, bad = (delta(path).to_pyarrow_table().to_pylist() for path in (stream.out, quarantine))
    assert sound(*range(40)) == numbers_of(good)
    assert 4 == len(bad)
    assert {"truncated"} == {row["error"]["code"] for row in bad}
    assert all(row["wire"] for row in bad)
    assert 2 == delta(stream.out).transaction_version("orders")


def test_crash_between_two_tables_is_recovered(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    deltalake = pytest.importorskip("deltalake", reason="deltalake is not installed: make setup")
    quarantine = stream.folder / "bad"
    land(stream.landing, *range(20))
    honest: Callable[..., None] = deltalake.DeltaTable.create_write_transaction

    def fail(table: Any, *given: Any, **options: Any) -> None:
        if table.table_uri.rstrip("/").endswith("bad"):
            raise OSError("no more room")
        honest(table, *given, **options)

    monkeypatch.setattr(deltalake.DeltaTable, "create_write_transaction", fail)
    with pytest.raises(Exception, match="no more room"):
        stream.to_delta(quarantine)
    assert 18 == len(delta(stream.out).to_pyarrow_table())
    monkeypatch.undo()

    stream.to_delta(quarantine)

    assert 18 == len(delta(stream.out).to_pyarrow_table())
    assert 2 == len(delta(quarantine).to_pyarrow_table())


def test_table_has_all_rows_without_quarantine(stream: Stream) -> None:
    pytest.importorskip("deltalake", reason="deltalake is not installed: make setup")
    land(stream.landing, *range(20))

    stream.to_delta()

    assert 20 == len(delta(stream.out).to_pyarrow_table())
