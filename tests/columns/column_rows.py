"""What the tests of the columns share: rows, and what they say."""

from __future__ import annotations

import decimal
import math
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from amqp10msg import (
    Byte,
    Char,
    Decimal64,
    Described,
    Float,
    Int,
    Short,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
)
from bench.messages import REFERENCE

columns = pytest.importorskip("amqp10msg.columns")
ERRORS = ("error_code", "error_clause", "error_offset")
BAD = REFERENCE[:300]


def decode(octets: list[bytes | None], *args: Any, **kwargs: Any) -> list[dict[str, Any]]:
    batch = columns.decode(octets, *args, **kwargs)
    batch.validate(full=True)
    found: list[dict[str, Any]] = batch.to_pylist()
    return found


def only(octets: bytes, *args: Any, **kwargs: Any) -> dict[str, Any]:
    (row,) = decode([octets], *args, **kwargs)
    return row


def said(row: dict[str, Any]) -> dict[str, Any]:
    """The cells that are not null, but for the offsets of the sections."""
    return {k: v for k, v in row.items() if v is not None and k != "section_offsets"}


VALUES: list[tuple[Any, str, dict[str, Any]]] = [
    (None, "null", {}),
    (True, "boolean", {"l": 1}),
    (False, "boolean", {"l": 0}),
    (UByte(255), "ubyte", {"l": 255}),
    (UShort(65535), "ushort", {"l": 65535}),
    (UInt(2**32 - 1), "uint", {"l": 2**32 - 1}),
    (UInt(0), "uint", {"l": 0}),
    (ULong(0), "ulong", {"u": decimal.Decimal(0)}),
    (ULong(2**64 - 1), "ulong", {"u": decimal.Decimal(2**64 - 1)}),
    (Byte(-128), "byte", {"l": -128}),
    (Short(-32768), "short", {"l": -32768}),
    (Int(-(2**31)), "int", {"l": -(2**31)}),
    (Int(-1), "int", {"l": -1}),
    (-1, "long", {"l": -1}),
    (-(2**63), "long", {"l": -(2**63)}),
    (Timestamp(2**63 - 1), "timestamp", {"l": 2**63 - 1}),
    (0.1, "double", {"d": 0.1}),
    (-math.inf, "double", {"d": -math.inf}),
    (Float(0.1), "float", {"d": float(Float(0.1))}),
    (Char("ü"), "char", {"s": "ü"}),
    (Char("\U0001f600"), "char", {"s": "\U0001f600"}),
    (uuid.UUID(int=2**128 - 1), "uuid", {"s": "ffffffff-ffff-ffff-ffff-ffffffffffff"}),
    (b"\x00", "binary", {"b": b"\x00"}),
    ("tëxt", "string", {"s": "tëxt"}),
    ("", "string", {"s": ""}),
    (Symbol("symbol"), "symbol", {"s": "symbol"}),
    (Decimal64.from_decimal("1.50"), "decimal64", {"s": "1.50", "b": b"1\x80\0\0\0\0\0\x96"}),
    (Described(ULong(1), "x"), "described", {"s": '["described",["ulong",1],["string","x"]]'}),
]


def a_layout(importer: Callable[[int], Any] | None = None) -> Any:
    """A layout with one column, which no section fills."""
    pa = pytest.importorskip("pyarrow")
    scan = pytest.importorskip("amqp10msg.columns._kernel.scan")
    schema = pa.schema({"a": pa.string()})
    return scan.ColumnPlan(
        needs=[False] * 9,
        fields={},
        maps={},
        picks=[],
        properties=(0, -1),
        body=[-1] * 7,
        kinds=[scan.TEXT],
        kind_names=(),
        results=[(scan.COLUMN, 0)],
        importer=importer or (lambda address: pa.RecordBatch._import_from_c(address, schema)),
    )
