"""Reads partitions of Azure Event Hubs over AMQP 1.0, like streams.

The offset of an event is its sequence number.

The addresses, the selector and the requests to ``$management`` follow Microsoft's page "AMQP 1.0 in
Azure Service Bus and Event Hubs protocol guide" and Microsoft's Python client azure-eventhub.
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
from amqp10msg.net.ends.amqp10 import Amqp10Connection
from amqp10msg.net.ends.terms import LinkError, Request
from amqp10msg.net.stream_ranges import Bounds, Cursor, Streams, offset_of
from amqp10msg.sections import AmqpValue, Properties
from amqp10msg.wire.errors import AmqpError
from amqp10msg.wire.primitives import Described

#: The annotation with the sequence number of an event.
_SEQUENCE_NUMBER_ANNOTATION = "x-opt-sequence-number"
#: The annotation with the time at which an event was enqueued.
ENQUEUED_TIME_ANNOTATION = "x-opt-enqueued-time"
_MANAGEMENT_ADDRESS = "$management"
#: The part of an address between the event hub and the number of a partition.
_PARTITIONS = "/Partitions/"
#: Credit for responses of ``$management``.
_RESPONSE_CREDIT = 100
#: Status codes of a successful response of ``$management``.
_SUCCESS_STATUS_CODES = range(200, 300)
#: Error status codes that a retry cannot fix.
_PERMANENT_STATUS_CODES = {400, 401, 403, 404}


@attrs.frozen
class Hub:
    """An event hub, and the consumer group that reads it.

    Attributes:
        name: the name of the event hub.
        group: the name of the consumer group.
    """

    name: str
    group: str = "$Default"

    def stream(self, partition: str) -> str:
        """Return the stream name of a partition id, such as ``orders/Partitions/0`` for ``0``."""
        return f"{self.name}{_PARTITIONS}{partition}"


class Partitions(Streams):
    """Reads several partitions of an event hub at the same time, in one session.

    Requests raise `LinkError` if the connection has ended, or the event hub does not exist.
    """

    def __init__(self, hub: Hub, request: Request, connection: Amqp10Connection) -> None:
        self._hub = hub
        self._reply_to = f"answers-{uuid.uuid4()}"
        self._requests: transport.Link | None = None
        self._responses: transport.Link | None = None
        self._can_request: asyncio.Future[None] | None = None
        self._pending: dict[str, asyncio.Future[Message]] = {}  # by message-id of the request
        super().__init__(request, connection)

    # Reading.

    def address_of(self, stream: str) -> str:
        """Return the address of the source for a partition."""
        partition = stream.rpartition("/")[2]
        return f"{self._hub.name}/ConsumerGroups/{self._hub.group}{_PARTITIONS}{partition}"

    @staticmethod
    def from_offset(start: str | int) -> dict[Any, Described]:
        """Return the source filter that starts reading at the sequence number `start`."""
        return _selector(f"amqp.annotation.{_SEQUENCE_NUMBER_ANNOTATION} >= '{start}'")

    @staticmethod
    def offset_of(octets: bytes, expected: int | None = None) -> int:
        """Return the sequence number of an encoded event; see `stream_ranges.offset_of`."""
        return offset_of(octets, expected, _SEQUENCE_NUMBER_ANNOTATION)

    def starts_at_offset(self, accepted: Any) -> bool:  # noqa: ARG002  (one signature for all)
        """Return True: the sequence numbers of the received events make this check unnecessary."""
        return True

    # Requests.

    async def partitions(self) -> list[str]:
        """Return the stream names of the partitions."""
        partition_ids = (await self._read_attributes("com.microsoft:eventhub")).get("partition_ids")
        if not partition_ids:
            raise LinkError(f"{self._hub.name}: the response has no partition_ids", permanent=True)
        return [self._hub.stream(str(partition)) for partition in partition_ids]

    async def bounds(self, stream: str) -> Bounds:
        """Return the sequence numbers of a partition's first event and of its next new event."""
        attributes = await self._partition_attributes(stream)
        end = _int_attribute(attributes, "last_enqueued_sequence_number") + 1
        if attributes.get("is_partition_empty"):
            return Bounds(max(end, 0), max(end, 0))
        return Bounds(_int_attribute(attributes, "begin_sequence_number"), end)

    async def first(self, stream: str) -> int | None:
        """Return the sequence number of the first event; None for an empty partition."""
        bounds = await self.bounds(stream)
        return None if bounds.first == bounds.next else bounds.first

    async def at_time(self, stream: str, time: int) -> int:
        """Return the sequence number of the first event enqueued at `time` or later.

        Args:
            stream: the name of the partition.
            time: in ms since the Unix epoch.

        Returns:
            The sequence number; if all events are older, the number of the next new event.
        """
        attributes = await self._partition_attributes(stream)
        last: Any = attributes.get("last_enqueued_time_utc")
        end = max(_int_attribute(attributes, "last_enqueued_sequence_number") + 1, 0)
        if attributes.get("is_partition_empty") or not isinstance(last, int) or last < time:
            return end
        first_number: asyncio.Future[int] = self._connection.loop.create_future()

        def receive(octets: bytes) -> None:
            if not first_number.done():
                first_number.set_result(self.offset_of(octets))

        selector = _selector(f"amqp.annotation.{ENQUEUED_TIME_ANNOTATION} >= '{time}'")
        cursor = Cursor(stream, selector, receive, lambda: None)
        self.read_from(cursor, 1)
        try:
            await self.until(first_number)
        finally:
            self.detach(cursor)
        return first_number.result()

    async def _partition_attributes(self, stream: str) -> dict[str, Any]:
        partition = stream.rpartition("/")[2]
        return await self._read_attributes("com.microsoft:partition", partition=partition)

    async def _read_attributes(self, entity_type: str, **properties: str) -> dict[str, Any]:
        """Send a READ request to ``$management``, and return the attributes in the response.

        `properties` are additional application-properties of the request.
        """
        link = await self._request_link()
        message_id = str(uuid.uuid4())
        request = Message(
            AmqpValue(None),
            properties=Properties(message_id=message_id, reply_to=self._reply_to),
            application_properties={
                "operation": "READ",
                "type": entity_type,
                "name": self._hub.name,
                **properties,
            },
        )
        response = self._pending[message_id] = self._connection.loop.create_future()
        link.send(message_id[:32].encode("ascii"), request.encode(), settled=True)
        self.touch()
        try:
            await self.until(response)
        finally:
            del self._pending[message_id]
        return _attributes(response.result(), self._hub.name)

    async def _request_link(self) -> transport.Link:
        """Return the link for requests.

        Waits until it has credit and the link for responses is attached. The first call attaches
        both links.
        """
        if self._requests is None:
            self._can_request = self._connection.loop.create_future()
            responses = self._responses = self.session.link(
                f"responses-{uuid.uuid4()}", sends=False
            )
            target = Target(address=self._reply_to)
            responses.attach(source=Source(address=_MANAGEMENT_ADDRESS), target=target)
            responses.grant(_RESPONSE_CREDIT)
            requests = self._requests = self.session.link(f"requests-{uuid.uuid4()}", sends=True)
            source = Source(address=self._reply_to)
            requests.attach(source=source, target=Target(address=_MANAGEMENT_ADDRESS))
            self.touch()
        while (
            self._requests.credit <= 0 or self._responses is None or self._responses.remote is None
        ):
            if self._can_request is None or self._can_request.done():
                self._can_request = self._connection.loop.create_future()
            await self.until(self._can_request)
        return self._requests

    @property
    def in_use(self) -> bool:
        """Whether all requested links are attached."""
        links = [link for link in (self._requests, self._responses) if link is not None]
        return super().in_use and all(link.remote is not None for link in links)

    def on_attach(self, link: transport.Link) -> None:
        """Called when the service attaches a link: requests may now be possible."""
        super().on_attach(link)
        self._check_requests(link)

    def on_flow(self, link: transport.Link) -> None:
        """Called when the service sends a flow: requests may now be possible."""
        super().on_flow(link)
        self._check_requests(link)

    def _check_requests(self, link: transport.Link) -> None:
        """Wake `_request_link` if `link` is the link for requests or for responses."""
        waiter = self._can_request
        if link in {self._requests, self._responses} and waiter is not None and not waiter.done():
            waiter.set_result(None)

    def on_detach(self, link: transport.Link, error: Error | None, **_: bool) -> None:
        """End the connection: the service detached a link."""
        super().on_detach(link, error)
        if link in {self._requests, self._responses}:
            self._end("link", error)

    def on_transfers(self, link: transport.Link, deliveries: list[transport.LinkDelivery]) -> None:
        """Pass received events to their cursor, and responses to their request."""
        if link is not self._responses:
            super().on_transfers(link, deliveries)
            return
        self._connection.count_frames(len(deliveries))
        for delivery in deliveries:
            if not delivery.settled:
                delivery.update(Accepted())
            with contextlib.suppress(AmqpError):
                response = Message.decode(delivery.payload or b"", strict=False)
                correlation_id = response.properties and response.properties.correlation_id
                waiter = self._pending.get(str(correlation_id))
                if waiter is not None and not waiter.done():
                    waiter.set_result(response)
        link.grant(len(deliveries))


