"""Parse the frames of one direction of a connection, and assemble messages from them.

AMQP 1.0: Part 2, 2.3 (frames) and 2.7.5 (a message is one or more transfers; all but the last have
the field `more`). AMQP 0-9-1: 2.3.5 (frames) and 4.2.6 (a message is a method, a content header,
and bodies).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs

from amqp10msg.files._record import Record
from amqp10msg.files._resync import (
    AMQP_0_9_1,
    AMQP_1_0,
    BASIC_FRAME_TYPES,
    BODY,
    FRAME_END_OCTET,
    FRAME_HEADER_1_0,
    HEADER,
    MAX_FRAME_SIZE,
    MAX_FRAME_START_LENGTH,
    METHOD,
    SASL_FRAME_TYPE,
    find_frame,
)
from amqp10msg.files._segments import Packet
from amqp10msg.files.containers import too_large
from amqp10msg.files.signatures import CONTENT_HEADER_START
from amqp10msg.wire.errors import DecodeError
from amqp10msg.wire.kernel import decode_value, skip_value
from amqp10msg.wire.primitives import Described

# AMQP 1.0: the type of AMQP frames (Part 2, 2.3), and the numeric descriptors of the performatives
# that `Frames` reads (Part 2, 2.7).
_AMQP_FRAME_TYPE = 0
_ATTACH, _TRANSFER, _DETACH, _END, _CLOSE = 0x12, 0x14, 0x16, 0x17, 0x18
#: The numeric descriptors of these performatives, by symbolic descriptor.
_PERFORMATIVE_CODES: dict[Any, int] = {
    "amqp:attach:list": _ATTACH,
    "amqp:transfer:list": _TRANSFER,
    "amqp:detach:list": _DETACH,
    "amqp:end:list": _END,
    "amqp:close:list": _CLOSE,
}
# The name and the index of each uint field that identifies a message, by performative.
_UINT_ID_FIELDS: dict[Any, tuple[tuple[str, int], ...]] = {
    _ATTACH: (("handle", 1),),
    _TRANSFER: (("handle", 0), ("delivery-id", 1)),
    _DETACH: (("handle", 0),),
}
_MAX_UINT = 0xFFFFFFFF
# The number of fields of attach, the longest performative.
_MAX_PERFORMATIVE_FIELDS = 14
# Indexes of fields: source and target of attach; more and aborted of transfer.
_SOURCE, _TARGET = 5, 6
_MORE, _ABORTED = 5, 9
# AMQP 0-9-1: the id of the class basic, the ids of its methods with content, and the offset of the
# first short string in the payload of each of these methods.
_BASIC_CLASS_ID = 60
_PUBLISH, _RETURN, _DELIVER, _GET_OK = 40, 50, 60, 71
_FIRST_STRING_OFFSETS = {_PUBLISH: 6, _RETURN: 6, _DELIVER: 4, _GET_OK: 13}
#: The last four bytes of the protocol headers of AMQP 0-8 to 0-9-1.
_BASIC_PROTOCOL_VERSIONS = {
    b"\x00\x00\x09\x01",
    b"\x00\x00\x09\x00",
    b"\x01\x01\x00\x09",
    b"\x01\x01\x08\x00",
}
# The values of `Frames._protocol` besides "1.0" and "0-9-1": the protocol is not recognised yet, or
# is another protocol, such as TLS.
_UNKNOWN, _FOREIGN = "unknown", "foreign"


@attrs.define
class _PartialMessage:
    """A message whose last frame has not been read yet.

    `is_start_missing` is true if the first transfer or, in AMQP 0-9-1, the method was not captured.
    """

    octets: bytearray = attrs.Factory(bytearray)
    delivery_id: Any = None
    delivery_tag: bytes | None = None
    message_format: int | None = None
    address: str | None = None
    # AMQP 0-9-1:
    header: bytes | None = None
    size: int = 0
    exchange: str | None = None
    routing_key: str | None = None
    redelivered: bool | None = None
    is_start_missing: bool = False


class Frames:
    """Parses the bytes of one direction of a connection, and yields its messages.

    After missing or invalid bytes, `Frames` searches for the next frame. Once the connection has
    been recognised as AMQP, it yields a record with a fault for the skipped bytes.
    """

    def __init__(self, connection: str, max_size: int) -> None:
        self._connection = connection
        self._max_size = max_size
        self._buffer = bytearray()
        self._protocol = _UNKNOWN
        self._searching = False  # whether to search for the next frame
        self._skipped = 0  # bytes skipped since the search began
        # {protocol: offset in the buffer at which the search continues}, so that no byte is
        # searched twice.
        self._searched: dict[str, int] = {}
        self._is_reported = False  # whether a record already reports the skipped bytes
        # Faults of gaps and skipped bytes, to report once the protocol is recognised.
        self._pending_faults: list[str] = []
        self._had_gap = False  # whether bytes were missing or invalid earlier in the stream
        # Incomplete messages by (channel, handle); the handle is None in AMQP 0-9-1.
        self._parts: dict[tuple[int, Any], _PartialMessage] = {}
        # {(channel, handle): delivery-id} of deliveries that a gap interrupted: their next
        # transfers may follow the gap.
        self._cut_deliveries: dict[tuple[int, Any], Any] = {}
        # Addresses of links by (channel, handle).
        self._addresses: dict[tuple[int, Any], str | None] = {}

    def feed(self, octets: bytes, packet: Packet) -> Iterator[Record]:
        """Read the next bytes and yield the messages that they complete."""
        if self._protocol == _FOREIGN:
            return
        self._buffer += octets
        yield from self._read_frames(packet)

    def gap(self, reason: str, packet: Packet) -> Iterator[Record]:
        """Handle missing bytes: yield the incomplete messages, and search for the next frame.

        `reason` describes the gap.
        """
        if self._protocol == _FOREIGN:
            return
        yield from self._read_frames(packet, final=True)
        if self._searching:
            self._skip(len(self._buffer))
            yield from self._report_skipped(packet)
        # `_report_skipped` leaves the bytes of a protocol that is not recognised yet.
        skipped = [_skipped_fault(self._skipped)] if self._skipped else []
        self._start_search()
        self._buffer.clear()  # the rest of the incomplete frame is missing
        if self._protocol == _UNKNOWN:
            self._pending_faults += [*skipped, reason]
        elif not self._parts:
            yield self._fault(reason, packet, skips=True)
        self._cut_deliveries |= {key: partial.delivery_id for key, partial in self._parts.items()}
        yield from self._give_up_all(reason, packet, skips=True)

    @property
    def amqp_protocol(self) -> str | None:
        """The recognised version of AMQP; None for other protocols."""
        return self._protocol if self._protocol in {AMQP_1_0, AMQP_0_9_1} else None

    def finish(
        self, reason: str, packet: Packet, peer_protocol: str | None = None
    ) -> Iterator[Record]:
        """Yield the incomplete messages at the end of the data.

        If no frame was recognised in this direction, but the other direction is AMQP, the bytes of
        this direction are reported as skipped.

        Args:
            reason: describes the end.
            packet: the last packet.
            peer_protocol: the version of AMQP in the other direction; None if it is unknown.
        """
        if self._protocol == _FOREIGN:
            return
        yield from self._read_frames(packet, final=True)
        if self._protocol == _UNKNOWN and peer_protocol is not None:
            self._protocol = peer_protocol
        if self._searching:
            self._skip(len(self._buffer))
            yield from self._report_skipped(packet)
        elif self._buffer and not self._parts and self._protocol != _UNKNOWN:
            yield self._fault(f"{reason}: {len(self._buffer):,} bytes of a frame are there", packet)
        self._buffer.clear()
        yield from self._give_up_all(reason, packet)

    def _start_search(self, *, is_reported: bool = False) -> None:
        """Start a search for the next frame at the beginning of the buffer.

        `is_reported`: a record already reports the bytes that the search will skip.
        """
        self._searching = self._had_gap = True
        self._skipped = 0
        self._searched.clear()
        self._is_reported = is_reported

    def _skip(self, count: int) -> None:
        """Remove `count` bytes from the buffer, and count them as skipped."""
        del self._buffer[:count]
        self._skipped += count
        self._searched = {name: max(offset - count, 0) for name, offset in self._searched.items()}

    def _skip_to_frame(self, *, final: bool) -> bool:
        """Skip to the next frame. Returns whether the buffer now begins with a frame.

        `final`: as for `_read_frames`.
        """
        protocols = (
            [self._protocol] if self._protocol in {AMQP_1_0, AMQP_0_9_1} else [AMQP_1_0, AMQP_0_9_1]
        )
        candidates: list[tuple[int, bool, str]] = []
        for protocol in protocols:
            begin = self._searched.get(protocol, 0)
            candidate = find_frame(self._buffer, protocol, begin, final=final)
            if candidate is None:
                self._searched[protocol] = max(begin, len(self._buffer) - MAX_FRAME_START_LENGTH)
            else:
                self._searched[protocol] = candidate[0]
                candidates.append((*candidate, protocol))
        if not candidates:
            self._skip(max(len(self._buffer) - MAX_FRAME_START_LENGTH, 0))
            return False
        offset, is_certain, protocol = min(
            candidates, key=lambda candidate: (not candidate[1], candidate[0])
        )
        self._skip(offset)
        if is_certain:
            self._protocol, self._searching = protocol, False
        return is_certain

    def _report_skipped(self, packet: Packet) -> Iterator[Record]:
        """Yield records for the unreported gaps and skipped bytes."""
        if self.amqp_protocol is None:
            return
        for reason in self._pending_faults:
            yield self._fault(reason, packet, skips=True)
        self._pending_faults.clear()
        if self._skipped:
            fault = _skipped_fault(self._skipped)
            self._skipped = 0
            if not self._is_reported:
                yield self._fault(fault, packet, skips=True)

    def _give_up_all(self, reason: str, packet: Packet, *, skips: bool = False) -> Iterator[Record]:
        """Remove all incomplete messages, and yield their records with the fault `reason`."""
        while self._parts:
            record = self._finish_message(next(iter(self._parts)), packet, reason)
            yield attrs.evolve(record, skips=skips)

    def _finish_message(self, key: tuple[int, Any], packet: Packet, fault: str) -> Record:
        """Return the record of an incomplete message, and forget the message.

        `fault` is the fault of the record; empty for a message that is complete now.
        """
        partial = self._parts.pop(key)
        is_basic = self._protocol == AMQP_0_9_1
        octets = bytes(partial.octets)
        return Record(
            packet.offset,
            None if is_basic else octets,
            fault,
            self._protocol,
            packet.time,
            self._connection,
            partial.address,
            partial.delivery_tag,
            partial.message_format,
            partial.header,
            octets if is_basic else None,
            partial.exchange,
            partial.routing_key,
            partial.redelivered,
        )

    def _fault(
        self, fault: str, packet: Packet, octets: bytes | None = None, *, skips: bool = False
    ) -> Record:
        """Return a record with a fault and the bytes `octets`."""
        protocol = self.amqp_protocol or AMQP_1_0
        return Record(
            packet.offset, octets, fault, protocol, packet.time, self._connection, skips=skips
        )

    def _read_frames(self, packet: Packet, *, final: bool = False) -> Iterator[Record]:
        """Read the frames in the buffer.

        `final`: the stream ends after the buffer, or continues after a gap.
        """
        while self._buffer:
            has_progress: Any
            if self._searching:
                has_progress = self._skip_to_frame(final=final)
                if has_progress:
                    yield from self._report_skipped(packet)
            elif self._protocol == _UNKNOWN or self._buffer[:1] == b"A":
                has_progress = yield from self._read_protocol_header(packet)
            elif self._protocol == AMQP_1_0:
                has_progress = yield from self._read_frame(packet)
            else:
                has_progress = yield from self._read_basic_frame(packet)
            if not has_progress:
                return

    def _read_protocol_header(self, packet: Packet) -> Iterator[Record] | Any:
        """Read a protocol header, or guess the protocol. Returns whether to continue reading."""
        buffer = self._buffer
        if buffer.startswith(b"AMQP"[: len(buffer)]):
            if len(buffer) < 8:
                return False
            version = bytes(buffer[4:8])
            yield from self._give_up_all("another protocol header follows", packet)
            if version[1:] == b"\x01\x00\x00":
                self._protocol = AMQP_1_0
            elif version in _BASIC_PROTOCOL_VERSIONS:
                self._protocol = AMQP_0_9_1
            else:
                self._protocol = _FOREIGN
                yield self._fault(f"the version AMQP {version.hex(' ')} is not known", packet)
                return False
            del buffer[:8]
            return True
        if self._protocol != _UNKNOWN:
            return self._resynchronise()
        if buffer[:2] == b"\x16\x03":
            self._protocol = _FOREIGN
            yield self._fault("the connection is encrypted with TLS: decrypt it first", packet)
            return False
        for protocol in (AMQP_1_0, AMQP_0_9_1):
            if _begins_frame(bytes(buffer[:_MAX_PROBED_BYTES]), protocol):
                self._protocol = protocol
                return True
        # Another protocol, or the capture began in the middle of a frame.
        self._start_search()
        return True

    def _resynchronise(self, *, is_reported: bool = False) -> bool:
        """Skip the first byte of the buffer, and search for the next frame; see `_start_search`.

        Returns True, so that reading continues.
        """
        self._start_search(is_reported=is_reported)
        self._skip(1)
        return True

    def _handle_invalid_frame(self, packet: Packet) -> Iterator[Record] | Any:
        """Yield records of the incomplete messages, and search for the next frame.

        Returns True, so that reading continues.
        """
        is_reported = bool(self._parts)
        yield from self._give_up_all("what follows is not a frame", packet, skips=True)
        return self._resynchronise(is_reported=is_reported)

    # AMQP 1.0.

    def _read_frame(self, packet: Packet) -> Iterator[Record] | Any:
        """Read an AMQP 1.0 frame. Returns False if the buffer does not contain a complete frame."""
        buffer = self._buffer
        if len(buffer) < FRAME_HEADER_1_0.size:
            return False
        size, words, kind, channel = FRAME_HEADER_1_0.unpack_from(buffer)
        start = 4 * words
        if not FRAME_HEADER_1_0.size <= start <= size <= MAX_FRAME_SIZE:
            return (yield from self._handle_invalid_frame(packet))
        if len(buffer) < size:
            return False
        frame = bytes(buffer[start:size])
        del buffer[:size]
        if kind == _AMQP_FRAME_TYPE and frame:
            try:
                end = skip_value(frame)
                performative = decode_value(frame[:end])
            except DecodeError as error:
                yield self._fault(f"a frame that cannot be read: {error}", packet, frame)
                return True
            if isinstance(performative, Described) and isinstance(performative.value, list):
                problem = _describe_invalid_performative(performative)
                if problem:
                    yield self._fault(f"a frame that cannot be read: {problem}", packet, frame)
                else:
                    yield from self._handle_performative(performative, channel, frame[end:], packet)
        return True

    def _handle_performative(
        self, performative: Described, channel: int, payload: bytes, packet: Packet
    ) -> Iterator[Record]:
        """Handle a transfer, an attach, or the end of a link or session."""
        code = _PERFORMATIVE_CODES.get(performative.descriptor, performative.descriptor)
        fields = [*performative.value, *[None] * _MAX_PERFORMATIVE_FIELDS][
            :_MAX_PERFORMATIVE_FIELDS
        ]
        key = (channel, fields[0])
        if code == _TRANSFER:
            yield from self._handle_transfer(key, fields, payload, packet)
        elif code == _ATTACH:
            key = (channel, fields[1])
            self._addresses[key] = _address_of(fields[_TARGET]) or _address_of(fields[_SOURCE])
        elif code == _DETACH:
            self._addresses.pop(key, None)
            if key in self._parts:
                yield self._finish_message(
                    key, packet, "the link was detached before the message ended"
                )
        elif code in {_END, _CLOSE}:
            yield from self._give_up_all("the session ended before the message did", packet)

    def _handle_transfer(
        self, key: tuple[int, Any], fields: list[Any], payload: bytes, packet: Packet
    ) -> Iterator[Record]:
        """Add a transfer to its message; yield the message if it is complete, aborted or too large.

        `key` is the channel and the handle.
        """
        delivery_id, tag, message_format = fields[1:4]
        has_more, aborted = fields[_MORE] is True, fields[_ABORTED] is True
        partial = self._parts.get(key)
        if partial is not None and delivery_id not in {None, partial.delivery_id}:
            yield self._finish_message(key, packet, "the rest of the message is missing")
            partial = None
        if partial is None:
            # After a gap, the transfer may continue a delivery that the gap interrupted.
            is_more = self._had_gap and (
                tag is None or self._cut_deliveries.get(key) == delivery_id
            )
            self._cut_deliveries.pop(key, None)
            partial = _PartialMessage(
                delivery_id=delivery_id,
                delivery_tag=tag if isinstance(tag, bytes) else None,
                message_format=message_format if _is_uint(message_format) else None,
                address=self._addresses.get(key),
                is_start_missing=delivery_id is None or is_more,
            )
        self._parts[key] = partial
        partial.octets += payload
        if aborted:
            yield self._finish_message(key, packet, "the sender aborted the delivery")
        elif len(partial.octets) > self._max_size:
            yield self._finish_message(key, packet, too_large(self._max_size))
        elif not has_more:
            fault = "the beginning of the message is missing" if partial.is_start_missing else ""
            yield self._finish_message(key, packet, fault)

    # AMQP 0-9-1.

    def _read_basic_frame(self, packet: Packet) -> Iterator[Record] | Any:
        """Read an AMQP 0-9-1 frame. Returns False if the buffer contains no complete frame."""
        buffer = self._buffer
        if len(buffer) < 7:
            return False
        size = int.from_bytes(buffer[3:7], "big")
        if buffer[0] not in BASIC_FRAME_TYPES or size > MAX_FRAME_SIZE:
            return (yield from self._handle_invalid_frame(packet))
        if len(buffer) < size + 8:
            return False
        kind, channel = buffer[0], int.from_bytes(buffer[1:3], "big")
        payload = bytes(buffer[7 : 7 + size])
        if buffer[7 + size] != FRAME_END_OCTET:
            return (yield from self._handle_invalid_frame(packet))
        del buffer[: size + 8]
        key = (channel, None)
        partial = self._parts.get(key)
        if kind == METHOD:
            if partial is not None:
                yield self._finish_message(key, packet, "the rest of the message is missing")
            message = _message_of_method(payload)
            if message is not None:
                self._parts[key] = message
        elif kind == HEADER:
            if partial is None or partial.header is not None:
                partial = _PartialMessage(is_start_missing=True)  # the method was not captured
            partial.header = payload
            partial.size = int.from_bytes(payload[4:12], "big")
            self._parts[key] = partial
            yield from self._finish_content(key, partial, packet)
        elif kind == BODY and partial is not None and partial.header is not None:
            partial.octets += payload
            yield from self._finish_content(key, partial, packet)
        elif kind == BODY:
            yield self._fault("a body whose content header is missing", packet, payload)
        return True

    def _finish_content(
        self, key: tuple[int, Any], partial: _PartialMessage, packet: Packet
    ) -> Iterator[Record]:
        """Yield the record of a 0-9-1 message if its body is complete or too large."""
        size = len(partial.octets)
        if size < partial.size and size <= self._max_size:
            return
        fault = ""
        if partial.is_start_missing and self._had_gap:
            fault = "the method is missing, which says exchange and routing key"
        elif size > partial.size:
            fault = f"a body of {size:,} bytes, and its header says {partial.size:,}"
        elif size > self._max_size:
            fault = too_large(self._max_size)
        yield self._finish_message(key, packet, fault)


def _skipped_fault(count: int) -> str:
    """Return the fault of a record for `count` skipped bytes."""
    return f"{count:,} bytes were skipped: no frame is recognised in them"


# Bytes of the buffer that `_begins_frame` examines.
_MAX_PROBED_BYTES = 1 << 20


def _begins_frame(octets: bytes, protocol: str) -> bool:
    """Return whether a frame begins at the start of `octets`.

    The rules are strict, so that the data of other protocols rarely satisfies them.
    """
    if protocol == AMQP_1_0:
        if len(octets) < FRAME_HEADER_1_0.size:
            return False
        size, words, kind, _ = FRAME_HEADER_1_0.unpack_from(octets)
        start = 4 * words
        if kind > SASL_FRAME_TYPE or not FRAME_HEADER_1_0.size <= start <= size <= MAX_FRAME_SIZE:
            return False
        # The descriptor of a performative is a smallulong, a ulong or a symbol.
        body = octets[start : start + 3]
        return size == start or (
            body[:1] == b"\0" and body[1:2] in {b"\x53", b"\x80", b"\xa3"} and len(body) == 3
        )
    size = int.from_bytes(octets[3:7], "big")
    return (
        len(octets) >= size + 8
        and octets[0] in BASIC_FRAME_TYPES
        and octets[7 + size] == FRAME_END_OCTET
        and (octets[0] != HEADER or octets.startswith(CONTENT_HEADER_START, 7))
    )


def _describe_invalid_performative(performative: Described) -> str:
    """Describe the invalid descriptor or id of a performative; return "" if both are valid.

    The ids are the fields in `_UINT_ID_FIELDS`.
    """
    descriptor = performative.descriptor
    if isinstance(descriptor, bool) or not isinstance(descriptor, (int, str)):
        return f"its descriptor is of the type {type(descriptor).__name__}"
    fields = performative.value
    for name, index in _UINT_ID_FIELDS.get(_PERFORMATIVE_CODES.get(descriptor, descriptor), ()):
        if index < len(fields) and not (fields[index] is None or _is_uint(fields[index])):
            return f"its {name} is not a uint, but {fields[index]!r:.80}"
    return ""


def _is_uint(value: Any) -> bool:
    """Return whether a value is an integer from 0 to 2^32 - 1, of any integer type."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MAX_UINT


