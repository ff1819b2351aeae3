"""The history of a message's deaths, which RabbitMQ 4 adds when it dead-letters a message."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from amqp10msg.basic import FieldArray, FieldTable
from amqp10msg.translate.circumstances import Circumstances, Death
from amqp10msg.translate.rabbitmq.fields import cut, octets, signed, text
from amqp10msg.translate.rabbitmq.terms import CrashedError, Term, kind_of

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
