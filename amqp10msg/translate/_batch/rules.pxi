# C tables of the correspondence (`translate.table`), and the translated message of `ToBasic`.

cdef enum:
    PROPERTIES = 14
    FIELDS = 13
    # The number of sections that RabbitMQ 3.10 stores as headers, and the number of prefixes of the
    # annotations that belong to a broker.
    SAVED = 4
    OWN = 7
    KINDS_OF_VALUES = NO_KIND + 1
    # Size in bytes of class, weight and body size, the first fields of a content header.
    BEFORE_PROPERTIES = 12
    # Size in bytes. A longer user-id that is not ASCII can crash the broker.
    LONGEST_USER = 128

# The indexes of the properties of class basic, in the order of their flag bits, highest bit first.
cdef enum:
    CONTENT_TYPE = 0
    CONTENT_ENCODING = 1
    HEADERS = 2
    DELIVERY_MODE = 3
    PRIORITY = 4
    CORRELATION_ID = 5
    REPLY_TO = 6
    EXPIRATION = 7
    MESSAGE_ID = 8
    TIMESTAMP_AT = 9
    TYPE = 10
    USER_ID = 11
    APP_ID = 12
    CLUSTER_ID = 13

ctypedef const char* text

# The name and the usual type of each field in the properties section.
cdef text[FIELDS] NAMES
cdef int[FIELDS] KINDS = [
    STRING, BINARY, STRING, STRING, STRING, STRING, SYMBOL, SYMBOL, TIMESTAMP, TIMESTAMP, STRING,
    UINT, STRING,
]
# The sections that RabbitMQ 3.10 stores as headers, in order, and the names of the headers.
cdef text[SAVED] SECTION_NAMES, SAVED_NAMES
# Prefixes of the annotations that RabbitMQ 4 sets or interprets itself.
cdef text[OWN] OWN_ANNOTATIONS
cdef const char* RESIDUAL
# The property type that marks a payload of encoded body sections.
cdef const char* ENCODED_SECTIONS_TYPE_PROPERTY
cdef const char* ROW_PREFIX
# Prefixes of 0-9-1 ids that represent a binary or a ulong.
cdef const char* BINARY_ID
cdef const char* NUMBER_ID
# Sizes in bytes: the constants of `residual` and `table` with these names, and the maximum size of
# a content header.
cdef Py_ssize_t MAX_UNTRIED_MESSAGE_SIZE, MAX_SIZE_FITTING_FRAME
cdef Py_ssize_t MAX_CONTENT_HEADER, ALWAYS_SHORT_REPLY_TO
# The type letter for each kind of 1.0 value; 0 if no 0-9-1 field can hold values of the kind.
cdef char[KINDS_OF_VALUES] LETTERS_OF
cdef list KEPT_ALIVE = []  # the bytes objects to which C pointers of this module point


cdef const char* c_text(str given) except NULL:
    """Return a pointer to an encoded text, whose bytes `KEPT_ALIVE` keeps alive."""
    cdef bytes octets = given.encode()
    KEPT_ALIVE.append(octets)
    return PyBytes_AS_STRING(octets)


