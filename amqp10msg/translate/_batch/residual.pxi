# The residual: deterministic CBOR with a checksum; as the text of a header in base64.

cdef uint32_t[256] CHECKS
cdef const char* ALPHABET = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
cdef uint8_t[256] SIXES


def _fill():
    cdef uint32_t value
    cdef int i, bit
    for i in range(256):
        value = <uint32_t> i
        for bit in range(8):
            value = (value >> 1) ^ (<uint32_t> 0xEDB88320 if value & 1 else <uint32_t> 0)
        CHECKS[i] = value
        SIXES[i] = 255
    for i in range(64):
        SIXES[<uint8_t> ALPHABET[i]] = <uint8_t> i


_fill()


cdef uint32_t check_of(cursor p, Py_ssize_t n) noexcept nogil:
    """Return the CRC-32 (ISO-HDLC)."""
    cdef uint32_t value = 0xFFFFFFFF
    cdef Py_ssize_t i
    for i in range(n):
        value = (value >> 8) ^ CHECKS[(value ^ p[i]) & 255]
    return value ^ <uint32_t> 0xFFFFFFFF


cdef int cbor_head(Out* o, int kind, uint64_t value) except -1:
    kind <<= 5
    if value < 24:
        return octet(o, kind | <int> value)
    if value < 256:
        octet(o, kind | 24)
        return number(o, value, 1)
    if value < 65536:
        octet(o, kind | 25)
        return number(o, value, 2)
    octet(o, kind | 26)
    return number(o, value, 4)


cdef inline int cbor_bytes(Out* o, cursor p, Py_ssize_t n) except -1:
    cbor_head(o, 2, <uint64_t> n)
    return put(o, p, n)


cdef int put_packed(Out* o, Out* content) except -1:
    """Write a residual with this content."""
    octet(o, 0x83)
    octet(o, 1)
    put_out(o, content)
    return cbor_head(o, 0, check_of(content.at, content.size))


cdef int put_base64(Out* o, cursor p, Py_ssize_t n) except -1:
    cdef uint32_t group
    cdef uint8_t* to
    reserve(o, (n + 2) // 3 * 4)
    while n > 0:
        group = <uint32_t> p[0] << 16
        if n > 1:
            group |= <uint32_t> p[1] << 8
        if n > 2:
            group |= p[2]
        to = o.at + o.size
        to[0] = <uint8_t> ALPHABET[group >> 18]
        to[1] = <uint8_t> ALPHABET[group >> 12 & 63]
        to[2] = <uint8_t> ALPHABET[group >> 6 & 63] if n > 1 else 61
        to[3] = <uint8_t> ALPHABET[group & 63] if n > 2 else 61
        o.size += 4
        p += 3
        n -= 3
    return 0


cdef int take_base64(Out* o, cursor p, Py_ssize_t n) except -1:
    """Decode base64 of the one form that `put_base64` writes; odd where it is another."""
    cdef uint32_t group
    cdef int i, code, lacking
    if n == 0 or n % 4:
        return ODD
    reserve(o, n)
    while n > 0:
        group = 0
        lacking = 0
        for i in range(4):
            code = p[i]
            if code == 61 and n == 4 and i > 1 and (i == 3 or p[3] == 61):
                lacking += 1
                group <<= 6
                continue
            if SIXES[code] == 255:
                return ODD
            group = group << 6 | SIXES[code]
        if group & ((1 << 8 * lacking) - 1):
            return ODD
        for i in range(3 - lacking):
            o.at[o.size] = <uint8_t> (group >> (16 - 8 * i) & 255)
            o.size += 1
        p += 4
        n -= 4
    return GOOD


cdef int cbor_read(cursor* place, cursor stop, int kind, uint64_t* value) noexcept nogil:
    """Pass over the head of a value of this kind, and of a string over its bytes, too."""
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
    if value[0] > <uint64_t> (stop - p) and kind > 0:
        return ODD
    place[0] = p + (<Py_ssize_t> value[0] if kind == 2 or kind == 3 else 0)
    return GOOD
