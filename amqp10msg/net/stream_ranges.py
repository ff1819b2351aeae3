"""Reads ranges of offsets in RabbitMQ's streams, and the bounds of streams, over AMQP 1.0.

The broker sends the messages settled, since reading does not remove them from a stream. A range is
read to its end, or an error states which offsets were not received.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import time
import uuid
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, Self, TypeVar

import attrs

from amqp10msg.brokers import RECEIVED_TIME, STREAM_OFFSET
from amqp10msg.composite import Error
from amqp10msg.delivery import Source, Target
from amqp10msg.delivery.filters import (
    Filter,
    FilterSet,
    MatchUnfiltered,
    SqlFilter,
    StreamFilter,
    StreamOffset,
)
from amqp10msg.message import Message
from amqp10msg.net import transport
from amqp10msg.net.ends.amqp10 import (
    Amqp10Connection,
    SessionLink,
    filters_in_place,
    open_connection,
)
from amqp10msg.net.ends.links import open_first_reachable
from amqp10msg.net.ends.terms import LinkError, OnLost, Request
from amqp10msg.net.ends.urls import Endpoint, queue_address
from amqp10msg.net.ends.wire import fail_future
from amqp10msg.net.transport import SenderSettleMode
from amqp10msg.sections.parts import scan
from amqp10msg.wire.errors import AmqpError
from amqp10msg.wire.primitives import Described, Symbol, Timestamp

_T = TypeVar("_T")
#: Default of the maximum number of messages in flight.
_DEFAULT_WINDOW = 4_000
#: Credit of one drain, in messages, when `Streams.bounds` looks for the end of a stream.
_END_SEARCH_CREDIT = 1_000
#: The end of a stream is found after this many consecutive drains with less than
#: `_END_SEARCH_CREDIT` messages.
_SHORT_DRAINS_AT_END = 2
#: First and maximum backoff before another attempt to connect, in seconds.
_FIRST_BACKOFF, _MAX_BACKOFF = 0.2, 5.0
#: Size of an encoded integer after its format code, in bytes, by format code (Part 1, 1.6).
_INTEGER_SIZE_BY_CODE = {
    0x80: 8,
    0x81: 8,
    0x53: 1,
    0x55: 1,
    0x44: 0,
    0x70: 4,
    0x71: 4,
    0x52: 1,
    0x54: 1,
    0x43: 0,
}


@attrs.frozen
class StreamRange:
    """The range of offsets from `start` (included) to `stop` (excluded) in a stream."""

    stream: str
    start: int
    stop: int


@attrs.frozen
class Bounds:
    """The first and the next offset of a stream; both are equal for an empty stream.

    Attributes:
        first: the offset of the first message.
        next: the offset that the next new message will get.
    """

    first: int
    next: int


class LateRangeError(TimeoutError):
    """Messages of a range were not received in time."""


class LostRangeError(ValueError):
    """The stream's retention policy has removed messages of a range."""


@attrs.frozen
class RangeFilters:
    """Filters that the broker applies to a stream.

    Attributes:
        values: filter values: a message passes if it has one of these values; empty for all
            messages.
        unfiltered: whether messages without a filter value pass, too.
        sql: an SQL filter expression, for RabbitMQ 4.2 or later; None for all messages.
    """

    values: tuple[str, ...] = ()
    unfiltered: bool = False
    sql: str | None = None

    def __bool__(self) -> bool:
        return bool(self.values) or self.sql is not None

    @functools.cached_property
    def _filter_set(self) -> FilterSet:
        filters: dict[str, Filter] = {}
        if self.values:
            filters[StreamFilter.SYMBOL] = StreamFilter(self.values)
            if self.unfiltered:
                filters[MatchUnfiltered.SYMBOL] = MatchUnfiltered()
        if self.sql is not None:
            filters["sql-filter"] = SqlFilter(self.sql)  # the key that RabbitMQ requires
        return FilterSet(filters)

    def described(self) -> dict[Any, Described]:
        """Return the filters as a map for the filter field of a source (Part 3, 3.5.3)."""
        return {
            Symbol(name): item.to_described()
            for name, item in self._filter_set.items()
            if item is not None
        }

    def admit(self, octets: bytes) -> bool:
        """Whether a message passes the filters.

        The broker also sends messages that do not pass: it matches `values` for whole chunks, and
        RabbitMQ before 4.2 ignores `sql`. A malformed message passes, so that its row can report
        the error.
        """
        try:
            message = Message.decode(octets, strict=False)
        except AmqpError:
            return True
        try:
            return self._filter_set.matches(message)
        except ValueError:
            return not self.sql


