"""What the kernel needs to know of a plan, and Arrow arrays of the buffers that it gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import attrs
import pyarrow as pa

from amqp10msg.columns import _scan
from amqp10msg.columns._schema import MAPS, SCHEMA, VALUE, Plan
from amqp10msg.composite import composite_of, rows
from amqp10msg.limits import Limits
from amqp10msg.primitives import FORMAT_CODES
from amqp10msg.sections import BODY_KINDS, KINDS, Header, Properties

__all__ = ["scanned"]

_NAMES = {code: row.type.encode() for code, row in FORMAT_CODES.items()}
_BODY_NAMES = tuple(kind.name.encode() for kind in BODY_KINDS)
_MAP_SECTIONS = {kind.attribute: i for i, kind in enumerate(KINDS) if kind.attribute in MAPS}
_COMPOSITES = tuple(
    (i, kind.cls) for i, kind in enumerate(KINDS) if kind.cls in (Header, Properties)
)
_BODY = ("body_kind", "body_sections", "body", "body_json")
_NO_BOUND = 2**62
_SCANNER: Any = _scan.Scanner


def _kind_of(kind: pa.DataType) -> int:
    """Tell which of the kernel's kinds of column this type is; -1 where it is none of them."""
    if pa.types.is_boolean(kind):
        return _scan.BOOL
    if pa.types.is_int16(kind):
        return _scan.INT16
    if pa.types.is_int32(kind):
        return _scan.INT32
    if pa.types.is_int64(kind) or pa.types.is_timestamp(kind):
        return _scan.INT64
    return _scan.TEXT if pa.types.is_string(kind) or pa.types.is_binary(kind) else -1


# The cells that the kernel never fills: they stand for odd rows, or come from outside.
_EMPTY = {"message_format", "error_code", "error_clause", "error_offset", "wire"}


def scanned(array: pa.Array, plan: Plan, limits: Limits) -> tuple[pa.RecordBatch, list[int]]:
    """Read an array of binary or large_binary; give its columns, and the rows left to others.

    Raises:
        OverflowError: a column would exceed Arrow's 32-bit offsets.
        ValueError: the array is not valid.
    """
    order = _order_of(plan)
    scanner = _SCANNER(
        *order.arguments,
        min(limits.items, _NO_BOUND),
        _NO_BOUND if limits.size is None else min(limits.size, _NO_BOUND),
    )
    odd = _scan_array(scanner, array)
    count = len(array)
    made: dict[str, pa.Array] = {}
    for index, field in enumerate(order.simple):
        buffers, nulls = scanner.column(index)
        made[field.name] = _array(field.type, count, buffers, nulls)
    for index, name in order.maps:
        made[name] = _map(count, *scanner.map_column(index))
    for index, name in enumerate(order.picks):
        made[name] = _values(*scanner.pick_column(index))
    if order.with_parts:
        made["section_offsets"] = _parts(count, *scanner.part_column())
    if "wire" in plan.schema.names:
        made["wire"] = array.cast(pa.binary())
    columns = [
        made[field.name] if field.name in made else pa.nulls(count, field.type)
        for field in plan.schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=plan.schema), odd


@attrs.frozen
class _Order:
    """A plan as the kernel takes it, and what it gives back."""

    arguments: tuple[Any, ...]
    simple: tuple[pa.Field, ...]
    maps: tuple[tuple[int, str], ...]
    picks: tuple[str, ...]
    with_parts: bool


