# Read the sections of a message to the columns of one row.


cdef inline Column* column_at(Batch* b, int index) noexcept nogil:
    """Return the column with an index; NULL for -1."""
    return &b.columns[index] if index >= 0 else NULL


cdef bint mark_full(Batch* b) noexcept nogil:
    """Note that a column cannot grow any more; return False."""
    b.full = True
    return False


cdef bint grow_parts(Batch* b) noexcept nogil:
    """Allocate memory for more section offsets."""
    cdef Py_ssize_t room = max(2 * b.part_room, 256)
    cdef int i
    if room > LARGEST:
        return mark_full(b)
    for i in range(4):
        if not resize(&b.part_cells[i], PART_WIDTHS[i] * b.part_room, PART_WIDTHS[i] * room, False):
            return mark_full(b)
    b.part_room = room
    return True


cdef inline bint put_part(
    Batch* b, int section, Py_ssize_t start, Py_ssize_t content, Py_ssize_t end
) noexcept nogil:
    """Add the offsets of a section to those of the row."""
    cdef Py_ssize_t i = b.parts.size
    if i >= b.part_room and not grow_parts(b):
        return False
    (<int16_t*> b.part_cells[0])[i] = <int16_t> (FIRST_CODE + section)
    (<int64_t*> b.part_cells[1])[i] = start
    (<int64_t*> b.part_cells[2])[i] = content
    (<int64_t*> b.part_cells[3])[i] = end
    b.parts.size = i + 1
    prefetch_write(b.part_cells[1], 8 * i)
    prefetch_write(b.part_cells[2], 8 * i)
    prefetch_write(b.part_cells[3], 8 * i)
    return True


cdef int long_descriptor(cursor p, cursor end) noexcept nogil:
    """Return the section's index for an 8-byte ulong descriptor; -1 for other descriptors."""
    if p[1] != ULONG_CODE or end - p <= 10 or u64(p + 2) >= <uint64_t> FIRST_CODE + SECTIONS:
        return -1
    return <int> u64(p + 2) - FIRST_CODE


cdef bint read_message(Batch* b, Py_ssize_t row, cursor begin, cursor end) noexcept nogil:
    """Read a message to a row; False if the row is unsupported, or if a column is full."""
    cdef cursor p = begin, start, content
    cdef int section, last = -1, bodies = 0
    cdef bint with_parts = b.with_parts
    b.items = b.max_items
    b.zero_width = min(
        b.max_zero_width, <int64_t> FREE_ZERO_WIDTH + b.zero_width_per_byte * (end - begin)
    )
    if with_parts and not begin_list(b, &b.parts, row):
        return False
    while p < end:
        start = p
        if end - p < 4 or p[0] != 0:
            return False
        if p[1] == SMALL_ULONG:
            section = <int> p[2] - FIRST_CODE
            p += 3
        else:
            section = long_descriptor(p, end)
            p += 10
        if <uint32_t> section >= SECTIONS or not FOLLOWING[last + 1] >> section & 1:
            return False
        last = section
        content = p
        if b.section_shapes[section] == COMPOSITE:
            p = read_composite(b, section, row, p, end)
        elif b.section_shapes[section] == MAPPING:
            p = read_map_section(b, section, row, p, end)
        elif b.section_shapes[section] == BODY:
            bodies += 1
            p = read_body(b, section, bodies, row, p, end)
        else:
            p = skip_value(p, end)
        if p == NULL:
            return False
        if section == b.present and not put_number(b, &b.columns[b.has_properties], row, True):
            return False
        if with_parts and not put_part(b, section, start - begin, content - begin, p - begin):
            return False
    return True


cdef void undo_message(Batch* b, Py_ssize_t row) noexcept nogil:
    """Remove what has been written for `row`, because it is unsupported."""
    cdef Map* map
    cdef int i
    for i in range(b.column_count):
        undo_row(&b.columns[i], row)
    for i in range(MAX_MAPS):
        map = &b.map_sections[i]
        if map.rows.written > row:
            undo_row(&map.rows, row)
            undo_values(&map.values, map.rows.size)
            map.keys.size = (<int32_t*> map.keys.cells)[map.rows.size]
            if map.cached_first >= map.rows.size:
                map.cached_count = 0
    for i in range(b.pick_count):
        undo_values(&b.picks[i].values, row)
    undo_row(&b.parts, row)
