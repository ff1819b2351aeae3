"""The columns of a message: names and Arrow types, derived from the declarations of Part 3, 3.2."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Literal

import attrs
import pyarrow as pa

from amqp10msg.brokers import ByName, by_attribute
from amqp10msg.columns._picks import VALUE, Pick, entry_name, pick_of, without_extra_spaces
from amqp10msg.composite import Field, rows
from amqp10msg.message.picks import Picker
from amqp10msg.sections import BODY_KINDS, KINDS, ApplicationProperties, Header, Properties
from amqp10msg.sections.paths import Path, path_of
from amqp10msg.wire.errors import wrong_type

#: The comment of each column, with the unit; shown by DESCRIBE, and stored in file schemas.
COLUMN_COMMENTS: Mapping[str, str] = {
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
    "wire": "the encoded message itself",
}

# AMQP types as Arrow types that Spark, pandas, Polars and DuckDB all support. Spark has no unsigned
# numbers, and only timestamps in microseconds.
_ARROW_TYPES: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "ubyte": pa.int16(),
    "uint": pa.int64(),
    "binary": pa.binary(),
    "string": pa.string(),
    "symbol": pa.string(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "*": pa.string(),
}

#: A value of any type in the VARIANT encoding of Parquet and Spark 4. Spark recognises it by the
#: field metadata ``variant``.
VARIANT: pa.StructType = pa.struct(
    [
        pa.field("value", pa.binary(), nullable=False),
        pa.field("metadata", pa.binary(), nullable=False, metadata={"variant": "true"}),
    ]
)
#: The type of map section columns: a map of structs, which is exact, or a VARIANT.
MapsAs = Literal["map", "variant"]
#: The type of ``body_lengths``, which are the sizes of the data sections of a body, in bytes. The
#: items are not nullable, so that Spark does not test each number for null.
BODY_LENGTHS_TYPE = pa.list_(pa.field("item", pa.int64(), nullable=False))
#: The members of an item of ``section_offsets``.
_SECTION_OFFSET_MEMBERS = {
    "code": pa.int16(),
    "offset": pa.int64(),
    "content": pa.int64(),
    "end": pa.int64(),
}
_SECTION_OFFSETS_TYPE = pa.list_(
    pa.field(
        "item",
        pa.struct(
            [pa.field(name, kind, nullable=False) for name, kind in _SECTION_OFFSET_MEMBERS.items()]
        ),
        nullable=False,
    )
)


#: Key in the metadata of a decoded column that has only part of a value, such as the text of a
#: message-id. The value is the name of the column with the other part. Columns from other sources
#: have no such key, so `encode` accepts them alone.
COMPANION_METADATA_KEY = b"amqp10msg.companion"


def _column(
    name: str, arrow_type: pa.DataType, metadata: Mapping[bytes, str] = MappingProxyType({})
) -> pa.Field:
    """Return a field with the comment of the column, and other metadata."""
    return pa.field(name, arrow_type, metadata={b"comment": COLUMN_COMMENTS[name], **metadata})


#: The error columns.
ERROR_COLUMNS: tuple[pa.Field, ...] = (
    _column("error_code", pa.string()),
    _column("error_clause", pa.string()),
    _column("error_offset", pa.int64()),
)
#: The encoded message; only if selected.
WIRE_COLUMN: pa.Field = _column("wire", pa.binary())


@attrs.frozen
class ComputedColumn:
    """A column that is computed from other columns of a batch; only if selected.

    Attributes:
        field: name, type, and the comment.
        inputs: the names of the columns of `SCHEMA` that it is computed from, without map sections.
        compute: returns the column for the arrays of `inputs`.
        repeats_content: whether the column repeats the content of the message: then `encode`
            requires that it agrees with the other columns. If False, `encode` ignores it.
    """

    field: pa.Field
    inputs: tuple[str, ...]
    compute: Callable[..., pa.Array]
    repeats_content: bool = True


def _computed(
    name: str,
    arrow_type: pa.DataType,
    comment: str,
    inputs: tuple[str, ...],
    compute: Callable[..., pa.Array],
    *,
    repeats_content: bool = True,
) -> ComputedColumn:
    field = pa.field(name, arrow_type, metadata={"comment": comment})
    return ComputedColumn(field, inputs, compute, repeats_content)


_ERROR_STRUCT_TYPE = pa.struct(
    [(field.name.removeprefix("error_"), field.type) for field in ERROR_COLUMNS]
)


def _join_error(*members: pa.Array) -> pa.StructArray:
    """Return the error columns as one struct, null for messages without an error."""
    return pa.StructArray.from_arrays(
        members, fields=list(_ERROR_STRUCT_TYPE), mask=members[0].is_null()
    )


_COMPUTED_TABLE = (
    _computed(
        "error",
        _ERROR_STRUCT_TYPE,
        "why the message could not be decoded: rule, clause, offset in bytes; null if it was",
        tuple(field.name for field in ERROR_COLUMNS),
        _join_error,
        repeats_content=False,
    ),
)
#: The computed columns by name.
COMPUTED_COLUMNS: Mapping[str, ComputedColumn] = ByName(
    by_attribute(_COMPUTED_TABLE, "field.name", "computed column"), kind="computed column"
)
#: Columns derived from other columns or from the message. Returned only if they are selected.
DERIVED_COLUMNS = (
    _column("body_text", pa.string()),
    _column("body_value", VARIANT),
    *(column.field for column in _COMPUTED_TABLE),
    WIRE_COLUMN,
)
#: The columns that most tables need; without ``body_value`` unless maps are VARIANT.
LEAN: tuple[str, ...] = (
    *("message_id", "message_id_type", "correlation_id", "correlation_id_type"),
    *("user_id", "to", "subject", "reply_to"),
    *("content_type", "content_encoding"),
    *("creation_time", "creation_time_ms", "group_id"),
    *("message_annotations", "application_properties"),
    *("body", "body_text", "body_value", "body_json", "error"),
)

#: The columns that are map sections.
MAPS: tuple[str, ...] = tuple(kind.attribute for kind in KINDS if kind.source == "map")
#: The classes of the sections whose fields are columns.
COMPOSITE_CLASSES = {"header": Header, "properties": Properties}
# The kernel's names for field types: an address is encoded as a string.
_KERNEL_FIELD_TYPE_NAMES = {"address": "string", "message-id": "identifier"}


def field_kinds(kernel: Any) -> dict[str, int]:
    """Return the kernel's number for the type of each header and properties field, by name."""
    fields = [field for cls in COMPOSITE_CLASSES.values() for field in rows(cls)]
    types = {field.name: field.requires if field.type == "*" else field.type for field in fields}
    return {
        name: getattr(kernel, f"{_KERNEL_FIELD_TYPE_NAMES.get(type_name, type_name).upper()}_FIELD")
        for name, type_name in types.items()
    }


