"""A decoded message encoded again: what was not changed keeps its exact octets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from amqp10msg.message._bodies import BODY_SPECS, body_sections
from amqp10msg.message._writing import encoded
from amqp10msg.sections import BODY_CODES, BODY_KINDS, KIND_OF, KINDS, Data, SectionKind
from amqp10msg.sections.lenient import is_cut, parts_of, read_again, with_surplus
from amqp10msg.sections.parts import read_section
from amqp10msg.wire.limits import UNLIMITED
from amqp10msg.wire.primitives import HEAD_SIZES

if TYPE_CHECKING:
    from amqp10msg.message import Message

#: The kinds that are no body, in the order of a message.
SECTION_KINDS = tuple(kind for kind in KINDS if kind.attribute != "body")
_BODY_ORDER = BODY_KINDS[0].order
# A part as the kernel's scan gives it: code, offset, content, end.
_Part = tuple[int, int, int, int]


def encode_changes(message: Message, wire: bytes) -> bytes:
    """Encode a message that was decoded from these octets."""
    lenient = message._lenient
    parts = parts_of(wire, lenient)
    sections = {kind.code: getattr(message, kind.attribute) for kind in SECTION_KINDS}
    body = body_sections(message)
    in_body = body_parts(lenient, wire, parts)
    if body and not in_body:
        # A body takes the place of what could not be read as one.
        in_body = [part for part in parts if part[0] in BODY_CODES]
    body_places = {part[1] for part in in_body}
    body_kept = len(in_body) == len(body) and all(
        type(section) is KIND_OF[part[0]].cls
        and _unchanged(lenient, KIND_OF[part[0]], section, wire, part)
        for part, section in zip(in_body, body, strict=True)
    )
    # By order: what is to be written anew, and has no place among the parts yet.
    new = {
        kind.order: [encoded(kind, sections[kind.code], lenient)]
        for kind in SECTION_KINDS
        if sections[kind.code] is not None and not any(part[0] == kind.code for part in parts)
    }
    if body and not body_kept:
        new[_BODY_ORDER] = [
            encoded(KIND_OF[BODY_SPECS[type(part)].code], part, lenient) for part in body
        ]
    out: list[bytes] = []
    held = holders(lenient, wire, parts)
    changed = bool(new)
    for part in parts:
        code, start, _, end = part
        if new and part is parts[-1] and lenient and is_cut(wire, part):
            # What came after it would be taken for a part of it.
            for order in sorted(new):
                out.extend(new.pop(order))
        if code >= 0:
            kind = KIND_OF[code]
            for order in sorted(new):
                if order < kind.order or (
                    order == _BODY_ORDER == kind.order and start in body_places
                ):
                    out.extend(new.pop(order))
            if kind.attribute == "body":
                if not body_kept and start in body_places:
                    changed = True
                    continue
            elif part in held and not _unchanged(lenient, kind, sections[code], wire, part):
                changed = True
                if sections[code] is not None:
                    octets = encoded(kind, sections[code], lenient)
                    out.append(with_surplus(octets, wire, part) if lenient else octets)
                continue
        out.append(wire[start:end])
    for order in sorted(new):
        out.extend(new[order])
    return b"".join(out) if changed else wire


def body_parts(lenient: bool, wire: bytes, parts: list[_Part]) -> list[_Part]:
    """Find the parts that the body stands for."""
    found = [part for part in parts if part[0] in BODY_CODES]
    if not lenient:
        return found
    return [part for part in found if read_again(wire, part) is not None]


def holders(lenient: bool, wire: bytes, parts: list[_Part]) -> list[_Part]:
    """Find the parts that the attributes stand for, other than the body.

    Of several sections of a kind that is the first one that can be read as what it is; where
    none can, the first, which the attribute (None until it is set) takes the place of.
    """
    found: dict[int, _Part] = {}
    readable: set[int] = set()
    for part in parts:
        code = part[0]
        if code < 0 or code in readable or KIND_OF[code].attribute == "body":
            continue
        if not lenient or read_again(wire, part) is not None:
            readable.add(code)
            found[code] = part
        else:
            found.setdefault(code, part)
    return list(found.values())


def _unchanged(lenient: bool, kind: SectionKind, section: Any, wire: bytes, part: _Part) -> bool:
    """Return whether a section still says what its bytes say."""
    _, start, content, end = part
    if type(section) is Data:
        # Comparing the octets in place saves encoding a large body to find it unchanged.
        payload = content + HEAD_SIZES[wire[content]]
        held = section.data
        if isinstance(held, bytes):
            return len(held) == end - payload and wire.startswith(held, payload)
    if section is None:
        return lenient and read_again(wire, part) is None
    now = encoded(kind, section, lenient)
    if len(now) == end - start and wire.startswith(now, start):
        return True
    if lenient:
        before = read_again(wire, part)
    else:
        before = read_section(wire, kind, content, end, UNLIMITED)
    return before is not None and encoded(kind, before, lenient) == now