@attrs.define(eq=False, repr=False)
class Cursor:
    """A receiving link that reads a stream.

    Attributes:
        stream: the name of the stream.
        filters: the filter map of the source.
        receive: called with each received message.
        on_drained: called when a drain is complete: the broker has no more messages, or the credit
            is used up.
        link: the transport's link; None until `Streams.read_from` is called.
        attached: whether the broker has attached the link.
    """

    stream: str
    filters: Mapping[Any, Described]
    receive: Callable[[bytes], None]
    on_drained: Callable[[], None]
    link: Any = None
    attached: bool = False


class Streams(SessionLink):
    """Reads several of RabbitMQ's streams at the same time, in one session.

    Requests raise `LinkError` if the connection has ended, or the stream does not exist.
    """

    def __init__(self, request: Request, connection: Amqp10Connection) -> None:
        super().__init__(request, connection)
        self._cursors: dict[Any, Cursor] = {}
        self._waiting: set[asyncio.Future[Any]] = set()

    @property
    def in_use(self) -> bool:
        """Whether all requested links are attached."""
        return all(cursor.attached for cursor in self._cursors.values())

    def address_of(self, stream: str) -> str:
        """Return the address of the source for a stream."""
        return queue_address(stream, "1" if self.peer_product.startswith("RabbitMQ 3.") else "2")

    @staticmethod
    def from_offset(start: str | int) -> dict[Any, Described]:
        """Return the source filter that starts reading at a position.

        The position is an offset, ``first``, ``last`` (the last chunk), or a Timestamp.
        """
        return {StreamOffset.SYMBOL: StreamOffset(start).to_described()}

    @staticmethod
    def offset_of(octets: bytes, expected: int | None = None) -> int:
        """Return the offset of an encoded message; see the function `offset_of`."""
        return offset_of(octets, expected)

    def starts_at_offset(self, accepted: Mapping[Any, Any]) -> bool:
        """Whether the broker accepted the filter of `from_offset`."""
        return StreamOffset.SYMBOL in accepted

    def read_from(self, cursor: Cursor, credit: int, *, drain: bool = False) -> None:
        """Attach the link of a cursor, and grant it `credit`; for `drain`, see `grant`."""
        source = Source(address=self.address_of(cursor.stream))
        source.filter = dict(cursor.filters)
        link = cursor.link = self.session.link(f"range-{uuid.uuid4()}", sends=False)
        self._cursors[link] = cursor
        # Reading does not remove messages from a stream, so no outcome is needed.
        link.snd_settle_mode = SenderSettleMode.SETTLED
        # RabbitMQ 4.0 exceeds the credit if it starts in the middle of a chunk.
        link.excess = 1
        link.attach(source=source, target=Target())
        self.grant(cursor, credit, drain=drain)

    def grant(self, cursor: Cursor, credit: int, *, drain: bool = False) -> None:
        """Grant a cursor more credit.

        With `drain`, the broker sends the messages that are available now, and then drops the
        remaining credit (Part 2, 2.6.7).
        """
        link = cursor.link
        link.credit += credit
        link.drain = drain
        self.session.write_flow(link)
        self.touch()

    def detach(self, cursor: Cursor) -> None:
        """Detach the link of a cursor."""
        if self._cursors.pop(cursor.link, None) is not None and self.alive:
            cursor.link.detach()
            self.touch()

    def on_attach(self, link: transport.Link) -> None:
        """Check that the broker starts at the requested offset."""
        cursor = self._cursors.get(link)
        if cursor is None or link.remote is None:
            return
        source: Any = link.remote.source
        if source is None:
            return  # the broker refuses the link: a detach follows (Part 2, 2.6.3)
        cursor.attached = True
        if not self.can_read_streams():
            return
        accepted = filters_in_place(source)
        # `RangeFilters.admit` applies the other filters, even if the broker does not accept them.
        if not self.starts_at_offset(accepted):
            text = f"{cursor.stream} is not a stream: {self.peer_product.strip()} does not start "
            text += "reading at an offset"
            self.fail(LinkError(text, sent_by_peer=True, permanent=True))

    def on_detach(self, link: transport.Link, error: Error | None, **_: bool) -> None:
        """End the connection: the broker detached a link."""
        if link in self._cursors:
            self._end("link", error)

    def on_transfers(self, link: transport.Link, deliveries: list[transport.LinkDelivery]) -> None:
        """Pass received messages to their cursor."""
        self._connection.count_frames(len(deliveries))
        for delivery in deliveries:
            cursor = self._cursors.get(link)
            if cursor is not None and delivery.payload is not None:
                cursor.receive(delivery.payload)

    def on_flow(self, link: transport.Link) -> None:
        """Call `Cursor.on_drained` when a drain is complete: no credit is left (Part 2, 2.6.7)."""
        cursor = self._cursors.get(link)
        if cursor is not None and link.drain and link.credit <= 0:
            cursor.on_drained()

    def fail_waiters(self, error: LinkError) -> None:
        """Raise `error` in all calls that wait in `until`."""
        for waiter in self._waiting:
            fail_future(waiter, error)

    # Requests.

    async def until(self, future: asyncio.Future[Any]) -> None:
        """Wait for `future`.

        Raises:
            LinkError: the connection has ended.
        """
        if not self.alive:
            raise LinkError("the connection ended")
        self._waiting.add(future)
        try:
            await future
        finally:
            self._waiting.discard(future)

    async def first(self, stream: str) -> int | None:
        """Return the offset of the first message; None for an empty stream."""
        offsets = await self._drain(stream, "first", 1)
        return offsets[0] if offsets else None

    async def bounds(self, stream: str) -> Bounds:
        """Return the first and the next offset of a stream."""
        end: int | None = None
        rounds = 0
        # RabbitMQ 4.0 may end a drain before the last message, so one drain is not enough.
        while rounds < _SHORT_DRAINS_AT_END:
            offsets = await self._drain(stream, "last" if end is None else end, _END_SEARCH_CREDIT)
            rounds = rounds + 1 if len(offsets) < _END_SEARCH_CREDIT else 0
            end = offsets[-1] + 1 if offsets else end
        first = await self.first(stream)
        if end is None or first is None:
            return Bounds(0, 0)
        return Bounds(first, end)

    async def at_time(self, stream: str, time: int) -> int:
        """Return the offset of the first message that the broker got at `time` or later.

        The broker starts reading at the first chunk that it stored at `time`, rounded down to
        seconds, or later. Messages before `time` are skipped if they have the annotation
        `RECEIVED_TIME`.

        Args:
            stream: the name of the stream.
            time: in ms since the Unix epoch.

        Returns:
            The offset; if all messages are older, the offset of the next new message.
        """
        # Query the bounds first: a message that arrives during the search must not be skipped.
        end = (await self.bounds(stream)).next
        start: int = Timestamp(time)
        credit, rounds = 1, 0
        first: list[int] = []

        def visit(offset: int, octets: bytes) -> None:
            received = received_time(octets)
            if not first and (received is None or received >= time):
                first.append(offset)

        while rounds < _SHORT_DRAINS_AT_END:
            offsets = await self._drain(stream, start, credit, visit)
            if first:
                return first[0]
            if offsets:
                start = offsets[-1] + 1
            rounds = rounds + 1 if len(offsets) < credit else 0
            credit = _END_SEARCH_CREDIT
        return max(end, 0 if isinstance(start, Timestamp) else start)

    async def _drain(
        self,
        stream: str,
        start: str | int,
        credit: int,
        visit: Callable[[int, bytes], None] | None = None,
    ) -> list[int]:
        """Drain a stream from `start`; return the offsets of the messages, about `credit` at most.

        RabbitMQ 4.0 may send more messages than `credit`. `visit` is called with the offset and the
        bytes of each message.
        """
        drained: asyncio.Future[None] = self._connection.loop.create_future()
        offsets: list[int] = []

        def receive(octets: bytes) -> None:
            if not drained.done():
                offsets.append(offset_of(octets, offsets[-1] + 1 if offsets else None))
                if visit is not None:
                    visit(offsets[-1], octets)

        def on_drained() -> None:
            if not drained.done():
                drained.set_result(None)

        cursor = Cursor(stream, self.from_offset(start), receive, on_drained)
        self.read_from(cursor, credit, drain=True)
        try:
            await self.until(drained)
        finally:
            self.detach(cursor)
        return offsets