_DATA_KIND_INDEX = next(i for i, kind in enumerate(KINDS) if kind is BODY_KINDS[0])
# For each body column, the indexes in `KINDS` of the sections whose content it needs.
_SECTIONS_OF_BODY_COLUMNS: dict[str, frozenset[int]] = {
    "body_kind": frozenset(),
    "body_sections": frozenset(),
    "body": frozenset((_DATA_KIND_INDEX,)),
    "body_lengths": frozenset((_DATA_KIND_INDEX,)),
    "body_json": frozenset((_DATA_KIND_INDEX + 1, _DATA_KIND_INDEX + 2)),
    "body_text": frozenset((_DATA_KIND_INDEX, _DATA_KIND_INDEX + 2)),
    "body_value": frozenset((_DATA_KIND_INDEX + 1, _DATA_KIND_INDEX + 2)),
}


def _columns_of_field(field: Field) -> list[pa.Field]:
    """Return the columns of a header or properties field."""
    if field.requires == "message-id":
        types = f"{field.name}_type"
        text = _column(field.name, pa.string(), {COMPANION_METADATA_KEY: types})
        return [text, _column(types, pa.string())]
    if field.type == "timestamp":
        name, milliseconds = field.name, f"{field.name}_ms"
        return [
            _column(name, _ARROW_TYPES[field.type], {COMPANION_METADATA_KEY: milliseconds}),
            _column(milliseconds, pa.int64(), {COMPANION_METADATA_KEY: name}),
        ]
    return [_column(field.name, _ARROW_TYPES[field.type])]


