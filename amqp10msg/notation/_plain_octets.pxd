# C types for _plain_octets.py. Changes in the same commit as it, or the two builds part ways.

cimport cython

from amqp10msg.wire.kernel.value_reader cimport ValueReader

cdef bytes KIND_OF, IS_MESSAGE_ID, PLACES
cdef list _MARKERS, _SOURCES, _SHOWN, _NAMES, _KINDS
cdef double _INFINITE
cdef int _DOLLAR, _FIRST, _COUNT, _VALUE, _PROPERTIES
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
    @cython.locals(outer=Py_ssize_t, made=list,
                   count="long long", i="long long")
    cdef object values(self, int code)
    @cython.locals(start=Py_ssize_t, stop=Py_ssize_t, pos=Py_ssize_t, text=Py_ssize_t, first=int)
    cdef object mapping(self, int code)
    @cython.locals(outer=Py_ssize_t, pos=Py_ssize_t,
                   count="long long", i="long long", made=dict)
    cdef object entries(self, int code, int wanted, bint simple)
    @cython.locals(outer=Py_ssize_t, pos=Py_ssize_t,
                   count="long long", i="long long", code=int, kind=int, have=int, made=dict,
                   names=list, kinds=bytes)
    cdef object fields(self, int place)
    @cython.locals(code=int, kind=int, place=int, last=int, source=str)
    cdef object sections(self, dict made)


@cython.locals(reader=OctetsReader, made=dict)
cpdef object plain_message(bytes octets, message_format)
@cython.locals(reader=OctetsReader)
cpdef object plain_octets(bytes octets)
