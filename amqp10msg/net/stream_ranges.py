"""Ranges of RabbitMQ's streams over AMQP 1.0: where a stream begins and ends, and what is between.

What comes is settled by the broker, as a stream keeps what was read. A range is read to its end, or
an error says how much of it did not come: nothing here silently stops short.
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

from amqp10msg.brokers import STREAM_OFFSET
from amqp10msg.composite import Error, from_described
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
from amqp10msg.net.bridge.amqp10 import Amqp10Connection, SessionLink, connected
from amqp10msg.net.bridge.links import open_first_reachable
from amqp10msg.net.bridge.terms import LinkError, OnLost, Request
from amqp10msg.net.bridge.urls import Endpoint, queue_address
from amqp10msg.net.bridge.wire import refuse
from amqp10msg.net.transport import SenderSettleMode
from amqp10msg.sections.parts import scan
from amqp10msg.wire.errors import AmqpError
from amqp10msg.wire.primitives import Described, Symbol

_T = TypeVar("_T")
#: Messages that may be on their way to this end.
_WINDOW = 4_000
#: Messages of the last chunk of a stream that are asked for at a time.
_LAST = 1_000
#: Times that a stream has to say that there is no more.
_TIMES = 2
#: Seconds before another connection is tried.
_PAUSE = 0.2
_MOST_PAUSE = 5.0
#: The annotation with when RabbitMQ got a message.
RECEIVED = "x-opt-rabbitmq-received-time"
#: How many bytes a number has, by its format code (Part 1, 1.6).
_SIZES = {0x80: 8, 0x81: 8, 0x53: 1, 0x55: 1, 0x44: 0, 0x70: 4, 0x71: 4, 0x52: 1, 0x54: 1, 0x43: 0}


@attrs.frozen
class StreamRange:
    """A part of a stream.

    It goes from the offset `start` to that before `stop`.
    """

    stream: str
    start: int
    stop: int


@attrs.frozen
class Bounds:
    """Where a stream begins and ends; both are equal where it has no messages.

    `next` is the offset after that of the last message.
    """

    first: int
    next: int


class LateRangeError(TimeoutError):
    """Messages of a range did not come in time."""


class LostRangeError(ValueError):
    """Messages of a range are gone: the retention of the stream has removed them."""


@attrs.frozen
class RangeFilters:
    """What the broker looks for in a stream, so that the rest is not sent.

    A message has one of the values, if there are some, or none where `unfiltered`; SQL takes
    RabbitMQ 4.2 or later.
    """

    values: tuple[str, ...] = ()
    unfiltered: bool = False
    sql: str | None = None

    def __bool__(self) -> bool:
        return bool(self.values) or self.sql is not None

    @functools.cached_property
    def _set(self) -> FilterSet:
        made: dict[str, Filter] = {}
        if self.values:
            made[StreamFilter.SYMBOL] = StreamFilter(self.values)
            if self.unfiltered:
                made[MatchUnfiltered.SYMBOL] = MatchUnfiltered()
        if self.sql is not None:
            made["sql-filter"] = SqlFilter(self.sql)  # RabbitMQ's name for it, in a set of them
        return FilterSet(made)

    def described(self) -> dict[Any, Described]:
        """Return them as a source has them."""
        return {
            Symbol(name): one.to_described() for name, one in self._set.items() if one is not None
        }

    def admit(self, octets: bytes) -> bool:
        """Whether a message passes: the broker lets more through.

        It looks for values in whole chunks of messages, and before 4.2 at no expression.
        """
        try:
            message = Message.decode(octets, strict=False)
        except AmqpError:
            return True  # it cannot be looked at, and is a row that says so
        try:
            return self._set.matches(message)
        except ValueError:
            return not self.sql


@attrs.define(eq=False, repr=False)
class Cursor:
    """One reading position in a stream: a link.

    `on_drained` is told that what was asked for with `drain` has come, as far as it is there.
    """

    stream: str
    wanted: Mapping[Any, Described]
    receive: Callable[[bytes], None]
    on_drained: Callable[[], None]
    link: Any = None
    attached: bool = False


class Streams(SessionLink):
    """Streams of RabbitMQ that are read by one session, several at a time.

    What asks raises a `LinkError` where the connection ended, or there is no such stream.
    """

    def __init__(self, request: Request, connection: Amqp10Connection) -> None:
        super().__init__(request, connection)
        self._cursors: dict[Any, Cursor] = {}
        self._waiting: set[asyncio.Future[Any]] = set()

    @property
    def in_use(self) -> bool:
        """Whether all links are attached that were asked for."""
        return all(one.attached for one in self._cursors.values())

    def address_of(self, stream: str) -> str:
        """Return the address that a stream is read from."""
        return queue_address(stream, "1" if self.product.startswith("RabbitMQ 3.") else "2")

    @staticmethod
    def from_offset(start: str | int) -> dict[Any, Described]:
        """Return the filter with which reading begins at an offset, or at ``first`` or ``last``."""
        return {StreamOffset.SYMBOL: StreamOffset(start).to_described()}

    @staticmethod
    def offset_of(octets: bytes, expected: int | None = None) -> int:
        """Return the offset of a message; see `offset_of`."""
        return offset_of(octets, expected)

    def reads_as_asked(self, agreed: Mapping[Any, Any]) -> bool:
        """Whether the broker reads from an offset on, by the filters that it agreed to."""
        return StreamOffset.SYMBOL in agreed

    def read_from(self, cursor: Cursor, credit: int, *, drain: bool = False) -> None:
        """Attach a cursor, and ask for messages."""
        source = Source(address=self.address_of(cursor.stream))
        source.filter = dict(cursor.wanted)
        link = cursor.link = self.session.link(f"range-{uuid.uuid4()}", sends=False)
        self._cursors[link] = cursor
        # A stream keeps what was read: there is nothing to settle.
        link.snd_settle_mode = SenderSettleMode.SETTLED
        # RabbitMQ 4.0 sends more than the credit where a chunk is read from its middle.
        link.excess = 1
        link.attach(source=source, target=Target())
        self.ask(cursor, credit, drain=drain)

    def ask(self, cursor: Cursor, credit: int, *, drain: bool = False) -> None:
        """Ask for more messages; with `drain`, for those that there are."""
        link = cursor.link
        link.credit += credit
        link.drain = drain
        self.session.write_flow(link)
        self.touch()

    def detach(self, cursor: Cursor) -> None:
        """Detach a cursor."""
        if self._cursors.pop(cursor.link, None) is not None and self.alive:
            cursor.link.detach()
            self.touch()

    def on_attach(self, link: transport.Link) -> None:
        """See that the broker reads the stream as it was asked to."""
        cursor = self._cursors.get(link)
        if cursor is None or link.remote is None:
            return
        source: Any = link.remote.source
        if source is None:
            return  # refused: a detach follows (Part 2, 2.6.3)
        cursor.attached = True
        agreed = (from_described(source).filter if isinstance(source, Described) else None) or {}
        # What it does not look for otherwise, this end does.
        if not self.reads_as_asked(agreed):
            text = f"{cursor.stream}: {self.product.strip()} does not read it from an offset on: "
            text += "it is not a stream"
            self.fail(LinkError(text, said=True, permanent=True))

    def on_detach(self, link: transport.Link, error: Error | None, **_: bool) -> None:
        """End: the broker detached a link."""
        if link in self._cursors:
            self._end("link", error)

    def on_transfers(self, link: transport.Link, deliveries: list[transport.LinkDelivery]) -> None:
        """Hand over messages."""
        self._connection.took(len(deliveries))
        for delivery in deliveries:
            cursor = self._cursors.get(link)
            if cursor is not None and delivery.payload is not None:
                cursor.receive(delivery.payload)

    def on_flow(self, link: transport.Link) -> None:
        """Tell a cursor that what there is has come: no credit is left (Part 2, 2.6.7)."""
        cursor = self._cursors.get(link)
        if cursor is not None and link.drain and link.credit <= 0:
            cursor.on_drained()

    def failing(self, lost: LinkError) -> None:
        """Notify those who wait for an answer."""
        for one in self._waiting:
            refuse(one, lost)

    # Questions.

    async def until(self, done: asyncio.Future[Any]) -> None:
        """Wait for an answer."""
        if not self.alive:
            raise LinkError("the connection ended")
        self._waiting.add(done)
        try:
            await done
        finally:
            self._waiting.discard(done)

    async def first(self, stream: str) -> int | None:
        """Return the offset of the first message that is there; None where there is none."""
        found = await self._round(stream, "first", 1)
        return found[0] if found else None

    async def bounds(self, stream: str) -> Bounds:
        """Return where a stream begins and ends."""
        end: int | None = None
        sure = 0
        # RabbitMQ 4.0 sends more than it was asked for, so that one answer proves little.
        while sure < _TIMES:
            found = await self._round(stream, "last" if end is None else end, _LAST)
            sure = sure + 1 if len(found) < _LAST else 0
            end = found[-1] + 1 if found else end
        first = await self.first(stream)
        if end is None or first is None:
            return Bounds(0, 0)
        return Bounds(first, end)

    async def _round(self, stream: str, start: str | int, credit: int) -> list[int]:
        """Return the offsets of the messages that come from a place on, about `credit` at most."""
        done: asyncio.Future[None] = self._connection.loop.create_future()
        found: list[int] = []

        def receive(octets: bytes) -> None:
            if not done.done():
                found.append(offset_of(octets, found[-1] + 1 if found else None))

        def on_drained() -> None:
            if not done.done():
                done.set_result(None)

        cursor = Cursor(stream, self.from_offset(start), receive, on_drained)
        self.read_from(cursor, credit, drain=True)
        try:
            await self.until(done)
        finally:
            self.detach(cursor)
        return found


def offset_of(octets: bytes, expected: int | None = None, annotation: str = STREAM_OFFSET) -> int:
    """Return the offset of a message that a stream delivered.

    Its annotations need not be decoded where it has the offset that is expected.
    """
    key = _key(annotation)
    place = octets.find(key) + len(key)
    if place >= len(key) and place < len(octets):
        code = octets[place]
        size = _SIZES.get(code, -1)
        found = int.from_bytes(octets[place + 1 : place + 1 + size], "big") if size >= 0 else -1
        # Whoever sent the message may have written such bytes elsewhere in it.
        if found == expected and found >= 0:
            return found
    annotated: Any = None
    with contextlib.suppress(AmqpError, AttributeError):
        annotations: Any = scan(octets).section("message_annotations")
        annotated = annotations.get(annotation)
    if not isinstance(annotated, int) or annotated < 0:
        raise LinkError("a message has no offset: this is not a stream", said=True, permanent=True)
    return int(annotated)


@functools.cache
def _key(annotation: str) -> bytes:
    """Return a symbol of fewer than 256 bytes as it is encoded."""
    return b"\xa3%c%b" % (len(annotation), annotation.encode("ascii"))


def received_time(octets: bytes, annotation: str = RECEIVED) -> int | None:
    """Return when the broker got a message, in ms since the Unix epoch, where it says so.

    RabbitMQ does with ``message_interceptors.incoming.set_header_timestamp.overwrite``.
    """
    if octets.find(_key(annotation)) < 0:
        return None
    with contextlib.suppress(AmqpError, AttributeError):
        annotations: Any = scan(octets).section("message_annotations")
        found = annotations.get(annotation)
        return int(found) if isinstance(found, int) else None
    return None


#: Makes what reads streams, on a connection.
Makes = Callable[[Request, Amqp10Connection], Streams]


async def _open(endpoint: Endpoint, on_lost: OnLost, make: Makes) -> Streams:
    async def open_(request: Request) -> Any:
        return make(request, await connected(request.endpoint))

    made: Streams = await open_first_reachable(open_, Request(endpoint=endpoint, on_lost=on_lost))
    return made


class Probe:
    """Asks where streams begin and end, over connections that are kept.

    What asks raises a `LinkError` where the broker is not reached, does not answer in time,
    refuses, or has no such stream.

    An answer has come after `timeout` seconds; until then a broker that is not there, as one that
    is started again, is asked again.
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
        """Close them at once, after a fault."""
        raise NotImplementedError

    def _patiently(self, ask: Callable[[float], _T]) -> _T:
        """Return an answer; the question is put again, until that time, after a fault."""
        try:
            return patiently(self._endpoint, self._timeout, ask, self._drop, "it did not answer")
        except TimeoutError as late:
            text = f"{self._endpoint}: not reached within {self._timeout:g} s ({late})"
            raise LinkError(text) from None


