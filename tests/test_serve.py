"""The server, as clients of python-qpid-proton see it."""

# ruff: noqa: F811  (a fixture is imported, and an argument)

from __future__ import annotations

import logging
import os
import socket
import sqlite3
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from amqp10msg import (
    AmqpValue,
    DecodeError,
    Described,
    Header,
    Message,
    Properties,
    UInt,
    ULong,
    __version__,
    decode_values,
    encode_value,
    scan,
)
from amqp10msg.delivery import (
    Accepted,
    DistributionNode,
    MessageState,
    Modified,
    Rejected,
    Source,
    Target,
    TerminusExpiryPolicy,
)
from amqp10msg.delivery.filters import FilterSet
from amqp10msg.delivery.node import (
    Capacity,
    DeadLetter,
    NodeError,
    OutgoingLink,
    StoreError,
)

proton = pytest.importorskip("proton", reason="needs python-qpid-proton")
reactor = pytest.importorskip("proton.reactor")
utils = pytest.importorskip("proton.utils")

from amqp10msg.net.serve import Nodes, Server  # noqa: E402  (needs proton)
from amqp10msg.proton import install, sendable  # noqa: E402
from amqp10msg.testing.fixtures import amqp_server, amqp_server_options  # noqa: E402, F401

pytestmark = pytest.mark.once

TIMEOUT = 20.0  # seconds; nothing here takes one


@contextmanager
def connected(server: Server, **options: Any) -> Iterator[Any]:
    connection = utils.BlockingConnection(server.url, timeout=TIMEOUT, **options)
    try:
        yield connection
    finally:
        connection.close()


def told(connection: Any, condition: Callable[[], bool]) -> None:
    """Let the client say what it has to say, until the server's thread has seen to it.

    In short turns: nothing may come back that would wake the client.
    """
    end = time.monotonic() + TIMEOUT
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        with suppress(proton.Timeout):
            connection.wait(condition, timeout=0.01)


def receiver_of(connection: Any, address: str | None, **options: Any) -> Any:
    receiver = connection.create_receiver(address, **options)
    install(receiver.fetcher)
    return receiver


def until(condition: Callable[[], bool]) -> None:
    """Wait for the server's thread; the timeout is for the case that it never happens."""
    end = time.monotonic() + TIMEOUT
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.002)


def outgoing(server: Server, address: str) -> list[OutgoingLink]:
    links = server.call(lambda nodes: nodes.make(address).links)
    return [link for link in links if isinstance(link, OutgoingLink)]


def settle(receiver: Any, state: Any, settled: bool = True, **fields: Any) -> Any:
    """Answer the oldest delivery that was received."""
    delivery = receiver.fetcher.unsettled.popleft()
    for name, value in fields.items():
        setattr(delivery.local, name, value)
    delivery.update(state)
    if settled:
        delivery.settle()
    else:
        receiver.fetcher.unsettled.appendleft(delivery)
    return delivery


@pytest.fixture
def connection(amqp_server: Server) -> Iterator[Any]:
    with connected(amqp_server) as made:
        yield made


# Messages and outcomes.


def test_exact_octets_go_in_and_out(amqp_server: Server, connection: Any) -> None:
    message = Message(
        b"x" * (1 << 20),
        header=Header(durable=True, priority=7),
        message_annotations={"x-opt-a": UInt(1)},
        properties=Properties(message_id="m-1"),
        footer={"x-opt-crc-32": UInt(5)},
    )
    connection.create_sender("q").send(sendable(message))
    assert [message] == amqp_server.messages("q")

    received = receiver_of(connection, "q").receive()
    assert message.bare == received.bare
    assert message.footer == received.footer
    assert Header(durable=True, priority=7, first_acquirer=True) == received.header


def test_all_outcomes(amqp_server: Server, connection: Any) -> None:
    amqp_server.publish("q", Message("x"))
    receiver = receiver_of(connection, "q")
    states: list[Any] = []

    def state() -> Any:
        return amqp_server.call(lambda nodes: nodes.make("q").state_of(1))

    receiver.receive()
    delivery = settle(receiver, proton.Delivery.RECEIVED, False, section_number=1)
    (link,) = outgoing(amqp_server, "q")
    told(connection, lambda: any(one.state for one in link.unsettled.values()))
    states.append(state())
    delivery.update(proton.Delivery.RELEASED)
    settle(receiver, proton.Delivery.RELEASED)
    assert Header(first_acquirer=True) == receiver.receive().header
    settle(
        receiver,
        proton.Delivery.MODIFIED,
        failed=True,
        annotations={proton.symbol("x-opt-why"): "busy"},
    )
    again = receiver.receive()
    assert Header(first_acquirer=True, delivery_count=1) == again.header
    assert {"x-opt-why": "busy"} == again.message_annotations
    settle(receiver, proton.Delivery.ACCEPTED)
    amqp_server.publish("q", Message("y"))
    receiver.receive()
    states.append(state())
    settle(
        receiver,
        proton.Delivery.REJECTED,
        condition=proton.Condition("amqp:not-allowed", "no", {proton.symbol("k"): 1}),
    )
    told(connection, lambda: amqp_server.counts("q").archived == 2)

    assert [MessageState.ACQUIRED, MessageState.ARCHIVED] == states
    assert {"accepted": 1, "rejected": 1} == amqp_server.counts("q").causes


