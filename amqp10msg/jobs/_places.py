"""Files that are on disk when their writer says so, and folders that appear whole."""

from __future__ import annotations

import ctypes
import os
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

__all__ = ["ParquetFile", "put", "sync", "write_synced"]

# A row group ends with the first of these.
_ROWS, _OCTETS = 65_536, 64 << 20
# Texts that are another in each row: a dictionary of them would be given up.
_UNLIKE = frozenset({"message_id", "correlation_id", "body_json", "error_text", "identity"})
# Of renameat2(2): relative to the current folder, and exchange both names.
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2


class ParquetFile:
    """A Parquet file that is made with the first row, and is on disk once it is closed."""

    def __init__(self, path: Path, compression: str) -> None:
        self._path = path
        self._compression = compression
        self._writer: Any = None
        self._file: Any = None
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
            self._file = self._path.open("wb")
            self._writer = pq.ParquetWriter(
                self._file,
                table.schema,
                compression=self._compression,
                use_dictionary=_repeating(table.schema),
                # Readers skip row groups by them, and never by what is inside of a map or a list.
                write_statistics=[f.name for f in table.schema if not pa.types.is_nested(f.type)],
            )
        self._writer.write_table(table, row_group_size=_ROWS)

    def close(self) -> None:
        """Finish the file."""
        self._flush()
        if self._writer is not None:
            self._writer.close()
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
            self._writer = None


def _repeating(schema: pa.Schema) -> list[str]:
    """List the columns of Parquet that a dictionary makes smaller: texts, but those of an id."""
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


def write_synced(path: Path, text: str) -> None:
    """Write a small file, and bring it to disk."""
    with path.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def sync(folder: Path) -> None:
    """Make sure that the names in a folder are on disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def put(made: Path, target: Path, aside: Path) -> None:
    """Make a file or folder appear under its name, in place of what has that name.

    Where the system can exchange two names at once (Linux, on most file systems), there is at every
    instant the old or the new one, whole; elsewhere, for the time between two renames, none.

    Args:
        made: what is to appear.
        target: where.
        aside: where the old one goes in the time between; a name on the same file system.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    if not target.exists():
        made.rename(target)
    elif not _exchanged(made, target):
        shutil.rmtree(aside, ignore_errors=True)
        target.rename(aside)
        made.rename(target)
    sync(target.parent)


def _exchanged(one: Path, other: Path) -> bool:
    """Exchange two names, where the system can; tell whether it did."""
    try:
        rename = ctypes.CDLL(None).renameat2
    except (AttributeError, OSError, TypeError):
        return False
    names = os.fsencode(one), os.fsencode(other)
    status: int = rename(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE)
    return status == 0
