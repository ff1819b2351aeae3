# C types for _plain_octets.py. Changes in the same commit as it, or the two builds part ways.

cimport cython

from amqp10msg._core.value_reader cimport ValueReader
from amqp10msg._core.value_writer cimport ValueWriter

cdef bytes KIND_OF, IS_MESSAGE_ID, PLACES
cdef list _MARKERS, _SOURCES, _HEADS, _SHOWN, _NAMES, _KINDS, _FIELDS, _NULLS
cdef dict _MARKED, _SECTIONS
cdef str _BASE64, _HEX
cdef double _INFINITE
cdef int _FIRST, _COUNT, _VALUE, _PROPERTIES
cdef int KIND_ADDRESS, KIND_ARRAY, KIND_BINARY, KIND_BOOLEAN, KIND_DOUBLE, KIND_FLOAT
cdef int KIND_LIST, KIND_LONG, KIND_MAP, KIND_MESSAGE_ID, KIND_NULL, KIND_STRING, KIND_SYMBOL
cdef int KIND_TIMESTAMP, KIND_UBYTE, KIND_ULONG, KIND_UUID


@cython.final
cdef class OctetsReader(ValueReader):
    @cython.locals(pos=Py_ssize_t)
    cdef object item(self)
    @cython.locals(kind=int, number=double)
    cdef object generic(self, int code)
    @cython.locals(pos=Py_ssize_t)
    cdef object natural(self, int kind, int code)
    @cython.locals(start=Py_ssize_t, stop=Py_ssize_t, outer=Py_ssize_t, made=list,
                   count="long long", i="long long")
    cdef object values(self, int code)
    @cython.locals(start=Py_ssize_t, stop=Py_ssize_t, pos=Py_ssize_t, text=Py_ssize_t, first=int)
    cdef object mapping(self, int code)
    @cython.locals(start=Py_ssize_t, stop=Py_ssize_t, outer=Py_ssize_t, pos=Py_ssize_t,
                   count="long long", i="long long", made=dict)
    cdef object entries(self, int code, int wanted, bint simple)
    @cython.locals(start=Py_ssize_t, stop=Py_ssize_t, outer=Py_ssize_t, pos=Py_ssize_t,
                   count="long long", i="long long", code=int, kind=int, have=int, made=dict,
                   names=list, kinds=bytes)
    cdef object fields(self, int place)
    @cython.locals(pos=Py_ssize_t, code=int, kind=int, place=int, last=int, source=str)
    cdef object sections(self, dict made)


@cython.locals(reader=OctetsReader, made=dict)
cpdef object plain_message(bytes octets, message_format)
@cython.locals(reader=OctetsReader)
cpdef object plain_octets(bytes octets)


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
