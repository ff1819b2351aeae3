# From content headers of 0-9-1 to encoded 1.0 messages, as RabbitMQ 4 delivers them.

cdef const char* IS_BASIC_TYPE = b"it becomes the annotation x-basic-type"
cdef const char* IS_GROUP_ID = b"it becomes the group-id"
cdef const char* NO_TEXT = b"no UTF-8 without NUL of 4,096 bytes at most"
cdef const char* NO_FIELD = b"1.0 has no such field"


cdef bint is_unreserved(cursor p, Py_ssize_t n) noexcept nogil:
    """Whether a queue's name stands in an address as it is."""
    cdef Py_ssize_t i
    cdef int code
    for i in range(n):
        code = p[i]
        if not (
            c"0" <= code <= c"9" or c"a" <= (code | 32) <= c"z"
            or code == c"-" or code == c"." or code == c"_" or code == c"~"
        ):
            return False
    return True


cdef bint is_longstr_text(Value* v) noexcept nogil:
    """Whether RabbitMQ takes a long string for text."""
    return v.n <= 4096 and not bytes_found(v.at, v.n) & NUL and is_utf8(v.at, v.n)


cdef class RabbitMQToAmqp10(ToAmqp10):
    """Translates messages of 0-9-1 as RabbitMQ 4.0 or later does."""

    cdef bytes user
    cdef bint queue_addresses, metadata_first, trims, stream
    cdef int delivery_count  # how it is written, which is always 0

    def __cinit__(self, *_):
        self.delivery_count = 0x43

    def configured(
        self, bytes user or None, bint queue_addresses, bint metadata_first, bint trims, bint stream
    ):
        """Return this, set up for a version.

        Args:
            user: the name that a user-id must be; None to leave messages with one to the others.
            queue_addresses, metadata_first, trims, stream: as `BrokerVersion` has them.
        """
        self.user = user
        self.queue_addresses = queue_addresses
        self.metadata_first = metadata_first
        self.trims = trims
        self.stream = stream
        return self

    cdef int row(self, Span* header) except -1:
        """Translate a message as the next row; where it is odd, nothing is done."""
        cdef Out* o = &self.wire.data
        cdef Py_ssize_t start = o.size
        cdef Mark mark = mark_of(&self.losses)
        if self.read(header) == ODD or self.write(o) == ODD:
            o.size = start
            cut_losses(&self.losses, &mark)
            return ODD
        end_text(&self.wire)
        end_losses(&self.losses)
        return GOOD

    cdef int property(self, int index, Value* v) except -1:
        """Read a property as the field or annotation that it becomes."""
        if index == PRIORITY:
            v.kind = UBYTE
            v.number = v.at[0]
            return GOOD
        if index == CONTENT_TYPE or index == CONTENT_ENCODING:
            v.kind = SYMBOL
            return ODD if bytes_found(v.at, v.n) else GOOD
        if index == MESSAGE_ID or index == CORRELATION_ID:
            if not is_short(v.at, v.n):
                return ODD
            v.kind = STRING
            if begins(v.at, v.n, b"urn:uuid:") and v.n == 45:
                if not is_uuid(v.at + 9, 36):
                    return ODD
                v.kind = UUID
                v.at += 9
                v.n -= 9
            return GOOD
        if ContentReader.property(self, index, v) == ODD:
            return ODD
        if index == USER_ID:
            return GOOD if self.user is not None and is_same(
                v.at, v.n, <cursor> PyBytes_AS_STRING(self.user), PyBytes_GET_SIZE(self.user)
            ) else ODD
        if index == REPLY_TO:
            if is_text(v.at, v.n, b"amq.rabbitmq.reply-to"):
                return ODD
            return GOOD if not self.queue_addresses or is_unreserved(v.at, v.n) else ODD
        return GOOD

    cdef int read_table(self, cursor p, cursor stop) except -1:
        """Read the headers."""
        cdef Entries* entries = &self.given.entries
        cdef Entry* entry
        while p < stop:
            if entries.count == MOST:
                return ODD
            entry = &entries.at[entries.count]
            if read_any_field(&p, stop, entry) == ODD or not is_short(entry.name, entry.size):
                return ODD
            if entry.letter == c"S" and not is_longstr_text(&entry.value):
                if not is_plain_name(entry.name, entry.size):
                    return ODD
                entry.value.kind = BINARY
                entry.kept = True
            if begins(entry.name, entry.size, b"x-"):
                if (
                    bytes_found(entry.name, entry.size)
                    or begins(entry.name, entry.size, b"x-amqp-1.0-")
                    or is_text(entry.name, entry.size, b"x-exchange")
                    or is_text(entry.name, entry.size, b"x-routing-key")
                    or is_text(entry.name, entry.size, b"x-basic-type")
                    or (self.stream and entry.value.kind == NULL_KIND)
                    or (self.stream and is_text(entry.name, entry.size, b"x-basic-expiration"))
                    or (
                        is_text(entry.name, entry.size, FILTER_VALUE)
                        and (entry.letter != c"S" or entry.kept)
                    )
                ):
                    return ODD
            elif is_route(entry.name, entry.size):
                return ODD
            if is_known(entries, 0, entry.name, entry.size):
                return ODD
            entries.count += 1
        return GOOD

    cdef int end_read(self) except -1:
        """Look at what the properties say of the body."""
        cdef Given* g = &self.given
        g.is_marked = g.there[TYPE] and is_text(g.given[TYPE].at, g.given[TYPE].n, MARKER)
        return ODD if g.is_marked and not is_body(g.body.at, g.body.at + g.body.n) else GOOD

    cdef int write(self, Out* o) except -1:
        """Write the message."""
        cdef Given* g = &self.given
        cdef bytes octets
        self.write_header(o)
        self.write_annotations(o)
        self.write_properties(o)
        self.write_application(o)
        if g.is_marked:
            octets = PyBytes_FromStringAndSize(<const char*> g.body.at, g.body.n)
            octets = self.basic.rewritten(octets)
            if octets is None:
                return ODD
            put(o, PyBytes_AS_STRING(octets), PyBytes_GET_SIZE(octets))
            return GOOD
        begin_section(o, DATA_CODE)
        put_variable(o, 0xA0, g.body.at, g.body.n)
        return GOOD

    cdef int write_header(self, Out* o) except -1:
        cdef Given* g = &self.given
        cdef Out* list_ = &self.section
        list_.size = 0
        octet(
            list_,
            0x41 if g.there[DELIVERY_MODE] and g.given[DELIVERY_MODE].number == 2 else 0x42,
        )
        if g.there[PRIORITY]:
            octet(list_, 0x50)
            octet(list_, <int> g.given[PRIORITY].number)
        else:
            octet(list_, 0x40)
        if g.there[EXPIRATION]:
            put_uint(list_, <uint64_t> g.given[EXPIRATION].number)
        else:
            octet(list_, 0x40)
        octet(list_, 0x42 if g.redelivered else 0x41)
        octet(list_, self.delivery_count)
        begin_section(o, HEADER_CODE)
        return put_compound(o, 0xC0, 5, list_)

    cdef int write_own(self, Out* map_, const char* name, Span* found) except -1:
        """Write an annotation of the broker."""
        put_symbol(map_, name)
        return put_variable(map_, 0xA1, found.at, found.n)

    cdef int write_value(self, Out* o, Entry* entry) except -1:
        """Write the value of a header as RabbitMQ does."""
        cdef Value* v = &entry.value
        if entry.kept:
            say(&self.losses.path.data, b"headers['")
            put(&self.losses.path.data, entry.name, entry.size)
            say(&self.losses.path.data, b"']")
            say(&self.losses.before.data, b'"S"')
            say(&self.losses.after.data, b'"binary"')
            end_final_loss(&self.losses, b"retyped", True, NO_TEXT)
        # A stream reads annotations, and writes them again as it likes.
        if v.kind != BOOLEAN or (self.stream and begins(entry.name, entry.size, b"x-")):
            return put_value(o, v)
        octet(o, 0x56)
        return octet(o, v.number != 0)

    cdef int write_annotations(self, Out* o) except -1:
        cdef Given* g = &self.given
        cdef Out* map_ = &self.section
        cdef Entry* entry
        cdef Value* v = &g.given[TYPE]
        cdef Py_ssize_t count = 4, i
        map_.size = 0
        if self.metadata_first:
            self.write_own(map_, b"x-routing-key", &g.routing_key)
            self.write_own(map_, b"x-exchange", &g.exchange)
        if g.there[TYPE]:
            count += 2
            put_symbol(map_, b"x-basic-type")
            put_variable(map_, 0xA1, v.at, v.n)
        for i in range(g.entries.count):
            entry = &g.entries.at[i]
            if begins(entry.name, entry.size, b"x-"):
                count += 2
                put_variable(map_, 0xA3, entry.name, entry.size)
                self.write_value(map_, entry)
        if g.there[TYPE]:
            self.tell_property(b"properties.type", v)
            json_value(&self.losses.after.data, v)
            end_loss(&self.losses, b"renamed", True, IS_BASIC_TYPE)
        if not self.metadata_first:
            self.write_own(map_, b"x-exchange", &g.exchange)
            self.write_own(map_, b"x-routing-key", &g.routing_key)
        begin_section(o, MESSAGE_ANNOTATIONS_CODE)
        return put_compound(o, 0xC1, count, map_)

    cdef int write_properties(self, Out* o) except -1:
        cdef Given* g = &self.given
        cdef Out* list_ = &self.section
        cdef int[FIELDS] sources
        cdef int i, count = 0, source
        cdef Value* v
        for i in range(FIELDS):
            sources[i] = -1
        for i in range(PROPERTIES):
            if g.there[i] and PLACES[i] >= 0:
                sources[PLACES[i]] = i
        if g.there[APP_ID]:
            sources[10] = APP_ID
            self.tell_property(b"properties.app-id", &g.given[APP_ID])
            json_value(&self.losses.after.data, &g.given[APP_ID])
            end_loss(&self.losses, b"renamed", True, IS_GROUP_ID)
        if g.there[CLUSTER_ID]:
            self.tell_property(b"properties.cluster-id", &g.given[CLUSTER_ID])
            end_final_loss(&self.losses, b"dropped", False, NO_FIELD)
        for i in range(FIELDS):
            if sources[i] >= 0:
                count = i + 1
        if not count:
            return 0
        if not self.trims:
            count = FIELDS
        list_.size = 0
        for i in range(count):
            source = sources[i]
            if source < 0:
                octet(list_, 0x40)
                continue
            v = &g.given[source]
            if source == TIMESTAMP_AT:
                octet(list_, 0x83)
                number(list_, <uint64_t> v.number, 8)
            elif v.kind == UUID:
                put_uuid_value(list_, v.at)
            elif v.kind == SYMBOL:
                put_variable(list_, 0xA3, v.at, v.n)
            elif source == REPLY_TO and self.queue_addresses:
                self.write_address(list_, v)
            else:
                put_variable(list_, 0xA0 if source == USER_ID else 0xA1, v.at, v.n)
        begin_section(o, PROPERTIES_CODE)
        return put_compound(o, 0xC0, count, list_)

    cdef int write_address(self, Out* o, Value* v) except -1:
        """Write the address of a queue."""
        cdef Out* made = &self.unpacked
        made.size = 0
        say(made, QUEUES)
        put(made, v.at, v.n)
        return put_variable(o, 0xA1, made.at, made.size)

    cdef int tell_property(self, const char* path, Value* v) except -1:
        """Begin to tell of a property."""
        say(&self.losses.path.data, path)
        return json_value(&self.losses.before.data, v)

    cdef int write_application(self, Out* o) except -1:
        cdef Given* g = &self.given
        cdef Out* map_ = &self.section
        cdef Entry* entry
        cdef Py_ssize_t count = 0, i
        map_.size = 0
        for i in range(g.entries.count):
            entry = &g.entries.at[i]
            if begins(entry.name, entry.size, b"x-"):
                continue
            count += 2
            put_variable(map_, 0xA1, entry.name, entry.size)
            self.write_value(map_, entry)
        if not count:
            return 0
        begin_section(o, APPLICATION_PROPERTIES_CODE)
        return put_compound(o, 0xC1, count, map_)
