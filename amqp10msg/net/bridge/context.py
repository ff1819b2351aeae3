"""The objects that all parts of a route share, and the log of its events."""

from __future__ import annotations

import logging
from typing import Any

import attrs

from amqp10msg.net.bridge.lifecycle import Lifecycle
from amqp10msg.net.bridge.options import RouteOptions
from amqp10msg.net.bridge.statistics import Statistics
from amqp10msg.net.bridge.unsettled import Unsettled
from amqp10msg.net.ends.contents import id_fields
from amqp10msg.net.ends.terms import SourceDelivery
from amqp10msg.net.ends.urls import Endpoint
from amqp10msg.net.ends.wire import ConnectionPools
from amqp10msg.wire.reprs import shortened
from amqp10msg.wire.text import printable

# The maximum length of a message-id in a log, in characters.
_MAX_ID_LENGTH = 200


def log_event(logger: logging.Logger, event: str, level: int, **fields: Any) -> None:
    """Log an event of a bridge. The log record has the attributes ``event`` and ``fields``.

    In the text of the record, characters that are not printable are escaped: a peer must not add
    lines to a log, or control a terminal. The fields are unchanged.
    """
    text = printable(" ".join(f"{name}={value}" for name, value in fields.items()))
    logger.log(level, "%s %s", event, text, extra={"event": event, "fields": fields})


@attrs.frozen(eq=False)
class RouteContext:
    """The objects that all parts of a route share.

    Attributes:
        name: the name of the route in logs and reports.
        source: the endpoint to receive from.
        target: the endpoint to send to.
        options: the options of the route.
        logger: receives the events.
        pools: the connections that the route may share with other routes.
        statistics: the counts of the route.
        lifecycle: the state of the route. Any part can stop the route, or let it fail.
        unsettled: the unsettled deliveries of the route.
    """

    name: str
    source: Endpoint
    target: Endpoint
    options: RouteOptions
    logger: logging.Logger
    pools: ConnectionPools = attrs.Factory(ConnectionPools)
    statistics: Statistics = attrs.Factory(Statistics)
    lifecycle: Lifecycle = attrs.field(init=False)
    unsettled: Unsettled = attrs.field(init=False, factory=Unsettled)

    @lifecycle.default
    def _new_lifecycle(self) -> Lifecycle:
        return Lifecycle(self.statistics)

    def log(self, event: str, level: int = logging.INFO, **fields: Any) -> None:
        """Log an event with the name of the route."""
        log_event(self.logger, event, level, route=self.name, **fields)

    def log_message(self, event: str, level: int, delivery: SourceDelivery, **fields: Any) -> None:
        """Log an event of a message, with its size and, if they can be read, its id and type."""
        ids = {name: shortened(text, _MAX_ID_LENGTH) for name, text in id_fields(delivery).items()}
        size = delivery.size if delivery.large is None else len(delivery.large)
        self.log(event, level, size=size, **ids, **fields)
