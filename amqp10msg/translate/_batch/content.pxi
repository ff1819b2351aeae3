# Structures of `ToAmqp10`: the parsed 0-9-1 message, and the rules of a profile.

cdef enum:
    # The result of `check_value` for a value that only the residual can hold.
    RESIDUAL_ONLY = 2
    # Maximum number of elements in arrays and tables. A message with more is unsupported.
    MOST_ITEMS = 4096
    # Maximum size in bytes of a long string that RabbitMQ treats as text.
    LONGEST_TEXT = 4096
    # Size in bytes above which a scratch buffer is freed after use.
    MOST_KEPT = 1 << 20

# The conversions of properties, with the numbers of `to_amqp10_rules.Form`.
cdef enum:
    TEXT_FORM
    ID_FORM
    BROKER_ID_FORM
    KNOWN_FORM
    SYMBOL_FORM
    MODE_FORM
    PRIORITY_FORM
    NUMBER_FORM
    DIGITS_FORM
    SECONDS_FORM
    MOMENT_FORM
    USER_FORM
    ADDRESS_FORM

# Where a header of the 0-9-1 message goes in the 1.0 message.
cdef enum:
    UNPLACED
    LEFT_OUT
    ANNOTATION
    APPLICATION
    SAVED_SECTION
    RESIDUAL_HEADER

# The translated value that a loss reports: none, the original value, 1, or "binary". These are the
# numbers of `to_amqp10_rules.AFTER_NUMBERS`.
cdef enum:
    NOTHING_AFTER
    SAME_AFTER
    ONE_AFTER
    BINARY_AFTER

# The subject of a loss: a property by its index, the redelivered flag, or FIRST_HEADER plus the
# index of a header.
cdef enum:
    REDELIVERED = PROPERTIES
    FIRST_HEADER = PROPERTIES + 1

# The C copy of a `to_amqp10_rules.PropertyRule`.
cdef struct PropertyRule:
    int form, section, field_index, code, value_stored_as_annotation
    const char* name
    const char* annotation

cdef struct PropertyLoss:
    int index, loss, after

cdef struct Rules:
    PropertyRule[PROPERTIES] rows
    PropertyLoss[PROPERTIES] losses
    int loss_count, delivery_count
    bint is_lossless, is_plugin, is_stream
    bint own_first, trims, any_user
    const char* address

# A header of a 0-9-1 message.
cdef struct Field:
    cursor start, stop, name  # the header's bytes are from `start`, its name, to `stop`
    Py_ssize_t size  # the size of the name in bytes
    int letter, destination
    Value value
    Span residual_value  # the header's encoded 1.0 value, if the residual has it

# A parsed 0-9-1 message, with the encoded sections and values of its residual.
cdef struct Given:
    bint[PROPERTIES] there
    Value[PROPERTIES] given
    bint[PROPERTIES] annotated  # the property goes into an annotation, although it has a field
    Field[MOST] fields
    Py_ssize_t count
    Span exchange, routing_key, body, residual
    bint redelivered, is_delivered, is_marked, has_delivery_headers, has_offset, has_unplaced
    bint is_empty
    bint has_own_offset  # the sender set a stream offset, which RabbitMQ 3.10 delivers
    int64_t own_offset
    Span[SAVED] saved
    bint has_saved
    Span header, delivery, annotations, properties, application, footer, data_heads
    bint[FIELDS] keeps
    Span[FIELDS] kept
    bint route_first  # the residual says that exchange and routing key were the first annotations
    bint has_broker_changes  # a broker has added or sorted headers
    Py_ssize_t place_count
    uint8_t[MOST] original_indexes  # the original index of each header, from the residual
    Field residual_header  # the header that contains the residual
    Field[MOST] sender_fields  # scratch memory for reordering the headers


