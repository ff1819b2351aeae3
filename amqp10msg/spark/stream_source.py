"""The data source ``amqp10-stream``: RabbitMQ's streams and Event Hubs as DataFrames.

session.read.format("amqp10-stream").option("url", "amqp://…").option("stream", "orders").load()
session.readStream.format("amqp10-stream")…

A row is a message, at the offset that the stream gives it. A query that is repeated reads the same
offsets again, so that a sink that knows its batches, such as Delta or Parquet, has each once.
"""

from __future__ import annotations

import time
import warnings
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

from amqp10msg.columns import in_pieces
from amqp10msg.files.text import load_json
from amqp10msg.jobs.inputs import flag_of, number_of, refuse_unknown, shared
from amqp10msg.jobs.job import as_type, decoded, schema_for_spark
from amqp10msg.net.bridge.urls import STREAM_SCHEMES, Endpoint, parse_urls
from amqp10msg.net.event_hubs import ENQUEUED, Hub, Partitions
from amqp10msg.net.stored_ranges import StoredProbe, read_stored
from amqp10msg.net.stream_chunks import StoredRows
from amqp10msg.net.stream_ranges import (
    RECEIVED,
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
from amqp10msg.sections import moment_of, to_milliseconds
from amqp10msg.spark._frames import for_spark, with_errors
from amqp10msg.spark._workers import AvailableNow, limits, plainly, settle

#: The columns of every row; those that are decoded come after them.
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
_ROWS, _MAX_ROWS = "rowsPerPartition", "maxRowsPerBatch"
_OF_STREAMS = ("filterValues", "matchUnfiltered", "sqlFilter")
_OF_HUBS = ("consumerGroup", "startingTime")
_OPTIONS = (
    *("url", "stream", "superStream", "eventHub", *_OF_HUBS, "startingOffsets", "endingOffsets"),
    *(_ROWS, _MAX_ROWS, "readTimeout", "failOnDataLoss", *_OF_STREAMS, "columns", "maps"),
)
_EARLIEST, _LATEST = "earliest", "latest"
#: Offsets of a task. By the stream protocol these take so little time that a task's own costs tell:
#: there a read has so many tasks, as long as none has fewer offsets than usual, or more than these.
_ROWS_OF_PARTITION, _MOST_ROWS_OF_PARTITION, _TASKS = 100_000, 1_000_000, 4
# Seconds between two looks at the ends of streams: Spark looks a hundred times in one.
_BETWEEN = 0.1

#: By the names of streams, the offset of the next message.
Offsets = dict[str, int]
#: Asks where streams begin and end.
Probe = StreamProbe | StoredProbe


@attrs.frozen
class _Options:
    endpoint: Endpoint
    streams: tuple[str, ...]
    super_stream: str | None
    hub: Hub | None
    since: int | None
    starting: Any
    ending: Any
    rows: int | None
    max_rows: int | None
    timeout: float
    fails_on_loss: bool
    filters: RangeFilters
    columns: tuple[str, ...]
    maps: Any

    @classmethod
    @plainly()
    def of(cls, options: Mapping[str, str]) -> _Options:
        refuse_unknown(options, _OPTIONS)
        if not options.get("url"):
            raise ValueError("no url is given: option('url', 'amqp://user:password@host:5672')")
        endpoint = parse_urls(options["url"].split(), also=STREAM_SCHEMES)
        named = endpoint.file is not None or endpoint.address is not None
        if endpoint.protocol not in {"1.0", "stream"} or named:
            raise ValueError(
                "url is that of a broker, amqp://host:5672, amqps://host:5671, "
                "rabbitmq-stream://host:5552 or rabbitmq-stream+tls://host:5551, not "
                f"{endpoint}: the option stream names what is read"
            )
        streams, super_stream = _names(options, "stream"), options.get("superStream")
        of_hub = options.get("eventHub")
        if [bool(streams), bool(super_stream), bool(of_hub)].count(True) != 1:
            raise ValueError(
                "give one of the options stream (names with commas), superStream and eventHub"
            )
        if of_hub and endpoint.protocol == "stream":
            raise ValueError(f"eventHub is read over AMQP 1.0 (amqps://), not at {endpoint}")
        hub = Hub(of_hub, options.get("consumerGroup", "$Default")) if of_hub else None
        of_others = _OF_STREAMS if hub else _OF_HUBS
        if wrong := [one for one in of_others if one in options]:
            kind = "RabbitMQ's streams" if hub else "event hubs"
            raise ValueError(f"{wrong[0]} is an option for {kind}")
        filters = RangeFilters(
            _names(options, "filterValues"),
            flag_of(options, "matchUnfiltered", default=False),
            options.get("sqlFilter"),
        )
        filters.described()
        most = number_of(options, _MAX_ROWS, 1, "rows") if _MAX_ROWS in options else None
        made = cls(
            endpoint,
            streams,
            super_stream,
            hub,
            _moment(options),
            _positions(options, "startingOffsets", _EARLIEST),
            _positions(options, "endingOffsets", _LATEST),
            number_of(options, _ROWS, 1, "rows") if _ROWS in options else None,
            most,
            float(number_of(options, "readTimeout", 60, "seconds")),
            flag_of(options, "failOnDataLoss", default=True),
            filters,
            _names(options, "columns"),
            options.get("maps", "variant"),
        )
        made.schema()
        return made

    def decoded(self, octets: pa.Array) -> pa.RecordBatch:
        names: str | Sequence[str] = self.columns
        return decoded(
            octets, with_errors(names[0] if len(names) == 1 else names, self.maps), maps=self.maps
        )

    def schema(self) -> pa.Schema:
        """Return the columns of the rows."""
        if not self.columns:
            return STREAM_ROWS
        found = schema_for_spark(self.decoded(pa.array([], pa.binary())).schema)
        both = shared(found.names, STREAM_ROWS.names)
        if both:
            raise ValueError(f"{', '.join(both)}: each row has this column without being asked")
        return pa.schema([*STREAM_ROWS, *found])

    @property
    def _make(self) -> MakeStreams:
        return Streams if self.hub is None else partial(Partitions, self.hub)

    @property
    def _stored(self) -> bool:
        """Whether streams are read by RabbitMQ's stream protocol, as they are stored."""
        return self.endpoint.protocol == "stream"

    def probe(self) -> Probe:
        if self._stored:
            return StoredProbe(self.endpoint, self.timeout)
        return StreamProbe(self.endpoint, self.timeout, self._make)

    def names(self, probe: Probe) -> tuple[str, ...]:
        if self.hub is not None and isinstance(probe, StreamProbe):
            return tuple(probe.query(Partitions.partitions))
        if self.super_stream is None:
            return self.streams
        return tuple(probe.partitions(self.super_stream))

    def start(self, bounds: Mapping[str, Bounds], probe: Probe) -> Offsets:
        """Return where reading begins."""
        since = self.since
        if since is None or not isinstance(probe, StreamProbe):
            return self.offsets(self.starting, bounds, "startingOffsets")

        async def found(partitions: Partitions) -> Offsets:
            return {name: await partitions.at_time(name, since) for name in bounds}

        return probe.query(found)

    def offsets(self, given: Any, bounds: Mapping[str, Bounds], option: str) -> Offsets:
        """Return where reading begins or ends."""
        made: Offsets = {}
        if isinstance(given, dict) and (unknown := given.keys() - bounds.keys()):
            raise ValueError(f"{option} names {min(unknown)}, which is not read")
        for name, one in bounds.items():
            place = given.get(name) if isinstance(given, dict) else given
            if place is None:
                raise ValueError(f"{option} has no offset for the stream {name}")
            made[name] = place if isinstance(place, int) else _named(place, one)
        return made

    def parts(
        self, start: Offsets, end: Offsets, bounds: Mapping[str, Bounds]
    ) -> list[InputPartition]:
        """Divide what is between two places of each stream."""
        made = []
        rows = self._rows_of_task(start, end, bounds)
        for name, stop in end.items():
            # Where a stream was added, all of it.
            first = start.get(name, bounds[name].first)
            if first >= stop:
                continue
            if bounds[name].next < stop:
                raise ValueError(_too_far(name, bounds[name].next, stop))
            if bounds[name].first > first:
                self.lose(name, first, min(bounds[name].first, stop) - first)
            made += [
                InputPartition(StreamRange(name, place, min(place + rows, stop)))
                for place in range(first, stop, rows)
            ]
        return made

    def _rows_of_task(self, start: Offsets, end: Offsets, bounds: Mapping[str, Bounds]) -> int:
        """Return how many offsets one task reads."""
        if self.rows is not None:
            return self.rows
        if not self._stored:
            return _ROWS_OF_PARTITION
        starts = {name: start.get(name, bounds[name].first) for name in end}
        there = sum(max(stop - starts[name], 0) for name, stop in end.items())
        return min(max(-(-there // _TASKS), _ROWS_OF_PARTITION), _MOST_ROWS_OF_PARTITION)

    def lose(self, stream: str, start: int, count: int) -> None:
        """Say that messages are gone: an error, or a warning."""
        if self.filters:
            said = f"up to {count} offsets of the stream {stream}, from {start} on, are gone"
        else:
            said = f"{count} offsets of the stream {stream}, from {start} on, are gone"
        text = f"{self.endpoint}: {said}: its retention has removed them before they were read"
        if self.fails_on_loss:
            raise LostRangeError(
                f"{text}; failOnDataLoss=false goes on, with a row for them whose column lost has "
                "their count"
            )
        warnings.warn(text, RuntimeWarning, stacklevel=3)

    def batches(self, part: StreamRange) -> Iterator[pa.RecordBatch]:
        """Read a range."""
        reading = Reading(self.filters, self.timeout, make=self._make)
        schema = self.schema()
        read = read_stored if self._stored else read_range
        with plainly():
            for found in read(self.endpoint, part, reading):
                if not isinstance(found, tuple):
                    yield from self._rows(part.stream, found, schema)
                    continue
                start, count = found
                self.lose(part.stream, start, count)
                row = {"stream": part.stream, "offset": start, "lost": count}
                yield pa.RecordBatch.from_pylist([row], schema=schema)

    def _rows(
        self, stream: str, rows: StreamRows | StoredRows, schema: pa.Schema
    ) -> Iterator[pa.RecordBatch]:
        count = len(rows.offsets)
        if isinstance(rows, StoredRows):
            offsets, times, octets = rows.offsets, rows.times, rows.octets
        else:
            annotation = RECEIVED if self.hub is None else ENQUEUED
            offsets = pa.array(rows.offsets, pa.int64())
            found = [received_time(one, annotation) for one in rows.octets]
            times, octets = pa.array(found, pa.int64()), pa.array(rows.octets, pa.binary())
        base = pa.RecordBatch.from_arrays(
            [
                pa.repeat(_text(stream), count),
                offsets,
                times.cast(pa.timestamp("ms", "UTC")).cast(pa.timestamp("us", "UTC")),
                octets,
                pa.nulls(count, pa.int64()),
            ],
            schema=STREAM_ROWS,
        )
        if not self.columns:
            yield base
            return
        for batch, made in in_pieces(base, lambda one: self.decoded(one.column("wire"))):
            arrays = map(as_type, [*batch.columns, *made.columns], schema.types)
            yield pa.RecordBatch.from_arrays(list(arrays), schema=schema)


def _text(text: str) -> pa.Scalar:
    """Return a text as Arrow has it; without pandas, which Arrow imports to convert one."""
    octets = text.encode()
    stops = pa.py_buffer(array("i", [0, len(octets)]))
    return pa.Array.from_buffers(pa.string(), 1, [None, stops, pa.py_buffer(octets)])[0]


def _moment(options: Mapping[str, str]) -> int | None:
    """Read a time of ISO 8601 as ms since the Unix epoch; UTC where it says no zone."""
    text = options.get("startingTime")
    if text is None:
        return None
    if "startingOffsets" in options:
        raise ValueError("give one of the options startingOffsets and startingTime")
    try:
        return to_milliseconds(moment_of(text.strip()))
    except ValueError:
        raise ValueError(
            f"startingTime is a time such as 2026-07-01T12:00:00Z, not {text[:60]!r}"
        ) from None


def _named(place: str, bounds: Bounds) -> int:
    return bounds.first if place == _EARLIEST else bounds.next


def _too_far(name: str, there: int, wanted: int) -> str:
    return (
        f"the stream {name} ends before offset {there}, and is to be read up to {wanted}: it was "
        "deleted and declared again, where a query needs a new checkpoint, or endingOffsets is too "
        "large"
    )


def _names(options: Mapping[str, str], name: str) -> tuple[str, ...]:
    """Read names separated by commas, or a list of JSON where they have commas."""
    text = options.get(name, "").strip()
    if not text.startswith("["):
        return tuple(part for one in text.split(",") if (part := one.strip()))
    with suppress(ValueError):
        found = load_json(text)
        if isinstance(found, list) and all(isinstance(one, str) for one in found):
            return tuple(found)
    raise ValueError(f"{name} is names separated by commas, or a list of JSON")


def _positions(options: Mapping[str, str], name: str, usual: str) -> Any:
    """Read ``earliest``, ``latest``, an offset, or JSON with one of these for each stream."""
    text = options.get(name, usual).strip()
    found: Any = text
    with suppress(ValueError):
        found = load_json(text)
    each = list(found.values()) if isinstance(found, dict) else [found]
    for one in each:
        is_offset = isinstance(one, int) and not isinstance(one, bool) and one >= 0
        if not is_offset and one not in (_EARLIEST, _LATEST):
            raise ValueError(
                f"{name} is {_EARLIEST}, {_LATEST}, an offset from 0 on, or JSON with one of these "
                f'for each stream, such as {{"orders": 120}}, not {text[:60]!r}'
            )
    return found


class Amqp10Stream(DataSource):
    """RabbitMQ's streams and Azure's event hubs; a row is a message.

    They are read over AMQP 1.0 or, for RabbitMQ's streams several times as fast, by its stream
    protocol, where its plugin rabbitmq_stream is enabled. By the latter, ``wire`` has the bytes
    that were stored, without the annotations that the broker adds at a delivery, such as
    ``x-stream-offset``. ``arrival_time`` is then when the broker stored a message, together with
    others that came in the same moment.

    A partition of an event hub is a stream whose offsets are sequence numbers. The columns are
    those of `STREAM_ROWS`, and what is to be decoded. Each stream, of a super stream or an event
    hub each partition, is divided into ranges of offsets, one to a task. A range is read to its
    end: what does not come in time is an error, and so is what the retention of the stream removed.

    Options:
        url: of the broker, such as ``amqps://host:5671``, or for the stream protocol
            ``rabbitmq-stream://host:5552/vhost`` or ``rabbitmq-stream+tls://host:5551``; several,
            with spaces between, are nodes of a cluster. User and password may be ``${NAME}``, a
            variable of the environment, or ``${file:PATH}``, both of the driver; other parameters
            are those of a bridge's URL.
        stream: its name; several separated by commas, or as a list of JSON.
        superStream: instead of that, a super stream. Over AMQP 1.0 its partitions are numbered from
            0; by the stream protocol the broker says which they are.
        eventHub: instead of that, the name of an event hub in the namespace that the URL is of;
            user and password are the name of a shared access policy and its key.
        consumerGroup: of the event hub; ``$Default`` where it is not given.
        startingTime: for an event hub, instead of startingOffsets: a time of ISO 8601, from which
            on events were enqueued.
        startingOffsets: ``earliest`` where it is not given, ``latest``, an offset, or JSON with one
            of these for each stream, such as ``{"orders/Partitions/0": 120}``. A query that has a
            checkpoint goes on from there.
        endingOffsets: likewise, of a batch; ``latest`` where it is not given.
        rowsPerPartition: offsets of one task. Where it is not given, 100,000; by the stream
            protocol a quarter of what is read, from 100,000 to 1,000,000.
        maxRowsPerBatch: offsets of one batch of a streaming query, from PySpark 4.2 on.
        readTimeout: seconds without a message after which a range is an error; 60.
        failOnDataLoss: whether offsets that retention removed are an error; ``true``. With
            ``false``, a row without a message has their count in the column ``lost``.
        filterValues: filter values of RabbitMQ's streams, one of which a message has, in its
            annotation ``x-stream-filter-value``.
        matchUnfiltered: with these, messages without a filter value, too: ``true`` or ``false``.
        sqlFilter: an SQL filter expression, which RabbitMQ evaluates from 4.2 on over AMQP 1.0;
            otherwise the tasks do.
        columns: what is to be decoded of the messages, as `amqp10msg.spark.decode` has it, with
            commas between; ``error`` comes after it.
        maps: how maps are decoded: ``variant`` or ``map``.

    The filters are options because there is no push-down of filters: that of PySpark 4.3 gives
    wrong results where one DataFrame is used twice.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name for ``format``."""
        return "amqp10-stream"

    def schema(self) -> StructType:
        """Return the columns: `STREAM_ROWS`, and what is decoded."""
        return for_spark(_Options.of(self.options).schema())

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002  (Spark's signature)
        """Return the reader of what is there now."""
        return _Reader(_Options.of(self.options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802  (Spark's names)
        """Return the reader of what comes."""
        options = _Options.of(self.options)
        if limits is None and options.max_rows is not None:
            with plainly():
                raise ValueError(f"{_MAX_ROWS} needs PySpark 4.2 or later")
        return _StreamReader(options)


class _Ranges:
    """Both readers: the options, and the messages of one range."""

    def __init__(self, options: _Options) -> None:
        self._options = options

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield from self._options.batches(partition.value)
        settle()


class _Reader(_Ranges, DataSourceReader):
    @plainly()
    def partitions(self) -> list[InputPartition]:
        options = self._options
        with options.probe() as probe:
            bounds = probe.bounds(options.names(probe))
            start = options.start(bounds, probe)
        end = options.offsets(options.ending, bounds, "endingOffsets")
        return options.parts(start, end, bounds)


class _StreamReader(_Ranges, DataSourceStreamReader, AvailableNow):  # type: ignore[misc]  # Any where Spark has no types
    """Reads streams as they grow; an offset of Spark has the next offset of each stream."""

    _end: Offsets | None = None

    def __init__(self, options: _Options) -> None:
        super().__init__(options)
        self._probe: Probe | None = None
        self._names: tuple[str, ...] | None = None
        self._looked = 0.0

    def __getstate__(self) -> dict[str, Any]:
        # What goes to the tasks, which need no connection of this one.
        return {**self.__dict__, "_probe": None}

    def _asked(self) -> Probe:
        if self._probe is None:
            self._probe = self._options.probe()
        return self._probe

    def _bounds(self) -> dict[str, Bounds]:
        time.sleep(max(0.0, min(_BETWEEN, self._looked + _BETWEEN - time.monotonic())))
        probe = self._asked()
        if self._names is None:
            self._names = self._options.names(probe)
        found = probe.bounds(self._names)
        self._looked = time.monotonic()
        return found

    @plainly()
    def initialOffset(self) -> Offsets:  # noqa: N802  (Spark's names)
        return self._options.start(self._bounds(), self._asked())

    def _latest(self) -> Offsets:
        return {name: one.next for name, one in self._bounds().items()}

    def getDefaultReadLimit(self) -> Any:  # noqa: N802  (Spark's names)
        most = self._options.max_rows
        return limits.ReadAllAvailable() if most is None else limits.ReadMaxRows(most)

    @plainly()
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802  (Spark's names)
        self._end = self._latest()

    @plainly()
    def latestOffset(  # noqa: N802  (Spark's names)
        self, start: Offsets | None = None, limit: Any = None
    ) -> Offsets:
        end = self._latest() if self._end is None else self._end
        if start is None:  # before PySpark 4.2
            return end
        for name, place in start.items():
            if end.get(name, place) < place:
                raise ValueError(_too_far(name, end[name], place))
        most = limit.max_rows if isinstance(limit, limits.ReadMaxRows) else None
        # A stream that is not read any more keeps its place.
        return {**start, **(end if most is None else limited(start, end, most))}

    def reportLatestOffset(self) -> Offsets | None:  # noqa: N802  (Spark's names)
        return self._end

    @plainly()
    def partitions(self, start: Offsets, end: Offsets) -> list[InputPartition]:
        if start == end:
            return []
        return self._options.parts(start, end, self._bounds())

    def stop(self) -> None:
        if self._probe is not None:
            self._probe.close()
            self._probe = None


def limited(start: Offsets, end: Offsets, most: int) -> Offsets:
    """Return an end with so many offsets at most after the start, the same share of each stream."""
    made = {name: start.get(name, 0) for name in end}
    left = most
    while left > 0:
        behind = [name for name in end if made[name] < end[name]]
        if not behind:
            break
        share = max(left // len(behind), 1)
        for name in behind:
            taken = min(share, end[name] - made[name], left)
            made[name] += taken
            left -= taken
    return made
