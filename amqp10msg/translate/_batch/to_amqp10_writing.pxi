# Part of `ToAmqp10`: writing the 1.0 message.


cdef int write(ToAmqp10 self, Out* o) except -1:
    """Write the 1.0 message and report its losses, or return UNSUPPORTED."""
    cdef Given* g = &self.given
    cdef bytes octets
    cdef int i
    if self.rules.is_lossless:
        report_residual_headers(self)
    else:
        report_dropped_headers(self)
    write_header(self, o)
    if g.delivery.at != NULL:
        put(o, g.delivery.at, g.delivery.n)
    if not self.rules.is_plugin:
        write_annotations(self, o)
    elif g.saved[0].at != NULL:
        put(o, g.saved[0].at, g.saved[0].n)
    for i in range(self.rules.loss_count):
        if g.there[self.rules.losses[i].index] and not (
            self.rules.is_plugin and (
                (self.rules.losses[i].index == TYPE and g.is_marked)
                or (self.rules.losses[i].index == USER_ID and g.saved[1].at != NULL)
            )
        ):
            self.report(
                self.rules.losses[i].index,
                self.rules.losses[i].loss,
                self.rules.losses[i].after,
            )
    if g.saved[1].at != NULL:
        put(o, g.saved[1].at, g.saved[1].n)
    else:
        write_properties(self, o)
    if not self.rules.is_plugin:
        write_application(self, o)
    elif g.saved[2].at != NULL:
        put(o, g.saved[2].at, g.saved[2].n)
    if g.data_heads.at != NULL:
        if g.is_marked or write_data_sections(self, o) == UNSUPPORTED:
            return UNSUPPORTED
    elif not g.is_marked:
        begin_section(o, DATA_CODE)
        if self.rules.is_plugin:
            put_narrow(o, 0xA0, g.body.at, g.body.n)
        else:
            put_variable(o, 0xA0, g.body.at, g.body.n)
    else:  # the payload is already encoded like RabbitMQ would encode it
        put(o, g.body.at, g.body.n)
    if g.footer.at != NULL:
        put(o, g.footer.at, g.footer.n)
    elif g.saved[3].at != NULL:
        put(o, g.saved[3].at, g.saved[3].n)
    return OK


cdef int write_data_sections(ToAmqp10 self, Out* o) except -1:
    """Write the body in its original data sections. Return UNSUPPORTED if its size has changed."""
    cdef Given* g = &self.given
    cdef cursor p = g.data_heads.at
    cdef cursor stop = p + g.data_heads.n
    cdef cursor body = g.body.at
    cdef Py_ssize_t left = g.body.n, size
    cdef uint64_t n = 0
    while p < stop:
        if cbor_read(&p, stop, 2, &n) == UNSUPPORTED or (n != 5 and n != 8):
            return UNSUPPORTED
        size = <Py_ssize_t> ((p - 1)[0] if n == 5 else unsigned_at(p - 4, 4))
        if size > left:
            return UNSUPPORTED
        put(o, p - n, <Py_ssize_t> n)
        put(o, body, size)
        body += size
        left -= size
    return OK if left == 0 else UNSUPPORTED


cdef int report_residual_headers(ToAmqp10 self) except -1:
    """Report the redelivered flag if it is retyped, and headers that only the residual holds."""
    cdef Given* g = &self.given
    cdef Py_ssize_t i
    if g.redelivered and not g.is_delivered and g.residual.at == NULL:
        self.report(REDELIVERED, LOSS_REDELIVERED, ONE_AFTER)
    if not g.has_unplaced:
        return 0
    for i in range(g.count):
        if g.fields[i].destination == UNPLACED:
            self.report(FIRST_HEADER + i, LOSS_UNPLACED, NOTHING_AFTER)
    return 0


cdef int report_dropped_headers(ToAmqp10 self) except -1:
    """Report the loss of the headers that RabbitMQ 3.10 does not convert."""
    cdef Py_ssize_t i
    if not self.rules.is_plugin:
        return 0
    for i in range(self.given.count):
        if self.given.fields[i].destination == LEFT_OUT:
            self.report(FIRST_HEADER + i, LOSS_HEADER, NOTHING_AFTER)
    return 0


