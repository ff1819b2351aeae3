# The output of messages: room that the caller gives, and more of it where that was too little.

# The bytes that are left free after what is written last: for a number, the head of a compound in
# its long form, and what is copied in blocks.
cdef enum:
    SLACK = 64


cdef inline bint has_room(Out* o, Py_ssize_t n) noexcept nogil:
    return n + SLACK <= o.room - o.size


cdef int put_float(Out* o, double value) noexcept nogil:
    """Write a float; the plain implementation says what becomes of NaN and of what is too large."""
    cdef float single = <float> value
    cdef uint32_t bits
    if value != value or (single - single != 0 and value - value == 0):
        return ODD
    memcpy(&bits, &single, 4)
    write_coded(o, FLOAT_CODE, bits, 4)
    return GOOD


cdef inline bint copy_text(
    uint8_t* to, cursor p, Py_ssize_t n, cursor end, int rule
) noexcept nogil:
    """Copy n bytes of a column that ends at `end`; False if they break the rule.

    Up to 16 bytes more are written.
    """
    if rule == ANY or end - p - n < 16:
        if n:
            memcpy(to, p, n)
        # The copy has bytes after it.
        return rule == ANY or is_allowed(to, n, rule)
    if copied(to, p, n):
        return rule == UTF8 and is_utf8(p, n)
    return True


cdef inline int put_sized(
    Out* o, cursor p, Py_ssize_t n, cursor end, int code, int rule
) noexcept nogil:
    """Write a string, a symbol or a binary; `code` is that of its short form."""
    cdef Py_ssize_t begin = o.size
    if not has_room(o, n):
        return FULL
    write_sized_head(o, code, n)
    if not copy_text(o.at + o.size, p, n, end, rule):
        o.size = begin
        return ODD
    o.size += n
    return GOOD


cdef int put_hex(Out* o, cursor p, Py_ssize_t n) noexcept nogil:
    """Write the bytes of n hexadecimal digits, for which there is room."""
    if not read_hex(o.at + o.size, p, n):
        return ODD
    o.size += n // 2
    return GOOD


cdef int put_binary_of_hex(Out* o, cursor p, Py_ssize_t n) noexcept nogil:
    """Write a binary of its hexadecimal digits."""
    if not has_room(o, n):
        return FULL
    write_sized_head(o, BINARY8, n // 2)
    return put_hex(o, p, n)


cdef int put_uuid(Out* o, cursor p, Py_ssize_t n) noexcept nogil:
    """Write a UUID of its 36 characters; other ways to write it are odd."""
    write_byte(o, UUID_CODE)
    if not read_uuid(o.at + o.size, p, n):
        return ODD
    o.size += 16
    return GOOD


# Compounds. Their head is written in its short form, and replaced once their size is known.


cdef inline Py_ssize_t open_compound(Out* o) noexcept nogil:
    """Leave the bytes of a short head free, for which there is room: return where they are."""
    o.size += 3
    return o.size - 3


cdef int close_compound(Out* o, Py_ssize_t mark, int code, Py_ssize_t count) noexcept nogil:
    """Write the head of a list or a map; `code` is that of its short form."""
    cdef Py_ssize_t size = o.size - mark - 3
    if not fits_short_head(size, count):
        if not has_room(o, 6):
            return FULL
        memmove(o.at + mark + 9, o.at + mark + 3, size)
    o.size = mark
    write_head(o, code, size, count)
    o.size += size
    return GOOD
