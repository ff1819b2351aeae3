"""Outcomes, termini and lifetime policies in every encoding, and the rules of termini: 3.4, 3.5."""

from __future__ import annotations

from typing import Any

from amqp10msg.interop.corpus import Case
from corpus_source._forms import encodings, smallest
from corpus_source._write import Chapter
from corpus_source.fields import list_of
from corpus_source.filters import CODES, string, symbol

chapter = Chapter("composite", "generated from the definitions of Parts 3 and 4")
#: What a terminus breaks, by who sends it.
questions: list[Case] = []

NULL = ["null"]
TRUE = ["boolean", True]
SOURCE, TARGET = 0x28, 0x29
#: Name, code, clause, and the fields that must be there.
KINDS: dict[str, tuple[int, str, tuple[Any, ...]]] = {
    "error": (0x1D, "Part 2, 2.8.14", (symbol("amqp:not-found"),)),
    "received": (0x23, "Part 3, 3.4.1", (["uint", 1], ["ulong", 2])),
    "accepted": (0x24, "Part 3, 3.4.2", ()),
    "rejected": (0x25, "Part 3, 3.4.3", ()),
    "released": (0x26, "Part 3, 3.4.4", ()),
    "modified": (0x27, "Part 3, 3.4.5", ()),
    "source": (0x28, "Part 3, 3.5.3", ()),
    "target": (0x29, "Part 3, 3.5.4", ()),
    "delete-on-close": (0x2B, "Part 3, 3.5.10", ()),
    "delete-on-no-links": (0x2C, "Part 3, 3.5.11", ()),
    "delete-on-no-messages": (0x2D, "Part 3, 3.5.12", ()),
    "delete-on-no-links-or-messages": (0x2E, "Part 3, 3.5.13", ()),
    "coordinator": (0x30, "Part 4, 4.5.1", ()),
    "declare": (0x31, "Part 4, 4.5.2", ()),
    "discharge": (0x32, "Part 4, 4.5.3", (["binary", "07"],)),
    "declared": (0x33, "Part 4, 4.5.5", (["binary", "07"],)),
    "transactional-state": (0x34, "Part 4, 4.5.8", (["binary", "07"],)),
}
OUTCOMES = ("accepted", "rejected", "released", "modified")
POLICIES = tuple(name for name in KINDS if name.startswith("delete-on-"))


def listed(code: int, *fields: Any) -> list[Any]:
    """A composite in typed JSON, by its descriptor."""
    return ["described", ["ulong", code], ["list", [*fields]]]


def composite(name: str, *fields: Any) -> list[Any]:
    """A composite in typed JSON, by its name."""
    return listed(KINDS[name][0], *fields)


def at_place(code: int, place: int, value: Any) -> list[Any]:
    """A composite with one field."""
    return listed(code, *[NULL] * place, value)


def entries(**values: Any) -> list[Any]:
    """A map with symbols as keys."""
    return ["map", [[symbol(key.replace("_", "-")), value] for key, value in values.items()]]


# Every form of the descriptor and of the list.
for name, (code, clause, fields) in KINDS.items():
    chapter.at(clause)
    typed = composite(name, *fields)
    descriptors = [*encodings(["ulong", code]), *encodings(symbol(f"amqp:{name}:list"))]
    for kind, descriptor in descriptors:
        for form, octets in encodings(["list", [*fields]]):
            chapter.says(
                f"{name}-{kind}-{form}", f"00{descriptor}{octets}", typed, compact=smallest(typed)
            )
    # A list of nulls where nothing has to be said, and no list.
    if not fields and name not in (*POLICIES, "accepted", "released"):
        chapter.says(
            f"{name}-nothing-said", f"0053{code:02x}c0020140", typed, compact=smallest(typed)
        )
    for kind, other in (("map", ["map", []]), ("string", string("x")), ("null", NULL)):
        wrong = ["described", ["ulong", code], other]
        chapter.irregular(f"{name}-as-{kind}", smallest(wrong), wrong, "section-value-type", 3)
    if name in (*POLICIES, "accepted", "released"):
        surplus = composite(name, TRUE)
        chapter.irregular(f"{name}-surplus", smallest(surplus), surplus, "too-many-fields", 3)

