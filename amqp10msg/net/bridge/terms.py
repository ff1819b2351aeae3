"""What the ends of a bridge and the route between them say to each other.

A source hands over deliveries and settles them; a target sends messages and reports outcomes. Both
are callbacks of one event loop: nothing here waits, and a message costs no task and no future.
"""

from __future__ import annotations

import contextlib
import enum
import os
import tempfile
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import attrs

from amqp10msg.atomic_files import sync_folder
from amqp10msg.net.bridge.urls import Endpoint
from amqp10msg.wire.text import printable

if TYPE_CHECKING:
    from amqp10msg.net.bridge.wire import Lines


class Oversized:
    """The bytes of one message, in a file that is gone again unless it is kept.

    A process that is killed leaves the file of what it was reading, with the suffix ``.part``.

    All files in the folder may have `most` bytes; of a message that would exceed them, nothing is
    kept, and it `is_whole` no more. `on_fault` is told that bytes could not be added; where None,
    that is raised.
    """

    def __init__(self, folder: Path, most: int) -> None:
        self.folder = folder
        self.is_whole = True
        self.on_fault: Callable[[OSError], None] | None = None
        self._size = 0
        folder.mkdir(0o700, exist_ok=True)
        self._room = most
        for one in os.scandir(folder):
            with contextlib.suppress(FileNotFoundError):  # another bridge is done with it
                self._room -= one.stat().st_size
        # Closed by `keep` or `discard`.
        self._file = tempfile.NamedTemporaryFile(dir=folder, suffix=".part")  # noqa: SIM115  (see above)

    def __len__(self) -> int:
        return self._size

    def extend(self, octets: bytes | bytearray) -> None:
        """Add bytes at the end."""
        self._size += len(octets)
        try:
            if self._size > self._room and self.is_whole:
                self.is_whole = False
                self._file.truncate(0)
            if self.is_whole:
                with self._named():
                    self._file.write(octets)
                    self._file.flush()  # the next one asks the system how much the folder has
        except OSError as error:
            if self.on_fault is None:
                raise
            self.on_fault(error)

    def keep(self) -> Path:
        """Return the file, which is on disk and stays; nothing may be added any more."""
        path = self.folder / f"{uuid.uuid4()}.bin"
        with self._named():
            self._file.flush()
            os.fsync(self._file.fileno())
        os.link(self._file.name, path)
        sync_folder(self.folder)
        sync_folder(self.folder.parent)
        self.discard()
        return path

    @contextlib.contextmanager
    def _named(self) -> Iterator[None]:
        """Say of which folder an error is."""
        try:
            yield
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self.folder)) from None

    def discard(self) -> None:
        """Remove the file, unless it was kept; twice does nothing."""
        with contextlib.suppress(OSError):  # the buffered bytes, which a full disk refuses again
            self._file.close()


class Settle(enum.Enum):
    """How a delivery is settled at its source: Part 3, 3.4, and what 0-9-1 has for it."""

    #: accepted; basic.ack.
    ACCEPT = "accept"
    #: released; basic.reject with requeue.
    RELEASE = "requeue"
    #: rejected; basic.reject without requeue, which dead-letters where the queue says so.
    REJECT = "reject"


