# C types for checking.py. Changes in the same commit as checking.py, or the two builds part ways.

cimport cython

from amqp10msg.translate.rabbitmq.reading cimport TermReader

cdef dict _SHAPES, _RANKS
cdef tuple _DESCRIPTORS
cdef int DATA, FOOTER


@cython.locals(reader=TermReader, last=int, pos=Py_ssize_t, count=int, rank=int, again=bint,
               shape=bytes)
cpdef check(bytes data)
