"""Values of variable width: Part 1, 1.6.19 to 1.6.21."""

from corpus_source._write import Chapter

chapter = Chapter("value")
at, says, refused = chapter.at, chapter.says, chapter.refused

at("Part 1, 1.6.19")
says("binary-empty", "a0 00", ["binary", ""])
says("binary-nul", "a0 01 00", ["binary", "00"])
says("binary-all-octets-of-text", "a0 05 'hello'", ["binary", "68656c6c6f"])
says("binary-like-a-value", "a0 05 0053754043", ["binary", "0053754043"], "opaque, not looked into")
says("binary-255", "a0 ff" + "5a" * 255, ["binary", "5a" * 255])
says("binary-256", "b0 00000100" + "5a" * 256, ["binary", "5a" * 256])
says("vbin32-empty", "b0 00000000", ["binary", ""], compact="a0 00")
says("vbin32-short", "b0 00000003 010203", ["binary", "010203"], compact="a0 03 010203")

at("Part 1, 1.6.20")
says("string-empty", "a1 00", ["string", ""])
says("string-ascii", "a1 05 'hello'", ["string", "hello"])
says("string-nul", "a1 01 00", ["string", "\x00"], "U+0000 is a character, and ends nothing")
says("string-line-ends", "a1 04 0d0a0a0d", ["string", "\r\n\n\r"])
says("string-two-octets", "a1 02 c3a9", ["string", "é"])
says("string-three-octets", "a1 03 e282ac", ["string", "€"])
says("string-four-octets", "a1 04 f09f9880", ["string", "😀"])
says("string-decomposed", "a1 03 65cc81", ["string", "e\u0301"], "not the same as the composed é")
says("string-byte-order-mark", "a1 04 efbbbf61", ["string", "\ufeffa"], "kept")
says("string-noncharacter", "a1 03 efbfbf", ["string", "\uffff"], "U+FFFF is UTF-8")
says("string-last-code-point", "a1 04 f48fbfbf", ["string", "\U0010ffff"])
says("string-line-separator", "a1 03 e280a8", ["string", "\u2028"])
says("string-255", "a1 ff" + "61" * 255, ["string", "a" * 255])
says("string-256", "b1 00000100" + "61" * 256, ["string", "a" * 256])
says(
    "string-256-octets-128-characters",
    "b1 00000100" + "c3a9" * 128,
    ["string", "é" * 128],
    "the size counts octets",
)
says("str32-empty", "b1 00000000", ["string", ""], compact="a1 00")
says("str32-short", "b1 00000005 'hello'", ["string", "hello"], compact="a1 05 'hello'")
refused("string-lone-continuation", "a1 01 80", "invalid-utf8", 2)
refused("string-cut-sequence", "a1 03 61e282", "invalid-utf8", 3)
refused("string-overlong-slash", "a1 02 c0af", "invalid-utf8", 2, "an overlong form of /")
refused("string-modified-utf8-nul", "a1 02 c080", "invalid-utf8", 2, "as Java writes U+0000")
refused("string-surrogate", "a1 03 eda080", "invalid-utf8", 2, "U+D800")
refused("string-cesu8", "a1 06 eda0bdedb880", "invalid-utf8", 2, "an emoji as two surrogates")
refused("string-beyond-unicode", "a1 04 f4908080", "invalid-utf8", 2, "U+110000")
refused("string-latin1", "a1 04 'caf' e9", "invalid-utf8", 5)
refused("str32-invalid", "b1 00000001 ff", "invalid-utf8", 5)

at("Part 1, 1.6.21")
says("symbol-empty", "a3 00", ["symbol", ""])
says("symbol", "a3 10 'amqp:header:list'", ["symbol", "amqp:header:list"])
says("symbol-control", "a3 02 007f", ["symbol", "\x00\x7f"], "ASCII has control characters")
says("symbol-255", "a3 ff" + "78" * 255, ["symbol", "x" * 255])
says("symbol-256", "b3 00000100" + "78" * 256, ["symbol", "x" * 256])
says("sym32-empty", "b3 00000000", ["symbol", ""], compact="a3 00")
says("sym32-short", "b3 00000003 'abc'", ["symbol", "abc"], compact="a3 03 'abc'")
refused("symbol-utf8", "a3 02 c3a9", "symbol-not-ascii", 2)
refused("symbol-octet-80", "a3 03 6162 80", "symbol-not-ascii", 4)
refused("sym32-not-ascii", "b3 00000001 ff", "symbol-not-ascii", 5)

at("Part 1, 1.2.2")
for code, name in (("a0", "vbin8"), ("a1", "str8"), ("a3", "sym8")):
    refused(f"truncated-{name}-size", code, "truncated", 1)
    refused(f"truncated-{name}", f"{code} 03 'ab'", "truncated", 2)
for code, name in (("b0", "vbin32"), ("b1", "str32"), ("b3", "sym32")):
    refused(f"truncated-{name}-size", f"{code} 000000", "truncated", 1)
    refused(f"truncated-{name}", f"{code} 00000003 'ab'", "truncated", 5)
refused("vbin32-size-max", "b0 ffffffff", "truncated", 5, "4 GiB that are not there")
refused("str32-size-2-31", "b1 80000000 'a'", "truncated", 5, "negative as a signed integer")
