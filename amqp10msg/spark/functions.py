"""Functions on DataFrames: decode, encode, validate, translate and count messages."""

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
from amqp10msg.files.event_hubs import CAPTURE_FIELDS, message_of
from amqp10msg.jobs.job import (
    VALIDATION_SCHEMA,
    decode_column,
    decode_with_faults,
    translate_with_faults,
    validate_column,
    validate_with_faults,
)
from amqp10msg.jobs.translating import BASIC, REPORT_COLUMNS, Translator
from amqp10msg.spark._frames import (
    BINARY,
    add_error_column,
    arrow_schema,
    columns_to_keep,
    has_faults,
    map_columns,
    quote_name,
    require_column,
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
    strict: bool = True,
) -> DataFrame:
    """Decode a column of messages to typed columns.

    A message that cannot be decoded becomes a row of nulls with an ``error``, a struct of ``code``,
    ``clause`` and ``offset``; it does not raise. An empty value is also an error; a null is not.
    If `df` has a string column ``fault``, as from the data source ``amqp10``, a row with a fault is
    an error with the code ``damaged-file`` or ``unreadable-input``, and its bytes are not decoded.
    Each column has a comment, which DESCRIBE shows.

    Args:
        df: a DataFrame with a column of encoded messages.
        column: the name of that column.
        columns: the columns to decode, as in `amqp10msg.columns.decode`; other fields are skipped.
            ``lean`` for `amqp10msg.columns.LEAN`; ``all`` for `amqp10msg.columns.SCHEMA`, from
            which `encode` restores equal messages. ``wire`` is the message itself.
            ``application_properties.tenant string`` is a string column ``tenant``. The column
            ``error`` is added if no error column is selected.
        maps: ``variant`` for map sections as VARIANT; ``map`` for exact maps of structs, which more
            readers support, and which `encode` needs. The column ``body_value`` is always VARIANT.
        validate: a profile of `amqp10msg.validate` to check the messages against; None for no
            check.
        message_format: an integer column of `df` with the message-format of each transfer, which
            becomes a column ``message_format``; None to omit that column.
        keep: the columns of `df` to pass through; None for all except `column` and
            `message_format`.
        strict: if False, an invalid message has its readable values besides the error, see
            `amqp10msg.columns.decode`.

    Raises:
        ValueError: a column is missing, has the wrong type, or is ambiguous; the profile is
            unknown.
    """
    require_column(df, column, BINARY)
    inputs = [column]
    if message_format is not None:
        require_column(df, message_format, LongType(), IntegerType())
        inputs.append(message_format)
    names = add_error_column(columns, maps)
    if message_format is not None and "message_format" not in names:
        names = ["message_format", *names]
    schema = decode_column(pa.array([], pa.binary()), names, validate, maps=maps).schema
    passed = columns_to_keep(df, keep, inputs, schema.names)
    reads_faults = has_faults(df)
    if reads_faults:
        inputs.append("fault")

    def compute(batch: pa.RecordBatch) -> list[pa.Array]:
        messages = batch.column(column)
        formats = None if message_format is None else batch.column(message_format)
        if reads_faults:
            faults = batch.column("fault")
            decoded = decode_with_faults(
                messages, faults, names, validate, formats, maps, strict=strict
            )
        else:
            decoded = decode_column(messages, names, validate, formats, maps, strict=strict)
        return list(decoded.columns)

    return map_columns(df, compute, schema, keep=passed, read=inputs)


