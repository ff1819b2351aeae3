"""Results as text and as JUnit XML, and what is different between two runs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from xml.etree import ElementTree as ET

import attrs

from amqp10msg.conformance.results import DEATHS, FACETS, OUTCOMES, PeerResults, Result, chapter_of

__all__ = ["Change", "difference", "junit", "summary"]

# What no XML can hold.
_UNWRITABLE = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def summary(peers: Iterable[PeerResults]) -> str:
    """Return a table of peers and facets: in how many cases each holds, of how many."""
    rows = [["peer", *FACETS, "died"]]
    for peer in peers:
        facets = [f"{held}/{asked}" if asked else "-" for held, asked in peer.facets().values()]
        died = sum(result.outcome in DEATHS for result in peer.results)
        rows.append([peer.name, *facets, str(died)])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "".join(
        "  ".join(
            cell.rjust(width) if place else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        + "\n"
        for row in rows
    )


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
            where = f"{peer.peer}.{chapter_of(result.clause)}"
            case = ET.SubElement(suite, "testcase", classname=where, name=result.case)
            kind = {"pass": None, "skip": "skipped", "fail": "failure"}.get(result.outcome, "error")
            if kind is not None:
                reason = _writable(f"{result.clause}: {result.reason}")
                ET.SubElement(case, kind, type=result.outcome, message=reason)
    ET.indent(root)
    text = ET.tostring(root, "unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'


def _writable(text: str) -> str:
    return _UNWRITABLE.sub("\N{REPLACEMENT CHARACTER}", text)


@attrs.frozen
class Change:
    """A case that ended otherwise than before.

    Attributes:
        peer: of which implementation.
        case: its id.
        before: the outcome then, or None of a case that there was not.
        after: the outcome now, or None of a case that there is no more.
        lost: facets that held then, and do not now.
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
    # A skipped case is no worse than one that passed: nothing was asked.
    return max(0, OUTCOMES.index(outcome) - 1)


def difference(before: Sequence[PeerResults], after: Sequence[PeerResults]) -> list[Change]:
    """Return the cases of the same peers that ended otherwise, worse ones first."""
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
