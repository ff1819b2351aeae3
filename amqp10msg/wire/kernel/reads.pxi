# Fast paths that read sections in the usual encodings, directly into their classes.
#
# `Reader` reads sections in other encodings. The counterpart in Python is `twin.py`.


# The declarations of sections are never freed, so that readers need not count references to them:
# threads that count references to the same object contend.

cdef enum:
    KINDS_OF_SECTION = 9
    # The number of positions in a message, and the position that the three kinds of body share.
    PARTS = 7
    BODY = 5

# The declaration of a section; see `declare_section`.
cdef struct Shape:
    int shape
    PyObject *cls
    PyObject *layout
    PyObject *defaults
    const unsigned char *usual

cdef Shape SHAPES[KINDS_OF_SECTION]
cdef PyObject *MESSAGE_LAYOUT = NULL
cdef list _DECLARED = []
# The position of each section in a message, by section number.
cdef int PLACE_OF[KINDS_OF_SECTION]
# Whether a section may follow the previous section: by the number of the previous section plus 1
# (0 at the start of the message), and by the number of the section.
cdef bint FOLLOWS[KINDS_OF_SECTION + 1][KINDS_OF_SECTION]
for _i in range(KINDS_OF_SECTION):
    PLACE_OF[<int>_i] = PLACE_OF_SECTION[_i]
    SHAPES[<int>_i].shape = -1
    for _last in range(KINDS_OF_SECTION + 1):
        FOLLOWS[<int>_last][<int>_i] = ALLOWED_NEXT_SECTIONS[_last][FIRST_SECTION_CODE + _i]


def declare_section(
    int index, int shape, type cls, AttributeSlots layout, bytes usual, tuple defaults
):
    """Declare a section for the fast path of `Cursor`.

    Args:
        index: the number of the section: its code minus the code of the header.
        shape: a `SHAPE_` constant of `codes`.
        cls: the section's class.
        layout: the fields of a composite, or the single attribute of a body section.
        usual: for a composite, whether the fast path reads a field, by field and format code.
        defaults: the defaults of the fields.
    """
    if not 0 <= index < KINDS_OF_SECTION:
        raise IndexError("there is no such section")
    if shape == SHAPE_COMPOSITE and (
        layout.count != len(defaults) or len(usual) != layout.count << 8
    ):
        raise ValueError("a composite has a default and usual codes for each field")
    if shape != SHAPE_COMPOSITE and layout.count > 1:
        raise ValueError("a section that is not a composite has at most one value")
    _DECLARED.append((cls, layout, usual, defaults))
    SHAPES[index].shape = shape
    SHAPES[index].cls = <PyObject *>cls
    SHAPES[index].layout = <PyObject *>layout
    SHAPES[index].defaults = <PyObject *>defaults
    SHAPES[index].usual = <const unsigned char *>PyBytes_AS_STRING(usual)


def declare_message(AttributeSlots layout):
    """Declare the attributes of messages: the sections, message-format, bytes and leniency."""
    global MESSAGE_LAYOUT
    if layout.count != PARTS + 3:
        raise ValueError("a message has ten attributes")
    _DECLARED.append(layout)
    MESSAGE_LAYOUT = <PyObject *>layout


cdef extern from *:
    """
    #ifdef Py_GIL_DISABLED
        /* Before CPython 3.14, each lookup of a class method counts references to the method and
           its function, for which threads contend. For methods in C, it does not. */
        static PyObject *amqp_decoder; /* never freed */
        static PyObject *amqp_decode(
            PyObject *cls, PyObject *const *args, Py_ssize_t count, PyObject *names
        ) {
            PyObject *few[8], **all = few, *made;
            Py_ssize_t given = count + (names == NULL ? 0 : PyTuple_GET_SIZE(names));
            if (given > 7) {
                all = (PyObject **)PyMem_Malloc((given + 1) * sizeof(PyObject *));
                if (all == NULL) return PyErr_NoMemory();
            }
            all[0] = cls;
            memcpy(all + 1, args, given * sizeof(PyObject *));
            made = PyObject_Vectorcall(amqp_decoder, all, count + 1, names);
            if (all != few) PyMem_Free(all);
            return made;
        }
        static PyMethodDef amqp_decode_method = {
            "decode", (PyCFunction)(void (*)(void))amqp_decode,
            METH_FASTCALL | METH_KEYWORDS | METH_CLASS, NULL,
        };
        static PyObject *amqp_class_method(PyObject *cls, PyObject *function, const char *doc) {
            Py_INCREF(function);
            Py_XSETREF(amqp_decoder, function);
            amqp_decode_method.ml_doc = doc;
            return PyDescr_NewClassMethod((PyTypeObject *)cls, &amqp_decode_method);
        }
    #else
        static PyObject *amqp_class_method(PyObject *cls, PyObject *function, const char *doc) {
            Py_RETURN_NONE;
        }
    #endif
    """
    object amqp_class_method(object cls, object function, const char *doc)


