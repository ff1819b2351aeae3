"""Messages whose sections hold what they must not: Part 3, 3.2.1 to 3.2.10."""

import re
from typing import Any

from corpus_source._write import Chapter, list8, map8, string, sym

chapter = Chapter("message")
at, says, irregular = chapter.at, chapter.says, chapter.irregular
refused = chapter.refused

BODY = " 00 53 75 a0 01 'x'"
TYPED_BODY = ["data", "78"]
NULL = ["null"]
typed: Any

at("Part 3, 3.2.1")
irregular(
    "header-six-fields",
    "00 53 70 " + list8(6, "40" * 6) + BODY,
    [["header", [NULL] * 6], TYPED_BODY],
    "too-many-fields",
    3,
)
for name, place, value, typed in (
    ("durable-as-ubyte", 0, "50 01", ["ubyte", 1]),
    ("priority-as-uint", 1, "52 04", ["uint", 4]),
    ("ttl-as-ulong", 2, "53 05", ["ulong", 5]),
    ("ttl-as-int", 2, "54 ff", ["int", -1]),
    ("first-acquirer-as-string", 3, "a1 04 'true'", ["string", "true"]),
    ("delivery-count-as-ubyte", 4, "50 00", ["ubyte", 0]),
):
    irregular(
        f"header-{name}",
        "00 53 70 " + list8(place + 1, "40" * place + value) + BODY,
        [["header", [*[NULL] * place, typed]], TYPED_BODY],
        "field-type",
        6 + place,
    )

at("Part 3, 3.2.4")
irregular(
    "properties-fourteen-fields",
    "00 53 73 " + list8(14, "40" * 14) + BODY,
    [["properties", [NULL] * 14], TYPED_BODY],
    "too-many-fields",
    3,
)
for clause, name, place, value, typed in (
    ("3.2.11", "message-id-as-uint", 0, "52 01", ["uint", 1]),
    ("3.2.11", "message-id-as-long", 0, "55 01", ["long", 1]),
    ("3.2.14", "message-id-as-symbol", 0, "a3 01 'i'", ["symbol", "i"]),
    ("3.2.13", "correlation-id-as-list", 5, "45", ["list", []]),
    ("3.2.4", "user-id-as-string", 1, "a1 05 'guest'", ["string", "guest"]),
    ("3.2.15", "to-as-symbol", 2, "a3 01 'q'", ["symbol", "q"]),
    ("3.2.15", "reply-to-as-binary", 4, "a0 01 'q'", ["binary", "71"]),
    ("3.2.4", "subject-as-symbol", 3, "a3 01 's'", ["symbol", "s"]),
    ("3.2.4", "content-type-as-string", 6, "a1 0a 'text/plain'", ["string", "text/plain"]),
    ("3.2.4", "content-encoding-as-string", 7, "a1 04 'gzip'", ["string", "gzip"]),
    ("3.2.4", "absolute-expiry-time-as-ulong", 8, "53 01", ["ulong", 1]),
    ("3.2.4", "creation-time-as-long", 9, "55 01", ["long", 1]),
    ("3.2.4", "group-id-as-uint", 10, "43", ["uint", 0]),
    ("3.2.4", "group-sequence-as-ulong", 11, "44", ["ulong", 0]),
    ("3.2.4", "reply-to-group-id-as-symbol", 12, "a3 01 'g'", ["symbol", "g"]),
    (
        "3.2.4",
        "subject-described",
        3,
        "00 53 01 a1 01 's'",
        ["described", ["ulong", 1], ["string", "s"]],
    ),
):
    at(f"Part 3, {clause}")
    irregular(
        f"properties-{name}",
        "00 53 73 " + list8(place + 1, "40" * place + value) + BODY,
        [["properties", [*[NULL] * place, typed]], TYPED_BODY],
        "field-type",
        6 + place,
    )

at("Part 3, 3.2.4")


def content(
    name: str, place: int, text: str, breaks: str, note: str = "", *, body: str = "data"
) -> None:
    """Add a message with a content-type (6) or content-encoding (7) and a body of some kind."""
    bodies = {
        "data": (BODY, ["data", "78"]),
        "amqp-value": (" 00 53 77 41", ["amqp-value", ["boolean", True]]),
        "amqp-sequence": (" 00 53 76 45", ["amqp-sequence", []]),
    }
    octets, typed = bodies[body]
    # All of them are found in the field.
    placed = ", ".join(re.sub(r"^([\w-]+)", rf"\1@{6 + place}", one) for one in breaks.split(", "))
    says(
        name,
        "00 53 73 " + list8(place + 1, "40" * place + sym(text)) + octets,
        [["properties", [*[NULL] * place, ["symbol", text]]], typed],
        note,
        breaks=placed,
    )


