"""Messages that differ in three values, from a template: one by one, and a column at a time."""

from __future__ import annotations

from functools import partial

from bench import messages, ours, peers
from bench.harness import SMOKE, Contender, Effort, measure
from bench.report import Figure, Floor

BUILT = "building and encoding"
ORDINARY = "the ordinary message"
ORDINARY_READ = "decode and read, the ordinary message"
SET = "msgspec, three values set"
#: Messages per column.
COUNT = 1_000_000


def run(effort: Effort) -> Figure:
    """Measure against building and encoding, here and with every peer."""
    modules, left_out = peers.load(*peers.PEERS)
    contenders = [
        Contender(ours.NAME, partial(ours.template().encode, *ours.VALUES)),
        Contender(BUILT, ours.build_reference),
        Contender(ORDINARY, partial(ours.ordinary_template().encode, *ours.ORDINARY_VALUES)),
        Contender(ORDINARY_READ, partial(ours.read, messages.ORDINARY)),
    ]
    contenders += [Contender(module.NAME, module.build_reference) for module in modules.values()]
    msgspec = modules.get(peers.MSGSPEC)
    if msgspec is not None:
        contenders.append(Contender(SET, partial(msgspec.fill, msgspec.template(), *ours.VALUES)))
    timings = measure(contenders, effort)
    return Figure(
        key="template",
        title="Encode a 500-byte message from its template and three values",
        timings=timings,
        floors=(
            # An eighth of the 2 µs that building was allowed to take.
            Floor("at most 250 ns", timings.entries[0].median, at_most=250, unit=" ns"),
            Floor(f"at least 7x faster than {BUILT}", timings.times(BUILT), at_least=7),
            Floor(
                "at least 2x faster than msgspec, building the same content",
                timings.times("msgspec"),
                at_least=2,
            ),
            Floor(
                f"{ORDINARY}: at most 0.16x decode and read",
                timings.ratio(ORDINARY, ORDINARY_READ),
                at_most=0.16,
            ),
        ),
        left_out=left_out,
        remarks=(
            "The peers build the message; msgspec writes MessagePack.",
            "'three values set' keeps its objects and encodes them again.",
        ),
    )


def run_columns(effort: Effort) -> Figure:
    """Measure a column of values for each path, against encoding row by row."""
    import pyarrow as pa  # noqa: PLC0415 - where the figure is run it is installed

    from amqp10msg.columns import encode  # noqa: PLC0415 - likewise

    count = 10 if effort is SMOKE else COUNT
    template = ours.template()
    _, attempt, body = ours.VALUES
    columns = (
        pa.array([f"msg-{number:05d}" for number in range(count)]),
        pa.repeat(attempt, count),
        pa.repeat(pa.scalar(body, pa.binary()), count),
    )
    whole = dict(zip(ours.VARYING, columns, strict=True))
    few = {path: column.slice(0, max(count // 100, 1)) for path, column in whole.items()}
    rows = [*zip(*(array.to_pylist() for array in few.values()), strict=True)]
    timings = measure(
        [
            Contender(ours.NAME, partial(encode, whole, template)),
            Contender("a hundredth of them", partial(encode, few, template)),
            Contender("a hundredth, row by row", lambda: [template.encode(*row) for row in rows]),
        ],
        effort,
    )
    return Figure(
        key="template-columns",
        title=f"Encode {count:,} messages of 500 bytes from a template and three columns",
        timings=timings,
        floors=(
            Floor(
                "at least 3,000,000 messages a second",
                count / timings.entries[0].median * 1e9,
                at_least=3_000_000,
                unit="/s",
            ),
        ),
        remarks=(
            "On one core: the clock counts the time of one thread.",
            "Into memory that Arrow's pool holds already, as it does for batches of thousands.",
            "A million messages into new memory took 19 times as long, for page faults.",
        ),
    )
