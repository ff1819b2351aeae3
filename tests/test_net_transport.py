"""The transport: two of its ends without a socket between them, and hostile peers."""

from __future__ import annotations

import contextlib
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10msg import Described, Symbol, UInt, ULong, decode_values, encode_value
from amqp10msg.composite import Error
from amqp10msg.delivery import Accepted, Modified, Rejected, Source, Target, TransactionalState
from amqp10msg.net import transport
from amqp10msg.net.serve.sasl import SaslServer
from amqp10msg.net.transport import (
    AMQP_HEADER,
    SASL_HEADER,
    Connection,
    Delivery,
    Link,
    Open,
    SaslClient,
    SaslError,
    Session,
)

pytestmark = pytest.mark.once


class End(transport.Handler):
    """An end that answers what the peer begins, grants credit and keeps what it hears."""

    def __init__(self, name: str, *, credit: int = 1_000, frame: int = 512) -> None:
        self.engine = Connection(self, Open(container_id=name, max_frame_size=frame))
        self.credit = credit
        self.links: list[Link] = []
        self.got: list[Delivery] = []
        self.told: list[Delivery] = []
        self.ends: list[tuple[str, str | None]] = []

    def on_open(self) -> None:
        if not self.engine.opened:
            self.engine.open()

    def on_begin(self, session: Session) -> None:
        if not session.begun:
            session.begin()

    def on_attach(self, link: Link) -> None:
        self.links.append(link)
        if not link.attached:
            assert link.remote is not None
            link.attach(source=Source(), target=Target())
        if not link.sends:
            link.grant(self.credit)

    def on_transfer(self, delivery: Delivery) -> None:
        self.got.append(delivery)

    def on_disposition(self, delivery: Delivery) -> None:
        self.told.append(delivery)

    def on_detach(self, link: Link, error: Error | None, *, closed: bool) -> None:  # noqa: ARG002
        self.ends.append(("link" if closed else "detach", error.condition if error else None))

    def on_end(self, session: Session, error: Error | None) -> None:  # noqa: ARG002
        self.ends.append(("session", error.condition if error else None))

    def on_close(self, error: Error | None, *, fault: bool) -> None:
        self.ends.append(("fault" if fault else "connection", error.condition if error else None))


