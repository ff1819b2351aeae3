# From encoded 1.0 messages to content headers of 0-9-1, as RabbitMQ 4 delivers them.

cdef const char* SECTIONS_ARE_PAYLOAD = b"the encoded sections are the payload"
cdef const char* BROKERS_OWN = b"the broker's own annotation"
cdef const char* NUMBER_IS_TEXT = b"the number becomes text"
cdef const char* NOT_UNSIGNED = b"no unsigned 64-bit number"
cdef const char* SYMBOL_IS_TEXT = b"a symbol becomes a long string"
cdef const char* BINARY_IS_TEXT = b"a binary becomes a long string"
cdef const char* WHOLE_SECONDS = b"0-9-1 has whole seconds"
cdef const char* SINCE_1970 = b"0-9-1 has whole seconds since 1970"
cdef const char* IS_APP_ID = b"it becomes the app-id"
cdef const char* IS_QUEUE_NAME = b"an address of a queue becomes its name"
cdef const char* FILTER_VALUE = b"x-stream-filter-value"
cdef const char* QUEUES = b"/queues/"

# How the names of annotations begin that may be the broker's own: `_OWN_ANNOTATIONS` there.
cdef text[7] OWN_ANNOTATIONS = [
    b"x-cc", b"x-basic-", b"x-opt-deaths", b"x-opt-rabbitmq-received-time", b"x-routing-key",
    b"x-exchange", b"x-death",
]


cdef inline bint is_own(Value* key) noexcept nogil:
    cdef int i
    for i in range(7):
        if begins(key.at, key.n, OWN_ANNOTATIONS[i]):
            return True
    return False


