"""The report of a bridge: as JSON, and as an HTML page."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any

from amqp10msg import pages
from amqp10msg.net.bridge.options import REASONS
from amqp10msg.net.bridge.routes import RouteSpec, profile_of
from amqp10msg.net.bridge.statistics import ENDINGS, Statistics
from amqp10msg.pages.reports import Part, table
from amqp10msg.provenance import facts
from amqp10msg.wire.text import plural

_UNCOUNTED_TEXT = "could not be counted"
# Why messages were missed, or left at the source or returned to it.
_RETURN_REASON = "the route was stopped, or the connection to the source was lost"
_RETENTION_REASON = "the retention of the stream removed it before it was read"
#: What `Statistics.stuck` means.
_STUCK_EXPLANATION = (
    "the target refused it as if it were full, and had accepted no message of its size: it may be "
    "too large for the target (message-stuck in the log); raise the target's limit, or give a "
    "patience, after which it is quarantined"
)
_NO_ROOM_REASON = (
    "it is larger than max_message, and the folder of large messages is full (max_large)"
)


def as_json(specs: Iterable[RouteSpec], counts: Mapping[str, Statistics]) -> str:
    """Return the counts of all routes as JSON; URLs have no credentials."""
    routes: list[dict[str, Any]] = [
        {
            "name": spec.name,
            "source": str(spec.source),
            "target": str(spec.target),
            "profile": spec.options.profile,
            **counts[spec.name].as_dict(),
            "empty": counts[spec.name].is_empty,
        }
        for spec in specs
    ]
    # Add the statistics without a specification, such as the sum of removed routes: no URLs.
    current_names = {route["name"] for route in routes}
    routes += [
        {"name": name, **stats.as_dict(), "empty": stats.is_empty}
        for name, stats in counts.items()
        if name not in current_names
    ]
    return json.dumps({"made": facts(), "routes": routes}, indent=2) + "\n"


def as_html(specs: Iterable[RouteSpec], counts: Mapping[str, Statistics]) -> str:
    """Return the counts of all routes as a self-contained HTML page."""
    specs = list(specs)
    all_statistics = list(counts.values())
    aside = sum(stats.quarantined.total() for stats in all_statistics)
    lost_connections = sum(stats.source_lost + stats.target_lost for stats in all_statistics)
    head = [
        ("messages moved", f"{sum(stats.accepted for stats in all_statistics):,}", "sound"),
        ("in quarantine", f"{aside:,}", "error" if aside else ""),
        ("duplicates left out", f"{sum(stats.duplicates for stats in all_statistics):,}", ""),
        ("connections lost", f"{lost_connections:,}", ""),
    ]
    parts = [_routes_table(counts)]
    issues = open_issues(all_statistics)
    is_doubtful = any(
        stats.lost or (stats.duplicates and not stats.accepted) for stats in all_statistics
    )
    for name, stats in counts.items():
        parts += route_parts(name, stats)
    return pages.render(
        "bridge.html",
        title="AMQP messages bridged",
        source=", ".join(sorted({str(spec.source) for spec in specs})),
        target=", ".join(sorted({str(spec.target) for spec in specs})),
        profile=", ".join(sorted({profile_of(spec) for spec in specs})),
        verdict_kind="error" if issues else "warning" if is_doubtful else "sound",
        verdict=f"Not complete: {'; '.join(issues)}." if issues else _success(all_statistics),
        counts=head,
        parts=parts,
    )


def open_issues(all_statistics: Iterable[Statistics]) -> list[str]:
    """Return why the routes have not moved all messages to their targets; empty if they have."""
    all_statistics = list(all_statistics)

    def count_routes(name: str) -> int:
        return sum(getattr(stats, name) for stats in all_statistics)

    def count_messages(*names: str) -> int:
        counts = (getattr(stats, name) or 0 for name in names for stats in all_statistics)
        return sum(count.total() if isinstance(count, Counter) else count for count in counts)

    uncounted = sum(
        stats.asked and not stats.is_empty and not stats.remaining and not stats.unacknowledged
        for stats in all_statistics
    )
    unfinished = sum(not stats.ending for stats in all_statistics)
    rows = [
        (count_routes("failed"), "route", "failed"),
        (unfinished, "route", "had not ended"),
        (count_messages("remaining", "left"), "message", "left at the source"),
        (count_messages("unacknowledged"), "message", "held by other consumers of the source"),
        (uncounted, "source", "whose remaining messages could not all be counted"),
        (count_messages("quarantined"), "message", "in quarantine"),
        (count_messages("rejected"), "message", "rejected at the source"),
        (count_messages("requeued", "returned"), "message", "returned to the source"),
        (count_messages("missed"), "message", "missed in streams, whose retention removed them"),
    ]
    issues = [f"{plural(count, noun)} {text}" for count, noun, text in rows if count]
    if unset_names := list(dict.fromkeys(chain(*(stats.unset_names for stats in all_statistics)))):
        filters = plural(sum(bool(stats.unset_names) for stats in all_statistics), "filter")
        issues.append(f"{filters} passed no message: {', '.join(unset_names)}")
    return issues


def _success(all_statistics: Iterable[Statistics]) -> str:
    """Describe what became of the messages of routes without open issues."""
    all_statistics = list(all_statistics)
    omitted = sum(stats.duplicates + stats.dropped + stats.unmatched for stats in all_statistics)
    changed = sum(stats.lost.total() for stats in all_statistics)
    nothing_new = list(dict.fromkeys(filter(None, (stats.nothing_new for stats in all_statistics))))
    if nothing_new and not any(stats.received for stats in all_statistics):
        return f"No message was received: {'; '.join(nothing_new)}."
    text = "The targets accepted every message that was received"
    if omitted:
        text += f", except {omitted:,} that are duplicates, or that a filter or hook left out"
    if changed:
        text += f"; the translation dropped or changed {plural(changed, 'value')}"
    if not all(stats.remaining == 0 for stats in all_statistics):
        text += "; the sources may hold more messages"
    text += "".join(f"; {sentence}" for sentence in nothing_new)
    return f"{text}."


def _routes_table(counts: Mapping[str, Statistics]) -> Part:
    """Return the table of all routes."""
    rows = []
    for name, stats in counts.items():
        numbers = (stats.received, stats.accepted, stats.quarantined.total(), round(stats.rate))
        remaining = remaining_text(stats)
        ending = ENDINGS.get(stats.ending, "")
        rows.append((name, stats.state, *(f"{number:,}" for number in numbers), remaining, ending))
    numbers_of = ("received", "moved", "in quarantine", "messages a second", "left at the source")
    columns = {"route": "", "state": "", **dict.fromkeys(numbers_of, "n"), "it ended because": ""}
    return table("Routes", columns, rows, most=None)


def remaining_text(stats: Statistics) -> str:
    """Describe the messages that are left at the source or may be held by its other consumers."""
    if not stats.asked:
        return ""
    if stats.remaining is None:
        return _UNCOUNTED_TEXT
    suffix = ""
    if stats.unacknowledged:
        suffix = f", and {stats.unacknowledged:,} held by other consumers"
    elif stats.is_shared:
        suffix = ", and an unknown number held by other consumers"
    return f"{stats.remaining:,}{suffix}"


def route_parts(name: str, stats: Statistics) -> list[Part]:
    """Return the tables of a route: messages that were not accepted, and losses."""
    parts = []
    fates = [
        (reason, fate, f"{count:,}", REASONS[reason])
        for fate in ("quarantined", "requeued", "rejected")
        for reason, count in getattr(stats, fate).most_common()
    ]
    fates += [
        (reason, fate, f"{count:,}", meaning)
        for reason, fate, count, meaning in (
            ("too-large", "left at the source", stats.left, _NO_ROOM_REASON),
            ("unsettled", "returned to the source", stats.returned, _RETURN_REASON),
            ("retention", "missed", stats.missed, _RETENTION_REASON),
            ("filter", "passed over", stats.unmatched, "the filter does not pass it"),
            ("hook", "dropped", stats.dropped, "the hook returned None"),
            ("duplicate", "left out", stats.duplicates, "the target had its message-id before"),
        )
        if count
    ]
    if fates:
        columns = {"reason": "", "result": "", "messages": "n", "meaning": ""}
        parts.append(table(f"Not moved: {name}", columns, fates, most=None))
    if stats.stuck:
        columns = {"messages": "n", "meaning": ""}
        parts.append(
            table(
                f"Refused many times: {name}", columns, [(f"{stats.stuck:,}", _STUCK_EXPLANATION)]
            )
        )
    if stats.refused:
        refusals = [
            (reason, f"{count:,}", REASONS.get(reason, ""))
            for reason, count in stats.refused.most_common()
        ]
        columns = {"reason": "", "refusals": "n", "meaning": ""}
        note = "Most refusals are retried, so a message may be refused more than once."
        parts.append(table(f"Refused by the target: {name}", columns, refusals, note, most=None))
    if stats.losses:
        rows = [(path, action, f"{n:,}") for (path, action), n in stats.losses.most_common()]
        columns = {"path": "", "action": "", "messages": "n"}
        parts.append(table(f"Changed in translation: {name}", columns, rows, most=None))
    return parts
