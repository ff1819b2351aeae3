cimport cython

from amqp10msg.wire.kernel.twin cimport Entries, Slots
from amqp10msg.wire.kernel.value_writer cimport ValueWriter

cdef dict KINDS
cdef dict SPECS
cdef list SECTIONS
cdef list BODIES
cdef list _NULLS
cdef int KIND_BINARY, KIND_DESCRIBED, KIND_LIST, KIND_PAIRS, KIND_SYMBOL
cdef int KIND_ULONG
cdef int DATA, AMQP_SEQUENCE
cdef int SHAPE_COMPOSITE, SHAPE_ANNOTATIONS, SHAPE_PROPERTIES, SHAPE_BINARY, SHAPE_SEQUENCE
cdef int _NULL, _LIST0


@cython.final
cdef class Spec:
    cdef readonly str name
    cdef readonly object code
    cdef readonly str symbol
    cdef readonly int shape
    cdef readonly type cls
    cdef readonly Slots layout
    cdef readonly str attribute
    cdef readonly tuple names
    cdef readonly bytes kinds
    cdef readonly tuple defaults
    cdef readonly tuple mandatory
    cdef readonly bytes multiple
    cdef readonly list blank
    cdef readonly int place
    cdef readonly bint is_body
    cdef readonly bint is_plain
    cdef readonly bytes followers
    cdef readonly bytes usual
    cdef readonly bytes head


cdef class Writer(ValueWriter):
    @cython.locals(writer=Writer)
    cdef ValueWriter inner(self)
    cdef other(self, value)
    cdef bint whole(self, Spec spec, section) except -1
    @cython.locals(spec=Spec, usual=Spec)
    cdef bint body(self, body) except -1
    @cython.locals(shape=int)
    cpdef section(self, Spec spec, value)
    @cython.locals(items=tuple, kind=int, count=Py_ssize_t, known=Py_ssize_t, i=Py_ssize_t,
                   mark=Py_ssize_t)
    cdef composite(self, Spec spec, value)
    @cython.locals(apart=ValueWriter)
    cdef loosely(self, int kind, item)
    cdef several(self, int kind, values)
    @cython.locals(mark=Py_ssize_t, entries=dict)
    cdef annotations(self, value)
    @cython.locals(mark=Py_ssize_t, kind=int, entries=dict)
    cdef properties(self, value)


cpdef bint is_default(item, default) except -1
