"""Declarations of options, as fields of attrs classes with metadata.

These fields are the only source of arguments in Python, options of the command line with their
help, keys of a file of routes, options of Spark's data source, and tables of the documentation.
This module imports nothing slow, which ``--help`` would have to wait for. The options of jobs are
here, because the jobs need Arrow; those of the bridge are in `amqp10msg.net.options`, and those of
a server in `amqp10msg.net.server_options`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

import attrs

T = TypeVar("T")

#: Default upper bounds of options: seconds (about 31 years), and counts.
_MAX_SECONDS, _MAX_COUNT = 1e9, 1 << 60
#: The accepted types of each kind of option that is not a number, and their name in errors.
_TYPES: Mapping[type, tuple[tuple[type, ...], str]] = {
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
        metavar: the placeholder for the value there.
        low: the minimum; None for no minimum.
        high: the maximum; None for about 31 years, or 2^60.
        choices: the accepted texts; empty for any text.
        flag: the name on the command line. Empty for the name of the field, with ``--no-`` before
            it if the default is True; None for no option on the command line.
        shown: the default that ``--help`` shows; None for that of the field, empty to show none.
        default: the default on the command line, if it differs from that of the field.
    """

    kind: type
    help: str = ""
    metavar: str | None = None
    low: float | None = 0
    high: float | None = None
    choices: tuple[str, ...] = ()
    flag: str | None = ""
    shown: str | None = None
    default: Any = None

    def check(self, name: str, value: object) -> None:
        """Check a value that Python or a file gives for the option `name`.

        Raises:
            TypeError: the value has the wrong type. The message omits the value unless a number was
                expected: it may be a URL with a password.
            ValueError: the number is out of bounds, or the text is not one of the choices.
        """
        if self.kind in {int, float}:
            self._check_number(name, value)
            return
        types, words = _TYPES[self.kind]
        if not isinstance(value, types) or (self.kind is tuple and isinstance(value, str)):
            raise TypeError(f"{name} must be {words}, not {type(value).__name__}")
        if self.choices and value not in self.choices:
            raise ValueError(f"{name} must be one of {', '.join(self.choices)}, not {value!r}")

    def _check_number(self, name: str, value: object) -> None:
        high = self.high
        if high is None:
            high = _MAX_SECONDS if self.kind is float else _MAX_COUNT
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise TypeError(f"{name} must be a number, not {value!r}")
        low = -high if self.low is None else self.low
        if not low <= value <= high:
            raise ValueError(f"{name} must be from {low:g} to {high:g}, not {value!r}")


def option(kind: type, text: str = "", metavar: str | None = None, **how: Any) -> dict[str, Any]:
    """Return the metadata of a field that is an option; the arguments are those of `Option`."""
    return {"option": Option(kind, text, metavar, **how)}


def declared(
    default: Any,
    kind: type,
    text: str = "",
    metavar: str | None = None,
    /,
    *,
    validator: Any = None,
    **how: Any,
) -> Any:
    """Return an attrs field for an option, which checks the value with `Option.check`.

    For a field with a converter, call `attrs.field` with `option` instead: type checkers take the
    type of the argument from the converter.

    Args:
        default: the default of the field.
        kind: the type of the value, see `Option`.
        text: the help.
        metavar: the placeholder for the value in the help.
        validator: an additional validator, called after `Option.check`.
        how: further arguments of `Option`.
    """
    validator = [check_option] if validator is None else [check_option, validator]
    metadata = option(kind, text, metavar, **how)
    return attrs.field(default=default, validator=validator, metadata=metadata)


def options_of(cls: type) -> Iterator[tuple[attrs.Attribute[Any], Option]]:
    """Yield the fields of a class that are options, with their declarations."""
    for field in attrs.fields(cls):
        if (how := field.metadata.get("option")) is not None:
            yield field, how


def check_option(_: Any, field: attrs.Attribute[Any], value: object) -> None:
    """Check an option as the validator of its field; None passes if it is the default."""
    if value is not None or field.default is not None:
        field.metadata["option"].check(field.name, value)


def shown_default(field: attrs.Attribute[Any], how: Option) -> str:
    """Return the default of an option, as ``--help`` and the documentation show it."""
    if how.shown is not None:
        return how.shown
    default = field.default if how.default is None else how.default
    if how.kind in {bool, dict, tuple} or default is None:
        return ""
    return f"{default:g}" if isinstance(default, float) else str(default)


def names_in_spark(cls: type) -> dict[str, tuple[attrs.Attribute[Any], Option]]:
    """Return the options of a class by their names in Spark, such as ``streamOffset``."""
    by_name = {}
    for field, how in options_of(cls):
        first, *others = field.name.split("_")
        by_name[first + "".join(map(str.capitalize, others))] = field, how
    return by_name


def from_spark(cls: type[T], given: Mapping[str, str]) -> T:
    """Parse options that `to_spark` wrote. Other options in the map are ignored.

    Raises:
        ValueError: a text is not of the option's type.
    """
    return cls(
        **{
            field.name: how.kind(given[name])
            for name, (field, how) in names_in_spark(cls).items()
            if given.get(name) is not None
        }
    )


def to_spark(options: object) -> dict[str, str]:
    """Return options as texts for a data source of Spark, without those that are None."""
    values = {
        name: getattr(options, field.name)
        for name, (field, _) in names_in_spark(type(options)).items()
    }
    return {
        name: ",".join(value) if isinstance(value, tuple) else str(value)
        for name, value in values.items()
        if value is not None
    }


def _columns(given: str | tuple[str, ...] | None) -> tuple[str, ...] | None:
    if isinstance(given, str):
        return tuple(name.strip() for name in given.split(",")) if given else None
    return given


@attrs.frozen(kw_only=True)
class JobOptions:
    """The options of a job of ``pipeline``, and of Spark's sink; see `amqp10msg.jobs.Job`.

    Attributes:
        column: the column of encoded messages.
        columns: the columns to decode; also a text with commas between the names.
        profile: the profile of the validation rules, or of the translation.
        to: the protocol to translate to.
        user: the user of the sender, see `amqp10msg.translate.Circumstances`; empty for no user.
        stream_offset: the stream offset of all messages; None if they are not in a stream.
    """

    column: str = declared("wire", str, "The column of encoded messages in Parquet.")
    columns: tuple[str, ...] | None = attrs.field(
        default=None,
        converter=_columns,
        metadata=option(str, "Columns to decode, separated by commas; all by default."),
    )
    # The commands declare these two themselves, with different meanings and defaults.
    profile: str | None = declared(None, str, flag=None)
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
