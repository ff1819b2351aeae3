"""Faults and attacks: a faulty peer affects only itself."""

# ruff: noqa: F811  (a fixture is imported, and an argument)

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from amqp10msg import (
    AmqpValue,
    DecodeError,
    Described,
    Header,
    Message,
    Symbol,
    UByte,
    UInt,
    ULong,
)
from amqp10msg.delivery import (
    DistributionNode,
    Rejected,
    Source,
    Target,
)
from amqp10msg.delivery.filters import FilterSet
from amqp10msg.delivery.node import (
    DeadLetter,
)

proton = pytest.importorskip("proton", reason="needs python-qpid-proton")
reactor = pytest.importorskip("proton.reactor")
utils = pytest.importorskip("proton.utils")

from amqp10msg.interop.proton import sendable  # noqa: E402
from amqp10msg.net.serve import Nodes, Server  # noqa: E402  (needs proton)
from amqp10msg.net.serve.connection import Connection  # noqa: E402  (as the server)
from amqp10msg.testing.fixtures import amqp_server, amqp_server_options  # noqa: E402, F401
from tests.net.serve_client import (  # noqa: E402
    TIMEOUT,
    connected,
    connection,  # noqa: F401
    frame,
    outgoing,
    performative,
    performatives,
    receiver_of,
    until,
)

pytestmark = pytest.mark.once

# Links with the same name.


def test_link_is_stolen_by_the_same_link_on_another_connection(amqp_server: Server) -> None:
    for text in "ab":
        amqp_server.publish("q", Message(text))
    connections = []
    for _ in range(2):
        container = reactor.Container()
        container.container_id = "client"
        connections.append(
            utils.BlockingConnection(amqp_server.url, timeout=TIMEOUT, container=container)
        )
    first, second = connections
    try:
        sender = first.create_sender("q", name="link")
        receiver_of(first, "q", name="link").receive()
        receiver = receiver_of(second, "q", name="link")
        with pytest.raises(utils.LinkDetached, match="amqp:link:stolen"):
            first.wait(lambda: False)
        assert ["a", "b"] == [receiver.receive().text() for _ in "ab"]
        assert 1 == len(outgoing(amqp_server, "q"))
        sender.send(sendable(Message("c")))  # a sender is another link
        assert "c" == receiver.receive().text()
    finally:
        for connection in connections:
            connection.close()
    until(lambda: {} == amqp_server.call(lambda _: dict(amqp_server.broker.links)))


def test_link_attached_twice_ends_only_its_session(
    amqp_server: Server,
) -> None:
    amqp_server.publish("q", Message("x"))
    begin = frame(0x11, None, UInt(0), UInt(99), UInt(99))
    octets = b"AMQP\0\1\0\0" + frame(0x10, "client") + begin
    octets += begin[:6] + b"\0\1" + begin[8:]  # on channel 1
    window = [UInt(0), UInt(99), UInt(0), UInt(99)]
    for handle in range(2):
        octets += frame(0x12, "link", UInt(handle), True, None, None, Source(address="q"))
        octets += frame(0x13, *window, UInt(handle), UInt(0), UInt(2))
    attach = frame(0x12, "other", UInt(0), True, None, None, Source(address="q"))
    with socket.create_connection((amqp_server.host, amqp_server.port)) as client:
        client.settimeout(TIMEOUT)
        for start in range(0, len(octets), 7):
            client.sendall(octets[start : start + 7])
        heard = performatives(client)
        while (said := next(heard)).descriptor != 0x17:
            pass
        assert "amqp:not-allowed" == said.value[0].value[0]
        assert (1, 0) == (amqp_server.counts("q").available, amqp_server.counts("q").acquired)
        client.sendall(attach[:6] + b"\0\1" + attach[8:])
        while (said := next(heard)).descriptor != 0x12:
            pass
        assert "other" == said.value[0]


# Faults.


def broken(letter: DeadLetter) -> None:
    """Raise, like a faulty handler of dead letters."""
    if Message.decode(letter.octets).text() == "bad":
        raise OSError("no room for dead letters")


@pytest.fixture
def faulty() -> Iterator[Server]:
    """A server whose node q cannot archive one message."""
    with Server() as server:

        def prepare(nodes: Nodes) -> None:
            nodes.make("q").dead_letter = broken

        server.call(prepare)
        for address, text in (("q", "bad"), ("q", "good"), ("other", "x"), ("other", "y")):
            server.publish(address, Message(text))
        yield server


