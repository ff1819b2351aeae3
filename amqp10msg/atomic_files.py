"""Files and folders that appear under their names once they are complete and on disk, and locks."""

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

# Of renameat2(2): relative to the current folder, and exchange both names.
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2

# Of what the disk does not take; where a file cannot be opened, the system names it.
_FULL = frozenset({errno.ENOSPC, errno.EFBIG, errno.EDQUOT})


@contextlib.contextmanager
def synced(path: Path, *, private: bool = False) -> Iterator[IO[bytes]]:
    """Open a new file for writing; its content is on disk once the block ends.

    With `private`, only its owner may read the file.
    """
    with open(path, "wb", opener=private_opener if private else None) as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


@contextlib.contextmanager
def _named(path: str | Path) -> Iterator[None]:
    """Name a file that is not taken whole, which the system does not."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno in _FULL:
            error.filename = str(path)
        raise


@contextlib.contextmanager
def replacing(path: str | Path, *, private: bool = False) -> Iterator[IO[bytes]]:
    """Open a file that appears, instead of what has its name, once the block ends without error.

    It is written beside its name, brought to disk and renamed. Where the block raises, nothing
    remains of it, and what was there is unchanged. A pipe or a device is written to directly.

    Args:
        path: the file; a symbolic link is followed and stays.
        private: whether only its owner may read a new file; one that is replaced keeps its
            permissions.

    Raises:
        OSError: it cannot be written.
    """
    given = Path(path)  # a pipe that /dev/stdout leads to has no other name
    if given.exists() and not given.is_file():
        with _named(path), given.open("wb") as file:
            yield file
        return
    target = Path(os.path.realpath(path))
    aside = target.with_name(f".{target.name[:100]}.{uuid.uuid4().hex}.tmp")
    try:
        with _named(path), contextlib.ExitStack() as stack:
            try:
                mode = _mode_of(target)
                written = stack.enter_context(synced(aside, private=private))
            except OSError as error:
                error.filename = str(path)  # the name that the caller knows
                raise
            if mode is not None and hasattr(os, "fchmod"):  # Windows has it from Python 3.13 on
                os.fchmod(written.fileno(), mode)
            yield written
        aside.replace(target)
    except BaseException:  # Ctrl-C, too
        aside.unlink(missing_ok=True)
        raise
    sync_folder(target.parent)


def _mode_of(target: Path) -> int | None:
    """Return the permissions of the file that is to be replaced, None where there is none."""
    try:
        mode = stat.S_IMODE(target.stat().st_mode)
    except FileNotFoundError:
        return None
    if not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    return mode


def write_whole(path: str | Path, text: str, *, private: bool = False) -> None:
    """Write a text file in UTF-8, all of it or nothing; see `replacing`."""
    with replacing(path, private=private) as file:
        file.write(text.encode("utf-8", "backslashreplace"))


def sync_folder(folder: Path) -> None:
    """Sync the names in a folder to disk, where the system can."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def publish(made: Path, target: Path, aside: Path) -> None:
    """Make a file or folder appear under its name, instead of what has that name.

    Where the system can exchange two names at once (Linux, on most file systems), there is at every
    instant the old or the new one, whole; elsewhere, for the time between two renames, none: the
    old one is `aside` then, on the same file system.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    if not target.exists():
        made.rename(target)
    elif not _exchanged(made, target):
        shutil.rmtree(aside, ignore_errors=True)
        target.rename(aside)
        made.rename(target)
    sync_folder(target.parent)


def _exchanged(one: Path, other: Path) -> bool:
    """Exchange two names; return False where the system cannot."""
    try:
        rename = ctypes.CDLL(None).renameat2
    except (AttributeError, OSError, TypeError):
        return False
    names = os.fsencode(one), os.fsencode(other)
    status: int = rename(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE)
    return status == 0


# Locks.


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


def _is_still(handle: int, path: Path) -> bool:
    """Return whether what was opened by a name has it still."""
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False


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
        if _fcntl is not None and not _is_still(handle, folder):
            # Who had it has removed it, and others may have a new one.
            raise BlockingIOError(errno.EWOULDBLOCK, os.strerror(errno.EWOULDBLOCK), str(folder))
        yield
    finally:
        os.close(handle)
