"""Makes the calls of rabbitmq-amqp-python-client, and prints the result of each as JSON."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from tests.net.client_calls import Calls, ends, told

# Not everybody who checks types has it.
client: Any = importlib.import_module("rabbitmq_amqp_python_client")
_qpid: Any = importlib.import_module("rabbitmq_amqp_python_client.qpid.proton")


class _Calls(Calls):
    def __init__(self, given: dict[str, Any]) -> None:
        super().__init__()
        self.given = given
        self.connection = self.connect()
        self.management = self.connection.management()

    def connect(self, end: str = "keeps", user: str = "ann:secret@", **how: Any) -> Any:
        url = urlsplit(self.given[end])
        off = client.RecoveryConfiguration(active_recovery=False)
        made = client.Environment(
            uri=f"{url.scheme}://{user}{url.netloc}/", recovery_configuration=off, **how
        ).connection()
        made.dial()
        return made

    def queue(self, name: str) -> str:
        self.management.declare_queue(client.QuorumQueueSpecification(name=name))
        made: str = client.AddressHelper.queue_address(name)
        return made

    def send(self, address: str, *bodies: bytes, connection: Any = None, **fields: Any) -> None:
        publisher = (connection or self.connection).publisher(address)
        for body in bodies:
            status = publisher.publish(client.Message(body=body, **fields))
            assert client.OutcomeState.ACCEPTED == status.remote_state, status.remote_state
        publisher.close()

    def take(
        self,
        address: str,
        count: int = 1,
        outcome: Callable[[Any, Any], None] | None = None,
        **how: Any,
    ) -> list[Any]:
        """Consume messages, and settle each with its outcome; the default is accepted."""
        found: list[Any] = []

        class Handler(client.AMQPMessagingHandler):  # type: ignore[misc]
            def on_amqp_message(self, event: Any) -> None:
                found.append(event.message)
                if outcome is not None:
                    outcome(self.delivery_context, event)
                elif not event.delivery.settled:
                    self.delivery_context.accept(event)
                if len(found) == count:
                    raise KeyboardInterrupt  # the client has no other way out of run

        consumer = self.connection.consumer(address, message_handler=Handler(), **how)
        try:
            consumer.run()
        except KeyboardInterrupt:
            consumer.close()
        return found

    def bodies(self, address: str, count: int = 1, **how: Any) -> list[bytes]:
        return [bytes(message.body) for message in self.take(address, count, **how)]

    def logins(self) -> None:
        authority = client.PosixSslConfigurationContext(ca_cert=self.given["ca"])

        def wrong() -> None:
            try:
                self.connect(user="ann:wrong@")
            except _qpid.ConnectionException as error:
                assert "Authentication failed" in str(error)  # noqa: PT017
            else:
                raise AssertionError("it was taken")

        def token() -> None:  # it is the password of a user whose name the client makes up
            made = self.connect(user="", oauth2_options=client.OAuth2Options(token="token"))
            made.refresh_token("another")
            made.close()

        self.call("SASL ANONYMOUS", lambda: self.connect(user="").close())
        self.call("SASL PLAIN", lambda: self.connect().close())
        self.call("a wrong password is refused", wrong)
        self.call("TLS", lambda: self.connect("tls", ssl_context=authority).close())
        self.call("log in with a token, and renew it", token)

    def sending(self) -> None:
        call, queue, send = self.call, self.queue, self.send

        def large() -> None:
            send(queue("large"), b"x" * (1 << 20))
            assert [b"x" * (1 << 20)] == self.bodies(queue("large"))

        def durable() -> None:
            keeps_none = self.connect("plain")
            specification = client.QuorumQueueSpecification(name="durable")
            keeps_none.management().declare_queue(specification)
            try:
                send("/queues/durable", b"a", connection=keeps_none)
            except client.AmqpMessageRejectedException as error:
                assert "has no durable store" in str(error)  # noqa: PT017
                raise RuntimeError("amqp:precondition-failed") from None

        def anonymous() -> None:
            address = queue("addressed")
            publisher = self.connection.publisher()
            message = client.AddressHelper.message_to_address_helper(
                client.Message(body=b"a"), address
            )
            publisher.publish(message)
            publisher.close()
            assert [b"a"] == self.bodies(address)

        call("send", lambda: send(queue("sent"), b"a"))
        call("send 1 MiB", large)
        call("send more than `max_message_size`", lambda: send(queue("long"), b"x" * (5 << 20)))
        call("send a durable message", durable)
        call("send to the anonymous terminus", anonymous)

    def receiving(self) -> None:
        call, queue = self.call, self.queue

        def settled() -> None:
            address = queue("taken")
            self.send(address, b"a")
            options = client.ConsumerOptions(
                settle_strategy=client.ConsumerSettleStrategy.PreSettled
            )
            assert [b"a"] == self.bodies(address, consumer_options=options)
            self.send(address, b"b")
            assert [b"b"] == self.bodies(address)

        def after(name: str, outcome: Callable[[Any, Any], None]) -> Any:
            address = queue(name)
            self.send(address, b"a")
            self.take(address, 1, outcome)
            self.send(address, b"b")
            (found,) = self.take(address)
            return found

        def release() -> None:
            found = after("release", lambda context, event: context.requeue(event))
            assert (b"a", 0) == (bytes(found.body), found.delivery_count)

        def modify() -> None:
            why = {client.symbol("x-opt-why"): "busy"}
            found = after(
                "modify", lambda context, event: context.requeue_with_annotations(event, why)
            )
            assert "busy" == found.annotations["x-opt-why"]

        def letters() -> None:
            self.take("/queues/dead")
            after("dying", lambda context, event: context.discard(event))
            (death,) = self.take("/queues/dead")[0].annotations["x-opt-deaths"]
            assert ("rejected", 1, "dying") == (death["reason"], death["count"], death["queue"])

        def next_after(name: str, outcome: Callable[[Any, Any], None]) -> None:
            assert b"b" == bytes(after(name, outcome).body)

        call("receive settled", settled)
        call("accept", lambda: next_after("accept", lambda context, event: context.accept(event)))
        call("release", release)
        call("modify, with annotations", modify)
        call("reject", lambda: next_after("reject", lambda context, event: context.discard(event)))
        call("receive dead letters, with the reason", letters)

    def managing(self) -> None:
        call, management = self.call, self.management
        binding = client.ExchangeToQueueBindingSpecification(
            source_exchange="e", destination_queue="q", binding_key="key"
        )

        def routed() -> None:
            self.send(client.AddressHelper.exchange_address("e", "key"), b"a")
            assert 1 == management.queue_info("q").message_count

        def wrong() -> None:
            try:
                management.declare_queue(client.ClassicQueueSpecification(name="w", max_len=-5))
            except client.ValidationCodeException as error:
                raise RuntimeError(str(error)) from None

        call("declare a queue", lambda: self.queue("q"))
        call("declare a queue with a wrong argument", wrong)
        exchange = client.ExchangeSpecification(name="e")
        call("declare an exchange", lambda: management.declare_exchange(exchange))
        path = call("bind", lambda: management.bind(binding))
        call("send to an exchange, and ask about the queue", routed)
        call("purge a queue", lambda: management.purge_queue("q"))
        call("unbind", lambda: management.unbind(path))
        call("delete an exchange", lambda: management.delete_exchange("e"))
        call("delete a queue", lambda: management.delete_queue("q"))
        call("unbind from a queue that is gone", lambda: management.unbind(path))


if __name__ == "__main__":
    _made = _Calls(ends())
    for _part in (_made.logins, _made.sending, _made.receiving, _made.managing):
        _part()
    told(_made)
