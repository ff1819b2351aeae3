cimport cython

from amqp10msg.wire.kernel.messages cimport Reader

cdef type Symbol
cdef int PLACE_BODY, _PROPERTIES_PLACE, _MESSAGE_ANNOTATIONS_PLACE
cdef object _NO_RULE_IDS


@cython.final
cdef class Screen:
    cdef readonly tuple fields, keys, key_tests, annotations, values
    cdef readonly dict bodies
    cdef readonly bint is_partial

    cpdef object rules_of(self, tuple sections)


cdef object _add_rule_ids(suspects, tuple rules)
cdef bint has_any_field(properties, tuple fields) except -1


@cython.locals(reader=Reader)
cpdef object suspected(bytes data, limits, Screen screen)
