"""The ends of a bridge that speak AMQP 1.0, by our own transport: payloads go through untouched.

A link has a session of its own; the sessions of one connection go on where one of them ends.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Sequence
from typing import Any

from amqp10msg import __version__
from amqp10msg.composite import Error
from amqp10msg.delivery import Accepted, Modified, Received, Rejected, Released, Source, Target
from amqp10msg.delivery.filters import StreamOffset
from amqp10msg.net import transport
from amqp10msg.net.bridge.sending import header_of
from amqp10msg.net.bridge.terms import (
    ACCEPTED,
    NO_COUNT,
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
from amqp10msg.net.bridge.urls import Endpoint
from amqp10msg.net.bridge.wire import AttachedLink, Wire, attached, dial, refuse
from amqp10msg.net.transport import SenderSettleMode
from amqp10msg.wire.errors import (
    CONNECTION_FORCED,
    DETACH_FORCED,
    INTERNAL_ERROR,
    INVALID_FIELD,
    NOT_ALLOWED,
    NOT_FOUND,
    RESOURCE_DELETED,
    STOLEN,
    UNAUTHORIZED_ACCESS,
)

_MAX_FRAME = 1 << 16
#: Bytes for a peer that does not read, from which on it is not read either.
_CHOKED = 1 << 20
#: Sessions of a connection, less one.
_CHANNEL_MAX = 255
#: Seconds between looks for the answer to the end of a session.
_LOOK = 0.005
#: Frames that are processed in a turn of the loop, and messages that are taken at once.
_FRAMES, _RUN = 200, 100
#: Conditions that no other attempt makes good.
_PERMANENT = {NOT_FOUND, UNAUTHORIZED_ACCESS, NOT_ALLOWED, INVALID_FIELD}
#: Conditions of a peer that goes or fails, whatever was sent to it.
_AMBIGUOUS = {CONNECTION_FORCED, INTERNAL_ERROR, RESOURCE_DELETED, DETACH_FORCED, STOLEN}


class Amqp10Connection(Wire, transport.Handler):
    """A client's connection, from SASL to what ends it; each link has a session of its own.

    `stirred` are links that may have room since the last turn.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(endpoint)
        self._left = 0  # frames of this turn
        self.stirred: dict[AttachedLink, None] = {}
        self.opened: asyncio.Future[None] = self.loop.create_future()
        hostname = endpoint.server_name or endpoint.host
        if endpoint.virtual_host is not None:
            hostname = f"vhost:{endpoint.virtual_host}"  # as RabbitMQ wants it
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
            # Peers may wait for twice as long as they say (Part 2, 2.4.5), and so does this one.
            idle_time_out=max(endpoint.heartbeat * 500, 1_000),
            properties={"product": "amqp10msg bridge", "version": __version__},
        )
        self.engine = transport.Connection(self, opens, sasl, run=_RUN)
        self.engine.open()

    async def handshake(self) -> None:
        """Wait until the peer has opened."""
        await self.opened

    def session_of(self, link: SessionLink) -> transport.Session:
        """Begin a session.

        A `LinkError` says that there are as many as the peer takes: it has not answered the end of
        some.
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
        """Begin to speak."""
        self.flush()

    def receive(self, data: bytes) -> None:
        """Process bytes of the peer."""
        self.engine.feed(data)
        if self.engine.authenticated:
            self.process()
        else:
            self.flush()

    def process(self) -> None:
        """Process frames that came, so many in a turn of the loop: other routes have theirs."""
        if self._failed:
            return
        self._left = _FRAMES
        super().process()
        stirred, self.stirred = self.stirred, {}
        for link in stirred:
            if link.alive:
                link.on_room()
        if self.engine.over:
            self.fail(LinkError("the peer closed the connection"))
        self.touch()

    def flush(self) -> None:
        """Send what is pending, if the peer reads."""
        super().flush()
        self.end_turn()

    def turn_is_over(self) -> bool:
        """Whether others have their turn before the next frame."""
        self._left -= 1
        return self._failed or self._left <= 0

    def wants_input(self) -> bool:
        """Whether to read: not where it is to wait, or asks for answers that it does not read."""
        choked = self.paused and self.engine.pending > _CHOKED
        return not (self.held or self._behind or choked)

    def took(self, count: int) -> None:
        """Count the messages of one step for the turn."""
        self._left -= count - 1

    def _beat(self) -> None:
        """Show signs of life, and look for the peer's."""
        now = self.loop.time()
        patience = float(max(self.endpoint.heartbeat, 2))
        if now - self._heard > patience and self._reading:
            self.fail(LinkError(f"nothing came for {patience:g} s"))
            return
        deadline = self.engine.tick(now)
        self.flush()
        later = now + patience / 4
        self.call_at(min(later, max(deadline or later, now + 0.01)), self._beat)

    # Called by the transport.

    def on_authenticated(self, user: str | None) -> None:  # noqa: ARG002  (ours)
        """Begin to show signs of life."""
        self._beat()

    def on_refused(self, error: transport.SaslError) -> None:
        """End: the peer does not let this end in."""
        self.fail(LinkError(str(error), permanent=error.refused))

    def on_open(self) -> None:
        """Learn what the peer is, and how many sessions it takes."""
        remote = self.engine.remote
        if remote is None:
            return
        said = {str(name): value for name, value in (remote.properties or {}).items()}
        self.product = f"{said.get('product', '')} {said.get('version', '')}"
        self.max_links = min(remote.channel_max, _CHANNEL_MAX) + 1
        if not self.opened.done():
            self.opened.set_result(None)

    def on_close(self, error: Error | None, *, fault: bool) -> None:
        """End: the peer closed the connection, or broke a rule."""
        prefix = "the peer broke a rule: " if fault else ""
        links: list[Any] = list(self.links)
        # What the only one asked for may be what it refuses.
        new = not self.opened.done() or (len(links) == 1 and not links[0].in_use)
        self.fail(error_of("connection", error, prefix, new=new))

    def on_begin(self, session: transport.Session) -> None:  # noqa: ARG002  (ours have others)
        """Refuse sessions that nobody asked for."""
        text = "the peer broke a rule: it began a session, where only this end does"
        self.fail(LinkError(text, said=True))

    # The end.

    def failing(self, lost: LinkError) -> None:
        """Send the reason, where the peer broke a rule."""
        if self.engine.authenticated and not (self.paused or self.is_closing):
            self._stream.write(self.engine.take())
        refuse(self.opened, lost)

    async def close_gracefully(self) -> None:
        """Send what is pending, and close."""
        self.engine.close()
        self.flush()
        await asyncio.shield(self.closed)


