cimport cython

from amqp10msg.wire.kernel.twin cimport Layout


@cython.final
cdef class Spec:
    cdef readonly str name
    cdef readonly object code
    cdef readonly str symbol
    cdef readonly int shape
    cdef readonly type cls
    cdef readonly Layout layout
    cdef readonly str attribute
    cdef readonly tuple names
    cdef readonly bytes kinds
    cdef readonly tuple defaults
    cdef readonly tuple mandatory
    cdef readonly bytes multiple
    cdef readonly list blank
    cdef readonly int place
    cdef readonly bint is_body
    cdef readonly bytes followers
    cdef readonly bytes usual
    cdef readonly bytes head
