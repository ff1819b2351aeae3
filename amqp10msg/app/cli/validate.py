"""``amqp10msg validate``: validate messages by the rules of the specification."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import click

from amqp10msg.app.cli._options import color_option, json_option, messages_argument, profile_option
from amqp10msg.app.cli._output import (
    SEVERITY_COLORS,
    check_report,
    console,
    json_text,
    safe,
    table,
    use_color,
    without_name,
)
from amqp10msg.validation.rules import MAX_TEXT, RuleCount
from amqp10msg.wire.text import plural

if TYPE_CHECKING:
    from amqp10msg.app.cli._input import Inputs
    from amqp10msg.app.inspector.reading import Item
    from amqp10msg.validation import Violation

_Judged = tuple["Item", "list[Violation]"]
# Messages that are judged at once, and how many bytes they have at most before.
_AT_ONCE = 1_000
_OCTETS = 1 << 20
# Examples of each rule, and bytes of one: page and memory depend on the rules, not the messages.
_EXAMPLES = 3
_MAX_SIZE = 1 << 20
_MAX_OCTETS = 4_096
_MAX_FIELDS = 2_000
_MAX_UNREADABLE = 20
# From this width of the terminal there is room for where a rule was broken first.
_WIDE = 110


@click.command(
    epilog="""
\b
Examples:
  amqp10msg validate captured/
  amqp10msg validate --quiet --report report.html recorded.jsonl.gz
  amqp10msg validate --json messages.jsonl | jq -r 'select(.ok == false)'
"""
)
@profile_option
@click.option("--strict-warnings", is_flag=True, help="Also fail on warnings.")
@click.option("-q", "--quiet", is_flag=True, help="Show the summary alone.")
@json_option
@click.option(
    "--report",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Also write an HTML page with the summary and annotated examples of each rule.",
)
@messages_argument("-f", "--format")
@color_option
def validate(
    inputs: Inputs,
    profile: str,
    strict_warnings: bool,
    quiet: bool,
    as_json: bool,
    report: Path | None,
    color: bool | None,
) -> int:
    """Validate messages by the rules of the specification.

    SOURCES are files, directories with everything below them, hex, base64, or - for standard
    input, which is also read if none are given. Files hold the bytes of one message, hex or
    base64, one JSON object per line with a message under the key raw, hex, base64 or data_base64,
    one of the notations of convert, or many messages: after their lengths, in a CBOR sequence, in a
    capture of a network (pcap), or in Parquet, such as the quarantine of a pipeline. All except
    Parquet may be compressed with gzip. FILE:LINE and FILE@OFFSET are one message of a file.
    Files of many messages are read message by message, however large they are.

    Each violation is a line with its place, the rule and its clause; the counts come last. The
    exit status is 1 if a MUST or MUST NOT is broken or a message cannot be read.
    """
    from amqp10msg.atomic_files import write_whole

    check_report(report, lambda: inputs.files)
    colored = use_color(color)
    tally = _Tally(profile)
    page = _Report(profile) if report is not None else None
    # What comes through a pipe is judged as it comes.
    for item, found in judged(inputs.some(), profile, at_once=inputs.total is not None):
        tally.add(item, found)
        if page is not None:
            page.add(item, found)
        if as_json:
            click.echo(_json_line(item, found))
        elif not quiet:
            for violation in found:
                click.echo(_line(item, violation, colored), color=colored)
    if page is not None and report is not None:
        write_whole(report, page.html(tally), private=True)
    if as_json:
        click.echo(json.dumps({"summary": tally.as_json()}))
    else:
        if tally.rules and not quiet:
            click.echo()
        _show_summary(tally, colored)
    return int(tally.failed > 0 or (strict_warnings and tally.warned > 0))


def _line(item: Item, violation: Violation, colored: bool) -> str:
    severity, rule = str(violation.severity), violation.rule
    if colored:
        severity = click.style(severity, fg=SEVERITY_COLORS.get(severity), bold=True)
        rule = click.style(rule, fg="cyan")
    if item.fault:
        return f"{safe(item.source)}: {severity}: {safe(violation.text)}"
    where = f"byte {violation.offset}" + (f" ({violation.path})" if violation.path else "")
    return (
        f"{safe(f'{item.source}: {where}')}: {severity}: {safe(violation.text)} "
        f"[{rule}, {violation.clause}]"
    )


def _json_line(item: Item, found: list[Violation]) -> str:
    return json_text(
        {
            "source": safe(item.source),
            "ok": not found,
            "bytes": len(item.data),
            "violations": [attrs.asdict(violation) for violation in found],
        }
    )


def _show_summary(tally: _Tally, colored: bool) -> None:
    """Show the rules that are broken and how often, then the result."""
    from rich.console import Group
    from rich.padding import Padding
    from rich.text import Text

    screen = console(colored)
    wide = screen.width >= _WIDE
    if tally.rules:
        made = table()
        # Where it is narrow, two columns are a second line of the first one.
        made.add_column("Rule" if wide else "Rule, Clause, First in", no_wrap=wide, overflow="fold")
        if wide:
            made.add_column("Clause", overflow="fold")
        made.add_column("Severity", no_wrap=True)
        made.add_column("Messages", justify="right", no_wrap=True)
        made.add_column("Places", justify="right", no_wrap=True)
        if wide:
            made.add_column("First in", overflow="fold")
        for name, row in tally.rows():
            rule, first = Text(name, style="cyan"), safe(row.first)
            severity = Text(row.severity, style=SEVERITY_COLORS[row.severity])
            counts = (f"{row.messages:,}", f"{row.violations:,}")
            if wide:
                made.add_row(rule, row.clause, severity, *counts, Text(first))
            else:
                below = Text(f"{row.clause}, first in {without_name(first)}", style="dim")
                made.add_row(Group(rule, Padding(below, (0, 0, 0, 2))), severity, *counts)
        screen.print(made)
        screen.print()
    style = "red" if tally.failed else "yellow" if tally.warned else "green"
    screen.print(Text(f"{tally.sentence()} (profile {tally.profile})", style=f"bold {style}"))


# Judging.


def judged(items: Iterable[Item], profile: str, *, at_once: bool) -> Iterator[_Judged]:
    """Yield messages with what is wrong with them, in their order.

    Nearly all messages break nothing, and finding that out in batches costs a tenth: with
    `at_once`, that waits for more messages, as is not right for those that arrive slowly.
    """
    from amqp10msg.app.inspector.judging import judge

    suspects = _suspects() if at_once else None
    if suspects is None:
        yield from ((item, judge(item, profile)) for item in items)
        return
    gathered: list[Item] = []
    octets = 0
    try:
        for item in items:
            gathered.append(item)
            octets += len(item.data)
            if len(gathered) == _AT_ONCE or octets > _OCTETS:
                yield from _together(gathered, profile, suspects)
                gathered, octets = [], 0
    except click.ClickException:
        # What was read before is judged before it is said what cannot be read.
        yield from ((item, judge(item, profile)) for item in gathered)
        raise
    yield from ((item, judge(item, profile)) for item in gathered)


def _together(
    items: list[Item], profile: str, suspects: Callable[[list[bytes], str], Sequence[int]]
) -> Iterator[_Judged]:
    from amqp10msg.app.inspector.judging import judge

    messages = [item.data for item in items]
    doubtful = set(suspects(messages, profile))
    for place, item in enumerate(items):
        if item.fault or place in doubtful:
            yield item, judge(item, profile)
        else:
            yield item, []


def _suspects() -> Callable[[list[bytes], str], Sequence[int]] | None:
    """Return the search for messages that may break a rule; None without pyarrow."""
    if find_spec("pyarrow") is None:
        return None

    def found(messages: list[bytes], profile: str) -> Sequence[int]:
        # Imported for many messages alone, as it takes as long as judging thousands.
        from amqp10msg.columns import binary_chunks, suspects
        from amqp10msg.wire.limits import DEFAULT_LIMITS

        (array,) = binary_chunks(messages)
        return suspects(array, DEFAULT_LIMITS, profile)

    return found


# Counts, and the page of --report.


@attrs.define
class _Tally:
    """The counts of a run; its size depends on the rules, not on the messages.

    Messages with warnings alone are `warned`, and `unreadable` inputs are among those that failed.
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
                violation.clause, 0, item.source, violation.severity, text=violation.text[:MAX_TEXT]
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


