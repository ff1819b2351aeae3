"""Decoding batches to Arrow columns, compared with decoding messages one by one."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa

from amqp10msg import Message, validate
from amqp10msg.columns import decode, encode
from bench import ours, peers
from bench.harness import SMOKE, Contender, Effort, measure
from bench.messages import BODY, GENERAL, GENERAL_VALUE, REFERENCE, data_section
from bench.report import Figure, Floor

COUNT = 2_000
#: The reference message with a shorter body, 300 bytes in all.
SHORT = REFERENCE.removesuffix(data_section(BODY)) + data_section(BODY[:59])
PROJECTION = ("message_id", "application_properties.tenant")
ONE_BY_ONE = "Message.decode, one by one"
READ = "the same, every field read"
JUDGED = "validate, one by one"
KEPT = "the same, all of them kept"
TWO = "two columns alone"


def each(read: Callable[[bytes], Any], octets: bytes, count: int) -> None:
    """Read the same number of messages one by one, without keeping them."""
    for _ in range(count):
        read(octets)


def keep(read: Callable[[bytes], Any], octets: bytes, count: int) -> list[Any]:
    """Read the same number of messages one by one, and keep their values, as columns do."""
    return [read(octets) for _ in range(count)]


def _run(effort: Effort, key: str, octets: bytes) -> Figure:
    count = 10 if effort is SMOKE else COUNT
    array = pa.array([octets] * count)
    modules, left_out = peers.load(peers.PROTON)
    contenders = [
        Contender(ours.NAME, partial(decode, array)),
        Contender(TWO, partial(decode, array, PROJECTION)),
        Contender(ONE_BY_ONE, partial(each, Message.decode, octets, count)),
        Contender(READ, partial(each, ours.read_reference, octets, count)),
        Contender(KEPT, partial(keep, Message.decode, octets, count)),
        *(
            Contender(module.NAME, partial(each, module.read_reference, octets, count))
            for module in modules.values()
        ),
    ]
    timings = measure(contenders, effort)
    share = timings.share(TWO)
    return Figure(
        key=key,
        title=f"Decode {count:,} messages of {len(octets)} bytes into columns",
        timings=timings,
        floors=(
            Floor(
                "at least 100x faster than python-qpid-proton, every field read",
                timings.times("python-qpid-proton"),
                at_least=100,
            ),
            # A call needs 36 µs for its arrays, 8 µs with two columns: see docs, benchmarks.md.
            Floor(
                "at least 3.3x faster than Message.decode", timings.times(ONE_BY_ONE), at_least=3.3
            ),
            Floor("two columns at least 2x faster than all", share, at_least=2),
        ),
        left_out=left_out,
        remarks=("Every call decodes all of the messages.",),
    )


def run_judged(effort: Effort) -> Figure:
    """Measure decoding with validation, compared with validating each message."""
    count = 10 if effort is SMOKE else COUNT
    array = pa.array([REFERENCE] * count)
    timings = measure(
        [
            Contender(ours.NAME, partial(decode, array, validate="oasis")),
            Contender("without rules", partial(decode, array)),
            Contender(JUDGED, partial(each, validate, REFERENCE, count)),
        ],
        effort,
    )
    return Figure(
        key="columns-validate",
        title=f"Decode {count:,} messages of {len(REFERENCE)} bytes, held to the profile oasis",
        timings=timings,
        floors=(
            Floor(
                "at least 400,000 messages a second",
                count / timings.entries[0].median * 1e9,
                at_least=400_000,
                unit="/s",
            ),
        ),
        remarks=("Messages that may break a rule are judged one by one; none of these may.",),
    )


def run_encode(effort: Effort) -> Figure:
    """Measure encoding columns to messages, compared with decoding them."""
    count = 10 if effort is SMOKE else COUNT
    usual = {
        ours.NAME: (REFERENCE, 2),
        "the general message": (GENERAL, 2.5),
        "with a map as body": (GENERAL_VALUE, 2.5),
    }
    contenders, floors = [], []
    for name, (octets, _) in usual.items():
        array = pa.array([octets] * count)
        contenders.append(Contender(name, partial(encode, decode(array))))
        contenders.append(Contender(f"decode of {name}", partial(decode, array)))
    timings = measure(contenders, effort)
    for name, (_, most) in usual.items():
        text = f"{name}: at most {most}x decode of the same"
        floors.append(Floor(text, timings.ratio(name, f"decode of {name}"), at_most=most))
    return Figure(
        key="columns-encode",
        title=f"Encode {count:,} messages of {len(REFERENCE)} bytes from their columns",
        timings=timings,
        floors=tuple(floors),
        remarks=(
            "The first message is the best case; the others have properties of twelve types.",
        ),
    )


def run(effort: Effort) -> Figure:
    """Measure with messages of 500 bytes."""
    return _run(effort, "columns", REFERENCE)


def run_short(effort: Effort) -> Figure:
    """Measure with messages of 300 bytes."""
    return _run(effort, "columns-300", SHORT)
