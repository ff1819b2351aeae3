# Fast paths that write usual values, and usual fields of sections, without Python calls.
#
# `Writer` writes all other values. The counterpart in Python is `twin.py`.


# The encodings of a kind of integer; the width is 0 for other kinds.
cdef struct Whole:
    int width  # the full width, in bytes
    int wide   # the constructor of the full width
    int small  # the constructor of the one-byte encoding, or 0
    int zero   # the constructor of the encoding of zero, or 0
    bint signed


cdef enum:
    KINDS_KNOWN = 64  # the size of tables by kind

# By kind: the encodings of integers; and the constructor for a short str, or 0 if fields of the
# kind accept no str.
cdef Whole WHOLE_OF[KINDS_KNOWN]
cdef int TEXT_OF[KINDS_KNOWN]
memset(WHOLE_OF, 0, sizeof(WHOLE_OF))
memset(TEXT_OF, 0, sizeof(TEXT_OF))
for _code in range(KIND_COUNT):
    WHOLE_OF[<int>_code] = Whole(
        INTEGER_WIDTH_OF_KIND[_code],
        FULL_WIDTH_CODE_OF_KIND[_code],
        ONE_BYTE_CODE_OF_KIND[_code],
        ZERO_CODE_OF_KIND[_code],
        IS_SIGNED_KIND[_code]
    )
    if KIND_ACCEPTS_STRING[_code]:
        TEXT_OF[<int>_code] = 0xA1
    else:
        TEXT_OF[<int>_code] = 0xA3 if _code == KIND_SYMBOL else 0
cdef PyObject *TEXT_TYPE = <PyObject *>str
cdef PyObject *INT_TYPE = <PyObject *>int
cdef PyObject *REAL_TYPE = <PyObject *>float
cdef PyObject *OCTETS_TYPE = <PyObject *>bytes


cdef inline bint put_whole(Output out, int kind, long long number) noexcept:
    """Write an integer in its smallest encoding; return False if it is out of range for `kind`.

    The caller must have made room for 9 bytes.
    """
    cdef Whole *form = &WHOLE_OF[kind]
    cdef char *at = out.memory + out.size
    cdef unsigned long long left = <unsigned long long>number
    cdef int i
    cdef long long first
    if form.small and (-128 <= number <= 127 if form.signed else 0 <= number <= 255):
        if number == 0 and form.zero:
            at[0] = <char>form.zero
            out.size += 1
        else:
            at[0] = <char>form.small
            at[1] = <char>(number & 255)
            out.size += 2
        return True
    first = number >> 8 * (form.width - 1)  # the first byte, if the number fits
    if not (-128 <= first <= 127 if form.signed else 0 <= first <= 255):
        return False
    at[0] = <char>form.wide
    for i in range(form.width, 0, -1):
        at[i] = <char>(left & 255)
        left >>= 8
    out.size += form.width + 1
    return True


cdef inline void put_octets(Output out, int code, const char *octets, Py_ssize_t n) noexcept:
    """Write a value with a one-byte size; the caller must have made room for n + 2 bytes."""
    cdef char *at = out.memory + out.size
    at[0] = <char>code
    at[1] = <char>n
    memcpy(at + 2, octets, n)
    out.size += n + 2


cdef inline int make_room(Output out, Py_ssize_t n) except -1:
    """Make sure that n more bytes fit into the memory of an output."""
    if out.room - out.size < n:
        out.grow(n)
    return 0


cdef inline int put_nulls(Output out, Py_ssize_t count, Py_ssize_t n) except -1:
    """Write `count` nulls, and make room for n more bytes."""
    make_room(out, count + n)
    memset(out.memory + out.size, 0x40, count)
    out.size += count
    return 0


cdef inline void store32(char *at, unsigned int number) noexcept:
    at[0] = <char>(number >> 24)
    at[1] = <char>(number >> 16 & 255)
    at[2] = <char>(number >> 8 & 255)
    at[3] = <char>(number & 255)


# A compound starts with room for the long header, with a four-byte size. If the compound turns out
# to be short, its content of at most 254 bytes is moved. If there was room for the short header
# only, large content would have to be moved once for each enclosing compound.
cdef enum:
    LONG_HEADER = 9   # bytes
    SHORT_HEADER = 3  # bytes
    SMALL = 1000      # size of the memory inside the object, in bytes


cdef inline void empty(Output out) noexcept:
    """Make an output empty. The caller must have released its large buffer."""
    out.large = NULL
    out.memory = out.small
    out.room = SMALL
    out.size = 0


