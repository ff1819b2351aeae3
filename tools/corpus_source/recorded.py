"""Messages of brokers and peers, chosen from ``tests/vectors/recorded.jsonl.gz``."""

from __future__ import annotations

import gzip
import json
import re
from functools import cache
from pathlib import Path
from typing import Any

from amqp10msg.interop.corpus import Case, Fault
from corpus_source._forms import smallest
from corpus_source._write import octets

FILE = Path(__file__).parents[2] / "tests" / "vectors" / "recorded.jsonl.gz"

HOW = {
    "091-10": "published over AMQP 0-9-1, consumed over 1.0",
    "10-10": "sent and consumed over 1.0",
    "10-proton-10": "decoded and encoded again",
    "10-rhea-10": "decoded and encoded again",
    "proton-emit": "built and encoded",
    "rhea-emit": "built and encoded",
}

#: What was sent, by direction and the recordings' name of it: clause, and what it is about.
CHOSEN: dict[str, dict[str, tuple[str, str]]] = {
    "091-10": {
        "A-only-content_type": ("3.2.4", "content_type alone"),
        "A-all-but-user_id": ("3.2", "every property of 0-9-1 except user_id"),
        "A-all-but-delivery_mode": ("3.2.4", "every property of 0-9-1 except delivery_mode"),
        "A-only-expiration": ("3.2.1", "expiration, which becomes the ttl"),
        "A-message_id-uuid": ("3.2.14", "a message_id that is the text of a UUID"),
        "A-timestamp-4294967295": ("3.2.4", "a timestamp of 2^32 - 1 seconds"),
        "A-priority-255": ("3.2.1", "priority 255"),
        "A-reply_to-queue": ("3.2.15", "reply_to"),
        "A-headers-empty": ("3.2.5", "an empty header table"),
        "A-hdr-F-mixed": ("3.2.5", "a header that is a table"),
        "A-hdr-A-nested": ("3.2.5", "a header that is an array of arrays"),
        "A-hdr-D-255-max": ("3.2.5", "a decimal header"),
        "A-hdr-d-0.1": ("3.2.5", "a double header"),
        "A-hdr-T-now": ("3.2.5", "a timestamp header"),
        "A-hdr-l-min": ("3.2.5", "the least long long as a header"),
        "A-CC": ("3.2.3", "the CC header"),
        "A-key-x-opt-foo": ("3.2.3", "a header whose name begins with x-opt-"),
        "A-xhdr-nested": ("3.2.3", "a table in a header whose name begins with x-"),
        "A-key-utf8": ("3.2.5", "a header name beyond ASCII"),
        "A-body-256": ("3.2.6", "a body of 256 octets"),
        "A-body-empty-all": ("3.2.6", "an empty body"),
    },
    "10-10": {
        "B-header-all": ("3.2.1", "every field of the header"),
        "B-header-symdesc": ("1.5", "a header with a symbolic descriptor"),
        "B-props-all": ("3.2.4", "every field of the properties"),
        "B-props-allnull": ("3.2.4", "properties of thirteen nulls"),
        "B-correlation-id-ulongmax": ("3.2.11", "the largest ulong as correlation-id"),
        "B-message-id-struuid": ("3.2.14", "the text of a UUID as message-id"),
        "B-correlation-id-bin": ("3.2.13", "a binary correlation-id"),
        "B-absolute-expiry-time--1500": ("3.2.4", "an expiry before 1970"),
        "B-group-all": ("3.2.4", "group-id, group-sequence and reply-to-group-id"),
        "B-da": ("3.2.2", "delivery annotations"),
        "B-ma-val-mapmap": ("3.2.3", "a map in a map as an annotation"),
        "B-ma-val-arrstr": ("3.2.3", "an array as an annotation"),
        "B-ap-order": ("3.2.5", "the order of application properties"),
        "B-ap-val-doublenan": ("3.2.5", "NaN"),
        "B-ap-val-dec128": ("3.2.5", "a decimal128"),
        "B-ap-map32": ("3.2.5", "application properties in a map32"),
        "B-data-2": ("3.2.6", "two data sections"),
        "B-data-symdesc": ("1.5", "a data section with a symbolic descriptor"),
        "B-seq-2": ("3.2.7", "two sequences"),
        "B-value-null": ("3.2.8", "a null body"),
        "B-value-mapintkeys": ("3.2.8", "a map with integer keys"),
        "B-value-arrsmallint": ("3.2.8", "an array behind a short constructor"),
        "B-value-desc": ("3.2.8", "a described value"),
        "B-value-charsnow": ("3.2.8", "a char"),
        "B-value-dec64": ("3.2.8", "a decimal64"),
        "B-full-data": ("3.2", "every section, body of data"),
        "B-full-seq": ("3.2", "every section, body of a sequence"),
        "B-full-value": ("3.2", "every section, body of a value"),
        "B-ap-val-map": ("3.2.5", "a map as an application property, which nobody refused"),
        "B-message-id-uint": ("3.2.11", "a uint as message-id"),
        "B-user-id-str": ("3.2.4", "a string as user-id"),
        "B-unknown-section": ("3.2", "an unknown section"),
        "B-ap-key-sym": ("3.2.5", "a symbol as key of an application property"),
    },
    "proton-emit": {
        "P-empty": ("3.2", "Message()"),
        "P-all": ("3.2", "everything set"),
        "P-body-uuid": ("3.2.8", "a UUID body"),
        "P-body-array": ("3.2.8", "an array body"),
        "P-body-arraysym": ("3.2.8", "an array of symbols"),
        "P-body-described": ("3.2.8", "a described body"),
        "P-body-inferred-intdict": ("3.2.8", "a dict with int keys"),
        "P-body-inferred-list": ("3.2.7", "a list, inferred to be a sequence"),
        "P-body-memoryview": ("3.2.8", "octets, not inferred to be data"),
        "P-ma-ulong": ("3.2.10", "an annotation with a ulong key"),
        "P-p-ttl-1": ("3.2.1", "a ttl"),
    },
    "rhea-emit": {
        "R-empty": ("3.2", "an empty message"),
        "R-p-all": ("3.2.4", "every property"),
        "R-body-map": ("3.2.8", "an object"),
        "R-body-array": ("3.2.8", "an array"),
        "R-body-num-float": ("3.2.8", "a number with a fraction"),
        "R-body-described": ("3.2.8", "a described value"),
        "R-data-2": ("3.2.6", "two data sections"),
        "R-seq-2": ("3.2.7", "two sequences"),
        "R-ma": ("3.2.3", "message annotations"),
        "R-footer": ("3.2.9", "a footer, with string keys and in front of the body"),
    },
}
CHOSEN["10-proton-10"] = CHOSEN["10-rhea-10"] = CHOSEN["10-10"]

