# Simple values of AMQP 1.0 in their smallest encodings, which alone are read here, and what holds
# them.

cdef enum:
    ODD = 0
    GOOD = 1

cdef enum:
    # More headers, or entries of a map, make a row odd: their names are compared with one another.
    MOST = 64
    # So do values nested deeper.
    MOST_LEVELS = 16

# The types of values.
cdef enum:
    NULL_KIND
    BOOLEAN
    UBYTE
    USHORT
    UINT
    ULONG
    BYTE
    SHORT
    INT
    LONG
    FLOAT
    DOUBLE
    TIMESTAMP
    UUID
    BINARY
    STRING
    SYMBOL

# A value: where it begins, its content of n bytes; of an integer its number, a ulong modulo 2^64.
cdef struct Value:
    int kind
    cursor start
    cursor at
    Py_ssize_t n
    int64_t number

# A run of bytes within a message.
cdef struct Span:
    cursor at
    Py_ssize_t n

# What the bytes of a text are, as bits.
cdef enum:
    HIGH = 1
    NUL = 2


cdef inline uint64_t unsigned_at(cursor p, int width) noexcept nogil:
    cdef uint64_t made = 0
    cdef int i
    for i in range(width):
        made = made << 8 | p[i]
    return made


cdef int bytes_found(cursor p, Py_ssize_t n) noexcept nogil:
    """Return whether there are bytes beyond ASCII, and NUL."""
    cdef uint64_t word, high = 0, nul = 0
    cdef uint64_t ones = 0x0101010101010101
    cdef uint64_t highs = 0x8080808080808080
    while n >= 8:
        memcpy(&word, p, 8)
        high |= word
        nul |= (word - ones) & ~word
        p += 8
        n -= 8
    word = ones
    if n:
        memcpy(&word, p, <size_t> n)
    high |= word
    nul |= (word - ones) & ~word
    return (HIGH if high & highs else 0) | (NUL if nul & highs else 0)


cdef bint is_utf8(cursor p, Py_ssize_t n) noexcept nogil:
    """Whether n bytes are UTF-8 (RFC 3629), as Python has it."""
    cdef cursor stop = p + n
    cdef int lead, more, low, high, i
    if not bytes_found(p, n) & HIGH:
        return True
    while p < stop:
        lead = p[0]
        p += 1
        if lead < 0x80:
            continue
        more = 0 if lead < 0xC2 else 1 if lead < 0xE0 else 2 if lead < 0xF0 else 3
        if more == 0 or lead > 0xF4 or stop - p < more:
            return False
        # The range of the second byte excludes overlong forms, surrogates and what is too large.
        low = 0xA0 if lead == 0xE0 else 0x90 if lead == 0xF0 else 0x80
        high = 0x9F if lead == 0xED else 0x8F if lead == 0xF4 else 0xBF
        if not low <= p[0] <= high:
            return False
        for i in range(1, more):
            if (p[i] & 0xC0) != 0x80:
                return False
        p += more
    return True


cdef inline bint is_same(cursor p, Py_ssize_t n, cursor other, Py_ssize_t size) noexcept nogil:
    return n == size and memcmp(p, other, <size_t> n) == 0


cdef inline bint begins(cursor p, Py_ssize_t n, const char* text) noexcept nogil:
    cdef size_t size = strlen(text)
    return <size_t> n >= size and memcmp(p, text, size) == 0


cdef inline bint is_text(cursor p, Py_ssize_t n, const char* text) noexcept nogil:
    return <size_t> n == strlen(text) and begins(p, n, text)


cdef inline bint is_short(cursor p, Py_ssize_t n) noexcept nogil:
    """Whether a text is a short string as 0-9-1 says: UTF-8, no NUL, at most 255 bytes."""
    cdef int found
    if n > 255:
        return False
    found = bytes_found(p, n)
    return not found & NUL and (not found & HIGH or is_utf8(p, n))


cdef int read_text(cursor p, cursor stop, int code, Value* v) noexcept nogil:
    """Read the size and the bytes of a string, symbol or binary."""
    cdef Py_ssize_t head = 2 if code < 0xB0 else 5
    cdef Py_ssize_t n
    if stop - p < head:
        return ODD
    n = p[1] if head == 2 else <Py_ssize_t> unsigned_at(p + 1, 4)
    if n > stop - p - head or (head == 5 and n < 256):
        return ODD
    v.at = p + head
    v.n = n
    code &= 15
    v.kind = BINARY if code == 0 else STRING if code == 1 else SYMBOL
    if code == 1:
        return GOOD if is_utf8(v.at, n) else ODD
    return GOOD if code == 0 or not bytes_found(v.at, n) & HIGH else ODD


