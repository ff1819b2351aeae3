"""``python -m tests.spark.spark_jvm_session JAR FOLDER MODE``: a session that has the jar.

The mode is ``short``, ``whole`` for every projection of the fuzzer, or ``connect`` for a session of
Spark Connect. Prints what it found as JSON.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from amqp10msg import Described, Message, Properties, ULong, spark
from amqp10msg.spark._jvm import EXTENSION
from fuzz.columns import seeds
from fuzz.spark_jvm import PROJECTIONS, compare, compare_whole, others

USUAL = Message(b"hello", properties=Properties(message_id="m-1"), application_properties={"k": 1})
ODD = Message(Described(ULong(1), "x"))
WIRES = [USUAL.encode(), ODD.encode(), USUAL.encode()[:-1], None, b""]
#: The one projection of the short form, by its number: all columns, map sections as VARIANT.
SHORT = 1
COLUMNS = ["message_id", "application_properties.k bigint", "body_json", "wire", "error"]


def same_rows(one: Any, other: Any) -> bool:
    return sorted(map(repr, one.collect())) == sorted(map(repr, other.collect()))


def both(raw: Any, **options: Any) -> bool:
    """Whether the two engines give the same rows of the same type."""
    first, second = (spark.decode(raw, engine=engine, **options) for engine in ("jvm", "python"))
    return first.schema == second.schema and same_rows(first, second)


def is_planned(df: Any, operator: str = "UsualRows") -> bool:
    return operator in df._jdf.queryExecution().executedPlan().toString()


def odd_rows(df: Any, name: str = "UsualRows") -> int:
    """How many rows went to Python, as the page of a query shows it."""
    operator = df._jdf.queryExecution().executedPlan()
    while name not in operator.nodeName():
        operator = operator.children().head()
    operator.execute().count()
    return int(operator.metrics().apply("odd").value())


def streamed(session: Any, folder: Path) -> list[Any]:
    """Decode a stream of files in the JVM."""
    (folder / "in").mkdir()
    pq.write_table(pa.table({"wire": pa.array(WIRES, pa.binary())}), folder / "in" / "0.parquet")
    rows = session.readStream.schema("wire binary").parquet(str(folder / "in"))
    query = (
        spark.decode(rows, columns=["message_id", "error"], engine="jvm")
        .writeStream.format("parquet")
        .option("checkpointLocation", str(folder / "state"))
        .trigger(availableNow=True)
        .start(str(folder / "out"))
    )
    query.awaitTermination()
    found = session.read.parquet(str(folder / "out")).collect()
    return sorted([row.message_id or "", row.error.code if row.error else ""] for row in found)


def projection(session: Any, number: int, messages: list[bytes | None]) -> list[Any]:
    """Compare the engines on messages and on mutated ones; `python -m fuzz.spark_jvm` does more."""
    one = compare_whole(session, PROJECTIONS[number], messages)
    other = compare(session, PROJECTIONS[number], 300, f"test-{number}")
    return [
        *(one.inputs == len(messages), one.differ),
        *(other.inputs, other.differ, other.left < other.inputs),
    ]


def planned(session: Any, raw: Any) -> dict[str, Any]:
    """Try what Spark plans, and what goes to Python."""
    plain = spark.decode(raw, columns=COLUMNS, keep=["n"])
    # More odd rows in a partition than Python gets at once, and usual ones among them.
    many = session.range(50_000, numPartitions=1).join(raw.where("n < 3").select("wire"))
    counts = spark.decode(many, columns=["message_id"], engine="jvm").groupBy("error.code")
    return {
        "planned": is_planned(plain),
        "python planned": is_planned(spark.decode(raw, columns=COLUMNS, engine="python")),
        "validated": is_planned(spark.decode(raw, validate="oasis", keep=["n"])),
        "odd": odd_rows(plain),
        "many": sorted([row.code or "", row["count"]] for row in counts.count().collect()),
    }


def in_sql(session: Any, raw: Any) -> dict[str, Any]:
    """Try functions of SQL, which give structs."""
    raw.createOrReplaceTempView("messages")
    for engine in ("jvm", "python"):
        spark.register(session, f"all_{engine}", columns="all", engine=engine)
        spark.register(session, f"few_{engine}", columns=COLUMNS, engine=engine)
    queries = {
        "all": "select n, m.* from (select n, all_{0}(wire) m from messages)",
        "where": "select count(*) from messages where few_{0}(wire).error is null",
        "literal": "select few_{0}(x'') m",
        "expression": "select n, few_{0}(if(n = 1, null, wire)).message_id i from messages",
        "two": "select all_{0}(wire).subject a, few_{0}(wire) b from messages",
        "fields": "select m.* from (select all_{0}(wire) m from messages)",
        "renamed": "select m.error.code c, upper(m.message_id) i from "
        "(select few_{0}(wire) m from messages)",
        "filtered": "select m.* from (select few_{0}(wire) m from messages) where m.error is null",
        "whole": "select m, m.wire from (select few_{0}(wire) m from messages)",
    }
    made = {
        name: [session.sql(text.format(engine)) for engine in ("jvm", "python")]
        for name, text in queries.items()
    }
    return {
        "sql": {name: same_rows(*two) for name, two in made.items()},
        "sql planned": {
            name: [one for one in ("Fields", "Structs") if is_planned(two[0], f"Usual{one}")]
            for name, two in made.items()
        },
        "sql fields odd": odd_rows(session.sql(queries["fields"].format("jvm")), "UsualFields"),
        "sql odd": odd_rows(session.sql("select few_jvm(wire) m from messages"), "UsualStructs"),
    }


def behind(raw: Any, folder: Path) -> dict[str, Any]:
    """Try what may come of the rows in a query and in a stream."""
    plain = spark.decode(raw, columns=COLUMNS, keep=["n"])
    return {
        "joined": plain.join(plain.select("n"), "n").where("error is null").count(),
        "streamed": streamed(raw.sparkSession, folder),
    }


def alike(raw: Any) -> dict[str, Any]:
    """Compare the engines where columns are kept, and where there are formats."""
    return {
        "wire kept": both(raw.drop("format"), columns=["message_id"], keep=["wire", "n"]),
        "formats": both(raw, columns=COLUMNS, message_format="format"),
    }


def more_alike(raw: Any) -> dict[str, Any]:
    """Compare the engines on other plans and types."""
    long_formats = raw.selectExpr("wire", "cast(format as bigint) format")
    return {
        "kept": both(raw, columns=COLUMNS, keep=["n"]),
        "long formats": both(long_formats, columns="all", maps="map", message_format="format"),
        "shuffled": both(raw.repartition(3), columns=COLUMNS, keep=["n"]),
    }


def connected(config: dict[str, str]) -> Any:
    """Start a server of Spark Connect, and a session of it."""
    os.environ.update(PYSPARK_PYTHON=sys.executable, SPARK_LOCAL_IP="127.0.0.1")
    builder: Any = SparkSession.builder.remote("local[1]")
    for key, value in config.items():
        builder = builder.config(key, value)
    builder.getOrCreate()
    return spark.session("sc://localhost")


def main() -> None:
    jar, folder, mode = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
    config = {
        "spark.jars": jar,
        "spark.sql.extensions": EXTENSION,
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.log.level": "ERROR",
        "spark.sql.shuffle.partitions": "2",
    }
    session = connected(config) if mode == "connect" else spark.session("local[2]", config=config)
    raw = session.createDataFrame(
        pa.table(
            {
                "n": range(len(WIRES)),
                "wire": pa.array(WIRES, pa.binary()),
                "format": pa.array([0, 1, None, 3, 4], pa.int32()),
            }
        )
    )
    found = more_alike(raw) if mode == "whole" else alike(raw)
    if mode == "short":
        found |= planned(session, raw) | in_sql(session, raw)
        found["projection"] = projection(session, SHORT, [*seeds()[::40], *WIRES])
    elif mode == "whole":
        found |= behind(raw, folder)
        messages = [*seeds()[::8], *others()[::8], *WIRES]
        for number in range(len(PROJECTIONS)):
            found[f"projection {number}"] = projection(session, number, messages)
    session.stop()
    print(json.dumps(found))  # noqa: T201


if __name__ == "__main__":
    main()
