# The sections of a message, from the columns of its row.

cdef enum:
    BODIES = 3

# A field that has a column, and its place in the section. A value that is the default is left out;
# `default_value` is -1 where there is none.
cdef struct Field:
    int way, place
    int64_t default_value
    Cells cells, second

# The columns of a map section: its rows, and its entries with the members of their structs.
cdef struct Map:
    int code
    bint of_strings
    Cells rows, items, keys, key_types, types, s, l, d, b, u

cdef struct Table:
    int header_count, properties_count, header_code, properties_code
    int body_code
    Field[MAX_FIELDS] header, properties
    Map[MAX_MAPS] maps
    Cells has_properties, body_kind, body, body_json
    # Of a body of several data sections.
    Cells lengths, length_items
    Py_ssize_t[BODIES] kind_sizes
    uint8_t[BODIES][16] kind_names
    bint is_invalid


cdef inline bint read_span(Table* t, Cells* c, Py_ssize_t row, Span* found) noexcept nogil:
    if span_at(c, row, found):
        return True
    t.is_invalid = True
    return False


cdef int put_identifier(Table* t, Out* o, Field* field, Py_ssize_t row) noexcept nogil:
    """Write a message-id; the room for what has no text is there."""
    cdef Span text, name
    cdef Code* type_
    cdef uint64_t found = 0
    if not read_span(t, &field.cells, row, &text):
        return ODD
    if is_there(&field.second, row):
        if not read_span(t, &field.second, row, &name):
            return ODD
        type_ = type_of(name.at, name.n, name.end)
        if type_ == NULL:
            return ODD
        if type_.kind == ULONG:
            if not is_number(text.at, text.n, &found):
                return ODD
            write_ulong(o, found)
            return GOOD
        if type_.kind == UUID:
            return put_uuid(o, text.at, text.n)
        if type_.kind == BINARY:
            return put_binary_of_hex(o, text.at, text.n)
        if type_.kind != STRING:
            return ODD
    return put_sized(o, text.at, text.n, text.end, STRING8, UTF8)


cdef int put_timestamp(Out* o, Field* field, Py_ssize_t row) noexcept nogil:
    """Write a moment, which has microseconds in the first column; an odd one if it needs them."""
    cdef int64_t moment
    if is_there(&field.cells, row):
        moment = int64_at(&field.cells, row)
        if moment % 1000:
            return ODD
        moment //= 1000
    else:
        moment = int64_at(&field.second, row)
    write_coded(o, TIMESTAMP_CODE, <uint64_t> moment, 8)
    return GOOD


cdef int put_field(Table* t, Out* o, Field* field, Py_ssize_t row) noexcept nogil:
    """Write a field that is there, or ABSENT if it is what it is by default."""
    cdef int way = field.way
    cdef int64_t number_, most = 0xFF if way == UBYTE_FIELD else 0xFFFFFFFF
    cdef Span text
    if way == IDENTIFIER_FIELD:
        return put_identifier(t, o, field, row)
    if way == TIMESTAMP_FIELD:
        return put_timestamp(o, field, row)
    if way >= BINARY_FIELD:
        if not read_span(t, &field.cells, row, &text):
            return ODD
        if way == STRING_FIELD:
            return put_sized(o, text.at, text.n, text.end, STRING8, UTF8)
        if way == SYMBOL_FIELD:
            return put_sized(o, text.at, text.n, text.end, SYMBOL8, ASCII)
        return put_sized(o, text.at, text.n, text.end, BINARY8, ANY)
    if way == BOOLEAN_FIELD:
        number_ = bool_at(&field.cells, row)
    elif way == UBYTE_FIELD:
        number_ = int16_at(&field.cells, row)
    else:
        number_ = int64_at(&field.cells, row)
    if number_ < 0 or number_ > most:
        return ODD
    if number_ == field.default_value:
        return ABSENT
    if way == BOOLEAN_FIELD:
        write_boolean(o, number_ != 0)
    elif way == UBYTE_FIELD:
        write_coded(o, UBYTE_CODE, <uint64_t> number_, 1)
    else:
        write_uint(o, <uint64_t> number_)
    return GOOD


