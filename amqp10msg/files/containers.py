"""Open files as streams, decompress gzip, and read the containers prefixed, jsonl and cborseq.

The arguments of a container's reader are a stream, its position, the offset to stop at (None for
the end), the maximum size of a message in bytes, and limits.
"""

from __future__ import annotations

import io
import mmap
import zlib
from collections.abc import Callable, Iterator
from os import PathLike
from pathlib import Path
from typing import IO, Any

import attrs

from amqp10msg.files._record import MAX_SIZE, Record, UnusableFileError
from amqp10msg.files.signatures import CONTENT_HEADER_START, split_content_header
from amqp10msg.files.text import RefusedError, octets_of_base64, octets_of_hex, parse_json
from amqp10msg.wire.errors import DecodeError
from amqp10msg.wire.limits import DEFAULT_LIMITS, Limits
from amqp10msg.wire.reprs import encodable

#: The value of `Record.protocol` for messages of AMQP 0-9-1.
BASIC = "0-9-1"
#: The magic number of gzip files (RFC 1952, 2.3.1).
GZIP_MAGIC = b"\x1f\x8b"
# Bytes to read from a compressed file at a time, and maximum bytes of content to decompress at a
# time.
_COMPRESSED_CHUNK, _CONTENT_CHUNK = 8 << 10, 64 << 10
# The wbits argument of zlib for gzip data with header and checksum.
_GZIP_WBITS = 31
#: Bytes of content that are always allowed for a compressed file, however small the file is.
ALWAYS_ALLOWED_BYTES = 64 << 20
# Maximum number of bytes that `read_up_to` requests first.
_MAX_FIRST_READ_SIZE = 1 << 20


def read_up_to(stream: Any, size: int) -> bytes:
    """Read `size` bytes, or fewer at the end of the stream.

    This function reads in growing chunks: a buffered reader would allocate memory for the requested
    size, which may be huge in a damaged file.
    """
    chunk: bytes = stream.read(min(size, _MAX_FIRST_READ_SIZE))
    if size <= _MAX_FIRST_READ_SIZE or len(chunk) < _MAX_FIRST_READ_SIZE:
        return chunk
    chunks, count = [chunk], len(chunk)
    while count < size and (chunk := stream.read(min(size - count, count))):
        chunks.append(chunk)
        count += len(chunk)
    return b"".join(chunks)


class DamagedGzipError(Exception):
    """A gzip file is truncated or damaged, or its content exceeds the limit.

    Attributes:
        offset: offset of the first byte that cannot be read, in the decompressed content.
    """

    def __init__(self, reason: str, offset: int) -> None:
        super().__init__(f"the gzip file is damaged: {reason}; its content ends at byte {offset}")
        self.offset = offset


def opened(path: str | PathLike[str], limits: Limits = DEFAULT_LIMITS) -> Any:
    """Open a file or a URL for reading. A gzip file is decompressed.

    Raises:
        UnusableFileError: the file has the suffix ``.gz`` and is empty.
    """
    from amqp10msg.files import stores  # noqa: PLC0415  (not needed for input that is not a file)

    stream = stores.opened(path)
    if stores.name_of(path).suffix == ".gz" and not stream.peek(1):
        stream.close()
        raise UnusableFileError(f"{path}: an empty file is not a gzip file")
    return unpacked(stream, limits, closes=True)


def unpacked(stream: Any, limits: Limits = DEFAULT_LIMITS, *, closes: bool = False) -> Any:
    """Return a stream of the content of a gzip file; any other stream is returned unchanged.

    Args:
        stream: a stream with a method ``peek``.
        limits: `expansion_ratio` limits the size of the content.
        closes: whether closing the returned stream also closes `stream`.
    """
    is_gzip = stream.peek(2)[:2] == GZIP_MAGIC
    return Gunzipped(stream, limits, closes=closes) if is_gzip else stream


