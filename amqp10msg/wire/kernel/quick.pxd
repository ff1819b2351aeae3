from amqp10msg.wire.kernel.sections cimport Spec
from amqp10msg.wire.kernel.twin cimport Layout
from amqp10msg.wire.kernel.value_reader cimport ValueReader


cdef struct Compound:
    const unsigned char *at
    const unsigned char *stop
    Py_ssize_t count


cdef class QuickReader(ValueReader):
    cdef bint begin_compound(self, int short_code, Compound *found) noexcept
    cdef int end_compound(self, Compound *found) except -1
    cdef object quick_fields(self, Spec spec)
    cdef object quick_mapping(self, type cls, int key_code)
    cdef object quick_data(self, Layout layout)
