"""Delivery states and termini as python-qpid-proton writes and reads them in frames.

Two transports of proton are joined in memory; the bytes are taken from, or put into, the attach
and disposition frames between them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10msg import (
    Described,
    Symbol,
    UInt,
    ULong,
    decode_value,
    delivery,
    encode_value,
    skip_value,
)
from amqp10msg.composite import composite_of, rows
from amqp10msg.delivery import (
    Accepted,
    DeliveryState,
    Error,
    Modified,
    Received,
    Rejected,
    Released,
    Source,
    StdDistMode,
    Target,
    TerminusDurability,
    TerminusExpiryPolicy,
    TransactionalState,
)

proton = pytest.importorskip("proton", reason="needs python-qpid-proton")

ATTACH, DISPOSITION = 0x12, 0x15


class Pair:
    """A sender and a receiver of proton, and the frames that went between them."""

    def __init__(self, source: Source | None = None, target: Target | None = None) -> None:
        self.frames: list[bytes] = []
        self.ends = [proton.Connection(), proton.Connection()]
        self.transports = [proton.Transport(), proton.Transport(proton.Transport.SERVER)]
        for name, connection, transport in zip("ab", self.ends, self.transports, strict=True):
            connection.container = name
            transport.bind(connection)
            connection.open()
        session = self.ends[0].session()
        session.open()
        self.sender = session.sender("link")
        if source is not None:
            write_source(self.sender.source, source)
        if target is not None:
            write_terminus(self.sender.target, target)
        self.sender.open()
        self.run()
        self.receiver = self.ends[1].link_head(0)
        self.receiver.session.open()
        self.receiver.open()
        self.receiver.flow(1)
        self.run()

    def run(self) -> None:
        """Carry bytes until neither end has more."""
        moved = True
        while moved:
            moved = False
            for one, other in (self.transports, self.transports[::-1]):
                size = one.pending()
                if size > 0:
                    octets = bytes(one.peek(size))
                    one.pop(len(octets))
                    other.push(octets)
                    self.frames += bodies(octets)
                    moved = True

    def performatives(self, code: int) -> list[bytes]:
        return [frame for frame in self.frames if frame[:3] == b"\0\x53" + bytes([code])]

    def delivery(self) -> Any:
        """Send a message; give the delivery at the receiver."""
        sent = self.sender.delivery(b"tag")
        self.sender.send(b"\0\x53\x77\x40")
        self.sender.advance()
        self.run()
        self.sent = sent
        return self.receiver.current


def bodies(octets: bytes) -> Iterator[bytes]:
    if octets.startswith(b"AMQP"):
        octets = octets[8:]
    while octets:
        size = int.from_bytes(octets[:4], "big")
        yield octets[4 * octets[4] : size]
        octets = octets[size:]


def frame(performative: Any) -> bytes:
    body: bytes = encode_value(performative)
    return (len(body) + 8).to_bytes(4, "big") + b"\x02\0\0\0" + body


def field(performative: bytes, index: int) -> bytes:
    """The bytes of a field of a performative, as they are."""
    start = skip_value(performative, 1)
    at = start + (3 if performative[start] == 0xC0 else 9)
    for _ in range(index):
        at = skip_value(performative, at)
    return performative[at : skip_value(performative, at)]


def smallest(octets: bytes) -> bytes:
    """A composite's bytes without what says nothing: wide forms, and defaults that are said."""
    value = decode_value(octets)
    fields = list(value.value)
    for index, row in enumerate(rows(type(delivery.decode(octets)))):
        if index < len(fields) and row.default is not None and fields[index] == row.default:
            fields[index] = None
    while fields and fields[-1] is None:
        fields.pop()
    made: bytes = encode_value(Described(value.descriptor, fields))
    return made


# What proton can express.

