"""A second, slow and obvious codec of Part 1, to hold the kernel against.

Written from the specification's tables alone and sharing nothing with the package: no class, no
table, no limit is imported. Values are neutral tuples ``(type, content)``; `neutral` turns the
library's values into them, so that a comparison sees every type and every bit.
"""

from __future__ import annotations

import functools
import struct
from typing import Any

DEPTH = 256
ITEMS = 1_000_000
ZERO_WIDTH = 65_536

# code: (type, bytes); the content is decoded by `_fixed`.
FIXED = {
    0x40: ("null", 0),
    0x41: ("boolean", 0),
    0x42: ("boolean", 0),
    0x43: ("uint", 0),
    0x44: ("ulong", 0),
    0x45: ("list", 0),
    0x50: ("ubyte", 1),
    0x51: ("byte", 1),
    0x52: ("uint", 1),
    0x53: ("ulong", 1),
    0x54: ("int", 1),
    0x55: ("long", 1),
    0x56: ("boolean", 1),
    0x60: ("ushort", 2),
    0x61: ("short", 2),
    0x70: ("uint", 4),
    0x71: ("int", 4),
    0x72: ("float", 4),
    0x73: ("char", 4),
    0x74: ("decimal32", 4),
    0x80: ("ulong", 8),
    0x81: ("long", 8),
    0x82: ("double", 8),
    0x83: ("timestamp", 8),
    0x84: ("decimal64", 8),
    0x94: ("decimal128", 16),
    0x98: ("uuid", 16),
}
VARIABLE = {0xA0: "binary", 0xA1: "string", 0xA3: "symbol"}
COMPOUND = {0xC0: "list", 0xC1: "map"}
SIGNED = {"byte", "short", "int", "long", "timestamp"}
UNSIGNED = {"ubyte", "ushort", "uint", "ulong"}
# What has no number of its own here is kept as its bytes.
OPAQUE = {"float", "double", "decimal32", "decimal64", "decimal128", "uuid"}


class Refused(Exception):  # noqa: N818  (a verdict, not a fault of this program)
    """The bytes are no value."""


