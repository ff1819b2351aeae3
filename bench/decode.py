"""Decode the reference message and read every field; likewise the ordinary message."""

from __future__ import annotations

from functools import partial

from bench import ours, peers
from bench.harness import Contender, Effort, measure
from bench.messages import ORDINARY, REFERENCE
from bench.report import Figure, Floor

SAME_CONTENT = "msgspec, the same content"


def run(effort: Effort) -> Figure:
    """Measure against every peer; msgspec and a plain copy are lower bounds."""
    modules, left_out = peers.load(*peers.PEERS)
    contenders = [Contender(ours.NAME, partial(ours.read_reference, REFERENCE))]
    for peer, module in modules.items():
        data = module.build_reference() if peer is peers.MSGSPEC else REFERENCE
        contenders.append(Contender(module.NAME, partial(module.read_reference, data)))
    contenders.append(Contender("the ordinary message", partial(ours.read, ORDINARY)))
    if peers.MSGSPEC in modules:
        msgspec = modules[peers.MSGSPEC]
        contenders.append(Contender(SAME_CONTENT, partial(msgspec.read, msgspec.build_ordinary())))
    contenders.append(Contender("copy of the bytes", partial(bytes, bytearray(REFERENCE))))
    timings = measure(contenders, effort)
    return Figure(
        key="decode",
        title="Decode a 500-byte message and read every field",
        timings=timings,
        floors=(
            # CPython objects and attributes take two thirds of the time: see docs, benchmarks.md.
            Floor(
                "at least 17.5x faster than python-qpid-proton",
                timings.times("python-qpid-proton"),
                at_least=17.5,
            ),
            Floor(
                "at least 7x faster than azure-servicebus",
                timings.times("azure-servicebus"),
                at_least=7,
            ),
            Floor("at most 2.2x msgspec's time", timings.share("msgspec"), at_most=2.2),
            Floor(
                "the ordinary message: at most 1.4x msgspec's time",
                timings.ratio("the ordinary message", SAME_CONTENT),
                at_most=1.4,
            ),
        ),
        left_out=left_out,
        remarks=(
            "azure-servicebus leaves text undecoded.",
            "msgspec reads the same content from MessagePack.",
        ),
    )
