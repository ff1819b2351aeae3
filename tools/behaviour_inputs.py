"""The inputs of `behaviour`: fixed ones from files, and drawn ones from a seed and an index.

This module does not import the package, so drawn inputs have the same bytes in every tree, even if
the encoder, the corpus or hypothesis changes. Input `index` of a group is drawn independently of
the inputs before it, so a record of few inputs is a prefix of a record of many.
"""

from __future__ import annotations

import gzip
import json
import os
import random
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["DRAWN", "Input", "Inputs", "damaged"]

ROOT = Path(__file__).resolve().parents[1]
VECTORS = "AMQP10MSG_VECTORS"


@dataclass(frozen=True, slots=True)
class Input:
    """One input.

    Attributes:
        name: the id of a fixed input; empty for a drawn one.
        kind: ``amqp10`` for bytes of AMQP 1.0, ``basic`` for a message of 0-9-1 whose content
            header `data` is, ``table`` for a field table, ``filter`` for an encoded filter.
        data: the bytes.
        payload: the body of a 0-9-1 message.
        exchange: the exchange of a 0-9-1 message.
        routing_key: the routing key of a 0-9-1 message.
        redelivered: the flag of a 0-9-1 message.
        message: the encoded message to evaluate a filter on.
    """

    name: str
    kind: str
    data: bytes
    payload: bytes = b""
    exchange: str = ""
    routing_key: str = ""
    redelivered: bool = False
    message: bytes = b""

    def shown(self) -> str:
        """Return a text from which the input can be created without this tool."""
        made = f"{self.kind} {self.name}".strip() + f"\n  data: {self.data.hex()}"
        if self.kind == "basic":
            made += (
                f"\n  payload: {self.payload.hex()}\n  exchange: {self.exchange!r}, routing key: "
                f"{self.routing_key!r}, redelivered: {self.redelivered}"
            )
        if self.message:
            made += f"\n  message: {self.message.hex()}"
        return made


# Encoded values: each type in all widths, with the limits of its range.


def _sized(code: int, octets: bytes, wide: bool = False) -> bytes:
    """Encode a binary, string or symbol; `code` is the short one."""
    if wide or len(octets) > 255:
        return bytes([code + 0x10]) + struct.pack(">I", len(octets)) + octets
    return bytes([code, len(octets)]) + octets


def _compound(code: int, count: int, content: bytes, wide: bool = False) -> bytes:
    """Encode a list, map or array; `code` is the short one."""
    if wide or len(content) > 254 or count > 255:
        return bytes([code + 0x10]) + struct.pack(">II", len(content) + 4, count) + content
    return bytes([code, len(content) + 1, count]) + content


def _string(text: str, wide: bool = False) -> bytes:
    return _sized(0xA1, text.encode(), wide)


def _symbol(text: str, wide: bool = False) -> bytes:
    return _sized(0xA3, text.encode(), wide)


def _uint(number: int) -> bytes:
    if number == 0:
        return b"\x43"
    return bytes([0x52, number]) if number < 256 else b"\x70" + struct.pack(">I", number)


def _long(number: int) -> bytes:
    if -128 <= number < 128:
        return b"\x55" + struct.pack(">b", number)
    return b"\x81" + struct.pack(">q", number)


TEXTS = (
    *("", "a", "x", "ok", "hello", "orders", "tenant-7", "Zürich", "naïve", "日本語", "😀 emoji"),
    *("text/plain", "application/json", "utf-8", "gzip", "null", "true", "0", "-1", "1e5", "NaN"),
    *("2024-01-01T00:00:00Z", "/queues/q1", "/exchanges/amq.topic/a.b.c", "/queue/q 1", "/topic/t"),
    *("a\nb", "tab\tbed", 'quo"ted', "back\\slash", "nul\0byte", "\x7f", "\u2028", "\ufeff", "#"),
    *("18446744073709551615", "f47ac10b-58cc-4372-a567-0e02b2c3d479", "guest", "5000", "99999999"),
    *("n" * 40, "long " * 60, "ü" * 130, "x" * 255, "y" * 256),
)
SYMBOLS = (
    *("", "x", "a", "x-opt-to", "x-opt-partition-key", "x-opt-enqueued-time", "text/plain"),
    *("application/json", "gzip", "amqp:not-found", "x-opt-sequence-number", "x-opt-jms-msg-type"),
    *("s" * 60, "t" * 256),
)
UUIDS = (
    *(bytes(16), b"\xff" * 16, bytes(range(16))),
    bytes.fromhex("f47ac10b58cc4372a5670e02b2c3d479"),
)
DOUBLES = (
    *("0000000000000000", "8000000000000000", "3ff0000000000000", "3fb999999999999a"),
    *("7ff0000000000000", "fff0000000000000", "7ff8000000000000", "7ff8000000000001"),
    *("fff8000000000000", "7ff0000000000001", "7fefffffffffffff", "0000000000000001"),
    *("c0c81cd6e631f8a1", "4340000000000000", "4341c37937e08000"),
)
FLOATS = (
    *("00000000", "80000000", "3f800000", "3dcccccd", "7f800000", "ff800000", "7fc00000"),
    *("7fc00001", "ffc00000", "7f800001", "7f7fffff", "00000001", "4b800000"),
)
DECIMALS = {
    0x74: ("22500000", "b2500001", "78000000", "7c000000", "fc000001", "77f8967f", "00000000"),
    0x84: (
        *("31c0000000000005", "3180000000000096", "7800000000000000", "7c00000000000000"),
        *("fc00000000000007", "0000000000000000", "6c7386f26fc0ffff"),
    ),
    0x94: (
        *("30400000000000000000000000000005", "78000000000000000000000000000000"),
        *("7c000000000000000000000000000000", "00000000000000000000000000000000"),
    ),
}
MOMENTS = (
    *(0, 1, -1, 999, 1_000, 1_500_000_000_000, 1_700_000_000_123, 253402300799999),
    *(253402300800000, -62135596800000, -62135596800001, 2**63 - 1, -(2**63)),
)


