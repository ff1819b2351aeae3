"""The emulator of Azure Service Bus, used by Azure's client as in its own tutorial."""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("azure.servicebus")

from azure.servicebus import (
    NEXT_AVAILABLE_SESSION,
    ServiceBusClient,
    ServiceBusMessage,
    ServiceBusSubQueue,
)
from azure.servicebus.amqp import AmqpAnnotatedMessage, AmqpMessageBodyType
from azure.servicebus.exceptions import ServiceBusError

from amqp10msg import (
    AmqpValue,
    DecodeError,
    Described,
    Header,
    Message,
    Properties,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    encode_value,
)
from amqp10msg.delivery import Source, Target
from amqp10msg.delivery.node import Capacity, NodeError
from amqp10msg.message.batch import BATCH_FORMAT, wrap
from amqp10msg.net.serve import Server
from amqp10msg.net.serve.service_bus import ServiceBus
from tests.net.serve_client import performatives
from tests.net.service_bus_calls import CONNECTION
from tests.net.transport_ends import frame
from tests.waiting import wait_until

#: Seconds that a receiver waits; what is there comes at once.
WAIT = 5


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(service_bus=True) as made:
        yield made


def client_of(server: Server) -> ServiceBusClient:
    """Return a client that uses the emulator's connection string, without TLS."""
    return ServiceBusClient.from_connection_string(
        CONNECTION.format(port=server.port), retry_total=0
    )


@pytest.fixture
def client(server: Server) -> Iterator[ServiceBusClient]:
    with client_of(server) as made:
        yield made


def send(client: ServiceBusClient, *texts: str, **more: Any) -> None:
    with client.get_queue_sender("orders") as sender:
        sender.send_messages([ServiceBusMessage(text, **more) for text in texts])


@contextlib.contextmanager
def receiving(client: ServiceBusClient, **how: Any) -> Iterator[Any]:
    with client.get_queue_receiver("orders", **{"max_wait_time": WAIT, **how}) as receiver:
        yield receiver


def texts(messages: Any) -> list[str]:
    return [str(message) for message in messages]


def test_send_one_message_several_messages_and_a_batch(
    server: Server, client: ServiceBusClient
) -> None:
    with client.get_queue_sender("orders") as sender:
        sender.send_messages(ServiceBusMessage("one"))
        sender.send_messages([ServiceBusMessage("two"), ServiceBusMessage("three")])
        batch = sender.create_message_batch()
        for text in ("four", "five"):
            batch.add_message(ServiceBusMessage(text))
        sender.send_messages(batch)

    assert 5 == server.counts("orders").available
    with receiving(client) as receiver:
        assert ["one", "two"] == texts(receiver.peek_messages(2))
        assert ["three", "four", "five"] == texts(receiver.peek_messages(9))
        assert [] == receiver.peek_messages(9)
        assert ["four", "five"] == texts(receiver.peek_messages(9, sequence_number=4))
        got = receiver.receive_messages(max_message_count=5)
        assert ["one", "two", "three", "four", "five"] == texts(got)
        assert [1, 2, 3, 4, 5] == [message.sequence_number for message in got]
        assert all(16 == len(message._delivery_tag) for message in got)
        assert all(message.locked_until_utc > message.enqueued_time_utc for message in got)
        assert 5 == len({message.lock_token for message in got})
        for message in got:
            token = message.raw_amqp_message.delivery_annotations[b"x-opt-lock-token"]
            assert token == uuid.UUID(bytes_le=message._delivery_tag)
        for message in got:
            receiver.complete_message(message)
        wait_until(lambda: len(server.messages("orders")) == 0)


def test_message_is_dead_lettered_after_ten_deliveries(client: ServiceBusClient) -> None:
    send(client, "a")
    with receiving(client) as receiver:
        for count in range(10):
            (message,) = receiver.receive_messages(1)
            assert count == (message.delivery_count or 0)
            receiver.abandon_message(message)
    with receiving(client, sub_queue=ServiceBusSubQueue.DEAD_LETTER) as letters:
        (letter,) = letters.receive_messages(1)
        assert "MaxDeliveryCountExceeded" == letter.dead_letter_reason
        letters.complete_message(letter)


