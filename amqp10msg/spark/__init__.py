"""Decode, validate and translate messages in PySpark, with Arrow batches.

    from amqp10msg import spark

    session = spark.session()
    raw = session.read.parquet("archive/")          # a column `wire` of encoded messages
    typed = spark.decode(raw, columns=["message_id", "subject", "application_properties"])
    typed.where("error is null").write.parquet("typed/")

Every function maps a DataFrame to a DataFrame with ``mapInArrow``, so it works in local mode, on a
cluster and with Spark Connect. An invalid message never raises: it becomes a row with the reason.
The executors also need this library. Install the extra ``amqp10msg[spark]``, or
``amqp10msg[spark-jre]`` if Java is not installed.
"""

from __future__ import annotations

try:
    import pyarrow as _pyarrow  # noqa: F401  (only to name the missing package)
    import pyspark as _pyspark  # noqa: F401  (likewise)
except ModuleNotFoundError as _error:
    raise ModuleNotFoundError(
        f"amqp10msg.spark needs {_error.name}: pip install 'amqp10msg[spark]'", name=_error.name
    ) from _error

from amqp10msg.jobs import ERROR_COLUMN_NAMES, MESSAGE_SCHEMA, Job, Run, Stats, page, read_stats
from amqp10msg.spark.artifacts import add_artifacts, archives
from amqp10msg.spark.broker_sink import Amqp10Broker
from amqp10msg.spark.delta import to_delta
from amqp10msg.spark.functions import (
    decode,
    decode_values,
    encode,
    from_capture,
    metrics,
    translate,
    validate,
)
from amqp10msg.spark.lag import offsets_behind_latest
from amqp10msg.spark.queue_source import Amqp10Queue
from amqp10msg.spark.running import run
from amqp10msg.spark.session import java_home, register, session
from amqp10msg.spark.sink import SparkError, write
from amqp10msg.spark.source import Amqp10
from amqp10msg.spark.stream_source import Amqp10Stream

__all__ = [
    "ERROR_COLUMN_NAMES",
    "MESSAGE_SCHEMA",
    "Amqp10",
    "Amqp10Broker",
    "Amqp10Queue",
    "Amqp10Stream",
    "Job",
    "Run",
    "SparkError",
    "Stats",
    "add_artifacts",
    "archives",
    "decode",
    "decode_values",
    "encode",
    "from_capture",
    "java_home",
    "metrics",
    "offsets_behind_latest",
    "page",
    "read_stats",
    "register",
    "run",
    "session",
    "to_delta",
    "translate",
    "validate",
    "write",
]
