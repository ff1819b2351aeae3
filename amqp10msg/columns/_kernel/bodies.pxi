# Bodies: data, and values as text. A cursor goes in and comes back as in sections.pxi.


cdef inline bint put_length(Batch* b, Py_ssize_t row, bint again, Py_ssize_t n) noexcept nogil:
    """Note the bytes of a data section; they make a cell where there is more than one."""
    cdef Column* column = &b.columns[b.body_lengths]
    cdef int64_t length = n
    if not again:
        b.first_length = length
        return True
    # The first cell of a row is begun with the second section, and gets longer.
    if column.written <= row and not put_text(b, column, row, <cursor> &b.first_length, 8, ANY):
        return False
    return put_bytes(b, column, <cursor> &length, 8)


cdef inline cursor read_data(
    Batch* b, Py_ssize_t row, bint again, cursor p, cursor end
) noexcept nogil:
    """Read a data section; the bytes of several are joined."""
    cdef int code = p[0]
    cdef Py_ssize_t n
    cdef uint8_t* out
    if code != BINARY8 and code != BINARY8 + LARGE:
        return NULL
    p = open_sized(p + 1, code, &n)
    if n > end - p:
        return NULL
    if b.body_text >= 0:
        # Bytes that are not text are null there. The plain implementation looks across sections.
        if again or (
            not put_text(b, &b.columns[b.body_text], row, p, n, UTF8) and b.full
        ):
            return NULL
    if b.body_lengths >= 0 and not put_length(b, row, again, n):
        return NULL
    if b.body < 0:
        return p + n
    if again:
        # The cell is begun; it gets longer.
        return p + n if put_bytes(b, &b.columns[b.body], p, n) else NULL
    out = begin_text(b, &b.columns[b.body], row, n)
    if out == NULL:
        return NULL
    memcpy(out, p, n)
    will_write_lines(out, n, n)
    return p + n


cdef inline bint put_body_kind(Batch* b, int section, Py_ssize_t row) noexcept nogil:
    cdef int kind = section - DATA
    cdef uint8_t* out = begin_text(b, &b.columns[b.body_kind], row, b.kind_sizes[kind])
    if out == NULL:
        return False
    memcpy(out, b.kind_names[kind], 16)
    return True


cdef cursor read_body(
    Batch* b, int section, int number, Py_ssize_t row, cursor p, cursor end
) noexcept nogil:
    """Read a body section, the first, second and so on of its message by `number`."""
    cdef Column* sections = column_at(b, b.body_sections)
    if number == 1 and b.body_kind >= 0 and not put_body_kind(b, section, row):
        return NULL
    if sections != NULL:
        # Written again for each.
        sections.written = min(sections.written, row)
        if not put_number(b, sections, row, number):
            return NULL
    if not b.needs[section]:
        return pass_over(p, end)
    if section == DATA:
        return read_data(b, row, number > 1, p, end)
    return read_value_body(b, section, number > 1, row, p, end)


cdef cursor read_body_text(Batch* b, Py_ssize_t row, cursor p, cursor end) noexcept nogil:
    """Read an amqp-value that is a string."""
    cdef int code = p[0]
    cdef Py_ssize_t n
    p = open_sized(p + 1, code, &n)
    if n > end - p or not put_text(b, &b.columns[b.body_text], row, p, n, UTF8):
        return NULL
    return p + n


cdef cursor read_value_body(
    Batch* b, int section, bint again, Py_ssize_t row, cursor p, cursor end
) noexcept nogil:
    """Read an amqp-value, or an amqp-sequence, into those columns that are asked for."""
    cdef int64_t items = b.items, zero_width = b.zero_width
    cdef cursor behind = NULL
    if b.body_text >= 0 and section == AMQP_VALUE and p[0] in (STRING8, STRING8 + LARGE):
        behind = read_body_text(b, row, p, end)
        if behind == NULL:
            return NULL
    if b.body_value >= 0:
        behind = NULL if again else read_body_variant(b, section, row, p, end)
        if behind == NULL:
            return NULL
    if b.body_json >= 0:
        # What is read twice counts once.
        b.items = items
        b.zero_width = zero_width
        return read_json(b, section, again, row, p, end)
    if behind == NULL:
        # Nobody asked for this value, but it has to be right.
        behind = write_typed(b, &b.scratch, p, end, b.max_depth)
        b.scratch.size = 0
    return behind
