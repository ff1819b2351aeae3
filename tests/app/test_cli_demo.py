"""``amqp10msg demo``: it shows every message, reports true results, and detects failures."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from amqp10msg import Message
from amqp10msg.app.cli import main
from amqp10msg.interop.corpus import demo_messages
from amqp10msg.net import bridge
from amqp10msg.net.bridge import read_quarantine
from amqp10msg.validation import validate
from tests.effort import calls

ROOT = Path(__file__).parents[2]
FOOTER = bytes.fromhex("005378c10100")


def demo(*options: str, width: int = 80) -> Result:
    return CliRunner().invoke(main, ["demo", *options], env={"COLUMNS": str(width)})


def test_every_message_is_shown_and_re_encodes_unchanged() -> None:
    cases = demo_messages()
    found = [violation for case in cases for violation in validate(case.data)]
    errors = sum(violation.severity == "error" for violation in found)

    result = demo(width=120)

    assert (0, "") == (result.exit_code, result.stderr)
    assert 14 == len(cases)
    assert (
        f"{len(cases)} messages, all encoded again byte for byte; violations found: "
        f"{errors} errors, {len(found) - errors} warnings"
    ) in result.stdout
    for case in cases:
        size = len(case.data)
        assert f"{case.note}: {size} bytes in, the same {size} out" in result.stdout
        assert case.origin.removeprefix("recorded from ") in result.stdout
    for name in ("RabbitMQ 3.10.8", "RabbitMQ 4.3.6", "proton", "rhea"):
        assert name in result.stdout


def test_demo_is_cheap() -> None:
    demo(width=120)  # what is imported or read once is not counted

    assert calls(lambda: demo(width=120)) < 300_000


def test_bridge_returns_every_message_and_writes_reports(scratch: Path) -> None:
    result = demo("--bridge", width=120)

    assert (0, "") == (result.exit_code, result.stderr)
    (folder,) = scratch.iterdir()
    shown = squeezed(result.stdout)
    assert squeezed("145 messages of AMQP 0-9-1") in shown
    assert squeezed("each came back byte for byte: property flags, property list, body") in shown
    for name, said in (("report", "AMQP messages bridged"), ("migration", "What would be lost")):
        assert squeezed(f"page: {folder}/{name}.html") in shown
        assert said in (folder / f"{name}.html").read_text()
    raw = sorted(entry.raw for entry in read_quarantine(folder / "back.jsonl"))
    recorded = Path(bridge.__file__).parent / "data" / "recorded.jsonl"
    assert sorted(entry.raw for entry in read_quarantine(recorded)) == raw
    lose = re.search(r"(\d+) of 145 would lose data, in \d+ ways", result.stdout)
    assert lose is not None
    assert 0 < int(lose[1]) < 145


def test_bridge_runs_without_pika_and_proton_and_names_the_omission(
    scratch: Path,
) -> None:
    program = (
        "import sys\n"
        "for name in ('pika', 'proton', 'cproton', 'prometheus_client', 'setproctitle'):\n"
        "    sys.modules[name] = None\n"
        "import importlib.util\n"
        "importlib.util.find_spec = lambda name, _of=importlib.util.find_spec: (\n"
        "    None if name == 'pika' else _of(name))\n"
        "from amqp10msg.app.cli import main\n"
        "main(['demo', '--bridge'])\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(scratch)}

    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )

    assert (0, "") == (done.returncode, done.stderr)
    assert "each came back byte for byte" in done.stdout
    assert "pip install 'amqp10msg[bridge]'" in done.stdout


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary folders are made."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_pipeline_separates_damaged_messages_and_explains_one(scratch: Path) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    cases = demo_messages()
    cut = [case.data[:-1] for case in cases[2::3]]
    whole = [case.data for number, case in enumerate(cases, 1) if number % 3]
    sound = [w for w in whole if all(found.severity != "error" for found in validate(w))]

    result = demo("--pipeline", width=120)

    assert (0, "") == (result.exit_code, result.stderr)
    (folder,) = scratch.iterdir()
    bad = len(cases) - len(sound)
    shown = squeezed(result.stdout)  # paths may be long: they are wrapped, or cut off
    told = f"14 messages: {len(sound)} good, {bad} in {folder}/typed/quarantine"
    assert squeezed(told) in shown
    for job in ("typed", "types"):
        assert squeezed(f"page: {folder}/{job}/_report.html") in shown
        assert "engine: local" in (folder / job / "_report.html").read_text()
    rows = pq.ParquetDataset(folder / "typed" / "quarantine").read().to_pylist()
    assert bad == len(rows)
    assert set(cut) <= {row["wire"] for row in rows}
    (explained,) = (row for row in rows if squeezed(f"wire {len(row['wire'])} bytes") in shown)
    for name in ("source", "offset", "error_code", "error_clause", "error_offset", "error_text"):
        assert squeezed(f"{name} {explained[name]}")[:60] in shown
    assert squeezed(f"bytes: {explained['wire'].hex()[:40]}") in shown


def squeezed(text: str) -> str:
    return re.sub(r"\s+", "", text)


def test_without_arrow_the_pipeline_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("amqp10msg.jobs")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delattr("amqp10msg.jobs", raising=False)
    monkeypatch.setitem(sys.modules, "pyarrow", None)

    result = demo("--pipeline")

    assert 0 == result.exit_code
    assert "Left out: amqp10msg.jobs needs pyarrow: pip install" in result.stdout


@pytest.mark.parametrize("width", [80, 100, 120])
def test_the_pipeline_fits_the_screen(scratch: Path, width: int) -> None:
    pytest.importorskip("pyarrow")

    assert max(map(len, demo("--pipeline", width=width).stdout.splitlines())) <= width
    assert scratch.exists()


@pytest.mark.parametrize("width", [80, 100, 120])
def test_demo_fits_the_screen(width: int) -> None:
    lines = demo(width=width).stdout.splitlines()

    assert max(map(len, lines)) <= width
    assert len(lines) < 200


def test_colour_only_on_request() -> None:
    assert "\x1b" not in demo().stdout
    colored = re.sub(r"\x1b\[[\d;]*m", "", demo("--color").stdout)
    assert demo().stdout.splitlines() == [line.rstrip() for line in colored.splitlines()]


def test_suggested_commands_work() -> None:
    text = demo().stdout.partition("Next:\n")[2]  # in lines that a long path of the command breaks
    (octets,) = re.findall(r"inspect ([0-9a-f]+)\s", text)

    assert Message("hello") == Message.decode(bytes.fromhex(octets))
    assert 'encode \'{"body": "hello"}\'' in text
    assert 0 == CliRunner().invoke(main, ["inspect", octets]).exit_code


def test_changed_bytes_are_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without this, a demonstration that always says yes would do."""
    honest = Message.encode
    monkeypatch.setattr(Message, "encode", lambda self: honest(self) + FOOTER)

    result = demo()

    assert 1 == result.exit_code
    assert "bytes in, different bytes out" in result.stdout
    assert "14 messages, 0 encoded again byte for byte" in result.stdout
