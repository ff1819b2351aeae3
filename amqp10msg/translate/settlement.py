"""Settlement and error codes between 0-9-1 and 1.0, as tables."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import attrs

from amqp10msg.delivery import Accepted, Error, Modified, Rejected, Released
from amqp10msg.translate.report import Loss

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
        code: such as 404.
        name: the specification's, such as ``not-found``.
        condition: such as ``amqp:not-found``.
        closes: ``channel`` (soft error), ``connection`` (hard error) or ``message``.
    """

    code: int
    name: str
    condition: str
    closes: str


_ROWS = (
    (311, "content-too-large", "amqp:link:message-size-exceeded", "channel"),
    (312, "no-route", "amqp:not-found", "message"),
    (313, "no-consumers", "amqp:precondition-failed", "channel"),
    (320, "connection-forced", "amqp:connection:forced", "connection"),
    (402, "invalid-path", "amqp:not-found", "connection"),
    (403, "access-refused", "amqp:unauthorized-access", "channel"),
    (404, "not-found", "amqp:not-found", "channel"),
    (405, "resource-locked", "amqp:resource-locked", "channel"),
    (406, "precondition-failed", "amqp:precondition-failed", "channel"),
    (501, "frame-error", "amqp:connection:framing-error", "connection"),
    (502, "syntax-error", "amqp:decode-error", "connection"),
    (503, "command-invalid", "amqp:illegal-state", "connection"),
    (504, "channel-error", "amqp:illegal-state", "connection"),
    (505, "unexpected-frame", "amqp:illegal-state", "connection"),
    (506, "resource-error", "amqp:resource-limit-exceeded", "connection"),
    (530, "not-allowed", "amqp:not-allowed", "connection"),
    (540, "not-implemented", "amqp:not-implemented", "connection"),
    (541, "internal-error", "amqp:internal-error", "connection"),
)
#: Reply codes by number. 312 is of RabbitMQ and of 0-9; all others of 0-9-1.
REPLY_CODES: Mapping[int, ReplyCode] = MappingProxyType({row[0]: ReplyCode(*row) for row in _ROWS})
#: The reply code to answer a condition with; several codes have one condition, the plain one wins.
CONDITIONS: Mapping[str, int] = MappingProxyType(
    {
        **{condition: code for code, _, condition, _ in reversed(_ROWS)},
        "amqp:not-found": 404,
        "amqp:precondition-failed": 406,
        "amqp:illegal-state": 504,
        "amqp:frame-size-too-small": 501,
        "amqp:invalid-field": 502,
        "amqp:resource-deleted": 404,
    }
)


@attrs.frozen
class Settlement:
    """How a 0-9-1 client settles a delivery.

    Attributes:
        method: ``basic.ack``, ``basic.nack`` or ``basic.reject``.
        requeue: of nack and reject.
    """

    method: str
    requeue: bool = False


def outcome_of_settlement(settlement: Settlement) -> Accepted | Released | Rejected:
    """Return the 1.0 outcome (Part 3, 3.4) for what a 0-9-1 client did.

    basic.ack is accepted; nack and reject are released with requeue, rejected without.

    Raises:
        ValueError: the method does not settle a delivery.
    """
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
    """Return the method that a 0-9-1 client would call, and the losses.

    accepted is basic.ack; rejected is basic.reject without requeue; released and modified are
    basic.reject with requeue, a modified that is undeliverable here without.

    Raises:
        TypeError: `outcome` is not an outcome.
    """
    losses: list[Loss] = []

    def lost(path: str, value: object, reason: str) -> None:
        if value:
            losses.append(Loss(path, "dropped", value, None, reason, False))

    if isinstance(outcome, Accepted):
        return Settlement("basic.ack"), ()
    if isinstance(outcome, Rejected):
        lost("rejected.error", outcome.error, "basic.reject gives no reason")
        return Settlement("basic.reject"), tuple(losses)
    if isinstance(outcome, Released):
        return Settlement("basic.reject", requeue=True), ()
    if isinstance(outcome, Modified):
        lost("modified.delivery-failed", outcome.delivery_failed, "0-9-1 counts no failures")
        lost(
            "modified.message-annotations",
            outcome.message_annotations,
            "0-9-1 changes no message on its way back",
        )
        return Settlement("basic.reject", requeue=not outcome.undeliverable_here), tuple(losses)
    raise TypeError(f"expected an outcome of Part 3, 3.4, not {type(outcome).__name__}")


def outcome_of_return(code: int, text: str = "") -> Rejected:
    """Return the outcome of a message that came back with basic.return.

    Args:
        code: its reply code, 312 (no-route) or 313 (no-consumers) as brokers send it.
        text: its reply text.

    Raises:
        ValueError: the code is not in `REPLY_CODES`.
    """
    if code not in REPLY_CODES:
        raise ValueError(
            f"{code} is not a reply code: use one of {', '.join(map(str, REPLY_CODES))}"
        )
    return Rejected(error=Error(REPLY_CODES[code].condition, text or None))
