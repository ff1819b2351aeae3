"""Sources and targets, and the properties of dynamic nodes (Part 3, 3.5.3 to 3.5.13)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum, StrEnum
from typing import Annotated, Any, Self

import attrs

from amqp10msg.composite import COMPOSITES, composite, composite_of, from_described, rows
from amqp10msg.delivery.states import DeliveryState, Singleton, any_outcome
from amqp10msg.wire.errors import INVALID_FIELD, DecodeError
from amqp10msg.wire.primitives import (
    Array,
    Described,
    Symbol,
    WireType,
    boolean,
    fields,
    seconds,
    symbols,
)


class TerminusDurability(IntEnum):
    """What is durable in a terminus (Part 3, 3.5.5)."""

    NONE = 0
    CONFIGURATION = 1
    UNSETTLED_STATE = 2


class TerminusExpiryPolicy(StrEnum):
    """When the expiry timer of a terminus starts (Part 3, 3.5.6)."""

    LINK_DETACH = "link-detach"
    SESSION_END = "session-end"
    CONNECTION_CLOSE = "connection-close"
    NEVER = "never"


class StdDistMode(StrEnum):
    """How messages are distributed among links (Part 3, 3.5.7)."""

    MOVE = "move"
    COPY = "copy"


durability = Annotated[
    TerminusDurability, WireType("uint", "terminus-durability", enum=TerminusDurability)
]
expiry_policy = Annotated[
    TerminusExpiryPolicy, WireType("symbol", "terminus-expiry-policy", enum=TerminusExpiryPolicy)
]
# Not `StdDistMode`, because extensions may define other modes.
distribution_mode = Annotated[str, WireType("symbol", requires="distribution-mode")]
terminus_address = Annotated[Any, WireType("*", requires="address")]
filter_set = Annotated[dict[Any, Any], WireType("map", "filter-set")]


def _filter_map(value: Mapping[Any, Any] | None) -> Any:
    """Return the map of a `FilterSet`, and any other value unchanged; an attrs converter."""
    if isinstance(value, dict | None):
        return value
    from amqp10msg.delivery.filters import FilterSet  # noqa: PLC0415  (rarely needed)

    return value.to_map() if isinstance(value, FilterSet) else value


class Terminus:
    """The base class of sources and targets."""

    __slots__ = ()

    @property
    def is_minimal(self) -> bool:
        """Whether all fields are unset (Part 3, 3.5.3 and 3.5.4).

        A minimal source is sufficient for a container that only produces messages, and a minimal
        target for a container that only consumes them.
        """
        return all(getattr(self, row.name) == row.default for row in rows(type(self)))


@composite("amqp:source:list", 0x28, provides=("source",))
@attrs.define(kw_only=True)
class Source(Terminus):
    """The source of a link's messages (Part 3, 3.5.3).

    Attributes:
        address: the address of the node.
        durable: what is durable in the terminus.
        expiry_policy: when the expiry timer starts.
        timeout: how long an expiring source is retained, in seconds, 0 to 2^32 - 1.
        dynamic: whether the node is created on request.
        dynamic_node_properties: properties of the dynamic node, see `NodeProperties`.
        distribution_mode: ``move``, ``copy`` or an extension.
        filter: filters by symbol, each a described value or None. A `FilterSet` is converted to
            such a map.
        default_outcome: the outcome of deliveries that are settled without an outcome.
        outcomes: symbolic descriptors of the outcomes that a receiver can choose.
        capabilities: extensions that the sender supports or desires.
    """

    address: terminus_address | None = None
    durable: durability = TerminusDurability.NONE
    expiry_policy: expiry_policy = TerminusExpiryPolicy.SESSION_END
    timeout: seconds = 0
    dynamic: boolean = False
    dynamic_node_properties: fields | None = None
    distribution_mode: distribution_mode | None = None
    filter: filter_set | None = attrs.field(default=None, converter=_filter_map)
    default_outcome: any_outcome | None = None
    outcomes: symbols = ()
    capabilities: symbols = ()

    def supports(self, outcome: DeliveryState) -> bool:
        """Whether a receiver can choose an outcome on a link with this source (Part 3, 3.5.3).

        It can choose any of `outcomes`. If `outcomes` is empty, it can choose the default outcome,
        or accepted if there is no default outcome.
        """
        symbol = composite_of(type(outcome)).symbol
        if self.outcomes:
            return symbol in self.outcomes
        default = self.default_outcome
        if isinstance(default, DeliveryState):
            return symbol == composite_of(type(default)).symbol
        return default is None and symbol == "amqp:accepted:list"


@composite("amqp:target:list", 0x29, provides=("target",))
@attrs.define(kw_only=True)
class Target(Terminus):
    """The target of a link's messages (Part 3, 3.5.4).

    Attributes:
        address: the address of the node.
        durable: what is durable in the terminus.
        expiry_policy: when the expiry timer starts.
        timeout: how long an expiring target is retained, in seconds, 0 to 2^32 - 1.
        dynamic: whether the node is created on request.
        dynamic_node_properties: properties of the dynamic node, see `NodeProperties`.
        capabilities: extensions that the receiver supports or desires.
    """

    address: terminus_address | None = None
    durable: durability = TerminusDurability.NONE
    expiry_policy: expiry_policy = TerminusExpiryPolicy.SESSION_END
    timeout: seconds = 0
    dynamic: boolean = False
    dynamic_node_properties: fields | None = None
    capabilities: symbols = ()


_LIFETIME_POLICY_ARCHETYPES = ("lifetime-policy",)


@composite("amqp:delete-on-close:list", 0x2B, provides=_LIFETIME_POLICY_ARCHETYPES)
@attrs.frozen
class DeleteOnClose(Singleton):
    """The node is deleted when the link that created it ceases to exist (Part 3, 3.5.10)."""


@composite("amqp:delete-on-no-links:list", 0x2C, provides=_LIFETIME_POLICY_ARCHETYPES)
@attrs.frozen
class DeleteOnNoLinks(Singleton):
    """The node is deleted when no link has it as source or target (Part 3, 3.5.11)."""


@composite("amqp:delete-on-no-messages:list", 0x2D, provides=_LIFETIME_POLICY_ARCHETYPES)
@attrs.frozen
class DeleteOnNoMessages(Singleton):
    """The node is deleted when its creating link is gone and it is empty (Part 3, 3.5.12)."""


@composite("amqp:delete-on-no-links-or-messages:list", 0x2E, provides=_LIFETIME_POLICY_ARCHETYPES)
@attrs.frozen
class DeleteOnNoLinksOrMessages(Singleton):
    """The node is deleted when it has neither links nor messages (Part 3, 3.5.13)."""


# Create the singletons at import, before two threads could create two.
for _policy in (DeleteOnClose, DeleteOnNoLinks, DeleteOnNoMessages, DeleteOnNoLinksOrMessages):
    _policy()


#: Keys of the node properties (Part 3, 3.5.9).
LIFETIME_POLICY = "lifetime-policy"
SUPPORTED_DIST_MODES_KEY = "supported-dist-modes"


def _modes_to_tuple(modes: str | Iterable[str] | None) -> tuple[str, ...]:
    """Convert a distribution mode, several or None to a tuple: an attrs converter."""
    if modes is None:
        return ()
    return (str(modes),) if isinstance(modes, str) else tuple(str(mode) for mode in modes)


@attrs.frozen
class NodeProperties:
    """Properties of a dynamic node in a `Source` or `Target` (Part 3, 3.5.9).

        Source(dynamic=True, dynamic_node_properties=NodeProperties(DeleteOnClose()).to_fields())

    Attributes:
        lifetime_policy: an object such as `DeleteOnClose`, a `Described` value of an extension, or
            None.
        supported_dist_modes: the distribution modes of the node, such as `StdDistMode.MOVE`. The
            constructor also accepts a single mode.
        others: the remaining entries of the map, by symbol.
    """

    lifetime_policy: Any = None
    supported_dist_modes: tuple[str, ...] = attrs.field(default=(), converter=_modes_to_tuple)
    others: Mapping[str, Any] = attrs.Factory(dict)

    @classmethod
    def from_fields(cls, properties: Mapping[str, Any] | None) -> Self:
        """Return the properties in the map of a terminus; None means an empty map.

        Raises:
            DecodeError: lifetime-policy is not a lifetime policy, or supported-dist-modes is
                neither a symbol nor an array of symbols.
        """
        others = dict(properties or {})
        policy = others.pop(LIFETIME_POLICY, None)
        modes = others.pop(SUPPORTED_DIST_MODES_KEY, None)
        if policy is not None:
            fault = policy_fault(policy)
            if fault:
                raise _property_error(fault, LIFETIME_POLICY)
            if isinstance(policy, Described) and policy.descriptor in COMPOSITES:
                policy = from_described(policy)
        if isinstance(modes, Array):
            if modes.values and modes.type != "symbol":
                raise _property_error(
                    f"must be symbols, got {modes!r:.80}", SUPPORTED_DIST_MODES_KEY
                )
        elif modes is not None and not isinstance(modes, Symbol):
            raise _property_error(f"must be symbols, got {modes!r:.80}", SUPPORTED_DIST_MODES_KEY)
        return cls(policy, modes, others)

    def to_fields(self) -> dict[str, Any]:
        """Return the map for a terminus, with values that encode as the required types."""
        properties: dict[str, Any] = {}
        if self.lifetime_policy is not None:
            properties[LIFETIME_POLICY] = self.lifetime_policy
        modes = [Symbol(mode) for mode in self.supported_dist_modes]
        if modes:
            properties[SUPPORTED_DIST_MODES_KEY] = (
                modes[0] if len(modes) == 1 else Array("symbol", modes)
            )
        return {**properties, **self.others}


def policy_fault(policy: Any) -> str:
    """Return why a value is not a lifetime policy; "" for policies and unknown extensions."""
    if isinstance(policy, Described):
        descriptor = policy.descriptor
        registered = COMPOSITES.get(descriptor) if isinstance(descriptor, (int, str)) else None
        if registered is None or LIFETIME_POLICY in registered.provides:
            return ""
    else:
        try:
            if LIFETIME_POLICY in composite_of(type(policy)).provides:
                return ""
        except TypeError:
            pass
    return f"must be a lifetime policy, such as DeleteOnClose(), got {policy!r:.80}"


def _property_error(reason: str, key: str) -> DecodeError:
    """Return the error for an invalid entry in dynamic-node-properties."""
    return DecodeError(
        reason,
        0,
        rule="node-properties",
        condition=INVALID_FIELD,
        path=f"dynamic-node-properties[{key!r}]",
    )
