"""Plain JSON: a message as people read it and write it by hand.

    {
      "header": {"durable": true, "ttl": 60000},
      "properties": {"message_id": "m-1", "creation_time": "2024-02-29T12:00:00.000Z"},
      "application_properties": {"tenant": "x", "attempt": {"$int": 3}},
      "amqp_value": "hello"
    }

Sections and fields have the names that they have in Python: those of the specification with
underscores, so that no tool needs to quote them; dashes are read too. Fields that are null are left
out.

Where a field's declaration gives the type, the value is written plainly. Elsewhere null, true,
false, a string and a list mean themselves, an integer is a long, a number with a point or an
exponent is a double, and an object is a map with strings for keys (symbols in the annotations and
the footer). All else names its type:

==================================== =============================================================
``{"$uint": 5}``                     so every integer type; digits in a string are read too
``{"$float": 1.5}``                  so ``$double``; also ``"NaN"``, ``"Infinity"`` and
                                     ``"-Infinity"``, and the bits, as in ``"0x7fc00001"``
``{"$decimal64": "1.50"}``           so ``$decimal32`` and ``$decimal128``; the bits where several
                                     mean one number
``{"$timestamp": "2024-02-29T…Z"}``  ISO 8601; milliseconds outside of the years 1 to 9999
``{"$symbol": "a"}``                 so ``$string``, ``$char``, ``$uuid``
``{"$binary": "text"}``              bytes that are readable UTF-8; others are
                                     ``{"$base64": "AAEC"}``; ``{"$hex": "000102"}`` is read too
``{"$map": [[key, value], …]}``      a map that no object holds
``{"$array": "int", "values": […]}`` with ``"code": "0x71"`` where that is not the smallest
                                     constructor, with ``"descriptors": […]`` where the elements
                                     are described
``{"$described": [descriptor, …]}``  the descriptor and the value
``{"$rejected": {"error": …}}``      a composite under its name
==================================== =============================================================

``data`` is text or ``{"$base64": …}``. In place of ``data``, ``amqp_sequence`` and ``amqp_value``,
``body`` is read as `Message` takes one: bytes are data, all else is an amqp-value.
``message_format`` is added to the sections where it is not 0.

A message with several body sections, and one that was decoded with ``strict=False`` and breaks the
specification, is ``{"sections": [[name, content], …]}``, in the order of the wire; there a section
with the wrong content has a value with a marker, what is not a section is called ``unknown``, and
``raw`` has the bytes of a section that is no value to the letter.

Reading returns an equal message.
"""

from __future__ import annotations

import re
from typing import Any

from amqp10msg.composite import COMPOSITES
from amqp10msg.message import Message
from amqp10msg.notation._common import TOO_DEEP, NotationError
from amqp10msg.notation._plain_items import octets_of_message, octets_of_value
from amqp10msg.notation._plain_octets import plain_message, plain_octets
from amqp10msg.notation._plain_reader import PlainReader, is_marker
from amqp10msg.notation._plain_tables import SHOWN
from amqp10msg.notation._plain_writer import entries, fields_of, generic, marked, natural
from amqp10msg.notation._sections import message_of, sections_of, written
from amqp10msg.sections import BODY_KINDS, KINDS, SectionKind
from amqp10msg.sections.parts import Malformed
from amqp10msg.wire.errors import DecodeError, EncodeError
from amqp10msg.wire.kernel import decode_value, encode_value
from amqp10msg.wire.limits import UNLIMITED
from amqp10msg.wire.primitives import AmqpMap, Symbol

_SHOWN = {kind.name: shown for kind, shown in zip(KINDS, SHOWN, strict=True)}
_NAMES = dict(zip(SHOWN, KINDS, strict=True))
_DATA = BODY_KINDS[0]
_VALUE = BODY_KINDS[2]


def to_plain(value: Any) -> Any:
    """Write a message or a value in plain JSON.

    Args:
        value: a `Message`, or whatever `encode_value` takes.

    Returns:
        What `json.dumps` takes: dicts, lists, str, int, finite floats, bool and None.

    Raises:
        EncodeError: the value has no AMQP type, or is out of its range.
    """
    try:
        return _message(value) if isinstance(value, Message) else plain_octets(encode_value(value))
    except RecursionError:
        raise EncodeError(TOO_DEEP) from None


def _message(message: Message) -> dict[str, Any]:
    octets = message.encode()
    quick: dict[str, Any] | None = plain_message(octets, int(message.message_format))
    if quick is not None:
        return quick
    sections = sections_of(octets)
    made: dict[str, Any] = {}
    if message.message_format:
        made["message_format"] = int(message.message_format)
    kinds = [kind for kind, _ in sections]
    if len({id(kind) for kind in kinds}) == len(kinds) and _is_strict(octets):
        made |= {_name(kind): _content(kind, value) for kind, value in sections}
    else:
        made["sections"] = [
            ["raw", natural("binary", value.data)]
            if type(value) is Malformed
            else [_name(kind), _content(kind, value)]
            for kind, value in sections
        ]
    return made


def _is_strict(octets: bytes) -> bool:
    try:
        Message.decode(octets, limits=UNLIMITED)
    except DecodeError:
        return False
    return True


def _name(kind: SectionKind | None) -> str:
    return "unknown" if kind is None else _SHOWN[kind.name]