def encode(df: DataFrame, column: str = "wire", *, keep: Sequence[str] | None = None) -> DataFrame:
    """Encode typed columns to messages, like `amqp10msg.columns.encode`.

    Args:
        df: a DataFrame with columns of `amqp10msg.columns.SCHEMA`; fields without a column are
            absent in the messages. Map sections may also be maps of plain values, such as
            ``map<string,string>``; their AMQP types follow from Spark's types, so bigint becomes
            long. A column may be a single entry, such as ``application_properties.tenant``. All
            other columns are passed through.
        column: the name of the new column.
        keep: the columns of `df` to pass through; None for all that are not in the schema.

    Returns:
        A DataFrame with the kept columns, the messages, and ``encode_error``. If a message cannot
        be encoded, it is null and ``encode_error`` has the reason.

    Raises:
        ValueError: a column is missing, has a type that cannot be encoded, or is ambiguous;
            an identifier or a time comes from `decode` without the column of its types or of the
            other times, see `amqp10msg.columns.encode`.
    """
    message_types = {**{field.name: field.type for field in arrow.SCHEMA}, "wire": pa.binary()}
    picks = {name: arrow.pick_of(name, arrow.MAPS) for name in df.columns}
    message_types |= {name: arrow.VALUE for name, pick in picks.items() if pick is not None}
    inputs = [name for name in df.columns if name in message_types]
    new = pa.schema([(column, pa.binary()), ("encode_error", pa.string())])
    passed = columns_to_keep(df, keep, inputs, new.names)
    if not inputs:
        raise ValueError(
            f"no column of the DataFrame is a field of messages: use {', '.join(message_types)}"
        )
    types = pa.schema(
        pa.field(name, message_types[name], metadata=_column_metadata(df, name)) for name in inputs
    )
    arrow.encode(types.empty_table())  # raises errors of the schema before the workers start
    input_schema = arrow_schema(df.select(*map(quote_name, inputs)).schema)
    converters = [_converter(field, message_types[field.name]) for field in input_schema]

    def encode_batch(batch: pa.RecordBatch) -> pa.Array:
        """Encode the rows of a batch."""
        columns = [
            convert(batch.column(name))
            for convert, name in zip(converters, types.names, strict=True)
        ]
        return arrow.encode(pa.RecordBatch.from_arrays(columns, schema=types))

    def encode_row(row: pa.RecordBatch) -> tuple[bytes | None, str | None]:
        """Encode one row; return the message and the error, one of which is None."""
        try:
            return encode_batch(row)[0].as_py(), None
        except (EncodeError, pa.ArrowInvalid) as error:
            return None, str(error)

    def compute(batch: pa.RecordBatch) -> list[pa.Array]:
        try:
            messages, errors = encode_batch(batch), pa.nulls(len(batch), pa.string())
        except (EncodeError, pa.ArrowInvalid):
            rows = [encode_row(batch.slice(row, 1)) for row in range(len(batch))]
            messages = pa.array([message for message, _ in rows], pa.binary())
            errors = pa.array([error for _, error in rows], pa.string())
        return [messages, errors]

    return map_columns(df, compute, new, keep=passed, read=inputs)


def _column_metadata(df: DataFrame, name: str) -> dict[str, str]:
    """Return the metadata that `decode` sets on a column, if `decode` has set it.

    The column may have been renamed since: the values are those of its present name.
    """
    field = arrow.SCHEMA.field(name) if name in arrow.SCHEMA.names else pa.field(name, pa.null())
    metadata = require_column(df, name).metadata
    return {
        key.decode(): value.decode()
        for key, value in (field.metadata or {}).items()
        if key.decode() in metadata
    }


