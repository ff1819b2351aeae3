"""Options that are declared once, as fields of attrs classes, with what all places need of them.

From these fields come the arguments in Python, the options of the command line with their help, the
keys of a file of routes, the options of Spark's data source, and the tables in the documentation.
Nothing is here that would have ``--help`` wait for it. The options of a bridge and a server are in
`amqp10msg.net.options`, those of jobs here, since what runs jobs needs Arrow.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

import attrs

T = TypeVar("T")

#: The largest number of an option that sets none: seconds, about 31 years, and counts.
_MOST_SECONDS, _MOST = 1e9, 1 << 60


@attrs.frozen
class Option:
    """How an option is given, under the name of its field.

    Attributes:
        kind: the type of its value: int, float (seconds), bool for a flag, str, Path, dict for
            pairs that are repeated, or tuple for texts that are.
        help: what it is, for ``--help`` and the documentation.
        metavar: what stands for the value there.
        low: the least number; None for any.
        high: the largest; where None, what no number of seconds or messages reaches.
        choices: the texts that it takes; all where empty.
        flag: its name on the command line; ``--`` and the name of the field where empty, of a flag
            that is usually set ``--no-`` and that name. None where it has none.
        shown: its default, as ``--help`` shows it; that of the field where None, and empty to show
            none.
        default: its value on the command line where it is not given, if that is another than the
            field's.
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
        """Check a number.

        Raises:
            TypeError: it is none.
            ValueError: it is out of bounds.
        """
        high = self.high
        if high is None:
            high = _MOST_SECONDS if self.kind is float else _MOST
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
    """Return a field that is an option, with a default; a number is held to its bounds.

    A field with a converter is one of `attrs.field` itself, which type checkers look into.

    Args:
        default: of the field.
        kind: see `Option`, like `text`, `metavar` and `how`.
        text: the help.
        metavar: what stands for the value.
        validator: of the field; of a number, its bounds are checked instead.
        how: the rest.
    """
    if kind in {int, float}:
        validator = in_bounds
    metadata = option(kind, text, metavar, **how)
    return attrs.field(default=default, validator=validator, metadata=metadata)


def options_of(cls: type) -> Iterator[tuple[attrs.Attribute[Any], Option]]:
    """Yield the fields of a class that are options, and how each is given."""
    for field in attrs.fields(cls):
        if (how := field.metadata.get("option")) is not None:
            yield field, how


def in_bounds(_: Any, field: attrs.Attribute[Any], value: object) -> None:
    """Hold the number of an option to its bounds, as a validator of its field; None passes."""
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
    found = {}
    for field, how in options_of(cls):
        first, *others = field.name.split("_")
        found[first + "".join(map(str.capitalize, others))] = field, how
    return found


def from_spark(cls: type[T], given: Mapping[str, str]) -> T:
    """Return options that `to_spark` wrote; others in the map are passed over.

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
    """Write options as those of a data source; None is left out."""
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
    """What a job of ``pipeline`` is told besides its kind; also by the options of Spark's sink.

    Attributes:
        column: as of `amqp10msg.jobs.Job`, like `columns`, `profile` and `to`.
        columns: may be one text, separated by commas.
        profile: of the rules, or of the translation.
        to: the protocol to translate to.
        user: as of `amqp10msg.translate.Circumstances`, like the rest; empty for none.
        stream_offset: of all messages; None for none.
    """

    column: str = declared("wire", str, "The column of encoded messages in Parquet.")
    columns: tuple[str, ...] | None = attrs.field(
        default=None,
        converter=_columns,
        metadata=option(str, "Columns to decode, separated by commas; all by default."),
    )
    # The commands say these two themselves: what they mean, and their defaults, differ.
    profile: str | None = declared(None, str, flag=None)
    to: str = declared("1.0", str, flag=None)
    user: str = declared(
        "guest",
        str,
        "The user that the broker knows as sender, for its check of the user-id; empty for none.",
    )
    stream_offset: int | None = attrs.field(
        default=None,
        metadata=option(
            int, "The offset of the messages in a stream, the same for all; none by default."
        ),
    )