class _Report:
    """Collects examples while messages are judged, and writes the page at the end."""

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

    def html(self, tally: _Tally) -> str:
        """Return the page: one file that needs no other."""
        from amqp10msg.app import pages
        from amqp10msg.app.pages.reports import proportions, rule_rows
        from amqp10msg.notation import parse_tree
        from amqp10msg.notation.html import annotated
        from amqp10msg.validation import PROFILES, RULES

        trees = [
            parse_tree(item.data, violations=found, limit=_MAX_FIELDS)
            for item, found in self._examples
        ]
        sources = [item.source for item, _ in self._examples]
        rules = rule_rows(
            [
                (rule, attrs.evolve(row, clause=RULES[rule].clause))
                for rule, row in tally.rows()
                if rule in RULES
            ],
            tally.messages,
            lambda row: [("places", "n", f"{row.violations:,}"), ("first in", "", row.first)],
            {
                rule: [(number, sources[number - 1]) for number in numbers]
                for rule, numbers in self._by_rule.items()
            },
        )
        bar = [("sound", tally.sound), ("warning", tally.warned), ("error", tally.failed)]
        return pages.render(
            "validation.html",
            title="AMQP messages validated",
            script=bool(self._examples),
            profile=PROFILES[self.profile],
            counts=_counts(tally),
            bar=proportions(bar) if sum(count > 0 for _, count in bar) > 1 else "",
            rules=rules,
            unreadable=self._unreadable,
            unread=tally.unreadable - len(self._unreadable),
            each=_EXAMPLES,
            messages=annotated(trees, sources, max_octets=_MAX_OCTETS),
            more=0,
        )


def _counts(tally: _Tally) -> list[tuple[str, str, str]]:
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
