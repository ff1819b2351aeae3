"""The report of dry runs: JSON, and the page that a team takes to the meeting about a migration."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

from amqp10msg.app import pages
from amqp10msg.app.made import facts
from amqp10msg.app.pages.reports import Part, table
from amqp10msg.net.bridge.dry import Checked, DryRun
from amqp10msg.notation.html import annotated

#: Messages that are shown byte by byte.
_MAX_EXAMPLES = 100
_MAX_OCTETS = 2_048


def as_json(checked: Sequence[Checked]) -> str:
    """Return the findings as JSON; URLs have no credentials."""
    found = {"made": facts(), "queues": [_json_of(one) for one in checked]}
    return json.dumps(found, indent=2) + "\n"


def _json_of(one: Checked) -> dict[str, Any]:
    queue, run = one.queue, one.run
    made: dict[str, Any] = {
        "name": queue.name,
        "type": queue.kind or None,
        "messages": queue.messages,
        "notes": list(queue.notes),
        "fault": one.fault or None,
    }
    if run is None:
        return {**made, "read": 0}
    return {
        **made,
        "source": str(run.spec.source),
        "target": str(run.spec.target),
        "profile": run.spec.options.profile,
        "read": run.read,
        "bytes": run.octets,
        "exact": run.exact,
        "unmatched": run.unmatched,
        "losing": run.losing,
        "losses": [
            {
                "property": path,
                "rule": action,
                "reason": reason,
                "messages": count,
                "example": _words(run, (path, action, reason)),
            }
            for (path, action, reason), count in run.losses.most_common()
        ],
        "failures": [
            {"reason": why, "messages": count, "example": _words(run, why)}
            for why, count in run.failures.most_common()
        ],
        "carried": [
            {"property": path, "reason": reason, "messages": count}
            for (path, reason), count in run.carried.most_common()
        ],
        "changed": _changes(run.changed),
        "broker_marks": _changes(run.marks),
    }


def _changes(counts: Counter[tuple[str, str, str]]) -> list[dict[str, Any]]:
    return [
        {"property": path, "rule": action, "reason": reason, "messages": count}
        for (path, action, reason), count in counts.most_common()
    ]


def _words(run: DryRun, key: Any) -> str | None:
    return run.messages[run.examples[key]].words if key in run.examples else None


def as_html(
    checked: Sequence[Checked], *, title: str, source: str, target: str, profile: str
) -> str:
    """Return the findings as a page that needs no other file.

    It needs Jinja2.
    """
    runs = [(one.queue.name, one.run) for one in checked if one.run is not None]
    shown = _Examples(runs)
    losing = sum(run.losing for _, run in runs)
    unread = sum(bool(one.fault) for one in checked)
    counts = [
        ("messages read", f"{sum(run.read for _, run in runs):,}", ""),
        ("lose no data", f"{sum(run.exact for _, run in runs):,}", "sound"),
        ("lose data", f"{losing:,}", "error" if losing else ""),
        ("queues not read", f"{unread:,}", "warning" if unread else ""),
    ]
    parts = [_queues(checked), *_notes(checked), *_losses(runs, shown), *_failures(runs, shown)]
    return pages.render(
        "migration.html",
        title=title,
        source=source,
        target=target,
        profile=profile,
        counts=counts,
        parts=[*parts, *_carried(runs), *_changed(runs), *_marks(runs)],
        others=shown.others,
        messages=shown.messages,
        more=0,
        script=bool(shown.messages),
    )


class _Examples:
    """The messages that the page shows, and where.

    Those in `messages` are shown byte by byte; of `others` there are words alone.
    """

    def __init__(self, runs: Sequence[tuple[str, DryRun]]) -> None:
        self._places: dict[tuple[int, int], str] = {}
        octets: list[bytes] = []
        words: list[list[str]] = []
        labels: list[str] = []
        self.others: list[dict[str, Any]] = []
        for at, (name, run) in enumerate(runs):
            for index, example in enumerate(run.messages):
                lines = example.words.splitlines()
                label = f"{name}, example {index + 1}"
                if example.octets is None or len(octets) >= _MAX_EXAMPLES:
                    number = len(self.others) + 1
                    self._places[at, index] = f"example-{number}"
                    self.others.append({"number": number, "name": label, "words": lines})
                    continue
                octets.append(example.octets)
                words.append(lines)
                labels.append(label)
                self._places[at, index] = f"message-{len(octets)}"
        made = annotated(octets, labels, max_octets=_MAX_OCTETS)
        self.messages = [
            {**message, "words": lines} for message, lines in zip(made, words, strict=True)
        ]

    def cell(self, at: int, run: DryRun, key: Any) -> Any:
        """Return the cell that leads to the example of a loss, or is empty."""
        index = run.examples.get(key)
        return "" if index is None else ("", f"{index + 1}", self._places[at, index])


def _queues(checked: Sequence[Checked]) -> Part:
    rows = []
    for one in checked:
        queue, run = one.queue, one.run
        there = "" if queue.messages is None else f"{queue.messages:,}"
        numbers = ("", "", "") if run is None else (run.read, run.exact, run.losing)
        cells = [f"{number:,}" if isinstance(number, int) else "" for number in numbers]
        fault = ("error", one.fault) if one.fault else ""
        rows.append((queue.name, queue.kind, there, *cells, fault))
    numbers_of = ("messages", "read", "lose no data", "lose data")
    columns = {"queue": "", "type": "", **dict.fromkeys(numbers_of, "n"), "not read because": ""}
    return table("Queues", columns, rows, drop_empty=True)


def _notes(checked: Sequence[Checked]) -> list[Part]:
    rows = [(one.queue.name, note) for one in checked for note in one.queue.notes]
    note = "What becomes of the queues themselves, whatever is in them."
    return _if_any("In RabbitMQ 4", note, {"queue": "", "note": ""}, rows)


def _losses(runs: Sequence[tuple[str, DryRun]], shown: _Examples) -> list[Part]:
    rows = [
        (name, path, action, reason, f"{count:,}", shown.cell(at, run, (path, action, reason)))
        for at, (name, run) in enumerate(runs)
        for (path, action, reason), count in run.losses.most_common()
    ]
    names = ("queue", "property", "action", "because")
    columns = {**dict.fromkeys(names, ""), "messages": "n", "example": ""}
    note = "Values that do not arrive, or arrive changed."
    return _if_any("What would be lost", note, columns, rows)


def _failures(runs: Sequence[tuple[str, DryRun]], shown: _Examples) -> list[Part]:
    rows = [
        (name, why, f"{count:,}", shown.cell(at, run, why))
        for at, (name, run) in enumerate(runs)
        for why, count in run.failures.most_common()
    ]
    note = "These messages would go to the quarantine."
    columns = {"queue": "", "because": "", "messages": "n", "example": ""}
    return _if_any("What could not be sent", note, columns, rows)


def _carried(runs: Sequence[tuple[str, DryRun]]) -> list[Part]:
    rows = [
        (name, path, reason, f"{count:,}")
        for name, run in runs
        for (path, reason), count in run.carried.most_common()
    ]
    note = (
        "Kept in the annotation or header x-opt-amqp10msg-residual, which only a translation back "
        "by this library reads. Other consumers do not see it."
    )
    columns = {"queue": "", "property": "", "because": "", "messages": "n"}
    return _if_any("What is kept in the residual alone", note, columns, rows)


def _changed(runs: Sequence[tuple[str, DryRun]]) -> list[Part]:
    note = "Under another name or of another type; a translation back restores the value."
    return _listed("What arrives in another form", note, [(n, run.changed) for n, run in runs])


def _marks(runs: Sequence[tuple[str, DryRun]]) -> list[Part]:
    note = "What the source's broker wrote for one delivery. It is not data of the sender."
    return _listed("Marks of the broker", note, [(name, run.marks) for name, run in runs])


def _listed(
    title: str, note: str, counts: Sequence[tuple[str, Counter[tuple[str, str, str]]]]
) -> list[Part]:
    rows = [
        (name, path, action, reason, f"{count:,}")
        for name, found in counts
        for (path, action, reason), count in found.most_common()
    ]
    columns = {"queue": "", "property": "", "action": "", "because": "", "messages": "n"}
    return _if_any(title, note, columns, rows)


def _if_any(title: str, note: str, columns: dict[str, str], rows: list[Any]) -> list[Part]:
    return [table(title, columns, rows, note, drop_empty=True)] if rows else []
