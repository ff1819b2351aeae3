"""Parts of files, and reading them.

Whole jobs have the workers open their input: what Spark distributes is a row for each part, and no
message passes through the JVM.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.parquet as pq

from amqp10msg import files
from amqp10msg.spark._filters import Filters

__all__ = [
    "MESSAGES",
    "PARQUET",
    "PART",
    "Reading",
    "parquet_parts",
    "part_of_row",
    "row_of_part",
]

#: The columns of messages from files; see `amqp10msg.files.Record`.
MESSAGES = pa.schema(
    [
        ("source", pa.string()),
        ("offset", pa.int64()),
        ("time", pa.timestamp("us", "UTC")),
        ("protocol", pa.string()),
        ("connection", pa.string()),
        ("address", pa.string()),
        ("delivery_tag", pa.binary()),
        ("message_format", pa.int64()),
        ("wire", pa.binary()),
        ("content_header", pa.binary()),
        ("payload", pa.binary()),
        ("exchange", pa.string()),
        ("routing_key", pa.string()),
        ("fault", pa.string()),
    ]
)
# A batch ends with the first of these.
_BATCH_ROWS = 8_192
_BATCH_OCTETS = 16 << 20
#: The column of the rows that stand for parts.
PART = "amqp10msg_part"
PARQUET = "parquet"
# Octets of a part, as they are in memory: a task of a second or less.
_PART_OCTETS = 64 << 20


def row_of_part(part: files.Range) -> pa.RecordBatch:
    """Give the row that stands for a part."""
    return pa.RecordBatch.from_arrays([pa.array([json.dumps(attrs.asdict(part))])], [PART])


def part_of_row(text: str) -> files.Range:
    """Read what `row_of_part` gave."""
    return files.Range(**json.loads(text))


def parquet_parts(paths: list[str]) -> tuple[pa.Schema, list[files.Range]] | None:
    """Divide Parquet files into parts of whole row groups, which they count from and to.

    Returns:
        The schema and the parts; None where the files have not one schema.

    Raises:
        OSError: a file cannot be read, or is no Parquet file.
    """
    parts: list[files.Range] = []
    schema = None
    for path in paths:
        with pq.ParquetFile(path) as file:
            found = file.schema_arrow.remove_metadata()
            if schema is not None and found != schema:
                return None
            schema = found
            metadata = file.metadata
        start = octets = 0
        for group in range(metadata.num_row_groups):
            octets += metadata.row_group(group).total_byte_size
            if octets >= _PART_OCTETS or group == metadata.num_row_groups - 1:
                parts.append(files.Range(path, PARQUET, start, group + 1))
                start, octets = group + 1, 0
    return None if schema is None else (schema, parts)


@attrs.frozen
class Reading:
    """How parts are read.

    Attributes:
        max_size: octets that one message may take.
        filters: which messages are wanted.
    """

    max_size: int
    filters: Filters

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Reading:
        """Read the options of a data source.

        Raises:
            ValueError: one of them is wrong.
        """
        return cls(int(options.get("maxSize", files.MAX_SIZE)), Filters.of(options))

    def batches(self, part: files.Range) -> Iterator[pa.RecordBatch]:
        """Read a part: rows of `MESSAGES`, or of Parquet as they are there."""
        if part.form == PARQUET:
            with pq.ParquetFile(Path(part.path)) as file:
                groups = list(range(part.start, part.stop))
                size = _rows_of_batch(file.metadata, groups)
                yield from file.iter_batches(size, row_groups=groups, use_threads=False)
            return
        rows: list[tuple[Any, ...]] = []
        octets = 0
        records = files.read(
            part.path, part.form, start=part.start, stop=part.stop, max_size=self.max_size
        )
        for record in filter(self.filters.admits, records):
            rows.append(
                (
                    part.path,
                    record.offset,
                    record.time,
                    record.protocol,
                    record.connection,
                    record.address,
                    record.delivery_tag,
                    record.message_format,
                    record.wire,
                    record.content_header,
                    record.payload,
                    record.exchange,
                    record.routing_key,
                    record.fault or None,
                )
            )
            octets += len(record.wire or b"") + len(record.payload or b"")
            if len(rows) >= _BATCH_ROWS or octets >= _BATCH_OCTETS:
                yield _batch(rows)
                rows, octets = [], 0
        if rows:
            yield _batch(rows)


def _rows_of_batch(metadata: Any, groups: list[int]) -> int:
    """Choose how many rows are read at once, so that large ones are no more octets than small."""
    found = [metadata.row_group(group) for group in groups]
    rows = sum(group.num_rows for group in found) or 1
    octets = sum(group.total_byte_size for group in found) // rows
    return max(1, min(_BATCH_ROWS, _BATCH_OCTETS // (octets or 1)))


def _batch(rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    return pa.RecordBatch.from_arrays(
        [pa.array(column, field.type) for column, field in zip(columns, MESSAGES, strict=True)],
        schema=MESSAGES,
    )