scalars = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=8)
symbols = st.text(st.characters(codec="ascii", exclude_characters="\0"), min_size=1, max_size=8)
maps = st.dictionaries(symbols.map(Symbol), scalars, min_size=1, max_size=3)
# A C string, and a condition without a name is none.
texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1)
errors = st.builds(Error, symbols, st.none() | texts, st.none() | maps)
states = st.one_of(
    st.just(Accepted()),
    st.just(Released()),
    st.builds(Rejected, st.none() | errors),
    st.builds(Modified, st.booleans(), st.booleans(), st.none() | maps),
    st.builds(Received, st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)),
)
common = {
    "address": st.none() | texts,
    "durable": st.sampled_from(TerminusDurability),
    "expiry_policy": st.sampled_from(TerminusExpiryPolicy),
    "timeout": st.integers(0, 2**32 - 1),
    "dynamic": st.booleans(),
    "dynamic_node_properties": st.none() | maps,
    "capabilities": st.lists(symbols, max_size=3).map(tuple),
}
sources = st.builds(
    Source,
    **common,
    distribution_mode=st.none() | st.sampled_from(StdDistMode),
    filter=st.none()
    | st.dictionaries(
        symbols.map(Symbol),
        st.builds(Described, symbols.map(Symbol), st.text(max_size=8)),
        min_size=1,
        max_size=2,
    ),
    outcomes=st.lists(symbols, max_size=3).map(tuple),
)
targets = st.builds(Target, **common)


def theirs(value: Any) -> Any:
    """A value of ours as proton's Python type."""
    if isinstance(value, Described):
        return proton.Described(proton.symbol(value.descriptor), value.value)
    if isinstance(value, dict):
        return {proton.symbol(key): theirs(item) for key, item in value.items()}
    return value


def write_state(given: Any, state: DeliveryState) -> None:
    """Set a state on a delivery of proton, by proton's own attributes."""
    local = given.local
    match state:
        case Rejected(error=error):
            if error is not None:
                info = None if error.info is None else theirs(error.info)
                local.condition = proton.Condition(error.condition, error.description, info)
        case Modified():
            local.failed = state.delivery_failed
            local.undeliverable = state.undeliverable_here
            if state.message_annotations is not None:
                local.annotations = theirs(state.message_annotations)
        case Received():
            local.section_number = state.section_number
            local.section_offset = state.section_offset
    given.update(composite_of(type(state)).code)


def write_terminus(terminus: Any, given: Source | Target) -> None:
    if given.address is not None:
        terminus.address = given.address
    terminus.durability = int(given.durable)
    terminus.expiry_policy = {
        TerminusExpiryPolicy.LINK_DETACH: proton.Terminus.EXPIRE_WITH_LINK,
        TerminusExpiryPolicy.SESSION_END: proton.Terminus.EXPIRE_WITH_SESSION,
        TerminusExpiryPolicy.CONNECTION_CLOSE: proton.Terminus.EXPIRE_WITH_CONNECTION,
        TerminusExpiryPolicy.NEVER: proton.Terminus.EXPIRE_NEVER,
    }[given.expiry_policy]
    terminus.timeout = given.timeout
    terminus.dynamic = given.dynamic
    if given.dynamic_node_properties is not None:
        terminus.properties.put_object(theirs(given.dynamic_node_properties))
    put_symbols(terminus.capabilities, given.capabilities)


def write_source(terminus: Any, given: Source) -> None:
    write_terminus(terminus, given)
    if given.distribution_mode is not None:
        terminus.distribution_mode = {
            "move": proton.Terminus.DIST_MODE_MOVE,
            "copy": proton.Terminus.DIST_MODE_COPY,
        }[given.distribution_mode]
    if given.filter is not None:
        terminus.filter.put_object(theirs(given.filter))
    put_symbols(terminus.outcomes, given.outcomes)


def put_symbols(data: Any, given: tuple[str, ...]) -> None:
    if given:
        values = map(proton.symbol, given)
        data.put_object(proton.Array(proton.UNDESCRIBED, proton.Data.SYMBOL, *values))


def expected_octets(value: Any) -> bytes:
    """Our bytes, where an array of symbols has the constructor that proton takes."""
    octets = delivery.encode(value)
    generic = decode_value(octets)
    fields = [
        type(item)(0xB3, item.values) if getattr(item, "type", "") == "symbol" else item
        for item in generic.value
    ]
    made: bytes = encode_value(Described(generic.descriptor, fields))
    return made


# Proton writes, we read.


@given(states)
def test_a_state_that_proton_sends(state: DeliveryState) -> None:
    pair = Pair()
    write_state(pair.delivery(), state)
    pair.run()

    octets = field(pair.performatives(DISPOSITION)[-1], 4)

    assert state == delivery.decode(octets)
    assert delivery.encode(state) == smallest(octets)
    if type(state) in (Accepted, Released) or (
        isinstance(state, Rejected) and (state.error is None or state.error.info is None)
    ):
        assert delivery.encode(state) == octets


