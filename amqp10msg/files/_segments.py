"""TCP segments from packets, and the bytes of one direction of a connection in their order."""

from __future__ import annotations

import heapq
import ipaddress
import struct
from collections.abc import Iterator

import attrs

from amqp10msg.files._packets import Packet

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
    """What all flows of a capture hold together while something before it is missing.

    Attributes:
        segments: how many.
        octets: bytes in them.
    """

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
