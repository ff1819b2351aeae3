"""Rules of Part 3, 3.5 and Part 4 for sources, targets, coordinators and declares."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, cast

import attrs

from amqp10msg.brokers import ByName, by_attribute
from amqp10msg.composite import COMPOSITES, composite_of, encode_composite, offset_of_field, rows
from amqp10msg.delivery.states import Coordinator, Declare, TxnCapability, decode
from amqp10msg.delivery.termini import (
    LIFETIME_POLICY,
    SUPPORTED_DIST_MODES_KEY,
    Source,
    Target,
    policy_fault,
)
from amqp10msg.validation.rules import (
    Obligation,
    Occurrence,
    Rule,
    Severity,
    Violation,
    obligations_of,
    rows_of,
    violation_of,
    violations_of,
)
from amqp10msg.wire import kernel
from amqp10msg.wire.errors import EncodeError
from amqp10msg.wire.primitives import FORMAT_CODES, Array, Described, Symbol, ULong


@attrs.frozen(kw_only=True)
class TerminusRule(Rule):
    """A rule for a source, target, coordinator or declare.

    Attributes:
        id: a short name, which does not change between releases.
        clause: the clause of the specification.
        severity: ``error`` for MUST, MUST NOT and the definition of a type, ``warning`` for SHOULD.
        types: the types to which the rule applies: ``source``, ``target``, ``coordinator``,
            ``declare``.
        text: a summary of the rule.
        quote: the wording of the specification.
        needs: the optional arguments that the rule needs. Without them, the rule is not checked.
        refused: whether `decode` raises an error for a terminus that violates the rule.
        check: yields violations; None if encoding the terminus detects them.
    """

    types: tuple[str, ...]
    needs: tuple[str, ...] = ()


@attrs.frozen
class CheckedTerminus:
    """A terminus or declare to check, its encoding, and properties of its link.

    Attributes:
        value: the terminus or declare.
        type_name: the name of its type, one of `TerminusRule.types`.
        octets: its encoding; empty if it cannot be encoded.
        role: ``sender`` or ``receiver``, the end of the link that sent the attach frame; None if
            unknown.
        link_name: the name of the link, or None.
        container_id: the container-id of the peer, or None.
        modes: the distribution modes that the sender's node supports; empty if unknown.
        coordinator: for a declare, the target in the coordinator's attach, or None.
    """

    value: Any
    type_name: str
    octets: bytes
    role: str | None = None
    link_name: str | None = None
    container_id: str | None = None
    modes: Collection[str] = ()
    coordinator: Coordinator | None = None

    @property
    def requests(self) -> bool:
        """Whether the terminus requests a dynamic node."""
        return self.dynamic and self.role == (
            "receiver" if self.type_name == "source" else "sender"
        )

    @property
    def answers(self) -> bool:
        """Whether the terminus reports a dynamic node that was created."""
        return self.dynamic and self.role is not None and not self.requests

    @property
    def dynamic(self) -> bool:
        """Whether the terminus has a dynamic node, which is created on request."""
        return bool(self.value.dynamic)

    def occurrence(self, field: str, text: str, subpath: str = "") -> Occurrence:
        """Return a violation in a field. `subpath` is the path within the field."""
        return Occurrence(self._offset(field), f"{self.type_name}.{field}{subpath}", text)

    def shared_occurrence(self, field: str, text: str) -> Occurrence:
        """Return a violation of a rule that has different clauses for sources and targets."""
        clause = "Part 3, 3.5.3" if self.type_name == "source" else "Part 3, 3.5.4"
        return self.occurrence(field, text)._replace(clause=clause)

    def _offset(self, field: str) -> int:
        """Return the offset of a field in the encoded terminus; 0 if the field is not encoded."""
        octets = self.octets
        if not octets:
            return 0
        names = [row.wire_name for row in rows(type(self.value))]
        index = names.index(field)
        start = kernel.skip_value(octets, 1)
        width = FORMAT_CODES[octets[start]].width  # 0 for the empty list (list0)
        count = int.from_bytes(octets[start + 1 + width : start + 1 + 2 * width], "big")
        return offset_of_field(octets, start, index) if index < count else 0


def _check_address_in_request(terminus: CheckedTerminus) -> Iterator[Occurrence]:
    """Yield a violation if a request for a dynamic node has an address."""
    if terminus.requests and terminus.value.address is not None:
        yield terminus.shared_occurrence(
            "address", "the peer chooses the address of a dynamic node: leave it unset"
        )


def _check_address_in_answer(terminus: CheckedTerminus) -> Iterator[Occurrence]:
    """Yield a violation if the answer with a dynamic node has no address."""
    if terminus.answers and terminus.value.address is None:
        yield terminus.shared_occurrence("address", "the address of the created node is missing")


def _check_names_in_address(terminus: CheckedTerminus) -> Iterator[Occurrence]:
    """Yield violations if a dynamic node's address lacks the link name or the container-id."""
    address = terminus.value.address
    if terminus.answers and isinstance(address, str):
        for name, part in (
            ("link name", terminus.link_name),
            ("container-id", terminus.container_id),
        ):
            if part and part not in address:
                yield terminus.shared_occurrence(
                    "address", f"{address!r} does not include the {name} {part!r}"
                )


