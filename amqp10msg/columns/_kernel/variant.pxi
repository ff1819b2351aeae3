# Write values as VARIANT, with the same bytes as `_variant`. The Python implementation handles
# described values, decimals, chars, maps with keys that are not text, maps with very many keys, and
# values that are nested deeper than MAX_NESTED.

cdef enum:
    MAX_DICTIONARY = 128
    MAX_PAIRS_OF_OBJECT = 128
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
    MIXED_ELEMENTS = -1

cdef Py_ssize_t MAX_VARIANT_SIZE = MAX_VARIANT_BYTES

# The keys of all objects in a value, in the order of their first occurrence. `size` is the sum of
# their sizes in bytes.
cdef struct Dictionary:
    int count
    Py_ssize_t size
    cursor[MAX_DICTIONARY] keys
    Py_ssize_t[MAX_DICTIONARY] sizes


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
    write_little(out.data + out.size + 1, number, width)
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
    memcpy(out.data + out.size, p, n)
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


cdef int key_id(Dictionary* keys, cursor p, Py_ssize_t n) noexcept nogil:
    """Return the index of a key in the dictionary, adding a new key; -1 if it is full."""
    cdef int i
    for i in range(keys.count):
        if keys.sizes[i] == n and memcmp(keys.keys[i], p, n) == 0:
            return i
    if keys.count == MAX_DICTIONARY:
        return -1
    keys.keys[keys.count] = p
    keys.sizes[keys.count] = n
    keys.size += n
    keys.count += 1
    return keys.count - 1


cdef bint put_metadata(Batch* b, Column* out, Dictionary* keys) noexcept nogil:
    """Write the metadata of a VARIANT: the dictionary of its keys."""
    cdef int width = width_of(<uint64_t> max(keys.size, keys.count)), i
    cdef Py_ssize_t end = 0
    cdef uint8_t* at
    cdef Py_ssize_t needed = 1 + width * (keys.count + 2) + keys.size
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
    cdef int[MAX_PAIRS_OF_OBJECT] order
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
    cdef int[MAX_PAIRS_OF_OBJECT] ids
    cdef Py_ssize_t[MAX_PAIRS_OF_OBJECT] starts
    cdef Py_ssize_t begin = out.size, n
    cdef uint64_t[2] seen = [0, 0]
    cdef int i, code
    if pairs > MAX_PAIRS_OF_OBJECT:
        return NULL
    for i in range(pairs):
        if stop - p < 2:
            return NULL
        code = p[0]
        if key_code:
            if code != key_code and code != key_code + LARGE:
                return NULL
        elif CODES[code].category != SIZED or CODES[code].rule == ANY:
            return NULL
        if stop - p < 1 + CODES[code].width:
            return NULL
        p = open_sized(p + 1, code, &n)
        # At least one byte must follow: the value.
        if n >= stop - p or not is_allowed(p, n, CODES[code].rule):
            return NULL
        ids[i] = key_id(keys, p, n)
        # A duplicate key, or a symbol and a string with the same text, make the row unsupported.
        if ids[i] < 0 or seen[ids[i] >> 6] >> (ids[i] & 63) & 1:
            return NULL
        seen[ids[i] >> 6] |= <uint64_t> 1 << (ids[i] & 63)
        p += n
        starts[i] = out.size - begin
        p = write_variant(b, out, keys, p + 1, stop, p[0], depth)
        if p == NULL:
            return NULL
    if p != stop or not close_object(b, out, begin, keys, ids, starts, <int> pairs):
        return NULL
    return p


cdef cursor write_elements(
    Batch* b, Column* out, Dictionary* keys, cursor p, cursor stop, Py_ssize_t count, int element,
    int depth,
) noexcept nogil:
    """Write the values of a list or an array as an array.

    `element` is the constructor of all values of an AMQP array; for a list, `MIXED_ELEMENTS`. The
    head is first written with offsets of four bytes, and at the end compacted to the narrowest
    width.
    """
    cdef bint is_large = count > 255
    cdef int lead = 5 if is_large else 2, width
    cdef Py_ssize_t head = out.size, begin, size, i
    cdef uint8_t* at
    cdef uint32_t offset
    if count > LARGEST // 8:
        return NULL
    if not has_room(out, lead + 4 * (count + 1)):
        mark_full(b)
        return NULL
    out.size += lead + 4 * (count + 1)
    begin = out.size
    for i in range(count):
        offset = <uint32_t> (out.size - begin)
        memcpy(out.data + head + lead + 4 * i, &offset, 4)
        if element != MIXED_ELEMENTS:
            p = write_variant(b, out, keys, p, stop, element, depth)
        elif p < stop:
            p = write_variant(b, out, keys, p + 1, stop, p[0], depth)
        else:
            return NULL
        if p == NULL:
            return NULL
    if p != stop:
        return NULL
    size = out.size - begin
    width = width_of(<uint64_t> size)
    out.data[head] = <uint8_t> ((width - 1) << 2 | is_large << 4 | ARRAY_TYPE)
    at = write_little(out.data + head + 1, <uint64_t> count, lead - 1)
    for i in range(count):
        memcpy(&offset, out.data + head + lead + 4 * i, 4)
        at = write_little(at, offset, width)
    at = write_little(at, <uint64_t> size, width)
    memmove(at, out.data + begin, size)
    out.size = at - out.data + size
    return p if out.size - head <= MAX_VARIANT_SIZE else NULL


