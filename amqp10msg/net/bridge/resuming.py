"""Checks that a stream or file is still the one that a route has read before it continues."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from pathlib import Path

from amqp10msg.net.bridge.files import message_in_file
from amqp10msg.net.bridge.fingerprints import fingerprint_of
from amqp10msg.net.bridge.links import open_source
from amqp10msg.net.bridge.records import Positions, position_of
from amqp10msg.net.bridge.terms import LinkError, Oversized, SourceDelivery, SourceRequest
from amqp10msg.net.bridge.urls import Endpoint
from amqp10msg.net.bridge.wire import ConnectionPool

#: Seconds to wait for a message of a stream.
_ANSWER = 10.0
#: Timeout in seconds of closing a link.
_CLOSE_TIMEOUT = 5.0
#: Number of messages to request in order to read one: RabbitMQ 4.0 exceeds the credit, and a peer
#: that exceeds it by too much is cut off.
_WINDOW = 10
_UNKNOWN = "so it is not known whether the source was deleted and declared again, or replaced"


class SourceReplacedError(LinkError):
    """The source is another stream or file than the one that was read."""


async def unchecked(
    source: Endpoint,
    positions: Positions,
    oldest: int | None,
    max_message: int,
    pool: ConnectionPool | None,
) -> str:
    """Compare the last message that was read with the one that is at its position now.

    Return why they cannot be compared; empty if they are the same, or if nothing was read. If they
    differ, the stream was declared again, or the file was rotated, and it has grown past the
    position since: continuing would skip messages.

    Args:
        source: the stream or the file.
        positions: how far it was read.
        oldest: the position of the first message of the stream; None if it is not known.
        max_message: maximum size of the message in bytes; a larger one cannot be compared.
        pool: the connections that can be shared.

    Raises:
        SourceReplacedError: they differ.
        LinkError: the source cannot be read.
    """
    last, following = positions.fingerprint, positions.next
    if following is None:
        return ""
    if last is None:
        return f"the state file has no fingerprint, as an earlier version wrote it, {_UNKNOWN}"
    if last.protocol != source.protocol:
        return f"the last message was read over AMQP {last.protocol}, {_UNKNOWN}"
    if source.file is not None:
        line = message_in_file(source, last.position, max_message)
        if line is None or fingerprint_of(line, stream=False) == last:
            return ""  # a file that is shorter now is refused when it is read
        place, cause = f"line {last.position + 1}", "the file was rotated or replaced"
        raise _replaced(source, place, cause, following)
    if oldest is not None and oldest > last.position:
        return f"the stream's retention removed the last message that was read, {_UNKNOWN}"
    found = await _message_at(source, last.position, max_message, pool)
    if found is None or (oldest is None and found.position != last.position):
        return f"the message at position {last.position} was not delivered, {_UNKNOWN}"
    if fingerprint_of(found, stream=True) != last:
        cause = "the stream was deleted and declared again"
        raise _replaced(source, f"the message at position {last.position}", cause, following)
    return ""


def _replaced(source: Endpoint, place: str, cause: str, following: int) -> SourceReplacedError:
    return SourceReplacedError(
        f"{source}: {place} is not the one that was read there: {cause}, and going on after it "
        "would skip messages. Give another --state to read everything; if nothing was replaced, "
        f"give another --state, and offset={following} in the URL",
        permanent=True,
    )


async def _message_at(
    source: Endpoint, position: int, max_message: int, pool: ConnectionPool | None
) -> SourceDelivery | None:
    """Return the first message of a stream from a position on, without its link.

    None if it has more than `max_message` bytes, or if nothing arrives within `_ANSWER` seconds.

    Raises:
        LinkError: the broker cannot be reached, or refuses.
    """
    first: asyncio.Future[SourceDelivery] = asyncio.get_running_loop().create_future()

    def receive(deliveries: Sequence[SourceDelivery]) -> None:
        for delivery in deliveries:
            if not first.done():
                delivery.position = position_of(delivery)
                first.set_result(delivery)

    def lost(error: LinkError) -> None:
        if not first.done():
            first.set_exception(error)

    with tempfile.TemporaryDirectory() as folder:
        link = await open_source(
            SourceRequest(
                endpoint=source.read_from(str(position)),
                receive=receive,
                on_lost=lost,
                window=_WINDOW,
                max_message=max_message,
                overflow=lambda: Oversized(Path(folder), 0),
                pool=pool,
            )
        )
        try:
            async with asyncio.timeout(_ANSWER):
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
