"""Files that only their owner may read, because messages are in them.

The permissions are those of a new file. A file that exists keeps its own, so that an administrator
can let a group read it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat

#: Permissions of a private file: its owner reads and writes it.
PRIVATE = 0o600


def private_opener(path: str, flags: int) -> int:
    """Open a file for `open`, which creates it with the permissions `PRIVATE`."""
    return os.open(path, flags, PRIVATE)


def regular_opener(path: str, flags: int) -> int:
    """Open a regular file for `open`, which creates it with the permissions `PRIVATE`.

    Raises:
        OSError: the file cannot be opened, or is not a regular file. Opening a pipe would wait for
            its other end, and nothing that is written to one is on disk.
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
    """Create an empty private file, unless there is a file of this name.

    SQLite then keeps the permissions, and gives its files ``-wal`` and ``-shm`` the same.

    An error is left to the caller's own opening of the file, which reports it.
    """
    if os.fspath(path) in {"", ":memory:"}:  # names of databases that SQLite keeps in memory
        return
    with contextlib.suppress(OSError, ValueError):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE))