cdef int write_header(ToAmqp10 self, Out* o) except -1:
    """Write the header section, unless it would be empty."""
    cdef Given* g = &self.given
    cdef bint durable = g.there[DELIVERY_MODE] and g.given[DELIVERY_MODE].number == 2
    cdef bint has_priority = g.there[PRIORITY] and (
        not self.rules.is_lossless or g.given[PRIORITY].number != 4
    )
    cdef bint is_whole = g.is_delivered or not self.rules.is_lossless
    cdef bint counts = g.redelivered and not is_whole
    cdef int count = (
        5 if is_whole or counts
        else 3 if g.there[EXPIRATION]
        else 2 if has_priority
        else 1 if durable
        else 0
    )
    cdef Py_ssize_t start
    if g.header.at != NULL:
        return put(o, g.header.at, g.header.n)
    if not count:
        return 0
    begin_section(o, HEADER_CODE)
    start = begin_compound(o)
    put_byte(o, 0x41 if durable else 0x42 if is_whole else 0x40)
    if count > 1:
        put_byte(o, 0x50 if has_priority else 0x40)
        if has_priority:
            put_byte(o, <int> g.given[PRIORITY].number)
    if count > 2:
        if g.there[EXPIRATION]:
            put_uint(o, <uint64_t> g.given[EXPIRATION].number)
        else:
            put_byte(o, 0x40)
    if is_whole:
        put_byte(o, 0x42 if g.redelivered else 0x41)
        put_byte(o, self.rules.delivery_count)
    elif counts:
        put_byte(o, 0x40)
        put_byte(o, 0x52)
        put_byte(o, 1)
    return end_compound(o, start, 0xC0, count)


cdef int write_route(ToAmqp10 self, Out* o) except -1:
    """Write the annotations with exchange and routing key; return the number of keys and values."""
    if self.rules.own_first or self.given.route_first:
        write_text_annotation(self, o, b"x-routing-key", &self.given.routing_key)
        write_text_annotation(self, o, b"x-exchange", &self.given.exchange)
    else:
        write_text_annotation(self, o, b"x-exchange", &self.given.exchange)
        write_text_annotation(self, o, b"x-routing-key", &self.given.routing_key)
    return 4


cdef int write_text_annotation(ToAmqp10 self, Out* o, const char* key, Span* found) except -1:
    """Write an annotation whose value is a string."""
    put_symbol(o, key)
    return put_variable(o, 0xA1, found.at, found.n)


cdef int write_annotations(ToAmqp10 self, Out* o) except -1:
    """Write the message annotations, unless there are none."""
    cdef Given* g = &self.given
    cdef PropertyRule* rule
    cdef Field* field
    cdef Value* v
    cdef Py_ssize_t count = 0, before = o.size, start, i
    cdef bint is_own = g.is_delivered or not self.rules.is_lossless
    if g.annotations.at != NULL:
        return put(o, g.annotations.at, g.annotations.n)
    begin_section(o, MESSAGE_ANNOTATIONS_CODE)
    start = begin_compound(o)
    if is_own and (self.rules.own_first or g.route_first):
        count += write_route(self, o)
    for i in range(PROPERTIES):
        rule = &self.rules.rows[i]
        if not g.there[i] or rule.annotation == NULL:
            continue
        v = &g.given[i]
        if rule.section and not g.annotated[i] and (
            rule.value_stored_as_annotation < 0 or v.number != rule.value_stored_as_annotation
        ):
            continue
        if i == TYPE and g.is_marked and self.rules.is_lossless:
            continue  # the body sections imply the property type
        count += 2
        put_symbol(o, rule.annotation)
        if v.kind == UBYTE:
            put_byte(o, 0x50)
            put_byte(o, <int> v.number)
        else:
            put_variable(o, 0xA1, v.at, v.n)
    for i in range(g.count):
        field = &g.fields[i]
        if field.destination == ANNOTATION:
            count += 2
            write_key(self, o, field)
            write_value(self, o, field.letter, &field.value, i, True)
            if field.name[0] == c"C":
                self.report(FIRST_HEADER + i, LOSS_ROUTES, SAME_AFTER)
    if self.rules.is_lossless:
        count += write_residual(self, o)
    if is_own and not (self.rules.own_first or g.route_first):
        count += write_route(self, o)
    if not count:
        o.size = before
        return 0
    return end_compound(o, start, 0xC1, count)


cdef int write_key(ToAmqp10 self, Out* o, Field* field) except -1:
    """Write the key of the annotation for a header."""
    cdef Py_ssize_t size
    if field.name[0] == c"C":
        return put_symbol(o, b"x-cc")
    if not self.rules.is_lossless or begins(field.name, field.size, b"x-opt-"):
        return put_variable(o, 0xA3, field.name, field.size)
    size = field.size + 6
    put_byte(o, 0xA3 if size < 256 else 0xB3)
    put_number(o, <uint64_t> size, 1 if size < 256 else 4)
    put_cstring(o, b"x-opt-")
    return put(o, field.name, field.size)


