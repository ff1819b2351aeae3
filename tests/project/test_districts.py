"""Each district of the package works with the later ones deleted.

A copy of the package holds the units of one district and of the ones before it, and nothing else.
A new process imports every module of the copy.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.project.test_layers import CORE, PACKAGE, ROOT, THIRD_PARTY

#: The pages are the last part of the core. They live in `app` and need the line about the version.
CORE_FILES = {*CORE, "__init__", "app/__init__", "app/pages", "app/made"}
DATA_FILES = {"columns", "files", "jobs"}
DISTRICTS = {
    "core": CORE_FILES,
    "core and data": CORE_FILES | DATA_FILES,
    "core, data and net": CORE_FILES | DATA_FILES | {"net"},
}
PROGRAM = f"""
import importlib, sys
from pathlib import Path

import {PACKAGE}

root = Path({PACKAGE}.__file__).parent
assert root.parent == Path.cwd(), root
extras = set(sys.argv[1:])
for file in sorted(root.rglob("*.py")):
    name = ".".join(file.relative_to(root.parent).with_suffix("").parts).removesuffix(".__init__")
    try:
        importlib.import_module(name)
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in extras:
            raise
    print(name)
"""


@pytest.mark.parametrize("district", DISTRICTS)
def test_a_district_imports_with_the_later_ones_deleted(district: str, tmp_path: Path) -> None:
    skipped = ["__pycache__"]
    if os.environ.get("AMQP10MSG_PURE") == "1":
        skipped += ["*.so", "*.pyd"]
    for unit in DISTRICTS[district]:
        source, target = ROOT / unit, tmp_path / PACKAGE / unit
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns(*skipped))
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source.with_suffix(".py"), target.with_suffix(".py"))
    extras = sorted(set().union(*THIRD_PARTY.values()))
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *extras],
        cwd=tmp_path, capture_output=True, check=False, text=True,
    )  # fmt: skip

    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.split()) > 70
