"""Delivery states, termini and what stands in them: Part 3, 3.4 and 3.5; Part 4."""

from typing import Any

from corpus_source._write import Chapter, list8, list32, map8, string, sym

chapter = Chapter("composite")
at, says, irregular, refused = chapter.at, chapter.says, chapter.irregular, chapter.refused


def composite(code: int, *fields: Any) -> list[Any]:
    """A composite in typed JSON."""
    return ["described", ["ulong", code], ["list", [*fields]]]


NULL = ["null"]
TRUE = ["boolean", True]

at("Part 3, 3.4.1")
says("received-0-0", "00 53 23 c0 03 02 43 44", composite(0x23, ["uint", 0], ["ulong", 0]))
says(
    "received",
    "00 53 23 " + list8(2, "52 02 80 0000000100000000"),
    composite(0x23, ["uint", 2], ["ulong", 4294967296]),
)
says(
    "received-wide-forms",
    "00 80 0000000000000023 " + list32(2, "70 00000001 80 0000000000000002"),
    composite(0x23, ["uint", 1], ["ulong", 2]),
    compact="00 53 23 c0 05 02 52 01 53 02",
)
says(
    "received-symbolic",
    "00 a3 12 'amqp:received:list' c0 03 02 43 44",
    composite(0x23, ["uint", 0], ["ulong", 0]),
    compact="00 53 23 c0 03 02 43 44",
)
U0, UL0 = ["uint", 0], ["ulong", 0]
irregular("received-empty", "00 53 23 45", composite(0x23), "mandatory-field-missing", 3)
for name, coded, fields, rule, offset in (
    ("offset-missing", "c0 02 01 43", (U0,), "mandatory-field-missing", 3),
    ("number-null", "c0 03 02 40 44", (NULL, UL0), "mandatory-field-missing", 3),
    ("number-as-ulong", "c0 03 02 44 44", (UL0, UL0), "field-type", 6),
    ("three-fields", "c0 04 03 43 44 40", (U0, UL0, NULL), "too-many-fields", 3),
):
    irregular(f"received-{name}", "00 53 23 " + coded, composite(0x23, *fields), rule, offset)

at("Part 3, 3.4.2")
says("accepted", "00 53 24 45", composite(0x24))
says("accepted-list8", "00 53 24 c0 01 00", composite(0x24), compact="00 53 24 45")
says("accepted-list32", "00 53 24 d0 00000004 00000000", composite(0x24), compact="00 53 24 45")
says("accepted-ulong", "00 80 0000000000000024 45", composite(0x24), compact="00 53 24 45")
says(
    "accepted-symbolic",
    "00 a3 12 'amqp:accepted:list' 45",
    composite(0x24),
    compact="00 53 24 45",
)
says(
    "accepted-sym32",
    "00 b3 00000012 'amqp:accepted:list' 45",
    composite(0x24),
    compact="00 53 24 45",
)
irregular(
    "accepted-as-map",
    "00 53 24 c1 01 00",
    ["described", ["ulong", 0x24], ["map", []]],
    "section-value-type",
    3,
)
irregular(
    "accepted-with-field", "00 53 24 c0 02 01 41", composite(0x24, TRUE), "too-many-fields", 3
)

at("Part 3, 3.4.3")
says("rejected", "00 53 25 45", composite(0x25))
says("rejected-null", "00 53 25 c0 02 01 40", composite(0x25), compact="00 53 25 45")
not_found = list8(1, sym("amqp:not-found"))
says(
    "rejected-error",
    "00 53 25 " + list8(1, "00 53 1d " + not_found),
    composite(0x25, composite(0x1D, ["symbol", "amqp:not-found"])),
)
full_error = list8(
    3,
    sym("amqp:internal-error") + string("Überlauf") + map8(2, sym("x-code") + "54 07"),
)
says(
    "rejected-error-full",
    "00 53 25 " + list8(1, "00 53 1d " + full_error),
    composite(
        0x25,
        composite(
            0x1D,
            ["symbol", "amqp:internal-error"],
            ["string", "Überlauf"],
            ["map", [[["symbol", "x-code"], ["int", 7]]]],
        ),
    ),
)
irregular(
    "rejected-error-not-described",
    "00 53 25 " + list8(1, "c0 02 01 40"),
    composite(0x25, ["list", [NULL]]),
    "field-type",
    6,
)
irregular(
    "rejected-outcome-as-error",
    "00 53 25 " + list8(1, "00 53 24 45"),
    composite(0x25, composite(0x24)),
    "field-type",
    6,
)

at("Part 3, 3.4.4")
says("released", "00 53 26 45", composite(0x26))
says(
    "released-symbolic",
    "00 a3 12 'amqp:released:list' c0 01 00",
    composite(0x26),
    compact="00 53 26 45",
)

