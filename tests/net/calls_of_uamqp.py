"""Makes the calls of uamqp, which supports TLS only, and prints the result of each as JSON."""

from __future__ import annotations

import importlib
import os
from typing import Any
from urllib.parse import urlsplit

from tests.net.client_calls import Calls, ends, told

# Not everybody who checks types has it.
uamqp: Any = importlib.import_module("uamqp")
_message: Any = importlib.import_module("uamqp.message")
address: Any = uamqp.address
authentication: Any = uamqp.authentication
constants: Any = uamqp.constants
errors: Any = uamqp.errors
types: Any = importlib.import_module("uamqp.types")

_WAIT = 10_000  # milliseconds; what is there comes at once


class _Calls(Calls):
    def __init__(self, given: dict[str, Any]) -> None:
        super().__init__()
        url = urlsplit(given["tls"])
        self.host = url.hostname
        self.ends = {"port": url.port, "verify": given["ca"]}
        self.base = f"amqps://{self.host}"

    def auth(self) -> Any:
        return authentication.SASLPlain(self.host, "ann", "secret", **self.ends)

    def sender(self, name: str, **how: Any) -> Any:
        how = {"auth": self.auth(), "error_policy": errors.ErrorPolicy(max_retries=0), **how}
        return uamqp.SendClient(f"{self.base}/{name}", **how)

    def send(self, name: str, *bodies: bytes, **how: Any) -> None:
        sender = self.sender(name, **how)
        try:
            for body in bodies:
                sender.send_message(uamqp.Message(body=body))
        finally:
            sender.close()

    def receiver(self, source: Any, **how: Any) -> Any:
        how = {"auth": self.auth(), "auto_complete": False, "prefetch": 1, **how}
        if isinstance(source, str):
            source = f"{self.base}/{source}"
        return uamqp.ReceiveClient(source, **how)

    def take(self, source: Any, count: int = 1, **how: Any) -> list[bytes]:
        receiver = self.receiver(source, prefetch=count, **how)
        found: list[bytes] = []
        while len(found) < count:
            got = receiver.receive_message_batch(count - len(found), timeout=_WAIT)
            assert got
            for message in got:
                found.append(b"".join(message.get_data()))
                message.accept()
        receiver.do_work()
        receiver.close()
        return found

    def logins(self) -> None:
        def login(auth: Any) -> None:
            with self.sender("x", auth=auth) as sender:
                while not sender.client_ready():
                    sender._connection.work()

        def wrong() -> None:
            auth = authentication.SASLPlain(self.host, "ann", "wrong", **self.ends)
            try:
                login(auth)
            except (errors.AMQPConnectionError, errors.AuthenticationException):
                return
            raise AssertionError("it was taken")

        anonymous = authentication.SASLAnonymous(self.host, **self.ends)
        self.call("SASL ANONYMOUS", lambda: login(anonymous))
        self.call("SASL PLAIN", lambda: login(self.auth()))
        self.call("TLS", lambda: login(self.auth()))
        self.call("a wrong password is refused", wrong)

    def sending(self) -> None:
        call = self.call

        def several() -> None:
            sender = self.sender("several")
            sender.queue_message(*[uamqp.Message(body=b"%d" % n) for n in range(20)])
            states = sender.send_all_messages(close_on_done=True)
            assert [constants.MessageState.SendComplete] * 20 == states
            assert [b"%d" % n for n in range(20)] == self.take("several", 20)

        def settled() -> None:
            how = {"send_settle_mode": constants.SenderSettleMode.Settled}
            self.send("settled", b"0", b"1", b"2", **how)
            assert [b"0", b"1", b"2"] == self.take("settled", 3)

        def large() -> None:
            self.send("large", b"x" * (1 << 20))
            assert [b"x" * (1 << 20)] == self.take("large")

        def durable() -> None:
            with self.sender("durable") as sender:
                message = uamqp.Message(body=b"a", header=_message.MessageHeader())
                message.header.durable = True
                sender.send_message(message)

        call("send", lambda: self.send("sent", b"a"))
        call("send several, then hear of all", several)
        call("send settled", settled)
        call("send 1 MiB", large)
        call("send more than `max_message_size`", lambda: self.send("long", b"x" * (5 << 20)))
        call("send a durable message", durable)

    def receiving(self) -> None:
        call = self.call

        def taken() -> None:
            self.send("taken", b"a")
            how = {"send_settle_mode": constants.SenderSettleMode.Settled}
            receiver = self.receiver("taken", **how)
            assert receiver.receive_message_batch(1, timeout=_WAIT)
            receiver.close()
            self.send("taken", b"b")
            assert [b"b"] == self.take("taken")

        def after(outcome: str, *fields: Any) -> Any:
            self.send(outcome, b"a")
            receiver = self.receiver(outcome)
            (message,) = receiver.receive_message_batch(1, timeout=_WAIT)
            assert getattr(message, outcome)(*fields)
            receiver.do_work()
            receiver.close()
            self.send(outcome, b"b")
            other = self.receiver(outcome)
            (found,) = other.receive_message_batch(1, timeout=_WAIT)
            found.accept()
            other.do_work()
            other.close()
            return found

        def is_next(data: bytes, outcome: str) -> None:
            assert data == b"".join(after(outcome).get_data())

        def modify() -> None:
            found = after("modify", True, False, {types.AMQPSymbol("x-opt-why"): b"busy"})
            assert 1 == found.header.delivery_count
            assert b"busy" == found.annotations[b"x-opt-why"]

        def letters() -> None:
            self.take("dead")
            after("reject", "app:bad", "worse")
            dead = self.receiver("dead")
            (message,) = dead.receive_message_batch(1, timeout=_WAIT)
            (death,) = message.annotations[b"x-opt-deaths"]
            assert (b"rejected", 1) == (death[b"reason"], death[b"count"])
            why = [message.annotations[b"x-opt-death-" + one] for one in _SAID]
            assert [b"app:bad", b"worse"] == why
            dead.close()

        call("receive settled", taken)
        call("accept", lambda: is_next(b"b", "accept"))
        call("release", lambda: is_next(b"a", "release"))
        call("modify, with annotations", modify)
        call("reject", lambda: is_next(b"b", "reject"))
        call("receive dead letters, with the reason", letters)

    def links(self) -> None:
        call = self.call

        def only(text: bytes) -> Any:
            made = address.Source(f"{self.base}/colours")
            name = b"apache.org:selector-filter:string"
            made.set_filter(text, name=name, descriptor=name)
            return made

        def selector() -> None:
            for colour in (b"red", b"green"):
                with self.sender("colours") as sender:
                    properties = {b"colour": colour.decode()}
                    message = uamqp.Message(body=colour, application_properties=properties)
                    sender.send_message(message)
            assert [b"green"] == self.take(only(b"colour = 'green'"))

        def browse() -> None:
            self.send("browsed", b"a", b"b")
            source = address.Source(f"{self.base}/browsed")
            source.distribution_mode = b"copy"
            for _ in range(2):
                assert [b"a", b"b"] == self.take(source, 2)

        def topic() -> None:
            readers = [self.receiver("news") for _ in range(2)]
            for reader in readers:
                reader.open()
                while not reader.client_ready():
                    reader._connection.work()
            self.send("news", b"a")
            for reader in readers:
                (message,) = reader.receive_message_batch(1, timeout=_WAIT)
                assert b"a" == b"".join(message.get_data())
                reader.close()

        call("a selector", selector)
        call("a selector that is wrong", lambda: self.take(only(b"a = (")))
        call("browse", browse)
        call("a topic", topic)


_SAID = (b"condition", b"description")

if __name__ == "__main__":
    _made = _Calls(ends())
    for _part in (_made.logins, _made.sending, _made.receiving, _made.links):
        _part()
    told(_made)
    os._exit(0)  # it would crash where the interpreter takes its objects down
