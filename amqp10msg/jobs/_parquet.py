"""Parquet files that are written row group by row group, and are on disk once closed."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from amqp10msg.files.atomic import synced

# A row group ends with the first of these.
_ROWS, _OCTETS = 65_536, 64 << 20
# Texts that differ from row to row: a dictionary of them would be given up.
_UNLIKE = frozenset({"message_id", "correlation_id", "body_json", "error_text", "identity"})


class ParquetFile:
    """A Parquet file that is made with the first row, and is on disk once it is closed."""

    def __init__(self, path: Path, compression: str) -> None:
        self._path = path
        self._compression = compression
        self._writer: Any = None
        self._open = contextlib.ExitStack()
        self._kept: list[pa.RecordBatch] = []
        self._octets = self._rows = 0
        self.rows = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows."""
        if not batch.num_rows:
            return
        self._kept.append(batch)
        self._octets += batch.nbytes
        self._rows += batch.num_rows
        self.rows += batch.num_rows
        # Each call of the writer costs something for each column: a row group at once.
        if self._rows >= _ROWS or self._octets >= _OCTETS:
            self._flush()

    def _flush(self) -> None:
        if not self._kept:
            return
        table = pa.Table.from_batches(self._kept)
        self._kept.clear()
        self._octets = self._rows = 0
        if self._writer is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._writer = pq.ParquetWriter(
                self._open.enter_context(synced(self._path)),
                table.schema,
                compression=self._compression,
                use_dictionary=_repeating(table.schema),
                # Readers skip row groups by them, and never by what is inside of a map or a list.
                write_statistics=[f.name for f in table.schema if not pa.types.is_nested(f.type)],
            )
        self._writer.write_table(table, row_group_size=_ROWS)

    def close(self) -> None:
        """Finish the file."""
        with self._open:
            self._flush()
            if self._writer is not None:
                self._writer.close()
                self._writer = None


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
