"""The data source ``amqp10-stream``: read RabbitMQ streams and Event Hubs as DataFrames.

session.read.format("amqp10-stream").option("url", "amqp://…").option("stream", "orders").load()
session.readStream.format("amqp10-stream")…

Each row is a message with its offset in the stream. A repeated query reads the same offsets again,
so a sink that recognises repeated batches, such as Delta or Parquet, stores each message once.
"""

from __future__ import annotations

import logging
import time
from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import attrs
import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.types import StructType

from amqp10msg.brokers import RECEIVED_TIME
from amqp10msg.columns import in_pieces
from amqp10msg.files.text import load_json
from amqp10msg.jobs.inputs import bool_option, common_names, positive_option, reject_unknown_options
from amqp10msg.jobs.job import cast_array, decode_column, schema_for_spark
from amqp10msg.net.ends.stream_chunks import StoredRows
from amqp10msg.net.ends.urls import STREAM_SCHEMES, Endpoint, parse_urls
from amqp10msg.net.event_hubs import ENQUEUED_TIME_ANNOTATION, Hub, Partitions
from amqp10msg.net.stored_ranges import StoredProbe, read_stored
from amqp10msg.net.stream_ranges import (
    Bounds,
    LostRangeError,
    MakeStreams,
    RangeFilters,
    Reading,
    StreamProbe,
    StreamRange,
    StreamRows,
    Streams,
    read_range,
    received_time,
)
from amqp10msg.spark._frames import add_error_column, spark_schema
from amqp10msg.spark._offsets import (
    Offsets,
    SparkOffset,
    limit_batch,
    split_ranges,
    start_in,
    with_start,
    without_start,
)
from amqp10msg.spark._workers import (
    SupportsAvailableNow,
    freeze_imports,
    hide_worker_traceback,
    streaming_datasource,
    with_option_errors,
)
from amqp10msg.wire.primitives import Timestamp

#: Columns of every row; the decoded columns follow them.
STREAM_ROWS = pa.schema(
    [
        pa.field("stream", pa.string()),
        pa.field("offset", pa.int64(), metadata={"comment": "of the message in its stream"}),
        pa.field(
            "arrival_time",
            pa.timestamp("us", "UTC"),
            metadata={"comment": "when the broker got the message, where it says so"},
        ),
        pa.field("wire", pa.binary(), metadata={"comment": "the message as it was delivered"}),
        pa.field(
            "lost",
            pa.int64(),
            metadata={"comment": "of a row without a message: offsets that retention removed"},
        ),
    ]
)
_MIN_PARTITIONS, _MAX_RECORDS = "minPartitions", "maxRecordsPerPartition"
_MAX_OFFSETS = "maxOffsetsPerTrigger"
#: Options that apply only to RabbitMQ streams, and only to event hubs.
_STREAM_OPTIONS = ("filterValues", "matchUnfiltered", "sqlFilter")
_HUB_OPTIONS = ("consumerGroup",)
#: Options that apply only to batch queries.
_BATCH_OPTIONS = ("endingOffsets", "endingTimestamp")
_OPTIONS = (
    *(
        "url",
        "stream",
        "superStream",
        "eventHub",
        *_HUB_OPTIONS,
        "startingOffsets",
        "startingTimestamp",
        *_BATCH_OPTIONS,
    ),
    *(
        _MIN_PARTITIONS,
        _MAX_RECORDS,
        _MAX_OFFSETS,
        "readTimeout",
        "failOnDataLoss",
        *_STREAM_OPTIONS,
        "columns",
        "maps",
    ),
)
_EARLIEST, _LATEST = "earliest", "latest"
#: Default of maxRecordsPerPartition, in offsets. Over AMQP 1.0, it is `_MIN_TASK_OFFSETS`. With the
#: stream protocol, which is so fast that the overhead of a task matters, it is the number of
#: offsets to read, divided by `_STORED_TASKS`, but from `_MIN_TASK_OFFSETS` to `_MAX_TASK_OFFSETS`.
_MIN_TASK_OFFSETS, _MAX_TASK_OFFSETS, _STORED_TASKS = 100_000, 1_000_000, 4
_log = logging.getLogger("amqp10msg.spark")
#: The maximum of a timestamp (Part 1, 1.6.17).
_MAX_TIMESTAMP = 2**63 - 1
# The shortest time between polls of the streams' ends, in seconds; Spark polls 100 times per
# second.
_POLL_SECONDS = 0.1

