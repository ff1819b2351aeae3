"""The source of a route: keeps it connected, limits its deliveries, and reopens it.

A source is reopened, after all of its deliveries are settled, to change the number of messages that
it delivers ahead, or to move to another connection.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable

from amqp10msg.net.bridge.context import RouteContext
from amqp10msg.net.bridge.ending import Ending
from amqp10msg.net.bridge.reconnecting import ClosingLinks, ReconnectingLink
from amqp10msg.net.bridge.records import Records
from amqp10msg.net.bridge.resuming import ReplacementCheck
from amqp10msg.net.ends.links import open_source
from amqp10msg.net.ends.terms import (
    LinkError,
    Oversized,
    Receive,
    SourceDelivery,
    SourceLink,
    SourceRequest,
)
from amqp10msg.net.ends.urls import Endpoint

#: The route fails after this many consecutive connections that closed before delivering a message.
_MAX_EMPTY_CONNECTIONS = 3
#: A connection made progress if it delivered more messages than this multiple of the window.
_MIN_WINDOWS_OF_PROGRESS = 4
#: After this many connections without progress, messages are requested one at a time.
_MAX_STALLED_CONNECTIONS = 2


class PoisonGuard:
    """Chooses the window for a source that may end the connection because of a poison message.

    Unsettled messages are delivered again after a disconnect, so a poison message would end every
    following connection, too. After `_MAX_STALLED_CONNECTIONS` connections without progress, the
    guard switches to single-message mode: each message is settled before the next is requested.
    This drains the messages ahead of the poison message. A connection that then closes before
    delivering a message was closed because of the next message in the queue.

    Attributes:
        single_message_mode: whether messages are requested one at a time.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self.single_message_mode = False
        self._endpoint = endpoint
        self._delivered = 0  # messages on the current connection
        # Consecutive connections without progress, and in single-message mode, without a delivery.
        self._stalled_connections = 0
        self._empty_connections = 0

    def start_connection(self, usual_window: int) -> int:
        """Return the window for a new connection: `usual_window`, or 1 in single-message mode."""
        self._delivered = 0
        return 1 if self.single_message_mode else usual_window

    def count_delivered(self, count: int) -> None:
        """Count messages delivered on the current connection."""
        self._delivered += count

    def can_resume_window(self, usual_window: int) -> bool:
        """Whether the caller may call `resume_window`.

        True once single-message mode has delivered `usual_window` messages on one connection.
        """
        return self.single_message_mode and self._delivered >= usual_window

    def resume_window(self) -> None:
        """Leave single-message mode: the poison message is no longer in the queue."""
        self.single_message_mode = False
        self._stalled_connections = self._empty_connections = 0

    def connection_lost(self, error: LinkError, usual_window: int) -> LinkError | None:
        """Update the mode after a disconnect. Return the error to fail with, or None to reconnect.

        A connection that was cut, or whose broker shut down, did not end because of a message.
        """
        if not (error.sent_by_peer or error.failed):
            return None
        if not self.single_message_mode:
            made_progress = self._delivered > _MIN_WINDOWS_OF_PROGRESS * usual_window
            self._stalled_connections = 0 if made_progress else self._stalled_connections + 1
            self.single_message_mode = self._stalled_connections >= _MAX_STALLED_CONNECTIONS
            return None
        self._empty_connections = 0 if self._delivered else self._empty_connections + 1
        if self._empty_connections < _MAX_EMPTY_CONNECTIONS:
            return None
        return LinkError(
            f"{self._endpoint} ended the connection {self._empty_connections} times in a row "
            f"instead of delivering its next message ({str(error).splitlines()[0]}). That message "
            f"cannot be read over {self._endpoint.protocol}: remove it from the queue, for example "
            "over the other protocol, and start again",
            sent_by_peer=True,
            permanent=True,
        )


