"""Implementations for `run`: this library, proton, and any program that speaks JSON lines."""

from __future__ import annotations

import contextlib
import json
import queue
import struct
import subprocess
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Self, cast

from amqp10msg import (
    COMPILED,
    DecodeError,
    Message,
    __version__,
    decode_value,
    encode_value,
)
from amqp10msg.composite import decode_composite, from_described
from amqp10msg.corpus.runner import RefusedError, UnsupportedError
from amqp10msg.limits import Limits
from amqp10msg.notation import from_typed, to_typed
from amqp10msg.sections import KINDS
from amqp10msg.validation import ProfileName, validate


class Amqp10msg:
    """This library.

    Args:
        strict: as in `Message.decode`.
        limits: what decoding may cost; the defaults of `Limits` if None.
    """

    def __init__(self, *, strict: bool = True, limits: Limits | None = None) -> None:
        self.strict = strict
        self.limits = limits
        kernel = "compiled" if COMPILED else "pure"
        self.name = f"amqp10msg {__version__} ({kernel}, {'strict' if strict else 'lenient'})"

    def limited(self, limits: Mapping[str, int]) -> Amqp10msg:
        """Return one that decodes within these limits."""
        return Amqp10msg(strict=self.strict, limits=Limits(**limits))

    def decode(self, kind: str, data: bytes) -> Any:
        """Decode bytes of this kind to typed JSON."""
        limits = self.limits
        try:
            if kind == "message":
                message = Message.decode(data, strict=self.strict, limits=limits)
                typed = to_typed(message)
                if any(section[0] == "raw" for section in typed):
                    Message.decode(data, limits=limits)  # says why this was kept and not read
                return typed
            if kind == "composite":
                return to_typed(decode_composite(data, limits=limits))
            return to_typed(decode_value(data, limits=limits))
        except DecodeError as error:
            raise RefusedError(str(error), error.rule, error.offset) from error

    def encode(self, kind: str, typed: Any) -> bytes:
        """Encode typed JSON of this kind."""
        made = from_typed(typed)
        if kind == "message":
            return bytes(made.encode())
        return encode_value(from_described(made) if kind == "composite" else made)

    def validate(self, data: bytes, profile: str) -> Iterable[tuple[str, str]]:
        """Return the rules that a message violates."""
        found = validate(data, cast("ProfileName", profile), limits=self.limits)
        return {(violation.rule, violation.severity) for violation in found}


class Proton:
    """python-qpid-proton: its codec (`proton.Data`), and `proton.Message` for what it refuses.

    It does not support composites, as proton has classes for outcomes and termini only in
    connections, nor encoding, as proton chooses other forms than the smallest ones.

    Raises:
        ImportError: python-qpid-proton is not installed.
    """

    def __init__(self) -> None:
        try:
            import proton  # noqa: PLC0415 - an extra
        except ImportError:
            raise ImportError(
                "python-qpid-proton is not installed: pip install 'amqp10msg[proton]'"
            ) from None
        self._proton = proton
        version = ".".join(str(number) for number in (proton.VERSION_MAJOR, proton.VERSION_MINOR))
        self.name = f"python-qpid-proton {version}"

    def decode(self, kind: str, data: bytes) -> Any:
        """Decode bytes of this kind to typed JSON."""
        if kind == "composite":
            raise UnsupportedError("proton has no composites outside connections")
        try:
            if kind == "message":
                self._proton.Message().decode(data)
                return self._sections(data)
            typed, used = self._value(data)
        except (self._proton.ProtonException, UnicodeDecodeError) as error:
            raise RefusedError(str(error)) from error
        if used != len(data):
            raise RefusedError(f"{len(data) - used} trailing bytes after the value")
        return typed

    def encode(self, kind: str, typed: Any) -> bytes:  # noqa: ARG002
        """Raise `UnsupportedError`."""
        raise UnsupportedError(f"proton does not encode a {kind} in the smallest form")

    def validate(self, data: bytes, profile: str) -> Iterable[tuple[str, str]]:
        """Raise `UnsupportedError`."""
        raise UnsupportedError(f"proton cannot validate {len(data)} bytes by {profile}")

    def _value(self, octets: bytes) -> tuple[Any, int]:
        data = self._proton.Data()
        used = data.decode(octets)
        data.rewind()
        data.next()
        return self._typed(data), used

    def _sections(self, octets: bytes) -> list[Any]:
        sections = []
        while octets:
            typed, used = self._value(octets)
            octets = octets[used:]
            if typed[0] != "described":
                raise RefusedError(f"{typed[0]} is not a section")
            _, descriptor, content = typed
            row = _SECTIONS.get(descriptor[1]) if descriptor[0] in ("ulong", "symbol") else None
            if row is None:
                sections.append(["unknown", typed])
            else:
                name, source = row
                sections.append([name, content[1] if content[0] == source else content])
        return sections

    def _typed(self, data: Any) -> list[Any]:
        kind = data.type()
        if kind is None:
            raise RefusedError("proton found no value")
        name = _PROTON_NAMES.get(data.type_names[kind], data.type_names[kind])
        if name == "described":
            return [name, *self._children(data)]
        if name == "list":
            return [name, self._children(data)]
        if name == "map":
            children = self._children(data)
            # Proton reads a key without a value; it stands alone here.
            return [name, [children[i : i + 2] for i in range(0, len(children), 2)]]
        if name == "array":
            _, described, element = data.get_array()
            children = self._children(data)
            descriptors = [[children.pop(0)]] if described else []
            of = data.type_names[element]
            return [name, _PROTON_NAMES.get(of, of), children, *descriptors]
        return _plain(name, data.get_object())

    def _children(self, data: Any) -> list[Any]:
        children = []
        data.enter()
        while data.next():
            children.append(self._typed(data))
        data.exit()
        return children


