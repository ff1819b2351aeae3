"""Exact bytes to and from a queue of RabbitMQ, over either protocol, and how it fails on them.

For tests, and for tools that compare with a broker. A connection that the broker ends is over:
open another one.
"""

from __future__ import annotations

import select
import socket
import struct
import time
import urllib.parse
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Self

import attrs
import pika
import proton
from pika import spec
from pika.adapters.select_connection import SelectConnection
from pika.exceptions import AMQPError
from pika.frame import Header

from amqp10msg import DecodeError, decode_value
from amqp10msg.basic import BasicMessage, decode_content_header, encode_properties
from amqp10msg.interop.proton import receive_octets, send
from amqp10msg.translate import PROFILES, TranslationProfile
from amqp10msg.wire.kernel import skip_value

__all__ = ["Basic", "Broker", "Ended", "Outcome", "Peer", "offset_of", "profile_of", "queue"]

_ENDED = proton.Endpoint.REMOTE_CLOSED
# Of every frame: its type, its channel, the bytes of its payload (0-9-1, 4.2.3).
_FRAME = struct.Struct(">BHL")
# Of a content header: class, weight, bytes of the body (4.2.6.1).
_CONTENT = struct.Struct(">HHQ")
_END = bytes([spec.FRAME_END])
_OFFSET = "x-stream-offset"
_MAP8, _SYMBOL = 0xC1, 0xA3
Outcome = proton.Delivery


class Ended(Exception):  # noqa: N818  (it may be what was expected)
    """The broker ended a channel, link, session or connection, or did not answer."""


@attrs.frozen
class Broker:
    """A RabbitMQ, such as ``127.0.0.1:5672``, which knows guest.

    Attributes:
        host: its host.
        port: where it speaks both protocols.
        version: such as ``4.0.5``.
    """

    host: str
    port: int
    version: str

    @classmethod
    def at(cls, place: str) -> Broker:
        """Ask the broker at a place, HOST:PORT, for its version."""
        host, _, port = place.partition(":")
        with pika.BlockingConnection(pika.ConnectionParameters(host, int(port))) as connection:
            said: dict[str, Any] = connection._impl.server_properties
        return cls(host, int(port), said["version"])

    def address(self, name: str) -> str:
        """Return the address of a queue over 1.0."""
        quoted = urllib.parse.quote(name, safe="")
        return f"/amq/queue/{quoted}" if self.version.startswith("3.") else f"/queues/{quoted}"


def profile_of(broker: Broker, kind: str) -> TranslationProfile:
    """Return the latest profile that is not later than the broker."""
    version = tuple(map(int, broker.version.split(".")[:2]))
    suffix = "-stream" if kind == "stream" else ""
    known = {
        tuple(map(int, name.split("-")[1].split("."))): name
        for name in PROFILES
        if name.startswith("rabbitmq-") and not name.endswith("-stream")
    }
    return PROFILES[known[max(one for one in known if one <= version)] + suffix]


def offset_of(seen: bytes | BasicMessage) -> int | None:
    """Return the offset in a stream that a delivered message states."""
    if isinstance(seen, BasicMessage):
        headers: Any = seen.properties.headers
        found = headers.get(_OFFSET) if headers is not None else None
        return int(found) if isinstance(found, int) else None
    found = None
    with suppress(DecodeError):  # not every message can be read
        for key, octets in _annotations(seen):
            if key[2:] != _OFFSET.encode():
                continue
            value = decode_value(octets)
            if isinstance(value, int):
                found = int(value)
                if key[0] == _SYMBOL:  # further ones are the sender's
                    break
    return found