class MemoryLimit:
    """Limits the total size of the unsettled deliveries in memory.

    Above the limit, reading the source's connection is paused until the size has fallen to half of
    the limit. A connection that other routes share cannot be paused: all further deliveries are
    then released, until the source is reopened on a separate connection.

    Args:
        max_size: the limit in bytes.

    Attributes:
        is_paused: whether reading is paused, or would be.
        releases_all: whether further deliveries must be released, because reading continues.
        size: the total size of the unsettled deliveries in memory, in bytes.
        was_exceeded_on_shared: whether the limit was exceeded on a shared connection. The source
            must not return to a shared connection then.
    """

    def __init__(self, max_size: int) -> None:
        self.is_paused = False
        self.releases_all = False
        self.was_exceeded_on_shared = False
        self._max_size = max_size
        self.size = 0

    def add(self, delivery: SourceDelivery, source: SourceLink | None) -> bool:
        """Count a new delivery, and pause reading `source` if the limit is exceeded.

        Return False if reading cannot be paused: the caller must reopen the source on a separate
        connection.
        """
        self.size += delivery.size
        if self.size <= self._max_size or self.is_paused or source is None:
            return True
        self.is_paused = True
        if not source.hold(True):
            self.releases_all = self.was_exceeded_on_shared = True
        return not self.releases_all

    def free(self, delivery: SourceDelivery, source: SourceLink | None) -> None:
        """Subtract a delivery that was forgotten. Resume reading `source` below half the limit."""
        self.size -= delivery.size
        has_room = self.size * 2 < self._max_size
        if self.is_paused and has_room and not self.releases_all and source is not None:
            self.is_paused = False
            source.hold(False)

    def reset(self, remaining: Iterable[SourceDelivery]) -> None:
        """Count only the deliveries that remain: the source was lost, or is reopened."""
        self.is_paused = self.releases_all = False
        self.size = sum(delivery.size for delivery in remaining)


