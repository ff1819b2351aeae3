"""Partitions of Azure Event Hubs over AMQP 1.0, as streams whose offsets are sequence numbers.

Addresses, the selector and the requests to ``$management`` are those of Microsoft's page "AMQP 1.0
in Azure Service Bus and Event Hubs protocol guide" and of its client for Python, azure-eventhub.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from typing import Any

import attrs

from amqp10msg.composite import Error
from amqp10msg.delivery import Accepted, Source, Target
from amqp10msg.delivery.filters import Selector
from amqp10msg.message import Message
from amqp10msg.net import transport
from amqp10msg.net.bridge.amqp10 import Amqp10Connection
from amqp10msg.net.bridge.terms import LinkError, Request
from amqp10msg.net.stream_ranges import Bounds, Cursor, Streams, offset_of
from amqp10msg.sections import AmqpValue, Properties
from amqp10msg.wire.errors import AmqpError
from amqp10msg.wire.primitives import Described

_SEQUENCE = "x-opt-sequence-number"
#: The annotation with when an event was enqueued.
ENQUEUED = "x-opt-enqueued-time"
_MANAGEMENT = "$management"
_PARTITIONS = "/Partitions/"
_ANSWERS = 100
_OK, _FAULTS = 200, 300
#: Statuses of a request that no other attempt makes good.
_PERMANENT = {400, 401, 403, 404}


@attrs.frozen
class Hub:
    """An event hub, as one consumer group reads it."""

    name: str
    group: str = "$Default"

    def stream(self, partition: str) -> str:
        """Return the name of a partition, such as ``orders/Partitions/0``."""
        return f"{self.name}{_PARTITIONS}{partition}"


class Partitions(Streams):
    """Partitions of an event hub that are read by one session, several at a time.

    What asks raises a `LinkError` where the connection ended, or there is no such thing.
    """

    def __init__(self, hub: Hub, request: Request, connection: Amqp10Connection) -> None:
        self._hub = hub
        self._here = f"answers-{uuid.uuid4()}"
        self._asks: transport.Link | None = None
        self._hears: transport.Link | None = None
        self._can_ask: asyncio.Future[None] | None = None
        self._answers: dict[str, asyncio.Future[Message]] = {}
        super().__init__(request, connection)

    # What a partition is read by.

    def address_of(self, stream: str) -> str:
        """Return the address that a partition is read from."""
        partition = stream.rpartition("/")[2]
        return f"{self._hub.name}/ConsumerGroups/{self._hub.group}{_PARTITIONS}{partition}"

    @staticmethod
    def from_offset(start: str | int) -> dict[Any, Described]:
        """Return the filter with which reading begins at a sequence number."""
        return _selected(f"amqp.annotation.{_SEQUENCE} >= '{start}'")

    @staticmethod
    def offset_of(octets: bytes, expected: int | None = None) -> int:
        """Return the sequence number of an event."""
        return offset_of(octets, expected, _SEQUENCE)

    def reads_as_asked(self, agreed: Any) -> bool:  # noqa: ARG002  (one signature for all)
        """Whether it reads from there on: what comes says so, by its sequence number."""
        return True

    # What the namespace is asked for.

    async def partitions(self) -> list[str]:
        """Return the names of the partitions."""
        found = (await self._asked("com.microsoft:eventhub")).get("partition_ids")
        if not found:
            raise LinkError(f"{self._hub.name}: the answer has no partition_ids", permanent=True)
        return [self._hub.stream(str(one)) for one in found]

    async def bounds(self, stream: str) -> Bounds:
        """Return where a partition begins and ends."""
        said = await self._partition(stream)
        end = _number(said, "last_enqueued_sequence_number") + 1
        if said.get("is_partition_empty"):
            return Bounds(max(end, 0), max(end, 0))
        return Bounds(_number(said, "begin_sequence_number"), end)

    async def first(self, stream: str) -> int | None:
        """Return the sequence number of the first event that is there; None where there is none."""
        found = await self.bounds(stream)
        return None if found.first == found.next else found.first

    async def at_time(self, stream: str, moment: int) -> int:
        """Return the sequence number of the first event from a moment on; the next where none is.

        It is the moment when an event was enqueued, in ms since the Unix epoch.
        """
        said = await self._partition(stream)
        last: Any = said.get("last_enqueued_time_utc")
        end = max(_number(said, "last_enqueued_sequence_number") + 1, 0)
        if said.get("is_partition_empty") or not isinstance(last, int) or last < moment:
            return end
        done: asyncio.Future[int] = self._connection.loop.create_future()

        def receive(octets: bytes) -> None:
            if not done.done():
                done.set_result(self.offset_of(octets))

        wanted = _selected(f"amqp.annotation.{ENQUEUED} >= '{moment}'")
        cursor = Cursor(stream, wanted, receive, lambda: None)
        self.read_from(cursor, 1)
        try:
            await self.until(done)
        finally:
            self.detach(cursor)
        return done.result()

    async def _partition(self, stream: str) -> dict[str, Any]:
        partition = stream.rpartition("/")[2]
        return await self._asked("com.microsoft:partition", partition=partition)

    async def _asked(self, kind: str, **about: str) -> dict[str, Any]:
        """Read a resource by ``$management``; return its attributes."""
        link = await self._ready()
        number = str(uuid.uuid4())
        request = Message(
            AmqpValue(None),
            properties=Properties(message_id=number, reply_to=self._here),
            application_properties={
                "operation": "READ",
                "type": kind,
                "name": self._hub.name,
                **about,
            },
        )
        answer = self._answers[number] = self._connection.loop.create_future()
        link.send(number[:32].encode("ascii"), request.encode(), settled=True)
        self.touch()
        try:
            await self.until(answer)
        finally:
            del self._answers[number]
        return _read(answer.result(), self._hub.name)

    async def _ready(self) -> transport.Link:
        """Return the link that asks, once it may send, with another one that hears the answers."""
        if self._asks is None:
            self._can_ask = self._connection.loop.create_future()
            hears = self._hears = self.session.link(f"hears-{uuid.uuid4()}", sends=False)
            hears.attach(source=Source(address=_MANAGEMENT), target=Target(address=self._here))
            hears.grant(_ANSWERS)
            asks = self._asks = self.session.link(f"asks-{uuid.uuid4()}", sends=True)
            asks.attach(source=Source(address=self._here), target=Target(address=_MANAGEMENT))
            self.touch()
        while self._asks.credit <= 0 or self._hears is None or self._hears.remote is None:
            if self._can_ask is None or self._can_ask.done():
                self._can_ask = self._connection.loop.create_future()
            await self.until(self._can_ask)
        return self._asks

    @property
    def in_use(self) -> bool:
        """Whether all links are attached that were asked for."""
        both = [one for one in (self._asks, self._hears) if one is not None]
        return super().in_use and all(one.remote is not None for one in both)

    def on_attach(self, link: transport.Link) -> None:
        """See that both links to ``$management`` are there."""
        super().on_attach(link)
        self._tell(link)

    def on_flow(self, link: transport.Link) -> None:
        """See whether a request may be sent."""
        super().on_flow(link)
        self._tell(link)

    def _tell(self, link: transport.Link) -> None:
        waits = self._can_ask
        if link in {self._asks, self._hears} and waits is not None and not waits.done():
            waits.set_result(None)

    def on_detach(self, link: transport.Link, error: Error | None, **_: bool) -> None:
        """End: the service detached a link."""
        super().on_detach(link, error)
        if link in {self._asks, self._hears}:
            self._end("link", error)

    def on_transfers(self, link: transport.Link, deliveries: list[transport.LinkDelivery]) -> None:
        """Hand over events, or answers."""
        if link is not self._hears:
            super().on_transfers(link, deliveries)
            return
        self._connection.took(len(deliveries))
        for delivery in deliveries:
            if not delivery.settled:
                delivery.update(Accepted())
            with contextlib.suppress(AmqpError):
                answer = Message.decode(delivery.payload or b"", strict=False)
                said = answer.properties and answer.properties.correlation_id
                waits = self._answers.get(str(said))
                if waits is not None and not waits.done():
                    waits.set_result(answer)
        link.grant(len(deliveries))


def _selected(text: str) -> dict[Any, Described]:
    return {Selector.SYMBOL: Described(Selector.SYMBOL, text)}


def _number(said: dict[str, Any], name: str) -> int:
    found = said.get(name)
    if not isinstance(found, int):
        raise LinkError(f"$management: the answer has no {name}", permanent=True)
    return int(found)


def _read(answer: Message, hub: str) -> dict[str, Any]:
    """Return the attributes in an answer."""
    said: dict[str, Any] = {str(k): v for k, v in (answer.application_properties or {}).items()}
    status: Any = said.get("status-code", said.get("statusCode"))
    if not isinstance(status, int) or not _OK <= status < _FAULTS:
        why = said.get("status-description", said.get("statusDescription"))
        raise LinkError(
            f"$management: {status} of the event hub {hub}: {why}",
            said=True,
            permanent=status in _PERMANENT,
        )
    body = answer.value
    return {str(k): v for k, v in body.items()} if isinstance(body, dict) else {}
