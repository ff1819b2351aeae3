# C types for from_basic.py. Changes in the same commit as from_basic.py, or the two builds part
# ways.

cimport cython

from amqp10msg.translate.rabbitmq.fields cimport octets, utf8_without_nul
from amqp10msg.translate.rabbitmq.sections cimport (
    Received,
    check_filter,
    check_user,
    decoded,
    expiration,
    received,
    with_metadata,
)
from amqp10msg.translate.rabbitmq.terms cimport check_level
from amqp10msg.translate.rabbitmq.writing cimport TermWriter
from amqp10msg.translate.report cimport Notes

cdef int CONTENT_ENCODING, CONTENT_TYPE, CORRELATION_ID, CREATION_TIME, DELIVERY_COUNT
cdef int FIRST_ACQUIRER, GROUP_ID, MESSAGE_ID, REPLY_TO, TTL, USER_ID
cdef dict _NUMBERS, _FORGED, BODY_CODES
cdef int _LONGSTR_TEXT


@cython.locals(found=dict, header=list, writer=TermWriter)
cpdef bytes to_amqp10(broker, basic, Notes notes, given)
@cython.locals(found=Received, writer=TermWriter)
cdef bytes _from_stream(broker, bytes stored, given)
cdef list _trimmed(broker, fields)
@cython.locals(header=list, parts=list, forged=bint)
cdef dict _from_basic(broker, basic, Notes notes)
@cython.locals(found=dict, body=list)
cdef dict _folded(list parts)
cdef _forged(broker, table, section)
@cython.locals(fields=list)
cdef list _properties(broker, given, Notes notes)
cdef bytes _reply_address(broker, bytes queue)
@cython.locals(pairs=list)
cdef list _application_properties(table, Notes notes)
@cython.locals(pairs=list)
cdef list _annotations(table, given, Notes notes)
cdef _seconds(moment)
@cython.locals(data=bytes)
cdef _id_term(broker, text, name)
cdef _simple(letter, value)
cdef _from_field(letter, value, path, Notes notes, int level)
