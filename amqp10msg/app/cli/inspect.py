"""``amqp10msg inspect``: what every byte of a message means, even of a broken one."""

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
)
from amqp10msg.app.cli._output import (
    SEVERITY_COLORS,
    Sink,
    complain,
    is_terminal,
    json_text,
    safe,
    use_color,
)
from amqp10msg.wire.text import plural

if TYPE_CHECKING:
    from pathlib import Path

    from amqp10msg.app.cli._input import Inputs
    from amqp10msg.app.inspector.judging import Judged
    from amqp10msg.app.inspector.reading import Item

_VIEWS = {
    "json": "Write plain JSON, indented, instead.",
    "typed": "Write typed JSON, indented, instead: every value beside its type.",
    "svg": "Write a picture instead, of one message.",
    "html": "Write a page for a browser instead, bytes and fields side by side.",
}


# What render_html shows at most, unless told otherwise.
_MAX_PAGES = 100


def _view_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add a flag for each view; the command gets the one that is given as `view`."""

    @functools.wraps(command)
    def run(**others: Any) -> Any:
        chosen = [name for name in _VIEWS if others.pop(name)]
        if len(chosen) > 1:
            flags = " and ".join(f"--{name}" for name in chosen)
            raise click.UsageError(f"{flags} exclude each other: give one of them")
        return command(view=chosen[0] if chosen else None, **others)

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
@click.option("--value", "as_values", is_flag=True, help="Read values, not a message.")
@profile_option
@click.option(
    "--role",
    type=click.Choice(["sender", "receiver"]),
    help="The end of a link that sends the source or target, for the rules that depend on it.",
)
@number_option("--max-fields", 10_000, "About how many fields of one message to show.")
@output_option
@messages_argument("-f", "--format")
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

    SOURCES are files, directories, hex, base64, JSON, or - for standard input, which is also read
    if none are given; see validate for what files may hold. Hex may have spaces, colons
    and 0x in it, or be a dump of xxd or hexdump. Bytes are also read as the literals and lists
    that C, Erlang, Go, Java, JavaScript, Python and Rust print. FILE:LINE and FILE@OFFSET, the
    names that other commands print, are one message of a file.

    Each line has the offset, the bytes, the field, its type and encoding, and the value; the lines
    below a field say what is wrong with it, ! for a MUST and ? for a SHOULD. A broken message is
    shown as far as it can be read, and around what is broken. An outcome, a source or a target by
    itself is shown and checked in the same way. The performatives of AMQP 1.0 frames are shown
    before the messages that they transfer. The exit status is 1 if something cannot be read
    or breaks a MUST; unlike with encode and convert, the file of -o then still has all the
    others.
    """
    from amqp10msg.app.inspector.judging import Judged

    colored = use_color(color) and view is None
    is_shown = not output and is_terminal(sys.stdout)
    width = None
    if is_shown:
        from shutil import get_terminal_size

        width = get_terminal_size().columns
    pages: list[Judged] = []
    failed = False
    with Sink(output, color=colored) as sink:
        for number, (item, more) in enumerate(_with_more(inputs.some())):
            if item.frames and view is None:
                sink.write(_frames(item.frames, max_fields, colored, width))
            if item.fault:
                complain(f"{item.source}: {item.fault}")
                failed = True
                continue
            judged = Judged(item, profile, as_values=as_values, max_fields=max_fields, role=role)
            if view == "html":
                if len(pages) == _MAX_PAGES:
                    raise click.ClickException(f"a page can show {_MAX_PAGES} messages: pass fewer")
                pages.append(judged)
            elif view == "svg":
                if number or more:
                    raise click.ClickException("a picture shows one message: name it, or --select")
                sink.write(_svg(judged))
            elif view is not None:
                sink.write(_json(judged, view))
            else:
                if number or more:
                    title = safe(item.source)
                    title = click.style(title, bold=True) if colored else title
                    sink.write(("\n" if number else "") + title + "\n")
                sink.write(_text(judged, colored, width))
            if judged.fault:
                complain(f"{item.source}: {judged.fault}")
            failed = failed or judged.is_broken
        if pages:
            sink.write(_page(pages))
    return int(failed)


def _with_more(items: Iterable[Item]) -> Iterator[tuple[Item, bool]]:
    """Yield each item, and whether another one follows."""
    before: Item | None = None
    for item in items:
        if before is not None:
            yield before, True
        before = item
    if before is not None:
        yield before, False


# The views of one message or run of values.


def _text(judged: Judged, colored: bool, width: int | None) -> str:
    """Return the annotated tree and, in a last line, the verdict."""
    from amqp10msg.notation import render_text

    text = render_text(judged.tree(), color=colored, width=width)
    return f"{text}\n{_verdict(judged, colored)}\n"


def _frames(octets: bytes, max_fields: int, colored: bool, width: int | None) -> str:
    """Return the annotated performative of each frame of AMQP 1.0; empty for other protocols.

    Args:
        octets: whole frames, one after the other.
        max_fields: about how many fields of one performative to show.
        colored: whether to use colors.
        width: the width of the terminal, in characters.
    """
    from amqp10msg.net.transport.frames import HEAD  # declares the performatives by name
    from amqp10msg.notation import parse_tree, render_text
    from amqp10msg.wire.errors import DecodeError
    from amqp10msg.wire.kernel import skip_value

    text = ""
    start = 0
    while len(octets) - start >= HEAD.size:
        size, words, kind, channel = HEAD.unpack_from(octets, start)
        if not HEAD.size <= 4 * words <= size <= len(octets) - start or kind > 1:
            return text  # frames of AMQP 0-9-1, or a packet
        body = octets[start + 4 * words : start + size]
        try:
            performative = body[: skip_value(body)] if body else b""
        except DecodeError:
            performative = body  # the tree shows what is wrong with it
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
    """Return one line: the size, and the rules that are broken."""
    size = plural(len(judged.item.data), "byte")
    if judged.what:
        size = f"{size}: {judged.what}"
    elif judged.fault:
        return f"{size}, not all of it can be read"
    elif not judged.is_message:
        return f"{size}, {plural(len(judged.decoded), 'value')}"
    parts = []
    for severity, color in SEVERITY_COLORS.items():
        found = [violation for violation in judged.violations if violation.severity == severity]
        if found:
            text = plural(len(found), severity)
            names = ", ".join(dict.fromkeys(violation.rule for violation in found))
            parts.append(f"{click.style(text, fg=color) if colored else text} ({names})")
    return f"{size}; {', '.join(parts) or 'no violations'}"


def _svg(judged: Judged) -> str:
    from amqp10msg.notation import render_svg

    return render_svg(judged.tree(), title=safe(judged.item.source))


def _json(judged: Judged, view: str) -> str:
    from amqp10msg import notation

    write = notation.to_plain if view == "json" else notation.to_typed
    return "".join(json_text(write(value), indent=2) + "\n" for value in judged.decoded)


def _page(pages: list[Judged]) -> str:
    """Return the HTML page of messages."""
    from amqp10msg.notation import render_html

    sources = [safe(judged.item.source) for judged in pages]
    title = sources[0] if len(pages) == 1 else plural(len(pages), "message")
    return render_html([judged.tree() for judged in pages], title=title, labels=sources)
