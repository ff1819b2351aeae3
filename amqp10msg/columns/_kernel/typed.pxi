# Find types by the names that columns and typed JSON contain.

# A perfect hash table: by `slot_of` of the name, the short format code of the type; for types of
# fixed width, the code with the widest content.
cdef uint8_t[256] CODES_BY_NAME
cdef int FIRST_FACTOR, LAST_FACTOR, SIZE_FACTOR


cdef inline int slot_of(cursor p, Py_ssize_t n) noexcept nogil:
    """Return the hash of a name, its index in the table. Unknown names may have the same hash."""
    return FIRST_FACTOR * p[0] + LAST_FACTOR * p[n - 1] + SIZE_FACTOR * <int> n & 255


cdef inline Code* type_of(cursor p, Py_ssize_t n, cursor end) noexcept nogil:
    """Return the type with a name, or NULL. Bytes up to `end` can be read."""
    cdef Code* found
    if n <= 0 or n > 16:
        return NULL
    found = &CODES[CODES_BY_NAME[slot_of(p, n)]]
    if end - p >= 16:
        if (word_at(p) & FIRST_BYTES_MASKS[8 + n]) != word_at(found.name):
            return NULL
        return found if (word_at(p + 8) & FIRST_BYTES_MASKS[n]) == word_at(found.name + 8) else NULL
    return found if found.name_size == n and memcmp(found.name, p, n) == 0 else NULL


cdef int put_whole(Out* o, Code* type_, int64_t value) noexcept nogil:
    """Write an integer, or return UNSUPPORTED if out of range. The caller has checked the room."""
    if signed_of(type_, <uint64_t> value << type_.shift) != value:
        return UNSUPPORTED
    if type_.kind == UINT:
        write_uint(o, <uint64_t> value)
    elif type_.kind == INT:
        write_int(o, value)
    elif type_.kind == LONG:
        write_long(o, value)
    else:
        write_coded(o, type_.code, <uint64_t> value, type_.width)
    return OK


def _fill_names():
    """Find factors for which `slot_of` has no collisions, and fill the table of names."""
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
        raise ImportError("slot_of has collisions for all factors: two type names are too similar")
    for slot, name in slots.items():
        CODES_BY_NAME[<int> slot] = codes[name.decode()]


_fill_names()


# Encode values from typed JSON, as `amqp10msg.notation.to_typed` and `json` write it without
# spaces. Described values, arrays, errors, spaces between tokens, values that are nested deeper
# than MAX_NESTED, and maps with more than MAX_PAIRS entries are UNSUPPORTED: the Python
# implementation handles them.

# A JSON parser: `p` is the next byte to read, `end` the end of the text, and `o` the output.
cdef struct Json:
    cursor p, end
    Out* o


cdef inline bint skip(Json* j, int mark) noexcept nogil:
    """Skip the byte `mark` if it is the next byte; return whether it was."""
    if j.p < j.end and j.p[0] == mark:
        j.p += 1
        return True
    return False


cdef inline bint skip_word(Json* j, const char* word, Py_ssize_t n) noexcept nogil:
    """Skip a word if it comes next; return whether it did."""
    if j.end - j.p < n or memcmp(j.p, word, n):
        return False
    j.p += n
    return True


cdef bint plain_text(Json* j, cursor* begin, Py_ssize_t* n) noexcept nogil:
    """Read a string without escapes; False for other input."""
    cdef cursor p
    if not skip(j, QUOTE):
        return False
    p = begin[0] = j.p
    while p < j.end and p[0] != QUOTE:
        if p[0] < 32 or p[0] == BACKSLASH:
            return False
        p += 1
    n[0] = p - begin[0]
    j.p = p
    return skip(j, QUOTE)


cdef int put_escaped(Json* j, int code, int rule) noexcept nogil:
    """Read a string with escapes, and write it as a string or symbol."""
    cdef Out* o = j.o
    cdef cursor p = j.p, end = j.end
    cdef Py_ssize_t begin = o.size, n
    cdef int octet_, high, low
    if not skip(j, QUOTE):
        return UNSUPPORTED
    p = j.p
    # Reserve the bytes of a long head.
    if not has_room(o, 5):
        return FULL
    o.size += 5
    while p < end and p[0] != QUOTE:
        octet_ = p[0]
        p += 1
        if octet_ < 32:
            return UNSUPPORTED
        if octet_ == BACKSLASH:
            if p == end or p[0] > 127:
                return UNSUPPORTED
            octet_ = ESCAPED_CHARACTERS[p[0]]
            if octet_ == 0:
                if end - p < 5 or p[0] != 117 or p[1] != ZERO or p[2] != ZERO:
                    return UNSUPPORTED
                high = hex_value(p[3])
                low = hex_value(p[4])
                if not 0 <= high < 8 or low < 0:
                    return UNSUPPORTED
                octet_ = high << 4 | low
                p += 4
            p += 1
        if not has_room(o, 1):
            return FULL
        write_byte(o, octet_)
    j.p = p
    if not skip(j, QUOTE):
        return UNSUPPORTED
    n = o.size - begin - 5
    if not has_room(o, 16) or not is_allowed(o.at + begin + 5, n, rule):
        return FULL if not has_room(o, 16) else UNSUPPORTED
    if n < 256:
        memmove(o.at + begin + 2, o.at + begin + 5, n)
    o.size = begin
    write_sized_head(o, code, n)
    o.size += n
    return OK


cdef int put_typed_text(Json* j, Code* type_) noexcept nogil:
    """Write a string, a symbol or a binary."""
    cdef cursor begin = NULL, before = j.p
    cdef Py_ssize_t n = 0
    if type_.kind == BINARY:
        return put_binary_of_hex(j.o, begin, n) if plain_text(j, &begin, &n) else UNSUPPORTED
    if plain_text(j, &begin, &n):
        return put_sized(j.o, begin, n, j.end, type_.code, type_.rule)
    j.p = before
    return put_escaped(j, type_.code, type_.rule)


