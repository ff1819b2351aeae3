# Part of `ToBasic`: the RabbitMQ profiles.


cdef int set_transport(ToBasic self, Span* section) except -1:
    """Set delivery-mode, priority and expiration from the header section."""
    cdef Made* made = &self.made
    cdef Value[5] values
    cdef Py_ssize_t count = 0
    cdef bint durable = self.durable_by_default
    if self.read_header(section, values, &count) == UNSUPPORTED:
        return UNSUPPORTED
    self.delivery_count = values[4].number if values[4].kind == UINT else 0
    if values[0].kind == BOOLEAN:
        durable = values[0].number != 0
    # A stream stores the header section, and adds a header to a message without one.
    made.there[DELIVERY_MODE] = durable or (
        self.stream and (section.at == NULL or values[0].kind == BOOLEAN)
    )
    made.given[DELIVERY_MODE].number = 2 if durable else 1
    made.there[PRIORITY] = values[1].kind == UBYTE
    made.given[PRIORITY].number = values[1].number
    made.there[EXPIRATION] = values[2].kind == UINT
    made.given[EXPIRATION].number = values[2].number
    return OK


cdef int report_delivery_count(ToBasic self) except -1:
    """Report a delivery-count above 0 as lost: 0-9-1 has no field for it."""
    if self.delivery_count == 0:
        return 0
    put_cstring(&self.losses.path.data, b"header.delivery-count")
    put_digits(&self.losses.before.data, <uint64_t> self.delivery_count)
    return end_loss(&self.losses, LOST_FACT, False)


cdef int read_converted(ToBasic self, Span* header, Span* sections) except -1:
    """Convert sections as RabbitMQ 4 does; the order of the steps is the order of the losses."""
    cdef Made* made = &self.made
    cdef Value[FIELDS] fields
    cdef Value type_
    cdef Py_ssize_t count = 0
    cdef int footer_loss
    type_.kind = NULL_KIND
    if made.is_marked:
        add_text_loss(&self.losses, b"body", b'"sections"', b'"bytes"', LOST_SECTIONS)
    report_body_loss(self)
    if set_transport(self, header) == UNSUPPORTED:
        return UNSUPPORTED
    if sections[0].at != NULL and read_headers(self, &sections[0], SYMBOL, &type_) == UNSUPPORTED:
        return UNSUPPORTED
    if self.read_fields(&sections[1], fields, &count) == UNSUPPORTED:
        return UNSUPPORTED
    if self.set_fields(fields, self.rows_before_headers, self.rows_before_count) == UNSUPPORTED:
        return UNSUPPORTED
    if sections[2].at != NULL and read_headers(self, &sections[2], STRING, NULL) == UNSUPPORTED:
        return UNSUPPORTED
    sort_entries(&made.entries, self.order, False)
    if not made.is_marked and type_.kind == STRING:
        made.there[TYPE] = True
        made.given[TYPE] = type_
    if self.set_fields(fields, self.rows_after_headers, self.rows_after_count) == UNSUPPORTED:
        return UNSUPPORTED
    report_delivery_count(self)
    footer_loss = -1 if made.is_marked else LOST_FOOTER
    if report_lost_section(self, &made.footer, b"footer", footer_loss) == UNSUPPORTED:
        return UNSUPPORTED
    return report_lost_section(self, &made.delivery, b"delivery-annotations", LOST_DELIVERY)


cdef int read_headers(ToBasic self, Span* section, int kind, Value* type_) except -1:
    """Convert the annotations or application properties to headers, or return UNSUPPORTED.

    Args:
        section: the map section.
        kind: the kind of its keys: SYMBOL for annotations, STRING for application properties.
        type_: receives the property type from the annotation x-basic-type; NULL for application
            properties.
    """
    cdef Py_ssize_t i
    cdef Value* key
    cdef Value* v
    cdef Entry* entry
    cdef Entries* entries = &self.made.entries
    cdef bint is_simple
    # Keys in a map are unique, so a duplicate name can only come from the previous section.
    cdef Py_ssize_t before = entries.count
    if self.read_map(section, kind) == UNSUPPORTED:
        return UNSUPPORTED
    for i in range(self.pair_count):
        if entries.count == MOST:
            return UNSUPPORTED
        entry = &entries.at[entries.count]
        key, v = &self.pairs[i].key, &self.pairs[i].value
        if key.n > 255:
            return UNSUPPORTED
        entry.value = v[0]
        is_simple = v.kind != ENCODED
        if kind == SYMBOL:
            if not begins(key.at, key.n, b"x-"):
                return UNSUPPORTED
            if is_text(key.at, key.n, FILTER_VALUE) and v.kind != STRING:
                return UNSUPPORTED  # a stream ends the publisher's session
            if self.stream and v.kind == NULL_KIND:
                return UNSUPPORTED  # a stream ends the publisher's session
            if is_own(key):
                if is_simple and v.kind != STRING:
                    return UNSUPPORTED
                if is_simple and is_text(key.at, key.n, BASIC_TYPE):
                    if v.n > 255:
                        return UNSUPPORTED
                    type_[0] = v[0]
                    continue
                if is_text(key.at, key.n, EXCHANGE) or is_text(key.at, key.n, ROUTING_KEY):
                    if not is_simple:
                        return UNSUPPORTED
                    self.begin_entry_loss(key, v)
                    end_loss(&self.losses, LOST_BROKERS_OWN, False)
                    continue
                if is_simple or begins(key.at, key.n, b"x-basic-"):
                    return UNSUPPORTED
        if is_simple:
            if field_of(self, entry, key) == UNSUPPORTED:
                return UNSUPPORTED
        elif self.convert_by_plain_rules(entry, &self.pairs[i]) == UNSUPPORTED:
            return UNSUPPORTED
        elif entry.name == NULL:
            continue
        else:
            before = MOST
        if has_name(entries, 0, min(before, entries.count), entry.name, entry.size):
            return UNSUPPORTED
        entries.count += 1
    return OK