cdef int write_value(
    ToAmqp10 self, Out* o, int letter, Value* v, Py_ssize_t index, bint is_annotation
) except -1:
    """Write a header's value, or a nested value, that `check_value` has accepted."""
    cdef int64_t n = v.number
    if letter == c"S":
        if self.rules.is_lossless or is_broker_text(v.at, v.n):
            return put_variable(o, 0xA1, v.at, v.n)
        self.report(FIRST_HEADER + index, LOSS_NO_TEXT, BINARY_AFTER)
        return put_variable(o, 0xA0, v.at, v.n)
    if letter == c"I":
        return put_int(o, n)
    if letter == c"l" or letter == c"L":
        return put_long(o, n)
    if letter == c"t":
        # A stream re-encodes annotations, so it writes the short form.
        if self.rules.is_lossless or (self.rules.is_stream and is_annotation):
            return put_byte(o, 0x41 if n else 0x42)
        put_byte(o, 0x56)
        return put_byte(o, n != 0)
    if letter == c"x":
        return put_variable(o, 0xA0, v.at, v.n)
    if letter == c"A" or letter == c"F":
        return write_nested(self, o, letter, v, index, is_annotation)
    if letter == c"i":
        return put_uint(o, <uint64_t> n)
    if letter == c"V":
        return put_byte(o, 0x40)
    if letter == c"T":
        put_byte(o, 0x83)
        return put_number(o, <uint64_t> (n * 1000), 8)
    put_byte(
        o,
        0x82 if letter == c"d"
        else 0x72 if letter == c"f"
        else 0x50 if letter == c"B"
        else 0x51 if letter == c"b"
        else 0x60 if letter == c"u"
        else 0x61,
    )
    return put(o, v.at, v.n)


cdef int write_nested(
    ToAmqp10 self, Out* o, int letter, Value* v, Py_ssize_t index, bint is_annotation
) except -1:
    """Write an array as a 1.0 list, or a table as a 1.0 map."""
    cdef cursor p = v.at
    cdef cursor stop = p + v.n
    cdef Py_ssize_t count = 0, start
    cdef Value inner
    cdef Span name
    cdef int code
    if p == stop and letter == c"A":
        return put_byte(o, 0x45)
    start = begin_compound(o)
    while p < stop:
        next_field(&p, stop, letter, &name, &code, &inner)
        if letter == c"F":
            put_variable(o, 0xA1 if self.rules.is_lossless else 0xA3, name.at, name.n)
            count += 1
        write_value(self, o, code, &inner, index, is_annotation)
        count += 1
    return end_compound(o, start, 0xC0 if letter == c"A" else 0xC1, count)


cdef int write_residual(ToAmqp10 self, Out* o) except -1:
    """Write the annotation with the residual, if necessary; return the number of keys and values.

    The residual has a single entry: the whole table if it has headers that 1.0 cannot hold, the
    mark of an empty table, or the positions of the headers that became annotations.
    """
    cdef Given* g = &self.given
    cdef Out* content = &self.packed
    cdef Field* field
    cdef Py_ssize_t i, place = 0
    cdef bint is_mixed = False
    cdef int count = 0
    for i in range(g.count):
        field = &g.fields[i]
        if field.destination == ANNOTATION:
            count += 1
        elif field.destination == APPLICATION:
            is_mixed = is_mixed or count > 0
    # A residual that restores a 1.0 message already records the order.
    if g.residual.at != NULL or not (g.has_unplaced or is_mixed or g.is_empty):
        return 0
    content.size = 0
    if g.has_unplaced:
        cbor_head(content, 0, 3)
        write_table(self, content)
    elif g.is_empty:
        cbor_head(content, 0, 18)
        cbor_head(content, 0, 1)
    else:
        cbor_head(content, 0, 17)
        cbor_head(content, 4, <uint64_t> count)
        for i in range(g.count):
            if g.fields[i].destination == ANNOTATION:
                cbor_head(content, 0, <uint64_t> place)
            place += g.fields[i].destination != LEFT_OUT
    put_residual_envelope(&self.unpacked, 1, content)
    put_symbol(o, RESIDUAL)
    put_variable(o, 0xA0, self.unpacked.at, self.unpacked.size)
    return 2


cdef int write_table(ToAmqp10 self, Out* o) except -1:
    """Write the table of headers to the residual, without headers that a broker added."""
    cdef Given* g = &self.given
    cdef Field* field
    cdef Py_ssize_t i, size = 0
    for i in range(g.count):
        if g.fields[i].destination != LEFT_OUT:
            size += g.fields[i].stop - g.fields[i].start
    cbor_head(o, 2, <uint64_t> size + 4)
    put_number(o, <uint64_t> size, 4)
    for i in range(g.count):
        field = &g.fields[i]
        if field.destination != LEFT_OUT:
            put(o, field.start, 1 + field.size)
            put_byte(o, field.letter)
            put(o, field.value.start, field.stop - field.value.start)
    return 0


