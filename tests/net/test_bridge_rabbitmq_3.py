"""RabbitMQ 3's peculiarities over 1.0, and how a bridge handles them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from amqp10msg.composite import Error
from amqp10msg.delivery import Source, Target
from amqp10msg.net.bridge import LinkError, parse_url
from amqp10msg.net.ends.amqp10 import Amqp10Connection, Amqp10Source, Amqp10Target
from amqp10msg.net.ends.terms import Oversized, SourceRequest, TargetRequest
from amqp10msg.net.ends.urls import Endpoint
from amqp10msg.net.transport import Attach


def test_rabbitmq_4_address_is_refused_by_rabbitmq_3() -> None:
    async def run() -> LinkError:
        lost: list[LinkError] = []
        end = parse_url("amqp://h/?queue=q")
        source = Amqp10Source(
            SourceRequest(
                endpoint=end,
                receive=print,
                on_lost=lost.append,
                window=1,
                max_message=1_000,
                overflow=lambda: Oversized(Path("x"), 1_000),
            ),
            rabbitmq_3(end),
        )
        source.on_detach(source.link, Error("amqp:invalid-field", "unknown_destination"))
        return lost[0]

    error = asyncio.run(run())
    assert error.permanent
    assert "address_version=1" in str(error)


def rabbitmq_3(end: Endpoint) -> Amqp10Connection:
    """Return a connection object whose peer claims to be RabbitMQ 3."""
    connection = Amqp10Connection(end)
    connection.peer_product = "RabbitMQ 3.10.8"
    return connection


def request_of(end: Endpoint, lost: list[LinkError]) -> TargetRequest:
    return TargetRequest(
        endpoint=end, on_outcomes=print, on_room=print, on_lost=lost.append, window=1
    )


@pytest.mark.parametrize("there", [True, False])
def test_target_queue_is_checked_at_rabbitmq_3(there: bool) -> None:
    """RabbitMQ 3 accepts messages for missing queues."""

    async def run() -> tuple[bool, bool, list[LinkError]]:
        lost: list[LinkError] = []
        end = parse_url("amqp://h/?queue=q&address_version=1")
        target = Amqp10Target(request_of(end, lost), rabbitmq_3(end))
        target.link.remote = Attach(name="n", handle=0, role=True, target=Target(address="q"))
        target.on_attach(target.link)
        waits = not target.opened.done()
        assert target.queue_probe is not None
        if there:
            target.queue_probe.remote = Attach(
                name="a", handle=1, role=False, source=Source(address="q")
            )
            target.on_attach(target.queue_probe)
        else:
            target.on_end(target.session, Error("amqp:not-found", "no queue"))
        return waits, target.opened.done() and not target.opened.exception(), lost

    waits, opened, lost = asyncio.run(run())

    assert (True, there) == (waits, opened)
    assert ([] if there else [True]) == [one.permanent for one in lost]


def test_non_ascii_target_is_refused_for_rabbitmq_3() -> None:
    async def run() -> list[LinkError]:
        lost: list[LinkError] = []
        end = parse_url("amqp://h//amq/queue/gr%C3%B6%C3%9Fe")
        target = Amqp10Target(request_of(end, lost), rabbitmq_3(end))
        target.link.remote = Attach(name="n", handle=0, role=True, target=Target(address="q"))
        target.on_attach(target.link)
        return lost

    (error,) = asyncio.run(run())
    assert error.permanent
    assert "amqp091" in str(error)
