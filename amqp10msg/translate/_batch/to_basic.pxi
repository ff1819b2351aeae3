# Translates encoded 1.0 messages to encoded 0-9-1 messages: one engine for all profiles.
#
# A `ToBasicRules` defines a profile: a row for each field of the properties section, and the
# conversion of sections. The plain rules (in Python) convert single values of types that the engine
# does not read, and translate the messages that the engine does not support.

cdef const char* FILTER_VALUE = b"x-stream-filter-value"
cdef const char* EXCHANGE = b"x-exchange"
cdef const char* ROUTING_KEY = b"x-routing-key"
cdef const char* BASIC_TYPE = b"x-basic-type"
cdef const char* QUEUES = b"/queues/"
cdef const char* OLD_QUEUES = b"/queue/"
cdef const char* IS_DATA = b"binary"

cdef enum:
    # Maximum number of body sections. A message with more is unsupported.
    MOST_PARTS = 1000
    MAX_BROKER_ANNOTATIONS = 16
    # The largest number of seconds whose milliseconds fit into a signed 64-bit number.
    LATEST = 9223372036854775

# How sections are converted: the values of `ToBasicRules.section_conversion`.
cdef enum:
    LOSSLESS = 0  # the residual holds values that 0-9-1 cannot express
    CONVERTED = 1  # like in RabbitMQ 4
    KEPT_WHOLE = 2  # like in RabbitMQ 3.10, which stores sections as headers
WAYS = ("lossless", "converted", "kept whole")

# How a field of the properties section is converted. `FIELD_FORMS` has the name of each conversion,
# which the rows of `ToBasicRules` use.
cdef enum:
    DROPPED_FIELD = 0  # lost
    CARRIED_FIELD  # only in the residual
    TEXT_FIELD  # text of at most 255 bytes
    SHORT_TEXT_FIELD  # a reply-to of at most ALWAYS_SHORT_REPLY_TO bytes
    ID_FIELD  # an id, converted by the rules of `translate.table`
    BROKER_ID_FIELD  # an id, converted like in RabbitMQ 4: a uuid or ulong becomes text
    USER_FIELD  # a user-id that is a short string
    LOGIN_FIELD  # a user-id that is the name of the connection's user
    ADDRESS_FIELD  # the address /queues/… becomes the name of the queue
    OLD_ADDRESS_FIELD  # the address /queue/… of RabbitMQ 3.10 becomes the name of the queue
    KNOWN_FIELD  # a content-type or content-encoding; exact if `is_symbol` is true
    BYTES_FIELD  # the bytes of a string, binary, symbol or uuid
    SECONDS_FIELD  # milliseconds become seconds; the residual holds the exact time
    WHOLE_SECONDS_FIELD  # milliseconds become seconds; the exact time is lost
    SAME_NUMBER_FIELD  # milliseconds become the same number of seconds
    RENAMED_FIELD  # the group-id becomes the app-id
FIELD_FORMS = (
    "dropped", "carried", "text", "short text", "id", "broker id", "user", "login", "address",
    "old address", "known", "bytes", "seconds", "whole seconds", "same number", "renamed",
)

# A `to_basic_rules.Row`: the index of the field, the index of the property or -1, and the form.
cdef struct FieldRow:
    int index, target, form


# The key of an annotation that RabbitMQ adds at delivery, and its kind (ENCODED for an array).
cdef struct BrokerAnnotation:
    Span name
    int kind


cdef inline bint is_own(Value* key) noexcept nogil:
    """Whether RabbitMQ 4 may set or interpret an annotation with this key itself."""
    cdef int i
    for i in range(OWN):
        if begins(key.at, key.n, OWN_ANNOTATIONS[i]):
            return True
    return False


cdef int put_quoted(Out* o, const char* name) except -1:
    """Write a name in quotation marks."""
    put_byte(o, 34)
    put_cstring(o, name)
    return put_byte(o, 34)


cdef inline int read_scalar(cursor* place, cursor stop, Value* v) noexcept nogil:
    """Read a value like `read_value`, or a boolean in its long form.

    Return UNSUPPORTED for other values, without moving `place`.
    """
    cdef cursor p = place[0]
    if stop - p < 2 or p[0] != 0x56:
        if read_value(&p, stop, v) == UNSUPPORTED:
            return UNSUPPORTED
        place[0] = p
        return OK
    if p[1] > 1:
        return UNSUPPORTED
    v.kind = BOOLEAN
    v.start = p
    v.at = p + 1
    v.n = 1
    v.number = p[1]
    place[0] = p + 2
    return OK


