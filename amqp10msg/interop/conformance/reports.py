"""Results as text, Markdown, JUnit XML and the scoreboard; findings; differences of two runs.

The scoreboard is one page with every peer and every case, bytes and verdicts side by side.
"""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any
from xml.etree import ElementTree as ET

import attrs

from amqp10msg.app import pages
from amqp10msg.app.made import by_command, line
from amqp10msg.interop.conformance.judging import TYPE_CLAUSES
from amqp10msg.interop.conformance.results import (
    BROKER_FACETS,
    DEATHS,
    FACETS,
    OPTIONAL,
    OUTCOMES,
    PeerResults,
    Result,
    chapter_of,
    facets_of,
    percent,
)
from amqp10msg.interop.corpus import BASIC_KINDS, Amqp10msg, Case, RefusedError
from amqp10msg.interop.corpus.runner import table_lines
from amqp10msg.notation import parse_tree
from amqp10msg.notation.html import annotated
from amqp10msg.wire.errors import expect
from amqp10msg.wire.primitives import FORMAT_CODES
from amqp10msg.wire.reprs import shortened
from amqp10msg.wire.text import printable

_NOTE = "note"


def summary(peers: Sequence[PeerResults]) -> str:
    """Return a table of peers and facets: in how many cases each holds, of how many."""
    columns = facets_of(peers)
    rows = [["peer", *columns, "died"]]
    for peer in peers:
        counted = peer.facets(columns).values()
        facets = [f"{held}/{asked}" if asked else "-" for held, asked in counted]
        rows.append([printable(peer.name), *facets, str(peer.died)])
    return "".join(f"{line}\n" for line in table_lines(rows))


