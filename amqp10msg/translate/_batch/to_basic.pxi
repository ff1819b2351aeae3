# From encoded 1.0 messages to content headers of 0-9-1: one engine for every profile.
#
# What differs between the profiles stands in `translate.to_basic_rules`: a row for each field of
# the properties, and what the profile does with sections. Single values of types that are not
# read here go to the plain rules, whose header is taken over; a message that is none of this is an
# odd one.

cdef const char* SECTIONS_ARE_PAYLOAD = b"the encoded sections are the payload"
cdef const char* BROKERS_OWN = b"the broker's own annotation"
cdef const char* ADDED_AT_DELIVERY = b"RabbitMQ added it at delivery"
cdef const char* NUMBER_IS_TEXT = b"the number becomes text"
cdef const char* NOT_UNSIGNED = b"no unsigned 64-bit number"
cdef const char* SYMBOL_IS_TEXT = b"a symbol becomes a long string"
cdef const char* BINARY_IS_TEXT = b"a binary becomes a long string"
cdef const char* WHOLE_SECONDS = b"0-9-1 has whole seconds"
cdef const char* SINCE_1970 = b"0-9-1 has whole seconds since 1970"
cdef const char* IS_APP_ID = b"it becomes the app-id"
cdef const char* IS_QUEUE_NAME = b"an address of a queue becomes its name"
cdef const char* IS_HEADER = b"the encoded section becomes a header"
cdef const char* FILTER_VALUE = b"x-stream-filter-value"
cdef const char* EXCHANGE = b"x-exchange"
cdef const char* ROUTING_KEY = b"x-routing-key"
cdef const char* BASIC_TYPE = b"x-basic-type"
cdef const char* QUEUES = b"/queues/"
cdef const char* OLD_QUEUES = b"/queue/"
cdef const char* IS_DATA = b"binary"

# How the names of annotations begin that may be the broker's own: `_OWN_ANNOTATIONS` there.
cdef text[7] OWN_ANNOTATIONS = [
    b"x-cc", b"x-basic-", b"x-opt-deaths", b"x-opt-rabbitmq-received-time", b"x-routing-key",
    b"x-exchange", b"x-death",
]

cdef enum:
    SAVED = 3
    FACTS = 16
    # A value that the plain rules made: the bytes of a field after its letter.
    ENCODED = 100
    # In a content header: class, weight and the size of the body.
    BEFORE_PROPERTIES = 12
    # A content header of RabbitMQ's usual frames has room for so many bytes.
    MOST_CONTENT = 131072 - 8
    # The last moment, in seconds, whose milliseconds are a number of 64 bits.
    LATEST = 9223372036854775

# The sections that a profile of RabbitMQ 3.10 makes headers of, in their order.
cdef text[SAVED] SECTION_NAMES = [b"message-annotations", b"properties", b"application-properties"]
cdef text[SAVED] SAVED_NAMES = [
    b"x-amqp-1.0-message-annotations", b"x-amqp-1.0-properties", b"x-amqp-1.0-app-properties",
]

# What becomes of the sections, in the words of `translate.to_basic_rules`.
cdef enum:
    LOSSLESS = 0  # what 0-9-1 cannot say stands in a residual
    CONVERTED = 1  # as RabbitMQ 4 does
    KEPT_WHOLE = 2  # as RabbitMQ 3.10 does: sections become headers
WAYS = ("lossless", "converted", "kept whole")

# What becomes of a field of the properties, likewise.
cdef enum:
    DROPPED_FIELD = 0  # lost
    CARRIED_FIELD  # in the residual
    TEXT_FIELD  # at most 255 bytes
    SHORT_TEXT_FIELD  # a short string that fits an address
    ID_FIELD  # as the correspondence has ids
    BROKER_ID_FIELD  # UUIDs and numbers become text
    USER_FIELD  # a short string
    LOGIN_FIELD  # the name of the connection's user
    ADDRESS_FIELD  # of a queue, which becomes its name
    OLD_ADDRESS_FIELD  # likewise, as RabbitMQ 3.10 has them
    KNOWN_FIELD  # a symbol that the rules of 1.0 allow
    BYTES_FIELD  # whatever its type says
    SECONDS_FIELD  # and the rest in the residual
    WHOLE_SECONDS_FIELD  # and the rest is lost
    SAME_NUMBER_FIELD  # milliseconds are taken for seconds
    RENAMED_FIELD  # the group-id becomes the app-id
FIELD_FORMS = (
    "dropped", "carried", "text", "short text", "id", "broker id", "user", "login", "address",
    "old address", "known", "bytes", "seconds", "whole seconds", "same number", "renamed",
)

# A row: the field and its type, the property or -1, and how one becomes the other.
cdef struct FieldRow:
    int index, kind, target, form


# An annotation that a delivery adds, and its type: an array is `ENCODED`.
cdef struct Fact:
    Span name
    int kind


cdef inline bint is_own(Value* key) noexcept nogil:
    cdef int i
    for i in range(7):
        if begins(key.at, key.n, OWN_ANNOTATIONS[i]):
            return True
    return False


cdef int put_quoted(Out* o, const char* name) except -1:
    """Write a name within quotation marks."""
    octet(o, 34)
    say(o, name)
    return octet(o, 34)


cdef inline int read_scalar(cursor* place, cursor stop, Value* v) noexcept nogil:
    """Read a value as `read_value`, and a boolean in its long form; pass over neither if odd."""
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


