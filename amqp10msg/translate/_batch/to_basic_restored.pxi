# Part of `ToBasic`: reading the residual of a 1.0 message that was translated from 0-9-1.
#
# The residual has the whole table of headers, or single fields, their order, or the mark of an
# empty table; properties without a 1.0 counterpart; or the mark of a payload of body sections. Its
# encoding is deterministic. Edited messages are unsupported: the plain rules merge the edits.


cdef int restore(ToBasic self, Py_ssize_t property_losses) except -1:
    """Restore the original 0-9-1 message from its residual, or return UNSUPPORTED.

    `property_losses` is the number of losses that were reported for application properties.
    """
    cdef Made* made = &self.made
    cdef cursor p = self.residual.at
    cdef cursor stop = p + self.residual.n
    cdef uint64_t count = 0, key = 0, n = 0
    cdef int64_t last = -1
    cdef Py_ssize_t i
    cdef int what
    if made.delivery.at != NULL or made.footer.at != NULL or made.keeps_entry:
        return UNSUPPORTED
    for i in range(FIELDS):
        if made.keeps[i] and made.fields[i].at[0] != 0x40:  # a value instead of a trailing null
            return UNSUPPORTED
    if stop - p < 3 or p[0] != 0x83 or p[1] != 1:
        return UNSUPPORTED
    p += 2
    if cbor_read(&p, stop, 5, &count) == UNSUPPORTED:
        return UNSUPPORTED
    for i in range(<Py_ssize_t> count):
        if cbor_read(&p, stop, 0, &key) == UNSUPPORTED or <int64_t> key <= last:
            return UNSUPPORTED
        last = <int64_t> key
        if key == 3:
            what = UNSUPPORTED
            if not property_losses and count == 1:
                what = restore_table(self, &p, stop)
        elif key == 16:
            what = UNSUPPORTED if property_losses else restore_fields(self, &p, stop)
        elif key == 17:
            what = restore_order(self, &p, stop)
        elif key == 15 or key == 18:
            what = cbor_read(&p, stop, 0, &n)
            if n != 1 or (key == 15 and not self.payload_was_sections):
                return UNSUPPORTED
            self.is_empty = self.is_empty or key == 18
        else:
            what = restore_property(self, &p, stop, <int> min(key, 255))
        if what == UNSUPPORTED:
            return UNSUPPORTED
    # The heads were shortest and the keys ascending, so only the checksum can still be wrong.
    self.table.size = 0
    cbor_head(
        &self.table, 0,
        crc32(bytes_at(self.residual.at + 2, p - self.residual.at - 2)),
    )
    return OK if is_same(self.table.at, self.table.size, p, stop - p) else UNSUPPORTED


cdef int restore_order(ToBasic self, cursor* place, cursor stop) except -1:
    """Insert the headers from annotations at their original positions in `order`."""
    cdef Made* made = &self.made
    cdef uint64_t count = 0, n = 0, last = 0
    cdef Py_ssize_t i, k, at, size = made.split
    if cbor_read(place, stop, 4, &count) == UNSUPPORTED or count > MOST:
        return UNSUPPORTED
    for i in range(<Py_ssize_t> count):
        # The positions must be ascending, because losses were reported in the order of annotations.
        if cbor_read(place, stop, 0, &n) == UNSUPPORTED or (i > 0 and n <= last):
            return UNSUPPORTED
        last = n
        if made.split + i >= made.entries.count:
            continue
        at = size if n > <uint64_t> size else <Py_ssize_t> n
        for k in range(size, at, -1):
            self.order[k] = self.order[k - 1]
        self.order[at] = <uint8_t> (made.split + i)
        size += 1
    return OK


cdef int restore_property(ToBasic self, cursor* place, cursor stop, int number) except -1:
    """Set a property from the residual, or return UNSUPPORTED if 1.0 could hold it elsewhere."""
    cdef cursor p = place[0]
    cdef bint is_text = p < stop and p[0] >> 5 == 2
    cdef uint64_t n = 0
    cdef Value* v
    if cbor_read(place, stop, 2 if is_text else 0, &n) == UNSUPPORTED:
        return UNSUPPORTED
    if is_text:
        p = place[0] - <Py_ssize_t> n
        said = bytes_at(p, <Py_ssize_t> n)
    else:
        said = n
    if (
        not 0 < number <= PROPERTIES or self.made.there[number - 1]
        # These two are written from `Value.number`, not from text as in the residual.
        or number - 1 == EXPIRATION or number - 1 == TIMESTAMP_AT
        or not self.plain.is_only_in_residual(
            number, said, self.made.parts > 0 and not self.made.is_marked
        )
    ):
        return UNSUPPORTED
    v = &self.made.given[number - 1]
    v.kind = STRING
    v.at, v.n, v.number = p, <Py_ssize_t> n, <int64_t> n
    self.made.there[number - 1] = True
    return OK


