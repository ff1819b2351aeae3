"""Checksums and HMACs in the footer."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import pickle
import zlib
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10msg import (
    AmqpMap,
    ChecksumError,
    Data,
    DecodeError,
    Footer,
    Header,
    Message,
    Properties,
    Symbol,
    UInt,
    scan,
)
from amqp10msg.message.checksums import HMAC_KEY, faults, require, sign, verify, with_checksum

pytestmark = pytest.mark.once

MESSAGE = Message(body="text", properties=Properties(message_id="m-1"), header=None)
CRC, ADLER = "x-opt-crc-32", "x-opt-adler-32"
KEY = b"key"


def received(message: Message) -> Message:
    return Message.decode(message.encode())


def checksum(message: Message) -> UInt:
    return UInt(zlib.crc32(message.bare))


def test_checksums_cover_the_bare_message() -> None:
    sent = with_checksum(MESSAGE, "crc-32", "adler-32")
    bare = scan(sent.encode()).bare

    assert sent.footer == {CRC: UInt(zlib.crc32(bare)), ADLER: UInt(zlib.adler32(bare))}
    assert verify(received(sent))


def test_annotations_do_not_disturb_it_and_the_body_does() -> None:
    sent = received(with_checksum(MESSAGE))
    relayed = Message.decode(scan(sent.encode()).replace(message_annotations={"x-opt-hop": 1}))

    assert verify(relayed)
    assert not verify(relayed.evolve(body="other"))


def test_hmac() -> None:
    came = received(sign(MESSAGE, KEY))

    assert came.footer is not None
    assert hmac.new(KEY, came.bare, hashlib.sha256).digest() == came.footer[HMAC_KEY]
    assert verify(came, KEY)
    assert not verify(came, b"other")


SIGNED = sign(MESSAGE, KEY)
#: What must not be accepted with a key, and why.
FORGERIES: dict[str, tuple[Message, str]] = {
    "another body": (SIGNED.evolve(body="other"), "is wrong for"),
    "another body, checksum made anew": (
        with_checksum(SIGNED.evolve(body="other")),
        "is wrong for the bare message and this key",
    ),
    "other properties": (SIGNED.evolve(properties=Properties(message_id="m-2")), "is wrong for"),
    "properties taken away": (SIGNED.evolve(properties=None), "is wrong for"),
    "application properties added": (
        SIGNED.evolve(application_properties={"a": 1}),
        "is wrong for",
    ),
    "signed with another key": (sign(MESSAGE, b"other"), "is wrong for"),
    "never signed": (MESSAGE, "is missing"),
    "an empty footer": (MESSAGE.evolve(footer={}), "is missing"),
    "a checksum alone": (with_checksum(MESSAGE), "is missing"),
    "signature and a wrong checksum": (
        SIGNED.evolve(footer={**(SIGNED.footer or {}), CRC: UInt(1)}),
        "x-opt-crc-32 is wrong for",
    ),
    **{
        f"{held!r} as signature": (MESSAGE.evolve(footer={HMAC_KEY: held}), "is wrong for")
        for held in ("text", b"", b"\0" * 32, True, None, UInt(1), [b""])
    },
}
#: What must not be accepted without one.
DAMAGED: dict[str, tuple[Message, str]] = {
    "no footer": (MESSAGE, "no checksum"),
    "an empty footer": (MESSAGE.evolve(footer={}), "no checksum"),
    "an unknown checksum": (MESSAGE.evolve(footer={"x-opt-sha-1": b""}), "no checksum"),
    "another body": (with_checksum(MESSAGE).evolve(body="other"), "is wrong for"),
    "one right and one wrong": (
        MESSAGE.evolve(footer={CRC: checksum(MESSAGE), ADLER: UInt(1)}),
        "x-opt-adler-32 is wrong for",
    ),
    "signed": (SIGNED, "cannot be verified without a key"),
    "signed, with a checksum": (with_checksum(SIGNED), "cannot be verified without a key"),
    "forged, with signature and a new checksum": (
        with_checksum(SIGNED.evolve(body="other")),
        "cannot be verified without a key",
    ),
    **{
        f"{held!r} as checksum": (MESSAGE.evolve(footer={CRC: held}), "is wrong for")
        for held in ("1", True, b"", None)
    },
}
# Not what a type checker would let through, only what a reader might write.
asked: Any = verify
raised: Any = require
#: Ways to ask. What raises anything does not accept either.
SPELLINGS: dict[str, Callable[..., Any]] = {
    "if verify()": lambda *given: bool(asked(*given)),
    "is True": lambda *given: asked(*given) is True,
    "is not False": lambda *given: asked(*given) is not False,
    "true and not None": lambda *given: asked(*given) and asked(*given) is not None,
    "== True": lambda *given: asked(*given) == True,  # noqa: E712
    "!= False": lambda *given: asked(*given) != False,  # noqa: E712
    "!= {}": lambda *given: asked(*given) and asked(*given) != {},
    "== {} of True": lambda *given: asked(*given) == dict.fromkeys((CRC, HMAC_KEY), True),
    "== {}": lambda *given: asked(*given) == {},
    "all(values)": lambda *given: all(asked(*given).values()),
    "any(values)": lambda *given: any(asked(*given).values()),
    "all()": lambda *given: all(asked(*given)),
    "any()": lambda *given: any(asked(*given)),
    "[HMAC_KEY]": lambda *given: asked(*given)[HMAC_KEY],
    ".get(HMAC_KEY)": lambda *given: asked(*given).get(HMAC_KEY),
    "HMAC_KEY in": lambda *given: HMAC_KEY in asked(*given),
    "len()": lambda *given: len(asked(*given)),
    "iteration": lambda *given: [*asked(*given)] != [False],
    "not faults()": lambda *given: not faults(*given),
    "faults() == ()": lambda *given: faults(*given) == (),
    "no fault": lambda *given: not any(faults(*given)),
    "require()": lambda *given: raised(*given) is None,
}


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("forgery", FORGERIES)
def test_no_call_form_accepts_a_forgery(forgery: str, spelling: str) -> None:
    with contextlib.suppress(TypeError, AttributeError, ChecksumError):
        assert not SPELLINGS[spelling](received(FORGERIES[forgery][0]), KEY)


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("name", DAMAGED)
def test_no_call_form_accepts_damage_without_a_key(name: str, spelling: str) -> None:
    with contextlib.suppress(TypeError, AttributeError, ChecksumError):
        assert not SPELLINGS[spelling](received(DAMAGED[name][0]))


@pytest.mark.parametrize("key", [None, b"", "key", 5])
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_invalid_key_is_refused(key: Any, spelling: str) -> None:
    """A setting that is not there is None, and must not turn the check off."""
    with pytest.raises((TypeError, ValueError)):
        SPELLINGS[spelling](received(with_checksum(MESSAGE)), key)


def test_require_lists_all_faults() -> None:
    for message, why in FORGERIES.values():
        with pytest.raises(ChecksumError, match=why) as caught:
            require(message, KEY)
        assert caught.value.faults == faults(message, KEY)
        assert str(caught.value) == str(pickle.loads(pickle.dumps(caught.value)))
    for message, why in DAMAGED.values():
        with pytest.raises(ChecksumError, match=why):
            require(message)
    require(received(SIGNED), KEY)
    require(received(with_checksum(SIGNED, "crc-32", "adler-32")), KEY)
    require(received(with_checksum(MESSAGE, "adler-32")))


@given(st.binary(max_size=12), st.integers(0), st.booleans())
def test_accepted_mutations_keep_the_signed_content(
    inserted: bytes, place: int, replace: bool
) -> None:
    """Whatever a forger does to the bytes, strict or not: what is accepted says the same."""
    octets = sign(MESSAGE.evolve(body=[Data(b"one"), Data(b"two")]), KEY).encode()
    place %= len(octets) + 1
    forged = octets[:place] + inserted + octets[place + (len(inserted) if replace else 0) :]
    for strict in (True, False):
        try:
            came = Message.decode(forged, strict=strict)
        except DecodeError:
            continue
        if verify(came, KEY):
            genuine = Message.decode(octets)
            assert genuine.bare == came.bare
            assert genuine.body == came.body
            assert genuine.properties == came.properties


def lenient(*pairs: tuple[Any, Any]) -> Message:
    """A message whose footer no dict holds."""
    made = Message.decode(MESSAGE.encode(), strict=False)
    made.footer = AmqpMap(pairs)  # type: ignore[assignment]
    return Message.decode(made.encode(), strict=False)


def test_all_duplicate_checksum_entries_must_be_valid() -> None:
    digest = hmac.digest(KEY, MESSAGE.bare, "sha256")
    right, wrong = (Symbol(HMAC_KEY), digest), (Symbol(HMAC_KEY), b"x" * 32)

    assert verify(lenient(right, right), KEY)
    assert not verify(lenient(right, wrong), KEY)
    assert not verify(lenient(wrong, right), KEY)
    assert not verify(lenient(right, (HMAC_KEY, b"")), KEY)
    twice = [(Symbol(CRC), checksum(MESSAGE)), (Symbol(CRC), UInt(1))]
    assert not verify(lenient(*twice))
    assert not verify(lenient(*reversed(twice)))


def test_footer_as_amqp_map_keeps_its_entries() -> None:
    came = lenient(([1], "of a list"), (Symbol(HMAC_KEY), b"old"), (Symbol("x"), 5))
    sent = Message.decode(with_checksum(sign(came, KEY)).encode(), strict=False)

    assert verify(sent, KEY)
    assert sent.footer is not None
    assert [[1], "x", HMAC_KEY, CRC] == list(sent.footer)


def test_the_message_itself_stays() -> None:
    assert MESSAGE.footer is None
    sent = sign(MESSAGE.evolve(header=Header(priority=3), footer=Footer({"x-opt-a": 1})), KEY)

    assert Header(priority=3) == sent.header
    assert ["x-opt-a", HMAC_KEY] == list(sent.footer or ())


def test_unknown_algorithm() -> None:
    with pytest.raises(ValueError, match="unknown checksum 'md5': use crc-32 or adler-32"):
        with_checksum(MESSAGE, "md5")
