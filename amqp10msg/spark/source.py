"""The data source ``amqp10``: read message files, in batches or as a stream, and write jobs.

session.dataSource.register(Amqp10)
session.read.format("amqp10").load("captures/*.pcapng")
session.readStream.format("amqp10").load("landing/")
df.write.format("amqp10").mode("append").option("job", "decode").save("typed/")
"""

from __future__ import annotations

import glob
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
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
from amqp10msg.files.stores import (
    State,
    StoreLocation,
    delete_file,
    folder_of,
    is_below,
    is_url,
    move_file,
    states_of,
)
from amqp10msg.jobs.inputs import (
    MESSAGE_SCHEMA,
    RANGE_BYTES,
    READING_OPTIONS,
    OnlySparkError,
    Reading,
    list_files,
    list_states,
    pack_ranges,
    positive_option,
    reject_unknown_options,
    split_files,
)
from amqp10msg.spark._frames import arrow_schema
from amqp10msg.spark._ledger import START_OFFSET, compare, files_between, make_offset
from amqp10msg.spark._workers import (
    SupportsAvailableNow,
    freeze_imports,
    hide_worker_traceback,
    streaming_datasource,
    with_option_errors,
)
from amqp10msg.spark.sink import CAN_SINK_STREAMS, JobWriter, StreamJobWriter, absolute_path

_MAX_FILES, _MAX_BYTES, _MAX_AGE = "maxFilesPerTrigger", "maxBytesPerTrigger", "maxFileAge"
_CLEAN, _ARCHIVE, _POLL_INTERVAL = "cleanSource", "sourceArchiveDir", "pollInterval"
_STREAM_OPTIONS = (_MAX_FILES, _MAX_BYTES, _MAX_AGE, _CLEAN, _ARCHIVE, _POLL_INTERVAL)
#: The values of `cleanSource`.
_CLEAN_SOURCE_VALUES = ("off", "delete", "archive")
#: Nanoseconds of the units of `maxFileAge`.
_NANOSECONDS_BY_UNIT = {"s": 10**9, "m": 60 * 10**9, "h": 3_600 * 10**9, "d": 86_400 * 10**9}
_MAX_POLL_INTERVAL = 3_600.0
# Minimum length of the pause after a listing, as a multiple of the duration of the listing.
_PAUSE_PER_LISTING = 9
_log = logging.getLogger("amqp10msg.spark")
# Small files are grouped into one task up to this total size, in bytes.
_MAX_TASK_BYTES = 4 << 20


