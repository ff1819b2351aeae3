# Headers of 0-9-1 messages that are translated from or to sections of 1.0.

# A header: its name, the type letter of its field, its 1.0 value, and whether the residual must
# keep the value because the field does not hold it exactly (`kept`).
cdef struct Entry:
    cursor name
    Py_ssize_t size
    int letter
    Value value
    bint kept

cdef struct Entries:
    Py_ssize_t count
    Entry[MOST] at


cdef inline bint has_name(
    Entries* entries, Py_ssize_t first, Py_ssize_t end, cursor p, Py_ssize_t n
) noexcept nogil:
    """Whether one of the headers from index `first` to before `end` has this name."""
    cdef Py_ssize_t i
    for i in range(first, end):
        if is_same(entries.at[i].name, entries.at[i].size, p, n):
            return True
    return False


cdef bint is_among(list names, cursor p, Py_ssize_t n) except -1:
    """Whether a list of names contains this name."""
    cdef bytes name
    for name in names:
        if equals_bytes(p, n, name):
            return True
    return False


cdef inline bint sorts_before(
    cursor p, Py_ssize_t n, cursor other, Py_ssize_t size
) noexcept nogil:
    """Whether a name sorts before another name, comparing bytes."""
    cdef int order = memcmp(p, other, <size_t> min(n, size))
    return order < 0 or (order == 0 and n < size)


cdef inline bint entry_sorts_before(Entry* one, Entry* other, bint by_size) noexcept nogil:
    """Whether an entry's name sorts before another's, by bytes; with `by_size`, by length first."""
    if by_size and one.size != other.size:
        return one.size < other.size
    return sorts_before(one.name, one.size, other.name, other.size)


cdef bint sort_entries(Entries* entries, uint8_t* places, bint by_size) noexcept nogil:
    """Set `places` to the indexes of entries in the order of their names.

    Return whether the entries were sorted already.
    """
    cdef Py_ssize_t i, k
    cdef uint8_t held
    cdef bint are_sorted = True
    for i in range(entries.count):
        places[i] = <uint8_t> i
    for i in range(1, entries.count):
        k = i
        held = places[i]
        while k > 0 and entry_sorts_before(&entries.at[held], &entries.at[places[k - 1]], by_size):
            places[k] = places[k - 1]
            k -= 1
            are_sorted = False
        places[k] = held
    return are_sorted


cdef int put_field(Out* o, Entry* entry) except -1:
    """Write a header: its name, type letter and value."""
    cdef Value* v = &entry.value
    cdef int letter = entry.letter
    cdef Py_ssize_t start
    put_byte(o, <int> entry.size)
    put(o, entry.name, entry.size)
    put_byte(o, letter)
    if letter == c"S" or letter == c"x":
        if v.kind == UUID:
            put_number(o, 45, 4)
            put_cstring(o, b"urn:uuid:")
            return put_uuid(o, v.at)
        if v.kind == ULONG:
            start = o.size
            put_number(o, 0, 4)
            put_digits(o, <uint64_t> v.number)
            o.at[start + 3] = <uint8_t> (o.size - start - 4)
            return 0
        put_number(o, <uint64_t> v.n, 4)
        return put(o, v.at, v.n)
    if letter == c"V":
        return 0
    if letter == c"t" or letter == c"b" or letter == c"B":
        return put_number(o, <uint64_t> v.number, 1)
    if letter == c"s" or letter == c"u":
        return put_number(o, <uint64_t> v.number, 2)
    if letter == c"I" or letter == c"i":
        return put_number(o, <uint64_t> v.number, 4)
    if letter == c"l":
        return put_number(o, <uint64_t> v.number, 8)
    if letter == c"T":
        return put_number(o, <uint64_t> (v.number // 1000), 8)
    return put(o, v.at, v.n)  # f, d


cdef inline int end_table(Out* o, Py_ssize_t start) except -1:
    """Fill in the four-byte size at `start` of a table or long string that was written."""
    cdef uint64_t size = <uint64_t> (o.size - start - 4)
    cdef int i
    for i in range(4):
        o.at[start + i] = <uint8_t> (size >> (24 - 8 * i))
    return 0


cdef inline bint is_cc_or_bcc(cursor p, Py_ssize_t n) noexcept nogil:
    """Whether a name is CC or BCC."""
    return is_text(p, n, b"CC") or is_text(p, n, b"BCC")
