"""Containers of encoded messages: length-prefixed, JSON lines, CBOR sequences.

The readers take a stream at the start, a place to stop before (None for the end) and the bytes
that one message may take, and limits.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import IO, Any

from amqp10msg.files import MAX_SIZE
from amqp10msg.files._record import Record
from amqp10msg.files.streams import read_up_to
from amqp10msg.files.text import octets_of_base64, octets_of_hex, parse_json
from amqp10msg.wire.limits import DEFAULT_LIMITS, Limits
from amqp10msg.wire.reprs import printable

# Reads what stands before an item, empty at the end, and the size, None where that is cut off.
_HeadOf = Callable[[Any], tuple[bytes, int | None]]
# The size where another kind of item begins.
_NO_ITEM = -1
#: Keys of a JSON record that hold a message, and what reads what is in them.
RECORD_KEYS: dict[str, Callable[[str], bytes]] = {
    "raw": octets_of_hex,
    "hex": octets_of_hex,
    "base64": octets_of_base64,
    "data_base64": octets_of_base64,
}
# In a case of the corpus `data` is hex; in the plain notation it is a section.
_CASE_KEYS = {"data": octets_of_hex, **RECORD_KEYS}


#: What helps where a file would make more than it may.
RAISE_EXPANSION = "raise Limits.expansion, or use --trust-files, if you trust it"


def too_large(size: int) -> str:
    """Return the fault of a message that is larger than the bytes that one may take."""
    return f"larger than {size:,} bytes"


def _too_many_empty(limits: Limits) -> str:
    """Return the fault of a file of which more is not read."""
    return (
        f"more than {limits.zero_width:,} records without a byte: what follows is not read "
        "(raise Limits.zero_width, or use --trust-files, to read it)"
    )


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
    stream: IO[bytes],
    start: int = 0,
    stop: int | None = None,
    max_size: int = MAX_SIZE,
    limits: Limits = DEFAULT_LIMITS,
) -> Iterator[Record]:
    """Read messages after their sizes, four bytes each in network byte order."""
    return _read_sized(stream, start, stop, max_size, limits, head_of=_prefix)


def _prefix(stream: Any) -> tuple[bytes, int | None]:
    prefix = stream.read(4)
    return prefix, int.from_bytes(prefix, "big") if len(prefix) == 4 else None


def _cbor_head(stream: Any) -> tuple[bytes, int | None]:
    first = stream.read(1)
    if not first:
        return b"", None
    more = _CBOR_SIZES.get(first[0])
    if more is None:
        return first, _NO_ITEM
    rest = stream.read(more)
    size = int.from_bytes(rest, "big") if more else first[0] & 0x1F
    return first + rest, size if len(rest) == more else None


def _read_sized(
    stream: IO[bytes],
    start: int,
    stop: int | None,
    max_size: int,
    limits: Limits,
    *,
    head_of: _HeadOf,
) -> Iterator[Record]:
    offset, empty = start, limits.zero_width
    while stop is None or offset < stop:
        head, size = head_of(stream)
        if not head:
            return
        octets, fault = None, ""
        if size is None:
            fault = "its length is cut off"
        elif size == _NO_ITEM:
            fault = (
                f"not a byte string: the item begins with {head.hex()}; what follows is not read"
            )
            head += stream.read(1023)
        elif size > max_size:
            # Its bytes are not read: the size is more likely wrong than they are there.
            fault = too_large(max_size)
        elif not size and not empty:
            fault = _too_many_empty(limits)
        else:
            empty -= not size
            octets = read_up_to(stream, size)
            if len(octets) < size:
                fault = f"cut off, {len(octets):,} of {size:,} bytes"
        yield Record(offset, head if octets is None else octets, fault, ends=bool(fault))
        if fault:
            return
        offset += len(head) + len(octets or b"")


def _starts(path: Path, size: int, octets: int, *, head_of: _HeadOf) -> list[int]:
    """Find where ranges of this many bytes can begin, from item to item, up to a damaged one."""
    starts, next_start, at = [0], octets, 0
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        while at < size:
            data.seek(at)
            head, length = head_of(data)
            if length is None or length == _NO_ITEM:
                break
            at += len(head) + length
            if next_start <= at < size:
                starts.append(at)
                next_start = at + octets
    return starts


def read_lines(
    stream: IO[bytes], longest: int, start: int = 0, stop: int | None = None
) -> Iterator[tuple[int, bytes, str]]:
    """Read lines, blank ones included, of at most this many bytes.

    Yields:
        Where the line begins, in bytes; the line with its end; and what is wrong with it: empty,
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


def _raw(
    stream: IO[bytes], start: int, _stop: int | None, max_size: int, _limits: Limits
) -> Iterator[Record]:
    octets = read_up_to(stream, max_size + 1)
    is_large = len(octets) > max_size
    yield Record(start, octets[:1024] if is_large else octets, too_large(max_size) * is_large)


def _jsonl(
    stream: IO[bytes], start: int, stop: int | None, max_size: int, limits: Limits
) -> Iterator[Record]:
    empty = limits.zero_width
    # Hex takes two characters a byte, and a record may say more than the message.
    for offset, line, fault in read_lines(stream, 2 * max_size + (1 << 20), start, stop):
        if fault:
            yield Record(offset, line, f"a line {fault}")
        elif line.strip():
            try:
                yield _record_of_line(offset, line)
            except ValueError as error:
                yield Record(offset, line.rstrip(b"\r\n"), f"not a record: {error}")
        elif empty:
            empty -= 1
        else:
            yield Record(offset, line, _too_many_empty(limits), ends=True)
            return


def _record_of_line(offset: int, line: bytes) -> Record:
    document = parse_json(line)
    octets = octets_of_record(document) if isinstance(document, dict) else None
    if octets is None:
        raise ValueError(f"no object with one of the keys {', '.join(RECORD_KEYS)}")
    if len(document) == 1:  # the message alone
        return Record(offset, octets)
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


#: Bytes of the size after the first byte of a CBOR byte string (RFC 8949, 3).
_CBOR_SIZES = {**dict.fromkeys(range(0x40, 0x58), 0), 0x58: 1, 0x59: 2, 0x5A: 4, 0x5B: 8}


#: Readers by form.
READERS: dict[str, Callable[[IO[bytes], int, int | None, int, Limits], Iterator[Record]]] = {
    "raw": _raw,
    "prefixed": read_prefixed,
    "jsonl": _jsonl,
    "cborseq": partial(_read_sized, head_of=_cbor_head),
}
#: Where ranges may begin, by form: of a path, its size, and bytes a range.
STARTS: dict[str, Callable[[Path, int, int], list[int]]] = {
    "prefixed": partial(_starts, head_of=_prefix),
    "jsonl": _jsonl_starts,
    "cborseq": partial(_starts, head_of=_cbor_head),
}
