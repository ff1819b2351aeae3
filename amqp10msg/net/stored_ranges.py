"""Reads ranges of RabbitMQ's streams with the stream protocol, which transfers whole chunks.

The messages have the stored bytes, without annotations of the broker such as ``x-stream-offset``.
`stream_ranges` reads ranges over AMQP 1.0, which transfers single messages.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from time import sleep
from typing import TypeVar

import pyarrow as pa

from amqp10msg.net.ends.links import connect_first_reachable
from amqp10msg.net.ends.stream_chunks import (
    Chunk,
    ChunkError,
    RowsOfChunks,
    StoredRows,
    parse_chunk,
)
from amqp10msg.net.ends.stream_protocol import Delivery, ElsewhereError, StreamConnection
from amqp10msg.net.ends.terms import LinkError
from amqp10msg.net.ends.urls import Endpoint
from amqp10msg.net.stream_ranges import (
    Bounds,
    Probe,
    RangeReader,
    Reading,
    StreamRange,
    retry_until,
)
from amqp10msg.wire.primitives import Timestamp

_T = TypeVar("_T")
#: Subscription numbers on a connection. One subscription reads a range, the other answers a query.
_RANGE, _QUERY = 0, 1
#: The first and the maximum credit, in chunks. The size of the chunks is unknown at first.
_FIRST_CREDIT, _MAX_CREDIT = 1, 512
#: Target for the total size of the chunks in flight, in bytes, which limits the credit.
_WINDOW_BYTES = 4 << 20
#: Maximum number of queries of the last chunk of a stream, and the seconds between two queries.
_LAST_CHUNK_ATTEMPTS, _LAST_CHUNK_INTERVAL = 40, 0.05
#: The first RabbitMQ version that has the stream protocol's command StreamStats.
_STATS_VERSION = (3, 11)
_DEFAULT_READING = Reading()


class _Nodes:
    """Connections to the nodes of a cluster, opened on first use."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._first: StreamConnection | None = None
        self._replicas: dict[tuple[str, int], StreamConnection] = {}

    def any(self) -> StreamConnection:
        """Return a connection to the endpoint's first host that can be reached."""
        if self._first is None:
            self._first = connect_first_reachable(self._endpoint, StreamConnection)
        return self._first

    def with_replica(self, stream: str, query: Callable[[StreamConnection], _T]) -> _T:
        """Call `query` with a connection to a node with a replica of `stream`; return its result.

        Raises:
            LinkError: no node with a replica can be reached, or the query failed.
        """
        try:
            return query(self.any())
        except ElsewhereError as error:
            reason = str(error)
        for replica in self.any().replicas(stream):
            address = replica.host, replica.port
            try:
                if address not in self._replicas:
                    self._replicas[address] = StreamConnection(replica)
                return query(self._replicas[address])
            except LinkError as error:
                failed = self._replicas.pop(address, None)
                if failed is not None:
                    failed.abort()
                name = f"{replica.host}:{replica.port}, as the broker names it"
                reason = f"{reason}; at {name}: {error}"
        raise LinkError(reason, sent_by_peer=True)

    def close(self, *, gracefully: bool = True) -> None:
        """Close all connections, with close requests or immediately."""
        first, self._first = self._first, None
        replicas, self._replicas = self._replicas, {}
        for connection in ([] if first is None else [first]) + list(replicas.values()):
            connection.close() if gracefully else connection.abort()


def _chunk_at(connection: StreamConnection, stream: str, start: int | str) -> Chunk | None:
    """Return the chunk at `start` (see `StreamConnection.subscribe`), or None if there is none.

    The broker sends the chunks of the subscription before its response to the unsubscribe request.
    """
    connection.subscribe(_QUERY, stream, start, 1)
    connection.unsubscribe(_QUERY)
    chunk = None
    while (delivery := connection.buffered_delivery(_QUERY)) is not None:
        chunk = _parse_chunk(delivery.octets)
    return chunk


def _parse_chunk(octets: memoryview) -> Chunk:
    """Parse a chunk; raise LinkError if it is malformed, damaged, or of an unknown type."""
    try:
        return parse_chunk(octets)
    except ChunkError as error:
        raise LinkError(str(error), permanent=error.permanent) from None


def _first_stored_offset(connection: StreamConnection, stream: str) -> int | None:
    """Return the first offset that retention has not removed; None for an empty stream."""
    numbers = [int(part) for part in connection.version.split(".")[:2] if part.isdigit()]
    if tuple(numbers) >= _STATS_VERSION:
        first = connection.stats(stream).get("first_chunk_id", -1)
        return None if first < 0 else first
    chunk = _chunk_at(connection, stream, "first")
    return None if chunk is None else chunk.first


