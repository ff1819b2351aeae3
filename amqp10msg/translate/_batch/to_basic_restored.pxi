# Part of `ToBasic`: reading the residual of a 1.0 message that was translated from 0-9-1.
#
# The residual has the whole table of headers, or single fields, their order, or the mark of an
# empty table; properties without a 1.0 counterpart; or the mark of a payload of body sections. Its
# encoding is deterministic. If the message was edited, it is odd: the plain rules merge the edits.


cdef int restore(ToBasic self, Py_ssize_t told) except -1:
    """Restore the original 0-9-1 message from its residual. Return ODD if that is not possible.

    `told` is the number of losses of application properties that were reported.
    """
    cdef Made* made = &self.made
    cdef cursor p = self.saved.at
    cdef cursor stop = p + self.saved.n
    cdef uint64_t count = 0, key = 0, n = 0
    cdef int64_t last = -1
    cdef Py_ssize_t i
    cdef int what
    if made.delivery.at != NULL or made.footer.at != NULL or made.keeps_entry:
        return ODD
    for i in range(FIELDS):
        if made.keeps[i] and made.fields[i].at[0] != 0x40:  # a value instead of a trailing null
            return ODD
    if stop - p < 3 or p[0] != 0x83 or p[1] != 1:
        return ODD
    p += 2
    if cbor_read(&p, stop, 5, &count) == ODD:
        return ODD
    for i in range(<Py_ssize_t> count):
        if cbor_read(&p, stop, 0, &key) == ODD or <int64_t> key <= last:
            return ODD
        last = <int64_t> key
        if key == 3:
            what = restore_table(self, &p, stop) if not told and count == 1 else ODD
        elif key == 16:
            what = restore_fields(self, &p, stop) if not told else ODD
        elif key == 17:
            what = restore_order(self, &p, stop)
        elif key == 15 or key == 18:
            what = cbor_read(&p, stop, 0, &n)
            if n != 1 or (key == 15 and not self.is_sections):
                return ODD
            self.is_empty = self.is_empty or key == 18
        else:
            what = restore_property(self, &p, stop, <int> min(key, 255))
        if what == ODD:
            return ODD
    # Heads are shortest and keys ascending, so only the checksum remains to be compared.
    self.table.size = 0
    cbor_head(
        &self.table, 0,
        crc32(bytes_at(self.saved.at + 2, p - self.saved.at - 2)),
    )
    return GOOD if is_same(self.table.at, self.table.size, p, stop - p) else ODD


cdef int restore_order(ToBasic self, cursor* place, cursor stop) except -1:
    """Insert the headers from annotations at their original positions in `order`."""
    cdef Made* made = &self.made
    cdef uint64_t count = 0, n = 0, last = 0
    cdef Py_ssize_t i, k, at, size = made.split
    if cbor_read(place, stop, 4, &count) == ODD or count > MOST:
        return ODD
    for i in range(<Py_ssize_t> count):
        # Positions must be ascending, so that annotations stay in the order of their losses.
        if cbor_read(place, stop, 0, &n) == ODD or (i > 0 and n <= last):
            return ODD
        last = n
        if made.split + i >= made.entries.count:
            continue
        at = size if n > <uint64_t> size else <Py_ssize_t> n
        for k in range(size, at, -1):
            self.order[k] = self.order[k - 1]
        self.order[at] = <uint8_t> (made.split + i)
        size += 1
    return GOOD


cdef int restore_property(ToBasic self, cursor* place, cursor stop, int number) except -1:
    """Set a property from the residual. Return ODD if the 1.0 message has a counterpart of it."""
    cdef cursor p = place[0]
    cdef bint is_text = p < stop and p[0] >> 5 == 2
    cdef uint64_t n = 0
    cdef Value* v
    if cbor_read(place, stop, 2 if is_text else 0, &n) == ODD:
        return ODD
    if is_text:
        p = place[0] - <Py_ssize_t> n
        said = bytes_at(p, <Py_ssize_t> n)
    else:
        said = n
    if (
        not 0 < number <= PROPERTIES or self.made.there[number - 1]
        # Restoring these would require a conversion to `Value.number`, from which they are written.
        or number - 1 == EXPIRATION or number - 1 == TIMESTAMP_AT
        or not self.plain.is_only_in_residual(
            number, said, self.made.parts > 0 and not self.made.is_marked
        )
    ):
        return ODD
    v = &self.made.given[number - 1]
    v.kind = STRING
    v.at, v.n, v.number = p, <Py_ssize_t> n, <int64_t> n
    self.made.there[number - 1] = True
    return GOOD


