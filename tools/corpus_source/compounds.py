"""Described values, lists and maps: Part 1, 1.1.2, 1.6.22 and 1.6.23."""

from corpus_source._write import RESERVED, UNBOUNDED, Chapter, list8, list32, map8, map32, nested

chapter = Chapter("value")
at, says, refused = chapter.at, chapter.says, chapter.refused

at("Part 1, 1.2")
says("described-smallulong", "00 53 24 45", ["described", ["ulong", 0x24], ["list", []]])
says("described-ulong0", "00 44 40", ["described", ["ulong", 0], ["null"]])
says(
    "described-ulong",
    "00 80 0000000000000024 45",
    ["described", ["ulong", 0x24], ["list", []]],
    compact="00 53 24 45",
)
says(
    "described-vendor-domain",
    "00 80 0000468c00000004 a1 01 'x'",
    ["described", ["ulong", 0x468C00000004], ["string", "x"]],
    "the upper half is the domain",
)
says(
    "described-symbol",
    "00 a3 12 'amqp:accepted:list' 45",
    ["described", ["symbol", "amqp:accepted:list"], ["list", []]],
)
says(
    "described-url",
    "00 a1 03 'URL' a1 13 'http://example.org/'",
    ["described", ["string", "URL"], ["string", "http://example.org/"]],
    "the example of Part 1; a descriptor may be any value",
)
says(
    "described-null-descriptor",
    "00 40 41",
    ["described", ["null"], ["boolean", True]],
    preference=RESERVED,
)
says(
    "described-uint-descriptor",
    "00 52 75 40",
    ["described", ["uint", 0x75], ["null"]],
    preference=RESERVED,
)
says(
    "described-list-descriptor",
    "00 c0 02 01 41 42",
    ["described", ["list", [["boolean", True]]], ["boolean", False]],
    preference=RESERVED,
)
says(
    "described-descriptor",
    "00 00 53 01 53 02 53 03",
    ["described", ["described", ["ulong", 1], ["ulong", 2]], ["ulong", 3]],
    "the descriptor itself is described",
    preference=RESERVED,
)
says(
    "described-twice",
    "00 53 01 00 53 02 40",
    ["described", ["ulong", 1], ["described", ["ulong", 2], ["null"]]],
)

at("Part 1, 1.6.22")
says("list0", "45", ["list", []])
says("list8-empty", "c0 01 00", ["list", []], compact="45")
says("list32-empty", "d0 00000004 00000000", ["list", []], compact="45")
says("list-of-null", "c0 02 01 40", ["list", [["null"]]], "not the empty list")
says("list-trailing-null", "c0 04 03 41 40 40", ["list", [["boolean", True], ["null"], ["null"]]])
says("list-nested", "c0 05 01 c0 02 01 45", ["list", [["list", [["list", []]]]]])
says(
    "list-of-many-types",
    list8(5, "40 41 52 05 a1 01 'a' 83 00000000000003e8"),
    [
        "list",
        [["null"], ["boolean", True], ["uint", 5], ["string", "a"], ["timestamp", 1000]],
    ],
)
says(
    "list-of-all-integers",
    list8(8, "50 01 60 0001 52 01 53 01 51 01 61 0001 54 01 55 01"),
    [
        "list",
        [
            ["ubyte", 1],
            ["ushort", 1],
            ["uint", 1],
            ["ulong", 1],
            ["byte", 1],
            ["short", 1],
            ["int", 1],
            ["long", 1],
        ],
    ],
    "one number in eight types",
)
says("list32-short", "d0 00000005 00000001 43", ["list", [["uint", 0]]], compact="c0 02 01 43")
says(
    "list32-in-list8",
    list8(1, "d0 00000005 00000001 43"),
    ["list", [["list", [["uint", 0]]]]],
    compact="c0 05 01 c0 02 01 43",
)
says("list8-255-elements", list8(254, "40" * 254), ["list", [["null"]] * 254], "size 255")
says("list32-255-elements", list32(255, "40" * 255), ["list", [["null"]] * 255], "size 256")
says("list32-long-content", list32(1, "a0 fe" + "00" * 254), ["list", [["binary", "00" * 254]]])
says(
    "list-with-described",
    list8(2, "00 53 24 45 40"),
    ["list", [["described", ["ulong", 0x24], ["list", []]], ["null"]]],
)

