"""Two ends of an AMQP 1.0 connection in one thread, exchanging bytes in any pieces."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from hypothesis import strategies as st

from amqp10msg import Described, ULong, encode_value
from amqp10msg.composite import Error
from amqp10msg.delivery import Source, Target
from amqp10msg.net import transport
from amqp10msg.net.transport import Connection, Link, LinkDelivery, Open, SaslError, Session
from amqp10msg.net.transport.sasl import SaslEnd


class End(transport.Handler):
    """An end that accepts the peer's sessions and links, grants credit and records events."""

    def __init__(
        self,
        name: str,
        *,
        credit: int = 1_000,
        frame: int = 512,
        sasl: SaslEnd | None = None,
        run: int = 1,
    ) -> None:
        opens = Open(container_id=name, max_frame_size=frame)
        self.engine = Connection(self, opens, sasl, run=run)
        self.credit = credit
        self.links: list[Link] = []
        self.got: list[LinkDelivery] = []
        self.told: list[LinkDelivery] = []
        self.ends: list[tuple[str, str | None]] = []
        self.user: str | None = None
        self.refused: SaslError | None = None

    def on_authenticated(self, user: str | None) -> None:
        self.user = user

    def on_refused(self, error: SaslError) -> None:
        self.refused = error

    def on_open(self) -> None:
        if not self.engine.opened:
            self.engine.open()

    def on_begin(self, session: Session) -> None:
        if not session.begun:
            session.begin()

    def on_attach(self, link: Link) -> None:
        self.links.append(link)
        if not link.attached:
            assert link.remote is not None
            link.attach(source=Source(), target=Target())
        if not link.sends:
            link.grant(self.credit)

    def on_transfer(self, delivery: LinkDelivery) -> None:
        self.got.append(delivery)

    def on_disposition(self, delivery: LinkDelivery) -> None:
        self.told.append(delivery)

    def on_detach(self, link: Link, error: Error | None, *, closed: bool) -> None:  # noqa: ARG002
        self.ends.append(("link" if closed else "detach", error.condition if error else None))

    def on_end(self, session: Session, error: Error | None) -> None:  # noqa: ARG002
        self.ends.append(("session", error.condition if error else None))

    def on_close(self, error: Error | None, *, fault: bool) -> None:
        self.ends.append(("fault" if fault else "connection", error.condition if error else None))


def pieces(octets: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({0, len(octets), *(cut % (len(octets) + 1) for cut in cuts)})
    return [octets[start:end] for start, end in pairwise(places)]


def run(end: End) -> None:
    while end.engine.step():
        pass


def talk(one: End, other: End, cuts: list[int] | None = None) -> None:
    """Exchange bytes between both ends until neither has bytes to send."""
    while True:
        said = False
        for speaker, hearer in ((one, other), (other, one)):
            octets = speaker.engine.take()
            said = said or bool(octets)
            for piece in pieces(octets, cuts or []):
                hearer.engine.feed(piece)
                run(hearer)
        if not said:
            return


def joined(one: End, other: End) -> Link:
    """Connect two ends with a link from the first to the second."""
    one.engine.open()
    link = one.engine.begin().link("link", sends=True)
    link.attach(source=Source(), target=Target(address="q"))
    talk(one, other)
    return link


cuts = st.lists(st.integers(0, 2**16), max_size=8)


def frame(code: int, *fields: Any, payload: bytes = b"", channel: int = 0) -> bytes:
    body = encode_value(Described(ULong(code), list(fields))) + payload
    return (len(body) + 8).to_bytes(4, "big") + b"\2\0" + channel.to_bytes(2, "big") + body
