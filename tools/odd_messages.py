"""Random messages of both protocols, most of them usual but for one or two odd values."""

from __future__ import annotations

import math
import random
import struct
from collections.abc import Callable
from typing import Any, TypeAlias

import attrs

from amqp10msg.basic import (
    PROPERTIES,
    BasicMessage,
    BasicProperties,
    FieldArray,
    FieldTable,
    OddTrue,
    ScaledDecimal,
)
from amqp10msg.wire.primitives import Float

__all__ = [
    "NULL",
    "Compound",
    "Octets",
    "Sections",
    "Value",
    "basic_message",
    "sections",
    "sized",
    "symbol",
    "written",
]

SIZES = [0, 1, 5, 253, 254, 255, 256, 257]
LONG = [*SIZES, 300, 4095, 4096, 4097]
URN = "urn:uuid:58b867b0-8151-1f56-1bd4-73229807fd60"
#: Names with a meaning in RabbitMQ.
KNOWN = [
    *("CC", "BCC", "x-cc", "x-bcc", "x-death", "x-opt-deaths", "x-exchange", "x-routing-key"),
    *("x-message-id", "x-correlation-id", "x-stream-offset", "x-stream-filter-value"),
    *("x-delivery-count", "x-acquired-count", "x-delay", "timestamp_in_ms", "x-opt-to"),
    *("x-first-death-queue", "x-last-death-reason", "x-opt-rabbitmq-received-time"),
    *(f"x-basic-{name}" for name in ("type", "delivery-mode", "priority", "expiration")),
    *(f"x-basic-{name}" for name in ("timestamp", "app-id", "message-id", "user-id", "foo")),
    *(f"x-amqp-1.0-{name}" for name in ("properties", "app-properties", "message-annotations")),
    *("x-amqp-1.0-footer", "x-basic-message-id-type", "x-basic-correlation-id", "x-opt-x-a"),
    *(f"x-opt-x-{name}" for name in ("death", "cc", "exchange", "basic-type", "opt-a", "delay")),
    *(f"x-opt-basic-{name}" for name in ("type", "app-id", "cluster-id", "delivery-mode")),
    *("x-opt-basic-priority", "x-opt-basic-content-type", "x-opt-basic-foo", "x-opt-delivery-time"),
]
ODD_NAMES = ["", "x-", "ü", "x-ü", "a\0b", "\udcff", "x-\udcff", "Ä" * 127, "X-a", *KNOWN]


def _name(chosen: random.Random, odd: float) -> str:
    if chosen.random() < odd:
        size = chosen.choice(SIZES)
        return chosen.choice(
            [*ODD_NAMES, *KNOWN, "k" * min(size, 255), "x-".ljust(size, "k")[:255]]
        )
    return chosen.choice(["a", "b", "tenant", "x-a", "x-b", "x-opt-c"])


# Messages of class basic.