def _numbers() -> Iterator[bytes]:
    for code, width, signed in (
        *((0x50, 1, False), (0x51, 1, True), (0x52, 1, False), (0x53, 1, False), (0x54, 1, True)),
        *((0x55, 1, True), (0x60, 2, False), (0x61, 2, True), (0x70, 4, False), (0x71, 4, True)),
        *((0x80, 8, False), (0x81, 8, True)),
    ):
        bits = 8 * width - signed
        low = -(1 << bits) if signed else 0
        for number in {0, 1, 7, 100, 127, low, low + 1, (1 << bits) - 1, (1 << bits) - 2}:
            if number < 1 << bits:
                yield bytes([code]) + number.to_bytes(width, "big", signed=signed)
    yield from (b"\x43", b"\x44")


# Sorted, because the order of a set varies.
SCALARS = {
    "null": (b"\x40",),
    "boolean": (b"\x41", b"\x42", b"\x56\x00", b"\x56\x01"),
    "number": tuple(sorted(_numbers())),
    "float": tuple(b"\x72" + bytes.fromhex(bits) for bits in FLOATS),
    "double": tuple(b"\x82" + bytes.fromhex(bits) for bits in DOUBLES),
    "decimal": tuple(
        bytes([code]) + bytes.fromhex(bits) for code, all_of in DECIMALS.items() for bits in all_of
    ),
    "char": tuple(b"\x73" + point.to_bytes(4, "big") for point in (0, 65, 252, 0x1F600, 0x10FFFF)),
    "timestamp": tuple(b"\x83" + struct.pack(">q", at) for at in MOMENTS),
    "uuid": tuple(b"\x98" + octets for octets in UUIDS),
    "binary": tuple(
        _sized(0xA0, octets, wide)
        for octets in (b"", b"\0", b"\xff\xfe", b"bytes", b'{"a": 1}', bytes(range(256)))
        for wide in (False, True)
    ),
    "string": tuple(_string(text, wide) for wide in (False, False, True) for text in TEXTS),
    "symbol": tuple(_symbol(text, wide) for wide in (False, False, True) for text in SYMBOLS),
}
SIMPLE = tuple(SCALARS.values())
# Common values of real messages.
USUAL = (
    *(_string(text) for text in TEXTS[:12]),
    *(b"\x41", b"\x42", b"\x40", b"\x54\x05", b"\x55\x2a", b"\x52\x07", b"\x53\x09"),
    b"\x71\x00\x01\x00\x00",
    b"\x81\x00\x00\x01\x00\x00\x00\x00\x00",
    b"\x83" + struct.pack(">q", 1_700_000_000_123),
    b"\x82" + struct.pack(">d", 0.1),
    b"\x98" + UUIDS[3],
    b"\xa0\x03\x00\x01\x02",
)
# The format codes of the elements of arrays, with their widths.
ELEMENTS = (
    *((0x40, 0), (0x41, 0), (0x43, 0), (0x44, 0), (0x45, 0), (0x50, 1), (0x51, 1), (0x56, 1)),
    *((0x52, 1), (0x53, 1), (0x54, 1), (0x55, 1), (0x60, 2), (0x61, 2), (0x70, 4), (0x71, 4)),
    *((0x72, 4), (0x74, 4), (0x80, 8), (0x81, 8), (0x82, 8), (0x83, 8), (0x84, 8), (0x94, 16)),
    (0x98, 16),
)


def _scalar(draw: random.Random) -> bytes:
    return draw.choice(draw.choice(SIMPLE))


def _array(draw: random.Random, depth: int) -> bytes:
    count = draw.choice((0, 1, 2, 3, 5))
    head = b"\x00" + draw.choice((b"\x53\x01", _symbol("d:x"), b"\x80" + bytes(8)))
    head = head * draw.choice((1, 2)) if draw.random() < 0.1 else b""
    way = draw.randrange(4)
    if way == 0:
        code, width = draw.choice(ELEMENTS)
        content = b"".join(
            bytes(width) if code == 0x56 or draw.random() < 0.3 else draw.randbytes(width)
            for _ in range(count)
        )
    elif way == 1:
        code = draw.choice((0xA1, 0xA3, 0xB1, 0xB3, 0xA0, 0xB0))
        texts = SYMBOLS[:8] if code & 0xF == 3 else TEXTS[:30]
        wide = bool(code & 0x10)
        content = b"".join(
            _sized(code & 0xEF, draw.choice(texts).encode(), wide)[1:] for _ in range(count)
        )
    elif way == 2 and depth > 0:
        code = draw.choice((0xC0, 0xD0))
        items = [(n := draw.randrange(3), _values(draw, n, depth - 1)) for _ in range(count)]
        items = [item for item in items if code == 0xD0 or len(item[1]) < 255]
        content = b"".join(_compound(0xC0, n, octets, code == 0xD0)[1:] for n, octets in items)
        count = len(items)
    else:
        code = 0x71
        content = b"".join(struct.pack(">i", draw.randrange(-5, 1000)) for _ in range(count))
    return _compound(0xE0, count, head + bytes([code]) + content, draw.random() < 0.2)


