"""A damaged file, of any form, costs its own messages only, and the job says so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

pytest.importorskip("pyarrow", reason="pyarrow is not installed: make setup")
pytest.importorskip("fastavro", reason="needs fastavro: pip install 'amqp10msg[avro]'")

from amqp10msg import files, jobs
from amqp10msg.app.cli import main
from amqp10msg.jobs import DAMAGED, Job, output_of
from tests.jobs import damaged_files as damaged
from tests.jobs.job_inputs import SOUND, read, write

pytestmark = pytest.mark.once


def run(source: Path, output: Path) -> tuple[int, dict[str, Any]]:
    """Run the console script; return its status and its summary."""
    arguments = ["pipeline", "decode", "--engine", "local", "--workers", "1", "--json"]
    result = CliRunner().invoke(main, [*arguments, str(source), str(output)])
    assert result.output, result.exception
    return result.exit_code, json.loads(result.stdout)


@pytest.mark.parametrize("suffix, damage", damaged.cases())
def test_damaged_file_is_a_row_and_other_files_are_read(
    tmp_path: Path, suffix: str, damage: str
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    path = damaged.write_damaged(folder, suffix, damage)
    if suffix == "parquet":
        (folder / "z.parquet").write_bytes(damaged.FORMS["parquet"]())
    else:
        write(folder / "z.bin", SOUND[: damaged.COUNT])

    status, counts = run(folder, tmp_path / "out")

    good, bad = map(read, output_of(tmp_path / "out"))
    assert 1 == status
    places = [row["source"] for row in bad if row["error_code"] == DAMAGED]
    assert {str(path)} == {*places}
    assert len(places) == counts["rules"][DAMAGED]["messages"]
    assert 1 == len(places) or damage in {"garbage", "zeros at the end"}
    sources = [row["source"] for row in good] if "source" in (good[0] if good else {}) else []
    assert damaged.COUNT <= len(good)
    if damage == "cut in the middle" and suffix not in {"parquet", "avro"}:
        # What stands before the damage is not lost.
        assert damaged.COUNT // 3 < sources.count(str(path)) < damaged.COUNT


def test_job_on_damaged_files_only(tmp_path: Path) -> None:
    (folder := tmp_path / "in").mkdir()
    paths = {
        str(damaged.write_damaged(folder, suffix, damage))
        for suffix, damage in damaged.cases()
        if suffix != "parquet"
    }
    output = tmp_path / "out"

    stats = jobs.run(str(folder), output, Job("decode"), workers=1)

    _, bad = map(read, output_of(output))
    assert paths == {row["source"] for row in bad if row["error_code"] == DAMAGED}
    assert stats.rules[DAMAGED].messages >= len(paths)


@pytest.mark.parametrize("suffix", ["pcap", "avro", "jsonl.gz", "txt"])
def test_reader_raises_for_unknown_file_format(tmp_path: Path, suffix: str) -> None:
    (path := tmp_path / f"x.{suffix}").write_bytes(b"")
    with pytest.raises(files.UnusableFileError, match="empty"):
        list(files.read(path))


@pytest.mark.parametrize("cut", [1, 2, 30])
@pytest.mark.parametrize("suffix", ["jsonl", "ndjson"])
def test_truncated_last_line_is_reported(tmp_path: Path, suffix: str, cut: int) -> None:
    (path := tmp_path / f"in.{suffix}").write_bytes(damaged.FORMS["jsonl"]()[:-cut])

    status, counts = run(path, tmp_path / "out")

    # Without its end, the last line is still a whole record.
    expected = (0, []) if cut == 1 else (1, [DAMAGED])
    assert expected == (status, [*counts["rules"]])


@pytest.mark.parametrize("cut", [1, 40, 400, 900])
@pytest.mark.parametrize("form", ["bin", "cborseq", "jsonl.gz"])
def test_files_truncated_at_any_byte_are_reported(tmp_path: Path, form: str, cut: int) -> None:
    octets = damaged.FORMS[form]()
    (path := tmp_path / f"in.{form}").write_bytes(octets[: max(len(octets) - cut, 4)])

    status, counts = run(path, tmp_path / "out")

    assert (1, [DAMAGED]) == (status, [*counts["rules"]])


@pytest.mark.parametrize("suffix", ["jsonl", "ndjson", "bin", "cborseq"])
@pytest.mark.parametrize("command", ["pipeline", "validate"])
def test_empty_file_has_no_messages(tmp_path: Path, command: str, suffix: str) -> None:
    (path := tmp_path / f"in.{suffix}").write_bytes(b"")
    arguments = [str(path)]
    if command == "pipeline":
        arguments = ["decode", "--engine", "local", *arguments, str(tmp_path / "out")]

    result = CliRunner().invoke(main, [command, *arguments])

    assert 1 == result.exit_code
    assert "the input contains no messages" in result.output


@pytest.mark.parametrize("suffix", ["pcap", "avro", "parquet"])
def test_empty_capture_or_table_has_no_messages(tmp_path: Path, suffix: str) -> None:
    (path := tmp_path / f"in.{suffix}").write_bytes(b"")

    result = CliRunner().invoke(main, ["validate", "--json", str(path)])

    assert 1 == result.exit_code
    rule = "damaged-file" if suffix == "pcap" else "unreadable-input"
    assert [rule] == [*json.loads(result.stdout.splitlines()[-1])["summary"]["rules"]]


def test_empty_files_do_not_change_results(tmp_path: Path) -> None:
    (folder := tmp_path / "in").mkdir()
    (folder / "a.jsonl").write_bytes(b"")
    write(folder / "b.bin", SOUND[:3])

    status, counts = run(folder, tmp_path / "out")

    assert (0, 3) == (status, counts["messages"])
