"""The messages every figure measures, assembled by hand.

No codec is involved: the bytes are written with ``bytes`` and ``struct`` from the encodings of
Part 1, so that the library and its peers start from neutral input. ``EVERY_FIELD`` has the values
of the same message; tests compare every decoder with it.

Operations after decoding are measured on three messages. The ordinary message of 510 bytes is like
the reference message: a header, two message annotations, six properties, five application
properties of four types and a data body of 256 bytes. The general message has application
properties of twelve types, as other clients send them. The tiny message is only a body, a short
string, which shows the fixed costs.

The reference message is 500 bytes: a header with all five fields, two message annotations, six
properties, five application properties of mixed types and a data body of 256 bytes. Every value
has its smallest encoding, so an encoder can produce the same 500 bytes from the values.
"""

from __future__ import annotations

import struct
from typing import Any, Final

MIB: Final = 1024 * 1024

BODY: Final = bytes(range(256))

EVERY_FIELD: Final[tuple[Any, ...]] = (
    # header
    True,
    7,
    60_000,
    True,
    3,
    # properties, all thirteen in wire order
    "msg-00417",
    None,
    "orders",
    "created",
    None,
    "c-000417",
    "application/json",
    None,
    None,
    1_700_000_000_000,
    None,
    None,
    None,
    # delivery annotations, then the message annotations one by one
    None,
    1_700_000_000_123,
    8_589_934_593,
    # application properties one by one
    "acme",
    70_000,
    5_000_000_000,
    False,
    0.1,
    # body
    BODY,
)
"""What reading every field of the reference message must give, in the order of reading.

Each library's timed reader returns this tuple in its own types; `plain` turns it into this one.
"""


def _string(text: str) -> bytes:
    octets = text.encode()
    return bytes((0xA1, len(octets))) + octets


def _symbol(text: str) -> bytes:
    octets = text.encode("ascii")
    return bytes((0xA3, len(octets))) + octets


def _long(value: int) -> bytes:
    if -128 <= value <= 127:
        return b"\x55" + struct.pack(">b", value)
    return b"\x81" + struct.pack(">q", value)


def _compound8(code: int, items: list[bytes]) -> bytes:
    octets = b"".join(items)
    return bytes((code, len(octets) + 1, len(items))) + octets


def _compound32(code: int, items: list[bytes]) -> bytes:
    octets = b"".join(items)
    return struct.pack(">BII", code, len(octets) + 4, len(items)) + octets


def _section(code: int, value: bytes) -> bytes:
    return bytes((0x00, 0x53, code)) + value


def _header(delivery_count: int) -> bytes:
    fields = [
        b"\x41",  # durable: true
        b"\x50\x07",  # priority: ubyte 7
        b"\x70" + struct.pack(">I", 60_000),  # ttl: uint, milliseconds
        b"\x41",  # first-acquirer: true
        bytes((0x52, delivery_count)),  # delivery-count: smalluint
    ]
    return _section(0x70, _compound8(0xC0, fields))


def data_section(body: bytes) -> bytes:
    """Return a data section with `body` in the smallest encoding."""
    if len(body) < 256:
        return _section(0x75, bytes((0xA0, len(body))) + body)
    return _section(0x75, b"\xb0" + struct.pack(">I", len(body)) + body)


def _reference() -> tuple[bytes, bytes]:
    """The reference message, and the same with delivery-count 4 in its header."""
    annotations = _compound8(
        0xC1,
        [
            _symbol("x-opt-enqueued-time"),
            b"\x83" + struct.pack(">q", 1_700_000_000_123),  # timestamp
            _symbol("x-opt-sequence-number"),
            _long(8_589_934_593),
        ],
    )
    null = b"\x40"
    properties = _compound8(
        0xC0,
        [
            _string("msg-00417"),
            null,  # user-id
            _string("orders"),
            _string("created"),
            null,  # reply-to
            _string("c-000417"),
            _symbol("application/json"),
            null,  # content-encoding
            null,  # absolute-expiry-time
            b"\x83" + struct.pack(">q", 1_700_000_000_000),  # creation-time
        ],
    )
    application = _compound8(
        0xC1,
        [
            _string("tenant"),
            _string("acme"),
            _string("attempt"),
            b"\x71" + struct.pack(">i", 70_000),  # int
            _string("offset"),
            _long(5_000_000_000),
            _string("replay"),
            b"\x42",  # false
            _string("ratio"),
            b"\x82" + struct.pack(">d", 0.1),  # double
        ],
    )
    rest = (
        _section(0x72, annotations)
        + _section(0x73, properties)
        + _section(0x74, application)
        + data_section(BODY)
    )
    return _header(3) + rest, _header(4) + rest


REFERENCE, RELAYED = _reference()
"""REFERENCE: the 500-byte message. RELAYED: the same with delivery-count 4, else unchanged."""