def free(server: Server, address: str, count: int) -> bool:
    counts = server.counts(address)
    return (counts.available, counts.acquired) == (count, 0) and not outgoing(server, address)


def test_faulty_connection_releases_its_deliveries(faulty: Server) -> None:
    with connected(faulty) as connection:
        receivers = [
            connection.create_receiver(address, credit=2, name=address)
            for address in ("q", "other")
        ]
        until(lambda: faulty.counts("q").acquired + faulty.counts("other").acquired == 4)
        for receiver in receivers:
            connection.wait(lambda receiver=receiver: len(receiver.fetcher.incoming) == 2)
        bad = receivers[0].fetcher.incoming[0][1]
        bad.update(proton.Delivery.REJECTED)
        bad.settle()
        with suppress(proton.ProtonException):
            connection.wait(lambda: False)
    until(lambda: free(faulty, "q", 2) and free(faulty, "other", 2))
    with connected(faulty) as connection:
        for address, texts in (("q", ["bad", "good"]), ("other", ["x", "y"])):
            receiver = receiver_of(connection, address)
            assert texts == [receiver.receive().text() for _ in texts]


def test_silent_peer_releases_its_deliveries_at_close(faulty: Server) -> None:
    octets = b"AMQP\0\1\0\0" + frame(0x10, "client")
    octets += frame(0x11, None, UInt(0), UInt(99), UInt(99))
    window = [UInt(0), UInt(99), UInt(0), UInt(99)]
    for handle, address in enumerate(("q", "other")):
        octets += frame(0x12, address, UInt(handle), True, None, None, Source(address=address))
        octets += frame(0x13, *window, UInt(handle), UInt(0), UInt(2))
    with socket.create_connection((faulty.host, faulty.port)) as client:
        client.settimeout(TIMEOUT)
        client.sendall(octets)
        heard = performatives(client)
        until(lambda: faulty.counts("q").acquired + faulty.counts("other").acquired == 4)
        client.sendall(frame(0x15, True, UInt(0), UInt(3), True, Rejected()))
        while next(heard).descriptor != 0x18:
            pass
        for address in ("q", "other"):
            assert 0 == faulty.counts(address).acquired
            assert [] == outgoing(faulty, address)