def test_dead_letter(client: ServiceBusClient) -> None:
    send(client, "a", application_properties={"k": 1})
    with receiving(client) as receiver:
        (message,) = receiver.receive_messages(1)
        receiver.dead_letter_message(message, reason="bad", error_description="very bad")
    with receiving(client, sub_queue=ServiceBusSubQueue.DEAD_LETTER) as letters:
        (letter,) = letters.peek_messages(1)
        assert ("bad", "very bad") == (
            letter.dead_letter_reason,
            letter.dead_letter_error_description,
        )
        (letter,) = letters.receive_messages(1)
        assert "orders" == letter.dead_letter_source
        assert {b"k": 1}.items() <= letter.application_properties.items()
        assert "a" == str(letter)
        with client.get_queue_receiver("orders/$deadletterqueue") as lower_case:
            assert ["a"] == texts(lower_case.peek_messages(1))


def test_defer_and_receive_deferred(client: ServiceBusClient) -> None:
    send(client, "complete", "abandon", "dead-letter", "defer", "other")
    with receiving(client) as receiver:
        numbers = []
        for message in receiver.receive_messages(4):
            receiver.defer_message(message)
            numbers.append(message.sequence_number)
        wait_until(lambda: len(receiver.peek_messages(9, sequence_number=1)) == 5)
        assert ["other"] == texts(receiver.receive_messages(1))

        deferred = receiver.receive_deferred_messages(numbers)
        assert numbers == [message.sequence_number for message in deferred]
        now = datetime.datetime.now(datetime.UTC)
        assert receiver.renew_message_lock(deferred[0]) > now
        with pytest.raises(ServiceBusError, match="message 1 is not deferred"):
            receiver.receive_deferred_messages([numbers[0]])  # it is locked
        for message, settle in zip(
            deferred,
            (
                *(receiver.complete_message, receiver.abandon_message),
                *(receiver.dead_letter_message, receiver.defer_message),
            ),
            strict=True,
        ):
            settle(message)
        again = receiver.receive_deferred_messages([numbers[1], numbers[3]])
        assert ["abandon", "defer"] == texts(again)
        for gone in (numbers[0], numbers[2]):
            with pytest.raises(ServiceBusError, match="is not deferred"):
                receiver.receive_deferred_messages([gone])
    with receiving(client, sub_queue=ServiceBusSubQueue.DEAD_LETTER) as letters:
        assert ["dead-letter"] == texts(letters.peek_messages(9))


def test_schedule_and_cancel() -> None:
    ahead = [0]
    hour = datetime.timedelta(hours=1)

    def clock() -> int:
        return time.time_ns() // 1_000_000 + ahead[0]

    with Server(service_bus=True, clock=clock) as server, client_of(server) as client:
        now = datetime.datetime.now(datetime.UTC)
        with client.get_queue_sender("orders") as sender, receiving(client) as receiver:
            soon = sender.schedule_messages(ServiceBusMessage("soon"), now + hour)
            later = sender.schedule_messages(
                [ServiceBusMessage("x"), ServiceBusMessage("y")], now + 3 * hour
            )
            assert 3 == len({*soon, *later})
            assert ["soon", "x", "y"] == texts(receiver.peek_messages(9))
            assert 0 == server.counts("orders").available
            ahead[0] = 2 * 3_600_000
            (message,) = receiver.receive_messages(1)
            assert ("soon", soon[0]) == (str(message), message.sequence_number)
            sender.cancel_scheduled_messages(later)
            with pytest.raises(ServiceBusError, match="message 2 is not scheduled"):
                sender.cancel_scheduled_messages(later)
            assert [] == receiver.peek_messages(9, sequence_number=2)


def test_message_is_redelivered_after_its_lock_expires() -> None:
    now = [1_790_000_000_000]
    with Server(service_bus=True, clock=lambda: now[0]) as server, client_of(server) as client:
        send(client, "a")
        with receiving(client) as receiver:
            (message,) = receiver.receive_messages(1)
            assert 1 == server.counts("orders").acquired
            now[0] += 60_000
            wait_until(lambda: server.counts("orders").available == 1)
            with pytest.raises(ServiceBusError):
                receiver._renew_locks(message.lock_token)
            (again,) = receiver.receive_messages(1)
            assert ("a", 1) == (str(again), again.delivery_count)


