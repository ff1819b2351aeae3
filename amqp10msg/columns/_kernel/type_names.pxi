# The names of types, as they stand in columns and in typed JSON.

# How a value of a type is written.
cdef enum:
    NO_TYPE
    WHOLE      # an integer of 64 bits or fewer with its bounds
    UNSIGNED   # ulong
    BOOLEAN
    REAL       # double
    SINGLE     # float
    SIZED      # string, symbol, binary
    UUID
    CHAR
    DECIMAL
    NOTHING    # null
    COMPOUND   # list and map
    OTHER      # array and described, which the plain implementation writes

cdef struct Type:
    int way, code, rule, width
    int64_t low, high
    Py_ssize_t n
    uint8_t[16] name
    uint64_t low_word, high_word  # the name as it lies in memory

# By `slot_of` the name.
cdef Type[256] TYPES
cdef int FIRST_FACTOR, LAST_FACTOR, SIZE_FACTOR


cdef inline int slot_of(cursor p, Py_ssize_t n) noexcept nogil:
    """Return the place of a name in the table, where another name may stand."""
    return FIRST_FACTOR * p[0] + LAST_FACTOR * p[n - 1] + SIZE_FACTOR * <int> n & 255


cdef inline Type* type_of(cursor p, Py_ssize_t n, cursor end) noexcept nogil:
    """Return the type of a name in a column that ends at `end`, or NULL."""
    cdef Type* found
    if n <= 0 or n > 16:
        return NULL
    found = &TYPES[slot_of(p, n)]
    if end - p >= 16:
        if (word_at(p) & WORD_BITS[8 + n]) != found.low_word:
            return NULL
        return found if (word_at(p + 8) & WORD_BITS[n]) == found.high_word else NULL
    return found if found.n == n and memcmp(found.name, p, n) == 0 else NULL


cdef int put_whole(Out* o, Type* kind, int64_t value) noexcept nogil:
    """Write an integer of a type, for which there is room; odd where it is out of its bounds."""
    cdef int code = kind.code
    if not kind.low <= value <= kind.high:
        return ODD
    if code == UINT_CODE:
        put_uint(o, <uint64_t> value)
    elif code == INT_CODE and -128 <= value <= 127:
        coded(o, SMALL_INT, <uint64_t> value, 1)
    elif code == LONG_CODE and -128 <= value <= 127:
        coded(o, SMALL_LONG, <uint64_t> value, 1)
    else:
        coded(o, code, <uint64_t> value, kind.width)
    return WRITTEN


def _fill_types():
    ways = dict.fromkeys(("array", "described"), OTHER) | dict.fromkeys(("list", "map"), COMPOUND)
    ways |= {"null": NOTHING, "ulong": UNSIGNED, "boolean": BOOLEAN, "double": REAL}
    ways |= {"float": SINGLE, "uuid": UUID, "char": CHAR}
    ways |= dict.fromkeys(("string", "symbol", "binary"), SIZED)
    ways |= dict.fromkeys(("decimal32", "decimal64", "decimal128"), DECIMAL)
    wide = {row.type: row for row in FORMAT_CODES.values() if row.code < 0xA0}
    for row in FORMAT_CODES.values():
        if row.code < 0xA0 and row.width >= wide[row.type].width:
            wide[row.type] = row
    short = {"string": STRING8, "symbol": SYMBOL8, "binary": BINARY8, "list": LIST8, "map": MAP8}
    with_sign = ("byte", "short", "int", "long", "timestamp")
    without = ("ubyte", "ushort", "uint")
    ways |= dict.fromkeys((*with_sign, *without), WHOLE)
    names = [name.encode() for name in ways]
    slots = {}
    global FIRST_FACTOR, LAST_FACTOR, SIZE_FACTOR
    for factors in range(32**3):
        FIRST_FACTOR, LAST_FACTOR, SIZE_FACTOR = factors & 31, factors >> 5 & 31, factors >> 10
        slots = {slot_of(<cursor> <char*> name, len(name)): name for name in names}
        if len(slots) == len(names):
            break
    else:
        raise ImportError("the names of types cannot be told by their ends")
    cdef Type* kind
    for slot, octets in slots.items():
        kind = &TYPES[<int> slot]
        name = octets.decode()
        row = wide.get(name)
        kind.way = ways[name]
        kind.code = short[name] if name in short else row.code if row else 0
        kind.width = row.width if row else 0
        kind.rule = {"string": UTF8, "symbol": ASCII}.get(name, ANY)
        bits = 8 * kind.width
        if kind.way == WHOLE:
            kind.low = -(1 << bits - 1) if name in with_sign else 0
            kind.high = (1 << bits - 1) - 1 if name in with_sign else (1 << bits) - 1
        kind.n = len(octets)
        for i, one in enumerate(octets):
            kind.name[<int> i] = one
        kind.low_word = word_at(kind.name)
        kind.high_word = word_at(kind.name + 8)


_fill_types()
