"""Options and arguments that several commands share.

To keep ``--help``, ``--version`` and shell completion fast, a command imports most modules only
when it runs.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

import click

from amqp10msg.app.cli._output import is_terminal

if TYPE_CHECKING:
    from pathlib import Path

    from click.shell_completion import CompletionItem

    from amqp10msg.app.cli._input import Selection
    from amqp10msg.files import FileFormat
    from amqp10msg.options import Option
    from amqp10msg.validation import Profile

# Descriptions of the text formats and notations of messages, by name.
_NOTATIONS = {
    "hex": "hex digits; also with spaces, colons or 0x, and dumps of xxd or hexdump",
    "base64": "standard or URL-safe alphabet",
    "typed": "JSON with the type of every value: lossless",
    "plain": "JSON as people write it, with types only if they matter",
    "cbor": "lossless and compact",
}
#: The output formats, which are the values of --out.
TARGETS = ("typed", "plain", "cbor", "hex", "base64", "jsonl", "raw", "prefixed")


def format_descriptions() -> dict[str, str]:
    """Return the description of each input format of ``convert``, by name."""
    return {name: item.description for name, item in file_formats().items()} | _NOTATIONS


def file_formats() -> Mapping[str, FileFormat]:
    """Return the file formats, by name."""
    from amqp10msg.files import FORMATS

    return FORMATS


def format_help(names: Iterable[str]) -> str:
    """Return the help of the option ``--format`` of a command that reads the formats `names`."""
    *others, last = names
    return f"The format of the input; guessed by default. One of {', '.join(others)} or {last}."


_C = TypeVar("_C", bound=Callable[..., Any])


class LateChoice(click.Choice[str]):
    """A click choice whose values are computed when they are needed, because importing is slow."""

    def __init__(self, names: Callable[[], Iterable[str]]) -> None:
        self._names = names
        self.case_sensitive = True

    @property
    def choices(self) -> tuple[str, ...]:  # type: ignore[override]  # an attribute in click
        """The names that the option accepts."""
        return tuple(self._names())


class _LateHelp:
    """Computes the help of an option or command when it is shown, because importing is slow.

    `help_of` returns the help.
    """

    def __init__(self, *args: Any, help_of: Callable[[], str], **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._help_of = help_of

    @property
    def help(self) -> str:
        """The text that ``--help`` shows."""
        return self._help_of()

    @help.setter
    def help(self, text: str | None) -> None:
        """Ignore `text`, which click's constructor sets."""


class LateHelpOption(_LateHelp, click.Option):  # type: ignore[misc]  # an attribute in click
    """An option whose help is computed when it is shown."""


class LateHelpCommand(_LateHelp, click.Command):  # type: ignore[misc]  # an attribute in click
    """A command whose help is computed when it is shown."""


class TranslationChoice(LateChoice):
    """A click choice of translation profiles, which explains names of other profiles."""

    def __init__(self) -> None:
        super().__init__(translations)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name; click's errors, with advice for a profile that only has rules."""
        if value not in self.choices and value in _validation_profiles():
            self.fail(
                f"{value!r} has rules, but no translation: use validate --profile {value}",
                param,
                ctx,
            )
        return super().convert(value, param, ctx)


def format_option(
    *names: str, formats: Callable[[], Iterable[str]], **settings: Any
) -> Callable[[_C], _C]:
    """Return the option for the format of the input, as the argument `form` of the command.

    Args:
        names: the flags of the option.
        formats: returns the formats to choose from, in addition to ``auto``.
        settings: further arguments of `click.option`.
    """
    return click.option(
        *names,
        "form",
        cls=LateHelpOption,
        type=LateChoice(lambda: ["auto", *formats()]),
        metavar="FORMAT",
        help_of=lambda: format_help(formats()),
        **settings,
    )


class FilePath(click.Path):
    """A click type for the path of a file that may not exist; ``-`` only with `allow_dash`."""

    def __init__(self, *, allow_dash: bool = False) -> None:
        super().__init__(dir_okay=False, allow_dash=allow_dash)

    def coerce_path_result(self, value: Any) -> Path:
        """Return `value` as a Path."""
        from pathlib import Path

        return Path(value)


def translations() -> Iterable[str]:
    """Return the names of the translation profiles."""
    from amqp10msg.translate import PROFILES

    return PROFILES.names


