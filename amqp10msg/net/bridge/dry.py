"""Dry runs, which report the data that a route or a migration would lose.

A dry run reads messages, and releases them to the source.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import attrs

from amqp10msg.basic import BasicMessage
from amqp10msg.message import Message
from amqp10msg.net.bridge.filtering import UnmatchedCheck, evaluate_filter
from amqp10msg.net.bridge.management import EXCLUSIVE_NOTE, Queue
from amqp10msg.net.bridge.options import RouteOptions
from amqp10msg.net.bridge.routes import RouteSpec
from amqp10msg.net.bridge.sending import losses_of_names, message_of, without_delivery
from amqp10msg.net.bridge.statistics import count_bounded
from amqp10msg.net.ends.links import open_source
from amqp10msg.net.ends.terms import LinkError, Oversized, Settle, SourceDelivery, SourceRequest
from amqp10msg.net.ends.urls import Endpoint
from amqp10msg.translate import PROFILES, Circumstances, Loss, explain, to_amqp10, to_basic
from amqp10msg.wire.errors import AmqpError, ForeignUserError

#: Maximum size in bytes of an example message. For a larger message, only the description is kept.
_MAX_EXAMPLE = 1 << 18
#: Timeout in seconds of releasing the messages and closing the source.
_CLOSE_TIMEOUT = 3.0
#: Why a message that is too large for memory cannot be sent.
_TOO_LARGE = "it exceeds max-message, and would be written to a file of the quarantine"


@attrs.frozen
class Example:
    """A message that would lose data, or could not be sent.

    Attributes:
        words: a description of the message, its translation and its losses.
        octets: the encoded AMQP 1.0 message, as received or as it would be sent; None if it is too
            large, or there is no AMQP 1.0 message.
    """

    words: str
    octets: bytes | None = None


@attrs.define
class DryRun:
    """The result of a dry run: the number of messages with each loss.

    Attributes:
        spec: the route.
        read: number of messages read.
        octets: total size of the messages read, in bytes.
        lossless_count: number of messages without a permanent loss.
        unmatched: number of messages that do not pass the route's filter.
        losses: number of messages with each permanent loss of the sender's data, by path, action
            and reason.
        broker_losses: number of messages that lose a value that the source's broker added, by path,
            action and reason.
        restorable_changes: number of messages in which a value changes its form, and the reverse
            translation restores the value; by path, action and reason.
        carried_losses: number of messages in which a value is stored only in the residual, and the
            reverse translation restores the value; by path and reason.
        failures: number of messages that cannot be sent, by reason.
        examples: the index in `messages` of an example for each key of `losses` and `failures`.
        messages: the examples.
        unmatched_check: finds the names in the filter that no message sets.
    """

    spec: RouteSpec
    read: int = 0
    octets: int = 0
    lossless_count: int = 0
    unmatched: int = 0
    losses: Counter[tuple[str, str, str]] = attrs.Factory(Counter)
    broker_losses: Counter[tuple[str, str, str]] = attrs.Factory(Counter)
    restorable_changes: Counter[tuple[str, str, str]] = attrs.Factory(Counter)
    carried_losses: Counter[tuple[str, str]] = attrs.Factory(Counter)
    failures: Counter[str] = attrs.Factory(Counter)
    examples: dict[Any, int] = attrs.Factory(dict)
    messages: list[Example] = attrs.Factory(list)
    unmatched_check: UnmatchedCheck = attrs.field(init=False, eq=False, repr=False)

    @unmatched_check.default
    def _make_unmatched_check(self) -> UnmatchedCheck:
        return UnmatchedCheck(self.spec.options.predicate)

    def add(self, delivery: SourceDelivery) -> None:
        """Translate the message of a delivery, and count its losses or its failure."""
        spec, options = self.spec, self.spec.options
        user = spec.target.user  # the bridge's user at the target
        self.read += 1
        self.octets += delivery.size
        if delivery.large is not None:
            self.octets += len(delivery.large)
            self._count_failure(_TOO_LARGE, Example(f"{len(delivery.large):,} bytes"))
            return
        if delivery.fault:
            self._count_failure(delivery.fault, Example(f"begins with {delivery.octets[:32]!r}"))
            return
        profile: Any = options.profile
        was_basic = delivery.content_header is not None
        result = evaluate_filter(options.predicate, delivery)
        self.unmatched_check.add(result)
        if result.fault:
            self._count_failure(result.fault, _example_of(delivery))
            return
        if not result.passes:
            self.unmatched += 1
            return
        try:
            # Decode again, like the bridge: a hook may have changed the message that it tested.
            message: Any = message_of(delivery)
            names = losses_of_names(spec.source, spec.target, options, delivery)
            if spec.source.protocol == spec.target.protocol:
                if _has_foreign_user_id(message, user):
                    raise ForeignUserError
                self._count_losses(names, lambda: Example(_describe_publishing(delivery)))
                return
            message = without_delivery(message, spec.source, options)
            translate: Any = to_amqp10 if was_basic else to_basic
            circumstances = Circumstances(user=user)
            translation = translate(message, profile, circumstances=circumstances)
            octets = translation.message.encode() if was_basic else delivery.octets
        except AmqpError as error:
            self._count_failure(str(error), _example_of(delivery))
            return

        def make_example() -> Example:
            words = explain(message, profile, circumstances=circumstances)
            if names:
                words = f"{_describe_publishing(delivery)}\n{words}"
            return Example(words, octets if len(octets) <= _MAX_EXAMPLE else None)

        self._count_losses([*names, *translation.losses], make_example)

    def _count_losses(self, losses: Iterable[Loss], make_example: Callable[[], Example]) -> None:
        """Count the losses of a message.

        If a loss is new, `make_example` makes the example for it from this message.
        """
        permanent: dict[tuple[str, str, str], None] = {}
        for loss in losses:
            if loss.is_permanent:
                permanent[loss.path, loss.action, loss.reason] = None
            elif loss.owner == "broker":
                count_bounded(self.broker_losses, (loss.path, loss.action, loss.reason))
            elif loss.action == "carried":
                count_bounded(self.carried_losses, (loss.path, loss.reason))
            else:
                count_bounded(self.restorable_changes, (loss.path, loss.action, loss.reason))
        self.lossless_count += not permanent
        for key in permanent:
            count_bounded(self.losses, key)
        new = [key for key in permanent if key not in self.examples and key in self.losses]
        if new:
            self._add_example(new, make_example())

    def _count_failure(self, reason: str, example: Example) -> None:
        """Count a message that cannot be sent. Keep its example if the reason is new."""
        reason = count_bounded(self.failures, reason)
        if reason not in self.examples:
            self._add_example([reason], example)

    def _add_example(self, keys: list[Any], example: Example) -> None:
        """Add an example for some keys of `losses` or `failures`."""
        self.examples |= dict.fromkeys(keys, len(self.messages))
        self.messages.append(example)

    @property
    def losing(self) -> int:
        """Number of messages that would lose data or could not be sent."""
        return self.read - self.lossless_count - self.unmatched


def _example_of(delivery: SourceDelivery) -> Example:
    """Return the example for a message that cannot be sent, with its AMQP 1.0 bytes."""
    is_amqp10 = delivery.content_header is None and delivery.octets
    raw = delivery.octets[:_MAX_EXAMPLE] if is_amqp10 else None
    return Example(f"begins with {delivery.raw[:32].hex(' ')}", raw)


def _describe_publishing(delivery: SourceDelivery) -> str:
    """Return a sentence with the exchange and routing key of a 0-9-1 message."""
    exchange, key = delivery.exchange, delivery.routing_key
    return f"published to the exchange {exchange!r} with the routing key {key!r}"


def _has_foreign_user_id(message: BasicMessage | Message, user: str | None) -> bool:
    """Whether the message has a user-id that differs from the connection's user."""
    properties = message.properties
    user_id: Any = None if properties is None else properties.user_id
    if user_id is None or user is None:
        return False
    return bool(
        user_id != (user.encode("utf-8", "surrogateescape") if isinstance(user_id, bytes) else user)
    )


