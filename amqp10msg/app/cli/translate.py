"""``amqp10msg translate`` and ``diff-profiles``: translate between AMQP 0-9-1 and 1.0.

A 0-9-1 message is encoded as the payload of its content header frame, followed by the body.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import click

from amqp10msg.app.cli._options import (
    TranslationChoice,
    color_option,
    messages_argument,
    output_option,
    target_option,
)
from amqp10msg.app.cli._output import (
    Sink,
    console,
    json_text,
    print_error,
    safe,
    table,
    use_color,
    without_message_name,
)
from amqp10msg.wire.text import plural

if TYPE_CHECKING:
    from rich.console import Console
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    from amqp10msg.app.cli._input import Inputs
    from amqp10msg.app.inspector.reading import Item
    from amqp10msg.basic import BasicMessage
    from amqp10msg.message import Message
    from amqp10msg.translate import Loss, Translation

# Minimum terminal width, in characters, for a table with a column for the reason.
_MIN_WIDTH_FOR_REASONS = 120
# On a narrower terminal, the column Path is as wide as the longest path, but need not be wider than
# this, in characters.
_MIN_PATH_WIDTH = 36
#: The maximum length of a value in `diff-profiles`, in characters (about four lines).
_MAX_VALUE_LENGTH = 160
_ACTION_COLORS = {"carried": "green", "renamed": "yellow", "retyped": "yellow"}


def _sender_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options for data that a translation needs, and that the message may not contain."""
    for option in (
        click.option(
            "--user",
            default="guest",
            show_default=True,
            help="The user that the sender authenticated as at the broker; empty to skip the check "
            "of the user-id.",
        ),
        click.option(
            "--routing-key",
            default="",
            help="The routing key to assume for 0-9-1 messages whose file has none.",
        ),
        click.option(
            "--exchange",
            default="",
            help="The exchange to assume for 0-9-1 messages whose file has none.",
        ),
    ):
        command = option(command)
    return command


@click.command(
    short_help="Translate between AMQP 0-9-1 and 1.0, and list the losses.",
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
    type=TranslationChoice(),
    metavar="PROFILE",
    show_default="lossless",
    help="The translation: lossless, which is exactly reversible, or a broker's. See the reference "
    "for all.",
)
@click.option("--strict", is_flag=True, help="Refuse messages that would lose data permanently.")
@click.option("--each", is_flag=True, help="Show each message, not only the total.")
@_sender_options
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Write JSON lines instead, with the losses of each message.",
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
    """Translate messages between AMQP 0-9-1 and 1.0, and list the losses.

    SOURCES are files, directories, hex or base64, or - for standard input, which is the default;
    see validate. A 0-9-1 message is the payload of its content header frame, followed by the body.

    The output is a table of losses: every loss of a single message, or the frequency of each loss
    if there are several messages, and a line for each refused message. With -o, the translated
    messages are written to that file as JSON lines, with the bytes in hex under raw; for a 0-9-1
    message also exchange, routing_key and redelivered, unless all of them are unset. With --json,
    the output consists of such objects with the losses.

    The exit status is 1 if data of the sender was lost permanently, or if a message was refused or
    could not be read; -o still writes all other messages, unlike with encode and convert. The loss
    of annotations that a broker adds on delivery is listed, but does not affect the status.
    """
    names = (exchange, routing_key)
    options = {"profile": profile or "lossless", "strict": strict, "user": user}
    colored = use_color(color)
    total = _LossTotals()
    first: _TranslationResult | None = None
    with Sink(output) as sink:
        for item in inputs.messages():
            translated = _translate_item(item, target, names, options)
            total.add(translated)
            if as_json:
                sink.write(translated.json())
                continue
            if output is not None and not translated.fault:
                sink.write(json.dumps(translated.record) + "\n")
            if each:
                _show_result(translated, colored)
            elif total.messages == 1:
                first = translated  # if it is the only message, show all its losses
            elif translated.fault or (first is not None and first.fault):
                for refused in filter(None, (first, translated)):
                    if refused.fault:
                        _show_result(refused, colored)
            if total.messages > 1:
                first = None
    if first is not None:
        _show_result(first, colored)
    elif not as_json and total.messages > 1:
        _show_total(total, colored)
    return int(total.failed)


