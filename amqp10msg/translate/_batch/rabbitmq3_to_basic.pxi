# From encoded 1.0 messages to content headers of 0-9-1, as RabbitMQ 3.10 with its plugin delivers
# them: whole sections as headers.

cdef enum:
    SAVED = 3

# By section that is saved, in the order in which they stand: its name, and that of its header.
cdef text[SAVED] SECTION_NAMES = [b"message-annotations", b"properties", b"application-properties"]
cdef text[SAVED] SAVED_NAMES = [
    b"x-amqp-1.0-message-annotations", b"x-amqp-1.0-properties", b"x-amqp-1.0-app-properties",
]
# The last moment, in seconds, whose milliseconds are a number of 64 bits.
cdef int64_t LATEST = 9223372036854775
cdef const char* IS_HEADER = b"the encoded section becomes a header"
cdef const char* IS_DATA = b"binary"
cdef const char* OLD_QUEUES = b"/queue/"


cdef int quote(Out* o, const char* name) except -1:
    """Write a name within quotation marks."""
    octet(o, 34)
    say(o, name)
    return octet(o, 34)


@cython.final
cdef class RabbitMQ3ToBasic(RabbitMQToBasic):
    """Translates messages of 1.0 as RabbitMQ 3.10 does, from a queue and from a stream alike."""

    cdef int read(self, cursor p, Py_ssize_t n, Span* body) except -1:
        cdef cursor stop = p + n
        cdef Span header
        cdef Span[SAVED] sections
        cdef Made* made = &self.made
        cdef int i
        self.begin_message()
        self.gathered.count = 0
        header.at = NULL
        for i in range(SAVED):
            sections[i].at = NULL
        if skip_section(&p, stop, HEADER_CODE, &header) == ODD:
            return ODD
        for i in range(SAVED):
            if skip_section(&p, stop, MESSAGE_ANNOTATIONS_CODE + i, &sections[i]) == ODD:
                return ODD
        if self.read_body(p, stop, body) == ODD:
            return ODD
        if made.is_marked:
            if n > CERTAIN:  # the limits of decoding count its values
                return ODD
            # A list as the value is taken for the fields of a record.
            if p[2] == AMQP_VALUE_CODE and (p[3] == 0x45 or p[3] == 0xC0 or p[3] == 0xD0):
                return ODD
        else:
            made.there[TYPE] = True
            made.given[TYPE].kind = STRING
            made.given[TYPE].at = <cursor> IS_DATA
            made.given[TYPE].n = <Py_ssize_t> strlen(IS_DATA)
        if header.at != NULL:
            if self.remember(&header) == ODD:
                return ODD
            made.there[DELIVERY_MODE] = True
        if sections[0].at != NULL and self.check_map(&sections[0], SYMBOL) == ODD:
            return ODD
        if sections[1].at != NULL and self.set_fields(&sections[1]) == ODD:
            return ODD
        if sections[2].at != NULL and self.check_map(&sections[2], STRING) == ODD:
            return ODD
        for i in range(SAVED):
            if sections[i].at != NULL:
                self.save(i, &sections[i])
        self.put_in_order()
        return GOOD

    cdef int save(self, int section, Span* octets) except -1:
        """Make a section a header."""
        cdef Entry* entry = &self.gathered.at[self.gathered.count]
        self.gathered.count += 1
        entry.name = <cursor> SAVED_NAMES[section]
        entry.size = <Py_ssize_t> strlen(SAVED_NAMES[section])
        entry.letter = c"S"
        entry.kept = False
        entry.value.kind = BINARY
        entry.value.at = octets.at
        entry.value.n = octets.n
        say(&self.losses.path.data, SECTION_NAMES[section])
        quote(&self.losses.before.data, SECTION_NAMES[section])
        quote(&self.losses.after.data, SAVED_NAMES[section])
        return end_loss(&self.losses, b"carried", True, IS_HEADER)

    cdef int check_map(self, Span* section, int kind) except -1:
        """Look whether a section is a map of simple values, with keys of this type."""
        cdef cursor p = section.at + 3
        cdef cursor stop = section.at + section.n
        cdef cursor end = NULL
        cdef Py_ssize_t count = 0, i, k
        cdef Span[MOST] keys
        cdef Value key, value
        if open_compound(&p, stop, 0xC1, &count, &end) == ODD or end != stop:
            return ODD
        if count & 1 or count > 2 * MOST:
            return ODD
        for i in range(count >> 1):
            if read_value(&p, stop, &key) == ODD or read_value(&p, stop, &value) == ODD:
                return ODD
            if key.kind != kind:
                return ODD
            if self.stream and kind == SYMBOL and value.kind == NULL_KIND:
                return ODD  # which a stream does not hold
            for k in range(i):
                if is_same(keys[k].at, keys[k].n, key.at, key.n):
                    return ODD
            keys[i].at = key.at
            keys[i].n = key.n
        return GOOD if p == stop else ODD

    cdef int set_fields(self, Span* section) except -1:
        """Set the properties that a section has."""
        cdef Made* made = &self.made
        cdef Value[FIELDS] fields
        cdef int i, target
        cdef Value* v
        for i in range(FIELDS):
            fields[i].kind = NULL_KIND
        if self.read_fields(section, fields) == ODD:
            return ODD
        for i in range(FIELDS):
            target = TARGETS[i]
            v = &fields[i]
            if target < 0 or v.kind == NULL_KIND:
                continue
            if v.kind == ULONG:  # which is no text
                return ODD
            if v.kind == TIMESTAMP:
                if not 0 <= v.number <= LATEST:
                    return ODD
                v.number *= 1000  # it is taken for seconds
            else:
                if target == USER_ID and (
                    self.user is None or not is_same(
                        v.at, v.n,
                        <cursor> PyBytes_AS_STRING(self.user), PyBytes_GET_SIZE(self.user),
                    )
                ):
                    return ODD
                if target == REPLY_TO and begins(v.at, v.n, OLD_QUEUES):
                    v.at += strlen(OLD_QUEUES)
                    v.n -= <Py_ssize_t> strlen(OLD_QUEUES)
                if v.n > 255:
                    return ODD
                v.kind = BINARY  # a UUID is its bytes
            made.there[target] = True
            made.given[target] = v[0]
        return GOOD
