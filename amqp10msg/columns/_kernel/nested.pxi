# Values that hold others, as typed JSON: what `amqp10msg.notation.to_typed` makes of them is
# written after the cells of a column. Described values, chars and errors are left to the plain
# implementation, and so is what is nested deeper than MAX_NESTED.

# By ASCII code: the letter after the backslash, where JSON has a short escape.
cdef uint8_t[128] SHORT_ESCAPES
for _plain, _short in zip(b'"\\\b\f\n\r\t', b'"\\bfnrt'):
    SHORT_ESCAPES[_plain] = _short


cdef inline bint put_bytes(Batch* b, Column* out, cursor p, Py_ssize_t n) noexcept nogil:
    if not has_room(out, n):
        return full(b)
    memcpy(out.data + out.size, p, n)
    out.size += n
    return True


cdef inline bint put_ascii(Batch* b, Column* out, const char* text, Py_ssize_t n) noexcept nogil:
    return put_bytes(b, out, <cursor> text, n)


cdef inline bint put_mark(Batch* b, Column* out, int mark) noexcept nogil:
    cdef uint8_t octet = <uint8_t> mark
    return put_bytes(b, out, &octet, 1)


cdef bint put_hex(Batch* b, Column* out, cursor p, Py_ssize_t n) noexcept nogil:
    """Write bytes in hex between quotes."""
    if n > LARGEST // 2 or not has_room(out, 2 * n + 2):
        return full(b)
    out.data[out.size] = QUOTE
    write_hex(out.data + out.size + 1, p, n)
    out.data[out.size + 2 * n + 1] = QUOTE
    out.size += 2 * n + 2
    return True


cdef bint put_digits(Batch* b, Column* out, bint negative, uint64_t number) noexcept nogil:
    cdef uint8_t[20] digits
    cdef int i = write_digits(digits, number)
    return (not negative or put_mark(b, out, MINUS)) and put_bytes(b, out, digits + i, 20 - i)


cdef bint put_string(Batch* b, Column* out, cursor p, Py_ssize_t n) noexcept nogil:
    """Write text between quotes, escaping what `json` does."""
    cdef cursor stop = p + n, run
    cdef uint8_t[6] escape = [BACKSLASH, 117, ZERO, ZERO, 0, 0]
    if not put_mark(b, out, QUOTE):
        return False
    while True:
        run = p
        while p < stop and p[0] >= 32 and p[0] != QUOTE and p[0] != BACKSLASH:
            p += 1
        if not put_bytes(b, out, run, p - run):
            return False
        if p == stop:
            return put_mark(b, out, QUOTE)
        if SHORT_ESCAPES[p[0]]:
            if not put_mark(b, out, BACKSLASH) or not put_mark(b, out, SHORT_ESCAPES[p[0]]):
                return False
        else:
            write_hex(escape + 4, p, 1)
            if not put_bytes(b, out, escape, 6):
                return False
        p += 1


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


cdef inline cursor open_compound(
    Batch* b, cursor p, cursor end, int code, cursor* stop, Py_ssize_t* count
) noexcept nogil:
    """Read the size and count of a list or a map: return where its items begin, or NULL."""
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
    if not put_mark(b, out, BRACKET):
        return NULL
    for i in range(count):
        if i and not put_mark(b, out, COMMA):
            return NULL
        if pairs and not i & 1:
            if not put_mark(b, out, BRACKET):
                return NULL
            keys[i >> 1] = text_at(p, stop, &sizes[i >> 1])
            if keys[i >> 1] == NULL:
                return NULL
            for j in range(i >> 1):
                # Neither a duplicate nor a symbol and a string of one text is judged here.
                if sizes[j] == sizes[i >> 1] and memcmp(keys[j], keys[i >> 1], sizes[j]) == 0:
                    return NULL
        p = write_typed(b, out, p, stop, depth)
        if p == NULL or (pairs and i & 1 and not put_mark(b, out, BRACKET_END)):
            return NULL
    return p if p == stop and put_mark(b, out, BRACKET_END) else NULL


cdef cursor text_at(cursor p, cursor stop, Py_ssize_t* n) noexcept nogil:
    """Find the bytes of a string or a symbol with its constructor; NULL if there is none."""
    cdef int code
    if stop - p < 2:
        return NULL
    code = p[0]
    if CODES[code].way != SIZED or CODES[code].rule == ANY or stop - p < 1 + CODES[code].width:
        return NULL
    p = open_sized(p + 1, code, n)
    return p if n[0] <= stop - p else NULL


cdef cursor open_array(
    Batch* b, cursor p, cursor end, int code, cursor* stop, Py_ssize_t* count, uint8_t* element
) noexcept nogil:
    """Read the size, count and element constructor of an array: return where its values begin."""
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
    # Room is made for as many as there are said to be: only values without content take no bytes.
    return p if count[0] <= stop[0] - p or CODES[element[0]].width == 0 else NULL


