"""Sources, nodes and refusals, with python-qpid-proton as client."""

# ruff: noqa: F811  (a fixture is imported, and an argument)

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from amqp10msg import (
    Header,
    Limits,
    Message,
    Properties,
    Timestamp,
    UInt,
)
from amqp10msg.delivery import (
    Accepted,
    Source,
    Target,
)
from amqp10msg.delivery.filters import EvaluationError, FilterSet
from amqp10msg.delivery.node import (
    Capacity,
    NodeError,
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
    performative,
    performatives,
    receiver_of,
    told,
    until,
)

pytestmark = pytest.mark.once

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


def test_unknown_filter_is_omitted_from_the_answer(connection: Any) -> None:
    unknown = proton.Described(proton.symbol("example.com:unknown:string"), "x")
    receiver = receiver_of(
        connection, "q", options=reactor.Filter({proton.symbol("unknown"): unknown})
    )
    connection.create_sender("q").send(sendable(Message("x")))

    assert "x" == receiver.receive().text()
    assert "unknown" not in bytes(receiver.link.remote_source.filter.encode()).decode("latin-1")


def test_costly_filter_ends_only_its_link(
    amqp_server: Server, connection: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def give_up(*_: Any, **__: Any) -> bool:
        raise EvaluationError("that takes too many steps")

    monkeypatch.setattr(FilterSet, "matches", give_up)
    refused = receiver_of(connection, "q", name="costly", options=reactor.Selector("a = 1"))
    amqp_server.publish("q", Message("x"))
    with pytest.raises(utils.LinkDetached, match="too many steps"):
        refused.receive()
    assert [] == outgoing(amqp_server, "q")
    assert "x" == receiver_of(connection, "q", name="other").receive().text()


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


def test_unsupported_capability_is_omitted_from_the_answer(connection: Any) -> None:
    class Capable(reactor.LinkOption):  # type: ignore[misc,name-defined]
        def apply(self, link: Any) -> None:
            names = [proton.symbol("shared"), proton.symbol("queue")]
            array = proton.Array(proton.UNDESCRIBED, proton.Data.SYMBOL, *names)
            terminus = link.source if link.is_receiver else link.target
            terminus.capabilities.put_object(array)

    receiver = connection.create_receiver("q", options=Capable())
    sender = connection.create_sender("q", options=Capable())
    for terminus in (receiver.link.remote_source, sender.link.remote_target):
        assert terminus.capabilities.next()
        assert "queue" == terminus.capabilities.get_symbol()


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


def test_drain_together_with_an_outcome(
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


def test_links_of_the_sending_connection_share_messages(connection: Any) -> None:
    """Regression: a client's flow between its messages gave its last link all messages."""
    sender = connection.create_sender("q")
    receivers = [
        connection.create_receiver("q", credit=100, name=f"receiver-{n}") for n in range(3)
    ]
    for n in range(30):
        sender.send(proton.Message(str(n)))
    told(connection, lambda: sum(len(one.fetcher.incoming) for one in receivers) == 30)

    assert [10, 10, 10] == [len(one.fetcher.incoming) for one in receivers]


@pytest.mark.parametrize("first", [1, 2, 3])
def test_link_with_a_flow_in_each_frame_before_a_message_waits_its_turn(
    amqp_server: Server, first: int
) -> None:
    window = UInt(2**31 - 1)
    octets = b"AMQP\0\1\0\0" + frame(0x10, "client") + frame(0x11, None, UInt(0), window, window)
    octets += frame(0x12, "sender", UInt(0), False, None, None, None, Target(address="q"))
    for handle in (1, 2, 3):
        octets += frame(0x12, f"link-{handle}", UInt(handle), True, None, None, Source(address="q"))
    served: Counter[int] = Counter()
    with socket.create_connection((amqp_server.host, amqp_server.port)) as client:
        client.settimeout(TIMEOUT)
        heard = performatives(client)

        def flow(handle: int) -> bytes:
            return frame(0x13, UInt(0), window, UInt(0), window, UInt(handle), UInt(0), UInt(1_000))

        client.sendall(octets + b"".join(map(flow, (1, 2, 3))))
        for n in range(30):
            body = performative(0x14, UInt(0), UInt(n), n.to_bytes(4, "big"), UInt(0), True)
            body += Message(str(n)).encode()
            transfer = (len(body) + 8).to_bytes(4, "big") + b"\2\0\0\0" + body
            client.sendall(flow(first) + transfer)
            while (said := next(heard)).descriptor != 0x14:
                pass
            served[said.value[0]] += 1

    assert {1: 10, 2: 10, 3: 10} == served


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


def test_unknown_addresses_are_refused_without_create() -> None:
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


def test_dead_letters_do_not_expire() -> None:
    """Their absolute-expiry-time, which has passed, stays in the bare message."""
    expired = Message("x", properties=Properties(absolute_expiry_time=Timestamp(1)))
    with Server(dead_letter="dead") as server:
        server.publish("q", expired)
        until(lambda: server.counts("dead").available == 1)
        assert {"expired": 1} == server.counts("q").causes
        assert [expired.bare] == [message.bare for message in server.messages("dead")]


def test_dead_letters_have_death_annotations() -> None:
    with Server(dead_letter="dead") as server, connected(server) as connection:
        connection.create_sender("/queues/q").send(sendable(Message("bad")))
        receiver = connection.create_receiver("q")
        receiver.receive()
        delivery = receiver.fetcher.unsettled.popleft()
        delivery.local.condition = proton.Condition("app:bad", "no good")
        delivery.update(proton.Delivery.REJECTED)
        delivery.settle()
        letter = connection.create_receiver("dead").receive()

    annotations = letter.annotations
    (death,) = annotations["x-opt-deaths"].elements
    assert {"queue": "q", "reason": "rejected", "count": 1} == {
        name: death[name] for name in ("queue", "reason", "count")
    }
    assert ["q"] == list(death["routing-keys"].elements)
    assert ("app:bad", "no good") == (
        annotations["x-opt-death-condition"],
        annotations["x-opt-death-description"],
    )
    assert ("bad", 1, True) == (letter.body, letter.delivery_count, letter.first_acquirer)


def test_dead_letter_without_annotation_if_it_exceeds_limits() -> None:
    message = Message("x", application_properties={"a": 1})
    with Server(dead_letter="dead", limits=Limits(items=12)) as server:
        server.publish("q", message.evolve(header=Header(ttl=1)))
        until(lambda: server.counts("dead").available == 1)
        assert [None] == [one.message_annotations for one in server.messages("dead")]


# Refusals.


def test_durable_messages_are_rejected_without_a_file() -> None:
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


def test_oversized_message_ends_its_link() -> None:
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


def test_server_that_creates_no_nodes_refuses_an_unknown_address() -> None:
    """A misspelled address would otherwise pass for an empty queue."""
    calls: list[Callable[[Server], Any]] = [
        lambda server: server.publish("knwon", Message("x")),
        lambda server: server.messages("knwon"),
        lambda server: server.counts("knwon"),
        lambda server: server.quarantined("knwon"),
    ]
    with Server(nodes=["known", "other"], create=False) as server:
        for call in calls:
            with pytest.raises(ValueError, match="no node 'knwon': the nodes are known, other"):
                call(server)
        server.publish("known", Message("x"))
        assert (1, 0) == tuple(server.counts(name).available for name in ("known", "other"))
