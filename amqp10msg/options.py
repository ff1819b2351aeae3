"""Declarations of options, as fields of attrs classes with metadata.

These fields are the only source of arguments in Python, options of the command line with their
help, keys of a file of routes, options of Spark's data source, and tables of the documentation.
This module has no slow imports, because ``--help`` would wait for them. The options of jobs are
here, because the modules of the jobs import Arrow. `amqp10msg.net.bridge.options` has the options
of the bridge, and `amqp10msg.net.server_options` the options of a server.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

import attrs

T = TypeVar("T")

#: Default maximum of options, for seconds (about 31 years), and for counts.
_MAX_SECONDS, _MAX_COUNT = 1e9, 1 << 60
#: The accepted types of each non-numeric kind of option, and their name in errors.
_ACCEPTED_TYPES: Mapping[type, tuple[tuple[type, ...], str]] = {
    bool: ((bool,), "true or false"),
    str: ((str,), "text"),
    Path: ((str, PathLike), "a path"),
    dict: ((Mapping,), "a table"),
    tuple: ((Iterable,), "a list of texts"),
}


@attrs.frozen
class Option:
    """The declaration of an option. Its name is the name of the field.

    Attributes:
        kind: the type of the value: int, float (seconds), bool for a flag, str, Path, dict for
            repeatable pairs, or tuple for repeatable texts.
        help: the description in ``--help`` and the documentation.
        metavar: the placeholder for the value in ``--help``.
        low: the minimum; None for no minimum.
        high: the maximum; None for about 31 years, or 2^60.
        choices: the accepted texts; empty for any text.
        flag: the name on the command line. Empty for the name of the field, with ``--no-`` before
            it if the default is True; None for no option on the command line.
        help_default: the default as ``--help`` shows it; None for the default of the field, empty
            to hide it.
        default: the default on the command line, if it differs from the default of the field.
    """

    kind: type
    help: str = ""
    metavar: str | None = None
    low: float | None = 0
    high: float | None = None
    choices: tuple[str, ...] = ()
    flag: str | None = ""
    help_default: str | None = None
    default: Any = None

    def check(self, name: str, value: object) -> None:
        """Check the value of the option `name`, which comes from Python or from a file.

        Raises:
            TypeError: the value has the wrong type. The message omits the value unless a number was
                expected: it may be a URL with a password.
            ValueError: the number is out of bounds, or the text is not a valid choice.
        """
        if self.kind in {int, float}:
            self._check_number(name, value)
            return
        types, words = _ACCEPTED_TYPES[self.kind]
        if not isinstance(value, types) or (self.kind is tuple and isinstance(value, str)):
            raise TypeError(f"{name} must be {words}, not {type(value).__name__}")
        if self.choices and value not in self.choices:
            raise ValueError(f"{name} must be one of {', '.join(self.choices)}, not {value!r}")

    def _check_number(self, name: str, value: object) -> None:
        """Check a numeric value as `check`."""
        high = self.high
        if high is None:
            high = _MAX_SECONDS if self.kind is float else _MAX_COUNT
        types, words = (int, "a whole number") if self.kind is int else (int | float, "a number")
        if isinstance(value, bool) or not isinstance(value, types):
            raise TypeError(f"{name} must be {words}, not {value!r}")
        low = -high if self.low is None else self.low
        if not low <= value <= high:
            bounds = " to ".join(f"{n:,.0f}" if n == int(n) else f"{n:g}" for n in (low, high))
            raise ValueError(f"{name} must be from {bounds}, not {value!r}")


def option(
    kind: type, text: str = "", metavar: str | None = None, **details: Any
) -> dict[str, Any]:
    """Return the metadata of a field that is an option; `details` are passed to `Option`."""
    return {"option": Option(kind, text, metavar, **details)}


def declared(
    default: Any,
    kind: type,
    text: str = "",
    metavar: str | None = None,
    /,
    *,
    validator: Any = None,
    **details: Any,
) -> Any:
    """Return an attrs field for an option; its validator is `Option.check`.

    For a field with a converter, call `attrs.field` with `option` instead: type checkers
    derive the type of the argument from the converter.

    Args:
        default: the default of the field.
        kind: the type of the value, see `Option`.
        text: the help.
        metavar: the placeholder for the value in the help.
        validator: an additional validator, called after `Option.check`.
        details: further arguments of `Option`.
    """
    validator = [check_option] if validator is None else [check_option, validator]
    metadata = option(kind, text, metavar, **details)
    return attrs.field(default=default, validator=validator, metadata=metadata)


def options_of(cls: type) -> Iterator[tuple[attrs.Attribute[Any], Option]]:
    """Yield the fields of a class that are options, with their declarations."""
    for field in attrs.fields(cls):
        if (declaration := field.metadata.get("option")) is not None:
            yield field, declaration


def check_option(_: Any, field: attrs.Attribute[Any], value: object) -> None:
    """Check the value of an option; an attrs validator. None is valid if it is the default."""
    if value is not None or field.default is not None:
        field.metadata["option"].check(field.name, value)


def shown_default(field: attrs.Attribute[Any], declaration: Option) -> str:
    """Return the default of an option, as ``--help`` and the documentation show it."""
    if declaration.help_default is not None:
        return declaration.help_default
    default = field.default if declaration.default is None else declaration.default
    if declaration.kind in {bool, dict, tuple} or default is None:
        return ""
    return f"{default:g}" if isinstance(default, float) else str(default)


def names_in_spark(cls: type) -> dict[str, tuple[attrs.Attribute[Any], Option]]:
    """Return the options of a class by their names in Spark, such as ``streamOffset``."""
    by_name = {}
    for field, declaration in options_of(cls):
        first_word, *more_words = field.name.split("_")
        by_name[first_word + "".join(map(str.capitalize, more_words))] = field, declaration
    return by_name


def from_spark(cls: type[T], texts: Mapping[str, str]) -> T:
    """Parse options that `to_spark` has converted to texts; ignore unknown names in `texts`.

    Raises:
        ValueError: a text is not of the option's type.
    """
    return cls(
        **{
            field.name: _value_of_text(name, declaration.kind, texts[name])
            for name, (field, declaration) in names_in_spark(cls).items()
            if texts.get(name) is not None
        }
    )


def _value_of_text(name: str, kind: type, text: str) -> Any:
    """Convert the text of an option to its kind; ValueError if the text is invalid."""
    if kind is not bool:
        return kind(text)
    if text.lower() not in {"true", "false"}:
        raise ValueError(f"{name} must be true or false, got {text!r}")
    return text.lower() == "true"


def _text_of_value(value: Any) -> str:
    """Return the text of an option's value; the inverse of `_value_of_text`."""
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(value) if isinstance(value, tuple) else str(value)