content("content-type-not-mime", 6, "text", "content-type-not-mime (warning)")
content("content-type-empty", 6, "", "content-type-not-mime (warning)")
content("content-type-two", 6, "text/plain, text/html", "content-type-not-mime (warning)")
content(
    "content-type-with-value",
    6,
    "text/plain",
    "content-type-without-data (warning)",
    body="amqp-value",
)
content(
    "content-type-with-sequence",
    6,
    "application/json",
    "content-type-without-data (warning)",
    body="amqp-sequence",
)
content(
    "content-encoding-with-value",
    7,
    "gzip",
    "content-encoding-without-data",
    body="amqp-value",
)
content(
    "content-encoding-with-sequence",
    7,
    "gzip",
    "content-encoding-without-data",
    body="amqp-sequence",
)
content("content-encoding-identity", 7, "identity", "content-encoding-identity")
content(
    "content-encoding-identity-upper-case",
    7,
    "Identity",
    "content-encoding-identity",
    "RFC 2616, 3.5: content-coding values are case-insensitive",
)
content("content-encoding-compress", 7, "compress", "content-encoding-compress (warning)")
content("content-encoding-two", 7, "gzip, deflate", "content-encoding-multiple (warning)")
content("content-encoding-gzip", 7, "gzip", "")
content(
    "content-encoding-unregistered",
    7,
    "rot13",
    "content-encoding-unregistered (warning)",
)
content(
    "content-encoding-three-faults",
    7,
    "identity,compress,rot13",
    "content-encoding-identity, content-encoding-compress (warning), "
    "content-encoding-multiple (warning), content-encoding-unregistered (warning)",
)

at("Part 3, 3.2.5")
for name, key, typed in (
    ("symbol", "a3 01 'k'", ["symbol", "k"]),
    ("null", "40", NULL),
    ("int", "54 01", ["int", 1]),
    ("described", "00 53 01 a1 01 'k'", ["described", ["ulong", 1], ["string", "k"]]),
):
    irregular(
        f"application-properties-key-{name}",
        "00 53 74 " + map8(2, f"{key} 41") + BODY,
        [["application-properties", [[typed, ["boolean", True]]]], TYPED_BODY],
        "application-properties-key-type",
        6,
    )
for name, value, typed in (
    ("list", "c0 02 01 41", ["list", [["boolean", True]]]),
    ("list0", "45", ["list", []]),
    ("map", "c1 01 00", ["map", []]),
    ("array", "e0 02 00 50", ["array", "50", []]),
    ("described-list", "00 53 01 45", ["described", ["ulong", 1], ["list", []]]),
):
    irregular(
        f"application-properties-value-{name}",
        "00 53 74 " + map8(2, f"a1 01 'k' {value}") + BODY,
        [["application-properties", [[["string", "k"], typed]]], TYPED_BODY],
        "application-properties-value-not-simple",
        9,
    )

at("Part 3, 3.2.10")
for code, name in ((0x71, "delivery-annotations"), (0x72, "message-annotations"), (0x78, "footer")):
    section = f"00 53 {code:02x} "
    before, behind = (BODY.strip() + " ", "") if name == "footer" else ("", BODY)
    first = 6 if before else 0

    def typed_message(
        *pairs: object, name: str = name, footer: bool = bool(before)
    ) -> list[object]:
        """Return the annotations beside the body, in the order of the wire."""
        mine: list[object] = [name, [*pairs]]
        return [TYPED_BODY, mine] if footer else [mine, TYPED_BODY]

    for kind, key, typed in (
        ("string", "a1 07 'x-opt-a'", ["string", "x-opt-a"]),
        ("null", "40", NULL),
        ("uint", "52 01", ["uint", 1]),
    ):
        irregular(
            f"{name}-key-{kind}",
            before + section + map8(2, f"{key} 41") + behind,
            typed_message([typed, ["boolean", True]]),
            f"{name}-key-type",
            first + 6,
        )
    says(
        f"{name}-key-ulong",
        before + section + map8(2, "53 01 41") + behind,
        typed_message([["ulong", 1], ["boolean", True]]),
        "all ulong keys are reserved",
        breaks=f"annotation-key-reserved@{first + 6} (warning)",
    )
    says(
        f"{name}-key-reserved",
        before + section + map8(2, sym("priority") + "41") + behind,
        typed_message([["symbol", "priority"], ["boolean", True]]),
        "symbols that do not begin with x- are reserved",
        breaks=f"annotation-key-reserved@{first + 6} (warning)",
    )
    says(
        f"{name}-key-upper-case",
        before + section + map8(2, sym("X-opt-a") + "41") + behind,
        typed_message([["symbol", "X-opt-a"], ["boolean", True]]),
        "X- is not x-",
        breaks=f"annotation-key-reserved@{first + 6} (warning)",
    )