def _text(chosen: random.Random, odd: float, longest: int) -> str:
    if chosen.random() >= odd:
        return chosen.choice(["", "a", "text/plain", "guest", "q/ü 1"])
    size = min(chosen.choice(LONG), longest)
    return chosen.choice(
        [
            "k" * size,
            "ü" * (size // 2),
            "a\0b",
            "\udcff",
            "a\udcffb"[:longest],
            "é",
            URN,
            "/queues/q",
        ]
    )


def _field(chosen: random.Random, odd: float, depth: int = 0) -> tuple[str, Any]:
    if chosen.random() >= odd:
        return chosen.choice(
            [
                ("S", "v"),
                ("I", 5),
                ("l", -1),
                ("t", True),
                ("d", 0.5),
                ("S", "ü"),
                ("T", 1700000000),
            ]
        )
    draws: list[Callable[[], tuple[str, Any]]] = [
        lambda: ("V", None),
        lambda: ("S", _text(chosen, 0.9, 5000)),
        lambda: ("x", chosen.choice([b"", b"a", b"\xff", b"k" * chosen.choice(LONG)])),
        lambda: ("D", ScaledDecimal(chosen.choice([0, 2, 255]), chosen.choice([0, -1, 314]))),
        lambda: ("t", chosen.choice([True, False, OddTrue(2)])),
        lambda: ("f", Float(chosen.choice([0.0, 1.5, math.inf, math.nan]))),
        lambda: ("d", chosen.choice([0.0, -0.0, 1e308, math.inf, math.nan])),
        lambda: ("T", chosen.choice([0, 1, 2**33, 2**63 // 1000 + 1, 2**63, 2**64 - 1])),
        lambda: ("l", chosen.choice([2**63 - 1, -(2**63), 127, 128, -129])),
        lambda: ("L", chosen.choice([2**63 - 1, -1])),
        lambda: chosen.choice([("b", -1), ("B", 255), ("s", -2), ("u", 65535), ("i", 2**32 - 1)]),
        lambda: ("U", 5),
    ]
    if depth < 3:
        inner = depth + 1
        draws += 2 * [
            lambda: (
                "A",
                FieldArray.of(
                    [_field(chosen, odd, inner) for _ in range(chosen.choice([0, 1, 1, 2, 3]))]
                ),
            ),
            lambda: (
                "F",
                FieldTable.of(
                    [
                        (_name(chosen, odd), *_field(chosen, odd, inner))
                        for _ in range(chosen.choice([0, 1, 1, 2]))
                    ]
                ),
            ),
        ]
    return chosen.choice(draws)()


def _header(chosen: random.Random, odd: float) -> tuple[str, str, Any]:
    name = _name(chosen, odd)
    letter, value = _field(chosen, odd)
    if name.startswith("x-amqp-1.0") and chosen.random() < 0.8:
        octets = b"".join(map(written, sections(chosen, odd)))
        if chosen.random() < 0.7:
            octets = _any_section(chosen, odd)
        return name, "S", octets.decode("utf-8", "surrogateescape")
    if name in ("CC", "BCC") and chosen.random() < 0.8:
        routes = [("S", chosen.choice(["nowhere", "", "é"])) for _ in range(chosen.randrange(3))]
        return name, "A", FieldArray.of(routes)
    return name, letter, value


_EXPIRATIONS = ["600000", "0600000", "+600000", "4294967295", "4294967296", "99999999999"]
_ODD_EXPIRATIONS = [
    *("", "abc", "-1", " 5", "1.5", "315360000000", "315360000001", "0" * 40 + "600000"),
    *("0" * 249 + "600000", "+", "6_0", "\uff16", "+0600000", "600000\0", "9" * 50),
]


def _property(chosen: random.Random, odd: float, name: str) -> Any:
    is_odd = chosen.random() < odd
    if name == "headers":
        return FieldTable.of([_header(chosen, odd) for _ in range(chosen.choice([0, 1, 2, 3, 6]))])
    if name == "delivery_mode":
        return chosen.choice([0, 3, 255, 1]) if is_odd else chosen.choice([1, 2])
    if name == "priority":
        return chosen.choice([10, 255, 4]) if is_odd else chosen.choice([0, 4, 9])
    if name == "timestamp":
        odd_times = [0, 2**33, 2**63 // 1000, 2**63 // 1000 + 1, 2**63, 2**64 - 1]
        return chosen.choice(odd_times) if is_odd else 1700000000
    if name == "expiration":
        return chosen.choice(_ODD_EXPIRATIONS if is_odd else _EXPIRATIONS)
    if name == "type" and chosen.random() < 0.4:
        return "amqp-1.0"
    if name == "user_id" and not is_odd:
        return "guest"
    if name in ("message_id", "correlation_id") and chosen.random() < 0.5:
        return chosen.choice([URN, URN.upper(), URN[:-1], URN + "0", URN.replace("-", "g"), "ID:"])
    if name == "reply_to" and is_odd and chosen.random() < 0.3:
        return chosen.choice(["amq.rabbitmq.reply-to", "amq.rabbitmq.reply-to.x", "/queues/%zz"])
    return _text(chosen, odd, 255)


def basic_message(chosen: random.Random) -> BasicMessage:
    """Draw a message of class basic."""
    odd = chosen.choice([0, 0.1, 0.1, 0.3, 0.6])
    names = [row.name for row in PROPERTIES]
    given = {
        name: _property(chosen, odd, name)
        for name in names
        if chosen.random() < (0.7 if name == "headers" else 0.2)
    }
    body = b"b" * chosen.choice(SIZES)
    if given.get("type") == "amqp-1.0":
        drawn = _body(chosen, odd) if chosen.random() < 0.8 else sections(chosen, odd)
        body = b"".join(map(written, drawn)) if chosen.random() < 0.95 else b"\0\x53"
    return BasicMessage(BasicProperties(**given), body)


# Messages of AMQP 1.0, as sections.


@attrs.frozen
class Octets:
    """An encoded value that is no list, map or array of values."""

    octets: bytes


@attrs.frozen
class Compound:
    """A list (0xc0) or map (0xc1), with keys and values in turn."""

    code: int
    items: tuple[Octets | Compound, ...]


Value: TypeAlias = Octets | Compound
#: Codes of the descriptors and contents.
Sections: TypeAlias = tuple[tuple[bytes, Value], ...]
NULL = Octets(b"\x40")


def _encoded(value: Value) -> bytes:
    if isinstance(value, Octets):
        return value.octets
    content = b"".join(map(_encoded, value.items))
    if not content and value.code == 0xC0:
        return b"\x45"
    if len(content) > 254 or len(value.items) > 255:
        head = struct.pack(">BII", value.code + 0x10, len(content) + 4, len(value.items))
    else:
        head = bytes([value.code, len(content) + 1, len(value.items)])
    return head + content


def written(section: tuple[bytes, Value]) -> bytes:
    """Encode a section."""
    return b"\0" + section[0] + _encoded(section[1])


def sized(code: int, octets: bytes, wide: bool = False) -> Octets:
    """Encode a binary, string or symbol, of 0xa0, 0xa1 or 0xa3."""
    if len(octets) > 255 or wide:
        return Octets(bytes([code + 0x10]) + len(octets).to_bytes(4, "big") + octets)
    return Octets(bytes([code, len(octets)]) + octets)


def string(text: str) -> Octets:
    """Encode a string."""
    return sized(0xA1, text.encode())


def symbol(text: str) -> Octets:
    """Encode a symbol."""
    return sized(0xA3, text.encode())


_FIXED = [
    *("40", "41", "42", "43", "44", "45", "5600", "5601", "5000", "50ff", "51ff", "52ff", "53ff"),
    *("54ff", "55ff", "60ffff", "61fffe", "70ffffffff", "7000000005", "71ffffffff", "c10100"),
    *("80ffffffffffffffff", "800000000000000005", "810000000000000005", "818000000000000000"),
    *("723fc00000", "727fc00000", "72ff800000", "823ff8000000000000", "827ff8000000000000"),
    *("7300000061", "7432000001", "8431a0000000000001", "94" + 16 * "00", "98" + 16 * "5a"),
    *("830000018bcfe56800", "83ffffffffffffffff", "837fffffffffffffff", "8300000000000007cf"),
]
# A constructor, and what follows it in each element.
_ARRAYS = [
    *(("40", []), ("40", [""]), ("45", ["", ""]), ("54", ["05"]), ("53", ["05"]), ("56", ["01"])),
    *(("71", 2 * ["00000005"]), ("50", ["05"]), ("80", [16 * "f"]), ("73", ["00000061"])),
    *(("72", ["3fc00000"]), ("72", ["7fc00000"]), ("82", ["7ff8000000000000"])),
    *(("83", ["00000000000003e8"]), ("98", [32 * "5"]), ("74", ["32000001"])),
    *(("a0", ["0161"]), ("a1", ["0161", "0162"]), ("a3", ["0161"]), ("b0", ["0000000161"])),
    *(("b1", ["0000000161"]), ("b3", ["0000000161"]), ("d0", ["000000050000000140"])),
    *(("d1", ["000000080000000255055505"]), ("c0", ["020140"]), ("c1", ["0100"])),
    *(("e0", ["03015005"]), ("f0", ["00000009000000017100000005"]), ("005305a1", ["0161"])),
]


def _array(constructor: str, elements: list[str]) -> Octets:
    content = bytes.fromhex(constructor + "".join(elements))
    if len(elements) % 2:
        return Octets(struct.pack(">BBB", 0xE0, len(content) + 1, len(elements)) + content)
    return Octets(struct.pack(">BII", 0xF0, len(content) + 4, len(elements)) + content)


FIXED = [Octets(bytes.fromhex(one)) for one in _FIXED] + [_array(*one) for one in _ARRAYS]


def _simple(chosen: random.Random) -> Value:
    return chosen.choice(
        [string("v"), string("ü"), Octets(b"\x54\x05"), Octets(b"\x41"), Octets(b"\x55\xff"), NULL]
    )


def _value(chosen: random.Random, odd: float, depth: int = 0) -> Value:
    if chosen.random() >= odd:
        return _simple(chosen)
    kind = chosen.randrange(10)
    if kind < 5:
        return chosen.choice(FIXED)
    if kind < 8 or depth > 2:
        size = chosen.choice(LONG)
        code = chosen.choice([0xA0, 0xA1, 0xA3])
        octets = chosen.choice(
            [b"k" * size, b"k" * size, b"\xc3\xbc" if code != 0xA3 else b"s", b""]
        )
        return sized(code, b"\xff" if code == 0xA0 and size == 1 else octets, chosen.random() < 0.1)
    if kind == 8:
        items = [_value(chosen, odd, depth + 1) for _ in range(chosen.randrange(4))]
        return Compound(0xC0, tuple(items))
    pairs = []
    for _ in range(chosen.randrange(3)):
        key: Value = (
            string(_name(chosen, odd).encode("utf-8", "replace").decode())
            if chosen.random() < 0.5
            else symbol("s")
        )
        key = _value(chosen, odd, 3) if chosen.random() < odd / 2 else key
        pairs += [key, _value(chosen, odd, depth + 1)]
    return Compound(0xC1, tuple(pairs))


def _some(chosen: random.Random, odd: float, usual: list[str]) -> Value:
    if chosen.random() < odd:
        return _value(chosen, 1)
    return Octets(bytes.fromhex(chosen.choice(usual)))


def _fields(chosen: random.Random, odd: float, usual: list[list[str]]) -> Compound:
    items = [_some(chosen, odd, one) if chosen.random() < 0.3 else NULL for one in usual]
    if chosen.random() < odd / 4:
        items.append(NULL)
    while items and items[-1] == NULL and chosen.random() < 0.8:
        items.pop()
    return Compound(0xC0, tuple(items))


_HEADER = [
    ["41", "42", "5601", "5600"],
    ["5000", "5004", "5009", "50ff"],
    ["700fffffff", "70000927c0", "70ffffffff"],
    ["41", "42"],
    ["43", "5205", "7000000005"],
]
_TEXTS = [string(text).octets.hex() for text in ("", "a", "/queues/q", "/queues/a%20b", "k" * 255)]
_NAMES = [symbol(text).octets.hex() for text in ("", "text/plain", "utf-8", "k" * 255)]
#: What an id of RabbitMQ 4 begins with that it takes for a uuid, and may fail on.
URNS = [
    *(URN.upper(), URN[:-1], URN + "0", URN.replace("-", "g"), "urn:uuid:", "urn:uuid:" + 36 * "a"),
    *("urn:uuid:" + 35 * "0" + "g", URN.replace("-", ""), URN[:-1] + "-", "urn:uuid:" + 36 * "-"),
    *(
        URN[:-1] + "g",
        "urn:uuid:" + 18 * "\u00fc",
        "urn:",
        "ID:",
        "ID:AMQP_ULONG:5",
        "ID:AMQP_BINARY:FF",
    ),
]
_IDS = [
    *(string(text).octets.hex() for text in URNS),
    *(
        string("m").octets.hex(),
        string(URN).octets.hex(),
        "a002ffff",
        "44",
        "53ff",
        "98" + 16 * "5a",
    ),
    *(sized(0xA1, b"k" * size).octets.hex() for size in (255, 256, 257, 300)),
    sized(0xA0, b"k" * 256).octets.hex(),
]
_TIMES = [
    "830000018bcfe56800",
    "8300000000000007cf",
    "83ffffffffffffffff",
    "8300" + 6 * "00" + "00",
]
_PROPERTIES = [
    *(_IDS, ["a0056775657374"], _TEXTS, _TEXTS, _TEXTS, _IDS, _NAMES, _NAMES, _TIMES, _TIMES),
    *(_TEXTS, ["43", "5205"], _TEXTS),
]


def _entries(chosen: random.Random, odd: float, key_of: Callable[[str], Value]) -> Compound:
    pairs: dict[Value, Value] = {}
    for _ in range(chosen.choice([0, 1, 1, 2, 4])):
        key = key_of(_name(chosen, odd).encode("utf-8", "replace").decode())
        if chosen.random() < odd / 8:
            key = _value(chosen, 1)
        pairs[key] = _value(chosen, odd)
    items = [one for pair in pairs.items() for one in pair]
    if items and chosen.random() < odd / 16:
        items += items[:2]
    return Compound(0xC1, tuple(items))


def _annotations(chosen: random.Random, odd: float) -> Compound:
    def key_of(name: str) -> Value:
        if not name.startswith("x-") and chosen.random() > odd / 4:
            name = "x-opt-a"
        return symbol(name.encode("ascii", "replace").decode())

    return _entries(chosen, odd, key_of)


def _descriptor(chosen: random.Random, code: int, odd: float) -> bytes:
    if chosen.random() >= odd / 4:
        return bytes([0x53, code])
    names = [
        *("header:list", "delivery-annotations:map", "message-annotations:map"),
        *("properties:list", "application-properties:map", "data:binary"),
        *("amqp-sequence:list", "amqp-value:*", "footer:map"),
    ]
    wide = b"\x80" + code.to_bytes(8, "big")
    return chosen.choice([wide, symbol(f"amqp:{names[code - 0x70]}").octets])


def _content(chosen: random.Random, code: int, odd: float) -> Value:
    if chosen.random() < odd / 16:
        return _value(chosen, 1)
    if code == 0x70:
        return _fields(chosen, odd, _HEADER)
    if code == 0x73:
        return _fields(chosen, odd, _PROPERTIES)
    if code == 0x74:
        return _entries(chosen, odd, string)
    if code == 0x75:
        return sized(0xA0, b"b" * chosen.choice(SIZES), chosen.random() < odd / 4)
    if code == 0x76:
        items = [_value(chosen, odd) for _ in range(chosen.randrange(3))]
        return Compound(0xC0, tuple(items))
    return _value(chosen, max(odd, 0.5)) if code == 0x77 else _annotations(chosen, odd)


def _section(chosen: random.Random, code: int, odd: float) -> tuple[bytes, Value]:
    return _descriptor(chosen, code, odd), _content(chosen, code, odd)


def _any_section(chosen: random.Random, odd: float) -> bytes:
    return written(_section(chosen, chosen.choice([0x72, 0x73, 0x74, 0x78, 0x75]), odd))


def _body(chosen: random.Random, odd: float) -> Sections:
    if chosen.random() < odd / 2:
        codes = [chosen.choice([0x75, 0x76, 0x77]) for _ in range(chosen.randrange(4))]
    else:
        codes = chosen.choice([[0x75], [0x75], [0x75, 0x75], [0x76], [0x76, 0x76], [0x77], [0x77]])
    if chosen.random() < 0.15:
        codes = [*codes, 0x78]
    return tuple(_section(chosen, code, odd) for code in codes)


def sections(chosen: random.Random, odd: float | None = None) -> Sections:
    """Draw a message of AMQP 1.0."""
    odd = chosen.choice([0, 0.1, 0.1, 0.3, 0.6]) if odd is None else odd
    head = [
        code
        for code, share in ((0x70, 0.5), (0x71, 0.1), (0x72, 0.5), (0x73, 0.5), (0x74, 0.5))
        if chosen.random() < share
    ]
    if chosen.random() < odd / 8:
        chosen.shuffle(head)
    if head and chosen.random() < odd / 8:
        head.append(chosen.choice(head))
    body = _body(chosen, odd)
    if chosen.random() < odd / 16:
        body = (*body, _section(chosen, chosen.choice([0x70, 0x72, 0x73, 0x74]), odd))
    return (*(_section(chosen, code, odd) for code in head), *body)
