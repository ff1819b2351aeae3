# Read sections. Each function gets a cursor after the descriptor, and returns a cursor after the
# section, or NULL: then the row is unsupported, and `undo_message` removes what has been written.

# By kind of field: the constructor of short texts, or 0x100, which matches no byte, if not text.
cdef int[8] SMALL_CODES = [0x100, 0x100, 0x100, 0x100, BINARY8, STRING8, SYMBOL8, STRING8]

# A field and its columns (index -1, pointer NULL: none). The second column contains the AMQP type
# of an identifier, or the timestamps that consumers of Arrow do not support, in milliseconds.
cdef struct Field:
    int kind  # UINT_FIELD etc.
    # For text: the constructor of short texts, and the rule for the bytes (ANY, ASCII or UTF8).
    int small
    int rule
    int column_index, second_index
    Column* column
    Column* second
    bint has_default
    int64_t default_value

# A key of a map: the address of its constructor, its encoded size (`whole`), the size of its text
# (`n`), and the column of its value if the entry is picked.
cdef struct Key:
    cursor at
    Py_ssize_t whole, n
    Values* pick

# A map section: the columns of its rows, keys and values. `is_column`: the map itself is selected.
#
# Most messages of an array have the same keys in their maps. So the keys of the previous map are
# cached: they have been checked to be text and distinct. In the column `keys`, they begin at
# `cached_first`.
cdef struct Map:
    bint is_column
    # The column of the map as a VARIANT (-1, NULL: none); the next column has its metadata.
    int variant_index
    Column* variant
    Column rows
    Column keys
    Values values
    Py_ssize_t cached_count, cached_first
    Key[MAX_PAIRS] cached

# A picked entry of a map section, whose values are a column.
cdef struct Pick:
    int section
    cursor key
    Py_ssize_t n
    Values values


# Read composites: the header and the properties.


cdef bint put_type(Batch* b, Column* column, Py_ssize_t row, int code) noexcept nogil:
    """Write the AMQP type of an identifier."""
    cdef uint8_t* out = begin_text(b, column, row, CODES[code].name_size)
    if out == NULL:
        return False
    memcpy(out, CODES[code].name, 16)
    return True


cdef cursor read_identifier(
    Batch* b, Column* column, Py_ssize_t row, cursor p, cursor stop, int code
) noexcept nogil:
    """Read a message-id or correlation-id that is not a string."""
    cdef Py_ssize_t n = CODES[code].width
    cdef uint8_t[20] digits
    cdef uint8_t* out
    cdef int i = 0
    cdef bint is_binary = code == BINARY8 or code == BINARY8 + LARGE
    if is_binary:
        p = open_sized(p, code, &n)
    elif code != UUID_CODE and CODES[code].category != UNSIGNED:
        return NULL
    if n > stop - p:
        return NULL
    if column != NULL:
        if CODES[code].category == UNSIGNED:
            i = write_digits(digits, ulong_of(&CODES[code], u64(p)))
        out = begin_text(
            b, column, row, 2 * n if is_binary else 36 if code == UUID_CODE else 20 - i
        )
        if out == NULL:
            return NULL
        if is_binary:
            write_hex(out, p, n)
        elif code == UUID_CODE:
            write_uuid(out, p)
        else:
            memcpy(out, digits + i, 20 - i)
    return p + n


cdef inline cursor read_number(
    Batch* b, Field* field, Py_ssize_t row, cursor p, cursor stop, int code
) noexcept nogil:
    """Read a field of a fixed width.

    A truncated number is also written; it is removed because its row is unsupported.
    """
    cdef Column* column = field.column
    cdef int64_t number = 0
    if field.kind == BOOLEAN_FIELD:
        if code == BOOLEAN_CODE:
            number = p[0]
        elif code == TRUE_CODE:
            number = 1
        elif code != FALSE_CODE:
            return NULL
        if number > 1:
            return NULL
    elif field.kind == UINT_FIELD:
        if code == UINT_CODE:
            number = u32(p)
        elif code == SMALL_UINT:
            number = p[0]
        elif code != UINT0:
            return NULL
    elif field.kind == UBYTE_FIELD:
        if code != UBYTE_CODE:
            return NULL
        number = p[0]
    else:
        if field.kind != TIMESTAMP_FIELD or code != TIMESTAMP_CODE:
            return NULL
        number = <int64_t> u64(p)
        if FIRST <= number <= LAST:
            number *= 1000
        else:
            column = field.second
    if column != NULL and not put_number(b, column, row, number):
        return NULL
    p += CODES[code].width
    return p if p <= stop else NULL


