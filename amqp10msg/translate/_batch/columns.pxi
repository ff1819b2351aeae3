# Arrow columns: input columns, which are read in place, and output columns with growing buffers.

# An output column of strings or binaries: the joined cells, an int32 offset for the start of the
# first cell and for the end of each cell, and optionally a byte 0 (null) or 1 for each cell.
cdef struct Texts:
    Out data, ends, there


cdef int grow(Out* o, Py_ssize_t n) except -1:
    """Enlarge a buffer, so that at least n more bytes fit into it."""
    cdef Py_ssize_t room
    cdef void* moved
    if n > PY_SSIZE_T_MAX // 4 - o.size:
        raise MemoryError
    room = 2 * (o.size + n) + 256
    moved = PyMem_Realloc(o.at, <size_t> room)
    if moved == NULL:
        raise MemoryError
    o.at = <uint8_t*> moved
    o.room = room
    return 0


cdef inline int reserve(Out* o, Py_ssize_t n) except -1:
    """Ensure that n more bytes fit into a buffer."""
    if n > o.room - o.size:
        grow(o, n)
    return 0


cdef inline int put(Out* o, const void* p, Py_ssize_t n) except -1:
    """Append n bytes to a buffer."""
    reserve(o, n)
    if n:
        memcpy(o.at + o.size, p, <size_t> n)
        o.size += n
    return 0


cdef inline int put_bytes(Out* o, bytes octets) except -1:
    return put(o, PyBytes_AS_STRING(octets), PyBytes_GET_SIZE(octets))


cdef inline bytes bytes_at(cursor p, Py_ssize_t n):
    """Return a copy of n bytes."""
    return PyBytes_FromStringAndSize(<const char*> p, n)


cdef inline Span span_of(bytes octets) noexcept:
    """Return the span of a bytes object's data; the caller must keep the object alive."""
    cdef Span made
    made.at, made.n = <cursor> PyBytes_AS_STRING(octets), PyBytes_GET_SIZE(octets)
    return made


cdef inline bint equals_bytes(cursor p, Py_ssize_t n, bytes other) noexcept:
    return is_same(p, n, <cursor> PyBytes_AS_STRING(other), PyBytes_GET_SIZE(other))


cdef inline int put_buffer(Out* o, Out* other) except -1:
    return put(o, other.at, other.size)


cdef inline int put_cstring(Out* o, const char* text) except -1:
    return put(o, text, <Py_ssize_t> strlen(text))


cdef inline int put_byte(Out* o, int value) except -1:
    reserve(o, 1)
    write_byte(o, value)
    return 0


cdef inline int put_number(Out* o, uint64_t value, int width) except -1:
    """Write an unsigned number, big-endian."""
    reserve(o, width)
    write_number(o, value, width)
    return 0


cdef int put_digits(Out* o, uint64_t value) except -1:
    cdef uint8_t[20] made
    cdef int i = write_digits(made, value)
    return put(o, &made[i], 20 - i)


cdef int put_signed_digits(Out* o, int64_t value) except -1:
    if value >= 0:
        return put_digits(o, <uint64_t> value)
    put_byte(o, MINUS)
    return put_digits(o, <uint64_t> 0 - <uint64_t> value)


cdef int put_hex(Out* o, int value) except -1:
    """Write a byte as two hexadecimal digits."""
    cdef uint8_t one = <uint8_t> value
    reserve(o, 2)
    write_hex(o.at + o.size, &one, 1)
    o.size += 2
    return 0


cdef int put_uuid(Out* o, cursor p) except -1:
    """Write the 36 characters of a UUID."""
    reserve(o, 36)
    write_uuid(o.at + o.size, p)
    o.size += 36
    return 0


cdef void free_out(Out* o) noexcept:
    PyMem_Free(o.at)
    o.at = NULL
    o.size = o.room = 0


cdef inline bytes copy_bytes(Out* o):
    """Return a copy of what was written to a buffer."""
    return PyBytes_FromStringAndSize(<char*> o.at, o.size)


@cython.final
cdef class Symbols:
    """Whether a 1.0 field can hold a content-type or content-encoding exactly; the body is data.

    Remembers the last text of both fields, because most messages of a source have the same.

    Args:
        can_hold: returns the answer. Its arguments are 0 for a content-type or 1 for a
            content-encoding, and the text as bytes.
    """

    cdef object can_hold
    cdef bytes content_type, content_encoding
    cdef bint[2] answers

    def __cinit__(self, can_hold):
        self.can_hold = can_hold

    cdef bint holds(self, int index, cursor p, Py_ssize_t n) except -1:
        """Return the answer for the n bytes at p."""
        cdef bytes known = self.content_encoding if index else self.content_type
        if not 0 <= index <= 1:
            raise IndexError(f"the index must be 0 or 1, not {index}")
        if known is not None and equals_bytes(p, n, known):
            return self.answers[index]
        known = bytes_at(p, n)
        self.answers[index] = self.can_hold(index, known)
        if index:
            self.content_encoding = known
        else:
            self.content_type = known
        return self.answers[index]


# Output columns.


cdef int reset_texts(Texts* column) except -1:
    """Remove all cells of an output column."""
    cdef int32_t none = 0
    column.data.size = column.ends.size = column.there.size = 0
    return put(&column.ends, &none, 4)