class Decoder:
    """Reads neutral values; `position` stands behind what was read."""

    def __init__(self, octets: bytes) -> None:
        self.octets = octets
        self.position = 0
        self.items = 0
        self.zero_width = 0

    def take(self, count: int, end: int) -> bytes:
        if self.position + count > end:
            raise Refused("truncated")
        taken = self.octets[self.position : self.position + count]
        self.position += count
        return taken

    def value(self, end: int, depth: int = 0) -> Any:
        code = self.take(1, end)[0]
        if code == 0x00:
            self.check(depth + 1)
            descriptor = self.value(end, depth + 1)
            return ("described", descriptor, self.value(end, depth + 1))
        return self.content(code, end, depth)

    def check(self, depth: int) -> None:
        if depth > DEPTH:
            raise Refused("depth")

    def content(self, code: int, end: int, depth: int) -> Any:
        if code in FIXED:
            return self.fixed(code, end)
        size_octets = 4 if code & 0x10 else 1
        short = code & 0xEF
        if short in VARIABLE:
            size = int.from_bytes(self.take(size_octets, end), "big")
            return self.variable(VARIABLE[short], self.take(size, end))
        if short not in COMPOUND and short != 0xE0:
            raise Refused("unknown constructor")
        size = int.from_bytes(self.take(size_octets, end), "big")
        stop = self.position + size
        if stop > end:
            raise Refused("truncated")
        count = int.from_bytes(self.take(size_octets, stop), "big")
        self.check(depth + 1)
        if short == 0xE0:
            made = self.array(count, stop, depth + 1)
        else:
            if count > stop - self.position:
                raise Refused("count")
            self.count(count)
            values = [self.value(stop, depth + 1) for _ in range(count)]
            made = (COMPOUND[short], values) if short == 0xC0 else self.paired(values)
        if self.position != stop:
            raise Refused("octets left over")
        return made

    def count(self, count: int) -> None:
        self.items += count
        if self.items > ITEMS:
            raise Refused("items")

    def paired(self, values: list[Any]) -> Any:
        if len(values) % 2:
            raise Refused("odd map")
        pairs = list(zip(values[::2], values[1::2], strict=True))
        keys = [repr(nameless(key)) for key, _ in pairs]
        if len(set(keys)) != len(keys):
            raise Refused("duplicate key")
        return ("map", pairs)

    def array(self, count: int, stop: int, depth: int) -> Any:
        descriptors = []
        code = self.take(1, stop)[0]
        while code == 0x00:
            # Each descriptor is one more level: its elements are described values.
            depth += 1
            self.check(depth)
            descriptors.append(self.value(stop, depth))
            code = self.take(1, stop)[0]
        if code not in FIXED and code & 0xEF not in {*VARIABLE, *COMPOUND, 0xE0}:
            raise Refused("unknown constructor")
        if code in FIXED and FIXED[code][1] == 0:
            self.zero_width += count
            if self.zero_width > ZERO_WIDTH:
                raise Refused("zero width")
        elif count > stop - self.position:
            raise Refused("count")
        self.count(count)
        return ("array", code, descriptors, [self.content(code, stop, depth) for _ in range(count)])

    def fixed(self, code: int, end: int) -> Any:
        name, width = FIXED[code]
        octets = self.take(width, end)
        if name == "null":
            return ("null", None)
        if name == "list":
            return ("list", [])
        if name == "boolean":
            if width and octets[0] > 1:
                raise Refused("boolean")
            return ("boolean", octets[0] == 1 if width else code == 0x41)
        if name == "char":
            point = int.from_bytes(octets, "big")
            if point > 0x10FFFF or 0xD800 <= point < 0xE000:
                raise Refused("char")
            return ("char", point)
        if name in OPAQUE:
            return (name, octets)
        return (name, int.from_bytes(octets, "big", signed=name in SIGNED))

    def variable(self, name: str, octets: bytes) -> Any:
        if name == "binary":
            return (name, octets)
        try:
            return (name, octets.decode("ascii" if name == "symbol" else "utf-8"))
        except UnicodeDecodeError as error:
            raise Refused(name) from error


def nameless(value: Any) -> Any:
    """Take the constructors of arrays away: they are not part of a key's type and value."""
    if value[0] == "array":
        of = FIXED[value[1]][0] if value[1] in FIXED else value[1] & 0xEF
        return ("array", of, [nameless(d) for d in value[2]], [nameless(v) for v in value[3]])
    if value[0] == "list":
        return ("list", [nameless(item) for item in value[1]])
    if value[0] == "map":
        return ("map", [(nameless(key), nameless(item)) for key, item in value[1]])
    if value[0] == "described":
        return ("described", nameless(value[1]), nameless(value[2]))
    return value


def decode(octets: bytes) -> Any:
    """Decode one value that fills the bytes; raise `Refused` if they are none."""
    decoder = Decoder(octets)
    value = decoder.value(len(octets))
    if decoder.position != len(octets):
        raise Refused("trailing octets")
    return value


def end_of(octets: bytes) -> int:
    """Tell where the value that the bytes begin with ends."""
    decoder = Decoder(octets)
    decoder.value(len(octets))
    return decoder.position


# Encoding: of all legal encodings, the shortest.


def encode(value: Any) -> bytes:
    """Encode a neutral value in the fewest bytes."""
    if value[0] == "described":
        return b"\x00" + encode(value[1]) + encode(value[2])
    return shortest(value) if value[0] in NESTING else shortest_simple(value)


def shortest(value: Any) -> bytes:
    return min((bytes([code]) + octets for code, octets in candidates(value)), key=len)


# Lists of thousands hold the same value again and again.
shortest_simple = functools.lru_cache(1_000)(shortest)
NESTING = {"list", "map", "array"}


