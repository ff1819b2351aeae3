"""What a route would lose, found without consuming: deliveries are read, and given back."""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import attrs

from amqp10msg.errors import AmqpError
from amqp10msg.net.bridge.bridge import RouteSpec
from amqp10msg.net.bridge.ends import open_source
from amqp10msg.net.bridge.oversized import Oversized
from amqp10msg.net.bridge.sending import message_of
from amqp10msg.net.bridge.terms import Delivery, LinkError, Settle
from amqp10msg.translate import explain, to_amqp10, to_basic

__all__ = ["DryRun", "dry_run"]

_TOO_LARGE = "larger than what a bridge keeps in memory (max-message)"


@attrs.define
class DryRun:
    """What a translation would make of the messages of a source.

    Attributes:
        read: messages that were read.
        exact: those of which nothing would be lost.
        losses: how many messages would lose something, by path, action and reason.
        failures: how many could not be translated, by why.
        examples: for each of these, one message in words: what it becomes, and what it loses.
    """

    read: int = 0
    exact: int = 0
    losses: Counter[tuple[str, str, str]] = attrs.Factory(Counter)
    failures: Counter[str] = attrs.Factory(Counter)
    examples: dict[Any, str] = attrs.Factory(dict)

    def add(self, delivery: Delivery, target: str, profile: Any) -> None:
        """Look at one delivery."""
        self.read += 1
        if delivery.large is not None:
            self.failures[_TOO_LARGE] += 1
            self.examples.setdefault(_TOO_LARGE, f"{len(delivery.large):,} bytes")
            return
        source = "1.0" if delivery.content_header is None else "0-9-1"
        try:
            message: Any = message_of(delivery)
            if source == target:
                self.exact += 1
                return
            made: Any = (to_amqp10 if target == "1.0" else to_basic)(message, profile)
        except AmqpError as error:
            self.failures[str(error)] += 1
            self.examples.setdefault(str(error), delivery.raw[:64].hex(" "))
            return
        # What comes back from the residual is no loss.
        lost = {(one.path, one.action, one.reason) for one in made.losses if not one.recoverable}
        self.exact += not lost
        for key in lost:
            if key not in self.examples:
                self.examples[key] = explain(message, profile)
            self.losses[key] += 1


async def dry_run(spec: RouteSpec, count: int, idle: float) -> DryRun:
    """Read up to so many messages of a route's source, and give all of them back.

    The source may count these deliveries: RabbitMQ says of them that they were delivered before,
    and a quorum queue with a delivery-limit counts them.

    Args:
        spec: the route; its target is not connected to.
        count: messages, 1 to 65535, the most that are unsettled at a time.
        idle: seconds without a message, after which there are no more.

    Raises:
        LinkError: the source cannot be read.
    """
    found = DryRun()
    here: list[Delivery] = []
    changed = asyncio.Event()
    faults: list[LinkError] = []

    def receive(delivery: Delivery) -> None:
        if delivery.large is not None:
            delivery.large.discard()
        if len(here) < count:
            found.add(delivery, spec.target.protocol, spec.options.profile)
        here.append(delivery)
        changed.set()

    def lost(error: LinkError) -> None:
        faults.append(error)
        changed.set()

    with tempfile.TemporaryDirectory() as folder:
        link = await open_source(
            spec.source,
            receive,
            lost,
            window=count,
            max_message=spec.options.max_message,
            overflow=lambda: Oversized(Path(folder)),
        )
        try:
            while len(here) < count and not faults:
                changed.clear()
                async with asyncio.timeout(idle):
                    await changed.wait()
        except TimeoutError:
            pass
        finally:
            link.stop()
            for delivery in here:
                link.settle(delivery, Settle.RELEASE)
            await link.close(5.0)
    if faults:
        raise LinkError(f"{spec.source}: {faults[0]}")
    return found