#: Queries the bounds of each stream, which are its first offset, and the offset after its last
#: message.
Probe = StreamProbe | StoredProbe


@attrs.frozen
class _LostRange:
    """Offsets that retention had removed when the batch was planned; a task returns one row."""

    stream: str
    start: int
    count: int


@attrs.frozen
class _Options:
    """The parsed options of `Amqp10Stream`.

    `starting` is the position of startingOffsets, or a Timestamp with the value of
    startingTimestamp; likewise `ending`.
    """

    endpoint: Endpoint
    streams: tuple[str, ...]
    super_stream: str | None
    hub: Hub | None
    starting: Any
    ending: Any
    min_partitions: int
    max_records: int | None
    max_offsets: int | None
    timeout: float
    fails_on_loss: bool
    filters: RangeFilters
    columns: tuple[str, ...]
    maps: Any

    @classmethod
    @hide_worker_traceback()
    def from_options(cls, options: Mapping[str, str]) -> _Options:
        reject_unknown_options(options, _OPTIONS)
        if not options.get("url"):
            raise ValueError(
                "the option url is required: option('url', 'amqp://user:password@host:5672')"
            )
        endpoint = parse_urls(options["url"].split(), also=STREAM_SCHEMES)
        has_address = endpoint.file is not None or endpoint.address is not None
        if endpoint.protocol not in {"1.0", "stream"} or has_address:
            raise ValueError(
                "url must name a broker only: amqp://host:5672, amqps://host:5671, "
                "rabbitmq-stream://host:5552 or rabbitmq-stream+tls://host:5551, got "
                f"{endpoint}; name the stream with the option stream"
            )
        streams, super_stream = _parse_names(options, "stream"), options.get("superStream")
        event_hub = options.get("eventHub")
        if [bool(streams), bool(super_stream), bool(event_hub)].count(True) != 1:
            raise ValueError(
                "exactly one of the options stream, superStream and eventHub is required"
            )
        if event_hub and endpoint.protocol == "stream":
            raise ValueError(f"eventHub needs a URL of AMQP 1.0 (amqps://), got {endpoint}")
        hub = Hub(event_hub, options.get("consumerGroup", "$Default")) if event_hub else None
        foreign_options = _STREAM_OPTIONS if hub else _HUB_OPTIONS
        if inapplicable := [name for name in foreign_options if name in options]:
            kind = "RabbitMQ streams" if hub else "event hubs"
            raise ValueError(f"the option {inapplicable[0]} applies only to {kind}")
        filters = RangeFilters(
            _parse_names(options, "filterValues"),
            bool_option(options, "matchUnfiltered", default=False),
            options.get("sqlFilter"),
        )
        filters.described()
        max_offsets = (
            positive_option(options, _MAX_OFFSETS, 1, "offsets")
            if _MAX_OFFSETS in options
            else None
        )
        result = cls(
            endpoint,
            streams,
            super_stream,
            hub,
            _parse_positions(options, "starting", _EARLIEST),
            _parse_positions(options, "ending", _LATEST),
            positive_option(options, _MIN_PARTITIONS, 1, "tasks"),
            positive_option(options, _MAX_RECORDS, 1, "offsets")
            if _MAX_RECORDS in options
            else None,
            max_offsets,
            float(positive_option(options, "readTimeout", 60, "seconds")),
            bool_option(options, "failOnDataLoss", default=True),
            filters,
            _parse_names(options, "columns"),
            options.get("maps", "variant"),
        )
        result.schema()
        return result

    def decode_messages(self, messages: pa.Array) -> pa.RecordBatch:
        """Decode messages to the columns that the option ``columns`` selects."""
        names: str | Sequence[str] = self.columns
        return decode_column(
            messages,
            add_error_column(names[0] if len(names) == 1 else names, self.maps),
            maps=self.maps,
        )

    def schema(self) -> pa.Schema:
        """Return the schema of the rows: `STREAM_ROWS` and the decoded columns."""
        if not self.columns:
            return STREAM_ROWS
        added = schema_for_spark(self.decode_messages(pa.array([], pa.binary())).schema)
        clashes = common_names(added.names, STREAM_ROWS.names)
        if clashes:
            raise ValueError(
                f"{', '.join(clashes)}: every row has this column already, remove it from columns"
            )
        return pa.schema([*STREAM_ROWS, *added])

    @property
    def _stream_factory(self) -> MakeStreams:
        """The class that reads from a connection, streams or partitions of the event hub."""
        return Streams if self.hub is None else partial(Partitions, self.hub)

    @property
    def _uses_stream_protocol(self) -> bool:
        """Whether the URL selects RabbitMQ's stream protocol, which reads messages as stored."""
        return self.endpoint.protocol == "stream"

    def probe(self) -> Probe:
        """Create a connection for querying the bounds of the streams."""
        if self._uses_stream_protocol:
            return StoredProbe(self.endpoint, self.timeout)
        return StreamProbe(self.endpoint, self.timeout, self._stream_factory)

    def names(self, probe: Probe) -> tuple[str, ...]:
        """Return the names of the streams, or of the super stream's or event hub's partitions."""
        if self.hub is not None and isinstance(probe, StreamProbe):
            return tuple(probe.query(Partitions.partitions))
        if self.super_stream is None:
            return self.streams
        return tuple(probe.partitions(self.super_stream))

    def start_offsets(self, bounds: Mapping[str, Bounds], probe: Probe) -> Offsets:
        """Return the offsets at which reading begins."""
        return self._resolve_offsets(self.starting, bounds, probe, "startingOffsets")

    def end_offsets(self, bounds: Mapping[str, Bounds], probe: Probe) -> Offsets:
        """Return the offsets at which a batch query ends."""
        return self._resolve_offsets(self.ending, bounds, probe, "endingOffsets")

    def _resolve_offsets(
        self, positions: Any, bounds: Mapping[str, Bounds], probe: Probe, option: str
    ) -> Offsets:
        """Convert an option's positions to an offset for each stream.

        Args:
            positions: a Timestamp, an offset, ``earliest`` or ``latest``, or a dict of offsets,
                ``earliest`` and ``latest`` by stream.
            bounds: the first and the next offset of each stream.
            probe: queries the streams.
            option: the name of the option, for errors.
        """
        if isinstance(positions, Timestamp):
            offsets = probe.offsets_at(list(bounds), int(positions))
            # Messages may have arrived between the queries of the bounds and of the time.
            return {name: min(offset, bounds[name].next) for name, offset in offsets.items()}
        offsets = {}
        if isinstance(positions, dict) and (unknown := positions.keys() - bounds.keys()):
            raise ValueError(f"{option} names {min(unknown)}, which is not a stream of this query")
        for name, stream_bounds in bounds.items():
            position = positions.get(name) if isinstance(positions, dict) else positions
            if position is None:
                raise ValueError(f"{option} has no offset for the stream {name}")
            offsets[name] = (
                position if isinstance(position, int) else _resolve(position, stream_bounds)
            )
        return offsets

    def split_ranges(
        self, start: Offsets, end: Offsets, bounds: Mapping[str, Bounds]
    ) -> list[InputPartition]:
        """Divide the offsets of each stream from `start` to `end` into one range per task."""
        ranges: list[StreamRange] = []
        lost: list[_LostRange] = []
        for name, stop in end.items():
            if name not in bounds:
                if start.get(name) != stop:
                    raise ValueError(_removed_stream_error(name, stop))
                continue
            # A stream that was added to the query is read from its first offset.
            first, available = start.get(name, bounds[name].first), bounds[name].first
            if first >= stop:
                continue
            if bounds[name].next < stop:
                raise ValueError(_stream_too_short_error(name, bounds[name].next, stop))
            if available > first:
                count = min(available, stop) - first
                self.report_loss(name, first, count, str(available))
                lost.append(_LostRange(name, first, count))
            if available < stop:
                ranges.append(StreamRange(name, max(first, available), stop))
        tasks = split_ranges(ranges, self._max_offsets_per_task(ranges), self.min_partitions)
        return [InputPartition(part) for part in (*lost, *tasks)]

    def _max_offsets_per_task(self, ranges: Sequence[StreamRange]) -> int:
        """Return the maximum number of offsets per task."""
        if self.max_records is not None:
            return self.max_records
        if not self._uses_stream_protocol:
            return _MIN_TASK_OFFSETS
        count = sum(part.stop - part.start for part in ranges)
        return min(max(-(-count // _STORED_TASKS), _MIN_TASK_OFFSETS), _MAX_TASK_OFFSETS)

    def report_loss(self, stream: str, start: int, count: int, available: str) -> None:
        """Raise LostRangeError, or log a warning: retention removed messages before the read.

        Args:
            stream: the name of the stream.
            start: the first offset that was to be read.
            count: the number of removed offsets.
            available: the first offset that can be read, as text.
        """
        number = f"up to {count}" if self.filters else f"{count}"
        message = (
            f"{self.endpoint}: {self._describe(stream)}: {number} messages from offset {start} on "
            "are lost: retention removed them before they were read, and the first available "
            f"offset is {available}"
        )
        if self.fails_on_loss:
            raise LostRangeError(
                f"{message}. To continue there, with the number of lost messages in the column "
                "lost, set failOnDataLoss=false. To lose none, let the stream keep messages for "
                "longer than the query may be stopped or behind"
            )
        _log.warning("%s", message)

    def _describe(self, stream: str) -> str:
        """Return the kind and the name of a stream, for errors and warnings."""
        if self.super_stream is not None:
            return f"partition {stream} of the super stream {self.super_stream}"
        if self.hub is not None:
            return f"partition {stream.rpartition('/')[2]} of the event hub {self.hub.name}"
        return f"stream {stream}"

    def batches(self, part: StreamRange | _LostRange) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a range of offsets."""
        if isinstance(part, _LostRange):
            yield self._lost_row(part.stream, part.start, part.count)
            return
        reading = Reading(self.filters, self.timeout, make=self._stream_factory)
        schema = self.schema()
        read_rows = read_stored if self._uses_stream_protocol else read_range
        with hide_worker_traceback():
            for item in read_rows(self.endpoint, part, reading):
                if not isinstance(item, tuple):
                    yield from self._rows_to_batches(part.stream, item, schema)
                    continue
                start, count = item
                self.report_loss(part.stream, start, count, f"{start + count} or later")
                yield self._lost_row(part.stream, start, count)

    def _lost_row(self, stream: str, start: int, count: int) -> pa.RecordBatch:
        """Return the row for `count` offsets from `start` on, which retention removed."""
        row = {"stream": stream, "offset": start, "lost": count}
        return pa.RecordBatch.from_pylist([row], schema=self.schema())

    def _rows_to_batches(
        self, stream: str, rows: StreamRows | StoredRows, schema: pa.Schema
    ) -> Iterator[pa.RecordBatch]:
        """Convert messages of a stream to batches with the columns of `schema`."""
        count = len(rows.offsets)
        if isinstance(rows, StoredRows):
            offsets, times, messages = rows.offsets, rows.times, rows.octets
        else:
            annotation = RECEIVED_TIME if self.hub is None else ENQUEUED_TIME_ANNOTATION
            offsets = pa.array(rows.offsets, pa.int64())
            milliseconds = [received_time(item, annotation) for item in rows.octets]
            times, messages = pa.array(milliseconds, pa.int64()), pa.array(rows.octets, pa.binary())
        base = pa.RecordBatch.from_arrays(
            [
                pa.repeat(_string_scalar(stream), count),
                offsets,
                times.cast(pa.timestamp("ms", "UTC")).cast(pa.timestamp("us", "UTC")),
                messages,
                pa.nulls(count, pa.int64()),
            ],
            schema=STREAM_ROWS,
        )
        if not self.columns:
            yield base
            return
        for batch, decoded in in_pieces(
            base, lambda item: self.decode_messages(item.column("wire"))
        ):
            arrays = map(cast_array, [*batch.columns, *decoded.columns], schema.types)
            yield pa.RecordBatch.from_arrays(list(arrays), schema=schema)


def _string_scalar(text: str) -> pa.Scalar:
    """Convert a string to an Arrow scalar. `pa.scalar` would import pandas, which is slow."""
    encoded = text.encode()
    offsets = pa.py_buffer(array("i", [0, len(encoded)]))
    return pa.Array.from_buffers(pa.string(), 1, [None, offsets, pa.py_buffer(encoded)])[0]


def _resolve(position: str, bounds: Bounds) -> int:
    """Return the offset for ``earliest`` or ``latest``."""
    return bounds.first if position == _EARLIEST else bounds.next


def _stream_too_short_error(name: str, end: int, requested: int) -> str:
    """Return the error text for a stream that ends before a requested offset."""
    return (
        f"the stream {name} ends at offset {end}, before the requested offset {requested}: "
        "endingOffsets is too large, or the stream was deleted and declared again, so the query "
        "needs a new checkpoint"
    )


def _removed_stream_error(name: str, end: int) -> str:
    """Return the error text for a stream that was removed from a query within a batch."""
    return (
        f"the last batch of the query was not finished, and contains the stream {name} up to "
        f"offset {end}, which is not a stream of the query any more: add it again until the batch "
        "is finished"
    )


def _parse_names(options: Mapping[str, str], name: str) -> tuple[str, ...]:
    """Parse an option with names separated by commas, or with a JSON list of names."""
    text = options.get(name, "").strip()
    if not text.startswith("["):
        return tuple(stripped for name in text.split(",") if (stripped := name.strip()))
    with suppress(ValueError):
        items = load_json(text)
        if isinstance(items, list) and all(isinstance(name, str) for name in items):
            return tuple(items)
    raise ValueError(f"{name} must be names separated by commas, or a JSON list of names")


def _parse_positions(options: Mapping[str, str], prefix: str, default: str) -> Any:
    """Parse the options for a start or an end: `prefix` is ``starting`` or ``ending``.

    Returns:
        A Timestamp; or ``earliest``, ``latest``, an offset, or a dict of these by stream.
    """
    name, time_name = f"{prefix}Offsets", f"{prefix}Timestamp"
    if time_name in options:
        if name in options:
            raise ValueError(f"use only one of the options {name} and {time_name}")
        return _parse_timestamp(options[time_name], time_name)
    text = options.get(name, default).strip()
    value: Any = text
    with suppress(ValueError):
        value = load_json(text)
    positions = list(value.values()) if isinstance(value, dict) else [value]
    for position in positions:
        is_offset = isinstance(position, int) and not isinstance(position, bool) and position >= 0
        if not is_offset and position not in (_EARLIEST, _LATEST):
            raise ValueError(
                f"{name} must be {_EARLIEST}, {_LATEST}, an offset of 0 or more, or JSON with one "
                f'of these per stream, such as {{"orders": 120}}, got {text[:60]!r}'
            )
    return value


def _parse_timestamp(text: str, name: str) -> Timestamp:
    """Parse milliseconds since the Unix epoch; `name` is the option, for errors."""
    digits = text.strip()
    if digits.isascii() and digits.isdigit() and len(digits) <= len(str(_MAX_TIMESTAMP)):
        milliseconds = int(digits)
        if milliseconds <= _MAX_TIMESTAMP:
            return Timestamp(milliseconds)
    raise ValueError(
        f"{name} must be milliseconds since the Unix epoch, such as 1782907200000 for "
        f"2026-07-01T12:00:00Z, got {text[:60]!r}"
    )


def query_bounds(options: Mapping[str, str]) -> dict[str, Bounds]:
    """Return the bounds of the streams that the options of `Amqp10Stream` name.

    Raises:
        ValueError: an option is invalid.
        LinkError: the broker cannot be reached, or refuses the query.
    """
    parsed = _Options.from_options(options)
    with parsed.probe() as probe:
        return dict(probe.bounds(parsed.names(probe)))


class Amqp10Stream(DataSource):
    """Reads RabbitMQ streams and Azure event hubs; a row is a message.

    Streams and event hubs are read over AMQP 1.0. RabbitMQ streams can also be read with RabbitMQ's
    stream protocol, which is several times as fast and needs the broker's plugin rabbitmq_stream.
    Then ``wire`` has the bytes as stored, without annotations that the broker adds on delivery,
    such as ``x-stream-offset``, and ``arrival_time`` is the time at which the broker stored a group
    of messages.

    A partition of an event hub is a stream whose offsets are sequence numbers. The columns of
    `STREAM_ROWS` are followed by the decoded columns. Each stream, and each partition of a
    super stream or event hub, is divided into ranges of offsets, one per task. A task reads its
    range completely: a timeout is an error, and so are offsets that retention has removed.

    Options:
        url: the broker: ``amqps://host:5671``, or for the stream protocol
            ``rabbitmq-stream://host:5552/vhost`` or ``rabbitmq-stream+tls://host:5551``. Separate
            the nodes of a cluster with spaces. User and password may be ``${NAME}``, an environment
            variable, or ``${file:PATH}``; both are read on the driver. Other parameters are those
            of the bridge's URLs.
        stream: the name of the stream; several separated by commas, or as a JSON list.
        superStream: the name of a super stream. Over AMQP 1.0, its partitions must be numbered from
            0; with the stream protocol, the broker lists them.
        eventHub: the name of an event hub in the namespace of the URL; user and password are the
            name and the key of a shared access policy.
        consumerGroup: the consumer group of the event hub; default ``$Default``.
        startingOffsets: ``earliest`` (default), ``latest``, an offset, or JSON with a position per
            stream, such as ``{"orders/Partitions/0": 120}``. Ignored if the query has a checkpoint.
        startingTimestamp: in place of startingOffsets, a time in ms since the Unix epoch. Reading
            starts at the first message that the broker got at this time or later.
        endingOffsets: like startingOffsets, for the end of a batch query; default ``latest``. The
            message at the end is not read.
        endingTimestamp: in place of endingOffsets, a time in ms since the Unix epoch. The first
            message that the broker got at this time or later is not read.
        minPartitions: the minimum number of tasks that read a batch, if it has as many offsets;
            default 1.
        maxRecordsPerPartition: the maximum number of offsets per task. Default: 100,000; with the
            stream protocol, a quarter of the offsets to read, from 100,000 to 1,000,000.
        maxOffsetsPerTrigger: the maximum number of offsets in a batch of a streaming query; default
            unlimited.
        readTimeout: seconds without a message after which reading a range fails; default 60.
        failOnDataLoss: ``true`` (default) to fail if retention removed offsets before they were
            read. With ``false``, the query continues at the first available offset, logs a warning,
            and a row without a message contains the number of removed offsets in the column
            ``lost``.
        filterValues: the values of the annotation ``x-stream-filter-value`` that select messages of
            RabbitMQ streams.
        matchUnfiltered: ``true`` to select messages without a filter value as well; default
            ``false``.
        sqlFilter: an SQL filter expression. RabbitMQ 4.2 evaluates it over AMQP 1.0; otherwise, the
            tasks do.
        columns: the columns to decode, separated by commas, as in `amqp10msg.spark.decode`;
            followed by ``error``.
        maps: the form of decoded maps: ``variant`` or ``map``.

    If a stream has no message of a timestamp's time or later, the position is its end. The time of
    an event is its enqueued time. RabbitMQ records only the time at which it stored a chunk, a
    group of messages, so that all messages of a chunk have its time: with the stream protocol,
    reading starts at the first chunk with the time or a later one, and so does ``arrival_time``.
    Over AMQP 1.0, RabbitMQ rounds the time down to seconds; the messages of the second before the
    time are then skipped if they have the annotation ``x-opt-rabbitmq-received-time``.

    The filters are options because filter push-down of PySpark 4.3 gives wrong results if a
    DataFrame is used twice.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "amqp10-stream"

    def schema(self) -> StructType:
        """Return the columns: `STREAM_ROWS` and the decoded columns."""
        return spark_schema(_Options.from_options(self.options).schema())

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002  (Spark's signature)
        """Return the reader of a batch query."""
        return _Reader(_Options.from_options(self.options))

    @with_option_errors
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802  (Spark's names)
        """Return the reader of a streaming query."""
        options = _Options.from_options(self.options)
        for name in _BATCH_OPTIONS:
            if name in self.options:
                raise ValueError(f"{name} applies only to batch queries: remove it")
        return _StreamReader(options)


class _RangeReader:
    """Base class of both readers: reads the messages of a range."""

    def __init__(self, options: _Options) -> None:
        self._options = options

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield from self._options.batches(partition.value)
        freeze_imports()


class _Reader(_RangeReader, DataSourceReader):
    @hide_worker_traceback()
    def partitions(self) -> list[InputPartition]:
        options = self._options
        with options.probe() as probe:
            bounds = probe.bounds(options.names(probe))
            start = options.start_offsets(bounds, probe)
            end = options.end_offsets(bounds, probe)
        return options.split_ranges(start, end, bounds)


class _StreamReader(_RangeReader, DataSourceStreamReader, SupportsAvailableNow):  # type: ignore[misc]  # the base is Any if PySpark has no types
    """Reads growing streams; Spark's offset contains the next offset of each stream.

    Before version 4.2, PySpark does not pass the start of the next batch to `latestOffset`. But
    each offset that `latestOffset` returns is the end of the next batch, and a query that continues
    from a checkpoint calls `partitions` with its last offset first, as start and as end.
    """

    def __init__(self, options: _Options) -> None:
        super().__init__(options)
        self._probe: Probe | None = None
        self._names: tuple[str, ...] | None = None
        self._initial: Offsets | None = None
        # The end of the last batch; None before the first batch of a new query.
        self._position: SparkOffset | None = None
        # The ends of the streams when the last batch was planned.
        self._latest: Offsets | None = None
        self._polled_at = 0.0
        # The bounds at the start of a query with the trigger availableNow; None for other triggers.
        self._available_now: dict[str, Bounds] | None = None

    def __getstate__(self) -> dict[str, Any]:
        # Exclude the probe from pickling: tasks open their own connections.
        return {**self.__dict__, "_probe": None}

    def _open_probe(self) -> Probe:
        """Return the driver's probe for the bounds of the streams; the first call creates it."""
        if self._probe is None:
            self._probe = self._options.probe()
        return self._probe

    def _query_bounds(self) -> dict[str, Bounds]:
        """Query the bounds of the streams, at most once per `_POLL_SECONDS`."""
        time.sleep(max(0.0, min(_POLL_SECONDS, self._polled_at + _POLL_SECONDS - time.monotonic())))
        probe = self._open_probe()
        if self._names is None:
            self._names = self._options.names(probe)
        bounds = probe.bounds(self._names)
        self._polled_at = time.monotonic()
        return bounds

    @hide_worker_traceback()
    def initialOffset(self) -> Offsets:  # noqa: N802  (Spark's names)
        # Spark may call this method again for the first batch: messages that arrived since the
        # first call are part of that batch, also with startingOffsets=latest.
        if self._initial is None:
            bounds = self._query_bounds() if self._available_now is None else self._available_now
            self._initial = self._options.start_offsets(bounds, self._open_probe())
        return self._initial

    def getDefaultReadLimit(self) -> Any:  # noqa: N802  (Spark's names)
        max_offsets = self._options.max_offsets
        return (
            streaming_datasource.ReadAllAvailable()
            if max_offsets is None
            else streaming_datasource.ReadMaxRows(max_offsets)
        )

    @hide_worker_traceback()
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802  (Spark's names)
        self._available_now = self._query_bounds()

    @hide_worker_traceback()
    def latestOffset(  # noqa: N802  (Spark's names)
        self, start: SparkOffset | None = None, limit: Any = None
    ) -> SparkOffset:
        last = start
        if last is None:  # before PySpark 4.2
            last = self.initialOffset() if self._position is None else self._position
            max_offsets = self._options.max_offsets
        elif isinstance(limit, streaming_datasource.ReadMaxRows):
            max_offsets = limit.max_rows
        else:
            max_offsets = None
        start = without_start(last)
        bounds = self._query_bounds() if self._available_now is None else self._available_now
        end = {name: stream.next for name, stream in bounds.items()}
        for name, offset in start.items():
            if end.get(name, offset) < offset:
                raise ValueError(_stream_too_short_error(name, end[name], offset))
        self._latest = end
        if max_offsets is not None:
            # Neither offsets before the first one of a stream that was added to the query, nor
            # offsets that retention has removed, count.
            available = {
                name: max(start.get(name, 0), stream.first) for name, stream in bounds.items()
            }
            end = limit_batch(available, end, max_offsets)
        # Keep the offset of a stream that was removed from the query.
        end = {**start, **end}
        if self._position is None and start == self._initial:
            self._position = with_start(end, start)
        else:
            # Spark compares the offset with the last one to recognise new messages.
            self._position = last if end == start else end
        return self._position

    def reportLatestOffset(self) -> Offsets | None:  # noqa: N802  (Spark's names)
        return self._latest

    @hide_worker_traceback()
    def partitions(self, start: SparkOffset, end: SparkOffset) -> list[InputPartition]:
        self._position = end
        if start == end:
            return []
        first = start_in(end)
        return self._options.split_ranges(
            without_start(start) if first is None else first,
            without_start(end),
            self._query_bounds(),
        )

    def stop(self) -> None:
        if self._probe is not None:
            self._probe.close()
            self._probe = None
