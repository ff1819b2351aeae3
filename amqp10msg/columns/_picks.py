"""Columns with a single entry of a map section: parse their names, and convert their values.

The values of an entry column are structs of `VALUE`, or plain values of an SQL type.
"""

from __future__ import annotations

import ast
import decimal
import difflib
import math
import re
from collections.abc import Collection
from functools import cache

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from amqp10msg.columns._cells import MAX_TIMESTAMP_MS, MIN_TIMESTAMP_MS
from amqp10msg.wire.primitives import DECIMALS, INTEGERS

#: The struct of a value in a map section: its AMQP type, and one member that holds the value.
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
#: The types of plain entry columns: SQL name to Arrow type.
SQL_TYPES: dict[str, pa.DataType] = {
    "string": pa.string(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "binary": pa.binary(),
}
#: Which values a plain entry column has, by its type; see `Pick.plain`.
_TYPE_COMMENTS = {
    "string": "numbers, booleans, symbols, chars and UUIDs as text; null for all other types",
    "bigint": "null where that is not an integer below 2^63",
    "double": "integers and decimals as doubles; null where that is not a number",
    "boolean": "null where that is not a boolean",
    "timestamp": "null where that is not a timestamp of the years 1 to 9999",
    "binary": "null where that is not binary",
}
#: Key in the metadata of a plain column. Its value is the full name of the entry, from which
#: `encode` gets the section and the key.
ENTRY_METADATA_KEY = b"amqp_entry"

# The parts of a column name: the section, a key with or without quotes, and the type with a name.
_SECTION_PATTERN = re.compile(r"[a-z]+(?:[_-][a-z]+)*(?=[.\[])")
_QUOTED_PATTERN = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
_BARE_PATTERN = r"""[^\s'"]\S*"""
_KEY_PATTERN = re.compile(
    rf"(?:\.(?P<bare>{_BARE_PATTERN})|\.(?P<quoted>{_QUOTED_PATTERN})"
    rf"|\[(?P<bracketed>{_QUOTED_PATTERN})\])",
    re.DOTALL,
)
_TYPE_SUFFIX_PATTERN = re.compile(r" (?P<type>\S+)(?: as (?P<name>.+))?", re.DOTALL)
# Type names of other systems, for suggestions; difflib would not match them.
_TYPE_ALIASES = {
    **dict.fromkeys(("int", "integer", "long", "int64", "number", "smallint"), "bigint"),
    **dict.fromkeys(("str", "text", "varchar", "char", "symbol", "utf8"), "string"),
    **dict.fromkeys(("float", "real", "float64", "decimal"), "double"),
    **dict.fromkeys(("bytes", "blob", "bytea"), "binary"),
    **dict.fromkeys(("datetime", "date", "timestamptz"), "timestamp"),
}
# AMQP types, grouped by the member of `VALUE` that holds their values (see `_cells`).
_DECIMAL_TYPES = tuple(DECIMALS)
_STRING_TYPES = ("string", "symbol", "char", "uuid", *DECIMALS)
_INTEGER_TYPES = ("long", *(set(INTEGERS) - {"ulong", "timestamp"}))


def _is_one_of(types: pa.Array, names: tuple[str, ...]) -> pa.Array:
    """Return for each type whether it is one of `names`."""
    return pc.is_in(types, _cached_array(names))


# Arrow constants, which are created when they are first used: the first one makes Arrow import
# pandas.


@cache
def _cached_array(names: tuple[str, ...]) -> pa.Array:
    """Return an Arrow array of strings."""
    return pa.array(names)


@cache
def _bigint_overflow() -> pa.Scalar:
    """Return 2^63, the smallest ulong that a bigint cannot represent."""
    return pa.scalar(decimal.Decimal(1 << 63), pa.decimal128(20, 0))


@attrs.frozen
class Pick:
    """A column with one entry of a map section.

    Attributes:
        section: the column of the section, such as ``application_properties``.
        key: the key of the entry; the digits of a ulong.
        type: the SQL type of a plain column, a key of `SQL_TYPES`; None for a column of structs.
        name: the name of the column.
    """

    section: str
    key: str
    type: str | None
    name: str

    @property
    def field(self) -> pa.Field:
        """The column's name and type, with a comment."""
        if self.type is None:
            return pa.field(self.name, VALUE)
        entry = f"{entry_name(self.section, self.key)} {self.type} as {self.name}"
        comment = f"{self.key} of {self.section}; {_TYPE_COMMENTS[self.type]}"
        metadata = {b"comment": comment, ENTRY_METADATA_KEY: entry}
        return pa.field(self.name, SQL_TYPES[self.type], metadata=metadata)

    @property
    def struct_name(self) -> str:
        """The name of the column with the struct of the entry."""
        return f"{self.section}.{self.key}"

    def plain(self, values: pa.StructArray) -> pa.Array:
        """Convert structs of values to plain values of `type`; values of other types become null.

        A string column also accepts symbols, UUIDs, chars, decimals, numbers and booleans, as text;
        a double column also accepts integers and decimals; a bigint column also accepts ulongs
        below 2^63.
        """
        types = pc.struct_field(values, "type")
        if self.type == "string":
            return _as_strings(values, types)
        if self.type == "bigint":
            small = pc.less(pc.struct_field(values, "u"), _bigint_overflow())
            numbers = pc.if_else(small, pc.struct_field(values, "u"), None).cast(pa.int64())
            return pc.coalesce(
                _keep_where(_is_one_of(types, _INTEGER_TYPES), pc.struct_field(values, "l")),
                numbers,
            )
        if self.type == "double":
            return pc.coalesce(
                pc.struct_field(values, "d"),
                _keep_where(_is_one_of(types, _INTEGER_TYPES), pc.struct_field(values, "l")).cast(
                    pa.float64(), safe=False
                ),
                pc.struct_field(values, "u").cast(pa.float64()),
                _decimals_as_doubles(pc.struct_field(values, "s"), types),
            )
        if self.type == "boolean":
            return _keep_where(pc.equal(types, "boolean"), pc.struct_field(values, "l")).cast(
                pa.bool_()
            )
        if self.type == "timestamp":
            milliseconds = pc.struct_field(values, "l")
            is_valid_time = pc.and_(
                pc.equal(types, "timestamp"),
                pc.and_(
                    pc.greater_equal(milliseconds, MIN_TIMESTAMP_MS),
                    pc.less_equal(milliseconds, MAX_TIMESTAMP_MS),
                ),
            )
            times = _keep_where(is_valid_time, milliseconds).cast(pa.timestamp("ms", tz="UTC"))
            return times.cast(SQL_TYPES["timestamp"])
        return _keep_where(pc.equal(types, "binary"), pc.struct_field(values, "b"))


def _keep_where(mask: pa.Array, values: pa.Array) -> pa.Array:
    """Return values where the mask is true, and null elsewhere."""
    return pc.if_else(mask, values, None)


def _decimals_as_doubles(texts: pa.Array, types: pa.Array) -> pa.Array:
    """Convert decimal floating-point values to doubles; values of other types become null.

    The conversion is in Python, because such values are rare.
    """
    is_decimal = _is_one_of(types, _DECIMAL_TYPES)
    if not pc.any(is_decimal).as_py():
        return pa.nulls(len(texts), pa.float64())
    numbers = _keep_where(is_decimal, texts).to_pylist()
    return pa.array(
        [None if text is None else _decimal_to_double(text) for text in numbers], pa.float64()
    )


def _decimal_to_double(text: str) -> float:
    """Convert the text of a decimal to a double; any NaN becomes the default NaN."""
    number = decimal.Decimal(text)
    return math.nan if number.is_nan() else float(number)


def _as_strings(values: pa.StructArray, types: pa.Array) -> pa.Array:
    """Convert structs of values to strings; binaries and nested values become null."""
    texts = pc.struct_field(values, "s")
    if pc.all(pc.equal(types, "string")).as_py() is not False:
        return texts
    booleans = _keep_where(pc.equal(types, "boolean"), pc.struct_field(values, "l")).cast(
        pa.bool_()
    )
    return pc.coalesce(
        _keep_where(_is_one_of(types, _STRING_TYPES), texts),
        _keep_where(_is_one_of(types, _INTEGER_TYPES), pc.struct_field(values, "l")).cast(
            pa.string()
        ),
        booleans.cast(pa.string()),
        pc.struct_field(values, "d").cast(pa.string()),
        pc.struct_field(values, "u").cast(pa.string()),
    )


def entry_name(section: str, key: str) -> str:
    """Return the column name of an entry, with the key in quotes if necessary."""
    return f"{section}.{key if re.fullmatch(_BARE_PATTERN, key) else repr(key)}"


def without_extra_spaces(name: str) -> str:
    """Remove spaces around the name of a column, and double spaces between the parts of an entry.

    Spaces in a quoted key, and in a name after ``as``, are kept.
    """
    name = name.strip(" ")
    head = _SECTION_PATTERN.match(name)
    key_match = head and _KEY_PATTERN.match(name, head.end())
    suffix = key_match and re.fullmatch(
        r" +(\S+)(?: +as +(.+))?", name[key_match.end() :], re.DOTALL
    )
    if not (key_match and suffix):
        return name
    renamed = "" if suffix[2] is None else f" as {suffix[2]}"
    return f"{name[: key_match.end()]} {suffix[1]}{renamed}"


def pick_of(name: str, sections: Collection[str]) -> Pick | None:
    """Parse the name of an entry column.

    The name is ``SECTION.KEY`` for the struct, ``SECTION.KEY TYPE`` for a plain column called
    ``KEY``, or ``SECTION.KEY TYPE as NAME``. A key that contains spaces, or begins with a quote, is
    written as a Python string: ``SECTION.'THE KEY'``, or ``SECTION['THE KEY']``.

    Args:
        name: the name.
        sections: the names of the map sections, with underscores.

    Returns:
        The entry, or None if the name does not begin with a section in `sections` and a key.

    Raises:
        ValueError: the type is unknown, or the key must be quoted.
    """
    head = _SECTION_PATTERN.match(name)
    section = head[0].replace("-", "_") if head else ""
    if head is None or section not in sections:
        return None
    key_match = _KEY_PATTERN.match(name, head.end())
    if key_match is None:
        raise ValueError(
            f"{name!r}: expected a key after {head[0]!r}, such as {section}.tenant; quote a key "
            f"that is empty, contains spaces or begins with a quote: {section}.'the key'"
        )
    try:
        key = key_match["bare"] or ast.literal_eval(key_match["quoted"] or key_match["bracketed"])
    except SyntaxError as error:
        raise ValueError(f"{name!r}: the quoted key has an invalid escape: {error.msg}") from None
    suffix = name[key_match.end() :]
    if not suffix:
        return Pick(section, key, None, name)
    typed = _TYPE_SUFFIX_PATTERN.fullmatch(suffix)
    if typed is None or typed["type"] not in SQL_TYPES:
        type_name = typed["type"] if typed else suffix.strip()
        suggestion = _TYPE_ALIASES.get(type_name.lower()) or next(
            iter(difflib.get_close_matches(type_name.lower(), SQL_TYPES, 1)), None
        )
        hint = f" (did you mean {suggestion!r}?)" if suggestion else ""
        quoted = entry_name(section, f"{key}{suffix}")
        raise ValueError(
            f"{name!r}: {type_name!r} is not a type{hint}: use {', '.join(SQL_TYPES)}, and then "
            f"'as NAME' to name the column; a key that contains spaces is quoted: {quoted}"
        )
    return Pick(section, key, typed["type"], typed["name"] or key)