def _ordinary(body: bytes, time_key: str = "x-opt-enqueued-time") -> bytes:
    """Return the ordinary message with another body, or another key of its first annotation."""
    header = [b"\x41", b"\x50\x07", b"\x70" + struct.pack(">I", 60_000)]
    annotations = [
        _symbol(time_key),
        b"\x83" + struct.pack(">q", 1_700_000_000_123),
        _symbol("x-opt-sequence-number"),
        _long(8_589_934_593),
    ]
    null = b"\x40"
    properties = [
        _string("msg-00417"),
        null,  # user-id
        _string("orders.eu"),
        _string("created"),
        null,  # reply-to
        _string("c-000417"),
        _symbol("application/json"),
        null,  # content-encoding
        null,  # absolute-expiry-time
        b"\x83" + struct.pack(">q", 1_700_000_000_000),  # creation-time
    ]
    application = [
        _string("tenant"),
        _string("acme-corp"),
        _string("region"),
        _string("eu-west-1"),
        _string("offset"),
        _long(5_000_000_000),
        _string("replay"),
        b"\x42",  # false
        _string("ratio"),
        b"\x82" + struct.pack(">d", 0.1),  # double
    ]
    return (
        _section(0x70, _compound8(0xC0, header))
        + _section(0x72, _compound8(0xC1, annotations))
        + _section(0x73, _compound8(0xC0, properties))
        + _section(0x74, _compound8(0xC1, application))
        + body
    )


ORDINARY: Final = _ordinary(data_section(BODY))
"""The ordinary message, with one data section."""
ORDINARY_BROKEN: Final = _ordinary(_section(0x77, _string("created")), "enqueued-time")
"""The ordinary message with two violations: a reserved annotation key, and a content-type although
the body is not data."""
TINY: Final = _section(0x77, _string("hello"))
"""A message that has only a body, a short string."""


def _general(body: bytes) -> bytes:
    """Return a message with all usual sections, and properties of twelve types."""
    header = [b"\x41", b"\x50\x05", b"\x70" + struct.pack(">I", 60_000)]
    annotations = [
        _symbol("x-opt-enqueued-time"),
        b"\x83" + struct.pack(">q", 1_700_000_000_123),
        _symbol("x-opt-sequence-number"),
        _long(8_589_934_593),
        _symbol("x-opt-partition-key"),
        _string("p-7"),
    ]
    properties = [
        _string("msg-00417"),
        b"\xa0\x05guest",
        _string("orders"),
        _string("created"),
        _string("replies"),
        _string("c-000417"),
        _symbol("application/json"),
        _symbol("gzip"),
        b"\x40",  # absolute-expiry-time
        b"\x83" + struct.pack(">q", 1_700_000_000_000),
        _string("g-1"),
        b"\x52\x03",  # group-sequence: smalluint
    ]
    application = {
        "tenant": _string("acme"),
        "attempt": b"\x71" + struct.pack(">i", 70_000),
        "size": b"\x70" + struct.pack(">I", 70_000),
        "lane": b"\x50\x03",  # ubyte
        "delta": b"\x61" + struct.pack(">h", -3),  # short
        "offset": _long(5_000_000_000),
        "replay": b"\x42",  # false
        "ratio": b"\x82" + struct.pack(">d", 0.1),
        "weight": b"\x72" + struct.pack(">f", 1.5),
        "at": b"\x83" + struct.pack(">q", 1_700_000_000_000),
        "region": _symbol("eu-west-1"),
        "signature": b"\xa0\x04\x00\x01\x02\xff",
    }
    entries = [octets for name, value in application.items() for octets in (_string(name), value)]
    return (
        _section(0x70, _compound8(0xC0, header))
        + _section(0x72, _compound8(0xC1, annotations))
        + _section(0x73, _compound8(0xC0, properties))
        + _section(0x74, _compound8(0xC1, entries))
        + body
    )


GENERAL: Final = _general(data_section(BODY))
"""A message of many types, with one data section."""
GENERAL_VALUE: Final = _general(
    _section(
        0x77,
        _compound8(0xC1, [_string("id"), _long(417), _string("tags"), _compound8(0xC0, [b"\x41"])]),
    )
)
"""The same, with a map in an amqp-value section."""


def large(mebibytes: int) -> bytes:
    """Return a message of one data section with a body of this many MiB."""
    return data_section(b"\xa5" * (mebibytes * MIB))


MAP_ENTRIES: Final = 10_000


def map_content(entries: int = MAP_ENTRIES) -> dict[str, int]:
    """Return a dict of strings to longs: alternating small and eight-byte ones, some negative."""
    return {
        f"key-{number:05d}": (number % 256 - 128 if number % 2 else number * -1_000_003)
        for number in range(entries)
    }


def map_message(content: dict[str, int]) -> bytes:
    """Return a message of one amqp-value section with `content` as a map32."""
    items: list[bytes] = []
    for key, value in content.items():
        items += (_string(key), _long(value))
    return _section(0x77, _compound32(0xD1, items))
