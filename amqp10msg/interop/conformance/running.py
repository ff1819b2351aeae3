"""All cases and one implementation: workers, each with a process, and a journal to resume from."""

from __future__ import annotations

import hashlib
import json
import os
import queue
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import IO, Any, Self

import attrs

from amqp10msg import __version__
from amqp10msg.files.atomic import write_whole
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
    todo = list(cases)
    launch = prepare(peer, environments)
    first = _start(peer, launch, timeout, memory)
    done = _Journal(journal, _told(peer, first.name, timeout, memory))
    with done:
        team = _Team(done, on_result)
        for case in todo:
            team.add(case)
        programs = _programs(first, peer, launch, min(jobs, team.left), timeout, memory)
        # `Thread.join` takes a thread that it was interrupted in for one that has ended, until
        # CPython 3.13: its program would be left running.
        with ThreadPoolExecutor(max(1, len(programs))) as pool:
            working = [pool.submit(team.work, one) for one in programs]
            try:
                wait(working)
            except BaseException:
                team.stop()
                for program in programs:
                    program.timeout = _SOON
                    program.close()
                raise
    if team.fault is not None:
        raise team.fault
    return PeerResults(peer.name, first.name, [done.results[digest_of(case)] for case in todo])


def _told(peer: Peer, name: str, timeout: float, memory: int) -> dict[str, Any]:
    """Return what results depend on besides their cases, as a journal begins with it."""
    words = (str(driver_of(peer)), *peer.command)
    # A script among them is too long for Path.is_file, which says so.
    files = [Path(word) for word in words if os.path.isfile(word)]  # noqa: PTH113
    digests = [hashlib.sha256(path.read_bytes()).hexdigest() for path in files]
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


class _Team:
    """Workers that take cases from one queue."""

    def __init__(self, journal: _Journal, on_result: Callable[[Result], None] | None) -> None:
        self.cases: queue.SimpleQueue[Case] = queue.SimpleQueue()
        self.journal = journal
        self.on_result = on_result or (lambda _: None)
        self.lock = threading.Lock()
        self.left = 0
        self.stopped = threading.Event()
        self.fault: BaseException | None = None

    def add(self, case: Case) -> None:
        """Take a case, unless its result is known."""
        known = self.journal.results.get(digest_of(case))
        if known is not None:
            self.on_result(known)
        else:
            self.cases.put(case)
            self.left += 1

    def stop(self) -> None:
        """Let the workers end; what they are asking now is not judged."""
        self.stopped.set()

    def work(self, program: Program) -> None:
        """Judge cases until none is left."""
        with program:
            while not self.stopped.is_set():
                try:
                    case = self.cases.get_nowait()
                except queue.Empty:
                    return
                try:
                    result = judge(case, program)
                    if self.stopped.is_set():
                        return
                    with self.lock:
                        self.journal.add(result)
                        self.on_result(result)
                except BaseException as error:  # noqa: BLE001 - the thread that joins raises it
                    self.fault = self.fault or error
                    self.stop()
                    return


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
        """Read the results, unless they are of something else; a last line that was cut is not."""
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return
        entries: list[Any] = []
        for line in lines:
            try:
                entries.append(json.loads(line))
            except ValueError:
                break
        if entries and entries[0] == self.told:
            for made in entries[1:]:
                result = Result.from_object(made)
                self.results[result.digest] = result

    def _write(self, made: Any) -> None:
        if self._file is not None:
            self._file.write(json.dumps(made) + "\n")
            self._file.flush()

    def add(self, result: Result) -> None:
        """Keep a result, on the disk first."""
        self._write(result.to_object())
        self.results[result.digest] = result
