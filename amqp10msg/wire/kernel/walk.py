# cython: annotation_typing=False, infer_types=True
"""Walks over encoded values, valid or invalid, and yields the position of each value and its parts.

The walk reads only constructors, sizes and counts (Part 1, 1.2), and raises no exceptions. Each
step advances by at least one byte, except in arrays of zero-width elements. The paths of errors,
the validation rules and the diagnostic tree use this module.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from amqp10msg.wire.primitives import FORMAT_CODES

#: Maximum nesting depth; the walk does not enter deeper values.
MAX_LEVELS = 256
# Maximum number of nested descriptors that `end_of` skips.
_MAX_NESTED_DESCRIPTORS = 1000

# The roles of a value in the enclosing value.
ROLE_VALUE = "value"
ROLE_DESCRIPTOR = "descriptor"
ROLE_CONSTRUCTOR = "constructor"  # of an array's elements

# The values of `Value.fault`. Unless the fault is FAULT_TOO_SMALL, the end of the value is unknown,
# so that it covers the remaining bytes of the enclosing value.
FAULT_MISSING = "missing"  # the bytes end before the value
FAULT_UNKNOWN = "unknown constructor"  # the first byte is not a format code
FAULT_CUT_OFF = "cut off"  # the bytes end inside the value
FAULT_TOO_DEEP = "too deep"  # nested more than `MAX_LEVELS` deep
FAULT_LEFT_OVER = "left over"  # bytes after the last value of a compound or array
FAULT_TOO_SMALL = "size too small"  # the size is less than that of the count

# Marks the bytes that are not format codes in the table of content widths.
_NOT_A_FORMAT_CODE = 255
_FORMAT_CODE_ROWS = FORMAT_CODES.values()
# By format code, the width in bytes of a fixed-width content, of the size field, and of size and
# count together. The content width is 0 for format codes of another category, and
# `_NOT_A_FORMAT_CODE` for bytes that are not format codes.
_FIXED_CONTENT_WIDTHS = {
    row.code: row.width if row.category == "fixed" else 0 for row in _FORMAT_CODE_ROWS
}
_SIZE_FIELD_WIDTHS = {row.code: row.width for row in _FORMAT_CODE_ROWS if row.category != "fixed"}
_SIZE_AND_COUNT_WIDTH_BY_CODE = {
    row.code: row.width * (1 + (row.category != "variable")) for row in _FORMAT_CODE_ROWS
}
_CONTENT_WIDTHS = bytes(
    [_FIXED_CONTENT_WIDTHS.get(code, _NOT_A_FORMAT_CODE) for code in range(256)]
)
_SIZE_WIDTHS = bytes([_SIZE_FIELD_WIDTHS.get(code, 0) for code in range(256)])
_SIZE_AND_COUNT_WIDTHS = bytes(
    [
        _SIZE_AND_COUNT_WIDTH_BY_CODE[code] if code in _SIZE_FIELD_WIDTHS else 0
        for code in range(256)
    ]
)
_TYPE_OF_FORMAT_CODE = ["described", *[""] * 255]
for _row in _FORMAT_CODE_ROWS:
    _TYPE_OF_FORMAT_CODE[_row.code] = _row.type

# The lowest format codes of lists and maps, and of arrays (Part 1, 1.2).
_FIRST_COMPOUND, _FIRST_ARRAY = 0xC0, 0xE0
_MAP_CODES = (0xC1, 0xD1)

# The values of `Value.element_code` before the shared constructor of an array's elements is read,
# and when a descriptor follows.
_CONSTRUCTOR_UNREAD = -1
_DESCRIPTOR_FOLLOWS = -2


@attrs.define(eq=False)
class Value:
    """A value, a descriptor, or the shared constructor of an array.

    Attributes:
        offset: the offset of the constructor; of the content, for an array element.
        code: the format code, 0 for a described value; the invalid byte for the fault
            `FAULT_UNKNOWN`; -1 at the end of the bytes.
        content: the offset of the content or first child, after constructor, size and count.
        end: the offset of the end, limited to the enclosing value. For a described value, it is set
            after the walk over its parts.
        stop: the offset of the end according to the size field.
        count: the count of a list, map or array.
        role: `ROLE_VALUE`, `ROLE_DESCRIPTOR`, or `ROLE_CONSTRUCTOR` in an array.
        fault: the error in this value, such as `FAULT_CUT_OFF`; empty for a valid value.
        parent: the enclosing value; None for an outermost value.
        level: the number of enclosing values.
        index_in_parent: the index among the values of a list, map or array.
        key: the key of a map value; None for other values.
        should_enter: whether to walk into this value. The caller of `walk` may set it to False,
            also in a parent compound or array, whose remaining values are then skipped.
    """

    offset: int
    code: int
    content: int
    end: int
    stop: int
    fault: str = ""
    count: int = 0
    role: str = ROLE_VALUE
    parent: Value | None = None
    level: int = 0
    index_in_parent: int = 0
    key: Value | None = None
    should_enter: bool = True
    # State of the walk over the children: the number of unread children, their level, the previous
    # child of a map (the key, if its value is next), and the format code of an array's elements.
    remaining: int = 0
    child_level: int = 1
    previous_child: Value | None = None
    element_code: int = _CONSTRUCTOR_UNREAD

    @property
    def is_compound(self) -> bool:
        """Whether the value is a list, map or array."""
        return self.code >= _FIRST_COMPOUND and not self.fault

    @property
    def is_array(self) -> bool:
        """Whether the value is an array, whose elements share a constructor."""
        return self.code >= _FIRST_ARRAY

    @property
    def is_map(self) -> bool:
        """Whether the value is a map."""
        return self.code in _MAP_CODES


def head(data: bytes, pos: int, limit: int, code: int = _CONSTRUCTOR_UNREAD) -> Value:
    """Read constructor, size and count of the value at data[pos:limit].

    Args:
        data: the input.
        pos: the offset of the value.
        limit: the end offset of the enclosing value.
        code: for an array element, the shared format code.
    """
    return Value(pos, *bounds(data, pos, limit, code))


def bounds(data: bytes, pos: int, limit: int, code: int) -> tuple[int, int, int, int, str, int]:
    """Return code, content, end, stop, fault and count of the `Value` at data[pos:limit].

    `code` is the shared format code of an array element, or -1.
    """
    size_pos = pos
    if code == _CONSTRUCTOR_UNREAD:
        if pos >= limit:
            return -1, limit, limit, limit, FAULT_MISSING, 0
        code = data[pos]
        size_pos += 1
        if code == 0:
            return 0, size_pos, limit, limit, "", 0
    if _CONTENT_WIDTHS[code] == _NOT_A_FORMAT_CODE:
        return code, limit, limit, limit, FAULT_UNKNOWN, 0
    width = _SIZE_WIDTHS[code]
    content = size_pos + _SIZE_AND_COUNT_WIDTHS[code]
    if content > limit:
        return code, limit, limit, content, FAULT_CUT_OFF, 0
    size = number_at(data, size_pos, size_pos + width) if width else _CONTENT_WIDTHS[code]
    stop = size_pos + width + size
    if code < _FIRST_COMPOUND:
        if stop > limit:
            return code, limit, limit, stop, FAULT_CUT_OFF, 0
        return code, content, stop, stop, "", 0
    end = min(stop, limit)
    if stop < content:
        return code, end, end, stop, FAULT_TOO_SMALL, 0
    return code, content, end, stop, "", number_at(data, size_pos + width, content)


def number_at(data: bytes, pos: int, end: int) -> int:
    """Return the unsigned integer in data[pos:end], as of a size or count."""
    number = 0
    for i in range(pos, end):
        number = number << 8 | data[i]
    return number


def elements_of(data: bytes, pos: int, limit: int) -> tuple[int, list[int], bool]:
    """Return the positions of the elements of the list or map at data[pos:limit].

    The first element with an invalid size is treated as the last one. It extends to the end.

    Returns:
        The count; the offsets of the elements and of their end; and whether the last element is
        invalid. If the list or map is invalid, ``(0, [pos], False)``.
    """
    code, first, end, stop, fault, count = bounds(data, pos, limit, _CONSTRUCTOR_UNREAD)
    if code < _FIRST_COMPOUND or fault or stop > limit or count > end - first:
        return 0, [pos], False
    starts = [first]
    at = first
    is_last_invalid = False
    while len(starts) <= count and at < end:
        at = end_of(data, at, end)
        if at < 0:
            is_last_invalid = True
            at = end
        starts.append(at)
    return count, starts, is_last_invalid


def end_of(data: bytes, pos: int, limit: int) -> int:
    """Return the end offset of the value at data[pos:limit]; -1 if it cannot be determined.

    The latter is the case if the value is truncated or invalid, or has more than 1,000 nested
    descriptors.
    """
    pending = 1
    descriptors_left = _MAX_NESTED_DESCRIPTORS
    while pending:
        if pos >= limit:
            return -1
        code = data[pos]
        pos += 1
        if code == 0:
            pending += 1
            descriptors_left -= 1
            if not descriptors_left:
                return -1
            continue
        size = _CONTENT_WIDTHS[code]
        if size == _NOT_A_FORMAT_CODE:
            return -1
        width = _SIZE_WIDTHS[code]
        if width:
            if pos + width > limit:
                return -1
            size = width + number_at(data, pos, pos + width)
        pos += size
        if pos > limit:
            return -1
        pending -= 1
    return pos


def walk(data: bytes, pos: int = 0) -> Iterator[Value]:
    """Yield the values from `pos` on, each before the values inside it.

    After a fault, the walk continues after the enclosing value.
    """
    parent: Value | None = None
    is_end_unknown = False  # whether the end of the previous value is unknown
    while True:
        while parent is not None and (
            is_end_unknown or not parent.remaining or not parent.should_enter
        ):
            if parent.code == 0:
                parent.end = pos
            else:
                if pos < parent.end and parent.should_enter and not is_end_unknown:
                    surplus = Value(
                        pos, data[pos], parent.end, parent.end, parent.end, FAULT_LEFT_OVER
                    )
                    surplus.parent, surplus.level, surplus.index_in_parent = (
                        parent,
                        parent.child_level,
                        parent.count,
                    )
                    yield surplus
                is_end_unknown = parent.stop > parent.end
                pos = parent.end
            parent = parent.parent
        if parent is None:
            if is_end_unknown or pos >= len(data):
                return
            value = head(data, pos, len(data))
        elif parent.code < _FIRST_ARRAY:
            value = head(data, pos, parent.end)
            value.parent, value.level = parent, parent.child_level
            if parent.code == 0:
                value.role = ROLE_DESCRIPTOR if parent.remaining == 2 else ROLE_VALUE
            else:
                value.index_in_parent = parent.count - parent.remaining
                if parent.is_map:
                    if value.index_in_parent % 2:
                        value.key = parent.previous_child
                    parent.previous_child = value
            parent.remaining -= 1
        else:
            value = _read_array_part(data, pos, parent)
        if parent is not None and value.level > MAX_LEVELS and value.fault != FAULT_MISSING:
            value.fault, value.content, value.end = FAULT_TOO_DEEP, parent.end, parent.end
        yield value
        if parent is not None and not parent.should_enter:
            continue
        if value.fault and value.fault != FAULT_TOO_SMALL:
            is_end_unknown = True
        elif value.role is not ROLE_CONSTRUCTOR and (
            value.code == 0 or value.code >= _FIRST_COMPOUND
        ):
            if value.should_enter:
                value.remaining = 2 if value.code == 0 else value.count
                value.child_level += value.level
                pos = value.content
                parent = value
                if value.code >= _FIRST_ARRAY:
                    value.remaining = 1
                continue
            is_end_unknown = value.stop > value.end
        pos = value.end


def _read_array_part(data: bytes, pos: int, array: Value) -> Value:
    """Read the next part of an array: the constructor of its elements, then the elements."""
    if array.element_code >= 0:
        value = head(data, pos, array.end, array.element_code)
        value.index_in_parent = array.count - array.remaining
        array.remaining -= 1
    elif array.element_code == _DESCRIPTOR_FOLLOWS:
        value = head(data, pos, array.end)
        value.role = ROLE_DESCRIPTOR
        array.element_code = _CONSTRUCTOR_UNREAD
    else:
        value = Value(pos, -1, array.end, array.end, array.end, FAULT_MISSING)
        if pos < array.end:
            value.code = data[pos]
            if value.code and _CONTENT_WIDTHS[value.code] == _NOT_A_FORMAT_CODE:
                value.fault = FAULT_UNKNOWN
            else:
                value.content = value.end = value.stop = pos + 1
                value.fault = ""
        value.role = ROLE_CONSTRUCTOR
        array.element_code = value.code or _DESCRIPTOR_FOLLOWS
        if value.code > 0:
            array.remaining = array.count
    value.parent, value.level = array, array.child_level
    if value.role is ROLE_DESCRIPTOR:
        array.child_level += 1
    return value


def type_at(data: bytes, pos: int) -> str:
    """Return the AMQP type of the constructor at `pos`; empty if it is not a constructor."""
    return _TYPE_OF_FORMAT_CODE[data[pos]] if pos < len(data) else ""


def text_at(data: bytes, pos: int, end: int) -> str:
    """Return the string or symbol at data[pos:end]; invalid bytes become U+FFFD."""
    return data[pos + 1 + _SIZE_WIDTHS[data[pos]] : end].decode("utf-8", "replace")
