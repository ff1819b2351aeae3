"""Locks on files and folders, which the system takes back when a process ends or is killed."""

from __future__ import annotations

import contextlib
import importlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def _module(name: str) -> Any:
    """Import what only some systems have; None elsewhere."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        return None


_fcntl, _msvcrt = _module("fcntl"), _module("msvcrt")

# Windows keeps others from the bytes that are locked, so that one is after what is read; its
# offsets are of 31 bits.
_LOCKED = 2**31 - 2
_RETRY = 0.05  # seconds


def lock(handle: int, *, wait: bool) -> None:
    """Lock an open file against all who lock it; closing it lets them in.

    Args:
        handle: its descriptor, whose position may change.
        wait: until others let it go.

    Raises:
        OSError: another process, or another handle of this one, has it.
    """
    if _fcntl is not None:
        _fcntl.flock(handle, _fcntl.LOCK_EX | (0 if wait else _fcntl.LOCK_NB))
        return
    while True:
        os.lseek(handle, _LOCKED, os.SEEK_SET)
        try:
            _msvcrt.locking(handle, _msvcrt.LK_NBLCK, 1)
        except OSError:
            if not wait:
                raise
            time.sleep(_RETRY)
        else:
            return


@contextlib.contextmanager
def locked_folder(folder: Path) -> Iterator[None]:
    """Lock a folder, which is made if it is not there.

    Windows, where a folder cannot be opened, has a file ``FOLDER.lock`` beside it instead.

    Raises:
        BlockingIOError: another process, or another block of this one, has it.
        OSError: it cannot be made.
    """
    with contextlib.suppress(FileExistsError):
        folder.mkdir(parents=True)
    if _fcntl is not None:
        handle = os.open(folder, os.O_RDONLY)
    else:
        handle = os.open(folder.with_name(f"{folder.name}.lock"), os.O_RDWR | os.O_CREAT)
    try:
        try:
            lock(handle, wait=False)
        except OSError as error:
            raise BlockingIOError(error.errno, error.strerror, str(folder)) from None
        yield
    finally:
        os.close(handle)
