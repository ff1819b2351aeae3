"""The application-properties section (Part 3, 3.2.5)."""

from __future__ import annotations

from typing import Any

__all__ = ["ApplicationProperties"]


class ApplicationProperties(dict[Any, Any]):
    """Structured application data for filtering and routing (Part 3, 3.2.5).

    A dict with str keys; values are of simple types, not list, map or array. The Python type of a
    value says its AMQP type: a plain int is a long, ``UInt(5)`` a uint.
    """

    __slots__ = ()