class Gunzipped(io.BufferedIOBase):
    """A stream of the content of a gzip file, which can be read up to the first damaged byte.

    `read` and `readline` raise `DamagedGzipError` if the requested bytes are not all readable. The
    readable bytes before the damage then stay unread.
    """

    def __init__(
        self, packed: Any, limits: Limits = DEFAULT_LIMITS, *, closes: bool = False
    ) -> None:
        self._packed = packed
        self._expansion = limits.expansion_ratio
        self._room = ALWAYS_ALLOWED_BYTES  # remaining bytes of content before the limit
        self._closes = closes
        self._inflater = zlib.decompressobj(_GZIP_WBITS)
        self._rest = b""  # compressed bytes that the inflater has not consumed
        self._content = bytearray()  # decompressed bytes that have not been read
        self._offset = 0
        self._ended = False
        self._damage = ""

    def readable(self) -> bool:
        """Return True."""
        return True

    def close(self) -> None:
        """Close the stream; with the argument `closes`, also the gzip file."""
        super().close()
        if self._closes:
            self._packed.close()

    def tell(self) -> int:
        """Return the position in the content, in bytes."""
        return self._offset

    def peek(self, size: int = 1) -> bytes:
        """Return up to `size` bytes without advancing; no bytes at the end or at damage."""
        while len(self._content) < size and self._extend():
            pass
        return bytes(self._content[:size])

    def read(self, size: int | None = -1) -> bytes:
        """Read `size` bytes, or to the end."""
        limit = size if size is not None and size >= 0 else None
        while (limit is None or len(self._content) < limit) and self._extend():
            pass
        return self._take(limit)

    def readline(self, size: int | None = -1) -> bytes:
        """Read up to the next line break, at most `size` bytes."""
        limit = size if size is not None and size >= 0 else None
        searched = 0
        while (end := self._content.find(b"\n", searched, limit)) < 0:
            searched = len(self._content)
            if (limit is not None and searched >= limit) or not self._extend():
                return self._take(limit)
        return self._take(end + 1)

    def _take(self, size: int | None) -> bytes:
        """Remove up to `size` decompressed bytes, or all if it is None, and return them."""
        if self._damage and (size is None or len(self._content) < size):
            raise DamagedGzipError(self._damage, self._offset + len(self._content))
        # Slicing the bytearray would copy the bytes twice.
        with memoryview(self._content) as content, content[:size] as view:
            octets = bytes(view)
        del self._content[:size]
        self._offset += len(octets)
        return octets

    def _extend(self) -> bool:
        """Decompress another chunk; return False at the end or at damage."""
        while not self._ended:
            packed, self._rest = self._rest, b""
            if not packed:
                packed = self._packed.read(_COMPRESSED_CHUNK)
                self._room += len(packed) * self._expansion
            if not packed:
                self._ended = True
                self._damage = "" if self._inflater.eof else "it is truncated"
                break
            if self._inflater.eof:  # another gzip member may follow, after zero padding
                packed = packed.lstrip(b"\0")
                if not packed:
                    continue
                self._inflater = zlib.decompressobj(_GZIP_WBITS)
            piece = self._inflate(packed)
            self._room -= len(piece)
            if self._room < 0:
                self._ended = True
                self._damage = (
                    f"it expands to more than {ALWAYS_ALLOWED_BYTES:,} bytes plus "
                    f"{self._expansion} times its size (if you trust it, decompress it first, "
                    "raise Limits.expansion_ratio or use --trust-files)"
                )
                piece = b""
            if piece:
                self._content += piece
                return True
        return False

    def _inflate(self, packed: bytes) -> bytes:
        """Return content decompressed from `packed`; keep the unconsumed bytes in `_rest`."""
        inflater_before = self._inflater.copy()
        try:
            piece = self._inflater.decompress(packed, _CONTENT_CHUNK)
        except zlib.error as error:
            self._ended, self._damage = True, str(error)
            return _inflated_before_damage(inflater_before, packed)
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

# A function that reads the head of an item from a stream. It returns the bytes of the head (empty
# at the end of the file), and the size of the item's content (None if the head is truncated,
# `_NOT_A_BYTE_STRING` if the item is not a byte string).
_HeadReader = Callable[[Any], tuple[bytes, int | None]]
#: The size that a `_HeadReader` returns for an item that is not a byte string.
_NOT_A_BYTE_STRING = -1
# A file that ends with at least this many empty records is damaged: file systems may append zeros
# after a crash.
_MIN_TRAILING_EMPTY_RECORDS = 16
#: The functions that decode the message in a JSON record, by the key that contains the message.
MESSAGE_DECODERS: dict[str, Callable[[str], bytes]] = {
    "raw": octets_of_hex,
    "hex": octets_of_hex,
    "base64": octets_of_base64,
    "data_base64": octets_of_base64,
}
# `MESSAGE_DECODERS` for a record with the key ``kind``, which is a case of the corpus
# (`amqp10msg.interop`). In such a record, ``data`` is hex; in other records, it may be a section of
# a message in the plain notation.
_CORPUS_CASE_DECODERS = {"data": octets_of_hex, **MESSAGE_DECODERS}


