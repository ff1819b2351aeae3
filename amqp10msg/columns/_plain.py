"""Decode messages to rows in Python: the reference for the kernel, and its fallback.

The kernel leaves *unsupported* rows to this module: rows with errors, or with values that the
kernel does not handle.

If all sections are needed, `Message.decode` decodes the message. Otherwise the sections are read in
order; the needed sections are decoded, and all other sections are skipped by their size. In both
cases, the sections must be in order and must not repeat.
"""

from __future__ import annotations

import contextlib
import uuid
from typing import Any

from amqp10msg.columns._cells import (
    MAX_TIMESTAMP_MS,
    MIN_TIMESTAMP_MS,
    entries,
    identifier,
    json_text,
)
from amqp10msg.columns._schema import COMPOSITE_CLASSES, MAPS, VARIANT, Plan
from amqp10msg.columns._variant import VariantSizeError, section_variant, variant
from amqp10msg.composite import rows
from amqp10msg.message import Message
from amqp10msg.notation import to_typed
from amqp10msg.sections import BODY_CODES, KIND_BY_CODE, KINDS, SPECS, Header, Properties
from amqp10msg.sections.parts import FIELD_NAMES, ScannedSection, kind_of, parts_of
from amqp10msg.validation import RULES, Profile, first_fault, rule_of, validate
from amqp10msg.wire import kernel
from amqp10msg.wire.errors import DecodeError, EncodeError
from amqp10msg.wire.kernel.codes import (
    ALLOWED_NEXT_SECTIONS,
    FIRST_SECTION_CODE,
    PLACE_BODY,
    PLACE_OF_SECTION,
)
from amqp10msg.wire.limits import Limits
from amqp10msg.wire.primitives import Symbol, Timestamp, ULong

_HEADER_FIELD_NAMES = tuple(field.name for field in rows(Header))
_PROPERTIES_FIELDS = rows(Properties)
# For each type or archetype of a field: the Python types of decoded values, and the range of
# numbers. Decoded numbers of fields have the type int, whatever their AMQP type.
_FITTING_VALUES: dict[str, tuple[tuple[type, ...], range | None]] = {
    "boolean": ((bool,), None),
    "ubyte": ((int,), range(1 << 8)),
    "uint": ((int,), range(1 << 32)),
    "timestamp": ((int, Timestamp), range(-(1 << 63), 1 << 63)),
    "string": ((str,), None),
    "symbol": ((str, Symbol), None),
    "binary": ((bytes,), None),
    "message-id": ((str, ULong, uuid.UUID, bytes), None),
    "address": ((str,), None),
}
_BODY_CODES_BY_CLASS = {kind.cls: kind.code for kind in KINDS if kind.attribute == "body"}
_PROPERTIES_CODE = next(kind.code for kind in KINDS if kind.cls is Properties)


def row(
    octets: bytes | None,
    plan: Plan,
    limits: Limits,
    profile: Profile | None,
    *,
    strict: bool = True,
) -> dict[str, Any]:
    """Return the cells of one message by column name; missing cells are null.

    Unless `strict`, an invalid message has the cells of its readable parts, besides its error.
    """
    if octets is None:
        return {}
    try:
        cells = _decode_cells(octets, plan, limits, strict=strict)
    except DecodeError as error:
        cells = error_cells(error)
    except VariantSizeError:
        cells = _error_row("size-limit", RULES["size-limit"].clause, 0)
    except (EncodeError, RecursionError):
        # The JSON notation can exceed Python's recursion limit if the caller's stack is deep.
        cells = _error_row("depth-limit", RULES["depth-limit"].clause, 0)
    if profile is not None and "error_code" not in cells:
        cells |= validation_cells(octets, limits, profile)
    if plan.schema.get_field_index("wire") >= 0:
        cells["wire"] = octets
    return cells


def text_size(cells: dict[str, Any]) -> int:
    """Return the number of characters of JSON and other texts in a row."""
    size = len(cells.get("body_json") or "")
    if "body_value" in cells:
        size += len(cells["body_value"]["value"])
    for name in MAPS:
        section = cells.get(name, ())
        if isinstance(section, dict):
            size += len(section["value"])
        else:
            size += sum(len(value.get("s") or "") for _, value in section)
    return size


