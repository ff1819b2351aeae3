"""Messages from Parquet: tables with a column of encoded messages, and what jobs write."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, Any

from amqp10msg.files._record import Record

#: Columns that hold an encoded message; the first that is there is read.
COLUMNS = ("wire", "raw")
# Those of AMQP 0-9-1, and what else a record has a place for.
_BASIC = "content_header"
_OTHERS = (
    *("protocol", "connection", "address", "delivery_tag", "message_format"),
    *(_BASIC, "payload", "exchange", "routing_key", "redelivered"),
)
_FAULTS = ("fault", "error_code", "error_text", "source", "offset")
# The code under which a quarantine has what could not be read (`amqp10msg.jobs`).
_UNREADABLE = {"unreadable-input", "damaged-file"}
_BATCH_ROWS = 256


def read_parquet(stream: IO[bytes]) -> Iterator[Record]:
    """Read a table row by row; rows without a message are left out.

    Raises:
        ValueError: this is not Parquet, or has no column for messages.
        ImportError: pyarrow is not installed.
    """
    try:
        import pyarrow as pa  # noqa: PLC0415  (an extra)
        import pyarrow.parquet as pq  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise ImportError("Parquet needs pyarrow: pip install 'amqp10msg[arrow]'") from error
    if not stream.seekable():
        raise ValueError("Parquet can be read from a file alone, not from a pipe or gzip")
    try:
        with pq.ParquetFile(stream) as file:
            names = file.schema_arrow.names
            column = next((name for name in COLUMNS if name in names), None)
            if column is None and _BASIC not in names:
                raise ValueError(
                    f"there is no column {' or '.join(COLUMNS)} of encoded messages: "
                    f"there are {', '.join(names[:8])}{', …' if len(names) > 8 else ''}"
                )
            wanted = [name for name in (column, *_OTHERS, *_FAULTS) if name in names]
            number = 0
            for batch in file.iter_batches(_BATCH_ROWS, columns=wanted, use_threads=False):
                for row in batch.to_pylist():
                    record = _record(number, row, column)
                    number += 1
                    if record is not None:
                        yield record
    except pa.ArrowException as error:
        raise ValueError(f"this is not Parquet, or damaged: {error}") from None


def _record(number: int, row: dict[str, Any], column: str | None) -> Record | None:
    wire = row.get(column) if column else None
    fault = row.get("fault") or (
        row.get("error_text") if row.get("error_code") in _UNREADABLE else None
    )
    if wire is None and row.get(_BASIC) is None and not fault:
        return None
    for name in (column, _BASIC, "payload"):
        if not isinstance(row.get(name or "", b""), (bytes, type(None))):
            raise ValueError(f"the column {name} has no bytes in it")  # noqa: TRY004  (the file's)
    known = {name: row[name] for name in _OTHERS if row.get(name) is not None}
    if wire is None and "protocol" not in known:
        known["protocol"] = "amqp-0-9-1"
    source, offset = row.get("source"), row.get("offset")
    origin = None if source is None else f"{source}@{offset or 0}"
    return Record(number, wire, fault or "", origin=origin, **known)