class Amqp10(DataSource):
    """Reads files of messages, in the formats of `amqp10msg.files`; writing runs a job on the rows.

    Options for reading:
        path: a file, a folder (read recursively) or a pattern, in a local or object store path.
        form: one of `amqp10msg.files.FORMS`; by default, the format of each file is recognised.
        rangeBytes: the size of the range that one task reads; default 128 MiB.
        maxSize: the maximum size of a message, in bytes.
        expansionRatio: the limit on decompressed bytes per byte of a file; see `amqp10msg.Limits`.
        zeroWidth: the limit on empty records in a file, as in `amqp10msg.Limits`.
        maxFilesPerTrigger: the maximum number of files in a batch of a stream; default unlimited.
        maxBytesPerTrigger: the maximum total size of these files, in bytes; default unlimited.
        maxFileAge: how much older than the newest file a file may be, such as ``7d`` or ``12h``.
        cleanSource: what happens to files of complete batches: ``off``, ``delete`` or ``archive``.
        sourceArchiveDir: the folder for ``archive``, outside of the input.
        pollInterval: seconds between two listings of a folder without new files; default 1.
        protocol: select messages of ``1.0`` or ``0-9-1``.
        address: select messages of links with this address.
        since: select messages captured at this time or later: ISO 8601, UTC by default.
        until: select messages captured before this time.
        selector: select messages that match this JMS message selector; applies to 1.0 only.

    A stream reads each file once, whatever its name and its time of arrival, the oldest files
    first. A file that is larger than `maxBytesPerTrigger` is a batch of its own. A file must be
    complete when it gets its name: an error ends the stream if a file changes after it was read,
    unless `cleanSource` removes the files that were read. In a store, `sourceArchiveDir` is in the
    same bucket. A file in the archive is never replaced: a later file of the same name gets its
    modification time before the suffix, such as ``a-20260131T080000Z.jsonl``. In a store, two
    queries must not share an archive, because stores cannot reserve a name. With `maxFileAge`
    (units s, m, h and d), files that are older than the newest file that was read are ignored, with
    a warning, except by the first batches. The pause after a listing is longer for a folder that is
    slow to list: listing takes at most a tenth of the time.

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
        """Return the columns of `MESSAGE_SCHEMA`."""
        return from_arrow_schema(MESSAGE_SCHEMA)

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002  (Spark's signature)
        """Return the reader of a batch query."""
        return _Reader(_Options.from_options(self.options))

    @with_option_errors
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802  (Spark's names)
        """Return the reader of a streaming query."""
        options = _Options.from_options(self.options)
        # Before PySpark 4.2, a reader is not told which files were read.
        unsupported = (_MAX_FILES, _MAX_BYTES, _MAX_AGE, _CLEAN)
        if streaming_datasource is None:
            for name in unsupported:
                if name in self.options:
                    raise ValueError(f"{name} needs PySpark 4.2 or later")
        is_pattern_or_url = is_url(options.path) or glob.has_magic(options.path)
        if not is_pattern_or_url and not Path(options.path).exists():
            raise ValueError(f"{options.path}: no such file or folder")
        return _StreamReader(options)

    def writer(self, schema: StructType, overwrite: bool) -> JobWriter:
        """Return the writer that runs a job."""
        with hide_worker_traceback():
            return JobWriter(self.options, arrow_schema(schema), overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamJobWriter:  # noqa: N802  (Spark's names)
        """Return the writer that runs a job on each batch of a stream."""
        with hide_worker_traceback():
            if overwrite:
                raise ValueError("streaming to amqp10 can only append: use outputMode('append')")
            if not CAN_SINK_STREAMS:
                raise ValueError("streaming to amqp10 needs PySpark 4.1 or later")
            return StreamJobWriter(self.options, arrow_schema(schema))


@attrs.frozen
class _Options:
    """The parsed options for reading."""

    path: str
    form: str | None
    range_bytes: int
    max_files: int | None
    max_bytes: int | None
    max_age: int | None
    cleaning: str
    archive: str
    poll_interval: float
    reading: Reading

    @classmethod
    @hide_worker_traceback()
    def from_options(cls, options: Any) -> _Options:
        if not options.get("path"):
            raise ValueError("a path is required: load(path) with a file, a folder or a pattern")
        reject_unknown_options(options, ("path", "form", *READING_OPTIONS, *_STREAM_OPTIONS))
        form = options.get("form")
        if form not in {None, *files.FORMS}:
            raise ValueError(f"unknown form {form!r}: use one of {', '.join(files.FORMS)}")
        return cls(
            options["path"],
            form,
            positive_option(options, "rangeBytes", RANGE_BYTES, "bytes"),
            positive_option(options, _MAX_FILES, 1, "files") if _MAX_FILES in options else None,
            positive_option(options, _MAX_BYTES, 1, "bytes") if _MAX_BYTES in options else None,
            _parse_age(options[_MAX_AGE]) if _MAX_AGE in options else None,
            *_parse_cleaning(options),
            _parse_poll_interval(options.get(_POLL_INTERVAL, "1")),
            Reading.from_options(options),
        )

    def paths(self) -> list[str]:
        """Return the absolute paths of the files, in name order."""
        with self._explained_store_errors():
            return [absolute_path(path) for path in list_files(self.path)]

    def states(self) -> dict[str, State]:
        """Return the states of the files by absolute path, in name order."""
        with self._explained_store_errors():
            return {absolute_path(path): state for path, state in list_states(self.path).items()}

    @contextmanager
    def _explained_store_errors(self) -> Iterator[None]:
        """Explain which file systems can be read, if the input is in another one."""
        try:
            yield
        except OnlySparkError:
            raise ValueError(
                f"{self.path}: the format amqp10 cannot read this file system: copy the files to a "
                "folder that all executors share, or to s3://, gs:// or abfss://"
            ) from None

    def split_paths(self, paths: list[str]) -> list[InputPartition]:
        """Divide files into one partition per task."""
        ranges = split_files(states_of(paths), self.form, self.range_bytes)
        # Small files share a task, but at most `_MAX_TASK_BYTES`, so that there are enough tasks.
        return [
            InputPartition(part)
            for part in pack_ranges(ranges, min(self.range_bytes, _MAX_TASK_BYTES))
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
    """Reads new files, the oldest first; `amqp10msg.spark._ledger` describes the offsets.

    Args:
        options: the options.
        clock: returns the time in seconds.
        sleep: waits for a number of seconds.
    """

    def __init__(
        self,
        options: _Options,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        super().__init__(options)
        self._clock = clock
        self._sleep = sleep
        # The files that a query with the trigger availableNow reads; None for other triggers.
        self._available_now: set[str] | None = None
        self._next_listing_at = 0.0
        self._ignored_count = 0

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802  (Spark's names)
        return dict(START_OFFSET)

    def getDefaultReadLimit(self) -> Any:  # noqa: N802  (Spark's names)
        max_files, max_bytes = self._options.max_files, self._options.max_bytes
        if max_files is not None:
            return streaming_datasource.ReadMaxFiles(max_files)
        if max_bytes is not None:
            return streaming_datasource.ReadMaxBytes(max_bytes)
        return streaming_datasource.ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802  (Spark's names)
        self._available_now = set(self._options.paths())

    @hide_worker_traceback()
    def latestOffset(  # noqa: N802  (Spark's names)
        self, start: dict[str, Any] | None = None, limit: Any = None
    ) -> dict[str, Any]:
        options = self._options
        self._sleep(max(self._next_listing_at - self._clock(), 0.0))
        started_at = self._clock()
        states = options.states()
        listing = compare(
            states,
            start or START_OFFSET,
            options.path,
            reads_changed_files=options.cleaning != "off",
        )
        if start is None:  # before PySpark 4.2: all files
            return make_offset(states, START_OFFSET, listing, listing.new, None)
        # The files up to the offset are complete: Spark calls this method after their last batch.
        self._clean(listing.read)
        self._warn_of_ignored_files(listing.ignored)
        new: Iterable[str] = listing.new
        if self._available_now is not None:
            new = [path for path in new if path in self._available_now]
        if not isinstance(limit, streaming_datasource.ReadAllAvailable):
            new = self._limited(new, states)
        if not new:
            now = self._clock()
            pause = max(options.poll_interval, _PAUSE_PER_LISTING * (now - started_at))
            self._next_listing_at = now + pause
            return start
        return make_offset(states, start, listing, new, options.max_age)

    def _limited(self, paths: Iterable[str], states: Mapping[str, State]) -> list[str]:
        """Return the first files that `maxFilesPerTrigger` and `maxBytesPerTrigger` admit."""
        max_files, max_bytes = self._options.max_files, self._options.max_bytes
        admitted: list[str] = []
        size = 0
        for path in islice(paths, max_files):
            size += states[path].size
            if admitted and max_bytes is not None and size > max_bytes:
                break
            admitted.append(path)
        return admitted

    def _clean(self, paths: Iterable[str]) -> None:
        """Delete or archive files, as `cleanSource` requests."""
        options = self._options
        if options.cleaning == "off":
            return
        for path in paths:
            with suppress(FileNotFoundError):  # removed by someone else
                if options.cleaning == "delete":
                    delete_file(path)
                else:
                    move_file(path, folder_of(options.path), options.archive)

    def _warn_of_ignored_files(self, paths: Sequence[str]) -> None:
        """Log how many files are ignored because of `maxFileAge`, if there are more than before."""
        if len(paths) > self._ignored_count:
            _log.warning(
                "%s: %d files are ignored: they are older than the newest file that was read by "
                "more than %s, such as %s",
                *(self._options.path, len(paths), _MAX_AGE, paths[0]),
            )
        self._ignored_count = len(paths)

    @hide_worker_traceback()
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        return self._options.split_paths(
            files_between(self._options.states(), start, end, self._options.path)
        )


def _parse_age(text: str) -> int:
    """Return the nanoseconds of an age such as ``7d``.

    Raises:
        ValueError: it is not a positive number with a unit.
    """
    number, unit = text[:-1].strip(), text[-1:]
    if not (number.isascii() and number.isdigit() and int(number) and unit in _NANOSECONDS_BY_UNIT):
        raise ValueError(
            f"{_MAX_AGE} must be a positive number and a unit, such as 7d, 12h, 30m or 45s, "
            f"not {text!r}"
        )
    return int(number) * _NANOSECONDS_BY_UNIT[unit]


def _parse_cleaning(options: Mapping[str, str]) -> tuple[str, str]:
    """Return the values of `cleanSource` and `sourceArchiveDir`; the latter is absolute or empty.

    Raises:
        ValueError: a value is invalid, or they do not fit together or to the input.
    """
    cleaning, archive = options.get(_CLEAN, "off").lower(), options.get(_ARCHIVE, "")
    if cleaning not in _CLEAN_SOURCE_VALUES:
        raise ValueError(
            f"{_CLEAN} must be one of {', '.join(_CLEAN_SOURCE_VALUES)}, not {cleaning!r}"
        )
    if (cleaning == "archive") != bool(archive):
        raise ValueError(f"{_CLEAN}=archive and {_ARCHIVE} are only valid together")
    if archive:
        archive, source = absolute_path(archive), absolute_path(folder_of(options["path"]))
        if is_url(archive) != is_url(source) or (
            is_url(archive) and StoreLocation.of(archive).root != StoreLocation.of(source).root
        ):
            raise ValueError(f"{_ARCHIVE} must be in the file system or bucket of the input")
        folder = StoreLocation.of(source) if is_url(source) else Path(source)
        if is_below(f"{archive.rstrip('/')}/file", folder):
            raise ValueError(f"{_ARCHIVE} must be outside of the input, or it would be read again")
    return cleaning, archive


def _parse_poll_interval(text: str) -> float:
    """Return the seconds of `pollInterval`.

    Raises:
        ValueError: it is not a number from 0 to 3,600.
    """
    with suppress(ValueError):
        if 0 <= float(text) <= _MAX_POLL_INTERVAL:
            return float(text)
    raise ValueError(f"{_POLL_INTERVAL} must be 0 to 3600 seconds, not {text!r}")
