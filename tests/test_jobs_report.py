"""The page about a job: what it shows of the counts, and that nothing in them can break it."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow")

from amqp10msg.jobs import Run, Stats, page  # noqa: E402
from amqp10msg.pages.charts import Bar, columns, stacked_bars  # noqa: E402
from amqp10msg.validation.counts import RuleCount  # noqa: E402
from tests.pages import Page  # noqa: E402

pytestmark = pytest.mark.once

COUNTS = st.integers(1, 10**12)
NAMES = st.text(max_size=60)
STATS = st.builds(
    Stats,
    rows=COUNTS,
    octets=st.integers(0, 10**18),
    rules=st.dictionaries(NAMES, st.builds(RuleCount, NAMES, COUNTS, NAMES), max_size=30),
    sizes=st.dictionaries(st.integers(1, 40), COUNTS).map(Counter),
    hours=st.dictionaries(st.integers(-(10**9), 10**9), COUNTS, max_size=40).map(Counter),
    types=st.dictionaries(
        st.sampled_from(["footer", "message_annotations"]),
        st.dictionaries(NAMES, st.dictionaries(NAMES, COUNTS, min_size=1).map(Counter)),
    ),
    losses=st.dictionaries(st.tuples(NAMES, NAMES), COUNTS).map(Counter),
)


def shown(stats: Stats, seconds: float = 2.0) -> Page:
    return Page(page(Run("t", "in", "out", seconds), stats))


@given(STATS)
def test_any_counts_make_a_page(stats: Stats) -> None:
    made = shown(stats)

    assert [] == made.open
    assert "script" not in made.tags
    # Nothing is drawn outside of its frame, or with a size that is none.
    for tag, attributes in made.elements:
        if tag == "rect":
            assert 0 <= float(attributes["width"]) <= 960
            assert 0 <= float(attributes["height"]) <= 160


def test_a_page_about_nothing() -> None:
    made = shown(Stats(), 0.0)

    assert [] == made.open
    assert "svg" not in made.tags


def test_the_counts_are_on_the_page() -> None:
    stats = Stats(
        rows=4_000,
        octets=1_500_000,
        errors=3,
        rules={"truncated": RuleCount("Part 1, 1.2", 3, "a.bin: 7")},
        sizes=Counter({9: 4_000}),
        hours=Counter({0: 1_500, 2: 2_500}),
        types={"footer": {"n": Counter({"int": 2, "string": 1}), "m": Counter({"int": 1})}},
        losses=Counter({("properties.to", "dropped"): 5}),
    )

    text = shown(stats).text

    for part in (
        *("4,000", "3,997", "1.50 MB", "2,000", "750 kB", "a.bin: 7"),
        *("256 to 511 bytes: 4,000", "1970-01-01 02:00: 2,500", "Messages an hour, by UTC."),
        *("1 of 2 properties have more than one type.", "int 2, string 1", "drifts"),
        *("properties.to", "dropped"),
    ):
        assert part in text


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=50))
def test_a_bar_is_as_high_as_its_count(counts: list[int]) -> None:
    made = Page(columns([Bar(count, "x") for count in counts], "x"))

    highest = max(counts) or 1
    bars = [attributes for tag, attributes in made.elements if tag == "rect"]
    assert len(counts) == len(bars)
    for count, bar in zip(counts, bars, strict=True):
        expected = 150 * count / highest
        # One that is there at all can be seen.
        assert (max(expected, 1.5) if count else 0) == pytest.approx(float(bar["height"]), abs=0.01)
    lines = [attributes for tag, attributes in made.elements if tag == "line"]
    assert 1 <= len(lines) <= 6


@given(st.dictionaries(st.text(min_size=1), COUNTS, min_size=1, max_size=12))
def test_a_stacked_bar_has_a_part_for_each_type(types: dict[str, int]) -> None:
    names = list(types)

    made = Page(stacked_bars([("n", types)], names.index, "x"))

    parts = [attributes for tag, attributes in made.elements if tag == "rect"]
    assert [f"c{index}" for index in range(len(names))] == [part["class"] for part in parts]
    assert all(float(part["width"]) > 2 for part in parts)
    end = float(parts[-1]["x"]) + float(parts[-1]["width"])
    assert end == pytest.approx(943, abs=0.1)


def test_times_outside_of_the_calendar_have_a_place() -> None:
    stats = Stats()
    stats.add_times(pa.array([0, 1 << 62, -(1 << 62)], pa.timestamp("us", "UTC")))

    assert "hour" in shown(stats).text
    assert 3 == sum(stats.hours.values())
    assert stats == Stats.from_json(stats.as_json())
