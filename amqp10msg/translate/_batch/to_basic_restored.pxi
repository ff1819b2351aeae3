# Of `ToBasic`: a message of 1.0 that was one of 0-9-1, whose residual is read here.
#
# It is one of those that `write_residual` writes, in the very same bytes: the whole table of
# headers, their order, or that there were none. Where a header was edited since, the plain rules
# merge the two.


cdef int restore(ToBasic self, Py_ssize_t told) except -1:
    """Put the headers as they were; `told` losses are about application properties."""
    cdef Made* made = &self.made
    cdef cursor p = self.saved.at
    cdef cursor stop = p + self.saved.n
    cdef Span kept
    cdef uint64_t key = 0, n = 0
    cdef Py_ssize_t i
    cdef int what
    if made.delivery.at != NULL or made.footer.at != NULL or made.keeps_entry:
        return ODD
    for i in range(FIELDS):
        if made.keeps[i] and made.fields[i].at[0] != 0x40:  # but for nulls after the last value
            return ODD
    if stop - p < 3 or p[0] != 0x83 or p[1] != 1:
        return ODD
    p += 2
    if cbor_read(&p, stop, 5, &n) == ODD or n != 1 or cbor_read(&p, stop, 0, &key) == ODD:
        return ODD
    self.content.size = 0
    cbor_head(&self.content, 5, 1)
    cbor_head(&self.content, 0, key)
    if key == 3:
        if told or cbor_read(&p, stop, 2, &n) == ODD:
            return ODD
        kept.at, kept.n = p - <Py_ssize_t> n, <Py_ssize_t> n
        cbor_bytes(&self.content, kept.at, kept.n)
        what = restore_table(self, &kept)
    elif key == 17:
        what = restore_order(self, &p, stop)
    else:
        what = cbor_read(&p, stop, 0, &n)
        if key != 18 or n != 1:
            return ODD
        cbor_head(&self.content, 0, 1)
        self.is_empty = True
    if what == ODD:
        return ODD
    # One content has one encoding: so head by head and the checksum are compared.
    self.table.size = 0
    put_packed(&self.table, &self.content)
    return GOOD if is_same(self.table.at, self.table.size, self.saved.at, self.saved.n) else ODD


cdef int restore_order(ToBasic self, cursor* place, cursor stop) except -1:
    """Put the headers that were annotations to their positions among the others."""
    cdef Made* made = &self.made
    cdef uint64_t count = 0, n = 0, last = 0
    cdef Py_ssize_t i, k, at, size = made.split
    if cbor_read(place, stop, 4, &count) == ODD or count > MOST:
        return ODD
    cbor_head(&self.content, 4, count)
    for i in range(<Py_ssize_t> count):
        # Positions that ascend leave them in their own order, of which losses are told.
        if cbor_read(place, stop, 0, &n) == ODD or (i > 0 and n <= last):
            return ODD
        last = n
        cbor_head(&self.content, 0, n)
        if made.split + i >= made.entries.count:
            continue
        at = size if n > <uint64_t> size else <Py_ssize_t> n
        for k in range(size, at, -1):
            self.order[k] = self.order[k - 1]
        self.order[at] = <uint8_t> (made.split + i)
        size += 1
    return GOOD


cdef int restore_table(ToBasic self, Span* kept) except -1:
    """Take the headers from the table that was; odd where one of them was edited."""
    cdef Entries* found = &self.originals
    cdef Entries* entries = &self.made.entries
    cdef cursor p = kept.at
    cdef cursor stop = p + kept.n
    cdef Py_ssize_t i, k, matched = 0, items = 0, split = 0
    cdef Entry* entry
    cdef int is_annotation
    if kept.n <= 4 or <Py_ssize_t> unsigned_at(p, 4) != kept.n - 4:
        return ODD
    p += 4
    found.count = 0
    while p < stop:
        if found.count == MOST:
            return ODD
        entry = &found.at[found.count]
        if stop - p < p[0] + 2:
            return ODD
        entry.name = p + 1
        entry.size = p[0]
        p += 1 + entry.size
        entry.letter = p[0]
        entry.kept = False
        p += 1
        if read_content(&p, stop, entry.letter, &entry.value) == ODD:
            return ODD
        if not is_rewritten_same(entry.letter, &entry.value, 0, &items):
            return ODD
        if bytes_found(entry.name, entry.size) or is_known(found, 0, entry.name, entry.size):
            return ODD
        # As it stands after the letter.
        entry.value.kind = ENCODED
        entry.value.at = entry.value.start
        entry.value.n = p - entry.value.start
        found.count += 1
        if stands_nowhere(entry):
            continue
        for k in range(entries.count):
            if is_same(entries.at[k].name, entries.at[k].size, entry.name, entry.size):
                break
        else:
            return ODD
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
    # The others first, as they stand among the application properties.
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


cdef bint stands_nowhere(Entry* entry) noexcept:
    """Whether 1.0 has no place for a header, so that the residual alone holds it."""
    if begins(entry.name, entry.size, b"x-"):
        return entry.letter == c"V"
    return entry.letter == c"A" or entry.letter == c"F" or is_route(entry.name, entry.size)


cdef bint is_rewritten_same(int letter, Value* v, int level, Py_ssize_t* items) noexcept nogil:
    """Whether a field that `read_content` read is written again as it stands."""
    cdef cursor p, stop
    cdef Value inner
    cdef int code
    items[0] += 1
    if items[0] > MOST_ITEMS:
        return False
    if letter == c"t":
        return 0 <= v.number <= 1
    if letter == c"d" or letter == c"f":
        return is_number_field(letter, v.number)
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
        if letter == c"F":
            if stop - p < p[0] + 2:
                return False
            p += 1 + p[0]
        code = p[0]
        p += 1
        if read_content(&p, stop, code, &inner) == ODD:
            return False
        if not is_rewritten_same(code, &inner, level + 1, items):
            return False
    return True


cdef bint is_sorted(ToBasic self) noexcept:
    """Whether the headers stand in the order of their names."""
    cdef Entries* entries = &self.made.entries
    cdef Py_ssize_t i
    for i in range(1, entries.count):
        if precedes(&entries.at[self.order[i]], &entries.at[self.order[i - 1]], False):
            return False
    return True
