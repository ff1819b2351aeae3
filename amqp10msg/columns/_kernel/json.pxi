# Write values as typed JSON, the result of `amqp10msg.notation.to_typed`, appended to the text of a
# column.


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


cdef inline bint needs_escape(uint64_t word) noexcept nogil:
    """Return whether a word contains a control character, a quote or a backslash."""
    cdef uint64_t ones = 0x0101010101010101
    cdef uint64_t quotes = word ^ QUOTE * ones, backslashes = word ^ BACKSLASH * ones
    # In each of the three terms, the high bit of the first such byte is set.
    return (
        ((word - 32 * ones) & ~word)
        | ((quotes - ones) & ~quotes)
        | ((backslashes - ones) & ~backslashes)
    ) & HIGH_BITS != 0


cdef inline cursor skip_plain(cursor p, cursor stop) noexcept nogil:
    """Return the address of the first character that JSON escapes, or `stop`."""
    while stop - p >= 8 and not needs_escape(word_at(p)):
        p += 8
    while p < stop and p[0] >= 32 and p[0] != QUOTE and p[0] != BACKSLASH:
        p += 1
    return p


cdef bint put_string(Batch* b, Column* out, cursor p, Py_ssize_t n) noexcept nogil:
    """Write text between quotes, with the same escapes as `json`."""
    cdef cursor stop = p + n, run
    cdef uint8_t[6] escape = [BACKSLASH, 117, ZERO, ZERO, 0, 0]
    if not put_byte(b, out, QUOTE):
        return False
    while True:
        run = p
        p = skip_plain(p, stop)
        if not put_bytes(b, out, run, p - run):
            return False
        if p == stop:
            return put_byte(b, out, QUOTE)
        if ESCAPE_LETTERS[p[0]]:
            if not put_byte(b, out, BACKSLASH) or not put_byte(b, out, ESCAPE_LETTERS[p[0]]):
                return False
        else:
            write_hex(escape + 4, p, 1)
            if not put_bytes(b, out, escape, 6):
                return False
        p += 1


cdef inline bint begin_json(Batch* b, Column* out, int code) noexcept nogil:
    """Write the name of a type, and what comes before the content of its values."""
    cdef uint8_t* at
    if not has_room(out, 20):
        return mark_full(b)
    at = out.data + out.size
    at[0] = BRACKET
    at[1] = QUOTE
    # Copying a constant 16 bytes is faster than copying the length of the name.
    memcpy(at + 2, CODES[code].name, 16)
    at += 2 + CODES[code].name_size
    at[0] = QUOTE
    at[1] = COMMA
    out.size += 3 + CODES[code].name_size + (CODES[code].category != NOTHING)
    return True


cdef bint put_json(Batch* b, Column* out, cursor p, Py_ssize_t n, int code) noexcept nogil:
    """Write a value that is not a compound, whose n bytes `write_value` has checked.

    Returns False if the value is a char, or the column is full.
    """
    cdef int kind = CODES[code].kind
    cdef int64_t number
    cdef bint done
    if not begin_json(b, out, code):
        return False
    if kind == STRING or kind == SYMBOL:
        done = put_string(b, out, p, n)
    elif kind == NULL_KIND:
        done = True
    elif kind == BOOLEAN:
        if is_true(p, code):
            done = put_ascii(b, out, b"true", 4)
        else:
            done = put_ascii(b, out, b"false", 5)
    elif kind == ULONG:
        done = put_digits(b, out, False, ulong_of(&CODES[code], u64(p)))
    elif kind in (UBYTE, USHORT, UINT, BYTE, SHORT, INT, LONG, TIMESTAMP):
        number = signed_of(&CODES[code], u64(p))
        # Negate as unsigned, because the minimum has no positive counterpart.
        done = put_digits(
            b, out, number < 0, 0 - <uint64_t> number if number < 0 else <uint64_t> number
        )
    elif kind == CHAR:
        done = False
    else:
        # Binaries, and the bits of floating-point numbers and UUIDs.
        done = put_hex(b, out, p, n)
    return done and put_byte(b, out, BRACKET_END)


cdef cursor write_json_pairs(
    Batch* b, Column* out, cursor p, cursor stop, Py_ssize_t pairs, int depth
) noexcept nogil:
    """Write the entries of a map."""
    cdef Dictionary names
    cdef Py_ssize_t n, i
    cdef int code
    names.count = 0
    if not put_byte(b, out, BRACKET):
        return NULL
    for i in range(pairs):
        code = p[0]
        p = open_key(p, stop, 0, &n)
        # A duplicate key, or a symbol and a string with the same text, make the row unsupported.
        if p == NULL or key_id(&names, p, n) != i:
            return NULL
        if (
            (i and not put_byte(b, out, COMMA))
            or not put_byte(b, out, BRACKET)
            or not put_json(b, out, p, n, code)
            or not put_byte(b, out, COMMA)
        ):
            return NULL
        p = write_value(b, out, NULL, p + n, stop, OWN_CONSTRUCTOR, depth)
        if p == NULL or not put_byte(b, out, BRACKET_END):
            return NULL
    return p if put_byte(b, out, BRACKET_END) else NULL


cdef cursor write_json_items(
    Batch* b, Column* out, cursor p, cursor stop, Py_ssize_t count, int element, int depth
) noexcept nogil:
    """Write the values of a list, or the element constructor of an array and its values."""
    cdef uint8_t constructor = <uint8_t> element
    cdef Py_ssize_t i
    if element != OWN_CONSTRUCTOR and not (
        put_hex(b, out, &constructor, 1) and put_byte(b, out, COMMA)
    ):
        return NULL
    if not put_byte(b, out, BRACKET):
        return NULL
    if element != OWN_CONSTRUCTOR and CODES[element].width == 0:
        if not write_repeated(b, out, p, stop, element, count, depth):
            return NULL
        count = 0
    for i in range(count):
        if i and not put_byte(b, out, COMMA):
            return NULL
        p = write_value(b, out, NULL, p, stop, element, depth)
        if p == NULL:
            return NULL
    return p if put_byte(b, out, BRACKET_END) else NULL


cdef bint write_repeated(
    Batch* b, Column* out, cursor p, cursor stop, int code, Py_ssize_t count, int depth
) noexcept nogil:
    """Write `count` values without content, which are all equal."""
    cdef Py_ssize_t begin = out.size, n, i
    if count == 0:
        return True
    if write_value(b, out, NULL, p, stop, code, depth) == NULL:
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


cdef cursor read_nested(Batch* b, Values* values, cursor p, cursor stop, int code) noexcept nogil:
    """Read a list, a map or an array as the value of an entry."""
    cdef Column* out = &values.members[S]
    if not prepare_member(b, values, S, 0):
        return NULL
    # If an error ends the value, `undo_values` removes what has been written.
    fill_offsets(out, values.count)
    p = write_value(b, out, NULL, p, stop, code, b.depth)
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
            return write_value(b, out, NULL, p, end, OWN_CONSTRUCTOR, b.max_depth)
        if not put_byte(b, out, BRACKET):
            return NULL
    code = p[0]
    if not is_list(code):
        return NULL
    p = write_compound(b, out, NULL, p + 1, end, code, b.max_depth)
    return p if p != NULL and put_byte(b, out, BRACKET_END) else NULL
