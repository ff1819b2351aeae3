"""The page that ``validate --report`` writes: the counts, and examples of every broken rule."""

from __future__ import annotations

from amqp10msg import notation, pages
from amqp10msg.cli._input import Item
from amqp10msg.cli._tally import Tally
from amqp10msg.notation.html import annotated
from amqp10msg.pages.charts import proportions
from amqp10msg.validation import PROFILES, RULES, Violation

# Examples of each rule, and octets of one: page and memory depend on the rules, not the messages.
_EXAMPLES = 3
_MAX_SIZE = 1 << 20
_MAX_OCTETS = 4_096
_MAX_FIELDS = 2_000
_MAX_UNREADABLE = 20


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
            (RULES[rule], row, [(at, sources[at - 1]) for at in self._by_rule.get(rule, ())])
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
