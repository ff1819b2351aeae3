# Write values as VARIANT, with the same bytes as `_variant`. The Python implementation handles
# described values, decimals, chars, maps with keys that are not text, maps with very many keys, and
# values that are nested deeper than MAX_NESTED.

cdef enum:
    # The first byte of a value: basic types, and primitive types (whose basic type is 0).
    SHORT_TEXT = 1
    OBJECT_TYPE = 2
    ARRAY_TYPE = 3
    VARIANT_NULL = 0 << 2
    VARIANT_TRUE = 1 << 2
    VARIANT_FALSE = 2 << 2
    VARIANT_INT8 = 3 << 2
    VARIANT_DOUBLE = 7 << 2
    VARIANT_DECIMAL16 = 10 << 2
    VARIANT_TIMESTAMP = 12 << 2
    VARIANT_FLOAT = 14 << 2
    VARIANT_BINARY = 15 << 2
    VARIANT_TEXT = 16 << 2
    MAX_SHORT_TEXT = 63

cdef Py_ssize_t MAX_VARIANT_SIZE = MAX_VARIANT_BYTES


cdef inline int width_of(uint64_t number) noexcept nogil:
    """Return the number of bytes that a number below 2^32 needs."""
    return 1 if number < 1 << 8 else 2 if number < 1 << 16 else 3 if number < 1 << 24 else 4


cdef inline uint8_t* write_little(uint8_t* out, uint64_t number, int width) noexcept nogil:
    """Write a number in little-endian order; return the address after it."""
    cdef int i
    for i in range(width):
        out[i] = <uint8_t> (number >> 8 * i)
    return out + width


cdef inline bint put_tagged(
    Batch* b, Column* out, int tag, uint64_t number, int width
) noexcept nogil:
    """Write the first byte of a value, and a number of `width` bytes."""
    if not has_room(out, 9):
        return mark_full(b)
    out.data[out.size] = <uint8_t> tag
    # Writing a constant 8 bytes is faster than writing `width` bytes.
    write_little(out.data + out.size + 1, number, 8)
    out.size += 1 + width
    return True


cdef inline bint put_whole(Batch* b, Column* out, int64_t number) noexcept nogil:
    """Write an integer in 1, 2, 4 or 8 bytes: as few as possible."""
    cdef int power = 3
    if -128 <= number < 128:
        power = 0
    elif number == <int16_t> number:
        power = 1
    elif number == <int32_t> number:
        power = 2
    return put_tagged(b, out, VARIANT_INT8 + 4 * power, <uint64_t> number, 1 << power)


cdef bint put_unsigned(Batch* b, Column* out, uint64_t number) noexcept nogil:
    """Write a ulong as an integer, or as a decimal of 16 bytes."""
    cdef uint8_t* at
    if number >> 63 == 0:
        return put_whole(b, out, <int64_t> number)
    if not has_room(out, 18):
        return mark_full(b)
    at = out.data + out.size
    at[0] = VARIANT_DECIMAL16
    at[1] = 0
    write_little(write_little(at + 2, number, 8), 0, 8)
    out.size += 18
    return True


cdef inline bint put_variant_text(Batch* b, Column* out, cursor p, Py_ssize_t n) noexcept nogil:
    """Write a text. The caller has checked that it is UTF-8."""
    if not has_room(out, n + 5):
        return mark_full(b)
    if n <= MAX_SHORT_TEXT:
        out.data[out.size] = <uint8_t> (n << 2 | SHORT_TEXT)
        out.size += 1
    else:
        out.data[out.size] = VARIANT_TEXT
        write_little(out.data + out.size + 1, <uint64_t> n, 4)
        out.size += 5
    copied(out.data + out.size, p, n)
    out.size += n
    return True


cdef bint put_variant_binary(Batch* b, Column* out, cursor p, Py_ssize_t n) noexcept nogil:
    """Write a binary."""
    return put_tagged(b, out, VARIANT_BINARY, <uint64_t> n, 4) and put_bytes(b, out, p, n)


cdef bint put_uuid(Batch* b, Column* out, cursor p) noexcept nogil:
    """Write a UUID as its text."""
    if not has_room(out, 37):
        return mark_full(b)
    out.data[out.size] = <uint8_t> (36 << 2 | SHORT_TEXT)
    write_uuid(out.data + out.size + 1, p)
    out.size += 37
    return True




cdef bint put_metadata(Batch* b, Column* out, Dictionary* keys) noexcept nogil:
    """Write the metadata of a VARIANT: the dictionary of its keys."""
    cdef Py_ssize_t size = 0, end = 0, needed
    cdef uint8_t* at
    cdef int width, i
    for i in range(keys.count):
        size += keys.sizes[i]
    width = width_of(<uint64_t> max(size, keys.count))
    needed = 1 + width * (keys.count + 2) + size
    if needed > MAX_VARIANT_SIZE:
        return False
    if not has_room(out, needed):
        return mark_full(b)
    at = out.data + out.size
    at[0] = <uint8_t> (1 | (width - 1) << 6)
    at = write_little(write_little(at + 1, keys.count, width), 0, width)
    for i in range(keys.count):
        end += keys.sizes[i]
        at = write_little(at, <uint64_t> end, width)
    for i in range(keys.count):
        memcpy(at, keys.keys[i], keys.sizes[i])
        at += keys.sizes[i]
    out.size = at - out.data
    return True