def patiently(
    endpoint: Endpoint,
    seconds: float,
    attempt: Callable[[float], _T],
    drop: Callable[[], None],
    why: str,
) -> _T:
    """Return the result of an attempt; another one is made, after a pause, where a link is lost.

    `attempt` is called with when to give up, as `time.monotonic` has it, `drop` after each fault:
    it closes what there is. A `TimeoutError` says why the last one did not succeed, or `why` where
    none says so; a `LinkError`, that another one is pointless.
    """
    until, pause = time.monotonic() + seconds, 0.0
    while True:
        try:
            return attempt(until)
        except (LinkError, TimeoutError) as error:
            drop()
            if isinstance(error, LinkError):
                why = str(error)
                if error.permanent:
                    raise LinkError(f"{endpoint}: {why}", permanent=True) from None
            if time.monotonic() + pause > until:
                raise TimeoutError(why) from None
        time.sleep(pause)  # at first none: what is kept may be closed long since
        pause = min(2 * pause, _MOST_PAUSE) or _PAUSE


class StreamProbe(Probe):
    """Asks over one connection of AMQP 1.0.

    `make` makes the end of the connection.
    """

    def __init__(self, endpoint: Endpoint, timeout: float = 60.0, make: Makes = Streams) -> None:
        super().__init__(endpoint, timeout)
        self._make = make
        self._runner = asyncio.Runner()
        self._streams: Streams | None = None

    def bounds(self, names: Sequence[str]) -> dict[str, Bounds]:
        """Return where each of these streams begins and ends."""

        async def ask(streams: Streams) -> dict[str, Bounds]:
            return {name: await streams.bounds(name) for name in names}

        return self.ask(ask)

    def ask(self, question: Callable[[Any], Awaitable[_T]]) -> _T:
        """Return the answer to a question, which is put again where the connection ends."""
        return self._patiently(lambda until: self._runner.run(self._asked(question, until)))

    def partitions(self, super_stream: str) -> list[str]:
        """Return the streams of a super stream, whose names end with their numbers from 0 on."""
        found: list[str] = []
        while True:
            name = f"{super_stream}-{len(found)}"
            try:
                self.bounds([name])
            except LinkError as error:
                if not found or "not-found" not in str(error):
                    raise
                return found
            found.append(name)

    async def _asked(self, question: Callable[[Any], Awaitable[_T]], until: float) -> _T:
        async with asyncio.timeout(until - time.monotonic()):
            if self._streams is None or not self._streams.alive:
                self._streams = await _open(self._endpoint, lambda _: None, self._make)
            return await question(self._streams)

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
    """Messages of a stream, in their order."""

    offsets: list[int] = attrs.field(factory=list, repr=False)
    octets: list[bytes] = attrs.field(factory=list, repr=False)


