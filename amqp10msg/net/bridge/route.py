"""A route: couples a source with a target, and settles at the source what the target settled.

A delivery is in one place: it waits, is in flight, is held until it is tried again, is a suspect of
a connection's end, or is finished, to be settled at the end of this turn of the loop, when its
record is on disk.
"""

from __future__ import annotations

import asyncio
import functools
import heapq
import itertools
import logging
import random
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from typing import Any

import attrs

from amqp10msg.errors import AmqpError
from amqp10msg.net.bridge.ends import open_source, open_target
from amqp10msg.net.bridge.ledger import Ledger, identity_of
from amqp10msg.net.bridge.options import RouteOptions
from amqp10msg.net.bridge.oversized import Oversized
from amqp10msg.net.bridge.positions import Positions
from amqp10msg.net.bridge.quarantine import Quarantine
from amqp10msg.net.bridge.sending import message_of, sender_of
from amqp10msg.net.bridge.statistics import Statistics
from amqp10msg.net.bridge.terms import Delivery, LinkError, Outcome, Settle, SourceLink, TargetLink
from amqp10msg.net.bridge.urls import Endpoint

__all__ = ["Route"]


@attrs.define
class _Side:
    """One end of a route, over all its connections.

    Attributes:
        name: ``source`` or ``target``.
        endpoint: where it is.
        progress: the last connection brought something about, so the next one is opened at once.
        opened: set once a connection succeeded.
        lost: set where the last one ended.
    """

    name: str
    endpoint: Endpoint
    progress: bool = True
    opened: asyncio.Event = attrs.Factory(asyncio.Event)
    lost: asyncio.Event = attrs.Factory(asyncio.Event)


#: How often a connection may end while one message alone is in flight, until it is the cause.
_DEATHS = 3
#: Suspects are sent anew by this part of them at a time, so that the cause is soon alone.
_PARTS = 16
#: Reasons for which a message is tried until it is taken: the target is full, whatever it is sent.
_FULL = {"nacked", "full"}
_SETTLES = {"requeue": Settle.RELEASE, "reject": Settle.REJECT, "accept": Settle.ACCEPT}
_TICK = 0.25


