"""Which files and folders a test had written to disk: what a power failure leaves of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

__all__ = ["Disk"]


class Disk:
    """Records what `os.fsync` wrote to disk, while a test runs in this process."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._sizes: dict[tuple[int, int], int] = {}  # when it was synced, by device and inode
        fsync = os.fsync

        def recorded(handle: int) -> None:
            fsync(handle)
            status = os.fstat(handle)
            self._sizes[status.st_dev, status.st_ino] = status.st_size

        monkeypatch.setattr(os, "fsync", recorded)

    def missing(self, *paths: Path) -> list[str]:
        """Return the files that are not on disk with all their bytes, or whose name is not.

        The name of a file is on disk if its folder was synced.
        """
        return [
            str(place)
            for path in paths
            for place in (path, path.parent)
            if not self._has(place, is_folder=place != path)
        ]

    def _has(self, path: Path, *, is_folder: bool) -> bool:
        status = path.stat()
        synced = self._sizes.get((status.st_dev, status.st_ino))
        return synced is not None and (is_folder or synced == status.st_size)
