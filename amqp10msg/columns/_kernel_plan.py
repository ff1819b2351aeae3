"""What the kernel needs to know of a plan."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any

import pyarrow as pa

# Where it is not compiled, this raises ModuleNotFoundError; `from` would raise ImportError.
import amqp10msg.columns._kernel.scan as scan  # noqa: PLR0402  (see above)
from amqp10msg.columns._schema import COMPOSITES, LENGTHS, MAPS, VARIANT, WIRE, Plan, ways_of
from amqp10msg.composite import Field, rows
from amqp10msg.sections import BODY_KINDS, KINDS

_INDEXES = {kind.attribute: i for i, kind in enumerate(KINDS)}
_BODY = (
    "body_kind",
    "body_sections",
    "body",
    "body_json",
    "body_text",
    "body_value",
    "body_lengths",
)
_KINDS = {
    pa.bool_(): scan.BOOL,
    pa.int16(): scan.INT16,
    pa.int32(): scan.INT32,
    pa.int64(): scan.INT64,
    pa.timestamp("us", tz="UTC"): scan.INT64,
    pa.string(): scan.TEXT,
    pa.binary(): scan.TEXT,
    # As the bytes of numbers, until it becomes an array.
    LENGTHS: scan.TEXT,
}
_WAYS = ways_of(scan)


# A stream of batches is read with one projection. 64 plans of some kilobytes each are kept.
@lru_cache(maxsize=64)
def column_plan(plan: Plan) -> scan.ColumnPlan:
    """Return the plan for the kernel: what to read, and where to."""
    schema = pa.schema([field for field in plan.schema if field != WIRE])
    kinds: list[int] = []
    place: dict[str, int] = {}
    for field in schema:
        if field.type == VARIANT:
            place[field.name] = len(kinds)
            kinds += (scan.TEXT, scan.TEXT)
        elif field.type in _KINDS:
            place[field.name] = len(kinds)
            kinds.append(_KINDS[field.type])
    variants = {field.name for field in schema if field.type == VARIANT}
    picks = [(section, key) for section, keys in plan.picks.items() for key in keys]
    sources = {
        **{name: (scan.MAP, i) for i, name in enumerate(MAPS)},
        **{n: (scan.VARIANT if n in variants else scan.COLUMN, i) for n, i in place.items()},
        **{f"{section}.{key}": (scan.PICK, i) for i, (section, key) in enumerate(picks)},
        "section_offsets": (scan.PARTS, 0),
        "body_lengths": (scan.NUMBERS, place.get("body_lengths", -1)),
    }

    def read_as(field: Field) -> tuple[int, int, int, Any]:
        second = place.get(f"{field.name}_type", place.get(f"{field.name}_ms", -1))
        return _WAYS[field.name], place.get(field.name, -1), second, field.default

    return scan.ColumnPlan(
        needs=[index in plan.needs for index in range(len(KINDS))],
        fields={
            _INDEXES[name]: [read_as(field) for field in rows(cls)]
            for name, cls in COMPOSITES.items()
        },
        maps={
            _INDEXES[name]: (name in schema.names and name not in variants, place.get(name, -1))
            for name in MAPS
        },
        picks=[(_INDEXES[section], key.encode(errors="surrogatepass")) for section, key in picks],
        properties=(_INDEXES["properties"], place.get("has_properties", -1)),
        body=[place.get(name, -1) for name in _BODY],
        kinds=kinds,
        kind_names=[kind.name.encode() for kind in BODY_KINDS],
        results=[sources[name] for name in schema.names],
        importer=partial(pa.RecordBatch._import_from_c, schema=schema),
    )
