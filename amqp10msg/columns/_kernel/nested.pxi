# Traverse the values of lists, maps and arrays, and write them in one of two formats, typed JSON
# (see `json.pxi`) or VARIANT (see `variant.pxi`), or only check them. The Python implementation
# handles described values, chars, errors, values that are nested deeper than MAX_NESTED, and maps
# with more than MAX_PAIRS entries.

cdef enum:
    # Instead of the constructor of an array's elements: each value has its own.
    OWN_CONSTRUCTOR = -1

# Distinct texts of keys, in the order of their first occurrence: the keys of one map or, in a
# VARIANT, of all maps in the value.
cdef struct Dictionary:
    int count
    cursor[MAX_PAIRS] keys
    Py_ssize_t[MAX_PAIRS] sizes


cdef inline cursor skip_value(cursor p, cursor end) noexcept nogil:
    """Skip one value that is not described, by its size. At least one byte must be left."""
    cdef int code = p[0]
    cdef Py_ssize_t n = CODES[code].width
    p += 1
    if n == NO_CODE:
        return NULL
    if code >= BINARY8:
        p = open_sized(p, code, &n)
    return p + n if n <= end - p else NULL


cdef inline cursor open_compound(
    Batch* b, cursor p, cursor end, int code, cursor* stop, Py_ssize_t* count
) noexcept nogil:
    """Read the size and count of a list or a map; return the address of its items, or NULL."""
    p = open_items(p, end, code, stop, count)
    if p == NULL:
        return NULL
    b.items -= count[0]
    return p if count[0] <= stop[0] - p and b.items >= 0 else NULL


cdef inline cursor open_pairs(
    Batch* b, cursor p, cursor end, int code, cursor* stop, Py_ssize_t* pairs
) noexcept nogil:
    """Read the size and count of a map; return the address of its entries, or NULL."""
    p = open_compound(b, p, end, code, stop, pairs)
    if pairs[0] & 1 or pairs[0] > 2 * MAX_PAIRS:
        return NULL
    pairs[0] >>= 1
    return p


cdef cursor open_array(
    Batch* b, cursor p, cursor end, int code, cursor* stop, Py_ssize_t* count, int* element
) noexcept nogil:
    """Read the head of an array; return the address of its values, or NULL.

    The head consists of size, count and element constructor.
    """
    cdef Py_ssize_t wide = CODES[code].width, size
    if end - p < 2 * wide + 1:
        return NULL
    size = p[0] if wide == 1 else u32(p)
    p += wide
    if size < wide + 1 or size > end - p:
        return NULL
    stop[0] = p + size
    count[0] = p[0] if wide == 1 else u32(p)
    element[0] = p[wide]
    p += wide + 1
    b.items -= count[0]
    if b.items < 0 or CODES[element[0]].width == NO_CODE:
        return NULL
    if CODES[element[0]].width == 0:
        b.zero_width -= count[0]
        return p if b.zero_width >= 0 else NULL
    # The caller reserves memory for `count` values: reject more values than remaining bytes.
    return p if count[0] <= stop[0] - p else NULL


cdef inline bint charge_zero_room(Batch* b, Py_ssize_t size) noexcept nogil:
    """Charge the output of values without content to the limit `zero_room` of the batch.

    Returns whether the output is within the limit. Values without content have no bytes in the
    message, so their number is limited for each message (`zero_width`), and the size of their
    output for the batch (`zero_room`, see `_decode`).
    """
    b.zero_room -= size
    # In a larger batch, report that a column is full, so that the caller halves the batch. In a
    # batch of one message, the row is unsupported.
    return b.zero_room >= 0 or (b.rows > 1 and mark_full(b))


cdef inline cursor open_key(cursor p, cursor stop, int key_code, Py_ssize_t* n) noexcept nogil:
    """Read the constructor and size of a key, and check its text; return its address, or NULL.

    `key_code` is the short format code that the key must have; 0 for any string or symbol.
    """
    cdef int code = p[0]
    if p >= stop or (key_code and code != key_code and code != key_code + LARGE):
        return NULL
    if CODES[code].category != SIZED or CODES[code].rule == ANY:
        return NULL
    p = open_sized(p + 1, code, n)
    # At least one byte must follow: the value.
    return p if n[0] < stop - p and is_allowed(p, n[0], CODES[code].rule) else NULL


