# Part of `ToBasic`: the lossless profile.


cdef int read_lossless(ToBasic self, Span* header, Span* sections, Span* body) except -1:
    """Convert the sections of a message in the lossless profile, or return UNSUPPORTED."""
    cdef Made* made = &self.made
    cdef Mark mark
    cdef Py_ssize_t count, told
    cdef Span* annotations = &sections[0]
    made.is_certain = self.message_size <= MAX_UNTRIED_MESSAGE_SIZE
    if self.message_size - body.n > MAX_SIZE_FITTING_FRAME:
        return UNSUPPORTED
    if annotations.at != NULL and find_additions(self, annotations) == UNSUPPORTED:
        return UNSUPPORTED
    if self.has_broker_annotations and (made.delivery.at != NULL or made.footer.at != NULL):
        return UNSUPPORTED
    if header.at != NULL and report_header_of_3(self, header) == UNSUPPORTED:
        return UNSUPPORTED
    if self.is_from_rabbitmq_3:
        if made.keeps_data_heads:
            return UNSUPPORTED
        if sections[1].at != NULL and report_subject_of_3(self, &sections[1]):
            sections[1].at = NULL
    # If RabbitMQ added annotations to a message with a header, `read_lossless_header` calls
    # `report_body`, because the losses of the body follow losses of the header.
    if not (self.has_broker_annotations and header.at != NULL):
        if report_body(self, body) == UNSUPPORTED:
            return UNSUPPORTED
    if header.at != NULL:
        told = self.losses.count
        if read_lossless_header(self, header, body) == UNSUPPORTED:
            return UNSUPPORTED
        # A message with a residual from 0-9-1 gets no new residual, which a recoverable loss needs.
        for told in range(told, self.losses.count if self.residual.at != NULL else 0):
            if self.losses.recoverable.at[told]:
                return UNSUPPORTED
    elif made.is_delivered:
        made.header.at = <cursor> b""  # empty: the message has no header section
        made.header.n = 0
    if sections[1].at != NULL:
        if read_lossless_properties(self, &sections[1]) == UNSUPPORTED:
            return UNSUPPORTED
    self.is_wider = False
    mark = mark_of(&self.losses)
    if sections[2].at != NULL and read_application(self, &sections[2]) == UNSUPPORTED:
        return UNSUPPORTED
    if self.residual.n > 3 and self.residual.at[3] == 3:
        truncate_losses(&self.losses, &mark)  # the residual's table restores all headers
    if sections[2].at != NULL and (self.is_wider or is_wide(&sections[2])):
        made.application = sections[2]
    told = self.losses.count - mark.count
    made.split = made.entries.count
    if annotations.at != NULL and read_annotations(self, annotations) == UNSUPPORTED:
        return UNSUPPORTED
    # Put a header section with an unusual encoding into the residual.
    if header.at != NULL and is_wide(header) and not (
        self.has_broker_annotations or self.is_from_rabbitmq_3
    ):
        made.header = header[0]
    for count in range(made.entries.count):
        self.order[count] = <uint8_t> count
    if self.residual.at != NULL:
        return restore(self, told)
    if (
        report_lost_section(self, &made.delivery, b"delivery-annotations", LOST_CARRIED_DELIVERY)
        == UNSUPPORTED
    ):
        return UNSUPPORTED
    if report_lost_section(self, &made.footer, b"footer", LOST_CARRIED_FOOTER) == UNSUPPORTED:
        return UNSUPPORTED
    # Without the residual, some annotations would be mistaken for the broker's annotations after a
    # delivery, or would change their order.
    if (
        (self.has_history or self.is_route_inside)
        and made.annotations.at == NULL
        and self.needs_residual()
    ):
        keep_annotations(self, annotations)
    return OK


