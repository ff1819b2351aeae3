"""Reads files with one message per line: quarantines, recordings and captured messages.

A line is a JSON object:

``raw``
    The message in hex (also ``hex``, ``base64`` or ``data_base64``). A 0-9-1 message is the payload
    of its content header frame, followed by the body.
``raw_file``
    Instead of ``raw``: the path of a file with the bytes of the message. The file must be in the
    folder of the file of lines, or below it.
``protocol``
    ``0-9-1`` or ``1.0``; by default the protocol given to the reader.
``content_header``
    Size in bytes of the content header of a 0-9-1 message. The default is the size of the message
    minus the body size that the header contains.
``message_format``
    The message format of a 1.0 message, 0 by default.
``exchange``, ``routing_key``, ``redelivered``
    The fields of basic.deliver of a 0-9-1 message; empty and false by default.
``time``, ``route``, ``source``, ``target``, ``reason``, ``condition``, ``description``
    Details that the quarantine records; empty by default.

Other fields are ignored. Every field is checked, because a peer may have written the lines.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import attrs

from amqp10msg.atomic_files import lock
from amqp10msg.basic import decode_content_header
from amqp10msg.files.containers import MESSAGE_DECODERS, octets_of_record, read_lines
from amqp10msg.files.text import parse_json
from amqp10msg.private_files import regular_opener
from amqp10msg.wire.errors import DecodeError

#: The reason for which lines that are not messages are quarantined.
UNREADABLE = "unreadable"
#: Maximum size in bytes of a content header; a real header fits into a frame, usually of 128 KiB.
_MAX_CONTENT_HEADER_SIZE = 16 << 20
#: Size in bytes of a content header without properties.
_MIN_CONTENT_HEADER_SIZE = 14
#: Maximum size in bytes of the fields of a line without the message.
_MAX_SIZE_OF_FIELDS = 1 << 20
#: Maximum number of bytes of an unreadable line that are quarantined.
_MAX_UNREADABLE_SIZE = 1 << 16
#: Number of bytes per read when lines are only counted.
_COUNTING_READ_SIZE = 1 << 20
#: Default maximum size of a message in bytes.
MAX_MESSAGE = 1 << 31
#: Errors of opening a ``raw_file`` that affect only its message. Other errors, such as disk errors
#: or too many open files, would also affect other messages, and are raised.
SKIPPABLE_FILE_ERRORS = (FileNotFoundError, PermissionError)
_PROTOCOLS = ("0-9-1", "1.0")
#: The fields of a line that must be strings.
_STRING_FIELDS = (
    *("exchange", "routing_key", "reason", "condition", "description"),
    *("route", "source", "target", "time"),
)


@attrs.frozen
class Entry:
    """The message of a line.

    Attributes:
        protocol: ``0-9-1`` or ``1.0``.
        octets: the encoded 1.0 message, or the body of a 0-9-1 message.
        content_header: the payload of the content header frame; None for a 1.0 message.
        exchange: the exchange that a 0-9-1 message was published to.
        routing_key: the routing key that a 0-9-1 message was published with.
        redelivered: whether the source marked the message as redelivered.
        reason: the reason why the message was quarantined, such as ``too-large``.
        condition: the target's error condition, such as ``amqp:not-allowed``.
        description: the error text of the target or the translation.
        route: the name of the route.
        source: the URL of the source, without credentials.
        target: the URL of the target, without credentials.
        time: the time at which the line was written, in ISO 8601, UTC.
        message_format: the message format of a 1.0 message, 0 to 2^32 - 1.
        file: the file with the bytes of `raw`, if the message was too large for memory. `octets` is
            empty then.
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
    message_format: int = 0
    file: Path | None = None

    @property
    def raw(self) -> bytes:
        """The encoded 1.0 message, or the content header and the body of a 0-9-1 message.

        Raises:
            OSError: the file of a large message cannot be read.
        """
        if self.file is not None:
            return self.file.read_bytes()
        return (self.content_header or b"") + self.octets


@attrs.frozen
class Unreadable:
    """A line that is not a message.

    Attributes:
        octets: the line, at most its first 64 KiB.
        fault: why the line is not a message, with the file and the number of the line.
        unfinished: whether the line is truncated, for example because its writer was killed. The
            writer did not settle the message of such a line, so the source delivered it again.
    """

    octets: bytes
    fault: str
    unfinished: bool = False


