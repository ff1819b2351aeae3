"""``amqp10msg compare``: the differences between messages, field by field."""

from __future__ import annotations

import hashlib
import json
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

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
_VERDICT_TEXTS = {
    "equal": "equal",
    "other_bytes": "equal with other bytes",
    "different": "different",
    "missing_from_a": "missing from A",
    "missing_from_b": "missing from B",
    "duplicate": "duplicate",
    "unreadable": "not readable",
}
#: The sections outside of the bare message (Part 3, 3.2), as the paths of differences name them.
_PATHS_OUTSIDE_BARE_MESSAGE = frozenset(
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
  amqp10msg compare --by position --bare messages.jsonl recorded.jsonl.gz
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
    type=click.Choice(["auto", "message-id", "position"]),
    default="auto",
    show_default=True,
    help="How to match messages: by message-id; by their position in A and B; or auto: by "
    "message-id, and those without one by their bytes, then by position. Only position does not "
    "keep all messages in memory.",
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
    FILE@OFFSET select one message of a file. If they contain several messages, those with equal
    message-ids are compared. Messages without an id are matched by equal bytes, then by equal
    content, and the rest in their order. The last lines count how many were matched in which way.
    A message that only A or B has is missing from the other; if its own file has the same id, or
    without an id the same content, before, it is a duplicate.

    The command prints each field, entry or item that only one message has, or that differs in value
    or AMQP type. Messages with equal content may still have different bytes, because AMQP has
    several encodings for a value: the command prints the offset of the first different byte.

    The exit status is 0 if all messages have equal content, and 1 if one differs, is missing or a
    duplicate, or cannot be read.
    """
    from amqp10msg.app.cli._input import Inputs

    if first == second == "-":
        raise click.UsageError("A and B cannot both be standard input")
    counts = dict.fromkeys(_VERDICT_TEXTS, 0)
    matched = dict.fromkeys(_MATCHING_METHODS, 0)
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
    with Inputs((first,), form) as old, Inputs((second,), form) as new:
        for match in _match_messages(old.messages(), new.messages(), pairing, is_bare=is_bare):
            sizes["A"] += match.before is not None
            sizes["B"] += match.after is not None
            if match.way:
                matched[match.way] += 1
            pair = _Pair(match, is_bare=is_bare)
            counts[pair.verdict] += 1
            if is_grouped and not pair.fault:
                groups.add(pair)
            else:
                show(pair.as_json, pair.lines())
    for group in groups:
        show(group.as_json, group.lines())
    total = sum(counts.values())
    if as_json:
        summary = {"pairs": total, **counts, "messages": sizes, "matched": matched}
        if groups.left_out:
            summary["differences_left_out"] = groups.left_out
        click.echo(json.dumps({"summary": summary}))
    else:
        if groups.left_out:
            text = plural(groups.left_out, "other difference")
            click.echo(f"{text} left out: compare without --group to see them")
        parts = [f"{count:,} {_VERDICT_TEXTS[name]}" for name, count in counts.items() if count]
        click.echo(f"{plural(total, 'pair')} of messages: {', '.join(parts)}")
        if max(sizes.values()) > 1:
            ways = [f"{count:,} by {way}" for way, count in matched.items() if count]
            click.echo(f"matched: {', '.join(ways) or 'none'}")
        if sizes["A"] != sizes["B"]:
            click.echo(f"A has {plural(sizes['A'], 'message')}, B has {sizes['B']:,}")
    equal = counts["equal"] + (0 if is_exact else counts["other_bytes"])
    return int(equal < total)


#: How messages can be matched, in the order in which --by auto tries them.
_MATCHING_METHODS = ("message-id", "bytes", "content", "position")


@attrs.frozen
class _Match:
    """A message of A and the message of B to compare it with; one of them may be missing.

    Attributes:
        before: the message of A.
        after: the message of B.
        way: one of `_MATCHING_METHODS`; empty if one message is missing.
        original: if one message is missing: the source of an earlier message in the same file that
            the other one repeats; empty if there is none.
    """

    before: Item | None
    after: Item | None
    way: str = ""
    original: str = ""


class _Candidate:
    """A message that is to be matched.

    Attributes:
        item: the message.
        message_id: its id with the type; None without an id.
        has_no_id: whether it can be decoded and has no id.
        exact: a digest of its bytes, or of those of the bare message.
        content: a digest of its content, which does not depend on the encoding.
        partner: the matched message of the other file.
        way: how it was matched, one of `_MATCHING_METHODS`; empty if it was not.
        original: as in `_Match`.
    """

    def __init__(self, item: Item, *, is_bare: bool) -> None:
        self.item = item
        self.partner: _Candidate | None = None
        self.way = self.original = ""
        self.message_id: object = None
        octets = item.data
        try:
            message = _decode(item)
            octets = message.bare if is_bare else octets
            if message.message_id is not None:
                self.message_id = (type(message.message_id), message.message_id)
            is_readable = True
        except _UnreadableError:
            is_readable = False
        self.has_no_id = is_readable and self.message_id is None
        self.exact = self.content = hashlib.sha256(octets).digest()
        if self.has_no_id:
            self.content = _content_digest(octets) or self.exact

    @property
    def identity(self) -> object:
        """What a duplicate of the message has in common with it."""
        return self.content if self.message_id is None else self.message_id


def _content_digest(octets: bytes) -> bytes | None:
    """Return a digest of a message in typed JSON; None if it cannot be written in typed JSON."""
    from amqp10msg import notation
    from amqp10msg.files.recognition import decode_whole

    try:
        text = json.dumps(notation.to_typed(decode_whole(octets)))
    except (AmqpError, ValueError):
        return None
    return hashlib.sha256(text.encode(errors="surrogatepass")).digest()


def _match_messages(
    old: Iterable[Item], new: Iterable[Item], pairing: str, *, is_bare: bool
) -> Iterator[_Match]:
    """Yield the messages of A with their counterparts, in the order of A; then the rest of B.

    Args:
        old: the messages of A.
        new: the messages of B.
        pairing: a value of --by.
        is_bare: whether only the bare messages are compared.
    """
    if pairing == "position":
        for before, after in zip_longest(old, new):
            is_pair = before is not None and after is not None
            yield _Match(before, after, "position" if is_pair else "")
        return
    first, second = ([_Candidate(item, is_bare=is_bare) for item in items] for items in (old, new))
    if pairing == "auto" and len(first) == len(second) == 1:
        yield _Match(first[0].item, second[0].item, "position")
        return
    # Of several messages with the same id, those with equal bytes are matched first.
    for key_of, way in _MATCHING_KEYS:
        if pairing == "auto" or way == "message-id":
            _match_equal(first, second, key_of, way)
    for side in (first, second):
        _find_duplicates(side, has_content=pairing == "auto")
    _match_in_order(first, second)
    for candidate in first:
        partner = candidate.partner
        after = None if partner is None else partner.item
        yield _Match(candidate.item, after, candidate.way, candidate.original)
    for candidate in second:
        if candidate.partner is None:
            yield _Match(None, candidate.item, original=candidate.original)


#: The ways to match messages, in this order: messages of A and B with the same key are matched,
#: unless the key is None. A message with an id is matched by its id only, and a message that cannot
#: be read by nothing.
_MATCHING_KEYS: tuple[tuple[Callable[[_Candidate], object], str], ...] = (
    (lambda one: None if one.message_id is None else (one.message_id, one.exact), "message-id"),
    (lambda one: one.message_id, "message-id"),
    (lambda one: one.exact if one.has_no_id else None, "bytes"),
    (lambda one: one.content if one.has_no_id else None, "content"),
)


def _match_equal(
    first: list[_Candidate],
    second: list[_Candidate],
    key_of: Callable[[_Candidate], object],
    way: str,
) -> None:
    """Match the unmatched messages with equal keys, in their order."""
    waiting: dict[object, deque[_Candidate]] = {}
    for candidate in second:
        if candidate.partner is None and (key := key_of(candidate)) is not None:
            waiting.setdefault(key, deque()).append(candidate)
    for candidate in first:
        key = key_of(candidate)
        if candidate.partner is None and key is not None and waiting.get(key):
            _join(candidate, waiting[key].popleft(), way)


def _find_duplicates(side: list[_Candidate], *, has_content: bool) -> None:
    """Set `original` of the unmatched messages that repeat another message of the same file.

    Without `has_content`, only messages with an id are duplicates.
    """
    originals: dict[object, _Candidate] = {}
    # A matched message is the original, even if the duplicate is before it in the file.
    for candidate in sorted(side, key=lambda one: one.partner is None):
        if candidate.message_id is None and not has_content:
            continue
        original = originals.setdefault(candidate.identity, candidate)
        if candidate.partner is None and original is not candidate:
            candidate.original = original.item.source


def _match_in_order(first: list[_Candidate], second: list[_Candidate]) -> None:
    """Match the remaining readable messages that have no id and are no duplicates, in order."""
    remaining = (
        [
            candidate
            for candidate in side
            if candidate.partner is None and candidate.has_no_id and not candidate.original
        ]
        for side in (first, second)
    )
    for one, other in zip(*remaining, strict=False):
        _join(one, other, "position")


def _join(one: _Candidate, other: _Candidate, way: str) -> None:
    """Make two messages counterparts of each other."""
    one.partner, other.partner = other, one
    one.way = other.way = way


class _Pair:
    """Two messages to compare, of which one may be missing or unreadable.

    Attributes:
        verdict: a key of `_VERDICT_TEXTS`.
        fault: why the messages cannot be compared; empty if they can.
        differences: the differences in content.
    """

    def __init__(self, match: _Match, *, is_bare: bool = False) -> None:
        before, after = match.before, match.after
        self._way = match.way
        self._sources = [item.source for item in (before, after) if item is not None]
        self.fault = ""
        self._offset: int | None = None
        self._is_bare = is_bare
        self.differences: list[Difference] = []
        self.verdict = "different"
        if before is None or after is None:
            self._describe_single(match)
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
            if not (
                is_bare and re.split(r"[.\[]", difference.path)[0] in _PATHS_OUTSIDE_BARE_MESSAGE
            )
        ]
        if self.differences:
            self.verdict = "different"
            return
        encoded = [item.bare for item in messages] if is_bare else [before.data, after.data]
        if encoded[0] != encoded[1]:
            self._offset = _first_difference(*encoded)
        self.verdict = "equal" if self._offset is None else "other_bytes"

    def _describe_single(self, match: _Match) -> None:
        """Set the verdict and the fault for a message without a counterpart."""
        missing = "A" if match.before is None else "B"
        self.verdict, self.fault = f"missing_from_{missing.lower()}", f"missing from {missing}"
        if match.original:
            self.verdict, self.fault = "duplicate", f"duplicate of {match.original}"
        alone = match.before or match.after
        try:
            if alone is not None:
                _decode(alone)
        except _UnreadableError as error:
            reason = str(error).removeprefix(f"{alone.source}: ") if alone is not None else ""
            self.verdict, self.fault = "unreadable", f"{self.fault}, and {reason}"

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
        if self._way:
            record["matched_by"] = self._way
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
