"""The connections of a route: they are opened, lost, and opened anew."""

from __future__ import annotations

import asyncio
import functools
import logging
from typing import Any

import attrs

from amqp10msg.net.bridge.counting import Counting
from amqp10msg.net.bridge.links import Aside, Side, SourceSide, open_source, open_target
from amqp10msg.net.bridge.options import RouteOptions
from amqp10msg.net.bridge.records import Pending, Records
from amqp10msg.net.bridge.statistics import Statistics
from amqp10msg.net.bridge.terms import (
    Delivery,
    LinkError,
    Outcome,
    Oversized,
    SourceLink,
    SourceRequest,
    TargetLink,
    TargetRequest,
)
from amqp10msg.net.bridge.urls import Endpoint

#: How often a connection may end while one message alone is in flight, until it is the cause.
_DEATHS = 3


class Connections:
    """Keeps a source and a target open, and knows what becomes of deliveries where one is lost.

    What is to be done with deliveries is for `Route` to say.
    """

    def __init__(
        self,
        name: str,
        source: Endpoint,
        target: Endpoint,
        options: RouteOptions,
        logger: logging.Logger,
    ) -> None:
        self.name = name
        self.source = source
        self.target = target
        self.options = options
        self.statistics = Statistics()
        self._logger = logger
        overflow = options.quarantine.with_name(f"{options.quarantine.name}.large")
        self._overflow = functools.partial(Oversized, overflow, options.max_large)
        self._records: Records
        self._loop: asyncio.AbstractEventLoop
        self._from: SourceLink | None = None
        self._to: TargetLink | None = None
        self._pending = Pending()
        self._surplus: list[Delivery] = []
        # Those that the filter passed over, until they go back.
        self._passed: dict[Delivery, None] = {}
        self._bytes = 0
        self._holding = False
        self._relaxing = False
        self._early = LinkError("it was lost at once")
        self._closing: asyncio.Future[None] | None = None
        self._source_side = SourceSide("source", source, self.log)
        self._target_side = Side("target", target, self.log)
        self._idle = 0.0
        self._stalled = 0.0
        self._slow = 0.0  # seconds that a message has been coming for
        self._most = options.max_messages
        self._until: int | None = None  # the position in a stream that it is read up to
        self._begun = not options.asks
        self._counting = Counting(source, options.management, sole=options.sole_consumer)
        self._opened = 0.0  # the source, on the loop's clock
        self._aside: Aside | None = None

    def log(self, event: str, level: int = logging.INFO, **fields: Any) -> None:
        """Log an event of this route."""
        fields = {"route": self.name, **fields}
        text = " ".join(f"{name}={value}" for name, value in fields.items())
        extra = {"event": event, "fields": fields}
        self._logger.log(level, "%s %s", event, text, extra=extra)

    # What a route does.

    def _receive(self, delivery: Delivery) -> None:
        raise NotImplementedError

    def _on_outcome(self, delivery: Delivery, outcome: Outcome) -> None:
        raise NotImplementedError

    def _refused(self, delivery: Delivery, outcome: Outcome) -> None:
        raise NotImplementedError

    def _forget(self, delivery: Delivery) -> None:
        raise NotImplementedError

    def _pump(self) -> None:
        raise NotImplementedError

    def _count(self) -> None:
        raise NotImplementedError

    def _finish_as(self, ending: str) -> None:
        raise NotImplementedError

    def _fail(self, error: BaseException) -> None:
        raise NotImplementedError

    # Connections.

    async def _keep_target(self) -> None:
        request = TargetRequest(
            endpoint=self.target,
            on_outcome=self._on_outcome,
            on_room=self._pump,
            on_lost=self._lost_target,
            window=self.options.window,
        )
        while True:
            link = await self._target_side.open(self.options, lambda: open_target(request))
            if not link.alive:
                continue
            self._to = link
            self._loop.call_soon(self._pump)
            await self._target_side.lost.wait()

    async def _keep_source(self) -> None:
        options, side = self.options, self._source_side

        async def open_() -> SourceLink:
            if not self._begun:
                await self._begin()
                self._begun = True
            return await open_source(
                SourceRequest(
                    endpoint=self._source_now(),
                    receive=self._receive,
                    on_lost=self._lost_source,
                    window=side.window(self._window),
                    max_message=options.max_message,
                    overflow=self._overflow,
                )
            )

        await self._target_side.opened.wait()
        if self._aside is not None:
            await self._aside.opened.wait()
        while True:
            self._from = await side.open(options, open_)
            if not self._from.alive:
                self._lost_source(self._early)
                continue
            self._idle = self._slow = 0.0
            self._opened = self._opened or self._loop.time()
            self._count()
            await side.lost.wait()

    @property
    def _window(self) -> int:
        """How many deliveries of the source may be unsettled."""
        return min(self.options.window, self._most or self.options.window)

    async def _begin(self) -> None:
        """Count what is to be done, before the source is opened.

        Raises:
            LinkError: the source cannot be counted, or not be reached.
        """
        counting = self._counting
        if not (self.options.until_length or counting.is_stream):
            return
        depth = await counting.begin(self._source_now())
        if not self.options.until_length:
            return
        if counting.end is not None:
            self._until = counting.end
            following = self._records.following
            ready = depth.ready if following is None else max(counting.end - following, 0)
        else:
            ready = depth.ready
            if ready is None:
                text = f"until-length: {depth.why}; until-empty needs no number"
                raise LinkError(text, said=True, permanent=True)
            self._most = ready if self._most is None else min(ready, self._most)
        self.log("source-counted", at=str(self.source), messages=ready)
        if ready == 0:
            self._finish_as("length")

    def _source_now(self) -> Endpoint:
        """Return the source, to be read from where it was read to."""
        offset = self._records.offset
        return self.source if offset is None else attrs.evolve(self.source, offset=offset)

    def _lost_source(self, error: LinkError) -> None:
        """Forget what is not in flight: the source delivers it again."""
        if self._from is None:
            self._early = error  # while it was opened, which fails unless that was just done
            return
        self.statistics.source_lost += 1
        self.log("source-lost", logging.WARNING, at=str(self.source), why=str(error))
        self._forget_source()
        if self.options.until_length and self._most != self.options.max_messages:
            # What was settled may come again, and be counted twice: so all is to be taken.
            self._most = self.options.max_messages
            self.log("length-unknown", at=str(self.source), until="empty")
        stuck = self._source_side.end(error, self._window)
        if stuck is not None:
            self._fail(stuck)
        self._source_side.lost.set()

    def _relax(self) -> None:
        """Open the source anew, which gave out one message at a time, and now may give out many."""
        link = self._from
        self._relaxing = False
        if link is not None:
            self.log("source-relaxed", at=str(self.source))
            self._source_side.relax()
            self._forget_source()
            self._closing = asyncio.ensure_future(link.close(5.0))
            self._source_side.lost.set()

    def _forget_source(self) -> None:
        self._from = None
        self._holding = self._relaxing = False
        in_flight = self._pending.lose_source()
        for delivery in self._aside.deliveries if self._aside is not None else []:
            delivery.link = None
            in_flight.append(delivery)
        self._surplus.clear()
        self._passed.clear()
        self._bytes = sum(delivery.size for delivery in in_flight)
        self._records.reset(in_flight)

    def _lost_target(self, error: LinkError) -> None:
        """Send anew what was in flight: one at a time where one of them may be the cause.

        So all that may come twice did so with the first end. A connection that was merely cut for
        the first time has not the fault of a message.
        """
        if self._to is None:
            return  # while it was opened, which fails
        self.statistics.target_lost += 1
        flying, orphans = self._pending.lose_target()
        level = logging.WARNING
        self.log("target-lost", level, at=str(self.target), why=str(error), suspects=len(flying))
        for delivery in orphans:
            self._forget(delivery)  # the source is to deliver it again
        self._to = None
        if len(flying) == 1:
            (alone,) = flying
            alone.deaths += _DEATHS if error.said else 1
            if alone.deaths >= _DEATHS:
                self._refused(alone, Outcome("fatal", "", str(error), final=True))
                flying = []
                self._pending.be_wary()
                self._target_side.progress = True
        self._pending.suspect(flying, isolated=error.said or error.failed)
        self._target_side.lost.set()