def entries_in(
    path: Path, *, protocol: str = "1.0", max_message: int = MAX_MESSAGE, start: int = 0
) -> Iterator[Entry | Unreadable]:
    """Yield the messages of a file, and the lines that are not messages; skip blank lines.

    Lines appended during the iteration are not read.

    Args:
        path: the file.
        protocol: the protocol of lines without the field ``protocol``.
        max_message: maximum size of a message in bytes.
        start: number of bytes to skip at the start of the file.

    Raises:
        OSError: the file cannot be read.
    """
    with open(path, "rb", opener=regular_opener) as file:
        end = _locked_size(path)
        number = _count_lines(file, start)
        for _, line, fault in read_lines(file, 2 * max_message + _MAX_SIZE_OF_FIELDS, start, end):
            number += 1
            where = f"{path}, line {number}"
            try:
                if fault:
                    raise ValueError(f"the line is {fault}")
                if not line.strip():
                    continue
                record = parse_json(line)
            except ValueError as error:
                is_unfinished = not fault and _is_unfinished(line.strip())
                yield Unreadable(line[:_MAX_UNREADABLE_SIZE], f"{where}: {error}", is_unfinished)
                continue
            try:
                yield entry_of(record, path.parent, protocol=protocol, max_message=max_message)
            except ValueError as error:
                yield Unreadable(line[:_MAX_UNREADABLE_SIZE], f"{where}: {error}")


def _count_lines(file: BinaryIO, size: int) -> int:
    """Read `size` bytes of a file, or up to its end. Return the number of line ends in them."""
    count = 0
    while size > 0 and (octets := file.read(min(size, _COUNTING_READ_SIZE))):
        size -= len(octets)
        count += octets.count(b"\n")
    return count


def _locked_size(path: Path) -> int:
    """Return the size of a file, at a moment when no bridge is appending a line to it."""
    with open(path, "rb", opener=regular_opener) as file:
        lock(file.fileno(), wait=True)
        return file.seek(0, os.SEEK_END)


def read_quarantine(path: Path, start: int = 0) -> Iterator[Entry]:
    """Yield the messages of a quarantine file; skip unfinished lines.

    The message of an unfinished line was not settled, so the source delivered it again.

    Args:
        path: the file.
        start: number of bytes to skip at the start of the file: its size at an earlier time.

    Raises:
        OSError: the file cannot be read.
        ValueError: a complete line is not a message, or its ``raw_file`` is missing, not a regular
            file, or outside of the folder of the quarantine.
    """
    for entry in entries_in(path, start=start):
        if isinstance(entry, Entry):
            yield entry
        elif not entry.unfinished:
            raise ValueError(entry.fault)


_JSON_STRING_PATTERN = re.compile(rb'"(?:[^"\\]|\\.)*"')


def _is_unfinished(line: bytes) -> bool:
    """Whether an invalid line is truncated (by a kill) or has zeros (after a loss of power)."""
    if b"\0" in line:
        return True
    between_strings = _JSON_STRING_PATTERN.sub(b"", line)
    is_closed = b'"' not in between_strings and (
        between_strings.count(b"{") == between_strings.count(b"}")
    )
    return line[:1] == b"{" and not is_closed


def entry_of(
    record: Any,
    folder: Path | None,
    *,
    protocol: str = "1.0",
    max_message: int = MAX_MESSAGE,
) -> Entry:
    """Return the message of a parsed line; see this module for the fields.

    Args:
        record: the JSON value.
        folder: the folder that must contain the ``raw_file``; None to reject ``raw_file``, for a
            line from the network.
        protocol: the protocol of a line without the field ``protocol``.
        max_message: maximum size of the message in bytes.

    Raises:
        ValueError: the value is not a message; the error text says why.
        OSError: the file of the message cannot be read, because of an error that would also affect
            other messages.
    """
    if not isinstance(record, dict):
        raise ValueError("not a message: a line must be a JSON object")  # noqa: TRY004  (of a text)
    strings = {name: _string_field(record, name) for name in _STRING_FIELDS}
    if strings["reason"] == UNREADABLE:
        raise ValueError(f"the line was quarantined before as unreadable: {strings['description']}")
    protocol = record.get("protocol", protocol)
    if protocol not in _PROTOCOLS:
        raise ValueError(f"not a message: protocol must be 0-9-1 or 1.0, not {protocol!r:.40}")
    message_format = record.get("message_format") or 0
    if type(message_format) is not int or not 0 <= message_format < 1 << 32:
        raise ValueError("not a message: message_format must be a number of 32 bits")
    file = _message_file(folder, record["raw_file"]) if "raw_file" in record else None
    octets: bytes | None = None
    if file is None:
        octets = octets_of_record(record)
        if octets is None:
            keys = ", ".join(MESSAGE_DECODERS)
            raise ValueError(f"not a message: none of the fields {keys} and raw_file is a string")
    header = _header_in(record, file, octets or b"", max_message, protocol)
    return Entry(
        protocol=protocol,
        message_format=message_format,
        octets=b"" if octets is None else octets[len(header or b"") :],
        content_header=header,
        redelivered=record.get("redelivered") is True,
        file=file,
        **strings,
    )


