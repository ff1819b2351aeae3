"""Containers of encoded messages: length-prefixed, JSON lines, CBOR sequences.

The readers take a stream at the start, a place to stop before (None for the end) and the octets
that one message may take.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import IO, Any

from amqp10msg.files._record import MAX_SIZE, Record
from amqp10msg.files.text import octets_of_base64, octets_of_hex, parse_json, printable

#: Keys of a JSON record that hold a message, and what reads what is in them.
RECORD_KEYS: dict[str, Callable[[str], bytes]] = {
    "raw": octets_of_hex,
    "hex": octets_of_hex,
    "base64": octets_of_base64,
    "data_base64": octets_of_base64,
}
# In a case of the corpus `data` is hex; in the plain notation it is a section.
_CASE_KEYS = {"data": octets_of_hex, **RECORD_KEYS}


def too_large(size: int) -> str:
    """Return the fault of a message that is larger than the octets that one may take."""
    return f"larger than {size:,} bytes"


def octets_of_record(document: dict[str, Any]) -> bytes | None:
    """Return the message of a JSON record; None where it has no key for one.

    Raises:
        ValueError: what the key holds is not hex or not base64.
    """
    for key, read in (_CASE_KEYS if "kind" in document else RECORD_KEYS).items():
        if isinstance(document.get(key), str):
            try:
                return read(document[key])
            except ValueError as error:
                raise ValueError(f"{key!r} is {error}") from None
    return None


def read_prefixed(
    stream: IO[bytes], start: int = 0, stop: int | None = None, max_size: int = MAX_SIZE
) -> Iterator[Record]:
    """Read messages after their sizes, four octets each in network byte order."""
    offset = start
    while (stop is None or offset < stop) and (prefix := stream.read(4)):
        size = int.from_bytes(prefix, "big")
        record = _sized(stream, offset, prefix, size if len(prefix) == 4 else None, max_size)
        yield record
        if record.fault:
            return
        offset += 4 + size


def _sized(stream: IO[bytes], offset: int, head: bytes, size: int | None, max_size: int) -> Record:
    """Read the message behind its size, which is None where the head is cut off."""
    if size is None:
        return Record(offset, head, "its length is cut off")
    if size > max_size:
        # Its octets are not read: the size is more likely wrong than they are there.
        return Record(offset, head, too_large(max_size))
    octets = stream.read(size)
    cut = f"cut off, {len(octets):,} of {size:,} bytes" if len(octets) < size else ""
    return Record(offset, octets, cut)


def _starts(
    path: Path, size: int, octets: int, sized: Callable[[mmap.mmap, int], int | None]
) -> list[int]:
    """Find where ranges of so many octets can begin, from item to item.

    Args:
        path: the file.
        size: its size.
        octets: how large a range should be.
        sized: returns how long the item at a place is with its head; None where it is damaged.
    """
    starts, next_start, at = [0], octets, 0
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        while at < size and (item := sized(data, at)) is not None:
            at += item
            if next_start <= at < size:
                starts.append(at)
                next_start = at + octets
    return starts


def _sized_prefixed(data: mmap.mmap, at: int) -> int | None:
    return 4 + int.from_bytes(data[at : at + 4], "big") if at + 4 <= len(data) else None


def _sized_cbor(data: mmap.mmap, at: int) -> int | None:
    more = _CBOR_SIZES.get(data[at])
    if more is None:
        return None
    return (
        1 + more + (int.from_bytes(data[at + 1 : at + 1 + more], "big") if more else data[at] & 31)
    )


def read_lines(
    stream: IO[bytes], longest: int, start: int = 0, stop: int | None = None
) -> Iterator[tuple[int, bytes, str]]:
    """Read lines, blank ones included, of so many octets at most.

    Yields:
        Where the line begins, in octets; the line with its end; and what is wrong with it: empty,
        or that it is too long, and the line is its beginning then.
    """
    offset = start
    while (stop is None or offset < stop) and (line := stream.readline(longest + 1)):
        here, offset = offset, offset + len(line)
        if len(line) > longest:
            yield here, line[:1024], too_large(longest)
            while line and not line.endswith(b"\n"):
                line = stream.readline(1 << 20)
                offset += len(line)
        else:
            yield here, line, ""


def _jsonl(stream: IO[bytes], start: int, stop: int | None, max_size: int) -> Iterator[Record]:
    # Hex takes two characters an octet, and a record may say more than the message.
    for offset, line, fault in read_lines(stream, 2 * max_size + (1 << 20), start, stop):
        if fault:
            yield Record(offset, line, f"a line {fault}")
        elif line.strip():
            try:
                yield _record_of_line(offset, line)
            except ValueError as error:
                yield Record(offset, line.rstrip(b"\r\n"), f"not a record: {error}")


def _record_of_line(offset: int, line: bytes) -> Record:
    document = parse_json(line)
    octets = octets_of_record(document) if isinstance(document, dict) else None
    if octets is None:
        raise ValueError(f"no object with one of the keys {', '.join(RECORD_KEYS)}")
    found = document.get("message_format")
    tag = document.get("delivery_tag")
    address = document.get("address")
    return Record(
        offset,
        octets,
        message_format=found if type(found) is int and 0 <= found < 1 << 32 else None,
        delivery_tag=octets_of_hex(tag) if isinstance(tag, str) else None,
        address=printable(address) if isinstance(address, str) else None,
    )


def _jsonl_starts(path: Path, size: int, octets: int) -> list[int]:
    starts, at = [0], octets
    with path.open("rb") as file:
        while at < size:
            file.seek(at - 1)
            file.readline()
            at = file.tell()
            if at < size:
                starts.append(at)
            at += octets
    return starts


def _cborseq(stream: IO[bytes], start: int, stop: int | None, max_size: int) -> Iterator[Record]:
    offset = start
    while (stop is None or offset < stop) and (first := stream.read(1)):
        more = _CBOR_SIZES.get(first[0])
        if more is None:
            yield Record(
                offset,
                first + stream.read(1023),
                f"not a byte string: the item begins with {first.hex()}; what follows is not read",
            )
            return
        rest = stream.read(more)
        size = int.from_bytes(rest, "big") if more else first[0] & 0x1F
        record = _sized(stream, offset, first + rest, size if len(rest) == more else None, max_size)
        yield record
        if record.fault:
            return
        offset += 1 + more + size


#: Octets of the size behind the first octet of a CBOR byte string (RFC 8949, 3).
_CBOR_SIZES = {**dict.fromkeys(range(0x40, 0x58), 0), 0x58: 1, 0x59: 2, 0x5A: 4, 0x5B: 8}


#: Readers by form.
READERS: dict[str, Callable[[IO[bytes], int, int | None, int], Iterator[Record]]] = {
    "prefixed": read_prefixed,
    "jsonl": _jsonl,
    "cborseq": _cborseq,
}
#: Where ranges may begin, by form: of a path, its size, and octets a range.
STARTS: dict[str, Callable[[Path, int, int], list[int]]] = {
    "prefixed": partial(_starts, sized=_sized_prefixed),
    "jsonl": _jsonl_starts,
    "cborseq": partial(_starts, sized=_sized_cbor),
}
