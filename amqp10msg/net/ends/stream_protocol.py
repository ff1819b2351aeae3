"""A client of RabbitMQ's stream protocol: sends commands and receives chunks on a blocking socket.

RabbitMQ's ``deps/rabbitmq_stream/docs/PROTOCOL.adoc`` defines the commands. A connection is for a
single thread, and uses the socket only while one of its methods runs.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
import time
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

import attrs

from amqp10msg import __version__
from amqp10msg.net.ends.stream_chunks import MAX_CHUNK
from amqp10msg.net.ends.terms import LinkError
from amqp10msg.net.ends.urls import Endpoint
from amqp10msg.net.ends.wire import dialing_error, tls_context
from amqp10msg.wire.primitives import Timestamp

#: Keys of the commands, which identify them in frames.
_SUBSCRIBE, _DELIVER, _CREDIT, _UNSUBSCRIBE = 0x07, 0x08, 0x09, 0x0C
_METADATA, _METADATA_UPDATE, _PEER_PROPERTIES = 0x0F, 0x10, 0x11
_SASL_HANDSHAKE, _SASL_AUTHENTICATE, _TUNE, _OPEN = 0x12, 0x13, 0x14, 0x15
_CLOSE, _HEARTBEAT, _PARTITIONS, _STREAM_STATS = 0x16, 0x17, 0x19, 0x1C
#: This bit is set in the key of a response.
_RESPONSE_FLAG = 0x8000
#: Response codes.
_OK, _NO_STREAM, _NOT_AVAILABLE = 0x01, 0x02, 0x06
_RESPONSE_CODE_TEXTS = {
    _NO_STREAM: "the stream does not exist",
    0x03: "the subscription exists already",
    0x04: "the subscription does not exist",
    _NOT_AVAILABLE: "the stream is not available",
    0x07: "the broker does not support the SASL mechanism",
    0x08: "wrong user or password",
    0x09: "the broker refused the SASL response",
    0x0B: "this user may connect only from the broker's own machine",
    0x0C: "the virtual host does not exist, or this user has no access to it",
    0x0D: "the broker does not know the command",
    0x0E: "the frame is too large",
    0x0F: "internal error of the broker",
    0x10: "this user may not read the stream",
    0x11: "precondition failed",
}
#: Response codes that a retry cannot fix.
_PERMANENT_RESPONSE_CODES = {_NO_STREAM, 0x07, 0x08, 0x09, 0x0B, 0x0C, 0x10}
#: Codes for the start of a subscription, which is the first chunk, the last chunk, an offset, or a
#: time.
_OFFSET_TYPES = {"first": 1, "last": 2}
_AT_OFFSET, _AT_TIME = 4, 5
#: Maximum size of a frame without a chunk, in bytes, unless the broker's limit is lower.
_FRAME_MAX = 1 << 20
#: Number of bytes before the chunk in a delivery, by the version of the command. They contain the
#: number of the subscription, and in version 2 also the committed chunk id.
_DELIVERY_HEADER_SIZES = {1: 1, 2: 9}
#: Size of one read from the socket, and maximum first size of the buffer for a frame, in bytes.
_READ_SIZE, _FIRST_BUFFER_SIZE = 1 << 18, 1 << 22
#: The frame header. Its fields are size, command key and command version.
_FRAME_HEADER = struct.Struct(">IHH")
_U16, _U32, _I64, _U64 = (struct.Struct(form) for form in (">H", ">I", ">q", ">Q"))
#: The length of a null string, and the encoded length of a null byte array.
_NULL_LENGTH, _NULL_BYTES = 0xFFFF, b"\xff\xff\xff\xff"


@attrs.frozen
class Delivery:
    """An encoded chunk, and the number of the subscription for which it was received."""

    subscription: int
    octets: memoryview = attrs.field(repr=False)


class ElsewhereError(LinkError):
    """The node has no available replica of the stream.

    `StreamConnection.replicas` returns other nodes to try.
    """


class _Fields:
    """Reads the fields of a frame; raises `struct.error` if the frame is truncated."""

    def __init__(self, octets: memoryview) -> None:
        self._octets = octets
        self._position = 0

    def number(self, form: struct.Struct) -> int:
        """Read an integer with the encoding `form`, such as `_U16`."""
        (value,) = form.unpack_from(self._octets, self._position)
        self._position += form.size
        return int(value)

    def text(self) -> str:
        """Read a string; empty for null."""
        size = self.number(_U16)
        if size == _NULL_LENGTH:
            return ""
        stop = self._position + size
        if stop > len(self._octets):
            raise struct.error("a string exceeds its frame")
        text = bytes(self._octets[self._position : stop]).decode("utf-8", "replace")
        self._position = stop
        return text

    def array_range(self) -> range:
        """Read the length of an array, and return a range of that length.

        Raises `struct.error` if the frame is too short for the array: an item has at least two
        bytes.
        """
        count = self.number(_U32)
        if 2 * count > len(self._octets) - self._position:
            raise struct.error("an array exceeds its frame")
        return range(count)

    def pairs(self) -> dict[str, str]:
        """Read an array of pairs of strings as a dict."""
        return {self.text(): self.text() for _ in self.array_range()}


def _encoded_text(text: str) -> bytes:
    """Encode a string with its length."""
    octets = text.encode()
    if len(octets) >= 1 << 15:
        raise LinkError(f"{text[:60]!r}… exceeds 32,767 bytes", permanent=True)
    return _U16.pack(len(octets)) + octets


def _encoded_texts(texts: Iterable[str]) -> bytes:
    """Encode an array of strings."""
    encoded = [_encoded_text(text) for text in texts]
    return _U32.pack(len(encoded)) + b"".join(encoded)


def _encoded_pairs(pairs: Mapping[str, str]) -> bytes:
    """Encode a dict as an array of pairs of strings."""
    return _U32.pack(len(pairs)) + b"".join(
        _encoded_text(k) + _encoded_text(v) for k, v in pairs.items()
    )


class StreamConnection:
    """An open connection to a virtual host of a broker.

    Requests raise `LinkError` if the connection ended or the broker refused the request.

    Args:
        endpoint: the broker, the credentials and the virtual host.

    Attributes:
        endpoint: the broker, the credentials and the virtual host.
        version: the version of the broker; empty if unknown.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.version = ""
        self._advertised = ("", 0)  # host and port of this node, as the broker's metadata names it
        self._max_silence = endpoint.timeout  # a read fails after this many seconds without a byte
        self._frame_max = _FRAME_MAX
        self._buffer = bytearray(_READ_SIZE)
        self._unread = memoryview(b"")  # the part of `_buffer` that was not consumed yet
        self._deliveries: deque[Delivery] = deque()  # received, but not returned yet
        self._correlation_id = 0  # of the last request
        self._has_answered = False  # whether the peer has sent a frame header
        self._socket: Any = _connected_socket(endpoint)
        try:
            with self._checking_frames():
                self._open()
        except BaseException:
            self.abort()
            raise

    def _open(self) -> None:
        """Authenticate, negotiate the limits, and open the virtual host."""
        endpoint = self.endpoint
        client = {"product": "amqp10msg", "version": __version__}
        server = self._request("the broker", _PEER_PROPERTIES, _encoded_pairs(client)).pairs()
        self.version = server.get("version", "")
        mechanism = endpoint.mechanism or "PLAIN"
        response = self._request("the broker", _SASL_HANDSHAKE, b"")
        offered = [response.text() for _ in response.array_range()]
        if mechanism not in offered:
            text = f"the broker offers the SASL mechanisms {', '.join(offered) or '(none)'}, not"
            raise LinkError(f"{text} {mechanism}", sent_by_peer=True, permanent=True)
        data = _NULL_BYTES
        if mechanism == "PLAIN":
            octets = f"\0{endpoint.user or ''}\0{endpoint.password or ''}".encode()
            data = _U32.pack(len(octets)) + octets
        self._request("the broker", _SASL_AUTHENTICATE, _encoded_text(mechanism) + data)
        until = time.monotonic() + endpoint.timeout
        while (fields := self._step(until, _TUNE)) is None:
            pass
        frame_max, heartbeat = fields.number(_U32), fields.number(_U32)
        self._frame_max = min(frame_max or _FRAME_MAX, _FRAME_MAX)
        heartbeat = min(heartbeat or endpoint.heartbeat, endpoint.heartbeat)
        self._send(_TUNE, _U32.pack(self._frame_max) + _U32.pack(heartbeat))
        host = endpoint.virtual_host or "/"
        opened = self._request(f"the virtual host {host!r}", _OPEN, _encoded_text(host))
        properties = {}
        with contextlib.suppress(struct.error):  # RabbitMQ omits an empty map
            properties = opened.pairs()
        port = properties.get("advertised_port", "")
        advertised_host = properties.get("advertised_host", "")
        self._advertised = (advertised_host, int(port) if port.isdigit() else 0)
        self._max_silence = 2.5 * heartbeat  # the broker sends a heartbeat in every interval

    # Requests.

    def replicas(self, stream: str) -> list[Endpoint]:
        """Return the other nodes that have a replica of a stream; the stream's leader is last."""
        fields = self._request(
            f"the stream {stream!r}", _METADATA, _encoded_texts([stream]), has_code=False
        )
        with self._checking_frames():
            nodes = {}
            for _ in fields.array_range():
                node = fields.number(_U16)
                nodes[node] = (fields.text(), fields.number(_U32))
            for _ in fields.array_range():
                fields.text()
                self._check_code(f"the stream {stream!r}", fields.number(_U16))
                leader = fields.number(_U16)
                replicas = [fields.number(_U16) for _ in fields.array_range()]
                addresses = [nodes[node] for node in (*replicas, leader) if node in nodes]
                return [
                    attrs.evolve(self.endpoint, host=host, port=port, others=())
                    for host, port in dict.fromkeys(addresses)
                    if (host, port) != self._advertised and 0 < port < 1 << 16
                ]
        return []

    def partitions(self, super_stream: str) -> list[str]:
        """Return the names of a super stream's partitions, in order."""
        subject = f"the super stream {super_stream!r}"
        fields = self._request(subject, _PARTITIONS, _encoded_text(super_stream))
        with self._checking_frames():
            return [fields.text() for _ in fields.array_range()]

    def stats(self, stream: str) -> dict[str, int]:
        """Return statistics of a stream, such as ``first_chunk_id``; RabbitMQ 3.11 or later."""
        fields = self._request(f"the stream {stream!r}", _STREAM_STATS, _encoded_text(stream))
        with self._checking_frames():
            return {fields.text(): fields.number(_I64) for _ in fields.array_range()}

    def subscribe(
        self,
        number: int,
        stream: str,
        start: int | str,
        credit: int,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        """Begin to read a stream.

        Args:
            number: the number of the subscription, 0 to 255.
            stream: the name of the stream.
            start: an offset, to begin with the chunk that contains the offset; ``first`` or
                ``last``, to begin with the first or the last chunk; or a Timestamp, to begin with
                the first chunk that the broker stored at this time or later.
            credit: how many chunks the broker may send.
            properties: properties of the subscription, such as ``filter.0``.

        Raises:
            ElsewhereError: the node has no replica of the stream.
        """
        if isinstance(start, Timestamp):
            begin = _U16.pack(_AT_TIME) + _I64.pack(start)
        elif isinstance(start, int):
            begin = _U16.pack(_AT_OFFSET) + _U64.pack(start)
        else:
            begin = _U16.pack(_OFFSET_TYPES[start])
        body = bytes([number]) + _encoded_text(stream) + begin + _U16.pack(credit)
        if properties:
            body += _encoded_pairs(properties)
        self._request(f"the stream {stream!r}", _SUBSCRIBE, body)

    def unsubscribe(self, number: int) -> None:
        """End a subscription; the chunks received before the response stay buffered."""
        self._request(f"the subscription {number}", _UNSUBSCRIBE, bytes([number]))

    def credit(self, number: int, chunks: int) -> None:
        """Allow the broker to send this many more chunks."""
        self._send(_CREDIT, bytes([number]) + _U16.pack(chunks))

    def delivery(self, until: float) -> Delivery:
        """Wait for a chunk and return it.

        Raises:
            TimeoutError: no chunk was received until `until`, a time of `time.monotonic`.
        """
        while not self._deliveries:
            self._step(until)
        return self._deliveries.popleft()

    def buffered_delivery(self, subscription: int | None = None) -> Delivery | None:
        """Return the first chunk that was already received, or None, without reading the socket.

        Args:
            subscription: the number of the chunk's subscription; None for any subscription.
        """
        for position, delivery in enumerate(self._deliveries):
            if subscription in {None, delivery.subscription}:
                del self._deliveries[position]
                return delivery
        return None

    def close(self) -> None:
        """Send a close request, then close the socket."""
        with contextlib.suppress(LinkError, TimeoutError, OSError):
            self._max_silence = min(self._max_silence, 1.0)
            self._request("the broker", _CLOSE, _U16.pack(_OK) + _encoded_text("done"))
        self.abort()

    def abort(self) -> None:
        """Close the socket immediately."""
        with contextlib.suppress(OSError):
            self._socket.close()

    # Frames.

    def _request(
        self, subject: str, command: int, body: bytes, *, has_code: bool = True
    ) -> _Fields:
        """Send a request; return a reader of the response's fields after the response code.

        Args:
            subject: what the request is about, such as "the stream 's'", for error messages.
            command: the key of the command.
            body: the encoded fields after the correlation id.
            has_code: whether the response begins with a response code.
        """
        self._correlation_id += 1
        self._send(command, _U32.pack(self._correlation_id) + body)
        until = time.monotonic() + self.endpoint.timeout
        try:
            while True:
                fields = self._step(until, command | _RESPONSE_FLAG)
                with self._checking_frames():
                    if fields is None or fields.number(_U32) != self._correlation_id:
                        continue
                    if has_code:
                        self._check_code(subject, fields.number(_U16))
                    return fields
        except TimeoutError:
            raise LinkError(f"no response within {self.endpoint.timeout:g} s") from None

    @staticmethod
    def _check_code(subject: str, code: int) -> None:
        """Raise LinkError if the response code is an error."""
        if code == _OK:
            return
        text = f"{subject}: {_RESPONSE_CODE_TEXTS.get(code, 'the broker refused it')} (code {code})"
        kind = ElsewhereError if code == _NOT_AVAILABLE else LinkError
        raise kind(
            text,
            sent_by_peer=True,
            permanent=code in _PERMANENT_RESPONSE_CODES,
            missing=code == _NO_STREAM,
        )

    @contextlib.contextmanager
    def _checking_frames(self) -> Any:
        """In this context, raise LinkError instead of the struct.error of a truncated frame."""
        try:
            yield
        except struct.error:
            raise LinkError("the broker sent a truncated frame") from None

    def _send(self, command: int, body: bytes) -> None:
        """Send a frame."""
        try:
            self._socket.settimeout(self.endpoint.timeout)
            self._socket.sendall(_FRAME_HEADER.pack(4 + len(body), command, 1) + body)
        except OSError as error:
            raise LinkError(f"the connection was cut ({error})") from None

    def _step(self, until: float, expected: int | None = None) -> _Fields | None:
        """Receive and process a frame; return its fields if its key is `expected`, else None."""
        size, key, version = _FRAME_HEADER.unpack(self._read(_FRAME_HEADER.size, until))
        if size == int.from_bytes(b"AMQP", "big") and not self._has_answered:
            text = (
                "this port speaks AMQP; the plugin rabbitmq_stream has another port, usually 5552"
            )
            raise LinkError(text, sent_by_peer=True, permanent=True)
        self._has_answered = True
        limit = MAX_CHUNK if key == _DELIVER else self._frame_max
        if not 4 <= size <= limit:
            text = f"the broker sent a frame of {size} bytes, the limit is {limit}"
            if key == _DELIVER:
                text += "; read the stream over AMQP 1.0 instead (amqp://)"
            raise LinkError(text, permanent=key == _DELIVER)
        octets = self._read(size - 4, until)
        if key == _DELIVER:
            start = _DELIVERY_HEADER_SIZES.get(version, 0)
            if not 0 < start <= len(octets):
                text = f"the broker sent a truncated delivery, or its version {version} is unknown"
                raise LinkError(text)
            self._deliveries.append(Delivery(octets[0], octets[start:]))
            return None
        fields = _Fields(octets)
        if key == expected or (key == _PARTITIONS and expected == key | _RESPONSE_FLAG):
            # RabbitMQ 3.10 omits the response bit in the response for an unknown super stream.
            return fields
        with self._checking_frames():
            if key == _HEARTBEAT:
                self._send(_HEARTBEAT, b"")
            elif key == _METADATA_UPDATE:
                code = fields.number(_U16)
                raise LinkError(f"the stream {fields.text()!r} was deleted or moved (code {code})")
            elif key == _CLOSE:
                self._on_close(fields)
            elif key == _CREDIT | _RESPONSE_FLAG:
                self._check_code("a subscription", fields.number(_U16))
        return None

    def _on_close(self, fields: _Fields) -> NoReturn:
        """Answer the broker's close request, and raise LinkError with the request's reason."""
        response = _U32.pack(fields.number(_U32)) + _U16.pack(_OK)
        code, reason = fields.number(_U16), fields.text()
        with contextlib.suppress(LinkError):
            self._send(_CLOSE | _RESPONSE_FLAG, response)
        raise LinkError(
            f"the broker closed the connection: {reason} (code {code})", sent_by_peer=True
        )

    # Bytes.

    def _read(self, size: int, until: float) -> memoryview:
        """Read exactly `size` bytes.

        The buffer grows as bytes arrive, because the broker may send fewer bytes than it announced.
        """
        if size <= len(self._unread):
            octets, self._unread = self._unread[:size], self._unread[size:]
            return memoryview(bytes(octets))
        buffer = bytearray(min(size, _FIRST_BUFFER_SIZE))
        length = len(self._unread)
        buffer[:length] = self._unread
        self._unread = memoryview(b"")
        while length < size:
            if length == len(buffer):
                buffer.extend(bytes(min(size - length, length)))
            if size - length < _READ_SIZE:
                count = self._receive(memoryview(self._buffer), until)
                used = min(count, size - length)
                buffer[length : length + used] = memoryview(self._buffer)[:used]
                self._unread = memoryview(self._buffer)[used:count]
                length += used
            else:
                with memoryview(buffer) as view, view[length:] as unfilled:
                    length += self._receive(unfilled, until)
        return memoryview(buffer)

    def _receive(self, buffer: memoryview, until: float) -> int:
        """Receive bytes into `buffer`; return their number, at least 1."""
        remaining = until - time.monotonic()
        try:
            self._socket.settimeout(max(min(remaining, self._max_silence), 0.001))
            count: int = self._socket.recv_into(buffer)
        except TimeoutError:
            if remaining <= self._max_silence:
                raise
            raise LinkError(f"no byte was received for {self._max_silence:g} s") from None
        except OSError as error:
            raise LinkError(f"the connection was cut ({error}){self._cut_hint()}") from None
        if not count:
            raise LinkError(f"the connection was cut{self._cut_hint()}")
        return count

    def _cut_hint(self) -> str:
        """Return a hint for the error text of a cut connection; empty if the peer sent a frame."""
        if self._has_answered:
            return ""
        return " before the peer sent anything" + (
            "" if self.endpoint.tls else "; does it use TLS?"
        )


def _connected_socket(endpoint: Endpoint) -> Any:
    """Return a socket that is connected to `endpoint`, with TLS if the endpoint uses TLS."""
    context = tls_context(endpoint)
    stream: Any = None
    try:
        address = endpoint.host, endpoint.port
        stream = socket.create_connection(address, timeout=endpoint.timeout)
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if isinstance(context, ssl.SSLContext):
            name = endpoint.server_name or endpoint.host
            stream = context.wrap_socket(stream, server_hostname=name)
    except OSError as error:
        if stream is not None:
            stream.close()
        raise dialing_error(error, endpoint) from None
    return stream