# Node properties: every lifetime policy, and distribution modes.
for terminus, code in (("source", SOURCE), ("target", TARGET)):
    chapter.at(KINDS[terminus][1])
    dynamic = [*[NULL] * 4, TRUE]
    for name in POLICIES:
        number = KINDS[name][0]
        for kind, key in (
            ("numeric", ["ulong", number]),
            ("symbolic", symbol(f"amqp:{name}:list")),
        ):
            policy = ["described", key, ["list", []]]
            typed = listed(code, *dynamic, entries(lifetime_policy=policy))
            chapter.says(f"{terminus}-{name}-{kind}", smallest(typed), typed)
    for kind, modes in (
        ("one", symbol("move")),
        ("two", ["array", "a3", [symbol("move"), symbol("copy")]]),
    ):
        typed = listed(code, *dynamic, entries(supported_dist_modes=modes))
        chapter.says(f"{terminus}-supported-dist-modes-{kind}", smallest(typed), typed)
    for kind, key in (("string", string("lifetime-policy")), ("ulong", ["ulong", 1])):
        typed = at_place(code, 5, ["map", [[key, NULL]]])
        chapter.irregular(
            f"{terminus}-node-properties-key-{kind}", smallest(typed), typed, "field-key-type", 11
        )

# Filters of every type under a name, several, and what stands for none.
chapter.at("Part 3, 3.5.3")
VALUES: dict[str, Any] = {
    name: ["map", [[string("region"), string("emea")]]]
    if name.endswith((":map", "application-properties-filter"))
    else entries(subject=string("x"))
    if name.endswith("properties-filter")
    else ["list", []]
    if name.endswith(":list")
    else string("a")
    for name in CODES
}
for name, value in VALUES.items():
    for kind, key in (("numeric", ["ulong", CODES[name]]), ("symbolic", symbol(name))):
        word = name.partition(":")[2].partition(":")[0] or name
        typed = at_place(SOURCE, 7, entries(f=["described", key, value]))
        chapter.says(f"source-filter-{word}-{kind}", smallest(typed), typed)
# What vendors defined, and what is left to who can evaluate it.
for number, (name, value) in enumerate(
    (
        *(("rabbitmq:stream-offset-spec", string(text)) for text in ("first", "last", "next")),
        ("rabbitmq:stream-offset-spec", ["ulong", 5]),
        ("rabbitmq:stream-offset-spec", ["timestamp", 1_700_000_000_000]),
        ("rabbitmq:stream-filter", string("emea")),
        ("rabbitmq:stream-filter", ["list", [string("emea"), string("apac")]]),
        ("rabbitmq:stream-match-unfiltered", TRUE),
        ("com.microsoft:session-filter", string("s-1")),
        ("com.microsoft:session-filter", NULL),
        ("apache.org:xquery-filter:string", string("//a")),
    )
):
    typed = at_place(SOURCE, 7, entries(f=["described", symbol(name), value]))
    chapter.says(f"source-filter-of-vendor-{number}", smallest(typed), typed)
two = entries(
    a=["described", symbol("apache.org:no-local-filter:list"), ["list", []]],
    b=["described", ["ulong", 0x120], string("n = 5")],
    c=NULL,
)
typed = at_place(SOURCE, 7, two)
chapter.says("source-filters-three", smallest(typed), typed)
unknown = ["described", symbol("example.com:other:string"), string("x")]
typed = at_place(SOURCE, 7, entries(f=unknown))
chapter.says("source-filter-unknown", smallest(typed), typed, "left to who knows it")
typed = at_place(SOURCE, 7, ["map", []])
chapter.says("source-filter-none", smallest(typed), typed)
for kind, key in (("string", string("f")), ("ulong", ["ulong", 1])):
    typed = at_place(SOURCE, 7, ["map", [[key, NULL]]])
    chapter.irregular(f"source-filter-key-{kind}", smallest(typed), typed, "field-key-type", 13)

