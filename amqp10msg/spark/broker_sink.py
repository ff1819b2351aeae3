"""The data source ``amqp10-broker``: send the messages of a DataFrame to a broker.

df.write.format("amqp10-broker").mode("append").option("url", "amqp://…?queue=orders").save()
df.writeStream.format("amqp10-broker")…

A task is complete when every message has an outcome. If Spark repeats a task after a failure, its
messages have the same message-ids as before, so that consumers can recognise duplicates.
"""

from __future__ import annotations

import datetime
import hashlib
import re
import uuid
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import attrs
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import TaskContext
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from amqp10msg.atomic_files import sync_folder, synced
from amqp10msg.columns import binary_chunks
from amqp10msg.jobs.inputs import positive_option, reject_unknown_options
from amqp10msg.net.bridge.options import RouteOptions
from amqp10msg.net.deliver import Deliverer, Delivering, Refused, numbered, with_message_id
from amqp10msg.net.ends.terms import Outcome
from amqp10msg.net.ends.urls import Endpoint, parse_urls
from amqp10msg.spark._workers import freeze_imports, hide_worker_traceback
from amqp10msg.spark.sink import CAN_SINK_STREAMS, StreamWriter

#: Columns of the quarantine, with the refused message, its row number, and its outcome.
REFUSED_ROWS = pa.schema(
    [
        ("wire", pa.binary()),
        ("message_id", pa.string()),
        ("run", pa.string()),
        ("batch", pa.int64()),
        ("partition", pa.int32()),
        ("row", pa.int64()),
        ("reason", pa.string()),
        ("condition", pa.string()),
        ("description", pa.string()),
        ("target", pa.string()),
        ("time", pa.timestamp("us", "UTC")),
    ]
)
#: The names of all options.
_OPTIONS = (
    *("url", "column", "messageId", "run", "quarantine", "profile", "window", "attempts"),
    *("outcomeTimeout", "checkpointLocation"),
)
# Values of the option `messageId`.
_MISSING, _ALWAYS, _NEVER = _MESSAGE_ID_OPTION_VALUES = ("missing", "always", "never")
# Valid values of the option `run`.
_RUN_NAME_PATTERN = re.compile(r"[\w.-]{1,80}")
#: The folder in the quarantine for files of unfinished batches.
_UNFINISHED_FOLDER = ".unfinished"
# Spark properties with the query and the batch of a streaming task.
_QUERY_PROPERTY, _BATCH_PROPERTY = "sql.streaming.queryId", "streaming.sql.batchId"


@attrs.frozen
class _Options:
    """The parsed options of a write; `run` is random unless `has_run_name`."""

    endpoint: Endpoint
    column: str
    message_id: str
    run: str
    has_run_name: bool
    quarantine: Path | None
    delivering: Delivering

    @classmethod
    @hide_worker_traceback()
    def from_options(cls, options: Mapping[str, str], names: list[str]) -> _Options:
        reject_unknown_options(options, _OPTIONS)
        if not options.get("url"):
            raise ValueError(
                "the option url is required: option('url', 'amqp://user:password@host:5672/?queue=NAME')"
            )
        endpoint = parse_urls(options["url"].split())
        if endpoint.file is not None:
            raise ValueError("url must name a broker, not a file")
        if endpoint.protocol == "0-9-1":
            # Raise ImportError on the driver, not in each task.
            import amqp10msg.net.ends.basic as _  # noqa: F401, PLC0415  (an extra)
        column = options.get("column", "wire")
        if column not in names:
            raise ValueError(f"no column {column!r} in the DataFrame: it has {', '.join(names)}")
        message_id = options.get("messageId", _MISSING)
        if message_id not in _MESSAGE_ID_OPTION_VALUES:
            raise ValueError(
                f"messageId must be one of {', '.join(_MESSAGE_ID_OPTION_VALUES)}, "
                f"got {message_id!r}"
            )
        run_option = options.get("run", "")
        run = run_option or str(uuid.uuid4())
        if not _RUN_NAME_PATTERN.fullmatch(run):
            raise ValueError(
                f"run must be 1 to 80 letters, digits, dots and dashes, got {run[:90]!r}"
            )
        quarantine = options.get("quarantine")
        profile = options.get("profile", "lossless")
        RouteOptions(profile=profile)
        return cls(
            endpoint,
            column,
            message_id,
            run,
            bool(run_option),
            # An absolute path, because tasks have another working directory.
            None if not quarantine else Path(quarantine.removeprefix("file://")).absolute(),
            Delivering(
                profile,
                positive_option(options, "window", 500, "messages"),
                positive_option(options, "attempts", 5, "times"),
                float(positive_option(options, "outcomeTimeout", 60, "seconds")),
            ),
        )


