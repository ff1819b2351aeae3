"""Counts the messages and consumers of RabbitMQ queues over AMQP 0-9-1.

Over AMQP 1.0, RabbitMQ reports neither.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from urllib.parse import unquote

import attrs

from amqp10msg.net.ends.links import first_reachable
from amqp10msg.net.ends.terms import NO_COUNT_REASON, Depth, LinkError
from amqp10msg.net.ends.urls import Endpoint, is_short_name
from amqp10msg.net.ends.wire import ConnectionPool


def basic_endpoint_of(endpoint: Endpoint) -> Endpoint | None:
    """Return the endpoint of a source's queue for AMQP 0-9-1, on the same host and port.

    Return None if the source is not a RabbitMQ queue.
    """
    if endpoint.protocol == "0-9-1":
        return endpoint
    address = endpoint.address or ""
    queue = None
    if address.startswith("/queues/"):
        queue = unquote(address.removeprefix("/queues/"), errors="surrogateescape")
    for prefix in ("/amq/queue/", "/queue/"):
        if address.startswith(prefix):
            queue = address.removeprefix(prefix).replace("%2F", "/")
    if "/" not in address:
        queue = address
    virtual_host = endpoint.virtual_host or "/"
    if not queue or not is_short_name(queue) or not is_short_name(virtual_host):
        return None
    user, password = endpoint.user, endpoint.password
    if user is None and endpoint.mechanism != "EXTERNAL":
        user, password = "guest", "guest"
    return attrs.evolve(
        endpoint,
        protocol="0-9-1",
        address=None,
        queue=queue,
        virtual_host=virtual_host,
        user=user,
        password=password,
        mechanism=endpoint.mechanism if endpoint.mechanism == "EXTERNAL" else None,
        others=tuple(
            alternative
            for alternative in map(basic_endpoint_of, endpoint.others)
            if alternative is not None
        ),
    )


async def count_queue(
    endpoint: Endpoint, timeout: float, pool: ConnectionPool | None = None
) -> Depth:
    """Count the messages and consumers of a queue with a passive queue.declare.

    Raises:
        LinkError: no address of the endpoint answers within `timeout` seconds, or has the queue.
    """
    from amqp10msg.net.ends.basic import depth_of  # noqa: PLC0415  (an extra)

    def count_at(candidate: Endpoint) -> Awaitable[Depth]:
        candidate_with_timeout = attrs.evolve(candidate, timeout=min(candidate.timeout, timeout))
        return depth_of(candidate_with_timeout, candidate_with_timeout.queue or "", pool)

    return await first_reachable(endpoint, count_at)


def count_queue_now(endpoint: Endpoint, timeout: float = 10.0) -> Depth:
    """Count the messages of a RabbitMQ queue within `timeout` seconds; blocks.

    Opens a connection of AMQP 0-9-1. `Depth.reason` states why the messages were not counted.
    """
    basic_endpoint = basic_endpoint_of(endpoint)
    if basic_endpoint is None:
        return Depth(reason=NO_COUNT_REASON)
    try:
        return asyncio.run(count_queue(basic_endpoint, timeout))
    except (LinkError, ModuleNotFoundError) as error:
        return Depth(reason=str(error))