def offset_of(octets: bytes, expected: int | None = None, annotation: str = STREAM_OFFSET) -> int:
    """Return the offset in a message's annotation, which the broker adds.

    Args:
        octets: the encoded message.
        expected: the probable offset, which is found on a fast path without decoding.
        annotation: the name of the annotation with the offset.

    Raises:
        LinkError: the message has no offset.
    """
    key = _encoded_symbol(annotation)
    start = octets.find(key) + len(key)
    if start >= len(key) and start < len(octets):
        size = _INTEGER_SIZE_BY_CODE.get(octets[start], -1)
        value = int.from_bytes(octets[start + 1 : start + 1 + size], "big") if size >= 0 else -1
        # Trust only the expected value, since the bytes of `key` may be from another part of the
        # message, which the publisher wrote.
        if value == expected and value >= 0:
            return value
    annotated: Any = None
    with contextlib.suppress(AmqpError, AttributeError):
        annotations: Any = scan(octets).section("message_annotations")
        annotated = annotations.get(annotation)
    if not isinstance(annotated, int) or annotated < 0:
        raise LinkError(
            "a message has no offset: the source is not a stream",
            sent_by_peer=True,
            permanent=True,
        )
    return int(annotated)


@functools.cache
def _encoded_symbol(annotation: str) -> bytes:
    """Return the name of an annotation, of at most 255 bytes, as an encoded sym8 (Part 1, 1.6)."""
    return b"\xa3%c%b" % (len(annotation), annotation.encode("ascii"))


