"""Decoding and encoding of delivery states, termini and transactions."""

from __future__ import annotations

from typing import Any

from amqp10msg.composite import composite_of, decode_composite, encode_composite
from amqp10msg.delivery.transactions import Declare, Discharge
from amqp10msg.wire import kernel
from amqp10msg.wire.errors import NOT_IMPLEMENTED, DecodeError
from amqp10msg.wire.limits import DEFAULT_LIMITS, Limits

# Archetypes of this package that frames carry.
_ARCHETYPES = frozenset(
    ("delivery-state", "outcome", "source", "target", "lifetime-policy", "error")
)
# Without an archetype in Part 4: bodies of messages to a coordinator.
_BODIES = (Declare, Discharge)


def _belongs(cls: type) -> bool:
    return cls in _BODIES or not _ARCHETYPES.isdisjoint(composite_of(cls).provides)


def decode(
    data: bytes | bytearray | memoryview, *, limits: Limits | None = None, strict: bool = True
) -> Any:
    """Decode a delivery state, a terminus or a part of one.

    That is a delivery state or outcome (Part 3, 3.4; Part 4), a source, target or coordinator, a
    declare or discharge, a lifetime policy, an error (Part 2, 2.8.14), or a composite registered
    with `amqp10msg.composite.composite` that provides such an archetype.

    Args:
        data: one encoded described value.
        limits: limits on decoding; None for the defaults of `Limits`.
        strict: refuse what breaks the declaration. If False, fields of wrong types hold what came,
            such as the info of an error with strings as keys; missing ones are None, surplus ones
            are passed over. What is wrong, strict decoding says.

    Returns:
        An object of its class; a shared one for outcomes without fields and lifetime policies.

    Raises:
        DecodeError: the bytes are malformed, are none of these, or break their declaration.
    """
    octets = kernel.octets_of(data, limits or DEFAULT_LIMITS)
    made = decode_composite(octets, limits=limits, strict=strict)
    if not _belongs(type(made)):
        raise DecodeError(
            f"expected a delivery state, a terminus or a part of one, not a "
            f"{composite_of(type(made)).name}",
            0,
            rule="not-a-delivery-state",
            condition=NOT_IMPLEMENTED,
            data=octets,
        )
    return made


def encode(state: Any) -> bytes:
    """Encode what `decode` returns, with its numeric descriptor and in the shortest form.

    Raises:
        EncodeError: the value of a field is not of its declared type.
        TypeError: it is not a delivery state, a terminus or a part of one.
    """
    if not _belongs(type(state)):
        raise TypeError(
            f"expected a delivery state, a terminus or a part of one, not a {type(state).__name__}"
        )
    return encode_composite(state)