cdef class RabbitMQToBasic(ToBasic):
    """Translates messages of 1.0 as RabbitMQ 4.0 or later does."""

    cdef bytes user
    cdef bint durable_by_default, queue_addresses, stream
    cdef Entries gathered

    def configured(
        self, bytes user or None, bint durable_by_default, bint queue_addresses, bint stream
    ):
        """Return this, set up for a version.

        Args:
            user: the name that a user-id must be; None to leave messages with one to the others.
            durable_by_default, queue_addresses, stream: as `BrokerVersion` has them.
        """
        self.user = user
        self.durable_by_default = durable_by_default
        self.queue_addresses = queue_addresses
        self.stream = stream
        self.ulong_prefix = b""
        return self

    cdef int read(self, cursor p, Py_ssize_t n, Span* body) except -1:
        cdef cursor stop = p + n
        cdef Span header, annotations, properties, application
        cdef Value[FIELDS] fields
        cdef Made* made = &self.made
        cdef Value type_
        cdef int i
        self.begin_message()
        self.gathered.count = 0
        for i in range(FIELDS):
            fields[i].kind = NULL_KIND
        type_.kind = NULL_KIND
        header.at = annotations.at = properties.at = application.at = NULL
        if skip_section(&p, stop, HEADER_CODE, &header) == ODD:
            return ODD
        if skip_section(&p, stop, MESSAGE_ANNOTATIONS_CODE, &annotations) == ODD:
            return ODD
        if skip_section(&p, stop, PROPERTIES_CODE, &properties) == ODD:
            return ODD
        if skip_section(&p, stop, APPLICATION_PROPERTIES_CODE, &application) == ODD:
            return ODD
        if self.read_body(p, stop, body) == ODD:
            return ODD
        if made.is_marked:
            if n > CERTAIN:  # the limits of decoding count its values
                return ODD
            say(&self.losses.path.data, b"body")
            say(&self.losses.before.data, b'"sections"')
            say(&self.losses.after.data, b'"bytes"')
            end_final_loss(&self.losses, b"retyped", True, SECTIONS_ARE_PAYLOAD)
        if self.remember(&header) == ODD:
            return ODD
        if annotations.at != NULL and self.read_headers(&annotations, &type_) == ODD:
            return ODD
        if properties.at != NULL and self.read_fields(&properties, fields) == ODD:
            return ODD
        if self.id_of(MESSAGE_ID, &fields[0]) == ODD:
            return ODD
        if self.id_of(CORRELATION_ID, &fields[5]) == ODD:
            return ODD
        if application.at != NULL and self.read_headers(&application, NULL) == ODD:
            return ODD
        self.put_in_order()
        if not made.is_marked and type_.kind == STRING:
            made.there[TYPE] = True
            made.given[TYPE] = type_
        return self.write_fields(fields)

    cdef int remember(self, Span* section) except -1:
        """Set what a broker remembers of the header section."""
        cdef Made* made = &self.made
        cdef Value[5] values
        cdef cursor p, stop
        cdef Py_ssize_t count = 0, i
        cdef bint durable = self.durable_by_default
        for i in range(5):
            values[i].kind = NULL_KIND
        if section.at != NULL and section.n > 4:
            p = section.at + 3
            stop = section.at + section.n
            if open_compound(&p, stop, 0xC0, &count, &stop) == ODD or count > 5:
                return ODD
            for i in range(count):
                if read_value(&p, stop, &values[i]) == ODD:
                    return ODD
            if p != stop:
                return ODD
        for i in range(5):
            if values[i].kind == NULL_KIND:
                continue
            if values[i].kind != (BOOLEAN if i == 0 or i == 3 else UBYTE if i == 1 else UINT):
                return ODD
        if values[0].kind == BOOLEAN:
            durable = values[0].number != 0
        # A stream keeps a header section, and has one written where there is none.
        made.there[DELIVERY_MODE] = durable or (
            self.stream and (section.at == NULL or values[0].kind == BOOLEAN)
        )
        made.given[DELIVERY_MODE].number = 2 if durable else 1
        made.there[PRIORITY] = values[1].kind == UBYTE
        made.given[PRIORITY].number = values[1].number
        made.there[EXPIRATION] = values[2].kind == UINT
        made.given[EXPIRATION].number = values[2].number
        return GOOD

    cdef int read_headers(self, Span* section, Value* type_) except -1:
        """Make headers of annotations, among which the type may be, or of application properties.

        Args:
            section: the map.
            type_: where the type goes; NULL for application properties.
        """
        cdef cursor p = section.at + 3
        cdef cursor stop = section.at + section.n
        cdef cursor end = NULL
        cdef Py_ssize_t count = 0, i
        cdef Value key
        cdef Entry* entry
        cdef Entries* entries = &self.gathered
        cdef bint has_exchange = False, has_key = False
        cdef bint of_annotations = type_ != NULL
        if open_compound(&p, stop, 0xC1, &count, &end) == ODD or end != stop or count & 1:
            return ODD
        for i in range(count >> 1):
            if entries.count == MOST:
                return ODD
            entry = &entries.at[entries.count]
            if read_value(&p, stop, &key) == ODD or read_value(&p, stop, &entry.value) == ODD:
                return ODD
            if key.n > 255 or key.kind != (SYMBOL if of_annotations else STRING):
                return ODD
            if of_annotations:
                if not begins(key.at, key.n, b"x-"):
                    return ODD
                if is_text(key.at, key.n, FILTER_VALUE) and entry.value.kind != STRING:
                    return ODD  # which ends the session of who sends it to a stream
                if self.stream and entry.value.kind == NULL_KIND:
                    return ODD  # likewise
                if is_own(&key):
                    if entry.value.kind != STRING:
                        return ODD
                    if is_text(key.at, key.n, b"x-basic-type"):
                        if type_.kind == STRING or entry.value.n > 255:
                            return ODD
                        type_[0] = entry.value
                        continue
                    if is_text(key.at, key.n, b"x-exchange") and not has_exchange:
                        has_exchange = True
                    elif is_text(key.at, key.n, b"x-routing-key") and not has_key:
                        has_key = True
                    else:
                        return ODD
                    self.tell(&key, &entry.value, b"message-annotations['", b"']")
                    end_final_loss(&self.losses, b"dropped", False, BROKERS_OWN)
                    continue
            # A name that comes twice is left out, or makes a message that cannot be read.
            if is_known(entries, 0, key.at, key.n):
                return ODD
            if self.field_of(entry, &key) == ODD:
                return ODD
            entries.count += 1
        return GOOD if p == stop else ODD

    cdef int field_of(self, Entry* entry, Value* key) except -1:
        """Make a value a header; tell where it is not the same."""
        cdef Value* v = &entry.value
        cdef Losses* losses = &self.losses
        cdef bint is_annotation = key.kind == SYMBOL
        cdef text before = b"message-annotations['" if is_annotation else b"application-properties["
        cdef text after = b"']" if is_annotation else b"]"
        cdef int kind = v.kind
        entry.name = key.at
        entry.size = key.n
        entry.kept = False
        if kind == UUID:
            return ODD
        if kind == SYMBOL or kind == BINARY:
            entry.letter = c"S"
        elif kind == ULONG:
            entry.letter = c"l"
            if v.number >= 0:
                return GOOD
        elif kind == TIMESTAMP:
            entry.letter = c"T"
            if v.number < 0:
                return ODD
            if v.number % 1000 == 0:
                return GOOD
        else:
            entry.letter = letter_of(v)
            return GOOD
        if is_annotation and not is_plain_name(key.at, key.n):
            return ODD
        say(&losses.path.data, before)
        put(&losses.path.data, key.at, key.n)
        say(&losses.path.data, after)
        if kind == ULONG:
            digits(&losses.before.data, <uint64_t> v.number)
            signed_digits(&losses.after.data, v.number)
            end_final_loss(losses, b"wrapped", True, NOT_UNSIGNED)
        elif kind == TIMESTAMP:
            digits(&losses.before.data, <uint64_t> v.number)
            digits(&losses.after.data, <uint64_t> (v.number // 1000))
            end_final_loss(losses, b"truncated", True, WHOLE_SECONDS)
        else:
            say(&losses.before.data, b'"symbol"' if kind == SYMBOL else b'"binary"')
            say(&losses.after.data, b'"S"')
            end_final_loss(
                losses, b"retyped", True, SYMBOL_IS_TEXT if kind == SYMBOL else BINARY_IS_TEXT
            )
        return GOOD

    cdef int read_fields(self, Span* section, Value* fields) except -1:
        """Read the properties."""
        cdef cursor p = section.at + 3
        cdef cursor stop = section.at + section.n
        cdef Py_ssize_t count = 0, i
        cdef Value* v
        if section.n == 4:  # an empty list
            return GOOD
        if open_compound(&p, stop, 0xC0, &count, &stop) == ODD or count > FIELDS:
            return ODD
        for i in range(count):
            v = &fields[i]
            if read_value(&p, stop, v) == ODD:
                return ODD
            if v.kind == NULL_KIND or v.kind == KINDS[i]:
                continue
            if not (i == 0 or i == 5) or (v.kind != UUID and v.kind != ULONG):
                return ODD
        return GOOD if p == stop else ODD

    cdef int id_of(self, int target, Value* v) except -1:
        """Set a message-id or a correlation-id."""
        if v.kind == NULL_KIND:
            return GOOD
        if v.kind == STRING and v.n > 255:
            return ODD
        if v.kind == ULONG:
            say(&self.losses.path.data, b"properties.")
            say(&self.losses.path.data, NAMES[0 if target == MESSAGE_ID else 5])
            digits(&self.losses.before.data, <uint64_t> v.number)
            octet(&self.losses.after.data, 34)
            digits(&self.losses.after.data, <uint64_t> v.number)
            octet(&self.losses.after.data, 34)
            end_final_loss(&self.losses, b"retyped", True, NUMBER_IS_TEXT)
        self.made.there[target] = True
        self.made.given[target] = v[0]
        return GOOD

    cdef int put_in_order(self) except -1:
        """Sort the headers by their names, as the broker does before it delivers."""
        cdef uint8_t[MOST] places
        cdef Py_ssize_t i
        sort(&self.gathered, places, False)
        for i in range(self.gathered.count):
            self.made.entries.at[i] = self.gathered.at[places[i]]
        self.made.entries.count = self.gathered.count
        return 0

    cdef int write_fields(self, Value* fields) except -1:
        """Set the properties, but for the ids, in the order in which losses are told."""
        cdef Made* made = &self.made
        cdef Losses* losses = &self.losses
        cdef int i, target
        cdef int[5] without = [2, 3, 8, 11, 12]
        cdef Value* v = &fields[1]
        if v.kind == BINARY:
            if self.user is None or not is_same(
                v.at, v.n, <cursor> PyBytes_AS_STRING(self.user), PyBytes_GET_SIZE(self.user)
            ):
                return ODD
        v = &fields[4]
        if v.kind == STRING:
            if v.n > 255:
                return ODD
            if self.queue_addresses and begins(v.at, v.n, QUEUES):
                if memchr(v.at, c"%", <size_t> v.n) != NULL:
                    return ODD
                say(&losses.path.data, b"properties.reply-to")
                json_value(&losses.before.data, v)
                v.at += strlen(QUEUES)
                v.n -= <Py_ssize_t> strlen(QUEUES)
                json_value(&losses.after.data, v)
                end_loss(losses, b"renamed", True, IS_QUEUE_NAME)
        v = &fields[10]
        if v.kind == STRING:
            if v.n > 255:
                return ODD
            made.there[APP_ID] = True
            made.given[APP_ID] = v[0]
            say(&losses.path.data, b"properties.group-id")
            json_value(&losses.before.data, v)
            json_value(&losses.after.data, v)
            end_loss(losses, b"renamed", True, IS_APP_ID)
        v = &fields[9]
        if v.kind == TIMESTAMP:
            if v.number < 0:
                return ODD
            if v.number % 1000:
                say(&losses.path.data, b"properties.creation-time")
                digits(&losses.before.data, <uint64_t> v.number)
                digits(&losses.after.data, <uint64_t> (v.number // 1000))
                end_final_loss(losses, b"truncated", True, SINCE_1970)
        for i in range(FIELDS):
            target = TARGETS[i]
            if target < 0 or fields[i].kind == NULL_KIND or i == 0 or i == 5:
                continue
            if fields[i].kind == SYMBOL and fields[i].n > 255:
                return ODD
            made.there[target] = True
            made.given[target] = fields[i]
        for i in range(5):
            v = &fields[without[i]]
            if v.kind != NULL_KIND:
                say(&losses.path.data, b"properties.")
                say(&losses.path.data, NAMES[without[i]])
                json_value(&losses.before.data, v)
                end_final_loss(losses, b"dropped", False, NO_PROPERTY)
        return GOOD
