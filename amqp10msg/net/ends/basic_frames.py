"""The frames of AMQP 0-9-1 (4.2.3), and the methods with content (4.2.6) in them.

Content headers are passed on as bytes, without decoding them. The methods that occur per message
are encoded and decoded here, and all other methods by pika.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable, Iterator
from typing import Any

import attrs

try:
    from pika import spec as spec  # noqa: PLC0414  (`basic` imports it from here)
    from pika.exceptions import AMQPError
    from pika.frame import Method
except ModuleNotFoundError as _error:
    raise ModuleNotFoundError(
        "AMQP 0-9-1 needs pika: pip install 'amqp10msg[bridge]'", name="pika"
    ) from _error

from amqp10msg.net.ends.terms import Oversized
from amqp10msg.net.ends.wire import explain_protocol

#: The protocol header.
PROTOCOL_HEADER = b"AMQP\x00\x00\x09\x01"
#: A heartbeat frame.
HEARTBEAT = b"\x08\x00\x00\x00\x00\x00\x00\xce"
#: Frame types.
METHOD, HEADER, BODY, BEAT = 1, 2, 3, 8
#: Class-id and method-id of methods of class basic, as one number of 32 bits.
DELIVER, RETURN, ACK, NACK = 0x003C003C, 0x003C0032, 0x003C0050, 0x003C0078
#: The head of a frame, which has the type, the channel and the size of the payload.
_FRAME_HEAD = struct.Struct(">BHL")
#: The frame-end byte of a frame, and the head of the frame that follows.
_FRAME_END_AND_HEAD = struct.Struct(">BBHL")
_FRAME_TYPES = (METHOD, HEADER, BODY, BEAT)
#: What to do if a peer speaks another protocol.
_OTHER_PROTOCOL_ADVICE = {
    "AMQP 1.0": "for which the URL is amqp://",
    "HTTP": "use the port of AMQP, 5672 by default",
    "TLS": "for which the URL is amqp091s://",
}
_FRAME_END = b"\xce"
_FRAME_END_OCTET = 0xCE
#: The start of a content header, with class-id, weight and body size.
_CONTENT_HEAD = struct.Struct(">HHQ")
#: A whole frame of basic.ack or basic.nack.
_ACK_FRAME = struct.Struct(">BHLHHQBB")
#: The start of basic.publish, with class-id, method-id and a reserved field.
_PUBLISH_HEAD = struct.Struct(">HHH")
#: A delivery-tag, and a byte with bits.
_TAG_AND_BITS = struct.Struct(">QB")
#: The class-id of class basic.
_BASIC_CLASS_ID = 60


class FrameError(ValueError):
    """Bytes are not AMQP 0-9-1, or exceed a limit of the connection.

    Attributes:
        other_protocol: whether they are the first bytes of another protocol that was recognised.
    """

    def __init__(self, reason: str, *, other_protocol: bool = False) -> None:
        super().__init__(reason)
        self.other_protocol = other_protocol


class FrameReader:
    """Splits the received bytes into frames.

    Args:
        max_frame: maximum size of a frame in bytes, including its head and frame-end byte.
    """

    def __init__(self, max_frame: int) -> None:
        self.max_frame = max_frame
        self._buffer = bytearray()
        self._needed = 0  # size of the buffer at which the next frame is complete

    def feed(self, data: bytes) -> Iterator[tuple[int, int, bytes]]:
        """Yield the type, channel and payload of each complete frame.

        Raises:
            FrameError: the bytes are not a frame, or the frame is too large.
        """
        buffer = self._buffer
        buffer += data
        if len(buffer) < self._needed:
            return
        position, length = 0, len(buffer)
        self._needed = 0
        while length - position >= 8:
            kind, channel, size = _FRAME_HEAD.unpack_from(buffer, position)
            if size > self.max_frame - 8:
                raise self._bad_head_error(bytes(buffer[position : position + 8]), size)
            end = position + 7 + size
            if end >= length:
                self._needed = end + 1 - position
                break
            if buffer[end] != _FRAME_END_OCTET:
                raise FrameError(f"a frame ends with {buffer[end]:#04x}, not 0xce")
            yield kind, channel, bytes(buffer[position + 7 : end])
            position = end + 1
        del buffer[:position]

    def _bad_head_error(self, head: bytes, size: int) -> FrameError:
        """Return the error for the head of a frame whose payload size is too large."""
        hint = explain_protocol(head, _OTHER_PROTOCOL_ADVICE)
        if head.startswith(b"AMQP"):
            text = f"the peer uses another version of AMQP: {head!r}{hint}"
        elif head[0] not in _FRAME_TYPES:
            text = f"the peer does not use AMQP 0-9-1: its first bytes are {head!r}{hint}"
        else:
            text = f"a frame of {size} bytes exceeds the negotiated frame-max, {self.max_frame}"
        return FrameError(text, other_protocol=bool(hint))


@attrs.define
class Content:
    """A method with content (0-9-1, 4.2.6), to which its frames are added as they arrive.

    Attributes:
        index: class-id and method-id, as one number of 32 bits.
        arguments: the payload of the method frame after class-id and method-id.
        header: the payload of the content header frame.
        large: the file with header and body, if they are too large for memory; otherwise None.
    """

    index: int
    arguments: bytes
    header: bytes = b""
    large: Oversized | None = None
    _missing_size: int = -1  # missing bytes of the body; -1 before the content header
    _pieces: list[bytes] = attrs.Factory(list)

    def add(
        self,
        kind: int,
        payload: bytes,
        max_size: int,
        overflow: Callable[[], Oversized] | None = None,
    ) -> bool:
        """Add a frame. Return whether the content is complete.

        Args:
            kind: the type of the frame.
            payload: the payload of the frame.
            max_size: maximum size in bytes of a body in memory; a larger one is written to a file.
            overflow: returns the file for a larger body; None to refuse such a body.

        Raises:
            FrameError: the frame is not expected here, or the body is refused.
            OSError: the body cannot be written to its file.
        """
        if self._missing_size < 0:
            if kind != HEADER or len(payload) < _CONTENT_HEAD.size:
                raise FrameError(f"a frame of type {kind} instead of a content header")
            class_id, _, self._missing_size = _CONTENT_HEAD.unpack_from(payload)
            if class_id != _BASIC_CLASS_ID:
                raise FrameError(f"content of class {class_id} instead of basic, 60")
            if self._missing_size > max_size:
                if overflow is None:
                    text = f"a message of {self._missing_size} bytes exceeds the limit, {max_size}"
                    raise FrameError(text)
                self.large = overflow()
                self.large.extend(payload)
            self.header = payload
        else:
            if kind != BODY:
                raise FrameError(f"a frame of type {kind} instead of a content body")
            self._missing_size -= len(payload)
            if self.large is not None:
                self.large.extend(payload)
            else:
                self._pieces.append(payload)
            if self._missing_size < 0 or not payload:
                raise FrameError(
                    "a body frame is empty, or exceeds the body size of the content header"
                )
        return self._missing_size == 0

    @property
    def body(self) -> bytes:
        """The joined payloads of the body frames."""
        return self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)

    def decode_deliver(self) -> tuple[int, bool, str, str]:
        """Return delivery-tag, redelivered, exchange and routing-key of a basic.deliver."""
        try:
            offset = 1 + self.arguments[0]
            tag, redelivered = _TAG_AND_BITS.unpack_from(self.arguments, offset)
            exchange, offset = _decode_short_string(self.arguments, offset + _TAG_AND_BITS.size)
            return tag, bool(redelivered), exchange, _decode_short_string(self.arguments, offset)[0]
        except (struct.error, IndexError):
            raise FrameError("basic.deliver is truncated") from None

    def decode_returned(self) -> tuple[int, str, str, str]:
        """Return reply-code, reply-text, exchange and routing-key of a basic.return."""
        try:
            (code,) = struct.unpack_from(">H", self.arguments)
            text, offset = _decode_short_string(self.arguments, 2)
            exchange, offset = _decode_short_string(self.arguments, offset)
            return code, text, exchange, _decode_short_string(self.arguments, offset)[0]
        except (struct.error, IndexError):
            raise FrameError("basic.return is truncated") from None


def _decode_short_string(octets: bytes, offset: int) -> tuple[str, int]:
    """Decode the short string at `offset`. Return the string and the offset after it."""
    end = offset + 1 + octets[offset]
    if end > len(octets):
        raise IndexError
    return octets[offset + 1 : end].decode("utf-8", "surrogateescape"), end


def decode_confirm(arguments: bytes) -> tuple[int, bool]:
    """Return delivery-tag and multiple of a basic.ack or basic.nack."""
    try:
        tag, bits = _TAG_AND_BITS.unpack_from(arguments)
    except struct.error:
        raise FrameError("a publisher confirm is truncated") from None
    return tag, bool(bits & 1)


def ack(channel: int, tag: int, *, multiple: bool = False) -> bytes:
    """Return the frame of a basic.ack."""
    return _ACK_FRAME.pack(
        METHOD, channel, 13, _BASIC_CLASS_ID, 80, tag, multiple, _FRAME_END_OCTET
    )


def nack(channel: int, tag: int, *, requeue: bool) -> bytes:
    """Return the frame of a basic.nack for one delivery."""
    return _ACK_FRAME.pack(
        METHOD, channel, 13, _BASIC_CLASS_ID, 120, tag, requeue << 1, _FRAME_END_OCTET
    )


def publish(
    channel: int, exchange: str, key: str, header: bytes, body: bytes, max_frame: int
) -> list[Any]:
    """Return the frames of a basic.publish with the bit mandatory, as a list of byte strings.

    The caller joins the byte strings of several messages, so that each body is copied once.

    Args:
        channel: the number of the channel.
        exchange: the name of the exchange.
        key: the routing key.
        header: the encoded content header.
        body: the body.
        max_frame: the negotiated frame-max, in bytes.

    Raises:
        FrameError: the content header exceeds a frame, or a name exceeds 255 bytes.
    """
    max_payload = max_frame - 8
    if len(header) > max_payload:
        raise FrameError(
            f"the content header has {len(header)} bytes, but frames of this broker have at most "
            f"{max_payload}"
        )
    method = _publish_method_frame(channel, exchange, key)
    size = len(body)
    if 0 < size <= max_payload:
        header_head, end_and_body_head = (
            _FRAME_HEAD.pack(HEADER, channel, len(header)),
            _FRAME_END_AND_HEAD.pack(_FRAME_END_OCTET, BODY, channel, size),
        )
        return [method, header_head, header, end_and_body_head, body, _FRAME_END]
    pieces: list[Any] = [
        method,
        _FRAME_HEAD.pack(HEADER, channel, len(header)),
        header,
        _FRAME_END,
    ]
    body_view = memoryview(body)
    for offset in range(0, size, max_payload):
        piece = body_view[offset : offset + max_payload]
        pieces += [_FRAME_HEAD.pack(BODY, channel, len(piece)), piece, _FRAME_END]
    return pieces


@functools.lru_cache(256)
def _publish_method_frame(channel: int, exchange: str, key: str) -> bytes:
    """Return the method frame of a basic.publish. Cached, because many messages share it."""
    names = [name.encode("utf-8", "surrogateescape") for name in (exchange, key)]
    if max(map(len, names)) > 255:
        raise FrameError("the name of the exchange or the routing key exceeds 255 bytes")
    strings = b"".join(bytes((len(name),)) + name for name in names)
    arguments = b"%b%b\x01" % (_PUBLISH_HEAD.pack(_BASIC_CLASS_ID, 40, 0), strings)
    return _FRAME_HEAD.pack(METHOD, channel, len(arguments)) + arguments + _FRAME_END


def method(channel: int, pika_method: Any) -> bytes:
    """Return the frame of `pika_method`, a method object of pika."""
    frame: bytes = Method(channel, pika_method).marshal()
    return frame


def decode_method(payload: bytes) -> Any:
    """Decode a method with pika. Raises FrameError if it is unknown or invalid."""
    pika_method = spec.methods.get(int.from_bytes(payload[:4], "big"))
    if pika_method is None:
        raise FrameError(f"{payload[:4].hex()} is not a method of 0-9-1")
    try:
        return pika_method().decode(payload, 4)
    except (AMQPError, struct.error, IndexError, ValueError, KeyError, TypeError) as error:
        raise FrameError(f"{pika_method.NAME} cannot be decoded: {error!r}") from None
