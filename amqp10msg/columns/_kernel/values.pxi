# Read the values of map sections to structs; each AMQP type has its member.

# The members of the structs, in the order of `_schema.VALUE` without `key_type`.
cdef enum:
    TYPE
    S
    L
    D
    B
    U
    MEMBERS

# A column of structs. Every struct that is not null has a type. For picked entries, the bits of
# TYPE mark the structs that are not null; in maps, no struct is null.
cdef struct Values:
    Py_ssize_t count, room
    Column[MEMBERS] members


cdef void set_kinds(Values* values) noexcept nogil:
    """Set the kinds of all member columns."""
    cdef int i
    for i in range(MEMBERS):
        values.members[i].kind = TEXT
    values.members[L].kind = values.members[D].kind = INT64
    values.members[U].kind = DECIMAL


cdef void free_values(Values* values) noexcept nogil:
    """Free the memory of all members."""
    cdef int i
    for i in range(MEMBERS):
        free_column(&values.members[i])


cdef bint widen_member(Column* column, Py_ssize_t slots) noexcept nogil:
    """Grow a member to `slots` cells; new cells are null. False if out of memory."""
    cdef Py_ssize_t before = cells_size(column.kind, column.slots) if column.cells != NULL else 0
    if not resize(<void**> &column.bits, bits_size(column.slots), bits_size(slots), True):
        return False
    # Offsets need no zeros: they are written before they are read.
    if not resize(
        <void**> &column.cells, before, cells_size(column.kind, slots), column.kind != TEXT
    ):
        return False
    column.slots = slots
    return True