cdef int put_bits(Json* j, int code, int width) noexcept nogil:
    """Write a value whose bytes are given in hex."""
    cdef cursor begin = NULL
    cdef Py_ssize_t n = 0
    if not plain_text(j, &begin, &n) or n != 2 * width:
        return UNSUPPORTED
    write_byte(j.o, code)
    return put_hex(j.o, begin, n)


cdef int put_integer(Json* j, Code* type_) noexcept nogil:
    """Write an integer or a char; UNSUPPORTED if it is out of range."""
    cdef bint negative = skip(j, MINUS)
    cdef cursor begin = j.p
    cdef uint64_t found = 0
    while j.p < j.end and 48 <= j.p[0] <= 57:
        j.p += 1
    if not is_number(begin, j.p - begin, &found) or (negative and not found):
        return UNSUPPORTED
    if type_.kind == ULONG:
        if negative:
            return UNSUPPORTED
        write_ulong(j.o, found)
        return OK
    if found >> 63:
        return UNSUPPORTED
    if type_.kind == CHAR:
        if negative or found > 0x10FFFF or 0xD800 <= found <= 0xDFFF:
            return UNSUPPORTED
        write_coded(j.o, CHAR_CODE, found, 4)
        return OK
    return put_whole(j.o, type_, -<int64_t> found if negative else <int64_t> found)


cdef int put_items(Json* j, int depth) noexcept nogil:
    """Write a list from a JSON array of typed values."""
    cdef Py_ssize_t mark, count = 0
    cdef int done
    if not skip(j, BRACKET):
        return UNSUPPORTED
    if not has_room(j.o, 3):
        return FULL
    if skip(j, BRACKET_END):
        write_byte(j.o, LIST0)
        return OK
    mark = open_compound(j.o)
    while True:
        done = put_typed(j, depth, NULL)
        if done != OK:
            return done
        count += 1
        if skip(j, BRACKET_END):
            return close_compound(j.o, mark, LIST8, count)
        if not skip(j, COMMA):
            return UNSUPPORTED


cdef int put_pairs(Json* j, int depth) noexcept nogil:
    """Write a map from a JSON array of [key, value] pairs; duplicate keys are UNSUPPORTED."""
    cdef Py_ssize_t[MAX_PAIRS] begins, sizes
    cdef Py_ssize_t mark, count = 0, i, begin, n
    cdef int done
    if not skip(j, BRACKET):
        return UNSUPPORTED
    if not has_room(j.o, 3):
        return FULL
    mark = open_compound(j.o)
    if skip(j, BRACKET_END):
        return close_compound(j.o, mark, MAP8, 0)
    while True:
        if count == MAX_PAIRS or not skip(j, BRACKET):
            return UNSUPPORTED
        begin = j.o.size
        done = put_typed(j, depth, NULL)
        if done != OK:
            return done
        n = j.o.size - begin
        for i in range(count):
            if sizes[i] == n and memcmp(j.o.at + begins[i], j.o.at + begin, n) == 0:
                return UNSUPPORTED
        begins[count] = begin
        sizes[count] = n
        count += 1
        if not skip(j, COMMA):
            return UNSUPPORTED
        done = put_typed(j, depth, NULL)
        if done != OK:
            return done
        if not skip(j, BRACKET_END):
            return UNSUPPORTED
        if skip(j, BRACKET_END):
            return close_compound(j.o, mark, MAP8, 2 * count)
        if not skip(j, COMMA):
            return UNSUPPORTED


cdef int put_typed(Json* j, int depth, Code* expected) noexcept nogil:
    """Write a value from its typed JSON.

    UNSUPPORTED if its type differs from `expected`; NULL accepts all types.
    """
    cdef cursor name = NULL
    cdef Py_ssize_t n = 0
    cdef Code* type_
    cdef int done
    if not has_room(j.o, 32):
        return FULL
    if not skip(j, BRACKET) or not plain_text(j, &name, &n):
        return UNSUPPORTED
    type_ = type_of(name, n, j.end)
    if type_ == NULL or (expected != NULL and type_ != expected):
        return UNSUPPORTED
    if type_.kind == NULL_KIND:
        write_byte(j.o, NULL_CODE)
        return OK if skip(j, BRACKET_END) else UNSUPPORTED
    if not skip(j, COMMA):
        return UNSUPPORTED
    if type_.category == SIGNED or type_.kind == ULONG or type_.kind == CHAR:
        done = put_integer(j, type_)
    elif type_.category == SIZED:
        done = put_typed_text(j, type_)
    elif type_.kind == LIST_KIND or type_.kind == MAP_KIND:
        if depth == 0:
            return UNSUPPORTED
        done = put_items(j, depth - 1) if type_.kind == LIST_KIND else put_pairs(j, depth - 1)
    elif type_.kind == BOOLEAN:
        done = OK
        if skip_word(j, b"true", 4):
            write_boolean(j.o, True)
        elif skip_word(j, b"false", 5):
            write_boolean(j.o, False)
        else:
            done = UNSUPPORTED
    elif type_.kind == NO_KIND:
        done = UNSUPPORTED
    else:
        done = put_bits(j, type_.code, type_.width)
    if done != OK:
        return done
    return OK if skip(j, BRACKET_END) else UNSUPPORTED


cdef int put_body_json(Json* j) noexcept nogil:
    """Write the value of an amqp-value; UNSUPPORTED if text follows the value."""
    cdef int done = put_typed(j, MAX_NESTED, NULL)
    return done if done != OK or j.p == j.end else UNSUPPORTED
