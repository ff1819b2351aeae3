"""Convert a `Plan`, which describes a selection of columns, to the kernel's plan."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any

import pyarrow as pa

# If the kernel is not compiled, `import a.b` raises ModuleNotFoundError; `from a import b` would
# raise ImportError.
import amqp10msg.columns._kernel.scan as scan  # noqa: PLR0402  (see above)
from amqp10msg.columns._schema import (
    BODY_LENGTHS_TYPE,
    COMPOSITE_CLASSES,
    MAPS,
    VARIANT,
    WIRE_COLUMN,
    Plan,
    field_kinds,
)
from amqp10msg.composite import Field, rows
from amqp10msg.sections import BODY_KINDS, KINDS

#: The index of each kind of section in `KINDS`, by attribute of `Message`.
_SECTION_INDEXES = {kind.attribute: i for i, kind in enumerate(KINDS)}
#: The columns of the body, in the order of the kernel's argument `body`.
_BODY_COLUMNS = (
    "body_kind",
    "body_sections",
    "body",
    "body_json",
    "body_text",
    "body_value",
    "body_lengths",
)
#: The kernel's number of each Arrow type.
_COLUMN_KIND_BY_TYPE = {
    pa.bool_(): scan.BOOL,
    pa.int16(): scan.INT16,
    pa.int32(): scan.INT32,
    pa.int64(): scan.INT64,
    pa.timestamp("us", tz="UTC"): scan.INT64,
    pa.string(): scan.TEXT,
    pa.binary(): scan.TEXT,
    # The kernel collects lengths as the bytes of int64 values, and exports them as lists.
    BODY_LENGTHS_TYPE: scan.TEXT,
}
#: The kernel's number for the type of each field, by name of the field.
_FIELD_KIND_BY_NAME = field_kinds(scan)


# Cached because consecutive batches usually have the same columns. A plan needs a few kilobytes.
@lru_cache(maxsize=64)
def column_plan(plan: Plan) -> scan.ColumnPlan:
    """Return the kernel's plan for a `Plan`: the fields to read, and the column of each field."""
    schema = pa.schema([field for field in plan.schema if field != WIRE_COLUMN])
    kinds: list[int] = []
    column_indexes: dict[str, int] = {}
    for field in schema:
        if field.type == VARIANT:
            column_indexes[field.name] = len(kinds)
            kinds += (scan.TEXT, scan.TEXT)
        elif field.type in _COLUMN_KIND_BY_TYPE:
            column_indexes[field.name] = len(kinds)
            kinds.append(_COLUMN_KIND_BY_TYPE[field.type])
    variants = {field.name for field in schema if field.type == VARIANT}
    picks = [(section, key) for section, keys in plan.picks.items() for key in keys]
    sources = {
        **{name: (scan.MAP, i) for i, name in enumerate(MAPS)},
        **{
            column: (scan.VARIANT if column in variants else scan.COLUMN, i)
            for column, i in column_indexes.items()
        },
        **{f"{section}.{key}": (scan.PICK, i) for i, (section, key) in enumerate(picks)},
        "section_offsets": (scan.PARTS, 0),
        "body_lengths": (scan.NUMBERS, column_indexes.get("body_lengths", -1)),
    }

    def field_plan(field: Field) -> tuple[int, int, int, Any]:
        second = column_indexes.get(
            f"{field.name}_type", column_indexes.get(f"{field.name}_ms", -1)
        )
        return (
            _FIELD_KIND_BY_NAME[field.name],
            column_indexes.get(field.name, -1),
            second,
            field.default,
        )

    return scan.ColumnPlan(
        needs=[index in plan.needs for index in range(len(KINDS))],
        fields={
            _SECTION_INDEXES[name]: [field_plan(field) for field in rows(cls)]
            for name, cls in COMPOSITE_CLASSES.items()
        },
        maps={
            _SECTION_INDEXES[name]: (
                name in schema.names and name not in variants,
                column_indexes.get(name, -1),
            )
            for name in MAPS
        },
        picks=[
            (_SECTION_INDEXES[section], key.encode(errors="surrogatepass"))
            for section, key in picks
        ],
        properties=(_SECTION_INDEXES["properties"], column_indexes.get("has_properties", -1)),
        body=[column_indexes.get(name, -1) for name in _BODY_COLUMNS],
        kinds=kinds,
        kind_names=[kind.name.encode() for kind in BODY_KINDS],
        results=[sources[name] for name in schema.names],
        importer=partial(pa.RecordBatch._import_from_c, schema=schema),
    )