@given(sources, targets)
def test_termini_that_proton_sends(source: Source, target: Target) -> None:
    pair = Pair(source, target)

    attach = pair.performatives(ATTACH)[0]

    for index, terminus in ((5, source), (6, target)):
        octets = field(attach, index)
        assert terminus == delivery.decode(octets)
        # One symbol we write as it is, proton as the array of one that it was given.
        if len(getattr(terminus, "outcomes", ())) != 1 and len(terminus.capabilities) != 1:
            assert expected_octets(terminus) == smallest(octets)


def test_a_transactional_state_that_proton_sends() -> None:
    pair = Pair()
    given_one = pair.delivery()
    given_one.local.data = [b"txn", proton.Described(proton.ulong(0x24), [])]
    given_one.update(0x34)
    pair.run()

    octets = field(pair.performatives(DISPOSITION)[-1], 4)

    assert TransactionalState(b"txn", Accepted()) == delivery.decode(octets)


# We write, proton reads.


@given(states)
def test_a_state_that_we_send(state: DeliveryState) -> None:
    pair = Pair()
    pair.delivery()
    disposition = Described(ULong(DISPOSITION), [True, UInt(0), None, False, state])

    pair.transports[0].push(frame(disposition))

    remote = pair.sent.remote
    assert composite_of(type(state)).code == remote.type
    match state:
        case Rejected(error=error):
            condition = remote.condition
            assert (error is None) == (condition is None)
            if error is not None:
                assert error.condition == condition.name
                assert (error.description or None) == (condition.description or None)
                assert (error.info or None) == (condition.info or None)
        case Modified():
            assert state.delivery_failed == remote.failed
            assert state.undeliverable_here == remote.undeliverable
            assert (state.message_annotations or None) == (remote.annotations or None)
        case Received():
            assert state.section_number == remote.section_number
            assert state.section_offset == remote.section_offset


def is_read(terminus: Source | Target) -> bool:
    """Proton takes a terminus without an address that is not dynamic for none at all."""
    return bool(terminus.address) or terminus.dynamic


@given(sources.filter(is_read), targets.filter(is_read))
def test_termini_that_we_send(source: Source, target: Target) -> None:
    connection = proton.Connection()
    transport = proton.Transport(proton.Transport.SERVER)
    transport.bind(connection)
    window = UInt(100)
    attach = ["link", UInt(0), False, None, None, source, target, None, None, UInt(0)]

    transport.push(
        b"AMQP\0\1\0\0"
        + frame(Described(ULong(0x10), ["a"]))
        + frame(Described(ULong(0x11), [None, UInt(0), window, window]))
        + frame(Described(ULong(ATTACH), attach))
    )

    link = connection.link_head(0)
    assert link is not None
    for ours, found in ((source, link.remote_source), (target, link.remote_target)):
        again = type(ours)()
        again.address = found.address
        again.durable = TerminusDurability(found.durability)
        again.expiry_policy = {
            proton.Terminus.EXPIRE_WITH_LINK: TerminusExpiryPolicy.LINK_DETACH,
            proton.Terminus.EXPIRE_WITH_SESSION: TerminusExpiryPolicy.SESSION_END,
            proton.Terminus.EXPIRE_WITH_CONNECTION: TerminusExpiryPolicy.CONNECTION_CLOSE,
            proton.Terminus.EXPIRE_NEVER: TerminusExpiryPolicy.NEVER,
        }[found.expiry_policy]
        again.timeout = found.timeout
        again.dynamic = found.dynamic
        again.dynamic_node_properties = read(found.properties)
        again.capabilities = read_symbols(found.capabilities)
        if isinstance(again, Source):
            again.distribution_mode = {
                proton.Terminus.DIST_MODE_UNSPECIFIED: None,
                proton.Terminus.DIST_MODE_MOVE: StdDistMode.MOVE,
                proton.Terminus.DIST_MODE_COPY: StdDistMode.COPY,
            }[found.distribution_mode]
            again.filter = read(found.filter)
            again.outcomes = read_symbols(found.outcomes)
        assert ours == again


def read(data: Any) -> Any:
    """The value that proton holds, in our types."""
    data.rewind()
    return ours_of(data.get_object()) if data.next() is not None else None


def ours_of(value: Any) -> Any:
    if isinstance(value, proton.Described):
        return Described(Symbol(value.descriptor), value.value)
    if isinstance(value, dict):
        return {str(key): ours_of(item) for key, item in value.items()}
    return value


def read_symbols(data: Any) -> tuple[str, ...]:
    found = read(data)
    if found is None:
        return ()
    return (str(found),) if isinstance(found, str) else tuple(map(str, found.elements))
