"""Files with one message per line: the quarantine, and files as source or target of a route.

The lines are read by `entries`. A message that the target refuses is written to disk, with its
exact bytes, before it is settled at the source. A quarantine file can be the source of a route.
"""

from __future__ import annotations

import asyncio
import datetime
import itertools
import json
import os
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from amqp10msg.atomic_files import lock, sync_folder
from amqp10msg.files.text import parse_json
from amqp10msg.message import Message
from amqp10msg.net.ends.contents import id_fields
from amqp10msg.net.ends.entries import (
    SKIPPABLE_FILE_ERRORS,
    Entry,
    Unreadable,
    entries_in,
    entry_of,
    read_quarantine,
)
from amqp10msg.net.ends.terms import (
    ACCEPTED,
    Depth,
    LinkError,
    Outcome,
    Outgoing,
    Sent,
    Settle,
    SourceDelivery,
    SourceRequest,
    TargetRequest,
)
from amqp10msg.net.ends.urls import Endpoint, file_start
from amqp10msg.private_files import regular_opener

__all__ = [
    "Entry",
    "FileSource",
    "FileTarget",
    "Quarantine",
    "append_lines",
    "content_of",
    "line_of",
    "message_in_file",
    "open_source",
    "open_target",
    "read_quarantine",
]


