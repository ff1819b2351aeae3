"""The results of a figure, as text for a terminal, Markdown, or JSON."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import attrs

import amqp10msg
from bench.harness import Timings
from bench.peers import PEERS


@attrs.frozen
class Floor:
    """A limit of a figure, with the measured value."""

    text: str
    """What is promised, with the limit in it."""
    measured: float | None
    """None where the peer to compare with is not installed."""
    at_least: float | None = None
    at_most: float | None = None
    unit: str = "x"
    compiled_only: bool = True
    """Whether the promise is about the compiled build alone."""

    @property
    def met(self) -> bool:
        """Whether the value was measured and is within the limit."""
        if self.measured is None:
            return False
        return (self.at_least is None or self.measured >= self.at_least) and (
            self.at_most is None or self.measured <= self.at_most
        )

    def judge(self, compiled: bool) -> str:
        """Return a line with the limit, the measured value, and the verdict."""
        if self.measured is None:
            return f"[not measured] {self.text}"
        verdict = "met" if self.met else "MISSED"
        if self.compiled_only and not compiled:
            verdict = "for the compiled build"
        return f"[{verdict}] {self.text}: {self.measured:.3g}{self.unit}"


@attrs.frozen
class Figure:
    """One measurement, all contenders side by side; the first timing is amqp10msg's."""

    key: str
    title: str
    timings: Timings
    floors: tuple[Floor, ...] = ()
    left_out: tuple[str, ...] = ()
    """One line for each peer that is not installed, with the way to install it."""
    remarks: tuple[str, ...] = ()


def duration(nanoseconds: float) -> str:
    """Return a time in the unit that gives one to three digits before the point."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if nanoseconds >= size:
            return f"{nanoseconds / size:.3g} {unit}"
    return f"{nanoseconds:.3g} ns"


def text(figure: Figure, compiled: bool) -> str:
    """Return the figure as plain text."""
    width = max(len(timing.name) for timing in figure.timings.entries)
    lines = [figure.title, f"  {'':{width}}    median      best   spread   takes"]
    lines += [
        f"  {timing.name:{width}}  {duration(timing.median):>8}  {duration(timing.best):>8}"
        f"  {timing.spread:>6.0%}  {figure.timings.relative(timing):>6.3g}x"
        for timing in figure.timings.entries
    ]
    lines += [f"  {floor.judge(compiled)}" for floor in figure.floors]
    lines += [f"  {line}" for line in (*figure.remarks, *figure.left_out)]
    return "\n".join(lines)


def markdown(figures: Sequence[Figure], machine: dict[str, str]) -> str:
    """Return all figures as a Markdown table with a row per contender."""
    lines = [
        "| | median | takes |",
        "|---|---:|---:|",
    ]
    for figure in figures:
        lines.append(f"| **{figure.title}** | | |")
        lines += [
            f"| {timing.name} | {duration(timing.median)}"
            f" | {figure.timings.relative(timing):.3g}x |"
            for timing in figure.timings.entries
        ]
    lines += ["", "; ".join(f"{key} {value}" for key, value in machine.items()) + "."]
    return "\n".join(lines)


def as_json(figures: Sequence[Figure], machine: dict[str, str]) -> dict[str, Any]:
    """Return all measurements as JSON, in nanoseconds per call."""
    return {
        "machine": machine,
        "figures": {
            figure.key: {
                "title": figure.title,
                "timings": {
                    timing.name: {
                        "median_ns": timing.median,
                        "best_ns": timing.best,
                        "spread": timing.spread,
                        "times_amqp10msg": figure.timings.relative(timing),
                        "rounds_ns": timing.rounds,
                    }
                    for timing in figure.timings.entries
                },
                "floors": [{**attrs.asdict(floor), "met": floor.met} for floor in figure.floors],
                "left_out": figure.left_out,
                "remarks": figure.remarks,
            }
            for figure in figures
        },
    }


def _processor() -> str:
    """Return the processor's name if the system provides it, else the architecture."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def machine() -> dict[str, str]:
    """Return a description of the machine and the interpreter."""
    build = "compiled" if amqp10msg.COMPILED else "pure Python"
    found = {
        "amqp10msg": f"{amqp10msg.__version__} ({build})",
        platform.python_implementation(): platform.python_version(),
        "on": f"{platform.system()} {platform.machine()}",
        "processor": f"{_processor()}, {os.cpu_count()} visible",
    }
    for peer in PEERS:
        if peer.load() is not None:
            found[peer.install] = version(peer.install)
    return found
