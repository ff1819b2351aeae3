"""What all delivery states have in common, and the states of a message at a node."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, ClassVar, Self

from amqp10msg.composite import composite_of

__all__ = ["DeliveryState", "MessageState", "Shared"]


class MessageState(StrEnum):
    """Where a message at a node stands (Part 3, 3.3, figure 3.1)."""

    AVAILABLE = "available"
    ACQUIRED = "acquired"
    ARCHIVED = "archived"


class DeliveryState:
    """The state of a delivery at one end of a link (Part 3, 3.4).

    The base class of those that the specification defines. One of your own derives from it, too,
    and says in its declaration what it provides: ``delivery-state``, and ``outcome`` if it is one.
    """

    __slots__ = ()

    @property
    def is_outcome(self) -> bool:
        """It is an outcome, the result of processing, which no longer changes (Part 3, 3.4)."""
        return "outcome" in composite_of(type(self)).provides

    @property
    def is_terminal(self) -> bool:
        """It is terminal, which is to say an outcome (Part 3, 3.4)."""
        return self.is_outcome


class Shared:
    """The base of composites without fields: every object of such a class is the same one."""

    __slots__ = ()
    _the_one: ClassVar[Any]

    def __new__(cls) -> Self:
        """Return the only object of the class."""
        made = cls.__dict__.get("_the_one")
        if made is None:
            made = super().__new__(cls)
            cls._the_one = made
        shared: Self = made
        return shared
