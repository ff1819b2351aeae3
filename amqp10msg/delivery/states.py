"""Delivery states, outcomes and transactions (Part 3, 3.4; Part 4), and what they do."""

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
from amqp10msg.wire.primitives import AmqpMap, Wire, boolean, fields, symbols, uint, ulong


class MessageState(StrEnum):
    """The state of a message at a node (Part 3, 3.3, figure 3.1)."""

    AVAILABLE = "available"
    ACQUIRED = "acquired"
    ARCHIVED = "archived"


class DeliveryState:
    """The state of a delivery at one end of a link (Part 3, 3.4).

    The base class of the states that the specification defines, and of your own, whose declaration
    provides ``delivery-state`` and, if it is an outcome, ``outcome``.
    """

    __slots__ = ()

    @property
    def is_outcome(self) -> bool:
        """Whether it is an outcome, the final result of processing (Part 3, 3.4)."""
        return "outcome" in composite_of(type(self)).provides

    @property
    def is_terminal(self) -> bool:
        """Whether it is terminal, which every outcome is (Part 3, 3.4)."""
        return self.is_outcome


class Shared:
    """The base class of composites without fields, which have one shared object per class."""

    __slots__ = ()
    _the_one: ClassVar[Any]

    def __new__(cls) -> Self:
        """Return the object of the class."""
        made = cls.__dict__.get("_the_one")
        if made is None:
            made = super().__new__(cls)
            cls._the_one = made
        shared: Self = made
        return shared


error = Annotated[Error, Wire("*", "error", requires="error")]
_OUTCOME = ("delivery-state", "outcome")


@composite("amqp:received:list", 0x23, provides=("delivery-state",))
@attrs.define
class Received(DeliveryState):
    """The point up to which a message was received, to resume its transfer (Part 3, 3.4.1).

    Attributes:
        section_number: the section, from 0, at most 2^32 - 1.
        section_offset: the byte in that section, from 0 at its descriptor, at most 2^64 - 1.
    """

    section_number: uint
    section_offset: ulong


@composite("amqp:accepted:list", 0x24, provides=_OUTCOME)
@attrs.frozen
class Accepted(Shared, DeliveryState):
    """The receiver processed the message successfully (Part 3, 3.4.2)."""


@composite("amqp:rejected:list", 0x25, provides=_OUTCOME)
@attrs.define
class Rejected(DeliveryState):
    """The message is invalid and cannot be processed (Part 3, 3.4.3).

    Attributes:
        error: the reason.
    """

    error: error | None = None


@composite("amqp:released:list", 0x26, provides=_OUTCOME)
@attrs.frozen
class Released(Shared, DeliveryState):
    """The message was not, and will not be, processed (Part 3, 3.4.4)."""


@composite("amqp:modified:list", 0x27, provides=_OUTCOME)
@attrs.define
class Modified(DeliveryState):
    """The message was modified, but not processed (Part 3, 3.4.5).

    Attributes:
        delivery_failed: whether the transfer counts as an unsuccessful delivery attempt.
        undeliverable_here: whether not to deliver it on this link again.
        message_annotations: annotations to add to the message or to replace in it.
    """

    delivery_failed: boolean = False
    undeliverable_here: boolean = False
    message_annotations: fields | None = None


# Made at import, before two threads can make two.
for _outcome in (Accepted, Released):
    _outcome()


class TxnCapability(StrEnum):
    """The capabilities of a coordinator, supported or desired (Part 4, 4.5.7).

    The members are strings that `Coordinator.capabilities` takes as they are.
    """

    LOCAL_TRANSACTIONS = "amqp:local-transactions"
    DISTRIBUTED_TRANSACTIONS = "amqp:distributed-transactions"
    PROMOTABLE_TRANSACTIONS = "amqp:promotable-transactions"
    MULTI_TXNS_PER_SSN = "amqp:multi-txns-per-ssn"
    MULTI_SSNS_PER_TXN = "amqp:multi-ssns-per-txn"


class TransactionError(StrEnum):
    """The conditions of errors about transactions (Part 4, 4.5.8)."""

    UNKNOWN_ID = "amqp:transaction:unknown-id"
    TRANSACTION_ROLLBACK = "amqp:transaction:rollback"
    TRANSACTION_TIMEOUT = "amqp:transaction:timeout"


# Part 4, 4.5.4: up to 32 bytes.
txn_id = Annotated[bytes, Wire("binary", "transaction-id", size=32)]
outcome = Annotated[Any, Wire("*", requires="outcome")]
global_id = Annotated[Any, Wire("*", requires="global-tx-id")]


@composite("amqp:coordinator:list", 0x30, provides=("target",))
@attrs.define
class Coordinator:
    """The target of a link that controls transactions (Part 4, 4.5.1).

    Attributes:
        capabilities: what the coordinator supports or the controller desires.
    """

    capabilities: symbols = ()


@composite("amqp:declare:list", 0x31)
@attrs.define
class Declare:
    """The message body that asks for a transaction (Part 4, 4.5.2).

    Attributes:
        global_id: identifies a global transaction.
    """

    global_id: global_id | None = None


@composite("amqp:discharge:list", 0x32)
@attrs.define
class Discharge:
    """The message body that ends a transaction (Part 4, 4.5.3).

    Attributes:
        txn_id: the transaction, at most 32 bytes.
        fail: roll it back.
    """

    txn_id: txn_id
    fail: boolean = False


