# Write encoded messages to the output buffer of the caller, who enlarges it if it is FULL.

# Bytes that are kept free after the output, so that a number, the long head of a compound, and the
# rest of a block that is copied can be written without a check.
cdef enum:
    SLACK = 64


cdef inline bint has_room(Out* o, Py_ssize_t n) noexcept nogil:
    """Return whether n bytes fit the output buffer."""
    return n + SLACK <= o.room - o.size


cdef int put_float(Out* o, double value) noexcept nogil:
    """Write a float; a NaN, and a number that is too large for a float, are UNSUPPORTED."""
    cdef float single = <float> value
    cdef uint32_t bits
    if value != value or (single - single != 0 and value - value == 0):
        return UNSUPPORTED
    memcpy(&bits, &single, 4)
    write_coded(o, FLOAT_CODE, bits, 4)
    return OK


cdef inline bint copy_text(
    uint8_t* to, cursor p, Py_ssize_t n, cursor end, int rule
) noexcept nogil:
    """Copy n bytes of a column that ends at `end`; False if they violate `rule`.

    Up to 16 bytes more are written.
    """
    if rule == ANY or end - p - n < 16:
        if n:
            memcpy(to, p, n)
        # Check the copy: unlike the original, bytes after it can be read.
        return rule == ANY or is_allowed(to, n, rule)
    if copied(to, p, n):
        return rule == UTF8 and is_utf8(p, n)
    return True


cdef inline int put_sized(
    Out* o, cursor p, Py_ssize_t n, cursor end, int code, int rule
) noexcept nogil:
    """Write a string, a symbol or a binary; `code` is the short format code of its type."""
    cdef Py_ssize_t begin = o.size
    if not has_room(o, n):
        return FULL
    write_sized_head(o, code, n)
    if not copy_text(o.at + o.size, p, n, end, rule):
        o.size = begin
        return UNSUPPORTED
    o.size += n
    return OK


cdef int put_hex(Out* o, cursor p, Py_ssize_t n) noexcept nogil:
    """Write the bytes of n hex digits. The caller has checked the room."""
    if not read_hex(o.at + o.size, p, n):
        return UNSUPPORTED
    o.size += n // 2
    return OK


cdef int put_binary_of_hex(Out* o, cursor p, Py_ssize_t n) noexcept nogil:
    """Write a binary from its hex digits."""
    if not has_room(o, n):
        return FULL
    write_sized_head(o, BINARY8, n // 2)
    return put_hex(o, p, n)


cdef int put_uuid(Out* o, cursor p, Py_ssize_t n) noexcept nogil:
    """Write a UUID from its 36 characters; other notations are UNSUPPORTED."""
    write_byte(o, UUID_CODE)
    if not read_uuid(o.at + o.size, p, n):
        return UNSUPPORTED
    o.size += 16
    return OK


# Write compounds. Bytes for a short head are reserved; `close_compound` enlarges them if necessary.


cdef inline Py_ssize_t open_compound(Out* o) noexcept nogil:
    """Reserve the bytes of a short head; return their offset. The caller has checked the room."""
    o.size += 3
    return o.size - 3


cdef int close_compound(Out* o, Py_ssize_t mark, int code, Py_ssize_t count) noexcept nogil:
    """Write the head of a list or a map at `mark`; `code` is the short format code."""
    cdef Py_ssize_t size = o.size - mark - 3
    if not fits_short_head(size, count):
        if not has_room(o, 6):
            return FULL
        memmove(o.at + mark + 9, o.at + mark + 3, size)
    o.size = mark
    write_head(o, code, size, count)
    o.size += size
    return OK
