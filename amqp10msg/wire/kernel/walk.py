"""One walk over encoded values, whole or broken: where each value begins and ends, and its parts.

It looks at constructors, sizes and counts (Part 1, 1.2) and at no content, and raises nothing. Each
step passes at least one byte, except in arrays whose elements have none. The path of an error, the
rules of validation and the diagnostic tree are read from it.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from amqp10msg.wire.primitives import FORMAT_CODES

#: Levels of values that are walked into.
LEVELS = 256
# Descriptors of one value that are passed over in search of its end.
_DESCRIPTORS = 1000

# The roles of a value in what encloses it.
VALUE = "value"
DESCRIPTOR = "descriptor"
CONSTRUCTOR = "constructor"  # of an array's elements

# The faults. All but TOO_SMALL leave no value, and what is left of the enclosing one belongs to it.
MISSING = "missing"
UNKNOWN = "unknown constructor"
CUT_OFF = "cut off"
TOO_DEEP = "too deep"
LEFT_OVER = "left over"  # bytes after the last value of a compound or array
TOO_SMALL = "size too small"  # for the count

# By format code: bytes of the content where that is fixed, bytes of the size, and of size and
# count. -1 where there is no such code.
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

# The code tells what a value holds: from these on lists and maps, and arrays (Part 1, 1.2).
_FIRST_COMPOUND, _FIRST_ARRAY = 0xC0, 0xE0
_MAPS = (0xC1, 0xD1)

# What the elements of an array are, as long as its constructor has not been read.
_UNREAD = -1
_DESCRIBED = -2


@attrs.define(eq=False)
class Value:
    """One value, or a part of one that stands alone, as constructors and sizes say.

    Attributes:
        offset: where it begins: at its constructor, or at its content where it is the element of
            an array.
        code: its format code, 0 for a described value; what stands there where that is not a code,
            -1 where nothing does.
        content: where its content or first child begins, after constructor, size and count.
        end: where it ends, within what encloses it; of a described value only once it was left.
        stop: where it should end, by its size.
        count: the count of a list, map or array.
        role: `VALUE`, `DESCRIPTOR`, or `CONSTRUCTOR` in an array.
        fault: what is wrong with it; empty where nothing is.
        parent: the value that encloses it, None for an outermost one.
        level: how many values enclose it.
        index: its place among the values of a list, map or array.
        key: the key of a map's value; None for all else.
        is_open: whether to walk into it. Whoever reads the walk may clear this, also in a parent
            compound or array, which is then left at once.
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
    # While it is being walked: values yet to come in it, their level, the last one in a map, and
    # the code of an array's elements.
    left: int = 0
    below: int = 1
    last: Value | None = None
    element: int = _UNREAD

    @property
    def holds(self) -> bool:
        """Whether it is a list, map or array."""
        return self.code >= _FIRST_COMPOUND and not self.fault

    @property
    def is_array(self) -> bool:
        """Whether it is an array, whose elements share a constructor."""
        return self.code >= _FIRST_ARRAY

    @property
    def is_map(self) -> bool:
        """Whether it is a map."""
        return self.code in _MAPS


def head(data: bytes, pos: int, limit: int, code: int = _UNREAD) -> Value:
    """Read constructor, size and count of the value at data[pos:limit].

    Args:
        data: the input.
        pos: where the value begins.
        limit: where what encloses it ends.
        code: the format code of an array's element, which has none of its own.
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
    """Return where the value at data[pos:limit] ends, or -1 where that cannot be told.

    That is so where it is cut off or no value, or has descriptors of descriptors without end.
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
    """Yield every value from `pos` on, outermost first, as far as sizes tell where they are.

    A fault takes what is left of the value that encloses it; the walk goes on after that.
    """
    parent: Value | None = None
    lost = False  # where the last value ends is unknown
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
    """Return the AMQP type of the value whose constructor is at `pos`; empty if there is none."""
    return _TYPES[data[pos]] if pos < len(data) else ""


def text_at(data: bytes, pos: int, end: int) -> str:
    """Return the string or symbol at data[pos:end]; what does not decode becomes U+FFFD."""
    return data[pos + 1 + _SIZE[data[pos]] : end].decode("utf-8", "replace")
