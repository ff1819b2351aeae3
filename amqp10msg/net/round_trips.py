"""Sends encoded messages through a broker's queue, one at a time, and receives them again.

If the broker accepts a message and does not deliver it, a marker message is sent. If only the
marker arrives, the message is lost, not late.
"""

from __future__ import annotations

import asyncio
import itertools
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn, Self

import attrs

from amqp10msg.message import Message
from amqp10msg.net.ends.amqp10 import Amqp10Source, Amqp10Target, open_source, open_target
from amqp10msg.net.ends.terms import (
    LinkError,
    Outcome,
    Outgoing,
    Settle,
    SourceDelivery,
    SourceRequest,
    TargetRequest,
)
from amqp10msg.net.ends.urls import Endpoint, parse_url
from amqp10msg.wire.errors import AmqpError, DecodeError

__all__ = ["QueueError", "RoundTrip", "round_trips"]

# A substring of the error text when this side closed the connection over a protocol violation.
_PROTOCOL_VIOLATION = "the peer violated the protocol"
#: The largest message that a receiving link accepts, in bytes.
_MAX_MESSAGE_BYTES = 1 << 24
#: Maximum number of unsettled deliveries on a link.
_WINDOW = 10
#: Seconds to wait for a message before the marker is sent, and for further messages after the
#: marker has arrived.
_MESSAGE_SECONDS, _AFTER_MARKER_SECONDS = 0.3, 0.1
#: Raise `QueueError` after this many consecutive connections failed.
_MAX_CONNECTIONS = 6


class QueueError(AmqpError):
    """The queue cannot be reached, is not empty, or holds a message that stops every receiver."""


@attrs.frozen
class RoundTrip:
    """The result of sending one message through a broker.

    Attributes:
        end: ``received``; ``refused``: the broker sent an outcome other than accepted, or ended the
            link; ``died``: the session or connection ended, or no later message could be received;
            ``lost``: the broker accepted the message and did not deliver it.
        reason: the broker's error or outcome, or an empty string.
        received: the bytes of the received message, or None.
        error_by_broker: whether the broker reported the failure by an error or an outcome. False
            if the connection ended without an error, or the broker violated the protocol.
    """

    end: str
    reason: str = ""
    received: bytes | None = None
    error_by_broker: bool = False


def round_trips(
    url: str,
    messages: Sequence[bytes],
    *,
    jobs: int,
    timeout: float,
    on_result: Callable[[int, RoundTrip], None],
) -> str:
    """Send messages through a broker, and receive them again.

    Args:
        url: the URL of the queue, as for `run_broker`.
        messages: the encoded messages. Their bytes are sent unchanged.
        jobs: how many messages to send at the same time, each through a separate queue.
        timeout: seconds to wait for the broker to answer.
        on_result: called with the index and the result of each message, when its result arrives.

    Returns:
        The product name that the broker reports.

    Raises:
        QueueError: a queue cannot be used.
        ValueError: the URL is not an AMQP 1.0 URL with an address, or `jobs` is more than 1 and
            the address does not contain ``{n}``.
    """
    endpoint = parse_url(url)
    if endpoint.protocol != "1.0" or endpoint.file is not None or endpoint.address is None:
        raise ValueError(
            "the URL of the broker must be amqp://HOST:PORT/ADDRESS or amqps://HOST:PORT/ADDRESS, "
            "for AMQP 1.0"
        )
    if jobs > 1 and "{n}" not in endpoint.address:
        raise ValueError(
            "with several jobs, the address must contain {n}: each job uses a separate queue"
        )
    endpoint = attrs.evolve(endpoint, timeout=timeout)
    return asyncio.run(_run(endpoint, messages, jobs, timeout, on_result))


async def _run(
    endpoint: Endpoint,
    messages: Sequence[bytes],
    jobs: int,
    timeout: float,
    on_result: Callable[[int, RoundTrip], None],
) -> str:
    """Send the messages through `jobs` queues; return the product name of the broker."""
    numbers = itertools.count(1)
    count = max(1, min(jobs, len(messages)))
    queues = [_Queue(endpoint, timeout, numbers) for _ in range(count)]
    remaining = iter(enumerate(messages))

    async def send_remaining(queue: _Queue) -> None:
        async with queue:
            for index, octets in remaining:
                on_result(index, await queue.send_through(octets))

    try:
        async with asyncio.TaskGroup() as group:
            for queue in queues:
                group.create_task(send_remaining(queue))
    except BaseExceptionGroup as errors:
        # `except*` is not used: before CPython 3.11.4, it wraps an exception that is raised in it.
        failed, other_errors = errors.split(QueueError)
        if failed is None or other_errors is not None:
            raise
        raise failed.exceptions[0] from None
    return queues[0].product


