"""Evaluates the filter of a route on its deliveries, for the bridge and for its dry run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from amqp10msg.net.bridge.matcher import Matcher, as_amqp10
from amqp10msg.net.bridge.sending import message_of
from amqp10msg.net.ends.terms import SourceDelivery
from amqp10msg.wire.errors import AmqpError

#: Maximum number of messages that are searched for the names in a filter that no message passes.
_MAX_UNMATCHED_CHECKED = 1_000


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


class UnmatchedCheck:
    """Finds the names in a filter that no message sets, if no message passes the filter.

    Args:
        predicate: `RouteOptions.predicate`. Nothing is checked unless it is a `Matcher`.
    """

    def __init__(self, predicate: Callable[[Any], bool] | None) -> None:
        # None once a message has passed.
        self._unset_names = predicate.unset_names() if isinstance(predicate, Matcher) else None
        self._checked_count = 0

    def add(self, result: FilterResult) -> None:
        """Take the result of the filter for another message into account."""
        if result.passes:
            self._unset_names = None
        elif (
            not result.fault
            and self._unset_names is not None
            and self._checked_count < _MAX_UNMATCHED_CHECKED
        ):
            self._checked_count += 1
            self._unset_names.add(as_amqp10(result.message))

    def texts(self) -> list[str]:
        """Return a sentence for each name that no message sets; [] if a message has passed."""
        return [] if self._unset_names is None else self._unset_names.texts()
