"""Violations message by message, their counts, and the page that ``validate --report`` writes."""

from __future__ import annotations

from typing import Any

import attrs

from amqp10msg import notation
from amqp10msg.app import pages
from amqp10msg.app.cli._output import plural
from amqp10msg.app.inspector.items import Item
from amqp10msg.app.pages.charts import proportions
from amqp10msg.files.recognition import advice
from amqp10msg.notation.html import annotated
from amqp10msg.validation import PROFILES, RULES, Violation, validate
from amqp10msg.validation.counts import MAX_TEXT, RuleCount

#: The rule under which an input counts that holds no bytes to judge.
UNREADABLE = "unreadable-input"
# Examples of each rule, and bytes of one: page and memory depend on the rules, not the messages.
_EXAMPLES = 3
_MAX_SIZE = 1 << 20
_MAX_OCTETS = 4_096
_MAX_FIELDS = 2_000
_MAX_UNREADABLE = 20
# Percent that a part of a bar has at least.
_LEAST = 2.0


def judge(item: Item, profile: str) -> list[Violation]:
    """Return what is wrong with an item, also where it could not be read at all."""
    if item.fault:
        return [Violation(UNREADABLE, "", "error", "", 0, item.fault)]
    found = validate(item.data, PROFILES[profile])
    if found and found[0].offset == 0 and (hint := advice(item.data, "raw")):
        found[0] = attrs.evolve(found[0], text=f"{found[0].text}; {hint}")
    return found


@attrs.define
class Tally:
    """The counts of a run; its size depends on the rules, not on the messages.

    Attributes:
        profile: the name of the set of rules.
        messages: how many inputs there were.
        octets: how large the messages are together.
        failed: messages with errors, `unreadable` ones among them.
        warned: messages with warnings alone.
        unreadable: inputs that could not be read.
        rules: what is broken, by the rule.
    """

    profile: str
    messages: int = 0
    octets: int = 0
    failed: int = 0
    warned: int = 0
    unreadable: int = 0
    rules: dict[str, RuleCount] = attrs.field(factory=dict)

    @property
    def sound(self) -> int:
        return self.messages - self.failed - self.warned

    def add(self, item: Item, found: list[Violation]) -> None:
        self.messages += 1
        self.octets += len(item.data)
        self.unreadable += bool(item.fault)
        if any(violation.severity == "error" for violation in found):
            self.failed += 1
        elif found:
            self.warned += 1
        for violation in found:
            new = RuleCount(
                violation.clause,
                0,
                item.source,
                violation.severity,
                text=violation.text[:MAX_TEXT],
            )
            self.rules.setdefault(violation.rule, new).violations += 1
        for rule in {violation.rule for violation in found}:
            self.rules[rule].messages += 1

    def rows(self) -> list[tuple[str, RuleCount]]:
        """List the broken rules: errors first, and what is most frequent before the rest."""
        return sorted(
            self.rules.items(),
            key=lambda item: (item[1].severity != "error", -item[1].messages, item[0]),
        )

    def sentence(self) -> str:
        if self.sound == self.messages:
            return f"{plural(self.messages, 'message')}, no violations"
        parts = [f"{self.sound:,} sound"]
        if self.warned:
            parts.append(f"{self.warned:,} with warnings alone")
        if self.failed - self.unreadable:
            parts.append(f"{self.failed - self.unreadable:,} with errors")
        if self.unreadable:
            parts.append(f"{self.unreadable:,} not readable")
        return f"{plural(self.messages, 'message')}: {', '.join(parts)}"

    def as_json(self) -> dict[str, Any]:
        return {
            "profile": self.profile,
            "messages": self.messages,
            "bytes": self.octets,
            "sound": self.sound,
            "warned": self.warned,
            "failed": self.failed,
            "unreadable": self.unreadable,
            "rules": {rule: attrs.asdict(row) for rule, row in self.rows()},
        }


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
        """Return the page: one file that needs no other.

        Raises:
            ImportError: Jinja2 is not installed.
        """
        trees = [
            notation.parse_tree(item.data, violations=found, limit=_MAX_FIELDS)
            for item, found in self._examples
        ]
        sources = [item.source for item, _ in self._examples]
        rules = [
            {
                "id": rule,
                "text": RULES[rule].text,
                "clause": RULES[rule].clause,
                "severity": row.severity,
                "share": proportions(
                    [(row.severity, row.messages), ("rest", tally.messages - row.messages)],
                    least=_LEAST,
                ),
                "cells": [
                    ("messages", "n", f"{row.messages:,}"),
                    ("places", "n", f"{row.violations:,}"),
                    ("first in", "", row.first),
                ],
                "examples": [(at, sources[at - 1]) for at in self._by_rule.get(rule, ())],
            }
            for rule, row in tally.rows()
            if rule in RULES
        ]
        bar = [("sound", tally.sound), ("warning", tally.warned), ("error", tally.failed)]
        return pages.render(
            "validation.html",
            title="AMQP messages validated",
            script=True,
            profile=PROFILES[self.profile],
            counts=_counts(tally),
            bar=proportions(bar),
            rules=rules,
            unreadable=self._unreadable,
            unread=tally.unreadable - len(self._unreadable),
            each=_EXAMPLES,
            messages=annotated(trees, sources, max_octets=_MAX_OCTETS),
            more=0,
        )


def _counts(tally: Tally) -> list[tuple[str, str, str]]:
    """Return names, numbers and kinds of what was counted; what there is none of is left out."""
    counts = (
        ("messages", tally.messages, ""),
        ("sound", tally.sound, "sound"),
        ("with warnings alone", tally.warned, "warning"),
        ("with errors", tally.failed - tally.unreadable, "error"),
        ("not readable", tally.unreadable, "error"),
    )
    return [
        (name, f"{number:,}", kind)
        for name, number, kind in counts
        if number or name in ("messages", "sound")
    ]
