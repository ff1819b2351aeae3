"""Transactions (Part 4) and claims-based security, with python-qpid-proton as client."""

from __future__ import annotations

import datetime
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from amqp10msg import AmqpValue, Header, Limits, Message, Properties, Timestamp
from amqp10msg.delivery import (
    Accepted,
    Coordinator,
    Declare,
    Discharge,
    Source,
    Target,
    TerminusExpiryPolicy,
    TransactionalState,
)
from amqp10msg.delivery.node import Capacity, NodeError

proton = pytest.importorskip("proton", reason="needs python-qpid-proton")
reactor = pytest.importorskip("proton.reactor")
utils = pytest.importorskip("proton.utils")

from amqp10msg.interop.proton import install, sendable  # noqa: E402
from amqp10msg.net.serve import Server, Token  # noqa: E402  (needs proton)
from amqp10msg.net.serve.nodes import Binding  # noqa: E402  (needs proton)
from tests.net.transport_ends import End, run  # noqa: E402  (as the others)

pytestmark = pytest.mark.once

TIMEOUT = 20.0  # seconds; nothing here takes one
DECLARED, TRANSACTIONAL = 0x33, 0x34
ACCEPTED = proton.Described(proton.ulong(0x24), [])
REJECTED = proton.Described(proton.ulong(0x25), [])


class ToCoordinator(reactor.SenderOption):  # type: ignore[misc,name-defined]
    def apply(self, link: Any) -> None:
        link.target.type = proton.Terminus.COORDINATOR


class Client:
    """A connection with a link to the coordinator."""

    def __init__(self, server: Server) -> None:
        self.connection = utils.BlockingConnection(server.url, timeout=TIMEOUT)
        self.control = self.connection.create_sender(None, name="control", options=ToCoordinator())

    def ask(self, code: int, *fields: Any) -> Any:
        """Send a declare or a discharge, and return the settled delivery."""
        body = proton.Described(proton.ulong(code), list(fields))
        delivery = self.control.link.send(proton.Message(body=body))
        self.connection.wait(lambda: delivery.settled)
        return delivery

    def declare(self) -> bytes:
        delivery = self.ask(0x31, None)
        assert DECLARED == delivery.remote_state
        (txn_id,) = delivery.remote.data
        return bytes(txn_id)

    def discharge(self, txn_id: bytes, fail: bool = False) -> Any:
        return self.ask(0x32, txn_id, fail)

    def post(self, txn_id: bytes, sender: Any, message: Any) -> Any:
        """Send a message in a transaction."""
        delivery = sender.link.delivery(sender.link.delivery_tag())
        delivery.local.data = [txn_id]
        delivery.update(TRANSACTIONAL)
        sender.link.stream(message if isinstance(message, bytes) else message.encode())
        sender.link.advance()
        self.connection.wait(lambda: delivery.settled)
        return delivery

    def retire(self, txn_id: bytes, receiver: Any, settled: bool, outcome: Any = ACCEPTED) -> Any:
        """Give the oldest message an outcome in a transaction."""
        delivery = receiver.fetcher.unsettled.popleft()
        delivery.local.data = [txn_id, outcome]
        delivery.update(TRANSACTIONAL)
        if settled:
            delivery.settle()
        return delivery


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as made:
        yield made


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    made = Client(server)
    try:
        yield made
    finally:
        made.connection.close()


def texts(server: Server, address: str) -> list[str]:
    return [message.text() for message in server.messages(address)]


def receiver_of(client: Client, address: str) -> Any:
    receiver = client.connection.create_receiver(address, credit=0)
    install(receiver.fetcher)
    return receiver


def test_messages_of_an_open_transaction_count_as_memory() -> None:
    with Server(memory=100_000) as server:
        client = Client(server)
        sender = client.connection.create_sender("q")
        for ends in (True, False):
            txn_id = client.declare()
            states = [
                client.post(txn_id, sender, proton.Message("x" * 30_000)).remote_state
                for _ in range(4)
            ]
            assert [TRANSACTIONAL] * 3 + [proton.Delivery.REJECTED] == states
            assert 90_000 < server.broker.memory.message_bytes < 100_000
            client.discharge(txn_id, fail=ends)
            assert (0 if ends else 3) == server.counts("q").available
        assert server.counts("q").octets + 3 * 400 == server.broker.memory.message_bytes
        client.connection.close()