def _values(draw: random.Random, count: int, depth: int) -> bytes:
    return b"".join(_value(draw, depth) for _ in range(count))


def _value(draw: random.Random, depth: int) -> bytes:
    """Draw any value."""
    way = draw.random()
    if depth <= 0 or way < 0.6:
        return draw.choice(USUAL) if way < 0.3 else _scalar(draw)
    wide = draw.random() < 0.2
    if way < 0.72:
        count = draw.choice((0, 1, 2, 3, 6))
        if count == 0 and draw.random() < 0.5:
            return b"\x45"
        return _compound(0xC0, count, _values(draw, count, depth - 1), wide)
    if way < 0.84:
        return _map(draw, _any_key, depth - 1, draw.choice((0, 1, 2, 3)), wide)
    if way < 0.94:
        return _array(draw, depth - 1)
    descriptor = draw.choice((b"\x53\x01", b"\x44", _symbol("a:b"), b"\x80" + b"\xff" * 8))
    if draw.random() < 0.2:
        descriptor = _value(draw, depth - 1)
    return b"\x00" + descriptor + _value(draw, depth - 1)


def _any_key(draw: random.Random) -> bytes:
    return _scalar(draw) if draw.random() < 0.3 else _string(draw.choice(TEXTS))


ANNOTATIONS = (
    *("x-opt-to", "x-opt-partition-key", "x-opt-enqueued-time", "x-opt-sequence-number", "x-opt-a"),
    *("x-exchange", "x-routing-key", "x-cc", "x-basic-type", "x-basic-app-id", "x-stream-offset"),
    *("x-delivery-count", "x-first-death-queue", "x-opt-jms-msg-type", "x-opt-deaths", "plain"),
    *(
        "x-opt-scheduled-enqueue-time",
        "x-basic-delivery-mode",
        "x-basic-expiration",
        "x-opt-locale",
    ),
    *("x-last-death-reason", "x-opt-offset", "x-opt-partition-id"),
)
NAMES = (
    *("tenant", "region", "priority", "n", "a", "b", "k", "traceparent", "tracestate", "x-death"),
    *("content-type", "CC", "BCC", "x-match", "_AMQ_DUPL_ID", "cloudEvents:id", "JMSXGroupID", ""),
    *("ünïcode", "a.b", "A'b", 'q"t', "x-delivery-count", "x-stream-offset", "x-opt-to", "null"),
    *("header", "properties", "body", "n" * 128, "n" * 256),
)


def _annotation_key(draw: random.Random) -> bytes:
    way = draw.random()
    if way < 0.93:
        return _symbol(draw.choice(ANNOTATIONS), way < 0.05)
    if way < 0.97:
        return draw.choice((b"\x53\x05", b"\x44", b"\x80" + b"\xff" * 8))
    return _string("x-opt-text") if way < 0.98 else _symbol(draw.choice(SYMBOLS))


def _name(draw: random.Random) -> bytes:
    return _string(draw.choice(NAMES), draw.random() < 0.05)


def _map(
    draw: random.Random,
    key: Callable[[random.Random], bytes],
    depth: int,
    count: int,
    wide: bool = False,
) -> bytes:
    pairs: dict[bytes, bytes] = {}
    for _ in range(count):
        pairs[key(draw)] = _value(draw, depth)
    items = [part for pair in pairs.items() for part in pair]
    if items and draw.random() < 0.02:
        items += [items[0], _value(draw, 0)]  # a duplicate key
    return _compound(0xC1, len(items), b"".join(items), wide)


# Composites: usual values of each field, and allowed ones.
_BOOLEAN, _SMALL = (b"\x41", b"\x42", b"\x56\x01", b"\x56\x00"), (b"\x50\x00", b"\x50\x04")
_COUNTS = (b"\x43", b"\x52\x00", b"\x52\x05", b"\x70\x00\x00\x00\x00", b"\x70\xff\xff\xff\xff")
_STRINGS = tuple(_string(text) for text in TEXTS)
_SYMBOLS = tuple(_symbol(text) for text in SYMBOLS)
_IDS = (
    *_STRINGS[:12],
    *(b"\x44", b"\x53\x07", b"\x80" + b"\xff" * 8, b"\x98" + UUIDS[3], b"\x98" + UUIDS[0]),
    *(b"\xa0\x03\x01\x02\x03", b"\xa0\x00", _string("m-1", True)),
)
_BINARIES = SCALARS["binary"]
_MOMENTS = SCALARS["timestamp"]
HEADER = (_BOOLEAN, (*_SMALL, b"\x50\x09", b"\x50\xff"), _COUNTS, _BOOLEAN, _COUNTS)
PROPERTIES = (
    *(_IDS, (_sized(0xA0, b"guest"), *_BINARIES), _STRINGS, _STRINGS, _STRINGS, _IDS),
    *(_SYMBOLS, _SYMBOLS, _MOMENTS, _MOMENTS, _STRINGS, _COUNTS, _STRINGS),
)


def _fields(draw: random.Random, declared: Sequence[Sequence[bytes]], plain: bool) -> bytes:
    """Draw a list of declared fields: some null, some left out at the end."""
    count = draw.choice((0, len(declared), draw.randrange(len(declared) + 1)))
    fill = draw.choice((0.2, 0.5, 1.0))
    fields = [draw.choice(declared[i]) if draw.random() < fill else b"\x40" for i in range(count)]
    while plain and fields and fields[-1] == b"\x40":
        fields.pop()
    if not plain and draw.random() < 0.03:
        fields.append(_value(draw, 1))  # surplus, or of a wrong type
    if not fields and draw.random() < 0.8:
        return b"\x45"
    return _compound(0xC0, len(fields), b"".join(fields), not plain and draw.random() < 0.2)


