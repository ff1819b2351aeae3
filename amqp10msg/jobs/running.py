"""A whole job on one machine: one process per core, each with a part of the files at a time.

Or its rows as a stream of Arrow, for whatever reads that.
"""

from __future__ import annotations

import errno
import hashlib
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from multiprocessing import get_context
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Literal, get_args

import attrs

from amqp10msg import __version__
from amqp10msg.files import Range, stores
from amqp10msg.files.stores import Place, StoreError
from amqp10msg.jobs._stats import Stats
from amqp10msg.jobs.inputs import READING, Part, Reading, input_of, number_of, refuse_unknown
from amqp10msg.jobs.job import Job
from amqp10msg.jobs.output import Output, output_at, read_stats
from amqp10msg.jobs.parquet import Rows
from amqp10msg.jobs.store_output import StoreOutput
from amqp10msg.jobs.writing import WRITING, Done
from amqp10msg.wire.kernel import COMPILED

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
from itertools import chain

import pyarrow as pa

from amqp10msg.columns import in_pieces
from amqp10msg.jobs.inputs import MESSAGES, RANGE_OCTETS, Input
from amqp10msg.wire.errors import expect

#: What to do if the output exists.
Mode = Literal["error", "append", "overwrite"]
#: Called with how many parts are done, and how many there are.
Progress = Callable[[int, int], None]
# Bytes of input that are worth a process of their own, which takes about a second to start: some
# seconds of work, column by column in the kernel, where it may leave many messages to others, and
# message by message outside of it.
_WORTH_BY_COLUMN, _WORTH_OF_USUAL, _WORTH_BY_MESSAGE = 256 << 20, 32 << 20, 4 << 20
# Parts are not smaller, so that files are not too many, and not larger, so that the last one to end
# is not much later than the others.
_LEAST, _MOST = 4 << 20, 128 << 20
_PARTS_OF_WORKER = 4


class JobError(RuntimeError):
    """A job failed: not by its messages, but by a file, a disk, memory, or a process killed."""


class InterruptedJobError(JobError):
    """A job that failed for lack of memory or of a process, and goes on where it is run again."""


