"""The scheduler of `make test`: which tests run on the same worker, and in which order.

Tests of a file stay on one worker because they share the processes that fixtures start; so do tests
of an `xdist_group`, in whichever file. Slow units are scheduled first. Files with many tests are
split, and their short pieces keep all workers busy until the end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from xdist.scheduler import LoadGroupScheduling

__all__ = ["ByFile", "units"]

#: Files with more tests than this are split: their tests are quick and share few fixtures.
MAX_WHOLE_FILE = 60
#: Tests per piece of a split file.
PIECE_SIZE = 10


def units(ids: Sequence[str]) -> dict[str, str]:
    """Map each test's id to its unit: a group, a file, or a piece of a large file.

    Units are in scheduling order: groups (largest first), files, pieces.
    """
    groups: dict[str, str] = {}
    files: dict[str, str] = {}
    for test_id in ids:
        # pytest-xdist appends @GROUP to an id; an @ inside brackets is part of a parameter.
        if test_id.rfind("@") > test_id.rfind("]"):
            groups[test_id] = test_id.rpartition("@")[2]
        else:
            files[test_id] = test_id.partition("::")[0]
    sizes = Counter(files.values())
    assigned: Counter[str] = Counter()
    whole: dict[str, str] = {}
    pieces: dict[str, str] = {}
    for test_id, file in files.items():
        if sizes[file] <= MAX_WHOLE_FILE:
            whole[test_id] = file
        else:
            pieces[test_id] = f"{file} {assigned[file] // PIECE_SIZE}"
            assigned[file] += 1
    group_sizes = Counter(groups.values())
    largest_first = dict(sorted(groups.items(), key=lambda item: -group_sizes[item[1]]))
    return {**largest_first, **whole, **pieces}


class ByFile(LoadGroupScheduling):  # type: ignore[misc]  # it is Any to mypy
    """Assigns the units of `units` to workers, in their order."""

    def schedule(self) -> None:
        """Fill the work queue with the units in order, then assign them as xdist does."""
        if self.collection is None:
            self._units = units(next(iter(self.registered_collections.values())))
            # xdist adds the tests to these entries and keeps their order.
            self.workqueue.update((unit, {}) for unit in self._units.values())
        super().schedule()

    def _split_scope(self, nodeid: str) -> str:
        return self._units[nodeid]