at("Part 3, 3.4.5")
says("modified", "00 53 27 45", composite(0x27))
says("modified-failed", "00 53 27 c0 02 01 41", composite(0x27, TRUE))
says("modified-undeliverable", "00 53 27 c0 03 02 40 41", composite(0x27, NULL, TRUE))
says(
    "modified-false-false",
    "00 53 27 c0 03 02 42 42",
    composite(0x27),
    "what null says",
    compact="00 53 27 45",
)
says(
    "modified-octets",
    "00 53 27 c0 05 02 56 01 56 00",
    composite(0x27, TRUE),
    compact="00 53 27 c0 02 01 41",
)
says(
    "modified-annotations",
    "00 53 27 " + list8(3, "41 41 " + map8(2, sym("x-opt-reason") + string("retry"))),
    composite(0x27, TRUE, TRUE, ["map", [[["symbol", "x-opt-reason"], ["string", "retry"]]]]),
)
irregular("modified-failed-as-uint", "00 53 27 c0 02 01 43", composite(0x27, U0), "field-type", 6)
irregular(
    "modified-annotations-as-list",
    "00 53 27 c0 04 03 40 40 45",
    composite(0x27, NULL, NULL, ["list", []]),
    "field-type",
    8,
)

at("Part 2, 2.8.14")
says("error", "00 53 1d " + not_found, composite(0x1D, ["symbol", "amqp:not-found"]))
says(
    "error-symbolic",
    "00 a3 0f 'amqp:error:list' " + not_found,
    composite(0x1D, ["symbol", "amqp:not-found"]),
    compact="00 53 1d " + not_found,
)
irregular("error-empty", "00 53 1d 45", composite(0x1D), "mandatory-field-missing", 3)
irregular(
    "error-condition-as-string",
    "00 53 1d " + list8(1, string("amqp:x")),
    composite(0x1D, ["string", "amqp:x"]),
    "field-type",
    6,
)

at("Part 3, 3.5.3")
says("source-minimal", "00 53 28 45", composite(0x28))
says("source-address", "00 53 28 " + list8(1, string("q")), composite(0x28, ["string", "q"]))
says(
    "source-symbolic",
    "00 a3 10 'amqp:source:list' 45",
    composite(0x28),
    compact="00 53 28 45",
)
says(
    "source-defaults-spelled-out",
    "00 53 28 " + list8(5, "40 43 " + sym("session-end") + "43 42"),
    composite(0x28),
    "durable none, expiry session-end, timeout 0, not dynamic",
    compact="00 53 28 45",
)
says(
    "source-full",
    "00 53 28 "
    + list8(
        11,
        string("/queues/orders")
        + "52 02"
        + sym("never")
        + "52 3c"
        + "40 40"
        + sym("copy")
        + map8(
            2,
            sym("selector") + "00 80 0000468c00000004 " + string('colour = "red"'),
        )
        + "00 53 26 45"
        + "e0 28 02 a3 12 'amqp:accepted:list' 12 'amqp:rejected:list' "
        + sym("queue"),
    ),
    composite(
        0x28,
        ["string", "/queues/orders"],
        ["uint", 2],
        ["symbol", "never"],
        ["uint", 60],
        NULL,
        NULL,
        ["symbol", "copy"],
        [
            "map",
            [
                [
                    ["symbol", "selector"],
                    ["described", ["ulong", 0x468C00000004], ["string", 'colour = "red"']],
                ]
            ],
        ],
        composite(0x26),
        ["array", "a3", [["symbol", "amqp:accepted:list"], ["symbol", "amqp:rejected:list"]]],
        ["symbol", "queue"],
    ),
)
says(
    "source-outcomes-one-in-array",
    "00 53 28 " + list8(10, "40" * 9 + "e0 15 01 a3 12 'amqp:accepted:list'"),
    composite(0x28, *[NULL] * 9, ["symbol", "amqp:accepted:list"]),
    "multiple: an array of one and the one say the same",
    compact="00 53 28 " + list8(10, "40" * 9 + sym("amqp:accepted:list")),
)
says(
    "source-capabilities-empty-array",
    "00 53 28 " + list8(11, "40" * 10 + "e0 02 00 a3"),
    composite(0x28),
    "multiple: an empty array and null say the same",
    compact="00 53 28 45",
)
says(
    "source-filter-null",
    "00 53 28 " + list8(8, "40" * 7 + map8(2, sym("f") + "40")),
    composite(0x28, *[NULL] * 7, ["map", [[["symbol", "f"], NULL]]]),
    "a filter that lets everything pass",
)
says(
    "source-dynamic",
    "00 53 28 "
    + list8(
        6,
        "40 40 40 40 41 " + map8(2, sym("lifetime-policy") + "00 53 2b 45"),
    ),
    composite(
        0x28,
        *[NULL] * 4,
        TRUE,
        ["map", [[["symbol", "lifetime-policy"], composite(0x2B)]]],
    ),
)
says(
    "source-distribution-mode-extension",
    "00 53 28 " + list8(7, "40" * 6 + sym("x-mode")),
    composite(0x28, *[NULL] * 6, ["symbol", "x-mode"]),
    "std-dist-mode is one provider of the archetype, not the only one",
)
for name, place, coded, value, offset, note in (
    ("durable-3", 1, "52 03", ["uint", 3], 7, "no terminus-durability"),
    ("expiry-policy-unknown", 2, sym("later"), ["symbol", "later"], 8, ""),
    ("expiry-policy-string", 2, string("never"), ["string", "never"], 8, ""),
    ("default-outcome-not-described", 8, "45", ["list", []], 14, ""),
    (
        *("outcomes-array-of-string", 9, "e0 04 01 a1 01 'x'"),
        *(["array", "a1", [["string", "x"]]], 15, ""),
    ),
):
    irregular(
        f"source-{name}",
        "00 53 28 " + list8(place + 1, "40" * place + coded),
        composite(0x28, *[NULL] * place, value),
        "field-type",
        offset,
        note,
    )
