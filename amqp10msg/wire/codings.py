"""Compresses and decompresses the content codings gzip, deflate and zstd, with a size limit.

zstd needs ``amqp10msg[zstd]``. The codings are values of content-encoding (Part 3, 3.2.4), and are
defined for HTTP (RFC 9110, 8.4.1).
"""

from __future__ import annotations

import gzip
import zlib
from typing import Any, Literal, TypeAlias

from amqp10msg.wire.errors import ContentError, as_bytes, expect
from amqp10msg.wire.later import of_extra

__all__ = ["DEFAULT_LIMIT", "Coding", "compress", "decompress"]

Coding: TypeAlias = Literal["gzip", "deflate", "zstd"]

#: The default limit of `decompress`, in bytes (64 MiB).
DEFAULT_LIMIT = 64 * 1024 * 1024

#: The lowest and the highest compression level of each coding.
_COMPRESSION_LEVEL_RANGES = {"gzip": (0, 9), "deflate": (0, 9), "zstd": (-(2**17), 22)}
# Maximum number of content codings of one body. Real senders use one, whereas an attacker could
# request many expensive passes.
_MAX_CODINGS = 4
# Size of the input of one zlib call, in bytes. It is small because zlib copies its unread input at
# the end of each gzip member.
_ZLIB_INPUT_SIZE = 8 * 1024
# Maximum number of zstd frames, since the decompressor copies its unread input at the end of each.
_MAX_ZSTD_FRAMES = 64
# Maximum window size of zstd data in bytes, as RFC 9659 requires for the content coding zstd.
_MAX_ZSTD_WINDOW_SIZE = 8 * 1024 * 1024
_CODING_ALIASES = {"x-gzip": "gzip"}
# Values of content-encoding that mean no compression. Clients of AMQP 0-9-1, such as Celery, write
# character encodings there.
_ENCODINGS_WITHOUT_COMPRESSION = frozenset(
    ("", "identity", "binary", "8bit", "7bit", "utf-8", "utf8", "us-ascii", "ascii")
)


def compress(octets: bytes, coding: Coding, level: int | None = None) -> bytes:
    """Compress bytes. The result is deterministic.

    Args:
        octets: the bytes to compress.
        coding: ``gzip``, ``deflate`` or ``zstd``.
        level: the compression level, 0 to 9 (gzip, deflate) or up to 22 (zstd). Higher levels are
            slower and compress better. None for 6 (gzip, deflate) or 3 (zstd).

    Raises:
        ContentError: `coding` is unknown.
        ImportError: `coding` is zstd, and zstandard is not installed.
        ValueError: `level` is out of range.
        TypeError: `octets` is not bytes-like, or `level` is not an int.
    """
    octets = as_bytes(octets, "compress")
    if level is not None:
        expect(level, int, "the level of compress", "an int")
        low, high = _COMPRESSION_LEVEL_RANGES.get(coding, (level, level))
        if not low <= level <= high:
            raise ValueError(f"the level of {coding} must be {low} to {high}, got {level}")
    if coding == "gzip":
        return gzip.compress(octets, 6 if level is None else level, mtime=0)
    if coding == "deflate":
        return zlib.compress(octets, 6 if level is None else level)
    if coding == "zstd":
        writer = _zstandard().ZstdCompressor(level=3 if level is None else level)
        return bytes(writer.compress(octets))
    raise _unknown_coding_error(coding)


