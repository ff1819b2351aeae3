"""Read messages from network captures: pcap and pcapng files, single packets and frames."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import IO

import attrs

from amqp10msg.files._record import MAX_SIZE, Record
from amqp10msg.files._resync import BASIC_FRAME_TYPES, FRAME_END_OCTET, FRAME_HEADER_1_0
from amqp10msg.files._segments import (
    SUPPORTED_LINK_TYPES,
    BufferCounter,
    Flow,
    Packet,
    Segment,
    read_packets,
    segment_of,
)
from amqp10msg.files._transfers import Frames

#: Default of the argument `max_flows` of `read_capture`. A flow needs a few kilobytes of memory,
#: even if it has only a single packet.
_DEFAULT_MAX_FLOWS = 65_536
# Link-layer types to try for a single packet: Ethernet, raw IP, the interface "any" of Linux.
_SINGLE_PACKET_LINKS = (1, 101, 113, 276)
#: The fault of a message that is incomplete in a single packet or in frames.
_INCOMPLETE_MESSAGE_FAULT = "this is not all of the message: more packets or frames belong to it"


def read_capture(
    stream: IO[bytes], *, max_size: int = MAX_SIZE, max_flows: int = _DEFAULT_MAX_FLOWS
) -> Iterator[Record]:
    """Read the messages of a pcap or pcapng file, in the order of their last packets.

    Args:
        stream: the file.
        max_size: maximum size of a message, in bytes; a larger one is a record with a fault.
        max_flows: maximum number of directions of connections that are followed at the same time.
            Beyond this number, the flow that has had no data for the longest time is given up, with
            a fault.
    """
    flows: dict[tuple[bytes, bytes], tuple[Flow, Frames]] = {}
    counter = BufferCounter()
    last = Packet(0, 0, 0, b"")
    unknown: Counter[int] = Counter()  # number of packets by unsupported link-layer type
    for packet in read_packets(stream):
        if isinstance(packet, Record):
            yield packet
            continue
        last = packet
        segment = segment_of(packet)
        if segment is None:
            unknown[packet.link_type] += packet.link_type not in SUPPORTED_LINK_TYPES
            continue
        key = (segment.sender, segment.receiver)
        if segment.syn and key in flows:
            # A new connection with the same ports.
            yield from _finish_flow(*flows.pop(key), _peer_protocol(flows, key), packet)
        # Reinsert the flow at the end, so that the least recently used flow is first.
        pair = flows.pop(key, None) or (Flow(counter), Frames(segment.connection, max_size))
        flows[key] = pair
        if len(flows) > max_flows:
            oldest_key = next(iter(flows))
            oldest = flows.pop(oldest_key)
            yield from _finish_flow(
                *oldest,
                _peer_protocol(flows, oldest_key),
                packet,
                f"given up: more than {max_flows:,} connections",
            )
        yield from _feed_frames(pair[0].feed(segment), pair[1], packet)
        if segment.reset:
            directions = [direction for direction in (key, key[::-1]) if direction in flows]
            for direction in directions:
                peer_protocol = _peer_protocol(flows, direction)
                yield from _finish_flow(*flows[direction], peer_protocol, packet)
            for direction in directions:
                del flows[direction]
    for key, (flow, frames) in flows.items():
        yield from _finish_flow(flow, frames, _peer_protocol(flows, key), last)
    for link, count in unknown.items():
        if count:
            fault = f"{count:,} packets of the link layer {link}, which is not known, were skipped"
            yield Record(last.offset, fault=fault, time=last.time, skips=True)


def _feed_frames(
    chunks: Iterator[tuple[str, bytes]], frames: Frames, packet: Packet
) -> Iterator[Record]:
    """Pass the gaps and bytes that `Flow.feed` yields to `frames`; yield the resulting records."""
    for gap, octets in chunks:
        if gap:
            yield from frames.gap(gap, packet)
        yield from frames.feed(octets, packet)


def _finish_flow(
    flow: Flow,
    frames: Frames,
    peer_protocol: str | None,
    packet: Packet,
    reason: str = "the capture ends before the message does",
) -> Iterator[Record]:
    """Yield the remaining records of a flow; `reason` is the fault of incomplete messages."""
    yield from _feed_frames(flow.finish(), frames, packet)
    yield from frames.finish(reason, packet, peer_protocol)


def _peer_protocol(
    flows: dict[tuple[bytes, bytes], tuple[Flow, Frames]], key: tuple[bytes, bytes]
) -> str | None:
    """Return the version of AMQP in the other direction of a connection; None if unknown."""
    peer = flows.get(key[::-1])
    return None if peer is None else peer[1].amqp_protocol


# Read a single packet, or frames, for example copied from Wireshark.


def read_packet_or_frames(data: bytes, *, max_size: int = MAX_SIZE) -> list[Record] | None:
    """Return the messages in one packet of a network, or in frames of AMQP 1.0 or 0-9-1.

    Returns None if the bytes are neither a complete packet nor complete frames. If they contain no
    message, the result is one record with a fault.
    """
    if _are_frames(data):
        kind, connection, octets = "these are frames", "", data
    elif (segment := _segment_of_packet(data)) is not None:
        kind, connection, octets = "this is a packet", segment.connection, segment.data
    else:
        return None
    frames = Frames(connection, max_size)
    whole = Packet(0, None, 0, data)
    records = [*frames.feed(octets, whole), *frames.finish(_INCOMPLETE_MESSAGE_FAULT, whole)]
    records = records or [Record(0, fault=f"{kind} without a whole message of AMQP")]
    return [attrs.evolve(record, connection=connection or None) for record in records]


def _segment_of_packet(data: bytes) -> Segment | None:
    """Return the TCP segment of a complete packet, or None if the bytes are not a packet."""
    for link in _SINGLE_PACKET_LINKS:
        segment = segment_of(Packet(0, None, link, data))
        if segment is not None and data.endswith(segment.data):
            return segment
    return None


def _are_frames(data: bytes) -> bool:
    """Return whether the bytes are complete frames of AMQP 1.0 (Part 2, 2.3) or 0-9-1 (2.3.5)."""
    offset = 0
    while len(data) - offset >= FRAME_HEADER_1_0.size:
        size, words, kind, _ = FRAME_HEADER_1_0.unpack_from(data, offset)
        if not FRAME_HEADER_1_0.size <= 4 * words <= size or kind > 1:
            break
        offset += size
    if offset and offset == len(data):
        return True
    offset = 0
    while len(data) - offset - 8 >= 0 and data[offset] in BASIC_FRAME_TYPES:
        offset += int.from_bytes(data[offset + 3 : offset + 7], "big") + 8
        if offset > len(data) or data[offset - 1] != FRAME_END_OCTET:
            break
    return bool(offset) and offset == len(data)
