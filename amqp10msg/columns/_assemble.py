"""What the kernel needs to know of a plan."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import pyarrow as pa

from amqp10msg.columns import _scan
from amqp10msg.columns._room import room_for
from amqp10msg.columns._schema import MAPS, SCHEMA, WIRE, Plan
from amqp10msg.composite import composite_of, rows
from amqp10msg.limits import Limits
from amqp10msg.sections import BODY_KINDS, KINDS, Header, Properties

__all__ = ["scanned"]

_MAP_SECTIONS = {kind.attribute: i for i, kind in enumerate(KINDS) if kind.attribute in MAPS}
_COMPOSITES = tuple(
    (i, kind.cls) for i, kind in enumerate(KINDS) if kind.cls in (Header, Properties)
)
_BODY = ("body_kind", "body_sections", "body", "body_json")
_NO_BOUND = 2**62


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


def scanned(array: pa.Array, plan: Plan, limits: Limits) -> tuple[pa.RecordBatch, list[int]]:
    """Read an array of binary or large_binary; give its columns, and the rows left to others.

    Raises:
        OverflowError: a column would exceed Arrow's 32-bit offsets, or values without octets would
            be written out to more than `room_for` the array.
        ValueError: the array is not valid.
    """
    valid, offsets, data = array.buffers()
    batch, odd = _layout_of(plan).read(
        *_place_of(data),
        *_place_of(offsets),
        8 if pa.types.is_large_binary(array.type) else 4,
        *_place_of(valid),
        array.offset,
        len(array),
        min(limits.items, _NO_BOUND),
        min(limits.zero_width, _NO_BOUND),
        _NO_BOUND if limits.size is None else min(limits.size, _NO_BOUND),
        limits.depth,
        room_for(array),
    )
    place = plan.schema.get_field_index("wire")
    if place >= 0:
        batch = batch.add_column(place, WIRE, array.cast(pa.binary()))
    return batch, odd


def _place_of(buffer: pa.Buffer | None) -> tuple[int, int]:
    """Give the address and the size of a buffer, which an array may be without."""
    return (buffer.address, buffer.size) if buffer else (0, 0)


# A stream of batches is read with one projection.
@lru_cache(maxsize=64)
def _layout_of(plan: Plan) -> _scan.Layout:
    names = plan.schema.names
    schema = pa.schema([field for field in plan.schema if field != WIRE])
    cells = [
        field for field in plan.schema if field.name in SCHEMA.names and _kind_of(field.type) >= 0
    ]
    place = {field.name: i for i, field in enumerate(cells)}
    picks = [(section, key) for section, keys in plan.picks.items() for key in keys]
    sources = {
        **{name: (_scan.COLUMN, i) for name, i in place.items()},
        **{name: (_scan.MAP, i) for i, name in enumerate(_MAP_SECTIONS)},
        **{f"{section}.{key}": (_scan.PICK, i) for i, (section, key) in enumerate(picks)},
        "section_offsets": (_scan.PARTS, 0),
    }
    return _scan.Layout(
        needs=[index in plan.needs for index in range(len(KINDS))],
        composites=[(index, _fields_of(cls, place)) for index, cls in _COMPOSITES],
        maps=[(index, name in names) for name, index in _MAP_SECTIONS.items()],
        picks=[
            (_MAP_SECTIONS[section], key.encode(errors="surrogatepass")) for section, key in picks
        ],
        body=[place.get(name, -1) for name in _BODY],
        kinds=[_kind_of(field.type) for field in cells],
        kind_names=[kind.name.encode() for kind in BODY_KINDS],
        results=[sources[name] for name in schema.names],
        importer=lambda address: pa.RecordBatch._import_from_c(address, schema),
    )


def _fields_of(cls: type, place: Mapping[str, int]) -> list[tuple[int, int, int, Any]]:
    """Give the fields of a composite: kind, column, second column, default."""
    return [
        (
            kind,
            place.get(row.name, -1),
            place.get(f"{row.name}_type", place.get(f"{row.name}_ms", -1)),
            row.default,
        )
        for row, kind in zip(rows(cls), composite_of(cls).spec.kinds, strict=True)
    ]