class _Queue:
    """A queue of the broker, with a link that sends to it and a link that receives from it.

    If a message in the queue ends the connection of every receiver, and the address has ``{n}``,
    the next queue is used: the number that replaces ``{n}`` increases.
    """

    def __init__(self, endpoint: Endpoint, timeout: float, numbers: Iterator[int]) -> None:
        self.product = ""
        self._template = endpoint
        self._timeout = timeout
        self._numbers = numbers
        self._endpoint = self._next_endpoint()
        self._source: Amqp10Source | None = None
        self._target: Amqp10Target | None = None
        self._changed = asyncio.Event()
        self._deliveries: list[SourceDelivery] = []
        self._outcomes: dict[int, Outcome] = {}
        self._lost: LinkError | None = None
        self._poison_note = ""

    def _next_endpoint(self) -> Endpoint:
        """Return the endpoint of the next queue: the next number replaces ``{n}``."""
        address = str(self._template.address)
        return attrs.evolve(
            self._template, address=address.replace("{n}", str(next(self._numbers)))
        )

    async def __aenter__(self) -> Self:
        """Connect, and check that the queue is empty."""
        try:
            stray_messages = await self._synchronize()
        except QueueError:
            self._abort()
            raise
        if stray_messages:
            self._abort()
            raise QueueError(
                f"{self._endpoint.address} is not empty: name a queue that nobody else uses"
            )
        return self

    async def __aexit__(self, *_: object) -> None:
        for end in (self._source, self._target):
            if end is not None:
                await end.close(1.0)
        self._abort()

    async def send_through(self, octets: bytes) -> RoundTrip:
        """Send a message, wait until it is received, refused or lost, and return the result."""
        if self._source is None or self._target is None or self._lost is not None:
            await self._synchronize()
        delivery = SourceDelivery(octets)
        try:
            await self._send(delivery)
            outcome = await self._wait_for_outcome(delivery)
        except LinkError as error:
            end = "refused" if error.scope == "link" else "died"
            stray_messages = await self._synchronize()
            reason = (
                f"{error}, but the message was delivered"
                if stray_messages
                else f"{error}{self._poison_note}"
            )
            # After a protocol violation, the error is about the broker, not about the message.
            by_broker = error.sent_by_peer and _PROTOCOL_VIOLATION not in reason
            return RoundTrip(end, reason, error_by_broker=by_broker)
        if outcome.kind != "accepted":
            words = " ".join(filter(None, (outcome.kind, outcome.condition, outcome.description)))
            return RoundTrip("refused", words, error_by_broker=True)
        return await self._wait_for_arrival()

    async def _wait_for_arrival(self) -> RoundTrip:
        """Wait until the accepted message is received or lost, and return the result."""
        try:
            if await self._wait_until(lambda: bool(self._deliveries), _MESSAGE_SECONDS):
                return RoundTrip("received", received=self._accept_first())
            ended = ""
        except LinkError as error:
            ended = str(error)
        stray_messages = await self._synchronize()
        if ended or self._poison_note:
            reason = f"accepted; {ended or 'nothing was received'}{self._poison_note}"
            return RoundTrip("died", reason)
        return (
            RoundTrip("received", received=stray_messages[0])
            if stray_messages
            else RoundTrip("lost")
        )

    async def _synchronize(self) -> list[bytes]:
        """Send a marker, reconnecting if necessary, and return all other messages that arrive.

        Sets `_poison_note` if the next queue had to be used.
        """
        self._poison_note = ""
        reason = ""
        has_more_queues = "{n}" in str(self._template.address)
        for attempt in range(_MAX_CONNECTIONS):
            received: list[bytes] = []
            try:
                await self._connect()
                if await self._send_marker(received):
                    return received
                if received:
                    return received
                reason = "no message was received, not even the marker"
            except LinkError as error:
                reason = str(error.without(self._template.password))
            self._abort()
            if has_more_queues and attempt % 2:
                self._poison_note = "; later receivers of the queue failed, too"
                self._endpoint = self._next_endpoint()
        hint = (
            ". If the queue holds a message that ends every receiver's connection, purge the "
            "queue, and write {n} into the address to use a numbered queue after such a message"
        )
        raise QueueError(f"{self._endpoint.address}: {reason}{'' if has_more_queues else hint}")

    async def _send_marker(self, received: list[bytes]) -> bool:
        """Send a marker; return whether it arrives. Other messages are added to `received`."""
        marker = Message(str(uuid.uuid4()))
        delivery = SourceDelivery(marker.encode())
        await self._send(delivery)
        outcome = await self._wait_for_outcome(delivery)
        if outcome.kind != "accepted":
            raise LinkError(f"{outcome.kind}: {outcome.condition} {outcome.description}")
        marker_arrived = False
        # A message of a lower priority may arrive after the marker.
        while await self._wait_until(
            lambda: bool(self._deliveries),
            _AFTER_MARKER_SECONDS if marker_arrived else self._timeout,
        ):
            octets = self._accept_first()
            if _decode_body(octets) == marker.body:
                marker_arrived = True
            else:
                received.append(octets)
        return marker_arrived

    # Messages.

    async def _send(self, delivery: SourceDelivery) -> None:
        """Send a message when the link has credit; raise LinkError if it gets none in time."""
        target = self._target
        assert target is not None  # noqa: S101 - connected
        if not await self._wait_until(lambda: target.room > 0, self._timeout):
            raise LinkError("the broker grants no credit")
        target.send([(Outgoing(delivery.octets), delivery)])

    async def _wait_for_outcome(self, delivery: SourceDelivery) -> Outcome:
        """Return the outcome of a sent message; raise LinkError if there is none in time."""
        if not await self._wait_until(lambda: id(delivery) in self._outcomes, self._timeout):
            self._abort()
            raise LinkError(f"no outcome within {self._timeout:g} s")
        return self._outcomes.pop(id(delivery))

    def _accept_first(self) -> bytes:
        """Accept the oldest received message, and return its bytes."""
        delivery = self._deliveries.pop(0)
        if self._source is not None:
            self._source.settle([delivery], Settle.ACCEPT)
        return delivery.octets

    async def _wait_until(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Wait until `condition()` is true, at most `seconds`; return whether it is true.

        Raises:
            LinkError: a link was lost.
        """
        deadline = asyncio.get_running_loop().time() + seconds
        while not condition():
            if self._lost is not None:
                error = self._lost
                self._abort()
                raise error.without(self._template.password)
            seconds_left = deadline - asyncio.get_running_loop().time()
            if seconds_left <= 0:
                return False
            self._changed.clear()
            try:
                async with asyncio.timeout(seconds_left):
                    await self._changed.wait()
            except TimeoutError:
                pass
        return True

    # Connections.

    async def _connect(self) -> None:
        """Open the links that are not open."""
        if self._lost is not None:
            self._abort()
        if self._target is None:
            self._target = await open_target(
                TargetRequest(
                    endpoint=self._endpoint,
                    on_outcomes=self._on_outcomes,
                    on_room=self._changed.set,
                    on_lost=self._on_link_lost,
                    window=_WINDOW,
                )
            )
            self.product = self._target.peer_product.strip() or self.product
        if self._source is None:
            self._source = await open_source(
                SourceRequest(
                    endpoint=self._endpoint,
                    receive=self._on_deliveries,
                    on_lost=self._on_link_lost,
                    window=_WINDOW,
                    max_message=_MAX_MESSAGE_BYTES,
                    overflow=_raise_too_large,
                )
            )

    def _abort(self) -> None:
        """Abort the connections of both links, and forget their deliveries and outcomes."""
        for end in (self._source, self._target):
            if end is not None:
                end.abort()
        self._source = self._target = self._lost = None
        self._deliveries.clear()
        self._outcomes.clear()

    def _on_deliveries(self, deliveries: Sequence[SourceDelivery]) -> None:
        self._deliveries += deliveries
        self._changed.set()

    def _on_outcomes(self, outcomes: Sequence[tuple[SourceDelivery, Outcome]]) -> None:
        for delivery, outcome in outcomes:
            self._outcomes[id(delivery)] = outcome
        self._changed.set()

    def _on_link_lost(self, error: LinkError) -> None:
        self._lost = self._lost or error
        self._changed.set()


def _raise_too_large() -> NoReturn:
    raise OSError(f"a message of more than {_MAX_MESSAGE_BYTES:,} bytes")


def _decode_body(octets: bytes) -> Any:
    """Return the body of an encoded message; None if the message is malformed."""
    try:
        return Message.decode(octets).body
    except DecodeError:
        return None
