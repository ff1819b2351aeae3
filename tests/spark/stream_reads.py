"""What the tests of the data source for streams have in common, whatever it reads them by."""

from __future__ import annotations

from typing import Any

from pyspark.sql.datasource import CaseInsensitiveDict

from amqp10msg import Message, Properties, spark

FORMAT = spark.Amqp10Stream.name()


def message(number: int) -> Message:
    return Message(
        b"%d" % number,
        properties=Properties(message_id=f"m-{number}"),
        message_annotations={"x-stream-filter-value": "ab"[number // 50 % 2]},
    )


def rows_of(server: Any, **options: Any) -> list[dict[str, Any]]:
    """Read a batch by the data source itself, as Spark's workers do."""
    given = {"url": server.url, "readTimeout": 60, **options}
    source = spark.Amqp10Stream(CaseInsensitiveDict({k: str(v) for k, v in given.items()}))
    batches: Any = source.reader(source.schema())
    return [
        row
        for part in batches.partitions()
        for batch in batches.read(part)
        for row in batch.to_pylist()
    ]


def every(stop: int = 200, streams: int = 2) -> list[tuple[str, int]]:
    return [(f"s-{stream}", number) for stream in range(streams) for number in range(stop)]