def declare_decode(cls):
    """Replace `cls.decode` by a class method in C, to avoid contention; a no-op with a GIL."""
    function = cls.__dict__["decode"].__func__
    signature = "decode($type, data, *, limits=None, strict=True, message_format=0)"
    doc = f"{signature}\n--\n\n{function.__doc__}"
    octets = doc.encode()
    _DECLARED.append(octets)
    method = amqp_class_method(cls, function, PyBytes_AS_STRING(octets))
    if method is not None:
        cls.decode = method


cdef inline int init_attribute(PyObject *layout, made, Py_ssize_t i, value) except -1:
    """Set an attribute of a new instance that `bare` returned."""
    if not 0 <= i < (<AttributeSlots>layout).count:
        raise IndexError("no such attribute")
    amqp_init_slot(made, (<AttributeSlots>layout).offsets[i], <PyObject *>value)
    return 0


cdef object message_of(PyObject *cls, PyObject **found, message_format, buf):
    """Create a message from the sections in `found`, whose references it takes over.

    If `cls` is None, return a tuple of the sections.
    """
    cdef PyObject *layout = MESSAGE_LAYOUT
    cdef Py_ssize_t i
    if cls == <PyObject *>None:
        sections = PyTuple_New(PARTS)
        for i in range(PARTS):
            section = None if found[i] == NULL else <object>found[i]
            Py_INCREF(section)  # the tuple takes over a reference
            PyTuple_SET_ITEM(sections, i, section)
        return sections
    if layout == NULL:
        raise TypeError("no class of messages was declared")
    if (
        cls == <PyObject *>(<AttributeSlots>layout).cls
        and (<AttributeSlots>layout).direct()
    ):
        made = amqp_bare(cls)
        for i in range(PARTS):
            if found[i] == NULL:
                amqp_init_slot(made, (<AttributeSlots>layout).offsets[i], <PyObject *>None)
            else:
                amqp_slot(made, (<AttributeSlots>layout).offsets[i])[0] = found[i]
                found[i] = NULL
        init_attribute(layout, made, PARTS, message_format)
        init_attribute(layout, made, PARTS + 1, buf)
        init_attribute(layout, made, PARTS + 2, False)
        return made
    made = (<object>cls).__new__(<object>cls)
    values = [None if found[i] == NULL else <object>found[i] for i in range(PARTS)]
    (<AttributeSlots>layout).fill(made, [*values, message_format, buf, False])
    return made


