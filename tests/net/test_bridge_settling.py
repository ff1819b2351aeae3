"""Settlements of a 0-9-1 source, as the broker reads them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pika")

from amqp10msg.net.ends.basic import BasicSource
from amqp10msg.net.ends.basic_frames import FrameReader, decode_confirm
from amqp10msg.net.ends.terms import Settle, SourceDelivery, SourceRequest
from amqp10msg.net.ends.urls import parse_url

ACK, NACK = 80, 120
CHANNEL = 3
DELIVERIES = 12
#: Batches of delivery-tags, each with its settlement; None flushes the connection.
STEPS = st.lists(
    st.none()
    | st.tuples(
        st.lists(st.integers(1, DELIVERIES), min_size=1, max_size=4), st.sampled_from(Settle)
    ),
    max_size=20,
)


class Connection:
    """Collects the frames that a channel writes."""

    alive = True
    peer_product = ""

    def __init__(self) -> None:
        self.octets = b""
        self.links: dict[Any, None] = {}

    def add_channel(self, channel: Any) -> int:  # noqa: ARG002  (the connection's signature)
        return CHANNEL

    def write(self, frame: bytes) -> None:
        self.octets += frame

    def settle_soon(self, channel: Any) -> None:
        """The test flushes the settlements itself."""


@given(STEPS)
def test_each_delivery_is_settled_once_on_its_channel(steps: list[Any]) -> None:
    connection: Any = Connection()
    request = SourceRequest(
        endpoint=parse_url("amqp091://127.0.0.1/?queue=q"),
        receive=lambda _: None,
        on_lost=lambda _: None,
        window=DELIVERIES,
        max_message=1_000,
        overflow=lambda: pytest.fail("no message is large"),
    )
    source = BasicSource(request, connection)
    deliveries = {
        tag: SourceDelivery(b"", tag=tag, link=source) for tag in range(1, DELIVERIES + 1)
    }
    expected: dict[int, Settle] = {}
    for step in [*steps, None]:
        if step is None:
            connection.octets += b"".join(source.settlements())
        else:
            tags, settlement = step
            # A delivery that is settled again is ignored.
            source.settle([deliveries[tag] for tag in dict.fromkeys(tags)], settlement)
            expected |= {tag: settlement for tag in tags if tag not in expected}

    unsettled, found = set(deliveries), dict[int, Settle]()
    for _, channel, arguments in FrameReader(4096).feed(connection.octets):
        assert channel == CHANNEL
        index, (tag, multiple) = int.from_bytes(arguments[2:4]), decode_confirm(arguments[4:])
        assert tag in unsettled, "the broker closes the channel: precondition-failed (406)"
        for one in {one for one in unsettled if one == tag or (multiple and one < tag)}:
            unsettled.discard(one)
            requeue = bool(arguments[12] & 2)
            refused = Settle.RELEASE if requeue else Settle.REJECT
            found[one] = Settle.ACCEPT if index == ACK else refused
            assert index in {ACK, NACK}
    assert expected == found
