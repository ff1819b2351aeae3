"""Arrays: Part 1, 1.6.24 and 1.2.4."""

from corpus_source._write import UNBOUNDED, Chapter, list8

chapter = Chapter("value")
at, says, refused = chapter.at, chapter.says, chapter.refused

at("Part 1, 1.6.24")
# Every element constructor, with two elements where it has octets.
says("array-of-ubyte", "e0 04 02 50 01ff", ["array", "50", [["ubyte", 1], ["ubyte", 255]]])
says("array-of-ushort", "e0 06 02 60 0001ffff", ["array", "60", [["ushort", 1], ["ushort", 65535]]])
says(
    "array-of-uint",
    "e0 0a 02 70 00000001ffffffff",
    ["array", "70", [["uint", 1], ["uint", 4294967295]]],
)
says("array-of-smalluint", "e0 04 02 52 00ff", ["array", "52", [["uint", 0], ["uint", 255]]])
says("array-of-uint0", "e0 02 03 43", ["array", "43", [["uint", 0]] * 3], "elements of no octets")
says(
    "array-of-ulong",
    "e0 0a 01 80 ffffffffffffffff",
    ["array", "80", [["ulong", 18446744073709551615]]],
)
says("array-of-smallulong", "e0 04 02 53 0001", ["array", "53", [["ulong", 0], ["ulong", 1]]])
says("array-of-ulong0", "e0 02 01 44", ["array", "44", [["ulong", 0]]])
says("array-of-byte", "e0 04 02 51 80 7f", ["array", "51", [["byte", -128], ["byte", 127]]])
says("array-of-short", "e0 06 02 61 8000 0001", ["array", "61", [["short", -32768], ["short", 1]]])
says(
    "array-of-int",
    "e0 0a 02 71 00000001 ffffffff",
    ["array", "71", [["int", 1], ["int", -1]]],
    "small values behind a wide constructor",
)
says("array-of-smallint", "e0 04 02 54 01ff", ["array", "54", [["int", 1], ["int", -1]]])
says(
    "array-of-long",
    "e0 0a 01 81 8000000000000000",
    ["array", "81", [["long", -9223372036854775808]]],
)
says("array-of-smalllong", "e0 03 01 55 80", ["array", "55", [["long", -128]]])
says(
    "array-of-boolean",
    "e0 05 03 56 010001",
    ["array", "56", [["boolean", True], ["boolean", False], ["boolean", True]]],
)
says("array-of-true", "e0 02 02 41", ["array", "41", [["boolean", True]] * 2])
says("array-of-false", "e0 02 02 42", ["array", "42", [["boolean", False]] * 2])
says("array-of-null", "e0 02 02 40", ["array", "40", [["null"]] * 2])
says(
    "array-of-float",
    "e0 0a 02 72 3f800000 7fc00000",
    ["array", "72", [["float", "3f800000"], ["float", "7fc00000"]]],
)
says(
    "array-of-double",
    "e0 0a 01 82 3ff0000000000000",
    ["array", "82", [["double", "3ff0000000000000"]]],
)
says("array-of-decimal32", "e0 06 01 74 32800001", ["array", "74", [["decimal32", "32800001"]]])
says(
    "array-of-decimal64",
    "e0 0a 01 84 31c0000000000001",
    ["array", "84", [["decimal64", "31c0000000000001"]]],
)
says(
    "array-of-decimal128",
    "e0 12 01 94 3040000000000000 0000000000000001",
    ["array", "94", [["decimal128", "30400000000000000000000000000001"]]],
)
says(
    "array-of-char",
    "e0 0a 02 73 00000041 0001f600",
    ["array", "73", [["char", 0x41], ["char", 0x1F600]]],
)
says("array-of-timestamp", "e0 0a 01 83 00000000000003e8", ["array", "83", [["timestamp", 1000]]])
says(
    "array-of-uuid",
    "e0 22 02 98" + "11" * 16 + "22" * 16,
    ["array", "98", [["uuid", "11" * 16], ["uuid", "22" * 16]]],
)
says("array-of-vbin8", "e0 05 02 a0 01 ff 00", ["array", "a0", [["binary", "ff"], ["binary", ""]]])
says(
    "array-of-vbin32",
    "e0 0b 02 b0 00000001 ff 00000000",
    ["array", "b0", [["binary", "ff"], ["binary", ""]]],
)
says("array-of-str8", "e0 05 02 a1 01 'a' 00", ["array", "a1", [["string", "a"], ["string", ""]]])
says("array-of-str32", "e0 07 01 b1 00000001 'a'", ["array", "b1", [["string", "a"]]])
says(
    "array-of-sym8",
    "e0 08 02 a3 02 'en' 02 'de'",
    ["array", "a3", [["symbol", "en"], ["symbol", "de"]]],
)
says("array-of-sym32", "e0 07 01 b3 00000001 'a'", ["array", "b3", [["symbol", "a"]]])
says("array-of-list0", "e0 02 02 45", ["array", "45", [["list", []]] * 2])
says(
    "array-of-list8",
    "e0 07 02 c0 01 00 02 01 40",
    ["array", "c0", [["list", []], ["list", [["null"]]]]],
    "each element has its size and count",
)
says(
    "array-of-list32",
    "e0 0b 01 d0 00000005 00000001 43",
    ["array", "d0", [["list", [["uint", 0]]]]],
)
says(
    "array-of-map8",
    "e0 08 02 c1 01 00 03 02 43 44",
    ["array", "c1", [["map", []], ["map", [[["uint", 0], ["ulong", 0]]]]]],
)
says("array-of-map32", "e0 0a 01 d1 00000004 00000000", ["array", "d1", [["map", []]]])
says(
    "array-of-array8",
    "e0 0a 02 e0 03 01 50 07 03 01 51 ff",
    ["array", "e0", [["array", "50", [["ubyte", 7]]], ["array", "51", [["byte", -1]]]]],
    "the elements may hold different types",
)
says(
    "array-of-array32",
    "e0 0c 01 f0 00000006 00000001 50 07",
    ["array", "f0", [["array", "50", [["ubyte", 7]]]]],
)
says("array-empty", "e0 02 00 a3", ["array", "a3", []])
says("array-empty-of-null", "e0 02 00 40", ["array", "40", []])
says(
    "array32-short",
    "f0 00000007 00000002 50 0102",
    ["array", "50", [["ubyte", 1], ["ubyte", 2]]],
    compact="e0 04 02 50 0102",
)
says(
    "array32-256-elements",
    "f0 00000105 00000100 50" + "07" * 256,
    ["array", "50", [["ubyte", 7]] * 256],
    "the count does not fit one octet",
)
says(
    "array32-long-content",
    "f0 0000010a 00000001 b1 00000101" + "61" * 257,
    ["array", "b1", [["string", "a" * 257]]],
)
says(
    "array-of-described",
    "e0 07 02 00 53 25 52 0102",
    ["array", "52", [["uint", 1], ["uint", 2]], [["ulong", 0x25]]],
    "one descriptor for all elements",
)
at("Part 1, 1.2")
says(
    "array-of-described-twice",
    "e0 08 01 00 53 01 00 53 02 40",
    ["array", "40", [["null"]], [["ulong", 1], ["ulong", 2]]],
)
at("Part 1, 1.6.24")
says(
    "array-of-described-symbol",
    "e0 0a 01 00 a3 03 'url' a1 01 'x'",
    ["array", "a1", [["string", "x"]], [["symbol", "url"]]],
)
says(
    "array-in-list",
    list8(2, "e0 04 02 50 0102 40"),
    ["list", [["array", "50", [["ubyte", 1], ["ubyte", 2]]], ["null"]]],
)

