"""What messages take up in memory is bounded, over all nodes."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from amqp10msg import Described, Message, UInt
from amqp10msg.delivery import Target
from amqp10msg.delivery.node import NodeError
from amqp10msg.net.serve import Server
from tests.net.serve_client import TIMEOUT, frame, performative, performatives, until

pytestmark = pytest.mark.once


@contextmanager
def raw(server: Server) -> Iterator[socket.socket]:
    with socket.create_connection((server.host, server.port), timeout=TIMEOUT) as client:
        yield client


def _attached(client: socket.socket, names: int) -> Iterator[Described]:
    """Open a connection with links to a queue, and return what the server says from then on."""
    window = UInt(2**31 - 1)
    octets = b"AMQP\0\1\0\0" + frame(0x10, "client") + frame(0x11, None, UInt(0), window, window)
    for handle in range(names):
        target = Target(address="q")
        octets += frame(0x12, f"l{handle}", UInt(handle), False, None, None, None, target)
    client.sendall(octets)
    heard = performatives(client)
    for _ in range(names):
        while next(heard).descriptor != 0x13:
            pass
    return heard


def _transfer(handle: int, number: int, message: bytes, more: bool = False) -> bytes:
    tag = number.to_bytes(4, "big")
    body = performative(0x14, UInt(handle), UInt(number), tag, UInt(0), False, more) + message
    return (len(body) + 8).to_bytes(4, "big") + b"\2\0\0\0" + body


def test_what_has_no_room_is_rejected_until_there_is_some() -> None:
    """80 messages of 15 MB were 1.3 GB of memory."""
    message = Message(b"x" * 30_000).encode()
    with Server(memory=100_000) as server, raw(server) as client:
        heard = _attached(client, 1)
        client.sendall(b"".join(_transfer(0, n, message) for n in range(5)))
        states: list[Any] = []
        while len(states) < 5:
            said = next(heard)
            if said.descriptor == 0x15:
                first, last = said.value[1], said.value[2] or said.value[1]
                states += [said.value[4]] * (last - first + 1)

        assert [0x24] * 3 + [0x25] * 2 == [state.descriptor for state in states]
        error = states[-1].value[0].value
        assert "amqp:resource-limit-exceeded" == error[0]
        assert "100000 bytes are allowed for all messages" in error[1]
        server.call(lambda nodes: nodes.delete("q"))
        assert 0 == server.broker.memory.held
        server.publish("q", message)
        assert len(message) + 400 == server.broker.memory.held


@pytest.mark.parametrize("ends", ["aborted", "detached", "lost"])
def test_messages_that_are_not_complete_count_too(ends: str) -> None:
    part = b"x" * 30_000
    with Server(memory=100_000) as server:
        with raw(server) as client:
            heard = _attached(client, 4)
            for handle in range(4):
                client.sendall(_transfer(handle, handle, part, more=True))
            client.sendall(_transfer(3, 3, part, more=True) + _transfer(3, 3, part))
            while (said := next(heard)).descriptor != 0x15:
                pass
            rejected = said.value[4]
            assert (3, 0x25) == (said.value[1], rejected.descriptor)
            assert "amqp:resource-limit-exceeded" == rejected.value[0].value[0]
            assert 90_000 == server.broker.memory.held
            with pytest.raises(NodeError, match="has no room"):
                server.publish("q", part + part)
            for handle in range(3):
                if ends == "aborted":
                    client.sendall(frame(0x14, UInt(handle), *[None] * 7, True))
                elif ends == "detached":
                    client.sendall(frame(0x16, UInt(handle), True))
            if ends != "lost":
                until(lambda: not server.broker.memory.held)
        until(lambda: not server.broker.memory.held)
