"""Build the reference message from Python values and encode it; likewise the ordinary message."""

from __future__ import annotations

from bench import ours, peers
from bench.harness import Contender, Effort, measure
from bench.report import Figure, Floor

SAME_CONTENT = "msgspec, the same content"


def run(effort: Effort) -> Figure:
    """Measure construction and encoding together, for every peer."""
    modules, left_out = peers.load(*peers.PEERS)
    contenders = [Contender(ours.NAME, ours.build_reference)]
    contenders += [Contender(module.NAME, module.build_reference) for module in modules.values()]
    contenders.append(Contender("the ordinary message", ours.build_ordinary))
    if peers.MSGSPEC in modules:
        contenders.append(Contender(SAME_CONTENT, modules[peers.MSGSPEC].build_ordinary))
    timings = measure(contenders, effort)
    return Figure(
        key="encode",
        title="Build a 500-byte message from Python values and encode it",
        timings=timings,
        floors=(
            Floor(
                "at least 14x faster than python-qpid-proton",
                timings.times("python-qpid-proton"),
                at_least=14,
            ),
            Floor(
                "the ordinary message: at most 3.4x msgspec's time",
                timings.ratio("the ordinary message", SAME_CONTENT),
                at_most=3.4,
            ),
        ),
        left_out=left_out,
        remarks=("msgspec writes the same content as MessagePack.",),
    )
