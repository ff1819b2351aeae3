"""One message or run of values, and its views: what ``inspect`` shows."""

from __future__ import annotations

import json
from typing import Any

import click

from amqp10msg import delivery, notation
from amqp10msg.cli._forms import is_message, read
from amqp10msg.cli._items import Item
from amqp10msg.cli._output import SEVERITY_COLORS, plural, safe
from amqp10msg.composite import composite_of
from amqp10msg.errors import AmqpError, DecodeError
from amqp10msg.validation import PROFILES, Violation, validate

# What a composite is, by the first of these archetypes that it provides.
_KINDS = {
    "outcome": "an outcome",
    "delivery-state": "a delivery state",
    "lifetime-policy": "a lifetime policy",
}
# Errors of bytes that are something else, which is not judged here.
_OTHERS = frozenset(("not-a-composite", "unknown-composite", "not-a-delivery-state"))


class Shown:
    """One message or run of values, and its views.

    Attributes:
        fault: why it does not parse; empty where it does.
        what: the delivery state or terminus that it is; empty where it is something else.
    """

    def __init__(
        self, item: Item, profile: str, as_values: bool, max_fields: int, role: str | None
    ) -> None:
        self.item = item
        self.max_fields = max_fields
        self.is_message = not as_values and is_message(item.data)
        self.violations = validate(item.data, PROFILES[profile]) if self.is_message else []
        self.decoded: list[Any] = []
        self.fault = ""
        try:
            self.decoded = read(item.data, as_values=not self.is_message)
        except AmqpError as error:
            self.fault = item.explained(str(error))
        self.what = ""
        if len(self.decoded) == 1 and not self.is_message and not as_values and not self.fault:
            self.what, self.violations = _judge_state(item.data, role)

    @property
    def is_broken(self) -> bool:
        """Whether it does not parse, or has a violation that is an error."""
        return bool(self.fault) or any(found.severity == "error" for found in self.violations)

    def title(self, *, first: bool, colored: bool) -> str:
        """Return the heading of a message, where there are several."""
        title = safe(self.item.source)
        return (
            ("" if first else "\n") + (click.style(title, bold=True) if colored else title) + "\n"
        )

    def tree(self) -> notation.Tree:
        return notation.parse_tree(
            self.item.data, violations=self.violations, limit=self.max_fields
        )

    def text(self, colored: bool, width: int | None) -> str:
        """Return the annotated tree and, in a last line, the verdict."""
        text = notation.render_text(self.tree(), color=colored, width=width)
        return f"{text}\n{self.verdict(colored)}\n"

    def verdict(self, colored: bool) -> str:
        """Return one line: the size, and the rules that are broken."""
        size = plural(len(self.item.data), "byte")
        if self.what:
            size = f"{size}: {self.what}"
        elif self.fault or not self.is_message:
            what = "not all of it can be read" if self.fault else plural(len(self.decoded), "value")
            return f"{size}, {what}"
        parts = []
        for severity, color in SEVERITY_COLORS.items():
            found = [violation for violation in self.violations if violation.severity == severity]
            if found:
                text = plural(len(found), severity)
                names = ", ".join(dict.fromkeys(violation.rule for violation in found))
                parts.append(f"{click.style(text, fg=color) if colored else text} ({names})")
        return f"{size}; {', '.join(parts) or 'no violations'}"

    def svg(self) -> str:
        return notation.render_svg(self.tree(), title=safe(self.item.source))

    def json(self, view: str) -> str:
        write = notation.to_plain if view == "json" else notation.to_typed
        return "".join(
            json.dumps(write(value), indent=2, ensure_ascii=False) + "\n" for value in self.decoded
        )


def page(pages: list[Shown]) -> str:
    """Return the HTML page of messages."""
    sources = [safe(shown.item.source) for shown in pages]
    title = sources[0] if len(pages) == 1 else plural(len(pages), "message")
    return notation.render_html([shown.tree() for shown in pages], title=title, labels=sources)


def _judge_state(data: bytes, role: str | None) -> tuple[str, list[Violation]]:
    """Return what a delivery state, terminus or part of one is, and the rules that it breaks.

    Args:
        data: one encoded value; nothing is said of one that is something else.
        role: the end of the link that sends a source or target, or None where that is not known.
    """
    try:
        state = delivery.decode(data)
    except DecodeError as error:
        if error.rule in _OTHERS:
            return "", []
        # The declaration of a composite is what Part 1, 1.4 is about.
        fault = Violation(
            error.rule, "Part 1, 1.4", "error", error.path, error.offset, error.reason
        )
        return error.path.partition(".")[0] or "a composite", [fault]
    violations: list[Violation] = []
    if isinstance(state, delivery.Source):
        violations = delivery.check_source(data, role=role)
    elif isinstance(state, (delivery.Target, delivery.Coordinator)):
        violations = delivery.check_target(data, role=role)
    entry = composite_of(type(state))
    kinds = [kind for name, kind in _KINDS.items() if name in entry.provides]
    return ", ".join([entry.name, *kinds[:1]]), violations