@cython.freelist(8)
cdef class Cursor:
    """A position in bytes. Reading outside the bytes raises IndexError."""

    def __cinit__(self, *_, **__):
        self.buf = b""  # the methods do not check for None

    cdef long long i64(self, Py_ssize_t pos) except? -1:
        cdef unsigned long long number
        cdef long long made
        if pos < 0 or PyBytes_GET_SIZE(self.buf) - pos < 8:
            raise IndexError("bytes outside the input")
        number = amqp_load64(PyBytes_AS_STRING(self.buf) + pos)
        memcpy(&made, &number, 8)
        return made

    cdef double f64(self, Py_ssize_t pos) except? -1:
        cdef unsigned long long number
        cdef double made
        if pos < 0 or PyBytes_GET_SIZE(self.buf) - pos < 8:
            raise IndexError("bytes outside the input")
        number = amqp_load64(PyBytes_AS_STRING(self.buf) + pos)
        memcpy(&made, &number, 8)
        return made

    cdef bytes octets(self, Py_ssize_t start, Py_ssize_t stop):
        if not 0 <= start <= stop <= PyBytes_GET_SIZE(self.buf):
            raise IndexError("bytes outside the input")
        return PyBytes_FromStringAndSize(PyBytes_AS_STRING(self.buf) + start, stop - start)

    cdef bint range_equals(
        self, Py_ssize_t start, Py_ssize_t stop, bytes other, Py_ssize_t at
    ) except -1:
        if not (0 <= start <= stop <= PyBytes_GET_SIZE(self.buf) and at >= 0):
            raise IndexError("bytes outside the input")
        if stop - start > PyBytes_GET_SIZE(other) - at:
            return False
        return memcmp(
            PyBytes_AS_STRING(self.buf) + start, PyBytes_AS_STRING(other) + at, stop - start
        ) == 0

    cdef bint passed(self, Py_ssize_t count) except -1:
        """Skip `count` values; if one is described or invalid, skip none and return False."""
        cdef const unsigned char *base = <const unsigned char *>PyBytes_AS_STRING(self.buf)
        cdef const unsigned char *at
        if not 0 <= self.pos <= self.end <= PyBytes_GET_SIZE(self.buf):
            return False
        at = base + self.pos
        while count > 0:
            count -= 1
            at = after(at, base + self.end)
            if at == NULL:
                return False
        self.pos = at - base
        return True

    cdef object symbol(self, Py_ssize_t start, Py_ssize_t stop):
        """Decode a symbol; raise UnicodeDecodeError if the bytes are not ASCII."""
        if not 0 <= start <= stop <= PyBytes_GET_SIZE(self.buf):
            raise IndexError("bytes outside the input")
        return TEXTS.symbol(
            <const unsigned char *>PyBytes_AS_STRING(self.buf) + start, stop - start
        )

    cdef object name(self, Py_ssize_t start, Py_ssize_t stop):
        """Decode a name of 0-9-1; bytes that are not UTF-8 become surrogates.

        Short names recur in many messages, so they are cached like keys.
        """
        cdef const unsigned char *at
        if not 0 <= start <= stop <= PyBytes_GET_SIZE(self.buf):
            raise IndexError("bytes outside the input")
        at = <const unsigned char *>PyBytes_AS_STRING(self.buf) + start
        try:
            return TEXTS.key(at, stop - start)
        except UnicodeDecodeError:
            return PyUnicode_DecodeUTF8(<const char *>at, stop - start, b"surrogateescape")

    cdef object octet_value(self, int code, int octet):
        """Return the value of a format code from 0x50 to 0x54 and its byte of data."""
        return octet_value(code, octet)

    cpdef object read_message(self, cls, message_format):
        """Read the sections of a message; return an instance of the class.

        If the class is None, return the sections as a tuple; None for a missing section.
        """
        cdef PyObject *found[PARTS]
        cdef Py_ssize_t start
        cdef int index, place, i, last = -1, places = 0, bodies = 0
        for i in range(PARTS):
            found[i] = NULL
        try:
            while self.pos < self.end:
                start = self.pos
                index = usual_section(self, last)
                if index < 0:
                    index = self.skip_unusual_descriptor(last, places, start)
                    if not 0 <= index < KINDS_OF_SECTION:
                        raise IndexError("there is no such section")
                last = index
                section = quick_section(self, index)
                if section is None:
                    section = self.read_unusual_section(index)
                place = PLACE_OF[index]
                if place == BODY:
                    bodies += 1
                    if bodies > 2:
                        (<list>found[BODY]).append(section)
                        continue
                    if bodies == 2:
                        section = [<object>found[BODY], section]
                places |= 1 << place
                Py_INCREF(section)
                Py_XDECREF(found[place])
                found[place] = <PyObject *>section
            return message_of(<PyObject *>cls, found, message_format, self.buf)
        finally:
            for i in range(PARTS):
                Py_XDECREF(found[i])

    cdef int skip_unusual_descriptor(self, int last, int positions, Py_ssize_t start) except -2:
        raise NotImplementedError

    cdef object read_unusual_section(self, int index):
        raise NotImplementedError

    cdef object wrapped(self, int index, value):
        """Return a body section, whose number is `index`, with a value."""
        if not 0 <= index < KINDS_OF_SECTION or SHAPES[index].shape <= SHAPE_PROPERTIES:
            raise IndexError("there is no such section")
        return body_of(SHAPES[index].layout, value)


cdef int usual_section(Cursor cursor, int last) except -2:
    """Skip a section's descriptor in the usual encoding; return the section's number.

    Returns -1, without moving the cursor, for any other descriptor, and for a section that may not
    follow the section `last` (-1 at the start of the message).
    """
    cdef const unsigned char *at
    cdef int index
    if (
        not 0 <= cursor.pos <= cursor.end - 3
        or cursor.end > PyBytes_GET_SIZE(cursor.buf)
        or not -1 <= last < KINDS_OF_SECTION
    ):
        return -1
    at = <const unsigned char *>PyBytes_AS_STRING(cursor.buf) + cursor.pos
    index = at[2] - 0x70
    if (
        at[0] != 0
        or at[1] != 0x53
        or not 0 <= index < KINDS_OF_SECTION
        or not FOLLOWS[last + 1][index]
    ):
        return -1
    cursor.pos += 3
    return index


