"""docs/how-to/cluster.md, followed word by word on a standalone master with two workers."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from doc_examples import commands_of, examples_of

from amqp10msg import Message

pyspark = pytest.importorskip("pyspark", reason="pyspark is not installed: make setup")

from amqp10msg import spark  # noqa: E402

pytestmark = [pytest.mark.soak, pytest.mark.xdist_group("spark")]

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "how-to" / "cluster.md"
SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
WIRE = Message(b"hello").encode()


@pytest.fixture
def environment() -> dict[str, str]:
    """What a shell has: this environment first on its path, and no way round it to the package."""
    try:
        home = spark.java_home()
    except RuntimeError as error:
        pytest.skip(str(error))
    kept = {k: v for k, v in os.environ.items() if k not in {"PYTHONPATH", "PYSPARK_PYTHON"}}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    kept |= {"PATH": path, "SPARK_LOCAL_IP": "127.0.0.1"}
    kept |= {"JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
    return kept if home is None else {**kept, "JAVA_HOME": home}


@contextlib.contextmanager
def daemon(environment: dict[str, str], folder: Path, name: str, *options: str) -> Iterator[str]:
    """Run a part of a cluster; yield the line in which it says that it is there."""
    command = [str(SPARK_CLASS), f"org.apache.spark.deploy.{name}", "--host", "127.0.0.1", *options]
    with subprocess.Popen(
        [*command[:4], "--webui-port", "0", *command[4:]],
        cwd=folder,
        env={**environment, "PYSPARK_PYTHON": sys.executable},
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    ) as process:
        try:
            assert process.stderr is not None
            said: list[str] = []
            for line in process.stderr:
                said.append(line)
                if re.search("New state: ALIVE|Successfully registered with master", line):
                    break
            else:
                pytest.fail("".join(said))
            # What it says from now on must not fill the pipe.
            threading.Thread(target=process.stderr.read, daemon=True).start()
            yield "".join(said)
        finally:
            process.terminate()


def test_report_snapshot(environment: dict[str, str], tmp_path: Path) -> None:
    lines = "".join(f'{{"raw": "{wire.hex()}"}}\n' for wire in [WIRE] * 40 + [WIRE[:-1]])
    (tmp_path / "in.jsonl").write_text(lines)
    commands = [
        command
        for example in examples_of(PAGE.read_text(encoding="utf-8"))
        if example.kind == "console"
        for command, _ in commands_of(example)
    ]
    with contextlib.ExitStack() as stack:
        started = stack.enter_context(daemon(environment, tmp_path, "master.Master", "--port", "0"))
        found = re.search(r"spark://127\.0\.0\.1:\d+", started)
        assert found is not None
        for number in range(2):
            options = ("--cores", "1", "--memory", "1g", "--work-dir", f"work{number}")
            stack.enter_context(
                daemon(environment, tmp_path, "worker.Worker", *options, found.group())
            )
        for command in commands:
            # The cluster and files of this test.
            line = command.replace("spark://head:7077", found.group())
            line = line.replace("IN OUT", "in.jsonl out --max-quarantine 0")
            done = subprocess.run(
                line, shell=True, cwd=tmp_path, env=environment, text=True, capture_output=True,
                check=False,
            )  # fmt: skip
            if "spark-submit" in command:
                # With a message too many in quarantine.
                assert 1 == done.returncode, done.stderr
                assert "41 messages: 40 good" in done.stdout
            else:
                assert 0 == done.returncode, done.stderr

    assert (41, 1) == (spark.read_stats(tmp_path / "out").rows, len([*tmp_path.glob("out")]))
    # The executors unpacked it.
    assert [*tmp_path.glob("work*/app-*/*/amqp10msg/__init__.py")]
    made = spark.archives(tmp_path / "with-arrow", *(tmp_path / "wheels").glob("*.whl"))
    names = ["amqp10msg", "attr", "attrs", "pyarrow"]
    assert names == [one.rpartition("#")[2] for one in made]
    assert sum(Path(one.rpartition("#")[0]).stat().st_size for one in made) < 80 << 20
