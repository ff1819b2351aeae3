"""Restores a 1.0 message from its 0-9-1 translation, and keeps edits of the translation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import attrs

from amqp10msg.basic.message import BasicMessage
from amqp10msg.basic.properties import encode_field
from amqp10msg.basic.tables import FieldTable
from amqp10msg.message import Message
from amqp10msg.sections import BODY_CODES, SPEC_BY_CODE, Header, Properties
from amqp10msg.translate import residual
from amqp10msg.translate._delivery import (
    ADDED_HEADER_LETTERS,
    encode_full_header,
    in_name_order,
    is_in_name_order,
    without_broker_headers,
)
from amqp10msg.translate._headers import (
    INEXPRESSIBLE,
    ROW_BY_ANNOTATION,
    annotation_of,
    header_field,
    header_of,
    header_value,
    property_name,
    section_and_key,
    to_field,
)
from amqp10msg.translate._to_amqp10 import (
    Amqp10Draft,
    body_of,
    draft_of,
    filled,
    is_delivered,
    unchecked,
)
from amqp10msg.translate.losses import TO_AMQP10_LOSSES
from amqp10msg.translate.report import Notes
from amqp10msg.translate.residual import (
    DATA_HEADS_KEY,
    ENCODED_NULL,
    HEADER_FIELDS_KEY,
    HEADER_INDEXES_KEY,
    HEADER_TABLE_KEY,
    INDEXES_OF_X_HEADERS_KEY,
    MARKED_SECTIONS_KEY,
    MESSAGE_FORMAT_KEY,
    MESSAGE_IN_PAYLOAD_KEY,
    ROUTING_ANNOTATIONS_FIRST_KEY,
    SPARSE_APPLICATION_KEY,
    SPARSE_PROPERTIES_KEY,
    UNMARKED_SECTIONS_KEY,
    WHOLE_MESSAGE_KEY,
    pad_with_nulls,
    section_octets,
)
from amqp10msg.translate.table import ENCODED_SECTIONS_TYPE_PROPERTY, PROPERTY_FIELDS, ROWS
from amqp10msg.wire import kernel
from amqp10msg.wire.errors import DecodeError
from amqp10msg.wire.kernel.codes import (
    APPLICATION_PROPERTIES_CODE,
    DATA_CODE,
    DELIVERY_ANNOTATIONS_CODE,
    FOOTER_CODE,
    HEADER_CODE,
    MESSAGE_ANNOTATIONS_CODE,
    PROPERTIES_CODE,
)
from amqp10msg.wire.limits import UNLIMITED
from amqp10msg.wire.primitives import HEAD_SIZES, Symbol, identical

# Python types whose values have the same encoding if they are equal.
_SAME_ENCODING_TYPES = {str, int, bool, bytes}
_ROWS_BY_FIELD = {row.field: row for row in ROWS if row.section}
_ROW_NUMBER_BY_PATH = {f"properties.{row.name.replace('_', '-')}": row.number for row in ROWS}
_ROW_BY_FIELD_INDEX = tuple(_ROWS_BY_FIELD.get(name) for name in PROPERTY_FIELDS)


def restored_message(
    basic: BasicMessage,
    entries: list[Any],
    content: dict[int, Any],
    notes: Notes,
    to_basic: Callable[[Message, Notes], BasicMessage],
) -> Message:
    """Restore the original 1.0 message of a 0-9-1 message that has its residual.

    A value of the residual is restored if its translation is still in the 0-9-1 message. Otherwise
    the message was edited, and the edited value is translated.

    Args:
        basic: the 0-9-1 message.
        entries: its headers, without the residual.
        content: the content of the residual.
        notes: receives the losses.
        to_basic: the translation from 1.0 to 0-9-1, to detect edits.

    Raises:
        AmqpError, ValueError: this library did not write the residual.
    """
    if WHOLE_MESSAGE_KEY in content or MESSAGE_IN_PAYLOAD_KEY in content:
        return _restore_whole(basic, entries, content, notes, to_basic)
    original = _original_annotations(content)
    annotation_headers = _header_names(original)
    plain, draft = _without_broker_additions(basic, entries, annotation_headers, notes, content)
    return _assemble(plain, draft, content, original, annotation_headers, notes)


def _without_broker_additions(
    basic: BasicMessage,
    entries: list[Any],
    annotation_headers: set[str],
    notes: Notes,
    content: dict[int, Any],
) -> tuple[BasicMessage, Amqp10Draft]:
    """Remove RabbitMQ's additions and the residual. Return the message and its translated parts."""
    if basic.exchange or basic.routing_key:
        basic, remaining = without_broker_headers(basic, entries, notes, annotation_headers)
        entries = remaining or []
    indexes = content.get(HEADER_INDEXES_KEY, [])
    if indexes and is_in_name_order(entries):
        entries = _restore_order(indexes, entries, annotation_headers)
    table = FieldTable.of(entries) if entries else None
    plain = attrs.evolve(basic, properties=attrs.evolve(basic.properties, headers=table))
    draft_notes = Notes(notes.enabled)
    draft = draft_of(plain, entries or None, draft_notes)
    draft.pending_losses = draft_notes.losses
    return plain, draft


