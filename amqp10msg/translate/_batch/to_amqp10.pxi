# Translates encoded 0-9-1 messages to encoded 1.0 messages: one engine for all profiles, for
# batches and single messages. A `ToAmqp10Rules` defines a profile; the engine copies it when it is
# created. The plain rules (in Python) translate the messages that the engine does not support.


@cython.final
cdef class ToAmqp10:
    """Translates encoded 0-9-1 messages to encoded 1.0 messages, by the rules of a profile.

    Args:
        rules: a `ToAmqp10Rules`.
        user: the required value of a user-id; None to accept any user-id.
        strict: whether a message with permanent losses is unsupported.
        is_symbol: returns whether the 1.0 field can hold a content-type (first argument 0) or
            content-encoding (1), given its bytes, if the body is data.
        field_json: returns the JSON of a field's value, given the encoded field.
        header_path: returns the path of a header, given the bytes of its name.
        proofs: a pair of `ToBasic` engines to check results, for the lossless profile and for
            RabbitMQ 3.10.
    """

    cdef object field_json, header_path
    cdef Symbols symbols
    cdef list kept_alive  # the bytes objects to which pointers in `rules` point
    cdef list unplaced_names, history
    cdef bytes delivered_header, delivered_annotations
    cdef bytes user
    cdef ToBasic lossless
    cdef ToBasic plugin
    cdef Rules rules
    cdef Given given
    cdef Texts wire
    cdef Losses losses
    cdef Out there, unpacked, packed
    cdef list single  # the losses of a single message; None in a batch
    cdef bint strict, is_refused
    cdef bint is_busy
    cdef bint is_residual_only  # the last result of `check_nested`
    cdef Py_ssize_t items

    def __cinit__(
        self, rules, bytes user or None, bint strict, is_symbol, field_json, header_path, proofs
    ):
        self.strict = strict
        self.symbols = Symbols(is_symbol)
        self.field_json = field_json
        self.header_path = header_path
        self.user = user
        self.lossless, self.plugin = proofs
        self.kept_alive = []
        self.copy_rules(rules)
        self.begin()

    def __dealloc__(self):
        free_texts(&self.wire)
        free_losses(&self.losses)
        free_out(&self.there)
        free_out(&self.unpacked)
        free_out(&self.packed)

    cdef const char* c_text_of(self, text) except NULL:
        """Return a pointer to an encoded text, whose bytes `kept_alive` keeps alive."""
        octets = text.encode()
        self.kept_alive.append(octets)
        return PyBytes_AS_STRING(octets)

    cdef int copy_rules(self, rules) except -1:
        """Copy the rules to C."""
        cdef Rules* to = &self.rules
        cdef PropertyRule* row
        cdef int i
        for i, given in enumerate(rules.properties):
            row = &to.rows[i]
            row.form, row.section, row.field_index, row.code, row.value_stored_as_annotation = (
                given.form, given.section, given.field_index, given.text_constructor,
                given.value_stored_as_annotation
            )
            row.name = self.c_text_of(given.wire_name)
            row.annotation = self.c_text_of(given.annotation) if given.annotation else NULL
        to.loss_count = 0
        for index, loss, after in rules.property_losses:
            to.losses[to.loss_count].index = index
            to.losses[to.loss_count].loss = loss
            to.losses[to.loss_count].after = after
            to.loss_count += 1
        to.is_lossless = rules.is_lossless
        to.is_plugin = rules.is_plugin
        to.is_stream = rules.is_stream
        to.own_first = rules.broker_annotations_first
        to.trims = rules.trims_nulls
        to.delivery_count = rules.delivery_count
        to.any_user = self.user is None
        to.address = (
            self.c_text_of(rules.address_prefix) if rules.address_prefix else NULL
        )
        self.unplaced_names = rules.residual_headers
        self.history = rules.death_headers
        return 0

    cdef int begin(self) except -1:
        """Remove all output, to start a batch."""
        self.there.size = 0
        reset_texts(&self.wire)
        return reset_losses(&self.losses)

    def run(
        self, Py_ssize_t rows, content_header, payload, exchange, routing_key, redelivered
    ):
        """Translate a batch.

        Return the indexes of the unsupported rows, and the buffers of the output.

        Args:
            rows: the number of rows.
            content_header, payload, exchange, routing_key: the input columns, as for `Column`.
            redelivered: the input column, as for `Bits`.
        """
        cdef Column headers = Column(rows, content_header)
        cdef Column bodies = Column(rows, payload)
        cdef Column exchanges = Column(rows, exchange)
        cdef Column keys = Column(rows, routing_key)
        cdef Bits bits = Bits(rows, redelivered)
        cdef Given* g = &self.given
        cdef Py_ssize_t row
        cdef Span header
        cdef list unsupported = []
        cdef bint are_all = True, has_header, has_body
        self.begin()
        for row in range(rows):
            has_header = headers.cell(row, &header)
            has_body = bodies.cell(row, &g.body)
            exchanges.cell(row, &g.exchange)
            keys.cell(row, &g.routing_key)
            g.redelivered = bits.bit(row)
            if has_header and self.row(&header) == OK:
                put_byte(&self.there, 1)
                continue
            are_all = False
            if has_header or has_body:
                unsupported.append(row)
            put_byte(&self.there, 0)
            end_cell(&self.wire)
            end_losses(&self.losses)
        valid = None if are_all else bitmap_of(&self.there)
        return unsupported, (valid, buffers_of(&self.wire), losses_of(&self.losses))

    def translate_one(self, basic):
        """Translate a `BasicMessage`; return None if it is unsupported.

        Returns:
            The result of `encoded`; and if there are losses, the values of the properties and the
            headers.
        """
        cdef bytes octets
        cdef Original original
        cdef list entries = []
        cdef tuple values
        properties = basic.properties
        values = BASIC_LAYOUT.attributes.values(properties)
        body = basic.body
        table = values[HEADERS]
        if table is not None:
            entries = (table if type(table) is FieldTable else as_table(table)).entries
        if type(body) is not bytes:
            return None
        original = BASIC_LAYOUT.unchanged(properties, values, "rabbitmq")
        # Values with other types than decoding returns are unsupported.
        if (original is None or len(original.tables) > 1) and not have_decoded_types(
            values, entries
        ):
            return None
        octets = content_header_of(properties, original, len(<bytes> body))
        made = self.encoded(octets, body, basic.exchange, basic.routing_key, basic.redelivered)
        if made is None:
            return None
        return made, (values, list(entries)) if (<tuple> made)[1] else None

    def encoded(
        self, bytes content_header not None, bytes body not None, exchange, routing_key, redelivered
    ):
        """Translate an encoded message; return None if it is unsupported.

        Returns:
            The encoded 1.0 message, and a list of losses, each as three numbers: its subject, its
            kind, and the kind of the translated value.
        """
        cdef Given* g = &self.given
        cdef Span header
        cdef bytes name = encode_text(exchange), key = encode_text(routing_key)
        cdef bint again = bool(redelivered)
        cdef list losses = []
        if self.is_busy:  # another thread is using the engine
            return None
        self.is_busy = True
        self.single = losses
        header = span_of(content_header)
        g.redelivered = again
        g.body, g.exchange, g.routing_key = span_of(body), span_of(name), span_of(key)
        try:
            if self.row(&header) == UNSUPPORTED:
                return None
            return copy_bytes(&self.wire.data), losses
        finally:
            self.single = None
            if self.wire.data.room > MOST_KEPT:
                free_out(&self.wire.data)
            self.begin()
            self.is_busy = False

    cdef int row(self, Span* header) except -1:
        """Translate a message as the next row, or return UNSUPPORTED without output."""
        cdef Out* o = &self.wire.data
        cdef Py_ssize_t start = o.size
        cdef Mark mark = mark_of(&self.losses)
        if (
            self.read(header) == UNSUPPORTED
            or self.put_message(header, o) == UNSUPPORTED
            or self.is_refused
        ):
            o.size = start
            truncate_losses(&self.losses, &mark)
            return UNSUPPORTED
        end_cell(&self.wire)
        end_losses(&self.losses)
        return OK

    cdef int put_message(self, Span* header, Out* o) except -1:
        """Write the 1.0 message, and translate it back to check it if that is necessary."""
        cdef Given* g = &self.given
        cdef Py_ssize_t start = o.size
        cdef bint is_returned = g.residual.at != NULL and g.is_delivered, is_proved = False
        if is_returned:
            # First write the original 1.0 message, to check it. Its own header and annotations show
            # whether RabbitMQ had delivered it before it was translated to 0-9-1.
            g.is_delivered = g.route_first or (
                (g.header.at == NULL or g.header.n == 0) if g.annotations.at == NULL
                else section_contains(
                    &g.annotations, <cursor> EXCHANGE, <Py_ssize_t> strlen(EXCHANGE)
                )
            )
        while True:
            o.size = start
            if write(self, o) == UNSUPPORTED:
                return UNSUPPORTED
            if is_proved:
                return OK
            if self.check_restored(header, o.at + start, o.size - start) == UNSUPPORTED:
                return UNSUPPORTED
            if g.has_own_offset:
                insert_own_offset(self, o, start)
            if not is_returned:
                return OK if (
                    g.residual.at == NULL or self.lossless.made.redelivered == g.redelivered
                ) else UNSUPPORTED
            is_proved = g.is_delivered = True
            self.apply_delivery()

    cdef int apply_delivery(self) except -1:
        """Update the sections from the residual with the values of this delivery."""
        cdef Given* g = &self.given
        if g.header.at != NULL and g.header.n:
            self.delivered_header = self.lossless.plain.update_header_for_delivery(
                bytes_at(g.header.at, g.header.n), bool(g.redelivered)
            )
            g.header = span_of(self.delivered_header)
        if g.annotations.at != NULL:
            self.delivered_annotations = self.lossless.plain.update_annotations_for_delivery(
                bytes_at(g.annotations.at, g.annotations.n),
                bytes_at(g.exchange.at, g.exchange.n),
                bytes_at(g.routing_key.at, g.routing_key.n),
            )
            g.annotations = span_of(self.delivered_annotations)
        return 0

    cdef int check_restored(self, Span* header, cursor p, Py_ssize_t n) except -1:
        """Check sections that were copied without parsing, by translating the message back."""
        cdef Given* g = &self.given
        cdef Out* o = &self.packed
        cdef cursor table
        cdef Py_ssize_t start, i
        cdef Span body
        if self.rules.is_plugin and (g.has_saved or g.is_marked):
            self.plugin.begin()
            return self.plugin.read(p, n, &body)
        if g.residual.at == NULL:
            return OK
        # The reverse translation must give the 0-9-1 message again, except for a broker's changes.
        self.lossless.begin()
        self.lossless.packed = g.residual
        self.lossless.unpacked.at, self.lossless.unpacked.n = self.unpacked.at, self.unpacked.size
        if (
            self.lossless.translate(p, n, &body) == UNSUPPORTED
            or self.lossless.made.is_delivered != g.is_delivered
        ):
            return UNSUPPORTED
        p, n = header.at, header.n
        if g.has_broker_changes:
            table = g.given[HEADERS].at
            o.size = 0
            put(o, header.at, table - header.at)
            start = o.size
            put_number(o, 0, 4)
            for i in range(g.count):
                put(o, g.fields[i].start, g.fields[i].stop - g.fields[i].start)
            put(o, g.residual_header.start, g.residual_header.stop - g.residual_header.start)
            end_table(o, start)
            table += 4 + g.given[HEADERS].n
            put(o, table, header.at + header.n - table)
            p, n = o.at, o.size
        return OK if is_same(
            self.lossless.header.data.at, self.lossless.header.data.size, p, n
        ) else UNSUPPORTED

    # Reading.

    cdef int read(self, Span* header) except -1:
        """Read the content header of a message."""
        cdef Given* g = &self.given
        cdef cursor p = header.at
        cdef cursor stop = p + header.n
        cdef int i, flags, form
        cdef Value* v
        g.count = 0
        self.items = 0
        self.is_refused = False
        g.residual.at = g.header.at = g.annotations.at = NULL
        g.properties.at = g.application.at = NULL
        g.delivery.at = g.footer.at = g.data_heads.at = NULL
        for i in range(SAVED):
            g.saved[i].at = NULL
        g.has_saved = g.has_offset = g.has_unplaced = g.is_empty = g.route_first = False
        g.has_delivery_headers = g.has_broker_changes = g.has_own_offset = False
        g.place_count = 0
        g.is_delivered = g.exchange.n > 0 or g.routing_key.n > 0
        memset(g.keeps, 0, sizeof(g.keeps))
        memset(g.annotated, 0, sizeof(g.annotated))
        if g.is_delivered and not (
            is_short(g.exchange.at, g.exchange.n) and is_short(g.routing_key.at, g.routing_key.n)
        ):
            return UNSUPPORTED
        if stop - p < 14 or unsigned_at(p, 4) != 60 << 16:  # class 60 (basic), and the weight 0
            return UNSUPPORTED
        if unsigned_at(p + 4, 8) != <uint64_t> g.body.n:
            return UNSUPPORTED
        flags = <int> unsigned_at(p + 12, 2)
        if flags & 3:
            return UNSUPPORTED
        p += 14
        for i in range(PROPERTIES):
            g.there[i] = flags >> (15 - i) & 1
            if not g.there[i]:
                continue
            v = &g.given[i]
            v.start = v.at = p
            if i == HEADERS:
                if stop - p < 4 or <int64_t> unsigned_at(p, 4) > stop - p - 4:
                    return UNSUPPORTED
                v.n = <Py_ssize_t> unsigned_at(p, 4)
                p += 4 + v.n
                if self.read_table(p - v.n, p) == UNSUPPORTED:
                    return UNSUPPORTED
                continue
            form = self.rules.rows[i].form
            v.n = 1 if i == DELIVERY_MODE or i == PRIORITY else 8
            if i != DELIVERY_MODE and i != PRIORITY and i != TIMESTAMP_AT:
                if p == stop:
                    return UNSUPPORTED
                v.n = p[0]
                p += 1
                v.at = p
            if v.n > stop - p:
                return UNSUPPORTED
            p += v.n
            if self.read_property(i, form, v) == UNSUPPORTED:
                return UNSUPPORTED
        if p != stop or self.read_kind_of_body() == UNSUPPORTED:
            return UNSUPPORTED
        if g.has_offset and g.there[DELIVERY_MODE] and g.given[DELIVERY_MODE].number == 1:
            self.report(DELIVERY_MODE, LOSS_FACT, NOTHING_AFTER)
            g.there[DELIVERY_MODE] = False
        if g.has_own_offset and g.saved[0].at != NULL:
            return UNSUPPORTED  # x-stream-offset would have to be merged into encoded annotations
        if g.has_offset and g.residual.at != NULL:
            return UNSUPPORTED
        return self.restore_binaries() if g.has_offset and g.has_unplaced else OK

    cdef int restore_binaries(self) noexcept:
        """Restore binaries that a stream converted to long strings.

        Return UNSUPPORTED if such a binary is nested in an array or table.
        """
        cdef Given* g = &self.given
        cdef Field* field
        cdef Value* v
        cdef Py_ssize_t i
        for i in range(g.count):
            field = &g.fields[i]
            v = &field.value
            if field.destination != UNPLACED or is_text_throughout(field.letter, v):
                continue
            if field.letter != c"S" or self.single is not None:
                return UNSUPPORTED  # the losses of a single message contain its original headers
            field.letter = c"x"
        return OK

    cdef int read_kind_of_body(self) except -1:
        """Determine from the property type whether the payload is encoded body sections."""
        cdef Given* g = &self.given
        cdef int i
        g.is_marked = g.there[TYPE] and is_text(
            g.given[TYPE].at, g.given[TYPE].n, ENCODED_SECTIONS_TYPE_PROPERTY
        )
        if self.rules.is_plugin:
            return OK
        if g.is_marked and not is_body(g.body.at, g.body.at + g.body.n) and not (
            self.rules.is_lossless
            and g.body.n <= MAX_UNTRIED_MESSAGE_SIZE
            and self.lossless.plain.is_deliverable_body(
                bytes_at(g.body.at, g.body.n)
            )
        ):
            return UNSUPPORTED
        # If the body is not data, content-type and content-encoding go into annotations, like text
        # that their fields cannot hold, unless the residual has them.
        for i in range(2 if self.rules.is_lossless else 0):
            g.annotated[i] = g.annotated[i] or g.is_marked
            if g.residual.at != NULL and self.is_in_residual(i):
                g.annotated[i] = False
        return OK

    cdef bint is_in_residual(self, int index) noexcept:
        """Whether the residual has the original field for a property."""
        cdef Given* g = &self.given
        return self.rules.rows[index].section == PROPERTIES_CODE and (
            g.properties.at != NULL or g.keeps[self.rules.rows[index].field_index]
        )

    cdef int read_property(self, int index, int form, Value* v) except -1:
        """Convert a property to the value of its field or annotation, or return UNSUPPORTED."""
        v.kind = STRING
        if self.given.residual.at != NULL and self.is_in_residual(index):
            return OK
        if form == MODE_FORM or form == PRIORITY_FORM or form == NUMBER_FORM:
            v.kind = UBYTE
            v.number = v.at[0]
            if form == MODE_FORM:
                return OK if 1 <= v.number <= 2 else UNSUPPORTED
            return OK if form == NUMBER_FORM or v.number <= 9 else UNSUPPORTED
        if form == SECONDS_FORM or form == MOMENT_FORM:
            v.kind = TIMESTAMP
            v.number = <int64_t> unsigned_at(v.at, 8)
            # Below these limits, the timestamp in ms fits into 64 bits, to 1.0 and back.
            if not 0 <= v.number < (1000000000000 if form == SECONDS_FORM else 9223372036854776):
                return UNSUPPORTED
            return OK
        if form == DIGITS_FORM:
            return read_digits(v)
        if form == SYMBOL_FORM or form == KNOWN_FORM:
            v.kind = SYMBOL
            if form == KNOWN_FORM and self.symbols.holds(index, v.at, v.n):
                return OK
            self.given.annotated[index] = form == KNOWN_FORM
            return OK if is_plain_ascii(v.at, v.n) else UNSUPPORTED
        if not is_short(v.at, v.n):
            return UNSUPPORTED
        if form == ID_FORM or form == BROKER_ID_FORM:
            if begins(v.at, v.n, b"urn:uuid:") and (v.n == 45 or form == ID_FORM):
                if not is_uuid(v.at + 9, v.n - 9):
                    return UNSUPPORTED
                v.kind = UUID
                v.at += 9
                v.n -= 9
                return OK
            if form == BROKER_ID_FORM or not begins(v.at, v.n, b"ID:AMQP_"):
                return OK
            if not begins(v.at, v.n, BINARY_ID):
                return self.read_number_id(v)
            if are_upper_digits(v.at + strlen(BINARY_ID), v.n - <Py_ssize_t> strlen(BINARY_ID)):
                v.kind = BINARY
                v.at += strlen(BINARY_ID)
                v.n -= <Py_ssize_t> strlen(BINARY_ID)
            return OK
        if form == USER_FORM:
            if self.rules.any_user:
                return OK if v.n > 0 else UNSUPPORTED
            return OK if equals_bytes(v.at, v.n, self.user) else UNSUPPORTED
        if form == ADDRESS_FORM:
            return UNSUPPORTED if is_text(v.at, v.n, b"amq.rabbitmq.reply-to") else OK
        if index == USER_ID and v.n > LONGEST_USER and scan_bytes(v.at, v.n) & HIGH:
            return UNSUPPORTED
        return OK

    cdef int read_number_id(self, Value* v) noexcept:
        """Parse an id that represents a ulong.

        Return UNSUPPORTED for a message without a residual: the plain rules report a loss.
        """
        cdef uint64_t found = 0
        cdef Py_ssize_t size = <Py_ssize_t> strlen(NUMBER_ID)
        if self.given.residual.at == NULL or not begins(v.at, v.n, NUMBER_ID):
            return UNSUPPORTED
        if not is_number(v.at + size, v.n - size, &found):
            return UNSUPPORTED
        v.kind = ULONG
        v.number = <int64_t> found
        return OK

    cdef int read_table(self, cursor p, cursor stop) except -1:
        """Read the table of headers, of which one may be a residual."""
        cdef Given* g = &self.given
        cdef Field* field
        cdef Span name
        cdef Py_ssize_t i
        while p < stop:
            if g.count == MOST:
                return UNSUPPORTED
            field = &g.fields[g.count]
            field.start = p
            field.residual_value.at = NULL
            if next_field(&p, stop, c"F", &name, &field.letter, &field.value) == UNSUPPORTED:
                return UNSUPPORTED
            field.name, field.size = name.at, name.n
            field.stop = p
            for i in range(g.count):
                if is_same(g.fields[i].name, g.fields[i].size, field.name, field.size):
                    return UNSUPPORTED
            if is_text(field.name, field.size, RESIDUAL) and self.rules.is_lossless:
                if field.letter != c"S":
                    return UNSUPPORTED
                field.destination = RESIDUAL_HEADER
                g.residual.at = field.value.at
                g.residual.n = field.value.n
            elif self.choose_destination(field) == UNSUPPORTED:
                return UNSUPPORTED
            g.count += 1
        g.is_empty = g.count == 0
        return self.read_additions() if g.has_delivery_headers or g.residual.at != NULL else OK

    cdef int read_additions(self) except -1:
        """Read the residual, if any, and drop headers that RabbitMQ added at delivery."""
        cdef Given* g = &self.given
        cdef Py_ssize_t i
        if g.residual.at != NULL and read_residual(g, &self.unpacked) == UNSUPPORTED:
            return UNSUPPORTED
        for i in range(g.count if g.is_delivered else 0):
            if g.residual.at != NULL and self.is_death_header(&g.fields[i]):
                g.fields[i].destination = LEFT_OUT
            if g.fields[i].destination == LEFT_OUT:
                self.report(FIRST_HEADER + i, LOSS_FACT, NOTHING_AFTER)
        return OK if g.residual.at == NULL else restore_header_order(g)

    cdef bint is_death_header(self, Field* field) noexcept:
        """Whether RabbitMQ, not the sender, added a header: a record of dead-lettering."""
        cdef bytes name
        cdef tuple one
        for one in self.history:
            name = one[0]
            if field.letter == <int> one[1] and equals_bytes(field.name, field.size, name):
                return not section_contains(&self.given.annotations, field.name, field.size)
        return False

    cdef int choose_destination(self, Field* field) except -1:
        """Set the destination of a header in the 1.0 message, or return UNSUPPORTED."""
        if self.rules.is_lossless:
            return self.choose_lossless_destination(field)
        if self.rules.is_plugin:
            return self.find_saved_section(field)
        return self.choose_broker_destination(field)

    cdef int choose_lossless_destination(self, Field* field) except -1:
        """Set the destination of a header in the lossless profile, or return UNSUPPORTED."""
        cdef Given* g = &self.given
        cdef int found
        cdef Value* v = &field.value
        cdef bint is_offset = is_text(field.name, field.size, b"x-stream-offset")
        if g.is_delivered and field.letter == c"l" and (
            is_offset or is_text(field.name, field.size, b"x-delivery-count")
            or is_text(field.name, field.size, b"x-acquired-count")
        ):
            field.destination = LEFT_OUT
            g.has_delivery_headers = True
            g.has_offset = g.has_offset or is_offset
            return OK
        field.destination = APPLICATION
        if begins(field.name, field.size, b"x-"):
            field.destination = ANNOTATION
            if (
                not is_plain_ascii(field.name, field.size)
                or begins(field.name, field.size, b"x-opt-x-")
                or begins(field.name, field.size, b"x-basic-")
                or is_among(self.unplaced_names, field.name, field.size)
            ):
                field.destination = UNPLACED
            if is_text(field.name, field.size, FILTER_VALUE) and not (
                field.letter == c"S" and is_broker_text(v.at, v.n)
            ):
                field.destination = UNPLACED
            if is_text(field.name, field.size, b"x-death") and field.letter != c"A":
                field.destination = UNPLACED
        elif (
            is_cc_or_bcc(field.name, field.size) or scan_bytes(field.name, field.size) & NUL
            or not is_utf8(field.name, field.size)
        ):
            field.destination = UNPLACED
        found = self.check_value(
            field.letter,
            v,
            0 if field.destination == ANNOTATION else -1,
            field.destination != UNPLACED,
        )
        if found == RESIDUAL_ONLY:
            field.destination = UNPLACED
        g.has_unplaced = g.has_unplaced or field.destination == UNPLACED
        return UNSUPPORTED if found == UNSUPPORTED else OK

    cdef int choose_broker_destination(self, Field* field) except -1:
        """Set the destination of a header in the profiles of RabbitMQ 4, or return UNSUPPORTED."""
        cdef bint is_nested = field.letter == c"A" or field.letter == c"F"
        field.destination = APPLICATION
        if begins(field.name, field.size, b"x-"):
            field.destination = ANNOTATION
            if (
                not is_plain_ascii(field.name, field.size)
                or begins(field.name, field.size, b"x-amqp-1.0-")
                or is_text(field.name, field.size, b"x-exchange")
                or is_text(field.name, field.size, b"x-routing-key")
                or is_text(field.name, field.size, b"x-basic-type")
                or is_text(field.name, field.size, b"x-cc")
                or (self.rules.is_stream and field.letter == c"V")
                or (self.rules.is_stream and is_text(field.name, field.size, b"x-basic-expiration"))
                or (
                    is_text(field.name, field.size, FILTER_VALUE)
                    and not (
                        field.letter == c"S" and is_broker_text(field.value.at, field.value.n)
                    )
                )
            ):
                return UNSUPPORTED
        elif not is_short(field.name, field.size):
            return UNSUPPORTED
        elif is_cc_or_bcc(field.name, field.size):
            if field.letter != c"A":
                return UNSUPPORTED
            if field.size == 3:
                field.destination = LEFT_OUT
                self.report(FIRST_HEADER + self.given.count, LOSS_HIDDEN_ROUTES, NOTHING_AFTER)
            else:
                field.destination = ANNOTATION
        elif is_nested:
            field.destination = UNPLACED
        return self.check_value(
            field.letter, &field.value, 0, field.destination == ANNOTATION or not is_nested
        )

    cdef int find_saved_section(self, Field* field) except -1:
        """Set the destination of a header in the profiles of RabbitMQ 3.10, or return UNSUPPORTED.

        RabbitMQ 3.10 converts only headers that contain whole sections.
        """
        cdef Given* g = &self.given
        cdef Value* v = &field.value
        cdef int i
        for i in range(SAVED):
            if is_text(field.name, field.size, SAVED_NAMES[i]):
                field.destination = SAVED_SECTION
                if field.letter != c"S" and field.letter != c"x":
                    return UNSUPPORTED
                # A stream decodes the section message-annotations, so the header must be valid; the
                # engine `plugin` checks its content later.
                if (
                    self.rules.is_stream and i == 0
                    and not is_one_section(v.at, v.n, MESSAGE_ANNOTATIONS_CODE)
                ):
                    return UNSUPPORTED
                g.saved[i].at = v.at
                g.saved[i].n = v.n
                g.has_saved = True
                return OK
        field.destination = LEFT_OUT
        if (
            (is_cc_or_bcc(field.name, field.size) and field.letter != c"A")
            or (self.rules.is_stream and field.letter == c"D")
        ):
            return UNSUPPORTED
        if not self.rules.is_stream and is_text(field.name, field.size, b"x-stream-offset"):
            if field.letter != c"l":
                return UNSUPPORTED
            g.has_own_offset = True
            g.own_offset = v.number
        return self.check_value(field.letter, v, 0, False)

    cdef int check_value(self, int letter, Value* v, int level, bint is_converted) except -1:
        """Check a field's value, and if `is_converted`, whether 1.0 has a counterpart.

        Return OK, UNSUPPORTED, or RESIDUAL_ONLY if only the residual can hold the value.
        """
        cdef bint is_lossless = self.rules.is_lossless
        if letter == c"S":
            return OK if not is_lossless or not is_converted or is_utf8(v.at, v.n) else UNSUPPORTED
        if letter == c"t":
            return OK if 0 <= v.number <= 1 else UNSUPPORTED
        if letter == c"d" or letter == c"f":
            if is_finite_field(letter, v.number):
                return OK
            return RESIDUAL_ONLY if is_lossless else UNSUPPORTED
        if letter == c"A" or letter == c"F":
            if is_lossless and level < 0:
                is_converted = False
            if level >= MOST_LEVELS:
                return UNSUPPORTED
            if self.check_nested(letter, v, level, is_converted) == UNSUPPORTED:
                return UNSUPPORTED
            return RESIDUAL_ONLY if is_lossless and (level < 0 or self.is_residual_only) else OK
        if letter == c"L":
            return OK if not is_lossless or not is_converted else UNSUPPORTED
        if letter == c"U":
            return OK if is_lossless and not is_converted else UNSUPPORTED
        if letter == c"T":
            if 0 <= v.number <= LATEST or not is_converted:
                return OK
            return RESIDUAL_ONLY if is_lossless else UNSUPPORTED
        if letter == c"D":
            return OK if not is_converted else RESIDUAL_ONLY if is_lossless else UNSUPPORTED
        if letter == c"V":
            return RESIDUAL_ONLY if is_lossless and level == 0 else OK
        return OK

    cdef int check_nested(self, int letter, Value* v, int level, bint is_converted) except -1:
        """Check the values in an array or table like `check_value`.

        Set the attribute `is_residual_only` to whether only the residual can hold a value.
        """
        cdef cursor p = v.at
        cdef cursor stop = p + v.n
        cdef Span[MOST] names
        cdef Py_ssize_t count = 0, i
        cdef Value inner
        cdef int code, found
        cdef bint is_residual_only = False
        level = max(level, 0) + 1
        while p < stop:
            self.items += 1
            if self.items > MOST_ITEMS:
                return UNSUPPORTED
            if count == MOST and letter == c"F":
                return UNSUPPORTED
            if next_field(&p, stop, letter, &names[count], &code, &inner) == UNSUPPORTED:
                return UNSUPPORTED
            if letter == c"F":
                if is_converted:
                    if self.rules.is_lossless:
                        if not is_utf8(names[count].at, names[count].n):
                            is_residual_only = True
                    elif scan_bytes(names[count].at, names[count].n):
                        return UNSUPPORTED
                    for i in range(count):
                        if is_same(names[i].at, names[i].n, names[count].at, names[count].n):
                            return UNSUPPORTED
                count += 1
            found = self.check_value(code, &inner, level, is_converted)
            if found == UNSUPPORTED:
                return UNSUPPORTED
            is_residual_only = is_residual_only or found == RESIDUAL_ONLY
        self.is_residual_only = is_residual_only
        return OK

    # Losses.

    cdef int report(self, Py_ssize_t subject, int loss, int after) except -1:
        """Add a loss, given its subject, its kind, and the kind of the translated value."""
        cdef LossRule* rule = &LOSS_RULES[loss]
        cdef Losses* losses = &self.losses
        cdef bint has_before = True
        self.is_refused = self.is_refused or (self.strict and not rule.recoverable)
        if self.single is not None:
            self.single.append((subject, loss, after))
            return 0
        if subject == REDELIVERED:
            put_cstring(&losses.path.data, b"redelivered")
            put_cstring(&losses.before.data, b"true")
        elif subject < PROPERTIES:
            put_cstring(&losses.path.data, b"properties.")
            put_cstring(&losses.path.data, self.rules.rows[subject].name)
            self.put_property_json(&losses.before.data, subject)
            if after == SAME_AFTER:
                self.put_property_json(&losses.after.data, subject)
        else:
            self.put_header_path(&losses.path.data, &self.given.fields[subject - FIRST_HEADER])
            if after == BINARY_AFTER:
                put_cstring(&losses.before.data, b'"S"')
            else:
                has_before = self.put_field_json(subject, after == SAME_AFTER)
        if after == ONE_AFTER:
            put_byte(&losses.after.data, c"1")
        elif after == BINARY_AFTER:
            put_cstring(&losses.after.data, b'"binary"')
        return put_loss(losses, rule, has_before, after != NOTHING_AFTER)

    cdef int put_property_json(self, Out* o, Py_ssize_t index) except -1:
        cdef Value* v = &self.given.given[index]
        if v.kind == UBYTE or v.kind == TIMESTAMP:
            return put_digits(o, <uint64_t> v.number)
        return json_text(o, v.at, v.n)

    cdef int put_header_path(self, Out* o, Field* field) except -1:
        cdef bytes path
        if not is_plain_name(field.name, field.size):
            path = self.header_path(bytes_at(field.name, field.size))
            return put_bytes(o, path)
        put_cstring(o, b"headers['")
        put(o, field.name, field.size)
        return put_cstring(o, b"']")

    cdef bint put_field_json(self, Py_ssize_t subject, bint is_same_after) except -1:
        """Write the value of a header as JSON. Return False for null, which is not written."""
        cdef Field* field = &self.given.fields[subject - FIRST_HEADER]
        cdef Out* o = &self.losses.before.data
        cdef Py_ssize_t start = o.size
        cdef Value* v = &field.value
        cdef int letter = field.letter
        cdef bytes text
        if letter == c"V":
            return False
        if letter == c"S" and is_utf8(v.at, v.n):
            json_text(o, v.at, v.n)
        elif letter == c"x":
            json_bytes(o, v.at, v.n)
        elif letter == c"t":
            put_cstring(o, b"true" if v.number else b"false")
        elif letter == c"T":
            put_digits(o, <uint64_t> v.number)
        elif (letter == c"d" or letter == c"f") and is_finite_field(letter, v.number):
            put_double(o, letter, v)
        elif width_of(letter) == -4 or letter == c"d" or letter == c"f" or letter == c"D":
            text = self.field_json(bytes_at(v.start - 1, field.stop - v.start + 1))
            put_bytes(o, text)
        else:
            put_signed_digits(o, v.number)
        if is_same_after:
            put(&self.losses.after.data, o.at + start, o.size - start)
        return True
