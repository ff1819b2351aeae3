"""Run a job on this machine, and write its rows to a folder or return them as Arrow batches.

`run` uses one process per core. Each process works on one part of the input at a time.
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
from amqp10msg.files.stores import StoreError, StoreLocation
from amqp10msg.jobs._stats import Stats
from amqp10msg.jobs.inputs import (
    READING_OPTIONS,
    Part,
    Reading,
    find_input,
    known_options,
    positive_option,
)
from amqp10msg.jobs.job import Job
from amqp10msg.jobs.output import Output, open_output, read_stats
from amqp10msg.jobs.parquet import ParquetTable
from amqp10msg.jobs.store_output import StoreOutput
from amqp10msg.jobs.writing import WRITING_OPTIONS, PartResult
from amqp10msg.wire.kernel import COMPILED

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
from itertools import chain

import pyarrow as pa

from amqp10msg.columns import in_pieces
from amqp10msg.jobs.inputs import MESSAGE_SCHEMA, RANGE_BYTES, Input
from amqp10msg.wire.errors import expect

#: The behaviour if the output folder exists, to raise an error, add files to it, or replace it.
Mode = Literal["error", "append", "overwrite"]
#: A function that is called with the number of finished parts and the number of all parts.
Progress = Callable[[int, int], None]
# How much input, in bytes, is worth another process: a process starts in about a second, and works
# on this input for a few seconds. The three values are for jobs of different speed: column by
# column in the kernel; in the kernel with a fallback for many messages; message by message.
_COLUMN_BYTES_PER_PROCESS, _TYPICAL_BYTES_PER_PROCESS, _MESSAGE_BYTES_PER_PROCESS = (
    256 << 20,
    32 << 20,
    4 << 20,
)
# Limits on the size of a part. With smaller parts, there would be too many output files. With
# larger parts, most workers would be idle while the last part is processed.
_MIN_PART_BYTES, _MAX_PART_BYTES = 4 << 20, 128 << 20
_PARTS_PER_WORKER = 4


class JobError(RuntimeError):
    """A job failed, for example because of a file, the disk or the lack of memory."""


class InterruptedJobError(JobError):
    """A job was interrupted, for example by a killed worker. Running it again resumes it."""


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
    """Run a job on files on this machine, and write the result to a folder.

    The folder contains Parquet files in ``messages/`` and ``quarantine/``. It is written under a
    temporary name and renamed when the job is complete, so that it never contains partial results.
    If the folder exists, the mode ``overwrite`` replaces it by the new folder, and ``append`` moves
    the new files into it. If the job is killed before all files are moved, the next job moves them
    back.

    In an object store, files are written at their final keys. The file ``_amqp10msg.json``, which
    is written last, lists the files of finished jobs. `made_files`, and jobs that read the folder,
    use only the listed files; a plain listing of the folder also shows files of unfinished jobs.

    With several workers, each process imports the main module again: scripts must call this
    function under ``if __name__ == "__main__":``.

    Args:
        source: a file, a folder (read recursively) or a pattern; a path, or the URL of an object
            store: ``s3://``, ``gs://`` or ``abfss://``.
        path: the output folder, as a path or a URL.
        job: the job to run.
        form: the input format, a name in `amqp10msg.files.FORMATS`; None to recognise it.
        mode: if the folder exists, ``error`` raises FileExistsError, ``append`` adds files to it,
            and ``overwrite`` replaces it.
        options: ``rangeBytes``: the size of a part, in bytes. ``maxSize``: the maximum size of a
            message, in bytes. ``expansionRatio`` and ``zeroWidth``: limits on decompression and
            empty records, as in `amqp10msg.Limits`. ``compression``: the compression of the Parquet
            files, by default ``snappy``. ``protocol``, ``address``, ``since``, ``until`` and
            ``selector``: filters on the messages, as in `amqp10msg.spark.Amqp10`. For Parquet,
            ``address`` needs a column with this name, times need ``time`` or ``received``, and
            ``zeroWidth`` is refused, because `expansionRatio` limits the rows.
        workers: the number of processes; with 1, the job runs in this process. None for one process
            per core, or fewer if the input is small.
        progress: called after each part.

    Returns:
        The counts of the job. `read_stats` reads them from the output folder.

    Raises:
        ValueError: the job does not fit the input, or an option is invalid.
        OSError: a file does not exist or cannot be read, or no Parquet file is intact.
        BlockingIOError: another job is writing to the folder; or, in an object store, another job
            has committed to the folder since this job began.
        FileExistsError: the folder exists and `mode` is ``error``; or a folder in a store has files
            that no job wrote, and `mode` is not ``overwrite``.
        JobError: the job failed; its files have been removed.
        InterruptedJobError: a worker was killed, memory ran out, or an object store failed.
            Finished parts are kept next to the folder, also after Ctrl-C. To resume the job, run
            the same job again.
        TypeError: `job` is not a Job, but for example its name.
    """
    expect(job, Job, "the job of run", "a Job", {str: f"Job({job!r:.40})"})
    check_mode(mode)
    if workers is not None and workers < 1:
        raise ValueError(f"workers must be 1 or more, got {workers}")
    # Validate all options before any file is written.
    settings = known_options(options, (*READING_OPTIONS, *WRITING_OPTIONS))
    reading = Reading.from_options(settings)
    output = open_output(path, settings)
    cores = _core_count() if workers is None else workers

    def size_of_part(octets: int) -> int:
        preferred = max(
            _MIN_PART_BYTES, min(_MAX_PART_BYTES, octets // (cores * _PARTS_PER_WORKER))
        )
        return positive_option(settings, "rangeBytes", preferred, "bytes")

    job_input = find_input(str(source), form, size_of_part)
    check_input(job_input, job, reading)
    count = min(cores, len(job_input.parts))
    if workers is None:
        count = min(count, 1 + job_input.octets // _bytes_per_process(job))
    run_parts = _run_in_this_process if count <= 1 else _run_in_pool
    work = Work(output, job, settings, job_input.table)
    report_progress = progress or (lambda _done, _total: None)

    def run_remaining(parts: Sequence[Part], results: dict[int, PartResult]) -> None:
        run_parts(work, parts, count, report_progress, results)

    run_and_publish(work, job_input.parts, run_remaining, mode=mode)
    return read_stats(path)


def run_and_publish(
    work: Work,
    parts: Sequence[Part],
    run_remaining: Callable[[Sequence[Part], dict[int, PartResult]], None],
    *,
    mode: Mode,
) -> None:
    """Run all parts of a job and publish the output. After an error, remove the output.

    If the job is interrupted, finished parts are kept, with which the same job can be resumed.

    Args:
        work: the job and its output.
        parts: the parts of the input.
        run_remaining: called with the parts and {part number: result}. It must run the parts
            without a result, and add their results to the dict.
        mode: see `run`.

    Raises:
        BlockingIOError: another job is writing to the folder.
        FileExistsError: the folder exists, and `mode` is ``error``.
        ValueError: the input is inside the folder to overwrite.
    """
    output, overwrite = work.output, mode == "overwrite"
    if overwrite:
        _refuse_to_overwrite_input(output.path, parts)
    with output.guarded():
        output.reject_foreign_files(overwrite=overwrite)
        key = work.key(parts)
        if mode == "error" and not output.has_plan(key):
            refuse_existing(output)
        planned, results = output.resume(
            key, [[attrs.astuple(item) for item in part] for part in parts], overwrite=overwrite
        )
        # If no parts are planned, an earlier run was killed after it had committed all files.
        if mode == "error" and planned:
            refuse_existing(output)
        try:
            remaining = [tuple(Range(*item) for item in part) for part in planned]
            if remaining:
                run_remaining(remaining, results)
            output.commit(
                [results[number] for number in range(len(remaining))], overwrite=overwrite
            )
        except (KeyboardInterrupt, InterruptedJobError):
            if not results:
                _discard_output(output)
            raise
        except BaseException:
            _discard_output(output)
            raise


def refuse_existing(output: Output | StoreOutput) -> None:
    """Raise FileExistsError if the output exists."""
    if output.exists():
        output.remove_if_empty()
        message = "the output exists already: use another folder, or the mode append or overwrite"
        name = output.path.url if isinstance(output.path, StoreLocation) else str(output.path)
        raise FileExistsError(errno.EEXIST, message, name)


def check_input(job_input: Input, job: Job, reading: Reading) -> None:
    """Raise ValueError if the job or an option for reading does not fit the input."""
    job.check(job_input.names)
    if job_input.table is not None:
        job.check_types(job_input.table.schema)
        reading.check_schema(job_input.table.schema)


def check_mode(mode: str) -> None:
    """Raise ValueError if `mode` is not in `Mode`."""
    if mode not in get_args(Mode):
        raise ValueError(f"mode must be one of {', '.join(get_args(Mode))}, got {mode!r}")


def _refuse_to_overwrite_input(folder: Path | StoreLocation, parts: Sequence[Part]) -> None:
    """Raise ValueError if the output folder contains an input file: it would be deleted."""
    for path in {item.path for part in parts for item in part}:
        if stores.is_below(path, folder):
            raise ValueError(
                f"{path} is an input file in the folder to overwrite, and would be deleted: write "
                "to another folder, or use the mode append"
            )


def _discard_output(output: Output | StoreOutput) -> None:
    """Remove the unfinished output. If the object store fails, the next job removes the files."""
    with suppress(StoreError):
        output.abort()


def _bytes_per_process(job: Job) -> int:
    """Return how much input, in bytes, is worth another process for this job."""
    if not COMPILED or (job.kind == "translate" and job.profile not in {None, "lossless"}):
        return _MESSAGE_BYTES_PER_PROCESS
    if job.kind in {"decode", "profile"} and job.profile is None:
        return _COLUMN_BYTES_PER_PROCESS
    return _TYPICAL_BYTES_PER_PROCESS


def _core_count() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@attrs.frozen
class Work:
    """A function object that runs a job on one part; it can be pickled for a worker process."""

    output: Output | StoreOutput
    job: Job
    options: Mapping[str, str]
    table: ParquetTable | None

    def __call__(self, number: int, part: Part, attempt: int = 0) -> PartResult:
        """Run the job on one part, and save its result; see `Output.write`."""
        reading = attrs.evolve(
            Reading.from_options(self.options), table=self.table, column=self.job.column
        )
        left_out: list[int] = []
        batches = reading.batches(part, _as_job_error, left_out.append)
        result = self.output.write(number, attempt, batches, self.job)
        result.stats.left_out = sum(left_out)
        self.output.save_result(number, result)
        return result

    def key(self, parts: Sequence[Part]) -> str:
        """Return a hash of the job, its options, and the current state of the input files.

        The hash identifies an interrupted job that can be resumed.
        """
        paths = sorted({item.path for part in parts for item in part})
        file_states = stores.map_files(stores.state_of, paths)
        states = [
            (path, *attrs.astuple(state)) for path, state in zip(paths, file_states, strict=True)
        ]
        forms = {item.form for part in parts for item in part}
        facts = (__version__, self.job, sorted(self.options.items()), states, sorted(forms))
        return hashlib.sha256(repr(facts).encode()).hexdigest()


def _run_in_this_process(
    work: Work,
    parts: Sequence[Part],
    _count: int,
    progress: Progress,
    results: dict[int, PartResult],
) -> None:
    for number, part in enumerate(parts):
        if number not in results:
            with _as_job_error(part):
                results[number] = work(number, part)
            progress(len(results), len(parts))


def _run_in_pool(
    work: Work,
    parts: Sequence[Part],
    count: int,
    progress: Progress,
    results: dict[int, PartResult],
) -> None:
    """Run the parts without a result in a pool of `count` processes."""
    # Do not fork, because forked processes would lack the threads of Arrow.
    context = get_context("spawn")
    worker_end, parent_end = context.Pipe(duplex=False)
    with ProcessPoolExecutor(count, context, _initialize_worker, (worker_end,)) as pool:
        try:
            with _block_interrupts():
                remaining = [(n, part) for n, part in enumerate(parts) if n not in results]
                futures = {pool.submit(work, n, part): n for n, part in remaining}
            for future in as_completed(futures):
                number = futures[future]
                with _as_job_error(parts[number]):
                    results[number] = future.result()
                progress(len(results), len(parts))
        finally:
            if len(results) < len(parts):
                parent_end.close()  # makes the workers exit: see `_initialize_worker`
                pool.shutdown(cancel_futures=True)
    parent_end.close()
    worker_end.close()


def _initialize_worker(lifeline: Connection) -> None:
    """Prepare a worker to ignore Ctrl-C, and to exit when the parent process ends or is killed.

    `lifeline` is a pipe that the parent keeps open.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # for Windows, which has no signal masks

    def wait_for_parent() -> None:
        with suppress(EOFError, OSError):
            lifeline.recv_bytes()  # blocks until the parent closes the pipe
        os._exit(1)

    threading.Thread(target=wait_for_parent, daemon=True).start()


