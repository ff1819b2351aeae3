"""A broker as one writes it with python-qpid-proton alone: ``python -m bench.peers.broker``.

A queue is a deque of messages that proton decoded and encodes again. It knows no outcomes, filters
or priorities; what is asked of it here, it does. Prints the port it listens on.
"""

from __future__ import annotations

from collections import defaultdict, deque
from typing import Any

import proton
import proton.handlers
import proton.reactor

# Any, so that the types check the same with and without proton.
_MessagingHandler: Any = proton.handlers.MessagingHandler


class Broker(_MessagingHandler):  # type: ignore[misc]
    """Takes messages into queues and gives them to whom has credit."""

    def __init__(self) -> None:
        super().__init__(prefetch=200)
        self.queues: dict[str, deque[Any]] = defaultdict(deque)
        self.consumers: dict[str, list[Any]] = defaultdict(list)

    def on_start(self, event: Any) -> None:
        """Listen on a free port of loopback."""
        acceptor = event.container.listen("127.0.0.1:0")
        print(acceptor._selectable._delegate.getsockname()[1], flush=True)

    def on_link_opening(self, event: Any) -> None:
        """Answer with the addresses that were asked for."""
        link = event.link
        link.source.address = link.remote_source.address
        link.target.address = link.remote_target.address
        if link.is_sender:
            self.consumers[link.source.address].append(link)

    def on_link_closing(self, event: Any) -> None:
        """Forget a consumer."""
        if event.link.is_sender:
            self.consumers[event.link.source.address].remove(event.link)

    def on_disconnected(self, event: Any) -> None:
        """Forget the consumers of a connection."""
        for consumers in self.consumers.values():
            consumers[:] = [link for link in consumers if link.connection != event.connection]

    on_connection_closing = on_disconnected

    def on_message(self, event: Any) -> None:
        """Queue a message and send what can be sent."""
        address = event.link.target.address
        self.queues[address].append(event.message)
        self.send(address)

    def on_sendable(self, event: Any) -> None:
        """Send what can be sent."""
        self.send(event.link.source.address)

    def send(self, address: str) -> None:
        """Give messages to the consumers of a queue."""
        queue = self.queues[address]
        for link in self.consumers[address]:
            while queue and link.credit:
                link.send(queue.popleft())


if __name__ == "__main__":
    proton.reactor.Container(Broker()).run()
