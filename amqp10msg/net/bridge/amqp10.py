"""The ends of a bridge that speak AMQP 1.0, by our own transport: payloads go through untouched.

A connection has one session and one link.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from typing import Any

from amqp10msg import __version__
from amqp10msg.composite import Error
from amqp10msg.delivery import Accepted, Modified, Received, Rejected, Released, Source, Target
from amqp10msg.delivery.filters import StreamOffset
from amqp10msg.net import transport
from amqp10msg.net.bridge.sending import header_of
from amqp10msg.net.bridge.terms import (
    ACCEPTED,
    Depth,
    LinkError,
    OnLost,
    Outcome,
    Outgoing,
    Oversized,
    Settle,
    SourceDelivery,
    SourceRequest,
    TargetRequest,
)
from amqp10msg.net.bridge.urls import Endpoint
from amqp10msg.net.bridge.wire import Wire, dial
from amqp10msg.net.transport import SenderSettleMode

_MAX_FRAME = 1 << 16
#: Bytes for a peer that does not read, from which on it is not read either.
_CHOKED = 1 << 20
#: Frames that are processed in a turn of the loop.
_FRAMES = 200
#: Conditions that no other attempt makes good.
_PERMANENT = {
    *{"amqp:not-found", "amqp:unauthorized-access", "amqp:not-allowed", "amqp:invalid-field"}
}
#: Conditions of a peer that goes or fails, whatever was sent to it.
_AMBIGUOUS = {
    *{"amqp:connection:forced", "amqp:internal-error", "amqp:resource-deleted"},
    *{"amqp:link:detach-forced", "amqp:link:stolen"},
}

#: The condition of a peer that failed at what it was doing.
_FAILED = "amqp:internal-error"


class Peer(Wire, transport.Handler):
    """A client's connection with one session and one link, from SASL to what ends it.

    Attributes:
        opened: done once the link is attached.
        link: the link.
    """

    def __init__(self, endpoint: Endpoint, on_lost: OnLost) -> None:
        super().__init__(endpoint, on_lost)
        self._held = False
        self._left = 0  # frames of this turn
        self.opened: asyncio.Future[None] = self._loop.create_future()
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
            channel_max=0,
            # Peers may wait for twice as long as they say (Part 2, 2.4.5), and so does this one.
            idle_time_out=max(endpoint.heartbeat * 500, 1_000),
            properties={"product": "amqp10msg bridge", "version": __version__},
        )
        self._engine = transport.Connection(self, opens, sasl)
        self._engine.open()
        self._session = self._engine.begin()
        self.link = self._session.link(f"bridge-{uuid.uuid4()}", sends=self.sends)
        self.attach(self.link)

    #: Whether the link sends.
    sends = False

    def attach(self, link: transport.Link) -> None:
        """Attach this end of the link."""
        raise NotImplementedError

    # Bytes.

    def begin(self) -> None:
        """Begin to speak."""
        self.flush()

    def receive(self, data: bytes) -> None:
        """Process bytes of the peer."""
        self._engine.feed(data)
        if self._engine.authenticated:
            self.process()
        else:
            self.flush()

    def process(self) -> None:
        """Process frames that came, so many in a turn of the loop: other routes have theirs."""
        if self._failed:
            return
        self._left = _FRAMES
        try:
            super().process()
        except OSError as error:
            self.fail(LinkError(f"a message that is too large cannot be set aside: {error}"))
            return
        self.read()
        if self._engine.over:
            self.fail(LinkError("the peer closed the connection"))
        self.touch()

    def step(self) -> bool:
        """Process one frame; return whether there was a whole one."""
        return self._engine.step()

    def take(self) -> bytes:
        """Take the bytes that are to be sent now."""
        return self._engine.take()

    def turn_is_over(self) -> bool:
        """Whether others have their turn before the next frame."""
        self._left -= 1
        return self._failed or not self._left

    def wants_input(self) -> bool:
        """Whether to read: not where it is to wait, or asks for answers that it does not read."""
        choked = self.paused and self._engine.pending > _CHOKED
        return not (self._held or self._behind or choked)

    def read(self) -> None:
        """Called when all that came is processed."""

    def hold(self, held: bool) -> None:
        """Stop reading from the connection, or read on."""
        self._held = held
        self.read_or_not()

    def _beat(self) -> None:
        """Show signs of life, and look for the peer's."""
        now = self._loop.time()
        patience = float(max(self.endpoint.heartbeat, 2))
        if now - self._heard > patience and self._reading:
            self.fail(LinkError(f"nothing came for {patience:g} s"))
            return
        deadline = self._engine.tick(now)
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
        """Learn what the peer is."""
        remote = self._engine.remote
        properties = (remote.properties if remote is not None else None) or {}
        said = {str(name): value for name, value in properties.items()}
        self.product = f"{said.get('product', '')} {said.get('version', '')}"

    def on_attach(self, link: transport.Link) -> None:
        """See that the link is what was asked for."""
        if link is not self.link or link.remote is None:
            link.refuse(Error("amqp:not-allowed", "this end offers no links"))
            return
        end: Any = link.remote.target if link.sends else link.remote.source
        if end is None:
            return  # refused: a detach follows (Part 2, 2.6.3)
        if self.attached(link.remote) and not self.opened.done():
            self.opened.set_result(None)

    def attached(self, remote: transport.Attach) -> bool:
        """Called when the peer attached; return whether the link may be used now."""
        raise NotImplementedError

    @property
    def in_use(self) -> bool:
        """Whether the peer has agreed to the link: a refusal after that is of another cause."""
        return self.opened.done()

    def on_detach(self, link: transport.Link, error: Error | None, **_: bool) -> None:
        """End: the peer detached the link, or closed it."""
        if link is self.link:
            self._ended("link", error)

    def on_end(self, _: transport.Session, error: Error | None) -> None:
        """End: the peer closed the session."""
        self._ended("session", error)

    def on_close(self, error: Error | None, *, fault: bool) -> None:
        """End: the peer closed the connection, or broke a rule."""
        self._ended("connection", error, "the peer broke a rule: " if fault else "")

    def _ended(self, what: str, error: Error | None, prefix: str = "") -> None:
        if error is None:
            self.fail(LinkError(f"the peer closed the {what}", scope=what))
            return
        name = str(error.condition)
        # What ends a session or connection may be the fault of a message; what refuses a link is
        # not.
        permanent = name in _PERMANENT and not self.in_use
        reason = f"{prefix}{name}: {error.description}"
        if name == "amqp:invalid-field" and self.product.startswith("RabbitMQ 3."):
            reason += "; RabbitMQ 3 has other addresses: give address_version=1"
        said, failed = name not in _AMBIGUOUS, name == _FAILED
        self.fail(LinkError(reason, said=said, permanent=permanent, failed=failed, scope=what))

    # The end.

    def failing(self, lost: LinkError) -> None:
        """Send the reason, where the peer broke a rule."""
        if self._engine.authenticated and not (self.paused or self.is_closing):
            self._stream.write(self._engine.take())
        if not self.opened.done():
            self.opened.set_exception(lost)
            self.opened.exception()  # whoever waits for it sees it; nobody has to

    async def close_gracefully(self) -> None:
        """Send what is pending, and close."""
        self._engine.close()
        self.flush()
        await asyncio.shield(self.closed)


