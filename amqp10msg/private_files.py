"""Creation of files that only their owner may read, because they contain messages.

Only new files get these permissions. An existing file keeps its own, so that an administrator can
let a group read it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat

#: Permissions of a private file: read and write for the owner.
PRIVATE = 0o600


def private_opener(path: str, flags: int) -> int:
    """Open a file for `open`, which creates it with the permissions `PRIVATE`."""
    return os.open(path, flags, PRIVATE)


def regular_opener(path: str, flags: int) -> int:
    """Open a regular file for `open`, which creates it with the permissions `PRIVATE`.

    Raises:
        OSError: the file cannot be opened, or is not a regular file. A pipe is refused because
            opening it would wait for a reader, and data written to it is not stored on disk.
    """
    not_regular = OSError(errno.EINVAL, "not a regular file", path)
    try:
        handle = os.open(path, flags | getattr(os, "O_NONBLOCK", 0), PRIVATE)
    except OSError as error:
        raise not_regular if error.errno == errno.ENXIO else error from None
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise not_regular
    return handle


def create_private(path: str | os.PathLike[str]) -> None:
    """Create an empty private file, unless the file exists.

    SQLite keeps the permissions, and copies them to its files ``-wal`` and ``-shm``. Errors are
    ignored: the caller's own opening of the file reports them.
    """
    if os.fspath(path) in {"", ":memory:"}:  # names of databases that SQLite keeps in memory
        return
    with contextlib.suppress(OSError, ValueError):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE))
