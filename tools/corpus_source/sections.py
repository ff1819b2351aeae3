"""Sound messages, section by section: Part 3, 3.2."""

import re
from typing import Any

import attrs

from corpus_source._write import Chapter, list8, list32, map8, map32, string, sym

chapter = Chapter("message")
at, says = chapter.at, chapter.says

BODY = " 00 53 75 a0 01 'x'"
TYPED_BODY = ["data", "78"]
NULL = ["null"]


def with_body(
    name: str,
    data: str,
    typed: Any,
    note: str = "",
    *,
    compact: str | None = None,
    breaks: str = "",
) -> None:
    """Add a message of this section in front of a body of one octet."""
    behind = None if compact is None else compact + BODY
    says(name, data + BODY, [typed, TYPED_BODY], note, compact=behind, breaks=breaks)


at("Part 3, 3.2.6")
says("data-empty", "00 53 75 a0 00", [["data", ""]])
says("data", "00 53 75 a0 05 'hello'", [["data", "68656c6c6f"]])
says(
    "data-vbin32",
    "00 53 75 b0 00000005 'hello'",
    [["data", "68656c6c6f"]],
    compact="00 53 75 a0 05 'hello'",
)
says("data-256", "00 53 75 b0 00000100" + "61" * 256, [["data", "61" * 256]])
says(
    "data-three-sections",
    "00 53 75 a0 01 'a' 00 53 75 a0 00 00 53 75 a0 01 'b'",
    [["data", "61"], ["data", ""], ["data", "62"]],
    "they belong together, and stay three",
)
says(
    "data-wide-descriptor",
    "00 80 0000000000000075 a0 01 'x'",
    [TYPED_BODY],
    compact="00 53 75 a0 01 'x'",
)
says(
    "data-symbolic",
    "00 a3 10 'amqp:data:binary' a0 01 'x'",
    [TYPED_BODY],
    compact="00 53 75 a0 01 'x'",
)
says(
    "data-symbolic-sym32",
    "00 b3 00000010 'amqp:data:binary' a0 01 'x'",
    [TYPED_BODY],
    compact="00 53 75 a0 01 'x'",
)
says(
    "data-like-a-section", "00 53 75 a0 05 0053754043", [["data", "0053754043"]], "not looked into"
)

at("Part 3, 3.2.7")
says("sequence-empty", "00 53 76 45", [["amqp-sequence", []]])
says(
    "sequence",
    "00 53 76 c0 05 03 43 54 01 40",
    [["amqp-sequence", [["uint", 0], ["int", 1], NULL]]],
)
says(
    "sequence-two-sections",
    "00 53 76 c0 02 01 41 00 53 76 c0 02 01 42",
    [["amqp-sequence", [["boolean", True]]], ["amqp-sequence", [["boolean", False]]]],
)
says(
    "sequence-list32",
    "00 53 76 " + list32(1, "41"),
    [["amqp-sequence", [["boolean", True]]]],
    compact="00 53 76 c0 02 01 41",
)
says(
    "sequence-symbolic",
    "00 a3 17 'amqp:amqp-sequence:list' 45",
    [["amqp-sequence", []]],
    compact="00 53 76 45",
)
says(
    "sequence-of-structures",
    "00 53 76 " + list8(2, map8(2, string("k") + "41") + "e0 04 02 50 0102"),
    [
        [
            "amqp-sequence",
            [
                ["map", [[["string", "k"], ["boolean", True]]]],
                ["array", "50", [["ubyte", 1], ["ubyte", 2]]],
            ],
        ]
    ],
)

