# What the rows of the correspondence say, in the words of the kernel.

cdef enum:
    PROPERTIES = 14
    FIELDS = 13
    # Within this no limit of decoding matters on the way back.
    CERTAIN = 65536
    # Of sections besides the body: beyond it the headers might not fit in a frame.
    ROOMY = 32768
    # A user-id of more bytes that are not ASCII, and a reply-to that may be a long address.
    LONGEST_USER = 128
    LONGEST_REPLY = 82

# The properties of class basic, as the bits of the flags count them from above.
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

cdef const char* NO_TYPE = b"0-9-1 has no such type"
cdef const char* OTHER_NAME = b"0-9-1 has no such type, or the name is another"
cdef const char* NO_PROPERTY = b"0-9-1 has no such property"
cdef const char* NOT_EXACT = b"0-9-1 cannot express it exactly"
cdef const char* SAID_ANEW = b"redelivered says it; a broker on the way back says both again"
cdef const char* ONLY_WHETHER = b"0-9-1 says only whether it may have been delivered before"
cdef const char* OF_3 = (
    b"RabbitMQ 3.10 writes it so at delivery, and as_published leaves that out"
)
cdef const char* LOW_PRIORITY = b"a priority of 0-9-1 is 0 to 9"
cdef const char* IN_STREAM = (
    b"unchanged, but a stream of RabbitMQ 4 makes text of bytes that are UTF-8"
)
cdef const char* ENCODED_ANEW = (
    b"unchanged, but a stream of RabbitMQ 4 re-encodes it (arrays, for example)"
)
cdef const char* BY_NAME = (
    b"unchanged, but RabbitMQ 4 and streams sort the headers by their names"
)
cdef const char* NO_CLUSTER = b"unchanged, but a stream of RabbitMQ drops it"
cdef const char* NO_MODE = b"unchanged, but after a stream none is taken for it"
# The type that says that the payload is encoded body sections.
cdef const char* MARKER = b"amqp-1.0"
cdef const char* ROW_PREFIX = b"x-opt-basic-"

# By field of the properties section: its name, its type, and its property in 0-9-1 or -1.
cdef text[FIELDS] NAMES = [
    b"message-id", b"user-id", b"to", b"subject", b"reply-to", b"correlation-id", b"content-type",
    b"content-encoding", b"absolute-expiry-time", b"creation-time", b"group-id", b"group-sequence",
    b"reply-to-group-id",
]
cdef int[FIELDS] KINDS = [
    STRING, BINARY, STRING, STRING, STRING, STRING, SYMBOL, SYMBOL, TIMESTAMP, TIMESTAMP, STRING,
    UINT, STRING,
]
cdef int[FIELDS] TARGETS = [
    MESSAGE_ID, USER_ID, -1, -1, REPLY_TO, CORRELATION_ID, CONTENT_TYPE, CONTENT_ENCODING, -1,
    TIMESTAMP_AT, -1, -1, -1,
]


# What a message becomes: values of 0-9-1 (those that are not bytes in `numbers`), and what is kept.
cdef struct Made:
    bint[PROPERTIES] there
    Value[PROPERTIES] given
    Entries entries
    Py_ssize_t split
    bint is_delivered, redelivered, is_certain, is_marked
    Value exchange, routing_key
    # For the residual: sections, fields of the properties, and whether any entry is kept.
    Span header, annotations, properties, application
    bint[FIELDS] keeps
    Span[FIELDS] fields
    bint keeps_field, keeps_entry, keeps_shape
    # Of the body: how many sections it has, and whether its values are in their smallest encodings.
    # And the sections of which 0-9-1 knows nothing.
    Py_ssize_t parts
    bint is_usual
    Span delivery, footer


cdef bint is_letter_exact(int kind) noexcept nogil:
    return kind != ULONG and kind != SYMBOL and kind != UUID


cdef int letter_of(Value* v) noexcept nogil:
    """Return the letter of the field that holds a value, 0 where there is none."""
    cdef int kind = v.kind
    if kind == STRING or kind == SYMBOL or kind == UUID:
        return c"S"
    if kind == INT:
        return c"I"
    if kind == DOUBLE:
        return c"d"
    if kind == LONG:
        return c"l"
    if kind == ULONG:
        return c"l" if v.number >= 0 else c"S"
    if kind == BOOLEAN:
        return c"t"
    if kind == BINARY:
        return c"x"
    if kind == TIMESTAMP:
        return c"T" if v.number >= 0 else 0
    if kind == FLOAT:
        return c"f"
    if kind == NULL_KIND:
        return c"V"
    if kind == UINT:
        return c"i"
    if kind == UBYTE:
        return c"B"
    if kind == BYTE:
        return c"b"
    return c"u" if kind == USHORT else c"s"


cdef int tell_header(
    Out* o, bint durable, Value* priority, Value* ttl, bint first, int64_t count
) except -1:
    """Write what `repr` says of a header: the fields that are not as usual."""
    cdef text comma = b""
    say(o, b'"Header(')
    if durable:
        say(o, b"durable=True")
        comma = b", "
    if priority.kind == UBYTE:
        say(o, comma)
        say(o, b"priority=")
        digits(o, <uint64_t> priority.number)
        comma = b", "
    if ttl.kind == UINT:
        say(o, comma)
        say(o, b"ttl=")
        digits(o, <uint64_t> ttl.number)
        comma = b", "
    if first:
        say(o, comma)
        say(o, b"first_acquirer=True")
        comma = b", "
    if count:
        say(o, comma)
        say(o, b"delivery_count=")
        digits(o, <uint64_t> count)
    return say(o, b')"')
