"""The handler of proton behind the spooler: bytes as they came, settled when they are on disk."""

from __future__ import annotations

from typing import Any

import proton.handlers
import proton.reactor
from proton import Delivery

from amqp10msg.interop.proton import receive_octets
from amqp10msg.net.landing import Spooled
from amqp10msg.sections.parts import scan
from amqp10msg.wire.errors import AmqpError

_MessagingHandler: Any = proton.handlers.MessagingHandler
_IncomingMessageHandler: Any = proton.handlers.IncomingMessageHandler
_EndpointStateHandler: Any = proton.handlers.EndpointStateHandler


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
        # One would decode, and raise for what is not a message; the other see below.
        left_out = (_IncomingMessageHandler, _EndpointStateHandler)
        children: list[Any] = self.handlers
        children[:] = [h for h in children if not isinstance(h, left_out)]
        self._url = url
        self._address = address
        self._pending = pending
        self._connection: Any = None
        self.fault = ""

    def on_start(self, event: Any) -> None:
        self._connection = event.container.connect(self._url, reconnect=False)
        event.container.create_receiver(self._connection, self._address)
        self._wait(event)

    def on_connection_remote_open(self, event: Any) -> None:
        """Warn of what this peer may drop."""
        try:
            properties = event.connection.remote_properties or {}
        except (TypeError, ValueError, proton.ProtonException):
            return  # proton cannot read them, and they are not needed
        self._pending.connected(properties)

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

    # In place of proton's handler of closed endpoints, which raises where a text is not UTF-8, and
    # which waits for another connection behind amqp:connection:forced.

    def on_link_remote_close(self, event: Any) -> None:
        """End: the peer closed the link."""
        self._end("link", event.link)

    def on_session_remote_close(self, event: Any) -> None:
        """End: the peer closed the session."""
        self._end("session", event.session)

    def on_connection_remote_close(self, event: Any) -> None:
        """End: the peer closed the connection."""
        self._end("connection", event.connection)

    def on_transport_error(self, event: Any) -> None:
        """End: the peer cannot be reached, or is gone."""
        self._end("connection", event.transport)

    def _end(self, what: str, closed: Any) -> None:
        if self._connection.state & proton.Endpoint.LOCAL_CLOSED:
            return  # it answers
        said = _condition_of(closed) or f"the peer closed the {what}"
        self.fault = f"{self._address}: {said}"
        self._connection.close()


def _condition_of(closed: Any) -> str:
    """Return the error that an endpoint or a transport was closed with; empty where there is none.

    Proton decodes the error at each access, and raises where it cannot.
    """
    try:
        condition = (
            closed.condition if isinstance(closed, proton.Transport) else closed.remote_condition
        )
    except UnicodeDecodeError as error:
        shown = error.object.decode("utf-8", "backslashreplace")
        return f"closed with an error that is not UTF-8: {shown}"
    except (TypeError, ValueError, proton.ProtonException) as error:
        return f"closed with an error that cannot be read ({error})"
    return f"{condition.name}: {condition.description}" if condition else ""


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


def consume(url: str, node: str, pending: Any) -> None:
    """Consume an address until the landing is idle.

    Raises:
        ConnectionError: the connection or the link broke.
    """
    receiver = Receiver(url, node, pending)
    proton.reactor.Container(receiver).run()
    if receiver.fault:
        raise ConnectionError(receiver.fault)