at("Part 3, 3.2.8")
says("value-null", "00 53 77 40", [["amqp-value", NULL]], "a body that says null is a body")
says("value-string", "00 53 77 a1 05 'hello'", [["amqp-value", ["string", "hello"]]])
says(
    "value-binary", "00 53 77 a0 01 'x'", [["amqp-value", ["binary", "78"]]], "not the same as data"
)
says("value-list", "00 53 77 45", [["amqp-value", ["list", []]]], "not the same as a sequence")
says(
    "value-map",
    "00 53 77 " + map8(2, "54 01" + string("one")),
    [["amqp-value", ["map", [[["int", 1], ["string", "one"]]]]]],
)
says(
    "value-described",
    "00 53 77 00 a3 03 'url' a1 01 'x'",
    [["amqp-value", ["described", ["symbol", "url"], ["string", "x"]]]],
)
says(
    "value-section-in-it",
    "00 53 77 00 53 75 a0 01 'x'",
    [["amqp-value", ["described", ["ulong", 0x75], ["binary", "78"]]]],
    "a described value, no section",
)
says(
    "value-array",
    "00 53 77 e0 04 02 50 0102",
    [["amqp-value", ["array", "50", [["ubyte", 1], ["ubyte", 2]]]]],
)
says(
    "value-symbolic",
    "00 a3 11 'amqp:amqp-value:*' 41",
    [["amqp-value", ["boolean", True]]],
    compact="00 53 77 41",
)
says(
    "value-declare",
    "00 53 77 00 53 31 45",
    [["amqp-value", ["described", ["ulong", 0x31], ["list", []]]]],
    "as it goes to a coordinator (Part 4)",
)

at("Part 3, 3.2.1")
with_body("header-empty", "00 53 70 45", ["header", []])
with_body("header-list8-empty", "00 53 70 c0 01 00", ["header", []], compact="00 53 70 45")
with_body("header-durable", "00 53 70 c0 02 01 41", ["header", [["boolean", True]]])
with_body(
    "header-full",
    "00 53 70 c0 0c 05 41 50 09 70 0000ea60 41 52 03",
    ["header", [["boolean", True], ["ubyte", 9], ["uint", 60000], ["boolean", True], ["uint", 3]]],
)
with_body(
    "header-defaults-spelled-out",
    "00 53 70 c0 07 05 42 50 04 40 42 43",
    ["header", [["boolean", False], ["ubyte", 4], NULL, ["boolean", False], ["uint", 0]]],
    "says what an empty header says; typed JSON keeps the difference",
)
with_body("header-nulls", "00 53 70 c0 06 05 40 40 40 40 40", ["header", [NULL] * 5])
with_body("header-trailing-null", "00 53 70 c0 03 02 41 40", ["header", [["boolean", True], NULL]])
with_body("header-ttl-0", "00 53 70 c0 04 03 40 40 43", ["header", [NULL, NULL, ["uint", 0]]])
with_body(
    "header-ttl-max",
    "00 53 70 c0 08 03 40 40 70 ffffffff",
    ["header", [NULL, NULL, ["uint", 4294967295]]],
    "49.7 days",
)
with_body("header-priority-255", "00 53 70 c0 04 02 40 50 ff", ["header", [NULL, ["ubyte", 255]]])
with_body(
    "header-wide-forms",
    "00 80 0000000000000070 d0 00000011 00000005 56 01 50 04 70 00000001 56 00 52 00",
    ["header", [["boolean", True], ["ubyte", 4], ["uint", 1], ["boolean", False], ["uint", 0]]],
    compact="00 53 70 c0 08 05 41 50 04 52 01 42 43",
)
with_body(
    "header-symbolic",
    "00 a3 10 'amqp:header:list' c0 02 01 41",
    ["header", [["boolean", True]]],
    compact="00 53 70 c0 02 01 41",
)

