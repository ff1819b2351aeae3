# Translates encoded 1.0 messages to content headers of 0-9-1: one engine for every profile.
#
# `translate.to_basic_rules` defines the differences between the profiles: a row for each field of
# the properties, and the conversion of sections. The plain rules convert single values of types
# that the engine does not read. Messages that the engine does not support are "odd": the plain
# rules translate them.

cdef const char* FILTER_VALUE = b"x-stream-filter-value"
cdef const char* EXCHANGE = b"x-exchange"
cdef const char* ROUTING_KEY = b"x-routing-key"
cdef const char* BASIC_TYPE = b"x-basic-type"
cdef const char* QUEUES = b"/queues/"
cdef const char* OLD_QUEUES = b"/queue/"
cdef const char* IS_DATA = b"binary"

cdef enum:
    # Maximum number of body sections. More make a row odd.
    MOST_PARTS = 1000
    FACTS = 16
    # The largest number of seconds whose milliseconds fit into 64 bits.
    LATEST = 9223372036854775

# The conversion of sections: `ToBasicRules.way` of `translate.to_basic_rules`.
cdef enum:
    LOSSLESS = 0  # the residual has the values that 0-9-1 cannot express
    CONVERTED = 1  # as RabbitMQ 4 does
    KEPT_WHOLE = 2  # as RabbitMQ 3.10 does: sections become headers
WAYS = ("lossless", "converted", "kept whole")

# The conversion of a field of the properties: the forms of `translate.to_basic_rules`.
cdef enum:
    DROPPED_FIELD = 0  # lost
    CARRIED_FIELD  # stored in the residual
    TEXT_FIELD  # at most 255 bytes
    SHORT_TEXT_FIELD  # a short string that fits an address
    ID_FIELD  # an id, by the rules of the correspondence
    BROKER_ID_FIELD  # UUIDs and numbers become text
    USER_FIELD  # a short string
    LOGIN_FIELD  # the name of the connection's user
    ADDRESS_FIELD  # the address of a queue, which becomes its name
    OLD_ADDRESS_FIELD  # likewise, in the form of RabbitMQ 3.10
    KNOWN_FIELD  # a symbol that the rules of 1.0 allow
    BYTES_FIELD  # the bytes of a text or binary, of any type
    SECONDS_FIELD  # whole seconds; the residual has the milliseconds
    WHOLE_SECONDS_FIELD  # whole seconds; the milliseconds are lost
    SAME_NUMBER_FIELD  # milliseconds become the same number of seconds
    RENAMED_FIELD  # the group-id becomes the app-id
FIELD_FORMS = (
    "dropped", "carried", "text", "short text", "id", "broker id", "user", "login", "address",
    "old address", "known", "bytes", "seconds", "whole seconds", "same number", "renamed",
)

# A row: the field, the property or -1, and the conversion.
cdef struct FieldRow:
    int index, target, form


# An annotation that a delivery adds, and its type: an array is `ENCODED`.
cdef struct Fact:
    Span name
    int kind


cdef inline bint is_own(Value* key) noexcept nogil:
    cdef int i
    for i in range(OWN):
        if begins(key.at, key.n, OWN_ANNOTATIONS[i]):
            return True
    return False


cdef int put_quoted(Out* o, const char* name) except -1:
    """Write a name in quotation marks."""
    octet(o, 34)
    say(o, name)
    return octet(o, 34)


cdef inline int read_scalar(cursor* place, cursor stop, Value* v) noexcept nogil:
    """Read a value like `read_value`, or a boolean in its long form. Do not skip an odd value."""
    cdef cursor p = place[0]
    if stop - p < 2 or p[0] != 0x56:
        if read_value(&p, stop, v) == ODD:
            return ODD
        place[0] = p
        return GOOD
    if p[1] > 1:
        return ODD
    v.kind = BOOLEAN
    v.start = p
    v.at = p + 1
    v.n = 1
    v.number = p[1]
    place[0] = p + 2
    return GOOD


