# Headers of a message of 0-9-1 on their way to or from sections of 1.0.

# A header: its name, the letter of its field, and its value as 1.0 has it; `kept`
# where the field does not say all.
cdef struct Entry:
    cursor name
    Py_ssize_t size
    int letter
    Value value
    bint kept

cdef struct Entries:
    Py_ssize_t count
    Entry[MOST] at


cdef inline bint is_known(
    Entries* entries, Py_ssize_t first, cursor p, Py_ssize_t n
) noexcept nogil:
    """Whether there is a header of this name, from the one at `first` on."""
    cdef Py_ssize_t i
    for i in range(first, entries.count):
        if is_same(entries.at[i].name, entries.at[i].size, p, n):
            return True
    return False


cdef inline bint precedes(Entry* one, Entry* other, bint by_size) noexcept nogil:
    """Whether a name stands before another one by its bytes, if asked for by its length first."""
    cdef int order
    if by_size and one.size != other.size:
        return one.size < other.size
    order = memcmp(one.name, other.name, <size_t> min(one.size, other.size))
    return order < 0 or (order == 0 and one.size < other.size)


cdef bint sort(Entries* entries, uint8_t* places, bint by_size) noexcept nogil:
    """Fill in the places of entries in the order of their names; return whether it is theirs."""
    cdef Py_ssize_t i, k
    cdef uint8_t held
    cdef bint are_sorted = True
    for i in range(entries.count):
        places[i] = <uint8_t> i
    for i in range(1, entries.count):
        k = i
        held = places[i]
        while k > 0 and precedes(&entries.at[held], &entries.at[places[k - 1]], by_size):
            places[k] = places[k - 1]
            k -= 1
            are_sorted = False
        places[k] = held
    return are_sorted


cdef int put_field(Out* o, Entry* entry) except -1:
    """Write name, letter and value of a header."""
    cdef Value* v = &entry.value
    cdef int letter = entry.letter
    cdef Py_ssize_t start
    octet(o, <int> entry.size)
    put(o, entry.name, entry.size)
    octet(o, letter)
    if letter == c"S" or letter == c"x":
        if v.kind == UUID:
            number(o, 45, 4)
            say(o, b"urn:uuid:")
            return put_uuid(o, v.at)
        if v.kind == ULONG:
            start = o.size
            number(o, 0, 4)
            digits(o, <uint64_t> v.number)
            o.at[start + 3] = <uint8_t> (o.size - start - 4)
            return 0
        number(o, <uint64_t> v.n, 4)
        return put(o, v.at, v.n)
    if letter == c"V":
        return 0
    if letter == c"t" or letter == c"b" or letter == c"B":
        return number(o, <uint64_t> v.number, 1)
    if letter == c"s" or letter == c"u":
        return number(o, <uint64_t> v.number, 2)
    if letter == c"I" or letter == c"i":
        return number(o, <uint64_t> v.number, 4)
    if letter == c"l":
        return number(o, <uint64_t> v.number, 8)
    if letter == c"T":
        return number(o, <uint64_t> (v.number // 1000), 8)
    return put(o, v.at, v.n)  # f, d


cdef int read_field(cursor* place, cursor stop, Entry* entry) noexcept nogil:
    """Read a header of a type that 1.0 has, too, and pass over it; text must be UTF-8."""
    if read_any_field(place, stop, entry) == ODD:
        return ODD
    return GOOD if entry.letter != c"S" or is_utf8(entry.value.at, entry.value.n) else ODD


cdef int read_any_field(cursor* place, cursor stop, Entry* entry) noexcept nogil:
    """Read a header of a type that 1.0 has, too, and pass over it, whatever bytes its text has."""
    cdef cursor p = place[0]
    cdef Value* v = &entry.value
    cdef int width = 0
    cdef int letter
    cdef uint64_t found
    if p >= stop or stop - p < p[0] + 2:
        return ODD
    entry.size = p[0]
    entry.name = p + 1
    p += 1 + entry.size
    entry.letter = letter = p[0]
    entry.kept = False
    p += 1
    v.start = p
    if letter == c"S" or letter == c"x":
        if stop - p < 4:
            return ODD
        v.n = <Py_ssize_t> unsigned_at(p, 4)
        v.at = p + 4
        if v.n > stop - v.at:
            return ODD
        place[0] = v.at + v.n
        v.kind = STRING if letter == c"S" else BINARY
        return GOOD
    if letter == c"I":
        v.kind, width = INT, 4
    elif letter == c"t":
        v.kind, width = BOOLEAN, 1
    elif letter == c"l":
        v.kind, width = LONG, 8
    elif letter == c"d":
        v.kind, width = DOUBLE, 8
    elif letter == c"f":
        v.kind, width = FLOAT, 4
    elif letter == c"i":
        v.kind, width = UINT, 4
    elif letter == c"b":
        v.kind, width = BYTE, 1
    elif letter == c"B":
        v.kind, width = UBYTE, 1
    elif letter == c"s":
        v.kind, width = SHORT, 2
    elif letter == c"u":
        v.kind, width = USHORT, 2
    elif letter == c"T":
        v.kind, width = TIMESTAMP, 8
    elif letter == c"V":
        v.kind = NULL_KIND
    else:
        return ODD
    if width > stop - p:
        return ODD
    v.at = p
    v.n = width
    place[0] = p + width
    found = unsigned_at(p, width)
    v.number = <int64_t> found
    if letter == c"I":
        v.number = <int32_t> <uint32_t> found
    elif letter == c"s":
        v.number = <int16_t> <uint16_t> found
    elif letter == c"b":
        v.number = <int8_t> <uint8_t> found
    elif letter == c"t":
        return GOOD if found < 2 else ODD
    elif letter == c"d":
        return GOOD if (found >> 52 & 0x7FF) != 0x7FF else ODD
    elif letter == c"f":
        return GOOD if (found >> 23 & 0xFF) != 0xFF else ODD
    elif letter == c"T":
        if found > <uint64_t> 9223372036854775:
            return ODD
        v.number = <int64_t> (found * 1000)
    return GOOD


cdef int put_value(Out* o, Value* v) except -1:
    """Write the value of a header that was read as a value of 1.0, in its smallest encoding."""
    cdef int kind = v.kind
    if kind == STRING:
        return put_variable(o, 0xA1, v.at, v.n)
    if kind == INT:
        return put_int(o, v.number)
    if kind == LONG:
        return put_long(o, v.number)
    if kind == BOOLEAN:
        return octet(o, 0x41 if v.number else 0x42)
    if kind == BINARY:
        return put_variable(o, 0xA0, v.at, v.n)
    if kind == UINT:
        return put_uint(o, <uint64_t> v.number)
    if kind == NULL_KIND:
        return octet(o, 0x40)
    if kind == TIMESTAMP:
        octet(o, 0x83)
        return number(o, <uint64_t> v.number, 8)
    octet(
        o,
        0x82 if kind == DOUBLE
        else 0x72 if kind == FLOAT
        else 0x50 if kind == UBYTE
        else 0x51 if kind == BYTE
        else 0x60 if kind == USHORT
        else 0x61,
    )
    return put(o, v.at, v.n)


cdef inline int end_table(Out* o, Py_ssize_t start) except -1:
    """Fill in the size of a table or long string that began there."""
    cdef uint64_t size = <uint64_t> (o.size - start - 4)
    cdef int i
    for i in range(4):
        o.at[start + i] = <uint8_t> (size >> (24 - 8 * i))
    return 0


cdef inline bint is_route(cursor p, Py_ssize_t n) noexcept nogil:
    return is_text(p, n, b"CC") or is_text(p, n, b"BCC")
