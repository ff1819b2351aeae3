"""Packets of pcap and pcapng files, TCP segments in them, and the bytes of a direction in order.

https://datatracker.ietf.org/doc/draft-ietf-opsawg-pcap/ and …/draft-ietf-opsawg-pcapng/
"""

from __future__ import annotations

import heapq
import ipaddress
import struct
from collections.abc import Iterator
from typing import IO

import attrs

from amqp10msg.files._record import Record
from amqp10msg.files.recognition import PCAP, PCAPNG

# Types of blocks in pcapng, and options of an interface.
_INTERFACE, _SIMPLE_PACKET, _ENHANCED_PACKET = 1, 3, 6
_END_OF_OPTIONS, _TIME_RESOLUTION = 0, 9
#: Types of link layers that are read: Ethernet, loopback, the interface "any" of Linux, bare IP.
LINKS = frozenset((0, 1, 12, 14, 101, 108, 113, 228, 229, 276))
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
        yield Record(0, head, "this is neither pcap nor pcapng", ends=True)


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
        seconds, fraction, size, original = header.unpack(head)
        if size > _MAX_PACKET or not (size or original):  # the latter: zeros after a crash
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


# Bytes and segments that are held while something before them is missing: of one direction of
# a connection, and of all together.
_MAX_HELD = 8 << 20
_MAX_SEGMENTS = 8_192
_MAX_ALL_HELD = 64 << 20
_MAX_ALL_SEGMENTS = 65_536
# The protocol number of TCP, and headers of IPv6 that another one follows.
_TCP = 6
# Of its header: ports, sequence number, the length of the header in its upper bits, and flags.
_TCP_HEAD = struct.Struct(">2s2sI4xBB6x")
_IPV6_EXTENSIONS = {0, 43, 60}
_HALF = 1 << 31
_MASK = (1 << 32) - 1


@attrs.frozen
class Segment:
    """One TCP segment.

    Attributes:
        sender: address and port, as bytes.
        receiver: the same of the other end.
        sequence: the sequence number of its first byte.
        data: its bytes.
        syn: it opens the connection.
        reset: it breaks the connection off.
    """

    sender: bytes
    receiver: bytes
    sequence: int
    data: bytes
    syn: bool
    reset: bool

    @property
    def connection(self) -> str:
        return f"{_shown(self.sender)} > {_shown(self.receiver)}"


def _shown(end: bytes) -> str:
    address = ipaddress.ip_address(end[:-2])
    port = int.from_bytes(end[-2:], "big")
    return f"[{address}]:{port}" if address.version == 6 else f"{address}:{port}"


def segment_of(packet: Packet) -> Segment | None:
    """Return the TCP segment of a packet; None where it has none, or a part of a fragmented one."""
    found = _network(packet)
    if found is None:
        return None
    sender, receiver, data = found
    if len(data) < _TCP_HEAD.size:
        return None
    source, target, number, words, flags = _TCP_HEAD.unpack_from(data)
    head = (words >> 4) * 4
    if head < _TCP_HEAD.size or head > len(data):
        return None
    return Segment(
        sender + source,
        receiver + target,
        number,
        data[head:],
        bool(flags & 0x02),
        bool(flags & 0x04),
    )


def _network(packet: Packet) -> tuple[bytes, bytes, bytes] | None:
    """Find sender, receiver and the TCP header after the layers below it."""
    data, at = packet.data, 0
    match packet.link:
        case 1:  # Ethernet
            at = 12
            while data[at : at + 2] in {b"\x81\x00", b"\x88\xa8", b"\x91\x00"}:
                at += 4
            at += 2
        case 0 | 108:  # loopback of BSD
            at = 4
        case 113:  # Linux, the interface "any"
            at = 16
        case 276:
            at = 20
        case 12 | 14 | 101 | 228 | 229:  # IP as it is
            at = 0
        case _:
            return None
    if at >= len(data):
        return None
    version = data[at] >> 4
    if version == 4 and len(data) >= at + 20:
        size = (data[at] & 0x0F) * 4
        total = int.from_bytes(data[at + 2 : at + 4], "big")
        fragment = int.from_bytes(data[at + 6 : at + 8], "big") & 0x3FFF
        if data[at + 9] != _TCP or fragment or size < 20:
            return None
        # A total of 0 is what offloading to the interface leaves.
        end = at + total if total else len(data)
        return data[at + 12 : at + 16], data[at + 16 : at + 20], data[at + size : end]
    if version == 6 and len(data) >= at + 40:
        total = int.from_bytes(data[at + 4 : at + 6], "big")
        end = at + 40 + total if total else len(data)
        kind, begin = data[at + 6], at + 40
        while kind in _IPV6_EXTENSIONS and begin + 2 <= len(data):
            kind, begin = data[begin], begin + 8 * (data[begin + 1] + 1)
        if kind == _TCP:
            return data[at + 8 : at + 24], data[at + 24 : at + 40], data[begin:end]
    return None


