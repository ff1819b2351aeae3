"""The data source ``amqp10``: read message files, in batches or as a stream, and write jobs.

session.dataSource.register(Amqp10)
session.read.format("amqp10").load("captures/*.pcapng")
session.readStream.format("amqp10").load("landing/")
df.write.format("amqp10").mode("append").option("job", "decode").save("typed/")
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs
import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from amqp10msg import files
from amqp10msg.files.stores import states_of
from amqp10msg.jobs.inputs import (
    MESSAGES,
    RANGE_BYTES,
    READING,
    OnlySparkError,
    Reading,
    list_files,
    pack_ranges,
    positive_option,
    reject_unknown_options,
    split_files,
)
from amqp10msg.spark._ledger import START, files_after, files_between, make_offset
from amqp10msg.spark._workers import (
    SupportsAvailableNow,
    freeze_imports,
    hide_worker_traceback,
    streaming_datasource,
)
from amqp10msg.spark.sink import CAN_SINK_STREAMS, JobWriter, StreamJobWriter, absolute_path

_MAX_FILES = "maxFilesPerTrigger"
# Small files are grouped into one task up to this total size, in bytes.
_TASK_BYTES = 4 << 20


class Amqp10(DataSource):
    """Reads files of messages, in the formats of `amqp10msg.files`; writing runs a job on the rows.

    Options for reading:
        path: a file, a folder (read recursively) or a pattern, in a local or object store path.
        form: one of `amqp10msg.files.FORMS`; by default, the format of each file is recognised.
        rangeBytes: the size of the range that one task reads; default 128 MiB.
        maxSize: the maximum size of a message, in bytes.
        expansion: the limit on decompressed bytes per byte of a file, as in `amqp10msg.Limits`.
        zeroWidth: the limit on empty records in a file, as in `amqp10msg.Limits`.
        maxFilesPerTrigger: the number of files per batch of a stream; unlimited by default.
        protocol: select messages of ``1.0`` or ``0-9-1``.
        address: select messages of links with this address.
        since: select messages captured at this time or later: ISO 8601, UTC by default.
        until: select messages captured before this time.
        selector: select messages that match this JMS message selector; applies to 1.0 only.

    Messages without a capture time are excluded by `since` and by `until`. URLs of object stores
    begin with ``s3://``, ``gs://`` or ``abfss://``.

    Filters do not apply to rows for unreadable input. The filters are options because filter
    push-down of PySpark 4.3 gives wrong results if a DataFrame is used twice. The options for
    writing are those of ``amqp10msg.spark.sink.JobWriter``.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "amqp10"

    def schema(self) -> StructType:
        """Return the columns of `MESSAGES`."""
        return from_arrow_schema(MESSAGES)

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002  (Spark's signature)
        """Return the reader of a batch query."""
        return _Reader(_Options.from_options(self.options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802  (Spark's names)
        """Return the reader of a streaming query."""
        options = _Options.from_options(self.options)
        if streaming_datasource is None and options.max_files is not None:
            with hide_worker_traceback():
                raise ValueError(f"{_MAX_FILES} needs PySpark 4.2 or later")
        return _StreamReader(options)

    def writer(self, schema: StructType, overwrite: bool) -> JobWriter:
        """Return the writer that runs a job."""
        with hide_worker_traceback():
            return JobWriter(self.options, schema.fieldNames(), overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamJobWriter:  # noqa: N802  (Spark's names)
        """Return the writer that runs a job on each batch of a stream."""
        with hide_worker_traceback():
            if overwrite:
                raise ValueError("streaming to amqp10 can only append: use outputMode('append')")
            if not CAN_SINK_STREAMS:
                raise ValueError("streaming to amqp10 needs PySpark 4.1 or later")
            return StreamJobWriter(self.options, schema.fieldNames())


@attrs.frozen
class _Options:
    """The parsed options for reading."""

    path: str
    form: str | None
    range_bytes: int
    max_files: int | None
    reading: Reading

    @classmethod
    @hide_worker_traceback()
    def from_options(cls, options: Any) -> _Options:
        if not options.get("path"):
            raise ValueError("a path is required: load(path) with a file, a folder or a pattern")
        reject_unknown_options(options, ("path", "form", *READING, _MAX_FILES))
        form = options.get("form")
        if form not in {None, *files.FORMS}:
            raise ValueError(f"unknown form {form!r}: use one of {', '.join(files.FORMS)}")
        return cls(
            options["path"],
            form,
            positive_option(options, "rangeBytes", RANGE_BYTES, "bytes"),
            positive_option(options, _MAX_FILES, 1, "files") if _MAX_FILES in options else None,
            Reading.from_options(options),
        )

    def paths(self) -> list[str]:
        """Return the absolute paths of the files, in name order."""
        try:
            return [absolute_path(path) for path in list_files(self.path)]
        except OnlySparkError:
            raise ValueError(
                f"{self.path}: the format amqp10 cannot read this file system: copy the files to a "
                "folder that all executors share, or to s3://, gs:// or abfss://"
            ) from None

    def split_paths(self, paths: list[str]) -> list[InputPartition]:
        """Divide files into one partition per task."""
        ranges = split_files(states_of(paths), self.form, self.range_bytes)
        # Small files share a task, but at most `_TASK_BYTES`, so that there are enough tasks.
        return [
            InputPartition(part) for part in pack_ranges(ranges, min(self.range_bytes, _TASK_BYTES))
        ]


class _FileReader:
    """Base class of both readers: reads the messages of a partition."""

    def __init__(self, options: _Options) -> None:
        self._options = options

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield from self._options.reading.batches(partition.value)
        freeze_imports()


class _Reader(_FileReader, DataSourceReader):
    @hide_worker_traceback()
    def partitions(self) -> list[InputPartition]:
        paths = self._options.paths()
        if not paths:
            raise ValueError(f"{self._options.path}: no such file, or the folder is empty")
        return self._options.split_paths(paths)


class _StreamReader(_FileReader, DataSourceStreamReader, SupportsAvailableNow):  # type: ignore[misc]  # the base is Any if PySpark has no types
    """Reads files in name order; `amqp10msg.spark._ledger` describes the offsets."""

    _available_now_end: str | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802  (Spark's names)
        return dict(START)

    def getDefaultReadLimit(self) -> Any:  # noqa: N802  (Spark's names)
        limit = self._options.max_files
        return (
            streaming_datasource.ReadAllAvailable()
            if limit is None
            else streaming_datasource.ReadMaxFiles(limit)
        )

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802  (Spark's names)
        paths = self._options.paths()
        self._available_now_end = paths[-1] if paths else ""

    @hide_worker_traceback()
    def latestOffset(  # noqa: N802  (Spark's names)
        self, start: dict[str, Any] | None = None, limit: Any = None
    ) -> dict[str, Any]:
        paths = self._options.paths()
        if start is None:  # before PySpark 4.2
            return make_offset(paths, paths[-1]) if paths else self.initialOffset()
        new = files_after(paths, start, self._options.path)
        if self._available_now_end is not None:
            new = [path for path in new if path <= self._available_now_end]
        if isinstance(limit, streaming_datasource.ReadMaxFiles):
            new = new[: limit.max_files]
        return make_offset(paths, new[-1]) if new else start

    @hide_worker_traceback()
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        return self._options.split_paths(
            files_between(self._options.paths(), start, end, self._options.path)
        )
