"""What `make test` says at its end of what it left out, and that it runs all its passes."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.left_out import causes, closing

ROOT = Path(__file__).parents[2]
#: Where what looks like a reason of a skip is none.
OTHERS = {"test_conformance_page.py", "test_left_out.py"}
#: Reasons that no command mends, or that say themselves what is to be done.
WITHOUT_A_COMMAND = {
    "Linux counts the memory",
    "a folder is locked by a file beside it",
    "folders are synced on POSIX systems",
    "Linux shows command lines",
    "finds processes in /proc",
    "memory is watched in /proc",
    "needs a second address of loopback",
    "needs {peer.install}",
    "no client of Azure",
    "the sources of the corpus are not here: it takes a checkout",
    "the system has no limit of open files",
    "the tools are not here",
    "the tools are not here: it takes a checkout",
    "the workflows are not in a source distribution",
    "there is no make",
    "{command[0]} is not here",
    "Linux shows its memory",
    "this is done by a shell",
    "Windows has no SIGTERM that can be held back",
    "Windows has no such permissions",
    "there are no signal masks",
    "Linux shows blocked signals",
}


def reasons() -> set[str]:
    """Every reason that a test of this folder gives for skipping itself, as a literal."""
    found = set()
    for path in Path(__file__).parents[1].rglob("*.py"):
        if path.name in OTHERS:
            continue
        for line in path.read_text(encoding="utf-8").splitlines():
            if given := re.search(r"""skip.*reason=f?(".*?"|'.*?')""", line):
                found.add(given[1][1:-1])
            elif given := re.search(r"""importorskip\("([\w.]+)"\)""", line):
                found.add(f"could not import {given[1]!r}")
            elif given := re.search(r"""\bskip\(f?"(.*?)\"""", line):
                found.add(given[1])
    return found


def test_skip_reasons_have_cause_and_command() -> None:
    found = {reason: causes([reason]) for reason in reasons()}

    assert len(found) > 60
    assert {reason for reason, lines in found.items() if "because" in "".join(lines)} == (
        WITHOUT_A_COMMAND
    )


def test_cause_is_reported_in_one_line() -> None:
    reasons = ["needs python-qpid-proton", "could not import 'proton'", "no Chromium on the PATH"]

    proton, browser = causes(reasons)
    assert "Left out: the tests that need a browser. To run them: apt install chromium" in browser
    assert proton.endswith("python3-dev && rm -f .venv/.proton* && make test")
    assert ["Left out: tests, because of the moon"] == causes(["of the moon"])


def test_pure_pass_does_not_report_missing_kernel() -> None:
    reason = "the kernel is not compiled: it needs a C compiler and make setup"

    assert [] == causes([reason], pure_pass=True)
    assert 1 == len(causes([reason]))


def test_closing_has_each_line_once() -> None:
    assert "a\nb" == closing(["a", "b", "a"])
    assert "Nothing was left out." == closing([])


@pytest.mark.parametrize(
    "failing, passes, status",
    [("", 2, 0), ("not once", 2, 2), ("-m not kills", 2, 2), ("COMPILED", 1, 0)],
)
def test_second_pass_runs_after_failure_of_first(
    tmp_path: Path, failing: str, passes: int, status: int
) -> None:
    """With a .venv whose Python writes down what it is called with."""
    make = shutil.which("make")
    if make is None:
        pytest.skip("there is no make")
    shutil.copy(ROOT / "Makefile", tmp_path)
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(
        f'#!/bin/sh\necho "$*" >>"{tmp_path}/calls"\n'
        f'case "$*" in *"{failing or "nothing of this"}"*) exit 1 ;; esac\n'
    )
    python.chmod(0o755)

    done = subprocess.run(
        [make, "--no-print-directory", "-o", "setup", "test"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    calls = (tmp_path / "calls").read_text().splitlines()
    assert status == done.returncode, done.stderr
    assert passes == sum("-m pytest" in call for call in calls)
    assert calls[-1].startswith("-m tests.left_out ")


@pytest.mark.soak
def test_exit_reports_no_leaked_objects() -> None:
    """DuckDB's binding writes a line for all that is left when a worker ends."""
    pytest.importorskip("duckdb")
    pytest.importorskip("xdist")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-n", "1", "-p", "no:cacheprovider"),
            "tests/columns/test_frames.py",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert 0 == done.returncode, done.stdout
    assert "leaked" not in done.stdout + done.stderr
