"""``python -m tests.spark.connect_client FOLDER``: every function and the sink, by Spark Connect.

The server is Spark's own, started for this process. Prints what it found as JSON. With the Python
of workers as another argument, they are processes of their own, and the library is brought to them.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import Observation, SparkSession

from amqp10msg import Message, Properties, encode_value, spark

PARTS = ("messages", "quarantine")
WIRE = Message(b"hello", properties=Properties(message_id="m-1")).encode()


def kernel(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import amqp10msg  # noqa: PLC0415  (that of the worker)

    for batch in batches:
        said = f"{amqp10msg.COMPILED} {amqp10msg.__file__}"
        yield pa.RecordBatch.from_pydict({"kernel": [said] * len(batch)})


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
    Path(folder, "in.jsonl").write_text(f'{{"raw": "{WIRE.hex()}"}}\n')
    counts = [
        spark.run(session, f"{folder}/{source}", f"{folder}/ran", spark.Job("validate"))
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
        "sql": session.sql("select amqp10_decode(x'') m").collect()[0].m.error.code,
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
    }
    session.stop()
    print(json.dumps(found))  # noqa: T201


if __name__ == "__main__":
    main()
