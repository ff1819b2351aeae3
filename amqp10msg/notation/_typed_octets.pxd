# C types for _typed_octets.py. Changes in the same commit as it, or the two builds part ways.

cimport cython

from amqp10msg.wire.kernel.value_reader cimport ValueReader
from amqp10msg.wire.kernel.value_writer cimport ValueWriter

cdef list _NAMES
cdef bytes KIND_OF
cdef bytes _BITS
cdef dict _IDS
cdef dict _CODES
cdef list _SECTIONS
cdef list _SOURCES
cdef list _HEADS
cdef dict _PLACES
cdef int _FIRST
cdef int KIND_BINARY, KIND_BOOLEAN, KIND_CHAR, KIND_DESCRIBED, KIND_LIST, KIND_LONG
cdef int KIND_MAP, KIND_NULL, KIND_STRING, KIND_SYMBOL, KIND_TIMESTAMP, KIND_UBYTE


@cython.final
cdef class TypedReader(ValueReader):
    @cython.locals(pos=Py_ssize_t, code=int, kind=int, width=int)
    cdef object typed(self)
    @cython.locals(outer=Py_ssize_t, values=list)
    cdef object typed_list(self, int code)
    @cython.locals(outer=Py_ssize_t, pairs=list)
    cdef object typed_map(self, int code)
    @cython.locals(place=int, made=list, typed=list)
    cdef object sections(self)


@cython.locals(reader=TypedReader)
cpdef object typed_message(bytes octets)
@cython.locals(reader=TypedReader)
cpdef object typed_octets(bytes octets)
@cython.locals(kind=int)
cpdef object typed_value(value)


@cython.final
cdef class TypedWriter(ValueWriter):
    @cython.locals(kind=int, size=Py_ssize_t, code=int, octets=bytes)
    cdef item(self, typed)
    @cython.locals(mark=Py_ssize_t)
    cdef items(self, typed)
    @cython.locals(mark=Py_ssize_t, seen=set)
    cdef entries(self, typed)
    @cython.locals(place=int, source=str)
    cdef section(self, typed)


@cython.locals(octets=bytes)
cdef bytes hexed(text)
@cython.locals(writer=TypedWriter)
cpdef object octets_of_message(typed)
@cython.locals(writer=TypedWriter)
cpdef object octets_of_value(typed)
