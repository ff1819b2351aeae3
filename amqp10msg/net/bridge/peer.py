"""A connection of AMQP 1.0 on asyncio with one session and one link: what both ends share."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from typing import Any

from amqp10msg import __version__
from amqp10msg.composite import Error
from amqp10msg.net import transport
from amqp10msg.net.bridge.dialing import dial
from amqp10msg.net.bridge.terms import LinkError, OnLost
from amqp10msg.net.bridge.urls import Endpoint
from amqp10msg.net.bridge.wire import Wire

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
        self._reading = True
        self._held = False
        self._behind = False
        self.opened: asyncio.Future[None] = self._loop.create_future()
        hostname = endpoint.server_name or endpoint.host
        if endpoint.virtual_host is not None:
            hostname = f"vhost:{endpoint.virtual_host}"  # as RabbitMQ wants it
        self._sasl: transport.SaslClient | None = transport.SaslClient(
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
        self._engine = transport.Connection(self, opens)
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
        if self._sasl is not None:
            self._stream.write(self._sasl.start())

    def receive(self, data: bytes) -> None:
        """Process bytes of the peer."""
        if self._sasl is not None:
            try:
                reply, data = self._sasl.receive(data)
            except transport.SaslError as error:
                self.fail(LinkError(str(error), permanent=error.refused))
                return
            self._stream.write(reply)
            if not self._sasl.done:
                return
            self._sasl = None
            self._beat()
        self._engine.feed(data)
        self._process()

    def _process(self) -> None:
        """Process frames that came, so many in a turn of the loop: other routes have theirs."""
        if self._failed:
            return
        engine = self._engine
        step = engine.step
        self._behind = False
        try:
            for _ in range(_FRAMES):
                if not step() or self._failed:
                    break
            else:
                self._behind = True
                self._loop.call_soon(self._process)
        except OSError as error:
            self.fail(LinkError(f"a message that is too large cannot be put aside: {error}"))
            return
        self.read()
        if engine.over:
            self.fail(LinkError("the peer closed the connection"))
        self.touch()

    def read(self) -> None:
        """Called when all that came is processed."""

    # What is sent.

    def flush(self) -> None:
        """Send what is pending."""
        self._flushing = False
        stream = self._stream
        if stream is None or self._sasl is not None or self._failed or stream.is_closing():
            return
        if not self.paused:
            data = self._engine.take()
            if data:
                stream.write(data)
        self._read_or_not()

    def _read_or_not(self) -> None:
        """Read from the peer, unless it is to wait, or asks for answers that it does not read."""
        choked = self.paused and self._engine.pending > _CHOKED
        wanted = not (self._held or self._behind or choked)
        if wanted != self._reading and not self._stream.is_closing():
            self._reading = wanted
            self._heard = self._loop.time()
            (self._stream.resume_reading if wanted else self._stream.pause_reading)()

    def hold(self, held: bool) -> None:
        """Stop reading from the connection, or read on."""
        self._held = held
        if self._stream is not None:
            self._read_or_not()

    def _beat(self) -> None:
        """Show signs of life, and look for the peer's."""
        now = self._loop.time()
        patience = float(max(self.endpoint.heartbeat, 2))
        if now - self._heard > patience and self._reading:
            self.fail(LinkError(f"nothing came for {patience:g} s"))
            return
        deadline = self._engine.tick(now)
        self.flush()
        wait = patience / 4 if deadline is None else min(patience / 4, max(deadline - now, 0.01))
        self._timer = self._loop.call_later(wait, self._beat)

    # Called by the transport.

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
        permanent = name in _PERMANENT and not self.opened.done()
        reason = f"{prefix}{name}: {error.description}"
        if name == "amqp:invalid-field" and self.product.startswith("RabbitMQ 3."):
            reason += "; RabbitMQ 3 has other addresses: give address_version=1"
        said, failed = name not in _AMBIGUOUS, name == _FAILED
        self.fail(LinkError(reason, said=said, permanent=permanent, failed=failed, scope=what))

    # The end.

    def failing(self, lost: LinkError) -> None:
        """Send the reason, where the peer broke a rule."""
        stream = self._stream
        if stream is not None and self._sasl is None and not (self.paused or stream.is_closing()):
            stream.write(self._engine.take())
        if not self.opened.done():
            self.opened.set_exception(lost)
            self.opened.exception()  # whoever waits for it sees it; nobody has to

    async def say_goodbye(self) -> None:
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