at("Part 1, 1.6.23")
says("map8-empty", "c1 01 00", ["map", []])
says("map32-empty", "d1 00000004 00000000", ["map", []], compact="c1 01 00")
says("map", "c1 06 02 a3 01 'k' 52 05", ["map", [[["symbol", "k"], ["uint", 5]]]])
says(
    "map-order",
    map8(6, "a1 01 'c' 40 a1 01 'a' 40 a1 01 'b' 40"),
    ["map", [[["string", key], ["null"]] for key in "cab"]],
    "the order is kept",
)
says("map-null-value", map8(2, "a1 01 'k' 40"), ["map", [[["string", "k"], ["null"]]]])
says("map-null-key", map8(2, "40 41"), ["map", [[["null"], ["boolean", True]]]])
says(
    "map-symbol-and-string-key",
    map8(4, "a3 01 'a' 54 01 a1 01 'a' 54 02"),
    ["map", [[["symbol", "a"], ["int", 1]], [["string", "a"], ["int", 2]]]],
    "different types are different keys",
)
says(
    "map-number-keys-of-four-types",
    map8(8, "52 01 40 55 01 40 41 40 82 3ff0000000000000 40"),
    [
        "map",
        [
            [["uint", 1], ["null"]],
            [["long", 1], ["null"]],
            [["boolean", True], ["null"]],
            [["double", "3ff0000000000000"], ["null"]],
        ],
    ],
    "1 in four types: four keys",
)
says(
    "map-zero-keys",
    map8(4, "82 0000000000000000 40 82 8000000000000000 40"),
    [
        "map",
        [[["double", "0000000000000000"], ["null"]], [["double", "8000000000000000"], ["null"]]],
    ],
    "0.0 and -0.0 have different encodings",
)
says(
    "map-list-key",
    map8(2, "c0 02 01 41 54 07"),
    ["map", [[["list", [["boolean", True]]], ["int", 7]]]],
)
says("map-map-key", map8(2, "c1 01 00 54 07"), ["map", [[["map", []], ["int", 7]]]])
says(
    "map-described-key",
    map8(2, "00 53 01 43 44"),
    ["map", [[["described", ["ulong", 1], ["uint", 0]], ["ulong", 0]]]],
)
says(
    "map-uuid-key",
    map8(2, "98" + "11" * 16 + "41"),
    ["map", [[["uuid", "11" * 16], ["boolean", True]]]],
)
says("map-binary-key", map8(2, "a0 01 ff 41"), ["map", [[["binary", "ff"], ["boolean", True]]]])
says(
    "map-nested",
    map8(2, "a1 01 'm' c1 03 02 43 44"),
    ["map", [[["string", "m"], ["map", [[["uint", 0], ["ulong", 0]]]]]]],
)
says(
    "map32-short",
    map32(2, "a1 01 'k' 40"),
    ["map", [[["string", "k"], ["null"]]]],
    compact=map8(2, "a1 01 'k' 40"),
)
says(
    "map32-128-entries",
    map32(256, "".join(f"51 {i:02x} 40" for i in range(128))),
    ["map", [[["byte", i], ["null"]] for i in range(128)]],
    "256 keys and values do not fit the count of map8",
)
refused("map-odd-count", "c1 04 01 a1 01 'k'", "map-odd-count", 0)
refused("map32-odd-count", "d1 00000007 00000003 414243", "map-odd-count", 0)
refused("map-duplicate-string", map8(4, "a1 01 'k' 41 a1 01 'k' 42"), "map-duplicate-key", 7)
refused("map-duplicate-symbol", map8(4, "a3 01 'k' 41 a3 01 'k' 41"), "map-duplicate-key", 7)
refused(
    "map-duplicate-in-two-forms",
    map8(4, "52 05 40 70 00000005 40"),
    "map-duplicate-key",
    6,
    "the same uint, encoded in two ways",
)
refused("map-duplicate-null", map8(4, "40 41 40 42"), "map-duplicate-key", 5)
refused("map-duplicate-list", map8(4, "45 41 c0 01 00 42"), "map-duplicate-key", 5)
refused(
    "map-duplicate-behind-equal-keys",
    map8(6, "52 01 40 55 01 40 52 01 41"),
    "map-duplicate-key",
    9,
    "uint 1, long 1, uint 1",
)