SECTION_SYMBOLS = {
    0x70: "amqp:header:list",
    0x71: "amqp:delivery-annotations:map",
    0x72: "amqp:message-annotations:map",
    0x73: "amqp:properties:list",
    0x74: "amqp:application-properties:map",
    0x75: "amqp:data:binary",
    0x76: "amqp:amqp-sequence:list",
    0x77: "amqp:amqp-value:*",
    0x78: "amqp:footer:map",
}


def _section(draw: random.Random, code: int, value: bytes, plain: bool) -> bytes:
    way = 1.0 if plain else draw.random()
    if way < 0.05:
        return b"\x00\x80" + struct.pack(">Q", code) + value
    if way < 0.1:
        return b"\x00" + _symbol(SECTION_SYMBOLS.get(code, "x:unknown"), way < 0.06) + value
    return b"\x00\x53" + bytes([code]) + value


PAYLOADS = (
    *(b"", b"hello", b'{"n": 1, "s": "x"}', b"\xff\x00\x01", "ü 日本".encode(), b"0" * 300),
    *(bytes(range(256)) * 2, b"\x00\x53\x77\xa1\x02hi", b"line\nline"),
)


# Properties of real messages, in their smallest encodings.
_USUAL_HEADER = ((b"\x41", b"\x42"), (b"\x50\x04", b"\x50\x09"), (b"\x52\x05", b"\x70\0\0\xea\x60"))
_USUAL_IDS = (_string("m-1"), _string("f47ac10b-58cc-4372-a567-0e02b2c3d479"), b"\x53\x07")
_USUAL_MOMENTS = tuple(b"\x83" + struct.pack(">q", at * 1000) for at in (1_700_000_000, 1))
_USUAL_PROPERTIES = (
    *(_USUAL_IDS, (_sized(0xA0, b"guest"),), tuple(map(_string, ("/queues/q1", "orders")))),
    *((_string("created"),), (_string("replies"),), _USUAL_IDS),
    *(tuple(map(_symbol, ("text/plain", "application/json"))), (_symbol("gzip"), _symbol("utf-8"))),
    *(_USUAL_MOMENTS, _USUAL_MOMENTS, (_string("g-1"),), (b"\x52\x05",), (_string("g-2"),)),
)


def _usual(draw: random.Random) -> bytes:
    """Draw a message like those of real applications."""
    made = b""
    if draw.random() < 0.6:
        count = draw.randrange(1, 4)
        fields = [draw.choice(_USUAL_HEADER[i]) for i in range(count)]
        made += b"\0\x53\x70" + _compound(0xC0, count, b"".join(fields))
    if draw.random() < 0.3:
        pairs = [
            part
            for name in draw.sample(ANNOTATIONS[:5], draw.randrange(1, 3))
            for part in (_symbol(name), draw.choice(USUAL))
        ]
        made += b"\0\x53\x72" + _compound(0xC1, len(pairs), b"".join(pairs))
    if draw.random() < 0.85:
        fill = draw.choice((0.2, 0.5))
        fields = [
            draw.choice(some) if draw.random() < fill else b"\x40" for some in _USUAL_PROPERTIES
        ]
        if draw.random() < 0.7:
            fields[8] = b"\x40"  # absolute-expiry-time, which is rarely set
        while fields and fields[-1] == b"\x40":
            fields.pop()
        made += b"\0\x53\x73" + (
            _compound(0xC0, len(fields), b"".join(fields)) if fields else b"\x45"
        )
    if draw.random() < 0.7:
        pairs = [
            part
            for name in draw.sample(NAMES[:8], draw.randrange(1, 5))
            for part in (_string(name), draw.choice(USUAL))
        ]
        made += b"\0\x53\x74" + _compound(0xC1, len(pairs), b"".join(pairs))
    if draw.random() < 0.75:
        return made + b"\0\x53\x75" + _sized(0xA0, draw.choice(PAYLOADS))
    return made + b"\0\x53\x77" + draw.choice(USUAL)


def message(draw: random.Random) -> bytes:
    """Draw a message: usually like real ones, or any message that Part 3 allows."""
    if draw.random() < 0.5:
        return _usual(draw)
    plain = draw.random() < 0.3
    depth = draw.choice((0, 0, 1) if plain else (1, 2, 3))
    sections: list[bytes] = []

    def add(code: int, value: bytes) -> None:
        sections.append(_section(draw, code, value, plain))

    if draw.random() < 0.7:
        add(0x70, _fields(draw, HEADER, plain))
    if draw.random() < (0.05 if plain else 0.3):
        add(0x71, _map(draw, _annotation_key, depth, draw.choice((0, 1, 2)), not plain))
    if draw.random() < 0.5:
        add(0x72, _map(draw, _annotation_key, depth, draw.choice((0, 1, 2, 4))))
    if draw.random() < 0.8:
        add(0x73, _fields(draw, PROPERTIES, plain))
    if draw.random() < 0.7:
        # Only simple values are allowed here; a few drawn values violate that.
        inner = 0 if draw.random() < 0.95 else 1
        add(0x74, _map(draw, _name, inner, draw.choice((0, 1, 3, 6)), draw.random() < 0.1))
    kind = draw.random()
    if kind < 0.45:
        for _ in range(1 if plain else draw.choice((1, 1, 2, 3))):
            add(0x75, _sized(0xA0, draw.choice(PAYLOADS), not plain and draw.random() < 0.3))
    elif kind < 0.6:
        for _ in range(draw.choice((1, 1, 2))):
            count = draw.choice((0, 1, 3))
            add(0x76, _compound(0xC0, count, _values(draw, count, depth), draw.random() < 0.2))
    elif kind < 0.98:
        add(0x77, _value(draw, depth))
    if draw.random() < (0.05 if plain else 0.2):
        add(0x78, _map(draw, _annotation_key, depth, draw.choice((0, 1, 2))))
    if not plain and draw.random() < 0.06:
        _upset(draw, sections, depth)
    return b"".join(sections)


