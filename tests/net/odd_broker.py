"""A broker of AMQP 1.0 that misbehaves as the subject of each message requests."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from typing import Any

from amqp10msg import DecodeError, Header, Message
from amqp10msg.composite import Error
from amqp10msg.delivery import Accepted, Rejected
from amqp10msg.net import transport
from tests import amqp10_broker
from tests.amqp10_broker import Broker, Peer
from tests.waiting import TIMEOUT

__all__ = ["OddBroker", "running"]

Queues = dict[str, deque[bytes]]


class OddBroker(Broker):
    """Queues by their addresses; each connection is one `_Peer`.

    Unsettled messages of a connection that ends return to their queue, as redelivered.

    Args:
        properties: of the open frame; those of an unknown product by default.

    Attributes:
        accepted: the bytes of the delivered messages that were accepted.
        scant: addresses that take five messages, and grant no more credit.
        ending: addresses that are deleted after so many messages.
        missing: conditions by addresses that are refused with them.
        closing: the bytes of a frame that is sent after each attach.
    """

    def __init__(self, properties: dict[str, str] | None = None) -> None:
        super().__init__(_Peer)
        self.properties = {"product": "Odd", "version": "1.0"} if properties is None else properties
        self.queues: Queues = defaultdict(deque)
        self.accepted: list[bytes] = []
        self.scant: set[str] = set()
        self.ending: dict[str, int] = {}
        self.missing: dict[str, str] = {}
        self.closing: bytes | None = None

    def publish(self, address: str, messages: Iterable[bytes]) -> None:
        """Add messages to a queue, from a thread other than the broker's."""
        done = threading.Event()

        def add() -> None:
            self.queues[address].extend(messages)
            self.deliver(address)
            done.set()

        self.loop.call_soon_threadsafe(add)
        assert done.wait(TIMEOUT)

    def deliver(self, address: str) -> None:
        """Send the messages of a queue to the links that have credit."""
        queue = self.queues[address]
        for peer in list(self.peers):
            while queue and (link := peer.receivers.get(address)) and link.credit:
                if subject_of(queue[0]) == "poison":
                    peer.cut()
                    break
                peer.sent += 1
                octets = queue.popleft()
                delivery = link.send(b"%d" % peer.sent, octets)
                delivery.context = octets
                peer.unsettled[delivery.tag] = address, octets
                peer.flush()


def subject_of(octets: bytes) -> str:
    try:
        found = Message.decode(octets, strict=False).properties
    except DecodeError:
        return ""
    return str((found.subject if found else None) or "")


def redelivered(octets: bytes) -> bytes:
    """Return a message whose header marks it as possibly delivered before.

    Bytes that are not a message stay the same.
    """
    try:
        return Message.decode(octets).evolve(header=Header(first_acquirer=False)).encode()
    except DecodeError:
        return octets


def address_of(terminus: Any) -> str:
    """Return the address of a source or target received in an attach."""
    return str(terminus.value[0])


def changed(octets: bytes) -> bytes:
    """Return a message with a different body."""
    message = Message.decode(octets)
    return message.evolve(body="something else").encode()


def encoded_anew(octets: bytes) -> bytes:
    """Return an equal message with other bytes: the list of the properties has its long form."""
    place = octets.index(b"\x00\x53\x73\xc0") + 3
    size, count = octets[place + 1], octets[place + 2]
    head = b"\xd0" + (size + 3).to_bytes(4, "big") + count.to_bytes(4, "big")
    return octets[:place] + head + octets[place + 3 :]


def annotated(octets: bytes) -> bytes:
    return Message.decode(octets).evolve(message_annotations={"x-opt-seen": 1}).encode()


#: What is delivered instead of a message, by its subject.
MANGLED = {"change": changed, "encode": encoded_anew, "annotate": annotated}


class _Peer(Peer):
    broker: OddBroker

    def __init__(self, broker: OddBroker) -> None:
        opens = transport.Open(container_id="odd", properties=broker.properties)
        super().__init__(broker, opens, {"me": "secret"})
        self.receivers: dict[str, transport.Link] = {}
        # Address and bytes of each unsettled delivery, by its tag.
        self.unsettled: dict[bytes, tuple[str, bytes]] = {}

    def connection_lost(self, error: Exception | None) -> None:
        super().connection_lost(error)
        unsettled, self.unsettled = self.unsettled, {}
        for address, octets in reversed(unsettled.values()):
            self.broker.queues[address].appendleft(redelivered(octets))
        for address in {address for address, _ in unsettled.values()}:
            self.broker.deliver(address)

    def cut(self) -> None:
        self.broker.peers.discard(self)
        self._stream.abort()

    def on_end(self, session: transport.Session, _: Error | None) -> None:
        session.end()

    def on_attach(self, link: transport.Link) -> None:
        assert link.remote is not None
        address = address_of(link.remote.source if link.sends else link.remote.target)
        if (condition := self.broker.missing.get(address)) is not None:
            link.refuse(Error(condition, f"no {address} for you"))
            return
        link.attach(source=link.remote.source, target=link.remote.target)
        if link.sends:
            self.receivers[address] = link
        else:
            link.grant(5 if address in self.broker.scant else 100)
        if self.broker.closing is not None:
            asyncio.get_running_loop().call_soon(self._stream.write, self.broker.closing)

    def on_flow(self, link: transport.Link) -> None:
        for address, one in self.receivers.items():
            if one is link:
                asyncio.get_running_loop().call_soon(self.broker.deliver, address)

    def on_disposition(self, delivery: transport.LinkDelivery) -> None:
        address, octets = self.unsettled.pop(delivery.tag, ("", b""))
        if address and isinstance(delivery.state, Accepted):
            self.broker.accepted.append(octets)
        delivery.update(delivery.state)

    def on_transfer(self, delivery: transport.LinkDelivery) -> None:
        octets, link = delivery.payload, delivery.link
        assert octets is not None
        assert link.remote is not None
        address = address_of(link.remote.target)
        if address not in self.broker.scant:
            link.grant(1)
        error = Error("amqp:internal-error", "odd: secret")
        match what := subject_of(octets):
            case "reject":
                delivery.update(Rejected(Error("amqp:not-allowed", "it says so itself")))
            case "detach":
                link.detach(Error("amqp:decode-error", "it says so itself"))
            case "session":
                link.session.end(error)
            case "close":
                self._engine.close(error)
            case "cut":
                self.cut()
            case "silence":
                pass
            case "lose":
                delivery.update(Accepted())
            case _:
                delivery.update(Accepted())
                self.broker.queues[address].append(MANGLED.get(what, bytes)(octets))
                asyncio.get_running_loop().call_soon(self.broker.deliver, address)
                self._delete(address, link)

    def _delete(self, address: str, link: transport.Link) -> None:
        """Delete an address after a number of messages, as RabbitMQ deletes a queue."""
        ending = self.broker.ending
        if address in ending:
            ending[address] -= 1
            if not ending[address]:
                self.broker.missing.setdefault(address, "amqp:not-found")
                link.detach(Error("amqp:resource-deleted"))


@contextlib.contextmanager
def running(odd: OddBroker | None = None) -> Iterator[tuple[str, OddBroker]]:
    """Run a broker in a thread, a new one by default; yield its URL and the broker."""
    with amqp10_broker.running(odd or OddBroker()) as broker:
        yield broker.url, broker
