# C types for _reader.py. Changes in the same commit as _reader.py, or the two builds part ways.
#
# Positions and counts are Py_ssize_t or long long, never a type in which four bytes of the wire
# could look like the error value.

cimport cython

from amqp10msg.wire.kernel.twin cimport Cursor, Slot
from amqp10msg.wire.kernel.twin cimport Slots

cdef dict _KNOWN
cdef bytes _WIDTHS
cdef bytes _SIGNED
cdef list _LETTER_OF
cdef int _ARRAY, _BOOLEAN, _BYTES, _DOUBLE, _FLOAT, _INT, _LONG, _LONG_STRING, _SHORT, _STR16, _STR8
cdef int _TABLE, _VOID

cdef long long _signed32(long long number) except? -1


cdef Slot ORIGINAL


@cython.final
cdef class Original:
    cdef readonly bytes octets
    cdef readonly Py_ssize_t start
    cdef readonly Py_ssize_t stop
    cdef readonly object dialect
    cdef readonly list values
    cdef readonly list tables

    @cython.locals(index=Py_ssize_t, before=tuple)
    cdef bint is_said(self, tuple values, dialect) except -1


@cython.final
cdef class PropertyRows:
    cdef readonly tuple rows
    cdef readonly int known
    cdef readonly tuple names
    cdef readonly bytes domains
    cdef list blank
    cdef Slots attributes
    cdef readonly bint keeps

    @cython.locals(original=Original)
    cpdef Original unchanged(self, source, tuple values, dialect)


@cython.final
cdef class BasicReader(Cursor):
    cdef readonly object dialect
    cdef readonly object limits
    cdef bytes known
    cdef bint spec
    cdef list tables
    cdef bint is_odd

    cpdef fault(self, reason, Py_ssize_t offset, rule)
    cdef cut(self, what, Py_ssize_t offset, Py_ssize_t needs, Py_ssize_t end)
    cpdef finish(self)
    @cython.locals(pos=Py_ssize_t, data=bytes)
    cpdef object unsigned(self, int width, what)
    @cython.locals(pos=Py_ssize_t, stop=Py_ssize_t, data=bytes)
    cpdef object shortstr(self)
    @cython.locals(pos=Py_ssize_t, size=Py_ssize_t)
    cpdef object longstr(self)
    @cython.locals(start=Py_ssize_t, flags=int, found=list, domains=bytes, index=int, domain=int)
    cpdef object properties(self, PropertyRows layout)
    cpdef object into(self, Slots layout, list values)
    @cython.locals(data=bytes, pos=Py_ssize_t, stop=Py_ssize_t, after=Py_ssize_t, size=Py_ssize_t,
                   code=int, entries=list)
    cpdef object table(self, int depth)
    @cython.locals(data=bytes, stop=Py_ssize_t, code=int, entries=list)
    cdef object array(self, int depth)
    @cython.locals(pos=Py_ssize_t, size=Py_ssize_t)
    cdef Py_ssize_t enter(self, what, int depth) except? -1
    cdef too_many(self, Py_ssize_t at)
    @cython.locals(data=bytes, pos=Py_ssize_t, start=Py_ssize_t, size=Py_ssize_t,
                   outer=Py_ssize_t, width=int, signed=bint)
    cpdef object value(self, int code, Py_ssize_t stop, int depth)
    @cython.locals(pos=Py_ssize_t)
    cdef Py_ssize_t take(self, int code, int size, Py_ssize_t stop) except? -1
