# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: annotation_typing=False
"""The kernel of `encode`: from Arrow's buffers to the bytes of messages, without objects between.

Compiled only, and so in Cython's own language; `_encode` does the same row by row where it is not.
It is one module, so that the C compiler inlines across its parts, which are included below in their
order.

Whatever is not known to be right (an error, a rare type, text that may be written in several ways,
very many entries) makes the row an odd one: what it wrote is taken back, and `_encode` writes it.
So an error's reason is found in one place only.

Columns are read in place: every offset is compared with what is there before it is used. Nothing is
allocated: whoever calls gives room for the messages, and more of it where that was too little.
"""

from cpython.mem cimport PyMem_Calloc, PyMem_Free
from libc.stdint cimport uintptr_t

include "../../wire/kernel/leaves.pxi"
include "output.pxi"
include "cells.pxi"
include "depth.pxi"
include "typed.pxi"
include "fields.pxi"
include "rows.pxi"

# Beside what becomes of a row: the offsets of a column point outside of it.
cdef enum:
    INVALID = -2


cdef class Rows:
    """Writes a message for each of so many rows of columns."""

    cdef Py_ssize_t rows

    cdef int put(self, Out* o, Py_ssize_t row) noexcept nogil:
        """Write the message of a row. Unless it is one, `write` takes back what was written."""
        return ODD

    def write(self, first: int, size: int, to: int, room: int, ends: int, odd: int):
        """Write messages after those that are there, until there is no room.

        Args:
            first: the row to begin with.
            size: the bytes that the rows before it have taken.
            to: the address of the bytes.
            room: how many bytes there are.
            ends: the address of an int32 for each row: where its bytes end.
            odd: the address of a byte for each row: 1 for one that is odd, and empty here.

        Returns:
            How many rows are done, and the bytes that they have taken.

        Raises:
            ValueError: the offsets of a column point outside of it.
        """
        cdef Out o
        cdef Py_ssize_t row = first, begin
        cdef int done = GOOD
        cdef int32_t* ends_at = <int32_t*> <uintptr_t> ends
        cdef uint8_t* odd_at = <uint8_t*> <uintptr_t> odd
        if not 0 <= first <= self.rows or not 0 <= size <= room:
            raise ValueError("there is no such row, or no such room")
        o.at = <uint8_t*> <uintptr_t> to
        o.size = size
        o.room = min(<Py_ssize_t> room, LARGEST)
        with nogil:
            while row < self.rows:
                begin = o.size
                done = self.put(&o, row)
                if done <= ODD:
                    o.size = begin
                if done < ODD:
                    break
                odd_at[row] = done == ODD
                ends_at[row] = <int32_t> o.size
                row += 1
        if done == INVALID:
            raise ValueError("the offsets of a column point outside of its bytes")
        return row, o.size


include "template.pxi"


cdef class Writer(Rows):
    """Writes the rows of one batch.

    Args:
        rows: how many there are.
        header, properties: the code of the section, and its fields that have a column: how each is
            read, its place in the section, its default or None, its column and its second one.
        maps: for each map section in the order of the wire its code, whether its keys are strings,
            the columns of its rows and of the entries: the structs, the keys, and the members
            key_type, type, s, l, d, b and u of the structs; and the number of entries.
        has_properties: the column that says whether that section is there.
        lengths: the columns of the lists of lengths of data sections and of the lengths, and the
            number of these.
        body: the code of the first kind, the names of the kinds, and the columns body_kind, body
            and body_json.

    A column is what `fill_cells` takes; the caller keeps its buffers alive.

    Raises:
        ValueError: a buffer is shorter than its rows.
    """

    cdef Table table

    def __init__(self, rows, *, header, properties, maps, has_properties, lengths, body):
        cdef Table* t = &self.table
        cdef Map* map
        cdef int i, j
        self.rows = rows
        t.header_code, fields = header
        t.header_count = self.fill_fields(t.header, fields)
        t.properties_code, fields = properties
        t.properties_count = self.fill_fields(t.properties, fields)
        if len(maps) != MAX_MAPS:
            raise ValueError(f"this kernel knows {MAX_MAPS} map sections, not {len(maps)}")
        for i, (code, of_strings, given, entries, count) in enumerate(maps):
            map = &t.maps[i]
            map.code = code
            map.of_strings = of_strings
            fill_cells(&map.rows, given, rows)
            map.rows.data_size = count
            columns = iter(entries)
            fill_cells(&map.items, next(columns), count)
            fill_cells(&map.keys, next(columns), count)
            fill_cells(&map.key_types, next(columns), count)
            fill_cells(&map.types, next(columns), count)
            fill_cells(&map.s, next(columns), count)
            fill_cells(&map.l, next(columns), count)
            fill_cells(&map.d, next(columns), count)
            fill_cells(&map.b, next(columns), count)
            fill_cells(&map.u, next(columns), count)
            if count and map.keys.cells == NULL:
                raise ValueError("a map has no keys")
        fill_cells(&t.has_properties, has_properties, rows)
        given, entries, count = lengths
        fill_cells(&t.lengths, given, rows)
        t.lengths.data_size = count
        fill_cells(&t.length_items, entries, count)
        t.body_code, names, kind, octets, json = body
        if len(names) != BODIES or any([len(name) > 16 for name in names]):
            raise ValueError(f"this kernel knows {BODIES} kinds of body, not {names!r}")
        for i, name in enumerate(names):
            t.kind_sizes[i] = len(name)
            for j, one in enumerate(name):
                t.kind_names[i][j] = one
        fill_cells(&t.body_kind, kind, rows)
        fill_cells(&t.body, octets, rows)
        fill_cells(&t.body_json, json, rows)

    cdef int fill_fields(self, Field* fields, given) except -1:
        cdef int i
        if len(given) > MAX_FIELDS:
            raise ValueError("a section has too many fields for this kernel")
        for i, (way, place, default, cells, second) in enumerate(given):
            fields[i].way = way
            fields[i].place = place
            fields[i].default_value = -1 if default is None else default
            fill_cells(&fields[i].cells, cells, self.rows)
            fill_cells(&fields[i].second, second, self.rows)
        return <int> len(given)

    cdef int put(self, Out* o, Py_ssize_t row) noexcept nogil:
        cdef int done = put_row(&self.table, o, row)
        return INVALID if self.table.is_invalid else done
