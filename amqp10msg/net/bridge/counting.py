"""Asks a source what it has: whether it is empty, and what stands there before it is read.

The source is asked by its own connection, over 0-9-1 beside it, or by RabbitMQ's management API.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from pathlib import Path
from urllib.parse import unquote

import attrs

from amqp10msg.net.bridge.entries import MAX_MESSAGE
from amqp10msg.net.bridge.links import at_first, open_source
from amqp10msg.net.bridge.management import Management
from amqp10msg.net.bridge.terms import (
    NOT_SAID,
    Countable,
    Depth,
    LinkError,
    Oversized,
    SourceRequest,
)
from amqp10msg.net.bridge.urls import Endpoint
from amqp10msg.net.bridge.wire import Lines, beside
from amqp10msg.net.options import WAITS, Waits

_OTHERS_NOT_SAID = "it does not say what other consumers hold"


def over_basic(endpoint: Endpoint) -> Endpoint | None:
    """Return where RabbitMQ has the queue of a source over 0-9-1, on the same port.

    None where its address is not one of a queue of RabbitMQ.
    """
    if endpoint.protocol == "0-9-1":
        return endpoint
    address = endpoint.address or ""
    queue = None
    if address.startswith("/queues/"):
        queue = unquote(address.removeprefix("/queues/"))
    for prefix in ("/amq/queue/", "/queue/"):
        if address.startswith(prefix):
            queue = address.removeprefix(prefix).replace("%2F", "/")
    if "/" not in address:
        queue = address
    if not queue:
        return None
    user, password = endpoint.user, endpoint.password
    if user is None and endpoint.mechanism != "EXTERNAL":
        user, password = "guest", "guest"
    return attrs.evolve(
        endpoint,
        protocol="0-9-1",
        address=None,
        queue=queue,
        virtual_host=endpoint.virtual_host or "/",
        user=user,
        password=password,
        mechanism=endpoint.mechanism if endpoint.mechanism == "EXTERNAL" else None,
        others=tuple(one for one in map(over_basic, endpoint.others) if one is not None),
    )


class Counting:
    """Counts what a source has for a route.

    With `sole`, the caller asserts that the route is the only consumer of the source: an unknown
    number of other consumers counts as zero.

    Attributes:
        first: the position of the first message to read from a stream.
        end: the position after the last message of the stream when the route started.
        oldest: the position of the oldest message that the stream still has.
        gone: positions between the last message read and `oldest`, which retention removed.

    All but `gone` are None if they are not known.
    """

    def __init__(
        self,
        source: Endpoint,
        management: str | None,
        *,
        sole: bool = False,
        lines: Lines | None = None,
        waits: Waits = WAITS,
    ) -> None:
        self._lines = lines
        self._waits = waits
        self._sole = sole
        self._source = source
        self._over_basic = over_basic(source)
        self.is_stream = source.offset is not None and source.file is None
        self._management = (
            None
            if management is None
            else Management(management, source, timeout=waits.management_answer)
        )
        if management is not None and (source.file is not None or self._over_basic is None):
            raise ValueError(f"{source}: the management API is asked for a queue of RabbitMQ")
        self._nought_since: float | None = None
        self.end: int | None = None
        self.first: int | None = None
        self.oldest: int | None = None
        self.gone = 0

    def restart(self) -> None:
        """Note that messages came."""
        self._nought_since = None

    async def begin(self, source: Endpoint, following: int | None = None) -> Depth:
        """Count what is there before the source is read, and where a stream begins and ends.

        Of a stream, `following` is the position after the last message that was read.
        """
        if self.is_stream:
            depth = await self._begin_stream()
            if following is not None:
                self._compare(self.oldest, self.end, following)
            return depth
        if source.protocol == "0-9-1" and source.file is None:
            return await _declared(source, self._waits.answer, self._lines)
        link = await open_source(
            SourceRequest(
                endpoint=source,
                receive=lambda _: None,
                on_lost=lambda _: None,
                window=0,
                # Of a broker, nothing is requested; the lines of a file are read to be counted.
                max_message=1 if source.file is None else MAX_MESSAGE,
                overflow=lambda: Oversized(Path(), 0),
                lines=self._lines,
            )
        )
        try:
            async with asyncio.timeout(self._waits.answer):
                return await link.count()
        except TimeoutError:
            raise LinkError(
                f"it did not say within {self._waits.answer:g} s how many messages it has"
            ) from None
        finally:
            await link.close(5.0)

    async def check(self, following: int) -> None:
        """Refuse a stream that ends before what was read of it, where that can be known.

        RabbitMQ delivers nothing of it before that position, and does not say so.
        """
        at = self._over_basic
        if at is None:
            return
        try:
            _, end = await self._end(at)
            first = await self._positions(at, "first")
        except LinkError:
            return  # whether it is there is seen when it is read
        self.oldest = end if first is None else first[0]
        self._compare(self.oldest, end, following)

    def _compare(self, oldest: int | None, end: int | None, following: int) -> None:
        """Compare where a stream begins and ends with what was read of it; see `check`."""
        _refuse_another(end, following)
        self.gone = 0 if oldest is None else max(oldest - following, 0)

    async def _positions(self, at: Endpoint, offset: str) -> tuple[int, int] | None:
        """Return the positions of the first and the last message that come from an offset on."""
        from amqp10msg.net.bridge.basic import positions_of  # noqa: PLC0415  (an extra)

        return await at_first(at, lambda one: positions_of(one, offset, self._lines))

    async def _end(self, at: Endpoint) -> tuple[tuple[int, int] | None, int]:
        """Return the last messages of a stream, and the position after them."""
        last = await self._positions(at, "last")
        return last, 0 if last is None else last[1] + 1

    async def _begin_stream(self) -> Depth:
        start = self._source.start
        at = self._over_basic
        if at is None:
            return Depth(why=NOT_SAID)
        last, self.end = await self._end(at)
        if start == "next":
            self.first = self.end
        elif last is None:
            self.first = self.oldest = 0
        elif start == "last":
            self.first = last[0]
        elif start == "first" or isinstance(start, int):
            first = await self._positions(at, "first")
            self.first = self.oldest = 0 if first is None else first[0]
            if isinstance(start, int):
                self.first = max(self.first, start)
        if self.first is None:
            return Depth(why=f"what a stream has from {start} on is not known before it is read")
        return Depth(ready=max(self.end - self.first, 0), others=0, unacknowledged=0)

    def observer(self) -> Observer | None:
        """Return an observer of the source's queue; None if it is not known to be on RabbitMQ."""
        at = self._over_basic
        return None if at is None or self.is_stream else Observer(at, self._lines, self._waits)

    async def ask(self, link: Countable | None, following: int | None, held: int) -> Depth:
        """Count what is there now; nothing of the route is unsettled besides what it holds.

        Of a stream, `following` is the position after the last message that was read; the route
        holds `held` messages unsettled, and gives them back.
        """
        depth = await self._asked(link, following, held)
        if depth.ready == 0 and self._source.others and (why := await self._elsewhere()):
            return Depth(why=why)
        return depth

    async def _elsewhere(self) -> str:
        """Return why zero at one place of the source need not be zero at all of them.

        Several places are taken for nodes of one cluster, which nobody has checked.
        """
        at = self._over_basic
        if at is None:
            return "its places are not known to be one cluster, and cannot be asked one by one"
        from amqp10msg.net.bridge.basic import last_of  # noqa: PLC0415  (an extra)

        # Of a stream, which is not empty, the last message is the same one everywhere.
        lasts = set()
        for place in at.places:
            one = attrs.evolve(place, others=())
            try:
                if self.is_stream:
                    lasts.add(await last_of(one, self._lines))
                elif (await _declared(one, self._waits.answer, self._lines)).ready:
                    return f"{one.host}:{one.port} has messages, and another place has none"
            except LinkError as error:
                text = str(error.without(one.password))
                return f"{one.host}:{one.port} does not say what it has: {text}"
        return "its places are different streams" if len(lasts) > 1 else ""

    async def _asked(self, link: Countable | None, following: int | None, held: int) -> Depth:
        if self.is_stream:
            return await self._rest_of_stream(following)
        if link is None:
            return await self._apart("the source is away")
        if link.incomplete:
            return await self._apart("a message of it does not come to its end")
        try:
            async with asyncio.timeout(self._waits.answer):
                depth = await link.count()
        except (TimeoutError, LinkError) as error:
            why = str(error) or f"no answer within {self._waits.answer:g} s"
            return await self._apart(why)
        if depth.ready != 0:
            self._nought_since = None
            return depth
        now = asyncio.get_running_loop().time()
        self._nought_since = self._nought_since or now
        if depth.others is None and link.product.startswith("RabbitMQ") and self._over_basic:
            try:
                found = await _declared(self._over_basic, self._waits.answer, self._lines)
                others = None if found.others is None else max(found.others - 1, 0)
                depth = attrs.evolve(depth, others=others)
            except LinkError as error:
                depth = attrs.evolve(depth, why=f"{_OTHERS_NOT_SAID}: {error}")
        if self._management is not None:
            depth = await self._held_by_others(depth, now, held)
        elif self._sole and depth.others is None and depth.unacknowledged is None:
            depth = attrs.evolve(depth, others=0, why="")
        elif depth.others is None and depth.unacknowledged is None and not depth.why:
            depth = attrs.evolve(depth, why=_OTHERS_NOT_SAID)
        return depth

    async def _apart(self, why: str) -> Depth:
        """Count over another connection, as the route's own does not answer.

        So the source need not know yet what the route settled: zero is not certain.
        """
        if self._over_basic is None or self._source.file is not None:
            return Depth(why=why)
        try:
            depth = await _declared(self._over_basic, self._waits.answer, self._lines)
        except LinkError:
            return Depth(why=why)
        return depth if depth.ready else Depth(why=why)

    async def _rest_of_stream(self, following: int | None) -> Depth:
        at = self._over_basic
        if at is None:
            return Depth(why=NOT_SAID)
        try:
            last, end = await self._end(at)
            _refuse_another(end, following)
        except LinkError as error:
            return Depth(why=str(error.without(at.password)))
        following = self.first if following is None else following
        if last is not None and following is None:
            return Depth(why=f"nothing came from {self._source.offset} on, and it has messages")
        return Depth(ready=max(end - (following or 0), 0), others=0, unacknowledged=0)

    async def _held_by_others(self, depth: Depth, now: float, held: int) -> Depth:
        """Add what the management API says others hold, once it must know of all that is held."""
        at, since = self._over_basic, self._nought_since
        if at is None or self._management is None or since is None:
            return depth
        if now - since < self._waits.management_lag:
            return Depth(why="the management API does not know yet what others hold")
        try:
            count = await beside(self._management.unacknowledged, at.queue or "")
        except (LinkError, ValueError) as error:
            return Depth(why=str(error))
        if count is None:
            return Depth(why="the management API does not say what others hold")
        return attrs.evolve(depth, unacknowledged=max(count - held, 0))