cdef int report_body(ToBasic self, Span* body) except -1:
    """Report losses of the body, or make its sections the payload if the residual says so."""
    cdef Made* made = &self.made
    made.keeps_data_heads = made.keeps_data_heads or made.parts == 0
    if self.residual.n > 4 and self.residual.at[3] == 15:  # MARKED_SECTIONS_KEY
        self.payload_was_sections = made.parts > 0
        body[0] = self.sections
        self.set_type(ENCODED_SECTIONS_TYPE_PROPERTY)
        return OK
    if made.is_marked and not made.is_usual and check_reencoding(self, body) == UNSUPPORTED:
        return UNSUPPORTED
    if made.parts == 0 and self.residual.at != NULL:
        return UNSUPPORTED  # a residual from 0-9-1 cannot express a missing body
    return report_body_loss(self) or OK


cdef int check_reencoding(ToBasic self, Span* body) except -1:
    """Report a loss if RabbitMQ re-encodes the body differently; UNSUPPORTED if it cannot."""
    cdef bytes given = bytes_at(body.at, body.n)
    written = self.reencode_body(given)
    if written is None:
        return UNSUPPORTED
    if written != given:
        add_text_loss(&self.losses, b"body", b'"sections"', b'"sections"', LOST_ENCODED_ANEW)
    return OK


cdef int find_additions(ToBasic self, Span* section) except -1:
    """Find the annotations with exchange and routing key, and report RabbitMQ's other additions."""
    cdef Py_ssize_t i, rest = 0, exchange = -1, routing_key = -1
    cdef Value* key
    cdef Value* v
    cdef Made* made = &self.made
    if self.read_map(section, SYMBOL) == UNSUPPORTED or self.pair_count == 0:
        return UNSUPPORTED
    for i in range(self.pair_count):
        key, v = &self.pairs[i].key, &self.pairs[i].value
        if is_text(key.at, key.n, RESIDUAL):
            if v.kind != BINARY:
                return UNSUPPORTED
            self.residual.at, self.residual.n = v.at, v.n
        if is_text(key.at, key.n, EXCHANGE) or is_text(key.at, key.n, ROUTING_KEY):
            if v.kind != STRING or not is_short(v.at, v.n):
                return UNSUPPORTED
            if is_text(key.at, key.n, EXCHANGE):
                exchange = rest
                made.exchange = v[0]
            else:
                routing_key = rest
                made.routing_key = v[0]
        elif is_addition(self, key, v):
            self.has_broker_annotations = True
            continue
        rest += 1
    if exchange < 0 and routing_key < 0:
        return UNSUPPORTED if self.has_broker_annotations else OK
    if exchange < 0 or routing_key < 0 or not (made.exchange.n or made.routing_key.n):
        return UNSUPPORTED
    made.is_delivered = True
    self.route_first = routing_key == 0 and exchange == 1
    self.is_route_inside = not self.route_first and (
        exchange != rest - 2 or routing_key != rest - 1
    )
    return report_additions(self) if self.has_broker_annotations else OK


cdef bint is_addition(ToBasic self, Value* key, Value* v) noexcept:
    """Whether RabbitMQ adds an annotation with this key and type at delivery."""
    cdef int i
    cdef BrokerAnnotation* added
    for i in range(self.broker_annotation_count):
        added = &self.broker_annotations[i]
        if is_same(key.at, key.n, added.name.at, added.name.n):
            if added.kind == ENCODED:
                return v.kind == ENCODED and v.at[0] & 0xEF == 0xE0
            return v.kind == added.kind
    return False


cdef int report_additions(ToBasic self) except -1:
    """Report the loss of the annotations that RabbitMQ added at delivery."""
    cdef Py_ssize_t i
    cdef Value* v
    cdef bytes told
    for i in range(self.pair_count):
        v = &self.pairs[i].value
        if not is_addition(self, &self.pairs[i].key, v):
            continue
        self.put_key_path(&self.pairs[i].key)
        if v.kind == ENCODED:
            told = self.plain.lost_value_json(bytes_at(v.at, v.n))
            if told is None:
                return UNSUPPORTED
            put_bytes(&self.losses.before.data, told)
            self.deaths.at, self.deaths.n = v.at, v.n
        else:
            json_value(&self.losses.before.data, v)
        end_loss(&self.losses, LOST_FACT, False)
    return OK


