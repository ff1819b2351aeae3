"""The output folder of a job: parts are written to a temporary folder, and published atomically."""

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
from amqp10msg.files.stores import StoreLocation, is_url, opened
from amqp10msg.files.text import load_json, load_object
from amqp10msg.jobs._stats import Stats
from amqp10msg.jobs.job import Job
from amqp10msg.jobs.manifest import BAD, GOOD, STATS_FILE, is_string_list, list_committed_files
from amqp10msg.jobs.store_output import StoreOutput
from amqp10msg.jobs.writing import PartResult, parse_compression, write_part

#: The subfolder with the counts of each batch of a stream.
BATCH_STATS_FOLDER = "_batches"
# Limits of `examples_of`: the number of quarantined rows that are read, and bytes of an example.
_MAX_ROWS_SCANNED, _MAX_EXAMPLE_BYTES = 20_000, 1 << 20


def output_of(path: str | Path) -> tuple[Path, Path]:
    """Return the two subfolders of an output folder: for good messages, and for the quarantine."""
    folder = _local_folder(path)
    return folder / GOOD, folder / BAD


def _local_folder(path: str | Path) -> Path:
    return Path(str(path).removeprefix("file://"))


def _unwritten_error(path: str | Path) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, "no job has written to this folder", str(path))


def made_files(path: str | Path, folder: str = GOOD) -> list[str]:
    """List the files of a job's output, as paths or as URLs.

    In an object store, these are the files that the manifest lists: all files of finished jobs, but
    no files of unfinished jobs.

    Args:
        path: the folder of a job, or of a stream.
        folder: ``messages`` or ``quarantine``.

    Raises:
        FileNotFoundError: the folder does not exist, or no job has written to it.
        ValueError: the manifest in an object store is damaged.
    """
    if is_url(path):
        files = list_committed_files((StoreLocation.of(str(path)) / folder).url)
        if files is None:
            raise _unwritten_error(path)
        return files
    local = _local_folder(path)
    if not any((local / name).exists() for name in (GOOD, BAD, STATS_FILE, BATCH_STATS_FOLDER)):
        raise _unwritten_error(path)
    return sorted(map(str, (local / folder).rglob("*.parquet")))


def read_stats(path: str | Path) -> Stats:
    """Read the counts of the last job that wrote to a folder, or of all batches of a stream.

    Raises:
        OSError: the folder has no counts.
        ValueError: a file with counts is damaged; the error names the file.
    """
    if is_url(path):
        manifest = StoreLocation.of(str(path)) / STATS_FILE
        content = manifest.read()
        if content is None:
            raise _unwritten_error(path)
        return _parse_stats(content, manifest.url)
    stats = Stats()
    folder = _local_folder(path)
    batches = sorted((folder / BATCH_STATS_FOLDER).glob("*.json"))
    for file in batches or [folder / STATS_FILE]:
        stats.add(_parse_stats(file.read_bytes(), str(file)))
    return stats


def _parse_stats(content: bytes, location: str) -> Stats:
    try:
        return Stats.from_json(load_json(content))
    except ValueError as error:
        raise ValueError(f"{location}: {error}; run the job again to replace this file") from None