def test_capabilities_of_the_coordinator(client: Client) -> None:
    capabilities = client.control.link.remote_target.capabilities
    assert capabilities.next()
    assert ["amqp:local-transactions", "amqp:multi-txns-per-ssn"] == list(
        capabilities.get_object().elements
    )


@pytest.mark.parametrize("fail", [False, True])
def test_messages_are_published_when_the_transaction_is_discharged(
    server: Server, client: Client, fail: bool
) -> None:
    sender = client.connection.create_sender("q")
    one, other = client.declare(), client.declare()
    for txn_id, text in ((one, "a"), (other, "x"), (one, "b")):
        delivery = client.post(txn_id, sender, Message(text))
        assert TRANSACTIONAL == delivery.remote_state
        assert txn_id == bytes(delivery.remote.data[0])
        assert 0x24 == delivery.remote.data[1].descriptor
    sender.send(sendable(Message("now")))
    assert ["now"] == texts(server, "q")

    assert proton.Delivery.ACCEPTED == client.discharge(one, fail).remote_state
    assert ["now", *([] if fail else "ab")] == texts(server, "q")
    assert "amqp:transaction:unknown-id" == client.discharge(one).remote.condition.name


@pytest.mark.parametrize("settled", [False, True])
@pytest.mark.parametrize("fail", [False, True])
def test_outcomes_take_effect_when_the_transaction_is_discharged(
    server: Server, client: Client, fail: bool, settled: bool
) -> None:
    server.publish("q", Message("x"))
    receiver = receiver_of(client, "q")
    receiver.receive()
    txn_id = client.declare()
    delivery = client.retire(txn_id, receiver, settled)
    client.connection.create_sender("elsewhere")  # answered after that
    assert 1 == server.counts("q").acquired
    client.discharge(txn_id, fail)
    if not fail:
        assert {"accepted": 1} == server.counts("q").causes
        if not settled:
            client.connection.wait(lambda: delivery.settled)
            assert TRANSACTIONAL == delivery.remote_state
    elif settled:
        (held,) = server.call(lambda nodes: list(nodes.make("q").messages()))
        assert (1, "available") == (held.delivery_count, held.state)
    else:
        assert 1 == server.counts("q").acquired
        delivery.local.data = None
        delivery.update(proton.Delivery.ACCEPTED)
        delivery.settle()
        client.connection.create_sender("another", name="another")
        assert {"accepted": 1} == server.counts("q").causes


def test_transaction_ends_with_its_link_and_its_connection(server: Server) -> None:
    server.publish("q", Message("x"))
    for close in ("link", "connection"):
        client = Client(server)
        sender = client.connection.create_sender("other")
        receiver = receiver_of(client, "q")
        receiver.receive()
        txn_id = client.declare()
        client.post(txn_id, sender, Message("never"))
        client.retire(txn_id, receiver, settled=True)
        if close == "link":
            client.control.close()
            delivery = client.connection.create_sender("other", name="late")
            rejected = client.post(txn_id, delivery, Message("late"))
            assert "amqp:transaction:unknown-id" == rejected.remote.condition.name
        client.connection.close()
        assert [] == texts(server, "other")
        assert 1 == server.counts("q").available


@pytest.mark.parametrize("address", ["news", "/exchanges/amq.fanout"])
@pytest.mark.parametrize("within", [False, True])
def test_message_refused_by_one_node_is_withdrawn_everywhere(address: str, within: bool) -> None:
    with Server(topics=["news"], nodes=["a", "b"], capacity=Capacity(messages=1)) as server:
        client = Client(server)
        readers = [client.connection.create_receiver("news", name=name) for name in "ab"]
        for name in "ab":
            server.broker.exchanges.bind(Binding("amq.fanout", name, True, "", {}))
        names = list(server.call(lambda nodes: [node.name for node in nodes]))
        first, second = names[-2:] if address == "news" else "ab"
        server.publish(second, Message("takes the room"))
        sender = client.connection.create_sender(address)
        if within:
            txn_id = client.declare()
            client.post(txn_id, sender, proton.Message("x"))
            refused = client.discharge(txn_id)
        else:
            refused = sender.link.send(proton.Message("x"))
            client.connection.wait(lambda: refused.settled)
        assert proton.Delivery.REJECTED == refused.remote_state
        assert ([], ["takes the room"]) == (texts(server, first), texts(server, second))
        if address == "news":
            with pytest.raises(NodeError, match="at most 1"):
                server.publish(address, Message("x"))
            assert [] == texts(server, first)
        assert 2 == len(readers)
        client.connection.close()


