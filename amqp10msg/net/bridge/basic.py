"""The ends of a bridge that speak AMQP 0-9-1: content headers go through untouched."""

from __future__ import annotations

import asyncio
import tempfile
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
from pika import spec

from amqp10msg.net.bridge.basic_peer import CHANNEL, BasicPeer
from amqp10msg.net.bridge.dialing import dial
from amqp10msg.net.bridge.frames import (
    DELIVER,
    RETURN,
    Content,
    FrameError,
    ack,
    method,
    nack,
    publish,
)
from amqp10msg.net.bridge.oversized import Oversized
from amqp10msg.net.bridge.positions import position_of
from amqp10msg.net.bridge.terms import (
    ACCEPTED,
    Delivery,
    Depth,
    LinkError,
    Outcome,
    Outgoing,
    Settle,
    SourceRequest,
    TargetRequest,
)
from amqp10msg.net.bridge.urls import Endpoint

#: A prefetch-count has 16 bits.
_MAX_PREFETCH = 65_535
#: Bytes of a message of which only the position is of interest.
_GLANCE = 1 << 20
#: Seconds for closing a connection that only asked.
_GOODBYE = 5.0


class BasicSource(BasicPeer):
    """A consumer of a queue; deliveries come by `receive`."""

    def __init__(self, request: SourceRequest) -> None:
        super().__init__(request.endpoint, request.on_lost, request.max_message)
        self._receive = request.receive
        self._overflow = request.overflow
        self._window = request.window
        self._lowest = 1  # the first delivery-tag that is not settled
        self._settled: dict[int, Settle] = {}
        self._acked: set[int] = set()
        self._ready: int | None = None
        self._consumers = 1  # of the queue, that are this one
        self._asking: deque[asyncio.Future[Depth] | None] = deque()

    async def attach(self) -> None:
        """Consume the queue, with at most a window of deliveries unsettled.

        Raises:
            LinkError: there is no such queue, or the broker ended the connection.
        """
        await self.ask(spec.Basic.Qos(0, min(self._window, _MAX_PREFETCH), False), spec.Basic.QosOk)
        offset = self.endpoint.offset
        arguments = {} if offset is None else {"x-stream-offset": _offset(offset)}
        consume = spec.Basic.Consume(0, self.endpoint.queue, "bridge", arguments=arguments)
        await self.ask(consume, spec.Basic.ConsumeOk)

    @property
    def incomplete(self) -> bool:
        """Whether a message has begun to come, and the rest of it has not."""
        return self._content is not None

    def on_content(self, content: Content) -> None:
        """Hand over a delivery."""
        if content.index == DELIVER:
            tag, again, exchange, key = content.deliver()
            body, header, large = content.body, content.header, content.large
            self._receive(Delivery(body, header, exchange, key, again, tag, self, large))

    def settle(self, delivery: Delivery, how: Settle) -> None:
        """Settle a delivery of this link; of another one, do nothing."""
        if delivery.link is not self:
            return
        delivery.link = None
        if how is Settle.ACCEPT:
            self._acked.add(delivery.tag)
        else:
            self.write(nack(CHANNEL, delivery.tag, requeue=how is Settle.RELEASE))
            self._settled[delivery.tag] = how
        self.write(b"")

    def flush(self) -> None:
        """Acknowledge what was accepted: in one, what follows each other."""
        lowest, acked, done = self._lowest, self._acked, self._settled
        if acked:
            last = 0
            while lowest in acked or lowest in done:
                if done.pop(lowest, None) is None:
                    acked.discard(lowest)
                    last = lowest
                lowest += 1
            self._lowest = lowest
            if last:
                # Not one that was settled before: the broker knows it no more.
                self._out.append(ack(CHANNEL, last, multiple=True))
            for tag in acked:
                self._out.append(ack(CHANNEL, tag))
                done[tag] = Settle.ACCEPT
            acked.clear()
        super().flush()

    async def depth(self) -> int | None:
        """Ask how many messages are ready in the queue; the last answer is returned."""
        if not (self._asking or self._failed or self._closing):
            self._declare(None)
        return self._ready

    async def count(self) -> Depth:
        """Ask how many messages are ready in the queue, and who else consumes it.

        Raises:
            LinkError: the link ended before the answer.
        """
        if self._failed or self._closing:
            raise LinkError("the connection ended")
        answer: asyncio.Future[Depth] = self._loop.create_future()
        self._declare(answer)
        return await answer

    def _declare(self, answer: asyncio.Future[Depth] | None) -> None:
        self._asking.append(answer)
        declare = spec.Queue.Declare(0, self.endpoint.queue or "", passive=True)
        self.write(method(CHANNEL, declare))

    def _method(self, found: Any) -> None:
        if not isinstance(found, spec.Queue.DeclareOk):
            super()._method(found)
            return
        self._ready = found.message_count
        answer = self._asking.popleft() if self._asking else None
        if answer is not None and not answer.done():
            others = max(found.consumer_count - self._consumers, 0)
            answer.set_result(Depth(ready=found.message_count, others=others))

    def failing(self, lost: LinkError) -> None:
        """Notify those who wait for an answer."""
        super().failing(lost)
        for answer in self._asking:
            if answer is not None and not answer.done():
                answer.set_exception(lost)
                answer.exception()  # whoever waits for it sees it; nobody has to
        self._asking.clear()

    def stop(self) -> None:
        """Ask for no more deliveries."""
        if not self._stream.is_closing():
            self._consumers = 0
            self.write(method(CHANNEL, spec.Basic.Cancel("bridge", nowait=True)))


def _offset(text: str) -> str | int:
    return int(text) if text.isascii() and text.isdecimal() else text