def _upset(draw: random.Random, sections: list[bytes], depth: int) -> None:
    """Violate a rule of Part 3: unknown, repeated or misplaced sections."""
    way = draw.randrange(4)
    if way == 0:
        unknown = _section(draw, 0x79, _value(draw, depth), plain=False)
        sections.insert(draw.randrange(len(sections) + 1), unknown)
    elif way == 1 and sections:
        sections.append(draw.choice(sections))
    elif way == 2:
        draw.shuffle(sections)
    else:
        sections.append(_value(draw, depth))


INTERESTING = bytes.fromhex("0040414345505356708083a0a1a3b1c0c1d0d1e0f0ff7f014d")
_WITH_SIZE = frozenset((0xA0, 0xA1, 0xA3, 0xC0, 0xC1, 0xE0))


def damaged(draw: random.Random, octets: bytes) -> bytes:
    """Return bytes with one to three faults: flipped bits, cuts, insertions, wrong sizes."""
    made = bytearray(octets or b"\0")
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        way = draw.randrange(8)
        at = draw.randrange(len(made))
        if way == 0:
            made[at] ^= 1 << draw.randrange(8)
        elif way == 1:
            made[at] = draw.choice(INTERESTING)
        elif way == 2:
            del made[at:]
        elif way == 3:
            made[at:at] = draw.randbytes(draw.choice((1, 1, 2, 8)))
        elif way == 4:
            del made[at : at + draw.choice((1, 1, 2, 5))]
        elif way == 5:
            stop = at + draw.choice((1, 3, 12))
            made[at:at] = made[at:stop]
        else:
            places = [i for i in range(len(made) - 1) if made[i] in _WITH_SIZE]
            if places:
                place = draw.choice(places) + draw.choice((1, 1, 2))
                if place < len(made):
                    made[place] = (made[place] + draw.choice((-1, 1, 5, 128))) % 256
        made = made or bytearray(b"\0")
    return bytes(made)


# Composites of Parts 2 to 4: descriptors, and the fields if there are any.
_OUTCOMES = (b"\x00\x53\x24\x45", b"\x00\x53\x25\x45", b"\x00\x53\x26\x45")
_EXPIRY = tuple(map(_symbol, ("link-detach", "session-end", "connection-close", "never", "later")))
_CAPABILITIES = (_symbol("queue"), b"\xe0\x0e\x02\xa3\x05queue\x05topic", *_SYMBOLS[:3])
_FILTERS = tuple(
    _compound(0xC1, 2, _symbol(name) + b"\x00" + _symbol(descriptor) + value)
    for name, descriptor, value in (
        ("selector", "apache.org:selector-filter:string", _string("n = 5")),
        ("sql", "amqp:sql-filter", _string("properties.subject = 'x'")),
        ("bad", "apache.org:selector-filter:string", _string("n = = 5")),
        ("no-local", "apache.org:no-local-filter:list", b"\x45"),
        ("offset", "rabbitmq:stream-offset-spec", _string("first")),
        ("topic", "apache.org:legacy-amqp-topic-binding:string", _string("a.*.#")),
        ("own", "x:own", b"\x53\x05"),
    )
)
_NODE = tuple(
    _compound(0xC1, 2, _symbol(name) + value)
    for name, value in (
        ("lifetime-policy", b"\x00\x53\x2b\x45"),
        ("supported-dist-modes", _symbol("copy")),
        ("x-own", b"\x41"),
    )
)
_TERMINUS = (_STRINGS, _COUNTS, _EXPIRY, _COUNTS, _BOOLEAN, _NODE)
COMPOSITES: tuple[tuple[int, tuple[Sequence[bytes], ...]], ...] = (
    (0x1D, (_SYMBOLS, _STRINGS, _NODE)),
    (0x23, (_COUNTS, (b"\x44", b"\x53\x05"))),
    (0x24, ()),
    (0x25, ((b"\x00\x53\x1d\xc0\x03\x01\xa3\x00",),)),
    (0x26, ()),
    (0x27, (_BOOLEAN, _BOOLEAN, _NODE)),
    (0x28, (*_TERMINUS, _EXPIRY, _FILTERS, _OUTCOMES, _CAPABILITIES, _CAPABILITIES)),
    (0x28, (*_TERMINUS, (_symbol("copy"), _symbol("move")), _FILTERS, _OUTCOMES, _CAPABILITIES)),
    (0x29, (*_TERMINUS, _CAPABILITIES)),
    (0x2B, ()),
    (0x2E, ()),
    (0x30, (_CAPABILITIES,)),
    (0x31, (_BINARIES,)),
    (0x32, (_BINARIES, _BOOLEAN)),
    (0x33, (_BINARIES,)),
    (0x34, (_BINARIES, _OUTCOMES)),
)


