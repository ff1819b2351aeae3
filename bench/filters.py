"""A filter with two comparisons, evaluated on a decoded message."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from amqp10msg import Message
from amqp10msg.delivery.filters import ApplicationPropertiesFilter, Filter, Selector, SqlFilter
from bench import ours
from bench.harness import Contender, Effort, measure
from bench.messages import REFERENCE
from bench.report import Figure, Floor

SIMPLE = "attempt = 70000 AND tenant = 'acme'"
LONG = (
    "tenant IN ('acme', 'other') AND attempt BETWEEN 1 AND 100000 AND JMSType LIKE 'cre%' "
    "AND (replay = TRUE OR ratio * 10 >= 1) AND JMSPriority > 4"
)
BY_HAND = "a function written by hand"


def by_hand(message: Any) -> bool:
    """Evaluate the simple filter in Python, without rules for unknown values and other types."""
    section = message.application_properties
    return bool(section["attempt"] == 70000 and section["tenant"] == "acme")


def decoded(wanted: Filter) -> bool:
    """Decode a message, and filter it."""
    return wanted.matches(Message.decode(REFERENCE))


def contenders() -> list[tuple[str, Callable[[], bool]]]:
    """Return the timed calls; all of them accept the message."""
    message = Message.decode(REFERENCE)
    selector = Selector(SIMPLE)
    application = ApplicationPropertiesFilter({"attempt": 70_000, "tenant": "acme"})
    return [
        (ours.NAME, partial(selector.matches, message)),
        ("the same in SQL", partial(SqlFilter(SIMPLE).matches, message)),
        ("the same as a property filter", partial(application.matches, message)),
        ("a selector of six conditions", partial(Selector(LONG).matches, message)),
        ("decoding the message first", partial(decoded, selector)),
        ("parsing the selector first", lambda: Selector(SIMPLE).matches(message)),
        (BY_HAND, partial(by_hand, message)),
    ]


def run(effort: Effort) -> Figure:
    """Measure a selector next to a plain function, since no other library evaluates selectors."""
    timings = measure([Contender(name, call) for name, call in contenders()], effort)
    return Figure(
        key="filter",
        title=f"Filter a message: {SIMPLE}",
        timings=timings,
        floors=(
            Floor(
                "a million in at most 3 s",
                timings.entries[0].median * 1e6 / 1e9,
                at_most=3,
                unit=" s",
                compiled_only=False,
            ),
            Floor(
                "at most 2x a function written by hand",
                timings.share(BY_HAND),
                at_most=2,
            ),
        ),
    )
