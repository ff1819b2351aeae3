"""The sources and targets of AMQP 1.0. Payloads are passed on without decoding them.

Each link has its own session. If a session ends, the other sessions of its connection stay open.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from amqp10msg import __version__
from amqp10msg.composite import Error, from_described
from amqp10msg.delivery import Accepted, Modified, Received, Rejected, Released, Source, Target
from amqp10msg.delivery.filters import StreamOffset
from amqp10msg.net import transport
from amqp10msg.net.ends.contents import header_of
from amqp10msg.net.ends.terms import (
    ACCEPTED,
    NO_COUNT_REASON,
    Depth,
    LinkError,
    Outcome,
    Oversized,
    Request,
    Sent,
    Settle,
    SourceDelivery,
    SourceRequest,
    TargetRequest,
    no_room_for_large,
)
from amqp10msg.net.ends.urls import Endpoint
from amqp10msg.net.ends.wire import AttachedLink, Wire, attach_link, dial, fail_future
from amqp10msg.net.transport import SenderSettleMode
from amqp10msg.wire.errors import (
    CONNECTION_FORCED,
    DETACH_FORCED,
    INTERNAL_ERROR,
    INVALID_FIELD,
    NOT_ALLOWED,
    NOT_FOUND,
    RESOURCE_DELETED,
    RESOURCE_LIMIT_EXCEEDED,
    STOLEN,
    UNAUTHORIZED_ACCESS,
)
from amqp10msg.wire.primitives import Described

#: Our max-frame-size, in bytes.
_MAX_FRAME = 1 << 16
#: Stop reading from a peer that does not read, if more than this number of bytes are unsent.
_MAX_UNSENT = 1 << 20
#: Our channel-max, one less than the number of sessions per connection.
_CHANNEL_MAX = 255
#: Seconds between two checks whether the peer has answered the end of a session.
_END_CHECK_INTERVAL = 0.005
#: Maximum number of frames to process per iteration of the event loop.
_MAX_FRAMES_PER_TURN = 200
#: Maximum number of deliveries per call of `on_transfers`.
_MAX_DELIVERIES_PER_CALL = 100
#: Error conditions of a new link that a retry cannot fix.
_PERMANENT_CONDITIONS = {NOT_FOUND, UNAUTHORIZED_ACCESS, NOT_ALLOWED, INVALID_FIELD}
#: Error conditions of a peer that shuts down, has failed, or has removed the link or its node.
_PEER_FAULT_CONDITIONS = {
    CONNECTION_FORCED,
    INTERNAL_ERROR,
    RESOURCE_DELETED,
    DETACH_FORCED,
    STOLEN,
}


class Amqp10Connection(Wire, transport.Handler):
    """A client's connection over AMQP 1.0, with SASL.

    Attributes:
        unblocked_links: links that may be able to send again because of the frames that are being
            processed.
        opened: done when the peer has opened the connection.
        engine: the protocol state.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(endpoint)
        self._frames_left = 0  # to process in this iteration of the event loop
        self.unblocked_links: dict[AttachedLink, None] = {}
        self.opened: asyncio.Future[None] = self.loop.create_future()
        hostname = endpoint.server_name or endpoint.host
        if endpoint.virtual_host is not None:
            hostname = f"vhost:{endpoint.virtual_host}"  # RabbitMQ's notation
        sasl = transport.SaslClient(
            endpoint.mechanism or ("ANONYMOUS" if endpoint.user is None else "PLAIN"),
            hostname=hostname,
            user=endpoint.user or "",
            password=endpoint.password or "",
        )
        opens = transport.Open(
            container_id=f"amqp10msg-bridge-{uuid.uuid4()}",
            hostname=hostname,
            max_frame_size=_MAX_FRAME,
            channel_max=_CHANNEL_MAX,
            # Half of our timeout, as Part 2, 2.4.5 recommends.
            idle_time_out=max(endpoint.heartbeat * 500, 1_000),
            properties={"product": "amqp10msg bridge", "version": __version__},
        )
        self.engine = transport.Connection(self, opens, sasl, run=_MAX_DELIVERIES_PER_CALL)
        self.engine.open()

    async def handshake(self) -> None:
        """Wait until the peer has opened the connection."""
        await self.opened

    def begin_session(self, link: SessionLink) -> transport.Session:
        """Begin a session for a link, and return the session.

        Raises:
            LinkError: no channel is free, because the peer has not answered the end of sessions.
        """
        try:
            return self.engine.begin(link)
        except ValueError as error:
            raise LinkError(str(error)) from None

    def is_ended(self, session: transport.Session) -> bool:
        """Whether the peer has answered the end of a session."""
        number = session.remote_channel
        return number is None or self.engine.sessions.get(number) is not session

    # Bytes.

    def begin(self) -> None:
        """Send the protocol header."""
        self.flush()

    def receive(self, data: bytes) -> None:
        """Process received bytes."""
        self.engine.feed(data)
        if self.engine.authenticated:
            self.process()
        else:
            self.flush()

    def process(self) -> None:
        """Process received frames, a limited number per iteration, so that other routes can run."""
        if self._failed:
            return
        self._frames_left = _MAX_FRAMES_PER_TURN
        super().process()
        unblocked, self.unblocked_links = self.unblocked_links, {}
        for link in unblocked:
            if link.alive:
                link.on_room()
        if self.engine.over:
            self.fail(LinkError("the peer closed the connection"))
        self.touch()

    def flush(self) -> None:
        """Send the pending bytes, unless the peer does not read."""
        super().flush()
        self.end_turn()

    def turn_is_over(self) -> bool:
        """Whether to interrupt the processing of frames until the next iteration of the loop."""
        self._frames_left -= 1
        return self._failed or self._frames_left <= 0

    def wants_input(self) -> bool:
        """Whether to read from the peer.

        Return False while reading is paused, while received frames wait to be processed, or if
        the peer does not read and more than `_MAX_UNSENT` bytes wait to be sent to it.
        """
        is_choked = self.paused and self.engine.pending > _MAX_UNSENT
        return not (self.reading_paused or self._frames_waiting or is_choked)

    def count_frames(self, count: int) -> None:
        """Count `count` deliveries of one `on_transfers` call as frames of this turn.

        The call itself has been counted as one frame.
        """
        self._frames_left -= count - 1

    def _beat(self) -> None:
        """Send empty frames in time, and fail the connection if nothing is received in time."""
        now = self.loop.time()
        timeout = float(max(self.endpoint.heartbeat, 2))
        if now - self._last_received_at > timeout and self._reading:
            self.fail(LinkError(f"no frame from the peer for {timeout:g} s"))
            return
        deadline = self.engine.tick(now)
        self.flush()
        next_check = now + timeout / 4
        self.call_at(min(next_check, max(deadline or next_check, now + 0.01)), self._beat)

    # Called by the transport.

    def on_authenticated(self, user: str | None) -> None:  # noqa: ARG002  (our own user)
        """Start the heartbeats."""
        self._beat()

    def on_refused(self, error: transport.SaslError) -> None:
        """Fail the connection: the peer refused the credentials."""
        self.fail(LinkError(str(error), permanent=error.refused))

    def on_open(self) -> None:
        """Read the peer's product and its maximum number of sessions."""
        remote = self.engine.remote
        if remote is None:
            return
        properties = {str(name): value for name, value in (remote.properties or {}).items()}
        self.peer_product = f"{properties.get('product', '')} {properties.get('version', '')}"
        self.max_links = min(remote.channel_max, _CHANNEL_MAX) + 1
        if not self.opened.done():
            self.opened.set_result(None)

    def on_close(self, error: Error | None, *, fault: bool) -> None:
        """Fail the connection: the peer closed it, or violated the protocol (`fault`)."""
        prefix = "the peer violated the protocol: " if fault else ""
        links: list[Any] = list(self.links)
        # If the only link is not attached yet, the peer may have refused its attach by this close.
        new = not self.opened.done() or (len(links) == 1 and not links[0].in_use)
        self.fail(error_of("connection", error, prefix, new=new))

    def on_begin(self, session: transport.Session) -> None:  # noqa: ARG002  (sessions of this end have other handlers)
        """Fail the connection: the peer must not begin sessions."""
        text = "the peer violated the protocol: it began a session"
        self.fail(LinkError(text, sent_by_peer=True))

    # The end.

    def fail_waiters(self, error: LinkError) -> None:
        """Send the pending bytes, and fail `opened`.

        If the peer violated the protocol, the pending bytes end with a close frame with the error.
        """
        if self.engine.authenticated and not (self.paused or self.is_closing):
            self._stream.write(self.engine.take())
        fail_future(self.opened, error)

    async def close_gracefully(self) -> None:
        """Send the pending bytes and a close frame, and wait until the connection is closed."""
        self.engine.close()
        self.flush()
        await asyncio.shield(self.closed)