cdef int read_value(cursor* place, cursor stop, Value* v) noexcept nogil:
    """Read a value and pass over it; odd where it is of another type, or longer than it must be."""
    cdef cursor p = place[0]
    cdef int code, width
    cdef uint64_t found
    if p >= stop:
        return ODD
    code = p[0]
    v.start = p
    v.at = p + 1
    if code == 0xA1 or code == 0xA3 or code == 0xA0 or code == 0xB1 or code == 0xB0 or code == 0xB3:
        if read_text(p, stop, code, v) == ODD:
            return ODD
        place[0] = v.at + v.n
        return GOOD
    # No content, then of one byte, two, four, eight and sixteen.
    width = code >> 4
    if width < 4 or width > 9:
        return ODD
    width = 0 if width == 4 else 1 << (width - 5)
    if width > stop - p - 1:
        return ODD
    v.n = width
    place[0] = p + 1 + width
    found = unsigned_at(v.at, width) if width < 16 else 0
    v.number = <int64_t> found
    if code == 0x41 or code == 0x42:
        v.kind = BOOLEAN
        v.number = code == 0x41
    elif code == 0x71:
        v.kind = INT
        v.number = <int32_t> <uint32_t> found
        return GOOD if not -128 <= v.number <= 127 else ODD
    elif code == 0x54 or code == 0x55:
        v.kind = INT if code == 0x54 else LONG
        v.number = <int8_t> <uint8_t> found
    elif code == 0x81:
        v.kind = LONG
        return GOOD if not -128 <= v.number <= 127 else ODD
    elif code == 0x83:
        v.kind = TIMESTAMP
    elif code == 0x43 or code == 0x44:
        v.kind = UINT if code == 0x43 else ULONG
    elif code == 0x52 or code == 0x53:
        v.kind = UINT if code == 0x52 else ULONG
        return GOOD if found else ODD
    elif code == 0x70 or code == 0x80:
        v.kind = UINT if code == 0x70 else ULONG
        return GOOD if found > 255 else ODD
    elif code == 0x50:
        v.kind = UBYTE
    elif code == 0x51:
        v.kind = BYTE
        v.number = <int8_t> <uint8_t> found
    elif code == 0x60:
        v.kind = USHORT
    elif code == 0x61:
        v.kind = SHORT
        v.number = <int16_t> <uint16_t> found
    elif code == 0x82:
        v.kind = DOUBLE
        return GOOD if (found >> 52 & 0x7FF) != 0x7FF else ODD
    elif code == 0x72:
        v.kind = FLOAT
        return GOOD if (found >> 23 & 0xFF) != 0xFF else ODD
    elif code == 0x98:
        v.kind = UUID
    elif code == 0x40:
        v.kind = NULL_KIND
    else:
        return ODD
    return GOOD


cdef int open_compound(
    cursor* place, cursor stop, int code, Py_ssize_t* count, cursor* end
) noexcept nogil:
    """Pass over the head of a list or map, `code` being that of its short form.

    The long form may be longer than it must be.
    """
    cdef cursor p = place[0]
    cdef Py_ssize_t size
    if stop - p < 3:
        return ODD
    if p[0] == code:
        size = p[1]
        if size < 1 or size > stop - p - 2:
            return ODD
        count[0] = p[2]
        place[0] = p + 3
        end[0] = p + 2 + size
        return GOOD
    if p[0] != code + 0x10 or stop - p < 9:
        return ODD
    size = <Py_ssize_t> unsigned_at(p + 1, 4)
    if size < 4 or size > stop - p - 5:
        return ODD
    count[0] = <Py_ssize_t> unsigned_at(p + 5, 4)
    place[0] = p + 9
    end[0] = p + 5 + size
    return GOOD


cdef inline bint is_section(cursor p, cursor stop, int code) noexcept nogil:
    return stop - p >= 3 and p[0] == 0 and p[1] == 0x53 and p[2] == code


cdef int skip_section(cursor* place, cursor stop, int code, Span* found) noexcept nogil:
    """Pass over a list or map section of this code, where one is; odd where it is cut off."""
    cdef cursor p = place[0]
    cdef int usual = 0xC0 if code == HEADER_CODE or code == PROPERTIES_CODE else 0xC1
    cdef Py_ssize_t count = 0
    cdef cursor end = NULL
    if not is_section(p, stop, code):
        return GOOD
    found.at = p
    p += 3
    if p < stop and p[0] == 0x45:
        end = p + 1
    elif open_compound(&p, stop, usual, &count, &end) == ODD:
        return ODD
    found.n = end - found.at
    place[0] = end
    return GOOD


