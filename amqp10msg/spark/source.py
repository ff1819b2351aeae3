"""The data source ``amqp10``: files of messages as DataFrames, batch and streaming, and a sink.

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
    RANGE_OCTETS,
    READING,
    OnlySparkError,
    Reading,
    files_of,
    number_of,
    packed,
    ranges_of,
    refuse_unknown,
)
from amqp10msg.spark._ledger import START, between, offset_of, unread
from amqp10msg.spark._workers import AvailableNow, limits, plainly, settle
from amqp10msg.spark.sink import CAN_SINK_STREAMS, JobWriter, StreamJobWriter, seen

_MAX_FILES = "maxFilesPerTrigger"
# Bytes of small files that one task reads.
_TOGETHER = 4 << 20


class Amqp10(DataSource):
    """Files of messages, in the forms of `amqp10msg.files`.

    Options of reading:
        path: a file, a folder with what is below it, or a pattern; a path or a store's URL.
        form: one of `amqp10msg.files.FORMS`; found out file by file where it is not given.
        rangeBytes: how much of a file one task reads; 128 MiB where it is not given.
        maxSize: bytes that one message may take.
        expansion: bytes that a file may make of each of its own, as in `amqp10msg.Limits`.
        zeroWidth: records without a byte that a file may have, likewise.
        maxFilesPerTrigger: of a stream; all that are there where it is not given.
        protocol: only messages of ``1.0``, or of ``0-9-1``.
        address: only messages of links with this address.
        since: only messages captured then or later: ISO 8601, in UTC where there is no offset.
        until: only messages captured before, likewise; of no known time, neither lets them pass.
        selector: only messages of 1.0 that pass this JMS message selector.

    URLs of object stores begin with ``s3://``, ``gs://`` or ``abfss://``.

    What could not be read passes each of these. They are options because there is no push-down of
    filters: that of PySpark 4.3 gives wrong results where one DataFrame is used twice. For the
    options of writing see ``amqp10msg.spark.sink.JobWriter``.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name for ``format``."""
        return "amqp10"

    def schema(self) -> StructType:
        """Return the columns of `MESSAGES`."""
        return from_arrow_schema(MESSAGES)

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002  (Spark's signature)
        """Return the reader of all files that are there."""
        return _Reader(_Options.of(self.options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802  (Spark's names)
        """Return the reader of files as they come."""
        options = _Options.of(self.options)
        if limits is None and options.max_files is not None:
            with plainly():
                raise ValueError(f"{_MAX_FILES} needs PySpark 4.2 or later")
        return _StreamReader(options)

    def writer(self, schema: StructType, overwrite: bool) -> JobWriter:
        """Return the sink that does a job."""
        with plainly():
            return JobWriter(self.options, schema.fieldNames(), overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamJobWriter:  # noqa: N802  (Spark's names)
        """Return the sink of a stream that does a job batch by batch."""
        with plainly():
            if overwrite:
                raise ValueError("amqp10 as a sink of streams appends: use outputMode('append')")
            if not CAN_SINK_STREAMS:
                raise ValueError("amqp10 as a sink of streams needs PySpark 4.1 or later")
            return StreamJobWriter(self.options, schema.fieldNames())


@attrs.frozen
class _Options:
    path: str
    form: str | None
    octets: int
    max_files: int | None
    reading: Reading

    @classmethod
    @plainly()
    def of(cls, options: Any) -> _Options:
        if not options.get("path"):
            raise ValueError("no path is given: load(path) names a file, a folder or a pattern")
        refuse_unknown(options, ("path", "form", *READING, _MAX_FILES))
        form = options.get("form")
        if form not in {None, *files.FORMS}:
            raise ValueError(f"unknown form {form!r}: use one of {', '.join(files.FORMS)}")
        return cls(
            options["path"],
            form,
            number_of(options, "rangeBytes", RANGE_OCTETS, "bytes"),
            number_of(options, _MAX_FILES, 1, "files") if _MAX_FILES in options else None,
            Reading.of(options),
        )

    def paths(self) -> list[str]:
        try:
            return [seen(path) for path in files_of(self.path)]
        except OnlySparkError:
            raise ValueError(
                f"{self.path}: the format amqp10 reads files of this machine, which all executors "
                "must see, and of s3://, gs:// and abfss://: copy them there first"
            ) from None

    def parts(self, paths: list[str]) -> list[InputPartition]:
        found = ranges_of(states_of(paths), self.form, self.octets)
        # Small files together, and not so many that few tasks have them all.
        return [InputPartition(part) for part in packed(found, min(self.octets, _TOGETHER))]


class _Files:
    """Both readers: the options, and the messages of one part."""

    def __init__(self, options: _Options) -> None:
        self._options = options

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield from self._options.reading.batches(partition.value)
        settle()


class _Reader(_Files, DataSourceReader):
    @plainly()
    def partitions(self) -> list[InputPartition]:
        paths = self._options.paths()
        if not paths:
            raise ValueError(f"{self._options.path}: there is no such file, or the folder is empty")
        return self._options.parts(paths)


class _StreamReader(_Files, DataSourceStreamReader, AvailableNow):  # type: ignore[misc]  # Any where Spark has no types
    """Reads files in the order of their names; see `amqp10msg.spark._ledger` for its offsets."""

    _end: str | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802  (Spark's names)
        return dict(START)

    def getDefaultReadLimit(self) -> Any:  # noqa: N802  (Spark's names)
        limit = self._options.max_files
        return limits.ReadAllAvailable() if limit is None else limits.ReadMaxFiles(limit)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802  (Spark's names)
        paths = self._options.paths()
        self._end = paths[-1] if paths else ""

    @plainly()
    def latestOffset(  # noqa: N802  (Spark's names)
        self, start: dict[str, Any] | None = None, limit: Any = None
    ) -> dict[str, Any]:
        paths = self._options.paths()
        if start is None:  # before PySpark 4.2
            return offset_of(paths, paths[-1]) if paths else self.initialOffset()
        new = unread(paths, start, self._options.path)
        if self._end is not None:
            new = [path for path in new if path <= self._end]
        if isinstance(limit, limits.ReadMaxFiles):
            new = new[: limit.max_files]
        return offset_of(paths, new[-1]) if new else start

    @plainly()
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        return self._options.parts(between(self._options.paths(), start, end, self._options.path))
