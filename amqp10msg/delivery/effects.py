"""What an outcome does to a message at a distribution node (Part 3, 3.3 and 3.4)."""

from __future__ import annotations

from typing import TypeVar

import attrs

from amqp10msg.delivery.outcomes import Accepted, Modified, Received, Rejected, Released
from amqp10msg.delivery.states import DeliveryState, MessageState
from amqp10msg.delivery.transactions import TransactionalState
from amqp10msg.errors import EncodeError
from amqp10msg.limits import Limits
from amqp10msg.message import Message
from amqp10msg.parts import scan
from amqp10msg.sections import Header, MessageAnnotations

__all__ = ["apply"]

AnyMessage = TypeVar("AnyMessage", Message, bytes)

_MAX_COUNT = 2**32 - 1


def apply(
    state: DeliveryState, message: AnyMessage, *, limits: Limits | None = None
) -> tuple[MessageState, AnyMessage]:
    """Tell where a message that a link had acquired stands once its transfer is settled.

    - Accepted: archived (3.4.2).
    - Rejected: archived, its delivery-count one higher (3.4.3).
    - Released: available and unchanged (3.4.4).
    - Modified: available; with delivery_failed its delivery-count one higher; the annotations of
      the outcome added to its message-annotations, replacing those of the same key (3.4.5).
      Not to deliver it on this link again, if undeliverable_here says so, is up to the node.
    - Received and TransactionalState are no outcomes: the message is still acquired, unchanged.
      Where a link ends before there is an outcome, apply the default_outcome of its source; when
      a transaction was discharged, apply the ``outcome`` of the transactional state.

    The bare message stays as it is, octet for octet.

    Args:
        state: the state of the delivery at the receiver.
        message: the message at the node; it is not changed. Octets give octets: an encoded message
            is changed without decoding more of it than header and message-annotations.
        limits: what decoding those may cost; the defaults of `Limits` where None. The changed
            message may exceed them: whoever stores it should decode it before.

    Returns:
        The state of the message at the node, and the message as it is from now on, the very
        argument where nothing changes. A delivery-count of 2^32 - 1 stays what it is.

    Raises:
        ValueError: what the state does to a message is not known: it is of an extension, or a
            declared, which is about a transaction and not about a message.
        DecodeError: the message is octets that do not parse.
        EncodeError: the message, read leniently, has a delivery-count that is no number.
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
    if isinstance(message, Message):
        sections: dict[str, Header | MessageAnnotations] = {}
        if failed:
            sections["header"] = _counted(message.header)
        if annotations:
            sections["message_annotations"] = _merged(message.message_annotations, annotations)
        return message.evolve(**sections) if sections else message
    parts = scan(message, limits=limits)
    if failed and annotations:
        return parts.replace(
            header=_counted(parts.section("header")),
            message_annotations=_merged(parts.section("message-annotations"), annotations),
        )
    if failed:
        return parts.replace(header=_counted(parts.section("header")))
    if annotations:
        merged = _merged(parts.section("message-annotations"), annotations)
        return parts.replace(message_annotations=merged)
    return message


def _counted(header: Header | None) -> Header:
    header = Header() if header is None else header
    count: object = header.delivery_count
    if isinstance(count, bool) or not isinstance(count, int):
        raise EncodeError(
            f"must be a number to count on from, not {count!r}", "header.delivery-count"
        )
    return attrs.evolve(header, delivery_count=min(int(count) + 1, _MAX_COUNT))


def _merged(held: MessageAnnotations | None, annotations: dict[str, object]) -> MessageAnnotations:
    merged = MessageAnnotations(held or {})
    merged.update(annotations)
    return merged
