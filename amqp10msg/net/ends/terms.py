"""The types that the sources, the targets and the routes of a bridge exchange.

A source link receives messages and settles them; a target link sends messages and reports their
outcomes. Links pass deliveries and outcomes to callbacks in one event loop. The callbacks are not
coroutines, so a message needs no task or future.
"""

from __future__ import annotations

import contextlib
import enum
import os
import re
import tempfile
import uuid
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

import attrs

from amqp10msg.atomic_files import sync_folder
from amqp10msg.net.ends.urls import Endpoint
from amqp10msg.wire.text import printable


class Oversized:
    """The bytes of a message that is too large for memory, in a temporary file.

    The file is removed unless `keep` is called. If the process is killed, the file stays, with the
    suffix ``.part``.

    Args:
        folder: the folder of the file. It is created if it does not exist.
        max_folder_size: maximum size of all files in the folder, in bytes. If the message would
            exceed it, the bytes of this message are discarded.

    Attributes:
        folder: as above.
        is_whole: whether the file has all bytes of the message; False once they were discarded.
        on_fault: called with the OSError if bytes cannot be written; None to raise the error.
    """

    def __init__(self, folder: Path, max_folder_size: int) -> None:
        self.folder = folder
        self.is_whole = True
        self.on_fault: Callable[[OSError], None] | None = None
        self._size = 0
        folder.mkdir(0o700, exist_ok=True)
        self._max_size = max_folder_size
        for entry in os.scandir(folder):
            with contextlib.suppress(FileNotFoundError):  # another bridge removed the file
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
                    self._file.flush()  # other `Oversized` objects read the sizes of all files
        except OSError as error:
            if self.on_fault is None:
                raise
            self.on_fault(error)

    def beginning(self, size: int) -> bytes:
        """Return at most the first `size` bytes; no bytes after `keep` or `discard`."""
        if self._file.closed:
            return b""
        with self._name_folder_in_errors():
            self._file.flush()
            return os.pread(self._file.fileno(), size, 0)

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
        """Replace the file name in an OSError of the ``with`` block by the folder."""
        try:
            yield
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self.folder)) from None

    def discard(self) -> None:
        """Close and remove the temporary file. May be called several times."""
        with contextlib.suppress(OSError):  # closing writes buffered bytes; the disk may be full
            self._file.close()


class Settle(enum.Enum):
    """How to settle a delivery at its source: outcome of 1.0 (Part 3, 3.4) or method of 0-9-1."""

    #: Outcome accepted, or basic.ack.
    ACCEPT = "accept"
    #: Outcome released, or basic.nack with requeue.
    RELEASE = "requeue"
    #: Outcome rejected, or basic.nack without requeue, which dead-letters the message if the
    #: queue has a dead-letter exchange.
    REJECT = "reject"


@attrs.define(eq=False)
class SourceDelivery:
    """An unsettled delivery of a source.

    Attributes:
        octets: the payload of a 1.0 transfer, or the body of a 0-9-1 message.
        content_header: the payload of the content header frame of 0-9-1; None for 1.0.
        exchange: the exchange that a 0-9-1 message was published to. Bytes that are not UTF-8 are
            decoded as surrogate escapes.
        routing_key: the routing key that a 0-9-1 message was published with.
        redelivered: whether the source marked the message as possibly delivered before.
        tag: identifies the delivery for its link, such as a delivery-tag of 0-9-1.
        link: the link that received the delivery and can settle it; None if that link was lost, or
            the delivery is settled.
        large: the bytes of a message that is too large for memory; `octets` is empty then.
        position: the position in a stream or file; None for a queue.
        written: for a file, the time at which the line was written, in ISO 8601; empty if unknown.
        fault: for a file, why the line `octets` is not a message; empty if the line is a message.
        message_format: the message-format of the 1.0 transfer (Part 2, 2.7.5); 0 for an AMQP
            message.
        tries: number of times that the target refused the message.
        attempts: the same number, without refusals because the target was full.
        deaths: counts disconnects of the target while this was the only message in flight.
        suspected: whether this message may have ended the target's connection, because it was in
            flight when the connection ended.
        received_at: time of arrival, in seconds of the event loop's clock.
        sent_at: time of the latest attempt to send the message, on the same clock.
        first_refused_at: time of the first refusal, on the same clock; 0.0 without a refusal.
        reported_stuck: whether the log reports that the target keeps refusing the message.
        identity: the message-id with its type, if the route removes duplicates; otherwise None.
        id_fields: the result of `contents.id_fields`; None before its first call.
        size: size of the message in bytes, without `large`.
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
    reported_stuck: bool = False
    identity: str | None = None
    id_fields: dict[str, str] | None = None
    size: int = attrs.field(init=False)

    @size.default
    def _size(self) -> int:
        return len(self.octets) + len(self.content_header or b"")

    @property
    def is_new(self) -> bool:
        """Whether the message is sent for the first time."""
        return not (self.tries or self.suspected)

    @property
    def delivery_tag(self) -> bytes:
        """The delivery-tag of a broker (Part 2, 2.6.12); for 0-9-1, its number as decimal text."""
        if self.content_header is not None:
            return str(self.tag).encode()
        return bytes(self.tag.tag)

    @property
    def raw(self) -> bytes:
        """The bytes of a 1.0 message, or the content header and body of a 0-9-1 message."""
        return (self.content_header or b"") + self.octets


@attrs.define
class Outgoing:
    """A message as it is sent to the target.

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


