# C types for _natural.py. Changes in the same commit as it, or the two builds part ways.

cimport cython

from amqp10msg.wire.kernel.twin cimport Layout

cdef Layout _MESSAGE
cdef Layout _HEADER
cdef Layout _PROPERTIES
cdef bytes _SLOTS
cdef bytes _IN_HEADER
cdef int _FIRST_ACQUIRER
cdef int _COUNT
cdef list _BLANK_HEADER
cdef list _BLANK_PROPERTIES


@cython.final
cdef class Natural:
    cdef public list header
    cdef public list properties
    cdef public dict annotations
    cdef public dict application
    cdef public dict carried
    cdef public object body
    cdef public object body_octets
    cdef public bint is_data
    cdef bint is_delivered
    cdef bint has_residual
    cdef public list unplaced

    cdef set(self, int index, value)
    @cython.locals(values=list)
    cpdef header_section(self, basic, bint delivered)
    cpdef properties_section(self)
    cpdef message(self, basic)
    cpdef octets_of_body(self)


cdef object _filled(type cls, dict entries)
