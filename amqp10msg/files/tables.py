"""Messages from Parquet: tables with a column of encoded messages, and what jobs write."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import attrs

from amqp10msg.files._pages import Made, Pages
from amqp10msg.files._record import Record
from amqp10msg.files.containers import RAISE_EXPANSION, too_large
from amqp10msg.files.fetching import Fetched
from amqp10msg.wire.later import of_extra
from amqp10msg.wire.limits import Limits

if TYPE_CHECKING:
    import pyarrow as pa

#: Columns that hold an encoded message; the first that is there is read.
COLUMNS = ("wire", "raw")
# Those of AMQP 0-9-1, and what else a record has a place for.
_BASIC = "content_header"
_OTHERS = (
    *("protocol", "connection", "address", "delivery_tag", "message_format"),
    *(_BASIC, "payload", "exchange", "routing_key", "redelivered"),
)
_FAULTS = ("fault", "error_code", "error_text", "source", "offset")
_TEXTS = (
    *("protocol", "connection", "address", "exchange", "routing_key"),
    *("fault", "error_code", "error_text", "source"),
)
_PROTOCOLS = ("1.0", "0-9-1")
# The code under which a quarantine has what could not be read (`amqp10msg.jobs`).
_UNREADABLE = {"unreadable-input", "damaged-file"}
# Of what is not text.
_TYPES: dict[str, type] = {
    "delivery_tag": bytes,
    "message_format": int,
    _BASIC: bytes,
    "payload": bytes,
    "redelivered": bool,
}
# What is read at once, whichever comes first.
_BATCH_ROWS = 256
_BATCH_OCTETS = 4 << 20
#: Bytes of a column that pyarrow reads at a time, and not those of its row group.
AT_A_TIME = 256 << 10
# What a row group may make, however small its file is.
_ROOM = 256 << 20
# Rows that a file may have, and bytes that they may make, however small it is.
_ROWS = 1 << 20
_CONTENT = 16 << 30


def read_parquet(stream: IO[bytes], max_size: int, limits: Limits) -> Iterator[Record]:
    """Read a table row by row; rows without a message are left out.

    A row group that makes more than the limit `expansion` says is a record with a fault, and the
    others are read.

    Raises:
        ValueError: this is not Parquet, or has no column for messages.
        ImportError: pyarrow is not installed.
    """
    pq = of_extra("pyarrow.parquet", "arrow", "Parquet needs pyarrow")
    import pyarrow as pa  # noqa: PLC0415  (an extra)

    if not stream.seekable():
        raise ValueError("Parquet can be read from a file alone, not from a pipe or gzip")
    number = 0
    try:
        with pq.ParquetFile(stream, buffer_size=AT_A_TIME, pre_buffer=False) as file:
            names = file.schema_arrow.names
            column = next((name for name in COLUMNS if name in names), None)
            if column is None and _BASIC not in names:
                raise ValueError(
                    f"there is no column {' or '.join(COLUMNS)} of encoded messages: "
                    f"there are {', '.join(names[:8])}{', …' if len(names) > 8 else ''}"
                )
            wanted = [name for name in (column or "", *_OTHERS, *_FAULTS) if name in names]
            bounded = Bounded(stream, file, stream.seek(0, io.SEEK_END), limits, wanted)
            if fault := bounded.refused():
                raise ValueError(fault)
            for group in range(file.metadata.num_row_groups):
                behind = number + file.metadata.row_group(group).num_rows
                fault = bounded.refused(group)
                try:
                    for batch in (
                        () if fault else bounded.batches(group, _BATCH_ROWS, _BATCH_OCTETS)
                    ):
                        for row in _octets(batch).to_pylist():
                            record = _record(number, row, column, max_size)
                            number += 1
                            if record is not None:
                                yield record
                except (pa.ArrowException, OSError) as error:
                    if getattr(error, "errno", None) is not None:  # the system's own
                        raise
                    fault = f"row group {group} cannot be read: {str(error).strip()}"
                if fault:
                    rest = f"its rows from {number:,} to {behind - 1:,} are left out"
                    yield Record(number, fault=f"{fault}; {rest}")
                number = behind
    except ExpansionError as error:
        yield Record(number, fault=f"{error}; what follows is not read", ends=True)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        if getattr(error, "errno", None) is not None:  # the system's own
            raise
        raise ValueError(f"this is not Parquet, or damaged: {str(error).strip()}") from None


@attrs.define
class Bounded:
    """A Parquet file that costs no more than `Limits` say.

    Attributes:
        source: what `pyarrow.parquet.ParquetFile` opens.
        file: that, opened.
        octets: how large the file is.
        limits: of them, `expansion`.
        names: the columns that are read; all where None.
        stop: row groups from this one on are not read; None for the end of the file.
        room: bytes that rows may still make.
    """

    source: Any
    file: Any
    octets: int
    limits: Limits
    names: Sequence[str] | None = None
    stop: int | None = None
    room: int = attrs.field(init=False)
    _rows: int = attrs.field(init=False)
    _pages: Pages | None = attrs.field(init=False, default=None)
    _made: dict[int, Made] = attrs.field(init=False, factory=dict)

    def __attrs_post_init__(self) -> None:
        self.room = self._most(_CONTENT)
        metadata = self.file.metadata
        self._rows = sum(metadata.row_group(i).num_rows for i in range(metadata.num_row_groups))
        if self.stop is None:
            self.stop = metadata.num_row_groups

    def _most(self, least: int) -> int:
        return max(least, self.limits.expansion * self.octets)

    def refused(self, group: int | None = None) -> str:
        """Return why a row group, or where None the file, is not read; empty where it is.

        One is not that makes more than 256 MiB, as its pages say, or a file that has more than a
        million rows, and more than the limit says of the bytes that there are.
        """
        # Rows that are null, or equal, take no byte each.
        if self._rows > self._most(_ROWS):
            return self._too_much(f"the file has {self._rows:,} rows", "the bytes")
        if group is None:
            return ""
        # No more of the metadata is looked at: where that of a column is damaged, pyarrow 26 ends
        # the process.
        most = self._most(_ROOM)
        made = self.file.metadata.row_group(group).total_byte_size
        if made <= most:
            try:
                self._made[group] = self._walked(group, most)
            except ValueError as error:
                return f"damaged, or not Parquet: row group {group} cannot be read: {error}"
            made = self._made[group].octets
        if made > most:
            return self._too_much(f"row group {group} makes {made:,} bytes", "those")
        return ""

    def _walked(self, group: int, most: int) -> Made:
        """Add up what the pages of a row group make by their headers, whatever the footer says."""
        if not self.file.metadata.row_group(group).num_rows:
            return Made(0, 0)  # pyarrow reads no page of it, and there need not be any
        with ExitStack() as stack:
            stream = self.source
            if not hasattr(stream, "read"):
                stream = stack.enter_context(Path(stream).open("rb"))
            if self._pages is None:
                self._pages = Pages(stream, self._columns())
            if isinstance(stream, Fetched):
                # The pages, the longest values and the rows are read of what is fetched once.
                read = range(group, min(group + 2, self.stop or 0))
                stream.expect(*map(self._pages.spans, read))
            return self._pages.made(stream, group, most)

    def _columns(self) -> list[int] | None:
        """Return which columns of the file are read, by their number; None for all."""
        if self.names is None:
            return None
        schema = self.file.metadata.schema
        paths = [schema.column(number).path for number in range(len(schema))]
        return [
            number
            for number, path in enumerate(paths)
            if any(path == name or path.startswith(f"{name}.") for name in self.names)
        ]

    def _too_much(self, said: str, of_what: str) -> str:
        return (
            f"{said}, more than {self.limits.expansion} times {of_what} of the file, "
            f"{self.octets:,}: {RAISE_EXPANSION}"
        )

    def batches(self, group: int, most: int, octets: int) -> Iterator[pa.RecordBatch]:
        """Read a row group that is not refused, without views and dictionaries of bytes.

        A batch has `most` rows or `octets` bytes at most, but a row at least.

        Raises:
            ExpansionError: the rows would make more than 16 GiB, and more than the limit says.
        """
        size = self._rows_of_batch(group, most, octets)
        for batch in self.file.iter_batches(
            size, row_groups=[group], columns=self.names, use_threads=False
        ):
            plain = plainly(batch)
            self.room -= plain.nbytes
            if self.room < 0:
                said = f"the rows make more than {self._most(_CONTENT):,} bytes"
                raise ExpansionError(self._too_much(said, "those"))
            yield plain

    def _rows_of_batch(self, group: int, most: int, octets: int) -> int:
        """Return how many rows to read at once, so that those of large values are fewer.

        Values that are equal stand in the file once, in the dictionary of their column, and in a
        batch as often as there are rows: its longest value says what a row may take.
        """
        import pyarrow.parquet as pq  # noqa: PLC0415  (an extra)

        found = self.file.metadata.row_group(group)
        row = max(found.total_byte_size // (found.num_rows or 1), self._made[group].longest)
        # Nested values are left to the mean: a row of them may hold any number.
        texts = [
            field.name
            for field in self.file.schema_arrow
            if (self.names is None or field.name in self.names)
            and _is_text(field.type)
            and "." not in field.name
        ]
        if texts:
            # The footer is not read again.
            with pq.ParquetFile(
                self.source,
                metadata=self.file.metadata,
                read_dictionary=texts,
                buffer_size=AT_A_TIME,
                pre_buffer=False,
            ) as probe:
                first = next(
                    probe.iter_batches(1, row_groups=[group], columns=texts, use_threads=False),
                    None,
                )
                if first is not None:
                    row = max(row, sum(_longest(column) for column in first.columns))
        fitting: int = octets // max(row, 1)
        return max(1, min(most, fitting))


class ExpansionError(ValueError):
    """A Parquet file makes more of its bytes than it may."""


def plainly(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch without views, and without dictionaries of bytes, as jobs need it."""
    import pyarrow as pa  # noqa: PLC0415  (an extra)

    for place, field in enumerate(batch.schema):
        kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        if kind != field.type and (pa.types.is_binary(kind) or pa.types.is_large_binary(kind)):
            column = batch.column(place).dictionary_decode()
        elif kind == pa.binary_view() or kind == pa.string_view():
            column = batch.column(place).cast(
                pa.binary() if kind == pa.binary_view() else pa.string()
            )
        else:
            continue
        batch = batch.set_column(place, field.with_type(column.type), column)
    return batch


