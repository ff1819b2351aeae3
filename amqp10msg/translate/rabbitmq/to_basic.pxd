# C types for to_basic.py. Changes in the same commit as to_basic.py, or the two builds part ways.

cimport cython

from amqp10msg.wire.kernel.twin cimport Layout
from amqp10msg.translate.rabbitmq.fields cimport text, utf8_without_nul, written
from amqp10msg.translate.rabbitmq.header_values cimport (
    field_of,
    is_kind,
    plain,
    seconds_of,
    short_string,
    usual_field,
)
from amqp10msg.translate.rabbitmq.sections cimport Received, annotation, expiration, received, shown
from amqp10msg.translate.rabbitmq.terms cimport untyped
from amqp10msg.translate.rabbitmq.writing cimport TermWriter
from amqp10msg.translate.report cimport Notes

cdef int ABSOLUTE_EXPIRY_TIME, CONTENT_ENCODING, CONTENT_TYPE, CORRELATION_ID, CREATION_TIME
cdef int DURABLE, GROUP_ID, GROUP_SEQUENCE, MESSAGE_ID, PRIORITY, REPLY_TO, REPLY_TO_GROUP_ID
cdef int SUBJECT, TO, USER_ID
cdef Layout _GIVEN
cdef Layout _BASIC
cdef list _BLANK
cdef tuple _DATA_HEADS, _OWN_ANNOTATIONS, _INTERNAL, PROPERTY_NAMES


@cython.final
cdef class _Arrived:
    cdef bint durable
    cdef object priority
    cdef object expiration


@cython.locals(found=Received, arrived=_Arrived, annotations=list, fields=list, extra=list,
               index=int)
cpdef to_basic(broker, bytes data, Notes notes, given)
cdef list _stored(list annotations)
@cython.locals(start=Py_ssize_t, body=list, writer=TermWriter, content=list)
cdef tuple _payload(broker, bytes data, Received found, Notes notes)
@cython.locals(annotations=list)
cdef _transport(made, Received found, _Arrived arrived)
cdef _durable(broker, list header, list annotations)
cdef _priority(list header, list annotations)
@cython.locals(out=list, name=bytes, simple=tuple)
@cython.locals(out=list, simple=tuple)
cdef tuple _id(value, bytes header, Notes notes)
cdef _queue_of(broker, value, Notes notes)
cdef _check_user(list properties, user)
@cython.locals(entries=list)
cdef _sorted(list fields, Notes notes)
