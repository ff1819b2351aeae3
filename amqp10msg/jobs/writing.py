"""Write the rows of a part to two Parquet files: good messages and quarantined messages."""

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
from amqp10msg.jobs.manifest import BAD, GOOD, is_string_list

#: The names of the options for writing.
WRITING_OPTIONS = ("compression",)
_COMPRESSIONS = ("snappy", "zstd", "gzip", "lz4", "brotli", "none")
# A row group is complete when it reaches either limit.
_GROUP_ROWS, _GROUP_BYTES = 65_536, 64 << 20
# The Parquet writer encodes a number of rows at a time, and can end a page only after that. Choose
# the number of rows that have about `_PAGE_BYTES` in total, within these limits.
_MIN_PAGE_ROWS, _MAX_PAGE_ROWS, _PAGE_BYTES = 1_024, 8_192, 4 << 20
# Columns of mostly unique strings, for which a dictionary is useless: the writer would build and
# then discard it.
_UNIQUE_TEXT_COLUMNS = frozenset(
    {"message_id", "correlation_id", "body_json", "error_text", "identity"}
)
#: A function that creates a file and opens it for writing.
Opener = Callable[[], contextlib.AbstractContextManager[Any]]


@attrs.frozen
class PartResult:
    """The result of one part of a job: paths of files in the output folder, and the counts."""

    files: list[str]
    stats: Stats

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> PartResult:
        """Create the result from the JSON object that `as_json` returns.

        Raises:
            ValueError: `content` is not such an object.
        """
        files = content.get("files")
        if not is_string_list(files):
            raise ValueError("the saved result of a part must list its files")
        for file in files:
            folder, _, name = file.partition("/")
            if folder not in {GOOD, BAD} or name in {"", ".", ".."} or "/" in name:
                raise ValueError(
                    f"the saved result of a part lists {file!r:.80}: no file name of a job"
                )
        return cls(files, Stats.from_json(content.get("stats")))

    def as_json(self) -> dict[str, Any]:
        """Return the result as a JSON object."""
        return {"files": self.files, "stats": self.stats.as_json()}


def write_part(
    name: str,
    openers: Mapping[str, Opener],
    compression: str,
    batches: Iterable[pa.RecordBatch],
    job: Job,
) -> PartResult:
    """Run a job on the batches of one part; write good rows to a file, quarantined rows to another.

    Args:
        name: the name of both files, which are in different folders.
        openers: {folder: function that creates the file in it}, for the folders `GOOD` and `BAD`.
        compression: the compression of the Parquet files.
        batches: the rows of the part.
        job: the job to run.
    """
    stats = Stats()
    outputs = {folder: ParquetFile(opener, compression) for folder, opener in openers.items()}
    with contextlib.ExitStack() as stack:
        for output in outputs.values():
            stack.callback(output.close)
        for batch in batches:
            for _, (good, bad) in in_pieces(batch, lambda piece: job.run(piece, stats)):
                if job.kind != "profile":
                    outputs[GOOD].write(good)
                outputs[BAD].write(bad)
    return PartResult(
        [f"{folder}/{name}" for folder, output in outputs.items() if output.rows], stats
    )


def parse_compression(options: Mapping[str, str]) -> str:
    """Return the option ``compression`` of Parquet files, by default ``snappy``."""
    name = options.get("compression", "snappy").lower()
    if name not in _COMPRESSIONS:
        raise ValueError(f"unknown compression {name!r}: use {', '.join(_COMPRESSIONS)}")
    return name


class ParquetFile:
    """Writes a Parquet file. The first rows create the file; `close` completes it.

    Attributes:
        rows: the number of rows, including buffered rows.
        size: the size of the closed file in bytes.
    """

    def __init__(self, open_file: Opener, compression: str) -> None:
        self._open_file = open_file
        self._compression = compression
        self._writer: Any = None
        self._file: Any = None
        self._stack = contextlib.ExitStack()
        self._pending: list[pa.RecordBatch] = []
        self._pending_bytes = self._pending_rows = 0
        self.rows = self.size = 0
        self._metadata: list[Any] = []

    @property
    def metadata(self) -> Any:
        """The Parquet metadata of the closed file."""
        return self._metadata[0]

    def write(self, batch: pa.RecordBatch) -> None:
        """Add the rows of a batch. The first batch determines the schema."""
        if not batch.num_rows:
            return
        self._pending.append(batch)
        self._pending_bytes += batch.nbytes
        self._pending_rows += batch.num_rows
        self.rows += batch.num_rows
        # Buffer a whole row group, because every call of the writer has an overhead per column.
        if self._pending_rows >= _GROUP_ROWS or self._pending_bytes >= _GROUP_BYTES:
            with self._closing_on_error():
                self._write_row_group()

    def _write_row_group(self) -> None:
        table = pa.Table.from_batches(self._pending)
        page_rows = _PAGE_BYTES * self._pending_rows // (self._pending_bytes or 1)
        self._pending.clear()
        self._pending_bytes = self._pending_rows = 0
        if self._writer is None:
            self._file = self._stack.enter_context(self._open_file())
            self._writer = pq.ParquetWriter(
                self._file,
                table.schema,
                compression=self._compression,
                use_dictionary=_dictionary_columns(table.schema),
                # Readers use only the statistics of top-level columns to skip row groups.
                write_statistics=[f.name for f in table.schema if not pa.types.is_nested(f.type)],
                write_batch_size=max(_MIN_PAGE_ROWS, min(_MAX_PAGE_ROWS, page_rows)),
                metadata_collector=self._metadata,
            )
        self._writer.write_table(table, row_group_size=_GROUP_ROWS)

    def close(self) -> None:
        """Write the buffered rows, and close the file if it was created."""
        with self._stack, self._closing_on_error():
            if self._pending:
                self._write_row_group()
            if self._writer is not None:
                self._writer.close()
                self._writer = None
                self.size = self._file.tell()

    @contextlib.contextmanager
    def _closing_on_error(self) -> Iterator[None]:
        """If the block raises, discard the writer, close the file, and name it in an OSError."""
        try:
            yield
        except BaseException as error:
            if isinstance(error, OSError) and error.errno is not None and error.filename is None:
                error.filename = getattr(self._file, "name", None)
            if self._writer is not None:
                # Mark the writer as closed: its destructor would retry the write and print a
                # traceback.
                self._writer.is_open = False
                self._writer = None
            self._pending.clear()
            with contextlib.suppress(OSError):  # raise the first error instead
                self._stack.__exit__(type(error), error, error.__traceback__)
            raise


def _dictionary_columns(schema: pa.Schema) -> list[str]:
    """Return the Parquet columns for which a dictionary is useful: strings, except unique ones."""
    names: list[str] = []
    for field in schema:
        if pa.types.is_map(field.type) and pa.types.is_struct(field.type.item_type):
            names.append(f"{field.name}.key_value.key")
            names += [
                f"{field.name}.key_value.value.{member.name}"
                for member in field.type.item_type
                if pa.types.is_string(member.type)
            ]
        elif pa.types.is_string(field.type) and field.name not in _UNIQUE_TEXT_COLUMNS:
            names.append(field.name)
    return names
