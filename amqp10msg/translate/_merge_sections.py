# cython: language_level=3, boundscheck=True, wraparound=True, annotation_typing=False
"""The sections of a 1.0 message that was a 0-9-1 message since, each as it was if not edited.

Runs as it is, and compiled with the C types of `_merge_sections.pxd`.
"""

from __future__ import annotations

from typing import Any

import attrs

from amqp10msg.basic.message import BasicMessage
from amqp10msg.basic.properties import PROPERTIES, BasicProperties, encode_field
from amqp10msg.message import Message
from amqp10msg.sections import SPEC_OF, Header, Properties
from amqp10msg.translate import residual
from amqp10msg.translate._contents import (
    BODY,
    FIELDS,
    FORM,
    ORDER,
    SHAPE,
    SPARSE_APPLICATION,
    SPARSE_PROPERTIES,
    TABLE,
    UNMARKED,
)
from amqp10msg.translate._delivery import (
    decorated,
)
from amqp10msg.translate._headers import (
    BY_ANNOTATION,
    annotation_of,
    header_field,
    header_of,
    header_value,
    property_name,
)
from amqp10msg.translate._natural import Natural
from amqp10msg.translate._padding import NULL, padded
from amqp10msg.translate._to_amqp10 import body_of, is_delivered
from amqp10msg.translate._values import NOTHING, to_field
from amqp10msg.translate.report import Notes
from amqp10msg.translate.table import KNOWN, MARKER, ROWS
from amqp10msg.wire import kernel
from amqp10msg.wire.kernel.codes import (
    APPLICATION_PROPERTIES_CODE,
    HEADER_CODE,
    MESSAGE_ANNOTATIONS_CODE,
    PROPERTIES_CODE,
)
from amqp10msg.wire.kernel.twin import Layout, Text
from amqp10msg.wire.primitives import Symbol, identical

_FIELDS = [field.name for field in attrs.fields(Properties)]
_PROPERTIES = Layout(Properties, _FIELDS)
_GIVEN = Layout(BasicProperties, [row.name for row in PROPERTIES])
# Of these types, what is equal has the same bytes.
_COMPARED = {str, int, bool, bytes}
_BY_FIELD = {row.field: row for row in ROWS if row.section}
_BY_INDEX = tuple(_BY_FIELD.get(name) for name in _FIELDS)


def header_octets(basic: BasicMessage, made: Natural, content: dict[int, Any]) -> bytes:
    delivered = is_delivered(basic)
    mine = made.header_section(basic, delivered)
    raw = content.get(HEADER_CODE)
    if raw is None:
        if mine is None:
            return b""
        return decorated(mine) if delivered else kernel.encode_value(mine)
    if raw == b"":
        return kernel.encode_value(mine) if made.header is not None else b""
    original: Header = Message.decode(raw).header  # type: ignore[assignment]
    now = mine or Header()
    changes: dict[str, Any] = {}
    for name in ("durable", "priority", "ttl"):
        row = _BY_FIELD[name]
        value = getattr(original, name)
        back = row.backward(value)[0] if value is not None else None
        if back != getattr(basic.properties, row.name) and value != getattr(now, name):
            changes[name] = getattr(now, name)
    before = not original.first_acquirer if delivered else False
    # A broker, and who publishes the message anew, says anew whether it was delivered before: that
    # is no edit of the count.
    if before != basic.redelivered and not original.delivery_count:
        changes["delivery_count"] = now.delivery_count
        changes["first_acquirer"] = now.first_acquirer
    return kernel.encode_value(attrs.evolve(original, **changes)) if changes else bytes(raw)


