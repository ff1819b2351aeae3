"""Delivery states, outcomes and transactions (Part 3, 3.4; Part 4), and their effects."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Self, TypeVar

import attrs

from amqp10msg.composite import Error, composite, composite_of, decode_composite, encode_composite
from amqp10msg.message import Message
from amqp10msg.sections import Header, MessageAnnotations
from amqp10msg.sections.parts import merged, scan
from amqp10msg.wire import kernel
from amqp10msg.wire.errors import NOT_IMPLEMENTED, DecodeError, EncodeError, expect
from amqp10msg.wire.limits import DEFAULT_LIMITS, Limits
from amqp10msg.wire.primitives import AmqpMap, WireType, boolean, fields, symbols, uint, ulong


class MessageState(StrEnum):
    """The state of a message at a node (Part 3, 3.3, figure 3.1)."""

    AVAILABLE = "available"
    ACQUIRED = "acquired"
    ARCHIVED = "archived"


class DeliveryState:
    """The state of a delivery at one end of a link (Part 3, 3.4).

    The base class of the specification's states, and of extensions. The declaration of an extension
    must provide ``delivery-state`` and, if it is an outcome, ``outcome``.

    The constructors of the specification's states check the types of the fields, and raise
    `EncodeError`. Encoding also checks ranges, and values that were assigned later.
    """

    __slots__ = ()

    @property
    def is_outcome(self) -> bool:
        """Whether the state is an outcome, the final result of processing (Part 3, 3.4)."""
        return "outcome" in composite_of(type(self)).provides

    @property
    def is_terminal(self) -> bool:
        """Whether the state is terminal, as every outcome is (Part 3, 3.4)."""
        return self.is_outcome


class Singleton:
    """The base class of composite types without fields, whose instances are singletons."""

    __slots__ = ()
    _instance: ClassVar[Any]

    def __new__(cls) -> Self:
        """Return the only instance of the class."""
        instance = cls.__dict__.get("_instance")
        if instance is None:
            instance = super().__new__(cls)
            cls._instance = instance
        singleton: Self = instance
        return singleton


error = Annotated[Error, WireType("*", "error", requires="error")]
_OUTCOME_ARCHETYPES = ("delivery-state", "outcome")


@composite("amqp:received:list", 0x23, provides=("delivery-state",), checks_types=True)
@attrs.define
class Received(DeliveryState):
    """The position up to which a message was received, to resume its transfer (Part 3, 3.4.1).

    Attributes:
        section_number: the index of the section, 0 to 2^32 - 1.
        section_offset: the offset in that section, in bytes from its descriptor, 0 to 2^64 - 1.
    """

    section_number: uint
    section_offset: ulong


@composite("amqp:accepted:list", 0x24, provides=_OUTCOME_ARCHETYPES)
@attrs.frozen
class Accepted(Singleton, DeliveryState):
    """The receiver processed the message successfully (Part 3, 3.4.2)."""


@composite("amqp:rejected:list", 0x25, provides=_OUTCOME_ARCHETYPES, checks_types=True)
@attrs.define
class Rejected(DeliveryState):
    """The message is invalid and cannot be processed (Part 3, 3.4.3).

    Attributes:
        error: the reason.
    """

    error: error | None = None


@composite("amqp:released:list", 0x26, provides=_OUTCOME_ARCHETYPES)
@attrs.frozen
class Released(Singleton, DeliveryState):
    """The message was not, and will not be, processed (Part 3, 3.4.4)."""


@composite("amqp:modified:list", 0x27, provides=_OUTCOME_ARCHETYPES, checks_types=True)
@attrs.define
class Modified(DeliveryState):
    """The message was modified, but not processed (Part 3, 3.4.5).

    Attributes:
        delivery_failed: whether the transfer counts as an unsuccessful delivery attempt.
        undeliverable_here: whether the message must not be delivered on this link again.
        message_annotations: annotations to add to the message or replace in it.
    """

    delivery_failed: boolean = False
    undeliverable_here: boolean = False
    message_annotations: fields | None = None


# Create the singletons at import, before two threads could create two.
for _outcome in (Accepted, Released):
    _outcome()


class TxnCapability(StrEnum):
    """Capabilities of a coordinator, supported or desired (Part 4, 4.5.7).

    Members are strings, for use in `Coordinator.capabilities`.
    """

    LOCAL_TRANSACTIONS = "amqp:local-transactions"
    DISTRIBUTED_TRANSACTIONS = "amqp:distributed-transactions"
    PROMOTABLE_TRANSACTIONS = "amqp:promotable-transactions"
    MULTI_TXNS_PER_SSN = "amqp:multi-txns-per-ssn"
    MULTI_SSNS_PER_TXN = "amqp:multi-ssns-per-txn"


class TransactionError(StrEnum):
    """Conditions of transaction errors (Part 4, 4.5.8)."""

    UNKNOWN_ID = "amqp:transaction:unknown-id"
    TRANSACTION_ROLLBACK = "amqp:transaction:rollback"
    TRANSACTION_TIMEOUT = "amqp:transaction:timeout"


# Part 4, 4.5.4: up to 32 bytes.
txn_id = Annotated[bytes, WireType("binary", "transaction-id", max_size=32)]
any_outcome = Annotated[Any, WireType("*", requires="outcome")]
global_id = Annotated[Any, WireType("*", requires="global-tx-id")]


@composite("amqp:coordinator:list", 0x30, provides=("target",), checks_types=True)
@attrs.define
class Coordinator:
    """The target of a link that controls transactions (Part 4, 4.5.1).

    Attributes:
        capabilities: the capabilities that the coordinator supports or the controller desires.
    """

    capabilities: symbols = ()


@composite("amqp:declare:list", 0x31, checks_types=True)
@attrs.define
class Declare:
    """The message body that requests a transaction (Part 4, 4.5.2).

    Attributes:
        global_id: the id of a global transaction, or None.
    """

    global_id: global_id | None = None


@composite("amqp:discharge:list", 0x32, checks_types=True)
@attrs.define
class Discharge:
    """The message body that ends a transaction (Part 4, 4.5.3).

    Attributes:
        txn_id: the transaction-id, at most 32 bytes.
        fail: whether to roll the transaction back.
    """

    txn_id: txn_id
    fail: boolean = False


@composite("amqp:declared:list", 0x33, provides=("delivery-state", "outcome"), checks_types=True)
@attrs.define
class Declared(DeliveryState):
    """The outcome of a declare (Part 4, 4.5.5).

    Attributes:
        txn_id: the transaction-id, at most 32 bytes.
    """

    txn_id: txn_id


@composite("amqp:transactional-state:list", 0x34, provides=("delivery-state",), checks_types=True)
@attrs.define
class TransactionalState(DeliveryState):
    """The state of a delivery within a transaction (Part 4, 4.5.6).

    The state itself is not an outcome: its ``outcome`` is provisional until the transaction is
    discharged successfully.

    Attributes:
        txn_id: the transaction-id, at most 32 bytes.
        outcome: the outcome if the transaction succeeds.
    """

    txn_id: txn_id
    outcome: any_outcome | None = None


# The archetypes of the composite types that `decode` accepts.
_DECODABLE_ARCHETYPES = frozenset(
    ("delivery-state", "outcome", "source", "target", "lifetime-policy", "error")
)
# Message bodies for a coordinator; Part 4 defines no archetype for them.
_COORDINATOR_BODIES = (Declare, Discharge)


def _is_decodable(cls: type) -> bool:
    """Whether `decode` accepts a composite type."""
    return cls in _COORDINATOR_BODIES or not _DECODABLE_ARCHETYPES.isdisjoint(
        composite_of(cls).provides
    )


def decode(
    data: bytes | bytearray | memoryview, *, limits: Limits | None = None, strict: bool = True
) -> Any:
    """Decode a delivery state, a terminus or a part of a terminus.

    Accepts a delivery state or outcome (Part 3, 3.4; Part 4), a source, target or coordinator, a
    declare or discharge, a lifetime policy, an error (Part 2, 2.8.14), and a composite registered
    with `amqp10msg.composite.composite` that provides such an archetype.

    Args:
        data: one encoded described value.
        limits: limits on decoding; None for the defaults of `Limits`.
        strict: whether to raise an error for values that break the declaration. If False, a field
            of the wrong type keeps its decoded value, such as an error's info with strings as keys;
            a missing field is None, and surplus fields are ignored.

    Returns:
        An object of the type's class; a singleton for outcomes without fields and for lifetime
        policies.

    Raises:
        DecodeError: the bytes are malformed, break their declaration, or are another composite.
    """
    octets = kernel.octets_of(data, limits or DEFAULT_LIMITS)
    decoded = decode_composite(octets, limits=limits, strict=strict)
    if not _is_decodable(type(decoded)):
        raise DecodeError(
            f"expected a delivery state, a terminus or a part of one, not a "
            f"{composite_of(type(decoded)).name}",
            0,
            rule="not-a-delivery-state",
            condition=NOT_IMPLEMENTED,
            data=octets,
        )
    return decoded


def encode(state: Any) -> bytes:
    """Encode an object that `decode` returns, with its numeric descriptor, in the shortest form.

    Raises:
        EncodeError: a field has a value of the wrong type.
        TypeError: `state` is not a delivery state, a terminus or a part of a terminus.
    """
    if not _is_decodable(type(state)):
        raise TypeError(
            f"expected a delivery state, a terminus or a part of one, not a {type(state).__name__}"
        )
    return encode_composite(state)


MessageOrBytes = TypeVar("MessageOrBytes", Message, bytes)

_MAX_DELIVERY_COUNT = 2**32 - 1


def apply(
    state: DeliveryState, message: MessageOrBytes, *, limits: Limits | None = None
) -> tuple[MessageState, MessageOrBytes]:
    """Return the state and the content of an acquired message after its delivery is settled.

    - Accepted: the message is archived (3.4.2).
    - Rejected: archived, with its delivery-count raised by one (3.4.3).
    - Released: available and unchanged (3.4.4).
    - Modified: available. With delivery_failed, its delivery-count is raised by one. The outcome's
      annotations are added to the message-annotations and replace equal keys (3.4.5). The node
      must implement undeliverable_here.
    - Received and TransactionalState are not outcomes: the message stays acquired and unchanged.
      If a link ends without an outcome, apply the default_outcome of its source. When a transaction
      is discharged, apply the ``outcome`` of the transactional state.

    The bytes of the bare message never change.

    Args:
        state: the state of the delivery at the receiver.
        message: the message at the node, which is not modified. For bytes the result is bytes; only
            the header and the message-annotations are decoded.
        limits: limits for decoding the two sections; None for the defaults of `Limits`. The changed
            message may exceed them: decode it before you store it.

    Returns:
        The state of the message at the node, and the changed message, or `message` itself if the
        outcome does not change it. A delivery-count of 2^32 - 1 is not raised.

    Raises:
        ValueError: the effect of the state is unknown: it is an extension, or `Declared`.
        DecodeError: the message is malformed bytes.
        EncodeError: lenient decoding has left a value of the wrong type in the delivery-count of
            the message, or in a field of the outcome.
        TypeError: `state` is not a delivery state, or `message` neither a Message nor bytes.
    """
    expect(state, DeliveryState, "the state of apply", "a delivery state")
    expect(message, (Message, bytes, bytearray, memoryview), "apply", "a Message or bytes")
    match state:
        case Accepted():
            return MessageState.ARCHIVED, message
        case Rejected():
            return MessageState.ARCHIVED, _with_modification(
                message, limits, failed=True, annotations=None
            )
        case Released():
            return MessageState.AVAILABLE, message
        case Modified():
            failed, annotations = _modification_of(state)
            return MessageState.AVAILABLE, _with_modification(
                message, limits, failed=failed, annotations=annotations
            )
        case Received() | TransactionalState():
            return MessageState.ACQUIRED, message
    raise ValueError(f"unknown effect of the state {state!r:.80} on a message")


def _modification_of(state: Modified) -> tuple[bool, Mapping[str, object]]:
    """Return the flag delivery-failed and the annotations of an outcome.

    Raises:
        EncodeError: lenient decoding has left a value of the wrong type in the outcome.
    """
    failed: object = state.delivery_failed
    if not (failed is None or isinstance(failed, bool)):
        raise EncodeError(f"must be a boolean, got {failed!r:.80}", "modified.delivery-failed")
    annotations: object = state.message_annotations
    if annotations is None:
        annotations = {}
    if not isinstance(annotations, (Mapping, AmqpMap)):
        raise EncodeError(f"must be a map, got {annotations!r:.80}", "modified.message-annotations")
    return bool(failed), annotations


def _with_modification(
    message: MessageOrBytes,
    limits: Limits | None,
    *,
    failed: bool,
    annotations: Mapping[str, object] | None,
) -> MessageOrBytes:
    """Return a message with annotations added and, if `failed`, its delivery-count increased."""
    if not failed and not annotations:
        return message
    if isinstance(message, Message):
        header, existing = message.header, message.message_annotations
    else:
        parts = scan(message, limits=limits)
        header, existing = parts.section("header"), parts.section("message-annotations")
    sections: dict[str, Any] = {}
    if failed:
        sections["header"] = _with_failure_counted(header)
    if annotations:
        combined = merged(existing, annotations)
        # After lenient decoding, the section may be an AmqpMap.
        sections["message_annotations"] = (
            combined if isinstance(combined, AmqpMap) else MessageAnnotations(combined)
        )
    if isinstance(message, Message):
        copied = message.evolve()
        for name, section in sections.items():
            setattr(copied, name, section)
        return copied
    return parts.replace(**sections)


def _with_failure_counted(header: Header | None) -> Header:
    """Return the header with its delivery-count increased by one."""
    header = Header() if header is None else header
    count: object = header.delivery_count
    if isinstance(count, bool) or not isinstance(count, int):
        raise EncodeError(f"must be an integer, got {count!r}", "header.delivery-count")
    # Bypass the constructor, which refuses values that lenient decoding may have left.
    counted = copy.copy(header)
    counted.delivery_count = min(int(count) + 1, _MAX_DELIVERY_COUNT)
    return counted
