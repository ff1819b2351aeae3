"""Messages encoded: bodies, sections one by one, and what was not changed since it was decoded.

What was not changed keeps its exact bytes; where a section cannot be encoded, the error says in
which of its values the fault is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from amqp10msg.sections import (
    BODY_CODES,
    BODY_KINDS,
    KIND_OF,
    KINDS,
    SPEC_OF,
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

if TYPE_CHECKING:
    from amqp10msg.message import Message

Body: TypeAlias = Data | AmqpSequence | AmqpValue | list[Data] | list[AmqpSequence]

BODY_SPECS = {kind.cls: SPEC_OF[kind.code] for kind in BODY_KINDS}


def to_body(body: Any) -> Body | None:
    """Take what a user gives as a body to the section or sections it means."""
    if body is None or isinstance(body, (Data, AmqpSequence, AmqpValue)):
        return body
    if isinstance(body, (bytes, bytearray, memoryview)):
        return Data(bytes(body))
    if not (isinstance(body, list) and body and type(body[0]) in BODY_SPECS):
        return AmqpValue(body)
    for item in body:
        if type(item) not in BODY_SPECS:
            how = "a list that is a value is AmqpValue([...])"
            raise wrong_type("a body that is a list of sections", "sections alone", item, how)
    return body  # one kind of section: encode checks that


def body_sections(message: Message) -> list[Any]:
    """Return the sections of the body, whatever the user set; EncodeError for several kinds."""
    body: Any = message.body
    if body is None:
        return []
    if type(body) in BODY_SPECS:
        return [body]
    body = to_body(body)
    if not isinstance(body, list):
        return [body]
    first: type = type(body[0])
    if not message._lenient and (
        any(type(part) is not first for part in body) or (first is AmqpValue and len(body) > 1)
    ):
        raise EncodeError(
            "a body is one or more Data, one or more AmqpSequence, or one AmqpValue", "body"
        )
    return body


def encoded(kind: SectionKind, section: Any, lenient: bool) -> bytes:
    """Encode one section."""
    writer = kernel.Writer(lenient)
    write(writer, SPEC_OF[kind.code], section)
    return writer.finish()


def write(writer: Any, spec: Any, section: Any) -> None:
    """Write one section; the path of an EncodeError says where the fault is."""
    try:
        if type(section) is AmqpMap and writer.lenient:
            # What a section that is a map holds, and no dict can.
            writer.value(Described(ULong(spec.code), section))
            return
        kernel.check_section(spec, section)
        writer.section(spec, section)
    except EncodeError as error:
        if error.path.startswith(spec.name):
            raise
        raise _located(spec, section, error) from None
    except (RecursionError, UnicodeEncodeError) as error:
        raise _located(spec, section, kernel.encode_fault(error)) from None


def _located(spec: Any, section: Any, error: EncodeError) -> EncodeError:
    """Find the value that cannot be encoded, to name it in the error's path."""
    content = (
        section if isinstance(section, Mapping) else getattr(section, spec.attribute or "", None)
    )
    return EncodeError(error.reason, f"{spec.name}{error.path or _place(content)}")


# A value that contains itself has no end, and each level is encoded once more.
_MOST_PLACES = 16


def _place(value: Any, level: int = 0) -> str:
    """Return which of the values in this one cannot be encoded, as the rest of a path."""
    entries: list[tuple[Any, Any]] = []
    if isinstance(value, Mapping):
        entries = list(value.items())
    elif isinstance(value, (list, tuple)):
        entries = list(enumerate(value))
    elif isinstance(value, Array):
        entries = list(enumerate(value.values))
    elif isinstance(value, Described):
        return _place(value.value, level)
    for key, item in entries:
        try:
            kernel.encode_value(item)
        except EncodeError:
            return f"[{key!r:.80}]" + (_place(item, level + 1) if level < _MOST_PLACES else "")
    return ""


#: The kinds that are not a body, in the order of a message.
SECTION_KINDS = tuple(kind for kind in KINDS if kind.attribute != "body")
_BODY_ORDER = BODY_KINDS[0].order
# A part as the kernel's scan gives it: code, offset, content, end.
_Part = tuple[int, int, int, int]


def encode_changes(message: Message, wire: bytes) -> bytes:
    """Encode a message that was decoded from these bytes."""
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
    # By order: what is to be written again, and has no place among the parts yet.
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
    if type(section) is Data and not (lenient and read_again(wire, part) is None):
        # Comparing the bytes in place saves encoding a large body to find it unchanged.
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
