"""Smaller variants of messages, to cut one that shows something down to what shows it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import attrs
from odd_messages import NULL, Compound, Sections, Value, sized

from amqp10msg import EncodeError
from amqp10msg.basic import PROPERTIES, BasicMessage, FieldArray, FieldTable

__all__ = ["least", "smaller"]


def _smaller_fields(letter: str, value: Any) -> Iterator[tuple[str, Any]]:
    if letter == "A":
        entries = value.entries
        for place in range(len(entries)):
            yield "A", FieldArray.of(entries[:place] + entries[place + 1 :])
        for place, entry in enumerate(entries):
            yield entry
            for less in _smaller_fields(*entry):
                yield "A", FieldArray.of([*entries[:place], less, *entries[place + 1 :]])
    elif letter == "F":
        for table in _smaller_tables(value.entries):
            yield "F", table
        for _, *entry in value.entries:
            yield entry[0], entry[1]
    elif letter in "Sx" and len(value) > 1:
        for cut in (value[:1], value[: len(value) // 2], value[:-1], value[1:]):
            yield letter, cut
    if (letter, value) != ("I", 5) and letter != "I":
        yield "I", 5


def _smaller_tables(entries: list[Any]) -> Iterator[FieldTable]:
    for place in range(len(entries)):
        yield FieldTable.of(entries[:place] + entries[place + 1 :])
    for place, (name, letter, value) in enumerate(entries):
        for less in _smaller_fields(letter, value):
            yield FieldTable.of([*entries[:place], (name, *less), *entries[place + 1 :]])
        for short in ("a", "x-a", name[:-1]):
            if len(short) < len(name) and short != name:
                yield FieldTable.of(
                    [*entries[:place], (short, letter, value), *entries[place + 1 :]]
                )


def _smaller_basics(given: BasicMessage) -> Iterator[BasicMessage]:
    properties = given.properties
    for row in PROPERTIES:
        value = getattr(properties, row.name)
        if value is None:
            continue
        variants: Iterator[Any] = iter([None])
        yield attrs.evolve(given, properties=attrs.evolve(properties, **{row.name: None}))
        if isinstance(value, FieldTable):
            variants = _smaller_tables(value.entries)
        elif isinstance(value, str) and len(value) > 1:
            variants = iter([value[:1], value[: len(value) // 2], value[:-1], value[1:]])
        for less in variants:
            yield attrs.evolve(given, properties=attrs.evolve(properties, **{row.name: less}))
    for body in (b"", given.body[: len(given.body) // 2], given.body[:-1]):
        if len(body) < len(given.body):
            yield attrs.evolve(given, body=body)


def _smaller_values(value: Value) -> Iterator[Value]:
    if isinstance(value, Compound):
        step = 2 if value.code == 0xC1 else 1
        items = value.items
        for place in range(0, len(items), step):
            yield Compound(value.code, items[:place] + items[place + step :])
        for place, item in enumerate(items):
            for less in _smaller_values(item):
                yield Compound(value.code, (*items[:place], less, *items[place + 1 :]))
    elif value != NULL:
        yield NULL
        octets = value.octets
        if octets[0] in (0xA0, 0xA1, 0xA3) and octets[1] > 1:
            for cut in (octets[2:3], octets[2:-1]):
                yield sized(octets[0], cut)
        elif octets[0] in (0xB0, 0xB1, 0xB3):
            yield sized(octets[0] - 0x10, octets[5 : 5 + (len(octets) - 5) // 2])
            yield sized(octets[0] - 0x10, octets[5:-1])


def _smaller_sections(given: Sections) -> Iterator[Sections]:
    for place in range(len(given)):
        yield given[:place] + given[place + 1 :]
    for place, (descriptor, content) in enumerate(given):
        for less in _smaller_values(content):
            yield (*given[:place], (descriptor, less), *given[place + 1 :])


def smaller(given: Any) -> Iterator[Any]:
    """Yield variants of a message that are a little smaller."""
    if isinstance(given, BasicMessage):
        return _smaller_basics(given)
    return _smaller_sections(given) if isinstance(given, tuple) else iter(())


def least(given: Any, difference: Callable[[Any], str], tries: int) -> tuple[Any, str]:
    """Cut a message down to a small one on which profile and broker still differ."""
    text = difference(given)
    left = tries
    found = True
    while found:
        found = False
        for less in smaller(given):
            left -= 1
            if left < 0:
                return given, text
            try:
                other = difference(less)
            except EncodeError:
                continue
            if other:
                given, text, found = less, other, True
                break
    return given, text
