"""Writes files and folders atomically and durably, and locks them."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import importlib
import os
import shutil
import stat
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from amqp10msg.private_files import private_opener

# Arguments of renameat2(2): paths are relative to the current folder; exchange both paths.
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2

# Errors of writing to a full disk. Unlike errors of opening a file, they do not name the file.
_DISK_FULL_ERRORS = frozenset({errno.ENOSPC, errno.EFBIG, errno.EDQUOT})


@contextlib.contextmanager
def synced(path: Path, *, private: bool = False) -> Iterator[IO[bytes]]:
    """Open a new file for writing, and sync it to disk when the ``with`` block ends.

    With `private`, only the owner may read the file.
    """
    with open(path, "wb", opener=private_opener if private else None) as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


@contextlib.contextmanager
def _name_in_errors(path: str | Path) -> Iterator[None]:
    """Add the path to errors of a full disk that the ``with`` block raises."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno in _DISK_FULL_ERRORS:
            error.filename = str(path)
        raise


@contextlib.contextmanager
def replacing(path: str | Path, *, private: bool = False) -> Iterator[IO[bytes]]:
    """Open a temporary file that replaces `path` when the ``with`` block ends without an error.

    The temporary file is in the same folder; it is synced to disk and renamed. If the block raises,
    the temporary file is removed, and an existing file is unchanged. A pipe or a device is written
    to directly.

    Args:
        path: the file. A symbolic link is followed and kept.
        private: whether only the owner may read a new file. A replaced file keeps its permissions.

    Raises:
        OSError: the file cannot be written.
    """
    special = Path(path)  # not resolved: the pipe of /dev/stdout has no path
    if special.exists() and not special.is_file():
        with _name_in_errors(path), special.open("wb") as file:
            yield file
        return
    target = Path(os.path.realpath(path))
    temporary = target.with_name(f".{target.name[:100]}.{uuid.uuid4().hex}.tmp")
    try:
        with _name_in_errors(path), contextlib.ExitStack() as stack:
            try:
                mode = _mode_of(target)
                written = stack.enter_context(synced(temporary, private=private))
            except OSError as error:
                error.filename = str(path)  # instead of the temporary file
                raise
            if mode is not None and hasattr(os, "fchmod"):  # Windows has it from Python 3.13 on
                os.fchmod(written.fileno(), mode)
            yield written
        temporary.replace(target)
    except BaseException:  # including KeyboardInterrupt
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(target.parent)


def _mode_of(target: Path) -> int | None:
    """Return the permissions of the file to replace, or None if there is no file."""
    try:
        mode = stat.S_IMODE(target.stat().st_mode)
    except FileNotFoundError:
        return None
    if not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    return mode


def write_whole(path: str | Path, text: str, *, private: bool = False) -> None:
    """Write a text file in UTF-8 atomically; see `replacing`."""
    with replacing(path, private=private) as file:
        file.write(text.encode("utf-8", "backslashreplace"))


def sync_folder(folder: Path) -> None:
    """Sync the entries of a folder to disk, on systems that support it."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def publish(source: Path, target: Path, backup: Path) -> None:
    """Rename the file or folder `source` to `target`; replace an existing `target`.

    If the system can exchange two paths atomically (Linux, on most file systems), `target` always
    exists, and is either old or new. On other systems, the old `target` is first renamed to
    `backup`, which must be on the same file system, so `target` does not exist between two renames.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    if not target.exists():
        source.rename(target)
    elif not _exchange(source, target):
        shutil.rmtree(backup, ignore_errors=True)
        target.rename(backup)
        source.rename(target)
    sync_folder(target.parent)


def _exchange(first: Path, second: Path) -> bool:
    """Exchange two paths atomically. Return False if the system cannot."""
    try:
        rename = ctypes.CDLL(None).renameat2
    except (AttributeError, OSError, TypeError):
        return False
    names = os.fsencode(first), os.fsencode(second)
    status: int = rename(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE)
    return status == 0


# Locks.


def _import_optional(name: str) -> Any:
    """Import a module that only some systems have, or return None."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        return None


_fcntl, _msvcrt = _import_optional("fcntl"), _import_optional("msvcrt")

# The offset of the byte that is locked on Windows. Windows does not allow reading a locked byte, so
# the byte is after the content, at the largest offset of 31 bits.
_LOCKED_OFFSET = 2**31 - 2
_RETRY_INTERVAL = 0.05  # seconds between two attempts to lock


def lock(handle: int, *, wait: bool) -> None:
    """Lock an open file exclusively. Closing the file releases the lock.

    Args:
        handle: the file descriptor. Its position may change.
        wait: whether to wait for the lock instead of raising an error.

    Raises:
        OSError: the lock is held by another process, or by another file descriptor.
    """
    if _fcntl is not None:
        _fcntl.flock(handle, _fcntl.LOCK_EX | (0 if wait else _fcntl.LOCK_NB))
        return
    while True:
        os.lseek(handle, _LOCKED_OFFSET, os.SEEK_SET)
        try:
            _msvcrt.locking(handle, _msvcrt.LK_NBLCK, 1)
        except OSError:
            if not wait:
                raise
            time.sleep(_RETRY_INTERVAL)
        else:
            return


def _is_same_file(handle: int, path: Path) -> bool:
    """Return whether `path` is still the file that was opened as `handle`."""
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False


@contextlib.contextmanager
def locked_folder(folder: Path) -> Iterator[None]:
    """Lock a folder, and create it if it does not exist.

    Windows cannot open a folder: there, the file ``FOLDER.lock`` next to it is locked.

    Raises:
        BlockingIOError: this process or another one has already locked the folder.
        OSError: the folder cannot be created.
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
        if _fcntl is not None and not _is_same_file(handle, folder):
            # The previous owner has removed the folder, and there may be a new one.
            raise BlockingIOError(errno.EWOULDBLOCK, os.strerror(errno.EWOULDBLOCK), str(folder))
        yield
    finally:
        os.close(handle)