cdef int restore_fields(ToBasic self, cursor* place, cursor stop) except -1:
    """Restore the original fields of headers. Return ODD if such a header was edited."""
    cdef Entries* entries = &self.made.entries
    cdef Entry* entry
    cdef uint64_t count = 0, size = 0, n = 0, last_size = 0
    cdef Py_ssize_t i, k
    cdef cursor name, last = NULL
    cdef bytes field, wire
    if cbor_read(place, stop, 5, &count) == ODD:
        return ODD
    for i in range(<Py_ssize_t> count):
        if cbor_read(place, stop, 3, &size) == ODD:
            return ODD
        name = place[0] - <Py_ssize_t> size
        if last != NULL and not (last_size < size or (last_size == size and sorts_before(
            last, <Py_ssize_t> size, name, <Py_ssize_t> size
        ))):
            return ODD
        last, last_size = name, size
        if cbor_read(place, stop, 2, &n) == ODD or n == 0:
            return ODD
        field = bytes_at(place[0] - <Py_ssize_t> n, <Py_ssize_t> n)
        for k in range(entries.count):
            if is_same(entries.at[k].name, entries.at[k].size, name, <Py_ssize_t> size):
                break
        else:
            return ODD
        entry = &entries.at[k]
        found = self.plain.encode_header_value(
            bytes_at(name, <Py_ssize_t> size), field
        )
        if found is None or entry.kept:
            return ODD
        wire = found
        if not equals_bytes(entry.value.start, wire_size(&entry.value), wire):
            return ODD
        self.held.append(field)
        entry.letter = field[0]
        entry.value.kind = ENCODED
        entry.value.at = <cursor> PyBytes_AS_STRING(field) + 1
        entry.value.n = PyBytes_GET_SIZE(field) - 1
    return GOOD


cdef int restore_table(ToBasic self, cursor* place, cursor end) except -1:
    """Restore the headers from the original table. Return ODD if a header was edited."""
    cdef Entries* found = &self.originals
    cdef Entries* entries = &self.made.entries
    cdef uint64_t size = 0
    cdef cursor p
    cdef cursor stop
    cdef Py_ssize_t i, k, matched = 0, items = 0, split = 0
    cdef Entry* entry
    cdef Span name
    cdef int is_annotation
    if cbor_read(place, end, 2, &size) == ODD or size <= 4:
        return ODD
    stop = place[0]
    p = stop - size
    if unsigned_at(p, 4) != size - 4:
        return ODD
    p += 4
    found.count = 0
    while p < stop:
        if found.count == MOST:
            return ODD
        entry = &found.at[found.count]
        entry.kept = False
        if next_field(&p, stop, c"F", &name, &entry.letter, &entry.value) == ODD:
            return ODD
        entry.name, entry.size = name.at, name.n
        if not is_rewritten_same(entry.letter, &entry.value, 0, &items):
            return ODD
        if scan_bytes(entry.name, entry.size) or has_name(
            found, 0, found.count, entry.name, entry.size
        ):
            return ODD
        # The value's bytes, after the type letter.
        entry.value.kind = ENCODED
        entry.value.at = entry.value.start
        entry.value.n = p - entry.value.start
        found.count += 1
        for k in range(entries.count):
            if is_same(entries.at[k].name, entries.at[k].size, entry.name, entry.size):
                break
        else:
            if is_representable(self, entry):
                return ODD  # the header was removed
            continue
        if entries.at[k].kept:
            return ODD
        self.shape.size = 0
        put_header(&self.shape, &entries.at[k])
        if not is_same(
            self.shape.at, self.shape.size, entry.name - 1, p - (entry.name - 1)
        ):
            return ODD
        matched += 1
    if matched != entries.count:
        return ODD
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
    return GOOD


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
        if next_field(&p, stop, letter, &name, &code, &inner) == ODD:
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
