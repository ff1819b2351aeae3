# From encoded 1.0 messages to content headers of 0-9-1, as the lossless profile does it.


cdef class ToBasic(MessageReader):
    """Translates messages of 1.0 to content headers and payloads."""

    cdef Texts header, payload, exchange, routing_key
    cdef Out there, redelivered, table, content
    cdef text ulong_prefix  # of an id that is a number

    def __cinit__(self, *_):
        self.ulong_prefix = b"ID:AMQP_ULONG:"
        self.begin()

    def __dealloc__(self):
        free_texts(&self.header)
        free_texts(&self.payload)
        free_texts(&self.exchange)
        free_texts(&self.routing_key)
        free_out(&self.there)
        free_out(&self.redelivered)
        free_out(&self.table)
        free_out(&self.content)

    cdef int begin(self) except -1:
        """Begin a batch."""
        begin_texts(&self.header)
        begin_texts(&self.payload)
        begin_texts(&self.exchange)
        begin_texts(&self.routing_key)
        self.there.size = self.redelivered.size = 0
        return begin_losses(&self.losses)

    def run(self, Py_ssize_t rows, wire):
        """Translate a batch: return the numbers of the odd rows, and the buffers of the others.

        Args:
            rows: how many.
            wire: the column of messages, as for `Column`.
        """
        cdef Column messages = Column(rows, wire)
        cdef Py_ssize_t row
        cdef Span given
        cdef list odd = []
        cdef bint are_all = True
        self.begin()
        for row in range(rows):
            if not messages.cell(row, &given):
                are_all = False
                self.blank()
            elif self.row(given.at, given.n) == ODD:
                are_all = False
                odd.append(row)
                self.blank()
        made = (
            None if are_all else bits_of(&self.there),
            buffers_of(&self.header),
            buffers_of(&self.payload),
            buffers_of(&self.exchange),
            buffers_of(&self.routing_key),
            bits_of(&self.redelivered),
            losses_of(&self.losses),
        )
        return odd, made

    cdef int blank(self) except -1:
        """End a row that has no message."""
        end_text(&self.header)
        end_text(&self.payload)
        end_text(&self.exchange)
        end_text(&self.routing_key)
        octet(&self.there, 0)
        octet(&self.redelivered, 0)
        return end_losses(&self.losses)

    cdef int row(self, cursor p, Py_ssize_t n) except -1:
        """Translate a message as the next row; where it is odd, nothing is done."""
        cdef Mark mark = mark_of(&self.losses)
        cdef Py_ssize_t size = self.header.data.size
        cdef Span body
        if self.read(p, n, &body) == ODD or self.write(body.n) == ODD:
            cut_losses(&self.losses, &mark)
            self.header.data.size = size
            return ODD
        end_text(&self.header)
        put_text(&self.payload, body.at, body.n)
        if self.made.is_delivered:
            put(&self.exchange.data, self.made.exchange.at, self.made.exchange.n)
            put(&self.routing_key.data, self.made.routing_key.at, self.made.routing_key.n)
        end_text(&self.exchange)
        end_text(&self.routing_key)
        octet(&self.there, 1)
        octet(&self.redelivered, self.made.redelivered)
        end_losses(&self.losses)
        return GOOD

    cdef int write(self, Py_ssize_t body_size) except -1:
        """Write the content header."""
        cdef Made* made = &self.made
        cdef Out* o = &self.header.data
        cdef Value* v
        cdef Py_ssize_t i, k, start
        cdef int flags = 0
        cdef bint keeps = self.keeps()
        # Otherwise the thorough way proves that it can be undone. What a delivery adds by the rules
        # the way back adds by the same: the header with all fields, the last two annotations.
        if keeps and (not made.is_certain or (made.is_delivered and made.annotations.at != NULL)):
            return ODD
        if not keeps:
            self.tell_order()
        made.there[HEADERS] = made.entries.count > 0 or keeps
        for i in range(PROPERTIES):
            if made.there[i]:
                flags |= 1 << (15 - i)
        number(o, 60, 2)
        number(o, 0, 2)
        number(o, <uint64_t> body_size, 8)
        number(o, <uint64_t> flags, 2)
        for i in range(PROPERTIES):
            if not made.there[i]:
                continue
            v = &made.given[i]
            if i == HEADERS:
                start = o.size
                number(o, 0, 4)
                for k in range(made.entries.count):
                    put_field(o, &made.entries.at[k])
                if keeps:
                    self.put_residual(o)
                end_table(o, start)
            elif i == DELIVERY_MODE or i == PRIORITY:
                octet(o, <int> v.number)
            elif i == TIMESTAMP_AT:
                number(o, <uint64_t> (v.number // 1000), 8)
            else:
                start = o.size
                octet(o, 0)
                if i == EXPIRATION:
                    digits(o, <uint64_t> v.number)
                elif v.kind == UUID:
                    say(o, b"urn:uuid:")
                    put_uuid(o, v.at)
                elif v.kind == ULONG:
                    say(o, self.ulong_prefix)
                    digits(o, <uint64_t> v.number)
                else:
                    put(o, v.at, v.n)
                o.at[start] = <uint8_t> (o.size - start - 1)
        return GOOD

    cdef int put_residual(self, Out* o) except -1:
        """Write the header that holds what the others cannot say."""
        cdef Made* made = &self.made
        cdef Entries* entries = &made.entries
        cdef Out* content = &self.content
        cdef uint8_t[MOST] places
        cdef bint is_ordered = sort(entries, places, False)
        cdef bint keeps_field = made.keeps_field and made.properties.at == NULL
        cdef bint keeps_entry = made.keeps_entry and made.application.at == NULL
        cdef Py_ssize_t i, start
        cdef int kept = 0
        content.size = 0
        cbor_head(
            content,
            5,
            <uint64_t> (
                (not is_ordered) + (made.header.at != NULL) + (made.annotations.at != NULL)
                + (made.properties.at != NULL) + (made.application.at != NULL)
                + keeps_field + keeps_entry
            ),
        )
        if not is_ordered:
            cbor_head(content, 0, 2)
            cbor_head(content, 4, <uint64_t> entries.count)
            for i in range(entries.count):
                cbor_head(content, 0, places[i])
        if made.header.at != NULL:
            cbor_head(content, 0, HEADER_CODE)
            cbor_bytes(content, made.header.at, made.header.n)
        if made.annotations.at != NULL:
            cbor_head(content, 0, MESSAGE_ANNOTATIONS_CODE)
            cbor_bytes(content, made.annotations.at, made.annotations.n)
        if made.properties.at != NULL:
            cbor_head(content, 0, PROPERTIES_CODE)
            cbor_bytes(content, made.properties.at, made.properties.n)
        if made.application.at != NULL:
            cbor_head(content, 0, APPLICATION_PROPERTIES_CODE)
            cbor_bytes(content, made.application.at, made.application.n)
        if keeps_field:
            for i in range(FIELDS):
                kept += made.keeps[i]
            cbor_head(content, 0, 0x173)
            cbor_head(content, 5, <uint64_t> kept)
            for i in range(FIELDS):
                if made.keeps[i]:
                    cbor_head(content, 0, <uint64_t> i)
                    cbor_bytes(content, made.fields[i].at, made.fields[i].n)
        if keeps_entry:
            self.put_kept(content)
        self.table.size = 0
        put_packed(&self.table, content)
        octet(o, <int> strlen(RESIDUAL))
        say(o, RESIDUAL)
        octet(o, c"S")
        start = o.size
        number(o, 0, 4)
        put_base64(o, self.table.at, self.table.size)
        return end_table(o, start)

    cdef int put_kept(self, Out* content) except -1:
        """Write the application properties that are kept."""
        cdef Entries* entries = &self.made.entries
        cdef Entry* entry
        cdef uint8_t[MOST] places
        cdef Py_ssize_t i
        cdef int kept = 0
        sort(entries, places, True)
        for i in range(self.made.split):
            kept += entries.at[i].kept
        cbor_head(content, 0, 0x174)
        cbor_head(content, 5, <uint64_t> kept)
        for i in range(entries.count):
            if places[i] < self.made.split and entries.at[places[i]].kept:
                entry = &entries.at[places[i]]
                cbor_head(content, 3, <uint64_t> entry.size)
                put(content, entry.name, entry.size)
                cbor_bytes(
                    content, entry.value.start, entry.value.at + entry.value.n - entry.value.start
                )
        return 0