@attrs.define
class Held:
    """What all flows of a capture hold together while something before it is missing."""

    segments: int = 0
    octets: int = 0


class Flow:
    """One direction of a connection: puts its bytes in order and leaves out what comes twice.

    Places in it are sequence numbers that do not start again at 2^32.

    Args:
        together: what all flows hold, this one included.
    """

    def __init__(self, together: Held) -> None:
        self._together = together
        self._next: int | None = None
        self._held: dict[int, bytes] = {}
        self._places: list[int] = []  # a heap of the keys of what is held
        self._octets = 0

    def feed(self, segment: Segment) -> Iterator[tuple[str, bytes]]:
        """Yield what is next in order, each with what is wrong before it; empty if nothing."""
        sequence = segment.sequence
        if segment.syn:
            sequence = self._next = (sequence + 1) & _MASK
        data = segment.data
        if not data:
            return
        if self._next is None:
            self._next = sequence
        ahead = (sequence - self._next + _HALF & _MASK) - _HALF
        if ahead == 0 and not self._held:
            self._next += len(data)
            yield "", data
            return
        if ahead + len(data) <= 0:
            return  # all of it was there before
        self._hold(self._next + ahead, data)
        yield from self._in_order()
        while (bound := self._exceeded()) is not None:
            yield from self._skip(f"were given up, as more than {bound} waited after them")

    def finish(self) -> Iterator[tuple[str, bytes]]:
        """Yield what is held, with what is missing before it."""
        while self._held:
            yield from self._skip("are missing in the capture")

    def _hold(self, place: int, data: bytes) -> None:
        before = self._held.get(place)
        if before is None:
            heapq.heappush(self._places, place)
            self._together.segments += 1
        elif len(data) <= len(before):
            return
        more = len(data) - len(before or b"")
        self._held[place] = data
        self._octets += more
        self._together.octets += more

    def _exceeded(self) -> str | None:
        """Name the bound that what is held exceeds; None where nothing here can be given up."""
        if not self._held:
            return None
        if self._octets > _MAX_HELD:
            return f"{_MAX_HELD:,} bytes"
        if len(self._held) > _MAX_SEGMENTS:
            return f"{_MAX_SEGMENTS:,} segments"
        if self._together.octets > _MAX_ALL_HELD:
            return f"{_MAX_ALL_HELD:,} bytes of all connections"
        if self._together.segments > _MAX_ALL_SEGMENTS:
            return f"{_MAX_ALL_SEGMENTS:,} segments of all connections"
        return None

    def _in_order(self) -> Iterator[tuple[str, bytes]]:
        while self._places:
            assert self._next is not None  # noqa: S101  (it is set before anything is held)
            first = self._places[0]
            ahead = first - self._next
            if ahead > 0:
                return
            heapq.heappop(self._places)
            data = self._held.pop(first)
            self._octets -= len(data)
            self._together.octets -= len(data)
            self._together.segments -= 1
            if len(data) + ahead > 0:
                self._next = first + len(data)
                yield "", data[-ahead:] if ahead else data

    def _skip(self, what: str) -> Iterator[tuple[str, bytes]]:
        assert self._next is not None  # noqa: S101  (it is set before anything is held)
        missing = self._places[0] - self._next
        self._next = self._places[0]
        why = f"{missing:,} bytes {what}"
        for _, data in self._in_order():
            yield why, data
            why = ""