def _check_properties_without_dynamic(terminus: CheckedTerminus) -> Iterator[Occurrence]:
    if not terminus.dynamic and terminus.value.dynamic_node_properties is not None:
        yield terminus.shared_occurrence(
            "dynamic-node-properties", "the node is not dynamic: leave its properties unset"
        )


def _node_property(terminus: CheckedTerminus, key: str) -> Any:
    """Return one of the dynamic-node-properties; None if it is not set."""
    properties = terminus.value.dynamic_node_properties
    return properties.get(key) if isinstance(properties, Mapping) else None


def _check_lifetime_policy(terminus: CheckedTerminus) -> Iterator[Occurrence]:
    policy = _node_property(terminus, LIFETIME_POLICY)
    fault = "" if policy is None else policy_fault(policy)
    if fault:
        yield terminus.occurrence("dynamic-node-properties", fault, f"[{LIFETIME_POLICY!r}]")


def _check_dist_modes(terminus: CheckedTerminus) -> Iterator[Occurrence]:
    modes = _node_property(terminus, SUPPORTED_DIST_MODES_KEY)
    if modes is None or isinstance(modes, Symbol):
        return
    if not isinstance(modes, Array) or not modes.values or modes.type != "symbol":
        text = "must be a symbol or an array of symbols, one or more, such as Symbol('move')"
        yield terminus.occurrence(
            "dynamic-node-properties",
            f"{text}, not {modes!r:.80}",
            f"[{SUPPORTED_DIST_MODES_KEY!r}]",
        )


def _check_distribution_mode(terminus: CheckedTerminus) -> Iterator[Occurrence]:
    """Yield a violation if the sender's node has several modes and the sender chose none."""
    if (
        terminus.role == "sender"
        and len(set(terminus.modes)) > 1
        and terminus.value.distribution_mode is None
    ):
        yield terminus.occurrence(
            "distribution-mode",
            f"is unset, and the node supports {', '.join(sorted(terminus.modes))}",
        )


def _check_filters(terminus: CheckedTerminus) -> Iterator[Occurrence]:
    filters = terminus.value.filter
    if not isinstance(filters, Mapping):
        return
    for key, entry in filters.items():
        try:
            value = kernel.decode_value(kernel.encode_value(entry))
        except EncodeError:
            continue  # the rule not-encodable reports the error
        text = ""
        if isinstance(value, Described):
            composite = _registered_composite(value.descriptor)
            if composite is not None and "filter" not in composite.provides:
                text = f"must be a filter, not {composite.name}"
        elif value is not None:
            text = f"must be a described value or null, not {value!r:.80}"
        if text:
            yield terminus.occurrence("filter", text, f"[{str(key)!r}]")


def _registered_composite(descriptor: Any) -> Any:
    """Return the composite type with a descriptor; None if it is not registered."""
    return COMPOSITES.get(descriptor) if isinstance(descriptor, (ULong, Symbol)) else None


