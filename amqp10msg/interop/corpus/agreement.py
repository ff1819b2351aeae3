"""Compare decoded with expected typed JSON: equal, equal except for types, or different."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterable, Sequence
from typing import Any, Literal, TypeAlias

from amqp10msg.notation import from_typed
from amqp10msg.wire.primitives import FORMAT_CODES

#: ``exact``, for equal types and values; ``value``, for equal values of different types of one
#: family; None for different values.
Agreement: TypeAlias = Literal["exact", "value"] | None

#: Families of similar types, with the names of AMQP 1.0 types and the letters of 0-9-1 types. If an
#: implementation does not preserve the type of a value, its adapter writes the family's name.
TYPE_FAMILIES: dict[str, frozenset[str]] = {
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
# Begins the typed JSON of a number of an implementation that does not distinguish int and float.
_NUMERIC_PREFIX = '["numeric", '


def agreement(expected: Any, actual: Any) -> Agreement:
    """Compare the typed JSON of a case with the result of an implementation.

    If an implementation does not preserve a type, the result names the type's family:
    ``["integer", 5]``, ``["number", 0.5]``, ``["octets", "78"]`` (hex of bytes or text),
    ``["sequence", […]]`` or ``["decimal", "1.50"]``. If the implementation has only doubles, every
    number is ``["numeric", 5]``, with or without a fraction. An array may have the name of the
    element type instead of the constructor.

    Args:
        expected: typed JSON of the case.
        actual: typed JSON of the implementation.

    Returns:
        ``exact`` if types and values are equal, ``value`` if only types of one family differ, or
        None if the values differ.
    """
    if _canonical_json(_name_array_types(expected, actual)) == _canonical_json(
        _name_array_types(actual, actual)
    ):
        return "exact"
    try:
        merge_numbers = _NUMERIC_PREFIX in json.dumps(actual)
        is_equal = _canonical_json(
            _replace_by_families(expected, merge_numbers)
        ) == _canonical_json(_replace_by_families(actual, merge_numbers))
    except (TypeError, ValueError, LookupError, struct.error):  # not typed JSON
        return None
    return "value" if is_equal else None


def other_rules(expected: Iterable[Sequence[Any]], reported: Iterable[Sequence[Any]]) -> str:
    """Describe how the reported violations differ from the expected violations; "" if equal.

    Args:
        expected: `Case.violations`.
        reported: lists of a rule, its severity and, if the implementation reports it, the offset.
    """
    expected_offsets = {(rule, severity): offset for rule, severity, offset in expected}
    reported_offsets: dict[tuple[str, str], int | None] = {}
    for rule, severity, *optional_offset in reported:
        earlier_offset = reported_offsets.get((rule, severity))
        (offset,) = optional_offset or (None,)
        reported_offsets[rule, severity] = (
            offset if earlier_offset is None or offset is None else min(earlier_offset, offset)
        )
    reasons = [
        f"{problem} {', '.join(f'{rule} ({severity})' for rule, severity in sorted(rules))}"
        for problem, rules in (
            ("does not report", expected_offsets.keys() - reported_offsets.keys()),
            ("reports", reported_offsets.keys() - expected_offsets.keys()),
        )
        if rules
    ]
    reasons += [
        f"reports {rule} at {reported_offsets[rule, severity]}, "
        f"not at {expected_offsets[rule, severity]}"
        for rule, severity in sorted(expected_offsets.keys() & reported_offsets.keys())
        if reported_offsets[rule, severity] not in (None, expected_offsets[rule, severity])
    ]
    return "; ".join(reasons)


def _canonical_json(typed: Any) -> str:
    """Serialize typed JSON, so that 1, 1.0 and true are different."""
    return json.dumps(typed, sort_keys=True)


def _name_array_types(typed: Any, compared: Any) -> Any:
    """Replace the constructor of an array by the type's name if `compared` has a name there."""
    if not isinstance(typed, list) or not isinstance(compared, list):
        return typed
    if (
        len(typed) >= 3
        and len(compared) >= 3
        and typed[0] == compared[0] == "array"
        and compared[1] in _TYPE_NAMES
        and isinstance(typed[1], str)
        and (type_name := _TYPE_BY_FORMAT_CODE_HEX.get(typed[1])) is not None
    ):
        typed = [typed[0], type_name, *typed[2:]]
    compared_items = [*compared, *[None] * (len(typed) - len(compared))]
    return [
        _name_array_types(item, compared_item)
        for item, compared_item in zip(typed, compared_items, strict=False)
    ]


# Type names by format code in hex, as in the typed JSON of arrays.
_TYPE_BY_FORMAT_CODE_HEX = {
    f"{code:02x}": type_name.type for code, type_name in FORMAT_CODES.items()
}
_TYPE_NAMES = set(_TYPE_BY_FORMAT_CODE_HEX.values())


def _replace_by_families(typed: Any, merge_numbers: bool) -> Any:
    """Replace types by families. If `merge_numbers`, floats without a fraction become integers."""
    if not isinstance(typed, list):
        return typed
    kind = typed[0] if typed and isinstance(typed[0], str) else ""
    if kind == "t" and isinstance(typed[-1], int):
        return [kind, bool(typed[-1])]  # 0-9-1, 4.2.1: any byte other than 0 is true
    family = _FAMILY_BY_TYPE.get(kind) if len(typed) > 1 else None
    if family is None:
        return [_replace_by_families(item, merge_numbers) for item in typed]
    if family == "sequence":
        *_, items = typed[:_INDEX_OF_ELEMENT_DESCRIPTORS] if kind == "array" else typed[:2]
        for descriptor in reversed(
            typed[_INDEX_OF_ELEMENT_DESCRIPTORS]
            if len(typed) > _INDEX_OF_ELEMENT_DESCRIPTORS
            else []
        ):
            items = [["described", descriptor, item] for item in items]
        return [family, [_replace_by_families(item, merge_numbers) for item in items]]
    value = typed[1]
    if kind == "numeric" and isinstance(value, float):
        family = "number"  # the code below turns a float without a fraction into an integer
    if isinstance(value, list):
        # `typed` is a field of a 0-9-1 table, [name, typed value], and the field's name, here
        # `kind`, equals the name of a type.
        return [kind, _replace_by_families(value, merge_numbers)]
    if family == "number":
        if isinstance(value, str):
            bits = bytes.fromhex(value)
            (value,) = struct.unpack(">f" if len(bits) == 4 else ">d", bits)
        if merge_numbers and math.isfinite(value) and value == int(value):
            return _replace_by_families(["integer", int(value)], merge_numbers)
        # Treat all NaNs as equal, because their bits depend on the type.
        value = "nan" if math.isnan(value) else struct.pack(">d", value).hex()
    elif family == "octets" and kind in ("string", "symbol", "S"):
        value = value["hex"] if isinstance(value, dict) else value.encode().hex()
    elif family == "decimal" and kind != family:
        value = str(from_typed(typed).to_decimal())
    elif family == "integer":
        value = [type(value).__name__, value]
    return [family, value]


# Index of the element descriptors in the typed JSON of an array.
_INDEX_OF_ELEMENT_DESCRIPTORS = 3
_FAMILY_BY_TYPE = {
    kind: family for family, kinds in TYPE_FAMILIES.items() for kind in (family, *kinds)
}
_FAMILY_BY_TYPE["numeric"] = "integer"
