# C types for _to_amqp10.py. Changes in the same commit as that, or the two builds part ways.

cimport cython

from amqp10msg._core.twin cimport Layout, Text
from amqp10msg.translate._headers cimport annotation_of, header_value, is_name
from amqp10msg.translate.report cimport Notes

cdef Layout _MESSAGE
cdef Layout _HEADER
cdef Layout _PROPERTIES
cdef Layout _DATA
cdef Layout _BASIC
cdef Layout _GIVEN
cdef dict _SYMBOLS
cdef set ROUTES
cdef Py_ssize_t LONGEST_ROUTE
cdef tuple _ROWS
cdef tuple _KEYS
cdef bytes _FORMS
cdef bytes _SLOTS
cdef bytes _IN_HEADER
cdef bytes _IN_FIELD
cdef list _SYMBOLS_OF
cdef int _ID
cdef int _BYTES
cdef int _DIGITS
cdef int _SECONDS
cdef int _PERSISTENT
cdef int _KNOWN
cdef list _INTS
cdef int _TYPE
cdef int _FIRST_ACQUIRER
cdef int _COUNT
cdef list _BLANK_HEADER
cdef list _BLANK_PROPERTIES
cdef int _MAX_DIGITS
cdef Py_ssize_t _ANY


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
@cython.locals(known=str)
cdef bint is_ascii(text) except -1
cpdef bint is_finite(double number) except -1
@cython.locals(known=str)
cdef bint is_extension(name) except -1
cdef bint _is_usual_name(name) except -1
cdef object int_of(long long number)
cpdef object translated(basic, Notes notes)
cpdef bint is_delivered(basic) except -1
@cython.locals(made=Natural, values=tuple, is_routed=bint)
cpdef Natural natural(basic, entries, Notes notes)
cdef _marked_body(Natural made, basic)
@cython.locals(index=int)
cdef _properties(Natural made, tuple values, Notes notes)
@cython.locals(form=int, text=str, known=dict)
cdef object _usual(Natural made, int index, value)
cdef _by_rule(Natural made, int index, value, Notes notes)
@cython.locals(annotations=dict, application=dict, fields=dict, order=list, whole=bint,
               mixed=bint, position=Py_ssize_t, size=Py_ssize_t, exact=bint, simple=bint)
cdef _headers(Natural made, list entries, Notes notes)