cdef Py_ssize_t size_of(cursor p, cursor stop) noexcept nogil:
    """Return the size of an encoded value that is not described, 0 where it is cut off."""
    cdef int code, width
    cdef Py_ssize_t head, n
    if p >= stop:
        return 0
    code = p[0]
    width = code >> 4
    if width < 4:
        return 0
    if width < 10:
        n = 1 + (0 if width == 4 else 1 << (width - 5))
    else:
        head = 5 if width & 1 else 2
        if stop - p < head:
            return 0
        n = head + (p[1] if head == 2 else <Py_ssize_t> unsigned_at(p + 1, 4))
    return n if n <= stop - p else 0


cdef int end_told(Losses* to, tuple loss) except -1:
    """Add a loss that the plain rules told: its members, texts but for the last."""
    cdef bytes member
    if loss[0] is not None:
        member = loss[0]
        put(&to.path.data, PyBytes_AS_STRING(member), PyBytes_GET_SIZE(member))
    if loss[2] is not None:
        member = loss[2]
        put(&to.before.data, PyBytes_AS_STRING(member), PyBytes_GET_SIZE(member))
    if loss[3] is not None:
        member = loss[3]
        put(&to.after.data, PyBytes_AS_STRING(member), PyBytes_GET_SIZE(member))
    end_loss(to, PyBytes_AS_STRING(loss[1]), loss[3] is not None, PyBytes_AS_STRING(loss[4]))
    to.before.there.at[to.before.there.size - 1] = loss[2] is not None
    to.recoverable.at[to.recoverable.size - 1] = <bint> loss[5]
    return 0


