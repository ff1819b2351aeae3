"""The build without a compiler: decode the reference message and read every field.

`run` starts a fresh interpreter with ``AMQP10MSG_PURE=1``, in which amqp10msg and proton are
measured against each other; ``python -m bench.pure`` is that interpreter.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import attrs

import amqp10msg
from bench import ours, peers
from bench.harness import Contender, Effort, Timing, Timings, measure
from bench.messages import REFERENCE
from bench.report import Figure, Floor

ROOT = Path(__file__).resolve().parent.parent


def run(effort: Effort) -> Figure:
    """Measure in a new interpreter with the pure kernel."""
    _, left_out = peers.load(peers.PROTON)
    done = subprocess.run(
        [sys.executable, "-m", "bench.pure"],
        check=True,
        cwd=ROOT,
        env={**os.environ, "AMQP10MSG_PURE": "1"},
        input=json.dumps(attrs.asdict(effort)),
        stdout=subprocess.PIPE,
        text=True,
    )
    found: dict[str, list[float]] = json.loads(done.stdout)
    timings = Timings(tuple(Timing(name, tuple(rounds)) for name, rounds in found.items()))
    return Figure(
        key="pure",
        title="The pure Python build: decode a 500-byte message and read every field",
        timings=timings,
        floors=(
            Floor(
                "at least as fast as python-qpid-proton",
                timings.times("python-qpid-proton"),
                at_least=1,
                compiled_only=False,
            ),
        ),
        left_out=left_out,
    )


def main() -> None:
    """Measure with the effort given on standard input; print nanoseconds per round as JSON."""
    if amqp10msg.COMPILED:
        raise SystemExit("the compiled kernel is loaded: AMQP10MSG_PURE=1 had no effect")
    modules, _ = peers.load(peers.PROTON)
    contenders = [Contender(ours.NAME, partial(ours.read_reference, REFERENCE))]
    contenders += [
        Contender(module.NAME, partial(module.read_reference, REFERENCE))
        for module in modules.values()
    ]
    timings = measure(contenders, Effort(**json.load(sys.stdin)))
    json.dump({timing.name: timing.rounds for timing in timings.entries}, sys.stdout)


if __name__ == "__main__":
    main()
