"""The protocol of a peer by its first bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10msg.net.transport import AMQP_HEADER, SASL_HEADER
from amqp10msg.net.transport.greetings import explain_protocol, protocol_of

GREETINGS = {
    b"AMQP\x00\x00\x09\x01": "AMQP 0-9-1",
    AMQP_HEADER: "AMQP 1.0",
    b"AMQP\x02\x01\x00\x00": "AMQP 1.0",
    SASL_HEADER: "AMQP 1.0",
    b"HTTP/1.1 400 Bad": "HTTP",
    b"\x15\x03\x03\x00\x02\x02": "TLS",
}


@given(st.sampled_from(sorted(GREETINGS)), st.binary(max_size=8))
def test_later_bytes_do_not_change_the_protocol(greeting: bytes, later: bytes) -> None:
    assert GREETINGS[greeting] == protocol_of(greeting + later)


@given(st.binary(max_size=8))
def test_protocol_without_advice_is_not_explained(first_bytes: bytes) -> None:
    assert "" == explain_protocol(first_bytes, {})
    protocol = protocol_of(first_bytes)
    expected = f": this is {protocol}, go" if protocol else ""
    assert expected == explain_protocol(first_bytes, {protocol: "go"} if protocol else {})


@pytest.mark.parametrize(
    "first_bytes", [b"", b"AMQP", b"AMQP\x01\x01\x00\x0a", b"SSH-2.0-", b"\x15"]
)
def test_other_bytes_are_unknown(first_bytes: bytes) -> None:
    assert "" == protocol_of(first_bytes)
