"""Sources and targets (Part 3, 3.5.3 to 3.5.9)."""

from __future__ import annotations

from enum import IntEnum, StrEnum
from typing import Annotated, Any

import attrs

from amqp10msg.composite import composite, composite_of, rows
from amqp10msg.delivery.states import DeliveryState
from amqp10msg.wire.primitives import Wire, boolean, fields, seconds, symbols


class TerminusDurability(IntEnum):
    """Which state of the terminus is held durably (Part 3, 3.5.5)."""

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
    TerminusDurability, Wire("uint", "terminus-durability", enum=TerminusDurability)
]
expiry_policy = Annotated[
    TerminusExpiryPolicy, Wire("symbol", "terminus-expiry-policy", enum=TerminusExpiryPolicy)
]
# Other modes than the standard ones are allowed.
distribution_mode = Annotated[str, Wire("symbol", requires="distribution-mode")]
terminus_address = Annotated[Any, Wire("*", requires="address")]
filter_set = Annotated[dict[Any, Any], Wire("map", "filter-set")]
outcome = Annotated[Any, Wire("*", requires="outcome")]


class Terminus:
    """The base class of sources and targets."""

    __slots__ = ()

    @property
    def is_minimal(self) -> bool:
        """Whether all fields are unset (Part 3, 3.5.3 and 3.5.4).

        Sufficient for the source of a container that only produces messages, and for the target of
        one that only consumes them.
        """
        return all(getattr(self, row.name) == row.default for row in rows(type(self)))


@composite("amqp:source:list", 0x28, provides=("source",))
@attrs.define(kw_only=True)
class Source(Terminus):
    """Where messages come from (Part 3, 3.5.3).

    Attributes:
        address: the node's address.
        durable: which state of the terminus is held durably.
        expiry_policy: when the expiry timer starts.
        timeout: how long an expiring source is retained, in seconds, 0 to 2^32 - 1.
        dynamic: whether the node is created on request.
        dynamic_node_properties: properties of that node, by symbol.
        distribution_mode: ``move``, ``copy`` or an extension.
        filter: predicates on messages, by symbol, each a described value or None.
        default_outcome: the outcome of deliveries that are settled without one.
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
    filter: filter_set | None = None
    default_outcome: outcome | None = None
    outcomes: symbols = ()
    capabilities: symbols = ()

    def supports(self, outcome: DeliveryState) -> bool:
        """Whether an outcome can be chosen on a link with this source (Part 3, 3.5.3).

        It can choose one of `outcomes`; if that is empty, the default outcome, or accepted if that
        is not set either.
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
    """Where messages go (Part 3, 3.5.4).

    Attributes:
        address: the node's address.
        durable: which state of the terminus is held durably.
        expiry_policy: when the expiry timer starts.
        timeout: how long an expiring target is retained, in seconds, 0 to 2^32 - 1.
        dynamic: whether the node is created on request.
        dynamic_node_properties: properties of that node, by symbol.
        capabilities: extensions that the receiver supports or desires.
    """

    address: terminus_address | None = None
    durable: durability = TerminusDurability.NONE
    expiry_policy: expiry_policy = TerminusExpiryPolicy.SESSION_END
    timeout: seconds = 0
    dynamic: boolean = False
    dynamic_node_properties: fields | None = None
    capabilities: symbols = ()
