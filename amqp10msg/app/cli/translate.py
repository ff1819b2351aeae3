"""``amqp10msg translate`` and ``diff-profiles``: messages of AMQP 0-9-1 as 1.0 messages, and back.

A message of 0-9-1 is the payload of its content header frame with the body after it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import click

from amqp10msg.app.cli._options import (
    LateChoice,
    color_option,
    messages_argument,
    output_option,
    target_option,
    translations,
)
from amqp10msg.app.cli._output import (
    Sink,
    complain,
    console,
    json_text,
    safe,
    table,
    use_color,
    without_name,
)
from amqp10msg.wire.text import plural

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from amqp10msg.app.cli._input import Inputs
    from amqp10msg.app.inspector.reading import Item
    from amqp10msg.basic import BasicMessage
    from amqp10msg.message import Message
    from amqp10msg.translate import Loss

# Columns of a terminal that have room for a reason beside the rest.
_WIDE = 120
# Of a narrower one, those that a path gets before it is broken.
_PATH = 36
#: What a value shows of itself in a comparison: four lines, or so, on a terminal.
_LINES = 160
_ACTIONS = {"carried": "green", "renamed": "yellow", "retyped": "yellow"}


def _circumstances_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add what a translation depends on besides the message."""
    for option in (
        click.option(
            "--user",
            default="guest",
            show_default=True,
            help="The user that the broker knows as sender.",
        ),
        click.option("--routing-key", default="", help="The routing key of 0-9-1 messages."),
        click.option("--exchange", default="", help="The exchange of 0-9-1 messages."),
    ):
        command = option(command)
    return command


@click.command(
    short_help="Translate between AMQP 0-9-1 and 1.0, and say what is lost.",
    epilog="""
\b
Examples:
  amqp10msg translate --to 1.0 header-and-body.bin
  amqp10msg translate --to 0-9-1 message.bin -o translated.jsonl
  amqp10msg translate --to 1.0 --json header-and-body.bin | jq .losses
""",
)
@target_option
@click.option(
    "--profile",
    type=LateChoice(translations),
    metavar="PROFILE",
    show_default="lossless",
    help="Exactly reversible (lossless), or as a broker does it: the reference names all.",
)
@click.option("--strict", is_flag=True, help="Refuse messages that lose something for good.")
@click.option("--each", is_flag=True, help="Show each of many messages, not the total alone.")
@_circumstances_options
@click.option(
    "--json", "as_json", is_flag=True, help="Write one JSON object per line, including the losses."
)
@output_option
@messages_argument("-f", "--format", basic=True)
@color_option
def translate(
    inputs: Inputs,
    target: str,
    profile: str | None,
    strict: bool,
    each: bool,
    exchange: str,
    routing_key: str,
    user: str,
    as_json: bool,
    output: Path | None,
    color: bool | None,
) -> int:
    """Translate messages between AMQP 0-9-1 and 1.0, and say what is lost.

    SOURCES are files, directories, hex, base64, or - for standard input, as for validate. A message
    of 0-9-1 is the payload of its content header frame followed by the body.

    A table shows the losses: each of them for one message, how often each occurs for many, and a
    line for each message that is refused. With -o, the translated messages go into that file, one
    JSON object per line with the bytes in hex under raw; with --json, such objects with the
    losses are the only output. The exit status is 1 if data of the sender was lost for good, or if
    a message was refused or cannot be read; unlike with encode and convert, the file of -o then
    still has all the others. Marks that a broker wrote at delivery are listed, and do not count.
    """
    names = (exchange, routing_key)
    how = {"profile": profile or "lossless", "strict": strict, "user": user}
    colored = use_color(color)
    total = _Losses()
    first: _Translated | None = None
    with Sink(output) as sink:
        for item in inputs.some():
            made = _translated(item, target, names, how)
            total.add(made)
            if as_json:
                sink.write(made.json())
                continue
            if output is not None and not made.fault:
                sink.write(json.dumps({"raw": made.record["raw"]}) + "\n")
            if each:
                _show(made, colored)
            elif total.messages == 1:
                first = made  # the only one is shown in full
            elif made.fault or (first is not None and first.fault):
                for refused in filter(None, (first, made)):
                    if refused.fault:
                        _show(refused, colored)
            if total.messages > 1:
                first = None
    if first is not None:
        _show(first, colored)
    elif not as_json and total.messages > 1:
        _show_total(total, colored)
    return int(total.failed)