def composite(draw: random.Random) -> bytes:
    """Draw a delivery state, a terminus or a part of one."""
    code, declared = draw.choice(COMPOSITES)
    fields = _fields(draw, declared, draw.random() < 0.7) if declared else b"\x45"
    return b"\x00\x53" + bytes([code]) + fields


# AMQP 0-9-1.


def _shortstr(text: str | bytes) -> bytes:
    octets = (text.encode() if isinstance(text, str) else text)[:255]
    return bytes([len(octets)]) + octets


def _longstr(octets: bytes) -> bytes:
    return struct.pack(">I", len(octets)) + octets


def _table(entries: Sequence[tuple[str | bytes, bytes]]) -> bytes:
    return _longstr(b"".join(_shortstr(name) + field for name, field in entries))


FIELDS = (
    *(b"t\x01", b"t\x00", b"b\x05", b"b\x80", b"s\x7f\xff", b"I\x00\x00\x00\x07", b"V"),
    *(b"I\xff\xff\xff\xff", b"l" + bytes(7) + b"\x2a", b"l\x80" + bytes(7), b"T" + bytes(8)),
    *(b"T\x00\x00\x00\x00e\x53\xf1\x00", b"d\x3f\xb9\x99\x99\x99\x99\x99\x9a", b"f\x3f\x80\0\0"),
    *(b"S" + _longstr(text.encode()) for text in TEXTS),
)
USUAL_FIELDS = (
    *(b"t\x01", b"t\x00", b"b\x05", b"I\x00\x00\x00\x07", b"l" + bytes(7) + b"\x2a"),
    *(b"d\x3f\xb9\x99\x99\x99\x99\x99\x9a", b"T\x00\x00\x00\x00e\x53\xf1\x00"),
    *(b"S" + _longstr(text.encode()) for text in TEXTS[:12]),
)
ODD_FIELDS = (
    *(b"t\x02", b"B\xff", b"u\xff\xff", b"U\xff\xff", b"i\xff\xff\xff\xff", b"L" + b"\xff" * 8),
    *(
        b"D\x02\x00\x00\x00\x7d",
        b"D\xff\xff\xff\xff\xff",
        b"d\x7f\xf8" + bytes(6),
        b"f\x7f\xc0\0\1",
    ),
    *(b"x\x00\x00\x00\x02\xff\x00", b"x\x00\x00\x00\x02hi", b"S\x00\x00\x00\x02\xff\xfe"),
    *(
        b"T" + b"\xff" * 8,
        b"T\x00\x00\x00\xe7\x79\x05\x6d\x80",
        b"Z",
        b"F" + bytes(4),
        b"A" + bytes(4),
    ),
    b"S" + _longstr(b"long " * 2000),
)
HEADER_NAMES = (
    *("tenant", "retries", "x-own", "a", "b", "n", "traceparent", "x-cc", "CC", "BCC", "x-match"),
    *("content-type", "cloudEvents:id", "header", "properties", "x-opt-to", "ü", "A b", "1st", ""),
    *("x-delivery-count", "x-stream-offset", "x-acquired-count", "x-first-death-queue", "x-death"),
    *("x-amqp-1.0-properties", "x-amqp-1.0-app-properties", "x-amqp-1.0-message-annotations"),
    *("x-exchange", "x-routing-key", "x-basic-type", "x-stream-filter-value", "n" * 129, "m" * 255),
)


def _any_field(draw: random.Random, depth: int) -> bytes:
    way = draw.random()
    if depth > 0 and way < 0.15:
        return b"F" + _entries(draw, draw.randrange(4), depth - 1)
    if depth > 0 and way < 0.3:
        items = [_any_field(draw, depth - 1) for _ in range(draw.randrange(4))]
        return b"A" + _longstr(b"".join(items))
    return draw.choice(ODD_FIELDS) if way < 0.45 else draw.choice(FIELDS)


def _entries(draw: random.Random, count: int, depth: int) -> bytes:
    found = [(draw.choice(HEADER_NAMES), _any_field(draw, depth)) for _ in range(count)]
    return _table(found)


def _texts(*texts: str) -> bytes:
    return b"A" + _longstr(b"".join(b"S" + _longstr(text.encode()) for text in texts))


REASONS = ("expired", "rejected", "maxlen", "delivery_limit")


def _death(draw: random.Random) -> bytes:
    """Draw an entry of x-death, as RabbitMQ writes it."""
    keys = [draw.choice(("q1", "a.b", "")) for _ in range(draw.choice((1, 1, 2)))]
    at = struct.pack(">Q", draw.choice((0, 1_700_000_000, 1_795_390_061)))
    entries = [
        ("count", b"l" + struct.pack(">q", draw.choice((1, 2, 300)))),
        ("reason", b"S" + _longstr(draw.choice(REASONS).encode())),
        ("queue", b"S" + _longstr(draw.choice((b"q1", b"dead letters", "ü".encode())))),
        ("time", b"T" + at),
        ("exchange", b"S" + _longstr(draw.choice((b"", b"amq.direct")))),
        ("routing-keys", _texts(*keys)),
    ]
    if draw.random() < 0.2:
        entries.append(("original-expiration", b"S" + _longstr(b"5000")))
    if draw.random() < 0.1:
        draw.shuffle(entries)
    return b"F" + _table(entries)