cdef int width_of(int letter) noexcept nogil:
    """Return the width in bytes of a type letter's values.

    -4 if the values have a four-byte size prefix, -1 for an unknown letter.
    """
    if letter == c"S" or letter == c"x" or letter == c"A" or letter == c"F":
        return -4
    if letter == c"I" or letter == c"i" or letter == c"f":
        return 4
    if letter == c"l" or letter == c"d" or letter == c"T" or letter == c"L":
        return 8
    if letter == c"t" or letter == c"b" or letter == c"B":
        return 1
    if letter == c"s" or letter == c"u" or letter == c"U":
        return 2
    if letter == c"D":
        return 5
    return 0 if letter == c"V" else -1


cdef int read_content(cursor* place, cursor stop, int letter, Value* v) noexcept nogil:
    """Read a field's value, after its type letter.

    Return UNSUPPORTED if the value is truncated or the letter is unknown.
    """
    cdef cursor p = place[0]
    cdef int width = width_of(letter)
    v.start = v.at = p
    v.number = 0
    if width == -4:
        if stop - p < 4:
            return UNSUPPORTED
        v.n = <Py_ssize_t> unsigned_at(p, 4)
        v.at = p + 4
        if v.n > stop - v.at:
            return UNSUPPORTED
        place[0] = v.at + v.n
        return OK
    if width < 0 or width > stop - p:
        return UNSUPPORTED
    v.n = width
    place[0] = p + width
    v.number = <int64_t> unsigned_at(p, width)
    if letter == c"I":
        v.number = <int32_t> <uint32_t> v.number
    elif letter == c"s" or letter == c"U":
        v.number = <int16_t> <uint16_t> v.number
    elif letter == c"b":
        v.number = <int8_t> <uint8_t> v.number
    return OK


cdef int next_field(
    cursor* place, cursor stop, int container, Span* name, int* letter, Value* v
) noexcept nogil:
    """Read the next field of an array, or of a table (with its name).

    `container` is the type letter of the array or table. Return UNSUPPORTED if truncated.
    """
    cdef cursor p = place[0]
    if container == c"F":
        if stop - p < p[0] + 2:
            return UNSUPPORTED
        name.at, name.n = p + 1, p[0]
        p += 1 + name.n
    letter[0] = p[0]
    p += 1
    if read_content(&p, stop, letter[0], v) == UNSUPPORTED:
        return UNSUPPORTED
    place[0] = p
    return OK


cdef inline bint is_finite_field(int letter, int64_t bits) noexcept nogil:
    """Whether a float or double field with these bits is neither NaN nor infinite."""
    return is_finite(DOUBLE if letter == c"d" else FLOAT, <uint64_t> bits)


cdef inline bint is_broker_text(cursor p, Py_ssize_t n) noexcept nogil:
    """Whether RabbitMQ treats a long string as text, not as a binary."""
    return n <= LONGEST_TEXT and not scan_bytes(p, n) & NUL and is_utf8(p, n)


cdef inline bint is_plain_ascii(cursor p, Py_ssize_t n) noexcept nogil:
    """Whether bytes are ASCII without NUL."""
    return scan_bytes(p, n) == 0


cdef bint is_text_throughout(int letter, Value* v) noexcept nogil:
    """Whether the long strings of a field, at all levels of nesting, are UTF-8."""
    cdef cursor p = v.at
    cdef cursor stop = p + v.n
    cdef Value inner
    cdef Span name
    cdef int code
    if letter == c"S":
        return is_utf8(p, v.n)
    if letter != c"A" and letter != c"F":
        return True
    while p < stop:
        if next_field(&p, stop, letter, &name, &code, &inner) == UNSUPPORTED:
            return False
        if not is_text_throughout(code, &inner):
            return False
    return True


cdef inline Py_ssize_t begin_compound(Out* o) except -1:
    """Reserve space for the head of a list or map in the short form; return its position."""
    reserve(o, 3)
    o.size += 3
    return o.size - 3


