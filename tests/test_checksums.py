"""Checksums and HMACs in the footer."""

from __future__ import annotations

import hashlib
import hmac
import zlib

import pytest

from amqp10msg import Message, Properties, UInt, scan
from amqp10msg.checksums import HMAC_KEY, sign, verify, with_checksum

MESSAGE = Message(body="text", properties=Properties(message_id="m-1"), header=None)


def test_checksums_cover_the_bare_message() -> None:
    sent = with_checksum(MESSAGE, "crc-32", "adler-32")
    bare = scan(sent.encode()).bare

    assert sent.footer == {
        "x-opt-crc-32": UInt(zlib.crc32(bare)),
        "x-opt-adler-32": UInt(zlib.adler32(bare)),
    }
    assert {"x-opt-crc-32": True, "x-opt-adler-32": True} == verify(Message.decode(sent.encode()))


def test_annotations_do_not_disturb_it_and_the_body_does() -> None:
    sent = Message.decode(with_checksum(MESSAGE).encode())
    relayed = Message.decode(scan(sent.encode()).replace(message_annotations={"x-opt-hop": 1}))

    assert {"x-opt-crc-32": True} == verify(relayed)
    assert {"x-opt-crc-32": False} == verify(relayed.evolve(body="other"))


def test_hmac() -> None:
    sent = sign(MESSAGE, b"key")
    received = Message.decode(sent.encode())

    assert received.footer is not None
    assert hmac.new(b"key", received.bare, hashlib.sha256).digest() == received.footer[HMAC_KEY]
    assert {HMAC_KEY: True} == verify(received, b"key")
    assert {HMAC_KEY: False} == verify(received, b"other")
    assert {} == verify(received)


def test_a_signature_that_is_gone_is_no_signature() -> None:
    assert {HMAC_KEY: False} == verify(MESSAGE, b"key")
    assert {HMAC_KEY: False} == verify(MESSAGE.evolve(footer={HMAC_KEY: "text"}), b"key")


def test_a_checksum_of_the_wrong_type_is_wrong() -> None:
    assert {"x-opt-crc-32": False} == verify(MESSAGE.evolve(footer={"x-opt-crc-32": "1"}))


def test_unknown_algorithm() -> None:
    with pytest.raises(ValueError, match="'md5' is not a checksum: use crc-32 or adler-32"):
        with_checksum(MESSAGE, "md5")
