"""The entries of filters that are maps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from amqp10msg.delivery.filters._base import FilterLimits
from amqp10msg.wire.errors import EncodeError
from amqp10msg.wire.primitives import AmqpMap


def entries_of(
    symbol: str, entries: Any, not_of: type | tuple[type, ...], limits: FilterLimits
) -> dict[Any, Any]:
    """Return the entries of a map whose keys are strings.

    Args:
        symbol: the filter, for the error.
        entries: a mapping or an AmqpMap.
        not_of: subclasses of str that a key must not have.
        limits: how many entries are allowed.

    Raises:
        EncodeError: it is not a map, a key is of another type or a duplicate, or there are too many
            or too few entries.
    """
    if isinstance(entries, AmqpMap):
        pairs = list(entries.pairs)
    elif isinstance(entries, Mapping):
        pairs = list(entries.items())
    else:
        raise EncodeError(f"{symbol} takes a map, not {type(entries).__name__}", "filter")
    for key, _ in pairs:
        if not isinstance(key, str) or isinstance(key, not_of):
            raise EncodeError(f"{symbol} has a key of the wrong type: {key!r}", "filter")
    made = dict(pairs)
    if len(made) != len(pairs):
        raise EncodeError(f"{symbol} has a duplicate key", "filter")
    if not limits.min_fields <= len(made) <= limits.fields:
        raise EncodeError(
            f"{symbol} has {len(made):,} entries: {limits.min_fields:,} to {limits.fields:,} "
            "are allowed",
            "filter",
        )
    return made