class SessionLink(AttachedLink, transport.Handler):
    """What has one session of a connection, and is called with what comes in it."""

    def __init__(self, request: Request, connection: Amqp10Connection) -> None:
        self.endpoint = request.endpoint
        self.session = connection.session_of(self)
        self._connection = connection
        self._ended = False  # the transport ends the session itself
        super().__init__(connection, request.on_lost)

    @property
    def in_use(self) -> bool:
        """Whether the peer has agreed to what was asked: a refusal is of another cause then."""
        raise NotImplementedError

    def touch(self) -> None:
        """Send what is pending at the end of this turn of the loop."""
        self._connection.touch()

    def on_transfer(self, delivery: transport.LinkDelivery) -> None:
        """Take one delivery as some are taken."""
        self.on_transfers(delivery.link, [delivery])

    def on_end(self, session: transport.Session, error: Error | None) -> None:  # noqa: ARG002  (its own)
        """End: the peer ended the session, or broke a rule of it."""
        self._ended = True
        self._end("session", error)

    def _end(self, what: str, error: Error | None) -> None:
        self.fail(error_of(what, error, new=not self.in_use, product=self.product))

    def leave(self) -> None:
        """End the session, and wait for nothing."""
        if not (self.session.ended or self._ended):
            self.session.end()
        self.touch()

    async def goodbye(self) -> None:
        """Send what is pending, and end the session."""
        self.leave()
        while not self._connection.is_ended(self.session):
            await asyncio.sleep(_LOOK)


class Amqp10Link(SessionLink):
    """A session with one link of interest."""

    def __init__(self, request: Request, connection: Amqp10Connection, *, sends: bool) -> None:
        self.opened: asyncio.Future[None] = connection.loop.create_future()
        super().__init__(request, connection)
        self.link = self.session.link(f"bridge-{uuid.uuid4()}", sends=sends)
        self.link.snd_settle_mode = SenderSettleMode.UNSETTLED

    async def attach(self) -> None:
        """Wait until the link is attached."""
        await self.opened

    @property
    def in_use(self) -> bool:
        """Whether the peer has agreed to the link."""
        return self.opened.done()

    def on_attach(self, link: transport.Link) -> None:
        """See that the link is what was asked for."""
        if link is not self.link or link.remote is None:
            link.refuse(_NO_LINKS)  # nobody asked for it
            return
        end: Any = link.remote.target if link.sends else link.remote.source
        # Without one it is refused: a detach follows (Part 2, 2.6.3).
        if end is not None and self._agrees(link.remote):
            self._open()

    def _agrees(self, remote: transport.Attach) -> bool:
        """Look at how the peer attached; return whether the link may be used now."""
        raise NotImplementedError

    def _open(self) -> None:
        """Take note that the link may be used."""
        if not self.opened.done():
            self.opened.set_result(None)

    def on_detach(self, link: transport.Link, error: Error | None, **_: bool) -> None:
        """End: the peer detached the link, or closed it."""
        if link is self.link:
            self._end("link", error)

    def failing(self, lost: LinkError) -> None:
        """Notify whoever waits."""
        refuse(self.opened, lost)


