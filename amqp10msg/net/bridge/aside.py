"""The queue of a quarantine: what nobody takes is sent there before it is settled at the source."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Any

from amqp10msg.basic import BasicProperties, FieldTable, encode_content_header
from amqp10msg.message import Message
from amqp10msg.net.bridge.ends import open_target
from amqp10msg.net.bridge.options import RouteOptions
from amqp10msg.net.bridge.quarantine import line_of
from amqp10msg.net.bridge.sides import Side
from amqp10msg.net.bridge.terms import (
    Delivery,
    LinkError,
    Outcome,
    Outgoing,
    TargetLink,
    TargetRequest,
)
from amqp10msg.net.bridge.urls import Endpoint
from amqp10msg.sections import Data, Header, Properties

_CONTENT_TYPE = "application/json"
_DURABLE = 2
_WINDOW = 100

#: Takes a delivery, and why it was not taken.
Told = Callable[[Delivery, Outcome], None]


class Aside:
    """Sends deliveries to the queue, each as the line that a file of the quarantine would have.

    What it does not take, or what may not have reached it, is for the file: so nothing waits for a
    quarantine. It may then be in both.

    Args:
        endpoint: the queue.
        options: of the route.
        names: of the route, its source and its target, as lines have them.
        log: takes events.
        kept: is told what the queue has taken.
        left: is told what is for the file.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        options: RouteOptions,
        names: dict[str, str],
        log: Callable[..., None],
        *,
        kept: Told,
        left: Told,
    ) -> None:
        self._endpoint = endpoint
        self._options = options
        self._names = names
        self._log = log
        self._kept, self._left = kept, left
        self._side = Side("quarantine", endpoint, log)
        self._link: TargetLink | None = None
        self._reasons: dict[Delivery, Outcome] = {}
        self._waiting: deque[Delivery] = deque()

    @property
    def opened(self) -> asyncio.Event:
        """Set once it was reached."""
        return self._side.opened

    @property
    def deliveries(self) -> list[Delivery]:
        """Those that it has not answered for."""
        return list(self._reasons)

    def __len__(self) -> int:
        return len(self._reasons)

    async def keep(self) -> None:
        """Keep the queue open.

        Raises:
            LinkError: it cannot be used: wrong credentials, no such queue.
        """
        request = TargetRequest(
            endpoint=self._endpoint,
            on_outcome=self._on_outcome,
            on_room=self._pump,
            on_lost=self._lost,
            window=_WINDOW,
        )
        while True:
            link = await self._side.open(self._options, lambda: open_target(request))
            if not link.alive:
                continue
            self._link = link
            await self._side.lost.wait()

    def add(self, delivery: Delivery, outcome: Outcome) -> None:
        """Send a delivery; it is kept or left, if not at once then later."""
        if self._link is None:
            self._left(delivery, outcome)
            return
        delivery.sent = asyncio.get_running_loop().time()
        self._reasons[delivery] = outcome
        self._waiting.append(delivery)
        self._pump()

    def tick(self, now: float) -> None:
        """Give a queue up that does not answer in time."""
        oldest = next(iter(self._reasons), None)
        link = self._link
        if oldest is None or link is None or now - oldest.sent <= self._options.outcome_timeout:
            return
        link.abort()
        self._lost(LinkError(f"no outcome within {self._options.outcome_timeout:g} s"))

    async def close(self, wait: float) -> None:
        """Close it; give up after so many seconds."""
        link, self._link = self._link, None
        if link is not None:
            await link.close(wait)

    def _pump(self) -> None:
        while self._waiting and (link := self._link) is not None and link.room > 0:
            delivery = self._waiting.popleft()
            link.send(self._outgoing(delivery, self._reasons[delivery]), delivery)

    def _on_outcome(self, delivery: Delivery, outcome: Outcome) -> None:
        reason = self._reasons.pop(delivery, None)
        if reason is None:
            return
        self._side.progress = True
        if outcome.kind == "accepted":
            self._kept(delivery, reason)
            return
        outcome = outcome.without(self._endpoint.password)
        why = outcome.description or outcome.condition or outcome.kind
        self._log("quarantine-refused", logging.WARNING, at=str(self._endpoint), why=why)
        self._left(delivery, reason)

    def _lost(self, error: LinkError) -> None:
        if self._link is None:
            return  # while it was opened, which fails
        self._link = None
        level = logging.WARNING
        self._log("quarantine-lost", level, at=str(self._endpoint), why=str(error))
        rest, self._reasons = self._reasons, {}
        self._waiting.clear()
        for delivery, outcome in rest.items():
            self._left(delivery, outcome)
        self._side.lost.set()

    def _outgoing(self, delivery: Delivery, outcome: Outcome) -> Outgoing:
        at = self._endpoint
        body = line_of(delivery, outcome, self._names).encode()
        said: Any = {"route": self._names["route"], "reason": outcome.kind}
        if at.protocol == "1.0":
            message = Message(
                Data(body),
                header=Header(durable=True),
                properties=Properties(content_type=_CONTENT_TYPE),
                application_properties=said,
            )
            return Outgoing(message.encode())
        properties = BasicProperties(
            content_type=_CONTENT_TYPE,
            delivery_mode=_DURABLE,
            headers=FieldTable.of([(name, "S", text) for name, text in said.items()]),
        )
        header = encode_content_header(properties, len(body))
        if at.queue is not None:
            return Outgoing(body, header, "", at.queue)
        return Outgoing(body, header, at.exchange or "", at.routing_key or "")
