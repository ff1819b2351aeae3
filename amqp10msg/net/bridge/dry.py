"""What a route, or a migration of a RabbitMQ, would lose, found without consuming.

Deliveries are read and returned.
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
from amqp10msg.net.bridge.links import open_source
from amqp10msg.net.bridge.management import EXCLUSIVE, Queue
from amqp10msg.net.bridge.routes import RouteSpec
from amqp10msg.net.bridge.sending import losses_of_names, message_of, without_delivery
from amqp10msg.net.bridge.statistics import count_bounded
from amqp10msg.net.bridge.terms import LinkError, Oversized, Settle, SourceDelivery, SourceRequest
from amqp10msg.net.bridge.urls import Endpoint
from amqp10msg.net.options import RouteOptions
from amqp10msg.translate import PROFILES, Circumstances, Loss, explain, to_amqp10, to_basic
from amqp10msg.wire.errors import AmqpError, TranslationError

#: Bytes of a message that is shown as an example; of a larger one only the words are kept.
_LARGEST = 1 << 18
#: As the translation says it, which knows nothing of messages between ends of one protocol.
_FOREIGN = "refused: the user-id is not the connection's user"
#: Seconds that a source has to take back what was read.
_GOODBYE = 3.0
_TOO_LARGE = "it is larger than max-message: its bytes would go to a file of the quarantine"


@attrs.frozen
class Example:
    """One message that would lose data.

    The words are what it becomes and what it loses, or what is known of one without translation;
    the bytes a message of AMQP 1.0, as it came or as it would be sent.
    """

    words: str
    octets: bytes | None = None


@attrs.define
class DryRun:
    """What a route would make of the messages of its source.

    Attributes:
        spec: the route.
        read: messages read.
        octets: their bytes.
        exact: messages that lose no data of their senders.
        unmatched: messages that do not pass the route's filter.
        losses: messages that lose data of their senders for good, by path, action and reason.
        marks: messages that lose a mark that the source's broker wrote at delivery, likewise.
        changed: messages with a value that arrives in another form, which a translation back
            restores, likewise.
        carried: messages with a value that is in the residual alone, where only a translation back
            finds it, by path and reason.
        failures: messages that cannot be sent, by reason.
        examples: for each loss and failure, the index of its example in `messages`.
        messages: the examples.
    """

    spec: RouteSpec
    read: int = 0
    octets: int = 0
    exact: int = 0
    unmatched: int = 0
    losses: Counter[tuple[str, str, str]] = attrs.Factory(Counter)
    marks: Counter[tuple[str, str, str]] = attrs.Factory(Counter)
    changed: Counter[tuple[str, str, str]] = attrs.Factory(Counter)
    carried: Counter[tuple[str, str]] = attrs.Factory(Counter)
    failures: Counter[str] = attrs.Factory(Counter)
    examples: dict[Any, int] = attrs.Factory(dict)
    messages: list[Example] = attrs.Factory(list)

    def add(self, delivery: SourceDelivery) -> None:
        """Look at one delivery of the route."""
        spec, options = self.spec, self.spec.options
        user = spec.target.user  # whom the target knows the bridge as
        self.read += 1
        self.octets += delivery.size
        if delivery.large is not None:
            self.octets += len(delivery.large)
            self._fail(_TOO_LARGE, Example(f"{len(delivery.large):,} bytes"))
            return
        if delivery.fault:
            self._fail(delivery.fault, Example(f"begins with {delivery.octets[:32]!r}"))
            return
        profile: Any = options.profile
        was_basic = delivery.content_header is not None
        try:
            message: Any = message_of(delivery)
            if options.predicate is not None and not options.predicate(message):
                self.unmatched += 1
                return
            names = losses_of_names(spec.source, spec.target, options, delivery)
            if spec.source.protocol == spec.target.protocol:
                if _is_foreign(message, user):
                    raise TranslationError("properties.user-id", _FOREIGN)
                self._lose(names, lambda: Example(_published_to(delivery)))
                return
            message = without_delivery(message, spec.source, options)
            make: Any = to_amqp10 if was_basic else to_basic
            given = Circumstances(user=user)
            made = make(message, profile, circumstances=given)
            octets = made.message.encode() if was_basic else delivery.octets
        except AmqpError as error:
            raw = None if was_basic or not delivery.octets else delivery.octets[:_LARGEST]
            self._fail(str(error), Example(f"begins with {delivery.raw[:32].hex(' ')}", raw))
            return
        except Exception as error:  # noqa: BLE001  (of a hook: what it fails on is not sent)
            self._fail(f"filter: {error!r}", Example(f"begins with {delivery.raw[:32].hex(' ')}"))
            return

        def example() -> Example:
            words = explain(message, profile, circumstances=given)
            if names:
                words = f"{_published_to(delivery)}\n{words}"
            return Example(words, octets if len(octets) <= _LARGEST else None)

        self._lose([*names, *made.losses], example)

    def _lose(self, losses: Iterable[Loss], example: Callable[[], Example]) -> None:
        """Count the losses of one message, and keep it as the example of those that are new."""
        lost: dict[tuple[str, str, str], None] = {}
        for one in losses:
            if one.is_permanent:
                lost[one.path, one.action, one.reason] = None
            elif one.owner == "broker":
                count_bounded(self.marks, (one.path, one.action, one.reason))
            elif one.action == "carried":
                count_bounded(self.carried, (one.path, one.reason))
            else:
                count_bounded(self.changed, (one.path, one.action, one.reason))
        self.exact += not lost
        for key in lost:
            count_bounded(self.losses, key)
        new = [key for key in lost if key not in self.examples and key in self.losses]
        if new:
            self._show(new, example())

    def _fail(self, why: str, example: Example) -> None:
        why = count_bounded(self.failures, why)
        if why not in self.examples:
            self._show([why], example)

    def _show(self, keys: list[Any], example: Example) -> None:
        self.examples |= dict.fromkeys(keys, len(self.messages))
        self.messages.append(example)

    @property
    def losing(self) -> int:
        """Messages that would lose data, or could not be sent at all."""
        return self.read - self.exact - self.unmatched


def _published_to(delivery: SourceDelivery) -> str:
    exchange, key = delivery.exchange, delivery.routing_key
    return f"published to the exchange {exchange!r} with the routing key {key!r}"


def _is_foreign(message: BasicMessage | Message, user: str | None) -> bool:
    """Whether a message has a user-id that is not the connection's user, where that is known."""
    properties = message.properties
    found: Any = None if properties is None else properties.user_id
    if found is None or user is None:
        return False
    return bool(
        found != (user.encode("utf-8", "surrogateescape") if isinstance(found, bytes) else user)
    )