@contextmanager
def _block_interrupts() -> Iterator[None]:
    """Block SIGINT while workers start.

    The workers inherit the signal mask, so that Ctrl-C stops only the parent.
    """
    if not hasattr(signal, "pthread_sigmask"):  # on Windows
        yield
        return
    old_mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, old_mask)


@contextmanager
def _as_job_error(part: Part) -> Iterator[None]:
    """Convert exceptions to a `JobError` or `InterruptedJobError` that contains the part's path."""
    location = part[0].path + (" and others" if len(part) > 1 else "")
    try:
        yield
    except JobError:
        raise
    except BrokenProcessPool as error:
        raise InterruptedJobError(
            "a worker was killed, by a signal or because memory ran out. Run the same job again to "
            "resume it; fewer workers need less memory"
        ) from error
    except MemoryError as error:
        raise InterruptedJobError(
            f"{location}: memory ran out. Run the same job again to resume it, with fewer workers "
            "or smaller row groups"
        ) from error
    except Exception as error:
        message = str(error)
        if isinstance(error, StoreError):
            raise InterruptedJobError(f"{message}: run the same job again to resume it") from error
        if isinstance(error, OSError) and error.filename not in {
            None,
            *(item.path for item in part),
        }:
            raise JobError(f"{error.filename}: {error.strerror}") from error
        if not message.startswith(tuple(item.path for item in part)):
            message = f"{location}: {type(error).__name__}: {message}"
        raise JobError(message) from error


