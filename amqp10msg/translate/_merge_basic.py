"""Restores a 0-9-1 message from its 1.0 translation, and keeps edits of the translation."""

from __future__ import annotations

from itertools import islice
from typing import Any

from amqp10msg.basic.message import BasicMessage
from amqp10msg.basic.properties import decode_field, decode_table
from amqp10msg.basic.tables import FieldTable
from amqp10msg.sections import BODY_CODES
from amqp10msg.sections.parts import octets_of_sections
from amqp10msg.translate._headers import INEXPRESSIBLE, header_value, section_and_key
from amqp10msg.translate._to_amqp10 import is_delivered
from amqp10msg.translate._to_basic import BasicDraft
from amqp10msg.translate.report import Notes
from amqp10msg.translate.residual import (
    EMPTY_TABLE_KEY,
    EXCHANGE_KEY,
    HEADER_FIELDS_KEY,
    HEADER_TABLE_KEY,
    INDEXES_OF_X_HEADERS_KEY,
    MARKED_SECTIONS_KEY,
    ROUTING_KEY_KEY,
    SPARSE_APPLICATION_KEY,
    SPARSE_PROPERTIES_KEY,
    UNMARKED_SECTIONS_KEY,
)
from amqp10msg.translate.table import ENCODED_SECTIONS_TYPE_PROPERTY, PROPERTY_FIELDS, ROWS
from amqp10msg.wire.primitives import identical


def restored_basic(draft: BasicDraft, notes: Notes) -> BasicMessage:
    """Restore the original 0-9-1 message from a 1.0 message that has its residual.

    A value of the residual is restored if its translation is still in the 1.0 message. Otherwise
    the message was edited, and the residual's value is dropped. Restored values are removed from
    the new residual, `draft.carried`.
    """
    content = draft.saved or {}
    basic = draft.basic
    message = draft.message
    if content.get(MARKED_SECTIONS_KEY) == 1 and (
        payload := octets_of_sections(draft.wire, BODY_CODES)
    ):
        basic.body = payload
        basic.properties.type = ENCODED_SECTIONS_TYPE_PROPERTY
        draft.restored.add("body")
        draft.carried.pop(UNMARKED_SECTIONS_KEY, None)
    body = message.body[0] if isinstance(message.body, list) else message.body
    is_data = type(body).__name__ == "Data"
    for row in ROWS:
        if row.number not in content:
            continue
        saved = content[row.number]
        value = saved.decode("utf-8", "surrogateescape") if isinstance(saved, bytes) else saved
        translated = row.forward(value, is_data)
        if translated.target == "field":
            section = getattr(message, row.section)
            current_value = getattr(section, row.field) if section is not None else row.default
            is_unedited = current_value == translated.value
        elif translated.target == "annotation":
            annotations: Any = message.message_annotations or {}
            is_unedited = annotations.get(row.annotation) == translated.value
        else:
            current = getattr(basic.properties, row.name)
            # RabbitMQ 4.0 and 4.1 make a message durable if the field durable is unset.
            by_broker = row.name == "delivery_mode" and current == 2 and is_delivered(basic)
            is_unedited = current is None or by_broker
        if is_unedited:
            setattr(basic.properties, row.name, value)
            draft.restored.add(f"{row.section}.{row.field.replace('_', '-')}")
            if row.section == "properties":
                _drop_carried(draft, SPARSE_PROPERTIES_KEY, PROPERTY_FIELDS.index(row.field))
        else:
            notes.add(
                f"properties.{row.name.replace('_', '-')}",
                "dropped",
                value,
                getattr(basic.properties, row.name),
                "the message was edited: the original is stale",
            )
    if EXCHANGE_KEY in content and not (basic.exchange or basic.routing_key):
        basic.exchange = content[EXCHANGE_KEY].decode("utf-8", "surrogateescape")
        basic.routing_key = content.get(ROUTING_KEY_KEY, b"").decode("utf-8", "surrogateescape")
    entries = _restored_headers(draft, content)
    if entries or (content.get(EMPTY_TABLE_KEY) == 1 and not draft.entries):
        basic.properties.headers = FieldTable.of(entries)
    else:
        basic.properties.headers = None
    return basic