for clause, name, code, key in (
    ("3.2.2", "delivery-annotations", 0x71, "x-opt-d"),
    ("3.2.3", "message-annotations", 0x72, "x-opt-m"),
):
    at(f"Part 3, {clause}")
    head = f"00 53 {code:02x} "
    with_body(f"{name}-empty", head + "c1 01 00", [name, []])
    with_body(
        name,
        head + map8(4, sym(key) + "43 " + sym("x-other") + string("v")),
        [name, [[["symbol", key], ["uint", 0]], [["symbol", "x-other"], ["string", "v"]]]],
    )
    with_body(
        f"{name}-compound-values",
        head + map8(4, sym("x-opt-list") + "c0 02 01 41 " + sym("x-opt-map") + "c1 01 00"),
        [
            name,
            [
                [["symbol", "x-opt-list"], ["list", [["boolean", True]]]],
                [["symbol", "x-opt-map"], ["map", []]],
            ],
        ],
        "annotations may be of any type",
    )
    with_body(
        f"{name}-map32",
        head + map32(2, sym(key) + "41"),
        [name, [[["symbol", key], ["boolean", True]]]],
        compact=head + map8(2, sym(key) + "41"),
    )
    with_body(
        f"{name}-symbolic",
        f"00 {sym(f'amqp:{name}:map')} c1 01 00",
        [name, []],
        compact=head + "c1 01 00",
    )
at("Part 3, 3.2.2")
with_body(
    "delivery-annotations-rejected",
    "00 53 71 " + map8(2, sym("rejected") + "00 53 1d " + list8(1, sym("amqp:not-found"))),
    [
        "delivery-annotations",
        [
            [
                ["symbol", "rejected"],
                ["described", ["ulong", 0x1D], ["list", [["symbol", "amqp:not-found"]]]],
            ]
        ],
    ],
    "the one key that Part 3 gives out",
)
at("Part 3, 3.2.3")
with_body(
    "message-annotations-null-value",
    "00 53 72 " + map8(2, sym("x-opt-n") + "40"),
    ["message-annotations", [[["symbol", "x-opt-n"], NULL]]],
)
with_body(
    "message-annotations-sym32-key",
    "00 53 72 " + map8(2, "b3 00000007 'x-opt-m' 41"),
    ["message-annotations", [[["symbol", "x-opt-m"], ["boolean", True]]]],
    compact="00 53 72 " + map8(2, sym("x-opt-m") + "41"),
)

at("Part 3, 3.2.4")
with_body("properties-empty", "00 53 73 45", ["properties", []])
with_body(
    "properties-full",
    "00 53 73 "
    + list8(
        13,
        string("m-1")
        + "a0 05 'guest' "
        + string("/queues/orders")
        + string("subject")
        + string("/queues/replies")
        + string("c-1")
        + sym("text/plain")
        + sym("gzip")
        + "83 0000018bcfe56800 83 0000018bcfe567ff "
        + string("group")
        + "52 07"
        + string("reply-group"),
    ),
    [
        "properties",
        [
            ["string", "m-1"],
            ["binary", "6775657374"],
            ["string", "/queues/orders"],
            ["string", "subject"],
            ["string", "/queues/replies"],
            ["string", "c-1"],
            ["symbol", "text/plain"],
            ["symbol", "gzip"],
            ["timestamp", 1700000000000],
            ["timestamp", 1699999999999],
            ["string", "group"],
            ["uint", 7],
            ["string", "reply-group"],
        ],
    ],
)
with_body("properties-nulls", "00 53 73 " + list8(13, "40" * 13), ["properties", [NULL] * 13])
with_body(
    "properties-list32",
    "00 53 73 " + list32(1, "53 01"),
    ["properties", [["ulong", 1]]],
    compact="00 53 73 c0 03 01 53 01",
)
with_body(
    "properties-symbolic",
    "00 a3 14 'amqp:properties:list' 45",
    ["properties", []],
    compact="00 53 73 45",
)
with_body(
    "properties-user-id-not-text",
    "00 53 73 c0 06 02 40 a0 02 ff00",
    ["properties", [NULL, ["binary", "ff00"]]],
)
with_body(
    "properties-content-type-parameter",
    "00 53 73 " + list8(7, "40" * 6 + sym('text/plain; charset="utf-8"')),
    ["properties", [*[NULL] * 6, ["symbol", 'text/plain; charset="utf-8"']]],
    "the example of the specification",
)
with_body(
    "properties-expiry-negative",
    "00 53 73 " + list8(9, "40" * 8 + "83 ffffffffffffffff"),
    ["properties", [*[NULL] * 8, ["timestamp", -1]]],
    "expired in 1969",
)
with_body(
    "properties-group-sequence-max",
    "00 53 73 " + list8(12, "40" * 11 + "70 ffffffff"),
    ["properties", [*[NULL] * 11, ["uint", 4294967295]]],
    "the last before 0 (RFC 1982)",
)
for clause, name, data, typed in (
    ("3.2.11", "ulong0", "44", ["ulong", 0]),
    ("3.2.11", "smallulong", "53 01", ["ulong", 1]),
    ("3.2.11", "ulong", "80 ffffffffffffffff", ["ulong", 18446744073709551615]),
    (
        "3.2.12",
        "uuid",
        "98 f47ac10b58cc4372a5670e02b2c3d479",
        ["uuid", "f47ac10b58cc4372a5670e02b2c3d479"],
    ),
    ("3.2.13", "binary", "a0 02 00ff", ["binary", "00ff"]),
    ("3.2.13", "binary-empty", "a0 00", ["binary", ""]),
    ("3.2.14", "string", "a1 02 'id'", ["string", "id"]),
    ("3.2.14", "string-empty", "a1 00", ["string", ""]),
):
    at(f"Part 3, {clause}")
    with_body(f"message-id-{name}", "00 53 73 " + list8(1, data), ["properties", [typed]])
    with_body(
        f"correlation-id-{name}",
        "00 53 73 " + list8(6, "40 40 40 40 40 " + data),
        ["properties", [*[NULL] * 5, typed]],
    )