def _restore_order(
    indexes: list[int], entries: list[Any], annotation_headers: set[str]
) -> list[Any]:
    """Restore the original order of sorted headers, followed by headers from dead-lettering."""
    original: list[Any] = []
    death_headers: list[Any] = []
    for entry in entries:
        added = (
            ADDED_HEADER_LETTERS.get(entry[0]) == entry[1] and entry[0] not in annotation_headers
        )
        (death_headers if added else original).append(entry)
    if len(original) != len(indexes):
        return entries
    return [entry for _, entry in sorted(zip(indexes, original, strict=True))] + death_headers


def _original_annotations(content: dict[int, Any]) -> Any:
    """Return the message annotations that a residual contains."""
    octets = content.get(MESSAGE_ANNOTATIONS_CODE)
    return {} if octets is None else Message.decode(octets).message_annotations or {}


def _header_names(annotations: Any) -> set[str]:
    """Return the names of the headers that these annotations become."""
    return {
        header[0]
        for key, value in annotations.items()
        if (header := header_of(key)) is not None and header_field(header[0], value)[0]
    }


def _restore_whole(
    basic: BasicMessage,
    entries: list[Any],
    content: dict[int, Any],
    notes: Notes,
    to_basic: Callable[[Message, Notes], BasicMessage],
) -> Message:
    """Restore a message, with edits, whose residual or payload is the whole original message."""
    wire = basic.body if MESSAGE_IN_PAYLOAD_KEY in content else content[WHOLE_MESSAGE_KEY]
    try:
        original = Message.decode(wire, limits=UNLIMITED)
    except DecodeError:
        original = Message.decode(wire, limits=UNLIMITED, strict=False)
    original.message_format = content.get(MESSAGE_FORMAT_KEY, 0)
    original_basic = to_basic(original, Notes())
    headers = original_basic.properties.headers
    original_entries = headers.entries[:-1] if isinstance(headers, FieldTable) else []
    basic, draft = _without_broker_additions(
        basic, entries, {entry[0] for entry in original_entries}, notes, {}
    )
    if original._lenient and basic.properties.expiration is None:
        # Dead-lettering has moved the expiration to the record of deaths. Undo the move: a missing
        # expiration would look like an edit, and edits of an invalid original cannot be merged.
        properties = attrs.evolve(basic.properties, expiration=former_expiration(entries))
        basic = attrs.evolve(basic, properties=properties)
    table = basic.properties.headers
    current_entries = table.entries if isinstance(table, FieldTable) else []
    # Compare sorted headers, because RabbitMQ sorts the headers when it adds one.
    if (in_name_order(original_entries), attrs.evolve(original_basic.properties, headers=None)) == (
        in_name_order(current_entries),
        attrs.evolve(basic.properties, headers=None),
    ) and _is_same_body(original_basic, basic):
        return original
    if original._lenient:
        notes.add_dropped(
            "",
            len(wire),
            "the message was edited, and edits cannot be merged with its invalid original",
        )
        return draft_of(basic, current_entries or None, notes).message(basic)
    sections: dict[int, Any] = {}
    heads = []
    for code, start, content_start, end in kernel.Reader(wire, 0, UNLIMITED).scan():
        if code == DATA_CODE:
            heads.append(wire[start : content_start + HEAD_SIZES[wire[content_start]]])
        elif code not in BODY_CODES:
            sections[code] = wire[start:end]
    if MESSAGE_IN_PAYLOAD_KEY in content:
        return _merge_payload(original, basic, draft, sections, notes)
    if heads:
        sections[DATA_HEADS_KEY] = heads
    annotations = _original_annotations(sections)
    return _assemble(basic, draft, sections, annotations, _header_names(annotations), notes)


