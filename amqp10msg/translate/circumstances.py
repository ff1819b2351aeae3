"""`Circumstances`: the inputs of a broker's translation besides the message."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias, get_args

import attrs

#: How a consumer returned a message to its queue.
#:
#: - ``released``, ``modified`` and ``modified-failed`` (with delivery-failed true): outcomes of
#:   1.0.
#: - ``nack`` and ``reject``: methods of 0-9-1 with requeue; ``nack`` also stands for recover.
#: - ``detached``: the 1.0 link was detached without an outcome.
#: - ``closed``: the 1.0 session, the 0-9-1 channel or the connection closed without an outcome.
#:
#: For a `Death` with the reason ``rejected``, the last item is the rejection: the outcome
#: ``rejected``; ``nack`` or ``reject`` without requeue; ``modified`` or ``modified-failed`` with
#: undeliverable-here.
GivenBack: TypeAlias = Literal[
    "released", "modified", "modified-failed", "rejected", "nack", "reject", "detached", "closed"
]
#: The type of a queue (argument ``x-queue-type``). Streams have separate profiles.
QueueType: TypeAlias = Literal["classic", "quorum"]


def _check_queue_type(_: Any, field: Any, value: Any) -> None:
    if value not in get_args(QueueType):
        raise ValueError(f"{field.name} must be one of {_join_choices(QueueType)}, not {value!r}")


def _check_given_back(_: Any, field: Any, value: Any) -> None:
    if isinstance(value, str):
        raise TypeError(
            f"{field.name} must be a sequence with one item per delivery, not {value!r}"
        )
    for index, item in enumerate(value):
        if item not in get_args(GivenBack):
            raise ValueError(
                f"{field.name}[{index}] must be one of {_join_choices(GivenBack)}, not {item!r}"
            )


def _check_annotation_names(_: Any, field: Any, value: Any) -> None:
    for name in value:
        if not name.startswith("x-"):
            raise ValueError(
                f"{field.name}[{name!r}]: names must begin with 'x-'. If a consumer sends another "
                "name, a broker ends its session and requeues the message: use given_back 'closed' "
                "for that"
            )


def _join_choices(literal: Any) -> str:
    """Return the members of a Literal type as text."""
    return ", ".join(get_args(literal))


@attrs.frozen
class Death:
    """A dead-lettering of a message: an entry of RabbitMQ's ``x-death`` record.

    Attributes:
        queue: the queue that the message was in.
        reason: ``expired``; ``rejected``, also for modified with undeliverable-here; ``maxlen``; or
            ``delivery_limit`` of a quorum queue.
        time: the first time that the message died like this, in ms since the Unix epoch.
        exchange: the exchange that the message was published to.
        routing_keys: the routing keys that the message was published with, including those in CC.
        count: how many times the message was dead-lettered from this queue for this reason.
        last_time: the last time that the message died like this, in ms; None if equal to `time`.
        ttl: the time to live that the message was published with, in ms; None without a ttl.
        queue_type: the type of the queue.
        given_back: how consumers returned the message to the queue, or rejected it, in order.
        annotations: the message-annotations that modified outcomes set in this queue, with the last
            value of each name. Only quorum queues of RabbitMQ 4 keep them.

    Raises:
        TypeError: `given_back` is a string.
        ValueError: an unknown queue type or item of `given_back`; or the name of an annotation does
            not begin with ``x-``.
    """

    queue: str
    reason: Literal["expired", "rejected", "maxlen", "delivery_limit"]
    time: int
    exchange: str = ""
    routing_keys: Sequence[str] = ()
    count: int = 1
    last_time: int | None = None
    ttl: int | None = None
    queue_type: QueueType = attrs.field(default="classic", validator=_check_queue_type)
    given_back: Sequence[GivenBack] = attrs.field(default=(), validator=_check_given_back)
    annotations: Mapping[str, Any] = attrs.field(factory=dict, validator=_check_annotation_names)


@attrs.frozen
class Circumstances:
    """The inputs of a broker's translation besides the message.

    Attributes:
        user: the user of the publisher's connection, which a user-id must equal; None to accept any
            user-id.
        stream_offset: the offset of the message in the stream; None to omit it from the result.
        queue_type: the type of the queue that delivers the message. Profiles of streams ignore it.
        given_back: how consumers returned the message to that queue before, in order; empty for the
            first delivery. Profiles of streams ignore it.
        deaths: for a dead letter, the record of its deaths, latest first. The profile describes the
            queue or stream that received the dead letter (RabbitMQ 3.10 drops dead letters to a
            stream). The message has the exchange and routing key of the dead letter.
        annotations: the message-annotations that modified outcomes set in that queue, with the last
            value of each name. Quorum queues of RabbitMQ 4 add them to the message; other queues
            drop them. RabbitMQ 3.10 ends the session of a consumer that sends any: use ``closed``.

    Raises:
        TypeError: `given_back` is a string.
        ValueError: an unknown queue type or item of `given_back`; or the name of an annotation does
            not begin with ``x-``.
    """

    user: str | None = "guest"
    stream_offset: int | None = None
    queue_type: QueueType = attrs.field(default="classic", validator=_check_queue_type)
    given_back: Sequence[GivenBack] = attrs.field(default=(), validator=_check_given_back)
    deaths: Sequence[Death] = ()
    annotations: Mapping[str, Any] = attrs.field(factory=dict, validator=_check_annotation_names)

    @property
    def is_first_delivery(self) -> bool:
        """Whether a queue delivers the message for the first time. False with a stream offset."""
        return self.stream_offset is None and not (
            self.given_back or self.deaths or self.annotations
        )


#: The default: the first delivery of a message published by the user guest.
DEFAULT_CIRCUMSTANCES = Circumstances()
