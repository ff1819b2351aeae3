"""What a migration of a RabbitMQ would lose: its queues, listed and read without consuming."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import attrs

from amqp10msg.net.bridge.bridge import RouteSpec
from amqp10msg.net.bridge.dry import DryRun, dry_run
from amqp10msg.net.bridge.management import Management
from amqp10msg.net.bridge.options import RouteOptions
from amqp10msg.net.bridge.terms import LinkError
from amqp10msg.net.bridge.urls import Endpoint
from amqp10msg.translate import PROFILES

_PAGE = 100
_MIRRORED = (
    "mirrored: RabbitMQ 4.0 and later have no mirrored classic queues, and one copy remains; "
    "declare a quorum queue"
)
_TRANSIENT = "neither durable nor exclusive: RabbitMQ 4.3 and later refuse to declare it"
_LAZY = "lazy: without effect from RabbitMQ 3.12 on"
_VERSION_1 = "storage of version 1: gone from RabbitMQ 4.3 on"
_LIMIT = "no delivery-limit: RabbitMQ 4.0 and later drop what was delivered again 20 times"
_EXCLUSIVE = "exclusive: nobody but the connection that declared it can read it"


@attrs.frozen
class Queue:
    """A queue of a RabbitMQ.

    Attributes:
        name: its name.
        kind: ``classic``, ``quorum`` or ``stream``; empty where nobody said.
        messages: in it; None where nobody said.
        notes: what becomes of it in RabbitMQ 4, in words.
        exclusive: nobody else can read it.
    """

    name: str
    kind: str = ""
    messages: int | None = None
    notes: tuple[str, ...] = ()
    exclusive: bool = False

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> Queue:
        """Read what the management API says of a queue.

        Raises:
            ValueError: that is not a queue.
        """
        try:
            name, messages = found["name"], found.get("messages")
            kind = found.get("type", "classic")
            said = {**_table(found.get("effective_policy_definition"))}
            said |= {key.removeprefix("x-"): v for key, v in _table(found["arguments"]).items()}
            exclusive = bool(found.get("exclusive"))
            transient = not found.get("durable", True) and not exclusive
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"the management API gave no queue: {error!r}") from None
        notes = [
            note
            for note, holds in (
                (_MIRRORED, "ha-mode" in said),
                (_TRANSIENT, transient),
                (_LAZY, said.get("queue-mode") == "lazy"),
                (_VERSION_1, said.get("queue-version") == 1),
                (_LIMIT, kind == "quorum" and "delivery-limit" not in said),
                (_EXCLUSIVE, exclusive),
            )
            if holds
        ]
        count = messages if isinstance(messages, int) else None
        return cls(str(name), str(kind), count, tuple(notes), exclusive)


def _table(value: Any) -> dict[str, Any]:
    # An empty one comes as a list.
    return value if isinstance(value, dict) else {}


@attrs.frozen
class Checked:
    """A queue and what a migration would make of its messages.

    Attributes:
        queue: the queue.
        run: what was found; None where it could not be read, or was empty.
        fault: why it could not be read; empty where it could.
    """

    queue: Queue
    run: DryRun | None = None
    fault: str = ""


def list_queues(
    management: str, endpoint: Endpoint, environment: Mapping[str, str] | None = None
) -> list[Queue]:
    """Ask RabbitMQ's management API for the queues of a virtual host.

    Args:
        management: where it is, such as ``http://host:15672``; user and password of the endpoint
            are used where it has none, and may be ``${NAME}``.
        endpoint: a URL of the broker, whose virtual host, certificates and user are meant.
        environment: variables; those of the process where None.

    Raises:
        LinkError: it does not answer, or refuses.
        ValueError: that is not its URL, or not an answer of it.
    """
    api = Management(management, endpoint, environment)
    found: list[Queue] = []
    page, pages = 1, 1
    while page <= pages:
        answer = api.queues(f"?page={page}&page_size={_PAGE}")
        try:
            items, pages = answer["items"], int(answer["page_count"])
        except (KeyError, TypeError, ValueError):
            raise ValueError(f"{api.place} is not a management API of RabbitMQ") from None
        found += [Queue.of(item) for item in items]
        page += 1
    return sorted(found, key=lambda queue: queue.name)


async def check_queues(
    endpoint: Endpoint,
    target: Endpoint,
    queues: Iterable[Queue],
    options: RouteOptions,
    count: int,
    idle: float,
    *,
    tell: Callable[[Checked], None] | None = None,
) -> list[Checked]:
    """Read up to this many messages of each queue, and give them back.

    Args:
        endpoint: the broker, over AMQP 0-9-1.
        target: where they would go; it is not connected to.
        queues: which.
        options: of the routes; their profile is what is looked at.
        count: messages of each queue, 1 to 65535.
        idle: seconds without a message, after which there are no more.
        tell: called with each queue when it has been read.
    """
    found = []
    for queue in queues:
        one = await _check(endpoint, target, queue, options, count, idle)
        if tell is not None:
            tell(one)
        found.append(one)
    return found


async def _check(
    endpoint: Endpoint,
    target: Endpoint,
    queue: Queue,
    options: RouteOptions,
    count: int,
    idle: float,
) -> Checked:
    if queue.exclusive:
        return Checked(queue, fault=_EXCLUSIVE)
    at = attrs.evolve(endpoint, queue=queue.name)
    offset = None
    if queue.kind == "stream":
        offset = "first"
        of_streams = f"{options.profile}-stream"
        if of_streams in PROFILES:
            options = attrs.evolve(options, profile=of_streams)
    try:
        if not queue.messages:
            # The management API counts every few seconds, or not at all.
            from amqp10msg.net.bridge.basic import depth_of  # noqa: PLC0415  (an extra)

            queue = attrs.evolve(queue, messages=(await depth_of(endpoint, queue.name)).ready)
        if not queue.messages and queue.kind not in {"", "stream"}:
            return Checked(queue)
        # How many a stream has, the broker says as it was a while ago.
        most = min(count, queue.messages or count)
        run = await dry_run(_spec(at, target, options, queue, offset), most, idle)
        if not run.read and not queue.kind:
            # A stream begins with what comes next unless it is told otherwise.
            run = await dry_run(_spec(at, target, options, queue, "first"), most, idle)
        if not run.read:
            return Checked(queue)
    except LinkError as error:
        return Checked(queue, fault=str(error.without(endpoint.password)))
    return Checked(queue, run)


def _spec(
    source: Endpoint, target: Endpoint, options: RouteOptions, queue: Queue, offset: str | None
) -> RouteSpec:
    return RouteSpec(attrs.evolve(source, offset=offset), target, options, queue.name)
