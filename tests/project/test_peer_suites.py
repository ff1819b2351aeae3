"""The command that runs other projects' suites, and the table of them in the documentation."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import suite_records as records
from suite_results import read_go, read_junit
from suite_table import SUITES

pytestmark = pytest.mark.once

TOOL = Path(records.__file__).with_name("peer_suites.py")
#: A `go` that connects to the server, and reports the tests in the file RESULTS of its folder.
GO = """#!{python}
import os, pathlib, socket, sys
if sys.argv[1] == "test":
    host, port = os.environ["AMQP_BROKER_ADDR"].removeprefix("amqp://").split(":")
    with socket.create_connection((host, int(port)), timeout=60) as broker:
        broker.sendall(b"AMQP\\0\\1\\0\\0")
        assert broker.recv(8) == b"AMQP\\0\\1\\0\\0"
    sys.stdout.write(pathlib.Path("RESULTS").read_text())
"""


def _lines(*events: tuple[str, str]) -> str:
    return "".join(json.dumps({"Action": action, "Test": test}) + "\n" for action, test in events)


class Checkouts:
    """A folder with a checkout of go-amqp, whose `go` is a script, and an empty folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "checkouts"
        self.go = self.folder / "any-name"
        self.go.mkdir(parents=True)
        (self.folder / "unrelated").mkdir()
        (self.go / "go.mod").write_text("module github.com/Azure/go-amqp\n")
        (self.go / "CHANGELOG.md").write_text("# Changes\n\n## 1.2.3 (2026-01-01)\n")
        self.programs = folder / "programs"
        self.programs.mkdir()
        program = self.programs / "go"
        program.write_text(GO.format(python=sys.executable))
        program.chmod(0o755)
        self.known = folder / "known.toml"
        self.known.write_text("")
        self.work = folder / "work"

    def list_as_known(self, *tests: str) -> None:
        self.known.write_text(f'[[go-amqp]]\nreason = "a reason"\ntests = {json.dumps(tests)}\n')

    def run(self, results: str, *more: str, path: str | None = None) -> tuple[int, str]:
        """Run the command, and return its status and output."""
        (self.go / "RESULTS").write_text(results)
        path = f"{self.programs}{os.pathsep}{os.environ['PATH']}" if path is None else path
        places = [str(self.folder), "--known", str(self.known), "--work", str(self.work)]
        done = subprocess.run(
            [sys.executable, str(TOOL), *places, *more],
            capture_output=True,
            check=False,
            text=True,
            env={**os.environ, "PATH": path},
        )
        return done.returncode, done.stdout + done.stderr


@pytest.fixture
def checkouts(tmp_path: Path) -> Checkouts:
    return Checkouts(tmp_path)


PASS_AND_FAIL = _lines(("run", "TestA"), ("pass", "TestA"), ("run", "TestB"), ("fail", "TestB"))


def test_failure_in_the_list_is_expected(checkouts: Checkouts) -> None:
    checkouts.list_as_known("TestB")
    status, output = checkouts.run(PASS_AND_FAIL)
    assert status == 0, output
    assert "1 passed, 1 failed as known, 0 failed unexpectedly, 0 left out" in output


def test_listed_test_that_did_not_run_ends_with_1(checkouts: Checkouts) -> None:
    """As when the runner died before it."""
    checkouts.list_as_known("TestB", "TestGone")
    status, output = checkouts.run(PASS_AND_FAIL)
    assert status == 1
    assert "in the list, and did not run: TestGone" in output


def test_failure_outside_of_the_list_ends_with_1(checkouts: Checkouts) -> None:
    status, output = checkouts.run(PASS_AND_FAIL)
    assert status == 1
    assert "1 passed, 0 failed as known, 1 failed unexpectedly, 0 left out" in output
    assert "failed, and is not in the list: TestB" in output


def test_pass_of_a_listed_test_ends_with_1(checkouts: Checkouts) -> None:
    checkouts.list_as_known("TestA", "TestB")
    status, output = checkouts.run(PASS_AND_FAIL)
    assert status == 1
    assert "passed, and is in the list: TestA" in output


def test_skipped_tests_are_left_out(checkouts: Checkouts) -> None:
    status, output = checkouts.run(_lines(("run", "TestA"), ("skip", "TestA")))
    assert status == 0
    assert "0 passed, 0 failed as known, 0 failed unexpectedly, 1 left out" in output


def test_missing_checkouts_and_programs_are_named(checkouts: Checkouts) -> None:
    status, output = checkouts.run("", path="")
    assert status == 0
    left_out = [line for line in output.splitlines() if ": left out: " in line]
    assert {line.split(":")[0] for line in left_out} == {suite.name for suite in SUITES}
    assert "go-amqp: left out: it needs: Go" in output
    assert "rhea: left out: there is no checkout" in output


@pytest.mark.parametrize("results", ["", "{}\n", "no JSON\n", "[]\n"])
def test_suite_that_reports_no_test_ends_with_1(checkouts: Checkouts, results: str) -> None:
    status, output = checkouts.run(results)
    assert status == 1
    assert "go-amqp: not run: it reported nothing" in output


def test_folder_that_is_missing_is_an_error(checkouts: Checkouts) -> None:
    checkouts.folder = checkouts.folder / "missing"
    status, output = checkouts.run("")
    assert status == 2
    assert "is not a folder" in output


@pytest.mark.parametrize(
    "text, words",
    [
        ("[[other]]\nreason = 'x'\ntests = []", "'other' is not the name of a suite"),
        ("[[rhea]]\ntests = ['x']", "needs a reason and tests"),
        ("[[rhea]]\nreason = ''\ntests = ['x']", "needs a reason and tests"),
        ("[[rhea]]\nreason = 'x'\ntests = ['x', 'x']", "listed twice in 'rhea': x"),
        ("[[rhea]\n", "known.toml: "),
    ],
)
def test_invalid_list_is_an_error(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "known.toml"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"known\.toml") as caught:
        records.load_known(path)
    assert words in str(caught.value)


JUNIT = """<testsuites><testsuite name="s">
<testcase classname="c" name="a"/>
<testcase classname="c" name="b"><failure message="m"/></testcase>
<testcase classname="c" name="d"><skipped/></testcase>
<testcase classname="c" name="e"/><testcase classname="c" name="e"><error/></testcase>
<testcase classname="c" name="f"><skipped/><error/></testcase>
</testsuite></testsuites>"""


def test_junit_results(tmp_path: Path) -> None:
    path = tmp_path / "results.xml"
    path.write_text(JUNIT)
    expected: Any = {
        "c::a": "passed",
        "c::b": "failed",
        "c::d": "skipped",
        "c::e": "failed",
        "c::f": "failed",
    }
    assert read_junit(path) == expected


def test_go_test_that_does_not_end_has_failed(tmp_path: Path) -> None:
    path = tmp_path / "results"
    path.write_text(_lines(("run", "TestA"), ("run", "TestA/sub"), ("pass", "TestA/sub")))
    assert read_go(path) == {"TestA": "failed"}


def test_page_shows_the_recorded_counts() -> None:
    """`make suites SUITES=FOLDER SUITES_ARGS=--record` writes it."""
    page = records.PAGE.read_text(encoding="utf-8")
    table = records.markdown(records.load_counts(), records.load_known())
    assert records.page_with(page, table) == page


def test_recorded_failures_are_those_of_the_list() -> None:
    known = records.load_known()
    for name, counts in records.load_counts().items():
        listed = sum(len(one.tests) for one in known.get(name, ()))
        assert counts.failed == listed, name
        assert counts.passed > 0, name