def test_undeliverable_here(amqp_server: Server, connection: Any) -> None:
    amqp_server.publish("q", Message("a"))
    one = receiver_of(connection, "q", name="one")
    one.receive()
    settle(one, proton.Delivery.MODIFIED, undeliverable=True)
    amqp_server.publish("q", Message("b"))
    assert "b" == one.receive().text()

    assert "a" == receiver_of(connection, "q", name="other").receive().text()


class Second(reactor.ReceiverOption):  # type: ignore[misc,name-defined]
    """The receiver settles second."""

    def apply(self, link: Any) -> None:
        link.rcv_settle_mode = proton.Link.RCV_SECOND


def many_keys(count: int) -> Message:
    """A durable message with as many ulong keys as a map may have, or more."""
    annotations: Any = {ULong(key): None for key in range(count)}
    return Message("many keys", header=Header(durable=True), message_annotations=annotations)


@pytest.mark.parametrize("second", [False, True])
def test_outcome_that_makes_a_message_unreadable_is_refused(tmp_path: Path, second: bool) -> None:
    file = tmp_path / "messages.db"
    octets = many_keys(4_096).encode()
    with Server(file=file) as server, connected(server) as connection:
        server.publish("q", octets)
        receiver = receiver_of(connection, "q", options=Second() if second else None)
        receiver.receive()
        delivery = settle(
            receiver,
            proton.Delivery.MODIFIED,
            not second,
            annotations={proton.ulong(5_000): None},
        )
        if second:
            connection.wait(lambda: delivery.settled)
            assert proton.Delivery.RELEASED == delivery.remote_state
        else:
            with pytest.raises(utils.LinkDetached, match="amqp:resource-limit-exceeded"):
                connection.wait(lambda: False)
        assert [octets] == [message.encode() for message in server.messages("q")]
    with Server(file=file) as server:
        assert [octets] == [message.encode() for message in server.messages("q")]
        assert [] == server.quarantined("q")