cdef inline cursor read_field(
    Batch* b, Field* field, Py_ssize_t row, cursor p, cursor stop, int code
) noexcept nogil:
    """Read the value of a field, after its constructor."""
    cdef Py_ssize_t n
    if code == field.small or code == field.small + LARGE:
        p = open_sized(p, code, &n)
        if n > stop - p:
            return NULL
        if field.column != NULL:
            if not put_text(b, field.column, row, p, n, field.rule):
                return NULL
        elif not is_allowed(p, n, field.rule):
            return NULL
        p += n
    elif field.kind != IDENTIFIER_FIELD:
        return read_number(b, field, row, p, stop, code)
    else:
        p = read_identifier(b, field.column, row, p, stop, code)
    if p != NULL and field.second != NULL and not put_type(b, field.second, row, code):
        return NULL
    return p


cdef bint put_default(Batch* b, Field* field, Py_ssize_t row) noexcept nogil:
    """Write the default of a field."""
    return put_number(b, field.column, row, field.default_value)


cdef inline cursor read_composite(
    Batch* b, int section, Py_ssize_t row, cursor p, cursor end
) noexcept nogil:
    """Read a header or properties."""
    cdef Field* field = &b.fields[b.first_field[section]]
    cdef Field* behind = field + b.field_count[section]
    cdef Field* last
    cdef cursor stop = end
    cdef Py_ssize_t count = 0
    cdef int code = p[0]
    p += 1
    if code == LIST8 or code == LIST8 + LARGE:
        p = open_compound(b, p, end, code, &stop, &count)
        if p == NULL or count > b.field_count[section]:
            return NULL
    elif code == LIST0:
        stop = p
    else:
        return NULL
    last = field + count
    while field < last:
        if p >= stop:
            return NULL
        code = p[0]
        p += 1
        if code != NULL_CODE:
            p = read_field(b, field, row, p, stop, code)
            if p == NULL:
                return NULL
        elif field.has_default and not put_default(b, field, row):
            return NULL
        field += 1
    # Fields that are omitted at the end of the list are null.
    while field < behind:
        if field.has_default and not put_default(b, field, row):
            return NULL
        field += 1
    return p if p == stop else NULL


# Read maps: annotations, application properties, the footer.


cdef Values* find_pick(Batch* b, int section, cursor key, Py_ssize_t n) noexcept nogil:
    """Return the column for the value of a picked key; NULL if the key is not picked."""
    cdef Pick* pick = b.picks
    cdef Pick* behind = b.picks + b.pick_count
    while pick < behind:
        if pick.section == section and pick.n == n and memcmp(pick.key, key, n) == 0:
            return &pick.values
        pick += 1
    return NULL


cdef cursor read_key(
    Batch* b, Map* map, int section, Py_ssize_t i, cursor p, cursor stop, uint64_t* seen
) noexcept nogil:
    """Read key i of a map, which must differ from all keys before it, and cache it."""
    cdef Key* cached = map.cached
    cdef cursor at = p
    cdef Py_ssize_t n, j
    cdef uint64_t bit
    cdef int small = STRING8 if section == APPLICATION_PROPERTIES else SYMBOL8
    p = open_key(p, stop, small, &n)
    if p == NULL:
        return NULL
    if seen[0] == 0:
        for j in range(i):
            seen[0] |= key_bit(cached[j].at + cached[j].whole - cached[j].n, cached[j].n)
    bit = key_bit(p, n)
    if seen[0] & bit:
        for j in range(i):
            if cached[j].n == n and equals(cached[j].at + cached[j].whole - n, p, n):
                return NULL
    seen[0] |= bit
    cached[i].at = at
    cached[i].whole = p + n - at
    cached[i].n = n
    cached[i].pick = find_pick(b, section, p, n) if b.picked[section] else NULL
    return p + n


cdef inline cursor match_key(
    Batch* b, Map* map, int section, Py_ssize_t i, cursor p, cursor stop, uint64_t* seen
) noexcept nogil:
    """Read key i of a map, using the cache; return the address of its value, or NULL."""
    cdef Key* key = &map.cached[i]
    if i < map.cached_count and key.whole < stop - p and equals(p, key.at, key.whole):
        return p + key.whole
    # The rest of the cache is invalid until all keys of this map have been read.
    map.cached_count = 0
    return read_key(b, map, section, i, p, stop, seen)


