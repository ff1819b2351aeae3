"""``amqp10msg filter``: show which messages pass a filter, and why others do not."""

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
from amqp10msg.app.cli._output import Sink, json_text, print_error, safe, use_color
from amqp10msg.filter_languages import FILTER_LANGUAGES
from amqp10msg.wire.errors import AmqpError, EncodeError
from amqp10msg.wire.text import plural

if TYPE_CHECKING:
    from collections.abc import Iterable

    from amqp10msg.app.cli._input import Inputs
    from amqp10msg.app.inspector.reading import Item
    from amqp10msg.delivery.filters import Filter, Reason
    from amqp10msg.message import Message

# The colours of the verdicts, in the order of the summary.
_VERDICT_COLORS = {"passed": "green", "stopped": "yellow", "unreadable": "red"}


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
    help="The language of EXPR: a JMS selector, an SQL filter expression (RabbitMQ's, or more of "
    "the OASIS draft), a topic pattern, or a subject.",
)
@click.option(
    "--dialect",
    type=LateChoice(_dialects),
    metavar="DIALECT",
    help="With --language sql: whose evaluation to apply: rabbitmq, oasis, or a version such as "
    "rabbitmq-4.3, which reproduces that broker's deviations from the draft.",
)
@click.option(
    "--now",
    type=int,
    metavar="MS",
    help="The result of UTC() in the expression, in milliseconds since 1970; by default, the "
    "current time.",
)
@click.option(
    "--require-all", is_flag=True, help="Also exit with status 1 if a message does not pass."
)
@click.option("-q", "--quiet", is_flag=True, help="Print only the counts.")
@click.option(
    "--out",
    "target",
    type=click.Choice(TARGETS),
    metavar="FORMAT",
    default="jsonl",
    show_default=True,
    help="The format in which --output writes the messages that pass; see convert for the formats.",
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
    """Show which messages pass a filter, and why others do not.

    EXPR is the filter, by default a JMS message selector. SOURCES are files, directories, hex or
    base64, or - for standard input, which is the default; see validate.

    The command prints one line per message: that it passes, or the conditions that failed with the
    values they used. The counts come last. With --output, it also writes the messages that pass, in
    the format of --out and otherwise unchanged. With -o -, standard output holds only those
    messages, and the report goes to standard error.

    The exit status is 0 if all messages could be read, whether they pass or not, and 1 if one could
    not; with --require-all, it is also 1 if a message does not pass. If EXPR is invalid, the status
    is 2, and a caret marks the error. A warning on standard error names each field or property in
    EXPR that no message sets.
    """
    from amqp10msg.app.cli._input import path_kind
    from amqp10msg.app.cli.convert import format_item
    from amqp10msg.delivery.filters.unset_names import UnsetNames

    if dialect is not None and language != "sql":
        raise click.UsageError("--dialect requires --language sql")
    if path_kind(expr) and inputs.has_only_texts and not _begins_with_message(inputs):
        raise click.UsageError(
            f"EXPR is the file or folder {expr!r}: write the expression first, then the sources"
        )
    if not expr.strip() and language != "sql":  # in SQL, it is a syntax error
        raise click.UsageError(
            "EXPR is empty: an empty selector would pass every message; is a shell variable unset?"
        )
    message_filter = _parse_filter(language, expr, dialect or "rabbitmq")
    if now is None:
        now = time.time_ns() // 1_000_000
    colored = use_color(color)
    only_messages = output is not None and str(output) == "-"
    counts: Counter[str] = Counter(dict.fromkeys(_VERDICT_COLORS, 0))
    unset = UnsetNames(message_filter)
    with Sink(output) as sink:
        if output is not None and not only_messages:
            sink.write("")  # create the file even if no message passes
        for item in inputs.messages():
            message, fault = _decode(item)
            reasons: tuple[Reason, ...] = ()
            if message is not None:
                reasons = message_filter.explain(message, now=now)
                unset.add(message)
            verdict = "unreadable" if fault else "stopped" if reasons else "passed"
            counts[verdict] += 1
            if output is not None and verdict == "passed":
                if target == "raw" and counts["passed"] > 1:
                    raise click.UsageError("--out raw allows a single message, but several pass")
                sink.write(format_item(item, target))
            if as_json:
                record = _as_json(item.source, reasons, fault)
                click.echo(json_text(record), err=only_messages)
            elif not quiet:
                texts = {"unreadable": "error", "stopped": "does not pass", "passed": "passes"}
                text = texts[verdict]
                if colored:
                    text = click.style(text, fg=_VERDICT_COLORS[verdict], bold=True)
                explanation = fault or "; ".join(map(str, reasons))
                suffix = safe(f": {explanation}") if explanation else ""
                line = f"{safe(item.source)}: {text}{suffix}"
                click.echo(line, color=colored, err=only_messages)
    for text in unset.texts():
        print_error(f"warning: {text}")
    if as_json:
        summary = {"summary": {"messages": counts.total(), **counts}}
        click.echo(json.dumps(summary), err=only_messages)
    else:
        parts = [f"{counts['passed']:,} passed", f"{counts['stopped']:,} did not"]
        parts += [f"{counts['unreadable']:,} not readable"] * (counts["unreadable"] > 0)
        click.echo(f"{plural(counts.total(), 'message')}: {', '.join(parts)}", err=only_messages)
    return int(counts["unreadable"] > 0 or (require_all and counts["stopped"] > 0))


def _begins_with_message(inputs: Inputs) -> bool:
    """Return whether the first of the texts on the command line begins like a message."""
    from amqp10msg.files.signatures import SECTION_START

    try:
        item = next(iter(inputs), None)
    except click.UsageError:
        return False
    return item is not None and SECTION_START.match(item.data) is not None


def _parse_filter(language: str, expr: str, dialect: Any) -> Filter:
    """Parse a filter. On a syntax error, print the expression with a caret; raise UsageError."""
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


def _decode(item: Item) -> tuple[Message | None, str]:
    """Return the message of an item, or None and why it cannot be read."""
    from amqp10msg.files.recognition import decode_whole

    if item.fault:
        return None, item.fault
    try:
        # Decode leniently: a filter can also be evaluated for a message that breaks rules.
        return decode_whole(item.data), ""
    except AmqpError as error:
        return None, item.explained(str(error))


def _as_json(source: str, reasons: tuple[Reason, ...], fault: str) -> dict[str, Any]:
    """Return the line of --json for a message as a JSON object.

    `reasons` are the conditions that it does not meet; `fault` is why it cannot be read.
    """
    if fault:
        return {"source": safe(source), "error": fault}
    from amqp10msg import notation

    conditions = [
        {
            "condition": reason.condition,
            "result": reason.result,
            "values": {name: notation.to_plain(value) for name, value in reason.values},
        }
        for reason in reasons
    ]
    return {"source": safe(source), "passes": not reasons, "reasons": conditions}
