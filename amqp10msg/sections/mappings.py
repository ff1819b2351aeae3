"""The sections that are maps (Part 3, 3.2.2, 3.2.3, 3.2.5 and 3.2.9)."""

from __future__ import annotations

from amqp10msg.wire import kernel


class DeliveryAnnotations(kernel.Mapping):
    """What the sending peer tells the receiving peer, for this hop only (Part 3, 3.2.2).

    A dict. A key that is a str is a symbol, one that is an int is a ulong; the Python type of a
    value says its AMQP type. Both are checked when it is encoded (`EncodeError`).
    """

    __slots__ = ()


class MessageAnnotations(kernel.Mapping):
    """What is aimed at the infrastructure, propagated across every hop (Part 3, 3.2.3).

    A dict. A key that is a str is a symbol, one that is an int is a ulong; the Python type of a
    value says its AMQP type. Both are checked when it is encoded (`EncodeError`).
    """

    __slots__ = ()


class ApplicationProperties(kernel.Mapping):
    """Structured application data for filtering and routing (Part 3, 3.2.5).

    A dict with str keys; values are of simple types, not list, map or array. The Python type of a
    value says its AMQP type: a plain int is a long, ``UInt(5)`` a uint. Both are checked when it is
    encoded (`EncodeError`).
    """

    __slots__ = ()


class Footer(kernel.Mapping):
    """What can only be known once the bare message is complete: checksums (Part 3, 3.2.9).

    A dict. A key that is a str is a symbol, one that is an int is a ulong; the Python type of a
    value says its AMQP type. Both are checked when it is encoded (`EncodeError`).
    """

    __slots__ = ()
