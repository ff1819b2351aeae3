"""``amqp10msg pipeline``: jobs from files to folders, their summary and their page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from amqp10msg import Message, Properties

pytest.importorskip("click")
pytest.importorskip("rich")
pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark", reason="pyspark is not installed: pip install '.[spark]'")

import pyarrow.parquet as pq  # noqa: E402
from click.testing import CliRunner, Result  # noqa: E402

from amqp10msg.cli import main  # noqa: E402
from tests.pages import Page  # noqa: E402

pytestmark = [
    pytest.mark.once,
    pytest.mark.xdist_group("spark"),
    pytest.mark.usefixtures("spark_session"),
]

SOUND = Message(
    b"x", properties=Properties(message_id="m"), application_properties={"tenant": "a"}
).encode()
DRIFTED = Message(b"x", application_properties={"tenant": 5, "<b>": True}).encode()
WRONG = Message("x", properties=Properties(content_encoding="gzip")).encode()


def run(*arguments: object) -> Result:
    return CliRunner().invoke(
        main, ["pipeline", *map(str, arguments)], env={"COLUMNS": "120", "NO_COLOR": "1"}
    )


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "in.jsonl"
    wires = [SOUND] * 3 + [DRIFTED, WRONG, SOUND[:-1]]
    path.write_text("".join(f'{{"raw": "{wire.hex()}"}}\n' for wire in wires))
    return path


def read(folder: Path) -> list[dict[str, Any]]:
    found = pq.ParquetDataset(folder).read().to_pylist()
    assert isinstance(found, list)
    return found


def test_decode_says_what_it_did(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"

    result = run("decode", source, out, "--columns", "message_id, application_properties.tenant")

    assert 1 == result.exit_code
    good, bad = read(out / "messages"), read(out / "quarantine")
    assert ["m", "m", "m", None, None] == [row["message_id"] for row in good]
    assert [SOUND[:-1]] == [row["wire"] for row in bad]
    assert bad[0]["error_text"].startswith("at byte ")
    assert f"6 messages: 5 good, 1 in {out}/quarantine" in result.stdout
    assert f"page: {out}/_report.html" in result.stdout
    shown = Page((out / "_report.html").read_text())
    assert [] == shown.open
    assert "truncated" in shown.text
    assert "script" not in shown.tags


def test_a_profile_quarantines_more(source: Path, tmp_path: Path) -> None:
    result = run("decode", source, tmp_path / "out", "--profile", "oasis", "--json")

    summary = json.loads(result.stdout)
    assert (6, 4, 2) == (summary["messages"], summary["good"], summary["quarantined"])
    assert {"truncated", "content-encoding-without-data"} == set(summary["rules"])


def test_validate_and_then_profile_what_is_sound(source: Path, tmp_path: Path) -> None:
    sound = tmp_path / "sound"
    assert 1 == run("validate", source, sound).exit_code

    result = run("profile", sound / "messages", tmp_path / "drift")

    assert 0 == result.exit_code
    assert "application-properties['tenant']" in result.stdout
    assert "string 3, long 1" in result.stdout
    assert "4 messages: 4 good" in result.stdout
    shown = Page((tmp_path / "drift" / "_report.html").read_text())
    assert "1 of 2 properties have more than one type." in shown.text
    assert "<b>" in shown.text  # as text


def test_output_that_exists_stays_unless_it_may_go(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "mine").write_text("keep")

    refused = run("decode", source, out)

    assert 2 == refused.exit_code
    assert "is there already: give --overwrite" in refused.stderr
    assert "keep" == (out / "mine").read_text()
    assert 1 == run("decode", source, out, "--overwrite").exit_code
    assert not (out / "mine").exists()


@pytest.mark.parametrize(
    "arguments, status, text",
    [
        (["decode", "{in}", "{out}", "--columns", "gone"], 2, "no column is called 'gone'"),
        (["validate", "{in}", "{out}", "--profile", "gone"], 2, "no profile is called 'gone'"),
        (["decode", "{in}-not", "{out}"], 1, "there is no such file"),
        (["decode", "{in}", "{out}", "--report", "/gone/x.html"], 2, "there is no folder /gone"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(
    source: Path, tmp_path: Path, arguments: list[str], status: int, text: str
) -> None:
    out = tmp_path / "out"

    result = run(*(a.format(**{"in": source, "out": out}) for a in arguments))

    assert status == result.exit_code
    assert text in result.stderr.splitlines()[-1]
    assert not out.exists()
