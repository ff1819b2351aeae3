"""``amqp10msg inspect``: show the meaning of every byte of a message, even a broken one."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import click

from amqp10msg.app.cli._options import (
    color_option,
    messages_argument,
    number_option,
    output_option,
    profile_option,
    profile_with,
    rules_option,
)
from amqp10msg.app.cli._output import (
    SEVERITY_COLORS,
    Sink,
    is_terminal,
    json_text,
    other_protocol_note,
    print_error,
    safe,
    use_color,
)
from amqp10msg.wire.text import plural

if TYPE_CHECKING:
    from pathlib import Path

    from amqp10msg.app.cli._input import Inputs
    from amqp10msg.app.inspector.judging import Judged
    from amqp10msg.app.inspector.reading import Item

# The flags that select another view than the annotated tree, with their help.
_VIEWS = {
    "json": "Write indented plain JSON instead.",
    "typed": "Write indented typed JSON instead, with the type of every value.",
    "svg": "Write an SVG picture of one message instead.",
    "html": "Write an HTML page instead, with bytes and fields side by side.",
}


# The maximum number of messages on a page of --html, as in `notation.render_html`.
_MAX_PAGE_MESSAGES = 100


def _view_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add a flag for each view. The command gets the name of the view, or None, as `view`."""

    @functools.wraps(command)
    def run(**values: Any) -> Any:
        chosen = [name for name in _VIEWS if values.pop(name)]
        if len(chosen) > 1:
            flags = " and ".join(f"--{name}" for name in chosen)
            raise click.UsageError(f"{flags} cannot be combined")
        return command(view=chosen[0] if chosen else None, **values)

    for name, text in reversed(_VIEWS.items()):
        run = click.option(f"--{name}", name, is_flag=True, help=text)(run)
    return run


@click.command(
    epilog="""
\b
Examples:
  amqp10msg inspect message.bin
  amqp10msg inspect 00 53 70 45 00 53 77 a1 05 68 65 6c 6c 6f
  amqp10msg inspect messages.jsonl:1
  amqp10msg inspect --color --select 3,17-20 recorded.jsonl.gz | less -R
  amqp10msg inspect --json AFN3oQJoaQ== | jq .amqp_value
  amqp10msg inspect --value 71 00 00 00 2a a1 02 68 69
  amqp10msg inspect --role receiver 00 53 28 c0 06 05 40 40 40 40 41
"""
)
@_view_options
@click.option(
    "--value", "as_values", is_flag=True, help="Read the input as AMQP values, not as a message."
)
@profile_option
@rules_option
@click.option(
    "--role",
    type=click.Choice(["sender", "receiver"]),
    help="For a source or target: the role of the end that sends it, on which some rules depend.",
)
@number_option("--max-fields", 10_000, "Show about this many fields of each message.")
@output_option
@messages_argument("-f", "--format")
@color_option
def inspect(
    inputs: Inputs,
    view: str | None,
    as_values: bool,
    profile: str,
    rules: Path | None,
    role: str | None,
    max_fields: int,
    output: Path | None,
    color: bool | None,
) -> int:
    """Show what every byte of a message means.

    SOURCES are files, directories, hex, base64 or JSON, or - for standard input, which is the
    default; see validate for the formats of files. Hex may contain spaces, colons and 0x, or be a
    dump of xxd or hexdump. Byte literals and lists as printed by C, Erlang, Go, Java, JavaScript,
    Python and Rust are accepted too. FILE:LINE and FILE@OFFSET, as printed by other commands,
    select one message of a file.

    Each line shows an offset, the bytes, the field, its type and encoding, and its value. Lines
    below a field describe violations: ! marks a violated MUST, ? a violated SHOULD. A broken
    message is shown as far as it can be read, with the fault marked. A single outcome, source or
    target is shown and checked in the same way. Performatives of AMQP 1.0 frames are shown before
    the messages that they transfer. The last line after several messages has their number and
    size. The exit status is 1 if an input cannot be read or violates a MUST; -o still writes all
    other messages, unlike with encode and convert. Messages of AMQP 0-9-1 in a capture are counted,
    but not shown; without any other message, the exit status is 1, too.
    """
    from amqp10msg.app.inspector.judging import Judged

    colored = use_color(color) and view is None
    is_shown = not output and is_terminal(sys.stdout)
    width = None
    if is_shown:
        from shutil import get_terminal_size

        width = get_terminal_size().columns
    checked = profile_with(profile, rules)
    pages: list[Judged] = []
    failed = False
    total = invalid = octets = unread = other_protocol = damaged = 0
    with Sink(output, color=colored) as sink:
        for number, (item, has_next) in enumerate(_with_lookahead(inputs.messages())):
            if item.frames and view is None:
                sink.write(_render_frames(item.frames, max_fields, colored, width))
            if item.is_other_protocol:
                other_protocol += 1
                continue
            if item.fault:
                print_error(f"{item.source}: {item.fault}")
                failed = True
                unread += 1
                damaged += item.is_damage
                continue
            judged = Judged(item, checked, as_values=as_values, max_fields=max_fields, role=role)
            if view == "html":
                if len(pages) == _MAX_PAGE_MESSAGES:
                    raise click.ClickException(
                        f"--html shows at most {_MAX_PAGE_MESSAGES} messages: select fewer with "
                        "--select"
                    )
                pages.append(judged)
            elif view == "svg":
                if number or has_next:
                    raise click.ClickException(
                        "--svg shows a single message: select one with --select"
                    )
                sink.write(_render_svg(judged))
            elif view is not None:
                sink.write(_render_json(judged, view))
            else:
                if number or has_next:
                    title = safe(item.source)
                    title = click.style(title, bold=True) if colored else title
                    sink.write(("\n" if number else "") + title + "\n")
                sink.write(_render_tree(judged, colored, width))
            if judged.fault:
                print_error(f"{item.source}: {judged.fault}")
            failed = failed or judged.is_broken
            total += 1
            octets += len(item.data)
            invalid += judged.is_broken
        if view is None and total + unread > 1:
            rest = f"; {plural(unread, 'input')} could not be read" if unread else ""
            sink.write(f"\n{plural(total, 'message')}, {plural(octets, 'byte')}{rest}\n")
        if pages:
            sink.write(_render_page(pages))
    if damaged:
        print_error(f"{plural(damaged, 'damaged place')}, where messages may be missing")
    if other_protocol:
        print_error(other_protocol_note(other_protocol, "shown"))
        failed = failed or not total
    if invalid and output is not None:
        print_error(
            f"exit status 1: {invalid:,} of {plural(total, 'message')} cannot be read or violate a "
            "MUST"
        )
    return int(failed)


