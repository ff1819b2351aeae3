"""Encode messages section by section, and reuse the original bytes of unchanged sections.

If a section cannot be encoded, the path of the EncodeError names the value.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from amqp10msg.sections import (
    BODY_CODES,
    BODY_KINDS,
    KIND_BY_CODE,
    KINDS,
    SPEC_BY_CODE,
    AmqpSequence,
    AmqpValue,
    Data,
    SectionKind,
)
from amqp10msg.sections.parts import is_cut, parts_of, read_again, read_section, with_surplus
from amqp10msg.wire import kernel
from amqp10msg.wire.errors import EncodeError, wrong_type
from amqp10msg.wire.limits import UNLIMITED
from amqp10msg.wire.primitives import HEAD_SIZES, AmqpMap, Array, Described, ULong

#: The body of a message.
Body: TypeAlias = Data | AmqpSequence | AmqpValue | list[Data] | list[AmqpSequence]

#: The kernel's description of each body section, by its class.
BODY_SPECS = {kind.cls: SPEC_BY_CODE[kind.code] for kind in BODY_KINDS}


def to_body(body: Any) -> Body | None:
    """Convert a value that a user has set as the body to a body section, or a list of them."""
    if body is None or isinstance(body, (Data, AmqpSequence, AmqpValue)):
        return body
    if isinstance(body, (bytes, bytearray, memoryview)):
        return Data(bytes(body))
    if not (isinstance(body, list) and body and type(body[0]) in BODY_SPECS):
        return AmqpValue(body)
    for item in body:
        if type(item) not in BODY_SPECS:
            hint = "write AmqpValue([...]) for a list as a value"
            expected = "Data, AmqpSequence or AmqpValue"
            raise wrong_type("a list of body sections", expected, item, hint)
    return body  # encoding checks that all sections are of one kind


def body_sections(body: Any, lenient: bool) -> list[Any]:
    """Return the sections of a message's attribute `body` as a list.

    Raises:
        EncodeError: the sections are of several kinds, or there are several amqp-values.
    """
    if body is None:
        return []
    if type(body) in BODY_SPECS:
        return [body]
    body = to_body(body)
    if not isinstance(body, list):
        return [body]
    first: type = type(body[0])
    if not lenient and (
        any(type(part) is not first for part in body) or (first is AmqpValue and len(body) > 1)
    ):
        raise EncodeError(
            "a body has one or more Data, one or more AmqpSequence, or one AmqpValue", "body"
        )
    return body


def encoded(kind: SectionKind, section: Any, lenient: bool) -> bytes:
    """Return the encoding of one section."""
    writer = kernel.Writer(lenient)
    write(writer, SPEC_BY_CODE[kind.code], section)
    return writer.finish()


def write(writer: Any, spec: Any, section: Any) -> None:
    """Write one section. The path of an EncodeError names the value that cannot be encoded."""
    try:
        if type(section) is AmqpMap and writer.lenient:
            # Lenient decoding keeps a map section whose keys a dict cannot distinguish.
            writer.value(Described(ULong(spec.code), section))
            return
        kernel.check_section(spec, section)
        writer.section(spec, section)
    except EncodeError as error:
        if error.path.startswith(spec.name):
            raise
        raise _with_path(spec, section, error) from None
    except (RecursionError, UnicodeEncodeError) as error:
        raise _with_path(spec, section, kernel.encode_fault(error)) from None


def _with_path(spec: Any, section: Any, error: EncodeError) -> EncodeError:
    """Return a copy of `error` whose path names the value that cannot be encoded."""
    content = (
        section if isinstance(section, Mapping) else getattr(section, spec.attribute or "", None)
    )
    return EncodeError(error.reason, f"{spec.name}{error.path or _path_within(content)}")


# Maximum levels of nesting that `_path_within` searches. The search encodes the items again at each
# level, and would never end for a value that contains itself.
_MAX_PATH_LEVELS = 16


def _path_within(value: Any, level: int = 0) -> str:
    """Return the path of the first item in `value` that cannot be encoded, such as ``['k'][0]``."""
    entries: list[tuple[Any, Any]] = []
    if isinstance(value, Mapping):
        entries = list(value.items())
    elif isinstance(value, (list, tuple)):
        entries = list(enumerate(value))
    elif isinstance(value, Array):
        entries = list(enumerate(value.values))
    elif isinstance(value, Described):
        return _path_within(value.value, level)
    for key, item in entries:
        try:
            kernel.encode_value(item)
        except EncodeError:
            inner = _path_within(item, level + 1) if level < _MAX_PATH_LEVELS else ""
            return f"[{key!r:.80}]{inner}"
    return ""


#: The kinds of section outside of the body, in wire order.
SECTION_KINDS = tuple(kind for kind in KINDS if kind.attribute != "body")
#: The position of the body in a message, see `SectionKind.order`.
_BODY_ORDER = BODY_KINDS[0].order
# A section as the kernel's scan returns it: its numeric descriptor (-1 for an unknown section), and
# the offsets of the section, its value and its end.
_ScannedSection = tuple[int, int, int, int]


def encode_changes(sections: dict[int, Any], body: list[Any], wire: bytes, lenient: bool) -> bytes:
    """Encode a message that was decoded from `wire`, and reuse the bytes of unchanged sections.

    Args:
        sections: each section outside of the body, or None, by its numeric descriptor.
        body: the body sections.
        wire: the original bytes.
        lenient: whether the message was decoded with ``strict=False``.
    """
    parts = parts_of(wire, lenient)
    old_body = body_parts(lenient, wire, parts)
    if body and not old_body:
        # All body sections of `wire` are malformed: the body that the user has set replaces them.
        old_body = [part for part in parts if part[0] in BODY_CODES]
    body_starts = {part[1] for part in old_body}
    is_body_kept = len(old_body) == len(body) and all(
        type(section) is KIND_BY_CODE[part[0]].cls
        and _is_unchanged(lenient, KIND_BY_CODE[part[0]], section, wire, part)
        for part, section in zip(old_body, body, strict=True)
    )
    # The encoded sections that `wire` does not contain, by their position in a message.
    new = {
        kind.order: [encoded(kind, sections[kind.code], lenient)]
        for kind in SECTION_KINDS
        if sections[kind.code] is not None and not any(part[0] == kind.code for part in parts)
    }
    if body and not is_body_kept:
        new[_BODY_ORDER] = [
            encoded(KIND_BY_CODE[BODY_SPECS[type(part)].code], part, lenient) for part in body
        ]
    out: list[bytes] = []
    attribute_parts = parts_of_attributes(lenient, wire, parts)
    is_changed = bool(new)
    for part in parts:
        code, start, _, end = part
        if new and part is parts[-1] and lenient and is_cut(wire, part):
            # A truncated section extends to the end of the message: new sections must precede it.
            for order in sorted(new):
                out.extend(new.pop(order))
        if code >= 0:
            kind = KIND_BY_CODE[code]
            for order in sorted(new):
                if order < kind.order or (
                    order == _BODY_ORDER == kind.order and start in body_starts
                ):
                    out.extend(new.pop(order))
            if kind.attribute == "body":
                if not is_body_kept and start in body_starts:
                    is_changed = True
                    continue
            elif part in attribute_parts and not _is_unchanged(
                lenient, kind, sections[code], wire, part
            ):
                is_changed = True
                if sections[code] is not None:
                    octets = encoded(kind, sections[code], lenient)
                    out.append(with_surplus(octets, wire, part) if lenient else octets)
                continue
        out.append(wire[start:end])
    for order in sorted(new):
        out.extend(new[order])
    return b"".join(out) if is_changed else wire


def body_parts(lenient: bool, wire: bytes, parts: list[_ScannedSection]) -> list[_ScannedSection]:
    """Return the body sections among `parts` that the attribute `body` was decoded from.

    `parts` contains all sections of `wire`, as `parts_of` returns them.
    """
    body = [part for part in parts if part[0] in BODY_CODES]
    if not lenient:
        return body
    return [part for part in body if read_again(wire, part) is not None]


def parts_of_attributes(
    lenient: bool, wire: bytes, parts: list[_ScannedSection]
) -> list[_ScannedSection]:
    """Return, for each attribute of a message except `body`, its section in `parts`.

    If a section occurs several times, the attribute holds the first one that can be decoded. If all
    are malformed, the attribute is None, and a new value replaces the first one.
    """
    by_code: dict[int, _ScannedSection] = {}
    readable: set[int] = set()
    for part in parts:
        code = part[0]
        if code < 0 or code in readable or KIND_BY_CODE[code].attribute == "body":
            continue
        if not lenient or read_again(wire, part) is not None:
            readable.add(code)
            by_code[code] = part
        else:
            by_code.setdefault(code, part)
    return list(by_code.values())


def _is_unchanged(
    lenient: bool, kind: SectionKind, section: Any, wire: bytes, part: _ScannedSection
) -> bool:
    """Return whether a section still has the value that its original bytes encode."""
    _, start, content, end = part
    if type(section) is Data and not (lenient and read_again(wire, part) is None):
        # Comparing the bytes in place is faster than encoding a large body.
        payload = content + HEAD_SIZES[wire[content]]
        data = section.data
        if isinstance(data, bytes):
            return len(data) == end - payload and wire.startswith(data, payload)
    if section is None:
        return lenient and read_again(wire, part) is None
    octets = encoded(kind, section, lenient)
    if len(octets) == end - start and wire.startswith(octets, start):
        return True
    if lenient:
        original = read_again(wire, part)
    else:
        original = read_section(wire, kind, content, end, UNLIMITED)
    return original is not None and encoded(kind, original, lenient) == octets
