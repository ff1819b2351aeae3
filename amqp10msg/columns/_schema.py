"""The columns of a message: names and Arrow types, drawn from the declarations of Part 3, 3.2."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from types import MappingProxyType

import attrs
import pyarrow as pa

from amqp10msg.composite import Field, rows
from amqp10msg.sections import BODY_KINDS, KINDS, Header, Properties

# The AMQP types of fields as Arrow types that Spark, pandas, Polars and DuckDB all accept: Spark
# has neither unsigned numbers nor timestamps other than microseconds.
_ARROW: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "ubyte": pa.int16(),
    "uint": pa.int64(),
    "binary": pa.binary(),
    "string": pa.string(),
    "symbol": pa.string(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "*": pa.string(),
}

#: One value in a map section: its AMQP type, and the one member that holds it.
VALUE: pa.StructType = pa.struct(
    {
        "type": pa.string(),
        "key_type": pa.string(),
        "s": pa.string(),
        "l": pa.int64(),
        "d": pa.float64(),
        "b": pa.binary(),
        "u": pa.decimal128(20, 0),
    }
)
_OFFSETS = pa.list_(
    pa.struct({"code": pa.int16(), "offset": pa.int64(), "content": pa.int64(), "end": pa.int64()})
)
ERRORS: tuple[pa.Field, ...] = (
    pa.field("error_code", pa.string()),
    pa.field("error_clause", pa.string()),
    pa.field("error_offset", pa.int64()),
)
#: The bytes of a message; only if asked for.
WIRE: pa.Field = pa.field("wire", pa.binary())

MAPS: tuple[str, ...] = tuple(kind.attribute for kind in KINDS if kind.source == "map")
COMPOSITES = {"header": Header, "properties": Properties}
# The indexes of the kinds whose content a column of the body needs.
_DATA = next(i for i, kind in enumerate(KINDS) if kind is BODY_KINDS[0])
_BODY: dict[str, frozenset[int]] = {
    "body_kind": frozenset(),
    "body_sections": frozenset(),
    "body": frozenset((_DATA,)),
    "body_json": frozenset((_DATA + 1, _DATA + 2)),
}


def _columns_of(field: Field) -> list[pa.Field]:
    """Return the columns of one field of a composite."""
    columns = [pa.field(field.name, _ARROW[field.type])]
    if field.requires == "message-id":
        columns.append(pa.field(f"{field.name}_type", pa.string()))
    if field.type == "timestamp":
        columns.append(pa.field(f"{field.name}_ms", pa.int64()))
    return columns


def _build() -> tuple[pa.Schema, Mapping[str, frozenset[int]]]:
    """Return the schema, and by column the indexes of the kinds of section it is read from."""
    columns = [pa.field("message_format", pa.int64())]
    needs: dict[str, frozenset[int]] = {"message_format": frozenset()}
    for index, kind in enumerate(KINDS):
        if kind.attribute in COMPOSITES:
            made = [c for field in rows(COMPOSITES[kind.attribute]) for c in _columns_of(field)]
        elif kind.attribute in MAPS:
            made = [pa.field(kind.attribute, pa.map_(pa.string(), VALUE))]
        else:
            continue
        columns += made
        needs |= {column.name: frozenset((index,)) for column in made}
    columns += [
        pa.field("body_kind", pa.string()),
        pa.field("body_sections", pa.int32()),
        pa.field("body", pa.binary()),
        pa.field("body_json", pa.string()),
        pa.field("section_offsets", _OFFSETS),
        *ERRORS,
    ]
    needs |= _BODY
    needs |= {column.name: frozenset() for column in (columns[-4], *ERRORS, WIRE)}
    return pa.schema(columns), MappingProxyType(needs)


#: The columns that `decode` returns if none are named.
SCHEMA: pa.Schema
SCHEMA, _NEEDS = _build()
_ALL = tuple(SCHEMA.names)
_TYPES: dict[str, pa.DataType] = {field.name: field.type for field in (*SCHEMA, WIRE)}


@attrs.frozen(eq=False)
class Plan:
    """What a projection asks for.

    Attributes:
        schema: the columns, in the order asked for.
        needs: the indexes of the kinds of section, 0 to 8, whose content is read; others are
            skipped by their size.
        picks: by map section, the keys that are asked for one by one.
    """

    schema: pa.Schema
    needs: frozenset[int]
    picks: Mapping[str, tuple[str, ...]]

    @property
    def whole(self) -> bool:
        """Whether every kind of section is read."""
        return len(self.needs) == len(KINDS)


def split(name: str) -> tuple[str, str] | None:
    """Split ``application_properties.tenant``; None if the name is that of a whole column."""
    section, dot, key = name.partition(".")
    return (section, key) if dot and section in MAPS else None


def plan_of(columns: Iterable[str] | None) -> Plan:
    """Return the plan for names of columns, or for None, which means all but ``wire``.

    Raises:
        ValueError: a column is unknown, or named twice.
    """
    if columns is None:
        return _plan_of(_ALL)
    return _plan_of((columns,) if isinstance(columns, str) else tuple(columns))


# A stream of batches is decoded with one projection; a plan is made once for all of them.
@lru_cache(maxsize=64)
def _plan_of(names: tuple[str, ...]) -> Plan:
    fields: list[pa.Field] = []
    needs: set[int] = set()
    picks: dict[str, tuple[str, ...]] = {}
    for name in names:
        picked = split(name)
        if picked is not None:
            section, key = picked
            fields.append(pa.field(name, VALUE))
            needs |= _NEEDS[section]
            picks[section] = (*picks.get(section, ()), key)
        elif name in _TYPES:
            fields.append(pa.field(name, _TYPES[name]))
            needs |= _NEEDS[name]
        else:
            raise ValueError(
                f"unknown column {name!r}: use {', '.join(_TYPES)}, or one entry of a map "
                f"section such as application_properties.tenant"
            )
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise ValueError(f"duplicate columns: {', '.join(repeated)}")
    return Plan(pa.schema(fields), frozenset(needs), MappingProxyType(picks))


def schema_of(columns: Iterable[str] | None = None) -> pa.Schema:
    """Return the schema that `decode` with these columns returns.

    Args:
        columns: as for `decode`; None for `SCHEMA`.

    Raises:
        ValueError: a column is unknown, or named twice.
    """
    return plan_of(columns).schema
