"""``python -m tests.spark.connect_client FOLDER``: functions, sources and sinks, by Spark Connect.

The server is Spark's own, started for this process. Prints what it found as JSON. With the Python
of workers as another argument, they are processes of their own, and the library is brought to them.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import Observation, SparkSession
from pyspark.sql.pandas import functions as pandas_functions

from amqp10msg import Message, Properties, encode_value, spark
from tests.net import odd_broker
from tests.stream_broker import Stream, StreamBroker, running

PARTS = ("messages", "quarantine")
WIRE = Message(b"hello", properties=Properties(message_id="m-1")).encode()


def kernel(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import amqp10msg  # noqa: PLC0415  (that of the worker)

    for batch in batches:
        said = f"{amqp10msg.COMPILED} {amqp10msg.__file__}"
        yield pa.RecordBatch.from_pydict({"kernel": [said] * len(batch)})


def finished(writer: Any, checkpoint: str) -> None:
    """Run a stream over what is there."""
    query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    query.awaitTermination(120)


def in_stream(session: Any, url: str) -> list[Any]:
    """Read a RabbitMQ stream as a batch."""
    rows = session.read.format("amqp10-stream").options(**of_stream(url)).load()
    return sorted([row.offset, row.message_id] for row in rows.collect())


def of_stream(url: str) -> dict[str, Any]:
    return {"url": url, "stream": "s", "readTimeout": 30, "columns": "message_id"}


def streamed(session: Any, folder: str, url: str) -> int:
    """Read it as a stream, into Delta where that is there; return how many rows came."""
    rows = session.readStream.format("amqp10-stream").options(**of_stream(url)).load()
    if find_spec("deltalake") is None:
        writer = rows.writeStream.format("parquet").option("path", f"{folder}/streamed")
        finished(writer, f"{folder}/stream")
        return int(session.read.parquet(f"{folder}/streamed").count())
    from deltalake import DeltaTable  # noqa: PLC0415  (where it is there)

    finished(
        rows.writeStream.foreachBatch(spark.to_delta(f"{folder}/delta", "app")), f"{folder}/stream"
    )
    return int(DeltaTable(f"{folder}/delta").to_pyarrow_table().num_rows)


def in_queue(session: Any, folder: str, url: str) -> int:
    """Take what is in a queue; return how many rows came."""
    given = {"url": url, "landing": f"{folder}/landing", "idle": 1}
    rows = session.readStream.format("amqp10-queue").options(**given).load()
    writer = rows.writeStream.format("parquet").option("path", f"{folder}/queued")
    finished(writer, f"{folder}/queue")
    return int(session.read.parquet(f"{folder}/queued").count())


def of_brokers(session: Any, folder: str, wires: Any, *, streams: bool) -> dict[str, Any]:
    """Try the sources and the sink that are of brokers."""
    stream = Stream()
    ids = [f"m-{number}" for number in range(3)]
    stream.publish(*(Message(b"x", properties=Properties(message_id=one)) for one in ids))
    with running(StreamBroker(s=stream)) as broker, odd_broker.running() as (url, made):
        made.queues["q"].clear()
        wires.write.format("amqp10-broker").mode("append").option("url", f"{url}/q").save()
        found = {"in stream": in_stream(session, broker.url), "sent": len(made.queues["q"])}
        if streams:
            found["streamed"] = streamed(session, folder, broker.url)
            found["in queue"] = in_queue(session, folder, f"{url}/q")
        return found


def main() -> None:
    folder, *pythons = sys.argv[1:]
    python = pythons[0] if pythons else sys.executable
    os.environ.update(PYSPARK_PYTHON=python, SPARK_LOCAL_IP="127.0.0.1")
    builder: Any = SparkSession.builder
    master = "local-cluster[1,1,1024]" if pythons else "local[1]"
    builder.remote(master).config("spark.sql.warehouse.dir", folder).getOrCreate()
    session = spark.session("sc://localhost")
    if pythons:
        spark.add_artifacts(session)
    wires = session.createDataFrame(pa.table({"wire": [WIRE, WIRE[:-1]]}))
    seen = Observation()
    decoded = spark.metrics(spark.decode(wires, columns=["message_id"]), seen).collect()
    basic = spark.translate(wires, "0-9-1")
    values = session.createDataFrame(pa.table({"v": [encode_value("x")]}))
    spark.write(wires, f"{folder}/out", spark.Job("validate"))
    with suppress(spark.SparkError):  # as the folder exists
        spark.write(wires, f"{folder}/out", spark.Job("validate"))
    Path(folder, "in.jsonl").write_text(f'{{"raw": "{WIRE.hex()}"}}\n')
    counts = [
        spark.run(
            session, f"{folder}/{source}", f"{folder}/ran", spark.Job("validate"), mode="append"
        )
        for source in ("in.jsonl", "out/quarantine/*.parquet")
    ]
    found = {
        "session": type(session).__module__,
        "kernel": session.range(1).mapInArrow(kernel, "kernel string").collect()[0].kernel,
        "zone": session.conf.get("spark.sql.session.timeZone"),
        "decode": [[row.message_id, row.error and row.error.code] for row in decoded],
        "metrics": seen.get,
        "validate": [row.valid for row in spark.validate(wires).collect()],
        "translate": [row.error_code for row in basic.collect()],
        "sql": session.sql("select amqp10_decode(x'') m").collect()[0].m.error.code
        if hasattr(pandas_functions, "arrow_udf")  # from PySpark 4.1 on
        else "body-missing",
        "encode": [
            bytes(row.wire) == WIRE
            for row in spark.encode(
                spark.decode(wires.limit(1), columns="all", maps="map")
            ).collect()
        ],
        "decode_values": [row.v.s for row in spark.decode_values(values, "v").collect()],
        "written": session.read.parquet(f"{folder}/out/messages").count(),
        "counts": [[stats.rows, stats.errors] for stats in counts],
        "ran": [session.read.parquet(f"{folder}/ran/{part}").count() for part in PARTS],
        # A source of streams runs where the server is, which has no artifacts.
        **of_brokers(session, folder, wires, streams=not pythons),
    }
    session.stop()
    print(json.dumps(found))  # noqa: T201


if __name__ == "__main__":
    main()
