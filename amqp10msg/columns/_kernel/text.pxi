# Bytes: numbers in network order, words of eight bytes, what is text, and hexadecimal digits.

ctypedef const uint8_t* cursor

# What the bytes of a string, a symbol or a binary must be.
cdef enum:
    ANY
    ASCII
    UTF8

cdef enum:
    QUOTE = 34
    COMMA = 44
    MINUS = 45
    ZERO = 48
    LETTER_A = 97
    BRACKET = 91
    BACKSLASH = 92
    BRACKET_END = 93

cdef uint64_t HIGH = 0x8080808080808080
# By 8 + n: the bits of the first n bytes of a word, as they lie in memory, for n from -8 to 16.
cdef uint64_t[25] WORD_BITS


cdef inline uint32_t u32(cursor p) noexcept nogil:
    return (<uint32_t> p[0] << 24) | (<uint32_t> p[1] << 16) | (<uint32_t> p[2] << 8) | p[3]


cdef inline uint64_t u64(cursor p) noexcept nogil:
    return (<uint64_t> u32(p) << 32) | u32(p + 4)


cdef inline uint64_t word_at(cursor p) noexcept nogil:
    cdef uint64_t word
    memcpy(&word, p, 8)
    return word


cdef inline void put_word(uint8_t* to, uint64_t word) noexcept nogil:
    memcpy(to, &word, 8)


cdef inline uint64_t copied(uint8_t* to, cursor p, Py_ssize_t n) noexcept nogil:
    """Copy n bytes and up to 16 more, which `to` has room for; return 0 if all n are ASCII."""
    cdef uint64_t high = 0, first = word_at(p), second = word_at(p + 8)
    while n > 16:
        put_word(to, first)
        put_word(to + 8, second)
        high |= first | second
        p += 16
        to += 16
        n -= 16
        first = word_at(p)
        second = word_at(p + 8)
    put_word(to, first)
    put_word(to + 8, second)
    return (high | (first & WORD_BITS[8 + n]) | (second & WORD_BITS[n])) & HIGH


cdef inline bint is_ascii(cursor p, Py_ssize_t n) noexcept nogil:
    cdef uint64_t high = 0
    while n > 16:
        high |= word_at(p) | word_at(p + 8)
        p += 16
        n -= 16
    high |= (word_at(p) & WORD_BITS[8 + n]) | (word_at(p + 8) & WORD_BITS[n])
    return not high & HIGH


cdef inline bint is_same(cursor p, cursor other, Py_ssize_t n) noexcept nogil:
    """Whether n bytes are equal in two places."""
    while n > 8:
        if word_at(p) != word_at(other):
            return False
        p += 8
        other += 8
        n -= 8
    return not (word_at(p) ^ word_at(other)) & WORD_BITS[8 + n]


cdef bint is_utf8(cursor p, Py_ssize_t n) noexcept nogil:
    """Whether n bytes are UTF-8 (RFC 3629), as Python has it."""
    cdef cursor stop = p + n
    cdef int lead, more, low, high, i
    while p < stop:
        if stop - p >= 8 and not word_at(p) & HIGH:
            p += 8
            continue
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


cdef inline bint is_text(cursor p, Py_ssize_t n, int rule) noexcept nogil:
    return rule == ANY or is_ascii(p, n) or (rule == UTF8 and is_utf8(p, n))


cdef inline uint8_t hex_digit(int number) noexcept nogil:
    return <uint8_t> (ZERO + number if number < 10 else LETTER_A - 10 + number)


cdef inline void write_hex(uint8_t* out, cursor p, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(n):
        out[2 * i] = hex_digit(p[i] >> 4)
        out[2 * i + 1] = hex_digit(p[i] & 15)


cdef void write_uuid(uint8_t* out, cursor p) noexcept nogil:
    """Write the 36 characters of a UUID."""
    cdef int i
    for i in range(16):
        if i == 4 or i == 6 or i == 8 or i == 10:
            out[0] = MINUS
            out += 1
        write_hex(out, p + i, 1)
        out += 2


cdef int write_digits(uint8_t* digits, uint64_t number) noexcept nogil:
    """Write decimal digits at the end of twenty bytes, and return where they begin."""
    cdef int i = 20
    while True:
        i -= 1
        digits[i] = <uint8_t> (ZERO + number % 10)
        number //= 10
        if number == 0:
            return i


def _fill_word_bits():
    for n in range(25):
        size = min(max(n - 8, 0), 8)
        WORD_BITS[<int> n] = int.from_bytes(b"\xff" * size + bytes(8 - size), sys.byteorder)


_fill_word_bits()
