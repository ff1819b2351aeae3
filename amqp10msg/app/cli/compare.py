"""``amqp10msg compare``: the differences between messages, field by field."""

from __future__ import annotations

import json
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import click

from amqp10msg.app.cli._options import color_option, format_descriptions, format_option
from amqp10msg.app.cli._output import json_text, safe, use_color
from amqp10msg.wire.errors import AmqpError
from amqp10msg.wire.text import plural

if TYPE_CHECKING:
    from amqp10msg.app.inspector.reading import Item
    from amqp10msg.message import Message
    from amqp10msg.message.differences import Difference

#: The verdicts on a pair of messages, as the summary names them.
_VERDICTS = {
    "equal": "equal",
    "other_bytes": "equal with other bytes",
    "different": "different",
    "unreadable": "not readable",
}
_COLORS = {"added": "green", "removed": "red", "changed": "yellow", "reordered": "yellow"}


@click.command(
    epilog="""
\b
Examples:
  amqp10msg compare message.bin recorded.jsonl.gz:3
  amqp10msg compare messages.jsonl recorded.jsonl.gz --json
  amqp10msg compare 005375a00178 005375b00000000178
"""
)
@click.argument("first", metavar="A")
@click.argument("second", metavar="B")
@format_option("-f", "--format", formats=format_descriptions, default="auto", show_default=True)
@click.option(
    "--bytes",
    "is_exact",
    is_flag=True,
    help="Also exit with status 1 if messages with equal content have different bytes.",
)
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Write JSON lines instead: an object for each pair of messages, then an object with the "
    "summary. Values are in the typed notation.",
)
@color_option
def compare(
    first: str, second: str, form: str, is_exact: bool, as_json: bool, color: bool | None
) -> int:
    """Show which fields of messages differ.

    A and B are files, directories, hex or base64, or - for standard input; FILE:LINE and
    FILE@OFFSET select one message of a file. If they contain several messages, the first message of
    A is compared with the first message of B, and so on.

    The command prints each field, entry or item that only one message has, or that differs in value
    or AMQP type. Messages with equal content may still have different bytes, because AMQP has
    several encodings for a value: the command prints the offset of the first different byte.

    The exit status is 0 if all messages have equal content, and 1 if one differs, has no
    counterpart or cannot be read.
    """
    from amqp10msg.app.cli._input import Inputs

    if first == second == "-":
        raise click.UsageError("A and B cannot both be standard input")
    counts = dict.fromkeys(_VERDICTS, 0)
    colored = use_color(color)
    with Inputs((first,), form) as old, Inputs((second,), form) as new:
        for before, after in zip_longest(old.messages(), new.messages()):
            pair = _Pair(before, after)
            counts[pair.verdict] += 1
            if as_json:
                click.echo(json_text(pair.as_json()))
            else:
                for line, name in pair.lines():
                    styled = click.style(line, fg=_COLORS.get(name)) if colored else line
                    click.echo(styled, color=colored)
    total = sum(counts.values())
    if as_json:
        click.echo(json.dumps({"summary": {"pairs": total, **counts}}))
    else:
        parts = [f"{count:,} {_VERDICTS[name]}" for name, count in counts.items() if count]
        click.echo(f"{plural(total, 'pair')} of messages: {', '.join(parts)}")
    failed = counts["different"] + counts["unreadable"] + (counts["other_bytes"] if is_exact else 0)
    return int(failed > 0)


class _Pair:
    """Two messages to compare, of which one may be missing or unreadable.

    Attributes:
        verdict: a key of `_VERDICTS`.
        differences: the differences in content.
    """

    def __init__(self, before: Item | None, after: Item | None) -> None:
        self._sources = [item.source for item in (before, after) if item is not None]
        self._fault = ""
        self._offset: int | None = None
        self.differences: list[Difference] = []
        self.verdict = "different"
        if before is None or after is None:
            missing = "A" if before is None else "B"
            self._fault = f"{missing} has no such message"
            if (alone := before or after) is not None and alone.fault:
                self._fault = f"{self._fault}, and {alone.fault}"
                self.verdict = "unreadable"
            return
        try:
            messages = _decode(before), _decode(after)
        except _UnreadableError as error:
            self._fault, self.verdict = str(error), "unreadable"
            return
        from amqp10msg.message.differences import differences

        self.differences = differences(*messages)
        if not self.differences and before.data != after.data:
            self._offset = _first_difference(before.data, after.data)
        if not self.differences:
            self.verdict = "equal" if self._offset is None else "other_bytes"

    def lines(self) -> list[tuple[str, str]]:
        """Return the lines to print, each with the kind of its difference, or an empty string."""
        is_named = len(set(self._sources)) == len(self._sources)
        names = " and ".join(map(safe, self._sources)) if is_named else "A and B"
        if self.verdict == "unreadable" and len(self._sources) > 1:
            return [(safe(self._fault), "")]
        if self._fault:
            return [(f"{names}: {safe(self._fault)}", "")]
        if not self.differences:
            suffix = "" if self._offset is None else f", other bytes from byte {self._offset:,}"
            return [(f"{names}: equal content{suffix}", "")]
        count = plural(len(self.differences), "difference")
        return [(f"{names}: {count}", "")] + [
            (f"  {safe(str(difference))}", difference.kind) for difference in self.differences
        ]

    def as_json(self) -> dict[str, Any]:
        """Return the object that --json prints for the pair."""
        record: dict[str, Any] = {
            "sources": list(map(safe, self._sources)),
            "verdict": self.verdict,
        }
        if self._fault:
            return record | {"error": self._fault}
        if self._offset is not None:
            record["offset"] = self._offset
        return record | {"differences": list(map(_difference_as_json, self.differences))}


class _UnreadableError(ValueError):
    """A message cannot be read; the text says which, and why."""


def _decode(item: Item) -> Message:
    """Decode a message leniently. Raises _UnreadableError."""
    from amqp10msg.files.recognition import decode_whole

    if item.fault:
        raise _UnreadableError(f"{item.source}: {item.fault}")
    try:
        return decode_whole(item.data)
    except AmqpError as error:
        raise _UnreadableError(f"{item.source}: {item.explained(str(error))}") from None


def _first_difference(before: bytes, after: bytes) -> int:
    pairs = zip(before, after, strict=False)
    shorter = min(len(before), len(after))
    return next((offset for offset, (a, b) in enumerate(pairs) if a != b), shorter)


def _difference_as_json(difference: Difference) -> dict[str, Any]:
    from amqp10msg import notation

    record: dict[str, Any] = {"path": difference.path, "kind": difference.kind}
    for name, value in (("before", difference.before), ("after", difference.after)):
        if value is not None:
            record[name] = notation.to_typed(value)
    return record
