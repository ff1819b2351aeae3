"""RabbitMQ's version series and their behaviour (`RABBITMQ`), and names that RabbitMQ defines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from operator import attrgetter
from typing import Any, Literal, TypeAlias, TypeVar, overload

import attrs

T = TypeVar("T")
_Default = TypeVar("_Default")

# Maximum number of characters of an unknown name to compare with the valid names.
_MAX_COMPARED_NAME_LENGTH = 80

#: The exchange types that need no plugin.
EXCHANGE_TYPES = ("direct", "fanout", "topic", "headers")
#: The named offsets of a stream. ``last`` is the beginning of its last chunk.
NAMED_STREAM_OFFSETS = ("first", "last", "next")
#: A time interval in RabbitMQ's notation.
INTERVAL_PATTERN = re.compile(r"[0-9]+[YMDhms]")
#: The annotation (in 0-9-1, the header) with the offset of a message in its stream.
STREAM_OFFSET = "x-stream-offset"
#: The annotation or header with the filter value of a message in a stream.
STREAM_FILTER_VALUE = "x-stream-filter-value"
#: The annotations or headers with the counts of earlier deliveries and acquisitions (quorum
#: queues).
DELIVERY_COUNT, ACQUIRED_COUNT = "x-delivery-count", "x-acquired-count"
#: The annotation with the time at which RabbitMQ 4 received a message. Consumers of 0-9-1 receive
#: it as the header ``timestamp_in_ms``.
RECEIVED_TIME = "x-opt-rabbitmq-received-time"
#: The annotation with the history of dead-lettering of a message.
DEATHS = "x-opt-deaths"

#: The names of profiles of RabbitMQ, for type checkers: the keys of `translations`.
SeriesName: TypeAlias = Literal[
    "rabbitmq-3.10",
    "rabbitmq-3.10-stream",
    "rabbitmq-3.13",
    "rabbitmq-4",
    "rabbitmq-4-stream",
    "rabbitmq-4.0",
    "rabbitmq-4.0-stream",
    "rabbitmq-4.1",
    "rabbitmq-4.1-stream",
    "rabbitmq-4.2",
    "rabbitmq-4.2-stream",
    "rabbitmq-4.3",
    "rabbitmq-4.3-stream",
]


def unknown_name(kind: str, name: object, names: Iterable[str]) -> str:
    """Return the error text for an unknown name, with the most similar name and all names.

    Args:
        kind: what the names name, such as ``profile``.
        name: the unknown name.
        names: the valid names.
    """
    from difflib import get_close_matches  # noqa: PLC0415  (only errors need it)

    valid = list(names)
    similar = get_close_matches(str(name)[:_MAX_COMPARED_NAME_LENGTH], valid, 1)
    hint = f" (did you mean {similar[0]!r}?)" if similar else ""
    return f"unknown {kind} {name!r:.80}{hint}: use one of {', '.join(valid)}"


def by_attribute(entries: Iterable[T], name: str, kind: str) -> dict[str, T]:
    """Return entries of a table by an attribute, such as their ``name``.

    Args:
        entries: the entries.
        name: the attribute, a str, or a path such as ``field.name``.
        kind: what the entries are, for the error.

    Raises:
        ValueError: two entries have the same name. One of them would never be used.
    """
    result: dict[str, T] = {}
    for entry in entries:
        key = attrgetter(name)(entry)
        if key in result:
            raise ValueError(f"two entries of the table have the name {key!r}: rename a {kind}")
        result[key] = entry
    return result


class ByName(Mapping[str, T]):
    """A read-only mapping by name, with aliases; a KeyError lists the names and the nearest one.

    Iteration and length do not include the aliases.

    Args:
        values: the values by name.
        aliases: the name in `values` for each alias; None for no aliases.
        kind: what the names name, for the error.

    Raises:
        ValueError: an alias stands for a name that is not in `values`.
    """

    def __init__(
        self,
        values: Mapping[str, T],
        aliases: Mapping[str, str] | None = None,
        *,
        kind: str = "profile",
    ) -> None:
        self._values = dict(values)
        by_alias = {}
        for alias, name in (aliases or {}).items():
            if name not in self._values:
                raise ValueError(f"{alias} stands for an {unknown_name(kind, name, self._values)}")
            by_alias[alias] = self._values[name]
        self._by_any_name = by_alias | self._values
        self._kind = kind

    def __getitem__(self, name: str) -> T:
        try:
            return self._by_any_name[name]
        except KeyError:
            raise KeyError(unknown_name(self._kind, name, self.names)) from None

    # `Mapping` would compute the error text for each missing name.
    @overload
    def get(self, name: str, /) -> T | None: ...

    @overload
    def get(self, name: str, /, default: T | _Default) -> T | _Default: ...

    def get(self, name: str, /, default: Any = None) -> Any:
        """Return the value of a name or alias, or `default` if there is none."""
        return self._by_any_name.get(name, default)

    def __contains__(self, name: object) -> bool:
        return name in self._by_any_name

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    @property
    def names(self) -> tuple[str, ...]:
        """All names and aliases; if there are aliases, sorted, with RabbitMQ's at the end."""
        if len(self._by_any_name) == len(self._values):
            return tuple(self._values)
        return tuple(sorted(self._by_any_name, key=_sort_key))


