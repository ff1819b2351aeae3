"""The short form of tools/spark_streams.py, on the RabbitMQ that AMQP10MSG_RABBITMQ names."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pika")
pytest.importorskip("deltalake")
pytest.importorskip("pyspark", reason="pyspark is not installed: make setup")

BROKER = os.environ.get("AMQP10MSG_RABBITMQ")
pytestmark = [
    pytest.mark.soak,
    pytest.mark.xdist_group("spark"),
    pytest.mark.skipif(BROKER is None, reason="AMQP10MSG_RABBITMQ names no RabbitMQ"),
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds processes in /proc"),
]

ROOT = Path(__file__).parents[2]


def test_to_delta_and_back() -> None:
    given = ("--broker", str(BROKER), "--count", "5000", "--kills", "1")

    made = subprocess.run(
        [sys.executable, "tools/spark_streams.py", *given],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert 0 == made.returncode, made.stdout + made.stderr
    wanted = {"stream", "queue", "back to a stream", "back to a quorum"}
    found = [line.split(": 5000 sent, ") for line in made.stdout.splitlines()]
    said = {line[0]: line[1] for line in found if len(line) > 1}
    assert wanted == said.keys()
    assert all(" 0 missing, " in one and " 0 altered" in one for one in said.values())
