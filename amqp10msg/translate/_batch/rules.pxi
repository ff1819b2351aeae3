# The rows of the correspondence, converted to C tables.

cdef enum:
    PROPERTIES = 14
    FIELDS = 13
    # Numbers of sections that become headers, and of prefixes of a broker's own annotations.
    SAVED = 4
    OWN = 7
    KINDS_OF_VALUES = NO_KIND + 1
    # Size of class, weight and body size in a content header.
    BEFORE_PROPERTIES = 12
    # A longer user-id that is not ASCII can crash the broker.
    LONGEST_USER = 128

# The properties of class basic, in the order of their flag bits, highest first.
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

# For each field of the properties section: its name and its usual type.
cdef text[FIELDS] NAMES
cdef int[FIELDS] KINDS = [
    STRING, BINARY, STRING, STRING, STRING, STRING, SYMBOL, SYMBOL, TIMESTAMP, TIMESTAMP, STRING,
    UINT, STRING,
]
# The sections that a profile of RabbitMQ 3.10 stores as headers, in order, and the headers' names.
cdef text[SAVED] SECTION_NAMES, SAVED_NAMES
# Prefixes of annotations that may be the broker's own.
cdef text[OWN] OWN_ANNOTATIONS
cdef const char* RESIDUAL
# The property type that marks a payload of encoded body sections.
cdef const char* MARKER
cdef const char* ROW_PREFIX
# Prefixes of the text form of an id that is a binary or a ulong.
cdef const char* BINARY_ID
cdef const char* NUMBER_ID
# Limits of the residual, and the maximum size of a reply-to whose address is always short.
cdef Py_ssize_t CERTAIN, ROOMY, MOST_CONTENT, LONGEST_REPLY
# The letter of the field for each kind of value.
cdef char[KINDS_OF_VALUES] LETTERS_OF
cdef list HELD = []  # what is pointed to


cdef const char* held(str given) except NULL:
    """Encode a text of the Python tables, and keep the bytes alive for C."""
    cdef bytes octets = given.encode()
    HELD.append(octets)
    return PyBytes_AS_STRING(octets)


def _fill():
    """Copy the tables of the plain rules."""
    global RESIDUAL, MARKER, ROW_PREFIX, BINARY_ID, NUMBER_ID
    global CERTAIN, ROOMY, MOST_CONTENT, LONGEST_REPLY
    RESIDUAL, MARKER, ROW_PREFIX = held(residual.NAME), held(table.MARKER), held(table.PREFIX)
    BINARY_ID, NUMBER_ID = held(table.BINARY_ID), held(table.ULONG_ID)
    CERTAIN, ROOMY = residual.MAX_UNTRIED_SIZE, residual.MAX_FITTING_SIZE
    MOST_CONTENT = BEFORE_PROPERTIES + residual.MAX_PROPERTIES
    LONGEST_REPLY = table.ALWAYS_SHORT_REPLY_TO
    for row in FORMAT_CODES.values():
        LETTERS_OF[CODES[<int> row.code].kind] = ord(table.LETTERS.get(row.type, "\0"))
    for i, name in enumerate(table.PROPERTY_FIELDS):
        NAMES[i] = held(name.replace("_", "-"))
    for i, (name, header) in enumerate(SAVED_SECTIONS.items()):
        SECTION_NAMES[i], SAVED_NAMES[i] = held(name), held(header)
    for i, name in enumerate(OWN_NAMES):
        OWN_ANNOTATIONS[i] = held(name)
    if len(ENGINE_LOSSES) != LOSSES:
        raise ImportError("the engine is of another version than its table of losses")
    for i, rule in enumerate(ENGINE_LOSSES):
        LOSS_RULES[i].action = held(rule.action)
        LOSS_RULES[i].reason = held(rule.reason)
        LOSS_RULES[i].recoverable = rule.recoverable


_fill()

# The translated message: values of 0-9-1 (numeric values in `numbers`), and residual contents.
cdef struct Made:
    bint[PROPERTIES] there
    Value[PROPERTIES] given
    Entries entries
    Py_ssize_t split
    bint is_delivered, redelivered, is_certain, is_marked
    Value exchange, routing_key
    # Contents of the residual: sections, fields of the properties, and whether it has any entry.
    Span header, annotations, properties, application
    bint[FIELDS] keeps
    Span[FIELDS] fields
    bint keeps_field, keeps_entry, keeps_shape
    # The body: the number of its sections, and whether its values are in their smallest encodings.
    # The sections without a counterpart in 0-9-1.
    Py_ssize_t parts
    bint is_usual
    Span delivery, footer


cdef bint is_letter_exact(int kind) noexcept nogil:
    return kind != ULONG and kind != SYMBOL and kind != UUID


cdef inline int letter_of(Value* v) noexcept nogil:
    """Return the letter of the field for a value; 0 if no field can hold it."""
    if v.kind == ULONG:
        return c"l" if v.number >= 0 else c"S"
    return 0 if v.kind == TIMESTAMP and v.number < 0 else LETTERS_OF[v.kind]


cdef int tell_header(
    Out* o, bint durable, Value* priority, Value* ttl, bint first, int64_t count
) except -1:
    """Write the `repr` of a header: the fields that differ from their defaults."""
    say(o, b'"Header(')
    if durable:
        tell_argument(o, b"durable=True", -1)
    if priority.kind == UBYTE:
        tell_argument(o, b"priority=", priority.number)
    if ttl.kind == UINT:
        tell_argument(o, b"ttl=", ttl.number)
    if first:
        tell_argument(o, b"first_acquirer=True", -1)
    if count:
        tell_argument(o, b"delivery_count=", count)
    return say(o, b')"')


cdef int tell_argument(Out* o, const char* text, int64_t number) except -1:
    """Write an argument of a `repr`, followed by its number unless the number is negative."""
    if o.at[o.size - 1] != c"(":
        say(o, b", ")
    say(o, text)
    return 0 if number < 0 else digits(o, <uint64_t> number)
