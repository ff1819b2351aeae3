"""What a queue says of earlier deliveries: `Redelivery`, and what consumers said: `added_terms`.

As recorded on RabbitMQ 3.10.8, 4.0.5 and 4.3.6 for each way to give a message back. How many
deliveries failed is kept with a message that dies, and goes on counting in the queue for its dead
letters; how often a queue gave it to a consumer is not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from amqp10msg.translate.circumstances import Circumstances, Death, GivenBack
from amqp10msg.translate.rabbitmq.fields import signed, text
from amqp10msg.translate.rabbitmq.terms import CrashedError, Term, TermReader, kind_of, untyped
from amqp10msg.translate.rabbitmq.version import BrokerVersion
from amqp10msg.wire.kernel import encode_value

_DELIVERIES = b"x-delivery-count"
_ACQUISITIONS = b"x-acquired-count"
_DEATH = {
    f"x-{which}-death-{what}"
    for which in ("first", "last")
    for what in ("exchange", "queue", "reason")
}
#: The annotations that say of deaths.
DEATH_NAMES = {b"x-opt-deaths", *(name.encode() for name in _DEATH)}
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


def added_terms(broker: BrokerVersion, given: Circumstances) -> dict[bytes, Term]:
    """Return the annotations that outcomes modified added in quorum queues, in the order of names.

    The broker takes each value out of its type and gives it one again: numbers become longs, text
    and bytes strings. Compound values stay as they are.
    """
    said: dict[str, Any] = {}
    places: Sequence[Circumstances | Death] = [*reversed(given.deaths), given]
    for place in () if broker.is_plugin else places:
        if place.queue_type == "quorum" and not (broker.stream and place is given):
            said |= place.annotations
    made = {}
    for name in sorted(said, key=str.encode):
        if name in _DEATH and given.deaths and name not in given.annotations:
            continue  # what the broker says of the death comes later
        octets = encode_value(said[name])
        made[name.encode()] = _typed_again(TermReader(broker.codec, octets, 0).term())
    return made


def _typed_again(term: Term) -> Term:
    if isinstance(term, bool):
        return "boolean", term
    value = untyped(term)
    if kind_of(term) in ("list", "map", "boolean", "float", "double") or value is None:
        return term
    return ("utf8", value) if isinstance(value, bytes) else ("long", value)


def check_typed(annotations: dict[bytes, Term]) -> None:
    """Raise for values to which the broker gives no type again before a consumer of 1.0 gets them.

    Raises:
        CrashedError: there is one.
    """
    for name, term in annotations.items():
        if term is None or kind_of(term) in ("float", "double", "unread"):
            raise CrashedError(
                "the consumer's connection dies: no type is found for what modified added",
                f"message-annotations[{name.decode('utf-8', 'replace')!r}]",
            )


def typed_fields(annotations: dict[bytes, Term]) -> list[tuple[bytes, str, Any]]:
    """Return the headers that such annotations become; values of other types become none."""
    made: list[tuple[bytes, str, Any]] = []
    for name, term in annotations.items():
        kind = kind_of(term)
        if kind == "boolean":
            made.append((name, "t", term[1]))
        elif kind == "utf8":
            made.append((name, "S", text(term[1])))
        elif kind == "long":
            made.append((name, "l", signed(term[1] % 2**64)))
    return made
