"""Values of fixed width: Part 1, 1.6.1 to 1.6.18."""

from corpus_source._write import Chapter

chapter = Chapter("value")
at, says, refused = chapter.at, chapter.says, chapter.refused

at("Part 1, 1.6.1")
says("null", "40", ["null"])

at("Part 1, 1.6.2")
says("boolean-true", "41", ["boolean", True])
says("boolean-false", "42", ["boolean", False])
says("boolean-octet-true", "56 01", ["boolean", True], compact="41")
says("boolean-octet-false", "56 00", ["boolean", False], compact="42")
refused("boolean-octet-2", "56 02", "boolean-octet-not-0-or-1", 1)
refused("boolean-octet-ff", "56 ff", "boolean-octet-not-0-or-1", 1)

at("Part 1, 1.6.3")
says("ubyte-0", "50 00", ["ubyte", 0])
says("ubyte-1", "50 01", ["ubyte", 1])
says("ubyte-127", "50 7f", ["ubyte", 127])
says("ubyte-128", "50 80", ["ubyte", 128], "not negative")
says("ubyte-255", "50 ff", ["ubyte", 255])

at("Part 1, 1.6.4")
says("ushort-0", "60 0000", ["ushort", 0])
says("ushort-1", "60 0001", ["ushort", 1])
says("ushort-255", "60 00ff", ["ushort", 255])
says("ushort-256", "60 0100", ["ushort", 256])
says("ushort-32767", "60 7fff", ["ushort", 32767])
says("ushort-32768", "60 8000", ["ushort", 32768])
says("ushort-65535", "60 ffff", ["ushort", 65535])

at("Part 1, 1.6.5")
says("uint0", "43", ["uint", 0])
says("smalluint-1", "52 01", ["uint", 1])
says("smalluint-127", "52 7f", ["uint", 127])
says("smalluint-128", "52 80", ["uint", 128], "not negative")
says("smalluint-255", "52 ff", ["uint", 255])
says("smalluint-0", "52 00", ["uint", 0], compact="43")
says("uint-0", "70 00000000", ["uint", 0], compact="43")
says("uint-1", "70 00000001", ["uint", 1], compact="52 01")
says("uint-255", "70 000000ff", ["uint", 255], compact="52 ff")
says("uint-256", "70 00000100", ["uint", 256])
says("uint-2147483647", "70 7fffffff", ["uint", 2147483647])
says("uint-2147483648", "70 80000000", ["uint", 2147483648])
says("uint-4294967295", "70 ffffffff", ["uint", 4294967295])

at("Part 1, 1.6.6")
says("ulong0", "44", ["ulong", 0])
says("smallulong-1", "53 01", ["ulong", 1])
says("smallulong-128", "53 80", ["ulong", 128], "not negative")
says("smallulong-255", "53 ff", ["ulong", 255])
says("smallulong-0", "53 00", ["ulong", 0], compact="44")
says("ulong-0", "80 0000000000000000", ["ulong", 0], compact="44")
says("ulong-1", "80 0000000000000001", ["ulong", 1], compact="53 01")
says("ulong-255", "80 00000000000000ff", ["ulong", 255], compact="53 ff")
says("ulong-256", "80 0000000000000100", ["ulong", 256])
says("ulong-2-63", "80 8000000000000000", ["ulong", 9223372036854775808], "not negative")
says("ulong-max", "80 ffffffffffffffff", ["ulong", 18446744073709551615])

at("Part 1, 1.6.7")
says("byte-0", "51 00", ["byte", 0])
says("byte-127", "51 7f", ["byte", 127])
says("byte-min", "51 80", ["byte", -128])
says("byte-minus-1", "51 ff", ["byte", -1])

at("Part 1, 1.6.8")
says("short-0", "61 0000", ["short", 0])
says("short-128", "61 0080", ["short", 128])
says("short-max", "61 7fff", ["short", 32767])
says("short-min", "61 8000", ["short", -32768])
says("short-minus-1", "61 ffff", ["short", -1])

