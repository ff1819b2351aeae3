"""Cases of the vectors that another project wrote, and both sides in one form."""

from __future__ import annotations

import decimal
import gzip
import inspect
import json
import os
import struct
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from amqp10msg import Array, DecodeError, Described
from amqp10msg.wire.primitives import AmqpMap

FOLDER = os.environ.get("AMQP10MSG_VECTORS")
if not FOLDER:
    pytest.skip(
        "AMQP10MSG_VECTORS names no folder with cases of other projects (cases.jsonl.gz)",
        allow_module_level=True,
    )


Case = dict[str, Any]

#: Verdicts of the cases that this library does not share: id -> (what it does, clause and reason).
DISPUTED: dict[str, tuple[str, str]] = {}


def load() -> list[Case]:
    with gzip.open(Path(str(FOLDER)) / "cases.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


CASES = [case for case in load() if case["id"] not in DISPUTED]


def each_of(*kinds: str, must: str | None = None) -> Callable[[Callable[..., None]], Any]:
    """Have a test check each case of some kinds, forty in one run: pytest takes longer than it."""
    cases = [
        case
        for case in CASES
        if case.get("decode_as", case["kind"]) in kinds and must in (None, case["must"])
    ]
    batches = [cases[start : start + 40] for start in range(0, len(cases), 40)]
    names = [f"{batch[0]['id']}+{len(batch) - 1}" for batch in batches]

    def decorate(check: Callable[..., None]) -> Any:
        def test(batch: list[Case], **fixtures: Any) -> None:
            for case in batch:
                try:
                    check(case, **fixtures)
                except BaseException as fault:
                    fault.add_note(f"in the case {case['id']}")
                    raise

        test.__name__, test.__doc__ = check.__name__, check.__doc__
        wanted = inspect.signature(check).parameters
        keyword = inspect.Parameter.KEYWORD_ONLY
        test.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [
                inspect.Parameter("batch", keyword),
                *(inspect.Parameter(name, keyword) for name in wanted if name != "case"),
            ]
        )
        return pytest.mark.parametrize("batch", batches, ids=names)(test)

    return decorate


# Both sides in one form: (type, content ...), with floats and decimals as bits.


def stated(node: dict[str, Any]) -> tuple[Any, ...]:
    """The value that a case states."""
    kind = node["t"]
    if kind == "null":
        return ("null",)
    if kind in {"float", "double"}:
        return (kind, int(node["bits"], 16))
    if kind.startswith("decimal"):
        return (kind, int(node["bits"], 16), number_of(decimal.Decimal(node["bid"])))
    if kind == "binary" or "hex" in node:
        return (kind, bytes.fromhex(node["hex"]))
    if kind == "uuid":
        return (kind, uuid.UUID(node["v"]).bytes)
    if kind == "list":
        return (kind, [stated(item) for item in node["v"]])
    if kind == "map":
        return (kind, [(stated(key), stated(value)) for key, value in node["v"]])
    if kind == "described":
        return (kind, stated(node["d"]), stated(node["v"]))
    if kind == "array":
        items = [node["each"]] * node["count"] if "each" in node else node["v"]
        descriptors = [stated(descriptor) for descriptor in node.get("descriptors", ())]
        values = [stated(item) for item in items]
        return (kind, node["of"], int(node["ctor"], 16), descriptors, values)
    return (kind, node["v"])


_NAMES = {
    "bool": "boolean",
    "UByte": "ubyte",
    "UShort": "ushort",
    "UInt": "uint",
    "ULong": "ulong",
    "Byte": "byte",
    "Short": "short",
    "Int": "int",
    "int": "long",
    "Timestamp": "timestamp",
    "str": "string",
    "Symbol": "symbol",
    "bytes": "binary",
}


def observed(value: Any) -> tuple[Any, ...]:
    """A value that this library decoded."""
    kind = type(value).__name__
    if value is None:
        return ("null",)
    if kind in {"bool", "str", "bytes"}:
        return (_NAMES[kind], value)
    if kind in _NAMES:
        return (_NAMES[kind], str(value) if kind == "Symbol" else int(value))
    if kind == "Float":
        return ("float", value.bits)
    if kind == "float":
        return ("double", int.from_bytes(struct.pack(">d", value)))
    if kind in {"Decimal32", "Decimal64", "Decimal128"}:
        return (kind.lower(), value.bits, number_of(value.to_decimal()))
    if kind == "Char":
        return ("char", ord(value))
    if kind == "UUID":
        return ("uuid", value.bytes)
    if isinstance(value, list):
        return ("list", [observed(item) for item in value])
    if isinstance(value, (dict, AmqpMap)):
        return ("map", pairs_of(value))
    if isinstance(value, Described):
        return ("described", observed(value.descriptor), observed(value.value))
    assert isinstance(value, Array), f"{kind} is no decoded value"
    descriptors = [observed(descriptor) for descriptor in value.descriptors]
    return ("array", value.type, value.code, descriptors, [observed(item) for item in value])


def pairs_of(mapping: Any) -> list[tuple[Any, Any]]:
    pairs = mapping.pairs if isinstance(mapping, AmqpMap) else mapping.items()
    return [(observed(key), observed(value)) for key, value in pairs]


def number_of(number: decimal.Decimal) -> tuple[Any, ...]:
    """A decimal number with its exponent; a NaN without its payload, which `bid` leaves out."""
    return (number.is_signed(), "NaN") if number.is_nan() else number.as_tuple()


def compact_of(case: Case) -> bytes:
    compact = case["compact"]
    return bytes.fromhex(case["hex"] if compact["is_compact"] else compact["hex"])


def values_of(case: Case) -> list[dict[str, Any]] | None:
    expect = case["expect"]
    stated_values: list[dict[str, Any]] | None = expect.get("lenient", expect).get("values")
    return stated_values


def before_error(wire: ModuleType, data: bytes) -> Iterator[Any]:
    """The values in front of the one that is refused."""
    values = wire.decode_values(data)
    while True:
        try:
            yield next(values)
        except DecodeError:
            return


def located(error: DecodeError, data: bytes) -> None:
    assert 0 <= error.offset <= len(data)
    assert error.rule
    assert error.rule != "malformed"
    assert error.condition.startswith("amqp:")
    assert data == error.data


def observed_as(kind: str, value: Any) -> tuple[Any, ...]:
    """A field's value: a plain one has the type that its declaration says."""
    plain = type(value)
    if plain is int:
        return ("ulong" if kind == "*" else kind, value)
    if plain is str and kind != "*":
        return (kind, value)
    return observed(value)
