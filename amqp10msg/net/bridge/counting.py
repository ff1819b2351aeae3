"""Counts the messages of a source before it is read, and to find out whether it is empty.

The messages are counted over the connection of the source, over a second connection of AMQP 0-9-1,
or by RabbitMQ's management API.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import attrs

from amqp10msg.net.bridge.management import Management
from amqp10msg.net.bridge.options import WAITS, Waits
from amqp10msg.net.ends.counts import basic_endpoint_of, count_queue
from amqp10msg.net.ends.entries import MAX_MESSAGE
from amqp10msg.net.ends.links import first_reachable, open_source
from amqp10msg.net.ends.terms import (
    NO_COUNT_REASON,
    Countable,
    Depth,
    LinkError,
    Oversized,
    SourceRequest,
)
from amqp10msg.net.ends.urls import Endpoint
from amqp10msg.net.ends.wire import ConnectionPool, in_thread

#: A value of `Depth.reason`.
_HELD_BY_OTHERS_UNKNOWN = "the broker does not report the messages that other consumers hold"


class Counting:
    """Counts the messages of the source of a route.

    Args:
        source: the source.
        management: the URL of RabbitMQ's management API; None to not use it.
        sole: whether the route is the only consumer of the source. If so, an unknown number of
            other consumers counts as zero.
        pool: connections to share with other routes.
        waits: timeouts.

    Attributes:
        is_stream: whether the source is a stream.
        first: the position of the first message to read from a stream; None if unknown.
        end: the position after the last message of the stream when the route started; None if
            unknown.
        oldest: the position of the oldest message that the stream still has; None if unknown.
        removed_count: number of positions that retention removed after the last message read.
    """

    def __init__(
        self,
        source: Endpoint,
        management: str | None,
        *,
        sole: bool = False,
        pool: ConnectionPool | None = None,
        waits: Waits = WAITS,
    ) -> None:
        self._pool = pool
        self._waits = waits
        self._sole = sole
        self._source = source
        self._basic_endpoint = basic_endpoint_of(source)
        self.is_stream = source.offset is not None and source.file is None
        self._management = (
            None
            if management is None
            else Management(management, source, timeout=waits.management_timeout)
        )
        if management is not None and (source.file is not None or self._basic_endpoint is None):
            raise ValueError(f"{source}: management needs a source that is a queue of RabbitMQ")
        # The time of the first count of zero after the last message or other count, on the event
        # loop's clock; None if there was no such count.
        self._zero_since: float | None = None
        self.end: int | None = None
        self.first: int | None = None
        self.oldest: int | None = None
        self.removed_count = 0

    def reset_zero_count(self) -> None:
        """Forget earlier counts of zero, because a message arrived."""
        self._zero_since = None

    async def count_before_reading(
        self, source: Endpoint, next_position: int | None = None
    ) -> Depth:
        """Count the messages before the source is read. Set the positions of a stream.

        `next_position` is the position after the last message that was read from a stream.
        """
        if self.is_stream:
            depth = await self._count_stream()
            if next_position is not None:
                self._check_positions(self.oldest, self.end, next_position)
            return depth
        if source.protocol == "0-9-1" and source.file is None:
            return await count_queue(source, self._waits.query_timeout, self._pool)
        link = await open_source(
            SourceRequest(
                endpoint=source,
                receive=lambda _: None,
                on_lost=lambda _: None,
                window=0,
                # A window of 0 requests nothing from a broker; a file is read to count its lines.
                max_message=1 if source.file is None else MAX_MESSAGE,
                overflow=lambda: Oversized(Path(), 0),
                pool=self._pool,
            )
        )
        try:
            async with asyncio.timeout(self._waits.query_timeout):
                return await link.count()
        except TimeoutError:
            seconds = f"{self._waits.query_timeout:g} s"
            raise LinkError(f"the source did not report its messages within {seconds}") from None
        finally:
            await link.close(5.0)

    async def check_stream_end(self, next_position: int) -> None:
        """Raise LinkError if the stream ends before the position `next_position`.

        In that case a new stream has replaced it. RabbitMQ would deliver no message, and report no
        error, until the new stream reaches that position. Also sets `oldest` and `removed_count`.
        """
        endpoint = self._basic_endpoint
        if endpoint is None:
            return
        try:
            _, end = await self._last_positions(endpoint)
            first = await self._delivered_positions(endpoint, "first")
        except LinkError:
            return  # if the stream is missing, opening it will fail
        self.oldest = end if first is None else first[0]
        self._check_positions(self.oldest, end, next_position)

    def _check_positions(self, oldest: int | None, end: int | None, next_position: int) -> None:
        """Raise LinkError if a stream ends before `next_position`; set `removed_count`."""
        _refuse_replaced(end, next_position)
        self.removed_count = 0 if oldest is None else max(oldest - next_position, 0)

    async def _delivered_positions(self, endpoint: Endpoint, offset: str) -> tuple[int, int] | None:
        """Return the first and last position that are read from `offset` on; see `positions_of`.

        Return None for an empty stream.
        """
        from amqp10msg.net.ends.basic import positions_of  # noqa: PLC0415  (an extra)

        return await first_reachable(
            endpoint, lambda address: positions_of(address, offset, self._pool)
        )

    async def _last_positions(self, endpoint: Endpoint) -> tuple[tuple[int, int] | None, int]:
        """Return the first and last position of the last chunk, and the end of the stream.

        The end is the position after the last message. For an empty stream, return None and 0.
        """
        last = await self._delivered_positions(endpoint, "last")
        return last, 0 if last is None else last[1] + 1

    async def _count_stream(self) -> Depth:
        """Count the messages of a stream from its start offset on. Set its positions."""
        start = self._source.start
        endpoint = self._basic_endpoint
        if endpoint is None:
            return Depth(reason=NO_COUNT_REASON)
        last, self.end = await self._last_positions(endpoint)
        if start == "next":
            self.first = self.end
        elif last is None:
            self.first = self.oldest = 0
        elif start == "last":
            self.first = last[0]
        elif start == "first" or isinstance(start, int):
            first = await self._delivered_positions(endpoint, "first")
            self.first = self.oldest = 0 if first is None else first[0]
            if isinstance(start, int):
                self.first = max(self.first, start)
        if self.first is None:
            return Depth(reason=f"the number of messages from {start} on is unknown before reading")
        return Depth(ready=max(self.end - self.first, 0), other_consumers=0, unacknowledged=0)

    def observer(self) -> Observer | None:
        """Return an observer of the source's queue; None if the source is not a RabbitMQ queue."""
        endpoint = self._basic_endpoint
        return (
            None
            if endpoint is None or self.is_stream
            else Observer(endpoint, self._pool, self._waits)
        )

    async def count_now(
        self, link: Countable | None, next_position: int | None, held_count: int
    ) -> Depth:
        """Count the messages at the source now.

        Args:
            link: the link of the source, or its observer; None if neither is open.
            next_position: for a stream, the position after the last message that was read.
            held_count: number of unsettled deliveries that the route will release. It is subtracted
                from `Depth.unacknowledged`. All other deliveries must be settled.
        """
        depth = await self._count(link, next_position, held_count)
        if depth.ready == 0 and self._source.others and (reason := await self._check_others()):
            return Depth(reason=reason)
        return depth

    async def _check_others(self) -> str:
        """Check that the alternative addresses of the source are empty.

        Return the reason why an address may have messages; otherwise an empty string. The addresses
        should be nodes of the same cluster, and report the same number.
        """
        endpoint = self._basic_endpoint
        if endpoint is None:
            return "the other addresses of the source cannot be queried one by one"
        from amqp10msg.net.ends.basic import last_message_of  # noqa: PLC0415  (an extra)

        # The nodes of a cluster have the same last message of a stream.
        last_messages = set()
        for candidate in endpoint.places:
            node = attrs.evolve(candidate, others=())
            try:
                if self.is_stream:
                    last_messages.add(await last_message_of(node, self._pool))
                elif (await count_queue(node, self._waits.query_timeout, self._pool)).ready:
                    return f"{node.host}:{node.port} has messages, but another address has none"
            except LinkError as error:
                text = str(error.without(node.password))
                return f"{node.host}:{node.port} cannot be counted: {text}"
        return "its addresses are different streams" if len(last_messages) > 1 else ""

    async def _count(
        self, link: Countable | None, next_position: int | None, held_count: int
    ) -> Depth:
        """Count as `count_now` does, without a check of the other addresses."""
        if self.is_stream:
            return await self._count_rest_of_stream(next_position)
        if link is None:
            return await self._count_separately("the source is not connected")
        if link.incomplete:
            return await self._count_separately("the source stopped partway through a message")
        try:
            async with asyncio.timeout(self._waits.query_timeout):
                depth = await link.count()
        except (TimeoutError, LinkError) as error:
            reason = str(error) or f"no answer within {self._waits.query_timeout:g} s"
            return await self._count_separately(reason)
        if depth.ready != 0:
            self._zero_since = None
            return depth
        now = asyncio.get_running_loop().time()
        self._zero_since = self._zero_since or now
        if (
            depth.other_consumers is None
            and link.peer_product.startswith("RabbitMQ")
            and self._basic_endpoint
        ):
            try:
                queue_depth = await count_queue(
                    self._basic_endpoint, self._waits.query_timeout, self._pool
                )
                # Subtract the route's own consumer.
                other_consumers = (
                    None
                    if queue_depth.other_consumers is None
                    else max(queue_depth.other_consumers - 1, 0)
                )
                depth = attrs.evolve(depth, other_consumers=other_consumers)
            except LinkError as error:
                depth = attrs.evolve(depth, reason=f"{_HELD_BY_OTHERS_UNKNOWN}: {error}")
        if self._management is not None:
            depth = await self._add_held_by_others(depth, now, held_count)
        elif self._sole and depth.other_consumers is None and depth.unacknowledged is None:
            depth = attrs.evolve(depth, other_consumers=0, reason="")
        elif depth.other_consumers is None and depth.unacknowledged is None and not depth.reason:
            depth = attrs.evolve(depth, reason=_HELD_BY_OTHERS_UNKNOWN)
        return depth

    async def _count_separately(self, reason: str) -> Depth:
        """Count over a separate connection; `reason` is why the route's connection cannot be used.

        A count of zero is reported as unknown: the source may not have processed the settlements
        of the route's own connection yet.
        """
        if self._basic_endpoint is None or self._source.file is not None:
            return Depth(reason=reason)
        try:
            depth = await count_queue(self._basic_endpoint, self._waits.query_timeout, self._pool)
        except LinkError:
            return Depth(reason=reason)
        return depth if depth.ready else Depth(reason=reason)

    async def _count_rest_of_stream(self, next_position: int | None) -> Depth:
        """Count the messages of a stream from `next_position` on."""
        endpoint = self._basic_endpoint
        if endpoint is None:
            return Depth(reason=NO_COUNT_REASON)
        try:
            last, end = await self._last_positions(endpoint)
            _refuse_replaced(end, next_position)
        except LinkError as error:
            return Depth(reason=str(error.without(endpoint.password)))
        next_position = self.first if next_position is None else next_position
        if last is not None and next_position is None:
            return Depth(
                reason=f"the stream has messages, but delivered none from {self._source.offset} on"
            )
        return Depth(ready=max(end - (next_position or 0), 0), other_consumers=0, unacknowledged=0)

    async def _add_held_by_others(self, depth: Depth, now: float, held_count: int) -> Depth:
        """Return `depth` with the messages that other consumers hold, from the management API.

        The API's numbers are old: it is queried only if all counts since `management_lag` seconds
        were zero.
        """
        endpoint, since = self._basic_endpoint, self._zero_since
        if endpoint is None or self._management is None or since is None:
            return depth
        if now - since < self._waits.management_lag:
            return Depth(reason="the management API may not count yet what other consumers hold")
        try:
            count = await in_thread(self._management.unacknowledged, endpoint.queue or "")
        except (LinkError, ValueError) as error:
            return Depth(reason=str(error))
        if count is None:
            return Depth(reason="the management API does not report what other consumers hold")
        return attrs.evolve(depth, unacknowledged=max(count - held_count, 0))