# Reading the rows of a job as Arrow batches, without writing files.


def read(
    source: str | Path,
    job: Job | None = None,
    *,
    form: str | None = None,
    options: Mapping[str, str] | None = None,
) -> pa.RecordBatchReader:
    """Return the rows of a job as a RecordBatchReader, without writing files.

    DuckDB, Polars, pandas, PyIceberg, deltalake and Arrow Flight accept a RecordBatchReader. It can
    be read once. The job runs lazily in this process, with a few thousand messages in memory at a
    time.

    The columns of good rows are followed by the columns of the quarantine. A message that `run`
    would quarantine has its bytes, its location, ``error_code``, ``error_clause``, ``error_offset``
    and ``error_text`` in these columns, which are null in good rows.

    Args:
        source: a file, a folder (read recursively) or a pattern.
        job: the job to run; None for ``Job("decode")``.
        form: the input format, a name in `amqp10msg.files.FORMATS`; None to recognise it.
        options: the options of `run`, without ``compression``.

    Raises:
        ValueError: the job does not fit the input, or an option is invalid.
        OSError: a file does not exist or cannot be read, or no Parquet file is intact.
    """
    expect(job, (Job, NoneType), "the job of read", "a Job or None", {str: f"Job({job!r:.40})"})
    job = job or Job("decode")
    settings = known_options(options, READING_OPTIONS)
    reading = Reading.from_options(settings)
    size = positive_option(settings, "rangeBytes", RANGE_BYTES, "bytes")
    job_input = find_input(str(source), form, lambda _: size)
    check_input(job_input, job, reading)
    reading = attrs.evolve(reading, table=job_input.table, column=job.column)
    results = _result_batches(job_input, reading, job)
    first = next(results, None) or _run_batch(_empty_batch(job_input), job)
    schema = _merged_schema(first)
    return pa.RecordBatchReader.from_batches(
        schema, (_with_columns(schema, batch) for rows in chain([first], results) for batch in rows)
    )


