"""The diagnostic tree as one HTML page without any other file: point at a byte, see its field."""

from __future__ import annotations

import base64
import hashlib
import itertools
from collections.abc import Iterator, Sequence
from functools import cache
from html import escape
from importlib import resources
from typing import Any

from amqp10msg.message import Message
from amqp10msg.notation._rows import Problem, Row, quoted, rows_of, tree_of
from amqp10msg.notation.tree import Node, Tree
from amqp10msg.primitives import FORMAT_CODES
from amqp10msg.sections import KINDS

__all__ = ["render_html"]

_PER_LINE = 16
_MAX_ROWS = 5_000
# Of a long value these many octets are shown from its beginning and its end.
_HEAD, _TAIL = 512, 64
_SECTIONS = {kind.name: f"s{kind.order}" for kind in KINDS}
_MARKS = {"error": "bad", "warning": "questionable"}


def render_html(
    data: Any,
    *,
    title: str = "AMQP message",
    labels: Sequence[str] = (),
    max_messages: int = 100,
    max_octets: int = 16_384,
) -> str:
    """Write messages as an HTML page with their octets beside the fields that they mean.

    Pointing at a byte lights its field and the other way round; a click or the arrow keys pin
    one, and the page's address then says which: ``page.html#byte-12``, or
    ``page.html#message-2-byte-12`` where there are several. The page is one file without any
    reference to another, and forbids itself to load one. Nothing that stands in a message can
    become part of the page's code.

    Args:
        data: one message or several: octets, `Message` objects or trees of `parse_tree`. Unless
            it is a tree already, what `validate` says is shown too.
        title: the page's title.
        labels: what to call the messages, in order; the others are called by their numbers.
        max_messages: how many to show; the page says how many it leaves out.
        max_octets: octets to show of each; of what is left out the page says how much it is.

    Raises:
        EncodeError: a `Message` cannot be encoded.
    """
    if isinstance(data, (Tree, Message, bytes, bytearray, memoryview)):
        data = [data]
        labels = labels or ["Message"]
    messages = iter(data)
    numbered = (f"Message {number}" for number in itertools.count(len(labels) + 1))
    shown = [
        _message(tree_of(message, _MAX_ROWS), name, number, max_octets)
        for number, (message, name) in enumerate(
            zip(
                itertools.islice(messages, max_messages),
                itertools.chain(labels, numbered),
                strict=False,
            ),
            1,
        )
    ]
    more = sum(1 for _ in messages)
    if more:
        shown.append(f'<p class="hint">… and {_count(more, "message")} more</p>')
    style, script = _asset("page.css"), _asset("page.js")
    policy = f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'"
    heading = escape(_line(title))
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{heading}</title>\n<style>{style}</style>\n</head>\n<body>\n"
        f"<h1>{heading}</h1>\n"
        '<p class="hint">Point at a byte to see its field, or at a field to see its bytes. '
        "Click to pin it; <kbd>←</kbd> <kbd>↑</kbd> <kbd>↓</kbd> <kbd>→</kbd> move, "
        "<kbd>Esc</kbd> lets go.</p>\n"
        f"<main>\n{''.join(shown)}</main>\n"
        '<div class="status" role="status"><span class="none">Nothing is pointed at.</span></div>\n'
        f"<script>{script}</script>\n</body>\n</html>\n"
    )


