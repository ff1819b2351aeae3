# Write lists, maps and arrays as typed JSON: the result of `amqp10msg.notation.to_typed`, appended
# to the text of a column. The Python implementation handles described values, chars, errors, and
# values that are nested deeper than MAX_NESTED.

# The letter after the backslash for characters with a short escape in JSON, by ASCII code; else 0.
cdef uint8_t[128] SHORT_ESCAPES
for _plain, _short in zip(b'"\\\b\f\n\r\t', b'"\\bfnrt'):
    SHORT_ESCAPES[_plain] = _short


cdef inline bint put_bytes(Batch* b, Column* out, cursor p, Py_ssize_t n) noexcept nogil:
    """Append n bytes to the text of a column; False if it is full."""
    if not has_room(out, n):
        return mark_full(b)
    memcpy(out.data + out.size, p, n)
    out.size += n
    return True


cdef inline bint put_ascii(Batch* b, Column* out, const char* text, Py_ssize_t n) noexcept nogil:
    """Append ASCII text of n bytes to the text of a column; False if it is full."""
    return put_bytes(b, out, <cursor> text, n)


cdef inline bint put_byte(Batch* b, Column* out, int value) noexcept nogil:
    """Append one byte to the text of a column; False if it is full."""
    cdef uint8_t octet = <uint8_t> value
    return put_bytes(b, out, &octet, 1)


cdef bint put_hex(Batch* b, Column* out, cursor p, Py_ssize_t n) noexcept nogil:
    """Write bytes in hex between quotes."""
    if n > LARGEST // 2 or not has_room(out, 2 * n + 2):
        return mark_full(b)
    out.data[out.size] = QUOTE
    write_hex(out.data + out.size + 1, p, n)
    out.data[out.size + 2 * n + 1] = QUOTE
    out.size += 2 * n + 2
    return True


cdef bint put_digits(Batch* b, Column* out, bint negative, uint64_t number) noexcept nogil:
    """Write a number in decimal digits."""
    cdef uint8_t[20] digits
    cdef int i = write_digits(digits, number)
    return (not negative or put_byte(b, out, MINUS)) and put_bytes(b, out, digits + i, 20 - i)


cdef bint put_string(Batch* b, Column* out, cursor p, Py_ssize_t n) noexcept nogil:
    """Write text between quotes, with the same escapes as `json`."""
    cdef cursor stop = p + n, run
    cdef uint8_t[6] escape = [BACKSLASH, 117, ZERO, ZERO, 0, 0]
    if not put_byte(b, out, QUOTE):
        return False
    while True:
        run = p
        while p < stop and p[0] >= 32 and p[0] != QUOTE and p[0] != BACKSLASH:
            p += 1
        if not put_bytes(b, out, run, p - run):
            return False
        if p == stop:
            return put_byte(b, out, QUOTE)
        if SHORT_ESCAPES[p[0]]:
            if not put_byte(b, out, BACKSLASH) or not put_byte(b, out, SHORT_ESCAPES[p[0]]):
                return False
        else:
            write_hex(escape + 4, p, 1)
            if not put_bytes(b, out, escape, 6):
                return False
        p += 1


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