async def connect(make: Callable[[], Any], at: Endpoint) -> Any:
    """Connect, and wait until the link is attached.

    Args:
        make: returns a new `Peer`.
        at: where it is.

    Raises:
        LinkError: it did not succeed.
    """
    made = make()

    async def ready() -> None:
        await made.opened

    await dial(made, at, ready)
    return made


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


class Amqp10Source(Peer):
    """A receiver of an address; deliveries come by `receive`."""

    def __init__(self, request: SourceRequest) -> None:
        self._receive = request.receive
        self._window = request.window
        self._max_message = request.max_message
        self._overflow = request.overflow
        self._incomplete: Oversized | None = None
        self._owed = 0
        self._stopped = False
        self._answer: asyncio.Future[None] | None = None
        super().__init__(request.endpoint, request.on_lost)

    def attach(self, link: transport.Link) -> None:
        """Attach as a receiver."""
        source = Source(address=self.endpoint.address)
        offset = self.endpoint.offset
        if offset is not None:
            start: Any = int(offset) if offset.isascii() and offset.isdecimal() else offset
            source.filter = {StreamOffset.SYMBOL: StreamOffset(start).to_described()}
        link.snd_settle_mode = SenderSettleMode.UNSETTLED
        link.attach(source=source, target=Target())
        # Held to, and not said: a broker might do without our asking what it does with messages
        # that a receiver does not take.
        link.max_message_size = self._max_message
        link.overflow = self._large
        link.excess = _EXCESS * self._window

    def _large(self) -> Oversized:
        self._incomplete = self._overflow()
        return self._incomplete

    def attached(self, remote: transport.Attach) -> bool:
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

    def on_transfer(self, delivery: transport.LinkDelivery) -> None:
        """Hand over a delivery."""
        octets = delivery.payload
        if octets is None:  # aborted
            self._discard()
            self._owe()
            return
        large, self._incomplete = self._incomplete, None
        again = _again(octets)
        self._receive(
            SourceDelivery(octets, redelivered=again, tag=delivery, link=self, large=large)
        )

    def _discard(self) -> None:
        if self._incomplete is not None:
            self._incomplete.discard()
            self._incomplete = None

    def abort(self) -> None:
        """Drop the connection at once; nothing is called any more."""
        super().abort()
        self._discard()

    def settle(self, delivery: SourceDelivery, how: Settle) -> None:
        """Settle a delivery of this link; of another one, do nothing."""
        if delivery.link is not self:
            return
        delivery.link = None
        if self._failed:
            return
        tag, delivery.tag = delivery.tag, None
        tag.update(_STATES[how])
        self._owe()
        if not self._flushing:
            self.touch()

    def _owe(self) -> None:
        """Grant credit again, for many deliveries at a time."""
        self._owed += 1
        if self._owed * 4 >= self._window and not self._stopped:
            self.link.grant(self._owed)
            self._owed = 0

    async def depth(self) -> int | None:
        """Ask how many messages wait for credit; the answer to the last time is returned."""
        # RabbitMQ 3 takes every flow for new credit.
        if not self._failed and not self.product.startswith("RabbitMQ 3."):
            self.link.ask()
            self.touch()
        return self.link.available

    async def count(self) -> Depth:
        """Ask how many messages wait for credit.

        RabbitMQ and this library's server say so. What others say may be zero whatever there is:
        they are asked to use the credit up, and have nothing where nothing comes (Part 2, 2.6.7).

        Raises:
            LinkError: the link ended before the answer.
        """
        # What comes first may answer an older question.
        for _ in range(2):
            await self._asked(self.link.ask)
        available = self.link.available
        if available or self.product.startswith(_COUNTING):
            held = (self.link.properties or {}).get(transport.ACQUIRED_BY_OTHERS)
            return Depth(ready=available, unacknowledged=held if isinstance(held, int) else None)
        if self._stopped or self.link.credit <= 0:
            return Depth(why="it does not say how many messages it has")
        self._owed = 0
        await self._asked(self.link.exhaust)
        self.link.grant(self._window - len(self._session.incoming))
        self.touch()
        return Depth(ready=0)

    async def _asked(self, ask: Callable[[], None]) -> None:
        """Ask the peer, and wait for its flow."""
        if self._failed:
            raise LinkError("the connection ended")
        self._answer = self._loop.create_future()
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
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(lost)
            self._answer.exception()  # whoever waits for it sees it; nobody has to

    def stop(self) -> None:
        """Ask for no more deliveries."""
        if not self._failed:
            self._stopped = True
            self.link.revoke()
            self.touch()


