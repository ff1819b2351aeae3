# cython: language_level=3, boundscheck=True, wraparound=True, annotation_typing=False
"""1.0 values out, as RabbitMQ 4 writes them.

Runs as it is, and compiled with the C types of `writing.pxd`.
"""

from __future__ import annotations

from typing import Any

from amqp10msg.translate.rabbitmq.reading import CODEC_40
from amqp10msg.translate.rabbitmq.terms import (
    BODY_CODES,
    CrashedError,
    Term,
    check_level,
    kind_of,
    section_name,
)
from amqp10msg.wire.kernel.twin import Output

# By type: the constructor and the bytes of a number, and its short form with its bounds.
_NUMBERS = {
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
_SHORT = {
    "uint": (0x52, 0, 255),
    "ulong": (0x53, 0, 255),
    "int": (0x54, -128, 127),
    "long": (0x55, -128, 127),
}
_2_63 = 2**63
_ZERO = {"uint": 0x43, "ulong": 0x44}
_VARIABLE = {"utf8": 0xA1, "symbol": 0xA3, "binary": 0xA0}
_CONSTRUCTORS = {
    **{name: code for name, (code, _) in _NUMBERS.items()},
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


def rewritten(sections: bytes) -> bytes | None:
    """Return encoded body sections as RabbitMQ 4.0 writes them again, in a stream for example.

    None where it cannot: it reads no arrays of constructors without octets, of compact ones and of
    some types, and cannot write what it carries unread: decimals, NaN and infinities. It takes
    described values for sections.
    """
    writer = TermWriter()
    try:
        terms = CODEC_40.parse_all(sections)
        for term in terms:
            name = section_name(term[1]) if kind_of(term) == "described" else None
            if name in BODY_CODES:
                writer.section(BODY_CODES[name], term[2])
            else:
                writer.term(term, 0)
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
    return writer.finish()


def generate(term: Term) -> bytes:
    """Write a term as RabbitMQ 4 does.

    Raises:
        CrashedError: the broker's generator has no clause for it.
        RecursionError: it nests deeper than any message.
    """
    writer = TermWriter()
    writer.term(term, 0)
    return writer.finish()


def _wrapped(value: int, width: int) -> bytes:
    """Return the low bytes, as Erlang's bit syntax does."""
    return (value & ((1 << 8 * width) - 1)).to_bytes(width, "big")


class TermWriter(Output):
    """Collects the encodings of terms."""

    def section(self, code: int, content: Term) -> None:
        """Write a section."""
        self.add(b"\x00\x53")
        self.octet(code)
        self.term(content, 0)

    def term(self, term: Term, level: int) -> None:
        """Write a term within so many others."""
        if term is None:
            self.octet(0x40)
            return
        if term is True or term is False:
            self.octet(0x41 if term else 0x42)
            return
        kind = term[0]
        short = _VARIABLE.get(kind)
        if short is not None:
            self.octets(short, term[1])
        elif kind in _NUMBERS:
            self.whole(kind, term[1])
        elif kind == "double":
            self.octet(0x82)
            self.add(bytes(term[1]))
        elif kind == "float":
            self.octet(0x72)
            self.add(bytes(term[1]))
        elif kind == "boolean":
            self.add(b"\x56\x01" if term[1] else b"\x56\x00")
        elif kind == "uuid":
            if len(term[1]) < 16:
                raise CrashedError("a uuid of fewer than 16 bytes")
            self.octet(0x98)
            self.add(bytes(term[1][:16]))
        elif kind == "as_is":
            self.octet(term[1])
            self.add(bytes(term[2]))
        else:
            check_level(level)
            self.compound(kind, term, level + 1)

    def octets(self, code: int, octets: bytes) -> None:
        """Write a text or bytes."""
        size = len(octets)
        if size < 256:
            self.pair(code, size)
        else:
            self.number(code + 0x10, 4, size)
        self.add(octets)

    def whole(self, kind: str, value: int) -> None:
        """Write a number, wrapped where it does not fit."""
        if value == 0 and kind in _ZERO:
            self.octet(_ZERO[kind])
            return
        short = _SHORT.get(kind)
        if short is not None and short[1] <= value <= short[2]:
            self.number(short[0], 1, value)
            return
        code, width = _NUMBERS[kind]
        if -_2_63 <= value < _2_63:
            self.number(code, width, value)
        else:
            self.octet(code)
            self.add(_wrapped(value, width))

    def compound(self, kind: str, term: Term, level: int) -> None:
        """Write a term that holds others."""
        if kind == "described":
            self.octet(0x00)
            self.term(term[1], level)
            self.term(term[2], level)
            return
        if kind == "list":
            items: list[Any] = term[1]
            if not items:
                self.octet(0x45)
                return
            mark = self.begin_compound()
            for item in items:
                self.term(item, level)
            self.end(mark, 0xC0, len(items))
        elif kind == "map":
            pairs: list[Any] = term[1]
            mark = self.begin_compound()
            for key, item in pairs:
                self.term(key, level)
                self.term(item, level)
            self.end(mark, 0xC1, 2 * len(pairs))
        elif kind == "array":
            mark = self.begin_compound()
            self.add(_constructor(term[1], level))
            for item in term[2]:
                self.add(_element(term[1], item, level))
            self.end(mark, 0xE0, len(term[2]))
        else:
            raise CrashedError(f"the generator has no clause for {kind}")

    def end(self, mark: int, code: int, count: int) -> None:
        """Write the head of a compound; each of its items has a byte at least."""
        if not self.end_compound(mark, code, count):
            raise OverflowError("a compound of more than 4 GiB")


def _constructor(kind: Term, level: int) -> bytes:
    if isinstance(kind, tuple):
        check_level(level)
        return b"\x00" + generate(kind[1]) + _constructor(kind[2], level + 1)
    return bytes([_CONSTRUCTORS[kind]])


def _element(kind: Term, item: Term, level: int) -> bytes:
    if isinstance(kind, tuple):
        check_level(level)
        return _element(kind[2], item[2], level + 1)
    if kind == "boolean":
        return b"\x01" if item in (True, ("boolean", True)) else b"\x00"
    if kind == "null":
        return b""
    if kind in _NUMBERS:
        return _wrapped(item[1], _NUMBERS[kind][1])
    if kind in ("utf8", "symbol", "binary"):
        return len(item[1]).to_bytes(4, "big") + bytes(item[1])
    if kind in ("float", "double", "uuid"):
        if item[0] in ("unread", "as_is"):
            raise CrashedError("an array with NaN or an infinity")
        return bytes(item[-1])
    if kind in ("list", "map"):
        items = item[1] if kind == "list" else [one for pair in item[1] for one in pair]
        check_level(level)
        inner = TermWriter()
        for one in items:
            inner.term(one, level + 1)
        content = inner.finish()
        return (len(content) + 4).to_bytes(4, "big") + len(items).to_bytes(4, "big") + content
    if item[0] == "as_is":
        raise CrashedError("an array of arrays whose elements have no bytes")
    check_level(level)
    elements = [_element(item[1], one, level + 1) for one in item[2]]
    content = _constructor(item[1], level + 1) + b"".join(elements)
    return (len(content) + 4).to_bytes(4, "big") + len(item[2]).to_bytes(4, "big") + content
