"""What a connection tells the one who uses it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp10msg.composite import Error

if TYPE_CHECKING:
    from amqp10msg.net.transport.links import Delivery, Link
    from amqp10msg.net.transport.sessions import Session


class Handler:
    """Methods that a connection calls while it reads; override those of interest.

    An end is told once, whether the peer ended or broke a rule: the answer is sent already or will
    be by the connection itself. When a session ends, its links end without a call of their own, and
    when the connection ends, its sessions do.
    """

    def on_open(self) -> None:
        """Called when the peer opened; `Connection.remote` says how."""

    def on_close(self, error: Error | None, *, fault: bool) -> None:
        """Called when the connection ends.

        Args:
            error: what the peer said, or what it did wrong.
            fault: whether the peer broke a rule, rather than closed.
        """

    def on_begin(self, session: Session) -> None:
        """Called when the peer began a session, or answered `Connection.begin`."""

    def on_end(self, session: Session, error: Error | None) -> None:
        """Called when a session ends."""

    def on_attach(self, link: Link) -> None:
        """Called when the peer attached a link, or answered `Session.attach`.

        One that the peer began is answered with `Link.attach` or `Link.refuse`.
        """

    def on_detach(self, link: Link, error: Error | None, *, closed: bool) -> None:
        """Called when a link is detached, or closed.

        Args:
            link: the link.
            error: why.
            closed: whether its terminus ends, too.
        """

    def on_flow(self, link: Link) -> None:
        """Called when the peer told the state of a link: a sender may have credit."""

    def on_writable(self, session: Session) -> None:
        """Called when a session can send again after `Session.blocked`."""

    def on_transfer(self, delivery: Delivery) -> None:
        """Called with a delivery that is complete, or was aborted."""

    def on_disposition(self, delivery: Delivery) -> None:
        """Called when the peer told the state of a delivery, or settled it."""
