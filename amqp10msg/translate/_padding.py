"""Fields of a properties section that are null and said nevertheless, behind all that have a value.

RabbitMQ 4 writes all thirteen. The residual keeps the last one of them, so that it is small.
"""

from __future__ import annotations

NULL = b"\x40"
_HEAD = 3  # bytes of the descriptor in its usual form
_EMPTY, _LIST8, _LIST32 = 0x45, 0xC0, 0xD0


def nulls_behind(octets: bytes, canonical: bytes) -> int:
    """Return how many fields an encoded section has, if it only says more nulls than it must; or 0.

    Args:
        octets: the section as it stands.
        canonical: the section as this library writes it.
    """
    count = _content_of(octets)[0]
    return count if padded(canonical, count) == octets else 0


def padded(canonical: bytes, fields: int) -> bytes:
    """Return an encoded section with nulls up to so many fields, at most 255."""
    count, content = _content_of(canonical)
    if count >= fields:
        return canonical
    content += NULL * (fields - count)
    if len(content) < 255:
        return b"%b%c%c%c%b" % (canonical[:_HEAD], _LIST8, len(content) + 1, fields, content)
    size = (len(content) + 4).to_bytes(4, "big")
    return b"%b%c%b%b%b" % (canonical[:_HEAD], _LIST32, size, fields.to_bytes(4, "big"), content)


def _content_of(octets: bytes) -> tuple[int, bytes]:
    """Return the number of the fields, and their bytes; nothing of another form."""
    code = octets[_HEAD]
    if code == _LIST8:
        return octets[_HEAD + 2], octets[_HEAD + 3 :]
    if code == _LIST32:
        return int.from_bytes(octets[_HEAD + 5 : _HEAD + 9], "big"), octets[_HEAD + 9 :]
    return 0, b""