def junit(peers: Iterable[PeerResults]) -> str:
    """Return results as JUnit XML: a suite a peer, its cases by their clauses.

    A case that died is an error, one that was skipped is skipped.
    """
    root = ET.Element("testsuites", name="amqp10msg conformance")
    for peer in peers:
        counts = peer.counts()
        suite = ET.SubElement(
            root,
            "testsuite",
            name=_writable(peer.name),
            tests=str(len(peer.results)),
            failures=str(counts["fail"]),
            errors=str(sum(counts[name] for name in ("error", *DEATHS))),
            skipped=str(counts["skip"]),
        )
        for result in peer.results:
            where = _writable(f"{peer.peer}.{chapter_of(result.clause)}")
            case = ET.SubElement(suite, "testcase", classname=where, name=_writable(result.case))
            kind = {"pass": None, "note": None, "skip": "skipped", "fail": "failure"}.get(
                result.outcome, "error"
            )
            if kind is not None:
                reason = _writable(f"{result.clause}: {_told(result)}")
                ET.SubElement(case, kind, type=result.outcome, message=reason)
    ET.indent(root)
    text = ET.tostring(root, "unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'


def _writable(text: str) -> str:
    """Escape the characters of a text that XML cannot hold, or that a terminal acts on."""
    return "\n".join(map(printable, text.split("\n")))


@attrs.frozen
class Change:
    """A case whose outcome has changed.

    Attributes:
        peer: of which implementation.
        case: its id.
        before: the outcome then, or None where the case did not exist.
        after: the outcome now, or None where the case does not exist any more.
        lost: facets that held then, and do not hold now.
        reason: of the outcome now.
    """

    peer: str
    case: str
    before: str | None
    after: str | None
    lost: tuple[str, ...] = ()
    reason: str = ""

    @property
    def is_worse(self) -> bool:
        """Whether something held before that does not now."""
        if self.before is None or self.after is None:
            return False
        return bool(self.lost) or _rank(self.after) > _rank(self.before)


def _rank(outcome: str) -> int:
    # A case that was skipped or has a note is no worse than one that passed. Which bound is met
    # first, of time or of memory, is the machine's doing.
    last = OUTCOMES.index("note")
    return max(0, OUTCOMES.index("hang" if outcome == "memory" else outcome) - last)


def difference(before: Sequence[PeerResults], after: Sequence[PeerResults]) -> list[Change]:
    """Return the cases of the same peers whose outcomes differ, worse ones first."""
    old = {peer.peer: {one.case: one for one in peer.results} for peer in before}
    changes: list[Change] = []
    for peer in after:
        if peer.peer not in old:
            continue
        then: Mapping[str, Result] = old[peer.peer]
        now = {one.case: one for one in peer.results}
        for case in {**then, **now}:
            was, got = then.get(case), now.get(case)
            lost = tuple(
                name
                for name, held in (was.facets if was else {}).items()
                if held and got is not None and not got.facets.get(name, True)
            )
            change = Change(
                peer.peer,
                case,
                was.outcome if was else None,
                got.outcome if got else None,
                lost,
                got.reason if got else "",
            )
            if change.before != change.after or lost:
                changes.append(change)
    return sorted(changes, key=lambda change: not change.is_worse)


@attrs.frozen
class Finding:
    """What an implementation does not do, with the smallest case that shows it.

    Attributes:
        what: the outcome, such as ``crash``, or the facet that does not hold; of notes ``note``.
        clause: that is broken; of a death or a note the one that the cases are about.
        count: in how many cases this is found.
        case: the smallest of them.
        reason: what is wrong in that one.
    """

    what: str
    clause: str
    count: int
    case: Case
    reason: str


def findings(peer: PeerResults, cases: Iterable[Case]) -> list[Finding]:
    """Return the findings about an implementation by the clauses that it breaks, notes last.

    Deaths of its process come first. What several cases show of one clause is one finding. A case
    that is refused for the reason for which a value in it is refused alone counts for the clause of
    that value's type.

    Args:
        peer: the results of the implementation.
        cases: those that ran.
    """
    expect(peer, PeerResults, "findings", "a PeerResults")
    by_id = {case.id: case for case in cases}
    unread = _unread(peer, by_id)
    found: dict[tuple[str, str], dict[str, str]] = {}
    for result in peer.results:
        if result.case not in by_id:
            continue
        told: list[tuple[str, str, str]] = []
        if result.outcome in (*DEATHS, "error"):
            told = [(result.outcome, result.clause, result.reason)]
        else:
            for facet, clause, reason in _faults(result):
                culprit = clause
                if facet == "unchanged" and result.facets.get("kept") is False:
                    continue  # what is another message is told already
                if facet == "read":
                    typed = _values(by_id[result.case])
                    alike = (
                        of
                        for (name, why), of in unread.items()
                        if why == reason and _holds(typed, name)
                    )
                    culprit = next(alike, clause)
                told.append((facet, culprit, reason))
            told += [(_NOTE, clause, reason) for _, clause, reason in result.notes]
        for kind, clause, reason in told:
            found.setdefault((kind, clause), {}).setdefault(result.case, reason)
    _gather(found, by_id)
    made = []
    for (kind, clause), reasons in found.items():
        least = min(reasons, key=lambda name: (len(by_id[name].data), name))
        made.append(Finding(kind, clause, len(reasons), by_id[least], reasons[least]))
    order = [*sorted(DEATHS), "error", *FACETS, *BROKER_FACETS, _NOTE]
    return sorted(made, key=lambda one: (order.index(one.what), _numbers(one.clause)))


def _faults(result: Result) -> Sequence[Sequence[str]]:
    """Return the faults of a result; of one that has none written down, its facets tell them."""
    if result.faults:
        return result.faults
    wrong = [name for name, holds in result.facets.items() if not holds and name not in OPTIONAL]
    return [(name, result.clause, result.reason) for name in wrong]


def _gather(found: dict[tuple[str, str], dict[str, str]], by_id: Mapping[str, Case]) -> None:
    """Count what is refused for one reason, in cases with one type in common, for that type."""
    alike: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for (kind, clause), reasons in found.items():
        for name, reason in reasons.items():
            if reason.startswith(("refused: ", "not written: ")) and by_id[name].kind == "message":
                alike.setdefault((kind, reason), []).append((clause, name))
    for (kind, reason), places in alike.items():
        if len({clause for clause, _ in places}) < 2:
            continue
        types = set.intersection(
            *({of for of in TYPE_CLAUSES if _holds(by_id[name].typed, of)} for _, name in places)
        )
        if len(types) == 1:
            common = TYPE_CLAUSES[types.pop()]
            for clause, name in places:
                del found[kind, clause][name]
                found.setdefault((kind, common), {})[name] = reason
    for place in [place for place, reasons in found.items() if not reasons]:
        del found[place]


def _unread(peer: PeerResults, by_id: Mapping[str, Case]) -> dict[tuple[str, str], str]:
    """Return the clause of each type of which a value alone is refused, by the type and why.

    Of lists and maps, what is in them may be the cause.
    """
    clauses: dict[tuple[str, str], str] = {}
    for result in peer.results:
        case = by_id.get(result.case)
        if case is None or case.kind != "value" or case.typed is None:
            continue
        if case.typed[0] in ("list", "map", "described"):
            continue
        for facet, clause, reason in result.faults:
            if facet == "read":
                clauses.setdefault((case.typed[0], reason), clause)
    return clauses


def _values(case: Case) -> Any:
    """Return typed JSON with the values of a case as they are encoded.

    What a composite says is the same without an empty array, but its bytes have one.
    """
    if case.kind == "composite":
        with suppress(RefusedError):
            return Amqp10msg(strict=False).decode("value", case.data)
    return case.typed


def _holds(typed: Any, name: str) -> bool:
    """Whether there is a value of a type in typed JSON, an array of them among it."""
    if not isinstance(typed, list):
        return False
    if typed and typed[0] == "array" and len(typed) > 1:
        codes = [f"{code:02x}" for code, row in FORMAT_CODES.items() if row.type == name]
        if typed[1] in codes:
            return True
    return bool(typed and typed[0] == name) or any(_holds(item, name) for item in typed)


def _numbers(clause: str) -> list[tuple[int, str]]:
    parts = re.split(r"(\d+)", clause)
    return [(int(part), "") if part.isdigit() else (-1, part) for part in parts]


def markdown(peers: Sequence[PeerResults], cases: Sequence[Case]) -> str:
    """Return the results as Markdown: a table, and the findings of each implementation."""
    columns = facets_of(peers)
    rows = []
    for peer in peers:
        cells = [
            f"{percent(held, asked)} % of {asked:,}" if asked else ""
            for held, asked in peer.facets(columns).values()
        ]
        counts = peer.counts()
        rows.append(
            [_cell(peer.name), *cells, str(peer.died), f"{counts['note']:,}", f"{counts['skip']:,}"]
        )
    head = ["implementation", *columns, "died", "note", "skipped"]
    lines = [*_table(head, rows), *_verdicts(peers)]
    for peer in peers:
        found = findings(peer, cases)
        lines += ["", f"## {_cell(peer.name)}", ""]
        if all(one.what == _NOTE for one in found):
            lines.append("No case failed." + ("\n" if found else ""))
        if not found:
            continue
        lines += [
            "| what | clause | cases | the smallest, and what was found |",
            "|---|---|--:|---|",
        ]
        for one in found:
            octets = shortened(one.case.data.hex(), 96)
            shown = f"`{one.case.id}` `{octets}`: {_cell(one.reason)}"
            lines.append(f"| {_cell(one.what)} | {one.clause} | {one.count:,} | {shown} |")
    if by_command():
        lines += ["", _cell(line())]
    return "\n".join(lines) + "\n"


def _verdicts(peers: Sequence[PeerResults]) -> list[str]:
    """Return a table of what became of messages at live brokers; nothing where there are none."""
    counts = {peer.name: Counter(one.verdict for one in peer.results) for peer in peers}
    counts = {name: found for name, found in counts.items() if found.keys() - {""}}
    if not counts:
        return []
    names = sorted({name for found in counts.values() for name in found if name})
    rows = [
        [_cell(peer), *(f"{found[name]:,}" for name in names)] for peer, found in counts.items()
    ]
    return ["", *_table(["broker", *map(_cell, names)], rows)]


def _table(head: list[str], rows: list[list[str]]) -> list[str]:
    """Write a table of names and figures in Markdown."""
    ruler = ["---", *["--:"] * (len(head) - 1)]
    return [f"| {' | '.join(row)} |" for row in (head, ruler, *rows)]


def _cell(text: str) -> str:
    """Return text for a cell or a heading of Markdown: one line, without markup."""
    text = printable(shortened(text, 240).replace("\n", " "))
    return re.sub(r"([\\`*_{}\[\]<>|#$~])", r"\\\1", text)


# The scoreboard.

# Of one case: bytes that are annotated, fields of the tree, and characters of a value as JSON.
_MAX_OCTETS = 4_096
_MAX_ROWS = 300
_MAX_TEXT = 4_000


def scoreboard(
    peers: Sequence[PeerResults], cases: Iterable[Case], *, title: str = "Conformance to AMQP"
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
        made=line() if by_command() else None,  # the same results, the same page
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
    skipped = sum(result.outcome == "skip" for result in peer.results)
    return {"name": peer.name, "cells": cells, "died": peer.died, "skipped": skipped}


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
        row = [OUTCOMES.index(result.outcome), asked, held, _told(result)[:600]]
        said = _text(result.said)
        wrote = (result.wrote or "")[:_MAX_TEXT]
        found.append([*row, said, wrote] if said or wrote else row)
    return found


def _told(result: Result) -> str:
    """Return the faults and notes, each with its clause."""
    told = [f"{clause}: {reason}" for _, clause, reason in (*result.faults, *result.notes)]
    return "; ".join(dict.fromkeys(told)) or result.reason


def _expected(case: Case) -> Any:
    return case.answer if case.answer is not None else case.typed


def _text(made: Any) -> str:
    if made is None:
        return ""
    text = made if isinstance(made, str) else json.dumps(made, ensure_ascii=False)
    return shortened(text, _MAX_TEXT)


def _case(case: Case) -> dict[str, Any]:
    made: dict[str, Any] = {
        "id": case.id,
        "kind": case.kind,
        "clause": case.clause,
        "note": case.note,
        "preference": case.preference,
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
        return []  # these are not bytes of 1.0
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
