"""Typed JSON: every value beside the name of its AMQP type, lossless.

A value is a list of its type's name and what it holds:

=============================== ==================================================================
``["null"]``
``["boolean", true]``
``["uint", 5]``                 so all integers; ``timestamp`` in milliseconds
``["float", "7fc00000"]``       so ``double`` and the decimals: the IEEE 754 bits in hex
``["char", 128512]``            the code point
``["string", "text"]``          so ``symbol``
``["binary", "00ff"]``          in hex, so ``uuid``
``["list", [value, …]]``
``["map", [[key, value], …]]``  in the order of the wire
``["array", "71", [value, …]]`` the format code of the element constructor, in hex; descriptors of
                                the elements, outermost first, in a fourth item: a list of values
``["described", value, value]`` the descriptor, then what is described
=============================== ==================================================================

A message is a list of its sections in the order of the wire, each ``[name, content]``:

=========================================== ======================================================
header, properties                          a list of values, one for each field that was written
the three annotations, footer,
application-properties                      a list of ``[key, value]`` pairs
data                                        hex
amqp-sequence                               a list of values
amqp-value                                  a value
=========================================== ======================================================

What a lenient decoding lets through has its own forms. A known section that holds what it must not
has that value as its content: ``["header", ["map", []]]``; regular content never begins with the
name of a type. What is not a section of Part 3 is ``["unknown", value]``. A section whose bytes are
no value to the letter (text that is not UTF-8, a map with a key twice, an empty array without
constructor) is ``["raw", hex]``, its bytes as they are.

The typed form holds the values of a message and their types, not which of several encodings of a
value it used; only an array's constructor is kept. A message's message-format is not part of it.
"""

from __future__ import annotations

import re
from typing import Any

from amqp10msg.message import Message
from amqp10msg.notation._error import TOO_DEEP, NotationError, Reader, Step
from amqp10msg.notation._sections import message_of, sections_of, written
from amqp10msg.notation._typed_octets import (
    octets_of_message,
    octets_of_value,
    typed_message,
    typed_octets,
    typed_value,
)
from amqp10msg.notation.type_names import INTEGERS, TYPES, WIDTHS, integer_range, of_bits
from amqp10msg.sections import KINDS, SectionKind
from amqp10msg.sections.lenient import Malformed
from amqp10msg.wire.errors import EncodeError
from amqp10msg.wire.kernel import decode_value, encode_value
from amqp10msg.wire.limits import UNLIMITED
from amqp10msg.wire.primitives import FORMAT_CODES, AmqpMap, Array, Char, Described, Symbol

_KINDS = {kind.name: kind for kind in KINDS}


def to_typed(value: Any) -> list[Any]:
    """Write a message or a value in typed JSON.

    Args:
        value: a `Message`, or whatever `encode_value` takes: a value, a section, a composite. A
            composite is written as ``["described", ["ulong", code], ["list", […]]]``.

    Raises:
        EncodeError: the value has no AMQP type, or is out of its range.
    """
    try:
        if isinstance(value, Message):
            octets = value.encode()
            # What was decoded leniently may have a key twice.
            made: list[Any] | None = None if value._lenient else typed_message(octets)
            if made is not None:
                return made
            return [_section(kind, content) for kind, content in sections_of(octets)]
        typed: list[Any] = typed_octets(encode_value(value))
        return typed
    except RecursionError:
        raise EncodeError(TOO_DEEP) from None


def _section(kind: SectionKind | None, value: Any) -> list[Any]:
    """Return a section with its content in the form of its kind, or as what it is."""
    if type(value) is Malformed:
        return ["raw", value.data.hex()]
    typed = typed_value(value)
    if kind is None:
        return ["unknown", typed]
    return [kind.name, typed[1] if typed[0] == kind.source else typed]


