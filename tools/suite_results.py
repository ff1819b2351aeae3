"""Read the reports of other projects' test runners: JUnit XML and the JSON of `go test`."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, TypeAlias

Outcome: TypeAlias = Literal["passed", "failed", "skipped"]
#: The outcome of each test by its name.
Outcomes: TypeAlias = dict[str, Outcome]

#: When a runner reports a test twice, such as for an error after its end, the worse outcome counts.
_SEVERITY: tuple[Outcome, ...] = ("skipped", "passed", "failed")
_OF_TAG: dict[str, Outcome] = {"failure": "failed", "error": "failed", "skipped": "skipped"}
_OF_ACTION: dict[str, Outcome] = {"pass": "passed", "fail": "failed", "skip": "skipped"}


def _add(outcomes: Outcomes, test: str, outcome: Outcome) -> None:
    known = outcomes.get(test, outcome)
    outcomes[test] = max(known, outcome, key=_SEVERITY.index)


def read_junit(path: Path) -> Outcomes:
    """Read JUnit XML, as pytest and mocha write it.

    A test is named ``CLASS::NAME``.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is not JUnit XML.
    """
    try:
        root = ET.parse(path).getroot()
    except ET.ParseError as error:
        raise ValueError(f"{path} is not XML: {error}") from None
    outcomes: Outcomes = {}
    for case in root.iter("testcase"):
        tags = [_OF_TAG[child.tag] for child in case if child.tag in _OF_TAG]
        worst: Outcome = max(tags, key=_SEVERITY.index) if tags else "passed"
        _add(outcomes, f"{case.get('classname')}::{case.get('name')}", worst)
    return outcomes


def read_go(path: Path) -> Outcomes:
    """Read the lines of ``go test -json``.

    Subtests count with the test that they are part of. A test that began and did not end has
    failed: the process died.

    Raises:
        OSError: the file cannot be read.
        ValueError: a line is not a JSON object, or nothing ran because the package does not build.
    """
    outcomes: Outcomes = {}
    for event in _events(path.read_text(encoding="utf-8").splitlines()):
        test = event.get("Test")
        if not test or "/" in test:
            continue
        if event.get("Action") == "run":
            outcomes[test] = "failed"  # until it ends
        elif (outcome := _OF_ACTION.get(event.get("Action", ""))) is not None:
            outcomes[test] = outcome
    if not outcomes:
        raise ValueError(f"{path} has no test: see whether the package builds")
    return outcomes


def _events(lines: Iterable[str]) -> Iterable[dict[str, Any]]:
    for number, line in enumerate(lines, 1):
        try:
            event = json.loads(line)
        except ValueError:
            raise ValueError(f"line {number} is not JSON: {line[:80]!r}") from None
        if not isinstance(event, dict):
            raise ValueError(f"line {number} is not an object: {line[:80]!r}")  # noqa: TRY004
        yield event
