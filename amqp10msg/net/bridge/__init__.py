"""A live, lossless bridge between AMQP 0-9-1 and 1.0, in both directions.

    from amqp10msg.net.bridge import Bridge

    async with Bridge("amqp091://old/?queue=orders", "amqp://new/?queue=orders") as bridge:
        statistics = await bridge.run()

Requires the extra ``amqp10msg[bridge]``: pika encodes the methods of AMQP 0-9-1. The frames,
sessions and links of AMQP 1.0 are implemented in `amqp10msg.net.transport`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp10msg.net.bridge.options import ACTIONS, REASONS, RouteOptions, Waits
from amqp10msg.wire.later import later

if TYPE_CHECKING:
    from amqp10msg.net.bridge.bridge import Bridge
    from amqp10msg.net.bridge.route import Route
    from amqp10msg.net.bridge.routes import RouteSpec
    from amqp10msg.net.bridge.statistics import Statistics
    from amqp10msg.net.ends.entries import Entry, read_quarantine
    from amqp10msg.net.ends.files import Quarantine
    from amqp10msg.net.ends.terms import LinkError, Outcome, Settle, SourceDelivery
    from amqp10msg.net.ends.urls import Endpoint, parse_url

__all__ = [
    "ACTIONS",
    "REASONS",
    "Bridge",
    "Endpoint",
    "Entry",
    "LinkError",
    "Outcome",
    "Quarantine",
    "Route",
    "RouteOptions",
    "RouteSpec",
    "Settle",
    "SourceDelivery",
    "Statistics",
    "Waits",
    "parse_url",
    "read_quarantine",
]

if not TYPE_CHECKING:  # hidden, so that type checkers report names that do not exist
    # Import each module when a name of it is first used: Spark's workers start often, and need only
    # a few of these modules.
    __getattr__ = later(
        __name__,
        {
            "bridge": ["Bridge"],
            ".ends.entries": ["Entry", "read_quarantine"],
            ".ends.files": ["Quarantine"],
            "route": ["Route"],
            "routes": ["RouteSpec"],
            "statistics": ["Statistics"],
            ".ends.terms": ["LinkError", "Outcome", "Settle", "SourceDelivery"],
            ".ends.urls": ["Endpoint", "parse_url"],
        },
    )