async def dry_run(run: DryRun, count: int, idle: float) -> DryRun:
    """Read messages of a route's source, count their losses, and release them.

    No connection to the target is opened. The source counts the messages as delivered: RabbitMQ
    marks them as redelivered, and a quorum queue counts the deliveries for its delivery-limit.

    Args:
        run: receives the results, and is returned.
        count: maximum number of messages, 1 to 65535.
        idle: stop after this many seconds without a message.

    Raises:
        LinkError: the source cannot be read.
    """
    await read_and_release(run.spec, count, idle, run.add)
    return run


async def read_and_release(
    spec: RouteSpec, count: int, idle: float, on_delivery: Callable[[SourceDelivery], None]
) -> None:
    """Read messages of a route's source, call `on_delivery` for each, and release them.

    Args:
        spec: the route. No connection to its target is opened.
        count: maximum number of messages, 1 to 65535; all are unsettled at the same time.
        idle: stop after this many seconds without a message.
        on_delivery: called with each delivery, whose bytes are dropped afterwards.

    Raises:
        LinkError: the source cannot be read.
    """
    received: list[SourceDelivery] = []
    changed = asyncio.Event()
    faults: list[LinkError] = []

    def receive(deliveries: Sequence[SourceDelivery]) -> None:
        for delivery in deliveries:
            if len(received) < count:
                on_delivery(delivery)
            if delivery.large is not None:
                delivery.large.discard()
            # Free the bytes: the delivery is kept until it is released at the end.
            delivery.octets, delivery.content_header = b"", None
            received.append(delivery)
        changed.set()

    def on_lost(error: LinkError) -> None:
        faults.append(error)
        changed.set()

    with tempfile.TemporaryDirectory() as folder:
        request = SourceRequest(
            endpoint=spec.source,
            receive=receive,
            on_lost=on_lost,
            window=count,
            max_message=spec.options.max_message,
            overflow=lambda: Oversized(Path(folder), spec.options.max_large),
        )
        try:
            link = await open_source(request)
        except LinkError as error:
            raise LinkError(f"{spec.source}: {error}", **vars(error)) from None
        try:
            while len(received) < count and not faults:
                changed.clear()
                async with asyncio.timeout(idle):
                    await changed.wait()
        except TimeoutError:
            pass
        finally:
            link.stop()
            link.settle(received, Settle.RELEASE)
            await link.close(_CLOSE_TIMEOUT)
    if faults:
        raise LinkError(f"{spec.source}: {faults[0]}")


