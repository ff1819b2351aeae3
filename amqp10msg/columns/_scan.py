# cython: language_level=3, boundscheck=True, wraparound=False, annotation_typing=False
"""The kernel of `decode`: from the octets of messages to Arrow's buffers, without objects between.

Compiled only; `_plain` does the same where it is not. A message is read in two steps. The first
finds every field, entry and body by its place and judges what `Message.decode` would judge; nothing
is written yet. The second writes a row. Whatever the first step does not know to be right (an
error, a rare encoding, a nested value, very many entries) makes the row an odd one: it is left null
here, and `_plain` reads it. So an error's reason is told in one place only.

Every size is compared with what is left before it is used, as in `_wire`; `pos <= stop <= size`
always holds. Runs of octets grow before they are written to. Numbers are written as the machine has
them, which is what Arrow's buffers are.
"""

from __future__ import annotations

import sys
from typing import Any

import cython

from amqp10msg.columns._cells import FIRST_MS, LAST_MS
from amqp10msg.primitives import FORMAT_CODES

# Kinds of columns. A timestamp is an int64.
BOOL, INT16, INT32, INT64, TEXT = range(5)
_WIDTHS[:] = [0, 2, 4, 8, 0]
_HIGH = 0x8080808080808080
# The largest of Arrow's 32-bit offsets.
_LARGEST = 2**31 - 1
_SMALLEST_KEPT = 2**14
_MOST_KEPT = 2**25
_FIRST_MS = FIRST_MS
_LAST_MS = LAST_MS


class Memory:
    """One buffer's memory, freed with the last array that uses it."""

    def __dealloc__(self) -> None:
        release(self.data, self.room)

    @property
    def address(self) -> int:
        return cython.cast(uintptr_t, self.data)


def owned(data: Any, size: int, room: int) -> Any:
    """Give memory away, of which `size` octets mean something and `room` are there."""
    made = Memory.__new__(Memory)
    made.data = data
    made.size = size
    made.room = room
    return made


# Batches come one after the other and are alike. To take fresh pages from the system for each, and
# to give them back, costs as much as the decoding: so what was freed is kept for the next batch, up
# to these bounds. Only touched with the GIL held.


def grab(size: int) -> Any:
    """Allocate memory, kept or fresh; NULL where there is none."""
    best = -1
    if size >= _SMALLEST_KEPT:
        for i in range(_KEPT_COUNT[0]):
            room = _KEPT[i].room
            if size <= room <= 2 * size and (best < 0 or room < _KEPT[best].room):
                best = i
    if best < 0:
        return malloc(size or 1)
    data = _KEPT[best].data
    _KEPT_SIZE[0] -= _KEPT[best].room
    _KEPT_COUNT[0] -= 1
    _KEPT[best] = _KEPT[_KEPT_COUNT[0]]
    return data


def grab_zeros(size: int) -> Any:
    data = grab(size)
    if data != cython.NULL:
        memset(data, 0, size)
    return data


def release(data: Any, room: int) -> None:
    """Free memory of which at least `room` octets are there, or keep it."""
    if (
        data == cython.NULL
        or room < _SMALLEST_KEPT
        or _KEPT_COUNT[0] == 128
        or room > _MOST_KEPT - _KEPT_SIZE[0]
    ):
        free(data)
        return
    _KEPT[_KEPT_COUNT[0]].data = data
    _KEPT[_KEPT_COUNT[0]].room = room
    _KEPT_COUNT[0] += 1
    _KEPT_SIZE[0] += room


def resized(data: Any, before: int, after: int) -> Any:
    """Give memory more room: NULL, and the old one still there, where there is none."""
    if after < _SMALLEST_KEPT:
        return realloc(data, after)
    with cython.gil:
        made = grab(after)
        if made != cython.NULL:
            if before:
                memcpy(made, data, before)
            release(data, before)
    return made


# Octets.


def u32(p: Any) -> Any:
    a = p[0]
    b = p[1]
    c = p[2]
    d = p[3]
    return a << 24 | b << 16 | c << 8 | d


def u64(p: Any) -> Any:
    high = u32(p)
    low = u32(p + 4)
    return high << 32 | low


def is_ascii(p: Any, n: int, left: int) -> bool:
    """Tell whether n octets are ASCII; `left` can be read at least."""
    if n < 8:
        if left >= 8:
            memcpy(cython.address(word), p, 8)
            return word & _FIRST_HIGH[n] == 0
        for i in range(n):
            if p[i] > 127:
                return False
        return True
    i = 0
    while i < n - 8:
        memcpy(cython.address(word), p + i, 8)
        if word & _HIGH:
            return False
        i += 8
    # The last eight, whether seen already or not.
    memcpy(cython.address(word), p + n - 8, 8)
    return word & _HIGH == 0


def is_utf8(p: Any, n: int) -> bool:
    """Tell whether octets are UTF-8 as Python has it: nothing overlong, no surrogates."""
    i = 0
    while i < n:
        if n - i >= 8:
            memcpy(cython.address(word), p + i, 8)
            if not word & _HIGH:
                i += 8
                continue
        c = p[i]
        if c < 0x80:
            i += 1
        elif c < 0xC2:
            return False
        elif c < 0xE0:
            if n - i < 2 or (p[i + 1] & 0xC0) != 0x80:
                return False
            i += 2
        elif c < 0xF0:
            if n - i < 3:
                return False
            d = p[i + 1]
            if (d & 0xC0) != 0x80 or (p[i + 2] & 0xC0) != 0x80:
                return False
            if (c == 0xE0 and d < 0xA0) or (c == 0xED and d > 0x9F):
                return False
            i += 3
        elif c < 0xF5:
            if n - i < 4:
                return False
            d = p[i + 1]
            if (d & 0xC0) != 0x80 or (p[i + 2] & 0xC0) != 0x80 or (p[i + 3] & 0xC0) != 0x80:
                return False
            if (c == 0xF0 and d < 0x90) or (c == 0xF4 and d > 0x8F):
                return False
            i += 4
        else:
            return False
    return True