cdef cursor write_compound(
    Batch* b, Column* out, Dictionary* keys, cursor p, cursor end, int code, int depth
) noexcept nogil:
    """Write a list, a map or an array."""
    cdef cursor stop = p
    cdef Py_ssize_t count = 0, begin
    cdef uint8_t element = 0
    cdef bint is_map = code == MAP8 or code == MAP8 + LARGE
    if depth < 0:
        return NULL
    if code == ARRAY8 or code == ARRAY8 + LARGE:
        p = open_array(b, p, end, code, &stop, &count, &element)
        if p == NULL:
            return NULL
        begin = out.size
        if CODES[element].width == 0:
            b.zero_width -= count
            if b.zero_width < 0 or 2 * count > MAX_VARIANT_SIZE:
                return NULL
        p = write_elements(b, out, keys, p, stop, count, element, depth)
        if p != NULL and CODES[element].width == 0 and not charge_zero_room(b, out.size - begin):
            return NULL
        return p
    if not is_map and not is_list(code):
        return NULL
    if code != LIST0:
        p = open_compound(b, p, end, code, &stop, &count)
        if p == NULL or (is_map and count & 1):
            return NULL
    if is_map:
        return write_object(b, out, keys, p, stop, count >> 1, 0, depth)
    return write_elements(b, out, keys, p, stop, count, MIXED_ELEMENTS, depth)


cdef cursor write_variant(
    Batch* b, Column* out, Dictionary* keys, cursor p, cursor stop, int code, int depth
) noexcept nogil:
    """Write a value, after its constructor, as a VARIANT; return its end, or NULL."""
    cdef int category = CODES[code].category
    cdef Py_ssize_t n = CODES[code].width
    cdef int64_t number
    cdef bint done
    if category == SIZED:
        if n > stop - p:
            return NULL
        p = open_sized(p, code, &n)
        if n > stop - p or not is_allowed(p, n, CODES[code].rule):
            return NULL
        if CODES[code].rule == ANY:
            done = put_variant_binary(b, out, p, n)
        else:
            done = put_variant_text(b, out, p, n)
        return p + n if done else NULL
    if n == NO_CODE:
        return NULL
    if code == LIST0 or code >= LIST8:
        return write_compound(b, out, keys, p, stop, code, depth - 1)
    if n > stop - p:
        return NULL
    if category == NOTHING:
        done = put_byte(b, out, VARIANT_NULL)
    elif code == TRUE_CODE or code == FALSE_CODE:
        done = put_byte(b, out, VARIANT_TRUE if code == TRUE_CODE else VARIANT_FALSE)
    elif code == BOOLEAN_CODE:
        if p[0] > 1:
            return NULL
        done = put_byte(b, out, VARIANT_TRUE if p[0] else VARIANT_FALSE)
    elif category == SIGNED:
        number = signed_of(&CODES[code], u64(p))
        if code == TIMESTAMP_CODE and FIRST <= number <= LAST:
            done = put_tagged(b, out, VARIANT_TIMESTAMP, <uint64_t> (number * 1000), 8)
        else:
            done = put_whole(b, out, number)
    elif category == UNSIGNED:
        done = put_unsigned(b, out, ulong_of(&CODES[code], u64(p)))
    elif category == REAL:
        done = put_tagged(b, out, VARIANT_DOUBLE, u64(p), 8)
    elif code == FLOAT_CODE:
        done = put_tagged(b, out, VARIANT_FLOAT, u32(p), 4)
    elif code == UUID_CODE:
        done = put_uuid(b, out, p)
    else:
        return NULL
    return p + n if done else NULL


# Read sections to rows. A VARIANT has two columns: the value, and next to it the metadata.


cdef bint begin_variant(Batch* b, Column* column, Py_ssize_t row, Dictionary* keys) noexcept nogil:
    """Begin the cells of a VARIANT, with an empty dictionary; False if a column is full."""
    keys.count = 0
    keys.size = 0
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
    return p if p != NULL and put_metadata(b, column + 1, &keys) else NULL


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
        p = write_variant(b, column, &keys, p + 1, end, p[0], b.max_depth)
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