class SessionLink(AttachedLink, transport.Handler):
    """Base class of links that have their own session on a connection."""

    def __init__(self, request: Request, connection: Amqp10Connection) -> None:
        self.endpoint = request.endpoint
        self.session = connection.begin_session(self)
        self._connection = connection
        self._ended = False  # whether the peer has ended the session
        super().__init__(connection, request.on_lost)

    @property
    def in_use(self) -> bool:
        """Whether the peer has accepted this link, so that a later error is not a refusal."""
        raise NotImplementedError

    def touch(self) -> None:
        """Send the pending bytes at the end of the current event-loop iteration."""
        self._connection.touch()

    def can_read_streams(self) -> bool:
        """Return whether the peer delivers messages of streams; fail the link if it does not.

        RabbitMQ 3.10 attaches the link, and ends drains as if the stream were empty.
        """
        if not self.peer_product.startswith("RabbitMQ 3.10."):
            return True
        text = "RabbitMQ 3.10 delivers nothing from a stream over 1.0: read it over amqp091"
        self.fail(LinkError(text, sent_by_peer=True, permanent=True))
        return False

    def on_transfer(self, delivery: transport.LinkDelivery) -> None:
        """Pass a single delivery to `on_transfers`."""
        self.on_transfers(delivery.link, [delivery])

    def on_end(self, session: transport.Session, error: Error | None) -> None:  # noqa: ARG002  (its own)
        """Fail the link: the peer ended the session, or violated the protocol."""
        self._ended = True
        self._end("session", error)

    def _end(self, scope: str, error: Error | None) -> None:
        """Fail the link: the peer ended the session or link (`scope`)."""
        self.fail(error_of(scope, error, new=not self.in_use, peer_product=self.peer_product))

    def send_end(self) -> None:
        """End the session without waiting."""
        if not (self.session.ended or self._ended):
            self.session.end()
        self.touch()

    async def end_gracefully(self) -> None:
        """End the session, and wait for the answer."""
        self.send_end()
        while not self._connection.is_ended(self.session):
            await asyncio.sleep(_END_CHECK_INTERVAL)


