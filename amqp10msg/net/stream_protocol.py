"""A client of RabbitMQ's stream protocol: commands and chunks over a blocking socket.

The commands are those of RabbitMQ's ``deps/rabbitmq_stream/docs/PROTOCOL.adoc``. A connection is
for one thread; nothing is sent or read in the background.
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
from amqp10msg.net.bridge.terms import LinkError
from amqp10msg.net.bridge.urls import Endpoint
from amqp10msg.net.bridge.wire import dialing_error, tls_context
from amqp10msg.net.stream_chunks import MOST

#: Commands, by their keys.
_SUBSCRIBE, _DELIVER, _CREDIT, _UNSUBSCRIBE = 0x07, 0x08, 0x09, 0x0C
_METADATA, _METADATA_UPDATE, _PEER_PROPERTIES = 0x0F, 0x10, 0x11
_SASL_HANDSHAKE, _SASL_AUTHENTICATE, _TUNE, _OPEN = 0x12, 0x13, 0x14, 0x15
_CLOSE, _HEARTBEAT, _PARTITIONS, _STREAM_STATS = 0x16, 0x17, 0x19, 0x1C
_ANSWER = 0x8000
#: Response codes.
_OK, _NO_STREAM, _NOT_AVAILABLE = 0x01, 0x02, 0x06
_MEANINGS = {
    _NO_STREAM: "there is no such stream",
    0x03: "there is such a subscription already",
    0x04: "there is no such subscription",
    _NOT_AVAILABLE: "the stream is not available",
    0x07: "it does not know the mechanism of SASL",
    0x08: "wrong user or password",
    0x09: "it does not take what SASL says",
    0x0B: "this user may connect from the broker's own machine alone",
    0x0C: "there is no such virtual host, or this user may not use it",
    0x0D: "it does not know the command",
    0x0E: "the frame is too large",
    0x0F: "it failed itself",
    0x10: "this user may not read it",
    0x11: "a condition is not met",
}
#: Codes that no other attempt makes good.
_PERMANENT = {_NO_STREAM, 0x07, 0x08, 0x09, 0x0B, 0x0C, 0x10}
#: Where a subscription begins, besides at an offset.
_PLACES = {"first": 1, "last": 2}
_AT_OFFSET = 4
#: Bytes of a frame that has no chunk, where the broker has no limit; of the head of one.
_FRAME_MAX = 1 << 20
_DELIVERY = {1: 1, 2: 9}  # by the version, before the chunk: the subscription, and what is stored
#: Bytes that are read at a time, and for which there is memory before they come.
_READ, _STEP = 1 << 18, 1 << 22
_HEAD = struct.Struct(">IHH")
_U16, _U32, _I64, _U64 = (struct.Struct(form) for form in (">H", ">I", ">q", ">Q"))
_NULL, _NULL_BYTES = 0xFFFF, b"\xff\xff\xff\xff"


@attrs.frozen
class Delivery:
    """A chunk of a subscription."""

    subscription: int
    octets: memoryview = attrs.field(repr=False)


class ElsewhereError(LinkError):
    """The node has no replica of the stream, or none for now: `places` says who may have one."""


class _Fields:
    """What a frame has, field after field; `struct.error` where it ends too early."""

    def __init__(self, octets: memoryview) -> None:
        self._octets = octets
        self._place = 0

    def number(self, form: struct.Struct) -> int:
        (found,) = form.unpack_from(self._octets, self._place)
        self._place += form.size
        return int(found)

    def text(self) -> str:
        size = self.number(_U16)
        if size == _NULL:
            return ""
        stop = self._place + size
        if stop > len(self._octets):
            raise struct.error("a string ends after its frame")
        found = bytes(self._octets[self._place : stop])
        self._place = stop
        return found.decode("utf-8", "replace")

    def each(self) -> range:
        """Return a count of what follows: each takes two bytes at least."""
        count = self.number(_U32)
        if 2 * count > len(self._octets) - self._place:
            raise struct.error("an array ends after its frame")
        return range(count)

    def pairs(self) -> dict[str, str]:
        return {self.text(): self.text() for _ in self.each()}


def _text(text: str) -> bytes:
    octets = text.encode()
    if len(octets) >= 1 << 15:
        raise LinkError(f"{text[:60]!r}… is too long for the stream protocol", permanent=True)
    return _U16.pack(len(octets)) + octets


def _texts(texts: Iterable[str]) -> bytes:
    made = [_text(one) for one in texts]
    return _U32.pack(len(made)) + b"".join(made)


def _pairs(pairs: Mapping[str, str]) -> bytes:
    return _U32.pack(len(pairs)) + b"".join(_text(k) + _text(v) for k, v in pairs.items())


class StreamConnection:
    """A connection that is open for a virtual host.

    What asks raises a `LinkError` where the connection ended, or the broker refuses.

    The version of the broker is empty where it does not say.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.version = ""
        self._advertised = ("", 0)
        self._patience = endpoint.timeout  # seconds of silence
        self._frame_max = _FRAME_MAX
        self._buffer = bytearray(_READ)
        self._held = memoryview(b"")  # what is read of it, and not yet taken
        self._deliveries: deque[Delivery] = deque()  # those that came before an answer
        self._correlation = 0
        self._spoken = False
        self._socket: Any = _dialed(endpoint)
        try:
            with self._plainly():
                self._open()
        except BaseException:
            self.abort()
            raise

    def _open(self) -> None:
        endpoint = self.endpoint
        ours = {"product": "amqp10msg", "version": __version__}
        said = self._ask("it", _PEER_PROPERTIES, _pairs(ours)).pairs()
        self.version = said.get("version", "")
        mechanism = endpoint.mechanism or "PLAIN"
        answer = self._ask("it", _SASL_HANDSHAKE, b"")
        offered = [answer.text() for _ in answer.each()]
        if mechanism not in offered:
            text = f"it takes {', '.join(offered) or 'nothing'} as mechanism of SASL, not"
            raise LinkError(f"{text} {mechanism}", said=True, permanent=True)
        data = _NULL_BYTES
        if mechanism == "PLAIN":
            octets = f"\0{endpoint.user or ''}\0{endpoint.password or ''}".encode()
            data = _U32.pack(len(octets)) + octets
        self._ask("it", _SASL_AUTHENTICATE, _text(mechanism) + data)
        until = time.monotonic() + endpoint.timeout
        while (fields := self._step(until, _TUNE)) is None:
            pass
        frame_max, heartbeat = fields.number(_U32), fields.number(_U32)
        self._frame_max = min(frame_max or _FRAME_MAX, _FRAME_MAX)
        heartbeat = min(heartbeat or endpoint.heartbeat, endpoint.heartbeat)
        self._send(_TUNE, _U32.pack(self._frame_max) + _U32.pack(heartbeat))
        host = endpoint.virtual_host or "/"
        opened = self._ask(f"the virtual host {host!r}", _OPEN, _text(host))
        said = {}
        with contextlib.suppress(struct.error):  # RabbitMQ leaves it out where there are none
            said = opened.pairs()
        port = said.get("advertised_port", "")
        self._advertised = (said.get("advertised_host", ""), int(port) if port.isdigit() else 0)
        self._patience = 2.5 * heartbeat  # the broker beats each of these seconds

    # What is asked for.

    def places(self, stream: str) -> list[Endpoint]:
        """Return where else replicas of a stream are, as the broker says; its leader comes last."""
        fields = self._ask(f"the stream {stream!r}", _METADATA, _texts([stream]), coded=False)
        with self._plainly():
            nodes = {}
            for _ in fields.each():
                node = fields.number(_U16)
                nodes[node] = (fields.text(), fields.number(_U32))
            for _ in fields.each():
                fields.text()
                self._see(f"the stream {stream!r}", fields.number(_U16))
                leader = fields.number(_U16)
                replicas = [fields.number(_U16) for _ in fields.each()]
                found = [nodes[one] for one in (*replicas, leader) if one in nodes]
                return [
                    attrs.evolve(self.endpoint, host=host, port=port, others=())
                    for host, port in dict.fromkeys(found)
                    if (host, port) != self._advertised and 0 < port < 1 << 16
                ]
        return []

    def partitions(self, super_stream: str) -> list[str]:
        """Return the streams of a super stream, in its order."""
        fields = self._ask(f"the super stream {super_stream!r}", _PARTITIONS, _text(super_stream))
        with self._plainly():
            return [fields.text() for _ in fields.each()]

    def stats(self, stream: str) -> dict[str, int]:
        """Return numbers of a stream, such as ``first_chunk_id``; from RabbitMQ 3.11 on."""
        fields = self._ask(f"the stream {stream!r}", _STREAM_STATS, _text(stream))
        with self._plainly():
            return {fields.text(): fields.number(_I64) for _ in fields.each()}

    def subscribe(
        self,
        number: int,
        stream: str,
        start: int | str,
        credit: int,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        """Begin to read a stream.

        The number is 0 to 255. Reading starts in the chunk that holds an offset, or in the
        ``first`` or ``last`` one; so many chunks may come as there is credit. Properties are such
        as ``filter.0``. An `ElsewhereError` says that the node has no replica of the stream.
        """
        if isinstance(start, int):
            begin = _U16.pack(_AT_OFFSET) + _U64.pack(start)
        else:
            begin = _U16.pack(_PLACES[start])
        body = bytes([number]) + _text(stream) + begin + _U16.pack(credit)
        if properties:
            body += _pairs(properties)
        self._ask(f"the stream {stream!r}", _SUBSCRIBE, body)

    def unsubscribe(self, number: int) -> None:
        """End a subscription; what came of it before the answer is still delivered."""
        self._ask(f"the subscription {number}", _UNSUBSCRIBE, bytes([number]))

    def credit(self, number: int, chunks: int) -> None:
        """Let more chunks come."""
        self._send(_CREDIT, bytes([number]) + _U16.pack(chunks))

    def delivery(self, until: float) -> Delivery:
        """Wait for a chunk.

        A `TimeoutError` is raised where none came until then, as `time.monotonic` has it.
        """
        while not self._deliveries:
            self._step(until)
        return self._deliveries.popleft()

    def delivered(self, subscription: int | None = None) -> Delivery | None:
        """Return a chunk that came before an answer; None where there is none.

        Those of other subscriptions stay; of any where None.
        """
        for place, one in enumerate(self._deliveries):
            if subscription in {None, one.subscription}:
                del self._deliveries[place]
                return one
        return None

    def close(self) -> None:
        """Say goodbye, and close."""
        with contextlib.suppress(LinkError, TimeoutError, OSError):
            self._patience = min(self._patience, 1.0)
            self._ask("it", _CLOSE, _U16.pack(_OK) + _text("done"))
        self.abort()

    def abort(self) -> None:
        """Close at once."""
        with contextlib.suppress(OSError):
            self._socket.close()

    # Frames.

    def _ask(self, about: str, command: int, body: bytes, *, coded: bool = True) -> _Fields:
        """Send a request, and return what its answer has after the code of success."""
        self._correlation += 1
        self._send(command, _U32.pack(self._correlation) + body)
        until = time.monotonic() + self.endpoint.timeout
        try:
            while True:
                fields = self._step(until, command | _ANSWER)
                with self._plainly():
                    if fields is None or fields.number(_U32) != self._correlation:
                        continue
                    if coded:
                        self._see(about, fields.number(_U16))
                    return fields
        except TimeoutError:
            raise LinkError(f"no answer within {self.endpoint.timeout:g} s") from None

    @staticmethod
    def _see(about: str, code: int) -> None:
        if code == _OK:
            return
        text = f"{about}: {_MEANINGS.get(code, 'the broker refuses it')} (code {code})"
        kind = ElsewhereError if code == _NOT_AVAILABLE else LinkError
        raise kind(text, said=True, permanent=code in _PERMANENT, missing=code == _NO_STREAM)

    @contextlib.contextmanager
    def _plainly(self) -> Any:
        try:
            yield
        except struct.error:
            raise LinkError("the broker sent a frame that ends too early") from None

    def _send(self, command: int, body: bytes) -> None:
        try:
            self._socket.settimeout(self.endpoint.timeout)
            self._socket.sendall(_HEAD.pack(4 + len(body), command, 1) + body)
        except OSError as error:
            raise LinkError(f"the connection was cut ({error})") from None

    def _step(self, until: float, wanted: int | None = None) -> _Fields | None:
        """Process a frame; return the fields of it where it is of this key."""
        size, key, version = _HEAD.unpack(self._take(_HEAD.size, until))
        if size == int.from_bytes(b"AMQP", "big") and not self._spoken:
            text = "it speaks AMQP there; the plugin rabbitmq_stream listens at another port, 5552"
            raise LinkError(f"{text} usually", said=True, permanent=True)
        self._spoken = True
        most = MOST if key == _DELIVER else self._frame_max
        if not 4 <= size <= most:
            text = f"the broker sent a frame of {size} bytes, of at most {most}"
            if key == _DELIVER:
                text += "; read the stream over AMQP 1.0 instead (amqp://)"
            raise LinkError(text, permanent=key == _DELIVER)
        octets = self._take(size - 4, until)
        if key == _DELIVER:
            place = _DELIVERY.get(version, 0)
            if not 0 < place <= len(octets):
                raise LinkError(f"the broker sent a delivery of version {version}, cut off")
            self._deliveries.append(Delivery(octets[0], octets[place:]))
            return None
        fields = _Fields(octets)
        if key == wanted or (key == _PARTITIONS and wanted == key | _ANSWER):
            return fields  # 3.10 answers thus where there is no such super stream
        with self._plainly():
            if key == _HEARTBEAT:
                self._send(_HEARTBEAT, b"")
            elif key == _METADATA_UPDATE:
                code = fields.number(_U16)
                raise LinkError(f"the stream {fields.text()!r} was deleted or moved (code {code})")
            elif key == _CLOSE:
                self._closed(fields)
            elif key == _CREDIT | _ANSWER:
                self._see("a subscription", fields.number(_U16))
        return None

    def _closed(self, fields: _Fields) -> NoReturn:
        answer = _U32.pack(fields.number(_U32)) + _U16.pack(_OK)
        code, why = fields.number(_U16), fields.text()
        with contextlib.suppress(LinkError):
            self._send(_CLOSE | _ANSWER, answer)
        raise LinkError(f"the broker closes the connection: {why} (code {code})", said=True)

    # Bytes.

    def _take(self, size: int, until: float) -> memoryview:
        """Return so many bytes; memory is taken as they come."""
        if size <= len(self._held):
            found, self._held = self._held[:size], self._held[size:]
            return memoryview(bytes(found))
        made = bytearray(min(size, _STEP))
        have = len(self._held)
        made[:have] = self._held
        self._held = memoryview(b"")
        while have < size:
            if have == len(made):
                made.extend(bytes(min(size - have, have)))
            if size - have < _READ:
                came = self._receive(memoryview(self._buffer), until)
                used = min(came, size - have)
                made[have : have + used] = memoryview(self._buffer)[:used]
                self._held = memoryview(self._buffer)[used:came]
                have += used
            else:
                with memoryview(made) as view, view[have:] as rest:
                    have += self._receive(rest, until)
        return memoryview(made)

    def _receive(self, into: memoryview, until: float) -> int:
        left = until - time.monotonic()
        try:
            self._socket.settimeout(max(min(left, self._patience), 0.001))
            came: int = self._socket.recv_into(into)
        except TimeoutError:
            if left <= self._patience:
                raise
            raise LinkError(f"nothing came for {self._patience:g} s") from None
        except OSError as error:
            raise LinkError(f"the connection was cut ({error}){self._hint()}") from None
        if not came:
            raise LinkError(f"the connection was cut{self._hint()}")
        return came

    def _hint(self) -> str:
        """Say what a peer may mean that silently ends a connection."""
        if self._spoken:
            return ""
        return " before the peer said anything" + ("" if self.endpoint.tls else "; by TLS?")


def _dialed(at: Endpoint) -> Any:
    """Connect."""
    context = tls_context(at)
    made: Any = None
    try:
        made = socket.create_connection((at.host, at.port), timeout=at.timeout)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if isinstance(context, ssl.SSLContext):
            made = context.wrap_socket(made, server_hostname=at.server_name or at.host)
    except OSError as error:
        if made is not None:
            made.close()
        raise dialing_error(error, at) from None
    return made