at("Part 1, 1.2.4")
refused("truncated-array8-size", "e0", "truncated", 1)
refused("truncated-array8", "e0 05 02 50 01", "truncated", 2)
refused("truncated-array32", "f0 00000010 00000001 50", "truncated", 5)
refused("array8-size-1", "e0 01 01 50", "compound-size-too-small", 1, "no constructor fits in")
refused("array32-size-4", "f0 00000004 00000001 50", "compound-size-too-small", 1)
refused("array8-without-constructor", "e0 01 00", "array-without-constructor", 0)
refused("array32-without-constructor", "f0 00000004 00000000", "array-without-constructor", 0)
refused("array8-unknown-constructor", "e0 03 01 4a 00", "unknown-constructor", 3)
refused("array8-count-too-large", "e0 03 02 50 01", "count-exceeds-size", 3)
refused("array32-count-max", "f0 00000006 ffffffff 50 01", "count-exceeds-size", 9)
refused("array8-left-over", "e0 04 01 50 0102", "compound-trailing-bytes", 5)
refused("array8-zero-width-left-over", "e0 03 01 40 40", "compound-trailing-bytes", 4)
refused("array8-element-overruns", "e0 04 01 a1 05 'a' 'b'", "element-overruns-compound", 5)
refused("array8-descriptor-alone", "e0 03 01 00 40 40", "element-overruns-compound", 5)
refused("array8-boolean-octet-2", "e0 03 01 56 02", "boolean-octet-not-0-or-1", 4)
refused("array8-invalid-utf8", "e0 04 01 a1 01 ff", "invalid-utf8", 5)
refused(
    "array32-zero-width-max",
    "f0 00000005 ffffffff 40",
    "zero-width-limit",
    0,
    "ten octets that ask for 4,294,967,295 values",
    preference=UNBOUNDED,
)
refused(
    "array32-uint0-million",
    "f0 00000005 000f4240 43",
    "zero-width-limit",
    0,
    preference=UNBOUNDED,
)
