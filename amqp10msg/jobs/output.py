"""The output folder of a job: made aside, part by part, and published whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import itertools
import json
import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import IO, Any

import attrs
import pyarrow as pa
import pyarrow.parquet as pq

from amqp10msg.columns import in_pieces
from amqp10msg.files.atomic import publish, sync_folder, synced, write_whole
from amqp10msg.files.locks import locked_folder
from amqp10msg.jobs._job import Job
from amqp10msg.jobs._stats import Stats

#: The file with the counts of a job, in its folder.
STATS = "_amqp10msg.json"
#: The folders of the good and of the quarantined messages.
GOOD, BAD = "messages", "quarantine"
#: The options of how it is written.
WRITING = ("compression",)
_COMPRESSIONS = ("snappy", "zstd", "gzip", "lz4", "brotli", "none")
#: The folder with the counts of the batches of a stream.
BATCHES = "_batches"
# Rows that are looked through for examples, and the most bytes of one.
_LOOKED_AT, _MAX_EXAMPLE = 20_000, 1 << 20
# A row group ends with the first of these.
_ROWS, _OCTETS = 65_536, 64 << 20
# What the writer encodes of a column at once, in rows; of large ones less, as a page does not end
# within.
_LEAST_AT_ONCE, _MOST_AT_ONCE, _OCTETS_AT_ONCE = 1_024, 8_192, 4 << 20
# Texts that differ from row to row: a dictionary of them would be given up.
_UNLIKE = frozenset({"message_id", "correlation_id", "body_json", "error_text", "identity"})


def output_of(path: str | Path) -> tuple[Path, Path]:
    """Return the folders of the good and of the quarantined messages below an output folder."""
    return Path(path) / GOOD, Path(path) / BAD


def read_stats(path: str | Path) -> Stats:
    """Read the counts of the last job that wrote to a folder, or of all batches of a stream.

    Raises:
        OSError: there are none.
    """
    stats = Stats()
    batches = sorted((Path(path) / BATCHES).glob("*.json"))
    for file in batches or [Path(path) / STATS]:
        stats.add(Stats.from_json(json.loads(file.read_text(encoding="utf-8"))))
    return stats


def quarantined(path: str | Path) -> Iterator[dict[str, Any]]:
    """Read the rows of the quarantine below an output folder, one after another.

    Args:
        path: the folder of a job, or of a stream.

    Yields:
        The columns by name: those of `QUARANTINE`, after those that say where the message is from.
    """
    for file in sorted((Path(path) / BAD).rglob("*.parquet")):
        with pq.ParquetFile(file) as rows:
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


@attrs.frozen
class Done:
    """What was made of one part.

    Attributes:
        files: what was written, relative to the folder of the job.
        stats: what was counted.
    """

    files: list[str]
    stats: Stats


class Output:
    """A folder with ``messages/`` and ``quarantine/`` that a job makes.

    What is not finished stands beside it, under one name, so that the next job removes the rest of
    one that was killed.

    Args:
        path: the folder.
        compression: of the Parquet files.
    """

    def __init__(self, path: str | Path, compression: str = "snappy") -> None:
        self.path = Path(path)
        self.unfinished = self.path.with_name(f".{self.path.name}.unfinished")
        self._compression = compression
        self._parts = self.unfinished / "parts"
        self._aside = self.unfinished / "before"
        self._plan = self.unfinished / "plan.json"
        self._notes = self.unfinished / "done"

    def write(self, number: int, attempt: int, batches: Iterable[pa.RecordBatch], job: Job) -> Done:
        """Run a job on the batches of one part, and write the results.

        Args:
            number: which part; files are in its order by their names.
            attempt: which of several tries at it. No two write to one file.
            batches: the messages.
            job: what to do.
        """
        file_name = f"part-{number:05d}-{attempt:08d}-{uuid.uuid4().hex}.parquet"
        stats = Stats()
        outputs = {
            folder: ParquetFile(partial(_new, self._parts / folder / file_name), self._compression)
            for folder in (GOOD, BAD)
        }
        try:
            for batch in batches:
                for _, (good, bad) in in_pieces(batch, lambda piece: job.run(piece, stats)):
                    if job.kind != "profile":
                        outputs[GOOD].write(good)
                    outputs[BAD].write(bad)
        finally:
            for output in outputs.values():
                output.close()
        return Done([f"{folder}/{file_name}" for folder, o in outputs.items() if o.rows], stats)

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

        Where the folder is there and is not to be replaced, the files are moved into it one by one.
        """
        whole = self.gather(parts)
        if self.path.exists() and not overwrite:
            self._append(whole, [file for done in parts for file in done.files])
        else:
            self.put(whole)
        self.clear()

    def abort(self) -> None:
        """Remove what was written, and restore what a job had moved aside when it was killed."""
        self._restore()
        self.clear()

    def _restore(self) -> None:
        if self._aside.exists() and not self.path.exists():
            self._aside.rename(self.path)

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Keep other jobs out, on all machines that see the folder; a killed job lets them in.

        Raises:
            BlockingIOError: another job writes to it.
            FileNotFoundError: it is a symbolic link to what is not there.
        """
        if self.path.is_symlink() and not self.path.exists():
            said = f"it is a link to {self.path.readlink()}, which is not there: make that folder"
            raise FileNotFoundError(errno.ENOENT, said, str(self.path))
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(locked_folder(self.unfinished))
            except BlockingIOError:
                said = "another job writes to it: wait for it, or give each a folder of its own"
                raise BlockingIOError(errno.EWOULDBLOCK, said, str(self.path)) from None
            yield

    def resume(self, key: str, parts: Sequence[Any]) -> tuple[list[Any], dict[int, Done]]:
        """Return the parts of a job, and what is done of them.

        Args:
            key: the same for the same job on the same input.
            parts: how it would be divided now; what is done is of parts as they were then. JSON.
        """
        self._restore()
        with contextlib.suppress(OSError, ValueError, KeyError):
            plan = json.loads(self._plan.read_text(encoding="utf-8"))
            if plan["key"] == key:
                return plan["parts"], self._noted(len(plan["parts"]))
        for path in self.unfinished.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        write_whole(self._plan, json.dumps({"key": key, "parts": parts}))
        return list(parts), {}

    def note(self, number: int, done: Done) -> None:
        """Keep what was made of a part, for the case that the job is interrupted.

        Notes are not synced to disk: a part whose note is lost in a power failure is done again.
        """
        self._notes.mkdir(parents=True, exist_ok=True)
        said = {"files": done.files, "stats": done.stats.as_json()}
        aside = self._notes / uuid.uuid4().hex
        aside.write_text(json.dumps(said), encoding="utf-8")
        aside.replace(self._notes / f"{number}.json")

    def _noted(self, count: int) -> dict[int, Done]:
        found = {}
        for number in range(count):
            with contextlib.suppress(OSError, ValueError, KeyError):
                said = json.loads((self._notes / f"{number}.json").read_text(encoding="utf-8"))
                if all((self._parts / file).exists() for file in said["files"]):
                    found[number] = Done(said["files"], Stats.from_json(said["stats"]))
        return found

    def clear(self) -> None:
        """Remove what is not finished."""
        shutil.rmtree(self.unfinished, ignore_errors=True)

    def _append(self, whole: Path, files: list[str]) -> None:
        for file in files:
            target = self.path / file
            target.parent.mkdir(parents=True, exist_ok=True)
            (whole / file).rename(target)
        (whole / STATS).replace(self.path / STATS)
        for folder in (*output_of(self.path), self.path):
            if folder.exists():
                sync_folder(folder)


@contextlib.contextmanager
def _new(path: Path) -> Iterator[IO[bytes]]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with synced(path) as file:
        yield file


def compression_of(options: Mapping[str, str]) -> str:
    """Return the compression of Parquet files.

    Raises:
        ValueError: there is no such one.
    """
    name = options.get("compression", "snappy").lower()
    if name not in _COMPRESSIONS:
        raise ValueError(f"unknown compression {name!r}: use {', '.join(_COMPRESSIONS)}")
    return name


class ParquetFile:
    """A Parquet file that is made with the first row, and is there once it is closed.

    Args:
        make: opens the new file for writing.
        compression: of the columns.

    Attributes:
        rows: how many were written.
        size: of the file, in bytes, once it is closed.
    """

    def __init__(
        self, make: Callable[[], contextlib.AbstractContextManager[Any]], compression: str
    ) -> None:
        self._make = make
        self._compression = compression
        self._writer: Any = None
        self._file: Any = None
        self._open = contextlib.ExitStack()
        self._kept: list[pa.RecordBatch] = []
        self._octets = self._rows = 0
        self.rows = self.size = 0
        self._metadata: list[Any] = []

    @property
    def metadata(self) -> Any:
        """What the file says of itself, once it is closed."""
        return self._metadata[0]

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows; those of the first batch give the schema."""
        if not batch.num_rows:
            return
        self._kept.append(batch)
        self._octets += batch.nbytes
        self._rows += batch.num_rows
        self.rows += batch.num_rows
        # Each call of the writer costs something for each column: a row group at once.
        if self._rows >= _ROWS or self._octets >= _OCTETS:
            self._flush()

    def _flush(self) -> None:
        table = pa.Table.from_batches(self._kept)
        at_once = _OCTETS_AT_ONCE * self._rows // (self._octets or 1)
        self._kept.clear()
        self._octets = self._rows = 0
        if self._writer is None:
            self._file = self._open.enter_context(self._make())
            self._writer = pq.ParquetWriter(
                self._file,
                table.schema,
                compression=self._compression,
                use_dictionary=_repeating(table.schema),
                # Readers skip row groups by them, and never by what is inside of a map or a list.
                write_statistics=[f.name for f in table.schema if not pa.types.is_nested(f.type)],
                write_batch_size=max(_LEAST_AT_ONCE, min(_MOST_AT_ONCE, at_once)),
                metadata_collector=self._metadata,
            )
        self._writer.write_table(table, row_group_size=_ROWS)

    def close(self) -> None:
        """End the file, where there is one."""
        with self._open:
            if self._kept:
                self._flush()
            if self._writer is not None:
                self._writer.close()
                self._writer = None
                self.size = self._file.tell()


def _repeating(schema: pa.Schema) -> list[str]:
    """Return the columns of Parquet that a dictionary makes smaller: texts other than ids."""
    found: list[str] = []
    for field in schema:
        if pa.types.is_map(field.type) and pa.types.is_struct(field.type.item_type):
            found.append(f"{field.name}.key_value.key")
            found += [
                f"{field.name}.key_value.value.{part.name}"
                for part in field.type.item_type
                if pa.types.is_string(part.type)
            ]
        elif pa.types.is_string(field.type) and field.name not in _UNLIKE:
            found.append(field.name)
    return found
