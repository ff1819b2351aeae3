"""Messages, outcomes and the life cycle of the server, with python-qpid-proton as client."""

# ruff: noqa: F811  (a fixture is imported, and an argument)

from __future__ import annotations

import logging
import os
import socket
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from amqp10msg import (
    AmqpValue,
    Header,
    Limits,
    Message,
    Properties,
    Timestamp,
    UInt,
    __version__,
    scan,
)
from amqp10msg.delivery import (
    MessageState,
    Modified,
    Source,
)
from amqp10msg.delivery.node import (
    Capacity,
    StoreError,
)

proton = pytest.importorskip("proton", reason="needs python-qpid-proton")
reactor = pytest.importorskip("proton.reactor")
utils = pytest.importorskip("proton.utils")

from amqp10msg.interop.proton import sendable  # noqa: E402
from amqp10msg.net.serve import Server  # noqa: E402  (needs proton)
from amqp10msg.testing.fixtures import amqp_server, amqp_server_options  # noqa: E402, F401
from tests.net.serve_client import (  # noqa: E402
    TIMEOUT,
    connected,
    connection,  # noqa: F401
    frame,
    outgoing,
    receiver_of,
    settle,
    told,
    until,
)

pytestmark = pytest.mark.once

# Messages and outcomes.


def test_messages_pass_unchanged(amqp_server: Server, connection: Any) -> None:
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
    """A receiver that settles second."""

    def apply(self, link: Any) -> None:
        link.rcv_settle_mode = proton.Link.RCV_SECOND


@pytest.mark.parametrize("second", [False, True])
def test_outcome_that_makes_a_message_unreadable_is_refused(tmp_path: Path, second: bool) -> None:
    file = tmp_path / "messages.db"
    limits = Limits(depth=32, items=1_000)
    octets = Message(AmqpValue([None] * 950), header=Header(durable=True)).encode()
    with Server(file=file, limits=limits) as server, connected(server) as connection:
        server.publish("q", octets)
        receiver = receiver_of(connection, "q", options=Second() if second else None)
        receiver.receive()
        delivery = settle(
            receiver,
            proton.Delivery.MODIFIED,
            not second,
            annotations={proton.symbol(f"x-opt-{n}"): None for n in range(50)},
        )
        if second:
            connection.wait(lambda: delivery.settled)
            assert proton.Delivery.RELEASED == delivery.remote_state
        else:
            with pytest.raises(utils.LinkDetached, match="amqp:resource-limit-exceeded"):
                connection.wait(lambda: False)
        assert [octets] == [message.encode() for message in server.messages("q")]
    with Server(file=file, limits=limits) as server:
        assert [octets] == [message.encode() for message in server.messages("q")]
        assert [] == server.quarantined("q")


def test_malformed_outcome_ends_only_its_session(amqp_server: Server, connection: Any) -> None:
    amqp_server.publish("q", Message("x"))
    receiver = receiver_of(connection, "q")
    receiver.receive()
    settle(receiver, proton.Delivery.MODIFIED, annotations={proton.ulong(5_000): None})
    session = receiver.link.session
    connection.wait(lambda: session.state & proton.Endpoint.REMOTE_CLOSED)
    assert "must be symbols" in session.remote_condition.description
    until(lambda: amqp_server.counts("q").available == 1)
    assert 1 == len(amqp_server.broker.connections)


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


