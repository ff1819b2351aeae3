"""Each district of the package works with the later ones deleted.

A copy of the package holds the units of one district and of the ones before it, and nothing else.
A new process imports every module of the copy.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests import pure_build
from tests.project.test_layers import CORE, PACKAGE, ROOT, THIRD_PARTY

CORE_FILES = {*CORE, "__init__"}
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
optional = set(sys.argv[1:])
for file in sorted(root.rglob("*.py")):
    name = ".".join(file.relative_to(root.parent).with_suffix("").parts).removesuffix(".__init__")
    try:
        importlib.import_module(name)
    except ImportError as error:
        if not {{error.name, (error.name or "").partition(".")[0]}} & optional:
            raise
    print(name)
"""


def left_out(_: str, names: list[str]) -> set[str]:
    """Return the files that a copy leaves out: in the pure build, libraries with a source."""
    libraries = {
        name
        for name in names
        if name.endswith((".so", ".pyd")) and f"{name.partition('.')[0]}.py" in names
    }
    return {"__pycache__", *(libraries if pure_build.wanted() else ())}


def without_library() -> list[str]:
    """Return the modules that run compiled only, and were not compiled."""
    return [
        ".".join(file.relative_to(ROOT.parent).with_suffix("").parts)
        for file in ROOT.rglob("*.pyx")
        if not file.with_suffix(".py").exists()
        and not any(other.suffix in {".so", ".pyd"} for other in file.parent.glob(f"{file.stem}.*"))
    ]


@pytest.mark.parametrize("district", DISTRICTS)
def test_district_imports_without_later_districts(district: str, tmp_path: Path) -> None:
    for unit in DISTRICTS[district]:
        source, target = ROOT / unit, tmp_path / PACKAGE / unit
        if source.is_dir():
            shutil.copytree(source, target, ignore=left_out)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source.with_suffix(".py"), target.with_suffix(".py"))
    optional = [*set().union(*THIRD_PARTY.values()), *without_library()]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *optional],
        cwd=tmp_path, capture_output=True, check=False, text=True,
    )  # fmt: skip

    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.split()) > 70
