"""What `make fresh` reads and shows; the bare machines themselves are tried by `.ci/run`."""

from __future__ import annotations

import argparse
import sys
import tomllib
from collections import Counter
from pathlib import Path

import pytest
from reasons import SHOWN, reasons

fresh = pytest.importorskip("fresh", reason="the tools are not here: it takes a checkout")
examples = pytest.importorskip("doc_examples", reason="the tools are not here")
ROOT = Path(__file__).parents[2]
TWO_PASSES = """
=========== 1 failed, 6270 passed, 540 skipped, 1 error in 283.59s (0:04:43) ===========
Left out: the tests that need a
== 3 passed, 2 errors in 2.00s ==
Left out: tests, because b
Left out: the tests that need a
"""


def test_the_commands_are_those_that_readme_prints() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")

    assert ["make demo", "make test"] == fresh.commands(readme)
    with pytest.raises(SystemExit, match="no command of make"):
        fresh.commands("```console\n$ pip install x\n```\n")


def test_all_passes_are_counted() -> None:
    expected = Counter(passed=6273, skipped=540, error=3, failed=1)
    causes = ["the tests that need a", "tests, because b", "the tests that need a"]

    assert causes == fresh.LEFT_OUT.findall(f"Left out: a package\n{TWO_PASSES}")

    assert expected == fresh.counted(TWO_PASSES)
    assert Counter() == fresh.counted("make: *** [Makefile:77: test] Error 1\n")


@pytest.mark.parametrize(
    "status, counts, failed",
    [(0, {"passed": 3}, False), (2, {}, True), (0, {"error": 1}, True), (0, {"failed": 1}, True)],
)
def test_a_command_failed_if_one_of_its_tests_did(
    status: int, counts: dict[str, int], failed: bool
) -> None:
    assert failed == fresh.Outcome("m", "make test", 1.0, status, Counter(counts)).failed


def test_what_failed_is_shown_with_its_reason() -> None:
    passed = [f"tests/test_a.py::test_{number} PASSED" for number in range(1000)]
    failures = ["=== FAILURES ===", "__ test_x __", "E   assert 1 == 2"]
    summary = ["FAILED tests/test_a.py::test_x - assert 1 == 2", "== 1 failed, 9 passed in 2.0s =="]
    two_passes = [
        *passed,
        *failures,
        *summary,
        "AMQP10MSG_PURE=1 pytest",
        *passed,
        "== 9 passed in 1.0s ==",
    ]
    stopped = ["=== ERRORS ===", *passed, "Killed"]

    assert [*failures, *summary, summary[0]] == reasons("\n".join(two_passes)).splitlines()
    assert passed[-SHOWN:] == reasons("\n".join(passed)).splitlines()
    shown = reasons("\n".join(stopped)).splitlines()
    assert ("=== ERRORS ===", "… 702 lines …", "Killed") == (shown[0], shown[SHOWN], shown[-1])


def test_the_table_has_a_line_a_command_and_a_line_a_cause() -> None:
    made = [
        fresh.Outcome("one", "make demo", 8.4, 0),
        fresh.Outcome("one", "make test", 100, 2, Counter(passed=5, failed=1, error=1), ["c"]),
        fresh.Outcome("other", "make test", 90, 0, Counter(passed=5, skipped=1), ["c"]),
    ]

    head, *lines = fresh.table(made).splitlines()

    assert [
        "machine",
        "command",
        "seconds",
        "status",
        "passed",
        "failed",
        "skipped",
    ] == head.split()
    assert ["one", "make", "demo", "8", "0"] == lines[0].split()
    assert ["one", "make", "test", "100", "2", "5", "2", "0"] == lines[1].split()
    assert ["other", "make", "test", "90", "0", "5", "0", "1"] == lines[2].split()
    assert ["Left out on all 2: c"] == lines[3:]


def test_the_table_of_packages_has_what_pip_did() -> None:
    log = "x\nInstalled in 12.3 s, 45.6 MB; corpus passed\n"
    (installed,) = fresh.INSTALLED.findall(log)
    made = [
        fresh.Outcome("one", "build", 300, 0),
        fresh.Outcome("one", "wheel[cli]", 20, 0, installed=installed),
        fresh.Outcome("one", "wheel[all]", 20, 1, installed=("9.0", "1.0", "failed")),
    ]

    _, _, *lines = fresh.table_of_packages(made).splitlines()

    assert "| one | `build` |  |  |  | works |" == lines[0]
    assert "| one | `wheel[cli]` | 12.3 | 45.6 | passed | works |" == lines[1]
    assert lines[2].endswith("| 9.0 | 1.0 | failed | failed |")


def test_an_interpreter_of_this_machine_is_tried_in_a_home_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fresh, "OUT", tmp_path)
    steps = [("say", 'python3 -m venv --help > help.txt; echo "$HOME"; ls ~ && pwd; exit 3')]

    (found,) = fresh.run(sys.executable, steps)

    log = next(tmp_path.glob("*-say.log")).read_text()
    said = log.split()
    assert log.splitlines() == found.reasons.splitlines()
    assert (3, fresh.version_of(sys.executable)) == (found.status, found.machine)
    assert str(Path.home()) != said[0]
    assert fresh.CLONE in said


def test_every_machine_has_its_turn() -> None:
    given = {"suite": None, "compiler": None, "user": None, "in_turn": False}
    turn = argparse.Namespace(**{**given, "in_turn": True})

    assert 12 == len(fresh.machines_of(argparse.Namespace(**given)))
    assert {"bookworm"} == {
        one.suite
        for one in fresh.machines_of(argparse.Namespace(**{**given, "suite": ["bookworm"]}))
    }
    found = {fresh.machines_of(turn, day)[0] for day in range(739_000, 739_011)}
    assert set(fresh.machines_of(argparse.Namespace(**given))) == {
        *found,
        fresh.Machine(*fresh.ALWAYS),
    }
    assert 11 == len(found)
    ci = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert "--suite bookworm --compiler no --user newcomer" in ci


def test_every_extra_is_installed_alone_and_has_an_example() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    tried = {one for extras in [*fresh.EXTRAS, *fresh.PROGRAMS] for one in extras.split(",") if one}

    assert set(project["optional-dependencies"]) == tried | {*fresh.NOT_TRIED}
    assert not tried & {*fresh.NOT_TRIED}
    for page, word in fresh.EXTRAS.values():
        text = (ROOT / page).read_text(encoding="utf-8")
        assert any(word in example.text for example in examples.examples_of(text)), page
    assert {"build", "sdist", "wheel[]", "wheel[cli]"} <= {name for name, _ in fresh.of_packages()}


def test_two_runs_do_not_use_one_folder(tmp_path: Path) -> None:
    with (
        fresh.locked(tmp_path / "bookworm"),
        fresh.locked(tmp_path / "trixie"),
        pytest.raises(SystemExit, match="bookworm is in use by another run"),
        fresh.locked(tmp_path / "bookworm"),
    ):
        pass
    with fresh.locked(tmp_path / "bookworm"):
        pass
