"""Checksums and HMACs over the bare message, in its footer (Part 3, 3.2.9).

`verify` says whether the footer vouches for the message, `require` raises where it does not, and
`faults` says what speaks against it. A checksum finds damage; anybody can make one, so it does
not prove who sent the message. Only an HMAC is, and only with its key.

The bytes covered are those of `Message.bare`: no intermediary may change them (Part 3, 3.2), so
a checksum made by the producer can be verified by the consumer. ``x-opt-crc-32`` and
``x-opt-adler-32`` are what RabbitMQ's Erlang client writes; ``x-opt-hmac-sha-256`` is ours.
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

_USUAL = "crc-32"
_CHECKSUMS: Mapping[str, Callable[[bytes], int]] = {
    _USUAL: zlib.crc32,
    "adler-32": zlib.adler32,
}
_PREFIX = "x-opt-"
#: The footer's key of an HMAC-SHA-256, a binary of 32 bytes.
HMAC_KEY = "x-opt-hmac-sha-256"


def with_checksum(message: Message, *algorithms: str) -> Message:
    """Return the message with checksums of its bare message in the footer, each a uint.

    Args:
        message: its other sections stay byte for byte.
        algorithms: ``crc-32`` and ``adler-32``; ``crc-32`` if none is named.

    Raises:
        ValueError: an algorithm is not known.
        TypeError: that is not a Message.
        EncodeError: the message cannot be encoded.
    """
    _check(message)
    for name in algorithms:
        if name not in _CHECKSUMS:
            raise ValueError(f"{name!r} is not a checksum: use {' or '.join(_CHECKSUMS)}")
    bare = message.bare
    return _with_entries(
        message,
        {_PREFIX + name: UInt(_CHECKSUMS[name](bare)) for name in algorithms or (_USUAL,)},
    )


def sign(message: Message, key: bytes) -> Message:
    """Return the message with an HMAC-SHA-256 of its bare message in the footer.

    Raises:
        ValueError: the key is empty: anybody could sign with it.
        TypeError: the key is not bytes, or that is not a Message.
        EncodeError: the message cannot be encoded.
    """
    _check(message, key)
    return _with_entries(message, {HMAC_KEY: hmac.digest(key, message.bare, "sha256")})


def verify(message: Message, key: bytes | EllipsisType = ...) -> bool:
    """Return whether the footer vouches for the bare message.

    With a key, an HMAC made with it must be there. Without one, a checksum must be there, and no
    HMAC, which only its key can check. Either way, whatever else the footer has of HMACs and
    checksums must be right, too. `faults` says what is not.

    Args:
        message: the message as it was received.
        key: of the HMAC. Leave it out where messages are not signed: anybody can make a checksum,
            so without a key this finds damage, not forgeries. None is refused, as that is what a
            setting gives that is not there.

    Raises:
        ValueError: the key is empty.
        TypeError: the key is not bytes, or that is not a Message.
        EncodeError: the message cannot be encoded.
    """
    return not faults(message, key)


def require(message: Message, key: bytes | EllipsisType = ...) -> None:
    """Raise where the footer does not vouch for the bare message, as `verify` says.

    Raises:
        ChecksumError: what was required is not there, or not right.
        ValueError: the key is empty.
        TypeError: the key is not bytes, or that is not a Message.
        EncodeError: the message cannot be encoded.
    """
    found = faults(message, key)
    if found:
        raise ChecksumError(found)


def faults(message: Message, key: bytes | EllipsisType = ...) -> tuple[str, ...]:
    """Return the reasons why `verify` does not accept a message, a sentence each; empty if none.

    Args:
        message: as of `verify`.
        key: as of `verify`.

    Raises:
        ValueError: the key is empty.
        TypeError: the key is not bytes, or that is not a Message.
        EncodeError: the message cannot be encoded.
    """
    _check(message, key)
    bare = message.bare
    found: list[str] = []
    signatures = _entries(message, HMAC_KEY)
    if isinstance(key, EllipsisType):
        if signatures:
            found.append(f"{HMAC_KEY} is not checked, as that takes its key")
    else:
        right = hmac.digest(key, bare, "sha256")
        if not signatures:
            found.append(f"{HMAC_KEY} is missing from the footer")
        elif not all(
            isinstance(held, bytes) and hmac.compare_digest(held, right) for held in signatures
        ):
            found.append(f"{HMAC_KEY} is not that of the bare message with this key")
    checksums = 0
    for name, algorithm in _CHECKSUMS.items():
        for held in _entries(message, _PREFIX + name):
            checksums += 1
            if isinstance(held, bool) or not isinstance(held, int) or held != algorithm(bare):
                found.append(f"{_PREFIX}{name} is not that of the bare message")
    if not checksums and isinstance(key, EllipsisType):
        names = " nor ".join(_PREFIX + name for name in _CHECKSUMS)
        found.append(f"the footer has no checksum, neither {names}")
    return tuple(found)


def _entries(message: Message, name: str) -> list[Any]:
    """Return each value of a key of the footer: a message read leniently may have several."""
    pairs: Mapping[Any, Any] = message.footer or {}
    return [value for key, value in pairs.items() if isinstance(key, str) and key == name]


def _with_entries(message: Message, entries: Mapping[str, Any]) -> Message:
    """Return the message with these entries in its footer, and its others as they were."""
    copy = message.evolve()
    footer = merged(message.footer, entries)
    copy.footer = footer if isinstance(footer, AmqpMap) else Footer(footer)  # type: ignore[assignment]  # lenient messages hold one
    return copy


def _check(message: Message, key: bytes | EllipsisType = ...) -> None:
    expect_message(message, "a checksum")
    if isinstance(key, EllipsisType):
        return
    how = {
        str: "encode it, key.encode()",
        NoneType: "leave it out where messages are not signed",
    }
    expect(key, (bytes, bytearray), "the key of an HMAC", "bytes", how)
    if not key:
        raise ValueError("the key of an HMAC is empty: give 32 random bytes or more")
