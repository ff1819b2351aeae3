"""Adding a computed column, as CONTRIBUTING describes it: one entry of one table.

The test copies the package, adds a column to the copy by editing its source, and uses the copy.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.package_copy import copy_package, run_python

pytest.importorskip("pyarrow")

ENTRY = """    _computed(
        "subject_size",
        pa.int32(),
        "the size of the subject, in bytes",
        ("subject",),
        pc.binary_length,
    ),
    _computed(
        "body_size",
        pa.int32(),
        "the size of the data sections, in bytes; null for other bodies",
        ("body",),
        pc.binary_length,
    ),
"""
COMPUTE = "import pyarrow.compute as pc\n"
PROGRAM = """
import json, sys
import pyarrow as pa
from amqp10msg import Message, columns
from amqp10msg.jobs import Job

messages = [Message(b"abc", subject="s").encode(), Message("text").encode(), b"\\x00"]
array = pa.array(messages, pa.binary())
sized = columns.decode(array, ["subject", "body_size"])
both = columns.decode(array.slice(0, 2), ["body", "body_kind", "body_json", "body_size", "subject"])
wrong = both.set_column(3, "body_size", pa.array([4, None], pa.int32()))
sizes = pa.array([5, None], pa.int32())


def problem_of(batch):
    try:
        columns.encode(batch)
        return ""
    except ValueError as error:
        return str(error)


json.dump(
    {
        "rows": sized.to_pylist(),
        "comment": columns.schema_of("body_size").field(0).metadata[b"comment"].decode(),
        "again": [one.as_py() == octets for one, octets in zip(columns.encode(both), messages)],
        "problem": problem_of(wrong),
        "other": problem_of(both.append_column("subject_size", sizes)),
        "lacking": problem_of(pa.record_batch({"message_id": ["a", "b"], "subject_size": sizes})),
    },
    sys.stdout,
)
"""


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a copy of the package that has the column ``body_size``."""
    start = "_COMPUTED_TABLE = (\n"
    folder = tmp_path_factory.mktemp("copy")
    return copy_package(folder, "columns/_schema.py", start, COMPUTE + start + ENTRY)


def test_column_is_decoded_and_compared(copy: Path) -> None:
    answer: dict[str, Any] = json.loads(run_python(copy, "-c", PROGRAM))

    assert [
        {"subject": "s", "body_size": 3},
        {"subject": None, "body_size": None},
        {"subject": None, "body_size": None},
    ] == answer["rows"]
    assert answer["comment"].startswith("the size of the data sections")
    assert [True, True] == answer["again"]
    assert answer["problem"].startswith("row 0: body_size: the other columns of the row encode to")
    assert answer["problem"].endswith(
        "another body_size: it is computed from body: correct one of them, or drop the column"
    )


def test_hint_names_the_columns_that_the_column_is_computed_from(copy: Path) -> None:
    answer: dict[str, Any] = json.loads(run_python(copy, "-c", PROGRAM))

    start = "row 0: subject_size: the other columns of the row encode to a message with another"
    assert (
        f"{start} subject_size: it is computed from subject: correct one of them, or drop the "
        in (answer["other"])
    )
    assert answer["lacking"] == (
        f"{start} subject_size: add subject, from which it is computed, or drop the column"
    )


def test_job_writes_the_column(copy: Path) -> None:
    pytest.importorskip("click")
    message = '{"raw": "005375a003616263"}\n'
    (copy / "in.jsonl").write_text(message, encoding="utf-8")
    job = ("pipeline", "decode", "--engine", "local", "--columns", "body_size", "in.jsonl", "out")
    run_python(copy, "-m", "amqp10msg", *job)

    program = "import pyarrow.parquet as pq, sys; print(pq.read_table(sys.argv[1])['body_size'])"
    (part,) = (copy / "out").rglob("part-*.parquet")
    assert "3" in run_python(copy, "-c", program, str(part))
