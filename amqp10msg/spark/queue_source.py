"""The data source ``amqp10-queue``: stream a queue into Spark through files.

session.readStream.format("amqp10-queue").option("url", "amqp://…?queue=orders")
    .option("landing", "/shared/orders").load()

A queue delivers a message once, but Spark may need to read it again. So a spooler writes messages
to files in a landing folder before it accepts them. Spark's offset is the number of a file.
"""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from amqp10msg.jobs.inputs import bool_option, positive_option, reject_unknown_options
from amqp10msg.net.ends.counts import count_queue_now
from amqp10msg.net.ends.parquet import LANDED_SCHEMA, Landing, file_name, next_of, numbers_in
from amqp10msg.net.ends.terms import LinkError
from amqp10msg.net.ends.urls import Endpoint, parse_urls
from amqp10msg.net.spool import Batches, spool_from
from amqp10msg.spark._frames import spark_schema
from amqp10msg.spark._workers import (
    SupportsAvailableNow,
    freeze_imports,
    hide_worker_traceback,
    streaming_datasource,
    with_option_errors,
)

_MAX_FILES = "maxFilesPerTrigger"
#: The names of all options.
_OPTIONS = ("url", "landing", "rowsPerFile", "secondsPerFile", "idle", "keep", _MAX_FILES)
# Small files are grouped into one task up to this total size, in bytes.
_TASK_BYTES = 64 << 20
#: Maximum number of rows of an Arrow batch.
_BATCH_ROWS = 8_192
# The shortest time between polls of the landing, in seconds; Spark polls 100 times per second.
_POLL_SECONDS = 0.1
# Backoff before reconnecting to the queue, in seconds: the first and the maximum delay. The query
# fails after `_MAX_STALL_SECONDS` without progress.
_MIN_BACKOFF, _MAX_BACKOFF = 0.5, 10.0
_MAX_STALL_SECONDS = 300.0

#: An offset of the stream. Its only key is ``next``, the number of the next file to read.
Offset = dict[str, int]


@attrs.frozen
class _Options:
    """The parsed options of `Amqp10Queue`; `keeps` is its option ``keep``."""

    endpoint: Endpoint
    landing: Path
    batches: Batches
    idle: float
    keeps: bool
    max_files: int | None

    @classmethod
    @hide_worker_traceback()
    def from_options(cls, options: Mapping[str, str]) -> _Options:
        reject_unknown_options(options, _OPTIONS)
        for name, example in (("url", "amqp://host/?queue=orders"), ("landing", "/shared/orders")):
            if not options.get(name):
                raise ValueError(f"the option {name} is required: option({name!r}, {example!r})")
        endpoint = parse_urls(options["url"].split())
        if endpoint.file is not None or endpoint.keeps:
            raise ValueError(
                "url must name a queue: use amqp10-stream for streams and amqp10 for files"
            )
        landing = options["landing"].removeprefix("file://")
        if "://" in landing:
            raise ValueError(
                "landing must be a local or mounted folder that driver and executors share"
            )
        return cls(
            endpoint,
            # An absolute path, because tasks have another working directory.
            Path(landing).absolute(),
            Batches(
                rows=positive_option(options, "rowsPerFile", 10_000, "messages"),
                seconds=float(positive_option(options, "secondsPerFile", 1, "seconds")),
            ),
            float(positive_option(options, "idle", 2, "seconds")),
            bool_option(options, "keep", default=True),
            positive_option(options, _MAX_FILES, 1, "files") if _MAX_FILES in options else None,
        )

    def path(self, number: int) -> Path:
        """Return the path of a file in the landing folder."""
        return self.landing / file_name(number)


