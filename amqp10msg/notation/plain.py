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

import base64
import math
import re
from collections.abc import Iterable
from typing import Any

import amqp10msg.delivery  # noqa: F401  (its composites are shown by their names)
from amqp10msg._core import decode_value, encode_value
from amqp10msg.composite import COMPOSITES, Field, from_described
from amqp10msg.errors import DecodeError, EncodeError
from amqp10msg.lenient import Malformed
from amqp10msg.limits import UNLIMITED
from amqp10msg.message import Message
from amqp10msg.notation._error import TOO_DEEP, NotationError
from amqp10msg.notation._plain_reader import PlainReader, is_marker
from amqp10msg.notation._sections import exact, message_of, sections_of, written
from amqp10msg.notation.type_names import DECIMALS, INTEGERS, TYPES, bits_of
from amqp10msg.primitives import AmqpMap, Array, Described, Float, Symbol, ULong
from amqp10msg.sections import BODY_KINDS, KINDS, SectionKind

_SHOWN = {kind.name: kind.name.replace("-", "_") for kind in KINDS}
_NAMES = {_SHOWN[kind.name]: kind for kind in KINDS}
# The types that JSON has, and those whose values are integers or texts there.
_SAME = frozenset(("null", "boolean", "string"))
_WHOLE = frozenset(("long", *INTEGERS)) - {"timestamp"}
_TEXTS = frozenset(("symbol", "char", "uuid"))
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
        return _message(value) if isinstance(value, Message) else generic(exact(value))
    except RecursionError:
        raise EncodeError(TOO_DEEP) from None


def _message(message: Message) -> dict[str, Any]:
    sections = sections_of(message.encode())
    made: dict[str, Any] = {}
    if message.message_format:
        made["message_format"] = int(message.message_format)
    kinds = [kind for kind, _ in sections]
    if len({id(kind) for kind in kinds}) == len(kinds) and _is_strict(message):
        made |= {_name(kind): _content(kind, value) for kind, value in sections}
    else:
        made["sections"] = [
            ["raw", natural("binary", value.data)]
            if type(value) is Malformed
            else [_name(kind), _content(kind, value)]
            for kind, value in sections
        ]
    return made


def _is_strict(message: Message) -> bool:
    try:
        Message.decode(message.encode(), limits=UNLIMITED)
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


# A form is `natural` where the type is known; one that is `marked`, ``{"$uint": 5}``, names it.


def generic(value: Any) -> Any:
    """Write a value of any type: plainly where JSON has its type, else with a marker."""
    kind = type(value)
    if kind in (type(None), bool, int, str) or (kind is float and math.isfinite(value)):
        return value
    if kind is list:
        return [generic(item) for item in value]
    if kind is dict or kind is AmqpMap:
        return entries(value, str)
    if kind is Described and (written := _composite(value)) is not None:
        return written
    return marked(value)


def marked(value: Any) -> dict[str, Any]:
    """Write a value with the marker of its type."""
    name = TYPES[type(value)]
    if name == "list":
        return {"$list": [generic(item) for item in value]}
    if name == "map":
        return {"$map": [[generic(key), generic(item)] for key, item in _pairs_of(value)]}
    if name == "described":
        return {"$described": [generic(value.descriptor), generic(value.value)]}
    if name == "array":
        return _array(value)
    content = natural(name, value)
    return content if isinstance(content, dict) else {f"${name}": content}


def natural(name: str, value: Any) -> Any:
    """Write a value where its type is known to be this one."""
    if name in _SAME:
        return value
    if name in _WHOLE:
        return int(value)
    if name in _TEXTS:
        return str(value)
    if name == "timestamp":
        try:
            moment = value.to_datetime()
        except ValueError:
            return int(value)
        return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    if name == "binary":
        return _binary(value)
    if name in ("float", "double"):
        return _real(value)
    if name in DECIMALS:
        number = str(value)
        same = DECIMALS[name].from_decimal(number).bits == value.bits
        return number if same else f"0x{value.bits:0{2 * value.width}x}"
    return generic(value)


def _binary(value: bytes) -> Any:
    """Write bytes as text where they are readable text, else in base64."""
    try:
        text = value.decode("utf-8")
    except UnicodeDecodeError:
        pass
    else:
        if not _CONTROLS.search(text):
            return text
    return {"$base64": base64.b64encode(value).decode("ascii")}