def validate(
    df: DataFrame,
    profile: validation.ProfileName | validation.Profile = "oasis",
    *,
    column: str = "wire",
    keep: Sequence[str] | None = None,
) -> DataFrame:
    """Validate a column of messages against the rules of a profile.

    If `df` has a string column ``fault``, as from the data source ``amqp10``, a row with a fault is
    invalid: its only violation has the rule ``damaged-file`` or ``unreadable-input`` and the fault
    as text. The bytes of such a row are not checked.

    Args:
        df: a DataFrame with a column of encoded messages.
        profile: a name of `amqp10msg.validation.PROFILES`, or a `Profile`.
        column: the name of that column.
        keep: the columns of `df` to pass through; None for all.

    Returns:
        A DataFrame with the kept columns; ``valid``: false if a message violates a MUST or MUST
        NOT, and null without a message; and ``violations``: an array of the violations that
        `amqp10msg.validate` reports.

    Raises:
        ValueError: the profile is unknown; a column is missing or ambiguous.
    """
    checked = validation.profile_of(profile)
    require_column(df, column, BINARY)
    passed = columns_to_keep(df, keep, [], VALIDATION_SCHEMA.names)
    reads_faults = has_faults(df)

    def compute(batch: pa.RecordBatch) -> list[pa.Array]:
        messages = batch.column(column)
        if reads_faults:
            return list(validate_with_faults(messages, batch.column("fault"), checked))
        return list(validate_column(messages, checked))

    read = [column, "fault"] if reads_faults else [column]
    return map_columns(df, compute, VALIDATION_SCHEMA, keep=passed, read=read)


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

    A 0-9-1 message has five columns: ``content_header``, the payload of its content header frame;
    ``payload``, the body; and ``exchange``, ``routing_key`` and ``redelivered``, which are optional
    in the input.

    If `df` has a string column ``fault``, as from the data source ``amqp10``, a row with a fault is
    an error with the code ``damaged-file`` or ``unreadable-input``, and its bytes are not
    translated.

    Args:
        df: a DataFrame with messages: a column of encoded 1.0 messages, or the columns above.
        to: the target protocol: ``1.0``, or ``0-9-1`` (class basic).
        profile: a name of `amqp10msg.translate.PROFILES`.
        column: the column of 1.0 messages: the input for ``0-9-1``, the output for ``1.0``.
        strict: whether a message is an error if data of the sender would be lost permanently.
        circumstances: facts besides the message on which a broker's translation depends, the same
            for all messages.
        keep: the columns of `df` to pass through; None for all except the message's columns.

    Returns:
        A DataFrame with the kept columns, the translated messages, and ``losses``: the values that
        were changed or dropped, as JSON. If a message cannot be read or translated, ``error_code``,
        ``error_clause``, ``error_offset`` and ``error_text`` have the reason.

    Raises:
        ValueError: the profile is unknown; a column is missing, has another type, or is ambiguous.
    """
    translator = Translator(to, profile, strict, circumstances)
    if to == "0-9-1":
        require_column(df, column, BINARY)
        inputs, new = [column], translator.schema
    else:
        types = {field.name: field.dataType for field in from_arrow_schema(BASIC).fields}
        mandatory = ("content_header", "payload")
        inputs = [name for name in types if name in mandatory or name in df.columns]
        for name in inputs:
            require_column(df, name, types[name])
        new = pa.schema([(column, pa.binary()), *REPORT_COLUMNS])
    passed = columns_to_keep(df, keep, inputs, new.names)
    # The translator expects the name "wire" for 1.0 messages.
    sources = ["wire"] if to == "0-9-1" else inputs
    reads_faults = has_faults(df)

    def compute(batch: pa.RecordBatch) -> list[pa.Array]:
        arrays = (batch.column(name) for name in inputs)
        columns = dict(zip(sources, arrays, strict=True))
        if reads_faults:
            translated = translate_with_faults(translator, columns, batch.column("fault"))
        else:
            translated = translator.run(columns)
        return list(translated.values())

    read = [*inputs, "fault"] if reads_faults else inputs
    return map_columns(df, compute, new, keep=passed, read=read)


def decode_values(
    df: DataFrame, column: str, *, to: str | None = None, **options: Any
) -> DataFrame:
    """Decode single AMQP-encoded values, such as Kafka headers from Event Hubs.

    Args:
        df: a DataFrame with a column of encoded values: binary, a map with binary values, or an
            array of structs with a binary field ``value``, like the headers of Spark's Kafka source
            (in which a name may occur twice).
        column: the name of that column.
        to: the name of the new column, which has a struct in place of each binary value; None to
            replace `column`.
        options: passed to `amqp10msg.columns.decode_values`, such as the policy for values that are
            not AMQP-encoded.

    Raises:
        ValueError: the column is missing, or has another type.
    """
    data_type = require_column(df, column).dataType
    if not _holds_binary(data_type):
        raise ValueError(
            f"the column {column!r} must be binary, map<string,binary> or "
            f"array<struct<key:string,value:binary>>, got {data_type.simpleString()}"
        )
    new_type = _decoded_type(
        data_type, arrow.decode_values(pa.array([], pa.binary()), **options).type
    )
    name = column if to is None else to
    new = pa.schema([(name, new_type)])
    passed = columns_to_keep(df, None, [column] if to is None else [], [name])

    def compute(batch: pa.RecordBatch) -> list[pa.Array]:
        return [_decode_array(batch.column(column), options)]

    result = map_columns(df, compute, new, keep=passed, read=[column])
    order = df.columns if to is None else [*df.columns, name]
    return result.select(*(quote_name(column_name) for column_name in order))


def _holds_binary(data_type: Any) -> bool:
    """Return whether `decode_values` accepts a column of this type."""
    if isinstance(data_type, MapType):
        return isinstance(data_type.valueType, BinaryType)
    if isinstance(data_type, ArrayType) and isinstance(data_type.elementType, StructType):
        fields = {field.name: field.dataType for field in data_type.elementType.fields}
        return isinstance(fields.get("value"), BinaryType)
    return isinstance(data_type, BinaryType)


def _decoded_type(data_type: Any, value: pa.DataType) -> pa.DataType:
    """Return the type of a column after `decode_values`; `value` replaces binary in it."""
    if isinstance(data_type, MapType):
        return pa.map_(pa.string(), value)
    if isinstance(data_type, ArrayType):
        entry: Any = data_type.elementType
        types = {field.name: pa.string() for field in entry.fields} | {"value": value}
        fields = [pa.field(field.name, types[field.name], field.nullable) for field in entry.fields]
        return pa.list_(pa.struct(fields))
    return value


def _decode_array(array: Any, options: dict[str, Any]) -> Any:
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
    structs = pa.StructArray.from_arrays(
        fields,
        names=[field.name for field in entries.type],
        mask=entries.is_null() if entries.null_count else None,
    )
    return pa.ListArray.from_arrays(offsets, structs, mask=mask)


def metrics(
    df: DataFrame, observation: Observation | str, *, column: str | None = None
) -> DataFrame:
    """Count rows and errors while the query runs, without a second pass.

    The counts are exact even if Spark repeats tasks. `metrics` supports batch and streaming
    queries, and Spark Connect.

    Args:
        df: a result of `decode`, `encode`, `validate` or `translate`, or another DataFrame.
        observation: receives ``rows``, ``errors`` and ``octets`` of a batch query. For a streaming
            query, a string: the name of the counts in the query's progress.
        column: a column of messages; ``octets`` is the sum of their sizes in bytes. None to omit
            ``octets``.
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
        counts.append(F.sum(F.length(F.col(quote_name(column)))).alias("octets"))
    return df.observe(observation, *counts)