cdef int report_former_ttl(ToBasic self) except -1:
    """Report the loss of the ttl that RabbitMQ removed from the header of a dead letter."""
    losses = self.plain.former_ttl_losses(
        bytes_at(self.deaths.at, self.deaths.n)
    )
    if losses is None:
        return UNSUPPORTED
    for loss in losses:
        add_plain_loss(&self.losses, loss)
    return OK


cdef int report_header_of_3(ToBasic self, Span* section) except -1:
    """Report a header that RabbitMQ 3.10 wrote (see `_delivery.without_rabbitmq_3_additions`)."""
    cdef Py_ssize_t count = 0
    cdef Value[5] values
    if self.read_header(section, values, &count) == UNSUPPORTED:
        return UNSUPPORTED
    if count != 5 or not is_header_of_3(section, values):
        return OK
    if self.made.is_delivered or (values[1].kind == UBYTE and values[1].number > 9):
        return UNSUPPORTED  # the Python code translates the message: this header needs a residual
    self.is_from_rabbitmq_3 = True
    if values[1].kind == UBYTE and values[1].number == 4:
        values[1].kind = NULL_KIND  # so that the repr omits the default priority
    put_cstring(&self.losses.path.data, b"header")
    put_header_repr(
        &self.losses.before.data,
        values[0].number != 0,
        &values[1],
        &values[2],
        values[3].number != 0,
        0,
    )
    end_loss(&self.losses, LOST_HEADER_OF_3, False)
    return OK


cdef bint report_subject_of_3(ToBasic self, Span* section) except -1:
    """Report the subject if RabbitMQ 3.10 added the properties section; return whether it did."""
    cdef Value[FIELDS] fields
    cdef Py_ssize_t count = 0, i
    if section.at[3] != 0xC0 or self.read_fields(section, fields, &count) == UNSUPPORTED:
        return False
    if count != FIELDS or fields[3].kind != STRING:
        return False
    for i in range(FIELDS):
        if i != 3 and fields[i].kind != NULL_KIND:
            return False
    put_cstring(&self.losses.path.data, b"properties.subject")
    json_value(&self.losses.before.data, &fields[3])
    end_loss(&self.losses, LOST_SUBJECT_OF_3, False)
    return True


