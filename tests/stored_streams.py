"""A server of RabbitMQ's stream protocol, which does wrong what it is told to."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import attrs

__all__ = ["ChunkServer", "Stored", "chunk", "entry", "serving", "sub_batch"]

SUBSCRIBE, CREDIT, UNSUBSCRIBE, METADATA, PEER = 7, 9, 12, 15, 17
SASL, AUTHENTICATE, TUNE, OPEN, CLOSE, HEARTBEAT = 18, 19, 20, 21, 22, 23
PARTITIONS, STATS = 25, 28
OK, MISSING, UNAVAILABLE, REFUSED = 1, 2, 6, 8


def entry(octets: bytes) -> bytes:
    return struct.pack(">I", len(octets)) + octets


def sub_batch(messages: Sequence[bytes], how: int, octets: bytes) -> bytes:
    """Return a batch, whose messages are compressed to these bytes."""
    plain = sum(4 + len(one) for one in messages)
    return struct.pack(">BHII", 0x80 | how << 4, len(messages), plain, len(octets)) + octets


def chunk(
    first: int,
    built: Sequence[bytes],
    count: int | None = None,
    /,
    *,
    kind: int = 0,
    timestamp: int = 1_700_000_000_000,
    **wrong: int,
) -> bytes:
    """Return a chunk as Osiris has it, in which `wrong` says something else than what is so."""
    data = b"".join(built)
    head: dict[str, Any] = {
        "magic": 0x50,
        "kind": kind,
        "entries": len(built),
        "records": len(built) if count is None else count,
        "timestamp": timestamp,
        "epoch": 1,
        "first": first,
        "crc": zlib.crc32(data),
        "size": len(data),
        "trailer": 0,
    }
    return struct.pack(">BBHIqQQIII4x", *(head | wrong).values()) + data


@attrs.define
class Stored:
    """A stream: chunks by their first offsets, with their ends.

    Attributes:
        chunks: first offset, the one after the last, and bytes.
        missing: whether there is no such stream any more.
        hides: chunks from this offset on are not delivered.
        skips: with filter values, chunks that do not have any, by their first offsets.
        cuts: bytes of a delivery after which the connection is cut, once for each.
        frames: sent before a delivery, once for each.
        first: what the numbers of the stream say.
        early: chunks by which a subscription at a time begins too early.
        empty_answers: subscriptions at a time that find no chunk, although there is one.
    """

    chunks: list[tuple[int, int, bytes]] = attrs.Factory(list)
    missing: bool = False
    hides: int | None = None
    skips: set[int] = attrs.Factory(set)
    cuts: list[int] = attrs.Factory(list)
    frames: list[bytes] = attrs.Factory(list)
    first: int | None = None
    early: int = 0
    empty_answers: int = 0

    def publish(
        self,
        messages: Sequence[bytes],
        size: int = 10,
        start: int | None = None,
        timestamp: int = 1_700_000_000_000,
    ) -> None:
        """Add messages, in chunks of so many."""
        first = (self.chunks[-1][1] if self.chunks else 0) if start is None else start
        for at in range(0, len(messages), size):
            part = messages[at : at + size]
            octets = chunk(first + at, list(map(entry, part)), timestamp=timestamp)
            self.add(first + at, len(part), octets)

    def add(self, first: int, count: int, octets: bytes) -> None:
        self.chunks.append((first, first + count, octets))

    def begin(self, kind: int, offset: int) -> int:
        """Return the place of the chunk where a subscription begins."""
        if kind == 1:
            return 0
        if kind == 2:
            return max(len(self.chunks) - 1, 0)
        if kind == 5:
            if self.empty_answers:
                self.empty_answers -= 1
                return len(self.chunks)
            times = [struct.unpack_from(">q", octets, 8)[0] for *_, octets in self.chunks]
            later = [n for n, time in enumerate(times) if time >= offset]
            return max(later[0] - self.early, 0) if later else len(self.chunks)
        there = [n for n, (_, stop, _) in enumerate(self.chunks) if stop > offset]
        return there[0] if there else len(self.chunks)


class ChunkServer:
    """Streams by their names, at a port of its own."""

    def __init__(self, **streams: Stored) -> None:
        self.streams = streams
        self.super_streams: dict[str, list[str]] = {}
        self.version = "4.0.5"
        self.has_replicas = True
        self.elsewhere: list[tuple[str, int]] = []
        self.port = 0
        self.connections = 0
        self.sent = 0  # chunks
        self.heard: list[int] = []
        self.banner = b""
        self.changed: Callable[[int, bytes], bytes] = lambda _, body: body  # what it answers
        self._sockets: set[socket.socket] = set()

    @property
    def url(self) -> str:
        return f"rabbitmq-stream://me:secret@127.0.0.1:{self.port}"

    def cut(self) -> None:
        for one in list(self._sockets):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def serve(self, listener: socket.socket) -> None:
        while True:
            try:
                peer, _ = listener.accept()
            except OSError:
                return
            self.connections += 1
            self._sockets.add(peer)
            threading.Thread(target=self._serve, args=(peer,), daemon=True).start()

    def _serve(self, peer: socket.socket) -> None:
        with contextlib.suppress(OSError, struct.error), peer:
            if self.banner:
                peer.sendall(self.banner)
            _Peer(self, peer).run()
        self._sockets.discard(peer)


def text(one: str) -> bytes:
    return struct.pack(">H", len(one.encode())) + one.encode()


class _Peer:
    def __init__(self, server: ChunkServer, peer: socket.socket) -> None:
        self.server = server
        self.socket = peer
        self.file = peer.makefile("rb")
        self.subscriptions: dict[int, list[Any]] = {}  # stream, next chunk, credit, filtered

    def run(self) -> None:
        while (head := self.file.read(8)) and len(head) == 8:
            size, key, _ = struct.unpack(">IHH", head)
            body = self.file.read(size - 4)
            self.server.heard.append(key)
            if key in {CREDIT, TUNE, HEARTBEAT} or key & 0x8000:
                if key == CREDIT:
                    number, credit = struct.unpack(">BH", body)
                    if number in self.subscriptions:
                        self.subscriptions[number][2] += credit
                        self.deliver(number)
                continue
            self.answer(key, body[:4], body[4:])

    def send(self, key: int, body: bytes) -> None:
        body = self.server.changed(key, body)
        self.socket.sendall(struct.pack(">IHH", 4 + len(body), key, 1) + body)

    def answer(self, key: int, mark: bytes, body: bytes) -> None:
        server, code, more = self.server, OK, b""
        if key == PEER:
            more = struct.pack(">I", 1) + text("version") + text(server.version)
        elif key == SASL:
            more = struct.pack(">I", 1) + text("PLAIN")
        elif key == AUTHENTICATE:
            if not body.endswith(b"\0me\0secret"):
                code = REFUSED
        elif key == OPEN:
            more = struct.pack(">I", 1) + text("advertised_port") + text(str(server.port))
        elif key == METADATA:
            self.send(key | 0x8000, mark + self.metadata(body[6:].decode()))
            return
        elif key == PARTITIONS:
            found = server.super_streams.get(body[2:].decode())
            code = MISSING if found is None else OK
            more = struct.pack(">I", len(found or [])) + b"".join(map(text, found or []))
        elif key == STATS:
            stream = server.streams.get(body[2:].decode(), Stored(missing=True))
            code = MISSING if stream.missing else OK
            first = stream.chunks[0][0] if stream.chunks else -1
            first = first if stream.first is None else stream.first
            more = struct.pack(">I", 1) + text("first_chunk_id") + struct.pack(">q", first)
        elif key == SUBSCRIBE:
            self.subscribe(mark, body)
            return
        elif key == UNSUBSCRIBE:
            self.subscriptions.pop(body[0])
        # So does 3.10, where there is no such super stream.
        bare = key == PARTITIONS and code != OK and server.version.startswith("3.10.")
        self.send(key if bare else key | 0x8000, mark + struct.pack(">H", code) + more)
        if key == AUTHENTICATE and code == OK:
            self.send(TUNE, struct.pack(">II", 1 << 20, 60))

    def metadata(self, name: str) -> bytes:
        places = self.server.elsewhere
        made = struct.pack(">I", len(places))
        for number, (host, port) in enumerate(places):
            made += struct.pack(">H", number) + text(host) + struct.pack(">I", port)
        code = OK if name in self.server.streams else MISSING
        made += struct.pack(">I", 1) + text(name) + struct.pack(">HH", code, 0xFFFF)
        return made + struct.pack(f">I{len(places)}H", len(places), *range(len(places)))

    def subscribe(self, mark: bytes, body: bytes) -> None:
        number, size = struct.unpack(">BH", body[:3])
        stream = self.server.streams.get(body[3 : 3 + size].decode(), Stored(missing=True))
        rest = body[3 + size :]
        (kind,) = struct.unpack_from(">H", rest)
        offset = struct.unpack_from(">q", rest, 2)[0] if kind in {4, 5} else 0
        place = 10 if kind in {4, 5} else 2
        (credit,) = struct.unpack_from(">H", rest, place)
        code = MISSING if stream.missing else OK if self.server.has_replicas else UNAVAILABLE
        self.send(SUBSCRIBE | 0x8000, mark + struct.pack(">H", code))
        if code == OK:
            filtered = b"filter.0" in rest[place + 2 :]
            self.subscriptions[number] = [stream, stream.begin(kind, offset), credit, filtered]
            self.deliver(number)

    def deliver(self, number: int) -> None:
        """Send what there is, as far as the credit goes."""
        state = self.subscriptions[number]
        stream: Stored = state[0]
        while state[2] and state[1] < len(stream.chunks):
            first, _, octets = stream.chunks[state[1]]
            if stream.hides is not None and first >= stream.hides:
                return
            state[1] += 1
            if state[3] and first in stream.skips:
                continue
            if stream.frames:
                self.socket.sendall(stream.frames.pop(0))
            state[2] -= 1
            if stream.cuts:
                whole = struct.pack(">IHHB", 5 + len(octets), 8, 1, number) + octets
                self.socket.sendall(whole[: stream.cuts.pop(0)])
                raise ConnectionResetError
            self.send(8, bytes([number]) + octets)
            self.server.sent += 1


@contextlib.contextmanager
def serving(server: ChunkServer) -> Iterator[ChunkServer]:
    """Run a server in threads."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server.port = listener.getsockname()[1]
        thread = threading.Thread(target=server.serve, args=(listener,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            server.cut()
    thread.join(5)