def received_time(octets: bytes, annotation: str = RECEIVED_TIME) -> int | None:
    """Return when the broker received a message, in ms since the Unix epoch; None if unknown.

    RabbitMQ adds the annotation `RECEIVED_TIME` only if its setting
    ``message_interceptors.incoming.set_header_timestamp.overwrite`` is configured.
    """
    if octets.find(_encoded_symbol(annotation)) < 0:
        return None
    with contextlib.suppress(AmqpError, AttributeError):
        annotations: Any = scan(octets).section("message_annotations")
        time = annotations.get(annotation)
        return int(time) if isinstance(time, int) else None
    return None


#: A class such as `Streams`, or a function that returns an instance for a request and a connection.
MakeStreams = Callable[[Request, Amqp10Connection], Streams]


async def _open_streams(endpoint: Endpoint, on_lost: OnLost, make: MakeStreams) -> Streams:
    """Connect to the endpoint's first host that can be reached, and return its `Streams`."""

    async def open_(request: Request) -> Any:
        return make(request, await open_connection(request.endpoint))

    request = Request(endpoint=endpoint, on_lost=on_lost)
    streams: Streams = await open_first_reachable(open_, request)
    return streams


class Probe:
    """Base class: queries the bounds of streams over connections that stay open between queries.

    A query is retried until it succeeds or `timeout` seconds have passed, for example while the
    broker restarts. Queries raise `LinkError` if the broker cannot be reached, does not answer in
    time, refuses the query, or the stream does not exist.

    Args:
        endpoint: the broker.
        timeout: seconds for each query, including its retries.
    """

    def __init__(self, endpoint: Endpoint, timeout: float = 60.0) -> None:
        self._endpoint = endpoint
        self._timeout = timeout

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        raise NotImplementedError

    def _drop(self) -> None:
        """Close the connections immediately, after an error."""
        raise NotImplementedError

    def _retry(self, query: Callable[[float], _T]) -> _T:
        """Call `query` with a deadline, and again after errors until the timeout.

        Returns the result of `query`.
        """
        try:
            return retry_until(self._endpoint, self._timeout, query, self._drop, "no response")
        except TimeoutError as late:
            text = f"{self._endpoint}: not reached within {self._timeout:g} s ({late})"
            raise LinkError(text) from None


