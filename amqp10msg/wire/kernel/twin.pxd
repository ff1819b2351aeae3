# The C interface of `twin.pyx`, for reading and writing bytes and for accessing attributes.

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.object cimport PyObject


cdef extern from *:
    """
    static CYTHON_INLINE unsigned int amqp_load32(const char *at) {
        const unsigned char *o = (const unsigned char *)at;
        return (unsigned int)o[0] << 24 | (unsigned int)o[1] << 16 | (unsigned int)o[2] << 8 | o[3];
    }
    """
    unsigned int amqp_load32(const char *at) noexcept nogil


cdef class AttributeSlots


@cython.final
cdef class Keys:
    cdef tuple keys
    cdef Py_ssize_t *indexes

    cdef Py_ssize_t index_of(self, bytes buf, Py_ssize_t start, Py_ssize_t stop) except -2


@cython.final
cdef class QuickPicks:
    cdef list sections
    cdef tuple defaults
    cdef Py_ssize_t body
    # By section number. `sections` keeps the objects alive.
    cdef const unsigned char *usual[9]   # for each field and format code, whether it is usual
    cdef PyObject *field_defaults[9]     # the defaults of the fields
    cdef PyObject *keys[9]               # the requested keys of a map
    cdef int[9] actions                  # the action: READ_FIELDS, GIVE_UP etc.
    cdef Py_ssize_t[9] requested_counts  # number of fields up to the last requested field
    cdef Py_ssize_t[9] declared_counts   # number of declared fields
    cdef int[9][32] result_indexes       # for each field, its index in the result, or -1

    cdef tuple pick(self, bytes data)


cdef class Cursor:
    cdef readonly bytes buf
    cdef public Py_ssize_t pos
    cdef public Py_ssize_t end
    # State of `Reader`. It is declared here, because a subclass that adds attributes could not use
    # the free list.
    cdef long long count
    cdef Py_ssize_t first
    cdef public int depth
    cdef long long items_left
    cdef long long zero_width_left
    cdef public bint lenient
    cdef public bint accepts_modified_utf8

    cdef long long i64(self, Py_ssize_t pos) except? -1
    cdef double f64(self, Py_ssize_t pos) except? -1
    cdef bytes octets(self, Py_ssize_t start, Py_ssize_t stop)
    cdef bint range_equals(
        self, Py_ssize_t start, Py_ssize_t stop, bytes other, Py_ssize_t at
    ) except -1
    cdef bint passed(self, Py_ssize_t count) except -1
    cdef object symbol(self, Py_ssize_t start, Py_ssize_t stop)
    cdef object name(self, Py_ssize_t start, Py_ssize_t stop)
    cdef object octet_value(self, int code, int octet)
    cpdef object read_message(self, cls, message_format)
    cdef int skip_unusual_descriptor(self, int last, int positions, Py_ssize_t start) except -2
    cdef object read_unusual_section(self, int index)
    cdef object wrapped(self, int index, value)

    cdef inline long long u32(self, Py_ssize_t pos) except? -1:
        if pos < 0 or PyBytes_GET_SIZE(self.buf) - pos < 4:
            raise IndexError("bytes outside the input")
        return amqp_load32(PyBytes_AS_STRING(self.buf) + pos)


cdef class Output:
    cdef readonly Py_ssize_t size
    cdef Py_ssize_t room
    cdef char *memory
    cdef PyObject *large
    cdef char small[1000]
    # State of `Writer`, declared here for the same reason. `count` is the number of fields of a
    # list that were written.
    cdef public int depth
    cdef public bint lenient
    cdef Py_ssize_t count

    cdef int grow(self, Py_ssize_t n) except -1
    cdef int add(self, bytes octets) except -1
    cdef int copy(self, bytes buf, Py_ssize_t start, Py_ssize_t stop) except -1
    cdef int octet(self, int octet) except -1
    cdef int pair(self, int code, int octet) except -1
    cdef bint short_ascii(self, int code, text) except -1
    cdef int number(self, int code, int width, long long number) except -1
    cdef int double(self, double number) except -1
    cdef int real(self, double number) except -1
    cdef Py_ssize_t begin_compound(self) except -1
    cdef bint end_compound(self, Py_ssize_t mark, int code, Py_ssize_t count) except -1
    cdef int drop_compound(self, Py_ssize_t mark) except -1
    cdef bint integer_of(self, int kind, long long number) except -1
    cdef bint usual(self, value) except -1
    cdef Py_ssize_t usual_fields(
        self, AttributeSlots layout, made, bytes kinds, tuple defaults, Py_ssize_t i
    ) except -1
    cpdef bytes finish(self)


cdef enum:
    MOST_SLOTS = 32


@cython.final
cdef class AttributeSlots:
    cdef readonly type cls
    cdef readonly tuple names
    cdef object set_all
    cdef object get_all
    cdef Py_ssize_t count
    # The version of the class when it was checked; the offsets of its slots, in bytes.
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


cdef class Entries:
    @staticmethod
    cdef dict of(mapping)