def test_link_that_fails_does_not_stop_the_others(
    faulty: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> bool:
        raise ZeroDivisionError

    with connected(faulty) as connection, connected(faulty) as other:
        receiver = receiver_of(other, "other")
        monkeypatch.setattr(FilterSet, "matches", fail)
        with suppress(proton.ProtonException):
            receiver_of(connection, "q", options=reactor.Selector("a = 1")).receive()
            connection.wait(lambda: False)
        until(lambda: free(faulty, "q", 2))
        assert ["x", "y"] == [receiver.receive().text() for _ in "xy"]


def test_node_that_cannot_expire_does_not_stop_the_server() -> None:
    with Server() as server:
        until(lambda: server.counts("q") is not None)

        def fail() -> int:
            raise ZeroDivisionError

        def spoil(nodes: Nodes) -> None:
            nodes.make("a").expire = fail  # type: ignore[method-assign]

        server.call(spoil)
        server.publish("b", Message("short", header=Header(ttl=1)))
        until(lambda: server.counts("b").causes == {"expired": 1})


# Work that one peer causes does not hold the others.


def busy(is_short: bool, other_is_served: threading.Event) -> None:
    """Simulate long work of the server's thread until another peer was served.

    Long work gives a slow client time: it is served between two calls.
    """
    other_is_served.wait(0.005 if is_short else 1.0)


def test_slow_filter_does_not_block_other_connections(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    count = 300
    evaluated: list[int] = []
    other_is_served = threading.Event()

    def slow(*_: Any, **__: Any) -> bool:
        busy(len(evaluated) < count / 2, other_is_served)
        evaluated.append(1)
        return False

    with Server() as server, connected(server) as connection, connected(server) as other:
        for n in range(count):
            server.publish("q", Message(n))
        monkeypatch.setattr(FilterSet, "matches", slow)
        receiver = connection.create_receiver("q", options=reactor.Selector("a = 1"), credit=1)
        other.create_sender("elsewhere")
        assert len(evaluated) < count
        other_is_served.set()
        until(lambda: len(evaluated) == count)
        connection.create_sender("elsewhere")
        assert count == len(evaluated), "each message was looked at once"
        assert [] == list(receiver.fetcher.incoming)


def test_busy_sender_does_not_block_other_connections(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    count = 60  # of the session's window
    published: list[int] = []
    publish = DistributionNode.publish
    other_is_served = threading.Event()

    def slow(node: DistributionNode, octets: Any, **options: Any) -> int:
        busy(len(published) < count / 2, other_is_served)
        published.append(1)
        return publish(node, octets, **options)

    window = UInt(2**31 - 1)
    begin = frame(0x11, None, UInt(0), window, window)
    octets = b"AMQP\0\1\0\0" + frame(0x10, "client") + begin
    octets += frame(0x12, "link", UInt(0), False, None, None, None, Target(address="q"))
    message = Message(b"x" * 4_000).encode()
    transfers = b""
    for n in range(count):
        body = performative(0x14, UInt(0), UInt(n), n.to_bytes(4, "big"), UInt(0), True) + message
        transfers += (len(body) + 8).to_bytes(4, "big") + b"\2\0\0\0" + body
    with Server(credit=count) as server, connected(server) as other:
        monkeypatch.setattr(DistributionNode, "publish", slow)
        with socket.create_connection((server.host, server.port)) as client:
            client.settimeout(TIMEOUT)
            client.sendall(octets)
            heard = performatives(client)
            while next(heard).descriptor != 0x13:
                pass
            client.sendall(transfers)
            until(lambda: bool(published))
            other.create_sender("elsewhere")
            assert len(published) < count
            other_is_served.set()
            until(lambda: server.counts("q").available == count)


def test_message_that_is_nested_too_deep_is_rejected(amqp_server: Server, connection: Any) -> None:
    body: Any = None
    for _ in range(40):
        body = [body]
    sender = connection.create_sender("q")
    with pytest.raises(utils.SendException):
        sender.send(sendable(Message(AmqpValue(body))))
    with pytest.raises(DecodeError, match="depth"):
        amqp_server.publish("q", Message(AmqpValue(body)).encode())


def linked(address: str, *, settles_second: bool = False) -> bytes:
    """Open, begin, attach as a receiver, and grant credit."""
    source = Described(ULong(0x28), [address])
    window = [UInt(0), UInt(99), UInt(0), UInt(99)]
    octets = b"AMQP\0\1\0\0" + frame(0x10, "client")
    octets += frame(0x11, None, UInt(0), UInt(99), UInt(99))
    octets += frame(0x12, "link", UInt(0), True, UByte(0), UByte(settles_second), source)
    return octets + frame(0x13, *window, UInt(0), UInt(0), UInt(2))


def said(heard: Iterator[Any], code: int) -> Any:
    while (one := next(heard)).descriptor != code:
        pass
    return one.value


@pytest.mark.parametrize(
    "error, answer",
    [
        ([Symbol("amqp:x"), "t", {"\u00e9": 1}], ["amqp:x", "t"]),
        ([Symbol("amqp:x"), "t", {1: 2}], ["amqp:x", "t"]),
        ([Symbol("amqp:x"), "t", {Symbol("a"): 1}], ["amqp:x", "t", {"a": 1}]),
    ],
)
def test_malformed_error_is_not_returned_to_the_receiver(
    amqp_server: Server, error: list[Any], answer: list[Any]
) -> None:
    amqp_server.publish("q", Message("x"))
    rejected = Described(ULong(0x25), [Described(ULong(0x1D), error)])
    with socket.create_connection((amqp_server.host, amqp_server.port)) as client:
        client.settimeout(TIMEOUT)
        client.sendall(linked("q", settles_second=True))
        heard = performatives(client)
        said(heard, 0x14)
        client.sendall(frame(0x15, True, UInt(0), UInt(0), False, rejected))
        _, _, _, settled, state = said(heard, 0x15)[:5]

        assert settled
        assert answer == state.value[0].value
    assert {"rejected": 1} == amqp_server.counts("q").causes


def test_a_connection_that_cannot_send_does_not_stop_the_others(
    amqp_server: Server, connection: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep = Connection.keep

    def fail(self: Connection) -> None:
        if self.container == "client":
            raise ZeroDivisionError
        keep(self)

    amqp_server.publish("q", Message("x"))
    monkeypatch.setattr(Connection, "keep", fail)
    with socket.create_connection((amqp_server.host, amqp_server.port)) as client:
        client.settimeout(TIMEOUT)
        client.sendall(linked("q"))
        with suppress(ConnectionError):
            while client.recv(65_536):
                pass
    until(lambda: amqp_server.counts("q").available == 1)

    assert "x" == receiver_of(connection, "q").receive().text()
