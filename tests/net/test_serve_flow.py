"""Drain and echo: what the server answers to flow frames (Part 2, 2.6.7 and 2.7.4)."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from amqp10msg import Described, Message, UInt
from amqp10msg.delivery import Source, Target
from amqp10msg.net.serve import Server
from tests.net.serve_client import TIMEOUT, performatives
from tests.net.transport_ends import frame

pytestmark = pytest.mark.once

_WINDOW = UInt(2**31 - 1)


@contextmanager
def _receiving(server: Server, address: str = "q") -> Iterator[tuple[socket.socket, Any]]:
    """Attach a receiver with the handle 0, and return what the server sends after its attach."""
    with socket.create_connection((server.host, server.port), timeout=TIMEOUT) as client:
        client.sendall(
            b"AMQP\0\1\0\0"
            + frame(0x10, "client")
            + frame(0x11, None, UInt(0), _WINDOW, _WINDOW)
            + frame(0x12, "r", UInt(0), True, None, None, Source(address=address))
        )
        heard = performatives(client)
        while next(heard).descriptor != 0x12:
            pass
        yield client, heard


def _flow(credit: int, *, count: int = 0, drain: bool = False, echo: bool = False) -> bytes:
    state = UInt(0), UInt(count), UInt(credit), None, drain, echo
    return frame(0x13, UInt(0), _WINDOW, UInt(0), _WINDOW, *state)


def _state_of(flow: Described) -> tuple[int, int, bool]:
    """Return delivery-count, link-credit and drain of a flow of a link."""
    fields = (*flow.value, *[None] * 11)
    return fields[5], fields[6], bool(fields[8])


@pytest.mark.parametrize("messages", range(4))
@pytest.mark.parametrize("credit", range(4))
@pytest.mark.parametrize("echo", [False, True])
@pytest.mark.parametrize("address", ["q", "/management"])
def test_every_drain_is_answered(credit: int, messages: int, echo: bool, address: str) -> None:
    """Regression: a drain without credit, or used up by the last messages, was not answered."""
    with Server() as server, _receiving(server, address) as (client, heard):
        messages = 0 if address != "q" else messages
        for _ in range(messages):
            server.publish("q", Message("x"))
        client.sendall(_flow(credit, drain=True, echo=echo))
        sent = 0
        while True:
            said = next(heard)
            sent += said.descriptor == 0x14
            if said.descriptor == 0x13 and _state_of(said)[1] == 0:
                break
        assert min(credit, messages) == sent
        assert (credit, 0, True) == _state_of(said)


def test_a_drain_with_the_bytes_of_go_amqp_is_answered() -> None:
    """The flow that go-amqp sends for DrainCredit, after one message."""
    octets = bytes.fromhex(
        "0000002802000000005313d000000018000000095201700000138852017000001388435201434041"
    )
    with Server() as server, _receiving(server) as (client, heard):
        server.publish("q", Message("x"))
        client.sendall(_flow(1))
        while next(heard).descriptor != 0x14:
            pass
        client.sendall(octets)
        said = next(heard)
        assert 0x13 == said.descriptor
        assert (1, 0, True) == _state_of(said)


@pytest.mark.parametrize("link", [True, False])
def test_echo_is_answered(link: bool) -> None:
    with Server() as server, _receiving(server) as (client, heard):
        if link:
            client.sendall(_flow(3, echo=True))
        else:
            end = [None] * 5
            client.sendall(frame(0x13, UInt(0), _WINDOW, UInt(0), _WINDOW, *end, True))
        said = next(heard)
        assert 0x13 == said.descriptor
        if link:
            assert (0, 3, False) == _state_of(said)


def test_echo_on_a_sending_link_is_answered() -> None:
    with Server(credit=7) as server, _receiving(server) as (client, heard):
        client.sendall(
            frame(
                0x12,
                "s",
                UInt(1),
                False,
                None,
                None,
                None,
                Target(address="q"),
                None,
                None,
                UInt(0),
            )
        )
        while next(heard).descriptor != 0x13:  # the credit
            pass
        client.sendall(
            frame(
                0x13,
                UInt(0),
                _WINDOW,
                UInt(0),
                _WINDOW,
                UInt(1),
                UInt(0),
                UInt(7),
                None,
                False,
                True,
            )
        )
        said = next(heard)
        assert (0x13, 7) == (said.descriptor, said.value[6])