def candidates(value: Any) -> list[tuple[int, bytes]]:
    """Give every (format code, bytes behind it), the content in its shortest form."""
    name = value[0]
    if name == "list":
        return sized(0xC0, len(value[1]), b"".join(map(encode, value[1])))
    if name == "map":
        content = b"".join(encode(part) for pair in value[1] for part in pair)
        return sized(0xC1, 2 * len(value[1]), content)
    if name == "array":
        _, code, descriptors, values = value
        head = b"".join(b"\x00" + encode(descriptor) for descriptor in descriptors)
        content = b"".join(behind(code, item) for item in values)
        return sized(0xE0, len(values), head + bytes([code]) + content)
    if name in VARIABLE.values():
        octets = value[1] if name == "binary" else value[1].encode()
        code = next(code for code, known in VARIABLE.items() if known == name)
        found = [(code + 0x10, len(octets).to_bytes(4, "big") + octets)]
        if len(octets) < 256:
            found.append((code, bytes([len(octets)]) + octets))
        return found
    found = []
    for code, (known, width) in FIXED.items():
        if known == name and (octets := fitting(value, code, width)) is not None:
            found.append((code, octets))
    return found


candidates_of_simple = functools.lru_cache(1_000)(candidates)


def behind(code: int, value: Any) -> bytes:
    """Give an element's bytes behind a constructor that all elements share."""
    found = candidates(value) if value[0] in NESTING else candidates_of_simple(value)
    return next(octets for have, octets in found if have == code)


def sized(code: int, count: int, content: bytes) -> list[tuple[int, bytes]]:
    found = [(code + 0x10, struct.pack(">II", len(content) + 4, count) + content)]
    if len(content) + 1 < 256 and count < 256:
        found.append((code, bytes([len(content) + 1, count]) + content))
    if code == 0xC0 and count == 0:
        found.append((0x45, b""))
    return found


def fitting(value: Any, code: int, width: int) -> bytes | None:
    """Give the bytes of a value of fixed width behind this code, or None if it does not fit."""
    name, content = value
    if name == "null":
        return b""
    if name == "boolean":
        return bytes([content]) if width else b"" if content == (code == 0x41) else None
    if name in OPAQUE:
        return bytes(content)
    if name == "char":
        return int(content).to_bytes(4, "big")
    if width == 0:
        return b"" if content == 0 else None
    try:
        return int(content).to_bytes(width, "big", signed=name in SIGNED)
    except OverflowError:
        return None


# From the library's values.


def neutral(value: Any) -> Any:
    """Turn a value of the library into its neutral form, by the name of its class."""
    kind = type(value).__name__
    if value is None:
        return ("null", None)
    if kind == "bool":
        return ("boolean", value)
    if kind == "int":
        return ("long", value)
    if kind.lower() in SIGNED | UNSIGNED:
        return (kind.lower(), int(value))
    if kind == "Float":
        return ("float", value.bits.to_bytes(4, "big"))
    if kind == "float":
        return ("double", struct.pack(">d", value))
    if kind.startswith("Decimal"):
        return (kind.lower(), value.bits.to_bytes(int(kind[7:]) // 8, "big"))
    if kind == "Char":
        return ("char", ord(value))
    if kind == "UUID":
        return ("uuid", value.bytes)
    if kind == "bytes":
        return ("binary", value)
    if kind == "str":
        return ("string", value)
    if kind == "Symbol":
        return ("symbol", str(value))
    if kind == "list":
        return ("list", [neutral(item) for item in value])
    if kind == "dict":
        return ("map", [(neutral(key), neutral(item)) for key, item in value.items()])
    if kind == "AmqpMap":
        return ("map", [(neutral(key), neutral(item)) for key, item in value.pairs])
    if kind == "Array":
        descriptors = [neutral(descriptor) for descriptor in value.descriptors]
        return ("array", value.code, descriptors, [neutral(item) for item in value.values])
    if kind == "Described":
        return ("described", neutral(value.descriptor), neutral(value.value))
    raise TypeError(f"{kind} is no value of the decoder")