cdef inline void put_keys(Map* map, Py_ssize_t first, Py_ssize_t count) noexcept nogil:
    """Write the keys of a map that has been read. The caller has reserved the memory."""
    cdef Column* column = &map.keys
    cdef Key* key = map.cached
    cdef int32_t* ends = <int32_t*> column.cells + first + 1
    cdef int32_t begin = <int32_t> column.size, moved
    cdef Py_ssize_t i
    if count <= map.cached_count:
        # All keys are cached, so the column contains them in one piece: copy them.
        moved = begin - (<int32_t*> column.cells)[map.cached_first]
        for i in range(count):
            ends[i] = ends[i + map.cached_first - first] + moved
        column.size = ends[count - 1] if count else begin
        copied(column.data + begin, column.data + begin - moved, column.size - begin)
        return
    for i in range(count):
        copied(column.data + column.size, key.at + key.whole - key.n, key.n)
        column.size += key.n
        ends[i] = <int32_t> column.size
        key += 1
    map.cached_first = first
    map.cached_count = count


cdef bint begin_map(
    Batch* b, Map* map, Py_ssize_t row, Py_ssize_t pairs, Py_ssize_t size
) noexcept nogil:
    """Begin a row, and reserve memory for the entries of a map of `size` bytes."""
    if not begin_list(b, &map.rows, row):
        return False
    if (
        (
            map.values.room == 0
            and not grow_values(&map.values, (pairs + 1) * min(b.rows, SAMPLE_ROWS))
        )
        or not room_for(&map.values, pairs + 1)
        or (map.keys.slots < map.values.room and not widen_member(&map.keys, map.values.room))
        or not has_room(&map.keys, size)
    ):
        return mark_full(b)
    (<int32_t*> map.keys.cells)[map.values.count] = <int32_t> map.keys.size
    return True


cdef bint begin_pick(Batch* b, Values* values) noexcept nogil:
    """Reserve memory for the value of a picked entry."""
    if not room_for(values, 1):
        return mark_full(b)
    set_bit(values.members[TYPE].bits, values.count)
    return True


cdef inline cursor open_map(
    Batch* b, int section, cursor p, cursor end, cursor* stop, Py_ssize_t* pairs
) noexcept nogil:
    """Read a map's constructor, size and count; return the address of its entries, or NULL."""
    cdef int code = p[0]
    if code != MAP8 and code != MAP8 + LARGE:
        return NULL
    p = open_pairs(b, p + 1, end, code, stop, pairs)
    # Application properties cannot have nested values.
    b.depth = 0 if section == APPLICATION_PROPERTIES else b.max_depth
    return p


cdef cursor read_map(
    Batch* b, Map* map, bint whole, int section, Py_ssize_t row, cursor p, cursor end
) noexcept nogil:
    """Read a map section to its columns if `whole`; else only its picked entries."""
    cdef cursor stop = end
    cdef Py_ssize_t pairs = 0, i, size
    cdef uint64_t seen = 0
    cdef Values* values = &map.values
    cdef Py_ssize_t first = values.count
    cdef uint8_t[MAX_PAIRS] codes
    p = open_map(b, section, p, end, &stop, &pairs)
    if p == NULL or (whole and not begin_map(b, map, row, pairs, stop - p)):
        return NULL
    for i in range(pairs):
        p = match_key(b, map, section, i, p, stop, &seen)
        if p == NULL:
            return NULL
        codes[i] = p[0]
        if not whole:
            values = map.cached[i].pick
            if values == NULL:
                p = check_value(b, p + 1, stop, codes[i])
                if p == NULL:
                    return NULL
                continue
            if not begin_pick(b, values):
                return NULL
        p = read_value(b, values, p + 1, stop, codes[i])
        if p == NULL:
            return NULL
        if not whole:
            put_types(values, codes + i, values.count, 1)
        values.count += 1
    if p != stop:
        return NULL
    if whole:
        size = map.keys.size
        put_keys(map, first, pairs)
        put_types(values, codes, first, pairs)
        map.rows.size = values.count
        prefetch_values(values)
        prefetch_write_lines(map.keys.data, map.keys.size, map.keys.size - size)
        prefetch_write(map.keys.cells, 4 * values.count)
    elif map.cached_count == 0:
        map.cached_count = pairs
    return p


cdef cursor read_map_section(
    Batch* b, int section, Py_ssize_t row, cursor p, cursor end
) noexcept nogil:
    """Read a map section: the whole map, its picked entries, or both."""
    cdef Map* map = &b.map_sections[b.map_of[section]]
    cdef int64_t items = b.items, zero_width = b.zero_width
    cdef cursor behind
    if map.is_column or map.variant != NULL:
        if map.is_column:
            behind = read_map(b, map, True, section, row, p, end)
        else:
            behind = read_map_variant(b, map, section, row, p, end)
        if behind == NULL or not b.picked[section]:
            return behind
        # Values that are read twice count once against the limits.
        b.items = items
        b.zero_width = zero_width
    return read_map(b, map, False, section, row, p, end)