def _selector(text: str) -> dict[Any, Described]:
    """Return a source filter with the SQL selector `text`."""
    return {Selector.SYMBOL: Described(Selector.SYMBOL, text)}


def _int_attribute(attributes: dict[str, Any], name: str) -> int:
    """Return an attribute of a response as an int; raise LinkError if it is not an integer."""
    value = attributes.get(name)
    if not isinstance(value, int):
        raise LinkError(f"$management: the response has no {name}", permanent=True)
    return int(value)


def _attributes(response: Message, hub: str) -> dict[str, Any]:
    """Return the attributes in the body of a ``$management`` response.

    Raises:
        LinkError: the response has an error status, or none.
    """
    properties: dict[str, Any] = {
        str(key): value for key, value in (response.application_properties or {}).items()
    }
    status: Any = properties.get("status-code", properties.get("statusCode"))
    if not isinstance(status, int) or status not in _SUCCESS_STATUS_CODES:
        reason = properties.get("status-description", properties.get("statusDescription"))
        raise LinkError(
            f"$management: status {status} for the event hub {hub}: {reason}",
            sent_by_peer=True,
            permanent=status in _PERMANENT_STATUS_CODES,
        )
    body = response.value
    return {str(k): v for k, v in body.items()} if isinstance(body, dict) else {}
