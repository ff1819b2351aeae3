"""The three sections that are annotations: symbol or ulong keys (Part 3, 3.2.10)."""

from __future__ import annotations

from typing import Any

__all__ = ["DeliveryAnnotations", "Footer", "MessageAnnotations"]


class DeliveryAnnotations(dict[Any, Any]):
    """What the sending peer tells the receiving peer, for this hop only (Part 3, 3.2.2).

    A dict. A key that is a str is a symbol, one that is an int is a ulong; the Python type of a
    value says its AMQP type.
    """

    __slots__ = ()


class MessageAnnotations(dict[Any, Any]):
    """What is aimed at the infrastructure, propagated across every hop (Part 3, 3.2.3).

    A dict. A key that is a str is a symbol, one that is an int is a ulong; the Python type of a
    value says its AMQP type.
    """

    __slots__ = ()


class Footer(dict[Any, Any]):
    """What can only be known once the bare message is complete: checksums (Part 3, 3.2.9).

    A dict. A key that is a str is a symbol, one that is an int is a ulong; the Python type of a
    value says its AMQP type.
    """

    __slots__ = ()
