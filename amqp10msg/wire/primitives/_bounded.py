# cython: language_level=3, annotation_typing=False, auto_pickle=False
"""The base of integers, which refuses what the AMQP type cannot hold.

It has a module of its own, which is compiled where there is a compiler, as calling it took half of
the time of making a number.
"""

from __future__ import annotations

from typing import Any

from amqp10msg.wire.errors import wrong_type


class Bounded:
    """An integer from `min` to `max`, both of which its class says."""

    __slots__ = ()

    # In __init__ and not in __new__, which the decoder calls with what is in range already.
    def __init__(self, value: Any = 0, /) -> None:
        number: Any = self
        cls: Any = type(self)
        if type(value) is not int and not hasattr(value, "__index__"):
            # int() takes it, and cuts off or parses.
            name = cls.__name__
            raise wrong_type(
                name, "an int", value, f"if it is a number, {name}(int({value!r:.40}))"
            )
        if not cls.min <= number <= cls.max:
            raise ValueError(f"{cls.__name__} holds {cls.min} to {cls.max}, not {int(number)}")