cdef int key_id(Dictionary* keys, cursor p, Py_ssize_t n) noexcept nogil:
    """Return the index of a key in the dictionary, adding a new key; -1 if it is full."""
    cdef int i
    for i in range(keys.count):
        if keys.sizes[i] == n and memcmp(keys.keys[i], p, n) == 0:
            return i
    if keys.count == MAX_PAIRS:
        return -1
    keys.keys[keys.count] = p
    keys.sizes[keys.count] = n
    keys.count += 1
    return keys.count - 1


cdef inline bint is_true(cursor p, int code) noexcept nogil:
    """Return the value of a boolean whose content is at `p`."""
    return code == TRUE_CODE or (code == BOOLEAN_CODE and p[0])


cdef cursor write_value(
    Batch* b, Column* out, Dictionary* keys, cursor p, cursor stop, int code, int depth
) noexcept nogil:
    """Write a value; return its end, or NULL if it is described, invalid, or beyond a limit.

    `out` is the column; NULL to only check the value. `keys` is the dictionary of the VARIANT; NULL
    for typed JSON. `code` is the constructor of the value, which comes before `p`; OWN_CONSTRUCTOR
    to read it at `p`.
    """
    cdef Py_ssize_t n
    if code == OWN_CONSTRUCTOR:
        if p >= stop:
            return NULL
        code = p[0]
        p += 1
    n = CODES[code].width
    if CODES[code].category == SIZED:
        p = open_sized(p, code, &n)
        if n > stop - p or not is_allowed(p, n, CODES[code].rule):
            return NULL
    elif n == NO_CODE:
        return NULL
    elif code == LIST0 or code >= LIST8:
        if keys != NULL or out == NULL:
            return write_compound(b, out, keys, p, stop, code, depth - 1)
        if not begin_json(b, out, code):
            return NULL
        p = write_compound(b, out, NULL, p, stop, code, depth - 1)
        return p if p != NULL and put_byte(b, out, BRACKET_END) else NULL
    elif n > stop - p or (code == BOOLEAN_CODE and p[0] > 1):
        return NULL
    if keys != NULL:
        return p + n if put_variant(b, out, p, n, code) else NULL
    if out != NULL:
        return p + n if put_json(b, out, p, n, code) else NULL
    return p + n if code != CHAR_CODE else NULL


cdef cursor write_compound(
    Batch* b, Column* out, Dictionary* keys, cursor p, cursor end, int code, int depth
) noexcept nogil:
    """Write a list, a map or an array, after its constructor, like `write_value`."""
    cdef cursor stop = p
    cdef Py_ssize_t count = 0
    cdef int element = OWN_CONSTRUCTOR
    cdef bint is_map = code == MAP8 or code == MAP8 + LARGE
    if depth < 0:
        return NULL
    if is_map:
        p = open_pairs(b, p, end, code, &stop, &count)
    elif code == ARRAY8 or code == ARRAY8 + LARGE:
        p = open_array(b, p, end, code, &stop, &count, &element)
    elif code != LIST0:
        p = open_compound(b, p, end, code, &stop, &count)
    if p == NULL:
        return NULL
    if out == NULL:
        p = check_items(b, p, stop, count, is_map, element, depth)
    elif keys == NULL:
        if is_map:
            p = write_json_pairs(b, out, p, stop, count, depth)
        else:
            p = write_json_items(b, out, p, stop, count, element, depth)
    elif is_map:
        p = write_object(b, out, keys, p, stop, count, 0, depth)
    else:
        p = write_elements(b, out, keys, p, stop, count, element, depth)
    return p if p == stop else NULL


cdef cursor check_items(
    Batch* b, cursor p, cursor stop, Py_ssize_t count, bint is_map, int element, int depth
) noexcept nogil:
    """Check the values of a list or an array, or the entries of a map."""
    cdef Dictionary names
    cdef Py_ssize_t n, i
    names.count = 0
    if element != OWN_CONSTRUCTOR and CODES[element].width == 0:
        # Values without content are all equal.
        count = min(count, 1)
    for i in range(count):
        if is_map:
            p = open_key(p, stop, 0, &n)
            if p == NULL or key_id(&names, p, n) != i:
                return NULL
            p += n
        p = write_value(b, NULL, NULL, p, stop, element, depth)
        if p == NULL:
            return NULL
    return p


cdef inline cursor check_value(Batch* b, cursor p, cursor stop, int code) noexcept nogil:
    """Check a value of a map section that no column needs; return its end, or NULL."""
    cdef Py_ssize_t n = CODES[code].width
    if CODES[code].category == OTHER or CODES[code].category == SIZED:
        return write_value(b, NULL, NULL, p, stop, code, b.depth)
    # Any content of a number is valid. Without the call, this is faster.
    return p + n if n <= stop - p else NULL