class _SelectionType(click.ParamType["Selection"]):
    """The click type of ``--select``."""

    name = "numbers"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Selection:
        """Parse a selection such as ``3,17-20``; raise click's BadParameter if it is invalid."""
        from amqp10msg.app.cli._input import Selection

        try:
            return value if isinstance(value, Selection) else Selection.of(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


color_option = click.option(
    "--color/--no-color",
    "color",
    default=None,
    help="Colour the output or not. By default, this depends on the terminal and on NO_COLOR.",
)

output_option = click.option(
    "-o",
    "--output",
    "output",
    type=FilePath(allow_dash=True),
    help="Write the output to this file instead of standard output.",
)


def _validation_profiles() -> Iterable[str]:
    from amqp10msg.validation import PROFILES

    return PROFILES.names


profile_option = click.option(
    "--profile",
    type=LateChoice(_validation_profiles),
    metavar="PROFILE",
    default="oasis",
    show_default=True,
    help="The set of rules to check: oasis, azure, or a broker's, such as rabbitmq-4. See the "
    "reference for all.",
)


rules_option = click.option(
    "--rules",
    type=FilePath(),
    metavar="FILE",
    help="Also check the rules that this Python file defines, with amqp10msg.rule.",
)


def profile_with(profile: str, rules: Path | None) -> Profile:
    """Return the profile of ``--profile`` with the rules of ``--rules``.

    Raises:
        click.UsageError: the file of rules cannot be read or is invalid.
    """
    from amqp10msg.validation import profile_of

    if rules is None:
        return profile_of(profile)
    from amqp10msg.message.rules import profile_with_rules

    try:
        return profile_with_rules(profile, rules.read_text(encoding="utf-8"), str(rules))
    except (OSError, ValueError) as error:
        raise rules_error(error) from None


def rules_error(error: OSError | ValueError) -> click.UsageError:
    """Return the error for a file of ``--rules`` that cannot be read, or is invalid."""
    if isinstance(error, FileNotFoundError):
        return click.UsageError(f"--rules: {error.filename}: no such file")
    if isinstance(error, OSError) and error.filename is not None:
        return click.UsageError(f"--rules: {error.filename}: {error.strerror or error}")
    return click.UsageError(f"--rules: {error}")


def number_option(
    flag: str,
    default: float | None,
    text: str,
    low: float = 1,
    *,
    high: int | None = None,
    metavar: str = "NUMBER",
) -> Callable[..., Any]:
    """Return an option for a number from `low` to `high`: a float if `low` is one, else an int."""
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
    help="Write JSON lines instead: an object for each message, then an object with the summary.",
)

target_option = click.option(
    "--to",
    "target",
    type=click.Choice(["1.0", "0-9-1"]),
    required=True,
    help="The protocol to translate to: AMQP 1.0, or 0-9-1 (class basic).",
)


def printing_option(flag: str, text: Callable[[], str], help_text: str) -> Callable[..., Any]:
    """Return an option that prints `text()` and exits."""

    def show(context: click.Context, _: click.Parameter, is_set: bool) -> None:
        if is_set and not context.resilient_parsing:
            click.echo(text())
            context.exit()

    return click.option(
        flag, is_flag=True, is_eager=True, expose_value=False, callback=show, help=help_text
    )


def _default_to_stdin(
    context: click.Context, _: click.Parameter, value: tuple[str, ...]
) -> tuple[str, ...]:
    """Return ``-`` if no source is given; raise UsageError if standard input is a terminal."""
    if value or context.resilient_parsing:
        return value
    if is_terminal(sys.stdin):
        raise click.UsageError("no input: name files, pass hex or base64, or pipe messages in")
    return ("-",)


def _completions(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Have the shell complete file names, because most sources are files."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file")]


_sources_argument = click.argument(
    "sources", nargs=-1, callback=_default_to_stdin, shell_complete=_completions
)

_max_size_option = click.option(
    "--max-size",
    type=click.IntRange(min=1),
    show_default="256 MiB",
    metavar="BYTES",
    help="Reject messages that are larger than this in the input.",
)

#: ``--trust-files``, for commands that read files.
trust_option = click.option(
    "--trust-files",
    "is_trusted",
    is_flag=True,
    help="Lift the limits on expansion, for trusted files only: gzip, Parquet and Avro files can "
    "expand enormously, and some records take no bytes at all.",
)

