"""The sections that are maps (Part 3, 3.2.2, 3.2.3, 3.2.5 and 3.2.9)."""

from __future__ import annotations

from typing import Any

__all__ = ["ApplicationProperties", "DeliveryAnnotations", "Footer", "MessageAnnotations"]


def _reduced(section: Any) -> tuple[Any, ...]:
    """Say how a section is copied and pickled, the same in both builds."""
    state = getattr(section, "__dict__", None) or None
    return type(section), (), state, None, iter(section.items())


class DeliveryAnnotations(dict):  # type: ignore[type-arg]
    """What the sending peer tells the receiving peer, for this hop only (Part 3, 3.2.2).

    A dict. A key that is a str is a symbol, one that is an int is a ulong; the Python type of a
    value says its AMQP type.
    """

    __slots__ = ()

    def __reduce__(self) -> tuple[Any, ...]:
        return _reduced(self)


class MessageAnnotations(dict):  # type: ignore[type-arg]
    """What is aimed at the infrastructure, propagated across every hop (Part 3, 3.2.3).

    A dict. A key that is a str is a symbol, one that is an int is a ulong; the Python type of a
    value says its AMQP type.
    """

    __slots__ = ()

    def __reduce__(self) -> tuple[Any, ...]:
        return _reduced(self)


class ApplicationProperties(dict):  # type: ignore[type-arg]
    """Structured application data for filtering and routing (Part 3, 3.2.5).

    A dict with str keys; values are of simple types, not list, map or array. The Python type of a
    value says its AMQP type: a plain int is a long, ``UInt(5)`` a uint.
    """

    __slots__ = ()

    def __reduce__(self) -> tuple[Any, ...]:
        return _reduced(self)


class Footer(dict):  # type: ignore[type-arg]
    """What can only be known once the bare message is complete: checksums (Part 3, 3.2.9).

    A dict. A key that is a str is a symbol, one that is an int is a ulong; the Python type of a
    value says its AMQP type.
    """

    __slots__ = ()

    def __reduce__(self) -> tuple[Any, ...]:
        return _reduced(self)
