"""Filters that are maps: their entries, and how many of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from amqp10msg.delivery.filters._base import FilterLimits
from amqp10msg.errors import EncodeError
from amqp10msg.primitives import AmqpMap

__all__ = ["checked_size", "entries_of"]


def entries_of(symbol: str, entries: Any, not_of: type | tuple[type, ...]) -> dict[Any, Any]:
    """Take the entries of a map, with keys that are str.

    Args:
        symbol: the filter, for the error.
        entries: a mapping, or an AmqpMap where it came as one.
        not_of: types that a key must not have, though they are str.

    Raises:
        EncodeError: it is no map, or a key is of another type or stands twice.
    """
    if isinstance(entries, AmqpMap):
        pairs = list(entries.pairs)
    elif isinstance(entries, Mapping):
        pairs = list(entries.items())
    else:
        raise EncodeError(f"{symbol} takes a map, not {type(entries).__name__}", "filter")
    for key, _ in pairs:
        if not isinstance(key, str) or isinstance(key, not_of):
            raise EncodeError(f"a key of {symbol} is {key!r}, which is of the wrong type", "filter")
    made = dict(pairs)
    if len(made) != len(pairs):
        raise EncodeError(f"a key of {symbol} stands there twice", "filter")
    return made


def checked_size(symbol: str, entries: Mapping[Any, Any], limits: FilterLimits) -> None:
    """Refuse more or fewer entries than allowed.

    Raises:
        EncodeError: there are.
    """
    if not limits.min_fields <= len(entries) <= limits.fields:
        raise EncodeError(
            f"{symbol} has {len(entries):,} entries: {limits.min_fields:,} to {limits.fields:,} "
            "are allowed",
            "filter",
        )
