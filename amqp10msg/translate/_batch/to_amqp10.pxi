# From content headers of 0-9-1 to encoded 1.0 messages, as the lossless profile does it.

cdef const char* SAID_BY_COUNT = (
    b"header.delivery-count says it; a broker on the way back says both anew"
)

# By property: the field of the properties section that holds it, or -1.
cdef int[PROPERTIES] PLACES = [6, 7, -1, -1, -1, 5, 4, -1, 0, 9, -1, 1, -1, -1]
# The annotations of properties without a field, in their order.
cdef int[5] ROWS = [DELIVERY_MODE, PRIORITY, TYPE, APP_ID, CLUSTER_ID]
cdef text[5] ROW_KEYS = [
    b"x-opt-basic-delivery-mode", b"x-opt-basic-priority", b"x-opt-basic-type",
    b"x-opt-basic-app-id", b"x-opt-basic-cluster-id",
]


cdef class ToAmqp10(ContentReader):
    """Translates messages of 0-9-1 to encoded messages of 1.0."""

    cdef Texts wire
    cdef Losses losses
    cdef Out there, section

    def __cinit__(self, *_):
        self.begin()

    def __dealloc__(self):
        free_texts(&self.wire)
        free_losses(&self.losses)
        free_out(&self.there)
        free_out(&self.section)

    cdef int begin(self) except -1:
        """Begin a batch."""
        self.there.size = 0
        begin_texts(&self.wire)
        return begin_losses(&self.losses)

    def run(
        self, Py_ssize_t rows, content_header, payload, exchange, routing_key, redelivered
    ):
        """Translate a batch: return the numbers of the odd rows, and the buffers of the others.

        Args:
            rows: how many.
            content_header, payload, exchange, routing_key: the columns, as for `Column`.
            redelivered: the column of bits, with its validity and the first cell; None for nulls.
        """
        cdef Column headers = Column(rows, content_header)
        cdef Column bodies = Column(rows, payload)
        cdef Column exchanges = Column(rows, exchange)
        cdef Column keys = Column(rows, routing_key)
        cdef Bits bits = Bits(rows, redelivered)
        cdef Given* g = &self.given
        cdef Py_ssize_t row
        cdef Span header
        cdef list odd = []
        cdef bint are_all = True, has_header, has_body
        self.begin()
        for row in range(rows):
            has_header = headers.cell(row, &header)
            has_body = bodies.cell(row, &g.body)
            exchanges.cell(row, &g.exchange)
            keys.cell(row, &g.routing_key)
            g.redelivered = bits.bit(row)
            if has_header and self.row(&header) == GOOD:
                octet(&self.there, 1)
                continue
            are_all = False
            if has_header or has_body:
                odd.append(row)
            octet(&self.there, 0)
            end_text(&self.wire)
            end_losses(&self.losses)
        valid = None if are_all else bits_of(&self.there)
        return odd, (valid, buffers_of(&self.wire), losses_of(&self.losses))

    cdef int row(self, Span* header) except -1:
        """Translate a message as the next row; where it is odd, nothing is done."""
        cdef Given* g = &self.given
        cdef Out* o = &self.wire.data
        cdef Py_ssize_t start = o.size
        if self.read(header) == ODD or self.write(o) == ODD:
            o.size = start
            return ODD
        if g.residual.at != NULL:
            # Only what becomes this very message is what it was.
            self.basic.begin()
            if (
                self.basic.row(o.at + start, o.size - start) == ODD
                or not is_same(
                    self.basic.header.data.at, self.basic.header.data.size, header.at, header.n
                )
                or self.basic.made.redelivered != g.redelivered
            ):
                o.size = start
                return ODD
        elif g.redelivered and not g.is_delivered:
            say(&self.losses.path.data, b"redelivered")
            say(&self.losses.before.data, b"true")
            octet(&self.losses.after.data, 49)
            end_loss(&self.losses, b"retyped", True, SAID_BY_COUNT)
        end_text(&self.wire)
        end_losses(&self.losses)
        return GOOD

    cdef int write(self, Out* o) except -1:
        """Write the message."""
        cdef Given* g = &self.given
        if g.header.at != NULL:
            put(o, g.header.at, g.header.n)
        else:
            self.write_header(o)
        if g.annotations.at != NULL:
            put(o, g.annotations.at, g.annotations.n)
        else:
            self.write_annotations(o)
        if g.properties.at != NULL:
            put(o, g.properties.at, g.properties.n)
        else:
            self.write_properties(o)
        if g.application.at != NULL:
            put(o, g.application.at, g.application.n)
        else:
            self.write_application(o)
        if g.is_marked:
            put(o, g.body.at, g.body.n)
            return GOOD
        begin_section(o, DATA_CODE)
        put_variable(o, 0xA0, g.body.at, g.body.n)
        return GOOD

    cdef int write_header(self, Out* o) except -1:
        cdef Given* g = &self.given
        cdef Out* list_ = &self.section
        cdef bint durable = g.there[DELIVERY_MODE] and g.given[DELIVERY_MODE].number == 2
        cdef bint has_priority = g.there[PRIORITY] and g.given[PRIORITY].number != 4
        cdef bint counts = g.redelivered and not g.is_delivered
        cdef int count
        list_.size = 0
        if g.is_delivered:  # as RabbitMQ 4 writes it
            count = 5
        else:
            count = 5 if counts else 3 if g.there[EXPIRATION] else 2 if has_priority else durable
        if not count:
            return 0
        octet(list_, 0x41 if durable else 0x42 if g.is_delivered else 0x40)
        if count > 1:
            if has_priority:
                octet(list_, 0x50)
                octet(list_, <int> g.given[PRIORITY].number)
            else:
                octet(list_, 0x40)
        if count > 2:
            if g.there[EXPIRATION]:
                put_uint(list_, <uint64_t> g.given[EXPIRATION].number)
            else:
                octet(list_, 0x40)
        if g.is_delivered:
            octet(list_, 0x42 if g.redelivered else 0x41)
            octet(list_, 0x43)
        elif counts:
            octet(list_, 0x40)
            octet(list_, 0x52)
            octet(list_, 1)
        begin_section(o, HEADER_CODE)
        return put_compound(o, 0xC0, count, list_)

    cdef int write_annotations(self, Out* o) except -1:
        cdef Given* g = &self.given
        cdef Out* map_ = &self.section
        cdef Entry* entry
        cdef Py_ssize_t count = 0, i
        cdef Value* v
        cdef bint is_mixed = False, has_extensions = False
        map_.size = 0
        for i in range(5):
            v = &g.given[ROWS[i]]
            if not g.there[ROWS[i]] or (ROWS[i] == TYPE and g.is_marked):
                continue
            if i < 2 and v.number != (1 if ROWS[i] == DELIVERY_MODE else 4):
                continue
            count += 2
            put_symbol(map_, ROW_KEYS[i])
            if i < 2:
                octet(map_, 0x50)
                octet(map_, <int> v.number)
            else:
                put_variable(map_, 0xA1, v.at, v.n)
        for i in range(g.entries.count):
            entry = &g.entries.at[i]
            if not begins(entry.name, entry.size, b"x-"):
                is_mixed = is_mixed or has_extensions
                continue
            has_extensions = True
            count += 2
            if begins(entry.name, entry.size, b"x-opt-"):
                put_variable(map_, 0xA3, entry.name, entry.size)
            else:
                octet(map_, 0xA3)
                octet(map_, <int> entry.size + 6)
                say(map_, b"x-opt-")
                put(map_, entry.name, entry.size)
            put_value(map_, &entry.value)
        # A residual from 1.0 says the order itself.
        if is_mixed and g.residual.at == NULL:
            count += 2
            self.write_order(map_)
        if g.is_delivered:
            count += 4
            put_symbol(map_, b"x-exchange")
            put_variable(map_, 0xA1, g.exchange.at, g.exchange.n)
            put_symbol(map_, b"x-routing-key")
            put_variable(map_, 0xA1, g.routing_key.at, g.routing_key.n)
        if not count:
            return 0
        begin_section(o, MESSAGE_ANNOTATIONS_CODE)
        return put_compound(o, 0xC1, count, map_)

    cdef int write_order(self, Out* o) except -1:
        """Write a residual that says where the headers stood that became annotations."""
        cdef Given* g = &self.given
        cdef Out* content = &self.unpacked
        cdef Out* packed = &self.basic.table
        cdef Py_ssize_t i
        cdef int count = 0
        for i in range(g.entries.count):
            count += begins(g.entries.at[i].name, g.entries.at[i].size, b"x-")
        content.size = packed.size = 0
        cbor_head(content, 5, 1)
        cbor_head(content, 0, 17)
        cbor_head(content, 4, <uint64_t> count)
        for i in range(g.entries.count):
            if begins(g.entries.at[i].name, g.entries.at[i].size, b"x-"):
                cbor_head(content, 0, <uint64_t> i)
        put_packed(packed, content)
        put_symbol(o, RESIDUAL)
        return put_variable(o, 0xA0, packed.at, packed.size)

    cdef int write_properties(self, Out* o) except -1:
        cdef Given* g = &self.given
        cdef Out* list_ = &self.section
        cdef int[FIELDS] sources
        cdef int i, count = 0, source
        cdef Value* v
        for i in range(FIELDS):
            sources[i] = -1
        for i in range(PROPERTIES):
            if PLACES[i] >= 0 and g.there[i]:
                sources[PLACES[i]] = i
        for i in range(FIELDS):
            if sources[i] >= 0 or g.keeps[i]:
                count = i + 1
        if not count:
            return 0
        list_.size = 0
        for i in range(count):
            source = sources[i]
            if g.keeps[i]:
                put(list_, g.fields[i].at, g.fields[i].n)
                continue
            if source < 0:
                octet(list_, 0x40)
                continue
            v = &g.given[source]
            if source == TIMESTAMP_AT:
                octet(list_, 0x83)
                number(list_, <uint64_t> v.number, 8)
            elif v.kind == UUID and (source == MESSAGE_ID or source == CORRELATION_ID):
                put_uuid_value(list_, v.at)
            elif source == CONTENT_TYPE or source == CONTENT_ENCODING:
                put_variable(list_, 0xA3, v.at, v.n)
            else:
                put_variable(list_, 0xA0 if source == USER_ID else 0xA1, v.at, v.n)
        begin_section(o, PROPERTIES_CODE)
        return put_compound(o, 0xC0, count, list_)

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
            if entry.kept:
                put(map_, g.values[i].at, g.values[i].n)
            else:
                put_value(map_, &entry.value)
        if not count:
            return 0
        begin_section(o, APPLICATION_PROPERTIES_CODE)
        return put_compound(o, 0xC1, count, map_)