def _content(kind: SectionKind | None, value: Any) -> Any:
    if kind is None or kind is _VALUE:
        return generic(value)
    if kind.source == "map" and isinstance(value, (dict, AmqpMap)):
        return entries(value, str if kind.name == "application-properties" else Symbol)
    if kind.source == "binary" and isinstance(value, bytes):
        return natural("binary", value)
    if kind.source == "list" and isinstance(value, list):
        entry = COMPOSITES.get(kind.code)
        if entry is None:
            return generic(value)
        if len(value) <= len(entry.fields):
            return fields_of(entry.fields, value)
    return marked(value)


def from_plain(plain: Any) -> Message:
    """Read a message from plain JSON.

    Args:
        plain: what `to_plain` returns for a message, or the like written by hand and read with
            `json.loads`.

    Raises:
        NotationError: it is not plain JSON of a message, or not of one that the specification
            allows; the error has the path. Only under ``sections`` may a message break the
            specification.
    """
    quick = octets_of_message(plain)
    if quick is not None:
        octets, message_format = quick
        try:
            return Message.decode(octets, limits=UNLIMITED, message_format=message_format)
        except DecodeError:
            pass  # what is wrong is said below, with its place in the notation
    reader = PlainReader()
    try:
        return _read_message(reader, plain)
    except RecursionError:
        raise reader.fault(TOO_DEEP) from None


def _read_message(reader: PlainReader, plain: Any) -> Message:
    if not isinstance(plain, dict):
        raise reader.wrong('an object such as {"amqp_value": "hello"}', plain)
    given = {str(key).replace("-", "_"): item for key, item in plain.items()}
    # Only an amqp-value can be null; any other section that is null is none.
    given = {key: item for key, item in given.items() if item is not None or key == _name(_VALUE)}
    message_format = reader.natural("uint", given.pop("message_format", 0))
    if "sections" in given:
        if len(given) > 1:
            raise reader.fault("sections must be the only key: it lists all sections")
        return message_of(_listed(reader, given["sections"]), message_format=message_format)
    parts: list[tuple[SectionKind, bytes]] = []
    for key, item in given.items():
        reader.path = [f".{key}" if key.isidentifier() else f"[{key!r:.40}]"]
        kind = _NAMES.get(key)
        if key == "body":
            value = reader.generic(item)
            kind = _DATA if type(value) is bytes else _VALUE
        elif kind is None:
            raise reader.fault(
                f"there is no such section: use one of {', '.join(_NAMES)}, body, message_format, "
                "sections"
            )
        else:
            value = _section(reader, kind, item)
        parts.append((kind, _written(reader, kind, value)))
    reader.path = []
    if sum(kind in BODY_KINDS for kind, _ in parts) > 1:
        raise reader.fault("a body has sections of one kind: write several of them under sections")
    parts.sort(key=lambda part: part[0].order)
    octets = b"".join(octets for _, octets in parts)
    try:
        return Message.decode(octets, limits=UNLIMITED, message_format=message_format)
    except DecodeError as error:
        head, rest = _SPLIT.fullmatch(error.path).groups()  # type: ignore[union-attr]
        raise NotationError(error.reason, f"$.{head.replace('-', '_')}{rest}") from None


_SPLIT = re.compile(r"([^\[]*)(.*)", re.DOTALL)


def value_from_plain(plain: Any) -> Any:
    """Read a value from plain JSON, as `decode_value` returns it.

    Raises:
        NotationError: it is not plain JSON; the error has the path.
    """
    reader = PlainReader()
    try:
        octets = octets_of_value(plain)
        if octets is None:
            octets = _written(reader, None, reader.generic(plain))
        return decode_value(octets, limits=UNLIMITED)
    except RecursionError:
        raise reader.fault(TOO_DEEP) from None


def _listed(reader: PlainReader, sections: Any) -> bytes:
    reader.path = [".sections", ""]
    if not isinstance(sections, list):
        raise reader.wrong("a list of [name, content] pairs", sections)
    octets = []
    for index, section in enumerate(sections):
        reader.path[1:] = [index]
        if not isinstance(section, list) or len(section) != 2 or not isinstance(section[0], str):
            raise reader.wrong("a [name, content] pair", section)
        kind = _NAMES.get(section[0].replace("-", "_"))
        if kind is None and section[0] not in ("unknown", "raw"):
            raise reader.wrong(f"a section, one of {', '.join(_NAMES)}, unknown, raw", section[0])
        reader.path.append(1)
        if section[0] == "raw":
            octets.append(reader.natural("binary", section[1]))
            continue
        octets.append(_written(reader, kind, _section(reader, kind, section[1])))
    return b"".join(octets)


def _section(reader: PlainReader, kind: SectionKind | None, plain: Any) -> Any:
    """Read a section's content to its value."""
    if kind is None or kind is _VALUE or is_marker(plain):
        return reader.generic(plain)
    if kind.source == "binary":
        return reader.natural("binary", plain)
    if kind.source == "map":
        if not isinstance(plain, dict):
            raise reader.wrong("an object", plain)
        return reader.entries(
            plain, "string" if kind.name == "application-properties" else "symbol"
        )
    entry = COMPOSITES.get(kind.code)
    return reader.items(plain) if entry is None else reader.fields(entry.fields, plain)


def _written(reader: PlainReader, kind: SectionKind | None, value: Any) -> bytes:
    try:
        return written(kind, value)
    except EncodeError as error:
        raise reader.fault(error.reason) from None
