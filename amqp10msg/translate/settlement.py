"""Settlement and error codes between 0-9-1 and 1.0, as tables."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import attrs

from amqp10msg.delivery import Accepted, Error, Modified, Rejected, Released
from amqp10msg.translate.report import Loss
from amqp10msg.wire.errors import (
    CONNECTION_FORCED,
    DECODE_ERROR,
    FRAME_SIZE_TOO_SMALL,
    FRAMING_ERROR,
    ILLEGAL_STATE,
    INTERNAL_ERROR,
    INVALID_FIELD,
    MESSAGE_SIZE_EXCEEDED,
    NOT_ALLOWED,
    NOT_FOUND,
    NOT_IMPLEMENTED,
    PRECONDITION_FAILED,
    RESOURCE_DELETED,
    RESOURCE_LIMIT_EXCEEDED,
    RESOURCE_LOCKED,
    UNAUTHORIZED_ACCESS,
    expect,
)

__all__ = [
    "CONDITIONS",
    "REPLY_CODES",
    "ReplyCode",
    "Settlement",
    "outcome_of_return",
    "outcome_of_settlement",
    "settlement_of_outcome",
]


@attrs.frozen
class ReplyCode:
    """A reply code of 0-9-1 and the corresponding error condition of 1.0.

    Attributes:
        code: the number, such as 404.
        name: the name in the specification, such as ``not-found``.
        condition: the 1.0 error condition, such as ``amqp:not-found``.
        closes: what the broker closes: the ``channel`` (soft error) or ``connection`` (hard error);
            ``message`` if it only returns the message.
    """

    code: int
    name: str
    condition: str
    closes: str


_REPLY_CODE_ROWS = (
    (311, "content-too-large", MESSAGE_SIZE_EXCEEDED, "channel"),
    (312, "no-route", NOT_FOUND, "message"),
    (313, "no-consumers", PRECONDITION_FAILED, "channel"),
    (320, "connection-forced", CONNECTION_FORCED, "connection"),
    (402, "invalid-path", NOT_FOUND, "connection"),
    (403, "access-refused", UNAUTHORIZED_ACCESS, "channel"),
    (404, "not-found", NOT_FOUND, "channel"),
    (405, "resource-locked", RESOURCE_LOCKED, "channel"),
    (406, "precondition-failed", PRECONDITION_FAILED, "channel"),
    (501, "frame-error", FRAMING_ERROR, "connection"),
    (502, "syntax-error", DECODE_ERROR, "connection"),
    (503, "command-invalid", ILLEGAL_STATE, "connection"),
    (504, "channel-error", ILLEGAL_STATE, "connection"),
    (505, "unexpected-frame", ILLEGAL_STATE, "connection"),
    (506, "resource-error", RESOURCE_LIMIT_EXCEEDED, "connection"),
    (530, "not-allowed", NOT_ALLOWED, "connection"),
    (540, "not-implemented", NOT_IMPLEMENTED, "connection"),
    (541, "internal-error", INTERNAL_ERROR, "connection"),
)
#: Reply codes by number. 312 is from RabbitMQ and 0-9, the remaining codes are from 0-9-1.
REPLY_CODES: Mapping[int, ReplyCode] = MappingProxyType(
    {row[0]: ReplyCode(*row) for row in _REPLY_CODE_ROWS}
)
#: The reply code for each error condition. If several codes have the condition, the most general
#: code is used.
CONDITIONS: Mapping[str, int] = MappingProxyType(
    {
        **{condition: code for code, _, condition, _ in reversed(_REPLY_CODE_ROWS)},
        NOT_FOUND: 404,
        PRECONDITION_FAILED: 406,
        ILLEGAL_STATE: 504,
        FRAME_SIZE_TOO_SMALL: 501,
        INVALID_FIELD: 502,
        RESOURCE_DELETED: 404,
    }
)


@attrs.frozen
class Settlement:
    """How a 0-9-1 client settles a delivery.

    Attributes:
        method: ``basic.ack``, ``basic.nack`` or ``basic.reject``.
        requeue: the requeue flag of nack and reject.
    """

    method: str
    requeue: bool = False


def outcome_of_settlement(settlement: Settlement) -> Accepted | Released | Rejected:
    """Return the 1.0 outcome (Part 3, 3.4) that corresponds to a 0-9-1 client's settlement.

    basic.ack becomes accepted. basic.nack and basic.reject become released if requeue is set,
    otherwise rejected.

    Raises:
        ValueError: the method does not settle a delivery.
    """
    expect(settlement, Settlement, "outcome_of_settlement", "a Settlement")
    if settlement.method == "basic.ack":
        return Accepted()
    if settlement.method not in {"basic.nack", "basic.reject"}:
        raise ValueError(
            f"{settlement.method!r} does not settle a delivery: use basic.ack, basic.nack or "
            "basic.reject"
        )
    return Released() if settlement.requeue else Rejected()


def settlement_of_outcome(
    outcome: Accepted | Released | Rejected | Modified,
) -> tuple[Settlement, tuple[Loss, ...]]:
    """Return the settlement that corresponds to a 1.0 outcome for a 0-9-1 client, and the losses.

    accepted becomes basic.ack, and rejected becomes basic.reject without requeue. released and
    modified become basic.reject with requeue, or without requeue if undeliverable-here is set.

    Raises:
        TypeError: `outcome` is not an outcome.
    """
    losses: list[Loss] = []

    def add_loss(path: str, value: object, reason: str) -> None:
        if value:
            losses.append(Loss(path, "dropped", value, None, reason, False))

    if isinstance(outcome, Accepted):
        return Settlement("basic.ack"), ()
    if isinstance(outcome, Rejected):
        add_loss("rejected.error", outcome.error, "basic.reject gives no reason")
        return Settlement("basic.reject"), tuple(losses)
    if isinstance(outcome, Released):
        return Settlement("basic.reject", requeue=True), ()
    if isinstance(outcome, Modified):
        add_loss("modified.delivery-failed", outcome.delivery_failed, "0-9-1 counts no failures")
        add_loss(
            "modified.message-annotations",
            outcome.message_annotations,
            "0-9-1 changes no message on its way back",
        )
        return Settlement("basic.reject", requeue=not outcome.undeliverable_here), tuple(losses)
    raise TypeError(f"expected an outcome of Part 3, 3.4, not {type(outcome).__name__}")


def outcome_of_return(code: int, text: str = "") -> Rejected:
    """Return the outcome for a message that the broker returned with basic.return.

    Args:
        code: the reply code of basic.return; brokers send 312 (no-route) or 313 (no-consumers).
        text: the reply text of basic.return.

    Raises:
        ValueError: the code is not in `REPLY_CODES`.
    """
    if code not in REPLY_CODES:
        raise ValueError(
            f"{code} is not a reply code: use one of {', '.join(map(str, REPLY_CODES))}"
        )
    return Rejected(error=Error(REPLY_CODES[code].condition, text or None))
