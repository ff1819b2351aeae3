"""The output of a job in an object store: all there for who follows its manifest, or not at all."""

from __future__ import annotations

import contextlib
import errno
import json
import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from amqp10msg.files.stores import Place
from amqp10msg.jobs._stats import Stats
from amqp10msg.jobs.job import Job
from amqp10msg.jobs.manifest import BAD, GOOD, STATS, UNFINISHED, files_of, parsed
from amqp10msg.jobs.writing import Done, write_part


class StoreOutput:
    """A folder in a store with ``messages/``, ``quarantine/`` and a manifest that a job makes.

    Files are written where they stay, under names that nobody else uses, and count once the
    manifest lists them, which is written last and at once. Who lists the folder instead sees files
    of jobs that are not done. Two jobs at a time are noticed where the second one ends, which
    fails and leaves nothing; but stores have no locks, and where both end within the same moment,
    the manifest lists the files of one.
    """

    def __init__(self, url: str, compression: str = "snappy") -> None:
        self.path = Place.of(url)
        self._compression = compression
        self._mark = uuid.uuid4().hex
        self._manifest = self.path / STATS
        self._plan = self.path / UNFINISHED / "plan.json"
        self._before = self._manifest.read()
        self._ended = False  # what is to be done was done by a job that was killed as it ended

    def write(self, number: int, attempt: int, batches: Iterable[pa.RecordBatch], job: Job) -> Done:
        """Run a job on the batches of one part, and write the results; see `Output.write`."""
        # The mark says whose files these are, where nobody can say it any more.
        name = f"part-{number:05d}-{attempt:08d}-{self._mark}-{uuid.uuid4().hex[:8]}.parquet"
        makers = {folder: (self.path / folder / name).create for folder in (GOOD, BAD)}
        return write_part(name, makers, self._compression, batches, job)

    def commit(self, parts: Sequence[Done], *, overwrite: bool) -> None:
        """Have the manifest list what was made of the parts, and what was there where it stays.

        Raises:
            BlockingIOError: another job has changed the folder meanwhile.
        """
        if self._ended:
            self.clear()
            return
        stats = Stats()
        made: dict[str, list[str]] = {GOOD: [], BAD: []}
        for done in parts:
            stats.add(done.stats)
            for file in done.files:
                folder, _, name = file.partition("/")
                made[folder].append(name)
        if not overwrite:
            for folder, names in files_of(self._before, self._manifest).items():
                made[folder] = [*names, *made[folder]]
        if self._manifest.read() != self._before:
            said = "another job wrote to it meanwhile: give each a folder of its own"
            raise BlockingIOError(errno.EWOULDBLOCK, said, self.path.url)
        said = json.dumps({**stats.as_json(), "files": made}, indent=1)
        self._manifest.write(said.encode())
        self._before = said.encode()
        if overwrite:
            listed = self._keys(made)
            for place, _ in self.path.files():
                if place.key not in listed and place != self._manifest:
                    place.delete()
        self.clear()

    def abort(self) -> None:
        """Delete what was written."""
        self.clear()

    def check(self, *, overwrite: bool) -> None:
        """Refuse a folder with files that no manifest lists, and that are not to be replaced."""
        if overwrite or self._before is not None:
            return
        mark = parsed(self._plan.read(), self._plan).get("mark")
        mark = mark if isinstance(mark, str) and mark else self._mark
        for place, _ in self.path.files():
            name = place.key[len(self.path.key) :].strip("/")
            if not name.startswith(f"{UNFINISHED}/") and mark not in name:
                said = f"there is {name}, which no job has listed: use overwrite, or another folder"
                raise FileExistsError(errno.EEXIST, said, self.path.url)

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Remember what is there, so that another job that changes it is noticed."""
        self._before = self._manifest.read()
        yield

    def exists(self) -> bool:
        """Whether a job is done here."""
        return self._before is not None

    def has_plan(self, key: str) -> bool:
        """Whether the job with this key was interrupted, so that `resume` goes on with it."""
        with contextlib.suppress(ValueError):
            return bool(parsed(self._plan.read(), self._plan).get("key") == key)
        return False

    def leave(self) -> None:
        """Do nothing: a store has no folders that could be empty."""

    def resume(
        self, key: str, parts: Sequence[Any], *, overwrite: bool
    ) -> tuple[list[Any], dict[int, Done]]:
        """Return the parts of a job, and what is done of them; see `Output.resume`."""
        plan = {}
        with contextlib.suppress(ValueError):
            plan = parsed(self._plan.read(), self._plan)
        mark, parts_then = plan.get("mark"), plan.get("parts")
        mark = mark if isinstance(mark, str) and mark else None
        if plan.get("key") == key and mark is not None and isinstance(parts_then, list):
            self._mark = mark
            listed = self._keys(files_of(self._before, self._manifest))
            self._ended = not overwrite and any(self._mark in key for key in listed)
            return ([], {}) if self._ended else (parts_then, self._noted())
        self._remove(mark)
        said = {"key": key, "mark": self._mark, "parts": list(parts)}
        self._plan.write(json.dumps(said).encode())
        return list(parts), {}

    def note(self, number: int, done: Done) -> None:
        """Keep what was made of a part, for the case that the job is interrupted."""
        place = self.path / UNFINISHED / "done" / f"{number}.json"
        place.write(json.dumps(done.as_json()).encode())

    def _noted(self) -> dict[int, Done]:
        there = {place.key for place, _ in self.path.files()}
        found = {}
        for place, _ in (self.path / UNFINISHED / "done").files():
            with contextlib.suppress(ValueError):  # a damaged note: the part is done again
                done = Done.from_json(parsed(place.read(), place))
                if all((self.path / file).key in there for file in done.files):
                    found[int(place.key.rpartition("/")[2].removesuffix(".json"))] = done
        return found

    def clear(self) -> None:
        """Delete what is not finished: files of this job that no manifest lists, and its notes."""
        self._remove(self._mark)

    def _remove(self, mark: str | None) -> None:
        """Delete the notes, and the files with a mark that no manifest lists."""
        listed = self._keys(files_of(self._manifest.read(), self._manifest))
        for place, _ in self.path.files():
            name = place.key[len(self.path.key) :].strip("/")
            is_marked = mark is not None and mark in name and place.key not in listed
            if is_marked or name.startswith(f"{UNFINISHED}/"):
                place.delete()

    def _keys(self, files: dict[str, list[str]]) -> set[str]:
        return {(self.path / folder / name).key for folder in files for name in files[folder]}