def test_rollback_withdraws_scheduled_messages() -> None:
    with Server(service_bus=True, capacity=Capacity(messages=1)) as server:
        client = Client(server)
        before = server.broker.memory.message_bytes
        server.publish("full", Message("takes the room"))
        later = Message("x", message_annotations={"x-opt-scheduled-enqueue-time": Timestamp(2**50)})
        txn_id = client.declare()
        client.post(txn_id, client.connection.create_sender("q"), later.encode())
        client.post(txn_id, client.connection.create_sender("full"), proton.Message("y"))
        assert proton.Delivery.REJECTED == client.discharge(txn_id).remote_state
        (held,) = server.messages("full")
        assert before + len(held.encode()) + 400 == server.broker.memory.message_bytes
        client.connection.close()


def test_service_bus_gets_the_outcomes_of_a_transaction() -> None:
    with Server(service_bus=True) as server:
        client = Client(server)
        server.publish("q", Message("x"))
        receiver = receiver_of(client, "q")
        receiver.receive()
        txn_id = client.declare()
        client.retire(txn_id, receiver, settled=True, outcome=REJECTED)
        client.discharge(txn_id)
        assert [] == texts(server, "q")
        assert ["x"] == texts(server, "q/$DeadLetterQueue")
        client.connection.close()


def test_failed_publication_rolls_back_the_transaction() -> None:
    with Server(capacity=Capacity(messages=2)) as server:
        client = Client(server)
        server.publish("source", Message("x"))
        sender = client.connection.create_sender("q")
        receiver = receiver_of(client, "source")
        receiver.receive()
        txn_id = client.declare()
        for text in "abc":
            client.post(txn_id, sender, Message(text))
        client.retire(txn_id, receiver, settled=True)
        delivery = client.discharge(txn_id)
        assert proton.Delivery.REJECTED == delivery.remote_state
        assert "amqp:transaction:rollback" == delivery.remote.condition.name
        assert [] == texts(server, "q")
        assert {"withdrawn": 2} == server.counts("q").causes
        assert 1 == server.counts("source").available
        client.connection.close()


def test_refused_outcome_rolls_back_the_transaction() -> None:
    nested: Any = 1
    for _ in range(18):
        nested = [nested]
    annotations = {proton.symbol("x-opt-deep"): nested}
    modified = proton.Described(proton.ulong(0x27), [None, None, annotations])
    with Server(limits=Limits(depth=16)) as server:
        client = Client(server)
        for text in "ab":
            server.publish("source", Message(text))
        receiver = receiver_of(client, "source")
        for _ in "ab":
            receiver.receive()
        txn_id = client.declare()
        client.post(txn_id, client.connection.create_sender("q"), Message("x"))
        client.retire(txn_id, receiver, settled=True)
        client.retire(txn_id, receiver, settled=True, outcome=modified)
        delivery = client.discharge(txn_id)
        assert "amqp:transaction:rollback" == delivery.remote.condition.name
        assert ([], ["a", "b"]) == (texts(server, "q"), texts(server, "source"))
        client.connection.close()


@pytest.mark.parametrize("is_sent", [True, False])
def test_outcome_of_a_transaction_is_sent_on_the_resumed_link(
    server: Server, is_sent: bool
) -> None:
    """Even before the link has credit for the delivery: the message is not sent again."""
    server.publish("q", Message("x"))
    end = End("client", credit=1)
    with socket.create_connection((server.host, server.port), timeout=TIMEOUT) as client:

        def talk(condition: Callable[[], object]) -> None:
            while not condition():
                client.sendall(end.engine.take())
                end.engine.feed(client.recv(65_536))
                run(end)

        end.engine.open()
        session = end.engine.begin()
        control = session.link("control", sends=True)
        control.attach(source=Source(), target=Coordinator())
        source = Source(address="q", expiry_policy=TerminusExpiryPolicy.NEVER)
        link = session.link("link", sends=False)
        link.attach(source=source, target=Target())
        talk(lambda: end.got and control.credit)
        declared = control.send(b"1", Message(AmqpValue(Declare())).encode())
        talk(lambda: declared.state)
        state = TransactionalState(declared.state.txn_id, Accepted())
        end.got[0].update(state, settled=False)
        link.detach(closed=False)
        talk(lambda: len(end.engine.sessions[0].links) == 1)
        end.credit = int(is_sent)
        again = session.link("link", sends=False)
        again.attach(source=source, target=Target(), unsettled={end.got[0].tag: state})
        talk(lambda: len(end.got) == 2 if is_sent else again.remote)
        end.told.clear()
        control.send(b"2", Message(AmqpValue(Discharge(declared.state.txn_id))).encode())
        talk(lambda: len(end.told) == 1 + is_sent)
        if is_sent:
            assert end.got[1] in end.told
        else:
            again.grant(1)
            talk(lambda: len(end.got) == 2)
            assert not end.got[1].payload
        assert end.got[1].resumed
        expected = state if is_sent else Accepted()
        assert (expected, True) == (end.got[1].state, end.got[1].settled)
    assert {"accepted": 1} == server.counts("q").causes