def pieces(octets: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({0, len(octets), *(cut % (len(octets) + 1) for cut in cuts)})
    return [octets[start:end] for start, end in pairwise(places)]


def run(end: End) -> None:
    while end.engine.step():
        pass


def talk(one: End, other: End, cuts: list[int] | None = None) -> None:
    """Carry what each says to the other, until both are silent."""
    while True:
        said = False
        for speaker, hearer in ((one, other), (other, one)):
            octets = speaker.engine.take()
            said = said or bool(octets)
            for piece in pieces(octets, cuts or []):
                hearer.engine.feed(piece)
                run(hearer)
        if not said:
            return


def joined(one: End, other: End) -> Link:
    """Connect two ends by a link from the first to the second."""
    one.engine.open()
    link = one.engine.begin().link("link", sends=True)
    link.attach(source=Source(), target=Target(address="q"))
    talk(one, other)
    return link


cuts = st.lists(st.integers(0, 2**16), max_size=8)


@given(
    st.lists(st.tuples(st.binary(max_size=40), st.integers(0, 40)), max_size=8),
    st.sampled_from([512, 600, 4_096]),
    cuts,
)
def test_messages_arrive_as_they_were_sent(
    drawn: list[tuple[bytes, int]], frame: int, places: list[int]
) -> None:
    one, other = End("a", frame=frame), End("b", frame=frame)
    link = joined(one, other)
    messages = [octets * times for octets, times in drawn]
    for number, message in enumerate(messages):
        link.send(bytes([number]), message, settled=number % 2 == 1, message_format=number)
    talk(one, other, places)

    expected = [(bytes([n]), message, n, n % 2 == 1) for n, message in enumerate(messages)]
    assert expected == [(d.tag, d.payload, d.message_format, d.settled) for d in other.got]
    assert 1_000 - len(messages) == link.credit == other.links[0].credit


@given(st.lists(st.sampled_from([Accepted(), Modified(delivery_failed=True)]), max_size=12), cuts)
def test_outcomes_come_back(states: list[Any], places: list[int]) -> None:
    one, other = End("a"), End("b")
    link = joined(one, other)
    for number in range(len(states)):
        link.send(bytes([number]), b"x")
    talk(one, other)
    for delivery, state in zip(other.got, states, strict=True):
        delivery.update(state)
    said = other.engine.take()
    assert len([1 for a, b in pairwise([None, *states]) if a != b]) == said.count(b"\0S\x15")
    for piece in pieces(said, places):
        one.engine.feed(piece)
        run(one)

    assert states == [delivery.state for delivery in one.told]
    assert all(delivery.settled for delivery in one.told)
    assert {} == link.session.outgoing == other.links[0].session.incoming


def rejection(key: bytes, condition: bytes = b"\xa3\x03amp") -> bytes:
    """A disposition that rejects delivery 0 with a key in its info, and with a condition."""
    told = encode_value(Rejected(Error("amp", info={Symbol("k"): 1})))
    octets = told.replace(b"\xa3\x01k", key).replace(b"\xa3\x03amp", condition)
    (state,) = decode_values(octets)
    return frame(0x15, True, UInt(0), UInt(0), True, state)


def test_reason_of_a_rejection_may_be_malformed() -> None:
    one, other = End("a"), End("b")
    link = joined(one, other)
    link.send(b"1", b"x")
    talk(one, other)
    one.engine.feed(rejection(b"\xa1\x01k"))  # a string, as go-amqp writes it
    run(one)

    (told,) = one.told
    assert Rejected(Error("amp", info={"k": 1})) == told.state
    assert told.settled


def test_rejection_without_a_condition_ends_the_session() -> None:
    one, other = End("a"), End("b")
    joined(one, other).send(b"1", b"x")
    talk(one, other)
    one.engine.feed(rejection(b"\xa3\x01k", b"\x70\0\0\0\1"))
    run(one)

    assert [] == one.told
    assert b"\0S\x17" in one.engine.take()


def test_receiver_that_settles_second() -> None:
    one, other = End("a"), End("b")
    link = joined(one, other)
    link.send(b"1", b"x")
    talk(one, other)
    (got,) = other.got
    got.update(Accepted(), settled=False)
    talk(one, other)
    (told,) = one.told
    assert (Accepted(), False) == (told.state, told.settled)
    told.update(told.state)
    talk(one, other)

    assert [got] == other.told
    assert got.settled
    assert {} == link.session.outgoing == other.links[0].session.incoming


def test_transfers_wait_for_the_window_of_the_session() -> None:
    one, other = End("a", credit=5_000), End("b", credit=5_000)
    link = joined(one, other)
    for number in range(3_000):
        link.send(number.to_bytes(4, "big"), b"x")
    blocked = [link.session.blocked]
    talk(one, other)

    blocked.append(link.session.blocked)
    assert [True, False] == blocked
    assert 3_000 == len(other.got)


def test_drain_uses_up_the_credit() -> None:
    one, other = End("a"), End("b")
    link = joined(one, other)
    fields = [UInt(0), UInt(99), UInt(0), UInt(99), UInt(0), UInt(0), UInt(7), None, True]
    one.engine.feed(frame(0x13, *fields))
    run(one)
    assert (7, True) == (link.credit, link.drain)
    link.drained()
    talk(one, other)

    assert 0 == link.credit
    assert 1_000 - 7 == other.links[0].credit


@given(st.integers(0, 6), st.integers(0, 6), st.integers(0, 12))
def test_more_than_the_credit_is_taken_where_the_receiver_says_so(
    credit: int, excess: int, count: int
) -> None:
    one, other = End("a"), End("b", credit=credit)
    link = joined(one, other)
    receiver = other.links[0]
    receiver.excess = excess
    for number in range(count):
        link.send(bytes([number]), b"x")
    talk(one, other)

    most = max(credit, excess)
    assert min(count, most) == len(other.got)
    assert (["amqp:link:transfer-limit-exceeded"] if count > most else []) == [
        condition for _, condition in other.ends
    ]
    if count > most:
        return
    for delivery in other.got:
        delivery.update(Accepted())
    receiver.grant(count)  # what was taken beyond the credit is not granted again
    talk(one, other)
    assert credit == max(receiver.credit, 0) == max(link.credit, 0)


def test_a_receiver_asks_how_many_messages_wait() -> None:
    one, other = End("a"), End("b")
    link = joined(one, other)
    receiver = other.links[0]
    before = receiver.available
    link.available = 42
    receiver.ask()
    talk(one, other)

    assert (None, 42, 1_000) == (before, receiver.available, receiver.credit)


def test_credit_that_is_taken_back_covers_what_is_on_its_way() -> None:
    one, other = End("a"), End("b", credit=5)
    link = joined(one, other)
    for number in range(3):
        link.send(bytes([number]), b"x")
    other.links[0].revoke()
    talk(one, other)

    assert (3, 0, 0) == (len(other.got), link.credit, other.links[0].credit)
    for number in range(3):  # two were on their way, for all that the receiver knows
        link.send(bytes([number]), b"x")
    talk(one, other)
    assert [("link", "amqp:link:transfer-limit-exceeded")] == other.ends


@given(
    st.lists(st.binary(max_size=3_000), max_size=6),
    st.sampled_from([512, 4_096]),
    st.integers(1, 2_000),
)
def test_bytes_beyond_the_limit_go_elsewhere(sent: list[bytes], frame: int, most: int) -> None:
    one, other = End("a", frame=frame), End("b", frame=frame)
    link = joined(one, other)
    other.links[0].max_message_size = most
    other.links[0].overflow = bytearray
    for number, octets in enumerate(sent):
        link.send(bytes([number]), octets)
    talk(one, other)

    assert [octets if len(octets) <= most else b"" for octets in sent] == [
        delivery.payload for delivery in other.got
    ]
    large: list[Any] = [delivery.large for delivery in other.got]
    assert [octets if len(octets) > most else None for octets in sent] == large


@pytest.mark.parametrize("closed", [False, True])
def test_what_ends_is_told_at_both_ends_once(closed: bool) -> None:
    one, other = End("a"), End("b")
    link = joined(one, other)
    link.detach(Error("amqp:not-found", "gone"), closed=closed)
    talk(one, other)
    first = ("link" if closed else "detach", "amqp:not-found")
    assert [first] == other.ends
    again = link.session.link("link", sends=True)  # its name is free again
    again.attach(source=Source(), target=Target())
    talk(one, other)
    again.session.end()
    talk(one, other)
    one.engine.close()
    talk(one, other)

    assert [first, ("session", None), ("connection", None)] == other.ends
    assert [] == one.ends
    assert [True, True] == [end.engine.over for end in (one, other)]
    assert {} == one.engine.sessions == other.engine.sessions


def test_idle_connection_is_kept_alive() -> None:
    one, other = End("a"), End("b")
    other.engine.local.idle_time_out = 1_000
    joined(one, other)
    assert 100.5 == one.engine.tick(100.0)
    assert 100.5 == one.engine.tick(100.4)
    assert b"" == one.engine.take()
    assert 101.0 == one.engine.tick(100.5)
    assert b"\0\0\0\x08\x02\0\0\0" == one.engine.take()
    assert None is other.engine.tick(100.0)


# SASL.


@given(
    st.sampled_from(["PLAIN", "ANONYMOUS", "EXTERNAL"]),
    st.sampled_from(["me", "you"]),
    st.sampled_from(["secret", "süß", ""]),
    cuts,
)
def test_both_ends_of_sasl_agree(mechanism: str, user: str, password: str, cuts: list[int]) -> None:
    server = SaslServer(anonymous=True, users={"me": "secret"})
    client = SaslClient(mechanism, hostname="h", user=user, password=password)
    said, heard, refused = client.start(), b"", ""
    while said and not refused:
        for piece in pieces(said, cuts):
            answer, rest = server.receive(piece)
            assert b"" == rest
            heard += answer
        said = b""
        try:
            for piece in pieces(heard, cuts):
                said += client.receive(piece)[0]
        except SaslError as error:
            refused = f"{error}, {error.refused}"
        heard = b""

    right = mechanism == "ANONYMOUS" or (mechanism, user, password) == ("PLAIN", "me", "secret")
    assert (right, not right) == (client.done, bool(refused))
    assert client.done == server.done
    assert right or refused.endswith("True")
    assert not password or password not in refused.replace("authentication", "")


@given(st.booleans(), st.binary(max_size=200))
def test_whatever_a_server_says_in_sasl_is_an_error_or_waited_for(begun: bool, said: bytes) -> None:
    client = SaslClient("PLAIN")
    with contextlib.suppress(SaslError):
        client.receive(SASL_HEADER * begun + said)
    assert not client.done


# Peers that break rules.


def frame(code: int, *fields: Any, payload: bytes = b"", channel: int = 0) -> bytes:
    body = encode_value(Described(ULong(code), list(fields))) + payload
    return (len(body) + 8).to_bytes(4, "big") + b"\2\0" + channel.to_bytes(2, "big") + body


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
def test_rule_that_a_peer_breaks_ends_what_it_is_about(name: str) -> None:
    octets, scope, condition = BROKEN[name]
    end = End("a", credit=2)
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


def test_window_that_is_exceeded_ends_the_session() -> None:
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


def test_range_of_a_disposition_costs_what_is_there() -> None:
    one, other = End("a"), End("b")
    link = joined(one, other)
    for number in range(3):
        link.send(bytes([number]), b"x")
    everything = frame(0x15, True, UInt(0), UInt(2**32 - 1), True, Described(ULong(0x24), []))
    one.engine.feed(everything)
    run(one)

    assert [0, 1, 2] == [delivery.number for delivery in one.told]


def test_states_are_what_they_are() -> None:
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


def test_aborted_delivery_frees_its_number() -> None:
    end = End("a")
    end.engine.feed(OPEN + BEGIN + ATTACH + transfer(0, None, True))
    end.engine.feed(frame(0x14, UInt(0), *[None] * 8, True) + transfer(0))
    run(end)

    assert [(None, True), (b"x", False)] == [(d.payload, d.aborted) for d in end.got]


@given(st.lists(st.sampled_from(sorted(BROKEN)), max_size=4), st.binary(max_size=60), cuts)
def test_whatever_comes_in_nothing_is_raised(
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