at("Part 3, 3.2.2")
for name, value, typed in (
    ("string", "a1 02 'no'", ["string", "no"]),
    ("accepted", "00 53 24 45", ["described", ["ulong", 0x24], ["list", []]]),
    ("error-without-condition", "00 53 1d 45", ["described", ["ulong", 0x1D], ["list", []]]),
):
    says(
        f"delivery-annotations-rejected-{name}",
        "00 53 71 " + map8(2, sym("rejected") + value) + BODY,
        [["delivery-annotations", [[["symbol", "rejected"], typed]]], TYPED_BODY],
        breaks="delivery-annotations-rejected-type@16",
    )
at("Part 3, 3.2.3")
says(
    "message-annotations-rejected",
    "00 53 72 " + map8(2, sym("rejected") + "41") + BODY,
    [["message-annotations", [[["symbol", "rejected"], ["boolean", True]]]], TYPED_BODY],
    "the key is given out for delivery annotations only",
    breaks="annotation-key-reserved@6 (warning)",
)

# What RabbitMQ 4 refuses, or accepts and cannot deliver, of what the specification allows.
rabbitmq = "rabbitmq-4"
at("Part 3, 3.2.3")
says(
    "rabbitmq-annotation-null",
    "00 53 72 " + map8(2, sym("x-opt-a") + "40") + BODY,
    [["message-annotations", [[["symbol", "x-opt-a"], NULL]]], TYPED_BODY],
    "accepted, and ends the consumers' sessions",
    breaks="rabbitmq-annotation-null@15",
    profile=rabbitmq,
)
says(
    "rabbitmq-annotation-nan",
    "00 53 72 " + map8(2, sym("x-opt-a") + "82 7ff8000000000000") + BODY,
    [
        ["message-annotations", [[["symbol", "x-opt-a"], ["double", "7ff8000000000000"]]]],
        TYPED_BODY,
    ],
    breaks="rabbitmq-annotation-number@15 (warning)",
    profile=rabbitmq,
)
says(
    "rabbitmq-annotation-array-of-smallint",
    "00 53 72 " + map8(2, sym("x-opt-a") + "e0 04 02 54 0102") + BODY,
    [
        [
            "message-annotations",
            [[["symbol", "x-opt-a"], ["array", "54", [["int", 1], ["int", 2]]]]],
        ],
        TYPED_BODY,
    ],
    breaks="rabbitmq-array-constructor@15",
    profile=rabbitmq,
)
says(
    "rabbitmq-annotation-key-reserved",
    "00 53 72 " + map8(2, sym("priority") + "41") + BODY,
    [["message-annotations", [[["symbol", "priority"], ["boolean", True]]]], TYPED_BODY],
    breaks="annotation-key-reserved@6",
    profile=rabbitmq,
)
at("Part 3, 3.2.5")
says(
    "rabbitmq-described-value",
    "00 53 74 " + map8(2, string("u") + "00 a3 03 'url' a1 01 'x'") + BODY,
    [
        [
            "application-properties",
            [[["string", "u"], ["described", ["symbol", "url"], ["string", "x"]]]],
        ],
        TYPED_BODY,
    ],
    breaks="rabbitmq-described-value@9",
    profile=rabbitmq,
)
at("Part 3, 3.2.4")
says(
    "rabbitmq-user-id-empty",
    "00 53 73 c0 04 02 40 a0 00" + BODY,
    [["properties", [NULL, ["binary", ""]]], TYPED_BODY],
    breaks="rabbitmq-user-id-empty@7",
    profile=rabbitmq,
)
at("Part 3, 3.2")
says(
    "azure-no-body",
    "00 53 70 45",
    [["header", []]],
    "usual at Azure Service Bus and Event Hubs",
    profile="azure",
)

# Both of these end a process of a peer that reads them and writes them again.
at("Part 3, 3.2.8")
refused(
    "value-array32-count-exceeds-size",
    "00 53 77 f0 00000006 00000002 50 01",
    "count-exceeds-size",
    12,
    "two elements of a byte each, and one byte",
    breaks="count-exceeds-size",
)
at("Part 3, 3.2.3")
says(
    "message-annotations-empty-array-of-described",
    "00 53 72 c1 28 02 a3 13 'x-opt-enqueued-time' "
    "e0 10 00 00 a3 01 7d 00 80 0000052a9805e560 b1" + BODY,
    [
        [
            "message-annotations",
            [
                [
                    ["symbol", "x-opt-enqueued-time"],
                    ["array", "b1", [], [["symbol", "}"], ["ulong", 5680497288544]]],
                ]
            ],
        ],
        TYPED_BODY,
    ],
    "no element, and a constructor with two descriptors",
)
