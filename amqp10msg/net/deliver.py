"""Sends batches of messages to a broker, and waits for the outcome of each message."""

from __future__ import annotations

import asyncio
import copy
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Self

import attrs

from amqp10msg.message import Message
from amqp10msg.message.picks import Picker
from amqp10msg.net.bridge.options import RouteOptions
from amqp10msg.net.bridge.sending import preparer_of
from amqp10msg.net.bridge.statistics import Statistics
from amqp10msg.net.ends.links import open_target
from amqp10msg.net.ends.terms import LinkError, Outcome, SourceDelivery, TargetLink, TargetRequest
from amqp10msg.net.ends.urls import Endpoint
from amqp10msg.sections import Properties
from amqp10msg.wire.errors import AmqpError

#: First and maximum backoff before another attempt to connect or to send a message, in seconds.
_FIRST_BACKOFF, _MAX_BACKOFF = 0.1, 5.0
#: After this many consecutive connections were lost without an outcome, send one message at a time.
_MAX_LOST_CONNECTIONS = 2
#: Treat a message as poison, and refuse it, if this many connections were lost while it was the
#: only message in flight.
_MAX_LOST_BY_ONE_MESSAGE = 3
#: The source endpoint for the translation. It stands for rows of a table, not for a broker.
_ROWS_ENDPOINT = Endpoint("1.0", "", 0, file="rows")


class NotDeliveredError(TimeoutError):
    """The target sent no outcome within the timeout."""


@attrs.frozen
class Delivering:
    """The settings of a `Deliverer`.

    Attributes:
        profile: the translation profile, for a 0-9-1 target.
        window: maximum number of messages in flight; the target may give less credit.
        attempts: maximum number of times to send a message that the target releases, or refuses
            because it is full.
        timeout: seconds without any outcome after which `NotDeliveredError` is raised.
    """

    profile: str = "lossless"
    window: int = 500
    attempts: int = 5
    timeout: float = 60.0


@attrs.frozen
class Refused:
    """A message that the target did not accept.

    Attributes:
        row: the number of the message's row in its table, from 0.
        octets: the encoded message.
        outcome: the outcome that the target sent, or the reason why the message was not sent.
    """

    row: int
    octets: bytes
    outcome: Outcome


_MESSAGE_ID = Picker("properties.message_id")


def with_message_id(octets: bytes, identity: str, *, replace: bool = False) -> bytes:
    """Return the message `octets` with the message-id `identity`.

    A message that already has a message-id is returned unchanged, unless `replace` is True. A
    malformed message is returned unchanged.
    """
    try:
        if not replace and _MESSAGE_ID(octets) != (None,):
            return octets
        message = Message.decode(octets)
    except AmqpError:
        return octets
    properties = copy.copy(message.properties) or Properties()
    properties.message_id = identity
    return message.evolve(properties=properties).encode()


