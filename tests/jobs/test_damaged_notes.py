"""Damaged files that a job wrote about itself: an error that names them, or the work done again."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

pytest.importorskip("pyarrow")

from amqp10msg import Message
from amqp10msg.files.text import load_object
from amqp10msg.jobs import Stats, read_stats, run
from amqp10msg.jobs.job import Job
from amqp10msg.jobs.output import Output
from amqp10msg.jobs.writing import PartResult
from amqp10msg.validation.rules import RuleCount
from tests.damaged_json import damaged_json

pytestmark = [pytest.mark.once, pytest.mark.usefixtures("in_a_folder")]

STATS = Stats(3, 100, 1, 0)
STATS.rules["truncated"] = RuleCount("Part 1, 1.2", 1, "x@0", text="cut off")
STATS.sizes[5] = 3
STATS.hours[400_000] = 3
STATS.types["footer"] = {"a": {"int": 1}}  # type: ignore[dict-item]
STATS.losses["header.priority", "dropped"] = 2
STATS.reasons["header.priority", "dropped"] = (False, "no place for it")
COUNTS = STATS.as_json()


@settings(max_examples=300)
@given(damaged_json(COUNTS))
@example(json.dumps(COUNTS).encode())
def test_damaged_counts_error_names_the_file(octets: bytes) -> None:
    Path("out").mkdir(exist_ok=True)
    path = Path("out/_amqp10msg.json")
    path.write_bytes(octets)
    total, errors = Stats(), []
    try:
        stats = read_stats("out")
    except ValueError as error:
        errors.append(str(error))
    else:  # accepted counts can be added, printed and written
        total.add(stats)
        assert str(total)
        assert total.as_json() == Stats.from_json(total.as_json()).as_json()
    assert all(str(path) in error for error in errors)


@settings(max_examples=100)
@given(damaged_json({"files": ["messages/a.parquet", "quarantine/b.parquet"], "stats": COUNTS}))
def test_damaged_part_state_is_a_value_error(octets: bytes) -> None:
    with contextlib.suppress(ValueError):
        done = PartResult.from_json(load_object(octets))
        assert all(file.startswith(("messages/", "quarantine/")) for file in done.files)


@pytest.mark.parametrize(
    "file", ["../secret", "/etc/hostname", "messages/../../secret", "messages/", "other/x", ""]
)
def test_saved_result_accepts_only_job_file_names(file: str) -> None:
    with pytest.raises(ValueError, match="no file name of a job"):
        PartResult.from_json({"files": [file], "stats": COUNTS})


@settings(max_examples=100)
@given(damaged_json({"key": "k", "parts": [[0, 10]]}), st.sampled_from(["plan", "moving"]))
def test_output_with_damaged_state_starts_again(octets: bytes, name: str) -> None:
    output = Output("out")
    output.unfinished.mkdir(exist_ok=True)
    (output.unfinished / f"{name}.json").write_bytes(octets)
    parts, done = output.resume("k", [[1, 2]], overwrite=False)

    assert not done
    assert isinstance(parts, list)
    output.delete_unfinished()


@pytest.mark.parametrize("name", ["plan.json", "moving.json", "done/0.json"])
@pytest.mark.parametrize(
    "octets", [b"[" * 200_000, b"[]", b"5", b"\xff", b'{"key": [}'], ids=range(5)
)
def test_job_ignores_damaged_state_of_another_job(name: str, octets: bytes) -> None:
    Path("in.jsonl").write_text(json.dumps({"raw": Message("x").encode().hex()}) + "\n")
    path = Path(".out.unfinished", name)
    path.parent.mkdir(parents=True)
    path.write_bytes(octets)
    stats: Any = run("in.jsonl", "out", Job("validate"))

    assert 1 == stats.good
    assert stats == read_stats("out")
