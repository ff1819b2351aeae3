"""The headers and annotations that record dead-lettering, redeliveries and modified outcomes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from amqp10msg.basic import FieldArray, FieldTable
from amqp10msg.translate._delivery import DEATH_SUMMARY_HEADER_NAMES
from amqp10msg.translate.circumstances import Circumstances, Death, GivenBack
from amqp10msg.translate.rabbitmq.fields import octets, signed, text, whole_seconds
from amqp10msg.translate.rabbitmq.terms import CrashedError, Term, TermReader, kind_of, untyped
from amqp10msg.translate.rabbitmq.version import BrokerVersion
from amqp10msg.wire.kernel import encode_value

# The keys of a death in x-opt-deaths, and the types of their values.
_DEATH_FIELD_TYPES = (
    (b"queue", "utf8"),
    (b"reason", "symbol"),
    (b"count", "ulong"),
    (b"first-time", "timestamp"),
    (b"last-time", "timestamp"),
    (b"exchange", "utf8"),
    (b"routing-keys", "array"),
)


def to_header(value: Term) -> FieldArray | None:
    """Convert the annotation x-opt-deaths to the header x-death; None if it is no array of maps."""
    if kind_of(value) != "array" or value[1] != "map":
        return None
    deaths = []
    for _, pairs in value[2]:
        remaining = list(pairs)
        entries: list[tuple[str, str, Any]] = []
        if remaining and remaining[0][0] == ("symbol", b"ttl"):
            ttl = remaining[0][1]
            if kind_of(ttl) == "uint":
                entries.append(("original-expiration", "S", str(ttl[1])))
                remaining = remaining[1:]
        if [(key, kind_of(item)) for key, item in remaining] != [
            (("symbol", name), kind) for name, kind in _DEATH_FIELD_TYPES
        ]:
            raise CrashedError(
                "the consumer's connection dies (541): a death has unexpected fields or types",
                "message-annotations['x-opt-deaths']",
            )
        death = {key[1]: item for key, item in remaining}
        keys = death[b"routing-keys"]
        if keys[1] != "utf8":
            raise CrashedError(
                "the consumer's connection dies (541): the routing keys of a death are not strings"
            )
        entries += _death_fields(
            signed(death[b"count"][1]),
            text(death[b"reason"][1]),
            text(death[b"queue"][1]),
            whole_seconds(death[b"first-time"][1]) % 2**64,
            text(death[b"exchange"][1]),
            [text(key[1]) for key in keys[2]],
        )
        deaths.append(("F", FieldTable.of(entries)))
    return FieldArray.of(deaths)


def _death_fields(
    count: int, reason: str, queue: str, seconds: int, exchange: str, keys: Sequence[str]
) -> list[tuple[str, str, Any]]:
    """Return the fields of a death in the header x-death."""
    return [
        ("count", "l", count),
        ("reason", "S", reason),
        ("queue", "S", queue),
        ("time", "T", seconds),
        ("exchange", "S", exchange),
        ("routing-keys", "A", FieldArray.of([("S", key) for key in keys])),
    ]


def added_headers(
    circumstances: Circumstances, *, is_old: bool = False
) -> list[tuple[bytes, str, Any]]:
    """Return the headers that the broker adds to a dead letter.

    Args:
        circumstances: the circumstances of the delivery, which include the deaths.
        is_old: whether to return the headers that RabbitMQ 3.10 adds.
    """
    headers: list[tuple[bytes, str, Any]] = []
    if not circumstances.deaths:
        return headers
    tables = []
    for death in circumstances.deaths:
        entries = _death_fields(
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
    headers.append((b"x-death", "A", FieldArray.of(tables)))
    headers += [
        (name, "S", value)
        for name, value in _first_and_last(circumstances)
        if not (is_old and name.startswith(b"x-last"))
    ]
    return headers


def added_annotations(circumstances: Circumstances) -> list[tuple[bytes, Term]]:
    """Return the message annotations that the broker adds to a dead letter."""
    if not circumstances.deaths:
        return []
    maps = []
    for death in circumstances.deaths:
        last = death.time if death.last_time is None else death.last_time
        pairs: list[tuple[bytes, Term]] = [
            (b"queue", ("utf8", octets(death.queue))),
            (b"reason", ("symbol", octets(death.reason))),
            (b"count", ("ulong", death.count)),
            (b"first-time", ("timestamp", death.time)),
            (b"last-time", ("timestamp", last)),
            (b"exchange", ("utf8", octets(death.exchange))),
            (b"routing-keys", ("array", "utf8", [("utf8", octets(k)) for k in death.routing_keys])),
        ]
        if death.ttl is not None:
            pairs.insert(0, (b"ttl", ("uint", death.ttl)))
        maps.append(("map", [(("symbol", key), value) for key, value in pairs]))
    summary = [(name, ("utf8", octets(value))) for name, value in _first_and_last(circumstances)]
    return [(b"x-opt-deaths", ("array", "map", maps)), *summary]


def _first_and_last(circumstances: Circumstances) -> list[tuple[bytes, str]]:
    """Return the names and values of the entries x-first-death-… and x-last-death-…."""
    deaths: dict[str, Death] = {
        "first": min(circumstances.deaths, key=lambda death: death.time),
        "last": circumstances.deaths[0],
    }
    return [
        (f"x-{name}-death-{attribute}".encode(), getattr(death, attribute))
        for name, death in deaths.items()
        for attribute in ("exchange", "queue", "reason")
    ]


# The counts and annotations of earlier deliveries.


_DELIVERY_COUNT_NAME = b"x-delivery-count"
_ACQUIRED_COUNT_NAME = b"x-acquired-count"
#: The keys of the annotations that a broker adds to a dead letter.
DEATH_ANNOTATIONS = {b"x-opt-deaths", *(name.encode() for name in DEATH_SUMMARY_HEADER_NAMES)}
#: Items of `Death.given_back` that discard a message like the outcome rejected does.
_DISCARDING_METHODS = frozenset({"nack", "reject"})


@attrs.frozen
class Redelivery:
    """The report of a queue, for the consumer, about earlier deliveries of a message.

    Attributes:
        failed_count: the number of failed deliveries, which is the header's delivery-count.
        is_redelivered: whether the message was delivered before: redelivered is true, and
            first-acquirer false.
        counts: the annotations or headers with counts that the queue adds, sorted by name.
    """

    failed_count: int
    is_redelivered: bool
    counts: Sequence[tuple[bytes, int]]


_NO_EARLIER_DELIVERIES = Redelivery(0, False, ())


def redelivery(broker: BrokerVersion, circumstances: Circumstances) -> Redelivery:
    """Return the report of a queue about earlier deliveries; a stream reports none."""
    if broker.stream or not (circumstances.given_back or circumstances.deaths):
        return _NO_EARLIER_DELIVERIES
    failed = _count_failed(broker, circumstances.queue_type, circumstances.given_back)
    for death in circumstances.deaths:
        failed += _count_failed(broker, death.queue_type, death.given_back)
        is_discarded = death.reason == "rejected" and death.given_back[-1:]
        if is_discarded and broker.discards_fail and death.queue_type == "quorum":
            failed += death.given_back[-1] in _DISCARDING_METHODS
    # Before its first delivery, a quorum queue counts the message's failures in other queues.
    acquired = len(circumstances.given_back) or failed
    counts = [(_DELIVERY_COUNT_NAME, acquired)]
    if broker.reports_acquisitions:
        counts = [(_ACQUIRED_COUNT_NAME, acquired), (_DELIVERY_COUNT_NAME, failed)]
    is_quorum = circumstances.queue_type == "quorum"
    again = bool(acquired if is_quorum or broker.reports_acquisitions else circumstances.given_back)
    return Redelivery(failed, again, [count for count in counts if is_quorum and count[1]])


def _count_failed(broker: BrokerVersion, queue_type: str, given_back: Sequence[GivenBack]) -> int:
    """Count the returns to a queue that are failed deliveries."""
    counted = broker.failed_returns.get(queue_type, frozenset())
    return sum(way in counted for way in given_back)


def added_terms(broker: BrokerVersion, circumstances: Circumstances) -> dict[bytes, Term]:
    """Return the annotations that modified outcomes added in quorum queues, sorted by name.

    The broker removes the type of each value and infers a new type: integers become longs, text and
    bytes become strings. Compound values are unchanged.
    """
    added: dict[str, Any] = {}
    queues: Sequence[Circumstances | Death] = [*reversed(circumstances.deaths), circumstances]
    for queue in () if broker.is_plugin else queues:
        if queue.queue_type == "quorum" and not (broker.stream and queue is circumstances):
            added |= queue.annotations
    terms = {}
    for name in sorted(added, key=str.encode):
        if (
            name in DEATH_SUMMARY_HEADER_NAMES
            and circumstances.deaths
            and name not in circumstances.annotations
        ):
            continue  # the broker replaces this value when the message dies
        octets = encode_value(added[name])
        terms[name.encode()] = _infer_type(TermReader(broker.codec, octets, 0).term())
    return terms


def _infer_type(term: Term) -> Term:
    """Return a term with the type that the broker infers for its value."""
    if isinstance(term, bool):
        return "boolean", term
    value = untyped(term)
    if kind_of(term) in ("list", "map", "boolean", "float", "double") or value is None:
        return term
    return ("utf8", value) if isinstance(value, bytes) else ("long", value)


def check_typed(annotations: dict[bytes, Term]) -> None:
    """Check that the broker can infer a type for each value before it delivers to a 1.0 consumer.

    Raises:
        CrashedError: the broker cannot infer a type.
    """
    for name, term in annotations.items():
        if term is None or kind_of(term) in ("float", "double", "unread"):
            raise CrashedError(
                "the consumer's connection dies: the broker cannot infer the type of an annotation",
                f"message-annotations[{name.decode('utf-8', 'replace')!r}]",
            )


def typed_fields(annotations: dict[bytes, Term]) -> list[tuple[bytes, str, Any]]:
    """Convert the result of `added_terms` to headers: only booleans, text and longs."""
    headers: list[tuple[bytes, str, Any]] = []
    for name, term in annotations.items():
        kind = kind_of(term)
        if kind == "boolean":
            headers.append((name, "t", term[1]))
        elif kind == "utf8":
            headers.append((name, "S", text(term[1])))
        elif kind == "long":
            headers.append((name, "l", signed(term[1] % 2**64)))
    return headers
