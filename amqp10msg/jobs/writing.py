"""How the rows of a part become files of Parquet: what is good, and what is quarantined."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.parquet as pq

from amqp10msg.columns import in_pieces
from amqp10msg.jobs._stats import Stats
from amqp10msg.jobs.job import Job
from amqp10msg.jobs.manifest import BAD, GOOD, is_list_of_texts

#: The options of how it is written.
WRITING = ("compression",)
_COMPRESSIONS = ("snappy", "zstd", "gzip", "lz4", "brotli", "none")
# A row group ends with the first of these.
_ROWS, _OCTETS = 65_536, 64 << 20
# What the writer encodes of a column at once, in rows; of large ones less, as a page does not end
# within.
_LEAST_AT_ONCE, _MOST_AT_ONCE, _OCTETS_AT_ONCE = 1_024, 8_192, 4 << 20
# Texts that differ from row to row: a dictionary of them would be given up.
_UNLIKE = frozenset({"message_id", "correlation_id", "body_json", "error_text", "identity"})
#: Opens a new file for writing.
Maker = Callable[[], contextlib.AbstractContextManager[Any]]


@attrs.frozen
class Done:
    """The result of one part of a job: its files, relative to the job's folder, and its counts."""

    files: list[str]
    stats: Stats

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> Done:
        """Return the result that `as_json` wrote.

        Raises:
            ValueError: it is not such a result.
        """
        files = given.get("files")
        if not is_list_of_texts(files):
            raise ValueError("the note of a part does not list its files")
        for file in files:
            folder, _, name = file.partition("/")
            if folder not in {GOOD, BAD} or name in {"", ".", ".."} or "/" in name:
                raise ValueError(f"the note of a part lists {file!r:.80}, which no job writes")
        return cls(files, Stats.from_json(given.get("stats")))

    def as_json(self) -> dict[str, Any]:
        """Return the result for JSON."""
        return {"files": self.files, "stats": self.stats.as_json()}


def write_part(
    name: str,
    makers: Mapping[str, Maker],
    compression: str,
    batches: Iterable[pa.RecordBatch],
    job: Job,
) -> Done:
    """Run a job on the batches of one part, and write the results to a file in each folder."""
    stats = Stats()
    outputs = {folder: ParquetFile(maker, compression) for folder, maker in makers.items()}
    with contextlib.ExitStack() as stack:
        for output in outputs.values():
            stack.callback(output.close)
        for batch in batches:
            for _, (good, bad) in in_pieces(batch, lambda piece: job.run(piece, stats)):
                if job.kind != "profile":
                    outputs[GOOD].write(good)
                outputs[BAD].write(bad)
    return Done([f"{folder}/{name}" for folder, o in outputs.items() if o.rows], stats)


def compression_of(options: Mapping[str, str]) -> str:
    """Return the compression of Parquet files."""
    name = options.get("compression", "snappy").lower()
    if name not in _COMPRESSIONS:
        raise ValueError(f"unknown compression {name!r}: use {', '.join(_COMPRESSIONS)}")
    return name


class ParquetFile:
    """A Parquet file that is made with the first row, and is there once it is closed.

    Attributes:
        rows: how many were written.
        size: of the file, in bytes, once it is closed.
    """

    def __init__(self, make: Maker, compression: str) -> None:
        self._make = make
        self._compression = compression
        self._writer: Any = None
        self._file: Any = None
        self._open = contextlib.ExitStack()
        self._kept: list[pa.RecordBatch] = []
        self._octets = self._rows = 0
        self.rows = self.size = 0
        self._metadata: list[Any] = []

    @property
    def metadata(self) -> Any:
        """What the file says of itself, once it is closed."""
        return self._metadata[0]

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows; those of the first batch give the schema."""
        if not batch.num_rows:
            return
        self._kept.append(batch)
        self._octets += batch.nbytes
        self._rows += batch.num_rows
        self.rows += batch.num_rows
        # Each call of the writer costs something for each column: a row group at once.
        if self._rows >= _ROWS or self._octets >= _OCTETS:
            with self._failing():
                self._flush()

    def _flush(self) -> None:
        table = pa.Table.from_batches(self._kept)
        at_once = _OCTETS_AT_ONCE * self._rows // (self._octets or 1)
        self._kept.clear()
        self._octets = self._rows = 0
        if self._writer is None:
            self._file = self._open.enter_context(self._make())
            self._writer = pq.ParquetWriter(
                self._file,
                table.schema,
                compression=self._compression,
                use_dictionary=_repeating(table.schema),
                # Readers skip row groups by them, and never by what is inside of a map or a list.
                write_statistics=[f.name for f in table.schema if not pa.types.is_nested(f.type)],
                write_batch_size=max(_LEAST_AT_ONCE, min(_MOST_AT_ONCE, at_once)),
                metadata_collector=self._metadata,
            )
        self._writer.write_table(table, row_group_size=_ROWS)

    def close(self) -> None:
        """End the file, where there is one."""
        with self._open, self._failing():
            if self._kept:
                self._flush()
            if self._writer is not None:
                self._writer.close()
                self._writer = None
                self.size = self._file.tell()

    @contextlib.contextmanager
    def _failing(self) -> Iterator[None]:
        """Name the file where the disk refuses to take more, and give the writer up."""
        try:
            yield
        except BaseException as error:
            if isinstance(error, OSError) and error.errno is not None and error.filename is None:
                error.filename = getattr(self._file, "name", None)
            if self._writer is not None:
                # It would try again when it is deleted, and print a traceback.
                self._writer.is_open = False
                self._writer = None
            self._kept.clear()
            with contextlib.suppress(OSError):  # of a disk that fails, the first one is told
                self._open.__exit__(type(error), error, error.__traceback__)
            raise


def _repeating(schema: pa.Schema) -> list[str]:
    """Return the columns of Parquet that a dictionary makes smaller: texts other than ids."""
    found: list[str] = []
    for field in schema:
        if pa.types.is_map(field.type) and pa.types.is_struct(field.type.item_type):
            found.append(f"{field.name}.key_value.key")
            found += [
                f"{field.name}.key_value.value.{part.name}"
                for part in field.type.item_type
                if pa.types.is_string(part.type)
            ]
        elif pa.types.is_string(field.type) and field.name not in _UNLIKE:
            found.append(field.name)
    return found
