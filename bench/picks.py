"""Read three fields of an encoded message without decoding the others."""

from __future__ import annotations

from functools import partial
from typing import Any

from amqp10msg import Message
from bench import ours, peers
from bench.harness import Contender, Effort, measure
from bench.messages import MIB, REFERENCE
from bench.report import Figure, Floor

DECODED = "Message.decode, and three fields"
LARGE = "of a message of 1.1 MiB"


def larger() -> bytes:
    """Return the same message with a body of 1 MiB and 100 kB in an unread property."""
    message: Any = Message.decode(REFERENCE)
    message.application_properties["ratio"] = "x" * 100_000
    message.body.data = bytes(MIB)
    octets: bytes = message.encode()
    return octets


def run(effort: Effort) -> Figure:
    """Measure against decoding, and in a message that is 2,000 times as large."""
    modules, left_out = peers.load(peers.PROTON)
    contenders = [
        Contender(ours.NAME, partial(ours.THREE, REFERENCE)),
        Contender(LARGE, partial(ours.THREE, larger())),
        Contender(DECODED, partial(ours.read_three, REFERENCE)),
    ]
    contenders += [
        Contender(module.NAME, partial(module.read_three, REFERENCE)) for module in modules.values()
    ]
    timings = measure(contenders, effort)
    return Figure(
        key="pick",
        title="Pick three fields of a 500-byte message",
        timings=timings,
        floors=(
            Floor("at most 250 ns", timings.entries[0].median, at_most=250, unit=" ns"),
            Floor(
                "at least 100x faster than python-qpid-proton",
                timings.times("python-qpid-proton"),
                at_least=100,
            ),
            Floor(
                "at most 1.2x the time where 1.1 MiB are passed over",
                timings.times(LARGE),
                at_most=1.2,
                compiled_only=False,
            ),
        ),
        left_out=left_out,
    )
