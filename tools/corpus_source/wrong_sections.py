"""Messages whose sections are not what and where they must be, and octets that are no message."""

from typing import Any

from corpus_source._write import UNBOUNDED, Chapter, list8, map8, nested, string, sym

chapter = Chapter("message")
at, says, irregular, refused = chapter.at, chapter.says, chapter.irregular, chapter.refused

BODY = " 00 53 75 a0 01 'x'"
TYPED_BODY = ["data", "78"]
# Sections with contents. An implementation may treat an empty section as a missing one, and then
# its position cannot be compared.
HEADER, TYPED_HEADER = " 00 53 70 c0 02 01 41", ["header", [["boolean", True]]]
PROPERTIES, TYPED_PROPERTIES = " 00 53 73 c0 04 01 a1 01 'm'", ["properties", [["string", "m"]]]
MAP, TYPED_MAP = " c1 0b 02 a3 07 'x-opt-k' 41", [[["symbol", "x-opt-k"], ["boolean", True]]]
FOOTER, TYPED_FOOTER = " 00 53 78" + MAP, ["footer", TYPED_MAP]
NULL = ["null"]
typed: Any

at("Part 3, 3.2")
says("no-sections", "", [], "nothing at all", breaks="body-missing@0")
says(
    "no-body",
    "00 53 70 45 00 53 74 c1 01 00",
    [["header", []], ["application-properties", []]],
    breaks="body-missing@10",
)
says("no-body-but-footer", "00 53 78 c1 01 00", [["footer", []]], breaks="body-missing@0")
irregular(
    "header-behind-properties",
    PROPERTIES + HEADER + BODY,
    [TYPED_PROPERTIES, TYPED_HEADER, TYPED_BODY],
    "section-out-of-order",
    9,
)
irregular(
    "header-behind-body",
    BODY + HEADER,
    [TYPED_BODY, TYPED_HEADER],
    "section-out-of-order",
    6,
)
irregular(
    "body-behind-footer",
    FOOTER + BODY,
    [TYPED_FOOTER, TYPED_BODY],
    "section-out-of-order",
    16,
)
irregular(
    "data-on-both-sides-of-footer",
    BODY + FOOTER + BODY,
    [TYPED_BODY, TYPED_FOOTER, TYPED_BODY],
    "section-out-of-order",
    22,
)
irregular(
    "annotations-swapped",
    " 00 53 72" + MAP + " 00 53 71" + MAP + BODY,
    [["message-annotations", TYPED_MAP], ["delivery-annotations", TYPED_MAP], TYPED_BODY],
    "section-out-of-order",
    16,
)
irregular(
    "header-twice",
    "00 53 70 45 00 53 70 c0 02 01 41" + BODY,
    [["header", []], ["header", [["boolean", True]]], TYPED_BODY],
    "duplicate-section",
    4,
)
irregular(
    "properties-twice-in-two-forms",
    "00 53 73 45 00 a3 14 'amqp:properties:list' 45" + BODY,
    [["properties", []], ["properties", []], TYPED_BODY],
    "duplicate-section",
    4,
)
irregular(
    "application-properties-twice",
    "00 53 74 c1 01 00 00 53 74 c1 01 00" + BODY,
    [["application-properties", []], ["application-properties", []], TYPED_BODY],
    "duplicate-section",
    6,
)
irregular(
    "value-twice",
    "00 53 77 41 00 53 77 42",
    [["amqp-value", ["boolean", True]], ["amqp-value", ["boolean", False]]],
    "duplicate-section",
    4,
)
irregular(
    "footer-twice",
    "00 53 75 a0 01 'x' 00 53 78 c1 01 00 00 53 78 c1 01 00",
    [TYPED_BODY, ["footer", []], ["footer", []]],
    "duplicate-section",
    12,
)
irregular(
    "data-and-value",
    "00 53 75 a0 01 'x' 00 53 77 41",
    [TYPED_BODY, ["amqp-value", ["boolean", True]]],
    "mixed-body-sections",
    6,
)
irregular(
    "value-and-data",
    "00 53 77 41" + BODY,
    [["amqp-value", ["boolean", True]], TYPED_BODY],
    "mixed-body-sections",
    4,
)
irregular(
    "sequence-and-data",
    "00 53 76 45" + BODY,
    [["amqp-sequence", []], TYPED_BODY],
    "mixed-body-sections",
    4,
)
irregular(
    "section-unknown",
    "00 53 79 45" + BODY,
    [["unknown", ["described", ["ulong", 0x79], ["list", []]]], TYPED_BODY],
    "unknown-section",
    0,
    "one behind the last",
)
irregular(
    "section-unknown-symbol",
    "00 a3 03 'foo' 40" + BODY,
    [["unknown", ["described", ["symbol", "foo"], NULL]], TYPED_BODY],
    "unknown-section",
    0,
)
irregular(
    "section-uint-descriptor",
    "00 52 75 a0 01 'x'",
    [["unknown", ["described", ["uint", 0x75], ["binary", "78"]]]],
    "unknown-section",
    0,
    "a descriptor is a ulong or a symbol",
    breaks="body-missing@6, unknown-section",
)
irregular(
    "section-string-descriptor",
    "00 a1 10 'amqp:data:binary' a0 01 'x'",
    [["unknown", ["described", ["string", "amqp:data:binary"], ["binary", "78"]]]],
    "unknown-section",
    0,
    breaks="body-missing@22, unknown-section",
)
irregular(
    "not-a-section",
    "00 53 75 a0 01 'x' 40",
    [TYPED_BODY, ["unknown", NULL]],
    "not-a-section",
    6,
)
irregular(
    "bare-string",
    "a1 05 'hello'",
    [["unknown", ["string", "hello"]]],
    "not-a-section",
    0,
    "a value, not a message",
    breaks="body-missing@7, not-a-section",
)
refused("message-truncated", "00 53 75 a0 05 'hel'", "truncated", 5, breaks="truncated")
refused("message-cut-in-descriptor", "00 53", "truncated", 2, breaks="truncated")
refused("message-cut-behind-descriptor", "00 53 75", "truncated", 3, breaks="truncated")
refused(
    "message-unknown-constructor",
    "00 53 77 4f",
    "unknown-constructor",
    3,
    breaks="unknown-constructor",
)
refused(
    "message-compound-size-too-small",
    "00 53 74 d1 00000003 000000" + BODY,
    "compound-size-too-small",
    4,
    breaks="compound-size-too-small",
)
refused(
    "message-count-exceeds-size",
    "00 53 73 c0 02 05 40" + BODY,
    "count-exceeds-size",
    6,
    breaks="count-exceeds-size",
)
refused(
    "message-element-overruns",
    "00 53 73 c0 04 01 a1 05 'a'" + BODY,
    "element-overruns-compound",
    8,
    breaks="element-overruns-compound",
)
refused(
    "message-compound-left-over",
    "00 53 70 c0 03 01 41 41" + BODY,
    "compound-trailing-bytes",
    7,
    breaks="compound-trailing-bytes",
)
refused(
    "message-boolean-octet-2",
    "00 53 70 c0 03 01 56 02" + BODY,
    "boolean-octet-not-0-or-1",
    7,
    breaks="boolean-octet-not-0-or-1",
)
refused(
    "message-char-surrogate",
    "00 53 77 73 0000d800",
    "char-not-a-unicode-scalar",
    4,
    breaks="char-not-a-unicode-scalar",
)
refused(
    "message-invalid-utf8",
    "00 53 73 " + list8(4, "40 40 40 a1 02 'a' ff") + BODY,
    "invalid-utf8",
    12,
    breaks="invalid-utf8",
)
refused(
    "message-symbol-not-ascii",
    "00 53 72 " + map8(2, sym("x-opt-a") + "a3 01 e9") + BODY,
    "symbol-not-ascii",
    17,
    breaks="symbol-not-ascii",
)
refused(
    "message-map-odd-count",
    "00 53 72 c1 04 01 a3 01 'k'" + BODY,
    "map-odd-count",
    3,
    breaks="map-odd-count",
)
refused(
    "message-map-duplicate-key",
    "00 53 74 " + map8(4, string("k") + "41 " + string("k") + "42") + BODY,
    "map-duplicate-key",
    10,
    breaks="map-duplicate-key",
)
refused(
    "message-array-without-constructor",
    "00 53 77 e0 01 00",
    "array-without-constructor",
    3,
    breaks="array-without-constructor",
)
refused(
    "message-zero-width-max",
    "00 53 77 f0 00000005 ffffffff 40",
    "zero-width-limit",
    3,
    breaks="zero-width-limit",
    preference=UNBOUNDED,
)

