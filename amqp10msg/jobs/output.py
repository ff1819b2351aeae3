"""The output folder of a job: made aside, part by part, and published whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import itertools
import json
import os
import shutil
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from amqp10msg.atomic_files import lock, locked_folder, publish, sync_folder, synced, write_whole
from amqp10msg.files.stores import Place, is_url, opened
from amqp10msg.files.text import load_json, load_object
from amqp10msg.jobs._stats import Stats
from amqp10msg.jobs.job import Job
from amqp10msg.jobs.manifest import BAD, GOOD, STATS, is_list_of_texts, listed_below
from amqp10msg.jobs.store_output import StoreOutput
from amqp10msg.jobs.writing import Done, compression_of, write_part

#: The folder with the counts of the batches of a stream.
BATCHES = "_batches"
# Rows that are looked through for examples, and the most bytes of one.
_LOOKED_AT, _MAX_EXAMPLE = 20_000, 1 << 20


def output_of(path: str | Path) -> tuple[Path, Path]:
    """Return the folders of the good and of the quarantined messages below an output folder."""
    return Path(path) / GOOD, Path(path) / BAD


def made_files(path: str | Path, folder: str = GOOD) -> list[str]:
    """List the files of a job's output, as paths or as URLs.

    Of a store, these are the files that its manifest lists: all of the job, or none before it is
    done.

    Args:
        path: the folder of a job, or of a stream.
        folder: ``messages`` or ``quarantine``.
    """
    if is_url(path):
        return listed_below((Place.of(str(path)) / folder).url) or []
    return sorted(map(str, (Path(path) / folder).rglob("*.parquet")))


def read_stats(path: str | Path) -> Stats:
    """Read the counts of the last job that wrote to a folder, or of all batches of a stream.

    Raises:
        OSError: there are none.
        ValueError: a file of counts is damaged; the message names it.
    """
    if is_url(path):
        place = Place.of(str(path)) / STATS
        content = place.read()
        if content is None:
            raise FileNotFoundError(errno.ENOENT, "no job has made anything there", str(path))
        return _stats_in(content, place.url)
    stats = Stats()
    batches = sorted((Path(path) / BATCHES).glob("*.json"))
    for file in batches or [Path(path) / STATS]:
        stats.add(_stats_in(file.read_bytes(), str(file)))
    return stats


def _stats_in(content: bytes, place: str) -> Stats:
    try:
        return Stats.from_json(load_json(content))
    except ValueError as error:
        raise ValueError(f"{place}: {error}; run the job again to replace it") from None


def quarantined(path: str | Path) -> Iterator[dict[str, Any]]:
    """Read the rows of the quarantine below an output folder, one after another.

    Args:
        path: the folder of a job, or of a stream.

    Yields:
        The columns by name: those of `QUARANTINE`, after those that say where the message is from.
    """
    for name in made_files(path, BAD):
        with opened(name) as file, pq.ParquetFile(file) as rows:
            for batch in rows.iter_batches(64):
                yield from batch.to_pylist()


def examples_of(path: str | Path, stats: Stats, each: int) -> list[dict[str, Any]]:
    """Return the first rows of each code of the quarantine below an output folder.

    Rows are looked for until there are as many as are wanted, or `_LOOKED_AT` are read.

    Args:
        path: the folder of a job.
        stats: what the job counted.
        each: how many of each code.
    """
    lacking = {code: min(each, row.messages) for code, row in stats.rules.items()}
    found = []
    for row in itertools.islice(quarantined(path), _LOOKED_AT):
        if not any(lacking.values()):
            break
        code = row["error_code"] or ""
        if lacking.get(code):
            lacking[code] -= 1
            if len(row["wire"] or b"") <= _MAX_EXAMPLE:
                found.append(row)
    return found


def output_at(path: str | Path, options: Mapping[str, str]) -> Output | StoreOutput:
    """Return the output at a path or a URL, with the options `WRITING`."""
    if is_url(path):
        return StoreOutput(str(path), compression_of(options))
    return Output(Path(str(path).removeprefix("file://")), compression_of(options))


class Output:
    """A folder with ``messages/`` and ``quarantine/`` that a job makes; a link to it stays.

    What is not finished stands beside it, under one name, so that the next job removes the rest of
    one that was killed.

    Raises:
        ValueError: the path does not name the folder, such as ``.``.
    """

    def __init__(self, path: str | Path, compression: str = "snappy") -> None:
        self.path = Path(path)
        if self.path.is_symlink() and self.path.exists():
            # Beside the link may be another file system, without room.
            self.path = self.path.resolve()
        if self.path.name in {"", ".."}:
            raise ValueError(f"{path} does not name a folder that can be replaced: use another one")
        self.unfinished = self.path.with_name(f".{self.path.name}.unfinished")
        self._compression = compression
        self._parts = self.unfinished / "parts"
        self._aside = self.unfinished / "before"
        self._plan = self.unfinished / "plan.json"
        self._notes = self.unfinished / "done"
        self._moving = self.unfinished / "moving.json"
        self._ended = False  # what is to be done was done by a job that was killed as it ended

    def write(self, number: int, attempt: int, batches: Iterable[pa.RecordBatch], job: Job) -> Done:
        """Run a job on the batches of one part, and write the results.

        Files are in the order of the parts by their names, and no two attempts write to one.
        """
        file_name = f"part-{number:05d}-{attempt:08d}-{uuid.uuid4().hex}.parquet"
        makers = {
            folder: partial(_new, self._parts / folder / file_name, private=folder == BAD)
            for folder in (GOOD, BAD)
        }
        return write_part(file_name, makers, self._compression, batches, job)

    def gather(self, parts: Iterable[Done]) -> Path:
        """Put together what was made of the parts that count, and their counts beside it.

        A task that was given up may still write beside the others, and nothing of that gets in.
        """
        whole = self.unfinished / uuid.uuid4().hex
        for folder in (GOOD, BAD):
            (whole / folder).mkdir(parents=True)
        stats = Stats()
        for done in parts:
            stats.add(done.stats)
            for file in done.files:
                (self._parts / file).rename(whole / file)
        write_whole(whole / STATS, json.dumps(stats.as_json(), indent=1))
        for place in (whole / GOOD, whole / BAD, whole):
            sync_folder(place)
        return whole

    def put(self, made: Path, name: str = "") -> None:
        """Publish `made` atomically, as the folder or as `name` in it."""
        publish(made, self.path / name, self._aside)

    def commit(self, parts: Sequence[Done], *, overwrite: bool) -> None:
        """Publish what was made of the parts.

        Where the folder is there and is not to be replaced, the files are moved into it one by one,
        and taken back where that does not succeed; where it was killed, by the next job.

        Raises:
            BlockingIOError: another job does this now.
        """
        if not self._ended:
            self._restore()
            whole = self.gather(parts)
            if overwrite:
                self.put(whole)
            else:
                self._add(whole, [file for done in parts for file in done.files])
        self.clear()

    def abort(self) -> None:
        """Remove what was written, and restore what a job had moved when it was killed."""
        self._restore()
        self.clear()

    def _restore(self) -> bool:
        """Undo what a job was doing when it was killed; return whether it had done it all."""
        if self._aside.exists() and not self.path.exists():
            self._aside.rename(self.path)
        if not self._moving.exists():
            return False
        with self._moving.open("r+", encoding="utf-8") as notes:
            self._lock(notes)
            said: dict[str, Any] = {}
            with contextlib.suppress(ValueError):  # it was killed before it moved anything
                said = load_object(notes.read())
        name, files = said.get("whole"), said.get("files")
        if isinstance(name, str) and is_list_of_texts(files):
            whole = self.unfinished / name
            if not (whole / STATS).exists():
                return True
            self._take_back(whole, files)
        self._moving.unlink()
        return False

    def _lock(self, notes: IO[str]) -> None:
        try:
            lock(notes.fileno(), wait=False)
        except OSError:
            raise self._busy() from None
        notes.seek(0)

    def _busy(self) -> BlockingIOError:
        said = "another job writes to it: wait for it, or give each a folder of its own"
        return BlockingIOError(errno.EWOULDBLOCK, said, str(self.path))

    def check(self, *, overwrite: bool) -> None:
        """Take any folder: it is added to, or replaced."""

    def exists(self) -> bool:
        """Whether there is a folder that the output would be added to, or would replace."""
        return self.path.exists()

    def has_plan(self, key: str) -> bool:
        """Whether the job with this key was interrupted, so that `resume` goes on with it."""
        with contextlib.suppress(OSError, ValueError):
            return bool(load_object(self._plan.read_bytes()).get("key") == key)
        return False

    def leave(self) -> None:
        """Remove what a job that could not begin has left: nothing but an empty folder."""
        with contextlib.suppress(OSError):
            self.unfinished.rmdir()

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Keep other jobs out, on all machines that see the folder; a killed job lets them in.

        Raises:
            BlockingIOError: another job writes to it.
            FileNotFoundError: it is a symbolic link to what is not there.
            NotADirectoryError: it is a file, which is never replaced.
        """
        if self.path.is_symlink() and not self.path.exists():
            said = f"it is a link to {self.path.readlink()}, which does not exist: make that folder"
            raise FileNotFoundError(errno.ENOENT, said, str(self.path))
        if self.path.exists() and not self.path.is_dir():
            said = "it is a file, and stays: a job writes a folder, so name another one"
            raise NotADirectoryError(errno.ENOTDIR, said, str(self.path))
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(locked_folder(self.unfinished))
            except BlockingIOError:
                raise self._busy() from None
            yield

    def resume(
        self, key: str, parts: Sequence[Any], *, overwrite: bool
    ) -> tuple[list[Any], dict[int, Done]]:
        """Return the parts of a job, and what is done of them; no parts where all is in the folder.

        The key is the same for the same job on the same input. What is done is of the parts as
        they were then, and not as they would be now; parts are JSON.
        """
        ended = self._restore() and not overwrite
        with contextlib.suppress(OSError, ValueError):
            plan = load_object(self._plan.read_bytes())
            planned = plan.get("parts")
            if plan.get("key") == key and isinstance(planned, list):
                self._ended = ended
                return ([], {}) if ended else (planned, self._noted(len(planned)))
        for path in self.unfinished.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        write_whole(self._plan, json.dumps({"key": key, "parts": parts}))
        return list(parts), {}

    def note(self, number: int, done: Done) -> None:
        """Keep what was made of a part, for the case that the job is interrupted.

        Notes are not synced to disk: a part whose note is lost in a power failure is done again.
        """
        self._notes.mkdir(parents=True, exist_ok=True)
        aside = self._notes / uuid.uuid4().hex
        aside.write_text(json.dumps(done.as_json()), encoding="utf-8")
        aside.replace(self._notes / f"{number}.json")

    def _noted(self, count: int) -> dict[int, Done]:
        found = {}
        for number in range(count):
            # A note that is missing or damaged: the part is done again.
            with contextlib.suppress(OSError, ValueError):
                done = Done.from_json(load_object((self._notes / f"{number}.json").read_bytes()))
                if all((self._parts / file).exists() for file in done.files):
                    found[number] = done
        return found

    def clear(self) -> None:
        """Remove what is not finished."""
        shutil.rmtree(self.unfinished, ignore_errors=True)

    def _add(self, whole: Path, files: list[str]) -> None:
        """Make files appear in the folder, or the folder with them, and then their counts."""
        with self._moving.open("w", encoding="utf-8") as notes:
            self._lock(notes)
            json.dump({"whole": whole.name, "files": files}, notes)
            notes.flush()
            os.fsync(notes.fileno())
            sync_folder(self.unfinished)
            if not self.path.exists():
                self.put(whole)
                return
            try:
                for file in files:
                    target = self.path / file
                    target.parent.mkdir(parents=True, exist_ok=True)
                    (whole / file).rename(target)
                for folder in output_of(self.path):
                    if folder.exists():
                        sync_folder(folder)
                (whole / STATS).replace(self.path / STATS)
            except BaseException:  # Ctrl-C, too
                self._take_back(whole, files)
                raise
        sync_folder(self.path)

    def _take_back(self, whole: Path, files: Iterable[str]) -> None:
        """Put files back among the parts, also those that are not yet in the folder."""
        for file in files:
            (self._parts / file).parent.mkdir(parents=True, exist_ok=True)
            for place in (self.path, whole):
                with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                    (place / file).rename(self._parts / file)


@contextlib.contextmanager
def _new(path: Path, *, private: bool) -> Iterator[IO[bytes]]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with synced(path, private=private) as file:
        yield file
