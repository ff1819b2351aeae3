"""What a bridge's result depends on besides the message: `Circumstances`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import attrs


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
    """

    queue: str
    reason: Literal["expired", "rejected", "maxlen", "delivery_limit"]
    time: int
    exchange: str = ""
    routing_keys: Sequence[str] = ()
    count: int = 1
    last_time: int | None = None
    ttl: int | None = None


@attrs.frozen
class Circumstances:
    """What a bridge's result depends on besides the message.

    Attributes:
        user: whom the broker knows the publisher as, for its check of the user-id; None to leave
            out the check.
        stream_offset: of the message in the stream; None to leave out what states it.
        arrival_time: when the message arrived at the broker, in ms since the Unix epoch.
        delivery_count: how often a quorum queue delivered it before. Of a dead letter RabbitMQ 4
            says it in the header alone.
        deaths: of a dead letter, the last one first; the profile is that of the queue or stream it
            went to; of RabbitMQ 3.10, a queue. Exchange and routing key of the message are
            then those of the dead letter.
    """

    user: str | None = "guest"
    stream_offset: int | None = None
    arrival_time: int | None = None
    delivery_count: int = 0
    deaths: Sequence[Death] = ()
