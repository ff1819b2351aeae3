# C types for header_values.py. Changes in the same commit as it, or the two builds part ways.

cimport cython

from amqp10msg.translate.rabbitmq.fields cimport text
from amqp10msg.translate.rabbitmq.sections cimport shown
from amqp10msg.translate.rabbitmq.terms cimport check_level, kind_of, untyped
from amqp10msg.translate.report cimport Notes

cdef dict _LETTERS


cpdef tuple usual_field(value)
cpdef seconds_of(value, Notes notes)
cpdef tuple field_of(broker, value, path, Notes notes, int level=*)
@cython.locals(entries=list)
cdef _table(broker, pairs, path, Notes notes, bint top, int level)
cdef _array(broker, items, path, Notes notes, int level)
cdef tuple _element(broker, value, path, Notes notes, int level)
cdef tuple _scalar(value, path, Notes notes)
cpdef bint is_kind(value, kind) except -1
cpdef plain(value)
cpdef short_string(value, name, Notes notes)
