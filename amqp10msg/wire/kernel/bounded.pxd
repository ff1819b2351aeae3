cimport cython

from amqp10msg.wire.kernel.twin cimport Cursor

# Positions and counts are Py_ssize_t or long long, never a type in which four bytes of the wire
# could look like the error value.

cdef bytes KIND_OF
cdef bytes LEAST
cdef int _DEPTH
cdef long long _ITEMS
cdef long long _ZERO_WIDTH


cpdef bytes octets_of(data, limits)


cdef class Bounded(Cursor):
    cdef begin(self, data, Py_ssize_t pos, limits)

    cpdef fault(self, error, names=*)

    cdef translated(self, error)

    cpdef trailing(self)

    cdef truncated(self, Py_ssize_t pos, Py_ssize_t needed)

    cdef unknown(self, int code, Py_ssize_t pos)

    cdef exceeded(self, what, Py_ssize_t pos)

    cdef too_small(self, Py_ssize_t pos, Py_ssize_t size, int least)

    cdef int enter(self, Py_ssize_t pos) except -1

    @cython.locals(pos=Py_ssize_t)
    cdef Py_ssize_t take(self, Py_ssize_t n) except? -1

    @cython.locals(pos=Py_ssize_t, stop=Py_ssize_t)
    cdef Py_ssize_t span(self, int code) except? -1

    @cython.locals(pending=Py_ssize_t, pos=Py_ssize_t, code=int)
    cpdef skip(self)