at("Part 3, 3.2.15")
with_body(
    "address-string-empty",
    "00 53 73 " + list8(5, "40 40 a1 00 40 a1 00"),
    ["properties", [NULL, NULL, ["string", ""], NULL, ["string", ""]]],
)

at("Part 3, 3.2.5")
with_body("application-properties-empty", "00 53 74 c1 01 00", ["application-properties", []])
simple: tuple[tuple[str, list[Any]], ...] = (
    ("40", NULL),
    ("41", ["boolean", True]),
    ("50 01", ["ubyte", 1]),
    ("60 0002", ["ushort", 2]),
    ("52 03", ["uint", 3]),
    ("53 04", ["ulong", 4]),
    ("51 fb", ["byte", -5]),
    ("61 fffa", ["short", -6]),
    ("54 f9", ["int", -7]),
    ("55 f8", ["long", -8]),
    ("72 3f800000", ["float", "3f800000"]),
    ("82 3ff0000000000000", ["double", "3ff0000000000000"]),
    ("74 32800001", ["decimal32", "32800001"]),
    ("84 31c0000000000001", ["decimal64", "31c0000000000001"]),
    (
        "94 30400000000000000000000000000001",
        ["decimal128", "30400000000000000000000000000001"],
    ),
    ("73 0001f600", ["char", 0x1F600]),
    ("83 00000000000003e8", ["timestamp", 1000]),
    ("98 f47ac10b58cc4372a5670e02b2c3d479", ["uuid", "f47ac10b58cc4372a5670e02b2c3d479"]),
    ("a0 01 ff", ["binary", "ff"]),
    ("a1 01 'v'", ["string", "v"]),
    ("a3 01 'v'", ["symbol", "v"]),
)
with_body(
    "application-properties-every-simple-type",
    "00 53 74 "
    + map8(42, " ".join(f"{string(chr(97 + i))} {one}" for i, (one, _) in enumerate(simple))),
    [
        "application-properties",
        [[["string", chr(97 + i)], value] for i, (_, value) in enumerate(simple)],
    ],
)
with_body(
    "application-properties-empty-key",
    "00 53 74 " + map8(2, string("") + "41"),
    ["application-properties", [[["string", ""], ["boolean", True]]]],
)
with_body(
    "application-properties-unicode-key",
    "00 53 74 " + map8(2, string("Größe") + "54 05"),
    ["application-properties", [[["string", "Größe"], ["int", 5]]]],
)
with_body(
    "application-properties-described-simple",
    "00 53 74 " + map8(2, string("u") + "00 a3 03 'url' a1 01 'x'"),
    [
        "application-properties",
        [[["string", "u"], ["described", ["symbol", "url"], ["string", "x"]]]],
    ],
    "a described string is no map, list or array",
)
with_body(
    "application-properties-str32-key",
    "00 53 74 " + map8(2, "b1 00000001 'k' 56 01"),
    ["application-properties", [[["string", "k"], ["boolean", True]]]],
    compact="00 53 74 " + map8(2, string("k") + "41"),
)
with_body(
    "application-properties-map32",
    "00 53 74 " + map32(2, string("k") + "41"),
    ["application-properties", [[["string", "k"], ["boolean", True]]]],
    compact="00 53 74 " + map8(2, string("k") + "41"),
)
with_body(
    "application-properties-symbolic",
    f"00 {sym('amqp:application-properties:map')} c1 01 00",
    ["application-properties", []],
    compact="00 53 74 c1 01 00",
)