def quarantined(path: str | Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of the quarantine in an output folder.

    Args:
        path: the folder of a job, or of a stream.

    Yields:
        Each row as a dict: the columns with the message's location in the input, then
        `QUARANTINE_SCHEMA`.

    Raises:
        FileNotFoundError: the folder does not exist, or no job has written to it.
        ValueError: the manifest in an object store is damaged.
    """
    for name in made_files(path, BAD):
        with opened(name) as file, pq.ParquetFile(file) as rows:
            for batch in rows.iter_batches(64):
                yield from batch.to_pylist()


def examples_of(path: str | Path, stats: Stats, each: int) -> list[dict[str, Any]]:
    """Return the first quarantined rows of every error code, as examples.

    Only the first 20,000 rows are read. Messages above 1 MiB are left out.

    Args:
        path: the folder of a job.
        stats: the counts of the job.
        each: the maximum number of examples per error code.

    Raises:
        FileNotFoundError: the folder does not exist, or no job has written to it.
        ValueError: the manifest in an object store is damaged.
    """
    remaining = {code: min(each, row.messages) for code, row in stats.rules.items()}
    examples = []
    for row in itertools.islice(quarantined(path), _MAX_ROWS_SCANNED):
        if not any(remaining.values()):
            break
        code = row["error_code"] or ""
        if remaining.get(code):
            remaining[code] -= 1
            if len(row["wire"] or b"") <= _MAX_EXAMPLE_BYTES:
                examples.append(row)
    return examples


def open_output(path: str | Path, options: Mapping[str, str]) -> Output | StoreOutput:
    """Create the output for a path or a URL, with the options in `WRITING`."""
    if is_url(path):
        return StoreOutput(str(path), parse_compression(options))
    return Output(_local_folder(path), parse_compression(options))


class Output:
    """A job's output folder on a local file system, with ``messages/`` and ``quarantine/``.

    If `path` is a symbolic link, the output is written to the link's target. Unfinished output is
    in the hidden folder ``.NAME.unfinished`` next to the output folder, where the next job can
    resume or delete it.

    Raises:
        ValueError: the path does not contain the name of the folder, such as ``.``.
    """

    def __init__(self, path: str | Path, compression: str = "snappy") -> None:
        self.path = Path(path)
        if self.path.is_symlink() and self.path.exists():
            # Write unfinished output next to the target: the folder of the link may be on another
            # file system, with too little space.
            self.path = self.path.resolve()
        if self.path.name in {"", ".."}:
            raise ValueError(
                f"{path} does not name a folder that can be replaced: use another path"
            )
        self.unfinished = self.path.with_name(f".{self.path.name}.unfinished")
        self._compression = compression
        self._parts = self.unfinished / "parts"
        self._old_output = self.unfinished / "before"
        self._plan = self.unfinished / "plan.json"
        self._results_folder = self.unfinished / "done"
        self._move_journal = self.unfinished / "moving.json"
        # Whether an earlier run of this job had published all files before it was killed.
        self._is_committed = False

    def write(
        self, number: int, attempt: int, batches: Iterable[pa.RecordBatch], job: Job
    ) -> PartResult:
        """Run a job on the batches of one part, and write the results.

        The names of the files sort in the order of the parts. Every attempt writes a new file.
        """
        file_name = f"part-{number:05d}-{attempt:08d}-{uuid.uuid4().hex}.parquet"
        openers = {
            folder: partial(_create_file, self._parts / folder / file_name, private=folder == BAD)
            for folder in (GOOD, BAD)
        }
        return write_part(file_name, openers, self._compression, batches, job)

    def gather_parts(self, parts: Iterable[PartResult]) -> Path:
        """Move the files of finished parts, with their counts, to a new folder; return the folder.

        Files of abandoned tasks, which may still be writing, are left out.
        """
        gathered = self.unfinished / uuid.uuid4().hex
        for folder in (GOOD, BAD):
            (gathered / folder).mkdir(parents=True)
        stats = Stats()
        for result in parts:
            stats.add(result.stats)
            for file in result.files:
                (self._parts / file).rename(gathered / file)
        write_whole(gathered / STATS_FILE, json.dumps(stats.as_json(), indent=1))
        for changed in (gathered / GOOD, gathered / BAD, gathered):
            sync_folder(changed)
        return gathered

    def replace(self, source: Path, name: str = "") -> None:
        """Publish the folder `source` atomically as the output folder or its subfolder `name`."""
        publish(source, self.path / name, self._old_output)

    def commit(self, parts: Sequence[PartResult], *, overwrite: bool) -> None:
        """Publish the files of the parts.

        If the output folder exists and `overwrite` is false, the files are moved into the folder,
        one by one. If a move fails, all are moved back. If the process is killed, the next job
        moves them back.

        Raises:
            BlockingIOError: another job is committing to this folder.
        """
        if not self._is_committed:
            self._recover()
            gathered = self.gather_parts(parts)
            if overwrite:
                self.replace(gathered)
            else:
                self._append(gathered, [file for result in parts for file in result.files])
        self.delete_unfinished()

    def abort(self) -> None:
        """Delete the unfinished output. If a killed job had moved files, move them back first."""
        self._recover()
        self.delete_unfinished()

    def _recover(self) -> bool:
        """Undo the commit of a killed job if it is incomplete; return True if it is complete."""
        if self._old_output.exists() and not self.path.exists():
            self._old_output.rename(self.path)
        if not self._move_journal.exists():
            return False
        with self._move_journal.open("r+", encoding="utf-8") as stream:
            self._lock(stream)
            journal: dict[str, Any] = {}
            with contextlib.suppress(ValueError):  # cut off when written: no file was moved
                journal = load_object(stream.read())
        name, files = journal.get("whole"), journal.get("files")
        if isinstance(name, str) and is_string_list(files):
            gathered = self.unfinished / name
            if not (gathered / STATS_FILE).exists():
                return True
            self._undo_moves(gathered, files)
        self._move_journal.unlink()
        return False

    def _lock(self, stream: IO[str]) -> None:
        """Lock the open journal of moves. Raises BlockingIOError if another job has locked it."""
        try:
            lock(stream.fileno(), wait=False)
        except OSError:
            raise self._busy_error() from None
        stream.seek(0)

    def _busy_error(self) -> BlockingIOError:
        message = (
            "another job is writing to this folder: wait, or use a separate folder for each job"
        )
        return BlockingIOError(errno.EWOULDBLOCK, message, str(self.path))

    def reject_foreign_files(self, *, overwrite: bool) -> None:
        """Do nothing: a local folder may contain files that no job wrote. See `StoreOutput`."""

    def exists(self) -> bool:
        """Return True if the output folder exists."""
        return self.path.exists()

    def has_plan(self, key: str) -> bool:
        """Return True if the job with this key was interrupted, so that `resume` continues it."""
        with contextlib.suppress(OSError, ValueError):
            return bool(load_object(self._plan.read_bytes()).get("key") == key)
        return False

    def remove_if_empty(self) -> None:
        """Remove the folder for unfinished output if it is empty."""
        with contextlib.suppress(OSError):
            self.unfinished.rmdir()

    @contextlib.contextmanager
    def guarded(self) -> Iterator[None]:
        """Lock the output folder during the block against other jobs, also on other machines.

        If the process is killed, the operating system releases the lock.

        Raises:
            BlockingIOError: another job is writing to the folder.
            FileNotFoundError: the path is a dangling symbolic link.
            NotADirectoryError: the path is a file; files are never replaced.
        """
        if self.path.is_symlink() and not self.path.exists():
            message = f"the link points to {self.path.readlink()}, which does not exist: create it"
            raise FileNotFoundError(errno.ENOENT, message, str(self.path))
        if self.path.exists() and not self.path.is_dir():
            message = "the output of a job is a folder, and this is a file: use another path"
            raise NotADirectoryError(errno.ENOTDIR, message, str(self.path))
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(locked_folder(self.unfinished))
            except BlockingIOError:
                raise self._busy_error() from None
            yield

    def resume(
        self, key: str, parts: Sequence[Any], *, overwrite: bool
    ) -> tuple[list[Any], dict[int, PartResult]]:
        """Return the parts of a job, and {part number: result} for the finished parts.

        If an interrupted job had the same `key`, this returns the parts of that job, to which the
        results of finished parts refer. If that job had already committed all its files, and
        `overwrite` is false, no parts remain: this returns ([], {}).

        Args:
            key: identifies the job and the state of its input.
            parts: the parts of a new job, as JSON values.
            overwrite: whether the job replaces the folder.
        """
        is_committed = self._recover() and not overwrite
        with contextlib.suppress(OSError, ValueError):
            plan = load_object(self._plan.read_bytes())
            planned = plan.get("parts")
            if plan.get("key") == key and isinstance(planned, list):
                self._is_committed = is_committed
                return ([], {}) if is_committed else (planned, self._load_results(len(planned)))
        for path in self.unfinished.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        write_whole(self._plan, json.dumps({"key": key, "parts": parts}))
        return list(parts), {}

    def save_result(self, number: int, result: PartResult) -> None:
        """Save the result of a part, so that a resumed job can skip the part.

        The file is not synced to disk. If it is lost in a power failure, the part is run again.
        """
        self._results_folder.mkdir(parents=True, exist_ok=True)
        temporary = self._results_folder / uuid.uuid4().hex
        temporary.write_text(json.dumps(result.as_json()), encoding="utf-8")
        temporary.replace(self._results_folder / f"{number}.json")

    def _load_results(self, count: int) -> dict[int, PartResult]:
        results = {}
        for number in range(count):
            # Skip a missing or damaged result: the part is then run again.
            with contextlib.suppress(OSError, ValueError):
                result = PartResult.from_json(
                    load_object((self._results_folder / f"{number}.json").read_bytes())
                )
                if all((self._parts / file).exists() for file in result.files):
                    results[number] = result
        return results

    def delete_unfinished(self) -> None:
        """Delete the unfinished output."""
        shutil.rmtree(self.unfinished, ignore_errors=True)

    def _append(self, gathered: Path, files: list[str]) -> None:
        """Move `files` from `gathered` to the output folder, and replace the counts there.

        If the output folder does not exist, publish `gathered` as the output folder.
        """
        with self._move_journal.open("w", encoding="utf-8") as stream:
            self._lock(stream)
            json.dump({"whole": gathered.name, "files": files}, stream)
            stream.flush()
            os.fsync(stream.fileno())
            sync_folder(self.unfinished)
            if not self.path.exists():
                self.replace(gathered)
                return
            try:
                for file in files:
                    target = self.path / file
                    target.parent.mkdir(parents=True, exist_ok=True)
                    (gathered / file).rename(target)
                for folder in output_of(self.path):
                    if folder.exists():
                        sync_folder(folder)
                (gathered / STATS_FILE).replace(self.path / STATS_FILE)
            except BaseException:  # including KeyboardInterrupt
                self._undo_moves(gathered, files)
                raise
        sync_folder(self.path)

    def _undo_moves(self, gathered: Path, files: Iterable[str]) -> None:
        """Move files from the output folder and from `gathered` back to the folder of parts."""
        for file in files:
            (self._parts / file).parent.mkdir(parents=True, exist_ok=True)
            for folder in (self.path, gathered):
                with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                    (folder / file).rename(self._parts / file)


@contextlib.contextmanager
def _create_file(path: Path, *, private: bool) -> Iterator[IO[bytes]]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with synced(path, private=private) as file:
        yield file
