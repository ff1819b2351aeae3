"""The work of an intermediary: replace the header, and keep the other sections' bytes."""

from __future__ import annotations

from functools import partial

from bench import ours, peers
from bench.harness import Contender, Effort, measure
from bench.messages import REFERENCE
from bench.report import Figure, Floor


def run(effort: Effort) -> Figure:
    """Measure against decoding, changing the header and encoding, as with proton."""
    modules, left_out = peers.load(peers.PROTON)
    contenders = [
        Contender(ours.NAME, partial(ours.relay, REFERENCE)),
        Contender(f"{ours.NAME}, counting up", partial(ours.relay_counting, REFERENCE)),
    ]
    contenders += [
        Contender(module.NAME, partial(module.relay, REFERENCE)) for module in modules.values()
    ]
    contenders.append(Contender("copy of the bytes", partial(bytes, bytearray(REFERENCE))))
    timings = measure(contenders, effort)
    return Figure(
        key="relay",
        title="Replace the header of a 500-byte message",
        timings=timings,
        floors=(
            Floor(
                "at least 60x faster than python-qpid-proton",
                timings.times("python-qpid-proton"),
                at_least=60,
            ),
        ),
        left_out=left_out,
        remarks=("'counting up' decodes the header it came with and adds one delivery.",),
    )
