# cython: language_level=3, boundscheck=True, wraparound=True, annotation_typing=False
"""1.0 values as RabbitMQ's codec holds them.

A term is None, True, False, or a tuple that begins with the type: ("uint", 5), ("utf8", octets),
("list", items), ("map", pairs), ("array", type, items), ("described", descriptor, value) and
("as_is", code, octets) for what the broker carries without reading it; ("unread", code, octets)
where it cannot write that again. Text is bytes: the broker does not look whether it is text.
"""

from __future__ import annotations

import struct
from typing import Any

import attrs

__all__ = [
    "UNDEFINED",
    "BrokerError",
    "Codec",
    "CrashedError",
    "RefusedError",
    "Term",
    "generate",
    "kind_of",
    "rewritten",
    "section_name",
    "untyped",
]

Term = Any

#: Null as the value of a map that is a section: the broker reads it as no value at all.
UNDEFINED = ("undefined",)


class BrokerError(Exception):
    """A broker does not deliver a message.

    Attributes:
        reason: what happens, in words.
        path: the place in the message, as far as it is known.
    """

    def __init__(self, reason: str, path: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.path = path


class RefusedError(BrokerError):
    """The broker takes no such message: publishing it fails, or the publisher is cut off."""


class CrashedError(BrokerError):
    """A process of the broker dies on the message: a session, or a consumer's connection."""


_INTEGERS = {
    0x50: ("ubyte", ">B"),
    0x60: ("ushort", ">H"),
    0x70: ("uint", ">I"),
    0x80: ("ulong", ">Q"),
    0x52: ("uint", ">B"),
    0x53: ("ulong", ">B"),
    0x51: ("byte", ">b"),
    0x61: ("short", ">h"),
    0x71: ("int", ">i"),
    0x81: ("long", ">q"),
    0x54: ("int", ">b"),
    0x55: ("long", ">b"),
    0x73: ("char", ">I"),
    0x83: ("timestamp", ">q"),
}
_FIXED = {code: (name, struct.Struct(form)) for code, (name, form) in _INTEGERS.items()}
_CONSTANTS: dict[int, Term] = {
    0x40: None,
    0x41: True,
    0x42: False,
    0x43: ("uint", 0),
    0x44: ("ulong", 0),
    0x45: ("list", []),
}
_VARIABLE = {
    0xA0: ("binary", 1),
    0xB0: ("binary", 4),
    0xA1: ("utf8", 1),
    0xB1: ("utf8", 4),
    0xA3: ("symbol", 1),
    0xB3: ("symbol", 4),
}
_FLOATS = {0x72: ("float", 4, 0x7F80_0000), 0x82: ("double", 8, 0x7FF0_0000_0000_0000)}
_FLOAT_FORMS = {"float": struct.Struct(">f"), "double": struct.Struct(">d")}
_DECIMALS = {0x74: 4, 0x84: 8, 0x94: 16}
_ARRAYS_3 = {
    0xA3: "symbol",
    0xB3: "symbol",
    0xA1: "utf8",
    0xB1: "utf8",
    0x50: "ubyte",
    0x51: "byte",
    0x60: "ushort",
    0x61: "short",
    0x70: "uint",
    0x71: "int",
    0x80: "ulong",
    0x81: "long",
    0x40: "null",
    0x56: "boolean",
    0xF0: "array",
}
_ARRAYS_4 = {
    **_ARRAYS_3,
    0xA0: "binary",
    0xB0: "binary",
    0x72: "float",
    0x73: "char",
    0x82: "double",
    0x83: "timestamp",
    0x98: "uuid",
    0xD0: "list",
    0xD1: "map",
}


@attrs.frozen
class Codec:
    """How a version of RabbitMQ reads 1.0 values.

    Attributes:
        arrays: the element constructors that it knows, with their types.
        opaque_zero_width: arrays of elements without bytes are carried unread; else refused.
        wide_boolean: 0x56 gives ("boolean", value), which is not true or false there.
        writes_unread: what it carries unread it can write again.
    """

    arrays: dict[int, str]
    opaque_zero_width: bool = False
    wide_boolean: bool = False
    writes_unread: bool = False

    @property
    def _unread(self) -> str:
        return "as_is" if self.writes_unread else "unread"

    def parse(self, data: bytes, pos: int, end: int) -> tuple[Term, int]:
        """Read one value; return it and where it ends.

        Raises:
            CrashedError: the broker does not read it.
        """
        if pos >= end:
            raise CrashedError("the bytes end where a value must stand")
        code = data[pos]
        pos += 1
        if code == 0:
            descriptor, pos = self.parse(data, pos, end)
            value, pos = self.parse(data, pos, end)
            return ("described", descriptor, value), pos
        return self._primitive(code, data, pos, end)

    def parse_all(self, data: bytes) -> list[Term]:
        """Read all values of the input."""
        pos = 0
        found = []
        while pos < len(data):
            value, pos = self.parse(data, pos, len(data))
            found.append(value)
        return found

    def _primitive(self, code: int, data: bytes, pos: int, end: int) -> tuple[Term, int]:
        if code in _CONSTANTS:
            value = _CONSTANTS[code]
            return (("list", []) if code == 0x45 else value), pos
        if code in _FIXED:
            name, form = _FIXED[code]
            stop = _need(pos, form.size, end)
            return (name, form.unpack_from(data, pos)[0]), stop
        if code in _VARIABLE:
            name, width = _VARIABLE[code]
            start = _need(pos, width, end)
            stop = _need(start, int.from_bytes(data[pos:start], "big"), end)
            return (name, data[start:stop]), stop
        if code == 0x56:
            stop = _need(pos, 1, end)
            if data[pos] > 1:
                raise CrashedError(f"a boolean of {data[pos]:#04x}")
            flag = data[pos] == 1
            return (("boolean", flag) if self.wide_boolean else flag), stop
        if code in _FLOATS:
            name, width, infinity = _FLOATS[code]
            stop = _need(pos, width, end)
            bits = int.from_bytes(data[pos:stop], "big")
            # Erlang has no NaN and no infinities: they are carried as they came.
            if bits & infinity == infinity:
                return (self._unread, code, data[pos:stop]), stop
            return (name, data[pos:stop]), stop
        if code in _DECIMALS:
            stop = _need(pos, _DECIMALS[code], end)
            return (self._unread, code, data[pos:stop]), stop
        if code == 0x98:
            stop = _need(pos, 16, end)
            return ("uuid", data[pos:stop]), stop
        if code in (0xC0, 0xD0, 0xC1, 0xD1, 0xE0, 0xF0):
            return self._compound(code, data, pos, end)
        raise CrashedError(f"unknown constructor {code:#04x}")

    def _compound(self, code: int, data: bytes, pos: int, end: int) -> tuple[Term, int]:
        width = 1 if code in (0xC0, 0xC1, 0xE0) else 4
        start = _need(pos, width, end)
        stop = _need(start, int.from_bytes(data[pos:start], "big"), end)
        at = _need(start, width, stop)
        if code in (0xE0, 0xF0):
            count = int.from_bytes(data[start:at], "big")
            return self._array(code, count, data, at, stop), stop
        items = []
        while at < stop:
            value, at = self.parse(data, at, stop)
            items.append(value)
        if code in (0xC0, 0xD0):
            return ("list", items), stop
        if len(items) % 2:
            raise CrashedError("a map with an odd number of items")
        return ("map", list(zip(items[::2], items[1::2], strict=True))), stop

    def _array(self, whole: int, count: int, data: bytes, pos: int, stop: int) -> Term:
        _need(pos, 1, stop)
        code = data[pos]
        pos += 1
        if code == 0:
            descriptor, pos = self.parse(data, pos, stop)
            inner = self._array(whole, count, data, pos, stop)
            if inner[0] == "as_is":
                raise CrashedError("an array of described elements without bytes")
            kind = ("described", descriptor, inner[1])
            return ("array", kind, [("described", descriptor, item) for item in inner[2]])
        if 0x40 <= code <= 0x45:
            if self.opaque_zero_width and pos == stop:
                width = 1 if whole == 0xE0 else 4
                size = (width + 1).to_bytes(width, "big")
                return ("as_is", whole, size + count.to_bytes(width, "big") + bytes([code]))
            if count or pos != stop or code not in self.arrays:
                raise CrashedError("an array whose elements have no bytes")
        if count > stop - pos:
            raise CrashedError("an array of fewer elements than it says")
        items = []
        for _ in range(count):
            value, pos = self._primitive(code, data, pos, stop)
            items.append(value)
        if pos != stop:
            raise CrashedError("bytes behind the elements of an array")
        if code not in self.arrays:
            raise CrashedError(f"an array of the constructor {code:#04x}")
        return ("array", self.arrays[code], items)


def _need(pos: int, size: int, end: int) -> int:
    if size > end - pos:
        raise CrashedError("the bytes end within a value")
    return pos + size


CODEC_3 = Codec(_ARRAYS_3, wide_boolean=True)
CODEC_40 = Codec(_ARRAYS_4)
CODEC_43 = Codec(_ARRAYS_4, opaque_zero_width=True, writes_unread=True)

_SECTIONS = {
    0x70: "header",
    0x71: "delivery-annotations",
    0x72: "message-annotations",
    0x73: "properties",
    0x74: "application-properties",
    0x75: "data",
    0x76: "amqp-sequence",
    0x77: "amqp-value",
    0x78: "footer",
}
_SYMBOLS = {
    f"amqp:{name}:{source}".encode(): name
    for name, source in zip(
        _SECTIONS.values(),
        ("list", "map", "map", "list", "map", "binary", "list", "*", "map"),
        strict=True,
    )
}


def kind_of(term: Term) -> str:
    """Return the type of a term, "" of null, true and false."""
    return term[0] if isinstance(term, tuple) else ""


def untyped(value: Term) -> Any:
    """Return the number or bytes of a value without its type; None of values with none."""
    if not isinstance(value, tuple) or len(value) != 2:
        return None
    if value[0] in _FLOAT_FORMS:
        return _FLOAT_FORMS[value[0]].unpack(value[1])[0]
    return value[1]


def section_name(descriptor: Term) -> str | None:
    """Return the name of the section that a descriptor stands for."""
    if isinstance(descriptor, tuple) and descriptor[0] == "ulong":
        return _SECTIONS.get(descriptor[1])
    if isinstance(descriptor, tuple) and descriptor[0] == "symbol":
        return _SYMBOLS.get(descriptor[1])
    return None


def rewritten(sections: bytes) -> bytes | None:
    """Return encoded body sections as RabbitMQ 4.0 writes them again, in a stream for example.

    None where it cannot: it reads no arrays of constructors without octets, of compact ones and of
    some types, and cannot write what it carries unread: decimals, NaN and infinities. It takes
    described values for sections.
    """
    try:
        terms = CODEC_40.parse_all(sections)
        octets = b"".join([generate(term) for term in terms])
    except CrashedError:
        return None
    pending: list[Any] = [term[2] for term in terms]
    while pending:
        term = pending.pop()
        if isinstance(term, tuple):
            if term[0] == "described":
                return None
            pending += term  # all of it, since the key of a map's entry comes first
        elif isinstance(term, list):
            pending += term
    return octets


_WRITE = {
    "ubyte": (0x50, 1),
    "ushort": (0x60, 2),
    "uint": (0x70, 4),
    "ulong": (0x80, 8),
    "byte": (0x51, 1),
    "short": (0x61, 2),
    "int": (0x71, 4),
    "long": (0x81, 8),
    "char": (0x73, 4),
    "timestamp": (0x83, 8),
}
_CONSTRUCTORS = {
    **{name: code for name, (code, _) in _WRITE.items()},
    "symbol": 0xB3,
    "utf8": 0xB1,
    "binary": 0xB0,
    "float": 0x72,
    "double": 0x82,
    "uuid": 0x98,
    "null": 0x40,
    "boolean": 0x56,
    "array": 0xF0,
    "list": 0xD0,
    "map": 0xD1,
}


def _wrapped(value: int, width: int) -> bytes:
    """Return the low bytes, as Erlang's bit syntax does."""
    return (value & ((1 << 8 * width) - 1)).to_bytes(width, "big")


def generate(term: Term) -> bytes:
    """Write a term as RabbitMQ 4 does.

    Raises:
        CrashedError: the broker's generator has no clause for it.
    """
    if term is None:
        return b"\x40"
    if term is True or term is False:
        return b"\x41" if term else b"\x42"
    kind = term[0]
    if kind == "described":
        return b"\x00" + generate(term[1]) + generate(term[2])
    if kind in _WRITE:
        return _number(kind, term[1])
    if kind in ("utf8", "symbol", "binary"):
        short = {"utf8": 0xA1, "symbol": 0xA3, "binary": 0xA0}[kind]
        octets: bytes = term[1]
        if len(octets) < 256:
            return bytes([short, len(octets)]) + octets
        return bytes([short + 0x10]) + len(octets).to_bytes(4, "big") + octets
    if kind in ("float", "double"):
        return (b"\x72" if kind == "float" else b"\x82") + bytes(term[1])
    if kind == "boolean":
        return b"\x56\x01" if term[1] else b"\x56\x00"
    if kind == "uuid":
        if len(term[1]) < 16:
            raise CrashedError("a uuid of fewer than 16 bytes")
        return b"\x98" + bytes(term[1][:16])
    if kind == "as_is":
        return bytes([term[1]]) + bytes(term[2])
    if kind == "list":
        if not term[1]:
            return b"\x45"
        return _compound(0xC0, len(term[1]), b"".join(map(generate, term[1])))
    if kind == "map":
        pairs = b"".join(generate(key) + generate(value) for key, value in term[1])
        return _compound(0xC1, 2 * len(term[1]), pairs)
    if kind == "array":
        content = _constructor(term[1]) + b"".join(_element(term[1], item) for item in term[2])
        return _compound(0xE0, len(term[2]), content)
    raise CrashedError(f"the generator has no clause for {kind}")


def _compound(short: int, count: int, content: bytes) -> bytes:
    if count >= 255 or len(content) + 1 >= 256:
        size = (len(content) + 4).to_bytes(4, "big")
        return bytes([short + 0x10]) + size + count.to_bytes(4, "big") + content
    return bytes([short, len(content) + 1, count]) + content


def _number(kind: str, value: int) -> bytes:
    if kind in ("uint", "ulong"):
        if value == 0:
            return b"\x43" if kind == "uint" else b"\x44"
        if 0 < value < 256:
            return bytes([0x52 if kind == "uint" else 0x53, value])
    if kind in ("int", "long") and -128 <= value < 128:
        return bytes([0x54 if kind == "int" else 0x55]) + _wrapped(value, 1)
    code, width = _WRITE[kind]
    return bytes([code]) + _wrapped(value, width)


def _constructor(kind: Term) -> bytes:
    if isinstance(kind, tuple):
        return b"\x00" + generate(kind[1]) + _constructor(kind[2])
    return bytes([_CONSTRUCTORS[kind]])


def _element(kind: Term, item: Term) -> bytes:
    if isinstance(kind, tuple):
        return _element(kind[2], item[2])
    if kind == "boolean":
        return b"\x01" if item in (True, ("boolean", True)) else b"\x00"
    if kind == "null":
        return b""
    if kind in _WRITE:
        return _wrapped(item[1], _WRITE[kind][1])
    if kind in ("utf8", "symbol", "binary"):
        return len(item[1]).to_bytes(4, "big") + bytes(item[1])
    if kind in ("float", "double", "uuid"):
        if item[0] == "unread":
            raise CrashedError("an array with NaN or an infinity")
        return bytes(item[-1])
    if kind in ("list", "map"):
        items = item[1] if kind == "list" else [one for pair in item[1] for one in pair]
        content = b"".join(map(generate, items))
        return (len(content) + 4).to_bytes(4, "big") + len(items).to_bytes(4, "big") + content
    if item[0] == "as_is":
        raise CrashedError("an array of arrays whose elements have no bytes")
    content = _constructor(item[1]) + b"".join(_element(item[1], one) for one in item[2])
    return (len(content) + 4).to_bytes(4, "big") + len(item[2]).to_bytes(4, "big") + content
