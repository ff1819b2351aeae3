# Reading and writing values of AMQP 1.0. The engine only reads simple values in their smallest
# encodings.

cdef enum:
    # Maximum number of headers, or of entries in a map. A message with more is unsupported, because
    # names are compared pairwise.
    MOST = 64
    # Maximum depth of nesting. A message with deeper values is unsupported.
    MOST_LEVELS = 16
    # The kind of a value that the engine did not read, or that the plain rules encoded. Its
    # encoding has `number` bytes from `start` on.
    ENCODED = 100

# A value: its encoding from `start` on, its content of n bytes at `at`; and for an integer its
# number (of a ulong: modulo 2^64, signed).
cdef struct Value:
    int kind
    cursor start
    cursor at
    Py_ssize_t n
    int64_t number

# An entry of a map. The kind of a value that the engine does not read is `ENCODED`.
cdef struct Pair:
    Value key, value

# A range of bytes; `at` is NULL if there are none, such as for a missing section.
cdef struct Span:
    cursor at
    Py_ssize_t n

# Bit masks of the result of `scan_bytes`.
cdef enum:
    HIGH = 1
    NUL = 2


cdef int scan_bytes(cursor p, Py_ssize_t n) noexcept nogil:
    """Return HIGH if bytes contain a non-ASCII byte, plus NUL if they contain a NUL."""
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


cdef inline bint is_same(cursor p, Py_ssize_t n, cursor other, Py_ssize_t size) noexcept nogil:
    """Whether two ranges of bytes are equal."""
    return n == size and (n == 0 or p[0] == other[0]) and memcmp(p, other, <size_t> n) == 0


cdef inline bint begins(cursor p, Py_ssize_t n, const char* text) noexcept nogil:
    """Whether bytes begin with a C string, which is not empty."""
    cdef Py_ssize_t size
    if n <= 0 or p[0] != <uint8_t> text[0]:  # usually
        return False
    size = <Py_ssize_t> strlen(text)
    return n >= size and memcmp(p, text, <size_t> size) == 0


cdef inline bint is_text(cursor p, Py_ssize_t n, const char* text) noexcept nogil:
    """Whether bytes equal a C string, which is not empty."""
    return begins(p, n, text) and n == <Py_ssize_t> strlen(text)


cdef inline bint is_short(cursor p, Py_ssize_t n) noexcept nogil:
    """Whether a text is a valid short string of 0-9-1: UTF-8, no NUL, at most 255 bytes."""
    cdef int found
    if n > 255:
        return False
    found = scan_bytes(p, n)
    return not found & NUL and (not found & HIGH or is_utf8(p, n))


cdef int read_text(cursor p, cursor stop, int code, Value* v) noexcept nogil:
    """Read the size and the bytes of a string, symbol or binary, or return UNSUPPORTED."""
    cdef Code* type_ = &CODES[code]
    if stop - p < 1 + type_.width:
        return UNSUPPORTED
    v.at = open_sized(p + 1, code, &v.n)
    if v.n > stop - v.at or (is_large(code) and v.n < 256):
        return UNSUPPORTED
    v.kind = type_.kind
    if v.kind == STRING:
        return OK if is_utf8(v.at, v.n) else UNSUPPORTED
    return OK if v.kind == BINARY or not scan_bytes(v.at, v.n) & HIGH else UNSUPPORTED


cdef int read_value(cursor* place, cursor stop, Value* v) noexcept nogil:
    """Read a value, and move `place` after it.

    Return UNSUPPORTED for some types, and for an encoding that is larger than necessary.
    """
    cdef cursor p = place[0]
    cdef Code* type_
    cdef int width
    cdef uint64_t found
    if p >= stop:
        return UNSUPPORTED
    type_ = &CODES[p[0]]
    v.start = p
    if type_.category == SIZED:
        if read_text(p, stop, p[0], v) == UNSUPPORTED:
            return UNSUPPORTED
        place[0] = v.at + v.n
        return OK
    v.kind = type_.kind
    width = type_.width
    if type_.category == OTHER and v.kind != FLOAT and v.kind != UUID:
        return UNSUPPORTED
    if width > stop - p - 1:
        return UNSUPPORTED
    v.at = p + 1
    v.n = width
    place[0] = v.at + width
    found = unsigned_at(v.at, width) if width <= 8 else 0
    v.number = <int64_t> found
    if type_.category == SIGNED:
        v.number = signed_of(type_, found << type_.shift)
    if v.kind == UINT or v.kind == ULONG:
        return OK if width == 0 or (found > 255 if width > 1 else found > 0) else UNSUPPORTED
    if v.kind == INT or v.kind == LONG:
        return OK if width == 1 or not -128 <= v.number <= 127 else UNSUPPORTED
    return OK if is_finite(v.kind, found) else UNSUPPORTED


