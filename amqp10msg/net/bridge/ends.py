"""Opens the ends of a bridge by the protocol of their URLs."""

from __future__ import annotations

from typing import TypeVar

import attrs

from amqp10msg.net.bridge.files import open_file_source, open_file_target
from amqp10msg.net.bridge.terms import (
    LinkError,
    SourceLink,
    SourceRequest,
    TargetLink,
    TargetRequest,
)

_Request = TypeVar("_Request", SourceRequest, TargetRequest)


async def open_source(request: SourceRequest) -> SourceLink:
    """Attach to a source, which hands over its deliveries from then on.

    Raises:
        LinkError: it did not succeed.
        ModuleNotFoundError: the extra ``net`` is not installed.
    """
    try:
        return await _open_source(_discreet(request))
    except LinkError as error:
        raise error.without(request.endpoint.password) from None


async def _open_source(request: SourceRequest) -> SourceLink:
    if request.endpoint.file is not None:
        return await open_file_source(request)
    if request.endpoint.protocol == "0-9-1":
        from amqp10msg.net.bridge.basic import open_basic_source  # noqa: PLC0415  (an extra)

        return await open_basic_source(request)
    from amqp10msg.net.bridge.amqp10 import open_amqp10_source  # noqa: PLC0415  (an extra)

    return await open_amqp10_source(request)


async def open_target(request: TargetRequest) -> TargetLink:
    """Attach to a target, which tells the outcome of each message from then on.

    Raises:
        LinkError: it did not succeed.
        ModuleNotFoundError: the extra ``net`` is not installed.
    """
    try:
        return await _open_target(_discreet(request))
    except LinkError as error:
        raise error.without(request.endpoint.password) from None


async def _open_target(request: TargetRequest) -> TargetLink:
    if request.endpoint.file is not None:
        return await open_file_target(request)
    if request.endpoint.protocol == "0-9-1":
        from amqp10msg.net.bridge.basic import open_basic_target  # noqa: PLC0415  (an extra)

        return await open_basic_target(request)
    from amqp10msg.net.bridge.amqp10 import open_amqp10_target  # noqa: PLC0415  (an extra)

    return await open_amqp10_target(request)


def _discreet(request: _Request) -> _Request:
    """Return a request whose `on_lost` hears of no password."""

    def lost(error: LinkError) -> None:
        request.on_lost(error.without(request.endpoint.password))

    return attrs.evolve(request, on_lost=lost)
