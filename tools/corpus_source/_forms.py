"""Every encoding of a value in typed JSON, from the tables of Part 1, 1.6; smallest ones first.

Nothing of the library is used: what is expected must not come from what is tested.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

#: Format codes of one width and no other form: type, code, width in bytes.
FIXED = {
    "ubyte": (0x50, 1),
    "ushort": (0x60, 2),
    "byte": (0x51, 1),
    "short": (0x61, 2),
    "float": (0x72, 4),
    "double": (0x82, 8),
    "decimal32": (0x74, 4),
    "decimal64": (0x84, 8),
    "decimal128": (0x94, 16),
    "char": (0x73, 4),
    "timestamp": (0x83, 8),
    "uuid": (0x98, 16),
}
#: Integers with a short form: type, code and width of the long one, code of the short one, code of
#: zero.
INTEGERS = {
    "uint": (0x70, 4, 0x52, 0x43),
    "ulong": (0x80, 8, 0x53, 0x44),
    "int": (0x71, 4, 0x54, None),
    "long": (0x81, 8, 0x55, None),
}
VARIABLE = {"binary": (0xA0, 0xB0), "string": (0xA1, 0xB1), "symbol": (0xA3, 0xB3)}
SIGNED = {"byte", "short", "int", "long", "timestamp"}
BITS = {"float", "double", "decimal32", "decimal64", "decimal128", "uuid"}


def forms(typed: Any) -> Iterator[tuple[str, str, str]]:
    """Yield the encodings of a value: a name, the constructor and the content, both in hex.

    Compound values have their items in the smallest form.
    """
    kind, *rest = typed
    if kind == "null":
        yield "null", "40", ""
    elif kind == "boolean":
        yield ("true", "41", "") if rest[0] else ("false", "42", "")
        yield "boolean", "56", "01" if rest[0] else "00"
    elif kind in INTEGERS:
        yield from _integers(kind, rest[0])
    elif kind in FIXED:
        code, width = FIXED[kind]
        yield kind, f"{code:02x}", content(kind, rest[0], width)
    elif kind in VARIABLE:
        small, large = VARIABLE[kind]
        octets = bytes.fromhex(rest[0]) if kind == "binary" else rest[0].encode()
        if len(octets) < 256:
            yield f"{kind}8", f"{small:02x}", f"{len(octets):02x}{octets.hex()}"
        yield f"{kind}32", f"{large:02x}", f"{len(octets):08x}{octets.hex()}"
    elif kind == "described":
        yield kind, "00", smallest(rest[0]) + smallest(rest[1])
    elif kind == "array":
        yield from _arrays(*rest)
    else:
        items = [item for pair in rest[0] for item in pair] if kind == "map" else rest[0]
        yield from _compounds(kind, items)


def content(kind: str, value: Any, width: int) -> str:
    """Return the bytes of a fixed width, in hex."""
    if kind in BITS:
        return str(value)
    return int(value).to_bytes(width, "big", signed=kind in SIGNED).hex()


def smallest(typed: Any) -> str:
    """Return the smallest encoding of a value, in hex."""
    _, code, octets = next(forms(typed))
    return code + octets


def encodings(typed: Any) -> list[tuple[str, str]]:
    """Return all encodings of a value: names and hex, the smallest one first."""
    return [(name, code + octets) for name, code, octets in forms(typed)]


def _integers(kind: str, number: int) -> Iterator[tuple[str, str, str]]:
    code, width, short, zero = INTEGERS[kind]
    if number == 0 and zero is not None:
        yield f"{kind}0", f"{zero:02x}", ""
    low, high = (-128, 127) if kind in SIGNED else (0, 255)
    if low <= number <= high:
        yield f"small{kind}", f"{short:02x}", content(kind, number, 1)
    yield kind, f"{code:02x}", content(kind, number, width)


def _compounds(kind: str, items: list[Any]) -> Iterator[tuple[str, str, str]]:
    octets = "".join(map(smallest, items))
    small, large = (0xC0, 0xD0) if kind == "list" else (0xC1, 0xD1)
    if kind == "list" and not items:
        yield "list0", "45", ""
    if len(octets) // 2 < 255 and len(items) < 256:
        yield f"{kind}8", f"{small:02x}", f"{len(octets) // 2 + 1:02x}{len(items):02x}{octets}"
    yield f"{kind}32", f"{large:02x}", f"{len(octets) // 2 + 4:08x}{len(items):08x}{octets}"


def _arrays(code: str, items: list[Any]) -> Iterator[tuple[str, str, str]]:
    octets = code
    for item in items:
        octets += next(inner for _, found, inner in forms(item) if found == code)
    if len(octets) // 2 < 255 and len(items) < 256:
        yield "array8", "e0", f"{len(octets) // 2 + 1:02x}{len(items):02x}{octets}"
    yield "array32", "f0", f"{len(octets) // 2 + 4:08x}{len(items):08x}{octets}"