class Amqp10Target(Peer):
    """A sender to an address; outcomes come by `on_outcome`.

    RabbitMQ 3 says accepted over 1.0 for what no queue takes. So it is asked for the queue first,
    as a receiver would.

    Attributes:
        asked: the link that asks, while there is no answer.
    """

    sends = True

    def __init__(self, request: TargetRequest, *, asks: bool = True) -> None:
        self._outcome = request.on_outcome
        self._asks = asks
        self.asked: transport.Link | None = None
        self._on_room = request.on_room
        self._window = request.window
        self._sent = 0
        self._unsettled = 0
        self._longest = 0
        super().__init__(request.endpoint, request.on_lost)

    def attach(self, link: transport.Link) -> None:
        """Attach as a sender."""
        link.snd_settle_mode = SenderSettleMode.UNSETTLED
        link.attach(source=Source(), target=Target(address=self.endpoint.address))

    def attached(self, remote: transport.Attach) -> bool:
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
        self.asked = self._session.link(f"{self.link.name}-asks", sends=False)
        self.asked.attach(source=Source(address=address), target=Target())
        return False

    def on_attach(self, link: transport.Link) -> None:
        """Begin to send, where it was asked for the queue: it is there."""
        if link is not self.asked:
            super().on_attach(link)
        elif link.remote is not None and link.remote.source is not None:
            self.asked = None
            link.detach()
            self.opened.set_result(None)

    @property
    def room(self) -> int:
        """How many messages may be sent now."""
        if self.paused or self._failed or self._session.blocked:
            return 0
        return min(self.link.credit, self._window - self._unsettled)

    @property
    def waits(self) -> bool:
        """Whether the peer takes nothing for now: 1.0 says so by its credit alone."""
        return False

    def ready(self) -> None:
        """Go on sending."""
        self._on_room()

    def read(self) -> None:
        """Go on sending: there may be credit, or what was sent is settled."""
        if self.opened.done():
            self._on_room()

    def on_flow(self, link: transport.Link) -> None:
        """Use up credit that the peer wants back."""
        if link.drain:
            self._on_room()
            link.drained()

    def send(self, outgoing: Outgoing, delivery: SourceDelivery) -> None:
        """Send a message; what is too long for the peer has its outcome at once."""
        octets = outgoing.octets
        if self._longest and len(octets) > self._longest:
            text = f"{len(octets)} bytes, and the target takes {self._longest} at most"
            self._outcome(delivery, Outcome("too-large", "", text, final=True))
            return
        self._sent += 1
        sent = self.link.send(self._sent.to_bytes(8, "big"), octets)
        sent.context = delivery
        self._unsettled += 1
        if not self._flushing:
            self.touch()

    def on_disposition(self, delivery: transport.LinkDelivery) -> None:
        """Report an outcome."""
        state = delivery.state
        if delivery.done or (not delivery.settled and (state is None or type(state) is Received)):
            return  # not terminal
        outcome = ACCEPTED if type(state) is Accepted else self._outcome_of(state)
        delivery.update(state)
        self._unsettled -= 1
        sent, delivery.context = delivery.context, None
        self._outcome(sent, outcome)

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


async def open_source(request: SourceRequest) -> Amqp10Source:
    """Attach to a source.

    Raises:
        LinkError: it did not succeed.
    """
    source: Amqp10Source = await connect(lambda: Amqp10Source(request), request.endpoint)
    return source


async def open_target(request: TargetRequest) -> Amqp10Target:
    """Attach to a target.

    Raises:
        LinkError: it did not succeed.
    """
    made: list[Amqp10Target] = []

    def make() -> Amqp10Target:
        asks = not made  # a queue that gives nothing out, as a stream there, has its sender still
        made.append(Amqp10Target(request, asks=asks))
        return made[-1]

    try:
        target: Amqp10Target = await connect(make, request.endpoint)
    except LinkError as error:
        if made[0].asked is None or "amqp:not-found" in str(error):
            raise
        target = await connect(make, request.endpoint)
    return target
