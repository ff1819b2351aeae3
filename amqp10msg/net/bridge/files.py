"""The ends of a bridge that are files: a quarantine whose messages are sent again, or a recording.

A line is a message, as `amqp10msg.net.bridge.quarantine` writes them.
"""

from __future__ import annotations

import asyncio
import datetime
import json
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from amqp10msg.message import Message
from amqp10msg.net.bridge.quarantine import (
    Entry,
    append_lines,
    content_of,
    entry_of,
    read_quarantine,
)
from amqp10msg.net.bridge.terms import (
    ACCEPTED,
    Delivery,
    Depth,
    LinkError,
    Outcome,
    Outgoing,
    Settle,
    SourceRequest,
    TargetRequest,
)

#: Messages that are handed over in one turn of the loop.
_TURN = 100


def _entries(request: SourceRequest) -> Iterator[tuple[int, Entry]]:
    """Yield the messages that are meant, each with its number in the file, from 0.

    Raises:
        OSError: a file cannot be read.
        ValueError: a line is no message, or cannot be sent from here.
    """
    endpoint = request.endpoint
    offset = endpoint.offset or "first"
    if offset != "first" and not (offset.isascii() and offset.isdecimal()):
        raise ValueError(f"offset= of a file is first or a number of messages, not {offset!r}")
    start = 0 if offset == "first" else int(offset)
    path = Path(endpoint.file or "")
    for number, entry in enumerate(read_quarantine(path)):
        if number < start or endpoint.route not in {None, entry.route}:
            continue
        if entry.protocol != endpoint.protocol:
            text = f"is of AMQP {entry.protocol}: give ?protocol={entry.protocol}, or ?route="
            raise ValueError(f"{path}: message {number + 1} {text}")
        if entry.file is not None and entry.file.stat().st_size > request.max_message:
            size = entry.file.stat().st_size
            text = f"has {size} bytes, and max-message are {request.max_message}"
            raise ValueError(f"{path}: message {number + 1} {text}")
        yield number, entry


class FileSource:
    """Reads the messages of a file; deliveries come by `receive`. The file stays as it is.

    Attributes:
        product: what it is.
        incomplete: whether a message is cut off for now; it never is.
    """

    product = "file"
    incomplete = False

    def __init__(self, request: SourceRequest) -> None:
        self._receive = request.receive
        self._window = request.window
        self._loop = asyncio.get_running_loop()
        # Looked through before anything is sent.
        self._left = sum(1 for _ in _entries(request))
        self._entries = _entries(request)
        self._back: deque[tuple[int, Entry]] = deque()
        self._unsettled = 0
        self._held = self._stopped = self._scheduled = False
        self.alive = True

    def _schedule(self) -> None:
        if not self._scheduled and not (self._stopped or self._held):
            self._scheduled = True
            self._loop.call_soon(self._more)

    def _more(self) -> None:
        self._scheduled = False
        for _ in range(_TURN):
            if not self.alive or self._stopped or self._held or self._unsettled >= self._window:
                return
            found = self._back.popleft() if self._back else next(self._entries, None)
            if found is None:
                return
            number, entry = found
            self._unsettled += 1
            self._left -= 1
            self._receive(self._delivery(number, entry))
        self._schedule()

    def _delivery(self, number: int, entry: Entry) -> Delivery:
        octets = entry.octets
        if entry.file is not None:
            octets = entry.raw[len(entry.content_header or b"") :]
        names = (entry.exchange, entry.routing_key, entry.redelivered)
        tag = (number, entry)
        return Delivery(octets, entry.content_header, *names, tag, self, position=number)

    def settle(self, delivery: Delivery, how: Settle) -> None:
        """Settle a delivery; what is released comes again."""
        if delivery.link is not self:
            return
        delivery.link = None
        self._unsettled -= 1
        if how is Settle.RELEASE:
            self._back.append(delivery.tag)
            self._left += 1
        self._schedule()

    async def depth(self) -> int | None:
        """Return how many messages are still to come."""
        return self._left

    async def count(self) -> Depth:
        """Return how many messages are still to come."""
        return Depth(ready=self._left, others=0, unacknowledged=0)

    def stop(self) -> None:
        """Hand over no more."""
        self._stopped = True

    def hold(self, held: bool) -> None:
        """Stop reading, or read on."""
        self._held = held
        self._schedule()

    async def close(self, wait: float) -> None:  # noqa: ARG002  (of the protocol)
        """Close the file."""
        self.abort()

    def abort(self) -> None:
        """Close the file."""
        self.alive = False
        self._stopped = True


def _line_of(outgoing: Outgoing) -> str:
    moment = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
    line: dict[str, Any] = {"time": moment, **content_of(outgoing)}
    line["raw"] = ((outgoing.content_header or b"") + outgoing.octets).hex()
    return json.dumps(line)


def _entry_in(outgoing: Outgoing) -> str:
    """Return the line that a message of a quarantine's queue is.

    Raises:
        ValueError: it is none.
    """
    octets, is_basic = outgoing.octets, outgoing.content_header is not None
    try:
        found = json.loads(octets) if is_basic else Message.decode(octets).json()
    except ValueError as error:
        raise ValueError(f"no entry of a quarantine: {error}") from None
    entry_of(found, Path())
    return json.dumps(found)


class FileTarget:
    """Writes messages to a file; their outcomes come by `on_outcome` when they are on disk.

    Attributes:
        product: what it is.
        waits: whether it takes nothing for now; it never does so.
    """

    product = "file"
    waits = False

    def __init__(self, request: TargetRequest) -> None:
        self._path = Path(request.endpoint.file or "")
        self._outcome, self._on_room = request.on_outcome, request.on_room
        self._on_lost = request.on_lost
        self._window = request.window
        self._entries = request.endpoint.entries
        self._loop = asyncio.get_running_loop()
        self._pending: list[tuple[Delivery, str]] = []
        self.alive = True
        append_lines(self._path, [])  # it can be written

    @property
    def room(self) -> int:
        """How many messages may be sent now."""
        return self._window - len(self._pending)

    def send(self, outgoing: Outgoing, delivery: Delivery) -> None:
        """Write a message at the end of this turn of the loop."""
        if not self._pending:
            self._loop.call_soon(self._flush)
        try:
            line = (_entry_in if self._entries else _line_of)(outgoing)
        except ValueError as error:
            self._outcome(delivery, Outcome("rejected", "", str(error), final=True))
            return
        self._pending.append((delivery, line + "\n"))

    def _flush(self) -> None:
        pending, self._pending = self._pending, []
        if not self.alive or not pending:
            return
        try:
            append_lines(self._path, [line for _, line in pending])
        except OSError as error:
            self.alive = False
            self._on_lost(LinkError(str(error)))
            return
        for delivery, _ in pending:
            self._outcome(delivery, ACCEPTED)
        self._on_room()

    async def close(self, wait: float) -> None:  # noqa: ARG002  (of the protocol)
        """Write what is pending."""
        self._flush()
        self.abort()

    def abort(self) -> None:
        """Write no more."""
        self.alive = False


async def open_file_source(request: SourceRequest) -> FileSource:
    """Read a file.

    Raises:
        LinkError: it cannot be read, or a line is no message.
    """
    try:
        made = FileSource(request)
    except (OSError, ValueError) as error:
        raise LinkError(str(error), permanent=True) from None
    made._schedule()
    return made


async def open_file_target(request: TargetRequest) -> FileTarget:
    """Write to a file, after what is in it.

    Raises:
        LinkError: it cannot be written.
    """
    try:
        return FileTarget(request)
    except OSError as error:
        raise LinkError(str(error), permanent=True) from None
