"""The sentence at the top of the bridge's HTML report."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10msg.net.bridge.process import status_of
from amqp10msg.net.bridge.report import as_html, open_issues
from amqp10msg.net.bridge.routes import RouteSpec
from amqp10msg.net.bridge.statistics import ENDINGS, Statistics

COUNTS = st.sampled_from([0, 0, 0, 1, 1_000])
UNKNOWN_OR_COUNTS = COUNTS | st.none()
REASONS: st.SearchStrategy[Counter[str]] = st.builds(
    Counter, st.sampled_from([{}, {}, {"too-large": 1}])
)


def ended_statistics() -> st.SearchStrategy[Statistics]:
    return st.builds(
        Statistics,
        accepted=COUNTS,
        quarantined=REASONS,
        left=COUNTS,
        missed=COUNTS,
        remaining=UNKNOWN_OR_COUNTS,
        unacknowledged=UNKNOWN_OR_COUNTS,
        others=UNKNOWN_OR_COUNTS,
        asked=st.booleans(),
        ending=st.sampled_from(sorted(ENDINGS)),
    ).map(_with_received)


def _with_received(statistics: Statistics) -> Statistics:
    statistics.received = statistics.settled + statistics.left
    return statistics


@given(st.lists(ended_statistics(), max_size=3))
def test_routes_without_status_0_have_an_open_issue(counts: list[Statistics]) -> None:
    assert bool(open_issues(counts)) >= bool(status_of(counts))


def verdict(statistics: Statistics) -> str:
    page = as_html([RouteSpec("amqp://h/a", "amqp://h/b", name="r")], {"r": statistics})
    return page.partition('<section class="summary">')[2].partition("<b>")[2].partition("</b>")[0]


ALL_MOVED = "The targets accepted every message that was received"
DRAINED = {"received": 2, "accepted": 2, "asked": True, "remaining": 0, "ending": "empty"}


@pytest.mark.parametrize(
    "changes, expected",
    [
        ({"unacknowledged": 0}, f"{ALL_MOVED}."),
        ({"ending": "stopped", "asked": False, "remaining": None},
         f"{ALL_MOVED}; the sources may hold more messages."),
        ({"unacknowledged": 0, "received": 3, "unmatched": 1},
         f"{ALL_MOVED}, except 1 that are duplicates, or that a filter or hook left out."),
        ({"unacknowledged": 0, "losses": Counter({("x", "dropped"): 4, ("y", "carried"): 1})},
         f"{ALL_MOVED}; the translation dropped or changed 4 values."),
        ({"unacknowledged": 0, "quarantined": Counter({"too-large": 2}), "received": 4},
         "Not complete: 2 messages in quarantine."),
        ({"unacknowledged": 3},
         "Not complete: 3 messages held by other consumers of the source."),
        ({"others": 2},
         "Not complete: 1 source whose remaining messages could not all be counted."),
        ({"unacknowledged": 0, "received": 5},
         "Not complete: 3 messages returned to the source."),
        ({"unacknowledged": 0, "ending": "failed", "state": "failed", "remaining": 7},
         "Not complete: 1 route failed; 7 messages left at the source."),
        ({"unacknowledged": 0, "ending": ""}, "Not complete: 1 route had not ended."),
        ({"unacknowledged": 0, "accepted": 0, "unmatched": 2,
          "unset_names": ["no message sets a", "no message sets b"]},
         "Not complete: 1 filter passed no message: no message sets a, no message sets b."),
        ({"unacknowledged": 0, "received": 0, "accepted": 0, "nothing_new": "s.db says so"},
         "No message was received: s.db says so."),
        ({"unacknowledged": 0, "nothing_new": "s.db says so"}, f"{ALL_MOVED}; s.db says so."),
    ],
)  # fmt: skip
def test_verdict_says_what_is_not_at_the_target(changes: dict[str, object], expected: str) -> None:
    assert expected == verdict(Statistics(**(DRAINED | changes)))  # type: ignore[arg-type]
