"""Arrow types for those that Spark and other readers of Parquet refuse."""

from __future__ import annotations

import pyarrow as pa

_TAKEN = {
    pa.uint64(): pa.decimal128(20, 0),
    pa.uint32(): pa.int64(),
    pa.uint16(): pa.int32(),
    pa.uint8(): pa.int16(),
    pa.binary_view(): pa.binary(),
    pa.string_view(): pa.string(),
}


def type_for_spark(given: pa.DataType) -> pa.DataType:
    """Return the Arrow type that Spark takes in place of one that it refuses, without loss."""
    if given in _TAKEN:
        return _TAKEN[given]
    if pa.types.is_timestamp(given):
        return pa.timestamp("us", given.tz)
    if pa.types.is_dictionary(given):
        return type_for_spark(given.value_type)
    if pa.types.is_fixed_size_binary(given):
        return pa.binary()
    if pa.types.is_struct(given):
        return pa.struct([_field_for_spark(field) for field in given])
    if pa.types.is_map(given):
        return pa.map_(type_for_spark(given.key_type), _field_for_spark(given.item_field))
    if pa.types.is_list(given):
        return pa.list_(_field_for_spark(given.value_field))
    return given


def _field_for_spark(field: pa.Field) -> pa.Field:
    return pa.field(field.name, type_for_spark(field.type), field.nullable, field.metadata)


def schema_for_spark(schema: pa.Schema) -> pa.Schema:
    """Return the schema with the types that Spark takes."""
    return pa.schema([_field_for_spark(field) for field in schema])
