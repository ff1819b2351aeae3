"""``python -m fuzz.stored``: damaged files and answers that bridges and jobs read.

The targets are lines of messages (quarantine, recordings), messages of a queue that hold such
lines, files of routes, answers of a management API, counts and notes of jobs, positions in SQLite
files, and content headers of AMQP 0-9-1. Each input gives a value or the one documented kind of
error of its target. Sound lines next to a damaged line are read.

An input that breaks this is kept in fuzz/findings.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from amqp10msg import Message
from amqp10msg.basic import BasicProperties, decode_content_header, encode_content_header
from amqp10msg.files.text import load_json, load_object
from amqp10msg.jobs._stats import Stats
from amqp10msg.jobs.writing import PartResult
from amqp10msg.net.bridge import parse_url, read_quarantine
from amqp10msg.net.bridge.management import Management, queues_of
from amqp10msg.net.bridge.records import Positions
from amqp10msg.net.bridge.routes import read_routes
from amqp10msg.net.bridge.topology import plan
from amqp10msg.net.ends.entries import Entry, entries_in
from amqp10msg.net.ends.files import _line_in
from amqp10msg.net.ends.terms import Outgoing
from amqp10msg.validation.rules import RuleCount
from amqp10msg.wire.errors import DecodeError
from fuzz.columns import FINDINGS
from fuzz.findings import Findings
from fuzz.mutate import mutate
from fuzz.notations import spoilt

#: A place of a document is replaced, or else bytes of its text.
_SPOILT = 0.5

_BASIC = encode_content_header(BasicProperties(message_id="m", headers={"a": 1}), 2)
_LINES: list[Any] = [
    {"raw": Message("x").encode().hex(), "time": "t", "reason": "rejected", "redelivered": True},
    {
        "raw": (_BASIC + b"xy").hex(),
        "protocol": "0-9-1",
        "content_header": len(_BASIC),
        "exchange": "e",
        "routing_key": "k",
        "message_format": 0,
    },
    {"raw_file": "large.bin", "protocol": "0-9-1"},
    {"base64": "AFN3oQF4"},
]
_GOOD = json.dumps({"raw": Message("good").encode().hex()}).encode()
_ROUTES = [
    b"[[route]]\nfrom='amqp091://h/?queue=a'\nto='amqp://h/q'\nname='r'\nwindow=5\n",
    (
        b"[defaults]\nidle=1.5\n[[route]]\nfrom=['amqp://a/q','amqp://b/q']\nto='file:x'\n"
        b"filter='a = 1'\nquarantine='q.jsonl'\n"
    ),
]
_QUEUE = {
    "name": "q",
    "type": "classic",
    "messages": 1,
    "durable": True,
    "policy": "p",
    "effective_policy_definition": {"ha-mode": "all"},
    "arguments": {"x-max-length": 5},
}
_ANSWERS: dict[str, Any] = {
    "overview": {"rabbitmq_version": "4.0.5"},
    "queues": {"items": [_QUEUE], "page_count": 1},
    "exchanges": [{"name": "e", "type": "fanout", "durable": True, "arguments": {}}],
    "bindings": [
        {"source": "e", "destination": "q", "destination_type": "queue", "routing_key": "k"}
    ],
    "policies": [{"name": "p", "pattern": ".*", "definition": {"a": 1}}],
}


def _counts() -> dict[str, Any]:
    stats = Stats(3, 100, 1, 0)
    stats.rules["truncated"] = RuleCount("Part 1, 1.2", 1, "x@0", text="cut off")
    stats.sizes[5] = stats.hours[400_000] = 3
    stats.losses["header.priority", "dropped"] = 2
    stats.reasons["header.priority", "dropped"] = (False, "no place for it")
    return stats.as_json()


def _damaged(document: Any, draw: random.Random) -> bytes:
    """Return a document with one place or some bytes changed."""
    if draw.random() < _SPOILT:
        return json.dumps(spoilt(document, draw)).encode()
    return mutate([json.dumps(document).encode()], draw)


class _Answers(Management):
    """A management API with given answers."""

    def __init__(self, answers: dict[str, bytes]) -> None:
        super().__init__("http://localhost", parse_url("amqp091://localhost/?queue=q"))
        self._answers = answers

    def _ask(self, url: str, method: str = "GET", body: bytes | None = None) -> bytes:
        assert (method, body) == ("GET", None)
        path = url.removeprefix("http://localhost/api/")
        return self._answers[path.partition("/")[0].partition("?")[0]]


class Targets:
    """What is fuzzed: each method reads one damaged input, which it returns first as bytes.

    Args:
        folder: an empty folder for the files.
        draw: the source of chance.
    """

    def __init__(self, folder: Path, draw: random.Random) -> None:
        self.folder = folder
        self.draw = draw
        self._stats = _counts()
        self._answers = {kind: json.dumps(value).encode() for kind, value in _ANSWERS.items()}
        (folder / "large.bin").write_bytes(_BASIC + b"xy")
        with contextlib.closing(Positions(folder / "sound.db", "r", active=True)):
            pass
        self._database = (folder / "sound.db").read_bytes()

    def lines(self) -> tuple[bytes, Callable[[], object]]:
        """A damaged line between two sound ones."""
        octets = _damaged(self.draw.choice(_LINES), self.draw).replace(b"\n", b" ")

        def read() -> None:
            path = self.folder / "q.jsonl"
            path.write_bytes(b"\n".join([_GOOD, octets, _GOOD, b""]))
            for protocol in ("1.0", "0-9-1"):
                found = list(entries_in(path, max_message=1 << 16, protocol=protocol))
                if protocol == "1.0":
                    assert isinstance(found[0], Entry), found[0]
                    assert isinstance(found[-1], Entry), found[-1]
                assert 2 <= len(found) <= 3
            with contextlib.suppress(ValueError):
                list(read_quarantine(path))

        return octets, read

    def queue(self) -> tuple[bytes, Callable[[], object]]:
        """A message of a queue that holds a damaged line."""
        octets = _damaged(self.draw.choice(_LINES), self.draw)

        def read() -> None:
            for outgoing in (
                Outgoing(octets, _BASIC),
                Outgoing(Message(octets).encode()),
                Outgoing(octets),
            ):
                with contextlib.suppress(ValueError):
                    assert "raw_file" not in json.loads(_line_in(outgoing))

        return octets, read

    def routes(self) -> tuple[bytes, Callable[[], object]]:
        """A damaged file of routes."""
        octets = mutate(_ROUTES, self.draw)

        def read() -> None:
            path = self.folder / "routes.toml"
            path.write_bytes(octets)
            with contextlib.suppress(ValueError):
                read_routes(path)

        return octets, read

    def management(self) -> tuple[bytes, Callable[[], object]]:
        """A damaged answer of the management API."""
        kind = self.draw.choice(sorted(_ANSWERS))
        octets = _damaged(_ANSWERS[kind], self.draw)

        def read() -> None:
            api = _Answers({**self._answers, kind: octets})
            for ask in (
                lambda: [str(step) for step in plan(api, api, {"q": "q"})],
                lambda: queues_of(api),
                api.version,
            ):
                with contextlib.suppress(ValueError, OSError):  # OSError is a LinkError
                    ask()

        return octets, read

    def counts(self) -> tuple[bytes, Callable[[], object]]:
        """Damaged counts of a job, and the damaged note of a part."""
        octets = _damaged(self._stats, self.draw)
        note = _damaged({"files": ["messages/a.parquet"], "stats": self._stats}, self.draw)

        def read() -> None:
            with contextlib.suppress(ValueError):
                stats, total = Stats.from_json(load_json(octets)), Stats()
                total.add(stats)
                assert str(total)
            with contextlib.suppress(ValueError):
                PartResult.from_json(load_object(note))

        return octets, read

    def positions(self) -> tuple[bytes, Callable[[], object]]:
        """A damaged file of positions."""
        octets = mutate([self._database], self.draw)

        def read() -> None:
            path = self.folder / "state.db"
            for suffix in ("-wal", "-shm"):
                Path(f"{path}{suffix}").unlink(missing_ok=True)
            path.write_bytes(octets)
            with contextlib.suppress(OSError):
                Positions(path, "r", active=True).close()

        return octets, read

    def headers(self) -> tuple[bytes, Callable[[], object]]:
        """A damaged content header of AMQP 0-9-1."""
        octets = mutate([_BASIC], self.draw)

        def read() -> None:
            with contextlib.suppress(DecodeError):
                decode_content_header(octets)

        return octets, read


#: How often each target is tried, of 100 inputs; files on disk take longest.
TARGETS = {
    "lines": 10,
    "queue": 20,
    "routes": 10,
    "management": 20,
    "counts": 19,
    "positions": 1,
    "headers": 20,
}


def run(inputs: int, seed: int, findings: Findings) -> int:
    """Try so many inputs; return how many were tried, which is fewer after many findings."""
    draw = random.Random(seed)
    names, weights = list(TARGETS), list(TARGETS.values())
    with tempfile.TemporaryDirectory() as folder:
        targets = Targets(Path(folder), draw)
        for _ in range(inputs):
            name = draw.choices(names, weights)[0]
            octets, read = getattr(targets, name)()
            with findings.kept(octets, name):
                read()
    return inputs


def main() -> int:
    """Run until the inputs are used up; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m fuzz.stored", description=__doc__)
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--findings", type=Path, default=FINDINGS)
    chosen = parser.parse_args()
    findings = Findings(chosen.findings, "stored")
    begin = time.perf_counter()
    done = run(chosen.inputs, chosen.seed, findings)
    print(f"{done} inputs, {findings.count} findings, {time.perf_counter() - begin:.0f} s")
    return 1 if findings.count else 0


if __name__ == "__main__":
    raise SystemExit(main())
