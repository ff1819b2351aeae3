# What is written most, without a question to Python: usual values, and usual fields of sections.
#
# What is not done here, the writer does; `twin.py` says the same.


cdef struct Whole:
    # How the integers of a kind are written; the width is 0 where it has none.
    int width
    int wide
    int small  # the constructor of one byte, or 0
    int zero   # the constructor of a zero alone, or 0
    bint signed


cdef enum:
    KINDS_KNOWN = 64

# By kind: how its integers are written, and the constructor of a short str for it, or 0.
cdef Whole WHOLE_OF[KINDS_KNOWN]
cdef int TEXT_OF[KINDS_KNOWN]
memset(WHOLE_OF, 0, sizeof(WHOLE_OF))
memset(TEXT_OF, 0, sizeof(TEXT_OF))
for _code in range(KIND_COUNT):
    WHOLE_OF[<int>_code] = Whole(
        WIDTHS[_code], WIDE_CODES[_code], SMALL_CODES[_code], ZERO_CODES[_code], SIGNED[_code]
    )
    TEXT_OF[<int>_code] = 0xA1 if IS_STRING[_code] else 0xA3 if _code == _KIND_SYMBOL else 0
cdef dict KINDS = _KINDS
cdef int KIND_LONG = _KIND_LONG
cdef int KIND_SYMBOL = _KIND_SYMBOL
cdef int KIND_BINARY = _KIND_BINARY
cdef int KIND_BOOLEAN = _KIND_BOOLEAN
cdef PyObject *TEXT_TYPE = <PyObject *>str
cdef PyObject *INT_TYPE = <PyObject *>int
cdef PyObject *REAL_TYPE = <PyObject *>float
cdef PyObject *OCTETS_TYPE = <PyObject *>bytes


cdef inline bint put_whole(Output out, int kind, long long number) noexcept:
    """Write an integer in the smallest form of its kind; False where it is out of range.

    There is room for it.
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
    first = number >> 8 * (form.width - 1)  # a byte, and whatever has no room
    if not (-128 <= first <= 127 if form.signed else 0 <= first <= 255):
        return False
    at[0] = <char>form.wide
    for i in range(form.width, 0, -1):
        at[i] = <char>(left & 255)
        left >>= 8
    out.size += form.width + 1
    return True


cdef inline void put_octets(Output out, int code, const char *octets, Py_ssize_t n) noexcept:
    """Write a value with a length of one byte, for which there is room."""
    cdef char *at = out.memory + out.size
    at[0] = <char>code
    at[1] = <char>n
    memcpy(at + 2, octets, n)
    out.size += n + 2


cdef inline int make_room(Output out, Py_ssize_t n) except -1:
    if out.room - out.size < n:
        out.grow(n)
    return 0


cdef inline int put_nulls(Output out, Py_ssize_t count, Py_ssize_t n) except -1:
    """Write the nulls before a field, and make room for it."""
    make_room(out, count + n)
    memset(out.memory + out.size, 0x40, count)
    out.size += count
    return 0


cdef bint write_whole(Output out, int kind, long long number) except -1:
    """Write an integer in the smallest form of its kind; False, and nothing, where it does not fit.

    Raises:
        ValueError: there are no integers of this kind.
    """
    if not 0 <= kind < KINDS_KNOWN or WHOLE_OF[kind].width == 0:
        raise ValueError("no kind of integer")
    make_room(out, 9)
    return put_whole(out, kind, number)


cdef bint write_usual(Output out, value) except -1:
    """Write a value of a usual type and size; False, and nothing, where it is another."""
    cdef PyObject *type_ = amqp_type(<PyObject *>value)
    cdef PyObject *known
    cdef Py_ssize_t n
    cdef int overflow = 0, kind
    cdef long long number
    if type_ == TEXT_TYPE:
        n = ascii_size(value)
        if not 0 <= n <= 255:
            return False
        make_room(out, n + 2)
        put_octets(out, 0xA1, PyUnicode_DATA(value), n)
    elif type_ == INT_TYPE:
        number = PyLong_AsLongLongAndOverflow(value, &overflow)
        if overflow:
            return False
        make_room(out, 9)
        put_whole(out, KIND_LONG, number)
    elif value is True:
        out.octet(0x41)
    elif value is False:
        out.octet(0x42)
    elif value is None:
        out.octet(0x40)
    elif type_ == REAL_TYPE:
        out.double(PyFloat_AS_DOUBLE(value))
    elif type_ == OCTETS_TYPE:
        n = PyBytes_GET_SIZE(<bytes>value)
        if n > 255:
            return False
        make_room(out, n + 2)
        put_octets(out, 0xA0, PyBytes_AS_STRING(<bytes>value), n)
    else:
        known = PyDict_GetItem(KINDS, <object>type_)
        if known == NULL:
            return False
        kind = <object>known
        if kind == KIND_SYMBOL:
            return out.short_ascii(0xA3, value)
        if WHOLE_OF[kind].width == 0:
            return False
        number = PyLong_AsLongLongAndOverflow(value, &overflow)
        make_room(out, 9)
        return not overflow and put_whole(out, kind, number)
    return True


cdef Py_ssize_t write_fields(
    Output out, Slots layout, made, bytes kinds, tuple defaults, Py_ssize_t i
) except -1:
    """Write the fields of a list from the i-th on, until one is not usual; return its place.

    `out.count` is the number of fields that were written, and those of null before the last of
    them: what is None or its default is left out, unless another one follows.
    """
    cdef Py_ssize_t n, gap, count = layout.count
    cdef PyObject *item
    cdef PyObject *default
    cdef PyObject *type_
    cdef int kind, overflow = 0
    cdef long long number
    if not (
        0 <= i <= count
        and 0 <= out.count <= i
        and PyBytes_GET_SIZE(kinds) == count
        and PyTuple_GET_SIZE(defaults) == count
    ):
        raise IndexError("no such field")
    if type(made) is not layout.cls or not layout.direct():
        return i
    while i < count:
        item = amqp_held(made, layout.offsets[i])
        default = PyTuple_GET_ITEM(defaults, i)
        if item == NULL:
            break
        kept = own(item)  # whatever another thread sets meanwhile
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
        gap = i - out.count
        if type_ == TEXT_TYPE:
            n = ascii_size(<object>item)
            if not 0 <= n <= 255 or TEXT_OF[kind] == 0:
                break
            put_nulls(out, gap, n + 2)
            put_octets(out, TEXT_OF[kind], PyUnicode_DATA(<object>item), n)
        elif type_ == INT_TYPE:
            if WHOLE_OF[kind].width == 0:
                break
            number = PyLong_AsLongLongAndOverflow(<object>item, &overflow)
            put_nulls(out, gap, 9)
            if overflow or not put_whole(out, kind, number):
                out.size -= gap
                break
        elif kind == KIND_BOOLEAN and (<object>item is True or <object>item is False):
            put_nulls(out, gap, 1)
            out.octet(0x41 if <object>item is True else 0x42)
        elif kind == KIND_BINARY and type_ == OCTETS_TYPE:
            n = PyBytes_GET_SIZE(<bytes>item)
            if n > 255:
                break
            put_nulls(out, gap, n + 2)
            put_octets(out, 0xA0, PyBytes_AS_STRING(<bytes>item), n)
        else:
            break
        i += 1
        out.count = i
    return i
