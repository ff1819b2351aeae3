"""The rules of Part 3, 3.5 for sources and targets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

import attrs

from amqp10msg.delivery import _terminus_checks as check
from amqp10msg.validation import Obligation, Severity


@attrs.frozen
class TerminusRule:
    """A rule for a terminus.

    Attributes:
        id: its short stable name.
        clause: the clause of the specification.
        severity: ``error`` for MUST, MUST NOT and the definition of a type, ``warning`` for SHOULD.
        subject: what it applies to: ``source``, ``target``, ``coordinator``, ``declare``.
        text: the rule in short.
        quote: the words of the specification.
        needs: arguments of the check that it depends on.
        refused: whether `decode` refuses a terminus that breaks it.
        check: finds violations; None if encoding finds them.
    """

    id: str
    clause: str
    severity: Severity
    subject: tuple[str, ...]
    text: str
    quote: str = ""
    needs: tuple[str, ...] = ()
    refused: bool = False
    check: Callable[[check.View], Iterator[check.Found]] | None = attrs.field(
        default=None, repr=False, eq=False
    )


_BOTH = ("source", "target")
#: The clause of rules for both; a violation names one of them.
BOTH_CLAUSES = "Part 3, 3.5.3, 3.5.4"
_ROWS = (
    TerminusRule(
        "address-in-request",
        BOTH_CLAUSES,
        "error",
        _BOTH,
        "A request for a dynamic node (the receiver's source, the sender's target) has no address.",
        "The address of the source MUST NOT be set when sent on a attach frame sent by the "
        "receiving link endpoint where the dynamic flag is set to true (that is where the receiver "
        "is requesting the sender to create an addressable node).",
        ("role",),
        check=check.address_in_request,
    ),
    TerminusRule(
        "address-missing",
        BOTH_CLAUSES,
        "error",
        _BOTH,
        "The answer with a dynamic node (the sender's source, the receiver's target) has its "
        "address.",
        "The address of the source MUST be set when sent on a attach frame sent by the sending "
        "link endpoint where the dynamic flag is set to true (that is where the sender has created "
        "an addressable node at the request of the receiver and is now communicating the address "
        "of that created node).",
        ("role",),
        check=check.address_in_answer,
    ),
    TerminusRule(
        "address-not-traceable",
        BOTH_CLAUSES,
        "warning",
        _BOTH,
        "The address of a dynamic node includes the link's name and the container-id of the other "
        "end.",
        "The generated name of the address SHOULD include the link name and the container-id of "
        "the remote container to allow for ease of identification.",
        ("role", "link_name", "container_id"),
        check=check.address_names,
    ),
    TerminusRule(
        "properties-without-dynamic",
        BOTH_CLAUSES,
        "error",
        _BOTH,
        "The dynamic-node-properties are set only if dynamic is true.",
        "If the dynamic field is not set to true this field must be left unset.",
        check=check.unwanted_properties,
    ),
    TerminusRule(
        "lifetime-policy",
        "Part 3, 3.5.9",
        "error",
        _BOTH,
        "The node property lifetime-policy is a lifetime policy.",
        "The value of this entry must be of a type which provides the lifetime-policy archetype.",
        check=check.lifetime_policy,
    ),
    TerminusRule(
        "supported-dist-modes",
        "Part 3, 3.5.9",
        "error",
        _BOTH,
        "The node property supported-dist-modes is a symbol or an array of symbols.",
        "The value of this entry must be one or more symbols which are valid distribution-modes.",
        check=check.dist_modes,
    ),
    TerminusRule(
        "distribution-mode-unset",
        "Part 3, 3.5.3",
        "error",
        ("source",),
        "The sender sets the distribution mode if its node supports several.",
        "This field MUST be set by the sending end of the link if the endpoint supports more than "
        "one distribution-mode.",
        ("role", "modes"),
        check=check.mode_unset,
    ),
    TerminusRule(
        "filter-not-described",
        "Part 3, 3.5.8",
        "error",
        ("source",),
        "A filter is a described value or null.",
        "Every key in the map must be of type symbol, every value must be either null or of a "
        "described type which provides the archetype filter.",
        check=check.filters,
    ),
    TerminusRule(
        "default-outcome",
        "Part 3, 3.5.3",
        "error",
        ("source",),
        "The default-outcome is an outcome.",
        "The value MUST be a valid outcome (e.g., released or rejected).",
        refused=True,
        check=check.default_outcome,
    ),
    TerminusRule(
        "outcomes",
        "Part 3, 3.5.3",
        "error",
        ("source",),
        "The outcomes are symbolic descriptors of outcomes.",
        "When present, the values MUST be a symbolic descriptor of a valid outcome, e.g., "
        '"amqp:accepted:list".',
        check=check.outcomes,
    ),
    TerminusRule(
        "txn-capability",
        "Part 4, 4.5.7",
        "warning",
        ("coordinator",),
        "A capability that begins with amqp: is one of the five that are defined.",
        check=check.capabilities,
    ),
    TerminusRule(
        "global-id",
        "Part 4, 4.5.2",
        "error",
        ("declare",),
        "The global-id is set only if the coordinator supports distributed transactions.",
        "This field MUST NOT be set if the coordinator does not have the distributed-transactions "
        "capability.",
        ("coordinator",),
        check=check.global_id,
    ),
    TerminusRule(
        "not-encodable",
        "Part 1, 1.4",
        "error",
        ("source", "target", "coordinator", "declare"),
        "Every field can be encoded as its declared type.",
        refused=True,
    ),
)

#: The rules by id, in the order of the clauses.
TERMINUS_RULES: Mapping[str, TerminusRule] = MappingProxyType({rule.id: rule for rule in _ROWS})

_NODE = "An obligation of the node."
#: Every other MUST, MUST NOT and SHOULD of Part 3, 3.5, which a terminus does not show.
TERMINUS_NOT_VISIBLE: tuple[Obligation, ...] = (
    Obligation(
        "Part 3, 3.5.1",
        "A filter MUST NOT change its return value for a message unless the state or annotations "
        "on the message at the node change (e.g., through an updated delivery state).",
        _NODE,
    ),
    Obligation(
        "Part 3, 3.5.2",
        "A source MUST NOT resend a message which has previously been successfully transferred "
        "from the source, i.e., reached an ACCEPTED delivery state at the receiver.",
        _NODE,
    ),
    Obligation(
        "Part 3, 3.5.3",
        "The receiving endpoint MUST check that the filter in place meets its needs and take "
        "responsibility for detaching if it does not.",
        "The needs of the receiver are not in the source.",
    ),
    Obligation(
        "Part 3, 3.5.3",
        "if the default-outcome is not set, and no outcomes are provided, then the accepted "
        "outcome must be supported by the source",
        "Source.supports follows it; whether the node does is not in the source.",
    ),
)
