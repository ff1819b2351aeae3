# Write the sections of a message from the columns of its row.

cdef enum:
    BODIES = 3

# A field that has a column: its kind, and its index in the section (`place`). A value that
# equals `default_value` is omitted; -1 means no default.
cdef struct Field:
    int kind, place
    int64_t default_value
    Cells cells, second

# The columns of a map section: the lists of entries of the rows, the structs of the entries, and
# their members.
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
    # The sizes of the data sections, if a body has several.
    Cells lengths, length_items
    Py_ssize_t[BODIES] kind_sizes
    uint8_t[BODIES][16] kind_names
    bint is_invalid


cdef inline bint read_span(Table* t, Cells* c, Py_ssize_t row, Span* found) noexcept nogil:
    """Find the bytes of a row like `span_at`; if the offsets are invalid, set `is_invalid`."""
    if span_at(c, row, found):
        return True
    t.is_invalid = True
    return False


cdef int put_identifier(Table* t, Out* o, Field* field, Py_ssize_t row) noexcept nogil:
    """Write a message-id. The caller has checked the room for a ulong or a UUID."""
    cdef Span text, name
    cdef Code* type_
    cdef uint64_t found = 0
    if not read_span(t, &field.cells, row, &text):
        return UNSUPPORTED
    if has_value(&field.second, row):
        if not read_span(t, &field.second, row, &name):
            return UNSUPPORTED
        type_ = type_of(name.at, name.n, name.end)
        if type_ == NULL:
            return UNSUPPORTED
        if type_.kind == ULONG:
            if not is_number(text.at, text.n, &found):
                return UNSUPPORTED
            write_ulong(o, found)
            return OK
        if type_.kind == UUID:
            return put_uuid(o, text.at, text.n)
        if type_.kind == BINARY:
            return put_binary_of_hex(o, text.at, text.n)
        if type_.kind != STRING:
            return UNSUPPORTED
    return put_sized(o, text.at, text.n, text.end, STRING8, UTF8)


cdef int put_timestamp(Out* o, Field* field, Py_ssize_t row) noexcept nogil:
    """Write a timestamp; UNSUPPORTED if its microseconds are not whole milliseconds."""
    cdef int64_t moment
    if has_value(&field.cells, row):
        moment = int64_at(&field.cells, row)
        if moment % 1000:
            return UNSUPPORTED
        moment //= 1000
    else:
        moment = int64_at(&field.second, row)
    write_coded(o, TIMESTAMP_CODE, <uint64_t> moment, 8)
    return OK


cdef int put_field(Table* t, Out* o, Field* field, Py_ssize_t row) noexcept nogil:
    """Write a field that is not null; return ABSENT if it equals its default."""
    cdef int kind = field.kind
    cdef int64_t number_, maximum = 0xFF if kind == UBYTE_FIELD else 0xFFFFFFFF
    cdef Span text
    if kind == IDENTIFIER_FIELD:
        return put_identifier(t, o, field, row)
    if kind == TIMESTAMP_FIELD:
        return put_timestamp(o, field, row)
    if kind >= BINARY_FIELD:
        if not read_span(t, &field.cells, row, &text):
            return UNSUPPORTED
        if kind == STRING_FIELD:
            return put_sized(o, text.at, text.n, text.end, STRING8, UTF8)
        if kind == SYMBOL_FIELD:
            return put_sized(o, text.at, text.n, text.end, SYMBOL8, ASCII)
        return put_sized(o, text.at, text.n, text.end, BINARY8, ANY)
    if kind == BOOLEAN_FIELD:
        number_ = bool_at(&field.cells, row)
    elif kind == UBYTE_FIELD:
        number_ = int16_at(&field.cells, row)
    else:
        number_ = int64_at(&field.cells, row)
    if number_ < 0 or number_ > maximum:
        return UNSUPPORTED
    if number_ == field.default_value:
        return ABSENT
    if kind == BOOLEAN_FIELD:
        write_boolean(o, number_ != 0)
    elif kind == UBYTE_FIELD:
        write_coded(o, UBYTE_CODE, <uint64_t> number_, 1)
    else:
        write_uint(o, <uint64_t> number_)
    return OK