@attrs.define(eq=False)
class SourceDelivery:
    """One delivery of a source, which is not settled yet.

    Attributes:
        octets: the payload of a 1.0 transfer, or the body of a 0-9-1 message.
        content_header: of 0-9-1, the payload of its content header frame; None for 1.0.
        exchange: of 0-9-1, where it was published to; what is not UTF-8 as surrogates.
        routing_key: of 0-9-1, what it was published with.
        redelivered: the source says that it may have been delivered before.
        tag: the source's own handle.
        link: what it came by: another link of the same source cannot settle it.
        large: its bytes, where they are too large for memory; `octets` is empty then.
        position: in its stream or file; None where it is of a queue.
        written: of a file, when the line was written, in ISO 8601; empty where it is not known.
        fault: of a file, why its line is not a message, and `octets` are the line; else empty.
        message_format: of a 1.0 transfer; 0 is that of the specification.
        tries: how often the target refused it.
        attempts: how often it did so for another reason than that it is full.
        deaths: how often the target's connection ended while this alone was in flight.
        suspected: the target's connection ended while this was in flight, alone or with others.
        came: when it came, in seconds of the loop's clock.
        sent: when it was sent last, on the same clock.
        first: when it was refused first, on the same clock; 0.0 where it was not.
        identity: its message-id with its type, where the route looks for duplicates.
        size: bytes of the message.
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
    came: float = 0.0
    sent: float = 0.0
    first: float = 0.0
    identity: str | None = None
    size: int = attrs.field(init=False)

    @size.default
    def _size(self) -> int:
        return len(self.octets) + len(self.content_header or b"")

    @property
    def is_new(self) -> bool:
        """Whether it was not sent before."""
        return not (self.tries or self.suspected)

    @property
    def raw(self) -> bytes:
        """The bytes of a 1.0 message, or content header and body of one of 0-9-1."""
        return (self.content_header or b"") + self.octets


@attrs.define
class Outgoing:
    """One message as it is to be sent.

    The bytes are the payload of the transfer, or the body; what else there is, is of one protocol.
    """

    octets: bytes
    content_header: bytes | None = None
    exchange: str = ""
    routing_key: str = ""
    message_format: int = 0


@attrs.frozen
class Outcome:
    """What the target made of a message.

    Attributes:
        kind: ``accepted``; ``released``, ``rejected``, ``modified`` (1.0), ``full``, where
            RabbitMQ rejects without saying why; ``nacked``, ``returned`` (0-9-1); ``too-large``,
            where the target says what it takes at most; of the route itself ``untranslatable``,
            ``fatal``, where the target ended the connection because of it.
        condition: such as ``amqp:not-allowed``, or a reply code.
        description: what the target says.
        final: another attempt is pointless.
    """

    kind: str
    condition: str = ""
    description: str = ""
    final: bool = False

    def without(self, secret: str | None) -> Outcome:
        """Return it without a password, which a peer may have repeated."""
        if not secret or secret not in self.description + self.condition:
            return self
        condition, description = (
            text.replace(secret, "…") for text in (self.condition, self.description)
        )
        return attrs.evolve(self, condition=condition, description=description)


ACCEPTED = Outcome("accepted")
#: What is sent, and the delivery that it is sent for.
Sent = tuple[Outgoing, SourceDelivery]


#: Why a source cannot be counted that tells nothing of its messages.
NOT_SAID = "it does not say how many messages it has"


@attrs.frozen(kw_only=True)
class Depth:
    """What a source answers that is asked how many messages it has.

    What is not known is None: messages that it could deliver now, consumers besides this one, which
    may hold messages, and the messages that they hold. `why` says why they cannot be counted.
    """

    ready: int | None = None
    others: int | None = None
    unacknowledged: int | None = None
    why: str = ""


class LinkError(ConnectionError):
    """A connection, session, channel or link ended.

    The text is printable: what a peer says in it cannot act on a terminal.

    Attributes:
        said: the peer gave an error: it was not merely cut.
        permanent: trying again is pointless: wrong credentials, no such queue.
        failed: the peer says that it failed itself, whatever it was doing.
        scope: what the peer ended: ``connection``, ``session`` or ``link``; empty where it is not
            known.
        shared: other links ended with it, and its cause may be one of theirs.
        missing: there is no such queue, exchange or address.
        local: this machine failed, for example its disk is full: neither the peer nor a message
            is the cause, and the route must end.
    """

    def __init__(
        self,
        reason: str,
        *,
        said: bool = False,
        permanent: bool = False,
        failed: bool = False,
        scope: str = "",
        shared: bool = False,
        missing: bool = False,
        local: bool = False,
    ) -> None:
        super().__init__(printable(reason))
        self.said = said
        self.permanent = permanent
        self.failed = failed
        self.scope = scope
        self.shared = shared
        self.missing = missing
        self.local = local

    def without(self, secret: str | None) -> LinkError:
        """Return it without a password, which a peer may have repeated."""
        text = str(self)
        if not secret or secret not in text:
            return self
        return LinkError(text.replace(secret, "…"), **vars(self))

    def of_several(self) -> LinkError:
        """Return it as that of a connection that several links had."""
        return LinkError(str(self), **{**vars(self), "shared": True})


class Link(Protocol):
    """One attachment to a terminus, from when it is open until it is lost.

    Attributes:
        product: what the peer says that it is, such as ``RabbitMQ 4.0.5``; empty if it does not.
        endpoint: where it is.
    """

    product: str
    endpoint: Endpoint

    @property
    def alive(self) -> bool:
        """Whether it is not lost yet."""

    async def close(self, wait: float) -> None:
        """Send what is pending, and close; give up after this many seconds."""

    def abort(self) -> None:
        """Drop the connection at once; nothing is called any more."""


def no_room_for_large(error: OSError) -> LinkError:
    """Return the error of a source whose large message could not be written to a file."""
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
        """Whether the first bytes of a message have arrived, and the last ones have not."""

    async def count(self) -> Depth:
        """Ask how many messages there are, and wait for the answer to this very question.

        What was settled before, the peer knows when it answers. Nothing may be unsettled.

        Raises:
            LinkError: the peer cannot be asked.
        """


class SourceLink(Link, Countable, Protocol):
    """An open source. Deliveries come through the callback that it was opened with."""

    def settle(self, deliveries: Sequence[SourceDelivery], how: Settle) -> None:
        """Settle deliveries of this link; those of another one stay as they are."""

    async def depth(self) -> int | None:
        """Ask how many messages are still to come, and return the last answer; None without one."""

    def stop(self) -> None:
        """Ask for no more deliveries; those under way may still come."""

    def resume(self) -> None:
        """Ask for deliveries again, after `stop`."""

    def hold(self, held: bool) -> bool:
        """Stop reading from the connection, or read on: too many bytes are here.

        Return whether that was done: it is not where other links have the connection, too.
        """


class TargetLink(Link, Protocol):
    """An open target. Outcomes come through the callback that it was opened with."""

    @property
    def room(self) -> int:
        """How many messages may be sent now."""

    @property
    def waits(self) -> bool:
        """Whether the target said that it takes nothing for now, so that outcomes may be late."""

    def send(self, messages: Sequence[Sent]) -> None:
        """Send messages; their outcomes come later, with the deliveries."""


Receive = Callable[[Sequence[SourceDelivery]], None]
Overflow = Callable[[], Oversized]
OnOutcomes = Callable[[Sequence[tuple[SourceDelivery, Outcome]]], None]
OnLost = Callable[[LinkError], None]
OnRoom = Callable[[], None]
#: Takes a place that was passed over for a later one of the same end, and why.
OnPassed = Callable[[Endpoint, LinkError], None]


@attrs.frozen(kw_only=True)
class Request:
    """What is asked of an end: a link.

    `on_passed` is told of a place that could not be used, where a later one can. One of `lines` may
    be used as its connection, unless it is to be `alone`.
    """

    endpoint: Endpoint
    on_lost: OnLost
    on_passed: OnPassed | None = None
    lines: Lines | None = None
    alone: bool = False


@attrs.frozen(kw_only=True)
class SourceRequest(Request):
    """What is asked of a source.

    At most `window` deliveries are not settled. A message of more than `max_message` bytes goes to
    what `overflow` makes.
    """

    receive: Receive
    window: int
    max_message: int
    overflow: Overflow


@attrs.frozen(kw_only=True)
class TargetRequest(Request):
    """What is asked of a target.

    At most `window` messages have no outcome.
    """

    on_outcomes: OnOutcomes
    on_room: OnRoom
    window: int
