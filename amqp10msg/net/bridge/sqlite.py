"""The SQLite files of a bridge: they outlive ``kill -9``, and a loss of power but for the last."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path


def opened(path: Path, schema: str) -> sqlite3.Connection:
    """Open a file, and make its table where it has none.

    Raises:
        OSError: the file cannot be used.
    """
    try:
        base = sqlite3.connect(path, isolation_level=None)
    except sqlite3.Error as error:
        raise OSError(f"{path}: {error}") from None
    try:
        # WAL and NORMAL: a transaction outlives the process; a loss of power may undo the last.
        base.execute("PRAGMA journal_mode=WAL")
        base.execute("PRAGMA synchronous=NORMAL")
        base.execute(schema)
    except sqlite3.Error as error:
        base.close()
        raise OSError(f"{path}: {error}") from None
    return base


@contextlib.contextmanager
def written(base: sqlite3.Connection, path: Path) -> Iterator[sqlite3.Connection]:
    """Hold a transaction; it is in the file when the block ends.

    Raises:
        OSError: it could not be written; nothing of it is.
    """
    try:
        base.execute("BEGIN IMMEDIATE")
        yield base
        base.execute("COMMIT")
    except sqlite3.Error as error:
        if base.in_transaction:
            base.execute("ROLLBACK")
        raise OSError(f"{path}: {error}") from None