def _merge_payload(
    original: Message,
    basic: BasicMessage,
    draft: Amqp10Draft,
    content: dict[int, Any],
    notes: Notes,
) -> Message:
    """Restore the message in the payload, with edits of the properties and added headers."""
    header_and_properties = {
        code: content[code] for code in (HEADER_CODE, PROPERTIES_CODE) if code in content
    }
    # `_fit_into_frame` has cleared content-type and -encoding: a missing value is not an edit.
    for name in ("content_type", "content_encoding"):
        value = getattr(original.properties, name, None)
        if value is not None and getattr(basic.properties, name) is None:
            setattr(basic.properties, name, str(value))
    edited = _assemble(basic, draft, header_and_properties, {}, set(), notes)
    changes: dict[str, Any] = {"header": edited.header, "properties": edited.properties}
    for name in ("message_annotations", "application_properties"):
        added = getattr(edited, name)
        if added:
            changes[name] = {**(getattr(original, name) or {}), **added}
    return original.evolve(**changes)


def former_expiration(entries: list[Any]) -> str | None:
    """Return the expiration before dead-lettering, from the record of deaths; None if unknown."""
    for name, letter, value in entries:
        if name == "x-death" and letter == "A":
            for kind, death in value.entries:
                if kind == "F" and "original-expiration" in death:
                    return str(death["original-expiration"])
    return None


def _is_same_body(original: BasicMessage, basic: BasicMessage) -> bool:
    """Whether two messages have the same body. Streams re-encode bodies of encoded sections."""
    if original.body == basic.body:
        return True
    if basic.properties.type != ENCODED_SECTIONS_TYPE_PROPERTY:
        return False
    original_message, current_message = body_of(original.body), body_of(basic.body)
    if original_message is None or current_message is None:
        return False
    return identical(original_message.body, current_message.body)


def _assemble(
    basic: BasicMessage,
    draft: Amqp10Draft,
    content: dict[int, Any],
    original: Any,
    annotation_headers: set[str],
    notes: Notes,
) -> Message:
    """Assemble the restored 1.0 message. Sections without edits keep their original bytes.

    Args:
        basic: the 0-9-1 message without the residual.
        draft: the parts of its translation by the rules.
        content: the content of the residual.
        original: the message annotations in the residual.
        annotation_headers: the names of the headers that `original` becomes.
        notes: receives the losses.
    """
    header = _header_octets(basic, draft, content)
    properties, restored_fields = _properties_octets(basic, draft, content, notes)
    for row in ROWS if restored_fields else ():
        if row.field in restored_fields:
            draft.annotations.pop(row.annotation, None)
            draft.carried.pop(row.number, None)
    headers = _headers_by_name(basic)
    application, application_headers, edited = _application_octets(
        headers, draft, content, annotation_headers
    )
    merged, is_changed = _merge_annotations(
        basic, headers, draft, original, application_headers, edited
    )
    carried = _carry_edits(
        basic, headers, draft, original, application_headers, annotation_headers, edited, notes
    )
    annotations = _annotations_octets(basic, content, merged, is_changed, carried)
    octets = (
        header,
        content.get(DELIVERY_ANNOTATIONS_CODE, b""),
        annotations,
        properties,
        application,
        _body_octets(basic, draft, content),
        content.get(FOOTER_CODE, b""),
    )
    return Message.decode(b"".join(octets), message_format=content.get(MESSAGE_FORMAT_KEY, 0))


def _headers_by_name(basic: BasicMessage) -> dict[str, tuple[str, Any]]:
    """Return (letter, value) of each header by name. A repeated name maps to its first header."""
    table = basic.properties.headers
    by_name: dict[str, tuple[str, Any]] = {}
    for name, letter, value in table.entries if isinstance(table, FieldTable) else ():
        by_name.setdefault(name, (letter, value))
    return by_name


