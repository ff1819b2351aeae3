"""Sends the messages that a target refuses to a queue, the quarantine queue of a route.

A message is sent to the quarantine queue before it is settled at the source. If the queue cannot be
used, the quarantine file replaces it.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from amqp10msg.basic import BasicProperties, FieldTable, encode_content_header
from amqp10msg.message import Message
from amqp10msg.net.bridge.options import RouteOptions
from amqp10msg.net.bridge.reconnecting import ReconnectingLink
from amqp10msg.net.ends.files import line_of
from amqp10msg.net.ends.links import open_target
from amqp10msg.net.ends.terms import (
    LinkError,
    Outcome,
    Outgoing,
    SharedConnections,
    SourceDelivery,
    TargetLink,
    TargetRequest,
)
from amqp10msg.net.ends.urls import Endpoint
from amqp10msg.sections import Data, Header, Properties

#: Maximum number of messages in flight to the quarantine queue.
_QUARANTINE_WINDOW = 100
_CONTENT_TYPE = "application/json"
_DELIVERY_MODE_DURABLE = 2

#: Called with a delivery and the target's outcome for which it is quarantined.
QuarantineCallback = Callable[[SourceDelivery, Outcome], None]


class QuarantineQueue:
    """Sends refused deliveries to a queue, each as a line in the format of the quarantine file.

    A delivery is written to the quarantine file instead if no link to the queue is open, if the
    queue refuses it, or if the link is lost before its outcome. In the last case it may be in both.

    Args:
        endpoint: the queue.
        options: the options of the route.
        names: the names of the route, source and target for the lines.
        quarantining: the deliveries that the queue has not accepted or refused yet, and the
            outcomes at the target for which they are quarantined; see `Unsettled`.
        log: logs an event with its fields.
        on_accepted: called with each delivery that the queue accepted.
        write_to_file: called with each delivery that must be written to the file.
        pool: connections to share with other links.

    Attributes:
        reconnecting: keeps the link to the queue open.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        options: RouteOptions,
        names: dict[str, str],
        quarantining: dict[SourceDelivery, Outcome],
        log: Callable[..., None],
        *,
        on_accepted: QuarantineCallback,
        write_to_file: QuarantineCallback,
        pool: SharedConnections,
    ) -> None:
        self._endpoint = endpoint
        self._names = names
        self._log = log
        self._timeout = options.outcome_timeout
        self._on_accepted, self._write_to_file = on_accepted, write_to_file
        self._reasons = quarantining
        self._unsent: deque[SourceDelivery] = deque()

        self.reconnecting: ReconnectingLink[TargetLink] = ReconnectingLink(
            *("quarantine", endpoint, options, log),
            open_link=functools.partial(self._open, pool),
            on_lost=self._write_all_to_file,
            on_refused=lambda _: True,  # the route goes on: the file replaces the queue
        )

    def _open(self, pool: SharedConnections) -> Awaitable[TargetLink]:
        reconnecting = self.reconnecting
        return open_target(
            TargetRequest(
                endpoint=self._endpoint,
                on_outcomes=self._on_outcomes,
                on_room=self._send_unsent,
                on_lost=reconnecting.lose,
                window=_QUARANTINE_WINDOW,
                on_address_skipped=reconnecting.opener.address_skipped,
                pool=pool,
                alone=reconnecting.opener.needs_own_connection,
            )
        )

    def add(self, delivery: SourceDelivery, outcome: Outcome) -> None:
        """Send a delivery. `on_accepted` or `write_to_file` is called with it, now or later."""
        if self.reconnecting.link is None:
            self._write_to_file(delivery, outcome)
            return
        delivery.sent_at = asyncio.get_running_loop().time()
        self._reasons[delivery] = outcome
        self._unsent.append(delivery)
        self._send_unsent()

    def tick(self, now: float) -> None:
        """Drop the link if a delivery has no outcome after `outcome_timeout` seconds."""
        oldest = next(iter(self._reasons), None)
        if oldest is not None and now - oldest.sent_at > self._timeout:
            self.reconnecting.give_up()

    def _send_unsent(self) -> None:
        """Send deliveries to the queue, as long as the link has room."""
        while self._unsent and (link := self.reconnecting.link) is not None and link.room > 0:
            delivery = self._unsent.popleft()
            link.send([(self._quarantine_message(delivery, self._reasons[delivery]), delivery)])

    def _on_outcomes(self, outcomes: Sequence[tuple[SourceDelivery, Outcome]]) -> None:
        for delivery, outcome in outcomes:
            reason = self._reasons.pop(delivery, None)
            if reason is None:
                continue
            self.reconnecting.made_progress = True
            if outcome.kind == "accepted":
                self._on_accepted(delivery, reason)
                continue
            refusal = outcome.without(self._endpoint.password)
            refusal_text = refusal.description or refusal.condition or refusal.kind
            endpoint = str(self._endpoint)
            self._log("quarantine-refused", logging.WARNING, at=endpoint, why=refusal_text)
            self._write_to_file(delivery, reason)

    def _write_all_to_file(self, error: LinkError) -> None:
        """Write the deliveries without an outcome to the file: the link was lost."""
        self.reconnecting.report(error)
        unanswered = list(self._reasons.items())
        self._reasons.clear()
        self._unsent.clear()
        for delivery, outcome in unanswered:
            self._write_to_file(delivery, outcome)

    def _quarantine_message(self, delivery: SourceDelivery, outcome: Outcome) -> Outgoing:
        """Return the message for the queue. Its body is the quarantine line of the delivery."""
        queue = self._endpoint
        body = line_of(delivery, outcome, self._names).encode()
        headers: Any = {"route": self._names["route"], "reason": outcome.kind}
        if queue.protocol == "1.0":
            message = Message(
                Data(body),
                header=Header(durable=True),
                properties=Properties(content_type=_CONTENT_TYPE),
                application_properties=headers,
            )
            return Outgoing(message.encode())
        properties = BasicProperties(
            content_type=_CONTENT_TYPE,
            delivery_mode=_DELIVERY_MODE_DURABLE,
            headers=FieldTable.of([(name, "S", text) for name, text in headers.items()]),
        )
        header = encode_content_header(properties, len(body))
        if queue.queue is not None:
            return Outgoing(body, header, "", queue.queue)
        return Outgoing(body, header, queue.exchange or "", queue.routing_key or "")