def error_cells(error: DecodeError) -> dict[str, Any]:
    """Return the cells of the error columns for a decoding error."""
    return _error_row(*rule_of(error), error.offset)


def _error_row(code: str, clause: str, offset: int) -> dict[str, Any]:
    """Return the cells of the error columns."""
    return {"error_code": code, "error_clause": clause, "error_offset": offset}


def validation_cells(octets: bytes, limits: Limits, profile: Profile) -> dict[str, Any]:
    """Return the error cells of the first violation with severity error; empty if valid."""
    for violation in validate(octets, profile, limits=limits):
        if violation.severity == "error":
            return _error_row(violation.rule, violation.clause, violation.offset)
    return {}


def _decode_cells(encoded: bytes, plan: Plan, limits: Limits, *, strict: bool) -> dict[str, Any]:
    """Return the cells of a message by column name; raise if it cannot be decoded."""
    message: Any
    try:
        if plan.needs_all:
            message = Message.decode(encoded, limits=limits)
            parts = parts_of(encoded, lenient=False)
        else:
            message, parts = _decode_needed_sections(encoded, plan.needs, limits)
    except DecodeError as error:
        if strict:
            raise
        try:
            message = _readable_message(encoded, limits)
        except DecodeError:
            raise error from None  # lenient decoding may name another fault
        codes = [_PROPERTIES_CODE] if message.properties is not None else []
        codes += [_BODY_CODES_BY_CLASS[type(section)] for section in message.body]
        return _message_cells(message, codes, plan) | error_cells(error)
    cells = _message_cells(message, [part[0] for part in parts], plan)
    cells["section_offsets"] = [
        {"code": code, "offset": start, "content": content, "end": end}
        for code, start, content, end in parts
    ]
    return cells


def _message_cells(message: Any, codes: list[int], plan: Plan) -> dict[str, Any]:
    """Return the cells of a decoded message; `codes` are the codes of its sections."""
    cells: dict[str, Any] = {}
    header = message.header
    if header is not None:
        for name in _HEADER_FIELD_NAMES:
            cells[name] = getattr(header, name)
    if message.properties is not None:
        _add_properties(cells, message.properties)
    for name in MAPS:
        section = getattr(message, name)
        if section is None:
            continue
        index = plan.schema.get_field_index(name)
        if index >= 0 and plan.schema.field(index).type == VARIANT:
            cells[name] = section_variant(section)
        elif index >= 0:
            cells[name] = entries(section)
        if name in plan.picks:
            section_entries = dict(entries(section))
            cells |= {f"{name}.{key}": section_entries.get(key) for key in plan.picks[name]}
    if _PROPERTIES_CODE in codes:
        cells["has_properties"] = True
    body_codes = [code for code in codes if code in BODY_CODES]
    _add_body(cells, message.body, body_codes, plan.schema.names)
    return cells


def _readable_message(encoded: bytes, limits: Limits) -> Any:
    """Return a message of the parts of an invalid message that columns can hold.

    These are its readable sections, without values of fields that do not fit their columns, and
    without entries of map sections whose keys are neither text nor a ulong. The body is a list of
    sections; it is empty if they are of different kinds.

    Raises:
        DecodeError: no section can be decoded, or a limit is exceeded.
    """
    lenient: Any = Message.decode(encoded, limits=limits, strict=False)
    message: Any = Message()
    for name, cls in COMPOSITE_CLASSES.items():
        section = getattr(lenient, name)
        if isinstance(section, cls):
            setattr(message, name, _without_wrong_values(section, cls))
    for name in MAPS:
        section = getattr(lenient, name)
        if isinstance(section, dict):
            items = section.items()
            kept = {key: value for key, value in items if isinstance(key, (str, ULong))}
            setattr(message, name, kept)
    body = lenient.body if isinstance(lenient.body, list) else [lenient.body]
    sections = [section for section in body if type(section) in _BODY_CODES_BY_CLASS]
    message.body = sections if len({*map(type, sections)}) == 1 else []
    return message