@lru_cache(maxsize=64)
def _order_of(plan: Plan) -> _Order:
    fields = tuple(
        field
        for field in plan.schema
        if field.name in SCHEMA.names and field.name not in _EMPTY and _kind_of(field.type) >= 0
    )
    place = {field.name: i for i, field in enumerate(fields)}
    composites = []
    for index, cls in _COMPOSITES:
        spec = composite_of(cls).spec
        columns = [
            (
                kind,
                place.get(row.name, -1),
                place.get(f"{row.name}_type", place.get(f"{row.name}_ms", -1)),
                row.default,
            )
            for row, kind in zip(rows(cls), spec.kinds, strict=True)
        ]
        composites.append((index, columns))
    names = plan.schema.names
    picks = [(section, key) for section, keys in plan.picks.items() for key in keys]
    with_parts = "section_offsets" in names
    return _Order(
        (
            [index in plan.needs for index in range(len(KINDS))],
            composites,
            [(index, name in names) for name, index in _MAP_SECTIONS.items()],
            [
                (_MAP_SECTIONS[section], key.encode(errors="surrogatepass"))
                for section, key in picks
            ],
            [place.get(name, -1) for name in _BODY],
            with_parts,
            [_kind_of(field.type) for field in fields],
            _NAMES,
            _BODY_NAMES,
        ),
        fields,
        tuple((i, name) for i, name in enumerate(_MAP_SECTIONS) if name in names),
        tuple(f"{section}.{key}" for section, key in picks),
        with_parts,
    )


def _scan_array(scanner: Any, array: pa.Array) -> list[int]:
    valid, offsets, data = array.buffers()
    found: list[int] = scanner.scan(
        *((data.address, data.size) if data else (0, 0)),
        *((offsets.address, offsets.size) if offsets else (0, 0)),
        8 if pa.types.is_large_binary(array.type) else 4,
        *((valid.address, valid.size) if valid else (0, 0)),
        array.offset,
        len(array),
    )
    return found


def _buffer(memory: Any) -> pa.Buffer | None:
    """Give what the kernel allocated as a buffer, which keeps it alive."""
    if memory is None:
        return None
    if not memory.address:
        return pa.py_buffer(b"")
    return pa.foreign_buffer(memory.address, memory.size, memory)


def _array(kind: pa.DataType, count: int, buffers: Sequence[Any], nulls: int = -1) -> pa.Array:
    valid, *others = buffers
    if nulls == count:
        return pa.nulls(count, kind)
    if nulls == 0:
        valid = None
    return pa.Array.from_buffers(
        kind, count, [_buffer(valid), *map(_buffer, others)], null_count=nulls
    )


def _values(count: int, buffers: Mapping[str, Any]) -> pa.Array:
    children = [
        pa.nulls(count, field.type)
        if field.name == "key_type"
        else _member(field, count, buffers[field.name], buffers["valid"])
        for field in VALUE
    ]
    valid = _buffer(buffers["valid"]) if count else None
    return pa.Array.from_buffers(VALUE, count, [valid], children=children)


def _member(field: pa.Field, count: int, buffers: Sequence[Any], valid: Any) -> pa.Array:
    if not count:
        return pa.nulls(0, field.type)
    # The type is there where the struct is.
    return _array(field.type, count, [valid if buffers[0] is None else buffers[0], *buffers[1:]])


def _map(
    count: int, own: Sequence[Any], nulls: int, entries: int, keys: Sequence[Any], values: Any
) -> pa.Array:
    kind = SCHEMA.field("footer").type
    if nulls == count:
        return pa.nulls(count, kind)
    listed = _array(pa.string(), entries, [None, *keys]) if entries else pa.nulls(0, pa.string())
    pairs = pa.Array.from_buffers(
        pa.struct([kind.key_field, kind.item_field]),
        entries,
        [None],
        children=[listed, _values(entries, values)],
    )
    valid, offsets = own
    return pa.Array.from_buffers(
        kind,
        count,
        [None if nulls == 0 else _buffer(valid), _buffer(offsets)],
        null_count=nulls,
        children=[pairs],
    )


def _parts(
    count: int, own: Sequence[Any], nulls: int, parts: int, members: Sequence[Any]
) -> pa.Array:
    kind = SCHEMA.field("section_offsets").type
    children = [
        _array(field.type, parts, [None, memory])
        for field, memory in zip(kind.value_type, members, strict=True)
    ]
    struct = pa.Array.from_buffers(kind.value_type, parts, [None], children=children)
    valid, offsets = own
    return pa.Array.from_buffers(
        kind,
        count,
        [None if nulls == 0 else _buffer(valid), _buffer(offsets)],
        null_count=nulls,
        children=[struct],
    )