class Observer:
    """Counts the messages and consumers of a queue of RabbitMQ without consuming it.

    Args:
        at: the queue, as an endpoint of 0-9-1.
        lines: connections to use; None for a new connection for each count.
        waits: how long to wait for an answer, and between two counts.
    """

    product = "RabbitMQ"
    incomplete = False

    def __init__(self, at: Endpoint, lines: Lines | None, waits: Waits) -> None:
        self._at = at
        self._lines = lines
        self._waits = waits

    async def count(self) -> Depth:
        """Return how many messages are ready, and how many consumers the queue has.

        Zero of both is counted twice. A bridge that has just cancelled its consumer may receive a
        message that was in flight: it holds the message, and only then consumes the queue again.

        Raises:
            LinkError: the queue cannot be asked.
        """
        depth = await _declared(self._at, self._waits.answer, self._lines)
        if depth.ready == 0 and depth.others == 0:
            await asyncio.sleep(self._waits.second_count)
            depth = await _declared(self._at, self._waits.answer, self._lines)
        return depth


def _refuse_another(end: int | None, following: int | None) -> None:
    """Refuse a stream that ends before what was read of it.

    A replica may lag for a moment, so a route that was running tries again.
    """
    if end is not None and following is not None and end < following:
        raise LinkError(
            f"the stream ends at position {end}, and was read up to {following}: it was deleted "
            "and declared again, or is another one; give another --state to read it from its "
            "beginning",
            permanent=True,
        )


def declared(endpoint: Endpoint) -> Depth:
    """Ask a queue of RabbitMQ how many messages it has, by a connection of its own over 0-9-1."""
    at = over_basic(endpoint)
    if at is None:
        return Depth(why=NOT_SAID)
    try:
        return asyncio.run(_declared(at, WAITS.answer))
    except (LinkError, ModuleNotFoundError) as error:
        return Depth(why=str(error))


async def _declared(endpoint: Endpoint, timeout: float, lines: Lines | None = None) -> Depth:
    from amqp10msg.net.bridge.basic import depth_of  # noqa: PLC0415  (an extra)

    def ask(at: Endpoint) -> Awaitable[Depth]:
        short = attrs.evolve(at, timeout=min(at.timeout, timeout))
        return depth_of(short, short.queue or "", lines)

    return await at_first(endpoint, ask)
