"""The report of a migration (cut-over): as JSON, and as an HTML page."""

from __future__ import annotations

import json
from typing import Any

from amqp10msg import pages
from amqp10msg.net.bridge.report import remaining_text, route_parts
from amqp10msg.net.bridge.routes import profile_of
from amqp10msg.net.ends.urls import Endpoint
from amqp10msg.net.migrate.migration import Migration, Moved
from amqp10msg.pages.reports import table
from amqp10msg.provenance import facts


def as_json(migration: Migration) -> str:
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
        "compared": item.sample_digests.total(),
        "found": item.found_count,
        "declared": [
            {"kind": step.kind, "name": step.name, "state": step.state, "notes": list(step.notes)}
            for step in item.steps
        ],
        "route": counts,
    }


def as_html(migration: Migration) -> str:
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
        ("messages moved", f"{accepted:,}", "sound"),
        ("set aside", f"{aside:,}", "error" if aside else ""),
        ("compared, found", f"{sum(item.found_count or 0 for item in moved):,}", ""),
    ]
    unknown = "not known"
    rows = [
        (
            item.queue.name,
            *(f"{n:,}" for n in (item.counts.received, item.counts.accepted, item.set_aside)),
            remaining_text(item.counts) or unknown,
            unknown if item.arrived is None else f"{item.arrived:,}",
            f"{item.found_count or 0:,} of {item.sample_digests.total():,}",
            ("error", "open") if item.queue.name in open_issues else ("sound", "done"),
        )
        for item in moved
    ]
    numbers = ("received", "moved", "set aside", "left", "arrived", "compared")
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
        parts += route_parts(item.spec.name, item.counts)
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
