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
#: A `go` that connects to the server, prints the file RESULTS, and exits with the status in STATUS.
GO = """#!{python}
import os, pathlib, socket, sys
if sys.argv[1] == "test":
    host, port = os.environ["AMQP_BROKER_ADDR"].removeprefix("amqp://").split(":")
    with socket.create_connection((host, int(port)), timeout=60) as broker:
        broker.sendall(b"AMQP\\0\\1\\0\\0")
        assert broker.recv(8) == b"AMQP\\0\\1\\0\\0"
    sys.stdout.write(pathlib.Path("RESULTS").read_text())
    sys.exit(int(pathlib.Path("STATUS").read_text()))
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
        self.counts = folder / "counts.json"
        self.work = folder / "work"

    def list_as_known(self, *tests: str) -> None:
        self.known.write_text(f'[[go-amqp]]\nreason = "a reason"\ntests = {json.dumps(tests)}\n')

    def record(self, passed: int, failed: int) -> None:
        counts = records.Counts("1.2.2", passed, failed, skipped=0)
        records.save_counts({"go-amqp": counts}, self.counts)

    def run(
        self, results: str, *more: str, go_status: int = 0, path: str | None = None
    ) -> tuple[int, str]:
        """Run the command, and return its status and output."""
        (self.go / "RESULTS").write_text(results)
        (self.go / "STATUS").write_text(str(go_status))
        path = f"{self.programs}{os.pathsep}{os.environ['PATH']}" if path is None else path
        files = ["--known", str(self.known), "--counts", str(self.counts), "--work", str(self.work)]
        done = subprocess.run(
            [sys.executable, str(TOOL), str(self.folder), *files, *more],
            capture_output=True,
            check=False,
            text=True,
            env={**os.environ, "PATH": path},
        )
        return done.returncode, done.stdout + done.stderr


@pytest.fixture
def checkouts(tmp_path: Path) -> Checkouts:
    return Checkouts(tmp_path)


PASS = _lines(("run", "TestA"), ("pass", "TestA"))
PASS_FAIL_SKIP = PASS + _lines(("run", "TestB"), ("fail", "TestB"), ("skip", "TestC"))


@pytest.mark.parametrize(
    "listed, recorded, status, line",
    [
        (["TestB"], (1, 1), 0, "1 passed, 1 failed as known, 0 failed unexpectedly, 1 skipped"),
        ([], None, 1, "1 failed unexpectedly, 1 skipped\n  failed, and is not in the list: TestB"),
        (["TestA", "TestB"], None, 1, "passed, and is in the list: TestA"),
        (["TestB", "TestGone"], None, 1, "in the list, and did not run: TestGone"),
        (["TestB"], (2, 1), 1, "1 of the 3 tests recorded for version 1.2.2 neither passed nor"),
    ],
    ids=["as expected", "unexpected failure", "fixed", "absent", "fewer than recorded"],
)
def test_outcomes_are_compared_with_the_list_and_the_counts(
    checkouts: Checkouts,
    listed: list[str],
    recorded: tuple[int, int] | None,
    status: int,
    line: str,
) -> None:
    checkouts.list_as_known(*listed)
    if recorded is not None:
        checkouts.record(*recorded)
    actual, output = checkouts.run(PASS_FAIL_SKIP, go_status=1)
    assert actual == status, output
    assert line in output


@pytest.mark.parametrize(
    "results, go_status, line",
    [
        ("", 2, "go-amqp: incomplete: it exited with status 2 and reported nothing"),
        ("no JSON\n", 1, "reported nothing: line 1 is not JSON: 'no JSON'\n    no JSON\n"),
        (PASS, 1, "exited with status 1 after reporting 1 tests, 0 of them failed"),
        (PASS_FAIL_SKIP, 0, "exited with status 0 after reporting 3 tests, 1 of them failed"),
        (PASS_FAIL_SKIP, 2, "exited with status 2 after reporting 3 tests, 1 of them failed"),
    ],
    ids=["no output", "no JSON", "failed without a failure", "failure but 0", "unknown status"],
)
def test_suite_that_crashed_is_an_error(
    checkouts: Checkouts, results: str, go_status: int, line: str
) -> None:
    """Even if the tests that it reported are as expected."""
    checkouts.list_as_known("TestB")
    status, output = checkouts.run(results, go_status=go_status)
    assert status == 1
    assert line in output


def test_missing_checkouts_and_programs_are_named(checkouts: Checkouts) -> None:
    status, output = checkouts.run("", path="")
    left_out = [line for line in output.splitlines() if ": left out: " in line]
    assert {line.split(":")[0] for line in left_out} == {suite.name for suite in SUITES}
    assert "go-amqp: left out: it needs: Go" in output
    assert "rhea: left out: there is no checkout" in output
    assert "no suite ran" in output
    assert status == 1


def test_missing_suite_is_an_error_if_it_is_named(checkouts: Checkouts) -> None:
    status, output = checkouts.run(PASS, "--suite", "go-amqp", "--suite", "rhea")
    assert status == 1
    assert "rhea: left out: there is no checkout" in output


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


@pytest.mark.parametrize(
    "text, words", [("{}\n", "has no test"), ("[]\n", "line 1 is not an object")]
)
def test_go_results_without_a_test_are_an_error(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "results"
    path.write_text(text)
    with pytest.raises(ValueError, match=words):
        read_go(path)


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
        listed = sum(len(difference.tests) for difference in known.get(name, ()))
        assert counts.failed == listed, name
        assert counts.passed > 0, name