cdef void undo_members(Column* column, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
    """Make the last cells of a member, from `begin` to `end`, null again."""
    cdef Py_ssize_t width = WIDTHS[column.kind]
    if column.cells == NULL:
        return
    end = min(end, column.slots)
    clear_bits(column.bits, begin, end)
    if column.kind != TEXT:
        memset(column.cells + width * begin, 0, width * (end - begin))
    elif column.written > begin:
        column.size = (<int32_t*> column.cells)[begin]
        column.written = begin


cdef bint grow_values(Values* values, Py_ssize_t least) noexcept nogil:
    """Grow to `least` values, or twice the present capacity; False if out of memory."""
    cdef Py_ssize_t room = (max(2 * values.room, least, 64) + 63) // 64 * 64
    cdef int i
    if room > LARGEST:
        return False
    for i in range(MEMBERS):
        # Every value has a type. Other members are allocated for the first value that needs them.
        if i == TYPE or values.members[i].cells != NULL:
            if not widen_member(&values.members[i], room):
                return False
    if values.room == 0:
        (<int32_t*> values.members[TYPE].cells)[0] = 0
    values.room = room
    return True


cdef inline bint room_for(Values* values, Py_ssize_t count) noexcept nogil:
    """Reserve memory for `count` more values and their types; other members grow when needed."""
    if values.count + count > values.room and not grow_values(values, values.count + count):
        return False
    return has_room(&values.members[TYPE], 16 * count)


cdef bint put_null(Values* values) noexcept nogil:
    """Add a null struct."""
    if not room_for(values, 1):
        return False
    values.count += 1
    (<int32_t*> values.members[TYPE].cells)[values.count] = <int32_t> values.members[TYPE].size
    return True


cdef void undo_values(Values* values, Py_ssize_t count) noexcept nogil:
    """Remove the values after the first `count`; the last one may be incomplete."""
    cdef int i
    if values.room == 0:
        return
    values.members[TYPE].written = values.room + 1
    for i in range(MEMBERS):
        undo_members(&values.members[i], count, values.count + 1)
    values.count = count


cdef void reserve_values(
    Values* values, Py_ssize_t done, Py_ssize_t rows, Py_ssize_t max_bytes
) noexcept nogil:
    """Reserve memory for the values of all rows, as `reserve_column`."""
    cdef Py_ssize_t expected_count
    cdef int i
    if values.room == 0:
        return
    # An encoded entry has at least three bytes. A picked entry adds a null to each row without it.
    expected_count = min(
        <Py_ssize_t> (1.05 * <double> values.count / done * rows), max_bytes // 3 + rows
    )
    if expected_count > values.room:
        grow_values(values, expected_count)
    for i in range(MEMBERS):
        reserve_column(
            &values.members[i], done, rows, 9 * (max_bytes // 3) if i == TYPE else max_bytes
        )


cdef inline void prefetch_values(Values* values) noexcept nogil:
    """Prefetch the memory of the next values: types, strings and numbers are most frequent."""
    prefetch_write(values.members[TYPE].cells, 4 * values.count)
    prefetch_write(values.members[TYPE].data, values.members[TYPE].size)
    prefetch_write(values.members[S].cells, 4 * values.count)
    prefetch_write(values.members[S].data, values.members[S].size)
    prefetch_write(values.members[L].cells, 8 * values.count)
    prefetch_write(values.members[D].cells, 8 * values.count)


cdef inline void put_types(
    Values* values, const uint8_t* codes, Py_ssize_t first, Py_ssize_t count
) noexcept nogil:
    """Write the names of the types of values. The caller has reserved the memory."""
    cdef Column* column = &values.members[TYPE]
    cdef uint8_t* data = column.data
    cdef int32_t size = <int32_t> column.size
    cdef int32_t* ends = <int32_t*> column.cells + first + 1
    cdef Code* code
    cdef Py_ssize_t i
    for i in range(count):
        code = &CODES[codes[i]]
        # Copying a constant 16 bytes is faster than copying the length of the name.
        memcpy(data + size, code.name, 16)
        size += code.name_size
        ends[i] = size
    column.size = size


cdef inline bint put_word_member(
    Batch* b, Values* values, int member, uint64_t word
) noexcept nogil:
    """Write a number, or the bits of a double, as the member L, D or U of a value."""
    cdef Column* column = &values.members[member]
    if column.cells == NULL and not widen_member(column, values.room):
        return mark_full(b)
    set_bit(column.bits, values.count)
    if member == U:
        (<uint64_t*> column.cells)[2 * values.count + LOW_WORD] = word
    else:
        (<uint64_t*> column.cells)[values.count] = word
    return True


cdef bint prepare_member(Batch* b, Values* values, int member, Py_ssize_t n) noexcept nogil:
    """Reserve n bytes for a text member of a value."""
    cdef Column* column = &values.members[member]
    if (column.cells == NULL and not widen_member(column, values.room)) or not has_room(column, n):
        return mark_full(b)
    return True


cdef inline void end_member(Values* values, int member, Py_ssize_t n) noexcept nogil:
    """End a text member whose n bytes have been written to `data`."""
    cdef Column* column = &values.members[member]
    fill_offsets(column, values.count)
    column.size += n
    set_bit(column.bits, values.count)


cdef inline bint put_text_member(
    Batch* b, Values* values, int member, cursor p, Py_ssize_t n, int rule
) noexcept nogil:
    """Write n bytes as a text member of a value; False if they violate `rule`."""
    cdef Column* column = &values.members[member]
    cdef uint64_t high
    if n + 16 > column.room - column.size and not prepare_member(b, values, member, n):
        return False
    high = copied(column.data + column.size, p, n)
    if high and rule != ANY and (rule == ASCII or not is_utf8(p, n)):
        return False
    end_member(values, member, n)
    return True


cdef bint put_float(Batch* b, Values* values, cursor p) noexcept nogil:
    """Write a float as a double; the bytes of a NaN also as the member B."""
    cdef uint32_t single = u32(p)
    cdef float real
    cdef double wide
    cdef uint64_t bits
    if (single & 0x7F800000) == 0x7F800000 and single & 0x7FFFFF:
        # The conversion to double could change the bits of this NaN: keep them in the member B.
        return put_text_member(b, values, B, p, 4, ANY) and put_word_member(
            b, values, D, 0x7FF8000000000000
        )
    memcpy(&real, &single, 4)
    wide = real
    memcpy(&bits, &wide, 8)
    return put_word_member(b, values, D, bits)


cdef cursor read_other(Batch* b, Values* values, cursor p, cursor stop, int code) noexcept nogil:
    """Read a value whose format code has the category OTHER.

    The caller has checked the size of a value of fixed width. Rows with decimals and chars, which
    are rare, are unsupported.
    """
    if code == LIST0 or code >= LIST8:
        return read_nested(b, values, p, stop, code)
    if code == BOOLEAN_CODE:
        if p[0] > 1 or not put_word_member(b, values, L, p[0]):
            return NULL
    elif code == FLOAT_CODE:
        if not put_float(b, values, p):
            return NULL
    elif code == UUID_CODE:
        if not prepare_member(b, values, S, 36):
            return NULL
        write_uuid(values.members[S].data + values.members[S].size, p)
        end_member(values, S, 36)
    else:
        return NULL
    return p + CODES[code].width


cdef inline cursor read_value(
    Batch* b, Values* values, cursor p, cursor stop, int code
) noexcept nogil:
    """Read a value after its constructor and write its member; return its end, or NULL.

    The caller must call `room_for` before, and afterwards `put_types`, or `undo_values` after NULL.
    """
    cdef int category = CODES[code].category
    cdef Py_ssize_t n
    if category == SIZED:
        p = open_sized(p, code, &n)
        if n > stop - p or not put_text_member(
            b, values, S if CODES[code].rule != ANY else B, p, n, CODES[code].rule
        ):
            return NULL
        return p + n
    n = CODES[code].width
    if n > stop - p:
        return NULL
    if category == SIGNED:
        if not put_word_member(b, values, L, <uint64_t> signed_of(&CODES[code], u64(p))):
            return NULL
    elif category == REAL:
        if not put_word_member(b, values, D, u64(p)):
            return NULL
    elif category == UNSIGNED:
        if not put_word_member(b, values, U, ulong_of(&CODES[code], u64(p))):
            return NULL
    elif category == OTHER:
        return read_other(b, values, p, stop, code)
    return p + n