def retry_until(
    endpoint: Endpoint,
    seconds: float,
    attempt: Callable[[float], _T],
    drop: Callable[[], None],
    reason: str,
) -> _T:
    """Call `attempt` until it succeeds, with a backoff between calls; return its result.

    A call fails by raising LinkError or TimeoutError.

    Args:
        endpoint: the broker, for error messages.
        seconds: how long to retry.
        attempt: called with the deadline, a time of `time.monotonic`.
        drop: closes the connections; called after each failed attempt.
        reason: the message of the TimeoutError if no attempt raised a LinkError.

    Raises:
        TimeoutError: no attempt succeeded in time; the message is that of the last LinkError.
        LinkError: the error is permanent, so that a retry cannot succeed.
    """
    until, backoff = time.monotonic() + seconds, 0.0
    while True:
        try:
            return attempt(until)
        except (LinkError, TimeoutError) as error:
            drop()
            if isinstance(error, LinkError):
                reason = str(error)
                if error.permanent:
                    raise LinkError(f"{endpoint}: {reason}", permanent=True) from None
            if time.monotonic() + backoff > until:
                raise TimeoutError(reason) from None
        # The first retry is immediate: the broker may have closed an idle connection.
        time.sleep(backoff)
        backoff = min(2 * backoff, _MAX_BACKOFF) or _FIRST_BACKOFF


class StreamProbe(Probe):
    """Queries streams over one AMQP 1.0 connection.

    Args:
        endpoint: the broker.
        timeout: seconds for each query, including its retries.
        make: creates the `Streams` on the connection.
    """

    def __init__(
        self, endpoint: Endpoint, timeout: float = 60.0, make: MakeStreams = Streams
    ) -> None:
        super().__init__(endpoint, timeout)
        self._make = make
        self._runner = asyncio.Runner()
        self._streams: Streams | None = None

    def bounds(self, names: Sequence[str]) -> dict[str, Bounds]:
        """Return the bounds of each stream, by name."""

        async def query(streams: Streams) -> dict[str, Bounds]:
            return {name: await streams.bounds(name) for name in names}

        return self.query(query)

    def offsets_at(self, names: Sequence[str], time: int) -> dict[str, int]:
        """Return the result of `Streams.at_time` for each stream, by name."""

        async def query(streams: Streams) -> dict[str, int]:
            return {name: await streams.at_time(name, time) for name in names}

        return self.query(query)

    def query(self, query: Callable[[Any], Awaitable[_T]]) -> _T:
        """Return the result of `query(streams)`, which is called again if the connection ends."""
        return self._retry(lambda until: self._runner.run(self._query(query, until)))

    def partitions(self, super_stream: str) -> list[str]:
        """Return the names of a super stream's partitions: its own name and a number from 0."""
        names: list[str] = []
        while True:
            name = f"{super_stream}-{len(names)}"
            try:
                self.bounds([name])
            except LinkError as error:
                if not names or "not-found" not in str(error):
                    raise
                return names
            names.append(name)

    async def _query(self, query: Callable[[Any], Awaitable[_T]], until: float) -> _T:
        """Call `query` with the `Streams`; connect first if there is no connection."""
        async with asyncio.timeout(until - time.monotonic()):
            if self._streams is None or not self._streams.alive:
                self._streams = await _open_streams(self._endpoint, lambda _: None, self._make)
            return await query(self._streams)

    def _drop(self) -> None:
        if self._streams is not None:
            self._streams.abort()
            self._streams = None

    def close(self) -> None:
        """Close the connection."""

        async def end() -> None:
            if self._streams is not None:
                await self._streams.close(1.0)

        self._runner.run(end())
        self._runner.close()


@attrs.define
class StreamRows:
    """Messages of a stream, in order: their offsets, and the encoded messages."""

    offsets: list[int] = attrs.field(factory=list, repr=False)
    octets: list[bytes] = attrs.field(factory=list, repr=False)


@attrs.frozen
class Reading:
    """Settings for reading a range.

    Attributes:
        filters: the filters that the broker applies.
        timeout: reading fails after this many seconds without a message.
        rows: approximate number of messages in a batch.
        size: approximate size of a batch, in bytes.
        window: maximum number of messages in flight, for AMQP 1.0.
        make: creates the `Streams` on a connection, for AMQP 1.0.
    """

    filters: RangeFilters = RangeFilters()
    timeout: float = 60.0
    rows: int = 8_192
    size: int = 16 << 20
    window: int = _DEFAULT_WINDOW
    make: MakeStreams = Streams