@pytest.mark.parametrize(
    "operation, fields",
    [("renew-lock", {}), ("update-disposition", {"disposition-status": "completed"})],
)
def test_requests_for_an_expired_lock_are_refused(operation: str, fields: Any) -> None:
    """Before and after the server's next tick, which releases the message."""
    now = [1_790_000_000_000]

    def pass_a_minute() -> None:
        now[0] += 60_000

    with Server(service_bus=True, clock=lambda: now[0]) as server, client_of(server) as client:
        send(client, "a")
        with receiving(client) as receiver:
            (message,) = receiver.receive_messages(1)
            body = {"lock-tokens": [message.lock_token], **fields}
            response = ask(server, operation, body, before=pass_a_minute)
    assert status_of(response) == (410, "com.microsoft:message-lock-lost")


def test_a_session_has_one_receiver(client: ServiceBusClient) -> None:
    for session in ("s1", "s2"):
        send(client, f"{session}-a", f"{session}-b", session_id=session)
    with receiving(client, session_id="s2") as receiver:
        assert receiver.session.locked_until_utc > datetime.datetime.now(datetime.UTC)
        assert ["s2-a"] == texts(receiver.peek_messages(1))
        assert ["s2-a", "s2-b"] == texts(receiver.receive_messages(2))
        with pytest.raises(ServiceBusError), receiving(client, session_id="s2"):
            pass


def test_next_session_is_a_free_session(client: ServiceBusClient) -> None:
    for session in ("s1", "s2"):
        send(client, session, session_id=session)
    with (
        receiving(client, session_id=NEXT_AVAILABLE_SESSION) as first,
        receiving(client, session_id=NEXT_AVAILABLE_SESSION) as second,
    ):
        assert [first.session.session_id, second.session.session_id] == ["s1", "s2"]


def test_message_without_an_id_gets_one(client: ServiceBusClient) -> None:
    """Sent as an AmqpAnnotatedMessage: the client adds an id to a ServiceBusMessage."""
    with client.get_queue_sender("orders") as sender:
        sender.send_messages(AmqpAnnotatedMessage(data_body=b"x"))
    with receiving(client) as receiver:
        (message,) = receiver.receive_messages(1)
    assert message.message_id


def test_unimplemented_operation_is_reported(client: ServiceBusClient, server: Server) -> None:
    server.publish("orders", Message("x", properties=Properties(message_id="m")))
    with receiving(client) as receiver:
        (message,) = receiver.peek_messages(1)
        assert AmqpMessageBodyType.VALUE is message.body_type
        with pytest.raises(
            ServiceBusError, match=r"does not implement the operation .com\.microsoft:add-rule"
        ):
            receiver._mgmt_request_response_with_retry(
                b"com.microsoft:add-rule", {}, _default, timeout=WAIT
            )


def _default(status_code: Any, message: Any, description: Any, **_: Any) -> None:
    assert 501 == status_code
    assert b"amqp:not-implemented" == message.application_properties[b"errorCondition"]
    raise ServiceBusError(description.decode())


@pytest.mark.parametrize("address", ["$cbs", "$management", "orders/$management"])
def test_request_addresses_are_refused_without_a_service(address: str) -> None:
    utils = pytest.importorskip("proton.utils")

    with Server() as plain:
        connection = utils.BlockingConnection(plain.url, timeout=WAIT)
        for create in (connection.create_sender, connection.create_receiver):
            with pytest.raises(utils.LinkDetached, match="this server has no service"):
                create(address)
        connection.close()


def test_batch_of_this_process_is_unpacked(server: Server) -> None:
    assert 2 == server.publish("orders", wrap([Message("one"), Message("two")]))

    assert ["one", "two"] == [message.text() for message in server.messages("orders")]


def test_batch_is_accepted_completely_or_refused(server: Server) -> None:
    good = Message("x")
    batch = wrap([good, good]).encode()

    def publish(octets: bytes) -> None:
        bus = server.broker.extension
        assert isinstance(bus, ServiceBus)
        server.call(lambda _: bus.publish("orders", octets, BATCH_FORMAT))

    broken = bytes.fromhex("005375a00178")
    for octets in (batch[:-1], Message({"a": 1}).encode(), batch + broken):
        with pytest.raises((NodeError, DecodeError)):
            publish(octets)
    assert 0 == server.counts("orders").available
    publish(batch)
    assert [good.body, good.body] == [one.body for one in server.messages("orders")]


