# The fast path of `Picks` in `picks.py`, which reads usual messages directly from the bytes.


cdef class Keys:
    """The requested keys of a map and their indexes; finds keys in the bytes of a map."""

    def __cinit__(self, dict indexes):
        cdef Py_ssize_t i
        self.keys = tuple(indexes)
        for key in self.keys:
            if type(key) is not bytes:
                raise TypeError("a key must be bytes")
        self.indexes = <Py_ssize_t *>PyMem_Malloc(max(len(indexes), 1) * sizeof(Py_ssize_t))
        if self.indexes == NULL:
            raise MemoryError
        for i, index in enumerate(indexes.values()):
            self.indexes[i] = index

    def __dealloc__(self):
        PyMem_Free(self.indexes)

    cdef Py_ssize_t index_of(self, bytes buf, Py_ssize_t start, Py_ssize_t stop) except -2:
        """Return the index of the key at buf[start:stop]; -1 if it is not in the set."""
        cdef Py_ssize_t i
        cdef PyObject *key
        cdef PyObject *keys = <PyObject *>self.keys
        if not 0 <= start <= stop <= PyBytes_GET_SIZE(buf):
            raise IndexError("bytes outside the input")
        for i in range(PyTuple_GET_SIZE(<tuple>keys)):
            key = PyTuple_GET_ITEM(<tuple>keys, i)
            if (
                PyBytes_GET_SIZE(<bytes>key) == stop - start
                and memcmp(
                    PyBytes_AS_STRING(<bytes>key), PyBytes_AS_STRING(buf) + start, stop - start
                ) == 0
            ):
                return self.indexes[i]
        return -1


# The actions of the fast path for a section.
cdef enum:
    PASS_OVER  # skip the section
    GIVE_UP    # let `Picks` read the whole message
    READ_FIELDS
    READ_PROPERTIES
    READ_ANNOTATIONS
    READ_DATA

# Maximum number of values in the lists and maps of a message for the fast path. `Picks`, which
# enforces limits, reads messages with more values.
cdef enum:
    MAX_VALUES = 10_000

# The object that `entry_at` returns for a value in an unusual encoding.
cdef object _UNUSUAL = object()


cdef inline const unsigned char *after(
    const unsigned char *at, const unsigned char *stop
) noexcept:
    """Return the end of the value at `at`; NULL if it is described, invalid or truncated."""
    cdef Py_ssize_t size
    if at >= stop:
        return NULL
    size = STEP_OF[at[0]]
    if size == ONE_BYTE_SIZE_FIELD:
        if stop - at < 2:
            return NULL
        size = 2 + <Py_ssize_t>at[1]
    elif size > ONE_BYTE_SIZE_FIELD:
        if stop - at < 5:
            return NULL
        size = 5 + <Py_ssize_t>amqp_load32(<const char *>at + 1)
    return NULL if size == 0 or size > stop - at else at + size


cdef inline object text_at(const unsigned char *at, const unsigned char *end, int code):
    """Return a string or symbol with a one-byte size as a str, or a binary as bytes.

    `at` and `end` are the start and end of the value, and `code` is its format code.
    """
    if code == 0xA1:
        return PyUnicode_DecodeUTF8(<const char *>at + 2, end - at - 2, NULL)
    if code == 0xA3:
        return PyUnicode_DecodeASCII(<const char *>at + 2, end - at - 2, NULL)
    return <bytes>(<const char *>at + 2)[:end - at - 2]


cdef inline object field_at(const unsigned char *at, const unsigned char *end):
    """Return the value of a field, whose format code must be usual.

    See `IS_USUAL_CODE_OF_KIND` in `codes`.
    """
    cdef int code = at[0]
    if code == 0xA1 or code == 0xA3 or code == 0xA0:
        return text_at(at, end, code)
    if code == 0x41:
        return True
    if code == 0x42:
        return False
    if 0x50 <= code <= 0x53:
        return <int>at[1]
    if code == 0x83:
        return signed64(at + 1)
    if code == 0x70:
        return amqp_load32(<const char *>at + 1)
    return 0  # uint0, ulong0


