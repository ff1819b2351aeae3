"""``amqp10msg filter``: which messages pass a filter, and why the others do not."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import click

from amqp10msg import notation
from amqp10msg.cli._input import Inputs, Item, messages_argument
from amqp10msg.cli._output import color_option, json_option, plural, safe, use_color
from amqp10msg.delivery.filters import (
    DirectBinding,
    ExpressionError,
    Filter,
    Reason,
    Selector,
    SqlFilter,
    TopicBinding,
)
from amqp10msg.errors import AmqpError, EncodeError
from amqp10msg.message import Message

_LANGUAGES: dict[str, Callable[[str], Filter]] = {
    "selector": Selector,
    "sql": SqlFilter,
    "oasis": lambda text: SqlFilter(text, dialect="oasis"),
    "topic": TopicBinding,
    "direct": DirectBinding,
}


# Verdicts, in the order of the summary.
_COLORS = {"passed": "green", "stopped": "yellow", "unreadable": "red"}


@click.command(
    "filter",
    epilog="""
\b
Examples:
  amqp10msg filter "color = 'red' AND JMSPriority > 4" captured/
  amqp10msg filter --language sql "p.subject LIKE 'Order%'" messages.jsonl
  amqp10msg filter --json "a > 1" messages.jsonl | jq 'select(.passes).source'
""",
)
@click.argument("expr")
@click.option(
    "-l",
    "--language",
    type=click.Choice(list(_LANGUAGES)),
    default="selector",
    show_default=True,
    help="What EXPR is: a JMS selector, an SQL filter expression as RabbitMQ has it or with more "
    "of the OASIS draft, a topic pattern or a subject.",
)
@click.option(
    "--now",
    type=int,
    metavar="MS",
    help="The time for UTC(), in milliseconds since the Unix epoch; by default that of this run.",
)
@click.option(
    "--require-all", is_flag=True, help="Also exit with status 1 where a message does not pass."
)
@click.option("-q", "--quiet", is_flag=True, help="Show the count alone.")
@json_option
@messages_argument
@color_option
def filter_messages(
    expr: str,
    inputs: Inputs,
    language: str,
    now: int | None,
    require_all: bool,
    quiet: bool,
    as_json: bool,
    color: bool | None,
) -> int:
    """Show which messages pass a filter, and why the others do not.

    EXPR is the filter, by default a JMS message selector; SOURCES are files, directories with
    everything below them, hex, base64, or - for standard input, as with validate.

    Each message is a line: that it passes, or the conditions that do not hold and what they saw;
    then comes the count. The exit status is 0 where every message could be read, passing or not,
    and 1 where one could not; with --require-all it is also 1 where one does not pass. An EXPR with
    an error gives 2, and a caret under the place.
    """
    wanted = _filter(language, expr)
    if now is None:
        now = time.time_ns() // 1_000_000
    colored = use_color(color)
    counts: Counter[str] = Counter(dict.fromkeys(_COLORS, 0))
    for item in inputs.some():
        reasons, fault = _explained(wanted, item, now)
        verdict = "unreadable" if fault else "stopped" if reasons else "passed"
        counts[verdict] += 1
        if as_json:
            shown = _as_json(item.source, reasons, fault)
            click.echo(json.dumps(shown, ensure_ascii=False))
        elif not quiet:
            said = {"unreadable": "error", "stopped": "does not pass", "passed": "passes"}[verdict]
            if colored:
                said = click.style(said, fg=_COLORS[verdict], bold=True)
            why = fault or "; ".join(map(str, reasons))
            rest = safe(f": {why}") if why else ""
            click.echo(f"{safe(item.source)}: {said}{rest}", color=colored)
    if as_json:
        click.echo(json.dumps({"summary": {"messages": counts.total(), **counts}}))
    else:
        parts = [f"{counts['passed']:,} passed", f"{counts['stopped']:,} did not"]
        parts += [f"{counts['unreadable']:,} not readable"] * (counts["unreadable"] > 0)
        click.echo(f"{plural(counts.total(), 'message')}: {', '.join(parts)}")
    return int(counts["unreadable"] > 0 or (require_all and counts["stopped"] > 0))


def _filter(language: str, expr: str) -> Filter:
    """Make the filter, or end the command with what is wrong with it."""
    try:
        return _LANGUAGES[language](expr)
    except ExpressionError as error:
        for line in error.excerpt.split("\n"):
            click.echo(f"amqp10msg filter: {safe(line)}", err=True)
        raise click.UsageError(f"EXPR, {error}") from None
    except EncodeError as error:
        raise click.UsageError(f"EXPR: {error.reason}") from None


def _explained(wanted: Filter, item: Item, now: int) -> tuple[tuple[Reason, ...], str]:
    """Return why an item does not pass, and why it cannot be read; both are empty if it passes."""
    if item.fault:
        return (), item.fault
    try:
        # A filter looks at sections; what rules a message breaks elsewhere does not matter to it.
        message = Message.decode(item.data, strict=False)
    except AmqpError as error:
        return (), str(error)
    return wanted.explain(message, now=now), ""


def _as_json(source: str, reasons: tuple[Reason, ...], fault: str) -> dict[str, Any]:
    if fault:
        return {"source": safe(source), "error": fault}
    shown = [
        {
            "condition": reason.condition,
            "result": reason.result,
            "values": {name: notation.to_plain(value) for name, value in reason.values},
        }
        for reason in reasons
    ]
    return {"source": safe(source), "passes": not reasons, "reasons": shown}