def _octets(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch with texts as bytes: one that is not UTF-8 would cost all of its rows."""
    import pyarrow as pa  # noqa: PLC0415  (an extra)

    for place, field in enumerate(batch.schema):
        kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        if field.name in _TEXTS and (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
            column = batch.column(place)
            column = column.dictionary_decode() if kind != field.type else column
            wanted = pa.binary() if pa.types.is_string(kind) else pa.large_binary()
            batch = batch.set_column(place, field.with_type(wanted), column.cast(wanted))
    return batch


def _is_text(kind: Any) -> bool:
    """Return whether a column is of bytes or text, which may stand in a dictionary."""
    import pyarrow as pa  # noqa: PLC0415  (an extra)

    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    found: bool = kind in {
        *(pa.binary(), pa.large_binary(), pa.binary_view()),
        *(pa.string(), pa.large_string(), pa.string_view()),
    }
    return found


def _longest(column: Any) -> int:
    """Return the length of the longest value that the dictionary of a column has."""
    import pyarrow as pa  # noqa: PLC0415  (an extra)
    import pyarrow.compute as pc  # noqa: PLC0415  (an extra)

    if not pa.types.is_dictionary(column.type):
        return 0
    return int(pc.max(pc.binary_length(column.dictionary)).as_py() or 0)


def _record(number: int, row: dict[str, Any], column: str | None, max_size: int) -> Record | None:
    wire = row.get(column) if column else None
    for name in _TEXTS:
        if isinstance(row.get(name), bytes):
            row[name] = row[name].decode("utf-8", "backslashreplace")
    fault = row.get("fault") or (
        row.get("error_text") if row.get("error_code") in _UNREADABLE else None
    )
    if wire is None and row.get(_BASIC) is None and not fault:
        return None
    for name in (column or "", _BASIC, "payload"):
        value = row.get(name, b"")
        if not isinstance(value, (bytes, type(None))):
            raise ValueError(f"the column {name} has no bytes in it")  # noqa: TRY004  (the file's)
        if len(value or b"") > max_size:
            return Record(number, (value or b"")[:1024], too_large(max_size))
    known = {name: row[name] for name in _OTHERS if row.get(name) is not None}
    for place, value in known.items():
        if not isinstance(value, _TYPES.get(place, str)):
            return Record(number, wire, f"the column {place} has {value!r:.80} in it")
    if known.get("protocol", _PROTOCOLS[0]) not in _PROTOCOLS:
        return Record(number, wire, f"the protocol {known['protocol']!r:.80} is not known")
    if not 0 <= known.get("message_format", 0) < 1 << 32:
        return Record(number, wire, f"{known['message_format']} is not a message format")
    if wire is None and "protocol" not in known:
        known["protocol"] = "0-9-1"
    source, offset = row.get("source"), row.get("offset")
    origin = None if source is None else f"{source}@{offset or 0}"
    return Record(number, wire, fault or "", origin=origin, **known)