cdef int end_compound(Out* o, Py_ssize_t start, int code, Py_ssize_t count) except -1:
    """Write the head of a list or map after its items; `code` is the short form's constructor."""
    cdef Py_ssize_t size = o.size - start - 3
    cdef uint8_t* head
    if size < 255:
        head = o.at + start
        head[0] = <uint8_t> code
        head[1] = <uint8_t> (size + 1)
        head[2] = <uint8_t> count
        return 0
    reserve(o, 6)
    memmove(o.at + start + 9, o.at + start + 3, <size_t> size)
    o.size = start
    put_byte(o, code + 0x10)
    put_number(o, <uint64_t> size + 4, 4)
    put_number(o, <uint64_t> count, 4)
    o.size += size
    return 0


cdef int put_narrow(Out* o, int code, cursor p, Py_ssize_t n) except -1:
    """Write a string or binary as RabbitMQ 3.10 does: in the short form up to 254 bytes."""
    if n != 255:
        return put_variable(o, code, p, n)
    put_byte(o, code + 0x10)
    put_number(o, 255, 4)
    return put(o, p, n)


cdef const char* UPPER = b"0123456789ABCDEF"


cdef int put_address(Out* o, const char* prefix, cursor p, Py_ssize_t n, bint quotes) except -1:
    """Write a queue's address: a prefix and the name, percent-encoded if `quotes`."""
    cdef Py_ssize_t i
    cdef int code
    put_cstring(o, prefix)
    for i in range(n):
        code = p[i]
        if not quotes or (
            c"0" <= code <= c"9" or c"a" <= (code | 32) <= c"z"
            or code == c"-" or code == c"." or code == c"_" or code == c"~"
        ):
            put_byte(o, code)
        else:
            put_byte(o, c"%")
            put_byte(o, UPPER[code >> 4])
            put_byte(o, UPPER[code & 15])
    return 0


cdef bint is_one_section(cursor p, Py_ssize_t n, int code) noexcept nogil:
    """Whether bytes are exactly one list or map section with this code."""
    cdef cursor stop = p + n
    cdef Span found
    found.at = NULL
    return skip_section(&p, stop, code, &found) == OK and found.at != NULL and p == stop


cdef bytes encode_text(text):
    """Encode a text as UTF-8; lone surrogates become the bytes that they represent."""
    return b"" if text == "" else (<str?> text).encode("utf-8", "surrogateescape")


cdef bytes content_header_of(properties, Original original, Py_ssize_t size):
    """Return the content header for properties and a body of `size` bytes.

    Args:
        properties: the properties.
        original: the bytes that the properties were decoded from; None if the properties have
            changed since then.
        size: the size of the body in bytes.
    """
    cdef cursor p
    if original is None:
        return HEAD.pack(60, 0, size) + encode_properties(properties)
    p = <cursor> PyBytes_AS_STRING(original.octets)
    if (
        original.start == 14 <= original.stop
        and original.stop == PyBytes_GET_SIZE(original.octets)
        and unsigned_at(p, 4) == 60 << 16
        and unsigned_at(p + 4, 8) == <uint64_t> size
    ):
        return original.octets
    return HEAD.pack(60, 0, size) + original.octets[original.start : original.stop]


cdef bint have_decoded_types(tuple values, list entries) except -1:
    """Whether properties and headers have exactly the Python types that decoding returns."""
    cdef Py_ssize_t i
    for i in range(PROPERTIES):
        value = values[i]
        if value is None or i == HEADERS:
            continue
        if i == DELIVERY_MODE or i == PRIORITY or i == TIMESTAMP_AT:
            if type(value) is not int:
                return False
        elif type(value) is not str:
            return False
    return have_decoded_entry_types(entries, 3, 0)


# The Python type of decoded fields for each letter; int for all other letters.
cdef dict KINDS_OF_FIELDS = {
    **{"S": str, "t": bool, "d": float, "x": bytes, "f": Float, "D": ScaledDecimal},
    **{"V": type(None), "F": FieldTable, "A": FieldArray},
}


