"""The transport: two ends without a socket between them, and hostile peers."""

from __future__ import annotations

import contextlib
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from amqp10msg import Described, Symbol, UInt, ULong, decode_values, encode_value
from amqp10msg.composite import Error
from amqp10msg.delivery import Accepted, Modified, Rejected, Released, Source, Target
from amqp10msg.net.transport import SASL_HEADER, SaslClient, SaslError, SaslServer
from amqp10msg.wire.errors import INTERNAL_ERROR
from tests.net.transport_ends import End, cuts, frame, joined, pieces, run, talk

pytestmark = pytest.mark.once


@given(
    st.lists(st.tuples(st.binary(max_size=40), st.integers(0, 40)), max_size=8),
    st.sampled_from([512, 600, 4_096]),
    cuts,
)
def test_messages_arrive_unchanged(
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
def test_outcomes_reach_the_sender(states: list[Any], places: list[int]) -> None:
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


@given(
    st.permutations(range(8)),
    st.integers(0, 8),
    st.lists(st.sampled_from([Accepted(), Released()]), min_size=8, max_size=8),
)
@example([0, 2, 1, 3, 4, 5, 6, 7], 2, [Accepted()] * 8)
def test_outcomes_in_any_order_reach_their_deliveries(
    order: list[int], count: int, states: list[Any]
) -> None:
    one, other = End("a"), End("b")
    link = joined(one, other)
    for number in range(8):
        link.send(bytes([number]), b"x")
    talk(one, other)
    for index in order[:count]:
        other.got[index].update(states[index])
    talk(one, other)

    assert {n: states[n] for n in order[:count]} == {d.number: d.state for d in one.told}
    assert set(order[count:]) == set(link.session.outgoing)


@given(
    st.sets(st.integers(0, 11)),
    st.one_of(st.integers(0, 12), st.integers(2**32 - 4, 2**32 - 1)),
    st.integers(1, 16),
)
@example({0, 3}, 0, 3)
def test_disposition_settles_exactly_the_deliveries_of_its_range(
    unsettled: set[int], first: int, count: int
) -> None:
    one, other = End("a"), End("b")
    link = joined(one, other)
    for number in range(12):
        link.send(bytes([number]), b"x", settled=number not in unsettled)
    talk(one, other)
    last = (first + count - 1) % 2**32  # a range may wrap (Part 2, 2.8.10)
    accepted = Described(ULong(0x24), [])
    one.engine.feed(frame(0x15, True, UInt(first), UInt(last), True, accepted))
    run(one)

    in_range = [n % 2**32 for n in range(first, first + count) if n % 2**32 in unsettled]
    assert in_range == [delivery.number for delivery in one.told]
    assert unsettled - set(in_range) == set(link.session.outgoing)


def rejection(key: bytes, condition: bytes = b"\xa3\x03amp") -> bytes:
    """Return a disposition that rejects delivery 0, with a condition and a key in its info."""
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


def test_waiting_transfers_of_a_detached_link_are_not_sent() -> None:
    one, other = End("a", credit=5_000), End("b", credit=5_000)
    link = joined(one, other)
    second = link.session.link("second", sends=True)
    second.attach(source=Source(), target=Target(address="q"))
    talk(one, other)
    for number in range(3_000):
        link.send(number.to_bytes(4, "big"), b"x")
    second.send(b"last", b"y")
    assert link.session.blocked
    link.detach()
    talk(one, other)

    assert [("link", None)] == other.ends
    assert b"y" == other.got[-1].payload
    assert not link.session.blocked


@given(
    st.dictionaries(
        st.binary(max_size=32),
        st.sampled_from([None, Accepted(), Modified(message_annotations={"x-" + "y" * 99: 1})]),
        max_size=60,
    ),
    st.sampled_from([512, 600, 2_048]),
    st.booleans(),
)
def test_map_of_unsettled_deliveries_is_cut_to_a_frame(
    unsettled: dict[bytes, Any], frame: int, sends: bool
) -> None:
    one, other = End("a", frame=frame), End("b", frame=frame)
    one.engine.open()
    session = one.engine.begin()
    talk(one, other)
    termini = {"source": Source(), "target": Target(address="q")}
    whole = session.link("link", sends=sends).attach(**termini, unsettled=unsettled)
    octets = one.engine.take()
    assert len(octets) <= frame
    other.engine.feed(octets)
    run(other)
    assert not other.ends
    attach = other.links[0].remote
    assert attach is not None
    assert whole is not attach.incomplete_unsettled
    told: list[Any] = list(attach.unsettled or ())
    assert list(unsettled)[: len(told)] == told
    if whole:
        assert len(unsettled) == len(told)
    else:  # one more had no room, which takes up to 170 bytes
        assert len(octets) > frame - 170


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


@given(st.integers(0, 6), st.integers(0, 6), st.integers(0, 12), st.booleans())
@example(1, 3, 3, True)
def test_excess_deliveries_are_accepted_up_to_the_limit(
    credit: int, excess: int, count: int, is_flow_sent: bool
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
    if is_flow_sent:
        receiver.request_flow()
        talk(one, other)
    receiver.grant(count)  # what was taken beyond the credit is not granted again
    talk(one, other)
    assert credit == max(receiver.credit, 0) == max(link.credit, 0)


def test_receiver_queries_available_messages() -> None:
    one, other = End("a"), End("b")
    link = joined(one, other)
    receiver = other.links[0]
    before = receiver.available
    link.available = 42
    receiver.request_flow()
    talk(one, other)

    assert (None, 42, 1_000) == (before, receiver.available, receiver.credit)


def test_revoked_credit_covers_messages_in_flight() -> None:
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
def test_large_message_goes_to_the_overflow_sink(sent: list[bytes], frame: int, most: int) -> None:
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
def test_each_end_is_reported_once_at_both_peers(closed: bool) -> None:
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


@given(st.sampled_from(["secret", "", "wrong"]), cuts)
def test_sasl_is_the_first_layer_of_a_connection(password: str, cuts: list[int]) -> None:
    client = SaslClient("PLAIN", user="me", password=password)
    one = End("a", sasl=client)
    other = End("b", sasl=SaslServer(anonymous=False, users={"me": "secret"}))
    one.engine.open()  # waits until it is let in
    link = one.engine.begin().link("link", sends=True)
    link.attach(source=Source(), target=Target(address="q"))
    talk(one, other, cuts)

    right = password == "secret"
    assert (right, right) == (one.engine.authenticated, other.engine.authenticated)
    assert (None, "me" if right else None) == (one.user, other.user)
    assert [not right] * 2 == [one.refused is not None, other.refused is not None]
    assert right == (other.engine.remote is not None)
    assert right == bool(link.credit)
    assert not (right and one.engine.pending)


@given(st.booleans(), st.binary(max_size=200))
def test_random_sasl_frames_raise_sasl_error_or_are_incomplete(begun: bool, said: bytes) -> None:
    client = SaslClient("PLAIN")
    with contextlib.suppress(SaslError):
        client.receive(SASL_HEADER * begun + said)
    assert not client.done


def test_discarding_close_is_sent_after_the_open() -> None:
    """Even if only the protocol header was sent before."""
    one, other = End("one"), End("other")
    one.engine.open()
    octets = one.engine.take()
    other.engine.feed(octets[:8])
    run(other)
    greeting = other.engine.take()
    other.engine.feed(octets[8:])
    run(other)
    other.engine.close(Error(INTERNAL_ERROR, "no room"), discard=True)
    one.engine.feed(greeting + other.engine.take())
    run(one)

    assert one.engine.remote is not None
    assert [("connection", INTERNAL_ERROR)] == one.ends
