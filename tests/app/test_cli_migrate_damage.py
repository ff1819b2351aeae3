"""``amqp10msg migrate`` with a damaged quarantine or state file."""

from __future__ import annotations

import json
import os
import sqlite3
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("click.testing")
pytest.importorskip("jinja2")
pytest.importorskip("pika")

from amqp10msg.net.bridge import read_quarantine
from tests.basic_broker import Stored
from tests.bridging import numbered, short_waits
from tests.cut_over import cut, cut_of_a_stream

pytestmark = pytest.mark.once

SECRET = "nobody may read this"


@pytest.fixture(autouse=True)
def _quick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in a folder with files that a line must not name, next to a secret."""
    (tmp_path / "secret").write_text(SECRET)
    folder = tmp_path / "folder"
    (folder / "inside").mkdir(parents=True)
    monkeypatch.chdir(folder)
    Path("small").write_bytes(b"12345")
    Path("link").symlink_to("../secret")
    Path("loop").symlink_to("loop")
    os.mkfifo("pipe")
    short_waits(monkeypatch, management_lag=0.05, query_interval=0.1, count_lag=0.3)


_FIRST = numbered(1)[0]
MESSAGE = (_FIRST.header + _FIRST.body).hex()
#: None of these names a regular file in the folder of the test.
NAMES = ("/etc/passwd", "../secret", "/dev/zero", "link", "loop", "pipe", "inside", "nope", "a\0b")
SIZES: tuple[Any, ...] = (-1, 10**10, None, True, 1.5, "1", [])
LINES = [
    *({"raw_file": name} for name in NAMES),
    *({"raw_file": "small", "protocol": "0-9-1", "content_header": size} for size in SIZES),
    *({"raw": MESSAGE, "protocol": "0-9-1", "content_header": size} for size in SIZES),
    {"raw_file": "x" * 5_000},
    {"raw": "zz"},
    {"raw": "00", "protocol": "2.0"},
    {"raw": "00", "route": 5},
]
TEXTS = ["[" * 200_000, "5", "\xff", '{"raw": "00', '{"raw": "00", "raw": "01"}', "x" * (1 << 20)]


def refusing(line: str) -> Callable[[Stored], str]:
    """Refuse message 3, when somebody else adds a line to the quarantine."""

    def refuses(stored: Stored) -> str:
        if stored.body != b"3":
            return ""
        with Path("quarantine.jsonl").open("ab") as file:
            file.write(line.encode("latin-1") + b"\n")
        return "nack"

    return refuses


def test_invalid_quarantine_lines_do_not_break_a_migration() -> None:
    lines = [*(json.dumps({"route": "a", **one}) for one in LINES), *TEXTS]
    with cut(names=("a",)) as found:
        found.new.refuses = refusing("\n".join(lines))
        done = found.run("--patience", "0", status=5)

    assert ["a: 1 message in quarantine: nacked", "done: 1 queue"] == done.output.splitlines()[-2:]
    for text in (done.output, Path("r.json").read_text(), Path("r.html").read_text()):
        assert SECRET not in text


def test_invalid_line_is_named_if_a_message_is_missing() -> None:
    with cut(names=("a",)) as found:
        refuses = refusing('{"raw": 5}')
        lost: list[Stored] = []

        def loses(stored: Stored) -> str:
            if len(found.new.queues["a"]) == 2 and not lost:  # confirmed, and lost
                lost.append(found.new.queues["a"].pop())
            return refuses(stored)

        found.new.refuses = loses
        done = found.run("--patience", "0", status=6)

    assert 1 == len(lost)
    (said,) = (line for line in done.output.splitlines() if "may be in the quarantine" in line)
    assert "quarantine.jsonl, line 1: not a message" in said


def test_lines_before_the_migration_are_not_loaded_into_memory() -> None:
    size = 64 << 20
    with Path("quarantine.jsonl").open("wb") as file:
        file.truncate(size)
        file.seek(size)
        file.write(b'{"raw": "00"}\n')

    tracemalloc.start()
    try:
        (entry,) = read_quarantine(Path("quarantine.jsonl"), size)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert b"\0" == entry.octets
    assert peak < size // 8


def _database(*statements: str) -> Callable[[Path], object]:
    def make(path: Path) -> None:
        base = sqlite3.connect(path)
        base.executescript(";".join(statements))
        base.close()

    return make


def _broken_pages(path: Path) -> None:
    _database("CREATE TABLE position (route, next)")(path)
    octets = path.read_bytes()
    path.write_bytes(octets[:100] + b"\xff" * 300 + octets[400:])


def _cut_off(path: Path) -> None:
    rows = ",".join(f"('{number}', {number})" for number in range(3_000))
    _database("CREATE TABLE position (route, next)", f"INSERT INTO position VALUES {rows}")(path)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


_POSITION = "CREATE TABLE position (route, next)"
#: Damage of a file, by name; only a stream has positions.
FILES: dict[str, Callable[[Path], object]] = {
    "garbage": lambda path: path.write_bytes(b"garbage" * 100),
    "pipe": os.mkfifo,
    "loop": lambda path: path.symlink_to(path.name),
    "zero": lambda path: path.symlink_to("/dev/zero"),
    "full": lambda path: path.symlink_to("/dev/full"),
    "dangling": lambda path: path.symlink_to("nowhere/at/all"),
    "text": lambda path: path.symlink_to("../secret"),
    "broken pages": _broken_pages,
    "cut off": _cut_off,
    "other columns": _database("CREATE TABLE position (a)", "CREATE TABLE accepted (a)"),
}
VALUES = ("'text'", "-5", "NULL", "1.5", "x'00'")
POSITIONS = {
    f"position {value}": _database(_POSITION, f"INSERT INTO position VALUES ('s', {value})")
    for value in VALUES
}


@pytest.mark.parametrize(
    "option, damage",
    [
        *(("--state", damage) for damage in (*FILES, *POSITIONS)),
        *(("--deduplicate", damage) for damage in ("garbage", "pipe", "loop", "other columns")),
    ],
)
def test_a_damaged_file_ends_a_migration_with_an_error(option: str, damage: str) -> None:
    (FILES | POSITIONS)[damage](Path("file.db"))
    with cut_of_a_stream() as found:
        done = found.run(option, "file.db", status=1)
        assert [] == found.new.streams["s"]

    assert any("file.db" in line for line in done.output.splitlines()), done.output
    assert SECRET not in done.output


@pytest.mark.parametrize("damage", ["pipe", "loop", "zero", "full", "dangling"])
def test_quarantine_must_be_a_regular_file(damage: str) -> None:
    """A pipe kept the bridge waiting for a reader."""
    FILES[damage](Path("aside.jsonl"))
    with cut(names=("a",)) as found:
        found.new.refuses = lambda stored: "nack" if stored.body == b"3" else ""
        done = found.run("--patience", "0", "--quarantine", "aside.jsonl", status=1)
        bodies = {one.body for one in [*found.old.queues["a"], *found.new.queues["a"]]}

    assert any("aside.jsonl" in line for line in done.output.splitlines()), done.output
    assert {one.body for one in numbered(10)} == bodies
