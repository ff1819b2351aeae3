"""Messages that no target takes: their exact bytes on disk before they are settled."""

from __future__ import annotations

import datetime
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from amqp10msg.files.atomic import sync_folder
from amqp10msg.files.locks import lock
from amqp10msg.net.bridge.terms import Delivery, Outcome, Outgoing


@attrs.frozen
class Entry:
    """One message in the quarantine.

    Attributes:
        protocol: ``0-9-1`` or ``1.0``.
        octets: of a 1.0 message, or the body.
        content_header: of a 0-9-1 message.
        exchange: of a 0-9-1 message.
        routing_key: of a 0-9-1 message.
        redelivered: as the source said.
        reason: such as ``too-large``.
        condition: what the target said, such as ``amqp:not-allowed``.
        description: what the target or the translation said.
        route: its name.
        source: where it came from, without credentials.
        target: where it did not go.
        time: when, in ISO 8601, UTC.
        file: of a message that was too large for memory, whose `octets` are empty: content header,
            if it has one, and body.
    """

    protocol: str
    octets: bytes
    content_header: bytes | None
    exchange: str
    routing_key: str
    redelivered: bool
    reason: str
    condition: str
    description: str
    route: str
    source: str
    target: str
    time: str
    file: Path | None = None

    @property
    def raw(self) -> bytes:
        """The bytes of a 1.0 message, or content header and body of one of 0-9-1.

        Raises:
            OSError: the file of a large one cannot be read.
        """
        if self.file is not None:
            return self.file.read_bytes()
        return (self.content_header or b"") + self.octets


class Quarantine:
    """A file of JSON lines, one a message; routes and processes may share it.

    ``raw`` is the message in hex, as the commands of amqp10msg read it: of 0-9-1, the payload of
    the content header, of which ``content_header`` says how many bytes it has, and the body. What
    was too large for memory is in a file of its own, which ``raw_file`` names from the folder on.

    Args:
        path: of the file; it is made with the first entry.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.count = 0

    def add(
        self,
        entries: Iterable[tuple[Delivery, Outcome]],
        *,
        route: str,
        source: str,
        target: str,
    ) -> None:
        """Write messages, and return when they are on disk.

        Raises:
            OSError: they could not be written; none of them may be settled.
        """
        names = {"route": route, "source": source, "target": target}
        lines = [
            line_of(delivery, outcome, names, self.path.parent) + "\n"
            for delivery, outcome in entries
        ]
        append_lines(self.path, lines)
        self.count += len(lines)


def line_of(
    delivery: Delivery, outcome: Outcome, names: Mapping[str, str], folder: Path | None = None
) -> str:
    """Return the line of a message.

    Args:
        delivery: the message; a large one is kept.
        outcome: why it is set aside.
        names: of the route, its source and its target.
        folder: where the file of a large one is named from.
    """
    line: dict[str, Any] = {
        "time": datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds"),
        **names,
        "reason": outcome.kind,
        "condition": outcome.condition,
        "description": outcome.description,
        "redelivered": delivery.redelivered,
        **content_of(delivery),
    }
    if delivery.large is not None:
        line["raw_file"] = str(delivery.large.keep().relative_to(folder or Path()))
    else:
        line["raw"] = delivery.raw.hex()
    return json.dumps(line)


def content_of(given: Delivery | Outgoing) -> dict[str, Any]:
    """Return what a line says of a message besides its bytes: its protocol, and names."""
    header = given.content_header
    if header is None:
        return {"protocol": "1.0"}
    return {
        "protocol": "0-9-1",
        "exchange": given.exchange,
        "routing_key": given.routing_key,
        "content_header": len(header),
    }


def append_lines(path: Path, lines: Sequence[str]) -> None:
    """Write lines after those of a file, and return when they are on disk.

    Raises:
        OSError: they could not be written; the file is as before.
    """
    # Without a buffer, which would be written again after an error, also beyond the truncation.
    with path.open("ab", buffering=0) as file:
        lock(file.fileno(), wait=True)
        end = file.seek(0, os.SEEK_END)
        try:
            if end and not _ends_a_line(path, end):
                lines = ["\n", *lines]  # after that of a process that was killed while it wrote
            octets = memoryview("".join(lines).encode())
            while octets:
                octets = octets[file.write(octets) :]
            os.fsync(file.fileno())
            if not end:
                sync_folder(path.parent)  # its name, too, outlives a loss of power
        except OSError as error:
            file.truncate(end)
            raise OSError(error.errno, error.strerror, str(path)) from None


def _ends_a_line(path: Path, end: int) -> bool:
    with path.open("rb") as file:
        file.seek(end - 1)
        return file.read(1) == b"\n"


def read_quarantine(path: Path) -> Iterator[Entry]:
    """Yield the messages of a quarantine; a line that was not finished is passed over.

    Its message was not settled either, and came again. Lines that say no more than ``raw``, as the
    commands write them, are of 1.0.

    Raises:
        OSError: the file cannot be read.
        ValueError: a line is whole, but no entry.
    """
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                found = json.loads(line)
            except ValueError:
                continue
            try:
                yield entry_of(found, path.parent)
            except ValueError as error:
                raise ValueError(f"{path}, line {number}: {error}") from None


_TEXTS = (
    *("exchange", "routing_key", "reason", "condition", "description"),
    *("route", "source", "target", "time"),
)


def entry_of(found: Any, folder: Path) -> Entry:
    """Return the entry of a line.

    Args:
        found: the JSON of it, read.
        folder: where the file of a large message is named from.

    Raises:
        ValueError: it is none.
    """
    try:
        return _entry(found, folder)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"no entry of a quarantine: {error!r}") from None


def _entry(found: Any, folder: Path) -> Entry:
    protocol = found.get("protocol", "1.0")
    cut = found["content_header"] if protocol == "0-9-1" else 0
    file = folder / found["raw_file"] if "raw_file" in found else None
    if file is None:
        raw = bytes.fromhex(found["raw"])
    else:
        with file.open("rb") as opened:
            raw = opened.read(cut)
    texts = {name: found.get(name, "") for name in _TEXTS}
    if not all(isinstance(text, str) for text in texts.values()):
        raise TypeError(f"{', '.join(_TEXTS)} are texts")
    return Entry(
        protocol=protocol,
        octets=raw[cut:],
        content_header=raw[:cut] if protocol == "0-9-1" else None,
        redelivered=found.get("redelivered") is True,
        file=file,
        **texts,
    )
