"""``amqp10msg filter``: which messages pass a filter, and why the others do not."""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from amqp10msg.app.cli._options import (
    TARGETS,
    LateChoice,
    color_option,
    json_option,
    messages_argument,
    output_option,
)
from amqp10msg.app.cli._output import Sink, json_text, safe, use_color
from amqp10msg.filter_languages import FILTER_LANGUAGES
from amqp10msg.wire.errors import AmqpError, EncodeError
from amqp10msg.wire.text import plural

if TYPE_CHECKING:
    from collections.abc import Iterable

    from amqp10msg.app.cli._input import Inputs
    from amqp10msg.app.inspector.reading import Item
    from amqp10msg.delivery.filters import Filter, Reason

# Verdicts, in the order of the summary.
_COLORS = {"passed": "green", "stopped": "yellow", "unreadable": "red"}


def _dialects() -> Iterable[str]:
    from amqp10msg.delivery.filters import DIALECTS

    return DIALECTS.names


@click.command(
    "filter",
    epilog="""
\b
Examples:
  amqp10msg filter "color = 'red' AND JMSPriority > 4" captured/
  amqp10msg filter --language sql "p.subject LIKE 'Order%'" messages.jsonl
  amqp10msg filter -l sql --dialect rabbitmq-4.3 "subject LIKE 'a_c'" captured
  amqp10msg filter "JMSPriority > 4" captured/ -o urgent.jsonl
  amqp10msg filter --json "a > 1" messages.jsonl | jq 'select(.passes).source'
""",
)
@click.argument("expr")
@click.option(
    "-l",
    "--language",
    type=click.Choice(FILTER_LANGUAGES),
    default="selector",
    show_default=True,
    help="What EXPR is: a JMS selector, an SQL filter expression as RabbitMQ has it or with more "
    "of the OASIS draft, a topic pattern or a subject.",
)
@click.option(
    "--dialect",
    type=LateChoice(_dialects),
    metavar="DIALECT",
    help="With --language sql: whose reading of values, rabbitmq, oasis or that of a version; "
    "rabbitmq-4.3 predicts that broker where it differs from the draft.",
)
@click.option(
    "--now",
    type=int,
    metavar="MS",
    help="The time for UTC(), in milliseconds since the Unix epoch; by default that of this run.",
)
@click.option(
    "--require-all", is_flag=True, help="Also exit with status 1 if a message does not pass."
)
@click.option("-q", "--quiet", is_flag=True, help="Show only the count.")
@click.option(
    "--out",
    "target",
    type=click.Choice(TARGETS),
    metavar="FORMAT",
    default="jsonl",
    show_default=True,
    help="The format in which --output writes the messages: one of those of convert.",
)
@output_option
@json_option
@messages_argument("-f", "--format")
@color_option
def filter_messages(
    expr: str,
    inputs: Inputs,
    target: str,
    output: Path | None,
    language: str,
    dialect: str | None,
    now: int | None,
    require_all: bool,
    quiet: bool,
    as_json: bool,
    color: bool | None,
) -> int:
    """Show which messages pass a filter, and why the others do not.

    EXPR is the filter, by default a JMS message selector; SOURCES are files, directories with
    everything below them, hex, base64, or - for standard input, as with validate.

    Each message is a line that says that it passes, or which conditions do not hold and what they
    saw; the count comes last. With --output, the messages that pass are also written, unchanged
    except for the format of --out; with -o - they are the only output, and the rest goes to
    standard error. The exit status is 0 if every message could be read, whether it passes or not,
    and 1 if one could not; with --require-all it is also 1 if one does not pass. An EXPR with an
    error gives 2, and a caret marks the place.
    """
    from amqp10msg.app.cli.convert import written

    if dialect is not None and language != "sql":
        raise click.UsageError("--dialect is for --language sql")
    wanted = _filter(language, expr, dialect or "rabbitmq")
    if now is None:
        now = time.time_ns() // 1_000_000
    colored = use_color(color)
    aside = output is not None and str(output) == "-"
    counts: Counter[str] = Counter(dict.fromkeys(_COLORS, 0))
    with Sink(output) as sink:
        if output is not None and not aside:
            sink.write("")  # where none passes the file is there, too
        for item in inputs.some():
            reasons, fault = _explained(wanted, item, now)
            verdict = "unreadable" if fault else "stopped" if reasons else "passed"
            counts[verdict] += 1
            if output is not None and verdict == "passed":
                if target == "raw" and counts["passed"] > 1:
                    raise click.UsageError("--out raw is for one message, and more pass")
                sink.write(written(item.data, target))
            if as_json:
                shown = _as_json(item.source, reasons, fault)
                click.echo(json_text(shown), err=aside)
            elif not quiet:
                said = {"unreadable": "error", "stopped": "does not pass", "passed": "passes"}
                verdict_shown = said[verdict]
                if colored:
                    verdict_shown = click.style(verdict_shown, fg=_COLORS[verdict], bold=True)
                why = fault or "; ".join(map(str, reasons))
                rest = safe(f": {why}") if why else ""
                line = f"{safe(item.source)}: {verdict_shown}{rest}"
                click.echo(line, color=colored, err=aside)
    if as_json:
        summary = {"summary": {"messages": counts.total(), **counts}}
        click.echo(json.dumps(summary), err=aside)
    else:
        parts = [f"{counts['passed']:,} passed", f"{counts['stopped']:,} did not"]
        parts += [f"{counts['unreadable']:,} not readable"] * (counts["unreadable"] > 0)
        click.echo(f"{plural(counts.total(), 'message')}: {', '.join(parts)}", err=aside)
    return int(counts["unreadable"] > 0 or (require_all and counts["stopped"] > 0))


def _filter(language: str, expr: str, dialect: Any) -> Filter:
    """Make the filter, or end the command with what is wrong with it."""
    from amqp10msg.delivery import filters
    from amqp10msg.delivery.filters import ExpressionError

    try:
        if language == "sql":
            return filters.SqlFilter(expr, dialect=dialect)
        return filters.LANGUAGES[language](expr)
    except ExpressionError as error:
        for line in error.excerpt.split("\n"):
            click.echo(f"amqp10msg filter: {safe(line)}", err=True)
        raise click.UsageError(f"EXPR, {error}") from None
    except EncodeError as error:
        raise click.UsageError(f"EXPR: {error.reason}") from None


def _explained(wanted: Filter, item: Item, now: int) -> tuple[tuple[Reason, ...], str]:
    """Return why an item does not pass, and why it cannot be read; both are empty if it passes."""
    from amqp10msg.files.recognition import decode_whole

    if item.fault:
        return (), item.fault
    try:
        # A filter looks at sections; what rules a message breaks elsewhere does not matter to it.
        message = decode_whole(item.data)
    except AmqpError as error:
        return (), item.explained(str(error))
    return wanted.explain(message, now=now), ""


def _as_json(source: str, reasons: tuple[Reason, ...], fault: str) -> dict[str, Any]:
    if fault:
        return {"source": safe(source), "error": fault}
    from amqp10msg import notation

    shown = [
        {
            "condition": reason.condition,
            "result": reason.result,
            "values": {name: notation.to_plain(value) for name, value in reason.values},
        }
        for reason in reasons
    ]
    return {"source": safe(source), "passes": not reasons, "reasons": shown}