cdef cursor write_items(
    Batch* b, Column* out, cursor p, cursor end, int code, int depth
) noexcept nogil:
    """Write the values of a list, or the pairs of a map, between brackets."""
    cdef cursor stop = p
    cdef cursor keys[MAX_NESTED_PAIRS]
    cdef Py_ssize_t[MAX_NESTED_PAIRS] sizes
    cdef Py_ssize_t count = 0, i, j
    cdef bint pairs = code == MAP8 or code == MAP8 + LARGE
    if depth < 0:
        return NULL
    if code != LIST0:
        if not pairs and code != LIST8 and code != LIST8 + LARGE:
            return NULL
        p = open_compound(b, p, end, code, &stop, &count)
        if p == NULL or (pairs and (count & 1 or count > 2 * MAX_NESTED_PAIRS)):
            return NULL
    if not put_byte(b, out, BRACKET):
        return NULL
    for i in range(count):
        if i and not put_byte(b, out, COMMA):
            return NULL
        if pairs and not i & 1:
            if not put_byte(b, out, BRACKET):
                return NULL
            keys[i >> 1] = find_text(p, stop, &sizes[i >> 1])
            if keys[i >> 1] == NULL:
                return NULL
            for j in range(i >> 1):
                # The row is unsupported if a key is a duplicate, or if a symbol and a string have
                # the same text.
                if sizes[j] == sizes[i >> 1] and memcmp(keys[j], keys[i >> 1], sizes[j]) == 0:
                    return NULL
        p = write_typed(b, out, p, stop, depth)
        if p == NULL or (pairs and i & 1 and not put_byte(b, out, BRACKET_END)):
            return NULL
    return p if p == stop and put_byte(b, out, BRACKET_END) else NULL


cdef cursor find_text(cursor p, cursor stop, Py_ssize_t* n) noexcept nogil:
    """Find the text of a string or symbol after its constructor; NULL for other values."""
    cdef int code
    if stop - p < 2:
        return NULL
    code = p[0]
    if CODES[code].category != SIZED or CODES[code].rule == ANY or stop - p < 1 + CODES[code].width:
        return NULL
    p = open_sized(p + 1, code, n)
    return p if n[0] <= stop - p else NULL


