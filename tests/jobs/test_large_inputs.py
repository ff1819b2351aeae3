"""The tool that makes inputs that are large in one way, at a small size."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed: make setup")

pytestmark = [pytest.mark.once, pytest.mark.soak]

ROOT = Path(__file__).parents[2]


def test_no_message_is_lost() -> None:
    tool = [sys.executable, str(ROOT / "tools" / "large_inputs.py")]
    sizes = ["--files", "100", "--file", "20", "--message", "10"]

    done = subprocess.run([*tool, *sizes], capture_output=True, text=True, timeout=300, check=False)

    assert 0 == done.returncode, done.stdout + done.stderr
    assert 4 == done.stdout.count(": right")
