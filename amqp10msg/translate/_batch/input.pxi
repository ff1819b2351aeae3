# Columns of input, as Arrow lays them out.


@cython.final
cdef class Column:
    """A column of binary or string that is read in place.

    Args:
        rows: how many cells.
        given: the bitmap of what is there, None for all; where cells begin and end, 32 bits each;
            the bytes, None for none; and the first cell. None for a column of nulls.

    Raises:
        ValueError: the buffers are too small.
    """

    cdef const uint8_t[::1] valid
    cdef const int32_t[::1] offsets
    cdef const uint8_t[::1] data
    cdef Py_ssize_t first, size
    cdef bint is_there, are_all

    def __cinit__(self, Py_ssize_t rows, given):
        self.is_there = given is not None
        self.are_all = True
        if not self.is_there:
            return
        valid, offsets, data, first = given
        self.first = first
        self.are_all = valid is None
        self.size = 0
        if self.first < 0 or rows < 0:
            raise ValueError("a column begins at its first cell or after it")
        if valid is not None:
            self.valid = memoryview(valid).cast("B")
            if self.valid.shape[0] * 8 < self.first + rows:
                raise ValueError("the bitmap is shorter than its column")
        if rows:
            octets = memoryview(offsets).cast("B")
            self.offsets = octets[: len(octets) // 4 * 4].cast("i")
            if self.offsets.shape[0] < self.first + rows + 1:
                raise ValueError("there are fewer offsets than cells")
        if data is not None and len(memoryview(data)):
            self.data = memoryview(data).cast("B")
            self.size = self.data.shape[0]

    cdef bint cell(self, Py_ssize_t row, Span* found) except -1:
        """Find the bytes of a cell; False where it is null, with none."""
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
            raise ValueError("the offsets of a column are not valid")
        found.n = end - begin
        if end > begin:
            found.at = &self.data[begin]
        return True


@cython.final
cdef class Bits:
    """A column of booleans that is read in place; a null is false.

    Args:
        rows: how many cells.
        given: the bitmap of what is there, None for all; the bits; and the first cell. None for a
            column of nulls.

    Raises:
        ValueError: the buffers are too small.
    """

    cdef const uint8_t[::1] valid, bits
    cdef Py_ssize_t first
    cdef bint is_there, are_all

    def __cinit__(self, Py_ssize_t rows, given):
        self.is_there = given is not None and rows > 0
        self.are_all = True
        if not self.is_there:
            return
        valid, bits, first = given
        self.first = first
        self.are_all = valid is None
        self.bits = memoryview(bits).cast("B")
        if self.first < 0 or self.bits.shape[0] * 8 < self.first + rows:
            raise ValueError("there are fewer bits than cells")
        if valid is not None:
            self.valid = memoryview(valid).cast("B")
            if self.valid.shape[0] * 8 < self.first + rows:
                raise ValueError("the bitmap is shorter than its column")

    cdef bint bit(self, Py_ssize_t row) noexcept:
        row += self.first
        if not self.is_there or (not self.are_all and not self.valid[row >> 3] >> (row & 7) & 1):
            return False
        return self.bits[row >> 3] >> (row & 7) & 1