def _show_result(translated: _TranslationResult, colored: bool) -> None:
    """Print the losses of one message, or why the message was refused."""
    from rich.text import Text

    screen = console(colored)
    source = safe(translated.source)
    if translated.fault:
        reason = _without_repeated_verdict(safe(translated.fault))
        screen.print(Text(f"{source}: refused: {reason}", style="red"))
        return
    lost_count = sum(loss.is_permanent for loss in translated.losses)
    size = len(translated.record["raw"]) // 2
    no_loss = "no permanent loss" if translated.losses else "no loss"
    summary = f"{plural(lost_count, 'value')} lost" if lost_count else no_loss
    line = f"{source}: {plural(size, 'byte')}, {summary}"
    screen.print(Text(line, style="yellow" if lost_count else "green"))
    if not translated.losses:
        return
    rows = table("Path", "Action", "Before", "After")
    for loss in translated.losses:
        _add_loss(
            screen,
            rows,
            (safe(loss.path) or "message", loss.reason),
            _action_text(loss.action, loss.recoverable, loss.owner),
            Text(_short_value(loss.before)),
            Text("" if loss.after is None else _short_value(loss.after)),
        )
    screen.print(rows)
    screen.print()


def _show_total(total: _LossTotals, colored: bool) -> None:
    """Print how many messages have each loss, and the total."""
    from rich.text import Text

    from amqp10msg.translate.report import owner_of

    screen = console(colored)
    if total.rows:
        rows = table("Path", "Action", "Messages", "First in")
        rows.columns[2].justify = "right"
        for (path, action, recoverable, reason), (number, source) in total.most_common():
            first = (
                source if screen.width >= _MIN_WIDTH_FOR_REASONS else without_message_name(source)
            )
            _add_loss(
                screen,
                rows,
                (safe(path) or "message", reason),
                _action_text(action, recoverable, owner_of(reason)),
                Text(f"{number:,}"),
                Text(safe(first)),
            )
        screen.print(rows)
        screen.print()
    style = "red" if total.refused else "yellow" if total.lossy else "green"
    screen.print(Text(total.sentence(), style=f"bold {style}"))


def _add_loss(screen: Console, rows: Table, loss: tuple[str, str], *cells: Text) -> None:
    """Add a row for a loss, given as (path, reason).

    On a wide screen (`_MIN_WIDTH_FOR_REASONS`), the reason is in the last column, else below the
    path.
    """
    from rich.console import Group
    from rich.padding import Padding
    from rich.text import Text

    path, reason = loss
    if screen.width < _MIN_WIDTH_FOR_REASONS:
        rows.columns[0].min_width = max(
            rows.columns[0].min_width or 0, min(len(path), _MIN_PATH_WIDTH)
        )
        rows.add_row(Group(Text(path), Padding(Text(reason, style="dim"), (0, 0, 0, 2))), *cells)
        return
    if len(rows.columns) == len(cells) + 1:
        rows.add_column("Why", overflow="fold")
    rows.add_row(Text(path), *cells, Text(reason))


def _action_text(action: str, recoverable: bool, owner: str) -> Text:
    """Return an action such as "dropped" as text; red only if data of the sender is lost."""
    from rich.text import Text

    if owner == "broker":
        return Text(f"{action}, a mark of the broker", style="dim")
    if recoverable:
        return Text(action, style=_ACTION_COLORS.get(action, "yellow"))
    return Text(f"{action}, for good", style=_ACTION_COLORS.get(action, "red"))


def _short_value(value: Any) -> str:
    from amqp10msg.translate.account import format_value

    return format_value(value, 60)


