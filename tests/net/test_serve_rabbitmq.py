"""The server with RabbitMQ's own client for Python, and its management requests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from amqp10msg import AmqpValue, DecodeError, Message, Properties, ULong
from amqp10msg.delivery.node import NodeError

proton = pytest.importorskip("proton", reason="needs python-qpid-proton")

from amqp10msg.net import transport  # noqa: E402  (the server needs proton)
from amqp10msg.net.serve import Server  # noqa: E402  (needs proton)
from amqp10msg.net.serve.attaching import Attacher  # noqa: E402  (the same)
from amqp10msg.net.serve.nodes import Binding  # noqa: E402  (the same)
from amqp10msg.net.serve.services import Management  # noqa: E402  (the same)

pytestmark = pytest.mark.once

RABBITMQ = {"product": "RabbitMQ", "version": "4.1.0"}


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(properties=RABBITMQ, accept_durable=True) as made:
        yield made


def ask(
    server: Server, method: str, to: str, body: Any = None, owner: object = None
) -> tuple[str, Any]:
    """Return the status and the body of a response."""
    request = Message(
        AmqpValue(body),
        properties=Properties(message_id="m-1", to=to, subject=method, reply_to="$me"),
    )
    decoded = Message.decode(request.encode())
    response = server.call(lambda _: server.broker.services["/management"](decoded, owner))
    properties = response.properties or Properties()
    assert ("m-1", "$me") == (properties.correlation_id, properties.to)
    assert {"http:response": "1.1"} == response.application_properties
    body_of: Any = Message.decode(response.encode()).body
    return str(properties.subject), body_of.value


def texts(server: Server, address: str) -> list[str]:
    return [message.text() for message in server.messages(address)]


def test_queue_is_declared_described_purged_and_deleted(server: Server) -> None:
    options = {"durable": True, "arguments": {"x-queue-type": "quorum"}}
    status, info = ask(server, "PUT", "/queues/a%2Fb%20c", options)
    assert ("201", "a/b c", "quorum", 0) == (
        status,
        *(info[key] for key in ("name", "type", "message_count")),
    )
    assert "200" == ask(server, "PUT", "/queues/a%2Fb%20c", options)[0]
    assert "409" == ask(server, "PUT", "/queues/a%2Fb%20c", {"durable": False})[0]
    server.publish("/queues/a%2Fb%20c", Message("x"))
    assert ["x"] == texts(server, "a/b c")
    status, info = ask(server, "GET", "/queues/a%2Fb%20c")
    assert ("200", 1, True, 0) == (
        status,
        *(info[key] for key in ("message_count", "durable", "consumer_count")),
    )
    assert ("200", {"message_count": 1}) == ask(server, "DELETE", "/queues/a%2Fb%20c/messages")
    server.publish("a/b c", Message("y"))
    assert ("200", {"message_count": 1}) == ask(server, "DELETE", "/queues/a%2Fb%20c")
    assert ("200", {"message_count": 0}) == ask(server, "DELETE", "/queues/a%2Fb%20c")
    assert not server.call(lambda nodes: "a/b c" in nodes)


@pytest.mark.parametrize(
    "method, to, body, status",
    [
        ("GET", "/queues/missing", None, "404"),
        ("DELETE", "/queues/missing/messages", None, "404"),
        ("DELETE", "/queues/missing/consumers", None, "404"),
        ("PATCH", "/queues/q", None, "404"),
        ("GET", "", None, "404"),
        ("GET", "/", None, "404"),
        ("PUT", "/exchanges/e", {"type": "x-unknown"}, "400"),
        ("PUT", "/exchanges/e", [1], "400"),
        ("POST", "/bindings", {"source": "amq.topic", "destination_queue": "missing"}, "404"),
        ("POST", "/bindings", {"source": "missing", "destination_exchange": "amq.topic"}, "404"),
        ("POST", "/bindings", {}, "400"),
        ("DELETE", "/bindings/wrong", None, "400"),
        ("PUT", "/auth/tokens", b"token", "204"),
    ],
)
def test_requests_and_their_status(
    server: Server, method: str, to: str, body: Any, status: str
) -> None:
    assert status == ask(server, method, to, body)[0]


def queue(kind: str, **arguments: Any) -> dict[str, Any]:
    named = {name.replace("_", "-"): value for name, value in arguments.items()}
    return {"durable": True, "arguments": {"x-queue-type": kind, **named}}


C, Q, S = "classic", "quorum", "stream"


@pytest.mark.parametrize(
    "to, body, status",
    [
        ("q", queue(C, x_max_length=-5), "409"),
        ("q", queue(Q, x_max_length="5"), "409"),
        ("q", queue(Q, x_max_length=5.0), "409"),
        ("q", queue(C, x_max_length=True), "409"),
        ("q", queue(C, x_max_length=ULong(2**40)), "201"),
        ("q", queue(S, x_max_length=5), "409"),
        ("q", queue(S, x_max_length_bytes=5), "400"),  # RabbitMQ: 201; this server has no streams
        ("q", queue(C, x_expires=0), "409"),
        ("q", queue(C, x_expires=2**32), "409"),
        ("q", queue(C, x_message_ttl=0), "201"),
        ("q", queue(C, x_overflow="nope"), "409"),
        ("q", queue(Q, x_overflow="drop-head"), "201"),
        ("q", queue(C, x_dead_letter_exchange=5), "400"),
        ("q", queue(C, x_dead_letter_routing_key="k"), "409"),
        ("q", queue(C, x_dead_letter_routing_key="k", x_dead_letter_exchange="x"), "201"),
        ("q", queue(C, x_single_active_consumer="yes"), "409"),
        ("q", queue(C, x_max_priority=5), "201"),
        ("q", queue(Q, x_max_priority=5), "409"),
        ("q", queue("nope"), "409"),
        ("q", {"arguments": {"x-queue-type": 5}}, "409"),
        ("q", queue(C, x_delivery_limit=5), "409"),
        ("q", queue(Q, x_delivery_limit=-1), "201"),
        ("q", queue(Q, x_quorum_initial_group_size=0), "409"),
        ("q", queue(C, x_queue_leader_locator="node1"), "409"),
        ("q", queue(S, x_max_age="5s"), "400"),  # likewise
        ("q", queue(S, x_max_age="5x"), "409"),
        ("q", queue(S, x_stream_filter_size_bytes=15), "400"),
        ("q", queue(C, x_stream_filter_size_bytes=15), "201"),
        ("q", queue(S, x_stream_max_segment_size_bytes=-1), "409"),
        ("q", queue(C, x_queue_version=3), "409"),
        ("q", queue(C, x_unknown=-5), "201"),
        ("q", {**queue(Q), "auto_delete": True}, "400"),
        ("q", {**queue(S), "exclusive": True}, "400"),
        ("q", {**queue(Q), "durable": False}, "400"),
        ("q", {**queue(C), "exclusive": True, "auto_delete": True}, "201"),
        ("q", {"durable": "x"}, "400"),
        ("q", {"nonsense": 1}, "400"),
        ("q", {"arguments": 5}, "400"),
        ("q", [1], "400"),
        ("amq.q", {}, "403"),
        ("", {}, "400"),
        ("a%0Ab", {}, "400"),
    ],
)
def test_queue_declarations_are_refused_as_by_rabbitmq(
    server: Server, to: str, body: Any, status: str
) -> None:
    """Recorded at RabbitMQ 4.0."""
    assert status == ask(server, "PUT", f"/queues/{to}", body)[0]
    made = status == "201"
    assert made is server.call(lambda nodes: "q" in nodes)


@pytest.mark.parametrize(
    "to, body, status",
    [
        ("e", {"type": "topic", "internal": True, "arguments": {"x-anything": -5}}, "204"),
        ("e", {"type": 5}, "400"),
        ("e", {"durable": "yes"}, "400"),
        ("e", {"nonsense": 1}, "400"),
        ("e", {"arguments": 5}, "400"),
        ("amq.new", {"type": "direct"}, "403"),
        ("", {"type": "direct"}, "403"),
    ],
)
def test_exchange_declarations_are_refused_as_by_rabbitmq(
    server: Server, to: str, body: Any, status: str
) -> None:
    assert status == ask(server, "PUT", f"/exchanges/{to}", body)[0]


def test_predeclared_exchanges_cannot_be_deleted(server: Server) -> None:
    for name in ("amq.direct", ""):
        assert "403" == ask(server, "DELETE", f"/exchanges/{name}")[0]
    assert "204" == ask(server, "DELETE", "/exchanges/gone")[0]
    assert "amq.direct" == server.broker.exchanges.get("amq.direct").name


@pytest.mark.parametrize("gone", ["queue", "exchange", "binding"])
def test_deleted_objects_are_unbound(server: Server, gone: str) -> None:
    assert "201" == ask(server, "PUT", "/queues/q", {})[0]
    assert "204" == ask(server, "PUT", "/exchanges/e", {})[0]
    binding = {"source": "e", "destination_queue": "q", "binding_key": "k"}
    assert "204" == ask(server, "POST", "/bindings", binding)[0]
    path = "/bindings/src=e;dstq=q;key=k;args="
    ask(server, "DELETE", {"queue": "/queues/q", "exchange": "/exchanges/e"}.get(gone, path))

    assert "204" == ask(server, "DELETE", path)[0]
    assert ("200", []) == ask(server, "GET", "/bindings?dstq=q")


@pytest.mark.parametrize(
    "kind, key, arguments, routed",
    [
        ("direct", "a.b", {}, ["a.b"]),
        ("topic", "a.*", {}, ["a.b", "a.c"]),
        ("topic", "#", {}, ["a.b", "a.c", "x"]),
        ("fanout", "", {}, ["a.b", "a.c", "x"]),
        ("headers", "", {"x-match": "any", "n": 1}, ["a.c"]),
    ],
)
def test_exchange_routes_to_its_queues(
    server: Server, kind: str, key: str, arguments: dict[str, Any], routed: list[str]
) -> None:
    assert "201" == ask(server, "PUT", "/queues/q", {})[0]
    assert "204" == ask(server, "PUT", "/exchanges/e", {"type": kind})[0]
    assert "204" == ask(server, "PUT", "/exchanges/e", {"type": kind})[0]
    assert "409" == ask(server, "PUT", "/exchanges/e", {"type": kind, "durable": False})[0]
    binding = {"source": "e", "binding_key": key, "arguments": arguments}
    for _ in range(2):
        assert "204" == ask(server, "POST", "/bindings", {**binding, "destination_queue": "q"})[0]
    assert ("200", [{**binding, "destination_queue": "q"}]) == ask(
        server, "GET", "/bindings?src=e&dstq=q"
    )
    for n, subject in enumerate(("a.b", "a.c", "x")):
        octets = Message(subject, application_properties={"n": n}).encode()

        def publish(_: Any, subject: str = subject, octets: bytes = octets) -> None:
            server.broker.exchanges.publish("e", subject, octets, origin=None)

        if subject in routed:
            server.call(publish)
        else:
            with pytest.raises(NodeError, match="has no queue"):
                server.call(publish)
    assert routed == texts(server, "q")
    path = f"/bindings/src=e;dstq=q;key={key.replace('#', '%23').replace('*', '%2A')};args="
    assert "204" == ask(server, "DELETE", path)[0]
    assert ("200", []) == ask(server, "GET", "/bindings?src=e")
    assert "204" == ask(server, "DELETE", "/exchanges/e")[0]


@pytest.mark.parametrize("exchange", ["", "amq.direct", "amq.headers", "none"])
@pytest.mark.parametrize("key", [None, "no-such-queue"])
@pytest.mark.parametrize(
    "octets",
    [
        b"\x00",
        # Only the subject, and the address that it is sent to, are looked at on the way to a node.
        Message(properties=Properties(to="none", subject="s")).encode() + b"\0\x53\x77\xa1\x01\xff",
    ],
)
def test_malformed_message_raises_the_same_error_everywhere(
    server: Server, exchange: str, key: str | None, octets: bytes
) -> None:
    with pytest.raises(DecodeError) as expected:
        Message.decode(octets)
    with pytest.raises(DecodeError) as found:
        server.call(lambda _: server.broker.exchanges.publish(exchange, key, octets, origin=None))
    assert (str(expected.value), expected.value.offset) == (str(found.value), found.value.offset)

    by_address = Attacher(server.broker, None)._publish_by_address
    with pytest.raises(DecodeError) as found:
        server.call(lambda _: by_address(octets, 0))
    assert str(expected.value) == str(found.value)


def test_circular_bindings_route_a_message_once(server: Server) -> None:
    assert "201" == ask(server, "PUT", "/queues/q", {})[0]
    for name in ("e", "f"):
        assert "204" == ask(server, "PUT", f"/exchanges/{name}", {"type": "fanout"})[0]
    for source, destination in (("e", "f"), ("f", "e")):
        for kind, name in (("exchange", destination), ("queue", "q")):
            body = {"source": source, f"destination_{kind}": name}
            assert "204" == ask(server, "POST", "/bindings", body)[0]
    octets = Message("x").encode()
    server.call(lambda _: server.broker.exchanges.publish("e", None, octets, origin=None))

    assert ["x"] == texts(server, "q")


def test_deleted_exchange_is_unbound_from_its_sources(server: Server) -> None:
    assert "201" == ask(server, "PUT", "/queues/q", {})[0]
    for name in ("source", "gone"):
        assert "204" == ask(server, "PUT", f"/exchanges/{name}", {"type": "fanout"})[0]
    for destination in ({"destination_exchange": "gone"}, {"destination_queue": "q"}):
        assert "204" == ask(server, "POST", "/bindings", {"source": "source", **destination})[0]
    assert "204" == ask(server, "DELETE", "/exchanges/gone")[0]
    octets = Message("x").encode()
    server.call(lambda _: server.broker.exchanges.publish("source", None, octets, origin=None))

    assert ["x"] == texts(server, "q")
    assert "204" == ask(server, "DELETE", "/bindings/src=source;dstq=q;key=;args=")[0]
    assert ("200", []) == ask(server, "GET", "/bindings?src=source")


def test_responses_go_to_the_receiving_session(server: Server) -> None:
    engine = transport.Connection(transport.Handler(), transport.Open(container_id="client"))
    gone, takes, asks = (engine.begin() for _ in range(3))
    request = Message(properties=Properties(subject="GET", to="/queues/q")).encode()

    def run(_: Any) -> tuple[int, int]:
        attacher = Attacher(server.broker, None)
        for session in (gone, asks):
            attacher._request(session, "/management", request, 0)  # nobody takes these
        gone.end()
        node = attacher._response_node(takes, "/management")
        node.attach("responses")
        attacher._request(asks, "/management", request, 0)
        return len(node), len(attacher._response_nodes)

    assert (1, 2) == server.call(run)


def test_long_chain_of_exchanges_routes_a_message(server: Server) -> None:
    def bind(nodes: Any) -> None:
        exchanges = server.broker.exchanges
        nodes.make("q")
        for number in range(2_000):
            exchanges.declare(f"{number}", "fanout", {})
        for number in range(1_999):
            exchanges.bind(Binding(f"{number}", f"{number + 1}", False, "", {}))
        exchanges.bind(Binding("1999", "q", True, "", {}))
        exchanges.publish("0", None, Message("x").encode(), origin=None)

    server.call(bind)
    assert ["x"] == texts(server, "q")


def test_deleted_subscription_node_is_unbound(server: Server) -> None:
    def begin(nodes: Any) -> tuple[str, Any]:
        dynamic = nodes.make_dynamic("container", "link", None)
        link = dynamic.attach("link", creates=True)
        server.broker.exchanges.bind(Binding("amq.fanout", dynamic.name, True, "", {}))
        nodes.make_topic("news")
        for name in "ab":
            nodes.subscribe("news", "container", name).attach(name)
        return dynamic.name, link

    name, link = server.call(begin)
    assert 2 == server.publish("news", Message("both"))
    server.call(lambda _: link.detach())
    assert name not in server.call(lambda nodes: [node.name for node in nodes])
    assert ("200", []) == ask(server, "GET", "/bindings")

    assert "200" == ask(server, "DELETE", "/queues/topic%2Fnews%2Fcontainer%2Fa")[0]
    assert 1 == server.publish("news", Message("one"))


def test_exclusive_queues_end_with_their_own_connection(server: Server) -> None:
    first, second = object(), object()
    ask(server, "PUT", "/queues/shared", {}, owner=first)
    for name, owner in (("a", first), ("b", second)):
        assert "201" == ask(server, "PUT", f"/queues/{name}", {"exclusive": True}, owner=owner)[0]
    server.call(lambda _: server.broker.on_ended(first))

    expected = [("shared", "200"), ("a", "404"), ("b", "200")]
    assert expected == [(name, ask(server, "GET", f"/queues/{name}")[0]) for name, _ in expected]


def test_rabbitmqs_client_from_declaration_to_deletion(server: Server) -> None:
    client = pytest.importorskip("rabbitmq_amqp_python_client")
    environment = client.Environment(uri=server.url)
    connection = environment.connection()
    connection.dial()
    management = connection.management()
    management.declare_exchange(client.ExchangeSpecification(name="e"))
    management.declare_queue(client.QuorumQueueSpecification(name="q"))
    path = management.bind(
        client.ExchangeToQueueBindingSpecification(
            source_exchange="e", destination_queue="q", binding_key="key"
        )
    )
    for address in (
        client.AddressHelper.exchange_address("e", "key"),
        client.AddressHelper.queue_address("q"),
    ):
        publisher = connection.publisher(address)
        status = publisher.publish(client.Message(body=b"hello"))
        assert client.OutcomeState.ACCEPTED == status.remote_state
        publisher.close()
    publisher = connection.publisher()
    message = client.Message(body=b"hello")
    message = client.AddressHelper.message_to_address_helper(message, "/queues/q")
    assert client.OutcomeState.ACCEPTED == publisher.publish(message).remote_state
    publisher.close()
    assert 3 == management.queue_info("q").message_count
    assert "q" == management.queue_info("q").name

    received: list[bytes] = []

    class Handler(client.AMQPMessagingHandler):  # type: ignore[misc,name-defined]
        def on_amqp_message(self, event: Any) -> None:
            received.append(bytes(event.message.body))
            self.delivery_context.accept(event)
            if len(received) == 3:
                raise KeyboardInterrupt  # the client has no other way out of run

    consumer = connection.consumer("/queues/q", message_handler=Handler())
    with pytest.raises(KeyboardInterrupt):
        consumer.run()
    consumer.close()
    management.unbind(path)
    assert 0 <= management.purge_queue("q")
    management.delete_queue("q")
    management.delete_exchange("e")
    environment.close()

    assert [b"hello"] * 3 == received
    assert not server.call(lambda nodes: "q" in nodes)


def test_rabbitmqs_client_with_invalid_arguments_and_missing_bindings(
    server: Server,
) -> None:
    client = pytest.importorskip("rabbitmq_amqp_python_client")
    environment = client.Environment(uri=server.url)
    connection = environment.connection()
    connection.dial()
    management = connection.management()
    wrong = [
        client.ClassicQueueSpecification(name="q", max_len=-5),
        client.StreamSpecification(name="q", stream_filter_size_bytes=5),
        client.QuorumQueueSpecification(name="q", overflow_behaviour="nope"),
    ]
    for specification in wrong:
        with pytest.raises(client.ValidationCodeException):
            management.declare_queue(specification)
    management.declare_exchange(client.ExchangeSpecification(name="e"))
    management.declare_queue(client.QuorumQueueSpecification(name="q", max_len=5))
    path = management.bind(
        client.ExchangeToQueueBindingSpecification(
            source_exchange="e", destination_queue="q", binding_key="key"
        )
    )
    management.delete_exchange("e")
    management.delete_queue("q")
    management.unbind(path)
    environment.close()


def test_delete_removes_bindings_of_an_expired_queue(server: Server) -> None:
    management = Management(server.broker)
    binding = {"source": "amq.fanout", "destination_queue": "q"}

    def left(nodes: Any) -> list[Any]:
        management._handle("PUT", "/queues/q", {}, None)
        management._handle("POST", "/bindings", binding, None)
        nodes.delete("q")
        management._handle("DELETE", "/queues/q", None, None)
        return [*server.broker.exchanges.bindings()]

    assert [] == server.call(left)
