"""The page about a job: what it shows of the counts, and that nothing in them can break it."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow")

from amqp10msg import Message  # noqa: E402
from amqp10msg.jobs import Job, Run, Stats, _stats, examples_of, page, run  # noqa: E402
from amqp10msg.pages.reports import Bar, columns  # noqa: E402
from amqp10msg.validation import RULES  # noqa: E402
from amqp10msg.validation.rules import RuleCount  # noqa: E402
from amqp10msg.wire.text import printable  # noqa: E402
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
def test_any_counts_render_a_page(stats: Stats) -> None:
    made = shown(stats)

    assert [] == made.open
    assert "script" not in made.tags
    # Nothing is drawn outside of its frame, or with a size that is none.
    for tag, attributes in made.elements:
        if tag == "rect":
            assert 0 <= float(attributes["width"]) <= 960
            assert 0 <= float(attributes["height"]) <= 160


def test_single_bar_becomes_a_sentence() -> None:
    one = shown(Stats(rows=4, octets=400, sizes=Counter({7: 4}), hours=Counter({3: 4})), 0.046)
    several = shown(Stats(rows=4, sizes=Counter({7: 2, 9: 2}), hours=Counter({3: 2, 5: 2})), 46.0)

    assert "Each message has 64 to 127 bytes." in one.text
    assert "All messages are from the hour that begins at 1970-01-01 03:00, UTC." in one.text
    assert ("rect" in several.tags, "rect" in one.tags) == (True, False)
    assert "table" not in one.tags
    assert "0.046 seconds" in " ".join(one.text.split())
    assert "46.0 seconds" in " ".join(several.text.split())


def test_report_of_empty_job() -> None:
    made = shown(Stats(), 0.0)

    assert [] == made.open
    assert "svg" not in made.tags


def test_page_shows_counts() -> None:
    stats = Stats(
        rows=4_000,
        octets=1_500_000,
        errors=3,
        rules={"truncated": RuleCount("Part 1, 1.2", 3, "a.bin: 7")},
        sizes=Counter({9: 3_000, 10: 1_000}),
        hours=Counter({0: 1_500, 2: 2_500}),
        types={"footer": {"n": Counter({"int": 2, "string": 1}), "m": Counter({"int": 1})}},
        losses=Counter({("properties.to", "dropped"): 5}),
    )

    text = shown(stats).text

    for part in (
        *("4,000", "3,997", "1.50 MB", "2,000", "750 kB", "a.bin: 7"),
        *("256 to 511 bytes: 3,000", "1970-01-01 02:00: 2,500", "Messages an hour, by UTC."),
        *("1 of 2 properties have more than one type.", "int 2, string 1"),
        *("properties.to", "dropped"),
    ):
        assert part in text


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=50))
def test_bar_height_is_proportional_to_count(counts: list[int]) -> None:
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


@given(st.dictionaries(st.text(min_size=1), COUNTS, min_size=2, max_size=12))
def test_property_with_several_types_has_a_bar(types: dict[str, int]) -> None:
    made = shown(Stats(types={"footer": {"n": Counter(types), "m": Counter({"int": 1})}}))

    parts = [at for tag, at in made.elements if tag == "rect" and float(at["width"]) > 1]
    assert len(types) == len([at for at in parts if float(at["height"]) == 1])
    assert all(name[:20] in made.text for name in map(printable, types))


def test_property_of_one_type_has_no_bar() -> None:
    assert "svg" not in shown(Stats(types={"footer": {"m": Counter({"int": 7})}})).tags


def test_rule_has_text_share_and_examples() -> None:
    stats = Stats(
        rows=9,
        errors=4,
        rules={
            "unreadable-input": RuleCount("", 1, "a@0", text="no JSON"),
            "truncated": RuleCount("Part 1, 1.2", 3, "a@7", text="cut"),
        },
    )
    wire = Message("hello").encode()[:-1]
    rows: list[dict[str, Any]] = [
        {"wire": b"no", "error_code": "unreadable-input", "source": "a", "offset": 0},
        {"wire": wire, "error_code": "truncated", "source": "a", "offset": 7},
        {"wire": None, "error_code": "truncated", "source": "a", "offset": 9},
    ]

    text = page(Run("t", "in", "out", 1.0), stats, examples=rows, quarantine="quarantine")

    assert RULES["truncated"].text in text
    assert 'href="quarantine"' in text
    assert "amqp10msg inspect out/quarantine" in text
    assert 1 == text.count("<article")
    assert '<a href="#message-1" title="a@7">1</a>' in text
    assert text.index("truncated") < text.index("unreadable-input")


def test_losses_have_reason_and_recoverability() -> None:
    loss = {"path": "p", "action": "dropped", "recoverable": False, "reason": "because <it>"}
    stats = Stats(rows=1)
    stats.add_losses(pa.array([[loss], None, [loss]]))

    text = shown(Stats.from_json(stats.as_json())).text

    assert "dropped, for good" in text
    assert "because <it>" in text


def test_examples_are_the_first_per_code(tmp_path: Path) -> None:
    source = tmp_path / "in.jsonl"
    octets = [Message(f"{n}").encode()[: -1 if n % 2 else None] for n in range(9)]
    source.write_text("".join(f'{{"raw": "{one.hex()}"}}\n' for one in octets) + "no\n")
    stats = run(source, tmp_path / "out", Job("decode"))

    found = examples_of(tmp_path / "out", stats, 2)

    cut = [row["wire"] for row in found if row["error_code"] == "truncated"]
    assert 3 == len(found)
    assert [octets[1], octets[3]] == cut
    assert [] == examples_of(tmp_path / "out", Stats(), 2)


@given(st.lists(st.integers(0, 12), max_size=60), st.integers(0, 60))
def test_messages_of_further_hours_are_counted_together(hours: list[int], split: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_stats, "_MAX_HOURS", 5)
        parts = []
        for part in (hours[:split], hours[split:]):
            parts.append(Stats())
            parts[-1].add_times(pa.array([hour * 3_600_000_000 for hour in part], pa.int64()))
        total = Stats()
        for counts in parts:
            total.add(counts)

    assert len(hours) == total.hours.total() + total.further_hours
    assert len(total.hours) <= 5
    assert bool(total.further_hours) == (len({*hours}) > 5)
    assert total == Stats.from_json(json.loads(json.dumps(total.as_json())))
    assert total.further_hours == total.as_json()["hours"].get("(others)", 0)
    if total.further_hours:
        assert f"{total.further_hours} message" in shown(total).text
        assert "of further hours not shown" in shown(total).text


def test_out_of_range_times_are_shown() -> None:
    stats = Stats()
    stats.add_times(pa.array([0, 1 << 62, -(1 << 62)], pa.timestamp("us", "UTC")))

    assert "hour" in shown(stats).text
    assert 3 == sum(stats.hours.values())
    assert stats == Stats.from_json(stats.as_json())