def from_typed(typed: Any) -> Any:
    """Read typed JSON: a `Message` from a list of sections, else the value.

    Values come as `decode_value` returns them. Sections that break a rule which `Message.decode`
    enforces give a message as its ``strict=False`` does, with `violations`. A last item that is an
    object is a remark and is passed over: ``["boolean", false, {"code": "56"}]``.

    Args:
        typed: what `to_typed` returns, or the same from ``json.loads``. The empty list is a message
            without sections.

    Raises:
        NotationError: it is not typed JSON; the error has the path.
        DecodeError: ``raw`` bytes do not fit together to encoded values.
    """
    reader = _TypedReader()
    try:
        if not isinstance(typed, list) or (typed and not isinstance(typed[0], (str, list))):
            raise reader.wrong(
                'a value such as ["uint", 5] or a list of sections such as ["data", "00ff"]', typed
            )
        if typed and isinstance(typed[0], str):
            octets = octets_of_value(typed)
            if octets is None:
                octets = _encoded(reader.value(typed), typed)
            return decode_value(octets, limits=UNLIMITED)
        octets = octets_of_message(typed)
        if octets is None:
            octets = b"".join(map(reader.section, typed, range(len(typed))))
    except RecursionError:
        raise NotationError(TOO_DEEP) from None
    return message_of(octets)


def _encoded(
    value: Any, typed: Any, path: tuple[Step, ...] = (), kind: SectionKind | None = None
) -> bytes:
    try:
        return written(kind, value)
    except EncodeError as error:
        # Only an array's constructor can still be at fault; find out which.
        reader = _TypedReader(path, careful=True)
        reader.value(typed)
        raise reader.fault(error.reason) from None


_HEX = re.compile(r"(?:[0-9a-fA-F]{2})*")
_ITEMS = {"null": 1, "array": 3, "described": 3}
_TYPES = tuple(dict.fromkeys(TYPES.values()))


