"""The turns of a server's thread: work, commit, confirm, send; and the links that may send."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from amqp10msg import AmqpError
from amqp10msg.delivery import DistributionNode, Error
from amqp10msg.delivery.filters import EvaluationError
from amqp10msg.delivery.node import StoreError
from amqp10msg.net.serve.links import Outgoing, TurnOverError
from amqp10msg.wire.errors import RESOURCE_LIMIT_EXCEEDED

if TYPE_CHECKING:
    from amqp10msg.net.serve.connection import Connection
    from amqp10msg.net.serve.server import Server

#: Seconds after which a turn lets other connections have theirs.
_TURN = 0.02


class Turns:
    """What is done in the server's thread, a piece of work at a time.

    Attributes:
        touched: the connections that have something to send.
        confirmations: what a connection sends when the store has committed.
        ready: the links that may send; a dict because it is ordered.
    """

    def __init__(self, server: Server) -> None:
        self.touched: set[Connection] = set()
        self.confirmations: list[tuple[Connection, Callable[[], None]]] = []
        self.ready: dict[Outgoing, None] = {}
        self._server = server
        self._deadline = 0.0
        self._continues = False
        self._ends: dict[DistributionNode, dict[Outgoing, None]] = {}
        self._available: dict[DistributionNode, None] = {}

    def run(self, work: Callable[[], object]) -> None:
        """Run some work, commit it, confirm it to the peers, and send what can be sent.

        What is left when the time is over waits for a turn of its own, after those of others.
        """
        self._deadline = time.monotonic() + _TURN
        try:
            with self._server.store.batch():
                work()
                for node in self._server.nodes.sweep():
                    self._ends.pop(node, None)
                    self._server.log("deleted", node=node.name)
            self._confirm()
            while self.touched or self.ready or self._available:
                with self._server.store.batch():
                    self._pump()
                self._flush()
                if self.is_over and (self.ready or self._available):
                    self._continue()
                    break
        except StoreError as error:
            self.confirmations.clear()
            self._server.log("store-failed", logging.CRITICAL, why=error.reason)
            for connection in list(self._server.connections):
                connection.close(error.error)
            self._flush()

    @property
    def is_over(self) -> bool:
        """Whether the time of this turn is over."""
        return time.monotonic() >= self._deadline

    def _continue(self) -> None:
        """Schedule a turn for what is left."""

        def go_on() -> None:
            self._continues = False
            self.run(lambda: None)

        if not self._continues:
            self._continues = True
            asyncio.get_running_loop().call_soon(go_on)

    def _confirm(self) -> None:
        """Send the confirmations of what was committed."""
        confirmations = self.confirmations
        self.confirmations = []
        for connection, send in confirmations:
            try:
                send()
            except Exception as error:  # noqa: BLE001  (logged; the others go on)
                connection.fail(error, "confirming")

    def _pump(self) -> None:
        """Let the links that may send take messages in turn."""
        for node in self._available:
            self.ready.update(self._ends.get(node, {}))
        self._available.clear()
        while self.ready:
            for end in list(self.ready):
                if end not in self.ready:
                    continue  # its connection failed meanwhile
                if self.is_over:
                    return
                # A link that was served comes last in the next turn.
                self.ready[end] = self.ready.pop(end)
                try:
                    more = end.pump()
                except TurnOverError:
                    return
                except AmqpError as error:
                    more = False
                    self._server.log(
                        "link-failed", logging.WARNING, link=end.link.name, why=str(error)
                    )
                    # A filter that cannot be evaluated exceeds what a message may cost.
                    costly = isinstance(error, EvaluationError)
                    known = getattr(error, "condition", "amqp:internal-error")
                    condition = RESOURCE_LIMIT_EXCEEDED if costly else known
                    end.connection.end_link(end.link, Error(condition, str(error)))
                except Exception as error:  # noqa: BLE001  (logged; the others go on)
                    more = False
                    end.connection.fail(error, f"sending on the link {end.link.name!r}")
                if not more:
                    self.ready.pop(end, None)
                    continue
                # A link that got a message is the last one to get the next.
                ends = self._ends.get(end.node)
                if ends is not None and end in ends:
                    ends[end] = ends.pop(end)

    def _flush(self) -> None:
        while self.touched:
            connection = self.touched.pop()
            try:
                more = connection.flush()
            except Exception as error:  # noqa: BLE001  (logged; the others go on)
                more = False
                connection.fail(error, "sending")
                connection.abort()
                self.touched.discard(connection)
            if more:
                self.ready.update(dict.fromkeys(connection.waiting))
                connection.waiting.clear()

    def available(self, node: DistributionNode) -> None:
        """Schedule messages of a node to be sent at the end of this turn."""
        self._available[node] = None

    def add(self, end: Outgoing) -> None:
        """Send the messages of its node to a link from now on."""
        self._ends.setdefault(end.node, {})[end] = None

    def remove(self, end: Outgoing) -> None:
        """Send nothing more to a link."""
        self.ready.pop(end, None)
        end.connection.waiting.discard(end)
        ends = self._ends.get(end.node, {})
        ends.pop(end, None)
        if not ends:
            self._ends.pop(end.node, None)

    def forget(self, node: DistributionNode) -> Iterable[Outgoing]:
        """Send nothing more from a node, and return the links that it was sent to."""
        ends = self._ends.pop(node, {})
        for end in ends:
            self.ready.pop(end, None)
        return ends