class Amqp10Link(SessionLink):
    """Base class of the source and target, a session with one sending or receiving link.

    Attributes:
        opened: done when the link can be used.
        link: the sending or receiving link.
    """

    def __init__(self, request: Request, connection: Amqp10Connection, *, sends: bool) -> None:
        self.opened: asyncio.Future[None] = connection.loop.create_future()
        super().__init__(request, connection)
        self.link = self.session.link(f"bridge-{uuid.uuid4()}", sends=sends)
        self.link.snd_settle_mode = SenderSettleMode.UNSETTLED

    async def attach(self) -> None:
        """Wait until the peer has attached the link."""
        await self.opened

    @property
    def in_use(self) -> bool:
        """Whether the peer has attached the link."""
        return self.opened.done()

    def on_attach(self, link: transport.Link) -> None:
        """Check the peer's attach, and refuse links that the peer initiates."""
        if link is not self.link or link.remote is None:
            link.refuse(_NO_PEER_LINKS)
            return
        terminus: Any = link.remote.target if link.sends else link.remote.source
        # Without a terminus the link is refused: a detach follows (Part 2, 2.6.3).
        if terminus is not None and self._check_attach(link.remote):
            self._set_opened()

    def _check_attach(self, remote: transport.Attach) -> bool:
        """Check the peer's attach. Return whether the link can be used now."""
        raise NotImplementedError

    def _set_opened(self) -> None:
        """Record that the link can be used."""
        if not self.opened.done():
            self.opened.set_result(None)

    def on_detach(self, link: transport.Link, error: Error | None, **_: bool) -> None:
        """Fail the link: the peer detached or closed it."""
        if link is self.link:
            self._end("link", error)

    def fail_waiters(self, error: LinkError) -> None:
        """Fail `opened`."""
        fail_future(self.opened, error)


