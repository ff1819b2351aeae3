"""The page that ``validate --report`` writes: the counts, and examples of every broken rule."""

from __future__ import annotations

import base64
import hashlib
from html import escape

from amqp10msg import notation
from amqp10msg.cli._input import Item
from amqp10msg.cli._output import plural, safe
from amqp10msg.cli._tally import Tally
from amqp10msg.validation import PROFILES, RULES, Violation

__all__ = ["Report"]

# Examples of each rule, and octets of one: page and memory depend on the rules, not the messages.
_EXAMPLES = 3
_MAX_SIZE = 1 << 20
_MAX_OCTETS = 4_096
_MAX_FIELDS = 2_000
_MAX_UNREADABLE = 20

_STYLE = """
.summary { margin: 0 0 1.5rem; padding: 0.9rem 1rem 1rem; background: var(--card);
  border: 1px solid var(--rule); border-radius: 10px; overflow-x: auto; }
.summary p { margin: 0 0 0.8rem; }
.summary ul.counts { display: flex; flex-wrap: wrap; gap: 0.4rem 2rem; margin: 0 0 1rem;
  padding: 0; list-style: none; }
.summary ul.counts b { display: block; font-size: 1.5rem; font-weight: 650; line-height: 1.2;
  font-variant-numeric: tabular-nums; }
.summary svg { display: block; width: 100%; height: 0.5rem; border-radius: 4px; margin: 0 0 1rem; }
.summary .sound { color: var(--text); }
.summary table { border-collapse: collapse; width: 100%; font: inherit; }
.summary th { text-align: left; font-weight: 600; color: var(--faint); white-space: nowrap; }
.summary th, .summary td { padding: 0.3rem 1.2rem 0.3rem 0; vertical-align: top;
  border-bottom: 1px solid var(--rule); }
.summary td { font: inherit; color: inherit; }
.summary td.error { color: var(--error); }
.summary td.warning { color: var(--warning); }
.summary .count { text-align: right; font-variant-numeric: tabular-nums; }
.summary code { display: block; font: 600 0.92em var(--mono); }
.summary td.what { min-width: 14rem; }
.summary td.faint { min-width: 7rem; }
.summary .faint, .summary td.faint { color: var(--faint); }
.summary ul.faults { margin: 0.8rem 0 0; padding-left: 1.2rem; }
"""


class Report:
    """Collects examples while messages are judged, and writes the page at the end.

    Args:
        profile: the name of the set of rules.
    """

    def __init__(self, profile: str) -> None:
        self.profile = profile
        self._examples: list[tuple[Item, list[Violation]]] = []
        self._by_rule: dict[str, list[int]] = {}
        self._unreadable: list[Item] = []

    def add(self, item: Item, found: list[Violation]) -> None:
        """Keep a message where it is an example that a rule still lacks."""
        if item.fault:
            if len(self._unreadable) < _MAX_UNREADABLE:
                self._unreadable.append(item)
            return
        lacking = {
            violation.rule
            for violation in found
            if len(self._by_rule.get(violation.rule, ())) < _EXAMPLES
        }
        if not lacking or len(item.data) > _MAX_SIZE:
            return
        self._examples.append((item, found))
        for rule in lacking:
            self._by_rule.setdefault(rule, []).append(len(self._examples))

    def html(self, tally: Tally) -> str:
        """Give the page: one file that needs nothing else."""
        page = notation.render_html(
            [
                notation.parse_tree(item.data, violations=found, limit=_MAX_FIELDS)
                for item, found in self._examples
            ],
            title="AMQP messages validated",
            labels=[item.source for item, _ in self._examples],
            max_messages=len(self._examples),
            max_octets=_MAX_OCTETS,
        )
        digest = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
        for place, new in (
            ("style-src '", f"style-src 'sha256-{digest}' '"),
            ("</head>", f"<style>{_STYLE}</style>\n</head>"),
            ("<main>", f"{self._summary(tally)}<main>"),
        ):
            before, found_it, after = page.partition(place)
            if not found_it:  # the page is made by notation.html: its frame has changed
                raise AssertionError(f"the page has no {place}")
            page = f"{before}{new}{after}"
        return page

    def _summary(self, tally: Tally) -> str:
        profile = PROFILES[self.profile]
        counts = (
            ("messages", tally.messages, ""),
            ("sound", tally.sound, "sound"),
            ("with warnings alone", tally.warned, "warning"),
            ("with errors", tally.failed - tally.unreadable, "error"),
            ("not readable", tally.unreadable, "error"),
        )
        numbers = "".join(
            f'<li class="{kind}"><b>{number:,}</b> {name}</li>\n'
            for name, number, kind in counts
            if number or name in ("messages", "sound")
        )
        rows = "".join(
            f'<tr><td class="{row.severity}">{row.severity}</td><td class="what">'
            f"<code>{escape(rule)}</code>{escape(RULES[rule].text)}</td>"
            f'<td class="faint">{escape(RULES[rule].clause)}</td>'
            f'<td class="count">{row.messages:,}</td><td class="count">{row.violations:,}</td>'
            f"<td>{self._links(rule)}</td></tr>\n"
            for rule, row in tally.rows()
            if rule in RULES
        )
        table = (
            '<table>\n<thead><tr><th scope="col">severity</th><th scope="col">rule</th>'
            '<th scope="col">clause</th>'
            '<th scope="col" class="count">messages</th><th scope="col" class="count">places</th>'
            f'<th scope="col">examples</th></tr></thead>\n<tbody>\n{rows}</tbody></table>\n'
        )
        return (
            '<section class="summary">\n'
            f'<p class="faint">Held to the {len(profile)} rules of the profile '
            f"<b>{escape(profile.name)}</b>: {escape(profile.description)}</p>\n"
            f'<ul class="counts">\n{numbers}</ul>\n{_bar(tally)}{table if rows else ""}'
            f"{self._faults(tally)}</section>\n{self._caption()}"
        )

    def _links(self, rule: str) -> str:
        return " ".join(
            f'<a href="#message-{number}" title="{self._source(number)}">{number}</a>'
            for number in self._by_rule.get(rule, ())
        )

    def _source(self, number: int) -> str:
        return escape(safe(self._examples[number - 1][0].source))

    def _caption(self) -> str:
        """Say what follows."""
        if not self._examples:
            return ""
        number = plural(len(self._examples), "message")
        return f'<p class="hint">Below: {number}, up to {_EXAMPLES} examples of each rule.</p>\n'

    def _faults(self, tally: Tally) -> str:
        """List what could not be read."""
        if not self._unreadable:
            return ""
        lines = "".join(
            f"<li>{escape(safe(item.source))}: {escape(safe(item.fault))}</li>\n"
            for item in self._unreadable
        )
        more = tally.unreadable - len(self._unreadable)
        if more:
            lines += f"<li>… and {more:,} more</li>\n"
        return f'<ul class="faults error">\n{lines}</ul>\n'


def _bar(tally: Tally) -> str:
    """Draw what part of the messages is sound, has warnings, has errors."""
    parts = []
    at = 0.0
    for number, color in (
        (tally.sound, "--text"),
        (tally.warned, "--warning"),
        (tally.failed, "--error"),
    ):
        width = 100 * number / tally.messages
        parts.append(
            f'<rect x="{at:.3f}" width="{width:.3f}" height="1" fill="var({color})"></rect>'
        )
        at += width
    box = 'viewBox="0 0 100 1" preserveAspectRatio="none" aria-hidden="true"'
    return f"<svg {box}>{''.join(parts)}</svg>\n"