def _query_bounds(connection: StreamConnection, stream: str) -> Bounds:
    """Return the bounds of a stream; retry while its last chunk is not available."""
    first = _first_stored_offset(connection, stream)
    if first is None:
        return Bounds(0, 0)
    for _ in range(_LAST_CHUNK_ATTEMPTS):
        last = _chunk_at(connection, stream, "last")
        if last is not None:
            return Bounds(min(first, last.stop), last.stop)
        if _chunk_at(connection, stream, "first") is None:
            return Bounds(0, 0)  # the stream has only the broker's tracking data
        sleep(_LAST_CHUNK_INTERVAL)  # until the last chunk is replicated to enough nodes
    raise LinkError(f"the last chunk of the stream {stream!r} is not available")


def _query_offset_at(connection: StreamConnection, stream: str, time: int) -> int:
    """Return the first offset of the first chunk that was stored at `time` or later.

    Args:
        connection: a connection to a node with a replica of the stream.
        stream: the name of the stream.
        time: in ms since the Unix epoch. If all chunks are older, the next offset is returned.
    """
    # Query the bounds first: a message that arrives during the search must not be skipped.
    bounds = _query_bounds(connection, stream)
    for _ in range(_LAST_CHUNK_ATTEMPTS):
        last = _chunk_at(connection, stream, "last")
        if last is None or last.timestamp < time:
            return bounds.next
        chunk = _chunk_at(connection, stream, Timestamp(time))
        # The protocol does not exclude a start at an earlier chunk.
        while chunk is not None and chunk.timestamp < time:
            chunk = _chunk_at(connection, stream, chunk.stop)
        if chunk is not None:
            return chunk.first
        # RabbitMQ finds no chunk by time while the stream's newest segment file is empty.
        sleep(_LAST_CHUNK_INTERVAL)
    raise LinkError(f"the stream {stream!r} has no chunk for the time {time}, but newer chunks")


class StoredProbe(Probe):
    """Queries streams with the stream protocol. Each query goes to a node with a replica."""

    def __init__(self, endpoint: Endpoint, timeout: float = 60.0) -> None:
        super().__init__(endpoint, timeout)
        self._nodes = _Nodes(endpoint)

    def bounds(self, names: Sequence[str]) -> dict[str, Bounds]:
        """Return the bounds of each stream, by name."""
        return self._query_each(names, _query_bounds)

    def offsets_at(self, names: Sequence[str], time: int) -> dict[str, int]:
        """Return the first offset of each stream that was stored at `time` or later, by name.

        The offsets are those of chunks, which have one timestamp for all their messages.

        Args:
            names: the names of the streams.
            time: in ms since the Unix epoch. If all messages of a stream are older, its offset is
                that of its next new message.
        """
        return self._query_each(names, functools.partial(_query_offset_at, time=time))

    def partitions(self, super_stream: str) -> list[str]:
        """Return the names of a super stream's partitions, in order."""
        return self._query(lambda nodes: nodes.any().partitions(super_stream))

    def _query_each(self, names: Sequence[str], query: Callable[..., _T]) -> dict[str, _T]:
        """Return the result of `query` for each stream, called with a connection and `stream`."""

        def query_all(nodes: _Nodes) -> dict[str, _T]:
            return {
                name: nodes.with_replica(name, functools.partial(query, stream=name))
                for name in names
            }

        return self._query(query_all)

    def _query(self, query: Callable[[_Nodes], _T]) -> _T:
        """Call `query` with the connections; retry after errors."""
        return self._retry(lambda _: query(self._nodes))

    def _drop(self) -> None:
        self._nodes.close(gracefully=False)

    def close(self) -> None:
        """Close the connections."""
        self._nodes.close()


def read_stored(
    endpoint: Endpoint, part: StreamRange, reading: Reading = _DEFAULT_READING
) -> Iterator[StoredRows | tuple[int, int]]:
    """Read all messages in a range of a stream with RabbitMQ's stream protocol.

    Reconnects if a connection is lost.

    Yields:
        Batches of messages; or, for messages that retention has removed, a pair of the first offset
        and the number of offsets.

    Raises:
        LateRangeError: messages were not received in time.
        LinkError: the broker refused to read the stream.
    """
    reader = _StoredReader(endpoint, part, reading)
    try:
        while (rows := reader.next_rows()) is not None:
            yield rows
    finally:
        reader.close()


