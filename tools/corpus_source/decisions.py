"""What becomes of messages and deliveries: filters, resumption, and translations by profile."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from amqp10msg.interop.corpus import Case
from corpus_source._write import list8, map8, octets, string

VECTORS = Path(__file__).parents[2] / "tests" / "vectors"
cases: list[Case] = []


def _add(name: str, kind: str, data: str, given: dict[str, Any], answer: Any, **more: Any) -> None:
    cases.append(
        Case(
            id=name,
            kind=kind,
            data=octets(data) if " " in data or "'" in data else bytes.fromhex(data),
            given=given,
            answer=answer,
            **more,
        )
    )


# Filters: JMS selectors (apache.org:selector-filter:string), three-valued logic and all.
_MESSAGE = (
    "00 53 70 "
    + list8(2, "41 50 07")
    + "00 53 73 "
    + list8(4, string("m-1") + "40 40 " + string("news"))
    + "00 53 74 "
    + map8(
        12,
        string("n")
        + "54 05"
        + string("s")
        + string("abc")
        + string("d")
        + "82 3ff8000000000000"
        + string("t")
        + "41"
        + string("e")
        + string("")
        + string("p")
        + string("50%_x"),
    )
    + "00 53 75 a0 01 'x'"
)
#: Expressions by what they give: true, and what is false or unknown.
_TRUE = (
    *("n = 5", "n <> 4", "n > 4", "n >= 5", "n < 6", "n <= 5", "5 = n", "n + 1 = 6"),
    *("n - 6 = -1", "n * 2 = 10", "n / 2 = 2", "-n = -5", "+n = 5", "n = 5.0", "d = 1.5"),
    *("d > 1", "d * 2 = 3", "s = 'abc'", "s <> 'abd'", "t", "t = TRUE", "NOT (n = 4)"),
    *("n = 5 AND s = 'abc'", "n = 4 OR s = 'abc'", "n BETWEEN 5 AND 6", "n BETWEEN 4 AND 5"),
    *("n NOT BETWEEN 6 AND 7", "s IN ('abc', 'x')", "s NOT IN ('x')", "s LIKE 'a%'"),
    *("s LIKE '_b_'", "s LIKE '%c'", "s LIKE 'abc'", "s NOT LIKE 'b%'", "s LIKE '%'"),
    *("missing IS NULL", "n IS NOT NULL", "p LIKE '50!%!_x' ESCAPE '!'", "e = ''"),
    *("missing = 1 OR n = 5", "n = 5 OR missing = 1", "JMSPriority = 7", "JMSPriority > 4"),
    *("JMSType = 'news'", "(n = 5)", "((n = 5) AND (d = 1.5))", "n=5 and s='abc'", "n = 0x5"),
    *("NOT t = FALSE", "n + 1 * 2 = 7", "(n + 1) * 2 = 12", "d = 15e-1", "n > -1", ""),
)
_FALSE = (
    *("n = 6", "n <> 5", "n > 5", "n < 5", "n >= 6", "n <= 4", "d = 1", "s = 'ABC'"),
    *("s = 'ab'", "NOT t", "t = FALSE", "n = 5 AND s = 'x'", "n = 4 OR s = 'x'"),
    *("n BETWEEN 6 AND 9", "n NOT BETWEEN 4 AND 6", "s IN ('x', 'y')", "s NOT IN ('abc')"),
    *("s LIKE 'b%'", "s LIKE '_'", "s LIKE 'ABC'", "s NOT LIKE 'a%'", "missing IS NOT NULL"),
    *("n IS NULL", "missing = 1", "missing <> 1", "NOT (missing = 1)", "missing = 1 AND n = 5"),
    *("missing IN ('a')", "missing NOT IN ('a')", "missing LIKE 'a'", "missing NOT LIKE 'a'"),
    *("missing BETWEEN 1 AND 2", "s = 5", "n = '5'", "t = 1", "n / 0 = 1"),
    *("JMSPriority = 4", "p LIKE '50!%x' ESCAPE '!'", "missing + 1 = 2"),
)
_WRONG: tuple[str, ...] = (
    "n =",
    "= 5",
    "n = 5 AND",
    "(n = 5",
    "n = 5)",
    "n == 5",
    "'abc",
    "n LIKE 5",
    "n IN ()",
)
_WRONG += ("n BETWEEN 1", "s LIKE 'a' ESCAPE 'xx'", "n = 5 s", "NOT", "n IS 5")
_SELECTOR = "00 80 0000468c00000004 "


def _described(symbol: str, text: str) -> str:
    raw = text.encode()
    size = f"a1{len(raw):02x}" if len(raw) < 256 else f"b1{len(raw):08x}"
    return f"00a3{len(symbol):02x}{symbol.encode().hex()}{size}{raw.hex()}"


for expressions, answer, name in ((_TRUE, True, "true"), (_FALSE, False, "false")):
    for number, text in enumerate(expressions):
        _add(
            f"selector-{name}-{number}",
            "filter",
            _MESSAGE,
            {"filter": _described("apache.org:selector-filter:string", text)},
            answer,
            clause="Part 3, 3.5.8",
            origin="written by hand from the syntax of selectors in JMS 2.0, 3.8.1",
            note=text or "an empty selector, which every message passes",
        )
for number, text in enumerate(_WRONG):
    _add(
        f"selector-refused-{number}",
        "filter",
        _MESSAGE,
        {"filter": _described("apache.org:selector-filter:string", text)},
        {"refused": True},
        clause="Part 3, 3.5.8",
        origin="written by hand from the syntax of selectors in JMS 2.0, 3.8.1",
        note=text,
    )
_VERDICTS = {"passes": True, "stopped": False, "refused": {"refused": True}}
with (VECTORS / "filters.jsonl").open(encoding="utf-8") as lines:
    for number, line in enumerate(lines):
        entry = json.loads(line)
        if entry["basis"] != "observed" or entry["verdict"] not in _VERDICTS:
            continue
        _add(
            f"filter-observed-{number}",
            "filter",
            entry["message"],
            {
                "filter": _described(entry["filter"], entry["value"]),
                "dialect": "rabbitmq-4.3",
            },
            _VERDICTS[entry["verdict"]],
            clause="Part 3, 3.5.8",
            origin=f"observed at {', '.join(entry['brokers'])}",
            note=entry["value"],
        )

# Resumption: the example of Part 3, 3.4.6, row by row.


def _received(section: int, offset: int) -> str:
    return octets("00 53 23 " + list8(2, f"70 {section:08x} 80 {offset:016x}")).hex()


_ACCEPTED, _RELEASED = "00532445", "00532645"
_ABSENT = "none"
#: Both ends' states; the action; state, settled, resume and aborted of the transfer; the start.
_ROWS: tuple[tuple[Any, Any, str, Any, Any], ...] = (
    (None, _ABSENT, "new-delivery", (None, False, False, False), [0, 0]),
    (None, _received(3, 0), "resume", ((3, 0), False, True, False), [3, 0]),
    (None, _ACCEPTED, "settle", (_ACCEPTED, True, True, False), None),
    (None, None, "resume", (None, False, True, False), [0, 0]),
    (_received(0, 200), _ABSENT, "report-loss", None, None),
    (_received(1, 150), _received(2, 0), "resume", ((2, 0), False, True, False), [2, 0]),
    (_received(0, 500), _received(0, 100), "abort", (None, False, True, True), None),
    (_received(3, 5), _ACCEPTED, "settle", (_ACCEPTED, True, True, False), None),
    (_received(2, 0), None, "abort", (None, False, True, True), None),
    (_ACCEPTED, _ABSENT, "nothing", None, None),
    (_ACCEPTED, _received(1, 2000), "abort", (None, False, True, True), None),
    (_ACCEPTED, _ACCEPTED, "settle", (None, True, True, False), None),
    (_ACCEPTED, _RELEASED, "restate", (_ACCEPTED, False, True, False), None),
    (_ACCEPTED, None, "abort", (None, False, True, True), None),
    (_ABSENT, None, "nothing", None, None),
    (_ABSENT, _ACCEPTED, "nothing", None, None),
    (_ABSENT, _received(1, 0), "nothing", None, None),
)
for number, (sender, receiver, action, transfer, start) in enumerate(_ROWS, 1):
    decided: dict[str, Any] = {"action": action}
    if transfer is not None:
        state, settled, resumed, aborted = transfer
        decided |= {
            "state": list(state) if isinstance(state, tuple) else state,
            "settled": settled,
            "resume": resumed,
            "aborted": aborted,
        }
    if start is not None:
        decided["start"] = start
    in_example = number <= 14
    _add(
        f"resumption-{number}",
        "resumption",
        "",
        {"sender": sender, "receiver": receiver},
        decided,
        clause="Part 3, 3.4.6" if in_example else "Part 2, 2.6.13",
        origin="written by hand from the specification",
        note=f"row {number} of the example" if in_example else "the receiver alone has it",
    )

# The same for every outcome: what the example says of accepted and released.
_OUTCOMES = {
    "accepted": _ACCEPTED,
    "rejected": "00532545",
    "released": _RELEASED,
    "modified": octets("00 53 27 " + list8(2, "41 41")).hex(),
}
#: Names, both ends' states, what is decided as in the rows above, and what attach frames say.
_MORE: list[tuple[str, Any, Any, str, Any, dict[str, Any]]] = []
for name, outcome in _OUTCOMES.items():
    settle = (outcome, True, True, False)
    abort = (None, False, True, True)
    _MORE += [
        (f"null-{name}", None, outcome, "settle", settle, {}),
        (f"place-{name}", _received(1, 5), outcome, "settle", settle, {}),
        (f"{name}-none", outcome, _ABSENT, "nothing", None, {}),
        (f"{name}-null", outcome, None, "abort", abort, {}),
        (f"{name}-place", outcome, _received(0, 9), "abort", abort, {}),
        (f"none-{name}", _ABSENT, outcome, "nothing", None, {}),
    ]
    for other, theirs in _OUTCOMES.items():
        same = (None, True, True, False)
        stated = (outcome, False, True, False)
        action, transfer = ("settle", same) if other == name else ("restate", stated)
        _MORE.append((f"{name}-{other}", outcome, theirs, action, transfer, {}))
# Absence in an incomplete map says nothing, and no new delivery is made (Part 2, 2.7.3).
_INCOMPLETE: tuple[tuple[str, Any, Any], ...] = (
    *(("null-none", None, _ABSENT), ("place-none", _received(1, 5), _ABSENT)),
    *(("accepted-none", _ACCEPTED, _ABSENT), ("none-null", _ABSENT, None)),
    ("none-accepted", _ABSENT, _ACCEPTED),
)
for name, mine, theirs in _INCOMPLETE:
    if theirs == _ABSENT:
        incomplete = {"receiver_incomplete": True}
        _MORE.append((f"{name}-receiver-incomplete", mine, theirs, "nothing", None, incomplete))
    if mine in (None, _ABSENT):
        incomplete = {"sender_incomplete": True}
        _MORE.append((f"{name}-sender-incomplete", mine, theirs, "nothing", None, incomplete))
for end in ("sender", "receiver"):
    settle = (_ACCEPTED, True, True, False)
    given = {f"{end}_incomplete": True}
    _MORE.append((f"null-accepted-{end}-incomplete", None, _ACCEPTED, "settle", settle, given))
for name, mine, theirs, action, transfer, given in _MORE:
    decided = {"action": action}
    if transfer is not None:
        decided |= dict(zip(("state", "settled", "resume", "aborted"), transfer, strict=True))
    _add(
        f"resumption-{name}",
        "resumption",
        "",
        {"sender": mine, "receiver": theirs, **given},
        decided,
        clause="Part 2, 2.6.13" if given else "Part 3, 3.4.6",
        origin="written by hand from the specification",
    )

# Translations: what brokers did, recorded by this project.
_VERSIONS = {"3.10.8": "rabbitmq-3.10", "4.0.5": "rabbitmq-4.0", "4.3.6": "rabbitmq-4.3"}
_EACH = 36
_MAX_SIZE = 700


def _translations() -> None:
    with gzip.open(VECTORS / "translations.jsonl.gz", "rt", encoding="utf-8") as lines:
        entries = [json.loads(line) for line in lines]
    groups: dict[tuple[str, bool], list[dict[str, Any]]] = {}
    for entry in entries:
        # A name that is no UTF-8, and bytes that are no message, are the business of other cases.
        texts = [entry.get(name, "") for name in ("exchange", "key")]
        if len(json.dumps(entry)) > _MAX_SIZE or not all(isinstance(one, str) for one in texts):
            continue
        if "B-trunc" in entry["id"]:
            continue
        groups.setdefault((entry["broker"], "basic" in entry), []).append(entry)
    for (broker, from_basic), found in sorted(groups.items()):
        _, version, *queue = broker.split("-")
        profile = _VERSIONS[version] + ("-stream" if queue == ["stream"] else "")
        step = max(1, len(found) // _EACH)
        for entry in found[::step][:_EACH]:
            given: dict[str, Any] = {"profile": profile}
            if entry["offset"] is not None:
                given["offset"] = entry["offset"]
            gives = entry["gives"]
            if from_basic:
                properties, data = entry["basic"]
                given |= {"basic": properties, "exchange": entry["exchange"]}
                given["routing_key"] = entry["key"]
                answer = {"refused": True} if gives is None else {"message": gives}
            else:
                data = entry["message"]
                refused = gives is None
                answer = {"refused": True} if refused else {"basic": gives[0], "body": gives[1]}
            word = entry["id"].lower().replace("_", "-").replace("+", "plus")
            name = "".join(c if (c.isalnum() and c.isascii()) or c in "-." else "-" for c in word)
            way = "to-1.0" if from_basic else "to-0-9-1"
            name = f"translation-{broker}-{way}-{name}"
            while "--" in name:
                name = name.replace("--", "-")
            _add(
                name.strip("-.").replace("-.", "-").replace(".-", "-"),
                "translation",
                data,
                given,
                answer,
                clause=f"Translation, {profile}",
                origin=f"recorded from RabbitMQ {version}"
                + (f", {queue[0]} queue" if queue else ", classic queue"),
            )


_translations()