@attrs.frozen
class Reading:
    """How ranges are read.

    A message comes within `timeout` seconds of the last; about `rows` of them, or `size` bytes, are
    handed over together, and `window` may be on their way.
    """

    filters: RangeFilters = RangeFilters()
    timeout: float = 60.0
    rows: int = 8_192
    size: int = 16 << 20
    window: int = _WINDOW
    make: Makes = Streams


def read_range(
    endpoint: Endpoint, part: StreamRange, reading: Reading = Reading()
) -> Iterator[StreamRows | tuple[int, int]]:
    """Read a range of a stream to its end; a connection that is cut is made again.

    Yield messages, and for what is gone, where that begins and how many offsets it has. A
    `LateRangeError` is raised where messages did not come in time, a `LinkError` where the broker
    refuses it.
    """
    with asyncio.Runner() as runner:
        reader = _RangeReader(endpoint, part, reading)
        try:
            while (found := runner.run(reader.more())) is not None:
                yield found
        finally:
            runner.run(reader.close())


class RangeReader:
    """Reads one range: what is known of it so far."""

    def __init__(self, endpoint: Endpoint, part: StreamRange, reading: Reading) -> None:
        self._endpoint = endpoint
        self._part = part
        self._reading = reading
        self._next = part.start
        self._came = 0  # messages of the range so far
        self._owed = 0  # what was asked for and has not come
        self._done = part.start >= part.stop
        self._lost: list[tuple[int, int]] = []

    def _late(self, why: str, came: int) -> LateRangeError:
        """Return the error of a range of which no more comes."""
        part = self._part
        return LateRangeError(
            f"{self._endpoint}: of the stream {part.stream}, offsets {self._next} to "
            f"{part.stop - 1} did not come within {self._reading.timeout:g} s ({why}); "
            f"{came} messages of the {part.stop - part.start} offsets from {part.start} on did"
        )