# Outcomes: each as the default, and as what may be chosen.
REJECTED = composite("rejected", composite("error", symbol("amqp:not-found")))
MODIFIED = composite("modified", TRUE, TRUE)
for name, outcome in (
    *((name, composite(name)) for name in OUTCOMES),
    *(("rejected-error", REJECTED), ("modified-both", MODIFIED)),
):
    typed = at_place(SOURCE, 8, outcome)
    chapter.says(f"source-default-outcome-{name}", smallest(typed), typed)
for name in OUTCOMES:
    symbolic = ["described", symbol(f"amqp:{name}:list"), ["list", []]]
    chapter.says(
        f"source-default-outcome-{name}-symbolic",
        smallest(at_place(SOURCE, 8, symbolic)),
        at_place(SOURCE, 8, composite(name)),
        compact=smallest(at_place(SOURCE, 8, composite(name))),
    )
for name in ("received", "error", "delete-on-close", "source"):
    typed = at_place(SOURCE, 8, composite(name, *KINDS[name][2]))
    chapter.irregular(
        f"source-default-outcome-{name}", smallest(typed), typed, "field-type", 14, "no outcome"
    )
ALL = ["array", "a3", [symbol(f"amqp:{name}:list") for name in OUTCOMES]]
for place, name in ((9, "outcomes"), (10, "capabilities")):
    typed = at_place(SOURCE, place, ALL)
    for form, octets in encodings(ALL):
        chapter.says(
            f"source-{name}-four-{form}",
            "005328" + list_of([*["40"] * place, octets]),
            typed,
            compact=smallest(typed),
        )


def _breaks(name: str, typed: Any, *broken: tuple[str, str, int], **given: Any) -> None:
    """Add a terminus that breaks these rules: each with its severity, and where the field is."""
    clause = next(row[1] for row in KINDS.values() if row[0] == typed[1][1])
    questions.append(
        Case(
            id=name,
            kind="terminus",
            data=bytes.fromhex(smallest(typed)),
            given=given,
            answer={"violations": [list(one) for one in broken]},
            clause=clause,
            origin="written by hand from the specification",
        )
    )


# What no row above has: open fields, and what an error may say.
chapter.at("Part 2, 2.8.14")
ERROR = composite(
    "error",
    symbol("amqp:internal-error"),
    string("why"),
    ["map", [[symbol("x-code"), ["int", 7]], [symbol("x-also"), ["list", [NULL]]]]],
)
for form, octets in encodings(ERROR[2]):
    chapter.says(f"error-info-{form}", f"00531d{octets}", ERROR, compact=smallest(ERROR))
KEYED = composite("error", symbol("a"), NULL, ["map", [[string("k"), NULL]]])
chapter.irregular("error-info-key-string", smallest(KEYED), KEYED, "field-key-type", 10)
chapter.at("Part 3, 3.4.5")
KEYED = composite("modified", NULL, NULL, ["map", [[string("k"), NULL]]])
chapter.irregular("modified-annotations-key-string", smallest(KEYED), KEYED, "field-key-type", 8)
chapter.at("Part 4, 4.5.2")
XID = ["described", symbol("example.com:xid:list"), ["list", [["binary", "07"]]]]
chapter.says("declare-global-id", smallest(composite("declare", XID)), composite("declare", XID))
chapter.at("Part 4, 4.5.8")
for name in OUTCOMES:
    typed = composite("transactional-state", ["binary", "07"], composite(name))
    chapter.says(f"transactional-state-{name}", smallest(typed), typed)