def set_bit(bits: Any, i: int) -> None:
    bits[i >> 3] |= cython.cast(cython.uchar, 1 << (i & 7))


# Runs that grow.


def make_room(run: Any, n: int) -> bool:
    """Make room for n more octets and 16 to spare; False where Arrow or the machine has none."""
    if n > _LARGEST - run.size:
        return False
    if run.size + n + 16 > run.room:
        room = run.room * 2
        room = max(room, run.size + n + 16)
        room = max(room, 256)
        data = cython.cast("unsigned char*", resized(run.data, run.room, room))
        if data == cython.NULL:
            return False
        run.data = data
        run.room = room
    return True


def put_octets(run: Any, p: Any, n: int, left: int) -> bool:
    """Append n octets, of which `left` can be read at least."""
    if run.size + n + 16 > run.room and not make_room(run, n):
        return False
    if n <= 16 and left >= 16:
        # One copy of a fixed width, of which the first n stay: quicker than one of n.
        memcpy(run.data + run.size, p, 16)
    elif n:
        memcpy(run.data + run.size, p, n)
    run.size += n
    return True


def fill_offsets(column: Any, end: int) -> None:
    """Write the offsets that are missing, up to where row `end` begins: nulls hold nothing."""
    size = cython.cast(int32_t, column.run.size)
    for i in range(column.written, end):
        column.offsets[i] = size
    column.written = end


def put_digits(run: Any, number: int) -> bool:
    i = 20
    while True:
        i -= 1
        digits[i] = cython.cast(cython.uchar, 48 + number % 10)
        number //= 10
        if number == 0:
            break
    return put_octets(run, cython.address(digits[i]), 20 - i, 20 - i)


def put_hex(run: Any, p: Any, n: int) -> bool:
    if n > _LARGEST // 2 or not make_room(run, 2 * n):
        return False
    out = run.data + run.size
    for i in range(n):
        out[2 * i] = hex_digit(p[i] >> 4)
        out[2 * i + 1] = hex_digit(p[i] & 15)
    run.size += 2 * n
    return True


def hex_digit(number: int) -> Any:
    return cython.cast(cython.uchar, 48 + number if number < 10 else 87 + number)


def put_uuid(run: Any, p: Any) -> bool:
    if not make_room(run, 36):
        return False
    out = run.data + run.size
    for i in range(16):
        if i == 4 or i == 6 or i == 8 or i == 10:
            out[0] = 45
            out += 1
        out[0] = hex_digit(p[i] >> 4)
        out[1] = hex_digit(p[i] & 15)
        out += 2
    run.size += 36
    return True


def regrown(data: Any, before: int, after: int) -> Any:
    """Give the memory a new size, what is new as zeros; NULL where there is none."""
    made = cython.cast("unsigned char*", resized(data, before, after))
    if made != cython.NULL:
        memset(made + before, 0, after - before)
    return made


def foreseen(size: int, done: int, rows: int) -> int:
    return cython.cast(cython.Py_ssize_t, 1.05 * size / done * rows)


def foresee_run(run: Any, done: int, rows: int, most: int) -> None:
    wanted = foreseen(run.size, done, rows)
    wanted = min(wanted, most)
    if wanted > run.size:
        make_room(run, wanted - run.size)


