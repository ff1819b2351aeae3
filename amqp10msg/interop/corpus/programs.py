"""Run an implementation as a separate program that answers requests in JSON lines and may crash."""

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

#: Seconds between two checks of a program's memory.
_MEMORY_CHECK_INTERVAL = 0.02
#: Maximum length of a program's last error line in an exception, in characters.
_MAX_STDERR_CHARS = 400
#: Maximum size of `Program.stderr` in bytes: a program may write without end.
_MAX_STDERR_BYTES = 1 << 20


#: The key of the result in the answer to each request.
_RESULT_KEYS = {
    "decode": "typed",
    "encode": "data",
    "again": "data",
    "validate": "violations",
    "answer": "answer",
}


class DiedError(RuntimeError):
    """A program crashed on a request, or exceeded its timeout or memory limit and was killed.

    Attributes:
        how: ``crash`` (the program ended by itself), ``hang`` (the program did not answer before
            the timeout) or ``memory`` (the program exceeded the memory limit).
    """

    def __init__(self, how: Literal["crash", "hang", "memory"], reason: str) -> None:
        super().__init__(reason)
        self.how: Literal["crash", "hang", "memory"] = how


class Program:
    """An implementation in a separate program, for example in another language.

    The program reads one request per line from standard input and writes one answer per line::

        {"do": "name"}                                          {"name": "rhea 3.0.5"}
        {"do": "decode", "kind": "value", "data": "4301"}       {"refused": "why"}
        {"do": "decode", "kind": "value", "data": "5201"}       {"typed": ["uint", 1]}
        {"do": "encode", "kind": "value", "typed": ["uint", 1]} {"data": "5201"}
        {"do": "again", "kind": "value", "data": "5201"}        {"data": "5201"}
        {"do": "validate", "data": "…", "profile": "oasis"}     {"unsupported": "no rules"}
        {"do": "answer", "kind": "filter", "data": "…", "given": {…}}   {"answer": true}

    A refusal may contain ``rule`` and ``offset``. A request may contain ``"limits": {…}``. If the
    program decodes the data, but cannot show the value, it answers ``{"typed": null}``. ``again``
    decodes the data and encodes the result. The answer to ``validate`` is
    ``{"violations": [[rule, severity, offset], …]}``, in which the offset is optional. If the
    program has ended or was killed, the next request restarts it. The context manager ends the
    program at exit.

    Args:
        command: the program and its arguments.
        timeout: time limit for one answer, in seconds.
        memory: limit of the program's resident memory, in bytes. Ignored on systems without
            ``/proc``.
        environment: environment variables to add to those of this process.
        folder: the program's working directory; the current one if None.

    Attributes:
        name: the name that the program reports.

    Raises:
        OSError: the program cannot be started.
        RuntimeError: the program does not answer with its name. The notes of the exception contain
            what the program wrote to standard error.
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
        self._stderr_at_end = ""
        try:
            self.name = str(self.ask({"do": "name"}).get("name") or self.command[0])
        except BaseException as error:
            if text := self.stderr:
                error.add_note(f"standard error of {self.command[0]}:\n{text}")
            self.close()
            raise

    def decode(self, kind: str, data: bytes) -> Any:
        """Have the program decode bytes. Raises the exceptions of `ask`."""
        return self.ask({"do": "decode", "kind": kind, "data": data.hex()})["typed"]

    def encode(self, kind: str, typed: Any) -> bytes:
        """Have the program encode typed JSON. Raises the exceptions of `ask`."""
        text = self.ask({"do": "encode", "kind": kind, "typed": typed})["data"]
        try:
            return bytes.fromhex(text)
        except (TypeError, ValueError):
            raise RuntimeError(f"the answer's data is not hex: {text!r:.200}") from None

    def validate(self, data: bytes, profile: str) -> Iterable[Sequence[Any]]:
        """Have the program validate a message. Raises the exceptions of `ask`."""
        request = {"do": "validate", "data": data.hex(), "profile": profile}
        answer: Any = self.ask(request)["violations"]
        if not (isinstance(answer, list) and all(isinstance(row, list) for row in answer)):
            raise RuntimeError(f"the answer's violations are not lists: {answer!r:.200}")
        violations: list[Sequence[Any]] = answer
        return violations

    def ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Send a request and return the answer.

        Raises:
            UnsupportedError: the program reports that it lacks the function.
            RefusedError: the program reports that the bytes are invalid.
            DiedError: the program crashed, or exceeded its timeout or memory limit.
            RuntimeError: the program reports an error, or its answer is not a JSON object with the
                key that the request requires.
        """
        line = self._exchange(json.dumps(request).encode() + b"\n")
        try:
            answer = json.loads(line)  # `load_object` would refuse deeply nested cases
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
        key = _RESULT_KEYS.get(request.get("do", ""))
        if key is not None and key not in answer:
            raise RuntimeError(
                f"the answer to {request['do']} has none of the keys {key}, refused, unsupported "
                f"and error: {json.dumps(answer):.200}"
            )
        return answer

    @property
    def stderr(self) -> str:
        """The text that the program wrote to standard error since the last request.

        For the first request, and for a program that a failed request ended, it begins with the
        start of the program. Of more than 1 MiB, the last bytes are returned, and the other bytes
        are counted.
        """
        return self._process.stderr_text() if self._process else self._stderr_at_end

    def close(self) -> None:
        """End the program. The next request restarts it."""
        process, self._process = self._process, None
        if process is not None:
            process.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _exchange(self, request: bytes) -> bytes:
        """Write a request line and return the answer line; start the program if necessary."""
        if self._process is None:
            self._process = _Process(self)
        try:
            return self._process.exchange(request, self.timeout)
        except RuntimeError:
            self._stderr_at_end = self._process.stderr_text(from_start=True)
            self.close()
            raise