def error_of(
    scope: str, error: Error | None, prefix: str = "", *, new: bool, peer_product: str = ""
) -> LinkError:
    """Convert the error with which a peer ended a connection, session or link (`scope`).

    Args:
        scope: ``connection``, ``session`` or ``link``.
        error: the peer's error; None if the peer sent no error.
        prefix: the beginning of the text.
        new: whether the connection, session or link was not open yet.
        peer_product: name and version of the peer.
    """
    if error is None:
        return LinkError(f"the peer closed the {scope}", scope=scope)
    name = str(error.condition)
    # If the connection, session or link was open, a message may have caused the error.
    permanent = name in _PERMANENT_CONDITIONS and new
    reason = f"{prefix}{transport.describe_error(error)}"
    if name == INVALID_FIELD and peer_product.startswith("RabbitMQ 3."):
        reason += "; give address_version=1 for the addresses of RabbitMQ 3"
    return LinkError(
        reason,
        sent_by_peer=name not in _PEER_FAULT_CONDITIONS,
        permanent=permanent,
        failed=name == INTERNAL_ERROR,
        scope=scope,
        # From a connection, not-found means that the virtual host does not exist.
        missing=permanent and name == NOT_FOUND and scope != "connection",
    )


def filters_in_place(source: Any) -> Mapping[Any, Any]:
    """Return the filters that a sender applies, from the source in its attach (Part 3, 3.5.3)."""
    return (from_described(source).filter if isinstance(source, Described) else None) or {}


#: The error with which links are refused that the peer initiates.
_NO_PEER_LINKS = Error(NOT_ALLOWED, "this end offers no links")
#: The outcomes with which deliveries are settled (Part 3, 3.4).
_OUTCOMES = {
    Settle.ACCEPT: Accepted(),
    Settle.RELEASE: Released(),
    Settle.REJECT: Rejected(),
}

#: Products that report the number of ready messages in the field available of a flow.
_COUNTING_PRODUCTS = ("RabbitMQ ", "amqp10msg ")

#: Disconnect a peer that ignores the credit and delivers this multiple of the window.
_EXCESS_FACTOR = 4

#: Prefix of queue addresses in RabbitMQ 3.
_QUEUE_PREFIX_OF_3 = "/amq/queue/"


