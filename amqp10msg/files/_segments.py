"""Read packets from pcap and pcapng files, and reassemble the TCP stream of each direction.

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
from amqp10msg.files.signatures import PCAP_MAGIC, PCAPNG_MAGIC

# Block types of pcapng, and option codes of its interface blocks.
_INTERFACE, _OLD_PACKET, _SIMPLE_PACKET, _ENHANCED_PACKET = 1, 2, 3, 6
_END_OF_OPTIONS, _TIME_RESOLUTION, _TIME_OFFSET = 0, 9, 14
#: Supported link-layer types: Ethernet, loopback, the interface "any" of Linux, raw IP.
SUPPORTED_LINK_TYPES = frozenset((0, 1, 12, 14, 101, 108, 113, 228, 229, 276))
# Maximum size of a packet in bytes. Real packets have up to 256 kB, so a capture with a larger
# packet is damaged.
_MAX_PACKET_SIZE = 1 << 24
# The times that a datetime can have (the years 1 to 9999), in microseconds since the Unix epoch.
_MIN_DATETIME_MICROSECONDS = -62_135_596_800_000_000
_MAX_DATETIME_MICROSECONDS = 253_402_300_799_999_999


@attrs.frozen
class Packet:
    """One captured packet.

    Attributes:
        offset: the offset of the packet's header in the file, in bytes.
        time: the time of capture in microseconds since the Unix epoch; None if unknown or outside
            the years 1 to 9999.
        link_type: the link-layer type, such as 1 for Ethernet.
        data: the bytes of the packet, possibly truncated.
    """

    offset: int
    time: int | None
    link_type: int
    data: bytes


def read_packets(stream: IO[bytes]) -> Iterator[Packet | Record]:
    """Yield the packets of a pcap or pcapng file, and a record with a fault where it is damaged."""
    head = stream.read(4)
    if head == PCAPNG_MAGIC:
        yield from _read_pcapng(stream)
    elif head in PCAP_MAGIC:
        yield from _read_pcap(stream, *PCAP_MAGIC[head])
    else:
        yield Record(0, head, "this is neither pcap nor pcapng", ends=True)


def _read_pcap(stream: IO[bytes], order: str, ticks: int) -> Iterator[Packet | Record]:
    """Read a pcap file after its magic number.

    `order` is the byte order for `struct`, and `ticks` the number of clock ticks per microsecond.
    """
    file_header = stream.read(20)
    if len(file_header) < 20:
        yield Record(0, file_header, "the header of the capture is cut off", ends=True)
        return
    link = struct.unpack_from(f"{order}I", file_header, 16)[0] & 0x0FFFFFFF
    header = struct.Struct(f"{order}IIII")
    offset = 24
    while head := stream.read(16):
        if len(head) < 16:
            yield Record(
                offset, head, "the capture is cut off in the header of a packet", ends=True
            )
            return
        seconds, fraction, size, original = header.unpack(head)
        # Both sizes are 0 if the file was filled with zeros after a crash.
        if size > _MAX_PACKET_SIZE or not (size or original):
            fault = f"a packet of {size} bytes: the capture is damaged"
            yield Record(offset, head, fault, ends=True)
            return
        data = stream.read(size)
        if len(data) < size:
            yield Record(offset, data, "the capture is cut off in a packet", ends=True)
            return
        yield Packet(offset, seconds * 1_000_000 + fraction // ticks, link, data)
        offset += 16 + size


def _read_pcapng(stream: IO[bytes]) -> Iterator[Packet | Record]:
    """Read a pcapng file after its magic number."""
    offset, order = 0, "<"
    head = PCAPNG_MAGIC + stream.read(4)
    # The interfaces of the section.
    interfaces: list[_Interface] = []
    while head:
        if len(head) < 8:
            yield Record(offset, head, "the capture is cut off in the header of a block", ends=True)
            return
        byte_order_mark = b""
        if head[:4] == PCAPNG_MAGIC:
            byte_order_mark = stream.read(4)
            order = ">" if byte_order_mark == b"\x1a\x2b\x3c\x4d" else "<"
            interfaces = []
        kind, size = struct.unpack(f"{order}II", head)
        if size < 12 or size % 4 or size > _MAX_PACKET_SIZE:
            fault = f"a block of {size} bytes: the capture is damaged"
            yield Record(offset, head, fault, ends=True)
            return
        body = byte_order_mark + stream.read(size - 8 - len(byte_order_mark))
        if len(body) < size - 8:
            yield Record(offset, body, "the capture is cut off in a block", ends=True)
            return
        packet = _read_block(offset, order, kind, body[:-4], interfaces)
        if packet is not None:
            yield packet
        offset += size
        head = stream.read(8)


def _read_block(
    offset: int, order: str, kind: int, body: bytes, interfaces: list[_Interface]
) -> Packet | Record | None:
    """Parse a block of a pcapng file. Returns None if the block contains no packet."""
    if kind == _INTERFACE and len(body) >= 8:
        interfaces.append(_read_interface(order, body))
    elif kind in (_ENHANCED_PACKET, _OLD_PACKET) and len(body) >= 20:
        number, high, low, size = struct.unpack_from(f"{order}IIII", body)
        if kind == _OLD_PACKET:
            # The interface has two bytes. The count of lost packets follows.
            (number,) = struct.unpack_from(f"{order}H", body)
        if number >= len(interfaces) or size > len(body) - 20:
            return Record(offset, body, "a packet of an unknown interface, or cut off in its block")
        interface = interfaces[number]
        time = interface.microseconds(high << 32 | low)
        return Packet(offset, time, interface.link_type, body[20 : 20 + size])
    elif kind == _SIMPLE_PACKET and len(body) >= 4:
        size = min(struct.unpack_from(f"{order}I", body)[0], len(body) - 4)
        if not interfaces:
            return Record(offset, body, "a packet of an unknown interface")
        return Packet(offset, None, interfaces[0].link_type, body[4 : 4 + size])
    return None


@attrs.frozen
class _Interface:
    """An interface of a pcapng file.

    Attributes:
        link_type: the link-layer type.
        ticks: clock ticks per second (the option if_tsresol).
        offset: seconds to add to each time (the option if_tsoffset).
    """

    link_type: int
    ticks: int = 1_000_000
    offset: int = 0

    def microseconds(self, ticks: int) -> int | None:
        """Return a time in microseconds since the Unix epoch; None outside the years 1 to 9999."""
        time = ticks * 1_000_000 // self.ticks + self.offset * 1_000_000
        is_datetime = _MIN_DATETIME_MICROSECONDS <= time <= _MAX_DATETIME_MICROSECONDS
        return time if is_datetime else None


def _read_interface(order: str, body: bytes) -> _Interface:
    """Parse an interface block: its link-layer type, and the options for the clock."""
    clock: dict[str, int] = {}
    offset = 8
    while offset + 4 <= len(body):
        code, size = struct.unpack_from(f"{order}HH", body, offset)
        if code == _END_OF_OPTIONS:
            break
        if code == _TIME_RESOLUTION and size >= 1 and offset + 4 < len(body):
            value = body[offset + 4]
            clock["ticks"] = 1 << (value & 0x7F) if value & 0x80 else 10 ** min(value, 18)
        elif code == _TIME_OFFSET and size == 8 and offset + 12 <= len(body):
            (clock["offset"],) = struct.unpack_from(f"{order}q", body, offset + 4)
        offset += 4 + size + -size % 4
    return _Interface(struct.unpack_from(f"{order}H", body)[0], **clock)


# Maximum bytes and segments to buffer while earlier bytes are missing: for one direction of a
# connection, and for all connections.
_MAX_BUFFERED_BYTES_PER_FLOW = 8 << 20
_MAX_BUFFERED_SEGMENTS_PER_FLOW = 8_192
_MAX_BUFFERED_BYTES = 64 << 20
_MAX_BUFFERED_SEGMENTS = 65_536
# The IP protocol number of TCP.
_TCP_PROTOCOL_NUMBER = 6
# TCP header: ports, sequence number, header length (upper 4 bits, in words), and flags.
_TCP_HEADER = struct.Struct(">2s2sI4xBB6x")
# IPv6 extension headers to skip: hop-by-hop options, routing, destination options.
_IPV6_EXTENSION_HEADERS = {0, 43, 60}
_HALF_SEQUENCE_RANGE = 1 << 31
_SEQUENCE_NUMBER_MASK = (1 << 32) - 1


@attrs.frozen
class Segment:
    """One TCP segment.

    Attributes:
        sender: address and port of the sender, as bytes.
        receiver: address and port of the receiver, as bytes.
        sequence: the sequence number of the first byte of `data`.
        data: the payload.
        syn: whether the segment opens the connection.
        reset: whether the segment aborts the connection.
    """

    sender: bytes
    receiver: bytes
    sequence: int
    data: bytes
    syn: bool
    reset: bool

    @property
    def connection(self) -> str:
        """The sender and the receiver, as in `Record.connection`."""
        return f"{_format_endpoint(self.sender)} > {_format_endpoint(self.receiver)}"


def _format_endpoint(endpoint: bytes) -> str:
    """Return ``ADDRESS:PORT`` for the bytes of an address and a port."""
    address = ipaddress.ip_address(endpoint[:-2])
    port = int.from_bytes(endpoint[-2:], "big")
    return f"[{address}]:{port}" if address.version == 6 else f"{address}:{port}"


def segment_of(packet: Packet) -> Segment | None:
    """Return the TCP segment of a packet; None for other protocols and IP fragments."""
    network = _parse_network_layer(packet)
    if network is None:
        return None
    sender, receiver, data = network
    if len(data) < _TCP_HEADER.size:
        return None
    source, target, number, words, flags = _TCP_HEADER.unpack_from(data)
    head = (words >> 4) * 4
    if head < _TCP_HEADER.size or head > len(data):
        return None
    return Segment(
        sender + source,
        receiver + target,
        number,
        data[head:],
        bool(flags & 0x02),
        bool(flags & 0x04),
    )


def _parse_network_layer(packet: Packet) -> tuple[bytes, bytes, bytes] | None:
    """Parse the layers below TCP. Returns (sender address, receiver address, TCP segment)."""
    data, offset = packet.data, 0
    match packet.link_type:
        case 1:  # Ethernet
            offset = 12
            while data[offset : offset + 2] in {b"\x81\x00", b"\x88\xa8", b"\x91\x00"}:
                offset += 4
            offset += 2
        case 0 | 108:  # loopback of BSD
            offset = 4
        case 113:  # Linux, the interface "any"
            offset = 16
        case 276:
            offset = 20
        case 12 | 14 | 101 | 228 | 229:  # raw IP
            offset = 0
        case _:
            return None
    if offset >= len(data):
        return None
    version = data[offset] >> 4
    if version == 4 and len(data) >= offset + 20:
        size = (data[offset] & 0x0F) * 4
        total = int.from_bytes(data[offset + 2 : offset + 4], "big")
        fragment = int.from_bytes(data[offset + 6 : offset + 8], "big") & 0x3FFF
        if data[offset + 9] != _TCP_PROTOCOL_NUMBER or fragment or size < 20:
            return None
        # The total length is 0 if segmentation is offloaded to the interface.
        end = offset + total if total else len(data)
        return (
            data[offset + 12 : offset + 16],
            data[offset + 16 : offset + 20],
            data[offset + size : end],
        )
    if version == 6 and len(data) >= offset + 40:
        total = int.from_bytes(data[offset + 4 : offset + 6], "big")
        end = offset + 40 + total if total else len(data)
        kind, begin = data[offset + 6], offset + 40
        while kind in _IPV6_EXTENSION_HEADERS and begin + 2 <= len(data):
            kind, begin = data[begin], begin + 8 * (data[begin + 1] + 1)
        if kind == _TCP_PROTOCOL_NUMBER:
            return data[offset + 8 : offset + 24], data[offset + 24 : offset + 40], data[begin:end]
    return None


@attrs.define
class BufferCounter:
    """Counts the segments and bytes that all flows of a capture buffer together."""

    segments: int = 0
    octets: int = 0


class Flow:
    """Reassembles one direction of a connection: orders the bytes and drops retransmissions.

    Positions in the stream are sequence numbers that do not wrap at 2^32.

    Args:
        total: the counter of what all flows of the capture buffer.
    """

    def __init__(self, total: BufferCounter) -> None:
        self._total = total
        self._next: int | None = None  # the position of the next byte to yield
        self._buffered: dict[int, bytes] = {}  # segments after missing bytes, by position
        self._positions: list[int] = []  # a heap of the keys of `_buffered`
        self._octets = 0

    def feed(self, segment: Segment) -> Iterator[tuple[str, bytes]]:
        """Add a segment; yield the next bytes of the stream.

        Yields:
            A description of the gap before the bytes, or "" without a gap; and the bytes.
        """
        sequence = segment.sequence
        if segment.syn:
            sequence = self._next = (sequence + 1) & _SEQUENCE_NUMBER_MASK
        data = segment.data
        if not data:
            return
        if self._next is None:
            self._next = sequence
        ahead = (
            sequence - self._next + _HALF_SEQUENCE_RANGE & _SEQUENCE_NUMBER_MASK
        ) - _HALF_SEQUENCE_RANGE
        if ahead == 0 and not self._buffered:
            self._next += len(data)
            yield "", data
            return
        if ahead + len(data) <= 0:
            return  # a retransmission
        self._buffer(self._next + ahead, data)
        yield from self._take_contiguous()
        while (bound := self._exceeded_limit()) is not None:
            yield from self._skip_gap(f"were given up, as more than {bound} waited after them")

    def finish(self) -> Iterator[tuple[str, bytes]]:
        """Yield the bytes that are still buffered, as `feed` does."""
        while self._buffered:
            yield from self._skip_gap("are missing in the capture")

    def _buffer(self, position: int, data: bytes) -> None:
        """Buffer the bytes at a position; of several segments there, keep the longest."""
        earlier = self._buffered.get(position)
        if earlier is None:
            heapq.heappush(self._positions, position)
            self._total.segments += 1
        elif len(data) <= len(earlier):
            return
        added = len(data) - len(earlier or b"")
        self._buffered[position] = data
        self._octets += added
        self._total.octets += added

    def _exceeded_limit(self) -> str | None:
        """Return the exceeded limit as a text, or None.

        A flow that buffers nothing never exceeds a limit, since it could not free any memory.
        """
        if not self._buffered:
            return None
        if self._octets > _MAX_BUFFERED_BYTES_PER_FLOW:
            return f"{_MAX_BUFFERED_BYTES_PER_FLOW:,} bytes"
        if len(self._buffered) > _MAX_BUFFERED_SEGMENTS_PER_FLOW:
            return f"{_MAX_BUFFERED_SEGMENTS_PER_FLOW:,} segments"
        if self._total.octets > _MAX_BUFFERED_BYTES:
            return f"{_MAX_BUFFERED_BYTES:,} bytes of all connections"
        if self._total.segments > _MAX_BUFFERED_SEGMENTS:
            return f"{_MAX_BUFFERED_SEGMENTS:,} segments of all connections"
        return None

    def _take_contiguous(self) -> Iterator[tuple[str, bytes]]:
        """Remove and yield the buffered bytes up to the next gap, as `feed` does."""
        while self._positions:
            assert self._next is not None  # noqa: S101  (set before data is buffered)
            first = self._positions[0]
            ahead = first - self._next
            if ahead > 0:
                return
            heapq.heappop(self._positions)
            data = self._buffered.pop(first)
            self._octets -= len(data)
            self._total.octets -= len(data)
            self._total.segments -= 1
            if len(data) + ahead > 0:
                self._next = first + len(data)
                yield "", data[-ahead:] if ahead else data

    def _skip_gap(self, reason: str) -> Iterator[tuple[str, bytes]]:
        """Give up the missing bytes, and yield the bytes after them, as `feed` does."""
        assert self._next is not None  # noqa: S101  (set before data is buffered)
        missing = self._positions[0] - self._next
        self._next = self._positions[0]
        description = f"{missing:,} bytes {reason}"
        for _, data in self._take_contiguous():
            yield description, data
            description = ""
