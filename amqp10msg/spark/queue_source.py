"""The data source ``amqp10-queue``: a queue as a stream of Spark, by way of files.

session.readStream.format("amqp10-queue").option("url", "amqp://…?queue=orders")
    .option("landing", "/shared/orders").load()

A queue gives a message once and cannot be asked for it again. So messages are on disk, in the
landing of a spooler, before they are accepted; Spark's offset is the number of a file there.
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

from amqp10msg.jobs.inputs import flag_of, number_of, refuse_unknown
from amqp10msg.net.bridge.counting import declared
from amqp10msg.net.bridge.terms import LinkError
from amqp10msg.net.bridge.urls import Endpoint, parse_urls
from amqp10msg.net.landing import LANDED, Landing, file_name, next_of, numbers_in
from amqp10msg.net.spool import Batches, spool_from
from amqp10msg.spark._frames import for_spark
from amqp10msg.spark._workers import AvailableNow, limits, plainly, settle

_MAX_FILES = "maxFilesPerTrigger"
_OPTIONS = ("url", "landing", "rowsPerFile", "secondsPerFile", "idle", "keep", _MAX_FILES)
# Bytes of files that one task reads.
_TOGETHER = 64 << 20
_ROWS = 8_192
# Seconds between two looks: Spark looks a hundred times in one.
_BETWEEN = 0.1
# Seconds until a queue is connected to again, at first and at most; and seconds that it may not be
# reached for until that is an error.
_PAUSE, _MOST_PAUSE = 0.5, 10.0
_PATIENCE = 300.0

#: The number of the next file.
Offset = dict[str, int]


@attrs.frozen
class _Options:
    endpoint: Endpoint
    landing: Path
    batches: Batches
    idle: float
    keeps: bool
    max_files: int | None

    @classmethod
    @plainly()
    def of(cls, options: Mapping[str, str]) -> _Options:
        refuse_unknown(options, _OPTIONS)
        for name, such in (("url", "amqp://host/?queue=orders"), ("landing", "/shared/orders")):
            if not options.get(name):
                raise ValueError(f"no {name} is given: option({name!r}, {such!r})")
        endpoint = parse_urls(options["url"].split())
        if endpoint.file is not None or endpoint.keeps:
            raise ValueError("url is that of a queue: amqp10-stream and amqp10 read what is kept")
        landing = options["landing"].removeprefix("file://")
        if "://" in landing:
            raise ValueError("landing is a folder that driver and executors share")
        return cls(
            endpoint,
            # The tasks have another current folder.
            Path(landing).absolute(),
            Batches(
                rows=number_of(options, "rowsPerFile", 10_000, "messages"),
                seconds=float(number_of(options, "secondsPerFile", 1, "seconds")),
            ),
            float(number_of(options, "idle", 2, "seconds")),
            flag_of(options, "keep", default=True),
            number_of(options, _MAX_FILES, 1, "files") if _MAX_FILES in options else None,
        )

    def path(self, number: int) -> Path:
        return self.landing / file_name(number)


class Amqp10Queue(DataSource):
    """A queue, or an address of 1.0, that is consumed into files and read from these.

    The driver consumes, the tasks read the files. The columns are those of
    `amqp10msg.net.landing.LANDED`. A message is accepted once its file is on disk: it is in a file
    at least once, twice where something was killed between the two, with the same ``identity``.
    Each file is in one batch, also where a batch is repeated.

    Options:
        url: of the queue, as a bridge has it: ``amqp://host/?queue=orders``, an address of 1.0 as
            the path, or ``amqp091://host/vhost?queue=orders``, which takes the extra ``bridge``.
            Several, with spaces between, are nodes of a cluster. User and password may be
            ``${NAME}``, a variable of the environment, or ``${file:PATH}``, both of the driver.
        landing: a folder that driver and executors share; of this query alone.
        rowsPerFile: messages of a file; 10,000 where it is not given.
        secondsPerFile: seconds until a file is finished that has fewer: 1.
        idle: with ``trigger(availableNow=True)``, seconds without a message after which the queue
            is asked whether it is empty: 2. One that cannot say it counts as empty then, with a
            warning. That needs PySpark 4.2. While more comes, the query goes on.
        keep: whether files stay that Spark has finished with: ``true``. With ``false``, the last
            one stays alone.
        maxFilesPerTrigger: files of one batch, from PySpark 4.2 on.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name for ``format``."""
        return "amqp10-queue"

    def schema(self) -> StructType:
        """Return the columns of `LANDED`."""
        return for_spark(LANDED)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802  (Spark's names)
        """Return the reader of what comes."""
        options = _Options.of(self.options)
        if limits is None and options.max_files is not None:
            with plainly():
                raise ValueError(f"{_MAX_FILES} needs PySpark 4.2 or later")
        return _Reader(options)


class Consumer:
    """Consumes a queue into a landing, in a thread of its own.

    Args:
        options: of the source.

    Raises:
        BlockingIOError: another query writes to the landing.
    """

    def __init__(self, options: _Options) -> None:
        self._options = options
        self._landing = Landing(options.landing)
        self._stopping = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._consume, daemon=True)

    @property
    def next(self) -> int:
        """The number of the next file."""
        if self._error is not None:
            raise self._error
        return self._landing.next

    def start(self) -> None:
        """Consume from now on."""
        if self._thread.ident is None:
            self._thread.start()

    def drain(self) -> None:
        """Consume until the queue says that it has no more, or where it cannot say so, until idle.

        Raises:
            LinkError: it has more, and they do not come.
            OSError: the queue cannot be consumed, or a file cannot be written.
        """
        options = self._options
        batches = attrs.evolve(options.batches, idle=options.idle)
        since, before = time.monotonic(), self._landing.next
        while True:
            self._persist(lambda: spool_from(options.endpoint, self._landing, batches))
            depth = declared(options.endpoint)
            if depth.ready is None:
                warnings.warn(
                    f"{options.endpoint}: nothing came for {options.idle:g} s; "
                    f"whether the queue is empty is not known: {depth.why}",
                    stacklevel=2,
                )
            if not depth.ready:
                return
            if self._landing.next > before:
                since, before = time.monotonic(), self._landing.next
            if time.monotonic() - since > _PATIENCE:
                text = f"{options.endpoint}: {depth.ready} messages are there, and none came for "
                raise LinkError(f"{text}{_PATIENCE:g} s", permanent=True)

    def _consume(self) -> None:
        options = self._options
        try:
            while not self._stopping.is_set():
                self._persist(
                    lambda: spool_from(
                        options.endpoint, self._landing, options.batches, stopping=self._stopping
                    )
                )
        except BaseException as error:  # noqa: BLE001  (raised where Spark asks)
            self._error = error

    def _persist(self, spool: Callable[[], int]) -> None:
        """Spool, with a new connection where one was cut."""
        pause, since = _PAUSE, time.monotonic()
        while True:
            before = self._landing.next
            try:
                spool()
                return
            except LinkError as error:
                if self._landing.next > before:
                    pause, since = _PAUSE, time.monotonic()
                if error.permanent or time.monotonic() - since > _PATIENCE:
                    text = f"{self._options.endpoint}: {error}"
                    raise LinkError(text, permanent=True) from None
            if self._stopping.wait(pause):
                return
            pause = min(2 * pause, _MOST_PAUSE)

    def stop(self) -> None:
        """Put on disk and accept what is here, and end."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join(30.0)
        self._landing.__exit__()


