"""``tools/compare_filters.py`` on the embedded server, which reads filters as the draft says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from amqp10msg.net.serve import Server

pytest.importorskip("proton", reason="needs python-qpid-proton")
pytestmark = pytest.mark.once

ROOT = Path(__file__).parents[2]


def compared(*arguments: str) -> tuple[int, str]:
    with Server() as server:
        done = subprocess.run(
            [
                sys.executable,
                str(ROOT / "tools" / "compare_filters.py"),
                "--broker",
                server.url,
                "--queue",
                "compared",
                "--wait",
                "0.05",
                *arguments,
            ],
            cwd=ROOT,
            env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout


@pytest.mark.parametrize("kind", ["application-properties", "sql"])
def test_the_server_agrees_with_the_dialect_that_it_has(kind: str) -> None:
    status, output = compared("--kind", kind, "--dialect", "rabbitmq", "--examples", "15")

    assert (0, "15 filters on 120 messages: they agree\n") == (status, output)


def test_a_difference_is_shown_as_the_smallest_filter() -> None:
    """Of a string and a binary with the same bytes, the server tells one from the other."""
    status, output = compared("--kind", "application-properties", "--examples", "200")

    lines = output.splitlines()
    assert 1 == status
    assert lines[0].endswith("they differ")
    assert lines[1].startswith("{'a': ")
    assert 1 == lines[1].count(":") - lines[1].count("&p:") - lines[1].count("&s:")
    assert lines[3].startswith("only predicted: Properties(")
