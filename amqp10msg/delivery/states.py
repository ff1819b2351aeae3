"""The base class of delivery states, and the states of a message at a node."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, ClassVar, Self

from amqp10msg.composite import composite_of


class MessageState(StrEnum):
    """The state of a message at a node (Part 3, 3.3, figure 3.1)."""

    AVAILABLE = "available"
    ACQUIRED = "acquired"
    ARCHIVED = "archived"


class DeliveryState:
    """The state of a delivery at one end of a link (Part 3, 3.4).

    The base class of the states that the specification defines, and of your own, whose declaration
    provides ``delivery-state`` and, if it is an outcome, ``outcome``.
    """

    __slots__ = ()

    @property
    def is_outcome(self) -> bool:
        """Whether it is an outcome, the final result of processing (Part 3, 3.4)."""
        return "outcome" in composite_of(type(self)).provides

    @property
    def is_terminal(self) -> bool:
        """Whether it is terminal, which every outcome is (Part 3, 3.4)."""
        return self.is_outcome


class Shared:
    """The base class of composites without fields, which have one shared object per class."""

    __slots__ = ()
    _the_one: ClassVar[Any]

    def __new__(cls) -> Self:
        """Return the object of the class."""
        made = cls.__dict__.get("_the_one")
        if made is None:
            made = super().__new__(cls)
            cls._the_one = made
        shared: Self = made
        return shared
