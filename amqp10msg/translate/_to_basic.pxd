# C types for _to_basic.py. Changes in the same commit as _to_basic.py, or the two builds part ways.

cimport cython

from amqp10msg._core.entries cimport Entries
from amqp10msg._core.scan cimport write_message
from amqp10msg._core.twin cimport Layout, Text
from amqp10msg._core.writer cimport Writer
from amqp10msg.translate._headers cimport header_field, header_of, property_name
from amqp10msg.translate.report cimport Notes

# Typed so that X.__new__(X) is a C call.
cdef type _Data
cdef type _Int
cdef set ROUTES
cdef Py_ssize_t LONGEST_ROUTE
cdef Layout _MESSAGE
cdef Layout _PROPERTIES
cdef Layout _HEADER
cdef Layout _GIVEN
cdef Layout _BASIC
cdef dict _LETTERS
cdef dict _BY_ANNOTATION
cdef dict _FOUND
cdef tuple _READ
cdef bytes _KINDS
cdef list _TEXTS
cdef list _FIELDS
cdef bytes _FORMS
cdef bytes _TARGETS
cdef str _INT_LETTERS
cdef list _BLANK
cdef list _TEXTS_OF
cdef int _ID
cdef int _BYTES
cdef int _SECONDS
cdef int _KNOWN
cdef int _HEADERS
cdef int _DELIVERY_MODE
cdef int _PRIORITY_AT
cdef int _EXPIRATION
cdef int _TYPE


@cython.locals(known=str)
cdef bint _is_usual_name(name) except -1


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
@cython.locals(made=Reading, annotations=dict)
cpdef Reading read(message, wire, Notes notes)
cpdef Reading usual(message, Notes notes)
cdef _delivery(Reading made, dict annotations)
cdef bint _is_transient(Reading made) except -1
@cython.locals(exact=bint)
cdef _header(Reading made, header, delivered, Notes notes)
@cython.locals(sparse=dict, empty=bint, values=tuple, index=int)
cdef _properties(Reading made, properties, Notes notes)
@cython.locals(known=dict)
cdef tuple _mapped(Reading made, int index, row, value)
@cython.locals(form=int, text=str, known=dict)
cdef object _usual(Reading made, int index, value)
@cython.locals(writer=Writer)
cdef bytes _field_octets(int index, value)
cdef bint _is_data(Reading made) except -1
@cython.locals(sparse=dict, whole=bint, entries=list, letter=str,
               kind=type, held=dict)
cdef _application(Reading made, application, Notes notes)
cdef bint _header_exists(Reading made, name) except -1
@cython.locals(exact=bint, produced=bint, last=int, names=set, saved=bint, letter=str)
cdef _annotations(Reading made, dict annotations, delivered, Notes notes)
cdef _annotated(Reading made, row, value)
cdef _body(Reading made, Notes notes)
