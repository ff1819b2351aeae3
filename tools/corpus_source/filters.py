"""Which messages pass a filter: bindings, no-local, property filters, SQL of the OASIS draft.

Bindings and no-local are of Qpid's ``apache-filters.xml``, property filters and SQL of AMQP Filter
Expressions 1.0, a draft.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from amqp10msg.interop.corpus import Case
from corpus_source._forms import smallest

cases: list[Case] = []

REFUSED = {"refused": True}
#: Numeric descriptors, by the symbolic ones.
CODES = {
    "apache.org:legacy-amqp-direct-binding:string": 0x468C00000000,
    "apache.org:legacy-amqp-topic-binding:string": 0x468C00000001,
    "apache.org:legacy-amqp-headers-binding:map": 0x468C00000002,
    "apache.org:no-local-filter:list": 0x468C00000003,
    "apache.org:selector-filter:string": 0x468C00000004,
    "amqp:sql-filter": 0x120,
    "amqp:properties-filter": 0x173,
    "amqp:application-properties-filter": 0x174,
}
DIRECT, TOPIC, HEADERS, NO_LOCAL, SELECTOR, SQL, PROPERTIES, APPLICATION = CODES
_APACHE = "written by hand from the definitions of filters in apache-filters.xml"
_DRAFT = "written by hand from AMQP Filter Expressions 1.0, committee specification draft"


def symbol(text: str) -> list[Any]:
    """A symbol in typed JSON."""
    return ["symbol", text]


def string(text: str) -> list[Any]:
    """A string in typed JSON."""
    return ["string", text]


def pairs(keys: Any, entries: dict[str, Any]) -> list[Any]:
    """A map in typed JSON, its keys made by a function."""
    return ["map", [[keys(key), value] for key, value in entries.items()]]


def message(
    subject: str | None = None,
    properties: dict[int, Any] | None = None,
    application: dict[str, Any] | None = None,
    priority: int | None = None,
) -> bytes:
    """A message with fields of its properties by their places, and application properties."""
    fields = dict(properties or {})
    if subject is not None:
        fields[3] = string(subject)
    octets = ""
    if priority is not None:
        header = ["list", [["null"], ["ubyte", priority]]]
        octets += smallest(["described", ["ulong", 0x70], header])
    if fields:
        row = [fields.get(place, ["null"]) for place in range(max(fields) + 1)]
        octets += smallest(["described", ["ulong", 0x73], ["list", row]])
    if application is not None:
        octets += smallest(["described", ["ulong", 0x74], pairs(string, application)])
    return bytes.fromhex(octets + "005375a00178")


def described(name: str, value: Any, *, numeric: bool = False) -> str:
    """A filter in hex."""
    descriptor = ["ulong", CODES[name]] if numeric else symbol(name)
    return smallest(["described", descriptor, value])


def _add(name: str, data: bytes, filter_: str, answer: Any, note: str, **given: Any) -> None:
    cases.append(
        Case(
            id=name,
            kind="filter",
            data=data,
            given={"filter": filter_, **given},
            answer=answer,
            clause="Part 3, 3.5.8",
            origin=_DRAFT if name.startswith(("properties", "application", "sql")) else _APACHE,
            note=note,
        )
    )


# Subjects: exactly this one, or by a pattern of words. Both descriptors say the same.
_Subjects: TypeAlias = tuple[tuple[str, str | None, bool], ...]
_DIRECT: _Subjects = (
    *(("news", "news", True), ("news", "News", False), ("news", "news.eu", False)),
    *(("", "", True), ("news", "", False), ("news", None, False), ("#", "a", False)),
    *(("été", "été", True), ("a.*", "a.b", False)),
)
_TOPIC: _Subjects = (
    *(("*.stock.#", "usd.stock", True), ("*.stock.#", "eur.stock.db", True)),
    *(("*.stock.#", "stock.nasdaq", False), ("*.stock.#", "a.b.stock", False)),
    *(("#", "a", True), ("#", "a.b.c", True), ("*", "a", True), ("*", "a.b", False)),
    *(("a.#", "a", True), ("a.#", "a.b", True), ("a.#", "ab", False), ("#.z", "z", True)),
    *(("#.z", "a.b.z", True), ("#.z", "a.b.zz", False), ("a.*.c", "a.b.c", True)),
    *(("a.*.c", "a.c", False), ("a.*.c", "a.b.b.c", False), ("a.b", "a.b", True)),
    *(("a.b", "a.B", False), ("a.#.c", "a.c", True), ("a.#.c", "a.b.b.c", True)),
    *(("*.*", "a.b", True), ("*.*", "a", False), ("a.*", None, False)),
    *(("a*", "ab", False), ("#.#", "a", True)),
)
for name, binding, tried in (("direct", DIRECT, _DIRECT), ("topic", TOPIC, _TOPIC)):
    for number, (text, subject, passes) in enumerate(tried):
        for numeric in (False, True):
            _add(
                f"{name}-{number}{'-numeric' if numeric else ''}",
                message(subject),
                described(binding, string(text), numeric=numeric),
                passes,
                f"{text!r} and {subject!r}",
            )
    for kind, value in (("binary", ["binary", "61"]), ("list", ["list", []]), ("null", ["null"])):
        wrong = described(binding, value)
        _add(f"{name}-of-{kind}", message("a"), wrong, REFUSED, "its value is a string")

# Application properties: all of these, or any; null matches whatever is there.
_HELD = {
    "region": string("emea"),
    "n": ["int", 5],
    "urgent": ["boolean", True],
    "price": ["double", "3ff8000000000000"],
    "none": ["null"],
}
_ANY, _ALL = symbol("any"), symbol("all")
for number, (entries, passes, note) in enumerate(
    (
        ({"region": string("emea")}, True, "all, where nothing is said"),
        ({"region": string("apac")}, False, ""),
        ({"x-match": string("all"), "region": string("emea"), "n": ["int", 5]}, True, ""),
        ({"x-match": string("all"), "region": string("emea"), "n": ["int", 6]}, False, ""),
        ({"x-match": string("any"), "region": string("apac"), "n": ["int", 5]}, True, ""),
        ({"x-match": string("any"), "region": string("apac"), "n": ["int", 6]}, False, ""),
        ({"region": ["null"]}, True, "any value of what is there"),
        ({"missing": ["null"]}, False, "any value of what is there"),
        ({"none": ["null"]}, True, "null is there, too"),
        ({"none": string("x")}, False, ""),
        ({"urgent": ["boolean", True]}, True, ""),
        ({"urgent": ["boolean", False]}, False, ""),
        ({"n": ["long", 5]}, True, "numbers of other types are the same number"),
        ({"n": string("5")}, False, "a text is no number"),
        ({"price": ["double", "3ff8000000000000"]}, True, ""),
        ({}, True, "all of nothing"),
        ({"x-match": string("any")}, False, "any of nothing"),
        (
            {"x-other": string("y"), "region": string("emea")},
            True,
            "other x- keys do not count",
        ),
    )
):
    for numeric in (False, True):
        _add(
            f"headers-{number}{'-numeric' if numeric else ''}",
            message(application=_HELD),
            described(HEADERS, pairs(string, entries), numeric=numeric),
            passes,
            note,
        )
_NO_HEADERS: tuple[tuple[str, Any, str], ...] = (
    ("x-match-unknown", pairs(string, {"x-match": string("some")}), "all or any"),
    ("value-list", pairs(string, {"a": ["list", []]}), "values are of simple types"),
    ("key-ulong", ["map", [[["ulong", 1], string("a")]]], "keys are strings"),
    ("of-list", ["list", []], "its value is a map"),
    ("of-string", string("region"), "its value is a map"),
)
for name, value, note in _NO_HEADERS:
    wrong = described(HEADERS, value)
    _add(f"headers-refused-{name}", message(application=_HELD), wrong, REFUSED, note)

for local in (True, False):
    for numeric in (False, True):
        _add(
            f"no-local-{str(local).lower()}{'-numeric' if numeric else ''}",
            message("a"),
            described(NO_LOCAL, ["list", []], numeric=numeric),
            not local,
            "whether the message came over the connection of the link",
            local=local,
        )

# Fields of the properties section.
_ID = "0123456789abcdef0123456789abcdef"
_FIELDS = {
    0: string("m-1"),
    1: ["binary", "426f62"],
    2: string("orders"),
    3: string("Order 66"),
    5: ["ulong", 7],
    6: symbol("text/plain"),
    9: ["timestamp", 1_700_000_000_000],
    10: string("group A"),
    11: ["uint", 9],
}
_TESTED: tuple[tuple[dict[str, Any], bool, str], ...] = (
    ({"subject": string("Order 66")}, True, ""),
    ({"subject": string("order 66")}, False, "case matters"),
    ({"subject": string("&p:Order")}, True, "&p: is the beginning"),
    ({"subject": string("&p:66")}, False, "&p: is the beginning"),
    ({"subject": string("&s:66")}, True, "&s: is the end"),
    ({"subject": string("&s:Order")}, False, "&s: is the end"),
    ({"subject": string("&p:")}, True, "everything begins with nothing"),
    ({"subject": string("&s:")}, True, "everything ends with nothing"),
    ({"message-id": string("m-1")}, True, ""),
    ({"message-id": string("m-2")}, False, ""),
    ({"message-id": ["ulong", 1]}, False, "of another type"),
    ({"message-id": ["uuid", _ID]}, False, "of another type"),
    ({"correlation-id": ["ulong", 7]}, True, ""),
    ({"correlation-id": string("7")}, False, "of another type"),
    ({"user-id": ["binary", "426f62"]}, True, ""),
    ({"user-id": ["binary", "626f62"]}, False, ""),
    ({"to": string("orders")}, True, ""),
    ({"to": string("&p:ord")}, True, ""),
    ({"content-type": symbol("text/plain")}, True, ""),
    ({"content-type": symbol("text/html")}, False, ""),
    ({"creation-time": ["timestamp", 1_700_000_000_000]}, True, ""),
    ({"creation-time": ["timestamp", 1_700_000_000_001]}, False, ""),
    ({"group-id": string("&s:A")}, True, ""),
    ({"group-sequence": ["uint", 9]}, True, ""),
    ({"group-sequence": ["uint", 8]}, False, ""),
    ({"reply-to": string("x")}, False, "the message has none"),
    ({"reply-to-group-id": string("&p:")}, False, "the message has none"),
    ({"subject": string("Order 66"), "group-sequence": ["uint", 9]}, True, "all of them"),
    ({"subject": string("Order 66"), "group-sequence": ["uint", 8]}, False, "all of them"),
    ({}, True, "all of nothing"),
)
for number, (entries, passes, note) in enumerate(_TESTED):
    for numeric in (False, True):
        _add(
            f"properties-{number}{'-numeric' if numeric else ''}",
            message(properties=_FIELDS),
            described(PROPERTIES, pairs(symbol, entries), numeric=numeric),
            passes,
            note,
        )
_add(
    "properties-escaped",
    message("&x"),
    described(PROPERTIES, pairs(symbol, {"subject": string("&&x")})),
    True,
    "&& is one &",
)
_add(
    "properties-without-section",
    message(),
    described(PROPERTIES, pairs(symbol, {"subject": string("x")})),
    False,
    "a message without the section has no subject",
)
for name, value, note in (
    ("field-unknown", pairs(symbol, {"colour": string("red")}), "there is no such field"),
    ("key-string", pairs(string, {"subject": string("x")}), "keys are symbols"),
    ("field-type", pairs(symbol, {"subject": ["uint", 5]}), "of no type that the field has"),
    ("modifier", pairs(symbol, {"subject": string("&x:Order")}), "there is no such modifier"),
    ("of-list", ["list", []], "its value is a map"),
):
    wrong = described(PROPERTIES, value)
    _add(f"properties-refused-{name}", message(properties=_FIELDS), wrong, REFUSED, note)

# Application properties.
_ENTRIES = {**_HELD, "when": ["timestamp", 77], "octets": ["binary", "00ff"]}
for number, (entries, passes, note) in enumerate(
    (
        ({"region": string("emea")}, True, ""),
        ({"region": string("EMEA")}, False, "case matters"),
        ({"region": string("&p:em")}, True, "&p: is the beginning"),
        ({"region": string("&s:em")}, False, "&s: is the end"),
        ({"region": string("&s:ea")}, True, "&s: is the end"),
        ({"n": ["int", 5]}, True, ""),
        ({"n": ["ulong", 5]}, True, "numbers of other types are the same number"),
        ({"n": ["int", 6]}, False, ""),
        ({"n": string("&p:5")}, False, "a number does not begin with a text"),
        ({"urgent": ["boolean", True]}, True, ""),
        ({"urgent": ["boolean", False]}, False, ""),
        ({"price": ["double", "3ff8000000000000"]}, True, ""),
        ({"octets": ["binary", "00ff"]}, True, ""),
        ({"octets": ["binary", "00"]}, False, ""),
        ({"when": ["timestamp", 77]}, True, ""),
        ({"missing": string("x")}, False, ""),
        ({"region": string("emea"), "n": ["int", 5]}, True, "all of them"),
        ({"region": string("emea"), "n": ["int", 6]}, False, "all of them"),
        ({}, True, "all of nothing"),
    )
):
    for numeric in (False, True):
        _add(
            f"application-{number}{'-numeric' if numeric else ''}",
            message(application=_ENTRIES),
            described(APPLICATION, pairs(string, entries), numeric=numeric),
            passes,
            note,
        )
for name, value, note in (
    ("key-symbol", pairs(symbol, {"region": string("emea")}), "keys are strings"),
    ("value-list", pairs(string, {"region": ["list", []]}), "values are of simple types"),
    ("modifier", pairs(string, {"region": string("&x:em")}), "there is no such modifier"),
    ("of-string", string("region"), "its value is a map"),
):
    wrong = described(APPLICATION, value)
    _add(f"application-refused-{name}", message(application=_ENTRIES), wrong, REFUSED, note)

# Expressions, with names in every section that they may be of.
_SQL_MESSAGE = message("Order 66", _FIELDS, _ENTRIES, priority=7)
_SQL_TRUE = (
    *("region = 'emea'", "a.region = 'emea'", "application_properties.region = 'emea'"),
    *("[region] = 'emea'", "properties.subject = 'Order 66'", "p.subject LIKE 'Order%'"),
    *("header.priority = 7", "h.priority > 4", "p.group_sequence % 2 = 1", "n + 1 = 6"),
    *("n * 2 - 1 = 9", "-n = -5", "n <> 6", "n != 6", "n >= 5 AND n <= 5", "urgent"),
    *("urgent = TRUE", "NOT (n = 6)", "region IN ('apac', 'emea')", "region NOT IN ('apac')"),
    *("missing IS NULL", "region IS NOT NULL", "n = 6 OR urgent", "missing = 1 OR n = 5"),
    *("region LIKE 'e__a'", "region NOT LIKE 'a%'", "p.reply_to IS NULL", "price = 1.5"),
    *("p.message_id = 'm-1'", "p.content_type = 'text/plain'", "price > 1 AND price < 2"),
)
_SQL_FALSE = (
    *("region = 'EMEA'", "n = 6", "n > 5", "NOT urgent", "missing = 1", "missing <> 1"),
    *("NOT (missing = 1)", "missing = 1 AND n = 5", "region LIKE 'm%'", "n IS NULL"),
    *("region NOT IN ('emea')", "h.priority < 7", "p.subject = 'order 66'", "n = 5 AND n = 6"),
    *("missing LIKE '%'", "missing IN ('a')", "p.group_sequence = 8", "price = 1"),
)
_SQL_WRONG = (
    *("n =", "= 5", "(n = 5", "n = 5)", "n = 5 AND", "region LIKE", "region IN ()", "'abc"),
    *("n = 5 region", "IS NULL", "x.region = 'a'", "p.colour = 'red'", ""),
)
for texts, answer, name in (
    (_SQL_TRUE, True, "true"),
    (_SQL_FALSE, False, "false"),
    (_SQL_WRONG, REFUSED, "refused"),
):
    for number, text in enumerate(texts):
        _add(
            f"sql-{name}-{number}",
            _SQL_MESSAGE,
            described(SQL, string(text), numeric=number % 2 == 1),
            answer,
            text or "an empty expression",
        )
