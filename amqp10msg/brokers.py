"""The names that RabbitMQ's behaviour is known under: `RABBITMQ`, the one table of its series.

And those of its exchanges' types, and of what it says with a message.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Literal, TypeAlias, TypeVar

import attrs

T = TypeVar("T")

#: The types of exchanges that need no plugin.
EXCHANGE_TYPES = ("direct", "fanout", "topic", "headers")
#: Where reading a stream begins, by name; the second is its last chunk.
STREAM_PLACES = ("first", "last", "next")
#: A span of time as RabbitMQ writes it.
INTERVAL = re.compile(r"[0-9]+[YMDhms]")
#: The annotation, in 0-9-1 the header, with a message's offset in its stream.
STREAM_OFFSET = "x-stream-offset"
#: That with the value which filters of a stream look at.
STREAM_FILTER_VALUE = "x-stream-filter-value"
#: Those with how often a quorum queue delivered a message before, and how often one acquired it.
DELIVERY_COUNT, ACQUIRED_COUNT = "x-delivery-count", "x-acquired-count"
#: The annotation with the time at which RabbitMQ 4 received a message. To consumers of 0-9-1, it
#: delivers the annotation as the header ``timestamp_in_ms``.
RECEIVED_TIME = "x-opt-rabbitmq-received-time"
#: The annotation with the history of a message's deaths.
DEATHS = "x-opt-deaths"

#: The names of series where a profile is meant, for type checkers: those of `translations`.
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


@attrs.frozen
class Series:
    """A series of RabbitMQ.

    Attributes:
        name: such as ``4.1``.
        follows: the series, recorded from brokers, whose behaviour it is taken to have.
        basis: how that is known.
        has_streams: that is so of its streams, too.
        has_sql: it has filters of SQL for streams.
    """

    name: str
    follows: str
    basis: str
    has_streams: bool = True
    has_sql: bool = False

    @property
    def is_recorded(self) -> bool:
        """Whether it is one of those that were recorded."""
        return self.follows == self.name


#: The series by their names. ``4`` is the newest one of 4 that is known.
RABBITMQ: Mapping[str, Series] = {
    one.name: one
    for one in (
        Series("3.10", "3.10", "recorded, 3.10.8"),
        Series(
            "3.13",
            "3.10",
            "by its sources, the plugin converts as that of 3.10 does; streams do not",
            has_streams=False,
        ),
        Series("4.0", "4.0", "recorded, 4.0.5"),
        Series("4.1", "4.0", "by its sources, what 4.2 changed is as it was in 4.0"),
        Series(
            "4.2",
            "4.3",
            "by its sources, what does not say that it is durable is not, and a reply-to is an "
            "address, as in 4.3; by its documentation, queues count deliveries as in 4.0, so that "
            "they have a profile of their own; what else may differ is not known",
            has_sql=True,
        ),
        Series("4.3", "4.3", "recorded, 4.3.6", has_sql=True),
        Series("4", "4.3", "the newest one that is known", has_sql=True),
    )
}


def stream_start(text: str) -> str | int | None:
    """Return the place, the interval or the offset that a stream is read from; None for none."""
    if text.isascii() and text.isdecimal():
        return int(text)
    return text if text in STREAM_PLACES or INTERVAL.fullmatch(text) else None


class ByName(Mapping[str, T]):
    """Things by their names, and by other ones that they are known under, too.

    A thing is found under all of them; iteration and length are about its own name alone.

    Args:
        things: by their own names.
        others: other names, and the own name of each one's thing.
    """

    def __init__(self, things: Mapping[str, T], others: Mapping[str, str]) -> None:
        self._things = dict(things)
        self._others = {name: own for name, own in others.items() if name not in things}

    def __getitem__(self, name: str) -> T:
        return self._things[self._others.get(name, name)]

    def __iter__(self) -> Iterator[str]:
        return iter(self._things)

    def __len__(self) -> int:
        return len(self._things)

    @property
    def names(self) -> tuple[str, ...]:
        """All names, sorted: first those that are not series of a broker."""
        return tuple(sorted((*self._things, *self._others), key=_place))


def _place(name: str) -> tuple[bool, str]:
    return name.startswith("rabbitmq-"), name


def translations() -> dict[str, str]:
    """Return the profile of translation that each name of a series stands for."""
    return {
        f"rabbitmq-{one.name}{suffix}": f"rabbitmq-{one.follows}{suffix}"
        for one in RABBITMQ.values()
        for suffix in ("", "-stream")
        if one.has_streams or not suffix
    }


def rule_sets() -> dict[str, str]:
    """Return the set of rules that each name of a series stands for.

    RabbitMQ 3 takes what it does not look into, so no rules of its own are known.
    """
    return {
        name: "rabbitmq-4" if name.startswith("rabbitmq-4") else "oasis" for name in translations()
    }


def dialects() -> dict[str, str]:
    """Return the dialect of filters that each name of a series with filters of SQL stands for."""
    return {
        f"rabbitmq-{one.name}": f"rabbitmq-{one.follows}"
        for one in RABBITMQ.values()
        if one.has_sql
    }
