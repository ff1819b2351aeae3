# C types for _to_amqp10.py. Changes in the same commit as that, or the two builds part ways.

cimport cython

from amqp10msg.wire.kernel.twin cimport Layout, Text
from amqp10msg.translate._headers cimport annotation_of, header_value, is_name
from amqp10msg.translate._natural cimport Natural
from amqp10msg.translate.report cimport Notes

cdef Layout _DATA
cdef Layout _BASIC
cdef Layout _GIVEN
cdef dict _SYMBOLS
cdef set ROUTES
cdef Py_ssize_t LONGEST_ROUTE
cdef tuple _ROWS
cdef tuple _KEYS
cdef bytes _FORMS
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
cdef int _MAX_DIGITS
cdef Py_ssize_t _ANY


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
