"""Checks that a stream or file was not replaced since a route read it."""

from __future__ import annotations

import asyncio
import logging
import tempfile
from collections.abc import Sequence
from pathlib import Path

from amqp10msg.net.bridge.context import RouteContext
from amqp10msg.net.bridge.fingerprints import fingerprint_of
from amqp10msg.net.bridge.records import Positions
from amqp10msg.net.ends.contents import position_of
from amqp10msg.net.ends.files import message_in_file
from amqp10msg.net.ends.links import open_source
from amqp10msg.net.ends.terms import LinkError, Oversized, SourceDelivery, SourceRequest
from amqp10msg.net.ends.urls import Endpoint
from amqp10msg.net.ends.wire import ConnectionPool

#: Seconds to wait for a message of a stream.
_MESSAGE_TIMEOUT = 10.0
#: Timeout in seconds of closing a link.
_CLOSE_TIMEOUT = 5.0
#: Number of messages to request, although only one is needed. RabbitMQ 4.0 delivers more messages
#: than the credit, and the link disconnects a peer that delivers a multiple of this window.
_REQUESTED_MESSAGES = 10
#: The end of the log texts that say why the source could not be checked.
_REPLACEMENT_UNKNOWN = (
    "so it is not known whether the source was deleted and declared again, or replaced"
)


class SourceReplacedError(LinkError):
    """Another stream or file has replaced the source since a route read it."""


class ReplacementCheck:
    """Checks, before a route opens its source, that the source was not replaced.

    Args:
        context: the route, which fails if its source was replaced.
        positions: the position up to which the source was read.
    """

    def __init__(self, context: RouteContext, positions: Positions) -> None:
        self._context = context
        self._positions = positions
        self._logged_reasons: set[str] = set()  # why the source could not be checked

    async def run(self, oldest: int | None) -> None:
        """Check the source. Log the reason if it cannot be checked, each reason once.

        `oldest` is as for `check_not_replaced`.

        Raises:
            LinkError: the source was replaced, or cannot be read.
        """
        context = self._context
        try:
            reason = await check_not_replaced(
                context.source,
                self._positions,
                oldest,
                context.options.max_message,
                context.pools.counting,
            )
        except SourceReplacedError as error:
            context.lifecycle.fail(error)  # fails a running route, too: a retry cannot succeed
            raise
        if reason and reason not in self._logged_reasons:
            self._logged_reasons.add(reason)
            endpoint = str(context.source)
            context.log("source-unchecked", logging.WARNING, at=endpoint, why=reason)


async def check_not_replaced(
    source: Endpoint,
    positions: Positions,
    oldest: int | None,
    max_message: int,
    pool: ConnectionPool | None,
) -> str:
    """Compare the last message that was read with the message that is now at its position.

    Return the reason why the messages cannot be compared; empty if they are the same, or if no
    message was read. If they differ, the stream was declared again, or the file was rotated, and
    has grown past the position since then: continuing would skip messages.

    Args:
        source: the stream or the file.
        positions: the position up to which it was read, and the fingerprint of the last message.
        oldest: the position of the first message of the stream; None if unknown.
        max_message: maximum size of the message in bytes; a larger one cannot be compared.
        pool: the connections that can be shared.

    Raises:
        SourceReplacedError: the messages differ.
        LinkError: the source cannot be read.
    """
    last, next_position = positions.fingerprint, positions.next
    if next_position is None:
        return ""
    if last is None:
        reason = "the state file has no fingerprint, as an earlier version wrote it"
        return f"{reason}, {_REPLACEMENT_UNKNOWN}"
    if last.protocol != source.protocol:
        return f"the last message was read over AMQP {last.protocol}, {_REPLACEMENT_UNKNOWN}"
    if source.file is not None:
        line = message_in_file(source, last.position, max_message)
        if line is None or fingerprint_of(line, stream=False) == last:
            return ""  # without this line, the file was truncated, and opening it will fail
        location, cause = f"line {last.position + 1}", "the file was rotated or replaced"
        raise _replaced(source, location, cause, next_position)
    if oldest is not None and oldest > last.position:
        reason = "the stream's retention removed the last message that was read"
        return f"{reason}, {_REPLACEMENT_UNKNOWN}"
    message = await _message_at(source, last.position, max_message, pool)
    if message is None or (oldest is None and message.position != last.position):
        return f"the message at position {last.position} was not delivered, {_REPLACEMENT_UNKNOWN}"
    if fingerprint_of(message, stream=True) != last:
        cause = "the stream was deleted and declared again"
        raise _replaced(source, f"the message at position {last.position}", cause, next_position)
    return ""


def _replaced(
    source: Endpoint, location: str, cause: str, next_position: int
) -> SourceReplacedError:
    """Return the error for a source whose message at `location` has changed."""
    return SourceReplacedError(
        f"{source}: {location} is not the one that was read there: {cause}, and going on after it "
        "would skip messages. Give another --state to read everything; if nothing was replaced, "
        f"give another --state, and offset={next_position} in the URL",
        permanent=True,
    )


async def _message_at(
    source: Endpoint, position: int, max_message: int, pool: ConnectionPool | None
) -> SourceDelivery | None:
    """Return the first message of a stream from a position on. It is not settled.

    Return None if the message has more than `max_message` bytes, or if no message arrives within
    `_MESSAGE_TIMEOUT` seconds.

    Raises:
        LinkError: the broker cannot be reached, or refuses the link.
    """
    first: asyncio.Future[SourceDelivery] = asyncio.get_running_loop().create_future()

    def receive(deliveries: Sequence[SourceDelivery]) -> None:
        for delivery in deliveries:
            if not first.done():
                delivery.position = position_of(delivery)
                first.set_result(delivery)

    def on_lost(error: LinkError) -> None:
        if not first.done():
            first.set_exception(error)

    with tempfile.TemporaryDirectory() as folder:
        link = await open_source(
            SourceRequest(
                endpoint=source.read_from(str(position)),
                receive=receive,
                on_lost=on_lost,
                window=_REQUESTED_MESSAGES,
                max_message=max_message,
                overflow=lambda: Oversized(Path(folder), 0),
                pool=pool,
            )
        )
        try:
            async with asyncio.timeout(_MESSAGE_TIMEOUT):
                delivery = await first
        except TimeoutError:
            return None
        finally:
            link.stop()
            await link.close(_CLOSE_TIMEOUT)
    if delivery.large is not None:
        delivery.large.discard()
        return None
    return delivery