cdef int put_composite(
    Table* t, Out* o, int code, Field* fields, int count, bint is_present, Py_ssize_t row
) noexcept nogil:
    """Write the header or the properties; ABSENT if all fields are null, unless `is_present`."""
    cdef Py_ssize_t begin = o.size, mark, before
    cdef int i, done, written = 0
    cdef Field* field
    if not has_room(o, 6):
        return FULL
    write_descriptor(o, code)
    mark = open_compound(o)
    for i in range(count):
        field = &fields[i]
        if not has_value(&field.cells, row) and (
            field.kind != TIMESTAMP_FIELD or not has_value(&field.second, row)
        ):
            continue
        is_present = True
        # Ensure room for a null for each omitted field before this one.
        if not has_room(o, MAX_FIELDS + 16):
            return FULL
        before = o.size
        while written < field.place:
            write_byte(o, NULL_CODE)
            written += 1
        done = put_field(t, o, field, row)
        if done == UNSUPPORTED or done == FULL:
            return done
        if done == ABSENT:
            written -= <int> (o.size - before)
            o.size = before
        else:
            written += 1
    if not is_present:
        o.size = begin
        return ABSENT
    if written == 0:
        o.size = mark
        write_byte(o, LIST0)
        return OK
    return close_compound(o, mark, LIST8, written)


cdef int put_value(Table* t, Out* o, Map* map, Py_ssize_t i) noexcept nogil:
    """Write the value of an entry. The caller has checked the room for a number."""
    cdef Span text
    cdef Code* type_
    cdef uint64_t word = 0
    cdef double real
    cdef Json json
    cdef Cells* member
    if not has_value(&map.types, i) or not read_span(t, &map.types, i, &text):
        return UNSUPPORTED
    type_ = type_of(text.at, text.n, text.end)
    if type_ == NULL:
        return UNSUPPORTED
    if type_.category == SIZED:
        member = &map.b if type_.kind == BINARY else &map.s
        if not has_value(member, i) or not read_span(t, member, i, &text):
            return UNSUPPORTED
        return put_sized(o, text.at, text.n, text.end, type_.code, type_.rule)
    if type_.category == SIGNED or type_.kind == BOOLEAN:
        if not has_value(&map.l, i):
            return UNSUPPORTED
        if type_.kind != BOOLEAN:
            return put_whole(o, type_, int64_at(&map.l, i))
        write_boolean(o, int64_at(&map.l, i) != 0)
    elif type_.kind == ULONG:
        if not has_value(&map.u, i) or not ulong_at(&map.u, i, &word):
            return UNSUPPORTED
        write_ulong(o, word)
    elif type_.kind == DOUBLE or type_.kind == FLOAT:
        if not has_value(&map.d, i) or (type_.kind == FLOAT and has_value(&map.b, i)):
            return UNSUPPORTED
        word = <uint64_t> int64_at(&map.d, i)
        if type_.kind == FLOAT:
            memcpy(&real, &word, 8)
            return put_float(o, real)
        write_coded(o, DOUBLE_CODE, word, 8)
    elif type_.kind == DECIMAL_KIND:
        if not has_value(&map.b, i) or not read_span(t, &map.b, i, &text) or text.n != type_.width:
            return UNSUPPORTED
        write_byte(o, type_.code)
        memcpy(o.at + o.size, text.at, text.n)
        o.size += text.n
    elif type_.kind == NULL_KIND:
        write_byte(o, NULL_CODE)
    else:
        # Application properties cannot have lists, maps or arrays.
        if type_.kind == CHAR or (type_.kind != UUID and map.of_strings):
            return UNSUPPORTED
        if not has_value(&map.s, i) or not read_span(t, &map.s, i, &text):
            return UNSUPPORTED
        if type_.kind == UUID:
            return put_uuid(o, text.at, text.n)
        json.p = text.at
        json.end = text.at + text.n
        json.o = o
        return put_typed(&json, MAX_NESTED, type_) if type_.kind != NO_KIND else UNSUPPORTED
    return OK


cdef bint is_duplicate_key(Map* map, Py_ssize_t first, Py_ssize_t place, Span* key) noexcept nogil:
    """Return whether a key equals one of the keys from `first` to before `place`."""
    cdef Span other
    cdef Py_ssize_t i
    for i in range(first, place):
        if span_at(&map.keys, i, &other) and other.n == key.n:
            if memcmp(other.at, key.at, key.n) == 0:
                return True
    return False


cdef int put_map(Table* t, Out* o, Map* map, Py_ssize_t row) noexcept nogil:
    """Write a map section; ABSENT if it is null."""
    cdef Py_ssize_t mark, i, first, last
    cdef uint64_t seen = 0, bit
    cdef int done
    cdef Span key
    if not has_value(&map.rows, row):
        return ABSENT
    first = int32_at(&map.rows, row)
    last = int32_at(&map.rows, row + 1)
    if not 0 <= first <= last <= map.rows.data_size:
        t.is_invalid = True
        return UNSUPPORTED
    if last - first > MAX_PAIRS:
        return UNSUPPORTED
    if not has_room(o, 6):
        return FULL
    write_descriptor(o, map.code)
    mark = open_compound(o)
    for i in range(first, last):
        # A struct that is null, or a key that is a ulong.
        if (map.items.cells != NULL and not has_value(&map.items, i)) or has_value(
            &map.key_types, i
        ):
            return UNSUPPORTED
        if not read_span(t, &map.keys, i, &key):
            return UNSUPPORTED
        bit = key_bit(key.at, key.n)
        if seen & bit and is_duplicate_key(map, first, i, &key):
            return UNSUPPORTED
        seen |= bit
        if map.of_strings:
            done = put_sized(o, key.at, key.n, key.end, STRING8, UTF8)
        else:
            done = put_sized(o, key.at, key.n, key.end, SYMBOL8, ASCII)
        if done != OK:
            return done
        if not has_room(o, 16 + 1):
            return FULL
        done = put_value(t, o, map, i)
        if done != OK:
            return done
    return close_compound(o, mark, MAP8, 2 * (last - first))