cdef inline int read_pair(cursor* place, cursor stop, int kind, Pair* pair) noexcept nogil:
    """Read a key of this kind and its value, or return UNSUPPORTED."""
    cdef Value* v = &pair.value
    if read_value(place, stop, &pair.key) == UNSUPPORTED or pair.key.kind != kind:
        return UNSUPPORTED
    if read_scalar(place, stop, v) == UNSUPPORTED:
        v.kind = ENCODED
        v.start = v.at = place[0]
        v.n = v.number = value_size(place[0], stop)
        place[0] += v.n
    return OK if v.kind != ENCODED or v.n else UNSUPPORTED


cdef int add_plain_loss(Losses* to, tuple loss) except -1:
    """Add a loss from the plain rules: the result of `to_basic_rules._loss_members`."""
    cdef LossRule rule
    put_bytes(&to.path.data, loss[0])
    if loss[2] is not None:
        put_bytes(&to.before.data, loss[2])
    if loss[3] is not None:
        put_bytes(&to.after.data, loss[3])
    rule.action = PyBytes_AS_STRING(loss[1])
    rule.reason = PyBytes_AS_STRING(loss[4])
    rule.recoverable = loss[5]
    return put_loss(to, &rule, loss[2] is not None, loss[3] is not None)


@cython.final
cdef class ToBasic:
    """Translates encoded 1.0 messages to content headers and payloads, by the rules of a profile.

    Args:
        profile: a `ToBasicRules`.
        plain: a `PlainValues`, to convert single values.
        user: the required value of a user-id; None if the plain rules must check user-ids.
        strict: whether a message with permanent losses is unsupported.
    """

    cdef bint strict
    cdef object plain, reencode_body
    cdef Symbols symbols
    cdef bytes user
    cdef list special_names
    cdef list kept_alive  # the results of the plain rules, to which entries point
    # The profile.
    cdef int conversion
    cdef bint durable_by_default, stream
    cdef text ulong_prefix  # the prefix of an id that represents a ulong
    cdef bytes prefix
    # The rows whose losses are reported before and after the losses of application properties.
    cdef FieldRow[FIELDS] rows_before_headers, rows_after_headers
    cdef int rows_before_count, rows_after_count
    cdef BrokerAnnotation[MAX_BROKER_ANNOTATIONS] broker_annotations
    cdef int broker_annotation_count
    cdef object profile  # kept alive because `broker_annotations` points to its names
    # The message.
    cdef Made made
    cdef Pair[MOST] pairs  # the entries of the map that `read_map` has read
    cdef Py_ssize_t pair_count
    cdef uint8_t[MOST] order
    cdef Span sections  # all encoded body sections
    cdef Span deaths  # the encoded annotation x-opt-deaths, which RabbitMQ added
    cdef Span residual  # the residual that restores an original 0-9-1 message
    cdef Entries originals
    cdef bint is_empty  # the original 0-9-1 message had an empty table of headers
    cdef Py_ssize_t message_size  # the size of the 1.0 message in bytes
    cdef bint route_first, has_broker_annotations, is_wider, has_compounds, has_history
    cdef bint is_route_inside  # exchange and routing key are not the first or last annotations
    cdef int64_t delivery_count  # the header's delivery-count, in the RabbitMQ profiles
    cdef bint is_from_rabbitmq_3  # RabbitMQ 3.10 delivered the message, and wrote its header
    cdef bint payload_was_sections  # as the residual says: the payload was encoded body sections
    cdef bint is_busy  # a message is being translated
    cdef Out data_heads, joined  # the heads of the data sections, and their joined contents
    cdef Out full_header  # the header section as RabbitMQ 4 writes it at delivery
    cdef Out sender_annotations  # the annotations without RabbitMQ's additions
    cdef Py_ssize_t sender_annotation_items
    # A residual in base64, and its bytes, if the reverse translation probably writes it again.
    cdef Span packed, unpacked
    # The output of the batch.
    cdef Losses losses
    cdef Texts header, payload, exchange, routing_key
    cdef Out there, redelivered, table, content

    def __cinit__(self, profile, plain, bytes user or None, bint strict=False):
        self.strict = strict
        self.plain = plain
        self.symbols = Symbols(plain.is_symbol)
        self.reencode_body = plain.reencode_body
        self.user = user
        self.special_names = profile.special_names
        self.kept_alive = []
        self.conversion = WAYS.index(profile.section_conversion)
        self.durable_by_default = profile.durable_by_default
        self.stream = profile.stream
        self.losses.is_counted = True  # a batch also records the texts of the losses
        self.prefix = profile.ulong_id_prefix
        self.ulong_prefix = PyBytes_AS_STRING(self.prefix)
        self.rows_before_count = self.copy_rows(
            self.rows_before_headers, profile.rows_before_headers
        )
        self.rows_after_count = self.copy_rows(self.rows_after_headers, profile.rows_after_headers)
        self.profile = profile
        if len(profile.broker_annotation_types) > MAX_BROKER_ANNOTATIONS:
            raise ValueError("the profile has more broker annotations than the engine supports")
        for name, kind in profile.broker_annotation_types:
            self.broker_annotations[self.broker_annotation_count].name = span_of(name)
            self.broker_annotations[self.broker_annotation_count].kind = (
                LONG if kind == "long" else STRING if kind == "string" else ENCODED
            )
            self.broker_annotation_count += 1
        self.begin()

    cdef int copy_rows(self, FieldRow* to, rows) except -1:
        """Copy rows of the profile to C; return their number."""
        cdef int count = 0
        if len(rows) > FIELDS:
            raise ValueError("the profile has more rows than the properties section has fields")
        for index, target, form in rows:
            to[count].index = index
            to[count].target = target
            to[count].form = FIELD_FORMS.index(form)
            count += 1
        return count

    def __dealloc__(self):
        free_texts(&self.header)
        free_texts(&self.payload)
        free_texts(&self.exchange)
        free_texts(&self.routing_key)
        free_out(&self.there)
        free_out(&self.redelivered)
        free_out(&self.table)
        free_out(&self.content)
        free_out(&self.sender_annotations)
        free_out(&self.full_header)
        free_out(&self.data_heads)
        free_out(&self.joined)
        free_losses(&self.losses)

    cdef int begin(self) except -1:
        """Remove all output, to begin a batch."""
        reset_texts(&self.header)
        reset_texts(&self.payload)
        reset_texts(&self.exchange)
        reset_texts(&self.routing_key)
        self.there.size = self.redelivered.size = 0
        return reset_losses(&self.losses)

    def run(self, Py_ssize_t rows, wire):
        """Translate a batch.

        Return the indexes of the unsupported rows, and the buffers of the output.

        Args:
            rows: the number of rows.
            wire: the input column of encoded messages, as for `Column`.
        """
        cdef Column messages = Column(rows, wire)
        cdef Py_ssize_t row
        cdef Span given
        cdef list unsupported = []
        cdef bint are_all = True
        self.begin()
        self.losses.is_counted = False
        for row in range(rows):
            if not messages.cell(row, &given):
                are_all = False
                self.end_unsupported_row()
            elif self.row(given.at, given.n) == UNSUPPORTED:
                are_all = False
                unsupported.append(row)
                self.end_unsupported_row()
        made = (
            None if are_all else bitmap_of(&self.there),
            buffers_of(&self.header),
            buffers_of(&self.payload),
            buffers_of(&self.exchange),
            buffers_of(&self.routing_key),
            bitmap_of(&self.redelivered),
            losses_of(&self.losses),
        )
        return unsupported, made

    def translate_one(self, bytes wire not None, type encoded_class or None=None):
        """Translate one message; return None if it is unsupported.

        Args:
            wire: the encoded 1.0 message.
            encoded_class: the class of an encoded message: a tuple of content header, body,
                exchange, routing key and redelivered flag. None to return a `BasicMessage`.

        Returns:
            The message, the number of losses, and whether all losses are recoverable.
        """
        cdef Span body
        cdef BasicReader reader
        cdef Made* made = &self.made
        if self.is_busy:  # another thread is using the engine
            return None
        self.is_busy = True
        self.losses.is_counted = True
        try:
            if self.translate(
                <cursor> PyBytes_AS_STRING(wire), PyBytes_GET_SIZE(wire), &body
            ) == UNSUPPORTED:
                return None
            header = copy_bytes(&self.header.data)
            if encoded_class is None:
                reader = BasicReader(header, "rabbitmq", UNLIMITED)
                reader.pos = BEFORE_PROPERTIES
                header = reader.properties(BASIC_LAYOUT)
            found = [
                header,
                bytes_at(body.at, body.n),
                self.text_of(&made.exchange),
                self.text_of(&made.routing_key),
                bool(made.redelivered),
            ]
            if encoded_class is None:
                basic = BASIC_MESSAGE.build(found)
            else:
                basic = tuple.__new__(encoded_class, found)
            return basic, self.losses.count, bool(are_recoverable(&self.losses, 0))
        finally:
            if self.header.data.room > MOST_KEPT:
                free_out(&self.header.data)
            if self.joined.room > MOST_KEPT:
                free_out(&self.joined)
            self.begin()
            self.is_busy = False

    cdef str text_of(self, Value* v):
        """Return the exchange or routing key as text; "" if the message was not delivered."""
        if not self.made.is_delivered or v.n == 0:
            return ""
        return bytes_at(v.at, v.n).decode("utf-8")

    cdef int end_unsupported_row(self) except -1:
        """End the row of an unsupported message, or of a null, with null cells."""
        end_cell(&self.header)
        end_cell(&self.payload)
        end_cell(&self.exchange)
        end_cell(&self.routing_key)
        put_byte(&self.there, 0)
        put_byte(&self.redelivered, 0)
        return end_losses(&self.losses)

    cdef int end_row(self, Span* body) except -1:
        """End a row whose content header and losses were written."""
        cdef Made* made = &self.made
        end_cell(&self.header)
        put_cell(&self.payload, body.at, body.n)
        if made.is_delivered:
            put(&self.exchange.data, made.exchange.at, made.exchange.n)
            put(&self.routing_key.data, made.routing_key.at, made.routing_key.n)
        end_cell(&self.exchange)
        end_cell(&self.routing_key)
        put_byte(&self.there, 1)
        put_byte(&self.redelivered, made.redelivered)
        return end_losses(&self.losses)

    cdef int row(self, cursor p, Py_ssize_t n) except -1:
        """Translate a message as the next row, or return UNSUPPORTED without output."""
        cdef Span body
        if self.translate(p, n, &body) == UNSUPPORTED:
            return UNSUPPORTED
        self.end_row(&body)
        return OK

    cdef int translate(self, cursor p, Py_ssize_t n, Span* body) except -1:
        """Write the content header and the losses of a message, and set `body` to its payload.

        Return UNSUPPORTED, without output, if the engine does not support the message.
        """
        cdef Mark mark = mark_of(&self.losses)
        cdef Py_ssize_t size = self.header.data.size
        if (
            self.read(p, n, body) == UNSUPPORTED or self.write(body.n) == UNSUPPORTED
            or (self.strict and not are_recoverable(&self.losses, mark.count))
        ):
            truncate_losses(&self.losses, &mark)
            self.header.data.size = size
            return UNSUPPORTED
        return OK

    # Reading.

    cdef int read(self, cursor p, Py_ssize_t n, Span* body) except -1:
        """Convert the sections of a message, and report losses, or return UNSUPPORTED."""
        cdef cursor stop = p + n
        cdef Span header
        cdef Span[SAVED] sections
        cdef Made* made = &self.made
        cdef int i
        self.begin_message()
        self.message_size = n
        header.at = NULL
        if skip_section(&p, stop, HEADER_CODE, &header) == UNSUPPORTED:
            return UNSUPPORTED
        if skip_section(&p, stop, DELIVERY_ANNOTATIONS_CODE, &made.delivery) == UNSUPPORTED:
            return UNSUPPORTED
        for i in range(SAVED - 1):
            sections[i].at = NULL
            if skip_section(&p, stop, MESSAGE_ANNOTATIONS_CODE + i, &sections[i]) == UNSUPPORTED:
                return UNSUPPORTED
        if read_body(self, p, stop, body) == UNSUPPORTED:
            return UNSUPPORTED
        if self.conversion == LOSSLESS:
            return read_lossless(self, &header, sections, body)
        if made.parts == 0 or (made.is_marked and n > MAX_UNTRIED_MESSAGE_SIZE):
            return UNSUPPORTED  # no body, or a body that may exceed the limits of decoding
        if self.conversion == CONVERTED:
            return read_converted(self, &header, sections)
        sections[SAVED - 1] = made.footer
        return read_kept(self, &header, sections, p)

    cdef int begin_message(self) except -1:
        """Reset the state of the previous message."""
        cdef Made* made = &self.made
        made.entries.count = made.split = made.parts = 0
        made.exchange.at = NULL
        made.is_delivered = made.redelivered = made.keeps_field = made.keeps_entry = False
        made.keeps_data_heads = False
        made.header.at = made.delivery.at = made.annotations.at = NULL
        made.properties.at = made.application.at = made.footer.at = NULL
        memset(made.there, 0, sizeof(made.there))
        memset(made.keeps, 0, sizeof(made.keeps))
        self.route_first = self.has_broker_annotations = self.has_compounds = self.is_empty = False
        self.has_history = self.is_route_inside = self.payload_was_sections = False
        self.is_from_rabbitmq_3 = False
        self.residual.at = self.deaths.at = NULL
        self.residual.n = 0
        if self.kept_alive:
            self.kept_alive.clear()
        return 0

    cdef int set_type(self, const char* name) except -1:
        """Set the property type."""
        cdef Made* made = &self.made
        made.there[TYPE] = True
        made.given[TYPE].kind = STRING
        made.given[TYPE].at = <cursor> name
        made.given[TYPE].n = <Py_ssize_t> strlen(name)
        return 0

    cdef int read_header(self, Span* section, Value* values, Py_ssize_t* count) except -1:
        """Read the five fields of a header section; missing fields are null."""
        cdef cursor p
        cdef cursor stop
        cdef cursor end = NULL
        cdef Py_ssize_t i
        cdef int kind
        count[0] = 0
        for i in range(5):
            values[i].kind = NULL_KIND
        if section.at == NULL or section.n == 4:  # an empty list
            return OK
        p, stop = section.at + 3, section.at + section.n
        if open_compound(&p, stop, 0xC0, count, &end) == UNSUPPORTED or end != stop or count[0] > 5:
            return UNSUPPORTED
        for i in range(count[0]):
            if read_value(&p, stop, &values[i]) == UNSUPPORTED:
                return UNSUPPORTED
            kind = BOOLEAN if i == 0 or i == 3 else UBYTE if i == 1 else UINT
            if values[i].kind != NULL_KIND and values[i].kind != kind:
                return UNSUPPORTED
        return OK if p == stop else UNSUPPORTED

    cdef int read_fields(self, Span* section, Value* fields, Py_ssize_t* count) except -1:
        """Read the fields of a properties section; missing fields are null."""
        cdef cursor p
        cdef cursor stop
        cdef Py_ssize_t i
        cdef Value* v
        count[0] = 0
        for i in range(FIELDS):
            fields[i].kind = NULL_KIND
        if section.at == NULL or section.n == 4:  # an empty list
            return OK
        p, stop = section.at + 3, section.at + section.n
        if open_compound(&p, stop, 0xC0, count, &stop) == UNSUPPORTED or count[0] > FIELDS:
            return UNSUPPORTED
        for i in range(count[0]):
            v = &fields[i]
            if read_value(&p, stop, v) == UNSUPPORTED:
                return UNSUPPORTED
            if v.kind == NULL_KIND or v.kind == KINDS[i]:
                continue
            if not (i == 0 or i == 5) or (v.kind != UUID and v.kind != ULONG):
                return UNSUPPORTED
        return OK if p == section.at + section.n else UNSUPPORTED

    cdef int set_fields(self, Value* fields, FieldRow* rows, int count) except -1:
        """Convert fields of the properties section to properties, by rows of the profile."""
        cdef int i
        for i in range(count):
            if fields[rows[i].index].kind != NULL_KIND:
                if self.set_field(&rows[i], &fields[rows[i].index]) == UNSUPPORTED:
                    return UNSUPPORTED
        return OK

    cdef int set_field(self, FieldRow* row, Value* v) except -1:
        """Convert a field to its property and report losses, or return UNSUPPORTED."""
        cdef Made* made = &self.made
        cdef Losses* losses = &self.losses
        cdef int form = row.form
        if form == DROPPED_FIELD:
            self.begin_field_loss(row, v)
            return end_loss(losses, LOST_FIELD, False) or OK
        if form == CARRIED_FIELD:
            self.keep_field(row, v)
            return end_loss(losses, LOST_CARRIED_FIELD, False) or OK
        if form == SECONDS_FIELD or form == WHOLE_SECONDS_FIELD:
            if v.number < 0:
                return UNSUPPORTED
            if v.number % 1000:
                if form == SECONDS_FIELD:
                    self.keep_field(row, v)
                else:
                    self.begin_field_loss(row, v)
                put_digits(&losses.after.data, <uint64_t> (v.number // 1000))
                end_loss(losses, LOST_INEXACT if form == SECONDS_FIELD else LOST_SINCE_1970, True)
        elif form == SAME_NUMBER_FIELD:
            if not 0 <= v.number <= LATEST:
                return UNSUPPORTED
            v.number *= 1000
        elif form == KNOWN_FIELD:
            if not is_short(v.at, v.n):
                return UNSUPPORTED
            # The reverse translation sets content-type and -encoding only if the body is data.
            if made.is_marked or not made.parts or not self.symbols.holds(
                row.target, v.at, v.n
            ):
                self.keep_inexact(row, v)
        elif v.kind == ULONG:
            if form == BYTES_FIELD:  # a ulong has no bytes
                return UNSUPPORTED
            if form == BROKER_ID_FIELD:
                self.begin_field_loss(row, v)
                put_byte(&losses.after.data, 34)
                put_digits(&losses.after.data, <uint64_t> v.number)
                put_byte(&losses.after.data, 34)
                end_loss(losses, LOST_NUMBER, True)
        elif v.kind == UUID:
            if form == BYTES_FIELD:
                v.kind = BINARY
        elif form == ID_FIELD or form == SHORT_TEXT_FIELD or form == USER_FIELD:
            if not is_short(v.at, v.n):
                return UNSUPPORTED
            if form == ID_FIELD and (begins(v.at, v.n, b"urn:") or begins(v.at, v.n, b"ID:")):
                if begins(v.at, v.n, b"urn:uuid:"):
                    if not is_uuid(v.at + 9, v.n - 9):
                        return UNSUPPORTED
                    self.keep_inexact(row, v)
                elif begins(v.at, v.n, b"ID:AMQP_"):
                    return UNSUPPORTED  # the text may represent a binary or ulong
            if form == SHORT_TEXT_FIELD and v.n > ALWAYS_SHORT_REPLY_TO:
                return UNSUPPORTED
            if form == USER_FIELD and v.n > LONGEST_USER and scan_bytes(v.at, v.n) & HIGH:
                return UNSUPPORTED
        elif form == LOGIN_FIELD:
            if self.user is None or not equals_bytes(v.at, v.n, self.user):
                return UNSUPPORTED
        elif form == OLD_ADDRESS_FIELD:
            if begins(v.at, v.n, OLD_QUEUES):
                v.at += strlen(OLD_QUEUES)
                v.n -= <Py_ssize_t> strlen(OLD_QUEUES)
            if v.n > 255 or is_text(v.at, v.n, b"amq.rabbitmq.reply-to"):
                return UNSUPPORTED  # the broker refuses the message
        else:
            if v.n > 255:
                return UNSUPPORTED
            if form == RENAMED_FIELD:
                self.begin_field_loss(row, v)
                json_value(&losses.after.data, v)
                end_loss(losses, LOST_GROUP_ID, True)
            elif form == ADDRESS_FIELD and begins(v.at, v.n, QUEUES):
                if memchr(v.at, c"%", <size_t> v.n) != NULL:
                    return UNSUPPORTED
                self.begin_field_loss(row, v)
                v.at += strlen(QUEUES)
                v.n -= <Py_ssize_t> strlen(QUEUES)
                json_value(&losses.after.data, v)
                end_loss(losses, LOST_QUEUE, True)
        made.there[row.target] = True
        made.given[row.target] = v[0]
        return OK

    cdef int begin_field_loss(self, FieldRow* row, Value* v) except -1:
        """Begin the loss of a field: write its path and its original value."""
        if self.losses.is_counted:
            return 0
        put_cstring(&self.losses.path.data, b"properties.")
        put_cstring(&self.losses.path.data, NAMES[row.index])
        return json_value(&self.losses.before.data, v)

    cdef int keep_field(self, FieldRow* row, Value* v) except -1:
        """Put a field into the residual, and begin its loss like `begin_field_loss`."""
        self.made.keeps_field = True
        self.made.keeps[row.index] = True
        self.made.fields[row.index].at = v.start
        self.made.fields[row.index].n = wire_size(v)
        return self.begin_field_loss(row, v)

    cdef int put_key_path(self, Value* key) except -1:
        """Write the path of an annotation or application property to the current loss."""
        cdef Out* o = &self.losses.path.data
        cdef bint is_quoted = key.kind == SYMBOL or self.conversion == LOSSLESS
        put_cstring(
            o, b"message-annotations[" if key.kind == SYMBOL else b"application-properties["
        )
        if is_quoted:
            put_byte(o, 39)
        put(o, key.at, key.n)
        if is_quoted:
            put_byte(o, 39)
        return put_byte(o, 93)

    cdef int begin_entry_loss(self, Value* key, Value* v) except -1:
        """Begin the loss of an annotation or application property, like `begin_field_loss`."""
        if self.losses.is_counted:
            return 0
        self.put_key_path(key)
        return json_value(&self.losses.before.data, v)

    cdef int read_map(self, Span* section, int kind) except -1:
        """Read a map section into `pairs`. Its keys must be unique, and of this kind."""
        cdef cursor p = section.at + 3
        cdef cursor stop = section.at + section.n
        cdef cursor end = NULL
        cdef Py_ssize_t i, k, count = 0
        cdef Span[MOST] keys
        cdef Pair* pair = self.pairs
        if open_compound(&p, stop, 0xC1, &count, &end) == UNSUPPORTED or end != stop:
            return UNSUPPORTED
        if count & 1 or count > 2 * MOST:
            return UNSUPPORTED
        for i in range(count >> 1):
            if read_pair(&p, stop, kind, pair) == UNSUPPORTED:
                return UNSUPPORTED
            keys[i].at, keys[i].n = pair.key.at, pair.key.n
            for k in range(i):
                if is_same(keys[k].at, keys[k].n, keys[i].at, keys[i].n):
                    return UNSUPPORTED
            pair += 1
        self.pair_count = count >> 1
        return OK if p == stop else UNSUPPORTED

    cdef int convert_by_plain_rules(self, Entry* entry, Pair* pair) except -1:
        """Let the plain rules convert an unsupported annotation or property to a header (`entry`).

        `entry.name` is NULL if the plain rules drop the value. `entry.kept` is whether the header
        does not hold the value exactly.
        """
        cdef Value* key = &pair.key
        cdef bytes name, field, wire
        if self.message_size > MAX_UNTRIED_MESSAGE_SIZE or (
            self.conversion != LOSSLESS and pair.value.start[0] == 0
        ):
            return UNSUPPORTED  # too large, or a described value
        said = self.plain.convert_to_header(
            bytes_at(key.at, key.n),
            bytes_at(pair.value.start, wire_size(&pair.value)),
            key.kind == SYMBOL,
            self.residual.at != NULL,
        )
        if said is None:
            return UNSUPPORTED
        name, field, wire, is_exact, losses = said
        self.kept_alive.append(said)
        self.has_compounds = True
        for loss in losses:
            add_plain_loss(&self.losses, loss)
        entry.kept = not is_exact
        entry.size = 0
        entry.name = NULL
        entry.value.kind = ENCODED
        entry.value.start = <cursor> PyBytes_AS_STRING(wire)
        entry.value.number = PyBytes_GET_SIZE(wire)
        if name is None:
            return OK
        entry.name = <cursor> PyBytes_AS_STRING(name)
        entry.size = PyBytes_GET_SIZE(name)
        entry.letter = field[0]
        entry.value.at = <cursor> PyBytes_AS_STRING(field) + 1
        entry.value.n = PyBytes_GET_SIZE(field) - 1
        return OK

    cdef int keep_inexact(self, FieldRow* row, Value* v) except -1:
        """Put a field into the residual because its property is not exact, and report the loss."""
        self.keep_field(row, v)
        json_value(&self.losses.after.data, v)
        return end_loss(&self.losses, LOST_INEXACT, True)

    # Writing.

    cdef bint needs_residual(self) noexcept:
        """Whether the 0-9-1 message needs a residual."""
        cdef Made* made = &self.made
        return (
            made.header.at != NULL or made.annotations.at != NULL
            or made.properties.at != NULL or made.application.at != NULL
            or made.keeps_field or made.keeps_entry or made.keeps_data_heads
            or made.delivery.at != NULL or made.footer.at != NULL
        )

    cdef int write(self, Py_ssize_t body_size) except -1:
        """Write the content header, for a payload of `body_size` bytes."""
        cdef Made* made = &self.made
        cdef Out* o = &self.header.data
        cdef Value* v
        cdef Py_ssize_t i, k, start, begin = o.size
        cdef int flags = 0
        cdef bint is_lossless = self.conversion == LOSSLESS
        cdef bint keeps = is_lossless and self.residual.at == NULL and self.needs_residual()
        # Without `is_certain`, the plain rules must try whether the residual restores the message.
        if keeps and not made.is_certain:
            return UNSUPPORTED
        if not keeps and is_lossless and not (self.residual.at != NULL and is_sorted(self)):
            report_order(self)
        made.there[HEADERS] = made.entries.count > 0 or keeps or self.is_empty
        for i in range(PROPERTIES):
            if made.there[i]:
                flags |= 1 << (15 - i)
        put_number(o, 60, 2)
        put_number(o, 0, 2)
        put_number(o, <uint64_t> body_size, 8)
        put_number(o, <uint64_t> flags, 2)
        for i in range(PROPERTIES):
            if not made.there[i]:
                continue
            v = &made.given[i]
            if i == HEADERS:
                start = o.size
                put_number(o, 0, 4)
                for k in range(made.entries.count):
                    put_header(o, &made.entries.at[self.order[k]])
                if keeps:
                    self.put_residual(o)
                end_table(o, start)
            elif i == DELIVERY_MODE or i == PRIORITY:
                put_byte(o, <int> v.number)
            elif i == TIMESTAMP_AT:
                put_number(o, <uint64_t> (v.number // 1000), 8)
            else:
                start = o.size
                put_byte(o, 0)
                if i == EXPIRATION:
                    put_digits(o, <uint64_t> v.number)
                elif v.kind == UUID:
                    put_cstring(o, b"urn:uuid:")
                    put_uuid(o, v.at)
                elif v.kind == ULONG:
                    put_cstring(o, self.ulong_prefix)
                    put_digits(o, <uint64_t> v.number)
                else:
                    put(o, v.at, v.n)
                o.at[start] = <uint8_t> (o.size - start - 1)
        # Only arrays and tables can grow so much in 0-9-1 that the properties exceed a frame
        # although the 1.0 sections fit into one.
        return UNSUPPORTED if self.has_compounds and o.size - begin > MAX_CONTENT_HEADER else OK

    cdef int put_residual(self, Out* o) except -1:
        """Write the header that contains the residual."""
        cdef Made* made = &self.made
        cdef Entries* entries = &made.entries
        cdef Out* content = &self.content
        cdef uint8_t[MOST] places
        cdef Py_ssize_t i, start
        cdef int count = 0, kept = 0
        content.size = 0
        if not sort_entries(entries, places, False):
            put_key(content, &count, 2)
            cbor_head(content, 4, <uint64_t> entries.count)
            for i in range(entries.count):
                cbor_head(content, 0, places[i])
        if self.route_first:
            put_key(content, &count, 4)
            cbor_head(content, 0, 1)
        put_kept_section(content, &count, HEADER_CODE, &made.header)
        put_kept_section(content, &count, DELIVERY_ANNOTATIONS_CODE, &made.delivery)
        put_kept_section(content, &count, MESSAGE_ANNOTATIONS_CODE, &made.annotations)
        put_kept_section(content, &count, PROPERTIES_CODE, &made.properties)
        put_kept_section(content, &count, APPLICATION_PROPERTIES_CODE, &made.application)
        if made.keeps_data_heads:
            put_key(content, &count, DATA_CODE)
            cbor_head(content, 4, <uint64_t> made.parts)
            put_buffer(content, &self.data_heads)
        put_kept_section(content, &count, FOOTER_CODE, &made.footer)
        if made.keeps_field and made.properties.at == NULL:
            for i in range(FIELDS):
                kept += made.keeps[i]
            put_key(content, &count, 0x173)
            cbor_head(content, 5, <uint64_t> kept)
            for i in range(FIELDS):
                if made.keeps[i]:
                    cbor_head(content, 0, <uint64_t> i)
                    cbor_bytes(content, made.fields[i].at, made.fields[i].n)
        if made.keeps_entry and made.application.at == NULL:
            put_key(content, &count, 0x174)
            self.put_application_properties(content)
        put_residual_envelope(&self.table, count, content)
        put_byte(o, <int> strlen(RESIDUAL))
        put_cstring(o, RESIDUAL)
        put_byte(o, c"S")
        start = o.size
        put_number(o, 0, 4)
        if is_same(self.table.at, self.table.size, self.unpacked.at, self.unpacked.n):
            put(o, self.packed.at, self.packed.n)
        else:
            put_base64(o, self.table.at, self.table.size)
        return end_table(o, start)

    cdef int put_application_properties(self, Out* content) except -1:
        """Write the residual's map of application properties that headers do not hold exactly."""
        cdef Entries* entries = &self.made.entries
        cdef Entry* entry
        cdef uint8_t[MOST] places
        cdef Py_ssize_t i
        cdef int kept = 0
        sort_entries(entries, places, True)
        for i in range(self.made.split):
            kept += entries.at[i].kept
        cbor_head(content, 5, <uint64_t> kept)
        for i in range(entries.count):
            if places[i] < self.made.split and entries.at[places[i]].kept:
                entry = &entries.at[places[i]]
                cbor_head(content, 3, <uint64_t> entry.size)
                put(content, entry.name, entry.size)
                cbor_bytes(content, entry.value.start, wire_size(&entry.value))
        return 0


cdef int put_kept_section(Out* content, int* count, int code, Span* section) except -1:
    """Write a section to the residual, unless it is missing."""
    if section.at == NULL:
        return 0
    put_key(content, count, code)
    return cbor_bytes(content, section.at, section.n)


cdef int put_header(Out* o, Entry* entry) except -1:
    """Write a header like `put_field`, or a header whose value the plain rules encoded."""
    if entry.value.kind != ENCODED:
        return put_field(o, entry)
    put_byte(o, <int> entry.size)
    put(o, entry.name, entry.size)
    put_byte(o, entry.letter)
    return put(o, entry.value.at, entry.value.n)
