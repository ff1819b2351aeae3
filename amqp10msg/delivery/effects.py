"""What an outcome does to a message at a distribution node (Part 3, 3.3 and 3.4)."""

from __future__ import annotations

import copy
from typing import Any, TypeVar

from amqp10msg.delivery.outcomes import Accepted, Modified, Received, Rejected, Released
from amqp10msg.delivery.states import DeliveryState, MessageState
from amqp10msg.delivery.transactions import TransactionalState
from amqp10msg.message import Message
from amqp10msg.sections import Header, MessageAnnotations
from amqp10msg.sections.parts import scan
from amqp10msg.wire.errors import EncodeError
from amqp10msg.wire.limits import Limits

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
        message: the message at the node; it is not changed. For octets the result is octets, of
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
        EncodeError: the message, read leniently, has a delivery-count that is not a number.
    """
    match state:
        case Accepted():
            return MessageState.ARCHIVED, message
        case Rejected():
            return MessageState.ARCHIVED, _changed(message, limits, failed=True, annotations=None)
        case Released():
            return MessageState.AVAILABLE, message
        case Modified():
            annotations = state.message_annotations
            return MessageState.AVAILABLE, _changed(
                message, limits, failed=state.delivery_failed, annotations=annotations
            )
        case Received() | TransactionalState():
            return MessageState.ACQUIRED, message
    raise ValueError(f"what this state does to a message is not known: {state!r:.80}")


def _changed(
    message: AnyMessage,
    limits: Limits | None,
    *,
    failed: bool,
    annotations: dict[str, object] | None,
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
        sections["message_annotations"] = MessageAnnotations({**(held or {}), **annotations})
    if isinstance(message, Message):
        return message.evolve(**sections)
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
