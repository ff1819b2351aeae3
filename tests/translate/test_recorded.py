"""The profiles against what brokers did: translations, odd_translations, circumstances in vectors.

Byte for byte: what a 1.0 consumer received, and property flags, property list and body of what a
0-9-1 consumer received. Where the broker refused the message or died on it, TranslationError.
Unusual messages that were not recorded are in broker_oddities.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from amqp10msg import DecodeError, Message, decode_value
from amqp10msg.basic import (
    BasicMessage,
    BasicProperties,
    decode_properties,
    encode_properties,
)
from amqp10msg.translate import (
    PROFILES,
    Circumstances,
    Death,
    EncodedBasic,
    TranslationError,
    TranslationProfile,
    encoded_to_amqp10,
    encoded_to_basic,
    to_amqp10,
    to_basic,
)

Entry = dict[str, Any]
VECTORS = Path(__file__).parents[1] / "vectors"
# What was sent is no encoding of Part 1: a message that is cut off, which some brokers pass on.
UNREADABLE = {"B-trunc"}
VERSIONS = {"3.10.8": "rabbitmq-3.10", "4.0.5": "rabbitmq-4.0", "4.3.6": "rabbitmq-4.3"}


@cache
def entries() -> dict[str, list[Entry]]:
    found: dict[str, list[Entry]] = {}
    for name in ("translations", "odd_translations", "circumstances"):
        with gzip.open(VECTORS / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
            for line in lines:
                entry = json.loads(line)
                found.setdefault(entry["broker"], []).append(entry)
    return found


def profile_of(broker: str) -> TranslationProfile:
    _, version, *queue = broker.split("-")
    return PROFILES[VERSIONS[version] + ("-stream" if queue == ["stream"] else "")]


def text_of(value: Any) -> str:
    if isinstance(value, dict):
        return bytes.fromhex(value["hex"]).decode("utf-8", "surrogateescape")
    return str(value)


def properties_of(raw: str) -> BasicProperties | None:
    """Read properties; None where they are none, which no broker reads either."""
    try:
        return decode_properties(bytes.fromhex(raw))
    except DecodeError:
        return None


def circumstances_of(entry: Entry) -> Circumstances:
    given = entry.get("circumstances", {})
    return Circumstances(
        stream_offset=entry["offset"],
        queue_type=given.get("queue_type", "classic"),
        given_back=given.get("given_back", ()),
        deaths=[
            Death(**{**death, "annotations": annotations_of(death)})
            for death in given.get("deaths", [])
        ],
        annotations=annotations_of(given),
    )


def annotations_of(given: Entry) -> dict[str, Any]:
    value: Any = decode_value(bytes.fromhex(given.get("annotations", "c10100")))
    return {str(name): one for name, one in value.items()}


def message_of(raw: str) -> Message | None:
    data = bytes.fromhex(raw)
    for strict in (True, False):
        try:
            return Message.decode(data, strict=strict)
        except DecodeError:
            pass
    return None


#: The recorded brokers: a version, and a type of queue other than classic.
BROKERS = [
    *("rabbitmq-3.10.8", "rabbitmq-3.10.8-quorum", "rabbitmq-3.10.8-stream"),
    *("rabbitmq-4.0.5", "rabbitmq-4.0.5-quorum", "rabbitmq-4.0.5-stream"),
    *("rabbitmq-4.3.6", "rabbitmq-4.3.6-quorum", "rabbitmq-4.3.6-stream"),
]
brokers = pytest.mark.parametrize("broker", BROKERS)


def test_every_recorded_broker_is_listed() -> None:
    assert set(BROKERS) == set(entries())


def basic_of(entry: Entry) -> BasicMessage | None:
    properties = properties_of(entry["basic"][0])
    if properties is None:
        return None
    exchange, key = (text_of(entry.get(name, "")) for name in ("exchange", "key"))
    return BasicMessage(properties, bytes.fromhex(entry["basic"][1]), exchange, key)


@brokers
def test_profile_predicts_the_recorded_1_0_message(broker: str) -> None:
    for entry in entries()[broker]:
        if "basic" not in entry:
            continue
        basic = basic_of(entry)
        if basic is None:
            assert entry["gives"] is None, entry["id"]
            continue
        given = circumstances_of(entry)
        try:
            made = to_amqp10(basic, profile_of(broker), circumstances=given)
            octets: bytes | None = made.message.encode()
        except TranslationError as error:
            octets = error.delivered
        assert entry["gives"] == (octets and octets.hex()), entry["id"]


@brokers
def test_profile_predicts_the_recorded_0_9_1_message(broker: str) -> None:
    for entry in entries()[broker]:
        if "message" not in entry:
            continue
        message = message_of(entry["message"])
        if message is None:
            continue  # UNREADABLE
        given = circumstances_of(entry)
        try:
            made = to_basic(message, profile_of(broker), circumstances=given).message
            got: Any = pair_of(made)
        except TranslationError:
            got = None
        assert entry["gives"] == got, entry["id"]
        if "redelivered" in entry:
            assert entry["redelivered"] == made.redelivered, entry["id"]


def test_unreadable_recorded_messages_are_listed() -> None:
    """Sent messages that are no encodings of Part 1, which some brokers pass on all the same."""
    unread = {
        entry["id"]
        for found in entries().values()
        for entry in found
        if "message" in entry and message_of(entry["message"]) is None
    }

    assert UNREADABLE == unread


def test_recordings_cover_what_they_are_for() -> None:
    expected = {
        f"rabbitmq-{version}{queue}" for version in VERSIONS for queue in ("", "-quorum", "-stream")
    }
    assert expected == set(entries())
    assert {profile_of(broker).name for broker in entries()} <= set(PROFILES)
    for broker, found in entries().items():
        if broker == "rabbitmq-3.10.8-quorum":  # as the classic one, but for redeliveries
            assert len(found) > 100
            continue
        assert len(found) > 400
        assert sum(entry["gives"] is None for entry in found) > 10


ODDITIES = [
    json.loads(line)
    for line in (VECTORS / "broker_oddities.jsonl").read_text(encoding="utf-8").splitlines()
]


def results(row: Entry, profile: TranslationProfile) -> list[Any]:
    """Translate the message of a row, decoded and encoded; return what arrives, or the errors."""
    if "basic" in row:
        basic = basic_of(row)
        assert basic is not None
        content = EncodedBasic.of(basic)
        return [
            result_of(to_amqp10, basic, profile),
            result_of(encoded_to_amqp10, content, profile),
        ]
    octets = bytes.fromhex(row["message"])
    message = Message.decode(octets, strict=False)
    found = [result_of(to_basic, message, profile)]
    return found if message.violations else [*found, result_of(encoded_to_basic, octets, profile)]


def pair_of(basic: BasicMessage) -> list[str]:
    return [encode_properties(basic.properties).hex(), basic.body.hex()]


def result_of(translate: Callable[..., Any], message: Any, profile: TranslationProfile) -> Any:
    try:
        made = translate(message, profile).message
    except TranslationError as error:
        return error if error.delivered is None else error.delivered.hex()
    if isinstance(made, EncodedBasic):
        made = made.decode()
    if isinstance(made, BasicMessage):
        return pair_of(made)
    return made.hex() if isinstance(made, bytes) else made.encode().hex()


@pytest.mark.parametrize("row", ODDITIES, ids=lambda row: row["note"])
def test_profile_predicts_the_odd_message(row: Entry) -> None:
    for name in row["profiles"]:
        for result in results(row, PROFILES[name]):
            if "error" in row:
                assert isinstance(result, TranslationError)
                assert str(result).startswith(row["error"])
            else:
                assert row["gives"] == result
    for result in results(row, PROFILES["lossless"]):
        assert not isinstance(result, TranslationError)