class BasicTarget(BasicPeer):
    """A publisher with confirms; outcomes come by `on_outcome`."""

    def __init__(self, request: TargetRequest) -> None:
        super().__init__(request.endpoint, request.on_lost, 1 << 30)
        self._outcome = request.on_outcome
        self._on_room = request.on_room
        self._window = request.window
        self._published = 0
        # By delivery-tag, in the order in which they were sent.
        self._unconfirmed: dict[int, tuple[Delivery, Outgoing]] = {}
        self._returned: dict[int, Outcome] = {}

    async def attach(self) -> None:
        """Ask for confirms, and see that what is published to exists.

        Raises:
            LinkError: it does not, or the broker ended the connection.
        """
        at = self.endpoint
        if at.queue is not None:
            declare: Any = spec.Queue.Declare(0, at.queue, passive=True)
            await self.ask(declare, spec.Queue.DeclareOk)
        elif at.exchange:
            declare = spec.Exchange.Declare(0, at.exchange, passive=True)
            await self.ask(declare, spec.Exchange.DeclareOk)
        await self.ask(spec.Confirm.Select(), spec.Confirm.SelectOk)

    @property
    def room(self) -> int:
        """How many messages may be sent now."""
        if self.paused or self.blocked:
            return 0
        return self._window - len(self._unconfirmed)

    @property
    def waits(self) -> bool:
        """Whether the broker said that it takes nothing for now."""
        return self.blocked

    def ready(self) -> None:
        """Go on sending."""
        self._on_room()

    def send(self, outgoing: Outgoing, delivery: Delivery) -> None:
        """Publish a message; what cannot be said in frames has its outcome at once."""
        try:
            frames = publish(
                CHANNEL,
                outgoing.exchange,
                outgoing.routing_key,
                outgoing.content_header or b"",
                outgoing.octets,
                self.max_frame,
            )
        except FrameError as error:
            self._outcome(delivery, Outcome("too-large", "", str(error), final=True))
            return
        self._published += 1
        self._unconfirmed[self._published] = (delivery, outgoing)
        self._out += frames
        self.touch()

    def on_content(self, content: Content) -> None:
        """Note what came back: its confirm follows."""
        if content.index != RETURN:
            return
        code, text, exchange, key = content.returned()
        outcome = Outcome("returned", str(code), text)
        header, body = content.header, content.body
        # It comes without a number. Messages that are the same are one as good as the other.
        near = None
        for tag, (_, sent) in self._unconfirmed.items():
            if tag in self._returned or (exchange, key) != (sent.exchange, sent.routing_key):
                continue
            if sent.octets == body:
                if sent.content_header == header:
                    self._returned[tag] = outcome
                    return
                near = near or tag
        if near is not None:
            self._returned[near] = outcome

    def on_confirm(self, tag: int, multiple: bool, accepted: bool) -> None:
        """Report the outcomes of those that are confirmed."""
        unconfirmed = self._unconfirmed
        if multiple:
            tags = []
            for one in unconfirmed:
                if tag and one > tag:
                    break
                tags.append(one)
        else:
            tags = [tag] if tag in unconfirmed else []
        for one in tags:
            delivery, _ = unconfirmed.pop(one)
            returned = self._returned.pop(one, None)
            self._outcome(delivery, returned or (ACCEPTED if accepted else Outcome("nacked")))
        self._on_room()


async def _connect(made: BasicPeer, attach: Callable[[], Any]) -> None:
    async def ready() -> None:
        await made.handshake()
        await attach()

    await dial(made, made.endpoint, ready)


async def open_basic_source(request: SourceRequest) -> BasicSource:
    """Consume a queue.

    Raises:
        LinkError: it did not succeed.
    """
    made = BasicSource(request)
    await _connect(made, made.attach)
    return made


async def open_basic_target(request: TargetRequest) -> BasicTarget:
    """Publish to an exchange, or to a queue by the default one.

    Raises:
        LinkError: it did not succeed.
    """
    made = BasicTarget(request)
    await _connect(made, made.attach)
    return made


async def depth_of(endpoint: Endpoint, queue: str) -> Depth:
    """Return how many messages are ready in a queue, and how many consumers it has.

    Raises:
        LinkError: it did not succeed.
    """
    made = BasicPeer(endpoint, lambda _: None, 0)
    found: deque[Depth] = deque()

    async def ask() -> None:
        declare = spec.Queue.Declare(0, queue, passive=True)
        said = await made.ask(declare, spec.Queue.DeclareOk)
        found.append(Depth(ready=said.message_count, others=said.consumer_count))

    await _connect(made, ask)
    await made.close(_GOODBYE)
    return found[0]


async def positions_of(endpoint: Endpoint, offset: str) -> tuple[int, int] | None:
    """Return where a stream is read from an offset on: its first message, and the last one here.

    With ``last``, these are the last messages of the stream, of which RabbitMQ has given out all
    before it answers what it is asked next; with another offset, some that follow it. None where
    there is none.

    Raises:
        LinkError: it did not succeed.
    """
    found: list[int] = []

    def receive(delivery: Delivery) -> None:
        position = position_of(delivery)
        if delivery.large is not None:
            delivery.large.discard()
        if position is not None:
            found.append(position)

    with tempfile.TemporaryDirectory() as folder:
        made = BasicSource(
            SourceRequest(
                endpoint=attrs.evolve(endpoint, offset=offset),
                receive=receive,
                on_lost=lambda _: None,
                window=_MAX_PREFETCH if offset == "last" else 1,
                max_message=_GLANCE,
                overflow=lambda: Oversized(Path(folder), 0),
            )
        )

        async def ask() -> None:
            await made.attach()
            await made.ask(spec.Basic.Qos(0, 1, False), spec.Basic.QosOk)

        await _connect(made, ask)
        await made.close(_GOODBYE)
    return (min(found), max(found)) if found else None
