# C types for _plain_items.py. Changes in the same commit as it, or the two builds part ways.

cimport cython

from amqp10msg.wire.kernel.value_writer cimport ValueWriter

cdef bytes PLACES
cdef list _SOURCES, _HEADS, _NAMES, _KINDS, _FIELDS, _NULLS
cdef dict _MARKED, _SECTIONS
cdef str _BASE64, _HEX
cdef int _COUNT, _VALUE, _PROPERTIES
cdef int KIND_ADDRESS, KIND_BINARY, KIND_BOOLEAN, KIND_DOUBLE, KIND_FLOAT, KIND_LONG
cdef int KIND_MESSAGE_ID, KIND_STRING, KIND_SYMBOL, KIND_TIMESTAMP, KIND_UBYTE, KIND_ULONG
cdef int KIND_UUID, PLACE_BODY


@cython.final
cdef class OctetsWriter(ValueWriter):
    cdef item(self, plain)
    @cython.locals(mark=Py_ssize_t)
    cdef items(self, list plain)
    cdef mapping(self, dict plain)
    @cython.locals(mark=Py_ssize_t)
    cdef entries(self, dict plain, int wanted)
    @cython.locals(kind=int)
    cdef marker(self, dict plain, str name, content)
    cdef natural(self, int kind, plain)
    @cython.locals(places=dict, kinds=bytes, held=list, i=Py_ssize_t, count=Py_ssize_t,
                   mark=Py_ssize_t)
    cdef composite(self, int place, dict plain)
    @cython.locals(source=str)
    cdef section(self, int place, plain)
    @cython.locals(given=list, place=int, has_value=bint, bodies=int)
    cdef object message(self, plain)


@cython.locals(writer=OctetsWriter)
cpdef object octets_of_message(plain)
@cython.locals(writer=OctetsWriter)
cpdef object octets_of_value(plain)
