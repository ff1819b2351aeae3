"""The columns of a message: names and Arrow types, drawn from the declarations of Part 3, 3.2."""

from __future__ import annotations

import decimal
import math
import re
from collections.abc import Collection, Iterable, Mapping
from functools import cache, lru_cache
from types import MappingProxyType
from typing import Any, Literal

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from amqp10msg.columns._cells import FIRST_MS, LAST_MS
from amqp10msg.composite import Field, rows
from amqp10msg.message.picks import Picker
from amqp10msg.sections import BODY_KINDS, KINDS, ApplicationProperties, Header, Properties
from amqp10msg.sections.paths import Path, path_of
from amqp10msg.wire.primitives import DECIMALS, INTEGERS

# By the name of a type in SQL: the type in Arrow.
_TYPES: dict[str, pa.DataType] = {
    "string": pa.string(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "binary": pa.binary(),
}
_TYPED = re.compile(rf"(?P<key>.+?) (?P<type>{'|'.join(_TYPES)})(?: as (?P<name>.+))?", re.DOTALL)
# AMQP types by the member of the struct that they are in (`_cells`).
_DECIMALS = tuple(DECIMALS)
_TEXTS = ("string", "symbol", "char", "uuid", *DECIMALS)
_WHOLE = ("long", *(set(INTEGERS) - {"ulong", "timestamp"}))


def _is_one_of(types: pa.Array, names: tuple[str, ...]) -> pa.Array:
    return pc.is_in(types, _array(names))


# Not where the module is imported: Arrow imports pandas with the first value that it converts.


@cache
def _array(names: tuple[str, ...]) -> pa.Array:
    return pa.array(names)


@cache
def _too_large() -> pa.Scalar:
    return pa.scalar(decimal.Decimal(1 << 63), pa.decimal128(20, 0))


@attrs.frozen
class Pick:
    """An entry of a map section as a column.

    Attributes:
        section: the column of the section.
        key: the entry's key.
        type: the name of a type in SQL; None for the struct.
        name: the name of the column.
    """

    section: str
    key: str
    type: str | None
    name: str

    @property
    def field(self) -> pa.Field:
        """Return the column, which has a type."""
        comment = f"{self.key} of {self.section}; null where that is not of type {self.type}"
        return pa.field(self.name, _TYPES[self.type or ""], metadata={"comment": comment})

    def plain(self, values: pa.StructArray) -> pa.Array:
        """Return the structs of an entry as plain values; null where a value is of another type.

        A string is also what has a text: symbols, UUIDs, chars, decimals, numbers, booleans. A
        double is also a whole number, a bigint a ulong that is less than 2^63.
        """
        types = pc.struct_field(values, "type")
        if self.type == "string":
            return _texts(values, types)
        if self.type == "bigint":
            small = pc.less(pc.struct_field(values, "u"), _too_large())
            numbers = pc.if_else(small, pc.struct_field(values, "u"), None).cast(pa.int64())
            return pc.coalesce(
                _where(_is_one_of(types, _WHOLE), pc.struct_field(values, "l")), numbers
            )
        if self.type == "double":
            return pc.coalesce(
                pc.struct_field(values, "d"),
                _where(_is_one_of(types, _WHOLE), pc.struct_field(values, "l")).cast(
                    pa.float64(), safe=False
                ),
                pc.struct_field(values, "u").cast(pa.float64()),
                _of_decimals(pc.struct_field(values, "s"), types),
            )
        if self.type == "boolean":
            return _where(pc.equal(types, "boolean"), pc.struct_field(values, "l")).cast(pa.bool_())
        if self.type == "timestamp":
            moments = pc.struct_field(values, "l")
            is_moment = pc.and_(
                pc.equal(types, "timestamp"),
                pc.and_(pc.greater_equal(moments, FIRST_MS), pc.less_equal(moments, LAST_MS)),
            )
            shown = _where(is_moment, moments).cast(pa.timestamp("ms", tz="UTC"))
            return shown.cast(_TYPES["timestamp"])
        return _where(pc.equal(types, "binary"), pc.struct_field(values, "b"))


def _where(chosen: pa.Array, values: pa.Array) -> pa.Array:
    return pc.if_else(chosen, values, None)


def _of_decimals(texts: pa.Array, types: pa.Array) -> pa.Array:
    """Return decimal floating-point numbers as doubles, one by one: they are rare."""
    is_decimal = _is_one_of(types, _DECIMALS)
    if not pc.any(is_decimal).as_py():
        return pa.nulls(len(texts), pa.float64())
    made = [
        None if text is None else _double(text) for text in _where(is_decimal, texts).to_pylist()
    ]
    return pa.array(made, pa.float64())


def _double(text: str) -> float:
    number = decimal.Decimal(text)
    return math.nan if number.is_nan() else float(number)


def _texts(values: pa.StructArray, types: pa.Array) -> pa.Array:
    texts = pc.struct_field(values, "s")
    if pc.all(pc.equal(types, "string")).as_py() is not False:
        return texts
    booleans = _where(pc.equal(types, "boolean"), pc.struct_field(values, "l")).cast(pa.bool_())
    return pc.coalesce(
        _where(_is_one_of(types, _TEXTS), texts),
        _where(_is_one_of(types, _WHOLE), pc.struct_field(values, "l")).cast(pa.string()),
        booleans.cast(pa.string()),
        pc.struct_field(values, "d").cast(pa.string()),
        pc.struct_field(values, "u").cast(pa.string()),
    )


def pick_of(name: str, sections: Collection[str]) -> Pick | None:
    """Read ``SECTION.KEY``, ``SECTION.KEY TYPE`` or ``SECTION.KEY TYPE as NAME``.

    Args:
        name: what was asked for.
        sections: the names of the map sections.

    Returns:
        None where this is not an entry of one of them.
    """
    section, dot, key = name.partition(".")
    if not dot or section not in sections:
        return None
    typed = _TYPED.fullmatch(key)
    if typed is None:
        return Pick(section, key, None, name)
    return Pick(section, typed["key"], typed["type"], typed["name"] or typed["key"])


#: What each column holds, in which unit: shown by DESCRIBE, and in the schemas of files.
COMMENTS: Mapping[str, str] = {
    "message_format": "message-format of the transfer, 0 to 2^32 - 1; 0 for standard messages",
    "durable": "whether the message must outlive a restart of an intermediary",
    "priority": "relative priority, 0 to 255, higher first; 4 is normal",
    "ttl": "how long the message is live from its arrival at an intermediary, in ms",
    "first_acquirer": "whether no other link has acquired the message before",
    "delivery_count": "how many earlier attempts to deliver it failed",
    "delivery_annotations": "annotations for the next hop, by key",
    "message_annotations": "annotations for the whole way, by key",
    "has_properties": "true where there is a properties section, even one without any field",
    "message_id": "identifier of the message, as text",
    "message_id_type": "AMQP type of message_id: string, ulong (digits), uuid or binary (hex)",
    "user_id": "identity of the user who produced the message, as bytes",
    "to": "address of the node that the message is for",
    "subject": "summary of the content and purpose",
    "reply_to": "address of the node to send replies to",
    "correlation_id": "identifier that links the message to another, as text",
    "correlation_id_type": "AMQP type of correlation_id, as of message_id_type",
    "content_type": "MIME type of the body",
    "content_encoding": "what is applied to the body beyond its content type, such as gzip",
    "absolute_expiry_time": "when the message expires, UTC; null outside the years 1 to 9999",
    "absolute_expiry_time_ms": "the same outside the years 1 to 9999, in ms since 1970",
    "creation_time": "when the message was created, UTC; null outside the years 1 to 9999",
    "creation_time_ms": "the same outside the years 1 to 9999, in ms since 1970",
    "group_id": "the group that the message belongs to",
    "group_sequence": "its position in the group, 0 to 2^32 - 1",
    "reply_to_group_id": "the group that the reply belongs to",
    "application_properties": "properties that the application set, by name",
    "footer": "what could only be said after the body, such as hashes, by key",
    "body_kind": "data, amqp-sequence or amqp-value; null without a body",
    "body_sections": "how many sections the body has",
    "body": "the bytes of all data sections, joined; null for other bodies",
    "body_lengths": "the length of each data section, in bytes; null unless there are several",
    "body_json": "typed JSON of an amqp-value, or of the list of amqp-sequences: exact",
    "body_text": "the body as text: data that is UTF-8, or an amqp-value that is a string",
    "body_value": "an amqp-value, or the list of amqp-sequences, with numbers as numbers",
    "section_offsets": "where each section begins, its content begins, and it ends, in bytes",
    "error_code": "the first rule that the message breaks; null for a sound message",
    "error_clause": "the clause of the specification that has the rule",
    "error_offset": "where in the message it is broken, in bytes",
    "error": "why the message could not be decoded: rule, clause, offset in bytes; null if it was",
    "wire": "the encoded message itself",
}

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
#: A value of any type in the encoding of Parquet and Spark 4; the mark is what Spark knows it by.
VARIANT: pa.StructType = pa.struct(
    [
        pa.field("value", pa.binary(), nullable=False),
        pa.field("metadata", pa.binary(), nullable=False, metadata={"variant": "true"}),
    ]
)
#: How a map section is a column: as a map of structs, which is exact, or as a VARIANT.
MapsAs = Literal["map", "variant"]
# Spark asks of each number whether it is null, unless the type says that it never is.
#: The lengths of the data sections of a body.
LENGTHS = pa.list_(pa.field("item", pa.int64(), nullable=False))
_PART = {"code": pa.int16(), "offset": pa.int64(), "content": pa.int64(), "end": pa.int64()}
_OFFSETS = pa.list_(
    pa.field(
        "item",
        pa.struct([pa.field(name, kind, nullable=False) for name, kind in _PART.items()]),
        nullable=False,
    )
)


def _column(name: str, kind: pa.DataType) -> pa.Field:
    return pa.field(name, kind, metadata={"comment": COMMENTS[name]})


ERRORS: tuple[pa.Field, ...] = (
    _column("error_code", pa.string()),
    _column("error_clause", pa.string()),
    _column("error_offset", pa.int64()),
)
#: The columns of errors in one; only if asked for.
ERROR: pa.Field = _column(
    "error", pa.struct([(field.name.removeprefix("error_"), field.type) for field in ERRORS])
)
#: The bytes of a message; only if asked for.
WIRE: pa.Field = _column("wire", pa.binary())
# What is in the columns of `SCHEMA`, too, as others want it; only if asked for.
_DERIVED = (_column("body_text", pa.string()), _column("body_value", VARIANT), ERROR, WIRE)
#: The columns that most tables want; without ``body_value`` where maps are not a VARIANT.
LEAN: tuple[str, ...] = (
    *("message_id", "correlation_id", "user_id", "to", "subject", "reply_to"),
    *("content_type", "content_encoding", "creation_time", "group_id"),
    *("message_annotations", "application_properties"),
    *("body", "body_text", "body_value", "body_json", "error"),
)

#: The columns that are map sections.
MAPS: tuple[str, ...] = tuple(kind.attribute for kind in KINDS if kind.source == "map")
COMPOSITES = {"header": Header, "properties": Properties}
# In a message, an address is a string.
_SAID = {"address": "string", "message-id": "identifier"}


def ways_of(kernel: Any) -> dict[str, int]:
    """Return the way in which a kernel reads or writes each field of a composite, by its name."""
    fields = [field for cls in COMPOSITES.values() for field in rows(cls)]
    types = {field.name: field.requires if field.type == "*" else field.type for field in fields}
    return {name: getattr(kernel, f"{_SAID.get(t, t).upper()}_FIELD") for name, t in types.items()}


# The indexes of the kinds whose content a column of the body needs.
_DATA = next(i for i, kind in enumerate(KINDS) if kind is BODY_KINDS[0])
_BODY: dict[str, frozenset[int]] = {
    "body_kind": frozenset(),
    "body_sections": frozenset(),
    "body": frozenset((_DATA,)),
    "body_lengths": frozenset((_DATA,)),
    "body_json": frozenset((_DATA + 1, _DATA + 2)),
    "body_text": frozenset((_DATA, _DATA + 2)),
    "body_value": frozenset((_DATA + 1, _DATA + 2)),
}


def _columns_of(field: Field) -> list[pa.Field]:
    """Return the columns of one field of a composite."""
    columns = [_column(field.name, _ARROW[field.type])]
    if field.requires == "message-id":
        columns.append(_column(f"{field.name}_type", pa.string()))
    if field.type == "timestamp":
        columns.append(_column(f"{field.name}_ms", pa.int64()))
    return columns


def _build() -> tuple[pa.Schema, Mapping[str, frozenset[int]]]:
    """Return the schema, and by column the indexes of the kinds of section it is read from."""
    columns = [_column("message_format", pa.int64())]
    needs: dict[str, frozenset[int]] = {"message_format": frozenset()}
    present = _column("has_properties", pa.bool_())
    for index, kind in enumerate(KINDS):
        if kind.attribute in COMPOSITES:
            made = [c for field in rows(COMPOSITES[kind.attribute]) for c in _columns_of(field)]
        elif kind.attribute in MAPS:
            made = [_column(kind.attribute, pa.map_(pa.string(), VALUE))]
        else:
            continue
        columns += (present, *made) if kind.cls is Properties else made
        needs |= {column.name: frozenset((index,)) for column in made}
    columns += [
        _column("body_kind", pa.string()),
        _column("body_sections", pa.int32()),
        _column("body", pa.binary()),
        _column("body_lengths", LENGTHS),
        _column("body_json", pa.string()),
        _column("section_offsets", _OFFSETS),
        *ERRORS,
    ]
    needs |= _BODY
    needs |= {column.name: frozenset() for column in (present, columns[-4], *ERRORS, ERROR, WIRE)}
    return pa.schema(columns), MappingProxyType(needs)


#: The columns that `decode` returns if none are named: all that a message says, but for how its
#: values are encoded.
SCHEMA: pa.Schema
SCHEMA, _NEEDS = _build()
_ALL = tuple(SCHEMA.names)
_FIELDS: dict[str, pa.Field] = {field.name: field for field in (*SCHEMA, *_DERIVED)}
# Names for lists of columns. With maps there is no VARIANT, for readers that have none.
_LISTS = {
    ("all", "map"): _ALL,
    ("all", "variant"): _ALL,
    ("lean", "map"): tuple(name for name in LEAN if _FIELDS[name].type != VARIANT),
    ("lean", "variant"): LEAN,
}
#: The names that stand for lists of columns.
SETS: tuple[str, ...] = ("all", "lean")


@attrs.frozen(eq=False)
class Plan:
    """What a projection asks for.

    Attributes:
        schema: the columns that are read from messages.
        needs: the indexes of the kinds of section, 0 to 8, whose content is read; others are
            skipped by their size.
        picks: by map section, the keys that are asked for one by one.
        result: the columns that are returned, in the order asked for: read, or made of those.
        typed: of the columns that are returned, entries of map sections as plain values.
    """

    schema: pa.Schema
    needs: frozenset[int]
    picks: Mapping[str, tuple[str, ...]]
    result: pa.Schema
    typed: Mapping[str, Pick]

    @property
    def whole(self) -> bool:
        """Whether every kind of section is read."""
        return len(self.needs) == len(KINDS)


# A stream of batches is decoded with one projection; a plan is made once for all of them.
@lru_cache(maxsize=64)
def plan_of(columns: str | Picker | tuple[str, ...] | None, maps: MapsAs = "map") -> Plan:
    """Return the plan for names of columns, or for ``all``, which None means, or ``lean``.

    Args:
        columns: the names, or one name, or what picks values of single messages.
        maps: how map sections are columns.

    Raises:
        ValueError: a column is unknown, or named twice; a path has no column; `maps` is neither.
    """
    if maps not in {"map", "variant"}:
        raise ValueError(f"maps is {maps!r}, and must be map or variant")
    if isinstance(columns, Picker):
        columns = tuple(name for path in columns.paths for name in _names_of(path_of(path)))
    if columns is None:
        columns = "all"
    if isinstance(columns, str):
        columns = _LISTS.get((columns, maps), (columns,))
    return _plan_of(columns, maps)


def _names_of(path: Path) -> tuple[str, ...]:
    """Return the columns of a path."""
    if path.kind is None:
        return ("body", "body_json")
    section = path.kind.attribute
    if path.key is not None:
        name = f"{section}.{path.key}"
        pick = pick_of(name, MAPS)
        # A symbol of digits is not to be told from a ulong.
        digits = path.kind.cls is not ApplicationProperties and str(path.key).lstrip("#").isdigit()
        if digits or pick is None or pick.key != path.key:
            raise ValueError(f"{path.text!r}: an entry of this key has no column of its own")
        return (name,)
    if section in MAPS:
        return (section,)
    fields = rows(COMPOSITES[section])
    if path.index >= 0:
        return (fields[path.index].name,)
    return tuple(column.name for field in fields for column in _columns_of(field))


# The kernel has a plan for each of these: names that mean the same share one.
@lru_cache(maxsize=64)
def _plan_of(names: tuple[str, ...], maps: MapsAs) -> Plan:
    result: list[pa.Field] = []
    read: dict[str, pa.Field] = {}
    needs: set[int] = set()
    typed: dict[str, Pick] = {}
    for name in names:
        pick = pick_of(name, MAPS)
        if pick is not None:
            source = pa.field(f"{pick.section}.{pick.key}", VALUE)
            read[source.name] = source
            needs |= _NEEDS[pick.section]
            result.append(source if pick.type is None else pick.field)
            if pick.type is not None:
                typed[pick.name] = pick
        elif name == ERROR.name:
            read |= {field.name: field for field in ERRORS}
            result.append(ERROR)
        elif name in _FIELDS:
            field = _FIELDS[name]
            if maps == "variant" and name in MAPS:
                field = _column(name, VARIANT)
            read[name] = field
            needs |= _NEEDS[name]
            result.append(field)
        else:
            raise ValueError(
                f"unknown column {name!r}: use {', '.join(_FIELDS)}, or one entry of a map "
                f"section such as application_properties.tenant, or with a type, "
                f"'application_properties.tenant string'"
            )
    shown = [field.name for field in result]
    repeated = sorted({name for name in shown if shown.count(name) > 1})
    if repeated:
        raise ValueError(f"duplicate columns: {', '.join(repeated)}")
    picks: dict[str, tuple[str, ...]] = {}
    for name in read:
        section, dot, key = name.partition(".")
        if dot:
            picks[section] = (*picks.get(section, ()), key)
    schema = pa.schema(list(read.values()))
    is_same = schema.names == shown and not typed
    return Plan(
        schema=schema,
        needs=frozenset(needs),
        picks=MappingProxyType(picks),
        result=schema if is_same else pa.schema(result),
        typed=MappingProxyType(typed),
    )


def schema_of(
    columns: str | Picker | Iterable[str] | None = None, *, maps: MapsAs = "map"
) -> pa.Schema:
    """Return the schema that `decode` with these columns returns.

    The metadata of each field has a ``comment``: what it holds, with the unit.

    Args:
        columns: as for `decode`; None for `SCHEMA`.
        maps: as for `decode`.

    Raises:
        ValueError: a column is unknown, or named twice.
    """
    names = columns if isinstance(columns, str | Picker | None) else tuple(columns)
    return plan_of(names, maps).result