# Encoding the sections: an unedited section keeps its original bytes.


def _header_octets(basic: BasicMessage, draft: Amqp10Draft, content: dict[int, Any]) -> bytes:
    """Return the encoded header section; empty without a header."""
    delivered = is_delivered(basic)
    translated = draft.header_section(basic, delivered)
    original_octets = content.get(HEADER_CODE)
    if original_octets is None:
        if translated is None:
            return b""
        return encode_full_header(translated) if delivered else kernel.encode_value(translated)
    if original_octets == b"":
        return kernel.encode_value(translated) if draft.header is not None else b""
    original: Header = Message.decode(original_octets).header  # type: ignore[assignment]  # there is one in these bytes
    current = translated or Header()
    changes: dict[str, Any] = {}
    for name in ("durable", "priority", "ttl"):
        row = _ROWS_BY_FIELD[name]
        value = getattr(original, name)
        original_value = row.backward(value)[0] if value is not None else None
        if original_value != getattr(basic.properties, row.name) and value != getattr(
            current, name
        ):
            changes[name] = getattr(current, name)
    changes |= _delivery_changes(original, delivered, basic.redelivered)
    return (
        kernel.encode_value(attrs.evolve(original, **changes))
        if changes
        else bytes(original_octets)
    )


def _delivery_changes(original: Header, delivered: bool, redelivered: bool) -> dict[str, Any]:
    """Return the new values of the header's fields that the delivery has changed.

    Every broker and publisher sets the redelivered flag. So if the original delivery-count is above
    0, a different flag is not an edit of the delivery-count.
    """
    was_redelivered = not original.first_acquirer if delivered else False
    if was_redelivered == redelivered or original.delivery_count:
        return {}
    if delivered:
        return {"first_acquirer": not redelivered}
    return {"delivery_count": int(redelivered), "first_acquirer": False}


def update_header_for_delivery(octets: bytes, redelivered: bool) -> bytes:
    """Update first-acquirer in an encoded header section to a delivery's redelivered flag."""
    original: Header = Message.decode(octets).header  # type: ignore[assignment]  # as above
    changes = _delivery_changes(original, True, redelivered)
    return kernel.encode_value(attrs.evolve(original, **changes)) if changes else octets


def _properties_octets(
    basic: BasicMessage, draft: Amqp10Draft, content: dict[int, Any], notes: Notes
) -> tuple[bytes, set[str]]:
    """Return the encoded properties section, and the names of the fields that were restored."""
    original_octets = content.get(PROPERTIES_CODE)
    sparse: Any = content.get(SPARSE_PROPERTIES_KEY)
    if original_octets is None and sparse is None:
        section = draft.properties_section()
        return (b"" if section is None else kernel.encode_value(section)), set()
    fields: list[Any] = [(draft.properties or {}).get(name) for name in PROPERTY_FIELDS]
    length = 0  # the number of encoded fields, including trailing nulls
    if original_octets is not None:
        section = Message.decode(original_octets).properties
        original: list[Any] = [getattr(section, name) for name in PROPERTY_FIELDS]
        indexes = list(range(len(PROPERTY_FIELDS)))
    else:
        original = [None] * len(PROPERTY_FIELDS)
        for index, octets in sparse.items():
            original[index] = kernel.decode_value(octets)
        indexes = sorted([index for index, octets in sparse.items() if octets != ENCODED_NULL])
        if len(indexes) < len(sparse):
            length = max(sparse) + 1
    restored: set[str] = set()
    changed = False
    for index in indexes:
        value = original[index]
        row = _ROW_BY_FIELD_INDEX[index]
        if row is not None:
            original_value = row.backward(value)[0] if value is not None else None
            if original_value != getattr(basic.properties, row.name) and not identical(
                value, fields[index]
            ):
                changed = True
                notes.add(
                    f"properties.{row.name.replace('_', '-')}",
                    "dropped",
                    value,
                    fields[index],
                    "the property was edited: the original is stale",
                )
                continue
        fields[index] = value
        if value is not None:
            restored.add(PROPERTY_FIELDS[index])
    if original_octets is not None and not changed:
        return bytes(original_octets), restored
    if length or fields.count(None) < len(fields):
        section = unchecked(Properties, dict(zip(PROPERTY_FIELDS, fields, strict=True)))
        return pad_with_nulls(kernel.encode_value(section), length), restored
    return b"", restored


