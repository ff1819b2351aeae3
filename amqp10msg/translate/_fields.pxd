# C types for _fields.py. Changes in the same commit as it, or the two builds part ways.

cimport cython

from amqp10msg.wire.kernel.twin cimport Layout, Text
from amqp10msg.wire.kernel.writer cimport Writer
from amqp10msg.translate._reading cimport Reading
from amqp10msg.translate.report cimport Notes

cdef Layout _PROPERTIES
cdef tuple _READ
cdef bytes _KINDS
cdef list _TEXTS
cdef list _FIELDS
cdef bytes _FORMS
cdef bytes _TARGETS
cdef list _TEXTS_OF
cdef int _ID
cdef int _BYTES
cdef int _SECONDS
cdef int _KNOWN
cdef int _REPLY_TO
cdef int _SHORT_REPLY


@cython.locals(sparse=dict, empty=bint, values=tuple, index=int)
cpdef set_properties(Reading made, properties, Notes notes)
@cython.locals(known=dict)
cdef tuple _mapped(Reading made, int index, row, value)
@cython.locals(form=int, text=str, known=dict)
cdef object _usual(Reading made, int index, value)
@cython.locals(writer=Writer)
cdef bytes _field_octets(int index, value)
cpdef tell_fragile(row, value, path, Notes notes)
cpdef bint is_data(Reading made) except -1