def _annotations(message: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the message annotations, keys and values encoded."""
    place = 0
    while place < len(message):
        end = skip_value(message, place)
        if message.startswith(b"\0\x53\x72", place):
            break
        place = end
    else:
        return
    place += 3
    place += 3 if message[place] == _MAP8 else 9
    while place < end:
        value = skip_value(message, place)
        next_one = skip_value(message, value)
        yield message[place:value], message[value:next_one]
        place = next_one


@contextmanager
def queue(broker: Broker, kind: str, arguments: dict[str, Any] | None = None) -> Iterator[str]:
    """Make a queue, ``classic``, ``quorum`` or ``stream``, and delete it at the end."""
    name = f"amqp10msg-{uuid.uuid4()}"
    given = {"x-queue-type": kind, **(arguments or {})}
    with Basic(broker) as owner:
        owner.channel.queue_declare(name, durable=True, arguments=given)
    try:
        yield name
    finally:
        with Basic(broker) as owner:
            owner.channel.queue_delete(name)


class ExactConnection(SelectConnection):  # type: ignore[misc]  # pika has no types
    """A connection that keeps content headers, and reads of them only how long the body is.

    What pika makes of header fields cannot be written back: a double loses what is after its point,
    a type that it does not know ends the connection.
    """

    def _read_frame(self) -> Any:
        found = _content_header(self._frame_buffer)
        return super()._read_frame() if found is None else found


def _content_header(buffer: bytes) -> tuple[int, Header] | None:
    """Read a whole content header at the start of what came, and how many bytes it takes."""
    if len(buffer) < _FRAME.size:
        return None
    kind, channel, size = _FRAME.unpack_from(buffer)
    end = _FRAME.size + size
    if kind != spec.FRAME_HEADER or size < _CONTENT.size or buffer[end : end + 1] != _END:
        return None
    octets = buffer[_FRAME.size : end]
    _, _, body_size = _CONTENT.unpack_from(octets)
    return end + 1, Header(channel, body_size, _Kept(octets))


class _Kept(pika.BasicProperties):  # type: ignore[misc]
    """Properties that are not decoded."""

    def __init__(self, octets: bytes) -> None:
        super().__init__()
        self.octets = octets


def _header_of(properties: Any) -> bytes:
    """Return the payload of the content header frame that properties came in.

    Raises:
        TypeError: this version of pika reads frames in another way.
    """
    if not isinstance(properties, _Kept):
        raise TypeError("this version of pika does not keep the bytes of content headers")
    return properties.octets


class Basic:
    """A connection over 0-9-1, whose content headers come and go as they are."""

    def __init__(self, broker: Broker) -> None:
        at = pika.ConnectionParameters(broker.host, broker.port, heartbeat=0)
        connect: Any = pika.BlockingConnection
        self.connection = connect(at, ExactConnection)
        self.channel: Any = self.connection.channel()
        self.channel.confirm_delivery()
        self._taken: list[Any] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection, if the broker did not."""
        with suppress(AMQPError):
            self.connection.close()

    def publish(self, name: str, given: BasicMessage) -> None:
        """Publish a message to a queue, and wait until the broker has it.

        Raises:
            Ended: the broker refused it, or died on it.
        """
        properties = pika.BasicProperties()
        properties.encode = partial(list, [encode_properties(given.properties)])
        try:
            self.channel.basic_publish("", name, given.body, properties, mandatory=True)
        except AMQPError as error:
            raise Ended(repr(error)) from None

    def consume(self, name: str, offset: str | int = "next") -> str:
        """Begin to consume a queue; return the tag to cancel it with.

        Args:
            name: of the queue.
            offset: of a stream: from its ``first`` or its ``next`` message on, or from this offset.
        """
        self.channel.basic_qos(prefetch_count=100)
        tag: str = self.channel.basic_consume(
            name,
            lambda *found: self._taken.append(found[1:]),
            arguments={} if offset == "next" else {"x-stream-offset": offset},
        )
        return tag

    def receive(self, timeout: float) -> tuple[BasicMessage, int]:
        """Wait for a message; return it and its delivery tag, to acknowledge it.

        Raises:
            Ended: the broker ended channel or connection, or nothing came in time.
        """
        end = time.monotonic() + timeout
        try:
            while not self._taken:
                left = end - time.monotonic()
                if left <= 0 or not self.channel.is_open:
                    raise Ended("nothing came" if self.channel.is_open else "channel closed")
                self.connection.process_data_events(left)
        except AMQPError as error:
            raise Ended(repr(error)) from None
        method, properties, body = self._taken.pop(0)
        basic = BasicMessage(
            decode_content_header(_header_of(properties)).properties,
            body,
            method.exchange,
            method.routing_key,
            method.redelivered,
        )
        return basic, method.delivery_tag


class Peer:
    """A connection over 1.0 with one session, driven by its caller."""

    def __init__(self, broker: Broker, timeout: float = 10) -> None:
        self._socket = socket.create_connection((broker.host, broker.port), timeout)
        # Without, each outcome waits 40 ms for an acknowledgement that TCP delays.
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._timeout = timeout
        self._links: list[Any] = []
        self._transport: Any = proton.Transport()
        self._transport.sasl().allowed_mechs("PLAIN")
        self._transport.sasl().allow_insecure_mechs = True
        self.connection: Any = proton.Connection()
        self.connection.hostname = broker.host
        self.connection.container = str(uuid.uuid4())
        self.connection.user = self.connection.password = "guest"
        self._transport.bind(self.connection)
        self.connection.open()
        self.session: Any = self.connection.session()
        self.session.open()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Say farewell, and hang up."""
        with suppress(Ended, OSError):
            self.connection.close()
            self._write()
            self._wait(lambda: False, 0.05)
        self._socket.close()

    def _write(self) -> None:
        while (pending := self._transport.pending()) > 0:
            octets = self._transport.peek(pending)
            self._socket.sendall(octets)
            self._transport.pop(len(octets))

    def _wait(self, until: Callable[[], Any], timeout: float | None = None) -> None:
        """Read and write until something is so.

        Raises:
            Ended: the broker ended link, session or connection, or it is not so in time.
        """
        end = time.monotonic() + (self._timeout if timeout is None else timeout)
        while True:
            try:
                self._write()
                if until():
                    return
                self._raise_ended()
                left = end - time.monotonic()
                if left <= 0:
                    raise Ended("nothing came")
                if select.select([self._socket], [], [], left)[0]:
                    octets = self._socket.recv(65_536)
                    if not octets:
                        raise Ended("the connection broke")
                    while octets:
                        taken = max(self._transport.capacity(), 0)
                        if not taken:
                            raise Ended("the connection is over")
                        self._transport.push(octets[:taken])
                        octets = octets[taken:]
            except (OSError, proton.ProtonException) as error:
                raise Ended(repr(error)) from None

    def _raise_ended(self) -> None:
        for end in (self.connection, self.session, *self._links):
            if end.state & _ENDED:
                try:
                    said = end.remote_condition
                    text = f"{said.name}: {said.description}" if said else "closed"
                except (UnicodeDecodeError, proton.ProtonException):
                    text = "closed with an error that cannot be read"
                raise Ended(f"{type(end).__name__.lower()} {text}")

    def _opened(self, link: Any) -> Any:
        self._links.append(link)
        link.open()
        self._wait(lambda: link.state & proton.Endpoint.REMOTE_ACTIVE)
        return link

    def sender(self, address: str) -> Any:
        """Open a sending link."""
        link = self.session.sender(str(uuid.uuid4()))
        link.target.address = address
        return self._opened(link)

    def receiver(self, address: str, credit: int = 10, offset: str | int = "next") -> Any:
        """Open a receiving link.

        Args:
            address: of the queue.
            credit: for the first messages.
            offset: of a stream: from its ``first`` or its ``next`` message on, or from this offset.
        """
        link = self.session.receiver(str(uuid.uuid4()))
        link.source.address = address
        link.snd_settle_mode = proton.Link.SND_UNSETTLED
        if offset != "next":
            name = proton.symbol("rabbitmq:stream-offset-spec")
            link.source.filter.put_object({name: proton.Described(name, offset)})
        self._opened(link)
        link.flow(credit)
        self._write()
        return link

    def send(self, link: Any, octets: bytes) -> None:
        """Send a message, and wait for its outcome.

        Raises:
            Ended: the broker refused it, or died on it.
        """
        self._wait(lambda: link.credit > 0)
        delivery: Any = send(link, octets, tag=str(uuid.uuid4())[:32])
        self._wait(lambda: delivery.remote_state)
        state = delivery.remote_state
        delivery.settle()
        if state != Outcome.ACCEPTED:
            raise Ended(f"outcome {state}")

    def receive(self, link: Any, timeout: float) -> tuple[bytes, Any]:
        """Wait for a message; return its bytes and the delivery, to be settled.

        Raises:
            Ended: the broker ended link, session or connection, or nothing came in time.
        """
        found: list[bytes] = []

        def is_here() -> bool:
            delivery = link.current
            if delivery is not None and delivery.readable:
                octets = receive_octets(delivery)
                if octets is not None:
                    found.append(octets)
                    here.append(delivery)
            return bool(found)

        here: list[Any] = []
        self._wait(is_here, timeout)
        return found[0], here[0]

    def settle(
        self, link: Any, delivery: Any, outcome: Any = Outcome.ACCEPTED, *, credit: int = 1
    ) -> None:
        """Settle a received message, and grant the credit for another, or for none."""
        delivery.update(outcome)
        delivery.settle()
        if credit:
            link.flow(credit)
        self._write()

    def give_back(
        self, delivery: Any, outcome: Any, *, failed: bool, up: bool, annotations: Any = None
    ) -> None:
        """Settle a received message with an outcome, and take no other one.

        Args:
            delivery: of the message.
            outcome: any but accepted.
            failed: the delivery-failed of modified.
            up: the undeliverable-here of modified.
            annotations: the message-annotations of modified.
        """
        delivery.local.annotations = annotations
        delivery.local.failed = failed
        delivery.local.undeliverable = up
        delivery.update(outcome)
        delivery.settle()
        self._write()

    def detach(self, link: Any) -> None:
        """Detach a link, whatever came over it."""
        link.detach()
        self._links.remove(link)
        self._write()