def run(
    source: str | Path,
    path: str | Path,
    job: Job,
    *,
    form: str | None = None,
    mode: Mode = "error",
    options: Mapping[str, str] | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
) -> Stats:
    """Run a job on files on this machine, and write its result below a folder.

    The folder has ``messages/`` and ``quarantine/`` of Parquet. It is made elsewhere and renamed
    when all is done: it is there whole or not at all. If it exists, `mode` decides: ``overwrite``
    exchanges the two; ``append`` moves the files into it one by one, and if a job is killed
    meanwhile, the next one takes them back.

    In an object store, files are written where they stay, and ``_amqp10msg.json``, written last,
    lists those of all that is done: `made_files` reads it, and so do jobs that have the folder as
    input. Who lists the folder instead sees files of jobs that are not done.

    Several workers are processes that import the main module again: a script calls this under
    ``if __name__ == "__main__":``.

    Args:
        source: a file, a folder with what is below it, or a pattern; a path, or a URL of an object
            store, ``s3://``, ``gs://`` or ``abfss://``.
        path: the folder, or a URL.
        job: what to do.
        form: ``parquet``, or one of `amqp10msg.files.FORMS`; found out where None.
        mode: what to do if the folder exists: ``error`` to raise FileExistsError, ``append`` to
            add to it, ``overwrite`` to replace it.
        options: ``rangeBytes``, how much of a file a worker takes at a time; ``maxSize``, bytes
            that one message may take; ``expansion`` and ``zeroWidth``, what a file may cost, as in
            `amqp10msg.Limits`; ``compression`` of the Parquet files, ``snappy`` where it is
            not given; ``protocol``, ``address``, ``since``, ``until`` and ``selector``, which leave
            messages of files out, as `amqp10msg.spark.Amqp10` has them.
        workers: how many processes. With 1, this process does it all. Where None, as many as there
            are cores, and no more than the input is worth.
        progress: called when a part is done.

    Returns:
        The counts, as `read_stats` reads them.

    Raises:
        ValueError: the job cannot be done on this input, or an option is wrong.
        OSError: there is no such file, or it cannot be read; of Parquet, none is whole.
        BlockingIOError: another job writes to the folder, or of a store has written meanwhile.
        FileExistsError: the folder exists, and `mode` is ``error``; or a folder of a store has
            files that no job lists, and is not to be replaced.
        JobError: it failed, and nothing of it is left.
        InterruptedJobError: it was interrupted, as by Ctrl-C: a worker was killed, or memory ran
            out. What is done stands beside the folder, and the same job goes on from there.
        TypeError: `job` is not a Job, such as its name alone.
    """
    expect(job, Job, "the job of run", "a Job", {str: f"Job({job!r:.40})"})
    given = dict(options or {})
    check_mode(mode)
    if workers is not None and workers < 1:
        raise ValueError(f"at least 1 worker is needed, not {workers}")
    # These raise where one is wrong, before anything is made.
    refuse_unknown(given, (*READING, *WRITING))
    Reading.of(given)
    output = output_at(path, given)
    cores = _cores() if workers is None else workers

    def size_of_part(octets: int) -> int:
        best = max(_LEAST, min(_MOST, octets // (cores * _PARTS_OF_WORKER)))
        return number_of(given, "rangeBytes", best, "bytes")

    found = input_of(str(source), form, size_of_part)
    job.check(found.names)
    if found.rows is not None:
        job.check_types(found.rows.schema)
    count = min(cores, len(found.parts))
    if workers is None:
        count = min(count, 1 + found.octets // _worth(job))
    do = _alone if count <= 1 else _together
    work = Work(output, job, given, found.rows)
    show = progress or (lambda _done, _total: None)

    def carry_on(parts: Sequence[Part], done: dict[int, Done]) -> None:
        do(work, parts, count, show, done)

    carry_out(work, found.parts, carry_on, mode=mode)
    return read_stats(path)


def carry_out(
    work: Work,
    parts: Sequence[Part],
    carry_on: Callable[[Sequence[Part], dict[int, Done]], None],
    *,
    mode: Mode,
) -> None:
    """Run all parts and publish the folder, or leave nothing of it.

    Where that is interrupted, what is done stays, and the same job goes on from there: `carry_on`
    does the parts that are not in a dict, which it fills.

    Raises:
        BlockingIOError: another job writes to the folder.
        FileExistsError: the folder exists, and `mode` is ``error``.
        ValueError: the input is in the folder that is to be replaced.
    """
    output, overwrite = work.output, mode == "overwrite"
    if overwrite:
        _refuse_input_in(output.path, parts)
    with output.held():
        output.check(overwrite=overwrite)
        key = work.key(parts)
        if mode == "error" and not output.has_plan(key):
            refuse_existing(output)
        listed, done = output.resume(
            key, [[attrs.astuple(one) for one in part] for part in parts], overwrite=overwrite
        )
        if mode == "error" and listed:  # else the same job was killed when it had done it all
            refuse_existing(output)
        try:
            given = [tuple(Range(*one) for one in part) for part in listed]
            if given:
                carry_on(given, done)
            output.commit([done[number] for number in range(len(given))], overwrite=overwrite)
        except (KeyboardInterrupt, InterruptedJobError):
            if not done:
                _give_up(output)
            raise
        except BaseException:
            _give_up(output)
            raise


def refuse_existing(output: Output | StoreOutput) -> None:
    """Raise FileExistsError if there is output already."""
    if output.exists():
        output.leave()
        said = "it exists already: name another folder, or use the mode append or overwrite"
        name = output.path.url if isinstance(output.path, Place) else str(output.path)
        raise FileExistsError(errno.EEXIST, said, name)


def check_mode(mode: str) -> None:
    """Raise ValueError if `mode` is not one of `Mode`."""
    if mode not in get_args(Mode):
        raise ValueError(f"mode is {mode!r}, and must be one of {', '.join(get_args(Mode))}")


def _refuse_input_in(folder: Path | Place, parts: Sequence[Part]) -> None:
    """Refuse to replace a folder with its own input in it, which would be lost."""
    for path in {one.path for part in parts for one in part}:
        if stores.is_below(path, folder):
            raise ValueError(
                f"{path} is in the folder that is to be replaced, and would be lost: write to "
                "another folder, or add to this one"
            )


def _give_up(output: Output | StoreOutput) -> None:
    """Remove what was written, as far as a store can be reached: the next job removes the rest."""
    with suppress(StoreError):
        output.abort()


def _worth(job: Job) -> int:
    """Return how many bytes are worth a process of their own."""
    if not COMPILED or (job.kind == "translate" and job.profile not in {None, "lossless"}):
        return _WORTH_BY_MESSAGE
    if job.kind in {"decode", "profile"} and job.profile is None:
        return _WORTH_BY_COLUMN
    return _WORTH_OF_USUAL


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@attrs.frozen
class Work:
    """The work on each part, as it is sent to the workers."""

    output: Output | StoreOutput
    job: Job
    options: Mapping[str, str]
    rows: Rows | None

    def __call__(self, number: int, part: Part, attempt: int = 0) -> Done:
        """Run the job on one part, and note that it is done; see `Output.write`."""
        reading = attrs.evolve(Reading.of(self.options), rows=self.rows)
        batches = reading.batches(part, _faults_of)
        done = self.output.write(number, attempt, batches, self.job)
        self.output.note(number, done)
        return done

    def key(self, parts: Sequence[Part]) -> str:
        """Return a key of this work on these files as they are now."""
        paths = sorted({one.path for part in parts for one in part})
        found = stores.of_each(stores.state_of, paths)
        states = [(path, *attrs.astuple(state)) for path, state in zip(paths, found, strict=True)]
        form = {one.form for part in parts for one in part}
        said = (__version__, self.job, sorted(self.options.items()), states, sorted(form))
        return hashlib.sha256(repr(said).encode()).hexdigest()


def _alone(
    work: Work, parts: Sequence[Part], _count: int, progress: Progress, done: dict[int, Done]
) -> None:
    for number, part in enumerate(parts):
        if number not in done:
            with _faults_of(part):
                done[number] = work(number, part)
            progress(len(done), len(parts))


def _together(
    work: Work, parts: Sequence[Part], count: int, progress: Progress, done: dict[int, Done]
) -> None:
    """Run the work in processes."""
    # No fork: Arrow has threads, and they would be missing in the children.
    context = get_context("spawn")
    theirs, ours = context.Pipe(duplex=False)
    with ProcessPoolExecutor(count, context, _begin, (theirs,)) as pool:
        try:
            with _no_interrupts():
                left = [(n, part) for n, part in enumerate(parts) if n not in done]
                futures = {pool.submit(work, n, part): n for n, part in left}
            for future in as_completed(futures):
                number = futures[future]
                with _faults_of(parts[number]):
                    done[number] = future.result()
                progress(len(done), len(parts))
        finally:
            if len(done) < len(parts):
                ours.close()  # ends the workers at once
                pool.shutdown(cancel_futures=True)
    ours.close()
    theirs.close()


def _begin(lifeline: Connection) -> None:
    """End a worker when the job ends, even where the process that runs it is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Windows blocks no signals, see below

    def watch() -> None:
        with suppress(EOFError, OSError):
            lifeline.recv_bytes()  # nothing is ever sent
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@contextmanager
def _no_interrupts() -> Iterator[None]:
    """Start processes that Ctrl-C, which a terminal sends to all of them, does not reach."""
    if not hasattr(signal, "pthread_sigmask"):  # on Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _faults_of(part: Part) -> Iterator[None]:
    """Raise `JobError` with the part that failed."""
    place = part[0].path + (" and others" if len(part) > 1 else "")
    try:
        yield
    except JobError:
        raise
    except BrokenProcessPool as error:
        raise InterruptedJobError(
            "a worker was killed, by a signal or because memory ran out: fewer workers take less "
            "memory, and the same job goes on from what is done"
        ) from error
    except MemoryError as error:
        raise InterruptedJobError(
            f"{place}: memory ran out: fewer workers, or smaller row groups, take less, and the "
            "same job goes on from what is done"
        ) from error
    except Exception as error:
        said = str(error)
        if isinstance(error, StoreError):
            raise InterruptedJobError(f"{said}: the same job goes on from what is done") from error
        if isinstance(error, OSError) and error.filename not in {None, *(one.path for one in part)}:
            raise JobError(f"{error.filename}: {error.strerror}") from error
        if not said.startswith(tuple(one.path for one in part)):
            said = f"{place}: {type(error).__name__}: {said}"
        raise JobError(said) from error


# A stream of Arrow.


def read(
    source: str | Path,
    job: Job | None = None,
    *,
    form: str | None = None,
    options: Mapping[str, str] | None = None,
) -> pa.RecordBatchReader:
    """Return the rows of a job, batch by batch, and write nothing.

    DuckDB, Polars, pandas, PyIceberg, deltalake and Arrow Flight take such a reader. It reads the
    files as it is read, once, in one process, with a few thousand messages in memory at a time.

    Its columns are those of the good rows and those of the quarantine: a message that `run` would
    write to the quarantine is a row with ``error_code``, ``error_clause``, ``error_offset`` and
    ``error_text``, its bytes and the place where it stands; the others have null there.

    Args:
        source: a file, a folder with what is below it, or a pattern.
        job: what to do; ``Job("decode")`` where None.
        form: ``parquet``, or one of `amqp10msg.files.FORMS`; found out where None.
        options: those of `run` that are about reading.

    Raises:
        ValueError: the job cannot be done on this input, or an option is wrong.
        OSError: there is no such file, or it cannot be read; of Parquet, none is whole.
    """
    expect(job, (Job, NoneType), "the job of read", "a Job or None", {str: f"Job({job!r:.40})"})
    job = job or Job("decode")
    given = dict(options or {})
    refuse_unknown(given, READING)
    reading = Reading.of(given)
    size = number_of(given, "rangeBytes", RANGE_OCTETS, "bytes")
    found = input_of(str(source), form, lambda _: size)
    job.check(found.names)
    if found.rows is not None:
        job.check_types(found.rows.schema)
    made = _rows(found, attrs.evolve(reading, rows=found.rows), job)
    first = next(made, None) or _rows_of(_none_of(found), job)
    schema = _both(first)
    return pa.RecordBatchReader.from_batches(
        schema, (_as(schema, one) for rows in chain([first], made) for one in rows)
    )


# The good rows of a batch, and the others.
_Rows = tuple[pa.RecordBatch, pa.RecordBatch]


def _rows(found: Input, reading: Reading, job: Job) -> Iterator[_Rows]:
    for part in found.parts:
        for batch in reading.batches(part):
            for _, rows in in_pieces(batch, lambda piece: _rows_of(piece, job)):
                yield rows


def _rows_of(batch: pa.RecordBatch, job: Job) -> _Rows:
    return job.run(batch, Stats())


def _none_of(found: Input) -> pa.RecordBatch:
    """Return a batch of the input without rows."""
    schema = MESSAGES if found.rows is None else found.rows.schema
    return pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in schema], schema=schema)


def _both(rows: _Rows) -> pa.Schema:
    good, bad = (part.schema for part in rows)
    return pa.schema([*good, *(field for field in bad if field.name not in good.names)])


def _as(schema: pa.Schema, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch with these columns, null where it has none."""
    names = batch.schema.names
    arrays = [
        batch.column(field.name) if field.name in names else pa.nulls(batch.num_rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
