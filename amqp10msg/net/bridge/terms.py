"""The types that the sources, the targets and the routes of a bridge exchange.

A source delivers messages and settles them; a target sends messages and reports their outcomes.
Deliveries and outcomes are passed to callbacks in one event loop. No function on their path awaits,
so a message needs no task or future.
"""

from __future__ import annotations

import contextlib
import enum
import os
import tempfile
import uuid
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

import attrs

from amqp10msg.atomic_files import sync_folder
from amqp10msg.net.bridge.urls import Endpoint
from amqp10msg.wire.text import printable


class Oversized:
    """The bytes of a message that is too large for memory, in a temporary file.

    The file is removed unless `keep` is called. If the process is killed, it stays, with the
    suffix ``.part``.

    Args:
        folder: the folder of the file. It is created if it does not exist.
        max_folder_size: total bytes of all files in the folder. When a message exceeds them, its
            bytes are dropped.

    Attributes:
        folder: as above.
        is_whole: whether the file has all bytes of the message, because the limit was not exceeded.
        on_fault: called if bytes could not be written; if None, the OSError is raised.
    """

    def __init__(self, folder: Path, max_folder_size: int) -> None:
        self.folder = folder
        self.is_whole = True
        self.on_fault: Callable[[OSError], None] | None = None
        self._size = 0
        folder.mkdir(0o700, exist_ok=True)
        self._max_size = max_folder_size
        for entry in os.scandir(folder):
            with contextlib.suppress(FileNotFoundError):  # removed by another bridge since
                self._max_size -= entry.stat().st_size
        # Closed by `keep` or `discard`.
        self._file = tempfile.NamedTemporaryFile(dir=folder, suffix=".part")  # noqa: SIM115  (see above)

    def __len__(self) -> int:
        return self._size

    def extend(self, octets: bytes | bytearray) -> None:
        """Append bytes. Raises OSError if they cannot be written and `on_fault` is None."""
        self._size += len(octets)
        try:
            if self._size > self._max_size and self.is_whole:
                self.is_whole = False
                self._file.truncate(0)
            if self.is_whole:
                with self._name_folder_in_errors():
                    self._file.write(octets)
                    self._file.flush()  # another message reads the sizes of all files in the folder
        except OSError as error:
            if self.on_fault is None:
                raise
            self.on_fault(error)

    def keep(self) -> Path:
        """Make the file permanent, and return its path. Nothing can be appended afterwards."""
        path = self.folder / f"{uuid.uuid4()}.bin"
        with self._name_folder_in_errors():
            self._file.flush()
            os.fsync(self._file.fileno())
        os.link(self._file.name, path)
        sync_folder(self.folder)
        sync_folder(self.folder.parent)
        self.discard()
        return path

    @contextlib.contextmanager
    def _name_folder_in_errors(self) -> Iterator[None]:
        """Raise each OSError again with the folder as its file name."""
        try:
            yield
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self.folder)) from None

    def discard(self) -> None:
        """Close and remove the temporary file. May be called several times."""
        with contextlib.suppress(OSError):  # a full disk refuses the buffered bytes again
            self._file.close()


class Settle(enum.Enum):
    """How a delivery is settled at its source: outcomes of Part 3, 3.4, and methods of 0-9-1."""

    #: Outcome accepted, or basic.ack.
    ACCEPT = "accept"
    #: Outcome released, or basic.reject with requeue.
    RELEASE = "requeue"
    #: Outcome rejected, or basic.reject without requeue, which dead-letters the message if the
    #: queue has a dead-letter exchange.
    REJECT = "reject"


@attrs.define(eq=False)
class SourceDelivery:
    """An unsettled delivery of a source.

    Attributes:
        octets: the payload of a 1.0 transfer, or the body of a 0-9-1 message.
        content_header: the payload of the content header frame of 0-9-1; None for 1.0.
        exchange: the exchange that a 0-9-1 message was published to. Bytes that are not UTF-8 are
            surrogate escapes.
        routing_key: the routing key that a 0-9-1 message was published with.
        redelivered: the source marked the message as possibly delivered before.
        tag: the source's own handle of the delivery.
        link: the link that delivered it; only this link can settle it.
        large: the bytes of a message that is too large for memory; `octets` is empty then.
        position: the position in a stream or file; None for a queue.
        written: for a file, the time at which the line was written, in ISO 8601; empty if unknown.
        fault: for a file, why the line `octets` is not a message; empty if it is one.
        message_format: the message-format of the 1.0 transfer (Part 2, 2.7.5); 0 is AMQP's own.
        tries: number of refusals by the target.
        attempts: number of refusals for other reasons than a full target.
        deaths: number of times that the target's connection ended while this was the only message
            in flight.
        suspected: the target's connection ended while this message was in flight.
        received_at: time of arrival, in seconds of the event loop's clock.
        sent_at: time of the latest attempt to send it, on the same clock.
        first_refused_at: time of the first refusal, on the same clock; 0.0 if it was not refused.
        identity: the message-id with its type, if the route looks for duplicates.
        size: size of the message in bytes.
    """

    octets: bytes
    content_header: bytes | None = None
    exchange: str = ""
    routing_key: str = ""
    redelivered: bool = False
    tag: Any = None
    link: Any = None
    large: Oversized | None = None
    position: int | None = None
    written: str = ""
    fault: str = ""
    message_format: int = 0
    tries: int = 0
    attempts: int = 0
    deaths: int = 0
    suspected: bool = False
    received_at: float = 0.0
    sent_at: float = 0.0
    first_refused_at: float = 0.0
    identity: str | None = None
    size: int = attrs.field(init=False)

    @size.default
    def _size(self) -> int:
        return len(self.octets) + len(self.content_header or b"")

    @property
    def is_new(self) -> bool:
        """Whether the message was not sent before."""
        return not (self.tries or self.suspected)

    @property
    def raw(self) -> bytes:
        """The bytes of a 1.0 message, or the content header and body of a 0-9-1 message."""
        return (self.content_header or b"") + self.octets


