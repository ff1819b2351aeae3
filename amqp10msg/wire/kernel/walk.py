"""A walk over encoded values, valid or not, that yields the extent of each value and its parts.

It reads constructors, sizes and counts (Part 1, 1.2), but not contents, and raises no exceptions.
Each step advances by at least one byte, except in arrays of zero-width elements. The paths of
errors, the rules of validation and the diagnostic tree use it.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from amqp10msg.wire.primitives import FORMAT_CODES

#: Maximum depth of nesting; deeper values are not entered.
LEVELS = 256
# Maximum number of nested descriptors that `end_of` skips.
_DESCRIPTORS = 1000

# The roles of a value in the enclosing value.
VALUE = "value"
DESCRIPTOR = "descriptor"
CONSTRUCTOR = "constructor"  # of an array's elements

# The faults. With any fault but TOO_SMALL the extent of the value is unknown, so it covers the
# remaining bytes of the enclosing value.
MISSING = "missing"
UNKNOWN = "unknown constructor"
CUT_OFF = "cut off"
TOO_DEEP = "too deep"
LEFT_OVER = "left over"  # bytes after the last value of a compound or array
TOO_SMALL = "size too small"  # for the count

# By format code: the width of fixed-width contents, of the size, and of size and count together. -1
# if the table does not apply to the code.
_FIXED = [-1] * 256
_SIZE = [0] * 256
_HEAD = [0] * 256
_TYPES = ["described", *[""] * 255]
for _row in FORMAT_CODES.values():
    _FIXED[_row.code] = 0
    _TYPES[_row.code] = _row.type
    if _row.category == "fixed":
        _FIXED[_row.code] = _row.width
    else:
        _SIZE[_row.code] = _row.width
        _HEAD[_row.code] = _row.width * (1 if _row.category == "variable" else 2)

# The lowest format codes of lists and maps, and of arrays (Part 1, 1.2).
_FIRST_COMPOUND, _FIRST_ARRAY = 0xC0, 0xE0
_MAPS = (0xC1, 0xD1)

# The code of an array's elements before the shared constructor has been read.
_UNREAD = -1
_DESCRIBED = -2


@attrs.define(eq=False)
class Value:
    """A value, a descriptor, or the shared constructor of an array.

    Attributes:
        offset: the offset of its constructor, or of its content if it is an element of an array.
        code: its format code, 0 for a described value; the byte in place of an unknown format code;
            -1 at the end of the bytes.
        content: the offset of its content or first child, after constructor, size and count.
        end: the offset of its end, within the enclosing value; of a described value, set after its
            parts were walked.
        stop: the offset of its end according to its size.
        count: the count of a list, map or array.
        role: `VALUE`, `DESCRIPTOR`, or `CONSTRUCTOR` in an array.
        fault: its fault; empty if it has none.
        parent: the enclosing value; None for an outermost value.
        level: the number of enclosing values.
        index: its index among the values of a list, map or array.
        key: the key of the value in a map; None elsewhere.
        is_open: whether to walk into it. The caller of `walk` may clear it, also in a parent
            compound or array, whose remaining values are then skipped.
    """

    offset: int
    code: int
    content: int
    end: int
    stop: int
    fault: str = ""
    count: int = 0
    role: str = VALUE
    parent: Value | None = None
    level: int = 0
    index: int = 0
    key: Value | None = None
    is_open: bool = True
    # State of the walk: the number of remaining values in it, their level, the previous value in a
    # map, and the code of an array's elements.
    left: int = 0
    below: int = 1
    last: Value | None = None
    element: int = _UNREAD

    @property
    def holds(self) -> bool:
        """Whether the value is a list, map or array."""
        return self.code >= _FIRST_COMPOUND and not self.fault

    @property
    def is_array(self) -> bool:
        """Whether the value is an array, whose elements share a constructor."""
        return self.code >= _FIRST_ARRAY

    @property
    def is_map(self) -> bool:
        """Whether the value is a map."""
        return self.code in _MAPS


def head(data: bytes, pos: int, limit: int, code: int = _UNREAD) -> Value:
    """Read constructor, size and count of the value at data[pos:limit].

    Args:
        data: the input.
        pos: the offset of the value.
        limit: the end of the enclosing value.
        code: the shared format code, if the value is an element of an array.
    """
    at = pos
    if code == _UNREAD:
        if pos >= limit:
            return Value(pos, -1, limit, limit, limit, MISSING)
        code = data[pos]
        at += 1
        if code == 0:
            return Value(pos, 0, at, limit, limit)
    fixed = _FIXED[code]
    if fixed < 0:
        return Value(pos, code, limit, limit, limit, UNKNOWN)
    width = _SIZE[code]
    content = at + _HEAD[code]
    if content > limit:
        return Value(pos, code, limit, limit, content, CUT_OFF)
    stop = at + width + (int.from_bytes(data[at : at + width], "big") if width else fixed)
    if code < _FIRST_COMPOUND:
        if stop > limit:
            return Value(pos, code, limit, limit, stop, CUT_OFF)
        return Value(pos, code, content, stop, stop)
    end = min(stop, limit)
    if stop < content:
        return Value(pos, code, end, end, stop, TOO_SMALL)
    count = int.from_bytes(data[at + width : content], "big")
    return Value(pos, code, content, end, stop, count=count)


def end_of(data: bytes, pos: int, limit: int) -> int:
    """Return the end of the value at data[pos:limit], or -1 if it cannot be determined.

    That is the case for a truncated or invalid value, and for more than 1,000 nested descriptors.
    """
    pending = 1
    left = _DESCRIPTORS
    while pending:
        if pos >= limit:
            return -1
        code = data[pos]
        pos += 1
        if code == 0:
            pending += 1
            left -= 1
            if not left:
                return -1
            continue
        size = _FIXED[code]
        if size < 0:
            return -1
        width = _SIZE[code]
        if width:
            size = width + int.from_bytes(data[pos : pos + width], "big")
            if pos + width > limit:
                return -1
        pos += size
        if pos > limit:
            return -1
        pending -= 1
    return pos


def walk(data: bytes, pos: int = 0) -> Iterator[Value]:
    """Yield all values from `pos` on, outermost first, as far as their extents are known.

    After a fault the walk continues behind the enclosing value.
    """
    parent: Value | None = None
    lost = False  # whether the end of the last value is unknown
    while True:
        while parent is not None and (lost or not parent.left or not parent.is_open):
            if parent.code == 0:
                parent.end = pos
            else:
                if pos < parent.end and parent.is_open and not lost:
                    over = Value(pos, data[pos], parent.end, parent.end, parent.end, LEFT_OVER)
                    over.parent, over.level, over.index = parent, parent.below, parent.count
                    yield over
                lost = parent.stop > parent.end
                pos = parent.end
            parent = parent.parent
        if parent is None:
            if lost or pos >= len(data):
                return
            value = head(data, pos, len(data))
        elif parent.code < _FIRST_ARRAY:
            value = head(data, pos, parent.end)
            value.parent, value.level = parent, parent.below
            if parent.code == 0:
                value.role = DESCRIPTOR if parent.left == 2 else VALUE
            else:
                value.index = parent.count - parent.left
                if parent.is_map:
                    if value.index % 2:
                        value.key = parent.last
                    parent.last = value
            parent.left -= 1
        else:
            value = _in_array(data, pos, parent)
        if parent is not None and value.level > LEVELS and value.fault != MISSING:
            value.fault, value.content, value.end = TOO_DEEP, parent.end, parent.end
        yield value
        if parent is not None and not parent.is_open:
            continue
        if value.fault and value.fault != TOO_SMALL:
            lost = True
        elif value.role is not CONSTRUCTOR and (value.code == 0 or value.code >= _FIRST_COMPOUND):
            if value.is_open:
                value.left = 2 if value.code == 0 else value.count
                value.below += value.level
                pos = value.content
                parent = value
                if value.code >= _FIRST_ARRAY:
                    value.left = 1
                continue
            lost = value.stop > value.end
        pos = value.end


def _in_array(data: bytes, pos: int, array: Value) -> Value:
    """Read the next part of an array: the constructor of its elements, then the elements."""
    if array.element >= 0:
        value = head(data, pos, array.end, array.element)
        value.index = array.count - array.left
        array.left -= 1
    elif array.element == _DESCRIBED:
        value = head(data, pos, array.end)
        value.role = DESCRIPTOR
        array.element = _UNREAD
    else:
        value = Value(pos, -1, array.end, array.end, array.end, MISSING)
        if pos < array.end:
            value.code = data[pos]
            if value.code and _FIXED[value.code] < 0:
                value.fault = UNKNOWN
            else:
                value.content = value.end = value.stop = pos + 1
                value.fault = ""
        value.role = CONSTRUCTOR
        array.element = value.code or _DESCRIBED
        if value.code > 0:
            array.left = array.count
    value.parent, value.level = array, array.below
    if value.role is DESCRIPTOR:
        array.below += 1
    return value


def type_at(data: bytes, pos: int) -> str:
    """Return the AMQP type of the constructor at `pos`; empty if it is not a constructor."""
    return _TYPES[data[pos]] if pos < len(data) else ""


def text_at(data: bytes, pos: int, end: int) -> str:
    """Return the string or symbol at data[pos:end]; invalid bytes become U+FFFD."""
    return data[pos + 1 + _SIZE[data[pos]] : end].decode("utf-8", "replace")
