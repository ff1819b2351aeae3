"""The server's decoding of SASL and of attaches, without sockets."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10msg import Array, DecodeError, Described, Symbol, ULong, decode_value, encode_value
from amqp10msg.net import transport
from amqp10msg.net.serve.attaching import Attach
from amqp10msg.net.transport import (
    AMQP_HEADER,
    SASL_HEADER,
    SaslClient,
    SaslError,
    SaslServer,
)

pytestmark = pytest.mark.once


def frame(body: bytes, kind: int = 0, doff: int = 2) -> bytes:
    extended = bytes(4 * (doff - 2))
    size = 8 + len(extended) + len(body)
    return size.to_bytes(4, "big") + bytes([doff, kind, 0, 0]) + extended + body


def performative(code: int | str, *fields: Any) -> bytes:
    descriptor = ULong(code) if isinstance(code, int) else Symbol(code)
    return encode_value(Described(descriptor, list(fields)))


def pieces(octets: bytes, cuts: list[int]) -> Iterator[bytes]:
    places = sorted({0, len(octets), *(cut % (len(octets) + 1) for cut in cuts)})
    for start, end in pairwise(places):
        yield octets[start:end]


cuts = st.lists(st.integers(0, 2**16), max_size=12)


def test_attach_with_a_malformed_terminus_is_refused() -> None:
    source = Described(ULong(0x28), ["q", None, Symbol("whenever")])

    with pytest.raises(DecodeError, match="expiry-policy"):
        Attach.of(transport.Attach(name="l", handle=0, role=True, source=source))


# SASL.


def init(mechanism: str, response: bytes | None = None) -> bytes:
    return frame(performative(0x41, Symbol(mechanism), response), kind=1)


def outcome_of(reply: bytes) -> int | None:
    """Return the code of the SASL outcome at the end of a reply."""
    while reply:
        if reply.startswith(b"AMQP"):
            reply = reply[8:]
            continue
        size = int.from_bytes(reply[:4], "big")
        value = decode_value(reply[8:size])
        reply = reply[size:]
        if value.descriptor == 0x44:
            return int(value.value[0])
    return None


USERS = {"ann": "secret", "bob": ""}


@pytest.mark.parametrize(
    "anonymous, users, mechanism, response, code, user",
    [
        (True, {}, "ANONYMOUS", None, 0, None),
        (True, {}, "ANONYMOUS", b"trace", 0, None),
        (False, USERS, "ANONYMOUS", None, 1, None),
        (True, {}, "PLAIN", b"\0ann\0secret", 1, None),
        (False, USERS, "PLAIN", b"\0ann\0secret", 0, "ann"),
        (False, USERS, "PLAIN", b"ann\0ann\0secret", 0, "ann"),
        (False, USERS, "PLAIN", b"bob\0ann\0secret", 1, None),
        (False, USERS, "PLAIN", b"\0ann\0Secret", 1, None),
        (False, USERS, "PLAIN", b"\0ann\0", 1, None),
        (False, USERS, "PLAIN", b"\0bob\0", 0, "bob"),
        (False, USERS, "PLAIN", b"\0eve\0", 1, None),
        (False, USERS, "PLAIN", b"ann", 1, None),
        (False, USERS, "PLAIN", b"\0\xff\0x", 1, None),
        (True, USERS, "EXTERNAL", b"", 1, None),
    ],
)
def test_plain_credentials(
    anonymous: bool,
    users: dict[str, str],
    mechanism: str,
    response: bytes | None,
    code: int,
    user: str | None,
) -> None:
    server = SaslServer(anonymous=anonymous, users=users)
    reply, rest = server.receive(SASL_HEADER + init(mechanism, response) + AMQP_HEADER)

    assert code == outcome_of(reply)
    assert (code == 0, user) == (server.done, server.user)
    assert (b"" if code else AMQP_HEADER) == rest
    assert bool(code) == bool(server.failed)


def test_mechanisms_are_offered() -> None:
    reply, _ = SaslServer(anonymous=True, users=USERS).receive(SASL_HEADER)

    assert SASL_HEADER == reply[:8]
    offered = decode_value(reply[16:])
    assert Described(ULong(0x40), [Array("symbol", ["PLAIN", "ANONYMOUS"])]) == offered


def test_plain_in_two_steps() -> None:
    server = SaslServer(anonymous=False, users=USERS)
    reply, _ = server.receive(SASL_HEADER + init("PLAIN"))
    assert reply.endswith(frame(performative(0x42, b""), kind=1))
    reply, _ = server.receive(frame(performative(0x43, b"\0ann\0secret"), kind=1))

    assert 0 == outcome_of(reply)
    assert "ann" == server.user


def test_unexpected_sasl_response_is_refused() -> None:
    response = frame(performative(0x43, b"\0ann\0secret"), kind=1)
    for before in (b"", init("PLAIN") + init("PLAIN")):
        server = SaslServer(anonymous=False, users=USERS)
        server.receive(SASL_HEADER + before + response)

        assert (False, None) == (server.done, server.user)
        assert server.failed


def test_connection_without_sasl_if_anonymous() -> None:
    server = SaslServer(anonymous=True, users={})
    assert (b"", AMQP_HEADER + b"x") == server.receive(AMQP_HEADER + b"x")
    assert server.done
    server = SaslServer(anonymous=False, users=USERS)
    assert (SASL_HEADER, b"") == server.receive(AMQP_HEADER)
    assert server.failed


@given(st.binary(max_size=60), cuts, st.booleans())
def test_random_sasl_bytes_get_a_decision(
    garbage: bytes, places: list[int], right_header: bool
) -> None:
    server = SaslServer(anonymous=False, users=USERS)
    for piece in pieces((SASL_HEADER if right_header else b"") + garbage, places):
        server.receive(piece)
        if server.failed:
            break

    assert not server.done
    assert None is server.user


@given(cuts)
def test_sasl_bytes_may_arrive_in_any_pieces(places: list[int]) -> None:
    server = SaslServer(anonymous=False, users=USERS)
    replies, rest = b"", b""
    octets = SASL_HEADER + init("PLAIN", b"\0ann\0secret") + AMQP_HEADER
    for piece in pieces(octets, places):
        if server.done:
            rest += piece
            continue
        reply, over = server.receive(piece)
        replies += reply
        rest += over

    assert (0, AMQP_HEADER) == (outcome_of(replies), rest)


@pytest.mark.parametrize(
    "code",
    [[], [0], {}, {"a": 0}, "0", b"", None, False, True, 0, ULong(0), 0.0, Array("ubyte", [])],
)
def test_code_of_a_sasl_outcome_that_is_not_a_ubyte_is_an_error(code: Any) -> None:
    """Regression: a list or map raised TypeError, and False counted as success."""
    client = SaslClient("ANONYMOUS")
    mechanisms = frame(performative(0x40, Array("symbol", [Symbol("ANONYMOUS")])), kind=1)
    client.receive(SASL_HEADER + mechanisms)
    with pytest.raises(SaslError, match="ubyte"):
        client.receive(frame(performative(0x44, code), kind=1))
    assert not client.done


_SASL_VALUES = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(0, 9), st.text(max_size=4), st.binary(max_size=4)
    ),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner, max_size=2)
    ),
    max_leaves=4,
)


@given(st.integers(0x3F, 0x45), st.lists(_SASL_VALUES, max_size=3), st.booleans())
def test_sasl_frames_with_wrong_field_types_are_refused(
    code: int, fields: list[Any], begins: bool
) -> None:
    octets = frame(performative(code, *fields), kind=1)
    client = SaslClient("PLAIN", user="ann", password="secret")
    mechanisms = frame(performative(0x40, Array("symbol", [Symbol("PLAIN")])), kind=1)
    with contextlib.suppress(SaslError):
        client.receive(SASL_HEADER + (mechanisms if begins else b"") + octets)
    assert not client.done
    server = SaslServer(anonymous=False, users=USERS)
    server.receive(SASL_HEADER + (init("PLAIN") if begins else b"") + octets)
    assert not server.done
