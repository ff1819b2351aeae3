# cython: language_level=3, annotation_typing=False, auto_pickle=False
"""The constructor of the integer classes, which checks the range.

This is a separate module so that it can be compiled: in Python, this constructor took half of the
time of creating a number.
"""

from __future__ import annotations

from typing import Any

from amqp10msg.wire.errors import wrong_type


class Bounded:
    """A base class that limits integers to the range from its subclass's `min` to `max`."""

    __slots__ = ()

    # The check is in __init__, so that the decoder can skip it: it calls only __new__, with values
    # that are in range.
    def __init__(self, value: Any = 0, /) -> None:
        number: Any = self
        cls: Any = type(self)
        if type(value) is not int and not hasattr(value, "__index__"):
            # int() would accept `value`, and truncate or parse it.
            name = cls.__name__
            raise wrong_type(
                name, "an int", value, f"if it is a number, {name}(int({value!r:.40}))"
            )
        if not cls.min <= number <= cls.max:
            raise ValueError(f"{cls.__name__} holds {cls.min} to {cls.max}, not {int(number)}")