class Quarantine:
    """A file of JSON lines, one per message. Several routes and processes may write to it.

    The field ``raw`` is the message in hex. For 0-9-1, this is the payload of the content header
    frame, whose size in bytes is the field ``content_header``, and the body. A message that was too
    large for memory has its own file: ``raw_file`` is its path, relative to the folder of the
    quarantine.

    Args:
        path: the path of the file, which is created with the first entry.

    Attributes:
        path: as above.
        count: number of messages that this object has written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.count = 0

    def add(
        self,
        entries: Iterable[tuple[SourceDelivery, Outcome]],
        *,
        route: str,
        source: str,
        target: str,
    ) -> None:
        """Append messages to the file, and wait until they are on disk.

        Args:
            entries: the deliveries, and the outcome for which each is quarantined.
            route: the name of the route.
            source: the URL of the source, without credentials.
            target: the URL of the target, without credentials.

        Raises:
            OSError: the messages could not be written; the caller must not settle them.
        """
        names = {"route": route, "source": source, "target": target}
        lines = [
            line_of(delivery, outcome, names, self.path.parent) + "\n"
            for delivery, outcome in entries
        ]
        append_lines(self.path, lines)
        self.count += len(lines)


def line_of(
    delivery: SourceDelivery, outcome: Outcome, names: Mapping[str, str], folder: Path | None = None
) -> str:
    """Return the line of a quarantined message, without a line end.

    The file of a large message is made permanent. Its path in the line is relative to `folder`.

    Args:
        delivery: the message.
        outcome: the outcome for which it is quarantined.
        names: the fields route, source and target.
        folder: the folder of the quarantine; None for the working directory.
    """
    fields = {
        **names,
        "reason": outcome.kind,
        "condition": outcome.condition,
        "description": outcome.description,
        "redelivered": delivery.redelivered,
        **id_fields(delivery),
        **content_of(delivery),
    }
    if delivery.large is not None:
        path = delivery.large.keep().relative_to(folder or Path())
        return _json_line(fields, raw_file=str(path))
    return _json_line(fields, raw=delivery.raw.hex())


def _json_line(fields: Mapping[str, Any], **raw: str) -> str:
    """Return a line with the current time, `fields`, and the field ``raw`` or ``raw_file``."""
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
    return json.dumps({"time": now, **fields, **raw})


def content_of(message: SourceDelivery | Outgoing) -> dict[str, Any]:
    """Return the fields of a line that are needed to read the bytes of the message."""
    header = message.content_header
    if header is None:
        message_format = message.message_format
        return {"protocol": "1.0"} | ({"message_format": message_format} if message_format else {})
    return {
        "protocol": "0-9-1",
        "exchange": message.exchange,
        "routing_key": message.routing_key,
        "content_header": len(header),
    }


def append_lines(path: Path, lines: Sequence[str]) -> None:
    """Append lines to a file, and wait until they are on disk.

    Raises:
        OSError: the lines could not be written; the file is unchanged.
    """
    # Unbuffered: after an error, closing the file would write the buffer again.
    with open(path, "ab", buffering=0, opener=regular_opener) as file:
        lock(file.fileno(), wait=True)
        end = file.seek(0, os.SEEK_END)
        try:
            if end and not _has_line_end_before(path, end):
                lines = ["\n", *lines]  # end the unfinished line of a process that was killed
            octets = memoryview("".join(lines).encode())
            while octets:
                octets = octets[file.write(octets) :]
            os.fsync(file.fileno())
            if not end:
                sync_folder(path.parent)  # so that the name of a new file survives a loss of power
        except OSError as error:
            file.truncate(end)
            raise OSError(error.errno, error.strerror, str(path)) from None


def _has_line_end_before(path: Path, end: int) -> bool:
    """Whether the byte before the offset `end` is a line end."""
    with path.open("rb") as file:
        file.seek(end - 1)
        return file.read(1) == b"\n"


#: Maximum number of deliveries per iteration of the event loop.
_MAX_PER_TURN = 100


def _entries_to_read(request: SourceRequest) -> Iterator[tuple[int, Entry | Unreadable]]:
    """Yield the messages to read and the unreadable lines, each with its number from 0.

    Raises:
        OSError: the file cannot be read.
        ValueError: ``offset=`` is invalid, or the file has fewer messages than were read before.
    """
    endpoint = request.endpoint
    start = file_start(endpoint.offset)
    path = Path(endpoint.file or "")
    number = -1
    lines = entries_in(path, protocol=endpoint.protocol, max_message=request.max_message)
    for number, entry in enumerate(lines):
        if number < start:
            continue
        if isinstance(entry, Entry):
            if endpoint.route not in {None, entry.route}:
                continue
            if entry.protocol != endpoint.protocol:
                # A source has messages of one protocol, `?protocol=`. If a file has both protocols,
                # `?route=` can select lines of the same protocol.
                text = f"is of AMQP {entry.protocol}: give ?protocol={entry.protocol}, or ?route="
                yield number, Unreadable(entry.octets, f"{path}: message {number + 1} {text}")
                continue
        yield number, entry
    if number + 1 < start:
        raise ValueError(
            f"{path} has {number + 1} messages, and was read up to {start}: the file was truncated "
            "or replaced; give another --state to read all of it"
        )


def _count_entries(request: SourceRequest) -> int:
    """Return the number of lines to read.

    Raises:
        OSError: the file cannot be read.
        ValueError: as for `_entries_to_read`, or no line is a message that can be sent.
    """
    sendable, unreadable, first_fault = 0, 0, ""  # the fault of the first unreadable whole line
    for _, entry in _entries_to_read(request):
        if isinstance(entry, Entry):
            sendable += 1
        else:
            unreadable += 1
            first_fault = first_fault or ("" if entry.unfinished else entry.fault)
    if first_fault and not sendable:
        raise ValueError(first_fault)
    return sendable + unreadable


def _delivery_of(number: int, entry: Entry | Unreadable) -> SourceDelivery:
    """Return the delivery of line `number`, without a link. If it is unreadable, set `fault`.

    Raises:
        OSError: the file of a large message cannot be read because of a local error.
    """
    if isinstance(entry, Unreadable):
        return SourceDelivery(entry.octets, position=number, fault=entry.fault)
    octets = entry.octets
    if entry.file is not None:
        try:
            octets = entry.raw[len(entry.content_header or b"") :]
        except SKIPPABLE_FILE_ERRORS as error:
            return SourceDelivery(b"", position=number, fault=str(error))
    return SourceDelivery(
        octets,
        entry.content_header,
        entry.exchange,
        entry.routing_key,
        entry.redelivered,
        position=number,
        written=entry.time,
        message_format=entry.message_format,
    )


def message_in_file(endpoint: Endpoint, position: int, max_message: int) -> SourceDelivery | None:
    """Return the delivery of the line at `position`, from 0; None if the file is shorter.

    Raises:
        LinkError: the file cannot be read.
    """
    path = Path(endpoint.file or "")
    try:
        lines = entries_in(path, protocol=endpoint.protocol, max_message=max_message)
        entry = next(itertools.islice(lines, position, None), None)
        return None if entry is None else _delivery_of(position, entry)
    except OSError as error:
        raise LinkError(str(error), permanent=True) from None


class _Backlog:
    """The messages of a file that are to be delivered: the released ones, then the unread ones.

    Attributes:
        count: number of messages. Counting checks the whole file before the first one is read.
    """

    def __init__(self, request: SourceRequest) -> None:
        self.count = _count_entries(request)
        self._unread = _entries_to_read(request)
        self._released: deque[tuple[int, Entry | Unreadable]] = deque()

    def take(self) -> tuple[int, Entry | Unreadable]:
        """Remove and return the next message, and its position.

        Raises:
            OSError: the file cannot be read.
            ValueError: the file was changed.
            StopIteration: the file has become shorter.
        """
        numbered_entry = self._released.popleft() if self._released else next(self._unread)
        self.count -= 1
        return numbered_entry

    def put_back(self, numbered_entry: tuple[int, Entry | Unreadable]) -> None:
        """Add a released message, to deliver it again."""
        self._released.append(numbered_entry)
        self.count += 1


class FileSource:
    """Reads the messages of a file, without changing it, and passes them to `request.receive`."""

    peer_product = "file"
    incomplete = False

    def __init__(self, request: SourceRequest) -> None:
        self.endpoint = request.endpoint
        self._receive, self._on_lost = request.receive, request.on_lost
        self._window = request.window
        self._loop = asyncio.get_running_loop()
        self._backlog = _Backlog(request)
        self._unsettled = 0
        self._is_paused = self._stopped = self._scheduled = False
        self.alive = True

    def _schedule(self) -> None:
        """Deliver in the next iteration of the event loop, unless paused or stopped."""
        if not self._scheduled and not (self._stopped or self._is_paused):
            self._scheduled = True
            self._loop.call_soon(self._deliver)

    def _deliver(self) -> None:
        """Deliver messages, up to `_MAX_PER_TURN` or until the window is full."""
        self._scheduled = False
        for _ in range(_MAX_PER_TURN):
            if (
                not self.alive
                or self._stopped
                or self._is_paused
                or self._unsettled >= self._window
            ):
                return
            if not self._backlog.count:
                return
            try:
                numbered_entry = self._backlog.take()
                delivery = _delivery_of(*numbered_entry)
                delivery.tag, delivery.link = numbered_entry, self
            except OSError as error:
                self.abort()
                self._on_lost(LinkError(f"cannot read the source file: {error}", local=True))
                return
            except (ValueError, StopIteration) as error:
                self.abort()
                self._on_lost(LinkError(f"the file was changed while it was read: {error}"))
                return
            self._unsettled += 1
            self._receive([delivery])
        self._schedule()

    def settle(self, deliveries: Sequence[SourceDelivery], settlement: Settle) -> None:
        """Settle the deliveries that belong to this link. Released messages are delivered again."""
        for delivery in deliveries:
            if delivery.link is self:
                delivery.link = None
                self._unsettled -= 1
                if settlement is Settle.RELEASE:
                    self._backlog.put_back(delivery.tag)
        self._schedule()

    async def depth(self) -> int | None:
        """Return the number of messages that are not delivered yet, or were released."""
        return self._backlog.count

    async def count(self) -> Depth:
        """Return the number of messages that are not delivered yet, or were released."""
        return Depth(ready=self._backlog.count, other_consumers=0, unacknowledged=0)

    def stop(self) -> None:
        """Stop delivering."""
        self._stopped = True

    def resume(self) -> None:
        """Deliver again after `stop`."""
        self._stopped = not self.alive
        self._schedule()

    def hold(self, pause: bool) -> bool:
        """Pause (`pause`) or resume deliveries."""
        self._is_paused = pause
        self._schedule()
        return True

    async def close(self, wait: float) -> None:  # noqa: ARG002  (of the protocol)
        """Close the file."""
        self.abort()

    def abort(self) -> None:
        """Close the file."""
        self.alive = False
        self._stopped = True


def _line_of_outgoing(outgoing: Outgoing) -> str:
    """Return the line of a message that is written to a target file."""
    raw = (outgoing.content_header or b"") + outgoing.octets
    return _json_line(content_of(outgoing), raw=raw.hex())


def _line_in(outgoing: Outgoing) -> str:
    """Return the quarantine line in the body of a message from a quarantine queue.

    Raises:
        ValueError: the body is not a quarantine line.
    """
    if outgoing.content_header is not None:
        line = parse_json(outgoing.octets)
    else:
        try:
            line = Message.decode(outgoing.octets).json()
        except RecursionError:
            raise ValueError("not JSON: nested too deeply") from None
    # Without a folder, `raw_file` is refused: the sender must not choose files of this machine.
    entry_of(line, None)
    return json.dumps(line)


class FileTarget:
    """Writes messages to a file. Their outcomes are reported once they are on disk."""

    peer_product = "file"
    waits = False

    def __init__(self, request: TargetRequest) -> None:
        self.endpoint = request.endpoint
        self._path = Path(request.endpoint.file or "")
        self._on_outcomes, self._on_room = request.on_outcomes, request.on_room
        self._on_lost = request.on_lost
        self._window = request.window
        self._has_line_bodies = request.endpoint.entries
        self._loop = asyncio.get_running_loop()
        self._pending: list[tuple[SourceDelivery, str]] = []
        self.alive = True
        append_lines(self._path, [])  # raises if the file cannot be written

    @property
    def room(self) -> int:
        """The number of messages that can be sent now."""
        return self._window - len(self._pending)

    def send(self, messages: Sequence[Sent]) -> None:
        """Write messages in the next iteration of the event loop, together."""
        if not self._pending:
            self._loop.call_soon(self.flush)
        for outgoing, delivery in messages:
            try:
                line = (_line_in if self._has_line_bodies else _line_of_outgoing)(outgoing)
            except ValueError as error:
                self._on_outcomes([(delivery, Outcome("rejected", "", str(error), final=True))])
            else:
                self._pending.append((delivery, line + "\n"))

    def flush(self) -> None:
        """Write the pending messages, and report their outcomes."""
        pending, self._pending = self._pending, []
        if not self.alive or not pending:
            return
        try:
            append_lines(self._path, [line for _, line in pending])
        except OSError as error:
            self.alive = False
            text = (
                f"cannot write the target file: {error}; messages that are not in it yet stay at "
                "the source: make room for the file, and start the bridge again"
            )
            self._on_lost(LinkError(text, local=True))
            return
        self._on_outcomes([(delivery, ACCEPTED) for delivery, _ in pending])
        self._on_room()

    async def close(self, wait: float) -> None:  # noqa: ARG002  (of the protocol)
        """Write the pending messages, and close."""
        self.flush()
        self.abort()

    def abort(self) -> None:
        """Drop the pending messages, and close."""
        self.alive = False


async def open_source(request: SourceRequest) -> FileSource:
    """Open a file as a source.

    Raises:
        LinkError: the file cannot be read, or has lines, but no message that can be sent.
    """
    try:
        source = FileSource(request)
    except (OSError, ValueError) as error:
        raise LinkError(str(error), permanent=True) from None
    source._schedule()
    return source


async def open_target(request: TargetRequest) -> FileTarget:
    """Open a file as a target, to which lines are appended.

    Raises:
        LinkError: the file cannot be written.
    """
    try:
        return FileTarget(request)
    except OSError as error:
        raise LinkError(str(error), permanent=True) from None