def _application_octets(
    headers: dict[str, tuple[str, Any]],
    draft: Amqp10Draft,
    content: dict[int, Any],
    annotation_headers: set[str],
) -> tuple[bytes, set[str], set[str]]:
    """Encode the application properties.

    Returns:
        The encoded section; the names of the headers whose properties were restored or merged; and
        the names of edited headers.
    """
    original_octets = content.get(APPLICATION_PROPERTIES_CODE)
    sparse = content.get(SPARSE_APPLICATION_KEY)
    if original_octets is None:
        size = len(draft.application)
        result = dict(draft.application)
        restored: set[str] = set()
        for name, octets in (sparse or {}).items():
            value = kernel.decode_value(octets)
            if name in headers and _is_translated_to(value, headers[name]):
                result[name] = value
                restored.add(name)
                _drop_carried_field(draft, name)
        if len(result) != size or draft.unplaced:
            # The restored values were appended at the end: sort them like the headers.
            result = _sorted_like_headers(headers, result)
        return (
            (_encode_map(APPLICATION_PROPERTIES_CODE, result) if result else b""),
            restored,
            set(),
        )
    original: Any = Message.decode(original_octets).application_properties or {}
    result = {}
    application_headers: set[str] = set()
    edited: set[str] = set()
    changed = False
    for key, value in original.items():
        header = property_name(key)
        if (
            header is None
            or header[0] in annotation_headers
            or not header_field(header[0], value)[0]
        ):
            result[key] = value
            continue
        field = headers.get(header[0])
        if field is None:
            changed = True
            continue
        application_headers.add(header[0])
        current, is_same = _current_value(header[0], value, field)
        if is_same:
            _drop_carried_field(draft, header[0])
        else:
            changed = True
            edited.add(header[0])
        if current is not INEXPRESSIBLE:
            result[key] = current
    for name, value in draft.application.items():
        if name not in application_headers:
            changed = True
            result[name] = value
    if not changed:
        return bytes(original_octets), application_headers, edited
    return (
        (_encode_map(APPLICATION_PROPERTIES_CODE, result) if result else b""),
        application_headers,
        edited,
    )


def _sorted_like_headers(headers: dict[str, Any], entries: dict[str, Any]) -> dict[str, Any]:
    """Return application properties in the order of their headers."""
    order = {name: index for index, name in enumerate(headers)}
    return dict(sorted(entries.items(), key=lambda pair: order.get(pair[0], 0)))


def _encode_map(code: int, entries: dict[Any, Any]) -> bytes:
    """Encode the map section with this code."""
    spec: Any = SPEC_BY_CODE[code]
    return section_octets(code, filled(spec.cls, entries))


def _is_translated_to(value: Any, field: tuple[str, Any]) -> bool:
    """Whether a 1.0 value is translated to this field (letter and value)."""
    letter, mapped, _ = to_field(value)
    if type(mapped) in _SAME_ENCODING_TYPES and type(mapped) is type(field[1]):
        return letter == field[0] and bool(mapped == field[1])
    return letter == field[0] and encode_field(letter, mapped) == encode_field(field[0], field[1])


def _current_value(name: str, value: Any, field: tuple[str, Any]) -> tuple[Any, bool]:
    """Return the 1.0 value of a header, and whether the header is unchanged.

    The header is unchanged if translating its original 1.0 `value` results in `field` again. The
    0-9-1 fields are compared, because different fields may have the same 1.0 value: 5 as "l" and
    as "L".

    Args:
        name: the name of the header.
        value: the 1.0 value of the header in the original message.
        field: the type letter and the value of the header in the 0-9-1 message.
    """
    is_same = _is_translated_to(value, field)
    return value if is_same else header_value(name, *field)[0], is_same


def _drop_carried_field(draft: Amqp10Draft, name: str) -> None:
    """Remove the field of a restored header from the new residual."""
    fields = draft.carried.get(HEADER_FIELDS_KEY)
    if fields is not None:
        fields.pop(name, None)
        if not fields:
            del draft.carried[HEADER_FIELDS_KEY]