cdef bint have_decoded_entry_types(list entries, Py_ssize_t size, int level) except -1:
    """Whether a table's or array's values have exactly the Python types that decoding returns."""
    for entry in entries:
        if type(entry) is not tuple or len(<tuple> entry) != size:
            return False
        value = (<tuple> entry)[size - 1]
        letter = (<tuple> entry)[size - 2]
        if type(letter) is not str or len(<str> letter) != 1:
            return False
        if size == 3 and type((<tuple> entry)[0]) is not str:
            return False
        if type(value) is not KINDS_OF_FIELDS.get(letter, int):
            return False
        if letter in "FA":
            if level == MOST_LEVELS or type(value.entries) is not list:
                return False
            if not have_decoded_entry_types(value.entries, 3 if letter == "F" else 2, level + 1):
                return False
    return True


cdef extern from "Python.h":
    double PyFloat_Unpack4(const char* p, int little) except? -1.0
    double PyFloat_Unpack8(const char* p, int little) except? -1.0
    char* PyOS_double_to_string(
        double value, char code, int precision, int flags, int* kind
    ) except NULL
    int Py_DTSF_ADD_DOT_0


cdef int put_double(Out* o, int letter, Value* v) except -1:
    """Write a float or double as Python's `repr` does."""
    cdef double value
    cdef char* made
    if letter == c"d":
        value = PyFloat_Unpack8(<const char*> v.at, 0)
    else:
        value = PyFloat_Unpack4(<const char*> v.at, 0)
    made = PyOS_double_to_string(value, c"r", 0, Py_DTSF_ADD_DOT_0, NULL)
    put_cstring(o, made)
    PyMem_Free(made)
    return 0


cdef int read_kept_fields(Given* g, cursor* p, cursor stop) except -1:
    """Read from a residual the fields of the original properties section."""
    cdef uint64_t count = 0, index = 0, n = 0, i
    if cbor_read(p, stop, 5, &count) == UNSUPPORTED:
        return UNSUPPORTED
    for i in range(count):
        if cbor_read(p, stop, 0, &index) == UNSUPPORTED or index >= FIELDS:
            return UNSUPPORTED
        if cbor_read(p, stop, 2, &n) == UNSUPPORTED:
            return UNSUPPORTED
        g.keeps[index] = True
        g.kept[index].at = p[0] - <Py_ssize_t> n
        g.kept[index].n = <Py_ssize_t> n
    return OK


cdef int read_kept_values(Given* g, cursor* p, cursor stop) except -1:
    """Read from a residual the values of original application properties."""
    cdef uint64_t count = 0, size = 0, n = 0, i
    cdef cursor name
    cdef Py_ssize_t k
    if cbor_read(p, stop, 5, &count) == UNSUPPORTED:
        return UNSUPPORTED
    for i in range(count):
        if cbor_read(p, stop, 3, &size) == UNSUPPORTED:
            return UNSUPPORTED
        name = p[0] - <Py_ssize_t> size
        if cbor_read(p, stop, 2, &n) == UNSUPPORTED:
            return UNSUPPORTED
        for k in range(g.count):
            if is_same(g.fields[k].name, g.fields[k].size, name, <Py_ssize_t> size):
                g.fields[k].residual_value.at = p[0] - <Py_ssize_t> n
                g.fields[k].residual_value.n = <Py_ssize_t> n
    return OK