def _build_schema() -> tuple[pa.Schema, Mapping[str, frozenset[int]]]:
    """Return `SCHEMA`, and for each column the indexes in `KINDS` of the sections it needs."""
    columns = [_column("message_format", pa.int64())]
    needs: dict[str, frozenset[int]] = {"message_format": frozenset()}
    present = _column("has_properties", pa.bool_())
    for index, kind in enumerate(KINDS):
        if kind.attribute in COMPOSITE_CLASSES:
            section_columns = [
                c
                for field in rows(COMPOSITE_CLASSES[kind.attribute])
                for c in _columns_of_field(field)
            ]
        elif kind.attribute in MAPS:
            section_columns = [_column(kind.attribute, pa.map_(pa.string(), VALUE))]
        else:
            continue
        columns += (present, *section_columns) if kind.cls is Properties else section_columns
        needs |= {column.name: frozenset((index,)) for column in section_columns}
    columns += [
        _column("body_kind", pa.string()),
        _column("body_sections", pa.int32()),
        _column("body", pa.binary()),
        _column("body_lengths", BODY_LENGTHS_TYPE),
        _column("body_json", pa.string()),
        _column("section_offsets", _SECTION_OFFSETS_TYPE),
        *ERROR_COLUMNS,
    ]
    needs |= _SECTIONS_OF_BODY_COLUMNS
    needs |= {
        column.name: frozenset() for column in (present, columns[-4], *ERROR_COLUMNS, WIRE_COLUMN)
    }
    return pa.schema(columns), MappingProxyType(needs)


#: The columns that `decode` returns by default: the whole content of a message, except for how
#: values are encoded.
SCHEMA: pa.Schema
SCHEMA, _SECTIONS_OF_COLUMNS = _build_schema()
#: The columns of the set ``all``.
_ALL_COLUMNS = tuple(SCHEMA.names)
_FIELD_BY_COLUMN: dict[str, pa.Field] = {field.name: field for field in (*SCHEMA, *DERIVED_COLUMNS)}
# The names of the fields of each section, by name of the section.
_FIELDS_BY_SECTION = {
    section: tuple(f.name for f in rows(cls)) for section, cls in COMPOSITE_CLASSES.items()
}
# The columns of the sets ``all`` and ``lean``, by set and `maps`. With maps="map", ``lean`` leaves
# out VARIANT columns, because some readers do not support that type.
_COLUMN_SETS = {
    ("all", "map"): _ALL_COLUMNS,
    ("all", "variant"): _ALL_COLUMNS,
    ("lean", "map"): tuple(name for name in LEAN if _FIELD_BY_COLUMN[name].type != VARIANT),
    ("lean", "variant"): LEAN,
}
#: The names of predefined sets of columns: `decode` accepts such a name as its argument `columns`.
SETS: tuple[str, ...] = ("all", "lean")


@attrs.frozen(eq=False)
class Plan:
    """The columns to read and to return for a selection of columns.

    Attributes:
        schema: the columns read from messages.
        needs: the indexes, 0 to 8, of the section kinds whose content is read; other sections are
            skipped.
        picks: the keys of the selected entries, by map section.
        result: the returned columns, in the requested order: columns of `schema`, or columns
            derived from these.
        entries: by name, the entry of each returned column that has plain values, or another name
            than `Pick.struct_name`.
    """

    schema: pa.Schema
    needs: frozenset[int]
    picks: Mapping[str, tuple[str, ...]]
    result: pa.Schema
    entries: Mapping[str, Pick]

    @property
    def needs_all(self) -> bool:
        """Whether all section kinds are read."""
        return len(self.needs) == len(KINDS)