cdef int put_composite(
    Table* t, Out* o, int code, Field* fields, int count, bint is_any, Py_ssize_t row
) noexcept nogil:
    """Write the header or the properties, if a field of theirs is there, or `is_any`."""
    cdef Py_ssize_t begin = o.size, mark, before
    cdef int i, done, written = 0
    cdef Field* field
    if not has_room(o, 6):
        return FULL
    write_descriptor(o, code)
    mark = open_compound(o)
    for i in range(count):
        field = &fields[i]
        if not is_there(&field.cells, row) and (
            field.way != TIMESTAMP_FIELD or not is_there(&field.second, row)
        ):
            continue
        is_any = True
        # Nulls stand for the fields before it that are left out.
        if not has_room(o, MAX_FIELDS + 16):
            return FULL
        before = o.size
        while written < field.place:
            write_byte(o, NULL_CODE)
            written += 1
        done = put_field(t, o, field, row)
        if done == ODD or done == FULL:
            return done
        if done == ABSENT:
            written -= <int> (o.size - before)
            o.size = before
        else:
            written += 1
    if not is_any:
        o.size = begin
        return ABSENT
    if written == 0:
        o.size = mark
        write_byte(o, LIST0)
        return GOOD
    return close_compound(o, mark, LIST8, written)


cdef int put_value(Table* t, Out* o, Map* map, Py_ssize_t i) noexcept nogil:
    """Write the value of an entry, for whose number there is room."""
    cdef Span text
    cdef Code* type_
    cdef uint64_t word = 0
    cdef double real
    cdef Json json
    cdef Cells* member
    if not is_there(&map.types, i) or not read_span(t, &map.types, i, &text):
        return ODD
    type_ = type_of(text.at, text.n, text.end)
    if type_ == NULL:
        return ODD
    if type_.way == SIZED:
        member = &map.b if type_.kind == BINARY else &map.s
        if not is_there(member, i) or not read_span(t, member, i, &text):
            return ODD
        return put_sized(o, text.at, text.n, text.end, type_.code, type_.rule)
    if type_.way == SIGNED or type_.kind == BOOLEAN:
        if not is_there(&map.l, i):
            return ODD
        if type_.kind != BOOLEAN:
            return put_whole(o, type_, int64_at(&map.l, i))
        write_boolean(o, int64_at(&map.l, i) != 0)
    elif type_.kind == ULONG:
        if not is_there(&map.u, i) or not ulong_at(&map.u, i, &word):
            return ODD
        write_ulong(o, word)
    elif type_.kind == DOUBLE or type_.kind == FLOAT:
        if not is_there(&map.d, i) or (type_.kind == FLOAT and is_there(&map.b, i)):
            return ODD
        word = <uint64_t> int64_at(&map.d, i)
        if type_.kind == FLOAT:
            memcpy(&real, &word, 8)
            return put_float(o, real)
        write_coded(o, DOUBLE_CODE, word, 8)
    elif type_.kind == DECIMAL_KIND:
        if not is_there(&map.b, i) or not read_span(t, &map.b, i, &text) or text.n != type_.width:
            return ODD
        write_byte(o, type_.code)
        memcpy(o.at + o.size, text.at, text.n)
        o.size += text.n
    elif type_.kind == NULL_KIND:
        write_byte(o, NULL_CODE)
    else:
        # Application properties hold simple values only.
        if type_.kind == CHAR or (type_.kind != UUID and map.of_strings):
            return ODD
        if not is_there(&map.s, i) or not read_span(t, &map.s, i, &text):
            return ODD
        if type_.kind == UUID:
            return put_uuid(o, text.at, text.n)
        json.p = text.at
        json.end = text.at + text.n
        json.o = o
        return put_typed(&json, MAX_NESTED, type_) if type_.kind != NO_KIND else ODD
    return GOOD


cdef bint is_repeated(Map* map, Py_ssize_t first, Py_ssize_t place, Span* key) noexcept nogil:
    """Whether a key is among those before it, which have been read."""
    cdef Span other
    cdef Py_ssize_t i
    for i in range(first, place):
        if span_at(&map.keys, i, &other) and other.n == key.n:
            if memcmp(other.at, key.at, key.n) == 0:
                return True
    return False


cdef int put_map(Table* t, Out* o, Map* map, Py_ssize_t row) noexcept nogil:
    """Write a map section, if there is one."""
    cdef Py_ssize_t mark, i, first, last
    cdef uint64_t seen = 0, bit
    cdef int done
    cdef Span key
    if not is_there(&map.rows, row):
        return ABSENT
    first = int32_at(&map.rows, row)
    last = int32_at(&map.rows, row + 1)
    if not 0 <= first <= last <= map.rows.data_size:
        t.is_invalid = True
        return ODD
    if last - first > MAX_PAIRS:
        return ODD
    if not has_room(o, 6):
        return FULL
    write_descriptor(o, map.code)
    mark = open_compound(o)
    for i in range(first, last):
        # A null among the structs, and keys that are numbers.
        if (map.items.cells != NULL and not is_there(&map.items, i)) or is_there(&map.key_types, i):
            return ODD
        if not read_span(t, &map.keys, i, &key):
            return ODD
        bit = key_bit(key.at, key.n)
        if seen & bit and is_repeated(map, first, i, &key):
            return ODD
        seen |= bit
        if map.of_strings:
            done = put_sized(o, key.at, key.n, key.end, STRING8, UTF8)
        else:
            done = put_sized(o, key.at, key.n, key.end, SYMBOL8, ASCII)
        if done != GOOD:
            return done
        if not has_room(o, 16 + 1):
            return FULL
        done = put_value(t, o, map, i)
        if done != GOOD:
            return done
    return close_compound(o, mark, MAP8, 2 * (last - first))


