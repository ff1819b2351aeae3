# The format codes of Part 1, 1.6, and the numbers behind them.

cdef enum:
    NULL_CODE = 0x40
    TRUE_CODE = 0x41
    FALSE_CODE = 0x42
    UINT0 = 0x43
    ULONG0 = 0x44
    LIST0 = 0x45
    UBYTE_CODE = 0x50
    SMALL_UINT = 0x52
    SMALL_ULONG = 0x53
    BOOLEAN_CODE = 0x56
    UINT_CODE = 0x70
    FLOAT_CODE = 0x72
    CHAR_CODE = 0x73
    ULONG_CODE = 0x80
    TIMESTAMP_CODE = 0x83
    UUID_CODE = 0x98
    # The constructors of 32-bit sizes are 0x10 above those of 8-bit sizes.
    LARGE = 0x10
    BINARY8 = 0xA0
    STRING8 = 0xA1
    SYMBOL8 = 0xA3
    LIST8 = 0xC0
    MAP8 = 0xC1
    ARRAY8 = 0xE0

# How a value is read. OTHER needs handling of its own, or is no format code.
cdef enum:
    OTHER
    NOTHING  # null
    SIGNED   # a boolean without content, or any integer but ulong: the member `l`
    UNSIGNED # ulong: the member `u`
    REAL     # double
    SIZED    # string, symbol, binary

cdef enum:
    NO_CODE = 255

# By format code: the bytes that follow it (of a variable width: the size's; NO_CODE for what is no
# format code, or described), the name of the type, and how numbers are cut out of eight bytes.
cdef struct Code:
    uint8_t width
    uint8_t way
    uint8_t rule
    uint8_t name_size
    uint8_t shift
    uint8_t added
    uint64_t kept
    uint8_t[16] name

cdef Code[256] CODES


cdef inline int64_t signed_at(cursor p, int code) noexcept nogil:
    """Return the number of a value of way SIGNED."""
    return (<int64_t> u64(p) >> CODES[code].shift) & <int64_t> CODES[code].kept | CODES[code].added


cdef inline uint64_t unsigned_at(cursor p, int code) noexcept nogil:
    """Return the number of a value of way UNSIGNED."""
    return u64(p) >> CODES[code].shift & CODES[code].kept


cdef inline bint is_large(int code) noexcept nogil:
    """Whether a compound, an array or a sized value has a size of four bytes."""
    return (code & LARGE) != 0


cdef inline cursor open_sized(cursor p, int code, Py_ssize_t* n) noexcept nogil:
    """Read the size of a string, a symbol or a binary, which the caller compares with the rest."""
    if is_large(code):
        n[0] = u32(p)
        return p + 4
    n[0] = p[0]
    return p + 1


cdef inline cursor pass_over(cursor p, cursor end) noexcept nogil:
    """Pass over one value that is not described, by its size. There are bytes."""
    cdef int code = p[0]
    cdef Py_ssize_t n = CODES[code].width
    p += 1
    if n == NO_CODE:
        return NULL
    if code >= BINARY8:
        p = open_sized(p, code, &n)
    return p + n if n <= end - p else NULL


def _fill_codes():
    ways = {"null": NOTHING, "ulong": UNSIGNED, "double": REAL}
    ways |= dict.fromkeys(("string", "symbol", "binary"), SIZED)
    with_sign = ("byte", "short", "int", "long", "timestamp")
    ways |= dict.fromkeys(("boolean", "ubyte", "ushort", "uint", *with_sign), SIGNED)
    rules = {"string": UTF8, "symbol": ASCII}
    cdef Code* code
    for number in range(256):
        CODES[<int> number].width = NO_CODE
    for row in FORMAT_CODES.values():
        if len(row.type) > 16:
            raise ImportError("the name of a type is too long for this kernel")
        code = &CODES[<int> row.code]
        code.width = row.width
        code.way = OTHER if row.code == BOOLEAN_CODE else ways.get(row.type, OTHER)
        code.rule = rules.get(row.type, ANY)
        code.name_size = len(row.type)
        for i, octet in enumerate(row.type.encode()):
            code.name[<int> i] = octet
        code.shift = 64 - 8 * row.width & 63
        code.added = row.code == TRUE_CODE
        # A sign is extended by the shift, so all bits stay.
        code.kept = 2**64 - 1 if row.type in with_sign else min((1 << 8 * row.width) - 1, 2**64 - 1)


_fill_codes()
