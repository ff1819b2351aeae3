# C types for _to_basic.py. Changes in the same commit as _to_basic.py, or the two builds part ways.

cimport cython

from amqp10msg.wire.kernel.twin cimport Entries
from amqp10msg.wire.kernel.messages cimport write_message
from amqp10msg.wire.kernel.twin cimport Layout, Text
from amqp10msg.translate._headers cimport header_field, header_of, property_name
from amqp10msg.translate._fields cimport is_data, set_properties, tell_fragile
from amqp10msg.translate._reading cimport Reading
from amqp10msg.translate.report cimport Notes

cdef int DELIVERY_MODE, EXPIRATION, PRIORITY_AT, TYPE
# Typed so that X.__new__(X) is a C call.
cdef type _Data
cdef type _Int
cdef set ROUTES
cdef Py_ssize_t LONGEST_ROUTE
cdef Layout _MESSAGE
cdef Layout _HEADER
cdef dict _LETTERS
cdef dict _BY_ANNOTATION
cdef dict _FOUND
cdef str _INT_LETTERS


@cython.locals(known=str)
cdef bint _is_usual_name(name) except -1


@cython.locals(made=Reading, annotations=dict)
cpdef Reading read(message, wire, Notes notes)
cpdef Reading usual(message, Notes notes)
cdef _delivery(Reading made, dict annotations)
cdef bint _is_transient(Reading made) except -1
@cython.locals(exact=bint)
cdef _header(Reading made, header, delivered, Notes notes)
@cython.locals(sparse=dict, whole=bint, entries=list, letter=str,
               kind=type, held=dict)
cdef _application(Reading made, application, Notes notes)
cdef bint _header_exists(Reading made, name) except -1
@cython.locals(exact=bint, produced=bint, last=int, names=set, saved=bint, letter=str)
cdef _annotations(Reading made, dict annotations, delivered, Notes notes)
cdef _annotated(Reading made, row, value)
cdef _body(Reading made, Notes notes)
