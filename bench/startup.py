"""The cost of imports from amqp10msg, and of two commands, in a new interpreter."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from time import perf_counter_ns

from bench import ours
from bench.harness import Contender, Effort, measure
from bench.report import Figure, Floor

if sys.platform != "win32":
    import resource

ROOT = Path(__file__).resolve().parent.parent

ATTRS = "attrs"
NOTHING = "no import"
VERSION = "amqp10msg --version"
INSPECT = "amqp10msg inspect, one message"
# Used by every command that reads messages: over half of its start-up time.
LIBRARIES = "import click, attrs"
_COMMAND = "import sys; sys.argv[1:] = {}; from amqp10msg.__main__ import main; main()"


def run(effort: Effort) -> Figure:
    """Measure whole runs of the interpreter; each contender starts once a round."""
    contenders = [
        Contender(name, partial(start, statement))
        for name, statement in (
            (ours.NAME, "from amqp10msg import Message"),
            (ATTRS, "import attrs"),
            (NOTHING, "pass"),
            (VERSION, _COMMAND.format(["--version"])),
            (INSPECT, _COMMAND.format(["inspect", "00537745"])),
            (LIBRARIES, LIBRARIES),
        )
    ]
    starts = Effort(rounds=effort.starts, batch_ms=0, warm_up=False)
    timings = measure(contenders, starts, children_time_ns)
    medians = {timing.name: timing.median for timing in timings.entries}
    return Figure(
        key="startup",
        title="Start Python and import",
        timings=timings,
        floors=(
            Floor(
                "less than 60 ms more than attrs",
                (medians[ours.NAME] - medians[ATTRS]) / 1e6,
                at_most=60,
                unit=" ms",
                compiled_only=False,
            ),
            Floor(
                f"{VERSION}: at most 1.5x the start of Python",
                timings.ratio(VERSION, NOTHING),
                at_most=1.5,
                compiled_only=False,
            ),
            Floor(
                f"{INSPECT}: at most 2.2x the start of Python with click and attrs",
                timings.ratio(INSPECT, LIBRARIES),
                at_most=2.2,
            ),
        ),
    )


def children_time_ns() -> int:
    """Return the processor time of finished child processes; on Windows, the wall-clock time."""
    if sys.platform == "win32":
        return perf_counter_ns()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return round((used.ru_utime + used.ru_stime) * 1e9)


def start(statement: str) -> None:
    """Run `statement` in a new interpreter, with bytecode files."""
    environment = {**os.environ}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    subprocess.run(
        [sys.executable, "-c", statement],
        check=True,
        cwd=ROOT,
        env=environment,
        stdout=subprocess.DEVNULL,
    )