class Amqp10Source(Amqp10Link):
    """A receiver. It passes deliveries to `request.receive`."""

    def __init__(self, request: SourceRequest, connection: Amqp10Connection) -> None:
        super().__init__(request, connection, sends=False)
        self._receive = request.receive
        self._window = request.window
        self._overflow = request.overflow
        self._incomplete_large: Oversized | None = None
        self._owed_credit = 0  # credit for settled deliveries that was not granted yet
        self._stopped = False
        self._answer: asyncio.Future[None] | None = None  # done when the pending query is answered
        source = Source(address=self.endpoint.address)
        start = self.endpoint.start
        if start is not None:
            source.filter = {StreamOffset.SYMBOL: StreamOffset(start).to_described()}
        self.link.attach(source=source, target=Target())
        # Not sent in the attach, because a broker might drop or dead-letter larger messages.
        # Larger messages are written to files.
        self.link.max_message_size = request.max_message
        self.link.overflow = self._new_overflow_file
        self.link.excess = _EXCESS_FACTOR * self._window
        self.touch()

    def _new_overflow_file(self) -> transport.Sink:
        """Return the file for a message that is too large for memory."""
        try:
            large = self._incomplete_large = self._overflow()
        except OSError as error:
            self._on_file_error(error)
            return bytearray()  # takes the rest of the frame, and is discarded
        large.on_fault = self._on_file_error
        return large

    def _on_file_error(self, error: OSError) -> None:
        """Fail this link, because a large message could not be written to its file."""
        self.fail(no_room_for_large(error))

    def _check_attach(self, remote: transport.Attach) -> bool:
        """Grant credit. Fail the link if the peer sends settled, or ignores the start position."""
        if remote.snd_settle_mode is SenderSettleMode.SETTLED:
            text = "this source sends settled: messages in flight could be lost"
            self.fail(LinkError(text, sent_by_peer=True, permanent=True))
            return False
        if self.endpoint.offset is not None and not self.can_read_streams():
            return False
        if self.endpoint.start is not None and (
            StreamOffset.SYMBOL not in filters_in_place(remote.source)
        ):
            # A queue would lose its messages, or a stream would be read from another offset.
            text = f"{self.endpoint.address} is not a stream: {self.peer_product.strip()} does not "
            text += "start reading at an offset; leave out offset= for a queue"
            self.fail(LinkError(text, sent_by_peer=True, permanent=True))
            return False
        self.link.grant(self._window)  # the window is 0 if the link only counts messages
        return True

    @property
    def incomplete(self) -> bool:
        """Whether a part of a message has arrived, but not its end."""
        return self.link.is_partial

    def on_transfers(self, link: transport.Link, deliveries: list[transport.LinkDelivery]) -> None:
        """Pass deliveries to `request.receive`."""
        self._connection.count_frames(len(deliveries))
        if not self.alive or link is not self.link:
            return
        received = []
        for delivery in deliveries:
            octets = delivery.payload
            if octets is None:  # aborted
                self._discard_incomplete()
                self._replenish_credit()
                continue
            large, self._incomplete_large = self._incomplete_large, None
            source_delivery = SourceDelivery(
                octets, redelivered=_is_redelivered(octets), tag=delivery, link=self, large=large
            )
            if delivery.message_format:
                source_delivery.message_format = delivery.message_format
            received.append(source_delivery)
        if received:
            self._receive(received)

    def _discard_incomplete(self) -> None:
        """Discard the file of an incomplete large message."""
        if self._incomplete_large is not None:
            self._incomplete_large.discard()
            self._incomplete_large = None

    async def close(self, wait: float) -> None:
        """Send the pending settlements, and close. Give up after `wait` seconds."""
        await super().close(wait)
        self._discard_incomplete()

    def abort(self) -> None:
        """End the link without waiting. No callback is called afterwards."""
        super().abort()
        self._discard_incomplete()

    def settle(self, deliveries: Sequence[SourceDelivery], settlement: Settle) -> None:
        """Settle the deliveries that belong to this link; ignore deliveries of other links."""
        alive, outcome, settled = self.alive, _OUTCOMES[settlement], 0
        for delivery in deliveries:
            if delivery.link is self:
                delivery.link = None
                if alive:
                    link_delivery, delivery.tag = delivery.tag, None
                    link_delivery.update(outcome)
                    settled += 1
        if settled:
            self._replenish_credit(settled)
            self.touch()

    def _replenish_credit(self, count: int = 1) -> None:
        """Grant credit for settled deliveries, once it amounts to a quarter of the window."""
        self._owed_credit += count
        if self._owed_credit * 4 >= self._window and not self._stopped:
            self.link.grant(self._owed_credit)
            self._owed_credit = 0

    async def depth(self) -> int | None:
        """Query the number of ready messages. Return the previous answer, or None."""
        # RabbitMQ 3 interprets every flow frame as new credit, also the one of this query.
        if self.alive and not self.peer_product.startswith("RabbitMQ 3."):
            self.link.request_flow()
            self.touch()
        return self.link.available

    async def count(self) -> Depth:
        """Return the number of ready messages.

        RabbitMQ and this library's server report it. Other brokers may report zero although there
        are messages. If they report zero, this method drains the link (Part 2, 2.6.7): the source
        is empty if no message arrives before the answer.

        Raises:
            LinkError: the connection ended.
        """
        # Two queries, because the first flow may be the answer to an earlier query.
        for _ in range(2):
            await self._request_flow(self.link.request_flow)
        available = self.link.available
        if available or self.peer_product.startswith(_COUNTING_PRODUCTS):
            held_by_others = (self.link.properties or {}).get(transport.ACQUIRED_BY_OTHERS)
            return Depth(
                ready=available,
                unacknowledged=held_by_others if isinstance(held_by_others, int) else None,
            )
        if self._stopped or self.link.credit <= 0:
            return Depth(reason=NO_COUNT_REASON)
        self._owed_credit = 0
        await self._request_flow(self.link.request_drain)
        self.link.grant(self._window - len(self.session.incoming))
        self.touch()
        return Depth(ready=0)

    async def _request_flow(self, send_request: Callable[[], None]) -> None:
        """Call `send_request`, which sends a flow frame, and wait for the peer's flow frame."""
        if not self.alive:
            raise LinkError("the connection ended")
        self._answer = self._connection.loop.create_future()
        send_request()
        self.touch()
        await self._answer

    def on_flow(self, link: transport.Link) -> None:
        """Complete the pending query. A drain is complete when the peer has used up the credit."""
        answer = self._answer
        if link is not self.link or answer is None or answer.done():
            return
        if not link.drain or link.credit <= 0:
            answer.set_result(None)

    def fail_waiters(self, error: LinkError) -> None:
        """Discard an incomplete message, and fail the pending query."""
        super().fail_waiters(error)
        self._discard_incomplete()
        fail_future(self._answer, error)

    def stop(self) -> None:
        """Revoke the credit."""
        if self.alive:
            self._stopped = True
            self.link.revoke()
            self.touch()

    def resume(self) -> None:
        """Grant credit again after `stop`."""
        if self.alive:
            self._stopped = False
            self._owed_credit = 0
            self.link.grant(self._window - len(self.session.incoming))
            self.touch()


