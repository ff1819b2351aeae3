# cython: language_level=3, boundscheck=True, wraparound=False, annotation_typing=False
"""The properties of a 1.0 message as those of class basic.

Runs as it is, and compiled with the C types of `_fields.pxd`.
"""

from __future__ import annotations

from typing import Any

import attrs

from amqp10msg.sections import SPEC_OF, Data, Properties
from amqp10msg.translate._contents import (
    SPARSE_PROPERTIES,
)
from amqp10msg.translate._reading import Reading
from amqp10msg.translate._vocabulary import Vocabulary
from amqp10msg.translate.report import Notes
from amqp10msg.translate.table import BYTES, ID, KNOWN, ROWS, SECONDS, SHORT_REPLY
from amqp10msg.wire import kernel
from amqp10msg.wire.kernel.codes import (
    PROPERTIES_CODE,
)
from amqp10msg.wire.kernel.twin import Layout, Text

_FIELDS = [field.name for field in attrs.fields(Properties)]
_MAPPED = {row.field: row for row in ROWS if row.section == "properties"}
_KINDS = SPEC_OF[PROPERTIES_CODE].kinds
_PROPERTIES = Layout(Properties, [field.name for field in attrs.fields(Properties)])
# By position: the row of a field, and what it becomes where it was met before.
_READ = tuple(_MAPPED.get(name) for name in _FIELDS)
_FORMS = bytes(row.form if row is not None else 0 for row in _READ)
_TEXTS = [Vocabulary() for _ in _FIELDS]
_TEXTS_OF = [texts.known for texts in _TEXTS]
_ID, _BYTES, _SECONDS, _KNOWN = ID, BYTES, SECONDS, KNOWN
_REPLY_TO = _FIELDS.index("reply_to")
# A name of so many bytes fits an address whatever it is.
_SHORT_REPLY = SHORT_REPLY
#: Where each of them stands among the properties of class basic.
_TARGETS = bytes(_MAPPED[name].number - 1 if name in _MAPPED else 0 for name in _FIELDS)
_WIRE_NAMES = {name: name.replace("_", "-") for name in _FIELDS}


def set_properties(made: Reading, properties: Any, notes: Notes) -> None:
    sparse: dict[int, bytes] = {}
    empty = True
    values = _PROPERTIES.values(properties)
    for index in range(len(_FORMS)):
        value = values[index]
        if value is None:
            continue
        empty = False
        item = _usual(made, index, value)
        if item is not None:
            made.given[_TARGETS[index]] = item
            if index == _REPLY_TO and len(item) > _SHORT_REPLY:
                tell_fragile(_READ[index], item, "properties.reply-to", notes)
            continue
        name = _FIELDS[index]
        row = _READ[index]
        if row is None:
            mapped, exact = None, False
        else:
            mapped, exact = _mapped(made, index, row, value)
        if mapped is not None:
            made.given[_TARGETS[index]] = mapped
            if index == _REPLY_TO:
                tell_fragile(row, mapped, "properties.reply-to", notes)
        if not exact:
            sparse[index] = _field_octets(index, value)
            notes.add(
                f"properties.{_WIRE_NAMES[name]}",
                "carried" if mapped is None else "retyped",
                value,
                mapped,
                "0-9-1 has no such property" if row is None else "0-9-1 cannot express it exactly",
                recoverable=True,
            )
    if empty:
        made.carried[PROPERTIES_CODE] = kernel.encode_value(properties)
    elif sparse:
        made.carried[SPARSE_PROPERTIES] = sparse


def tell_fragile(row: Any, value: Any, path: str, notes: Notes) -> None:
    """Note of a property what brokers do to it, though it says all."""
    reason = row.fragile(value)
    if reason:
        notes.add(path, "dropped", value, value, reason, recoverable=True)


def _mapped(made: Reading, index: int, row: Any, value: Any) -> tuple[Any, bool]:
    """Return the property that a field becomes, and whether the way back is the same."""
    if _FORMS[index] != _KNOWN:
        found: tuple[Any, bool] = row.backward(value)
        return found
    known: dict[Any, Any] = _TEXTS_OF[index]
    mapped = known.get(value) if isinstance(value, str) else None
    if mapped is None:
        mapped, exact = row.backward(value)
        if not exact or row.forward(mapped, True).where != "field":
            return mapped, False
        _TEXTS[index].keep(value, mapped)
    # In front of another body the field says nothing in 1.0.
    return mapped, is_data(made)


def _usual(made: Reading, index: int, value: Any) -> Any:
    """Return what a field of its usual form becomes, None for any other."""
    form = _FORMS[index]
    if form == _KNOWN:
        known: dict[Any, Any] = _TEXTS_OF[index]
        is_data = type(made.body) is Data
        return known.get(value) if is_data and isinstance(value, str) else None
    if form == _SECONDS:
        return value // 1000 if type(value) is int and value >= 0 and not value % 1000 else None
    if form == _BYTES:
        if type(value) is not bytes or not value.isascii():
            return None
        value = value.decode("ascii")
    if form == 0 or not Text.is_plain(value, 255):
        return None
    text: str = value
    if form == _ID and (text.startswith("urn:") or text.startswith("ID:")):  # noqa: PIE810
        return None
    return text


def _field_octets(index: int, value: Any) -> bytes:
    """Encode a field as its declaration says, so that it can be read without it."""
    writer = kernel.Writer(False)
    writer.typed(_KINDS[index], value)
    return writer.finish()


def is_data(made: Reading) -> bool:
    body = made.body
    return isinstance(body[0] if isinstance(body, list) else body, Data)
