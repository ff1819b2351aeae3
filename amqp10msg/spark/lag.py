"""How far a streaming query is behind the ends of the streams that it reads."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from pyspark.sql.datasource import CaseInsensitiveDict

from amqp10msg.files.text import load_json
from amqp10msg.spark._offsets import Offsets, without_start
from amqp10msg.spark._workers import streaming_datasource
from amqp10msg.spark.stream_source import query_bounds


def offsets_behind_latest(
    progress: Any, options: Mapping[str, str] | None = None
) -> dict[str, int]:
    """Return how many offsets of each stream a streaming query has not read yet, by name.

    The query reads the data source ``amqp10-stream``. The number is the offset after the last
    message of the stream, minus the offset after the last message of the query's last batch.

    Args:
        progress: the progress of the source: an item of ``sources`` of a StreamingQueryProgress, as
            an object or as a dict.
        options: the options of the source, to query the broker for the ends of the streams. Without
            them, the ends are those that the source reported when the batch was planned. This needs
            PySpark 4.2: earlier versions report the end of the batch as the latest offset.

    Raises:
        ValueError: the progress is not from this data source, or has no offset yet; or the options
            are missing or invalid.
        OSError: the broker cannot be reached, or refuses the query.
    """
    end = _offsets_of(progress, "endOffset")
    if options is not None:
        bounds = query_bounds(CaseInsensitiveDict(options))
        return {
            name: max(stream.next - end.get(name, stream.first), 0)
            for name, stream in bounds.items()
        }
    if streaming_datasource is None:
        raise ValueError(
            "PySpark before 4.2 does not report the latest offsets: pass the options of the source"
        )
    latest = _offsets_of(progress, "latestOffset")
    return {name: max(offset - end.get(name, 0), 0) for name, offset in latest.items()}


def _offsets_of(progress: Any, name: str) -> Offsets:
    """Return an offset in the progress of a source.

    Raises:
        ValueError: it is not an offset of this data source.
    """
    value = progress.get(name) if isinstance(progress, Mapping) else getattr(progress, name, None)
    if isinstance(value, str):
        value = _parse_offset(value)
    if isinstance(value, dict):
        offsets: dict[str, Any] = without_start(value)
        if all(isinstance(item, int) and not isinstance(item, bool) for item in offsets.values()):
            return offsets
    raise ValueError(
        "progress must be an item of `sources` of a query that reads amqp10-stream, but its "
        f"{name} is {str(value)[:60]!r}"
    )


def _parse_offset(text: str) -> Any:
    """Parse JSON, or a dict's repr, which PySpark 4.0 reports; return `text` if it is neither."""
    for parse in (load_json, ast.literal_eval):
        try:
            return parse(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
    return text