cdef int read_lossless_header(ToBasic self, Span* section, Span* body) except -1:
    """Set properties from the header section and report losses, or return UNSUPPORTED."""
    cdef Py_ssize_t count = 0
    cdef Value[5] values
    cdef Made* made = &self.made
    cdef bint durable, first, is_exact = True
    cdef int64_t delivered_before
    if self.read_header(section, values, &count) == UNSUPPORTED:
        return UNSUPPORTED
    if section.n > 4 and count == 0:
        return UNSUPPORTED
    durable = values[0].kind == BOOLEAN and values[0].number != 0
    first = values[3].kind == BOOLEAN and values[3].number != 0
    delivered_before = values[4].number if values[4].kind == UINT else 0
    if self.has_broker_annotations:
        # RabbitMQ 4 wrote the header. Treat it as a header with all fields and delivery-count 0.
        if (
            self.deaths.at != NULL
            and values[2].kind == NULL_KIND
            and report_former_ttl(self) == UNSUPPORTED
        ):
            return UNSUPPORTED
        if delivered_before:
            put_cstring(&self.losses.path.data, b"header.delivery-count")
            put_digits(&self.losses.before.data, <uint64_t> delivered_before)
            end_loss(&self.losses, LOST_FACT, False)
        if report_body(self, body) == UNSUPPORTED:
            return UNSUPPORTED
        delivered_before = 0
        if values[1].kind == UBYTE and values[1].number == 4:
            values[1].kind = NULL_KIND
        write_full_header(self, durable, &values[1], &values[2], first)
    elif made.is_delivered:
        # RabbitMQ 4 delivered the message. Only a header in the form that RabbitMQ 4 writes needs
        # no residual.
        is_exact = (
            count == 5 and values[0].kind == BOOLEAN and values[3].kind == BOOLEAN
            and values[4].kind == UINT and values[4].number == 0
        )
    elif self.is_from_rabbitmq_3:
        first = False
        if values[1].kind == UBYTE and values[1].number == 4:
            values[1].kind = NULL_KIND
    else:
        # The residual keeps a header with redundant fields.
        is_exact = count == 0 or values[count - 1].kind != NULL_KIND
        is_exact = is_exact and (values[0].kind == NULL_KIND or durable)
        is_exact = is_exact and (values[3].kind == NULL_KIND or first)
        is_exact = is_exact and (values[4].kind == NULL_KIND or delivered_before != 0)
    if values[1].kind == UBYTE and values[1].number == 4:
        values[1].kind = NULL_KIND
        is_exact = False
    made.there[DELIVERY_MODE] = durable
    made.given[DELIVERY_MODE].number = 2
    if values[1].kind == UBYTE:
        made.there[PRIORITY] = True
        made.given[PRIORITY].number = min(values[1].number, <int64_t> 9)
        if values[1].number > 9:
            is_exact = False
            put_cstring(&self.losses.path.data, b"header.priority")
            put_digits(&self.losses.before.data, <uint64_t> values[1].number)
            put_byte(&self.losses.after.data, 57)
            end_loss(&self.losses, LOST_LOW_PRIORITY, True)
    if values[2].kind == UINT:
        made.there[EXPIRATION] = True
        made.given[EXPIRATION].number = values[2].number
    if made.is_delivered:
        made.redelivered = not first
        if not is_exact:
            made.header = section[0]
            if self.has_broker_annotations:
                made.header.at, made.header.n = self.full_header.at, self.full_header.size
        return OK
    if delivered_before:
        made.redelivered = True
    if delivered_before == 1 and not first:
        add_text_loss(&self.losses, b"header.delivery-count", b"1", b"true", LOST_REDELIVERED)
    elif first or delivered_before:
        is_exact = False
        put_cstring(&self.losses.path.data, b"header")
        put_header_repr(
            &self.losses.before.data, durable, &values[1], &values[2], first, delivered_before
        )
        put_cstring(&self.losses.after.data, b"true" if made.redelivered else b"false")
        end_loss(&self.losses, LOST_DELIVERED_BEFORE, True)
    if not is_exact or count == 0:
        made.header = section[0]
    return OK


cdef int write_full_header(
    ToBasic self, bint durable, Value* priority, Value* ttl, bint first
) except -1:
    """Write to `full_header` a header section with all fields, as RabbitMQ 4 does at delivery."""
    cdef Out* o = &self.full_header
    cdef Py_ssize_t start
    o.size = 0
    begin_section(o, HEADER_CODE)
    start = begin_compound(o)
    put_byte(o, 0x41 if durable else 0x42)
    if priority.kind == NULL_KIND:
        put_byte(o, NULL_CODE)
    else:
        put(o, priority.start, 2)
    if ttl.kind == NULL_KIND:
        put_byte(o, NULL_CODE)
    else:
        put_uint(o, <uint64_t> ttl.number)
    put_byte(o, 0x41 if first else 0x42)
    put_byte(o, UINT0)
    return end_compound(o, start, 0xC0, 5)


cdef bint is_header_of_3(Span* section, Value* values) noexcept:
    """Whether a header with five fields is encoded as RabbitMQ 3.10 does at delivery."""
    if section.at[3] != 0xC0 or not 0x41 <= section.at[6] <= 0x42:
        return False
    if section.at[section.n - 1] != 0x40 or not 0x41 <= section.at[section.n - 2] <= 0x42:
        return False
    if values[4].kind != NULL_KIND or values[3].kind != BOOLEAN:
        return False
    if values[1].kind != NULL_KIND and values[1].kind != UBYTE:
        return False
    return values[2].kind == NULL_KIND or values[2].kind == UINT