at("Part 1, 1.6.9")
says("smallint-0", "54 00", ["int", 0])
says("smallint-127", "54 7f", ["int", 127])
says("smallint-min", "54 80", ["int", -128])
says("smallint-minus-1", "54 ff", ["int", -1])
says("int-0", "71 00000000", ["int", 0], compact="54 00")
says("int-127", "71 0000007f", ["int", 127], compact="54 7f")
says("int-128", "71 00000080", ["int", 128])
says("int-minus-128", "71 ffffff80", ["int", -128], compact="54 80")
says("int-minus-129", "71 ffffff7f", ["int", -129])
says("int-max", "71 7fffffff", ["int", 2147483647])
says("int-min", "71 80000000", ["int", -2147483648])

at("Part 1, 1.6.10")
says("smalllong-0", "55 00", ["long", 0])
says("smalllong-127", "55 7f", ["long", 127])
says("smalllong-min", "55 80", ["long", -128])
says("smalllong-minus-1", "55 ff", ["long", -1])
says("long-0", "81 0000000000000000", ["long", 0], compact="55 00")
says("long-127", "81 000000000000007f", ["long", 127], compact="55 7f")
says("long-128", "81 0000000000000080", ["long", 128])
says("long-minus-128", "81 ffffffffffffff80", ["long", -128], compact="55 80")
says("long-minus-129", "81 ffffffffffffff7f", ["long", -129])
says("long-2-53-plus-1", "81 0020000000000001", ["long", 9007199254740993], "no double holds it")
says("long-max", "81 7fffffffffffffff", ["long", 9223372036854775807])
says("long-min", "81 8000000000000000", ["long", -9223372036854775808])

at("Part 1, 1.6.11")
says("float-0", "72 00000000", ["float", "00000000"])
says("float-minus-0", "72 80000000", ["float", "80000000"])
says("float-1", "72 3f800000", ["float", "3f800000"])
says("float-0.1", "72 3dcccccd", ["float", "3dcccccd"], "the float, not the double, nearest to it")
says("float-max", "72 7f7fffff", ["float", "7f7fffff"])
says("float-least", "72 00000001", ["float", "00000001"], "the least subnormal one")
says("float-infinity", "72 7f800000", ["float", "7f800000"])
says("float-minus-infinity", "72 ff800000", ["float", "ff800000"])
says("float-nan", "72 7fc00000", ["float", "7fc00000"])
says("float-nan-payload", "72 7fc12345", ["float", "7fc12345"])
says("float-nan-signalling", "72 7f800001", ["float", "7f800001"], "bits survive, quiet or not")
says("float-nan-negative", "72 ffc00000", ["float", "ffc00000"])

at("Part 1, 1.6.12")
says("double-0", "82 0000000000000000", ["double", "0000000000000000"])
says("double-minus-0", "82 8000000000000000", ["double", "8000000000000000"])
says("double-1", "82 3ff0000000000000", ["double", "3ff0000000000000"])
says("double-0.1", "82 3fb999999999999a", ["double", "3fb999999999999a"])
says("double-max", "82 7fefffffffffffff", ["double", "7fefffffffffffff"])
says("double-least", "82 0000000000000001", ["double", "0000000000000001"])
says("double-infinity", "82 7ff0000000000000", ["double", "7ff0000000000000"])
says("double-minus-infinity", "82 fff0000000000000", ["double", "fff0000000000000"])
says("double-nan", "82 7ff8000000000000", ["double", "7ff8000000000000"])
says("double-nan-payload", "82 7ff8000000012345", ["double", "7ff8000000012345"])

at("Part 1, 1.6.13")
says("decimal32-0", "74 32800000", ["decimal32", "32800000"], "0E+0")
says("decimal32-1", "74 32800001", ["decimal32", "32800001"], "1E+0")
says("decimal32-minus-7.50", "74 b18002ee", ["decimal32", "b18002ee"], "750E-2, its zero kept")
says("decimal32-max", "74 77f8967f", ["decimal32", "77f8967f"], "9999999E+90")
says("decimal32-infinity", "74 78000000", ["decimal32", "78000000"])
says("decimal32-nan", "74 7c000000", ["decimal32", "7c000000"])
says("decimal32-nan-signalling", "74 7e000000", ["decimal32", "7e000000"])
says(
    "decimal32-non-canonical",
    "74 6cb89680",
    ["decimal32", "6cb89680"],
    "coefficient 10000000: zero",
)