def _show(made: _Translated, colored: bool) -> None:
    """Show one message: what is lost, or why it is refused."""
    from rich.text import Text

    screen = console(colored)
    source = safe(made.source)
    if made.fault:
        screen.print(Text(f"{source}: refused: {safe(made.fault)}", style="red"))
        return
    lost = sum(loss.is_permanent for loss in made.losses)
    size = len(made.record["raw"]) // 2
    kept = "nothing lost for good" if made.losses else "nothing lost"
    says = f"{plural(lost, 'value')} lost" if lost else kept
    line = f"{source}: {plural(size, 'byte')}, {says}"
    screen.print(Text(line, style="yellow" if lost else "green"))
    if not made.losses:
        return
    rows = table("Path", "Action", "Before", "After")
    for loss in made.losses:
        _add_loss(
            screen,
            rows,
            (safe(loss.path) or "message", loss.reason),
            _action(loss.action, loss.recoverable, loss.owner),
            Text(_short(loss.before)),
            Text("" if loss.after is None else _short(loss.after)),
        )
    screen.print(rows)
    screen.print()


def _show_total(total: _Losses, colored: bool) -> None:
    """Show what many messages lose, how often, and the sum of it."""
    from rich.text import Text

    from amqp10msg.translate.report import owner_of

    screen = console(colored)
    if total.rows:
        rows = table("Path", "Action", "Messages", "First in")
        rows.columns[2].justify = "right"
        for (path, action, recoverable, why), (number, source) in total.most_common():
            first = source if screen.width >= _WIDE else without_name(source)
            _add_loss(
                screen,
                rows,
                (safe(path) or "message", why),
                _action(action, recoverable, owner_of(why)),
                Text(f"{number:,}"),
                Text(safe(first)),
            )
        screen.print(rows)
        screen.print()
    style = "red" if total.refused else "yellow" if total.lossy else "green"
    screen.print(Text(total.sentence(), style=f"bold {style}"))


def _add_loss(screen: Console, rows: Table, what: tuple[str, str], *cells: Text) -> None:
    """Add a row with the reason in a column of its own, or below the path on a narrow screen."""
    from rich.console import Group
    from rich.padding import Padding
    from rich.text import Text

    path, why = what
    if screen.width < _WIDE:
        rows.columns[0].min_width = max(rows.columns[0].min_width or 0, min(len(path), _PATH))
        rows.add_row(Group(Text(path), Padding(Text(why, style="dim"), (0, 0, 0, 2))), *cells)
        return
    if len(rows.columns) == len(cells) + 1:
        rows.add_column("Why", overflow="fold")
    rows.add_row(Text(path), *cells, Text(why))


def _action(action: str, recoverable: bool, owner: str) -> Text:
    """Return an action in words, red only if data of the sender is lost for good."""
    from rich.text import Text

    if owner == "broker":
        return Text(f"{action}, a mark of the broker", style="dim")
    if recoverable:
        return Text(action, style=_ACTIONS.get(action, "yellow"))
    return Text(f"{action}, for good", style=_ACTIONS.get(action, "red"))


def _short(value: Any) -> str:
    from amqp10msg.translate.account import shown

    return shown(value, 60)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