cdef int read_lossless_properties(ToBasic self, Span* section) except -1:
    """Set properties from the properties section, or return UNSUPPORTED."""
    cdef Value[FIELDS] fields
    cdef Py_ssize_t count = 0
    cdef Mark mark = mark_of(&self.losses)
    if (
        self.read_fields(section, fields, &count) == UNSUPPORTED or (section.n > 4 and count == 0)
        or self.set_fields(fields, self.rows_before_headers, self.rows_before_count) == UNSUPPORTED
    ):
        truncate_losses(&self.losses, &mark)
        return convert_properties_by_plain_rules(self, section)
    keep_padding(self, section, fields, count)
    if is_wide(section):
        self.made.properties = section[0]
    return OK


cdef int convert_properties_by_plain_rules(ToBasic self, Span* section) except -1:
    """Let the plain rules convert a properties section that the engine does not support."""
    cdef Made* made = &self.made
    cdef bytes text
    cdef Value* v
    cdef int i
    if self.message_size > MAX_UNTRIED_MESSAGE_SIZE:
        return UNSUPPORTED
    said = self.plain.convert_properties(
        bytes_at(section.at, section.n),
        made.parts > 0 and not made.is_marked,
    )
    if said is None:
        return UNSUPPORTED
    self.kept_alive.append(said)
    self.has_compounds = True
    for i in range(self.rows_before_count):
        if self.rows_before_headers[i].target >= 0:
            made.there[self.rows_before_headers[i].target] = False
    memset(made.keeps, 0, sizeof(made.keeps))
    given, seconds, keeps, is_kept, losses = said
    if is_kept and self.residual.at != NULL:
        return UNSUPPORTED  # it would need a second residual, with the whole properties section
    for target, text in given:
        i = target
        made.there[i] = True
        v = &made.given[i]
        v.kind = STRING
        v.at, v.n = <cursor> PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text)
    if seconds is not None:
        made.there[TIMESTAMP_AT] = True
        made.given[TIMESTAMP_AT].number = 1000 * <int64_t> seconds
    made.keeps_field = bool(keeps)
    for index, text in keeps:
        i = index
        made.keeps[i] = True
        made.fields[i].at, made.fields[i].n = (
            <cursor> PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text)
        )
    if is_kept:
        made.properties = section[0]
    for loss in losses:
        add_plain_loss(&self.losses, loss)
    return OK


cdef int keep_padding(ToBasic self, Span* section, Value* fields, Py_ssize_t count) except -1:
    """Put redundant parts of the properties into the residual: an empty section, trailing nulls."""
    cdef Py_ssize_t i
    cdef bint has_value = False
    for i in range(count):
        has_value = has_value or fields[i].kind != NULL_KIND
    if not has_value:
        self.made.properties = section[0]
    elif fields[count - 1].kind == NULL_KIND:
        self.made.keeps_field = True
        self.made.keeps[count - 1] = True
        self.made.fields[count - 1].at = section.at + section.n - 1
        self.made.fields[count - 1].n = 1
    return 0