def hide(text: str, secret: str | None) -> str:
    """Return a text in which ``…`` replaces `secret`: the peer may have repeated a password.

    A short password that is only a part of a word of the text stays: it was not repeated.
    """
    if not secret or secret not in text:
        return text
    return re.sub(rf"(?<!\w){re.escape(secret)}(?!\w)", "…", text)


@attrs.frozen
class Outcome:
    """The result of sending a message to the target.

    Attributes:
        kind: ``accepted``, or a key of `REASONS`. A 1.0 target reports ``released``, ``rejected``,
            ``modified``, or ``full`` if RabbitMQ rejected the message without an error. A 0-9-1
            target reports ``nacked`` or ``returned``. Both report ``too-large`` if the message
            exceeds a limit of the target. The other kinds are set by the route.
        condition: an error condition such as ``amqp:not-allowed``, or a reply code of 0-9-1; empty
            if there is none.
        description: the description of the error.
        final: whether a retry cannot succeed.
    """

    kind: str
    condition: str = ""
    description: str = ""
    final: bool = False

    def without(self, secret: str | None) -> Outcome:
        """Return a copy in which ``…`` replaces `secret`: the peer may have repeated a password."""
        condition, description = hide(self.condition, secret), hide(self.description, secret)
        return attrs.evolve(self, condition=condition, description=description)


ACCEPTED = Outcome("accepted")
#: A message to send, and the delivery from which it was made.
Sent = tuple[Outgoing, SourceDelivery]


#: The text of `Depth.reason` if the broker reports no message count.
NO_COUNT_REASON = "the broker does not report the number of messages"


@attrs.frozen(kw_only=True)
class Depth:
    """The number of messages that a source holds. Unknown numbers are None.

    Attributes:
        ready: number of messages that the source can deliver now.
        other_consumers: number of consumers besides this route; they may hold messages.
        unacknowledged: number of messages that the other consumers hold.
        reason: why a number is unknown; may be empty.
    """

    ready: int | None = None
    other_consumers: int | None = None
    unacknowledged: int | None = None
    reason: str = ""