def _cut(text: str, limit: int) -> str:
    """Shorten `text` to `limit` characters, marking the cut with an ellipsis."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


@click.command(
    "diff-profiles",
    short_help="Compare how brokers would translate a message.",
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
    type=TranslationChoice(),
    metavar="PROFILE",
    multiple=True,
    help="Compare only this profile and the others that are named; repeat it. All by default.",
)
@click.option(
    "--all", "everything", is_flag=True, help="Also show the parts that are equal in all profiles."
)
@_sender_options
@click.option(
    "--json", "as_json", is_flag=True, help="Write JSON lines instead, with complete values."
)
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
    """Compare how brokers would translate a message between 0-9-1 and 1.0.

    SOURCES and profiles are as for translate. Each message is translated from its own protocol,
    which is detected, to the other. Profiles with the same result share a letter. A row shows a
    path in the result, the letters, and the value that their profiles write; long values are cut
    except with --json. The exit status is 1 if a message cannot be read, or if every profile
    refuses it.
    """
    from amqp10msg.translate import PROFILES

    if len({*profiles}) == 1:
        raise click.UsageError(
            f"{profiles[0]} has no other profile to compare with: name two profiles with -p, or "
            "none for all"
        )
    chosen = profiles or tuple(PROFILES)
    colored = use_color(color)
    failed = False
    for item in inputs.messages():
        results, fault = _translate_with_profiles(item, chosen, (exchange, routing_key), user)
        if fault:
            failed = True
            print_error(f"{item.source}: {fault}")
            continue
        failed |= all(_REFUSED_KEY in result for result in results.values())
        if as_json:
            line = {"source": safe(item.source), "profiles": results}
            click.echo(json_text(line))
        else:
            _show_differences(safe(item.source), _group_equal(results), everything, colored)
    return int(failed)


def _show_differences(
    source: str, groups: list[tuple[list[str], dict[str, str]]], everything: bool, colored: bool
) -> None:
    """Print how the results of the groups differ; with `everything`, also the equal values."""
    from rich.text import Text

    screen = console(colored)
    screen.print(Text(source, style="bold"))
    if len(groups) == 1 and _REFUSED_KEY in groups[0][1]:
        names, result = groups[0]
        screen.print(Text(f"  all profiles refuse it: {', '.join(names)}"))
        screen.print(_refusal_line(result))
        return
    if len(groups) == 1 and not everything:
        screen.print(Text(f"  all profiles agree: {', '.join(groups[0][0])}"))
        return
    groups_with_letters = [
        (chr(ord("A") + n), names, result) for n, (names, result) in enumerate(groups)
    ]
    for letter, names, result in groups_with_letters:
        screen.print(Text.assemble("  ", (letter, "bold"), f"  {', '.join(names)}"))
        if _REFUSED_KEY in result:
            screen.print(_refusal_line(result))
    results = [
        (letter, result) for letter, _, result in groups_with_letters if _REFUSED_KEY not in result
    ]
    rows = table("Place", "By", "Value")
    rows.columns[1].no_wrap = True
    for path in dict.fromkeys(path for _, result in results for path in result):
        values: dict[str | None, list[str]] = {}
        for letter, result in results:
            values.setdefault(result.get(path), []).append(letter)
        # If the other profiles refuse the message, all values of the one result are differences.
        if len(values) == 1 and len(results) > 1 and not everything:
            continue
        for number, (value, letters) in enumerate(values.items()):
            cell = (
                Text("none", style="dim") if value is None else Text(_cut(value, _MAX_VALUE_LENGTH))
            )
            rows.add_row(Text("" if number else path, style="cyan"), " ".join(letters), cell)
    if rows.row_count:
        screen.print()
        screen.print(rows)
    screen.print()


def _without_repeated_verdict(reason: str) -> str:
    """Return the reason of a refusal without the word that the commands put before it."""
    return re.sub(r"(^|: )refused: ", r"\1", reason, count=1)


def _refusal_line(result: dict[str, str]) -> Padding:
    """Return the reason for which a profile refuses a message, as an indented line."""
    from rich.padding import Padding
    from rich.text import Text

    reason = _without_repeated_verdict(result[_REFUSED_KEY])
    return Padding(Text(f"refused: {reason}", style="red"), (0, 0, 0, 5), expand=False)


# Translation.

# A profile that refuses the message has the result {_REFUSED_KEY: reason}.
_REFUSED_KEY = "refused"
# The maximum length of a user-id in an error, in characters.
_MAX_USER_ID_LENGTH = 80
# The maximum length of a value in JSON, in characters. All values are shorter, so none is cut.
_MAX_VALUE_LENGTH_IN_JSON = 1 << 30


@attrs.frozen
class _TranslationResult:
    """The result of translating one message.

    `record` is a JSON object: with the translated bytes in hex under ``raw`` and, for 0-9-1, how
    the message was published, as `files.read` reads them; or with ``error``.
    `fault` explains why the message could not be read or translated, and is empty on success.
    """

    source: str
    record: dict[str, Any]
    losses: tuple[Loss, ...] = ()
    fault: str = ""

    def json(self) -> str:
        """Return the result as one JSON line."""
        record = dict(self.record)
        if not self.fault:
            record["losses"] = [_loss_json(loss) for loss in self.losses]
        return json_text({"source": safe(self.source), **record}) + "\n"


@attrs.define
class _LossTotals:
    """Counts of messages, and of messages per distinct loss.

    `lossy` counts messages with a permanent loss. `rows` maps a loss (path, action, recoverable,
    reason) to (number of messages, source of the first message).
    """

    messages: int = 0
    refused: int = 0
    lossy: int = 0
    rows: dict[tuple[str, str, bool, str], tuple[int, str]] = attrs.field(factory=dict)

    def add(self, translated: _TranslationResult) -> None:
        """Count a message and its losses."""
        self.messages += 1
        self.refused += bool(translated.fault)
        self.lossy += any(loss.is_permanent for loss in translated.losses)
        for key in {(x.path, x.action, x.recoverable, x.reason) for x in translated.losses}:
            number, first = self.rows.get(key, (0, translated.source))
            self.rows[key] = number + 1, first

    @property
    def failed(self) -> bool:
        """Whether a message was refused or lost data permanently."""
        return self.refused + self.lossy > 0

    def most_common(self) -> list[tuple[tuple[str, str, bool, str], tuple[int, str]]]:
        """Return the items of `rows`: permanent losses first, then by number of messages."""
        return sorted(self.rows.items(), key=lambda row: (row[0][2], -row[1][0], row[0]))

    def sentence(self) -> str:
        """Return the counts of messages as a sentence."""
        lossless = self.messages - self.lossy - self.refused
        parts = [f"{lossless:,} without permanent loss"]
        if self.lossy:
            parts.append(f"{self.lossy:,} with permanent loss")
        if self.refused:
            parts.append(f"{self.refused:,} refused")
        return f"{plural(self.messages, 'message')}: {', '.join(parts)}"


def _translate_item(
    item: Item, target: str, default_address: tuple[str, str], options: dict[str, Any]
) -> _TranslationResult:
    """Translate one message.

    `default_address` holds the exchange and routing key to assume for a 0-9-1 message without them.
    """
    from amqp10msg.wire.errors import DecodeError, TranslationError

    if item.fault:
        return _TranslationResult(item.source, {"error": item.fault}, fault=item.fault)
    try:
        record, losses = _translate_bytes(item, target, default_address, options)
    except (DecodeError, TranslationError) as error:
        return _TranslationResult(item.source, {"error": str(error)}, fault=str(error))
    return _TranslationResult(item.source, record, losses)


def _translate_bytes(
    item: Item, target: str, default_address: tuple[str, str], options: dict[str, Any]
) -> tuple[dict[str, Any], tuple[Loss, ...]]:
    """Translate one message. Return its JSON object and the losses."""
    from amqp10msg.app.inspector.protocols import encode_message, is_basic
    from amqp10msg.files.signatures import SECTION_START
    from amqp10msg.wire.errors import DecodeError

    to_amqp10 = target == "1.0"
    if not to_amqp10 and is_basic(item):
        raise DecodeError("the message is AMQP 0-9-1 already: use --to 1.0", 0)
    if to_amqp10 and not is_basic(item) and SECTION_START.match(item.data):
        raise DecodeError("the message is AMQP 1.0 already: use --to 0-9-1", 0)
    translation = _translate(_read_item(item, default_address, basic=to_amqp10), **options)
    message = translation.message
    record: dict[str, Any] = {"raw": encode_message(message).hex()}
    if not to_amqp10:
        # The encoded bytes do not contain these values; readers find them by these names.
        names = ("exchange", "routing_key", "redelivered")
        published = {name: getattr(message, name) for name in names}
        record |= published if any(published.values()) else {}
    return record, translation.losses


def _translate(
    message: BasicMessage | Message, profile: str, user: str, *, strict: bool = False
) -> Translation[Any]:
    """Translate a message; an empty `user` skips the check of the user-id.

    Raises:
        TranslationError: the profile refuses the message. If its user-id is not `user`, the reason
            names both and the option.
    """
    from amqp10msg.app.inspector.protocols import translate
    from amqp10msg.wire.errors import ForeignUserError, TranslationError

    try:
        return translate(message, profile, strict=strict, user=user or None)
    except ForeignUserError as error:
        try:
            translate(message, profile, strict=strict, user=None)
        except TranslationError as other:
            # Without the check of the user, the name itself may be refused.
            if other.path == error.path:
                raise other from None
        reason = f"refused: {_explain_user_id(message, user)}"
        raise ForeignUserError(error.path, reason) from None


def _explain_user_id(message: BasicMessage | Message, user: str) -> str:
    """Return why the user-id of a message is refused, and the value of --user that accepts it."""
    from amqp10msg.wire.reprs import readable, shortened

    user_id: Any = None if message.properties is None else message.properties.user_id
    if isinstance(user_id, bytes):
        user_id = user_id.decode("utf-8", "surrogateescape")
    name = shortened(safe(user_id), _MAX_USER_ID_LENGTH)
    # A name that is cut or escaped is not the value for the option.
    advice = f"set --user {shlex.quote(name)}, or --user ''" if name == user_id else "set --user ''"
    return (
        f"the user-id '{name}' is not the connection's user '{safe(readable(user))}': "
        f"{advice} to skip the check"
    )


def _read_item(
    item: Item, default_address: tuple[str, str], *, basic: bool
) -> BasicMessage | Message:
    """Decode an item as an AMQP 0-9-1 message if `basic`, otherwise as an AMQP 1.0 message."""
    from amqp10msg.app.inspector.protocols import read_basic, read_message

    return read_basic(item, *default_address) if basic else read_message(item)


def _translate_with_profiles(
    item: Item, profiles: tuple[str, ...], default_address: tuple[str, str], user: str
) -> tuple[dict[str, dict[str, str]], str]:
    """Translate a message with each of the profiles.

    Returns:
        ({profile: result}, fault). A result is {path: value as text}, or {_REFUSED_KEY: reason}.
        The fault explains why the message cannot be read, and is empty otherwise.
    """
    from amqp10msg.app.inspector.protocols import is_basic
    from amqp10msg.translate.account import format_value, parts_of
    from amqp10msg.wire.errors import DecodeError, TranslationError

    if item.fault:
        return {}, item.fault
    try:
        message = _read_item(item, default_address, basic=is_basic(item))
    except DecodeError as error:
        return {}, str(error)
    results = {}
    for name in profiles:
        try:
            translated = _translate(message, name, user).message
            results[name] = {
                path: format_value(value, _MAX_VALUE_LENGTH_IN_JSON)
                for path, value in parts_of(translated)
            }
        except TranslationError as error:
            results[name] = {_REFUSED_KEY: safe(str(error))}
    return results, ""


def _group_equal(results: dict[str, dict[str, str]]) -> list[tuple[list[str], dict[str, str]]]:
    """Group profiles with equal results. Return (names of the profiles, result) per group."""
    groups: list[tuple[list[str], dict[str, str]]] = []
    for name, result in results.items():
        names = next((names for names, existing in groups if existing == result), None)
        if names is None:
            groups.append(([name], result))
        else:
            names.append(name)
    return groups


def _loss_json(loss: Loss) -> dict[str, Any]:
    """Return a loss as a JSON object. A value that JSON cannot represent becomes its `repr`."""
    record = {**attrs.asdict(loss, recurse=False), "owner": loss.owner}
    for name in ("before", "after"):
        try:
            json.dumps(record[name])
        except (TypeError, ValueError):
            record[name] = safe(repr(record[name]))
    return record
