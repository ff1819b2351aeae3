"""Where in a value or message an offset lies, in words; only errors pay for finding out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from amqp10msg.primitives import FORMAT_CODES

__all__ = ["path_of"]

_MAX_LEVELS = 32
# Siblings passed over on the way; a place behind more than these is named by its parent alone.
_MAX_STEPS = 10_000


def path_of(data: bytes, offset: int, names: Mapping[Any, tuple[str, tuple[str, ...]]]) -> str:
    """Return the path of the value at an offset, as far as the octets before it make sense.

    Args:
        data: the whole input.
        offset: the place.
        names: name and field names of composites by the octets of their descriptor's content.
    """
    pos = 0
    try:
        for _ in range(_MAX_STEPS):
            if not pos < min(offset, len(data)):
                break
            end = _end(data, pos, len(data))
            if offset < end or end >= len(data):
                return _inside(data, pos, offset, names, 0).lstrip(".")
            pos = end
    except IndexError:
        pass
    return ""


def _end(data: bytes, pos: int, end: int) -> int:
    """Return where a value ends, or `end` where it is cut off or unknown."""
    pending = 1
    while pending:
        if pos >= end:
            return end
        pending -= 1
        code = data[pos]
        pos += 1
        if code == 0:
            pending += 2
            continue
        row = FORMAT_CODES.get(code)
        if row is None:
            return end
        size = row.width
        if row.category != "fixed":
            size += int.from_bytes(data[pos : pos + row.width], "big")
        pos += size
        if pos > end:
            return end
    return pos


def _inside(data: bytes, pos: int, offset: int, names: Any, level: int) -> str:
    """Return the path from the value at `pos` to `offset`, which lies in it."""
    if level > _MAX_LEVELS:
        return "…"
    fields: tuple[str, ...] | None = None
    path = ""
    if data[pos] == 0:
        at = _end(data, pos + 1, len(data))
        if offset < at:
            return ""
        name, fields = names.get(_descriptor(data, pos + 1, at), ("", None))
        path = f".{name}" if name else ""
        pos = at
        if pos >= len(data):
            return path
    code = data[pos]
    row = FORMAT_CODES.get(code)
    if row is None or row.category not in ("compound", "array"):
        return path
    is_map = row.type == "map"
    at = pos + 1 + 2 * row.width
    end = min(
        pos + 1 + row.width + int.from_bytes(data[pos + 1 : pos + 1 + row.width], "big"), len(data)
    )
    if row.category == "array" or offset < at:
        return path
    index = 0
    key = ""
    while at <= offset and at < end:
        stop = _end(data, at, end)
        if is_map and index % 2 == 0:
            key = f"[{key_text(data, at, stop)}]"
            step = key if offset < stop else ""
        elif is_map:
            step = key
        elif fields is not None:
            step = f".{fields[index]}" if index < len(fields) else f"[{index}]"
        else:
            step = f"[{index}]"
        if offset < stop or stop >= end:
            below = "" if is_map and index % 2 == 0 else _inside(data, at, offset, names, level + 1)
            return path + (step or key) + below
        at = stop
        index += 1
        if index > _MAX_STEPS:
            return path + "[…]"
    return path


def _descriptor(data: bytes, pos: int, end: int) -> int | str | None:
    code = data[pos]
    if code == 0x44:
        return 0
    if code in (0x53, 0x80):
        return int.from_bytes(data[pos + 1 : end], "big")
    if code in (0xA3, 0xB3):
        return data[pos + (2 if code == 0xA3 else 5) : end].decode("ascii", "replace")
    return None


def key_text(data: bytes, pos: int, end: int) -> str:
    """Render a map's key: text in quotes, everything else in hex."""
    code = data[pos]
    if code in (0xA1, 0xA3, 0xB1, 0xB3):
        text = data[pos + (2 if code < 0xB0 else 5) : end].decode("utf-8", "replace")
        return repr(text if len(text) <= 40 else text[:40] + "…")
    return "0x" + data[pos : min(end, pos + 16)].hex()
