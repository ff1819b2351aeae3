"""The report of dry runs, as JSON and as an HTML page."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

from amqp10msg import pages
from amqp10msg.net.bridge.dry import Checked, DryRun
from amqp10msg.notation.html import annotated
from amqp10msg.pages.reports import Part, table
from amqp10msg.provenance import facts

#: Maximum number of messages that the page shows byte by byte.
_MAX_EXAMPLES = 100
#: Maximum number of bytes that the page shows of a message.
_MAX_OCTETS_SHOWN = 2_048


def as_json(checked: Sequence[Checked]) -> str:
    """Return the results of dry runs as JSON; URLs have no credentials."""
    report = {"made": facts(), "queues": [_json_of(checked_queue) for checked_queue in checked]}
    return json.dumps(report, indent=2) + "\n"


def _json_of(checked_queue: Checked) -> dict[str, Any]:
    """Return the result of a queue as an object that can be written as JSON."""
    queue, run = checked_queue.queue, checked_queue.run
    fields: dict[str, Any] = {
        "name": queue.name,
        "type": queue.kind or None,
        "messages": queue.messages,
        "notes": list(queue.notes),
        "fault": checked_queue.fault or None,
    }
    if run is None:
        return {**fields, "read": 0}
    return {
        **fields,
        "source": str(run.spec.source),
        "target": str(run.spec.target),
        "profile": run.spec.options.profile,
        "read": run.read,
        "bytes": run.octets,
        "exact": run.lossless_count,
        "unmatched": run.unmatched,
        "unset_names": run.unmatched_check.texts(),
        "losing": run.losing,
        "losses": [
            {
                "property": path,
                "rule": action,
                "reason": reason,
                "messages": count,
                "example": _example_words(run, (path, action, reason)),
            }
            for (path, action, reason), count in run.losses.most_common()
        ],
        "failures": [
            {"reason": failure, "messages": count, "example": _example_words(run, failure)}
            for failure, count in run.failures.most_common()
        ],
        "carried": [
            {"property": path, "reason": reason, "messages": count}
            for (path, reason), count in run.carried_losses.most_common()
        ],
        "changed": _changes_json(run.restorable_changes),
        "broker_marks": _changes_json(run.broker_losses),
    }


def _changes_json(counts: Counter[tuple[str, str, str]]) -> list[dict[str, Any]]:
    """Return counts by path, action and reason as objects, the most common first."""
    return [
        {"property": path, "rule": action, "reason": reason, "messages": count}
        for (path, action, reason), count in counts.most_common()
    ]


def _example_words(run: DryRun, key: Any) -> str | None:
    """Return the description of the example of a loss or failure, if there is one."""
    return run.messages[run.examples[key]].words if key in run.examples else None


def as_html(
    checked: Sequence[Checked], *, title: str, source: str, target: str, profile: str
) -> str:
    """Return the results of dry runs as a self-contained HTML page. Requires Jinja2.

    Args:
        checked: the results by queue.
        title: the title of the page.
        source: the source, as the page shows it.
        target: the target, as the page shows it.
        profile: the translation profile, as the page shows it.
    """
    runs = [
        (checked_queue.queue.name, checked_queue.run)
        for checked_queue in checked
        if checked_queue.run is not None
    ]
    examples = _Examples(runs)
    losing = sum(run.losing for _, run in runs)
    unread = sum(bool(checked_queue.fault) for checked_queue in checked)
    counts = [
        ("messages read", f"{sum(run.read for _, run in runs):,}", ""),
        ("lose no data", f"{sum(run.lossless_count for _, run in runs):,}", "sound"),
        ("lose data", f"{losing:,}", "error" if losing else ""),
        ("queues not read", f"{unread:,}", "warning" if unread else ""),
    ]
    parts = [
        _queue_table(checked),
        *_note_parts(checked),
        *_loss_parts(runs, examples),
        *_failure_parts(runs, examples),
    ]
    return pages.render(
        "migration.html",
        title=title,
        source=source,
        target=target,
        profile=profile,
        counts=counts,
        parts=[*parts, *_carried_parts(runs), *_changed_parts(runs), *_mark_parts(runs)],
        others=examples.without_bytes,
        messages=examples.messages,
        more=0,
        script=bool(examples.messages),
    )


class _Examples:
    """The example messages of the page, and the anchors to which other parts link.

    Attributes:
        messages: the examples that the page shows byte by byte, at most `_MAX_EXAMPLES`.
        without_bytes: the examples for which the page shows only the description.
    """

    def __init__(self, runs: Sequence[tuple[str, DryRun]]) -> None:
        self._anchors: dict[tuple[int, int], str] = {}  # by number of the run and of the example
        octets: list[bytes] = []
        words: list[list[str]] = []
        labels: list[str] = []
        self.without_bytes: list[dict[str, Any]] = []
        for run_number, (name, run) in enumerate(runs):
            for index, example in enumerate(run.messages):
                lines = example.words.splitlines()
                label = f"{name}, example {index + 1}"
                if example.octets is None or len(octets) >= _MAX_EXAMPLES:
                    number = len(self.without_bytes) + 1
                    self._anchors[run_number, index] = f"example-{number}"
                    self.without_bytes.append({"number": number, "name": label, "words": lines})
                    continue
                octets.append(example.octets)
                words.append(lines)
                labels.append(label)
                self._anchors[run_number, index] = f"message-{len(octets)}"
        annotated_messages = annotated(octets, labels, max_octets=_MAX_OCTETS_SHOWN)
        self.messages = [
            {**message, "words": lines}
            for message, lines in zip(annotated_messages, words, strict=True)
        ]

    def cell(self, run_number: int, run: DryRun, key: Any) -> Any:
        """Return a table cell with a link to the example of a loss or failure, or an empty cell.

        `key` is the key of the loss or failure in `DryRun.examples`.
        """
        index = run.examples.get(key)
        return "" if index is None else ("", f"{index + 1}", self._anchors[run_number, index])


def _queue_table(checked: Sequence[Checked]) -> Part:
    """Return the table of all queues."""
    rows = []
    for checked_queue in checked:
        queue, run = checked_queue.queue, checked_queue.run
        message_count = "" if queue.messages is None else f"{queue.messages:,}"
        numbers = ("", "", "") if run is None else (run.read, run.lossless_count, run.losing)
        cells = [f"{number:,}" if isinstance(number, int) else "" for number in numbers]
        fault = ("error", checked_queue.fault) if checked_queue.fault else ""
        rows.append((queue.name, queue.kind, message_count, *cells, fault))
    numbers_of = ("messages", "read", "lose no data", "lose data")
    columns = {"queue": "", "type": "", **dict.fromkeys(numbers_of, "n"), "not read because": ""}
    return table("Queues", columns, rows, drop_empty=True)


def _note_parts(checked: Sequence[Checked]) -> list[Part]:
    """Return the table of the notes of all queues, unless it is empty."""
    rows = [
        (checked_queue.queue.name, explanation)
        for checked_queue in checked
        for explanation in checked_queue.queue.notes
    ]
    explanation = "How RabbitMQ 4 handles the queues differently, whatever messages they hold."
    return _parts_unless_empty("In RabbitMQ 4", explanation, {"queue": "", "note": ""}, rows)


def _loss_parts(runs: Sequence[tuple[str, DryRun]], examples: _Examples) -> list[Part]:
    """Return the table of permanent losses, unless it is empty."""
    rows = [
        (
            name,
            path,
            action,
            reason,
            f"{count:,}",
            examples.cell(run_number, run, (path, action, reason)),
        )
        for run_number, (name, run) in enumerate(runs)
        for (path, action, reason), count in run.losses.most_common()
    ]
    names = ("queue", "property", "action", "because")
    columns = {**dict.fromkeys(names, ""), "messages": "n", "example": ""}
    note = "Values that do not arrive, or arrive changed."
    return _parts_unless_empty("What would be lost", note, columns, rows)


def _failure_parts(runs: Sequence[tuple[str, DryRun]], examples: _Examples) -> list[Part]:
    """Return the table of messages that could not be sent, unless it is empty."""
    rows = [
        (name, failure, f"{count:,}", examples.cell(run_number, run, failure))
        for run_number, (name, run) in enumerate(runs)
        for failure, count in run.failures.most_common()
    ]
    note = "These messages would go to the quarantine."
    columns = {"queue": "", "because": "", "messages": "n", "example": ""}
    return _parts_unless_empty("What could not be sent", note, columns, rows)


def _carried_parts(runs: Sequence[tuple[str, DryRun]]) -> list[Part]:
    """Return the table of values that only the residual has, unless it is empty."""
    rows = [
        (name, path, reason, f"{count:,}")
        for name, run in runs
        for (path, reason), count in run.carried_losses.most_common()
    ]
    note = (
        "Kept in the annotation or header x-opt-amqp10msg-residual, which only a translation back "
        "by this library reads. Other consumers do not see it."
    )
    columns = {"queue": "", "property": "", "because": "", "messages": "n"}
    return _parts_unless_empty("What is kept in the residual alone", note, columns, rows)


def _changed_parts(runs: Sequence[tuple[str, DryRun]]) -> list[Part]:
    """Return the table of values that arrive in another form, unless it is empty."""
    note = "Under another name or of another type; a translation back restores the value."
    counts = [(name, run.restorable_changes) for name, run in runs]
    return _loss_table("What arrives in another form", note, counts)


def _mark_parts(runs: Sequence[tuple[str, DryRun]]) -> list[Part]:
    """Return the table of values that the broker added, unless it is empty."""
    note = "Values that the source's broker added for a delivery. They are not data of the sender."
    counts = [(name, run.broker_losses) for name, run in runs]
    return _loss_table("Marks of the broker", note, counts)


def _loss_table(
    title: str, note: str, counts: Sequence[tuple[str, Counter[tuple[str, str, str]]]]
) -> list[Part]:
    """Return the table of counts by path, action and reason of each queue, unless it is empty."""
    rows = [
        (name, path, action, reason, f"{count:,}")
        for name, losses in counts
        for (path, action, reason), count in losses.most_common()
    ]
    columns = {"queue": "", "property": "", "action": "", "because": "", "messages": "n"}
    return _parts_unless_empty(title, note, columns, rows)


def _parts_unless_empty(
    title: str, note: str, columns: dict[str, str], rows: list[Any]
) -> list[Part]:
    """Return a list with a table, or an empty list if there are no rows."""
    return [table(title, columns, rows, note, drop_empty=True)] if rows else []