def plan_of(columns: str | Picker | Iterable[str] | None, maps: MapsAs = "map") -> Plan:
    """Return the plan for a selection of columns.

    Args:
        columns: column names; one name; ``all`` (None) or ``lean``; or a `Picker`.
        maps: the type of map section columns.

    Raises:
        TypeError: a column is not a str.
        ValueError: a column is unknown or repeated; a path has no column; `maps` is invalid.
    """
    if columns is None or isinstance(columns, str | Picker):
        return _plan_of_selection(columns, maps)
    if not isinstance(columns, Iterable):
        raise wrong_type("columns", "names of columns", columns)
    names = tuple(columns)
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"a column is a str, not {type(name).__name__}: {name!r:.80}")
    return _plan_of_selection(names, maps)


# Cached because consecutive batches usually have the same selection.
@lru_cache(maxsize=64)
def _plan_of_selection(columns: str | Picker | tuple[str, ...] | None, maps: MapsAs) -> Plan:
    """Return the plan for a selection; errors as for `plan_of`."""
    if maps not in {"map", "variant"}:
        raise ValueError(f"maps must be map or variant, got {maps!r}")
    if isinstance(columns, Picker):
        columns = tuple(name for path in columns.paths for name in _columns_of_path(path_of(path)))
    if columns is None:
        columns = "all"
    if isinstance(columns, str):
        columns = _COLUMN_SETS.get((columns.strip(" "), maps), (columns,))
    return _plan_of(columns, maps)


def column_name(name: str) -> str:
    """Return the column of a field path such as ``properties.message-id``; otherwise `name`."""
    section, dot, field = name.partition(".")
    field = field.replace("-", "_")
    fields = _FIELDS_BY_SECTION.get(section, ())
    return field if dot and field in fields else name


def unknown_column(name: str, valid_names: Iterable[str]) -> str:
    """Return the error message for an unknown column, with a suggestion."""
    suggestion = _similar_section(name) or next(
        iter(
            difflib.get_close_matches(
                column_name(name).rpartition(".")[2], [*valid_names, *SETS], 1
            )
        ),
        "",
    )
    hint = f" (did you mean {suggestion!r}?)" if suggestion else ""
    return (
        f"unknown column {name!r}{hint}: use {', '.join(valid_names)}, or an entry of a map "
        "section: application_properties.tenant, or with a type "
        "'application_properties.tenant string'"
    )


def _similar_section(name: str) -> str:
    """Return a field path or an entry name with its misspelt section corrected, or ""."""
    section = re.split(r"[.\[]", name, maxsplit=1)[0]
    known = [*MAPS, *_FIELDS_BY_SECTION]
    if len(section) == len(name) or section.replace("-", "_") in known:
        return ""
    similar = difflib.get_close_matches(section.lower().replace("-", "_"), known, 1)
    return name.replace(section, similar[0], 1) if similar else ""


def _columns_of_path(path: Path) -> tuple[str, ...]:
    """Return the names of the columns for a path of a `Picker`."""
    if path.kind is None:
        return ("body", "body_json")
    section = path.kind.attribute
    if path.key is not None:
        # In a column name, a symbol that consists of digits would be parsed as a ulong.
        looks_like_ulong = (
            path.kind.cls is not ApplicationProperties and str(path.key).lstrip("#").isdigit()
        )
        if looks_like_ulong:
            raise ValueError(
                f"{path.text!r}: a key that is a number, such as 5 or #5, cannot be a column: use "
                f"the column {section}"
            )
        return (entry_name(section, path.key),)
    if section in MAPS:
        return (section,)
    fields = rows(COMPOSITE_CLASSES[section])
    if path.index >= 0:
        return (fields[path.index].name,)
    return tuple(column.name for field in fields for column in _columns_of_field(field))


def _are_about_errors(names: Iterable[str]) -> bool:
    """Return whether columns are about errors only, which may be in any section.

    Beside the error columns, such a selection has the columns that read no section.
    """
    error_names = {field.name for field in ERROR_COLUMNS}
    others = set(names) - error_names - {"message_format", WIRE_COLUMN.name}
    return not others and not error_names.isdisjoint(names)


