"""Makes the calls of ``_pyamqp``, which Azure's clients use, and prints each result as JSON."""

from __future__ import annotations

import importlib
import time
from typing import Any
from urllib.parse import urlsplit

from tests.net.client_calls import Calls, ends, told
from tests.waiting import wait_until


def _module(name: str) -> Any:
    """Import a module of the client, whose type annotations are too narrow."""
    return importlib.import_module(f"azure.servicebus._pyamqp{name}")


ReceiveClient, SendClient, sasl = (
    _module("").ReceiveClient,
    _module("").SendClient,
    _module(".sasl"),
)
authentication, constants, endpoints = map(_module, (".authentication", ".constants", ".endpoints"))
AMQPError, AMQPException = _module(".error").AMQPError, _module(".error").AMQPException
RetryPolicy = _module(".error").RetryPolicy
Header, Message = _module(".message").Header, _module(".message").Message

_WAIT = 10  # seconds; what is there comes at once


class _Anonymous:
    """SASL ANONYMOUS, for which the client offers only a token-based API."""

    auth_type = "anonymous"

    def __init__(self) -> None:
        self.sasl = sasl.SASLAnonymousCredential()


class _External(_Anonymous):
    def __init__(self) -> None:
        self.sasl = sasl.SASLExternalCredential()


