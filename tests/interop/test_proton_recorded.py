"""Recorded messages, as proton reads them and as they convert to proton's."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest

from amqp10msg import AmqpError, DecodeError, Message
from tests.samples import recorded_octets

proton = pytest.importorskip("proton", reason="needs python-qpid-proton")

from amqp10msg.interop.proton import from_proton, losses, to_proton  # noqa: E402  (needs proton)
from tests.interop.proton_comparison import decoded_by_proton, disagreements, same_message  # noqa: E402

# Proton's attributes show these up to the first NUL.
C_STRINGS = (
    *("to", "subject", "reply_to", "content_type", "content_encoding"),
    *("group_id", "reply_to_group_id"),
)


@pytest.mark.skipif("AMQP10MSG_VECTORS" not in os.environ, reason="AMQP10MSG_VECTORS is not set")
def test_messages_of_other_projects_proton_reads_as_we_do() -> None:
    path = Path(os.environ["AMQP10MSG_VECTORS"]) / "cases.jsonl.gz"
    kept = 0
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        cases = [json.loads(line) for line in lines]
    for case in cases:
        octets = bytes.fromhex(case["hex"])
        if case["kind"] == "value":
            octets = b"\0\x53\x77" + octets
        elif case["kind"] != "message":
            continue
        try:
            message = Message.decode(octets)
        except DecodeError:
            continue
        if kept_by_proton(message, octets):
            kept += 1
            assert [] == disagreements(message, decoded_by_proton(octets)), case["id"]

    assert kept > 500, "too few for a comparison"


def kept_by_proton(message: Message, octets: bytes) -> bool:
    try:
        again = Message.decode(bytes(decoded_by_proton(octets).encode()), strict=False)
    except (proton.ProtonException, DecodeError, TypeError, ValueError):
        # TypeError and ValueError: keys that Python cannot hash, text that it cannot decode.
        return False
    return same_message(message, again) and not any(
        "\0" in (getattr(message.properties, name, None) or "") for name in C_STRINGS
    )


def test_recorded_messages_proton_reads_as_we_do() -> None:
    kept = 0
    for octets in recorded_octets():
        try:
            message = Message.decode(octets)
        except DecodeError:
            continue
        if not kept_by_proton(message, octets):
            continue
        kept += 1
        theirs = decoded_by_proton(octets)
        assert [] == disagreements(message, theirs), octets.hex()
        assert same_message(message, from_proton(theirs)), octets.hex()

    assert kept > 1000, "too few for a comparison"


def test_recorded_messages_convert_without_loss_or_say_what_is_lost() -> None:
    converted = 0
    for octets in recorded_octets():
        try:
            message = Message.decode(octets)
            lost = losses(message)
        except AmqpError:
            continue
        if in_c_strings(lost):
            continue  # whether all of these is sent depends on the version of proton
        again = Message.decode(bytes(to_proton(message, lossy=True).encode()))
        assert same_message(message, again) == (not lost), octets.hex()
        converted += 1

    assert converted > 1000, "too few for a comparison"


def in_c_strings(lost: tuple[Any, ...]) -> bool:
    return bool(lost) and all("NUL" in loss.text for loss in lost)
