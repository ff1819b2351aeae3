cimport cython

from amqp10msg.wire.kernel.messages cimport Reader
from amqp10msg.wire.kernel.twin cimport Keys, QuickPicks
from amqp10msg.wire.kernel.writer cimport Spec

cdef object DEFAULT_LIMITS, _NOT_READ
cdef bytes KIND_OF_FORMAT_CODE
cdef dict NAMES_OF_DESCRIPTOR
cdef list SECTION_SPECS
cdef int AMQP_SEQUENCE, DATA, FIRST_SECTION_CODE, FOOTER, FOOTER_CODE, KIND_STRING, KIND_SYMBOL
cdef int KIND_ULONG, SHAPE_ANNOTATIONS, SHAPE_COMPOSITE, SHAPE_PROPERTIES


@cython.final
cdef class SectionPlan:
    cdef Spec spec
    cdef Py_ssize_t whole
    cdef list fields
    cdef Keys keys
    cdef dict numbers


cdef class Picks:
    cdef list plans
    cdef readonly tuple defaults
    cdef Py_ssize_t body
    cdef readonly object limits
    cdef QuickPicks quick
    @cython.locals(reader=Reader)
    cdef tuple picked(self, data)
    @cython.locals(plan=SectionPlan)
    cdef tuple read(self, Reader reader)
    @cython.locals(i=Py_ssize_t, value_index=Py_ssize_t, skip_count=Py_ssize_t)
    cdef read_fields(self, Reader reader, list values, SectionPlan plan)
    @cython.locals(value_index=Py_ssize_t)
    cdef read_entries(self, Reader reader, list values, SectionPlan plan)
    @cython.locals(spec=Spec)
    cdef read_body(self, Reader reader, list values, int index, int previous_body, Py_ssize_t start)


@cython.locals(plan=SectionPlan, spec=Spec)
cdef quick_section(plan)

cdef pass_over(Reader reader, Py_ssize_t count)

cdef joined(list parts, int index)
