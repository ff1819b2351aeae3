"""TCP segments from packets, and the bytes of one direction of a connection in their order."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

import attrs

from amqp10msg.files._packets import Packet

# Bytes and segments that are held while something in front of them is missing.
_MAX_HELD = 8 << 20
_MAX_SEGMENTS = 8_192
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
    if len(data) < 20:
        return None
    head = (data[12] >> 4) * 4
    if head < 20 or head > len(data):
        return None
    flags = data[13]
    return Segment(
        sender + data[0:2],
        receiver + data[2:4],
        int.from_bytes(data[4:8], "big"),
        data[head:],
        bool(flags & 0x02),
        bool(flags & 0x04),
    )


def _network(packet: Packet) -> tuple[bytes, bytes, bytes] | None:
    """Find sender, receiver and the TCP header behind the layers below it."""
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
        if data[at + 9] != 6 or fragment or size < 20:
            return None
        # A total of 0 is what offloading to the interface leaves.
        end = at + total if total else len(data)
        return data[at + 12 : at + 16], data[at + 16 : at + 20], data[at + size : end]
    if version == 6 and len(data) >= at + 40:
        total = int.from_bytes(data[at + 4 : at + 6], "big")
        end = at + 40 + total if total else len(data)
        kind, begin = data[at + 6], at + 40
        while kind in {0, 43, 60} and begin + 2 <= len(data):  # headers that extend
            kind, begin = data[begin], begin + 8 * (data[begin + 1] + 1)
        if kind == 6:
            return data[at + 8 : at + 24], data[at + 24 : at + 40], data[begin:end]
    return None


class Flow:
    """One direction of a connection: puts its bytes in order and leaves out what comes twice."""

    def __init__(self) -> None:
        self._next: int | None = None
        self._held: dict[int, bytes] = {}
        self._octets = 0

    def feed(self, segment: Segment) -> Iterator[tuple[int, bytes]]:
        """Yield what is next in order, each with how many bytes are missing in front of it."""
        sequence = segment.sequence
        if segment.syn:
            self._next = (sequence + 1) & _MASK
            sequence = self._next
        if not segment.data:
            return
        if self._next is None:
            self._next = sequence
        if (sequence - self._next) & _MASK == 0 and not self._held:
            self._next = (sequence + len(segment.data)) & _MASK
            yield 0, segment.data
            return
        before = self._held.get(sequence, b"")
        if len(segment.data) > len(before):
            self._held[sequence] = segment.data
            self._octets += len(segment.data) - len(before)
        yield from self._in_order()
        while self._octets > _MAX_HELD or len(self._held) > _MAX_SEGMENTS:
            yield from self._skip()

    def finish(self) -> Iterator[tuple[int, bytes]]:
        """Yield what is held, with what is missing in front of it."""
        while self._held:
            yield from self._skip()

    def _in_order(self) -> Iterator[tuple[int, bytes]]:
        while self._held:
            assert self._next is not None  # noqa: S101  (it is set before anything is held)
            first = min(self._held, key=self._ahead)
            ahead = self._ahead(first)
            if ahead > 0:
                return
            data = self._held.pop(first)
            self._octets -= len(data)
            if len(data) + ahead > 0:
                self._next = (first + len(data)) & _MASK
                yield 0, data[-ahead:] if ahead else data

    def _skip(self) -> Iterator[tuple[int, bytes]]:
        first = min(self._held, key=self._ahead)
        missing = self._ahead(first)
        self._next = first
        for index, (_, data) in enumerate(self._in_order()):
            yield 0 if index else missing, data

    def _ahead(self, sequence: int) -> int:
        """Count the bytes from the next one to this, which may lie behind it."""
        distance = (sequence - (self._next or 0)) & _MASK
        return distance - (1 << 32) if distance >= _HALF else distance
