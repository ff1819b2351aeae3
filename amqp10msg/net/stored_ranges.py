"""Ranges of RabbitMQ's streams by its stream protocol: whole chunks, as they are stored.

What `stream_ranges` does over AMQP 1.0, message by message, is done here by the chunk. Messages
have the bytes that were stored: the broker adds no annotations, such as ``x-stream-offset``.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import pyarrow as pa

from amqp10msg.net.bridge.links import connect_first_reachable
from amqp10msg.net.bridge.terms import LinkError
from amqp10msg.net.bridge.urls import Endpoint
from amqp10msg.net.stream_chunks import Chunk, ChunkError, RowsOfChunks, StoredRows, parse_chunk
from amqp10msg.net.stream_protocol import Delivery, ElsewhereError, StreamConnection
from amqp10msg.net.stream_ranges import (
    Bounds,
    Probe,
    RangeReader,
    Reading,
    StreamRange,
    patiently,
)

_T = TypeVar("_T")
#: The subscriptions of a connection: of a range, and of a question.
_RANGE, _QUESTION = 0, 1
#: Chunks that may come at first: their size is not known, and the broker sends nothing later on
#: until it has more than half of that. At most; bytes of those that may be on their way.
_CREDIT, _MOST_CREDIT, _WINDOW = 1, 512, 4 << 20
#: Times that the end of a stream is asked for before its last chunk counts as not there.
_LOOKS, _LOOK = 40, 0.05
#: The first version that has numbers of a stream.
_STATS = (3, 11)
_AS_USUAL = Reading()


class _Nodes:
    """The connections to the nodes of a cluster, made as they are needed."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._first: StreamConnection | None = None
        self._others: dict[tuple[str, int], StreamConnection] = {}

    def any(self) -> StreamConnection:
        """Return the connection to the first place that is reached."""
        if self._first is None:
            self._first = connect_first_reachable(self._endpoint, StreamConnection)
        return self._first

    def with_replica(self, stream: str, ask: Callable[[StreamConnection], _T]) -> _T:
        """Return the answer of a node that has a replica of a stream."""
        try:
            return ask(self.any())
        except ElsewhereError as error:
            why = str(error)
        for place in self.any().places(stream):
            here = place.host, place.port
            try:
                if here not in self._others:
                    self._others[here] = StreamConnection(place)
                return ask(self._others[here])
            except LinkError as error:
                gone = self._others.pop(here, None)
                if gone is not None:
                    gone.abort()
                why = f"{why}; at {place.host}:{place.port}, as the broker names it: {error}"
        raise LinkError(why, said=True)

    def close(self, *, politely: bool = True) -> None:
        first, self._first = self._first, None
        others, self._others = self._others, {}
        for one in ([] if first is None else [first]) + list(others.values()):
            one.close() if politely else one.abort()


def _chunk_at(connection: StreamConnection, stream: str, start: int | str) -> Chunk | None:
    """Return the chunk at a place of a stream; None where there is none yet.

    The broker sends what there is of a subscription before it answers what comes after that.
    """
    connection.subscribe(_QUESTION, stream, start, 1)
    connection.unsubscribe(_QUESTION)
    found = None
    while (delivery := connection.delivered(_QUESTION)) is not None:
        found = _parsed(delivery.octets)
    return found


def _parsed(octets: memoryview) -> Chunk:
    try:
        return parse_chunk(octets)
    except ChunkError as error:
        raise LinkError(str(error), permanent=error.permanent) from None


def _first_stored(connection: StreamConnection, stream: str) -> int | None:
    """Return the first offset that retention left; None where nothing is stored."""
    numbers = [int(one) for one in connection.version.split(".")[:2] if one.isdigit()]
    if tuple(numbers) >= _STATS:
        first = connection.stats(stream).get("first_chunk_id", -1)
        return None if first < 0 else first
    chunk = _chunk_at(connection, stream, "first")
    return None if chunk is None else chunk.first


def _bounds(connection: StreamConnection, stream: str) -> Bounds:
    first = _first_stored(connection, stream)
    if first is None:
        return Bounds(0, 0)
    for _ in range(_LOOKS):
        last = _chunk_at(connection, stream, "last")
        if last is not None:
            return Bounds(min(first, last.stop), last.stop)
        if _chunk_at(connection, stream, "first") is None:
            return Bounds(0, 0)  # nothing but notes of the broker
        time.sleep(_LOOK)  # the last chunk is not on enough nodes yet
    raise LinkError(f"the stream {stream!r} does not show its last chunk")


class StoredProbe(Probe):
    """Asks by the stream protocol, each node for what it has."""

    def __init__(self, endpoint: Endpoint, timeout: float = 60.0) -> None:
        super().__init__(endpoint, timeout)
        self._nodes = _Nodes(endpoint)

    def bounds(self, names: Sequence[str]) -> dict[str, Bounds]:
        """Return where each of these streams begins and ends."""

        def ask(nodes: _Nodes) -> dict[str, Bounds]:
            return {
                name: nodes.with_replica(name, functools.partial(_bounds, stream=name))
                for name in names
            }

        return self._asked(ask)

    def partitions(self, super_stream: str) -> list[str]:
        """Return the streams of a super stream, in its order."""
        return self._asked(lambda nodes: nodes.any().partitions(super_stream))

    def _asked(self, question: Callable[[_Nodes], _T]) -> _T:
        return self._patiently(lambda _: question(self._nodes))

    def _drop(self) -> None:
        self._nodes.close(politely=False)

    def close(self) -> None:
        """Close the connections."""
        self._nodes.close()


