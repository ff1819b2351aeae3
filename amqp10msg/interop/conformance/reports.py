"""Report results as text, Markdown, JUnit XML and a web page; compare two runs.

The scoreboard is a web page with the results of all peers in all cases.
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

from amqp10msg import pages
from amqp10msg.interop.conformance.judging import TYPE_CLAUSES, describe_latitude
from amqp10msg.interop.conformance.results import (
    BROKER_FACETS,
    DEATH_OUTCOMES,
    FACETS,
    OPTIONAL_FACETS,
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
from amqp10msg.provenance import by_command, line
from amqp10msg.wire.errors import expect
from amqp10msg.wire.primitives import FORMAT_CODES
from amqp10msg.wire.reprs import shortened
from amqp10msg.wire.text import printable

_NOTE_KIND = "note"


def summary(peers: Sequence[PeerResults]) -> str:
    """Return a text table with a row per peer and a column per facet.

    Each cell has the number of cases in which the facet holds, and the number of judged cases.
    """
    columns = facets_of(peers)
    rows = [["peer", *columns, "died"]]
    for peer in peers:
        counted = peer.facets(columns).values()
        facets = [f"{holding}/{judged}" if judged else "-" for holding, judged in counted]
        rows.append([printable(peer.name), *facets, str(peer.died)])
    return "".join(f"{line}\n" for line in table_lines(rows))


def junit(peers: Iterable[PeerResults]) -> str:
    """Return results as JUnit XML: one suite per peer, with cases grouped by clause.

    A crash, a hang or excessive memory is an error.
    """
    root = ET.Element("testsuites", name="amqp10msg conformance")
    for peer in peers:
        counts = peer.counts()
        suite = ET.SubElement(
            root,
            "testsuite",
            name=_escape_xml(peer.name),
            tests=str(len(peer.results)),
            failures=str(counts["fail"]),
            errors=str(sum(counts[name] for name in ("error", *DEATH_OUTCOMES))),
            skipped=str(counts["skip"]),
        )
        for result in peer.results:
            class_name = _escape_xml(f"{peer.peer}.{chapter_of(result.clause)}")
            case = ET.SubElement(
                suite, "testcase", classname=class_name, name=_escape_xml(result.case)
            )
            element = {"pass": None, "note": None, "skip": "skipped", "fail": "failure"}.get(
                result.outcome, "error"
            )
            if element is not None:
                reason = _escape_xml(f"{result.broken_clauses}: {_describe_result(result)}")
                ET.SubElement(case, element, type=result.outcome, message=reason)
            if result.stderr:
                ET.SubElement(case, "system-err").text = _escape_xml(result.stderr)
    ET.indent(root)
    text = ET.tostring(root, "unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'


def _escape_xml(text: str) -> str:
    """Escape characters that XML forbids or that control a terminal."""
    return "\n".join(map(printable, text.split("\n")))


@attrs.frozen
class Change:
    """A case whose outcome or facets differ between two runs.

    Attributes:
        peer: the name of the implementation.
        case: the case's id.
        before: the outcome in the old run, or None if it lacks the case.
        after: the outcome in the new run, or None if it lacks the case.
        lost: facets that hold in the old run and do not hold in the new run.
        reason: the reason of the new result.
    """

    peer: str
    case: str
    before: str | None
    after: str | None
    lost: tuple[str, ...] = ()
    reason: str = ""

    @property
    def is_worse(self) -> bool:
        """Whether the outcome got worse or a facet stopped holding."""
        if self.before is None or self.after is None:
            return False
        return bool(self.lost) or _severity(self.after) > _severity(self.before)


def _severity(outcome: str) -> int:
    # Pass, skip and note are equally good. Hang and memory are equally bad, because the speed of
    # the machine decides which limit an endless loop reaches first.
    note_index = OUTCOMES.index("note")
    return max(0, OUTCOMES.index("hang" if outcome == "memory" else outcome) - note_index)


def difference(before: Sequence[PeerResults], after: Sequence[PeerResults]) -> list[Change]:
    """Return the cases whose outcomes or facets differ between two runs, regressions first.

    Peers that are missing in `before` or `after` are skipped.
    """
    old_results = {peer.peer: {result.case: result for result in peer.results} for peer in before}
    changes: list[Change] = []
    for peer in after:
        if peer.peer not in old_results:
            continue
        old: Mapping[str, Result] = old_results[peer.peer]
        new = {result.case: result for result in peer.results}
        for case in {**old, **new}:
            old_result, new_result = old.get(case), new.get(case)
            lost_facets = tuple(
                name
                for name, holds in (old_result.facets if old_result else {}).items()
                if holds and new_result is not None and not new_result.facets.get(name, True)
            )
            change = Change(
                peer.peer,
                case,
                old_result.outcome if old_result else None,
                new_result.outcome if new_result else None,
                lost_facets,
                new_result.reason if new_result else "",
            )
            if change.before != change.after or lost_facets:
                changes.append(change)
    return sorted(changes, key=lambda change: not change.is_worse)


@attrs.frozen
class Finding:
    """A fault of an implementation, with the smallest case that shows it.

    Attributes:
        what: the kind of fault: an outcome such as ``crash``, the facet that does not hold, or
            ``note``.
        clause: the broken clause, or the clause that a note is about; for a crash, hang or error,
            the clause that the cases test.
        count: the number of cases with this fault.
        case: the smallest case with this fault.
        reason: a description of the fault in the smallest case.
    """

    what: str
    clause: str
    count: int
    case: Case
    reason: str


def findings(peer: PeerResults, cases: Iterable[Case]) -> list[Finding]:
    """Return the findings about an implementation: crashes and hangs first, notes last.

    Cases with the same kind of fault and the same clause are one finding. If a case is refused with
    the same reason as a single value whose type it contains, its clause is that of the type.

    Args:
        peer: the results of the implementation.
        cases: the cases that ran.
    """
    expect(peer, PeerResults, "findings", "a PeerResults")
    by_id = {case.id: case for case in cases}
    refused_types = _refused_types(peer, by_id)
    reasons_by_clause: dict[tuple[str, str], dict[str, str]] = {}
    for result in peer.results:
        if result.case not in by_id:
            continue
        entries: list[tuple[str, str, str]] = []
        if result.outcome in (*DEATH_OUTCOMES, "error"):
            entries = [(result.outcome, result.clause, result.reason)]
        else:
            for facet, clause, reason in _faults_of(result):
                broken_clause = clause
                if facet == "unchanged" and result.facets.get("kept") is False:
                    continue  # report the change once: the facet "kept" failed, too
                if facet == "read":
                    typed = _encoded_values(by_id[result.case])
                    type_clauses = (
                        type_clause
                        for (type_name, refusal), type_clause in refused_types.items()
                        if refusal == reason and _contains_type(typed, type_name)
                    )
                    broken_clause = next(type_clauses, clause)
                entries.append((facet, broken_clause, reason))
            entries += [(_NOTE_KIND, clause, reason) for _, clause, reason in result.notes]
        for kind, clause, reason in entries:
            reasons_by_clause.setdefault((kind, clause), {}).setdefault(result.case, reason)
    _merge_refusals(reasons_by_clause, by_id)
    results = []
    for (kind, clause), reasons in reasons_by_clause.items():
        smallest = min(reasons, key=lambda case_id: (len(by_id[case_id].data), case_id))
        results.append(Finding(kind, clause, len(reasons), by_id[smallest], reasons[smallest]))
    order = [*sorted(DEATH_OUTCOMES), "error", *FACETS, *BROKER_FACETS, _NOTE_KIND]
    return sorted(
        results, key=lambda finding: (order.index(finding.what), _clause_sort_key(finding.clause))
    )


def _faults_of(result: Result) -> Sequence[Sequence[str]]:
    """Return the faults of a result; if none are stored, a fault for each failed required facet."""
    if result.faults:
        return result.faults
    failed = [
        name for name, holds in result.facets.items() if not holds and name not in OPTIONAL_FACETS
    ]
    return [(name, result.clause, result.reason) for name in failed]


def _merge_refusals(
    reasons_by_clause: dict[tuple[str, str], dict[str, str]], cases_by_id: Mapping[str, Case]
) -> None:
    """Blame a type if messages with different clauses are refused with the same reason.

    If exactly one type occurs in all of these messages, they move to the clause of that type in
    `reasons_by_clause`: {(kind of fault, clause): {case id: reason}}.
    """
    by_reason: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for (kind, clause), reasons in reasons_by_clause.items():
        for case_id, reason in reasons.items():
            if (
                reason.startswith(("refused: ", "not written: "))
                and cases_by_id[case_id].kind == "message"
            ):
                by_reason.setdefault((kind, reason), []).append((clause, case_id))
    for (kind, reason), entries in by_reason.items():
        if len({clause for clause, _ in entries}) < 2:
            continue
        types = set.intersection(
            *(
                {
                    type_name
                    for type_name in TYPE_CLAUSES
                    if _contains_type(cases_by_id[case_id].typed, type_name)
                }
                for _, case_id in entries
            )
        )
        if len(types) == 1:
            common_clause = TYPE_CLAUSES[types.pop()]
            for clause, case_id in entries:
                del reasons_by_clause[kind, clause][case_id]
                reasons_by_clause.setdefault((kind, common_clause), {})[case_id] = reason
    for key in [key for key, reasons in reasons_by_clause.items() if not reasons]:
        del reasons_by_clause[key]


def _refused_types(
    peer: PeerResults, cases_by_id: Mapping[str, Case]
) -> dict[tuple[str, str], str]:
    """Return {(type, refusal reason): clause} for the types whose single values are refused.

    Lists, maps and described values are left out: the cause may be a value that they contain.
    """
    clauses: dict[tuple[str, str], str] = {}
    for result in peer.results:
        case = cases_by_id.get(result.case)
        if case is None or case.kind != "value" or case.typed is None:
            continue
        if case.typed[0] in ("list", "map", "described"):
            continue
        for facet, clause, reason in result.faults:
            if facet == "read":
                clauses.setdefault((case.typed[0], reason), clause)
    return clauses


def _encoded_values(case: Case) -> Any:
    """Return all values in the bytes of a case, in typed JSON.

    Decode a composite again, because its `Case.typed` omits empty arrays that its bytes contain.
    """
    if case.kind == "composite":
        with suppress(RefusedError):
            return Amqp10msg(strict=False).decode("value", case.data)
    return case.typed


def _contains_type(typed: Any, name: str) -> bool:
    """Whether typed JSON contains a value, or an array of values, of the type `name`."""
    if not isinstance(typed, list):
        return False
    if typed and typed[0] == "array" and len(typed) > 1:
        codes = [f"{code:02x}" for code, row in FORMAT_CODES.items() if row.type == name]
        if typed[1] in codes:
            return True
    return bool(typed and typed[0] == name) or any(_contains_type(item, name) for item in typed)


def _clause_sort_key(clause: str) -> list[tuple[int, str]]:
    """Return a key that sorts the numbers in clauses as numbers: 1.6.9 before 1.6.10."""
    parts = re.split(r"(\d+)", clause)
    return [(int(part), "") if part.isdigit() else (-1, part) for part in parts]


def markdown(peers: Sequence[PeerResults], cases: Sequence[Case]) -> str:
    """Return the results as Markdown: a table, and the findings of each implementation."""
    columns = facets_of(peers)
    rows = []
    for peer in peers:
        cells = [
            f"{percent(holding, judged)} % of {judged:,}" if judged else ""
            for holding, judged in peer.facets(columns).values()
        ]
        counts = peer.counts()
        rows.append(
            [
                _escape_cell(peer.name),
                *cells,
                str(peer.died),
                f"{counts['note']:,}",
                f"{counts['skip']:,}",
            ]
        )
    head = ["implementation", *columns, "died", "note", "skipped"]
    lines = [*_markdown_table(head, rows), *_verdict_table(peers)]
    for peer in peers:
        peer_findings = findings(peer, cases)
        lines += ["", f"## {_escape_cell(peer.name)}", ""]
        if all(finding.what == _NOTE_KIND for finding in peer_findings):
            lines.append("No case failed." + ("\n" if peer_findings else ""))
        if not peer_findings:
            continue
        lines += [
            "| what | clause | cases | the smallest, and what was found |",
            "|---|---|--:|---|",
        ]
        for finding in peer_findings:
            hex_bytes = shortened(finding.case.data.hex(), 96)
            example = f"`{finding.case.id}` `{hex_bytes}`: {_escape_cell(finding.reason)}"
            lines.append(
                f"| {_escape_cell(finding.what)} | {finding.clause} | {finding.count:,} "
                f"| {example} |"
            )
    if by_command():
        lines += ["", _escape_cell(line())]
    return "\n".join(lines) + "\n"


def _verdict_table(peers: Sequence[PeerResults]) -> list[str]:
    """Return a Markdown table of the verdicts of live brokers; empty without live brokers."""
    counts = {peer.name: Counter(result.verdict for result in peer.results) for peer in peers}
    counts = {name: counter for name, counter in counts.items() if counter.keys() - {""}}
    if not counts:
        return []
    names = sorted({name for counter in counts.values() for name in counter if name})
    rows = [
        [_escape_cell(peer), *(f"{counter[name]:,}" for name in names)]
        for peer, counter in counts.items()
    ]
    return ["", *_markdown_table(["broker", *map(_escape_cell, names)], rows)]


def _markdown_table(head: list[str], rows: list[list[str]]) -> list[str]:
    """Return the lines of a Markdown table; the first column has text, the others numbers."""
    ruler = ["---", *["--:"] * (len(head) - 1)]
    return [f"| {' | '.join(row)} |" for row in (head, ruler, *rows)]


def _escape_cell(text: str) -> str:
    """Escape text for a Markdown cell or heading, on one line of at most 240 characters."""
    text = printable(shortened(text, 240).replace("\n", " "))
    return re.sub(r"([\\`*_{}\[\]<>|#$~])", r"\\\1", text)


# The scoreboard.

# Limits of the page for one case.
_MAX_CASE_BYTES = 4_096
_MAX_TREE_ROWS = 300
_MAX_VALUE_CHARS = 4_000


def scoreboard(
    peers: Sequence[PeerResults], cases: Iterable[Case], *, title: str = "Conformance to AMQP"
) -> str:
    """Return a web page with the results, as one self-contained HTML file.

    The page has a table of peers and a list of all cases with filters. Each case shows its
    annotated bytes, the expected value and the result of each peer. ``#case=ID`` in the page's
    address links to a case.

    Args:
        peers: the results, as `run` returns them.
        cases: the cases that ran.
        title: the title of the page.

    Raises:
        ImportError: Jinja2 is not installed.
    """
    ran = {result.case for peer in peers for result in peer.results}
    shown_cases = [case for case in cases if case.id in ran]
    columns = facets_of(peers)
    data = {
        "peers": [{"peer": peer.peer, "name": peer.name} for peer in peers],
        "facets": tuple(columns),
        "outcomes": OUTCOMES,
        "cases": [_case_data(case) for case in shown_cases],
        "results": [_result_rows(peer, shown_cases, tuple(columns)) for peer in peers],
    }
    packed = gzip.compress(json.dumps(data, separators=(",", ":")).encode(), mtime=0)
    return pages.render(
        "scoreboard.html",
        title=title,
        # Omit the date if no command runs, so that equal results give equal pages.
        made=line() if by_command() else None,
        script=True,
        cases=len(shown_cases),
        clauses=len({case.clause for case in shown_cases}),
        facets=list(columns.items()),
        peers=[_peer_row(peer, columns) for peer in peers],
        data=base64.b64encode(packed).decode("ascii"),
    )


def _peer_row(peer: PeerResults, columns: Iterable[str]) -> dict[str, Any]:
    """Return the template variables of an implementation's row in the conformance table.

    The columns are facets; a cell shows the percentage of cases in which the facet holds.
    """
    cells = []
    for name, (holding, judged) in peer.facets(columns).items():
        cells.append(
            {
                "name": name,
                "text": f"{percent(holding, judged)} %" if judged else "",
                "held": holding,
                "asked": judged,
                "width": f"{100 * holding / judged if judged else 0:.2f}",
            }
        )
    skipped = sum(result.outcome == "skip" for result in peer.results)
    return {"name": peer.name, "cells": cells, "died": peer.died, "skipped": skipped}


def _result_rows(peer: PeerResults, cases: Sequence[Case], columns: Sequence[str]) -> list[Any]:
    """Return a row per case for the page's script; None for a case without a result.

    A row contains the outcome's index in `OUTCOMES`, a bit mask of the judged facets, a bit mask of
    the facets that hold, and a description; then `Result.said` and `Result.wrote`, unless both are
    empty.
    """
    results_by_id: Mapping[str, Result] = {result.case: result for result in peer.results}
    rows: list[Any] = []
    for case in cases:
        result = results_by_id.get(case.id)
        if result is None:
            rows.append(None)
            continue
        judged = holding = 0
        for bit, name in enumerate(columns):
            judged |= (name in result.facets) << bit
            holding |= result.facets.get(name, False) << bit
        row = [OUTCOMES.index(result.outcome), judged, holding, _describe_result(result)[:600]]
        output = _format_value(result.said)
        encoded = (result.wrote or "")[:_MAX_VALUE_CHARS]
        rows.append([*row, output, encoded] if output or encoded else row)
    return rows


def _describe_result(result: Result) -> str:
    """Return the faults and notes with their clauses, or else the reason, as text."""
    parts = [f"{clause}: {reason}" for _, clause, reason in (*result.faults, *result.notes)]
    return "; ".join(dict.fromkeys(parts)) or result.reason


def _expected_result(case: Case) -> Any:
    return case.answer if case.answer is not None else case.typed


def _format_value(value: Any) -> str:
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return shortened(text, _MAX_VALUE_CHARS)


def _case_data(case: Case) -> dict[str, Any]:
    """Return a case as JSON for the page's script."""
    fields: dict[str, Any] = {
        "id": case.id,
        "kind": case.kind,
        "clause": case.clause,
        "note": case.note,
        "preference": case.preference,
        "latitude": describe_latitude(case),
        "origin": case.origin,
        "hex": case.data[:_MAX_CASE_BYTES].hex(),
        "size": len(case.data),
        "expected": _format_value(_expected_result(case)),
        "rows": _tree_rows(case),
    }
    if case.error is not None:
        fields["error"] = [case.error.rule, case.error.offset]
    if case.violations:
        fields["violations"] = [
            f"{rule} at {offset} ({level})" for rule, level, offset in case.violations
        ]
    if case.compact is not None and case.compact != case.data:
        fields["compact"] = case.compact.hex()[:_MAX_VALUE_CHARS]
    for name in ("limits", "given"):
        if getattr(case, name) is not None:
            fields[name] = json.dumps(dict(getattr(case, name)), ensure_ascii=False)
    return {key: value for key, value in fields.items() if value != ""}


def _tree_rows(case: Case) -> list[list[Any]]:
    """Return the rows of a case's field tree for the page's script.

    A row is (offset, end, level, name, type, value, CSS classes, problems).
    """
    if case.kind in BASIC_KINDS or (case.given and "basic" in case.given):
        return []  # the bytes are AMQP 0-9-1, which `parse_tree` cannot read
    (annotation,) = annotated([parse_tree(case.data, limit=_MAX_TREE_ROWS)])
    return [
        [
            row["offset"],
            row["line_end"],
            row["level"],
            row["name"],
            row["type"],
            row["value"],
            f"{row['section']} {row['group']}",
            [problem.text for problem in row["problems"]],
        ]
        for row in annotation["rows"][:_MAX_TREE_ROWS]
        if row["offset"] < _MAX_CASE_BYTES
    ]