def test_stored_message_that_cannot_be_read_does_not_stop_the_server(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "messages.db"
    with Server(file=file) as server:
        for text in "ab":
            server.publish("q", Message(text, header=Header(durable=True)))
    database = sqlite3.connect(file)
    database.execute("UPDATE message SET octets = ? WHERE sequence = 1", (b"\0",))
    database.commit()
    database.close()
    with Server(file=file) as server, connected(server) as connection:
        assert "b" == receiver_of(connection, "q").receive().text()
        (aside,) = server.quarantined("q")
        assert ("q", 1, b"\0") == (aside.node, aside.stored.sequence, aside.stored.octets)
    assert ["quarantined"] == [
        record.event  # type: ignore[attr-defined]
        for record in caplog.records
        if record.levelno == logging.ERROR
    ]


def test_receiver_that_settles_second_hears_that_the_outcome_is_known(
    amqp_server: Server,
    connection: Any,
) -> None:
    amqp_server.publish("q", Message("x"))
    receiver = receiver_of(connection, "q", options=Second())
    receiver.receive()
    delivery = settle(receiver, proton.Delivery.ACCEPTED, settled=False)
    connection.wait(lambda: delivery.settled)

    assert proton.Delivery.ACCEPTED == delivery.remote_state
    assert 1 == amqp_server.counts("q").archived


class SecondSender(reactor.SenderOption):  # type: ignore[misc,name-defined]
    """A sender that asks the receiver to settle second."""

    def apply(self, link: Any) -> None:
        link.rcv_settle_mode = proton.Link.RCV_SECOND


def test_sender_that_settles_first_is_waited_for() -> None:
    with Server(receiver_settles_second=True) as server, connected(server) as connection:
        sender = connection.create_sender("q", options=SecondSender())
        for octets, state in (
            (Message("x").encode(), proton.Delivery.ACCEPTED),
            (b"\0\x53", proton.Delivery.REJECTED),
        ):
            delivery = sender.link.delivery(str(state))
            sender.link.stream(octets)
            sender.link.advance()
            connection.wait(lambda delivery=delivery: delivery.remote_state)
            connection.create_sender("elsewhere", name=str(state))  # answered after a settlement
            assert (state, False) == (delivery.remote_state, delivery.settled)
            delivery.settle()
        sender.close()

        assert 1 == server.counts("q").available


def test_sender_that_asks_the_receiver_to_settle_second_is_answered_with_first(
    connection: Any,
) -> None:
    sender = connection.create_sender("q", options=SecondSender())
    assert proton.Link.RCV_FIRST == sender.link.remote_rcv_settle_mode
    delivery = sender.link.delivery("x")
    sender.link.stream(Message("x").encode())
    sender.link.advance()
    connection.wait(lambda: delivery.settled)

    assert proton.Delivery.ACCEPTED == delivery.remote_state


def test_open_frame_has_properties() -> None:
    with Server() as server, connected(server) as connection:
        properties = connection.conn.remote_properties
        assert "amqp10msg" == properties["product"]
        assert __version__ == properties["version"]
        assert properties["platform"].startswith("Python 3.")
    with Server(properties={"product": "RabbitMQ", "x": 1}) as server, connected(server) as made:
        properties = made.conn.remote_properties
        assert ("RabbitMQ", __version__, 1) == tuple(
            properties[key] for key in ("product", "version", "x")
        )


def test_many_connections_at_once_are_all_accepted(amqp_server: Server) -> None:
    resource = pytest.importorskip("resource", reason="the system has no limit of open files")
    header = b"AMQP\0\1\0\0"
    sockets = []
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    count = min(2_000, (limit - 300) // 2)
    try:
        for _ in range(count):
            client = socket.socket()
            client.setblocking(False)
            sockets.append(client)
            client.connect_ex((amqp_server.host, amqp_server.port))
        for client in sockets:
            client.settimeout(TIMEOUT)
            client.sendall(header)
        assert {header} == {client.recv(8) for client in sockets}
    finally:
        for client in sockets:
            client.close()


def test_sender_gets_outcomes(amqp_server: Server, connection: Any) -> None:
    sender = connection.create_sender("q")
    assert proton.Delivery.ACCEPTED == sender.send(sendable(Message("x"))).remote_state
    with pytest.raises(utils.SendException):
        sender.send(sendable(b"\0\x53"))

    assert 1 == amqp_server.counts("q").available


def test_at_most_once_both_ways(amqp_server: Server, connection: Any) -> None:
    sender = connection.create_sender("q", options=reactor.AtMostOnce())
    sender.send(sendable(Message("x")))
    receiver = receiver_of(connection, "q", options=reactor.AtMostOnce())

    assert "x" == receiver.receive().text()
    until(lambda: amqp_server.counts("q").archived == 1)


def test_link_that_dies_gives_the_default_outcome(amqp_server: Server) -> None:
    amqp_server.publish("q", Message("x"))
    with connected(amqp_server) as connection:
        receiver = receiver_of(connection, "q")
        receiver.receive()
        assert 1 == amqp_server.counts("q").acquired
        receiver.close()
        assert 1 == amqp_server.counts("q").available
        receiver_of(connection, "q").receive()
    until(lambda: amqp_server.counts("q").available == 1)


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
    until(lambda: {} == amqp_server.call(lambda _: dict(amqp_server.links)))


def test_link_that_is_attached_twice_on_a_session_ends_the_session_alone(
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
    """Fail as a handler of dead letters may."""
    if Message.decode(letter.octets).text() == "bad":
        raise OSError("no room for dead letters")


@pytest.fixture
def faulty() -> Iterator[Server]:
    """A server whose node q cannot get rid of one message, and that takes what it is sent."""
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


def test_connection_with_a_fault_holds_nothing_any_more(faulty: Server) -> None:
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


def test_peer_that_does_not_answer_a_close_holds_nothing_any_more(faulty: Server) -> None:
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


def test_filter_that_looks_at_many_messages_lets_other_connections_have_their_turns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    count = 300
    evaluated: list[int] = []

    def slow(*_: Any, **__: Any) -> bool:
        time.sleep(0.005)
        evaluated.append(1)
        return False

    with Server() as server, connected(server) as connection, connected(server) as other:
        for n in range(count):
            server.publish("q", Message(n))
        monkeypatch.setattr(FilterSet, "matches", slow)
        receiver = connection.create_receiver("q", options=reactor.Selector("a = 1"), credit=1)
        other.create_sender("elsewhere")
        assert len(evaluated) < count
        until(lambda: len(evaluated) == count)
        connection.create_sender("elsewhere")
        assert count == len(evaluated), "each message was looked at once"
        assert [] == list(receiver.fetcher.incoming)


def test_sender_of_many_messages_lets_other_connections_have_their_turns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    count = 60  # of the session's window
    published: list[int] = []
    publish = DistributionNode.publish

    def slow(node: DistributionNode, octets: Any, **options: Any) -> int:
        time.sleep(0.005)
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


# Sources.


def test_selector(amqp_server: Server, connection: Any) -> None:
    for colour in ("red", "green", "blue", "green"):
        amqp_server.publish("q", Message(colour, application_properties={"colour": colour}))
    receiver = receiver_of(connection, "q", options=reactor.Selector("colour = 'green'"))

    assert ["green", "green"] == [receiver.receive().text() for _ in range(2)]
    with pytest.raises(proton.Timeout):
        receiver.receive(timeout=0.1)
    assert "apache.org:selector-filter:string" in bytes(
        receiver.link.remote_source.filter.encode()
    ).decode("latin-1")


def test_bad_selector_refuses_the_link(connection: Any) -> None:
    with pytest.raises(utils.LinkDetached, match="amqp:"):
        receiver_of(connection, "q", options=reactor.Selector("colour ="))


def test_filter_that_is_not_known_is_left_out_of_the_answer(connection: Any) -> None:
    unknown = proton.Described(proton.symbol("example.com:unknown:string"), "x")
    receiver = receiver_of(
        connection, "q", options=reactor.Filter({proton.symbol("unknown"): unknown})
    )
    connection.create_sender("q").send(sendable(Message("x")))

    assert "x" == receiver.receive().text()
    assert "unknown" not in bytes(receiver.link.remote_source.filter.encode()).decode("latin-1")


def test_no_local(amqp_server: Server, connection: Any) -> None:
    no_local = proton.Described(proton.symbol("apache.org:no-local-filter:list"), [])
    option = reactor.Filter({proton.symbol("no-local"): no_local})
    receiver = receiver_of(connection, "q", options=option)
    connection.create_sender("q").send(sendable(Message("mine")))
    with connected(amqp_server) as other:
        other.create_sender("q").send(sendable(Message("another's")))

    assert "another's" == receiver.receive().text()
    assert ["mine", "another's"] == [message.text() for message in amqp_server.messages("q")]
    assert "no-local" in bytes(receiver.link.remote_source.filter.encode()).decode("latin-1")


def test_capability_that_is_not_supported_is_left_out_of_the_answer(connection: Any) -> None:
    class Capable(reactor.LinkOption):  # type: ignore[misc,name-defined]
        def apply(self, link: Any) -> None:
            names = [proton.symbol("topic"), proton.symbol("queue")]
            array = proton.Array(proton.UNDESCRIBED, proton.Data.SYMBOL, *names)
            terminus = link.source if link.is_receiver else link.target
            terminus.capabilities.put_object(array)

    receiver = connection.create_receiver("q", options=Capable())
    sender = connection.create_sender("q", options=Capable())
    for terminus in (receiver.link.remote_source, sender.link.remote_target):
        assert terminus.capabilities.next()
        assert ["queue"] == list(terminus.capabilities.get_object().elements)


def test_copy_mode(amqp_server: Server, connection: Any) -> None:
    for text in "ab":
        amqp_server.publish("q", Message(text))
    one, other = (
        receiver_of(connection, "q", name=name, options=reactor.Copy()) for name in ("one", "two")
    )
    for receiver in (one, other):
        assert proton.Terminus.DIST_MODE_COPY == receiver.link.remote_source.distribution_mode
        assert ["a", "b"] == [receiver.receive().text() for _ in "ab"]
        receiver.accept()
        receiver.accept()
    assert 2 == amqp_server.counts("q").available

    move = receiver_of(connection, "q", name="move")
    assert "a" == move.receive().text()


def test_drain(amqp_server: Server, connection: Any) -> None:
    for text in "abc":
        amqp_server.publish("q", Message(text))
    receiver = receiver_of(connection, "q")
    receiver.link.drain(10)
    connection.wait(lambda: not receiver.link.draining())
    connection.wait(lambda: len(receiver.fetcher.incoming) == 3)
    assert 0 == receiver.link.credit
    assert ["a", "b", "c"] == [receiver.fetcher.pop().text() for _ in "abc"]

    receiver.link.drain(5)
    connection.wait(lambda: not receiver.link.draining())
    assert 0 == receiver.link.credit


def test_drain_in_one_breath_with_an_outcome(
    amqp_server: Server,
    connection: Any,
) -> None:
    amqp_server.publish("q", Message("x"))
    receiver = receiver_of(connection, "q")
    receiver.receive()
    delivery = receiver.fetcher.unsettled.popleft()
    delivery.update(proton.Delivery.ACCEPTED)
    delivery.settle()
    receiver.link.drain(5)
    connection.wait(lambda: not receiver.link.draining())

    assert 0 == receiver.link.credit


def test_messages_are_shared_among_competing_links(
    amqp_server: Server,
    connection: Any,
) -> None:
    for n in range(3):
        connection.create_receiver("q", name=str(n), credit=10)
    connection.create_sender("elsewhere")  # answered after the credit is there
    for n in range(6):
        amqp_server.publish("q", Message(str(n)))

    assert [2, 2, 2] == [len(link.unsettled) for link in outgoing(amqp_server, "q")]


def test_priorities_and_expiry(amqp_server: Server, connection: Any) -> None:
    amqp_server.publish("q", Message("short", header=Header(ttl=1)))
    amqp_server.publish("q", Message("low", header=Header(priority=1)))
    amqp_server.publish("q", Message("high", header=Header(priority=9)))
    until(lambda: amqp_server.counts("q").causes == {"expired": 1})
    receiver = receiver_of(connection, "q")

    assert ["high", "low"] == [receiver.receive().text() for _ in range(2)]


# Nodes.


def test_dynamic_node_lives_as_long_as_its_link(
    amqp_server: Server,
    connection: Any,
) -> None:
    receiver = receiver_of(connection, None, dynamic=True, name="replies")
    address = receiver.link.remote_source.address
    assert "replies" in address
    assert connection.container.container_id in address
    connection.create_sender(address).send(sendable(Message("x")))
    assert "x" == receiver.receive().text()
    properties = bytes(receiver.link.remote_source.properties.encode()).decode("latin-1")
    assert "lifetime-policy" in properties
    receiver.close()

    until(lambda: not amqp_server.call(lambda nodes: address in nodes))


def test_lifetime_policy_of_a_dynamic_node(amqp_server: Server) -> None:
    class DeleteOnNoMessages(reactor.ReceiverOption):  # type: ignore[misc,name-defined]
        def apply(self, link: Any) -> None:
            policy = proton.Described(proton.ulong(0x2D), [])
            link.source.properties.put_dict({proton.symbol("lifetime-policy"): policy})

    with connected(amqp_server) as connection:
        receiver = receiver_of(connection, None, dynamic=True, options=DeleteOnNoMessages())
        address = receiver.link.remote_source.address
        amqp_server.publish(address, Message("x"))
        receiver.close()
        assert amqp_server.call(lambda nodes: address in nodes)
        receiver_of(connection, address).receive()
        connection.create_sender("elsewhere")  # answered after what was sent before
        (link,) = outgoing(amqp_server, address)
        amqp_server.call(lambda _: [one.settle(Accepted()) for one in [*link.unsettled.values()]])
        until(lambda: not amqp_server.call(lambda nodes: address in nodes))


def test_unknown_addresses_are_refused_where_nodes_are_not_made() -> None:
    with Server(nodes=["known"], create=False) as server, connected(server) as connection:
        connection.create_sender("known")
        with pytest.raises(utils.LinkDetached, match="amqp:not-found"):
            connection.create_sender("unknown")
        with pytest.raises(utils.LinkDetached, match="amqp:not-found"):
            connection.create_receiver("unknown")


def test_anonymous_terminus(amqp_server: Server, connection: Any) -> None:
    sender = connection.create_sender(None)
    sender.send(sendable(Message("x", properties=Properties(to="q"))))
    with pytest.raises(utils.SendException):
        sender.send(sendable(Message("nowhere")))

    assert ["x"] == [message.text() for message in amqp_server.messages("q")]


def test_dead_letters() -> None:
    with Server(dead_letter="dead") as server, connected(server) as connection:
        server.publish("q", Message("bad"))
        server.publish("q", Message("short", header=Header(ttl=1)))
        receiver = receiver_of(connection, "q")
        receiver.receive()
        receiver.reject()
        connection.create_sender("elsewhere")
        until(lambda: server.counts("dead").available == 2)
        assert {"bad", "short"} == {message.text() for message in server.messages("dead")}


# Refusals.


def test_durable_messages_are_rejected_where_nothing_is_kept() -> None:
    durable = sendable(Message("x", header=Header(durable=True)))
    with Server() as server, connected(server) as connection:
        sender = connection.create_sender("q")
        with pytest.raises(utils.SendException):
            sender.send(durable)
        assert "amqp:precondition-failed" == _condition_of_last(sender)

        class AcceptedAlone(reactor.SenderOption):  # type: ignore[misc,name-defined]
            def apply(self, link: Any) -> None:
                outcomes = proton.Array(
                    proton.UNDESCRIBED, proton.Data.SYMBOL, proton.symbol("amqp:accepted:list")
                )
                link.source.outcomes.put_object(outcomes)

        sender = connection.create_sender("q", name="accepted", options=AcceptedAlone())
        with pytest.raises(utils.LinkDetached, match="amqp:precondition-failed"):
            sender.send(durable)
        assert 0 == server.counts("q").available


def _condition_of_last(sender: Any) -> Any:
    delivery = sender.link.delivery("last")
    sender.link.stream(Message("x", header=Header(durable=True)).encode())
    sender.link.advance()
    sender.connection.wait(lambda: delivery.settled)
    return delivery.remote.condition.name


def test_capacity_is_refused() -> None:
    with Server(capacity=Capacity(messages=1)) as server, connected(server) as connection:
        sender = connection.create_sender("q")
        sender.send(sendable(Message("x")))
        with pytest.raises(utils.SendException):
            sender.send(sendable(Message("y")))
        with pytest.raises(NodeError, match="at most 1 messages"):
            server.publish("q", Message("z"))


def test_message_that_is_too_long_ends_its_link() -> None:
    with Server(max_message_size=1_000) as server, connected(server) as connection:
        sender = connection.create_sender("q")
        assert 1_000 == sender.link.remote_max_message_size
        sender.link.delivery("long")
        sender.link.stream(Message(b"x" * 100_000).encode())
        sender.link.advance()
        with pytest.raises(utils.LinkDetached, match="amqp:link:message-size-exceeded"):
            connection.wait(lambda: False)
        connection.create_sender("q", name="another").send(sendable(Message(b"x" * 900)))
        assert 1 == server.counts("q").available


# Who may connect.


USERS = {"ann": "secret", "bob": ""}


@pytest.mark.parametrize(
    "user, password, allowed",
    [
        ("ann", "secret", True),
        ("ann", "wrong", False),
        ("eve", "secret", False),
        (None, None, False),
    ],
)
def test_plain(user: Any, password: Any, allowed: bool) -> None:
    with Server(users=USERS) as server:
        options = {"user": user, "password": password, "allow_insecure_mechs": True}
        if allowed:
            with connected(server, **options) as connection:
                connection.create_sender("q").send(sendable(Message("x")))
        else:
            with pytest.raises(proton.ConnectionException, match="unauthorized"):
                utils.BlockingConnection(server.url, timeout=TIMEOUT, **options)


def test_plain_and_anonymous() -> None:
    with Server(users=USERS, anonymous=True) as server:
        for mechanism in ("PLAIN", "ANONYMOUS"):
            options = {"user": "ann", "password": "secret", "allow_insecure_mechs": True}
            with connected(server, allowed_mechs=mechanism, **options):
                pass


def test_without_sasl() -> None:
    for users, allowed in ((None, True), (USERS, False)):
        with Server(users=users) as server:
            if allowed:
                with connected(server, sasl_enabled=False) as connection:
                    connection.create_sender("q")
            else:
                with pytest.raises(proton.ConnectionException):
                    utils.BlockingConnection(server.url, timeout=TIMEOUT, sasl_enabled=False)


@pytest.mark.parametrize(
    "octets", [b"GET / HTTP/1.1\r\n\r\n", b"AMQP\x03\x01\x00\x00" + b"\xff" * 99]
)
def test_what_is_no_amqp_is_answered_and_closed(octets: bytes) -> None:
    with Server() as server, socket.create_connection((server.host, server.port)) as client:
        client.settimeout(TIMEOUT)
        client.sendall(octets)
        answer = b""
        try:
            while piece := client.recv(4096):
                answer += piece
        except ConnectionResetError:
            pass
        assert answer.startswith(b"AMQP\x03\x01\x00\x00")
        until(lambda: not server.connections)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("tls")
    paths = folder / "cert.pem", folder / "key.pem"
    try:
        subprocess.run(
            [
                *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
                *("-subj", "/CN=localhost", "-out", str(paths[0]), "-keyout", str(paths[1])),
            ],
            check=True,
            capture_output=True,
        )
    except FileNotFoundError:
        pytest.skip("needs the command openssl, to make a certificate")
    return paths


def test_tls(certificate: tuple[Path, Path]) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    domain = proton.SSLDomain(proton.SSLDomain.MODE_CLIENT)
    domain.set_trusted_ca_db(str(certificate[0]))
    domain.set_peer_authentication(proton.SSLDomain.ANONYMOUS_PEER)
    with Server(tls=context, users=USERS) as server:
        assert server.url.startswith("amqps://")
        options = {"ssl_domain": domain, "user": "ann", "password": "secret"}
        with connected(server, **options) as connection:
            message = Message(b"x" * 300_000)
            connection.create_sender("q").send(sendable(message))
            assert message.bare == receiver_of(connection, "q").receive().bare


# Termini that outlive their links.


class Lasting(reactor.ReceiverOption):  # type: ignore[misc,name-defined]
    def __init__(self, policy: int, timeout: int) -> None:
        self.policy = policy
        self.timeout = timeout

    def apply(self, link: Any) -> None:
        link.source.expiry_policy = self.policy
        link.source.timeout = self.timeout


def test_source_that_lasts_keeps_its_messages_until_it_is_resumed(
    amqp_server: Server,
) -> None:
    for text in "ab":
        amqp_server.publish("q", Message(text))
    never = Lasting(proton.Terminus.EXPIRE_NEVER, 0)
    container = reactor.Container()
    container.container_id = "client"
    connection = utils.BlockingConnection(amqp_server.url, timeout=TIMEOUT, container=container)
    receiver_of(connection, "q", name="link", options=never).receive()
    _lose(amqp_server)
    assert (1, 1) == (amqp_server.counts("q").available, amqp_server.counts("q").acquired)

    container = reactor.Container()
    container.container_id = "client"
    connection = utils.BlockingConnection(amqp_server.url, timeout=TIMEOUT, container=container)
    try:
        receiver = receiver_of(connection, "q", name="link", options=never)
        assert ["a", "b"] == [receiver.receive().text() for _ in "ab"]
    finally:
        connection.close()


def _lose(server: Server) -> None:
    """Cut every connection."""

    def cut(_: Any) -> None:
        for connection in list(server.connections):
            connection.abort()

    server.call(cut)
    until(lambda: not server.connections)


@pytest.mark.parametrize(
    "policy, timeout, kept",
    [
        (proton.Terminus.EXPIRE_WITH_SESSION, 0, False),
        (proton.Terminus.EXPIRE_WITH_CONNECTION, 0, False),
        (proton.Terminus.EXPIRE_WITH_LINK, 1_000, True),
        (proton.Terminus.EXPIRE_NEVER, 0, True),
    ],
)
@pytest.mark.parametrize("detach", [False, True])
def test_expiry_policies(
    amqp_server: Server,
    policy: int,
    timeout: int,
    kept: bool,
    detach: bool,
) -> None:
    amqp_server.publish("q", Message("x"))
    connection = utils.BlockingConnection(amqp_server.url, timeout=TIMEOUT)
    receiver = receiver_of(connection, "q", options=Lasting(policy, timeout))
    receiver.receive()
    if detach:
        receiver.link.detach()
        connection.create_sender("elsewhere")  # answered after that
        assert 1 == amqp_server.counts("q").acquired, "the session has not ended"
    _lose(amqp_server)

    assert (int(not kept), int(kept)) == (
        amqp_server.counts("q").available,
        amqp_server.counts("q").acquired,
    )


def test_timeout_of_a_source(amqp_server: Server) -> None:
    amqp_server.publish("q", Message("x"))
    connection = utils.BlockingConnection(amqp_server.url, timeout=TIMEOUT)
    option = Lasting(proton.Terminus.EXPIRE_WITH_CONNECTION, 1)
    receiver_of(connection, "q", options=option).receive()
    _lose(amqp_server)
    assert 1 == amqp_server.counts("q").acquired

    until(lambda: amqp_server.counts("q").available == 1)


# The file, and the life of a server.


def test_file_keeps_durable_messages(tmp_path: Path) -> None:
    file = tmp_path / "messages.db"
    with Server(file=file) as server, connected(server) as connection:
        sender = connection.create_sender("q")
        for text, durable in (("a", True), ("b", False), ("c", True)):
            sender.send(sendable(Message(text, header=Header(durable=durable))))
        receiver = receiver_of(connection, "q")
        assert "a" == receiver.receive().text()
        receiver.accept()
        connection.create_sender("elsewhere")
        with pytest.raises(StoreError, match="has it open"):
            Server(file=file).start()
    with Server(file=file) as server:
        assert ["q"] == [node.name for node in server.call(list)]
        assert ["c"] == [message.text() for message in server.messages("q")]


def test_server_stops_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "amqp10msg.serve")
    server = Server()
    with server:
        with pytest.raises(RuntimeError, match="runs already"):
            server.start()
        connection = utils.BlockingConnection(server.url, timeout=TIMEOUT)
        connection.create_receiver("q")
        address = (server.host, server.port)
    server.stop()
    with pytest.raises((utils.LinkDetached, proton.ConnectionException), match="forced"):
        connection.wait(lambda: False)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address)
    with pytest.raises(RuntimeError, match="does not run"):
        server.counts("q")
    events = [record.event for record in caplog.records if hasattr(record, "event")]
    assert [
        *("listening", "connected", "opened", "attached"),
        *("detached", "disconnected", "stopped"),
    ] == events


def test_port_that_is_taken() -> None:
    with Server() as server, pytest.raises(OSError, match=str(server.port)):
        Server(port=server.port).start()


def test_it_is_reached_from_this_machine_alone() -> None:
    with Server() as server:
        assert "127.0.0.1" == server.host
        assert f"amqp://127.0.0.1:{server.port}" == server.url
    assert "amqp://[::1]:5672" == Server(host="::1", port=5672).url


def test_slow_reader_does_not_make_the_server_grow(
    amqp_server: Server,
    connection: Any,
) -> None:
    for _ in range(64):
        amqp_server.publish("q", Message(b"x" * (1 << 20)))
    receiver = connection.create_receiver("q", credit=64)
    until(lambda: amqp_server.counts("q").acquired > 0)
    # The client does not read now: what is acquired waits in the server, and the rest in the node.
    assert amqp_server.counts("q").acquired < 40
    for _ in range(64):
        receiver.receive()
        receiver.accept()


def test_header_on_the_wire_is_as_the_node_says(amqp_server: Server) -> None:
    octets = Message("x", header=Header(ttl=60_000)).encode()
    amqp_server.publish("q", octets)

    def look(nodes: Any) -> Any:
        delivery = nodes.make("q").attach().next()
        delivery.settle(Modified(delivery_failed=True))
        return delivery.octets

    sent = amqp_server.call(look)
    assert scan(octets).bare == scan(sent).bare
    assert scan(sent).section("header").ttl <= 60_000


def test_fixture_is_a_plugin(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["amqp10msg.testing.fixtures"]\n')
    (tmp_path / "test_it.py").write_text(
        "def test_it(amqp_server):\n    assert amqp_server.url.startswith('amqp://127.0.0.1:')\n"
    )
    found = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert 0 == found.returncode, found.stdout


def test_node_of_dead_letters_takes_everything() -> None:
    with Server(dead_letter="dead", capacity=Capacity(messages=2)) as server:
        for n in range(6):
            server.publish("q", Message(str(n), header=Header(ttl=1)))
            until(lambda n=n: server.counts("dead").available == n + 1)  # type: ignore[misc]


def test_links_and_sessions_that_come_and_go_leave_nothing_behind(
    amqp_server: Server,
    connection: Any,
) -> None:
    for n in range(30):
        sender = connection.create_sender("q", name=f"s{n}")
        sender.send(sendable(Message(str(n))))
        receiver = receiver_of(connection, "q", name=f"r{n}")
        assert str(n) == receiver.receive().text()
        receiver.accept()
        receiver.close()
        sender.close()
    until(lambda: amqp_server.counts("q").causes == {"accepted": 30})

    assert [] == outgoing(amqp_server, "q")
    (made,) = amqp_server.connections
    assert {} == made._links
    assert None is made._connection.link_head(0)


def test_exception_of_a_call_is_raised_here(amqp_server: Server) -> None:
    with pytest.raises(ZeroDivisionError):
        amqp_server.call(lambda _: 1 / 0)
    assert 0 == amqp_server.counts("q").available


def performative(code: int, *fields: Any) -> bytes:
    return encode_value(Described(ULong(code), list(fields)))


def frame(code: int, *fields: Any) -> bytes:
    body = performative(code, *fields)
    return (len(body) + 8).to_bytes(4, "big") + b"\2\0\0\0" + body


def test_name_that_is_no_text_is_answered_and_closed(amqp_server: Server) -> None:
    octets = b"AMQP\0\1\0\0" + frame(0x10, "client") + frame(0x11, None, UInt(0), UInt(9), UInt(9))
    octets += frame(0x12, "name", UInt(0), True, None, None, Source(address="q")).replace(
        b"name", b"\xff\xfe\xfd\xfc"
    )
    with socket.create_connection((amqp_server.host, amqp_server.port)) as client:
        client.settimeout(TIMEOUT)
        client.sendall(octets)
        answer = b""
        while b"amqp:decode-error" not in answer:
            piece = client.recv(4096)
            assert piece, answer
            answer += piece
    until(lambda: not amqp_server.connections)


def performatives(client: socket.socket) -> Iterator[Described]:
    """What a server says, frame by frame; of a transfer without the message."""
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


def transfers(server: Server, unsettled: dict[bytes, Any] | None) -> dict[bytes, int]:
    """Attach as a receiver with a source that never expires; give two tags, settle nothing."""
    source = Source(address="q", expiry_policy=TerminusExpiryPolicy.NEVER)
    attach = [None, None, source, None, unsettled]
    octets = b"AMQP\0\1\0\0" + frame(0x10, "client")
    octets += frame(0x11, None, UInt(0), UInt(99), UInt(99))
    octets += frame(0x12, "link", UInt(0), True, *attach)
    window = [UInt(0), UInt(99), UInt(0), UInt(99)]
    octets += frame(0x13, *window, UInt(0), UInt(0), UInt(2))
    tags: dict[bytes, int] = {}
    with socket.create_connection((server.host, server.port)) as client:
        client.settimeout(TIMEOUT)
        client.sendall(octets)
        for said in performatives(client):
            if said.descriptor == 0x14:
                tags[said.value[2]] = len(tags)
                if len(tags) == 2:
                    break
    until(lambda: not server.connections)
    return tags


def test_outcomes_that_the_unsettled_map_tells_are_taken_over(amqp_server: Server) -> None:
    for text in "abc":
        amqp_server.publish("q", Message(text))
    first, _ = transfers(amqp_server, None)
    assert (1, 2) == (amqp_server.counts("q").available, amqp_server.counts("q").acquired)
    again = transfers(amqp_server, {first: Accepted(), b"unknown": Accepted()})

    assert first not in again
    assert {"accepted": 1} == amqp_server.counts("q").causes
    assert (0, 2) == (amqp_server.counts("q").available, amqp_server.counts("q").acquired)
    assert ["b", "c"] == [message.text() for message in amqp_server.messages("q")]