cdef inline int read_pair(cursor* place, cursor stop, int kind, Pair* pair) noexcept nogil:
    """Read a key of this kind and its value; ODD for a different kind or a truncated pair."""
    cdef Value* v = &pair.value
    if read_value(place, stop, &pair.key) == ODD or pair.key.kind != kind:
        return ODD
    if read_scalar(place, stop, v) == ODD:
        v.kind = ENCODED
        v.start = v.at = place[0]
        v.n = v.number = any_size(place[0], stop)
        place[0] += v.n
    return GOOD if v.kind != ENCODED or v.n else ODD


cdef int end_told(Losses* to, tuple loss) except -1:
    """Add a loss from the plain rules: its members, all texts except the last."""
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
    """Translates messages of 1.0 to content headers and payloads by a profile.

    Args:
        profile: the `ToBasicRules` that `translate.to_basic_rules.rules_of` returns.
        plain: the plain rules for single values: `translate.to_basic_rules.PlainValues`.
        user: the required value of a user-id; None if the plain rules must check user-ids.
        strict: messages of which something is lost for good are odd ones.
    """

    cdef bint strict
    cdef object plain, is_symbol, reencode_body
    cdef bytes user
    cdef list odd_names
    cdef list held  # keeps the plain rules' results alive: entries point into their bytes
    # The profile.
    cdef int way
    cdef bint durable_by_default, stream
    cdef text ulong_prefix  # prefix of an id that is a number
    cdef bytes prefix
    cdef FieldRow[FIELDS] early, late  # reported before and after the application properties
    cdef int early_count, late_count
    cdef Fact[FACTS] facts
    cdef int fact_count
    cdef object profile  # keeps its names alive, to which pointers refer
    # The message.
    cdef Made made
    cdef Pair[MOST] pairs  # the entries of the last map that was read
    cdef Py_ssize_t pair_count
    cdef uint8_t[MOST] order
    cdef Span sections  # the body sections
    cdef Span deaths  # the encoded history that a dead-letter exchange added
    cdef Span saved  # the residual of the original 0-9-1 message
    cdef Entries originals
    cdef bint is_empty  # the original had an empty table of headers
    cdef Py_ssize_t size  # in bytes
    cdef bint puts_first, has_facts, is_wider, has_compounds, has_history
    # Exchange and routing key of a delivery are neither the first nor the last annotations.
    cdef bint is_elsewhere
    cdef int64_t delivery_count  # the header's delivery-count, for the RabbitMQ profiles
    cdef bint is_of_3  # RabbitMQ 3.10 wrote the header at delivery
    cdef bint is_sections  # according to the residual, the payload is the body's sections
    cdef bint is_busy  # a message is being translated
    cdef bint is_telling  # record the losses, instead of only counting them
    cdef Out shape, joined  # the heads of the data sections, and their joined contents
    cdef Out decorated  # the header with the values of a delivery
    cdef Out anew  # the annotations without the delivery's additions
    cdef Py_ssize_t anew_count
    # The output of the batch.
    cdef Losses losses
    cdef Texts header, payload, exchange, routing_key
    cdef Out there, redelivered, table, content

    def __cinit__(self, profile, plain, bytes user or None, bint strict=False):
        self.strict = strict
        self.plain = plain
        self.is_symbol = plain.is_symbol
        self.reencode_body = plain.reencode_body
        self.user = user
        self.odd_names = profile.special_names
        self.held = []
        self.way = WAYS.index(profile.way)
        self.durable_by_default = profile.durable_by_default
        self.stream = profile.stream
        self.prefix = profile.ulong_id_prefix
        self.ulong_prefix = PyBytes_AS_STRING(self.prefix)
        self.early_count = self.fill(self.early, profile.rows_before_headers)
        self.late_count = self.fill(self.late, profile.rows_after_headers)
        self.profile = profile
        if len(profile.delivery_annotations) > FACTS:
            raise ValueError("more annotations than there is room for")
        for name, kind in profile.delivery_annotations:
            self.facts[self.fact_count].name = span_of(name)
            self.facts[self.fact_count].kind = (
                LONG if kind == "long" else STRING if kind == "string" else ENCODED
            )
            self.fact_count += 1
        self.begin()

    cdef int fill(self, FieldRow* to, rows) except -1:
        """Copy rows of the profile; return their number."""
        cdef int count = 0
        if len(rows) > FIELDS:
            raise ValueError("more rows than fields")
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
        free_out(&self.anew)
        free_out(&self.decorated)
        free_out(&self.shape)
        free_out(&self.joined)
        free_losses(&self.losses)

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
        self.is_telling = True
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

    def translate_one(self, bytes wire not None, bint is_encoded=False):
        """Translate one message; None if it is odd.

        Args:
            wire: the encoded message.
            is_encoded: return the encoded content header instead of the properties.

        Returns:
            The attributes of the message, the number of losses, and whether all losses are
            recoverable.
        """
        cdef Span body
        cdef BasicReader reader
        cdef Made* made = &self.made
        if self.is_busy:  # in another thread
            return None
        self.is_busy = True
        self.is_telling = False
        try:
            if self.translate(
                <cursor> PyBytes_AS_STRING(wire), PyBytes_GET_SIZE(wire), &body
            ) == ODD:
                return None
            header = taken(&self.header.data)
            if not is_encoded:
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
            basic = tuple(found) if is_encoded else BASIC_MESSAGE.build(found)
            return basic, self.losses.count, bool(are_recoverable(&self.losses, 0))
        finally:
            if self.header.data.room > MOST_KEPT:
                free_out(&self.header.data)
            if self.joined.room > MOST_KEPT:
                free_out(&self.joined)
            self.begin()
            self.is_busy = False

    cdef str text_of(self, Value* v):
        if not self.made.is_delivered or v.n == 0:
            return ""
        return bytes_at(v.at, v.n).decode("utf-8")

    cdef int blank(self) except -1:
        """End a row without a message."""
        end_text(&self.header)
        end_text(&self.payload)
        end_text(&self.exchange)
        end_text(&self.routing_key)
        octet(&self.there, 0)
        octet(&self.redelivered, 0)
        return end_losses(&self.losses)

    cdef int end_row(self, Span* body) except -1:
        """End a row whose content header and losses are written."""
        cdef Made* made = &self.made
        end_text(&self.header)
        put_text(&self.payload, body.at, body.n)
        if made.is_delivered:
            put(&self.exchange.data, made.exchange.at, made.exchange.n)
            put(&self.routing_key.data, made.routing_key.at, made.routing_key.n)
        end_text(&self.exchange)
        end_text(&self.routing_key)
        octet(&self.there, 1)
        octet(&self.redelivered, made.redelivered)
        return end_losses(&self.losses)

    cdef int row(self, cursor p, Py_ssize_t n) except -1:
        """Translate a message as the next row; where it is odd, nothing is done."""
        cdef Span body
        if self.translate(p, n, &body) == ODD:
            return ODD
        self.end_row(&body)
        return GOOD

    cdef int translate(self, cursor p, Py_ssize_t n, Span* body) except -1:
        """Write the content header and the losses of a message; write nothing if it is odd."""
        cdef Mark mark = mark_of(&self.losses)
        cdef Py_ssize_t size = self.header.data.size
        if (
            self.read(p, n, body) == ODD or self.write(body.n) == ODD
            or (self.strict and not are_recoverable(&self.losses, mark.count))
        ):
            cut_losses(&self.losses, &mark)
            self.header.data.size = size
            return ODD
        return GOOD

    # Reading.

    cdef int read(self, cursor p, Py_ssize_t n, Span* body) except -1:
        cdef cursor stop = p + n
        cdef Span header
        cdef Span[SAVED] sections
        cdef Made* made = &self.made
        cdef int i
        self.begin_message()
        self.size = n
        header.at = NULL
        if skip_section(&p, stop, HEADER_CODE, &header) == ODD:
            return ODD
        if skip_section(&p, stop, DELIVERY_ANNOTATIONS_CODE, &made.delivery) == ODD:
            return ODD
        for i in range(SAVED - 1):
            sections[i].at = NULL
            if skip_section(&p, stop, MESSAGE_ANNOTATIONS_CODE + i, &sections[i]) == ODD:
                return ODD
        if read_body(self, p, stop, body) == ODD:
            return ODD
        if self.way == LOSSLESS:
            return read_lossless(self, &header, sections, body)
        if made.parts == 0 or (made.is_marked and n > CERTAIN):
            return ODD  # it has no body, or the limits of decoding count its values
        if self.way == CONVERTED:
            return read_converted(self, &header, sections)
        sections[SAVED - 1] = made.footer
        return read_kept(self, &header, sections, p)

    cdef int begin_message(self) except -1:
        """Reset the state of the previous message."""
        cdef Made* made = &self.made
        made.entries.count = made.split = made.parts = 0
        made.exchange.at = NULL
        made.is_delivered = made.redelivered = made.keeps_field = made.keeps_entry = False
        made.keeps_shape = False
        made.header.at = made.delivery.at = made.annotations.at = NULL
        made.properties.at = made.application.at = made.footer.at = NULL
        memset(made.there, 0, sizeof(made.there))
        memset(made.keeps, 0, sizeof(made.keeps))
        self.puts_first = self.has_facts = self.has_compounds = self.is_empty = False
        self.has_history = self.is_elsewhere = self.is_sections = self.is_of_3 = False
        self.saved.at = self.deaths.at = NULL
        self.saved.n = 0
        if self.held:
            self.held.clear()
        return 0

    cdef int set_type(self, const char* name) except -1:
        cdef Made* made = &self.made
        made.there[TYPE] = True
        made.given[TYPE].kind = STRING
        made.given[TYPE].at = <cursor> name
        made.given[TYPE].n = <Py_ssize_t> strlen(name)
        return 0

    cdef int read_header(self, Span* section, Value* values, Py_ssize_t* count) except -1:
        """Read the fields of a header; missing fields are null."""
        cdef cursor p
        cdef cursor stop
        cdef cursor end = NULL
        cdef Py_ssize_t i
        cdef int kind
        count[0] = 0
        for i in range(5):
            values[i].kind = NULL_KIND
        if section.at == NULL or section.n == 4:  # an empty list
            return GOOD
        p, stop = section.at + 3, section.at + section.n
        if open_compound(&p, stop, 0xC0, count, &end) == ODD or end != stop or count[0] > 5:
            return ODD
        for i in range(count[0]):
            if read_value(&p, stop, &values[i]) == ODD:
                return ODD
            kind = BOOLEAN if i == 0 or i == 3 else UBYTE if i == 1 else UINT
            if values[i].kind != NULL_KIND and values[i].kind != kind:
                return ODD
        return GOOD if p == stop else ODD

    cdef int read_fields(self, Span* section, Value* fields, Py_ssize_t* count) except -1:
        """Read the fields of the properties; missing fields are null."""
        cdef cursor p
        cdef cursor stop
        cdef Py_ssize_t i
        cdef Value* v
        count[0] = 0
        for i in range(FIELDS):
            fields[i].kind = NULL_KIND
        if section.at == NULL or section.n == 4:  # an empty list
            return GOOD
        p, stop = section.at + 3, section.at + section.n
        if open_compound(&p, stop, 0xC0, count, &stop) == ODD or count[0] > FIELDS:
            return ODD
        for i in range(count[0]):
            v = &fields[i]
            if read_value(&p, stop, v) == ODD:
                return ODD
            if v.kind == NULL_KIND or v.kind == KINDS[i]:
                continue
            if not (i == 0 or i == 5) or (v.kind != UUID and v.kind != ULONG):
                return ODD
        return GOOD if p == section.at + section.n else ODD

    cdef int set_fields(self, Value* fields, FieldRow* rows, int count) except -1:
        """Set properties according to the rows."""
        cdef int i
        for i in range(count):
            if fields[rows[i].index].kind != NULL_KIND:
                if self.set_field(&rows[i], &fields[rows[i].index]) == ODD:
                    return ODD
        return GOOD

    cdef int set_field(self, FieldRow* row, Value* v) except -1:
        """Convert a field to its property, and report its losses."""
        cdef Made* made = &self.made
        cdef Losses* losses = &self.losses
        cdef int form = row.form
        if form == DROPPED_FIELD:
            self.tell_field(row, v)
            return end_loss(losses, LOST_FIELD, False) or GOOD
        if form == CARRIED_FIELD:
            self.keep_field(row, v)
            return end_loss(losses, LOST_CARRIED_FIELD, False) or GOOD
        if form == SECONDS_FIELD or form == WHOLE_SECONDS_FIELD:
            if v.number < 0:
                return ODD
            if v.number % 1000:
                if form == SECONDS_FIELD:
                    self.keep_field(row, v)
                else:
                    self.tell_field(row, v)
                digits(&losses.after.data, <uint64_t> (v.number // 1000))
                end_loss(losses, LOST_INEXACT if form == SECONDS_FIELD else LOST_SINCE_1970, True)
        elif form == SAME_NUMBER_FIELD:
            if not 0 <= v.number <= LATEST:
                return ODD
            v.number *= 1000
        elif form == KNOWN_FIELD:
            if not is_short(v.at, v.n):
                return ODD
            # If the body is not data, the field is not used.
            if made.is_marked or not made.parts or not self.is_known_symbol(
                row.target, v.at, v.n
            ):
                self.keep_inexact(row, v)
        elif v.kind == ULONG:
            if form == BYTES_FIELD:  # which is not text
                return ODD
            if form == BROKER_ID_FIELD:
                self.tell_field(row, v)
                octet(&losses.after.data, 34)
                digits(&losses.after.data, <uint64_t> v.number)
                octet(&losses.after.data, 34)
                end_loss(losses, LOST_NUMBER, True)
        elif v.kind == UUID:
            if form == BYTES_FIELD:
                v.kind = BINARY
        elif form == ID_FIELD or form == SHORT_TEXT_FIELD or form == USER_FIELD:
            if not is_short(v.at, v.n):
                return ODD
            if form == ID_FIELD and (begins(v.at, v.n, b"urn:") or begins(v.at, v.n, b"ID:")):
                if begins(v.at, v.n, b"urn:uuid:"):
                    if not is_uuid(v.at + 9, v.n - 9):
                        return ODD
                    self.keep_inexact(row, v)
                elif begins(v.at, v.n, b"ID:AMQP_"):
                    return ODD  # which may stand for an id of another type
            if form == SHORT_TEXT_FIELD and v.n > LONGEST_REPLY:
                return ODD
            if form == USER_FIELD and v.n > LONGEST_USER and bytes_found(v.at, v.n) & HIGH:
                return ODD
        elif form == LOGIN_FIELD:
            if self.user is None or not is_bytes(v.at, v.n, self.user):
                return ODD
        elif form == OLD_ADDRESS_FIELD:
            if begins(v.at, v.n, OLD_QUEUES):
                v.at += strlen(OLD_QUEUES)
                v.n -= <Py_ssize_t> strlen(OLD_QUEUES)
            if v.n > 255 or is_text(v.at, v.n, b"amq.rabbitmq.reply-to"):
                return ODD  # which the broker refuses
        else:
            if v.n > 255:
                return ODD
            if form == RENAMED_FIELD:
                self.tell_field(row, v)
                json_value(&losses.after.data, v)
                end_loss(losses, LOST_GROUP_ID, True)
            elif form == ADDRESS_FIELD and begins(v.at, v.n, QUEUES):
                if memchr(v.at, c"%", <size_t> v.n) != NULL:
                    return ODD
                self.tell_field(row, v)
                v.at += strlen(QUEUES)
                v.n -= <Py_ssize_t> strlen(QUEUES)
                json_value(&losses.after.data, v)
                end_loss(losses, LOST_QUEUE, True)
        made.there[row.target] = True
        made.given[row.target] = v[0]
        return GOOD

    cdef bint is_known_symbol(self, int target, cursor p, Py_ssize_t n) except -1:
        """Whether the rules of 1.0 allow this content-type or content-encoding."""
        return self.is_symbol(target, bytes_at(p, n))

    cdef int tell_field(self, FieldRow* row, Value* v) except -1:
        """Start a loss about a field."""
        say(&self.losses.path.data, b"properties.")
        say(&self.losses.path.data, NAMES[row.index])
        return json_value(&self.losses.before.data, v)

    cdef int keep_field(self, FieldRow* row, Value* v) except -1:
        """Keep a field in the residual, and start its loss."""
        self.made.keeps_field = True
        self.made.keeps[row.index] = True
        self.made.fields[row.index].at = v.start
        self.made.fields[row.index].n = wire_size(v)
        return self.tell_field(row, v)

    cdef int tell_key(self, Value* key) except -1:
        """Write the path of an annotation or application property."""
        cdef Out* o = &self.losses.path.data
        cdef bint is_quoted = key.kind == SYMBOL or self.way == LOSSLESS
        say(o, b"message-annotations[" if key.kind == SYMBOL else b"application-properties[")
        if is_quoted:
            octet(o, 39)
        put(o, key.at, key.n)
        if is_quoted:
            octet(o, 39)
        return octet(o, 93)

    cdef int tell_entry(self, Value* key, Value* v) except -1:
        """Start a loss about an annotation or application property."""
        self.tell_key(key)
        return json_value(&self.losses.before.data, v)

    cdef int read_map(self, Span* section, int kind) except -1:
        """Read the pairs of a map with keys of this kind and without duplicate keys."""
        cdef cursor p = section.at + 3
        cdef cursor stop = section.at + section.n
        cdef cursor end = NULL
        cdef Py_ssize_t i, k, count = 0
        cdef Span[MOST] keys
        cdef Pair* pair = self.pairs
        if open_compound(&p, stop, 0xC1, &count, &end) == ODD or end != stop:
            return ODD
        if count & 1 or count > 2 * MOST:
            return ODD
        for i in range(count >> 1):
            if read_pair(&p, stop, kind, pair) == ODD:
                return ODD
            keys[i].at, keys[i].n = pair.key.at, pair.key.n
            for k in range(i):
                if is_same(keys[k].at, keys[k].n, keys[i].at, keys[i].n):
                    return ODD
            pair += 1
        self.pair_count = count >> 1
        return GOOD if p == stop else ODD

    cdef int ask_plain(self, Entry* entry, Pair* pair) except -1:
        """Let the plain rules convert a value that the engine does not read to a header.

        The entry has no name if the value is dropped; it is `kept` if the header is not exact.
        """
        cdef Value* key = &pair.key
        cdef bytes name, field, wire
        if self.size > CERTAIN or (self.way != LOSSLESS and pair.value.start[0] == 0):
            return ODD  # or it is described
        said = self.plain.convert_to_header(
            bytes_at(key.at, key.n),
            bytes_at(pair.value.start, wire_size(&pair.value)),
            key.kind == SYMBOL,
            self.saved.at != NULL,
        )
        if said is None:
            return ODD
        name, field, wire, is_exact, losses = said
        self.held.append(said)
        self.has_compounds = True
        for loss in losses:
            end_told(&self.losses, loss)
        entry.kept = not is_exact
        entry.size = 0
        entry.name = NULL
        entry.value.kind = ENCODED
        entry.value.start = <cursor> PyBytes_AS_STRING(wire)
        entry.value.number = PyBytes_GET_SIZE(wire)
        if name is None:
            return GOOD
        entry.name = <cursor> PyBytes_AS_STRING(name)
        entry.size = PyBytes_GET_SIZE(name)
        entry.letter = field[0]
        entry.value.at = <cursor> PyBytes_AS_STRING(field) + 1
        entry.value.n = PyBytes_GET_SIZE(field) - 1
        return GOOD

    cdef int keep_inexact(self, FieldRow* row, Value* v) except -1:
        """Keep a text whose reverse translation has a different value, and report the loss."""
        self.keep_field(row, v)
        json_value(&self.losses.after.data, v)
        return end_loss(&self.losses, LOST_INEXACT, True)

    # Writing.

    cdef bint keeps(self) noexcept:
        """Whether a residual is needed."""
        cdef Made* made = &self.made
        return (
            made.header.at != NULL or made.annotations.at != NULL
            or made.properties.at != NULL or made.application.at != NULL
            or made.keeps_field or made.keeps_entry or made.keeps_shape
            or made.delivery.at != NULL or made.footer.at != NULL
        )

    cdef int write(self, Py_ssize_t body_size) except -1:
        """Write the content header."""
        cdef Made* made = &self.made
        cdef Out* o = &self.header.data
        cdef Value* v
        cdef Py_ssize_t i, k, start, begin = o.size
        cdef int flags = 0
        cdef bint keeps = self.way == LOSSLESS and self.saved.at == NULL and self.keeps()
        # For larger messages the plain rules must check the reverse translation.
        if keeps and not made.is_certain:
            return ODD
        if not keeps and self.way == LOSSLESS and not (self.saved.at != NULL and is_sorted(self)):
            tell_order(self)
        made.there[HEADERS] = made.entries.count > 0 or keeps or self.is_empty
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
                    put_header(o, &made.entries.at[self.order[k]])
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
        # Without compound values, the properties fit if the sections fit.
        return ODD if self.has_compounds and o.size - begin > MOST_CONTENT else GOOD

    cdef int put_residual(self, Out* o) except -1:
        """Write the header with the residual."""
        cdef Made* made = &self.made
        cdef Entries* entries = &made.entries
        cdef Out* content = &self.content
        cdef uint8_t[MOST] places
        cdef Py_ssize_t i, start
        cdef int count = 0, kept = 0
        content.size = 0
        if not sort(entries, places, False):
            put_key(content, &count, 2)
            cbor_head(content, 4, <uint64_t> entries.count)
            for i in range(entries.count):
                cbor_head(content, 0, places[i])
        if self.puts_first:
            put_key(content, &count, 4)
            cbor_head(content, 0, 1)
        put_kept_section(content, &count, HEADER_CODE, &made.header)
        put_kept_section(content, &count, DELIVERY_ANNOTATIONS_CODE, &made.delivery)
        put_kept_section(content, &count, MESSAGE_ANNOTATIONS_CODE, &made.annotations)
        put_kept_section(content, &count, PROPERTIES_CODE, &made.properties)
        put_kept_section(content, &count, APPLICATION_PROPERTIES_CODE, &made.application)
        if made.keeps_shape:
            put_key(content, &count, DATA_CODE)
            cbor_head(content, 4, <uint64_t> made.parts)
            put_out(content, &self.shape)
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
            self.put_kept(content)
        put_packed(&self.table, count, content)
        octet(o, <int> strlen(RESIDUAL))
        say(o, RESIDUAL)
        octet(o, c"S")
        start = o.size
        number(o, 0, 4)
        put_base64(o, self.table.at, self.table.size)
        return end_table(o, start)

    cdef int put_kept(self, Out* content) except -1:
        """Write the application properties of the residual."""
        cdef Entries* entries = &self.made.entries
        cdef Entry* entry
        cdef uint8_t[MOST] places
        cdef Py_ssize_t i
        cdef int kept = 0
        sort(entries, places, True)
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
    """Write a section that the residual keeps as a whole, if any."""
    if section.at == NULL:
        return 0
    put_key(content, count, code)
    return cbor_bytes(content, section.at, section.n)


cdef int put_header(Out* o, Entry* entry) except -1:
    """Write the name, letter and value of a header, also of a header from the plain rules."""
    if entry.value.kind != ENCODED:
        return put_field(o, entry)
    octet(o, <int> entry.size)
    put(o, entry.name, entry.size)
    octet(o, entry.letter)
    return put(o, entry.value.at, entry.value.n)