def _check_default_outcome(terminus: CheckedTerminus) -> Iterator[Occurrence]:
    outcome = terminus.value.default_outcome
    if outcome is None:
        return
    if isinstance(outcome, Described):
        composite = _registered_composite(outcome.descriptor)
        is_outcome = composite is None or "outcome" in composite.provides
    else:
        try:
            is_outcome = "outcome" in composite_of(type(outcome)).provides
        except TypeError:
            is_outcome = False
    if not is_outcome:
        yield terminus.occurrence("default-outcome", f"must be an outcome, not {outcome!r:.80}")


def _check_outcomes(terminus: CheckedTerminus) -> Iterator[Occurrence]:
    for index, symbol in enumerate(terminus.value.outcomes or ()):
        composite = COMPOSITES.get(symbol) if isinstance(symbol, str) else None
        text = ""
        if composite is not None:
            if "outcome" not in composite.provides:
                text = f"{composite.name} is not an outcome"
        elif ":" not in str(symbol):
            text = f"{symbol!r} is not a symbolic descriptor such as amqp:accepted:list"
        elif str(symbol).startswith("amqp:"):
            text = f"the specification has no outcome {symbol!r}"
        if text:
            yield terminus.occurrence("outcomes", text, f"[{index}]")


def _check_capabilities(terminus: CheckedTerminus) -> Iterator[Occurrence]:
    for index, symbol in enumerate(terminus.value.capabilities or ()):
        if str(symbol).startswith("amqp:") and symbol not in set(TxnCapability):
            yield terminus.occurrence(
                "capabilities", f"the specification has no capability {symbol!r}", f"[{index}]"
            )


def _check_global_id(terminus: CheckedTerminus) -> Iterator[Occurrence]:
    if (
        terminus.value.global_id is not None
        and terminus.coordinator is not None
        and TxnCapability.DISTRIBUTED_TRANSACTIONS not in terminus.coordinator.capabilities
    ):
        yield terminus.occurrence(
            "global-id", "the coordinator does not support distributed transactions"
        )