@cache
def _asset(name: str) -> str:
    folder = resources.files("amqp10msg.notation") / "data"
    return (folder / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"sha256-{base64.b64encode(digest).decode('ascii')}"


def _line(text: str) -> str:
    return text if text.isprintable() else quoted(text, 1000)[1:-1]


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _message(tree: Tree, name: str, number: int, max_octets: int) -> str:
    rows = list(itertools.islice(rows_of(tree, length=240), _MAX_ROWS))
    sections = _sections_of(rows)
    problems = [(row.offset, problem) for row in rows for problem in row.problems]
    problems += [
        (violation.offset, Problem(violation.severity, _line(violation.text), violation.clause))
        for violation in tree.violations
    ]
    problems.sort(key=lambda problem: problem[0])
    found = sum(node.name in _SECTIONS for node in tree.nodes)
    facts = [_count(len(tree.data), "octet"), _count(found, "section")]
    for severity in ("error", "warning"):
        found = sum(problem.severity == severity for _, problem in problems)
        if found:
            facts.append(f'<span class="{severity}">{_count(found, severity)}</span>')
    return (
        f'<article class="message" id="message-{number}">\n'
        f"<h2>{escape(_line(name))} <small>{' · '.join(facts)}</small></h2>\n"
        f"{_problem_list(problems, number, len(tree.data))}"
        '<div class="panes">\n'
        '<div class="octets" tabindex="0" role="group" aria-label="Octets in hex">'
        f"{''.join(_octets(tree.data, rows, sections, max_octets))}</div>\n"
        '<div class="tree" tabindex="0" role="group" aria-label="Fields"><table>\n'
        '<thead><tr><th scope="col">byte</th><th scope="col">field</th><th scope="col">type</th>'
        '<th scope="col">value</th></tr></thead>\n'
        f"<tbody>\n{''.join(map(_row, rows, sections))}</tbody></table>"
        f"{_cut_rows(tree, rows)}</div>\n</div>\n</article>\n"
    )


def _sections_of(rows: list[Row]) -> list[str]:
    """Give the class of the section that each row is in, which has its hue."""
    classes = []
    now = "s7"
    for row in rows:
        if row.level == 0:
            now = _SECTIONS.get(row.name, "s7")
        classes.append(now)
    return classes


def _cut_rows(tree: Tree, rows: list[Row]) -> str:
    if len(rows) < _MAX_ROWS:
        return ""
    left = len(tree.data) - rows[-1].stop
    return f'<p class="cut">… and more fields in {_count(left, "octet")}</p>' if left else ""


def _problem_list(problems: list[tuple[int, Problem]], number: int, length: int) -> str:
    if not problems:
        return ""
    items = []
    for offset, problem in problems[:100]:
        where = f"byte {offset}"
        if offset < length:
            where = f'<a href="#message-{number}-byte-{offset}">{where}</a>'
        items.append(f'<li class="{problem.severity}">{where}: {_problem_text(problem)}</li>\n')
    if len(problems) > 100:
        items.append(f"<li>… and {len(problems) - 100:,} more</li>\n")
    return f'<ul class="problems">\n{"".join(items)}</ul>\n'


def _problem_text(problem: Problem) -> str:
    clause = f' <span class="clause">{escape(problem.clause)}</span>' if problem.clause else ""
    return f"{escape(problem.text)}{clause}"


def _row(row: Row, section: str) -> str:
    group = "wrong" if row.group == "error" else row.group
    parts = escape("|".join(f"{at} {what}" for at, what in _parts(row)))
    indent = "\N{NO-BREAK SPACE}" * (2 * min(row.level, 40))
    made = (
        f'<tr class="l{min(row.level, 1)} {section}" data-a="{row.offset}" data-b="{row.stop}" '
        f'data-e="{row.end}" data-l="{row.level}" data-p="{parts}">'
        f'<td class="at">{row.offset}</td>'
        f'<td class="name">{indent}{escape(row.name or "·")}</td>'
        f'<td class="type">{escape(row.type)}</td>'
        f'<td class="value {group}">{escape(row.value)}</td></tr>\n'
    )
    for problem in row.problems:
        made += (
            f'<tr class="problem {problem.severity}"><td></td>'
            f'<td colspan="3"><span class="indent">{indent}</span>'
            f"{_problem_text(problem)}</td></tr>\n"
        )
    return made


def _parts(row: Row) -> Iterator[tuple[int, str]]:
    """Say what each part of a row's octets is, by where it begins in the row."""
    node: Node = row.node
    while node.type == "described" and node.content < row.stop:
        yield node.offset - row.offset, "described"
        if len(node.children) != 2 or node.children[0].end > row.stop:
            return
        yield node.content - row.offset, "descriptor"
        node = node.children[1]
    at = node.offset - row.offset
    if node.type in ("error", "elided", "described"):
        yield at, "" if node.type == "elided" else "not understood"
        return
    if node.code == 0:
        yield at, "constructor 0x00 described"
        return
    code = FORMAT_CODES.get(node.code) if node.code is not None else None
    if code is not None:
        yield at, f"constructor 0x{code.code:02X} {code.encoding or code.type}"
        at += 1
    if code is None or node.type == "constructor":
        return
    if code.category != "fixed":
        yield at, f"size, {8 * code.width} bits"
        at += code.width
    if code.category in ("compound", "array"):
        yield at, f"count, {8 * code.width} bits"
    elif node.end - row.offset > at:
        yield at, "content"


def _octets(data: bytes, rows: list[Row], sections: list[str], max_octets: int) -> Iterator[str]:
    """Give the lines of octets; the middle of long values is left out, and what is too much."""
    runs = [
        (row.offset, row.stop, _classes(row, section))
        for row, section in zip(rows, sections, strict=True)
        if row.stop > row.offset
    ]
    index = shown = hidden = 0
    for start in range(0, len(data), _PER_LINE):
        stop = min(start + _PER_LINE, len(data))
        while index < len(runs) and runs[index][1] <= start:
            index += 1
        if shown >= max_octets:
            yield f'<div class="cut">… {_count(len(data) - start + hidden, "octet")} more</div>'
            return
        if index < len(runs):
            begin, end, _ = runs[index]
            if start >= begin + _HEAD and stop <= end - _TAIL:
                hidden += stop - start
                continue
        if hidden:
            yield f'<div class="cut">… {_count(hidden, "octet")} …</div>'
            hidden = 0
        shown += stop - start
        pieces = []
        at = start
        for begin, end, classes in itertools.islice(runs, index, None):
            if begin >= stop:
                break
            pieces.append((at, min(end, stop), classes))
            at = min(end, stop)
        if at < stop:
            pieces.append((at, stop, "s7"))
        yield _octet_line(data, start, pieces)


def _classes(row: Row, section: str) -> str:
    group = "wrong" if row.group == "error" else row.group
    worst = min((problem.severity for problem in row.problems), default="")
    return " ".join(filter(None, (section, group, _MARKS.get(worst, ""))))


def _octet_line(data: bytes, start: int, pieces: list[tuple[int, int, str]]) -> str:
    hexes = []
    chars = []
    middle = start + _PER_LINE // 2
    for begin, end, classes in pieces:
        octets = ""
        for at in range(begin, end):
            octets += '<i class="gap"></i>' if at == middle else ""
            octets += f"<b>{data[at]:02x}</b>"
        hexes.append(f'<span class="{classes}">{octets}</span>')
        text = "".join(f"<b>{_char(data[at])}</b>" for at in range(begin, end))
        chars.append(f'<span class="{classes}">{text}</span>')
    missing = start + _PER_LINE - pieces[-1][1]
    fill = '<b class="none">  </b>' * missing
    if missing >= _PER_LINE // 2:
        fill += '<i class="gap"></i>'
    return (
        f'<div class="line" data-o="{start}"><span class="at">{start}</span>'
        f'<span class="hex">{"".join(hexes)}</span>{fill}'
        f'<span class="chars">{"".join(chars)}</span></div>'
    )


def _char(octet: int) -> str:
    return escape(chr(octet)) if 0x20 <= octet <= 0x7E else "·"