class _TypedReader(Reader):
    """Reads typed values."""

    def __init__(self, path: tuple[Step, ...] = (), careful: bool = False) -> None:
        super().__init__(path)
        self.careful = careful

    def value(self, typed: Any) -> Any:
        if not isinstance(typed, list) or not typed or not isinstance(typed[0], str):
            raise self.wrong('a value such as ["uint", 5]', typed)
        name = typed[0]
        if name not in _TYPES:
            raise self.wrong(f"the name of a type, one of {', '.join(_TYPES)}", name, 0)
        items = typed[:-1] if isinstance(typed[-1], dict) and len(typed) > 1 else typed
        if name == "array" and len(items) == 4:
            pass
        elif len(items) != _ITEMS.get(name, 2):
            if len(typed) == 2 and isinstance(typed[1], dict):
                raise self.scalar_object(name, typed[1])
            raise self.fault(f"expected {_ITEMS.get(name, 2)} items for {name}, not {len(items)}")
        if name in ("list", "map", "array", "described"):
            self.deeper()
            if name == "list":
                made: Any = self.values(items[1], 1)
            elif name == "map":
                made = self.pairs(items[1], 1)
            elif name == "array":
                made = self.array(items)
            else:
                made = Described(*self.values(items, first=1))
            self.depth -= 1
            return made
        return None if name == "null" else self.scalar(name, items[1])

    def scalar_object(self, name: str, found: Any) -> NotationError:
        if name in ("string", "symbol") and "hex" in found:
            return self.fault(f"a {name} cannot hold bytes that are not valid text: use binary", 1)
        return self.wrong(f"what a {name} holds", found, 1)

    def scalar(self, name: str, item: Any) -> Any:
        if name == "boolean":
            if not isinstance(item, bool):
                raise self.wrong("true or false", item, 1)
            return item
        if name in INTEGERS or name in ("long", "char"):
            return self.integer(name, item)
        if name in WIDTHS:
            return of_bits(name, self.hex(item, 1, WIDTHS[name]))
        if name == "binary":
            return self.hex(item, 1)
        if not isinstance(item, str):
            raise self.wrong(f"the text of a {name}", item, 1)
        try:
            item.encode("utf-8" if name == "string" else "ascii")
        except UnicodeEncodeError as error:
            why = "which UTF-8 cannot" if name == "string" else "which is not ASCII"
            char = f"U+{ord(item[error.start]):04X}"
            raise self.fault(f"the text of a {name} holds {char}, {why}", 1) from None
        return item if name == "string" else Symbol(item)

    def integer(self, name: str, item: Any) -> Any:
        if isinstance(item, bool) or not isinstance(item, int):
            raise self.wrong(f"an integer for {name}", item, 1)
        if name == "char":
            if not 0 <= item <= 0x10FFFF or 0xD800 <= item <= 0xDFFF:
                raise self.wrong("a Unicode code point that is not a surrogate", item, 1)
            return Char(chr(item))
        low, high, cls = integer_range(name)
        if not low <= item <= high:
            raise self.wrong(f"{low} to {high} for {name}", item, 1)
        return cls(item)

    def hex(self, item: Any, step: int, width: int | None = None) -> bytes:
        what = "hex" if width is None else f"{2 * width} hex digits"
        if not isinstance(item, str) or not _HEX.fullmatch(item):
            raise self.wrong(what, item, step)
        octets = bytes.fromhex(item)
        if width is not None and len(octets) != width:
            raise self.wrong(what, item, step)
        return octets

    def values(self, items: Any, *steps: int, first: int = 0) -> list[Any]:
        if not isinstance(items, list):
            raise self.wrong("a list of values", items, *steps)
        made = []
        self.path += (*steps, 0)
        for index in range(first, len(items)):
            self.path[-1] = index
            made.append(self.value(items[index]))
        del self.path[-1 - len(steps) :]
        return made

    def pairs(self, items: Any, *steps: int) -> AmqpMap:
        if not isinstance(items, list):
            raise self.wrong("a list of [key, value] pairs", items, *steps)
        made = []
        seen = set()
        self.path += (*steps, 0, 0)
        for index, pair in enumerate(items):
            self.path[-2] = index
            if not isinstance(pair, list) or len(pair) != 2:
                self.path.pop()
                raise self.wrong("a [key, value] pair", pair)
            self.path[-1] = 0
            key = self.value(pair[0])
            octets = _encoded(key, pair[0], tuple(self.path))
            if octets in seen:
                raise self.fault("duplicate map key")
            seen.add(octets)
            self.path[-1] = 1
            made.append((key, self.value(pair[1])))
        del self.path[-2 - len(steps) :]
        return AmqpMap(made)

    def array(self, items: list[Any]) -> Array:
        _, code_typed, values_typed, *more = items
        code = self.hex(code_typed, 1, 1)[0]
        row = FORMAT_CODES.get(code)
        if row is None:
            raise self.wrong("a format code of Part 1, 1.6, such as a3", code_typed, 1)
        values = self.values(values_typed, 2)
        for index, item in enumerate(values_typed):
            if item[0] != row.type:
                wanted = f"{row.type}, the type of the array's constructor {code:02x}"
                raise self.wrong(wanted, item, 2, index)
        descriptors = self.values(more[0], 3) if more else []
        made = Array(code, values, descriptors=descriptors)
        if self.careful:
            try:
                encode_value(made)
            except EncodeError as error:
                raise self.fault(error.reason) from None
        return made

    def section(self, typed: Any, index: int) -> bytes:
        """Read a section to its octets."""
        self.path = [index]
        if not isinstance(typed, list) or not typed or not isinstance(typed[0], str):
            raise self.wrong('a section such as ["data", "00ff"]', typed)
        name = typed[0]
        if len(typed) != 2 and not (len(typed) == 3 and isinstance(typed[2], dict)):
            raise self.wrong("a section's name and its content", typed)
        content = typed[1]
        if name == "raw":
            return self.hex(content, 1)
        kind = _KINDS.get(name)
        if kind is None and name != "unknown":
            raise self.wrong(f"a section, one of {', '.join(_KINDS)}, unknown, raw", name, 0)
        value: Any
        if kind is not None and kind.source == "binary" and isinstance(content, str):
            value = self.hex(content, 1)
            typed = ["binary", content]
        elif kind is not None and kind.source in ("list", "map") and not _is_value(content):
            read = self.values if kind.source == "list" else self.pairs
            value = read(content, 1)
            typed = [kind.source, content]
        else:
            self.path.append(1)
            value = self.value(content)
            typed = content
        return _encoded(value, typed, (index, 1), kind)


def _is_value(content: Any) -> bool:
    """Return whether this is a value, not a section's content, which begins with no type's name."""
    return isinstance(content, list) and bool(content) and isinstance(content[0], str)