def error_of(
    what: str, error: Error | None, prefix: str = "", *, new: bool, product: str = ""
) -> LinkError:
    """Return why a connection, a session or a link ended.

    It is `new` where it was not open yet.
    """
    if error is None:
        return LinkError(f"the peer closed the {what}", scope=what)
    name = str(error.condition)
    # What ends a session or connection may be the fault of a message; what refuses a link is not.
    permanent = name in _PERMANENT and new
    reason = f"{prefix}{name}: {error.description}"
    if name == INVALID_FIELD and product.startswith("RabbitMQ 3."):
        reason += "; RabbitMQ 3 has other addresses: give address_version=1"
    return LinkError(
        reason,
        said=name not in _AMBIGUOUS,
        permanent=permanent,
        failed=name == INTERNAL_ERROR,
        scope=what,
        # Of a connection, it is a virtual host that is not found.
        missing=permanent and name == NOT_FOUND and what != "connection",
    )


_NO_LINKS = Error(NOT_ALLOWED, "this end offers no links")
_STATES = {
    Settle.ACCEPT: Accepted(),
    Settle.RELEASE: Released(),
    Settle.REJECT: Rejected(),
}

#: Products that say how many messages wait for credit.
_COUNTING = ("RabbitMQ ", "amqp10msg ")

#: Times the window that may be unsettled, where a peer sends more than its credit.
_EXCESS = 4

#: What the address of a queue begins with before RabbitMQ 4.
_QUEUE_BEFORE_4 = "/amq/queue/"


