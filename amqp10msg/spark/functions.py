"""Columns of messages decoded, encoded, judged and translated; their violations and counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import pyarrow as pa
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812  (so everybody calls it)
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructType,
)

from amqp10msg import columns as arrow
from amqp10msg import validation
from amqp10msg.files.event_hubs import FIELDS, message_of
from amqp10msg.jobs.job import VALIDATED, decoded, judged
from amqp10msg.jobs.translating import BASIC, REPORT, Translator
from amqp10msg.spark._frames import (
    BINARY,
    arrow_schema,
    kept_names,
    mapped,
    quoted,
    required,
    with_errors,
)
from amqp10msg.translate import Circumstances, ProfileName
from amqp10msg.wire.errors import EncodeError


def decode(
    df: DataFrame,
    column: str = "wire",
    *,
    columns: str | Sequence[str] = "lean",
    maps: arrow.MapsAs = "variant",
    validate: validation.ProfileName | None = None,
    message_format: str | None = None,
    keep: Sequence[str] | None = None,
) -> DataFrame:
    """Decode the messages of a column to typed columns.

    A message that cannot be decoded is a row of nulls with an ``error``, a struct of ``code``,
    ``clause`` and ``offset``; it never raises. No bytes are not a message: such a row has an error,
    and that of a null has none. Each column has a comment, which DESCRIBE shows.

    Args:
        df: a DataFrame with a column of encoded messages.
        column: its name.
        columns: which columns are wanted, as for `amqp10msg.columns.decode`; the rest is not
            decoded. ``lean`` for `amqp10msg.columns.LEAN`, ``all`` for
            `amqp10msg.columns.SCHEMA`, of which `encode` makes equal messages. ``wire`` is the
            message itself. ``application_properties.tenant string`` is a column ``tenant`` of
            strings. ``error`` comes after them where no column of errors is named.
        maps: ``variant`` for map sections as VARIANT; ``map`` for exact maps of structs, which
            other readers know, too, and `encode` reads. A column ``body_value`` is a VARIANT.
        validate: the profile of `amqp10msg.validate` to hold the messages to; None for none.
        message_format: the column of `df` that holds the message-format of each transfer, an
            integer, which becomes a column of that name; None for none.
        keep: the columns of `df` to carry through; all but `column` and `message_format` where
            None.

    Raises:
        ValueError: a column is missing, has the wrong type, or is ambiguous; the profile is
            unknown.
    """
    required(df, column, BINARY)
    read = [column]
    if message_format is not None:
        required(df, message_format, LongType(), IntegerType())
        read.append(message_format)
    wanted = with_errors(columns, maps)
    if message_format is not None and "message_format" not in wanted:
        wanted = ["message_format", *wanted]
    schema = decoded(pa.array([], pa.binary()), wanted, validate, maps=maps).schema
    names = kept_names(df, keep, read, schema.names)

    def work(batch: pa.RecordBatch) -> list[pa.Array]:
        formats = None if message_format is None else batch.column(message_format)
        return list(decoded(batch.column(column), wanted, validate, formats, maps).columns)

    return mapped(df, work, schema, keep=names, read=read)


def encode(df: DataFrame, column: str = "wire", *, keep: Sequence[str] | None = None) -> DataFrame:
    """Encode typed columns to messages, as `amqp10msg.columns.encode` does.

    Args:
        df: a DataFrame with columns of `amqp10msg.columns.SCHEMA`; what is not there is absent in
            the messages. The map sections may also be maps of plain values, such as
            ``map<string,string>``, which get the AMQP types of Spark's: bigint is long. Entries of
            them may be columns, such as ``application_properties.tenant``. Other columns are not
            encoded, and are carried through.
        column: the name of the new column.
        keep: the columns of `df` to carry through; those that the schema does not know where None.

    Returns:
        A DataFrame with the kept columns, the messages, and ``encode_error``: why one could not be
        encoded (it is null then), null otherwise.

    Raises:
        ValueError: a column is not there, is of a type that cannot be encoded, or is ambiguous.
    """
    known = {**{field.name: field.type for field in arrow.SCHEMA}, "wire": pa.binary()}
    picks = {name: arrow.pick_of(name, arrow.MAPS) for name in df.columns}
    known |= {name: arrow.VALUE for name, pick in picks.items() if pick is not None}
    read = [name for name in df.columns if name in known]
    new = pa.schema([(column, pa.binary()), ("encode_error", pa.string())])
    names = kept_names(df, keep, read, new.names)
    if not read:
        raise ValueError(f"no column belongs to a message: use {', '.join(known)}")
    types = pa.schema([(name, known[name]) for name in read])
    given = arrow_schema(df.select(*map(quoted, read)).schema)
    ways = [_converter(field, known[field.name]) for field in given]

    def encoded(batch: pa.RecordBatch) -> pa.Array:
        columns = [way(batch.column(name)) for way, name in zip(ways, types.names, strict=True)]
        return arrow.encode(pa.RecordBatch.from_arrays(columns, schema=types))

    def one(row: pa.RecordBatch) -> tuple[bytes | None, str | None]:
        try:
            return encoded(row)[0].as_py(), None
        except (EncodeError, pa.ArrowInvalid) as error:
            return None, str(error)

    def work(batch: pa.RecordBatch) -> list[pa.Array]:
        try:
            octets, errors = encoded(batch), pa.nulls(len(batch), pa.string())
        except (EncodeError, pa.ArrowInvalid):
            rows = [one(batch.slice(row, 1)) for row in range(len(batch))]
            octets = pa.array([found for found, _ in rows], pa.binary())
            errors = pa.array([error for _, error in rows], pa.string())
        return [octets, errors]

    return mapped(df, work, new, keep=names, read=read)


def validate(
    df: DataFrame,
    profile: validation.ProfileName = "oasis",
    *,
    column: str = "wire",
    keep: Sequence[str] | None = None,
) -> DataFrame:
    """Judge the messages of a column by the rules of a profile.

    Args:
        df: a DataFrame with a column of encoded messages.
        profile: a name of `amqp10msg.validation.PROFILES`.
        column: the column's name.
        keep: the columns of `df` to carry through; all where None.

    Returns:
        A DataFrame with the kept columns; ``valid``, which is false where a MUST or MUST NOT is
        broken and null where there is no message; and ``violations``, an array of what
        `amqp10msg.validate` finds.

    Raises:
        ValueError: there is no such profile; a column is not there, or is ambiguous.
    """
    if profile not in validation.PROFILES:
        raise ValueError(f"unknown profile {profile!r}: use {', '.join(validation.PROFILES.names)}")
    required(df, column, BINARY)
    names = kept_names(df, keep, [], VALIDATED.names)

    def work(batch: pa.RecordBatch) -> list[pa.Array]:
        return list(judged(batch.column(column), profile))

    return mapped(df, work, VALIDATED, keep=names, read=[column])


def translate(
    df: DataFrame,
    to: Literal["1.0", "0-9-1"],
    profile: ProfileName = "lossless",
    *,
    column: str = "wire",
    strict: bool = False,
    circumstances: Circumstances | None = None,
    keep: Sequence[str] | None = None,
) -> DataFrame:
    """Translate the messages of a DataFrame between AMQP 0-9-1 and 1.0.

    A message of 0-9-1 has five columns: ``content_header``, the payload of its content header
    frame; ``payload``, the body; ``exchange``, ``routing_key`` and ``redelivered``, which may be
    absent on input.

    Args:
        df: a DataFrame with messages: a column of encoded 1.0 messages, or the columns above.
        to: the protocol to translate to: ``1.0``, or ``0-9-1`` for class basic of it.
        profile: a name of `amqp10msg.translate.PROFILES`.
        column: the column of the 1.0 messages: read for ``0-9-1``, new for ``1.0``.
        strict: refuse messages of which data of the sender would be lost for good.
        circumstances: what a broker's result depends on besides the message, the same for all.
        keep: the columns of `df` to carry through; all but those read where None.

    Returns:
        A DataFrame with the kept columns and the translated messages; with ``losses``, what the
        translation did not carry over, values as JSON; and with ``error_code``, ``error_clause``,
        ``error_offset`` and ``error_text`` where a message was refused or cannot be read.

    Raises:
        ValueError: there is no such profile; a column is not there, is of another type, or is
            ambiguous.
    """
    translator = Translator(to, profile, strict, circumstances)
    if to == "0-9-1":
        required(df, column, BINARY)
        read, new = [column], translator.schema
    else:
        types = {field.name: field.dataType for field in from_arrow_schema(BASIC).fields}
        needed = ("content_header", "payload")
        read = [name for name in types if name in needed or name in df.columns]
        for name in read:
            required(df, name, types[name])
        new = pa.schema([(column, pa.binary()), *REPORT])
    names = kept_names(df, keep, read, new.names)
    # The message of 1.0 may be in a column of any name.
    sources = ["wire"] if to == "0-9-1" else read

    def work(batch: pa.RecordBatch) -> list[pa.Array]:
        given = (batch.column(name) for name in read)
        return list(translator.run(dict(zip(sources, given, strict=True))).values())

    return mapped(df, work, new, keep=names, read=read)


def decode_values(
    df: DataFrame, column: str, *, to: str | None = None, **options: Any
) -> DataFrame:
    """Decode single AMQP-encoded values, such as Event Hubs writes into the headers of Kafka.

    Args:
        df: a DataFrame with a column of encoded values: binary, a map with binary values, or an
            array of structs with a binary field ``value``, as the source for Kafka gives headers
            (two of a name stay two there).
        column: its name.
        to: the name of the new column, which has the same form with a struct for each value;
            `column` itself where None, which is replaced.
        options: passed on to `amqp10msg.columns.decode_values`, such as its policy for values that
            are not encoded ones.

    Raises:
        ValueError: the column is not there, or of another form.
    """
    kind = required(df, column).dataType
    if not _holds_binary(kind):
        raise ValueError(
            f"the column {column!r} is {kind.simpleString()} and must be binary, "
            "map<string,binary>, or array<struct<key:string,value:binary>>"
        )
    form = _decoded_type(kind, arrow.decode_values(pa.array([], pa.binary()), **options).type)
    name = column if to is None else to
    new = pa.schema([(name, form)])
    names = kept_names(df, None, [column] if to is None else [], [name])

    def work(batch: pa.RecordBatch) -> list[pa.Array]:
        return [_decoded(batch.column(column), options)]

    made = mapped(df, work, new, keep=names, read=[column])
    order = df.columns if to is None else [*df.columns, name]
    return made.select(*(quoted(each) for each in order))


def _holds_binary(kind: Any) -> bool:
    if isinstance(kind, MapType):
        return isinstance(kind.valueType, BinaryType)
    if isinstance(kind, ArrayType) and isinstance(kind.elementType, StructType):
        fields = {field.name: field.dataType for field in kind.elementType.fields}
        return isinstance(fields.get("value"), BinaryType)
    return isinstance(kind, BinaryType)


def _decoded_type(kind: Any, value: pa.DataType) -> pa.DataType:
    if isinstance(kind, MapType):
        return pa.map_(pa.string(), value)
    if isinstance(kind, ArrayType):
        entry: Any = kind.elementType
        types = {field.name: pa.string() for field in entry.fields} | {"value": value}
        fields = [pa.field(field.name, types[field.name], field.nullable) for field in entry.fields]
        return pa.list_(pa.struct(fields))
    return value


def _decoded(array: Any, options: dict[str, Any]) -> Any:
    """Decode the values of an array, a map array or an array of structs; nulls stay nulls."""
    if not pa.types.is_nested(array.type):
        return arrow.decode_values(array, **options)
    # The array may be a slice.
    start, size = array.offsets[0].as_py(), len(array)
    offsets = pa.array(array.offsets.to_numpy()[: size + 1] - start, pa.int32())
    entries = array.values.slice(start, array.offsets[size].as_py() - start)
    fields = [
        arrow.decode_values(entries.field(index), **options)
        if field.name == "value"
        else entries.field(index).cast(pa.string())
        for index, field in enumerate(entries.type)
    ]
    mask = array.is_null() if array.null_count else None
    if pa.types.is_map(array.type):
        return pa.MapArray.from_arrays(offsets, *fields, mask=mask)
    made = pa.StructArray.from_arrays(
        fields,
        names=[field.name for field in entries.type],
        mask=entries.is_null() if entries.null_count else None,
    )
    return pa.ListArray.from_arrays(offsets, made, mask=mask)


def metrics(
    df: DataFrame, observation: Observation | str, *, column: str | None = None
) -> DataFrame:
    """Count rows and errors while they pass, without running anything twice.

    Right when tasks are repeated, in batch and in streaming queries, and with Spark Connect.

    Args:
        df: what `decode`, `encode`, `validate` or `translate` gave, or any other.
        observation: takes the counts of a batch query: ``rows``, ``errors`` and ``octets``; a
            string in streaming queries, whose progress then has them under this name.
        column: a column of messages whose bytes are summed up; None to leave that out.
    """
    counts = [F.count(F.lit(1)).alias("rows")]
    if "error" in df.columns:
        counts.append(F.count("error").alias("errors"))
    elif "error_code" in df.columns:
        counts.append(F.count("error_code").alias("errors"))
    elif "encode_error" in df.columns:
        counts.append(F.count("encode_error").alias("errors"))
    elif "valid" in df.columns:
        counts.append(F.count(F.when(~F.col("valid"), 1)).alias("errors"))
    if column is not None:
        counts.append(F.sum(F.length(F.col(quoted(column)))).alias("octets"))
    return df.observe(observation, *counts)


# Columns as people have them, made into those that `encode` reads.


def _converter(field: pa.Field, wanted: pa.DataType) -> Callable[[Any], Any]:
    """Return the conversion of arrays of a field's type to the type that is wanted."""
    kind = field.type
    if kind == arrow.VARIANT:
        raise ValueError(
            f"the column {field.name!r} is a VARIANT, which does not say AMQP's types: decode with "
            "columns='all' and maps='map', or drop it"
        )
    has_texts = pa.types.is_map(kind) and pa.types.is_string(kind.key_type)
    if pa.types.is_map(wanted) and has_texts and _is_plain(kind.item_type):
        return lambda array: _map_of_structs(array).cast(wanted)
    if wanted == arrow.VALUE and _is_plain(kind):
        return arrow.value_structs
    try:
        if pa.types.is_map(wanted) and not (has_texts and pa.types.is_struct(kind.item_type)):
            raise pa.ArrowInvalid  # an empty map of anything can be cast
        pa.array([], kind).cast(wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
        others = ", or a map of strings or numbers" if pa.types.is_map(wanted) else ""
        raise ValueError(
            f"the column {field.name!r} is {kind} and must be {wanted}{others}: cast it, or drop it"
        ) from None
    return lambda array: array.cast(wanted)


def _is_plain(kind: pa.DataType) -> bool:
    """Whether values of an Arrow type have an AMQP type of their own."""
    try:
        arrow.value_structs(pa.array([], kind))
    except TypeError:
        return False
    return bool(kind != arrow.VALUE)


def _map_of_structs(array: Any) -> Any:
    """Give plain values of a map their AMQP types; a null becomes AMQP's."""
    size = len(array)
    if not size:
        return pa.array([], pa.map_(pa.string(), arrow.VALUE))
    # The array may be a slice.
    start, stop = array.offsets[0].as_py(), array.offsets[size].as_py()
    offsets = pa.array(array.offsets.to_numpy()[: size + 1] - start, pa.int32())
    return pa.MapArray.from_arrays(
        offsets,
        array.keys.slice(start, stop - start),
        arrow.value_structs(array.items.slice(start, stop - start), amqp_nulls=True),
        mask=array.is_null() if array.null_count else None,
    )


# Events of Event Hubs Capture, as Spark's reader of Avro gives them.

_CAPTURED_MAPS = ("SystemProperties", "Properties")
_CAPTURED: dict[str, DataType] = {
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
    required(df, "Body", _CAPTURED["Body"])
    read = [name for name in FIELDS if name in df.columns]
    for name in read:
        if name not in _CAPTURED_MAPS:
            required(df, name, _CAPTURED[name])
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
        for name in _CAPTURED_MAPS:
            event[name] = {key: _member_of(value) for key, value in event.get(name) or ()}
        try:
            return message_of(event).encode(), None
        except EncodeError as error:
            return None, str(error)

    def work(batch: pa.RecordBatch) -> list[pa.Array]:
        made = [one(event) for event in batch.select(read).to_pylist()]
        octets = pa.array([wire for wire, _ in made], pa.binary())
        return [octets, pa.array([error for _, error in made], pa.string())]

    return mapped(df, work, new, keep=names, read=read)


def _member_of(value: Any) -> Any:
    """Return a value of a union: of its members one is set, where the value is not null."""
    if isinstance(value, dict):
        return next((member for member in value.values() if member is not None), None)
    return value