@attrs.frozen
class Checked:
    """A queue, and the result of a dry run of its messages.

    Attributes:
        queue: the queue.
        run: the result of the dry run; None if no message was read.
        fault: why the queue could not be read; empty if it was read.
    """

    queue: Queue
    run: DryRun | None = None
    fault: str = ""


async def check_queue(
    endpoint: Endpoint,
    target: Endpoint,
    queue: Queue,
    options: RouteOptions,
    count: int,
    idle: float,
) -> Checked:
    """Do a dry run of a queue over AMQP 0-9-1.

    Args:
        endpoint: the broker of the queue.
        target: the target for which the messages are translated.
        queue: the queue.
        options: the options of the route.
        count: maximum number of messages, 1 to 65535.
        idle: stop after this many seconds without a message.
    """
    from amqp10msg.net.ends.basic import depth_of  # noqa: PLC0415  (an extra)

    if queue.exclusive:
        return Checked(queue, fault=EXCLUSIVE_NOTE)
    queue_endpoint = attrs.evolve(endpoint, queue=queue.name, offset=None)
    if queue.kind == "stream":
        queue_endpoint = attrs.evolve(queue_endpoint, offset="first")
        stream_profile = f"{options.profile}-stream"
        if stream_profile in PROFILES:
            options = attrs.evolve(options, profile=stream_profile)
    try:
        if not queue.messages:
            # Ask the queue: the management API updates its counts every few seconds, or never.
            queue = attrs.evolve(queue, messages=(await depth_of(endpoint, queue.name)).ready)
        if not queue.messages and queue.kind not in {"", "stream"}:
            return Checked(queue)
        # A count of 0 is ignored for a stream, because it may be out of date.
        limit = min(count, queue.messages or count)
        spec = RouteSpec(queue_endpoint, target, options, queue.name)
        run = await dry_run(DryRun(spec), limit, idle)
        if not run.read and not queue.kind:
            # The queue may be a stream: without an offset, only new messages are delivered.
            spec = attrs.evolve(spec, source=attrs.evolve(queue_endpoint, offset="first"))
            run = await dry_run(DryRun(spec), limit, idle)
        if not run.read:
            ready = (await depth_of(endpoint, queue.name)).ready
            fault = f"it has {ready} messages, but delivered none within {idle:g} s: raise --idle"
            return Checked(queue, fault=fault if ready else "")
    except LinkError as error:
        return Checked(queue, fault=str(error.without(endpoint.password)))
    return Checked(queue, run)