@click.command(
    "diff-profiles",
    short_help="Show what each bridge would make of a message.",
    epilog="""
\b
Examples:
  amqp10msg diff-profiles message.bin
  amqp10msg diff-profiles -p rabbitmq-3.10 -p rabbitmq-4.3 header-and-body.bin
""",
)
@click.option(
    "-p",
    "--profile",
    "profiles",
    type=LateChoice(translations),
    metavar="PROFILE",
    multiple=True,
    help="Compare these profiles; all by default.",
)
@click.option("--all", "everything", is_flag=True, help="Also show what all profiles agree on.")
@_circumstances_options
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object per line.")
@messages_argument("-f", "--format", basic=True)
@color_option
def diff_profiles(
    inputs: Inputs,
    profiles: tuple[str, ...],
    everything: bool,
    exchange: str,
    routing_key: str,
    user: str,
    as_json: bool,
    color: bool | None,
) -> int:
    """Show what each bridge between 0-9-1 and 1.0 would make of the same message.

    SOURCES and profiles are as for translate. The protocol of a message is recognised, and it is
    translated to the other one. Profiles with the same result share a letter; a row is a place in
    the result and what the profiles of these letters put there, cut if it is long: --json has all
    of it. The exit status is 1 if a message cannot be read.
    """
    from amqp10msg.translate import PROFILES

    chosen = profiles or tuple(PROFILES)
    colored = use_color(color)
    failed = False
    for item in inputs.some():
        found, fault = _results(item, chosen, (exchange, routing_key), user)
        if fault:
            failed = True
            complain(f"{item.source}: {fault}")
        elif as_json:
            line = {"source": safe(item.source), "profiles": found}
            click.echo(json_text(line))
        else:
            _show_differences(safe(item.source), _alike(found), everything, colored)
    return int(failed)


def _show_differences(
    source: str, groups: list[tuple[list[str], dict[str, str]]], everything: bool, colored: bool
) -> None:
    from rich.padding import Padding
    from rich.text import Text

    screen = console(colored)
    screen.print(Text(source, style="bold"))
    if len(groups) == 1 and not everything:
        screen.print(Text(f"  all agree: {', '.join(groups[0][0])}"))
        return
    lettered = [(chr(ord("A") + n), names, made) for n, (names, made) in enumerate(groups)]
    for letter, names, made in lettered:
        screen.print(Text.assemble("  ", (letter, "bold"), f"  {', '.join(names)}"))
        if _REFUSED in made:
            screen.print(
                Padding(Text(f"refused: {made[_REFUSED]}", style="red"), (0, 0, 0, 5), expand=False)
            )
    results = [(letter, made) for letter, _, made in lettered if _REFUSED not in made]
    rows = table("Place", "By", "Value")
    rows.columns[1].no_wrap = True
    for path in dict.fromkeys(path for _, made in results for path in made):
        values: dict[str | None, list[str]] = {}
        for letter, made in results:
            values.setdefault(made.get(path), []).append(letter)
        if len(values) == 1 and not everything:
            continue
        for number, (value, by) in enumerate(values.items()):
            shown = Text("none", style="dim") if value is None else Text(_cut(value, _LINES))
            rows.add_row(Text("" if number else path, style="cyan"), " ".join(by), shown)
    if rows.row_count:
        screen.print()
        screen.print(rows)
    screen.print()


# The work.

# The place of the reason where a profile refuses a message.
_REFUSED = "refused"
# Characters of a value in JSON: all that it has.
_WHOLE = 1 << 30


@attrs.frozen
class _Translated:
    """What became of a message: its JSON, with the bytes in hex under ``raw``, or ``error``.

    The fault says why it could not be read or translated; it is empty where it could.
    """

    source: str
    record: dict[str, Any]
    losses: tuple[Loss, ...] = ()
    fault: str = ""

    def json(self) -> str:
        """Return everything as one line of JSON."""
        record = dict(self.record)
        if not self.fault:
            record["losses"] = [_loss_json(loss) for loss in self.losses]
        return json_text({"source": safe(self.source), **record}) + "\n"


@attrs.define
class _Losses:
    """What many messages lose together; its size depends on the kinds of losses.

    The rows are by path, action, whether it can be recovered, and reason: messages, and the first.
    """

    messages: int = 0
    refused: int = 0
    lossy: int = 0
    rows: dict[tuple[str, str, bool, str], tuple[int, str]] = attrs.field(factory=dict)

    def add(self, made: _Translated) -> None:
        """Count a message."""
        self.messages += 1
        self.refused += bool(made.fault)
        self.lossy += any(loss.is_permanent for loss in made.losses)
        for key in {(x.path, x.action, x.recoverable, x.reason) for x in made.losses}:
            number, first = self.rows.get(key, (0, made.source))
            self.rows[key] = number + 1, first

    @property
    def failed(self) -> bool:
        """Whether anything was refused or lost for good."""
        return self.refused + self.lossy > 0

    def most_common(self) -> list[tuple[tuple[str, str, bool, str], tuple[int, str]]]:
        """List the losses: those for good first, and what is most frequent before the rest."""
        return sorted(self.rows.items(), key=lambda row: (row[0][2], -row[1][0], row[0]))

    def sentence(self) -> str:
        """Return the sum in words."""
        whole = self.messages - self.lossy - self.refused
        parts = [f"{whole:,} without permanent loss"]
        if self.lossy:
            parts.append(f"{self.lossy:,} with it")
        if self.refused:
            parts.append(f"{self.refused:,} refused")
        return f"{plural(self.messages, 'message')}: {', '.join(parts)}"


