"""A broker of AMQP 1.0 that does with a message what its subject says, however wrong that is."""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict, deque
from collections.abc import Iterator
from typing import Any

from amqp10msg import DecodeError, Message
from amqp10msg.composite import Error
from amqp10msg.delivery import Accepted, Rejected
from amqp10msg.net import transport
from tests import amqp10_broker
from tests.amqp10_broker import Broker, Peer

__all__ = ["OddBroker", "running"]

Queues = dict[str, deque[bytes]]


class OddBroker(Broker):
    """Queues by their addresses; each connection is one `_Peer`.

    Attributes:
        scant: addresses that take five messages, and grant no more credit.
        ending: addresses that are deleted after so many messages.
        missing: conditions by addresses that are refused with them.
    """

    def __init__(self) -> None:
        super().__init__(_Peer)
        self.queues: Queues = defaultdict(deque)
        self.scant: set[str] = set()
        self.ending: dict[str, int] = {}
        self.missing: dict[str, str] = {}

    def deliver(self, address: str) -> None:
        """Send what is in a queue to whoever has credit for it."""
        queue = self.queues[address]
        for peer in list(self.peers):
            while queue and (link := peer.receivers.get(address)) and link.credit:
                if subject_of(queue[0]) == "poison":
                    peer.cut()
                    break
                peer.sent += 1
                octets = queue.popleft()
                link.send(b"%d" % peer.sent, octets).context = octets
                peer.flush()


def subject_of(octets: bytes) -> str:
    try:
        found = Message.decode(octets, strict=False).properties
    except DecodeError:
        return ""
    return str((found.subject if found else None) or "")


def address_of(terminus: Any) -> str:
    """Return the address of a source or target that came in an attach."""
    return str(terminus.value[0])


def changed(octets: bytes) -> bytes:
    """Say something else in the body."""
    message = Message.decode(octets)
    return message.evolve(body="something else").encode()


def encoded_anew(octets: bytes) -> bytes:
    """Say the same in other bytes: the list of the properties has its long form."""
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
        opens = transport.Open(container_id="odd", properties={"product": "Odd", "version": "1.0"})
        super().__init__(broker, opens, {"me": "secret"})
        self.receivers: dict[str, transport.Link] = {}

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

    def on_flow(self, link: transport.Link) -> None:
        for address, one in self.receivers.items():
            if one is link:
                asyncio.get_running_loop().call_soon(self.broker.deliver, address)

    def on_disposition(self, delivery: transport.LinkDelivery) -> None:
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
        """Count down to the end of an address, as RabbitMQ does that of a queue."""
        ending = self.broker.ending
        if address in ending:
            ending[address] -= 1
            if not ending[address]:
                self.broker.missing.setdefault(address, "amqp:not-found")
                link.detach(Error("amqp:resource-deleted"))


@contextlib.contextmanager
def running() -> Iterator[tuple[str, OddBroker]]:
    """Run a broker in a thread; give its URL."""
    with amqp10_broker.running(OddBroker()) as broker:
        yield broker.url, broker
