"""The checks of the rules for termini: one generator per rule."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

import attrs

from amqp10msg.composite import COMPOSITES, composite_of
from amqp10msg.delivery.node_properties import (
    LIFETIME_POLICY,
    SUPPORTED_DIST_MODES,
    policy_fault,
)
from amqp10msg.delivery.transactions import Coordinator, TxnCapability
from amqp10msg.wire import kernel
from amqp10msg.wire.errors import EncodeError
from amqp10msg.wire.primitives import Array, Described, Symbol, ULong


class Found(NamedTuple):
    """A violation: the field, what is wrong, and the rest of the path."""

    field: str
    text: str
    rest: str = ""


@attrs.frozen
class View:
    """A terminus and its link."""

    value: Any
    name: str
    role: str | None
    link_name: str | None = None
    container_id: str | None = None
    modes: Collection[str] = ()
    coordinator: Coordinator | None = None

    @property
    def requests(self) -> bool:
        """Whether its sender requests a dynamic node."""
        return self.dynamic and self.role == ("receiver" if self.name == "source" else "sender")

    @property
    def answers(self) -> bool:
        """Whether its sender has created the dynamic node."""
        return self.dynamic and self.role is not None and not self.requests

    @property
    def dynamic(self) -> bool:
        return bool(self.value.dynamic)


def address_in_request(view: View) -> Iterator[Found]:
    if view.requests and view.value.address is not None:
        yield Found(
            "address", "the other end chooses the address of a dynamic node: leave it unset"
        )


def address_in_answer(view: View) -> Iterator[Found]:
    if view.answers and view.value.address is None:
        yield Found("address", "the address of the node that was created is missing")


def address_names(view: View) -> Iterator[Found]:
    address = view.value.address
    if view.answers and isinstance(address, str):
        for name, held in (("link name", view.link_name), ("container-id", view.container_id)):
            if held and held not in address:
                yield Found("address", f"{address!r} does not include the {name} {held!r}")


def unwanted_properties(view: View) -> Iterator[Found]:
    if not view.dynamic and view.value.dynamic_node_properties is not None:
        yield Found(
            "dynamic-node-properties", "the node is not dynamic: leave its properties unset"
        )


def _property(view: View, key: str) -> Any:
    properties = view.value.dynamic_node_properties
    return properties.get(key) if isinstance(properties, Mapping) else None


def lifetime_policy(view: View) -> Iterator[Found]:
    policy = _property(view, LIFETIME_POLICY)
    fault = "" if policy is None else policy_fault(policy)
    if fault:
        yield Found("dynamic-node-properties", fault, f"[{LIFETIME_POLICY!r}]")


def dist_modes(view: View) -> Iterator[Found]:
    modes = _property(view, SUPPORTED_DIST_MODES)
    if modes is None or isinstance(modes, Symbol):
        return
    if not isinstance(modes, Array) or not modes.values or modes.type != "symbol":
        text = "must be a symbol or an array of symbols, one or more, such as Symbol('move')"
        yield Found(
            "dynamic-node-properties", f"{text}, not {modes!r:.80}", f"[{SUPPORTED_DIST_MODES!r}]"
        )


def mode_unset(view: View) -> Iterator[Found]:
    if view.role == "sender" and len(set(view.modes)) > 1 and view.value.distribution_mode is None:
        yield Found(
            "distribution-mode", f"is unset, and the node supports {', '.join(sorted(view.modes))}"
        )


def filters(view: View) -> Iterator[Found]:
    filters = view.value.filter
    if not isinstance(filters, Mapping):
        return
    for key, held in filters.items():
        try:
            value = kernel.decode_value(kernel.encode_value(held))
        except EncodeError:
            continue  # reported as not-encodable
        text = ""
        if isinstance(value, Described):
            known = _known(value.descriptor)
            if known is not None and "filter" not in known.provides:
                text = f"must be a filter, not {known.name}"
        elif value is not None:
            text = f"must be a described value or null, not {value!r:.80}"
        if text:
            yield Found("filter", text, f"[{str(key)!r}]")


def _known(descriptor: Any) -> Any:
    return COMPOSITES.get(descriptor) if isinstance(descriptor, (ULong, Symbol)) else None


def default_outcome(view: View) -> Iterator[Found]:
    outcome = view.value.default_outcome
    if outcome is None:
        return
    if isinstance(outcome, Described):
        known = _known(outcome.descriptor)
        right = known is None or "outcome" in known.provides
    else:
        try:
            right = "outcome" in composite_of(type(outcome)).provides
        except TypeError:
            right = False
    if not right:
        yield Found("default-outcome", f"must be an outcome, not {outcome!r:.80}")


def outcomes(view: View) -> Iterator[Found]:
    for index, symbol in enumerate(view.value.outcomes or ()):
        known = COMPOSITES.get(symbol)
        text = ""
        if known is not None:
            if "outcome" not in known.provides:
                text = f"{known.name} is not an outcome"
        elif ":" not in str(symbol):
            text = f"{symbol!r} is not a symbolic descriptor such as amqp:accepted:list"
        elif str(symbol).startswith("amqp:"):
            text = f"the specification has no outcome {symbol!r}"
        if text:
            yield Found("outcomes", text, f"[{index}]")


def capabilities(view: View) -> Iterator[Found]:
    for index, symbol in enumerate(view.value.capabilities or ()):
        if str(symbol).startswith("amqp:") and symbol not in set(TxnCapability):
            yield Found(
                "capabilities", f"the specification has no capability {symbol!r}", f"[{index}]"
            )


def global_id(view: View) -> Iterator[Found]:
    if (
        view.value.global_id is not None
        and view.coordinator is not None
        and TxnCapability.DISTRIBUTED_TRANSACTIONS not in view.coordinator.capabilities
    ):
        yield Found("global-id", "the coordinator does not support distributed transactions")
