"""A whole job on one machine: one process per core, each with a part of the files at a time."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from amqp10msg import COMPILED
from amqp10msg.files import Range
from amqp10msg.jobs._job import Job
from amqp10msg.jobs._stats import Stats
from amqp10msg.jobs.inputs import Reading, input_of
from amqp10msg.jobs.output import Done, Output, read_stats

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

#: Called with how many parts are done, and how many there are.
Progress = Callable[[int, int], None]
# Bytes of input that are worth a process of their own, which takes about a second to start: some
# seconds of work, column by column in the kernel and message by message outside of it.
_WORTH_BY_COLUMN, _WORTH_BY_MESSAGE = 256 << 20, 4 << 20
# Parts are not smaller, so that files are not too many, and not larger, so that the last one to end
# is not much later than the others.
_LEAST, _MOST = 4 << 20, 128 << 20
_PARTS_OF_WORKER = 4


class JobError(RuntimeError):
    """A job failed: not by its messages, but by a file, a disk, memory, or a process killed."""


def run(
    source: str | Path,
    path: str | Path,
    job: Job,
    *,
    form: str | None = None,
    overwrite: bool = False,
    options: Mapping[str, str] | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
) -> Stats:
    """Do a job on files on this machine, and write its result below a folder.

    The folder has ``messages/`` and ``quarantine/`` of Parquet. It is made elsewhere and renamed
    when all is done: it is there whole or not at all. With `overwrite` and a folder that is there,
    the two are exchanged; without, the files are moved into it one by one.

    Several workers are processes that import the main module anew: a script calls this under
    ``if __name__ == "__main__":``.

    Args:
        source: a file, a folder with what is below it, or a pattern.
        path: the folder. Where it exists, it is added to, or replaced with `overwrite`.
        job: what to do.
        form: ``parquet``, or one of `amqp10msg.files.FORMS`; found out where None.
        overwrite: replace what is there.
        options: ``rangeBytes``, how much of a file a worker takes at a time; ``maxSize``, bytes
            that one message may take; ``compression`` of the Parquet files, ``snappy`` where it is
            not given; ``protocol``, ``address``, ``since``, ``until`` and ``selector``, which leave
            messages of files out, as `amqp10msg.spark.Amqp10` has them.
        workers: how many processes. With 1, this process does it all. Where None, as many as there
            are cores, and no more than the input is worth.
        progress: called when a part is done.

    Returns:
        The counts, as `read_stats` reads them.

    Raises:
        ValueError: the job cannot be done on this input, or an option is wrong.
        OSError: there is no such file, or it cannot be read.
        JobError: it failed, or a worker was killed. Nothing of it is left.
    """
    given = dict(options or {})
    if workers is not None and workers < 1:
        raise ValueError(f"at least 1 worker is needed, not {workers}")
    Reading.of(given)  # raises where one is wrong, before anything is made
    cores = _cores() if workers is None else workers

    def size_of_part(octets: int) -> int:
        best = max(_LEAST, min(_MOST, octets // (cores * _PARTS_OF_WORKER)))
        return int(given.get("rangeBytes", best))

    found = input_of(str(source), form, size_of_part)
    job.check(found.names)
    output = Output(path, given.get("compression", "snappy"))
    count = min(cores, len(found.parts))
    if workers is None:
        is_by_column = COMPILED and job.kind in {"decode", "profile"} and job.profile is None
        worth = _WORTH_BY_COLUMN if is_by_column else _WORTH_BY_MESSAGE
        count = min(count, 1 + found.octets // worth)
    do = _alone if count <= 1 else _together
    work = Work(output, job, given)
    show = progress or (lambda _done, _total: None)
    carry_out(output, lambda: do(work, found.parts, count, show), overwrite=overwrite)
    return read_stats(path)


def carry_out(output: Output, do: Callable[[], Sequence[Done]], *, overwrite: bool) -> None:
    """Do all parts and publish the folder, or leave nothing of it."""
    output.abort()  # what a job left behind that was killed
    try:
        output.commit(do(), overwrite=overwrite)
    except BaseException:  # Ctrl-C, too
        output.abort()
        raise


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@attrs.frozen
class Work:
    """The work on each part, as it is sent to the workers."""

    output: Output
    job: Job
    options: Mapping[str, str]

    def __call__(self, number: int, part: Range, attempt: int = 0) -> Done:
        """Do the job on one part; see `Output.write`."""
        return self.output.write(number, attempt, Reading.of(self.options).batches(part), self.job)


def _alone(work: Work, parts: Sequence[Range], _count: int, progress: Progress) -> list[Done]:
    done: list[Done] = []
    for number, part in enumerate(parts):
        with _faults_of(part):
            done.append(work(number, part))
        progress(len(done), len(parts))
    return done


def _together(work: Work, parts: Sequence[Range], count: int, progress: Progress) -> list[Done]:
    """Do the work in processes; return what they made in the order of the parts."""
    # No fork: Arrow has threads, and they would be missing in the children.
    context = get_context("spawn")
    theirs, ours = context.Pipe(duplex=False)
    done: dict[int, Done] = {}
    with ProcessPoolExecutor(count, context, _begin, (theirs,)) as pool:
        try:
            with _no_interrupts():
                futures = {pool.submit(work, n, part): n for n, part in enumerate(parts)}
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
    return [done[number] for number in range(len(parts))]


def _begin(lifeline: Connection) -> None:
    """End a worker when the job ends, even where the process that runs it is killed."""

    def watch() -> None:
        with suppress(EOFError, OSError):
            lifeline.recv_bytes()  # nothing is ever sent
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@contextmanager
def _no_interrupts() -> Iterator[None]:
    """Start processes that Ctrl-C, which a terminal sends to all of them, does not reach."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _faults_of(part: Range) -> Iterator[None]:
    """Raise `JobError` with the part that failed."""
    try:
        yield
    except BrokenProcessPool as error:
        raise JobError(
            "a worker was killed, by a signal or because memory ran out: "
            "fewer workers take less memory"
        ) from error
    except MemoryError as error:
        raise JobError(
            f"{part.path}: memory ran out: fewer workers, or smaller row groups, take less"
        ) from error
    except Exception as error:
        raise JobError(f"{part.path}: {type(error).__name__}: {error}") from error