cdef void free_texts(Texts* column) noexcept:
    free_out(&column.data)
    free_out(&column.ends)
    free_out(&column.there)


cdef inline int end_cell(Texts* column) except -1:
    """End the current cell of an output column after the last byte that was written."""
    cdef int32_t end
    if column.data.size > LARGEST:
        raise OverflowError("a column would exceed 2 GiB")
    end = <int32_t> column.data.size
    return put(&column.ends, &end, 4)


cdef inline int put_cell(Texts* column, const void* p, Py_ssize_t n) except -1:
    """Append a cell to an output column."""
    put(&column.data, p, n)
    return end_cell(column)


cdef inline void truncate_texts(Texts* column, Py_ssize_t cells, Py_ssize_t size) noexcept:
    """Truncate an output column to `cells` cells with `size` bytes."""
    column.ends.size = 4 * (cells + 1)
    column.data.size = size
    if column.there.size > cells:
        column.there.size = cells


cdef bytes bitmap_of(Out* o):
    """Convert a buffer of bytes 0 and 1 to an Arrow bitmap."""
    cdef Py_ssize_t i
    cdef Py_ssize_t size = (o.size + 7) // 8
    cdef bytes made = PyBytes_FromStringAndSize(NULL, size)
    cdef uint8_t* to = <uint8_t*> PyBytes_AS_STRING(made)
    if size:
        memset(to, 0, <size_t> size)
    for i in range(o.size):
        to[i >> 3] |= <uint8_t> (o.at[i] << (i & 7))
    return made


cdef tuple buffers_of(Texts* column):
    """Return a column's validity bitmap (None if no cell is null), offsets and data."""
    valid = bitmap_of(&column.there) if column.there.size else None
    return valid, copy_bytes(&column.ends), copy_bytes(&column.data)


# Input columns.


@cython.final
cdef class Column:
    """An input column of binaries or strings.

    Args:
        rows: the number of cells.
        buffers: the validity bitmap (None if no cell is null), the 32-bit offsets, the data (None
            if empty), and the index of the first cell; or None for a column of nulls.

    Raises:
        ValueError: the buffers are too small.
    """

    cdef const uint8_t[::1] valid
    cdef const int32_t[::1] offsets
    cdef const uint8_t[::1] data
    cdef Py_ssize_t first, size
    cdef bint is_there, are_all

    def __cinit__(self, Py_ssize_t rows, buffers):
        self.is_there = buffers is not None
        self.are_all = True
        if not self.is_there:
            return
        valid, offsets, data, first = buffers
        self.first = first
        self.are_all = valid is None
        self.size = 0
        if self.first < 0 or rows < 0:
            raise ValueError("the number of rows or the index of the first cell is negative")
        if valid is not None:
            self.valid = memoryview(valid).cast("B")
            if self.valid.shape[0] * 8 < self.first + rows:
                raise ValueError("the validity bitmap is too short for the column")
        if rows:
            octets = memoryview(offsets).cast("B")
            self.offsets = octets[: len(octets) // 4 * 4].cast("i")
            if self.offsets.shape[0] < self.first + rows + 1:
                raise ValueError("the column has fewer offsets than cells")
        if data is not None and len(memoryview(data)):
            self.data = memoryview(data).cast("B")
            self.size = self.data.shape[0]

    cdef bint cell(self, Py_ssize_t row, Span* found) except -1:
        """Set a span to the bytes of a cell. For a null cell, set it empty and return False."""
        cdef Py_ssize_t begin, end
        found.at = <cursor> b""
        found.n = 0
        if not self.is_there:
            return False
        row += self.first
        if not self.are_all and not self.valid[row >> 3] >> (row & 7) & 1:
            return False
        begin = self.offsets[row]
        end = self.offsets[row + 1]
        if not 0 <= begin <= end <= self.size:
            raise ValueError("the column has invalid offsets")
        found.n = end - begin
        if end > begin:
            found.at = &self.data[begin]
        return True


@cython.final
cdef class Bits:
    """An input column of booleans. Null cells are read as false.

    Args:
        rows: the number of cells.
        buffers: the validity bitmap (None if no cell is null), the bitmap of values, and the index
            of the first cell; or None for a column of nulls.

    Raises:
        ValueError: the buffers are too small.
    """

    cdef const uint8_t[::1] valid, bits
    cdef Py_ssize_t first
    cdef bint is_there, are_all

    def __cinit__(self, Py_ssize_t rows, buffers):
        self.is_there = buffers is not None and rows > 0
        self.are_all = True
        if not self.is_there:
            return
        valid, bits, first = buffers
        self.first = first
        self.are_all = valid is None
        self.bits = memoryview(bits).cast("B")
        if self.first < 0 or self.bits.shape[0] * 8 < self.first + rows:
            raise ValueError("the column has fewer bits than cells")
        if valid is not None:
            self.valid = memoryview(valid).cast("B")
            if self.valid.shape[0] * 8 < self.first + rows:
                raise ValueError("the validity bitmap is too short for the column")

    cdef bint bit(self, Py_ssize_t row) noexcept:
        """Return the boolean in a row."""
        row += self.first
        if not self.is_there or (not self.are_all and not self.valid[row >> 3] >> (row & 7) & 1):
            return False
        return self.bits[row >> 3] >> (row & 7) & 1
