# C types for writing.py. Changes in the same commit as writing.py, or the two builds part ways.

cimport cython

from amqp10msg.wire.kernel.twin cimport Output
from amqp10msg.translate.rabbitmq.terms cimport check_level

cdef dict _NUMBERS, _SHORT, _ZERO, _VARIABLE, _CONSTRUCTORS


@cython.locals(writer=TermWriter, terms=list, pending=list)
cpdef bytes rewritten(bytes sections)
@cython.locals(writer=TermWriter)
cpdef bytes generate(term)
cdef bytes _constructor(kind, int level)
@cython.locals(inner=TermWriter)
cdef bytes _element(kind, item, int level)


@cython.final
cdef class TermWriter(Output):
    cpdef section(self, int code, content)
    cpdef term(self, term, int level)
    @cython.locals(size=Py_ssize_t)
    cdef octets(self, int code, bytes octets)
    @cython.locals(short=tuple)
    cdef whole(self, kind, value)
    @cython.locals(mark=Py_ssize_t, items=list, pairs=list)
    cdef compound(self, kind, term, int level)
    cdef end(self, Py_ssize_t mark, int code, Py_ssize_t count)
