"""Topics of the server: every subscriber gets every message; durable subscriptions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from amqp10msg import Header, Message, Properties
from amqp10msg.delivery.node import NodeError

proton = pytest.importorskip("proton", reason="needs python-qpid-proton")
reactor = pytest.importorskip("proton.reactor")
utils = pytest.importorskip("proton.utils")

from amqp10msg.interop.proton import install, sendable  # noqa: E402
from amqp10msg.net.serve import Server  # noqa: E402  (tested with proton)

pytestmark = pytest.mark.once

TIMEOUT = 20.0  # seconds; nothing here takes one


class Capable(reactor.LinkOption):  # type: ignore[misc,name-defined]
    """Requests a capability, and a source that never expires."""

    def __init__(self, capability: str, lasts: bool = False) -> None:
        self.capability = capability
        self.lasts = lasts

    def apply(self, link: Any) -> None:
        terminus = link.source if link.is_receiver else link.target
        terminus.capabilities.put_symbol(proton.symbol(self.capability))
        if self.lasts:
            terminus.durability = proton.Terminus.DELIVERIES
            terminus.expiry_policy = proton.Terminus.EXPIRE_NEVER


@contextmanager
def connected(server: Server, container_id: str = "") -> Iterator[Any]:
    container = reactor.Container()
    if container_id:
        container.container_id = container_id
    connection = utils.BlockingConnection(server.url, timeout=TIMEOUT, container=container)
    try:
        yield connection
    finally:
        connection.close()


def receiver_of(connection: Any, address: str, name: str, *options: Any) -> Any:
    receiver = connection.create_receiver(
        address, credit=0, name=name, options=list(options) or None
    )
    install(receiver.fetcher)
    return receiver


def texts(receiver: Any, count: int) -> list[str]:
    found = []
    for _ in range(count):
        found.append(receiver.receive().text())
        receiver.accept()
    return found


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(topics=["news"], accept_durable=True) as made:
        yield made


def test_every_subscriber_gets_its_own_copy(server: Server) -> None:
    with connected(server) as connection:
        sender = connection.create_sender("news")
        sender.send(sendable(Message("before")))
        readers = [receiver_of(connection, "news", name) for name in "abc"]
        for text in "xy":
            sender.send(sendable(Message(text, header=Header(durable=True))))
        assert [["x", "y"]] * 3 == [texts(reader, 2) for reader in readers]
        readers[0].close()
        assert 2 == server.publish("news", Message("z"))
        assert [["z"]] * 2 == [texts(reader, 1) for reader in readers[1:]]
    assert [] == server.call(lambda nodes: nodes.subscriptions("news"))


def test_capability_makes_an_unused_address_a_topic(server: Server) -> None:
    with connected(server) as connection:
        readers = [receiver_of(connection, "fresh", name, Capable("topic")) for name in "ab"]
        assert readers[0].link.remote_source.capabilities.next()
        assert "topic" == readers[0].link.remote_source.capabilities.get_symbol()
        anonymous = connection.create_sender(None)
        anonymous.send(sendable(Message("x", properties=Properties(to="fresh"))))
        connection.create_sender("fresh", options=Capable("topic")).send(sendable(Message("y")))
        assert [["x", "y"]] * 2 == [texts(reader, 2) for reader in readers]


def test_address_is_either_a_topic_or_a_queue(server: Server) -> None:
    server.publish("queue", Message("x"))
    with connected(server) as connection:
        with pytest.raises(utils.LinkDetached, match="is a queue, not a topic"):
            connection.create_receiver("queue", options=Capable("topic"))
        with pytest.raises(utils.LinkDetached, match="is a topic, not a queue"):
            connection.create_receiver("news", options=Capable("queue"))
    with pytest.raises(NodeError, match="is a topic, not a queue"):
        server.counts("news")
    with Server(create=False, topics=["news"]) as strict, connected(strict) as connection:
        connection.create_receiver("news")
        with pytest.raises(utils.LinkDetached, match="there is no topic"):
            connection.create_receiver("other", options=Capable("topic"))


def test_durable_subscription_collects_messages_while_detached(server: Server) -> None:
    lasting = Capable("topic", lasts=True)
    with connected(server, "ann") as connection:
        reader = receiver_of(connection, "news", "daily", lasting)
        server.publish("news", Message("a"))
        assert ["a"] == texts(reader, 1)
    server.publish("news", Message("b"))
    with connected(server, "bob") as connection:
        other = receiver_of(connection, "news", "daily", lasting)  # of another container
        server.publish("news", Message("c"))
        assert ["c"] == texts(other, 1)
    with connected(server, "ann") as connection:
        assert ["b", "c"] == texts(receiver_of(connection, "news", "daily", lasting), 2)


def test_no_local_applies_to_the_current_connection(server: Server) -> None:
    no_local = proton.Described(proton.symbol("apache.org:no-local-filter:list"), [])
    filters = {proton.symbol("no-local"): no_local}
    for text in ("first", "second"):
        with connected(server, "ann") as connection:
            lasting = Capable("topic", lasts=True)
            reader = receiver_of(connection, "news", "daily", lasting, reactor.Filter(filters))
            connection.create_sender("news").send(sendable(Message(f"own {text}")))
            with connected(server) as other:
                other.create_sender("news").send(sendable(Message(text)))
            assert [text] == texts(reader, 1)


def test_subscription_is_resumed_without_a_source(server: Server) -> None:
    with connected(server, "ann") as connection:
        receiver_of(connection, "news", "daily", Capable("topic", lasts=True))
    assert 1 == server.publish("news", Message("a"))

    class Unsubscribe(reactor.ReceiverOption):  # type: ignore[misc,name-defined]
        def apply(self, link: Any) -> None:
            link.source.type = proton.Terminus.UNSPECIFIED

    with connected(server, "ann") as connection:
        found = connection.create_receiver(None, name="daily", options=Unsubscribe())
        assert "news" == found.link.remote_source.address
        found.close()
        assert 0 == server.publish("news", Message("b"))
        with pytest.raises(utils.LinkDetached, match="amqp:not-found"):
            connection.create_receiver(None, name="daily", options=Unsubscribe())


def test_each_subscription_has_its_own_filter(server: Server) -> None:
    with connected(server) as connection:
        red = receiver_of(connection, "news", "red", reactor.Selector("colour = 'red'"))
        all_ = receiver_of(connection, "news", "all")
        for colour in ("blue", "red"):
            message = Message(colour, application_properties={"colour": colour})
            connection.create_sender("news", name=colour).send(sendable(message))
        assert (["red"], ["blue", "red"]) == (texts(red, 1), texts(all_, 2))