class _Process:
    """A running program. A thread reads its output, so that waiting for a line can time out."""

    def __init__(self, program: Program) -> None:
        memory = program.memory
        self.stderr = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        try:
            self.popen = subprocess.Popen(  # noqa: S603 - the user chooses the program
                program.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self.stderr,
                env={**os.environ, **program.environment},
                cwd=program.folder,
                # A new process group: `_kill` can kill the program with its children, and Ctrl-C
                # does not reach the program.
                start_new_session=True,
            )
        except OSError:
            self.stderr.close()
            raise
        self.lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self.exceeded_memory = 0
        self.requests = 0
        self.stderr_offset = 0  # size of stderr at the beginning of the last request
        threads = [threading.Thread(target=self._read_lines, daemon=True)]
        if memory is not None and sys.platform == "linux":
            threads.append(threading.Thread(target=self._watch_memory, args=(memory,), daemon=True))
        for thread in threads:
            thread.start()
        self.threads = threads

    def _read_lines(self) -> None:
        for line in self.popen.stdout or ():
            self.lines.put(line)
        self.lines.put(b"")

    def _watch_memory(self, memory: int) -> None:
        """Kill the program when it exceeds `memory` bytes."""
        max_pages = memory // os.sysconf("SC_PAGE_SIZE")
        statm = Path(f"/proc/{self.popen.pid}/statm")
        while self.popen.returncode is None:
            try:
                resident = int(statm.read_bytes().split()[1])
            except (OSError, IndexError, ValueError):  # the program has ended
                return
            if resident > max_pages:
                self.exceeded_memory = memory
                self._kill()
                return
            time.sleep(_MEMORY_CHECK_INTERVAL)

    def exchange(self, request: bytes, timeout: float) -> bytes:
        """Write a request line and return the answer line."""
        if self.requests:
            self.stderr_offset = self._stderr_size()
        self.requests += 1
        if not self.lines.empty():
            unread = self.lines.get()
            if unread:  # fail: this request and all later ones would get the previous answer
                raise RuntimeError(f"the program wrote a line without a request: {unread[:200]!r}")
            self.lines.put(unread)
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
            self.popen.wait(1)  # the output closes shortly before the process ends
        if self.exceeded_memory:
            mib = self.exceeded_memory >> 20
            raise DiedError("memory", f"the program used more than {mib:,} MiB and was killed")
        raise DiedError("crash", f"the program ended without an answer{self._describe_exit()}")

    def _stderr_size(self) -> int:
        return os.fstat(self.stderr.fileno()).st_size

    def stderr_text(self, *, from_start: bool = False) -> str:
        """Return the text on stderr since the last request, or since the program started."""
        end = self._stderr_size()
        first = 0 if from_start else self.stderr_offset
        start = max(first, end - _MAX_STDERR_BYTES)
        # Not `seek`: the program shares the position in the file, and would write there.
        text = os.pread(self.stderr.fileno(), end - start, start).decode(errors="replace")
        return f"({start - first:,} bytes before this)\n{text}" if start > first else text

    def _describe_exit(self) -> str:
        """Return the signal or exit status and the last error line, to append to an error text."""
        status = self.popen.returncode
        description = ""
        if status is not None and status < 0:
            try:
                description = f": {signal.Signals(-status).name}"
            except ValueError:
                description = f": signal {-status}"
        elif status:
            description = f", status {status}"
        self.stderr.seek(0, os.SEEK_END)
        self.stderr.seek(max(0, self.stderr.tell() - 4096))
        lines = self.stderr.read().decode(errors="replace").strip().splitlines()
        return f"{description}: {_error_line(lines)[-_MAX_STDERR_CHARS:]}" if lines else description

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.popen.pid, signal.SIGKILL)

    def close(self) -> None:
        """Kill the program and its children, close its pipes and join the threads."""
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
        self.stderr.close()


#: Matches the line with the error in the stderr of a Python, JavaScript, Java, Go or Rust program.
_ERROR_LINE = re.compile(
    r"\s*(?:Uncaught |Exception in thread |Caused by: |panic: |fatal error: |thread '.*' panicked"
    r"|[\w.$]*(?:Error|Exception)\b)"
)


def _error_line(lines: Sequence[str]) -> str:
    """Return the last line of a program's stderr that contains an error, or else the last line.

    The error is not always in the last line: Node writes its version after it, Java the stack
    trace.
    """
    return next((line.strip() for line in reversed(lines) if _ERROR_LINE.match(line)), lines[-1])