@attrs.frozen
class _TaskId:
    """Identifies a task across attempts; `batch` is None outside of streams."""

    run: str
    batch: int | None
    partition: int

    @classmethod
    def from_context(cls, context: Any, run: str, *, has_run_name: bool) -> _TaskId:
        query, batch = (
            context.getLocalProperty(_QUERY_PROPERTY),
            context.getLocalProperty(_BATCH_PROPERTY),
        )
        partition = context.partitionId()
        if query is None or batch is None:
            return cls(run, None, partition)
        # The option `run` distinguishes several writes in one batch (foreachBatch).
        return cls(f"{query}-{run}" if has_run_name else query, int(batch), partition)

    @property
    def name(self) -> str:
        """The task as a text, for message-ids and file names."""
        batch = "" if self.batch is None else f"-{self.batch:09d}"
        return f"{self.run}{batch}-{self.partition:05d}"

    def message_id_of(self, row: int) -> str:
        """Return the message-id of a row; it is the same in every attempt."""
        return f"{self.name}-{row}"


@attrs.define
class DeliveryResult(WriterCommitMessage):
    """The result of a task.

    Attributes:
        accepted: the number of messages that the broker accepted.
        resent: how often messages were sent again.
        refused: the number of messages that the broker refused.
        file: the unpublished file with refused messages, or None.
        name: the name that the published file will have in the quarantine.
    """

    accepted: int
    resent: int
    refused: int
    file: str | None
    name: str


class RefusedError(ValueError):
    """The broker refused messages, and no quarantine is configured."""


class _BrokerSink:
    """Base class of both writers: sends in the tasks; the driver publishes the quarantine."""

    def __init__(self, options: _Options) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        options, context = self._options, cast("TaskContext", TaskContext.get())
        task_id = _TaskId.from_context(context, options.run, has_run_name=options.has_run_name)
        with hide_worker_traceback():
            delivered = send(options, task_id, iterator)
        freeze_imports()
        return delivered

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int = 0) -> None:  # noqa: N803  (Spark's names)
        """Publish the refused messages; a repeated batch replaces its earlier files."""
        folder = self._options.quarantine
        delivered = [
            item for item in messages if isinstance(item, DeliveryResult) and item.file is not None
        ]
        if folder is None:
            return
        for item in delivered:
            Path(str(item.file)).replace(folder / f"{item.name}.parquet")
        if delivered:
            sync_folder(folder)
        self.abort(messages, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int = 0) -> None:  # noqa: ARG002, N803  (Spark's names)
        """Delete the unpublished files: the next attempt sends these messages again."""
        for item in messages:
            if isinstance(item, DeliveryResult) and item.file is not None:
                Path(item.file).unlink(missing_ok=True)
        if self._options.quarantine is not None:
            with suppress(OSError):
                (self._options.quarantine / _UNFINISHED_FOLDER).rmdir()


def send(options: _Options, task_id: _TaskId, batches: Iterator[pa.RecordBatch]) -> DeliveryResult:
    """Send the messages of a partition, and write refused messages to an unpublished file.

    Raises:
        LinkError: the broker cannot be reached, or rejects the link.
        NotDeliveredError: the broker does not settle the messages.
        RefusedError: the broker refused a message, and there is no quarantine.
    """
    id_mode = options.message_id

    def prepare(row: int, message: bytes) -> bytes:
        """Return the message to send for a row, with a message-id if the options require it."""
        if id_mode == _NEVER:
            return message
        return with_message_id(message, task_id.message_id_of(row), replace=id_mode == _ALWAYS)

    columns = (
        chunk.to_pylist() for batch in batches for chunk in binary_chunks(batch[options.column])
    )
    refused: list[Refused] = []
    with Deliverer(options.endpoint, options.delivering) as deliverer:
        for messages, empty in numbered(columns, prepare):
            no_message = Outcome("no-message", "", "the column is null", final=True)
            batch_refused = [
                *deliverer.send(messages),
                *(Refused(row, b"", no_message) for row in empty),
            ]
            if batch_refused and options.quarantine is None:
                raise RefusedError(
                    _refusal_message(options, task_id, batch_refused, len(messages) + len(empty))
                )
            refused += batch_refused
    file = _write_refused(options, task_id, refused) if refused else None
    # The hash distinguishes files of several targets of one batch in a shared quarantine.
    name = f"{task_id.name}-{hashlib.sha256(str(options.endpoint).encode()).hexdigest()[:12]}"
    return DeliveryResult(deliverer.accepted, deliverer.again, len(refused), file, name)


