"""Options and arguments that several commands take.

What a command works with is imported when it runs: ``--help``, ``--version`` and the completion of
the shell need not wait for it.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import click

from amqp10msg.app.cli._output import is_terminal

if TYPE_CHECKING:
    from pathlib import Path

    from click.shell_completion import CompletionItem

    from amqp10msg.app.cli._input import Selection
    from amqp10msg.options import Option

#: What --format takes.
FORMATS = (
    *("auto", "raw", "hex", "base64", "jsonl", "prefixed", "cborseq", "pcap", "parquet", "avro"),
    *("typed", "plain", "cbor"),
)


#: What --out takes.
TARGETS = ("typed", "plain", "cbor", "hex", "base64", "jsonl", "raw", "prefixed")


class LateChoice(click.Choice[str]):
    """A choice among names that are looked up when they are needed."""

    def __init__(self, names: Callable[[], Iterable[str]]) -> None:
        self._names = names
        self.case_sensitive = True

    @property
    def choices(self) -> tuple[str, ...]:  # type: ignore[override]  # click has an attribute
        """The names."""
        return tuple(self._names())


class FilePath(click.Path):
    """A file, which need not be there, as a Path; with `allow_dash`, also ``-``."""

    def __init__(self, *, allow_dash: bool = False) -> None:
        super().__init__(dir_okay=False, allow_dash=allow_dash)

    def coerce_path_result(self, value: Any) -> Path:
        """Make a Path of what was given."""
        from pathlib import Path

        return Path(value)


def translations() -> Iterable[str]:
    """Return the names of the profiles of translations."""
    from amqp10msg.translate import PROFILES

    return PROFILES.names


class _SelectionType(click.ParamType["Selection"]):
    name = "numbers"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Selection:
        """Read it, or end the command with what is wrong with it."""
        from amqp10msg.app.cli._input import Selection

        try:
            return value if isinstance(value, Selection) else Selection.of(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


color_option = click.option(
    "--color/--no-color",
    "color",
    default=None,
    help="Colour the output or not; by default as the terminal and NO_COLOR say.",
)

output_option = click.option(
    "-o",
    "--output",
    "output",
    type=FilePath(allow_dash=True),
    help="Write to this file instead of standard output.",
)


def _profiles() -> Iterable[str]:
    from amqp10msg.validation import PROFILES

    return PROFILES.names


profile_option = click.option(
    "--profile",
    type=LateChoice(_profiles),
    metavar="PROFILE",
    default="oasis",
    show_default=True,
    help="The rules to check against: oasis, azure, or those of a broker, such as rabbitmq-4. The "
    "reference names all.",
)


def number_option(
    flag: str,
    default: float | None,
    text: str,
    low: float = 1,
    *,
    high: int | None = None,
    metavar: str = "NUMBER",
) -> Callable[..., Any]:
    """Return an option that is a number, with a fraction where the least one has one."""
    kind: Any = click.FloatRange if type(low) is float else click.IntRange
    return click.option(
        flag,
        type=kind(low, high),
        metavar=metavar,
        default=default,
        show_default=True,
        help=text,
    )


json_option = click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Write one JSON object per line: one for each message, then one with the summary.",
)

target_option = click.option(
    "--to",
    "target",
    type=click.Choice(["1.0", "0-9-1"]),
    required=True,
    help="The protocol to translate to: AMQP 1.0, or class basic of 0-9-1.",
)


def showing_option(flag: str, text: Callable[[], str], help_text: str) -> Callable[..., Any]:
    """Return an option that shows a text and ends the command."""

    def show(context: click.Context, _: click.Parameter, wanted: bool) -> None:
        if wanted and not context.resilient_parsing:
            click.echo(text())
            context.exit()

    return click.option(
        flag, is_flag=True, is_eager=True, expose_value=False, callback=show, help=help_text
    )


def _or_stdin(
    context: click.Context, _: click.Parameter, value: tuple[str, ...]
) -> tuple[str, ...]:
    if value or context.resilient_parsing:
        return value
    if is_terminal(sys.stdin):
        raise click.UsageError("no messages are given: name files or hex, or pipe them in")
    return ("-",)


def _completions(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Let the shell complete names of files, which most sources are."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file")]


_sources_argument = click.argument(
    "sources", nargs=-1, callback=_or_stdin, shell_complete=_completions
)

_max_size_option = click.option(
    "--max-size",
    type=click.IntRange(min=1),
    show_default="256 MiB",
    metavar="BYTES",
    help="The largest size that a message may have in the input.",
)

#: For commands that read files.
trust_option = click.option(
    "--trust-files",
    "is_trusted",
    is_flag=True,
    help="Also read files that may expand enormously: gzip, Parquet, Avro, records without a byte.",
)

_select_option = click.option(
    "--select",
    type=_SelectionType(),
    metavar="NUMBERS",
    help="Take only these messages, such as 3,17-20, numbered over the whole input.",
)


def messages_argument(
    *names: str, form: str = "auto", basic: bool = False
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add SOURCES and the options of reading to a command, which gets them as `inputs`.

    The names are those of the option for the format of the input, which is `form` otherwise;
    `basic` takes messages of AMQP 0-9-1, too.
    """

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def run(
            sources: tuple[str, ...],
            max_size: int | None,
            is_trusted: bool,
            select: Selection | None = None,
            form: str = form,
            **others: Any,
        ) -> Any:
            from amqp10msg.app.cli._input import Inputs

            with Inputs(
                sources,
                form,
                max_size,
                is_trusted=is_trusted,
                select=select,
                basic=basic,
                color=others.get("color"),
            ) as inputs:
                return command(inputs=inputs, **others)

        decorated = _max_size_option(trust_option(run))
        if names:
            decorated = click.option(
                *names,
                "form",
                type=click.Choice(FORMATS),
                metavar="FORMAT",
                default=form,
                show_default=True,
                help="The format of the input, if it should not be guessed: "
                f"{', '.join(FORMATS[1:-1])} or {FORMATS[-1]}.",
            )(_select_option(decorated))
        return _sources_argument(decorated)

    return decorate


