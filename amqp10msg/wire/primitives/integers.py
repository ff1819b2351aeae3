"""The integers of Part 1, and the timestamp, which is one."""

from __future__ import annotations

import datetime as _datetime
from typing import TYPE_CHECKING, Any, ClassVar, Self

from amqp10msg.wire.primitives._bounded import Bounded


class _Integer(int, Bounded):
    """An integer that knows its AMQP type and refuses what is out of its range."""

    __slots__ = ()
    min: ClassVar[int]
    max: ClassVar[int]

    if TYPE_CHECKING:
        # That of Bounded, which stands after int among the bases.
        def __init__(self, value: Any = 0, /) -> None: ...

    def __repr__(self) -> str:
        return f"{type(self).__name__}({int(self)})"

    def __str__(self) -> str:
        return int.__repr__(self)


class UByte(_Integer):
    """An AMQP ubyte, 0 to 255."""

    __slots__ = ()
    min, max = 0, 2**8 - 1


class UShort(_Integer):
    """An AMQP ushort, 0 to 65,535."""

    __slots__ = ()
    min, max = 0, 2**16 - 1


class UInt(_Integer):
    """An AMQP uint, 0 to 2^32 - 1."""

    __slots__ = ()
    min, max = 0, 2**32 - 1


class ULong(_Integer):
    """An AMQP ulong, 0 to 2^64 - 1."""

    __slots__ = ()
    min, max = 0, 2**64 - 1


class Byte(_Integer):
    """An AMQP byte, -128 to 127."""

    __slots__ = ()
    min, max = -(2**7), 2**7 - 1


class Short(_Integer):
    """An AMQP short, -32,768 to 32,767."""

    __slots__ = ()
    min, max = -(2**15), 2**15 - 1


class Int(_Integer):
    """An AMQP int, -2^31 to 2^31 - 1. A plain Python int is an AMQP long."""

    __slots__ = ()
    min, max = -(2**31), 2**31 - 1


_EPOCH = _datetime.datetime(1970, 1, 1, tzinfo=_datetime.UTC)
_MILLISECOND = _datetime.timedelta(milliseconds=1)


class Timestamp(_Integer):
    """An AMQP timestamp: milliseconds since the Unix epoch, the whole range of int64."""

    __slots__ = ()
    min, max = -(2**63), 2**63 - 1

    @classmethod
    def from_datetime(cls, moment: _datetime.datetime) -> Self:
        """Take an aware datetime; what is finer than a millisecond is cut off towards the past.

        Raises:
            ValueError: the datetime has no time zone.
        """
        if moment.tzinfo is None:
            raise ValueError("a datetime needs a time zone, such as datetime.UTC")
        return cls((moment - _EPOCH) // _MILLISECOND)

    def to_datetime(self) -> _datetime.datetime:
        """Return the moment as an aware datetime in UTC.

        Raises:
            ValueError: the moment is outside the years 1 to 9999 that datetime can hold.
        """
        try:
            return _EPOCH + _datetime.timedelta(milliseconds=int(self))
        except OverflowError:
            raise ValueError(
                f"{int(self)} ms is outside the years 1 to 9999 that datetime can hold: "
                "use the number of milliseconds itself"
            ) from None
