"""All cases and one implementation: workers, each with a process, and a journal to resume from."""

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

# How long a program is asked that was ended since the run was interrupted, in s.
_SOON = 0.01


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
) -> PeerResults:
    """Test one implementation with cases.

    Args:
        peer: the implementation; its environment is made where it is missing.
        cases: as `corpus.load` returns them.
        jobs: how many processes of it to ask at the same time.
        timeout: for one answer, in seconds; what takes longer is asked again before it is a hang.
        memory: that a process may take, resident, in bytes.
        environments: where environments are kept; the user's cache if None.
        journal: a file to which each result is added at once; the results of the same cases that it
            holds are taken from there, unless the implementation, its driver, a file of its
            command, a bound or this library is another one.
        on_result: called with each result, in any order, from one thread at a time.

    Raises:
        PeerError: the implementation cannot be installed or started.
        OSError: the journal cannot be read or written.
    """
    listed = list(cases)
    launch = prepare(peer, environments)
    first = _start(peer, launch, timeout, memory)
    show = on_result or (lambda _: None)
    done = _Journal(journal, _told(peer, first.name, timeout, memory))
    with done:
        todo = []
        for case in listed:
            known = done.results.get(digest_of(case))
            if known is None:
                todo.append(case)
            else:
                show(known)
        programs = _programs(first, peer, launch, min(jobs, len(todo)), timeout, memory)
        _judge_all(todo, programs, done, show)
    return PeerResults(peer.name, first.name, [done.results[digest_of(case)] for case in listed])


def _judge_all(
    cases: list[Case],
    programs: list[Program],
    journal: _Journal,
    on_result: Callable[[Result], None],
) -> None:
    """Judge cases, as many at a time as there are programs, and end these."""
    lock, stopped = threading.Lock(), threading.Event()
    idle: queue.SimpleQueue[Program] = queue.SimpleQueue()
    for program in programs:
        idle.put(program)

    def ask(case: Case) -> None:
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
            stopped.set()  # before this thread takes another case
            raise
        finally:
            idle.put(program)

    # `Thread.join` takes a thread that it was interrupted in for one that has ended, until CPython
    # 3.13: its program would be left running.
    with contextlib.ExitStack() as stack:
        for program in programs:
            stack.callback(program.close)
        pool = stack.enter_context(ThreadPoolExecutor(max(1, len(programs))))
        try:
            for one in as_completed([pool.submit(ask, case) for case in cases]):
                one.result()
        except BaseException:
            stopped.set()  # what is asked now is not judged
            pool.shutdown(wait=False, cancel_futures=True)
            for program in programs:
                program.timeout = _SOON
                program.close()
            raise


def _told(peer: Peer, name: str, timeout: float, memory: int) -> dict[str, Any]:
    """Return the first line of a journal: on this, results depend besides their cases."""
    words = (str(driver_of(peer)), *peer.command)
    # A script among them is too long for Path.is_file, which says so.
    files = [Path(word) for word in words if os.path.isfile(word)]  # noqa: PTH113
    digests = []
    for path in files:
        with contextlib.suppress(OSError), path.open("rb") as file:  # one that may only be run
            digests.append(hashlib.file_digest(file, "sha256").hexdigest())
    told = (__version__, attrs.astuple(peer), digests, timeout, memory)
    return {"name": name, "of": hashlib.sha256(repr(told).encode()).hexdigest()}


def _start(peer: Peer, launch: Launch, timeout: float, memory: int) -> Program:
    try:
        # The first start of an interpreter on a cold disk takes longer than any answer.
        program = Program(
            launch.command,
            timeout=max(timeout, 60.0),
            memory=memory,
            environment=launch.environment,
            folder=launch.folder,
        )
    except (OSError, RuntimeError) as error:
        raise PeerError(f"{peer.name} does not start: {error}") from None
    program.timeout = timeout
    return program


def _programs(
    first: Program, peer: Peer, launch: Launch, count: int, timeout: float, memory: int
) -> list[Program]:
    """Return this many running programs, the first one among them."""
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
    """Results by the digests of their cases, and the file that they are added to."""

    def __init__(self, path: Path | None, told: dict[str, Any]) -> None:
        self.path = path
        self.told = told
        self.results: dict[str, Result] = {}
        self._file: IO[str] | None = None

    def __enter__(self) -> Self:
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._read(self.path)
            known = [self.told, *(one.to_object() for one in self.results.values())]
            write_whole(self.path, "".join(json.dumps(made) + "\n" for made in known))
            self._file = self.path.open("a", encoding="utf-8")
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def _read(self, path: Path) -> None:
        """Read the results, unless they are of something else, up to a line that is damaged."""
        try:
            lines = path.read_bytes().split(b"\n")
        except FileNotFoundError:
            return
        for number, line in enumerate(lines):
            try:
                made = json.loads(line)
                if number:
                    result = Result.from_object(made)
                    self.results[result.digest] = result
                elif made != self.told:
                    return
            except (ValueError, RecursionError):
                return

    def _write(self, made: Any) -> None:
        if self._file is not None:
            self._file.write(json.dumps(made) + "\n")
            self._file.flush()

    def add(self, result: Result) -> None:
        """Keep a result, on the disk first."""
        self._write(result.to_object())
        self.results[result.digest] = result
