"""What Azure's clients write of a message."""

from __future__ import annotations

from typing import Any

import pytest


def sent(annotated: Any, service: str) -> bytes:
    """Return the bytes that a client sends for an ``AmqpAnnotatedMessage``."""
    encode = pytest.importorskip(f"azure.{service}._pyamqp._encode", reason="no client of Azure")
    transport = pytest.importorskip(f"azure.{service}._transport._pyamqp_transport")
    outgoing = transport.PyamqpTransport.to_outgoing_amqp_message(annotated)
    output = bytearray()
    encode.encode_payload(output, outgoing)
    return bytes(output)
