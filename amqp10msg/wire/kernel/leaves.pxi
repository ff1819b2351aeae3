# Reads and writes single encoded values in C. The kernels of `columns` and `translate` include this
# file. The file handles numbers in network order, text, hexadecimal digits, UUIDs, decimal digits,
# the table of format codes (Part 1, 1.6), and output into memory that the caller has allocated.
#
# A kernel leaves a value that it does not handle to the Python implementation, which also raises
# the errors. A function returns UNSUPPORTED (0), or a NULL pointer, for such a value.

import sys

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy, memmove, memset

from amqp10msg.wire.primitives import FORMAT_CODES

ctypedef const uint8_t* cursor

# The results of reading or writing a value, a section or a row.
cdef enum:
    FULL = -1  # the output has no room for the value
    UNSUPPORTED = 0    # the Python implementation must handle it
    OK = 1   # the value, section or row was read or written
    ABSENT = 2 # the value, section or row does not exist

# The rules for the content of a string, a symbol or a binary.
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

# The maximum value of Arrow's 32-bit offsets.
cdef Py_ssize_t LARGEST = 2**31 - 1
# The index of the low half of a decimal128 in memory, 0 or 1.
cdef int LOW_WORD = 0 if sys.byteorder == "little" else 1


# Numbers in network order, and words of eight bytes.

# Bit mask of the highest bit of each byte of a word. In ASCII text, these bits are 0.
cdef uint64_t HIGH_BITS = 0x8080808080808080
# Bit masks of the first n bytes of a word in memory, at the index 8 + n, for n from -8 to 16. A
# negative n counts as 0, and an n above 8 as 8.
cdef uint64_t[25] FIRST_BYTES_MASKS


cdef inline uint32_t u32(cursor p) noexcept nogil:
    return (<uint32_t> p[0] << 24) | (<uint32_t> p[1] << 16) | (<uint32_t> p[2] << 8) | p[3]


cdef inline uint64_t u64(cursor p) noexcept nogil:
    return (<uint64_t> u32(p) << 32) | u32(p + 4)


cdef inline uint64_t unsigned_at(cursor p, int width) noexcept nogil:
    """Read an unsigned number of `width` bytes, at most 8."""
    cdef uint64_t made = 0
    cdef int i
    for i in range(width):
        made = made << 8 | p[i]
    return made


cdef inline uint64_t word_at(cursor p) noexcept nogil:
    cdef uint64_t word
    memcpy(&word, p, 8)
    return word


cdef inline void put_word(uint8_t* to, uint64_t word) noexcept nogil:
    memcpy(to, &word, 8)


cdef inline uint64_t copied(uint8_t* to, cursor p, Py_ssize_t n) noexcept nogil:
    """Copy n bytes; return 0 if all of them are ASCII.

    Up to 16 more bytes are read and written, which both memory areas must have.
    """
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
    return (high | (first & FIRST_BYTES_MASKS[8 + n]) | (second & FIRST_BYTES_MASKS[n])) & HIGH_BITS


cdef inline bint equals(cursor p, cursor other, Py_ssize_t n) noexcept nogil:
    """Return whether n bytes at `p` and `other` are equal; 8 more bytes must be readable."""
    while n > 8:
        if word_at(p) != word_at(other):
            return False
        p += 8
        other += 8
        n -= 8
    return not (word_at(p) ^ word_at(other)) & FIRST_BYTES_MASKS[8 + n]


def _fill_first_bytes_masks():
    for n in range(25):
        size = min(max(n - 8, 0), 8)
        FIRST_BYTES_MASKS[<int> n] = int.from_bytes(b"\xff" * size + bytes(8 - size), sys.byteorder)


_fill_first_bytes_masks()


# Text.


cdef inline bint is_ascii(cursor p, Py_ssize_t n) noexcept nogil:
    """Return whether n bytes are ASCII; 16 more bytes must be readable."""
    cdef uint64_t high = 0
    while n > 16:
        high |= word_at(p) | word_at(p + 8)
        p += 16
        n -= 16
    high |= (word_at(p) & FIRST_BYTES_MASKS[8 + n]) | (word_at(p + 8) & FIRST_BYTES_MASKS[n])
    return not high & HIGH_BITS