refused(
    "message-depth-257",
    "00 53 77 " + nested(258),
    "depth-limit",
    3 + 256 * 9,
    breaks="depth-limit",
    preference=UNBOUNDED,
)

for clause, code, name, value, typed in (
    ("3.2.1", 0x70, "header", "c1 01 00", ["map", []]),
    ("3.2.2", 0x71, "delivery-annotations", "45", ["list", []]),
    ("3.2.3", 0x72, "message-annotations", "40", NULL),
    ("3.2.4", 0x73, "properties", "41", ["boolean", True]),
    ("3.2.5", 0x74, "application-properties", "a0 00", ["binary", ""]),
    ("3.2.6", 0x75, "data", "a1 01 'x'", ["string", "x"]),
    ("3.2.7", 0x76, "amqp-sequence", "a0 01 'x'", ["binary", "78"]),
    ("3.2.9", 0x78, "footer", "c0 01 00", ["list", []]),
):
    at(f"Part 3, {clause}")
    section = f"00 53 {code:02x} {value}"
    if name == "footer":
        irregular(
            f"{name}-value-type",
            BODY + " " + section,
            [TYPED_BODY, [name, typed]],
            "section-value-type",
            9,
        )
    elif name in {"data", "amqp-sequence"}:
        irregular(f"{name}-value-type", section, [[name, typed]], "section-value-type", 3)
    else:
        irregular(
            f"{name}-value-type",
            section + BODY,
            [[name, typed], TYPED_BODY],
            "section-value-type",
            3,
        )

at("Part 3, 3.2.6")
irregular(
    "data-null",
    "00 53 75 40",
    [["data", NULL]],
    "section-value-type",
    3,
    "a body without content is an empty binary",
)
