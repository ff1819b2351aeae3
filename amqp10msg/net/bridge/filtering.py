"""Evaluates the filter of a route on a delivery, for the bridge and for its dry run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from amqp10msg.net.bridge.sending import message_of
from amqp10msg.net.ends.terms import SourceDelivery
from amqp10msg.wire.errors import AmqpError


@attrs.frozen
class FilterResult:
    """The result of a filter for one delivery.

    Attributes:
        passes: whether the message passes the filter.
        message: the decoded `BasicMessage` or `Message`; None if it cannot be decoded, or there is
            no filter.
        fault: why the filter could not be evaluated, as the quarantine states it; empty if it was.
    """

    passes: bool
    message: Any = None
    fault: str = ""


def evaluate_filter(
    predicate: Callable[[Any], bool] | None, delivery: SourceDelivery
) -> FilterResult:
    """Evaluate a filter on the message of a delivery.

    Args:
        predicate: `RouteOptions.predicate`; None if the route has no filter. An exception that it
            raises becomes the fault of the result.
        delivery: a delivery without a fault, whose message is in memory.
    """
    if predicate is None:
        return FilterResult(passes=True)
    message = None
    try:
        message = message_of(delivery)
        return FilterResult(bool(predicate(message)), message)
    except Exception as error:  # noqa: BLE001  (a hook's error quarantines the message)
        # The text of other exceptions, such as a KeyError, is not a sentence.
        reason = str(error) if isinstance(error, AmqpError) else repr(error)
        return FilterResult(passes=False, message=message, fault=f"filter: {reason}")
