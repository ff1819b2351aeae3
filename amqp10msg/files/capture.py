"""Messages from what was captured of a network: pcap and pcapng files, loose packets and frames."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import IO

import attrs

from amqp10msg.files._forms import MAX_SIZE
from amqp10msg.files._record import Record
from amqp10msg.files._resync import FRAME_END, FRAME_HEAD, OLD_FRAMES
from amqp10msg.files._segments import LINKS, Flow, Held, Packet, Segment, read_packets, segment_of
from amqp10msg.files._transfers import Frames

#: Default of `max_flows`: a packet of each keeps a few kilobytes in memory.
_MAX_FLOWS = 65_536
# Types of link layers: Ethernet, IP as it is, and the interface "any" of Linux.
_LINKS = (1, 101, 113, 276)
_CUT = "this is not all of the message: more packets or frames belong to it"


def read_capture(
    stream: IO[bytes], *, max_size: int = MAX_SIZE, max_flows: int = _MAX_FLOWS
) -> Iterator[Record]:
    """Read the messages of a pcap or pcapng file, in the order in which they were complete.

    Args:
        stream: the file.
        max_size: maximum size of a message, in bytes; a larger one is a record with a fault.
        max_flows: maximum number of directions of connections that are followed at the same time.
            Beyond it, the flow without data for the longest time is given up, with a fault.
    """
    flows: dict[tuple[bytes, bytes], tuple[Flow, Frames]] = {}
    together = Held()
    last = Packet(0, 0, 0, b"")
    unknown: Counter[int] = Counter()  # packets by the type of their link layer
    for packet in read_packets(stream):
        if isinstance(packet, Record):
            yield packet
            continue
        last = packet
        segment = segment_of(packet)
        if segment is None:
            unknown[packet.link] += packet.link not in LINKS
            continue
        key = (segment.sender, segment.receiver)
        if segment.syn and key in flows:
            yield from _finish(*flows.pop(key), packet)  # the ports are used again
        # The longest silent first, since what is used moves to the end.
        pair = flows.pop(key, None) or (Flow(together), Frames(segment.connection, max_size))
        flows[key] = pair
        if len(flows) > max_flows:
            oldest = flows.pop(next(iter(flows)))
            yield from _finish(*oldest, packet, f"given up: more than {max_flows:,} connections")
        yield from _pass_on(pair[0].feed(segment), pair[1], packet)
        if segment.reset:
            for direction in (key, key[::-1]):
                if direction in flows:
                    yield from _finish(*flows.pop(direction), packet)
    for flow, frames in flows.values():
        yield from _finish(flow, frames, last)
    for link, count in unknown.items():
        if count:
            fault = f"{count:,} packets of the link layer {link}, which is not known, were skipped"
            yield Record(last.offset, fault=fault, time=last.time, skips=True)


def _pass_on(
    found: Iterator[tuple[str, bytes]], frames: Frames, packet: Packet
) -> Iterator[Record]:
    for why, octets in found:
        if why:
            yield from frames.gap(why, packet)
        yield from frames.feed(octets, packet)


def _finish(
    flow: Flow,
    frames: Frames,
    packet: Packet,
    why: str = "the capture ends before the message does",
) -> Iterator[Record]:
    yield from _pass_on(flow.finish(), frames, packet)
    yield from frames.finish(why, packet)


# A packet or frames by themselves, as they are copied out of Wireshark.


def loose(data: bytes, *, max_size: int = MAX_SIZE) -> list[Record] | None:
    """Return the messages in one packet of a network, or in frames of AMQP 1.0 or 0-9-1.

    The bytes are all of the packet, or frames from the first byte to the last; None where they are
    neither. Where there are no messages, one record has a fault.
    """
    if _are_frames(data):
        what, connection, octets = "these are frames", "", data
    elif (segment := _segment(data)) is not None:
        what, connection, octets = "this is a packet", segment.connection, segment.data
    else:
        return None
    frames = Frames(connection, max_size)
    whole = Packet(0, None, 0, data)
    found = [*frames.feed(octets, whole), *frames.finish(_CUT, whole)]
    found = found or [Record(0, fault=f"{what} without a whole message of AMQP")]
    return [attrs.evolve(one, connection=connection or None) for one in found]


def _segment(data: bytes) -> Segment | None:
    """Return the TCP segment of a packet that is all there; None if this is none."""
    for link in _LINKS:
        segment = segment_of(Packet(0, None, link, data))
        if segment is not None and data.endswith(segment.data):
            return segment
    return None


def _are_frames(data: bytes) -> bool:
    """Return whether bytes are frames of AMQP 1.0 (Part 2, 2.3) or 0-9-1 (2.3.5), all of them."""
    at = 0
    while len(data) - at >= FRAME_HEAD.size:
        size, words, kind, _ = FRAME_HEAD.unpack_from(data, at)
        if not FRAME_HEAD.size <= 4 * words <= size or kind > 1:
            break
        at += size
    if at and at == len(data):
        return True
    at = 0
    while len(data) - at - 8 >= 0 and data[at] in OLD_FRAMES:
        at += int.from_bytes(data[at + 3 : at + 7], "big") + 8
        if at > len(data) or data[at - 1] != FRAME_END:
            break
    return bool(at) and at == len(data)
