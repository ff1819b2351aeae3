"""Delivery states, termini and transactions from and to octets."""

from __future__ import annotations

from typing import Any

from amqp10msg import _core
from amqp10msg.composite import composite_of, decode_composite, encode_composite
from amqp10msg.delivery.transactions import Declare, Discharge
from amqp10msg.errors import NOT_IMPLEMENTED, DecodeError
from amqp10msg.limits import DEFAULT_LIMITS, Limits

__all__ = ["decode", "encode"]

# What the frames carry that this package is about.
_ARCHETYPES = frozenset(
    ("delivery-state", "outcome", "source", "target", "lifetime-policy", "error")
)
# Part 4 gives these no archetype: they are bodies of messages to a coordinator.
_BODIES = (Declare, Discharge)


def _belongs(cls: type) -> bool:
    return cls in _BODIES or not _ARCHETYPES.isdisjoint(composite_of(cls).provides)


def decode(data: bytes | bytearray | memoryview, *, limits: Limits | None = None) -> Any:
    """Decode a delivery state, a terminus, or what stands in one, that fills the input.

    That is a delivery state or outcome (Part 3, 3.4; Part 4), a source, target or coordinator, a
    declare or discharge, a lifetime policy or an error (Part 2, 2.8.14), and what was registered
    with `amqp10msg.composite.composite` to provide the like.

    Args:
        data: the encoded described value.
        limits: what decoding may cost; the defaults of `Limits` where None.

    Returns:
        An object of its class. Outcomes without fields and lifetime policies are shared objects.

    Raises:
        DecodeError: the octets are malformed, are none of these, or break their declaration.
    """
    octets = _core.octets_of(data, limits or DEFAULT_LIMITS)
    made = decode_composite(octets, limits=limits)
    if not _belongs(type(made)):
        raise DecodeError(
            f"a {composite_of(type(made)).name} is no delivery state, no terminus and no part of "
            "one",
            0,
            rule="not-a-delivery-state",
            condition=NOT_IMPLEMENTED,
            data=octets,
        )
    return made


def encode(state: Any) -> bytes:
    """Encode what `decode` reads, with its numeric descriptor and in the smallest form.

    Raises:
        EncodeError: a field's value is not what the declaration says; the error says which.
        TypeError: it is no delivery state, no terminus and no part of one.
    """
    if not _belongs(type(state)):
        raise TypeError(
            f"a {type(state).__name__} is no delivery state, no terminus and no part of one"
        )
    return encode_composite(state)