@cython.final
cdef class ToBasic:
    """Translates messages of 1.0 to content headers and payloads as a profile says.

    Args:
        profile: what `translate.to_basic_rules.rules_of` returns.
        plain: what the plain rules say of single values: `translate.to_basic_rules.PlainValues`.
        user: the name that a user-id must be; None to leave messages with one to the plain rules.
    """

    cdef object plain, is_symbol, rewritten
    cdef bytes user
    cdef list odd_names
    cdef list held  # what the plain rules made for the message, whose bytes entries refer to
    # The profile.
    cdef int way
    cdef bint durable_by_default, stream
    cdef text ulong_prefix  # of an id that is a number
    cdef bytes prefix
    cdef FieldRow[FIELDS] early, late  # what is told before the application properties, and after
    cdef int early_count, late_count
    cdef Fact[FACTS] facts
    cdef int fact_count
    cdef object profile  # whose names are pointed to
    # The message.
    cdef Made made
    cdef Span[MOST] keys
    cdef uint8_t[MOST] order
    cdef Py_ssize_t size  # in bytes
    cdef bint puts_first, has_facts, is_wider, has_compounds
    cdef bint is_busy  # with one message
    cdef Out anew  # the annotations without what a delivery added
    cdef Py_ssize_t anew_count
    # What is made of the batch.
    cdef Losses losses
    cdef Texts header, payload, exchange, routing_key
    cdef Out there, redelivered, table, content

    def __cinit__(self, profile, plain, bytes user or None):
        self.plain = plain
        self.is_symbol = plain.is_symbol
        self.rewritten = plain.rewritten
        self.user = user
        self.odd_names = profile.odd_names
        self.held = []
        self.way = WAYS.index(profile.way)
        self.durable_by_default = profile.durable_by_default
        self.stream = profile.stream
        self.prefix = profile.number_prefix
        self.ulong_prefix = PyBytes_AS_STRING(self.prefix)
        self.early_count = self.fill(self.early, profile.early)
        self.late_count = self.fill(self.late, profile.late)
        self.profile = profile
        if len(profile.facts) > FACTS:
            raise ValueError("more annotations than there is room for")
        for name, kind in profile.facts:
            self.facts[self.fact_count].name.at = <cursor> PyBytes_AS_STRING(name)
            self.facts[self.fact_count].name.n = PyBytes_GET_SIZE(name)
            self.facts[self.fact_count].kind = (
                LONG if kind == "long" else STRING if kind == "string" else ENCODED
            )
            self.fact_count += 1
        self.begin()

    cdef int fill(self, FieldRow* to, rows) except -1:
        """Take over rows of the profile; return how many."""
        cdef int count = 0
        if len(rows) > FIELDS:
            raise ValueError("more rows than fields")
        for index, target, form in rows:
            to[count].index = index
            to[count].kind = KINDS[index]
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

    def one(self, bytes wire not None):
        """Translate one message; None where it is odd.

        Returns:
            The message, how many losses there are, and whether all of them are recoverable.
        """
        cdef Span body
        cdef BasicReader reader
        cdef Made* made = &self.made
        cdef Py_ssize_t i
        cdef bint are_recoverable = True
        if self.is_busy:  # in another thread
            return None
        self.is_busy = True
        try:
            if self.translate(
                <cursor> PyBytes_AS_STRING(wire), PyBytes_GET_SIZE(wire), &body
            ) == ODD:
                return None
            for i in range(self.losses.count):
                are_recoverable = are_recoverable and self.losses.recoverable.at[i]
            reader = BasicReader(taken(&self.header.data), "rabbitmq", UNLIMITED)
            reader.pos = BEFORE_PROPERTIES
            basic = BASIC_MESSAGE.build([
                reader.properties(BASIC_LAYOUT),
                PyBytes_FromStringAndSize(<const char*> body.at, body.n),
                self.text_of(&made.exchange),
                self.text_of(&made.routing_key),
                bool(made.redelivered),
            ])
            return basic, self.losses.count, bool(are_recoverable)
        finally:
            if self.header.data.room > MOST_KEPT:
                free_out(&self.header.data)
            self.begin()
            self.is_busy = False

    cdef str text_of(self, Value* v):
        if not self.made.is_delivered or v.n == 0:
            return ""
        return PyBytes_FromStringAndSize(<const char*> v.at, v.n).decode("utf-8")

    cdef int blank(self) except -1:
        """End a row that has no message."""
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
        """Write the content header and the losses of a message; where it is odd, nothing."""
        cdef Mark mark = mark_of(&self.losses)
        cdef Py_ssize_t size = self.header.data.size
        if self.read(p, n, body) == ODD or self.write(body.n) == ODD:
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
        for i in range(SAVED):
            sections[i].at = NULL
            if skip_section(&p, stop, MESSAGE_ANNOTATIONS_CODE + i, &sections[i]) == ODD:
                return ODD
        if self.read_body(p, stop, body) == ODD:
            return ODD
        if self.way == LOSSLESS:
            return self.read_lossless(&header, sections, body)
        if made.is_marked and n > CERTAIN:  # the limits of decoding count its values
            return ODD
        if self.way == CONVERTED:
            return self.read_converted(&header, sections)
        return self.read_kept(&header, sections, p)

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
        self.puts_first = self.has_facts = self.has_compounds = False
        if self.held:
            self.held.clear()
        return 0

    cdef int read_body(self, cursor p, cursor stop, Span* body) except -1:
        """Read the one section that the body is: its data, or all of it as it is encoded."""
        cdef Made* made = &self.made
        cdef Value data
        made.is_marked = is_body(p, stop)
        if not made.is_marked and not is_section(p, stop, DATA_CODE):
            if self.size > CERTAIN or not (
                is_section(p, stop, AMQP_SEQUENCE_CODE) or is_section(p, stop, AMQP_VALUE_CODE)
            ):
                return ODD
            octets = PyBytes_FromStringAndSize(<const char*> p, stop - p)
            made.is_marked = self.plain.is_body(octets)
        if made.is_marked:
            body.at = p
            body.n = stop - p
            self.set_type(MARKER)
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

    cdef int set_type(self, const char* name) except -1:
        cdef Made* made = &self.made
        made.there[TYPE] = True
        made.given[TYPE].kind = STRING
        made.given[TYPE].at = <cursor> name
        made.given[TYPE].n = <Py_ssize_t> strlen(name)
        return 0

    cdef int read_header(self, Span* section, Value* values, Py_ssize_t* count) except -1:
        """Read the fields of a header, those that are not there as null."""
        cdef cursor p = section.at + 3
        cdef cursor stop = section.at + section.n
        cdef cursor end = NULL
        cdef Py_ssize_t i
        cdef int kind
        count[0] = 0
        for i in range(5):
            values[i].kind = NULL_KIND
        if section.at == NULL or section.n == 4:  # an empty list
            return GOOD
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
        """Read the fields of the properties, those that are not there as null."""
        cdef cursor p = section.at + 3
        cdef cursor stop = section.at + section.n
        cdef Py_ssize_t i
        cdef Value* v
        count[0] = 0
        for i in range(FIELDS):
            fields[i].kind = NULL_KIND
        if section.at == NULL or section.n == 4:  # an empty list
            return GOOD
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
        """Set properties as rows say."""
        cdef int i
        for i in range(count):
            if fields[rows[i].index].kind != NULL_KIND:
                if self.set_field(&rows[i], &fields[rows[i].index]) == ODD:
                    return ODD
        return GOOD

    cdef int set_field(self, FieldRow* row, Value* v) except -1:
        """Set the property that a field becomes, and tell what it loses."""
        cdef Made* made = &self.made
        cdef Losses* losses = &self.losses
        cdef int form = row.form
        if form == DROPPED_FIELD:
            self.tell_field(row, v)
            return end_final_loss(losses, b"dropped", False, NO_PROPERTY) or GOOD
        if form == CARRIED_FIELD:
            self.keep_field(row, v)
            return end_loss(losses, b"carried", False, NO_PROPERTY) or GOOD
        if form == SECONDS_FIELD or form == WHOLE_SECONDS_FIELD:
            if v.number < 0:
                return ODD
            if v.number % 1000:
                if form == SECONDS_FIELD:
                    self.keep_field(row, v)
                else:
                    self.tell_field(row, v)
                digits(&losses.after.data, <uint64_t> (v.number // 1000))
                if form == SECONDS_FIELD:
                    end_loss(losses, b"retyped", True, NOT_EXACT)
                else:
                    end_final_loss(losses, b"truncated", True, SINCE_1970)
        elif form == SAME_NUMBER_FIELD:
            if not 0 <= v.number <= LATEST:
                return ODD
            v.number *= 1000
        elif form == KNOWN_FIELD:
            if not is_short(v.at, v.n):
                return ODD
            # Without data the field says nothing.
            if made.is_marked or not self.is_known_symbol(row.target, v.at, v.n):
                self.keep_inexact(row, v)
        elif v.kind == ULONG:
            if form == BYTES_FIELD:  # which is not text
                return ODD
            if form == BROKER_ID_FIELD:
                self.tell_field(row, v)
                octet(&losses.after.data, 34)
                digits(&losses.after.data, <uint64_t> v.number)
                octet(&losses.after.data, 34)
                end_final_loss(losses, b"retyped", True, NUMBER_IS_TEXT)
        elif v.kind == UUID:
            if form == BYTES_FIELD:
                v.kind = BINARY
        elif form == ID_FIELD or form == SHORT_TEXT_FIELD or form == USER_FIELD:
            if not is_short(v.at, v.n):
                return ODD
            if form == ID_FIELD and (begins(v.at, v.n, b"urn:") or begins(v.at, v.n, b"ID:")):
                if not begins(v.at, v.n, b"urn:uuid:") or not is_uuid(v.at + 9, v.n - 9):
                    return ODD
                self.keep_inexact(row, v)
            if form == SHORT_TEXT_FIELD and v.n > LONGEST_REPLY:
                return ODD
            if form == USER_FIELD and v.n > LONGEST_USER and bytes_found(v.at, v.n) & HIGH:
                return ODD
        elif form == LOGIN_FIELD:
            if self.user is None or not is_same(
                v.at, v.n, <cursor> PyBytes_AS_STRING(self.user), PyBytes_GET_SIZE(self.user)
            ):
                return ODD
        elif form == OLD_ADDRESS_FIELD:
            if begins(v.at, v.n, OLD_QUEUES):
                v.at += strlen(OLD_QUEUES)
                v.n -= <Py_ssize_t> strlen(OLD_QUEUES)
            if v.n > 255:
                return ODD
        else:
            if v.n > 255:
                return ODD
            if form == RENAMED_FIELD:
                self.tell_field(row, v)
                json_value(&losses.after.data, v)
                end_loss(losses, b"renamed", True, IS_APP_ID)
            elif form == ADDRESS_FIELD and begins(v.at, v.n, QUEUES):
                if memchr(v.at, c"%", <size_t> v.n) != NULL:
                    return ODD
                self.tell_field(row, v)
                v.at += strlen(QUEUES)
                v.n -= <Py_ssize_t> strlen(QUEUES)
                json_value(&losses.after.data, v)
                end_loss(losses, b"renamed", True, IS_QUEUE_NAME)
        made.there[row.target] = True
        made.given[row.target] = v[0]
        return GOOD

    cdef bint is_known_symbol(self, int target, cursor p, Py_ssize_t n) except -1:
        """Whether the rules of 1.0 allow this content-type or content-encoding."""
        return self.is_symbol(target, PyBytes_FromStringAndSize(<const char*> p, n))

    cdef int tell_field(self, FieldRow* row, Value* v) except -1:
        """Begin to tell of a field."""
        say(&self.losses.path.data, b"properties.")
        say(&self.losses.path.data, NAMES[row.index])
        return json_value(&self.losses.before.data, v)

    cdef int keep_field(self, FieldRow* row, Value* v) except -1:
        """Keep a field in the residual, and begin to tell of it."""
        self.made.keeps_field = True
        self.made.keeps[row.index] = True
        self.made.fields[row.index].at = v.start
        self.made.fields[row.index].n = v.at + v.n - v.start
        return self.tell_field(row, v)

    cdef int tell_key(self, Value* key) except -1:
        """Write where an annotation or an application property stands."""
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
        """Begin to tell of an annotation or an application property."""
        self.tell_key(key)
        return json_value(&self.losses.before.data, v)

    cdef int ask_plain(self, Entry* entry, Value* key, cursor* place, cursor stop) except -1:
        """Have the plain rules make a header of a value that is not read here, and pass over it.

        The entry has no name where the value is left out; it is `kept` where it is not exact.
        """
        cdef Py_ssize_t n = size_of(place[0], stop)
        cdef bytes name, field, wire
        if n == 0 or self.size > CERTAIN:
            return ODD
        said = self.plain.header(
            PyBytes_FromStringAndSize(<const char*> key.at, key.n),
            PyBytes_FromStringAndSize(<const char*> place[0], n),
            key.kind == SYMBOL,
        )
        if said is None:
            return ODD
        name, field, wire, is_exact, losses = said
        self.held.append(said)
        self.has_compounds = True
        place[0] += n
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

    cdef bint is_again(self, Py_ssize_t count) noexcept:
        """Whether the last of so many keys is one of the others."""
        cdef Py_ssize_t i
        cdef Span* last = &self.keys[count - 1]
        for i in range(count - 1):
            if is_same(self.keys[i].at, self.keys[i].n, last.at, last.n):
                return True
        return False

    cdef int keep_inexact(self, FieldRow* row, Value* v) except -1:
        """Keep a text that comes back as another value, and tell of it."""
        self.keep_field(row, v)
        json_value(&self.losses.after.data, v)
        return end_loss(&self.losses, b"retyped", True, NOT_EXACT)

    # The lossless profile.

    cdef int read_lossless(self, Span* header, Span* sections, Span* body) except -1:
        cdef Made* made = &self.made
        cdef Value[FIELDS] fields
        cdef Py_ssize_t count = 0
        cdef Span* annotations = &sections[0]
        made.is_certain = self.size <= CERTAIN
        if self.size - body.n > ROOMY:
            return ODD
        if annotations.at != NULL and self.find_delivery(annotations) == ODD:
            return ODD
        if made.is_marked and self.write_anew(body) == ODD:
            return ODD
        if header.at != NULL:
            if self.read_lossless_header(header) == ODD:
                return ODD
        elif made.is_delivered:
            return ODD
        if sections[1].at != NULL:
            if self.read_fields(&sections[1], fields, &count) == ODD:
                return ODD
            if sections[1].n > 4 and count == 0:
                return ODD
            if self.set_fields(fields, self.early, self.early_count) == ODD:
                return ODD
            self.keep_padding(&sections[1], fields, count)
        self.is_wider = False
        if sections[2].at != NULL and self.read_application(&sections[2]) == ODD:
            return ODD
        if sections[2].at != NULL and (self.is_wider or is_wide(&sections[2])):
            made.application = sections[2]
        made.split = made.entries.count
        if annotations.at != NULL and self.read_annotations(annotations) == ODD:
            return ODD
        # What is in another encoding is kept whole.
        if header.at != NULL and is_wide(header) and not self.has_facts:
            made.header = header[0]
        if sections[1].at != NULL and is_wide(&sections[1]):
            made.properties = sections[1]
        for count in range(made.entries.count):
            self.order[count] = <uint8_t> count
        return GOOD

    cdef int write_anew(self, Span* body) except -1:
        """Tell where RabbitMQ encodes a body of sections again; odd where it cannot."""
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

    cdef int find_delivery(self, Span* section) except -1:
        """Find the two annotations of a delivery, and tell of what else RabbitMQ added to it."""
        cdef cursor p = section.at + 3
        cdef cursor stop = section.at + section.n
        cdef cursor end = NULL
        cdef Py_ssize_t count = 0, i, rest = 0, exchange = -1, routing_key = -1, n
        cdef Value key, value
        cdef Made* made = &self.made
        if open_compound(&p, stop, 0xC1, &count, &end) == ODD or end != stop:
            return ODD
        if count & 1 or not 0 < count <= 2 * MOST:
            return ODD
        for i in range(count >> 1):
            if read_value(&p, stop, &key) == ODD or key.kind != SYMBOL:
                return ODD
            if read_scalar(&p, stop, &value) == ODD:
                n = size_of(p, stop)
                if n == 0:
                    return ODD
                value.kind = ENCODED
                value.at = p
                value.n = n
                p += n
            self.keys[i].at = key.at
            self.keys[i].n = key.n
            if self.is_again(i + 1):
                return ODD
            if is_text(key.at, key.n, EXCHANGE):
                if value.kind != STRING or not is_short(value.at, value.n):
                    return ODD
                exchange = rest
                made.exchange = value
            elif is_text(key.at, key.n, ROUTING_KEY):
                if value.kind != STRING or not is_short(value.at, value.n):
                    return ODD
                routing_key = rest
                made.routing_key = value
            elif self.is_fact(&key, &value):
                self.has_facts = True
                continue
            rest += 1
        if p != stop:
            return ODD
        if exchange < 0 and routing_key < 0:
            return ODD if self.has_facts else GOOD
        if exchange < 0 or routing_key < 0 or not (made.exchange.n or made.routing_key.n):
            return ODD
        made.is_delivered = True
        self.puts_first = routing_key == 0 and exchange == 1
        if not self.puts_first and (exchange != rest - 2 or routing_key != rest - 1):
            return ODD
        return self.tell_facts(section) if self.has_facts else GOOD

    cdef bint is_fact(self, Value* key, Value* v) noexcept:
        """Whether RabbitMQ adds an annotation of this name and type at delivery."""
        cdef int i
        for i in range(self.fact_count):
            if is_same(key.at, key.n, self.facts[i].name.at, self.facts[i].name.n):
                if self.facts[i].kind == ENCODED:
                    return v.kind == ENCODED and v.at[0] & 0xEF == 0xE0
                return v.kind == self.facts[i].kind
        return False

    cdef int tell_facts(self, Span* section) except -1:
        cdef cursor p = section.at + 3
        cdef cursor stop = section.at + section.n
        cdef Py_ssize_t count = 0, i, n
        cdef Value key, value
        cdef bytes told
        open_compound(&p, stop, 0xC1, &count, &stop)
        for i in range(count >> 1):
            read_value(&p, stop, &key)
            if read_scalar(&p, stop, &value) == ODD:
                n = size_of(p, stop)
                value.kind = ENCODED
                value.at = p
                value.n = n
                p += n
            if not self.is_fact(&key, &value):
                continue
            self.tell_key(&key)
            if value.kind == ENCODED:
                told = self.plain.told(PyBytes_FromStringAndSize(<const char*> value.at, value.n))
                if told is None:
                    return ODD
                put(&self.losses.before.data, PyBytes_AS_STRING(told), PyBytes_GET_SIZE(told))
            else:
                json_value(&self.losses.before.data, &value)
            end_final_loss(&self.losses, b"dropped", False, ADDED_AT_DELIVERY)
        return GOOD

    cdef int read_lossless_header(self, Span* section) except -1:
        cdef Py_ssize_t count = 0
        cdef Value[5] values
        cdef Made* made = &self.made
        cdef bint durable, first, is_exact = True
        cdef int64_t delivered_before
        if self.read_header(section, values, &count) == ODD:
            return ODD
        if section.n > 4 and count == 0:
            return ODD
        durable = values[0].kind == BOOLEAN and values[0].number != 0
        first = values[3].kind == BOOLEAN and values[3].number != 0
        delivered_before = values[4].number if values[4].kind == UINT else 0
        if self.has_facts:
            # It is taken for one with all fields, and without a count.
            if delivered_before:
                say(&self.losses.path.data, b"header.delivery-count")
                digits(&self.losses.before.data, <uint64_t> delivered_before)
                end_final_loss(&self.losses, b"dropped", False, ADDED_AT_DELIVERY)
            delivered_before = 0
            if values[1].kind == UBYTE and values[1].number == 4:
                values[1].kind = NULL_KIND
        elif made.is_delivered:
            # A delivered message says all fields.
            if count != 5 or values[0].kind != BOOLEAN or values[3].kind != BOOLEAN:
                return ODD
            if values[4].kind != UINT or values[4].number != 0:
                return ODD
        else:
            # What need not be said is kept.
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
        if not is_exact or count == 0:
            made.header = section[0]
        return GOOD

    cdef int keep_padding(self, Span* section, Value* fields, Py_ssize_t count) except -1:
        """Keep what properties say although they need not: that they are there, and nulls."""
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
            if read_value(&p, stop, &key) == ODD or read_scalar(&p, stop, &entry.value) == ODD:
                return ODD
            self.is_wider = self.is_wider or entry.value.start[0] == 0x56
            if (
                key.kind != STRING or key.n > 255 or bytes_found(key.at, key.n)
                or begins(key.at, key.n, b"x-") or is_route(key.at, key.n)
                or is_known(&self.made.entries, 0, key.at, key.n)
            ):
                return ODD
            if self.header_of(entry, &key) == ODD:
                return ODD
            self.made.entries.count += 1
            if entry.kept:
                self.made.keeps_entry = True
        return GOOD if p == stop else ODD

    cdef int header_of(self, Entry* entry, Value* key) except -1:
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
        if v.kind == BINARY and is_utf8(v.at, v.n):
            if not is_plain_name(key.at, key.n):
                return ODD
            self.tell_entry(key, v)
            json_value(&self.losses.after.data, v)
            end_loss(&self.losses, b"retyped", True, IN_STREAM)
        entry.kept = not is_letter_exact(v.kind) or (v.kind == TIMESTAMP and v.number % 1000 != 0)
        if not entry.kept and is_same_name:
            return GOOD
        if not is_plain_name(key.at, key.n) or v.kind == DOUBLE or v.kind == FLOAT:
            return ODD
        self.tell_entry(key, v)
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

    cdef int read_annotations(self, Span* section) except -1:
        cdef cursor p = section.at + 3
        cdef cursor stop = section.at + section.n
        cdef Py_ssize_t count = 0, i
        cdef Value key
        cdef Entry* entry
        cdef Made* made = &self.made
        cdef int last = 0, place
        cdef bint is_exact = True, is_known_value, is_odd_name, is_wider = is_wide(section)
        self.anew.size = self.anew_count = 0
        open_compound(&p, stop, 0xC1, &count, &stop)  # which `find_delivery` has seen
        for i in range(count >> 1):
            if made.entries.count == MOST:
                return ODD
            entry = &made.entries.at[made.entries.count]
            read_value(&p, stop, &key)
            if key.n > 255 or bytes_found(key.at, key.n) or not begins(key.at, key.n, b"x-"):
                return ODD
            is_known_value = read_scalar(&p, stop, &entry.value) == GOOD
            if made.is_delivered and (
                is_text(key.at, key.n, EXCHANGE) or is_text(key.at, key.n, ROUTING_KEY)
            ):
                self.put_anew(&key, &entry.value)
                continue
            if self.has_facts:
                if not is_known_value:
                    entry.value.kind = ENCODED
                    entry.value.at = p
                if self.is_fact(&key, &entry.value):
                    if not is_known_value:
                        p += size_of(p, stop)
                    continue
            if begins(key.at, key.n, ROW_PREFIX):
                place = self.annotated(&key, &entry.value) if is_known_value else 0
                if place <= last or made.entries.count > made.split:
                    return ODD
                last = place
                made.is_certain = False
                self.put_anew(&key, &entry.value)
                continue
            is_odd_name = self.is_odd_name(&key)
            if is_odd_name and is_text(key.at, key.n, RESIDUAL):
                return ODD
            # The digits of a real number are told by the plain rules.
            if is_known_value and not is_odd_name and not (
                (entry.value.kind == DOUBLE or entry.value.kind == FLOAT)
                and not begins(key.at, key.n, b"x-opt-")
            ):
                is_wider = is_wider or entry.value.start[0] == 0x56
                if self.header_of(entry, &key) == ODD:
                    return ODD
            else:
                if is_known_value:
                    p = entry.value.start
                if self.ask_plain(entry, &key, &p, stop) == ODD:
                    return ODD
                if is_odd_name and entry.name != NULL:
                    return ODD
                is_wider = is_wider or not is_same(
                    p - entry.value.number, entry.value.number,
                    entry.value.start, entry.value.number,
                )
            self.put_anew(&key, &entry.value)
            is_exact = is_exact and not entry.kept
            if entry.name == NULL:
                continue
            if is_known(&made.entries, made.split, entry.name, entry.size):
                return ODD
            made.entries.count += 1
        if not is_exact or (is_wider and not self.has_facts):
            made.annotations = section[0]
            self.puts_first = False
            if self.has_facts:
                self.content.size = 0
                octet(&self.content, 0)
                octet(&self.content, 0x53)
                octet(&self.content, MESSAGE_ANNOTATIONS_CODE)
                put_compound(&self.content, 0xC1, self.anew_count, &self.anew)
                self.anew.size = 0
                put_out(&self.anew, &self.content)
                made.annotations.at = self.anew.at
                made.annotations.n = self.anew.size
        return GOOD

    cdef int put_anew(self, Value* key, Value* v) except -1:
        """Write an annotation as this library would, where some are left out."""
        if not self.has_facts:
            return 0
        self.anew_count += 2
        put_variable(&self.anew, 0xA3, key.at, key.n)
        if v.kind == ENCODED:
            return put(&self.anew, v.start, <Py_ssize_t> v.number)
        if v.kind == BOOLEAN:
            return octet(&self.anew, 0x41 if v.number else 0x42)
        return put(&self.anew, v.start, v.at + v.n - v.start)

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
            self.tell_entry(key, v)
            json_value(&self.losses.after.data, v)
            end_loss(
                &self.losses, b"dropped", True, NO_CLUSTER if target == CLUSTER_ID else NO_MODE
            )
        return target + 1

    cdef int tell_order(self) except -1:
        """Tell of which section a broker that sorts the headers loses the order."""
        cdef Entries* entries = &self.made.entries
        cdef Py_ssize_t last = 0, i
        cdef bint are_apart = True
        self.tell_order_of(0, self.made.split, b"application-properties")
        for i in range(1, self.made.split):
            if precedes(&entries.at[last], &entries.at[i], False):
                last = i
        # The last property after an annotation: they come back with a residual of their places.
        for i in range(self.made.split, entries.count if self.made.split else 0):
            are_apart = are_apart and precedes(&entries.at[last], &entries.at[i], False)
        if not are_apart:
            return self.tell_sorted(b"message-annotations")
        return self.tell_order_of(self.made.split, entries.count, b"message-annotations")

    cdef int tell_order_of(self, Py_ssize_t first, Py_ssize_t end, const char* path) except -1:
        cdef Entries* entries = &self.made.entries
        cdef Py_ssize_t i
        for i in range(first + 1, end):
            if precedes(&entries.at[i], &entries.at[i - 1], False):
                return self.tell_sorted(path)
        return 0

    cdef int tell_sorted(self, const char* path) except -1:
        say(&self.losses.path.data, path)
        say(&self.losses.before.data, b'"in their order"')
        say(&self.losses.after.data, b'"by their names"')
        return end_loss(&self.losses, b"sorted", True, BY_NAME)

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

    # The profiles of RabbitMQ.

    cdef int remember(self, Span* section) except -1:
        """Set what a broker remembers of the header section."""
        cdef Made* made = &self.made
        cdef Value[5] values
        cdef Py_ssize_t count = 0
        cdef bint durable = self.durable_by_default
        if self.read_header(section, values, &count) == ODD:
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

    cdef int read_converted(self, Span* header, Span* sections) except -1:
        """Read a message as RabbitMQ 4 does, in the order in which losses are told."""
        cdef Made* made = &self.made
        cdef Value[FIELDS] fields
        cdef Value type_
        cdef Py_ssize_t count = 0
        type_.kind = NULL_KIND
        if made.is_marked:
            say(&self.losses.path.data, b"body")
            say(&self.losses.before.data, b'"sections"')
            say(&self.losses.after.data, b'"bytes"')
            end_final_loss(&self.losses, b"retyped", True, SECTIONS_ARE_PAYLOAD)
        if self.remember(header) == ODD:
            return ODD
        if sections[0].at != NULL and self.read_headers(&sections[0], SYMBOL, &type_) == ODD:
            return ODD
        if self.read_fields(&sections[1], fields, &count) == ODD:
            return ODD
        if self.set_fields(fields, self.early, self.early_count) == ODD:
            return ODD
        if sections[2].at != NULL and self.read_headers(&sections[2], STRING, NULL) == ODD:
            return ODD
        sort(&made.entries, self.order, False)
        if not made.is_marked and type_.kind == STRING:
            made.there[TYPE] = True
            made.given[TYPE] = type_
        return self.set_fields(fields, self.late, self.late_count)

    cdef int read_headers(self, Span* section, int kind, Value* type_) except -1:
        """Make headers of annotations, among which the type may be, or of application properties.

        Args:
            section: the map.
            kind: of its keys.
            type_: where the type goes.
        """
        cdef cursor p = section.at + 3
        cdef cursor stop = section.at + section.n
        cdef cursor end = NULL
        cdef Py_ssize_t count = 0, i
        cdef Value key
        cdef Entry* entry
        cdef Entries* entries = &self.made.entries
        cdef bint is_simple
        if open_compound(&p, stop, 0xC1, &count, &end) == ODD or end != stop:
            return ODD
        if count & 1 or count > 2 * MOST:
            return ODD
        for i in range(count >> 1):
            if entries.count == MOST:
                return ODD
            entry = &entries.at[entries.count]
            if read_value(&p, stop, &key) == ODD or key.n > 255 or key.kind != kind:
                return ODD
            self.keys[i].at = key.at
            self.keys[i].n = key.n
            # A name that comes twice is left out, or makes a message that cannot be read.
            if self.is_again(i + 1):
                return ODD
            is_simple = read_scalar(&p, stop, &entry.value) == GOOD
            if kind == SYMBOL:
                if not begins(key.at, key.n, b"x-"):
                    return ODD
                if is_text(key.at, key.n, FILTER_VALUE) and not (
                    is_simple and entry.value.kind == STRING
                ):
                    return ODD  # which ends the session of who sends it to a stream
                if self.stream and is_simple and entry.value.kind == NULL_KIND:
                    return ODD  # likewise
                if is_own(&key):
                    if is_simple and entry.value.kind != STRING:
                        return ODD
                    if is_simple and is_text(key.at, key.n, BASIC_TYPE):
                        if entry.value.n > 255:
                            return ODD
                        type_[0] = entry.value
                        continue
                    if is_text(key.at, key.n, EXCHANGE) or is_text(key.at, key.n, ROUTING_KEY):
                        if not is_simple:
                            return ODD
                        self.tell_entry(&key, &entry.value)
                        end_final_loss(&self.losses, b"dropped", False, BROKERS_OWN)
                        continue
                    if is_simple or begins(key.at, key.n, b"x-basic-"):
                        return ODD
            if is_simple:
                if self.field_of(entry, &key) == ODD:
                    return ODD
            elif self.ask_plain(entry, &key, &p, stop) == ODD:
                return ODD
            elif entry.name == NULL:
                continue
            if is_known(entries, 0, entry.name, entry.size):
                return ODD
            entries.count += 1
        return GOOD if p == stop else ODD

    cdef int field_of(self, Entry* entry, Value* key) except -1:
        """Make a value a header; tell where it is not the same."""
        cdef Value* v = &entry.value
        cdef Losses* losses = &self.losses
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
        if key.kind == SYMBOL and not is_plain_name(key.at, key.n):
            return ODD
        self.tell_key(key)
        if kind == ULONG:
            json_value(&losses.before.data, v)
            signed_digits(&losses.after.data, v.number)
            return end_final_loss(losses, b"wrapped", True, NOT_UNSIGNED) or GOOD
        if kind == TIMESTAMP:
            json_value(&losses.before.data, v)
            digits(&losses.after.data, <uint64_t> (v.number // 1000))
            return end_final_loss(losses, b"truncated", True, WHOLE_SECONDS) or GOOD
        say(&losses.before.data, b'"symbol"' if kind == SYMBOL else b'"binary"')
        say(&losses.after.data, b'"S"')
        return end_final_loss(
            losses, b"retyped", True, SYMBOL_IS_TEXT if kind == SYMBOL else BINARY_IS_TEXT
        ) or GOOD

    cdef int read_kept(self, Span* header, Span* sections, cursor body) except -1:
        """Read a message as RabbitMQ 3.10 does, from a queue and from a stream alike."""
        cdef Made* made = &self.made
        cdef Value[FIELDS] fields
        cdef Py_ssize_t count = 0
        cdef Entry* entry
        cdef int i
        if not made.is_marked:
            self.set_type(IS_DATA)
        elif body[2] == AMQP_VALUE_CODE and (body[3] == 0x45 or body[3] & 0xEF == 0xC0):
            return ODD  # a list as the value is taken for the fields of a record
        if header.at != NULL:
            if self.remember(header) == ODD:
                return ODD
            made.there[DELIVERY_MODE] = True
        if sections[0].at != NULL and self.check_map(&sections[0], SYMBOL) == ODD:
            return ODD
        if self.read_fields(&sections[1], fields, &count) == ODD:
            return ODD
        if self.set_fields(fields, self.early, self.early_count) == ODD:
            return ODD
        if sections[2].at != NULL and self.check_map(&sections[2], STRING) == ODD:
            return ODD
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
            say(&self.losses.path.data, SECTION_NAMES[i])
            put_quoted(&self.losses.before.data, SECTION_NAMES[i])
            put_quoted(&self.losses.after.data, SAVED_NAMES[i])
            end_loss(&self.losses, b"carried", True, IS_HEADER)
        sort(&made.entries, self.order, False)
        return GOOD

    cdef int check_map(self, Span* section, int kind) except -1:
        """Look whether a section is a map whose values this version reads, with such keys."""
        cdef cursor p = section.at + 3
        cdef cursor stop = section.at + section.n
        cdef cursor end = NULL
        cdef Py_ssize_t count = 0, i
        cdef Value key, value
        cdef Entry entry
        if open_compound(&p, stop, 0xC1, &count, &end) == ODD or end != stop:
            return ODD
        if count & 1 or count > 2 * MOST:
            return ODD
        for i in range(count >> 1):
            if read_value(&p, stop, &key) == ODD or key.kind != kind:
                return ODD
            self.keys[i].at = key.at
            self.keys[i].n = key.n
            if self.is_again(i + 1):
                return ODD
            if read_scalar(&p, stop, &value) == ODD:
                if self.ask_plain(&entry, &key, &p, stop) == ODD:
                    return ODD
            elif self.stream and kind == SYMBOL and value.kind == NULL_KIND:
                return ODD  # which a stream does not hold
        return GOOD if p == stop else ODD

    # Writing.

    cdef bint keeps(self) noexcept:
        """Whether a residual is needed."""
        cdef Made* made = &self.made
        return (
            made.header.at != NULL or made.annotations.at != NULL
            or made.properties.at != NULL or made.application.at != NULL
            or made.keeps_field or made.keeps_entry or self.puts_first
        )

    cdef int write(self, Py_ssize_t body_size) except -1:
        """Write the content header."""
        cdef Made* made = &self.made
        cdef Out* o = &self.header.data
        cdef Value* v
        cdef Py_ssize_t i, k, start, begin = o.size
        cdef int flags = 0
        cdef bint keeps = self.way == LOSSLESS and self.keeps()
        # Otherwise the plain rules prove that it can be undone.
        if keeps and not made.is_certain:
            return ODD
        if not keeps and self.way == LOSSLESS:
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
        # What has no compounds fits since its sections do.
        return ODD if self.has_compounds and o.size - begin > MOST_CONTENT else GOOD

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
                (not is_ordered) + self.puts_first + (made.header.at != NULL)
                + (made.annotations.at != NULL) + (made.properties.at != NULL)
                + (made.application.at != NULL) + keeps_field + keeps_entry
            ),
        )
        if not is_ordered:
            cbor_head(content, 0, 2)
            cbor_head(content, 4, <uint64_t> entries.count)
            for i in range(entries.count):
                cbor_head(content, 0, places[i])
        if self.puts_first:
            cbor_head(content, 0, 4)
            cbor_head(content, 0, 1)
        put_kept_section(content, HEADER_CODE, &made.header)
        put_kept_section(content, MESSAGE_ANNOTATIONS_CODE, &made.annotations)
        put_kept_section(content, PROPERTIES_CODE, &made.properties)
        put_kept_section(content, APPLICATION_PROPERTIES_CODE, &made.application)
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


cdef int put_kept_section(Out* content, int code, Span* section) except -1:
    """Write a section that is kept whole, where there is one."""
    if section.at == NULL:
        return 0
    cbor_head(content, 0, <uint64_t> code)
    return cbor_bytes(content, section.at, section.n)


cdef int put_header(Out* o, Entry* entry) except -1:
    """Write name, letter and value of a header, which the plain rules may have made."""
    if entry.value.kind != ENCODED:
        return put_field(o, entry)
    octet(o, <int> entry.size)
    put(o, entry.name, entry.size)
    octet(o, entry.letter)
    return put(o, entry.value.at, entry.value.n)
