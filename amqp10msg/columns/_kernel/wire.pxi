# Encoded values, written behind one another: each in the smallest encoding of its type.

# What became of a value, a section or a row.
cdef enum:
    FULL = -2   # there is no room for it
    ODD = -1    # it is left to the plain implementation
    ABSENT = 0
    WRITTEN = 1

# The bytes that are left free behind what is written last: for a number, the head of a compound in
# its long form, and what is copied in blocks.
cdef enum:
    SLACK = 64

cdef enum:
    NULL_CODE = 0x40
    TRUE_CODE = 0x41
    FALSE_CODE = 0x42
    UINT0 = 0x43
    ULONG0 = 0x44
    LIST0 = 0x45
    UBYTE_CODE = 0x50
    BYTE_CODE = 0x51
    SMALL_UINT = 0x52
    SMALL_ULONG = 0x53
    SMALL_INT = 0x54
    SMALL_LONG = 0x55
    USHORT_CODE = 0x60
    SHORT_CODE = 0x61
    UINT_CODE = 0x70
    INT_CODE = 0x71
    FLOAT_CODE = 0x72
    CHAR_CODE = 0x73
    DECIMAL32_CODE = 0x74
    ULONG_CODE = 0x80
    LONG_CODE = 0x81
    DOUBLE_CODE = 0x82
    TIMESTAMP_CODE = 0x83
    DECIMAL64_CODE = 0x84
    DECIMAL128_CODE = 0x94
    UUID_CODE = 0x98
    BINARY8 = 0xA0
    STRING8 = 0xA1
    SYMBOL8 = 0xA3
    LIST8 = 0xC0
    MAP8 = 0xC1
    # The constructors of 32-bit sizes are this much above those of 8-bit sizes.
    LARGE = 0x10

cdef struct Out:
    uint8_t* at
    Py_ssize_t size, room


cdef inline bint has_room(Out* o, Py_ssize_t n) noexcept nogil:
    return n + SLACK <= o.room - o.size


cdef inline void octet(Out* o, int number) noexcept nogil:
    """Write a byte, for which there is room."""
    o.at[o.size] = <uint8_t> number
    o.size += 1


cdef inline void number(Out* o, uint64_t value, int width) noexcept nogil:
    """Write a number in network order, for which there is room."""
    cdef int i
    for i in range(width):
        o.at[o.size + i] = <uint8_t> (value >> 8 * (width - 1 - i))
    o.size += width


cdef inline void coded(Out* o, int code, uint64_t value, int width) noexcept nogil:
    octet(o, code)
    number(o, value, width)


cdef inline void put_uint(Out* o, uint64_t value) noexcept nogil:
    if value == 0:
        octet(o, UINT0)
    elif value < 256:
        coded(o, SMALL_UINT, value, 1)
    else:
        coded(o, UINT_CODE, value, 4)


cdef inline void put_ulong(Out* o, uint64_t value) noexcept nogil:
    if value == 0:
        octet(o, ULONG0)
    elif value < 256:
        coded(o, SMALL_ULONG, value, 1)
    else:
        coded(o, ULONG_CODE, value, 8)


cdef inline void put_boolean(Out* o, bint value) noexcept nogil:
    octet(o, TRUE_CODE if value else FALSE_CODE)


cdef int put_float(Out* o, double value) noexcept nogil:
    """Write a float; the plain implementation says what becomes of NaN and of what is too large."""
    cdef float single = <float> value
    cdef uint32_t bits
    if value != value or (single - single != 0 and value - value == 0):
        return ODD
    memcpy(&bits, &single, 4)
    coded(o, FLOAT_CODE, bits, 4)
    return WRITTEN


cdef inline bint copy_text(
    uint8_t* to, cursor p, Py_ssize_t n, cursor end, int rule
) noexcept nogil:
    """Copy n bytes of a column that ends at `end`; False if they break the rule.

    Up to 16 bytes more are written.
    """
    if rule == ANY or end - p - n < 16:
        if n:
            memcpy(to, p, n)
        # The copy has bytes behind it.
        return rule == ANY or is_text(to, n, rule)
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
    if n < 256:
        octet(o, code)
        octet(o, <int> n)
    else:
        coded(o, code + LARGE, <uint64_t> n, 4)
    if not copy_text(o.at + o.size, p, n, end, rule):
        o.size = begin
        return ODD
    o.size += n
    return WRITTEN


cdef inline int hex_value(int digit) noexcept nogil:
    """Return what a hexadecimal digit stands for, or -1."""
    if 48 <= digit <= 57:
        return digit - 48
    digit |= 32
    return digit - 87 if 97 <= digit <= 102 else -1


cdef bint put_hex(Out* o, cursor p, Py_ssize_t n) noexcept nogil:
    """Write the bytes of n hexadecimal digits, for which there is room; False if they are none."""
    cdef Py_ssize_t i
    cdef int high, low
    if n & 1:
        return False
    for i in range(n // 2):
        high = hex_value(p[2 * i])
        low = hex_value(p[2 * i + 1])
        if high < 0 or low < 0:
            return False
        o.at[o.size + i] = <uint8_t> (high << 4 | low)
    o.size += n // 2
    return True


cdef int put_binary_of_hex(Out* o, cursor p, Py_ssize_t n) noexcept nogil:
    """Write a binary of its hexadecimal digits."""
    if not has_room(o, n):
        return FULL
    if n < 512:
        octet(o, BINARY8)
        octet(o, <int> (n // 2))
    else:
        coded(o, BINARY8 + LARGE, <uint64_t> (n // 2), 4)
    return WRITTEN if put_hex(o, p, n) else ODD


cdef int put_uuid(Out* o, cursor p, Py_ssize_t n) noexcept nogil:
    """Write a UUID of its 36 characters; other ways to write it are odd."""
    cdef int i
    cdef int begin = 0
    cdef int[5] ends = [8, 13, 18, 23, 36]
    if n != 36:
        return ODD
    octet(o, UUID_CODE)
    for i in range(5):
        if (i < 4 and p[ends[i]] != MINUS) or not put_hex(o, p + begin, ends[i] - begin):
            return ODD
        begin = ends[i] + 1
    return WRITTEN


cdef bint is_number(cursor p, Py_ssize_t n, uint64_t* found) noexcept nogil:
    """Read up to 19 decimal digits; False if they are none, or begin with a zero more."""
    cdef Py_ssize_t i
    found[0] = 0
    if not 0 < n <= 19 or (n > 1 and p[0] == ZERO):
        return False
    for i in range(n):
        if not 48 <= p[i] <= 57:
            return False
        found[0] = 10 * found[0] + (p[i] - 48)
    return True


# Compounds. Their head is written in its short form, and replaced once their size is known.


cdef inline Py_ssize_t open_compound(Out* o) noexcept nogil:
    """Leave the bytes of a short head free, for which there is room: return where they are."""
    o.size += 3
    return o.size - 3


cdef int close_compound(Out* o, Py_ssize_t mark, int code, Py_ssize_t count) noexcept nogil:
    """Write the head of a list or a map; `code` is that of its short form."""
    cdef Py_ssize_t size = o.size - mark - 3
    if size < 255 and count < 256:
        o.at[mark] = <uint8_t> code
        o.at[mark + 1] = <uint8_t> (size + 1)
        o.at[mark + 2] = <uint8_t> count
        return WRITTEN
    if not has_room(o, 6):
        return FULL
    memmove(o.at + mark + 9, o.at + mark + 3, size)
    o.size = mark
    coded(o, code + LARGE, <uint64_t> (size + 4), 4)
    number(o, <uint64_t> count, 4)
    o.size += size
    return WRITTEN