class Amqp10Source(Amqp10Link):
    """A receiver of an address; deliveries come by `receive`."""

    def __init__(self, request: SourceRequest, connection: Amqp10Connection) -> None:
        super().__init__(request, connection, sends=False)
        self._receive = request.receive
        self._window = request.window
        self._overflow = request.overflow
        self._incomplete: Oversized | None = None
        self._owed = 0
        self._stopped = False
        self._answer: asyncio.Future[None] | None = None
        source = Source(address=self.endpoint.address)
        start = self.endpoint.start
        if start is not None:
            source.filter = {StreamOffset.SYMBOL: StreamOffset(start).to_described()}
        self.link.attach(source=source, target=Target())
        # Held to, and not said: a broker might do without our asking what it does with messages
        # that a receiver does not take.
        self.link.max_message_size = request.max_message
        self.link.overflow = self._large
        self.link.excess = _EXCESS * self._window
        self.touch()

    def _large(self) -> transport.Sink:
        try:
            large = self._incomplete = self._overflow()
        except OSError as error:
            self._cannot_keep(error)
            return bytearray()  # of one frame: the session has ended
        large.on_fault = self._cannot_keep
        return large

    def _cannot_keep(self, error: OSError) -> None:
        """End this link, and keep the connection: its other links can go on."""
        self.fail(no_room_for_large(error))

    def _agrees(self, remote: transport.Attach) -> bool:
        """Grant credit, unless the peer would settle before we do."""
        if remote.snd_settle_mode is SenderSettleMode.SETTLED:
            text = "this source sends settled: what is lost on the way would be lost for good"
            self.fail(LinkError(text, said=True, permanent=True))
            return False
        if self.endpoint.offset is not None and self.product.startswith("RabbitMQ 3.10."):
            text = "RabbitMQ 3.10 gives out nothing of a stream over 1.0: read it over amqp091"
            self.fail(LinkError(text, said=True, permanent=True))
            return False
        self.link.grant(self._window)  # 0 for one that only asks
        return True

    @property
    def incomplete(self) -> bool:
        """Whether a message has begun to come, and the rest of it has not."""
        return self.link.is_partial

    def on_transfers(self, link: transport.Link, deliveries: list[transport.LinkDelivery]) -> None:
        """Hand deliveries over."""
        self._connection.took(len(deliveries))
        if not self.alive or link is not self.link:
            return
        made = []
        for delivery in deliveries:
            octets = delivery.payload
            if octets is None:  # aborted
                self._discard()
                self._owe()
                continue
            large, self._incomplete = self._incomplete, None
            again = _again(octets)
            one = SourceDelivery(octets, redelivered=again, tag=delivery, link=self, large=large)
            if delivery.message_format:
                one.message_format = delivery.message_format
            made.append(one)
        if made:
            self._receive(made)

    def _discard(self) -> None:
        if self._incomplete is not None:
            self._incomplete.discard()
            self._incomplete = None

    async def close(self, wait: float) -> None:
        """Send what is pending, and close; give up after this many seconds."""
        await super().close(wait)
        self._discard()

    def abort(self) -> None:
        """Leave the connection at once; nothing is called any more."""
        super().abort()
        self._discard()

    def settle(self, deliveries: Sequence[SourceDelivery], how: Settle) -> None:
        """Settle deliveries of this link; those of another one stay as they are."""
        alive, state, settled = self.alive, _STATES[how], 0
        for delivery in deliveries:
            if delivery.link is self:
                delivery.link = None
                if alive:
                    tag, delivery.tag = delivery.tag, None
                    tag.update(state)
                    settled += 1
        if settled:
            self._owe(settled)
            self.touch()

    def _owe(self, count: int = 1) -> None:
        """Grant credit again, for many deliveries at a time."""
        self._owed += count
        if self._owed * 4 >= self._window and not self._stopped:
            self.link.grant(self._owed)
            self._owed = 0

    async def depth(self) -> int | None:
        """Ask how many messages wait for credit; the answer to the last time is returned."""
        # RabbitMQ 3 takes every flow for new credit.
        if self.alive and not self.product.startswith("RabbitMQ 3."):
            self.link.ask()
            self.touch()
        return self.link.available

    async def count(self) -> Depth:
        """Ask how many messages wait for credit.

        RabbitMQ and this library's server say so. What others say may be zero whatever there is:
        they are asked to use the credit up, and have nothing where nothing comes (Part 2, 2.6.7).
        """
        # What comes first may answer an older question.
        for _ in range(2):
            await self._asked(self.link.ask)
        available = self.link.available
        if available or self.product.startswith(_COUNTING):
            held = (self.link.properties or {}).get(transport.ACQUIRED_BY_OTHERS)
            return Depth(ready=available, unacknowledged=held if isinstance(held, int) else None)
        if self._stopped or self.link.credit <= 0:
            return Depth(why=NO_COUNT)
        self._owed = 0
        await self._asked(self.link.exhaust)
        self.link.grant(self._window - len(self.session.incoming))
        self.touch()
        return Depth(ready=0)

    async def _asked(self, ask: Callable[[], None]) -> None:
        """Ask the peer, and wait for its flow."""
        if not self.alive:
            raise LinkError("the connection ended")
        self._answer = self._connection.loop.create_future()
        ask()
        self.touch()
        await self._answer

    def on_flow(self, link: transport.Link) -> None:
        """Take the answer to what was asked; one that is to use the credit up has done so."""
        answer = self._answer
        if link is not self.link or answer is None or answer.done():
            return
        if not link.drain or link.credit <= 0:
            answer.set_result(None)

    def failing(self, lost: LinkError) -> None:
        """Notify those who wait for an answer."""
        super().failing(lost)
        self._discard()
        refuse(self._answer, lost)

    def stop(self) -> None:
        """Ask for no more deliveries."""
        if self.alive:
            self._stopped = True
            self.link.revoke()
            self.touch()

    def resume(self) -> None:
        """Grant credit again, after `stop`."""
        if self.alive:
            self._stopped = False
            self._owed = 0
            self.link.grant(self._window - len(self.session.incoming))
            self.touch()