def _sort_key(name: str) -> tuple[bool, str]:
    """Return the sort key of a name for `ByName.names`."""
    return name.startswith("rabbitmq-"), name


@attrs.frozen
class Series:
    """A release series of RabbitMQ. The behaviour of some series was recorded with brokers.

    Attributes:
        name: the version, such as ``4.1``.
        follows: the recorded series that has the same behaviour; a key of `RABBITMQ`.
        basis: the evidence that it has the same behaviour as `follows`.
        has_streams: whether its streams also behave like the streams of `follows`.
        has_sql: whether it supports SQL filter expressions for streams.
    """

    name: str
    follows: str
    basis: str
    has_streams: bool = True
    has_sql: bool = False

    @property
    def is_recorded(self) -> bool:
        """Whether its behaviour was recorded, instead of inferred."""
        return self.follows == self.name


def series_by_name(entries: Iterable[Series]) -> ByName[Series]:
    """Return release series by name.

    Raises:
        ValueError: a series follows one that is not an entry; the error names the nearest one.
    """
    by_name = by_attribute(entries, "name", "series of RabbitMQ")
    for series in by_name.values():
        if series.follows not in by_name:
            problem = unknown_name("series of RabbitMQ", series.follows, by_name)
            raise ValueError(f"the series {series.name} follows an {problem}")
    return ByName(by_name, kind="series of RabbitMQ")


#: The series by name. ``4`` is the newest series of version 4 that this library supports.
RABBITMQ: Mapping[str, Series] = series_by_name(
    (
        Series("3.10", "3.10", "recorded, 3.10.8"),
        Series(
            "3.13",
            "3.10",
            "by its sources, the plugin converts as that of 3.10 does; streams do not",
            has_streams=False,
        ),
        Series("4.0", "4.0", "recorded, 4.0.5"),
        Series("4.1", "4.0", "by its sources, it has none of the changes of 4.2"),
        Series(
            "4.2",
            "4.3",
            "by its sources, unset durable fields mean not durable, and a reply-to is an address, "
            "as in 4.3; by its documentation, queues count deliveries as in 4.0, so that they have "
            "a profile of their own; other differences are unknown",
            has_sql=True,
        ),
        Series("4.3", "4.3", "recorded, 4.3.6", has_sql=True),
        Series("4", "4.3", "the newest known series", has_sql=True),
    )
)


def stream_start(text: str) -> str | int | None:
    """Parse the position at which to start reading a stream; None if `text` is invalid.

    A position is a named offset, an interval, or a number.
    """
    if text.isascii() and text.isdecimal():
        return int(text)
    return text if text in NAMED_STREAM_OFFSETS or INTERVAL_PATTERN.fullmatch(text) else None


def translations() -> dict[str, str]:
    """Map the translation profile of each series to the profile of the series that it follows."""
    return {
        f"rabbitmq-{series.name}{suffix}": f"rabbitmq-{series.follows}{suffix}"
        for series in RABBITMQ.values()
        for suffix in ("", "-stream")
        if series.has_streams or not suffix
    }


def rule_sets() -> dict[str, str]:
    """Map the profiles of all series to validation profiles.

    RabbitMQ 3 accepts sections without decoding them: only the rules of the standard apply to it.
    """
    return {
        name: "rabbitmq-4" if name.startswith("rabbitmq-4") else "oasis" for name in translations()
    }


def dialects() -> dict[str, str]:
    """Map the profiles of series with SQL filter expressions to the dialects of SQL."""
    return {
        f"rabbitmq-{series.name}": f"rabbitmq-{series.follows}"
        for series in RABBITMQ.values()
        if series.has_sql
    }
