# C types for reading.py. Changes in the same commit as reading.py, or the two builds part ways.

cimport cython

from amqp10msg.wire.kernel.twin cimport Cursor
from amqp10msg.translate.rabbitmq.terms cimport check_level

cdef int _CONSTANT, _UNSIGNED, _SIGNED, _VARIABLE, _BOOLEAN
cdef int _FLOAT, _DECIMAL, _UUID, _LIST, _MAP, _ARRAY
cdef bytes _FORMS
cdef bytes _WIDTHS
cdef list _NAMES
cdef list _CONSTANTS


@cython.final
cdef class TermReader(Cursor):
    cdef dict arrays
    cdef bint opaque_zero_width
    cdef bint wide_boolean
    cdef str unread

    cpdef term(self)
    @cython.locals(pos=Py_ssize_t, code=int)
    cdef value(self, Py_ssize_t end, int level)
    @cython.locals(form=int, width=int, pos=Py_ssize_t, start=Py_ssize_t, size="long long",
                   octets=bytes, flag=bint)
    cdef primitive(self, int code, Py_ssize_t end, int level)
    cdef Py_ssize_t take(self, long long size, Py_ssize_t end) except? -1
    @cython.locals(form=int, width=int, pos=Py_ssize_t, start=Py_ssize_t, stop=Py_ssize_t,
                   at=Py_ssize_t, count="long long", items=list)
    cdef compound(self, int code, Py_ssize_t end, int level)
    @cython.locals(code=int, items=list, inner=tuple)
    cdef array(self, int whole, count, Py_ssize_t stop, int level)