class _RangeReader(RangeReader):
    """Reads it over AMQP 1.0."""

    def __init__(self, endpoint: Endpoint, part: StreamRange, reading: Reading) -> None:
        super().__init__(endpoint, part, reading)
        self._rows = StreamRows()
        self._size = 0
        self._moves = 0  # anything that the broker sent
        self._round = 0  # messages by this cursor
        self._gaps: list[tuple[int, int]] = []
        self._streams: Streams | None = None
        self._cursor: Any = None
        self._error: LinkError | None = None
        self._awake: asyncio.Future[None] | None = None

    async def more(self) -> StreamRows | tuple[int, int] | None:
        """Return the next messages, or the next that are lost; None at the end."""
        while not (self._done and not self._gaps) and not self._full:
            await self._go_on()
        if self._lost:
            return self._lost.pop(0)
        if not self._rows.octets:
            return None
        rows, self._rows, self._size = self._rows, StreamRows(), 0
        return rows

    @property
    def _full(self) -> bool:
        reading = self._reading
        return bool(self._lost) or (
            len(self._rows.octets) >= reading.rows or self._size >= reading.size
        )

    async def _go_on(self) -> None:
        """Wait until something is to be done, on a connection that is made where there is none."""
        pause, why, before = _PAUSE, "nothing came", self._moves
        try:
            async with asyncio.timeout(self._reading.timeout):
                while True:
                    try:
                        await self._wait()
                        return
                    except LinkError as error:
                        self._drop()
                        lost = error if self._error is None else self._error
                        if lost.permanent:
                            raise LinkError(f"{self._endpoint}: {lost}", permanent=True) from None
                        why = str(lost)
                    await asyncio.sleep(pause)
                    pause = min(2 * pause, _MOST_PAUSE)
        except TimeoutError:
            if self._moves != before:
                return  # much came, though not a whole batch
            raise self._late(why, self._came) from None

    async def _wait(self) -> None:
        if self._streams is None:
            await self._open()
        streams = self._streams
        if self._gaps:
            await self._explain()
        elif streams is not None and not (self._done or self._full):
            self._awake = asyncio.get_running_loop().create_future()
            await streams.until(self._awake)

    async def _open(self) -> None:
        """Connect, and ask for the rest of the range."""
        self._error = None

        def lost(error: LinkError) -> None:
            self._error = error

        streams = self._streams = await _open(self._endpoint, lost, self._reading.make)
        if self._reading.filters:
            # With filters, that all has come shows only where the broker has all there is: another
            # node may be behind.
            await self._await_last(streams)
        self._begin()

    def _begin(self) -> None:
        """Read on, with a cursor of its own."""
        part, reading, streams = self._part, self._reading, self._streams
        if streams is None:
            return
        wanted = {**streams.from_offset(self._next), **reading.filters.described()}
        self._cursor = Cursor(part.stream, wanted, self._receive, self._on_drained)
        self._round = 0
        self._owed = min(reading.window, part.stop - self._next)
        # With filters, all that there is up to the credit: how much of it comes shows the end.
        streams.read_from(self._cursor, self._owed, drain=bool(reading.filters))

    async def _await_last(self, streams: Streams) -> None:
        part = self._part
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def receive(_: bytes) -> None:
            if not done.done():
                done.set_result(None)

        cursor = Cursor(part.stream, streams.from_offset(part.stop - 1), receive, lambda: None)
        streams.read_from(cursor, 1)
        await streams.until(done)
        streams.detach(cursor)

    def _receive(self, octets: bytes) -> None:
        streams = self._streams
        if streams is None:
            return
        self._owed -= 1
        self._moves += 1
        self._round += 1
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
                    self._came += 1
                    self._rows.offsets.append(offset)
                    self._rows.octets.append(octets)
                    self._size += len(octets)
                self._done = self._next >= part.stop
            if self._done and filtered:
                self._gaps.append((part.start, part.start))
        if self._done or self._full or self._gaps:
            self._wake()
        window = self._reading.window
        if not (filtered or self._done) and 2 * self._owed <= window:
            credit = min(window, part.stop - self._next) - self._owed
            if credit > 0:
                self._owed += credit
                streams.ask(self._cursor, credit)

    def _on_drained(self) -> None:
        """With filters: ask again where anything came, and else it was the end."""
        streams = self._streams
        if not self._reading.filters or self._done or streams is None:
            return
        self._moves += 1
        streams.detach(self._cursor)
        if self._round:
            # By another link: what of this one is still on its way would be taken for an answer.
            self._begin()
            return
        self._done = True
        self._gaps.append((self._part.start, self._part.start))
        self._wake()

    def _wake(self) -> None:
        if self._awake is not None and not self._awake.done():
            self._awake.set_result(None)

    async def _explain(self) -> None:
        """See whether offsets that did not come are gone, or never were of messages.

        Streams count what they note for themselves, too. What is there still, is not gone.
        """
        streams, part = self._streams, self._part
        gaps, self._gaps = self._gaps, []
        try:
            first = None if streams is None else await streams.first(part.stream)
        except BaseException:
            self._gaps = gaps + self._gaps
            raise
        if self._reading.filters:
            # Which of them had been removed when they would have been read, nobody knows.
            if first is None or first > part.start:
                gone = (part.stop if first is None else min(first, part.stop)) - part.start
                self._lost.append((part.start, gone))
            return
        for start, stop in gaps:
            if first is None or first > start:
                self._lost.append((start, stop - start))

    def _drop(self) -> None:
        streams, self._streams = self._streams, None
        self._awake = None
        if streams is not None:
            streams.abort()

    async def close(self) -> None:
        """Close the connection."""
        streams, self._streams = self._streams, None
        if streams is not None:
            await streams.close(1.0)