def _headers(draw: random.Random, flavour: int) -> bytes:
    if flavour == 0:
        names = draw.sample(HEADER_NAMES[:7], draw.randrange(5))
        return _table([(name, draw.choice(USUAL_FIELDS)) for name in sorted(names)])
    if flavour == 1:
        found: list[tuple[str | bytes, bytes]] = []
        if draw.random() < 0.4:
            found.append(("CC", _texts(*draw.sample(("a", "b.c", "q 2"), draw.randrange(1, 3)))))
        if draw.random() < 0.3:
            items = draw.choice(USUAL_FIELDS) + draw.choice(USUAL_FIELDS)
            found.append(("a", b"A" + _longstr(items)))
        if draw.random() < 0.3:
            inner = [(name, draw.choice(USUAL_FIELDS)) for name in ("k", "l")]
            found.append(("nested", b"F" + _table(inner)))
        if draw.random() < 0.6:
            deaths = [_death(draw) for _ in range(draw.choice((1, 1, 2)))]
            found.append(("x-death", b"A" + _longstr(b"".join(deaths))))
            for which in ("first", "last"):
                for what, text in (("exchange", b""), ("queue", b"q1"), ("reason", b"expired")):
                    found.append((f"x-{which}-death-{what}", b"S" + _longstr(text)))
        if draw.random() < 0.2:
            found.append(("x-delivery-count", b"l" + bytes(7) + b"\x03"))
        if draw.random() < 0.1:
            found.append(("x-stream-offset", b"l" + bytes(6) + b"\x04\x03"))
        usual = draw.random() < 0.7
        found.append(
            (draw.choice(HEADER_NAMES[2:6]), draw.choice(USUAL_FIELDS if usual else FIELDS))
        )
        return _table(sorted(found, key=lambda one: one[0]))
    return _entries(draw, draw.choice((0, 1, 3, 6)), 2)


SHORT = (
    *("", "m-1", "orders", "guest", "application/json", "text/plain", "utf-8", "5000", "q1", "ü"),
    *("amqp-1.0", "f47ac10b-58cc-4372-a567-0e02b2c3d479", "n" * 255, "0", "007", "-1", "1.5"),
)
ODD_SHORT = (b"\xff\xfe", b"nul\0", b"\xed\xa0\x80", "n" * 255, "\x7f", "18446744073709551616")
_KINDS = "sshoosssstssss"
# Properties of published messages.
_USUAL_SHORT = {
    0: ("text/plain", "application/json"),
    1: ("utf-8", "gzip"),
    5: ("c-1", "f47ac10b-58cc-4372-a567-0e02b2c3d479"),
    6: ("replies", "amq.rabbitmq.reply-to"),
    7: ("5000", "0", "60000"),
    8: ("m-1", "f47ac10b-58cc-4372-a567-0e02b2c3d479"),
    10: ("created", "order.v1"),
    11: ("guest",),
    12: ("shop",),
    13: ("",),
}


def basic(draw: random.Random, number: int) -> Input:
    """Draw a message of class basic: a published, a delivered or an unusual one."""
    flavour = number % 4 % 3
    fill = draw.choice((0.1, 0.4, 1.0))
    flags, rest = 0, []
    for i, kind in enumerate(_KINDS):
        if draw.random() >= (0.7 if kind == "h" else fill):
            continue
        flags |= 0x8000 >> i
        if kind == "h":
            rest.append(_headers(draw, flavour))
        elif kind == "o":
            usual = (1, 2) if i == 3 else (0, 4, 9)
            octet = draw.choice(usual) if flavour < 2 else draw.choice((0, 1, 2, 9, 10, 255))
            rest.append(bytes([octet]))
        elif kind == "t":
            at = draw.choice((0, 1_700_000_000, 253402300800) if flavour else (1_700_000_000,))
            rest.append(struct.pack(">Q", at if draw.random() < 0.97 else 2**64 - 1))
        elif flavour == 2 and draw.random() < 0.3:
            rest.append(_shortstr(draw.choice(ODD_SHORT)))
        else:
            is_usual = flavour < 2 and draw.random() < 0.97
            rest.append(_shortstr(draw.choice(_USUAL_SHORT[i] if is_usual else SHORT)))
    if flavour < 2 and draw.random() < 0.9 and flags & 1 << 2:
        flags &= ~(1 << 2)  # the reserved property, which is last and hardly ever sent
        rest.pop()
    payload = draw.choice(PAYLOADS)
    size = len(payload) if draw.random() < 0.98 else draw.choice((0, 1, 2**40))
    header = struct.pack(">HHQH", 60, 0, size, flags) + b"".join(rest)
    if flavour == 2 and draw.random() < 0.5:
        header = damaged(draw, header)
    way = draw.random()
    exchange = "" if way < 0.4 else draw.choice(("amq.topic", "orders"))
    key = "" if way < 0.1 else draw.choice(("q1", "a.b.c", "orders.created"))
    if draw.random() < 0.1:
        exchange, key = (
            draw.choice(("ü", "e" * 127)),
            draw.choice(("key with space", "ü", "k" * 255)),
        )
    return Input("", "basic", header, payload, exchange, key, draw.random() < 0.2)


def _drawn_message(draw: random.Random, number: int) -> Input:
    made = message(draw)
    return Input("", "amqp10", damaged(draw, made) if number % 3 == 2 else made)


def _drawn_composite(draw: random.Random, number: int) -> Input:
    made = composite(draw)
    return Input("", "amqp10", damaged(draw, made) if number % 4 == 3 else made)