def test_batch_without_room_leaves_no_message() -> None:
    with Server(service_bus=True, capacity=Capacity(messages=2)) as server:
        bus = server.broker.extension
        assert isinstance(bus, ServiceBus)
        batch = wrap([Message("x")] * 3).encode()

        with pytest.raises(NodeError, match="orders"):
            server.call(lambda _: bus.publish("orders", batch, BATCH_FORMAT))

        assert 0 == server.counts("orders").available


@pytest.mark.parametrize(
    "operation, body, status",
    [
        ("peek-message", {"from-sequence-number": 1, "message-count": 1}, 204),
        ("peek-message", {}, 400),
        ("peek-message", None, 400),
        ("renew-lock", {"lock-tokens": [uuid.uuid4()]}, 410),
        ("renew-lock", {"lock-tokens": ["no token"]}, 400),
        ("cancel-scheduled-message", {"sequence-numbers": [5]}, 404),
        ("receive-by-sequence-number", {"sequence-numbers": [5], "receiver-settle-mode": 1}, 404),
        ("update-disposition", {"disposition-status": "other", "lock-tokens": []}, 501),
        ("get-session-state", {"session-id": "s"}, 200),
        ("renew-session-lock", {"session-id": "s"}, 410),
        ("get-message-sessions", {}, 204),
        ("schedule-message", {"messages": [{"message": b"no message"}]}, 400),
        ("enumerate-rules", {}, 501),
        ("add-rule", {}, 501),
        ("remove-rule", {}, 501),
        ("batch-delete-messages", {}, 501),
    ],
)
def test_every_request_is_answered(server: Server, operation: str, body: Any, status: int) -> None:
    response = ask(server, operation, body)

    said, properties = response.application_properties, response.properties
    assert said is not None
    assert properties is not None
    assert status == said["statusCode"] == said["status-code"]
    assert ("errorCondition" in said) == (status >= 300)
    assert (status < 300) == (said["statusDescription"] == "OK")
    assert ("m-1", "here") == (properties.correlation_id, properties.to)
    assert response == Message.decode(response.encode())


def ask(
    server: Server, operation: str, body: Any, *, before: Callable[[], None] = lambda: None
) -> Message:
    """Send a request to the queue ``orders``, as a client does.

    The server's thread calls `before` and answers the request in the same turn.
    """
    request = Message(
        AmqpValue(body),
        properties=Properties(message_id="m-1", reply_to="here"),
        application_properties={"operation": f"com.microsoft:{operation}"},
    )

    def answer(nodes: Any) -> Message:
        nodes.make("orders")
        before()
        service = server.broker.service("orders/$management")
        assert service is not None
        return service(request, object())

    return server.call(answer)


@pytest.mark.parametrize("mode", [None, 0, 1, 2])
@pytest.mark.parametrize("address", ["orders/$management", "$cbs", "/management"])
def test_unsettled_responses_do_not_fill_the_node(
    server: Server, address: str, mode: int | None
) -> None:
    """Regression: the request 1,001 of a link failed, and every later request."""
    requests, window = 1_100, UInt(2**31 - 1)
    session_window = UInt(0), window, UInt(0), window
    settle = None if mode is None else UByte(mode)
    source, target = Source(address=address), Target(address=address)
    request = Message(AmqpValue(None), properties=Properties(message_id="m", to="x")).encode()
    with socket.create_connection((server.host, server.port), timeout=20) as client:
        client.sendall(
            b"AMQP\0\1\0\0"
            + frame(0x10, "client")
            + frame(0x11, None, UInt(0), window, window)
            + frame(0x12, "in", UInt(0), True, settle, None, source, None)
            + frame(0x12, "out", UInt(1), False, None, None, None, target, None, None, UInt(0))
            + frame(0x13, *session_window, UInt(0), UInt(0), UInt(requests))
        )
        heard = performatives(client)
        for number in range(requests):
            tag = number.to_bytes(4, "big")
            client.sendall(frame(0x14, UInt(1), UInt(number), tag, UInt(0), False, payload=request))
            while (said := next(heard)).descriptor != 0x14:
                assert said.descriptor not in {0x16, 0x17, 0x18}, said
        # A new link gets the responses that the server still keeps, then a drained flow.
        client.sendall(
            frame(0x16, UInt(0), True)
            + frame(0x12, "again", UInt(2), True, settle, None, source, None)
            + frame(0x13, *session_window, UInt(2), UInt(0), window, None, True)
        )
        kept = 0
        while (performative := next(heard)).descriptor != 0x13 or performative.value[4] != 0:
            kept += performative.descriptor == 0x14
        assert kept == (0 if mode == 1 else 10)


