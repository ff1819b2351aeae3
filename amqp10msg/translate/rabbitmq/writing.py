"""1.0 values out, as RabbitMQ 4 writes them."""

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
_REALS = {"double": b"\x82", "float": b"\x72"}
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
    written = []
    try:
        terms = CODEC_40.parse_all(sections)
        for term in terms:
            name = section_name(term[1]) if kind_of(term) == "described" else None
            if name in BODY_CODES:
                written.append(section(BODY_CODES[name], term[2]))
            else:
                written.append(generate(term))
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
    return b"".join(written)


def section(code: int, content: Term) -> bytes:
    """Write a section."""
    return b"\x00\x53" + bytes([code]) + generate(content)


def generate(term: Term, level: int = 0) -> bytes:
    """Write a term as RabbitMQ 4 does, at a level of nesting.

    Raises:
        CrashedError: the broker's generator has no clause for it.
        RecursionError: it nests deeper than any message.
    """
    if term is None:
        return b"\x40"
    if term is True or term is False:
        return b"\x41" if term else b"\x42"
    kind = term[0]
    if kind in _VARIABLE:
        return _octets(_VARIABLE[kind], term[1])
    if kind in _NUMBERS:
        return _number(kind, term[1])
    if kind in _REALS:
        return _REALS[kind] + bytes(term[1])
    if kind == "boolean":
        return b"\x56\x01" if term[1] else b"\x56\x00"
    if kind == "uuid":
        if len(term[1]) < 16:
            raise CrashedError("a uuid of fewer than 16 bytes")
        return b"\x98" + bytes(term[1][:16])
    if kind == "as_is":
        return bytes([term[1]]) + bytes(term[2])
    check_level(level)
    level += 1
    if kind == "described":
        return b"\x00" + generate(term[1], level) + generate(term[2], level)
    if kind == "array":
        elements = [_element(term[1], item, level) for item in term[2]]
        return _sized(0xE0, len(elements), _constructor(term[1], level) + b"".join(elements))
    if kind not in ("list", "map"):
        raise CrashedError(f"the generator has no clause for {kind}")
    items = term[1] if kind == "list" else [one for pair in term[1] for one in pair]
    if kind == "list" and not items:
        return b"\x45"
    parts = []
    for item in items:  # without a frame of its own for each level
        parts.append(generate(item, level))  # noqa: PERF401
    return _sized(0xC0 if kind == "list" else 0xC1, len(parts), b"".join(parts))


def _octets(code: int, octets: bytes) -> bytes:
    """Write a text or bytes."""
    size = len(octets)
    if size < 256:
        return bytes([code, size]) + octets
    return bytes([code + 0x10]) + size.to_bytes(4, "big") + octets


def _number(kind: str, value: int) -> bytes:
    """Write a whole number, wrapped where it does not fit."""
    if value == 0 and kind in _ZERO:
        return bytes([_ZERO[kind]])
    short = _SHORT.get(kind)
    if short is not None and short[1] <= value <= short[2]:
        return bytes([short[0], value & 0xFF])
    code, width = _NUMBERS[kind]
    return bytes([code]) + _wrapped(value, width)


def _wrapped(value: int, width: int) -> bytes:
    """Return the low bytes, as Erlang's bit syntax does."""
    return (value & ((1 << 8 * width) - 1)).to_bytes(width, "big")


def _sized(code: int, count: int, content: bytes) -> bytes:
    """Put the head of a compound before its content; each item has a byte at least."""
    size = len(content)
    if size < 255 and count < 256:
        return bytes([code, size + 1, count]) + content
    return bytes([code + 0x10]) + (size + 4).to_bytes(4, "big") + count.to_bytes(4, "big") + content


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
        content = b"".join([generate(one, level + 1) for one in items])
        return (len(content) + 4).to_bytes(4, "big") + len(items).to_bytes(4, "big") + content
    if item[0] == "as_is":
        raise CrashedError("an array of arrays whose elements have no bytes")
    check_level(level)
    elements = [_element(item[1], one, level + 1) for one in item[2]]
    content = _constructor(item[1], level + 1) + b"".join(elements)
    return (len(content) + 4).to_bytes(4, "big") + len(item[2]).to_bytes(4, "big") + content
