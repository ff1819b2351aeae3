"""Known differences and counts of other projects' suites, and the table of the documentation."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import attrs
from suite_results import Outcomes
from suite_table import SUITES, Suite

from amqp10msg.atomic_files import write_whole

HERE = Path(__file__).parent / "suites"
KNOWN = HERE / "known.toml"
COUNTS = HERE / "counts.json"
PAGE = Path(__file__).parents[1] / "docs" / "reference" / "serve.md"
BEGIN, END = "<!-- suites:begin -->", "<!-- suites:end -->"


@attrs.frozen
class Known:
    """Tests of a suite that are known to fail, and the one reason why they do."""

    reason: str
    tests: tuple[str, ...]


@attrs.frozen
class Counts:
    """What a run of a suite counted, and the version that ran."""

    version: str
    passed: int
    failed: int
    skipped: int

    @property
    def ran(self) -> int:
        """Number of tests that passed or failed."""
        return self.passed + self.failed


@attrs.frozen
class Comparison:
    """The outcome of a suite, compared with its known differences and with its recorded counts.

    Attributes:
        passed: number of tests that passed, including `fixed`.
        known: the tests that failed as the list says.
        unexpected: the tests that failed and are not in the list.
        fixed: the tests that passed although they are in the list.
        skipped: number of tests that the suite skipped.
        absent: the tests in the list that the suite did not run.
        recorded: the counts of the last recorded run, or None.
    """

    passed: int
    known: tuple[str, ...]
    unexpected: tuple[str, ...]
    fixed: tuple[str, ...]
    skipped: int
    absent: tuple[str, ...]
    recorded: Counts | None = None

    @property
    def failed(self) -> int:
        """Number of tests that failed."""
        return len(self.known) + len(self.unexpected)

    @property
    def shortfall(self) -> int:
        """Number of recorded tests that neither passed nor failed in this run, at least 0."""
        return max(0, self.recorded.ran - self.passed - self.failed) if self.recorded else 0

    @property
    def is_as_expected(self) -> bool:
        """Whether exactly the tests in the list failed, and the suite was not cut off."""
        return not (self.unexpected or self.fixed or self.absent or self.shortfall)


def compare(
    outcomes: Outcomes, known: Iterable[Known], recorded: Counts | None = None
) -> Comparison:
    """Compare outcomes with the known differences and the recorded counts of their suite."""
    listed = {test for difference in known for test in difference.tests}

    def named(outcome: str) -> list[str]:
        return [test for test, had in outcomes.items() if had == outcome]

    passed, failed, skipped = named("passed"), named("failed"), named("skipped")
    return Comparison(
        passed=len(passed),
        known=tuple(test for test in failed if test in listed),
        unexpected=tuple(test for test in failed if test not in listed),
        fixed=tuple(test for test in passed if test in listed),
        skipped=len(skipped),
        absent=tuple(sorted(listed.difference(outcomes))),
        recorded=recorded,
    )


def load_known(path: Path = KNOWN) -> dict[str, list[Known]]:
    """Read the known differences, by the name of the suite.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is not TOML of this form: a table array for each suite, with the keys
            ``reason`` and ``tests``; or a test is listed twice.
    """
    found: dict[str, list[Known]] = {}
    try:
        read = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path}: {error}") from None
    for name, entries in read.items():
        if name not in {suite.name for suite in SUITES}:
            raise ValueError(f"{path}: {name!r} is not the name of a suite")
        found[name] = [_known(path, name, entry) for entry in entries]
        tests = [test for known in found[name] for test in known.tests]
        twice = {test for test in tests if tests.count(test) > 1}
        if twice:
            raise ValueError(f"{path}: listed twice in {name!r}: {', '.join(sorted(twice))}")
    return found


def _known(path: Path, name: str, entry: Any) -> Known:
    match entry:
        case {"reason": str(reason), "tests": list(tests), **others} if reason and not others:
            return Known(reason, tuple(map(str, tests)))
    raise ValueError(
        f"{path}: an entry of {name!r} needs a reason and tests, and has {entry!r:.80}"
    )


def load_counts(path: Path = COUNTS) -> dict[str, Counts]:
    """Read the counts of the last recorded runs, by the name of the suite."""
    if not path.is_file():
        return {}
    read = json.loads(path.read_text(encoding="utf-8"))
    return {name: Counts(**counts) for name, counts in read.items()}


def save_counts(counts: Mapping[str, Counts], path: Path = COUNTS) -> None:
    """Write the counts of the last recorded runs."""
    fields = {name: attrs.asdict(suite_counts) for name, suite_counts in sorted(counts.items())}
    write_whole(path, json.dumps(fields, indent=2) + "\n")


def markdown(counts: Mapping[str, Counts], known: Mapping[str, list[Known]]) -> str:
    """Return the table of suites, and the reasons of what fails, for the documentation."""
    lines = ["| suite | version | server | passed | failed |", "| --- | --- | --- | --- | --- |"]
    lines += [_row(suite, counts[suite.name]) for suite in SUITES if suite.name in counts]
    for suite in SUITES:
        if suite.name in counts and known.get(suite.name):
            lines += ["", f"What fails of {suite.title}:", ""]
            lines += [
                f"- {len(one.tests)} {'test' if len(one.tests) == 1 else 'tests'}: {one.reason}"
                for one in known[suite.name]
            ]
    return "\n".join(lines) + "\n"


def _row(suite: Suite, counts: Counts) -> str:
    options = " ".join(suite.serve).format(port="", url="", users="FILE", results="", suites="")
    cells = (
        suite.title,
        counts.version,
        f"`amqp10msg serve {options}`".replace(" `", "`"),
        f"{counts.passed:,} of {counts.ran:,}",
        f"{counts.failed:,}",
    )
    return f"| {' | '.join(cells)} |"


def page_with(page: str, table: str) -> str:
    """Return the text of the page with the table between its marks.

    Raises:
        ValueError: the page does not have both marks.
    """
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"{PAGE} has no lines {BEGIN} and {END}")
    return f"{before}{BEGIN}\n{table}{END}{after}"