def _fill():
    """Copy the tables of the plain rules to C when the module is imported."""
    global RESIDUAL, ENCODED_SECTIONS_TYPE_PROPERTY, ROW_PREFIX, BINARY_ID, NUMBER_ID
    global MAX_UNTRIED_MESSAGE_SIZE, MAX_SIZE_FITTING_FRAME
    global MAX_CONTENT_HEADER, ALWAYS_SHORT_REPLY_TO
    RESIDUAL, ROW_PREFIX = c_text(residual.RESIDUAL_NAME), c_text(table.ANNOTATION_PREFIX)
    ENCODED_SECTIONS_TYPE_PROPERTY = c_text(table.ENCODED_SECTIONS_TYPE_PROPERTY)
    BINARY_ID, NUMBER_ID = c_text(table.BINARY_ID_PREFIX), c_text(table.ULONG_ID_PREFIX)
    MAX_UNTRIED_MESSAGE_SIZE = residual.MAX_UNTRIED_MESSAGE_SIZE
    MAX_SIZE_FITTING_FRAME = residual.MAX_SIZE_FITTING_FRAME
    MAX_CONTENT_HEADER = BEFORE_PROPERTIES + residual.MAX_PROPERTIES_SIZE
    ALWAYS_SHORT_REPLY_TO = table.ALWAYS_SHORT_REPLY_TO
    for row in FORMAT_CODES.values():
        LETTERS_OF[CODES[<int> row.code].kind] = ord(table.LETTER_BY_TYPE_NAME.get(row.type, "\0"))
    for i, name in enumerate(table.PROPERTY_FIELDS):
        NAMES[i] = c_text(name.replace("_", "-"))
    for i, (name, header) in enumerate(HEADER_BY_SAVED_SECTION.items()):
        SECTION_NAMES[i], SAVED_NAMES[i] = c_text(name), c_text(header)
    for i, name in enumerate(BROKER_ANNOTATION_PREFIXES):
        OWN_ANNOTATIONS[i] = c_text(name)
    if len(ENGINE_LOSSES) != LOSSES:
        raise ImportError("the compiled engine and the table of losses are from different versions")
    for i, rule in enumerate(ENGINE_LOSSES):
        LOSS_RULES[i].action = c_text(rule.action)
        LOSS_RULES[i].reason = c_text(rule.reason)
        LOSS_RULES[i].recoverable = rule.recoverable


_fill()

# The translated 0-9-1 message, and the content of its residual.
cdef struct Made:
    bint[PROPERTIES] there
    Value[PROPERTIES] given
    Entries entries
    Py_ssize_t split
    bint is_delivered, redelivered, is_certain, is_marked
    Value exchange, routing_key
    # The sections that the residual contains whole.
    Span header, annotations, properties, application
    # The single fields of the properties section that the residual contains.
    bint[FIELDS] keeps
    Span[FIELDS] fields
    # Whether the residual contains single fields, application properties, heads of data sections.
    bint keeps_field, keeps_entry, keeps_data_heads
    Py_ssize_t parts  # the number of body sections
    bint is_usual  # whether the values in the body sections have the smallest encodings
    Span delivery, footer  # the sections without a counterpart in 0-9-1


cdef bint has_exact_letter(int kind) noexcept nogil:
    """Whether a 0-9-1 field holds 1.0 values of this kind exactly (except some timestamps)."""
    return kind != ULONG and kind != SYMBOL and kind != UUID


cdef inline int letter_of(Value* v) noexcept nogil:
    """Return the type letter for a 1.0 value; 0 if no 0-9-1 field can hold the value."""
    if v.kind == ULONG:
        return c"l" if v.number >= 0 else c"S"
    return 0 if v.kind == TIMESTAMP and v.number < 0 else LETTERS_OF[v.kind]


cdef int put_header_repr(
    Out* o, bint durable, Value* priority, Value* ttl, bint first, int64_t count
) except -1:
    """Write the `repr` of a `Header` as JSON, with the fields that differ from their defaults."""
    put_cstring(o, b'"Header(')
    if durable:
        put_repr_argument(o, b"durable=True", -1)
    if priority.kind == UBYTE:
        put_repr_argument(o, b"priority=", priority.number)
    if ttl.kind == UINT:
        put_repr_argument(o, b"ttl=", ttl.number)
    if first:
        put_repr_argument(o, b"first_acquirer=True", -1)
    if count:
        put_repr_argument(o, b"delivery_count=", count)
    return put_cstring(o, b')"')


cdef int put_repr_argument(Out* o, const char* text, int64_t number) except -1:
    """Write an argument of a `repr`: a text, and a number unless it is negative."""
    if o.at[o.size - 1] != c"(":
        put_cstring(o, b", ")
    put_cstring(o, text)
    return 0 if number < 0 else put_digits(o, <uint64_t> number)