cdef bint is_utf8(cursor p, Py_ssize_t n) noexcept nogil:
    """Return whether n bytes are UTF-8 (RFC 3629), by the same rules as in Python."""
    cdef cursor stop = p + n
    cdef int lead, more, low, high, i
    while p < stop:
        if stop - p >= 8 and not word_at(p) & HIGH_BITS:
            p += 8
            continue
        lead = p[0]
        p += 1
        if lead < 0x80:
            continue
        more = 0 if lead < 0xC2 else 1 if lead < 0xE0 else 2 if lead < 0xF0 else 3
        if more == 0 or lead > 0xF4 or stop - p < more:
            return False
        # The range of the second byte excludes overlong encodings, surrogates, and code points
        # above U+10FFFF.
        low = 0xA0 if lead == 0xE0 else 0x90 if lead == 0xF0 else 0x80
        high = 0x9F if lead == 0xED else 0x8F if lead == 0xF4 else 0xBF
        if not low <= p[0] <= high:
            return False
        for i in range(1, more):
            if (p[i] & 0xC0) != 0x80:
                return False
        p += more
    return True


cdef inline bint is_allowed(cursor p, Py_ssize_t n, int rule) noexcept nogil:
    """Return whether n bytes follow a rule (ANY, ASCII or UTF8); 16 more bytes must be readable."""
    return rule == ANY or is_ascii(p, n) or (rule == UTF8 and is_utf8(p, n))


cdef inline uint64_t key_bit(cursor p, Py_ssize_t n) noexcept nogil:
    """Return the bit of a key in a bit set of keys; few other keys of a map have the same bit."""
    return <uint64_t> 1 << ((n + (p[n - 1] + 8 * p[(n - 1) >> 1] if n else 0)) & 63)


# Hexadecimal digits, UUIDs and decimal digits.


cdef inline uint8_t hex_digit(int value) noexcept nogil:
    return <uint8_t> (ZERO + value if value < 10 else LETTER_A - 10 + value)


cdef inline int hex_value(int digit) noexcept nogil:
    """Return the value of a hexadecimal digit, in upper or lower case; -1 for other characters."""
    if 48 <= digit <= 57:
        return digit - 48
    digit |= 32
    return digit - 87 if 97 <= digit <= 102 else -1


cdef inline void write_hex(uint8_t* to, cursor p, Py_ssize_t n) noexcept nogil:
    """Write n bytes as 2n hexadecimal digits."""
    cdef Py_ssize_t i
    for i in range(n):
        to[2 * i] = hex_digit(p[i] >> 4)
        to[2 * i + 1] = hex_digit(p[i] & 15)