def test_transaction_is_one_commit(tmp_path: Path) -> None:
    file = tmp_path / "messages.db"
    with Server(file=file) as server:
        client = Client(server)
        sender = client.connection.create_sender("q")
        txn_id = client.declare()
        for text in "ab":
            client.post(txn_id, sender, Message(text, header=Header(durable=True)))
        commits: list[str] = []
        store: Any = server.broker.store
        server.call(
            lambda _: store._database.set_trace_callback(
                lambda statement: commits.append(statement) if statement == "COMMIT" else None
            )
        )
        client.discharge(txn_id)
        assert ["COMMIT"] == commits
        client.connection.close()
    with Server(file=file) as server:
        assert ["a", "b"] == texts(server, "q")


def test_unsupported_requests_to_the_coordinator_are_rejected(
    server: Server, client: Client
) -> None:
    delivery = client.control.link.send(proton.Message(body="x"))
    client.connection.wait(lambda: delivery.settled)
    assert "amqp:not-implemented" == delivery.remote.condition.name
    sender = client.connection.create_sender("q")
    txn_id = client.declare()
    delivery = client.post(txn_id, sender, b"\0\x53")
    assert "amqp:decode-error" == delivery.remote.condition.name
    server.publish("q", Message("x"))
    receiver = receiver_of(client, "q")
    receiver.receive()
    client.retire(b"unknown", receiver, settled=True)
    with pytest.raises(utils.LinkDetached, match="amqp:transaction:unknown-id"):
        client.connection.wait(lambda: False)


# Claims-based security.


def put(sender: Any, receiver: Any, **changed: Any) -> tuple[int, str]:
    """Put a token, and return the status of the response."""
    properties = {"operation": "put-token", "type": "jwt", "name": "amqp://host/q", **changed}
    value = properties.pop("value", "secret")
    message = Message(
        AmqpValue(value),
        properties=Properties(message_id="m-1", reply_to="cbs"),
        application_properties=properties,
    )
    sender.send(sendable(message))
    response = receiver.receive()
    assert "m-1" == response.properties.correlation_id
    receiver.accept()
    said = response.application_properties
    return said["status-code"], said["status-description"]


def test_token_is_passed_to_the_hook() -> None:
    tokens: list[Token] = []

    def accept(token: Token) -> bool:
        tokens.append(token)
        return token.value == "secret"

    with Server(on_token=accept, create=False) as server:
        connection = utils.BlockingConnection(server.url, timeout=TIMEOUT)
        sender = connection.create_sender("$cbs")
        receiver = connection.create_receiver("$cbs", credit=0)
        install(receiver.fetcher)
        moment = datetime.datetime(2030, 1, 1, tzinfo=datetime.UTC)
        expiration = Timestamp(int(moment.timestamp() * 1_000))
        assert (200, "OK") == put(sender, receiver, expiration=expiration)
        assert [Token("amqp://host/q", "jwt", "secret", moment)] == tokens
        assert 401 == put(sender, receiver, value="wrong")[0]
        assert 200 == put(sender, receiver, value=b"secret")[0]  # tokens are also sent as binary
        assert 400 == put(sender, receiver, value=5)[0]
        assert 400 == put(sender, receiver, operation="delete-token")[0]
        connection.close()


def test_without_a_hook_there_is_no_node_for_tokens() -> None:
    with Server(create=False) as server:
        connection = utils.BlockingConnection(server.url, timeout=TIMEOUT)
        with pytest.raises(utils.LinkDetached, match="amqp:not-found"):
            connection.create_sender("$cbs")
        connection.close()
