"""What a queue says of earlier deliveries: `Redelivery`.

As recorded on RabbitMQ 3.10.8, 4.0.5 and 4.3.6 for each way to give a message back. How many
deliveries failed is kept with a message that dies, and goes on counting in the queue for its dead
letters; how often a queue gave it to a consumer is not.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from amqp10msg.translate.circumstances import Circumstances, GivenBack
from amqp10msg.translate.rabbitmq.version import BrokerVersion

_DELIVERIES = b"x-delivery-count"
_ACQUISITIONS = b"x-acquired-count"
#: What gives a message up as rejected does.
_DISCARDS = frozenset({"nack", "reject"})


@attrs.frozen
class Redelivery:
    """What a queue says of earlier deliveries.

    Attributes:
        failed: how many of them failed: the delivery-count of the header.
        again: the message was delivered before: redelivered, and not its first acquirer.
        counts: the annotations or headers that the queue adds, in the order of their names.
    """

    failed: int
    again: bool
    counts: Sequence[tuple[bytes, int]]


_FIRST = Redelivery(0, False, ())


def redelivery(broker: BrokerVersion, given: Circumstances) -> Redelivery:
    """Return the marks of earlier deliveries that a queue sets; a stream sets none."""
    if broker.stream or not (given.given_back or given.deaths):
        return _FIRST
    failed = _failed(broker, given.queue_type, given.given_back)
    for death in given.deaths:
        failed += _failed(broker, death.queue_type, death.given_back)
        is_discarded = death.reason == "rejected" and death.given_back[-1:]
        if is_discarded and broker.discards_fail and death.queue_type == "quorum":
            failed += death.given_back[-1] in _DISCARDS
    # A quorum queue that has not given it to anybody takes what failed in other queues for that.
    acquired = len(given.given_back) or failed
    counts = [(_DELIVERIES, acquired)]
    if broker.acquisitions:
        counts = [(_ACQUISITIONS, acquired), (_DELIVERIES, failed)]
    is_quorum = given.queue_type == "quorum"
    again = bool(acquired if is_quorum or broker.acquisitions else given.given_back)
    return Redelivery(failed, again, [one for one in counts if is_quorum and one[1]])


def _failed(broker: BrokerVersion, queue_type: str, ways: Sequence[GivenBack]) -> int:
    counted = broker.failures.get(queue_type, frozenset())
    return sum(way in counted for way in ways)
