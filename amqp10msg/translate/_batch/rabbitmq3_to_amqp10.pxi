# From content headers of 0-9-1 to encoded 1.0 messages, as RabbitMQ 3.10 with its plugin delivers
# them: sections out of headers, as they are there.

cdef const char* NOT_CONVERTED = b"headers are not converted"
cdef const char* LEFT_OUT = b"it is left out"
cdef const char* AS_MILLISECONDS = (
    b"the number of seconds becomes a number of milliseconds"
)
# The properties that are left out.
cdef int[3] DROPPED = [TYPE, APP_ID, CLUSTER_ID]
cdef text[3] DROPPED_NAMES = [b"properties.type", b"properties.app-id", b"properties.cluster-id"]


cdef int put_old(Out* o, int code, cursor p, Py_ssize_t n) except -1:
    """Write a string or a binary, whose short form ends one byte earlier there."""
    if n != 255:
        return put_variable(o, code, p, n)
    octet(o, code + 0x10)
    number(o, 255, 4)
    return put(o, p, n)


cdef bint is_one_section(cursor p, Py_ssize_t n, int code) noexcept nogil:
    """Whether bytes are nothing but one section."""
    cdef cursor stop = p + n
    cdef Span found
    found.at = NULL
    return skip_section(&p, stop, code, &found) == GOOD and found.at != NULL and p == stop


