"""Captures of network traffic, built by hand."""

from __future__ import annotations

import io
import ipaddress
import struct
from typing import Any

import attrs

from amqp10msg import Described, UInt, encode_value
from amqp10msg.files import Record
from amqp10msg.files.capture import read_capture

HEADER = b"AMQP\x00\x01\x00\x00"
OLD_HEADER = b"AMQP\x00\x00\x09\x01"
CLIENT, SERVER = "10.0.0.1", "10.0.0.2"


def frame(performative: Described | None, payload: bytes = b"", channel: int = 0) -> bytes:
    body = b"" if performative is None else encode_value(performative)
    size = 8 + len(body) + len(payload)
    return struct.pack(">IBBH", size, 2, 0, channel) + body + payload


def attach(handle: int, target: str | None, source: str | None = None) -> bytes:
    def terminus(code: int, address: str | None) -> Described:
        return Described(_ulong(code), [address])

    fields = ["link", UInt(handle), False, None, None, terminus(0x28, source)]
    return frame(Described(_ulong(0x12), [*fields, terminus(0x29, target)]))


def transfer(
    handle: int,
    payload: bytes,
    delivery_id: int | None = None,
    *,
    more: bool = False,
    aborted: bool = False,
    message_format: int = 0,
    channel: int = 0,
) -> bytes:
    first = delivery_id is not None
    fields = [
        UInt(handle),
        UInt(delivery_id) if delivery_id is not None else None,
        b"tag%d" % delivery_id if delivery_id is not None else None,
        UInt(message_format) if first else None,
        False,
        more,
        *(None, None, None),
        aborted,
    ]
    return frame(Described(_ulong(0x14), fields), payload, channel)


def _ulong(code: int) -> Any:
    from amqp10msg import ULong  # noqa: PLC0415

    return ULong(code)


def old_frame(kind: int, payload: bytes, channel: int = 1) -> bytes:
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + b"\xce"


def short(text: str) -> bytes:
    return bytes([len(text)]) + text.encode()


PUBLISH = struct.pack(">HHH", 60, 40, 0) + short("ex") + short("key") + b"\0"
DELIVER = struct.pack(">HH", 60, 60) + short("tag") + bytes(9) + short("ex") + short("key")
GET_OK = struct.pack(">HH", 60, 71) + bytes(9) + short("ex") + short("key") + bytes(4)
RETURN = struct.pack(">HHH", 60, 50, 312) + short("NO_ROUTE") + short("ex") + short("key")


def content(method: bytes, body: bytes, pieces: int = 1) -> bytes:
    header = struct.pack(">HHQH", 60, 0, len(body), 0)
    step = -(-len(body) // pieces) or 1
    bodies = b"".join(old_frame(3, body[i : i + step]) for i in range(0, len(body), step))
    return old_frame(1, method) + old_frame(2, header) + bodies


@attrs.frozen
class Piece:
    sequence: int
    data: bytes
    flags: int = 0x10
    back: bool = False  # from the server


def packet(piece: Piece, version: int = 4) -> bytes:
    """An Ethernet frame with IP and TCP."""
    ends = [(CLIENT, 50000), (SERVER, 5672)]
    (a, b) = ends[::-1] if piece.back else ends
    if version == 6:
        ends6 = [("fd00::1", 50000), ("fd00::2", 5672)]
        (a, b) = ends6[::-1] if piece.back else ends6
    sequence = piece.sequence & 0xFFFFFFFF
    tcp = struct.pack(">HHIIBBHHH", a[1], b[1], sequence, 0, 5 << 4, piece.flags, 0, 0, 0)
    tcp += piece.data
    source, target = (ipaddress.ip_address(end[0]).packed for end in (a, b))
    if version == 4:
        ip = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(tcp), 0, 0, 64, 6, 0) + source + target
        return bytes(12) + b"\x08\x00" + ip + tcp
    ip = struct.pack(">IHBB", 6 << 28, len(tcp), 6, 64) + source + target
    return bytes(12) + b"\x86\xdd" + ip + tcp


def pcap(packets: list[bytes], order: str = "<", nano: bool = False, link: int = 1) -> bytes:
    magic = 0xA1B23C4D if nano else 0xA1B2C3D4
    out = struct.pack(f"{order}IHHiIII", magic, 2, 4, 0, 0, 65535, link)
    for i, data in enumerate(packets):
        fraction = 5_000 if nano else 5
        out += struct.pack(f"{order}IIII", 100 + i, fraction, len(data), len(data)) + data
    return out


def block(kind: int, body: bytes, order: str = "<") -> bytes:
    body += bytes(-len(body) % 4)
    size = struct.pack(f"{order}I", len(body) + 12)
    return struct.pack(f"{order}I", kind) + size + body + size


def pcapng(packets: list[bytes], order: str = "<") -> bytes:
    magic = struct.pack(f"{order}IHHq", 0x1A2B3C4D, 1, 0, -1)
    out = block(0x0A0D0D0A, magic, order)
    # if_tsresol 9: nanoseconds
    options = struct.pack(f"{order}HHB3xHH", 9, 1, 9, 0, 0)
    out += block(1, struct.pack(f"{order}HHI", 1, 0, 0) + options, order)
    for i, data in enumerate(packets):
        time = (100 + i) * 1_000_000_000 + 5_000
        head = struct.pack(f"{order}IIIII", 0, time >> 32, time & 0xFFFFFFFF, len(data), len(data))
        out += block(6, head + data, order)
    return out


def cut(octets: bytes, sizes: list[int], start: int = 1) -> list[Piece]:
    """One stream as segments of these sizes, again and again, behind the one that opens it."""
    pieces, at = [Piece(start - 1, b"", 0x02)], 0
    while at < len(octets):
        size = sizes[len(pieces) % len(sizes)]
        pieces.append(Piece(start + at, octets[at : at + size]))
        at += size
    return pieces


def read(octets: bytes, **options: Any) -> list[Record]:
    return list(read_capture(io.BytesIO(octets), **options))


def of_pieces(pieces: list[Piece]) -> list[Record]:
    return read(pcap([packet(piece) for piece in pieces]))


BODIES = [b"one", b"two" * 50, b"", b"three" * 200]


def stream_of(bodies: list[bytes], pieces: int = 1) -> bytes:
    out = HEADER + frame(None) + attach(0, "q")
    for number, body in enumerate(bodies):
        step = -(-len(body) // pieces) or 1
        parts = [body[i : i + step] for i in range(0, len(body), step)] or [b""]
        for index, part in enumerate(parts):
            more = index < len(parts) - 1
            out += transfer(0, part, number if index == 0 else None, more=more)
    return out
