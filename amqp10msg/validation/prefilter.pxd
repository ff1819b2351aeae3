cimport cython

from amqp10msg.wire.kernel.messages cimport Reader

cdef type Symbol
cdef int PLACE_BODY, _PROPERTIES, _MESSAGE_ANNOTATIONS
cdef object _NO_RULES


@cython.final
cdef class Screen:
    cdef readonly tuple fields, keys, key_tests, annotations, values
    cdef readonly dict bodies
    cdef readonly bint is_partial

    cpdef object rules_of(self, tuple sections)


cdef object _union(suspects, tuple rules)
cdef bint has_field(properties, tuple fields) except -1


@cython.locals(reader=Reader)
cpdef object suspected(bytes data, limits, Screen screen)