def _without_wrong_values(section: Any, cls: Any) -> Any:
    """Return a header or properties with defaults for values that do not fit their columns."""
    result = cls()
    for field in rows(cls):
        value = getattr(section, field.name)
        types, numbers = _FITTING_VALUES[field.requires or field.type]
        if type(value) in types and (numbers is None or value in numbers):
            setattr(result, field.name, value)
    return result


def _add_properties(cells: dict[str, Any], properties: Any) -> None:
    """Add the cells of the properties."""
    for field in _PROPERTIES_FIELDS:
        name = field.name
        value = getattr(properties, name)
        if field.requires == "message-id":
            cells[name], cells[f"{name}_type"] = identifier(value)
        elif field.type == "timestamp" and value is not None:
            if MIN_TIMESTAMP_MS <= value <= MAX_TIMESTAMP_MS:
                cells[name] = value * 1000
            else:
                cells[f"{name}_ms"] = value
        else:
            cells[name] = value


def _add_body(cells: dict[str, Any], body: Any, body_codes: list[int], columns: list[str]) -> None:
    """Add the cells of the body.

    Cells that need a conversion are only added if their column is in `columns`.
    """
    if not body_codes:
        return
    kind = KIND_BY_CODE[body_codes[0]]
    cells["body_kind"] = kind.name
    cells["body_sections"] = len(body_codes)
    sections = [] if body is None else body if isinstance(body, list) else [body]
    if not sections:
        return
    if kind.name == "data":
        cells["body"] = joined = b"".join(section.data for section in sections)
        if len(sections) > 1:
            cells["body_lengths"] = [len(section.data) for section in sections]
        if "body_text" in columns:
            with contextlib.suppress(UnicodeDecodeError):
                cells["body_text"] = joined.decode()
        return
    is_value = kind.name == "amqp-value"
    content = sections[0].value if is_value else [section.values for section in sections]
    if type(content) is str:
        cells["body_text"] = content
    if "body_json" in columns:
        typed = [to_typed(item)[1] for item in content] if not is_value else to_typed(content)
        cells["body_json"] = json_text(typed)
    if "body_value" in columns:
        cells["body_value"] = variant(content)


def _decode_needed_sections(
    octets: bytes, needs: frozenset[int], limits: Limits
) -> tuple[Message, list[ScannedSection]]:
    """Decode the sections in `needs`; return a message, and the offsets of all sections."""
    octets = kernel.octets_of(octets, limits)
    reader = kernel.Reader(octets, 0, limits)
    sections: dict[int, Any] = {}
    body: list[Any] = []
    parts: list[ScannedSection] = []
    last = -1
    try:
        while reader.pos < len(octets):
            start = reader.pos
            kind = None
            if octets[start] == 0:
                reader.pos = start + 1
                kind = kind_of(reader.value())
            if kind is None:
                raise reader.not_a_section_error(start)
            index = kind.code - FIRST_SECTION_CODE
            if not ALLOWED_NEXT_SECTIONS[last + 1][FIRST_SECTION_CODE + index]:
                # The kernel expects a bit mask of the sections seen, by position in the message.
                seen_places = 0
                for section in sections:
                    seen_places |= 1 << PLACE_OF_SECTION[section]
                raise reader.misplaced_section_error(index, last, seen_places, start)
            last = index
            content = reader.pos
            sections[index] = True
            if index not in needs:
                reader.skip()
            elif PLACE_OF_SECTION[index] == PLACE_BODY:
                body.append(reader.section(SPECS[index]))
            else:
                sections[index] = reader.section(SPECS[index])
            parts.append((FIRST_SECTION_CODE + index, start, content, reader.pos))
    except kernel.READ_FAULTS as error:
        # The first fault of the whole message, also in a section that no column needs.
        raise first_fault(reader.fault(error, FIELD_NAMES), limits) from None
    message = Message()
    for index in needs & sections.keys():
        if PLACE_OF_SECTION[index] != PLACE_BODY:
            setattr(message, KINDS[index].attribute, sections[index])
    message.body = body or None
    return message, parts
