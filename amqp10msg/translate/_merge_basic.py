"""Restores a 0-9-1 message from its 1.0 translation, and keeps edits made to that."""

from __future__ import annotations

from itertools import islice
from typing import Any

from amqp10msg.basic.message import BasicMessage
from amqp10msg.basic.properties import decode_field, decode_table
from amqp10msg.basic.tables import FieldTable
from amqp10msg.sections import BODY_CODES
from amqp10msg.sections.parts import octets_of_sections
from amqp10msg.translate._headers import NOTHING, header_value, place_of
from amqp10msg.translate._to_amqp10 import is_delivered
from amqp10msg.translate._to_basic import BasicDraft
from amqp10msg.translate.report import Notes
from amqp10msg.translate.residual import (
    BODY,
    EMPTY,
    EXCHANGE,
    FIELDS,
    ORDER,
    ROUTING_KEY,
    SPARSE_APPLICATION,
    SPARSE_PROPERTIES,
    TABLE,
    UNMARKED,
)
from amqp10msg.translate.table import MARKER, PROPERTY_FIELDS, ROWS
from amqp10msg.wire.primitives import identical


def restored_basic(made: BasicDraft, notes: Notes) -> BasicMessage:
    """Restore the original 0-9-1 message of a 1.0 message that has its residual.

    A value of the residual is used if its translation is still in the 1.0 message; otherwise the
    message was edited, and the residual's value is dropped. Restored values are removed from
    `made.carried`.
    """
    content = made.saved or {}
    basic = made.basic
    message = made.message
    if content.get(BODY) == 1 and (payload := octets_of_sections(made.wire, BODY_CODES)):
        basic.body = payload
        basic.properties.type = MARKER
        made.restored.add("body")
        made.carried.pop(UNMARKED, None)
    body = message.body[0] if isinstance(message.body, list) else message.body
    is_data = type(body).__name__ == "Data"
    for row in ROWS:
        if row.number not in content:
            continue
        saved = content[row.number]
        value = saved.decode("utf-8", "surrogateescape") if isinstance(saved, bytes) else saved
        place = row.forward(value, is_data)
        if place.where == "field":
            section = getattr(message, row.section)
            now = getattr(section, row.field) if section is not None else row.default
            same = now == place.value
        elif place.where == "annotation":
            annotations: Any = message.message_annotations or {}
            same = annotations.get(row.annotation) == place.value
        else:
            current = getattr(basic.properties, row.name)
            # RabbitMQ 4.0 and 4.1 make a message durable if it does not say otherwise.
            by_broker = row.name == "delivery_mode" and current == 2 and is_delivered(basic)
            same = current is None or by_broker
        if same:
            setattr(basic.properties, row.name, value)
            made.restored.add(f"{row.section}.{row.field.replace('_', '-')}")
            if row.section == "properties":
                _drop(made, SPARSE_PROPERTIES, PROPERTY_FIELDS.index(row.field))
        else:
            notes.add(
                f"properties.{row.name.replace('_', '-')}",
                "dropped",
                value,
                getattr(basic.properties, row.name),
                "the message was edited: the original is stale",
            )
    if EXCHANGE in content and not (basic.exchange or basic.routing_key):
        basic.exchange = content[EXCHANGE].decode("utf-8", "surrogateescape")
        basic.routing_key = content.get(ROUTING_KEY, b"").decode("utf-8", "surrogateescape")
    entries = _headers(made, content)
    if entries or (content.get(EMPTY) == 1 and not made.entries):
        basic.properties.headers = FieldTable.of(entries)
    else:
        basic.properties.headers = None
    return basic


def _headers(made: BasicDraft, content: dict[int, Any]) -> list[Any]:
    if TABLE in content:
        return _whole_table(made, decode_table(content[TABLE]).entries)
    entries = list(made.entries)
    if FIELDS in content:
        _restore_fields(made, entries, content[FIELDS])
    order = content.get(ORDER)
    if order is not None:
        return _ordered(entries[: made.split], entries[made.split :], order)
    return entries


def _restore_fields(made: BasicDraft, entries: list[Any], fields: dict[str, bytes]) -> None:
    """Replace each header that was not edited by its original from the residual."""
    now = _values_by_name(made)
    # The first index of each name.
    places = {entry[0]: place for place, entry in reversed(list(enumerate(entries)))}
    for name, octets in fields.items():
        place = places.get(name)
        key = place_of(name)
        if place is None or key not in now:
            continue
        letter, value = decode_field(octets)
        mapped, _ = header_value(name, letter, value)
        if mapped is not NOTHING and identical(mapped, now[key]):
            entries[place] = (name, letter, value)
            if key == ("p", name):
                _drop(made, SPARSE_APPLICATION, name)


def _drop(made: BasicDraft, code: int, key: Any) -> None:
    """Remove a restored entry from `made.carried`."""
    if code == SPARSE_APPLICATION:
        made.restored.add(f"application-properties[{key!r}]")
    found = made.carried.get(code)
    if found is not None:
        found.pop(key, None)
        if not found:
            del made.carried[code]


def _ordered(plain: list[Any], annotated: list[Any], order: list[int]) -> list[Any]:
    """Put the x- headers back to the positions that they had among the others.

    Args:
        plain: the others.
        annotated: the x- headers.
        order: their positions, which ascend.
    """
    result: list[Any] = []
    rest = iter(plain)
    for at, entry in zip(order, annotated, strict=False):
        result += islice(rest, max(0, at - len(result)))
        result.append(entry)
    return [*result, *rest, *annotated[len(order) :]]


def _values_by_name(made: BasicDraft) -> dict[Any, Any]:
    found: dict[Any, Any] = {}
    for key, value in (made.message.application_properties or {}).items():
        found["p", key] = value
    for key, value in (made.message.message_annotations or {}).items():
        found["a", key] = value
    return found


def _whole_table(made: BasicDraft, original: list[Any]) -> list[Any]:
    """Merge the table that was with what stands in the message now.

    Of headers of one name, 1.0 has the first that it can say. If that was edited, it becomes the
    first of all, and the others stay; if it was taken away, they go with it.
    """
    now = _values_by_name(made)
    current = {entry[0]: entry for entry in made.entries}
    places: dict[str, int] = {}
    edited: set[str] = set()
    for place, (name, letter, value) in enumerate(original):
        key = place_of(name)
        mapped, _ = header_value(name, letter, value) if key is not None else (NOTHING, False)
        if mapped is NOTHING or name in places:
            continue
        places[name] = place
        if key not in now or not identical(mapped, now[key]):
            edited.add(name)
        elif key == ("p", name):
            _drop(made, SPARSE_APPLICATION, name)
    for place, (name, _, _) in enumerate(original):
        if name in current and name not in places:  # it was added in the place of one without
            places[name] = place
            edited.add(name)
    result: list[Any] = []
    met: set[str] = set()
    for place, entry in enumerate(original):
        name = entry[0]
        if name in edited:
            if name not in current:
                continue
            if name not in met:
                result.append(current[name])
            met.add(name)
            if places[name] == place:
                continue
        result.append(entry)
    names = {entry[0] for entry in original}
    return result + [entry for entry in made.entries if entry[0] not in names]
