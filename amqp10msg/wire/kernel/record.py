"""What classes of attributes derive from to be made fast, in Python: `record.pyx` does it in C."""

from __future__ import annotations


class Record:
    """What a class derives from whose calls are parsed in C, where the kernel is compiled."""

    __slots__ = ()


def make_fast(cls: type, **plain: tuple[type, ...]) -> None:
    """Have the calls of a class parsed in C; here, its own ``__init__`` does it.

    Args:
        cls: a class with slots that derives from `Record`. Each parameter of its ``__init__`` has
            the name of the attribute that it sets.
        plain: for parameters that are not always taken as they are, the types of which they are;
            where one is of another, the class's own ``__init__`` is called.
    """