def _translated(
    item: Item, target: str, names: tuple[str, str], how: dict[str, Any]
) -> _Translated:
    """Translate one message; `names` are exchange and routing key where one of 0-9-1 has none."""
    from amqp10msg.wire.errors import DecodeError, TranslationError

    if item.fault:
        return _Translated(item.source, {"error": item.fault}, fault=item.fault)
    try:
        record, losses = _to_other(item, target, names, how)
    except (DecodeError, TranslationError) as error:
        return _Translated(item.source, {"error": str(error)}, fault=str(error))
    return _Translated(item.source, record, losses)


def _to_other(
    item: Item, target: str, names: tuple[str, str], how: dict[str, Any]
) -> tuple[dict[str, Any], tuple[Loss, ...]]:
    from amqp10msg.app.inspector.protocols import is_basic, octets_of, translate
    from amqp10msg.files.recognition import SECTION
    from amqp10msg.wire.errors import DecodeError

    to_amqp10 = target == "1.0"
    if not to_amqp10 and is_basic(item):
        raise DecodeError("this is a message of AMQP 0-9-1 already: --to 1.0 translates it", 0)
    if to_amqp10 and not is_basic(item) and SECTION.match(item.data):
        raise DecodeError("this is a message of AMQP 1.0 already: --to 0-9-1 translates it", 0)
    made = translate(_read(item, names, basic=to_amqp10), **how)
    record = {"raw": octets_of(made.message).hex()}
    if not to_amqp10 and (made.message.exchange or made.message.routing_key):
        record |= {"exchange": made.message.exchange, "routing_key": made.message.routing_key}
    return record, made.losses


def _read(item: Item, names: tuple[str, str], *, basic: bool) -> BasicMessage | Message:
    from amqp10msg.app.inspector.protocols import read_basic, read_message

    return read_basic(item, *names) if basic else read_message(item)


def _results(
    item: Item, profiles: tuple[str, ...], names: tuple[str, str], user: str
) -> tuple[dict[str, dict[str, str]], str]:
    """Translate a message by each profile: path -> value as text, or why it fails."""
    from amqp10msg.app.inspector.protocols import is_basic, translate
    from amqp10msg.translate.account import parts_of, shown
    from amqp10msg.wire.errors import DecodeError, TranslationError

    if item.fault:
        return {}, item.fault
    try:
        message = _read(item, names, basic=is_basic(item))
    except DecodeError as error:
        return {}, str(error)
    found = {}
    for name in profiles:
        try:
            made = translate(message, name, user=user).message
            found[name] = {path: shown(value, _WHOLE) for path, value in parts_of(made)}
        except TranslationError as error:
            found[name] = {_REFUSED: safe(str(error))}
    return found, ""


def _alike(found: dict[str, dict[str, str]]) -> list[tuple[list[str], dict[str, str]]]:
    """Put profiles with the same result together: their names, and the result."""
    groups: list[tuple[list[str], dict[str, str]]] = []
    for name, made in found.items():
        names = next((names for names, other in groups if other == made), None)
        if names is None:
            groups.append(([name], made))
        else:
            names.append(name)
    return groups


def _loss_json(loss: Loss) -> dict[str, Any]:
    """Return a loss as JSON; values without a JSON type appear as their `repr`."""
    made = {**attrs.asdict(loss, recurse=False), "owner": loss.owner}
    for name in ("before", "after"):
        try:
            json.dumps(made[name])
        except (TypeError, ValueError):
            made[name] = safe(repr(made[name]))
    return made
