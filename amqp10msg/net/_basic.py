"""The consumer of pika behind the spooler: content headers as they came, acknowledged on disk.

What pika makes of header fields cannot be written back: a double loses what is after its point, a
type that it does not know ends the connection.
"""

from __future__ import annotations

import struct
from typing import Any

from pika import BasicProperties, BlockingConnection, URLParameters, spec
from pika.adapters.select_connection import SelectConnection
from pika.exceptions import AMQPError
from pika.frame import Header

from amqp10msg.net.landing import Spooled

# Of every frame: its type, its channel, the bytes of its payload (0-9-1, 4.2.3).
_FRAME = struct.Struct(">BHL")
# Of a content header: class, weight, bytes of the body (4.2.6.1).
_CONTENT = struct.Struct(">HHQ")
_END = bytes([spec.FRAME_END])


def consume(url: str, node: str, pending: Any) -> None:
    """Consume a queue into a landing, and acknowledge deliveries when they are on disk.

    Args:
        url: of the broker.
        node: the name of the queue.
        pending: the landing, and what waits in it.

    Raises:
        ConnectionError: the connection or the channel broke.
    """
    # Its types do not know that the class of the connection behind it can be chosen.
    connect: Any = BlockingConnection
    at = URLParameters(url)
    try:
        with connect(at, ExactConnection) as connection:
            pending.connected(connection._impl.server_properties or {})
            channel = connection.channel()
            channel.basic_qos(prefetch_count=min(2 * pending.batches.rows, 65_535))
            for delivery in channel.consume(node, inactivity_timeout=pending.wait):
                if not _took(channel, node, pending, *delivery):
                    break
            channel.cancel()
    except AMQPError as error:
        # What str gives is empty where there was no connection.
        raise ConnectionError(f"{node} at {at.host}:{at.port}: {error!r}") from None


def _took(channel: Any, queue: str, pending: Any, method: Any, properties: Any, body: Any) -> bool:
    """Take a delivery, or none where the time is over; return False where it is time to end."""
    if method is not None:
        row = Spooled(
            queue,
            pending.time,
            str(method.delivery_tag).encode(),
            bool(method.redelivered),
            None,
            header_of(properties),
            body,
            readable(method.exchange),
            readable(method.routing_key),
        )
        full = pending.add(row, method.delivery_tag)
    else:
        full = pending.due
    ends = method is None and pending.is_idle
    if full or ends:
        taken = pending.take()
        if taken:
            channel.basic_ack(taken[-1], multiple=True)
    return not ends


class ExactConnection(SelectConnection):  # type: ignore[misc]  # pika has no types
    """A connection that keeps content headers, and reads of them only how long the body is."""

    def _read_frame(self) -> Any:
        found = _content_header(self._frame_buffer)
        return super()._read_frame() if found is None else found


def _content_header(buffer: bytes) -> tuple[int, Header] | None:
    """Read a whole content header at the start of what came, and how many bytes it takes."""
    if len(buffer) < _FRAME.size:
        return None
    kind, channel, size = _FRAME.unpack_from(buffer)
    end = _FRAME.size + size
    if kind != spec.FRAME_HEADER or size < _CONTENT.size or buffer[end : end + 1] != _END:
        return None
    octets = buffer[_FRAME.size : end]
    _, _, body_size = _CONTENT.unpack_from(octets)
    return end + 1, Header(channel, body_size, _Kept(octets))


class _Kept(BasicProperties):  # type: ignore[misc]
    """Properties that are not decoded."""

    def __init__(self, octets: bytes) -> None:
        super().__init__()
        self.octets = octets


def header_of(properties: Any) -> bytes:
    """Return the payload of the content header frame that properties came in.

    Raises:
        TypeError: this version of pika reads frames in another way.
    """
    if not isinstance(properties, _Kept):
        raise TypeError("this version of pika does not keep the bytes of content headers")
    return properties.octets


def readable(name: str | bytes) -> str:
    """Return a short string as text: pika returns bytes for what is not UTF-8."""
    return name if isinstance(name, str) else name.decode("utf-8", "backslashreplace")