def properties_octets(
    basic: BasicMessage, made: Natural, content: dict[int, Any], notes: Notes
) -> tuple[bytes, set[str]]:
    """Return the properties section, and the fields that stand as they were."""
    mine: Any = made.properties
    raw = content.get(PROPERTIES_CODE)
    sparse: Any = content.get(SPARSE_PROPERTIES)
    if raw is None and sparse is None:
        return (b"" if mine is None else kernel.encode_value(_PROPERTIES.build(mine))), set()
    mine = [None] * len(_FIELDS) if mine is None else mine.copy()
    said = 0  # so many fields stand there, with a value or without
    if raw is not None:
        original = list(_PROPERTIES.values(Message.decode(raw).properties))
        indexes = list(range(len(_FIELDS)))
    else:
        original = [None] * len(_FIELDS)
        for index, octets in sparse.items():
            original[index] = kernel.decode_value(octets)
        indexes = sorted([index for index, octets in sparse.items() if octets != NULL])
        if len(indexes) < len(sparse):
            said = max(sparse) + 1
    kept: set[str] = set()
    changed = False
    given = _GIVEN.values(basic.properties)
    for index in indexes:
        value = original[index]
        row = _BY_INDEX[index]
        if row is not None:
            back = _back(row, value)
            if back != given[row.number - 1] and not identical(value, mine[index]):
                changed = True
                notes.add(
                    f"properties.{row.name.replace('_', '-')}",
                    "dropped",
                    value,
                    mine[index],
                    "the property was edited: the original is stale",
                )
                continue
        mine[index] = value
        if value is not None:
            kept.add(_FIELDS[index])
    if raw is not None and not changed:
        return bytes(raw), kept
    if said or mine.count(None) < len(mine):
        return padded(kernel.encode_value(_PROPERTIES.build(mine)), said), kept
    return b"", kept


def _back(row: Any, value: Any) -> Any:
    """Return the property that a field becomes."""
    if row.form == KNOWN and isinstance(value, str):
        text = str(value)
        if Text.is_plain(text, 255):
            return text
    return row.backward(value)[0] if value is not None else None


def application_octets(
    headers: dict[str, tuple[str, Any]], made: Natural, content: dict[int, Any], taken: set[str]
) -> tuple[bytes, set[str]]:
    """Return the application properties, and the names of headers that stand in them."""
    raw = content.get(APPLICATION_PROPERTIES_CODE)
    sparse = content.get(SPARSE_APPLICATION)
    if raw is None:
        size = len(made.application)
        result = dict(made.application)
        restored: set[str] = set()
        for name, octets in (sparse or {}).items():
            value = kernel.decode_value(octets)
            if name in headers and _same_field(value, headers[name]):
                result[name] = value
                restored.add(name)
                _forget(made, name)
        if len(result) != size or made.unplaced:
            result = _in_order(headers, result)  # one had no place by the rules
        return (_map(APPLICATION_PROPERTIES_CODE, result) if result else b""), restored
    original: Any = Message.decode(raw).application_properties or {}
    result = {}
    claimed: set[str] = set()
    changed = False
    for key, value in original.items():
        named = property_name(key)
        if named is None or named[0] in taken or not header_field(named[0], value)[0]:
            result[key] = value
            continue
        field = headers.get(named[0])
        if field is None:
            changed = True
            continue
        claimed.add(named[0])
        if _same_field(value, field):
            result[key] = value
            _forget(made, named[0])
        else:
            changed = True
            new, _ = header_value(named[0], field[0], field[1])
            if new is not NOTHING:
                result[key] = new
    for name, value in made.application.items():
        if name not in claimed:
            changed = True
            result[name] = value
    if not changed:
        return bytes(raw), claimed
    return (_map(APPLICATION_PROPERTIES_CODE, result) if result else b""), claimed


def _in_order(headers: dict[str, Any], entries: dict[str, Any]) -> dict[str, Any]:
    """Return entries in the order of the headers that they became."""
    order = {name: place for place, name in enumerate(headers)}
    return dict(sorted(entries.items(), key=lambda pair: order.get(pair[0], 0)))


def _map(code: int, entries: dict[Any, Any]) -> bytes:
    """Encode the section of these entries."""
    spec: Any = SPEC_OF[code]
    section = spec.cls.__new__(spec.cls)
    section.update(entries)
    writer = kernel.Writer(False)
    writer.section(spec, section)
    return writer.finish()


def _same_field(value: Any, field: tuple[str, Any]) -> bool:
    letter, mapped, _ = to_field(value)
    if type(mapped) in _COMPARED and type(mapped) is type(field[1]):
        return letter == field[0] and bool(mapped == field[1])
    return letter == field[0] and encode_field(letter, mapped) == encode_field(field[0], field[1])


def _forget(made: Natural, name: str) -> None:
    """Leave out of the residual what stands in the message as it was."""
    fields = made.carried.get(FIELDS)
    if fields is not None:
        fields.pop(name, None)
        if not fields:
            del made.carried[FIELDS]