async def dry_run(found: DryRun, count: int, idle: float) -> DryRun:
    """Read up to this many messages of a route's source, and give all of them back.

    The source may count these deliveries: RabbitMQ says of them that they were delivered before,
    and a quorum queue with a delivery-limit counts them.

    `found` takes what is found, and is returned; these are 1 to 65535 messages, and there are no
    more after `idle` seconds without one. The route's target is not connected to.
    """
    await give_back(found.spec, count, idle, found.add)
    return found


async def give_back(
    spec: RouteSpec, count: int, idle: float, look: Callable[[SourceDelivery], None]
) -> None:
    """Read up to this many messages of a route's source, look at each, and give all of them back.

    These are 1 to 65535 messages, the most that are unsettled at a time, and there are no more
    after `idle` seconds without one. The bytes of each are gone after `look`. The route's target is
    not connected to.
    """
    here: list[SourceDelivery] = []
    changed = asyncio.Event()
    faults: list[LinkError] = []

    def receive(deliveries: Sequence[SourceDelivery]) -> None:
        for delivery in deliveries:
            if len(here) < count:
                look(delivery)
            if delivery.large is not None:
                delivery.large.discard()
            # Settled at the end: its bytes are not needed for that.
            delivery.octets, delivery.content_header = b"", None
            here.append(delivery)
        changed.set()

    def lost(error: LinkError) -> None:
        faults.append(error)
        changed.set()

    with tempfile.TemporaryDirectory() as folder:
        link = await open_source(
            SourceRequest(
                endpoint=spec.source,
                receive=receive,
                on_lost=lost,
                window=count,
                max_message=spec.options.max_message,
                overflow=lambda: Oversized(Path(folder), spec.options.max_large),
            )
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
            link.settle(here, Settle.RELEASE)
            await link.close(_GOODBYE)
    if faults:
        raise LinkError(f"{spec.source}: {faults[0]}")


@attrs.frozen
class Checked:
    """A queue and what a migration would make of its messages.

    The fault says why it could not be read, and is empty where it could.
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
    """Read up to this many messages of a queue, and give them back.

    These are 1 to 65535, and there are no more after `idle` seconds without one. The broker is
    asked over AMQP 0-9-1; the target is not connected to.
    """
    from amqp10msg.net.bridge.basic import depth_of  # noqa: PLC0415  (an extra)

    if queue.exclusive:
        return Checked(queue, fault=EXCLUSIVE)
    at = attrs.evolve(endpoint, queue=queue.name, offset=None)
    if queue.kind == "stream":
        at = attrs.evolve(at, offset="first")
        of_streams = f"{options.profile}-stream"
        if of_streams in PROFILES:
            options = attrs.evolve(options, profile=of_streams)
    try:
        if not queue.messages:
            # The management API counts every few seconds, or not at all.
            queue = attrs.evolve(queue, messages=(await depth_of(endpoint, queue.name)).ready)
        if not queue.messages and queue.kind not in {"", "stream"}:
            return Checked(queue)
        # How many a stream has, the broker says as it was a while ago.
        most = min(count, queue.messages or count)
        spec = RouteSpec(at, target, options, queue.name)
        run = await dry_run(DryRun(spec), most, idle)
        if not run.read and not queue.kind:
            # A stream begins with what comes next unless it is told otherwise.
            spec = attrs.evolve(spec, source=attrs.evolve(at, offset="first"))
            run = await dry_run(DryRun(spec), most, idle)
        if not run.read:
            ready = (await depth_of(endpoint, queue.name)).ready
            said = f"{ready} messages are in it, and none came within {idle:g} s: raise --idle"
            return Checked(queue, fault=said if ready else "")
    except LinkError as error:
        return Checked(queue, fault=str(error.without(endpoint.password)))
    return Checked(queue, run)
