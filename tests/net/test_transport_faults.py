"""Peers that break rules of the transport: the affected scope ends, and no exception is raised."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10msg import Described, UInt, ULong, decode_values, encode_value
from amqp10msg.composite import Error
from amqp10msg.delivery import Rejected, TransactionalState
from amqp10msg.net.transport import AMQP_HEADER, Link
from tests.net.transport_ends import End, cuts, frame, joined, pieces, run, talk

pytestmark = pytest.mark.once
OPEN = AMQP_HEADER + frame(0x10, "peer")
BEGIN = frame(0x11, None, UInt(0), UInt(99), UInt(99))
ATTACH = frame(0x12, "link", UInt(0), False, None, None, None, None, None, None, UInt(0))
RECEIVER = frame(0x12, "link", UInt(0), True)


def transfer(number: int, *more: Any, payload: bytes = b"x") -> bytes:
    return frame(0x14, UInt(0), UInt(number), bytes([number]), UInt(0), *more, payload=payload)


BROKEN = {
    "no header": (b"GET / HT", "fault", "amqp:connection:framing-error"),
    "no open": (AMQP_HEADER + BEGIN, "fault", "amqp:not-allowed"),
    "two opens": (OPEN + frame(0x10, "peer"), "fault", "amqp:not-allowed"),
    "small frames": (
        AMQP_HEADER + frame(0x10, "peer", None, UInt(511)), "fault", "amqp:invalid-field"
    ),
    "frame too long": (OPEN + b"\0\1\0\0\2\0\0\0", "fault", "amqp:connection:framing-error"),
    "frame too short": (OPEN + b"\0\0\0\7\2\0\0\0", "fault", "amqp:connection:framing-error"),
    "frame of SASL": (OPEN + b"\0\0\0\x08\2\1\0\0", "fault", "amqp:connection:framing-error"),
    "offset of data": (OPEN + b"\0\0\0\x08\1\0\0\0", "fault", "amqp:connection:framing-error"),
    "no performative": (OPEN + frame(0x75, b""), "fault", "amqp:not-implemented"),
    "garbage": (OPEN + b"\0\0\0\x09\2\0\0\0\xff", "fault", "amqp:decode-error"),
    "no session": (OPEN + ATTACH, "fault", "amqp:not-allowed"),
    "channel in use": (OPEN + BEGIN + BEGIN, "fault", "amqp:not-allowed"),
    "answer to nothing": (
        OPEN + frame(0x11, 5, UInt(0), UInt(9), UInt(9)), "fault", "amqp:decode-error"
    ),
    "no handle": (OPEN + BEGIN + transfer(0), "session", "amqp:session:unattached-handle"),
    "handle in use": (OPEN + BEGIN + ATTACH + ATTACH, "session", "amqp:session:handle-in-use"),
    "handle too high": (
        OPEN + BEGIN + frame(0x12, "link", UInt(1_024), True), "session", "amqp:not-allowed"
    ),
    "link attached twice": (
        OPEN + BEGIN + ATTACH + frame(0x12, "link", UInt(1), False), "session", "amqp:not-allowed"
    ),
    "transfer to a sender": (
        OPEN + BEGIN + RECEIVER + transfer(0), "session", "amqp:session:errant-link"
    ),
    "no state": (
        OPEN + BEGIN + frame(0x15, True, UInt(0), None, True, "accepted"),
        "session",
        "amqp:invalid-field",
    ),
    "no credit": (
        OPEN + BEGIN + ATTACH + transfer(0) + transfer(1) + transfer(2),
        "link",
        "amqp:link:transfer-limit-exceeded",
    ),
    "number twice": (OPEN + BEGIN + ATTACH + transfer(0) * 2, "link", "amqp:not-allowed"),
    "no tag": (
        OPEN + BEGIN + ATTACH + frame(0x14, UInt(0), UInt(0)), "link", "amqp:invalid-field"
    ),
    "between parts": (
        OPEN + BEGIN + ATTACH + transfer(0, None, True) + transfer(1), "link", "amqp:not-allowed"
    ),
    "too long": (
        OPEN + BEGIN + ATTACH + transfer(0, payload=b"x" * 300), "link",
        "amqp:link:message-size-exceeded",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
@pytest.mark.parametrize("messages_per_run", [1, 10])
def test_violated_rule_ends_its_scope(name: str, messages_per_run: int) -> None:
    octets, scope, condition = BROKEN[name]
    end = End("a", credit=2, run=messages_per_run)
    attach = end.on_attach

    def bounded(link: Link) -> None:
        link.max_message_size = 200
        attach(link)

    end.on_attach = bounded  # type: ignore[method-assign]
    end.engine.feed(octets + frame(0x19))
    run(end)
    if name == "answer to nothing":
        condition = end.ends[0][1] or ""
    assert (scope, condition) == end.ends[0]
    said = end.engine.take()
    code = {"fault": 0x18, "session": 0x17, "link": 0x16}[scope]
    if name == "no header":
        assert AMQP_HEADER == said
    else:
        assert encode_value(Described(ULong(code), []))[:3] in said
        assert condition.encode() in said


def test_exceeded_window_ends_the_session() -> None:
    end = End("a", credit=0)
    end.on_attach = lambda link: link.refuse(Error("amqp:not-found", "no"))  # type: ignore[method-assign]
    end.engine.feed(OPEN + BEGIN + ATTACH)
    run(end)
    end.engine.take()
    link_fault = transfer(0)
    end.engine.feed(link_fault * 1_500)
    run(end)
    assert [] == end.ends, "the window was opened again"
    assert end.engine.take().count(b"\0S\x13") >= 1


def test_cost_of_a_disposition_range_is_bounded() -> None:
    one, other = End("a"), End("b")
    link = joined(one, other)
    for number in range(3):
        link.send(bytes([number]), b"x")
    everything = frame(0x15, True, UInt(0), UInt(2**32 - 1), True, Described(ULong(0x24), []))
    one.engine.feed(everything)
    run(one)

    assert [0, 1, 2] == [delivery.number for delivery in one.told]


def test_decoded_delivery_states() -> None:
    one, other = End("a"), End("b")
    link = joined(one, other)
    link.send(b"1", b"x", state=TransactionalState(b"t"))
    talk(one, other)
    (got,) = other.got
    assert TransactionalState(b"t") == got.state
    for state in (Rejected(Error("amqp:x", "y")), Described(ULong(0x12345), [1])):
        got.update(state, settled=False)
        talk(one, other)
        assert state == one.told[-1].state


def test_aborted_delivery_frees_its_delivery_id() -> None:
    end = End("a")
    end.engine.feed(OPEN + BEGIN + ATTACH + transfer(0, None, True))
    end.engine.feed(frame(0x14, UInt(0), *[None] * 8, True) + transfer(0))
    run(end)

    assert [(None, True), (b"x", False)] == [(d.payload, d.aborted) for d in end.got]


@given(st.lists(st.sampled_from(sorted(BROKEN)), max_size=4), st.binary(max_size=60), cuts)
def test_no_received_bytes_raise_an_exception(
    names: list[str], garbage: bytes, places: list[int]
) -> None:
    octets = OPEN + BEGIN + ATTACH
    octets += b"".join(BROKEN[name][0].removeprefix(OPEN) for name in names) + garbage
    end = End("a")
    for piece in pieces(octets, places):
        end.engine.feed(piece)
        run(end)
    said = end.engine.take()

    assert said.startswith(AMQP_HEADER)
    position = 8
    while position < len(said):
        size = int.from_bytes(said[position : position + 4], "big")
        assert 8 <= size <= len(said) - position
        list(decode_values(said[position + 8 : position + size]))
        position += size
