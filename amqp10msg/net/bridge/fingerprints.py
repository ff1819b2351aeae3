"""Fingerprints of messages, which show whether two deliveries are the same message.

After a stream was declared again, or a file was rotated, a stored position is meaningless. A route
therefore stores the fingerprint of the last message that it settled. Before it continues from the
position after that message, it compares the fingerprint with the message at the position.
"""

from __future__ import annotations

import hashlib
from typing import Any

import attrs

from amqp10msg.basic import BasicMessage, FieldTable, decode_content_header, encode_content_header
from amqp10msg.brokers import RECEIVED_TIME
from amqp10msg.net.ends.terms import SourceDelivery
from amqp10msg.sections.parts import scan
from amqp10msg.translate import as_published
from amqp10msg.wire.errors import AmqpError


@attrs.frozen
class Fingerprint:
    """Identifies the message at one position of a stream or a file.

    Attributes:
        position: the offset in the stream, or the number of the line, from 0.
        protocol: ``0-9-1`` or ``1.0``: the digest of a message depends on the protocol.
        digest: SHA-256 of the message, of the time at which the broker received it, and of the time
            at which the line was written, if these are recorded.
    """

    position: int
    protocol: str
    digest: bytes


def fingerprint_of(delivery: SourceDelivery, *, stream: bool) -> Fingerprint | None:
    """Return the fingerprint of a delivery.

    Return None if the delivery has no position, or its message is too large for memory.
    """
    if delivery.position is None or delivery.large is not None:
        return None
    basic = delivery.content_header is not None
    digest = digest_of(delivery, stream=stream) if basic else _digest_of_message(delivery.octets)
    if digest is None:
        return None
    if delivery.written:
        digest = hashlib.sha256(digest + delivery.written.encode()).digest()
    return Fingerprint(delivery.position, "0-9-1" if basic else "1.0", digest)


def digest_of(delivery: SourceDelivery, *, stream: bool) -> bytes | None:
    """Return a digest of a 0-9-1 message; None if its bytes are not in memory.

    A message has the same digest at the source and at the target: headers that the broker adds to a
    delivery are left out, and the other headers are sorted by name, as RabbitMQ 4 delivers them.
    `stream` is whether the message comes from a stream, whose broker adds more headers.
    """
    if delivery.large is not None:
        return None
    header = delivery.content_header or b""
    try:
        properties = decode_content_header(header).properties
        basic = as_published(BasicMessage(properties, b"", "", "", redelivered=True), stream=stream)
        properties = basic.properties
        if isinstance(properties.headers, FieldTable):  # the type of decoded headers
            entries = sorted(properties.headers.entries, key=lambda entry: entry[0])
            properties = attrs.evolve(properties, headers=FieldTable.of(entries))
        header = encode_content_header(properties, len(delivery.octets))
    except AmqpError:
        pass  # the digest of a header that cannot be decoded is that of its bytes
    return hashlib.sha256(len(header).to_bytes(8, "big") + header + delivery.octets).digest()


def _digest_of_message(octets: bytes) -> bytes:
    """Return a digest of a 1.0 message: of its bare message and the time in `RECEIVED_TIME`.

    Other annotations and the header may change from delivery to delivery.
    """
    try:
        parts = scan(octets)
        annotations: Any = parts.section("message_annotations") or {}
        received = annotations.get(RECEIVED_TIME)
        return hashlib.sha256(parts.bare + repr(received).encode()).digest()
    except AmqpError:
        return hashlib.sha256(octets).digest()