def _address_of(terminus: Any) -> str | None:
    """Return the address of a source or target, or None if it is absent or not text."""
    if not isinstance(terminus, Described) or not isinstance(terminus.value, list):
        return None
    address = terminus.value[0] if terminus.value else None
    return str(address) if isinstance(address, str) else None


def _message_of_method(payload: bytes) -> _PartialMessage | None:
    """Return a new message for a 0-9-1 method with content; None for methods without content."""
    method = int.from_bytes(payload[2:4], "big")
    if int.from_bytes(payload[:2], "big") != _BASIC_CLASS_ID or method not in _FIRST_STRING_OFFSETS:
        return None
    offset = _FIRST_STRING_OFFSETS[method]
    texts = []
    redelivered = None
    try:
        if method in {_RETURN, _DELIVER}:  # skip the reply text or the consumer tag
            offset += 1 + payload[offset]
        if method == _DELIVER:
            offset += 9
        if method in {_DELIVER, _GET_OK}:
            redelivered = bool(payload[offset - 1] & 1)
        for _ in range(2):
            size = payload[offset]
            texts.append(
                payload[offset + 1 : offset + 1 + size].decode("utf-8", "backslashreplace")
            )
            offset += 1 + size
    except IndexError:
        return _PartialMessage(is_start_missing=True)
    return _PartialMessage(exchange=texts[0], routing_key=texts[1], redelivered=redelivered)
