"""Events of Event Hubs Capture, as Spark's reader of Avro gives them, as messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import BinaryType, DataType, LongType, MapType, StringType, StructType

from amqp10msg.files.event_hubs import FIELDS, message_of
from amqp10msg.spark._frames import kept_names, mapped, required
from amqp10msg.wire.errors import EncodeError

_MAPS = ("SystemProperties", "Properties")
_TYPES: dict[str, DataType] = {
    "SequenceNumber": LongType(),
    "Offset": StringType(),
    "EnqueuedTimeUtc": StringType(),
    "Body": BinaryType(),
}


def from_capture(
    df: DataFrame, *, column: str = "wire", keep: Sequence[str] | None = None
) -> DataFrame:
    """Make messages of the events that Event Hubs Capture has written.

    ``session.read.format("avro").load("capture/")`` gives such events, with the package spark-avro;
    without it, `amqp10msg.spark.Amqp10` reads the files itself.

    Args:
        df: a DataFrame with the columns of Capture: ``Body``, and as far as they are there
            ``SystemProperties``, ``Properties``, ``SequenceNumber``, ``Offset`` and
            ``EnqueuedTimeUtc``.
        column: the name of the new column.
        keep: the columns of `df` to carry through; all but those of Capture where None.

    Returns:
        A DataFrame with the kept columns, the messages, and ``encode_error``: why an event could
        not be made one (it is null then), null otherwise.

    Raises:
        ValueError: a column is not there, or is of another type than Capture's.
    """
    required(df, "Body", _TYPES["Body"])
    read = [name for name in FIELDS if name in df.columns]
    for name in read:
        if name not in _MAPS:
            required(df, name, _TYPES[name])
            continue
        kind: Any = required(df, name).dataType
        is_map = isinstance(kind, MapType)
        if not is_map or not isinstance(kind.valueType, (StructType, StringType)):
            said = (
                f"the column {name!r} is {kind.simpleString()}, and must be a map of strings, or "
                "of the structs that Spark's reader of Avro makes of Capture's values"
            )
            raise ValueError(said)
    new = pa.schema([(column, pa.binary()), ("encode_error", pa.string())])
    names = kept_names(df, keep, read, new.names)

    def one(event: dict[str, Any]) -> tuple[bytes | None, str | None]:
        for name in _MAPS:
            event[name] = {key: _plain(value) for key, value in event.get(name) or ()}
        try:
            return message_of(event).encode(), None
        except EncodeError as error:
            return None, str(error)

    def work(batch: pa.RecordBatch) -> list[pa.Array]:
        made = [one(event) for event in batch.select(read).to_pylist()]
        octets = pa.array([wire for wire, _ in made], pa.binary())
        return [octets, pa.array([error for _, error in made], pa.string())]

    return mapped(df, work, new, keep=names, read=read)


def _plain(value: Any) -> Any:
    """Return a value of a union: of its members one is set, where the value is not null."""
    if isinstance(value, dict):
        return next((member for member in value.values() if member is not None), None)
    return value