# Cached by resolved names, so that equivalent selections share the kernel's plan.
@lru_cache(maxsize=64)
def _plan_of(names: tuple[str, ...], maps: MapsAs) -> Plan:
    """Return the plan for columns by name; errors as for `plan_of`."""
    result: list[pa.Field] = []
    read_fields: dict[str, pa.Field] = {}
    needs: set[int] = set()
    entries: dict[str, Pick] = {}
    for name in map(column_name, map(without_extra_spaces, names)):
        pick = pick_of(name, MAPS)
        if pick is not None:
            read_fields[pick.struct_name] = pa.field(pick.struct_name, VALUE)
            needs |= _SECTIONS_OF_COLUMNS[pick.section]
            result.append(pick.field)
            if pick.type is not None or pick.name != pick.struct_name:
                entries[pick.name] = pick
        elif name in COMPUTED_COLUMNS:
            column = COMPUTED_COLUMNS[name]
            read_fields |= {
                input_name: _FIELD_BY_COLUMN[input_name] for input_name in column.inputs
            }
            needs |= {
                index for input_name in column.inputs for index in _SECTIONS_OF_COLUMNS[input_name]
            }
            result.append(column.field)
        elif name in _FIELD_BY_COLUMN:
            field = _FIELD_BY_COLUMN[name]
            if maps == "variant" and name in MAPS:
                field = _column(name, VARIANT)
            read_fields[name] = field
            needs |= _SECTIONS_OF_COLUMNS[name]
            result.append(field)
        else:
            raise ValueError(unknown_column(name, _FIELD_BY_COLUMN))
    if _are_about_errors(read_fields):
        needs = set(range(len(KINDS)))
    result_names = [field.name for field in result]
    repeated = sorted({name for name in result_names if result_names.count(name) > 1})
    if repeated:
        raise ValueError(f"duplicate columns: {', '.join(repeated)}")
    picks: dict[str, tuple[str, ...]] = {}
    for name in read_fields:
        section, dot, key = name.partition(".")
        if dot:
            picks[section] = (*picks.get(section, ()), key)
    schema = pa.schema(list(read_fields.values()))
    is_same = schema.names == result_names and not entries
    return Plan(
        schema=schema,
        needs=frozenset(needs),
        picks=MappingProxyType(picks),
        result=schema if is_same else pa.schema(result),
        entries=MappingProxyType(entries),
    )


def skipped_sections(columns: str | Picker | Iterable[str] | None = None) -> list[str]:
    """Return the sections that `decode` with these columns skips, in the order of a message.

    Damage inside a skipped section is not detected, unless `decode` also validates the messages,
    for which it reads every section. The names are those of Part 3, 3.2, such as
    ``message-annotations``; the three kinds of body sections are together ``body``.

    Args:
        columns: as for `decode`; None for `SCHEMA`.

    Raises:
        TypeError: a column is not a str.
        ValueError: a column is unknown, or named twice.
    """
    needs = plan_of(columns).needs
    skipped = [kind for index, kind in enumerate(KINDS) if index not in needs]
    is_body_skipped = {*BODY_KINDS} <= {*skipped}
    names_in_order = (
        "body" if is_body_skipped and kind in BODY_KINDS else kind.name
        for kind in sorted(skipped, key=lambda kind: kind.order)
    )
    return list(dict.fromkeys(names_in_order))


def schema_of(
    columns: str | Picker | Iterable[str] | None = None, *, maps: MapsAs = "map"
) -> pa.Schema:
    """Return the schema that `decode` with these columns returns.

    The metadata of each field has a ``comment`` that describes the column, with the unit.

    Args:
        columns: as for `decode`; None for `SCHEMA`.
        maps: as for `decode`.

    Raises:
        TypeError: a column is not a str.
        ValueError: a column is unknown, or named twice.
    """
    return plan_of(columns, maps).result