def foresee_values(values: Any, done: int, rows: int, most: int) -> None:
    wanted = foreseen(values.count, done, rows)
    # An entry takes three octets at least; a null of a pick none, but there is one a row.
    wanted = min(wanted, most // 3 + rows)
    if wanted > values.room:
        grow_values(values, wanted)
    foresee_run(cython.address(values.types), done, rows, 9 * (most // 3))
    foresee_run(cython.address(values.s), done, rows, most)
    foresee_run(cython.address(values.b), done, rows, most)


class Scanner:
    """Reads the messages of one array into columns.

    Args:
        needs: for each of the nine kinds of section whether its content is read.
        composites: for each composite section its index and the rows of its fields: kind, column,
            second column, default or None.
        maps: for each map section its index and whether the map is a column.
        picks: the number of the map section and the octets of the key, for each.
        body: the columns of body_kind, body_sections, body, body_json; -1 where not asked for.
        with_parts: section_offsets are asked for.
        kinds: the kinds of the columns.
        names: the names of AMQP types by format code.
        kind_names: the names of the three body kinds.
        max_items: values in compounds that a message may have.
        max_size: octets that a message may have.
    """

    def __init__(
        self,
        needs: Any,
        composites: Any,
        maps: Any,
        picks: Any,
        body: Any,
        with_parts: bool,
        kinds: Any,
        names: Any,
        kind_names: Any,
        max_items: int,
        max_size: int,
    ) -> None:
        if self.columns != cython.NULL:
            raise TypeError("a scanner is set up once")
        self.max_items = max_items
        self.max_size = max_size
        for i in range(9):
            self.needs[i] = needs[i]
            self.map_of[i] = -1
        filled = 0
        for section, rows in composites:
            if filled + len(rows) > 32:
                raise ValueError("the composites have too many fields for this kernel")
            self.first_field[section] = filled
            self.field_count[section] = len(rows)
            for kind, column, second, fallback in rows:
                self.fields[filled].kind = kind
                self.fields[filled].column = column
                self.fields[filled].second = second
                self.fields[filled].has_fallback = fallback is not None
                self.fields[filled].fallback = 0 if fallback is None else fallback
                filled += 1
        if len(maps) > 4:
            raise ValueError("there are too many map sections for this kernel")
        for i, (section, wanted) in enumerate(maps):
            self.map_of[section] = i
            self.maps[i].wanted = wanted
        self.body_kind, self.body_sections, self.body, self.body_json = body
        self.with_parts = with_parts
        for code, name in names.items():
            if len(name) > 16:
                raise ValueError("the name of a type is too long for this kernel")
            self.name_sizes[code] = len(name)
            for i, octet in enumerate(name):
                self.names[16 * code + i] = octet
        for code, name in enumerate(kind_names):
            if len(name) > 32:
                raise ValueError("the name of a kind is too long for this kernel")
            self.kind_sizes[code] = len(name)
            for i, octet in enumerate(name):
                self.kind_names[32 * code + i] = octet
        self.column_count = len(kinds)
        self.columns = cython.cast("Column*", calloc(len(kinds) + 1, cython.sizeof(Column)))
        self.pick_count = len(picks)
        self.picks = cython.cast("Pick*", calloc(len(picks) + 1, cython.sizeof(Pick)))
        if self.columns == cython.NULL or self.picks == cython.NULL:
            raise MemoryError
        for i, kind in enumerate(kinds):
            self.columns[i].kind = kind
        # The keys are kept, for the pointers into them.
        self.keys = [key for _, key in picks]
        for i, (section, _) in enumerate(picks):
            key: bytes = self.keys[i]
            self.picks[i].section = section
            self.picks[i].key = cython.cast("const unsigned char*", cython.cast("char*", key))
            self.picks[i].n = len(key)

    def __dealloc__(self) -> None:
        if self.columns != cython.NULL:
            for i in range(self.column_count):
                free(self.columns[i].valid)
                free(self.columns[i].values)
                free(self.columns[i].offsets)
                free(self.columns[i].run.data)
            free(self.columns)
        if self.picks != cython.NULL:
            for i in range(self.pick_count):
                free_values(cython.address(self.picks[i].values))
            free(self.picks)
        for i in range(4):
            free(self.maps[i].valid)
            free(self.maps[i].offsets)
            free(self.maps[i].key_offsets)
            free(self.maps[i].keys.data)
            free_values(cython.address(self.maps[i].values))
        free(self.part_offsets)
        free(self.part_valid)
        free(self.part_codes)
        free(self.part_starts)
        free(self.part_contents)
        free(self.part_ends)
        free(self.odd.data)

    # Finding, the first step. False: an odd message.

    def span(self, code: int) -> bool:
        """Pass over the octets behind a code of variable width: `at` and `n` say where they are."""
        if code < 0xB0:
            if self.stop - self.pos < 1:
                return False
            self.n = self.buf[self.pos]
            self.at = self.pos + 1
        else:
            if self.stop - self.pos < 4:
                return False
            self.n = u32(self.buf + self.pos)
            self.at = self.pos + 4
        if self.n > self.stop - self.at:
            return False
        self.pos = self.at + self.n
        return True

    def open(self, code: int) -> int:
        """Read a compound's size and count; tell where it ends, or -1."""
        if code < 0xD0:
            if self.stop - self.pos < 2:
                return -1
            size = self.buf[self.pos]
            if size < 1 or size > self.stop - self.pos - 1:
                return -1
            stop = self.pos + 1 + size
            count = self.buf[self.pos + 1]
            self.pos += 2
        else:
            if self.stop - self.pos < 8:
                return -1
            size = u32(self.buf + self.pos)
            if size < 4 or size > self.stop - self.pos - 4:
                return -1
            stop = self.pos + 4 + size
            count = u32(self.buf + self.pos + 4)
            self.pos += 8
        if count > stop - self.pos:
            return -1
        self.items -= count
        if self.items < 0:
            return -1
        self.count = count
        return stop

    def composite(self, section: int) -> bool:
        first = self.first_field[section]
        total = self.field_count[section]
        if self.pos >= self.size:
            return False
        code = self.buf[self.pos]
        self.pos += 1
        if code == 0x45:
            self.filled[section] = 0
            return True
        if code != 0xC0 and code != 0xD0:
            return False
        stop = self.open(code)
        if stop < 0 or self.count > total:
            return False
        self.stop = stop
        total = cython.cast(cython.int, self.count)
        self.filled[section] = total
        for i in range(total):
            if self.pos >= stop:
                return False
            slot = cython.address(self.slots[first + i])
            slot.code = self.buf[self.pos]
            self.pos += 1
            if slot.code != 0x40 and not self.field(slot, self.fields[first + i].kind):
                return False
        if self.pos != stop:
            return False
        self.stop = self.size
        return True

    def field(self, slot: Any, kind: int) -> bool:
        """Read a field of one of the kinds that `_wire` numbers."""
        code = slot.code
        if kind == 20 or kind == 28:
            return (code == 0xA1 or code == 0xB1) and self.text(slot)
        if kind == 21:
            return (code == 0xA3 or code == 0xB3) and self.text(slot)
        if kind == 19:
            return (code == 0xA0 or code == 0xB0) and self.text(slot)
        if kind == 27:
            if code == 0xA1 or code == 0xB1 or code == 0xA0 or code == 0xB0:
                return self.text(slot)
            return (code == 0x98 or code == 0x80 or code == 0x53 or code == 0x44) and self.number(
                slot
            )
        if kind == 2:
            return (code == 0x41 or code == 0x42 or code == 0x56) and self.number(slot)
        if kind == 3:
            return code == 0x50 and self.number(slot)
        if kind == 5:
            return (code == 0x70 or code == 0x52 or code == 0x43) and self.number(slot)
        if kind == 17:
            return code == 0x83 and self.number(slot)
        return False

    def text(self, slot: Any) -> bool:
        """Read octets, a string or a symbol."""
        code = slot.code
        if not self.span(code):
            return False
        slot.start = self.at
        slot.n = self.n
        if code == 0xA0 or code == 0xB0:
            return True
        if is_ascii(self.buf + self.at, self.n, self.size - self.at):
            return True
        return (code == 0xA1 or code == 0xB1) and is_utf8(self.buf + self.at, self.n)

    def number(self, slot: Any) -> bool:
        """Read what has a fixed width: its number, or where its octets are."""
        code = slot.code
        left = self.stop - self.pos
        at = self.buf + self.pos
        if code < 0x50:
            # true is one; false, uint0 and ulong0 are none.
            slot.number = code == 0x41
            return code == 0x40 or code == 0x41 or code == 0x42 or code == 0x43 or code == 0x44
        if code < 0x60:
            if left < 1:
                return False
            self.pos += 1
            if code == 0x56:
                slot.number = at[0]
                return at[0] <= 1
            if code == 0x51 or code == 0x54 or code == 0x55:
                slot.number = cython.cast(cython.schar, at[0])
                return True
            slot.number = at[0]
            return code == 0x50 or code == 0x52 or code == 0x53
        if code < 0x70:
            if left < 2:
                return False
            self.pos += 2
            word = at[0] * 256 + at[1]
            if code == 0x61 and word > 32767:
                slot.number = cython.cast(int64_t, word) - 65536
                return True
            slot.number = word
            return code == 0x60 or code == 0x61
        if code < 0x80:
            if left < 4:
                return False
            self.pos += 4
            word = u32(at)
            if code == 0x71:
                slot.number = cython.cast(int32_t, word)
                return True
            slot.number = word
            if code == 0x72:
                # What is no number keeps its octets beside it.
                return (word & 0x7F800000) != 0x7F800000 or (word & 0x7FFFFF) == 0
            if code == 0x73:
                return word <= 0x10FFFF and (word < 0xD800 or word > 0xDFFF)
            return code == 0x70
        if code == 0x98:
            if left < 16:
                return False
            slot.start = self.pos
            self.pos += 16
            return True
        if code > 0x83 or left < 8:
            return False
        self.pos += 8
        slot.number = cython.cast(int64_t, u64(at))
        return True

    def value(self, slot: Any) -> bool:
        """Read a scalar value; its constructor is read already."""
        code = slot.code
        if code >= 0xA0:
            if code <= 0xA1 or code == 0xA3 or code == 0xB0 or code == 0xB1 or code == 0xB3:
                return self.text(slot)
            return False
        # 0x00 is a described value, 0x45 a list; decimals have their number worked out elsewhere.
        return code != 0 and code != 0x45 and code != 0x74 and self.number(slot)

    def mapping(self, section: int) -> bool:
        which = self.map_of[section]
        if which < 0 or self.pos >= self.size:
            return False
        code = self.buf[self.pos]
        self.pos += 1
        if code != 0xC1 and code != 0xD1:
            return False
        stop = self.open(code)
        if stop < 0 or self.count & 1 or self.count > 128:
            return False
        pairs = cython.cast(cython.int, self.count >> 1)
        if self.entry_count + pairs > 256:
            return False
        self.stop = stop
        wanted = 0xA1 if section == 4 else 0xA3
        first = cython.address(self.entries[self.entry_count])
        self.map_first[which] = self.entry_count
        self.map_count[which] = pairs
        self.entry_count += pairs
        for i in range(pairs):
            slot = first + i
            if self.pos >= stop:
                return False
            code = self.buf[self.pos]
            self.pos += 1
            if code != wanted and code != wanted + 0x10:
                return False
            slot.code = code
            if not self.text(slot):
                return False
            slot.key = slot.start
            slot.key_n = slot.n
            for j in range(i):
                other = first + j
                if other.key_n == slot.key_n and (
                    memcmp(self.buf + other.key, self.buf + slot.key, slot.key_n) == 0
                ):
                    return False
            if self.pos >= stop:
                return False
            slot.code = self.buf[self.pos]
            self.pos += 1
            if not self.value(slot):
                return False
        if self.pos != stop:
            return False
        self.stop = self.size
        return True

    def skip(self) -> bool:
        """Pass over one value that is not described."""
        if self.pos >= self.size:
            return False
        code = self.buf[self.pos]
        if _SKIPPED[code] == 255:
            return False
        self.pos += 1
        if code < 0xA0:
            if _SKIPPED[code] > self.size - self.pos:
                return False
            self.pos += _SKIPPED[code]
            return True
        if code & 0x10:
            if self.size - self.pos < 4:
                return False
            n = u32(self.buf + self.pos)
            self.pos += 4
        else:
            if self.size - self.pos < 1:
                return False
            n = self.buf[self.pos]
            self.pos += 1
        if n > self.size - self.pos:
            return False
        self.pos += n
        return True

    def message(self) -> bool:
        """Find everything in one message."""
        last = -1
        self.pos = 0
        self.stop = self.size
        self.items = self.max_items
        self.entry_count = 0
        self.part_count = 0
        self.data_count = 0
        memset(self.found, 0, cython.sizeof(self.found))
        while self.pos < self.size:
            start = self.pos
            # The descriptors of other widths, and those that are symbols, are for the other way.
            if self.size - start < 4 or self.buf[start] != 0 or self.buf[start + 1] != 0x53:
                return False
            section = self.buf[start + 2] - 0x70
            if section < 0 or section > 8:
                return False
            if section <= last or last >= 5:
                if not (section == last and (section == 5 or section == 6)) and not (
                    section == 8 and last < 8
                ):
                    return False
            last = section
            if self.part_count == 128:
                return False
            content = start + 3
            self.pos = content
            self.found[section] = True
            if not self.needs[section]:
                if not self.skip():
                    return False
            elif section == 0 or section == 3:
                if not self.composite(section):
                    return False
            elif section < 5 or section == 8:
                if not self.mapping(section):
                    return False
            elif section != 5 or not self.data():
                return False
            self.parts[self.part_count].code = section
            self.parts[self.part_count].start = start
            self.parts[self.part_count].content = content
            self.parts[self.part_count].end = self.pos
            self.part_count += 1
        return True

    def data(self) -> bool:
        code = self.buf[self.pos]
        self.pos += 1
        if (code != 0xA0 and code != 0xB0) or self.data_count == 64 or not self.span(code):
            return False
        self.datas[self.data_count].start = self.at
        self.datas[self.data_count].end = self.at + self.n
        self.data_count += 1
        return True

    # Writing, the second step. False: a column is full.

    def commit(self, row: int) -> bool:
        if self.found[0] and self.needs[0] and not self.commit_fields(0, row):
            return False
        if self.found[3] and self.needs[3] and not self.commit_fields(3, row):
            return False
        if not self.commit_body(row):
            return False
        if self.with_parts and not self.commit_parts(row):
            return False
        for i in range(9):
            if (
                self.map_of[i] >= 0
                and self.maps[self.map_of[i]].wanted
                and self.found[i]
                and not self.commit_map(i, row)
            ):
                return False
        return self.pick_count == 0 or self.commit_picks()

    def begin_text(self, column: int, row: int) -> Any:
        """Begin a cell that is not null: the column, with the offsets of the nulls before it."""
        target = cython.address(self.columns[column])
        set_bit(target.valid, row)
        target.present += 1
        fill_offsets(target, row + 1)
        return target

    def commit_text(self, column: int, row: int, p: Any, n: int, left: int) -> bool:
        return put_octets(cython.address(self.begin_text(column, row).run), p, n, left)

    def commit_number(self, column: int, row: int, number: int) -> None:
        target = cython.address(self.columns[column])
        set_bit(target.valid, row)
        target.present += 1
        if target.kind == 3:
            memcpy(target.values + 8 * row, cython.address(number), 8)
        elif target.kind == 0:
            if number:
                set_bit(target.values, row)
        elif target.kind == 1:
            small = cython.cast(int16_t, number)
            memcpy(target.values + 2 * row, cython.address(small), 2)
        else:
            middle = cython.cast(int32_t, number)
            memcpy(target.values + 4 * row, cython.address(middle), 4)

    def commit_fields(self, section: int, row: int) -> bool:
        filled = self.first_field[section] + self.filled[section]
        for i in range(
            self.first_field[section], self.first_field[section] + self.field_count[section]
        ):
            field = cython.address(self.fields[i])
            slot = cython.address(self.slots[i])
            # What is left out at the end of a list is null.
            code = slot.code if i < filled else 0x40
            if code == 0x40:
                if field.has_fallback and field.column >= 0:
                    self.commit_number(field.column, row, field.fallback)
                continue
            if field.kind == 17:
                if _FIRST_MS <= slot.number <= _LAST_MS:
                    if field.column >= 0:
                        self.commit_number(field.column, row, slot.number * 1000)
                elif field.second >= 0:
                    self.commit_number(field.second, row, slot.number)
                continue
            if field.kind == 27 and field.second >= 0:
                if not self.commit_text(
                    field.second,
                    row,
                    cython.address(self.names[16 * code]),
                    self.name_sizes[code],
                    16,
                ):
                    return False
            if field.column < 0:
                continue
            if field.kind == 27 and code != 0xA1 and code != 0xB1:
                target = self.begin_text(field.column, row)
                if code == 0x98:
                    ok = put_uuid(cython.address(target.run), self.buf + slot.start)
                elif code == 0xA0 or code == 0xB0:
                    ok = put_hex(cython.address(target.run), self.buf + slot.start, slot.n)
                else:
                    ok = put_digits(cython.address(target.run), cython.cast(uint64_t, slot.number))
                if not ok:
                    return False
            elif code >= 0xA0:
                if not self.commit_text(
                    field.column,
                    row,
                    self.buf + slot.start,
                    slot.n,
                    self.size - slot.start,
                ):
                    return False
            else:
                self.commit_number(field.column, row, slot.number)
        return True

    def commit_map(self, section: int, row: int) -> bool:
        which = self.map_of[section]
        map = cython.address(self.maps[which])
        set_bit(map.valid, row)
        map.present += 1
        if not room_for(cython.address(map.values), self.map_count[which]):
            return False
        for i in range(self.map_first[which], self.map_first[which] + self.map_count[which]):
            slot = cython.address(self.entries[i])
            if not self.put_value(cython.address(map.values), slot):
                return False
            if not put_octets(
                cython.address(map.keys), self.buf + slot.key, slot.key_n, self.size - slot.key
            ):
                return False
            if not self.put_key(map):
                return False
        return True

    def put_key(self, map: Any) -> bool:
        """Note where a key ends; as many as there are values."""
        if map.values.count >= map.key_room:
            room = map.key_room * 2 + 64
            made = cython.cast(
                "int32_t*",
                resized(
                    map.key_offsets, 4 * (map.key_room + 1) if map.key_room else 0, 4 * (room + 1)
                ),
            )
            if made == cython.NULL:
                return False
            if map.key_room == 0:
                made[0] = 0
            map.key_offsets = made
            map.key_room = room
        map.key_offsets[map.values.count] = cython.cast(int32_t, map.keys.size)
        return True

    def commit_picks(self) -> bool:
        for i in range(self.pick_count):
            pick = cython.address(self.picks[i])
            done = False
            if self.found[pick.section]:
                which = self.map_of[pick.section]
                for j in range(
                    self.map_first[which], self.map_first[which] + self.map_count[which]
                ):
                    slot = cython.address(self.entries[j])
                    if slot.key_n == pick.n and (
                        memcmp(self.buf + slot.key, pick.key, pick.n) == 0
                    ):
                        if not room_for(cython.address(pick.values), 1) or not self.put_value(
                            cython.address(pick.values), slot
                        ):
                            return False
                        done = True
                        break
            if not done and not put_null(cython.address(pick.values)):
                return False
        return True

    def put_value(self, values: Any, slot: Any) -> bool:
        """Write a value, for which `room_for` has made room."""
        i = values.count
        code = slot.code
        clear_numbers(values)
        set_bit(values.valid, i)
        # All 16, of which the name's are kept: quicker than as many as there are.
        memcpy(values.types.data + values.types.size, cython.address(self.names[16 * code]), 16)
        values.types.size += self.name_sizes[code]
        if code >= 0xA0:
            if code == 0xA0 or code == 0xB0:
                set_bit(values.b_valid, i)
                if not put_octets(
                    cython.address(values.b),
                    self.buf + slot.start,
                    slot.n,
                    self.size - slot.start,
                ):
                    return False
            else:
                set_bit(values.s_valid, i)
                if not put_octets(
                    cython.address(values.s),
                    self.buf + slot.start,
                    slot.n,
                    self.size - slot.start,
                ):
                    return False
        elif code == 0x82:
            set_bit(values.d_valid, i)
            values.d[i] = cython.cast(uint64_t, slot.number)
        elif code == 0x72:
            single = cython.cast(uint32_t, slot.number)
            memcpy(cython.address(real), cython.address(single), 4)
            wide = real
            set_bit(values.d_valid, i)
            memcpy(values.d + i, cython.address(wide), 8)
        elif code == 0x80 or code == 0x53 or code == 0x44:
            set_bit(values.u_valid, i)
            values.u[2 * i] = cython.cast(uint64_t, slot.number)
        elif code == 0x98:
            set_bit(values.s_valid, i)
            if not put_uuid(cython.address(values.s), self.buf + slot.start):
                return False
        elif code == 0x73:
            set_bit(values.s_valid, i)
            if not put_character(cython.address(values.s), cython.cast(uint32_t, slot.number)):
                return False
        elif code != 0x40:
            set_bit(values.l_valid, i)
            values.l[i] = slot.number
        close_value(values)
        return True

    def commit_parts(self, row: int) -> bool:
        set_bit(self.part_valid, row)
        self.parts_present += 1
        n = self.parts_written
        if n + self.part_count > self.part_room:
            room = 2 * self.part_room + 256
            if room > _LARGEST:
                return False
            # Each is set as soon as it is moved, so that it can be freed where the next fails.
            made = resized(self.part_codes, 2 * self.part_room, 2 * room)
            if made == cython.NULL:
                return False
            self.part_codes = cython.cast("int16_t*", made)
            made = resized(self.part_starts, 8 * self.part_room, 8 * room)
            if made == cython.NULL:
                return False
            self.part_starts = cython.cast("int64_t*", made)
            made = resized(self.part_contents, 8 * self.part_room, 8 * room)
            if made == cython.NULL:
                return False
            self.part_contents = cython.cast("int64_t*", made)
            made = resized(self.part_ends, 8 * self.part_room, 8 * room)
            if made == cython.NULL:
                return False
            self.part_ends = cython.cast("int64_t*", made)
            self.part_room = room
        for i in range(self.part_count):
            self.part_codes[n + i] = cython.cast(int16_t, self.parts[i].code + 0x70)
            self.part_starts[n + i] = self.parts[i].start
            self.part_contents[n + i] = self.parts[i].content
            self.part_ends[n + i] = self.parts[i].end
        self.parts_written += self.part_count
        return True

    def commit_body(self, row: int) -> bool:
        kind = 0 if self.found[5] else 1 if self.found[6] else 2
        if not self.found[5 + kind]:
            return True
        if self.body_kind >= 0:
            if not self.commit_text(
                self.body_kind,
                row,
                cython.address(self.kind_names[32 * kind]),
                self.kind_sizes[kind],
                32,
            ):
                return False
        if self.body_sections >= 0:
            total = 0
            for i in range(self.part_count):
                total += self.parts[i].code == 5 + kind
            self.commit_number(self.body_sections, row, total)
        if self.body >= 0 and kind == 0:
            target = self.begin_text(self.body, row)
            for i in range(self.data_count):
                if not put_octets(
                    cython.address(target.run),
                    self.buf + self.datas[i].start,
                    self.datas[i].end - self.datas[i].start,
                    self.size - self.datas[i].start,
                ):
                    return False
        return True

    def close_row(self, row: int) -> None:
        """Note where the row ends in the lists."""
        for i in range(4):
            if self.maps[i].wanted:
                self.maps[i].offsets[row + 1] = cython.cast(int32_t, self.maps[i].values.count)
        if self.with_parts:
            self.part_offsets[row + 1] = cython.cast(int32_t, self.parts_written)

    def loop(
        self, data: Any, data_size: int, offsets: Any, width: int, valid: Any, first: int
    ) -> int:
        """Read all rows: 0, or 1 where a column is full, 2 where the array is no valid one."""
        for row in range(self.rows):
            place = first + row
            if valid == cython.NULL or valid[place >> 3] >> (place & 7) & 1:
                if width == 4:
                    memcpy(cython.address(short_start), offsets + 4 * place, 4)
                    memcpy(cython.address(short_end), offsets + 4 * place + 4, 4)
                    start = short_start
                    end = short_end
                else:
                    memcpy(cython.address(start), offsets + 8 * place, 8)
                    memcpy(cython.address(end), offsets + 8 * place + 8, 8)
                if not 0 <= start <= end <= data_size:
                    return 2
                self.buf = data + start
                self.size = end - start
                if self.size <= self.max_size and self.message():
                    if not self.commit(row):
                        return 1
                else:
                    if not self.null_picks():
                        return 1
                    if not put_octets(
                        cython.address(self.odd),
                        cython.cast("const unsigned char*", cython.address(row)),
                        8,
                        8,
                    ):
                        return 1
            elif not self.null_picks():
                return 1
            self.close_row(row)
            if row == 63 and self.rows >= 128:
                self.foresee(64, data_size)
        return 0

    def foresee(self, done: int, most: int) -> None:
        """Make room as if the other rows were like those that are done; growing copies.

        No run gets more than what the octets of the messages could ask for. Where there is no
        memory for that, growing will tell.
        """
        for i in range(self.column_count):
            if self.columns[i].kind == 4:
                foresee_run(cython.address(self.columns[i].run), done, self.rows, most)
        for i in range(4):
            if self.maps[i].wanted:
                foresee_run(cython.address(self.maps[i].keys), done, self.rows, most)
                foresee_values(cython.address(self.maps[i].values), done, self.rows, most)
        for i in range(self.pick_count):
            foresee_values(cython.address(self.picks[i].values), done, self.rows, most)

    def null_picks(self) -> bool:
        for i in range(self.pick_count):
            if not put_null(cython.address(self.picks[i].values)):
                return False
        return True

    # From and to Python.

    def allocate(self) -> int:
        n = self.rows
        bits = (n + 7) // 8 + 8
        for i in range(self.column_count):
            column = cython.address(self.columns[i])
            column.valid = cython.cast("unsigned char*", grab_zeros(bits))
            if column.valid == cython.NULL:
                raise MemoryError
            if column.kind == 4:
                column.offsets = cython.cast("int32_t*", grab_zeros(4 * (n + 1)))
                if column.offsets == cython.NULL:
                    raise MemoryError
            else:
                column.values = cython.cast(
                    "unsigned char*", grab_zeros(_WIDTHS[column.kind] * n + bits)
                )
                if column.values == cython.NULL:
                    raise MemoryError
        for i in range(4):
            if self.maps[i].wanted:
                self.maps[i].valid = cython.cast("unsigned char*", grab_zeros(bits))
                self.maps[i].offsets = cython.cast("int32_t*", grab_zeros(4 * (n + 1)))
                if self.maps[i].valid == cython.NULL or self.maps[i].offsets == cython.NULL:
                    raise MemoryError
        if self.with_parts:
            self.part_valid = cython.cast("unsigned char*", grab_zeros(bits))
            self.part_offsets = cython.cast("int32_t*", grab_zeros(4 * (n + 1)))
            if self.part_valid == cython.NULL or self.part_offsets == cython.NULL:
                raise MemoryError
        return 0

    def scan(
        self,
        data: int,
        data_size: int,
        offsets: int,
        offsets_size: int,
        width: int,
        valid: int,
        valid_size: int,
        first: int,
        rows: int,
    ) -> list[int]:
        """Read the messages of an array of binary (width 4) or large_binary (8), once.

        Takes the addresses and sizes of its buffers, which the caller keeps. Gives the numbers of
        the odd rows.

        Raises:
            OverflowError: a column would exceed Arrow's 32-bit offsets.
            ValueError: the buffers are not those of a valid array.
        """
        if self.part_valid != cython.NULL or self.rows:
            raise TypeError("a scanner reads one array")
        if first < 0 or rows < 0 or width not in {4, 8}:
            raise ValueError("this is no valid array")
        if rows and (
            (first + rows + 1) * width > offsets_size or (valid and first + rows > valid_size * 8)
        ):
            raise ValueError("the array is shorter than it says")
        self.rows = rows
        self.allocate()
        data_at = cython.cast("const unsigned char*", cython.cast(uintptr_t, data))
        offsets_at = cython.cast("const unsigned char*", cython.cast(uintptr_t, offsets))
        valid_at = cython.cast("const unsigned char*", cython.cast(uintptr_t, valid))
        with cython.nogil:
            status = self.loop(data_at, data_size, offsets_at, width, valid_at, first)
        if status == 1:
            raise OverflowError("a column is full")
        if status == 2:
            raise ValueError("the offsets of the array point outside of its octets")
        odd = []
        for i in range(self.odd.size // 8):
            memcpy(cython.address(number), self.odd.data + 8 * i, 8)
            odd.append(number)
        return odd

    def column(self, i: int) -> Any:
        """Give the buffers of a column and the number of its nulls; once."""
        if not 0 <= i < self.column_count:
            raise IndexError(i)
        column = cython.address(self.columns[i])
        n = self.rows
        if column.kind == 4 and column.offsets != cython.NULL:
            fill_offsets(column, n + 1)
        bits = (n + 7) // 8
        made: list[Any] = [owned(column.valid, bits, bits)]
        column.valid = cython.NULL
        if column.kind == 4:
            made.append(owned(column.offsets, 4 * (n + 1), 4 * (n + 1)))
            column.offsets = cython.NULL
            made.append(owned(column.run.data, column.run.size, column.run.room))
            column.run.data = cython.NULL
        else:
            size = _WIDTHS[column.kind] * n if column.kind else bits
            made.append(owned(column.values, size, size))
            column.values = cython.NULL
        return made, n - column.present

    def map_column(self, i: int) -> Any:
        """Give the buffers of a map: its own, its keys', its values'; once."""
        if not 0 <= i < 4 or not self.maps[i].wanted:
            raise IndexError(i)
        map = cython.address(self.maps[i])
        bits = (self.rows + 7) // 8
        ends = 4 * (self.rows + 1)
        own = [owned(map.valid, bits, bits), owned(map.offsets, ends, ends)]
        map.valid = cython.NULL
        map.offsets = cython.NULL
        count = map.values.count
        keys = [
            owned(map.key_offsets, 4 * (count + 1) if count else 0, 4 * map.key_room),
            owned(map.keys.data, map.keys.size, map.keys.room),
        ]
        map.key_offsets = cython.NULL
        map.keys.data = cython.NULL
        return own, self.rows - map.present, count, keys, given(cython.address(map.values))

    def pick_column(self, i: int) -> Any:
        """Give the buffers of an entry that was asked for alone; once."""
        if not 0 <= i < self.pick_count:
            raise IndexError(i)
        return self.picks[i].values.count, given(cython.address(self.picks[i].values))

    def part_column(self) -> Any:
        """Give the buffers of section_offsets; once."""
        bits = (self.rows + 7) // 8
        ends = 4 * (self.rows + 1)
        own = [owned(self.part_valid, bits, bits), owned(self.part_offsets, ends, ends)]
        self.part_valid = cython.NULL
        self.part_offsets = cython.NULL
        count = self.parts_written
        made = [
            owned(self.part_codes, 2 * count, 2 * self.part_room),
            owned(self.part_starts, 8 * count, 8 * self.part_room),
            owned(self.part_contents, 8 * count, 8 * self.part_room),
            owned(self.part_ends, 8 * count, 8 * self.part_room),
        ]
        self.part_codes = cython.NULL
        self.part_starts = cython.NULL
        self.part_contents = cython.NULL
        self.part_ends = cython.NULL
        self.part_room = 0
        return own, self.rows - self.parts_present, count, made


# Values.


def put_character(run: Any, point: int) -> bool:
    """Write a code point that is no surrogate as UTF-8."""
    if not make_room(run, 4):
        return False
    out = run.data + run.size
    if point < 0x80:
        out[0] = cython.cast(cython.uchar, point)
        run.size += 1
    elif point < 0x800:
        out[0] = cython.cast(cython.uchar, 0xC0 | point >> 6)
        out[1] = cython.cast(cython.uchar, 0x80 | point & 63)
        run.size += 2
    elif point < 0x10000:
        out[0] = cython.cast(cython.uchar, 0xE0 | point >> 12)
        out[1] = cython.cast(cython.uchar, 0x80 | point >> 6 & 63)
        out[2] = cython.cast(cython.uchar, 0x80 | point & 63)
        run.size += 3
    else:
        out[0] = cython.cast(cython.uchar, 0xF0 | point >> 18)
        out[1] = cython.cast(cython.uchar, 0x80 | point >> 12 & 63)
        out[2] = cython.cast(cython.uchar, 0x80 | point >> 6 & 63)
        out[3] = cython.cast(cython.uchar, 0x80 | point & 63)
        run.size += 4
    return True


def room_for(values: Any, count: int) -> bool:
    """Make room for more values and their types; what they hold makes its own."""
    if values.count + count > values.room and not grow_values(values, values.count + count):
        return False
    return values.types.size + 16 * count + 16 <= values.types.room or make_room(
        cython.address(values.types), 16 * count
    )


def put_null(values: Any) -> bool:
    if values.count >= values.room and not grow_values(values, 0):
        return False
    clear_numbers(values)
    close_value(values)
    return True


def clear_numbers(values: Any) -> None:
    """Let the numbers that are null be zeros, not what the memory held before."""
    i = values.count
    values.l[i] = 0
    values.d[i] = 0
    values.u[2 * i] = 0
    values.u[2 * i + 1] = 0


def close_value(values: Any) -> None:
    """Note where a value ends."""
    values.count += 1
    values.type_offsets[values.count] = cython.cast(int32_t, values.types.size)
    values.s_offsets[values.count] = cython.cast(int32_t, values.s.size)
    values.b_offsets[values.count] = cython.cast(int32_t, values.b.size)


def grow_values(values: Any, least: int) -> bool:
    """Make room for so many values, or twice as many as now; the new bits are zeros."""
    room = values.room * 2 + 64
    if room < least:
        room = (least + 63) // 64 * 64
    if room > _LARGEST:
        return False
    # Each is set as soon as it is moved, so that all of it can be freed where the next fails.
    old = values.room // 8
    bits = room // 8
    made = regrown(values.valid, old, bits)
    if made == cython.NULL:
        return False
    values.valid = cython.cast("unsigned char*", made)
    made = regrown(values.s_valid, old, bits)
    if made == cython.NULL:
        return False
    values.s_valid = cython.cast("unsigned char*", made)
    made = regrown(values.l_valid, old, bits)
    if made == cython.NULL:
        return False
    values.l_valid = cython.cast("unsigned char*", made)
    made = regrown(values.d_valid, old, bits)
    if made == cython.NULL:
        return False
    values.d_valid = cython.cast("unsigned char*", made)
    made = regrown(values.b_valid, old, bits)
    if made == cython.NULL:
        return False
    values.b_valid = cython.cast("unsigned char*", made)
    made = regrown(values.u_valid, old, bits)
    if made == cython.NULL:
        return False
    values.u_valid = cython.cast("unsigned char*", made)
    made = resized(values.l, 8 * values.room, 8 * room)
    if made == cython.NULL:
        return False
    values.l = cython.cast("int64_t*", made)
    made = resized(values.d, 8 * values.room, 8 * room)
    if made == cython.NULL:
        return False
    values.d = cython.cast("uint64_t*", made)
    made = resized(values.u, 16 * values.room, 16 * room)
    if made == cython.NULL:
        return False
    values.u = cython.cast("uint64_t*", made)
    old = 4 * (values.room + 1) if values.room else 0
    made = resized(values.type_offsets, old, 4 * (room + 1))
    if made == cython.NULL:
        return False
    values.type_offsets = cython.cast("int32_t*", made)
    made = resized(values.s_offsets, old, 4 * (room + 1))
    if made == cython.NULL:
        return False
    values.s_offsets = cython.cast("int32_t*", made)
    made = resized(values.b_offsets, old, 4 * (room + 1))
    if made == cython.NULL:
        return False
    values.b_offsets = cython.cast("int32_t*", made)
    if values.room == 0:
        values.type_offsets[0] = 0
        values.s_offsets[0] = 0
        values.b_offsets[0] = 0
    values.room = room
    return True


def free_values(values: Any) -> None:
    free(values.valid)
    free(values.type_offsets)
    free(values.types.data)
    free(values.s_valid)
    free(values.s_offsets)
    free(values.s.data)
    free(values.l_valid)
    free(values.l)
    free(values.d_valid)
    free(values.d)
    free(values.b_valid)
    free(values.b_offsets)
    free(values.b.data)
    free(values.u_valid)
    free(values.u)


def given(values: Any) -> Any:
    """Give the buffers of the structs of values: validity, then those of each member."""
    n = values.count
    bits = (n + 7) // 8
    ends = 4 * (n + 1) if n else 0
    # What is there; `room` counts values.
    bit_room = values.room // 8
    end_room = 4 * values.room
    made = {
        "valid": owned(values.valid, bits, bit_room),
        "type": [
            None,
            owned(values.type_offsets, ends, end_room),
            owned(values.types.data, values.types.size, values.types.room),
        ],
        "s": [
            owned(values.s_valid, bits, bit_room),
            owned(values.s_offsets, ends, end_room),
            owned(values.s.data, values.s.size, values.s.room),
        ],
        "l": [owned(values.l_valid, bits, bit_room), owned(values.l, 8 * n, 8 * values.room)],
        "d": [owned(values.d_valid, bits, bit_room), owned(values.d, 8 * n, 8 * values.room)],
        "b": [
            owned(values.b_valid, bits, bit_room),
            owned(values.b_offsets, ends, end_room),
            owned(values.b.data, values.b.size, values.b.room),
        ],
        "u": [owned(values.u_valid, bits, bit_room), owned(values.u, 16 * n, 16 * values.room)],
    }
    memset(values, 0, cython.sizeof(Values))
    return made


# How many octets follow a code of fixed width; 255 for what is no code, or is described.
for _code in range(256):
    _SKIPPED[_code] = 255
for _row in FORMAT_CODES.values():
    _SKIPPED[_row.code] = _row.width
# The high bits of the first octets of eight, as they lie in memory.
for _n in range(8):
    _FIRST_HIGH[_n] = int.from_bytes(bytes([0x80] * _n + [0] * (8 - _n)), sys.byteorder)
