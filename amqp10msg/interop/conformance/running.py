"""Run cases against an implementation in parallel processes, resuming an interrupted run."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import queue
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import IO, Any, Self

import attrs

from amqp10msg import __version__
from amqp10msg.atomic_files import write_whole
from amqp10msg.interop.conformance.judging import judge
from amqp10msg.interop.conformance.peers import Launch, Peer, PeerError, driver_of, prepare
from amqp10msg.interop.conformance.results import PeerResults, Result, digest_of
from amqp10msg.interop.corpus import Case, Program

# After an interruption, the answer timeout in seconds. It stops a case that `judge` then repeats.
_INTERRUPTED_TIMEOUT = 0.01


def run(
    peer: Peer,
    cases: Iterable[Case],
    *,
    jobs: int = 1,
    timeout: float = 5.0,
    memory: int = 1 << 30,
    environments: Path | None = None,
    journal: Path | None = None,
    on_result: Callable[[Result], None] | None = None,
    on_resumed: Callable[[int], None] | None = None,
) -> PeerResults:
    """Test one implementation with cases.

    Args:
        peer: the implementation; its environment is created if it is missing.
        cases: the cases, as `corpus.load` returns them.
        jobs: number of processes that run cases in parallel.
        timeout: for one answer, in seconds; a case that exceeds it is repeated before it counts as
            a hang.
        memory: resident memory that a process may use, in bytes.
        environments: the folder for environments; the user's cache if None.
        journal: a file to which each result is appended immediately. Results that it already
            contains are reused, unless their case, the implementation, its driver, a file of its
            command, `timeout`, `memory` or the version of amqp10msg has changed.
        on_result: called with each result, in any order, from one thread at a time.
        on_resumed: called with the number of results that are reused from the journal, if any.

    Raises:
        PeerError: the implementation cannot be installed or started. The notes of the exception
            contain what the program wrote to standard error.
        OSError: the journal cannot be read or written.
    """
    ordered_cases = list(cases)
    launch = prepare(peer, environments)
    first = _start(peer, launch, timeout, memory)
    report_result = on_result or (lambda _: None)
    stored = _Journal(journal, _journal_header(peer, first.name, timeout, memory))
    with stored:
        pending = []
        for case in ordered_cases:
            known_result = stored.results.get(digest_of(case))
            if known_result is None:
                pending.append(case)
            else:
                report_result(known_result)
        if on_resumed is not None and len(pending) < len(ordered_cases):
            on_resumed(len(ordered_cases) - len(pending))
        programs = _programs(first, peer, launch, min(jobs, len(pending)), timeout, memory)
        _judge_all(pending, programs, stored, report_result)
    return PeerResults(
        peer.name, first.name, [stored.results[digest_of(case)] for case in ordered_cases]
    )


def _judge_all(
    cases: list[Case],
    programs: list[Program],
    journal: _Journal,
    on_result: Callable[[Result], None],
) -> None:
    """Judge the cases in parallel, one per program at a time; close the programs at the end."""
    lock, stopped = threading.Lock(), threading.Event()
    idle: queue.SimpleQueue[Program] = queue.SimpleQueue()
    for program in programs:
        idle.put(program)

    def judge_case(case: Case) -> None:
        program = idle.get()
        try:
            if stopped.is_set():
                return
            result = judge(case, program)
            with lock:
                if not stopped.is_set():
                    journal.add(result)
                    on_result(result)
        except BaseException:
            stopped.set()  # immediately, so that this thread starts no other case
            raise
        finally:
            idle.put(program)

    # Before CPython 3.13, an interrupted `Thread.join` marks a running thread as ended, so the pool
    # does not wait for it. The stack makes sure that all programs are closed.
    with contextlib.ExitStack() as stack:
        for program in programs:
            stack.callback(program.close)
        pool = stack.enter_context(ThreadPoolExecutor(max(1, len(programs))))
        try:
            for future in as_completed([pool.submit(judge_case, case) for case in cases]):
                future.result()
        except BaseException:
            stopped.set()  # discard the cases in progress
            pool.shutdown(wait=False, cancel_futures=True)
            for program in programs:
                program.timeout = _INTERRUPTED_TIMEOUT
                program.close()
            raise


def _journal_header(peer: Peer, name: str, timeout: float, memory: int) -> dict[str, Any]:
    """Return the first line of a journal: the name, and a hash of the inputs except the cases."""
    words = (str(driver_of(peer)), *peer.command)
    # A word may be an inline script, for which Path.is_file raises "File name too long".
    files = [Path(word) for word in words if os.path.isfile(word)]  # noqa: PTH113
    digests = []
    for path in files:
        # Suppress the error for a program that may be executed, but not read.
        with contextlib.suppress(OSError), path.open("rb") as file:
            digests.append(hashlib.file_digest(file, "sha256").hexdigest())
    inputs = (__version__, attrs.astuple(peer), digests, timeout, memory)
    return {"name": name, "of": hashlib.sha256(repr(inputs).encode()).hexdigest()}


def _start(peer: Peer, launch: Launch, timeout: float, memory: int) -> Program:
    """Start a peer's program. Raises PeerError, with the program's stderr as a note."""
    try:
        # Wait for the name for a minute or longer: starting an interpreter from disk may be slow.
        program = Program(
            launch.command,
            timeout=max(timeout, 60.0),
            memory=memory,
            environment=launch.environment,
            folder=launch.folder,
        )
    except (OSError, RuntimeError) as error:
        failure = PeerError(f"{peer.name} does not start: {error}")
        for note in getattr(error, "__notes__", ()):
            failure.add_note(note)
        raise failure from None
    program.timeout = timeout
    return program


def _programs(
    first: Program, peer: Peer, launch: Launch, count: int, timeout: float, memory: int
) -> list[Program]:
    """Return `count` running programs: `first`, and new ones. If `count` is 0, close `first`."""
    if count <= 0:
        first.close()
        return []
    programs = [first]
    try:
        programs += [_start(peer, launch, timeout, memory) for _ in range(count - 1)]
    except PeerError:
        first.close()
        raise
    return programs


class _Journal:
    """The results by digest of the case, and a file, if any, to which results are appended."""

    def __init__(self, path: Path | None, header: dict[str, Any]) -> None:
        self.path = path
        self.header = header
        self.results: dict[str, Result] = {}
        self._file: IO[str] | None = None

    def __enter__(self) -> Self:
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._read(self.path)
            lines = [self.header, *(result.to_object() for result in self.results.values())]
            write_whole(self.path, "".join(json.dumps(line) + "\n" for line in lines))
            self._file = self.path.open("a", encoding="utf-8")
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def _read(self, path: Path) -> None:
        """Read the results before the first invalid line; none if the header is different."""
        try:
            lines = path.read_bytes().split(b"\n")
        except FileNotFoundError:
            return
        for number, line in enumerate(lines):
            try:
                content = json.loads(line)
                if number:
                    result = Result.from_object(content)
                    self.results[result.digest] = result
                elif content != self.header:
                    return
            except (ValueError, RecursionError):
                return

    def _write(self, content: Any) -> None:
        if self._file is not None:
            self._file.write(json.dumps(content) + "\n")
            self._file.flush()

    def add(self, result: Result) -> None:
        """Append a result to the file, then keep it in memory."""
        self._write(result.to_object())
        self.results[result.digest] = result