cdef bint precedes(cursor p, Py_ssize_t n, cursor other, Py_ssize_t m) noexcept nogil:
    """Return whether the key `p` sorts before the key `other`."""
    cdef int found = memcmp(p, other, min(n, m))
    return found < 0 or (found == 0 and n < m)


cdef bint close_object(
    Batch* b, Column* out, Py_ssize_t begin, Dictionary* keys, int* ids, Py_ssize_t* starts,
    int count,
) noexcept nogil:
    """Insert the head of an object before its values, which have been written at `begin`."""
    cdef int[MAX_PAIRS] order
    cdef Py_ssize_t size = out.size - begin, head
    cdef int width = width_of(<uint64_t> size), i, j
    cdef uint8_t* at
    # Insertion sort: messages have few properties, mostly in the same order.
    for i in range(count):
        j = i
        while j > 0 and precedes(
            keys.keys[ids[i]], keys.sizes[ids[i]],
            keys.keys[ids[order[j - 1]]], keys.sizes[ids[order[j - 1]]],
        ):
            order[j] = order[j - 1]
            j -= 1
        order[j] = i
    head = 2 + count + width * (count + 1)
    if not has_room(out, head):
        return mark_full(b)
    memmove(out.data + begin + head, out.data + begin, size)
    at = out.data + begin
    # The ids of keys and their count are below 256, so each takes a byte.
    at[0] = <uint8_t> ((width - 1) << 2 | OBJECT_TYPE)
    at[1] = <uint8_t> count
    at += 2
    for i in range(count):
        at[i] = <uint8_t> ids[order[i]]
    at += count
    for i in range(count):
        at = write_little(at, <uint64_t> starts[order[i]], width)
    write_little(at, <uint64_t> size, width)
    out.size += head
    return head + size <= MAX_VARIANT_SIZE


cdef cursor write_object(
    Batch* b, Column* out, Dictionary* keys, cursor p, cursor stop, Py_ssize_t pairs, int key_code,
    int depth,
) noexcept nogil:
    """Write the entries of a map as an object.

    `key_code` is the short format code that all keys must have; 0 for any string or symbol.
    """
    cdef int[MAX_PAIRS] ids
    cdef Py_ssize_t[MAX_PAIRS] starts
    cdef Py_ssize_t begin = out.size, n
    cdef uint64_t[2] seen = [0, 0]
    cdef int i
    for i in range(pairs):
        p = open_key(p, stop, key_code, &n)
        if p == NULL:
            return NULL
        ids[i] = key_id(keys, p, n)
        # A duplicate key, or a symbol and a string with the same text, make the row unsupported.
        if ids[i] < 0 or seen[ids[i] >> 6] >> (ids[i] & 63) & 1:
            return NULL
        seen[ids[i] >> 6] |= <uint64_t> 1 << (ids[i] & 63)
        starts[i] = out.size - begin
        p = write_value(b, out, keys, p + n, stop, OWN_CONSTRUCTOR, depth)
        if p == NULL:
            return NULL
    return p if close_object(b, out, begin, keys, ids, starts, <int> pairs) else NULL


cdef cursor write_elements(
    Batch* b, Column* out, Dictionary* keys, cursor p, cursor stop, Py_ssize_t count, int element,
    int depth,
) noexcept nogil:
    """Write the values of a list or an array as an array.

    `element` is the constructor of all values of an AMQP array; for a list, OWN_CONSTRUCTOR. The
    head is first written with offsets of four bytes, and at the end compacted to the narrowest
    width.
    """
    cdef bint is_large = count > 255
    cdef int lead = 5 if is_large else 2, width
    cdef Py_ssize_t head = out.size, begin, size, i
    cdef uint8_t* at
    cdef uint32_t offset
    # Every value takes at least one byte, and one for its offset.
    if 2 * count > MAX_VARIANT_SIZE:
        return NULL
    if not has_room(out, lead + 4 * (count + 1)):
        mark_full(b)
        return NULL
    out.size += lead + 4 * (count + 1)
    begin = out.size
    for i in range(count):
        offset = <uint32_t> (out.size - begin)
        memcpy(out.data + head + lead + 4 * i, &offset, 4)
        p = write_value(b, out, keys, p, stop, element, depth)
        if p == NULL:
            return NULL
    size = out.size - begin
    width = width_of(<uint64_t> size)
    out.data[head] = <uint8_t> ((width - 1) << 2 | is_large << 4 | ARRAY_TYPE)
    at = write_little(out.data + head + 1, <uint64_t> count, lead - 1)
    # Writing a constant 4 bytes is faster than writing `width` bytes. It never reaches the next
    # offset to read.
    for i in range(count):
        memcpy(&offset, out.data + head + lead + 4 * i, 4)
        write_little(at, offset, 4)
        at += width
    at = write_little(at, <uint64_t> size, width)
    memmove(at, out.data + begin, size)
    out.size = at - out.data + size
    if out.size - head > MAX_VARIANT_SIZE:
        return NULL
    if element != OWN_CONSTRUCTOR and CODES[element].width == 0:
        return p if charge_zero_room(b, out.size - head) else NULL
    return p


