"""The losses that both the plain rules and the compiled engine report.

The plain rules (the translation in Python) look kinds of loss up by name. The compiled engine
copies them into C arrays when it is imported, and looks them up by index. Losses that only the
plain rules report are defined next to their rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from amqp10msg.translate.report import (
    ADDED_AT_DELIVERY_REASON,
    BROKER_ANNOTATION_REASON,
    RABBITMQ_3_10_HEADER_REASON,
    RABBITMQ_3_10_SUBJECT_REASON,
    REDELIVERED_TO_0_9_1_REASON,
    REDELIVERED_TO_1_0_REASON,
    Action,
)

__all__ = ["ENGINE_LOSSES", "TO_AMQP10_LOSSES", "TO_BASIC_LOSSES", "LossRule"]


class LossRule(NamedTuple):
    """A kind of loss: the attributes of a `Loss` that do not depend on the message.

    Attributes:
        action: what happens to the value; see `report.Action`.
        reason: the reason for the change.
        recoverable: whether the reverse translation restores the original value.
    """

    action: Action
    reason: str
    recoverable: bool = False


# Reasons that several kinds of loss share.
_NO_PROPERTY_REASON = "0-9-1 has no such property"
_NO_FOOTER_REASON = "0-9-1 has no footer"
_JOINED_SECTIONS_REASON = "the data sections are joined"
_SECONDS_SINCE_1970_REASON = "0-9-1 has whole seconds since 1970"

#: Kinds of loss in translations from 0-9-1 to 1.0, by name, for all profiles.
TO_AMQP10_LOSSES: Mapping[str, LossRule] = {
    "redelivered": LossRule("retyped", REDELIVERED_TO_1_0_REASON, True),
    "fact": LossRule("dropped", ADDED_AT_DELIVERY_REASON),
    "unplaced": LossRule("carried", "1.0 cannot hold it, or a broker could not deliver it", True),
    "no-text": LossRule("retyped", "not valid UTF-8 without NUL of at most 4,096 bytes"),
    "routes": LossRule("renamed", "it becomes the annotation x-cc", True),
    "hidden-routes": LossRule("dropped", "BCC is for routing alone"),
    "nested": LossRule("dropped", "application-properties cannot contain an array or a table"),
    "header": LossRule("dropped", "headers are not converted"),
    "type": LossRule("renamed", "it becomes the annotation x-basic-type", True),
    "app-id": LossRule("renamed", "it becomes the group-id", True),
    "cluster-id": LossRule("dropped", "1.0 has no such field"),
    "left-out": LossRule("dropped", "it is left out"),
    "moment": LossRule("retyped", "the number of seconds becomes a number of milliseconds"),
    "user": LossRule("retyped", "it becomes a string"),
}

#: Kinds of loss in translations from 1.0 to 0-9-1, by name. The kinds of the lossless profile
#: precede the kinds of the RabbitMQ profiles.
TO_BASIC_LOSSES: Mapping[str, LossRule] = {
    "type": LossRule("retyped", "0-9-1 has no such type", True),
    "type-or-name": LossRule(
        "retyped", "0-9-1 has no such type, or the header has another name", True
    ),
    "carried-field": LossRule("carried", _NO_PROPERTY_REASON, True),
    "inexact": LossRule("retyped", "0-9-1 cannot express it exactly", True),
    "redelivered": LossRule("retyped", REDELIVERED_TO_0_9_1_REASON, True),
    "delivered-before": LossRule("carried", "0-9-1 only has a flag for an earlier delivery", True),
    "header-of-3": LossRule("dropped", RABBITMQ_3_10_HEADER_REASON),
    "subject-of-3": LossRule("dropped", RABBITMQ_3_10_SUBJECT_REASON),
    "low-priority": LossRule("clamped", "a priority of 0-9-1 is 0 to 9", True),
    "in-stream": LossRule(
        "retyped", "unchanged, but a stream of RabbitMQ 4 makes text of bytes that are UTF-8", True
    ),
    "encoded-anew": LossRule(
        "retyped", "unchanged, but a stream of RabbitMQ 4 re-encodes it (arrays, for example)", True
    ),
    "by-name": LossRule(
        "sorted", "unchanged, but RabbitMQ 4 and streams sort the headers by their names", True
    ),
    "cluster-id": LossRule("dropped", "unchanged, but a stream of RabbitMQ drops it", True),
    "mode": LossRule(
        "dropped", "unchanged, but after a stream it is read as an unset delivery mode", True
    ),
    "no-payload": LossRule("carried", "a 0-9-1 message always has a payload", True),
    "joined": LossRule("retyped", _JOINED_SECTIONS_REASON, True),
    "carried-delivery-annotations": LossRule("carried", "0-9-1 has no delivery-annotations", True),
    "carried-footer": LossRule("carried", _NO_FOOTER_REASON, True),
    "fact": LossRule("dropped", ADDED_AT_DELIVERY_REASON),
    "field": LossRule("dropped", _NO_PROPERTY_REASON),
    "sections": LossRule("retyped", "the encoded sections are the payload"),
    "joined-for-good": LossRule("retyped", _JOINED_SECTIONS_REASON),
    "broker's-own": LossRule("dropped", BROKER_ANNOTATION_REASON),
    "number": LossRule("retyped", "the number becomes text"),
    "unsigned": LossRule("wrapped", "0-9-1 has no unsigned 64-bit number"),
    "symbol": LossRule("retyped", "a symbol becomes a long string"),
    "binary": LossRule("retyped", "a binary becomes a long string"),
    "whole-seconds": LossRule("truncated", "0-9-1 has whole seconds"),
    "since-1970": LossRule("truncated", _SECONDS_SINCE_1970_REASON),
    "group-id": LossRule("renamed", "it becomes the app-id", True),
    "queue": LossRule("renamed", "an address of a queue becomes its name", True),
    "footer": LossRule("dropped", _NO_FOOTER_REASON),
    "delivery-annotations": LossRule("dropped", "they are for one hop"),
    "saved-section": LossRule("carried", "the encoded section becomes a header", True),
}

#: All kinds of loss. The compiled engine identifies a kind by its index in this tuple.
ENGINE_LOSSES: tuple[LossRule, ...] = (*TO_AMQP10_LOSSES.values(), *TO_BASIC_LOSSES.values())
