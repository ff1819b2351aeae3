"""Files with message bodies are for their owner alone, whatever the umask allows."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

click_testing = pytest.importorskip("click.testing")
pytest.importorskip("pyarrow")
pytest.importorskip("pika")

from amqp10msg import Message  # noqa: E402
from amqp10msg.app.cli import main  # noqa: E402
from amqp10msg.atomic_files import replacing, write_whole  # noqa: E402
from amqp10msg.delivery.node.sqlite import SqliteStore  # noqa: E402
from amqp10msg.net.bridge.records import Ledger, Positions  # noqa: E402
from amqp10msg.net.ends.parquet import Landing, Spooled  # noqa: E402
from amqp10msg.net.serve import Server  # noqa: E402

pytestmark = [
    pytest.mark.once,
    pytest.mark.usefixtures("in_a_folder", "open_umask"),
    pytest.mark.skipif(os.name != "posix", reason="Windows has no such permissions"),
]

GOOD = json.dumps({"raw": Message("good").encode().hex()})


@pytest.fixture
def open_umask() -> Iterator[None]:
    """Let others read new files, unless the program says otherwise."""
    before = os.umask(0)
    yield
    os.umask(before)


def mode_of(path: str | Path) -> int:
    return stat.S_IMODE(Path(path).stat().st_mode)


def run(*arguments: str, status: int = 0) -> None:
    done = click_testing.CliRunner().invoke(main, arguments)
    assert status == done.exit_code, done.output


def test_files_of_a_bridge_are_private() -> None:
    Path("in.jsonl").write_text(f'{GOOD}\n{{"raw": 5}}\n')
    with Server(accept_durable=True) as server:
        command = ["bridge", "--from", "file:in.jsonl", "--to", f"{server.url}/q"]
        command += ["--max-messages", "2", "--state", "state.sqlite", "--report", "report.json"]
        run(*command, "--report", "report.html", status=5)
        run("bridge", "--from", f"{server.url}/q", "--to", "file:out.jsonl", "--max-messages", "1")

    lease = next(Path().glob("state.sqlite.*.lock"))
    for name in ("quarantine.jsonl", "out.jsonl", "state.sqlite", "report.json", "report.html"):
        assert 0o600 == mode_of(name), name
    assert 0o600 == mode_of(lease)


@pytest.mark.parametrize("kind", ["state", "deduplicate", "store"])
def test_database_and_its_journals_are_private(kind: str) -> None:
    path = Path("base.sqlite")
    base: Any
    if kind == "state":
        base = Positions(path, "route", active=True)
    elif kind == "deduplicate":
        base = Ledger(path, "route", "amqp://h/a", 10)
        base.add(["string:a"])
    else:
        base = SqliteStore(path)
    modes = {file.name: mode_of(file) for file in Path().glob("base.sqlite*")}
    base.close()

    assert "base.sqlite" in modes
    assert {0o600} == set(modes.values()), modes


def test_in_memory_database_creates_no_file() -> None:
    SqliteStore(":memory:").close()

    assert not list(Path().iterdir())


def test_spooled_messages_are_private() -> None:
    with Landing("landing") as landing:
        landing.write([Spooled("q", 1, b"t", False, Message("x").encode())])

    assert {0o600} == {mode_of(file) for file in Path("landing").iterdir()}


def test_job_quarantine_and_report_are_private() -> None:
    Path("in.jsonl").write_text(f'{GOOD}\n{{"raw": "00"}}\n')
    run("pipeline", "validate", "in.jsonl", "out", "--max-quarantine", "5", "--engine", "local")

    (bad,) = Path("out/quarantine").glob("*.parquet")
    (good,) = Path("out/messages").glob("*.parquet")
    assert (0o600, 0o600) == (mode_of(bad), mode_of("out/_report.html"))
    assert 0o666 == mode_of(good)  # the output, which others may be meant to read


def test_validate_report_is_private() -> None:
    Path("in.jsonl").write_text(f"{GOOD}\n")
    run("validate", "in.jsonl", "--report", "page.html")

    assert 0o600 == mode_of("page.html")


def test_existing_file_keeps_its_permissions() -> None:
    for name in ("text", "base"):
        Path(name).touch(0o640)
    write_whole("text", "x", private=True)
    SqliteStore("base").close()
    with replacing("new") as file:
        file.write(b"x")

    assert (0o640, 0o640, 0o666) == (mode_of("text"), mode_of("base"), mode_of("new"))
