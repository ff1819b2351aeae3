"""A distribution node as section 3.3 of Part 3 says it, in the plainest way: lists and scans.

What the real node does is compared with this. It shares no rule with it: levels are folded, headers
counted and expiry computed here once more.
"""

from __future__ import annotations

from typing import Any

import attrs

from amqp10msg import Header, Message
from amqp10msg.delivery import Accepted, MessageState, Modified, Rejected, Released

AVAILABLE, ACQUIRED, ARCHIVED = MessageState


def folded(priority: int, levels: int) -> int:
    """The words of 3.2.1, one rule after the other."""
    if levels >= 10:
        return min(priority, levels - 1)
    half_up, half_down = (levels + 1) // 2, levels // 2
    if priority <= 5 - half_up:
        return 5 - half_up
    if priority >= 4 + half_down:
        return 4 + half_down
    return priority


@attrs.define(eq=False)
class ModelMessage:
    sequence: int
    arrival: int
    message: Message
    level: int
    state: MessageState = AVAILABLE
    cause: str = ""
    first: ModelLink | None = None
    several: bool = False
    stored: bool = False

    @property
    def header(self) -> Header:
        return self.message.header or Header()

    @property
    def expires(self) -> int | None:
        properties = self.message.properties
        ends = []
        if self.header.ttl is not None:
            ends.append(self.arrival + self.header.ttl)
        if properties is not None and properties.absolute_expiry_time is not None:
            ends.append(int(properties.absolute_expiry_time))
        return min(ends, default=None)

    def count(self) -> None:
        header = attrs.evolve(self.header, delivery_count=self.header.delivery_count + 1)
        self.message = self.message.evolve(header=header)


@attrs.define(eq=False)
class ModelLink:
    copy: bool
    filter: Any
    default: Any
    barred: set[int] = attrs.field(factory=set)
    deliveries: list[ModelDelivery] = attrs.field(factory=list)


@attrs.define(eq=False)
class ModelDelivery:
    link: ModelLink
    message: ModelMessage
    told: Any = None
    outcome: Any = None


@attrs.define
class Model:
    levels: int
    durable: bool
    now: int = 0
    messages: list[ModelMessage] = attrs.field(factory=list)
    links: list[ModelLink] = attrs.field(factory=list)

    def here(self) -> list[ModelMessage]:
        return [message for message in self.messages if message.state is not ARCHIVED]

    def publish(self, message: Message) -> ModelMessage:
        self.expire()
        header = message.header or Header()
        made = ModelMessage(
            len(self.messages) + 1,
            self.now,
            message,
            folded(header.priority, self.levels),
            stored=self.durable and header.durable,
        )
        self.messages.append(made)
        return made

    def archive(self, message: ModelMessage, cause: str) -> None:
        message.state = ARCHIVED
        message.cause = cause

    def expire(self) -> None:
        for message in self.messages:
            if (
                message.state is AVAILABLE
                and message.expires is not None
                and self.now > message.expires
            ):
                self.archive(message, "expired")
                for link in self.links:
                    for delivery in link.deliveries:
                        if delivery.message is message and delivery.outcome is None:
                            delivery.outcome = Accepted()

    def eligible(self, link: ModelLink, message: ModelMessage) -> bool:
        if message.state is ARCHIVED or message.sequence in link.barred:
            return False
        if link.copy:
            if message.expires is not None and self.now > message.expires:
                return False
        elif message.state is ACQUIRED:
            return False
        return link.filter is None or bool(link.filter.matches(message.message))

    def take(self, link: ModelLink) -> ModelDelivery | None:
        self.expire()
        found = [message for message in self.messages if self.eligible(link, message)]
        if not found:
            return None
        message = min(found, key=lambda message: (-message.level, message.sequence))
        delivery = ModelDelivery(link, message)
        link.deliveries.append(delivery)
        if link.copy:
            link.barred.add(message.sequence)
        else:
            message.state = ACQUIRED
            message.several = message.several or message.first not in {None, link}
            message.first = link
        return delivery

    def settle(self, delivery: ModelDelivery, outcome: Any) -> Any:
        if delivery.outcome is not None:
            return delivery.outcome
        if outcome is None:
            outcome = delivery.told or delivery.link.default
        delivery.outcome = outcome
        message, link = delivery.message, delivery.link
        if message.state is ARCHIVED:
            return outcome
        match outcome:
            case Accepted():
                if not link.copy:
                    self.archive(message, "accepted")
            case Rejected():
                message.count()
                if not link.copy:
                    self.archive(message, "rejected")
            case Released() | Modified():
                if link.copy:
                    link.barred.discard(message.sequence)
                else:
                    message.state = AVAILABLE
                if isinstance(outcome, Modified):
                    self.modify(message, link, outcome)
                if not link.copy:
                    self.expire_one(message)
        return outcome

    def expire_one(self, message: ModelMessage) -> None:
        if message.expires is not None and self.now > message.expires:
            self.expire()

    def modify(self, message: ModelMessage, link: ModelLink, outcome: Modified) -> None:
        if outcome.delivery_failed:
            message.count()
        if outcome.undeliverable_here:
            link.barred.add(message.sequence)
        if outcome.message_annotations:
            merged = {**(message.message.message_annotations or {}), **outcome.message_annotations}
            message.message = message.message.evolve(message_annotations=merged)

    def detach(self, link: ModelLink) -> None:
        for delivery in link.deliveries:
            self.settle(delivery, None)
        self.links.remove(link)

    def restart(self) -> None:
        for message in self.here():
            if not message.stored:
                self.archive(message, "lost")
            else:
                message.state = AVAILABLE
                message.several = True
        self.links.clear()
