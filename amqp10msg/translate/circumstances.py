"""What a bridge's result depends on besides the message: `Circumstances`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias, get_args

import attrs

#: How a consumer gave a message back to its queue.
#:
#: - ``released``, ``modified`` and ``modified-failed`` (its delivery-failed is true): the outcomes
#:   of 1.0.
#: - ``nack`` and ``reject``: the methods of 0-9-1, which requeue; ``nack`` also for recover.
#: - ``detached``: the link of 1.0 was detached before there was an outcome.
#: - ``closed``: the session of 1.0, the channel of 0-9-1 or the connection ended before.
#:
#: The last one of a `Death` with the reason ``rejected`` is how it was given up: ``rejected``, the
#: outcome; ``nack`` or ``reject`` without requeue; ``modified`` or ``modified-failed`` with
#: undeliverable-here.
GivenBack: TypeAlias = Literal[
    "released", "modified", "modified-failed", "rejected", "nack", "reject", "detached", "closed"
]
#: What a queue is, as its argument ``x-queue-type`` says. Streams have profiles of their own.
QueueType: TypeAlias = Literal["classic", "quorum"]


def _check_type(_: Any, field: Any, value: Any) -> None:
    if value not in get_args(QueueType):
        raise ValueError(f"{field.name} is {value!r}; it is one of: {_listed(QueueType)}")


def _check_ways(_: Any, field: Any, value: Any) -> None:
    if isinstance(value, str):
        raise TypeError(f"{field.name} is {value!r}; it is a sequence, one item for each delivery")
    for place, way in enumerate(value):
        if way not in get_args(GivenBack):
            raise ValueError(
                f"{field.name}[{place}] is {way!r}; it is one of: {_listed(GivenBack)}"
            )


def _check_names(_: Any, field: Any, value: Any) -> None:
    for name in value:
        if not name.startswith("x-"):
            raise ValueError(
                f"{field.name}[{name!r}]: names begin with 'x-'; a broker ends the session of a "
                "consumer that says others, and takes the message back as closed"
            )


def _listed(names: Any) -> str:
    return ", ".join(get_args(names))


@attrs.frozen
class Death:
    """Why and where a message left a queue for its dead-letter exchange, as RabbitMQ records it.

    Attributes:
        queue: the queue that it left.
        reason: ``expired``; ``rejected``, also by modified with undeliverable-here; ``maxlen``; or
            ``delivery_limit`` of a quorum queue.
        time: when it did so first, in ms since the Unix epoch.
        exchange: that it was published to.
        routing_keys: that it was published with, those of CC included.
        count: how often it left that queue for that reason.
        last_time: when it did so last, in ms since the Unix epoch; None: at `time`.
        ttl: the time to live that it was published with, in ms; None without one.
        queue_type: of the queue that it left.
        given_back: how consumers gave it back to that queue, and up, in order.
        annotations: the message-annotations of the outcomes modified there, by their names; of each
            name the last value. Quorum queues of RabbitMQ 4 keep them.

    Raises:
        TypeError: `given_back` is a text.
        ValueError: a type of queue or a way to give back is not known; the name of an annotation
            does not begin with ``x-``.
    """

    queue: str
    reason: Literal["expired", "rejected", "maxlen", "delivery_limit"]
    time: int
    exchange: str = ""
    routing_keys: Sequence[str] = ()
    count: int = 1
    last_time: int | None = None
    ttl: int | None = None
    queue_type: QueueType = attrs.field(default="classic", validator=_check_type)
    given_back: Sequence[GivenBack] = attrs.field(default=(), validator=_check_ways)
    annotations: Mapping[str, Any] = attrs.field(factory=dict, validator=_check_names)


@attrs.frozen
class Circumstances:
    """What a bridge's result depends on besides the message.

    Attributes:
        user: whom the broker knows the publisher as, for its check of the user-id; None to leave
            out the check.
        stream_offset: of the message in the stream; None to leave out what states it.
        queue_type: of the queue that delivers it; a profile of a stream does not look at it.
        given_back: how consumers gave it back to that queue before, in order; empty when it is
            delivered for the first time. Streams do not say it.
        annotations: the message-annotations of the outcomes modified among those, by their names;
            of each name the last value. Quorum queues of RabbitMQ 4 add them to the message, others
            leave them out; RabbitMQ 3.10 ends a session that says any, which is ``closed``.
        deaths: of a dead letter, the last one first; the profile is that of the queue or stream it
            went to; RabbitMQ 3.10 loses what goes to a stream. Exchange and routing key of the
            message are then those of the dead letter.

    Raises:
        TypeError: `given_back` is a text.
        ValueError: a type of queue or a way to give back is not known; the name of an annotation
            does not begin with ``x-``.
    """

    user: str | None = "guest"
    stream_offset: int | None = None
    queue_type: QueueType = attrs.field(default="classic", validator=_check_type)
    given_back: Sequence[GivenBack] = attrs.field(default=(), validator=_check_ways)
    deaths: Sequence[Death] = ()
    annotations: Mapping[str, Any] = attrs.field(factory=dict, validator=_check_names)

    @property
    def is_first_delivery(self) -> bool:
        """Whether the message is delivered for the first time, and without a stream offset."""
        return self.stream_offset is None and not (
            self.given_back or self.deaths or self.annotations
        )


#: Those of a message that is delivered for the first time, published by guest.
USUAL = Circumstances()