class _StoredReader(RangeReader):
    """Reads a range with the stream protocol."""

    def __init__(self, endpoint: Endpoint, part: StreamRange, reading: Reading) -> None:
        super().__init__(endpoint, part, reading)
        self._nodes = _Nodes(endpoint)
        self._connection: StreamConnection | None = None
        self._credit = _FIRST_CREDIT  # maximum number of chunks in flight
        self._rows = RowsOfChunks()
        self._filter_values = reading.filters.values

    @property
    def _is_batch_ready(self) -> bool:
        """Whether enough rows were received for a batch."""
        return len(self._rows) >= self._reading.rows or self._rows.size >= self._reading.size

    def next_rows(self) -> StoredRows | tuple[int, int] | None:
        """Return the next messages, or a pair as in `read_stored`; None at the end of the range."""
        while True:
            while not (self._done or self._is_batch_ready or self._removed):
                self._read_chunk()
            if not len(self._rows):
                return self._removed.pop(0) if self._removed else None
            rows = self._apply_filters(self._rows.take_rows())
            self._count += len(rows)
            if len(rows):
                return rows

    def _apply_filters(self, rows: StoredRows) -> StoredRows:
        """Return the rows that pass the filters."""
        filters = self._reading.filters
        if not filters:
            return rows
        passes = pa.array([filters.admit(octets) for octets in rows.octets.to_pylist()], pa.bool_())
        columns = (rows.offsets, rows.octets, rows.times)
        return StoredRows(*(column.filter(passes) for column in columns))

    def _read_chunk(self) -> None:
        """Receive a chunk. Connects if there is no connection, and retries after an error."""
        seconds, reason = self._reading.timeout, "no message was received"
        try:
            retry_until(self._endpoint, seconds, self._step, self._drop, reason)
        except TimeoutError as late:
            raise self._late_error(str(late), self._count + len(self._rows)) from None

    def _step(self, until: float) -> None:
        """Connect if needed, and receive a chunk; see `retry_until`."""
        connection = self._connection
        if connection is None:
            connection = self._nodes.with_replica(
                self._part.stream, functools.partial(self._subscribe, until=until)
            )
            self._connection = connection
        if self._filter_values:
            self._read_filtered(connection)
            return
        delivery = connection.delivery(until)
        if delivery.subscription != _RANGE:
            return
        self._receive(connection, delivery)
        if not self._done and 2 * self._in_flight <= self._credit:
            self._give_credit(connection)

    def _receive(self, connection: StreamConnection, delivery: Delivery) -> None:
        """Process a chunk of the range, and adjust the credit."""
        self._in_flight -= 1
        chunk = _parse_chunk(delivery.octets)
        self._add_chunk(connection, chunk)
        # Limit the credit, so that the broker does not send chunks beyond the end of the range.
        remaining = (self._part.stop - self._next) // max(chunk.count, 1) + 1
        self._credit = max(1, min(remaining, _WINDOW_BYTES // len(delivery.octets), _MAX_CREDIT))

    def _give_credit(self, connection: StreamConnection) -> None:
        """Give the broker credit, so that `_credit` chunks are in flight."""
        connection.credit(_RANGE, self._credit - self._in_flight)
        self._in_flight = self._credit

    def _subscribe(self, connection: StreamConnection, until: float) -> StreamConnection:
        """Subscribe to the unread part of the range; return `connection`."""
        part, filters = self._part, self._reading.filters
        properties = {}
        if self._filter_values:
            # Wait until the node has the last message of the range: with filters, a node that lags
            # behind would seem to have no further messages.
            connection.subscribe(_QUERY, part.stream, part.stop - 1, 1)
            while connection.delivery(until).subscription != _QUERY:
                pass
            connection.unsubscribe(_QUERY)
            properties = {f"filter.{n}": value for n, value in enumerate(filters.values)}
            properties["match-unfiltered"] = str(filters.unfiltered).lower()
        self._in_flight = self._credit = _FIRST_CREDIT
        connection.subscribe(_RANGE, part.stream, self._next, self._credit, properties)
        return connection

    def _read_filtered(self, connection: StreamConnection) -> None:
        """Receive the chunks that the broker sends for the filter values.

        The broker sends all matching chunks, up to the credit, before the response to a later
        request. If credit is left when the response arrives, no further chunk matches.
        """
        first = _first_stored_offset(connection, self._part.stream)
        while not self._done and (delivery := connection.buffered_delivery()) is not None:
            if delivery.subscription == _RANGE:
                self._receive(connection, delivery)
        if not self._done and self._in_flight == 0:
            self._give_credit(connection)
            return
        self._done = True
        # Report all offsets before `first` as removed: retention may have removed them before they
        # were read.
        start, stop = self._part.start, self._part.stop
        if first is None or first > start:
            self._removed.append((start, (stop if first is None else min(first, stop)) - start))

    def _add_chunk(self, connection: StreamConnection, chunk: Chunk) -> None:
        """Add the messages of a chunk that are in the range, and record removed offsets."""
        part = self._part
        start, stop = max(self._next, chunk.first), min(part.stop, chunk.stop)
        if start > self._next and not self._filter_values:
            # Skipped offsets were removed by retention, or belong to the broker's tracking data,
            # which has offsets and no messages.
            first = _first_stored_offset(connection, part.stream)
            if first is None or first > self._next:
                self._removed.append((self._next, min(start, part.stop) - self._next))
        if start < stop and chunk.entries is not None:
            try:
                self._rows.add(chunk, start, stop)
            except ChunkError as error:
                raise LinkError(str(error), permanent=error.permanent) from None
        self._next = max(self._next, min(start, part.stop), min(stop, part.stop))
        self._done = self._next >= part.stop

    def _drop(self) -> None:
        """Close the connections immediately, after an error."""
        self._connection = None
        self._nodes.close(gracefully=False)

    def close(self) -> None:
        """Close the connections."""
        self._nodes.close()
