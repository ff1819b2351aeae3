"""Sources that outlive their links, according to their expiry policies (Part 3, 3.5.6)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import attrs

from amqp10msg.delivery import Source, TerminusExpiryPolicy
from amqp10msg.delivery.node import OutgoingLink

if TYPE_CHECKING:
    from amqp10msg.net.serve.links import Outgoing
    from amqp10msg.net.serve.server import Server

# What starts the timer of each policy: the end of the scope, or of one that contains it.
_SCOPES = {
    TerminusExpiryPolicy.LINK_DETACH: ("link", "session", "connection"),
    TerminusExpiryPolicy.SESSION_END: ("session", "connection"),
    TerminusExpiryPolicy.CONNECTION_CLOSE: ("connection",),
    TerminusExpiryPolicy.NEVER: (),
}


@attrs.define(eq=False)
class _Kept:
    out: OutgoingLink
    source: Source
    # The session and the connection that it was attached in.
    scopes: dict[str, Any]
    timer: asyncio.TimerHandle | None = None


class Termini:
    """Sources without a link, by container and link name."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._kept: dict[tuple[str, str], _Kept] = {}

    def retire(self, key: tuple[str, str], end: Outgoing, ends: str | None) -> None:
        """Keep the source of a link that ended, or end it, too.

        Args:
            key: container and link name.
            end: the link.
            ends: "link", "session" or "connection"; None if the link was closed, and its source
                with it.
        """
        source = end.attach.source
        if ends is None or source is None or not end.out.attached:
            self._server.release(end.out)
            return
        kept = _Kept(end.out, source, {"session": end.link.session, "connection": end.connection})
        end.out.on_ended = None
        self.forget(key)
        self._kept[key] = kept
        self._start(key, kept, ends)

    def _start(self, key: tuple[str, str], kept: _Kept, ends: str) -> None:
        if kept.timer is not None or ends not in _SCOPES[kept.source.expiry_policy]:
            return
        if not kept.source.timeout:
            self.forget(key)
            return
        loop = asyncio.get_running_loop()
        kept.timer = loop.call_later(
            kept.source.timeout, self._server.turns.run, lambda: self.forget(key)
        )

    def end_of(self, scope: Any, ends: str) -> None:
        """Start the timers of the sources that were attached in a session or connection."""
        for key, kept in list(self._kept.items()):
            if kept.scopes[ends] == scope:
                self._start(key, kept, ends)

    def forget(self, key: tuple[str, str]) -> None:
        """End a source: unsettled deliveries get their default-outcome."""
        kept = self._kept.pop(key, None)
        if kept is not None:
            if kept.timer is not None:
                kept.timer.cancel()
            self._server.release(kept.out)

    def known(self, key: tuple[str, str]) -> Source | None:
        """Return what was asked of the source that is kept for a link; None if none is."""
        kept = self._kept.get(key)
        return kept.source if kept is not None and kept.out.attached else None

    def resume(self, key: tuple[str, str], source: Source) -> OutgoingLink | None:
        """Return the source that was kept for a link, if the new attach asks for the same one."""
        kept = self._kept.get(key)
        if kept is None:
            return None
        same = (
            kept.out.attached
            and kept.source.address == source.address
            and kept.source.dynamic == source.dynamic
            and kept.source.distribution_mode == source.distribution_mode
            and kept.source.filter == source.filter
        )
        if not same:
            self.forget(key)
            return None
        del self._kept[key]
        if kept.timer is not None:
            kept.timer.cancel()
        return kept.out

    def clear(self) -> None:
        """End all sources."""
        for key in list(self._kept):
            self.forget(key)
