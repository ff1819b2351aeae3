# C types for sections.py. Changes in the same commit as sections.py, or the two builds part ways.

cimport cython

from amqp10msg.translate.rabbitmq.reading cimport TermReader
from amqp10msg.translate.rabbitmq.terms cimport section_name

cdef dict _FIELDS, _KINDS


cpdef tuple decoded(term)
@cython.locals(keys=list, fields=list)
cpdef list fields_of(name, value)
@cython.locals(pairs=list)
cdef list _decoded_map(name, list given, bint reserved)
@cython.locals(made=Received, reader=TermReader, start=Py_ssize_t)
cpdef Received received(broker, bytes data)
cpdef annotation(list pairs, bytes name)
cpdef list with_metadata(broker, list annotations, list own)
cpdef check_filter(annotations, path)
cpdef expiration(header, annotations)
cpdef shown(value)
cpdef check_user(bytes name, user)


@cython.final
cdef class Received:
    cdef public list header
    cdef public list annotations
    cdef public list properties
    cdef public list application
    cdef public Py_ssize_t delivery_annotations
    cdef public bint is_header_last
    cdef public Py_ssize_t bare
    cdef public Py_ssize_t body

    cpdef take(self, name, content)
