"""Files opened as streams of bytes, uncompressed where they are gzip files."""

from __future__ import annotations

import io
import zlib
from os import PathLike
from typing import Any

from amqp10msg.wire.limits import DEFAULT_LIMITS, Limits

#: What a gzip file begins with (RFC 1952, 2.3.1).
GZIP = b"\x1f\x8b"
# Bytes that are read from the compressed file at a time, and that one piece of content may have.
_PACKED, _PIECE = 8 << 10, 64 << 10
# Of zlib: a gzip file, its header and checksum included.
_WITH_HEADER = 31
# Bytes of content that any gzip file may have, however small it is.
_ROOM = 64 << 20


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
        OSError: it cannot be read.
    """
    from amqp10msg.files import stores  # noqa: PLC0415  (what is given as hex opens no file)

    return unpacked(stores.opened(path), limits, closes=True)


def unpacked(stream: Any, limits: Limits = DEFAULT_LIMITS, *, closes: bool = False) -> Any:
    """Return the stream itself, or its content where it begins as a gzip file does.

    Args:
        stream: a buffered stream, one with a method ``peek``.
        limits: of them, `expansion` bounds the content.
        closes: close the stream with its content.
    """
    is_packed = stream.peek(2)[:2] == GZIP
    return Gunzipped(stream, limits, closes=closes) if is_packed else stream


class Gunzipped(io.BufferedIOBase):
    """The content of a gzip file, of which all can be read that stands before a damage.

    `read` and `readline` raise `DamagedGzipError` where what they should return is not all there,
    and leave what is there unread.

    Args:
        packed: the gzip file.
        limits: of them, `expansion` bounds the content.
        closes: close the gzip file with this.
    """

    def __init__(
        self, packed: Any, limits: Limits = DEFAULT_LIMITS, *, closes: bool = False
    ) -> None:
        self._packed = packed
        self._expansion = limits.expansion
        self._room = _ROOM  # bytes of content that may still come
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
                    f"it makes more than {_ROOM:,} bytes and {self._expansion} times its own "
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
