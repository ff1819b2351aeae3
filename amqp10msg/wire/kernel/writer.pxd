cimport cython

from amqp10msg.wire.kernel.twin cimport Entries, AttributeSlots
from amqp10msg.wire.kernel.value_writer cimport ValueWriter

cdef dict KIND_OF_PYTHON_TYPE, SPEC_OF_CLASS
cdef list SECTION_SPECS, BODY_SECTION_SPECS, _ENCODED_NULLS
cdef int KIND_BINARY, KIND_DESCRIBED, KIND_LIST, KIND_PAIRS, KIND_SYMBOL, KIND_ULONG, DATA
cdef int AMQP_SEQUENCE, SHAPE_COMPOSITE, SHAPE_ANNOTATIONS, SHAPE_PROPERTIES, SHAPE_BINARY
cdef int SHAPE_SEQUENCE, _NULL, _LIST0


@cython.final
cdef class Spec:
    cdef readonly str name, symbol, attribute
    cdef readonly object code
    cdef readonly int shape, position
    cdef readonly type cls
    cdef readonly AttributeSlots layout
    cdef readonly tuple names, defaults, mandatory
    cdef readonly bytes kinds, multiple, followers, usual, head
    cdef readonly list blank
    cdef readonly bint is_body, is_plain


cdef class Writer(ValueWriter):
    @cython.locals(writer=Writer)
    cdef ValueWriter inner(self)
    cdef composite_or_subclass(self, value)
    cdef bint whole(self, Spec spec, section) except -1
    @cython.locals(spec=Spec, usual=Spec)
    cdef bint body(self, body) except -1
    cpdef section(self, Spec spec, value)
    @cython.locals(i=Py_ssize_t, count=Py_ssize_t, kind=int)
    cdef composite(self, Spec spec, value)
    cdef annotations(self, value)
    @cython.locals(kind=int)
    cdef properties(self, value)


cpdef bint is_default(item, default) except -1
