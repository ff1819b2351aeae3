# What the compiled kernel shares in C: loads from bytes, output, the attributes of objects.

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.object cimport PyObject
from libc.string cimport memcmp, memcpy


cdef extern from *:
    """
    static CYTHON_INLINE unsigned int amqp_load32(const char *at) {
        const unsigned char *o = (const unsigned char *)at;
        return (unsigned int)o[0] << 24 | (unsigned int)o[1] << 16 | (unsigned int)o[2] << 8 | o[3];
    }
    static CYTHON_INLINE unsigned PY_LONG_LONG amqp_load64(const char *at) {
        return (unsigned PY_LONG_LONG)amqp_load32(at) << 32 | amqp_load32(at + 4);
    }
    /* A slot of an instance, by what Slots found out about its class. */
    static CYTHON_INLINE PyObject **amqp_slot(PyObject *made, Py_ssize_t offset) {
        return (PyObject **)((char *)made + offset);
    }
    /* What threads do at once to one object must leave it whole. With the GIL nothing is needed;
       without it, slots are set and read as CPython's own members are: under the object's lock. */
    #ifdef Py_GIL_DISABLED
        #define AMQP_BEGIN(object) Py_BEGIN_CRITICAL_SECTION(object);
        #define AMQP_END Py_END_CRITICAL_SECTION();
        #define AMQP_PUT(slot, value) _Py_atomic_store_ptr_release(slot, value)
    #else
        #define AMQP_BEGIN(object) {
        #define AMQP_END }
        #define AMQP_PUT(slot, value) (*(slot) = (value))
    #endif
    static CYTHON_INLINE void amqp_set(PyObject *made, Py_ssize_t offset, PyObject *value) {
        PyObject **slot = amqp_slot(made, offset), *before;
        Py_INCREF(value);
        AMQP_BEGIN(made)
        before = *slot;
        AMQP_PUT(slot, value);
        AMQP_END
        Py_XDECREF(before);
    }
    /* What a slot holds, as a reference of one's own; NULL where it is empty. */
    static CYTHON_INLINE PyObject *amqp_held(PyObject *made, Py_ssize_t offset) {
        PyObject *held;
        AMQP_BEGIN(made)
        held = *amqp_slot(made, offset);
        Py_XINCREF(held);
        AMQP_END
        return held;
    }
    /* An empty slot of an object that no other thread knows yet. */
    static CYTHON_INLINE void amqp_hold(PyObject *made, Py_ssize_t offset, PyObject *value) {
        PyObject **slot = amqp_slot(made, offset), *before = *slot;
        Py_INCREF(value);
        *slot = value;
        Py_XDECREF(before);
    }
    """
    unsigned int amqp_load32(const char *at) noexcept nogil
    PyObject **amqp_slot(object made, Py_ssize_t offset)
    void amqp_set(object made, Py_ssize_t offset, PyObject *value)
    void amqp_hold(object made, Py_ssize_t offset, PyObject *value)
    PyObject *amqp_held(object made, Py_ssize_t offset)
    unsigned long long amqp_load64(const char *at) noexcept nogil


@cython.final
cdef class Texts:
    cdef list symbols
    cdef list keys

    cdef object symbol(self, const unsigned char *at, Py_ssize_t n)
    cdef object key(self, const unsigned char *at, Py_ssize_t n)
    cdef object find(self, PyObject *slots, const unsigned char *at, Py_ssize_t n)
    cdef int put(self, PyObject *slots, const unsigned char *at, Py_ssize_t n, text) except -1


cdef Texts TEXTS


cdef class Slots


@cython.final
cdef class Keys:
    cdef tuple keys
    cdef Py_ssize_t *places

    cdef Py_ssize_t place(self, bytes buf, Py_ssize_t start, Py_ssize_t stop) except -2


@cython.final
cdef class QuickPicks:
    cdef list sections
    cdef tuple defaults
    cdef Py_ssize_t body
    # Of `sections`, without references of their own.
    cdef const unsigned char *usual[9]
    cdef PyObject *own[9]
    cdef PyObject *keys[9]
    cdef int[9] ways
    cdef Py_ssize_t[9] wide
    cdef Py_ssize_t[9] known
    cdef int[9][32] places

    cdef tuple pick(self, bytes data)
    cdef tuple read(self, bytes data)
    cdef int put(self, tuple found, Py_ssize_t place, value) except -1


