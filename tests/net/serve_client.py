"""Helpers of the tests of the server: clients of python-qpid-proton, and frames."""

# ruff: noqa: F811  (a fixture is imported, and an argument)

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from amqp10msg import (
    Described,
    ULong,
    decode_values,
    encode_value,
)
from amqp10msg.delivery.node import (
    OutgoingLink,
)

proton = pytest.importorskip("proton", reason="needs python-qpid-proton")
reactor = pytest.importorskip("proton.reactor")
utils = pytest.importorskip("proton.utils")

from amqp10msg.interop.proton import install  # noqa: E402
from amqp10msg.net.serve import Server  # noqa: E402  (needs proton)
from amqp10msg.testing.fixtures import amqp_server, amqp_server_options  # noqa: E402, F401
from tests.waiting import wait_until  # noqa: E402

TIMEOUT = 20.0  # seconds; nothing here takes one
#: The tests of the server wait for its thread.
until = wait_until


@contextmanager
def connected(server: Server, **options: Any) -> Iterator[Any]:
    connection = utils.BlockingConnection(server.url, timeout=TIMEOUT, **options)
    try:
        yield connection
    finally:
        connection.close()


def told(connection: Any, condition: Callable[[], bool]) -> None:
    """Let the client exchange frames until `condition` holds.

    In short waits: the server may send no frame that would wake the client.
    """
    end = time.monotonic() + TIMEOUT
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        with suppress(proton.Timeout):
            connection.wait(condition, timeout=0.01)


def receiver_of(connection: Any, address: str | None, **options: Any) -> Any:
    # By default, proton requests a message at once, and decodes it before `install`.
    receiver = connection.create_receiver(address, **{"credit": 0, **options})
    install(receiver.fetcher)
    return receiver


def outgoing(server: Server, address: str) -> list[OutgoingLink]:
    links = server.call(lambda nodes: nodes.make(address).links)
    return [link for link in links if isinstance(link, OutgoingLink)]


def settle(receiver: Any, state: Any, settled: bool = True, **fields: Any) -> Any:
    """Settle the oldest received delivery."""
    delivery = receiver.fetcher.unsettled.popleft()
    for name, value in fields.items():
        setattr(delivery.local, name, value)
    delivery.update(state)
    if settled:
        delivery.settle()
    else:
        receiver.fetcher.unsettled.appendleft(delivery)
    return delivery


def performative(code: int, *fields: Any) -> bytes:
    return encode_value(Described(ULong(code), list(fields)))


def frame(code: int, *fields: Any) -> bytes:
    body = performative(code, *fields)
    return (len(body) + 8).to_bytes(4, "big") + b"\2\0\0\0" + body


def performatives(client: socket.socket) -> Iterator[Described]:
    """Yield the performatives that the server sends; the payload of a transfer is dropped."""
    held = b""
    while True:
        while len(held) < 8 or (
            not held.startswith(b"AMQP") and len(held) < int.from_bytes(held[:4], "big")
        ):
            piece = client.recv(65536)
            assert piece, "the server closed the connection"
            held += piece
        if held.startswith(b"AMQP"):
            held = held[8:]
            continue
        size = int.from_bytes(held[:4], "big")
        values = decode_values(held[8:size])
        held = held[size:]
        yield next(values)


@pytest.fixture
def connection(amqp_server: Server) -> Iterator[Any]:
    with connected(amqp_server) as made:
        yield made
