"""Streams into tables of Delta Lake, each batch once; without the connector of Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
from pyspark.sql import DataFrame


def to_delta(
    table: str | Path,
    app: str,
    *,
    quarantine: str | Path | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> Callable[[DataFrame, int], None]:
    """Return what ``foreachBatch`` calls to append the batches of a stream to a Delta table.

    Each batch is one transaction of the table, which has its number; one that Spark repeats,
    because something was killed before the checkpoint had it, is found there and left out. The rows
    of a batch go through the memory of the driver: bound a batch by ``maxFilesPerTrigger``. Needs
    the extra ``amqp10msg[delta]``.

    Args:
        table: where it is; made with the first batch.
        app: the name of the stream in the log of the table. It belongs to one checkpoint: with
            another one, whose batches are counted anew, give another name.
        quarantine: a second table, for rows with an ``error_code``; all go to the first where None.
        storage_options: of an object store, as deltalake has them.

    Raises:
        ModuleNotFoundError: deltalake is not installed.
    """
    try:
        import deltalake  # noqa: PLC0415  (an extra)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "to_delta needs deltalake: pip install 'amqp10msg[delta]'", name=error.name
        ) from None
    options = None if storage_options is None else dict(storage_options)
    tables = [str(place) for place in (table, quarantine) if place is not None]

    def is_done(place: str, batch: int) -> bool:
        if not deltalake.DeltaTable.is_deltatable(place, options):
            return False
        last = deltalake.DeltaTable(place, storage_options=options).transaction_version(app)
        return last is not None and last >= batch

    def append(place: str, rows: Any, batch: int) -> None:
        transaction = deltalake.Transaction(app_id=app, version=batch)
        deltalake.write_deltalake(
            place,
            rows,
            mode="append",
            storage_options=options,
            commit_properties=deltalake.CommitProperties(app_transactions=[transaction]),
        )

    def write(df: DataFrame, batch: int) -> None:
        missing = [place for place in tables if not is_done(place, batch)]
        if not missing:
            return
        rows: Any = df.toArrow()
        parts = [rows]
        if quarantine is not None:
            bad = pc.is_valid(rows.column("error_code"))
            parts = [rows.filter(pc.invert(bad)), rows.filter(bad)]
        for place, part in zip(tables, parts, strict=True):
            if place in missing:
                append(place, part, batch)

    return write