def status_of(response: Message) -> tuple[Any, Any]:
    said = response.application_properties
    assert said is not None
    return said["statusCode"], said.get("errorCondition")


def test_scheduled_messages_and_session_states_count_as_memory() -> None:
    with Server(service_bus=True, memory=10_000) as server:
        before = server.broker.memory.message_bytes
        later = {"x-opt-scheduled-enqueue-time": Timestamp(2**50)}
        octets = Message(b"x" * 6_000, message_annotations=later).encode()

        def schedule() -> Message:
            return ask(server, "schedule-message", {"messages": [{"message": octets}]})

        assert (200, None) == status_of(schedule())
        assert (403, "amqp:resource-limit-exceeded") == status_of(schedule())
        state = {"session-id": "s", "session-state": b"x" * 6_000}
        assert 403 == status_of(ask(server, "set-session-state", state))[0]
        cancel = {"sequence-numbers": [1]}
        assert (200, None) == status_of(ask(server, "cancel-scheduled-message", cancel))
        assert before == server.broker.memory.message_bytes
        for kept in (state, {**state, "session-state": None}):
            assert (200, None) == status_of(ask(server, "set-session-state", kept))
        assert before == server.broker.memory.message_bytes


LATER = {"x-opt-scheduled-enqueue-time": Timestamp(2**50)}


def test_refused_request_changes_nothing() -> None:
    with Server(service_bus=True, memory=10_000) as server:
        before = server.broker.memory.message_bytes
        octets = Message(b"x" * 6_000, message_annotations=LATER).encode()
        twice = {"messages": [{"message": octets}] * 2}
        state = {"session-id": "s", "session-state": b"x" * 4_000}

        assert 403 == status_of(ask(server, "schedule-message", twice))[0]
        assert before == server.broker.memory.message_bytes
        bus = server.broker.extension
        assert isinstance(bus, ServiceBus)
        with pytest.raises(NodeError, match="no room"):
            server.call(
                lambda _: bus.publish(
                    "orders", wrap([Message.decode(octets)] * 2).encode(), BATCH_FORMAT
                )
            )
        assert before == server.broker.memory.message_bytes

        assert 200 == status_of(ask(server, "set-session-state", state))[0]
        held = server.broker.memory.message_bytes
        larger = {**state, "session-state": b"y" * 20_000}
        assert 403 == status_of(ask(server, "set-session-state", larger))[0]
        assert held == server.broker.memory.message_bytes
        kept = ask(server, "get-session-state", {"session-id": "s"}).value
        assert b"x" * 4_000 == kept["session-state"]


def test_first_delivery_has_a_delivery_count_of_0(client: ServiceBusClient) -> None:
    """Regression: a delivery-count of 0 was omitted, and the client showed None."""
    send(client, "first")
    with receiving(client) as receiver:
        assert [0] == [one.delivery_count for one in receiver.peek_messages()]
        (message,) = receiver.receive_messages(max_wait_time=WAIT)
        assert 0 == message.delivery_count
        receiver.defer_message(message)
        (deferred,) = receiver.receive_deferred_messages([message.sequence_number])
        assert 1 == deferred.delivery_count


def test_sessions_are_listed_by_the_time_of_their_state() -> None:
    now = 1_000
    with Server(service_bus=True, clock=lambda: now) as server:
        for session in ("early", "late"):
            state = {"session-id": session, "session-state": b"x"}
            assert 200 == status_of(ask(server, "set-session-state", state))[0]
            now += 1_000
        for after, sessions in ((500, ["early", "late"]), (1_000, ["late"]), (2_000, None)):
            body = {"last-updated-time": Timestamp(after), "skip": 0, "top": 100}
            answer = ask(server, "get-message-sessions", body)
            assert (200 if sessions else 204) == status_of(answer)[0]
            assert sessions == (answer.value and [*answer.value["sessions-ids"]])


