"""``amqp10msg validate``: validate messages against the rules of the specification."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import click

from amqp10msg.app.cli._options import (
    color_option,
    json_option,
    messages_argument,
    profile_option,
    profile_with,
    rules_option,
)
from amqp10msg.app.cli._output import (
    SEVERITY_COLORS,
    check_report,
    console,
    json_text,
    other_protocol_note,
    safe,
    table,
    use_color,
    without_message_name,
)
from amqp10msg.validation.rules import MAX_EXAMPLE_LENGTH, RuleCount
from amqp10msg.wire.text import plural

if TYPE_CHECKING:
    from amqp10msg.app.cli._input import Inputs
    from amqp10msg.app.inspector.reading import Item
    from amqp10msg.validation import Profile, Violation

_JudgedItem = tuple["Item", "list[Violation]"]
_SuspectFinder = Callable[["list[bytes]", "Profile"], Sequence[int]]
# A batch is judged when it has this many messages, or more than this many bytes.
_BATCH_MESSAGES = 1_000
_BATCH_BYTES = 1 << 20
# Limits that bound the size of the HTML page: examples per rule, size of an example in bytes, bytes
# and fields shown per example, and unreadable inputs in the list.
_EXAMPLES_PER_RULE = 3
_MAX_EXAMPLE_SIZE = 1 << 20
_MAX_SHOWN_BYTES = 4_096
_MAX_FIELDS = 2_000
_MAX_UNREADABLE = 20
# Minimum terminal width, in characters, for a table with the columns Clause and First in.
_MIN_WIDTH_FOR_CLAUSES = 110


@click.command(
    epilog="""
\b
Examples:
  amqp10msg validate captured/
  amqp10msg validate --quiet --report report.html recorded.jsonl.gz
  amqp10msg validate --json messages.jsonl | jq -r 'select(.ok == false)'
  amqp10msg validate --profile rabbitmq-4 --rules acme.py captured/