# Convert users' columns to the types that `encode` reads.


def _converter(field: pa.Field, target: pa.DataType) -> Callable[[Any], Any]:
    """Return a function that converts arrays of a field to the type `target`."""
    source = field.type
    if source == arrow.VARIANT:
        raise ValueError(
            f"the column {field.name!r} is a VARIANT, which has no AMQP types: decode with "
            "columns='all' and maps='map', or drop the column"
        )
    has_string_keys = pa.types.is_map(source) and pa.types.is_string(source.key_type)
    if pa.types.is_map(target) and has_string_keys and _is_plain(source.item_type):
        return lambda array: _convert_plain_maps(array).cast(target)
    if target == arrow.VALUE and _is_plain(source):
        return arrow.value_structs
    try:
        if pa.types.is_map(target) and not (
            has_string_keys and pa.types.is_struct(source.item_type)
        ):
            raise pa.ArrowInvalid  # the test cast below has no entries, so it would succeed
        pa.array([], source).cast(target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
        alternative = ", or a map of strings or numbers" if pa.types.is_map(target) else ""
        raise ValueError(
            f"the column {field.name!r} must be {target}{alternative}, got {source}: cast it"
        ) from None
    return lambda array: array.cast(target)


def _is_plain(arrow_type: pa.DataType) -> bool:
    """Return True if every value of an Arrow type has a definite AMQP type."""
    try:
        arrow.value_structs(pa.array([], arrow_type))
    except TypeError:
        return False
    return bool(arrow_type != arrow.VALUE)


def _convert_plain_maps(array: Any) -> Any:
    """Convert maps of plain values to maps of `VALUE` structs; null values become AMQP nulls."""
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


# Convert events of Event Hubs Capture, as Spark's Avro reader returns them.

#: Columns of Capture that are maps, and the types of all other columns.
_CAPTURE_MAPS = ("SystemProperties", "Properties")
_CAPTURE_TYPES: dict[str, DataType] = {
    "SequenceNumber": LongType(),
    "Offset": StringType(),
    "EnqueuedTimeUtc": StringType(),
    "Body": BinaryType(),
}


def from_capture(
    df: DataFrame, *, column: str = "wire", keep: Sequence[str] | None = None
) -> DataFrame:
    """Convert events that Event Hubs Capture wrote to messages.

    Such events come from ``session.read.format("avro").load("capture/")`` with the package
    spark-avro. Without that package, read the files with `amqp10msg.spark.Amqp10`.

    Args:
        df: a DataFrame with Capture's column ``Body`` and, optionally, ``SystemProperties``,
            ``Properties``, ``SequenceNumber``, ``Offset`` and ``EnqueuedTimeUtc``.
        column: the name of the new column.
        keep: the columns of `df` to pass through; None for all except Capture's columns.

    Returns:
        A DataFrame with the kept columns, the messages, and ``encode_error``. If an event cannot be
        converted, its message is null and ``encode_error`` has the reason.

    Raises:
        ValueError: a column is missing, or has another type than in Capture's files.
    """
    require_column(df, "Body", _CAPTURE_TYPES["Body"])
    inputs = [name for name in CAPTURE_FIELDS if name in df.columns]
    for name in inputs:
        if name not in _CAPTURE_MAPS:
            require_column(df, name, _CAPTURE_TYPES[name])
            continue
        data_type: Any = require_column(df, name).dataType
        is_map = isinstance(data_type, MapType)
        if not is_map or not isinstance(data_type.valueType, (StructType, StringType)):
            message = (
                f"the column {name!r} must be a map of strings, or of the structs that Spark's "
                f"Avro reader produces from Capture, got {data_type.simpleString()}"
            )
            raise ValueError(message)
    new = pa.schema([(column, pa.binary()), ("encode_error", pa.string())])
    passed = columns_to_keep(df, keep, inputs, new.names)

    def encode_event(event: dict[str, Any]) -> tuple[bytes | None, str | None]:
        """Convert an event; return the message and the error, one of which is None."""
        for name in _CAPTURE_MAPS:
            event[name] = {key: _union_value(value) for key, value in event.get(name) or ()}
        try:
            return message_of(event).encode(), None
        except EncodeError as error:
            return None, str(error)

    def compute(batch: pa.RecordBatch) -> list[pa.Array]:
        results = [encode_event(event) for event in batch.select(inputs).to_pylist()]
        messages = pa.array([wire for wire, _ in results], pa.binary())
        return [messages, pa.array([error for _, error in results], pa.string())]

    return map_columns(df, compute, new, keep=passed, read=inputs)


def _union_value(value: Any) -> Any:
    """Return the member of an Avro union that is not null, or None."""
    if isinstance(value, dict):
        return next((member for member in value.values() if member is not None), None)
    return value