@cython.final
cdef class RabbitMQ3ToAmqp10(RabbitMQToAmqp10):
    """Translates messages of 0-9-1 as RabbitMQ 3.10 does."""

    cdef RabbitMQ3ToBasic proof
    cdef Span[SAVED] saved

    def __cinit__(self, *given):
        self.proof = RabbitMQ3ToBasic(*given)
        self.delivery_count = 0x40

    def configured(
        self, bytes user or None, bint queue_addresses, bint metadata_first, bint trims, bint stream
    ):
        """Return this, set up for a queue or a stream, as `RabbitMQToAmqp10` is."""
        self.proof.configured(user, False, queue_addresses, stream)
        return RabbitMQToAmqp10.configured(
            self, user, queue_addresses, metadata_first, trims, stream
        )

    cdef int property(self, int index, Value* v) except -1:
        """Read a property as the field that it becomes."""
        if index == TIMESTAMP_AT:  # which may be milliseconds, on the way back
            v.number = <int64_t> unsigned_at(v.at, 8)
            if not 0 <= v.number <= LATEST:
                return ODD
            v.number *= 1000
            return GOOD
        if index != MESSAGE_ID and index != CORRELATION_ID:
            return RabbitMQToAmqp10.property(self, index, v)
        v.kind = STRING
        return GOOD if is_short(v.at, v.n) else ODD

    cdef int read_table(self, cursor p, cursor stop) except -1:
        """Read the headers, some of which may be sections."""
        cdef Entries* entries = &self.given.entries
        cdef Entry* entry
        while p < stop:
            if entries.count == MOST:
                return ODD
            entry = &entries.at[entries.count]
            if read_any_field(&p, stop, entry) == ODD:
                return ODD
            if is_known(entries, 0, entry.name, entry.size) or self.is_odd(entry):
                return ODD
            entries.count += 1
        return GOOD

    cdef bint is_odd(self, Entry* entry) noexcept:
        """Whether a header is neither a section nor one that is told as it is."""
        cdef Value* v = &entry.value
        cdef int i
        for i in range(SAVED):
            if is_text(entry.name, entry.size, SAVED_NAMES[i]):
                entry.kept = True
                if entry.letter != c"S" and entry.letter != c"x":
                    return True
                # Annotations are read on the way into a stream; `proof` looks at what is in them.
                return (
                    self.stream and i == 0
                    and not is_one_section(v.at, v.n, MESSAGE_ANNOTATIONS_CODE)
                )
        if v.kind == DOUBLE or v.kind == FLOAT or v.kind == NULL_KIND:
            return True
        if v.kind == STRING and not is_utf8(v.at, v.n):
            return True
        return (
            not is_plain_name(entry.name, entry.size)
            or is_route(entry.name, entry.size)
            or is_text(entry.name, entry.size, b"x-stream-offset")
            or is_text(entry.name, entry.size, b"x-amqp-1.0-footer")
        )

    cdef int end_read(self) except -1:
        """Find the sections among the headers."""
        cdef Given* g = &self.given
        cdef Entry* entry
        cdef Py_ssize_t k
        cdef int i
        g.is_marked = g.there[TYPE] and is_text(g.given[TYPE].at, g.given[TYPE].n, MARKER)
        for i in range(SAVED):
            self.saved[i].at = NULL
        for k in range(g.entries.count):
            entry = &g.entries.at[k]
            if not entry.kept:
                continue
            for i in range(SAVED):
                if is_text(entry.name, entry.size, SAVED_NAMES[i]):
                    self.saved[i].at = entry.value.at
                    self.saved[i].n = entry.value.n
        # A user-id becomes a string, which no receiver reads.
        return ODD if g.there[USER_ID] and self.saved[1].at == NULL else GOOD

    cdef int write(self, Out* o) except -1:
        """Write the message."""
        cdef Given* g = &self.given
        cdef Py_ssize_t start = o.size
        cdef bint is_certain = not g.is_marked
        cdef Span body
        cdef int i
        self.tell_headers()
        self.tell_properties()
        self.write_header(o)
        for i in range(SAVED):
            if self.saved[i].at != NULL:
                is_certain = False
                put(o, self.saved[i].at, self.saved[i].n)
            elif i == 1:
                self.write_properties(o)
        if g.is_marked:
            put(o, g.body.at, g.body.n)
        else:
            begin_section(o, DATA_CODE)
            put_old(o, 0xA0, g.body.at, g.body.n)
        if is_certain:
            return GOOD
        # What is pasted unread may be anything.
        self.proof.begin()
        return self.proof.read(o.at + start, o.size - start, &body)

    cdef int tell_headers(self) except -1:
        """Tell of the headers that are no sections."""
        cdef Given* g = &self.given
        cdef Losses* losses = &self.losses
        cdef Entry* entry
        cdef Py_ssize_t k
        for k in range(g.entries.count):
            entry = &g.entries.at[k]
            if entry.kept:
                continue
            say(&losses.path.data, b"headers['")
            put(&losses.path.data, entry.name, entry.size)
            say(&losses.path.data, b"']")
            if entry.value.kind == TIMESTAMP:
                digits(&losses.before.data, <uint64_t> (entry.value.number // 1000))
            else:
                json_value(&losses.before.data, &entry.value)
            end_final_loss(losses, b"dropped", False, NOT_CONVERTED)
        return 0

    cdef int tell_properties(self) except -1:
        """Tell of the properties that are left out, and of the moment that becomes another."""
        cdef Given* g = &self.given
        cdef Losses* losses = &self.losses
        cdef uint64_t seconds
        cdef int i
        for i in range(3):
            if g.there[DROPPED[i]] and not (DROPPED[i] == TYPE and g.is_marked):
                self.tell_property(DROPPED_NAMES[i], &g.given[DROPPED[i]])
                end_final_loss(losses, b"dropped", False, LEFT_OUT)
        if g.there[TIMESTAMP_AT]:
            seconds = <uint64_t> (g.given[TIMESTAMP_AT].number // 1000)
            say(&losses.path.data, b"properties.timestamp")
            digits(&losses.before.data, seconds)
            digits(&losses.after.data, seconds)
            end_final_loss(losses, b"retyped", True, AS_MILLISECONDS)
        return 0

    cdef int write_properties(self, Out* o) except -1:
        """Write the properties, whose subject is the routing key."""
        cdef Given* g = &self.given
        cdef Out* list_ = &self.section
        cdef int[FIELDS] sources = [
            MESSAGE_ID, -1, -1, -1, REPLY_TO, CORRELATION_ID, CONTENT_TYPE, CONTENT_ENCODING, -1,
            TIMESTAMP_AT, -1, -1, -1,
        ]
        cdef Out* made = &self.unpacked
        cdef Value* v
        cdef int i, source
        list_.size = 0
        for i in range(FIELDS):
            source = sources[i]
            if i == 3:
                put_old(list_, 0xA1, g.routing_key.at, g.routing_key.n)
                continue
            if source < 0 or not g.there[source]:
                octet(list_, 0x40)
                continue
            v = &g.given[source]
            if source == TIMESTAMP_AT:
                octet(list_, 0x83)
                number(list_, <uint64_t> (v.number // 1000), 8)
            elif source == REPLY_TO:
                made.size = 0
                say(made, OLD_QUEUES)
                put(made, v.at, v.n)
                put_old(list_, 0xA1, made.at, made.size)
            elif v.kind == SYMBOL:
                put_variable(list_, 0xA3, v.at, v.n)
            else:
                put_old(list_, 0xA1, v.at, v.n)
        begin_section(o, PROPERTIES_CODE)
        return put_compound(o, 0xC0, FIELDS, list_)
