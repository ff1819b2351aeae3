"""Opens the ends of a bridge by the protocol of their URLs."""

from __future__ import annotations

from amqp10msg.net.bridge.files import open_file_source, open_file_target
from amqp10msg.net.bridge.terms import (
    LinkError,
    OnLost,
    OnOutcome,
    OnRoom,
    Overflow,
    Receive,
    SourceLink,
    TargetLink,
)
from amqp10msg.net.bridge.urls import Endpoint

__all__ = ["open_source", "open_target"]


async def open_source(
    endpoint: Endpoint,
    receive: Receive,
    on_lost: OnLost,
    *,
    window: int,
    max_message: int,
    overflow: Overflow,
) -> SourceLink:
    """Attach to a source, which calls `receive` with each delivery.

    Args:
        endpoint: where.
        receive: takes deliveries.
        on_lost: is told of the end.
        window: deliveries that are not settled, at most.
        max_message: bytes of a message that is kept in memory.
        overflow: makes what takes the bytes of a larger one.

    Raises:
        LinkError: it did not succeed.
        ModuleNotFoundError: the extra ``net`` is not installed.
    """
    secret = endpoint.password

    def lost(error: LinkError) -> None:
        on_lost(error.without(secret))

    try:
        return await _open_source(
            endpoint, receive, lost, window=window, max_message=max_message, overflow=overflow
        )
    except LinkError as error:
        raise error.without(secret) from None


async def _open_source(
    endpoint: Endpoint,
    receive: Receive,
    on_lost: OnLost,
    *,
    window: int,
    max_message: int,
    overflow: Overflow,
) -> SourceLink:
    if endpoint.file is not None:
        return await open_file_source(endpoint, receive, window=window, max_message=max_message)
    if endpoint.protocol == "0-9-1":
        from amqp10msg.net.bridge.basic import open_basic_source as open_  # noqa: PLC0415

        return await open_(
            endpoint, receive, on_lost, window=window, max_message=max_message, overflow=overflow
        )
    from amqp10msg.net.bridge.amqp10 import open_amqp10_source  # noqa: PLC0415  (an extra)

    return await open_amqp10_source(
        endpoint, receive, on_lost, window=window, max_message=max_message, overflow=overflow
    )


async def open_target(
    endpoint: Endpoint, on_outcome: OnOutcome, on_room: OnRoom, on_lost: OnLost, *, window: int
) -> TargetLink:
    """Attach to a target, which calls `on_outcome` with each outcome.

    Raises:
        LinkError: it did not succeed.
        ModuleNotFoundError: the extra ``net`` is not installed.
    """
    secret = endpoint.password

    def lost(error: LinkError) -> None:
        on_lost(error.without(secret))

    try:
        return await _open_target(endpoint, on_outcome, on_room, lost, window=window)
    except LinkError as error:
        raise error.without(secret) from None


async def _open_target(
    endpoint: Endpoint, on_outcome: OnOutcome, on_room: OnRoom, on_lost: OnLost, *, window: int
) -> TargetLink:
    if endpoint.file is not None:
        return await open_file_target(endpoint, on_outcome, on_room, on_lost, window=window)
    if endpoint.protocol == "0-9-1":
        from amqp10msg.net.bridge.basic import open_basic_target as open_  # noqa: PLC0415

        return await open_(endpoint, on_outcome, on_room, on_lost, window=window)
    from amqp10msg.net.bridge.amqp10 import open_amqp10_target  # noqa: PLC0415  (an extra)

    return await open_amqp10_target(endpoint, on_outcome, on_room, on_lost, window=window)