# (good rows, quarantined rows)
_Rows = tuple[pa.RecordBatch, pa.RecordBatch]


def _result_batches(job_input: Input, reading: Reading, job: Job) -> Iterator[_Rows]:
    """Yield (good rows, quarantined rows) for each batch of the input, or for pieces of a batch."""
    for part in job_input.parts:
        for batch in reading.batches(part):
            for _, rows in in_pieces(batch, lambda piece: _run_batch(piece, job)):
                yield rows


def _run_batch(batch: pa.RecordBatch, job: Job) -> _Rows:
    return job.run(batch, Stats())


def _empty_batch(job_input: Input) -> pa.RecordBatch:
    """Return an input batch without rows, with which `read` finds the schema for empty input."""
    schema = MESSAGE_SCHEMA if job_input.table is None else job_input.table.schema
    return pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in schema], schema=schema)


def _merged_schema(good_and_bad: _Rows) -> pa.Schema:
    """Return the columns of good rows, then the further columns of quarantined rows."""
    good, bad = (batch.schema for batch in good_and_bad)
    return pa.schema([*good, *(field for field in bad if field.name not in good.names)])


def _with_columns(schema: pa.Schema, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch with the columns of `schema`; missing columns are null."""
    names = batch.schema.names
    arrays = [
        batch.column(field.name) if field.name in names else pa.nulls(batch.num_rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
