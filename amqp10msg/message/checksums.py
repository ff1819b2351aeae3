"""Checksums and HMACs of the bare message in the footer (Part 3, 3.2.9).

`verify` returns whether the checksums and HMACs in the footer are correct, `require` raises if they
are not, and `faults` returns the reasons. A checksum detects damage. It does not prove who sent the
message, because anybody can compute it; an HMAC does, for holders of its key.

Checksums and HMACs cover the bytes of `Message.bare`. Intermediaries must not change these bytes
(Part 3, 3.2), so the consumer can verify a checksum of the producer. RabbitMQ's Erlang client
writes ``x-opt-crc-32`` and ``x-opt-adler-32``; this library defines ``x-opt-hmac-sha-256``.
"""

from __future__ import annotations

import hmac
import zlib
from collections.abc import Callable, Mapping
from types import EllipsisType, NoneType
from typing import Any

from amqp10msg.message import Message, expect_message
from amqp10msg.sections import Footer
from amqp10msg.sections.parts import merged
from amqp10msg.wire.errors import ChecksumError, expect
from amqp10msg.wire.primitives import AmqpMap, UInt

__all__ = ["HMAC_KEY", "faults", "require", "sign", "verify", "with_checksum"]

#: The algorithm of `with_checksum` if none is passed.
_DEFAULT_ALGORITHM = "crc-32"
#: The function that computes each checksum, by the name of the algorithm.
_CHECKSUMS: Mapping[str, Callable[[bytes], int]] = {
    _DEFAULT_ALGORITHM: zlib.crc32,
    "adler-32": zlib.adler32,
}
#: A footer key is this prefix and the name of the algorithm.
_KEY_PREFIX = "x-opt-"
#: The footer key of an HMAC-SHA-256; its value is a binary of 32 bytes.
HMAC_KEY = "x-opt-hmac-sha-256"


def with_checksum(message: Message, *algorithms: str) -> Message:
    """Return a copy of the message with checksums of its bare message in the footer.

    The values are uints. The bytes of all other sections stay the same.

    Args:
        message: the message.
        algorithms: ``crc-32``, ``adler-32`` or both; ``crc-32`` by default.

    Raises:
        ValueError: an algorithm is unknown.
        TypeError: `message` is not a `Message`.
        EncodeError: the message cannot be encoded.
    """
    _check_arguments(message)
    for name in algorithms:
        if name not in _CHECKSUMS:
            raise ValueError(f"unknown checksum {name!r}: use {' or '.join(_CHECKSUMS)}")
    bare = message.bare
    return _with_footer_entries(
        message,
        {
            _KEY_PREFIX + name: UInt(_CHECKSUMS[name](bare))
            for name in algorithms or (_DEFAULT_ALGORITHM,)
        },
    )


def sign(message: Message, key: bytes) -> Message:
    """Return a copy of the message with an HMAC-SHA-256 of its bare message in the footer.

    Args:
        message: the message.
        key: the secret key; 32 random bytes or more.

    Raises:
        ValueError: the key is empty, so anybody could sign with it.
        TypeError: `key` is not bytes, or `message` is not a `Message`.
        EncodeError: the message cannot be encoded.
    """
    _check_arguments(message, key)
    return _with_footer_entries(message, {HMAC_KEY: hmac.digest(key, message.bare, "sha256")})


def verify(message: Message, key: bytes | EllipsisType = ...) -> bool:
    """Return whether the checksums and HMACs in the footer are correct.

    With a key, the footer must have an HMAC that was computed with the key. Without a key, the
    footer must have a checksum; an HMAC makes the result False, because verifying it needs its key.
    In both cases, all checksums and HMACs in the footer must be correct.

    Args:
        message: the received message.
        key: the key of the HMAC. Omit it if messages are not signed: a valid result then means that
            the message is not damaged, but it may be forged. None raises TypeError, because a
            missing configuration value must not turn off the check of signatures.

    Raises:
        ValueError: the key is empty.
        TypeError: `key` is not bytes, or `message` is not a `Message`.
        EncodeError: the message cannot be encoded.
    """
    return not faults(message, key)


def require(message: Message, key: bytes | EllipsisType = ...) -> None:
    """Raise ChecksumError if `verify` would return False.

    Args:
        message: as for `verify`.
        key: as for `verify`.

    Raises:
        ChecksumError: a required checksum or HMAC is missing or wrong.
        ValueError: the key is empty.
        TypeError: `key` is not bytes, or `message` is not a `Message`.
        EncodeError: the message cannot be encoded.
    """
    reasons = faults(message, key)
    if reasons:
        raise ChecksumError(reasons)


def faults(message: Message, key: bytes | EllipsisType = ...) -> tuple[str, ...]:
    """Return the reasons why `verify` returns False, as sentences; empty if it returns True.

    Args:
        message: as for `verify`.
        key: as for `verify`.

    Raises:
        ValueError: the key is empty.
        TypeError: `key` is not bytes, or `message` is not a `Message`.
        EncodeError: the message cannot be encoded.
    """
    _check_arguments(message, key)
    bare = message.bare
    reasons: list[str] = []
    signatures = _footer_values(message, HMAC_KEY)
    if isinstance(key, EllipsisType):
        if signatures:
            reasons.append(f"{HMAC_KEY} cannot be verified without a key")
    else:
        expected = hmac.digest(key, bare, "sha256")
        if not signatures:
            reasons.append(f"{HMAC_KEY} is missing from the footer")
        elif not all(
            isinstance(signature, bytes) and hmac.compare_digest(signature, expected)
            for signature in signatures
        ):
            reasons.append(f"{HMAC_KEY} is wrong for the bare message and this key")
    count = 0
    for name, algorithm in _CHECKSUMS.items():
        for value in _footer_values(message, _KEY_PREFIX + name):
            count += 1
            if isinstance(value, bool) or not isinstance(value, int) or value != algorithm(bare):
                reasons.append(f"{_KEY_PREFIX}{name} is wrong for the bare message")
    if not count and isinstance(key, EllipsisType):
        names = " nor ".join(_KEY_PREFIX + name for name in _CHECKSUMS)
        reasons.append(f"the footer has no checksum, neither {names}")
    return tuple(reasons)


def _footer_values(message: Message, name: str) -> list[Any]:
    """Return the values of a footer key; after lenient decoding, there may be several."""
    pairs: Mapping[Any, Any] = message.footer or {}
    return [value for key, value in pairs.items() if isinstance(key, str) and key == name]


def _with_footer_entries(message: Message, entries: Mapping[str, Any]) -> Message:
    """Return a copy of the message with entries added to its footer."""
    copy = message.evolve()
    footer = merged(message.footer, entries)
    # After lenient decoding, the footer may be an AmqpMap.
    is_map = isinstance(footer, AmqpMap)
    copy.footer = footer if is_map else Footer(footer)
    return copy


def _check_arguments(message: Message, key: bytes | EllipsisType = ...) -> None:
    """Raise TypeError or ValueError for an invalid message or key; ``...`` means no key."""
    expect_message(message, "a checksum")
    if isinstance(key, EllipsisType):
        return
    hints = {
        str: "encode it, key.encode()",
        NoneType: "omit it if messages are not signed",
    }
    expect(key, (bytes, bytearray), "the key of an HMAC", "bytes", hints)
    if not key:
        raise ValueError("the key of an HMAC is empty: use 32 random bytes or more")
