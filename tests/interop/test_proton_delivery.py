"""Delivery states and termini as python-qpid-proton writes and reads them in frames.

Two transports of proton are joined in memory; the bytes are taken from, or put into, the attach
and disposition frames between them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10msg import (
    Array,
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
            write(self.sender.source, source)
        if target is not None:
            write(self.sender.target, target)
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
    """Encode a composite as small as possible: without defaults, and a single symbol as such."""
    value = decode_value(octets)
    fields = []
    for item, row in zip(value.value, rows(type(delivery.decode(octets))), strict=False):
        if isinstance(item, Array):
            fields.append(Array(item.type, item.values) if len(item.values) > 1 else item.values[0])
        else:
            fields.append(None if row.default is not None and item == row.default else item)
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

#: Fields that have another name in proton.
NAMES = {
    "error": "condition",
    "delivery_failed": "failed",
    "undeliverable_here": "undeliverable",
    "message_annotations": "annotations",
    "durable": "durability",
    "dynamic_node_properties": "properties",
}
#: Fields that have codes in proton.
CODES: dict[str, dict[Any, int]] = {
    "durable": {
        TerminusDurability.NONE: proton.Terminus.NONDURABLE,
        TerminusDurability.CONFIGURATION: proton.Terminus.CONFIGURATION,
        TerminusDurability.UNSETTLED_STATE: proton.Terminus.DELIVERIES,
    },
    "expiry_policy": {
        TerminusExpiryPolicy.LINK_DETACH: proton.Terminus.EXPIRE_WITH_LINK,
        TerminusExpiryPolicy.SESSION_END: proton.Terminus.EXPIRE_WITH_SESSION,
        TerminusExpiryPolicy.CONNECTION_CLOSE: proton.Terminus.EXPIRE_WITH_CONNECTION,
        TerminusExpiryPolicy.NEVER: proton.Terminus.EXPIRE_NEVER,
    },
    "distribution_mode": {
        None: proton.Terminus.DIST_MODE_UNSPECIFIED,
        StdDistMode.MOVE: proton.Terminus.DIST_MODE_MOVE,
        StdDistMode.COPY: proton.Terminus.DIST_MODE_COPY,
    },
}


def to_theirs(value: Any) -> Any:
    """Convert the value of a field to proton's Python types."""
    match value:
        case Error():
            return proton.Condition(value.condition, value.description, to_theirs(value.info))
        case Described():
            return proton.Described(proton.symbol(value.descriptor), value.value)
        case dict():
            return {proton.symbol(key): to_theirs(item) for key, item in value.items()}
        case tuple():
            items = map(proton.symbol, value)
            return proton.Array(proton.UNDESCRIBED, proton.Data.SYMBOL, *items) if value else None
    return value


def fields_of(composite: Any) -> Iterator[tuple[str, str, Any]]:
    """The fields that proton has: name, name in proton and value in proton."""
    for name, value in attrs.asdict(composite, recurse=False).items():
        if name != "default_outcome":
            theirs = CODES[name][value] if name in CODES else to_theirs(value)
            yield name, NAMES.get(name, name), theirs


def write(theirs: Any, composite: Any) -> None:
    """Set the fields of a local state or terminus of proton."""
    for _, name, value in fields_of(composite):
        if value is not None and isinstance(getattr(theirs, name), proton.Data):
            getattr(theirs, name).put_object(value)
        elif value is not None:
            setattr(theirs, name, value)


def differences(theirs: Any, composite: Any) -> list[str]:
    """Name the fields of a remote state or terminus of proton that differ."""
    return [
        name
        for name, attribute, value in fields_of(composite)
        if comparable(value) != comparable(getattr(theirs, attribute))
    ]


def comparable(value: Any) -> Any:
    if isinstance(value, proton.Data):
        value.rewind()
        value = value.get_object() if value.next() is not None else None
    if isinstance(value, proton.Condition):
        return value.name, value.description or None, value.info or None
    if isinstance(value, proton.Array):
        return list(value.elements) if len(value.elements) > 1 else value.elements[0]
    return value or None


@given(states)
def test_proton_sends_and_reads_states_as_we_do(state: DeliveryState) -> None:
    pair = Pair()
    given_one = pair.delivery()
    write(given_one.local, state)
    given_one.update(composite_of(type(state)).code)
    pair.run()
    octets = field(pair.performatives(DISPOSITION)[-1], 4)

    assert state == delivery.decode(octets)
    assert delivery.encode(state) == smallest(octets)

    pair = Pair()
    pair.delivery()
    pair.transports[0].push(
        frame(Described(ULong(DISPOSITION), [True, UInt(0), None, False, state]))
    )

    assert composite_of(type(state)).code == pair.sent.remote.type
    assert [] == differences(pair.sent.remote, state)


def test_a_transactional_state_that_proton_sends() -> None:
    pair = Pair()
    given_one = pair.delivery()
    given_one.local.data = [b"txn", proton.Described(proton.ulong(0x24), [])]
    given_one.update(0x34)
    pair.run()

    octets = field(pair.performatives(DISPOSITION)[-1], 4)

    assert TransactionalState(b"txn", Accepted()) == delivery.decode(octets)


@given(sources, targets)
def test_proton_sends_and_reads_termini_as_we_do(source: Source, target: Target) -> None:
    attach = Pair(source, target).performatives(ATTACH)[0]
    for index, terminus in ((5, source), (6, target)):
        octets = field(attach, index)
        assert terminus == delivery.decode(octets)
        assert delivery.encode(terminus) == smallest(octets)

    connection = proton.Connection()
    transport = proton.Transport(proton.Transport.SERVER)
    transport.bind(connection)
    window = UInt(100)
    fields = ["link", UInt(0), False, None, None, source, target, None, None, UInt(0)]
    transport.push(
        b"AMQP\0\1\0\0"
        + frame(Described(ULong(0x10), ["a"]))
        + frame(Described(ULong(0x11), [None, UInt(0), window, window]))
        + frame(Described(ULong(ATTACH), fields))
    )

    link = connection.link_head(0)
    for terminus, theirs in ((source, link.remote_source), (target, link.remote_target)):
        # Proton takes a terminus without an address that is not dynamic for none at all.
        if terminus.address or terminus.dynamic:
            assert [] == differences(theirs, terminus)
