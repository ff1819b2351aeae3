# Sections. A cursor goes in after the descriptor, and comes back where the section ends, or as
# NULL: then `undo_message` takes back what has been written.

# By way: the constructor of short texts, or one that there is not.
cdef int[8] SMALL_CODES = [0x100, 0x100, 0x100, 0x100, BINARY8, STRING8, SYMBOL8, STRING8]

# A field, and the columns it goes to (-1, or NULL: none). The second one has the type of an
# identifier, or the moments that Arrow's consumers cannot show.
cdef struct Field:
    int way
    # Of text: the constructor of short ones, and what they must be.
    int small
    int rule
    int column_index, second_index
    Column* column
    Column* second
    bint has_default
    int64_t default_value

# A key: where its constructor is, its bytes with that and without, and where the value goes if this
# entry is asked for alone.
cdef struct Key:
    cursor at
    Py_ssize_t whole, n
    Values* pick

# A map section: its rows, its keys, its values.
#
# Messages of one array mostly have the same keys in their maps. So the keys of the map before are
# kept at hand with what is known of them: that they are text, and unlike each other. In a column
# they begin at `known_first`.
cdef struct Map:
    bint wanted
    # Where it goes as a VARIANT (-1, or NULL: nowhere), and its metadata after that.
    int variant_index
    Column* variant
    Column rows
    Column keys
    Values values
    Py_ssize_t known_count, known_first
    Key[MAX_PAIRS] known

# An entry of a map section that is asked for alone.
cdef struct Pick:
    int section
    cursor key
    Py_ssize_t n
    Values values


# Composites: the header and the properties.


cdef bint put_type(Batch* b, Column* column, Py_ssize_t row, int code) noexcept nogil:
    """Write the type of an identifier."""
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
    elif code != UUID_CODE and CODES[code].way != UNSIGNED:
        return NULL
    if n > stop - p:
        return NULL
    if column != NULL:
        if CODES[code].way == UNSIGNED:
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
    """Read a field of a fixed width. What is cut off is written, too, and undone with its row."""
    cdef Column* column = field.column
    cdef int64_t number = 0
    if field.way == BOOLEAN_FIELD:
        if code == BOOLEAN_CODE:
            number = p[0]
        elif code == TRUE_CODE:
            number = 1
        elif code != FALSE_CODE:
            return NULL
        if number > 1:
            return NULL
    elif field.way == UINT_FIELD:
        if code == UINT_CODE:
            number = u32(p)
        elif code == SMALL_UINT:
            number = p[0]
        elif code != UINT0:
            return NULL
    elif field.way == UBYTE_FIELD:
        if code != UBYTE_CODE:
            return NULL
        number = p[0]
    else:
        if field.way != TIMESTAMP_FIELD or code != TIMESTAMP_CODE:
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
    """Read a field after its constructor."""
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
    elif field.way != IDENTIFIER_FIELD:
        return read_number(b, field, row, p, stop, code)
    else:
        p = read_identifier(b, field.column, row, p, stop, code)
    if p != NULL and field.second != NULL and not put_type(b, field.second, row, code):
        return NULL
    return p


cdef bint put_default(Batch* b, Field* field, Py_ssize_t row) noexcept nogil:
    return put_number(b, field.column, row, field.default_value)


cdef inline cursor read_composite(
    Batch* b, int section, Py_ssize_t row, cursor p, cursor end
) noexcept nogil:
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
    # What is left out at the end of a list is null.
    while field < behind:
        if field.has_default and not put_default(b, field, row):
            return NULL
        field += 1
    return p if p == stop else NULL


# Maps: annotations, application properties, the footer.