class Amqp10Queue(DataSource):
    """Streams a queue, or a 1.0 address, through files.

    The driver consumes the queue and writes files; the tasks read them. The columns are defined by
    `amqp10msg.net.ends.parquet.LANDED_SCHEMA`. A message is accepted after its file is on disk, so
    it is stored at least once. If the driver is killed between these two steps, the message is
    stored twice with the same ``identity``.
    Each file belongs to exactly one batch, even if Spark repeats the batch.

    Options:
        url: the queue, as in the bridge: ``amqp://host/?queue=orders``, a 1.0 address as the path,
            or ``amqp091://host/vhost?queue=orders``, which needs the extra ``bridge``. Separate the
            nodes of a cluster with spaces. User and password may be ``${NAME}``, an environment
            variable, or ``${file:PATH}``; both are read on the driver.
        landing: a folder that driver and executors share, used by this query only.
        rowsPerFile: the number of messages per file; default 10,000.
        secondsPerFile: seconds after which a file with fewer messages is finished; default 1.
        idle: for ``trigger(availableNow=True)``, seconds without a message after which the depth of
            the queue is checked; default 2. The query ends when the queue is empty; a queue whose
            depth cannot be read is treated as empty, with a warning. Needs PySpark 4.2.
        keep: ``true`` (default) to keep files that Spark has committed; ``false`` to delete them,
            except for the last one.
        maxFilesPerTrigger: the number of files per batch; needs PySpark 4.2.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "amqp10-queue"

    def schema(self) -> StructType:
        """Return the columns of `LANDED_SCHEMA`."""
        return spark_schema(LANDED_SCHEMA)

    @with_option_errors
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802  (Spark's names)
        """Return the reader of a streaming query."""
        options = _Options.from_options(self.options)
        if streaming_datasource is None and options.max_files is not None:
            raise ValueError(f"{_MAX_FILES} needs PySpark 4.2 or later")
        return _Reader(options)


class Consumer:
    """Consumes a queue into a landing folder, in a background thread.

    Args:
        options: the options of the source.

    Raises:
        BlockingIOError: another query is writing to the landing folder.
    """

    def __init__(self, options: _Options) -> None:
        self._options = options
        self._landing = Landing(options.landing)
        self._stopping = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._consume, daemon=True)

    @property
    def next(self) -> int:
        """The number of the next file; raises the error that stopped the background thread."""
        if self._error is not None:
            raise self._error
        return self._landing.next

    def start(self) -> None:
        """Start the background thread, if it is not running."""
        if self._thread.ident is None:
            self._thread.start()

    def drain(self) -> None:
        """Consume until the queue is empty.

        If the broker does not report the depth of the queue, the queue counts as empty after `idle`
        seconds without a message.

        Raises:
            LinkError: the queue has messages but does not deliver them.
            OSError: the queue cannot be consumed, or a file cannot be written.
        """
        options = self._options
        batches = attrs.evolve(options.batches, idle=options.idle)
        progress_at, next_file = time.monotonic(), self._landing.next
        while True:
            self._spool_with_retries(lambda: spool_from(options.endpoint, self._landing, batches))
            queue_state = count_queue_now(options.endpoint)
            if queue_state.ready is None:
                warnings.warn(
                    f"{options.endpoint}: no message for {options.idle:g} s, so the queue is "
                    f"treated as empty; its depth is unknown: {queue_state.reason}",
                    stacklevel=2,
                )
            if not queue_state.ready:
                return
            if self._landing.next > next_file:
                progress_at, next_file = time.monotonic(), self._landing.next
            if time.monotonic() - progress_at > _MAX_STALL_SECONDS:
                message = (
                    f"{options.endpoint}: the queue has {queue_state.ready} messages, but "
                    f"delivered none for {_MAX_STALL_SECONDS:g} s"
                )
                raise LinkError(message, permanent=True)

    def _consume(self) -> None:
        """Write messages of the queue to files until `stop`; runs in the background thread."""
        options = self._options
        try:
            while not self._stopping.is_set():
                self._spool_with_retries(
                    lambda: spool_from(
                        options.endpoint, self._landing, options.batches, stopping=self._stopping
                    )
                )
        except BaseException as error:  # noqa: BLE001  (raised in `next`, which Spark calls)
            self._error = error

    def _spool_with_retries(self, spool: Callable[[], int]) -> None:
        """Call `spool`, and reconnect with backoff after a lost connection."""
        backoff, progress_at = _MIN_BACKOFF, time.monotonic()
        while True:
            next_file = self._landing.next
            try:
                spool()
                return
            except LinkError as error:
                if self._landing.next > next_file:
                    backoff, progress_at = _MIN_BACKOFF, time.monotonic()
                if error.permanent or time.monotonic() - progress_at > _MAX_STALL_SECONDS:
                    message = f"{self._options.endpoint}: {error}"
                    raise LinkError(message, permanent=True) from None
            if self._stopping.wait(backoff):
                return
            backoff = min(2 * backoff, _MAX_BACKOFF)

    def stop(self) -> None:
        """Write and accept the received messages, and stop the thread."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join(30.0)
        self._landing.__exit__()