class _Reader(DataSourceStreamReader, AvailableNow):  # type: ignore[misc]  # Any where Spark has no types
    """Reads files of the landing; an offset has the number of the next one."""

    _end: int | None = None

    def __init__(self, options: _Options) -> None:
        self._options = options
        self._consumer: Consumer | None = None
        self._looked = 0.0

    def __getstate__(self) -> dict[str, Any]:
        # What goes to the tasks, which only read files.
        return {**self.__dict__, "_consumer": None}

    def _consuming(self) -> Consumer:
        if self._consumer is None:
            self._consumer = Consumer(self._options)
        return self._consumer

    @plainly()
    def initialOffset(self) -> Offset:  # noqa: N802  (Spark's names)
        landing = self._options.landing
        return {"next": next(iter(numbers_in(landing)), next_of(landing))}

    def _next(self) -> int:
        time.sleep(max(0.0, min(_BETWEEN, self._looked + _BETWEEN - time.monotonic())))
        consumer = self._consuming()
        consumer.start()
        self._looked = time.monotonic()
        return consumer.next

    def getDefaultReadLimit(self) -> Any:  # noqa: N802  (Spark's names)
        most = self._options.max_files
        return limits.ReadAllAvailable() if most is None else limits.ReadMaxFiles(most)

    @plainly()
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802  (Spark's names)
        consumer = self._consuming()
        consumer.drain()
        self._end = consumer.next

    @plainly()
    def latestOffset(  # noqa: N802  (Spark's names)
        self, start: Offset | None = None, limit: Any = None
    ) -> Offset:
        end = self._next() if self._end is None else self._end
        if start is None:  # before PySpark 4.2
            return {"next": end}
        if end < start["next"]:
            raise ValueError(
                f"{self._options.landing}: file {start['next'] - 1} was read, and the next "
                f"one would be {end}: the files were removed; give the query a new checkpoint"
            )
        if isinstance(limit, limits.ReadMaxFiles):
            end = min(end, start["next"] + limit.max_files)
        return {"next": end}

    @plainly()
    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        parts: list[list[int]] = []
        room = 0
        for number in range(start["next"], end["next"]):
            path = self._options.path(number)
            try:
                size = path.stat().st_size
            except FileNotFoundError:
                raise FileNotFoundError(
                    f"{path}: the file is gone, and was not read yet: put it back, or give the "
                    "query a new checkpoint"
                ) from None
            if not parts or size > room:
                parts.append([])
                room = _TOGETHER
            parts[-1].append(number)
            room -= size
        return [InputPartition(part) for part in parts]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        for number in partition.value:
            with plainly(), pq.ParquetFile(self._options.path(number)) as file:
                yield from map(_with_all_columns, file.iter_batches(_ROWS))
        settle()

    def commit(self, end: Offset) -> None:
        if self._options.keeps:
            return
        # The last one stays: the next file has the number after it.
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
    """Add columns of nulls that a file of an earlier version does not have."""
    names = set(batch.schema.names)
    columns = [
        batch.column(field.name) if field.name in names else pa.nulls(len(batch), field.type)
        for field in LANDED
    ]
    return pa.RecordBatch.from_arrays(columns, schema=LANDED)
