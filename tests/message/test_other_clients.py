"""Messages that other clients write and other brokers deliver, recorded from them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from amqp10msg import DecodeError, Message, validate
from amqp10msg.basic import BasicMessage, decode_content_header, encode_content_header
from amqp10msg.translate import to_amqp10, to_basic

VECTORS = Path(__file__).parents[1] / "vectors" / "other_clients.jsonl.gz"


def recorded() -> list[dict[str, Any]]:
    with gzip.open(VECTORS, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


MESSAGES = [row for row in recorded() if "hex" in row]
BASIC = [row for row in recorded() if "header" in row]
SOFTWARE = sorted({row["software"] for row in MESSAGES})


@pytest.mark.parametrize("software", SOFTWARE)
def test_recorded_message_is_decoded_or_refused_by_its_rule(software: str) -> None:
    for row in MESSAGES:
        if row["software"] != software:
            continue
        octets = bytes.fromhex(row["hex"])
        errors = [found.rule for found in validate(octets) if found.severity == "error"]
        if row["rule"] is None:
            assert octets == Message.decode(octets).encode(), row
            continue
        with pytest.raises(DecodeError) as caught:
            Message.decode(octets)
        assert row["rule"] == caught.value.rule, row
        assert row["rule"] in errors, row
        assert octets == Message.decode(octets, strict=False).encode(), row


@pytest.mark.parametrize("software", SOFTWARE)
def test_recorded_message_round_trips_over_0_9_1(software: str) -> None:
    for row in MESSAGES:
        if row["software"] == software and row["rule"] is None:
            message = Message.decode(bytes.fromhex(row["hex"]))
            there = to_basic(message)
            back = to_amqp10(there.message).message
            if not there.losses or all(loss.recoverable for loss in there.losses):
                assert message.encode() == back.encode(), row


def test_recorded_content_headers_are_the_same_bytes_after_decoding() -> None:
    assert {"garagemq 2020", "java"} == {row["software"] for row in BASIC}
    for row in BASIC:
        octets, body = bytes.fromhex(row["header"]), bytes.fromhex(row["body"])
        header = decode_content_header(octets)

        assert octets == encode_content_header(header.properties, header.body_size), row
        basic = BasicMessage(header.properties, body)
        translated = to_amqp10(basic)
        back = to_basic(Message.decode(translated.message.encode())).message
        assert basic.properties == back.properties, row
        assert body == back.body, row
