"""Copies of the package with a changed source file, for the tests of CONTRIBUTING's recipes."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import amqp10msg

PACKAGE = Path(amqp10msg.__file__).parent


def copy_package(folder: Path, file: str, old: str, new: str) -> Path:
    """Copy the package into `folder`, and replace the only `old` in `file` by `new`."""
    copied = folder / "amqp10msg"
    shutil.copytree(PACKAGE, copied, ignore=shutil.ignore_patterns("__pycache__"))
    path = copied / file
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1
    path.write_text(text.replace(old, new), encoding="utf-8")
    return folder


def run_python(folder: Path, *arguments: str) -> str:
    """Run Python with the package in `folder`, which must exit with 0; return what it prints."""
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
