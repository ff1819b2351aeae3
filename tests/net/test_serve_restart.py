"""Declarations survive a restart of a server with a file."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from amqp10msg import Header, Message, Properties, Symbol, ULong
from amqp10msg.delivery.node import StoreError
from amqp10msg.delivery.node.sqlite import SqliteStore
from amqp10msg.net.serve import Server
from amqp10msg.sections import AmqpValue

pytestmark = [pytest.mark.once, pytest.mark.usefixtures("in_a_folder")]

RABBITMQ = {"product": "RabbitMQ", "version": "4.1.0"}
ARGUMENTS = {
    "x-message-ttl": ULong(60_000),
    "x-dead-letter-exchange": "dead",
    "x-unknown": [Symbol("a"), {"nested": True}, None],
}


def ask(
    server: Server, method: str, to: str, body: Any = None, owner: object = None
) -> tuple[str, Any]:
    """Return the status and the body of the response of the management node."""
    properties = Properties(message_id="m-1", to=to, subject=method, reply_to="$me")
    request = Message.decode(Message(AmqpValue(body), properties=properties).encode())
    response = server.call(lambda _: server.broker.services["/management"](request, owner))
    found: Any = Message.decode(response.encode())
    return found.properties.subject, found.body.value


@contextlib.contextmanager
def serving(**options: Any) -> Iterator[Server]:
    with Server(file="s.db", properties=RABBITMQ, **options) as server:
        yield server


@pytest.mark.parametrize(
    "options",
    [
        {"durable": True, "arguments": {"x-queue-type": "quorum", "x-delivery-limit": 5}},
        {"durable": True, "auto_delete": True, "arguments": ARGUMENTS},
        {"durable": False, "arguments": {"x-max-priority": 5}},
    ],
)
@pytest.mark.parametrize("messages", [0, 2])
def test_queue_options_survive_a_restart(options: dict[str, Any], messages: int) -> None:
    with serving() as server:
        assert "201" == ask(server, "PUT", "/queues/a%2Fb", options)[0]
        for number in range(messages):
            server.publish("a/b", Message(f"{number}", header=Header(durable=True)))
        before = ask(server, "GET", "/queues/a%2Fb")
    with serving() as server:
        # The id of the server is another one.
        after = ask(server, "GET", "/queues/a%2Fb")
        changing = {"leader", "replicas"}
        assert "200" == before[0] == after[0]
        assert {**before[1], **dict.fromkeys(changing)} == {**after[1], **dict.fromkeys(changing)}
        assert messages == after[1]["message_count"]
        assert "200" == ask(server, "PUT", "/queues/a%2Fb", options)[0]
        other = {"durable": True, "arguments": {"x-queue-type": "classic"}}
        assert "409" == ask(server, "PUT", "/queues/a%2Fb", other)[0]


def test_deleted_queues_stay_deleted_and_may_have_other_options() -> None:
    with serving() as server:
        for name in "ab":
            ask(server, "PUT", f"/queues/{name}", {"arguments": {"x-max-length": 5}})
            ask(server, "DELETE", f"/queues/{name}")
        assert "201" == ask(server, "PUT", "/queues/b", {"arguments": {"x-max-length": 6}})[0]
    with serving() as server:
        assert "404" == ask(server, "GET", "/queues/a")[0]
        assert {"x-max-length": 6} == ask(server, "GET", "/queues/b")[1]["arguments"]


def test_exchanges_and_bindings_survive_a_restart() -> None:
    headers = {"x-match": "all", "region": "eu"}
    with serving() as server:
        ask(server, "PUT", "/queues/q", {})
        ask(server, "PUT", "/exchanges/orders", {"type": "topic", "arguments": {"a": 1}})
        ask(server, "PUT", "/exchanges/gone", {"type": "fanout"})
        for binding in (
            {"source": "orders", "destination_queue": "q", "binding_key": "eu.#"},
            {"source": "orders", "destination_queue": "q", "binding_key": "us.#"},
            {"source": "amq.headers", "destination_exchange": "orders", "arguments": headers},
            {"source": "gone", "destination_queue": "q"},
        ):
            assert "204" == ask(server, "POST", "/bindings", binding)[0]
        ask(server, "DELETE", "/bindings/src=orders;dstq=q;key=us.%23;args=")
        ask(server, "DELETE", "/exchanges/gone")
        before = ask(server, "GET", "/bindings")[1]
    with serving() as server:
        assert before == ask(server, "GET", "/bindings")[1]
        assert 2 == len(before)
        assert "204" == ask(server, "PUT", "/exchanges/gone", {"type": "direct"})[0]
        assert "409" == ask(server, "PUT", "/exchanges/orders", {"type": "direct"})[0]
        message = Message("x", properties=Properties(subject="eu.new"))

        def publish(_: Any) -> None:
            server.broker.exchanges.publish("orders", None, message.encode(), origin=None)

        server.call(publish)
        assert 1 == len(server.messages("q"))


def test_an_exclusive_queue_is_deleted_with_its_messages_after_a_crash() -> None:
    with serving() as server:
        ask(server, "PUT", "/queues/mine", {"exclusive": True}, owner=object())
        ask(server, "POST", "/bindings", {"source": "amq.fanout", "destination_queue": "mine"})
        server.publish("mine", Message("x", header=Header(durable=True)))
        for name in ("s.db", "s.db-wal"):  # as a kill leaves them
            shutil.copy(name, f"crashed-{name}")
    for name in ("s.db", "s.db-wal"):
        Path(name).unlink(missing_ok=True)
        Path(f"crashed-{name}").rename(name)
    with serving() as server:
        assert "404" == ask(server, "GET", "/queues/mine")[0]
        assert [] == ask(server, "GET", "/bindings")[1]
    with SqliteStore("s.db") as store:
        assert ([], {}) == (store.names(), store.definitions("queue"))


def test_a_subscription_of_service_bus_gets_messages_after_a_restart() -> None:
    """Even if it was empty when the server stopped: otherwise the topic would become a queue."""
    with serving(service_bus=True) as server:
        server.call(lambda nodes: nodes.make("topic/Subscriptions/one"))
    with serving(service_bus=True) as server:
        server.publish("topic", Message("x"))
        assert 1 == len(server.messages("topic/Subscriptions/one"))
        server.call(lambda nodes: nodes.delete("topic/Subscriptions/one"))
    with serving(service_bus=True) as server:
        assert not server.call(lambda nodes: "topic/Subscriptions/one" in nodes)


def test_a_store_of_an_earlier_version_still_opens() -> None:
    with serving() as server:
        server.publish("q", Message("x", header=Header(durable=True)))
    with contextlib.closing(sqlite3.connect("s.db")) as base:
        base.execute("DROP TABLE definition")
        base.commit()
    with serving() as server:
        assert ["x"] == [message.text() for message in server.messages("q")]
        options = {"arguments": {"x-queue-type": "quorum"}}
        assert "200" == ask(server, "PUT", "/queues/q", options)[0]
    with serving() as server:
        assert "quorum" == ask(server, "GET", "/queues/q")[1]["type"]


@pytest.mark.parametrize("kind", ["queue", "exchanges"])
@pytest.mark.parametrize("octets", [b"", b"\x00", b"\x40", b"\xa1\x01x", b"\xc1\x01\x00"])
def test_a_damaged_definition_is_named(kind: str, octets: bytes) -> None:
    with SqliteStore("s.db") as store:
        store.define(kind, "damaged", octets)
    if (kind, octets) == ("queue", b"\xc1\x01\x00"):
        with serving() as server:  # an empty map: all options are the usual ones
            assert "200" == ask(server, "PUT", "/queues/damaged", {})[0]
        return
    with pytest.raises(StoreError, match="damaged"), serving():
        pass


def test_declarations_survive_a_kill_of_the_command() -> None:
    proton = pytest.importorskip("proton", reason="needs python-qpid-proton")
    utils = pytest.importorskip("proton.utils")

    def declare(arguments: dict[str, Any]) -> str:
        command = [sys.executable, "-m", "amqp10msg", "serve", "--store", "s.db", "--port", "0"]
        environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as run:
            try:
                assert run.stdout is not None
                url = run.stdout.readline().strip()
                connection = utils.BlockingConnection(url, timeout=20.0)
                receiver = connection.create_receiver("/management")
                request = proton.Message(subject="PUT", body={"arguments": arguments})
                request.address, request.reply_to = "/queues/q", "$me"
                connection.create_sender("/management").send(request)
                subject: str = receiver.receive().subject
                return subject
            finally:
                run.kill()

    quorum, classic = {"x-queue-type": "quorum"}, {"x-queue-type": "classic"}
    assert ["201", "200", "409"] == [declare(one) for one in (quorum, quorum, classic)]
