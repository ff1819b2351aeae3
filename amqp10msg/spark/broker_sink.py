"""The data source ``amqp10-broker``: messages of DataFrames sent to a broker, batch and streaming.

df.write.format("amqp10-broker").mode("append").option("url", "amqp://…?queue=orders").save()
df.writeStream.format("amqp10-broker")…

A task is done when each of its messages has an outcome. What is repeated, because something was
killed, has the same message-ids as before, and so can be told.
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
from amqp10msg.jobs.inputs import number_of, refuse_unknown
from amqp10msg.net.bridge.terms import Outcome
from amqp10msg.net.bridge.urls import Endpoint, parse_urls
from amqp10msg.net.deliver import Deliverer, Delivering, Refused, numbered, with_message_id
from amqp10msg.net.options import RouteOptions
from amqp10msg.spark._workers import plainly, settle
from amqp10msg.spark.sink import CAN_SINK_STREAMS, StreamWriter

#: The columns of the quarantine: what was not taken, which row it was, and why.
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
_OPTIONS = (
    *("url", "column", "messageId", "run", "quarantine", "profile", "window", "attempts"),
    *("outcomeTimeout", "checkpointLocation"),
)
_MISSING, _ALWAYS, _NEVER = _IDS = ("missing", "always", "never")
_RUN = re.compile(r"[\w.-]{1,80}")
_UNFINISHED = ".unfinished"
# Local properties of a task of a stream.
_QUERY, _BATCH = "sql.streaming.queryId", "streaming.sql.batchId"


@attrs.frozen
class _Options:
    endpoint: Endpoint
    column: str
    message_id: str
    run: str
    is_named: bool
    quarantine: Path | None
    how: Delivering

    @classmethod
    @plainly()
    def of(cls, options: Mapping[str, str], names: list[str]) -> _Options:
        refuse_unknown(options, _OPTIONS)
        if not options.get("url"):
            raise ValueError(
                "no url is given: option('url', 'amqp://user:password@host:5672/?queue=NAME')"
            )
        endpoint = parse_urls(options["url"].split())
        if endpoint.file is not None:
            raise ValueError("url is that of a broker, not of a file")
        if endpoint.protocol == "0-9-1":
            # What is missing, is missed here and not in each task.
            import amqp10msg.net.bridge.basic as _  # noqa: F401, PLC0415  (an extra)
        column = options.get("column", "wire")
        if column not in names:
            raise ValueError(f"there is no column {column!r}: there are {', '.join(names)}")
        message_id = options.get("messageId", _MISSING)
        if message_id not in _IDS:
            raise ValueError(f"messageId is {', '.join(_IDS)}, not {message_id!r}")
        named = options.get("run", "")
        run = named or str(uuid.uuid4())
        if not _RUN.fullmatch(run):
            raise ValueError(f"run is up to 80 letters, digits, dots and dashes, not {run[:90]!r}")
        quarantine = options.get("quarantine")
        profile = options.get("profile", "lossless")
        RouteOptions(profile=profile)
        return cls(
            endpoint,
            column,
            message_id,
            run,
            bool(named),
            # The tasks have another current folder.
            None if not quarantine else Path(quarantine.removeprefix("file://")).absolute(),
            Delivering(
                profile,
                number_of(options, "window", 500, "messages"),
                number_of(options, "attempts", 5, "times"),
                float(number_of(options, "outcomeTimeout", 60, "seconds")),
            ),
        )


@attrs.frozen
class _Place:
    """Where a task stands; there is no batch but in a stream."""

    run: str
    batch: int | None
    partition: int

    @classmethod
    def of(cls, context: Any, run: str, *, is_named: bool) -> _Place:
        query, batch = context.getLocalProperty(_QUERY), context.getLocalProperty(_BATCH)
        partition = context.partitionId()
        if query is None or batch is None:
            return cls(run, None, partition)
        # Of several writes in one batch (foreachBatch), each has a name of its own.
        return cls(f"{query}-{run}" if is_named else query, int(batch), partition)

    @property
    def name(self) -> str:
        batch = "" if self.batch is None else f"-{self.batch:09d}"
        return f"{self.run}{batch}-{self.partition:05d}"

    def identity(self, row: int) -> str:
        """Return the message-id of a row, the same whenever it is sent."""
        return f"{self.name}-{row}"


@attrs.define
class Delivered(WriterCommitMessage):
    """What a task sent.

    Attributes:
        accepted: messages that the broker took.
        again: times that one was sent again.
        refused: messages in the quarantine.
        file: with these; None where there are none.
        name: what it is called in the quarantine.
    """

    accepted: int
    again: int
    refused: int
    file: str | None
    name: str


class RefusedError(ValueError):
    """Messages were refused, and there is no quarantine for them."""


class _Sink:
    """Both sinks: the sending in the tasks, and on the driver the files that count."""

    def __init__(self, options: _Options) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        options, context = self._options, cast("TaskContext", TaskContext.get())
        place = _Place.of(context, options.run, is_named=options.is_named)
        with plainly():
            done = send(options, place, iterator)
        settle()
        return done

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int = 0) -> None:  # noqa: N803  (Spark's names)
        """Have what was refused appear in the quarantine; a repeated batch takes its own place."""
        folder = self._options.quarantine
        done = [one for one in messages if isinstance(one, Delivered) and one.file is not None]
        if folder is None:
            return
        for one in done:
            Path(str(one.file)).replace(folder / f"{one.name}.parquet")
        if done:
            sync_folder(folder)
        self.abort(messages, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int = 0) -> None:  # noqa: ARG002, N803  (Spark's names)
        """Remove what was set aside: the messages are sent again."""
        for one in messages:
            if isinstance(one, Delivered) and one.file is not None:
                Path(one.file).unlink(missing_ok=True)
        if self._options.quarantine is not None:
            with suppress(OSError):
                (self._options.quarantine / _UNFINISHED).rmdir()


def send(options: _Options, place: _Place, batches: Iterator[pa.RecordBatch]) -> Delivered:
    """Send the messages of a partition, and set aside what is refused.

    Raises:
        LinkError: the broker is not to be used.
        NotDeliveredError: it gives no outcomes.
        RefusedError: it refused a message, and there is no quarantine.
    """
    ids = options.message_id

    def prepare(row: int, octets: bytes) -> bytes:
        if ids == _NEVER:
            return octets
        return with_message_id(octets, place.identity(row), replace=ids == _ALWAYS)

    columns = (
        chunk.to_pylist() for batch in batches for chunk in binary_chunks(batch[options.column])
    )
    refused: list[Refused] = []
    with Deliverer(options.endpoint, options.how) as deliverer:
        for messages, empty in numbered(columns, prepare):
            nothing = Outcome("no-message", "", "the column is null", final=True)
            found = [*deliverer.send(messages), *(Refused(row, b"", nothing) for row in empty)]
            if found and options.quarantine is None:
                raise RefusedError(_said(options, place, found, len(messages) + len(empty)))
            refused += found
    file = _put_aside(options, place, refused) if refused else None
    # Messages of one batch that go to several places are told apart in one quarantine, too.
    name = f"{place.name}-{hashlib.sha256(str(options.endpoint).encode()).hexdigest()[:12]}"
    return Delivered(deliverer.accepted, deliverer.again, len(refused), file, name)


def _said(options: _Options, place: _Place, refused: list[Refused], count: int) -> str:
    first = min(refused, key=lambda one: one.row)
    outcome = first.outcome
    why = ": ".join(part for part in (outcome.kind, outcome.condition, outcome.description) if part)
    return (
        f"{options.endpoint} did not take {len(refused)} of {count} messages, the first of them "
        f"row {first.row} of partition {place.partition} ({why}); the option quarantine names a "
        "folder for them"
    )


def _put_aside(options: _Options, place: _Place, refused: list[Refused]) -> str:
    """Write what was refused to a file that is on disk when this returns."""
    now = datetime.datetime.now(datetime.UTC)
    rows = [
        {
            "wire": one.octets or None,
            "message_id": place.identity(one.row),
            "run": place.run,
            "batch": place.batch,
            "partition": place.partition,
            "row": one.row,
            "reason": one.outcome.kind,
            "condition": one.outcome.condition or None,
            "description": one.outcome.description or None,
            "target": str(options.endpoint),
            "time": now,
        }
        for one in refused
    ]
    folder = cast("Path", options.quarantine) / _UNFINISHED
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{place.name}-{uuid.uuid4().hex}.parquet"
    with synced(path, private=True) as file:
        pq.write_table(pa.Table.from_pylist(rows, schema=REFUSED_ROWS), file)
    return str(path)


class BrokerWriter(_Sink, DataSourceArrowWriter):
    """Sends the messages of a DataFrame; see `Amqp10Broker`."""


class StreamBrokerWriter(_Sink, StreamWriter):  # type: ignore[misc]  # Any where Spark has no types
    """Sends the messages of each batch of a stream; see `Amqp10Broker`."""


class Amqp10Broker(DataSource):
    """A queue, stream, exchange or address of a broker, which rows are sent to.

    A task sends its messages by the credit of the broker, and is done when each has an outcome.
    What the broker releases, or has no room for, is sent again. A task, or a batch of a stream,
    that Spark repeats sends its messages again: at least once, each time with the same message-ids.

    Options:
        url: of the target, as a bridge has it: ``amqp://host/?queue=orders``, or an address of 1.0
            as the path; ``amqp091://host/vhost?queue=orders`` or ``?exchange=…&routing_key=…``, for
            which messages are translated, and which takes the extra ``bridge``. Several, with
            spaces between, are nodes of a cluster. User and password may be ``${NAME}``, a variable
            of the environment, or ``${file:PATH}``, both of the driver.
        column: of encoded messages of 1.0; ``wire`` where it is not given.
        messageId: which messages get the id of their row, made of the query (or `run`), batch,
            partition and row: those that have none (``missing``, usual), ``always`` or ``never``.
        run: of a batch, what these ids begin with; another one for each where it is not given. With
            the same one, what is written again has the same ids. Of a stream, it follows the query:
            give each write of one ``foreachBatch`` another one.
        quarantine: a folder for Parquet files of what is refused, with the outcome; it is an error
            where there is none. A file system that all executors share.
        profile: of the translation to 0-9-1; ``lossless``.
        window: messages without an outcome, of a task: 500, if the broker gives that much credit.
        attempts: how often a message is sent that is released: 5.
        outcomeTimeout: seconds without an outcome after which a task fails: 60.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name for ``format``."""
        return "amqp10-broker"

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """Return the sink of a batch."""
        with plainly():
            if overwrite:
                raise ValueError("a broker keeps what it has: use mode('append')")
        return BrokerWriter(_Options.of(self.options, schema.fieldNames()))

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamBrokerWriter:  # noqa: N802  (Spark's names)
        """Return the sink of a stream."""
        with plainly():
            if overwrite:
                raise ValueError("a broker keeps what it has: use outputMode('append')")
            if not CAN_SINK_STREAMS:
                raise ValueError("amqp10-broker as a sink of streams needs PySpark 4.1 or later")
        return StreamBrokerWriter(_Options.of(self.options, schema.fieldNames()))