class Amqp10Target(Amqp10Link):
    """A sender. It passes outcomes to `request.on_outcomes`.

    RabbitMQ 3 accepts messages over 1.0 even if their queue does not exist. Before the link can be
    used, a receiver (the queue probe) is therefore attached to the queue and detached again: the
    attach fails if the queue does not exist.

    Args:
        request: the request.
        connection: the connection.
        checks_queue: whether to attach the queue probe.

    Attributes:
        queue_probe: the queue probe, until the peer has attached it; otherwise None.
    """

    def __init__(
        self, request: TargetRequest, connection: Amqp10Connection, *, checks_queue: bool = True
    ) -> None:
        super().__init__(request, connection, sends=True)
        self._on_outcomes = request.on_outcomes
        self._checks_queue = checks_queue
        self.queue_probe: transport.Link | None = None
        self._on_room = request.on_room
        self._window = request.window
        self._sent_count = 0
        self._unsettled = 0
        self._max_message_size = 0  # the peer's limit in bytes; 0 for none
        self.link.attach(source=Source(), target=Target(address=self.endpoint.address))
        self.touch()

    def _check_attach(self, remote: transport.Attach) -> bool:
        """Store the max-message-size. For RabbitMQ 3, attach the queue probe, and return False."""
        self._max_message_size = remote.max_message_size or 0
        address = self.endpoint.address or ""
        if not self.peer_product.startswith("RabbitMQ 3."):
            return True
        if not address.isascii():
            text = "RabbitMQ 3 does not find names over 1.0 that are not ASCII: send over amqp091"
            self.fail(LinkError(text, sent_by_peer=True, permanent=True))
            return False
        if not self._checks_queue or not address.startswith(_QUEUE_PREFIX_OF_3):
            return True
        self.queue_probe = self.session.link(f"{self.link.name}-asks", sends=False)
        self.queue_probe.attach(source=Source(address=address), target=Target())
        return False

    def on_attach(self, link: transport.Link) -> None:
        """Check the peer's attach. The attach of the queue probe opens the link."""
        if link is not self.queue_probe:
            super().on_attach(link)
        elif link.remote is not None and link.remote.source is not None:
            self.queue_probe = None
            link.detach()
            self._set_opened()

    @property
    def room(self) -> int:
        """The number of messages that can be sent now."""
        if self._connection.paused or not self.alive or self.session.blocked:
            return 0
        return min(self.link.credit, self._window - self._unsettled) if self.has_turn else 0

    @property
    def waits(self) -> bool:
        """Whether the peer has blocked publishing: never, as 1.0 uses link credit instead."""
        return False

    def on_room(self) -> None:
        """Send waiting messages, if the link is open."""
        if self.opened.done():
            self._on_room()

    def on_writable(self, session: transport.Session) -> None:  # noqa: ARG002  (its own)
        """Record that the link may be able to send again."""
        self._connection.unblocked_links[self] = None

    def on_flow(self, link: transport.Link) -> None:
        """Record that the link may be able to send again. Answer a drain."""
        self._connection.unblocked_links[self] = None
        if link is self.link and link.drain:
            self._on_room()
            link.drained()

    def send(self, messages: Sequence[Sent]) -> None:
        """Send messages. Messages that exceed the max-message-size are refused immediately."""
        sent_bytes = 0
        for outgoing, delivery in messages:
            octets = outgoing.octets
            if self._max_message_size and len(octets) > self._max_message_size:
                limit = self._max_message_size
                text = f"{len(octets)} bytes exceed the target's max-message-size, {limit}"
                self._on_outcomes([(delivery, Outcome("too-large", "", text, final=True))])
                continue
            self._sent_count += 1
            message_format = outgoing.message_format
            link_delivery = self.link.send(
                self._sent_count.to_bytes(8, "big"), octets, message_format=message_format
            )
            link_delivery.context = delivery
            self._unsettled += 1
            sent_bytes += len(octets)
        self.count_sent(sent_bytes)
        self.touch()

    def flush(self) -> None:
        """Do nothing: messages are sent immediately."""

    def on_disposition(self, delivery: transport.LinkDelivery) -> None:
        """Report the outcome of a message, and settle it."""
        self._connection.unblocked_links[self] = None
        state = delivery.state
        if delivery.done or (not delivery.settled and (state is None or type(state) is Received)):
            return  # was reported before, or is not a terminal state
        outcome = ACCEPTED if type(state) is Accepted else self._outcome_of(state)
        delivery.update(state)
        self._unsettled -= 1
        source_delivery, delivery.context = delivery.context, None
        self._on_outcomes([(source_delivery, outcome)])

    def _outcome_of(self, state: Any) -> Outcome:
        """Convert a terminal delivery state (Part 3, 3.4), except accepted, to an `Outcome`."""
        if isinstance(state, Rejected):
            error = state.error
            if error is not None:
                text = str(error.description or "")
                if error.condition == RESOURCE_LIMIT_EXCEEDED:
                    return Outcome("full", str(error.condition), text)
                return Outcome("rejected", str(error.condition), text, final=True)
            if "RabbitMQ" in self.peer_product:
                return Outcome(
                    "full", "", "RabbitMQ rejected it without an error: the queue may be full"
                )
            return Outcome("rejected")
        if isinstance(state, Modified):
            return Outcome("modified", final=bool(state.undeliverable_here))
        if isinstance(state, Released):
            return Outcome("released")
        return Outcome("released", "", "settled without an outcome")