cdef inline bint is_affordable(Batch* b, Py_ssize_t size) noexcept nogil:
    """Whether so many bytes for values without content are within the bounds of the batch.

    The input does not pay for them byte by byte, so they are counted for the message in
    `zero_width`, and what they become for the batch in `zero_room` (see `_decode`).
    """
    b.zero_room -= size
    # A single message is left to the plain implementation.
    return b.zero_room >= 0 or (b.rows > 1 and full(b))


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
        if i and not put_mark(b, out, COMMA):
            return NULL
        p = write_value(b, out, p, stop, element, depth)
        if p == NULL:
            return NULL
    return p if p == stop and put_mark(b, out, BRACKET_END) else NULL


cdef bint write_repeated(
    Batch* b, Column* out, cursor p, cursor stop, int code, Py_ssize_t count, int depth
) noexcept nogil:
    """Write values without content, which are all the same."""
    cdef Py_ssize_t begin = out.size, n, i
    b.zero_width -= count
    if b.zero_width < 0:
        return False
    if count == 0:
        return True
    if write_value(b, out, p, stop, code, depth) == NULL:
        return False
    n = out.size - begin
    # The count has four bytes at most, so this does not overflow.
    if not is_affordable(b, (n + 1) * count):
        return False
    if not has_room(out, (n + 1) * count):
        return full(b)
    for i in range(1, count):
        out.data[out.size] = COMMA
        memcpy(out.data + out.size + 1, out.data + begin, n)
        out.size += n + 1
    return True


cdef cursor write_typed(Batch* b, Column* out, cursor p, cursor stop, int depth) noexcept nogil:
    """Write a value as typed JSON; NULL if it is described or wrong."""
    return write_value(b, out, p + 1, stop, p[0], depth) if p < stop else NULL


cdef cursor write_value(
    Batch* b, Column* out, cursor p, cursor stop, int code, int depth
) noexcept nogil:
    """Write a value as typed JSON, after its constructor."""
    cdef int way = CODES[code].way
    if (
        CODES[code].width == NO_CODE
        or not put_ascii(b, out, b'["', 2)
        or not put_bytes(b, out, CODES[code].name, CODES[code].name_size)
        or not put_mark(b, out, QUOTE)
    ):
        return NULL
    if way != NOTHING:
        if not put_mark(b, out, COMMA):
            return NULL
        if code == ARRAY8 or code == ARRAY8 + LARGE:
            p = write_array(b, out, p, stop, code, depth - 1)
        elif code == LIST0 or code >= LIST8:
            p = write_items(b, out, p, stop, code, depth - 1)
        elif way == SIZED:
            p = write_sized(b, out, p, stop, code)
        elif CODES[code].width <= stop - p and write_fixed(b, out, p, code):
            p += CODES[code].width
        else:
            return NULL
    return p if p != NULL and put_mark(b, out, BRACKET_END) else NULL


cdef bint write_fixed(Batch* b, Column* out, cursor p, int code) noexcept nogil:
    """Write the content of a value of a fixed width."""
    cdef int64_t number
    if code == TRUE_CODE or (code == BOOLEAN_CODE and p[0] == 1):
        return put_ascii(b, out, b"true", 4)
    if code == FALSE_CODE or (code == BOOLEAN_CODE and p[0] == 0):
        return put_ascii(b, out, b"false", 5)
    if CODES[code].way == SIGNED:
        number = signed_of(&CODES[code], u64(p))
        # Negated without a sign, as the least number has no positive counterpart.
        return put_digits(
            b, out, number < 0, 0 - <uint64_t> number if number < 0 else <uint64_t> number
        )
    if CODES[code].way == UNSIGNED:
        return put_digits(b, out, False, ulong_of(&CODES[code], u64(p)))
    # What is left are the bits of floating-point numbers and UUIDs.
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
    # What is left of one that ends in an error, `undo_values` takes back.
    fill_offsets(out, values.count)
    p = write_value(b, out, p, stop, code, b.depth)
    if p != NULL:
        set_bit(out.bits, values.count)
    return p


cdef cursor read_json(
    Batch* b, int section, bint again, Py_ssize_t row, cursor p, cursor end
) noexcept nogil:
    """Read an amqp-value, or one more amqp-sequence, as a body of typed JSON."""
    cdef Column* out = column_at(b, b.body_json)
    cdef int code
    if out == NULL:
        return NULL
    if again:
        # The list of sections goes on in the place of its closing bracket.
        out.size -= 1
        if not put_mark(b, out, COMMA):
            return NULL
    else:
        if begin_text(b, out, row, 0) == NULL:
            return NULL
        if section == AMQP_VALUE:
            return write_typed(b, out, p, end, b.max_depth)
        if not put_mark(b, out, BRACKET):
            return NULL
    code = p[0]
    if not is_list(code):
        return NULL
    p = write_items(b, out, p + 1, end, code, b.max_depth)
    return p if p != NULL and put_mark(b, out, BRACKET_END) else NULL