def read_range(
    endpoint: Endpoint, part: StreamRange, reading: Reading = Reading()
) -> Iterator[StreamRows | tuple[int, int]]:
    """Read all messages in a range of a stream over AMQP 1.0; reconnect if a connection is lost.

    Yields:
        Batches of messages; or, for messages that retention has removed, a pair of the first offset
        and the number of offsets.

    Raises:
        LateRangeError: messages were not received in time.
        LinkError: the broker refused to read the stream.
    """
    with asyncio.Runner() as runner:
        reader = _RangeReader(endpoint, part, reading)
        try:
            while (rows := runner.run(reader.next_rows())) is not None:
                yield rows
        finally:
            runner.run(reader.close())


class RangeReader:
    """Base class of the two readers of a range: holds the range and the progress."""

    def __init__(self, endpoint: Endpoint, part: StreamRange, reading: Reading) -> None:
        self._endpoint = endpoint
        self._part = part
        self._reading = reading
        self._next = part.start  # the first offset that was not read
        self._count = 0  # messages received
        self._in_flight = 0  # the remaining credit: messages over AMQP 1.0, chunks otherwise
        self._done = part.start >= part.stop  # whether the range was received to its end
        # Offsets that retention removed: pairs of the first offset and the number of offsets.
        self._removed: list[tuple[int, int]] = []

    def _late_error(self, reason: str, count: int) -> LateRangeError:
        """Return the error for a range of which only `count` messages were received in time."""
        part = self._part
        return LateRangeError(
            f"{self._endpoint}: offsets {self._next} to {part.stop - 1} of the stream "
            f"{part.stream} were not received within {self._reading.timeout:g} s ({reason}); "
            f"{count} messages of the {part.stop - part.start} offsets from {part.start} were"
        )