# Made of the fields that declare them.


def _pairs(_: click.Context, option: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals:
            raise click.BadParameter(f"{text!r} is not {option.metavar}.")
        found[name] = value
    return found


def declared_options(
    options: type,
    before: Mapping[str, Iterable[Callable[..., Any]]] = MappingProxyType({}),
    only: Collection[str] = (),
    helps: Mapping[str, str] = MappingProxyType({}),
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add to a command the options that a class declares by `amqp10msg.options`.

    Those that are not given are left out of `given_of`. `before` are other options, which stand
    before one of that name; `helps` is what the command says instead of the class.
    """
    made: list[Callable[..., Any]] = []
    # With attrs, which the help of all commands together need not import.
    from amqp10msg.options import options_of

    for field, how in options_of(options):
        if how.flag is not None and (not only or field.name in only):
            made += (
                *before.get(field.name, ()),
                _option(field, how, helps.get(field.name, how.help)),
            )

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        return functools.reduce(lambda found, add: add(found), reversed(made), command)

    return decorate


def _option(field: Any, how: Option, told: str) -> Callable[..., Any]:
    from amqp10msg.options import shown_default

    shown = shown_default(field, how)
    given: dict[str, Any] = {
        "metavar": how.metavar or ("NUMBER" if how.kind in {int, float} else None),
        "help": f"{told}  [default: {shown}]" if shown else told,
        "default": how.default,
    }
    name = field.name.replace("_", "-")
    if how.kind is bool:
        is_set = field.default is True  # then it is unset by --no-…
        name = f"no-{name}" if is_set else name
        given |= {"is_flag": True, "flag_value": not is_set}
    elif how.kind is dict:
        given |= {"multiple": True, "callback": _pairs}
    elif how.kind is tuple:
        given["multiple"] = True
    elif how.kind.__name__ == "Path":
        given["type"] = FilePath()
    elif how.choices:
        given["type"] = click.Choice(how.choices)
    elif how.low is None:
        given["type"] = how.kind
    elif how.kind is not str:
        of_numbers: Any = click.IntRange if how.kind is int else click.FloatRange
        given["type"] = of_numbers(how.low, how.high)
    return click.option(how.flag or f"--{name}", field.name, **given)


def given_of(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that are given: without None, and what may be repeated and is not."""
    return {name: value for name, value in values.items() if value not in (None, {}, ())}
