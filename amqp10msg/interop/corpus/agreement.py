"""Whether what an implementation read is what a case expects: exactly, or the value alone."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterable, Sequence
from typing import Any, Literal, TypeAlias

from amqp10msg.notation import from_typed
from amqp10msg.wire.primitives import FORMAT_CODES

#: ``exact``: types and values. ``value``: the values, in other types of the same families. None:
#: something else was read.
Agreement: TypeAlias = Literal["exact", "value"] | None

#: The types of AMQP 1.0, and letters of 0-9-1, that hold the same values. Adapters of
#: implementations that do not keep a type name its family.
FAMILIES: dict[str, frozenset[str]] = {
    "integer": frozenset(
        (
            *("ubyte", "ushort", "uint", "ulong", "byte", "short", "int", "long", "timestamp"),
            *("b", "B", "s", "u", "U", "I", "i", "l", "L", "T"),
        )
    ),
    "number": frozenset(("float", "double", "f", "d")),
    "octets": frozenset(("binary", "string", "symbol", "S", "x")),
    "sequence": frozenset(("list", "array", "A")),
    "decimal": frozenset(("decimal32", "decimal64", "decimal128")),
}
# An integer, or a number with a fraction of 0: an implementation cannot tell.
_NUMERIC = '["numeric", '


def agreement(expected: Any, found: Any) -> Agreement:
    """Compare typed JSON with what was read.

    An implementation that does not keep a type has the type's family in its place:
    ``["integer", 5]``, ``["number", 0.5]``, ``["octets", "78"]`` (hex of bytes or text),
    ``["sequence", […]]``, ``["decimal", "1.50"]``; where all numbers are doubles to it, each is
    ``["numeric", 5]``, also one with a fraction. An array may have the type instead of its
    constructor.

    Args:
        expected: typed JSON of the case.
        found: typed JSON of the implementation.

    Returns:
        ``exact``, ``value`` where the values are right and types of one family differ, or None.
    """
    if _canonical(_precise(expected, found)) == _canonical(_precise(found, found)):
        return "exact"
    try:
        one_kind = _NUMERIC in json.dumps(found)
        same = _canonical(_loose(expected, one_kind)) == _canonical(_loose(found, one_kind))
    except (TypeError, ValueError, LookupError, struct.error):  # not typed JSON
        return None
    return "value" if same else None


def other_rules(expected: Iterable[Sequence[Any]], found: Iterable[Sequence[Any]]) -> str:
    """Return in words where the violations that were found are not the expected ones, or "".

    Args:
        expected: `Case.violations`.
        found: lists of a rule, its severity and, where the implementation says it, the offset.
    """
    want = {(rule, severity): offset for rule, severity, offset in expected}
    have: dict[tuple[str, str], int | None] = {}
    for rule, severity, *place in found:
        before = have.get((rule, severity))
        (offset,) = place or (None,)
        have[rule, severity] = offset if before is None or offset is None else min(before, offset)
    reasons = [
        f"{what} {', '.join(f'{rule} ({severity})' for rule, severity in sorted(apart))}"
        for what, apart in (
            ("does not report", want.keys() - have.keys()),
            ("reports", have.keys() - want.keys()),
        )
        if apart
    ]
    reasons += [
        f"reports {rule} at {have[rule, severity]}, not at {want[rule, severity]}"
        for rule, severity in sorted(want.keys() & have.keys())
        if have[rule, severity] not in (None, want[rule, severity])
    ]
    return "; ".join(reasons)


def _canonical(typed: Any) -> str:
    """Return typed JSON in a form in which 1, 1.0 and true differ."""
    return json.dumps(typed, sort_keys=True)


def _precise(typed: Any, beside: Any) -> Any:
    """Replace the constructor of an array by its type, where the other side names that."""
    if not isinstance(typed, list) or not isinstance(beside, list):
        return typed
    if (
        len(typed) >= 3
        and len(beside) >= 3
        and typed[0] == beside[0] == "array"
        and beside[1] in _TYPE_NAMES
        and isinstance(typed[1], str)
        and (row := _BY_HEX.get(typed[1])) is not None
    ):
        typed = [typed[0], row, *typed[2:]]
    others = [*beside, *[None] * (len(typed) - len(beside))]
    return [_precise(one, other) for one, other in zip(typed, others, strict=False)]


_BY_HEX = {f"{code:02x}": row.type for code, row in FORMAT_CODES.items()}
_TYPE_NAMES = set(_BY_HEX.values())


def _loose(typed: Any, one_kind: bool) -> Any:
    """Return typed JSON with families in the place of types.

    With `one_kind`, numbers are of one family, whether they have a fraction or not.
    """
    if not isinstance(typed, list):
        return typed
    kind = typed[0] if typed and isinstance(typed[0], str) else ""
    if kind == "t" and isinstance(typed[-1], int):
        return [kind, bool(typed[-1])]  # 0-9-1, 4.2.1: whatever is not 0 is true
    family = _FAMILY_OF.get(kind) if len(typed) > 1 else None
    if family is None:
        return [_loose(item, one_kind) for item in typed]
    if family == "sequence":
        *_, items = typed[:_DESCRIPTORS_AT] if kind == "array" else typed[:2]
        for descriptor in reversed(typed[_DESCRIPTORS_AT] if len(typed) > _DESCRIPTORS_AT else []):
            items = [["described", descriptor, item] for item in items]
        return [family, [_loose(item, one_kind) for item in items]]
    value = typed[1]
    if kind == "numeric" and isinstance(value, float):
        family = "number"  # an integer is made of one without a fraction below
    if isinstance(value, list):  # a name, not a type
        return [kind, _loose(value, one_kind)]
    if family == "number":
        if isinstance(value, str):
            bits = bytes.fromhex(value)
            (value,) = struct.unpack(">f" if len(bits) == 4 else ">d", bits)
        if one_kind and math.isfinite(value) and value == int(value):
            return _loose(["integer", int(value)], one_kind)
        # What is not a number is none whatever its bits: those are of the type, not of the value.
        value = "nan" if math.isnan(value) else struct.pack(">d", value).hex()
    elif family == "octets" and kind in ("string", "symbol", "S"):
        value = value["hex"] if isinstance(value, dict) else value.encode().hex()
    elif family == "decimal" and kind != family:
        value = str(from_typed(typed).to_decimal())
    elif family == "integer":
        value = [type(value).__name__, value]
    return [family, value]


# Where an array in the typed notation has descriptors of its elements.
_DESCRIPTORS_AT = 3
_FAMILY_OF = {kind: family for family, kinds in FAMILIES.items() for kind in (family, *kinds)}
_FAMILY_OF["numeric"] = "integer"
