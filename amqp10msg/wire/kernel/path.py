"""Finds the path of the value at an offset; used only for errors, so speed does not matter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from amqp10msg.wire.kernel.walk import (
    FAULT_MISSING,
    ROLE_DESCRIPTOR,
    Value,
    end_of,
    text_at,
    type_at,
    walk,
)

# Maximum number of levels in a path; deeper levels are replaced by an ellipsis.
_MAX_PATH_LEVELS = 32
# Maximum number of values to walk. After this number, `path_of` returns the path of an enclosing
# value.
_MAX_WALKED_VALUES = 10_000

Names = Mapping[Any, tuple[str, tuple[str, ...]]]


def path_of(data: bytes, offset: int, names: Names) -> str:
    """Return the path of the value at an offset, as far as the bytes before it are valid.

    The walk skips lists and maps that end before the offset. Therefore it costs at most as much as
    decoding the bytes before the offset.

    Args:
        data: the whole input.
        offset: the offset in bytes.
        names: the name and field names of composites, by numeric or symbolic descriptor.
    """
    start = 0
    for _ in range(_MAX_WALKED_VALUES):
        end = end_of(data, start, min(offset + 1, len(data)))
        if not 0 <= end <= offset or end == len(data):
            break
        start = end
    innermost: Value | None = None
    suffix = ""
    for step, value in enumerate(walk(data, start)):
        parent = value.parent
        if value.offset > offset:
            break
        if parent is None:
            innermost = None
            # For the offset of an outermost value, return the path of the value itself, rather than
            # of its first part.
            if value.offset == offset:
                break
        if step > _MAX_WALKED_VALUES:
            innermost, suffix = parent, "[…]" if parent else ""
            break
        if value.fault == FAULT_MISSING and parent is not None and parent.code and parent.is_map:
            # The bytes end before the next key or value of the map: return the path of the last
            # entry that was read.
            continue
        innermost = value
        if value.is_compound:
            limit = len(data) if parent is None else parent.end
            is_before_offset = value.end <= offset and value.end < limit
            value.should_enter = (
                not is_before_offset and not value.is_array and offset >= value.content
            )
    return _path(data, innermost, names) + suffix if innermost is not None else ""


def _path(data: bytes, innermost: Value, names: Names) -> str:
    """Format the path from the outermost value to `innermost`."""
    ancestry = [innermost]
    while ancestry[-1].parent is not None:
        ancestry.append(ancestry[-1].parent)
    path = ""
    level = 0
    fields: tuple[str, ...] | None = None
    for value in reversed(ancestry):
        parent = value.parent
        if parent is None:
            continue
        if parent.code == 0:
            if value.role is ROLE_DESCRIPTOR:
                break
            descriptor = _descriptor(data, parent.content, value.offset)
            name, fields = names.get(descriptor, ("", None))
            path += f".{name}" if name else ""
            if value.code == 0:
                break
            continue
        if parent.is_map:
            key = value.key or value
            end = end_of(data, key.offset, key.end)
            path += f"[{key_text(data, key.offset, key.end if end < 0 else end)}]"
            if key is value:
                break
        elif fields is not None and value.index_in_parent < len(fields):
            path += f".{fields[value.index_in_parent]}"
        else:
            path += f"[{value.index_in_parent}]"
        fields = None
        level += 1
        if level > _MAX_PATH_LEVELS:
            path += "…"
            break
    return path.lstrip(".")


def _descriptor(data: bytes, pos: int, end: int) -> int | str | None:
    """Read the number or symbol of a descriptor; None if it is neither."""
    type_name = type_at(data, pos)
    if type_name == "ulong":
        return int.from_bytes(data[pos + 1 : end], "big")
    return text_at(data, pos, end) if type_name == "symbol" else None


def key_text(data: bytes, pos: int, end: int) -> str:
    """Format the key of a map: text in quotes, other values in hex."""
    if type_at(data, pos) in ("string", "symbol"):
        text = text_at(data, pos, end)
        return repr(text if len(text) <= 40 else text[:40] + "…")
    return "0x" + data[pos : min(end, pos + 16)].hex()
