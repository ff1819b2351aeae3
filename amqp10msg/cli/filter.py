"""``amqp10msg filter``: which messages pass a filter, and why the others do not."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import attrs
import click

from amqp10msg import notation
from amqp10msg.cli._input import Inputs, Item, messages_argument
from amqp10msg.cli._output import color_option, plural, safe, use_color
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


@attrs.define
class _Answer:
    """The verdict of a filter on one item.

    Attributes:
        source: where the item came from.
        passes: whether it passes; None where it cannot be read.
        reasons: why it does not.
        fault: why it cannot be read; empty where it can.
    """

    source: str
    passes: bool | None
    reasons: tuple[Reason, ...] = ()
    fault: str = ""


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
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Write a JSON object a line: one for each message, then one with the summary.",
)
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
    passed = stopped = unreadable = 0
    for item in inputs.some():
        answer = _answer(wanted, item, now)
        passed += answer.passes is True
        stopped += answer.passes is False
        unreadable += answer.passes is None
        if as_json:
            click.echo(json.dumps(_as_json(answer), ensure_ascii=False))
        elif not quiet:
            click.echo(_line(answer, colored), color=colored)
    total = passed + stopped + unreadable
    if as_json:
        summary = {
            "messages": total,
            "passed": passed,
            "stopped": stopped,
            "unreadable": unreadable,
        }
        click.echo(json.dumps({"summary": summary}))
    else:
        parts = [f"{passed:,} passed", f"{stopped:,} did not"]
        parts += [f"{unreadable:,} not readable"] * (unreadable > 0)
        click.echo(f"{plural(total, 'message')}: {', '.join(parts)}")
    return int(unreadable > 0 or (require_all and stopped > 0))


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


def _answer(wanted: Filter, item: Item, now: int) -> _Answer:
    if item.fault:
        return _Answer(item.source, None, fault=item.fault)
    try:
        # A filter looks at sections; what rules a message breaks elsewhere does not matter to it.
        message = Message.decode(item.data, strict=False)
    except AmqpError as error:
        return _Answer(item.source, None, fault=str(error))
    reasons = wanted.explain(message, now=now)
    return _Answer(item.source, not reasons, reasons)


def _line(answer: _Answer, colored: bool) -> str:
    if answer.passes is None:
        verdict, color, rest = "error", "red", f": {answer.fault}"
    elif answer.passes:
        verdict, color, rest = "passes", "green", ""
    else:
        verdict, color = "does not pass", "yellow"
        rest = f": {'; '.join(map(str, answer.reasons))}"
    if colored:
        verdict = click.style(verdict, fg=color, bold=True)
    return f"{safe(answer.source)}: {verdict}{safe(rest)}"


def _as_json(answer: _Answer) -> dict[str, Any]:
    if answer.passes is None:
        return {"source": safe(answer.source), "error": answer.fault}
    return {
        "source": safe(answer.source),
        "passes": answer.passes,
        "reasons": [
            {
                "condition": reason.condition,
                "result": reason.result,
                "values": {name: notation.to_plain(value) for name, value in reason.values},
            }
            for reason in answer.reasons
        ],
    }