cdef int restore_fields(ToBasic self, cursor* place, cursor stop) except -1:
    """Restore the original fields of headers; return UNSUPPORTED if a header was edited."""
    cdef Entries* entries = &self.made.entries
    cdef Entry* entry
    cdef uint64_t count = 0, size = 0, n = 0, last_size = 0
    cdef Py_ssize_t i, k
    cdef cursor name, last = NULL
    cdef bytes field, wire
    if cbor_read(place, stop, 5, &count) == UNSUPPORTED:
        return UNSUPPORTED
    for i in range(<Py_ssize_t> count):
        if cbor_read(place, stop, 3, &size) == UNSUPPORTED:
            return UNSUPPORTED
        name = place[0] - <Py_ssize_t> size
        if last != NULL and not (last_size < size or (last_size == size and sorts_before(
            last, <Py_ssize_t> size, name, <Py_ssize_t> size
        ))):
            return UNSUPPORTED
        last, last_size = name, size
        if cbor_read(place, stop, 2, &n) == UNSUPPORTED or n == 0:
            return UNSUPPORTED
        field = bytes_at(place[0] - <Py_ssize_t> n, <Py_ssize_t> n)
        for k in range(entries.count):
            if is_same(entries.at[k].name, entries.at[k].size, name, <Py_ssize_t> size):
                break
        else:
            return UNSUPPORTED
        entry = &entries.at[k]
        found = self.plain.encode_header_value(
            bytes_at(name, <Py_ssize_t> size), field
        )
        if found is None or entry.kept:
            return UNSUPPORTED
        wire = found
        if not equals_bytes(entry.value.start, wire_size(&entry.value), wire):
            return UNSUPPORTED
        self.kept_alive.append(field)
        entry.letter = field[0]
        entry.value.kind = ENCODED
        entry.value.at = <cursor> PyBytes_AS_STRING(field) + 1
        entry.value.n = PyBytes_GET_SIZE(field) - 1
    return OK


cdef int restore_table(ToBasic self, cursor* place, cursor end) except -1:
    """Restore the headers from the original table; return UNSUPPORTED if one was edited."""
    cdef Entries* found = &self.originals
    cdef Entries* entries = &self.made.entries
    cdef uint64_t size = 0
    cdef cursor p
    cdef cursor stop
    cdef Py_ssize_t i, k, matched = 0, items = 0, split = 0
    cdef Entry* entry
    cdef Span name
    cdef int is_annotation
    if cbor_read(place, end, 2, &size) == UNSUPPORTED or size <= 4:
        return UNSUPPORTED
    stop = place[0]
    p = stop - size
    if unsigned_at(p, 4) != size - 4:
        return UNSUPPORTED
    p += 4
    found.count = 0
    while p < stop:
        if found.count == MOST:
            return UNSUPPORTED
        entry = &found.at[found.count]
        entry.kept = False
        if next_field(&p, stop, c"F", &name, &entry.letter, &entry.value) == UNSUPPORTED:
            return UNSUPPORTED
        entry.name, entry.size = name.at, name.n
        if not is_rewritten_same(entry.letter, &entry.value, 0, &items):
            return UNSUPPORTED
        if scan_bytes(entry.name, entry.size) or has_name(
            found, 0, found.count, entry.name, entry.size
        ):
            return UNSUPPORTED
        # The whole encoding of the value, after the type letter.
        entry.value.kind = ENCODED
        entry.value.at = entry.value.start
        entry.value.n = p - entry.value.start
        found.count += 1
        for k in range(entries.count):
            if is_same(entries.at[k].name, entries.at[k].size, entry.name, entry.size):
                break
        else:
            if is_representable(self, entry):
                return UNSUPPORTED  # the header was removed
            continue
        if entries.at[k].kept:
            return UNSUPPORTED
        self.data_heads.size = 0
        put_header(&self.data_heads, &entries.at[k])
        if not is_same(
            self.data_heads.at, self.data_heads.size, entry.name - 1, p - (entry.name - 1)
        ):
            return UNSUPPORTED
        matched += 1
    if matched != entries.count:
        return UNSUPPORTED
    # Headers from application properties come first in `entries`; `order` has the original order.
    entries.count = 0
    for is_annotation in range(2):
        for i in range(found.count):
            if begins(found.at[i].name, found.at[i].size, b"x-") == is_annotation:
                self.order[i] = <uint8_t> entries.count
                entries.at[entries.count] = found.at[i]
                entries.count += 1
                split += not is_annotation
    self.made.split = split
    return OK


cdef bint is_representable(ToBasic self, Entry* entry) except -1:
    """Whether a 1.0 message can hold a header outside of its residual."""
    return self.plain.is_representable(
        bytes_at(entry.name, entry.size), bytes_at(entry.value.start - 1, entry.value.n + 1)
    )


cdef bint is_rewritten_same(int letter, Value* v, int level, Py_ssize_t* items) noexcept nogil:
    """Whether this library would encode a field with the same bytes."""
    cdef cursor p, stop
    cdef Value inner
    cdef Span name
    cdef int code
    items[0] += 1
    if items[0] > MOST_ITEMS:
        return False
    if letter == c"t":
        return 0 <= v.number <= 1
    if letter == c"d" or letter == c"f":
        return is_finite_field(letter, v.number)
    if letter == c"T":
        return 0 <= v.number <= LATEST
    if letter == c"L" or letter == c"U" or letter == c"D":
        return False
    if letter != c"A" and letter != c"F":
        return True
    if level >= MOST_LEVELS:
        return False
    p = v.at
    stop = p + v.n
    while p < stop:
        if next_field(&p, stop, letter, &name, &code, &inner) == UNSUPPORTED:
            return False
        if not is_rewritten_same(code, &inner, level + 1, items):
            return False
    return True


cdef bint is_sorted(ToBasic self) noexcept:
    """Whether the restored headers are sorted by name."""
    cdef Entries* entries = &self.made.entries
    cdef Py_ssize_t i
    for i in range(1, entries.count):
        if entry_sorts_before(&entries.at[self.order[i]], &entries.at[self.order[i - 1]], False):
            return False
    return True