class Route:
    """Moves messages from one source to one target until it is stopped or has done what it was to.

    Args:
        name: for logs and reports.
        source: where from.
        target: where to.
        options: how.
        logger: takes events, with `fields`.

    Attributes:
        statistics: what it counted.
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
        self._prepare = sender_of(source, target, options, self.statistics)
        self._quarantine = Quarantine(options.quarantine)
        overflow = options.quarantine.with_name(f"{options.quarantine.name}.large")
        self._overflow = functools.partial(Oversized, overflow)
        self._ledger: Ledger | None = None
        self._positions: Positions | None = None
        self._from: SourceLink | None = None
        self._to: TargetLink | None = None
        self._waiting: deque[Delivery] = deque()
        self._in_flight: dict[Delivery, None] = {}
        self._held: list[tuple[float, int, Delivery]] = []
        self._suspects: deque[Delivery] = deque()
        self._surplus: list[Delivery] = []
        # Those that the filter passed over, until they go back.
        self._passed: dict[Delivery, None] = {}
        self._finished: list[tuple[Delivery, Settle, Outcome | None]] = []
        # Where duplicates are looked for: what is under way, and its copies that came meanwhile.
        self._under_way: dict[str, Delivery] = {}
        self._copies: dict[str, list[Delivery]] = {}
        self._isolation = 0
        self._bytes = 0
        self._holding = False
        self._pumping = False
        self._order = itertools.count()
        self._source_side = _Side("source", source)
        self._target_side = _Side("target", target)
        self._stopping = False
        self._stop = asyncio.Event()
        self._fault: BaseException | None = None
        self._idle = self._ticked = 0.0

    def log(self, event: str, level: int = logging.INFO, **fields: Any) -> None:
        """Log an event of this route."""
        fields = {"route": self.name, **fields}
        text = " ".join(f"{name}={value}" for name, value in fields.items())
        extra = {"event": event, "fields": fields}
        self._logger.log(level, "%s %s", event, text, extra=extra)

    async def depth(self) -> int | None:
        """Return how many messages are still to come; None where the source does not say.

        Raises:
            LinkError: the question failed.
        """
        return await self._from.depth() if self._from is not None else None

    # The run.

    def stop(self) -> None:
        """Take no more deliveries, wait for the outcomes of those in flight, and end."""
        self._stopping = True
        self._stop.set()

    async def run(self) -> None:
        """Run until `stop`, or until it has done what its options say.

        Raises:
            LinkError: an end cannot be used: wrong credentials, no such queue.
            OSError: a message could not be put into the quarantine; it was not settled.
        """
        self._loop = asyncio.get_running_loop()
        started = self._loop.time()
        options = self.options
        if options.deduplicate is not None:
            self._ledger = Ledger(options.deduplicate, self.name, options.remember)
        self._positions = Positions(options.state, self.name, active=self.source.keeps)
        self._ticked = started
        tasks = [asyncio.ensure_future(one) for one in (self._keep_target(), self._keep_source())]
        for task in tasks:
            task.add_done_callback(self._ended)
        try:
            while not self._stop.is_set():
                self.statistics.seconds = self._loop.time() - started
                try:
                    async with asyncio.timeout(_TICK):
                        await self._stop.wait()
                except TimeoutError:
                    self._tick()
            if self._fault is None:
                await self._drain()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._close()
            self.statistics.seconds = self._loop.time() - started
            self.statistics.state = "failed" if self._fault else "ended"
        if self._fault is not None:
            raise self._fault

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        if self._fault is None:
            self._fault = error
        self._stop.set()

    def _tick(self) -> None:
        """Look at what the clock decides: outcomes that tarry, messages held, the end."""
        now, options = self._loop.time(), self.options
        target = self._to
        if target is not None and self._in_flight:
            if target.waits:
                for delivery in self._in_flight:
                    delivery.sent = now
            oldest = next(iter(self._in_flight))
            if now - oldest.sent > options.outcome_timeout:
                target.abort()
                self._lost_target(LinkError(f"no outcome within {options.outcome_timeout:g} s"))
        self._pump()
        # A stall of this process is not one of the source.
        self._idle += min(now - self._ticked, _TICK)
        self._ticked = now
        idle = options.idle is not None and self._idle >= options.idle
        if idle and self._from is not None and not self._unsettled:
            self._stop.set()
        self._count()

    @property
    def _unsettled(self) -> int:
        places = (self._waiting, self._in_flight, self._held, self._suspects, self._finished)
        return sum(map(len, places))

    @property
    def _taken(self) -> int:
        """Messages that count for `max_messages`."""
        return self.statistics.settled + self._unsettled - len(self._finished)

    def _count(self) -> None:
        counts = self.statistics
        counts.in_flight = len(self._in_flight)
        counts.waiting = self._unsettled - counts.in_flight
        if self._to is None:
            counts.state = "target is away"
        elif self._from is None:
            counts.state = "source is away"
        elif self._to.waits:
            counts.state = "target takes nothing for now"
        elif self._held and not self._in_flight:
            counts.state = "target refuses"
        elif self._isolation:
            counts.state = "looking for what ended the target's connection"
        else:
            counts.state = "running"

    async def _drain(self) -> None:
        self.statistics.state = "draining"
        if self._from is not None:
            self._from.stop()
        deadline = self._loop.time() + self.options.drain
        while (self._in_flight or self._finished) and self._loop.time() < deadline:
            if self._fault is not None:
                break
            await asyncio.sleep(0.01)

    async def _close(self) -> None:
        """Give back what was not sent, and close both ends."""
        self._finish()
        rest = [
            *(*self._waiting, *self._suspects, *self._surplus, *self._passed),
            *(delivery for _, _, delivery in self._held),
            *itertools.chain.from_iterable(self._copies.values()),
        ]
        for delivery in rest:
            self._settle(delivery, Settle.RELEASE)
        links = (self._from, self._to)
        self._from = self._to = None
        closing = [link.close(5.0) for link in links if link is not None]
        await asyncio.gather(*closing, return_exceptions=True)
        if self._ledger is not None:
            self._ledger.close()
        if self._positions is not None:
            self._positions.close()

    # Connections.

    async def _keep_target(self) -> None:
        def open_() -> Awaitable[TargetLink]:
            window = self.options.window
            return open_target(
                self.target, self._on_outcome, self._pump, self._lost_target, window=window
            )

        while True:
            self._to = await self._open(self._target_side, open_)
            self._loop.call_soon(self._pump)
            await self._target_side.lost.wait()

    async def _keep_source(self) -> None:
        options = self.options
        window = min(options.window, options.max_messages or options.window)

        def open_() -> Awaitable[SourceLink]:
            return open_source(
                self._source_now(),
                self._receive,
                self._lost_source,
                window=window,
                max_message=options.max_message,
                overflow=self._overflow,
            )

        await self._target_side.opened.wait()
        while True:
            self._from = await self._open(self._source_side, open_)
            self._idle = 0.0
            self._count()
            await self._source_side.lost.wait()

    def _source_now(self) -> Endpoint:
        """Return the source, to be read from where it was read to."""
        following = self._positions.next if self._positions is not None else None
        if following is None:
            return self.source
        return attrs.evolve(self.source, offset=str(following))

    async def _open(self, side: _Side, open_: Callable[[], Awaitable[Any]]) -> Any:
        """Open one end; again, with growing pauses, where it did not succeed."""
        tries = 0
        while True:
            if tries or not side.progress:
                await asyncio.sleep(self._pause(tries))
            tries += 1
            try:
                link = await open_()
            except LinkError as error:
                why, at = str(error), str(side.endpoint)
                self.log(f"{side.name}-unreachable", logging.WARNING, at=at, why=why, tries=tries)
                if error.permanent and not side.opened.is_set():
                    raise LinkError(f"{at}: {error}", permanent=True) from None
                continue
            if not link.alive:
                continue  # lost again before anybody looked
            self.log(f"{side.name}-open", at=str(side.endpoint), product=link.product.strip())
            side.progress = False
            side.opened.set()
            side.lost.clear()
            return link

    def _pause(self, tries: int) -> float:
        """Return seconds until another attempt: they double, and are drawn from the upper half."""
        options = self.options
        longest: float = min(options.backoff * 2.0 ** min(tries, 30), options.max_backoff)
        return longest * random.uniform(0.5, 1.0)  # noqa: S311  (jitter)

    def _lost_source(self, error: LinkError) -> None:
        """Forget what is not in flight: the source delivers it again."""
        if self._from is None:
            return  # while it was opened, which fails
        self.statistics.source_lost += 1
        self.log("source-lost", logging.WARNING, at=str(self.source), why=str(error))
        self._from = None
        if self._positions is not None:
            self._positions.reset()
        self._holding = False
        for delivery in self._in_flight:
            delivery.link = None
        self._waiting.clear()
        self._suspects.clear()
        self._held.clear()
        self._surplus.clear()
        self._passed.clear()
        self._copies.clear()
        self._bytes = sum(delivery.size for delivery in self._in_flight)
        self._under_way = {
            delivery.identity: delivery
            for delivery in self._in_flight
            if delivery.identity is not None
        }
        self._source_side.lost.set()

    def _lost_target(self, error: LinkError) -> None:
        """Send anew what was in flight: a few at a time, since one of them may be the cause."""
        if self._to is None:
            return  # while it was opened, which fails
        self.statistics.target_lost += 1
        flying = [delivery for delivery in self._in_flight if delivery.link is not None]
        level = logging.WARNING
        self.log("target-lost", level, at=str(self.target), why=str(error), suspects=len(flying))
        for delivery in self._in_flight:
            if delivery.link is None:
                self._forget(delivery)  # the source is to deliver it again
        self._in_flight.clear()
        self._to = None
        if len(flying) == 1:
            (alone,) = flying
            alone.deaths += _DEATHS if error.said else 1
            if alone.deaths >= _DEATHS:
                self._refused(alone, Outcome("fatal", "", str(error), final=True))
                flying = []
                self._target_side.progress = True
        self._suspects.extendleft(reversed(flying))
        parts = min(self._isolation, len(flying)) if self._isolation else len(flying)
        self._isolation = max(1, parts // _PARTS) if self._suspects else 0
        self._target_side.lost.set()

    # Deliveries.

    def _receive(self, delivery: Delivery) -> None:
        counts, options = self.statistics, self.options
        counts.received += 1
        counts.redelivered += delivery.redelivered
        idle, self._idle = self._idle, 0.0
        if self._stopping or (
            options.max_messages is not None and self._taken >= options.max_messages
        ):
            if not self._surplus and self._from is not None:
                self._from.stop()
            if delivery.large is not None:
                delivery.large.discard()
            self._surplus.append(delivery)
            return
        if self._positions is not None:
            self._positions.receive(delivery)
        if delivery.large is not None:
            text = f"{len(delivery.large)} bytes, and {options.max_message} at most are sent"
            self._refused(delivery, Outcome("too-large", "", text, final=True))
            return
        self._bytes += delivery.size
        if self._bytes > options.max_bytes and not self._holding and self._from is not None:
            self._holding = True
            self._from.hold(True)
        if self._ledger is not None and self._is_known(delivery):
            return
        if options.match is not None and not self._matches(delivery):
            if delivery in self._passed:
                self._idle = idle  # it comes again and again
            return
        self._waiting.append(delivery)
        self._pump()

    def _is_known(self, delivery: Delivery) -> bool:
        """Whether the target has this message already, or may soon have it."""
        identity = delivery.identity = identity_of(delivery)
        if identity is None or self._ledger is None:
            return False
        if identity in self._under_way:
            self._copies.setdefault(identity, []).append(delivery)
            return True
        if self._ledger.has(identity):
            self.statistics.duplicates += 1
            delivery.identity = None
            self._end(delivery, Settle.ACCEPT)
            return True
        self._under_way[identity] = delivery
        return False

    def _matches(self, delivery: Delivery) -> bool:
        try:
            passes = self.options.match is None or self.options.match(message_of(delivery))
        except Exception as error:  # noqa: BLE001  (of a hook: its message is put aside, not lost)
            self._refused(delivery, Outcome("untranslatable", "", f"filter: {error}", final=True))
            return False
        if not passes:
            self.statistics.unmatched += 1
            how = self.options.unmatched
            if how == "requeue" and not self.source.keeps:
                # A pause, since it may come back at once.
                self._passed[delivery] = None
                self._loop.call_later(self.options.max_backoff, self._give_back, delivery)
            else:
                self._end(delivery, Settle.ACCEPT if how == "requeue" else _SETTLES[how])
        return passes

    def _give_back(self, delivery: Delivery) -> None:
        if self._passed.pop(delivery, self) is None:
            self._end(delivery, Settle.RELEASE)

    def _pump(self) -> None:
        """Send what may be sent now."""
        target = self._to
        if target is None or self._pumping or self._fault is not None or self._stop.is_set():
            return
        self._pumping = True
        try:
            now = self._loop.time()
            for _ in range(target.room):
                delivery = self._next(now)
                if delivery is None:
                    break
                self._send(target, delivery, now)
                if self._to is not target:
                    break
        finally:
            self._pumping = False

    def _next(self, now: float) -> Delivery | None:
        if self._isolation:
            if self._suspects:
                wait = len(self._in_flight) >= self._isolation
                return None if wait else self._suspects.popleft()
            if self._in_flight:
                return None
            self._isolation = 0
        if self._suspects:
            return self._suspects.popleft()
        if self._held and self._held[0][0] <= now:
            return heapq.heappop(self._held)[2]
        return self._waiting.popleft() if self._waiting else None

    def _send(self, target: TargetLink, delivery: Delivery, now: float) -> None:
        try:
            outgoing = self._prepare(delivery)
        except AmqpError as error:
            self._refused(delivery, Outcome("untranslatable", "", str(error), final=True))
            return
        except Exception as error:  # noqa: BLE001  (of a hook: its message is put aside, not lost)
            self.log("hook-failed", logging.ERROR, why=repr(error))
            self._refused(delivery, Outcome("untranslatable", "", f"hook: {error!r}", final=True))
            return
        if outgoing is None:
            self.statistics.dropped += 1
            self._end(delivery, Settle.ACCEPT)
            return
        delivery.sent = now
        self._in_flight[delivery] = None
        target.send(outgoing, delivery)

    def _on_outcome(self, delivery: Delivery, outcome: Outcome) -> None:
        if self._in_flight.pop(delivery, self) is self:
            return
        self._target_side.progress = True
        if outcome.kind != "accepted":
            self._refused(delivery, outcome)
            return
        self.statistics.accepted += 1
        self.statistics.octets += delivery.size
        self._end(delivery, Settle.ACCEPT, outcome)

    def _refused(self, delivery: Delivery, outcome: Outcome) -> None:
        """Try a message again later, or do with it what the options say."""
        options, counts = self.options, self.statistics
        outcome = outcome.without(self.target.password).without(self.source.password)
        counts.refused[outcome.kind] += 1
        if delivery.link is None:
            self._forget(delivery)  # the source was lost meanwhile, and delivers it again
            return
        if not outcome.final:
            now = self._loop.time()
            delivery.first = delivery.first or now
            delivery.tries += 1
            delivery.attempts += outcome.kind not in _FULL
            patient = options.patience is None or now - delivery.first < options.patience
            if delivery.attempts < options.attempts and patient:
                due = now + self._pause(delivery.tries - 1)
                heapq.heappush(self._held, (due, next(self._order), delivery))
                self._loop.call_at(due, self._pump)
                return
        action = options.on.get(outcome.kind, "quarantine")
        if action == "requeue" and self.source.keeps:
            action = "quarantine"  # a stream takes nothing back, and would go on behind it
        fields = {"reason": outcome.kind, "why": outcome.description or outcome.condition}
        self.log(f"message-{action}", logging.WARNING, size=delivery.size, **fields)
        if action == "quarantine":
            counts.quarantined[outcome.kind] += 1
            self._end(delivery, Settle.ACCEPT, outcome)
        else:
            counter: Counter[str] = counts.requeued if action == "requeue" else counts.rejected
            counter[outcome.kind] += 1
            self._end(delivery, _SETTLES[action])

    # The end of a delivery.

    def _end(self, delivery: Delivery, how: Settle, outcome: Outcome | None = None) -> None:
        """Settle a delivery at the end of this turn, behind what the disk is to know of it."""
        if not self._finished:
            self._loop.call_soon(self._finish)
        self._finished.append((delivery, how, outcome))

    def _finish(self) -> None:
        finished, self._finished = self._finished, []
        aside = [
            (delivery, outcome)
            for delivery, _, outcome in finished
            if outcome is not None and outcome.kind != "accepted"
        ]
        try:
            if aside:
                names = {"source": str(self.source), "target": str(self.target)}
                self._quarantine.add(aside, route=self.name, **names)
            if self._ledger is not None:
                taken = [
                    delivery.identity
                    for delivery, _, outcome in finished
                    if delivery.identity is not None and outcome is not None
                ]
                if taken:
                    self._ledger.add(taken)
            if self._positions is not None:
                for delivery, _, _ in finished:
                    self._positions.finish(delivery)
                self._positions.save()
        except OSError as error:
            # None of these is settled: the source has them still.
            self._fail(error)
            return
        for delivery, how, _ in finished:
            self._settle(delivery, how)
            self._forget(delivery)
        most = self.options.max_messages
        if most is not None and self.statistics.settled >= most and not self._unsettled:
            self._stop.set()

    def _settle(self, delivery: Delivery, how: Settle) -> None:
        if delivery.link is not None:
            delivery.link.settle(delivery, how)

    def _forget(self, delivery: Delivery) -> None:
        if delivery.large is not None:
            delivery.large.discard()  # unless it was kept
            return
        self._bytes -= delivery.size
        if self._holding and self._bytes * 2 < self.options.max_bytes and self._from is not None:
            self._holding = False
            self._from.hold(False)
        identity = delivery.identity
        if identity is not None and self._under_way.pop(identity, None) is not None:
            for copy in self._copies.pop(identity, ()):
                if not self._is_known(copy):
                    self._waiting.append(copy)
                    self._loop.call_soon(self._pump)
