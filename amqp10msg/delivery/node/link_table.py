"""The links of a node: what each has seen, which messages it must not get, and node lifetimes."""

from __future__ import annotations

from amqp10msg.delivery.lifetime import (
    DeleteOnClose,
    DeleteOnNoLinks,
    DeleteOnNoLinksOrMessages,
    DeleteOnNoMessages,
)
from amqp10msg.delivery.node.links import Entry, IncomingLink, OutgoingLink
from amqp10msg.delivery.node.queue import Level, View

LifetimePolicy = DeleteOnClose | DeleteOnNoLinks | DeleteOnNoMessages | DeleteOnNoLinksOrMessages


class LinkTable:
    """The links of a node, their views of its messages, and the messages that they must not get.

    Links that see the same messages share a view, so that each message is passed once for all of
    them: those in move mode without a filter to which every message is deliverable.
    """

    def __init__(self, levels: list[Level[Entry]]) -> None:
        self._levels = levels
        self._shared: View[Entry] = View(levels)
        self._views: list[View[Entry]] = [self._shared]
        self._outgoing: dict[int, OutgoingLink] = {}
        self._incoming: dict[int, IncomingLink] = {}
        self._creator: OutgoingLink | IncomingLink | None = None
        self._had_links = False
        self._numbers = 0

    @property
    def all(self) -> tuple[OutgoingLink | IncomingLink, ...]:
        """Every link that is attached."""
        return (*self._outgoing.values(), *self._incoming.values())

    def number(self) -> int:
        """Return the number of the next link."""
        self._numbers += 1
        return self._numbers

    def view(self, *, private: bool) -> View[Entry]:
        """Return the shared view, or a new one that begins at the first message."""
        if not private:
            return self._shared
        view = View(self._levels)
        self._views.append(view)
        return view

    def add(self, link: OutgoingLink | IncomingLink, *, creates: bool) -> None:
        """Add a link."""
        if link.outgoing:
            self._outgoing[link.number] = link
        else:
            self._incoming[link.number] = link
        self._had_links = True
        if creates:
            self._creator = link

    def drop(self, link: OutgoingLink | IncomingLink) -> None:
        """Remove a link, and what was kept because of it."""
        link.attached = False
        if not link.outgoing:
            self._incoming.pop(link.number, None)
            return
        self._outgoing.pop(link.number, None)
        if link._view is not self._shared:
            self._views.remove(link._view)
        for entry in link._barred.values():
            if entry.not_for is not None:
                entry.not_for.discard(link.number)
        link._barred.clear()

    def bar(self, link: OutgoingLink, entry: Entry) -> None:
        """Keep a message from a link that already got it, or where it is undeliverable."""
        link._barred[entry.sequence] = entry
        if entry.not_for is None:
            entry.not_for = {link.number}
        else:
            entry.not_for.add(link.number)
        if link._view is self._shared:
            # From now on it sees other messages than the rest.
            link._view = self._shared.copy()
            self._views.append(link._view)

    def unbar(self, link: OutgoingLink, entry: Entry) -> None:
        """Let a link get a message again."""
        if link._barred.pop(entry.sequence, None) is not None and entry.not_for is not None:
            entry.not_for.discard(link.number)

    def offer_again(self, entry: Entry, link: OutgoingLink | None = None) -> None:
        """Let one link, or all of them, look again at a message that was passed over."""
        entry.came_back = True
        for view in self._views if link is None else (link._view,):
            view.offer_again(entry)

    def forget(self, entry: Entry) -> None:
        """Drop a message that is archived."""
        if entry.came_back:
            for view in self._views:
                view.forget(entry)
        for number in entry.not_for or ():
            link = self._outgoing.get(number)
            if link is not None:
                link._barred.pop(entry.sequence, None)

    def lifetime_is_over(self, policy: LifetimePolicy | None, *, empty: bool) -> bool:
        """Whether a lifetime policy asks for deletion (Part 3, 3.5.10 to 3.5.13).

        A policy about the links waits for the first link, and one about the link that caused the
        creation waits for that link.
        """
        closed = self._creator is not None and not self._creator.attached
        unlinked = self._had_links and not self._outgoing and not self._incoming
        match policy:
            case DeleteOnClose():
                return closed
            case DeleteOnNoLinks():
                return unlinked
            case DeleteOnNoMessages():
                return closed and empty
            case DeleteOnNoLinksOrMessages():
                return unlinked and empty
        return False