class _Reader(DataSourceStreamReader, SupportsAvailableNow):  # type: ignore[misc]  # the base is Any if PySpark has no types
    """Reads files of the landing folder; an offset is the number of the next file."""

    _available_now_end: int | None = None

    def __init__(self, options: _Options) -> None:
        self._options = options
        self._consumer: Consumer | None = None
        self._polled_at = 0.0

    def __getstate__(self) -> dict[str, Any]:
        # Exclude the consumer from pickling: tasks only read files.
        return {**self.__dict__, "_consumer": None}

    def _open_consumer(self) -> Consumer:
        """Return the driver's consumer; the first call creates it."""
        if self._consumer is None:
            self._consumer = Consumer(self._options)
        return self._consumer

    @hide_worker_traceback()
    def initialOffset(self) -> Offset:  # noqa: N802  (Spark's names)
        landing = self._options.landing
        return {"next": next(iter(numbers_in(landing)), next_of(landing))}

    def _next_file(self) -> int:
        """Return the number of the next file, at most once per `_POLL_SECONDS`."""
        time.sleep(max(0.0, min(_POLL_SECONDS, self._polled_at + _POLL_SECONDS - time.monotonic())))
        consumer = self._open_consumer()
        consumer.start()
        self._polled_at = time.monotonic()
        return consumer.next

    def getDefaultReadLimit(self) -> Any:  # noqa: N802  (Spark's names)
        max_files = self._options.max_files
        return (
            streaming_datasource.ReadAllAvailable()
            if max_files is None
            else streaming_datasource.ReadMaxFiles(max_files)
        )

    @hide_worker_traceback()
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802  (Spark's names)
        consumer = self._open_consumer()
        consumer.drain()
        self._available_now_end = consumer.next

    @hide_worker_traceback()
    def latestOffset(  # noqa: N802  (Spark's names)
        self, start: Offset | None = None, limit: Any = None
    ) -> Offset:
        end = self._next_file() if self._available_now_end is None else self._available_now_end
        if start is None:  # before PySpark 4.2
            return {"next": end}
        if end < start["next"]:
            raise ValueError(
                f"{self._options.landing}: the checkpoint is at file {start['next'] - 1}, but the "
                f"next file would be {end}: files were removed; use a new checkpoint"
            )
        if isinstance(limit, streaming_datasource.ReadMaxFiles):
            end = min(end, start["next"] + limit.max_files)
        return {"next": end}

    @hide_worker_traceback()
    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        parts: list[list[int]] = []
        room = 0
        for number in range(start["next"], end["next"]):
            path = self._options.path(number)
            try:
                size = path.stat().st_size
            except FileNotFoundError:
                raise FileNotFoundError(
                    f"{path}: the file was removed before it was read: restore it, or use a new "
                    "checkpoint"
                ) from None
            if not parts or size > room:
                parts.append([])
                room = _TASK_BYTES
            parts[-1].append(number)
            room -= size
        return [InputPartition(part) for part in parts]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        for number in partition.value:
            with hide_worker_traceback(), pq.ParquetFile(self._options.path(number)) as file:
                yield from map(_with_all_columns, file.iter_batches(_BATCH_ROWS))
        freeze_imports()

    def commit(self, end: Offset) -> None:
        if self._options.keeps:
            return
        # Keep the last file: it determines the number of the next file.
        for number in range(end["next"] - 2, -1, -1):
            try:
                self._options.path(number).unlink()
            except FileNotFoundError:
                return

    def stop(self) -> None:
        if self._consumer is not None:
            self._consumer.stop()
            self._consumer = None


def _with_all_columns(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Add null columns that files of earlier versions lack."""
    names = set(batch.schema.names)
    columns = [
        batch.column(field.name) if field.name in names else pa.nulls(len(batch), field.type)
        for field in LANDED_SCHEMA
    ]
    return pa.RecordBatch.from_arrays(columns, schema=LANDED_SCHEMA)