cdef bint read_hex(uint8_t* to, cursor p, Py_ssize_t n) noexcept nogil:
    """Convert n hexadecimal digits to bytes; return False for an odd n and for other characters."""
    cdef Py_ssize_t i
    cdef int high, low
    if n & 1:
        return False
    for i in range(n // 2):
        high = hex_value(p[2 * i])
        low = hex_value(p[2 * i + 1])
        if high < 0 or low < 0:
            return False
        to[i] = <uint8_t> (high << 4 | low)
    return True


# The end offset of each group of digits in the text of a UUID.
cdef int[5] UUID_ENDS = [8, 13, 18, 23, 36]


cdef void write_uuid(uint8_t* to, cursor p) noexcept nogil:
    """Write the 16 bytes of a UUID as text of 36 characters."""
    cdef int i, n, begin = 0
    for i in range(5):
        n = (UUID_ENDS[i] - begin) // 2
        write_hex(to + begin, p, n)
        p += n
        begin = UUID_ENDS[i] + 1
        if i < 4:
            to[begin - 1] = MINUS


cdef bint read_uuid(uint8_t* to, cursor p, Py_ssize_t n) noexcept nogil:
    """Convert the text of a UUID, n characters, to 16 bytes; return False if it is not valid."""
    cdef int i, size, begin = 0
    if n != 36:
        return False
    for i in range(5):
        size = UUID_ENDS[i] - begin
        if (i < 4 and p[UUID_ENDS[i]] != MINUS) or not read_hex(to, p + begin, size):
            return False
        to += size // 2
        begin = UUID_ENDS[i] + 1
    return True


cdef int write_digits(uint8_t* digits, uint64_t number) noexcept nogil:
    """Write a number as decimal digits at the end of 20 bytes; return the offset of the first."""
    cdef int i = 20
    while True:
        i -= 1
        digits[i] = <uint8_t> (ZERO + number % 10)
        number //= 10
        if number == 0:
            return i


cdef bint is_number(cursor p, Py_ssize_t n, uint64_t* found) noexcept nogil:
    """Read a number of 1 to 19 decimal digits into `found`.

    Returns False for other characters, other lengths, and a leading zero.
    """
    cdef Py_ssize_t i
    found[0] = 0
    if not 0 < n <= 19 or (n > 1 and p[0] == ZERO):
        return False
    for i in range(n):
        if not 48 <= p[i] <= 57:
            return False
        found[0] = 10 * found[0] + (p[i] - 48)
    return True


# The format codes.

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
    BOOLEAN_CODE = 0x56
    USHORT_CODE = 0x60
    SHORT_CODE = 0x61
    UINT_CODE = 0x70
    INT_CODE = 0x71
    FLOAT_CODE = 0x72
    CHAR_CODE = 0x73
    ULONG_CODE = 0x80
    LONG_CODE = 0x81
    DOUBLE_CODE = 0x82
    TIMESTAMP_CODE = 0x83
    UUID_CODE = 0x98
    # The difference between the format code of an encoding with a 32-bit size and the format code
    # of the same type with an 8-bit size.
    LARGE = 0x10
    BINARY8 = 0xA0
    STRING8 = 0xA1
    SYMBOL8 = 0xA3
    LIST8 = 0xC0
    MAP8 = 0xC1
    ARRAY8 = 0xE0
    NO_CODE = 255

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
    CHAR
    DECIMAL_KIND
    LIST_KIND
    MAP_KIND
    NO_KIND # array, described, and bytes that are not format codes

# The categories of format codes, by how the kernel reads their values.
cdef enum:
    OTHER    # needs special handling, or is not a format code
    NOTHING  # null
    SIGNED   # fits into a signed 64-bit number: a boolean without content, any integer except ulong
    UNSIGNED # ulong
    REAL     # double
    SIZED    # string, symbol, binary

# The properties of a format code.
cdef struct Code:
    uint8_t width     # bytes of a fixed width, or of the size; NO_CODE if it is not a format code
    uint8_t category  # how to read the value: SIGNED etc.
    uint8_t rule      # of the content: ANY, ASCII or UTF8
    uint8_t kind      # the type: BOOLEAN etc.
    uint8_t name_size # the length of the type's name
    uint8_t shift     # right shift of the 8 bytes from the content on, to get the number
    uint8_t added     # bits to set in the number after the shift and the mask: 1 for true
    uint8_t code      # the format code
    uint64_t kept     # mask of the number after the shift
    uint8_t[16] name  # the type's name

cdef Code[256] CODES


cdef inline int64_t signed_of(Code* code, uint64_t word) noexcept nogil:
    """Return the integer in a value whose format code has the category SIGNED.

    `word` is the 8 bytes from the start of its content.
    """
    return (<int64_t> word >> code.shift) & <int64_t> code.kept | code.added


cdef inline uint64_t ulong_of(Code* code, uint64_t word) noexcept nogil:
    """Return the integer in a value whose format code has the category UNSIGNED.

    `word` is the 8 bytes from the start of its content.
    """
    return word >> code.shift & code.kept


cdef inline bint is_large(int code) noexcept nogil:
    """Return whether a compound, array or variable-width value has a size field of four bytes."""
    return (code & LARGE) != 0


cdef inline bint is_list(int code) noexcept nogil:
    return code == LIST0 or code == LIST8 or code == LIST8 + LARGE


cdef inline cursor open_sized(cursor p, int code, Py_ssize_t* n) noexcept nogil:
    """Read the size of a string, symbol or binary into `n`; return the start of its content.

    The caller must compare the size with the remaining bytes.
    """
    if is_large(code):
        n[0] = u32(p)
        return p + 4
    n[0] = p[0]
    return p + 1


cdef inline cursor open_items(
    cursor p, cursor end, int code, cursor* stop, Py_ssize_t* count
) noexcept nogil:
    """Read the size and count of a list or map; return the start of its items, or NULL if invalid.

    Sets `stop` to the end of the items.
    """
    cdef Py_ssize_t size
    if is_large(code):
        if end - p < 8:
            return NULL
        size = u32(p)
        if size < 4 or size > end - p - 4:
            return NULL
        stop[0] = p + 4 + size
        count[0] = u32(p + 4)
        return p + 8
    if end - p < 2:
        return NULL
    size = p[0]
    if size < 1 or size > end - p - 1:
        return NULL
    stop[0] = p + 1 + size
    count[0] = p[1]
    return p + 2


def _fill_codes():
    categories = {"null": NOTHING, "ulong": UNSIGNED, "double": REAL}
    categories |= dict.fromkeys(("string", "symbol", "binary"), SIZED)
    with_sign = ("byte", "short", "int", "long", "timestamp")
    categories |= dict.fromkeys(("boolean", "ubyte", "ushort", "uint", *with_sign), SIGNED)
    rules = {"string": UTF8, "symbol": ASCII}
    kinds = {
        "null": NULL_KIND, "boolean": BOOLEAN, "ubyte": UBYTE, "ushort": USHORT, "uint": UINT,
        "ulong": ULONG, "byte": BYTE, "short": SHORT, "int": INT, "long": LONG, "float": FLOAT,
        "double": DOUBLE, "timestamp": TIMESTAMP, "uuid": UUID, "binary": BINARY,
        "string": STRING, "symbol": SYMBOL, "char": CHAR, "decimal32": DECIMAL_KIND,
        "decimal64": DECIMAL_KIND, "decimal128": DECIMAL_KIND, "list": LIST_KIND, "map": MAP_KIND,
    }
    cdef Code* code
    for number in range(256):
        CODES[<int> number].width = NO_CODE
        CODES[<int> number].kind = NO_KIND
    for row in FORMAT_CODES.values():
        if len(row.type) > 16:
            raise ImportError("the name of a type is too long for this kernel")
        code = &CODES[<int> row.code]
        code.code = row.code
        code.width = row.width
        code.category = OTHER if row.code == BOOLEAN_CODE else categories.get(row.type, OTHER)
        code.rule = rules.get(row.type, ANY)
        code.kind = kinds.get(row.type, NO_KIND)
        code.name_size = len(row.type)
        for i, one in enumerate(row.type.encode()):
            code.name[<int> i] = one
        code.shift = 64 - 8 * row.width & 63
        code.added = row.code == TRUE_CODE
        # The shift extends the sign of a signed number, so that all bits are kept.
        code.kept = 2**64 - 1 if row.type in with_sign else min((1 << 8 * row.width) - 1, 2**64 - 1)


_fill_codes()


# Output into memory with enough room, which the caller checks. Each value is written in the
# smallest encoding of its type.

cdef struct Out:
    uint8_t* at            # the start of the memory
    Py_ssize_t size, room  # number of bytes written, and of bytes of memory


cdef inline void write_byte(Out* o, int value) noexcept nogil:
    o.at[o.size] = <uint8_t> value
    o.size += 1


cdef inline void write_number(Out* o, uint64_t value, int width) noexcept nogil:
    """Write a number in network order."""
    cdef int i
    for i in range(width):
        o.at[o.size + i] = <uint8_t> (value >> 8 * (width - 1 - i))
    o.size += width


cdef inline void write_coded(Out* o, int code, uint64_t value, int width) noexcept nogil:
    """Write a format code, and a number of `width` bytes."""
    write_byte(o, code)
    write_number(o, value, width)


cdef inline void write_boolean(Out* o, bint value) noexcept nogil:
    write_byte(o, TRUE_CODE if value else FALSE_CODE)


cdef inline void write_uint(Out* o, uint64_t value) noexcept nogil:
    if value == 0:
        write_byte(o, UINT0)
    elif value < 256:
        write_coded(o, SMALL_UINT, value, 1)
    else:
        write_coded(o, UINT_CODE, value, 4)


cdef inline void write_ulong(Out* o, uint64_t value) noexcept nogil:
    if value == 0:
        write_byte(o, ULONG0)
    elif value < 256:
        write_coded(o, SMALL_ULONG, value, 1)
    else:
        write_coded(o, ULONG_CODE, value, 8)


cdef inline void write_int(Out* o, int64_t value) noexcept nogil:
    if -128 <= value <= 127:
        write_coded(o, SMALL_INT, <uint64_t> value, 1)
    else:
        write_coded(o, INT_CODE, <uint64_t> value, 4)


cdef inline void write_long(Out* o, int64_t value) noexcept nogil:
    if -128 <= value <= 127:
        write_coded(o, SMALL_LONG, <uint64_t> value, 1)
    else:
        write_coded(o, LONG_CODE, <uint64_t> value, 8)


cdef inline void write_sized_head(Out* o, int code, Py_ssize_t n) noexcept nogil:
    """Write the format code and size of a string, symbol or binary of n bytes.

    `code` is the format code with an 8-bit size.
    """
    if n < 256:
        write_byte(o, code)
        write_byte(o, <int> n)
    else:
        write_coded(o, code + LARGE, <uint64_t> n, 4)


cdef inline bint fits_short_head(Py_ssize_t size, Py_ssize_t count) noexcept nogil:
    """Return whether a list or map with items of `size` bytes can have an 8-bit size and count."""
    return size < 255 and count < 256


cdef inline void write_head(Out* o, int code, Py_ssize_t size, Py_ssize_t count) noexcept nogil:
    """Write the format code, size and count of a list or map, whose items need `size` bytes.

    `code` is the format code with an 8-bit size.
    """
    if fits_short_head(size, count):
        write_byte(o, code)
        write_byte(o, <int> size + 1)
        write_byte(o, <int> count)
    else:
        write_coded(o, code + LARGE, <uint64_t> (size + 4), 4)
        write_number(o, <uint64_t> count, 4)


cdef inline void write_descriptor(Out* o, int code) noexcept nogil:
    """Write the descriptor of a section."""
    write_byte(o, 0)
    write_coded(o, SMALL_ULONG, <uint64_t> code, 1)
