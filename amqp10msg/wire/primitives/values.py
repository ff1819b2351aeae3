"""Values without their wire types."""

from __future__ import annotations

from typing import Any

from amqp10msg.wire.primitives.compounds import AmqpMap, Array, Described, pairs_of
from amqp10msg.wire.primitives.floats import Float, _Decimal
from amqp10msg.wire.primitives.integers import Timestamp, _Integer


def plain(value: Any) -> Any:
    """Return a value without its wire type, as the nearest natural Python value.

    Integers become int, a float or double float, a char, string or symbol str, a decimal
    decimal.Decimal, a timestamp an aware datetime (or an int of milliseconds outside the years
    that datetime can hold), arrays and lists list, maps dict where dict can hold them, and of a
    described value what is described.
    """
    if isinstance(value, Timestamp):
        try:
            return value.to_datetime()
        except ValueError:
            return int(value)
    if isinstance(value, _Integer):
        return int(value)
    if isinstance(value, Float):
        return float(value)
    if isinstance(value, str):
        return str(value)
    if isinstance(value, _Decimal):
        return value.to_decimal()
    if isinstance(value, (list, Array)):
        return [plain(item) for item in value]
    if isinstance(value, Described):
        return plain(value.value)
    if isinstance(value, (dict, AmqpMap)):
        pairs = [(plain(key), plain(item)) for key, item in pairs_of(value)]
        try:
            made = dict(pairs)
        except TypeError:
            return pairs
        return made if len(made) == len(pairs) else pairs
    return value
