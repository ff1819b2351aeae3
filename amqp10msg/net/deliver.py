"""Messages sent to a broker, of which each has an outcome before the next ones are fetched."""

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
from amqp10msg.net.bridge.sending import sender_of
from amqp10msg.net.bridge.statistics import Statistics
from amqp10msg.net.bridge.terms import LinkError, Outcome, SourceDelivery, TargetLink, TargetRequest
from amqp10msg.net.bridge.urls import Endpoint
from amqp10msg.net.options import RouteOptions
from amqp10msg.sections import Properties
from amqp10msg.wire.errors import AmqpError

#: Seconds before another attempt at first, and at most.
_PAUSE, _MOST_PAUSE = 0.1, 5.0
#: After so many connections that ended before anything was taken, one message at a time is sent.
_DEATHS = 2
#: A message that ends so many, while it alone is sent, is refused.
_ALONE = 3
#: Where the messages are from, for the translation: not from a broker.
_ROWS = Endpoint("1.0", "", 0, file="rows")


class NotDeliveredError(TimeoutError):
    """The target did not take messages, nor refuse them, in time."""


@attrs.frozen
class Delivering:
    """How messages are sent.

    The translation is that of a target that speaks 0-9-1. At most `window` messages have no
    outcome; the target may give credit for fewer. A message that the target releases, or has no
    room for, is sent `attempts` times, and `timeout` seconds may pass without an outcome.
    """

    profile: str = "lossless"
    window: int = 500
    attempts: int = 5
    timeout: float = 60.0


@attrs.frozen
class Refused:
    """A message that was not taken.

    The row is counted from 0.
    """

    row: int
    octets: bytes
    outcome: Outcome


_MESSAGE_ID = Picker("properties.message_id")


def with_message_id(octets: bytes, identity: str, *, replace: bool = False) -> bytes:
    """Return a message with a message-id; one that has one is unchanged, unless it is replaced.

    What cannot be decoded stays as it is.
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
    """Sends messages over a connection that is kept, and made again where it is lost.

    A message whose outcome was lost with a connection is sent again.

    `accepted` messages were taken by the target; `again` counts how often one was sent again.
    """

    def __init__(self, endpoint: Endpoint, how: Delivering = Delivering()) -> None:
        self._endpoint = endpoint
        self._how = how
        options = RouteOptions(profile=how.profile)
        self._prepare = sender_of(_ROWS, endpoint, options, Statistics())
        self._runner = asyncio.Runner()
        self._link: TargetLink | None = None
        self._error: LinkError | None = None
        self._waiting: deque[tuple[SourceDelivery, Any]] = deque()
        self._later = 0  # messages that are to be sent again after a pause
        self._in_flight: dict[SourceDelivery, Any] = {}
        self._refused: list[Refused] = []
        self._moves = 0
        self._deaths = 0
        self._awake: asyncio.Future[None] | None = None
        self.accepted = 0
        self.again = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        async def end() -> None:
            if self._link is not None:
                await self._link.close(5.0)

        self._runner.run(end())
        self._runner.close()

    def send(self, messages: Iterable[tuple[int, bytes]]) -> list[Refused]:
        """Send messages, and wait for the outcome of each.

        Return those that were not taken. A `LinkError` says that the target is not to be used, a
        `NotDeliveredError` that nothing had an outcome for too long.
        """
        return self._runner.run(self._send(list(messages)))

    async def _send(self, messages: list[tuple[int, bytes]]) -> list[Refused]:
        deliveries = [SourceDelivery(octets, tag=row) for row, octets in messages]
        for delivery, made in zip(deliveries, self._prepare(deliveries), strict=True):
            if isinstance(made, Exception):
                self._refuse(delivery, Outcome("untranslatable", "", str(made), final=True))
            elif made is not None:
                self._waiting.append((delivery, made))
        count = len(messages)
        while self._waiting or self._in_flight or self._later:
            await self._go_on(count)
        found, self._refused = self._refused, []
        return sorted(found, key=lambda one: one.row)

    async def _go_on(self, count: int) -> None:
        pause, why, before = _PAUSE, "no outcome came", self._moves
        try:
            async with asyncio.timeout(self._how.timeout):
                while self._moves == before:
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
                        why = str(error)
                        if error.permanent:
                            text = f"{self._endpoint}: {error}"
                            raise LinkError(text, permanent=True) from None
                        await asyncio.sleep(pause)
                        pause = min(2 * pause, _MOST_PAUSE)
        except TimeoutError:
            left = len(self._waiting) + len(self._in_flight) + self._later
            raise NotDeliveredError(
                f"{self._endpoint}: {left} of {count} messages had no outcome, and for "
                f"{self._how.timeout:g} s none came ({why})"
            ) from None

    async def _open(self) -> None:
        self._error = None
        self._link = await open_target(
            TargetRequest(
                endpoint=self._endpoint,
                on_outcomes=self._on_outcomes,
                on_room=self._pump,
                on_lost=self._on_lost,
                window=self._how.window,
            )
        )

    def _lose(self, error: LinkError) -> None:
        """Have what was in flight sent again, in its order, unless it is what ends connections."""
        if self._link is not None:
            self._link.abort()
            self._link = None
        self._error = None
        flying, self._in_flight = self._in_flight, {}
        self._deaths += bool(flying)
        for delivery in flying if len(flying) == 1 else ():
            delivery.deaths += 1
            if delivery.deaths >= _ALONE:
                self._refuse(delivery, Outcome("fatal", "", str(error), final=True))
                self._deaths = 0
                return
        self.again += len(flying)
        self._waiting.extendleft(reversed(flying.items()))

    def _pump(self) -> None:
        link = self._link
        while self._waiting and link is not None and link.alive and link.room > 0:
            if self._in_flight and self._deaths >= _DEATHS:
                return  # one at a time
            delivery, outgoing = self._waiting.popleft()
            self._in_flight[delivery] = outgoing
            link.send([(outgoing, delivery)])

    def _on_outcomes(self, outcomes: Sequence[tuple[SourceDelivery, Outcome]]) -> None:
        for delivery, outcome in outcomes:
            outgoing = self._in_flight.pop(delivery, None)
            if outgoing is None:
                continue
            self._moves += 1
            self._deaths = 0
            delivery.tries += 1
            if outcome.kind == "accepted":
                self.accepted += 1
            elif outcome.final or delivery.tries >= self._how.attempts:
                self._refuse(delivery, outcome.without(self._endpoint.password))
            else:
                self.again += 1
                self._later += 1
                pause = min(_PAUSE * 2.0**delivery.tries, _MOST_PAUSE)
                asyncio.get_running_loop().call_later(pause, self._send_again, delivery, outgoing)
            self._wake()

    def _send_again(self, delivery: SourceDelivery, outgoing: Any) -> None:
        self._later -= 1
        self._waiting.append((delivery, outgoing))
        self._moves += 1
        self._wake()

    def _refuse(self, delivery: SourceDelivery, outcome: Outcome) -> None:
        self._moves += 1
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
    """Yield the messages of batches with their rows, as they are to be sent, and rows without one.

    `prepare` makes of a row and its message what is to be sent.
    """
    row = 0
    for batch in batches:
        sent, empty = [], []
        for octets in batch:
            if octets is None:
                empty.append(row)
            else:
                sent.append((row, prepare(row, octets)))
            row += 1
        yield sent, empty