def test_expired_messages_are_dead_letters(server: Server, client: ServiceBusClient) -> None:
    send(client, "soon", time_to_live=datetime.timedelta(milliseconds=1))
    wait_until(lambda: server.counts("orders/$DeadLetterQueue").available == 1)
    with receiving(client, sub_queue=ServiceBusSubQueue.DEAD_LETTER) as receiver:
        (letter,) = receiver.receive_messages(max_wait_time=WAIT)
        assert ("soon", "TTLExpiredException") == (str(letter), letter.dead_letter_reason)
        receiver.complete_message(letter)


def test_dead_letters_never_expire() -> None:
    """Regression: the client also sets an absolute-expiry-time, which expired the dead letter."""
    hours_ahead = [0]
    hour = datetime.timedelta(hours=1)

    def clock() -> int:
        return time.time_ns() // 1_000_000 + hours_ahead[0] * 3_600_000

    with Server(service_bus=True, clock=clock) as server, client_of(server) as client:
        send(client, "rejected", "expired", time_to_live=hour)
        with receiving(client) as receiver:
            (message,) = receiver.receive_messages(1)
            receiver.dead_letter_message(message, reason="bad")
        hours_ahead[0] = 2
        wait_until(lambda: server.counts("orders").archived == 2)
        with receiving(client, sub_queue=ServiceBusSubQueue.DEAD_LETTER) as receiver:
            received = [*receiver.receive_messages(1), *receiver.receive_messages(1)]
            assert texts(received) == ["rejected", "expired"]


@pytest.mark.parametrize("state", [7, 2**40, "text", [1]])
def test_session_state_must_be_a_binary(server: Server, state: Any) -> None:
    asked = {"session-id": "s", "session-state": state}

    assert 400 == status_of(ask(server, "set-session-state", asked))[0]
    assert 400 == status_of(ask(server, "schedule-message", {"messages": [{"message": state}]}))[0]


def test_repeated_sequence_number_or_token_counts_once(
    server: Server, client: ServiceBusClient
) -> None:
    send(client, "a", "b")
    with receiving(client) as receiver:
        a, b = receiver.receive_messages(2, max_wait_time=5)
        receiver.defer_message(a)
        twice = {"lock-tokens": [b.lock_token] * 2, "disposition-status": "suspended"}
        assert 200 == status_of(ask(server, "update-disposition", twice))[0]

    asked = {"sequence-numbers": [a.sequence_number] * 2, "receiver-settle-mode": 0}
    found = ask(server, "receive-by-sequence-number", asked)
    assert 1 == server.counts("orders/$DeadLetterQueue").available
    assert 200 == status_of(found)[0]
    assert 1 == len(found.value["messages"])


def test_subscription_name_may_contain_queue() -> None:
    names = ["t/Subscriptions/OrderQueue", "t/Subscriptions/b"]
    with Server(service_bus=True) as server:
        server.call(lambda nodes: [nodes.make(name) for name in names])
        bus = server.broker.extension
        assert isinstance(bus, ServiceBus)
        server.call(lambda _: bus.publish("t", Message("x").encode()))

        assert [1, 1] == [server.counts(name).available for name in names]


def test_full_server_still_dead_letters_messages() -> None:
    now = [1_790_000_000_000]
    with Server(service_bus=True, memory=1_000, clock=lambda: now[0]) as server:
        with client_of(server) as client:
            send(client, "a")
            with receiving(client) as receiver:
                for _ in range(10):
                    assert 1 == len(receiver.receive_messages(1, max_wait_time=5))
                    now[0] += 60_000
                    wait_until(lambda: server.counts("orders").acquired == 0)

        assert 1 == server.counts("orders/$DeadLetterQueue").available


@pytest.mark.parametrize("session", [5, [1], b"s"])
def test_session_id_must_be_a_string(server: Server, session: Any) -> None:
    bus = server.broker.extension
    assert isinstance(bus, ServiceBus)

    with pytest.raises(NodeError, match="the id of a session must be a string"):
        server.call(lambda nodes: bus.session_filter(nodes.make("orders"), session))