cdef Values* picked_for(Batch* b, int section, cursor key, Py_ssize_t n) noexcept nogil:
    """Find where the value of a key goes that is asked for alone; NULL if it is not."""
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
    """Read key i of a map, which must be unlike all keys before it, and note it as known."""
    cdef Key* known = map.known
    cdef cursor at = p
    cdef Py_ssize_t n, j
    cdef uint64_t bit
    cdef int small = STRING8 if section == APPLICATION_PROPERTIES else SYMBOL8
    if p >= stop or (p[0] != small and p[0] != small + LARGE):
        return NULL
    p = open_sized(p + 1, p[0], &n)
    # A value follows.
    if n >= stop - p or not is_allowed(p, n, CODES[small].rule):
        return NULL
    if seen[0] == 0:
        for j in range(i):
            seen[0] |= key_bit(known[j].at + known[j].whole - known[j].n, known[j].n)
    bit = key_bit(p, n)
    if seen[0] & bit:
        for j in range(i):
            if known[j].n == n and equals(known[j].at + known[j].whole - n, p, n):
                return NULL
    seen[0] |= bit
    known[i].at = at
    known[i].whole = p + n - at
    known[i].n = n
    known[i].pick = picked_for(b, section, p, n) if b.picked[section] else NULL
    return p + n


cdef inline cursor pass_key(
    Batch* b, Map* map, int section, Py_ssize_t i, cursor p, cursor stop, uint64_t* seen
) noexcept nogil:
    """Read key i of a map: return where its value begins, or NULL."""
    cdef Key* key = &map.known[i]
    if i < map.known_count and key.whole < stop - p and equals(p, key.at, key.whole):
        return p + key.whole
    # From here on none is known, until all of this map are.
    map.known_count = 0
    return read_key(b, map, section, i, p, stop, seen)


cdef inline void put_keys(Map* map, Py_ssize_t first, Py_ssize_t count) noexcept nogil:
    """Write the keys of a map that has been read, for which there is room."""
    cdef Column* column = &map.keys
    cdef Key* key = map.known
    cdef int32_t* ends = <int32_t*> column.cells + first + 1
    cdef int32_t begin = <int32_t> column.size, moved
    cdef Py_ssize_t i
    if count <= map.known_count:
        # They stand in the column already, in one piece: those of the map that was read last.
        moved = begin - (<int32_t*> column.cells)[map.known_first]
        for i in range(count):
            ends[i] = ends[i + map.known_first - first] + moved
        column.size = ends[count - 1] if count else begin
        copied(column.data + begin, column.data + begin - moved, column.size - begin)
        return
    for i in range(count):
        copied(column.data + column.size, key.at + key.whole - key.n, key.n)
        column.size += key.n
        ends[i] = <int32_t> column.size
        key += 1
    map.known_first = first
    map.known_count = count


cdef bint begin_map(
    Batch* b, Map* map, Py_ssize_t row, Py_ssize_t pairs, Py_ssize_t size
) noexcept nogil:
    """Make room for the entries of a map of this many bytes."""
    if not begin_list(b, &map.rows, row):
        return False
    if (
        (map.values.room == 0 and not grow_values(&map.values, (pairs + 1) * min(b.rows, SEEN)))
        or not room_for(&map.values, pairs + 1)
        or (map.keys.slots < map.values.room and not widen_member(&map.keys, map.values.room))
        or not has_room(&map.keys, size)
    ):
        return full(b)
    (<int32_t*> map.keys.cells)[map.values.count] = <int32_t> map.keys.size
    return True


cdef bint begin_pick(Batch* b, Values* values) noexcept nogil:
    """Make room for the value of an entry that is asked for alone."""
    if not room_for(values, 1):
        return full(b)
    set_bit(values.members[TYPE].bits, values.count)
    return True


cdef inline cursor open_map(
    Batch* b, int section, cursor p, cursor end, cursor* stop, Py_ssize_t* pairs
) noexcept nogil:
    """Read a map's constructor, size and count: return where its pairs begin, or NULL."""
    cdef int code = p[0]
    if code != MAP8 and code != MAP8 + LARGE:
        return NULL
    p = open_compound(b, p + 1, end, code, stop, pairs)
    if pairs[0] & 1 or pairs[0] > 2 * MAX_PAIRS:
        return NULL
    pairs[0] >>= 1
    # Application properties hold simple values only.
    b.depth = 0 if section == APPLICATION_PROPERTIES else b.max_depth
    return p


