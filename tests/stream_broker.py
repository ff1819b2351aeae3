"""A broker of AMQP 1.0 with streams as RabbitMQ has them, which does wrong what it is told to."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

import attrs

from amqp10msg import Message, Timestamp
from amqp10msg.composite import Error, from_described
from amqp10msg.delivery import Source
from amqp10msg.delivery.filters import StreamFilter
from amqp10msg.net import transport
from amqp10msg.wire.primitives import Symbol
from tests.amqp10_broker import Broker, Peer, running

__all__ = ["Stream", "StreamBroker", "StreamPeer", "StreamReader", "running"]

SPEC, VALUES = "rabbitmq:stream-offset-spec", "rabbitmq:stream-filter"
UNFILTERED = "rabbitmq:stream-match-unfiltered"


@attrs.define
class Stream:
    """Messages by their offsets, which may have holes.

    Attributes:
        messages: encoded, without what the broker adds.
        chunk: messages of a chunk: ``last`` begins with one, and filter values are looked for in
            whole ones.
        stalls: from this offset on nothing is delivered.
        cuts: the connection is cut after so many messages, once for each number.
        excess: messages that are sent beyond the credit.
        times: when the broker got a message, in ms, by its offset. A chunk has the time of its last
            message.
        has_times: whether the broker adds the time to a message.
    """

    messages: dict[int, bytes] = attrs.Factory(dict)
    chunk: int = 50
    stalls: int | None = None
    cuts: list[int] = attrs.Factory(list)
    excess: int = 0
    times: dict[int, int] = attrs.Factory(dict)
    has_times: bool = False

    def publish(self, *messages: Message, at: int | None = None) -> None:
        for message in messages:
            offset = max(self.messages, default=-1) + 1 if at is None else at
            self.messages[offset] = message.encode()

    def retain(self, first: int) -> None:
        """Remove what is before an offset."""
        for offset in [one for one in self.messages if one < first]:
            del self.messages[offset]

    def delivered(self, offset: int) -> bytes:
        message = Message.decode(self.messages[offset])
        said = {**(message.message_annotations or {}), "x-stream-offset": offset}
        if self.has_times:
            said["x-opt-rabbitmq-received-time"] = Timestamp(self.times[offset])
        return message.evolve(message_annotations=said).encode()

    def start(self, spec: Any) -> int:
        there = sorted(self.messages)
        if isinstance(spec, Timestamp):
            # RabbitMQ rounds down to seconds.
            late = [one for one in there if self.times[one] >= spec // 1000 * 1000]
            if late:
                return late[0] - late[0] % self.chunk
            spec = "next"
        if spec == "first":
            return 0
        if spec == "next":
            return there[-1] + 1 if there else 0
        if spec == "last":
            return there[-self.chunk :][0] if there else 0
        return int(spec)

    def chunk_has(self, offset: int, values: tuple[str, ...], *, unfiltered: bool) -> bool:
        begin = offset - offset % self.chunk
        wanted = StreamFilter(values)
        octets = (self.messages.get(one) for one in range(begin, begin + self.chunk))
        chunk = [Message.decode(one) for one in octets if one is not None]
        return any(
            wanted.matches(one) or (unfiltered and wanted.is_unfiltered(one)) for one in chunk
        )


class StreamBroker(Broker):
    """Streams by their names.

    Attributes:
        agrees: whether it says that it reads by the filters that it is asked for.
        version: of RabbitMQ. 3 decodes ``%2F`` alone in an address, and 4 all that is encoded.
    """

    def __init__(self, **streams: Stream) -> None:
        super().__init__(StreamPeer)
        self.streams = streams
        self.agrees = True
        self.version = "4.0.0"

    def name_in(self, address: str) -> str:
        if self.version.startswith("3."):
            return address.removeprefix("/amq/queue/").replace("%2F", "/")
        return unquote(address.removeprefix("/queues/"))


class StreamReader:
    def __init__(
        self, stream: Stream, start: int, values: tuple[str, ...], *, unfiltered: bool
    ) -> None:
        self.stream = stream
        self.next = start
        self.values = values
        self.unfiltered = unfiltered
        self.excess = stream.excess

    def take(self) -> int | None:
        for offset in sorted(one for one in self.stream.messages if one >= self.next):
            if self.stream.stalls is not None and offset >= self.stream.stalls:
                return None
            self.next = offset + 1
            if not self.values or self.stream.chunk_has(
                offset, self.values, unfiltered=self.unfiltered
            ):
                return offset
        return None


class StreamPeer(Peer):
    broker: StreamBroker

    def __init__(self, broker: StreamBroker) -> None:
        opens = transport.Open(
            container_id="streams",
            max_frame_size=1 << 16,
            properties={"product": "RabbitMQ", "version": broker.version},
        )
        super().__init__(broker, opens, {"me": "secret", "reader": "secret"})
        self.readers: dict[transport.Link, StreamReader] = {}

    def on_refused(self, _: transport.SaslError) -> None:
        self.flush()
        self._stream.close()

    def on_detach(self, link: transport.Link, error: Error | None, **how: bool) -> None:
        self.readers.pop(link, None)
        super().on_detach(link, error, **how)

    def on_attach(self, link: transport.Link) -> None:
        assert link.remote is not None
        source: Any = link.remote.source
        asked: Any = from_described(source)
        name = self.broker.name_in(str(asked.address))
        stream = self.broker.streams.get(name)
        if stream is None:
            link.session.end(Error("amqp:not-found", f"no queue '{name}' in vhost '/'"))
            return
        filters = asked.filter or {}
        if not self.broker.agrees:
            source = Source(address=asked.address)
        link.attach(source=source, target=link.remote.target)
        spec = filters[Symbol(SPEC)].value
        values = filters.get(Symbol(VALUES))
        wanted = () if values is None else values.value
        wanted = (wanted,) if isinstance(wanted, str) else tuple(wanted)
        self.readers[link] = StreamReader(
            stream, stream.start(spec), wanted, unfiltered=Symbol(UNFILTERED) in filters
        )

    def on_flow(self, link: transport.Link) -> None:
        reader = self.readers.get(link)
        if reader is None:
            return
        while link.credit + reader.excess > 0 and (offset := reader.take()) is not None:
            self.sent += 1
            if link.credit <= 0:
                reader.excess -= 1
            assert link.remote is not None
            settled = link.remote.snd_settle_mode is transport.SenderSettleMode.SETTLED
            link.send(b"%d" % self.sent, reader.stream.delivered(offset), settled=settled)
            link.credit = max(link.credit, 0)
            cuts = reader.stream.cuts
            if cuts and self.sent >= cuts[0]:
                cuts.pop(0)
                self.flush()
                self.cut()
                return
        stalled = reader.stream.stalls is not None
        if link.drain and not (stalled and link.credit):
            link.drained()