cdef bint put_variant(Batch* b, Column* out, cursor p, Py_ssize_t n, int code) noexcept nogil:
    """Write a value that is not a compound, whose n bytes `write_value` has checked.

    Returns False if the value is a decimal or a char, or the column is full.
    """
    cdef int category = CODES[code].category
    cdef int64_t number
    if category == SIZED:
        if CODES[code].rule == ANY:
            return put_variant_binary(b, out, p, n)
        return put_variant_text(b, out, p, n)
    if CODES[code].kind == BOOLEAN:
        return put_byte(b, out, VARIANT_TRUE if is_true(p, code) else VARIANT_FALSE)
    if category == SIGNED:
        number = signed_of(&CODES[code], u64(p))
        if code == TIMESTAMP_CODE and FIRST <= number <= LAST:
            return put_tagged(b, out, VARIANT_TIMESTAMP, <uint64_t> (number * 1000), 8)
        return put_whole(b, out, number)
    if category == NOTHING:
        return put_byte(b, out, VARIANT_NULL)
    if category == UNSIGNED:
        return put_unsigned(b, out, ulong_of(&CODES[code], u64(p)))
    if category == REAL:
        return put_tagged(b, out, VARIANT_DOUBLE, u64(p), 8)
    if code == FLOAT_CODE:
        return put_tagged(b, out, VARIANT_FLOAT, u32(p), 4)
    return code == UUID_CODE and put_uuid(b, out, p)


# Read sections to rows. A VARIANT has two columns: the value, and next to it the metadata.


cdef bint begin_variant(Batch* b, Column* column, Py_ssize_t row, Dictionary* keys) noexcept nogil:
    """Begin the cells of a VARIANT, with an empty dictionary; False if a column is full."""
    keys.count = 0
    return begin_text(b, column, row, 0) != NULL and begin_text(b, column + 1, row, 0) != NULL


cdef cursor read_map_variant(
    Batch* b, Map* map, int section, Py_ssize_t row, cursor p, cursor end
) noexcept nogil:
    """Read a map section as a VARIANT object."""
    cdef Column* column = map.variant
    cdef Dictionary keys
    cdef cursor stop = end
    cdef Py_ssize_t pairs = 0
    p = open_map(b, section, p, end, &stop, &pairs)
    if p == NULL or not begin_variant(b, column, row, &keys):
        return NULL
    p = write_object(
        b, column, &keys, p, stop, pairs,
        STRING8 if section == APPLICATION_PROPERTIES else SYMBOL8, b.depth,
    )
    return p if p == stop and put_metadata(b, column + 1, &keys) else NULL


cdef cursor read_body_variant(
    Batch* b, int section, Py_ssize_t row, cursor p, cursor end
) noexcept nogil:
    """Read an amqp-value as a VARIANT, or one amqp-sequence as an array with one element."""
    cdef Column* column = column_at(b, b.body_value)
    cdef Dictionary keys
    cdef uint8_t[4] array_head = [ARRAY_TYPE, 1, 0, 0]
    cdef Py_ssize_t begin, size
    cdef int width
    if p >= end or not begin_variant(b, column, row, &keys):
        return NULL
    begin = column.size
    if section == AMQP_VALUE:
        p = write_value(b, column, &keys, p, end, OWN_CONSTRUCTOR, b.max_depth)
        if p != NULL and column.size - begin > MAX_VARIANT_SIZE:
            return NULL
    else:
        if not is_list(p[0]):
            return NULL
        p = write_compound(b, column, &keys, p + 1, end, p[0], b.max_depth)
        if p == NULL:
            return NULL
        size = column.size - begin
        width = width_of(<uint64_t> size)
        if not has_room(column, 2 + 2 * width):
            mark_full(b)
            return NULL
        memmove(column.data + begin + 2 + 2 * width, column.data + begin, size)
        array_head[0] |= <uint8_t> ((width - 1) << 2)
        memcpy(column.data + begin, array_head, 2)
        write_little(
            write_little(column.data + begin + 2, 0, width), <uint64_t> size, width
        )
        column.size += 2 + 2 * width
        if column.size - begin > MAX_VARIANT_SIZE:
            return NULL
    return p if p != NULL and put_metadata(b, column + 1, &keys) else NULL
