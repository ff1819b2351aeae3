"""Content codings: bytes compressed and restored, at a bounded cost.

gzip and deflate of the standard library, zstd with ``amqp10msg[zstd]``. The names are those of
content-encoding (Part 3, 3.2.4), which are the content codings of HTTP (RFC 9110, 8.4.1).
"""

from __future__ import annotations

import gzip
import zlib
from typing import Any, Literal, TypeAlias

from amqp10msg.wire.errors import ContentError, as_bytes, expect
from amqp10msg.wire.later import of_extra

__all__ = ["DEFAULT_LIMIT", "Coding", "compress", "decompress"]

Coding: TypeAlias = Literal["gzip", "deflate", "zstd"]

#: Restoring makes so many bytes at most, if nothing else is said, which is 64 MiB.
DEFAULT_LIMIT = 64 * 1024 * 1024

#: The lowest and the highest level of each coding.
_LEVELS = {"gzip": (0, 9), "deflate": (0, 9), "zstd": (-(2**17), 22)}
# Several codings are usual nowhere; each costs another pass, and an input may undo to itself.
_MOST_CODINGS = 4
# What follows a member or frame is copied, so that little of it must be at hand, or few must come.
_PIECE = 8 * 1024
_MOST_FRAMES = 64
# RFC 9659: a decoder of the content coding needs no larger window.
_ZSTD_WINDOW = 8 * 1024 * 1024
_ALIASES = {"x-gzip": "gzip"}
# No codings: what some clients of AMQP 0-9-1 write there instead (Celery, kombu), and identity.
_NONE = frozenset(("", "identity", "binary", "8bit", "7bit", "utf-8", "utf8", "us-ascii", "ascii"))


def compress(octets: bytes, coding: Coding, level: int | None = None) -> bytes:
    """Compress bytes; the same bytes give the same result.

    Args:
        octets: the bytes.
        coding: ``gzip``, ``deflate`` or ``zstd``.
        level: a low level is fast, a high level makes less: 0 to 9 (gzip, deflate) or up to 22
            (zstd). None for 6 (gzip, deflate) or 3 (zstd).

    Raises:
        ContentError: there is no such coding.
        ImportError: `coding` is zstd, and zstandard is not installed.
        ValueError: `level` is out of range.
        TypeError: `octets` is not bytes, or `level` not an int.
    """
    octets = as_bytes(octets, "compress")
    if level is not None:
        expect(level, int, "the level of compress", "an int")
        low, high = _LEVELS.get(coding, (level, level))
        if not low <= level <= high:
            raise ValueError(f"the level of {coding} must be {low} to {high}, got {level}")
    if coding == "gzip":
        return gzip.compress(octets, 6 if level is None else level, mtime=0)
    if coding == "deflate":
        return zlib.compress(octets, 6 if level is None else level)
    if coding == "zstd":
        writer = _zstandard().ZstdCompressor(level=3 if level is None else level)
        return bytes(writer.compress(octets))
    raise _unknown(coding)


def decompress(octets: bytes, content_encoding: str, *, limit: int = DEFAULT_LIMIT) -> bytes:
    """Undo the content codings of bytes.

    Args:
        octets: the bytes.
        content_encoding: one coding, or several with commas in the order in which they were
            applied (4 at most), in any case of letters. Of ``deflate`` the form without zlib's
            header is read, too, as some senders write it. ``utf-8`` and the like, which Celery
            writes, are not codings and are passed over.
        limit: the bytes that any coding may make at most; no more is ever allocated for them.

    Raises:
        ContentError: a coding is unknown, or the bytes are not what it makes, are cut off, or
            make more than the limit.
        ImportError: the coding is zstd, and zstandard is not installed.
        TypeError: `octets` is not bytes, `content_encoding` not a str, or `limit` not an int.
    """
    octets = as_bytes(octets, "decompress")
    expect(content_encoding, str, "the content_encoding of decompress", "a str")
    expect(limit, int, "the limit of decompress", "an int")
    named = [name.strip().lower() for name in content_encoding.split(",")]
    codings = [_ALIASES.get(name, name) for name in named if name not in _NONE]
    if len(codings) > _MOST_CODINGS:
        raise ContentError(
            f"{len(codings)} content codings on one another: {_MOST_CODINGS} are the most"
        )
    for coding in reversed(codings):
        if coding == "gzip":
            octets = _inflated(octets, 31, coding, limit)
        elif coding == "deflate":
            # RFC 1950: the method is 8, and the first two bytes are a multiple of 31.
            head = int.from_bytes(octets[:2])
            is_zlib = head >> 8 & 15 == 8 and head % 31 == 0
            octets = _inflated(octets, 15 if is_zlib else -15, coding, limit)
        elif coding == "zstd":
            octets = _from_zstd(octets, limit)
        else:
            raise _unknown(coding)
    return octets


def _inflated(octets: bytes, wbits: int, coding: str, limit: int) -> bytes:
    made: list[bytes] = []
    left = limit
    view = memoryview(octets)
    reader = zlib.decompressobj(wbits)
    at = 0
    rest = b""
    try:
        while True:
            piece = rest
            if not piece:
                piece = bytes(view[at : at + _PIECE])
                at += len(piece)
            if not piece:
                break
            if reader.eof:  # gzip may have several members (RFC 1952, 2.2)
                if coding != "gzip":
                    trailing = len(octets) - at + len(piece)
                    raise ContentError(f"{trailing} trailing bytes after the {coding} data")
                reader = zlib.decompressobj(wbits)
            part = reader.decompress(piece, left + 1)
            left -= len(part)
            if left < 0:
                raise _too_much(coding, limit)
            made.append(part)
            rest = reader.unused_data if reader.eof else reader.unconsumed_tail
    except zlib.error as error:
        raise ContentError(f"the bytes are not {coding}: {error}") from None
    if not reader.eof:
        raise ContentError(f"the {coding} data is cut off")
    return b"".join(made)


def _from_zstd(octets: bytes, limit: int) -> bytes:
    zstandard = _zstandard()
    reader = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW)
    made: list[bytes] = []
    left = limit
    rest = octets
    try:
        for _ in range(_MOST_FRAMES):
            # Counted first: what makes it in one go cannot be bounded, and this cannot tell
            # whether the frame is whole.
            counted = 0
            with reader.stream_reader(rest, read_across_frames=False) as stream:
                while part := stream.read(1024 * 1024):
                    counted += len(part)
                    if counted > left:
                        raise _too_much("zstd", limit)
            frame = reader.decompressobj()
            made.append(frame.decompress(rest))
            if not frame.eof:
                raise ContentError("the zstd data is cut off")
            left -= counted
            rest = frame.unused_data
            if not rest:
                return b"".join(made)
    except zstandard.ZstdError as error:
        raise ContentError(f"the bytes are not zstd: {error}") from None
    raise ContentError(f"more than {_MOST_FRAMES} zstd frames")


def _too_much(coding: str, limit: int) -> ContentError:
    return ContentError(
        f"the {coding} data makes more than {limit:,} bytes: pass a larger limit if you trust it"
    )


def _unknown(coding: str) -> ContentError:
    return ContentError(f"unknown content coding {coding!r:.80}: use gzip, deflate or zstd")


def _zstandard() -> Any:
    return of_extra("zstandard", "zstd", "zstd needs zstandard")