cdef int put_data_sections(Table* t, Out* o, Span* text, Py_ssize_t row) noexcept nogil:
    """Write a body of bytes as data sections of the lengths of its row; wrong lengths are odd."""
    cdef Py_ssize_t first = int32_at(&t.lengths, row), last = int32_at(&t.lengths, row + 1), i
    cdef cursor p = text.at
    cdef Py_ssize_t left = text.n
    cdef int64_t n
    cdef int done
    if not 0 <= first <= last <= t.lengths.data_size:
        t.is_invalid = True
        return ODD
    if first == last:
        return ODD
    for i in range(first, last):
        if not is_there(&t.length_items, i):
            return ODD
        n = int64_at(&t.length_items, i)
        if not 0 <= n <= left:
            return ODD
        if not has_room(o, 8):
            return FULL
        write_descriptor(o, t.body_code)
        done = put_sized(o, p, n, text.end, BINARY8, ANY)
        if done != GOOD:
            return done
        p += n
        left -= n
    return GOOD if left == 0 else ODD


cdef int put_body(Table* t, Out* o, Py_ssize_t row) noexcept nogil:
    """Write the body, if there is one; a contradiction in its columns is odd."""
    cdef Span text
    cdef Json json
    cdef int kind = 0, done
    cdef bint of_bytes = is_there(&t.body, row), of_json = is_there(&t.body_json, row)
    if is_there(&t.body_kind, row):
        if not read_span(t, &t.body_kind, row, &text):
            return ODD
        while text.n != t.kind_sizes[kind] or memcmp(text.at, t.kind_names[kind], text.n):
            kind += 1
            if kind == BODIES:
                return ODD
    elif not of_bytes and not of_json:
        return ODD if is_there(&t.lengths, row) else ABSENT
    if not has_room(o, 8):
        return FULL
    if kind == 0:
        if of_json or not of_bytes or not read_span(t, &t.body, row, &text):
            return ODD
        if is_there(&t.lengths, row):
            return put_data_sections(t, o, &text, row)
        write_descriptor(o, t.body_code)
        return put_sized(o, text.at, text.n, text.end, BINARY8, ANY)
    if of_bytes or not of_json or is_there(&t.lengths, row):
        return ODD
    if not read_span(t, &t.body_json, row, &text):
        return ODD
    json.p = text.at
    json.end = text.at + text.n
    json.o = o
    if kind == 2:
        write_descriptor(o, t.body_code + 2)
        return put_body_json(&json)
    if not skip(&json, BRACKET):
        return ODD
    while True:
        if not has_room(o, 8):
            return FULL
        write_descriptor(o, t.body_code + 1)
        done = put_items(&json, MAX_NESTED - 1)
        if done != GOOD:
            return done
        if skip(&json, BRACKET_END):
            return GOOD if json.p == json.end else ODD
        if not skip(&json, COMMA):
            return ODD


cdef int put_row(Table* t, Out* o, Py_ssize_t row) noexcept nogil:
    """Write a message; ODD as well if there is nothing in the row that a message is made of."""
    cdef Py_ssize_t begin = o.size
    cdef int done = put_composite(t, o, t.header_code, t.header, t.header_count, False, row)
    if done > 0:
        done = put_map(t, o, &t.maps[0], row)
    if done > 0:
        done = put_map(t, o, &t.maps[1], row)
    if done > 0:
        done = put_composite(
            t, o, t.properties_code, t.properties, t.properties_count,
            is_there(&t.has_properties, row) and bool_at(&t.has_properties, row), row,
        )
    if done > 0:
        done = put_map(t, o, &t.maps[2], row)
    if done > 0:
        done = put_body(t, o, row)
    if done > 0:
        done = put_map(t, o, &t.maps[3], row)
    return ODD if done > 0 and o.size == begin else done
