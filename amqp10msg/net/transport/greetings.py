"""Recognises the protocol of a peer by its first bytes, to explain a connection to a wrong port."""

from __future__ import annotations

from collections.abc import Mapping

#: The name of a protocol, by the first bytes that its peers send. AMQP 1.0 has three protocol
#: headers: for AMQP, TLS and SASL (Part 2, 2.2; Part 5, 5.2.1 and 5.3.1).
_PROTOCOLS = {
    b"AMQP\x00\x00\x09\x01": "AMQP 0-9-1",
    b"AMQP\x00\x01\x00\x00": "AMQP 1.0",
    b"AMQP\x02\x01\x00\x00": "AMQP 1.0",
    b"AMQP\x03\x01\x00\x00": "AMQP 1.0",
    b"HTTP/": "HTTP",
    b"\x15\x03": "TLS",  # an alert record, with which a TLS server answers a client without TLS
}


def protocol_of(first_bytes: bytes) -> str:
    """Return ``AMQP 0-9-1``, ``AMQP 1.0``, ``HTTP`` or ``TLS``; empty for other bytes."""
    return next((name for start, name in _PROTOCOLS.items() if first_bytes.startswith(start)), "")


def explain_protocol(first_bytes: bytes, advice: Mapping[str, str]) -> str:
    """Return which protocol a peer speaks instead of the expected one, and what to do.

    Args:
        first_bytes: the first bytes that the peer sent.
        advice: what to do, by the names that `protocol_of` returns.

    Returns:
        A text that begins with a colon; empty if the protocol is unknown or has no advice.
    """
    protocol = protocol_of(first_bytes)
    return f": this is {protocol}, {advice[protocol]}" if protocol in advice else ""
