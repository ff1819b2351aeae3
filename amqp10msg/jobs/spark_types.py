"""Arrow types for those that Spark and other readers of Parquet refuse."""

from __future__ import annotations

import pyarrow as pa


def type_for_spark(given: pa.DataType) -> pa.DataType:
    """Return the Arrow type that Spark takes in place of one that it refuses, without loss."""
    if pa.types.is_uint64(given):
        return pa.decimal128(20, 0)
    if pa.types.is_uint32(given):
        return pa.int64()
    if pa.types.is_uint16(given):
        return pa.int32()
    if pa.types.is_uint8(given):
        return pa.int16()
    if pa.types.is_timestamp(given):
        return pa.timestamp("us", given.tz)
    if pa.types.is_dictionary(given):
        return type_for_spark(given.value_type)
    if given == pa.binary_view() or pa.types.is_fixed_size_binary(given):
        return pa.binary()
    if given == pa.string_view():
        return pa.string()
    if pa.types.is_struct(given):
        return pa.struct([_field_for_spark(field) for field in given])
    if pa.types.is_map(given):
        return pa.map_(type_for_spark(given.key_type), _field_for_spark(given.item_field))
    if pa.types.is_list(given):
        return pa.list_(_field_for_spark(given.value_field))
    return given


def _field_for_spark(field: pa.Field) -> pa.Field:
    return pa.field(field.name, type_for_spark(field.type), field.nullable)


def schema_for_spark(schema: pa.Schema) -> pa.Schema:
    """Return the schema with the types that Spark takes."""
    return pa.schema([_field_for_spark(field) for field in schema])
