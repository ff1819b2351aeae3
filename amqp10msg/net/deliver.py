"""Sends batches of messages to a broker, and waits for the outcome of every message."""

from __future__ import annotations

import asyncio
import copy
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Self

import attrs

from amqp10msg.message import Message
from amqp10msg.message.picks import Picker
from amqp10msg.net.bridge.links import open_target
from amqp10msg.net.bridge.sending import preparer_of
from amqp10msg.net.bridge.statistics import Statistics
from amqp10msg.net.bridge.terms import LinkError, Outcome, SourceDelivery, TargetLink, TargetRequest
from amqp10msg.net.bridge.urls import Endpoint
from amqp10msg.net.options import RouteOptions
from amqp10msg.sections import Properties
from amqp10msg.wire.errors import AmqpError

#: Backoff before another attempt, in seconds: the first delay and the limit.
_FIRST_BACKOFF, _MAX_BACKOFF = 0.1, 5.0
#: After this many connections were lost without an outcome, send one message at a time.
_MAX_LOST = 2
#: Refuse a (poison) message after it was alone in flight on this many lost connections.
_MAX_LOST_ALONE = 3
#: The source of the translation: rows of a table, not a broker.
_ROWS = Endpoint("1.0", "", 0, file="rows")


class NotDeliveredError(TimeoutError):
    """The target gave no outcome in time."""


@attrs.frozen
class Delivering:
    """The settings of a `Deliverer`.

    Attributes:
        profile: the profile of the translation, for a 0-9-1 target.
        window: maximum number of messages without an outcome; the target may give less credit.
        attempts: how often to send a message that the target releases or has no room for.
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
        row: the row of the message, from 0.
        octets: the encoded message.
        outcome: the outcome.
    """

    row: int
    octets: bytes
    outcome: Outcome


_MESSAGE_ID = Picker("properties.message_id")


def with_message_id(octets: bytes, identity: str, *, replace: bool = False) -> bytes:
    """Return a message with the message-id `identity`.

    A message that has a message-id is returned unchanged, unless `replace` is True. A malformed
    message is returned unchanged.
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

    A message whose outcome was lost with a connection is sent again: at least once.

    Attributes:
        accepted: number of messages that the target accepted.
        again: number of messages sent again.
    """

    def __init__(self, endpoint: Endpoint, settings: Delivering = Delivering()) -> None:
        self._endpoint = endpoint
        self._settings = settings
        options = RouteOptions(profile=settings.profile)
        self._prepare = preparer_of(_ROWS, endpoint, options, Statistics())
        self._runner = asyncio.Runner()
        self._link: TargetLink | None = None
        self._error: LinkError | None = None
        self._waiting: deque[tuple[SourceDelivery, Any]] = deque()
        self._delayed_count = 0  # messages waiting for their backoff
        self._in_flight: dict[SourceDelivery, Any] = {}
        self._refused: list[Refused] = []
        self._progress = 0  # changes when a message gets an outcome or is queued again
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
        """Send messages, wait for the outcome of each, and return the messages not accepted.

        Args:
            messages: rows and encoded messages.

        Raises:
            LinkError: the target refuses the link; a retry cannot succeed.
            NotDeliveredError: the target gave no outcome within the timeout.
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
        """Wait until a message has an outcome or is queued again; reconnect if needed."""
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
                            await self._open()
                        self._awake = asyncio.get_running_loop().create_future()
                        if self._error is None:
                            self._pump()
                            await self._awake
                        if self._error is not None:
                            raise self._error
                    except LinkError as error:
                        self._lose(error)
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

    async def _open(self) -> None:
        self._error = None
        self._link = await open_target(
            TargetRequest(
                endpoint=self._endpoint,
                on_outcomes=self._on_outcomes,
                on_room=self._pump,
                on_lost=self._on_lost,
                window=self._settings.window,
            )
        )

    def _lose(self, error: LinkError) -> None:
        """Queue the messages in flight again, in their order; refuse a poison message."""
        if self._link is not None:
            self._link.abort()
            self._link = None
        self._error = None
        in_flight, self._in_flight = self._in_flight, {}
        self._lost_count += bool(in_flight)
        for delivery in in_flight if len(in_flight) == 1 else ():
            delivery.deaths += 1
            if delivery.deaths >= _MAX_LOST_ALONE:
                self._refuse(delivery, Outcome("fatal", "", str(error), final=True))
                self._lost_count = 0
                return
        self.again += len(in_flight)
        self._waiting.extendleft(reversed(in_flight.items()))

    def _pump(self) -> None:
        link = self._link
        while self._waiting and link is not None and link.alive and link.room > 0:
            if self._in_flight and self._lost_count >= _MAX_LOST:
                return  # send one message at a time
            delivery, outgoing = self._waiting.popleft()
            self._in_flight[delivery] = outgoing
            link.send([(outgoing, delivery)])

    def _on_outcomes(self, outcomes: Sequence[tuple[SourceDelivery, Outcome]]) -> None:
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
        self._delayed_count -= 1
        self._waiting.append((delivery, outgoing))
        self._progress += 1
        self._wake()

    def _refuse(self, delivery: SourceDelivery, outcome: Outcome) -> None:
        self._progress += 1
        self._refused.append(Refused(delivery.tag, delivery.octets, outcome))

    def _on_lost(self, error: LinkError) -> None:
        self._error = error
        self._wake()

    def _wake(self) -> None:
        if self._awake is not None and not self._awake.done():
            self._awake.set_result(None)


def numbered(
    batches: Iterable[Iterable[bytes | None]], prepare: Callable[[int, bytes], bytes]
) -> Iterator[tuple[list[tuple[int, bytes]], list[int]]]:
    """Yield for each batch the pairs of row and prepared message, and the rows without a message.

    Rows are numbered from 0, across all batches.

    Args:
        batches: the messages; None for a row without one.
        prepare: called with a row and its message; returns the message to send.
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