cdef class Cursor:
    cdef readonly bytes buf
    cdef public Py_ssize_t pos
    cdef public Py_ssize_t end
    # What Reader keeps; a class that adds attributes would not use the list of free objects.
    cdef long long count
    cdef Py_ssize_t first
    cdef public int depth
    cdef long long items
    cdef long long zero_width
    cdef public bint lenient

    cdef bint passed(self, Py_ssize_t count) except -1
    cdef object symbol(self, Py_ssize_t start, Py_ssize_t stop)
    cdef object octet_value(self, int code, int octet)
    cpdef object read_message(self, cls, message_format)
    cdef int usual_section(self, int last) except -2
    cdef int odd_section(self, int last, int places, Py_ssize_t start) except -2
    cdef object quick_section(self, int index)
    cdef object other_section(self, int index)
    cdef object wrapped(self, int index, value)
    cdef object quick_fields(
        self, PyObject *layout, const unsigned char *usual, PyObject *defaults
    )
    cdef object quick_mapping(self, PyObject *cls, int key_code)
    cdef object quick_data(self, PyObject *layout)

    cdef inline long long u32(self, Py_ssize_t pos) except? -1:
        if pos < 0 or PyBytes_GET_SIZE(self.buf) - pos < 4:
            raise IndexError("bytes outside the input")
        return amqp_load32(PyBytes_AS_STRING(self.buf) + pos)

    cdef inline long long i64(self, Py_ssize_t pos) except? -1:
        cdef unsigned long long number
        cdef long long made
        if pos < 0 or PyBytes_GET_SIZE(self.buf) - pos < 8:
            raise IndexError("bytes outside the input")
        number = amqp_load64(PyBytes_AS_STRING(self.buf) + pos)
        memcpy(&made, &number, 8)
        return made

    cdef inline double f64(self, Py_ssize_t pos) except? -1:
        cdef unsigned long long number
        cdef double made
        if pos < 0 or PyBytes_GET_SIZE(self.buf) - pos < 8:
            raise IndexError("bytes outside the input")
        number = amqp_load64(PyBytes_AS_STRING(self.buf) + pos)
        memcpy(&made, &number, 8)
        return made

    cdef inline bytes octets(self, Py_ssize_t start, Py_ssize_t stop):
        if not 0 <= start <= stop <= PyBytes_GET_SIZE(self.buf):
            raise IndexError("bytes outside the input")
        return PyBytes_FromStringAndSize(PyBytes_AS_STRING(self.buf) + start, stop - start)

    cdef inline bint holds(
        self, Py_ssize_t start, Py_ssize_t stop, bytes other, Py_ssize_t at
    ) except -1:
        if not (0 <= start <= stop <= PyBytes_GET_SIZE(self.buf) and at >= 0):
            raise IndexError("bytes outside the input")
        if stop - start > PyBytes_GET_SIZE(other) - at:
            return False
        return memcmp(
            PyBytes_AS_STRING(self.buf) + start, PyBytes_AS_STRING(other) + at, stop - start
        ) == 0


# Small questions about objects.
cdef extern from *:
    """
    #include <string.h>
    /* The length of a text of ASCII, a str or of a subclass, -1 for anything else. */
    static CYTHON_INLINE Py_ssize_t text_size(PyObject *text) {
        if (!PyUnicode_Check(text)) return -1;
    #if PY_VERSION_HEX < 0x030C0000
        if (PyUnicode_READY(text) < 0) {
            PyErr_Clear();
            return -1;
        }
    #endif
        return PyUnicode_IS_ASCII(text) ? PyUnicode_GET_LENGTH(text) : -1;
    }
    static CYTHON_INLINE Py_ssize_t ascii_size(PyObject *text) {
        return PyUnicode_CheckExact(text) ? text_size(text) : -1;
    }
    """
    Py_ssize_t ascii_size(object text)


cdef class Output:
    cdef readonly Py_ssize_t size
    cdef Py_ssize_t room
    cdef char *memory
    cdef PyObject *large
    cdef char small[1000]
    # What Writer keeps, as above; and how many fields of a list were written.
    cdef public int depth
    cdef public bint lenient
    cdef Py_ssize_t count

    cdef int grow(self, Py_ssize_t n) except -1
    cdef int add(self, bytes octets) except -1
    cdef int copy(self, bytes buf, Py_ssize_t start, Py_ssize_t stop) except -1
    cdef bint short_ascii(self, int code, text) except -1
    cdef int number(self, int code, int width, long long number) except -1
    cdef int double(self, double number) except -1
    cdef Py_ssize_t begin_compound(self) except -1
    cdef bint end_compound(self, Py_ssize_t mark, int code, Py_ssize_t count) except -1
    cdef int drop_compound(self, Py_ssize_t mark) except -1
    cdef bint integer_of(self, int kind, long long number) except -1
    cdef bint usual(self, value) except -1
    cdef Py_ssize_t usual_fields(
        self, Slots layout, made, bytes kinds, tuple defaults, Py_ssize_t i
    ) except -1
    cpdef bytes finish(self)

    cdef inline int octet(self, int octet) except -1:
        if self.room - self.size < 1:
            self.grow(1)
        self.memory[self.size] = <char>octet
        self.size += 1
        return 0

    cdef inline int pair(self, int code, int octet) except -1:
        if self.room - self.size < 2:
            self.grow(2)
        self.memory[self.size] = <char>code
        self.memory[self.size + 1] = <char>octet
        self.size += 2
        return 0


cdef enum:
    MOST_SLOTS = 32


@cython.final
cdef class Slots:
    cdef readonly type cls
    cdef readonly tuple names
    cdef object set_all
    cdef object get_all
    cdef Py_ssize_t count
    # Of the state of the class that was checked, and where its slots are, in bytes.
    cdef unsigned int version
    cdef bint ordinary
    cdef Py_ssize_t[MOST_SLOTS] offsets

    cdef bint check(self) except -1
    cdef bint direct(self) except -1
    cdef object bare(self)
    cdef tuple values(self, made)
    cdef object first(self, made)
    cdef int fill(self, made, list values) except -1
    cdef object build(self, list values)

    cdef inline int hold(self, made, Py_ssize_t i, value) except -1:
        """Set an attribute of what `bare` made."""
        if not 0 <= i < self.count:
            raise IndexError("no such attribute")
        amqp_hold(made, self.offsets[i], <PyObject *>value)
        return 0


@cython.final
cdef class Slot:
    cdef readonly type cls
    cdef Py_ssize_t offset

    cdef object get(self, made)
    cdef int put(self, made, value) except -1


@cython.final
cdef class FieldOutput(Output):
    cdef bint text(self, int width, text) except -1
    cdef Py_ssize_t begin_table(self) except -1
    cdef bint end_table(self, Py_ssize_t start) except -1
    cdef int real(self, double number) except -1


cdef class Entries:
    @staticmethod
    cdef dict of(mapping)