cdef cursor read_map(
    Batch* b, Map* map, bint whole, int section, Py_ssize_t row, cursor p, cursor end
) noexcept nogil:
    """Read a map section into its columns, or else those entries that are asked for alone."""
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
        p = pass_key(b, map, section, i, p, stop, &seen)
        if p == NULL:
            return NULL
        codes[i] = p[0]
        if not whole:
            values = map.known[i].pick
            if values == NULL:
                p = pass_value(p + 1, stop, codes[i])
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
        will_write_values(values)
        will_write_lines(map.keys.data, map.keys.size, map.keys.size - size)
        will_write(map.keys.cells, 4 * values.count)
    elif map.known_count == 0:
        map.known_count = pairs
    return p


cdef cursor read_map_section(
    Batch* b, int section, Py_ssize_t row, cursor p, cursor end
) noexcept nogil:
    """Read a map section: the whole of it, the entries that are picked, or both."""
    cdef Map* map = &b.map_sections[b.map_of[section]]
    cdef int64_t items = b.items, zero_width = b.zero_width
    cdef cursor behind
    if map.wanted or map.variant != NULL:
        if map.wanted:
            behind = read_map(b, map, True, section, row, p, end)
        else:
            behind = read_map_variant(b, map, section, row, p, end)
        if behind == NULL or not b.picked[section]:
            return behind
        # What is read twice counts once.
        b.items = items
        b.zero_width = zero_width
    return read_map(b, map, False, section, row, p, end)


# Bodies: data, and values as text.


cdef inline bint put_length(Batch* b, Py_ssize_t row, bint again, Py_ssize_t n) noexcept nogil:
    """Note the bytes of a data section; they make a cell where there is more than one."""
    cdef Column* column = &b.columns[b.body_lengths]
    cdef int64_t length = n
    if not again:
        b.first_length = length
        return True
    # The first cell of a row is begun with the second section, and gets longer.
    if column.written <= row and not put_text(b, column, row, <cursor> &b.first_length, 8, ANY):
        return False
    return put_bytes(b, column, <cursor> &length, 8)


cdef inline cursor read_data(
    Batch* b, Py_ssize_t row, bint again, cursor p, cursor end
) noexcept nogil:
    """Read a data section; the bytes of several are joined."""
    cdef int code = p[0]
    cdef Py_ssize_t n
    cdef uint8_t* out
    if code != BINARY8 and code != BINARY8 + LARGE:
        return NULL
    p = open_sized(p + 1, code, &n)
    if n > end - p:
        return NULL
    if b.body_text >= 0:
        # Bytes that are not text are null there. The plain implementation looks across sections.
        if again or (
            not put_text(b, &b.columns[b.body_text], row, p, n, UTF8) and b.full
        ):
            return NULL
    if b.body_lengths >= 0 and not put_length(b, row, again, n):
        return NULL
    if b.body < 0:
        return p + n
    if again:
        # The cell is begun; it gets longer.
        return p + n if put_bytes(b, &b.columns[b.body], p, n) else NULL
    out = begin_text(b, &b.columns[b.body], row, n)
    if out == NULL:
        return NULL
    memcpy(out, p, n)
    will_write_lines(out, n, n)
    return p + n


cdef inline bint put_body_kind(Batch* b, int section, Py_ssize_t row) noexcept nogil:
    cdef int kind = section - DATA
    cdef uint8_t* out = begin_text(b, &b.columns[b.body_kind], row, b.kind_sizes[kind])
    if out == NULL:
        return False
    memcpy(out, b.kind_names[kind], 16)
    return True


cdef cursor read_body(
    Batch* b, int section, int number, Py_ssize_t row, cursor p, cursor end
) noexcept nogil:
    """Read a body section, the first, second and so on of its message by `number`."""
    cdef Column* sections = column_at(b, b.body_sections)
    if number == 1 and b.body_kind >= 0 and not put_body_kind(b, section, row):
        return NULL
    if sections != NULL:
        # Written again for each.
        sections.written = min(sections.written, row)
        if not put_number(b, sections, row, number):
            return NULL
    if not b.needs[section]:
        return pass_over(p, end)
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
    """Read an amqp-value, or an amqp-sequence, into those columns that are asked for."""
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
        # What is read twice counts once.
        b.items = items
        b.zero_width = zero_width
        return read_json(b, section, again, row, p, end)
    if behind == NULL:
        # Nobody asked for this value, but it has to be right.
        behind = write_typed(b, &b.scratch, p, end, b.max_depth)
        b.scratch.size = 0
    return behind