cdef inline object entry_at(const unsigned char *at, const unsigned char *end):
    """Return the value of a map entry; `_UNUSUAL` if its encoding is unusual."""
    cdef int code = at[0]
    if code == 0xA3:
        return TEXTS.symbol(at + 2, end - at - 2)
    if code == 0xA1 or code == 0xA0:
        return text_at(at, end, code)
    if code == 0x81:
        return signed64(at + 1)
    if code == 0x83:
        return Timestamp.__new__(Timestamp, signed64(at + 1))
    if code == 0x82:
        return double64(at + 1)
    if code == 0x71:
        return Int.__new__(Int, signed32(at + 1))
    if code == 0x70:
        return UInt.__new__(UInt, amqp_load32(<const char *>at + 1))
    if code == 0x41:
        return True
    if code == 0x42:
        return False
    if code == 0x40:
        return None
    if code == 0x55:
        return <int>at[1] - 256 if at[1] > 127 else <int>at[1]
    if 0x50 <= code <= 0x54:
        return octet_value(code, at[1])
    return _UNUSUAL


@cython.final
cdef class QuickPicks:
    """Picks values from messages in the usual encodings; leaves all other messages to `Picks`."""

    def __init__(self, list sections, tuple defaults, Py_ssize_t body):
        """Set the requested values.

        Args:
            sections: for each section, None to skip it, or (shape, indexes, usual, defaults, keys).
                The shape is 0 for a composite, 1 for properties, 2 for annotations; -1 if `Picks`
                must read the messages that contain the section. The indexes are those of the fields
                in the result; -1 for a field that is not requested. `usual` states, by field and
                format code, whether the fast path reads this encoding of the field.
            defaults: the results for values that the message does not have.
            body: the index of the body in the result; -1 if it is not requested.
        """
        cdef Py_ssize_t i, j
        if len(sections) != 9:
            raise ValueError(f"expected 9 sections, not {len(sections)}")
        self.sections = sections
        self.defaults = defaults
        self.body = body
        for i in range(9):
            self.actions[i] = PASS_OVER
            self.requested_counts[i] = 0
            if body >= 0 and 5 <= i <= 7:
                self.actions[i] = READ_DATA if i == 5 else GIVE_UP
            if sections[i] is None:
                continue
            shape, fields, usual, field_defaults, keys = sections[i]
            if shape < 0 or len(fields) > MOST_SLOTS or len(usual) != len(field_defaults) << 8:
                self.actions[i] = GIVE_UP
                continue
            if (
                type(usual) is not bytes
                or type(field_defaults) is not tuple
                or type(keys) is not Keys
            ):
                raise TypeError("a section must have bytes, a tuple of defaults and Keys")
            self.usual[i] = <const unsigned char *>PyBytes_AS_STRING(<bytes>usual)
            self.field_defaults[i] = <PyObject *>field_defaults
            self.keys[i] = <PyObject *>keys
            self.actions[i] = READ_FIELDS + shape
            self.requested_counts[i] = len(fields)
            self.declared_counts[i] = len(field_defaults)
            for j in range(self.requested_counts[i]):
                if not -1 <= fields[j] < len(defaults):
                    raise ValueError("the index of a field in the result is out of range")
                self.result_indexes[i][j] = fields[j]

    cdef tuple pick(self, bytes data):
        """Return the requested values; None to let `Picks` read the message."""
        try:
            return read_picks(self, data)
        except UnicodeDecodeError:
            return None


cdef inline int put_at(tuple found, Py_ssize_t place, value) except -1:
    """Set an item of a new tuple; raise IndexError if the item is already set."""
    if not 0 <= place < PyTuple_GET_SIZE(found) or PyTuple_GET_ITEM(found, place) != NULL:
        raise IndexError("the index in the result is out of range, or its item is set")
    Py_INCREF(value)
    PyTuple_SET_ITEM(found, place, value)
    return 0