cdef int read_application(ToBasic self, Span* section) except -1:
    """Convert the application properties to headers, or return UNSUPPORTED."""
    cdef Py_ssize_t i
    cdef Value* key
    cdef Value* v
    cdef Entry* entry
    if self.read_map(section, STRING) == UNSUPPORTED or self.pair_count == 0:
        return UNSUPPORTED
    for i in range(self.pair_count):
        entry = &self.made.entries.at[self.made.entries.count]
        key, v = &self.pairs[i].key, &self.pairs[i].value
        entry.value = v[0]
        if begins(key.at, key.n, b"x-"):
            return UNSUPPORTED
        if (
            v.kind != ENCODED and letter_of(v)
            and key.n <= 255 and not scan_bytes(key.at, key.n) and not is_cc_or_bcc(key.at, key.n)
        ):
            self.is_wider = self.is_wider or v.start[0] == 0x56
            if lossless_header_of(self, entry, key) == UNSUPPORTED:
                return UNSUPPORTED
        else:
            if self.convert_by_plain_rules(entry, &self.pairs[i]) == UNSUPPORTED:
                return UNSUPPORTED
            # The residual keeps the whole section if a property has no header or a long encoding.
            self.is_wider = self.is_wider or entry.name == NULL or is_longer(entry, v)
            if entry.name == NULL:
                if self.residual.at != NULL:
                    return UNSUPPORTED
                continue
        self.made.entries.count += 1
        if entry.kept:
            self.made.keeps_entry = True
    return OK


cdef inline bint is_longer(Entry* entry, Value* v) noexcept:
    """Whether the message encodes a value in more bytes than necessary.

    `entry` contains the smallest encoding, from `convert_by_plain_rules`.
    """
    return not is_same(
        v.start, wire_size(v), entry.value.start, <Py_ssize_t> entry.value.number
    )


