"""Packets from pcap and pcapng files.

https://datatracker.ietf.org/doc/draft-ietf-opsawg-pcap/ and …/draft-ietf-opsawg-pcapng/
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import IO

import attrs

from amqp10msg.files._record import Record
from amqp10msg.files.recognition import PCAP, PCAPNG

# Types of blocks in pcapng, and options of an interface.
_INTERFACE, _SIMPLE_PACKET, _ENHANCED_PACKET = 1, 3, 6
_END_OF_OPTIONS, _TIME_RESOLUTION = 0, 9
# A packet is at most 256 kB in any capture; what says more is damaged.
_MAX_PACKET = 1 << 24
# The end of the year 9999, the last that a datetime can say, in microseconds since the Unix epoch.
_LAST_TIME = 253_402_300_799_999_999


@attrs.frozen
class Packet:
    """One packet as it was captured.

    Attributes:
        offset: where its header begins in the file, in bytes.
        time: when it was captured, in microseconds since the Unix epoch; None where unknown,
            and where that is after the year 9999.
        link: the type of the link layer, such as 1 for Ethernet.
        data: its bytes, which may be cut off.
    """

    offset: int
    time: int | None
    link: int
    data: bytes


def read_packets(stream: IO[bytes]) -> Iterator[Packet | Record]:
    """Yield the packets of a file, and a record with a fault for what is damaged."""
    head = stream.read(4)
    if head == PCAPNG:
        yield from _pcapng(stream)
    elif head in PCAP:
        yield from _pcap(stream, *PCAP[head])
    else:
        yield Record(0, head, "this is neither pcap nor pcapng")


def _pcap(stream: IO[bytes], order: str, ticks: int) -> Iterator[Packet | Record]:
    """Read a pcap file after its magic number; `ticks` of its clock are a microsecond."""
    rest = stream.read(20)
    if len(rest) < 20:
        yield Record(0, rest, "the header of the capture is cut off", ends=True)
        return
    link = struct.unpack_from(f"{order}I", rest, 16)[0] & 0x0FFFFFFF
    header = struct.Struct(f"{order}IIII")
    offset = 24
    while head := stream.read(16):
        if len(head) < 16:
            yield Record(
                offset, head, "the capture is cut off in the header of a packet", ends=True
            )
            return
        seconds, fraction, size, _ = header.unpack(head)
        if size > _MAX_PACKET:
            fault = f"a packet of {size} bytes: the capture is damaged"
            yield Record(offset, head, fault, ends=True)
            return
        data = stream.read(size)
        if len(data) < size:
            yield Record(offset, data, "the capture is cut off in a packet", ends=True)
            return
        yield Packet(offset, seconds * 1_000_000 + fraction // ticks, link, data)
        offset += 16 + size


def _pcapng(stream: IO[bytes]) -> Iterator[Packet | Record]:
    offset, order = 0, "<"
    head = PCAPNG + stream.read(4)
    # Of each interface of a section: the link type and the ticks of its clock in a second.
    interfaces: list[tuple[int, int]] = []
    while head:
        if len(head) < 8:
            yield Record(offset, head, "the capture is cut off in the header of a block", ends=True)
            return
        begin = b""
        if head[:4] == PCAPNG:
            begin = stream.read(4)
            order = ">" if begin == b"\x1a\x2b\x3c\x4d" else "<"
            interfaces = []
        kind, size = struct.unpack(f"{order}II", head)
        if size < 12 or size % 4 or size > _MAX_PACKET:
            fault = f"a block of {size} bytes: the capture is damaged"
            yield Record(offset, head, fault, ends=True)
            return
        body = begin + stream.read(size - 8 - len(begin))
        if len(body) < size - 8:
            yield Record(offset, body, "the capture is cut off in a block", ends=True)
            return
        packet = _block(offset, order, kind, body[:-4], interfaces)
        if packet is not None:
            yield packet
        offset += size
        head = stream.read(8)


def _block(
    offset: int, order: str, kind: int, body: bytes, interfaces: list[tuple[int, int]]
) -> Packet | Record | None:
    """Read one block: None where it holds no packet."""
    if kind == _INTERFACE and len(body) >= 8:
        interfaces.append((struct.unpack_from(f"{order}H", body)[0], _ticks(order, body)))
    elif kind == _ENHANCED_PACKET and len(body) >= 20:
        number, high, low, size = struct.unpack_from(f"{order}IIII", body)
        if number >= len(interfaces) or size > len(body) - 20:
            return Record(offset, body, "a packet of an unknown interface, or cut off in its block")
        link, ticks = interfaces[number]
        time = (high << 32 | low) * 1_000_000 // ticks
        known = time if time <= _LAST_TIME else None
        return Packet(offset, known, link, body[20 : 20 + size])
    elif kind == _SIMPLE_PACKET and len(body) >= 4:
        size = min(struct.unpack_from(f"{order}I", body)[0], len(body) - 4)
        if not interfaces:
            return Record(offset, body, "a packet of an unknown interface")
        return Packet(offset, None, interfaces[0][0], body[4 : 4 + size])
    return None


def _ticks(order: str, body: bytes) -> int:
    """Find the option if_tsresol of an interface: ticks a second, 10^6 where it is not there."""
    at = 8
    while at + 4 <= len(body):
        code, size = struct.unpack_from(f"{order}HH", body, at)
        if code == _END_OF_OPTIONS:
            break
        if code == _TIME_RESOLUTION and size >= 1 and at + 4 < len(body):
            value = body[at + 4]
            return 1 << (value & 0x7F) if value & 0x80 else 10 ** min(value, 18)
        at += 4 + size + -size % 4
    return 1_000_000