cdef int read_residual(Given* g, Out* o) except -1:
    """Read the message's residual: sections and values of the original 1.0 message."""
    cdef cursor p, stop
    cdef uint64_t count = 0, key = 0, n = 0, met = 0, i, count_of_parts = 0
    cdef Py_ssize_t k
    cdef Span section
    o.size = 0
    if read_base64(o, g.residual.at, g.residual.n) == UNSUPPORTED or o.size < 3:
        return UNSUPPORTED
    p = o.at
    stop = p + o.size
    if p[0] != 0x83 or p[1] != 1:
        return UNSUPPORTED
    p += 2
    if cbor_read(&p, stop, 5, &count) == UNSUPPORTED:
        return UNSUPPORTED
    for i in range(count):
        if cbor_read(&p, stop, 0, &key) == UNSUPPORTED:
            return UNSUPPORTED
        if key == 2:
            if cbor_read(&p, stop, 4, &n) == UNSUPPORTED or n > MOST:
                return UNSUPPORTED
            g.place_count = <Py_ssize_t> n
            for k in range(g.place_count):
                if cbor_read(&p, stop, 0, &key) == UNSUPPORTED or key >= n or met >> key & 1:
                    return UNSUPPORTED
                met |= <uint64_t> 1 << key
                g.original_indexes[k] = <uint8_t> key
        elif key == 4:
            if cbor_read(&p, stop, 0, &key) == UNSUPPORTED or key != 1:
                return UNSUPPORTED
            g.route_first = True
        elif key == DATA_CODE:  # the heads of the data sections
            if cbor_read(&p, stop, 4, &count_of_parts) == UNSUPPORTED:
                return UNSUPPORTED
            g.data_heads.at = p
            while count_of_parts:
                count_of_parts -= 1
                if cbor_read(&p, stop, 2, &n) == UNSUPPORTED:
                    return UNSUPPORTED
            g.data_heads.n = p - g.data_heads.at
        elif key == FOOTER_CODE or HEADER_CODE <= key <= APPLICATION_PROPERTIES_CODE:
            if cbor_read(&p, stop, 2, &n) == UNSUPPORTED:
                return UNSUPPORTED
            section.at = p - <Py_ssize_t> n
            section.n = <Py_ssize_t> n
            if key == HEADER_CODE:
                g.header = section
            elif key == DELIVERY_ANNOTATIONS_CODE:
                g.delivery = section
            elif key == FOOTER_CODE:
                g.footer = section
            elif key == MESSAGE_ANNOTATIONS_CODE:
                g.annotations = section
            elif key == PROPERTIES_CODE:
                g.properties = section
            else:
                g.application = section
        elif key == 0x173:
            if read_kept_fields(g, &p, stop) == UNSUPPORTED:
                return UNSUPPORTED
        elif key == 0x174:
            if read_kept_values(g, &p, stop) == UNSUPPORTED:
                return UNSUPPORTED
        else:
            return UNSUPPORTED
    return OK  # the checksum is not read: `check_restored` compares the whole residual


cdef bint are_upper_digits(cursor p, Py_ssize_t n) noexcept nogil:
    """Whether a text consists of an even number of upper-case hexadecimal digits."""
    cdef Py_ssize_t i
    for i in range(n):
        if not (c"0" <= p[i] <= c"9" or c"A" <= p[i] <= c"F"):
            return False
    return n & 1 == 0


cdef bint section_contains(Span* section, cursor p, Py_ssize_t n) noexcept nogil:
    """Whether an encoded section contains these bytes."""
    cdef Py_ssize_t i
    if section.at == NULL:
        return False
    for i in range(section.n - n + 1):
        if is_same(section.at + i, n, p, n):
            return True
    return False


cdef int restore_header_order(Given* g) noexcept nogil:
    """Remove headers that a broker added, and undo its sorting of the sender's headers."""
    cdef Py_ssize_t i, count = 0
    cdef bint is_sorted = g.place_count > 0
    cdef Field* field
    cdef Field* last = NULL
    for i in range(g.count):
        field = &g.fields[i]
        if field.destination == UNPLACED:
            return UNSUPPORTED
        if field.destination == RESIDUAL_HEADER:
            g.residual_header = field[0]
            g.has_broker_changes = g.has_broker_changes or i < g.count - 1
        elif field.destination == LEFT_OUT:
            g.has_broker_changes = True
        else:
            is_sorted = is_sorted and (
                last == NULL or sorts_before(last.name, last.size, field.name, field.size)
            )
            last = field
            count += 1
    is_sorted = is_sorted and count == g.place_count
    if is_sorted or g.has_broker_changes:
        g.has_broker_changes = True
        count = 0
        for i in range(g.count):
            if g.fields[i].destination == APPLICATION or g.fields[i].destination == ANNOTATION:
                g.sender_fields[g.original_indexes[count] if is_sorted else count] = g.fields[i]
                count += 1
        memcpy(g.fields, g.sender_fields, <size_t> count * sizeof(Field))
    g.count = count
    return OK
