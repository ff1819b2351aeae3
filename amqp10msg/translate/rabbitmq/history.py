"""What a message tells of its past: deaths, deliveries before, and what consumers said."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from amqp10msg.basic import FieldArray, FieldTable
from amqp10msg.translate._delivery import OF_DEATHS
from amqp10msg.translate.circumstances import Circumstances, Death, GivenBack
from amqp10msg.translate.rabbitmq.fields import cut, octets, signed, text
from amqp10msg.translate.rabbitmq.terms import CrashedError, Term, TermReader, kind_of, untyped
from amqp10msg.translate.rabbitmq.version import BrokerVersion
from amqp10msg.wire.kernel import encode_value

_DEATH = (
    (b"queue", "utf8"),
    (b"reason", "symbol"),
    (b"count", "ulong"),
    (b"first-time", "timestamp"),
    (b"last-time", "timestamp"),
    (b"exchange", "utf8"),
    (b"routing-keys", "array"),
)


def to_header(value: Term) -> FieldArray | None:
    """Return the value of the header x-death that the annotation x-opt-deaths becomes."""
    if kind_of(value) != "array" or value[1] != "map":
        return None
    made = []
    for _, pairs in value[2]:
        rest = list(pairs)
        entries: list[tuple[str, str, Any]] = []
        if rest and rest[0][0] == ("symbol", b"ttl") and kind_of(rest[0][1]) == "uint":
            entries.append(("original-expiration", "S", str(rest[0][1][1])))
            rest = rest[1:]
        if [(key, kind_of(item)) for key, item in rest] != [
            (("symbol", name), kind) for name, kind in _DEATH
        ]:
            raise CrashedError(
                "the consumer's connection dies (541): deaths of another shape",
                "message-annotations['x-opt-deaths']",
            )
        death = {key[1]: item for key, item in rest}
        keys = death[b"routing-keys"]
        if keys[1] != "utf8":
            raise CrashedError("the consumer's connection dies (541): routing keys of another type")
        entries += _fields(
            signed(death[b"count"][1]),
            text(death[b"reason"][1]),
            text(death[b"queue"][1]),
            cut(death[b"first-time"][1]) % 2**64,
            text(death[b"exchange"][1]),
            [text(key[1]) for key in keys[2]],
        )
        made.append(("F", FieldTable.of(entries)))
    return FieldArray.of(made)


def _fields(
    count: int, reason: str, queue: str, seconds: int, exchange: str, keys: Sequence[str]
) -> list[tuple[str, str, Any]]:
    return [
        ("count", "l", count),
        ("reason", "S", reason),
        ("queue", "S", queue),
        ("time", "T", seconds),
        ("exchange", "S", exchange),
        ("routing-keys", "A", FieldArray.of([("S", key) for key in keys])),
    ]


def added_headers(given: Circumstances, *, is_old: bool = False) -> list[tuple[bytes, str, Any]]:
    """Return the headers that say of deaths.

    Args:
        given: the deaths.
        is_old: as RabbitMQ 3.10 does.
    """
    made: list[tuple[bytes, str, Any]] = []
    if not given.deaths:
        return made
    tables = []
    for death in given.deaths:
        entries = _fields(
            death.count,
            death.reason,
            death.queue,
            death.time // 1000,
            death.exchange,
            death.routing_keys,
        )
        if death.ttl is not None:
            ttl = ("original-expiration", "S", str(death.ttl))
            entries.insert(len(entries) if is_old else 0, ttl)
        tables.append(("F", FieldTable.of(entries)))
    made.append((b"x-death", "A", FieldArray.of(tables)))
    made += [
        (name, "S", value)
        for name, value in _ends(given)
        if not (is_old and name.startswith(b"x-last"))
    ]
    return made


def added_annotations(given: Circumstances) -> list[tuple[bytes, Term]]:
    """Return the message annotations that say of deaths."""
    if not given.deaths:
        return []
    maps = []
    for death in given.deaths:
        last = death.time if death.last_time is None else death.last_time
        pairs: list[tuple[bytes, Term]] = [
            (b"queue", ("utf8", octets(death.queue))),
            (b"reason", ("symbol", octets(death.reason))),
            (b"count", ("ulong", death.count)),
            (b"first-time", ("timestamp", death.time)),
            (
                b"last-time",
                ("timestamp", last),
            ),
            (b"exchange", ("utf8", octets(death.exchange))),
            (b"routing-keys", ("array", "utf8", [("utf8", octets(k)) for k in death.routing_keys])),
        ]
        if death.ttl is not None:
            pairs.insert(0, (b"ttl", ("uint", death.ttl)))
        maps.append(("map", [(("symbol", key), value) for key, value in pairs]))
    ends = [(name, ("utf8", octets(value))) for name, value in _ends(given)]
    return [(b"x-opt-deaths", ("array", "map", maps)), *ends]


def _ends(given: Circumstances) -> list[tuple[bytes, str]]:
    """Return the headers on the first death and the last one."""
    which: dict[str, Death] = {
        "first": min(given.deaths, key=lambda death: death.time),
        "last": given.deaths[0],
    }
    return [
        (f"x-{name}-death-{what}".encode(), getattr(death, what))
        for name, death in which.items()
        for what in ("exchange", "queue", "reason")
    ]


# Redeliveries.


_DELIVERIES = b"x-delivery-count"
_ACQUISITIONS = b"x-acquired-count"
#: The annotations that say of deaths.
DEATH_NAMES = {b"x-opt-deaths", *(name.encode() for name in OF_DEATHS)}
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
        if name in OF_DEATHS and given.deaths and name not in given.annotations:
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
