"""The handler of proton behind the spooler: bytes as they came, settled when they are on disk."""

from __future__ import annotations

from typing import Any

import proton.handlers
from proton import Delivery

from amqp10msg.errors import AmqpError
from amqp10msg.net.landing import Spooled
from amqp10msg.parts import scan
from amqp10msg.proton import receive_octets

_MessagingHandler: Any = proton.handlers.MessagingHandler
_IncomingMessageHandler: Any = proton.handlers.IncomingMessageHandler


class Receiver(_MessagingHandler):  # type: ignore[misc]  # proton's handler has no types
    """Takes deliveries into a landing, and accepts them when they are on disk.

    Args:
        url: of the peer.
        address: of the source.
        pending: the landing, and what waits in it.
    """

    def __init__(self, url: str, address: str, pending: Any) -> None:
        # Twice as much as a file holds, so that the next one fills while this one is written.
        prefetch = min(2 * pending.batches.rows, 100_000)
        self.handlers: list[Any]
        super().__init__(prefetch=prefetch, auto_accept=False, auto_settle=False)
        # It would decode, and raise for what is not a message.
        children: list[Any] = self.handlers
        children[:] = [h for h in children if not isinstance(h, _IncomingMessageHandler)]
        self._url = url
        self._address = address
        self._pending = pending
        self._connection: Any = None
        self.fault = ""

    def on_start(self, event: Any) -> None:
        self._connection = event.container.connect(self._url, reconnect=False)
        event.container.create_receiver(self._connection, self._address)
        self._wait(event)

    def _wait(self, event: Any) -> None:
        event.container.schedule(self._pending.wait, self)

    def on_timer_task(self, event: Any) -> None:
        """Finish a file that waited long enough; end where nothing comes."""
        ends = self._pending.is_idle
        if self._pending.due or ends:
            self._land()
        if ends or self.fault:
            self._connection.close()
        else:
            self._wait(event)

    def on_delivery(self, event: Any) -> None:
        """Add a delivery to the landing once all its bytes are here."""
        delivery = event.delivery
        if not delivery.link.is_receiver:
            return
        octets = receive_octets(delivery)
        if octets is None:
            if delivery.aborted:
                delivery.settle()
            return
        tag, again = tag_of(delivery), _is_redelivered(octets)
        row = Spooled(self._address, self._pending.time, tag, again, octets)
        if self._pending.add(row, delivery):
            self._land()

    def _land(self) -> None:
        for delivery in self._pending.take():
            delivery.update(Delivery.ACCEPTED)
            delivery.settle()

    def on_link_error(self, event: Any) -> None:
        self._end(event.link.remote_condition)

    def on_session_error(self, event: Any) -> None:
        self._end(event.session.remote_condition)

    def on_connection_error(self, event: Any) -> None:
        self._end(event.connection.remote_condition)

    def on_transport_error(self, event: Any) -> None:
        """End: the peer cannot be reached, or is gone."""
        self._end(event.transport.condition)

    def on_link_closed(self, event: Any) -> None:
        """End: the peer closed the link without an error."""
        if not event.link.state & proton.Endpoint.LOCAL_CLOSED:
            self._end(None)

    def _end(self, condition: Any) -> None:
        said = f"{condition.name}: {condition.description}" if condition else "the link was closed"
        self.fault = self.fault or f"{self._address}: {said}"
        self._connection.close()


def tag_of(delivery: Any) -> bytes:
    """Return the bytes of a delivery-tag; proton raises where they are not UTF-8."""
    try:
        tag: str = delivery.tag
    except UnicodeDecodeError as error:
        return error.object
    return tag.encode()


def _is_redelivered(octets: bytes) -> bool:
    """Return whether the header says so: a delivery-count, or another acquirer before."""
    try:
        header = scan(octets).section("header")
    except AmqpError:
        return False
    return header is not None and bool(header.delivery_count or header.first_acquirer is False)