def read_stored(
    endpoint: Endpoint, part: StreamRange, reading: Reading = _AS_USUAL
) -> Iterator[StoredRows | tuple[int, int]]:
    """Read a range of a stream to its end; a connection that is cut is made again.

    Yield messages, and for what is gone, where that begins and how many offsets it has. A
    `LateRangeError` is raised where messages did not come in time, a `LinkError` where the broker
    refuses it.
    """
    reader = _StoredReader(endpoint, part, reading)
    try:
        while (found := reader.more()) is not None:
            yield found
    finally:
        reader.close()


class _StoredReader(RangeReader):
    """Reads it by the stream protocol."""

    def __init__(self, endpoint: Endpoint, part: StreamRange, reading: Reading) -> None:
        super().__init__(endpoint, part, reading)
        self._nodes = _Nodes(endpoint)
        self._connection: StreamConnection | None = None
        self._credit = _CREDIT  # chunks at a time, of which `_owed` may still come
        self._rows = RowsOfChunks()
        self._looks_for = reading.filters.values

    @property
    def _full(self) -> bool:
        return len(self._rows) >= self._reading.rows or self._rows.size >= self._reading.size

    def more(self) -> StoredRows | tuple[int, int] | None:
        """Return the next messages, or the next that are lost; None at the end."""
        while True:
            while not (self._done or self._full or self._lost):
                self._go_on()
            if not len(self._rows):
                return self._lost.pop(0) if self._lost else None
            rows = self._passed(self._rows.take())
            self._came += len(rows)
            if len(rows):
                return rows

    def _passed(self, rows: StoredRows) -> StoredRows:
        """Return those rows that the filters admit."""
        filters = self._reading.filters
        if not filters:
            return rows
        wanted = pa.array([filters.admit(one) for one in rows.octets.to_pylist()], pa.bool_())
        return StoredRows(*(one.filter(wanted) for one in (rows.offsets, rows.octets, rows.times)))

    def _go_on(self) -> None:
        """Take in a chunk, with a connection that is made where there is none."""
        seconds = self._reading.timeout
        try:
            patiently(self._endpoint, seconds, self._step, self._drop, "nothing came")
        except TimeoutError as late:
            raise self._late(str(late), self._came + len(self._rows)) from None

    def _step(self, until: float) -> None:
        connection = self._connection
        if connection is None:
            connection = self._nodes.with_replica(
                self._part.stream, functools.partial(self._begin, until=until)
            )
            self._connection = connection
        if self._looks_for:
            self._read_chosen(connection)
            return
        delivery = connection.delivery(until)
        if delivery.subscription != _RANGE:
            return
        self._take_in(connection, delivery)
        if not self._done and 2 * self._owed <= self._credit:
            self._ask_for_more(connection)

    def _take_in(self, connection: StreamConnection, delivery: Delivery) -> None:
        self._owed -= 1
        chunk = _parsed(delivery.octets)
        self._take(connection, chunk)
        # What the broker sends beyond the range costs it as much as the rest.
        left = (self._part.stop - self._next) // max(chunk.count, 1) + 1
        self._credit = max(1, min(left, _WINDOW // len(delivery.octets), _MOST_CREDIT))

    def _ask_for_more(self, connection: StreamConnection) -> None:
        connection.credit(_RANGE, self._credit - self._owed)
        self._owed = self._credit

    def _begin(self, connection: StreamConnection, until: float) -> StreamConnection:
        """Ask for the rest of the range."""
        part, filters = self._part, self._reading.filters
        wanted = {}
        if self._looks_for:
            # What is skipped shows only where the node has all there is: it may be behind.
            connection.subscribe(_QUESTION, part.stream, part.stop - 1, 1)
            while connection.delivery(until).subscription != _QUESTION:
                pass
            connection.unsubscribe(_QUESTION)
            wanted = {f"filter.{n}": value for n, value in enumerate(filters.values)}
            wanted["match-unfiltered"] = str(filters.unfiltered).lower()
        self._owed = self._credit = _CREDIT
        connection.subscribe(_RANGE, part.stream, self._next, self._credit, wanted)
        return connection

    def _read_chosen(self, connection: StreamConnection) -> None:
        """Take in the chunks that may have the filter values.

        The broker sends all that there are, up to the credit, before it answers a question: where
        credit is left then, that was the end.
        """
        first = _first_stored(connection, self._part.stream)
        while not self._done and (delivery := connection.delivered()) is not None:
            if delivery.subscription == _RANGE:
                self._take_in(connection, delivery)
        if not self._done and self._owed == 0:
            self._ask_for_more(connection)
            return
        self._done = True
        # Which of them had been removed when they would have been read, nobody knows.
        start, stop = self._part.start, self._part.stop
        if first is None or first > start:
            self._lost.append((start, (stop if first is None else min(first, stop)) - start))

    def _take(self, connection: StreamConnection, chunk: Chunk) -> None:
        part = self._part
        start, stop = max(self._next, chunk.first), min(part.stop, chunk.stop)
        if start > self._next and not self._looks_for:
            # Streams count what they note for themselves, too: what is not gone was none.
            first = _first_stored(connection, part.stream)
            if first is None or first > self._next:
                self._lost.append((self._next, min(start, part.stop) - self._next))
        if start < stop and chunk.entries is not None:
            try:
                self._rows.add(chunk, start, stop)
            except ChunkError as error:
                raise LinkError(str(error), permanent=error.permanent) from None
        self._next = max(self._next, min(start, part.stop), min(stop, part.stop))
        self._done = self._next >= part.stop

    def _drop(self) -> None:
        self._connection = None
        self._nodes.close(politely=False)

    def close(self) -> None:
        """Close the connections."""
        self._nodes.close()
