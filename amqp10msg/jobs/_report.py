"""The HTML report of a job: a single file with charts and examples."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs

from amqp10msg import pages
from amqp10msg.jobs._stats import Stats
from amqp10msg.jobs.job import DAMAGED, UNREADABLE_CODE
from amqp10msg.notation import parse_tree
from amqp10msg.notation.html import annotated
from amqp10msg.pages.reports import (
    COLORS,
    MIN_PART_PERCENT,
    NARROW,
    WIDE,
    Bar,
    Part,
    columns,
    proportions,
    rule_rows,
    table,
)
from amqp10msg.validation import Violation, validate
from amqp10msg.wire.text import plural

# The maximum numbers of bars in a chart, and of labels on its horizontal axis.
_MAX_BARS = 120
_MAX_AXIS_LABELS = 6
# Limits of the examples: messages per error code, messages in total, and the fields and bytes that
# are shown of a message.
EXAMPLES_PER_ERROR_CODE = 2
_MAX_EXAMPLES = 30
_MAX_EXAMPLE_FIELDS, _MAX_EXAMPLE_BYTES = 1_000, 2_048


@attrs.frozen
class Run:
    """The description of a finished job in its report.

    Attributes:
        title: the heading of the report.
        source: the input of the job.
        output: the output folder.
        seconds: the elapsed wall-clock time in seconds.
        engine: the name of the engine; empty to leave it out.
        profile: the validation or translation profile; empty for other jobs.
        skipped_sections: the sections that the job did not read, see `Job.skipped_sections`.
    """

    title: str
    source: str
    output: str
    seconds: float
    engine: str = ""
    profile: str = ""
    skipped_sections: Sequence[str] = ()

    @property
    def loss_heading(self) -> str:
        """The heading of the table of losses, which for lossless has carried values, too."""
        return "Lost or carried" if self.profile == "lossless" else "Lost"

    @property
    def warning(self) -> str:
        """A sentence about damage that the job could not detect; empty if it read all sections."""
        if not self.skipped_sections:
            return ""
        return (
            f"Not read: {', '.join(self.skipped_sections)}: damage in them is not detected; "
            "--profile oasis reads all"
        )


def page(
    run: Run, stats: Stats, *, examples: Sequence[Mapping[str, Any]] = (), quarantine: str = ""
) -> str:
    """Return the HTML report of a job. Needs ``amqp10msg[pages]``.

    Args:
        run: the description of the job.
        stats: the counts of the job.
        examples: quarantined rows, of which the report shows every byte; see `examples_of`.
        quarantine: the link to the quarantine folder, relative to the report; empty for no link.

    Raises:
        ImportError: Jinja2 is not installed.
    """
    seconds = run.seconds if run.seconds > 0 else float("inf")
    counts = [
        ("messages", f"{stats.rows:,}", ""),
        ("good", f"{stats.good:,}", ""),
        ("in quarantine", f"{stats.errors:,}", "error" if stats.errors else ""),
        ("of messages", _format_size(stats.octets), ""),
        ("seconds", f"{run.seconds:,.1f}" if run.seconds >= 1 else f"{run.seconds:.2g}", ""),
        ("messages a second", f"{stats.rows / seconds:,.0f}", ""),
        ("a second", _format_size(round(stats.octets / seconds)), ""),
    ]
    if stats.skipped:
        counts.append(("rows without a message", f"{stats.skipped:,}", ""))
    if stats.repaired:
        counts.append(("invalid, decoded leniently", f"{stats.repaired:,}", ""))
    if stats.left_out:
        counts.append(("messages left out", f"{stats.left_out:,}", ""))
    rules = stats.rules_by_frequency()
    order = [code for code, _ in rules]
    examples_shown = [
        row
        for row in examples
        if row.get("wire") is not None and row["error_code"] not in {None, UNREADABLE_CODE, DAMAGED}
    ]
    examples_shown.sort(key=lambda row: order.index(row["error_code"]))
    examples_shown = examples_shown[:_MAX_EXAMPLES]
    labels = [_example_label(row, index) for index, row in enumerate(examples_shown, 1)]
    trees = [
        parse_tree(row["wire"], violations=_violations_in(row), limit=_MAX_EXAMPLE_FIELDS)
        for row in examples_shown
    ]
    examples_of: dict[str, list[tuple[int, str]]] = {}
    for number, (row, label) in enumerate(zip(examples_shown, labels, strict=True), 1):
        examples_of.setdefault(row["error_code"], []).append((number, label))
    return pages.render(
        "job.html",
        title=run.title,
        script=bool(examples_shown),
        source=run.source,
        output=run.output,
        engine=run.engine,
        profile=run.profile,
        warning=run.warning,
        counts=counts,
        rules=rule_rows(
            rules,
            stats.rows,
            lambda row: [("first in", "", row.first), ("what is wrong there", "", row.text)],
            examples_of,
        ),
        quarantine=quarantine,
        inspected=f"{run.output}/quarantine",
        parts=list(_report_parts(run, stats)),
        each=EXAMPLES_PER_ERROR_CODE,
        messages=annotated(trees, labels, max_octets=_MAX_EXAMPLE_BYTES),
        more=0,
    )


def _violations_in(row: Mapping[str, Any]) -> list[Violation]:
    """Return the violations in a quarantined message, with the one that quarantined it.

    The message is checked against the profile ``oasis``; the job may have used another.
    """
    violations = validate(row["wire"])
    code = row["error_code"]
    if all(violation.rule != code for violation in violations):
        clause, offset, text = (row[f"error_{name}"] for name in ("clause", "offset", "text"))
        own = Violation(code, clause or "", "error", "", offset or 0, text or "")
        violations = sorted([*violations, own], key=lambda violation: violation.offset)
    return violations


def _example_label(row: Mapping[str, Any], number: int) -> str:
    """Return the location of an example as ``FILE@OFFSET``, or its number if that is unknown."""
    source = row.get("source")
    return f"Message {number}" if source is None else f"{source}@{row.get('offset') or 0}"


def _format_size(count: int) -> str:
    """Format a number of bytes with a unit, rounded to about three digits."""
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            value = count / size
            return f"{value:.{2 if value < 10 else 1 if value < 100 else 0}f} {unit}"
    return f"{count} bytes"


def _report_parts(run: Run, stats: Stats) -> Iterator[Part]:
    """Yield the parts of the report. A part without counts is left out."""
    if stats.losses:
        yield _losses_part(run, stats)
    if stats.hours:
        yield _hours_part(stats)
    if stats.sizes:
        yield _sizes_part(stats)
    if stats.types:
        yield _types_part(stats)


def _losses_part(run: Run, stats: Stats) -> Part:
    rows = []
    for path, action, count, reason in stats.lost():
        action_cell = ("drift", action) if action.endswith("for good") else action
        rows.append((path, action_cell, f"{count:,}", reason))
    note = "Values that the translated messages lack, or have in another form."
    columns = {"path": "", "action": "", "messages": "n", "why": ""}
    return table(f"{run.loss_heading} in translation", columns, rows, note)


def _hours_part(stats: Stats) -> Part:
    """Return the chart of messages over time. If the time span is long, a bar is several hours."""
    first, last = min(stats.hours), max(stats.hours)
    step = max(1, -(-(last - first + 1) // _MAX_BARS))
    counts = [0] * ((last - first) // step + 1)
    for hour, count in stats.hours.items():
        counts[(hour - first) // step] += count
    ticks = {index * len(counts) // _MAX_AXIS_LABELS for index in range(_MAX_AXIS_LABELS)}
    labels = [_format_hour(first + index * step) for index in range(len(counts))]
    bars = [
        Bar(count, label, label if index in ticks else "")
        for index, (count, label) in enumerate(zip(counts, labels, strict=True))
    ]
    further = ""
    if stats.further_hours:
        further = f" {plural(stats.further_hours, 'message')} of further hours not shown."
    if len(bars) == 1:
        note = f"All messages are from the hour that begins at {labels[0]}, UTC."
        return Part("Messages over time", note + further)
    unit = "an hour" if step == 1 else f"in {step:,} hours"
    note = f"Messages {unit}, by UTC.{further}"
    return Part("Messages over time", note, _column_charts(bars, note))


def _column_charts(bars: list[Bar], note: str) -> tuple[Any, ...]:
    """Return a chart for a wide page, and the same chart for a narrow page."""
    return columns(bars, note, WIDE), columns(bars, note, NARROW)


def _format_hour(hour: int) -> str:
    """Format an hour since the Unix epoch as a date, or as a number if datetime overflows."""
    try:
        time = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(hours=hour)
    except OverflowError:
        return f"hour {hour:,}"
    return time.strftime("%Y-%m-%d %H:00")


def _sizes_part(stats: Stats) -> Part:
    bars = []
    for bits in range(min(stats.sizes), max(stats.sizes) + 1):
        label = f"{1 << (bits - 1):,} to {(1 << bits) - 1:,} bytes"
        bars.append(Bar(stats.sizes.get(bits, 0), label, _format_power(bits - 1)))
    if len(bars) == 1:
        return Part("Sizes of messages", f"Each message has {bars[0].text}.")
    note = "Messages by size in bytes, from each power of two up."
    return Part("Sizes of messages", note, _column_charts(bars, note))


def _format_power(exponent: int) -> str:
    """Format 2 to the power of `exponent` with a binary prefix, as in ``16 Ki``."""
    thousands = min(exponent // 10, 4)
    return f"{1 << exponent - 10 * thousands}{('', ' Ki', ' Mi', ' Gi', ' Ti')[thousands]}"


def _types_part(stats: Stats) -> Part:
    """Return the table of the value types of each property, with the shares of several types."""
    listed = [
        (section, key, types)
        for section, keys in sorted(stats.types.items())
        for key, types in sorted(keys.items(), key=lambda item: (-len(item[1]), item[0]))
    ]
    drifting = {(section, key) for section, key, _ in stats.drifting()}
    total: Counter[str] = Counter()
    for section, key, types in listed:
        if (section, key) in drifting:
            total.update(types)
    colors = {name: min(index, COLORS - 1) for index, (name, _) in enumerate(total.most_common())}

    def row(section: str, key: str, types: Counter[str]) -> tuple[Any, ...]:
        by_frequency = types.most_common()
        summary = ", ".join(f"{name} {count:,}" for name, count in by_frequency)
        if not drifting:
            return section.replace("_", "-"), key, summary
        if (section, key) not in drifting:
            return section.replace("_", "-"), key, summary, ""
        mix = proportions(
            [(f"c{colors[name]}", count) for name, count in by_frequency], least=MIN_PART_PERCENT
        )
        return section.replace("_", "-"), key, ("drift", summary), mix

    note = f"{len(drifting):,} of {len(listed):,} properties have more than one type."
    columns = {"section": "", "property": "", "messages by type": ""}
    if drifting:
        columns["share of each"] = "mix"
    rows = (row(*property_types) for property_types in listed)
    return table("Types of properties", columns, rows, note, legend=list(colors.items()))