_select_option = click.option(
    "--select",
    type=_SelectionType(),
    metavar="NUMBERS",
    help="Process only these messages, such as 3,17-20. Numbers count from 1 over the whole input.",
)


def messages_argument(
    *names: str, form: str = "auto", basic: bool = False
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that adds the argument SOURCES and the options for reading to a command.

    The command gets the messages as the keyword argument `inputs`, an `Inputs`.

    Args:
        names: the flags of the option for the input format, such as ``--format``. Without flags,
            the command has neither this option nor --select.
        form: the input format, or the default of the option.
        basic: also accept messages of AMQP 0-9-1.
    """

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def run(
            sources: tuple[str, ...],
            max_size: int | None,
            is_trusted: bool,
            select: Selection | None = None,
            form: str = form,
            **values: Any,
        ) -> Any:
            from amqp10msg.app.cli._input import Inputs

            with Inputs(
                sources,
                form,
                max_size,
                is_trusted=is_trusted,
                select=select,
                basic=basic,
                color=values.get("color"),
            ) as inputs:
                return command(inputs=inputs, **values)

        decorated = _max_size_option(trust_option(run))
        if names:
            option = format_option(
                *names, formats=format_descriptions, default=form, show_default=True
            )
            decorated = option(_select_option(decorated))
        return _sources_argument(decorated)

    return decorate


# Options that are generated from attrs fields.


def _parse_pairs(
    _: click.Context, option: click.Parameter, texts: tuple[str, ...]
) -> dict[str, str]:
    """Parse the values NAME=VALUE of a repeatable option."""
    pairs = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise click.BadParameter(f"{text!r} must be {option.metavar}.")
        pairs[name] = value
    return pairs


def declared_options(
    options: type,
    inserted_before: Mapping[str, Iterable[Callable[..., Any]]] = MappingProxyType({}),
    only: Collection[str] = (),
    helps: Mapping[str, str] = MappingProxyType({}),
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that adds to a command the options that a class declares.

    Args:
        options: an attrs class whose fields are declared with `amqp10msg.options`.
        inserted_before: {field name: further options to add before the option of this field}.
        only: the names of the fields to add; all if empty.
        helps: {field name: help text to use instead of the declared help text}.
    """
    decorators: list[Callable[..., Any]] = []
    # Import late, because the module imports attrs, which `amqp10msg --help` does not need.
    from amqp10msg.options import options_of

    for field, option in options_of(options):
        if option.flag is not None and (not only or field.name in only):
            decorators += (
                *inserted_before.get(field.name, ()),
                _option_of_field(field, option, helps.get(field.name, option.help)),
            )

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        return functools.reduce(
            lambda decorated, add: add(decorated), reversed(decorators), command
        )

    return decorate


def _option_of_field(field: Any, option: Option, help_text: str) -> Callable[..., Any]:
    """Return the click option for `field`, an attribute declared with `amqp10msg.options`."""
    from amqp10msg.options import shown_default

    default = shown_default(field, option)
    settings: dict[str, Any] = {
        "metavar": option.metavar or ("NUMBER" if option.kind in {int, float} else None),
        "help": f"{help_text}  [default: {default}]" if default else help_text,
        "default": option.default,
    }
    name = field.name.replace("_", "-")
    if option.kind is bool:
        is_on = field.default is True  # if so, the flag is --no-NAME and sets the field to False
        name = f"no-{name}" if is_on else name
        settings |= {"is_flag": True, "flag_value": not is_on}
    elif option.kind is dict:
        settings |= {"multiple": True, "callback": _parse_pairs}
    elif option.kind is tuple:
        settings["multiple"] = True
    elif option.kind.__name__ == "Path":
        settings["type"] = FilePath()
    elif option.choices:
        settings["type"] = click.Choice(option.choices)
    elif option.low is None:
        settings["type"] = option.kind
    elif option.kind is not str:
        number_type: Any = click.IntRange if option.kind is int else click.FloatRange
        settings["type"] = number_type(option.low, option.high)
    return click.option(option.flag or f"--{name}", field.name, **settings)


def given_options(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return only the options that the user gave: drop None, and the empty values {} and ()."""
    return {name: value for name, value in values.items() if value not in (None, {}, ())}
