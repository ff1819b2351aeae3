"""Entries of map sections that are asked for one by one, as structs or as plain typed columns."""

from __future__ import annotations

import decimal
import math
import re
from collections.abc import Collection

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from amqp10msg.columns._cells import FIRST_MS, LAST_MS
from amqp10msg.notation.type_names import DECIMALS, INTEGERS

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
_DECIMALS = pa.array(list(DECIMALS))
_TEXTS = pa.array(["string", "symbol", "char", "uuid", *DECIMALS])
_WHOLE = pa.array(["long", *(set(INTEGERS) - {"ulong", "timestamp"})])
_TOO_LARGE = pa.scalar(decimal.Decimal(1 << 63), pa.decimal128(20, 0))


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
            small = pc.less(pc.struct_field(values, "u"), _TOO_LARGE)
            numbers = pc.if_else(small, pc.struct_field(values, "u"), None).cast(pa.int64())
            return pc.coalesce(
                _where(pc.is_in(types, _WHOLE), pc.struct_field(values, "l")), numbers
            )
        if self.type == "double":
            return pc.coalesce(
                pc.struct_field(values, "d"),
                _where(pc.is_in(types, _WHOLE), pc.struct_field(values, "l")).cast(
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
    is_decimal = pc.is_in(types, _DECIMALS)
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
        _where(pc.is_in(types, _TEXTS), texts),
        _where(pc.is_in(types, _WHOLE), pc.struct_field(values, "l")).cast(pa.string()),
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
