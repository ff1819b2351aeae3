cimport cython

from amqp10msg.wire.kernel.writer cimport Spec, Writer

cdef dict KIND_OF_PYTHON_TYPE, SPEC_OF_CLASS
cdef list SECTION_SPECS, _ENCODED_NULLS
cdef bytes KIND_ACCEPTS_STRING, INTEGER_WIDTH_OF_KIND
cdef int AMQP_VALUE, DATA, KIND_BINARY, KIND_DESCRIBED, KIND_LIST, KIND_PAIRS, STEP_COPY
cdef int STEP_OPEN, STEP_LIST, STEP_MAP, STEP_FIELDS, STEP_FIELD, STEP_TYPED, STEP_VALUE
cdef int STEP_PROPERTY, STEP_SECTION, STEP_DATA, STEP_SEQUENCE, STEP_BODY, _NULL, _LIST0


@cython.final
cdef class Step:
    cdef readonly int action, kind
    cdef readonly bytes octets
    cdef readonly Py_ssize_t source, index, stop
    cdef readonly object default
    cdef readonly Spec spec


cdef class Pattern:
    cdef readonly list steps
    cdef Py_ssize_t width
    cdef object encode_fallback
    @cython.locals(writer=Writer)
    cdef bytes encode_values(self, tuple values)
    @cython.locals(step=Step, spec=Spec, count=Py_ssize_t, kind=int)
    cdef write(self, Writer writer, tuple values)


cdef write_typed(Writer writer, int kind, value)

@cython.locals(kind=int)
cdef write_body(Writer writer, body)