@attrs.define
class Outgoing:
    """A message in the form in which it is sent.

    Attributes:
        octets: the payload of a 1.0 transfer, or the body of a 0-9-1 message.
        content_header: the payload of the content header frame of 0-9-1; None for 1.0.
        exchange: the exchange to publish a 0-9-1 message to.
        routing_key: the routing key to publish a 0-9-1 message with.
        message_format: the message-format of a 1.0 transfer.
    """

    octets: bytes
    content_header: bytes | None = None
    exchange: str = ""
    routing_key: str = ""
    message_format: int = 0


@attrs.frozen
class Outcome:
    """The result of sending a message to the target.

    Attributes:
        kind: ``accepted``; of 1.0 ``released``, ``rejected``, ``modified``, or ``full`` if RabbitMQ
            rejected the message without an error; of 0-9-1 ``nacked`` or ``returned``;
            ``too-large`` if it exceeds the target's max-message-size. The route itself adds
            ``untranslatable``, and ``fatal`` if the target ended the connection because of the
            message.
        condition: an error condition such as ``amqp:not-allowed``, or a reply code.
        description: the description of the error.
        final: whether a retry cannot succeed.
    """

    kind: str
    condition: str = ""
    description: str = ""
    final: bool = False

    def without(self, secret: str | None) -> Outcome:
        """Return a copy with ``…`` for `secret`: the peer may have repeated a password."""
        if not secret or secret not in self.description + self.condition:
            return self
        condition, description = (
            text.replace(secret, "…") for text in (self.condition, self.description)
        )
        return attrs.evolve(self, condition=condition, description=description)


ACCEPTED = Outcome("accepted")
#: A message to send, and the delivery that it was made from.
Sent = tuple[Outgoing, SourceDelivery]


#: The text of `Depth.reason` if the broker reports no message count.
NO_COUNT = "the broker does not report the number of messages"


@attrs.frozen(kw_only=True)
class Depth:
    """The number of messages that a source holds. A count that is unknown is None.

    Attributes:
        ready: messages that the source could deliver now.
        other_consumers: number of other consumers, which may hold messages.
        unacknowledged: messages that the other consumers hold.
        reason: the reason why messages cannot be counted, or empty.
    """

    ready: int | None = None
    other_consumers: int | None = None
    unacknowledged: int | None = None
    reason: str = ""


class LinkError(ConnectionError):
    """A connection, session, channel or link ended.

    The text is printable: control characters that a peer sent cannot affect a terminal.

    Attributes:
        sent_by_peer: whether the peer sent an error, instead of only cutting the connection.
        permanent: whether a retry cannot succeed: wrong credentials, no such queue.
        failed: whether the peer reported a failure of its own (an internal error).
        scope: the peer ended this: ``connection``, ``session`` or ``link``; empty if unknown.
        shared: whether other links used the connection, and may have caused its end.
        missing: whether the queue, exchange or address does not exist.
        local: whether this machine failed, for example because its disk is full: neither the peer
            nor a message is the cause, and the route must end.
    """

    def __init__(
        self,
        reason: str,
        *,
        sent_by_peer: bool = False,
        permanent: bool = False,
        failed: bool = False,
        scope: str = "",
        shared: bool = False,
        missing: bool = False,
        local: bool = False,
    ) -> None:
        # Peers send stack traces of several lines; logs and reports need one line.
        super().__init__(printable(" ".join(reason.splitlines())))
        self.sent_by_peer = sent_by_peer
        self.permanent = permanent
        self.failed = failed
        self.scope = scope
        self.shared = shared
        self.missing = missing
        self.local = local

    def without(self, secret: str | None) -> LinkError:
        """Return a copy with ``…`` for `secret`: the peer may have repeated a password."""
        text = str(self)
        if not secret or secret not in text:
            return self
        return LinkError(text.replace(secret, "…"), **vars(self))

    def as_shared(self) -> LinkError:
        """Return a copy with `shared` set: several links used the connection."""
        return LinkError(str(self), **{**vars(self), "shared": True})