cdef tuple read_picks(QuickPicks quick, bytes data):
    """Return the requested values; None to let `Picks` read the message."""
    cdef const unsigned char *at = <const unsigned char *>PyBytes_AS_STRING(data)
    cdef const unsigned char *stop = at + PyBytes_GET_SIZE(data)
    cdef const unsigned char *p
    cdef const unsigned char *end
    cdef const unsigned char *close
    cdef const unsigned char *base = at
    cdef const unsigned char *usual
    cdef Py_ssize_t count, i, place, size, left = MAX_VALUES
    cdef unsigned int seen = 0
    cdef int index, action, code, key_code
    cdef PyObject *known
    cdef PyObject *defaults = <PyObject *>quick.defaults
    cdef tuple found = PyTuple_New(PyTuple_GET_SIZE(<tuple>defaults))
    while at < stop:
        if stop - at < 4 or at[0] != 0 or at[1] != 0x53 or not 0x70 <= at[2] <= 0x78:
            return None
        index = at[2] - 0x70
        at += 3
        action = quick.actions[index]
        if action == PASS_OVER:
            at = after(at, stop)
            if at == NULL:
                return None
            continue
        if action == GIVE_UP or seen >> index & 1:
            return None
        seen |= 1u << index
        close = after(at, stop)
        if close == NULL:
            return None
        code = at[0]
        if action == READ_DATA:
            if code != 0xA0 and code != 0xB0:
                return None
            size = 2 if code == 0xA0 else 5
            put_at(found, quick.body, <bytes>(<const char *>at + size)[:close - at - size])
            at = close
            continue
        size = 0xC0 if action == READ_FIELDS else 0xC1
        if code == size:
            if close - at < 3:
                return None
            count = at[2]
            p = at + 3
        elif code == size + 0x10:
            if close - at < 9:
                return None
            count = amqp_load32(<const char *>at + 5)
            p = at + 9
        else:
            return None
        left -= count
        if left < 0 or count > close - p:
            return None
        if action == READ_FIELDS:
            if count > quick.declared_counts[index]:
                return None
            usual = quick.usual[index]
            known = quick.field_defaults[index]
            for i in range(count):
                if i == quick.requested_counts[index]:
                    p = close
                    break
                end = after(p, close)
                if end == NULL:
                    return None
                place = quick.result_indexes[index][i]
                if place >= 0 and p[0] != 0x40:
                    if not usual[i << 8 | p[0]]:
                        return None
                    put_at(found, place, field_at(p, end))
                p = end
            for i in range(quick.requested_counts[index]):
                place = quick.result_indexes[index][i]
                if place >= 0 and PyTuple_GET_ITEM(found, place) == NULL:
                    if PyTuple_GET_ITEM(<tuple>known, i) != <PyObject *>None:
                        put_at(found, place, <object>PyTuple_GET_ITEM(<tuple>known, i))
        else:
            if count & 1:
                return None
            known = quick.keys[index]
            key_code = 0xA1 if action == READ_PROPERTIES else 0xA3
            for i in range(count >> 1):
                if close - p < 2 or p[0] != key_code or p[1] > close - p - 2:
                    return None
                size = p[1]
                place = (<Keys>known).index_of(data, p + 2 - base, p + 2 + size - base)
                p += 2 + size
                end = after(p, close)
                if end == NULL:
                    return None
                if place >= 0:
                    if PyTuple_GET_ITEM(found, place) != NULL:
                        return None
                    value = entry_at(p, end)
                    if <PyObject *>value == <PyObject *>_UNUSUAL:
                        return None
                    put_at(found, place, value)
                p = end
        if p != close:
            return None
        at = close
    for i in range(PyTuple_GET_SIZE(found)):
        if PyTuple_GET_ITEM(found, i) == NULL:
            put_at(found, i, <object>PyTuple_GET_ITEM(<tuple>defaults, i))
    return found
