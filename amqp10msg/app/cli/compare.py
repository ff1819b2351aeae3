"""``amqp10msg compare``: the differences between messages, field by field."""

from __future__ import annotations

import hashlib
import json
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, TypeAlias

import attrs
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
    "unpaired": "without a counterpart",
    "unreadable": "not readable",
}
#: The sections outside of the bare message (Part 3, 3.2), as the paths of differences name them.
_NOT_BARE = frozenset(
    (
        *("message-format", "header", "delivery-annotations", "message-annotations", "footer"),
        "unknown",
    )
)
# Maximum number of distinct differences that --group keeps in memory.
_MAX_GROUPS = 1_000
_COLORS = {"added": "green", "removed": "red", "changed": "yellow", "reordered": "yellow"}


@click.command(
    epilog="""
\b
Examples:
  amqp10msg compare message.bin recorded.jsonl.gz:3
  amqp10msg compare messages.jsonl recorded.jsonl.gz --json
  amqp10msg compare --by message-id --bare messages.jsonl recorded.jsonl.gz
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
    "--by",
    "pairing",
    type=click.Choice(["position", "message-id"]),
    default="position",
    show_default=True,
    help="How to pair messages: by their position in A and B, or by their message-id. message-id "
    "keeps the messages of B in memory.",
)
@click.option(
    "--bare",
    "is_bare",
    is_flag=True,
    help="Compare only the bare message: properties, application-properties and body. Brokers may "
    "change the other sections.",
)
@click.option(
    "--group",
    "is_grouped",
    is_flag=True,
    help="Write each difference once, with the number of pairs that have it, instead of every "
    "pair.",
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
    first: str,
    second: str,
    form: str,
    is_exact: bool,
    pairing: str,
    is_bare: bool,
    is_grouped: bool,
    as_json: bool,
    color: bool | None,
) -> int:
    """Show which fields of messages differ.

    A and B are files, directories, hex or base64, or - for standard input; FILE:LINE and
    FILE@OFFSET select one message of a file. If they contain several messages, the first message of
    A is compared with the first message of B, and so on. --by message-id compares messages with
    equal ids instead: messages with the same id, or without an id, in their order.

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
    sizes = {"A": 0, "B": 0}
    colored = use_color(color)

    def show(record: Callable[[], dict[str, Any]], lines: Iterable[tuple[str, str]]) -> None:
        """Write a JSON object, or lines with the kinds of their differences."""
        if as_json:
            click.echo(json_text(record()))
            return
        for line, name in lines:
            click.echo(click.style(line, fg=_COLORS.get(name)) if colored else line, color=colored)

    groups = _Groups()
    pairs = _PAIRINGS[pairing]
    with Inputs((first,), form) as old, Inputs((second,), form) as new:
        for before, after in pairs(old.messages(), new.messages()):
            sizes["A"] += before is not None
            sizes["B"] += after is not None
            pair = _Pair(before, after, is_bare=is_bare)
            counts[pair.verdict] += 1
            if is_grouped and not pair.fault:
                groups.add(pair)
            else:
                show(pair.as_json, pair.lines())
    for group in groups:
        show(group.as_json, group.lines())
    total = sum(counts.values())
    if as_json:
        summary = {"pairs": total, **counts, "messages": sizes}
        if groups.left_out:
            summary["differences_left_out"] = groups.left_out
        click.echo(json.dumps({"summary": summary}))
    else:
        if groups.left_out:
            text = plural(groups.left_out, "other difference")
            click.echo(f"{text} left out: compare without --group to see them")
        parts = [f"{count:,} {_VERDICTS[name]}" for name, count in counts.items() if count]
        click.echo(f"{plural(total, 'pair')} of messages: {', '.join(parts)}")
        if sizes["A"] != sizes["B"]:
            click.echo(f"A has {plural(sizes['A'], 'message')}, B has {sizes['B']:,}")
    equal = counts["equal"] + (0 if is_exact else counts["other_bytes"])
    return int(equal < total)


_ItemPairs: TypeAlias = "Iterator[tuple[Item | None, Item | None]]"


def _pair_by_position(old: Iterable[Item], new: Iterable[Item]) -> _ItemPairs:
    """Yield the first item of `old` with the first of `new`, and so on."""
    return zip_longest(old, new)


def _pair_by_message_id(old: Iterable[Item], new: Iterable[Item]) -> _ItemPairs:
    """Yield items with equal message-ids, in the order of `old`; then the items left of `new`.

    The n-th item of `old` with an id is paired with the n-th item of `new` that has it. An item
    that cannot be read has no counterpart.
    """
    waiting: dict[object, deque[Item]] = {}
    for item in new:
        waiting.setdefault(_message_id_of(item), deque()).append(item)
    for item in old:
        key = _message_id_of(item)
        candidates = None if key is _UNREADABLE else waiting.get(key)
        yield item, candidates.popleft() if candidates else None
    for items in waiting.values():
        for item in items:
            yield None, item


_PAIRINGS = {"position": _pair_by_position, "message-id": _pair_by_message_id}
# The key of items that cannot be read.
_UNREADABLE = object()


def _message_id_of(item: Item) -> object:
    """Return a message's id with its type, None without an id, or `_UNREADABLE`."""
    try:
        message_id = _decode(item).message_id
    except _UnreadableError:
        return _UNREADABLE
    return None if message_id is None else (type(message_id), message_id)


class _Pair:
    """Two messages to compare, of which one may be missing or unreadable.

    Attributes:
        verdict: a key of `_VERDICTS`.
        fault: why the messages cannot be compared; empty if they can.
        differences: the differences in content.
    """

    def __init__(self, before: Item | None, after: Item | None, *, is_bare: bool = False) -> None:
        self._sources = [item.source for item in (before, after) if item is not None]
        self.fault = ""
        self._offset: int | None = None
        self._is_bare = is_bare
        self.differences: list[Difference] = []
        self.verdict = "unpaired"
        if before is None or after is None:
            missing = "A" if before is None else "B"
            self.fault = f"{missing} has no such message"
            if (alone := before or after) is not None and alone.fault:
                self.fault = f"{self.fault}, and {alone.fault}"
                self.verdict = "unreadable"
            return
        try:
            messages = _decode(before), _decode(after)
        except _UnreadableError as error:
            self.fault, self.verdict = str(error), "unreadable"
            return
        from amqp10msg.message.differences import differences

        self.differences = [
            difference
            for difference in differences(*messages)
            if not (is_bare and re.split(r"[.\[]", difference.path)[0] in _NOT_BARE)
        ]
        if self.differences:
            self.verdict = "different"
            return
        encoded = [item.bare for item in messages] if is_bare else [before.data, after.data]
        if encoded[0] != encoded[1]:
            self._offset = _first_difference(*encoded)
        self.verdict = "equal" if self._offset is None else "other_bytes"

    @property
    def names(self) -> str:
        """The sources of the messages, for a line of text."""
        is_named = len(set(self._sources)) == len(self._sources)
        return " and ".join(map(safe, self._sources)) if is_named else "A and B"

    def lines(self) -> list[tuple[str, str]]:
        """Return the lines to print, each with the kind of its difference, or an empty string."""
        names = self.names
        if self.verdict == "unreadable" and len(self._sources) > 1:
            return [(safe(self.fault), "")]
        if self.fault:
            return [(f"{names}: {safe(self.fault)}", "")]
        if not self.differences:
            of = " of the bare message" if self._is_bare else ""
            suffix = "" if self._offset is None else f", other bytes from byte {self._offset:,}{of}"
            return [(f"{names}: equal content{suffix}", "")]
        count = plural(len(self.differences), "difference")
        return [(f"{names}: {count}", "")] + [
            (f"  {safe(str(difference))}", difference.kind) for difference in self.differences
        ]

    @property
    def sources(self) -> list[str]:
        """The sources of the messages that are present."""
        return list(map(safe, self._sources))

    def as_json(self) -> dict[str, Any]:
        """Return the object that --json prints for the pair."""
        record: dict[str, Any] = {"sources": self.sources, "verdict": self.verdict}
        if self.fault:
            return record | {"error": self.fault}
        if self._offset is not None:
            record["offset"] = self._offset
        return record | {"differences": list(map(_difference_as_json, self.differences))}


@attrs.define
class _Group:
    """A difference, and the pairs of messages that have it.

    Attributes:
        difference: the difference.
        pair: the first pair that has it.
        count: the number of pairs that have it.
    """

    difference: Difference
    pair: _Pair
    count: int = 0

    def lines(self) -> list[tuple[str, str]]:
        """Return the lines to print, each with the kind of its difference, or an empty string."""
        first = f"{plural(self.count, 'pair')}, first {self.pair.names}"
        return [(first, ""), (f"  {safe(str(self.difference))}", self.difference.kind)]

    def as_json(self) -> dict[str, Any]:
        """Return the object that --json prints for the difference."""
        return {
            "pairs": self.count,
            "first": self.pair.sources,
            "difference": _difference_as_json(self.difference),
        }


class _Groups:
    """The distinct differences of all pairs; iterating yields the most frequent ones first.

    Attributes:
        left_out: the number of differences that were not counted, beyond `_MAX_GROUPS` distinct
            ones.
    """

    def __init__(self) -> None:
        self._groups: dict[bytes, _Group] = {}
        self.left_out = 0

    def add(self, pair: _Pair) -> None:
        """Count the differences of a pair."""
        for difference in pair.differences:
            text = json.dumps(_difference_as_json(difference))
            # A digest, because values may be large.
            key = hashlib.sha256(text.encode(errors="surrogatepass")).digest()
            group = self._groups.get(key)
            if group is None:
                if len(self._groups) == _MAX_GROUPS:
                    self.left_out += 1
                    continue
                group = self._groups[key] = _Group(difference, pair)
            group.count += 1

    def __iter__(self) -> Iterator[_Group]:
        return iter(sorted(self._groups.values(), key=lambda group: -group.count))


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