_CHECK_BY_RULE_ID: dict[str, Callable[[CheckedTerminus], Iterator[Occurrence]]] = {
    "address-in-request": _check_address_in_request,
    "address-missing": _check_address_in_answer,
    "address-not-traceable": _check_names_in_address,
    "properties-without-dynamic": _check_properties_without_dynamic,
    "lifetime-policy": _check_lifetime_policy,
    "supported-dist-modes": _check_dist_modes,
    "distribution-mode-unset": _check_distribution_mode,
    "filter-not-described": _check_filters,
    "default-outcome": _check_default_outcome,
    "outcomes": _check_outcomes,
    "txn-capability": _check_capabilities,
    "global-id": _check_global_id,
}
# The first line of a rule is id | clause | severity | subjects | options. The options are "refused"
# if decoding raises an error for a violation, and "needs" with the arguments that the check needs.
# The next lines are the requirement and, after ``>``, the wording of the specification.
_RULE_TABLE = """
address-in-request | Part 3, 3.5.3, 3.5.4 | error | both | needs role
    A request for a dynamic node (the receiver's source, the sender's target) has no address.
    > The address of the source MUST NOT be set when sent on a attach frame sent by the receiving
    > link endpoint where the dynamic flag is set to true (that is where the receiver is requesting
    > the sender to create an addressable node).
address-missing | Part 3, 3.5.3, 3.5.4 | error | both | needs role
    The answer with a dynamic node (the sender's source, the receiver's target) has its address.
    > The address of the source MUST be set when sent on a attach frame sent by the sending link
    > endpoint where the dynamic flag is set to true (that is where the sender has created an
    > addressable node at the request of the receiver and is now communicating the address of that
    > created node).
address-not-traceable | Part 3, 3.5.3, 3.5.4 | warning | both | needs role, link_name, container_id
    The address of a dynamic node includes the link's name and the container-id of the peer.
    > The generated name of the address SHOULD include the link name and the container-id of the
    > remote container to allow for ease of identification.
properties-without-dynamic | Part 3, 3.5.3, 3.5.4 | error | both
    The dynamic-node-properties are set only if dynamic is true.
    > If the dynamic field is not set to true this field must be left unset.
lifetime-policy | Part 3, 3.5.9 | error | both
    The node property lifetime-policy is a lifetime policy.
    > The value of this entry must be of a type which provides the lifetime-policy archetype.
supported-dist-modes | Part 3, 3.5.9 | error | both
    The node property supported-dist-modes is a symbol or an array of symbols.
    > The value of this entry must be one or more symbols which are valid distribution-modes.
distribution-mode-unset | Part 3, 3.5.3 | error | source | needs role, modes
    The sender sets the distribution mode if its node supports several.
    > This field MUST be set by the sending end of the link if the endpoint supports more than one
    > distribution-mode.
filter-not-described | Part 3, 3.5.8 | error | source
    A filter is a described value or null.
    > Every key in the map must be of type symbol, every value must be either null or of a described
    > type which provides the archetype filter.
default-outcome | Part 3, 3.5.3 | error | source | refused
    The default-outcome is an outcome.
    > The value MUST be a valid outcome (e.g., released or rejected).
outcomes | Part 3, 3.5.3 | error | source
    The outcomes are symbolic descriptors of outcomes.
    > When present, the values MUST be a symbolic descriptor of a valid outcome, e.g.,
    > "amqp:accepted:list".
txn-capability | Part 4, 4.5.7 | warning | coordinator
    A capability that begins with amqp: is one of the five defined capabilities.
global-id | Part 4, 4.5.2 | error | declare | needs coordinator
    The global-id is set only if the coordinator supports distributed transactions.
    > This field MUST NOT be set if the coordinator does not have the distributed-transactions
    > capability.
not-encodable | Part 1, 1.4 | error | source, target, coordinator, declare | refused
    Every field can be encoded as its declared type.
"""


def _parse_rules() -> Iterator[TerminusRule]:
    """Yield the rules in `_RULE_TABLE`."""
    for (name, clause, severity, subject, *options), text, quote in rows_of(_RULE_TABLE):
        yield TerminusRule(
            id=name,
            clause=clause,
            severity=cast("Severity", severity),
            text=text,
            quote=quote,
            refused="refused" in options,
            check=_CHECK_BY_RULE_ID.get(name),
            types=("source", "target") if subject == "both" else tuple(subject.split(", ")),
            needs=tuple(
                need
                for cell in options
                if cell.startswith("needs ")
                for need in cell.removeprefix("needs ").split(", ")
            ),
        )


#: The rules by id, in the order of the clauses.
TERMINUS_RULES: ByName[TerminusRule] = ByName(
    by_attribute(_parse_rules(), "id", "rule"), kind="rule"
)

#: The other requirements (MUST, MUST NOT, SHOULD) of Part 3, 3.5. A terminus alone does not show
#: whether they are met.
TERMINUS_NOT_VISIBLE: tuple[Obligation, ...] = obligations_of(
    """
Part 3, 3.5.1 | node
    A filter MUST NOT change its return value for a message unless the state or annotations on the
    message at the node change (e.g., through an updated delivery state).
Part 3, 3.5.2 | node
    A source MUST NOT resend a message which has previously been successfully transferred from the
    source, i.e., reached an ACCEPTED delivery state at the receiver.
Part 3, 3.5.3 | receiver
    The receiving endpoint MUST check that the filter in place meets its needs and take
    responsibility for detaching if it does not.
Part 3, 3.5.3 | source
    if the default-outcome is not set, and no outcomes are provided, then the accepted outcome must
    be supported by the source
""",
    {
        "node": "An obligation of the node.",
        "receiver": "The needs of the receiver are not in the source.",
        "source": "Source.supports follows it; whether the node does cannot be seen in the source.",
    },
)

_LINK_ROLES = ("sender", "receiver")
_BYTES_TYPES = (bytes, bytearray, memoryview)