cdef int put_data_sections(Table* t, Out* o, Span* text, Py_ssize_t row) noexcept nogil:
    """Write a body as data sections of the lengths in the row; UNSUPPORTED for wrong lengths."""
    cdef Py_ssize_t first = int32_at(&t.lengths, row), last = int32_at(&t.lengths, row + 1), i
    cdef cursor p = text.at
    cdef Py_ssize_t left = text.n
    cdef int64_t n
    cdef int done
    if not 0 <= first <= last <= t.lengths.data_size:
        t.is_invalid = True
        return UNSUPPORTED
    if first == last:
        return UNSUPPORTED
    for i in range(first, last):
        if not has_value(&t.length_items, i):
            return UNSUPPORTED
        n = int64_at(&t.length_items, i)
        if not 0 <= n <= left:
            return UNSUPPORTED
        if not has_room(o, 8):
            return FULL
        write_descriptor(o, t.body_code)
        done = put_sized(o, p, n, text.end, BINARY8, ANY)
        if done != OK:
            return done
        p += n
        left -= n
    return OK if left == 0 else UNSUPPORTED


cdef int put_body(Table* t, Out* o, Py_ssize_t row) noexcept nogil:
    """Write the body; ABSENT if it is null, UNSUPPORTED if its columns contradict each other."""
    cdef Span text
    cdef Json json
    cdef int kind = 0, done
    cdef bint of_bytes = has_value(&t.body, row), of_json = has_value(&t.body_json, row)
    if has_value(&t.body_kind, row):
        if not read_span(t, &t.body_kind, row, &text):
            return UNSUPPORTED
        while text.n != t.kind_sizes[kind] or memcmp(text.at, t.kind_names[kind], text.n):
            kind += 1
            if kind == BODIES:
                return UNSUPPORTED
    elif not of_bytes and not of_json:
        return UNSUPPORTED if has_value(&t.lengths, row) else ABSENT
    if not has_room(o, 8):
        return FULL
    if kind == 0:
        if of_json or not of_bytes or not read_span(t, &t.body, row, &text):
            return UNSUPPORTED
        if has_value(&t.lengths, row):
            return put_data_sections(t, o, &text, row)
        write_descriptor(o, t.body_code)
        return put_sized(o, text.at, text.n, text.end, BINARY8, ANY)
    if of_bytes or not of_json or has_value(&t.lengths, row):
        return UNSUPPORTED
    if not read_span(t, &t.body_json, row, &text):
        return UNSUPPORTED
    json.p = text.at
    json.end = text.at + text.n
    json.o = o
    if kind == 2:
        write_descriptor(o, t.body_code + 2)
        return put_body_json(&json)
    if not skip(&json, BRACKET):
        return UNSUPPORTED
    while True:
        if not has_room(o, 8):
            return FULL
        write_descriptor(o, t.body_code + 1)
        done = put_items(&json, MAX_NESTED - 1)
        if done != OK:
            return done
        if skip(&json, BRACKET_END):
            return OK if json.p == json.end else UNSUPPORTED
        if not skip(&json, COMMA):
            return UNSUPPORTED


cdef int put_row(Table* t, Out* o, Py_ssize_t row) noexcept nogil:
    """Write the message of a row; UNSUPPORTED also if all columns of the row are null."""
    cdef Py_ssize_t begin = o.size
    cdef int done = put_composite(t, o, t.header_code, t.header, t.header_count, False, row)
    if done > 0:
        done = put_map(t, o, &t.maps[0], row)
    if done > 0:
        done = put_map(t, o, &t.maps[1], row)
    if done > 0:
        done = put_composite(
            t, o, t.properties_code, t.properties, t.properties_count,
            has_value(&t.has_properties, row) and bool_at(&t.has_properties, row), row,
        )
    if done > 0:
        done = put_map(t, o, &t.maps[2], row)
    if done > 0:
        done = put_body(t, o, row)
    if done > 0:
        done = put_map(t, o, &t.maps[3], row)
    return UNSUPPORTED if done > 0 and o.size == begin else done
