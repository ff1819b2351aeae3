# The names of types, as they stand in columns and in typed JSON.

# By `slot_of` the name: the format code of the type's short form, or the widest of a fixed width.
cdef uint8_t[256] CODES_BY_NAME
cdef int FIRST_FACTOR, LAST_FACTOR, SIZE_FACTOR


cdef inline int slot_of(cursor p, Py_ssize_t n) noexcept nogil:
    """Return the place of a name in the table, where another name may stand."""
    return FIRST_FACTOR * p[0] + LAST_FACTOR * p[n - 1] + SIZE_FACTOR * <int> n & 255


cdef inline Code* type_of(cursor p, Py_ssize_t n, cursor end) noexcept nogil:
    """Return the type of a name in a column that ends at `end`, or NULL."""
    cdef Code* found
    if n <= 0 or n > 16:
        return NULL
    found = &CODES[CODES_BY_NAME[slot_of(p, n)]]
    if end - p >= 16:
        if (word_at(p) & WORD_BITS[8 + n]) != word_at(found.name):
            return NULL
        return found if (word_at(p + 8) & WORD_BITS[n]) == word_at(found.name + 8) else NULL
    return found if found.name_size == n and memcmp(found.name, p, n) == 0 else NULL


cdef int put_whole(Out* o, Code* type_, int64_t value) noexcept nogil:
    """Write an integer of a type, for which there is room; odd where it is out of its bounds."""
    if signed_of(type_, <uint64_t> value << type_.shift) != value:
        return ODD
    if type_.kind == UINT:
        write_uint(o, <uint64_t> value)
    elif type_.kind == INT:
        write_int(o, value)
    elif type_.kind == LONG:
        write_long(o, value)
    else:
        write_coded(o, type_.code, <uint64_t> value, type_.width)
    return GOOD


def _fill_names():
    shorts = [row for row in FORMAT_CODES.values() if row.code < BINARY8 or not row.code & LARGE]
    codes = {row.type: row.code for row in sorted(shorts, key=lambda row: row.width)}
    names = [name.encode() for name in codes]
    global FIRST_FACTOR, LAST_FACTOR, SIZE_FACTOR
    for factors in range(32**3):
        FIRST_FACTOR, LAST_FACTOR, SIZE_FACTOR = factors & 31, factors >> 5 & 31, factors >> 10
        slots = {slot_of(<cursor> <char*> name, len(name)): name for name in names}
        if len(slots) == len(names):
            break
    else:
        raise ImportError("the names of types cannot be told by their ends")
    for slot, name in slots.items():
        CODES_BY_NAME[<int> slot] = codes[name.decode()]


_fill_names()