class LinkError(ConnectionError):
    """A connection, session, channel or link ended.

    The text is printable: control characters that a peer sent cannot affect a terminal.

    Attributes:
        sent_by_peer: whether the peer sent an error that a message may have caused. False if the
            connection was cut, or the peer shut down or failed.
        permanent: whether a retry cannot succeed: wrong credentials, no such queue.
        failed: whether the peer reported an internal error, or did not report an outcome in time;
            a message may have caused this.
        scope: which of ``connection``, ``session`` or ``link`` the peer ended; empty if unknown.
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
        """Return a copy in which ``…`` replaces `secret`: the peer may have repeated a password."""
        return LinkError(hide(str(self), secret), **vars(self))

    def as_shared(self) -> LinkError:
        """Return a copy with `shared` set, because several links used the connection."""
        return LinkError(str(self), **{**vars(self), "shared": True})


class Link(Protocol):
    """A connection to a source or target that was opened, and may have been lost or closed.

    Attributes:
        peer_product: name and version of the peer, such as ``RabbitMQ 4.0.5``; empty if unknown.
        endpoint: the broker or file that the link is connected to.
    """

    peer_product: str
    endpoint: Endpoint

    @property
    def alive(self) -> bool:
        """Whether the link is still open."""

    async def close(self, wait: float) -> None:
        """Send the pending messages and settlements, and close. Give up after `wait` seconds."""

    def abort(self) -> None:
        """Drop the link without waiting for the peer. No callback is called afterwards."""


def no_room_for_large(error: OSError) -> LinkError:
    """Return the LinkError for a large message that could not be written to its file."""
    text = (
        f"cannot write a message that is too large for memory to a file: {error}; it stays at the "
        "source: make room for the file, and start the bridge again"
    )
    return LinkError(text, local=True)


class Countable(Protocol):
    """An object that can count the messages of a source."""

    @property
    def peer_product(self) -> str:
        """Name and version of the peer, such as ``RabbitMQ 4.0.5``; empty if unknown."""

    @property
    def incomplete(self) -> bool:
        """Whether a part of a message has arrived, but not its end."""

    async def count(self) -> Depth:
        """Query the number of messages and wait for the answer to this query.

        The caller must have settled every delivery. The peer processes these settlements before it
        answers, so it counts released messages.

        Raises:
            LinkError: the peer cannot be queried.
        """


class SourceLink(Link, Countable, Protocol):
    """A link to a source. Deliveries are passed to `SourceRequest.receive`."""

    def settle(self, deliveries: Sequence[SourceDelivery], settlement: Settle) -> None:
        """Settle the deliveries that belong to this link; ignore deliveries of other links."""

    async def depth(self) -> int | None:
        """Query the number of messages at the source. Return the previous answer, or None."""

    def stop(self) -> None:
        """Stop requesting deliveries. Deliveries in flight may still arrive."""

    def resume(self) -> None:
        """Request deliveries again after `stop`."""

    def hold(self, pause: bool) -> bool:
        """Pause (`pause`) or resume reading from the connection, to limit the bytes in memory.

        Return False if reading was not paused, because other links use the connection.
        """


class TargetLink(Link, Protocol):
    """A link to a target. Outcomes are passed to `TargetRequest.on_outcomes`."""

    @property
    def room(self) -> int:
        """The number of messages that can be sent now."""

    @property
    def waits(self) -> bool:
        """Whether the target currently blocks publishing, so that outcomes may be late."""

    def send(self, messages: Sequence[Sent]) -> None:
        """Send messages. `TargetRequest.on_outcomes` is called later with each outcome."""

    def flush(self) -> None:
        """Write the messages that the link has collected, because no more follow.

        A no-op for links that send each message immediately.
        """


#: Called with deliveries.
Receive = Callable[[Sequence[SourceDelivery]], None]
#: Returns the file for a message that is too large for memory.
Overflow = Callable[[], Oversized]
#: Called with deliveries whose messages were sent, and the outcome of each.
OnOutcomes = Callable[[Sequence[tuple[SourceDelivery, Outcome]]], None]
#: Called when a link is lost.
OnLost = Callable[[LinkError], None]
#: Called when a target link may be able to send messages again.
OnRoom = Callable[[], None]
#: Called with an address of an endpoint that could not be used, and its error, when a later address
#: of the same endpoint could be used.
OnAddressSkipped = Callable[[Endpoint, LinkError], None]


_LinkT = TypeVar("_LinkT")


class SharedConnections(Protocol):
    """Connections that several links share: `amqp10msg.net.ends.wire.ConnectionPool`."""

    async def join(
        self,
        endpoint: Endpoint,
        open_connection: Callable[[Endpoint], Awaitable[Any]],
        make_link: Callable[[Any], _LinkT],
        *,
        alone: bool = False,
    ) -> _LinkT:
        """Return a new link on a shared connection to `endpoint`.

        `open_connection` opens a connection. `make_link` makes a link on it. With `alone`, the link
        does not share its connection.
        """


@attrs.frozen(kw_only=True)
class Request:
    """The parameters for opening a link.

    Attributes:
        endpoint: the broker or file to connect to.
        on_lost: called when the link is lost.
        on_address_skipped: called with each address of the endpoint that could not be used, if a
            later address could be used.
        pool: the connections that links can share; None to open a connection for this link.
        alone: whether to open a connection that no other link shares.
    """

    endpoint: Endpoint
    on_lost: OnLost
    on_address_skipped: OnAddressSkipped | None = None
    pool: SharedConnections | None = None
    alone: bool = False


@attrs.frozen(kw_only=True)
class SourceRequest(Request):
    """The parameters for opening a source.

    Attributes:
        receive: called with deliveries.
        window: maximum number of unsettled deliveries.
        max_message: maximum size in bytes of a message in memory; a larger message is written to a
            file.
        overflow: returns the file for a larger message.
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
        on_room: called when the link may be able to send messages again.
        window: maximum number of messages without an outcome.
    """

    on_outcomes: OnOutcomes
    on_room: OnRoom
    window: int