cdef int insert_own_offset(ToAmqp10 self, Out* o, Py_ssize_t start) except -1:
    """Insert an annotation with the stream offset that the sender set, as RabbitMQ 3.10 does.

    The key is a string instead of a symbol; a negative offset is truncated to its last byte.
    """
    cdef int64_t offset = self.given.own_offset
    cdef Out* rest = &self.packed
    cdef Py_ssize_t place
    start += 5 + o.at[start + 4]  # skip the header section: a list in the short form
    rest.size = 0
    put(rest, o.at + start, o.size - start)
    o.size = start
    begin_section(o, MESSAGE_ANNOTATIONS_CODE)
    place = begin_compound(o)
    put_variable(o, 0xA1, <cursor> b"x-stream-offset", 15)
    if offset == 0:
        put_byte(o, 0x44)
    elif offset < 256:
        put_byte(o, 0x53)
        put_byte(o, <int> (offset & 0xFF))
    else:
        put_byte(o, 0x80)
        put_number(o, <uint64_t> offset, 8)
    end_compound(o, place, 0xC1, 2)
    return put(o, rest.at, rest.size)


cdef int write_properties(ToAmqp10 self, Out* o) except -1:
    """Write the properties section, unless it would be empty."""
    cdef Given* g = &self.given
    cdef PropertyRule* rule
    cdef int[FIELDS] sources
    cdef int i, count = 0, source
    cdef Py_ssize_t start
    if g.properties.at != NULL:
        return put(o, g.properties.at, g.properties.n)
    for i in range(FIELDS):
        sources[i] = -1
        if g.keeps[i]:
            count = i + 1
    for i in range(PROPERTIES):
        rule = &self.rules.rows[i]
        if g.there[i] and rule.section == PROPERTIES_CODE and not g.annotated[i]:
            sources[rule.field_index] = i
            count = max(count, rule.field_index + 1)
    if self.rules.is_plugin or (count and not self.rules.trims):
        count = FIELDS
    if not count:
        return 0
    begin_section(o, PROPERTIES_CODE)
    start = begin_compound(o)
    for i in range(count):
        source = sources[i]
        if g.keeps[i]:
            put(o, g.kept[i].at, g.kept[i].n)
        elif i == 3 and self.rules.is_plugin:  # the subject
            put_narrow(o, 0xA1, g.routing_key.at, g.routing_key.n)
        elif source < 0:
            put_byte(o, 0x40)
        else:
            write_field(self, o, &self.rules.rows[source], &g.given[source])
    return end_compound(o, start, 0xC0, count)


cdef int write_field(ToAmqp10 self, Out* o, PropertyRule* rule, Value* v) except -1:
    """Write a field of the properties section."""
    cdef Out* made = &self.unpacked
    if v.kind == TIMESTAMP:
        put_byte(o, 0x83)
        return put_number(o, <uint64_t> v.number * (1000 if rule.form == SECONDS_FORM else 1), 8)
    if v.kind == UUID:
        return put_uuid_value(o, v.at)
    if v.kind == BINARY:
        put_variable(o, BINARY8, v.at, v.n // 2)  # half as many bytes as digits, overwritten below
        read_hex(o.at + o.size - v.n // 2, v.at, v.n)
        return 0
    if v.kind == ULONG:
        reserve(o, 9)
        write_ulong(o, <uint64_t> v.number)
        return 0
    if rule.form == ADDRESS_FORM and self.rules.address != NULL:
        made.size = 0
        put_address(made, self.rules.address, v.at, v.n, not self.rules.is_plugin)
        if self.rules.is_plugin:
            return put_narrow(o, rule.code, made.at, made.size)
        return put_variable(o, rule.code, made.at, made.size)
    if self.rules.is_plugin and rule.code != 0xA3:
        return put_narrow(o, rule.code, v.at, v.n)
    return put_variable(o, rule.code, v.at, v.n)


cdef int write_application(ToAmqp10 self, Out* o) except -1:
    """Write the application properties, unless there are none."""
    cdef Given* g = &self.given
    cdef Field* field
    cdef Py_ssize_t count = 0, before = o.size, start, i
    if g.application.at != NULL:
        return put(o, g.application.at, g.application.n)
    begin_section(o, APPLICATION_PROPERTIES_CODE)
    start = begin_compound(o)
    for i in range(g.count):
        field = &g.fields[i]
        if field.destination == UNPLACED and not self.rules.is_lossless:
            self.report(FIRST_HEADER + i, LOSS_NESTED, NOTHING_AFTER)
        if field.destination != APPLICATION:
            continue
        count += 2
        put_variable(o, 0xA1, field.name, field.size)
        if field.residual_value.at != NULL:
            put(o, field.residual_value.at, field.residual_value.n)
        else:
            write_value(self, o, field.letter, &field.value, i, False)
    if not count:
        o.size = before
        return 0
    return end_compound(o, start, 0xC1, count)
