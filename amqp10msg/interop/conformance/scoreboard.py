"""The scoreboard: one page with every peer and every case, bytes and verdicts side by side."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from amqp10msg.app import pages
from amqp10msg.interop.conformance.results import (
    DEATHS,
    OUTCOMES,
    PeerResults,
    Result,
    facets_of,
    percent,
)
from amqp10msg.interop.corpus import BASIC_KINDS, Case
from amqp10msg.notation import parse_tree
from amqp10msg.notation.html import annotated

# Of one case: bytes that are annotated, fields of the tree, and characters of a value as JSON.
_MAX_OCTETS = 4_096
_MAX_ROWS = 300
_MAX_TEXT = 4_000


def scoreboard(
    peers: Sequence[PeerResults],
    cases: Iterable[Case],
    *,
    title: str = "Conformance to AMQP",
) -> str:
    """Return the page.

    It is one file that loads no other. The peers stand in a table; below it are all cases, with
    filters, and each opens to its bytes, annotated, what is expected, and what each peer said:
    ``#case=ID`` in the page's address leads to one.

    Args:
        peers: what `run` returned.
        cases: those that ran.
        title: of the page.

    Raises:
        ImportError: Jinja2 is not installed.
    """
    ran = {result.case for peer in peers for result in peer.results}
    shown = [case for case in cases if case.id in ran]
    columns = facets_of(peers)
    data = {
        "peers": [{"peer": peer.peer, "name": peer.name} for peer in peers],
        "facets": tuple(columns),
        "outcomes": OUTCOMES,
        "cases": [_case(case) for case in shown],
        "results": [_results(peer, shown, tuple(columns)) for peer in peers],
    }
    packed = gzip.compress(json.dumps(data, separators=(",", ":")).encode(), mtime=0)
    return pages.render(
        "scoreboard.html",
        title=title,
        script=True,
        cases=len(shown),
        clauses=len({case.clause for case in shown}),
        facets=list(columns.items()),
        peers=[_row(peer, columns) for peer in peers],
        data=base64.b64encode(packed).decode("ascii"),
    )


def _row(peer: PeerResults, columns: Iterable[str]) -> dict[str, Any]:
    """Return the line of the table about one peer."""
    cells = []
    for name, (held, asked) in peer.facets(columns).items():
        cells.append(
            {
                "name": name,
                "text": f"{percent(held, asked)} %" if asked else "",
                "held": held,
                "asked": asked,
                "width": f"{100 * held / asked if asked else 0:.2f}",
            }
        )
    died = sum(result.outcome in DEATHS for result in peer.results)
    skipped = sum(result.outcome == "skip" for result in peer.results)
    return {"name": peer.name, "cells": cells, "died": died, "skipped": skipped}


def _results(peer: PeerResults, cases: Sequence[Case], columns: Sequence[str]) -> list[Any]:
    """Return the results in the order of the cases: outcome, facets as bits, and what was said."""
    by_id: Mapping[str, Result] = {result.case: result for result in peer.results}
    found: list[Any] = []
    for case in cases:
        result = by_id.get(case.id)
        if result is None:
            found.append(None)
            continue
        asked = held = 0
        for place, name in enumerate(columns):
            asked |= (name in result.facets) << place
            held |= result.facets.get(name, False) << place
        row = [OUTCOMES.index(result.outcome), asked, held, result.reason[:600]]
        said = _text(result.said)
        wrote = (result.wrote or "")[:_MAX_TEXT]
        found.append([*row, said, wrote] if said or wrote else row)
    return found


def _expected(case: Case) -> Any:
    return case.answer if case.answer is not None else case.typed


def _text(made: Any) -> str:
    if made is None:
        return ""
    text = made if isinstance(made, str) else json.dumps(made, ensure_ascii=False)
    return text if len(text) <= _MAX_TEXT else text[:_MAX_TEXT] + "…"


def _case(case: Case) -> dict[str, Any]:
    made: dict[str, Any] = {
        "id": case.id,
        "kind": case.kind,
        "clause": case.clause,
        "note": case.note,
        "origin": case.origin,
        "hex": case.data[:_MAX_OCTETS].hex(),
        "size": len(case.data),
        "expected": _text(_expected(case)),
        "rows": _tree(case),
    }
    if case.error is not None:
        made["error"] = [case.error.rule, case.error.offset]
    if case.violations:
        made["violations"] = [
            f"{rule} at {offset} ({level})" for rule, level, offset in case.violations
        ]
    if case.compact is not None and case.compact != case.data:
        made["compact"] = case.compact.hex()[:_MAX_TEXT]
    for name in ("limits", "given"):
        if getattr(case, name) is not None:
            made[name] = json.dumps(dict(getattr(case, name)), ensure_ascii=False)
    return {key: value for key, value in made.items() if value != ""}


def _tree(case: Case) -> list[list[Any]]:
    """Return the lines of a case's tree: places, level, name, type, value, classes, problems."""
    if case.kind in BASIC_KINDS or (case.given and "basic" in case.given):
        return []  # these are no bytes of 1.0
    (shown,) = annotated([parse_tree(case.data, limit=_MAX_ROWS)])
    return [
        [
            row["offset"],
            row["stop"],
            row["level"],
            row["name"],
            row["type"],
            row["value"],
            f"{row['section']} {row['group']}",
            [problem.text for problem in row["problems"]],
        ]
        for row in shown["rows"][:_MAX_ROWS]
        if row["offset"] < _MAX_OCTETS
    ]