class Observer:
    """Counts the messages and consumers of a queue of RabbitMQ without consuming it.

    Args:
        endpoint: the queue, as an endpoint of 0-9-1.
        pool: the connections to use; None for a new connection per count.
        waits: has the timeout of a count, and the time between two counts.
    """

    peer_product = "RabbitMQ"  # the only peer that is observed
    incomplete = False

    def __init__(self, endpoint: Endpoint, pool: ConnectionPool | None, waits: Waits) -> None:
        self._endpoint = endpoint
        self._pool = pool
        self._waits = waits

    async def count(self) -> Depth:
        """Return the number of ready messages and of consumers.

        If both are zero, they are counted again after `Waits.recount_delay`: another bridge that
        has just cancelled its consumer may still receive a message, and then consume again.

        Raises:
            LinkError: the queue cannot be queried.
        """
        depth = await count_queue(self._endpoint, self._waits.query_timeout, self._pool)
        if depth.ready == 0 and depth.other_consumers == 0:
            await asyncio.sleep(self._waits.recount_delay)
            depth = await count_queue(self._endpoint, self._waits.query_timeout, self._pool)
        return depth


def _refuse_replaced(end: int | None, next_position: int | None) -> None:
    """Raise LinkError if a stream ends before the position up to which it was read.

    A running route retries in spite of this error, because a replica may lag for a short time.
    """
    if end is not None and next_position is not None and end < next_position:
        raise LinkError(
            f"the stream ends at position {end}, and was read up to {next_position}: it was "
            "deleted and declared again, or it is another stream; give another --state to read it "
            "from its beginning",
            permanent=True,
        )
