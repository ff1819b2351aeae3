"""Implementations in programs of their own, which answer JSON lines and may die on a case."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self

from amqp10msg.interop.corpus.implementations import RefusedError, UnsupportedError

#: How often the memory of a program is looked at, in s, and how much of its last words is kept.
_EVERY = 0.02
_LAST_WORDS = 400


class DiedError(RuntimeError):
    """A program did not survive a request, or was killed because it took too much.

    Attributes:
        how: ``crash`` (it ended by itself), ``hang`` (it took too long), ``memory`` (it took too
            much of that).
    """

    def __init__(self, how: Literal["crash", "hang", "memory"], reason: str) -> None:
        super().__init__(reason)
        self.how: Literal["crash", "hang", "memory"] = how


class Program:
    """A program that answers JSON lines, such as an implementation in another language.

    It reads one request a line from its standard input and writes one answer a line::

        {"do": "name"}                                          {"name": "rhea 3.0.5"}
        {"do": "decode", "kind": "value", "data": "4301"}       {"refused": "why"}
        {"do": "decode", "kind": "value", "data": "5201"}       {"typed": ["uint", 1]}
        {"do": "encode", "kind": "value", "typed": ["uint", 1]} {"data": "5201"}
        {"do": "again", "kind": "value", "data": "5201"}        {"data": "5201"}
        {"do": "validate", "data": "…", "profile": "oasis"}     {"unsupported": "no rules"}
        {"do": "answer", "kind": "filter", "data": "…", "given": {…}}   {"answer": true}

    A refusal may hold ``rule`` and ``offset``. ``decode`` may be asked with ``"limits": {…}``, and
    answered with ``{"typed": null}`` by an implementation that reads, but cannot show what it read.
    ``again`` is decoding, and encoding what was decoded. The answer to ``validate`` is
    ``{"violations": [[rule, severity, offset], …]}``, the offset if the program knows it. A program
    that ends, takes too long or takes too much memory is started again for the next request. As a
    context manager, it ends the program.

    Args:
        command: the program and its arguments.
        timeout: for one answer, in seconds.
        memory: of the program, resident, in bytes; where there is no ``/proc`` there is no limit.
        environment: variables of the program beside those of this process.
        folder: where it runs; the current one if None.

    Attributes:
        name: what the program calls itself.

    Raises:
        OSError: the program cannot be started.
        RuntimeError: the program does not answer with its name.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        timeout: float = 10.0,
        memory: int | None = None,
        environment: Mapping[str, str] | None = None,
        folder: Path | None = None,
    ) -> None:
        self.command = list(command)
        self.timeout = timeout
        self.memory = memory
        self.environment = dict(environment or {})
        self.folder = folder
        self._process: _Process | None = None
        try:
            self.name = str(self.ask({"do": "name"}).get("name") or self.command[0])
        except BaseException:
            self.close()
            raise

    def decode(self, kind: str, data: bytes) -> Any:
        """Ask the program to decode bytes of this kind; raise what `ask` raises."""
        return self._answer("typed", {"do": "decode", "kind": kind, "data": data.hex()})

    def encode(self, kind: str, typed: Any) -> bytes:
        """Ask the program to encode typed JSON of this kind; raise what `ask` raises."""
        text = self._answer("data", {"do": "encode", "kind": kind, "typed": typed})
        try:
            return bytes.fromhex(text)
        except (TypeError, ValueError):
            raise RuntimeError(f"the answer's data is not hex: {text!r:.200}") from None

    def validate(self, data: bytes, profile: str) -> Iterable[Sequence[Any]]:
        """Ask the program for the rules that a message violates; raise what `ask` raises."""
        request = {"do": "validate", "data": data.hex(), "profile": profile}
        found: Any = self._answer("violations", request)
        if not (isinstance(found, list) and all(isinstance(one, list) for one in found)):
            raise RuntimeError(f"the answer's violations are not lists: {found!r:.200}")
        violations: list[Sequence[Any]] = found
        return violations

    def _answer(self, key: str, request: Mapping[str, Any]) -> Any:
        """Return the value of `key` in the answer to a request.

        Raises:
            RuntimeError: the answer lacks the key. Otherwise what `ask` raises.
        """
        answer = self.ask(request)
        if key not in answer:
            raise RuntimeError(f"the answer lacks {key!r}: {answer!r:.200}")
        return answer[key]

    def ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Send a request and return the answer.

        Raises:
            UnsupportedError: the program says that it has no such function.
            RefusedError: it says that the bytes are not valid.
            DiedError: it ended, took too long or took too much memory.
            RuntimeError: it says that it failed, or its answer is not a JSON object.
        """
        line = self._exchange(json.dumps(request).encode() + b"\n")
        try:
            answer = json.loads(line)  # not `load_object`: values of cases have more levels
        except (ValueError, RecursionError):
            answer = None
        if not isinstance(answer, dict):
            raise RuntimeError(f"the answer is not a JSON object: {line[:200]!r}")  # noqa: TRY004  (documented)
        if "unsupported" in answer:
            raise UnsupportedError(str(answer["unsupported"]))
        if "refused" in answer:
            rule, offset = answer.get("rule"), answer.get("offset")
            if not isinstance(rule, str | None) or not (offset is None or type(offset) is int):
                raise RuntimeError(
                    "the answer is a refusal whose rule must be a string and whose offset an "
                    f"integer, not {rule!r:.40} and {offset!r:.40}"
                )
            raise RefusedError(str(answer["refused"]), rule, offset)
        if "error" in answer:
            raise RuntimeError(str(answer["error"]))
        return answer

    def close(self) -> None:
        """End the program; another request starts it again."""
        process, self._process = self._process, None
        if process is not None:
            process.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _exchange(self, request: bytes) -> bytes:
        if self._process is None:
            self._process = _Process(self)
        try:
            return self._process.exchange(request, self.timeout)
        except RuntimeError:
            self.close()
            raise


class _Process:
    """A running program, and a thread that reads its lines, so that reading can time out."""

    def __init__(self, program: Program) -> None:
        memory = program.memory
        self.last_words = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        try:
            self.popen = subprocess.Popen(  # noqa: S603 - the user says which program
                program.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self.last_words,
                env={**os.environ, **program.environment},
                cwd=program.folder,
                start_new_session=True,  # what it starts ends with it, and Ctrl-C is for us
            )
        except OSError:
            self.last_words.close()
            raise
        self.lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self.too_large = 0
        threads = [threading.Thread(target=self._read, daemon=True)]
        if memory is not None and sys.platform == "linux":
            threads.append(threading.Thread(target=self._watch, args=(memory,), daemon=True))
        for thread in threads:
            thread.start()
        self.threads = threads

    def _read(self) -> None:
        for line in self.popen.stdout or ():
            self.lines.put(line)
        self.lines.put(b"")

    def _watch(self, memory: int) -> None:
        """End the program once it takes more than it may."""
        pages = memory // os.sysconf("SC_PAGE_SIZE")
        place = Path(f"/proc/{self.popen.pid}/statm")
        while self.popen.returncode is None:
            try:
                resident = int(place.read_bytes().split()[1])
            except (OSError, IndexError, ValueError):  # it ended
                return
            if resident > pages:
                self.too_large = memory
                self._kill()
                return
            time.sleep(_EVERY)

    def exchange(self, request: bytes, timeout: float) -> bytes:
        """Write a line and return the answer."""
        if not self.lines.empty():
            more = self.lines.get()
            if more:  # it would be taken for the answer to this request, and so on
                raise RuntimeError(f"a line that answers nothing came before: {more[:200]!r}")
            self.lines.put(more)
        try:
            if self.popen.stdin:
                self.popen.stdin.write(request)
                self.popen.stdin.flush()
            line = self.lines.get(timeout=timeout)
        except queue.Empty:
            raise DiedError("hang", f"no answer from the program in {timeout:g} s") from None
        except OSError:
            line = b""
        if line.endswith(b"\n"):
            return line
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.popen.wait(1)  # its output ends before it does
        if self.too_large:
            mib = self.too_large >> 20
            raise DiedError("memory", f"the program took more than {mib:,} MiB and was ended")
        raise DiedError("crash", f"the program ended without an answer{self._how()}")

    def _how(self) -> str:
        """Return how the program ended, and what it said last."""
        status = self.popen.returncode
        how = ""
        if status is not None and status < 0:
            try:
                how = f": {signal.Signals(-status).name}"
            except ValueError:
                how = f": signal {-status}"
        elif status:
            how = f", status {status}"
        self.last_words.seek(0, os.SEEK_END)
        self.last_words.seek(max(0, self.last_words.tell() - 4096))
        lines = self.last_words.read().decode(errors="replace").strip().splitlines()
        return f"{how}: {_error_in(lines)[-_LAST_WORDS:]}" if lines else how

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.popen.pid, signal.SIGKILL)

    def close(self) -> None:
        """End the program and what it started, its pipes and the threads."""
        if self.popen.poll() is None:
            self._kill()
        self.popen.wait()
        for thread in self.threads:
            thread.join()
        with contextlib.suppress(OSError):
            if self.popen.stdin:
                self.popen.stdin.close()
        if self.popen.stdout:
            self.popen.stdout.close()
        self.last_words.close()


#: How the lines begin that say what ended a program: Python, JavaScript, Java, Go and Rust.
_ERROR = re.compile(
    r"\s*(?:Uncaught |Exception in thread |Caused by: |panic: |fatal error: |thread '.*' panicked"
    r"|[\w.$]*(?:Error|Exception)\b)"
)


def _error_in(lines: Sequence[str]) -> str:
    """Return the line of a program's last output that says what was wrong, or else the last one.

    Node writes its version after the error, and Java the places after the exception.
    """
    return next((line.strip() for line in reversed(lines) if _ERROR.match(line)), lines[-1])