cdef int field_of(ToBasic self, Entry* entry, Value* key) except -1:
    """Convert a value to a header and report a loss if inexact, or return UNSUPPORTED."""
    cdef Value* v = &entry.value
    cdef Losses* losses = &self.losses
    cdef int kind = v.kind
    entry.name = key.at
    entry.size = key.n
    entry.kept = False
    if kind == UUID:
        return UNSUPPORTED
    if kind == SYMBOL or kind == BINARY:
        entry.letter = c"S"
    elif kind == ULONG:
        entry.letter = c"l"
        if v.number >= 0:
            return OK
    elif kind == TIMESTAMP:
        entry.letter = c"T"
        if v.number < 0:
            return UNSUPPORTED
        if v.number % 1000 == 0:
            return OK
    else:
        entry.letter = letter_of(v)
        return OK
    if key.kind == SYMBOL and not is_plain_name(key.at, key.n):
        return UNSUPPORTED
    self.put_key_path(key)
    if kind == ULONG:
        json_value(&losses.before.data, v)
        put_signed_digits(&losses.after.data, v.number)
        return end_loss(losses, LOST_UNSIGNED, True) or OK
    if kind == TIMESTAMP:
        json_value(&losses.before.data, v)
        put_digits(&losses.after.data, <uint64_t> (v.number // 1000))
        return end_loss(losses, LOST_WHOLE_SECONDS, True) or OK
    put_cstring(&losses.before.data, b'"symbol"' if kind == SYMBOL else b'"binary"')
    put_cstring(&losses.after.data, b'"S"')
    return end_loss(losses, LOST_SYMBOL if kind == SYMBOL else LOST_BINARY, True) or OK


cdef int read_kept(ToBasic self, Span* header, Span* sections, cursor body) except -1:
    """Convert sections as RabbitMQ 3.10 does: whole sections become headers."""
    cdef Made* made = &self.made
    cdef Value[FIELDS] fields
    cdef Py_ssize_t count = 0
    cdef Entry* entry
    cdef int i
    if made.delivery.at != NULL or made.parts > 1:
        return UNSUPPORTED  # RabbitMQ 3.10 refuses the message, or reverses the sections
    if not made.is_marked:
        self.set_type(IS_DATA)
    elif body[2] == AMQP_VALUE_CODE and (body[3] == 0x45 or body[3] & 0xEF == 0xC0):
        return UNSUPPORTED  # RabbitMQ 3.10 treats a list as the fields of a record
    if header.at != NULL:
        if set_transport(self, header) == UNSUPPORTED:
            return UNSUPPORTED
        made.there[DELIVERY_MODE] = True
        report_delivery_count(self)
    if sections[0].at != NULL and check_map(self, &sections[0], SYMBOL) == UNSUPPORTED:
        return UNSUPPORTED
    if self.read_fields(&sections[1], fields, &count) == UNSUPPORTED:
        return UNSUPPORTED
    if self.set_fields(fields, self.rows_before_headers, self.rows_before_count) == UNSUPPORTED:
        return UNSUPPORTED
    if sections[2].at != NULL and check_map(self, &sections[2], STRING) == UNSUPPORTED:
        return UNSUPPORTED
    if report_lost_section(self, &made.footer, b"footer", -1) == UNSUPPORTED:
        return UNSUPPORTED
    for i in range(SAVED):
        if sections[i].at == NULL:
            continue
        entry = &made.entries.at[made.entries.count]
        made.entries.count += 1
        entry.name = <cursor> SAVED_NAMES[i]
        entry.size = <Py_ssize_t> strlen(SAVED_NAMES[i])
        entry.letter = c"S"
        entry.value.kind = BINARY
        entry.value.at = sections[i].at
        entry.value.n = sections[i].n
        put_cstring(&self.losses.path.data, SECTION_NAMES[i])
        put_quoted(&self.losses.before.data, SECTION_NAMES[i])
        put_quoted(&self.losses.after.data, SAVED_NAMES[i])
        end_loss(&self.losses, LOST_SAVED_SECTION, True)
    sort_entries(&made.entries, self.order, False)
    return OK


cdef int check_map(ToBasic self, Span* section, int kind) except -1:
    """Check that a section is a map with keys of this kind and supported values."""
    cdef cursor p = section.at + 3
    cdef cursor stop = section.at + section.n
    cdef cursor end = NULL
    cdef Py_ssize_t count = 0, i, k
    cdef Span[MOST] keys
    cdef Pair pair
    cdef Entry entry
    if open_compound(&p, stop, 0xC1, &count, &end) == UNSUPPORTED or end != stop:
        return UNSUPPORTED
    if count & 1 or count > 2 * MOST:
        return UNSUPPORTED
    for i in range(count >> 1):
        if read_pair(&p, stop, kind, &pair) == UNSUPPORTED:
            return UNSUPPORTED
        keys[i].at, keys[i].n = pair.key.at, pair.key.n
        for k in range(i):
            if is_same(keys[k].at, keys[k].n, keys[i].at, keys[i].n):
                return UNSUPPORTED
        if pair.value.kind == ENCODED and self.convert_by_plain_rules(&entry, &pair) == UNSUPPORTED:
            return UNSUPPORTED
        if self.stream and kind == SYMBOL and pair.value.kind == NULL_KIND:
            return UNSUPPORTED  # a stream does not store a null annotation
    return OK if p == stop else UNSUPPORTED