class SourceEnd:
    """Keeps the source connected, and stops, resumes and reopens it.

    Args:
        context: the route.
        ending: decides when the route ends.
        records: the files of the route.
        closing: the links of the route that are being closed.
        receive: called with the deliveries of the source.
        on_opened: called when a link to the source is open.

    Attributes:
        reconnecting: keeps the link to the source open.
        memory: limits the size of the unsettled deliveries.
        poison_guard: limits the number of unsettled deliveries, to find a poison message.
        reopen_reason: why the source is reopened when all deliveries are settled; empty if it is
            not reopened.
    """

    def __init__(
        self,
        context: RouteContext,
        ending: Ending,
        records: Records,
        closing: ClosingLinks,
        *,
        receive: Receive,
        on_opened: Callable[[], None],
    ) -> None:
        self._context = context
        self._ending = ending
        self._records = records
        self._closing = closing
        self._receive = receive
        self._after_opening = on_opened
        self._replacement_check = ReplacementCheck(context, records.positions)
        self.memory = MemoryLimit(context.options.max_bytes)
        self.poison_guard = PoisonGuard(context.source)
        self.reopen_reason = ""
        self.reconnecting: ReconnectingLink[SourceLink] = ReconnectingLink(
            "source",
            context.source,
            context.options,
            context.log,
            open_link=self._open,
            on_open=self._on_opened,
            on_lost=self._on_lost,
            report_early_loss=True,
        )

    @property
    def link(self) -> SourceLink | None:
        """The open link; None while the source is not connected."""
        return self.reconnecting.link

    def stop(self) -> None:
        """Stop requesting deliveries, if the source is connected."""
        if self.link is not None:
            self.link.stop()

    # Connecting.

    async def _open(self) -> SourceLink:
        context, reconnecting = self._context, self.reconnecting
        await self._ending.prepare_source(self._resumed_source(), self._records.positions.next)
        await self._replacement_check.run(self._ending.oldest)
        quarantine = context.options.quarantine
        overflow = quarantine.with_name(f"{quarantine.name}.large")
        return await open_source(
            SourceRequest(
                endpoint=self._resumed_source(),
                receive=self._receive,
                on_lost=reconnecting.lose,
                window=self.poison_guard.start_connection(self._window),
                max_message=context.options.max_message,
                overflow=functools.partial(Oversized, overflow, context.options.max_large),
                on_address_skipped=reconnecting.opener.address_skipped,
                pool=context.pools.sources,
                alone=reconnecting.opener.needs_own_connection,
            )
        )

    @property
    def _window(self) -> int:
        """Maximum number of unsettled deliveries of the source."""
        window = self._context.options.window
        return min(window, self._ending.max_settled or window)

    def _resumed_source(self) -> Endpoint:
        """Return the source; a stream or file is read from the first unsettled position."""
        source, next_position = self._context.source, self._records.positions.next
        return source if next_position is None else source.read_from(str(next_position))

    def _on_opened(self) -> None:
        self._ending.source_opened()
        self._context.lifecycle.source_opened()
        self._after_opening()

    def _on_lost(self, error: LinkError) -> None:
        """Discard the deliveries that are not in flight: the source delivers them again."""
        lifecycle = self._context.lifecycle
        self._context.statistics.source_lost += 1
        self.reconnecting.report(error)
        self._forget_link()
        self._ending.source_lost()
        if error.local or not self._context.options.reconnect:
            lifecycle.fail(error)
            return
        if error.shared and (error.sent_by_peer or error.failed):
            self.reconnecting.opener.use_own_connection()
            return
        poison_error = self.poison_guard.connection_lost(error, self._window)
        if poison_error is not None:
            lifecycle.fail(poison_error)

    def _forget_link(self) -> None:
        """Discard the state of the source's link, which was lost or is being closed.

        Deliveries in flight are kept, without a link: their outcomes may still arrive.
        """
        self.reopen_reason = ""
        unanswered = self._context.unsettled.lose_source()
        self.memory.reset(unanswered)
        self._records.reset(unanswered)

    # Reopening.

    def add_to_memory(self, delivery: SourceDelivery) -> None:
        """Count the size of a new delivery, and pause or reopen the source above the limit."""
        if not self.memory.add(delivery, self.link):
            self.reconnecting.opener.needs_own_connection = True
            self.reopen_soon("its messages need a separate connection")

    def reopen_soon(self, reason: str) -> None:
        """Stop requesting deliveries, and reopen the source when all deliveries are settled."""
        if self.link is not None and not self.reopen_reason:
            self.reopen_reason = reason
            self.link.stop()

    def reopen_if_settled(self) -> None:
        """Close the source's link, and open a new one, if this is due and no delivery is active."""
        if not self.reopen_reason or self._context.unsettled.active_count:
            return
        reason = self.reopen_reason
        link = self.reconnecting.release()
        if link is not None:
            self._context.log("source-reopened", at=str(self._context.source), why=reason)
            self.poison_guard.resume_window()
            self._forget_link()
            self._closing.close(link)

    def rejoin_shared_connection(self, now: float) -> None:
        """Move the link back to a shared connection if `ReconnectingLink.can_rejoin` allows.

        The link is reopened when all deliveries are settled.
        """
        if self.reconnecting.can_rejoin(now) and not (
            self.memory.was_exceeded_on_shared
            or self.reopen_reason
            or self.poison_guard.single_message_mode
        ):
            self.reconnecting.opener.needs_own_connection = False
            self.reopen_soon("its separate connection was stable")

    def on_settled(self, has_settled: bool) -> None:
        """Check for the end of the route, after finished deliveries were settled, if any."""
        lifecycle = self._context.lifecycle
        if has_settled:
            lifecycle.update_busy()
        if not self._context.unsettled.active_count:
            self._ending.end_if_done(self._records.positions.next)
            if not lifecycle.is_ending and self.poison_guard.can_resume_window(self._window):
                self.reopen_soon("no message ended its connection")