def _carry_edits(
    basic: BasicMessage,
    headers: dict[str, tuple[str, Any]],
    draft: Amqp10Draft,
    original: Any,
    application_headers: set[str],
    annotation_headers: set[str],
    edited: set[str],
    notes: Notes,
) -> dict[int, Any]:
    """Return a new residual for edits that 1.0 cannot express, and report their losses."""
    carried = dict(draft.carried)
    carried.pop(INDEXES_OF_X_HEADERS_KEY, None)
    if basic.properties.type == ENCODED_SECTIONS_TYPE_PROPERTY and draft.body_octets is not None:
        carried.pop(MARKED_SECTIONS_KEY, None)
    is_stored = residual.RESIDUAL_NAME not in original
    # Report the losses of headers that `draft` could not place, except unedited original headers,
    # which are restored.
    repeated = _repeated_names(basic) if draft.unplaced else set()
    has_added = False
    for name in draft.unplaced:
        letter, value = headers[name]
        item, is_exact = INEXPRESSIBLE, False
        if name not in repeated and (name in application_headers or name in annotation_headers):
            if name not in edited:
                continue
            item, is_exact = header_value(name, letter, value)
        if item is INEXPRESSIBLE:
            has_added = True
            rule = TO_AMQP10_LOSSES["unplaced"]._replace(recoverable=is_stored)
            notes.add_defined(rule, f"headers[{name!r}]", value)
        elif not is_exact:
            reason = f"1.0 has no type for {letter!r}"
            notes.add(f"headers[{name!r}]", "retyped", value, item, reason)
    if not has_added and carried.pop(HEADER_TABLE_KEY, None) is not None:
        fields = {
            name: encode_field(letter, value)
            for name, (letter, value) in headers.items()
            if not _is_exact_or_untranslatable(name, letter, value)
        }
        if fields:
            carried[HEADER_FIELDS_KEY] = fields
    losses_by_path = {loss.path: loss for loss in draft.pending_losses}
    for path, number in _ROW_NUMBER_BY_PATH.items():
        if number in carried and path in losses_by_path:
            notes.losses.append(attrs.evolve(losses_by_path[path], recoverable=is_stored))
    for name in headers if HEADER_FIELDS_KEY in carried or HEADER_TABLE_KEY in carried else ():
        loss = losses_by_path.get(f"headers[{name!r}]")
        if loss is not None and loss.action != "carried":
            # The residual cannot restore an x- header that the caller has moved to another section
            # or key than the one that `annotation_of` chooses.
            is_elsewhere = name in application_headers or (
                name in annotation_headers and annotation_of(name) not in original
            )
            is_recoverable = is_stored and not (name[:2] == "x-" and is_elsewhere)
            notes.losses.append(attrs.evolve(loss, recoverable=is_recoverable))
    return carried if is_stored else {}


def _repeated_names(basic: BasicMessage) -> set[str]:
    """Return the names of headers that occur more than once."""
    table: Any = basic.properties.headers
    counts = Counter(entry[0] for entry in table.entries)
    return {name for name, count in counts.items() if count > 1}


def _is_exact_or_untranslatable(name: str, letter: str, value: Any) -> bool:
    """Whether a header is translated to 1.0 exactly, or cannot be translated at all."""
    if section_and_key(name) is None:
        return True
    item, is_exact = header_value(name, letter, value)
    return item is INEXPRESSIBLE or is_exact