at("Part 1, 1.2.3")
refused("truncated-list8-size", "c0", "truncated", 1)
refused("truncated-list8-count", "c0 01", "truncated", 2)
refused("truncated-list8", "c0 05 01 40", "truncated", 2)
refused("truncated-list32-size", "d0 000000", "truncated", 1)
refused("truncated-list32", "d0 00000010 00000001 40", "truncated", 5)
refused("truncated-map8", "c1 7f 02 40", "truncated", 2)
refused("truncated-map32", "d1 ffffffff 00000000", "truncated", 5)
refused("list8-size-0", "c0 00 00", "compound-size-too-small", 1, "the size counts the count")
refused("list32-size-3", "d0 00000003 00000000", "compound-size-too-small", 1)
refused("map8-size-0", "c1 00 00", "compound-size-too-small", 1)
refused("map32-size-0", "d1 00000000 00000000", "compound-size-too-small", 1)
refused("list8-count-too-large", "c0 02 02 40", "count-exceeds-size", 3)
refused("list32-count-max", "d0 00000005 ffffffff 40", "count-exceeds-size", 9)
refused("map8-count-too-large", "c1 03 04 40 41", "count-exceeds-size", 3)
refused("list8-left-over", "c0 03 01 41 42", "compound-trailing-bytes", 4)
refused("list8-count-0-left-over", "c0 02 00 40", "compound-trailing-bytes", 3)
refused("map8-left-over", "c1 04 02 40 41 42", "compound-trailing-bytes", 5)
refused("list8-element-overruns", "c0 04 01 a1 05 61 62 63", "element-overruns-compound", 5)
refused("list8-element-without-octets", "c0 03 02 50 01 40", "element-overruns-compound", 5)
refused("list-in-list-overruns", "c0 05 01 c0 05 01 40 40 40", "element-overruns-compound", 5)
refused("map8-value-missing", "c1 04 02 a1 01 'k' 40", "element-overruns-compound", 6)
refused("described-in-list-overruns", "c0 03 01 00 53 24 45", "element-overruns-compound", 5)

at("Part 1, 1.2")
refused("empty", "", "truncated", 0, "no value at all")
refused("described-alone", "00", "truncated", 1)
refused("described-without-value", "00 53 24", "truncated", 3)
refused("described-descriptor-cut", "00 53", "truncated", 2)
refused("two-values", "40 40", "trailing-bytes", 1)
refused("value-and-garbage", "a1 01 'a' ff", "trailing-bytes", 3)
for code in (
    "01",
    "0f",
    "10",
    "2a",
    "3f",
    "46",
    "4f",
    "57",
    "5f",
    "62",
    "6f",
    "75",
    "7f",
    "85",
    "8f",
    "90",
    "95",
    "97",
    "99",
    "9f",
    "a2",
    "a4",
    "af",
    "b2",
    "b4",
    "bf",
    "c2",
    "cf",
    "d2",
    "df",
    "e1",
    "ef",
    "f1",
    "ff",
):
    refused(f"unknown-constructor-{code}", code + "00" * 16, "unknown-constructor", 0)
refused("unknown-constructor-in-list", "c0 03 02 40 46", "unknown-constructor", 4)
refused("unknown-constructor-as-descriptor", "00 01 40", "unknown-constructor", 1)

deep: list[object] = ["list", []]
for _ in range(63):
    deep = ["list", [deep]]
says("depth-64", "".join(f"c0 {3 * level - 1:02x} 01" for level in range(63, 0, -1)) + "45", deep)
refused(
    "depth-257",
    nested(258),
    "depth-limit",
    256 * 9,
    "this one keeps the stack safe",
    preference=UNBOUNDED,
)
