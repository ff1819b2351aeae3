"""Messages from what was captured of a network: pcap and pcapng, segments, frames, transfers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO

from amqp10msg.files._packets import Packet, read_packets
from amqp10msg.files._record import MAX_SIZE, Record
from amqp10msg.files._segments import Flow, Held, segment_of
from amqp10msg.files._transfers import Frames

#: Connections that are followed at once; beyond, the one that was silent longest is given up.
_MAX_FLOWS = 65_536


def read_capture(stream: IO[bytes], *, max_size: int = MAX_SIZE) -> Iterator[Record]:
    """Read the messages of a pcap or pcapng file, in the order in which they were complete.

    Args:
        stream: the file, at its beginning.
        max_size: bytes that one message may take.
    """
    flows: dict[tuple[bytes, bytes], tuple[Flow, Frames]] = {}
    together = Held()
    last = Packet(0, 0, 0, b"")
    for packet in read_packets(stream):
        if isinstance(packet, Record):
            yield packet
            continue
        last = packet
        segment = segment_of(packet)
        if segment is None:
            continue
        key = (segment.sender, segment.receiver)
        if segment.syn and key in flows:
            yield from _finish(*flows.pop(key), packet)  # the ports are used again
        # The longest silent first, since what is used moves to the end.
        pair = flows.pop(key, None) or (Flow(together), Frames(segment.connection, max_size))
        flows[key] = pair
        if len(flows) > _MAX_FLOWS:
            oldest = flows.pop(next(iter(flows)))
            yield from _finish(*oldest, packet, f"given up: more than {_MAX_FLOWS:,} connections")
        yield from _pass_on(pair[0].feed(segment), pair[1], packet)
        if segment.reset:
            for direction in (key, key[::-1]):
                if direction in flows:
                    yield from _finish(*flows.pop(direction), packet)
    for flow, frames in flows.values():
        yield from _finish(flow, frames, last)


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
