# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: annotation_typing=False
"""The kernel of `encode`: converts Arrow buffers to encoded messages, without Python objects.

The kernel only runs compiled, so it is written in Cython; `_encode` is the Python implementation,
row by row. The kernel is one module, so that the C compiler can inline functions across its parts,
which are included below.

If the kernel finds an error, or something that it does not handle (a rare type, text that may be
written in several ways, very many entries), the row is *unsupported*: what has been written for it
is removed, and `_encode` encodes the row. So only `_encode` determines the reasons of errors.

Columns are read in place: every offset is compared with the size of the buffer before it is used.
The kernel allocates no memory: the caller passes an output buffer, and a larger one if it is FULL.
"""

from cpython.mem cimport PyMem_Calloc, PyMem_Free
from libc.stdint cimport uintptr_t

include "../../wire/kernel/leaves.pxi"
include "output.pxi"
include "cells.pxi"
include "shared.pxi"
include "typed.pxi"
include "rows.pxi"

# A result like OK, UNSUPPORTED and FULL: the offsets of a column point outside of its bytes.
cdef enum:
    INVALID = -2


cdef class Rows:
    """Base class: writes a message for each row of some columns."""

    cdef Py_ssize_t rows

    cdef int put(self, Out* o, Py_ssize_t row) noexcept nogil:
        """Write the message of a row. If the result is not OK, `write` removes the output."""
        return UNSUPPORTED

    def write(self, first: int, size: int, to: int, room: int, ends: int, unsupported: int):
        """Append messages to an output buffer until it is full.

        Args:
            first: the index of the first row to write.
            size: the number of bytes in the buffer that earlier rows have used.
            to: the address of the buffer.
            room: the size of the buffer in bytes.
            ends: the address of an int32 array, which gets the end offset of each row.
            unsupported: the address of a byte array, which gets 1 for each unsupported row. The
                messages of these rows are empty.

        Returns:
            The number of rows that have been written, and of bytes that they use, including the
            earlier rows.

        Raises:
            ValueError: the offsets of a column point outside of its bytes.
        """
        cdef Out o
        cdef Py_ssize_t row = first, begin
        cdef int done = OK
        cdef int32_t* ends_at = <int32_t*> <uintptr_t> ends
        cdef uint8_t* unsupported_at = <uint8_t*> <uintptr_t> unsupported
        if not 0 <= first <= self.rows or not 0 <= size <= room:
            raise ValueError(f"row {first} or size {size} is out of range")
        o.at = <uint8_t*> <uintptr_t> to
        o.size = size
        o.room = min(<Py_ssize_t> room, LARGEST)
        with nogil:
            while row < self.rows:
                begin = o.size
                done = self.put(&o, row)
                if done <= UNSUPPORTED:
                    o.size = begin
                if done < UNSUPPORTED:
                    break
                unsupported_at[row] = done == UNSUPPORTED
                ends_at[row] = <int32_t> o.size
                row += 1
        if done == INVALID:
            raise ValueError("the offsets of a column point outside of its bytes")
        return row, o.size


include "template.pxi"


cdef class Writer(Rows):
    """Writes the rows of one batch.

    Args:
        rows: the number of rows.
        header, properties: the descriptor of the section, and its fields that have a column: the
            kind of the field (such as UINT_FIELD), its index in the section, its default or None,
            its column and its second column.
        maps: for each map section in wire order: its descriptor, whether its keys are strings, the
            column of its lists of entries, the columns of the entries (the structs, the keys, and
            the members key_type, type, s, l, d, b and u of the structs), and the number of entries.
        has_properties: the column has_properties.
        lengths: the column body_lengths, the column of the items of its lists, and the number of
            these items.
        body: the descriptor of the first body kind, the names of the kinds, and the columns
            body_kind, body and body_json.

    A column is an argument of `fill_cells`; the caller must keep its buffers alive.

    Raises:
        ValueError: a buffer is too small for its rows.
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
            raise ValueError(f"this kernel expects {MAX_MAPS} map sections, not {len(maps)}")
        for i, (code, of_strings, lists, entries, count) in enumerate(maps):
            map = &t.maps[i]
            map.code = code
            map.of_strings = of_strings
            fill_cells(&map.rows, lists, rows)
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
                raise ValueError("a map section with entries has no column of keys")
        fill_cells(&t.has_properties, has_properties, rows)
        lists, entries, count = lengths
        fill_cells(&t.lengths, lists, rows)
        t.lengths.data_size = count
        fill_cells(&t.length_items, entries, count)
        t.body_code, names, kind, octets, json = body
        if len(names) != BODIES or any([len(name) > 16 for name in names]):
            raise ValueError(f"this kernel expects {BODIES} names of body kinds, not {names!r}")
        for i, name in enumerate(names):
            t.kind_sizes[i] = len(name)
            for j, octet in enumerate(name):
                t.kind_names[i][j] = octet
        fill_cells(&t.body_kind, kind, rows)
        fill_cells(&t.body, octets, rows)
        fill_cells(&t.body_json, json, rows)

    cdef int fill_fields(self, Field* fields, declarations) except -1:
        """Set the fields of the header or the properties, and return their number."""
        cdef int i
        if len(declarations) > MAX_FIELDS:
            raise ValueError("a section has too many fields for this kernel")
        for i, (kind, place, default, cells, second) in enumerate(declarations):
            fields[i].kind = kind
            fields[i].place = place
            fields[i].default_value = -1 if default is None else default
            fill_cells(&fields[i].cells, cells, self.rows)
            fill_cells(&fields[i].second, second, self.rows)
        return <int> len(declarations)

    cdef int put(self, Out* o, Py_ssize_t row) noexcept nogil:
        cdef int done = put_row(&self.table, o, row)
        return INVALID if self.table.is_invalid else done
