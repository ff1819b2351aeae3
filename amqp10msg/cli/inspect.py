"""``amqp10msg inspect``: what every byte of a message means, even of a broken one."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import click

from amqp10msg import delivery, notation
from amqp10msg.cli._forms import is_message, read
from amqp10msg.cli._input import Inputs, Item, complain, messages_argument
from amqp10msg.cli._output import (
    SEVERITY_COLORS,
    Sink,
    color_option,
    is_terminal,
    output_option,
    plural,
    profile_option,
    safe,
    use_color,
)
from amqp10msg.composite import composite_of
from amqp10msg.errors import AmqpError, DecodeError
from amqp10msg.validation import Violation, validate

# What a composite is, by the first of these archetypes that it provides.
_KINDS = {
    "outcome": "an outcome",
    "delivery-state": "a delivery state",
    "lifetime-policy": "a lifetime policy",
}
# Errors of bytes that are something else, which is not judged here.
_OTHERS = frozenset(("not-a-composite", "unknown-composite", "not-a-delivery-state"))
_VIEWS = {
    "json": "Write plain JSON, indented, instead.",
    "typed": "Write typed JSON, indented, instead: every value beside its type.",
    "html": "Write a page for a browser instead, bytes and fields side by side.",
}


# What render_html shows at most, unless told otherwise.
_MAX_PAGES = 100


@click.command(
    epilog="""
\b
Examples:
  amqp10msg inspect message.bin
  amqp10msg inspect 00 53 70 45 00 53 77 a1 05 68 65 6c 6c 6f
  amqp10msg inspect --color recorded.jsonl.gz | less -R
  amqp10msg inspect --json AFN3oQJoaQ== | jq .amqp_value
  amqp10msg inspect --value 71 00 00 00 2a a1 02 68 69
  amqp10msg inspect --role receiver 00 53 28 c0 06 05 40 40 40 40 41