irregular(
    "source-twelve-fields",
    "00 53 28 " + list8(12, "40" * 12),
    composite(0x28, *[NULL] * 12),
    "too-many-fields",
    3,
)

at("Part 3, 3.5.4")
says("target-minimal", "00 53 29 45", composite(0x29))
says(
    "target-full",
    "00 53 29 "
    + list8(
        7,
        string("t")
        + "52 01"
        + sym("connection-close")
        + "70 00015180 42 40"
        + "e0 08 02 a3 02 'ab' 02 'cd'",
    ),
    composite(
        0x29,
        ["string", "t"],
        ["uint", 1],
        ["symbol", "connection-close"],
        ["uint", 86400],
        NULL,
        NULL,
        ["array", "a3", [["symbol", "ab"], ["symbol", "cd"]]],
    ),
    compact="00 53 29 "
    + list8(
        7,
        string("t")
        + "52 01"
        + sym("connection-close")
        + "70 00015180 40 40"
        + "e0 08 02 a3 02 'ab' 02 'cd'",
    ),
)
says(
    "target-symbolic",
    "00 a3 10 'amqp:target:list' c0 01 00",
    composite(0x29),
    compact="00 53 29 45",
)
irregular(
    "target-timeout-negative",
    "00 53 29 " + list8(4, "40 40 40 54 ff"),
    composite(0x29, NULL, NULL, NULL, ["int", -1]),
    "field-type",
    9,
)
irregular(
    "target-eight-fields",
    "00 53 29 " + list8(8, "40" * 8),
    composite(0x29, *[NULL] * 8),
    "too-many-fields",
    3,
)

for clause, name, code in (
    ("3.5.10", "delete-on-close", 0x2B),
    ("3.5.11", "delete-on-no-links", 0x2C),
    ("3.5.12", "delete-on-no-messages", 0x2D),
    ("3.5.13", "delete-on-no-links-or-messages", 0x2E),
):
    at(f"Part 3, {clause}")
    compact = f"00 53 {code:02x} 45"
    says(name, compact, composite(code))
    says(
        f"{name}-symbolic",
        f"00 {sym(f'amqp:{name}:list')} c0 01 00",
        composite(code),
        compact=compact,
    )

at("Part 4, 4.5.1")
says("coordinator", "00 53 30 45", composite(0x30))
says(
    "coordinator-capability",
    "00 53 30 " + list8(1, sym("amqp:local-transactions")),
    composite(0x30, ["symbol", "amqp:local-transactions"]),
)
at("Part 4, 4.5.2")
says("declare", "00 53 31 45", composite(0x31))
at("Part 4, 4.5.3")
says("discharge", "00 53 32 c0 04 01 a0 01 07", composite(0x32, ["binary", "07"]))
says("discharge-fail", "00 53 32 c0 05 02 a0 01 07 41", composite(0x32, ["binary", "07"], TRUE))
irregular(
    "discharge-without-transaction", "00 53 32 45", composite(0x32), "mandatory-field-missing", 3
)
at("Part 4, 4.5.5")
says("declared", "00 53 33 c0 04 01 a0 01 07", composite(0x33, ["binary", "07"]))
at("Part 4, 4.5.8")
says(
    "transactional-state",
    "00 53 34 c0 08 02 a0 01 07 00 53 24 45",
    composite(0x34, ["binary", "07"], composite(0x24)),
)
irregular("transactional-state-empty", "00 53 34 45", composite(0x34), "mandatory-field-missing", 3)

at("Part 1, 1.4")
irregular("composite-not-described", "45", ["list", []], "not-a-composite", 0)
for name, coded, descriptor in (
    ("unknown", "53 7f", ["ulong", 0x7F]),
    ("uint-descriptor", "52 24", ["uint", 0x24]),
    ("string-descriptor", "a1 12 'amqp:accepted:list'", ["string", "amqp:accepted:list"]),
):
    irregular(
        f"composite-{name}",
        f"00 {coded} 45",
        ["described", descriptor, ["list", []]],
        "unknown-composite",
        0,
        "a descriptor is a ulong or a symbol" if name != "unknown" else "",
    )
refused("composite-list-truncated", "00 53 27 c0 05 02 41 41", "truncated", 5)