def test_sequence_numbers_continue_after_a_restart(tmp_path: Path) -> None:
    message = Message("x", header=Header(durable=True))
    for number in (1, 2):
        with Server(service_bus=True, file=tmp_path / "server.db") as server:
            server.publish("orders", message)
            peek = {"from-sequence-number": number, "message-count": 9}
            response = ask(server, "peek-message", peek)
            assert (200, None) == status_of(response)
            assert isinstance(response.body, AmqpValue)
            (found,) = response.body.value["messages"]
            annotations = Message.decode(found["message"]).message_annotations
            assert annotations is not None
            assert number == annotations["x-opt-sequence-number"]


PAGE = Path(__file__).parents[2] / "docs" / "reference" / "serve.md"
CLIENTS = ("azure-servicebus", "azure-servicebus.aio", "@azure/service-bus")
_MODULES = {CLIENTS[0]: "azure.servicebus", CLIENTS[1]: "azure.servicebus.aio"}


def cells_of(client: str) -> dict[str, str]:
    """Return the documentation's entry for each call of a client; a dash for a missing call."""
    rows = [
        [cell.strip() for cell in line.strip("|\n ").split("|")]
        for line in PAGE.read_text(encoding="utf-8").splitlines()
        if line.startswith("|")
    ]
    start = next(at for at, row in enumerate(rows) if row[0] == "call")
    column = [one.strip("`") for one in rows[start]].index(client)
    table = rows[start + 2 :]
    wide = next((at for at, row in enumerate(table) if len(row) != 4), len(table))
    return {row[0]: row[column] for row in table[:wide] if row[column] != "-"}


@pytest.mark.parametrize("client", CLIENTS)
def test_every_call_of_the_documentation(client: str) -> None:
    with Server(service_bus=True, nodes=["news/Subscriptions/ann"]) as server:
        found = calls_of(client, server.port)

    assert cells_of(client) == found


def calls_of(client: str, port: int) -> dict[str, str]:
    here = Path(__file__).parent
    command = [sys.executable, str(here / "service_bus_calls.py"), _MODULES.get(client, "")]
    if client.startswith("@"):
        places = [Path(place) for place in os.environ.get("NODE_PATH", "").split(os.pathsep)]
        node = shutil.which("node")
        if node is None or not any((place / client).is_dir() for place in places):
            pytest.skip(f"Node and {client} are not installed: see NODE_PATH")
        command = [node, str(here / "service_bus_calls.js")]
    done = subprocess.run(
        [*command, str(port)], capture_output=True, check=False, timeout=120, text=True
    )
    assert 0 == done.returncode, done.stderr
    made: dict[str, str] = json.loads(done.stdout)
    return made


_HEADER, _DELIVERY, _ANNOTATIONS, _BODY = (
    encode_value(Described(ULong(code), value))
    for code, value in ((0x70, [True]), (0x71, {Symbol("d"): 1}), (0x72, {}), (0x77, "text"))
)


@pytest.mark.parametrize(
    "sections, is_accepted",
    [
        ((_HEADER, _ANNOTATIONS, _BODY, _DELIVERY), True),
        ((_ANNOTATIONS, _DELIVERY, _BODY), True),
        ((_BODY, _HEADER), True),
        ((_DELIVERY, _ANNOTATIONS, _BODY, _DELIVERY), False),
        ((_BODY, _DELIVERY, _BODY), False),
    ],
)
def test_sections_in_another_order_are_accepted(
    sections: tuple[bytes, ...], is_accepted: bool
) -> None:
    """Azure's client writes delivery-annotations last, and Azure accepts them."""
    with Server(service_bus=True, accept_durable=True) as server:
        octets = b"".join(sections)
        body = {"messages": [{"message": octets}]}
        assert (200 if is_accepted else 400) == status_of(ask(server, "schedule-message", body))[0]
        if is_accepted:
            (message,) = server.messages("orders")
            assert "text" == message.text()
        bus = server.broker.extension
        assert isinstance(bus, ServiceBus)
        if not is_accepted:
            with pytest.raises(DecodeError):
                server.call(lambda _: bus.publish("orders", octets))