def test_receiver_that_settles_second_gets_the_outcome(
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
    """A sender that requests rcv-settle-mode second."""

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


def test_settle_mode_second_is_answered_with_first(
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


def test_many_simultaneous_connections_are_accepted(amqp_server: Server) -> None:
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


def test_lost_link_applies_the_default_outcome(amqp_server: Server) -> None:
    amqp_server.publish("q", Message("x"))
    with connected(amqp_server) as connection:
        receiver = receiver_of(connection, "q")
        receiver.receive()
        assert 1 == amqp_server.counts("q").acquired
        receiver.close()
        assert 1 == amqp_server.counts("q").available
        receiver_of(connection, "q").receive()
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


def test_stop_closes_connections_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "amqp10msg.serve")
    server = Server()
    with server:
        with pytest.raises(RuntimeError, match="is running already"):
            server.start()
        connection = utils.BlockingConnection(server.url, timeout=TIMEOUT)
        connection.create_receiver("q")
        address = (server.host, server.port)
    server.stop()
    with pytest.raises((utils.LinkDetached, proton.ConnectionException), match="forced"):
        connection.wait(lambda: False)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address)
    with pytest.raises(RuntimeError, match="is not running"):
        server.counts("q")
    events = [record.event for record in caplog.records if hasattr(record, "event")]
    assert [
        *("listening", "connected", "opened", "attached"),
        *("detached", "disconnected", "stopped"),
    ] == events


@pytest.mark.parametrize("kept", [False, True])
def test_restarted_server_has_fresh_state(tmp_path: Path, kept: bool) -> None:
    options: dict[str, Any] = {"file": tmp_path / "s.db"} if kept else {"accept_durable": True}
    server = Server(memory=20_000, service_bus=True, **options)
    later = {"x-opt-scheduled-enqueue-time": Timestamp(2**50)}
    for _ in range(5):
        with server:
            with connected(server) as connection:
                receiver = receiver_of(connection, "q")
                server.publish("q", Message(b"x" * 6_000, header=Header(durable=True)))
                receiver.receive()
                receiver.accept()
                # With the file, its removal waits for a commit when the server stops.
                told(connection, lambda: server.counts("q").causes == {"accepted": 1})
            server.publish("q", Message(b"x" * 6_000, message_annotations=later))
            assert 6_000 < server.broker.memory.message_bytes < 7_000


def test_port_in_use() -> None:
    with Server() as server, pytest.raises(OSError, match=str(server.port)):
        Server(port=server.port).start()


def test_default_host_is_loopback() -> None:
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


def test_header_on_the_wire_equals_the_nodes(amqp_server: Server) -> None:
    octets = Message("x", header=Header(ttl=60_000)).encode()
    amqp_server.publish("q", octets)

    def look(nodes: Any) -> Any:
        delivery = nodes.make("q").attach().next()
        delivery.settle(Modified(delivery_failed=True))
        return delivery.octets

    sent = amqp_server.call(look)
    assert scan(octets).bare == scan(sent).bare
    header = scan(sent).section("header")
    assert header is not None
    assert header.ttl is not None
    assert header.ttl <= 60_000


def test_fixture_is_a_plugin(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["amqp10msg.testing.fixtures"]\n')
    (tmp_path / "test_it.py").write_text(
        "def test_it(amqp_server):\n    assert amqp_server.url.startswith('amqp://127.0.0.1:')\n"
    )
    found = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert 0 == found.returncode, found.stdout


def test_dead_letter_node_has_no_capacity() -> None:
    with Server(dead_letter="dead", capacity=Capacity(messages=2)) as server:
        for n in range(6):
            server.publish("q", Message(str(n), header=Header(ttl=1)))
            until(lambda n=n: server.counts("dead").available == n + 1)  # type: ignore[misc]


def test_ended_links_and_sessions_are_freed(
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
    made: Any
    (made,) = amqp_server.broker.connections
    assert {} == made._links
    sessions = made.engine.sessions.values()
    assert [] == [link for session in sessions for link in session.links]


def test_exception_of_a_call_is_raised_in_the_caller(amqp_server: Server) -> None:
    with pytest.raises(ZeroDivisionError):
        amqp_server.call(lambda _: 1 / 0)
    assert 0 == amqp_server.counts("q").available


def test_malformed_link_name_closes_the_connection(amqp_server: Server) -> None:
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
    until(lambda: not amqp_server.broker.connections)