_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


def _real(value: float) -> Any:
    if math.isfinite(value):
        if not isinstance(value, Float):
            return value
        # The shortest number that the nearest float is taken of: 0.1, not 0.10000000149011612.
        for digits in range(6, 10):
            number = float(f"{float(value):.{digits}g}")
            try:
                if Float(number).bits == value.bits:
                    return number
            except OverflowError:
                continue
        return float(value)
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    octets = bits_of(value)
    quiet = b"\x7f\xc0" if isinstance(value, Float) else b"\x7f\xf8"
    return "NaN" if octets.rstrip(b"\x00") == quiet else f"0x{octets.hex()}"


def _pairs_of(mapping: Any) -> Iterable[tuple[Any, Any]]:
    """Return the entries of a dict or an AmqpMap."""
    return mapping.pairs if type(mapping) is AmqpMap else mapping.items()


def entries(mapping: Any, key_type: type[str]) -> Any:
    """Write a map as an object where the type of its keys allows that, else as pairs."""
    made: dict[str, Any] = {}
    for key, value in _pairs_of(mapping):
        if type(key) is not key_type or key[:1] == "$":
            return marked(mapping)
        made[str(key)] = generic(value)
    return made


def _array(value: Array) -> dict[str, Any]:
    written: dict[str, Any] = {"$array": value.type}
    if value.code != _default_code(value):
        written["code"] = f"0x{value.code:02x}"
    if value.descriptors:
        written["descriptors"] = [generic(descriptor) for descriptor in value.descriptors]
    written["values"] = [natural(value.type, item) for item in value.values]
    return written


def _default_code(value: Array) -> int:
    """Return the constructor that the array would be encoded with if it had none of its own."""
    # Arrays in arrays would otherwise be encoded once for each array around them.
    if value.code in _SHORT or (value.code in _LONG and any(map(_is_long, value.values))):
        return value.code
    octets = encode_value(Array(value.type, value.values))
    return octets[3] if octets[0] == 0xE0 else octets[9]


# Constructors of elements that have a size, in both forms.
_SHORT = (0xA0, 0xA1, 0xA3, 0xC0, 0xC1, 0xE0)
_LONG = tuple(code + 0x10 for code in _SHORT)
_MOST_SHORT = 255


def _is_long(value: Any) -> bool:
    """Return whether a value takes more than 255 bytes; False also where that takes a long look."""
    pending = [value]
    size = 0
    while pending and size <= _MOST_SHORT:
        one = pending.pop()
        if isinstance(one, (str, bytes)):
            size += len(one)
        elif isinstance(one, Described):
            pending += (one.descriptor, one.value)
        elif isinstance(one, (list, Array, dict, AmqpMap)):
            if isinstance(one, Array) and one.type == "null":
                continue  # its elements take no bytes
            if len(one) > _MOST_SHORT:
                return True
            pending += one.values if isinstance(one, Array) else one
        else:
            size += 1
    return size > _MOST_SHORT


def _composite(value: Described) -> Any:
    """Write a composite under its name; None if that would lose a part of it."""
    if type(value.descriptor) is not ULong or type(value.value) is not list:
        return None
    entry = COMPOSITES.get(value.descriptor)
    if entry is None or (value.value and value.value[-1] is None):
        return None
    try:
        from_described(value)
    except DecodeError:
        return None
    return {"$" + entry.name.replace("-", "_"): fields_of(entry.fields, value.value)}


def fields_of(rows: tuple[Field, ...], values: list[Any]) -> dict[str, Any]:
    """Write the fields of a composite by name, those that are null left out."""
    return {
        row.name: _field(row, value)
        for row, value in zip(rows, values, strict=False)
        if value is not None
    }


def _field(row: Field, value: Any) -> Any:
    name = TYPES[type(value)]
    if row.multiple and name == "array" and value.type == row.type and not value.descriptors:
        return (
            [natural(row.type, v) for v in value] if "code" not in _array(value) else marked(value)
        )
    if row.requires == "message-id":
        return natural(name, value) if name in ("string", "ulong") else marked(value)
    if row.type == "*":
        return generic(value)
    if name != row.type:
        return marked(value)
    return entries(value, Symbol) if name == "map" else natural(name, value)


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
