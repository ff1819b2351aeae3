"""The frames of AMQP 0-9-1 (4.2.3), and the contents that they carry.

Content headers go through as the bytes that they are. Methods that are rare are left to pika's
tables.
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

from amqp10msg.net.bridge.terms import Oversized

PREAMBLE = b"AMQP\x00\x00\x09\x01"
HEARTBEAT = b"\x08\x00\x00\x00\x00\x00\x00\xce"
METHOD, HEADER, BODY, BEAT = 1, 2, 3, 8
DELIVER, RETURN, ACK, NACK = 0x003C003C, 0x003C0032, 0x003C0050, 0x003C0078
#: Of a frame: type, channel, size of its payload; and its end.
_FRAME = struct.Struct(">BHL")
#: The end of one, and what the next one begins with.
_NEXT = struct.Struct(">BBHL")
#: The types of frames, and how a record of TLS begins.
_KINDS = (METHOD, HEADER, BODY, BEAT)
_TLS = b"\x15\3"
_END = b"\xce"
_END_OCTET = 0xCE
_CONTENT = struct.Struct(">HHQ")
_ACK = struct.Struct(">BHLHHQBB")
_PUBLISH = struct.Struct(">HHH")
_TAG = struct.Struct(">QB")
_BASIC = 60


class FrameError(ValueError):
    """What came is not AMQP 0-9-1, or more than was agreed."""


class FrameReader:
    """Cuts what comes from a peer into frames.

    One takes `max_frame` bytes at most, with its head and its end.
    """

    def __init__(self, max_frame: int) -> None:
        self.max_frame = max_frame
        self._buffer = bytearray()
        self._needed = 0

    def feed(self, data: bytes) -> Iterator[tuple[int, int, bytes]]:
        """Yield type, channel and payload of each frame that is complete."""
        buffer = self._buffer
        buffer += data
        if len(buffer) < self._needed:
            return
        position, there = 0, len(buffer)
        self._needed = 0
        while there - position >= 8:
            kind, channel, size = _FRAME.unpack_from(buffer, position)
            if size > self.max_frame - 8:
                raise FrameError(self._too_large(bytes(buffer[position : position + 8]), size))
            end = position + 7 + size
            if end >= there:
                self._needed = end + 1 - position
                break
            if buffer[end] != _END_OCTET:
                raise FrameError(f"a frame ends with {buffer[end]:#04x}, not 0xce")
            yield kind, channel, bytes(buffer[position + 7 : end])
            position = end + 1
        del buffer[:position]

    def _too_large(self, start: bytes, size: int) -> str:
        if start.startswith(b"AMQP"):
            return f"the peer speaks another version of AMQP: {start!r}"
        if start[0] not in _KINDS:
            hint = ": this is TLS, amqp091s:// speaks it" if start.startswith(_TLS) else ""
            return f"the peer does not speak AMQP 0-9-1, it begins with {start!r}{hint}"
        return f"a frame of {size} bytes where {self.max_frame} at most were agreed"


@attrs.define
class Content:
    """A method with content, while its frames come (0-9-1, 4.2.6).

    `arguments` are the payload of the method after class and method; header and body go to `large`
    where they are too large for memory.
    """

    index: int
    arguments: bytes
    header: bytes = b""
    large: Oversized | None = None
    _size: int = -1
    _pieces: list[bytes] = attrs.Factory(list)

    def add(
        self, kind: int, payload: bytes, most: int, overflow: Callable[[], Oversized] | None = None
    ) -> bool:
        """Take a frame; return whether the content is complete.

        A body of more than `most` bytes goes to what `overflow` makes; None refuses it.
        """
        if self._size < 0:
            if kind != HEADER or len(payload) < _CONTENT.size:
                raise FrameError(f"a frame of type {kind} where a content header must come")
            class_id, _, self._size = _CONTENT.unpack_from(payload)
            if class_id != _BASIC:
                raise FrameError(f"content of class {class_id}, where basic is 60")
            if self._size > most:
                if overflow is None:
                    text = f"a message of {self._size} bytes, and {most} at most are taken"
                    raise FrameError(text)
                self.large = overflow()
                self.large.extend(payload)
            self.header = payload
        else:
            if kind != BODY:
                raise FrameError(f"a frame of type {kind} where a body must come")
            self._size -= len(payload)
            if self.large is not None:
                self.large.extend(payload)
            else:
                self._pieces.append(payload)
            if self._size < 0 or not payload:
                raise FrameError("a body that is longer than its content header says, or empty")
        return self._size == 0

    @property
    def body(self) -> bytes:
        """The payload of all body frames."""
        return self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)

    def deliver(self) -> tuple[int, bool, str, str]:
        """Read basic.deliver: delivery-tag, redelivered, exchange, routing-key."""
        try:
            at = 1 + self.arguments[0]
            tag, again = _TAG.unpack_from(self.arguments, at)
            exchange, at = _short(self.arguments, at + _TAG.size)
            return tag, bool(again), exchange, _short(self.arguments, at)[0]
        except (struct.error, IndexError):
            raise FrameError("basic.deliver is cut off") from None

    def returned(self) -> tuple[int, str, str, str]:
        """Read basic.return: reply-code, reply-text, exchange, routing-key."""
        try:
            (code,) = struct.unpack_from(">H", self.arguments)
            text, at = _short(self.arguments, 2)
            exchange, at = _short(self.arguments, at)
            return code, text, exchange, _short(self.arguments, at)[0]
        except (struct.error, IndexError):
            raise FrameError("basic.return is cut off") from None


def _short(octets: bytes, at: int) -> tuple[str, int]:
    end = at + 1 + octets[at]
    if end > len(octets):
        raise IndexError
    return octets[at + 1 : end].decode("utf-8", "surrogateescape"), end


def confirmed(arguments: bytes) -> tuple[int, bool]:
    """Read basic.ack or basic.nack: delivery-tag, multiple."""
    try:
        tag, bits = _TAG.unpack_from(arguments)
    except struct.error:
        raise FrameError("a confirmation is cut off") from None
    return tag, bool(bits & 1)


def ack(channel: int, tag: int, *, multiple: bool = False) -> bytes:
    """Return the frame of a basic.ack."""
    return _ACK.pack(METHOD, channel, 13, _BASIC, 80, tag, multiple, _END_OCTET)


def nack(channel: int, tag: int, *, requeue: bool) -> bytes:
    """Return the frame of a basic.nack for one delivery."""
    return _ACK.pack(METHOD, channel, 13, _BASIC, 120, tag, requeue << 1, _END_OCTET)


def publish(
    channel: int, exchange: str, key: str, header: bytes, body: bytes, max_frame: int
) -> list[Any]:
    """Return the frames of a mandatory basic.publish, whose content header is these very bytes.

    They are pieces, to be joined with those of other messages: a body is copied once.
    """
    most = max_frame - 8
    if len(header) > most:
        raise FrameError(
            f"the content header has {len(header)} bytes, and frames of this broker hold {most}"
        )
    method = _publish(channel, exchange, key)
    size = len(body)
    if 0 < size <= most:
        head, foot = (
            _FRAME.pack(HEADER, channel, len(header)),
            _NEXT.pack(_END_OCTET, BODY, channel, size),
        )
        return [method, head, header, foot, body, _END]
    pieces: list[Any] = [method, _FRAME.pack(HEADER, channel, len(header)), header, _END]
    whole = memoryview(body)
    for at in range(0, size, most):
        piece = whole[at : at + most]
        pieces += [_FRAME.pack(BODY, channel, len(piece)), piece, _END]
    return pieces


@functools.lru_cache(256)
def _publish(channel: int, exchange: str, key: str) -> bytes:
    """Return the frame of the method, which is the same for many messages."""
    names = [name.encode("utf-8", "surrogateescape") for name in (exchange, key)]
    if max(map(len, names)) > 255:
        raise FrameError("the name of an exchange and a routing key have 255 bytes at most")
    said = b"".join(bytes((len(name),)) + name for name in names)
    arguments = b"%b%b\x01" % (_PUBLISH.pack(_BASIC, 40, 0), said)
    return _FRAME.pack(METHOD, channel, len(arguments)) + arguments + _END


def method(channel: int, what: Any) -> bytes:
    """Return the frame of one of pika's methods."""
    made: bytes = Method(channel, what).marshal()
    return made


def decode_method(payload: bytes) -> Any:
    """Read a method by pika's tables."""
    made = spec.methods.get(int.from_bytes(payload[:4], "big"))
    if made is None:
        raise FrameError(f"{payload[:4].hex()} is not a method of 0-9-1")
    try:
        return made().decode(payload, 4)
    except (AMQPError, struct.error, IndexError, ValueError, KeyError, TypeError) as error:
        raise FrameError(f"{made.NAME} cannot be read: {error!r}") from None