def _drawn_value(draw: random.Random, number: int) -> Input:
    made = _value(draw, draw.choice((1, 2, 4)))
    return Input("", "amqp10", damaged(draw, made) if number % 4 == 3 else made)


#: The drawn groups: the function that draws an input, and the inputs per drawn message.
DRAWN: dict[str, tuple[Callable[[random.Random, int], Input], float]] = {
    "messages": (_drawn_message, 1.0),
    "basics": (basic, 0.25),
    "composites": (_drawn_composite, 0.05),
    "values": (_drawn_value, 0.05),
}


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def _text(given: Any) -> str:
    """Return the exchange or key of a recording, with non-UTF-8 bytes as lone surrogates."""
    if isinstance(given, dict):
        return bytes.fromhex(given["hex"]).decode("utf-8", "surrogateescape")
    return given or ""


def _content_header(properties: bytes, payload: bytes) -> bytes:
    return struct.pack(">HHQ", 60, 0, len(payload)) + properties


def _of_basic(name: str, pair: Sequence[str], entry: dict[str, Any]) -> Input:
    properties, payload = map(bytes.fromhex, pair)
    header = _content_header(properties, payload)
    exchange, key = _text(entry.get("exchange")), _text(entry.get("key", entry.get("routing_key")))
    return Input(name, "basic", header, payload, exchange, key, bool(entry.get("again")))


def _of_recording(number: int, entry: dict[str, Any]) -> Iterator[Input]:
    """Yield the inputs in one line of a file of recordings."""
    name = f"{number}:{entry.get('id', '')}"
    if "filter" in entry:
        descriptor = entry["filter"]
        value = entry["value"]
        if isinstance(descriptor, str) and isinstance(value, str):
            data = b"\x00" + _symbol(descriptor) + _string(value)
            yield Input(name, "filter", data, message=bytes.fromhex(entry["message"]))
        return
    for key in ("raw", "message", "gives", "basic"):
        found = entry.get(key)
        if isinstance(found, list):
            yield _of_basic(f"{name}:{key}", found, entry)
        elif isinstance(found, str) and entry.get("protocol") == "0-9-1":
            octets, size = bytes.fromhex(found), entry["content_header"]
            exchange, routing_key = _text(entry.get("exchange")), _text(entry.get("routing_key"))
            yield Input(name, "basic", octets[:size], octets[size:], exchange, routing_key)
        elif isinstance(found, str):
            yield Input(f"{name}:{key}", "amqp10", bytes.fromhex(found))


def _of_case(entry: dict[str, Any]) -> Iterator[Input]:
    """Yield the inputs in a case of the corpus or of the folder of vectors."""
    name, kind = str(entry["id"]), entry["kind"]
    data = bytes.fromhex(entry["data"] if "data" in entry else entry["hex"])
    given = entry.get("given", {})
    if kind in {"field-table", "table"} or "table" in str(entry.get("decode_as", "")):
        yield Input(name, "table", data)
    elif kind == "basic-properties":
        yield Input(name, "basic", _content_header(data, b""), b"")
    elif kind == "filter" and isinstance(given.get("filter"), str):
        yield Input(name, "filter", bytes.fromhex(given["filter"]), message=data)
    elif kind == "translation" and "basic" in given:
        pair = given["basic"]
        if isinstance(pair, list):
            yield _of_basic(name, pair, given)
        else:
            header = _content_header(bytes.fromhex(pair), data)
            key = _text(given.get("routing_key"))
            yield Input(name, "basic", header, data, _text(given.get("exchange")), key)
    else:
        yield Input(name, "amqp10", data)


class Inputs:
    """All inputs, by group.

    Args:
        seed: the seed of the drawn inputs.
        drawn: the number of drawn messages.
        root: the tree with the files of the fixed inputs.
    """

    def __init__(self, seed: int, drawn: int, root: Path = ROOT) -> None:
        self.seed = seed
        self.drawn = drawn
        self.fixed: dict[str, list[Input]] = {}
        # Without folders, whose names may differ in the other tree.
        found = root.glob("amqp10msg/**/data/*.jsonl")
        for path in sorted(found, key=lambda path: (path.name, path.stat().st_size)):
            self._add_file(path)
        for path in sorted((root / "tests" / "vectors").glob("*.jsonl*")):
            self._add_file(path)
        folder = os.environ.get(VECTORS)
        for path in sorted(Path(folder).glob("*.jsonl*")) if folder else ():
            self._add_file(path, "vectors")
        self.counts = {name: int(drawn * share) for name, (_, share) in DRAWN.items()}
        self.counts |= {name: len(found) for name, found in self.fixed.items()}

    def _add_file(self, path: Path, where: str = "") -> None:
        found: list[Input] = []
        for number, entry in enumerate(_lines(path)):
            is_case = "kind" in entry and ("data" in entry or "hex" in entry)
            found += _of_case(entry) if is_case else _of_recording(number, entry)
        stem = path.name.partition(".")[0]
        kind = where or ("recorded" if path.parent.name == "vectors" else "data")
        name = f"{kind}/{stem}"
        while name in self.fixed:
            name += "+"
        self.fixed[name] = found

    def __getitem__(self, place: tuple[str, int]) -> Input:
        """Return one input of a group.

        Raises:
            KeyError: the group does not exist.
            IndexError: a fixed group has no input with this index.
        """
        group, number = place
        if group in self.fixed:
            return self.fixed[group][number]
        draws, _ = DRAWN[group]
        which = list(DRAWN).index(group)
        return draws(random.Random((self.seed << 44) + (which << 40) + number), number)