cdef bint is_canonical(cursor* place, cursor stop, int depth) noexcept nogil:
    """Pass over a value of these types, or a list or map of them; False where it is another."""
    cdef Value v
    cdef Py_ssize_t count = 0, i, k
    cdef cursor end = NULL
    cdef Span[MOST] keys
    cdef cursor begin
    cdef int code
    if place[0] >= stop:
        return False
    code = place[0][0]
    if code == 0x45:
        place[0] += 1
        return True
    if code != 0xC0 and code != 0xD0 and code != 0xC1 and code != 0xD1:
        return read_value(place, stop, &v) == GOOD
    begin = place[0]
    if depth == 0 or open_compound(place, stop, code & 0xCF, &count, &end) == ODD:
        return False
    if code & 0x10 and end - begin < 9 + 255:
        return False
    if code & 1 == 0:
        for i in range(count):
            if not is_canonical(place, end, depth - 1):
                return False
        return count > 0 and place[0] == end
    if count & 1 or count > 2 * MOST:
        return False
    for i in range(count >> 1):
        if read_value(place, end, &v) == ODD or (v.kind != STRING and v.kind != SYMBOL):
            return False
        keys[i].at = v.at
        keys[i].n = v.n
        for k in range(i):
            if is_same(keys[k].at, keys[k].n, v.at, v.n):
                return False
        if not is_canonical(place, end, depth - 1):
            return False
    return place[0] == end


cdef bint is_body(cursor p, cursor stop) noexcept nogil:
    """Whether this is one amqp-sequence or amqp-value section with such a value."""
    cdef bint is_sequence = is_section(p, stop, AMQP_SEQUENCE_CODE)
    if not is_sequence and not is_section(p, stop, AMQP_VALUE_CODE):
        return False
    p += 3
    if is_sequence and not (p < stop and (p[0] == 0x45 or p[0] == 0xC0 or p[0] == 0xD0)):
        return False
    return is_canonical(&p, stop, MOST_LEVELS) and p == stop


cdef inline bint is_wide(Span* section) noexcept nogil:
    """Whether a section's list or map is in its long form and need not be."""
    return section.at[3] & 0xD0 == 0xD0 and section.n < 3 + 9 + 255


# Writing.


cdef int put_compound(Out* o, int code, Py_ssize_t count, Out* content) except -1:
    """Write a list or map, `code` being that of its short form."""
    if content.size < 255:
        octet(o, code)
        octet(o, <int> content.size + 1)
        octet(o, <int> count)
    else:
        octet(o, code + 0x10)
        number(o, <uint64_t> content.size + 4, 4)
        number(o, <uint64_t> count, 4)
    return put_out(o, content)


cdef inline int put_variable(Out* o, int code, cursor p, Py_ssize_t n) except -1:
    """Write a binary, string or symbol, `code` being that of its short form."""
    if n < 256:
        octet(o, code)
        octet(o, <int> n)
    else:
        octet(o, code + 0x10)
        number(o, <uint64_t> n, 4)
    return put(o, p, n)


cdef inline int put_symbol(Out* o, const char* text) except -1:
    return put_variable(o, 0xA3, <cursor> text, <Py_ssize_t> strlen(text))


cdef inline int put_uint(Out* o, uint64_t value) except -1:
    if value == 0:
        return octet(o, 0x43)
    octet(o, 0x52 if value < 256 else 0x70)
    return number(o, value, 1 if value < 256 else 4)


cdef inline int put_signed(Out* o, int small, int large, int width, int64_t value) except -1:
    """Write an int or a long."""
    cdef bint is_small = -128 <= value <= 127
    octet(o, small if is_small else large)
    return number(o, <uint64_t> value, 1 if is_small else width)


cdef inline int begin_section(Out* o, int code) except -1:
    octet(o, 0)
    octet(o, 0x53)
    return octet(o, code)


# Texts that are values of other types.


cdef int read_digits(Value* v) noexcept nogil:
    """Read the usual decimal digits of a ttl, at most nine."""
    cdef Py_ssize_t i
    if not 0 < v.n < 10 or (v.at[0] == c"0" and v.n > 1):
        return ODD
    v.kind = UINT
    v.number = 0
    for i in range(v.n):
        if not c"0" <= v.at[i] <= c"9":
            return ODD
        v.number = 10 * v.number + v.at[i] - c"0"
    return GOOD


cdef inline int digit_of(int code) noexcept nogil:
    """Return the number of a hexadecimal digit in its usual form, -1 where it is none."""
    if c"0" <= code <= c"9":
        return code - c"0"
    return code - c"a" + 10 if c"a" <= code <= c"f" else -1


cdef bint is_uuid(cursor p, Py_ssize_t n) noexcept nogil:
    """Whether a text is a UUID in its usual form."""
    cdef Py_ssize_t i
    if n != 36:
        return False
    for i in range(36):
        if i == 8 or i == 13 or i == 18 or i == 23:
            if p[i] != c"-":
                return False
        elif digit_of(p[i]) < 0:
            return False
    return True


cdef int put_uuid_value(Out* o, cursor p) except -1:
    """Write the UUID of 36 characters."""
    cdef int i = 0
    octet(o, 0x98)
    while i < 36:
        if p[i] == c"-":
            i += 1
            continue
        octet(o, digit_of(p[i]) << 4 | digit_of(p[i + 1]))
        i += 2
    return 0
