# Arrow columns that are read in place.

# The bytes of one row of a text or binary column.
cdef struct Span:
    cursor at, end  # the first byte, and the end of the data of the whole column
    Py_ssize_t n  # number of bytes

# A column. `cells` is NULL if all rows are null. `valid` is NULL if no row is null. The cells of a
# text column and of a map are offsets. `first` is the index of row 0 in the buffers. The buffers
# are large enough for `rows`.
cdef struct Cells:
    cursor valid, cells, data
    Py_ssize_t data_size, first, rows


cdef inline bint has_value(Cells* c, Py_ssize_t row) noexcept nogil:
    """Return whether a row is not null."""
    row += c.first
    return c.cells != NULL and (c.valid == NULL or c.valid[row >> 3] >> (row & 7) & 1)


cdef inline bint bool_at(Cells* c, Py_ssize_t row) noexcept nogil:
    """Read a boolean cell."""
    row += c.first
    return c.cells[row >> 3] >> (row & 7) & 1


cdef inline int64_t int16_at(Cells* c, Py_ssize_t row) noexcept nogil:
    """Read an int16 cell."""
    cdef int16_t found
    memcpy(&found, c.cells + 2 * (c.first + row), 2)
    return found


cdef inline int32_t int32_at(Cells* c, Py_ssize_t row) noexcept nogil:
    """Read an int32 cell, or an offset."""
    cdef int32_t found
    memcpy(&found, c.cells + 4 * (c.first + row), 4)
    return found


cdef inline int64_t int64_at(Cells* c, Py_ssize_t row) noexcept nogil:
    """Read an int64 cell."""
    cdef int64_t found
    memcpy(&found, c.cells + 8 * (c.first + row), 8)
    return found


cdef inline bint ulong_at(Cells* c, Py_ssize_t row, uint64_t* found) noexcept nogil:
    """Read a decimal cell as a ulong; False if it is out of range."""
    cdef uint64_t[2] words
    memcpy(words, c.cells + 16 * (c.first + row), 16)
    found[0] = words[LOW_WORD]
    return words[1 - LOW_WORD] == 0


cdef inline bint span_at(Cells* c, Py_ssize_t row, Span* found) noexcept nogil:
    """Find the bytes of a row that is not null; False if the offsets are invalid."""
    cdef int32_t begin = int32_at(c, row), end = int32_at(c, row + 1)
    found.at = c.data + begin
    found.end = c.data + c.data_size
    found.n = end - begin
    return 0 <= begin <= end <= c.data_size


# Kinds of columns: bytes per cell. A BOOL cell is a bit. TEXT and LIST have 4-byte offsets, one
# more than cells.
cpdef enum:
    BOOL = 0
    INT16 = 2
    INT64 = 8
    WIDE = 16
    TEXT = 4
    LIST = 5


cdef int fill_cells(Cells* c, column, Py_ssize_t rows) except -1:
    """Set a `Cells` to the buffers of a column, which the caller must keep alive.

    Args:
        column: the kind of the column, the index of its first cell, and the address and size of
            each buffer: validity (0 without nulls), cells and bytes. None for a column of nulls.
        rows: the number of rows to read.

    Raises:
        ValueError: a buffer is too small for the rows.
    """
    memset(c, 0, sizeof(Cells))
    if column is None or rows == 0:
        return 0
    kind, first, valid, valid_size, cells, cells_size, data, data_size = column
    if kind == BOOL:
        needed = (first + rows + 7) // 8
    else:
        needed = (first + rows + 1) * 4 if kind in (TEXT, LIST) else (first + rows) * kind
    if first < 0 or rows < 0 or needed > cells_size or (valid and first + rows > valid_size * 8):
        raise ValueError("a buffer of the array is too small for its rows")
    c.first = first
    c.rows = rows
    c.valid = <cursor> <uintptr_t> valid
    c.cells = <cursor> <uintptr_t> cells
    c.data = <cursor> <uintptr_t> data
    c.data_size = data_size
    return 0