at("Part 3, 3.2.9")
says(
    "footer",
    "00 53 75 a0 01 'x' 00 53 78 " + map8(2, sym("x-opt-hash") + "a0 02 0102"),
    [TYPED_BODY, ["footer", [[["symbol", "x-opt-hash"], ["binary", "0102"]]]]],
)
says("footer-empty", "00 53 75 a0 01 'x' 00 53 78 c1 01 00", [TYPED_BODY, ["footer", []]])
says(
    "footer-symbolic",
    "00 53 75 a0 01 'x' 00 a3 0f 'amqp:footer:map' c1 01 00",
    [TYPED_BODY, ["footer", []]],
    compact="00 53 75 a0 01 'x' 00 53 78 c1 01 00",
)

at("Part 3, 3.2")
says(
    "all-sections",
    "00 53 70 c0 02 01 41 00 53 71 "
    + map8(2, sym("x-opt-d") + "41")
    + " 00 53 72 "
    + map8(2, sym("x-opt-m") + "42")
    + " 00 53 73 c0 03 01 53 01"
    + " 00 53 74 "
    + map8(2, string("k") + "40")
    + " 00 53 75 a0 01 'a' 00 53 75 a0 01 'b'"
    + " 00 53 78 "
    + map8(2, sym("x-opt-f") + "44"),
    [
        ["header", [["boolean", True]]],
        ["delivery-annotations", [[["symbol", "x-opt-d"], ["boolean", True]]]],
        ["message-annotations", [[["symbol", "x-opt-m"], ["boolean", False]]]],
        ["properties", [["ulong", 1]]],
        ["application-properties", [[["string", "k"], NULL]]],
        ["data", "61"],
        ["data", "62"],
        ["footer", [[["symbol", "x-opt-f"], ["ulong", 0]]]],
    ],
)
says(
    "all-sections-empty",
    "00 53 70 45 00 53 71 c1 01 00 00 53 72 c1 01 00 00 53 73 45 00 53 74 c1 01 00 00 53 76 45"
    " 00 53 78 c1 01 00",
    [
        ["header", []],
        ["delivery-annotations", []],
        ["message-annotations", []],
        ["properties", []],
        ["application-properties", []],
        ["amqp-sequence", []],
        ["footer", []],
    ],
    "an empty section is not the same as none: the bare message keeps it",
)
says(
    "properties-and-value",
    "00 53 73 c0 03 01 53 01 00 53 77 a1 01 'x'",
    [["properties", [["ulong", 1]]], ["amqp-value", ["string", "x"]]],
)

# Where the form of the descriptor is what a case is about, that is Part 1's: 1.5 has both kinds.
chapter.cases = [
    attrs.evolve(case, clause="Part 1, 1.5")
    if re.search(r"-(?:symbolic|symbolic-sym32|wide-descriptor|wide-forms)$", case.id)
    else case
    for case in chapter.cases
]