# The fast path for the content of sections, in the encodings that nearly all messages use. The
# functions return the same result as `Reader`. In an unusual or invalid case, they return None
# without moving the cursor, so that `Reader` reads the section or raises the error.


cdef object quick_section(Cursor cursor, int index):
    """Read the value after a section's descriptor into its class, or return None."""
    cdef Shape *known
    if not 0 <= index < KINDS_OF_SECTION:
        return None
    known = &SHAPES[index]
    if known.shape == SHAPE_COMPOSITE:
        return quick_fields(cursor, known.layout, known.usual, known.defaults)
    if known.shape == SHAPE_PROPERTIES:
        return quick_mapping(cursor, known.cls, 0xA1)
    if known.shape == SHAPE_ANNOTATIONS:
        return quick_mapping(cursor, known.cls, 0xA3)
    if known.shape == SHAPE_BINARY:
        return quick_data(cursor, known.layout)
    return None


cdef object quick_fields(
    Cursor cursor, PyObject *layout, const unsigned char *usual, PyObject *defaults
):
    """Read the list of a composite into its class, or return None."""
    cdef Compound found
    cdef const unsigned char *at
    cdef const unsigned char *end
    cdef Py_ssize_t i
    if (
        not enter_compound(cursor, 0xC0, &found)
        or found.count > (<AttributeSlots>layout).count
        or not (<AttributeSlots>layout).direct()
    ):
        return None
    at = found.at
    made = (<AttributeSlots>layout).bare()
    try:
        for i in range(found.count):
            end = after(at, found.stop)
            if end == NULL or not usual[i << 8 | at[0]]:
                return None
            if at[0] != 0x40:
                init_attribute(layout, made, i, field_at(at, end))
            at = end
    except UnicodeDecodeError:
        return None
    if at != found.stop:
        return None
    for i in range((<AttributeSlots>layout).count):
        if amqp_slot(made, (<AttributeSlots>layout).offsets[i])[0] == NULL:
            amqp_init_slot(
                made, (<AttributeSlots>layout).offsets[i], PyTuple_GET_ITEM(<tuple>defaults, i)
            )
    leave_compound(cursor, &found)
    return made


cdef object quick_mapping(Cursor cursor, PyObject *cls, int key_code):
    """Read the map of a section into its class, or return None."""
    cdef Compound found
    cdef const unsigned char *at
    cdef const unsigned char *end
    cdef const unsigned char *stop
    cdef Py_ssize_t i, n
    if not enter_compound(cursor, 0xC1, &found) or found.count & 1:
        return None
    at = found.at
    stop = found.stop
    made = amqp_new(cls)
    try:
        for i in range(found.count >> 1):
            if stop - at < 2 or at[0] != key_code or at[1] > stop - at - 2:
                return None
            n = at[1]
            key = TEXTS.key(at + 2, n) if key_code == 0xA1 else TEXTS.symbol(at + 2, n)
            at += n + 2
            end = after(at, stop)
            if end == NULL:
                return None
            value = entry_at(at, end)
            if <PyObject *>value == <PyObject *>_UNUSUAL:
                return None
            PyDict_SetItem(made, key, value)
            at = end
    except UnicodeDecodeError:
        return None
    # With a duplicate key, the dict has fewer entries.
    if at != stop or PyDict_Size(made) != found.count >> 1:
        return None
    leave_compound(cursor, &found)
    return made


cdef object quick_data(Cursor cursor, PyObject *layout):
    """Read a binary into the class of a data section, or return None."""
    cdef const unsigned char *at
    cdef Py_ssize_t left, n
    if not 0 <= cursor.pos <= cursor.end <= PyBytes_GET_SIZE(cursor.buf):
        return None
    at = <const unsigned char *>PyBytes_AS_STRING(cursor.buf) + cursor.pos
    left = cursor.end - cursor.pos
    if left >= 2 and at[0] == 0xA0:
        n = at[1]
        at += 2
        left -= 2
    elif left >= 5 and at[0] == 0xB0:
        n = amqp_load32(<const char *>at + 1)
        at += 5
        left -= 5
    else:
        return None
    if n > left:
        return None
    made = body_of(layout, <bytes>(<const char *>at)[:n])
    cursor.pos = cursor.end - left + n
    return made


cdef inline object body_of(PyObject *layout, value):
    """Return a body section with a value; `layout` is that of its class."""
    if (<AttributeSlots>layout).count != 1 or not (<AttributeSlots>layout).direct():
        return (<AttributeSlots>layout).build([value])
    made = (<AttributeSlots>layout).bare()
    init_attribute(layout, made, 0, value)
    return made