def decompress(octets: bytes, content_encoding: str, *, limit: int = DEFAULT_LIMIT) -> bytes:
    """Decompress bytes.

    Args:
        octets: the compressed bytes.
        content_encoding: up to 4 codings, separated by commas, in the order in which they were
            applied; not case-sensitive. ``deflate`` data may lack the zlib header, which some
            senders omit. Character encodings such as ``utf-8``, which Celery writes, are ignored.
        limit: the maximum size of the result of each coding, in bytes. It also limits the memory
            that is allocated.

    Raises:
        ContentError: a coding is unknown; the data is invalid or truncated; or the result exceeds
            the limit.
        ImportError: the coding is zstd, and zstandard is not installed.
        TypeError: `octets` is not bytes-like, `content_encoding` is not a str, or `limit` is not an
            int.
    """
    octets = as_bytes(octets, "decompress")
    expect(content_encoding, str, "the content_encoding of decompress", "a str")
    expect(limit, int, "the limit of decompress", "an int")
    names = [name.strip().lower() for name in content_encoding.split(",")]
    codings = [
        _CODING_ALIASES.get(name, name)
        for name in names
        if name not in _ENCODINGS_WITHOUT_COMPRESSION
    ]
    if len(codings) > _MAX_CODINGS:
        raise ContentError(f"{len(codings)} content codings: at most {_MAX_CODINGS} are allowed")
    for coding in reversed(codings):
        if coding == "gzip":
            octets = _inflate(octets, 31, coding, limit)
        elif coding == "deflate":
            # In a zlib header, the method is 8, and the number in both bytes is a multiple of 31
            # (RFC 1950).
            head = int.from_bytes(octets[:2])
            is_zlib = head >> 8 & 15 == 8 and head % 31 == 0
            octets = _inflate(octets, 15 if is_zlib else -15, coding, limit)
        elif coding == "zstd":
            octets = _decompress_zstd(octets, limit)
        else:
            raise _unknown_coding_error(coding)
    return octets


def _inflate(octets: bytes, wbits: int, coding: str, limit: int) -> bytes:
    """Decompress gzip or deflate; `wbits` is the argument of `zlib.decompressobj`."""
    output: list[bytes] = []
    remaining = limit
    view = memoryview(octets)
    reader = zlib.decompressobj(wbits)
    position = 0
    unread = b""
    try:
        while True:
            chunk = unread
            if not chunk:
                chunk = bytes(view[position : position + _ZLIB_INPUT_SIZE])
                position += len(chunk)
            if not chunk:
                break
            if reader.eof:  # gzip may have several members (RFC 1952, 2.2)
                if coding != "gzip":
                    trailing = len(octets) - position + len(chunk)
                    raise ContentError(f"{trailing} trailing bytes after the {coding} data")
                reader = zlib.decompressobj(wbits)
            part = reader.decompress(chunk, remaining + 1)
            remaining -= len(part)
            if remaining < 0:
                raise _too_large_error(coding, limit)
            output.append(part)
            unread = reader.unused_data if reader.eof else reader.unconsumed_tail
    except zlib.error as error:
        raise ContentError(f"the data is not valid {coding}: {error}") from None
    if not reader.eof:
        raise ContentError(f"the {coding} data is truncated")
    return b"".join(output)


def _decompress_zstd(octets: bytes, limit: int) -> bytes:
    zstandard = _zstandard()
    reader = zstandard.ZstdDecompressor(max_window_size=_MAX_ZSTD_WINDOW_SIZE)
    output: list[bytes] = []
    remaining = limit
    unread = octets
    try:
        for _ in range(_MAX_ZSTD_FRAMES):
            # `decompressobj` has no size limit, and `stream_reader` does not report a truncated
            # frame. So determine the size with `stream_reader` first.
            size = 0
            with reader.stream_reader(unread, read_across_frames=False) as stream:
                while part := stream.read(1024 * 1024):
                    size += len(part)
                    if size > remaining:
                        raise _too_large_error("zstd", limit)
            frame = reader.decompressobj()
            output.append(frame.decompress(unread))
            if not frame.eof:
                raise ContentError("the zstd data is truncated")
            remaining -= size
            unread = frame.unused_data
            if not unread:
                return b"".join(output)
    except zstandard.ZstdError as error:
        raise ContentError(f"the data is not valid zstd: {error}") from None
    raise ContentError(f"more than {_MAX_ZSTD_FRAMES} zstd frames")


def _too_large_error(coding: str, limit: int) -> ContentError:
    return ContentError(
        f"the {coding} data expands to more than {limit:,} bytes: pass a larger limit if you "
        "trust the sender"
    )


def _unknown_coding_error(coding: str) -> ContentError:
    return ContentError(f"unknown content coding {coding!r:.80}: use gzip, deflate or zstd")


def _zstandard() -> Any:
    return of_extra("zstandard", "zstd", "zstd needs zstandard")
