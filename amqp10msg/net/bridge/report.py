"""The reports of a bridge and of a cut-over: JSON, and a page."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from amqp10msg.app import pages
from amqp10msg.app.made import facts
from amqp10msg.app.pages.reports import Part, table
from amqp10msg.net.bridge.migration import Migration, Moved
from amqp10msg.net.bridge.routes import RouteSpec, profile_of
from amqp10msg.net.bridge.statistics import ENDINGS, Statistics
from amqp10msg.net.bridge.urls import Endpoint
from amqp10msg.net.options import REASONS

_UNKNOWN = "could not be counted"
_RETENTION = "the retention of the stream removed it before it was read"
_NO_ROOM = "it is larger than max_message, and there was no room for it: max_large"


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
    # Routes that were removed long ago, as one: their ends are not known any more.
    known = {route["name"] for route in routes}
    routes += [
        {"name": name, **found.as_dict(), "empty": found.is_empty}
        for name, found in counts.items()
        if name not in known
    ]
    return json.dumps({"made": facts(), "routes": routes}, indent=2) + "\n"


def as_html(specs: Iterable[RouteSpec], counts: Mapping[str, Statistics]) -> str:
    """Return the counts of all routes as a page that needs no other file."""
    specs = list(specs)
    every = list(counts.values())
    aside = sum(found.quarantined.total() for found in every)
    head = [
        ("messages taken", f"{sum(found.accepted for found in every):,}", "sound"),
        ("in quarantine", f"{aside:,}", "error" if aside else ""),
        ("duplicates left out", f"{sum(found.duplicates for found in every):,}", ""),
        ("connections lost", f"{sum(one.source_lost + one.target_lost for one in every):,}", ""),
    ]
    parts = [_routes(counts)]
    for name, found in counts.items():
        parts += _of_route(name, found)
    return pages.render(
        "bridge.html",
        title="AMQP messages bridged",
        source=", ".join(sorted({str(spec.source) for spec in specs})),
        target=", ".join(sorted({str(spec.target) for spec in specs})),
        profile=", ".join(sorted({profile_of(spec) for spec in specs})),
        counts=head,
        parts=parts,
    )


def _routes(counts: Mapping[str, Statistics]) -> Part:
    rows = []
    for name, found in counts.items():
        numbers = (found.received, found.accepted, found.quarantined.total(), round(found.rate))
        left = _left(found)
        ending = ENDINGS.get(found.ending, "")
        rows.append((name, found.state, *(f"{number:,}" for number in numbers), left, ending))
    numbers_of = ("received", "taken", "in quarantine", "messages a second", "left at the source")
    columns = {"route": "", "state": "", **dict.fromkeys(numbers_of, "n"), "it ended because": ""}
    return table("Routes", columns, rows, most=None)


def _left(found: Statistics) -> str:
    """Say what the source has, and what others hold or may hold: only zero means empty."""
    if not found.asked:
        return ""
    if found.remaining is None:
        return _UNKNOWN
    held = ""
    if found.unacknowledged:
        held = f", and {found.unacknowledged:,} held by other consumers"
    elif found.is_shared:
        held = ", and what other consumers hold is not known"
    return f"{found.remaining:,}{held}"


def _of_route(name: str, found: Statistics) -> list[Part]:
    parts = []
    fates = [
        (reason, fate, f"{count:,}", REASONS[reason])
        for fate in ("quarantined", "requeued", "rejected")
        for reason, count in getattr(found, fate).most_common()
    ]
    fates += [
        (reason, fate, f"{count:,}", what)
        for reason, fate, count, what in (
            ("too-large", "left at the source", found.left, _NO_ROOM),
            ("retention", "missed", found.missed, _RETENTION),
            ("filter", "passed over", found.unmatched, "the filter does not pass it"),
            ("hook", "dropped", found.dropped, "the hook returned None"),
            ("duplicate", "left out", found.duplicates, "the target had its message-id before"),
        )
        if count
    ]
    if fates:
        columns = {"reason": "", "result": "", "messages": "n", "meaning": ""}
        parts.append(table(f"Not taken: {name}", columns, fates, most=None))
    if found.losses:
        rows = [(path, action, f"{n:,}") for (path, action), n in found.losses.most_common()]
        columns = {"path": "", "action": "", "messages": "n"}
        parts.append(table(f"Changed in translation: {name}", columns, rows, most=None))
    return parts


def migration_json(migration: Migration) -> str:
    """Return the result of a cut-over as JSON; URLs have no credentials."""
    queues = [_moved(one) for one in migration.moved]
    found = {"made": facts(), "done": not migration.open(), "queues": queues}
    found["came"] = [*migration.came]
    return json.dumps(found, indent=2) + "\n"


def _moved(one: Moved) -> dict[str, Any]:
    counts = one.counts.as_dict()
    return {
        "name": one.queue.name,
        "type": one.queue.kind,
        "source": str(one.spec.source),
        "target": str(one.spec.target),
        "open": one.open(),
        "received": one.counts.received,
        "accepted": one.counts.accepted,
        "aside": one.aside,
        "left": one.counts.remaining,
        "held_by_others": one.counts.unacknowledged,
        "losses": counts["losses"],
        "at_source_before": one.there,
        "at_target_before": one.before,
        "at_target_after": one.after,
        "at_source_after": one.since,
        "compared": one.sample.total(),
        "found": one.found,
        "declared": [
            {"kind": step.kind, "name": step.name, "state": step.state, "notes": list(step.notes)}
            for step in one.steps
        ],
        "route": counts,
    }


def migration_html(migration: Migration) -> str:
    """Return the result of a cut-over as a self-contained page, to be signed."""
    moved, left = migration.moved, migration.open()
    whole = len(moved) + len(migration.came)
    aside = sum(one.aside for one in moved)
    taken = sum(one.counts.accepted for one in moved)
    head = [
        ("done" if not left else "not done", f"{whole - len(left)} of {whole}", ""),
        ("messages taken", f"{taken:,}", "sound"),
        ("set aside", f"{aside:,}", "error" if aside else ""),
        ("compared, found", f"{sum(one.found or 0 for one in moved):,}", ""),
    ]
    unknown = "not known"
    rows = [
        (
            one.queue.name,
            *(f"{n:,}" for n in (one.counts.received, one.counts.accepted, one.aside)),
            _left(one.counts) or unknown,
            unknown if one.arrived is None else f"{one.arrived:,}",
            f"{one.found or 0:,} of {one.sample.total():,}",
            ("error", "open") if one.queue.name in left else ("sound", "done"),
        )
        for one in moved
    ]
    numbers = ("received", "taken", "set aside", "left", "arrived", "compared")
    columns = {"queue": "", **dict.fromkeys(numbers, "n"), "state": ""}
    note = (
        "Left: what the source and its consumers still have, as its broker counted. Arrived: how "
        "many more messages the target has than before, as its broker counted. Compared: how many "
        "messages of the sample are there unchanged."
    )
    parts = [table("Queues", columns, rows, note, most=None)]
    if left:
        open_ = [(name, text) for name, said in left.items() for text in said]
        parts.append(table("Not accounted for", {"queue": "", "what": ""}, open_, most=None))
    steps = {(str(step)): step for one in moved for step in one.steps}
    made = [(s.kind, s.name, s.state, "; ".join(s.notes)) for s in steps.values()]
    if made:
        columns = dict.fromkeys(("kind", "name", "state", "what is different"), "")
        parts.append(table("What the target was to have", columns, made, most=None))
    for one in moved:
        parts += _of_route(one.spec.name, one.counts)
    columns = dict.fromkeys(("name", "role", "date", "signature"), "")
    note = "Whoever signs has read what is not accounted for." if left else ""
    parts.append(table("Signed", columns, [("…", "…", "…", "…")] * 2, note))
    return pages.render(
        "bridge.html",
        title="Cut-over of a RabbitMQ",
        source=", ".join(sorted({_broker(one.spec.source) for one in moved})),
        target=", ".join(sorted({_broker(one.spec.target) for one in moved})),
        profile=", ".join(sorted({profile_of(one.spec) for one in moved})),
        counts=head,
        parts=parts,
    )


def _broker(endpoint: Endpoint) -> str:
    return str(endpoint).partition("?")[0]
