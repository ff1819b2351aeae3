"""``python -m tests.spark.connect_client FOLDER``: every function and the sink, by Spark Connect.

The server is Spark's own, started for this process. Prints what it found as JSON.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import Observation, SparkSession

from amqp10msg import Message, Properties, encode_value, spark

PARTS = ("messages", "quarantine")
WIRE = Message(b"hello", properties=Properties(message_id="m-1")).encode()


def main() -> None:
    folder = sys.argv[1]
    os.environ.update(PYSPARK_PYTHON=sys.executable, SPARK_LOCAL_IP="127.0.0.1")
    builder: Any = SparkSession.builder
    builder.remote("local[1]").config("spark.sql.warehouse.dir", folder).getOrCreate()
    session = spark.session("sc://localhost")
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
