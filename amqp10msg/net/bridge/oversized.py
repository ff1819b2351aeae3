"""Messages that are too large for memory: their bytes go to a file as they come."""

from __future__ import annotations

import contextlib
import os
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

from amqp10msg.files.atomic import sync_folder


class Oversized:
    """The bytes of one message, in a file that is gone again unless it is kept.

    A process that is killed leaves the file of what it was reading, with the suffix ``.part``.

    Args:
        folder: for the file; it is made where it does not exist.
        most: bytes that all files in the folder may have. Of a message that would exceed them,
            nothing is kept.

    Attributes:
        is_whole: whether all that came is in the file.

    Raises:
        OSError: the file cannot be written.
    """

    def __init__(self, folder: Path, most: int) -> None:
        self.folder = folder
        self.is_whole = True
        self._size = 0
        folder.mkdir(exist_ok=True)
        self._room = most - sum(one.stat().st_size for one in os.scandir(folder))
        # Closed by `keep` or `discard`.
        self._file = tempfile.NamedTemporaryFile(dir=folder, suffix=".part")  # noqa: SIM115

    def __len__(self) -> int:
        return self._size

    def extend(self, octets: bytes | bytearray) -> None:
        """Add bytes at the end.

        Raises:
            OSError: they cannot be written.
        """
        self._size += len(octets)
        if self._size > self._room and self.is_whole:
            self.is_whole = False
            self._file.truncate(0)
        if self.is_whole:
            with self._named():
                self._file.write(octets)
                self._file.flush()  # the next one asks the system how much the folder has

    def keep(self) -> Path:
        """Return the file, which is on disk and stays; nothing may be added any more.

        Raises:
            OSError: it cannot be written.
        """
        path = self.folder / f"{uuid.uuid4()}.bin"
        with self._named():
            self._file.flush()
            os.fsync(self._file.fileno())
        os.link(self._file.name, path)
        sync_folder(self.folder)
        sync_folder(self.folder.parent)
        self.discard()
        return path

    @contextlib.contextmanager
    def _named(self) -> Iterator[None]:
        """Say of which folder an error is."""
        try:
            yield
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self.folder)) from None

    def discard(self) -> None:
        """Remove the file, unless it was kept; twice does nothing."""
        self._file.close()