# The rules: requests and answers for dynamic nodes, by whose end the attach frame is.
for terminus, code, asks, answers in (
    ("source", SOURCE, "receiver", "sender"),
    ("target", TARGET, "sender", "receiver"),
):
    wants = at_place(code, 4, TRUE)
    named = listed(code, string("link-1.box"), *[NULL] * 3, TRUE)
    plain = at_place(code, 0, string("q"))
    names = {"link_name": "link-1", "container_id": "box"}
    _breaks(f"{terminus}-request", wants, role=asks)
    _breaks(
        f"{terminus}-request-with-address",
        named,
        ("address-in-request", "error", 6),
        role=asks,
    )
    _breaks(f"{terminus}-answer", named, role=answers)
    _breaks(
        f"{terminus}-answer-without-address",
        wants,
        ("address-missing", "error", 6),
        role=answers,
    )
    _breaks(f"{terminus}-answer-traceable", named, role=answers, **names)
    _breaks(
        f"{terminus}-answer-not-traceable",
        named,
        ("address-not-traceable", "warning", 6),
        role=answers,
        link_name="link-2",
        container_id="box",
    )
    _breaks(f"{terminus}-not-dynamic", plain, role=asks, **names)
    _breaks(f"{terminus}-role-unknown", named)
    _breaks(f"{terminus}-minimal", listed(code), role=asks)
    properties = entries(lifetime_policy=composite("delete-on-close"))
    _breaks(
        f"{terminus}-properties-without-dynamic",
        at_place(code, 5, properties),
        ("properties-without-dynamic", "error", 11),
    )
    for kind, value, broken in (
        ("delete-on-no-links", composite("delete-on-no-links"), None),
        ("symbol", symbol("amqp:delete-on-close:list"), "lifetime-policy"),
        ("outcome", composite("accepted"), "lifetime-policy"),
    ):
        typed = listed(code, *dynamic, entries(lifetime_policy=value))
        found = [(broken, "error", 11)] if broken else []
        _breaks(f"{terminus}-lifetime-policy-{kind}", typed, *found)
    for kind, value, broken in (
        ("symbol", symbol("move"), None),
        ("array", ["array", "a3", [symbol("move"), symbol("copy")]], None),
        ("string", string("move"), "supported-dist-modes"),
        ("array-of-string", ["array", "a1", [string("move")]], "supported-dist-modes"),
    ):
        typed = listed(code, *dynamic, entries(supported_dist_modes=value))
        found = [(broken, "error", 11)] if broken else []
        _breaks(f"{terminus}-supported-dist-modes-{kind}", typed, *found)

unset = at_place(SOURCE, 0, string("q"))
_breaks(
    "source-distribution-mode-unset",
    unset,
    ("distribution-mode-unset", "error", 0),
    role="sender",
    modes=["move", "copy"],
)
_breaks("source-distribution-mode-one", unset, role="sender", modes=["move"])
_breaks("source-distribution-mode-of-receiver", unset, role="receiver", modes=["move", "copy"])
_breaks(
    "source-distribution-mode-set",
    at_place(SOURCE, 6, symbol("copy")),
    role="sender",
    modes=["move", "copy"],
)
for kind, value, is_wrong in (
    ("string", string("a"), True),
    ("list", ["list", []], True),
    ("null", NULL, False),
    ("described", ["described", symbol("apache.org:selector-filter:string"), string("a")], False),
):
    found = [("filter-not-described", "error", 13)] if is_wrong else []
    _breaks(f"source-filter-{kind}", at_place(SOURCE, 7, entries(f=value)), *found)
for kind, value, is_wrong in (
    ("accepted", symbol("amqp:accepted:list"), False),
    ("all", ALL, False),
    ("received", symbol("amqp:received:list"), True),
    ("error", symbol("amqp:error:list"), True),
):
    found = [("outcomes", "error", 15)] if is_wrong else []
    _breaks(f"source-outcomes-{kind}", at_place(SOURCE, 9, value), *found)
for kind, text, is_wrong in (
    ("local", "amqp:local-transactions", False),
    ("own", "example.com:own", False),
    ("unknown", "amqp:other", True),
):
    found = [("txn-capability", "warning", 6)] if is_wrong else []
    _breaks(f"coordinator-capability-{kind}", composite("coordinator", symbol(text)), *found)
GLOBAL = ["described", symbol("example.com:xid:list"), ["list", []]]
DISTRIBUTED = smallest(composite("coordinator", symbol("amqp:distributed-transactions")))
LOCAL = smallest(composite("coordinator", symbol("amqp:local-transactions")))
_breaks("declare-global", composite("declare", GLOBAL), coordinator=DISTRIBUTED)
_breaks(
    "declare-global-of-local",
    composite("declare", GLOBAL),
    ("global-id", "error", 6),
    coordinator=LOCAL,
)
_breaks("declare-local", composite("declare"), coordinator=LOCAL)