def _restored_headers(draft: BasicDraft, content: dict[int, Any]) -> list[Any]:
    """Return the original headers from the residual, but the current values of edited headers."""
    if HEADER_TABLE_KEY in content:
        return _merge_table(draft, decode_table(content[HEADER_TABLE_KEY]).entries)
    entries = list(draft.entries)
    if HEADER_FIELDS_KEY in content:
        _restore_fields(draft, entries, content[HEADER_FIELDS_KEY])
    indexes = content.get(INDEXES_OF_X_HEADERS_KEY)
    if indexes is not None:
        return _insert_x_headers(
            entries[: draft.application_count], entries[draft.application_count :], indexes
        )
    return entries


def _restore_fields(draft: BasicDraft, entries: list[Any], fields: dict[str, bytes]) -> None:
    """Replace headers that were not edited by the original fields from the residual, in place."""
    current = _current_values(draft)
    # The index of each header by name; the first index, if the name is repeated.
    indexes = {entry[0]: index for index, entry in reversed(list(enumerate(entries)))}
    for name, octets in fields.items():
        index = indexes.get(name)
        key = section_and_key(name)
        if index is None or key not in current:
            continue
        letter, value = decode_field(octets)
        mapped, _ = header_value(name, letter, value)
        if mapped is not INEXPRESSIBLE and identical(mapped, current[key]):
            entries[index] = (name, letter, value)
            if key == ("p", name):
                _drop_carried(draft, SPARSE_APPLICATION_KEY, name)


def _drop_carried(draft: BasicDraft, code: int, key: Any) -> None:
    """Remove a restored field or property from the new residual, and mark it as restored."""
    if code == SPARSE_APPLICATION_KEY:
        draft.restored.add(f"application-properties[{key!r}]")
    entries = draft.carried.get(code)
    if entries is not None:
        entries.pop(key, None)
        if not entries:
            del draft.carried[code]


def _insert_x_headers(
    property_headers: list[Any], x_headers: list[Any], indexes: list[int]
) -> list[Any]:
    """Insert the x- headers among the other headers, at their original positions.

    Args:
        property_headers: the headers from application properties.
        x_headers: the headers with names ``x-…``.
        indexes: the original indexes of the x- headers in the table, ascending.
    """
    result: list[Any] = []
    remaining = iter(property_headers)
    for position, entry in zip(indexes, x_headers, strict=False):
        result += islice(remaining, max(0, position - len(result)))
        result.append(entry)
    return [*result, *remaining, *x_headers[len(indexes) :]]


def _current_values(draft: BasicDraft) -> dict[Any, Any]:
    """Return the values of application properties and annotations, by `section_and_key`."""
    values: dict[Any, Any] = {}
    for key, value in (draft.message.application_properties or {}).items():
        values["p", key] = value
    for key, value in (draft.message.message_annotations or {}).items():
        values["a", key] = value
    return values


def _merge_table(draft: BasicDraft, original: list[Any]) -> list[Any]:
    """Merge the original table of headers with the headers that the 1.0 message has now.

    Of several headers with the same name, 1.0 holds the first that it can represent. If that header
    was edited, the edited header becomes the first with its name, and the duplicates stay. If it
    was removed, its duplicates are removed as well.
    """
    values = _current_values(draft)
    current = {entry[0]: entry for entry in draft.entries}
    represented: dict[str, int] = {}  # the index of the header that 1.0 holds, by name
    edited: set[str] = set()
    for index, (name, letter, value) in enumerate(original):
        key = section_and_key(name)
        mapped, _ = header_value(name, letter, value) if key is not None else (INEXPRESSIBLE, False)
        if mapped is INEXPRESSIBLE or name in represented:
            continue
        represented[name] = index
        if key not in values or not identical(mapped, values[key]):
            edited.add(name)
        elif key == ("p", name):
            _drop_carried(draft, SPARSE_APPLICATION_KEY, name)
    for index, (name, _, _) in enumerate(original):
        # 1.0 cannot represent the original header, so the header with its name is new: an edit.
        if name in current and name not in represented:
            represented[name] = index
            edited.add(name)
    result: list[Any] = []
    replaced: set[str] = set()
    for index, entry in enumerate(original):
        name = entry[0]
        if name in edited:
            if name not in current:
                continue
            if name not in replaced:
                result.append(current[name])
            replaced.add(name)
            if represented[name] == index:
                continue
        result.append(entry)
    names = {entry[0] for entry in original}
    return result + [entry for entry in draft.entries if entry[0] not in names]