#: The end of the error text for a file that exceeds `Limits.expansion_ratio`: what to do.
EXPANSION_ADVICE = "raise Limits.expansion_ratio, or use --trust-files, if you trust it"


def too_large(size: int) -> str:
    """Return the fault text for a message that is larger than `size`, the maximum size."""
    return f"larger than {size:,} bytes"


def too_many_empty(limits: Limits, allowed: int | None = None) -> str:
    """Return the fault text for a file with too many empty records (records of zero bytes).

    Args:
        limits: the limits that the file exceeds.
        allowed: the maximum number of such records, if it is less than `limits.zero_width`.
    """
    limit = "zero_width" if allowed in (None, limits.zero_width) else "zero_width_per_byte"
    return (
        f"more than {limits.zero_width if allowed is None else allowed:,} records without a byte: "
        f"what follows is not read (raise Limits.{limit}, or use --trust-files, to read it)"
    )


def record_of_message(offset: int, octets: bytes, **fields: Any) -> Record:
    """Return the record of a message of 1.0, or of 0-9-1: its content header, and then its body.

    Args:
        offset: where the record begins in the file.
        octets: the encoded message.
        fields: further attributes of the record.
    """
    if not octets.startswith(CONTENT_HEADER_START):
        return Record(offset, octets, **fields)
    try:
        content_header, payload = split_content_header(octets)
    except DecodeError as error:
        fault = f"not a whole message of AMQP 0-9-1: {error}"
        return Record(offset, octets, fault, BASIC, **fields)
    return Record(offset, protocol=BASIC, content_header=content_header, payload=payload, **fields)


#: The members of a JSON record that are strings; the last two are of AMQP 0-9-1 only.
_TEXT_MEMBERS = ("delivery_tag", "address", "exchange", "routing_key")


def fields_of_record(document: dict[str, Any], octets: bytes) -> dict[str, Any]:
    """Return what a JSON record states about its message, as `record_to_document` writes it.

    Args:
        document: the record.
        octets: the encoded message; for AMQP 0-9-1, the content header followed by the body.

    Returns:
        The attributes of a `Record`: `message_format`, `delivery_tag` and `address`; for 0-9-1 also
        `exchange`, `routing_key` and `redelivered`.

    Raises:
        ValueError: a member has another type, or `octets` is of another protocol.
    """
    is_basic = octets.startswith(CONTENT_HEADER_START)
    if document.get("protocol") == BASIC and not is_basic:
        raise ValueError(
            f"'protocol' is {BASIC!r}, but the message does not begin with a content header: "
            f"{CONTENT_HEADER_START.hex()}"
        )
    message_format = document.get("message_format")
    is_format = type(message_format) is int and 0 <= message_format < 1 << 32
    if not (message_format is None or is_format):
        raise ValueError(f"'message_format' must be 0 to 2^32 - 1, not {message_format!r:.80}")
    fields: dict[str, Any] = {} if message_format is None else {"message_format": message_format}
    for name in _TEXT_MEMBERS if is_basic else _TEXT_MEMBERS[:2]:
        value = document.get(name)
        if not isinstance(value, str | None):
            raise ValueError(f"{name!r} must be a string, not {value!r:.80}")  # noqa: TRY004
        if value is not None:
            fields[name] = encodable(value)
    redelivered = document.get("redelivered") if is_basic else None
    if not isinstance(redelivered, bool | None):
        raise ValueError(f"'redelivered' must be true or false, not {redelivered!r:.80}")  # noqa: TRY004
    if redelivered is not None:
        fields["redelivered"] = redelivered
    if "delivery_tag" in fields:
        fields["delivery_tag"] = octets_of_hex(fields["delivery_tag"])
    return fields


