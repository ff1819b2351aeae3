# Encoded 1.0 messages as properties and headers of 0-9-1, and what of them is lost.


cdef class MessageReader:
    """Reads messages of 1.0 as the lossless profile does; says of each whether it is a usual one.

    Args:
        is_symbol: takes the bytes of a content-type (0) or content-encoding (1), and says whether
            the field of 1.0 holds them in front of a body of data.
        rewritten: returns encoded body sections as RabbitMQ writes them, None where it cannot.
        odd_names: names of headers that brokers add or know otherwise.
    """

    cdef object is_symbol, rewritten
    cdef list odd_names
    cdef Made made
    cdef Losses losses

    def __cinit__(self, is_symbol, rewritten, list odd_names not None):
        self.is_symbol = is_symbol
        self.rewritten = rewritten
        self.odd_names = odd_names
        begin_losses(&self.losses)

    def __dealloc__(self):
        free_losses(&self.losses)

    cdef int read(self, cursor p, Py_ssize_t n, Span* body) except -1:
        cdef cursor stop = p + n
        cdef cursor start
        cdef Span header, annotations, properties, application
        cdef Made* made = &self.made
        self.begin_message()
        made.is_certain = n <= CERTAIN
        # The sections, which stand in another order than losses are told.
        header.at = annotations.at = properties.at = application.at = NULL
        if skip_section(&p, stop, HEADER_CODE, &header) == ODD:
            return ODD
        if skip_section(&p, stop, MESSAGE_ANNOTATIONS_CODE, &annotations) == ODD:
            return ODD
        if skip_section(&p, stop, PROPERTIES_CODE, &properties) == ODD:
            return ODD
        if skip_section(&p, stop, APPLICATION_PROPERTIES_CODE, &application) == ODD:
            return ODD
        if self.read_body(p, stop, body) == ODD or n - body.n > ROOMY:
            return ODD
        if made.is_marked and self.write_anew(body) == ODD:
            return ODD
        if annotations.at != NULL and self.delivery(&annotations) == ODD:
            return ODD
        if header.at != NULL:
            if self.read_header(&header) == ODD:
                return ODD
        elif made.is_delivered:
            return ODD
        if properties.at != NULL and self.read_properties(&properties) == ODD:
            return ODD
        if application.at != NULL and self.read_application(&application) == ODD:
            return ODD
        made.split = made.entries.count
        if annotations.at != NULL and self.read_annotations(&annotations) == ODD:
            return ODD
        # What is in another encoding is kept whole.
        if header.at != NULL and is_wide(&header):
            made.header = header
        if annotations.at != NULL and is_wide(&annotations):
            made.annotations = annotations
        if properties.at != NULL and is_wide(&properties):
            made.properties = properties
        if application.at != NULL and is_wide(&application):
            made.application = application
        return GOOD

    cdef int begin_message(self) except -1:
        """Forget the message before."""
        cdef Made* made = &self.made
        made.entries.count = made.split = 0
        made.exchange.at = NULL
        made.is_delivered = made.redelivered = made.keeps_field = made.keeps_entry = False
        made.header.at = made.annotations.at = NULL
        made.properties.at = made.application.at = NULL
        memset(made.there, 0, sizeof(made.there))
        memset(made.keeps, 0, sizeof(made.keeps))
        return 0

    cdef int read_body(self, cursor p, cursor stop, Span* body) except -1:
        """Read the one section that the body is: its data, or all of it as it is encoded."""
        cdef Made* made = &self.made
        cdef Value data
        made.is_marked = is_body(p, stop)
        if made.is_marked:
            body.at = p
            body.n = stop - p
            made.there[TYPE] = True
            made.given[TYPE].kind = STRING
            made.given[TYPE].at = <cursor> MARKER
            made.given[TYPE].n = <Py_ssize_t> strlen(MARKER)
            return GOOD
        if not is_section(p, stop, DATA_CODE):
            return ODD
        p += 3
        if p >= stop or (p[0] != 0xA0 and p[0] != 0xB0):
            return ODD
        if read_text(p, stop, p[0], &data) == ODD or data.at + data.n != stop:
            return ODD
        body.at = data.at
        body.n = data.n
        return GOOD

    cdef bint keeps(self) noexcept:
        """Whether a residual is needed."""
        cdef Made* made = &self.made
        return (
            made.header.at != NULL or made.annotations.at != NULL
            or made.properties.at != NULL or made.application.at != NULL
            or made.keeps_field or made.keeps_entry
        )

    cdef int write_anew(self, Span* body) except -1:
        """Tell where RabbitMQ encodes a body of sections anew; odd where it cannot."""
        cdef bytes given = PyBytes_FromStringAndSize(<const char*> body.at, body.n)
        written = self.rewritten(given)
        if written is None:
            return ODD
        if written != given:
            say(&self.losses.path.data, b"body")
            say(&self.losses.before.data, b'"sections"')
            say(&self.losses.after.data, b'"sections"')
            end_loss(&self.losses, b"retyped", True, ENCODED_ANEW)
        return GOOD

    cdef int delivery(self, Span* section) except -1:
        """Find the two annotations of a delivery, which stand behind all others."""
        cdef cursor p = section.at + 3
        cdef cursor stop = section.at + section.n
        cdef cursor end = NULL
        cdef Py_ssize_t count = 0, i
        cdef Value key, value
        cdef Made* made = &self.made
        if open_compound(&p, stop, 0xC1, &count, &end) == ODD or end != stop or count & 1:
            return ODD
        count >>= 1
        for i in range(count):
            if read_value(&p, stop, &key) == ODD or read_value(&p, stop, &value) == ODD:
                return ODD
            if key.kind != SYMBOL:
                return ODD
            if is_text(key.at, key.n, b"x-exchange"):
                if i != count - 2 or value.kind != STRING or not is_short(value.at, value.n):
                    return ODD
                made.exchange = value
            elif is_text(key.at, key.n, b"x-routing-key"):
                if i != count - 1 or value.kind != STRING or not is_short(value.at, value.n):
                    return ODD
                if made.exchange.at == NULL or not (made.exchange.n or value.n):
                    return ODD
                made.routing_key = value
                made.is_delivered = True
        return GOOD if p == stop and (made.exchange.at == NULL or made.is_delivered) else ODD

    cdef int read_header(self, Span* section) except -1:
        cdef cursor p = section.at + 3
        cdef cursor stop = section.at + section.n
        cdef Py_ssize_t count = 0, i
        cdef Value[5] values
        cdef Made* made = &self.made
        cdef bint durable, first, is_exact = True
        cdef int64_t delivered_before
        for i in range(5):
            values[i].kind = NULL_KIND
        if p[0] == 0x45:
            p += 1
        else:
            if open_compound(&p, stop, 0xC0, &count, &stop) == ODD or not 0 < count <= 5:
                return ODD
            for i in range(count):
                if read_value(&p, stop, &values[i]) == ODD:
                    return ODD
            # A delivered message says all fields. Else they are kept where one need not be said.
            if made.is_delivered:
                if count != 5:
                    return ODD
            elif values[count - 1].kind == NULL_KIND:
                is_exact = False
        if p != section.at + section.n or stop != p:
            return ODD
        if made.is_delivered:
            if (
                values[0].kind != BOOLEAN or values[3].kind != BOOLEAN
                or values[4].kind != UINT or values[4].number != 0
            ):
                return ODD
        else:
            for i in range(0, 4, 3):
                if values[i].kind != NULL_KIND:
                    if values[i].kind != BOOLEAN:
                        return ODD
                    is_exact = is_exact and values[i].number != 0
            if values[4].kind != NULL_KIND and values[4].kind != UINT:
                return ODD
            is_exact = is_exact and (values[4].kind == NULL_KIND or values[4].number != 0)
        if values[1].kind != NULL_KIND and values[1].kind != UBYTE:
            return ODD
        if values[1].kind == UBYTE and values[1].number == 4:
            values[1].kind = NULL_KIND
            is_exact = False
        if values[2].kind != NULL_KIND and values[2].kind != UINT:
            return ODD
        durable = values[0].kind == BOOLEAN and values[0].number != 0
        first = values[3].kind == BOOLEAN and values[3].number != 0
        delivered_before = values[4].number if values[4].kind == UINT else 0
        made.there[DELIVERY_MODE] = durable
        made.given[DELIVERY_MODE].number = 2
        if values[1].kind == UBYTE:
            made.there[PRIORITY] = True
            made.given[PRIORITY].number = min(values[1].number, <int64_t> 9)
            if values[1].number > 9:
                is_exact = False
                say(&self.losses.path.data, b"header.priority")
                digits(&self.losses.before.data, <uint64_t> values[1].number)
                octet(&self.losses.after.data, 57)
                end_loss(&self.losses, b"clamped", True, LOW_PRIORITY)
        if values[2].kind == UINT:
            made.there[EXPIRATION] = True
            made.given[EXPIRATION].number = values[2].number
        if made.is_delivered:
            made.redelivered = not first
            return GOOD if is_exact else ODD
        if delivered_before:
            made.redelivered = True
        if delivered_before == 1 and not first:
            say(&self.losses.path.data, b"header.delivery-count")
            octet(&self.losses.before.data, 49)
            say(&self.losses.after.data, b"true")
            end_loss(&self.losses, b"retyped", True, SAID_ANEW)
        elif first or delivered_before:
            is_exact = False
            say(&self.losses.path.data, b"header")
            tell_header(
                &self.losses.before.data, durable, &values[1], &values[2], first, delivered_before
            )
            say(&self.losses.after.data, b"true" if made.redelivered else b"false")
            end_loss(&self.losses, b"carried", True, ONLY_WHETHER)
        if not count:
            is_exact = False
        if not is_exact:
            made.header = section[0]
        return GOOD

    cdef int read_properties(self, Span* section) except -1:
        cdef cursor p = section.at + 3
        cdef cursor stop = section.at + section.n
        cdef Py_ssize_t count = 0, i
        cdef Value v
        cdef bint has_value = False
        if section.n == 4:  # an empty list
            self.made.properties = section[0]
            return GOOD
        if open_compound(&p, stop, 0xC0, &count, &stop) == ODD or not 0 < count <= FIELDS:
            return ODD
        v.kind = NULL_KIND
        for i in range(count):
            if read_value(&p, stop, &v) == ODD:
                return ODD
            if v.kind == NULL_KIND:
                continue
            has_value = True
            if self.field(<int> i, &v) == ODD:
                return ODD
        if not has_value:
            self.made.properties = section[0]
        elif v.kind == NULL_KIND:  # which need not be said, nor those before it
            self.made.keeps_field = True
            self.made.keeps[count - 1] = True
            self.made.fields[count - 1].at = p - 1
            self.made.fields[count - 1].n = 1
        return GOOD if p == section.at + section.n else ODD

    cdef int field(self, int index, Value* v) except -1:
        """Translate a field of the properties."""
        cdef Made* made = &self.made
        cdef int target = TARGETS[index]
        cdef bint is_id = target == MESSAGE_ID or target == CORRELATION_ID
        if v.kind != KINDS[index] and not (is_id and (v.kind == UUID or v.kind == ULONG)):
            return ODD
        if target < 0:
            self.keep_field(index, v)
            return end_loss(&self.losses, b"carried", False, NO_PROPERTY) or GOOD
        if target == TIMESTAMP_AT:
            if v.number < 0:
                return ODD
            if v.number % 1000:
                self.keep_field(index, v)
                digits(&self.losses.after.data, <uint64_t> (v.number // 1000))
                end_loss(&self.losses, b"retyped", True, NOT_EXACT)
        elif v.kind == SYMBOL and made.is_marked:
            # The field would say something of data.
            if not is_short(v.at, v.n):
                return ODD
            self.keep_field(index, v)
            json_value(&self.losses.after.data, v)
            end_loss(&self.losses, b"retyped", True, NOT_EXACT)
        elif v.kind == SYMBOL:
            if v.n > 255 or not self.is_known_symbol(target, v.at, v.n):
                return ODD
        elif v.kind != UUID and v.kind != ULONG:
            if not is_short(v.at, v.n):
                return ODD
            if is_id and (begins(v.at, v.n, b"urn:") or begins(v.at, v.n, b"ID:")):
                return ODD
            if target == REPLY_TO and v.n > LONGEST_REPLY:
                return ODD
            if target == USER_ID and v.n > LONGEST_USER and bytes_found(v.at, v.n) & HIGH:
                return ODD
        made.there[target] = True
        made.given[target] = v[0]
        return GOOD

    cdef int keep_field(self, int index, Value* v) except -1:
        """Keep a field in the residual, and begin to tell of it."""
        self.made.keeps_field = True
        self.made.keeps[index] = True
        self.made.fields[index].at = v.start
        self.made.fields[index].n = v.at + v.n - v.start
        say(&self.losses.path.data, b"properties.")
        say(&self.losses.path.data, NAMES[index])
        return json_value(&self.losses.before.data, v)

    cdef bint is_known_symbol(self, int target, cursor p, Py_ssize_t n) except -1:
        """Whether the rules of 1.0 allow this content-type or content-encoding."""
        cdef bytes key = PyBytes_FromStringAndSize(<const char*> p, n)
        return self.is_symbol(target, key)

    cdef int read_application(self, Span* section) except -1:
        cdef cursor p = section.at + 3
        cdef cursor stop = section.at + section.n
        cdef cursor end = NULL
        cdef Py_ssize_t count = 0, i
        cdef Value key
        cdef Entry* entry
        if open_compound(&p, stop, 0xC1, &count, &end) == ODD or end != stop:
            return ODD
        if not 0 < count <= 2 * MOST or count & 1:
            return ODD
        for i in range(count >> 1):
            entry = &self.made.entries.at[i]
            if read_value(&p, stop, &key) == ODD or read_value(&p, stop, &entry.value) == ODD:
                return ODD
            if (
                key.kind != STRING or key.n > 255 or bytes_found(key.at, key.n)
                or begins(key.at, key.n, b"x-") or is_route(key.at, key.n)
                or is_known(&self.made.entries, 0, key.at, key.n)
            ):
                return ODD
            if self.header_of(entry, &key, b"application-properties['", b"']") == ODD:
                return ODD
            if entry.kept:
                self.made.keeps_entry = True
        return GOOD if p == stop else ODD

    cdef int header_of(
        self, Entry* entry, Value* key, const char* before, const char* after
    ) except -1:
        """Make a property or an annotation a header; tell where it is not quite the same."""
        cdef Value* v = &entry.value
        cdef bint is_annotation = key.kind == SYMBOL
        cdef bint is_same_name = True
        entry.name = key.at
        entry.size = key.n
        entry.letter = letter_of(v)
        if not entry.letter:
            return ODD
        if is_annotation:
            if begins(key.at, key.n, b"x-opt-x-"):
                entry.name += 6
                entry.size -= 6
                if begins(entry.name, entry.size, b"x-opt-"):
                    return ODD
            elif not begins(key.at, key.n, b"x-opt-"):
                is_same_name = False
            if v.kind == NULL_KIND:
                return ODD
        self.made.entries.count += 1
        if v.kind == BINARY and is_utf8(v.at, v.n):
            if not is_plain_name(key.at, key.n):
                return ODD
            self.tell(key, v, before, after)
            json_value(&self.losses.after.data, v)
            end_loss(&self.losses, b"retyped", True, IN_STREAM)
        entry.kept = not is_letter_exact(v.kind) or (v.kind == TIMESTAMP and v.number % 1000 != 0)
        if not entry.kept and is_same_name:
            return GOOD
        if not is_plain_name(key.at, key.n) or v.kind == DOUBLE or v.kind == FLOAT:
            return ODD
        self.tell(key, v, before, after)
        if entry.letter == c"S" and v.kind == UUID:
            say(&self.losses.after.data, b'"urn:uuid:')
            put_uuid(&self.losses.after.data, v.at)
            octet(&self.losses.after.data, 34)
        elif entry.letter == c"S" and v.kind == ULONG:
            octet(&self.losses.after.data, 34)
            digits(&self.losses.after.data, <uint64_t> v.number)
            octet(&self.losses.after.data, 34)
        elif v.kind == TIMESTAMP:
            digits(&self.losses.after.data, <uint64_t> (v.number // 1000))
        else:
            json_value(&self.losses.after.data, v)
        end_loss(&self.losses, b"retyped", True, OTHER_NAME if is_annotation else NO_TYPE)
        entry.kept = True
        return GOOD

    cdef int tell(self, Value* key, Value* v, const char* before, const char* after) except -1:
        """Begin to tell of a property or an annotation."""
        cdef Out* o = &self.losses.path.data
        say(o, before)
        put(o, key.at, key.n)
        say(o, after)
        return json_value(&self.losses.before.data, v)

    cdef int read_annotations(self, Span* section) except -1:
        cdef cursor p = section.at + 3
        cdef cursor stop = section.at + section.n
        cdef Py_ssize_t count = 0, i
        cdef Value key, value
        cdef Entry* entry
        cdef Made* made = &self.made
        cdef int last = 0, place
        cdef bint is_exact = True
        open_compound(&p, stop, 0xC1, &count, &stop)  # which `delivery` has seen
        count >>= 1
        if not count:
            return ODD
        if made.is_delivered:
            count -= 2
        for i in range(count):
            read_value(&p, stop, &key)
            read_value(&p, stop, &value)
            if key.n > 255 or bytes_found(key.at, key.n) or not begins(key.at, key.n, b"x-"):
                return ODD
            if begins(key.at, key.n, ROW_PREFIX):
                place = self.annotated(&key, &value)
                if place <= last or made.entries.count > made.split:
                    return ODD
                last = place
                made.is_certain = False
                continue
            if made.entries.count == MOST or self.is_odd_name(&key):
                return ODD
            entry = &made.entries.at[made.entries.count]
            entry.value = value
            if self.header_of(entry, &key, b"message-annotations['", b"']") == ODD:
                return ODD
            made.entries.count -= 1
            if is_known(&made.entries, made.split, entry.name, entry.size):
                return ODD
            made.entries.count += 1
            is_exact = is_exact and not entry.kept
        if not is_exact:
            made.annotations = section[0]
        return GOOD

    cdef int annotated(self, Value* key, Value* v) except -1:
        """Read an annotation that holds a property; return its number, 0 for an odd one."""
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
            else:
                return 0
            if v.kind != STRING or not is_short(v.at, v.n) or is_text(v.at, v.n, MARKER):
                return 0
        if self.made.there[target]:
            return 0
        self.made.there[target] = True
        self.made.given[target] = v[0]
        if target == CLUSTER_ID or target == DELIVERY_MODE:
            self.tell(key, v, b"message-annotations['", b"']")
            json_value(&self.losses.after.data, v)
            end_loss(
                &self.losses, b"dropped", True, NO_CLUSTER if target == CLUSTER_ID else NO_MODE
            )
        return target + 1

    cdef int tell_order(self) except -1:
        """Tell of which section a broker that sorts the headers loses the order."""
        cdef Made* made = &self.made
        self.tell_order_of(0, made.split, b"application-properties")
        return self.tell_order_of(made.split, made.entries.count, b"message-annotations")

    cdef int tell_order_of(self, Py_ssize_t first, Py_ssize_t end, const char* path) except -1:
        cdef Entries* entries = &self.made.entries
        cdef Py_ssize_t i
        for i in range(first + 1, end):
            if precedes(&entries.at[i], &entries.at[i - 1], False):
                say(&self.losses.path.data, path)
                say(&self.losses.before.data, b'"in their order"')
                say(&self.losses.after.data, b'"by their names"')
                return end_loss(&self.losses, b"sorted", True, BY_NAME)
        return 0

    cdef bint is_odd_name(self, Value* key) except -1:
        """Whether an annotation, or the header that it would become, means something to brokers."""
        cdef bytes name
        cdef cursor p = key.at
        cdef Py_ssize_t n = key.n
        if begins(p, n, b"x-opt-x-"):
            p += 6
            n -= 6
        for name in self.odd_names:
            if is_same(p, n, <cursor> PyBytes_AS_STRING(name), PyBytes_GET_SIZE(name)):
                return True
            if is_same(key.at, key.n, <cursor> PyBytes_AS_STRING(name), PyBytes_GET_SIZE(name)):
                return True
        return begins(p, n, b"x-basic-") or begins(key.at, key.n, b"x-basic-")
