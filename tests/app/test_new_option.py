"""Adding an option to the routes of a bridge, as CONTRIBUTING describes it: one field of one class.

The test copies the package, adds a field to the copy by editing its source, and uses the copy.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import amqp10msg

for name in ("click", "rich", "pika", "sphinx"):
    pytest.importorskip(name)

PACKAGE = Path(amqp10msg.__file__).parent
TABLES = PACKAGE.parent / "docs" / "_ext"
FIELD = """    pause_between: float = declared(
        1.5, float, "Seconds between two messages.", "SECONDS", low=0.5, high=60.0
    )
"""
PROGRAM = """
import importlib.util, json, sys, tempfile
from pathlib import Path
import amqp10msg
from amqp10msg.net.bridge import RouteOptions
from amqp10msg.net.bridge.routes import read_routes

def outcome(call):
    try:
        return call()
    except (TypeError, ValueError) as error:
        return str(error)

def in_file(value):
    path = Path(tempfile.mkdtemp(dir=".")) / "routes.toml"
    ends = 'from = "amqp091://a/?queue=q"\\nto = "amqp://b/q"'
    path.write_text(f"[[route]]\\n{ends}\\npause-between = {value}\\n")
    return outcome(lambda: read_routes(path)[0].options.pause_between)

spec = importlib.util.spec_from_file_location("amqp_tables", sys.argv[1])
tables = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tables)
json.dump(
    {
        "package": amqp10msg.__file__,
        "default": RouteOptions().pause_between,
        "python": outcome(lambda: RouteOptions(pause_between=0.25)),
        "file": [in_file(value) for value in (2, 90, '"2"')],
        "page": [line for line in tables.route_options().splitlines() if "pause" in line],
    },
    sys.stdout,
)
"""


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a copy of the package whose routes have one more option."""
    folder = tmp_path_factory.mktemp("copy")
    copied = folder / "amqp10msg"
    shutil.copytree(PACKAGE, copied, ignore=shutil.ignore_patterns("__pycache__"))
    path = copied / "net" / "bridge" / "options.py"
    text = path.read_text(encoding="utf-8")
    start = "    keep_names: bool = declared(\n"
    assert text.count(start) == 1
    path.write_text(text.replace(start, FIELD + start), encoding="utf-8")
    return folder


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], cwd=folder, capture_output=True, text=True, check=False
    )


def test_field_is_an_option_in_python_in_files_and_on_the_page(copy: Path) -> None:
    done = run(copy, "-c", PROGRAM, str(TABLES / "amqp_tables.py"))
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)

    assert str(copy / "amqp10msg" / "__init__.py") == found["package"]
    assert 1.5 == found["default"]
    assert "pause_between must be from 0.5 to 60, not 0.25" == found["python"]
    number, too_large, wrong = found["file"]
    assert 2 == number
    assert too_large.endswith("route 1: pause_between must be from 0.5 to 60, not 90")
    assert wrong.endswith("route 1: pause_between must be a number, not '2'")
    assert ["| `pause-between` | `1.5` | Seconds between two messages. |"] == found["page"]


def test_field_is_an_option_of_the_command(copy: Path) -> None:
    helped = run(copy, "-m", "amqp10msg", "bridge", "--help")
    assert helped.returncode == 0, helped.stderr
    assert "--pause-between SECONDS" in helped.stdout
    assert "Seconds between two messages. [default: 1.5]" in " ".join(helped.stdout.split())

    ends = ("--from", "amqp091://127.0.0.1:1/?queue=q", "--to", "amqp://127.0.0.1:1/q")
    refused = run(copy, "-m", "amqp10msg", "bridge", *ends, "--pause-between", "90")
    assert refused.returncode == 2
    assert "--pause-between" in refused.stderr
    assert "0.5<=x<=60" in refused.stderr