def record_to_document(octets: bytes, record: Record | None) -> dict[str, Any]:
    """Return a message as a JSON record, with what `fields_of_record` reads.

    Args:
        octets: the encoded message; for AMQP 0-9-1, the content header followed by the body.
        record: the message's record in its file; None if there is none.
    """
    document: dict[str, Any] = {"raw": octets.hex()}
    names = ("message_format", "delivery_tag", "address", "exchange", "routing_key", "redelivered")
    for name in names if record is not None else ():
        value = getattr(record, name)
        if value is not None:
            document[name] = value.hex() if isinstance(value, bytes) else value
    return document


def octets_of_record(document: dict[str, Any]) -> bytes | None:
    """Decode the message in a JSON record; return None if it has no key for a message."""
    for key, read in (_CORPUS_CASE_DECODERS if "kind" in document else MESSAGE_DECODERS).items():
        if isinstance(document.get(key), str):
            try:
                return read(document[key])
            except ValueError as error:
                raise ValueError(f"{key!r} cannot be decoded: {error}") from None
    return None


def read_prefixed(
    stream: IO[bytes],
    start: int = 0,
    stop: int | None = None,
    max_size: int = MAX_SIZE,
    limits: Limits = DEFAULT_LIMITS,
) -> Iterator[Record]:
    """Read messages that follow their sizes: four bytes in network byte order."""
    return _read_sized(stream, start, stop, max_size, limits, head_of=_prefix_head)


def read_cborseq(
    stream: IO[bytes], start: int, stop: int | None, max_size: int, limits: Limits
) -> Iterator[Record]:
    """Read a CBOR sequence of byte strings, each with a message."""
    return _read_sized(stream, start, stop, max_size, limits, head_of=_cbor_head)


def _prefix_head(stream: Any) -> tuple[bytes, int | None]:
    """Read the size before a message of the form prefixed, as a `_HeadReader`."""
    prefix = stream.read(4)
    return prefix, int.from_bytes(prefix, "big") if len(prefix) == 4 else None


def _cbor_head(stream: Any) -> tuple[bytes, int | None]:
    """Read the head of a CBOR byte string, as a `_HeadReader`."""
    first = stream.read(1)
    if not first:
        return b"", None
    size_width = _CBOR_SIZE_WIDTHS.get(first[0])
    if size_width is None:
        return first, _NOT_A_BYTE_STRING
    size_bytes = stream.read(size_width)
    size = int.from_bytes(size_bytes, "big") if size_width else first[0] & 0x1F
    return first + size_bytes, size if len(size_bytes) == size_width else None


def _read_sized(
    stream: IO[bytes],
    start: int,
    stop: int | None,
    max_size: int,
    limits: Limits,
    *,
    head_of: _HeadReader,
) -> Iterator[Record]:
    """Read messages, each after a head with the message's size, which `head_of` reads."""
    offset, empty = start, limits.zero_width
    zeros, previous_head = 0, b""  # number of empty records before this one, and the last head
    while stop is None or offset < stop:
        head, size = head_of(stream)
        if not head:
            if zeros >= _MIN_TRAILING_EMPTY_RECORDS and not any(previous_head):
                count = zeros * len(previous_head)
                fault = f"the file ends with {count:,} zero bytes: it is damaged"
                yield Record(offset, fault=fault, ends=True)
            return
        zeros = 0 if size else zeros + 1
        previous_head = head
        octets, fault = None, ""
        if size is None:
            fault = "its size is truncated"
        elif size == _NOT_A_BYTE_STRING:
            fault = f"not a byte string: the item begins with {head.hex()}; the rest is not read"
            head += stream.read(1023)
        elif size > max_size:
            # The size field is probably damaged: do not read that many bytes.
            fault = too_large(max_size)
        elif not size and not empty:
            fault = too_many_empty(limits)
        else:
            empty -= not size
            octets = read_up_to(stream, size)
            if len(octets) < size:
                fault = f"truncated: {len(octets):,} of {size:,} bytes"
        if fault:
            yield Record(offset, head if octets is None else octets, fault, ends=True)
        else:
            yield record_of_message(offset, octets or b"")
        if fault:
            return
        offset += len(head) + len(octets or b"")


def prefixed_starts(path: Path, size: int, octets: int) -> list[int]:
    """Return the offsets of ranges of about `octets` bytes in a file of the form prefixed."""
    return _range_starts(path, size, octets, head_of=_prefix_head)


