# C types for fields.py. Changes in the same commit as fields.py, or the two builds part ways.

cimport cython

from amqp10msg.translate.rabbitmq.terms cimport check_level

cdef dict DOMAINS


cdef _readable(letter, value, path, int level)
cpdef text(bytes data)
cpdef bytes octets(text)
cpdef bint utf8_without_nul(bytes data) except -1
cpdef written(name, value)
