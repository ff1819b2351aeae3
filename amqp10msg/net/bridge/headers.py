"""The header of an encoded message, which says whether it was delivered before."""

from __future__ import annotations

import functools

from amqp10msg.sections import Header
from amqp10msg.sections.parts import scan

_SECTION, _USUAL = b"\x00\x53\x70", b"\x00\x53"
_LIST8, _EMPTY = 0xC0, 0x45
_CODE_AT, _SIZE_AT = len(_SECTION), len(_SECTION) + 1


def header_of(octets: bytes) -> Header | None:
    """Return the header of an encoded message; None where it has none, or none that can be read."""
    if not octets.startswith(_SECTION) or len(octets) <= _SIZE_AT:
        # A descriptor may be written in other ways; another section stands after the header.
        return None if octets.startswith(_USUAL) else _read.__wrapped__(octets)
    code = octets[_CODE_AT]
    if code == _LIST8:
        # Messages of a queue have few different ones.
        return _read(octets[: _SIZE_AT + 1 + octets[_SIZE_AT]])
    return _read(octets[:_SIZE_AT]) if code == _EMPTY else _read.__wrapped__(octets)


@functools.lru_cache(256)
def _read(octets: bytes) -> Header | None:
    try:
        return scan(octets).section("header")
    except ValueError:
        return None