# Read bodies: data, and values as text.


cdef inline bint put_length(Batch* b, Py_ssize_t row, bint again, Py_ssize_t n) noexcept nogil:
    """Record the size of a data section; only several sections get a cell in body_lengths."""
    cdef Column* column = &b.columns[b.body_lengths]
    cdef int64_t length = n
    if not again:
        b.first_length = length
        return True
    # The second section begins the cell, and later sections extend it.
    if column.written <= row and not put_text(b, column, row, <cursor> &b.first_length, 8, ANY):
        return False
    return put_bytes(b, column, <cursor> &length, 8)


cdef inline cursor read_data(
    Batch* b, Py_ssize_t row, bint again, cursor p, cursor end
) noexcept nogil:
    """Read a data section; `again` means that it is not the first, and is appended."""
    cdef int code = p[0]
    cdef Py_ssize_t n
    cdef uint8_t* out
    if code != BINARY8 and code != BINARY8 + LARGE:
        return NULL
    p = open_sized(p + 1, code, &n)
    if n > end - p:
        return NULL
    if b.body_text >= 0:
        # Bytes that are not UTF-8 are null in body_text; several sections are unsupported.
        if again or (
            not put_text(b, &b.columns[b.body_text], row, p, n, UTF8) and b.full
        ):
            return NULL
    if b.body_lengths >= 0 and not put_length(b, row, again, n):
        return NULL
    if b.body < 0:
        return p + n
    if again:
        # The first section has begun the cell: extend it.
        return p + n if put_bytes(b, &b.columns[b.body], p, n) else NULL
    out = begin_text(b, &b.columns[b.body], row, n)
    if out == NULL:
        return NULL
    memcpy(out, p, n)
    prefetch_write_lines(out, n, n)
    return p + n


cdef inline bint put_body_kind(Batch* b, int section, Py_ssize_t row) noexcept nogil:
    """Write the kind of body."""
    cdef int kind = section - DATA
    cdef uint8_t* out = begin_text(b, &b.columns[b.body_kind], row, b.kind_sizes[kind])
    if out == NULL:
        return False
    memcpy(out, b.kind_names[kind], 16)
    return True


cdef cursor read_body(
    Batch* b, int section, int number, Py_ssize_t row, cursor p, cursor end
) noexcept nogil:
    """Read a body section; `number` is its position among the body sections, from 1."""
    cdef Column* sections = column_at(b, b.body_sections)
    if number == 1 and b.body_kind >= 0 and not put_body_kind(b, section, row):
        return NULL
    if sections != NULL:
        # Overwrite the number of the previous section.
        sections.written = min(sections.written, row)
        if not put_number(b, sections, row, number):
            return NULL
    if not b.needs[section]:
        return skip_value(p, end)
    if section == DATA:
        return read_data(b, row, number > 1, p, end)
    return read_value_body(b, section, number > 1, row, p, end)


cdef cursor read_body_text(Batch* b, Py_ssize_t row, cursor p, cursor end) noexcept nogil:
    """Read an amqp-value that is a string."""
    cdef int code = p[0]
    cdef Py_ssize_t n
    p = open_sized(p + 1, code, &n)
    if n > end - p or not put_text(b, &b.columns[b.body_text], row, p, n, UTF8):
        return NULL
    return p + n


cdef cursor read_value_body(
    Batch* b, int section, bint again, Py_ssize_t row, cursor p, cursor end
) noexcept nogil:
    """Read an amqp-value or an amqp-sequence to the selected columns."""
    cdef int64_t items = b.items, zero_width = b.zero_width
    cdef cursor behind = NULL
    if b.body_text >= 0 and section == AMQP_VALUE and p[0] in (STRING8, STRING8 + LARGE):
        behind = read_body_text(b, row, p, end)
        if behind == NULL:
            return NULL
    if b.body_value >= 0:
        behind = NULL if again else read_body_variant(b, section, row, p, end)
        if behind == NULL:
            return NULL
    if b.body_json >= 0:
        # Values that are read twice count once against the limits.
        b.items = items
        b.zero_width = zero_width
        return read_json(b, section, again, row, p, end)
    if behind == NULL:
        # No column needs this value: only check it.
        behind = write_value(b, NULL, NULL, p, end, OWN_CONSTRUCTOR, b.max_depth)
    return behind
