"""The reports of a bridge and of a migration (cut-over): as JSON, and as an HTML page."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from amqp10msg import pages
from amqp10msg.net.bridge.migration import Migration, Moved
from amqp10msg.net.bridge.routes import RouteSpec, profile_of
from amqp10msg.net.bridge.statistics import ENDINGS, Statistics
from amqp10msg.net.bridge.urls import Endpoint
from amqp10msg.net.options import REASONS
from amqp10msg.pages.reports import Part, table
from amqp10msg.provenance import facts

_UNCOUNTED = "could not be counted"
# Why messages were missed, or left at the source.
_RETENTION = "the retention of the stream removed it before it was read"
_NO_ROOM = "it is larger than max_message, and the folder of large messages is full (max_large)"


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
        ("messages taken", f"{sum(stats.accepted for stats in all_statistics):,}", "sound"),
        ("in quarantine", f"{aside:,}", "error" if aside else ""),
        ("duplicates left out", f"{sum(stats.duplicates for stats in all_statistics):,}", ""),
        ("connections lost", f"{lost_connections:,}", ""),
    ]
    parts = [_routes_table(counts)]
    for name, stats in counts.items():
        parts += _route_parts(name, stats)
    return pages.render(
        "bridge.html",
        title="AMQP messages bridged",
        source=", ".join(sorted({str(spec.source) for spec in specs})),
        target=", ".join(sorted({str(spec.target) for spec in specs})),
        profile=", ".join(sorted({profile_of(spec) for spec in specs})),
        counts=head,
        parts=parts,
    )


def _routes_table(counts: Mapping[str, Statistics]) -> Part:
    """Return the table of all routes."""
    rows = []
    for name, stats in counts.items():
        numbers = (stats.received, stats.accepted, stats.quarantined.total(), round(stats.rate))
        remaining = _remaining_text(stats)
        ending = ENDINGS.get(stats.ending, "")
        rows.append((name, stats.state, *(f"{number:,}" for number in numbers), remaining, ending))
    numbers_of = ("received", "taken", "in quarantine", "messages a second", "left at the source")
    columns = {"route": "", "state": "", **dict.fromkeys(numbers_of, "n"), "it ended because": ""}
    return table("Routes", columns, rows, most=None)


def _remaining_text(stats: Statistics) -> str:
    """Describe the messages that are left at the source or may be held by its other consumers."""
    if not stats.asked:
        return ""
    if stats.remaining is None:
        return _UNCOUNTED
    suffix = ""
    if stats.unacknowledged:
        suffix = f", and {stats.unacknowledged:,} held by other consumers"
    elif stats.is_shared:
        suffix = ", and an unknown number held by other consumers"
    return f"{stats.remaining:,}{suffix}"


def _route_parts(name: str, stats: Statistics) -> list[Part]:
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
            ("too-large", "left at the source", stats.left, _NO_ROOM),
            ("retention", "missed", stats.missed, _RETENTION),
            ("filter", "passed over", stats.unmatched, "the filter does not pass it"),
            ("hook", "dropped", stats.dropped, "the hook returned None"),
            ("duplicate", "left out", stats.duplicates, "the target had its message-id before"),
        )
        if count
    ]
    if fates:
        columns = {"reason": "", "result": "", "messages": "n", "meaning": ""}
        parts.append(table(f"Not taken: {name}", columns, fates, most=None))
    if stats.losses:
        rows = [(path, action, f"{n:,}") for (path, action), n in stats.losses.most_common()]
        columns = {"path": "", "action": "", "messages": "n"}
        parts.append(table(f"Changed in translation: {name}", columns, rows, most=None))
    return parts


def migration_json(migration: Migration) -> str:
    """Return the result of a migration as JSON; URLs have no credentials."""
    queues = [_moved_json(item) for item in migration.moved]
    report = {"made": facts(), "done": not migration.open_issues(), "queues": queues}
    report["came"] = [*migration.new_queues]
    return json.dumps(report, indent=2) + "\n"


def _moved_json(item: Moved) -> dict[str, Any]:
    """Return the result of a queue as an object that can be written as JSON."""
    counts = item.counts.as_dict()
    return {
        "name": item.queue.name,
        "type": item.queue.kind,
        "source": str(item.spec.source),
        "target": str(item.spec.target),
        "open": item.open_issues(),
        "received": item.counts.received,
        "accepted": item.counts.accepted,
        "aside": item.set_aside,
        "left": item.counts.remaining,
        "held_by_others": item.counts.unacknowledged,
        "losses": counts["losses"],
        "at_source_before": item.source_before,
        "at_target_before": item.target_before,
        "at_target_after": item.target_after,
        "at_source_after": item.source_after,
        "compared": item.sample.total(),
        "found": item.found_count,
        "declared": [
            {"kind": step.kind, "name": step.name, "state": step.state, "notes": list(step.notes)}
            for step in item.steps
        ],
        "route": counts,
    }


def migration_html(migration: Migration) -> str:
    """Return the result of a migration as a self-contained HTML page, to be printed and signed."""
    moved, open_issues = migration.moved, migration.open_issues()
    queue_count = len(moved) + len(migration.new_queues)
    aside = sum(item.set_aside for item in moved)
    accepted = sum(item.counts.accepted for item in moved)
    head = [
        (
            "done" if not open_issues else "not done",
            f"{queue_count - len(open_issues)} of {queue_count}",
            "",
        ),
        ("messages taken", f"{accepted:,}", "sound"),
        ("set aside", f"{aside:,}", "error" if aside else ""),
        ("compared, found", f"{sum(item.found_count or 0 for item in moved):,}", ""),
    ]
    unknown = "not known"
    rows = [
        (
            item.queue.name,
            *(f"{n:,}" for n in (item.counts.received, item.counts.accepted, item.set_aside)),
            _remaining_text(item.counts) or unknown,
            unknown if item.arrived is None else f"{item.arrived:,}",
            f"{item.found_count or 0:,} of {item.sample.total():,}",
            ("error", "open") if item.queue.name in open_issues else ("sound", "done"),
        )
        for item in moved
    ]
    numbers = ("received", "taken", "set aside", "left", "arrived", "compared")
    columns = {"queue": "", **dict.fromkeys(numbers, "n"), "state": ""}
    note = (
        "Left: what the source and its consumers still have, as its broker counted. Arrived: how "
        "many more messages the target has than before, as its broker counted. Compared: how many "
        "messages of the sample are there unchanged."
    )
    parts = [table("Queues", columns, rows, note, most=None)]
    if open_issues:
        open_ = [(name, text) for name, issues in open_issues.items() for text in issues]
        parts.append(table("Not accounted for", {"queue": "", "what": ""}, open_, most=None))
    steps = {(str(step)): step for item in moved for step in item.steps}
    declarations = [(s.kind, s.name, s.state, "; ".join(s.notes)) for s in steps.values()]
    if declarations:
        columns = dict.fromkeys(("kind", "name", "state", "what is different"), "")
        parts.append(table("What the target was to have", columns, declarations, most=None))
    for item in moved:
        parts += _route_parts(item.spec.name, item.counts)
    columns = dict.fromkeys(("name", "role", "date", "signature"), "")
    note = "Whoever signs has read what is not accounted for." if open_issues else ""
    parts.append(table("Signed", columns, [("…", "…", "…", "…")] * 2, note))
    return pages.render(
        "bridge.html",
        title="Cut-over of a RabbitMQ",
        source=", ".join(sorted({_broker_url(item.spec.source) for item in moved})),
        target=", ".join(sorted({_broker_url(item.spec.target) for item in moved})),
        profile=", ".join(sorted({profile_of(item.spec) for item in moved})),
        counts=head,
        parts=parts,
    )


def _broker_url(endpoint: Endpoint) -> str:
    """Return the URL of an endpoint without its queue."""
    return str(endpoint).partition("?")[0]
