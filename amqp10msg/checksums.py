"""Checksums and HMACs over the bare message, in its footer (Part 3, 3.2.9).

The bytes covered are those of `Message.bare`: no intermediary may change them (Part 3, 3.2), so
a checksum made by the producer can be verified by the consumer. ``x-opt-crc-32`` and
``x-opt-adler-32`` are what RabbitMQ's Erlang client writes; ``x-opt-hmac-sha-256`` is ours.
"""

from __future__ import annotations

import hmac
import zlib
from collections.abc import Callable, Mapping

from amqp10msg.errors import expect
from amqp10msg.message import Message
from amqp10msg.primitives import UInt
from amqp10msg.sections import Footer

__all__ = ["HMAC_KEY", "sign", "verify", "with_checksum"]

_CHECKSUMS: Mapping[str, Callable[[bytes], int]] = {
    "crc-32": zlib.crc32,
    "adler-32": zlib.adler32,
}
_PREFIX = "x-opt-"
#: The footer's key of an HMAC-SHA-256, a binary of 32 octets.
HMAC_KEY = "x-opt-hmac-sha-256"


def with_checksum(message: Message, *algorithms: str) -> Message:
    """Return the message with checksums of its bare message in the footer, each a uint.

    Args:
        message: its other sections stay byte for byte.
        algorithms: ``crc-32`` and ``adler-32``; ``crc-32`` if none is named.

    Raises:
        ValueError: an algorithm is not known.
        TypeError: that is not a Message.
    """
    _check(message)
    bare = message.bare
    footer = Footer(message.footer or {})
    for name in algorithms or ("crc-32",):
        if name not in _CHECKSUMS:
            raise ValueError(f"{name!r} is not a checksum: use {' or '.join(_CHECKSUMS)}")
        footer[_PREFIX + name] = UInt(_CHECKSUMS[name](bare))
    return message.evolve(footer=footer)


def sign(message: Message, key: bytes) -> Message:
    """Return the message with an HMAC-SHA-256 of its bare message in the footer.

    Raises:
        ValueError: the key is empty: anybody could sign with it.
        TypeError: the key is not bytes, or that is not a Message.
    """
    _check(message, key)
    digest = hmac.digest(key, message.bare, "sha256")
    return message.evolve(footer=Footer({**(message.footer or {}), HMAC_KEY: digest}))


def verify(message: Message, key: bytes | None = None) -> dict[str, bool]:
    """Check what the footer says of the bare message.

    Args:
        message: the message as it was received.
        key: of the HMAC. Without it, an HMAC in the footer is not looked at.

    Returns:
        For each checksum found, by its key in the footer, whether it is right. With a key, the
        HMAC's entry is always there, and False where the footer has none: a signature that was
        taken away must not pass for a message that was never signed.

    Raises:
        ValueError: the key is empty.
        TypeError: the key is not bytes, or that is not a Message.
    """
    _check(message, key)
    footer: Mapping[str, object] = message.footer or {}
    bare = message.bare
    found: dict[str, bool] = {}
    for name, algorithm in _CHECKSUMS.items():
        if _PREFIX + name in footer:
            held = footer[_PREFIX + name]
            found[_PREFIX + name] = (
                isinstance(held, int) and not isinstance(held, bool) and held == algorithm(bare)
            )
    if key is not None:
        held = footer.get(HMAC_KEY)
        found[HMAC_KEY] = isinstance(held, bytes) and hmac.compare_digest(
            held, hmac.digest(key, bare, "sha256")
        )
    return found


def _check(message: Message, key: bytes | None = None) -> None:
    expect(message, Message, "a checksum", "a Message", {bytes: "decode it with Message.decode"})
    if key is None:
        return
    how = {str: "encode it, key.encode()"}
    expect(key, (bytes, bytearray), "the key of an HMAC", "bytes", how)
    if not key:
        raise ValueError("the key of an HMAC is empty: give 32 random bytes or more")
