"""Translations by the profile lossless, which this project's table of correspondences defines."""

from __future__ import annotations

from typing import Any

from amqp10msg.interop.corpus import Case
from corpus_source._forms import smallest
from corpus_source.fields_of_basic import PROPERTIES, short, table
from corpus_source.filters import pairs, string, symbol

cases: list[Case] = []

NULL, TRUE, FALSE = ["null"], ["boolean", True], ["boolean", False]
_FORMS = dict(PROPERTIES)
_CODES = {"header": 0x70, "message-annotations": 0x72, "properties": 0x73}
_CODES["application-properties"] = 0x74
#: Places of the fields of properties.
_PLACES = {
    "message-id": 0,
    "user-id": 1,
    "to": 2,
    "subject": 3,
    "reply-to": 4,
    "correlation-id": 5,
    "content-type": 6,
    "content-encoding": 7,
    "creation-time": 9,
    "group-id": 10,
}


def basic(properties: dict[str, Any]) -> str:
    """Property flags and property list, in hex; headers are names and encoded fields."""
    flags = 0
    octets = ""
    for place, (name, form) in enumerate(PROPERTIES):
        if name not in properties:
            continue
        flags |= 1 << 15 - place
        value = properties[name]
        if form == "text":
            octets += short(value)
        elif form == "table":
            octets += table(*value.items())
        else:
            octets += f"{value:0{2 if form == 'byte' else 16}x}"
    return f"{flags:04x}{octets}"


def section(name: str, content: Any) -> str:
    """A section of fields or of entries, in hex; nothing where there is nothing in it."""
    if not content[1]:
        return ""
    return smallest(["described", ["ulong", _CODES[name]], content])


def fields(named: dict[str, Any]) -> list[Any]:
    """The list of the properties section."""
    row: list[Any] = []
    for name in sorted(named, key=_PLACES.__getitem__):
        row += [NULL] * (_PLACES[name] - len(row))
        row.append(named[name])
    return ["list", row]


def message(
    header: list[Any],
    annotations: dict[str, Any],
    properties: dict[str, Any],
    application: dict[str, Any],
    body: str = "005375a00178",
) -> str:
    """A message in hex."""
    return (
        section("header", ["list", header])
        + section("message-annotations", pairs(symbol, annotations))
        + section("properties", fields(properties))
        + section("application-properties", pairs(string, application))
        + body
    )


def _add(direction: str, name: str, data: str, given: dict[str, Any], answer: Any) -> None:
    cases.append(
        Case(
            id=f"translation-lossless-{direction}-{name}",
            kind="translation",
            data=bytes.fromhex(data),
            given={"profile": "lossless", **given},
            answer=answer,
            clause="Translation, lossless",
            origin="written by hand from the table of correspondences of the profile",
        )
    )


