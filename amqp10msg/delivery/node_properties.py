"""The standard properties of dynamic nodes, typed (Part 3, 3.5.9)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Self

import attrs

from amqp10msg.composite import COMPOSITES, composite_of, from_described
from amqp10msg.wire.errors import INVALID_FIELD, DecodeError
from amqp10msg.wire.primitives import Array, Described, Symbol

LIFETIME_POLICY = "lifetime-policy"
SUPPORTED_DIST_MODES = "supported-dist-modes"


def _to_tuple(modes: str | Iterable[str] | None) -> tuple[str, ...]:
    if modes is None:
        return ()
    return (str(modes),) if isinstance(modes, str) else tuple(str(mode) for mode in modes)


@attrs.frozen
class NodeProperties:
    """Properties of a dynamic node, as `Source` and `Target` carry them (Part 3, 3.5.9).

        Source(dynamic=True, dynamic_node_properties=NodeProperties(DeleteOnClose()).to_fields())

    Attributes:
        lifetime_policy: an object such as `DeleteOnClose`, a `Described` value of an extension, or
            None if the map has none.
        supported_dist_modes: the distribution modes of the node, such as `StdDistMode.MOVE`; a
            single one need not be in a tuple. Empty if the map has none.
        others: the other entries of the map, by symbol.
    """

    lifetime_policy: Any = None
    supported_dist_modes: tuple[str, ...] = attrs.field(default=(), converter=_to_tuple)
    others: Mapping[str, Any] = attrs.Factory(dict)

    @classmethod
    def from_fields(cls, properties: Mapping[str, Any] | None) -> Self:
        """Read the map of a terminus; None gives empty properties.

        Raises:
            DecodeError: lifetime-policy does not provide that archetype, or supported-dist-modes
                is neither a symbol nor an array of symbols.
        """
        others = dict(properties or {})
        policy = others.pop(LIFETIME_POLICY, None)
        modes = others.pop(SUPPORTED_DIST_MODES, None)
        if policy is not None:
            fault = policy_fault(policy)
            if fault:
                raise _wrong(fault, LIFETIME_POLICY)
            if isinstance(policy, Described) and policy.descriptor in COMPOSITES:
                policy = from_described(policy)
        if isinstance(modes, Array):
            if modes.values and modes.type != "symbol":
                raise _wrong(f"must be symbols, not {modes!r:.80}", SUPPORTED_DIST_MODES)
        elif modes is not None and not isinstance(modes, Symbol):
            raise _wrong(f"must be symbols, not {modes!r:.80}", SUPPORTED_DIST_MODES)
        return cls(policy, modes, others)

    def to_fields(self) -> dict[str, Any]:
        """Return the map for a terminus, with values that encode as the required types."""
        made: dict[str, Any] = {}
        if self.lifetime_policy is not None:
            made[LIFETIME_POLICY] = self.lifetime_policy
        modes = [Symbol(mode) for mode in self.supported_dist_modes]
        if modes:
            made[SUPPORTED_DIST_MODES] = modes[0] if len(modes) == 1 else Array("symbol", modes)
        return {**made, **self.others}


def policy_fault(policy: Any) -> str:
    """Return what is wrong with a lifetime policy; an empty string for an unknown extension."""
    if isinstance(policy, Described):
        descriptor = policy.descriptor
        known = COMPOSITES.get(descriptor) if isinstance(descriptor, (int, str)) else None
        if known is None or LIFETIME_POLICY in known.provides:
            return ""
    else:
        try:
            if LIFETIME_POLICY in composite_of(type(policy)).provides:
                return ""
        except TypeError:
            pass
    return f"must be a lifetime policy, such as DeleteOnClose(), not {policy!r:.80}"


def _wrong(reason: str, key: str) -> DecodeError:
    return DecodeError(
        reason,
        0,
        rule="node-properties",
        condition=INVALID_FIELD,
        path=f"dynamic-node-properties[{key!r}]",
    )
