"""Entries of the map sections as columns: how they are named, and how they become plain values."""

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

from amqp10msg.columns._cells import FIRST_MS, LAST_MS
from amqp10msg.wire.primitives import DECIMALS, INTEGERS

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
#: The types that a plain column of an entry can have: SQL's name, and the type in Arrow.
SQL_TYPES: dict[str, pa.DataType] = {
    "string": pa.string(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "binary": pa.binary(),
}
#: The metadata key of a plain column: the name it was asked for by, which `encode` needs to find
#: the section and the key again.
ENTRY = b"amqp_entry"

_SECTION = re.compile(r"[a-z]+(?:[_-][a-z]+)*(?=[.\[])")
_QUOTED = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
_BARE = r"""[^\s'"]\S*"""
_KEY = re.compile(
    rf"(?:\.(?P<bare>{_BARE})|\.(?P<quoted>{_QUOTED})|\[(?P<bracketed>{_QUOTED})\])", re.DOTALL
)
_TYPED = re.compile(r" (?P<type>\S+)(?: as (?P<name>.+))?", re.DOTALL)
# Names that other systems have for the types; difflib would not find these.
_ALIASES = {
    **dict.fromkeys(("int", "integer", "long", "int64", "number", "smallint"), "bigint"),
    **dict.fromkeys(("str", "text", "varchar", "char", "symbol", "utf8"), "string"),
    **dict.fromkeys(("float", "real", "float64", "decimal"), "double"),
    **dict.fromkeys(("bytes", "blob", "bytea"), "binary"),
    **dict.fromkeys(("datetime", "date", "timestamptz"), "timestamp"),
}
# AMQP types, by the member of `VALUE` that holds their values (see `_cells`).
_DECIMALS = tuple(DECIMALS)
_TEXTS = ("string", "symbol", "char", "uuid", *DECIMALS)
_WHOLE = ("long", *(set(INTEGERS) - {"ulong", "timestamp"}))


def _is_one_of(types: pa.Array, names: tuple[str, ...]) -> pa.Array:
    return pc.is_in(types, _array(names))


# These are made on first use: converting its first value makes Arrow import pandas.


@cache
def _array(names: tuple[str, ...]) -> pa.Array:
    return pa.array(names)


@cache
def _too_large() -> pa.Scalar:
    return pa.scalar(decimal.Decimal(1 << 63), pa.decimal128(20, 0))


@attrs.frozen
class Pick:
    """A column that shows one entry of a map section.

    Attributes:
        section: the column of the section, such as ``application_properties``.
        key: the key of the entry; the digits of a ulong.
        type: the SQL name of the type of a plain column (see `SQL_TYPES`); None for the struct.
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
        comment = f"{self.key} of {self.section}; null where that is not of type {self.type}"
        metadata = {b"comment": comment, ENTRY: entry}
        return pa.field(self.name, SQL_TYPES[self.type], metadata=metadata)

    @property
    def struct_name(self) -> str:
        """The name under which `decode` reads the struct of the entry."""
        return f"{self.section}.{self.key}"

    def plain(self, values: pa.StructArray) -> pa.Array:
        """Return the values of an entry, given as structs, as plain values of `type`.

        A value of another type becomes null. A string column also shows symbols, UUIDs, chars,
        decimals, numbers and booleans as text; a double column also shows integers and decimals; a
        bigint column also shows a ulong below 2^63.
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
            return shown.cast(SQL_TYPES["timestamp"])
        return _where(pc.equal(types, "binary"), pc.struct_field(values, "b"))


def _where(chosen: pa.Array, values: pa.Array) -> pa.Array:
    return pc.if_else(chosen, values, None)


def _of_decimals(texts: pa.Array, types: pa.Array) -> pa.Array:
    """Return the decimal floating-point numbers among the values as doubles.

    They are converted one by one, because they are rare.
    """
    is_decimal = _is_one_of(types, _DECIMALS)
    if not pc.any(is_decimal).as_py():
        return pa.nulls(len(texts), pa.float64())
    numbers = _where(is_decimal, texts).to_pylist()
    return pa.array([None if text is None else _double(text) for text in numbers], pa.float64())


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


def entry_name(section: str, key: str) -> str:
    """Return the name of the column of an entry, with the key in quotes if it needs them."""
    return f"{section}.{key if re.fullmatch(_BARE, key) else repr(key)}"


def pick_of(name: str, sections: Collection[str]) -> Pick | None:
    """Read the name of an entry column.

    The name is ``SECTION.KEY`` for the struct, ``SECTION.KEY TYPE`` for a plain column called
    ``KEY``, or ``SECTION.KEY TYPE as NAME``. A key that contains spaces, or begins with a quote, is
    written as a Python string: ``SECTION.'THE KEY'``, or ``SECTION['THE KEY']``.

    Args:
        name: the name.
        sections: the names of the map sections, with underscores.

    Returns:
        None if the name does not begin with one of `sections` and a key.

    Raises:
        ValueError: the type is unknown, or the key must be quoted.
    """
    head = _SECTION.match(name)
    section = head[0].replace("-", "_") if head else ""
    if head is None or section not in sections:
        return None
    found = _KEY.match(name, head.end())
    if found is None:
        raise ValueError(
            f"{name!r}: expected a key after {head[0]!r}, such as {section}.tenant; quote a key "
            f"that is empty, contains spaces or begins with a quote: {section}.'the key'"
        )
    try:
        key = found["bare"] or ast.literal_eval(found["quoted"] or found["bracketed"])
    except SyntaxError as error:
        raise ValueError(f"{name!r}: the quoted key has an invalid escape: {error.msg}") from None
    rest = name[found.end() :]
    if not rest:
        return Pick(section, key, None, name)
    typed = _TYPED.fullmatch(rest)
    if typed is None or typed["type"] not in SQL_TYPES:
        wrong = typed["type"] if typed else rest.strip()
        nearest = _ALIASES.get(wrong.lower()) or next(
            iter(difflib.get_close_matches(wrong.lower(), SQL_TYPES, 1)), None
        )
        meant = f" (did you mean {nearest!r}?)" if nearest else ""
        quoted = entry_name(section, f"{key}{rest}")
        raise ValueError(
            f"{name!r}: {wrong!r} is not a type{meant}: use {', '.join(SQL_TYPES)}, and then "
            f"'as NAME' to name the column; a key that contains spaces is quoted: {quoted}"
        )
    return Pick(section, key, typed["type"], typed["name"] or key)