def _header_in(
    record: dict[str, Any], file: Path | None, octets: bytes, max_message: int, protocol: str
) -> bytes | None:
    """Return the content header of a message in `file` or in `octets`; None for a 1.0 message.

    Raises:
        ValueError: the content header is invalid, or the message is too large.
        OSError: the file cannot be read, because of an error that would also affect other messages.
    """
    size = len(octets)
    try:
        if file is not None:
            size = file.stat().st_size
        if size > max_message:
            raise ValueError(f"the message has {size:,} bytes, and max-message is {max_message:,}")
        if protocol != "0-9-1":
            return None
        if file is None:
            header = octets[: _size_of_header(record, octets, size)]
        else:
            with file.open("rb") as opened:
                header_size = _size_of_header(record, opened.read(_MIN_CONTENT_HEADER_SIZE), size)
                opened.seek(0)
                header = opened.read(header_size)
    except SKIPPABLE_FILE_ERRORS as error:
        raise ValueError(f"raw_file cannot be read: {error}") from None
    if "content_header" not in record:
        _check_header(header)
    return header


def _string_field(record: dict[str, Any], name: str) -> str:
    """Return a field of a line, or an empty string. Raises ValueError if it is not a string."""
    text = record.get(name, "")
    if not isinstance(text, str):
        raise ValueError(f"not a message: the field {name} must be a string")  # noqa: TRY004  (of a text)
    try:
        text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise ValueError(f"not a message: {name} has half of a surrogate pair") from None
    return text


def _size_of_header(record: dict[str, Any], beginning: bytes, size: int) -> int:
    """Return the size of a content header, from the line or from the body size in the header.

    Args:
        record: the line.
        beginning: at least the first 14 bytes of the message.
        size: the size in bytes of the message, which is content header and body.
    """
    header_size = record.get("content_header")
    if "content_header" in record:
        if type(header_size) is not int or not 0 <= header_size <= min(
            size, _MAX_CONTENT_HEADER_SIZE
        ):
            raise ValueError(
                f"not a message: content_header must be a number of bytes from 0 to "
                f"{min(size, _MAX_CONTENT_HEADER_SIZE):,}, not {header_size!r:.40}"
            )
        return header_size
    body_size = int.from_bytes(beginning[4:12], "big")
    if (
        size < _MIN_CONTENT_HEADER_SIZE
        or not _MIN_CONTENT_HEADER_SIZE <= size - body_size <= _MAX_CONTENT_HEADER_SIZE
    ):
        raise ValueError(
            f"not a 0-9-1 message: {size:,} bytes are not a content header and a body of "
            f"{body_size:,} bytes; give the size of the header in the field content_header"
        )
    return size - body_size


def _check_header(header: bytes) -> None:
    """Raise ValueError if a content header cannot be decoded."""
    try:
        decode_content_header(header)
    except DecodeError as error:
        raise ValueError(f"not a 0-9-1 message: its content header: {error}") from None


def _message_file(folder: Path | None, name: Any) -> Path:
    """Return the path of the ``raw_file`` `name`, a regular file in `folder` or below it."""
    if folder is None:
        raise ValueError("not a message: raw_file is not allowed in a message from a queue")
    if not isinstance(name, str) or not name:
        raise ValueError("not a message: raw_file must be the name of a file")
    root = folder.resolve()
    try:
        path = (root / name).resolve()
        inside, regular = path.is_relative_to(root), path.is_file()
    except (OSError, ValueError, RuntimeError) as error:  # such as a loop of symbolic links
        raise ValueError(f"not a message: raw_file {name!r:.80}: {error}") from None
    if not inside:
        raise ValueError(f"not a message: raw_file {name!r:.80} is outside of the folder {root}")
    if not regular:
        raise ValueError(f"not a message: raw_file {name!r:.80} is not a regular file in {root}")
    return path
