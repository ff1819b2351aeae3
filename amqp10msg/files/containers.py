"""Files opened as streams of bytes, gzip uncompressed, and the messages in their containers.

The containers are length-prefixed, JSON lines and CBOR sequences. Their readers take a stream at
the start, a place to stop before (None for the end), the bytes that one message may take, and
limits.
"""

from __future__ import annotations

import io
import mmap
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from os import PathLike
from pathlib import Path
from typing import IO, Any

import attrs

from amqp10msg.files import MAX_SIZE
from amqp10msg.files._record import Record, UnusableFileError
from amqp10msg.files.text import RefusedError, octets_of_base64, octets_of_hex, parse_json
from amqp10msg.wire.limits import DEFAULT_LIMITS, Limits
from amqp10msg.wire.reprs import encodable

#: What a gzip file begins with (RFC 1952, 2.3.1).
GZIP = b"\x1f\x8b"
# Bytes that are read from the compressed file at a time, and that one piece of content may have.
_PACKED, _PIECE = 8 << 10, 64 << 10
# Of zlib: a gzip file, its header and checksum included.
_WITH_HEADER = 31
#: Bytes of content that any compressed file may have, however small it is.
ROOM = 64 << 20
# Bytes that are read at first where many are wanted.
_FIRST = 1 << 20


def read_up_to(stream: Any, size: int) -> bytes:
    """Read this many bytes, or those that there are, which take no room before.

    A buffered reader makes room for all that it is asked for, and a size may be damaged.
    """
    found: bytes = stream.read(min(size, _FIRST))
    if size <= _FIRST or len(found) < _FIRST:
        return found
    pieces, read = [found], len(found)
    while read < size and (found := stream.read(min(size - read, read))):
        pieces.append(found)
        read += len(found)
    return b"".join(pieces)


class DamagedGzipError(Exception):
    """A gzip file is cut off, its content is not what was compressed, or it has too much of it.

    Attributes:
        offset: where in the content the part begins that cannot be read, in bytes.
    """

    def __init__(self, reason: str, offset: int) -> None:
        super().__init__(f"the gzip file is damaged: {reason}; its content ends at byte {offset}")
        self.offset = offset


def opened(path: str | PathLike[str], limits: Limits = DEFAULT_LIMITS) -> Any:
    """Open a file, or a URL, for reading, uncompressed where it is a gzip file.

    Raises:
        UnusableFileError: it is called a gzip file, and is empty.
    """
    from amqp10msg.files import stores  # noqa: PLC0415  (what is given as hex opens no file)

    stream = stores.opened(path)
    if stores.name_of(path).suffix == ".gz" and not stream.peek(1):
        stream.close()
        raise UnusableFileError(f"{path}: the file is empty, and a gzip file has at least a header")
    return unpacked(stream, limits, closes=True)


def unpacked(stream: Any, limits: Limits = DEFAULT_LIMITS, *, closes: bool = False) -> Any:
    """Return a stream that has a method ``peek``, or its content where it is a gzip file.

    The limit `expansion` bounds the content. If `closes`, closing that closes the stream, too.
    """
    is_packed = stream.peek(2)[:2] == GZIP
    return Gunzipped(stream, limits, closes=closes) if is_packed else stream


class Gunzipped(io.BufferedIOBase):
    """The content of a gzip file, of which all can be read that stands before a damage.

    `read` and `readline` raise `DamagedGzipError` where what they should return is not all there,
    and leave what is there unread.
    """

    def __init__(
        self, packed: Any, limits: Limits = DEFAULT_LIMITS, *, closes: bool = False
    ) -> None:
        self._packed = packed
        self._expansion = limits.expansion
        self._room = ROOM  # bytes of content that may still come
        self._closes = closes
        self._inflater = zlib.decompressobj(_WITH_HEADER)
        self._rest = b""  # compressed, and not yet given to the inflater
        self._content = bytearray()  # uncompressed, and not yet read
        self._offset = 0
        self._ended = False
        self._damage = ""

    def readable(self) -> bool:
        """Return True."""
        return True

    def close(self) -> None:
        """Close this, and the gzip file where that is asked for."""
        super().close()
        if self._closes:
            self._packed.close()

    def tell(self) -> int:
        """Return how many bytes of the content are read."""
        return self._offset

    def peek(self, size: int = 1) -> bytes:
        """Return up to this many bytes without reading them; none at the end or at a damage."""
        while len(self._content) < size and self._extend():
            pass
        return bytes(self._content[:size])

    def read(self, size: int | None = -1) -> bytes:
        """Read this many bytes, or to the end."""
        wanted = size if size is not None and size >= 0 else None
        while (wanted is None or len(self._content) < wanted) and self._extend():
            pass
        return self._take(wanted)

    def readline(self, size: int | None = -1) -> bytes:
        """Read to the next line break, or this many bytes."""
        limit = size if size is not None and size >= 0 else None
        searched = 0
        while (end := self._content.find(b"\n", searched, limit)) < 0:
            searched = len(self._content)
            if (limit is not None and searched >= limit) or not self._extend():
                return self._take(limit)
        return self._take(end + 1)

    def _take(self, size: int | None) -> bytes:
        if self._damage and (size is None or len(self._content) < size):
            raise DamagedGzipError(self._damage, self._offset + len(self._content))
        # A copy of a slice would be made twice.
        with memoryview(self._content) as content, content[:size] as wanted:
            found = bytes(wanted)
        del self._content[:size]
        self._offset += len(found)
        return found

    def _extend(self) -> bool:
        """Uncompress a piece more; return False where there is none."""
        while not self._ended:
            packed, self._rest = self._rest, b""
            if not packed:
                packed = self._packed.read(_PACKED)
                self._room += len(packed) * self._expansion
            if not packed:
                self._ended = True
                self._damage = "" if self._inflater.eof else "it is cut off"
                break
            if self._inflater.eof:  # another gzip file may follow, after zeros as padding
                packed = packed.lstrip(b"\0")
                if not packed:
                    continue
                self._inflater = zlib.decompressobj(_WITH_HEADER)
            piece = self._inflate(packed)
            self._room -= len(piece)
            if self._room < 0:
                self._ended = True
                self._damage = (
                    f"it makes more than {ROOM:,} bytes and {self._expansion} times its own "
                    "(if you trust it, unpack it first, raise Limits.expansion or use "
                    "--trust-files)"
                )
                piece = b""
            if piece:
                self._content += piece
                return True
        return False

    def _inflate(self, packed: bytes) -> bytes:
        before = self._inflater.copy()
        try:
            piece = self._inflater.decompress(packed, _PIECE)
        except zlib.error as error:
            self._ended, self._damage = True, str(error)
            return _inflated_before_damage(before, packed)
        self._rest = self._inflater.unconsumed_tail or self._inflater.unused_data
        return piece


