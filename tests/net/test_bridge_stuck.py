"""Messages that a full target refuses again and again, because they may be too large for it."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

pytest.importorskip("pika")

from amqp10msg import Message
from amqp10msg.basic import BasicMessage, BasicProperties
from amqp10msg.delivery.node import Capacity
from amqp10msg.net.bridge import Statistics, refusals
from amqp10msg.net.bridge.report import as_html
from amqp10msg.net.serve import Server
from tests.basic_broker import BasicBroker, Stored
from tests.bridging import bridged, stored

pytestmark = [pytest.mark.once, pytest.mark.usefixtures("in_a_folder")]

TRIES = refusals._STUCK_TRIES


def reports(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    """Return the fields of the events that report a stuck message."""
    found = [one for one in caplog.records if getattr(one, "event", "") == "message-stuck"]
    assert all(one.levelno == logging.WARNING for one in found)
    return [one.fields for one in found]  # type: ignore[attr-defined]


def test_full_target_is_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        counts = moved([b"1", b"2", b"3"], {0: 3, 1: 2})

    assert Counter(nacked=5) == counts.refused
    found = [one for one in caplog.records if getattr(one, "event", "") == "target-full"]
    assert ["nacked"] == [one.fields["reason"] for one in found]  # type: ignore[attr-defined]
    page = as_html([], {"r": counts})
    assert "Refused by the target: r" in page


def moved(bodies: list[bytes], refused: dict[int, int], **how: Any) -> Statistics:
    """Move messages to a target that refuses each message for a number of times.

    Args:
        bodies: the bodies of the messages.
        refused: how often the target refuses the message with this index.
        how: options of the route.
    """
    refusals_left = {bodies[index]: count for index, count in refused.items()}

    def refuses(message: Stored) -> str:
        refusals_left[message.body] = refusals_left.get(message.body, 0) - 1
        return "nack" if refusals_left[message.body] >= 0 else ""

    async def run() -> Statistics:
        async with BasicBroker("from", "to") as broker:
            broker.queues["from"].extend(
                stored(BasicMessage(BasicProperties(), body)) for body in bodies
            )
            broker.refuses = refuses
            urls = (broker.url("queue=from"), broker.url("queue=to"))
            pauses = {"backoff": 0.001, "max_backoff": 0.002}
            return await bridged(*urls, max_messages=len(bodies), **{**pauses, **how})

    return asyncio.run(run())


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example([(1, 0), (9, TRIES)])
@example([(1, 0), (9, TRIES - 1)])
@given(
    st.lists(
        st.tuples(st.integers(1, 40), st.sampled_from([0, 1, TRIES - 1, TRIES, TRIES + 3])),
        min_size=1,
        max_size=6,
        unique_by=lambda message: message[0],
    )
)
def test_message_is_reported_once_if_no_larger_message_was_accepted(
    caplog: pytest.LogCaptureFixture, messages: list[tuple[int, int]]
) -> None:
    """The smallest messages arrive first, so that sizes and refusals decide alone."""
    caplog.clear()
    bodies = [b"x" * size for size, _ in messages]

    counts = moved(bodies, {index: count for index, (_, count) in enumerate(messages)}, window=1)

    # A window of 1 sends the next message only after the one before it.
    stuck: list[int] = []
    largest = 0
    for size, count in messages:
        if count >= TRIES and size > largest and (largest or not stuck):
            stuck.append(size)
        largest = max(largest, size)
    assert len(bodies) == counts.accepted
    assert len(stuck) == counts.stuck == len(reports(caplog))


def test_report_says_what_to_do(caplog: pytest.LogCaptureFixture) -> None:
    counts = moved([b"x", b"x" * 500], {1: TRIES})

    (report,) = reports(caplog)
    assert "nacked" == report["reason"]
    assert 500 <= report["size"]
    assert "raise the target's limit, or give the bridge a patience" in report["why"]
    page = as_html([], {"r": counts})
    assert "Refused many times: r" in page
    assert 1 == counts.as_dict()["stuck"]


def test_patience_quarantines_a_message_that_exceeds_the_capacity_of_the_target(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with Server(capacity=Capacity(octets=20_000)) as server, Server() as source:
        for size in (10, 40_000, 20):
            source.publish("from", Message(b"x" * size))
        urls = (f"{source.url}/from", f"{server.url}/to")
        how: dict[str, Any] = {
            "backoff": 0.001,
            "max_backoff": 0.01,
            "max_messages": 3,
            "patience": 2.0,
        }
        counts = asyncio.run(bridged(*urls, **how))

    assert (2, Counter(full=1)) == (counts.accepted, counts.quarantined)
    (report,) = reports(caplog)
    assert "full" == report["reason"]
    assert 40_000 < report["size"]
    assert "takes at most 20000 bytes" in report["why"]
    assert "bridge gives up on it after its patience of 2 s" in report["why"]
