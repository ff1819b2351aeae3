"""What RabbitMQ, python-qpid-proton and rhea were recorded to send: vectors/recorded.jsonl.gz.

Every message is read to the values that were recorded with it, which another reader wrote down, and
keeps its bytes. Some break the specification; which ones is told here from the recorded values,
by a table of the specification that is not the library's.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from amqp10msg import DecodeError, Message, Symbol, ULong, decode_values, encode_value
from amqp10msg.notation import from_typed, to_typed
from tests.samples import recorded

Entry = dict[str, Any]


# What Part 3, 3.2 wants of a section, for values in typed JSON.

MESSAGE_ID = {"ulong", "uuid", "binary", "string"}
FIELDS: dict[str, list[set[str]]] = {
    "header": [{"boolean"}, {"ubyte"}, {"uint"}, {"boolean"}, {"uint"}],
    "properties": [
        MESSAGE_ID,
        {"binary"},
        {"string"},
        {"string"},
        {"string"},
        MESSAGE_ID,
        {"symbol"},
        {"symbol"},
        {"timestamp"},
        {"timestamp"},
        {"string"},
        {"uint"},
        {"string"},
    ],
}
ANNOTATIONS = {"delivery-annotations", "message-annotations", "footer"}
COMPOUND = {"list", "map", "array"}
NUMERIC = {
    Symbol("amqp:data:binary"): ULong(0x75),
    Symbol("amqp:amqp-value:*"): ULong(0x77),
}
ORDER = [
    *("header", "delivery-annotations", "message-annotations", "properties"),
    *("application-properties", "body", "footer"),
]


def described(value: Any) -> Any:
    while value[0] == "described":
        value = value[2]
    return value


def faults_of_model(sections: list[Any]) -> set[str]:
    """Name what the sections break of Part 3."""
    found = set()
    body = {name for name, _ in sections if name in {"data", "amqp-sequence", "amqp-value"}}
    if len(body) > 1:
        found.add("mixed-body-sections")
    places = [
        ORDER.index("body" if name in body else name) for name, _ in sections if name != "unknown"
    ]
    if places != sorted(places):
        found.add("section-out-of-order")
    if len(set(places) - {5}) != len([place for place in places if place != 5]):
        found.add("duplicate-section")
    for name, content in sections:
        if name in FIELDS:
            types = [value[0] for value in content]
            allowed = [{"null"} | kinds for kinds in FIELDS[name]]
            if len(types) > len(allowed) or any(
                kind not in kinds for kind, kinds in zip(types, allowed, strict=False)
            ):
                found.add("field-type")
        if name in ANNOTATIONS and any(key[0] not in {"symbol", "ulong"} for key, _ in content):
            found.add(f"{name}-key-type")
        if name == "application-properties":
            if any(key[0] != "string" for key, _ in content):
                found.add("application-properties-key-type")
            if any(described(value)[0] in COMPOUND for _, value in content):
                found.add("application-properties-value-not-simple")
    return found


def faults_of_encoding(entry: Entry) -> set[str]:
    """Name what the bytes break of Part 1."""
    found = {"malformed"} if "malformed" in entry else set()
    for name, content in entry["sections"]:
        if name == "data":
            continue
        values = [content] if name == "amqp-value" else content
        for value in values:
            pairs = [value] if name in ANNOTATIONS | {"application-properties"} else [(value,)]
            for pair in pairs:
                for one in pair:
                    found |= faults_of_value(one)
        if name in ANNOTATIONS | {"application-properties"}:
            found |= repeated(content)
    return found


def faults_of_value(value: Any) -> set[str]:
    kind = value[0]
    if kind == "string" and isinstance(value[1], dict):
        return {"invalid-utf8"}
    if kind == "symbol" and (isinstance(value[1], dict) or not value[1].isascii()):
        return {"symbol-not-ascii"}
    found: set[str] = set()
    if kind == "map":
        found |= repeated(value[1])
        children = [one for pair in value[1] for one in pair]
    elif kind == "described":
        children = value[1:]
    elif kind == "array":
        children = value[2] + (value[3] if len(value) > 3 else [])
    else:
        children = value[1] if kind == "list" else []
    for child in children:
        found |= faults_of_value(child)
    return found


def repeated(pairs: list[Any]) -> set[str]:
    counts = Counter(json.dumps(key) for key, _ in pairs)
    return {"map-duplicate-key"} if any(count > 1 for count in counts.values()) else set()


def groups() -> list[Any]:
    """One test per sender and direction: some 4,000 single ones would say no more."""
    found: dict[str, list[Entry]] = {}
    for entry in recorded():
        sender, queue, direction, _ = entry["origins"][0]
        name = "-".join(filter(None, (sender.replace(" ", "-"), queue, direction)))
        found.setdefault(name, []).append(entry)
    return [pytest.param(group, id=name) for name, group in found.items()]


regular = pytest.mark.parametrize("group", groups())


def where(entry: Entry) -> str:
    return f"{' / '.join(entry['origins'][0])}: {entry['raw']}"


@regular
def test_recorded_message_is_read_and_kept(group: list[Entry]) -> None:
    for entry in group:
        if faults_of_encoding(entry):
            continue
        raw = bytes.fromhex(entry["raw"])
        strict = not faults_of_model(entry["sections"])
        message = Message.decode(raw, strict=strict)
        assert raw == message.encode(), where(entry)
        assert entry["sections"] == to_typed(message), where(entry)
        assert strict == (message.violations == ()), where(entry)


@regular
def test_what_breaks_the_specification_is_refused(group: list[Entry]) -> None:
    for entry in group:
        faults = faults_of_encoding(entry) | faults_of_model(entry["sections"])
        if not faults:
            continue
        with pytest.raises(DecodeError) as caught:
            Message.decode(bytes.fromhex(entry["raw"]))
        if "malformed" not in faults:
            assert caught.value.rule in faults, where(entry)


@regular
def test_what_is_no_encoding_is_read_beside_its_faults(group: list[Entry]) -> None:
    for entry in group:
        faults = faults_of_encoding(entry)
        raw = bytes.fromhex(entry["raw"])
        if not faults or (message := lenient(raw)) is None:
            continue
        assert raw == message.encode(), where(entry)
        broken = {violation.rule for violation in message.violations}
        assert faults == {"malformed"} or faults & broken, where(entry)
        typed = to_typed(message)
        assert any(section[0] == "raw" for section in typed), where(entry)
        for read, kept in zip(typed, entry["sections"], strict=False):
            assert read[0] == "raw" or read == kept, where(entry)


def lenient(raw: bytes) -> Message | None:
    try:
        return Message.decode(raw, strict=False)
    except DecodeError:
        return None


def test_few_recordings_cannot_be_divided_into_sections() -> None:
    unread = [entry for entry in recorded() if lenient(bytes.fromhex(entry["raw"])) is None]
    damaged = [entry for entry in recorded() if faults_of_encoding(entry)]
    assert all("malformed" in faults_of_encoding(entry) for entry in unread)
    assert 4 * len(unread) < len(damaged)


@regular
def test_typed_sections_make_the_same_message(group: list[Entry]) -> None:
    for entry in group:
        if faults_of_encoding(entry):
            continue
        message = Message.decode(
            bytes.fromhex(entry["raw"]), strict=not faults_of_model(entry["sections"])
        )
        made = from_typed(entry["sections"])
        assert message == made, where(entry)
        assert entry["sections"] == to_typed(made), where(entry)
        generic = list(decode_values(bytes.fromhex(entry["raw"])))
        for section in generic:
            # The typed form names the section and leaves the form of its descriptor open.
            section.descriptor = NUMERIC.get(section.descriptor, section.descriptor)
        assert b"".join(map(encode_value, generic)) == made.encode(), where(entry)


def test_recordings_cover_what_they_are_for() -> None:
    senders = {(origin[0], origin[1]) for entry in recorded() for origin in entry["origins"]}
    expected = {
        (f"RabbitMQ {version}", queue)
        for version in ("3.10.8", "4.0.5", "4.3.6")
        for queue in ("classic", "quorum", "stream")
        if (version, queue) != ("3.10.8", "quorum")
    }
    assert expected | {("python-qpid-proton 0.40.0", ""), ("rhea 3.0.5", "")} == senders
    sections = {name for entry in recorded() for name, _ in entry["sections"]}
    bodies = {"data", "amqp-sequence", "amqp-value"}
    assert set(ORDER) - {"body"} | bodies == sections
    assert len({entry["raw"] for entry in recorded()}) == len(recorded())
    sound = [entry for entry in recorded() if not faults_of_encoding(entry)]
    assert len(sound) > 0.9 * len(recorded())