def annotations_octets(
    basic: BasicMessage,
    headers: dict[str, tuple[str, Any]],
    made: Natural,
    content: dict[int, Any],
    original: Any,
    claimed: set[str],
    known: set[str],
    notes: Notes,
) -> bytes:
    raw = content.get(MESSAGE_ANNOTATIONS_CODE)
    mine = dict(made.annotations)
    for name in claimed:
        key = annotation_of(name) if name.startswith("x-") else None
        if key is not None:
            mine.pop(key, None)
    carried = dict(made.carried)
    carried.pop(ORDER, None)
    # Headers without a place stood in the original, or were added since.
    added = [name for name in made.unplaced if name not in claimed and name not in known]
    for name in added:
        notes.carried(
            f"headers[{name!r}]",
            basic.properties.headers[name],  # type: ignore[index]
            "1.0 has no place for it, or a broker could not deliver it",
        )
    if not added:
        carried.pop(TABLE, None)
    if basic.properties.type == MARKER and made.body_octets is not None:
        carried.pop(BODY, None)
    delivered = is_delivered(basic)
    if raw is None:
        if carried:
            mine[Symbol(residual.NAME)] = residual.pack(carried)
        if delivered:
            own = {
                Symbol("x-exchange"): basic.exchange,
                Symbol("x-routing-key"): basic.routing_key,
            }
            later = content.get(FORM) == 1
            mine = {**dict(reversed(own.items())), **mine} if later else {**mine, **own}
        return _map(MESSAGE_ANNOTATIONS_CODE, mine) if mine else b""
    result: dict[Any, Any] = {}
    changed = False
    used: set[Any] = set()
    names: set[str] = set()
    for key, value in original.items():
        if key in ("x-exchange", "x-routing-key") and delivered:
            now = basic.exchange if key == "x-exchange" else basic.routing_key
            changed = changed or now != value
            result[key] = now
            used.add(key)
            continue
        row = BY_ANNOTATION.get(key) if isinstance(key, str) else None
        if row is not None:
            stands = getattr(basic.properties, row.name)
            if key in mine:
                used.add(key)
                changed = changed or not identical(mine[key], value)
                result[key] = mine[key]
            elif row.annotated(value, made.is_data) is None or stands is not None:
                result[key] = value
            else:
                changed = True
            continue
        found = header_of(key)
        if found is None or found[0] in names or not header_field(found[0], value)[0]:
            result[key] = value
            continue
        names.add(found[0])
        natural_key = annotation_of(found[0])
        if natural_key is not None:
            used.add(natural_key)
        field = headers.get(found[0])
        if field is None:
            changed = True
        elif _same_field(value, field):
            result[key] = value
        else:
            changed = True
            new, _ = header_value(found[0], field[0], field[1])
            if new is not NOTHING:
                result[key] = new
    for key, value in mine.items():
        if key not in used:
            changed = True
            result[key] = value
    if added and residual.NAME not in original:
        changed = True
        result[Symbol(residual.NAME)] = residual.pack({TABLE: carried[TABLE]})
    if delivered and not {"x-exchange", "x-routing-key"} <= set(result):
        changed = True
        result[Symbol("x-exchange")] = basic.exchange
        result[Symbol("x-routing-key")] = basic.routing_key
    return bytes(raw) if not changed else _map(MESSAGE_ANNOTATIONS_CODE, result) if result else b""


def body_octets(basic: BasicMessage, made: Natural, content: dict[int, Any]) -> bytes:
    if content.get(UNMARKED) == 1 and body_of(basic.body) is not None:
        return basic.body
    heads = content.get(SHAPE)
    if heads is None or made.body_octets is not None:
        return made.octets_of_body()
    if not heads:
        return b"" if not basic.body else made.octets_of_body()
    out = []
    pos = 0
    for head in heads:
        size = _size_of(head)
        out.append(head + basic.body[pos : pos + size])
        pos += size
    # Of another length the body was edited: its sections are gone.
    return b"".join(out) if pos == len(basic.body) else made.octets_of_body()


def _size_of(head: bytes) -> int:
    """Read the size that stands at the end of a data section's head."""
    for width, code in ((1, 0xA0), (4, 0xB0)):
        if len(head) > width and head[-width - 1] == code:
            return int.from_bytes(head[-width:], "big")
    raise ValueError("no head of a data section")