class Amqp10Target(Amqp10Link):
    """A sender to an address; outcomes come by `on_outcomes`.

    RabbitMQ 3 says accepted over 1.0 for what no queue takes. So it is asked for the queue first,
    as a receiver would.

    `asked` is the link that asks, while there is no answer.
    """

    def __init__(
        self, request: TargetRequest, connection: Amqp10Connection, *, asks: bool = True
    ) -> None:
        super().__init__(request, connection, sends=True)
        self._outcomes = request.on_outcomes
        self._asks = asks
        self.asked: transport.Link | None = None
        self._on_room = request.on_room
        self._window = request.window
        self._sent = 0
        self._unsettled = 0
        self._longest = 0
        self.link.attach(source=Source(), target=Target(address=self.endpoint.address))
        self.touch()

    def _agrees(self, remote: transport.Attach) -> bool:
        """Note how long a message may be; see that RabbitMQ 3 has the queue, or none would say."""
        self._longest = remote.max_message_size or 0
        address = self.endpoint.address or ""
        if not self.product.startswith("RabbitMQ 3."):
            return True
        if not address.isascii():
            text = "RabbitMQ 3 finds nothing over 1.0 whose name is not ASCII: send over amqp091"
            self.fail(LinkError(text, said=True, permanent=True))
            return False
        if not self._asks or not address.startswith(_QUEUE_BEFORE_4):
            return True
        self.asked = self.session.link(f"{self.link.name}-asks", sends=False)
        self.asked.attach(source=Source(address=address), target=Target())
        return False

    def on_attach(self, link: transport.Link) -> None:
        """Begin to send, where it was asked for the queue: it is there."""
        if link is not self.asked:
            super().on_attach(link)
        elif link.remote is not None and link.remote.source is not None:
            self.asked = None
            link.detach()
            self._open()

    @property
    def room(self) -> int:
        """How many messages may be sent now."""
        if self._connection.paused or not self.alive or self.session.blocked:
            return 0
        return min(self.link.credit, self._window - self._unsettled) if self.has_turn else 0

    @property
    def waits(self) -> bool:
        """Whether the peer takes nothing for now: 1.0 says so by its credit alone."""
        return False

    def on_room(self) -> None:
        """Go on sending: there may be credit, or what was sent is settled."""
        if self.opened.done():
            self._on_room()

    def on_writable(self, session: transport.Session) -> None:  # noqa: ARG002  (its own)
        """Take note that there may be room."""
        self._connection.stirred[self] = None

    def on_flow(self, link: transport.Link) -> None:
        """Take note that there may be room, and use up credit that the peer wants back."""
        self._connection.stirred[self] = None
        if link is self.link and link.drain:
            self._on_room()
            link.drained()

    def send(self, messages: Sequence[Sent]) -> None:
        """Send messages; what is too long for the peer has its outcome at once."""
        charged = 0
        for outgoing, delivery in messages:
            octets = outgoing.octets
            if self._longest and len(octets) > self._longest:
                text = f"{len(octets)} bytes, and the target takes {self._longest} at most"
                self._outcomes([(delivery, Outcome("too-large", "", text, final=True))])
                continue
            self._sent += 1
            kind = outgoing.message_format
            sent = self.link.send(self._sent.to_bytes(8, "big"), octets, message_format=kind)
            sent.context = delivery
            self._unsettled += 1
            charged += len(octets)
        self.charge(charged)
        self.touch()

    def on_disposition(self, delivery: transport.LinkDelivery) -> None:
        """Report an outcome."""
        self._connection.stirred[self] = None
        state = delivery.state
        if delivery.done or (not delivery.settled and (state is None or type(state) is Received)):
            return  # not terminal
        outcome = ACCEPTED if type(state) is Accepted else self._outcome_of(state)
        delivery.update(state)
        self._unsettled -= 1
        sent, delivery.context = delivery.context, None
        self._outcomes([(sent, outcome)])

    def _outcome_of(self, state: Any) -> Outcome:
        if isinstance(state, Rejected):
            error = state.error
            if error is not None:
                text = str(error.description or "")
                return Outcome("rejected", str(error.condition), text, final=True)
            if "RabbitMQ" in self.product:
                return Outcome("full", "", "a queue of RabbitMQ rejected it, as full ones do")
            return Outcome("rejected")
        if isinstance(state, Modified):
            return Outcome("modified", final=bool(state.undeliverable_here))
        if isinstance(state, Released):
            return Outcome("released")
        return Outcome("released", "", "settled without an outcome")


def _again(octets: bytes) -> bool:
    """Whether the header says that it may have been delivered before."""
    header = header_of(octets)
    return header is not None and bool(header.delivery_count or header.first_acquirer is False)


async def connected(at: Endpoint) -> Amqp10Connection:
    """Return a connection that the peer has opened, too."""
    return await dial(Amqp10Connection(at))


async def open_source(request: SourceRequest) -> Amqp10Source:
    """Attach to a source."""
    return await attached(request, connected, lambda at: Amqp10Source(request, at))


async def open_target(request: TargetRequest) -> Amqp10Target:
    """Attach to a target."""
    made: list[Amqp10Target] = []

    def make(at: Amqp10Connection) -> Amqp10Target:
        asks = not made  # a queue that gives nothing out, as a stream there, has its sender still
        made.append(Amqp10Target(request, at, asks=asks))
        return made[-1]

    try:
        return await attached(request, connected, make)
    except LinkError as error:
        if not made or made[0].asked is None or NOT_FOUND in str(error):
            raise
        return await attached(request, connected, make)
