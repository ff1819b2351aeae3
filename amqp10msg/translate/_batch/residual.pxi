# Writing and reading residuals (see `translate.residual`).

from binascii import Error as Base64Error, a2b_base64, b2a_base64, crc32


cdef int cbor_head(Out* o, int kind, uint64_t value) except -1:
    """Write the head of a CBOR item: the major type (0 to 7) and its argument, below 2^32."""
    kind <<= 5
    if value < 24:
        return put_byte(o, kind | <int> value)
    if value < 256:
        put_byte(o, kind | 24)
        return put_number(o, value, 1)
    if value < 65536:
        put_byte(o, kind | 25)
        return put_number(o, value, 2)
    put_byte(o, kind | 26)
    return put_number(o, value, 4)


cdef inline int cbor_bytes(Out* o, cursor p, Py_ssize_t n) except -1:
    cbor_head(o, 2, <uint64_t> n)
    return put(o, p, n)


cdef int put_key(Out* o, int* count, int key) except -1:
    """Write the key of a residual's next entry, and count the entry."""
    count[0] += 1
    return cbor_head(o, 0, <uint64_t> key)


cdef int put_residual_envelope(Out* o, int count, Out* content) except -1:
    """Write a residual: version, map of `count` encoded entries, and checksum."""
    o.size = 0
    put_byte(o, 0x83)
    put_byte(o, 1)
    cbor_head(o, 5, <uint64_t> count)
    put_out(o, content)
    return cbor_head(o, 0, crc32(bytes_at(o.at + 2, o.size - 2)))


cdef int put_base64(Out* o, cursor p, Py_ssize_t n) except -1:
    cdef bytes made = b2a_base64(bytes_at(p, n), newline=False)
    return put_bytes(o, made)


cdef int read_base64(Out* o, cursor p, Py_ssize_t n) except -1:
    """Decode base64 in the form that `put_base64` writes. Return ODD for any other form."""
    cdef bytes made
    if n & 3:
        return ODD
    try:
        made = a2b_base64(bytes_at(p, n), strict_mode=True)
    except Base64Error:
        return ODD
    # Unused bits of the last digit must be zero.
    if n and p[n - 1] == c"=" and strchr(
        b"AQgw" if p[n - 2] == c"=" else b"AEIMQUYcgkosw048", p[n - 2 - (p[n - 2] == c"=")]
    ) == NULL:
        return ODD
    put_bytes(o, made)
    return GOOD


cdef int cbor_read(cursor* place, cursor stop, int kind, uint64_t* value) noexcept nogil:
    """Read the head of a CBOR item of this major type; for a string, also skip its bytes.

    Return ODD for another major type, a head that is not the shortest, or a truncated item.
    """
    cdef cursor p = place[0]
    cdef int low, width
    if p >= stop or p[0] >> 5 != kind:
        return ODD
    low = p[0] & 31
    p += 1
    value[0] = <uint64_t> low
    if low > 26:
        return ODD
    if low > 23:
        width = 1 << (low - 24)
        if stop - p < width:
            return ODD
        value[0] = unsigned_at(p, width)
        p += width
        if value[0] < (24 if low == 24 else <uint64_t> 1 << (8 << (low - 25))):
            return ODD  # the head is not the shortest
    if value[0] > <uint64_t> (stop - p) and kind > 0:
        return ODD
    place[0] = p + (<Py_ssize_t> value[0] if kind == 2 or kind == 3 else 0)
    return GOOD