def _inflated_before_damage(inflater: Any, packed: bytes) -> bytes:
    """Return the content that decompresses before the first damaged byte."""
    content = bytearray()
    try:
        for index in range(len(packed)):
            content += inflater.decompress(packed[index : index + 1])
    except zlib.error:
        pass
    return bytes(content)


# Containers.

# Reads what stands before an item, empty at the end, and the size, None where that is cut off.
_HeadOf = Callable[[Any], tuple[bytes, int | None]]
# The size where another kind of item begins.
_NO_ITEM = -1
# A file that ends with at least so many records without a byte ends with zeros instead of records:
# file systems leave these after a crash.
_ZERO_TAIL = 16
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


def too_many_empty(limits: Limits, allowed: int | None = None) -> str:
    """Return the fault of a file with too many records without a byte.

    Args:
        limits: the limits that the file exceeds.
        allowed: how many such records it may have, if fewer than `limits.zero_width`.
    """
    limit = "zero_width" if allowed in (None, limits.zero_width) else "zero_width_per_byte"
    return (
        f"more than {limits.zero_width if allowed is None else allowed:,} records without a byte: "
        f"what follows is not read (raise Limits.{limit}, or use --trust-files, to read it)"
    )


def octets_of_record(document: dict[str, Any]) -> bytes | None:
    """Return the message of a JSON record; None where it has no key for one."""
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
    zeros, head_before = 0, b""  # records without a byte that ended here, and the head of the last
    while stop is None or offset < stop:
        head, size = head_of(stream)
        if not head:
            if zeros >= _ZERO_TAIL and not any(head_before):
                fault = f"the file ends with {zeros * len(head_before):,} zero bytes: it is damaged"
                yield Record(offset, fault=fault, ends=True)
            return
        zeros = 0 if size else zeros + 1
        head_before = head
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
            fault = too_many_empty(limits)
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
    is_damaged = False  # of which one record says so
    # Hex takes two characters a byte, and a record may say more than the message.
    for offset, line, fault in read_lines(stream, 2 * max_size + (1 << 20), start, stop):
        if fault:
            yield Record(offset, line, f"a line {fault}")
        elif line.strip():
            record = _record_of_line(offset, line)
            if record.skips:
                record, is_damaged = attrs.evolve(record, skips=not is_damaged), True
            yield record
        elif empty:
            empty -= 1
        else:
            yield Record(offset, line, too_many_empty(limits), ends=True)
            return


def _record_of_line(offset: int, line: bytes) -> Record:
    """Return the record of a line; the end of a file that was cut off within a line is one, too."""
    try:
        document = parse_json(line)
    except RefusedError as error:
        return _no_record(offset, line, error)
    except ValueError as error:
        if not line.endswith(b"\n"):  # only the last line of a file has no end
            fault = f"the last line is cut off: {error}"
            return Record(offset, line, fault, ends=True)
        if b"\0" in line:
            return attrs.evolve(_no_record(offset, line, error), skips=True)
        return _no_record(offset, line, error)
    try:
        return _record_of_document(offset, document)
    except ValueError as error:
        return _no_record(offset, line, error)


def _no_record(offset: int, line: bytes, error: ValueError) -> Record:
    return Record(offset, line.rstrip(b"\r\n"), f"not a record: {error}")


def _record_of_document(offset: int, document: Any) -> Record:
    octets = octets_of_record(document) if isinstance(document, dict) else None
    if octets is None:
        raise ValueError(f"no object with one of the keys {', '.join(RECORD_KEYS)}")
    if len(document) == 1:  # the message alone
        return Record(offset, octets)
    message_format = document.get("message_format")
    tag = document.get("delivery_tag")
    address = document.get("address")
    is_format = type(message_format) is int and 0 <= message_format < 1 << 32
    if not (message_format is None or is_format):
        raise ValueError(f"'message_format' is {message_format!r:.80}, and not 0 to 2^32 - 1")
    for name, value in (("delivery_tag", tag), ("address", address)):
        if not isinstance(value, str | None):
            raise ValueError(f"{name!r} is {value!r:.80}, and not a text")  # noqa: TRY004  (the line)
    return Record(
        offset,
        octets,
        message_format=message_format,
        delivery_tag=None if tag is None else octets_of_hex(tag),
        address=None if address is None else encodable(address),
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