cdef inline bint is_finite(int kind, uint64_t bits) noexcept nogil:
    """Whether a value of this kind is neither NaN nor infinite, given its bits."""
    if kind == DOUBLE:
        return (bits >> 52 & 0x7FF) != 0x7FF
    return kind != FLOAT or (bits >> 23 & 0xFF) != 0xFF


cdef int open_compound(
    cursor* place, cursor stop, int code, Py_ssize_t* count, cursor* end
) noexcept nogil:
    """Read the head of a list or map; return its number of items and its end, or UNSUPPORTED.

    `code` is the constructor of the short form. The long form is accepted even if the short form
    would suffice.
    """
    cdef cursor p = place[0]
    if p >= stop or (p[0] != code and p[0] != code + LARGE):
        return UNSUPPORTED
    p = open_items(p + 1, stop, p[0], end, count)
    if p == NULL:
        return UNSUPPORTED
    place[0] = p
    return OK


cdef inline bint is_section(cursor p, cursor stop, int code) noexcept nogil:
    """Whether a section with this code begins at p, with the smallest descriptor."""
    return stop - p >= 3 and p[0] == 0 and p[1] == 0x53 and p[2] == code


cdef int skip_section(cursor* place, cursor stop, int code, Span* found) noexcept nogil:
    """Skip a list or map section with this code, if it is next; return UNSUPPORTED if truncated."""
    cdef cursor p = place[0]
    cdef int usual = 0xC0 if code == HEADER_CODE or code == PROPERTIES_CODE else 0xC1
    cdef Py_ssize_t count = 0
    cdef cursor end = NULL
    if not is_section(p, stop, code):
        return OK
    found.at = p
    p += 3
    if p < stop and p[0] == 0x45:
        end = p + 1
    elif open_compound(&p, stop, usual, &count, &end) == UNSUPPORTED:
        return UNSUPPORTED
    found.n = end - found.at
    place[0] = end
    return OK


cdef bint skip_canonical_value(cursor* place, cursor stop, int depth) noexcept nogil:
    """Skip a value. Return False unless RabbitMQ 4 re-encodes the value with the same bytes.

    The value is a simple value in its smallest encoding, or a list or map of such values.
    """
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
        return read_value(place, stop, &v) == OK
    begin = place[0]
    if depth == 0 or open_compound(place, stop, code & 0xCF, &count, &end) == UNSUPPORTED:
        return False
    if code & 0x10 and end - begin < 9 + 255:
        return False
    if code & 1 == 0:
        for i in range(count):
            if not skip_canonical_value(place, end, depth - 1):
                return False
        return count > 0 and place[0] == end
    if count & 1 or count > 2 * MOST:
        return False
    for i in range(count >> 1):
        if read_value(place, end, &v) == UNSUPPORTED or (v.kind != STRING and v.kind != SYMBOL):
            return False
        keys[i].at = v.at
        keys[i].n = v.n
        for k in range(i):
            if is_same(keys[k].at, keys[k].n, v.at, v.n):
                return False
        if not skip_canonical_value(place, end, depth - 1):
            return False
    return place[0] == end


cdef bint skip_body(cursor* place, cursor stop) noexcept nogil:
    """Skip an amqp-sequence or amqp-value section.

    Return False if RabbitMQ 4 would re-encode the section's value with other bytes.
    """
    cdef cursor p = place[0]
    cdef bint is_sequence = is_section(p, stop, AMQP_SEQUENCE_CODE)
    if not is_sequence and not is_section(p, stop, AMQP_VALUE_CODE):
        return False
    p += 3
    if is_sequence and not (p < stop and (p[0] == 0x45 or p[0] == 0xC0 or p[0] == 0xD0)):
        return False
    if not skip_canonical_value(&p, stop, MOST_LEVELS):
        return False
    place[0] = p
    return True


cdef bint is_body(cursor p, cursor stop) noexcept nogil:
    """Whether bytes are exactly one body section that `skip_body` accepts."""
    return skip_body(&p, stop) and p == stop