_V = "5300000001" + "76"
#: Of 0-9-1: a name, properties; of 1.0: fields of the header by place, annotations, fields of
#: properties, application properties.
_LOSSLESS: tuple[tuple[str, dict[str, Any], dict[int, Any], Any, Any, Any], ...] = (
    ("none", {}, {}, {}, {}, {}),
    *(
        (name, {name: text}, {}, {}, {field: made}, {})
        for name, text, field, made in (
            ("content-type", "text/plain", "content-type", symbol("text/plain")),
            ("content-encoding", "gzip", "content-encoding", symbol("gzip")),
            ("correlation-id", "c-1", "correlation-id", string("c-1")),
            ("reply-to", "r", "reply-to", string("r")),
            ("message-id", "m-1", "message-id", string("m-1")),
            ("user-id", "u", "user-id", ["binary", "75"]),
            ("timestamp", 1_700_000_000, "creation-time", ["timestamp", 1_700_000_000_000]),
        )
    ),
    *(
        (f"{name}-empty", {name: ""}, {}, {}, {name: string("")}, {})
        for name in ("correlation-id", "reply-to", "message-id")
    ),
    ("timestamp-zero", {"timestamp": 0}, {}, {}, {"creation-time": ["timestamp", 0]}, {}),
    ("delivery-mode-2", {"delivery-mode": 2}, {0: TRUE}, {}, {}, {}),
    (
        *("delivery-mode-1", {"delivery-mode": 1}, {}),
        *({"x-opt-basic-delivery-mode": ["ubyte", 1]}, {}, {}),
    ),
    ("priority", {"priority": 7}, {1: ["ubyte", 7]}, {}, {}, {}),
    ("priority-least", {"priority": 0}, {1: ["ubyte", 0]}, {}, {}, {}),
    ("priority-largest", {"priority": 9}, {1: ["ubyte", 9]}, {}, {}, {}),
    ("expiration", {"expiration": "60000"}, {2: ["uint", 60_000]}, {}, {}, {}),
    ("expiration-zero", {"expiration": "0"}, {2: ["uint", 0]}, {}, {}, {}),
    ("expiration-largest", {"expiration": "4294967295"}, {2: ["uint", 0xFFFFFFFF]}, {}, {}, {}),
    *(
        (name, {name: "t"}, {}, {f"x-opt-basic-{name}": string("t")}, {}, {})
        for name in ("type", "app-id", "cluster-id")
    ),
    ("header-x", {"headers": {"x-k": _V}}, {}, {"x-opt-x-k": string("v")}, {}, {}),
    ("header-x-opt", {"headers": {"x-opt-k": _V}}, {}, {"x-opt-k": string("v")}, {}, {}),
    *(
        (f"header-{name}", {"headers": {"k": field}}, {}, {}, {}, {"k": made})
        for name, field, made in (
            ("string", _V, string("v")),
            ("boolean", "7401", TRUE),
            ("int", "4900000005", ["int", 5]),
            ("long", "6c0000000000000005", ["long", 5]),
            ("short", "730005", ["short", 5]),
            ("byte", "6205", ["byte", 5]),
            ("ubyte", "4205", ["ubyte", 5]),
            ("ushort", "750005", ["ushort", 5]),
            ("uint", "6900000005", ["uint", 5]),
            ("double", "643ff8000000000000", ["double", "3ff8000000000000"]),
            ("float", "663fc00000", ["float", "3fc00000"]),
            ("binary", "780000000200ff", ["binary", "00ff"]),
            ("timestamp", "540000000000000005", ["timestamp", 5_000]),
            ("null", "56", NULL),
            ("string-empty", "5300000000", string("")),
            ("boolean-false", "7400", FALSE),
            ("int-least", "4980000000", ["int", -(2**31)]),
            ("long-least", "6c8000000000000000", ["long", -(2**63)]),
            ("short-least", "738000", ["short", -(2**15)]),
            ("byte-least", "6280", ["byte", -(2**7)]),
            ("ubyte-largest", "42ff", ["ubyte", 0xFF]),
            ("ushort-largest", "75ffff", ["ushort", 0xFFFF]),
            ("uint-largest", "69ffffffff", ["uint", 0xFFFFFFFF]),
            ("binary-empty", "7800000000", ["binary", ""]),
        )
    ),
    (
        *("headers-in-order", {"headers": {"b": "4900000001", "a": "4900000002"}}, {}, {}, {}),
        {"b": ["int", 1], "a": ["int", 2]},
    ),
)
for name, properties, head, kept, row, application in _LOSSLESS:
    # As RabbitMQ 4 delivers: a header section is always there.
    header = [FALSE, NULL, NULL, TRUE, ["uint", 0]]
    for place, value in head.items():
        header[place] = value
    routed = {"x-exchange": string("ex"), "x-routing-key": string("rk")}
    made = message(header, {**kept, **routed}, row, application)
    given = {"basic": basic(properties), "exchange": "ex", "routing_key": "rk"}
    _add("to-1.0", name, "78", given, {"message": made})
    if name in ("delivery-mode-1", "type", "app-id", "cluster-id", "header-x"):
        continue  # these come back only as they went
    plain = [head.get(place, NULL) for place in range(max(head) + 1)] if head else []
    sent = message(plain, kept, row, application)
    answer = {"basic": basic(properties), "body": "78"}
    _add("to-0-9-1", name, sent, {}, answer)