def to_spark(options: object) -> dict[str, str]:
    """Return options as texts for a data source of Spark; options that are None are omitted."""
    values = {
        name: getattr(options, field.name)
        for name, (field, _) in names_in_spark(type(options)).items()
    }
    return {name: _text_of_value(value) for name, value in values.items() if value is not None}


def _columns(columns: str | tuple[str, ...] | None) -> tuple[str, ...] | None:
    """Split a text of column names separated by commas; an attrs converter."""
    if isinstance(columns, str):
        return tuple(name.strip() for name in columns.split(",")) if columns else None
    return columns


@attrs.frozen(kw_only=True)
class JobOptions:
    """The options of a job of ``pipeline``, and of Spark's sink; see `amqp10msg.jobs.Job`.

    Attributes:
        column: the column of encoded messages.
        columns: the columns to decode, as a tuple, or as a text with commas between the names.
        profile: the profile of the validation rules, or of the translation.
        rules: the path of a Python file with validation rules to add to the profile, see
            `amqp10msg.rule`.
        rules_text: the text of that file; None to read it.
        to: the protocol to translate to, ``1.0`` or ``0-9-1``.
        user: the user of the sender, see `amqp10msg.translate.Circumstances`; empty for no user.
        stream_offset: the stream offset of all messages; None if they are not in a stream.
        lenient: whether invalid messages are decoded as far as possible.
    """

    column: str = declared("wire", str, "The column of encoded messages in Parquet.")
    columns: tuple[str, ...] | None = attrs.field(
        default=None,
        converter=_columns,
        metadata=option(
            str,
            "Columns to decode, separated by commas; all by default. Sections that no column needs "
            "are not read, and damage in them is not detected: --profile oasis reads all.",
        ),
    )
    # Each command declares its own options --profile and --to, with different meanings and
    # defaults.
    profile: str | None = declared(None, str, flag=None)
    rules: str | None = declared(
        None,
        str,
        "Also check the rules that this Python file defines, with amqp10msg.rule.",
        "FILE",
    )
    rules_text: str | None = declared(None, str, flag=None)
    to: str = declared("1.0", str, flag=None)
    user: str = declared(
        "guest",
        str,
        "The sender's user, for the broker's check of the user-id; empty for none.",
    )
    stream_offset: int | None = attrs.field(
        default=None,
        metadata=option(int, "The offset of all messages in a stream; none by default."),
    )
    lenient: bool = declared(
        False,
        bool,
        "Keep the readable values of invalid messages, with the error in error_code, error_clause "
        "and error_offset; only unreadable messages are quarantined.",
    )