def cborseq_starts(path: Path, size: int, octets: int) -> list[int]:
    """Return the offsets of ranges of about `octets` bytes in a CBOR sequence."""
    return _range_starts(path, size, octets, head_of=_cbor_head)


def _range_starts(path: Path, size: int, octets: int, *, head_of: _HeadReader) -> list[int]:
    """Return the offsets of ranges of about `octets` bytes, found by reading the head of each item.

    The last range begins before the first damaged item.
    """
    starts, next_start, offset = [0], octets, 0
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        while offset < size:
            data.seek(offset)
            head, length = head_of(data)
            if length is None or length == _NOT_A_BYTE_STRING:
                break
            offset += len(head) + length
            if next_start <= offset < size:
                starts.append(offset)
                next_start = offset + octets
    return starts


def read_lines(
    stream: IO[bytes], longest: int, start: int = 0, stop: int | None = None
) -> Iterator[tuple[int, bytes, str]]:
    """Read lines, including blank lines, of at most `longest` bytes.

    Yields:
        The offset of the line in bytes; the line with its line break, or only its beginning if it
        is too long; and a fault, which is empty unless the line is too long.
    """
    offset = start
    while (stop is None or offset < stop) and (line := stream.readline(longest + 1)):
        start_of_line, offset = offset, offset + len(line)
        if len(line) > longest:
            yield start_of_line, line[:1024], too_large(longest)
            while line and not line.endswith(b"\n"):
                line = stream.readline(1 << 20)
                offset += len(line)
        else:
            yield start_of_line, line, ""


def read_raw(
    stream: IO[bytes], start: int, _stop: int | None, max_size: int, _limits: Limits
) -> Iterator[Record]:
    """Read a file that is one message."""
    octets = read_up_to(stream, max_size + 1)
    if len(octets) > max_size:
        yield Record(start, octets[:1024], too_large(max_size))
    else:
        yield record_of_message(start, octets)


def read_jsonl(
    stream: IO[bytes], start: int, stop: int | None, max_size: int, limits: Limits
) -> Iterator[Record]:
    """Read JSON lines: one message per line."""
    empty = limits.zero_width
    is_damaged = False  # whether a record has already reported damage
    # Hex has two characters per byte, and a record may have further members.
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
    """Return the record of a line. A truncated last line is a record with a fault."""
    try:
        document = parse_json(line)
    except RefusedError as error:
        return _invalid_record(offset, line, error)
    except ValueError as error:
        if not line.endswith(b"\n"):  # the last line of the file
            fault = f"the last line is truncated: {error}"
            return Record(offset, line, fault, ends=True)
        if b"\0" in line:
            return attrs.evolve(_invalid_record(offset, line, error), skips=True)
        return _invalid_record(offset, line, error)
    try:
        return _record_of_document(offset, document)
    except ValueError as error:
        return _invalid_record(offset, line, error)


def _invalid_record(offset: int, line: bytes, error: ValueError) -> Record:
    """Return the record with a fault for a line that contains no message."""
    return Record(offset, line.rstrip(b"\r\n"), f"not a record: {error}")


def _record_of_document(offset: int, document: Any) -> Record:
    """Return the record of a JSON object; ValueError if it contains no message."""
    octets = octets_of_record(document) if isinstance(document, dict) else None
    if octets is None:
        raise ValueError(f"no object with one of the keys {', '.join(MESSAGE_DECODERS)}")
    if len(document) == 1:  # only the message
        return record_of_message(offset, octets)
    return record_of_message(offset, octets, **fields_of_record(document, octets))


def jsonl_starts(path: Path, size: int, octets: int) -> list[int]:
    """Return the offsets of ranges of about `octets` bytes, each at the beginning of a line."""
    starts, offset = [0], octets
    with path.open("rb") as file:
        while offset < size:
            file.seek(offset - 1)
            file.readline()
            offset = file.tell()
            if offset < size:
                starts.append(offset)
            offset += octets
    return starts


#: Width of the size field in bytes, by the first byte of a CBOR byte string (RFC 8949, 3).
_CBOR_SIZE_WIDTHS = {**dict.fromkeys(range(0x40, 0x58), 0), 0x58: 1, 0x59: 2, 0x5A: 4, 0x5B: 8}
