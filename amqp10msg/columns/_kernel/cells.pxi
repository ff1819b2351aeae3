# Columns that are read in place, as Arrow lays them out.

# What one row of a column of bytes has.
cdef struct Span:
    cursor at, end  # where it begins, and where its column ends
    Py_ssize_t n

# A column: NULL in `cells` where no row has anything. `valid` is NULL where all rows are there. The
# cells of a column of bytes and of a map are offsets. `rows` have been compared with its buffers.
cdef struct Cells:
    cursor valid, cells, data
    Py_ssize_t data_size, first, rows


cdef inline bint is_there(Cells* c, Py_ssize_t row) noexcept nogil:
    row += c.first
    return c.cells != NULL and (c.valid == NULL or c.valid[row >> 3] >> (row & 7) & 1)


cdef inline bint bool_at(Cells* c, Py_ssize_t row) noexcept nogil:
    row += c.first
    return c.cells[row >> 3] >> (row & 7) & 1


cdef inline int64_t int16_at(Cells* c, Py_ssize_t row) noexcept nogil:
    cdef int16_t found
    memcpy(&found, c.cells + 2 * (c.first + row), 2)
    return found


cdef inline int32_t int32_at(Cells* c, Py_ssize_t row) noexcept nogil:
    cdef int32_t found
    memcpy(&found, c.cells + 4 * (c.first + row), 4)
    return found


cdef inline int64_t int64_at(Cells* c, Py_ssize_t row) noexcept nogil:
    cdef int64_t found
    memcpy(&found, c.cells + 8 * (c.first + row), 8)
    return found


cdef inline bint ulong_at(Cells* c, Py_ssize_t row, uint64_t* found) noexcept nogil:
    """Read a decimal as a ulong; False if it is none."""
    cdef uint64_t[2] words
    memcpy(words, c.cells + 16 * (c.first + row), 16)
    found[0] = words[LOW_WORD]
    return words[1 - LOW_WORD] == 0


cdef inline bint span_at(Cells* c, Py_ssize_t row, Span* found) noexcept nogil:
    """Find the bytes of a row that is there; False where the offsets are not valid."""
    cdef int32_t begin = int32_at(c, row), end = int32_at(c, row + 1)
    found.at = c.data + begin
    found.end = c.data + c.data_size
    found.n = end - begin
    return 0 <= begin <= end <= c.data_size


# How many bytes a cell has; a BOOL is a bit, TEXT and LIST have an offset more than cells.
cpdef enum:
    BOOL = 0
    INT16 = 2
    INT64 = 8
    WIDE = 16
    TEXT = 4
    LIST = 5


cdef int fill_cells(Cells* c, given, Py_ssize_t rows) except -1:
    """Take the addresses and sizes of a column's buffers, which somebody else keeps alive.

    Args:
        given: the kind of the column, its first cell and, for each buffer, address and size: what
            is there (0 for all), the cells, and the bytes. None for a column of nulls.
        rows: how many rows are read.

    Raises:
        ValueError: the buffers are shorter than their rows.
    """
    memset(c, 0, sizeof(Cells))
    if given is None or rows == 0:
        return 0
    kind, first, valid, valid_size, cells, cells_size, data, data_size = given
    if kind == BOOL:
        needed = (first + rows + 7) // 8
    else:
        needed = (first + rows + 1) * 4 if kind in (TEXT, LIST) else (first + rows) * kind
    if first < 0 or rows < 0 or needed > cells_size or (valid and first + rows > valid_size * 8):
        raise ValueError("the array is shorter than it says")
    c.first = first
    c.rows = rows
    c.valid = <cursor> <uintptr_t> valid
    c.cells = <cursor> <uintptr_t> cells
    c.data = <cursor> <uintptr_t> data
    c.data_size = data_size
    return 0