cdef Py_ssize_t plain_value_size(cursor p, cursor stop) noexcept nogil:
    """Return the size in bytes of an encoded value that is not described; 0 if truncated."""
    cdef int code, width
    cdef Py_ssize_t head, n
    if p >= stop:
        return 0
    code = p[0]
    width = code >> 4
    if width < 4:
        return 0
    if width < 10:
        n = 1 + (0 if width == 4 else 1 << (width - 5))
    else:
        head = 5 if width & 1 else 2
        if stop - p < head:
            return 0
        n = head + (p[1] if head == 2 else <Py_ssize_t> unsigned_at(p + 1, 4))
    return n if n <= stop - p else 0


cdef int skip_any(cursor* place, cursor stop) noexcept nogil:
    """Skip any value, which may be described; return UNSUPPORTED if it is truncated."""
    cdef cursor p = place[0]
    cdef Py_ssize_t n
    cdef int level
    for level in range(MOST_LEVELS):
        if p >= stop:
            return UNSUPPORTED
        if p[0]:
            n = plain_value_size(p, stop)
            place[0] = p + n
            return OK if n else UNSUPPORTED
        n = plain_value_size(p + 1, stop)
        if n == 0:
            return UNSUPPORTED
        p += 1 + n
    return UNSUPPORTED


cdef Py_ssize_t value_size(cursor p, cursor stop) noexcept nogil:
    """Return the size in bytes of any encoded value, which may be described; 0 if truncated."""
    cdef cursor begin = p
    return p - begin if skip_any(&p, stop) == OK else 0


cdef inline Py_ssize_t wire_size(Value* v) noexcept nogil:
    """Return the size in bytes of a value's encoding, including its constructor."""
    return <Py_ssize_t> v.number if v.kind == ENCODED else v.at + v.n - v.start


cdef inline bint is_wide(Span* section) noexcept nogil:
    """Whether a section's list or map has the long form, although the short form would suffice."""
    return section.at[3] & 0xD0 == 0xD0 and section.n < 3 + 9 + 255


# Writing.


cdef int put_compound(Out* o, int code, Py_ssize_t count, Out* content) except -1:
    """Write a list or map, given its encoded items; `code` is the short form's constructor."""
    reserve(o, 9)
    write_head(o, code, content.size, count)
    return put_buffer(o, content)


cdef inline int put_variable(Out* o, int code, cursor p, Py_ssize_t n) except -1:
    """Write a binary, string or symbol; `code` is the short form's constructor."""
    reserve(o, 5)
    write_sized_head(o, code, n)
    return put(o, p, n)


cdef inline int put_symbol(Out* o, const char* text) except -1:
    return put_variable(o, SYMBOL8, <cursor> text, <Py_ssize_t> strlen(text))


cdef inline int put_uint(Out* o, uint64_t value) except -1:
    """Write an AMQP uint in its shortest encoding."""
    reserve(o, 5)
    write_uint(o, value)
    return 0


cdef inline int put_int(Out* o, int64_t value) except -1:
    """Write an AMQP int in its shortest encoding."""
    reserve(o, 5)
    write_int(o, value)
    return 0


cdef inline int put_long(Out* o, int64_t value) except -1:
    """Write an AMQP long in its shortest encoding."""
    reserve(o, 9)
    write_long(o, value)
    return 0


cdef inline int begin_section(Out* o, int code) except -1:
    """Write the descriptor of a section."""
    reserve(o, 3)
    write_descriptor(o, code)
    return 0


# Texts that represent numbers and UUIDs.


cdef int read_digits(Value* v) noexcept nogil:
    """Parse a ttl in decimal digits without leading zeros; return UNSUPPORTED for other text."""
    cdef uint64_t found = 0
    if v.n > 10 or not is_number(v.at, v.n, &found) or found >> 32:
        return UNSUPPORTED
    v.kind = UINT
    v.number = <int64_t> found
    return OK


cdef bint is_uuid(cursor p, Py_ssize_t n) noexcept nogil:
    """Whether a text is a UUID in its canonical form, with lower-case digits."""
    cdef uint8_t[16] made
    cdef Py_ssize_t i
    if not read_uuid(made, p, n):
        return False
    for i in range(n):
        if c"A" <= p[i] <= c"F":
            return False
    return True


cdef int put_uuid_value(Out* o, cursor p) except -1:
    """Write a 1.0 uuid, given the 36 characters of its text."""
    reserve(o, 17)
    write_byte(o, UUID_CODE)
    read_uuid(o.at + o.size, p, 36)
    o.size += 16
    return 0