"""
)
@profile_option
@rules_option
@click.option("--strict-warnings", is_flag=True, help="Also fail on warnings.")
@click.option("-q", "--quiet", is_flag=True, help="Print only the summary.")
@json_option
@click.option(
    "--report",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Also write an HTML page with the summary and annotated examples per rule.",
)
@messages_argument("-f", "--format")
@color_option
def validate(
    inputs: Inputs,
    profile: str,
    rules: Path | None,
    strict_warnings: bool,
    quiet: bool,
    as_json: bool,
    report: Path | None,
    color: bool | None,
) -> int:
    """Validate messages against the rules of the specification.

    SOURCES are files, directories (read recursively), hex or base64, or - for standard input, which
    is the default. A file holds one of: the bytes of one message; hex or base64; JSON lines with a
    message under the key raw, hex, base64 or data_base64; a notation of convert; length-prefixed
    messages; a CBOR sequence; a network capture (pcap); Parquet, such as the quarantine of a
    pipeline. All except Parquet may be compressed with gzip. FILE:LINE and FILE@OFFSET select one
    message of a file. Large files are streamed, message by message.

    Each violation is printed as a line with its position, the rule and its clause; the counts come
    last. The exit status is 1 if a message violates a MUST or MUST NOT, or cannot be read, or if
    messages may be missing because a file is damaged. Messages of AMQP 0-9-1 in a capture are
    counted, but not checked; without any other message, the exit status is 1, too.
    """
    from amqp10msg.atomic_files import write_whole

    check_report(report, lambda: inputs.files)
    colored = use_color(color)
    checked = profile_with(profile, rules)
    tally = _Tally(checked.name)
    page = _Report(checked) if report is not None else None
    # Judge messages from a pipe when they arrive, without waiting for a full batch.
    in_batches = inputs.total is not None
    for item, violations in judged(inputs.messages(), checked, in_batches=in_batches):
        tally.add(item, violations)
        if page is not None:
            page.add(item, violations)
        if as_json:
            click.echo(_json_line(item, violations))
        elif not quiet:
            for violation in violations:
                click.echo(_violation_line(item, violation, colored), color=colored)
    if page is not None and report is not None:
        write_whole(report, page.html(tally), private=True)
    if as_json:
        click.echo(json.dumps({"summary": tally.as_json()}))
    else:
        if tally.rules and not quiet:
            click.echo()
        _show_summary(tally, colored)
    return int(tally.is_failure or (strict_warnings and tally.warned > 0))


def _violation_line(item: Item, violation: Violation, colored: bool) -> str:
    """Return the line to print for a violation."""
    severity, rule = str(violation.severity), violation.rule
    if colored:
        severity = click.style(severity, fg=SEVERITY_COLORS.get(severity), bold=True)
        rule = click.style(rule, fg="cyan")
    if item.fault:
        return f"{safe(item.source)}: {severity}: {safe(violation.text)}"
    position = f"byte {violation.offset}" + (f" ({violation.path})" if violation.path else "")
    return (
        f"{safe(f'{item.source}: {position}')}: {severity}: {safe(violation.text)} "
        f"[{', '.join(filter(None, (rule, violation.clause)))}]"
    )


def _json_line(item: Item, violations: list[Violation]) -> str:
    from amqp10msg.app.inspector.reading import BASIC

    if item.is_other_protocol:
        other = {"source": safe(item.source), "ok": None, "protocol": BASIC}
        return json_text({**other, "bytes": 0, "violations": []})
    return json_text(
        {
            "source": safe(item.source),
            "ok": not violations,
            "bytes": len(item.data),
            "violations": [attrs.asdict(violation) for violation in violations],
        }
    )


def _show_summary(tally: _Tally, colored: bool) -> None:
    """Print a table of the violated rules, then the result."""
    from rich.console import Group
    from rich.padding import Padding
    from rich.text import Text

    screen = console(colored)
    wide = screen.width >= _MIN_WIDTH_FOR_CLAUSES
    if tally.rules:
        rows = table()
        # On a narrow screen, the first column has clause and first place on a second line.
        rows.add_column("Rule" if wide else "Rule, Clause, First in", no_wrap=wide, overflow="fold")
        if wide:
            rows.add_column("Clause", overflow="fold")
        rows.add_column("Severity", no_wrap=True)
        rows.add_column("Messages", justify="right", no_wrap=True)
        rows.add_column("Places", justify="right", no_wrap=True)
        if wide:
            rows.add_column("First in", overflow="fold")
        for name, counts_of_rule in tally.rows():
            rule, first = Text(name, style="cyan"), safe(counts_of_rule.first)
            severity = Text(counts_of_rule.severity, style=SEVERITY_COLORS[counts_of_rule.severity])
            counts = (f"{counts_of_rule.messages:,}", f"{counts_of_rule.violations:,}")
            if wide:
                rows.add_row(rule, counts_of_rule.clause, severity, *counts, Text(first))
            else:
                clause = f"{counts_of_rule.clause}, " if counts_of_rule.clause else ""
                below = Text(f"{clause}first in {without_message_name(first)}", style="dim")
                rows.add_row(Group(rule, Padding(below, (0, 0, 0, 2))), severity, *counts)
        screen.print(rows)
        screen.print()
    style = "red" if tally.is_failure else "yellow" if tally.warned else "green"
    screen.print(Text(f"{tally.sentence()} (profile {tally.profile})", style=f"bold {style}"))


# Judging.


def judged(items: Iterable[Item], profile: Profile, *, in_batches: bool) -> Iterator[_JudgedItem]:
    """Yield (item, violations) for each item, in order.

    Checking valid messages in batches takes a tenth of the time. But results are delayed until a
    batch is full, so do not set `in_batches` if messages arrive slowly.
    """
    from amqp10msg.app.inspector.judging import judge

    suspects = _suspect_finder() if in_batches else None
    if suspects is None:
        yield from ((item, judge(item, profile)) for item in items)
        return
    batch: list[Item] = []
    size = 0
    try:
        for item in items:
            batch.append(item)
            size += len(item.data)
            if len(batch) == _BATCH_MESSAGES or size > _BATCH_BYTES:
                yield from _judge_batch(batch, profile, suspects)
                batch, size = [], 0
    except click.ClickException:
        # Yield the violations of earlier messages before the read error ends the command.
        yield from ((item, judge(item, profile)) for item in batch)
        raise
    yield from ((item, judge(item, profile)) for item in batch)


def _judge_batch(
    items: list[Item], profile: Profile, suspects: _SuspectFinder
) -> Iterator[_JudgedItem]:
    """Yield (item, violations) for each item; check only those that `suspects` returns."""
    from amqp10msg.app.inspector.judging import judge

    messages = [item.data for item in items]
    suspicious = set(suspects(messages, profile))
    for index, item in enumerate(items):
        if item.fault or index in suspicious:
            yield item, judge(item, profile)
        else:
            yield item, []


def _suspect_finder() -> _SuspectFinder | None:
    """Return a function that finds messages that may violate a rule; None if pyarrow is missing.

    The function has the arguments (messages, profile), and returns the indexes of these messages.
    """
    if find_spec("pyarrow") is None:
        return None

    def suspects_of(messages: list[bytes], profile: Profile) -> Sequence[int]:
        # Import only for a full batch: the import takes as long as judging thousands of messages.
        from amqp10msg.columns import binary_chunks, suspects
        from amqp10msg.wire.limits import DEFAULT_LIMITS

        (array,) = binary_chunks(messages)
        return suspects(array, DEFAULT_LIMITS, profile)

    return suspects_of


# Counts, and the page of --report.


@attrs.define
class _Tally:
    """Counts of messages, and of violations per rule.

    `warned` counts messages with warnings but no errors. `failed` counts messages with errors, and
    unreadable inputs. `unreadable` counts only unreadable inputs. These counts and `messages` do
    not include `damaged`, the number of places in files where messages may be missing, and
    `other_protocol`, the number of messages of AMQP 0-9-1, which are not checked.
    """

    profile: str
    messages: int = 0
    octets: int = 0
    failed: int = 0
    warned: int = 0
    unreadable: int = 0
    damaged: int = 0
    other_protocol: int = 0
    rules: dict[str, RuleCount] = attrs.field(factory=dict)

    @property
    def sound(self) -> int:
        """The number of messages without violations."""
        return self.messages - self.failed - self.warned

    def add(self, item: Item, violations: list[Violation]) -> None:
        """Count an item and its violations."""
        if item.is_other_protocol:
            self.other_protocol += 1
            return
        if item.is_damage:
            self.damaged += 1
        else:
            self._add_message(item, violations)
        for violation in violations:
            new = RuleCount(
                violation.clause,
                0,
                item.source,
                violation.severity,
                text=violation.text[:MAX_EXAMPLE_LENGTH],
            )
            counts = self.rules.setdefault(violation.rule, new)
            counts.violations += 1
            if violation.severity == "error":  # a failed check of a rule of severity warning, too
                counts.severity = "error"
        for rule in {violation.rule for violation in violations}:
            self.rules[rule].messages += 1

    def _add_message(self, item: Item, violations: list[Violation]) -> None:
        self.messages += 1
        self.octets += len(item.data)
        self.unreadable += bool(item.fault)
        if any(violation.severity == "error" for violation in violations):
            self.failed += 1
        elif violations:
            self.warned += 1

    @property
    def is_failure(self) -> bool:
        """Whether an input has errors, cannot be read, or has no message of AMQP 1.0."""
        return self.failed + self.damaged > 0 or not self.messages

    def rows(self) -> list[tuple[str, RuleCount]]:
        """Return the violated rules: errors first, then by descending number of messages."""
        return sorted(
            self.rules.items(),
            key=lambda item: (item[1].severity != "error", -item[1].messages, item[0]),
        )

    def sentence(self) -> str:
        """Return the counts as a sentence."""
        parts = [self._messages_text()]
        if self.damaged:
            places = plural(self.damaged, "damaged place")
            parts.append(f"{places}, where messages may be missing")
        if self.other_protocol:
            parts.append(other_protocol_note(self.other_protocol, "checked"))
        return "; ".join(parts)

    def _messages_text(self) -> str:
        if not self.messages:
            return "no messages"
        if self.sound == self.messages:
            return f"{plural(self.messages, 'message')}, no violations"
        parts = [f"{self.sound:,} sound"]
        if self.warned:
            parts.append(f"{self.warned:,} with only warnings")
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
            "damaged": self.damaged,
            "other_protocol": self.other_protocol,
            "rules": {rule: attrs.asdict(row) for rule, row in self.rows()},
        }


class _Report:
    """The HTML page of --report. Collects examples of violations while messages are judged."""

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self._examples: list[tuple[Item, list[Violation]]] = []
        self._by_rule: dict[str, list[int]] = {}
        self._unreadable: list[Item] = []

    def add(self, item: Item, violations: list[Violation]) -> None:
        """Keep a message as an example if one of its rules has fewer than `_EXAMPLES_PER_RULE`."""
        if item.is_other_protocol:
            return
        if item.fault:
            if len(self._unreadable) < _MAX_UNREADABLE:
                self._unreadable.append(item)
            return
        rules_without_examples = {
            violation.rule
            for violation in violations
            if len(self._by_rule.get(violation.rule, ())) < _EXAMPLES_PER_RULE
        }
        if not rules_without_examples or len(item.data) > _MAX_EXAMPLE_SIZE:
            return
        self._examples.append((item, violations))
        for rule in rules_without_examples:
            self._by_rule.setdefault(rule, []).append(len(self._examples))

    def html(self, tally: _Tally) -> str:
        """Return the HTML page, which needs no other file."""
        from amqp10msg import pages
        from amqp10msg.app.inspector.judging import DAMAGED, UNREADABLE
        from amqp10msg.notation import parse_tree
        from amqp10msg.notation.html import annotated
        from amqp10msg.pages.reports import proportions, rule_rows
        from amqp10msg.validation import RULES

        own_rules = {rule.id: rule for rule in self.profile.rules}
        trees = [
            parse_tree(item.data, violations=violations, limit=_MAX_FIELDS)
            for item, violations in self._examples
        ]
        sources = [item.source for item, _ in self._examples]
        rules = rule_rows(
            [
                (rule, attrs.evolve(row, clause=RULES[rule].clause) if rule in RULES else row)
                for rule, row in tally.rows()
                if rule not in {DAMAGED, UNREADABLE}
            ],
            tally.messages,
            lambda row: [("places", "n", f"{row.violations:,}"), ("first in", "", row.first)],
            {
                rule: [(number, sources[number - 1]) for number in numbers]
                for rule, numbers in self._by_rule.items()
            },
            own_rules,
        )
        bar = [("sound", tally.sound), ("warning", tally.warned), ("error", tally.failed)]
        return pages.render(
            "validation.html",
            title="AMQP messages validated",
            script=bool(self._examples),
            profile=self.profile,
            counts=_page_counts(tally),
            bar=proportions(bar) if sum(count > 0 for _, count in bar) > 1 else "",
            rules=rules,
            unreadable=self._unreadable,
            unread=tally.unreadable + tally.damaged - len(self._unreadable),
            each=_EXAMPLES_PER_RULE,
            messages=annotated(trees, sources, max_octets=_MAX_SHOWN_BYTES),
            more=0,
        )


def _page_counts(tally: _Tally) -> list[tuple[str, str, str]]:
    """Return (label, number, CSS class) of the counts at the top of the page.

    Zero counts are omitted, except those of all messages and of sound messages.
    """
    counts = (
        ("messages", tally.messages, ""),
        ("sound", tally.sound, "sound"),
        ("with only warnings", tally.warned, "warning"),
        ("with errors", tally.failed - tally.unreadable, "error"),
        ("not readable", tally.unreadable, "error"),
        ("damaged places, where messages may be missing", tally.damaged, "error"),
        ("of AMQP 0-9-1, not checked", tally.other_protocol, ""),
    )
    return [
        (name, f"{number:,}", kind)
        for name, number, kind in counts
        if number or name in ("messages", "sound")
    ]