#: Of streams, which add one annotation to what quorum queues send, these are enough.
STREAM = {
    "A-only-content_type",
    "A-all-but-user_id",
    "A-CC",
    "A-hdr-F-mixed",
    "B-props-all",
    "B-data-2",
    "B-value-null",
    "B-ap-val-dec128",
    "B-full-data",
}

#: What breaks the specification: for whom (a pattern of sender, queue and direction) and which
#: messages (a pattern of names), the rule, octets that stand there once, and where in them.
IRREGULAR: list[tuple[str, str, str, str, int]] = [
    (
        "RabbitMQ 3.10.8 stream .*",
        ".*",
        "message-annotations-key-type",
        "a1 0f 'x-stream-offset'",
        0,
    ),
    (
        "RabbitMQ 3.10.8 classic 091-10",
        "A-all-but-delivery_mode|A-body-empty-all",
        "field-type",
        "a1 05 'guest'",
        0,
    ),
    (".* 10-10", "B-user-id-str", "field-type", "a1 05 'guest'", 0),
    ("RabbitMQ .* 10-10", "B-message-id-uint", "field-type", "01 52 05 00 53 75", 1),
    (".*", "B-ap-val-map", "application-properties-value-not-simple", "a1 01 'k'", 3),
    ("RabbitMQ .*", "B-ap-key-sym", "application-properties-key-type", "a3 06 'symkey'", 0),
    ("rhea .*", "R-footer|B-full-.*", "footer-key-type", "a1 03 'x-f'", 0),
]


@cache
def entries() -> list[dict[str, Any]]:
    """Read the recordings."""
    with gzip.open(FILE, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def cases() -> list[Case]:
    """Return the chosen messages, each once, in the order of the recordings."""
    made: dict[str, Case] = {}
    for entry in entries():
        for sender, queue, direction, name in entry["origins"]:
            about = CHOSEN[direction].get(name)
            if about is None or (queue == "stream" and name not in STREAM):
                continue
            case = case_of(entry, (sender, queue, direction, name), about)
            made[case.id] = case
            break
    return list(made.values())


def case_of(
    entry: dict[str, Any], origin: tuple[str, str, str, str], about: tuple[str, str]
) -> Case:
    """Make a case of a recorded message."""
    sender, queue, direction, name = origin
    clause, note = about
    way = {"091-10": "from-091", "10-10": "relay", "10-proton-10": "again", "10-rhea-10": "again"}
    words = (sender.removeprefix("python-qpid-"), queue, way.get(direction, "built"), name[2:])
    kind = {"": "", "stream": ", stream"}.get(queue, f", {queue} queue")
    data = bytes.fromhex(entry["raw"])
    fault = fault_of(data, " ".join(filter(None, origin[:3])), name)
    return Case(
        id=re.sub(r"[^a-z0-9.]+", "-", "-".join(filter(None, words)).lower()),
        kind="message",
        data=data,
        typed=entry["sections"],
        compact=None if fault else _smallest(entry["sections"]),
        error=fault,
        clause=f"Part {clause[0]}, {clause}",
        origin=f"recorded from {sender}{kind}: {HOW[direction]}",
        note=note,
    )


#: Codes, and the types of what sections hold.
_SECTIONS = {
    "header": (0x70, "list"),
    "delivery-annotations": (0x71, "map"),
    "message-annotations": (0x72, "map"),
    "properties": (0x73, "list"),
    "application-properties": (0x74, "map"),
    "data": (0x75, "binary"),
    "amqp-sequence": (0x76, "list"),
    "amqp-value": (0x77, ""),
    "footer": (0x78, "map"),
}


def _smallest(sections: list[Any]) -> bytes:
    """Return the smallest encoding of a message that says the same fields, also those of null."""
    found = ""
    for name, content in sections:
        code, kind = _SECTIONS[name]
        found += f"0053{code:02x}{smallest([kind, content] if kind else content)}"
    return bytes.fromhex(found)


def fault_of(data: bytes, origin: str, name: str) -> Fault | None:
    """Look up what a message breaks, and find it there."""
    for origins, names, rule, marker, inside in IRREGULAR:
        if re.fullmatch(origins, origin) and re.fullmatch(names, name):
            found = octets(marker)
            if data.count(found) != 1:
                raise ValueError(f"{origin} {name}: {marker} does not stand there once")
            return Fault(rule, data.index(found) + inside)
    return None
