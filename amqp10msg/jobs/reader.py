"""The rows of a job as a stream of Arrow, for whatever reads that."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path

import attrs
import pyarrow as pa

from amqp10msg.columns import in_pieces
from amqp10msg.jobs._stats import Stats
from amqp10msg.jobs.inputs import (
    MESSAGES,
    RANGE_OCTETS,
    READING,
    Input,
    Reading,
    input_of,
    number_of,
    refuse_unknown,
)
from amqp10msg.jobs.job import Job


def read(
    source: str | Path,
    job: Job | None = None,
    *,
    form: str | None = None,
    options: Mapping[str, str] | None = None,
) -> pa.RecordBatchReader:
    """Return the rows of a job, batch by batch, and write nothing.

    DuckDB, Polars, pandas, PyIceberg, deltalake and Arrow Flight take such a reader. It reads the
    files as it is read, once, in one process, with a few thousand messages in memory at a time.

    Its columns are those of the good rows and those of the quarantine: a message that `run` would
    write to the quarantine is a row with ``error_code``, ``error_clause``, ``error_offset`` and
    ``error_text``, its bytes and the place where it stands; the others have null there.

    Args:
        source: a file, a folder with what is below it, or a pattern.
        job: what to do; ``Job("decode")`` where None.
        form: ``parquet``, or one of `amqp10msg.files.FORMS`; found out where None.
        options: those of `run` that are about reading.

    Raises:
        ValueError: the job cannot be done on this input, or an option is wrong.
        OSError: there is no such file, or it cannot be read; of Parquet, none is whole.
    """
    job = job or Job("decode")
    given = dict(options or {})
    refuse_unknown(given, READING)
    reading = Reading.of(given)
    size = number_of(given, "rangeBytes", RANGE_OCTETS, "bytes")
    found = input_of(str(source), form, lambda _: size)
    job.check(found.names)
    made = _rows(found, attrs.evolve(reading, rows=found.rows), job)
    first = next(made, None) or _rows_of(_none_of(found), job)
    schema = _both(first)
    return pa.RecordBatchReader.from_batches(
        schema, (_as(schema, one) for rows in chain([first], made) for one in rows)
    )


# The good rows of a batch, and the others.
_Rows = tuple[pa.RecordBatch, pa.RecordBatch]


def _rows(found: Input, reading: Reading, job: Job) -> Iterator[_Rows]:
    for part in found.parts:
        for batch in reading.batches(part):
            for _, rows in in_pieces(batch, lambda piece: _rows_of(piece, job)):
                yield rows


def _rows_of(batch: pa.RecordBatch, job: Job) -> _Rows:
    return job.run(batch, Stats())


def _none_of(found: Input) -> pa.RecordBatch:
    """Return a batch of the input without rows."""
    schema = MESSAGES if found.rows is None else found.rows.schema
    return pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in schema], schema=schema)


def _both(rows: _Rows) -> pa.Schema:
    good, bad = (part.schema for part in rows)
    return pa.schema([*good, *(field for field in bad if field.name not in good.names)])


def _as(schema: pa.Schema, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch with these columns, null where it has none."""
    names = batch.schema.names
    arrays = [
        batch.column(field.name) if field.name in names else pa.nulls(batch.num_rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
