# Content headers of 0-9-1 as fields of 1.0, and the residual in them.

# A message of 0-9-1 as it was read. Of the residual: the encoded sections and values that it keeps.
cdef struct Given:
    bint[PROPERTIES] there
    Value[PROPERTIES] given
    Entries entries
    Span exchange, routing_key, body, residual
    bint redelivered, is_delivered, is_marked
    Span header, annotations, properties, application
    bint[FIELDS] keeps
    Span[FIELDS] fields
    Span[MOST] values


cdef class ContentReader:
    """Reads messages of 0-9-1; says of each whether it is a usual one.

    Args:
        as for `MessageReader`.
    """

    cdef ToBasic basic
    cdef Given given
    cdef Out unpacked

    def __cinit__(self, *given):
        self.basic = ToBasic(*given)

    def __dealloc__(self):
        free_out(&self.unpacked)

    cdef int read(self, Span* header) except -1:
        """Read a content header."""
        cdef Given* g = &self.given
        cdef cursor p = header.at
        cdef cursor stop = p + header.n
        cdef int i, flags
        cdef Value* v
        g.entries.count = 0
        g.residual.at = g.header.at = g.annotations.at = NULL
        g.properties.at = g.application.at = NULL
        g.is_delivered = g.exchange.n > 0 or g.routing_key.n > 0
        memset(g.keeps, 0, sizeof(g.keeps))
        if g.is_delivered and not (
            is_short(g.exchange.at, g.exchange.n) and is_short(g.routing_key.at, g.routing_key.n)
        ):
            return ODD
        if stop - p < 14 or unsigned_at(p, 2) != 60:
            return ODD
        if unsigned_at(p + 4, 8) != <uint64_t> g.body.n:
            return ODD
        flags = <int> unsigned_at(p + 12, 2)
        if flags & 3:
            return ODD
        p += 14
        for i in range(PROPERTIES):
            g.there[i] = flags >> (15 - i) & 1
            if not g.there[i]:
                continue
            v = &g.given[i]
            v.start = v.at = p
            if i == HEADERS:
                if stop - p < 4 or <int64_t> unsigned_at(p, 4) > stop - p - 4:
                    return ODD
                v.n = <Py_ssize_t> unsigned_at(p, 4)
                p += 4 + v.n
                if self.read_table(p - v.n, p) == ODD:
                    return ODD
                continue
            v.n = 1 if i == DELIVERY_MODE or i == PRIORITY else 8
            if i != DELIVERY_MODE and i != PRIORITY and i != TIMESTAMP_AT:
                if p == stop:
                    return ODD
                v.n = p[0]
                p += 1
                v.at = p
            if v.n > stop - p:
                return ODD
            p += v.n
            if self.property(i, v) == ODD:
                return ODD
        return self.end_read() if p == stop else ODD

    cdef int end_read(self) except -1:
        """Look at what the properties say of the body."""
        cdef Given* g = &self.given
        g.is_marked = g.there[TYPE] and is_text(g.given[TYPE].at, g.given[TYPE].n, MARKER)
        if g.is_marked:
            if not is_body(g.body.at, g.body.at + g.body.n):
                return ODD
            octets = PyBytes_FromStringAndSize(<const char*> g.body.at, g.body.n)
            if self.basic.rewritten(octets) is None:
                return ODD
            # Without data, these stand in annotations, but where the residual says otherwise.
            if g.properties.at == NULL and (
                (g.there[CONTENT_TYPE] and not g.keeps[6])
                or (g.there[CONTENT_ENCODING] and not g.keeps[7])
            ):
                return ODD
        return GOOD

    cdef int property(self, int index, Value* v) except -1:
        """Read a property as the field or annotation that it becomes."""
        cdef bint is_id = index == MESSAGE_ID or index == CORRELATION_ID
        if index == DELIVERY_MODE or index == PRIORITY:
            v.kind = UBYTE
            v.number = v.at[0]
            if index == PRIORITY:
                return GOOD if v.number <= 9 else ODD
            return GOOD if 1 <= v.number <= 2 else ODD
        if index == TIMESTAMP_AT:
            v.number = <int64_t> unsigned_at(v.at, 8)
            if not 0 <= v.number < 1000000000000:
                return ODD
            v.number *= 1000
            return GOOD
        if index == EXPIRATION:
            return read_digits(v)
        if index == CONTENT_TYPE or index == CONTENT_ENCODING:
            return GOOD if self.basic.is_known_symbol(index, v.at, v.n) else ODD
        v.kind = STRING
        if not is_short(v.at, v.n):
            return ODD
        if is_id and begins(v.at, v.n, b"urn:uuid:"):
            if not is_uuid(v.at + 9, v.n - 9):
                return ODD
            v.kind = UUID
            v.at += 9
            v.n -= 9
            return GOOD
        if is_id and (begins(v.at, v.n, b"urn:") or begins(v.at, v.n, b"ID:")):
            return ODD
        if index == USER_ID and v.n > LONGEST_USER and bytes_found(v.at, v.n) & HIGH:
            return ODD
        return GOOD

    cdef int read_table(self, cursor p, cursor stop) except -1:
        """Read the headers; the last may be a residual."""
        cdef Given* g = &self.given
        cdef Entry* entry
        while p < stop:
            if g.entries.count == MOST:
                return ODD
            entry = &g.entries.at[g.entries.count]
            if read_field(&p, stop, entry) == ODD:
                return ODD
            if is_text(entry.name, entry.size, RESIDUAL):
                if p != stop or entry.letter != c"S" or g.is_delivered:
                    return ODD
                g.residual.at = entry.value.at
                g.residual.n = entry.value.n
                return self.read_residual()
            if self.is_odd_header(entry) or is_known(&g.entries, 0, entry.name, entry.size):
                return ODD
            g.entries.count += 1
        return GOOD if g.entries.count else ODD

    cdef bint is_odd_header(self, Entry* entry) except -1:
        """Whether a header has no place of its own, or means something to brokers."""
        cdef bytes name
        cdef bint is_extension = begins(entry.name, entry.size, b"x-")
        for name in self.basic.odd_names:
            if is_same(
                entry.name, entry.size, <cursor> PyBytes_AS_STRING(name), PyBytes_GET_SIZE(name)
            ):
                return True
        if is_extension:
            return (
                bytes_found(entry.name, entry.size) != 0
                or entry.size > 249
                or entry.value.kind == NULL_KIND
                or begins(entry.name, entry.size, b"x-opt-x-")
                or begins(entry.name, entry.size, b"x-basic-")
                or begins(entry.name, entry.size, ROW_PREFIX)
            )
        return is_route(entry.name, entry.size) or not is_short(entry.name, entry.size)

    cdef int read_residual(self) except -1:
        """Read what the message kept of the 1.0 message that it was."""
        cdef Given* g = &self.given
        cdef Out* o = &self.unpacked
        cdef cursor p, stop
        cdef uint64_t count = 0, key = 0, n = 0, i
        cdef Span section
        o.size = 0
        if take_base64(o, g.residual.at, g.residual.n) == ODD or o.size < 3:
            return ODD
        p = o.at
        stop = p + o.size
        if p[0] != 0x83 or p[1] != 1:
            return ODD
        p += 2
        if cbor_read(&p, stop, 5, &count) == ODD:
            return ODD
        for i in range(count):
            if cbor_read(&p, stop, 0, &key) == ODD:
                return ODD
            if key == 2:  # in which order they stood: that of the headers, unless a broker sorted
                if cbor_read(&p, stop, 4, &n) == ODD:
                    return ODD
                while n:
                    n -= 1
                    if cbor_read(&p, stop, 0, &key) == ODD:
                        return ODD
            elif key == HEADER_CODE or (
                MESSAGE_ANNOTATIONS_CODE <= key <= APPLICATION_PROPERTIES_CODE
            ):
                if cbor_read(&p, stop, 2, &n) == ODD:
                    return ODD
                section.at = p - <Py_ssize_t> n
                section.n = <Py_ssize_t> n
                if key == HEADER_CODE:
                    g.header = section
                elif key == MESSAGE_ANNOTATIONS_CODE:
                    g.annotations = section
                elif key == PROPERTIES_CODE:
                    g.properties = section
                else:
                    g.application = section
            elif key == 0x173:
                if self.read_kept_fields(&p, stop) == ODD:
                    return ODD
            elif key == 0x174:
                if self.read_kept_values(&p, stop) == ODD:
                    return ODD
            else:
                return ODD
        return GOOD  # the checksum is compared with the rest, by the way there

    cdef int read_kept_fields(self, cursor* p, cursor stop) except -1:
        cdef Given* g = &self.given
        cdef uint64_t count = 0, index = 0, n = 0, i
        if cbor_read(p, stop, 5, &count) == ODD:
            return ODD
        for i in range(count):
            if cbor_read(p, stop, 0, &index) == ODD or index >= FIELDS:
                return ODD
            if cbor_read(p, stop, 2, &n) == ODD:
                return ODD
            g.keeps[index] = True
            g.fields[index].at = p[0] - <Py_ssize_t> n
            g.fields[index].n = <Py_ssize_t> n
        return GOOD

    cdef int read_kept_values(self, cursor* p, cursor stop) except -1:
        cdef Given* g = &self.given
        cdef uint64_t count = 0, size = 0, n = 0, i
        cdef cursor name
        cdef Py_ssize_t k
        if cbor_read(p, stop, 5, &count) == ODD:
            return ODD
        for i in range(count):
            if cbor_read(p, stop, 3, &size) == ODD:
                return ODD
            name = p[0] - <Py_ssize_t> size
            if cbor_read(p, stop, 2, &n) == ODD:
                return ODD
            for k in range(g.entries.count):
                if is_same(g.entries.at[k].name, g.entries.at[k].size, name, <Py_ssize_t> size):
                    g.entries.at[k].kept = True
                    g.values[k].at = p[0] - <Py_ssize_t> n
                    g.values[k].n = <Py_ssize_t> n
        return GOOD