class _Calls(Calls):
    def __init__(self, given: dict[str, Any]) -> None:
        super().__init__()
        self.given = given

    def how(self, auth: Any = None, *, tls: bool = False, **more: Any) -> dict[str, Any]:
        if tls:
            more |= {
                "custom_endpoint_address": self.given["tls"],
                "connection_verify": self.given["ca"],
            }
        return {
            "auth": auth or _Anonymous(),
            "use_tls": tls,
            "retry_policy": RetryPolicy(retry_total=0),
            **more,
        }

    def sender(self, target: Any, auth: Any = None, **more: Any) -> Any:
        return SendClient(self.host(more), target, **self.how(auth, **more))

    def receiver(self, source: Any, **more: Any) -> Any:
        more = {"link_credit": 1, **more}
        made = ReceiveClient(self.host(more), source, **self.how(**more))
        made.open()
        wait_until(made.client_ready)
        return made

    def host(self, more: dict[str, Any]) -> str:
        return "localhost" if more.get("tls") else urlsplit(self.given["plain"]).netloc

    def send(self, target: Any, *messages: Any, **more: Any) -> None:
        with self.sender(target, **more) as sender:
            for message in messages:
                sender.send_message(message, timeout=_WAIT)

    def next(self, receiver: Any) -> tuple[int, bytes, Any]:
        """Return the id, the tag and the message of the next delivery."""
        found = receiver._received_messages
        deadline = time.monotonic() + _WAIT
        while found.empty():
            assert time.monotonic() < deadline
            receiver.do_work()
        frame, message = found.get()
        return frame[1], frame[2], message

    def settle(self, receiver: Any, outcome: str = "accepted", **fields: Any) -> Any:
        number, tag, message = self.next(receiver)
        receiver.settle_messages(number, tag, outcome, **fields)
        return message

    def data(self, source: Any, count: int, **more: Any) -> list[bytes]:
        receiver = self.receiver(source, link_credit=count, **more)
        found = [b"".join(self.settle(receiver).data) for _ in range(count)]
        receiver.close()
        return found

    def logins(self) -> None:
        ann = authentication.SASLPlainAuth("ann", "secret")

        def login(auth: Any, **more: Any) -> None:
            with self.sender("x", auth, **more) as sender:
                wait_until(sender.client_ready)

        def wrong() -> None:
            try:
                login(authentication.SASLPlainAuth("ann", "wrong"))
            except (AMQPException, ValueError) as error:
                assert "SASL negotiation failed" in str(error)  # noqa: PT017
            else:
                raise AssertionError("it was taken")

        def token() -> None:
            def make() -> Any:
                return authentication.AccessToken("any", int(time.time()) + 600)

            login(authentication.JWTTokenAuth("amqp://here/x", "amqp://here/x", make))

        self.call("SASL ANONYMOUS", lambda: login(_Anonymous()))
        self.call("SASL PLAIN", lambda: login(ann))
        self.call("a wrong password is refused", wrong)
        self.call("TLS", lambda: login(ann, tls=True))
        self.call("put a token to `$cbs`", token)

    def sending(self) -> None:
        call = self.call

        def settled() -> None:
            # By the link: ``send_message`` waits without end for what nobody sends.
            with self.sender(
                "settled", send_settle_mode=constants.SenderSettleMode.Settled
            ) as sender:
                wait_until(sender.client_ready)
                for n in range(3):
                    sender._link.send_transfer(Message(data=[b"%d" % n]))
            assert [b"0", b"1", b"2"] == self.data("settled", 3)

        def large() -> None:
            self.send("large", Message(data=[b"x" * (1 << 20)]))
            assert [b"x" * (1 << 20)] == self.data("large", 1)

        too_long = Message(data=[b"x" * (5 << 20)])
        durable = Message(data=[b"a"], header=Header(durable=True))
        call("send", lambda: self.send("sent", Message(data=[b"a"])))
        call("send settled", settled)
        call("send 1 MiB", large)
        call("send more than `max_message_size`", lambda: self.send("long", too_long))
        call("send a durable message", lambda: self.send("durable", durable))

    def receiving(self) -> None:
        call = self.call

        def credit() -> None:
            self.send("credit", *[Message(data=[b"%d" % n]) for n in range(5)])
            receiver = self.receiver("credit", link_credit=0)
            receiver._link.flow(link_credit=2)
            assert [b"0", b"1"] == [b"".join(self.next(receiver)[2].data) for _ in range(2)]
            for _ in range(3):
                receiver._connection.listen(wait=0.1)
            assert receiver._received_messages.empty()
            receiver.close()

        def drain() -> None:
            self.send("drained", Message(data=[b"a"]))
            receiver = self.receiver("drained", link_credit=0)
            receiver._link.flow(link_credit=5, drain=True)
            assert b"a" == b"".join(self.settle(receiver).data)
            receiver.close()

        def taken() -> None:
            self.send("taken", Message(data=[b"a"]))
            receiver = self.receiver("taken", send_settle_mode=constants.SenderSettleMode.Settled)
            self.next(receiver)
            receiver.close()
            self.send("taken", Message(data=[b"b"]))
            assert [b"b"] == self.data("taken", 1)

        def second() -> None:
            self.send("second", Message(data=[b"a"]))
            receiver = self.receiver(
                "second", receive_settle_mode=constants.ReceiverSettleMode.Second
            )
            self.settle(receiver, await_outcome=True, outcome_timeout=_WAIT)
            receiver.close()

        def after(outcome: str, **fields: Any) -> Any:
            address = f"after-{outcome}-{len(fields)}"
            self.send(address, Message(data=[b"a"]))
            receiver = self.receiver(address)
            self.settle(receiver, outcome, **fields)
            receiver.close()
            self.send(address, Message(data=[b"b"]))
            other = self.receiver(address)
            _, _, message = self.next(other)
            other.close()
            return message

        def is_next(data: bytes, outcome: str) -> None:
            found = after(outcome)
            assert (data, 0) == (b"".join(found.data), found.header.delivery_count or 0)

        def modify() -> None:
            found = after(
                "modified", delivery_failed=True, message_annotations={b"x-opt-why": "busy"}
            )
            assert 1 == found.header.delivery_count
            assert b"busy" == found.message_annotations[b"x-opt-why"]

        def letters() -> None:
            dead = self.receiver("dead", link_credit=9)
            self.settle(dead)
            after("rejected", error=AMQPError(condition=b"app:bad", description=b"worse"))
            annotations = self.settle(dead).message_annotations
            ((death),) = annotations[b"x-opt-deaths"]
            assert (b"rejected", 1) == (death[b"reason"], death[b"count"])
            why = [annotations[b"x-opt-death-" + one] for one in (b"condition", b"description")]
            assert [b"app:bad", b"worse"] == why
            dead.close()

        call("receive as many as there is credit", credit)
        call("drain", drain)
        call("receive settled", taken)
        call("settle second", second)
        call("accept", lambda: is_next(b"b", "accepted"))
        call("release", lambda: is_next(b"a", "released"))
        call("modify, with annotations", modify)
        call("reject", lambda: is_next(b"b", "rejected"))
        call("receive dead letters, with the reason", letters)

    def links(self) -> None:
        call = self.call

        def only(text: str) -> Any:
            made = endpoints.Source(address="colours", filters={})
            name = b"apache.org:selector-filter:string"
            made.filters[name] = (name, text)
            return made

        def selector() -> None:
            for colour in (b"red", b"green"):
                properties = {b"colour": colour.decode()}
                self.send("colours", Message(data=[colour], application_properties=properties))
            assert [b"green"] == self.data(only("colour = 'green'"), 1)

        def browse() -> None:
            self.send("browsed", Message(data=[b"a"]), Message(data=[b"b"]))
            source = endpoints.Source(
                address="browsed", distribution_mode=endpoints.DistributionMode.Copy
            )
            for _ in range(2):
                assert [b"a", b"b"] == self.data(source, 2)

        def dynamic() -> None:
            told: list[Any] = []
            source = endpoints.Source(address=None, dynamic=True)
            receiver = self.receiver(source, on_attach=lambda frame: told.append(frame[5][0]))
            self.send(told[0].decode(), Message(data=[b"a"]))
            assert b"a" == b"".join(self.settle(receiver).data)
            receiver.close()

        def topic() -> None:
            readers = [self.receiver("news") for _ in range(2)]
            self.send("news", Message(data=[b"a"]))
            assert [[b"a"], [b"a"]] == [self.settle(reader).data for reader in readers]
            for reader in readers:
                reader.close()

        def lost() -> None:
            self.send("lost", Message(data=[b"a"]))
            other = self.receiver("lost")
            self.next(other)
            other._connection._transport.sock.close()
            assert [b"a"] == self.data("lost", 1)

        def management() -> None:
            receiver = self.receiver("asked")
            receiver.mgmt_request(
                Message(value={}), operation=b"READ", operation_type=b"any", timeout=_WAIT
            )

        call("a selector", selector)
        call("a selector that is wrong", lambda: self.data(only("a = ("), 1))
        call("browse", browse)
        call("a dynamic node", dynamic)
        call("a topic", topic)
        call("get again what a lost connection held", lost)
        call("ask `$management`", management)


if __name__ == "__main__":
    _made = _Calls(ends())
    for _part in (_made.logins, _made.sending, _made.receiving, _made.links):
        _part()
    told(_made)