_PROTON_NAMES = {"bool": "boolean"}
_SECTIONS: dict[int | str, tuple[str, str]] = {
    key: (kind.name, kind.source) for kind in KINDS for key in (kind.code, kind.symbol)
}
_PLAIN: dict[str, Callable[[Any], Any]] = {
    "boolean": bool,
    "float": lambda value: struct.pack(">f", value).hex(),
    "double": lambda value: struct.pack(">d", value).hex(),
    "decimal32": lambda value: f"{int(value):08x}",
    "decimal64": lambda value: f"{int(value):016x}",
    "decimal128": lambda value: bytes(value).hex(),
    "char": ord,
    "uuid": lambda value: value.hex,
    "binary": lambda value: bytes(value).hex(),
    "string": str,
    "symbol": str,
}


def _plain(name: str, value: Any) -> list[Any]:
    return [name] if name == "null" else [name, _PLAIN.get(name, int)(value)]


class Program:
    """A program that answers JSON lines, such as an implementation in another language.

    It reads one request a line from its standard input and writes one answer a line::

        {"do": "name"}                                          {"name": "rhea 3.0.5"}
        {"do": "decode", "kind": "value", "data": "4301"}       {"refused": "why"}
        {"do": "decode", "kind": "value", "data": "5201"}       {"typed": ["uint", 1]}
        {"do": "encode", "kind": "value", "typed": ["uint", 1]} {"data": "5201"}
        {"do": "validate", "data": "…", "profile": "oasis"}     {"unsupported": "no rules"}

    A refusal may hold ``rule`` and ``offset``; the answer to ``validate`` is ``{"violations":
    [[rule, severity], …]}``. A program that ends or takes too long is started again for the next
    case. As a context manager, it ends the program.

    Args:
        command: the program and its arguments.
        timeout: for one answer, in seconds.

    Raises:
        OSError: the program cannot be started.
        RuntimeError: it does not answer with its name.
    """

    def __init__(self, command: Sequence[str], *, timeout: float = 10.0) -> None:
        self.command = list(command)
        self.timeout = timeout
        self._process: _Process | None = None
        self.name = str(self._ask({"do": "name"}).get("name") or self.command[0])

    def decode(self, kind: str, data: bytes) -> Any:
        """Ask the program to decode bytes of this kind."""
        return self._ask({"do": "decode", "kind": kind, "data": data.hex()})["typed"]

    def encode(self, kind: str, typed: Any) -> bytes:
        """Ask the program to encode typed JSON of this kind."""
        return bytes.fromhex(self._ask({"do": "encode", "kind": kind, "typed": typed})["data"])

    def validate(self, data: bytes, profile: str) -> Iterable[tuple[str, str]]:
        """Ask the program for the rules that a message violates."""
        answer = self._ask({"do": "validate", "data": data.hex(), "profile": profile})
        return [(rule, severity) for rule, severity in answer["violations"]]

    def close(self) -> None:
        """End the program."""
        process, self._process = self._process, None
        if process is not None:
            process.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        line = self._exchange(json.dumps(request).encode() + b"\n")
        try:
            answer = dict(json.loads(line))
        except (TypeError, ValueError):
            raise RuntimeError(f"the answer is not a JSON object: {line[:200]!r}") from None
        if "unsupported" in answer:
            raise UnsupportedError(str(answer["unsupported"]))
        if "refused" in answer:
            raise RefusedError(str(answer["refused"]), answer.get("rule"), answer.get("offset"))
        if "error" in answer:
            raise RuntimeError(str(answer["error"]))
        return answer

    def _exchange(self, request: bytes) -> bytes:
        if self._process is None:
            self._process = _Process(self.command)
        try:
            return self._process.exchange(request, self.timeout)
        except RuntimeError:
            self.close()
            raise


class _Process:
    """A running program, and a thread that reads its lines, so that reading can time out."""

    def __init__(self, command: Sequence[str]) -> None:
        self.popen = subprocess.Popen(  # noqa: S603 - the user says which program
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self.lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self) -> None:
        for line in self.popen.stdout or ():
            self.lines.put(line)
        self.lines.put(b"")

    def exchange(self, request: bytes, timeout: float) -> bytes:
        """Write a line and return the answer; RuntimeError if none comes in time."""
        try:
            if self.popen.stdin:
                self.popen.stdin.write(request)
                self.popen.stdin.flush()
            line = self.lines.get(timeout=timeout)
        except queue.Empty:
            raise RuntimeError(f"no answer from the program in {timeout} s") from None
        except OSError:
            line = b""
        if not line:
            raise RuntimeError("the program ended without an answer")
        return line

    def close(self) -> None:
        """End the program, its pipes and the thread."""
        self.popen.kill()
        self.reader.join()
        with contextlib.suppress(OSError):
            if self.popen.stdin:
                self.popen.stdin.close()
        if self.popen.stdout:
            self.popen.stdout.close()
        self.popen.wait()
