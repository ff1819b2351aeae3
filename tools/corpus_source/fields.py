"""Every field of every composite, in every type, right and wrong: Parts 3 and 4, and 2.8.14."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from corpus_source._forms import encodings, smallest
from corpus_source._write import Chapter
from corpus_source.bounds import SAMPLES

_ORIGIN = "generated from the definitions of Parts 2 to 4"
messages = Chapter("message", _ORIGIN)
composites = Chapter("composite", _ORIGIN)

BODY = "005375a00178"
TYPED_BODY = ["data", "78"]
NULL = ["null"]
_ID = ("ulong", "uuid", "binary", "string")
#: A value of every type that a field can be given: primitive ones, and compound ones.
VALUES: dict[str, Any] = {
    **{kind: samples[0] for kind, samples in SAMPLES.items() if kind != "null"},
    "list": ["list", []],
    "map": ["map", []],
    "described": ["described", ["ulong", 0x1234], NULL],
}
#: A section: clause, code, then clause, name and types of its fields.
SECTIONS: dict[str, tuple[int, tuple[tuple[str, str, tuple[str, ...]], ...]]] = {
    "header": (
        0x70,
        (
            ("3.2.1", "durable", ("boolean",)),
            ("3.2.1", "priority", ("ubyte",)),
            ("3.2.1", "ttl", ("uint",)),
            ("3.2.1", "first-acquirer", ("boolean",)),
            ("3.2.1", "delivery-count", ("uint",)),
        ),
    ),
    "properties": (
        0x73,
        (
            ("3.2.4", "message-id", _ID),
            ("3.2.4", "user-id", ("binary",)),
            ("3.2.15", "to", ("string",)),
            ("3.2.4", "subject", ("string",)),
            ("3.2.15", "reply-to", ("string",)),
            ("3.2.4", "correlation-id", _ID),
            ("3.2.4", "content-type", ("symbol",)),
            ("3.2.4", "content-encoding", ("symbol",)),
            ("3.2.4", "absolute-expiry-time", ("timestamp",)),
            ("3.2.4", "creation-time", ("timestamp",)),
            ("3.2.4", "group-id", ("string",)),
            ("3.2.4", "group-sequence", ("uint",)),
            ("3.2.4", "reply-to-group-id", ("string",)),
        ),
    ),
}


def list_of(items: Iterable[str], wide: bool = False) -> str:
    """A list of encoded items, in hex."""
    found = list(items)
    octets = "".join(found)
    if wide:
        return f"d0{len(octets) // 2 + 4:08x}{len(found):08x}{octets}"
    return f"c0{len(octets) // 2 + 1:02x}{len(found):02x}{octets}" if found else "45"


for section, (code, rows) in SECTIONS.items():
    head = f"0053{code:02x}"
    for place, (clause, name, types) in enumerate(rows):
        messages.at(f"Part 3, {clause}")
        nulls = ["40"] * place
        for kind, samples in SAMPLES.items():
            if kind == "null":
                continue
            right = kind in types
            for number, sample in enumerate(samples if right else samples[:1]):
                if right and name == "content-type":
                    sample = ["symbol", "text/plain"]  # noqa: PLW2901 - a type of content
                if right and name == "content-encoding":
                    sample = ["symbol", "gzip"]  # noqa: PLW2901 - one that there is
                typed = [[section, [*[NULL] * place, sample]], TYPED_BODY]
                if not right:
                    messages.irregular(
                        f"{section}-{name}-of-{kind}",
                        head + list_of([*nulls, smallest(sample)]) + BODY,
                        typed,
                        "field-type",
                        6 + place,
                    )
                    continue
                if number > 3 or len(smallest(sample)) > 480:
                    continue
                compact = head + list_of([*nulls, smallest(sample)]) + BODY
                for form, octets in encodings(sample):
                    for wide in (False, True):
                        messages.says(
                            f"{section}-{name}-{number}-{form}{'-in-list32' if wide else ''}",
                            head + list_of([*nulls, octets], wide) + BODY,
                            typed,
                            compact=compact,
                        )
        for kind in ("list", "map", "described"):
            messages.irregular(
                f"{section}-{name}-of-{kind}",
                head + list_of([*nulls, smallest(VALUES[kind])]) + BODY,
                [[section, [*[NULL] * place, VALUES[kind]]], TYPED_BODY],
                "field-type",
                6 + place,
            )

# Maps: every type as a value, and as a key.
for section, code, clause in (
    ("delivery-annotations", 0x71, "3.2.2"),
    ("message-annotations", 0x72, "3.2.3"),
    ("application-properties", 0x74, "3.2.5"),
    ("footer", 0x78, "3.2.9"),
):
    messages.at(f"Part 3, {clause}")
    simple = section == "application-properties"
    key = ["string", "k"] if simple else ["symbol", "x-opt-k"]
    for kind, value in VALUES.items():
        for form, octets in encodings(value):
            first = smallest(value)
            pair = smallest(key)
            behind = code == 0x78
            data = f"0053{code:02x}c1{(len(pair) + len(octets)) // 2 + 1:02x}02{pair}{octets}"
            short = f"0053{code:02x}c1{(len(pair) + len(first)) // 2 + 1:02x}02{pair}{first}"
            typed = [section, [[key, value]]]
            if simple and kind in ("list", "map", "described"):
                continue
            messages.says(
                f"{section}-value-{form}",
                BODY + data if behind else data + BODY,
                [TYPED_BODY, typed] if behind else [typed, TYPED_BODY],
                compact=BODY + short if behind else short + BODY,
            )

messages.at("Part 3, 3.2.8")
for value in VALUES.values():
    for form, octets in encodings(value):
        messages.says(
            f"amqp-value-{form}",
            f"005377{octets}",
            [["amqp-value", value]],
            compact=f"005377{smallest(value)}",
        )
messages.at("Part 3, 3.2.7")
for value in VALUES.values():
    for form, octets in encodings(value):
        messages.says(
            f"amqp-sequence-of-{form}",
            "005376" + list_of([octets, octets]),
            [["amqp-sequence", [value, value]]],
            compact="005376" + list_of([smallest(value)] * 2),
        )

# What stands in links and dispositions: clause, code, and the fields' names and types. A type that
# is a word of its own has restricted values; "multiple" may be an array.
_OUTCOMES = ("described",)
COMPOSITES: dict[str, tuple[str, int, tuple[tuple[str, tuple[str, ...]], ...]]] = {
    "error": (
        "Part 2, 2.8.14",
        0x1D,
        (("condition", ("symbol",)), ("description", ("string",)), ("info", ("map",))),
    ),
    "received": (
        "Part 3, 3.4.1",
        0x23,
        (("section-number", ("uint",)), ("section-offset", ("ulong",))),
    ),
    "rejected": ("Part 3, 3.4.3", 0x25, (("error", ("described",)),)),
    "modified": (
        "Part 3, 3.4.5",
        0x27,
        (
            ("delivery-failed", ("boolean",)),
            ("undeliverable-here", ("boolean",)),
            ("message-annotations", ("map",)),
        ),
    ),
    "source": (
        "Part 3, 3.5.3",
        0x28,
        (
            ("address", ("*",)),
            ("durable", ("uint",)),
            ("expiry-policy", ("symbol",)),
            ("timeout", ("uint",)),
            ("dynamic", ("boolean",)),
            ("dynamic-node-properties", ("map",)),
            ("distribution-mode", ("symbol",)),
            ("filter", ("map",)),
            ("default-outcome", ("described",)),
            ("outcomes", ("symbol",)),
            ("capabilities", ("symbol",)),
        ),
    ),
    "target": (
        "Part 3, 3.5.4",
        0x29,
        (
            ("address", ("*",)),
            ("durable", ("uint",)),
            ("expiry-policy", ("symbol",)),
            ("timeout", ("uint",)),
            ("dynamic", ("boolean",)),
            ("dynamic-node-properties", ("map",)),
            ("capabilities", ("symbol",)),
        ),
    ),
}
_MANDATORY: dict[str, list[str]] = {"error": ["a30161"], "received": ["43", "44"]}
_TYPED_MANDATORY: dict[str, list[Any]] = {
    "error": [["symbol", "a"]],
    "received": [["uint", 0], ["ulong", 0]],
}
_WORDS = {
    "expiry-policy": ["link-detach", "session-end", "connection-close", "never"],
    "distribution-mode": ["move", "copy"],
    "outcomes": ["amqp:accepted:list", "amqp:released:list"],
    "capabilities": ["queue", "topic"],
    "condition": [
        *("amqp:internal-error", "amqp:not-found", "amqp:unauthorized-access"),
        *("amqp:decode-error", "amqp:resource-limit-exceeded", "amqp:not-allowed"),
        *("amqp:invalid-field", "amqp:not-implemented", "amqp:resource-locked"),
        *("amqp:precondition-failed", "amqp:resource-deleted", "amqp:illegal-state"),
        *("amqp:frame-size-too-small", "x:own"),
    ],
}
_SESSION_END = {"expiry-policy": "session-end"}
_RANGES: dict[str, list[Any]] = {"durable": [["uint", 1], ["uint", 2]]}


def _fields(name: str, place: int, typed: Any, octets: str) -> tuple[list[Any], list[str]]:
    """Return the fields of a composite with one at a place, typed and in hex."""
    have = list(_TYPED_MANDATORY.get(name, []))
    coded = list(_MANDATORY.get(name, []))
    while len(have) <= place:
        have.append(NULL)
        coded.append("40")
    have[place], coded[place] = typed, octets
    return have, coded


for name, (clause, code, fields) in COMPOSITES.items():
    composites.at(clause)
    head = f"0053{code:02x}"
    for place, (field, types) in enumerate(fields):
        if field == "address":
            continue  # any value is one
        samples = [["symbol", word] for word in _WORDS.get(field, [])] or _RANGES.get(field, [])
        if not samples and types[0] in SAMPLES:
            samples = SAMPLES[types[0]][:5]
        for number, value in enumerate(samples):
            if value[1] is False or _SESSION_END.get(field) == value[1] or value == ["uint", 0]:
                continue  # a default, which is left out
            for form, octets in encodings(value):
                typed, coded = _fields(name, place, value, octets)
                _, least = _fields(name, place, value, smallest(value))
                composites.says(
                    f"{name}-{field}-{number}-{form}",
                    head + list_of(coded),
                    ["described", ["ulong", code], ["list", typed]],
                    compact=head + list_of(least),
                )
                composites.says(
                    f"{name}-{field}-{number}-{form}-in-list32",
                    head + list_of(coded, wide=True),
                    ["described", ["ulong", code], ["list", typed]],
                    compact=head + list_of(least),
                )
        for kind, value in VALUES.items():
            if kind in types:
                continue
            typed, coded = _fields(name, place, value, smallest(value))
            offset = 6 + sum(len(one) // 2 for one in coded[:place])
            composites.irregular(
                f"{name}-{field}-of-{kind}",
                head + list_of(coded),
                ["described", ["ulong", code], ["list", typed]],
                "field-type",
                offset,
            )
