"""The columns of a message: names and Arrow types, drawn from the declarations of Part 3, 3.2."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Literal

import attrs
import pyarrow as pa

from amqp10msg.columns._picks import VALUE, Pick, entry_name, pick_of
from amqp10msg.composite import Field, rows
from amqp10msg.message.picks import Picker
from amqp10msg.sections import BODY_KINDS, KINDS, ApplicationProperties, Header, Properties
from amqp10msg.sections.paths import Path, path_of

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
#: Columns that show what columns of `SCHEMA` hold in another form; only if asked for.
DERIVED = (_column("body_text", pa.string()), _column("body_value", VARIANT), ERROR, WIRE)
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
_FIELDS: dict[str, pa.Field] = {field.name: field for field in (*SCHEMA, *DERIVED)}
# The names of the fields, by that of their section.
_PATHS = {section: tuple(f.name for f in rows(cls)) for section, cls in COMPOSITES.items()}
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
        entries: the returned columns that show an entry as plain values, or under another name
            than `Pick.struct_name`.
    """

    schema: pa.Schema
    needs: frozenset[int]
    picks: Mapping[str, tuple[str, ...]]
    result: pa.Schema
    entries: Mapping[str, Pick]

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


def column_name(name: str) -> str:
    """Return the column of a field's path, such as ``properties.message-id``; else `name`."""
    section, dot, field = name.partition(".")
    field = field.replace("-", "_")
    known = _PATHS.get(section, ())
    return field if dot and field in known else name


def unknown_column(name: str, known: Iterable[str]) -> str:
    """Return the text of an error about a column that is not among those known."""
    near = difflib.get_close_matches(column_name(name).rpartition(".")[2], [*known, *SETS], 1)
    meant = f" (did you mean {near[0]!r}?)" if near else ""
    return (
        f"unknown column {name!r}{meant}: use {', '.join(known)}, or an entry of a map section: "
        "application_properties.tenant, or with a type 'application_properties.tenant string'"
    )


def _names_of(path: Path) -> tuple[str, ...]:
    """Return the columns of a path."""
    if path.kind is None:
        return ("body", "body_json")
    section = path.kind.attribute
    if path.key is not None:
        # As a column, a symbol of digits looks like a ulong.
        digits = path.kind.cls is not ApplicationProperties and str(path.key).lstrip("#").isdigit()
        if digits:
            raise ValueError(f"{path.text!r}: an entry of this key has no column of its own")
        return (entry_name(section, path.key),)
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
    entries: dict[str, Pick] = {}
    for name in map(column_name, names):
        pick = pick_of(name, MAPS)
        if pick is not None:
            read[pick.struct_name] = pa.field(pick.struct_name, VALUE)
            needs |= _NEEDS[pick.section]
            result.append(pick.field)
            if pick.type is not None or pick.name != pick.struct_name:
                entries[pick.name] = pick
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
            raise ValueError(unknown_column(name, _FIELDS))
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
    is_same = schema.names == shown and not entries
    return Plan(
        schema=schema,
        needs=frozenset(needs),
        picks=MappingProxyType(picks),
        result=schema if is_same else pa.schema(result),
        entries=MappingProxyType(entries),
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
