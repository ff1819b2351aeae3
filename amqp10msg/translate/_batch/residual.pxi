# Writing and reading residuals (see `translate.residual`).

from binascii import crc32


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
    put_buffer(o, content)
    return cbor_head(o, 0, crc32(bytes_at(o.at + 2, o.size - 2)))


# Base64 (RFC 4648, 4): for residuals of a hundred bytes, calls of `binascii` take most of the time.

cdef uint8_t* DIGITS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
cdef uint8_t[256] DIGIT_VALUES  # 64 for other characters
memset(DIGIT_VALUES, 64, 256)
for _digit in range(64):
    DIGIT_VALUES[DIGITS[<int> _digit]] = _digit


cdef int put_base64(Out* o, cursor p, Py_ssize_t n) except -1:
    """Write bytes in base64."""
    cdef uint8_t* to
    cdef uint32_t three
    cdef Py_ssize_t i
    reserve(o, (n + 2) // 3 * 4)
    to = o.at + o.size
    o.size += (n + 2) // 3 * 4
    while n > 0:
        three = <uint32_t> p[0] << 16
        if n > 1:
            three |= <uint32_t> p[1] << 8
        if n > 2:
            three |= p[2]
        for i in range(4):
            to[i] = DIGITS[three >> (18 - 6 * i) & 63] if i <= n else c"="
        p += 3
        to += 4
        n -= 3
    return 0


cdef int read_base64(Out* o, cursor p, Py_ssize_t n) except -1:
    """Decode base64 in the form that `put_base64` writes. Return UNSUPPORTED for any other form."""
    cdef uint32_t three
    cdef uint8_t values = 0
    cdef Py_ssize_t i, padding = 0
    if n & 3:
        return UNSUPPORTED
    if n:
        padding = 0 if p[n - 1] != c"=" else 1 if p[n - 2] != c"=" else 2
    reserve(o, n // 4 * 3)
    while n > 0:
        three = 0
        for i in range(4 if n > 4 else 4 - padding):
            values |= DIGIT_VALUES[p[i]]
            three |= <uint32_t> DIGIT_VALUES[p[i]] << (18 - 6 * i)
        write_number(o, three, 3)
        p += 4
        n -= 4
    o.size -= padding
    # Unused bits of the last digit must be zero.
    return UNSUPPORTED if values & 64 or (padding and three & ((1 << 8 * padding) - 1)) else OK


cdef int cbor_read(cursor* place, cursor stop, int kind, uint64_t* value) noexcept nogil:
    """Read the head of a CBOR item of this major type; for a string, also skip its bytes.

    Return UNSUPPORTED for another major type, a head that is not the shortest, or a truncated item.
    """
    cdef cursor p = place[0]
    cdef int low, width
    if p >= stop or p[0] >> 5 != kind:
        return UNSUPPORTED
    low = p[0] & 31
    p += 1
    value[0] = <uint64_t> low
    if low > 26:
        return UNSUPPORTED
    if low > 23:
        width = 1 << (low - 24)
        if stop - p < width:
            return UNSUPPORTED
        value[0] = unsigned_at(p, width)
        p += width
        if value[0] < (24 if low == 24 else <uint64_t> 1 << (8 << (low - 25))):
            return UNSUPPORTED  # a shorter head would suffice
    if value[0] > <uint64_t> (stop - p) and kind > 0:
        return UNSUPPORTED
    place[0] = p + (<Py_ssize_t> value[0] if kind == 2 or kind == 3 else 0)
    return OK