cdef int lossless_header_of(ToBasic self, Entry* entry, Value* key) except -1:
    """Convert an application property or annotation to a header; report a loss if inexact."""
    cdef Value* v = &entry.value
    cdef bint is_annotation = key.kind == SYMBOL
    cdef bint is_same_name = True
    entry.name = key.at
    entry.size = key.n
    entry.letter = letter_of(v)
    if not entry.letter:
        return UNSUPPORTED
    if is_annotation:
        if begins(key.at, key.n, b"x-opt-x-"):
            entry.name += 6
            entry.size -= 6
            if begins(entry.name, entry.size, b"x-opt-"):
                return UNSUPPORTED
        elif not begins(key.at, key.n, b"x-opt-"):
            is_same_name = False
    entry.kept = not has_exact_letter(v.kind) or (v.kind == TIMESTAMP and v.number % 1000 != 0)
    if not entry.kept and is_same_name:
        if v.kind == BINARY and is_utf8(v.at, v.n) and not (
            is_annotation and self.residual.at != NULL
        ):
            if not is_plain_name(key.at, key.n):
                return UNSUPPORTED
            self.begin_entry_loss(key, v)
            json_value(&self.losses.after.data, v)
            end_loss(&self.losses, LOST_IN_STREAM, True)
        return OK
    if not is_plain_name(key.at, key.n) or v.kind == DOUBLE or v.kind == FLOAT:
        return UNSUPPORTED
    self.begin_entry_loss(key, v)
    if entry.letter == c"S" and v.kind == UUID:
        put_cstring(&self.losses.after.data, b'"urn:uuid:')
        put_uuid(&self.losses.after.data, v.at)
        put_byte(&self.losses.after.data, 34)
    elif entry.letter == c"S" and v.kind == ULONG:
        put_byte(&self.losses.after.data, 34)
        put_digits(&self.losses.after.data, <uint64_t> v.number)
        put_byte(&self.losses.after.data, 34)
    elif v.kind == TIMESTAMP:
        put_digits(&self.losses.after.data, <uint64_t> (v.number // 1000))
    else:
        json_value(&self.losses.after.data, v)
    end_loss(&self.losses, LOST_TYPE_OR_NAME if is_annotation else LOST_TYPE, True)
    entry.kept = True
    return OK


cdef int read_annotations(ToBasic self, Span* section) except -1:
    """Convert the annotations to properties and headers, or return UNSUPPORTED."""
    cdef Py_ssize_t i, told = self.losses.count
    cdef Value* key
    cdef Value* v
    cdef Entry* entry
    cdef Made* made = &self.made
    cdef int last = 0, place
    cdef bint is_exact = True, is_special, is_wider = is_wide(section)
    self.sender_annotations.size = self.sender_annotation_items = 0
    self.read_map(section, SYMBOL)  # `find_additions` has already checked the map
    for i in range(self.pair_count):
        if made.entries.count == MOST:
            return UNSUPPORTED
        entry = &made.entries.at[made.entries.count]
        key, v = &self.pairs[i].key, &self.pairs[i].value
        entry.value = v[0]
        if key.n > 255 or scan_bytes(key.at, key.n) or not begins(key.at, key.n, b"x-"):
            return UNSUPPORTED
        if made.is_delivered and (
            is_text(key.at, key.n, EXCHANGE) or is_text(key.at, key.n, ROUTING_KEY)
        ):
            put_annotation(self, key, v)
            continue
        if is_text(key.at, key.n, RESIDUAL):
            continue
        if self.has_broker_annotations and is_addition(self, key, v):
            continue
        if begins(key.at, key.n, ROW_PREFIX):
            place = read_property_annotation(self, key, v) if v.kind != ENCODED else 0
            if place <= last or made.entries.count > made.split:
                return UNSUPPORTED
            last = place
            made.is_certain = False
            put_annotation(self, key, v)
            continue
        is_special = is_special_name(self, key)
        # If the name of a floating-point number changes, the plain rules format it for the loss.
        if v.kind != ENCODED and not is_special and letter_of(v) and v.kind != NULL_KIND and not (
            (v.kind == DOUBLE or v.kind == FLOAT) and not begins(key.at, key.n, b"x-opt-")
        ):
            is_wider = is_wider or v.start[0] == 0x56
            if lossless_header_of(self, entry, key) == UNSUPPORTED:
                return UNSUPPORTED
        else:
            if self.convert_by_plain_rules(entry, &self.pairs[i]) == UNSUPPORTED:
                return UNSUPPORTED
            if entry.name == NULL:
                if self.residual.at != NULL:
                    return UNSUPPORTED
            elif is_special and not is_text(entry.name, entry.size, FILTER_VALUE):
                self.has_history = True
            is_wider = is_wider or is_longer(entry, v)
        put_annotation(self, key, &entry.value)
        is_exact = is_exact and not entry.kept
        if entry.name == NULL:
            continue
        if has_name(
            &made.entries, made.split, made.entries.count, entry.name, entry.size
        ):
            return UNSUPPORTED
        made.entries.count += 1
    if self.residual.at != NULL:
        for i in range(told, self.losses.count):
            self.losses.recoverable.at[i] = False  # the message gets no new residual to restore it
        return OK
    if not is_exact or (is_wider and not self.has_broker_annotations):
        keep_annotations(self, section)
        if not is_exact:
            self.route_first = False
    return OK


cdef int keep_annotations(ToBasic self, Span* section) except -1:
    """Put all annotations except RabbitMQ's additions into the residual."""
    self.made.annotations = section[0]
    if self.has_broker_annotations:
        self.content.size = 0
        begin_section(&self.content, MESSAGE_ANNOTATIONS_CODE)
        put_compound(&self.content, 0xC1, self.sender_annotation_items, &self.sender_annotations)
        self.sender_annotations.size = 0
        put_buffer(&self.sender_annotations, &self.content)
        self.made.annotations.at = self.sender_annotations.at
        self.made.annotations.n = self.sender_annotations.size
    return 0


cdef int put_annotation(ToBasic self, Value* key, Value* v) except -1:
    """Add an annotation to `sender_annotations`, which are only needed if RabbitMQ added others."""
    if not self.has_broker_annotations:
        return 0
    self.sender_annotation_items += 2
    put_variable(&self.sender_annotations, 0xA3, key.at, key.n)
    if v.kind == BOOLEAN:
        return put_byte(&self.sender_annotations, 0x41 if v.number else 0x42)
    return put(&self.sender_annotations, v.start, wire_size(v))


cdef int read_property_annotation(ToBasic self, Value* key, Value* v) except -1:
    """Set a property from its annotation; return the property's number, 0 if unsupported."""
    cdef cursor p = key.at + strlen(ROW_PREFIX)
    cdef Py_ssize_t n = key.n - <Py_ssize_t> strlen(ROW_PREFIX)
    cdef int target
    if is_text(p, n, b"delivery-mode") or is_text(p, n, b"priority"):
        target = PRIORITY if n == 8 else DELIVERY_MODE
        if v.kind != UBYTE or v.number != (4 if target == PRIORITY else 1):
            return 0
    else:
        if is_text(p, n, b"type"):
            target = TYPE
        elif is_text(p, n, b"app-id"):
            target = APP_ID
        elif is_text(p, n, b"cluster-id"):
            target = CLUSTER_ID
        elif is_text(p, n, b"content-type") or is_text(p, n, b"content-encoding"):
            # Only text that the field of 1.0 cannot hold goes into the annotation.
            target = CONTENT_TYPE if n == 12 else CONTENT_ENCODING
            if v.kind == STRING and (scan_bytes(v.at, v.n) or (
                self.made.parts and not self.made.is_marked
                and self.symbols.holds(target, v.at, v.n)
            )):
                return 0
        else:
            return 0
        if (
            v.kind != STRING or not is_short(v.at, v.n)
            or is_text(v.at, v.n, ENCODED_SECTIONS_TYPE_PROPERTY)
        ):
            return 0
    if self.made.there[target]:
        return 0
    self.made.there[target] = True
    self.made.given[target] = v[0]
    if (target == CLUSTER_ID or target == DELIVERY_MODE) and self.residual.at == NULL:
        self.begin_entry_loss(key, v)
        json_value(&self.losses.after.data, v)
        end_loss(&self.losses, LOST_CLUSTER_ID if target == CLUSTER_ID else LOST_MODE, True)
    return target + 1


cdef int report_order(ToBasic self) except -1:
    """Report the sections whose order is lost if a broker sorts the headers by name."""
    cdef Entries* entries = &self.made.entries
    cdef Py_ssize_t last = 0, i
    cdef bint are_apart = True
    report_order_of(self, 0, self.made.split, b"application-properties")
    for i in range(1, self.made.split):
        if entry_sorts_before(&entries.at[last], &entries.at[i], False):
            last = i
    # If sorting puts a header from a property after a header from an annotation, the reverse
    # translation adds an annotation: a residual with the positions of the headers.
    for i in range(self.made.split, entries.count if self.made.split else 0):
        are_apart = are_apart and entry_sorts_before(&entries.at[last], &entries.at[i], False)
    if not are_apart:
        return report_sorted(self, b"message-annotations")
    return report_order_of(self, self.made.split, entries.count, b"message-annotations")


cdef int report_order_of(
    ToBasic self, Py_ssize_t first, Py_ssize_t end, const char* path
) except -1:
    """Report a section if its headers, from index `first` to before `end`, are not sorted."""
    cdef Entries* entries = &self.made.entries
    cdef Py_ssize_t i
    for i in range(first + 1, end):
        if entry_sorts_before(&entries.at[i], &entries.at[i - 1], False):
            return report_sorted(self, path)
    return 0


cdef int report_sorted(ToBasic self, const char* path) except -1:
    """Report the loss of the order of a section."""
    return add_text_loss(
        &self.losses, path, b'"in their order"', b'"by their names"', LOST_BY_NAME
    )


cdef bint is_special_name(ToBasic self, Value* key) except -1:
    """Whether an annotation, or its header, has a special meaning to brokers or this library."""
    cdef Py_ssize_t skipped = 6 if begins(key.at, key.n, b"x-opt-x-") else 0
    cdef cursor p = key.at + skipped
    cdef Py_ssize_t n = key.n - skipped
    return (
        is_among(self.special_names, p, n) or begins(p, n, b"x-basic-")
        or (skipped and is_among(self.special_names, key.at, key.n))
    )