def _is_redelivered(octets: bytes) -> bool:
    """Whether the header of a message marks it as possibly delivered before."""
    header = header_of(octets)
    return header is not None and bool(header.delivery_count or header.first_acquirer is False)


async def open_connection(endpoint: Endpoint) -> Amqp10Connection:
    """Open a connection, and wait until the peer has opened it, too."""
    return await dial(Amqp10Connection(endpoint))


async def open_source(request: SourceRequest) -> Amqp10Source:
    """Open a receiver."""
    return await attach_link(
        request, open_connection, lambda connection: Amqp10Source(request, connection)
    )


async def open_target(request: TargetRequest) -> Amqp10Target:
    """Open a sender.

    For RabbitMQ 3, a queue probe checks that the queue exists; see `Amqp10Target`. If the probe
    fails for another reason than a missing queue, the sender is opened without it: a stream, for
    example, cannot be read from RabbitMQ 3 over 1.0.
    """
    attempts: list[Amqp10Target] = []

    def make_target(connection: Amqp10Connection) -> Amqp10Target:
        attempts.append(Amqp10Target(request, connection, checks_queue=not attempts))
        return attempts[-1]

    try:
        return await attach_link(request, open_connection, make_target)
    except LinkError as error:
        if not attempts or attempts[0].queue_probe is None or NOT_FOUND in str(error):
            raise
        return await attach_link(request, open_connection, make_target)