class Link(Protocol):
    """An open connection to a source or target, until it is lost or closed.

    Attributes:
        product: name and version of the peer, such as ``RabbitMQ 4.0.5``; empty if unknown.
        endpoint: the broker or file that it is connected to.
    """

    product: str
    endpoint: Endpoint

    @property
    def alive(self) -> bool:
        """Whether the link is still open."""

    async def close(self, wait: float) -> None:
        """Send the pending messages and settlements, and close. Give up after `wait` seconds."""

    def abort(self) -> None:
        """Drop the connection without a close. No callback is called afterwards."""


def no_room_for_large(error: OSError) -> LinkError:
    """Return the LinkError for a large message that could not be written to its file."""
    text = (
        f"cannot write a message that is too large for memory to a file: {error}; it stays at the "
        "source: make room for the file, and start the bridge again"
    )
    return LinkError(text, local=True)


class Countable(Protocol):
    """A way to count the messages of a source."""

    @property
    def product(self) -> str:
        """Name and version of the peer, such as ``RabbitMQ 4.0.5``; empty if unknown."""

    @property
    def incomplete(self) -> bool:
        """Whether a message has arrived only in part."""

    async def count(self) -> Depth:
        """Query the number of messages and wait for the answer to this query.

        The peer has processed all earlier settlements when it answers. The caller must have
        settled every delivery.

        Raises:
            LinkError: the peer cannot be queried.
        """


class SourceLink(Link, Countable, Protocol):
    """An open source. Deliveries are passed to the callback that it was opened with."""

    def settle(self, deliveries: Sequence[SourceDelivery], settlement: Settle) -> None:
        """Settle the deliveries that belong to this link; ignore deliveries of other links."""

    async def depth(self) -> int | None:
        """Query the number of remaining messages. Return the previous answer, or None at first."""

    def stop(self) -> None:
        """Stop requesting deliveries. Deliveries in flight may still arrive."""

    def resume(self) -> None:
        """Request deliveries again after `stop`."""

    def hold(self, pause: bool) -> bool:
        """Pause or resume reading from the connection, to bound the bytes in memory.

        Return False if other links use the connection: it is not paused then.
        """


class TargetLink(Link, Protocol):
    """An open target. Outcomes are passed to the callback that it was opened with."""

    @property
    def room(self) -> int:
        """The number of messages that can be sent now."""

    @property
    def waits(self) -> bool:
        """Whether the target has blocked publishing for now, so that outcomes may be late."""

    def send(self, messages: Sequence[Sent]) -> None:
        """Send messages. Their outcomes are reported later, with the deliveries."""


Receive = Callable[[Sequence[SourceDelivery]], None]
Overflow = Callable[[], Oversized]
OnOutcomes = Callable[[Sequence[tuple[SourceDelivery, Outcome]]], None]
OnLost = Callable[[LinkError], None]
OnRoom = Callable[[], None]
#: Called with an alternative address that could not be used, and its error, when a later address
#: of the same end could be used.
OnPassed = Callable[[Endpoint, LinkError], None]


_LinkT = TypeVar("_LinkT")


class SharedConnections(Protocol):
    """Connections that several links share: `amqp10msg.net.bridge.wire.ConnectionPool`."""

    async def join(
        self,
        endpoint: Endpoint,
        call: Callable[[Endpoint], Awaitable[Any]],
        make: Callable[[Any], _LinkT],
        *,
        alone: bool = False,
    ) -> _LinkT:
        """Return a link: `call` opens a connection to `endpoint`, `make` a link on a connection."""


@attrs.frozen(kw_only=True)
class Request:
    """The parameters for opening a link.

    Attributes:
        endpoint: the broker or file to connect to.
        on_lost: called when the link is lost.
        on_passed: called if an address of the endpoint could not be used and a later one could.
        pool: the connections that links can share; None to open one.
        alone: open a connection for this link alone.
    """

    endpoint: Endpoint
    on_lost: OnLost
    on_passed: OnPassed | None = None
    pool: SharedConnections | None = None
    alone: bool = False


@attrs.frozen(kw_only=True)
class SourceRequest(Request):
    """The parameters for opening a source.

    Attributes:
        receive: called with deliveries.
        window: maximum number of unsettled deliveries.
        max_message: size in bytes from which on a message is written to a file.
        overflow: returns such a file.
    """

    receive: Receive
    window: int
    max_message: int
    overflow: Overflow


@attrs.frozen(kw_only=True)
class TargetRequest(Request):
    """The parameters for opening a target.

    Attributes:
        on_outcomes: called with outcomes.
        on_room: called when messages can be sent again.
        window: maximum number of messages without an outcome.
    """

    on_outcomes: OnOutcomes
    on_room: OnRoom
    window: int
