# Positions and counts are 64 bits wide, so that no 32-bit value from the wire equals the error
# value of an `except` clause.

cimport cython

from amqp10msg.wire.kernel.twin cimport Cursor, Slot, AttributeSlots

cdef dict _IS_LETTER_BY_DIALECT
cdef bytes _INTEGER_WIDTH_BY_BYTE
cdef bytes _IS_SIGNED_BY_BYTE
cdef list _LETTER_BY_BYTE
cdef object _TWO_TO_64
cdef int _ARRAY, _BOOLEAN, _BYTES, _DOUBLE, _FLOAT, _INT, _LONG, _LONG_STRING, _SHORT, _STR16, _STR8
cdef int _TABLE, _VOID

cdef long long _signed32(long long number) except? -1


cdef Slot ORIGINAL_SLOT


@cython.final
cdef class Original:
    cdef readonly bytes octets
    cdef readonly Py_ssize_t start, stop
    cdef readonly object dialect
    cdef readonly list values, tables

    cdef bint has_values(self, tuple values, dialect) except -1


@cython.final
cdef class PropertyLayout:
    cdef readonly tuple rows
    cdef readonly int known_flags
    cdef readonly tuple names
    cdef readonly bytes domains
    cdef list blank
    cdef AttributeSlots attributes
    cdef readonly bint keeps

    @cython.locals(original=Original)
    cpdef Original unchanged(self, source, tuple values, dialect)


@cython.final
cdef class BasicReader(Cursor):
    cdef readonly object dialect
    cdef readonly object limits
    cdef bytes known_letters
    cdef bint spec
    cdef list tables
    cdef bint has_odd_true

    cpdef fault(self, reason, Py_ssize_t offset, rule)
    cdef cut(self, subject, Py_ssize_t offset, Py_ssize_t needs, Py_ssize_t end)
    cdef cut_value(self, int code, Py_ssize_t offset, Py_ssize_t needs, Py_ssize_t end)
    cpdef finish(self)
    cpdef object unsigned(self, int width, subject)
    cdef object long(self, Py_ssize_t pos, bint signed)
    cpdef object shortstr(self)
    cpdef object longstr(self)
    @cython.locals(flags=int)
    cpdef object properties(self, PropertyLayout layout)
    cpdef object into(self, AttributeSlots layout, list values)
    cpdef object table(self, int depth)
    cdef object array(self, int depth)
    cdef Py_ssize_t enter(self, subject, int depth) except? -1
    cdef too_many(self, Py_ssize_t offset)
    @cython.locals(signed=bint)
    cpdef object value(self, int code, Py_ssize_t stop, int depth)
    cdef Py_ssize_t advance(self, int code, int size, Py_ssize_t stop) except? -1