def check_source(
    source: Source | bytes | bytearray | memoryview,
    *,
    role: str | None = None,
    link_name: str | None = None,
    container_id: str | None = None,
    modes: Collection[str] = (),
) -> list[Violation]:
    """Check a source against the rules of Part 3, 3.5.3, 3.5.8 and 3.5.9.

    A minimal source, with all fields unset, violates no rule.

    Args:
        source: a `Source`, encoded or not.
        role: ``sender`` or ``receiver``, the end of the link that sent the attach frame; None skips
            the rules that need it.
        link_name: the name of the link, which a generated address should include.
        container_id: the peer's container-id, which a generated address should include as well.
        modes: the distribution modes that the sender's node supports.

    Returns:
        The violations in the order of their offsets in the encoded source, at most 100 per rule.

    Raises:
        DecodeError: the bytes cannot be decoded.
        TypeError: `source` is not a source.
        ValueError: the role is invalid.
    """
    return _check_composite(
        source,
        {Source: "source"},
        role=role,
        link_name=link_name,
        container_id=container_id,
        modes=tuple(modes),
    )


def check_target(
    target: Target | Coordinator | bytes | bytearray | memoryview,
    *,
    role: str | None = None,
    link_name: str | None = None,
    container_id: str | None = None,
) -> list[Violation]:
    """Check a target against Part 3, 3.5.4 and 3.5.9, a coordinator against Part 4, 4.5.7.

    A minimal target, with all fields unset, violates no rule.

    Args:
        target: a `Target` or `Coordinator`, encoded or not.
        role: ``sender`` or ``receiver``, the end of the link that sent the attach frame; None skips
            the rules that need it.
        link_name: the name of the link, which a generated address should include.
        container_id: the peer's container-id, which a generated address should include as well.

    Returns:
        The violations in the order of their offsets in the encoded target, at most 100 per rule.

    Raises:
        DecodeError: the bytes cannot be decoded.
        TypeError: `target` is neither a target nor a coordinator.
        ValueError: the role is invalid.
    """
    return _check_composite(
        target,
        {Target: "target", Coordinator: "coordinator"},
        role=role,
        link_name=link_name,
        container_id=container_id,
    )


def check_declare(
    declare: Declare | bytes | bytearray | memoryview, coordinator: Coordinator | None = None
) -> list[Violation]:
    """Check the body of a message to a coordinator against the rule of Part 4, 4.5.2.

    Args:
        declare: a `Declare`, encoded or not.
        coordinator: the target in the coordinator's attach; None skips the rules that depend on its
            capabilities.

    Raises:
        DecodeError: the bytes cannot be decoded.
        TypeError: `declare` is not a declare.
    """
    return _check_composite(declare, {Declare: "declare"}, coordinator=coordinator)


def _check_composite(
    terminus: Any, names: dict[type, str], *, role: str | None = None, **context: Any
) -> list[Violation]:
    """Check a composite, encoded or not, whose type is in `names`, against the rules for it."""
    octets = bytes(terminus) if isinstance(terminus, _BYTES_TYPES) else None
    value = terminus if octets is None else decode(octets)
    name = names.get(type(value))
    if name is None:
        expected = " or ".join(cls.__name__ for cls in names)
        raise TypeError(f"expected a {expected}, encoded or not, not a {type(value).__name__}")
    if role is not None and role not in _LINK_ROLES:
        raise ValueError(f"role is sender or receiver, not {role!r}")
    violations: list[Violation] = []
    try:
        octets = octets or encode_composite(value)
    except EncodeError as error:
        octets = b""
        # The rule default-outcome reports this error.
        if error.path != "source.default-outcome":
            rule = TERMINUS_RULES["not-encodable"]
            occurrence = Occurrence(0, error.path, error.reason)
            violations.append(violation_of(rule, occurrence, rule.severity))
    checked = CheckedTerminus(value, name, octets, role, **context)
    violations += violations_of(
        (rule for rule in TERMINUS_RULES.values() if name in rule.types), checked
    )
    violations.sort(key=lambda violation: violation.offset)
    return violations
