# C types for _reading.py. Changes in the same commit as it, or the two builds part ways.

cimport cython

from amqp10msg.wire.kernel.twin cimport Layout

cdef Layout _GIVEN
cdef Layout _BASIC
cdef list _BLANK
cdef int _HEADERS


@cython.final
cdef class Reading:
    cdef public object message
    cdef public object body
    cdef public object raw
    cdef public object basic
    cdef list given
    cdef object payload
    cdef object exchange
    cdef object routing_key
    cdef object redelivered
    cdef public list entries
    cdef public dict carried
    cdef public object saved
    cdef public object restored
    cdef public Py_ssize_t split
    cdef public bint certain

    cdef build(self)


cpdef object with_headers(basic, table)
