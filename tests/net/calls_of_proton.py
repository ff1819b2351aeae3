"""Makes the calls of python-qpid-proton, and prints the result of each as JSON."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

import proton
from proton import handlers, reactor, utils

from tests.net.client_calls import Calls, ends, told

_WAIT = 10  # seconds; what is there comes at once


class _Calls(Calls):
    def __init__(self, given: dict[str, Any]) -> None:
        super().__init__()
        self.given = given
        self.connection = self.connect()

    def connect(self, end: str = "plain", **how: Any) -> Any:
        return utils.BlockingConnection(self.given[end], timeout=_WAIT, **how)

    def send(self, address: str, *bodies: Any, **fields: Any) -> None:
        sender = self.connection.create_sender(address)
        for body in bodies:
            sender.send(proton.Message(body=body, **fields))
        sender.close()

    def receiver(self, address: str | None, *options: Any, **how: Any) -> Any:
        return self.connection.create_receiver(address, options=list(options), **how)

    def bodies(self, receiver: Any, count: int) -> list[Any]:
        found = []
        for _ in range(count):
            found.append(receiver.receive(_WAIT).body)
            receiver.accept()
        return found

    def logins(self) -> None:
        as_ann = {"user": "ann", "password": "secret", "allow_insecure_mechs": True}
        domain = proton.SSLDomain(proton.SSLDomain.MODE_CLIENT)
        domain.set_trusted_ca_db(self.given["ca"])
        domain.set_peer_authentication(proton.SSLDomain.VERIFY_PEER)
        mine = proton.SSLDomain(proton.SSLDomain.MODE_CLIENT)
        mine.set_trusted_ca_db(self.given["ca"])
        mine.set_credentials(self.given["mine"], self.given["mine"], None)

        def login(end: str, mechanism: str, **how: Any) -> None:
            self.connect(end, allowed_mechs=mechanism, **how).close()

        def wrong() -> None:
            try:
                login("plain", "PLAIN", **{**as_ann, "password": "wrong"})
            except proton.ConnectionException as error:
                assert "Authentication failed" in str(error)  # noqa: PT017
            else:
                raise AssertionError("it was taken")

        self.call("SASL ANONYMOUS", lambda: login("plain", "ANONYMOUS"))
        self.call("SASL PLAIN", lambda: login("plain", "PLAIN", **as_ann))
        self.call("a wrong password is refused", wrong)
        self.call("TLS", lambda: login("tls", "PLAIN", ssl_domain=domain, **as_ann))
        self.call("SASL EXTERNAL", lambda: login("tls", "EXTERNAL", ssl_domain=mine))

    def sending(self) -> None:
        call, send = self.call, self.send

        def several() -> None:
            sender = self.connection.create_sender("several")
            made = [sender.link.send(proton.Message(body=n)) for n in range(20)]
            self.connection.wait(lambda: all(one.remote_state for one in made), timeout=_WAIT)
            assert [proton.Delivery.ACCEPTED] * 20 == [one.remote_state for one in made]
            assert [*range(20)] == self.bodies(self.receiver("several", credit=20), 20)

        def settled() -> None:
            sender = self.connection.create_sender("settled", options=reactor.AtMostOnce())
            for n in range(3):
                sender.send(proton.Message(body=n))
            assert [0, 1, 2] == self.bodies(self.receiver("settled"), 3)

        def large() -> None:
            send("large", b"x" * (1 << 20))
            assert [b"x" * (1 << 20)] == self.bodies(self.receiver("large"), 1)

        def anonymous() -> None:
            sender = self.connection.create_sender(None)
            sender.send(proton.Message(body="a", address="addressed"))
            assert ["a"] == self.bodies(self.receiver("addressed"), 1)

        def durable() -> None:
            sender = self.connection.create_sender("durable")
            made = sender.link.send(proton.Message(body="a", durable=True))
            self.connection.wait(lambda: made.settled, timeout=_WAIT)
            assert proton.Delivery.REJECTED == made.remote_state
            raise RuntimeError(made.remote.condition.name)

        call("send", lambda: send("sent", "a"))
        call("send several, then hear of all", several)
        call("send settled", settled)
        call("send 1 MiB", large)
        call("send more than `max_message_size`", lambda: send("long", b"x" * (5 << 20)))
        call("send a durable message", durable)
        call("send to the anonymous terminus", anonymous)

    def receiving(self) -> None:
        call = self.call

        def credit() -> None:
            self.send("credit", *range(5))
            receiver = self.receiver("credit", credit=0)
            receiver.link.flow(2)
            waiting = receiver.fetcher.incoming
            self.connection.wait(lambda: len(waiting) == 2, timeout=_WAIT)
            self.send("credit", "one more")  # its answer comes after what else would come
            assert 2 == len(waiting)
            receiver.close()

        def drain() -> None:
            self.send("drained", "a")
            receiver = self.receiver("drained", credit=0)
            receiver.link.drain(5)
            self.connection.wait(lambda: receiver.link.credit == 0, timeout=_WAIT)
            assert ["a"] == self.bodies(receiver, 1)

        def settled() -> None:
            self.send("taken", "a")
            receiver = self.receiver("taken", reactor.AtMostOnce(), credit=1)
            receiver.receive(_WAIT)
            receiver.close()
            self.send("taken", "b")
            assert ["b"] == self.bodies(self.receiver("taken"), 1)

        def second() -> None:
            class Second(reactor.ReceiverOption):
                def apply(self, link: Any) -> None:
                    link.rcv_settle_mode = proton.Link.RCV_SECOND

            self.send("second", "a")
            receiver = self.receiver("second", Second())
            assert proton.Link.RCV_SECOND == receiver.link.remote_rcv_settle_mode
            receiver.receive(_WAIT)
            (delivery,) = receiver.fetcher.unsettled
            delivery.update(proton.Delivery.ACCEPTED)
            self.connection.wait(lambda: delivery.settled, timeout=_WAIT)
            delivery.settle()

        def after(outcome: Callable[[Any, Any], None]) -> Any:
            """Return the state of a message after an outcome, and its header."""
            address = f"after-{len(self.found)}"
            self.send(address, "a")
            receiver = self.receiver(address)
            receiver.receive(_WAIT)
            delivery = receiver.fetcher.unsettled[0]
            outcome(receiver, delivery)
            receiver.close()
            self.send(address, "b")
            return self.receiver(address, credit=1).receive(_WAIT)

        def accept() -> None:
            assert "b" == after(lambda receiver, _: receiver.accept()).body

        def release() -> None:
            made = after(lambda receiver, _: receiver.release(delivered=False))
            assert ("a", 0) == (made.body, made.delivery_count)

        def modify() -> None:
            def outcome(receiver: Any, delivery: Any) -> None:
                delivery.local.failed = True
                delivery.local.annotations = {proton.symbol("x-opt-why"): "busy"}
                receiver.settle(proton.Delivery.MODIFIED)

            made = after(outcome)
            assert ("a", 1, "busy") == (
                made.body,
                made.delivery_count,
                made.annotations["x-opt-why"],
            )

        def reject() -> None:
            assert "b" == after(lambda receiver, _: receiver.reject()).body

        def letters() -> None:
            receiver = self.receiver("dead")
            self.bodies(receiver, 1)

            def outcome(rejecting: Any, delivery: Any) -> None:
                delivery.local.condition = proton.Condition("app:bad", "worse")
                rejecting.reject()

            after(outcome)
            annotations = receiver.receive(_WAIT).annotations
            (death,) = annotations["x-opt-deaths"]
            assert ("rejected", 1) == (death["reason"], death["count"])
            told = [annotations[f"x-opt-death-{one}"] for one in ("condition", "description")]
            assert ["app:bad", "worse"] == told

        call("receive as many as there is credit", credit)
        call("drain", drain)
        call("receive settled", settled)
        call("settle second", second)
        for name, made in {
            "accept": accept,
            "release": release,
            "modify, with annotations": modify,
            "reject": reject,
            "receive dead letters, with the reason": letters,
        }.items():
            call(name, made)

    def links(self) -> None:
        call = self.call

        def selector() -> None:
            for colour in ("red", "green"):
                self.send("colours", colour, properties={"colour": colour})
            only = reactor.Selector("colour = 'green'")
            assert ["green"] == self.bodies(self.receiver("colours", only), 1)

        def browse() -> None:
            self.send("browsed", "a", "b")
            for name in ("one", "two"):
                browser = self.receiver("browsed", reactor.Copy(), name=name)
                assert ["a", "b"] == self.bodies(browser, 2)

        def dynamic() -> None:
            receiver = self.receiver(None, dynamic=True)
            self.send(receiver.link.remote_source.address, "a")
            assert ["a"] == self.bodies(receiver, 1)

        def topic() -> None:
            readers = [self.receiver("news", name=name) for name in ("ann", "bob")]
            self.send("news", "a")
            assert [["a"], ["a"]] == [self.bodies(reader, 1) for reader in readers]

        def subscription() -> None:
            how = {"name": "kept", "options": reactor.DurableSubscription()}
            first = self.connect(container_id="me")
            first.create_receiver("news", **how)
            first.close()
            self.send("news", "while it was away")
            again = self.connect(container_id="me")
            assert "while it was away" == again.create_receiver("news", **how).receive(_WAIT).body
            again.close()

        def lost() -> None:
            self.send("lost", "a")
            other = self.connect()
            other.create_receiver("lost").receive(_WAIT)
            selectable = other.conn.transport._selectable
            selectable._delegate.shutdown(socket.SHUT_RDWR)
            assert ["a"] == self.bodies(self.receiver("lost"), 1)

        call("a selector", selector)
        call("a selector that is wrong", lambda: self.receiver("c", reactor.Selector("a = (")))
        call("browse", browse)
        call("a dynamic node", dynamic)
        call("a topic", topic)
        call("go on with a durable subscription", subscription)
        call("get again what a lost connection held", lost)

    def transactions(self) -> None:
        class Handler(handlers.TransactionHandler):
            def __init__(self) -> None:
                self.made: dict[str, Any] = {}

            def on_transaction_declared(self, event: Any) -> None:
                self.made["declared"] = event.transaction

            def on_transaction_committed(self, event: Any) -> None:
                self.made["committed"] = event

            def on_transaction_aborted(self, event: Any) -> None:
                self.made["aborted"] = event

        def ended(end: str) -> None:
            handler = Handler()
            container, connection = self.connection.container, self.connection.conn
            container.declare_transaction(connection, handler=handler)
            self.connection.wait(lambda: "declared" in handler.made, timeout=_WAIT)
            transaction = handler.made["declared"]
            sender = self.connection.create_sender("worked", name=end)
            made = transaction.send(sender.link, proton.Message(body=end))
            self.connection.wait(lambda: made.remote_state, timeout=_WAIT)
            {"committed": transaction.commit, "aborted": transaction.abort}[end]()
            self.connection.wait(lambda: end in handler.made, timeout=_WAIT)

        def commit() -> None:
            ended("committed")
            receiver = self.receiver("worked")
            assert ["committed"] == self.bodies(receiver, 1)
            receiver.close()

        def abort() -> None:
            ended("aborted")
            self.send("worked", "after")
            assert ["after"] == self.bodies(self.receiver("worked"), 1)

        self.call("send in a transaction, and commit", commit)
        self.call("send in a transaction, and roll back", abort)


if __name__ == "__main__":
    _made = _Calls(ends())
    for _part in (_made.logins, _made.sending, _made.receiving, _made.links, _made.transactions):
        _part()
    told(_made)
