"""Print why a command failed, from the file with what it printed.

    python3 tools/reasons.py LOG

Of pytest, whose passes may follow one another in a file, that is each pass's section of failures
and, last, the names of the tests; of another command its last lines.

Standard library only: CI calls it before anything is installed.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

#: The heading over what failed: "== FAILURES ==", "== ERRORS ==".
HEADING = re.compile(r"^=+ (?:FAILURES|ERRORS) =+$")
#: The last line of a pass: "== 3 failed, 7274 passed in 300.12s (0:05:00) ==".
SUMMARY = re.compile(r"^(?:=+ )?\d+ (?:passed|failed|errors?|skipped)\b.* in [\d.]+s")
NAME = re.compile(r"^(?:FAILED|ERROR) \S+::\S+")
#: How many lines of a section are shown from its beginning, and as many from its end.
SHOWN = 150


def reasons(output: str) -> str:
    """Return the failures of pytest and the names of the tests, or the last lines."""
    lines = output.splitlines()
    kept: list[str] = []
    start: int | None = None
    for place, line in enumerate(lines):
        if start is None and HEADING.match(line):
            start = place
        elif start is not None and SUMMARY.match(line):
            kept += shortened(lines[start : place + 1])
            start = None
    if start is not None:  # the pass has no last line: it was stopped
        kept += shortened(lines[start:])
    names = [line for line in lines if NAME.match(line)]
    return "\n".join([*kept, *names] or lines[-SHOWN:])


def shortened(lines: list[str]) -> list[str]:
    """Return the lines, without those in the middle if there are many."""
    left_out = len(lines) - 2 * SHOWN
    if left_out <= 1:
        return lines
    return [*lines[:SHOWN], f"… {left_out} lines …", *lines[-SHOWN:]]


if __name__ == "__main__":
    print(reasons(Path(sys.argv[1]).read_text(encoding="utf-8", errors="replace")))