def _refusal_message(
    options: _Options, task_id: _TaskId, refused: list[Refused], count: int
) -> str:
    """Return the error text for messages that the broker refused, without a quarantine."""
    first = min(refused, key=lambda item: item.row)
    outcome = first.outcome
    reason = ": ".join(
        part for part in (outcome.kind, outcome.condition, outcome.description) if part
    )
    return (
        f"{options.endpoint} refused {len(refused)} of {count} messages; the first is row "
        f"{first.row} of partition {task_id.partition} ({reason}). Set the option quarantine to a "
        "folder to store refused messages"
    )


def _write_refused(options: _Options, task_id: _TaskId, refused: list[Refused]) -> str:
    """Write refused messages to a new file, synced to disk; return its path."""
    now = datetime.datetime.now(datetime.UTC)
    rows = [
        {
            "wire": item.octets or None,
            "message_id": task_id.message_id_of(item.row),
            "run": task_id.run,
            "batch": task_id.batch,
            "partition": task_id.partition,
            "row": item.row,
            "reason": item.outcome.kind,
            "condition": item.outcome.condition or None,
            "description": item.outcome.description or None,
            "target": str(options.endpoint),
            "time": now,
        }
        for item in refused
    ]
    folder = cast("Path", options.quarantine) / _UNFINISHED_FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{task_id.name}-{uuid.uuid4().hex}.parquet"
    with synced(path, private=True) as file:
        pq.write_table(pa.Table.from_pylist(rows, schema=REFUSED_ROWS), file)
    return str(path)


class BrokerWriter(_BrokerSink, DataSourceArrowWriter):
    """Sends the messages of a DataFrame; see `Amqp10Broker`."""


class StreamBrokerWriter(_BrokerSink, StreamWriter):  # type: ignore[misc]  # the base is Any if PySpark has no types
    """Sends the messages of each batch of a stream; see `Amqp10Broker`."""


class Amqp10Broker(DataSource):
    """Sends rows to a queue, stream, exchange or address of a broker.

    A task sends while the broker grants credit, and ends when every message has an outcome.
    Messages that the broker releases, or has no space for, are sent again. Delivery is at least
    once: if Spark repeats a task or a batch, its messages are sent again with the same message-ids.

    Options:
        url: the target, as in the bridge: ``amqp://host/?queue=orders``, or a 1.0 address as the
            path; ``amqp091://host/vhost?queue=orders`` or ``?exchange=…&routing_key=…``, for which
            messages are translated, and the extra ``bridge`` is required. Separate the nodes of a
            cluster with spaces. User and password may be ``${NAME}``, an environment variable, or
            ``${file:PATH}``; both are read on the driver.
        column: the column of encoded 1.0 messages; default ``wire``.
        messageId: which messages get a message-id that consists of the query (or `run`), batch,
            partition and row: ``missing`` (default) for messages without a message-id, ``always``
            or ``never``.
        run: for a batch, the prefix of message-ids; random by default. With the same prefix, a
            repeated write has the same ids. For a stream, `run` is appended to the query's id: use
            a different `run` for each write in a ``foreachBatch``.
        quarantine: a folder for Parquet files with refused messages and their outcomes, on a file
            system that all executors share. Without it, a refused message is an error.
        profile: the profile of the translation to 0-9-1; default ``lossless``.
        window: the maximum number of unsettled messages per task, within the broker's credit;
            default 500.
        attempts: how often a released message is sent; default 5.
        outcomeTimeout: seconds without an outcome after which a task fails; default 60.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "amqp10-broker"

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """Return the writer of a batch query."""
        with hide_worker_traceback():
            if overwrite:
                raise ValueError("messages in a broker cannot be overwritten: use mode('append')")
        return BrokerWriter(_Options.from_options(self.options, schema.fieldNames()))

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamBrokerWriter:  # noqa: N802  (Spark's names)
        """Return the writer of a streaming query."""
        with hide_worker_traceback():
            if overwrite:
                raise ValueError(
                    "messages in a broker cannot be overwritten: use outputMode('append')"
                )
            if not CAN_SINK_STREAMS:
                raise ValueError("streaming to amqp10-broker needs PySpark 4.1 or later")
        return StreamBrokerWriter(_Options.from_options(self.options, schema.fieldNames()))
