"""Every primitive type at its bounds, in every encoding, alone and inside of others: Part 1."""

from __future__ import annotations

from typing import Any

from corpus_source._forms import FIXED, INTEGERS, SIGNED, VARIABLE, encodings, forms, smallest
from corpus_source._write import RESERVED, Chapter

chapter = Chapter("value", "generated from the tables of Part 1, 1.6")
at, says, refused = chapter.at, chapter.says, chapter.refused

#: The clause of each type.
CLAUSES = {
    name: f"Part 1, 1.6.{number}"
    for number, name in enumerate(
        (
            *("null", "boolean", "ubyte", "ushort", "uint", "ulong", "byte", "short", "int"),
            *("long", "float", "double", "decimal32", "decimal64", "decimal128", "char"),
            *("timestamp", "uuid", "binary", "string", "symbol", "list", "map", "array"),
        ),
        1,
    )
}


def _integers(width: int, signed: bool) -> list[int]:
    """The ends of every width that there is, and what is beside them."""
    bits = 8 * width
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    near = {low, low + 1, -129, -128, -127, -1, 0, 1, 127, 128, 129, 254, 255, 256, high - 1, high}
    near |= {(1 << 8 * other) + step for other in (2, 4) for step in (-1, 0)}
    near |= {(1 << 8 * other - 1) + step for other in (2, 4) for step in (-1, 0)}
    return sorted(number for number in near if low <= number <= high)


_WIDTHS = {
    **{name: width for name, (_, width) in FIXED.items()},
    **{name: width for name, (_, width, _, _) in INTEGERS.items()},
}

#: Values of every primitive type, the first of each an ordinary one.
SAMPLES: dict[str, list[Any]] = {
    "null": [["null"]],
    "boolean": [["boolean", True], ["boolean", False]],
    **{
        kind: [[kind, number] for number in _integers(_WIDTHS[kind], kind in SIGNED)]
        for kind in ("ubyte", "ushort", "uint", "ulong", "byte", "short", "int", "long")
    },
    "float": [["float", bits] for bits in ("3fc00000", "00000001", "007fffff", "00800000")]
    + [["float", bits] for bits in ("7f7fffff", "ff7fffff", "80000001", "ffffffff")],
    "double": [["double", bits] for bits in ("3ff8000000000000", "000fffffffffffff")]
    + [["double", bits] for bits in ("0010000000000000", "ffefffffffffffff", "8000000000000001")]
    + [["double", bits] for bits in ("7ff0000000000001", "ffffffffffffffff")],
    "decimal32": [["decimal32", bits] for bits in ("32800064", "00000001", "f7f8967f", "fc000000")],
    "decimal64": [["decimal64", bits] for bits in ("31c0000000000064", "77fb86f26fc0ffff")]
    + [["decimal64", bits] for bits in ("7800000000000000", "7e00000000000000")],
    "decimal128": [
        ["decimal128", bits]
        for bits in (
            "30400000000000000000000000000064",
            "5fffed09bead87c0378d8e63ffffffff",
            "00000000000000000000000000000001",
            "f8000000000000000000000000000000",
            "7e000000000000000000000000000000",
        )
    ],
    "char": [["char", point] for point in (0x62, 0x7F, 0x80, 0x7FF, 0x800, 0xFFFF, 0x10000)],
    "timestamp": [["timestamp", number] for number in (1_700_000_000_000, 1, -62_135_596_800_000)]
    + [["timestamp", number] for number in (253_402_300_799_999, 253_402_300_800_000)],
    "uuid": [["uuid", "6ba7b8109dad11d180b400c04fd430c8"], ["uuid", "80" + "00" * 15]],
    "binary": [["binary", "00ff" * half] for half in (1, 0, 127)]
    + [["binary", "aa" * size] for size in (254, 255, 256, 257)],
    "string": [["string", text] for text in ("ab", "", "é", "\u0000", "\U0001f600", "\ufeffx")]
    + [["string", "x" * size] for size in (254, 255, 256, 257)]
    + [["string", "é" * 127], ["string", "é" * 128]],
    "symbol": [["symbol", text] for text in ("ab", "", "a b", "\u0000", "\u007f", "x-opt-a")]
    + [["symbol", "x" * size] for size in (254, 255, 256, 257)],
}

for kind, samples in SAMPLES.items():
    at(CLAUSES[kind])
    for number, sample in enumerate(samples):
        for name, octets in encodings(sample):
            says(f"bound-{kind}-{number}-{name}", octets, sample, compact=smallest(sample))

# Cut off behind every one of its bytes.
at("Part 1, 1.2.1")
for kind, samples in SAMPLES.items():
    for name, code, octets in forms(samples[0]):
        for size in range(len(octets) // 2):
            if kind in VARIABLE and size >= len(octets) // 2 - 2:
                continue  # of the text itself
            refused(f"cut-{name}-{size}", code + octets[: 2 * size], "truncated", 1)

# In compound values: every encoding of every type as an item, a key, a value and an element.
for kind, samples in SAMPLES.items():
    for name, octets in encodings(samples[0]):
        inner = smallest(samples[0])
        size = len(octets) // 2
        at("Part 1, 1.6.22")
        one = ["list", [samples[0]]]
        says(f"in-list8-{name}", f"c0{size + 1:02x}01{octets}", one, compact=smallest(one))
        says(f"in-list32-{name}", f"d0{size + 4:08x}00000001{octets}", one, compact=smallest(one))
        at("Part 1, 1.6.23")
        pair = ["map", [[samples[0], ["boolean", False]]]]
        says(f"key-in-map8-{name}", f"c1{size + 2:02x}02{octets}42", pair, compact=smallest(pair))
        pair = ["map", [[["boolean", False], samples[0]]]]
        wide = f"d1{size + 5:08x}0000000242{octets}"
        says(
            f"value-in-map32-{name}", wide, pair, compact=f"c1{len(inner) // 2 + 2:02x}0242{inner}"
        )
        at("Part 1, 1.2")
        described = ["described", ["ulong", 0x1234], samples[0]]
        says(
            f"described-{name}",
            f"00800000000000001234{octets}",
            described,
            compact=smallest(described),
        )
        if kind != "null":
            described = ["described", samples[0], ["uint", 0]]
            says(
                f"descriptor-{name}",
                f"00{octets}43",
                described,
                compact=smallest(described),
                preference="" if kind in ("ulong", "symbol") else RESERVED,
            )
    for name, code, octets in forms(samples[0]):
        at("Part 1, 1.6.24")
        for count in (0, 1, 3):
            array = ["array", code, [samples[0]] * count]
            small = f"{len(octets) // 2 * count + 2:02x}{count:02x}{code}{octets * count}"
            large = f"{len(octets) // 2 * count + 5:08x}{count:08x}{code}{octets * count}"
            least = smallest(array)
            chapter.says(f"array8-{count}-of-{name}", f"e0{small}", array, compact=least)
            chapter.says(f"array32-{count}-of-{name}", f"f0{large}", array, compact=least)