@cython.freelist(8)
cdef class Output:
    """A growing sequence of bytes."""

    def __cinit__(self, *_):
        empty(self)

    def __dealloc__(self):
        Py_XDECREF(self.large)

    cdef int grow(self, Py_ssize_t n) except -1:
        """Enlarge the memory so that n more bytes fit."""
        cdef PyObject *before = self.large
        cdef Py_ssize_t room, size
        if n > PY_SSIZE_T_MAX // 4 - self.size:
            raise MemoryError
        # Double small memory, and enlarge large memory by an eighth.
        room = self.size + n + (self.size + n if self.size + n < 1 << 20 else (self.size + n) >> 3)
        if before == NULL:
            self.large = amqp_room(NULL, room)
            memcpy(PyBytes_AS_STRING(<bytes>self.large), self.small, self.size)
        else:
            # If memory is exhausted, the resize frees the old buffer, so the output must be empty.
            size = self.size
            empty(self)
            _PyBytes_Resize(&before, room)
            self.large = before
            self.size = size
        self.memory = PyBytes_AS_STRING(<bytes>self.large)
        self.room = room
        return 0

    cpdef bytes finish(self):
        """Return the bytes, and clear the output."""
        cdef PyObject *made = self.large
        cdef Py_ssize_t size = self.size
        empty(self)
        if made == NULL:
            return <bytes>self.small[:size]
        _PyBytes_Resize(&made, size)
        octets = <bytes>made
        Py_XDECREF(made)
        return octets

    cdef int add(self, bytes octets) except -1:
        """Append bytes."""
        cdef Py_ssize_t n = PyBytes_GET_SIZE(octets)
        make_room(self, n)
        memcpy(self.memory + self.size, PyBytes_AS_STRING(octets), n)
        self.size += n
        return 0

    cdef int copy(self, bytes buf, Py_ssize_t start, Py_ssize_t stop) except -1:
        """Append a range of `buf`."""
        if not 0 <= start <= stop <= PyBytes_GET_SIZE(buf):
            raise IndexError("bytes outside the input")
        make_room(self, stop - start)
        memcpy(self.memory + self.size, PyBytes_AS_STRING(buf) + start, stop - start)
        self.size += stop - start
        return 0

    cdef int octet(self, int octet) except -1:
        """Append one byte."""
        make_room(self, 1)
        self.memory[self.size] = <char>octet
        self.size += 1
        return 0

    cdef int pair(self, int code, int octet) except -1:
        """Append a constructor and a value or length of one byte."""
        make_room(self, 2)
        self.memory[self.size] = <char>code
        self.memory[self.size + 1] = <char>octet
        self.size += 2
        return 0

    cdef bint short_ascii(self, int code, text) except -1:
        """Append a constructor, a length and a text; return False if it is long or not ASCII."""
        cdef Py_ssize_t n
        if not isinstance(text, str):
            raise TypeError("a text is a str")
        n = text_size(text)
        if not 0 <= n <= 255:
            return False
        make_room(self, n + 2)
        put_octets(self, code, PyUnicode_DATA(text), n)
        return True

    cdef int number(self, int code, int width, long long number) except -1:
        """Append a constructor and a number of `width` bytes, in two's complement."""
        cdef int i
        cdef unsigned long long left = <unsigned long long>number
        if not 0 <= width <= 8:
            raise ValueError("a number has at most eight bytes")
        make_room(self, 9)
        self.memory[self.size] = <char>code
        for i in range(width):
            self.memory[self.size + width - i] = <char>(left & 255)
            left >>= 8
        self.size += width + 1
        return 0

    cdef int double(self, double number) except -1:
        """Append a double."""
        self.octet(0x82)
        return self.real(number)

    cdef int real(self, double number) except -1:
        """Append the eight bytes of a double."""
        make_room(self, 8)
        PyFloat_Pack8(number, self.memory + self.size, 0)
        self.size += 8
        return 0

    cdef Py_ssize_t begin_compound(self) except -1:
        """Reserve the header of a compound; return the mark for `end_compound`."""
        make_room(self, LONG_HEADER)
        self.size += LONG_HEADER
        return self.size

    cdef bint end_compound(self, Py_ssize_t mark, int code, Py_ssize_t count) except -1:
        """Write the header of a compound; `code` is the constructor with a one-byte size.

        Returns False if the compound is too large for AMQP.
        """
        cdef Py_ssize_t size = self.size - mark
        cdef char *head
        if mark < LONG_HEADER or size < 0:
            raise IndexError("no compound was begun there")
        head = self.memory + mark - LONG_HEADER
        # The size field includes the count field, which has one byte here, and four below.
        if size < 255 and count <= 255:
            head[0] = <char>code
            head[1] = <char>(size + 1)
            head[2] = <char>count
            memmove(head + SHORT_HEADER, self.memory + mark, size)
            self.size -= LONG_HEADER - SHORT_HEADER
            return True
        if size > 0xFFFFFFFFLL - 4:
            return False
        head[0] = <char>(code + 0x10)
        store32(head + 1, <unsigned int>(size + 4))
        store32(head + 5, <unsigned int>count)
        return True

    cdef int drop_compound(self, Py_ssize_t mark) except -1:
        """Remove an open compound and its content."""
        if not LONG_HEADER <= mark <= self.size:
            raise IndexError("no compound was begun there")
        self.size = mark - LONG_HEADER
        return 0

    cdef bint integer_of(self, int kind, long long number) except -1:
        """Append an integer in its smallest encoding; return False if it is out of range.

        Raises:
            ValueError: the kind is not an integer type.
        """
        if not 0 <= kind < KINDS_KNOWN or WHOLE_OF[kind].width == 0:
            raise ValueError(f"kind {kind} is not an integer type")
        make_room(self, 9)
        return put_whole(self, kind, number)

    cdef bint usual(self, value) except -1:
        """Append a value of a usual type and size; return False without writing for any other."""
        cdef PyObject *type_ = amqp_type(<PyObject *>value)
        cdef PyObject *known
        cdef Py_ssize_t n
        cdef int overflow = 0, kind
        cdef long long number
        if type_ == TEXT_TYPE:
            n = ascii_size(value)
            if not 0 <= n <= 255:
                return False
            make_room(self, n + 2)
            put_octets(self, 0xA1, PyUnicode_DATA(value), n)
        elif type_ == INT_TYPE:
            number = PyLong_AsLongLongAndOverflow(value, &overflow)
            if overflow:
                return False
            make_room(self, 9)
            put_whole(self, KIND_LONG, number)
        elif value is True:
            self.octet(0x41)
        elif value is False:
            self.octet(0x42)
        elif value is None:
            self.octet(0x40)
        elif type_ == REAL_TYPE:
            self.double(PyFloat_AS_DOUBLE(value))
        elif type_ == OCTETS_TYPE:
            n = PyBytes_GET_SIZE(<bytes>value)
            if n > 255:
                return False
            make_room(self, n + 2)
            put_octets(self, 0xA0, PyBytes_AS_STRING(<bytes>value), n)
        else:
            known = PyDict_GetItem(KIND_OF_PYTHON_TYPE, <object>type_)
            if known == NULL:
                return False
            kind = <object>known
            if kind == KIND_SYMBOL:
                return self.short_ascii(0xA3, value)
            if WHOLE_OF[kind].width == 0:
                return False
            number = PyLong_AsLongLongAndOverflow(value, &overflow)
            make_room(self, 9)
            return not overflow and put_whole(self, kind, number)
        return True

    cdef Py_ssize_t usual_fields(
        self, AttributeSlots layout, made, bytes kinds, tuple defaults, Py_ssize_t i
    ) except -1:
        """Append fields of a list from index `i` on; return the index of the first unusual field.

        `self.count` is the number of fields that were written, including nulls between fields. A
        field that is None or equal to its default is written as null, if a later field is written.
        """
        cdef Py_ssize_t n, gap, count = layout.count
        cdef PyObject *item
        cdef PyObject *default
        cdef PyObject *type_
        cdef int kind, overflow = 0
        cdef long long number
        if not (
            0 <= i <= count
            and 0 <= self.count <= i
            and PyBytes_GET_SIZE(kinds) == count
            and PyTuple_GET_SIZE(defaults) == count
        ):
            raise IndexError("no such field")
        if type(made) is not layout.cls or not layout.direct():
            return i
        while i < count:
            item = amqp_get_slot(made, layout.offsets[i])
            default = PyTuple_GET_ITEM(defaults, i)
            if item == NULL:
                break
            kept = take_over(item)  # a reference, in case another thread replaces the attribute
            if item == <PyObject *>None or item == default:
                i += 1
                continue
            type_ = amqp_type(item)
            if type_ == amqp_type(default) and <object>item == <object>default:
                i += 1
                continue
            kind = <unsigned char>PyBytes_AS_STRING(kinds)[i]
            if kind >= KINDS_KNOWN:
                break
            gap = i - self.count
            if type_ == TEXT_TYPE:
                n = ascii_size(<object>item)
                if not 0 <= n <= 255 or TEXT_OF[kind] == 0:
                    break
                put_nulls(self, gap, n + 2)
                put_octets(self, TEXT_OF[kind], PyUnicode_DATA(<object>item), n)
            elif type_ == INT_TYPE:
                if WHOLE_OF[kind].width == 0:
                    break
                number = PyLong_AsLongLongAndOverflow(<object>item, &overflow)
                put_nulls(self, gap, 9)
                if overflow or not put_whole(self, kind, number):
                    self.size -= gap
                    break
            elif kind == KIND_BOOLEAN and (<object>item is True or <object>item is False):
                put_nulls(self, gap, 1)
                self.octet(0x41 if <object>item is True else 0x42)
            elif kind == KIND_BINARY and type_ == OCTETS_TYPE:
                n = PyBytes_GET_SIZE(<bytes>item)
                if n > 255:
                    break
                put_nulls(self, gap, n + 2)
                put_octets(self, 0xA0, PyBytes_AS_STRING(<bytes>item), n)
            else:
                break
            i += 1
            self.count = i
        return i