def _merge_annotations(
    basic: BasicMessage,
    headers: dict[str, tuple[str, Any]],
    draft: Amqp10Draft,
    original: Any,
    application_headers: set[str],
    edited: set[str],
) -> tuple[dict[Any, Any], bool]:
    """Return the annotations, in their original order, and whether any was changed.

    Adds the names of edited headers to the set `edited`.
    """
    translated = dict(draft.annotations)
    for name in application_headers:
        translated.pop(annotation_of(name) if name.startswith("x-") else None, None)
    routes = {"x-exchange": basic.exchange, "x-routing-key": basic.routing_key}
    delivered = is_delivered(basic)
    result: dict[Any, Any] = {}
    changed = False
    used: set[Any] = set()
    names: set[str] = set()
    for key, value in original.items():
        current = value
        row = ROW_BY_ANNOTATION.get(key) if isinstance(key, str) else None
        header = header_of(key)
        if delivered and key in routes:
            current = routes[key]
            changed = changed or current != value
            used.add(key)
        elif row is not None:
            if key in translated:
                used.add(key)
                current = translated[key]
                changed = changed or not identical(current, value)
            elif row.value_of_annotation(value, draft.is_data) is not None and (
                getattr(basic.properties, row.name) is None
            ):
                current, changed = INEXPRESSIBLE, True
        elif header is not None and header[0] not in names and header_field(header[0], value)[0]:
            name = header[0]
            names.add(name)
            used.add(annotation_of(name))
            field = headers.get(name)
            current, is_same = (
                (INEXPRESSIBLE, False) if field is None else _current_value(name, value, field)
            )
            if not is_same:
                changed = True
                if field is not None:
                    edited.add(name)
        if current is not INEXPRESSIBLE:
            result[key] = current
    added = {key: value for key, value in translated.items() if key not in used}
    return {**result, **added}, changed or bool(added)


def _annotations_octets(
    basic: BasicMessage,
    content: dict[int, Any],
    merged: dict[Any, Any],
    is_changed: bool,
    carried: dict[int, Any],
) -> bytes:
    """Encode the annotations, including the new residual and the delivery's exchange and key.

    Unchanged annotations keep their original bytes.
    """
    if carried:
        is_changed = True
        merged[Symbol(residual.RESIDUAL_NAME)] = residual.pack(carried)
    original_octets = content.get(MESSAGE_ANNOTATIONS_CODE)
    if is_delivered(basic) and not {"x-exchange", "x-routing-key"} <= set(merged):
        is_changed = True
        if original_octets is None and content.get(ROUTING_ANNOTATIONS_FIRST_KEY) == 1:
            merged = {Symbol("x-routing-key"): "", Symbol("x-exchange"): "", **merged}
        _set_route_annotations(merged, basic.exchange, basic.routing_key)
    if original_octets is not None and not is_changed:
        return bytes(original_octets)
    return _encode_map(MESSAGE_ANNOTATIONS_CODE, merged) if merged else b""


def _set_route_annotations(annotations: dict[Any, Any], exchange: str, routing_key: str) -> None:
    """Set the annotations with exchange and routing key. Existing keys keep their position."""
    annotations[Symbol("x-exchange")] = exchange
    annotations[Symbol("x-routing-key")] = routing_key


def update_annotations_for_delivery(octets: bytes, exchange: bytes, routing_key: bytes) -> bytes:
    """Set the exchange and routing key of a delivery in encoded message annotations."""
    original: Any = Message.decode(octets).message_annotations
    updated = dict(original)
    _set_route_annotations(updated, exchange.decode("utf-8"), routing_key.decode("utf-8"))
    return octets if updated == original else _encode_map(MESSAGE_ANNOTATIONS_CODE, updated)


def _body_octets(basic: BasicMessage, draft: Amqp10Draft, content: dict[int, Any]) -> bytes:
    """Return the encoded body sections, with the original division into data sections."""
    if content.get(UNMARKED_SECTIONS_KEY) == 1 and body_of(basic.body) is not None:
        return basic.body
    heads = content.get(DATA_HEADS_KEY)
    if heads is None or draft.body_octets is not None:
        return draft.octets_of_body()
    if not heads:
        return b"" if not basic.body else draft.octets_of_body()
    out = []
    pos = 0
    for head in heads:
        size = _data_size(head)
        out.append(head + basic.body[pos : pos + size])
        pos += size
    # A body of another length was edited: its original division does not apply.
    return b"".join(out) if pos == len(basic.body) else draft.octets_of_body()


def _data_size(head: bytes) -> int:
    """Return the size of a data section's content, from the bytes before the content."""
    for width, code in ((1, 0xA0), (4, 0xB0)):
        if len(head) > width and head[-width - 1] == code:
            return int.from_bytes(head[-width:], "big")
    raise ValueError(f"{head.hex()} is not the head of a data section")