class Deliverer:
    """Sends messages over one connection, and reconnects if it is lost.

    Delivery is at least once: a message is sent again if its connection was lost before its outcome
    arrived.

    Attributes:
        accepted: number of messages that the target accepted.
        again: number of times that a message was sent again.
    """

    def __init__(self, endpoint: Endpoint, settings: Delivering = Delivering()) -> None:
        self._endpoint = endpoint
        self._settings = settings
        options = RouteOptions(profile=settings.profile)
        self._prepare = preparer_of(_ROWS_ENDPOINT, endpoint, options, Statistics())
        self._runner = asyncio.Runner()
        self._link: TargetLink | None = None
        self._error: LinkError | None = None
        self._waiting: deque[tuple[SourceDelivery, Any]] = deque()
        self._delayed_count = 0  # messages waiting for their backoff
        self._in_flight: dict[SourceDelivery, Any] = {}
        self._refused: list[Refused] = []
        self._progress = 0  # increases when a message gets an outcome or is due to be sent again
        self._lost_count = 0  # connections lost since the last outcome
        self._awake: asyncio.Future[None] | None = None
        self.accepted = 0
        self.again = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        async def close_link() -> None:
            if self._link is not None:
                await self._link.close(5.0)

        self._runner.run(close_link())
        self._runner.close()

    def send(self, messages: Iterable[tuple[int, bytes]]) -> list[Refused]:
        """Send messages, wait for all outcomes, and return the messages that were not accepted.

        Args:
            messages: pairs of a row number and an encoded message.

        Raises:
            LinkError: the target refuses the link; a retry cannot succeed.
            NotDeliveredError: the target sent no outcome within the timeout.
        """
        return self._runner.run(self._send(list(messages)))

    async def _send(self, messages: list[tuple[int, bytes]]) -> list[Refused]:
        deliveries = [SourceDelivery(octets, tag=row) for row, octets in messages]
        for delivery, prepared in zip(deliveries, self._prepare(deliveries), strict=True):
            if isinstance(prepared, Exception):
                self._refuse(delivery, Outcome("untranslatable", "", str(prepared), final=True))
            elif prepared is not None:
                self._waiting.append((delivery, prepared))
        count = len(messages)
        while self._waiting or self._in_flight or self._delayed_count:
            await self._wait_for_progress(count)
        refused, self._refused = self._refused, []
        return sorted(refused, key=lambda message: message.row)

    async def _wait_for_progress(self, count: int) -> None:
        """Wait until a message gets an outcome or is due to be sent again; reconnect if needed.

        `count` is the total number of messages, for the error text.
        """
        backoff, reason, initial_progress = (
            _FIRST_BACKOFF,
            "no outcome was received",
            self._progress,
        )
        try:
            async with asyncio.timeout(self._settings.timeout):
                while self._progress == initial_progress:
                    try:
                        if self._link is None:
                            await self._open_link()
                        self._awake = asyncio.get_running_loop().create_future()
                        if self._error is None:
                            self._send_waiting()
                            await self._awake
                        if self._error is not None:
                            raise self._error
                    except LinkError as error:
                        self._requeue_in_flight(error)
                        reason = str(error)
                        if error.permanent:
                            text = f"{self._endpoint}: {error}"
                            raise LinkError(text, permanent=True) from None
                        await asyncio.sleep(backoff)
                        backoff = min(2 * backoff, _MAX_BACKOFF)
        except TimeoutError:
            pending = len(self._waiting) + len(self._in_flight) + self._delayed_count
            raise NotDeliveredError(
                f"{self._endpoint}: {pending} of {count} messages have no outcome: none was "
                f"received for {self._settings.timeout:g} s ({reason})"
            ) from None

    async def _open_link(self) -> None:
        self._error = None
        self._link = await open_target(
            TargetRequest(
                endpoint=self._endpoint,
                on_outcomes=self._on_outcomes,
                on_room=self._send_waiting,
                on_lost=self._on_lost,
                window=self._settings.window,
            )
        )

    def _requeue_in_flight(self, error: LinkError) -> None:
        """After a lost link, queue the messages in flight again, in their order.

        A message is refused instead if it is poison, see `_MAX_LOST_BY_ONE_MESSAGE`.
        """
        if self._link is not None:
            self._link.abort()
            self._link = None
        self._error = None
        in_flight, self._in_flight = self._in_flight, {}
        self._lost_count += bool(in_flight)
        for delivery in in_flight if len(in_flight) == 1 else ():
            delivery.deaths += 1
            if delivery.deaths >= _MAX_LOST_BY_ONE_MESSAGE:
                self._refuse(delivery, Outcome("fatal", "", str(error), final=True))
                self._lost_count = 0
                return
        self.again += len(in_flight)
        self._waiting.extendleft(reversed(in_flight.items()))

    def _send_waiting(self) -> None:
        """Send queued messages, up to the link's credit."""
        link = self._link
        while self._waiting and link is not None and link.alive and link.room > 0:
            if self._in_flight and self._lost_count >= _MAX_LOST_CONNECTIONS:
                return  # send one message at a time
            delivery, outgoing = self._waiting.popleft()
            self._in_flight[delivery] = outgoing
            link.send([(outgoing, delivery)])

    def _on_outcomes(self, outcomes: Sequence[tuple[SourceDelivery, Outcome]]) -> None:
        """Record the outcomes of messages, and schedule the retries."""
        for delivery, outcome in outcomes:
            outgoing = self._in_flight.pop(delivery, None)
            if outgoing is None:
                continue
            self._progress += 1
            self._lost_count = 0
            delivery.tries += 1
            if outcome.kind == "accepted":
                self.accepted += 1
            elif outcome.final or delivery.tries >= self._settings.attempts:
                self._refuse(delivery, outcome.without(self._endpoint.password))
            else:
                self.again += 1
                self._delayed_count += 1
                backoff = min(_FIRST_BACKOFF * 2.0**delivery.tries, _MAX_BACKOFF)
                loop = asyncio.get_running_loop()
                loop.call_later(backoff, self._send_again, delivery, outgoing)
            self._wake()

    def _send_again(self, delivery: SourceDelivery, outgoing: Any) -> None:
        """Queue a message again, after its backoff."""
        self._delayed_count -= 1
        self._waiting.append((delivery, outgoing))
        self._progress += 1
        self._wake()

    def _refuse(self, delivery: SourceDelivery, outcome: Outcome) -> None:
        """Record a message that was not accepted."""
        self._progress += 1
        self._refused.append(Refused(delivery.tag, delivery.octets, outcome))

    def _on_lost(self, error: LinkError) -> None:
        self._error = error
        self._wake()

    def _wake(self) -> None:
        """Wake `_wait_for_progress`."""
        if self._awake is not None and not self._awake.done():
            self._awake.set_result(None)


def numbered(
    batches: Iterable[Iterable[bytes | None]], prepare: Callable[[int, bytes], bytes]
) -> Iterator[tuple[list[tuple[int, bytes]], list[int]]]:
    """Number the rows of `batches` from 0, across all batches, and prepare their messages.

    Args:
        batches: the message of each row; None for a row without a message.
        prepare: called with a row number and its message; returns the message to send.

    Yields:
        For each batch, the pairs of a row number and its prepared message, and the numbers of the
        rows without a message.
    """
    row = 0
    for batch in batches:
        prepared, empty = [], []
        for octets in batch:
            if octets is None:
                empty.append(row)
            else:
                prepared.append((row, prepare(row, octets)))
            row += 1
        yield prepared, empty