cdef cursor open_array(
    Batch* b, cursor p, cursor end, int code, cursor* stop, Py_ssize_t* count, uint8_t* element
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
    # The caller reserves memory for `count` values: reject more values than remaining bytes, unless
    # the values have no content.
    return p if count[0] <= stop[0] - p or CODES[element[0]].width == 0 else NULL


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


cdef cursor write_array(
    Batch* b, Column* out, cursor p, cursor end, int code, int depth
) noexcept nogil:
    """Write the element constructor of an array and its values."""
    cdef Py_ssize_t count = 0, i
    cdef cursor stop = p
    cdef uint8_t element = 0
    if depth < 0:
        return NULL
    p = open_array(b, p, end, code, &stop, &count, &element)
    if p == NULL:
        return NULL
    if not put_hex(b, out, &element, 1) or not put_ascii(b, out, b",[", 2):
        return NULL
    if CODES[element].width == 0:
        if not write_repeated(b, out, p, stop, element, count, depth):
            return NULL
        count = 0
    for i in range(count):
        if i and not put_byte(b, out, COMMA):
            return NULL
        p = write_value(b, out, p, stop, element, depth)
        if p == NULL:
            return NULL
    return p if p == stop and put_byte(b, out, BRACKET_END) else NULL


cdef bint write_repeated(
    Batch* b, Column* out, cursor p, cursor stop, int code, Py_ssize_t count, int depth
) noexcept nogil:
    """Write `count` values without content, which are all equal."""
    cdef Py_ssize_t begin = out.size, n, i
    b.zero_width -= count
    if b.zero_width < 0:
        return False
    if count == 0:
        return True
    if write_value(b, out, p, stop, code, depth) == NULL:
        return False
    n = out.size - begin
    # `count` is less than 2^32, so the product does not overflow.
    if not charge_zero_room(b, (n + 1) * count):
        return False
    if not has_room(out, (n + 1) * count):
        return mark_full(b)
    for i in range(1, count):
        out.data[out.size] = COMMA
        memcpy(out.data + out.size + 1, out.data + begin, n)
        out.size += n + 1
    return True


cdef cursor write_typed(Batch* b, Column* out, cursor p, cursor stop, int depth) noexcept nogil:
    """Write a value as typed JSON; NULL if it is described or invalid."""
    return write_value(b, out, p + 1, stop, p[0], depth) if p < stop else NULL


cdef cursor write_value(
    Batch* b, Column* out, cursor p, cursor stop, int code, int depth
) noexcept nogil:
    """Write a value as typed JSON, after its constructor."""
    cdef int category = CODES[code].category
    if (
        CODES[code].width == NO_CODE
        or not put_ascii(b, out, b'["', 2)
        or not put_bytes(b, out, CODES[code].name, CODES[code].name_size)
        or not put_byte(b, out, QUOTE)
    ):
        return NULL
    if category != NOTHING:
        if not put_byte(b, out, COMMA):
            return NULL
        if code == ARRAY8 or code == ARRAY8 + LARGE:
            p = write_array(b, out, p, stop, code, depth - 1)
        elif code == LIST0 or code >= LIST8:
            p = write_items(b, out, p, stop, code, depth - 1)
        elif category == SIZED:
            p = write_sized(b, out, p, stop, code)
        elif CODES[code].width <= stop - p and write_fixed(b, out, p, code):
            p += CODES[code].width
        else:
            return NULL
    return p if p != NULL and put_byte(b, out, BRACKET_END) else NULL


cdef bint write_fixed(Batch* b, Column* out, cursor p, int code) noexcept nogil:
    """Write the content of a value of fixed width; False if the value is invalid or a char."""
    cdef int64_t number
    if code == TRUE_CODE or (code == BOOLEAN_CODE and p[0] == 1):
        return put_ascii(b, out, b"true", 4)
    if code == FALSE_CODE or (code == BOOLEAN_CODE and p[0] == 0):
        return put_ascii(b, out, b"false", 5)
    if CODES[code].category == SIGNED:
        number = signed_of(&CODES[code], u64(p))
        # Negate as unsigned, because the minimum has no positive counterpart.
        return put_digits(
            b, out, number < 0, 0 - <uint64_t> number if number < 0 else <uint64_t> number
        )
    if CODES[code].category == UNSIGNED:
        return put_digits(b, out, False, ulong_of(&CODES[code], u64(p)))
    # The other values are the bits of floating-point numbers and UUIDs.
    return code != BOOLEAN_CODE and code != CHAR_CODE and put_hex(b, out, p, CODES[code].width)


cdef cursor write_sized(Batch* b, Column* out, cursor p, cursor stop, int code) noexcept nogil:
    """Write a string, a symbol or a binary."""
    cdef int rule = CODES[code].rule
    cdef Py_ssize_t n
    p = open_sized(p, code, &n)
    if n > stop - p or not is_allowed(p, n, rule):
        return NULL
    if not (put_hex(b, out, p, n) if rule == ANY else put_string(b, out, p, n)):
        return NULL
    return p + n


cdef cursor read_nested(Batch* b, Values* values, cursor p, cursor stop, int code) noexcept nogil:
    """Read a list, a map or an array as the value of an entry."""
    cdef Column* out = &values.members[S]
    if not prepare_member(b, values, S, 0):
        return NULL
    # If an error ends the value, `undo_values` removes what has been written.
    fill_offsets(out, values.count)
    p = write_value(b, out, p, stop, code, b.depth)
    if p != NULL:
        set_bit(out.bits, values.count)
    return p


cdef cursor read_json(
    Batch* b, int section, bint again, Py_ssize_t row, cursor p, cursor end
) noexcept nogil:
    """Read an amqp-value, or the next amqp-sequence, as a body of typed JSON."""
    cdef Column* out = column_at(b, b.body_json)
    cdef int code
    if out == NULL:
        return NULL
    if again:
        # Continue the list of sections: replace its closing bracket by a comma.
        out.size -= 1
        if not put_byte(b, out, COMMA):
            return NULL
    else:
        if begin_text(b, out, row, 0) == NULL:
            return NULL
        if section == AMQP_VALUE:
            return write_typed(b, out, p, end, b.max_depth)
        if not put_byte(b, out, BRACKET):
            return NULL
    code = p[0]
    if not is_list(code):
        return NULL
    p = write_items(b, out, p + 1, end, code, b.max_depth)
    return p if p != NULL and put_byte(b, out, BRACKET_END) else NULL
