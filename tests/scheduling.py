"""Which tests one worker runs together, and in which order: what `make test` hands out.

Tests of one file stay together, as they share what their fixtures start; so do those of an
`xdist_group`, wherever they stand. What may take long is handed out first, and what fills the gaps
at the end is quick: pieces of the files that have many tests.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from xdist.scheduler import LoadGroupScheduling

__all__ = ["ByFile", "units"]

#: A file of more tests than this is handed out in pieces: its tests are quick, and share little.
MANY = 60
#: How many tests a piece has.
PIECE = 10


def units(ids: Sequence[str]) -> dict[str, str]:
    """Return the unit of each test: its group, its file, or its piece of a large file.

    The units are in the order in which they are to be handed out: groups, files, pieces.
    """
    groups: dict[str, str] = {}
    files: dict[str, str] = {}
    for one in ids:
        # As pytest-xdist writes a group behind an id; an @ in brackets is a parameter's.
        if one.rfind("@") > one.rfind("]"):
            groups[one] = one.rpartition("@")[2]
        else:
            files[one] = one.partition("::")[0]
    sizes = Counter(files.values())
    seen: Counter[str] = Counter()
    whole: dict[str, str] = {}
    pieces: dict[str, str] = {}
    for one, file in files.items():
        if sizes[file] <= MANY:
            whole[one] = file
        else:
            pieces[one] = f"{file} {seen[file] // PIECE}"
            seen[file] += 1
    numbers = Counter(groups.values())
    first = dict(sorted(groups.items(), key=lambda item: -numbers[item[1]]))
    return {**first, **whole, **pieces}


class ByFile(LoadGroupScheduling):  # type: ignore[misc]  # it is Any to mypy
    """Hands out the units of `units`, in their order."""

    def schedule(self) -> None:
        """Hand out what there is to do, as the first of the workers collected it."""
        if self.collection is None:
            self._units = units(next(iter(self.registered_collections.values())))
            # Filled below; each keeps its place.
            self.workqueue.update((unit, {}) for unit in self._units.values())
        super().schedule()

    def _split_scope(self, nodeid: str) -> str:
        return self._units[nodeid]