def _with_lookahead(items: Iterable[Item]) -> Iterator[tuple[Item, bool]]:
    """Yield pairs of an item and whether another item follows."""
    previous: Item | None = None
    for item in items:
        if previous is not None:
            yield previous, True
        previous = item
    if previous is not None:
        yield previous, False


# The views of one item: a message, or a sequence of values.


def _render_tree(judged: Judged, colored: bool, width: int | None) -> str:
    """Return the annotated tree of an item, and the line of `_verdict`."""
    from amqp10msg.notation import render_text

    text = render_text(judged.tree(), color=colored, width=width)
    return f"{text}\n{_verdict(judged, colored)}\n"


def _render_frames(octets: bytes, max_fields: int, colored: bool, width: int | None) -> str:
    """Return the annotated performatives of AMQP 1.0 frames; an empty string for other protocols.

    Args:
        octets: consecutive complete frames.
        max_fields: the approximate maximum number of fields to show per performative.
        colored: whether to use colours.
        width: the width of the terminal, in characters; None without a terminal.
    """
    # This import also registers the performatives, so that the trees contain their names.
    from amqp10msg.net.transport.frames import HEAD
    from amqp10msg.notation import parse_tree, render_text
    from amqp10msg.wire.errors import DecodeError
    from amqp10msg.wire.kernel import skip_value

    text = ""
    start = 0
    while len(octets) - start >= HEAD.size:
        size, words, kind, channel = HEAD.unpack_from(octets, start)
        if not HEAD.size <= 4 * words <= size <= len(octets) - start or kind > 1:
            return text  # not an AMQP 1.0 frame, but an AMQP 0-9-1 frame or a network packet
        body = octets[start + 4 * words : start + size]
        try:
            performative = body[: skip_value(body)] if body else b""
        except DecodeError:
            performative = body  # the tree marks the error
        title = f"frame at byte {start:,}: {plural(size, 'byte')}, channel {channel}"
        text += f"{click.style(title, bold=True) if colored else title}\n"
        if performative:
            tree = parse_tree(performative, limit=max_fields)
            text += f"{render_text(tree, color=colored, width=width)}\n"
        payload = len(body) - len(performative)
        text += f"then {plural(payload, 'byte')} of payload\n\n" if payload else "\n"
        start += size
    return text


def _verdict(judged: Judged, colored: bool) -> str:
    """Return a line with the size of an item and the rules that it violates."""
    size = plural(len(judged.item.data), "byte")
    if judged.summary:
        size = f"{size}: {judged.summary}"
    elif judged.fault:
        return f"{size}, partly unreadable"
    elif not judged.is_message:
        return f"{size}, {plural(len(judged.decoded), 'value')}"
    parts = []
    for severity, color in SEVERITY_COLORS.items():
        violations = [v for v in judged.violations if v.severity == severity]
        if violations:
            text = plural(len(violations), severity)
            names = ", ".join(dict.fromkeys(violation.rule for violation in violations))
            parts.append(f"{click.style(text, fg=color) if colored else text} ({names})")
    return f"{size}; {', '.join(parts) or 'no violations'}"


def _render_svg(judged: Judged) -> str:
    from amqp10msg.notation import render_svg

    return render_svg(judged.tree(), title=safe(judged.item.source))


def _render_json(judged: Judged, view: str) -> str:
    from amqp10msg import notation

    write = notation.to_plain if view == "json" else notation.to_typed
    return "".join(json_text(write(value), indent=2) + "\n" for value in judged.decoded)


def _page_title(judged: Judged) -> str:
    """Return the title of the page of one item: its kind, its sections, and its file if any."""
    from amqp10msg.app.cli._input import ARGUMENT, ARGUMENTS, STANDARD_INPUT

    if judged.is_message:
        sections = dict.fromkeys(safe(node.name) for node in judged.tree().nodes)
        title = f"AMQP message: {', '.join(filter(None, sections))}" if sections else "AMQP message"
    else:
        title = f"AMQP: {judged.summary}" if judged.summary else "AMQP values"
    source = judged.item.source
    is_file = source not in (STANDARD_INPUT, ARGUMENT, ARGUMENTS)
    return f"{title} ({safe(source)})" if is_file else title


def _render_page(pages: list[Judged]) -> str:
    """Return the HTML page that shows the trees of several items."""
    from amqp10msg.notation import render_html

    sources = [safe(judged.item.source) for judged in pages]
    title = _page_title(pages[0]) if len(pages) == 1 else plural(len(pages), "message")
    return render_html([judged.tree() for judged in pages], title=title, labels=sources)
