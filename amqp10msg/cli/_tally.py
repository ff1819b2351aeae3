"""Violations message by message, and their counts."""

from __future__ import annotations

from typing import Any

import attrs

from amqp10msg.cli._input import Item
from amqp10msg.cli._output import plural
from amqp10msg.validation import Violation, validate
from amqp10msg.validation.counts import RuleCount

#: The rule under which an input counts that holds no octets to judge.
UNREADABLE = "unreadable-input"


def judge(item: Item, profile: str) -> list[Violation]:
    """Return what is wrong with an item, also where it could not be read at all."""
    if item.fault:
        return [Violation(UNREADABLE, "", "error", "", 0, item.fault)]
    return validate(item.data, profile)


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
        """Messages without errors and warnings."""
        return self.messages - self.failed - self.warned

    def add(self, item: Item, found: list[Violation]) -> None:
        """Count one message and what is wrong with it."""
        self.messages += 1
        self.octets += len(item.data)
        self.unreadable += bool(item.fault)
        if any(violation.severity == "error" for violation in found):
            self.failed += 1
        elif found:
            self.warned += 1
        for violation in found:
            new = RuleCount(violation.clause, 0, item.source, violation.severity)
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
        """Return the result as one sentence."""
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
        """Return the counts for JSON."""
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