"""
)
@click.option("--json", "view", flag_value="json", help=_VIEWS["json"])
@click.option("--typed", "view", flag_value="typed", help=_VIEWS["typed"])
@click.option("--html", "view", flag_value="html", help=_VIEWS["html"])
@click.option("--value", "as_values", is_flag=True, help="Read values, not a message.")
@profile_option
@click.option(
    "--role",
    type=click.Choice(["sender", "receiver"]),
    help="The end of a link that sends the source or target, for the rules that depend on it.",
)
@click.option(
    "--max-fields",
    type=click.IntRange(min=1),
    default=10_000,
    show_default=True,
    metavar="NUMBER",
    help="About how many fields of one message to show.",
)
@output_option
@messages_argument
@color_option
def inspect(
    inputs: Inputs,
    view: str | None,
    as_values: bool,
    profile: str,
    role: str | None,
    max_fields: int,
    output: Path | None,
    color: bool | None,
) -> int:
    """Show what every byte of a message means.

    SOURCES are files, directories, hex, base64, JSON, or - for standard input, which is also
    read where none are given; see validate for what files may hold. Hex may have spaces, colons
    and 0x in it, or be a dump of xxd or hexdump.

    Each line has the offset, the bytes, the field, its type and encoding, and the value; the lines
    below a field say what is wrong with it, ! for a MUST and ? for a SHOULD. A broken message is
    shown as far as it can be read and around what is broken. An outcome, a source or a target by
    itself is shown and judged likewise. The exit status is 1 where something cannot be read or
    breaks a MUST.
    """
    colored = use_color(color) and view is None
    is_shown = not output and is_terminal(sys.stdout)
    width = shutil.get_terminal_size().columns if is_shown else None
    pages: list[_Shown] = []
    failed = False
    with Sink(output, color=colored) as sink:
        for number, (item, more) in enumerate(_with_more(inputs.some())):
            if item.fault:
                complain(item, item.fault)
                failed = True
                continue
            shown = _Shown(item, profile, as_values, max_fields, role)
            if view == "html":
                if len(pages) == _MAX_PAGES:
                    raise click.ClickException(f"a page can show {_MAX_PAGES} messages: pass fewer")
                pages.append(shown)
            elif view is not None:
                sink.write(shown.json(view))
            else:
                if number or more:
                    sink.write(shown.title(first=not number, colored=colored))
                sink.write(shown.text(colored, width))
            if shown.fault:
                complain(item, shown.fault)
            failed = failed or shown.is_broken
        if pages:
            sink.write(_page(pages))
    return int(failed)


def _page(pages: list[_Shown]) -> str:
    sources = [safe(shown.item.source) for shown in pages]
    title = sources[0] if len(pages) == 1 else plural(len(pages), "message")
    return notation.render_html([shown.tree() for shown in pages], title=title, labels=sources)


def _with_more(items: Iterable[Item]) -> Iterator[tuple[Item, bool]]:
    """Yield each item, and whether another one follows."""
    before: Item | None = None
    for item in items:
        if before is not None:
            yield before, True
        before = item
    if before is not None:
        yield before, False


class _Shown:
    """One message or run of values, and its views.

    Attributes:
        fault: why it does not parse; empty where it does.
        what: the delivery state or terminus that it is; empty where it is something else.
    """

    def __init__(
        self, item: Item, profile: str, as_values: bool, max_fields: int, role: str | None
    ) -> None:
        self.item = item
        self.max_fields = max_fields
        self.is_message = not as_values and is_message(item.data)
        self.violations = validate(item.data, profile) if self.is_message else []
        self.decoded: list[Any] = []
        self.fault = ""
        try:
            self.decoded = read(item.data, as_values=not self.is_message)
        except AmqpError as error:
            self.fault = str(error)
        self.what = ""
        if len(self.decoded) == 1 and not self.is_message and not as_values and not self.fault:
            self.what, self.violations = _judge_state(item.data, role)

    @property
    def is_broken(self) -> bool:
        """Whether it does not parse, or has a violation that is an error."""
        return bool(self.fault) or any(found.severity == "error" for found in self.violations)

    def title(self, *, first: bool, colored: bool) -> str:
        """Return the heading of a message, where there are several."""
        title = safe(self.item.source)
        return (
            ("" if first else "\n") + (click.style(title, bold=True) if colored else title) + "\n"
        )

    def tree(self) -> notation.Tree:
        return notation.parse_tree(
            self.item.data, violations=self.violations, limit=self.max_fields
        )

    def text(self, colored: bool, width: int | None) -> str:
        """Return the annotated tree and, in a last line, the verdict."""
        text = notation.render_text(self.tree(), color=colored, width=width)
        return f"{text}\n{self.verdict(colored)}\n"

    def verdict(self, colored: bool) -> str:
        """Return one line: the size, and the rules that are broken."""
        size = plural(len(self.item.data), "byte")
        if self.what:
            size = f"{size}: {self.what}"
        elif self.fault or not self.is_message:
            what = "not all of it can be read" if self.fault else plural(len(self.decoded), "value")
            return f"{size}, {what}"
        parts = []
        for severity, color in SEVERITY_COLORS.items():
            found = [violation for violation in self.violations if violation.severity == severity]
            if found:
                text = plural(len(found), severity)
                names = ", ".join(dict.fromkeys(violation.rule for violation in found))
                parts.append(f"{click.style(text, fg=color) if colored else text} ({names})")
        return f"{size}; {', '.join(parts) or 'no violations'}"

    def json(self, view: str) -> str:
        write = notation.to_plain if view == "json" else notation.to_typed
        return "".join(
            json.dumps(write(value), indent=2, ensure_ascii=False) + "\n" for value in self.decoded
        )


def _judge_state(data: bytes, role: str | None) -> tuple[str, list[Violation]]:
    """Return what a delivery state, terminus or part of one is, and the rules that it breaks.

    Args:
        data: one encoded value; nothing is said of one that is something else.
        role: the end of the link that sends a source or target, or None where that is not known.
    """
    try:
        state = delivery.decode(data)
    except DecodeError as error:
        if error.rule in _OTHERS:
            return "", []
        # The declaration of a composite is what Part 1, 1.4 is about.
        fault = Violation(
            error.rule, "Part 1, 1.4", "error", error.path, error.offset, error.reason
        )
        return error.path.partition(".")[0] or "a composite", [fault]
    violations: list[Violation] = []
    if isinstance(state, delivery.Source):
        violations = delivery.check_source(data, role=role)
    elif isinstance(state, (delivery.Target, delivery.Coordinator)):
        violations = delivery.check_target(data, role=role)
    entry = composite_of(type(state))
    kinds = [kind for name, kind in _KINDS.items() if name in entry.provides]
    return ", ".join([entry.name, *kinds[:1]]), violations
