# C types for _lossless.py. Changes in the same commit as _lossless.py, or the two builds part ways.

cimport cython

from amqp10msg.translate._reading cimport Reading
from amqp10msg.translate._single cimport translated as by_engine
from amqp10msg.translate.report cimport Notes
from amqp10msg.wire.kernel.messages cimport decode_message


@cython.locals(made=Reading)
cpdef to_basic(message, Notes notes, _=*)
@cython.locals(places=list)
cdef _finished(Reading made, message, Notes notes, bint canonical)
cdef _restored(Reading made, Notes notes)
@cython.locals(kept=list, entries=list)
cdef _packed(basic, dict content)
cpdef to_amqp10(basic, Notes notes, _=*)
cdef bint _has_residual(table) except -1
cdef _decoded(octets, basic)
cdef _symbol(text)
@cython.locals(found=list, rest=list)
cdef _with_residual(basic, Notes notes)
cdef _tell_order(list entries, Notes notes)
cdef _tell_sorted(section, Notes notes)
cdef _fitting(basic, wire, format_, Notes notes)