@composite("amqp:declared:list", 0x33, provides=("delivery-state", "outcome"))
@attrs.define
class Declared(DeliveryState):
    """The outcome of a declare (Part 4, 4.5.5).

    Attributes:
        txn_id: the transaction, at most 32 bytes.
    """

    txn_id: txn_id


@composite("amqp:transactional-state:list", 0x34, provides=("delivery-state",))
@attrs.define
class TransactionalState(DeliveryState):
    """The state of a delivery within a transaction (Part 4, 4.5.6).

    It is not an outcome: its own outcome is provisional, and takes effect when the transaction is
    discharged successfully.

    Attributes:
        txn_id: the transaction, at most 32 bytes.
        outcome: the outcome that holds if the transaction succeeds.
    """

    txn_id: txn_id
    outcome: outcome | None = None


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


AnyMessage = TypeVar("AnyMessage", Message, bytes)

_MAX_COUNT = 2**32 - 1


def apply(
    state: DeliveryState, message: AnyMessage, *, limits: Limits | None = None
) -> tuple[MessageState, AnyMessage]:
    """Return the state of an acquired message, and the message, after its delivery is settled.

    - Accepted: archived (3.4.2).
    - Rejected: archived, its delivery-count one higher (3.4.3).
    - Released: available and unchanged (3.4.4).
    - Modified: available; with delivery_failed its delivery-count one higher; the annotations of
      the outcome added to its message-annotations, replacing those of the same key (3.4.5).
      It is up to the node to heed undeliverable_here.
    - Received and TransactionalState are not outcomes: the message is still acquired, unchanged.
      If a link ends before there is an outcome, apply the default_outcome of its source; when a
      transaction is discharged, apply the ``outcome`` of the transactional state.

    The bare message stays as it is, byte for byte.

    Args:
        state: the state of the delivery at the receiver.
        message: the message at the node; it is not changed. For bytes the result is bytes, of
            which only header and message-annotations are decoded.
        limits: what decoding those may cost; the defaults of `Limits` if None. The changed message
            may exceed them: decode it before you store it.

    Returns:
        The state of the message at the node, and the changed message; the same object if nothing
        changes. A delivery-count of 2^32 - 1 is not counted further.

    Raises:
        ValueError: the state has no known effect on a message: it is an extension's, or declared,
            which is about a transaction.
        DecodeError: the message is bytes that do not parse.
        EncodeError: lenient decoding left the message with a delivery-count that is not a number,
            or the state with a field of another type than `Modified` declares.
        TypeError: `state` is not a delivery state, or `message` neither a Message nor bytes.
    """
    expect(state, DeliveryState, "the state of apply", "a delivery state")
    expect(message, (Message, bytes, bytearray, memoryview), "apply", "a Message or bytes")
    match state:
        case Accepted():
            return MessageState.ARCHIVED, message
        case Rejected():
            return MessageState.ARCHIVED, _changed(message, limits, failed=True, annotations=None)
        case Released():
            return MessageState.AVAILABLE, message
        case Modified():
            failed, annotations = _checked(state)
            return MessageState.AVAILABLE, _changed(
                message, limits, failed=failed, annotations=annotations
            )
        case Received() | TransactionalState():
            return MessageState.ACQUIRED, message
    raise ValueError(f"what this state does to a message is not known: {state!r:.80}")


def _checked(state: Modified) -> tuple[bool, Mapping[str, object]]:
    """Return the flag delivery-failed and the annotations of an outcome.

    Raises:
        EncodeError: a value has another type than its field, as lenient decoding leaves it.
    """
    failed: object = state.delivery_failed
    if not (failed is None or isinstance(failed, bool)):
        raise EncodeError(f"must be a boolean, not {failed!r:.80}", "modified.delivery-failed")
    annotations: object = state.message_annotations
    if annotations is None:
        annotations = {}
    if not isinstance(annotations, (Mapping, AmqpMap)):
        raise EncodeError(f"must be a map, not {annotations!r:.80}", "modified.message-annotations")
    return bool(failed), annotations


def _changed(
    message: AnyMessage,
    limits: Limits | None,
    *,
    failed: bool,
    annotations: Mapping[str, object] | None,
) -> AnyMessage:
    if not failed and not annotations:
        return message
    if isinstance(message, Message):
        header, held = message.header, message.message_annotations
    else:
        parts = scan(message, limits=limits)
        header, held = parts.section("header"), parts.section("message-annotations")
    sections: dict[str, Any] = {}
    if failed:
        sections["header"] = _counted(header)
    if annotations:
        made = merged(held, annotations)  # a lenient message's may be no dict
        sections["message_annotations"] = (
            made if isinstance(made, AmqpMap) else MessageAnnotations(made)
        )
    if isinstance(message, Message):
        copied = message.evolve()
        for name, section in sections.items():
            setattr(copied, name, section)
        return copied
    return parts.replace(**sections)


def _counted(header: Header | None) -> Header:
    header = Header() if header is None else header
    count: object = header.delivery_count
    if isinstance(count, bool) or not isinstance(count, int):
        raise EncodeError(
            f"must be a number to count on from, not {count!r}", "header.delivery-count"
        )
    # Not evolved: what was read leniently may hold other values that no constructor takes.
    counted = copy.copy(header)
    counted.delivery_count = min(int(count) + 1, _MAX_COUNT)
    return counted