class _RangeReader(RangeReader):
    """Reads a range over AMQP 1.0."""

    def __init__(self, endpoint: Endpoint, part: StreamRange, reading: Reading) -> None:
        super().__init__(endpoint, part, reading)
        self._rows = StreamRows()
        self._size = 0
        self._progress = 0  # increases with each message, and with filters also with each drain
        self._cursor_count = 0  # messages received by the current cursor
        # Ranges of skipped offsets for `_check_gaps`: start, and stop (excluded). With filters, one
        # empty range is added at the end of the read.
        self._gaps: list[tuple[int, int]] = []
        self._streams: Streams | None = None
        self._cursor: Any = None
        self._error: LinkError | None = None
        self._awake: asyncio.Future[None] | None = None

    async def next_rows(self) -> StreamRows | tuple[int, int] | None:
        """Return the next messages, or a pair as in `read_range`; None at the end of the range."""
        while not (self._done and not self._gaps) and not self._is_batch_ready:
            await self._wait_for_progress()
        if self._removed:
            return self._removed.pop(0)
        if not self._rows.octets:
            return None
        rows, self._rows, self._size = self._rows, StreamRows(), 0
        return rows

    @property
    def _is_batch_ready(self) -> bool:
        """Whether enough messages were received for a batch, or offsets were removed."""
        reading = self._reading
        return bool(self._removed) or (
            len(self._rows.octets) >= reading.rows or self._size >= reading.size
        )

    async def _wait_for_progress(self) -> None:
        """Wait for a batch, the check of a gap, or the end of the range; connect if needed.

        Returns after the timeout, too, if some messages were received.
        """
        backoff, reason, initial_progress = (
            _FIRST_BACKOFF,
            "no message was received",
            self._progress,
        )
        try:
            async with asyncio.timeout(self._reading.timeout):
                while True:
                    try:
                        await self._wait_once()
                        return
                    except LinkError as error:
                        self._drop()
                        cause = error if self._error is None else self._error
                        if cause.permanent:
                            raise LinkError(f"{self._endpoint}: {cause}", permanent=True) from None
                        reason = str(cause)
                    await asyncio.sleep(backoff)
                    backoff = min(2 * backoff, _MAX_BACKOFF)
        except TimeoutError:
            if self._progress != initial_progress:
                return  # some messages were received, but not a full batch
            raise self._late_error(reason, self._count) from None

    async def _wait_once(self) -> None:
        """Connect if needed; then check the gaps, or wait until `_wake` is called."""
        if self._streams is None:
            await self._connect()
        streams = self._streams
        if self._gaps:
            await self._check_gaps()
        elif streams is not None and not (self._done or self._is_batch_ready):
            self._awake = asyncio.get_running_loop().create_future()
            await streams.until(self._awake)

    async def _connect(self) -> None:
        """Connect, and start reading the unread part of the range."""
        self._error = None

        def on_lost(error: LinkError) -> None:
            self._error = error

        streams = self._streams = await _open_streams(self._endpoint, on_lost, self._reading.make)
        if self._reading.filters:
            # With filters, a drain without messages ends the range. First wait until the node
            # has the last message of the range: a node that lags behind would end it early.
            await self._wait_for_last_message(streams)
        self._start_cursor()

    def _start_cursor(self) -> None:
        """Start reading the unread part of the range with a new cursor."""
        part, reading, streams = self._part, self._reading, self._streams
        if streams is None:
            return
        filters = {**streams.from_offset(self._next), **reading.filters.described()}
        self._cursor = Cursor(part.stream, filters, self._receive, self._on_drained)
        self._cursor_count = 0
        self._in_flight = min(reading.window, part.stop - self._next)
        # With filters, drain the link: a drain without messages marks the end of the range.
        streams.read_from(self._cursor, self._in_flight, drain=bool(reading.filters))

    async def _wait_for_last_message(self, streams: Streams) -> None:
        """Wait until the connected node has the last message of the range."""
        part = self._part
        arrived: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def receive(_: bytes) -> None:
            if not arrived.done():
                arrived.set_result(None)

        cursor = Cursor(part.stream, streams.from_offset(part.stop - 1), receive, lambda: None)
        streams.read_from(cursor, 1)
        await streams.until(arrived)
        streams.detach(cursor)

    def _receive(self, octets: bytes) -> None:
        """Process a received message: add it to the batch, and record skipped offsets."""
        streams = self._streams
        if streams is None:
            return
        self._in_flight -= 1
        self._progress += 1
        self._cursor_count += 1
        try:
            offset = streams.offset_of(octets, self._next)
        except LinkError as error:
            streams.fail(error)
            return
        part, filtered = self._part, bool(self._reading.filters)
        if offset >= self._next and not self._done:
            if offset > self._next and not filtered:
                self._gaps.append((self._next, min(offset, part.stop)))
            if offset >= part.stop:
                self._done = True
            else:
                self._next = offset + 1
                if not filtered or self._reading.filters.admit(octets):
                    self._count += 1
                    self._rows.offsets.append(offset)
                    self._rows.octets.append(octets)
                    self._size += len(octets)
                self._done = self._next >= part.stop
            if self._done and filtered:
                self._gaps.append((part.start, part.start))
        if self._done or self._is_batch_ready or self._gaps:
            self._wake()
        window = self._reading.window
        if not (filtered or self._done) and 2 * self._in_flight <= window:
            credit = min(window, part.stop - self._next) - self._in_flight
            if credit > 0:
                self._in_flight += credit
                streams.grant(self._cursor, credit)

    def _on_drained(self) -> None:
        """After a drain with filters, start another if messages arrived; else end the range."""
        streams = self._streams
        if not self._reading.filters or self._done or streams is None:
            return
        self._progress += 1
        streams.detach(self._cursor)
        if self._cursor_count:
            # Use a new link: messages still in flight on the old link would be counted for the
            # next drain.
            self._start_cursor()
            return
        self._done = True
        self._gaps.append((self._part.start, self._part.start))
        self._wake()

    def _wake(self) -> None:
        """Wake `_wait_once`."""
        if self._awake is not None and not self._awake.done():
            self._awake.set_result(None)

    async def _check_gaps(self) -> None:
        """Record the skipped offsets that retention has removed in `_removed`.

        The other skipped offsets belong to the broker's tracking data.
        """
        streams, part = self._streams, self._part
        gaps, self._gaps = self._gaps, []
        try:
            first = None if streams is None else await streams.first(part.stream)
        except BaseException:
            self._gaps = gaps + self._gaps
            raise
        if self._reading.filters:
            # Report all offsets before `first` as removed: retention may have removed them
            # before they were read.
            if first is None or first > part.start:
                count = (part.stop if first is None else min(first, part.stop)) - part.start
                self._removed.append((part.start, count))
            return
        for start, stop in gaps:
            if first is None or first > start:
                self._removed.append((start, stop - start))

    def _drop(self) -> None:
        """Close the connection immediately, after an error."""
        streams, self._streams = self._streams, None
        self._awake = None
        if streams is not None:
            streams.abort()

    async def close(self) -> None:
        """Close the connection."""
        streams, self._streams = self._streams, None
        if streams is not None:
            await streams.close(1.0)