at("Part 1, 1.6.14")
says("decimal64-1", "84 31c0000000000001", ["decimal64", "31c0000000000001"], "1E+0")
says("decimal64-minus-1", "84 b1c0000000000001", ["decimal64", "b1c0000000000001"])
says("decimal64-least", "84 0000000000000001", ["decimal64", "0000000000000001"], "1E-398")
says("decimal64-minus-infinity", "84 f800000000000000", ["decimal64", "f800000000000000"])
says("decimal64-nan", "84 7c00000000000000", ["decimal64", "7c00000000000000"])

at("Part 1, 1.6.15")
says(
    "decimal128-1",
    "94 3040000000000000 0000000000000001",
    ["decimal128", "30400000000000000000000000000001"],
)
says(
    "decimal128-minus-0",
    "94 b040000000000000 0000000000000000",
    ["decimal128", "b0400000000000000000000000000000"],
)
says(
    "decimal128-infinity",
    "94 7800000000000000 0000000000000000",
    ["decimal128", "78000000000000000000000000000000"],
)
says(
    "decimal128-nan-payload",
    "94 7c00000000000000 000000000000002a",
    ["decimal128", "7c00000000000000000000000000002a"],
)

at("Part 1, 1.6.16")
says("char-nul", "73 00000000", ["char", 0])
says("char-a", "73 00000061", ["char", 0x61])
says("char-euro", "73 000020ac", ["char", 0x20AC])
says("char-last-before-surrogates", "73 0000d7ff", ["char", 0xD7FF])
says("char-first-behind-surrogates", "73 0000e000", ["char", 0xE000])
says("char-emoji", "73 0001f600", ["char", 0x1F600], "one code point beyond the basic plane")
says("char-last", "73 0010ffff", ["char", 0x10FFFF])
refused("char-surrogate-first", "73 0000d800", "char-not-a-unicode-scalar", 1)
refused("char-surrogate-last", "73 0000dfff", "char-not-a-unicode-scalar", 1)
refused("char-too-large", "73 00110000", "char-not-a-unicode-scalar", 1)
refused("char-negative", "73 ffffffff", "char-not-a-unicode-scalar", 1)

at("Part 1, 1.6.17")
says("timestamp-epoch", "83 0000000000000000", ["timestamp", 0])
says("timestamp-2012", "83 0000013aa9d15800", ["timestamp", 1351468800000], "29 October 2012, UTC")
says("timestamp-before-epoch", "83 ffffffffffffffff", ["timestamp", -1])
says("timestamp-max", "83 7fffffffffffffff", ["timestamp", 9223372036854775807])
says("timestamp-min", "83 8000000000000000", ["timestamp", -9223372036854775808])

at("Part 1, 1.6.18")
says("uuid-nil", "98" + "00" * 16, ["uuid", "00" * 16])
says(
    "uuid-version-4",
    "98 f47ac10b58cc4372a5670e02b2c3d479",
    ["uuid", "f47ac10b58cc4372a5670e02b2c3d479"],
)
says("uuid-max", "98" + "ff" * 16, ["uuid", "ff" * 16], "not of RFC 4122, and legal here")

# A value has all the octets that its constructor says (Part 1, 1.2.1).
at("Part 1, 1.2.1")
for code, name, width in (
    ("50", "ubyte", 1),
    ("51", "byte", 1),
    ("52", "smalluint", 1),
    ("53", "smallulong", 1),
    ("54", "smallint", 1),
    ("55", "smalllong", 1),
    ("56", "boolean", 1),
    ("60", "ushort", 2),
    ("61", "short", 2),
    ("70", "uint", 4),
    ("71", "int", 4),
    ("72", "float", 4),
    ("73", "char", 4),
    ("74", "decimal32", 4),
    ("80", "ulong", 8),
    ("81", "long", 8),
    ("82", "double", 8),
    ("83", "timestamp", 8),
    ("84", "decimal64", 8),
    ("94", "decimal128", 16),
    ("98", "uuid", 16),
):
    refused(f"truncated-{name}", code + "00" * (width - 1), "truncated", 1, "one octet is missing")
