"""``amqp10msg rules``: show rules with their clause and the words of the specification."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterator
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from amqp10msg.validation import Obligation
    from amqp10msg.validation.rules import Rule

#: A clause of Part 3, or of the part that it names.
_CLAUSE = re.compile(r"(?:part\s*(\d)\s*,?\s*)?(\d+(?:\.\d+)+)", re.IGNORECASE)
_WIDTH = 80


@click.command(
    short_help="Show rules, with the words of the specification.",
    epilog="""
\b
Examples:
  amqp10msg rules body-missing
  amqp10msg rules 3.2.4
  amqp10msg rules 'Part 1, 1.6.20'
  amqp10msg rules --json | jq -r 'select(.refused).rule'
""",
)
@click.argument("names", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="Write JSON lines instead, one per entry.")
def rules(names: tuple[str, ...], as_json: bool) -> int:
    """Show rules, with the words of the specification.

    NAMES are rules that validate prints, such as body-missing; clauses, such as 3.2.4 for Part 3,
    3.2.4, with the clauses below them; or words of the specification, such as durable. The
    sentences of Part 3, 3.2 and 3.5 that have no rule are shown, too, with the reason; the page
    "Sentence by sentence" of the documentation has those of other clauses. Without NAMES, all rules
    are listed, one per line.
    """
    if names:
        entries = [entry for name in names for entry in _entries_named(name)]
    else:
        entries = [entry for entry in _all_entries() if "rule" in entry]
    if as_json:
        lines = [json.dumps(entry) for entry in entries]
    elif names:
        lines = [_description(entry) for entry in entries]
    else:
        lines = [
            f"{entry['rule']}  {entry['severity']}  {entry['clause']}: {entry['text']}"
            for entry in entries
        ]
    click.echo(("\n\n" if names and not as_json else "\n").join(lines))
    return 0


def _entries_named(name: str) -> list[dict[str, Any]]:
    """Return the entries of a rule, of a clause and the clauses below it, or with some words."""
    match = _CLAUSE.fullmatch(name.strip())
    if match is None:
        words = name.casefold()
        entries = [entry for entry in _all_entries() if entry.get("rule") == name]
        return entries or _require(
            [e for e in _all_entries() if words in f"{e.get('text')} {e['quote']}".casefold()], name
        )
    part, number = match[1] or "3", match[2]
    return _require([e for e in _all_entries() if _is_below(e["clause"], part, number)], name)


def _require(entries: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    """Return `entries`; raise UsageError if there are none."""
    if not entries:
        similar = get_close_matches(name, [entry.get("rule", "") for entry in _all_entries()], 1)
        hint = f" (did you mean {similar[0]!r}?)" if similar else ""
        raise click.UsageError(
            f"no rule or sentence matches {name!r:.60}{hint}: only Part 3, 3.2 and 3.5 are known "
            'here, and "Sentence by sentence" in the documentation has the rest of Part 3'
        )
    return entries


def _is_below(clauses: str, part: str, number: str) -> bool:
    """Whether one of `clauses`, such as ``Part 3, 3.2.1, 3.2.4 to 3.2.6``, is `number` or below."""
    named_part, _, numbers = clauses.partition(", ")
    if named_part != f"Part {part}":
        return False
    wanted = _as_tuple(number)
    for text in numbers.split(", "):
        first, _, last = text.partition(" to ")
        low, high = _as_tuple(first), _as_tuple(last or first)
        if low[: len(wanted)] == wanted or low <= wanted <= high:
            return True
    return False


def _as_tuple(number: str) -> tuple[int, ...]:
    return tuple(map(int, number.split(".")))


def _all_entries() -> Iterator[dict[str, Any]]:
    """Yield all rules, then all sentences without a rule, first those about messages."""
    from amqp10msg.delivery import TERMINUS_NOT_VISIBLE, TERMINUS_RULES
    from amqp10msg.validation import NOT_VISIBLE, PROFILES, RULES

    for rule in RULES.values():
        profiles = {
            name: profile.severities.get(rule.id, "not checked")
            for name, profile in PROFILES.items()
        }
        yield _entry_of(rule, "messages", profiles=profiles if rule.in_messages else {})
    for terminus_rule in TERMINUS_RULES.values():
        yield _entry_of(terminus_rule, ", ".join(terminus_rule.types))
    yield from map(_entry_of_obligation, (*NOT_VISIBLE, *TERMINUS_NOT_VISIBLE))


def _entry_of(rule: Rule, subject: str, **more: Any) -> dict[str, Any]:
    return {
        "rule": rule.id,
        "clause": rule.clause,
        "severity": rule.severity,
        "about": subject,
        "text": rule.text,
        "quote": rule.quote,
        "refused": rule.refused,
        **more,
    }


def _entry_of_obligation(obligation: Obligation) -> dict[str, Any]:
    return {
        "clause": obligation.clause,
        "quote": obligation.quote,
        "no_rule_because": obligation.reason,
    }


def _description(entry: dict[str, Any]) -> str:
    """Return an entry as lines of at most `_WIDTH` characters."""
    quote = f"“{entry['quote']}”" if entry["quote"] else ""
    if "rule" not in entry:
        head = f"{entry['clause']}, no rule"
        return "\n".join([head, *_paragraph(quote), *_paragraph(entry["no_rule_because"])])
    head = f"{entry['rule']}  {entry['severity']}  {entry['clause']}"
    refused = " Decoding refuses its violations." if entry["refused"] else ""
    profiles = ", ".join(f"{name}: {what}" for name, what in entry.get("profiles", {}).items())
    lines = [head, *_paragraph(entry["text"]), *_paragraph(quote)]
    lines += _paragraph(f"About: {entry['about']}.{refused}")
    return "\n".join([*lines, *(_paragraph(f"Profiles: {profiles}.") if profiles else ())])


def _paragraph(text: str) -> list[str]:
    return textwrap.wrap(
        text, _WIDTH, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False
    )
